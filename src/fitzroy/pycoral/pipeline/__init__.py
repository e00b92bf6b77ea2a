"""Models in segments, each on a device of its own."""
