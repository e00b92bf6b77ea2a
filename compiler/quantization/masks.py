"""Masks of attention: numbers that keep elements from counting in a softmax.

Exporters add -10,000, the lowest float32 or minus infinity to what is masked, or put such a number
in its place. A range that reaches there has no steps left for the others. Much less is enough: an
element that is `_UNSEEN` less than the largest of its row does not count in 8 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph, Node
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.quantization.rules import is_real
from fitzroy.compiler.quantization.statistics import Range, Statistics

_UNSEEN = 16.0
"""How far below the largest element of a row others do not count: thousands of them together have
less than a step of 1/256."""

_FINITE = np.float32(-1e9)
"""What takes the place of smaller numbers, whose squares float32 does not hold."""

_FAR = 64.0
"""A number this many times as far below zero hides scores either way: added to them, or in their
place."""

_MOVING = ("reshape", "transpose")
_PLAIN = (ActivationAttributes(), NO_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class _Mask:
    """A node that masks scores, which only a softmax reads.

    Attributes:
        node: a sum with the mask, or a choice between scores and a number.
        scores: what is masked.
        constant: what is added, or chosen.
        result: the operand of the softmax, which has the elements of the node's result.
        unseen: how far below the largest element of a row others do not count.
    """

    node: Node
    scores: str
    constant: str
    result: str
    unseen: float


def with_finite_masks(graph: Graph) -> None:
    """Let masks have finite numbers; choices by known conditions become sums."""
    for result, reach in _seen(graph):
        node = _masking(graph, result)
        if node is not None and node.op == "select":
            _add(graph, node, -_FAR * reach)
    for found in _masks(graph):
        _limit(graph, found, _FINITE)


def with_bounded_masks(graph: Graph, statistics: Mapping[str, Statistics]) -> Graph:
    """Let masks have no numbers below what keeps an element from counting.

    Args:
        graph: a float32 graph; it stays as it is, and is the result if no mask changes.
        statistics: of its activations.
    """
    result, changed = graph.copy(), False
    for found in _known(graph, statistics):
        least = _least(found, statistics)
        if found.node.op == "add":
            least -= statistics[found.scores].extrema[1]
        changed |= _limit(result, found, np.float32(least))
    return result if changed else graph


def unseen(graph: Graph, statistics: Mapping[str, Statistics]) -> dict[str, Range]:
    """The least element that counts, for softmax operands with elements that do not count.

    The upper ends of these ranges are open.
    """
    least = {
        name: _lowest_row(statistics[name]) - reach
        for name, reach in _seen(graph)
        if name in statistics
    }
    for found in _known(graph, statistics):
        least[found.result] = _least(found, statistics)
    return {
        name: (bound, -np.inf)
        for name, bound in least.items()
        if bound > statistics[name].extrema[0]
    }


def _known(graph: Graph, statistics: Mapping[str, Statistics]) -> list[_Mask]:
    """All nodes that mask scores by a constant, but for tensors without elements."""
    return [
        found
        for found in _masks(graph)
        if found.scores in statistics and found.result in statistics
    ]


def _least(found: _Mask, statistics: Mapping[str, Statistics]) -> float:
    """The least element that may count: rows that are masked as a whole say nothing about it."""
    low = statistics[found.scores].extrema[0]
    return max(_lowest_row(statistics[found.result]), low) - found.unseen


def _lowest_row(statistics: Statistics) -> float:
    """The least of the largest elements of rows."""
    return float(statistics.rows.max(axis=1).min())


def _seen(graph: Graph) -> Iterator[tuple[str, float]]:
    """Operands of softmaxes that nothing else reads, and how far below others do not count."""
    for node in graph.nodes():
        a = node.attributes
        if not isinstance(a, SoftmaxAttributes) or a.beta <= 0:
            continue
        name = str(node.inputs[0])
        if is_real(graph, name) and _is_single(graph, name):
            yield name, _UNSEEN / a.beta


def _is_single(graph: Graph, name: str) -> bool:
    return len(graph.consumers(name)) == 1 and name not in graph.outputs


def _masking(graph: Graph, name: str) -> Node | None:
    """What gives an operand of a softmax, before elements are moved; None if others read it."""
    node = graph.producer(name)
    while node is not None and node.op in _MOVING:
        name = str(node.inputs[0])
        node = graph.producer(name) if _is_single(graph, name) else None
    return node


def _masks(graph: Graph) -> list[_Mask]:
    """All nodes that mask scores by a constant."""
    found = []
    for result, reach in _seen(graph):
        node = _masking(graph, result)
        if node is None or node.op not in ("add", "select"):
            continue
        names = [str(name) for name in node.inputs[-2:]]
        constants = [name for name in names if graph.value(name).is_constant]
        scores = [name for name in names if name not in constants]
        if len(constants) == len(scores) == 1 and node.attributes in _PLAIN:
            found.append(_Mask(node, scores[0], constants[0], result, reach))
    return found


def _limit(graph: Graph, found: _Mask, least: np.float32) -> bool:
    """Raise the elements of a mask to a least number; returns whether any was below it."""
    data = graph.value(found.constant).data
    assert data is not None
    if data.size == 0 or data.min() >= least:
        return False
    limited = graph.add_constant(f"{found.constant}.limited", np.maximum(data, least))
    inputs = tuple(limited if name == found.constant else name for name in found.node.inputs)
    graph.update(replace(graph.node(found.node.name), inputs=inputs))
    return True


def _add(graph: Graph, node: Node, most: float) -> None:
    """Add a mask instead of choosing between scores and a number, if it is known where.

    Args:
        graph: the graph.
        node: the choice.
        most: the largest number that may be added instead.
    """
    condition, first, second = (graph.value(str(name)) for name in node.inputs)
    scores, number = (second, first) if first.is_constant else (first, second)
    if condition.data is None or number.data is None or scores.is_constant:
        return
    if number.data.size != 1 or number.data.max() > most:
        return
    shapes = condition.type.shape, scores.type.shape
    if np.broadcast_shapes(*shapes) != graph.type(node.outputs[0]).shape:
        return
    masked = condition.data if number is first else ~condition.data
    added = np.where(masked, number.data.reshape(()), 0).astype(np.float32)
    inputs = (scores.name, graph.add_constant(f"{node.name}.mask", added))
    graph.update(replace(node, op="add", inputs=inputs, attributes=ActivationAttributes()))
