"""All ONNX operators: importing this module registers every family."""

from fitzroy.compiler.frontends.onnx import (
    control,
    convolution,
    einsum,
    elementwise,
    indexing,
    logical,
    matmul,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    resize,
    sampling,
    shape,
    spectral,
    suppression,
)
from fitzroy.compiler.frontends.onnx.registry import IMPORTERS

__all__ = [
    "IMPORTERS",
    "control",
    "convolution",
    "einsum",
    "elementwise",
    "indexing",
    "logical",
    "matmul",
    "normalization",
    "pooling",
    "quantized",
    "recurrent",
    "reduction",
    "resize",
    "sampling",
    "shape",
    "spectral",
    "suppression",
]
