"""Functions of one element that several operators make up, such as SiLU, which are one table.

Where each operator is quantized, each rounds its result. Hardware that looks a function of 8 bits
up needs no numbers in between: the operators stay on real numbers between two quantized values, and
their function is rounded once.

Each function has conversions of its own at its ends, so that hardware finds it whatever else reads
the same values.

Hardware that applies a function before it stores a sum of products needs no number of 8 bits
between both: half of the rounding of a convolution with its SiLU goes away. The operator that gives
the sums then computes real numbers from integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType, Quantization
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import MOST_OPERATORS, Clamp, ClampAttributes, Unary
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.channels import FILTERED
from fitzroy.compiler.quantization.ranges import Doubles, Function, slope
from fitzroy.compiler.quantization.rules import RULES, is_real
from fitzroy.compiler.reference import real_values
from fitzroy.hw_models import numerics

_SMOOTH = ("add", "div", "mul", "sub")
"""Operators of two operands whose results have no jumps."""

_FLAT = 0.1
"""A function levels off where its slope is less than this share of that at its other end."""

Codes = npt.NDArray[np.int64]
"""The stored result of a function for each stored argument of 8 bits, both unsigned, [256]."""

HasTable = Callable[[Codes, int, int], bool]
"""Whether hardware has a table for codes, given the unsigned zero points of argument and result."""

Approximates = Callable[[Function, float, int], bool]
"""Whether hardware computes a function of sums, given scale and unsigned zero point of results."""


@dataclass(frozen=True, slots=True)
class FunctionUnit:
    """What hardware does with functions of one element.

    Attributes:
        has_table: whether it has a table of a function; others are not looked up.
        approximates: whether it computes a function of sums that are not rounded; None if of none.
    """

    has_table: HasTable = lambda codes, zero_in, zero_out: True
    approximates: Approximates | None = None


ANY_TABLE = FunctionUnit()
"""Hardware that looks every function up."""


@dataclass(frozen=True, slots=True, eq=False)
class ElementFunction:
    """Operators that make up a function of one element.

    Attributes:
        graph: the float32 graph that they belong to.
        nodes: the operators, in order.
        source: the value that they are a function of.
        of_sums: whether its arguments are sums that are not rounded.
        rounded: the function of integers that takes the place of one of sums if these have to be
            rounded; None if its operators are quantized then.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    source: str
    of_sums: bool = False
    rounded: ElementFunction | None = None

    def __call__(self, x: Doubles) -> Doubles:
        """What the operators make of real numbers."""
        calls = [Call.of(self.graph, node) for node in self.nodes]
        return real_values(calls, x)

    @property
    def result(self) -> str:
        """The value that they give."""
        return self.nodes[-1].outputs[0]

    def is_computed(self, before: Quantization, after: Quantization, unit: FunctionUnit) -> bool:
        """Whether hardware gives the right results for all arguments.

        Args:
            before: how arguments are quantized, if they are.
            after: how results are quantized.
            unit: asked for a table only if the result is finite for every argument.
        """
        low, high = DType.INT8.limits
        if self.of_sums:
            zero = after.zero_point[0] - low
            return unit.approximates is not None and unit.approximates(self, after.scale[0], zero)
        stored = np.arange(low, high + 1).astype(np.int8)
        found = self(numerics.dequantize(stored, before).astype(np.float64))
        if not np.isfinite(found).all():
            return False
        results = numerics.quantize(found.astype(np.float32), after, DType.INT8)
        codes = results.astype(np.int64) - low
        return unit.has_table(codes, before.zero_point[0] - low, after.zero_point[0] - low)

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


def functions_of_sums(
    graph: Graph,
    functions: Sequence[ElementFunction],
    kept: Collection[str],
    quantized: Collection[str] = (),
) -> list[ElementFunction]:
    """Functions, and single operators, whose arguments need not be rounded: they are sums.

    Args:
        graph: a float32 graph.
        functions: those of two or more operators.
        kept: names of nodes that stay float32 and belong to no function.
        quantized: names of values that are quantized in any case.

    Returns:
        All functions; of those that have become functions of sums, these.
    """
    known = {function.source: function for function in functions if function.is_alone}
    others = dict.fromkeys(functions)
    for node in graph.nodes():
        if node.name in kept or not gives_sums(graph, node):
            continue
        (sums,) = node.outputs
        readers = graph.consumers(sums)
        clamps = readers if len(readers) == 1 and _is_minimum(readers[0]) else []
        source = clamps[0].outputs[0] if clamps else sums
        if not {sums, source}.isdisjoint([*quantized, *graph.outputs]):
            continue
        rounded = known.get(source)
        if rounded is not None:
            del others[rounded]
            nodes = (*clamps, *rounded.nodes)
        elif len(readers) == 1 and _is_one_function(graph, readers[0], kept):
            nodes = tuple(readers)
        else:
            continue
        others[ElementFunction(graph, nodes, sums, True, rounded)] = None
    return list(others)


def gives_sums(graph: Graph, node: Node) -> bool:
    """Whether an operator gives sums of products with constants, and nothing else."""
    free = getattr(node.attributes, "activation", None) is Activation.NONE
    return node.op in FILTERED and free and graph.value(str(node.inputs[1])).is_constant


def _is_minimum(node: Node) -> bool:
    """Whether an operator is a clamp to numbers up to one, for which TFLite has an operator."""
    return isinstance(node.attributes, ClampAttributes) and node.attributes.min == -math.inf


def _is_one_function(graph: Graph, node: Node, kept: Collection[str]) -> bool:
    """Whether an operator is a function by itself, of which quantized operators read the result."""
    (result, *_) = node.outputs
    readers = graph.consumers(result)
    return (
        node.name not in kept
        and _is_smooth(graph, node)
        and _takes_a_table(node)
        and bool(readers)
        and all(reader.name not in kept for reader in readers)
        and result not in graph.outputs
    )


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
