"""How long programs take on real machines, and what that says of the machines."""
