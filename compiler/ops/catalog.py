"""All operators: importing this module registers every family."""

from fitzroy.compiler.ops import (
    convolution,
    custom,
    elementwise,
    matmul,
    normalization,
    pooling,
    recurrent,
    reduction,
    resize,
    shape,
)
from fitzroy.compiler.ops.definition import OPS, TFLITE, attributes_of

__all__ = [
    "OPS",
    "TFLITE",
    "attributes_of",
    "convolution",
    "custom",
    "elementwise",
    "matmul",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "resize",
    "shape",
]
