"""Which part of a model the Edge TPU computes.

A node goes to the chip if the code generator has a rule for it that does not object. The rest stays
with the host, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.partition import Placement, Target, partition
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.codegen.lower import lowerings
from fitzroy.compiler.targets.edgetpu.codegen.options import DEFAULT, Options

NAME = "edgetpu"

_RULE = "edgetpu-lowering"


def refusals(graph: Graph, options: Options = DEFAULT) -> dict[str, Reject]:
    """Why the code generator cannot map nodes where they are, by the name of each such node."""
    legalizer, found = Legalizer(graph, options), dict[str, Reject]()
    for node in graph.nodes():
        rule = lowerings().get(node.op)
        if rule is None:
            found[node.name] = Reject(_RULE, f"{node.op} has no lowering for the Edge TPU")
            continue
        trial = replace(
            legalizer,
            layers=list(legalizer.layers),
            aliases=dict(legalizer.aliases),
            types=dict(legalizer.types),
            margins=dict(legalizer.margins),
        )
        try:
            rule(trial, Call.of(graph, node))
        except UnsupportedError as error:
            reason = error.what + (f": {error.reason}" if error.reason else "")
            found[node.name] = Reject(_RULE, reason, error.hint)
        else:
            legalizer = trial
    return found


HOST = Target("host", lambda operator, call: iter(()))


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a graph for the chip.

    Attributes:
        graph: the part as a graph of its own.
        nodes: its nodes in the whole graph.
    """

    graph: Graph
    nodes: tuple[Node, ...]


def divide(graph: Graph, options: Options = DEFAULT) -> tuple[list[Segment], list[Placement]]:
    """The parts of a graph that go to the chip, and all groups of nodes in order."""
    refused = refusals(graph, options)
    chip = Target(
        NAME,
        lambda operator, call: iter([refused[call.node.name]] if call.node.name in refused else []),
    )
    while True:
        placements = partition(graph, (chip, HOST))
        segments = [
            Segment(_part(graph, placement.nodes), placement.nodes)
            for placement in placements
            if placement.target == NAME
        ]
        if not refused:
            return segments, placements
        # What comes from the host or goes there may lie otherwise than in the whole graph.
        found = {
            name: reject
            for segment in segments
            for name, reject in refusals(segment.graph, options).items()
        }
        if not found:
            return segments, placements
        refused.update(found)


def _part(graph: Graph, nodes: tuple[Node, ...]) -> Graph:
    """Some nodes as a graph: what they read from others comes in, what others read goes out."""
    part = Graph(graph.name)
    own = {node.name for node in nodes}
    made = {name for node in nodes for name in node.outputs}
    for name in dict.fromkeys(name for node in nodes for name in node.inputs if name is not None):
        value = graph.value(name)
        if value.is_constant:
            part.add_value(value)
        elif name not in made:
            part.add_input(name, value.type)
    for node in nodes:
        part.add_node(node, [graph.type(name) for name in node.outputs])
    part.outputs = [
        name
        for node in nodes
        for name in node.outputs
        if name in graph.outputs or any(reader.name not in own for reader in graph.consumers(name))
    ]
    return part
