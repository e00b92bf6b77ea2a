"""One quantization for every activation, as copies and fixed results demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from fitzroy.base.disjoint_sets import DisjointSets
from fitzroy.base.types import Quantization
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.quantization.functions import ElementFunction
from fitzroy.compiler.quantization.ranges import asymmetric
from fitzroy.compiler.quantization.recurrences import recurrences
from fitzroy.compiler.quantization.rules import (
    RULES,
    Key,
    is_real,
    operands_of,
    results_of,
)
from fitzroy.compiler.quantization.statistics import Range


@dataclass(frozen=True)
class Scheme:
    """How the activations of a graph are quantized.

    Attributes:
        floats: names of the nodes that stay as they are.
        operands: for each node that is quantized, its activations by operand index.
        quantizations: of every activation that some quantized node reads or gives.
        fixed: results whose quantization the specification fixes.
        functions: functions of one element that some of the nodes in `floats` make up. Their
            arguments are quantized, unless they are sums.
    """

    floats: frozenset[str]
    operands: Mapping[str, Mapping[int, Key]]
    quantizations: Mapping[Key, Quantization]
    fixed: Mapping[str, Quantization] = field(default_factory=dict)
    functions: Sequence[ElementFunction] = ()

    @cached_property
    def looked_up(self) -> Mapping[str, ElementFunction]:
        """The functions by the names of their nodes."""
        return {node.name: found for found in self.functions for node in found.nodes}

    def argument(self, node: Node) -> str | None:
        """What the function that a node belongs to reads as integers; None if there is nothing."""
        function = self.looked_up.get(node.name)
        return None if function is None or function.of_sums else function.source

    @cached_property
    def sums(self) -> frozenset[str]:
        """Results that are not rounded before the functions of them."""
        return frozenset(function.source for function in self.functions if function.of_sums)

    def raw(self, name: str) -> Quantization:
        """The quantization in which a result is computed; others read it converted."""
        return self.fixed.get(name, self.quantizations[name])

    def input(self, node: Node) -> Quantization:
        """The quantization of a node's first operand."""
        return self.quantizations[self.operands[node.name][0]]


def choose(
    graph: Graph,
    ranges: Mapping[str, Range],
    floats: Iterable[str],
    headroom: Mapping[str, float] = MappingProxyType({}),
    functions: Sequence[ElementFunction] = (),
) -> Scheme:
    """The quantization of every activation.

    Args:
        graph: a float32 graph.
        ranges: of its activations by name; those without elements have none.
        floats: names of the nodes that stay float32.
        headroom: how many times wider to make the range of an activation; others have none, and of
            those that share a range, the least counts.
        functions: what some of the nodes that stay float32 make up.
    """
    return _Chooser(graph, ranges, frozenset(floats), headroom, functions).scheme()


_NARROW = 0.5
"""A part of a concatenation whose range is less than this share of all keeps a quantization of its
own, if something else is computed of it. Converted for the concatenation, it is rounded twice
there, which costs a quarter more noise at most."""


_CHOOSING = ("maximum", "minimum", "select")
"""Operators that give elements of their operands."""


class _Chooser:
    def __init__(
        self,
        graph: Graph,
        ranges: Mapping[str, Range],
        floats: frozenset[str],
        headroom: Mapping[str, float],
        functions: Sequence[ElementFunction],
    ) -> None:
        self.graph, self.floats, self.headroom = graph, floats, headroom
        self.functions = functions
        self.ranges: dict[Key, Range] = dict(ranges.items())
        self.groups = DisjointSets[Key]()
        self.fixed: dict[str, Quantization] = {}
        self.operands: dict[str, Mapping[int, Key]] = {}
        self.symmetric: set[Key] = set()

    def scheme(self) -> Scheme:
        for name in (*self.graph.inputs, *self.graph.outputs):
            if is_real(self.graph, name) and not self.graph.value(name).is_constant:
                self.groups.find(name)
        for function in self.functions:
            self.groups.find(function.source)
        nodes = [node for node in self.graph.nodes() if node.name not in self.floats]
        for node in nodes:
            self.add(node)
        for node in nodes:
            if node.op == "concatenation":
                self.join(node)
        for steps in recurrences(self.graph):
            added = [step for step in steps if step.name not in self.floats]
            self.groups.join(*(self.operands[step.name][0] for step in added))
            self.groups.join(*(step.outputs[0] for step in added))
        chosen: dict[Key, Quantization] = {}
        for members in self.groups.members().values():
            chosen.update(dict.fromkeys(members, self.quantization(members)))
        return Scheme(self.floats, self.operands, chosen, self.fixed, self.functions)

    def add(self, node: Node) -> None:
        rule = RULES.get(node.op)
        operands, results = operands_of(self.graph, node), results_of(self.graph, node)
        self.operands[node.name] = operands
        for index, key in operands.items():
            data = self.graph.value(str(node.inputs[index])).data
            # What is chosen of a constant lies in the range of the result, where others saturate.
            if data is not None and data.size and node.op not in _CHOOSING:
                self.ranges[key] = float(data.min()), float(data.max())
        for key in (*operands.values(), *results):
            self.groups.find(key)
        if rule is None:
            return
        if rule.shared and node.op != "concatenation":
            self.groups.join(*operands.values(), *results)
        if rule.symmetric:
            self.symmetric.update(results)
        if rule.result is not None:
            self.fixed.update(dict.fromkeys(results, rule.result))
        if rule.saturating:
            self.forget_saturated(node)

    def join(self, node: Node) -> None:
        """Give the parts of a concatenation one quantization, but for those that are converted.

        Narrow ones are, of which something else is computed as well: also of what has to have the
        same quantization, such as the other half of an image that is split.
        """
        sets, operands = self.groups.members(), dict(self.operands[node.name])
        parts = {index: sets[self.groups.find(key)] for index, key in operands.items()}
        spans = {index: self.span(members) for index, members in parts.items()}
        widths = {index: high - low for index, (low, high) in spans.items()}
        widest = max(widths.values(), default=0.0)
        for index, members in parts.items():
            if widths[index] < _NARROW * widest and self.is_computed_with(members, node):
                name, operands[index] = operands[index], (node.name, index)
                self.ranges[node.name, index] = self.ranges.get(name, (0.0, 0.0))
        self.operands[node.name] = operands
        self.groups.join(*results_of(self.graph, node), *operands.values())

    def span(self, members: Sequence[Key]) -> Range:
        """The smallest range that has 0 and all of some activations."""
        low, high = 0.0, 0.0
        for key in members:
            first, last = self.ranges.get(key, (0.0, 0.0))
            low, high = min(low, first), max(high, last)
        return low, high

    def is_computed_with(self, members: Sequence[Key], node: Node) -> bool:
        """Whether activations that share a quantization are outputs, or read by other operators.

        Args:
            members: the activations.
            node: a concatenation. It does not count, and neither does what gives a member, such as
                the split of an image.
        """
        names = {key for key in members if isinstance(key, str)}
        readers = (reader for name in names for reader in self.graph.consumers(name))
        return any(
            reader != node and names.isdisjoint(reader.outputs) for reader in readers
        ) or not names.isdisjoint(self.graph.outputs)

    def forget_saturated(self, node: Node) -> None:
        (operand,) = node.inputs
        (result,) = node.outputs
        if operand is None or operand in self.graph.outputs or operand in self.graph.inputs:
            return
        if self.graph.consumers(operand) == [node] and result in self.ranges:
            self.ranges[operand] = self.ranges[result]

    def quantization(self, members: Sequence[Key]) -> Quantization:
        fixed = {self.fixed[key] for key in members if isinstance(key, str) and key in self.fixed}
        low, high = self.span(members)
        if len(fixed) == 1:
            (quantization,) = fixed
            # The fixed ranges of the specification end one step before 1.
            scale, (smallest, largest) = quantization.scale[0], extent(quantization)
            if smallest - scale <= low and high <= largest + scale:
                return quantization
        if self.symmetric.intersection(members):
            return Quantization.per_tensor(max(-low, high) / 127 or 1.0)
        wider = min(self.headroom.get(str(key), 1.0) for key in members)
        return asymmetric(wider * low, wider * high)


def extent(quantization: Quantization) -> Range:
    """The real numbers that the limits of int8 stand for."""
    scale, zero_point = quantization.scale[0], quantization.zero_point[0]
    return scale * (-128 - zero_point), scale * (127 - zero_point)
