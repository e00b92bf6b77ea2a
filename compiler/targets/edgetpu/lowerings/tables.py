"""Functions of one element that several operators make up, as one table.

Exporters spell out functions that they have no operator for: a hard sigmoid is a product, a sum and
a clamp, and SELU a choice. In between are real numbers and conditions. As both ends are integers of
8 bits and each element depends on one element only, there are 256 results, whatever is in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import MOST_OPERATORS, LookupAttributes
from fitzroy.compiler.passes.rewritten import Rewriter, Rewritten
from fitzroy.compiler.targets.edgetpu.lowerings.functions import codes, has_table
from fitzroy.compiler.targets.edgetpu.parameters.requantization import unsigned_zero_point

_MOST_NODES = MOST_OPERATORS + 2
"""Most operators of a function, with the conversions at its ends."""


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """Operators between two values of 8 bits, in order.

    Attributes:
        nodes: the operators; nothing but them reads what they compute in between.
        source: what they read, beside constants of one element.
        result: what the last one gives.
        codes: unsigned stored result for each unsigned stored element of the source, int64[256].
    """

    nodes: tuple[Node, ...]
    source: str
    result: str
    codes: npt.NDArray[np.int64]


def as_tables(graph: Graph) -> Rewritten:
    """A graph of the same meaning in which functions that operators make up are looked up.

    Args:
        graph: the graph; it stays as it is, and is the result if it has no such functions, or none
            that has a table.
    """
    order = {node.name: number for number, node in enumerate(graph.nodes())}
    found = (_region(graph, node, order) for node in graph.nodes())
    regions = [region for region in found if region is not None]
    return _Tables.applied(graph, [region for region in regions if _has_table(graph, region)])


class _Tables(Rewriter[_Region]):
    """A graph whose regions become tables one by one."""

    def rewrite(self, item: _Region) -> None:
        """Look results up."""
        stored = item.codes + self.graph.type(item.result).dtype.limits[0]
        attributes = LookupAttributes(tuple(stored.tolist()))
        self.put_in_place(item.nodes[-1], "lookup", [item.source], attributes)


def _region(graph: Graph, last: Node, order: Mapping[str, int]) -> _Region | None:
    """The operators that end with a node and are a function of one element; None if none are.

    Args:
        graph: the graph.
        last: the node.
        order: the number of each node.
    """
    results = [graph.type(name) for name in last.outputs]
    if not OPS[last.op].elementwise or not all(type.is_eight_bit for type in results):
        return None
    nodes, sources, left = {last.name: last}, set[str](), set(graph.computed(last))
    while left:
        name = left.pop()
        node = graph.producer(name)
        if graph.type(name).is_eight_bit:
            sources.add(name)
        elif node is None or not OPS[node.op].elementwise:
            return None
        elif node.name not in nodes:
            nodes[node.name] = node
            left.update(graph.computed(node))
        if len(nodes) > _MOST_NODES:
            return None
    if len(nodes) == 1 or len(sources) != 1:
        return None
    ordered = tuple(sorted(nodes.values(), key=lambda node: order[node.name]))
    if not _is_function(graph, ordered):
        return None
    found = codes(*(Call.of(graph, node) for node in ordered))
    return _Region(ordered, sources.pop(), last.outputs[0], found)


def _is_function(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether each element depends on one element, and nothing else reads what is in between."""
    (result,) = nodes[-1].outputs
    shape = graph.type(result).shape
    for name in {name for node in nodes for name in (*node.inputs, *node.outputs) if name}:
        value = graph.value(name)
        if value.type.size != 1 if value.is_constant else value.type.shape != shape:
            return False
    # Others may read the real numbers that the first conversion gives, too.
    computing = [node for node in nodes if node.op != "dequantize"]
    inner = {name for node in computing for name in node.outputs} - {result}
    readers = [node for name in inner for node in graph.consumers(name)]
    return inner.isdisjoint(graph.outputs) and all(node in nodes for node in readers)


def _has_table(graph: Graph, region: _Region) -> bool:
    """Whether the chip has a table for the results of operators."""
    types = graph.type(region.source), graph.type(region.result)
    return has_table(region.codes, *map(unsigned_zero_point, types))
