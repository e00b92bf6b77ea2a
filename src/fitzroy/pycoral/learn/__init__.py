"""Classifiers that learn classes on this machine."""
