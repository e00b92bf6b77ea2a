"""Control flow of TFLite models, as operators without any.

A graph has no control flow. Both branches of a condition at run time are computed, and one is
chosen; a loop becomes its body as often as it runs, if constants say how often that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fitzroy.compiler.frontends.tflite.lists import joined
from fitzroy.compiler.frontends.tflite.operators import Operators, declaration
from fitzroy.compiler.frontends.tflite.variables import same_type
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.definition import TypeRuleError, demand
from fitzroy.compiler.ops.opaque import Opaque, OpaqueAttributes, carried_operator
from fitzroy.compiler.ops.shape import ReshapeAttributes

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

    Raises:
        TypeRuleError: a node does not fit shapes that are known only there.
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
        _place(graph, placed, [name for name in node.inputs if name is not None], inner)
    return [names[name] for name in inner.outputs]


def _place(graph: Graph, node: Node, originals: Sequence[str], inner: Graph) -> None:
    """Put a node of another graph into a graph.

    Where its operands have become constants, or have other shapes than where it comes from, its
    results may have other types than there.

    Args:
        graph: where it goes; its results are values there.
        node: the node, with the names that values have in `graph`.
        originals: names of its operands in the other graph, without those that are absent.
        inner: the other graph.

    Raises:
        TypeRuleError: it does not fit operands of other shapes.
    """
    pairs = [
        (graph.value(name), inner.value(original))
        for name, original in zip(filter(None, node.inputs), originals, strict=True)
    ]
    retyped = any(own.type.shape != other.type.shape for own, other in pairs)
    learnt = any(own.is_constant and not other.is_constant for own, other in pairs)
    operators = Operators(graph, graph.name, open=node.outputs)
    if node.op == Opaque.name and (retyped or learnt):
        if _understood(operators, node):
            return
        demand(not retyped, f"the shapes of what {node.spelled} reads are computed at run time")
    elif retyped:
        operators.settle(node)
    operators.insert(node)


def _understood(operators: Operators, node: Node) -> bool:
    """Place an operator that was opaque before its operands were known; whether it no longer is."""
    graph, attributes = operators.graph, node.attributes
    assert isinstance(attributes, OpaqueAttributes)
    if not attributes.whole:
        return False
    before = [graph.value(name) for name in node.outputs]
    try:
        operator, code = carried_operator(attributes)
        known, options = declaration(operator, code, attributes.code)
        operators.place(node, attributes.code, known, options)
    except TypeRuleError:
        operators.undo()
        for value in before:
            graph.set_value(value)
        return False
    return True


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
    for branch in branches:
        demand_types(graph, inputs, branch, branch.inputs)
    demand(graph.type(condition).size == 1, f"the condition is {graph.type(condition)}")
    pairs = list(zip(*(spliced(graph, branch, inputs) for branch in branches), strict=True))
    for one, other in pairs:
        types = graph.type(one), graph.type(other)
        demand(types[0] == types[1], f"branches give {types[0]} and {types[1]}")
    if graph.type(condition).rank:
        flat = graph.type(condition).with_shape(())
        condition = graph.emit("reshape", [condition], flat, ReshapeAttributes(()))
    return [
        graph.emit("select", [condition, one, other], graph.type(one), stem=one)
        for one, other in pairs
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
            joined(graph)
            return graph
        if (turn + 1) * size > _LARGEST:
            break
        names = spliced(graph, body, names, kept[1])
        demand_types(graph, names, body, body.inputs)
    raise TypeRuleError(f"the loop runs more than {LONGEST} times, or is very large")
