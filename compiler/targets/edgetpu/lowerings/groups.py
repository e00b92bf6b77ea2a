"""Convolutions in groups, as plain convolutions of a few groups at a time.

A tile multiplies all channels that it reads by the weights of an output channel. So the weights of
an output channel for channels of other groups are zero. That is more products than the model asks
for, but groups are narrow: as many of them as fill the lanes of a tile make one convolution, which
has its own slice of the image. Results are joined again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.base.types import Array, Quantization, TensorType
from fitzroy.compiler.ir import Attributes, Graph, Node, Value
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    PadAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.targets.edgetpu.lowerings.attention import Apart
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import LANES, WORD


def ungrouped(graph: Graph) -> Apart:
    """A graph of the same meaning in which no convolution has groups.

    Args:
        graph: the graph; it stays as it is, and is the result if it has no such convolutions.
    """
    nodes = [node for node in graph.nodes() if _is_grouped(graph, node)]
    if not nodes:
        return Apart(graph, {})
    work = _Work(graph.copy())
    for node in nodes:
        work.divide(node)
    work.graph.prune()
    return Apart(work.graph, work.origins)


def _is_grouped(graph: Graph, node: Node) -> bool:
    """Whether a node is a quantized convolution in groups, whose filter is known."""
    if node.op != "conv_2d":
        return False
    filters, bias = graph.value(str(node.inputs[1])), _bias(graph, node)
    known = filters.is_constant and (bias is None or bias.is_constant)
    quantized = filters.type.quantization is not None
    return known and quantized and filters.type.shape[3] != _depth(graph, node)


def _bias(graph: Graph, node: Node) -> Value | None:
    name = node.inputs[2] if len(node.inputs) > 2 else None
    return None if name is None else graph.value(name)


def _depth(graph: Graph, node: Node) -> int:
    return graph.type(str(node.inputs[0])).shape[3]


def _bundles(count: int, depth: int, outputs: int) -> list[range]:
    """Groups that are computed together: as many as fill lanes, in whole words of channels.

    Args:
        count: how many groups there are.
        depth: channels that a group reads.
        outputs: channels that it makes.
    """
    size = -(-LANES // min(depth, outputs))
    while size < count and (size * depth % WORD or size * outputs % WORD):
        size += 1
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


@dataclass
class _Work:
    """A graph whose convolutions lose their groups one by one.

    Attributes:
        graph: the graph so far.
        origins: nodes of the model that added nodes stand for.
    """

    graph: Graph
    origins: dict[str, str] = field(default_factory=dict)

    def divide(self, node: Node) -> None:
        """Put plain convolutions in the place of one in groups."""
        graph, (result,) = self.graph, node.outputs
        filters, bias = graph.value(str(node.inputs[1])), _bias(graph, node)
        quantization = filters.type.quantization
        assert filters.data is not None, "grouped convolutions have known filters"
        assert quantization is not None, "which are quantized"
        depth, channels = filters.type.shape[3], filters.type.shape[0]
        count = _depth(graph, node) // depth
        outputs = channels // count
        bundles = _bundles(count, depth, outputs)
        parts = []
        for bundle in bundles:
            made = range(bundle.start * outputs, bundle.stop * outputs)
            own = _some(quantization, made)
            operands: list[str | None] = [
                self.slice_of(node, range(bundle.start * depth, bundle.stop * depth)),
                graph.add_constant(
                    filters.name, _dense(filters.data[made.start : made.stop], bundle, own), own
                ),
            ]
            if bias is not None:
                assert bias.data is not None
                data = np.broadcast_to(bias.data.reshape(-1), channels)[made.start : made.stop]
                scales = bias.type.quantization
                kept = None if scales is None else _some(scales, made)
                operands.append(graph.add_constant(bias.name, data, kept))
            if len(bundles) == 1:
                graph.update(replace(node, inputs=tuple(operands)))
                return
            type = graph.type(result)
            part = replace(type, shape=(*type.shape[:3], len(made)))
            parts.append(self.emit(node, "conv_2d", operands, part, node.attributes))
        joined = ConcatenationAttributes(3)
        graph.remove(node.name)
        name = graph.fresh(f"{node.name}/concatenation")
        graph.add_node(Node(name, "concatenation", tuple(parts), (result,), joined))
        self.origins[name] = node.name

    def slice_of(self, node: Node, channels: range) -> str:
        """Some channels of what a node reads; a border is added to the slice instead."""
        graph, name = self.graph, str(node.inputs[0])
        if len(channels) == _depth(graph, node):
            return name
        padding = graph.producer(name)
        a = None if padding is None else padding.attributes
        if padding is None or not isinstance(a, PadAttributes) or a.before[3] or a.after[3]:
            return self.slice(node, name, channels)
        inner = self.slice(node, str(padding.inputs[0]), channels)
        type = graph.type(name)
        type = replace(type, shape=(*type.shape[:3], len(channels)))
        return self.emit(node, padding.op, [inner, *padding.inputs[1:]], type, a)

    def slice(self, node: Node, name: str, channels: range) -> str:
        """Append a slice of some channels."""
        type = self.graph.type(name)
        type = replace(type, shape=(*type.shape[:3], len(channels)))
        taken = StridedSliceAttributes((0, 0, 0, channels.start), type.shape, (1, 1, 1, 1))
        return self.emit(node, "strided_slice", [name], type, taken)

    def emit(
        self,
        node: Node,
        op: str,
        inputs: Sequence[str | None],
        type: TensorType,
        attributes: Attributes,
    ) -> str:
        """Append a node that stands for another one; returns the name of its result."""
        name = self.graph.emit(op, inputs, type, attributes, stem=f"{node.name}/{op}")
        self.origins[name] = node.name
        return name


def _dense(filters: Array, bundle: range, quantization: Quantization) -> Array:
    """Filters [O,kh,kw,I] of some groups for the channels of all of them."""
    channels, height, width, depth = filters.shape
    outputs = channels // len(bundle)
    zeros = np.array(quantization.zero_point).reshape(-1, 1, 1, 1)
    shape = (channels, height, width, depth * len(bundle))
    dense = np.broadcast_to(zeros, shape).astype(filters.dtype)
    for group in range(len(bundle)):
        own = slice(group * outputs, (group + 1) * outputs)
        dense[own, ..., group * depth : (group + 1) * depth] = filters[own]
    return dense


def _some(quantization: Quantization, channels: range) -> Quantization:
    """The quantization of some output channels."""
    if quantization.is_per_tensor:
        return quantization
    chosen = slice(channels.start, channels.stop)
    return replace(
        quantization,
        scale=quantization.scale[chosen],
        zero_point=quantization.zero_point[chosen],
    )
