"""All operators: importing this module registers every family."""

from fitzroy.compiler.ops import (
    convolution,
    detection,
    elementwise,
    matmul,
    normalization,
    opaque,
    pooling,
    pose,
    recurrent,
    reduction,
    resize,
    shape,
)
from fitzroy.compiler.ops.definition import CUSTOM, OPS, TFLITE, attributes_of

__all__ = [
    "CUSTOM",
    "OPS",
    "TFLITE",
    "attributes_of",
    "convolution",
    "detection",
    "elementwise",
    "matmul",
    "normalization",
    "opaque",
    "pooling",
    "pose",
    "recurrent",
    "reduction",
    "resize",
    "shape",
]
