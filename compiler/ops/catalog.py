"""All operators: importing this module registers every family."""

from fitzroy.compiler.ops import (
    arithmetic,
    arrangement,
    comparison,
    convolution,
    detection,
    elementwise,
    indexing,
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
    "arithmetic",
    "arrangement",
    "attributes_of",
    "comparison",
    "convolution",
    "detection",
    "elementwise",
    "indexing",
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
