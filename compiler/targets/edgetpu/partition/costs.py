"""What does it cost to compute an operator on the chip or on the host, and to move its operands?

The figures are those of a small host on USB 3 (`BEAGLE.hosts`), rounded. They only have to tell a
convolution from a copy. Inputs and outputs of the model cross to the chip and back in any case, so
they do not count; a model that can be mapped completely is therefore mapped completely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from fitzroy.base.disjoint_sets import DisjointSets
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ir.flow import Edge, source_side
from fitzroy.hw_models.chips.hosts import Host

_CHIP, _HOST = "chip", "host"
_SCALE = 1000
"""Capacities are whole nanoseconds."""

_PREPARED_LATE = 0.4
"""Share of what a host prepares of streamed parameters while nothing moves.

FITTED to the timing model: 13.1 MB in 35.3 ms and 4.7 MB in 12.8 ms on a Jetson Nano.
"""

_AROUND = 15.0
"""Microseconds that programs take before and after their operators, FITTED to the timing model."""

_STAGING = 512 << 10
"""Room that programs need for streamed parameters: 378,368 to 640,000 bytes in some."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast something computes.

    Attributes:
        overhead: microseconds that every operator takes besides.
        macs: products per microsecond.
        elements: elements per microsecond that come in and go out.
    """

    overhead: float
    macs: float
    elements: float

    def time(self, graph: Graph, node: Node) -> float:
        """Microseconds that an operator takes."""
        return self.overhead + macs(graph, node) / self.macs + elements(graph, node) / self.elements


@dataclass(frozen=True, slots=True)
class Costs:
    """What decides where operators run.

    Attributes:
        host: speed of the host.
        chip: speed of the chip.
        part: microseconds that every part on the chip takes besides, most of them on the host.
        into: bytes per microsecond from the host to the chip.
        out: bytes per microsecond from the chip to the host.
        controller: bytes per microsecond that a controller moves for all chips on it.
        tensor: microseconds that every tensor between them takes besides.
        parameters: bytes per microsecond of parameters that are streamed.
        position: microseconds of every position in y and x of an image from the chip to the host.
        staging: bytes of a chip's room for parameters that those which are streamed take up.
    """

    host: Speed = Speed(overhead=5, macs=5_000, elements=500)
    chip: Speed = Speed(overhead=2, macs=300_000, elements=10_000)
    part: float = 300
    into: float = 320
    out: float = 32
    controller: float = 400
    tensor: float = 20
    parameters: float = 400
    position: float = 0.0
    staging: int = 0

    def on(self, host: Host) -> Costs:
        """The same costs with parts and transfers as on a host that was measured."""
        streamed = 1000 / host.stream + _PREPARED_LATE * host.prepare
        return replace(
            self,
            part=host.fixed * 1000 + _AROUND,
            into=host.link,
            out=1000 / host.output_byte,
            parameters=1000 / streamed,
            controller=host.stream,
            tensor=0.0,
            position=host.output_piece / 1000,
            staging=_STAGING,
        )

    def take(self, graph: Graph, name: str) -> float:
        """Microseconds in which a value moves from the host to the chip."""
        return self.tensor + graph.type(name).nbytes / self.into

    def give(self, graph: Graph, name: str) -> float:
        """Microseconds in which a value moves from the chip to the host."""
        type = graph.type(name)
        positions = prod(type.shape[1:3]) if len(type.shape) == 4 else 1
        return self.tensor + type.nbytes / self.out + positions * self.position


COSTS = Costs()


def macs(graph: Graph, node: Node) -> int:
    """Products of an operator with trained weights, 0 for others."""
    shapes = [graph.type(name).shape for name in node.inputs if name is not None]
    weights = sum(
        graph.type(name).size
        for name in node.inputs
        if name is not None and graph.value(name).is_constant and len(graph.type(name).shape) > 1
    )
    if not weights:
        return 0
    # Every position of the image, or every row of a matrix, meets all weights.
    shape = graph.type(node.outputs[0]).shape
    if node.op == "transpose_conv":
        shape = max(shapes[:1] + shapes[-1:], key=len)
    positions = 1
    for extent in shape[:-1]:
        positions *= extent
    return positions * weights


def elements(graph: Graph, node: Node) -> int:
    """Elements that an operator reads and writes, constants left out."""
    read = set(graph.computed(node))
    return sum(graph.type(name).size for name in (*read, *node.outputs))


Sides = dict[frozenset[str], frozenset[str]]
"""Of nodes that share values, those that the chip had better compute."""


def profitable(
    graph: Graph, mappable: Collection[str], costs: Costs, known: Sides | None = None
) -> set[str]:
    """Nodes that the chip had better compute if every further part were free.

    The cheapest of all divisions: a minimum cut between chip and host, where a node that is cut off
    from either costs what it takes on the other side, and a value that crosses costs its transfer.
    Nodes that share no values with each other have nothing to do with each other. So each group of
    those that do has a cut of its own, and keeps it when the model is divided again.

    Args:
        graph: the graph.
        mappable: names of the nodes that the chip can compute.
        costs: what decides.
        known: the cuts of groups of this graph with these costs, to which new ones are added.
    """
    sides = {} if known is None else known
    found: set[str] = set()
    for names in _sharing(graph, mappable):
        group = frozenset(names)
        if group not in sides:
            nodes = [graph.node(name) for name in names]
            side = source_side(_network(graph, nodes, group, costs), _CHIP, _HOST)
            sides[group] = frozenset(name for name in names if name in side)
        found |= sides[group]
    return found


def _sharing(graph: Graph, mappable: Collection[str]) -> list[list[str]]:
    """Nodes that the chip can compute, in groups that share values other than inputs."""
    groups = DisjointSets[str]()
    for name in mappable:
        groups.find(name)
    for node in graph.nodes():
        for name in node.outputs:
            names = [item.name for item in (node, *graph.consumers(name)) if item.name in mappable]
            if names:
                groups.join(names[0], *names[1:])
    return list(groups.members().values())


def _network(
    graph: Graph, nodes: Iterable[Node], group: Collection[str], costs: Costs
) -> Iterator[Edge]:
    """The network of nodes that share values; all others are on the host.

    Args:
        graph: the graph.
        nodes: the nodes.
        group: their names.
        costs: what decides.
    """
    makers = dict[str, Node]()
    for node in nodes:
        yield _CHIP, node.name, round(costs.host.time(graph, node) * _SCALE)
        yield node.name, _HOST, round(costs.chip.time(graph, node) * _SCALE)
        makers |= dict.fromkeys(node.outputs, node)
        for name in graph.computed(node):
            maker = graph.producer(name)
            if maker is not None:
                makers[name] = maker
    for name, maker in makers.items():
        given, taken = costs.give(graph, name), costs.take(graph, name)
        readers = graph.consumers(name)
        if maker.name in group:
            yield maker.name, ("out", name), round(given * _SCALE)
        yield ("in", name), maker.name if maker.name in group else _HOST, round(taken * _SCALE)
        if any(reader.name not in group for reader in readers):
            yield ("out", name), _HOST, None
        for reader in readers:
            if reader.name in group:
                yield ("out", name), reader.name, None
                yield reader.name, ("in", name), None


def gain(graph: Graph, part: Sequence[Node], costs: Costs) -> float:
    """Microseconds that a part on the chip saves, compared with its nodes on the host.

    Args:
        graph: the graph.
        part: nodes of the part.
        costs: what decides.
    """
    own = {node.name for node in part}
    saved = -costs.part
    for node in part:
        saved += costs.host.time(graph, node) - costs.chip.time(graph, node)
    for name in _touched(graph, part):
        producer = graph.producer(name)
        if producer is None:
            continue
        readers = {reader.name for reader in graph.consumers(name)}
        # What other parts give and take does not depend on where this part is.
        if producer.name not in own:
            saved -= costs.take(graph, name)
        elif readers - own:
            saved -= costs.give(graph, name)
    return saved


def total(graph: Graph, parts: Iterable[Sequence[Node]], costs: Costs) -> float:
    """Microseconds of a model of which some parts are on the chip, its own inputs left out.

    Args:
        graph: the model.
        parts: nodes of each part.
        costs: what decides.
    """
    on_host = sum(costs.host.time(graph, node) for node in graph.nodes())
    return on_host - sum(gain(graph, part, costs) for part in parts)


def _touched(graph: Graph, part: Sequence[Node]) -> list[str]:
    """Values that nodes read or write, without constants, each once."""
    names = (name for node in part for name in (*node.inputs, *node.outputs) if name is not None)
    return [name for name in dict.fromkeys(names) if not graph.value(name).is_constant]


def parameter_bytes(graph: Graph, node: Node) -> int:
    """Bytes of the constants that an operator reads."""
    return sum(
        graph.type(name).nbytes
        for name in node.inputs
        if name is not None and graph.value(name).is_constant
    )
