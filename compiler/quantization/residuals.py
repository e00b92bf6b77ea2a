"""Residual sums computed by the layer whose result they add, so that they are rounded once.

A block of a residual network adds what its last layer gives to what the block reads. In 8 bits,
that layer rounds its result, and its range has room for numbers that a rectifier after the sum
takes away; the sum rounds again. But a sum is part of a matrix product: side by side, the input of
the layer and that of the block are multiplied by the filter and by ones. The result is rounded
once, after the rectifier, and there is no addition left.

Images side by side share one scale. So the input of the layer has to be one whose scale is free: a
sum of products itself, which only this layer reads. Then equalization makes both go equally far.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, PadAttributes
from fitzroy.compiler.quantization.functions import gives_sums
from fitzroy.compiler.quantization.parts import MOST_ELEMENTS, room_for_weights
from fitzroy.compiler.quantization.rules import is_real


@dataclass(frozen=True, slots=True)
class _Residual:
    """A sum that one layer can compute.

    Attributes:
        node: the addition.
        layer: the convolution of one pixel whose result is added.
        other: what it is added to, without padding of channels.
    """

    node: Node
    layer: Node
    other: str

    def weights(self, graph: Graph) -> int:
        """How many weights are added."""
        return graph.type(self.node.outputs[0]).shape[3] * graph.type(self.other).shape[3]

    def elements(self, graph: Graph) -> int:
        """The elements of both images side by side."""
        return sum(graph.type(name).size for name in (str(self.layer.inputs[0]), self.other))


def with_joined_residuals(graph: Graph, kept: Collection[str]) -> Graph:
    """A graph whose layers compute residual sums, as far as there is room for their weights.

    Values keep their names.

    Args:
        graph: a float32 graph.
        kept: names of nodes that stay as they are.

    Returns:
        `graph` itself if there are no such sums.
    """
    result, room = graph.copy(), room_for_weights(graph)
    changed = False
    for node in graph.nodes():
        found = None if node.name in kept else _residual(result, result.node(node.name), kept)
        if found is None or found.elements(graph) > MOST_ELEMENTS:
            continue
        if (weights := found.weights(graph)) <= room:
            room -= weights
            _join(result, found)
            changed = True
    result.prune()
    return result if changed else graph


def _residual(graph: Graph, node: Node, kept: Collection[str]) -> _Residual | None:
    """The residual sum that a node computes; None if it computes none."""
    if node.op != "add" or not is_real(graph, node.outputs[0]):
        return None
    shapes = [graph.type(str(name)).shape for name in (*node.inputs, *node.outputs)]
    if len(shapes[0]) != 4 or any(shape != shapes[0] for shape in shapes):
        return None
    for index in (1, 0):
        layer, other = graph.producer(str(node.inputs[index])), str(node.inputs[1 - index])
        if layer is None or graph.value(other).is_constant:
            continue
        if _is_free_layer(graph, layer, kept):
            return _Residual(node, layer, _without_padding(graph, other))
    return None


def _is_free_layer(graph: Graph, node: Node, kept: Collection[str]) -> bool:
    """Whether a node is a matrix product for each pixel, and its input sums that only it reads."""
    a, (result, *_) = node.attributes, node.outputs
    if node.op != "conv_2d" or not isinstance(a, ConvAttributes):
        return False
    source, kernel = str(node.inputs[0]), graph.type(str(node.inputs[1])).shape
    if kernel[1:3] != (1, 1) or a.stride != (1, 1) or graph.type(source).shape[3] != kernel[3]:
        return False
    layers = (graph.producer(source), node)
    return (
        _is_alone(graph, result)
        and _is_alone(graph, source)
        and all(x is not None and x.name not in kept and gives_sums(graph, x) for x in layers)
    )


def _is_alone(graph: Graph, name: str) -> bool:
    """Whether exactly one operator reads a value, once."""
    readers = graph.consumers(name)
    return name not in graph.outputs and len(readers) == 1 and readers[0].inputs.count(name) == 1


def _without_padding(graph: Graph, name: str) -> str:
    """What a value is without zeros after its channels."""
    node = graph.producer(name)
    a = None if node is None else node.attributes
    if node is None or not isinstance(a, PadAttributes):
        return name
    return str(node.inputs[0]) if not (any(a.before) or any(a.after[:-1]) or a.value) else name


def _join(graph: Graph, found: _Residual) -> None:
    """Let a layer compute a residual sum."""
    node, layer, source = found.node, found.layer, str(found.layer.inputs[0])
    kernel = graph.value(str(layer.inputs[1])).data
    assert kernel is not None
    type, width = graph.type(source), graph.type(found.other).shape[3]
    wide = type.with_shape((*type.shape[:3], type.shape[3] + width))
    joined = graph.emit(
        "concatenation",
        [source, found.other],
        wide,
        ConcatenationAttributes(3),
        stem=f"{node.name}.operands",
    )
    ones = np.eye(len(kernel), width, dtype=np.float32).reshape(len(kernel), 1, 1, width)
    filters = np.concatenate([kernel, ones], axis=3)
    inputs = (joined, graph.add_constant(f"{node.name}.filters", filters), *layer.inputs[2:])
    a = node.attributes
    assert isinstance(a, ActivationAttributes)
    attributes = ConvAttributes(activation=a.activation)
    graph.update(replace(node, op="conv_2d", inputs=inputs, attributes=attributes))
