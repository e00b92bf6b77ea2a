"""Functions of one element that several operators make up, as one table.

Exporters spell out functions that they have no operator for: a hard sigmoid is a product, a sum and
a clamp, and SELU a choice. In between are real numbers and conditions. As both ends are integers of
8 bits and each element depends on one element only, there are 256 results, whatever is in between.

Where the element is a sum of products that nothing has rounded, as of a convolution on real numbers
that stand for integers, there are more arguments than that: the function is one of real numbers, as
polynomials, and belongs to the operator that gives the sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import MOST_OPERATORS, LookupAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.passes.conversions import source_of
from fitzroy.compiler.passes.fuse_quantized import filtered
from fitzroy.compiler.passes.rewritten import Rewriter, Rewritten
from fitzroy.compiler.reference import real_values
from fitzroy.compiler.targets.edgetpu.lowerings.functions import codes, has_table
from fitzroy.compiler.targets.edgetpu.parameters.polynomials import approximated
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    FILTERS,
    unsigned_zero_point,
)
from fitzroy.hw_models.numerics import Polynomials

_MOST_NODES = MOST_OPERATORS + 2
"""Most operators of a function, with the conversions at its ends."""


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """Operators that end with a value of 8 bits and are a function of one element, in order.

    Attributes:
        nodes: the operators; nothing but them reads what they compute in between. If the element is
            a sum of products, the first one gives it.
        source: the element, beside constants of one element: a value of 8 bits, or a sum.
        result: what the last one gives.
    """

    nodes: tuple[Node, ...]
    source: str
    result: str

    def of_sums(self, graph: Graph) -> bool:
        """Whether the element is a sum of products that nothing has rounded."""
        return not graph.type(self.source).is_eight_bit


@dataclass(frozen=True, slots=True, eq=False)
class _Tabled:
    """A region that the chip can compute at once.

    Attributes:
        region: the region.
        function: unsigned stored result for each unsigned stored element, int64[256]; of sums, the
            polynomials.
    """

    region: _Region
    function: npt.NDArray[np.int64] | Polynomials


def as_tables(graph: Graph) -> Rewritten:
    """A graph of the same meaning in which functions that operators make up are looked up.

    Args:
        graph: the graph; it stays as it is, and is the result if it has no such functions, or none
            that has a table.
    """
    return _Tables.applied(graph, [*_tabled(graph, _regions(graph))])


def with_functions_of_sums(graph: Graph) -> Graph:
    """A graph in which operators whose sums are not rounded end with the functions of them.

    What the chip computes differs from those functions by the error of polynomials.
    """
    of_sums = [region for region in _regions(graph) if region.of_sums(graph)]
    return _Tables.applied(graph, [*_tabled(graph, of_sums)]).graph


def _regions(graph: Graph) -> list[_Region]:
    """All functions of one element that operators make up."""
    order = {node.name: number for number, node in enumerate(graph.nodes())}
    found = (_region(graph, node, order) for node in graph.nodes())
    return [region for region in found if region is not None]


def _tabled(graph: Graph, regions: Iterable[_Region]) -> Iterator[_Tabled]:
    """The regions that have a table on the chip, or polynomials."""
    for region in regions:
        zero_out = unsigned_zero_point(graph.type(region.result))
        if region.of_sums(graph):
            polynomials = _polynomials(graph, region, zero_out)
            if polynomials is not None:
                yield _Tabled(region, polynomials)
            continue
        stored = codes(*(Call.of(graph, node) for node in region.nodes))
        if has_table(stored, unsigned_zero_point(graph.type(region.source)), zero_out):
            yield _Tabled(region, stored)


def _polynomials(graph: Graph, region: _Region, zero_point: int) -> Polynomials | None:
    """The function of sums, if the chip has polynomials that are close enough."""
    calls = [Call.of(graph, node) for node in region.nodes[1:] if node.op != "quantize"]
    q = graph.type(region.result).quantization
    assert q is not None
    return approximated(partial(real_values, calls), q.scale[0], zero_point)


class _Tables(Rewriter[_Tabled]):
    """A graph whose regions become tables one by one."""

    def rewrite(self, item: _Tabled) -> None:
        """Look results up, or let the operator that gives sums end with their function."""
        region, type = item.region, self.graph.type(item.region.result)
        if not isinstance(item.function, Polynomials):
            stored = item.function + type.dtype.limits[0]
            attributes = LookupAttributes(tuple(stored.tolist()))
            self.put_in_place(region.nodes[-1], "lookup", [region.source], attributes)
            return
        sums = region.nodes[0]
        form = filtered(self.graph, sums, type)
        # Its last operator gives another type of 8 bits than the operator with the filter.
        if form is None or form.result != type:
            return
        fused = replace(sums.attributes, activation=item.function)  # type: ignore[call-arg]
        self.put_in_place(region.nodes[-1], sums.op, form.inputs, fused, origin=sums.name)


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
        if graph.type(name).is_eight_bit or (node is not None and _gives_sums(graph, node)):
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
    (source,) = sources
    ordered = sorted(nodes.values(), key=lambda node: order[node.name])
    if not graph.type(source).is_eight_bit:
        sums = graph.producer(source)
        assert sums is not None
        ordered.insert(0, sums)
    if not _is_function(graph, ordered):
        return None
    return _Region(tuple(ordered), source, last.outputs[0])


def _gives_sums(graph: Graph, node: Node) -> bool:
    """Whether an operator gives sums of products of integers, which nothing rounds."""
    if node.op not in FILTERS or graph.type(node.outputs[0]).dtype is not DType.FLOAT32:
        return False
    free = getattr(node.attributes, "activation", None) is Activation.NONE
    return free and source_of(graph, node.inputs[0]) is not None


def _is_function(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether each element depends on one element, and nothing else reads what is in between."""
    (result,) = nodes[-1].outputs
    shape, elementwise = graph.type(result).shape, [n for n in nodes if OPS[n.op].elementwise]
    for name in {name for node in elementwise for name in (*node.inputs, *node.outputs) if name}:
        value = graph.value(name)
        if value.type.size != 1 if value.is_constant else value.type.shape != shape:
            return False
    # Others may read the real numbers that the first conversion gives, too.
    computing = [node for node in nodes if node.op != "dequantize"]
    inner = {name for node in computing for name in node.outputs} - {result}
    readers = [node for name in inner for node in graph.consumers(name)]
    return inner.isdisjoint(graph.outputs) and all(node in nodes for node in readers)
