"""Layers that move elements and compute nothing: copies, gathers, other shapes."""
