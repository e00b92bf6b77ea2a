"""The best way to cut a model into segments for several chips.

A cut is a set of operators that needs nothing from outside of it. Segments lie between nested cuts,
so several tensors may cross, and an operator of another branch may wait. If there are at most
`MOST_CUTS` cuts, all of them are considered, and what is found is optimal for the costs given.
Otherwise only cuts along the order of the graph are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fitzroy.base.disjoint_sets import DisjointSets
from fitzroy.base.errors import UsageError
from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS, Costs, parameter_bytes
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES

MOST_CHIPS = 8
"""Chips that are considered when their number is to be found."""

MOST_CUTS = 2000
"""Cuts of which every pair is tried."""

_SLACK = 1.02
"""How much slower than the fastest a way to cut a model may be for being more even."""

_WORTH = 1.05
"""How much faster a pipeline has to become with every chip that it has more."""

_MOST_FIRST = BEAGLE.limits.chunk_bundles * BUNDLE_BYTES
"""Most bytes of instructions that come before a program begins, and not while it computes."""

Times = npt.NDArray[np.float64]

Piece = tuple[int, int]
"""What lies between two cuts, by their numbers."""


class Objective(StrEnum):
    """What is to be as short as possible."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class Work:
    """What is known better of a node than its costs.

    Attributes:
        time: microseconds that the chip computes.
        instructions: bytes of its instructions.
    """

    time: float
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """What a segment keeps and moves, in bytes, as predicted.

    Attributes:
        cached: parameters that stay on its chip.
        streamed: parameters that come from the host with every inference.
        tensors: what it takes and gives with every inference.
    """

    cached: int
    streamed: int
    tensors: int


@dataclass(frozen=True)
class Cut:
    """A model cut into segments, with its predicted times in microseconds.

    Attributes:
        path: numbers of the cuts that the segments lie between, from the first to the last.
        segments: nodes of each segment.
        times: time of each segment.
        timed: whether each time is that of a compiled segment on the timing model.
        loads: what each segment keeps and moves.
        bus: time in which a controller moves what all segments take and give, once.
        whole: time of the whole model on one chip.
        whole_bus: the same as `bus`, for the whole model.
        exact: whether all cuts were considered, and not only those along the order of the graph.
        played: time between outputs of compiled segments that wait for each other and for the
            controller; 0 if that was not played.
    """

    path: tuple[int, ...]
    segments: tuple[tuple[Node, ...], ...]
    times: tuple[float, ...]
    timed: tuple[bool, ...]
    loads: tuple[Load, ...]
    bus: float
    whole: float
    whole_bus: float
    exact: bool
    played: float = 0.0

    @property
    def pieces(self) -> list[Piece]:
        """The cuts that each segment lies between."""
        return list(pairwise(self.path))

    @property
    def latency(self) -> float:
        """Time from an input to its output."""
        return sum(self.times)

    @property
    def interval(self) -> float:
        """Time between outputs, if one controller serves all chips."""
        return max(*self.times, self.bus, self.played)

    @property
    def parallel_interval(self) -> float:
        """Time between outputs if every chip computes the whole model instead."""
        return max(self.whole / len(self.times), self.whole_bus)

    def cost(self, objective: Objective) -> float:
        """What is to be as short as possible."""
        return self.latency if objective is Objective.LATENCY else self.interval


@dataclass(frozen=True)
class Cuts:
    """All cuts of a graph that are considered, and what the pieces between two of them cost.

    Attributes:
        graph: the graph.
        blocks: nodes that stay together, in order.
        inside: whether a block is inside a cut, a row for every cut; the first has none, the last
            all.
        spent: microseconds that each block computes.
        time: microseconds of the piece between two cuts, infinite where there is none.
        bus: microseconds in which a controller moves what the piece takes and gives.
        held: bytes of parameters of the piece.
        streamed: those that a chip has no room for.
        moved: bytes of tensors that the piece takes and gives.
        able: how many blocks have something for the chip.
        exact: whether these are all cuts.
        known: pieces of which the time is that of the timing model.
    """

    graph: Graph
    blocks: Sequence[Sequence[Node]]
    inside: npt.NDArray[np.bool_]
    spent: Times
    time: Times
    bus: Times
    held: Times
    streamed: Times
    moved: Times
    able: int
    exact: bool
    known: frozenset[Piece] = frozenset()

    def best(self, count: int, objective: Objective = Objective.THROUGHPUT) -> Cut:
        """The best cut for as many chips.

        Raises:
            UsageError: there are not so many operators for the chip.
        """
        path = None
        if 1 <= count <= self.able:
            path = self._fast(count) if objective is Objective.LATENCY else self._often(count)
        if path is None:
            raise UsageError(
                f"{count} segments of a model with {self.able} operators for the Edge TPU",
                hint="give fewer segments",
            )
        return self.along(path)

    def refined(self, known: Mapping[Piece, float]) -> Cuts:
        """The same cuts, with what has been found out about some pieces.

        All others are corrected, too: blocks of a piece that takes longer or shorter than predicted
        do so in all other pieces, in proportion to what they compute.

        Args:
            known: microseconds of pieces, by their cuts.
        """
        excess, counted = np.zeros(len(self.blocks)), np.zeros(len(self.blocks))
        for (begin, end), time in known.items():
            own = self.inside[end] & ~self.inside[begin]
            total = float(self.spent[own].sum())
            if total:
                excess[own] += (time - self.time[begin, end]) * self.spent[own] / total
            counted[own] += 1
        table = self.time + _between(self.inside, excess / np.maximum(counted, 1))
        table = np.maximum(table, 0.0)
        for piece in self.known:
            table[piece] = self.time[piece]
        for piece, time in known.items():
            table[piece] = time
        return replace(self, time=table, known=self.known | known.keys())

    def on_one_chip(self, time: float) -> Cuts:
        """The same cuts, with the microseconds that the timing model tells of the whole model.

        Pieces are not corrected by it: a model that streams parameters says little of segments
        that keep theirs.
        """
        table = self.time.copy()
        table[0, -1] = time
        return replace(self, time=table, known=self.known | {(0, len(table) - 1)})

    def choose(self, objective: Objective = Objective.THROUGHPUT) -> list[Cut]:
        """The best cut for every number of chips up to `MOST_CHIPS`, and up to the operators.

        Raises:
            UsageError: there is nothing for the chip.
        """
        return [
            self.best(count, objective)
            for count in range(1, max(1, min(MOST_CHIPS, self.able)) + 1)
        ]

    def _fast(self, count: int) -> list[int] | None:
        return _path(self.time, count, np.add)

    def _often(self, count: int) -> list[int] | None:
        """The cuts with the shortest interval; of those that are about as good, the most even."""
        slowest = _path(self.time, count, np.maximum)
        if slowest is None:
            return None
        chosen = self._balanced_with_bus(slowest, count)
        limit = _SLACK * self._interval(chosen)
        squares = np.where(self.time <= limit, self.time**2, np.inf)
        even = _path(squares, count, np.add)
        return even if even is not None and self._interval(even) <= limit else chosen

    def _balanced_with_bus(self, path: list[int], count: int) -> list[int]:
        """The shortest interval where chips share a controller.

        The more time segments may take, the less they can be made to move. So the optimum is
        where one figure passes the other.
        """
        chosen = self._within(_most(self.time, path), count) or path
        if _sum(self.bus, chosen) <= _most(self.time, chosen):
            return chosen
        least, most = _most(self.time, path), _sum(self.bus, chosen)
        limits = np.unique(self.time[(self.time >= least) & (self.time <= most)])
        low, high = 0, len(limits) - 1
        while low < high:
            middle = (low + high) // 2
            found = self._within(float(limits[middle]), count) or path
            chosen = min(chosen, found, key=self._interval)
            if _sum(self.bus, found) <= limits[middle]:
                high = middle
            else:
                low = middle + 1
        return min(chosen, self._within(float(limits[low]), count) or path, key=self._interval)

    def _within(self, limit: float, count: int) -> list[int] | None:
        """The cuts that move least with no segment slower than a limit."""
        return _path(np.where(self.time <= limit, self.bus, np.inf), count, np.add)

    def _interval(self, path: Sequence[int]) -> float:
        return max(_most(self.time, path), _sum(self.bus, path))

    def along(self, path: Sequence[int]) -> Cut:
        """The segments between some cuts, from the first to the last."""
        steps = list(pairwise(path))
        return Cut(
            tuple(path),
            tuple(self._nodes(begin, end) for begin, end in steps),
            tuple(float(self.time[step]) for step in steps),
            tuple(step in self.known for step in steps),
            tuple(map(self._load, steps)),
            _sum(self.bus, path),
            float(self.time[0, -1]),
            float(self.bus[0, -1]),
            self.exact,
        )

    def _load(self, piece: Piece) -> Load:
        held, streamed, moved = (int(t[piece]) for t in (self.held, self.streamed, self.moved))
        return Load(held - streamed, streamed, moved)

    def _nodes(self, begin: int, end: int) -> tuple[Node, ...]:
        chosen = np.flatnonzero(self.inside[end] & ~self.inside[begin])
        names = {node.name for number in chosen for node in self.blocks[int(number)]}
        return tuple(node for node in self.graph.nodes() if node.name in names)


def worthwhile(cuts: Sequence[Cut], objective: Objective = Objective.THROUGHPUT) -> Cut:
    """Of the best cuts for several numbers of chips, that with the most of which each pays."""
    chosen, *more = sorted(cuts, key=lambda cut: len(cut.times))
    for cut in more:
        further = len(cut.times) - len(chosen.times)
        if cut.cost(objective) * _WORTH**further < chosen.cost(objective):
            chosen = cut
    return chosen


def _between(inside: npt.NDArray[np.bool_], figures: Times) -> Times:
    """The sum of a figure of blocks over what lies between any two cuts."""
    total = inside @ figures
    found: Times = total[None, :] - total[:, None]
    return found


def _most(table: Times, path: Sequence[int]) -> float:
    return max(float(table[step]) for step in pairwise(path))


def _sum(table: Times, path: Sequence[int]) -> float:
    return sum(float(table[step]) for step in pairwise(path))


def _path(table: Times, count: int, joined: Callable[[Times, Times], Times]) -> list[int] | None:
    """The cheapest way from the first cut to the last in so many steps, or None."""
    best = np.full(len(table), np.inf)
    best[0] = 0.0
    before = []
    for _ in range(count):
        candidates = joined(best[:, None], table)
        before.append(candidates.argmin(axis=0))
        best = np.take_along_axis(candidates, before[-1][None], axis=0)[0]
    if not np.isfinite(best[-1]):
        return None
    path = [len(table) - 1]
    for step in reversed(before):
        path.append(int(step[path[-1]]))
    return path[::-1]


# --- cuts and what lies between them -------------------------------------------------------------


def cuts_of(
    graph: Graph,
    mappable: Collection[str],
    capacity: int,
    costs: Costs = COSTS,
    known: Mapping[str, Work] | None = None,
) -> Cuts:
    """All cuts of a graph, and what pieces between them cost.

    A piece takes what every part takes, the time of its operators, of its first instructions, of
    the parameters beyond those that a chip holds, and of the tensors that it takes and gives.

    Args:
        graph: the graph.
        mappable: names of the nodes that the chip can compute; every piece has one.
        capacity: bytes of parameters that a chip holds.
        costs: what decides.
        known: nodes of which more is known, by name.
    """
    blocks = _blocks(graph, mappable)
    found = _ideals(graph, blocks)
    inside = np.array(
        [[mask >> place & 1 for place in range(len(blocks))] for mask in found]
        if found
        else np.tri(len(blocks) + 1, len(blocks), -1),
        dtype=bool,
    )
    pieces = _Pieces(graph, blocks, inside, costs)
    able = [[node.name in mappable for node in block] for block in blocks]
    estimates = {
        node.name: (costs.chip if node.name in mappable else costs.host).time(graph, node)
        for node in graph.nodes()
    } | {name: work.time for name, work in (known or {}).items()}
    spent = np.array([sum(estimates[node.name] for node in block) for block in blocks])
    held = pieces.between([sum(parameter_bytes(graph, node) for node in block) for block in blocks])
    mapped = pieces.between([sum(flags) for flags in able])
    streamed = np.where(held > capacity, held - capacity + costs.staging, 0)
    moved_first = np.minimum(pieces.between(_instructions(blocks, known or {})), _MOST_FIRST)
    moved, crossing = pieces.transfers
    there = pieces.nested & (mapped > 0)
    return Cuts(
        graph,
        blocks,
        inside,
        spent,
        np.where(
            there,
            costs.part
            + _between(inside, spent)
            + moved_first / costs.into
            + streamed / costs.parameters
            + crossing,
            np.inf,
        ),
        np.where(there, (moved + streamed) / costs.controller, np.inf),
        held,
        streamed,
        moved,
        sum(map(any, able)),
        bool(found),
    )


def _instructions(blocks: Sequence[Sequence[Node]], known: Mapping[str, Work]) -> list[float]:
    """Bytes of instructions of blocks."""
    return [
        sum(known[node.name].instructions for node in block if node.name in known)
        for block in blocks
    ]


def _blocks(graph: Graph, mappable: Collection[str]) -> list[list[Node]]:
    """Nodes that stay together, in an order in which each block needs those before it only.

    They come from one operator of the file, or real numbers pass between them on a chip, which
    takes and gives integers only.

    Args:
        graph: the graph.
        mappable: names of the nodes that the chip can compute.
    """
    nodes, sets = graph.nodes(), DisjointSets[int]()
    place = {node.name: number for number, node in enumerate(nodes)}
    links = [
        (place[producer.name], number, graph.type(name).dtype is DType.FLOAT32)
        for number, node in enumerate(nodes)
        for name in graph.computed(node)
        if (producer := graph.producer(name)) is not None
    ]
    for number, node in enumerate(nodes):
        sets.find(number)
        if number and node.origin is not None and node.origin == nodes[number - 1].origin:
            sets.join(number - 1, number)
    for first, second, real in links:
        if real and nodes[first].name in mappable and nodes[second].name in mappable:
            sets.join(first, second)
    while True:
        found = sorted(map(sorted, sets.members().values()), key=lambda block: block[-1])
        last = {number: block[-1] for block in found for number in block}
        # What reads something from within a block that ends later belongs to it.
        late = [(first, second) for first, second, _ in links if last[first] > last[second]]
        if not late:
            return [[nodes[number] for number in block] for block in found]
        for pair in late:
            sets.join(*pair)


def _ideals(graph: Graph, blocks: Sequence[Sequence[Node]]) -> list[int]:
    """All sets of blocks that need nothing else, as bits, small ones first; nothing if too many."""
    place = {node.name: number for number, block in enumerate(blocks) for node in block}
    needs = [0] * len(blocks)
    for node in graph.nodes():
        for name in node.inputs:
            producer = None if name is None else graph.producer(name)
            if producer is not None and place[producer.name] != place[node.name]:
                needs[place[node.name]] |= 1 << place[producer.name]
    found, level = [0], {0}
    for _ in blocks:
        level = {
            mask | 1 << number
            for mask in level
            for number, needed in enumerate(needs)
            if not mask >> number & 1 and not needed & ~mask
        }
        found += sorted(level)
        if len(found) > MOST_CUTS:
            return []
    return found


@dataclass(frozen=True)
class _Pieces:
    """What lies between any two cuts.

    Attributes:
        graph: the graph.
        blocks: its nodes.
        inside: whether a block is inside a cut, a row for every cut.
        costs: what transfers cost.
    """

    graph: Graph
    blocks: Sequence[Sequence[Node]]
    inside: npt.NDArray[np.bool_]
    costs: Costs

    def between(self, figures: Sequence[float]) -> Times:
        """The sum of a figure of blocks over every piece."""
        return _between(self.inside, np.array(figures, np.float64))

    @cached_property
    def nested(self) -> npt.NDArray[np.bool_]:
        """Whether a cut lies within another one and is smaller."""
        ones = self.inside.astype(np.float32)
        common, size = ones @ ones.T, ones.sum(axis=1)
        found: npt.NDArray[np.bool_] = (common == size[:, None]) & (size[:, None] < size[None, :])
        return found

    @cached_property
    def transfers(self) -> tuple[Times, Times]:
        """Bytes that every piece takes and gives, and microseconds in which they move."""
        graph, count = self.graph, len(self.inside)
        place = {node.name: number for number, block in enumerate(self.blocks) for node in block}
        moved, spent = np.zeros((count, count)), np.zeros((count, count))
        for name, value in graph.values.items():
            if value.is_constant:
                continue
            producer = graph.producer(name)
            made = (
                np.ones(count, bool) if producer is None else self.inside[:, place[producer.name]]
            )
            readers = sorted({place[node.name] for node in graph.consumers(name)})
            read = self.inside[:, readers].sum(axis=1)
            size = graph.type(name).nbytes
            begin = np.flatnonzero(made & (read < len(readers)))
            takes = read[None, :] > read[begin, None]
            moved[begin] += takes * float(size)
            spent[begin] += takes * self.costs.take(graph, name)
            if producer is None:
                continue
            # A piece gives what it makes if anybody outside of it reads that.
            kept = (read == len(readers)) & (name not in graph.outputs)
            end, start = np.flatnonzero(made & ~kept), np.flatnonzero(~made)
            moved[np.ix_(start, end)] += size
            spent[np.ix_(start, end)] += self.costs.give(graph, name)
        return moved, spent
