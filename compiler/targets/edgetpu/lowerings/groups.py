"""Convolutions in groups, as plain convolutions of a few groups at a time.

In a plain convolution every output channel has weights for all input channels; those for channels
of other groups are zero. These are more products than the model asks for, but a narrow group leaves
most lanes of a tile idle. So as many groups as fill the lanes make one convolution, which reads its
own slice of the image, and the results are joined.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fitzroy.base.types import Array, Quantization
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.shape import ConcatenationAttributes, PadAttributes
from fitzroy.compiler.passes.rewritten import Rewritten
from fitzroy.compiler.targets.edgetpu.lowerings.some_channels import (
    ChannelRewriter,
    is_known,
    narrowed,
    some,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import LANES, WORD


def ungrouped(graph: Graph) -> Rewritten:
    """A graph of the same meaning in which no convolution has groups.

    Args:
        graph: the graph; it stays as it is, and is the result if it has no such convolutions.
    """
    return _Work.applied(graph, [node for node in graph.nodes() if _is_grouped(graph, node)])


def _is_grouped(graph: Graph, node: Node) -> bool:
    """Whether a node is a quantized convolution in groups, whose filter is known."""
    if node.op != "conv_2d" or not is_known(graph, node):
        return False
    return graph.type(str(node.inputs[1])).shape[3] != _depth(graph, node)


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


class _Work(ChannelRewriter[Node]):
    """A graph whose convolutions lose their groups one by one."""

    def rewrite(self, node: Node) -> None:
        """Put plain convolutions in the place of one in groups."""
        graph, (result,) = self.graph, node.outputs
        filters = graph.value(str(node.inputs[1]))
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
            own = some(quantization, made)
            operands: list[str | None] = [
                self.slice_of(node, range(bundle.start * depth, bundle.stop * depth)),
                graph.add_constant(
                    filters.name, _dense(filters.data[made.start : made.stop], bundle, own), own
                ),
                *self.biases(node, made),
            ]
            if len(bundles) == 1:
                graph.update(replace(node, inputs=tuple(operands)))
                return
            part = narrowed(graph.type(result), made)
            parts.append(self.emit(node.name, "conv_2d", operands, part, node.attributes))
        self.put_in_place(node, "concatenation", parts, ConcatenationAttributes(3))

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
        type = narrowed(graph.type(name), channels)
        return self.emit(node.name, padding.op, [inner, *padding.inputs[1:]], type, a)


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
