"""All ONNX operators: importing this module registers every family."""

from fitzroy.compiler.frontends.onnx import (
    convolution,
    elementwise,
    matmul,
    normalization,
    pooling,
    reduction,
    resize,
    shape,
)
from fitzroy.compiler.frontends.onnx.registry import IMPORTERS

__all__ = [
    "IMPORTERS",
    "convolution",
    "elementwise",
    "matmul",
    "normalization",
    "pooling",
    "reduction",
    "resize",
    "shape",
]
