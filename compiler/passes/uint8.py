"""Legalization of uint8 models.

Two policies. ``exact`` keeps uint8: XNNPACK has kernels for it, which give the same numbers but
are slow. ``fast`` turns activations into int8 by flipping the sign bit, which changes no number
(only conversions between int8 and uint8 then round in fixed point and may differ by one step), and
filters into int8 with a scale per channel: a channel whose centred weights fit int8 stays
exact, any other is rescaled so that its largest weight becomes 127.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node, Value, unused_name
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.passes.base import Pass


@dataclass(frozen=True)
class LegalizeUint8(Pass):
    """Convert uint8 to int8 with per-channel filters; graph inputs and outputs keep their types."""

    name = "legalize-uint8"

    def run(self, graph: Graph) -> Graph:
        """Rewrite types and constants."""
        border = (*graph.inputs, *graph.outputs)
        if not any(_is_quint8(value.type) for value in graph.values.values()):
            return graph
        return _signed(graph, border)


def _is_quint8(type: TensorType) -> bool:
    return type.dtype is DType.UINT8 and type.quantization is not None


def _signed(graph: Graph, border: tuple[str, ...]) -> Graph:
    filters = _filters(graph)
    result = Graph(graph.name)
    result.take_notes(graph)
    taken = {*graph.values, *(node.name for node in graph.nodes())}

    def fresh(stem: str) -> str:
        """A name that is neither in the old graph nor given before."""
        name = unused_name(stem, taken)
        taken.add(name)
        return name

    renamed: dict[str, str] = {}
    for name in graph.inputs:
        result.add_input(name, graph.type(name))
    for value in graph.values.values():
        if value.name in result.values:
            continue
        flips = _is_quint8(value.type) and value.name not in filters
        if not flips or value.name in border:
            result.add_value(value)
        elif value.data is not None:
            result.add_value(
                Value(value.name, value.type.relabelled(DType.INT8), _flipped(value.data))
            )
        else:
            result.add_value(Value(value.name, value.type.relabelled(DType.INT8)))
    for name in dict.fromkeys(border):
        value = graph.value(name)
        if not _is_quint8(value.type) or name in filters:
            continue
        signed, type = fresh(f"{name}/int8"), value.type.relabelled(DType.INT8)
        renamed[name] = signed
        if value.data is not None:
            result.add_value(Value(signed, type, _flipped(value.data)))
        elif name in graph.inputs:
            result.add_node(Node(signed, "quantize", (name,), (signed,)), (type,))
        else:
            result.add_value(Value(signed, type))
    for node in graph.nodes():
        outputs = tuple(renamed.get(name, name) for name in node.outputs)
        inputs = tuple(None if name is None else renamed.get(name, name) for name in node.inputs)
        moved = replace(node, inputs=inputs, outputs=outputs)
        if _centrable(graph, node):
            moved = _centred(graph, result, moved, node)
        result.add_node(moved)
    result.outputs = list(graph.outputs)
    for name in dict.fromkeys(graph.outputs):
        if name in renamed and graph.producer(name) is not None:
            unsigned = fresh(f"{name}/uint8")
            result.add_node(Node(unsigned, "quantize", (renamed[name],), (name,)))
    result.prune()
    return result


def _filters(graph: Graph) -> set[str]:
    """Constants that serve as centrable filters and as nothing else."""
    uses = {True: set[str](), False: set(graph.outputs)}
    for node in graph.nodes():
        centred = _centrable(graph, node)
        for index, name in enumerate(node.inputs):
            if name is not None:
                uses[centred and index == 1].add(name)
    return uses[True] - uses[False]


def _centrable(graph: Graph, node: Node) -> bool:
    """Whether a node has a uint8 filter that can become int8 with a scale per channel."""
    if OPS[node.op].channel_axis is None:
        return False
    kernel = graph.value(str(node.inputs[1]))
    types = (kernel.type, graph.type(str(node.inputs[0])))
    return kernel.is_constant and all(
        _is_quint8(type) and type.quantization is not None and type.quantization.is_per_tensor
        for type in types
    )


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
    axis = OPS[node.op].channel_axis
    assert axis is not None
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
