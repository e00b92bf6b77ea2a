"""Steps of a recurrence, such as an LSTM: products by one filter, each with what the last gave."""

from __future__ import annotations

from collections import defaultdict

from fitzroy.compiler.ir import Graph, Node

_MEMORY = 11 << 19
"""Weights that a chip keeps: it stores them in 8 MiB, with biases and gaps."""


def recurrences(graph: Graph) -> list[list[Node]]:
    """Steps that have to have one filter and bias in common, because the chip has no room for more.

    Parameters depend on the quantization of operand and result. Where steps differ in those, a
    chip keeps the parameters of every step. If they take more than its memory, the host sends
    them with every inference, which takes longer than all else.
    """
    found = [steps for steps in _by_filter(graph) if _is_chain(graph, steps)]
    once_each = sum(len(steps) * _weights(graph, steps[0]) for steps in found)
    return found if once_each > _MEMORY else []


def _by_filter(graph: Graph) -> list[list[Node]]:
    """Fully connected layers that share a filter, in order."""
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes():
        if node.op == "fully_connected" and graph.value(str(node.inputs[1])).is_constant:
            readers[str(node.inputs[1])].append(node)
    return [steps for steps in readers.values() if len(steps) > 1]


def _is_chain(graph: Graph, steps: list[Node]) -> bool:
    """Whether each step reads what comes of the one before."""
    names = {step.name for step in steps}
    passed: dict[str, int] = {}
    for node in graph.nodes():
        count = max((passed.get(str(name), 0) for name in node.inputs), default=0)
        count += node.name in names
        passed.update(dict.fromkeys(node.outputs, count))
    return passed[steps[-1].outputs[0]] == len(steps)


def _weights(graph: Graph, step: Node) -> int:
    return graph.type(str(step.inputs[1])).size
