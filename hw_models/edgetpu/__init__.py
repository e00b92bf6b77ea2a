"""Simulator of the Edge TPU, one module per unit."""
