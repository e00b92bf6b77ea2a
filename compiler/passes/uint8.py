"""Legalization of uint8 models.

Two policies. ``exact`` keeps uint8: XNNPACK has kernels for it, which give the same numbers but
are slow. ``fast`` turns activations into int8 by flipping the sign bit, which changes nothing,
and filters into int8 with a scale per channel: a channel whose centred weights fit int8 stays
exact, any other is rescaled so that its largest weight becomes 127.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.passes.base import Pass


class Uint8Policy(Enum):
    """How uint8 models are computed."""

    EXACT = "exact"
    FAST = "fast"


CHANNEL_AXES = {"conv_2d": 0, "depthwise_conv_2d": 3, "fully_connected": 0, "transpose_conv": 0}
"""Axis of output channels of each operator's filter."""


@dataclass(frozen=True)
class LegalizeUint8(Pass):
    """Apply a policy to a graph's uint8 values; graph inputs and outputs keep their types."""

    policy: Uint8Policy = Uint8Policy.EXACT

    name = "legalize-uint8"

    def run(self, graph: Graph) -> Graph:
        """Rewrite types and constants; `exact` changes nothing."""
        if self.policy is Uint8Policy.EXACT:
            return graph
        border = (*graph.inputs, *graph.outputs)
        if not any(_is_quint8(value.type) for value in graph.values.values()):
            return graph
        return _signed(graph, border)


def _is_quint8(type: TensorType) -> bool:
    return type.dtype is DType.UINT8 and type.quantization is not None


def _signed(graph: Graph, border: tuple[str, ...]) -> Graph:
    filters = {
        node.inputs[1]
        for node in graph.nodes()
        if node.op in CHANNEL_AXES and _centrable(graph, node)
    }
    result = Graph(graph.name)
    renamed: dict[str, str] = {}
    for name in graph.inputs:
        type = graph.type(name)
        result.add_input(name, type)
        if _is_quint8(type):
            renamed[name] = result.emit("quantize", [name], flipped_type(type), stem=f"{name}/int8")
    for value in graph.values.values():
        if value.name in result.values:
            continue
        flips = _is_quint8(value.type) and value.name not in filters
        if not flips:
            result.add_value(value)
        elif value.data is not None:
            result.add_value(Value(value.name, flipped_type(value.type), _flipped(value.data)))
        else:
            name = f"{value.name}/int8" if value.name in border else value.name
            renamed[value.name] = result.add_value(
                Value(result.fresh(name), flipped_type(value.type))
            )
    for node in graph.nodes():
        outputs = tuple(renamed.get(name, name) for name in node.outputs)
        inputs = tuple(None if name is None else renamed.get(name, name) for name in node.inputs)
        moved = replace(node, inputs=inputs, outputs=outputs)
        if node.op in CHANNEL_AXES and _centrable(graph, node):
            moved = _centred(graph, result, moved, node)
        result.add_node(moved)
    for name in graph.outputs:
        if name in renamed and name not in graph.inputs:
            type = graph.type(name)
            result.outputs.append(name)
            if name not in result.values:
                result.add_node(
                    Node(result.fresh(name), "quantize", (renamed[name],), (name,)), (type,)
                )
        else:
            result.outputs.append(name)
    result.prune()
    return result


def _centrable(graph: Graph, node: Node) -> bool:
    kernel = graph.value(str(node.inputs[1]))
    return (
        kernel.is_constant
        and _is_quint8(kernel.type)
        and _is_quint8(graph.type(str(node.inputs[0])))
    )


def flipped_type(type: TensorType) -> TensorType:
    """The int8 type of a uint8 tensor whose sign bits are flipped."""
    q = type.quantization
    assert q is not None
    zero_point = tuple(zero - 128 for zero in q.zero_point)
    return TensorType(type.shape, DType.INT8, replace(q, zero_point=zero_point))


def _flipped(data: Array) -> Array:
    return (data ^ np.uint8(0x80)).view(np.int8)


def _centred(graph: Graph, result: Graph, moved: Node, node: Node) -> Node:
    """The node with its filter centred and scaled per channel, and its bias to match."""
    kernel = graph.value(str(node.inputs[1]))
    bias = graph.value(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    q, x = kernel.type.quantization, graph.type(str(node.inputs[0])).quantization
    assert q is not None
    assert x is not None
    assert kernel.data is not None
    axis = CHANNEL_AXES[node.op]
    data, scale, factor = centre(kernel.data, q, axis)
    name = result.add_constant(
        f"{kernel.name}/int8", data, Quantization(scale, (0,) * len(scale), axis)
    )
    inputs = [moved.inputs[0], name]
    if bias is not None:
        if bias.data is None:
            inputs.append(moved.inputs[2])
        else:
            bias_scale = tuple(float(np.float32(x.scale[0]) * np.float32(s)) for s in scale)
            values = np.rint(bias.data.reshape(-1) * factor)
            limits = np.iinfo(np.int32)
            inputs.append(
                result.add_constant(
                    f"{bias.name}/int8",
                    np.clip(values, limits.min, limits.max).astype(np.int32),
                    Quantization(bias_scale, (0,) * len(scale), 0),
                )
            )
    return replace(moved, inputs=tuple(inputs))


def centre(data: Array, q: Quantization, axis: int) -> tuple[Array, tuple[float, ...], Array]:
    """A uint8 filter as int8 with a scale per channel.

    Args:
        data: the filter.
        q: its per-tensor quantization.
        axis: the axis of output channels.

    Returns:
        The int8 filter, its scales, and the factors by which accumulators, and so biases,
        shrink (1 where a channel stays exact).
    """
    centred = data.astype(np.int16) - q.zero_point[0]
    rows = np.moveaxis(centred, axis, 0).reshape(centred.shape[axis], -1)
    low, high = rows.min(axis=1), rows.max(axis=1)
    exact = (low >= -128) & (high <= 127)
    largest = np.maximum(-low, high).astype(np.float64)
    factor = np.where(exact, 1.0, 127.0 / np.maximum(largest, 1))
    shape = [1] * data.ndim
    shape[axis] = -1
    stored = np.rint(centred * factor.reshape(shape)).astype(np.int8)
    scale = tuple(float(np.float32(q.scale[0] / f)) for f in factor)
    return stored, scale, factor
