"""How operators are lowered, a file for each family."""
