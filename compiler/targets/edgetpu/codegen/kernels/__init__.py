"""Kernels: instructions described by named axes, and by what is acquired and published per axis."""
