"""Rows and columns that are repeated one by one, which are resizes to the nearest neighbour.

Keras writes `UpSampling2D` so: a reshape gives each row an axis of its own, a tile repeats along
it, and a reshape joins both axes; the same for columns. Every element of the result is the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.arrangement import TileAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.passes.base import Pass
from fitzroy.hw_models.numerics import Sampling

_IMAGE = 4
"""Dimensions of an image [N,H,W,C]."""

_PIXELS = (1, 2)
"""Axes of rows and columns."""

_REPEATED = -1
"""The axis of copies."""

_DTYPES = (DType.FLOAT32, DType.INT8, DType.UINT8)
"""Elements that are resized."""

_Parts = list[tuple[int, int]]
"""Extents that make up a dimension, the slowest first, each with the axis of the image that it
belongs to."""


@dataclass(frozen=True)
class NearestResizes(Pass):
    """Let rows and columns that tiles repeat be repeated by resizes to the nearest neighbour."""

    name = "nearest-resizes"

    def run(self, graph: Graph) -> Graph:
        """Rewrite tiles between reshapes."""
        while (found := next(_repetitions(graph), None)) is not None:
            image, result = found
            type = graph.type(result)
            attributes = ResizeAttributes((type.shape[1], type.shape[2]), Sampling.HALF_PIXEL)
            last = graph.producer(result)
            assert last is not None
            graph.remove(last.name)
            resized = graph.emit("resize_nearest_neighbor", [image], type, attributes)
            graph.retarget(resized, result)
            graph.prune()
        return graph


def repeats_pixels(graph: Graph) -> bool:
    """Whether a graph has tiles that `NearestResizes` rewrites."""
    return next(_repetitions(graph), None) is not None


def _repetitions(graph: Graph) -> Iterator[tuple[str, str]]:
    """Images, and what they are when their pixels are repeated, the longest chains first."""
    for node in reversed(graph.nodes()):
        (result, *_) = node.outputs
        if graph.type(result).rank != _IMAGE:
            continue
        nodes = _chain(graph, node)
        for first in range(len(nodes)):
            if _repeats_pixels(graph, nodes[first:]):
                yield str(nodes[first].inputs[0]), result
                break


def _chain(graph: Graph, last: Node) -> list[Node]:
    """The reshapes and tiles that end with a node, each the only reader of the one before it."""
    nodes: list[Node] = []
    node: Node | None = last
    while node is not None and node.op in ("reshape", "tile"):
        name = str(node.inputs[0])
        nodes.insert(0, node)
        alone = len(graph.consumers(name)) == 1 and name not in graph.outputs
        node = graph.producer(name) if alone else None
    return nodes


def _repeats_pixels(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether nodes repeat the pixels of an image, each side by side, and nothing else."""
    before, after = graph.type(str(nodes[0].inputs[0])), graph.type(nodes[-1].outputs[0])
    kept = before.dtype in _DTYPES and before == after.with_shape(before.shape)
    if not kept or before.rank != _IMAGE or before.shape == after.shape or 0 in before.shape:
        return False
    parts = [[(extent, axis)] if extent != 1 else [] for axis, extent in enumerate(before.shape)]
    for node in nodes:
        found = (
            _tiled(parts, node.attributes.multiples)
            if isinstance(node.attributes, TileAttributes)
            else _reshaped(parts, graph.type(node.outputs[0]).shape)
        )
        if found is None:
            return False
        parts = found
    return all(
        _is_kept(dimension, axis, extent) or (axis in _PIXELS and _is_repeated(dimension, axis))
        for axis, (dimension, extent) in enumerate(zip(parts, before.shape, strict=True))
    )


def _is_kept(dimension: _Parts, axis: int, extent: int) -> bool:
    return dimension == ([(extent, axis)] if extent != 1 else [])


def _is_repeated(dimension: _Parts, axis: int) -> bool:
    """Whether copies of each element of an axis, side by side, are a dimension."""
    return [part for _, part in dimension] == [axis] + [_REPEATED] * (len(dimension) - 1)


def _tiled(parts: Sequence[_Parts], multiples: Sequence[int]) -> list[_Parts] | None:
    """Dimensions after a tile; None if it repeats more than single elements."""
    result = []
    for dimension, count in zip(parts, multiples, strict=True):
        if count != 1 and dimension:
            return None
        result.append(dimension if count == 1 else [(count, _REPEATED)])
    return result


def _reshaped(parts: Sequence[_Parts], shape: Sequence[int]) -> list[_Parts] | None:
    """Dimensions after a reshape; None if it divides what belongs together."""
    left, result = [part for dimension in parts for part in dimension], list[_Parts]()
    for extent in shape:
        dimension: _Parts = []
        while left and math.prod(count for count, _ in dimension) < extent:
            dimension.append(left.pop(0))
        if math.prod(count for count, _ in dimension) != extent:
            return None
        result.append(dimension)
    return result
