"""The best class of every box, found where the scores are computed.

A detector of 80 classes has 80 scores for every box, and needs the largest and its number. On an
Edge TPU these are operators of images, and two bytes of a box go to the host in place of 80.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.detections import CLASSES, SCORES, Detections, DetectionsAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.passes.base import Pass, run_passes
from fitzroy.compiler.passes.heads.columns import Columns

_TURNED = (0, 2, 1)
"""The order of axes that exchanges boxes and classes."""

_LEVELS = 256
_HIGH = 127
_FEW = 32
"""Scores of at most so many classes go to the host as they are: by the timing model, finding the
best takes longer than sending them."""


@dataclass(frozen=True)
class ClassMaximum(Pass):
    """Give ``detections`` the best score of each box and its class, in the place of all scores.

    Scores are int8. What is found is the same: of equal scores, the first class counts.
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
    if not _FEW < classes - a.background <= _LEVELS or a.peaks:
        return
    levels = _levels(graph, scores)
    if not levels:
        return
    columns, width = Columns(graph), classes - a.background
    taken = [
        replace(level, images=[columns.take(name, 3, a.background, width) for name in level.images])
        for level in levels
    ]
    best = {name: _best(graph, name) for level in taken for name in level.images}
    numbers = {name: _number(graph, name, best[name]) for name in best}
    inputs = [*node.inputs, *([None] * (CLASSES + 1 - len(node.inputs)))]
    inputs[SCORES] = _rows(columns, taken, best)
    inputs[CLASSES] = _rows(columns, taken, numbers)
    quantization = graph.type(str(inputs[CLASSES])).quantization
    assert quantization is not None
    # Codes fall from the highest integer, which stands for zero.
    a = replace(a, class_step=-quantization.scale[0], background=0)
    graph.update(replace(node, inputs=tuple(inputs), attributes=a))


@dataclass(frozen=True)
class _Level:
    """Images whose pixels are rows of scores.

    Attributes:
        images: images [1,h,w,c] of equal size, each with the scores of one box of every cell.
        adjacent: whether the boxes of a cell come one after another, and not all cells of one box
            before those of the next.
    """

    images: list[str]
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
    """The parts [1,h,w,c] of one image whose pixels are scores; empty if it is not so.

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
    columns, image = Columns(graph), str(moves[-1].inputs[0])
    for adjacent, wanted in orders.items():
        if np.array_equal(moved, wanted.reshape(rows)):
            parts = [columns.take(image, 3, box * rows[2], rows[2]) for box in range(boxes)]
            return [_Level(parts, adjacent)]
    return []


def _column(type: TensorType) -> TensorType:
    return type.with_shape((*type.shape[:3], 1))


def _best(graph: Graph, name: str) -> str:
    """The best score of every pixel [1,h,w,1]."""
    a = ReductionAttributes((3,), keep_dims=True)
    return graph.emit("reduce_max", [name], _column(graph.type(name)), a, stem=f"{name}.best")


def _number(graph: Graph, name: str, best: str) -> str:
    """The class of the best score of every pixel [1,h,w,1].

    The difference to the best score is 0 for the best and else one step or more below, which 8
    bits of a 255th of a step cannot tell from one. The lesser of that and a code for each class,
    which falls with its number, is the code for the best and the lowest integer for others.
    """
    type = graph.type(name)
    assert type.quantization is not None
    fine = Quantization.per_tensor(type.quantization.scale[0] / (_LEVELS - 1), _HIGH)
    apart = replace(type, quantization=fine)
    classes = type.shape[3]
    codes = np.arange(_HIGH, _HIGH - classes, -1).astype(np.int8).reshape(1, 1, 1, classes)
    off = graph.emit("sub", [name, best], apart, ActivationAttributes(), stem=f"{name}.off")
    code = graph.add_constant(f"{name}.codes", codes, fine)
    coded = graph.emit("minimum", [off, code], apart, stem=f"{name}.coded")
    a = ReductionAttributes((3,), keep_dims=True)
    return graph.emit("reduce_max", [coded], _column(apart), a, stem=f"{name}.class")


def _rows(columns: Columns, levels: list[_Level], made: Mapping[str, str]) -> str:
    """What images [1,h,w,c] became, images [1,h,w,1], as rows [1,n,1], one after another.

    Args:
        columns: makes parts of values.
        levels: the images.
        made: what each of them became.
    """
    rows = []
    for level in levels:
        parts = [made[name] for name in level.images]
        images = [columns.joined(parts, 3)] if level.adjacent else parts
        for name in images:
            rows.append(columns.reshaped(name, (1, columns.graph.type(name).size, 1)))
    return columns.joined(rows, 1)
