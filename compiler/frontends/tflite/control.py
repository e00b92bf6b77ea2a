"""Control flow of TFLite models, as operators without any.

A graph has no control flow. Both branches of a condition at run time are computed, and one is
chosen; a loop becomes its body as often as it runs, if constants say how often that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fitzroy.compiler.frontends.tflite.variables import same_type
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.definition import TypeRuleError, demand
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.reference import known_results

LONGEST = 1024
"""Most times that the body of a loop is written out."""

_LARGEST = 100_000
"""Most operators that a loop may become."""


def spliced(
    graph: Graph, inner: Graph, inputs: Sequence[str], shared: dict[str, str] | None = None
) -> list[str]:
    """Put a graph into another one; returns what its outputs are there.

    Args:
        graph: where it goes.
        inner: what goes there; names get a prefix where they are taken.
        inputs: values of `graph` for the inputs.
        shared: names of constants of `inner` in `graph`, for a graph that is put there again.
    """
    names = dict(zip(inner.inputs, inputs, strict=True))
    kept = {} if shared is None else shared
    for value in inner.values.values():
        if value.name in names:
            continue
        if value.name not in kept or not value.is_constant:
            kept[value.name] = graph.fresh(value.name)
            graph.add_value(replace(value, name=kept[value.name]))
        names[value.name] = kept[value.name]
    for node in inner.nodes():
        read = tuple(None if name is None else names[name] for name in node.inputs)
        made = tuple(names[name] for name in node.outputs)
        placed = replace(node, name=made[0], inputs=read, outputs=made)
        found = known_results(graph, placed)
        if found is None:
            graph.add_node(placed)
        for name, data in (found or {}).items():
            graph.set_value(Value(name, graph.type(name), data))
    return [names[name] for name in inner.outputs]


def demand_types(graph: Graph, names: Sequence[str], inner: Graph, others: Sequence[str]) -> None:
    """Demand that values of two graphs have the same types, one by one.

    Raises:
        TypeRuleError: they have not.
    """
    demand(len(names) == len(others), f"{len(names)} values for {len(others)}")
    for name, other in zip(names, others, strict=True):
        same_type(other, graph.type(name), inner.type(other))


def chosen(
    graph: Graph, condition: str, branches: tuple[Graph, Graph], inputs: Sequence[str]
) -> list[str]:
    """Put two branches into a graph, and choose results by a condition at run time.

    Args:
        graph: where they go.
        condition: a truth value.
        branches: what is computed if it is true, and if it is not.
        inputs: values for the inputs of both.

    Raises:
        TypeRuleError: they have other inputs, or results of different types.
    """
    first, second = branches
    for branch in branches:
        demand_types(graph, inputs, branch, branch.inputs)
    demand(graph.type(condition).size == 1, f"the condition is {graph.type(condition)}")
    pairs = list(zip(first.outputs, second.outputs, strict=True))
    for one, other in pairs:
        types = first.type(one), second.type(other)
        demand(types[0] == types[1], f"branches give {types[0]} and {types[1]}")
    sides = [spliced(graph, branch, inputs) for branch in branches]
    if graph.type(condition).rank:
        flat = graph.type(condition).with_shape(())
        condition = graph.emit("reshape", [condition], flat, ReshapeAttributes(()))
    return [
        graph.emit("select", [condition, one, other], graph.type(one), stem=one)
        for one, other in zip(*sides, strict=True)
    ]


def unrolled(test: Graph, body: Graph, values: Sequence[Value]) -> Graph:
    """A loop without the loop; its inputs are the values that are no constants, in order.

    Args:
        test: computes whether the loop goes on.
        body: computes the next values.
        values: the first ones.

    Raises:
        TypeRuleError: how often it runs is computed at run time, or is too often.
    """
    graph = Graph(body.name)
    names = []
    for value in values:
        if value.data is None:
            names.append(graph.add_input(graph.fresh(value.name), value.type))
        else:
            names.append(graph.add_constant(value.name, value.data, value.type.quantization))
    for inner in (test, body):
        demand_types(graph, names, inner, inner.inputs)
    demand_types(graph, names, body, body.outputs)
    demand(len(test.outputs) == 1, f"a condition of {len(test.outputs)} results")
    kept: tuple[dict[str, str], dict[str, str]] = ({}, {})
    size = len(body.nodes())
    for turn in range(LONGEST + 1):
        (going,) = spliced(graph, test, names, kept[0])
        data = graph.value(going).data
        if data is None or data.size != 1:
            raise TypeRuleError("how often the loop runs is computed at run time")
        if not data.item():
            graph.outputs = names
            graph.prune()
            return graph
        if (turn + 1) * size > _LARGEST:
            break
        names = spliced(graph, body, names, kept[1])
    raise TypeRuleError(f"the loop runs more than {LONGEST} times, or is very large")
