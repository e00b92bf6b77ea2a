"""Means of more elements than the Edge TPU sums at a time, in two steps.

Squeeze and excitation, and normalization over whole images, take the mean of an image of any size,
and the chip sums what it gathers on one tile, where a loop counts in 14 bits. Means of small blocks
come first, each rounded to 8 bits: rounding errors cancel out in the mean of many blocks. Where
channels are divided into groups, as Keras normalizes them, means of channels come first, too: the
chip sums the pixels of each channel where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.ops.windows import Pair
from fitzroy.compiler.quantization.rules import touches_reals

MOST_ELEMENTS = 1 << 14
"""Elements of a mean that is taken in one step: as many as a loop of the Edge TPU sums."""

_IMAGE = (1, 2)
"""Axes of rows and columns."""


def divide_means(graph: Graph) -> None:
    """Take means over images of float32 in two steps, where they are of too many elements.

    Args:
        graph: it is changed; images are [N,H,W,C], or [N,H,W,G,C] with channels in groups.
    """
    for node in graph.nodes():
        if node.op == "mean" and touches_reals(graph, node):
            axes, shape = _axes(node), graph.type(str(node.inputs[0])).shape
            if len(shape) < 4 or not axes.issuperset(_IMAGE):
                continue
            _, height, width, *channels = shape
            grouped, more = len(channels) > 1, axes - {0, *_IMAGE}
            if grouped and not more:
                continue
            if grouped or (more and height * width * channels[0] > MOST_ELEMENTS):
                node = _after_images(graph, node)
            if height * width > MOST_ELEMENTS:
                _after_blocks(graph, node, (height, width))


def _axes(node: Node) -> set[int]:
    attributes = node.attributes
    assert isinstance(attributes, ReductionAttributes)
    return set(attributes.axes)


def _after_images(graph: Graph, node: Node) -> Node:
    """Take the mean of each channel first; returns the node that takes it.

    Args:
        graph: it is changed.
        node: takes a mean of an image [N,H,W,...].
    """
    source = str(node.inputs[0])
    type, stem = graph.type(source), f"{node.name}.channels"
    count, height, width, *groups = type.shape
    image = type.with_shape((count, height, width, prod(groups)))
    if len(groups) > 1:
        attributes = ReshapeAttributes(image.shape)
        source = graph.emit("reshape", [source], image, attributes, stem=stem)
    channels = image.with_shape((count, 1, 1, image.shape[3]))
    found = graph.emit("mean", [source], channels, ReductionAttributes(_IMAGE, True), stem=stem)
    name = found
    if len(groups) > 1:
        divided = type.with_shape((count, 1, 1, *groups))
        name = graph.emit("reshape", [found], divided, ReshapeAttributes(divided.shape), stem=stem)
    graph.update(replace(node, inputs=(name,)))
    return graph.node(found)


def _after_blocks(graph: Graph, node: Node, extent: Pair) -> None:
    """Take the mean of the means of blocks, which cover an image exactly.

    Args:
        graph: it is changed.
        node: takes a mean over the rows and columns of an image.
        extent: how many there are.
    """
    source, block = str(node.inputs[0]), min(_blocks(extent), key=_size)
    (height, width), type = extent, graph.type(source)
    shape = (type.shape[0], height // block[0], width // block[1], type.shape[3])
    attributes = PoolAttributes(block, block)
    name = graph.emit(
        "average_pool_2d", [source], type.with_shape(shape), attributes, stem=f"{node.name}.blocks"
    )
    graph.update(replace(node, inputs=(name,)))


def _blocks(extent: Pair) -> Iterator[Pair]:
    """Blocks that divide an image evenly into few enough."""
    for rows, columns in product(*map(_divisors, extent)):
        if (extent[0] // rows) * (extent[1] // columns) <= MOST_ELEMENTS:
            yield rows, columns


def _divisors(extent: int) -> list[int]:
    return [number for number in range(1, extent + 1) if extent % number == 0]


def _size(block: Pair) -> tuple[int, int]:
    """The elements of a block, and how long it is."""
    return block[0] * block[1], max(block)
