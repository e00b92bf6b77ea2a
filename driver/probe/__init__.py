"""Tiny programs that show whether a device does what the simulator says."""
