"""Graphs that were rewritten, and the nodes of the model that their nodes stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Attributes, Graph


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


@dataclass
class Rewriter:
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

    def finished(self) -> Rewritten:
        """The graph, without what nothing reads any more."""
        self.graph.prune()
        return Rewritten(self.graph, self.origins)
