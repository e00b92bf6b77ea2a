"""Rows of scores that are images: the layers of a detector, before their scores are joined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.passes.heads.best_class import Group, best_of, groups, number_of
from fitzroy.compiler.passes.heads.columns import Columns

_TURNED = (0, 2, 1)
"""The order of axes that exchanges boxes and classes."""


@dataclass(frozen=True)
class Level:
    """An image whose pixels have the scores of the boxes of a cell.

    Attributes:
        image: scores [1,h,w,b*c].
        boxes: boxes of a cell, b.
        adjacent: whether the rows of a cell's boxes come one after another, and not those of all
            cells for one box before those for the next.
        functions: what is computed of every element of the image, in order.
    """

    image: str
    boxes: int
    adjacent: bool
    functions: tuple[Node, ...] = ()


def levels_of(graph: Graph, name: str, *, turned: bool = False) -> list[Level]:
    """The images whose pixels are the rows of scores, in order; empty if there are others.

    Args:
        graph: the graph.
        name: scores [1,n,c], or [1,c,n].
        turned: whether classes come before boxes.
    """
    node, type = graph.producer(name), graph.type(name)
    if node is None or type.dtype not in (DType.INT8, DType.UINT8) or type.quantization is None:
        return []
    a, boxes = node.attributes, 2 if turned else 1
    if isinstance(a, TransposeAttributes) and a.perm == _TURNED:
        return levels_of(graph, str(node.inputs[0]), turned=not turned)
    if isinstance(a, ConcatenationAttributes):
        found = [levels_of(graph, str(part), turned=turned) for part in node.inputs]
        same = all(graph.type(str(part)).quantization == type.quantization for part in node.inputs)
        same = same and a.axis % type.rank == boxes
        return [level for part in found for level in part] if same and all(found) else []
    if _is_function(graph, node):
        found = [levels_of(graph, str(node.inputs[0]), turned=turned)]
        return [replace(x, functions=(*x.functions, node)) for part in found for x in part]
    return _level(graph, name, turned)


def _is_function(graph: Graph, node: Node) -> bool:
    """Whether every element of a result is a function of one of the operand, the same for all."""
    types = [graph.type(str(name)) for name in (*node.inputs, *node.outputs)]
    return (
        OPS[node.op].elementwise
        and len(node.inputs) == len(node.outputs) == 1
        and all(x.quantization is not None and x.quantization.is_per_tensor for x in types)
    )


def _level(graph: Graph, name: str, turned: bool) -> list[Level]:
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
    if len(shape) != 4 or shape[0] != 1 or len(rows) != 3 or shape[3] % rows[2]:
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
    image, functions = str(moves[-1].inputs[0]), list[Node]()
    while (node := graph.producer(image)) is not None and _is_function(graph, node):
        functions.insert(0, node)
        image = str(node.inputs[0])
    return [
        Level(image, boxes, adjacent, tuple(functions))
        for adjacent, wanted in orders.items()
        if np.array_equal(moved, wanted.reshape(rows))
    ][:1]


def _best(graph: Graph, group: Group) -> tuple[str, str]:
    """The best score of every box of a group, and its class as `number_of` gives it."""
    best = best_of(graph, group)
    return best, number_of(graph, group, best)


def best_classes(
    columns: Columns,
    levels: Sequence[Level],
    background: int,
    judged: Callable[[Graph, Group], tuple[str, str]] = _best,
) -> tuple[str, str]:
    """The best score of every box [1,n,1], and its class as `number_of` gives it [1,n,1].

    Args:
        columns: makes parts of values.
        levels: the images of the scores.
        background: how many of the first classes stand for no object.
        judged: makes both of a group of boxes.
    """
    scores, classes = list[str](), list[str]()
    for level in levels:
        found, made = list[Group](), list[tuple[str, str]]()
        # Nodes run in this order. The scores of one group are gone before those of the next come.
        for group in groups(columns, level.image, level.boxes, background):
            found.append(replace(group, image=_computed(columns.graph, level, group.image)))
            made.append(judged(columns.graph, found[-1]))
        best, numbers = zip(*made, strict=True)
        scores += _rows(columns, level, found, best)
        classes += _rows(columns, level, found, numbers)
    return columns.joined(scores, 1), columns.joined(classes, 1)


def _computed(graph: Graph, level: Level, name: str) -> str:
    """Some channels of a level's image after the functions of its elements."""
    for node in level.functions:
        type = replace(graph.type(node.outputs[0]), shape=graph.type(name).shape)
        name = graph.emit(node.op, [name], type, node.attributes, stem=f"{name}.{node.op}")
    return name


def _rows(
    columns: Columns, level: Level, found: Sequence[Group], made: Sequence[str]
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
