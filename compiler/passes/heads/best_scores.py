"""Rows of models that give the best score of each box, and boxes apart from it.

Exporters give these as outputs, with the best class, and so do models whose choice of boxes has
been left out: a choice reads boxes and their best scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BOX
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.passes.heads.columns import Columns, Region, is_layer
from fitzroy.compiler.passes.heads.segments import is_score

_FEWEST = 16
"""Fewer rows are no boxes."""

_FACTORS = 2
"""Scores of a single class, if another of being any object is beside it."""

_RANKINGS = ("reduce_max", "arg_max", "top_k")
"""Operators that compare scores."""

_CHOICE = ("top_k",)
"""Operators that choose the best of them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Boxes, scores and what is beside them, which are outputs of their own.

    Attributes:
        name: rows [1,n,c] of all.
        objectness: whether the first score is that of being any object.
    """

    name: str
    objectness: bool = False


def rows_with_scores(columns: Columns) -> Rows | None:
    """Boxes, scores of all classes and what is beside them; None for others.

    Boxes that a class moves, so that those of different classes do not overlap, are not among it.
    """
    graph = columns.graph
    real = [name for name in graph.outputs if graph.type(name).dtype is DType.FLOAT32]
    given = {name: _scored(columns, name) for name in real}
    found = list(dict.fromkeys(filter(None, given.values())))
    single = [region for region in found if region.size == 1]
    if len(found) != 1 and not (len(found) == len(single) == _FACTORS):
        return None
    scores = _as_rows(columns, found[0])
    count = graph.type(scores).shape[1]
    others = [
        name
        for name in real
        if name != found[0].name and given[name] != found[0] and not _reads(graph, name, _RANKINGS)
    ]
    rows = [name for name in (_of_count(columns, name, count) for name in others) if name]
    boxes = [name for name in rows if graph.type(name).shape[2] == BOX]
    if len(boxes) != 1:
        return None
    beside = [name for name in rows if name not in boxes]
    # One score beside those of the classes is how sure it is that there is any object.
    classes = [name for name in beside if is_score(columns, _whole(graph, name))]
    objectness = bool(classes and single)
    if len(found) > 1 and not objectness:
        return None
    beside = [*classes, *(name for name in beside if name not in classes)]
    return Rows(columns.joined([boxes[0], scores, *beside], 2), objectness)


def _whole(graph: Graph, rows: str) -> Region:
    return Region(rows, 2, 0, graph.type(rows).shape[2])


def _scored(columns: Columns, name: str) -> Region | None:
    """The scores of all classes, along the axis of classes, whose best an output has."""
    graph = columns.graph
    *_, moved = _unshaped(graph, name)
    node = graph.producer(moved)
    if node is None or not isinstance(node.attributes, ReductionAttributes):
        return _single(columns, name)
    read = str(node.inputs[0])
    shape = graph.type(read).shape
    axes = node.attributes.axes
    if node.op != "reduce_max" or len(shape) != 3 or shape[0] != 1 or axes not in ((1,), (2,)):
        return None
    region = Region(read, axes[0], 0, shape[axes[0]])
    return region if shape[3 - axes[0]] >= _FEWEST and is_score(columns, region) else None


def _single(columns: Columns, name: str) -> Region | None:
    """The scores of a single class, of which none is the best."""
    shape = columns.graph.type(name).shape
    count = math.prod(shape)
    if count < _FEWEST or max(shape) != count or len(shape) > 3:
        return None
    rows = columns.reshaped(name, (1, count, 1))
    region = Region(rows, 2, 0, 1)
    return region if is_score(columns, region) else None


def _as_rows(columns: Columns, scores: Region) -> str:
    return scores.name if scores.axis == 2 else columns.transposed(scores.name, (0, 2, 1))


def _of_count(columns: Columns, name: str, count: int) -> str | None:
    """An output as rows [1,n,c] of as many boxes; None if it has other elements."""
    graph = columns.graph
    width = graph.type(name).size // count
    shapes = (1, count, width), (1, width, count)
    if not width or graph.type(name).size != count * width:
        return None
    # What came before reshapes may be a part of a value, which is computed alone.
    for earlier in reversed(list(_unshaped(graph, name))):
        shape = graph.type(earlier).shape
        if shape in shapes:
            return earlier if shape == shapes[0] else columns.transposed(earlier, (0, 2, 1))
    return columns.reshaped(name, shapes[0]) if graph.type(name).shape == shapes[0][1:] else None


def _unshaped(graph: Graph, name: str) -> Iterator[str]:
    """A value, and those before it that differ in shape only."""
    yield name
    node = graph.producer(name)
    while node is not None and node.op == "reshape":
        name = str(node.inputs[0])
        yield name
        node = graph.producer(name)


def is_chosen(graph: Graph, name: str) -> bool:
    """Whether a value depends on which scores are the best of all."""
    return _reads(graph, name, _CHOICE)


def _reads(graph: Graph, name: str, ops: Sequence[str]) -> bool:
    """Whether some operators have a part in a value, after the layers."""
    pending, seen = [name], set()
    while pending:
        node: Node | None = graph.producer(pending.pop())
        if node is None or node.name in seen or is_layer(graph, node):
            continue
        if node.op in ops:
            return True
        seen.add(node.name)
        pending += [read for read in node.inputs if read is not None]
    return False
