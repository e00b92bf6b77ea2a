"""The best class of every box, found where the scores are computed.

A detector of 80 classes has 80 scores for every box, and needs the largest and its number. On an
Edge TPU these are operators of images, and two bytes of a box go to the host in place of 80.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.detections import CLASSES, SCORES, Detections, DetectionsAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.passes.base import Pass, run_passes
from fitzroy.compiler.passes.heads.best_class import (
    LEVELS,
    Group,
    best_of,
    groups,
    number_of,
)
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.shared_probability import LEAST_THRESHOLD, shared

_TURNED = (0, 2, 1)
"""The order of axes that exchanges boxes and classes."""

_FEW = 32
"""Scores of at most so many classes go to the host as they are: by the timing model, finding the
best takes longer than sending them."""


@dataclass(frozen=True)
class ClassMaximum(Pass):
    """Give ``detections`` the best score of each box and its class, in the place of all scores.

    Scores are int8. What is found is the same: of equal scores, the first class counts. The
    probability of a softmax is another by its rounding, up to three hundredths.
    """

    name = "class-maximum"

    def run(self, graph: Graph) -> Graph:
        """Rewrite the operators whose scores are computed as images."""
        for node in graph.nodes():
            if node.op == Detections.name:
                _rewrite(graph, node)
        graph.prune()
        return graph


def with_best_classes(graph: Graph) -> Graph:
    """The graph after the pass; the graph itself if it lists no objects."""
    listing = any(node.op == Detections.name for node in graph.nodes())
    return run_passes(graph, (ClassMaximum(),)) if listing else graph


def _rewrite(graph: Graph, node: Node) -> None:
    """Give an operator the best scores and their classes, if it has all scores."""
    a, scores = node.attributes, str(node.inputs[SCORES])
    assert isinstance(a, DetectionsAttributes)
    type = graph.type(scores)
    classes = type.shape[2]
    if not _FEW < classes - a.background <= LEVELS or a.peaks:
        return
    source = graph.producer(scores)
    shares = source is not None and source.op == "softmax" and a.background > 0
    if shares and a.score_threshold < LEAST_THRESHOLD:
        return
    levels = _levels(graph, str(source.inputs[0]) if source and shares else scores)
    if not levels:
        return
    columns = Columns(graph)
    inputs = [*node.inputs, *([None] * (CLASSES + 1 - len(node.inputs)))]
    rows: dict[int, list[str]] = {SCORES: [], CLASSES: []}
    for level in levels:
        found = list(groups(columns, level.image, level.boxes, 0 if shares else a.background))
        if shares:
            parts = [shared(graph, item, a.background, a.score_threshold) for item in found]
            sure = [part.probability for part in parts]
            numbers = [number_of(graph, part.objects, part.best) for part in parts]
        else:
            sure = [best_of(graph, group) for group in found]
            numbers = [number_of(graph, *pair) for pair in zip(found, sure, strict=True)]
        rows[SCORES] += _rows(columns, level, found, sure)
        rows[CLASSES] += _rows(columns, level, found, numbers)
    for place, images in rows.items():
        inputs[place] = columns.joined(images, 1)
    quantization = graph.type(str(inputs[CLASSES])).quantization
    assert quantization is not None
    # Codes fall from the highest integer, which stands for zero.
    a = replace(a, class_step=-quantization.scale[0], background=0)
    graph.update(replace(node, inputs=tuple(inputs), attributes=a))


@dataclass(frozen=True)
class _Level:
    """An image whose pixels have the scores of the boxes of a cell.

    Attributes:
        image: scores [1,h,w,b*c].
        boxes: boxes of a cell, b.
        adjacent: whether the rows of a cell's boxes come one after another, and not those of all
            cells for one box before those for the next.
    """

    image: str
    boxes: int
    adjacent: bool


def _levels(graph: Graph, name: str, turned: bool = False) -> list[_Level]:
    """The images whose pixels are the rows of scores, in order; empty if there are others.

    Args:
        graph: the graph.
        name: scores [1,n,c], or [1,c,n].
        turned: whether classes come before boxes.
    """
    node, type = graph.producer(name), graph.type(name)
    if node is None or type.dtype is not DType.INT8 or type.quantization is None:
        return []
    a, boxes = node.attributes, 2 if turned else 1
    if isinstance(a, TransposeAttributes) and a.perm == _TURNED:
        return _levels(graph, str(node.inputs[0]), not turned)
    if isinstance(a, ConcatenationAttributes):
        found = [_levels(graph, str(part), turned) for part in node.inputs]
        same = all(graph.type(str(part)).quantization == type.quantization for part in node.inputs)
        same = same and a.axis % type.rank == boxes
        return [level for part in found for level in part] if same and all(found) else []
    return _level(graph, name, turned)


def _level(graph: Graph, name: str, turned: bool) -> list[_Level]:
    """The one image whose pixels are scores; empty if it is not so.

    An image has the scores of several boxes side by side where a model has several anchors.
    """
    rows = graph.type(name).shape
    if turned:
        rows = tuple(rows[axis] for axis in _TURNED)
    moves: list[Node] = []
    node = graph.producer(name)
    while node is not None and isinstance(node.attributes, ReshapeAttributes | TransposeAttributes):
        moves.append(node)
        node = graph.producer(str(node.inputs[0]))
    shape = graph.type(str(moves[-1].inputs[0])).shape if moves else ()
    if len(shape) != 4 or shape[0] != 1 or shape[3] % rows[2]:
        return []
    places = np.arange(math.prod(shape)).reshape(shape)
    boxes, moved = shape[3] // rows[2], places
    for move in reversed(moves):
        if isinstance(move.attributes, TransposeAttributes):
            moved = moved.transpose(move.attributes.perm)
        else:
            moved = moved.reshape(graph.type(move.outputs[0]).shape)
    if turned:
        moved = moved.transpose(_TURNED)
    cells = places.reshape(-1, boxes, rows[2])
    orders = {False: cells.transpose(1, 0, 2), True: cells}
    image = str(moves[-1].inputs[0])
    return [
        _Level(image, boxes, adjacent)
        for adjacent, wanted in orders.items()
        if np.array_equal(moved, wanted.reshape(rows))
    ][:1]


def _rows(
    columns: Columns, level: _Level, found: Sequence[Group], made: Sequence[str]
) -> Iterator[str]:
    """What groups became, images [1,h,w,s], as rows [1,n,1] in the order of the boxes.

    Args:
        columns: makes parts of values.
        level: the image.
        found: its groups.
        made: what each of them became.
    """
    images = [
        columns.sliced(name, 3, 0, group.boxes) if group.boxes < group.stride else name
        for group, name in zip(found, made, strict=True)
    ]
    whole = columns.joined(images, 3)
    count = columns.graph.type(whole).size
    if level.adjacent or level.boxes == 1:
        yield columns.reshaped(whole, (1, count, 1))
        return
    for box in range(level.boxes):
        name = columns.sliced(whole, 3, box, 1)
        yield columns.reshaped(name, (1, count // level.boxes, 1))
