"""Heads of detectors: what a model's outputs mean, and one operator in their place."""
