"""From a partitioned graph to the entry point of a host program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.targets.executorch.lower import XNNPACK, delegate
from fitzroy.compiler.targets.vm.program import EntryPoint, Executor, Invocation
from fitzroy.formats.reflection import Tensor
from fitzroy.formats.tflite import write_model


@dataclass(frozen=True, slots=True)
class Packaged:
    """Nodes that a DarwiNN package computes.

    Attributes:
        nodes: the nodes.
        data: the package.
        reads: names of the values that it reads, in order of its inputs.
        writes: names of those that it computes, in order of its outputs.
        states: first contents of the tensors that it keeps from inference to inference.
    """

    nodes: tuple[Node, ...]
    data: bytes
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    states: tuple[bytes, ...] = ()


def entry_point(
    graph: Graph, steps: Sequence[Packaged | Placement], name: str = "main"
) -> EntryPoint:
    """The function that computes a graph.

    Args:
        graph: the graph.
        steps: all of its nodes in groups, in an order in which these can run. What is for XNNPACK
            becomes a graph of its delegate, what is for no accelerator a TFLite model.
        name: name of the function.

    Raises:
        UnsupportedError: TFLite cannot express what the host has to compute.
    """
    invocations = tuple(call for step in steps for call in _invocations(graph, step))
    given = {*graph.inputs, *(made for call in invocations for made in call.writes)}
    named = {read for call in invocations for read in call.reads} | set(graph.outputs)
    return EntryPoint(
        name,
        _tensors(graph, dict.fromkeys(graph.inputs)),
        _tensors(graph, graph.outputs),
        invocations,
        {tensor.name: tensor for tensor in _tensors(graph, {*given, *named})},
        {item: _content(graph, item) for item in sorted(named - given)},
    )


def _invocations(graph: Graph, step: Packaged | Placement) -> Iterable[Invocation]:
    if isinstance(step, Packaged):
        yield Invocation(Executor.DARWINN, step.data, step.reads, step.writes, step.states)
    elif step.target == XNNPACK:
        subgraph = delegate(graph, step)
        made = {name for node in step.nodes for name in node.outputs}
        yield Invocation(
            Executor.XNNPACK,
            subgraph.blob,
            tuple(name for name in subgraph.arguments if name not in made),
            tuple(name for name in subgraph.arguments if name in made),
        )
    else:
        part = graph.part(step.nodes)
        model = write_model(export_model(part))
        yield Invocation(Executor.TFLITE, model, tuple(part.inputs), tuple(part.outputs))


def _tensors(graph: Graph, names: Iterable[str]) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, graph.type(name)) for name in names)


def _content(graph: Graph, name: str) -> bytes:
    data = graph.value(name).data
    return b"" if data is None else data.tobytes()
