"""Where the elements of a value come from, through operators that move elements.

Models make the matrices of a product by reshaping, dividing and transposing an image. A trace
follows every element of such a matrix back to the image.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.shape import (
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)

Numbers = npt.NDArray[np.int64]
"""For every element of a value, the number of the element of another value that it is."""

MOVES = frozenset(["reshape", "transpose", "split", "strided_slice"])
"""Operators that move elements."""

_MOST_ELEMENTS = 1 << 22
"""Elements of a value that is followed."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the elements of a value come from.

    Attributes:
        root: the value that they come from.
        numbers: their numbers there, in the shape of the value.
        between: functions of single elements on the way, the first one first.
    """

    root: str
    numbers: Numbers
    between: tuple[Node, ...] = ()


def traces(graph: Graph, name: str, ends: Container[str] = ()) -> list[Trace]:
    """Where a value comes from, step by step; the last one is the furthest.

    Args:
        graph: the graph.
        name: the value.
        ends: values beyond which nothing is followed.
    """
    chain, reached = list[tuple[Node, str]](), [name]
    while name not in ends:
        node = graph.producer(name)
        if node is None or not (node.op in MOVES or is_of_elements(graph, node)):
            break
        chain.append((node, name))
        name = node.inputs[0] or ""
        reached.append(name)
    found = []
    for count, root in enumerate(reached):
        type = graph.type(root)
        if type.size > _MOST_ELEMENTS:
            break
        numbers, between = np.arange(type.size).reshape(type.shape), list[Node]()
        for node, result in reversed(chain[:count]):
            if node.op in MOVES:
                numbers = moved(graph, node, result, numbers)
            else:
                # A constant may have more axes, of one element each.
                numbers = numbers.reshape(graph.type(result).shape)
                between.append(node)
        found.append(Trace(root, numbers, tuple(between)))
    return found


def is_of_elements(graph: Graph, node: Node) -> bool:
    """Whether a node is a function of the single elements of its first operand."""
    if not OPS[node.op].elementwise:
        # Others may leave out operands.
        return False
    others = [graph.value(name or "") for name in node.inputs[1:]]
    return all(value.is_constant and value.type.size == 1 for value in others)


def is_product(graph: Graph, node: Node) -> bool:
    """Whether a node multiplies matrices that are both computed."""
    return node.op == "batch_matmul" and not any(
        graph.value(name or "").is_constant for name in node.inputs
    )


def moved(graph: Graph, node: Node, name: str, numbers: Numbers) -> Numbers:
    """What a node that moves elements makes of their numbers, for one of its results."""
    match node.attributes:
        case ReshapeAttributes():
            return numbers.reshape(graph.type(name).shape)
        case TransposeAttributes(perm):
            return numbers.transpose(perm)
        case SplitAttributes(axis, sizes):
            ends = np.cumsum(sizes)[:-1].tolist()
            return np.split(numbers, ends, axis)[node.outputs.index(name)]
        case StridedSliceAttributes(begin, size, stride):
            box = tuple(
                np.arange(count) * step + first
                for first, count, step in zip(begin, size, stride, strict=True)
            )
            return numbers[np.ix_(*box)]
    raise AssertionError(f"{node.op} moves no elements")
