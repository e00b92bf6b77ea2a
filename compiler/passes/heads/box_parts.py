"""Boxes of distributions in parts, each with 8 bits of its own.

A distance is the expectation of a distribution over 16 numbers of cells, so that a step of 8 bits
is up to a pixel, where edges are more exact than that. But the layer that computes expectations has
exact sums. So it gives each of them in parts: what is above the lowest up to a bound, and what is
above that, with the same filter and another bias. 8 bits cut off what lies outside of a part, and
the operator that lists objects adds the parts up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BOX
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.detections import BOXES, Detections, DetectionsAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, ReshapeAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.statistics import Range

PARTS = 2
"""Parts of a number."""


def with_box_parts(graph: Graph, ranges: dict[str, Range]) -> tuple[Graph, dict[str, Range]]:
    """A detector whose boxes are in parts, and the ranges of its values.

    Args:
        graph: a detector that lists objects, with float32 values.
        ranges: between what values of boxes matter, by their names.

    Returns:
        Both as they were where boxes have no range, or are no expectations of distributions.
    """
    for node in graph.nodes():
        if node.op == Detections.name:
            name = str(node.inputs[BOXES])
            low, high = ranges.get(name, (0.0, 0.0))
            if high > low and _is_divisible(graph, name):
                return _divided(graph, node, ranges)
    return graph, ranges


def _divided(graph: Graph, node: Node, ranges: dict[str, Range]) -> tuple[Graph, dict[str, Range]]:
    result, name = graph.copy(), str(node.inputs[BOXES])
    low, high = ranges[name]
    maker = _Maker(result, low, (high - low) / PARTS, [])
    a = node.attributes
    assert isinstance(a, DetectionsAttributes)
    inputs = [maker.parts(name), *node.inputs[1:]]
    a = replace(a, part=maker.part, lowest=low)
    result.update(replace(node, inputs=tuple(inputs), attributes=a))
    result.prune()
    kept = {key: extent for key, extent in ranges.items() if key in result.values}
    return result, kept | dict.fromkeys(maker.made, (0.0, maker.part))


def _is_divisible(graph: Graph, name: str) -> bool:
    """Whether a value is made of expectations alone, with the numbers of a box side by side."""
    node = graph.producer(name)
    if node is None or len(graph.consumers(name)) > 1:
        return False
    shape, a = graph.type(name).shape, node.attributes
    if isinstance(a, ConvAttributes):
        constant = all(x is not None and graph.value(x).is_constant for x in node.inputs[1:])
        plain = node.op == "conv_2d" and a.activation is Activation.NONE
        source = graph.producer(str(node.inputs[0]))
        sure = source is not None and source.op == "softmax"
        return plain and constant and sure and len(node.inputs) > 2
    before = [str(x) for x in node.inputs if x is not None]
    if isinstance(a, ConcatenationAttributes):
        joined = 0 <= a.axis < len(shape) - 1
        return joined and all(_is_divisible(graph, x) for x in before)
    if isinstance(a, ReshapeAttributes):
        # The numbers of a box are the last ones before, or all of them have an axis.
        inner = graph.type(before[0]).shape
        whole = shape[-1] == BOX and (inner[-1] % BOX == 0 or inner[-2:] == (BOX, 1))
        return whole and _is_divisible(graph, before[0])
    return False


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes values with parts of a divisible one.

    Attributes:
        graph: the graph.
        low: what the first part begins at.
        part: how far each part goes.
        made: names of the values with parts.
    """

    graph: Graph
    low: float
    part: float
    made: list[str]

    def parts(self, name: str) -> str:
        """A value whose last axis has all parts of a number, next to each other."""
        graph, node = self.graph, self.graph.producer(name)
        assert node is not None
        type = graph.type(name)
        wide = type.with_shape((*type.shape[:-1], type.shape[-1] * PARTS))
        a = node.attributes
        if isinstance(a, ConvAttributes):
            inputs = [node.inputs[0], *self.filters(node)]
        else:
            inputs = [self.parts(str(x)) for x in node.inputs if x is not None]
        if isinstance(a, ReshapeAttributes):
            a = ReshapeAttributes(wide.shape)
        made = graph.emit(node.op, inputs, wide, a, stem=f"{name}.parts")
        self.made.append(made)
        return made

    def filters(self, node: Node) -> list[str]:
        """Filters and biases, once for each part of a channel."""
        graph = self.graph
        kernel, bias = (graph.value(str(name)).data for name in node.inputs[1:3])
        assert kernel is not None
        assert bias is not None
        begins = np.float32(self.low) + np.arange(PARTS, dtype=np.float32) * np.float32(self.part)
        shifted = (bias.reshape(-1, 1) - begins).reshape(-1).astype(np.float32)
        return [
            graph.add_constant(f"{node.name}.filters", np.repeat(kernel, PARTS, axis=0)),
            graph.add_constant(f"{node.name}.biases", shifted),
        ]
