"""Functions of one element that several operators make up, such as SiLU, which are one table.

Where each operator is quantized, each rounds its result. Hardware that looks a function of 8 bits
up needs no numbers in between: the operators stay on real numbers between two quantized values, and
their function is rounded once.

Each function has conversions of its own at its ends, so that hardware finds it whatever else reads
the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType, Quantization
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import MOST_OPERATORS, Clamp, Unary
from fitzroy.compiler.quantization.ranges import Doubles, slope
from fitzroy.compiler.quantization.rules import RULES, is_real
from fitzroy.compiler.reference import evaluate_elements
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic

_SMOOTH = ("add", "div", "mul", "sub")
"""Operators of two operands whose results have no jumps."""

_FLAT = 0.1
"""A function levels off where its slope is less than this share of that at its other end."""

Codes = npt.NDArray[np.int64]
"""The stored result of a function for each stored argument of 8 bits, both unsigned, [256]."""

HasTable = Callable[[Codes, int, int], bool]
"""Whether hardware has a table for codes, given the unsigned zero points of argument and result."""


@dataclass(frozen=True, slots=True, eq=False)
class ElementFunction:
    """Operators that make up a function of one element.

    Attributes:
        graph: the float32 graph that they belong to.
        nodes: the operators, in order.
        source: the value that they are a function of.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    source: str

    def __call__(self, x: Doubles) -> Doubles:
        """What the operators make of real numbers."""
        calls = [Call.of(self.graph, node) for node in self.nodes]
        with np.errstate(all="ignore"):
            found = evaluate_elements(calls, x.astype(np.float32), Arithmetic.XNNPACK)
        return found.astype(np.float64)

    @property
    def result(self) -> str:
        """The value that they give."""
        return self.nodes[-1].outputs[0]

    def is_looked_up(self, before: Quantization, after: Quantization, has_table: HasTable) -> bool:
        """Whether hardware gives the right results for all arguments of 8 bits.

        Args:
            before: how arguments are quantized.
            after: how results are quantized.
            has_table: asked only if the result is finite for every argument.
        """
        low, high = DType.INT8.limits
        stored = np.arange(low, high + 1).astype(np.int8)
        found = self(numerics.dequantize(stored, before).astype(np.float64))
        if not np.isfinite(found).all():
            return False
        results = numerics.quantize(found.astype(np.float32), after, DType.INT8)
        codes = results.astype(np.int64) - low
        return has_table(codes, before.zero_point[0] - low, after.zero_point[0] - low)

    def levels_off(self, low: float, high: float) -> bool:
        """Whether it is almost constant at an end of a range, as SiLU is far below zero."""
        # Slopes that are no numbers, as of an argument that is the same everywhere, say no.
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.abs(slope(self, np.array([low, high]), (high - low) / 255))
        return bool(slopes.min() < _FLAT * slopes.max())

    @property
    def is_alone(self) -> bool:
        """Whether nothing else reads what it is a function of."""
        readers = self.graph.consumers(self.source)
        return self.source not in self.graph.outputs and all(node in self.nodes for node in readers)


def element_functions(
    graph: Graph, kept: Collection[str], quantized: Collection[str] = ()
) -> list[ElementFunction]:
    """The functions of one element that two or more operators make up.

    Quantized operators read what a function gives, and nothing else reads what is in between. One
    of its operators at least has a table in any case, so that no table is added.

    Args:
        graph: a float32 graph.
        kept: names of nodes that belong to no function.
        quantized: names of values that are quantized in any case.
    """
    found: dict[str, ElementFunction] = {}
    # What reads a function may itself be one, of its result.
    while more := _with_others(graph, kept, quantized, found):
        found |= more
    return list(dict.fromkeys(found.values()))


def _with_others(
    graph: Graph,
    kept: Collection[str],
    quantized: Collection[str],
    known: Mapping[str, ElementFunction],
) -> dict[str, ElementFunction]:
    """Functions by the names of their nodes, none of which belongs to those that are known."""
    order = {node.name: number for number, node in enumerate(graph.nodes())}
    sources = _sources(graph, {*kept, *known})
    found: dict[str, ElementFunction] = {}
    for node in reversed(graph.nodes()):
        source = sources.get(node.outputs[0])
        if source is None or node.name in found:
            continue
        nodes = _between(graph, source, node)
        if _is_one_table(graph, nodes, kept, quantized):
            ordered = tuple(sorted(nodes, key=lambda one: order[one.name]))
            function = ElementFunction(graph, ordered, source)
            found.update(dict.fromkeys((one.name for one in nodes), function))
    return found


def _sources(graph: Graph, kept: Collection[str]) -> dict[str, str]:
    """For each result that is a function of one element, of what."""
    found: dict[str, str] = {}
    for node in graph.nodes():
        if not _is_smooth(graph, node) or node.name in kept:
            continue
        computed = set(graph.computed(node))
        sources = {
            found[name] if name in found and _is_read_by_functions(graph, name, kept) else name
            for name in computed
        }
        # A clamp limits the range of what only it reads, and is no part of what comes after.
        begins = sources == computed
        if len(sources) == 1 and not (begins and node.op == Clamp.name):
            found[node.outputs[0]] = sources.pop()
    return found


def _is_smooth(graph: Graph, node: Node) -> bool:
    """Whether elements of a result depend on elements at the same place, and without jumps."""
    if node.op not in RULES or not is_real(graph, node.outputs[0]):
        return False
    operator = OPS[node.op]
    if not (node.op in _SMOOTH or (isinstance(operator, Unary) and operator.smooth)):
        return False
    shape = graph.type(node.outputs[0]).shape
    values = [graph.value(name) for name in node.inputs if name is not None]
    return all(x.type.size == 1 if x.is_constant else x.type.shape == shape for x in values)


def _is_read_by_functions(graph: Graph, name: str, kept: Collection[str]) -> bool:
    """Whether nothing reads a value but what may belong to a function."""
    readers = graph.consumers(name)
    smooth = all(_is_smooth(graph, node) and node.name not in kept for node in readers)
    return smooth and name not in graph.outputs


def _between(graph: Graph, source: str, last: Node) -> list[Node]:
    """The nodes that compute a result of a value, the last one first; too many are left out."""
    nodes, left = {last.name: last}, graph.computed(last)
    while left and len(nodes) <= MOST_OPERATORS:
        name = left.pop()
        node = graph.producer(name)
        if name != source and node is not None and node.name not in nodes:
            nodes[node.name] = node
            left += graph.computed(node)
    return list(nodes.values())


def _is_one_table(
    graph: Graph, nodes: Sequence[Node], kept: Collection[str], quantized: Collection[str]
) -> bool:
    """Whether operators, the last one first, are a function that is better looked up as a whole."""
    names = {node.name for node in nodes}
    last, *others = nodes
    inner = {node.outputs[0] for node in others}
    readers = graph.consumers(last.outputs[0])
    given = {name for node in nodes for name in graph.computed(node)} - inner
    return (
        1 < len(nodes) <= MOST_OPERATORS
        and any(_takes_a_table(node) for node in nodes)
        and RULES[last.op].result is None
        and bool(readers)
        and all(node.name not in kept for node in readers)
        and last.outputs[0] not in graph.outputs
        and given.isdisjoint(graph.inputs)
        and inner.isdisjoint(quantized)
        and all(node.name in names for name in inner for node in graph.consumers(name))
    )


def _takes_a_table(node: Node) -> bool:
    """Whether an operator is a function that hardware looks up, and more than the end of a sum."""
    return isinstance(OPS[node.op], Unary) and not isinstance(OPS[node.op], Clamp)
