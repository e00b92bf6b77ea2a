"""Orders of dimensions at the borders of a graph."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.shape import TransposeAttributes
from fitzroy.compiler.passes.base import Pass


@dataclass(frozen=True)
class ChannelsLastInputs(Pass):
    """Change the order of dimensions of inputs to that of the operators that read them.

    An input that nothing reads but transpositions of one kind, from channels before rows and
    columns to channels last, becomes what they give.
    """

    name = "channels-last-inputs"

    def run(self, graph: Graph) -> Graph:
        """Retype such inputs; the transpositions go away."""
        for name in graph.inputs:
            perm = input_order(graph, name)
            if perm is None:
                continue
            for node in graph.consumers(name):
                graph.remove(node.name)
                graph.replace_uses(node.outputs[0], name)
            type = graph.type(name)
            shape = tuple(type.shape[axis] for axis in perm)
            graph.set_value(Value(name, type.with_shape(shape)))
        graph.prune()
        return graph


def input_order(graph: Graph, name: str) -> tuple[int, ...] | None:
    """The order of dimensions that `ChannelsLastInputs` gives an input; None if it stays.

    Dimension i of the result is dimension ``order[i]`` of the input.
    """
    readers = graph.consumers(name)
    shape = graph.type(name).shape
    found = set()
    for node in readers:
        if node.outputs[0] in graph.outputs:
            return None
        if isinstance(node.attributes, TransposeAttributes):
            found.add(node.attributes.perm)
        elif node.op == "reshape" and len(shape) > 2:
            target = graph.type(node.outputs[0]).shape
            if target != (shape[0], *shape[2:], shape[1]):
                return None
            # With one channel, or one row and column, elements lie in the same order either way.
            found.add((0, *range(2, len(shape)), 1))
        else:
            return None
    perm = found.pop() if len(found) == 1 else None
    return perm if perm == (0, *range(2, len(shape)), 1) and name not in graph.outputs else None
