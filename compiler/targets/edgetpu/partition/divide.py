"""Which part of a model does the Edge TPU compute?

A node goes to the chip if the code generator has a rule for it that does not object, and if moving
its operands there costs no more than it saves. The other nodes stay on the host, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.partition import (
    HOST,
    Decided,
    Placement,
    Rejects,
    families_of,
    partition,
)
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES
from fitzroy.compiler.targets.edgetpu.partition.costs import (
    COSTS,
    Costs,
    Sides,
    gain,
    profitable,
)
from fitzroy.compiler.targets.edgetpu.partition.cuts import Cut, Cuts, Work, cuts_of
from fitzroy.compiler.targets.edgetpu.partition.rules import LOWERING, NAME, hint, rejects
from fitzroy.compiler.targets.edgetpu.program.lower import rewritten
from fitzroy.hw_models.chips.beagle import BEAGLE

_COSTS = "edgetpu-transfers"

HELD = TILES * WIDE_ROWS * BEAGLE.memories.wide.element_bytes
"""Bytes of parameters that a chip holds."""


def refusals(graph: Graph, options: Options = DEFAULT) -> dict[str, Rejects]:
    """Why the code generator cannot map nodes where they are, by the name of each such node.

    The rules of the target come first and give every reason. What passes them is legalized, which
    shows what depends on the nodes before; that gives one. Nodes after a refused one read its
    results as they read inputs.
    """
    apart = rewritten(graph, options)
    legalizer, found = Legalizer(apart.graph, options), dict[str, Rejects]()
    for node in apart.graph.nodes():
        call, origin = Call.of(apart.graph, node), apart.origins.get(node.name, node.name)
        if reasons := tuple(dict.fromkeys(rejects(call))):
            found[origin] = reasons
            legalizer.take_in(node.outputs)
            continue
        trial = legalizer.split()
        try:
            trial.legalize_as(node, origin)
        except UnsupportedError as error:
            reason = error.what + (f": {error.reason}" if error.reason else "")
            found[origin] = (Reject(LOWERING, reason, error.hint or hint(call)),)
            legalizer.take_in(node.outputs)
        else:
            legalizer = trial
    return found


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a graph for the chip.

    Attributes:
        graph: the part as a graph of its own.
        nodes: its nodes in the whole graph.
    """

    graph: Graph
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Findings:
    """What has been found out about parts of a graph, which mostly stay when it is divided again.

    Attributes:
        refused: why nodes of a part cannot be mapped, by the nodes of the part.
        sides: of nodes that share values, those that the chip had better compute.
    """

    refused: dict[tuple[Node, ...], dict[str, Rejects]] = field(default_factory=dict)
    sides: Sides = field(default_factory=dict)

    def refusals(self, segment: Segment, options: Options) -> dict[str, Rejects]:
        """Why nodes of a part cannot be mapped, asked once."""
        if segment.nodes not in self.refused:
            self.refused[segment.nodes] = refusals(segment.graph, options)
        return self.refused[segment.nodes]


def divide(
    graph: Graph,
    options: Options = DEFAULT,
    costs: Costs | None = None,
    known: Mapping[str, Rejects] | None = None,
    findings: Findings | None = None,
) -> tuple[list[Segment], list[Placement]]:
    """The parts of a graph that go to the chip, and all groups of nodes in order.

    Args:
        graph: the graph.
        options: what programs may use of the chip.
        costs: what operators and transfers cost; None to map all that can be mapped.
        known: why nodes have to stay on the host, by name, those of `refusals` among them; None to
            ask for these.
        findings: of earlier divisions of the graph with the same options and costs, to which new
            ones are added.
    """
    refused = dict(refusals(graph, options) if known is None else known)
    found_out = findings or Findings()
    while True:
        rejected = dict(refused)
        if costs is not None and refused:
            rejected |= _unprofitable(graph, refused, costs, found_out.sides)
        placements = _placements(graph, rejected)
        segments = [
            Segment(graph.part(placement.nodes), placement.nodes)
            for placement in placements
            if placement.target == NAME
        ]
        if not refused:
            return segments, placements
        # What comes from the host or goes there may lie otherwise than in the whole graph.
        found = {
            name: reject
            for segment in segments
            for name, reject in found_out.refusals(segment, options).items()
        }
        if not found:
            return segments, placements
        refused.update(found)


def _placements(graph: Graph, rejected: Mapping[str, Rejects]) -> list[Placement]:
    """All groups of nodes, given why some cannot, or shall not, be on the chip.

    The file is cut between operators, so that one of them is on the chip as a whole or not at all.
    """
    families, shared = families_of(graph), dict(rejected)
    for nodes in families:
        every = dict.fromkeys(item for node in nodes for item in rejected.get(node.name, ()))
        if every:
            shared |= dict.fromkeys((node.name for node in nodes), tuple(every))
    return partition(graph, (Decided(NAME, shared), HOST), families)


def _unprofitable(
    graph: Graph, refused: Mapping[str, Rejects], costs: Costs, sides: Sides
) -> dict[str, Rejects]:
    """Nodes that the chip could compute and had better not, with the reason.

    One part at least stays on the chip.

    Args:
        graph: the graph.
        refused: nodes that the chip cannot compute.
        costs: what decides.
        sides: as for `profitable`.
    """
    mappable = [node.name for node in graph.nodes() if node.name not in refused]
    on_chip = profitable(graph, mappable, costs, sides) or set(mappable)
    found = {
        name: _too_dear(graph, graph.node(name), costs) for name in mappable if name not in on_chip
    }
    while True:
        parts = [
            placement.nodes
            for placement in _placements(graph, {**refused, **found})
            if placement.target == NAME
        ]
        if len(parts) < 2:
            return found
        gains = [gain(graph, part, costs) for part in parts]
        worst = min(range(len(parts)), key=lambda number: gains[number])
        if gains[worst] >= 0:
            return found
        found |= {node.name: _too_dear(graph, node, costs) for node in parts[worst]}


def _too_dear(graph: Graph, node: Node, costs: Costs) -> Rejects:
    reject = Reject(
        _COSTS,
        f"{node.spelled} takes about {costs.host.time(graph, node):.0f} µs on the host; "
        "moving its operands to the chip and back would cost more than it saves",
        "map it all the same: --partition all",
    )
    return (reject,)


def concerned(graph: Graph, refusal: Refused) -> dict[str, Rejects]:
    """The nodes of a part that a refusal takes off the chip, with the reason.

    Args:
        graph: the part.
        refusal: what was found when its program was made.
    """
    what = refusal.what + (f": {refusal.reason}" if refusal.reason else "")
    names = {
        node.name
        for node in graph.nodes()
        for name in refusal.operators
        if node.name == name or (name in graph.inputs and name in node.inputs)
    }
    return {
        node.name: (Reject(refusal.code, what, refusal.hint or hint(Call.of(graph, node))),)
        for node in graph.nodes()
        if node.name in names
    }


def layers_of(graph: Graph, options: Options = DEFAULT) -> dict[str, list[str]]:
    """What the nodes of a part become, by their names; nothing if they are others' bytes.

    Raises:
        UnsupportedError: a node has no lowering.
    """
    apart = rewritten(graph, options)
    legalizer = Legalizer(apart.graph, options)
    legalizer.run(apart.origins)
    found: dict[str, list[str]] = {node.name: [] for node in graph.nodes()}
    for layer in legalizer.layers:
        found[layer.origin].append(layer.kind)
    return found


def cuts(
    graph: Graph,
    options: Options = DEFAULT,
    costs: Costs = COSTS,
    known: Mapping[str, Work] | None = None,
) -> Cuts:
    """How a graph can be cut into segments for several chips, and what segments cost.

    Args:
        graph: the graph.
        options: what programs may use of each chip.
        costs: what operators, parameters and transfers cost.
        known: operators of which more is known, by name.
    """
    refused = refusals(graph, options)
    mappable = {node.name for node in graph.nodes()} - refused.keys()
    return cuts_of(graph, mappable, HELD, costs, known)


def segments_of(graph: Graph, cut: Cut) -> list[Segment]:
    """The segments of a graph that is cut."""
    return [Segment(graph.part(nodes), nodes) for nodes in cut.segments]


def consecutive(
    graph: Graph,
    count: int,
    options: Options = DEFAULT,
    costs: Costs = COSTS,
    known: Mapping[str, Work] | None = None,
) -> list[Segment]:
    """A graph cut into segments for as many chips, each of which needs only those before it.

    Args:
        graph: the graph.
        count: how many.
        options: as for `cuts`.
        costs: as for `cuts`.
        known: as for `cuts`.

    Raises:
        UsageError: there are not so many operators for the chip.
    """
    return segments_of(graph, cuts(graph, options, costs, known).best(count))
