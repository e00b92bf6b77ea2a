"""Lowering of partitioned graphs to ExecuTorch methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.targets.executorch.catalog import KERNELS
from fitzroy.compiler.targets.executorch.portable import PortableEmitter
from fitzroy.compiler.targets.xnnpack.emitter import Subgraph, SubgraphEmitter
from fitzroy.compiler.targets.xnnpack.nodes import NODES
from fitzroy.formats import method as m
from fitzroy.formats.executorch import XNNPACK_BACKEND

XNNPACK, PORTABLE = "xnnpack", "portable"
"""Names of the two targets that a method is placed on."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A method and the subgraphs that its delegates run."""

    method: m.Method
    subgraphs: tuple[Subgraph, ...]


def lower(graph: Graph, placements: Sequence[Placement], name: str = "forward") -> Lowered:
    """A method that runs the groups one after another.

    Args:
        graph: the legalized graph.
        placements: its nodes in groups of the targets ``xnnpack`` and ``portable``.
        name: name of the method.
    """
    emitter = PortableEmitter(graph)
    for value in graph.inputs:
        emitter.tensor(value)
    subgraphs = []
    for placement in placements:
        if placement.target == XNNPACK:
            subgraph = delegate(graph, placement)
            subgraphs.append(subgraph)
            args = tuple(emitter.tensor(argument) for argument in subgraph.arguments)
            emitter.calls.append(m.DelegateCall(XNNPACK_BACKEND, subgraph.blob, args))
        elif placement.target == PORTABLE:
            for node in placement.nodes:
                KERNELS[node.op].emit(Call.of(graph, node), emitter)
    outputs: list[int] = []
    for value in graph.outputs:
        outputs.append(_output(graph, emitter, value, outputs))
    inputs = tuple(emitter.tensor(value) for value in graph.inputs)
    method = m.Method(name, tuple(emitter.values), inputs, tuple(outputs), tuple(emitter.calls))
    return Lowered(method, tuple(subgraphs))


def _output(graph: Graph, emitter: PortableEmitter, name: str, others: list[int]) -> int:
    """Index of an output: a tensor of its own, so inputs, constants and repetitions are copied."""
    if graph.producer(name) is not None and emitter.tensor(name) not in others:
        return emitter.tensor(name)
    copy = emitter.temporary(graph.type(name))
    emitter.call("aten::clone", "out", [graph.value(name), None], copy)
    return copy


def delegate(graph: Graph, placement: Placement) -> Subgraph:
    """The XNNPACK subgraph of one group of nodes."""
    names = {node.name for node in placement.nodes}
    produced = {name for node in placement.nodes for name in node.outputs}
    inputs = dict.fromkeys(
        name
        for node in placement.nodes
        for name in node.inputs
        if name is not None and name not in produced and not graph.value(name).is_constant
    )
    outputs = [
        name
        for node in placement.nodes
        for name in node.outputs
        if name in graph.outputs
        # XNNPACK gives results that nothing reads no memory unless they are external.
        or not graph.consumers(name)
        or any(reader.name not in names for reader in graph.consumers(name))
    ]
    emitter = SubgraphEmitter(graph, inputs, outputs)
    for node in placement.nodes:
        NODES[node.op].emit(Call.of(graph, node), emitter)
    return emitter.finish()
