"""Boxes and scores that a model gives before they are decoded: what has them.

Facts: how the exporters of YOLOX and NanoDet, effdet and MediaPipe give them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import BOX
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.passes.heads.anchors import YOLO_BOXES
from fitzroy.compiler.passes.heads.columns import Columns, Region
from fitzroy.compiler.passes.heads.distances import distances_of
from fitzroy.compiler.passes.heads.scores import product_of
from fitzroy.compiler.passes.heads.segments import comes_from_layers, is_score, is_shared, segments

_PAIR = 2
"""Numbers of a keypoint."""

_FEWEST = 16
"""Fewer rows are no boxes."""

_DISTRIBUTIONS = (BOX * 8, BOX * 16, BOX * 17)
"""Widths of rows that are taken for distributions where nothing else tells them from scores: those
of NanoDet and PicoDet, of YOLO, and of GFL."""


@dataclass(frozen=True)
class Pair:
    """Boxes that are not decoded, and their scores.

    Attributes:
        boxes: encoded boxes, with keypoints after them if there are any [1,n,4+2k].
        scores: scores of classes [1,n,c].
        objectness: scores of being any object [1,n,1]; None if there are none.
        distances: whether a box has distances to its edges, which were distributions.
        cells: rows [1,n,c] that come from the cells which boxes come from; None for boxes.
        apart: whether an objectness or keypoints are outputs of their own.
        in_cells: whether a layer gives the boxes of each cell, with all of their scores, as YOLOs
            have them.
    """

    boxes: str
    scores: str
    objectness: str | None = None
    distances: bool = False
    cells: str | None = None
    apart: bool = False
    in_cells: bool = False


def pair_of(columns: Columns) -> Pair | None:
    """Boxes and scores of a model that gives them apart; None if it does not."""
    graph = columns.graph
    rows = [name for name in graph.outputs if graph.type(name).rank == 3]
    if len(rows) != 2:
        kinds = _one_after_another(columns, rows) or _of_levels(columns)
        return _of_kinds(columns, kinds) or _joined_levels(columns) or _in_cells(columns)
    rows = _one_after_another(columns, rows)
    if not rows:
        return None
    for boxes, scores in (rows, rows[::-1]):
        wide, classes = graph.type(boxes).shape[2], graph.type(scores).shape[2]
        if _is_scored(columns, boxes):
            continue
        points = wide > BOX and wide % _PAIR == 0 and wide not in _DISTRIBUTIONS
        if wide == BOX or (points and classes == 1):
            return Pair(boxes, scores)
    for boxes, scores in (rows, rows[::-1]):
        whole = [Region(name, 2, 0, graph.type(name).shape[2]) for name in (boxes, scores)]
        if _is_encoded(graph, whole[0]) and is_score(columns, whole[1]):
            return _of_distributions(columns, whole[0], whole[1])
    return _of_kinds(columns, rows)


def _of_kinds(columns: Columns, kinds: Sequence[str]) -> Pair | None:
    """Boxes and scores of classes from layers, maybe with an objectness or keypoints.

    Args:
        columns: makes parts of values.
        kinds: what a model gives of each box, rows [1,n,c] of as many boxes.
    """
    graph = columns.graph
    whole = {name: graph.type(name).shape[2] for name in kinds}
    encoded = [name for name in kinds if is_given(graph, name)]
    scored = [name for name in kinds if _is_scored(columns, name)]
    if len(encoded) + len(scored) != len(kinds):
        return None
    spread = [name for name in encoded if whole[name] in _DISTRIBUTIONS]
    if len(kinds) == 2 and len(spread) == 1:
        parts = [Region(name, 2, 0, whole[name]) for name in kinds]
        return _of_distributions(columns, *sorted(parts, key=lambda part: part.name not in spread))
    boxes = [name for name in encoded if whole[name] == BOX]
    if len(boxes) > 1:
        # Classes may be as many as the numbers of a box, but those are not made positive.
        boxes = [name for name in boxes if distances_of(graph, name) is not None]
    if len(boxes) != 1:
        return None
    others = [name for name in encoded if name not in boxes]
    if not scored:
        # Scores may be logits.
        scored, others = others, []
    scored.sort(key=lambda name: whole[name])
    if len(scored) not in (1, 2) or len(others) > 1:
        return None
    objectness = scored[0] if len(scored) == 2 else None
    if objectness is not None and whole[objectness] != 1:
        return None
    if any(whole[name] <= BOX or whole[name] % _PAIR for name in others):
        return None
    rows = columns.joined([*boxes, *others], 2)
    apart = bool(others) or objectness is not None
    return Pair(rows, scored[-1], objectness, cells=boxes[0], apart=apart)


def is_given(graph: Graph, name: str) -> bool:
    """Whether a value has what layers give, or distances [1,n,4] that are made of it."""
    return comes_from_layers(graph, name) or distances_of(graph, name) is not None


def _is_scored(columns: Columns, name: str) -> bool:
    """Whether all numbers of rows [1,n,c] are scores, or products of them."""
    part = Region(name, 2, 0, columns.graph.type(name).shape[2])
    if is_score(columns, part) or is_shared(columns, part):
        return True
    return product_of(columns, name) is not None


def _of_levels(columns: Columns) -> list[str]:
    """What a model gives of each box, level by level, as rows [1,n,c] of all levels.

    An output is of the boxes of a level, [1,n,c], [1,c,n] or [n,c], or an image of them, [1,h,w,c]
    or [1,c,h,w]. Levels have other numbers of boxes each, and all give the same in the same order.

    Returns:
        The rows, those of the level with most boxes first; nothing if outputs are others.
    """
    found = {axis: _levels(columns.graph, axis) for axis in (-1, 1)}
    # Along the wrong axis, what a model gives of a box looks like a level; levels are more.
    axis = max(found, key=lambda axis: len(found[axis]))
    rows = [[_rows(columns, name, axis) for name in level] for level in found[axis]]
    return [columns.joined(list(kind), 1) for kind in zip(*rows, strict=True)]


def _levels(graph: Graph, axis: int) -> list[list[str]]:
    """The outputs of each level; nothing if they are not those of levels.

    Args:
        graph: the graph.
        axis: of the outputs, along which the numbers of a box are.
    """
    levels: dict[int, list[str]] = {}
    for name in graph.outputs:
        shape = graph.type(name).shape
        if len(shape) not in _RANKS or (len(shape) > 2 and shape[0] != 1):
            return []
        levels.setdefault(math.prod(shape) // shape[axis], []).append(name)
    widths = {tuple(graph.type(name).shape[axis] for name in level) for level in levels.values()}
    counts = sorted(levels, reverse=True)
    shrinking = all(fewer < many <= _SHRINKAGE * fewer for many, fewer in pairwise(counts))
    if len(levels) < 2 or len(widths) > 1 or not shrinking:
        return []
    return [levels[count] for count in counts]


_SHRINKAGE = 4
"""Cells of a level, at most, to one of the next, which is half as wide and high, rounded up."""

_RANKS = (2, 3, 4)
"""Dimensions of what a model gives of a level: rows, of one image, or an image of cells."""

_FEWEST_NUMBERS = BOX + 2
"""Numbers of a box with an objectness and the score of one class."""


def _in_cells(columns: Columns) -> Pair | None:
    """Boxes, objectness and scores side by side, for each anchor of a cell and level by level.

    An output has [1,anchors,h,w,c], [1,h,w,anchors,c], or channels for all of it.
    """
    graph = columns.graph
    shapes = [graph.type(name).shape for name in graph.outputs]
    if len(shapes) < 2 or not all(comes_from_layers(graph, name) for name in graph.outputs):
        return None
    found = [
        order
        for order in _ORDERS
        if all(_fits(shape, order) for shape in shapes)
        and len({shape[axis] for shape in shapes for axis in order[3:4]}) == 1
        and len({shape[order[-1]] for shape in shapes}) == 1
    ]
    if len(found) != 1:
        return None
    levels = []
    for name in graph.outputs:
        moved = columns.transposed(name, found[0])
        shape = graph.type(moved).shape
        wide = shape[4] if len(shape) > 4 else shape[3] // YOLO_BOXES
        levels.append(columns.reshaped(moved, (1, math.prod(shape) // wide, wide)))
    rows = columns.joined(levels, 1)
    return Pair(
        columns.take(rows, 2, 0, BOX),
        columns.take(rows, 2, BOX + 1, wide - BOX - 1),
        columns.take(rows, 2, BOX, 1),
        in_cells=True,
    )


_ORDERS = ((0, 2, 3, 1, 4), (0, 1, 2, 3, 4), (0, 2, 3, 1), (0, 1, 2, 3))
"""Orders of axes that make [1,h,w,anchors,c], or [1,h,w,anchors*c], of outputs."""


def _fits(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Whether an output in an order has some numbers of the boxes of a cell."""
    if len(shape) != len(order) or shape[0] != 1:
        return False
    channels = shape[order[3]] * (shape[order[4]] if len(order) > 4 else 1)
    boxes = len(order) == 4 or shape[order[3]] == YOLO_BOXES
    return boxes and channels % YOLO_BOXES == 0 and channels // YOLO_BOXES >= _FEWEST_NUMBERS


def _one_after_another(columns: Columns, names: Sequence[str]) -> list[str]:
    """Outputs as rows [1,n,c] of as many boxes, whatever axis has these; nothing for others."""
    shapes = [columns.graph.type(name).shape for name in names]
    for count in shapes[0][1:] if shapes else ():
        if count >= _FEWEST and all(shape[0] == 1 and count in shape[1:] for shape in shapes):
            return [
                name if shape[1] == count else columns.transposed(name, (0, 2, 1))
                for name, shape in zip(names, shapes, strict=True)
            ]
    return []


def joined_pair(columns: Columns) -> Pair | None:
    """Boxes that are not decoded, and scores, in one output; None for others.

    It is [1,n,c], [1,c,n], or one of these without its first axis.
    """
    graph = columns.graph
    for output in graph.outputs:
        shape = graph.type(output).shape
        # Some exporters leave out the axis of images.
        name = columns.reshaped(output, (1, *shape)) if len(shape) == 2 else output
        shape = graph.type(name).shape
        if len(shape) != 3 or min(shape[1:]) <= BOX:
            continue
        for rows in (name, columns.transposed(name, (0, 2, 1))):
            enough = graph.type(rows).shape[1] >= _FEWEST
            found = _of_columns(columns, rows) if enough else None
            if found is not None:
                return found
    return None


def _of_columns(columns: Columns, rows: str) -> Pair | None:
    """Boxes and scores side by side in rows [1,n,c]."""
    graph, parts = columns.graph, segments(columns.graph, rows)
    first = parts[0]
    if first.size == BOX and _is_encoded(graph, first):
        scored = parts[1:]
        if not scored or not all(is_score(columns, part) for part in scored):
            return None
        has_objectness = len(scored) > 1 and scored[0].size == 1
        begin = BOX + has_objectness
        return Pair(
            columns.take(rows, 2, 0, BOX),
            columns.take(rows, 2, begin, graph.type(rows).shape[2] - begin),
            columns.take(rows, 2, BOX, 1) if has_objectness else None,
        )
    if len(parts) != 2:
        return None
    if is_score(columns, first) and _is_encoded(graph, parts[1]):
        return _of_distributions(columns, parts[1], first)
    # Layers give both: only widths tell distributions from logits.
    spread = [part for part in parts if part.size in _DISTRIBUTIONS]
    if len(spread) != 1 or not comes_from_layers(graph, rows):
        return None
    (scores,) = (part for part in parts if part not in spread)
    return _of_distributions(columns, spread[0], scores)


def _is_encoded(graph: Graph, part: Region) -> bool:
    """Whether columns are of as many numbers for each edge, and come from layers as they are."""
    columns = Columns(graph)
    name = columns.take(part.name, part.axis, part.begin, part.size)
    return part.size % BOX == 0 and comes_from_layers(graph, name)


def _of_distributions(columns: Columns, boxes: Region, scores: Region) -> Pair | None:
    """Boxes by the expectations of distributions; None for one number of an edge."""
    bins = boxes.size // BOX
    if bins <= 1:
        return None
    given, sure = (
        columns.take(part.name, part.axis, part.begin, part.size) for part in (boxes, scores)
    )
    return Pair(_expectation(columns, given, bins), sure, distances=True, cells=given)


def _expectation(columns: Columns, name: str, bins: int) -> str:
    """The expected numbers [1,n,4] of distributions over 0, 1, 2 and so on [1,n,4*bins].

    Quantized logits become float32 first, because the model has no scales for what follows.
    """
    graph, name = columns.graph, columns.real(name)
    count = graph.type(name).shape[1]
    parts = columns.reshaped(name, (1, count, BOX, bins))
    type = graph.type(parts)
    sure = graph.emit("softmax", [parts], type, SoftmaxAttributes())
    weights = np.arange(bins, dtype=np.float32).reshape(1, 1, 1, bins)
    operands = [
        sure,
        graph.add_constant("places", weights),
        graph.add_constant("zero", np.zeros(1, np.float32)),
    ]
    mean = graph.emit("conv_2d", operands, type.with_shape((1, count, BOX, 1)), ConvAttributes())
    return columns.reshaped(mean, (1, count, BOX))


def _joined_levels(columns: Columns) -> Pair | None:
    """Rows of boxes and scores that are images of several levels, as EfficientDet gives them."""
    graph = columns.graph
    images = [name for name in graph.outputs if graph.type(name).rank == 4]
    count = len(images) // 2
    if len(images) != len(graph.outputs) or count < 2 or len(images) % 2:
        return None
    for boxes, scores in ((images[:count], images[count:]), (images[count:], images[:count])):
        for axis in (1, 3):
            wide = {graph.type(name).shape[axis] for name in boxes}
            others = {graph.type(name).shape[axis] for name in scores}
            if len(wide) > 1 or len(others) > 1:
                continue
            (numbers,), (classes,) = wide, others
            anchors = numbers // BOX
            if numbers % BOX == 0 and classes % anchors == 0 and _are_alike(graph, boxes, scores):
                rows, sure = (
                    columns.joined([_rows(columns, name, axis, width) for name in names], 1)
                    for names, width in ((boxes, BOX), (scores, classes // anchors))
                )
                return Pair(rows, sure)
    return None


def _are_alike(graph: Graph, boxes: Sequence[str], scores: Sequence[str]) -> bool:
    """Whether images have as many elements but for their channels, level by level."""
    shapes = [[graph.type(name).shape for name in names] for names in (boxes, scores)]
    return all(
        sum(a == b for a, b in zip(first, second, strict=True)) >= 3
        for first, second in zip(*shapes, strict=True)
    )


def _rows(columns: Columns, name: str, axis: int, width: int | None = None) -> str:
    """An output as rows [1,n,width].

    Args:
        columns: makes parts of values.
        name: the output.
        axis: along which the numbers of a cell are.
        width: numbers of a box; None if a cell has one box.
    """
    shape = columns.graph.type(name).shape
    width = width or shape[axis]
    if axis == 1 and len(shape) > 2:
        name = columns.transposed(name, (0, *range(2, len(shape)), 1))
    return columns.reshaped(name, (1, math.prod(shape) // width, width))
