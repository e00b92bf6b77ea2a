"""When everything happens: the engines of a recorded program, driven by their flags.

The order of events follows from flags, tokens, queues and data, which the recording has; what is
left is when. Each engine goes on as far as the times of what it waits for are known, for all tiles
that are in step at once, until the whole program is known. On the ring, a row moves when its
sender has it, the channel is free and every receiver has room.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count as count_from
from itertools import pairwise
from typing import Any

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.progress import along
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.memory import TILES
from fitzroy.hw_models.edgetpu.mesh import DIRECTIONS
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording, Streamed
from fitzroy.hw_models.edgetpu.ring import CHANNELS
from fitzroy.hw_models.edgetpu.scalar import ChunkStart, Descriptor, Fence, HostWords
from fitzroy.hw_models.edgetpu.stream import HOST_UNIT_BYTES, WORD_BYTES
from fitzroy.hw_models.edgetpu.timeline import Issued
from fitzroy.hw_models.edgetpu.timing.chain import (
    NOBODY,
    Chain,
    Held,
    Histories,
    Holds,
    Promise,
    Times,
    begins,
    later,
    shifted,
)
from fitzroy.hw_models.edgetpu.timing.host import Reader, Wire
from fitzroy.hw_models.edgetpu.timing.places import (
    Feed,
    Feeding,
    Job,
    Lap,
    Move,
    Node,
    Output,
    Place,
    Queued,
    Side,
    Signal,
    Stretch,
)
from fitzroy.hw_models.edgetpu.timing.work import (
    Work,
    row_bytes,
    stream_work,
    tile_work,
    unit_bytes,
)
from fitzroy.hw_models.edgetpu.turns import Turns
from fitzroy.hw_models.isa.counters import distance
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    ENGINE_OF,
    Opcode,
    ScalarFlag,
    StreamEngine,
    TileEngine,
    TileFlag,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.tensor import TensorOp

TIMING = BEAGLE.timing
_SHARES = 0.15, 0.85
"""Shares of the time of an estimate at which this begins and ends, as measured."""

_ALL = range(TILES)
_RING = (TileEngine.RING_CONSUME_A, TileEngine.RING_CONSUME_B)
_MESH = tuple(engine for engine in TileEngine if engine.name.startswith("MESH"))
_NEIGHBOURS = {
    engine: [DIRECTIONS[Opcode[engine.name]].neighbour(tile) for tile in _ALL] for engine in _MESH
}
_PLAIN = (TileEngine.OP, TileEngine.WIDE_TO_NARROW, TileEngine.NARROW_TO_WIDE)
_OUTSIDE = TILES
"""Number of the outfeed among the receivers of a row."""

_ROW_BUFFERS = 2
"""Rows that an infeed may have read and not sent; ASSUMED."""

_LONG, _AHEAD = 1 << 10, 1 << 14
"""Fewest elements for which trust is worth it, and most that an engine goes on by trust at a time:
flags have 16 bits and must not wrap around."""

_ATTEMPTS = 8
"""How often rows of an infeed are computed before fewer of them are tried."""

_DISPATCH, _FEED, _AVDATA_POP, _PARAMETER_POP, _CHANNEL = 10, 11, 12, 13, 14
"""Turns beyond the engines of tiles; each channel of the ring has one."""

_CHANNELS = tuple(range(_CHANNEL, _CHANNEL + CHANNELS))
_POPS = {_AVDATA_POP: "avdata_pop", _PARAMETER_POP: "parameter_pop"}
_STREAM_TURNS = {
    "avdata_pop": (_AVDATA_POP,),
    "parameter_pop": (_PARAMETER_POP,),
    "infeed": (_FEED, *_CHANNELS),
    "outfeed": _CHANNELS,
}
_TURNS_OF = {
    **{engine: (engine,) for engine in _PLAIN},
    **{engine: (engine,) for engine in _MESH},
    TileEngine.RING_CONSUME_A: (_CHANNEL,),
    TileEngine.RING_CONSUME_B: (_CHANNEL + 1,),
    TileEngine.RING_PRODUCE: _CHANNELS,
}
"""Whose turn it is once an engine of tiles has another instruction."""

_ORDER = (
    TileEngine.NARROW_TO_WIDE,
    *_CHANNELS,
    TileEngine.WIDE_TO_NARROW,
    TileEngine.OP,
    _FEED,
    *_POPS,
    _DISPATCH,
    *_MESH,
)
"""Whose turn is first if several can go on. Times do not depend on it; but who goes on after those
that it waits for does so in few long stretches, and not in many short ones."""

_RANKS = {turn: rank for rank, turn in enumerate(_ORDER)}

_RESTED = Place()
"""An engine that has done nothing since everybody knows."""

_TILE_FLAGS = tuple(flag.name.lower() for flag in TileFlag)
_SCALAR_FLAGS = tuple(flag.name.lower() for flag in ScalarFlag)
_SCALAR = len(TileFlag)
"""Number of the scalar core's first flag among all."""


class BrokenPromise(Exception):
    """Room was not made in time where the clockwork trusted that it would be."""


class Clockwork:
    """One execution of a program in time.

    Weights from the host go through buffers: who fills one waits for the room that its reader
    makes, and that one for data. By what is known alone, they would go on by a buffer at a time.
    But the host is slow, and mostly there is room long before it is needed. Once that was so for
    a while, the clockwork trusts that it will be, goes on, and looks whether it was right when the
    times are known. If not, all starts again without trust.

    Args:
        recording: what the scalar core did; all plans made.
        wire: what the host sends after the first chunk.
        reader: the host's reads.
        trusting: whether room may be trusted to be made in time.
    """

    def __init__(
        self, recording: Recording, wire: Wire, reader: Reader, *, trusting: bool = True
    ) -> None:
        self.wire, self.reader = wire, reader
        self.nodes: list[Node] = []
        self.issued: list[Issued] = []
        self.laps = [Lap()]
        self.outputs: list[Output] = []
        self._entries = recording.entries
        self._flags = [Histories(TILES) for _ in TileFlag]
        self._scalar_flags = [Histories(1) for _ in ScalarFlag]
        self._queues: list[list[deque[Queued]]] = [[deque() for _ in _ALL] for _ in TileEngine]
        self._places: list[list[Place]] = [[_RESTED] * TILES for _ in TileEngine]
        self._links: list[list[deque[Stretch]]] = [[deque() for _ in _ALL] for _ in TileEngine]
        self._dispatch: list[deque[tuple[float, int, Any]]] = [deque() for _ in _ALL]
        self._dispatched: list[tuple[float, int]] = [(0.0, NOBODY)] * TILES
        self._streams: dict[str, deque[Queued]] = {
            name: deque() for name in ("avdata_pop", "parameter_pop", "infeed", "outfeed")
        }
        self._stream_places = {name: Place() for name in self._streams}
        self._popped = {"avdata_pop": 0, "parameter_pop": 0}
        self._channel_free = [(0.0, NOBODY)] * CHANNELS
        self._reading: list[tuple[float, int]] = []
        self._sender: list[tuple[TileEngine | str, int] | None] = [None] * CHANNELS
        self._feed = Feed()
        choose = partial(min, key=_RANKS.__getitem__)
        self._turns = Turns(_CHANNEL + CHANNELS, self._move, choose)
        self._turn = 0
        self._done: dict[int, Signal] = {}
        self._time = 0.0
        self._core = NOBODY
        self._movers: dict[int, Callable[[], bool]] = {
            **{engine: partial(self._plain, engine) for engine in _PLAIN},
            **{engine: partial(self._mesh, engine) for engine in _MESH},
            **{turn: partial(self._pop, name) for turn, name in _POPS.items()},
            **{_CHANNEL + channel: partial(self._ring, channel) for channel in range(CHANNELS)},
            _DISPATCH: self._dispatchers,
            _FEED: self._read_units,
        }
        self._trusting = trusting
        self._trusted: set[int] = set()
        self._promises: list[Promise] = []

    @property
    def last(self) -> int:
        """Number of the node that ends the program."""
        return self._core

    # --- the scalar core -------------------------------------------------------------------------

    def run(self) -> float:
        """Find out when everything happens; returns the cycle at which the program ends.

        Raises:
            SimulationError: the times cannot be found out, which means that the program relies on
                queues that the chip may not have.
            BrokenPromise: the clockwork trusted that there would be room, and there was none.
        """
        before = self._entries[0][0] if self._entries else 0
        for steps, entry in along(self._entries, "", *_SHARES):
            self._time += (steps - before) * TIMING.scalar_bundle
            before = steps
            match entry:
                case Dispatched():
                    self._dispatch_entry(entry, steps)
                case Streamed(event, plan):
                    work = stream_work(event.instruction, plan)
                    job = self._job(event.instruction, event.chunk, event.bundle, 0, work)
                    name = _stream_name(event.instruction)
                    self._streams[name].append(Queued(job, self._time, self._core))
                    self._turns.awake.update(_STREAM_TURNS[name])
                    if name == "parameter_pop":
                        self.laps[-1].streamed += len(plan.order) * unit_bytes(event.instruction)
                case Fence(_, _, instruction):
                    self._turns.settle()
                    self._demand_promises()
                    self._fence(instruction)
                case ChunkStart(number) if number:
                    self._turns.settle()
                    arrival = self.wire.chunk(number)
                    if arrival is None:
                        raise self._stuck(f"chunk {number} of the instructions")
                    if arrival > self._time:
                        self._time = arrival
                        self._core = self._node("host", 0, None, arrival, "instructions", NOBODY)
                case HostWords(words):
                    self._turns.settle()
                    outfeed = self._stream_places["outfeed"]
                    if outfeed.free > self._time:
                        self._time = outfeed.free
                        self._core = self._node(
                            "scalar", 0, None, self._time, "outfeed", outfeed.last
                        )
                    size = WORD_BYTES * len(words)
                    self._read([size], [self._time], "scalar", self._core)
                case Descriptor() if entry.tag is DescriptorTag.OUTPUT:
                    self.outputs.append(Output("output", entry.size))
                case Descriptor() if entry.tag >= DescriptorTag.INTERRUPT_0:
                    self.outputs.append(Output("interrupt", 0, self._time, self._time))
        self._turns.settle()
        self._demand_promises()
        left = [name for name, queue in self._streams.items() if queue]
        left += [engine.name.lower() for engine in TileEngine if any(self._queues[engine])]
        if left:
            raise self._stuck(", ".join(left))
        if self._promises:
            raise BrokenPromise
        self.laps[-1].steps, self.laps[-1].end = before, self._time
        self._finish_outputs()
        return self._time

    def _finish_outputs(self) -> None:
        """Find out when the host reads the outputs, which come in the order of descriptors."""
        offset = 0
        for output in self.outputs:
            if output.kind == "output":
                output.begin = self.reader.begun(offset)
                offset += output.size
                output.end = self.reader.when(offset)

    def _stuck(self, what: str) -> SimulationError:
        return SimulationError(
            f"the timing model cannot tell when {what} would go on",
            reason="the program runs only with queues of unlimited depth between host, ring and "
            "tiles",
            hint="--functional runs it without timing",
        )

    def _job(
        self, instruction: Instruction, chunk: int, bundle: int, tiles: int, work: tuple[Work, ...]
    ) -> Job:
        elements = max(part.elements for part in work)
        macs = 0
        if isinstance(instruction, TensorOp):
            multipliers = BEAGLE.compute.multipliers - sum(instruction.idle_multipliers)
            macs = elements * multipliers * BEAGLE.compute.lanes
        self.issued.append(
            Issued(instruction, chunk, bundle, len(self.laps) - 1, tiles, elements, macs)
        )
        return Job(len(self.issued) - 1, instruction, work)

    def _dispatch_entry(self, entry: Dispatched, steps: int) -> None:
        issue, tiles = entry.issue, entry.tiles
        instruction = issue.instruction
        if isinstance(instruction, TileFence):
            item: Any = (instruction, None)
            if entry.ends_phase:
                item = (instruction, self.laps[-1])
                self.laps[-1].steps = steps
                self.laps.append(Lap())
        else:
            item = self._job(instruction, issue.chunk, issue.bundle, tiles, tile_work(issue))
        head = (self._time, self._core, item)
        for tile in _members(tiles, TILES):
            self._dispatch[tile].append(head)
        self._turns.awake.add(_DISPATCH)

    def _fence(self, fence: ScalarFence) -> None:
        """Wait until everything that a fence asks for has happened."""
        time, maker, cause = self._awaited(fence)
        for tile in _members(fence.clear, TILES):
            self._done.pop(tile, None)
        if time > self._time:
            self._core = self._node("scalar", 0, None, time, cause, maker)
            self._time = time
        if fence.wait_tiles:
            # Nothing that begins from here on waits for what has happened by now.
            for histories in self._flags:
                histories.forget(self._time, self._core)
        for flag in ScalarFlag:
            if fence.set >> flag & 1:
                self._scalar_flags[flag].set((0,), fence.value, self._time, self._core)
                self._turns.changed(1 << _SCALAR + flag)

    def _awaited(self, fence: ScalarFence) -> tuple[float, int, str]:
        """When everything that a fence waits for has happened, who ends the wait, and what it is.

        Raises:
            SimulationError: something of it is not known to happen.
        """
        time, maker, cause = self._time, self._core, "scalar"
        if fence.wait_tiles:
            for tile in _members(fence.tiles, TILES):
                signal = self._done.get(tile)
                if signal is None:
                    raise self._stuck(f"tile {tile}")
                if signal.time > time:
                    time, maker, cause = signal.time, signal.maker, "tiles"
        for engine, (name, place) in zip(StreamEngine, self._stream_places.items(), strict=False):
            if fence.idle >> engine & 1:
                if self._streams[name]:
                    raise self._stuck(name)
                if place.free > time:
                    time, maker, cause = place.free, place.last, name
        for flag in ScalarFlag:
            if fence.wait >> flag & 1:
                history = self._scalar_flags[flag][0]
                ahead = distance(history.value, fence.thresholds[flag])
                if ahead < 0:
                    raise self._stuck(flag.name.lower())
                reached, who = history.reached(history.value - ahead)
                if reached > time:
                    time, maker, cause = reached, who, flag.name.lower()
        return time, maker, cause

    def _node(
        self, what: str, tiles: int, issue: int | None, begin: float, cause: str, maker: int
    ) -> int:
        self.nodes.append(Node(what, tiles, issue, begin, cause, maker, (Side(begin), Side(begin))))
        return len(self.nodes) - 1

    # --- trust -----------------------------------------------------------------------------------

    def _trusting_end(self, job: Job, position: int, known: int) -> int:
        """How far an engine may go that is trusted to have room; by what is known, only so far."""
        if job.number in self._trusted and position < known:
            return min(known + _AHEAD, job.work[0].elements)
        return known

    def _trust(
        self,
        job: Job,
        histories: Sequence[Histories],
        owners: Sequence[int],
        done: tuple[int, int, int],
        chain: Chain,
    ) -> None:
        """An engine has gone on: was it by trust, and may it be trusted from here on?

        Args:
            job: what it does.
            histories: all flags of its kind.
            owners: who has the one that it waits for.
            done: its position before and after, with how far it could go by what was known between.
            chain: when it went on; from its first element on.
        """
        room = job.work[0].room
        if room is None or not self._trusting or job.work[0].elements < _LONG:
            return
        flag, (position, known, end) = room.gate.flag, done
        if end > known:
            history = histories[flag].own(owners)
            shift = chain.first - position
            promise = history.promise(room.gate, room.begins, known, end, chain, shift)
            if len(promise.counts):
                self._promises.append(promise)
        name = (_TILE_FLAGS if histories is self._flags else _SCALAR_FLAGS)[flag]
        if position and name not in chain.waits.cycles and name not in chain.before.cycles:
            self._trusted.add(job.number)

    def _demand_promises(self) -> None:
        """Look whether promises that are due have been kept.

        Raises:
            BrokenPromise: one has not.
        """
        due = [promise for promise in self._promises if promise.due]
        if not all(promise.kept() for promise in due):
            raise BrokenPromise
        self._promises = [promise for promise in self._promises if not promise.due]

    # --- everything else -------------------------------------------------------------------------

    def _move(self, turn: int) -> None:
        """Find out as much as can be known of what a unit does."""
        self._turn = turn
        self._turns.wait(turn, 0)
        go_on = self._movers[turn]
        while go_on():
            pass

    def _extend(self, flag: int, tiles: Sequence[int], times: Times, node: int) -> None:
        """A flag of tiles counts."""
        self._flags[flag].extend(tiles, times, node)
        self._turns.changed(1 << flag)

    def _extend_scalar(self, flag: int, times: Times, node: int) -> None:
        """A flag of the scalar core counts."""
        self._scalar_flags[flag].extend((0,), times, node)
        self._turns.changed(1 << _SCALAR + flag)

    def _dispatchers(self) -> bool:
        """Let all tiles take instructions and pass fences, as many at once as are in step."""
        tiles: Iterable[int] = _ALL
        while tiles:
            groups = [*self._at_heads(tiles)]
            tiles = [tile for group in groups if self._take_head(group) for tile in group]
        return False

    def _at_heads(self, tiles: Iterable[int]) -> Iterable[list[int]]:
        """Tiles that may take what is next, in groups that would do so in the same way."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        known: dict[int, list[tuple[Any, ...] | None]] = {}
        for tile in tiles:
            queue = self._dispatch[tile]
            if not queue:
                continue
            head, before = queue[0], self._dispatched[tile]
            time, maker, item = head
            key: tuple[Any, ...] = (id(head), *(before if before[0] >= time else (time, maker)))
            if isinstance(item, tuple):
                states = known.get(id(head))
                if states is None:
                    states = known[id(head)] = self._before_fence(item[0])
                state = states[tile]
                if state is None:
                    continue
                key += state
            groups.setdefault(key, []).append(tile)
        return groups.values()

    def _before_fence(self, fence: TileFence) -> list[tuple[Any, ...] | None]:
        """What decides when each tile passes a fence; None for those that are busy."""
        rows: list[Sequence[Any]] = [self._queues[engine] for engine in _idle(fence)]
        busy = [any(queues) for queues in zip(*rows, strict=True)] or [False] * TILES
        states: list[Sequence[Any]] = [self._places[engine] for engine in _idle(fence)]
        for flag, waits in (
            (TileFlag.RING_PRODUCER_A, fence.wait_ring_a),
            (TileFlag.RING_PRODUCER_B, fence.wait_ring_b),
        ):
            if waits:
                states.append([id(self._flags[flag][tile]) for tile in _ALL])
        alike = list(zip(*states, strict=True)) or [()] * TILES
        return [None if busy[tile] else alike[tile] for tile in _ALL]

    def _take_head(self, tiles: Sequence[int]) -> bool:
        """Let tiles that are in step take what is next; returns whether they could."""
        time, maker, item = self._dispatch[tiles[0]][0]
        clock, last = self._dispatched[tiles[0]]
        if time > clock:
            clock, last = time, maker
        if isinstance(item, tuple):
            fence, lap = item
            passed = self._tile_fence(fence, tiles, clock, last)
            if passed is None:
                return False
            clock, last = passed
            if lap is not None:
                lap.end = max(lap.end, clock)
        else:
            engine = ENGINE_OF[item.instruction.op]
            queued = Queued(item, clock, last)
            for tile in tiles:
                self._queues[engine][tile].append(queued)
            self._turns.awake.update(_TURNS_OF[engine])
        for tile in tiles:
            self._dispatched[tile] = (clock, last)
            self._dispatch[tile].popleft()
        return True

    def _tile_fence(
        self, fence: TileFence, tiles: Sequence[int], time: float, maker: int
    ) -> tuple[float, int] | None:
        """When tiles that are in step pass a fence, and who let them; None if it is not known.

        The engines that it waits for have nothing to do.
        """
        tile = tiles[0]
        engines = _idle(fence)
        for engine in engines:
            place = self._places[engine][tile]
            free = place.free
            if free > time:
                time, maker = free, place.last
        for wanted, flag in (
            (fence.wait_ring_a, TileFlag.RING_PRODUCER_A),
            (fence.wait_ring_b, TileFlag.RING_PRODUCER_B),
        ):
            if wanted:
                history = self._flags[flag][tile]
                ahead = distance(history.value, fence.ring_threshold)
                if ahead < 0:
                    self._turns.wait_also(_DISPATCH, flag)
                    return None
                reached, who = history.reached(history.value - ahead)
                if reached > time:
                    time, maker = reached, who
        if fence.idle:
            # What follows is later than all that these engines did.
            time += TIMING.phase
            for engine in engines:
                for tile in tiles:
                    self._places[engine][tile] = _RESTED
        for number in _members(fence.set, len(TileFlag)):
            self._flags[number].set(tiles, fence.value, time, maker)
        self._turns.changed(fence.set)
        if fence.signal:
            signal = Signal(time, maker)
            for tile in tiles:
                self._done[tile] = signal
        return time, maker

    def _groups(
        self, engine: TileEngine, half: int
    ) -> list[tuple[Job, Place, list[int], float, int]]:
        """Heads of an engine's queues, with the tiles that are in step."""
        queues, places = self._queues[engine], self._places[engine]
        found = []
        for tiles in self._in_step(engine, half, _ALL):
            head = queues[tiles[0]][0]
            found.append((head.job, places[tiles[0]], tiles, head.time, head.maker))
        return found

    def _in_step(self, engine: TileEngine, half: int, tiles: Sequence[int]) -> Iterable[list[int]]:
        """Tiles that have a head, in groups: same instruction, same moment, same flags."""
        queues, places = self._queues[engine], self._places[engine]
        first = places[tiles[0]]
        if first.node != NOBODY and [places[tile] for tile in tiles].count(first) == len(tiles):
            # All execute the same, as most instructions.
            watches = queues[tiles[0]][0].job.work[half].watches
            if all(self._flags[watch.gate.flag].alike for watch in watches):
                return [[*tiles]]
        if not any(queues):
            return []
        groups: dict[tuple[Any, ...], list[int]] = {}
        # Most flags have one history in all tiles, and tell no tile from another.
        apart: dict[int, list[Histories]] = {}
        for tile in tiles:
            queue = queues[tile]
            if not queue:
                continue
            head, place = queue[0], places[tile]
            job = head.job
            flags = apart.get(job.number)
            if flags is None:
                watched = [self._flags[watch.gate.flag] for watch in job.work[half].watches]
                flags = apart[job.number] = [one for one in watched if not one.alike]
            at: float | Place = place
            if place.node == NOBODY:
                at = head.time if place is _RESTED else max(head.time, place.free)
            key: tuple[Any, ...] = (job.number, at)
            if flags:
                key += tuple([id(one[tile]) for one in flags])
            groups.setdefault(key, []).append(tile)
        return groups.values()

    def _holds(
        self,
        work: Work,
        histories: Sequence[Histories],
        owner: int,
        position: int,
        clock: float,
        limit: int | None = None,
    ) -> tuple[list[Held], int]:
        """What an engine that is ready waits for from a position on, and how far that is known."""
        holds: list[Held] = []
        end = work.elements if limit is None else min(limit, work.elements)
        if not work.watches:
            return holds, end
        tile = histories is self._flags
        names = _TILE_FLAGS if tile else _SCALAR_FLAGS
        for watch in work.watches:
            flag = watch.gate.flag
            some, stop = histories[flag][owner].holds(
                watch.gate, watch.begins, position, end, clock, names[flag]
            )
            if stop < end:
                end = stop
                self._turns.wait_also(self._turn, flag if tile else _SCALAR + flag)
            holds += some
        return holds, end

    def _begin(
        self,
        engine: TileEngine,
        place: Place,
        tiles: list[int],
        job: Job,
        time: float,
        maker: int,
    ) -> Place:
        """The place of tiles that are in step, theirs alone, with a node."""
        if place.node != NOBODY:
            node = self.nodes[place.node]
            if node.tiles.bit_count() == len(tiles):
                return place
        mask = sum([1 << tile for tile in tiles])
        fresh = Place(place.position, place.clock, place.node, place.last)
        if fresh.node == NOBODY:
            begin, cause, source = place.free, "engine", place.last
            if time >= begin:
                begin, cause, source = time, "dispatch", maker
            fresh.clock = (begin, begin)
            fresh.node = self._node(engine.name.lower(), mask, job.number, begin, cause, source)
        else:
            # Tiles part: those that go on first have a node of their own from here on.
            node.tiles &= ~mask
            sides = (_copy(node.sides[0]), _copy(node.sides[1]))
            self.nodes.append(replace(node, tiles=mask, sides=sides))
            fresh.node = len(self.nodes) - 1
        places = self._places[engine]
        for tile in tiles:
            places[tile] = fresh
        return fresh

    def _finish(self, engine: TileEngine, place: Place, tiles: list[int]) -> None:
        """An instruction is complete on some tiles, which are in step."""
        place.position = (0, 0)
        place.clock = (place.free, place.free)
        place.last, place.node = place.node, NOBODY
        for tile in tiles:
            self._queues[engine][tile].popleft()
        self._turns.awake.add(_DISPATCH)
        if engine is TileEngine.RING_PRODUCE:
            # The next message may be one for the other channel.
            self._turns.awake.update(_CHANNELS)
        elif engine in _RING and self._queues[engine][tiles[0]]:
            # The next instruction may take the remaining rows of the message.
            self._turns.awake.update(_TURNS_OF[engine])

    def _plain(self, engine: TileEngine) -> bool:
        """Let an engine go on; returns whether some tile has another instruction at its head."""
        finished = False
        for job, place, tiles, time, maker in self._groups(engine, 0):
            work = job.work[0]
            position = place.position[0]
            clock = place.ready(time, 0)
            holds, end = self._holds(work, self._flags, tiles[0], position, clock)
            if end <= position and work.elements:
                continue
            place = self._begin(engine, place, tiles, job, time, maker)
            self._advance(work, place, tiles, 0, end, holds)
            if end == work.elements:
                self._finish(engine, place, tiles)
                finished = True
        return finished

    def _advance(
        self, work: Work, place: Place, tiles: list[int], half: int, end: int, holds: Sequence[Held]
    ) -> Chain:
        """Let one half of an engine go on to a position."""
        position = place.position[half]
        side = self.nodes[place.node].sides[half]
        chain = Chain.of(position, end, place.clock[half], work.rate, holds)
        for mark in work.marks:
            counts = mark.within(position, end)
            if counts:
                self._extend(mark.flag, tiles, chain.done(counts), place.node)
        side.go_on(chain)
        if half:
            place.position, place.clock = (place.position[0], end), (place.clock[0], side.end)
        else:
            place.position, place.clock = (end, place.position[1]), (side.end, place.clock[1])
        return chain

    # --- mesh ------------------------------------------------------------------------------------

    def _mesh(self, engine: TileEngine) -> bool:
        """Let an engine go on; returns whether some tile has another instruction at its head."""
        finished = False
        for half in (0, 1):
            for job, place, tiles, time, maker in self._groups(engine, half):
                work = job.work[half]
                position = place.position[half]
                if position == work.elements:
                    if job.work[0].elements == job.work[1].elements == 0:
                        place = self._begin(engine, place, tiles, job, time, maker)
                        self._finish(engine, place, tiles)
                        finished = True
                    continue
                clock = place.ready(time, half)
                holds, end = self._holds(work, self._flags, tiles[0], position, clock)
                if end <= position:
                    continue
                if half and not job.instruction.fill:
                    for members, taken in self._linked(engine, tiles, position, end):
                        own = self._begin(engine, place, members, job, time, maker)
                        self._receive(engine, work, own, members, [*holds], taken)
                        finished |= self._close(engine, job, own, members)
                    continue
                place = self._begin(engine, place, tiles, job, time, maker)
                chain = self._advance(work, place, tiles, half, end, holds)
                if not half:
                    self._send(engine, tiles, Stretch(chain, position, end, place.node))
                finished |= self._close(engine, job, place, tiles)
        return finished

    def _close(self, engine: TileEngine, job: Job, place: Place, tiles: list[int]) -> bool:
        """Finish an instruction if both halves are complete; returns whether they are."""
        sent, received = place.position
        if sent < job.work[0].elements or received < job.work[1].elements:
            return False
        self._finish(engine, place, tiles)
        return True

    def _send(self, engine: TileEngine, tiles: list[int], stretch: Stretch) -> None:
        neighbours = _NEIGHBOURS[engine]
        for tile in tiles:
            receiver = neighbours[tile]
            assert receiver is not None, "the simulator refuses what leaves the grid"
            self._links[engine][receiver].append(stretch)

    def _linked(
        self, engine: TileEngine, tiles: list[int], position: int, end: int
    ) -> Iterable[tuple[list[int], int]]:
        """Tiles whose neighbours send in step, and how far these can go, up to an end.

        What has been sent beyond the end is not looked at: while flags wait, there is much of it.
        """
        groups: dict[tuple[Any, ...], tuple[list[int], int]] = {}
        for tile in tiles:
            key, at = list[tuple[int, int]](), position
            for stretch in self._links[engine][tile]:
                key.append((id(stretch.chain), stretch.first))
                at += stretch.end - stretch.first
                if at >= end:
                    break
            if at > position:
                groups.setdefault(tuple(key), ([], min(at, end)))[0].append(tile)
        return groups.values()

    def _receive(
        self,
        engine: TileEngine,
        work: Work,
        place: Place,
        tiles: list[int],
        holds: list[Held],
        end: int,
    ) -> None:
        """Take words up to a position, each while it is sent or later."""
        position = at = place.position[1]
        for stretch in self._links[engine][tiles[0]]:
            last = min(stretch.end, stretch.first + end - at)
            holds += stretch.chain.holds(
                stretch.first, last, at - stretch.first, stretch.node, "neighbour"
            )
            at += last - stretch.first
            if at == end:
                break
        self._advance(work, place, tiles, 1, end, holds)
        for tile in tiles:
            _drop(self._links[engine][tile], end - position)

    # --- ring ------------------------------------------------------------------------------------

    def _ring(self, channel: int) -> bool:
        """Move rows of one message as far as is known; returns whether more may follow at once."""
        sender = self._sender[channel]
        for unit, tile in self._senders(channel) if sender is None else [sender]:
            more = self._send_rows(channel, unit, tile)
            if more is not None:
                # What this counted may be what it waited for.
                return more or self._turn in self._turns.awake
        return False

    def _send_rows(self, channel: int, unit: Any, tile: int) -> bool | None:
        """Let a sender send what it can.

        Returns:
            None if it can send nothing; else whether more may follow before a flag counts.
        """
        if unit == "infeed":
            queued, place = self._streams["infeed"][0], self._stream_places["infeed"]
        else:
            queued, place = self._queues[unit][tile][0], self._places[unit][tile]
        job = queued.job
        work = job.work[0]
        position = place.position[0]
        # Where messages meet, the channel decides.
        free, previous = self._channel_free[channel]
        clock = max(place.ready(queued.time, 0), free)
        feeds = unit == "infeed"
        holds, end = list[Held](), work.elements
        if not feeds:
            holds, end = self._holds(work, self._flags, tile, position, clock)
        instruction = job.instruction
        weights = feeds and instruction.memory is InfeedMemory.PARAMETER
        count = end - position
        receivers = self._receivers(channel, instruction.destination, instruction.to_outfeed)
        if receivers is None or not count:
            return None
        moves = []
        for members, taker, at in receivers:
            target = taker.job.work[0]
            offset = at.position[0]
            more, stop = (
                self._outfeed_holds(taker.job, target, offset, clock)
                if members[0] == _OUTSIDE
                else self._holds(target, self._flags, members[0], offset, clock)
            )
            moves.append(Move(members, taker, at, target, offset, more, stop))
            stop = self._trusting_end(taker.job, offset, stop) if weights else stop
            count = min(count, stop - offset)
        if feeds and count > 0:
            feeding = self._feeding(position + count)
            count = min(count, feeding.complete(feeding.end) - position)
        if count <= 0:
            return None
        wanted = end = position + count
        rate = work.rate
        for move in moves:
            rate = max(rate, move.work.rate)
            holds += move.holds_at(position)
        if feeds:
            place = self._begin_stream("infeed", queued)
            chain = self._feed_rows(feeding, end, clock, rate, holds)
            end = chain.end
        else:
            place = self._begin(unit, place, [tile], job, queued.time, queued.maker)
            chain = Chain.of(position, end, clock, rate, holds)
        sender = place.node
        side = self.nodes[sender].sides[0]
        if free > place.clock[0]:
            side.waits.add(free, free - place.clock[0], previous, "channel")
        self._channel_free[channel] = (chain.finish, sender)
        for mark in work.marks:
            positions = mark.within(position, end)
            if positions:
                self._extend(mark.flag, (tile,), chain.done(positions), place.node)
        tokens = work.tokens.within(position, end) if work.tokens is not None else ()
        if tokens:
            times = chain.done(tokens)
            self._extend(TileFlag.RING_PRODUCER_A + channel, _ALL, times, place.node)
            self._extend_scalar(ScalarFlag.PRODUCER_A + channel, times, place.node)
        place.position = (end, end)
        place.clock = (chain.finish, chain.finish)
        side.go_on(chain)
        self._sender[channel] = (unit, tile)
        if end == work.elements:
            self._sender[channel] = None
            if unit == "infeed":
                self._finish_stream("infeed")
                self._feed = Feed(clock=self._feed.clock)
            else:
                self._finish(unit, place, [tile])
        for move in moves:
            self._take(channel, move, chain, position, end, sender)
            if weights and move.members[0] != _OUTSIDE:
                done = move.offset, move.known, move.offset + end - position
                self._trust(move.taker.job, self._flags, move.members, done, chain)
        # Rows of the outfeed may go on once the host has read some.
        return end < wanted or end == work.elements or instruction.to_outfeed

    def _first_row(self, unit: Any, tile: int, work: Work, ready: float) -> float | None:
        """When a sender that is ready has its first row, if that is known."""
        if unit == "infeed":
            return self._feed.ready[0] if self._feed.ready else None
        holds, end = self._holds(work, self._flags, tile, 0, ready)
        return begins(holds, 0, ready) if end else None

    def _feeding(self, rows: int) -> Feeding:
        """What the infeed at work has to read for rows, as far as flags let it."""
        queued, feed = self._streams["infeed"][0], self._feed
        feeding = Feeding.of(queued.job, feed, self._stream_places["infeed"].ready(queued.time, 0))
        last = feeding.reading(rows)
        feeding.holds, feeding.end = self._holds(
            feeding.work, self._scalar_flags, 0, feeding.first, feeding.clock, last
        )
        return feeding

    def _read_units(self) -> bool:
        """Let the infeed read all units into rows that it can, a few rows ahead of the ring."""
        if not self._streams["infeed"]:
            return False
        # A row may begin once the one that had its buffer has been sent.
        feeding = self._feeding(len(self._feed.sent) + _ROW_BUFFERS)
        if feeding.end > feeding.first:
            had = len(self._feed.ready)
            self._begin_stream("infeed", self._streams["infeed"][0])
            freed = _freed(feeding.beginning(feeding.end), np.array(self._feed.sent))
            self._fed(feeding, self._reading_of(feeding, feeding.end, freed))
            if len(self._feed.ready) > had:
                self._turns.awake.update(_CHANNELS)
        return False

    def _reading_of(self, feeding: Feeding, end: int, freed: tuple[Array, Array]) -> Chain:
        """The infeed reads units up to an end.

        Args:
            feeding: what it may read.
            end: the end.
            freed: units that begin rows, and when what had their buffers was sent.
        """
        node = self._stream_places["infeed"].node
        holds = [*feeding.holds, Holds.by(node, *freed, "ring")]
        return Chain.of(feeding.first, end, feeding.clock, feeding.work.rate, holds)

    def _feed_rows(
        self, feeding: Feeding, end: int, clock: float, rate: float, holds: Sequence[Held]
    ) -> Chain:
        """The infeed reads rows while the ring takes them, each waiting for the other.

        At first the infeed does not wait for the ring. What it then would wait for makes both
        later, time and again, until nothing changes: every time, at least one row more stays as it
        is.

        Args:
            feeding: what the infeed may read.
            end: one past the last row.
            clock: when the ring is ready for the first row.
            rate: cycles of a row on the ring.
            holds: what the ring waits for beside the rows.

        Returns:
            How rows go over the ring; not all of them if that takes long to find out.
        """
        feed, node = self._feed, self._stream_places["infeed"].node
        first, had = len(feed.sent), len(feed.ready)
        known, sent = np.array(feed.sent), np.zeros(0)
        reads = feeding.reads(had, end)
        freed = _freed(reads.beginning, known)
        for attempt in count_from(1):
            ready, read, more = np.array(feed.ready[first:end]), None, None
            if reads.end > feeding.first:
                read = self._reading_of(feeding, reads.end, freed)
                more = np.asarray(read.done(reads.completing))
                ready = np.concatenate((ready, more))
            data = Holds.by(node, np.arange(first, end), ready, "data")
            chain = Chain.of(first, end, clock, rate, [*holds, data])
            before, sent = sent, np.asarray(chain.done(range(first + 1, end + 1)))
            if read is None or np.array_equal(before, sent):
                break
            freed = _freed(reads.beginning, np.concatenate((known, sent)))
            if (freed[1] <= read.begun(freed[0])).all():
                break
            if attempt % _ATTEMPTS == 0:
                end = first + int(np.argmax(before != sent))
                sent = sent[: end - first]
                reads = feeding.reads(had, end)
                freed = _freed(reads.beginning, np.concatenate((known, sent)))
        if read is not None:
            self._fed(feeding, read, more)
        feed.sent.frombytes(sent.tobytes())
        self._turns.awake.add(_FEED)
        return chain

    def _fed(self, feeding: Feeding, read: Chain, more: Array | None = None) -> None:
        """The infeed has read units.

        Args:
            feeding: what it could read.
            read: when it did.
            more: when rows were complete that are after those that were, if that is known.
        """
        feed, place = self._feed, self._stream_places["infeed"]
        for mark in feeding.work.marks:
            positions = mark.within(read.first, read.end)
            if positions:
                self._extend_scalar(mark.flag, read.done(positions), place.node)
        self.nodes[place.node].sides[1].go_on(read)
        had, whole = len(feed.ready), feeding.complete(read.end)
        if whole > had:
            if more is None or len(more) != whole - had:
                more = np.asarray(read.done(feeding.completing(had, whole)))
            feed.ready.frombytes(more.tobytes())
        feed.position, feed.clock = read.end, read.finish

    def _senders(self, channel: int) -> list[tuple[Any, int]]:
        """Who could send the next message on a channel, whoever is ready first in front."""
        places = self._places[TileEngine.RING_PRODUCE]
        candidates: list[tuple[Any, int, Queued, Place]] = [
            (TileEngine.RING_PRODUCE, tile, queue[0], places[tile])
            for tile, queue in enumerate(self._queues[TileEngine.RING_PRODUCE])
            if queue and queue[0].job.instruction.channel == channel
        ]
        infeed = self._streams["infeed"]
        if infeed and infeed[0].job.instruction.channel == channel:
            candidates.append(("infeed", 0, infeed[0], self._stream_places["infeed"]))
        found = []
        for unit, tile, queued, place in candidates:
            ready = place.ready(queued.time, 0)
            row = self._first_row(unit, tile, queued.job.work[0], ready)
            if row is not None:
                found.append((max(ready, row), unit, tile))
        return [(unit, tile) for _, unit, tile in sorted(found, key=lambda item: item[0])]

    def _receivers(
        self, channel: int, destination: int, outfeed: bool
    ) -> list[tuple[list[int], Queued, Place]] | None:
        """Who takes a row, in groups that are in step; None if somebody is not there yet."""
        engine = _RING[channel]
        queues, places = self._queues[engine], self._places[engine]
        tiles = [*_members(destination, TILES)]
        if not all(queues[tile] for tile in tiles):
            return None
        found = [
            (members, queues[members[0]][0], places[members[0]])
            for members in (self._in_step(engine, 0, tiles) if tiles else ())
        ]
        if outfeed:
            if not self._streams["outfeed"]:
                return None
            found.append(([_OUTSIDE], self._streams["outfeed"][0], self._stream_places["outfeed"]))
        return found

    def _outfeed_holds(
        self, job: Job, work: Work, position: int, clock: float
    ) -> tuple[list[Held], int]:
        holds, end = self._holds(work, self._scalar_flags, 0, position, clock)
        if job.instruction.to_host:
            size = row_bytes(job.instruction)
            room = self.reader.room([size * number for number in range(1, end - position + 1)])
            end = position + len(room)
            holds += [
                (position + n, time, self._reading_at(time), "host") for n, time in enumerate(room)
            ]
        return holds, end

    def _reading_at(self, time: float) -> int:
        """Node of the host that reads without a break up to a time."""
        index = bisect_left(self._reading, (time, NOBODY)) - 1
        return self._reading[index][1] if index >= 0 else NOBODY

    def _take(
        self,
        channel: int,
        move: Move,
        chain: Chain,
        position: int,
        end: int,
        sender: int,
    ) -> None:
        """Receivers take the rows of a message."""
        count = end - position
        outside = move.members[0] == _OUTSIDE
        taker, offset = move.taker, move.offset
        if outside:
            place = self._begin_stream("outfeed", taker)
        else:
            place = self._begin(
                _RING[channel], move.place, move.members, taker.job, taker.time, taker.maker
            )
        for mark in move.work.marks:
            positions = mark.within(offset, offset + count)
            if positions:
                times = chain.done(shifted(positions, position - offset))
                if outside:
                    self._extend_scalar(mark.flag, times, place.node)
                else:
                    delayed = later(times, TIMING.chunk_latency)
                    self._extend(mark.flag, move.members, delayed, place.node)
        side = self.nodes[place.node].sides[0]
        first = chain.starts[0]
        if first > place.clock[0]:
            side.waits.add(first, first - place.clock[0], sender, "data")
        side.waits.update(chain.waits)
        side.work(chain)
        place.position = (offset + count, offset + count)
        place.clock = (chain.finish, chain.finish)
        if outside and taker.job.instruction.to_host:
            self._to_host(taker.job, chain, position, end, offset, place.node)
        if offset + count == move.work.elements:
            if outside:
                self._finish_stream("outfeed")
            else:
                self._finish(_RING[channel], place, move.members)

    def _to_host(
        self, job: Job, chain: Chain, position: int, end: int, offset: int, outfeed: int
    ) -> None:
        size = row_bytes(job.instruction)
        total = job.instruction.buffer.iterations(0) * HOST_UNIT_BYTES
        ends = [min(row * size, total) for row in range(offset, offset + 1 + end - position)]
        times = chain.done(range(position + 1, end + 1))
        sizes = [last - first for first, last in pairwise(ends)]
        self._read(sizes, times, "outfeed", outfeed)

    def _read(
        self, sizes: Sequence[int], times: Sequence[float] | Array, cause: str, maker: int
    ) -> None:
        """The host reads pieces of so many bytes that a node makes available at these times."""
        for size, time in zip(sizes, times, strict=True):
            if time > self.reader.time:
                node = self._node("host", 0, None, time, cause, maker)
                self._reading.append((time, node))
            self.reader.read([size], [time])
        if self._reading:
            self.nodes[self._reading[-1][1]].sides[0].end = self.reader.time

    # --- streams ---------------------------------------------------------------------------------

    def _begin_stream(self, name: str, queued: Queued) -> Place:
        place = self._stream_places[name]
        if place.node == NOBODY:
            begin, cause, source = place.free, "engine", place.last
            if queued.time >= begin:
                begin, cause, source = queued.time, "dispatch", queued.maker
            place.clock = (begin, begin)
            place.node = self._node(name, 0, queued.job.number, begin, cause, source)
        return place

    def _finish_stream(self, name: str) -> None:
        place = self._stream_places[name]
        place.position = (0, 0)
        place.last, place.node = place.node, NOBODY
        self._streams[name].popleft()

    def _pop(self, name: str) -> bool:
        """Take what the host has sent; returns whether more may follow before a flag counts."""
        queue = self._streams[name]
        if not queue:
            return False
        queued = queue[0]
        place = self._stream_places[name]
        work = queued.job.work[0]
        position = place.position[0]
        clock = place.ready(queued.time, 0)
        holds, known = self._holds(work, self._scalar_flags, 0, position, clock)
        end = self._trusting_end(queued.job, position, known)
        if end <= position:
            return False
        unit = unit_bytes(queued.job.instruction)
        kind = "input" if queued.job.instruction.memory is PopMemory.ACTIVATION else "parameters"
        flows = end > known
        if flows:
            self.wire.flow(kind, self._popped[name], unit, end - position)
        arrivals = self.wire.arrivals(kind, self._popped[name], unit, end - position)
        late = position + len(arrivals) < end
        end = position + len(arrivals)
        if end <= position:
            return False
        place = self._begin_stream(name, queued)
        holds.append(Holds.by(NOBODY, np.arange(position, end), arrivals, "host"))
        chain = Chain.of(position, end, clock, work.rate, holds)
        times = np.asarray(chain.done(range(position + 1, end + 1)))
        if flows and not np.array_equal(times, arrivals):
            raise BrokenPromise
        self.wire.take(kind, self._popped[name], unit, times)
        self._popped[name] += unit * len(arrivals)
        for mark in work.marks:
            counted = mark.within(position, end)
            if counted:
                self._extend_scalar(mark.flag, chain.done(counted), place.node)
        self.nodes[place.node].sides[0].go_on(chain)
        # What has been taken makes room for more from the host.
        self._turns.awake.update(_POPS)
        self._turns.awake.discard(self._turn)
        if name == "parameter_pop":
            self._trust(queued.job, self._scalar_flags, (0,), (position, known, end), chain)
        place.position = (end, end)
        place.clock = (chain.finish, chain.finish)
        if end == work.elements:
            self._finish_stream(name)
        return late or end == work.elements


def _freed(beginning: tuple[Array, Array], sent: Array) -> tuple[Array, Array]:
    """Units that begin rows, and when what had their buffers was sent.

    Args:
        beginning: rows and units, int64[n] each.
        sent: when rows were sent, from the first one on, float64[m].

    Returns:
        int64[k] and float64[k]; units are left out that wait for no row, or for none of these.
    """
    rows, units = beginning
    first, last = rows.searchsorted((_ROW_BUFFERS, len(sent) + _ROW_BUFFERS))
    return units[first:last], sent[rows[first:last] - _ROW_BUFFERS]


@cache
def _members(mask: int, count: int) -> tuple[int, ...]:
    """Numbers below a count whose bits a mask has."""
    return tuple(number for number in range(count) if mask >> number & 1)


def _idle(fence: TileFence) -> tuple[int, ...]:
    """Engines that a fence waits for."""
    return _members(fence.idle, len(TileEngine))


def _copy(side: Side) -> Side:
    return Side(side.end, side.busy, side.waits.copy())


def _drop(link: deque[Stretch], count: int) -> None:
    """Forget words that have been received."""
    while count:
        stretch = link.popleft()
        size = stretch.end - stretch.first
        if size > count:
            link.appendleft(replace(stretch, first=stretch.first + count))
            return
        count -= size


def _stream_name(instruction: Pop | Infeed | Outfeed) -> str:
    match instruction:
        case Pop(memory=PopMemory.ACTIVATION):
            return "avdata_pop"
        case Pop():
            return "parameter_pop"
        case Infeed():
            return "infeed"
        case Outfeed():
            return "outfeed"
