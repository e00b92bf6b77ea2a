"""Measurements against peers; see ``python -m benchmarks --help``."""
