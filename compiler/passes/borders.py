"""Element types and orders of dimensions at the borders of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.shape import TransposeAttributes
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.conversions import source_of


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
            type = graph.type(name)
            _take(graph, name, type.with_shape(tuple(type.shape[axis] for axis in perm)))
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


@dataclass(frozen=True)
class ChannelsLastOutputs(Pass):
    """Give outputs in the order of dimensions in which they are computed.

    An output that is transposed from channels last to channels before rows and columns becomes what
    is transposed, unless something else gives that or reads the output.
    """

    name = "channels-last-outputs"

    def run(self, graph: Graph) -> Graph:
        """Retype such outputs; the transpositions go away."""
        _give_sources(graph, _channels_last)
        return graph


def _channels_last(graph: Graph, name: str) -> str | None:
    """The computed value that alone is transposed to an output with channels first, or None."""
    node, rank = graph.producer(name), graph.type(name).rank
    if node is None or not isinstance(node.attributes, TransposeAttributes) or rank < 3:
        return None
    channels_first = (0, rank - 1, *range(1, rank - 1))
    return _given(graph, name, node) if node.attributes.perm == channels_first else None


def _given(graph: Graph, name: str, node: Node) -> str | None:
    """What the node that gives an output reads, if an operator computes it and no output is it."""
    source = str(node.inputs[0])
    if source in graph.outputs or graph.consumers(name) or graph.producer(source) is None:
        return None
    return source


@dataclass(frozen=True)
class IntegerBorders(Pass):
    """Take and give integers of 8 bits where a graph only converts real numbers at its borders.

    An input that nothing reads but conversions to one type becomes what they give. An output that
    is converted from integers becomes these, unless something else has them or reads the output.
    """

    name = "integer-borders"

    def run(self, graph: Graph) -> Graph:
        """Retype such inputs and outputs; the conversions go away."""
        for name in graph.inputs:
            type = _type_read(graph, name)
            if type is not None:
                _take(graph, name, type)
        _give_sources(graph, _integers_of)
        return graph


def _type_read(graph: Graph, name: str) -> TensorType | None:
    """The type of 8 bits to which all readers of an input convert it; None if there is none."""
    readers = graph.consumers(name)
    results = {str(node.outputs[0]) for node in readers}
    types = {graph.type(result) for result in results}
    if name in graph.outputs or not results.isdisjoint(graph.outputs) or len(types) != 1:
        return None
    (type,) = types
    return type if type.is_eight_bit and all(node.op == "quantize" for node in readers) else None


def _take(graph: Graph, name: str, type: TensorType) -> None:
    """Let an input be what its readers make of it."""
    for node in graph.consumers(name):
        graph.remove(node.name)
        graph.replace_uses(node.outputs[0], name)
    graph.set_value(Value(name, type))
    graph.prune()


def _integers_of(graph: Graph, name: str) -> str | None:
    """The computed integers that alone become an output; None if there are none."""
    node = graph.producer(name)
    if node is None or source_of(graph, name) is None:
        return None
    return _given(graph, name, node)


def _give_sources(graph: Graph, source_of_output: Callable[[Graph, str], str | None]) -> None:
    """Let outputs be the values that they are made of, where a function gives some."""
    for name in graph.outputs:
        source = source_of_output(graph, name)
        if source is None:
            continue
        node = graph.producer(name)
        assert node is not None
        graph.remove(node.name)
        graph.set_value(Value(name, graph.type(source)))
        graph.retarget(source, name)
        graph.prune()


def border_passes(graph: Graph) -> tuple[str, ...]:
    """Names of the passes, in order, that leave to the caller what a graph does at its borders.

    Args:
        graph: the graph; it stays as it is.
    """
    after, found = graph.copy(), []
    for step in (IntegerBorders(), ChannelsLastInputs(), ChannelsLastOutputs()):
        before = len(after.nodes())
        after = step.run(after)
        if len(after.nodes()) < before:
            found.append(step.name)
    return tuple(found)
