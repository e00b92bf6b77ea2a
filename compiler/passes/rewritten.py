"""Graphs that were rewritten, and the nodes of the model that their nodes stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Attributes, Graph, Node


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A graph that takes the place of another one of the same meaning.

    Attributes:
        graph: the graph.
        origins: nodes of the other graph that nodes stand for, by their names, where these differ.
    """

    graph: Graph
    origins: Mapping[str, str] = field(default_factory=dict)

    def then(self, rewrite: Callable[[Graph], Rewritten]) -> Rewritten:
        """The graph rewritten once more; origins are still nodes of the first graph."""
        found = rewrite(self.graph)
        origins = {name: self.origins.get(one, one) for name, one in found.origins.items()}
        return Rewritten(found.graph, {**self.origins, **origins})


Item = TypeVar("Item")
"""What is rewritten at a time: a node, or several."""


@dataclass
class Rewriter(Generic[Item]):
    """A graph on its way to another one.

    Attributes:
        graph: the graph so far.
        origins: nodes that added nodes stand for.
    """

    graph: Graph
    origins: dict[str, str] = field(default_factory=dict)

    def emit(
        self,
        origin: str,
        op: str,
        inputs: Sequence[str | None],
        type: TensorType,
        attributes: Attributes,
    ) -> str:
        """Append a node that stands for another one; returns the name of its result."""
        name = self.graph.emit(op, inputs, type, attributes, stem=f"{origin}/{op}")
        self.origins[name] = origin
        return name

    def put_in_place(
        self,
        node: Node,
        op: str,
        inputs: Sequence[str | None],
        attributes: Attributes,
        origin: str = "",
    ) -> None:
        """Let a new node make the results of another one, which goes away.

        Args:
            node: the other one.
            op: the new node's operator.
            inputs: its operands.
            attributes: its attributes.
            origin: the node that it stands for, by default the other one.
        """
        self.graph.remove(node.name)
        name = self.graph.fresh(f"{node.name}/{op}")
        self.graph.add_node(Node(name, op, tuple(inputs), node.outputs, attributes))
        self.origins[name] = origin or node.name

    def rewrite(self, item: Item) -> None:
        """Put other nodes in the place of an item's."""
        raise NotImplementedError

    @classmethod
    def applied(cls, graph: Graph, items: Sequence[Item]) -> Rewritten:
        """A graph with some items rewritten; the graph itself if there are none."""
        if not items:
            return Rewritten(graph)
        work = cls(graph.copy())
        for item in items:
            work.rewrite(item)
        return work.finished()

    def finished(self) -> Rewritten:
        """The graph, without what nothing reads any more."""
        self.graph.prune()
        return Rewritten(self.graph, self.origins)
