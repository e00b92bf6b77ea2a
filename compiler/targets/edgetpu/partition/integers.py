"""Operators on real numbers that the chip computes on integers.

Converters leave operators without an 8-bit kernel in TFLite between conversions: a negation, a
square, a function. The chip computes many of them, so that what is around them stays there. Those
that stay on the host compute on real numbers as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from fitzroy.base.disjoint_sets import DisjointSets
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.passes.base import Pass, run_passes
from fitzroy.compiler.passes.fuse_quantized import ComputeReals, FuseQuantized
from fitzroy.compiler.quantization.rules import RULES, touches_reals
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.partition.costs import Costs
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.partition.rules import NAME
from fitzroy.compiler.targets.edgetpu.program.lower import lowerings


@cache
def _computed() -> frozenset[str]:
    """Operators on elements that the chip computes on integers of 8 bits."""
    return frozenset(name for name in lowerings() if OPS[name].elementwise and name != "quantize")


_AS_STORED = frozenset(["maximum", "minimum", "negate"])
"""Operators whose kernels in TFLite take what is stored for the numbers."""


def _has_kernel(graph: Graph, node: Node) -> bool:
    """Whether TFLite has a kernel for an operator on integers with their scales."""
    rule = RULES.get(node.op)
    if rule is None or node.op not in _AS_STORED:
        return rule is not None
    scales = {graph.type(name).quantization for name in (*node.inputs, *node.outputs) if name}
    centred = all(found is not None and not any(found.zero_point) for found in scales)
    return len(scales) == 1 and (centred or not rule.symmetric)


def fusing() -> FuseQuantized:
    """The pass after which all operators that the chip computes on integers do so."""
    return FuseQuantized(more=_computed())


def has_conversions(graph: Graph) -> bool:
    """Whether integers become real numbers anywhere but where a model ends."""
    return any(
        node.op == "dequantize" and node.outputs[0] not in graph.outputs for node in graph.nodes()
    )


def as_integers(graph: Graph, options: Options, costs: Costs | None) -> tuple[Pass, ...]:
    """The passes after which operators compute on integers that then go to the chip.

    Args:
        graph: the model.
        options: what programs may use of the chip.
        costs: what decides which operators go to the chip; None to map all that can be mapped.
    """
    if not has_conversions(graph):
        return ()
    fused = run_passes(graph, [fusing()])
    if {node.name: node.op for node in fused.nodes()} == {
        node.name: node.op for node in graph.nodes()
    }:
        return ()
    passes: list[Pass] = [fusing()]
    while more := returned(fused, divide(fused, options, costs)[1]):
        fused = run_passes(fused, more)
        passes += more
    return tuple(passes)


def could_be_integers(graph: Graph) -> bool:
    """Whether there are real operators between integers, all of which have a form in 8 bits.

    Tools that quantize models leave some operators as they are, a layer normalization for example.
    Their results have no scales, which a calibration would find.

    Args:
        graph: the model as it is divided.
    """
    groups = DisjointSets[str]()
    for node in graph.nodes():
        if _is_on_reals(graph, node):
            groups.join(node.name, *_before(graph, node))
    found = [[graph.node(name) for name in names] for names in groups.members().values()]
    between = [node for group in found if _is_between_integers(graph, group) for node in group]
    return bool(between) and all(node.op in RULES or node.op in _computed() for node in between)


def _is_on_reals(graph: Graph, node: Node) -> bool:
    """Whether a node computes real numbers, other than by a conversion."""
    return touches_reals(graph, node) and node.op not in ("quantize", "dequantize")


def _before(graph: Graph, node: Node) -> list[str]:
    """Names of the nodes that compute the real numbers that a node reads."""
    makers = (graph.producer(name) for name in graph.computed(node))
    return [maker.name for maker in makers if maker is not None and _is_on_reals(graph, maker)]


def _is_between_integers(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether nodes that depend on each other read integers alone, and give nothing else."""
    results = {name for node in nodes for name in node.outputs}
    read = {name for node in nodes for name in graph.computed(node)} - results
    makers = (graph.producer(name) for name in read)
    readers = (reader for name in results for reader in graph.consumers(name))
    own = {node.name for node in nodes}
    return (
        results.isdisjoint(graph.outputs)
        and all(maker is not None and maker.op == "dequantize" for maker in makers)
        and all(reader.name in own or reader.op == "quantize" for reader in readers)
    )


def returned(graph: Graph, placements: Sequence[Placement]) -> tuple[Pass, ...]:
    """The passes after which operators on the host compute on real numbers, if TFLite has to.

    TFLite has no kernels for some of those that were to compute on integers on the chip.

    Args:
        graph: the model, as programs were made of it.
        placements: where its nodes run.
    """
    found = frozenset(
        node.name
        for placement in placements
        if placement.target != NAME
        for node in placement.nodes
        if node.op in _computed()
        and graph.type(node.outputs[0]).is_quantized
        and not _has_kernel(graph, node)
    )
    return (ComputeReals(found),) if found else ()
