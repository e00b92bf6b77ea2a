"""Pictures and tables of what the simulator found out."""
