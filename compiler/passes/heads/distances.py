"""Distances to the edges of boxes that a model makes of what layers give, before any decoder.

They are never below zero, by a rectifier or an exponential, and they may be multiplied by the
pixels of a cell: RTMDet and FCOS give them so. Both tell distances from other numbers of boxes.

Of several levels, those in pixels would have one scale for small boxes and for large ones. In units
of cells, they have the same range on each level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import UNIT, BoxCoding
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.passes.heads.anchors import Grid
from fitzroy.compiler.passes.heads.columns import MOVERS, Columns, is_layer
from fitzroy.compiler.passes.heads.head import Head
from fitzroy.compiler.passes.heads.segments import comes_from_layers

Floats = npt.NDArray[np.float32]

_EXPONENTIAL = "exp"
_RECTIFIER = "relu"


@dataclass(frozen=True)
class Distances:
    """Numbers of boxes that are made positive.

    Attributes:
        units: what those of each box are multiplied by afterwards [n].
        rectified: whether rectifiers make all of them positive, and not exponentials.
    """

    units: Floats
    rectified: bool


def distances_of(graph: Graph, name: str) -> Distances | None:
    """How rows [1,n,c] are made positive; None if they are no distances of what layers give."""
    parts = _levels(graph, name)
    made = [_positive(graph, part) for part in parts]
    found = [part for part in made if part is not None]
    if len(found) < len(parts):
        return None
    counts = [graph.type(part).shape[1] for part in parts]
    units = np.repeat(np.array([unit for unit, _ in found], np.float32), counts)
    return Distances(units, all(rectified for _, rectified in found))


def _levels(graph: Graph, name: str) -> list[str]:
    """The rows [1,n,c] that are joined, level by level."""
    node = graph.producer(name)
    if node is None or not isinstance(node.attributes, ConcatenationAttributes):
        return [name]
    if node.attributes.axis % graph.type(name).rank != 1:
        return [name]
    return [part for read in node.inputs for part in _levels(graph, str(read))]


def _positive(graph: Graph, name: str) -> tuple[float, bool] | None:
    """What numbers of a level are multiplied by, and whether they are rectified before.

    Returns:
        None if they may be below zero.
    """
    node = graph.producer(name)
    if node is None or len(node.outputs) > 1:
        return None
    factor = _factor(graph, node)
    if factor is not None:
        inner = _positive(graph, _multiplied(graph, node))
        return None if inner is None else (factor * inner[0], inner[1])
    if node.op in MOVERS and len(node.inputs) == 1:
        return _positive(graph, str(node.inputs[0]))
    if node.op in (_EXPONENTIAL, _RECTIFIER):
        given = comes_from_layers(graph, str(node.inputs[0]))
        return (1.0, node.op == _RECTIFIER) if given else None
    activation = getattr(node.attributes, "activation", Activation.NONE)
    return (1.0, True) if is_layer(graph, node) and activation.bounds[0] == 0 else None


def _factor(graph: Graph, node: Node) -> float | None:
    """The number above zero that a node multiplies by; None for others."""
    if node.op != "mul" or node.attributes != ActivationAttributes():
        return None
    constants = [data for name in node.inputs if (data := graph.value(str(name)).data) is not None]
    if len(constants) != 1 or graph.type(node.outputs[0]).is_quantized:
        return None
    numbers = np.unique(constants[0])
    return float(numbers[0]) if numbers.size == 1 and numbers[0] > 0 else None


def _multiplied(graph: Graph, node: Node) -> str:
    """What a node multiplies by a constant."""
    (name,) = (str(name) for name in node.inputs if not graph.value(str(name)).is_constant)
    return name


def in_cells(columns: Columns, head: Head, levels: Sequence[Grid]) -> Head:
    """A head whose distances count in the cells of each level, if all count in the same unit.

    Other heads are as they were, and so are those whose distances nothing divides exactly: not
    layers with filters of their own compute them, or they are quantized.

    Args:
        columns: makes parts of values.
        head: the head.
        levels: the cells that its boxes come from, in order.
    """
    if head.coding is not BoxCoding.DISTANCES or head.anchors is None:
        return head
    units = np.unique(head.anchors[:, UNIT])
    parts = _levels(columns.graph, head.boxes)
    if units.size != 1 or len(parts) != len(levels) or len(parts) < 2:
        return head
    cells = [_pixels(head.size, grid) / float(units[0]) for grid in levels]
    made = [_divided(columns, part, cell) for part, cell in zip(parts, cells, strict=True)]
    boxes = [part for part in made if part is not None]
    if len(boxes) < len(made):
        return head
    anchors = head.anchors.copy()
    counts = [columns.graph.type(part).shape[1] for part in parts]
    anchors[:, UNIT] *= np.repeat(np.array(cells, np.float32), counts)[:, None]
    return replace(head, boxes=columns.joined(boxes, 1), anchors=anchors)


def _pixels(size: tuple[int, int], grid: Grid) -> int:
    """Pixels of a cell, a power of two: divided by it, a filter has the same digits."""
    pixels = 1
    while any(-(-x // pixels) > n for x, n in zip(size, (grid.width, grid.height), strict=True)):
        pixels *= 2
    return pixels


def _divided(columns: Columns, name: str, by: float) -> str | None:
    """A value divided by a number where layers compute it; None if that is not exact."""
    graph, node = columns.graph, columns.graph.producer(name)
    if by == 1:
        return name
    if node is None or graph.type(name).dtype is not DType.FLOAT32:
        return None
    if _factor(graph, node) == by:
        return _multiplied(graph, node)
    if node.op in MOVERS and len(node.inputs) == len(node.outputs) == 1:
        made = _divided(columns, str(node.inputs[0]), by)
        type = graph.type(name)
        return None if made is None else graph.emit(node.op, [made], type, node.attributes)
    return columns.scaled(name, 1 / by) if columns.has_channels_apart(name) else None
