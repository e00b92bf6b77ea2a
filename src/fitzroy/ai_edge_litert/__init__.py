"""LiteRT's name for `fitzroy.tflite_runtime`."""

from fitzroy import __version__

__all__ = ["__version__"]
