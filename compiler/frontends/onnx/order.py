"""In which order the nodes of an ONNX model run, and which of them its outputs need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

DEEPEST = 24
"""Most functions and graphs of operators inside one another; one with constants counts two."""


def needed(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> list[int]:
    """Indices of the nodes that outputs depend on, in the order in which they can run."""
    wanted, kept = set(outputs), []
    for number in reversed(runnable(nodes)):
        node = nodes[number]
        if wanted.isdisjoint(node.output):
            continue
        kept.append(number)
        wanted.update(_read(node))
    return kept[::-1]


def runnable(nodes: Sequence[NodeProto]) -> list[int]:
    """Indices of nodes, each after the nodes whose results it reads, if there is such an order.

    ONNX asks for that order, but converters to float16 append operators, and ONNX Runtime takes
    any order. Nodes in order stay as they are.
    """
    givers = {
        name: number
        for number in reversed(range(len(nodes)))
        for name in nodes[number].output
        if name
    }
    order: dict[int, None] = {}
    begun: set[int] = set()
    for root in range(len(nodes)):
        pending = [root]
        while pending:
            number = pending[-1]
            # A node that comes up again has all that it reads, or is part of a circle.
            before = () if number in begun else map(givers.get, _read(nodes[number]))
            missing = [giver for giver in before if giver is not None and giver not in order]
            begun.add(number)
            if missing:
                pending += missing
            else:
                order[pending.pop()] = None
    return list(order)


def _read(node: NodeProto) -> Iterator[str]:
    """Names that a node may read, also in graphs inside it."""
    yield from node.input
    for body in bodies([node]):
        yield from (info.name for info in body.output)
        yield from (name for inner in body.node for name in inner.input)


def nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph, and of the graphs inside them."""
    yield from graph.node
    for body in bodies(graph.node):
        yield from body.node


def bodies(nodes: Iterable[NodeProto], deepest: int = DEEPEST) -> Iterator[GraphProto]:
    """The graphs inside some operators, and inside those of these graphs.

    Args:
        nodes: the operators.
        deepest: how many graphs inside one another are looked at.
    """
    for node in nodes if deepest else ():
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
                yield from bodies(attribute.g.node, deepest - 1)
