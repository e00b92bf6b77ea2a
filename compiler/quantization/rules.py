"""How TFLite's 8-bit specification quantizes every operator, and what it leaves float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.types import DType, Quantization
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS

Key = str | tuple[str, int]
"""An activation: the name of a value, or node and operand index of one use of a constant."""


@dataclass(frozen=True, slots=True)
class QuantizationRule:
    """How the specification quantizes an operator.

    Attributes:
        shared: whether all operands and results have one quantization.
        result: the quantization that the specification fixes for the result.
        saturating: whether an operand that nothing else reads may saturate where the result
            does, so that its own range does not count.
        symmetric: whether the zero point is 0.
    """

    shared: bool = False
    result: Quantization | None = None
    saturating: bool = False
    symmetric: bool = False


_FREE = QuantizationRule()
_SHARED = QuantizationRule(shared=True)
_PROBABILITY = QuantizationRule(result=Quantization.per_tensor(1 / 256, -128))
_SIGNED_UNIT = QuantizationRule(result=Quantization.per_tensor(1 / 128, 0))

RULES: dict[str, QuantizationRule] = {
    "abs": _FREE,
    "add": _FREE,
    "arg_max": _FREE,
    "arg_min": _FREE,
    "average_pool_2d": _SHARED,
    "batch_matmul": _FREE,
    "batch_to_space": _SHARED,
    "broadcast_to": _SHARED,
    "clamp": QuantizationRule(shared=True, saturating=True),
    "concatenation": _SHARED,
    "conv_2d": _FREE,
    "depth_to_space": _SHARED,
    "depthwise_conv_2d": _FREE,
    "div": _FREE,
    "elu": _FREE,
    "exp": _FREE,
    "fully_connected": _FREE,
    "gather": _SHARED,
    "gather_nd": _SHARED,
    "gelu": _FREE,
    "hardswish": _FREE,
    "l2_normalization": _SIGNED_UNIT,
    "leaky_relu": _FREE,
    "log": _FREE,
    "log_softmax": QuantizationRule(result=Quantization.per_tensor(16 / 256, 127)),
    "max_pool_2d": _SHARED,
    "maximum": _SHARED,
    "mean": _FREE,
    "minimum": _SHARED,
    "mirror_pad": _SHARED,
    "mul": _FREE,
    "negate": QuantizationRule(shared=True, symmetric=True),  # LiteRT negates what is stored
    "pack": _SHARED,
    "pad": _SHARED,
    "prelu": _FREE,
    "reduce_max": _SHARED,
    "reduce_min": _SHARED,
    "reshape": _SHARED,
    "resize_bilinear": _SHARED,
    "resize_nearest_neighbor": _SHARED,
    "rsqrt": _FREE,
    "select": _SHARED,
    "sigmoid": _PROBABILITY,
    "softmax": _PROBABILITY,
    "space_to_batch": _SHARED,
    "space_to_depth": _SHARED,
    "split": _SHARED,
    "sqrt": _FREE,
    "squared_difference": _FREE,
    "strided_slice": _SHARED,
    "sub": _FREE,
    "sum": _FREE,
    "tanh": _SIGNED_UNIT,
    "tile": _SHARED,
    "transpose": _SHARED,
    "transpose_conv": _FREE,
    "unpack": _SHARED,
}
"""Operators that can be quantized. The others have no 8-bit kernel in TFLite."""


_OTHER_REALS = (DType.FLOAT16, DType.FLOAT64)


def is_real(graph: Graph, name: str | None) -> bool:
    """Whether a value is float32."""
    return name is not None and graph.type(name).dtype is DType.FLOAT32


def touches_reals(graph: Graph, node: Node) -> bool:
    """Whether a node reads or gives float32 values."""
    return any(is_real(graph, name) for name in (*node.inputs, *node.outputs))


def quantized_values(graph: Graph) -> list[Diagnostic]:
    """One diagnostic for every node that reads or gives quantized values."""
    found = []
    for node in graph.nodes():
        for name in (*node.inputs, *node.outputs):
            type = None if name is None else graph.type(name)
            if type is not None and type.is_quantized:
                what = f"{name!r} is {type}"
                found.append(obstacle(node, what, "only float32 values can be quantized"))
                break
    return found


def obstacle(node: Node, what: str, reason: str, hint: str = "") -> Diagnostic:
    """Why a node is not quantized."""
    where = f"{node.spelled} {node.name!r}"
    return Diagnostic(Severity.ERROR, "quantize", where, what, reason, hint)


def obstacles(graph: Graph, node: Node) -> Iterator[Diagnostic]:
    """Why a node that touches float32 values has no 8-bit form."""
    for name in (*node.inputs, *node.outputs):
        type = None if name is None else graph.type(name)
        if type is not None and type.dtype in _OTHER_REALS:
            yield obstacle(node, f"{name!r} is {type}", "only float32 values can be quantized")
            return
    if node.op not in RULES:
        what = getattr(node.attributes, "code", node.op)
        yield obstacle(node, "it has no 8-bit form", f"TFLite has no 8-bit kernel for {what}")
        return
    for name in (name for name in node.inputs if is_real(graph, name)):
        data = graph.value(str(name)).data
        if data is not None and not np.isfinite(data).all():
            count = int(data.size - np.isfinite(data).sum())
            what = f"the constant {name!r} holds {count} numbers that are not finite"
            yield obstacle(node, what, "8 bits stand for finite numbers only")
            return
    if OPS[node.op].channel_axis is None:
        return
    for index, what in ((1, "filter"), (2, "bias")):
        name = node.inputs[index] if index < len(node.inputs) else None
        if name is not None and not graph.value(name).is_constant:
            yield obstacle(
                node, f"the {what} is computed at run time", f"{name!r} is not a constant"
            )


def operands_of(graph: Graph, node: Node) -> dict[int, Key]:
    """Operands by index that are quantized as activations: not filters and biases."""
    has_filter = OPS[node.op].channel_axis is not None
    operands: dict[int, Key] = {}
    for index, name in enumerate(node.inputs):
        if name is None or not is_real(graph, name) or (has_filter and index > 0):
            continue
        operands[index] = (node.name, index) if graph.value(name).is_constant else name
    return operands


def results_of(graph: Graph, node: Node) -> list[str]:
    """Results that are quantized as activations."""
    return [name for name in node.outputs if is_real(graph, name)]
