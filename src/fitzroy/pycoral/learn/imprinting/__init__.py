"""Learning by imprinting weights."""
