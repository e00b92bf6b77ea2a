"""The best class of every box, found where the scores are computed.

A detector of 80 classes has 80 scores for every box, and needs the largest and its number. On an
Edge TPU these are operators of images, and two bytes of a box go to the host in place of 80.
"""

from __future__ import annotations

import math
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
    images = _images(graph, scores)
    if not images:
        return
    columns = Columns(graph)
    images = [columns.take(name, 3, a.background, classes - a.background) for name in images]
    best = {name: _best(graph, name) for name in images}
    numbers = {name: _number(graph, name, best[name]) for name in images}
    inputs = [*node.inputs, *([None] * (CLASSES + 1 - len(node.inputs)))]
    inputs[SCORES] = _rows(graph, [best[name] for name in images])
    inputs[CLASSES] = _rows(graph, [numbers[name] for name in images])
    quantization = graph.type(str(inputs[CLASSES])).quantization
    assert quantization is not None
    # Codes fall from the highest integer, which stands for zero.
    a = replace(a, class_step=-quantization.scale[0], background=0)
    graph.update(replace(node, inputs=tuple(inputs), attributes=a))


def _images(graph: Graph, name: str, turned: bool = False) -> list[str]:
    """The images [1,h,w,c] whose pixels are the rows of scores; empty if there are others.

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
        return _images(graph, str(node.inputs[0]), not turned)
    if isinstance(a, ConcatenationAttributes):
        found = [_images(graph, str(part), turned) for part in node.inputs]
        same = all(graph.type(str(part)).quantization == type.quantization for part in node.inputs)
        same = same and a.axis % type.rank == boxes
        return [name for part in found for name in part] if same and all(found) else []
    return _parts_of_image(graph, name, turned)


def _parts_of_image(graph: Graph, name: str, turned: bool) -> list[str]:
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
    # All cells of one box come before those of the next.
    wanted = places.reshape(-1, boxes, rows[2]).transpose(1, 0, 2).reshape(rows)
    if not np.array_equal(moved, wanted):
        return []
    columns, image = Columns(graph), str(moves[-1].inputs[0])
    return [columns.take(image, 3, box * rows[2], rows[2]) for box in range(boxes)]


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


def _rows(graph: Graph, names: list[str]) -> str:
    """Images [1,h,w,1] as rows [1,n,1], one after another."""
    rows = []
    for name in names:
        type = graph.type(name)
        shape = (1, type.size, 1)
        rows.append(graph.emit("reshape", [name], type.with_shape(shape), ReshapeAttributes(shape)))
    if len(rows) == 1:
        return rows[0]
    type = graph.type(rows[0])
    count = sum(graph.type(name).size for name in rows)
    return graph.emit(
        "concatenation", rows, type.with_shape((1, count, 1)), ConcatenationAttributes(1)
    )
