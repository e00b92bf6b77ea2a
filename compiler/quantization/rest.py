"""Models with operators that nobody here computes: what comes before them is quantized."""

from __future__ import annotations

from dataclasses import replace

from fitzroy.base.diagnostics import Diagnostic
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.opaque import Opaque, opaque_nodes
from fitzroy.compiler.quantization.rules import obstacle


def beyond(graph: Graph) -> dict[str, Node]:
    """Operators that are opaque or depend on one that is, by name, with that one."""
    found: dict[str, Node] = {}
    for node in graph.nodes():
        sources = [graph.producer(name) for name in node.inputs if name is not None]
        before = [found[one.name] for one in sources if one is not None and one.name in found]
        if node.op == Opaque.name:
            found[node.name] = node
        elif before:
            found[node.name] = before[0]
    return found


def computed(graph: Graph) -> Graph:
    """A graph without what depends on opaque operators, with what these read as outputs.

    Raises:
        UnsupportedError: nothing is left.
    """
    rest = beyond(graph)
    if not rest:
        return graph
    outputs = dict[str, None]()
    for node in graph.nodes():
        names = [*node.inputs] if node.name in rest else []
        names += [name for name in node.outputs if name in graph.outputs]
        for name in names:
            source = None if name is None else graph.producer(name)
            if source is not None and source.name not in rest:
                outputs[str(name)] = None
    if not outputs:
        (first, *_) = opaque_nodes(graph)
        raise UnsupportedError(
            f"{first.spelled} comes first, and nothing here computes it", where=graph.name
        )
    return graph.cut(list(outputs))


def reasons(graph: Graph) -> list[Diagnostic]:
    """Why operators are not quantized whose operands are not known."""
    return [
        obstacle(
            graph.node(name),
            f"it is, or comes after, {source.spelled} {source.name!r}",
            "nothing here computes that, so that ranges are not known",
        )
        for name, source in beyond(graph).items()
    ]


def with_rest(quantized: Graph, graph: Graph) -> Graph:
    """A quantized graph, followed by what depends on opaque operators.

    Args:
        quantized: what `computed` gives, quantized, with float32 outputs of the same names.
        graph: the whole graph.
    """
    result, rest = quantized.copy(), beyond(graph)
    names = {name: name for name in (*graph.inputs, *quantized.outputs)}
    for node in graph.nodes():
        if node.name not in rest:
            continue
        for name in (*node.inputs, *node.outputs):
            if name is not None and name not in names:
                value = graph.value(name)
                names[name] = result.fresh(name)
                result.add_value(replace(value, name=names[name]))
        read = tuple(None if name is None else names[name] for name in node.inputs)
        made = tuple(names[name] for name in node.outputs)
        result.add_node(replace(node, name=made[0], inputs=read, outputs=made))
    result.outputs = [names.get(name, name) for name in graph.outputs]
    result.prune()
    return result
