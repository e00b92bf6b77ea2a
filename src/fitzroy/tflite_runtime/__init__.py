"""TFLite's interface on FitzRoy: programs run after changing where they import it from.

``tflite_runtime.interpreter`` becomes ``fitzroy.tflite_runtime.interpreter``; see docs/programs.md.

Facts: the published interface of LiteRT's Python package and of the Edge TPU's delegate.
"""

from fitzroy import __version__

__all__ = ["__version__"]
