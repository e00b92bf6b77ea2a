"""Execution of a recorded program without data and with the shortest queues.

An engine holds one instruction, a tile one that is not dispatched, a stream unit one. A row of the
ring moves only when every receiver has its consumer at the place where it may write, and a word of
the mesh only when sender and receiver both are there. A program that ends like this ends with any
longer queues: they only let units go on earlier.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.memory import TILES
from fitzroy.hw_models.edgetpu.mesh import DIRECTIONS
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording, Streamed
from fitzroy.hw_models.edgetpu.ring import CHANNELS
from fitzroy.hw_models.edgetpu.scalar import ChunkEnd, ChunkStart, Descriptor, Fence, HostWords
from fitzroy.hw_models.edgetpu.scalar import Stream as StreamEvent
from fitzroy.hw_models.edgetpu.sequence import Gate, Numbers, passed
from fitzroy.hw_models.edgetpu.stream import StreamPlan
from fitzroy.hw_models.edgetpu.timing.work import row_bytes, unit_bytes
from fitzroy.hw_models.edgetpu.turns import Turns
from fitzroy.hw_models.edgetpu.verifier.parts import ENGINES, MESH, Part
from fitzroy.hw_models.edgetpu.verifier.rules import Finding
from fitzroy.hw_models.edgetpu.verifier.text import issue_name, stream_name, tiles_text
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
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory

_CONSUMERS = (TileEngine.RING_CONSUME_A, TileEngine.RING_CONSUME_B)
_PLAIN = (TileEngine.OP, TileEngine.WIDE_TO_NARROW, TileEngine.NARROW_TO_WIDE)
_DISPATCH, _AVDATA_POP, _PARAMETER_POP, _CHANNEL = ENGINES, ENGINES + 1, ENGINES + 2, ENGINES + 3
_CHANNELS = tuple(range(_CHANNEL, _CHANNEL + CHANNELS))
_STREAM_TURNS: dict[StreamEngine, tuple[int, ...]] = {
    StreamEngine.AVDATA_POP: (_AVDATA_POP,),
    StreamEngine.PARAMETER_POP: (_PARAMETER_POP,),
    StreamEngine.INFEED: _CHANNELS,
    StreamEngine.OUTFEED: _CHANNELS,
}
_POPS = {_AVDATA_POP: StreamEngine.AVDATA_POP, _PARAMETER_POP: StreamEngine.PARAMETER_POP}
_POP_FLAGS = {
    StreamEngine.AVDATA_POP: ScalarFlag.AVDATA_POP,
    StreamEngine.PARAMETER_POP: ScalarFlag.PARAMETER_POP,
}
_INFEED_FLAGS = {
    InfeedMemory.PARAMETER: ScalarFlag.PARAMETER_INFEED,
    InfeedMemory.ACTIVATION: ScalarFlag.AVDATA_INFEED,
    InfeedMemory.SCALAR: ScalarFlag.SCALAR_INFEED,
}
_ALL = range(TILES)
_BUFFER_UNITS = {
    StreamEngine.AVDATA_POP: BEAGLE.memories.activation_buffer.elements,
    StreamEngine.PARAMETER_POP: BEAGLE.memories.parameter_buffer.elements,
}


@dataclass(frozen=True, slots=True)
class Turn:
    """The state of the ring when a producer begins a message.

    Attributes:
        totals: tokens produced so far on each channel, ever.
        values: values of the tile's token counters.
    """

    totals: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(slots=True)
class Walked:
    """What an execution showed.

    Attributes:
        findings: what was wrong.
        complete: whether it came to the end.
        turns: when each ring producer began, by instruction and tile.
        fences: token counters when tile fences passed that wait for them, likewise.
        fed: ring consumers that take rows of the infeed, likewise.
        feeds: when each infeed began, by its place in the recording.
        outs: for each outfeed, by its place, and each channel that the producer of its first row
            has waited for: tokens produced ever by then.
    """

    findings: list[Finding] = field(default_factory=list)
    complete: bool = False
    turns: dict[tuple[Issue, int], Turn] = field(default_factory=dict)
    fences: dict[tuple[Issue, int], Turn] = field(default_factory=dict)
    fed: set[tuple[Issue, int]] = field(default_factory=set)
    feeds: dict[int, Turn] = field(default_factory=dict)
    outs: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Streaming:
    """An instruction on a stream unit.

    Attributes:
        event: the instruction.
        plan: its element order.
        place: its place in the recording.
        position: units done.
        rows: rows of the ring sent or taken.
    """

    event: StreamEvent
    plan: StreamPlan
    place: int
    position: int = 0
    rows: int = 0

    @property
    def total_rows(self) -> int:
        instruction = self.event.instruction
        assert isinstance(instruction, Infeed | Outfeed)
        return -(-len(self.plan.addresses) * unit_bytes(instruction) // row_bytes(instruction))


@dataclass(eq=False, slots=True)
class _Message:
    """The last message that a receiver got on a channel, and who knows that it is complete.

    Attributes:
        channel: its channel.
        order: place of its instruction in the program.
        sender: its tile, after the last tile for the infeed.
        name: name of the instruction.
        destination: tiles that got it.
        to_outfeed: whether the outfeed got it.
        counted: whether the ring tokens tell that it is complete.
        fenced: place in the program of the fence by which a tile knows.
        told: tiles that have signalled since.
        core: place in the program of the scalar fence by which the scalar core knows.
    """

    channel: int
    order: int
    sender: int
    name: str
    destination: int
    to_outfeed: bool
    counted: bool
    fenced: dict[int, int] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)
    core: int | None = None


class _DeadlockError(Exception):
    """The scalar core does not go on."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)
        self.what, self.where = what, where


class SyncWalk:
    """One execution.

    Args:
        recording: what the scalar core does.
        parts: parts of every instruction for tiles.
    """

    def __init__(self, recording: Recording, parts: dict[Issue, tuple[Part, ...]]) -> None:
        self.result = Walked()
        self._entries = recording.entries
        self._parts = parts
        self._heads: list[list[Issue | None]] = [[None] * TILES for _ in TileEngine]
        self._positions: list[list[list[int]]] = [[[0, 0] for _ in _ALL] for _ in TileEngine]
        self._waiting: list[Issue | None] = [None] * TILES
        self._flags = [[0] * TILES for _ in TileFlag]
        self._scalar = [0] * len(ScalarFlag)
        self._streams: dict[StreamEngine, _Streaming | None] = dict.fromkeys(_STREAM_TURNS)
        self._host = {StreamEngine.AVDATA_POP: 0, StreamEngine.PARAMETER_POP: 0}
        self._sender: list[int | None] = [None] * CHANNELS
        self._totals = [0] * CHANNELS
        self._last: list[dict[int, _Message]] = [{} for _ in range(CHANNELS)]
        self._live: list[_Message] = []
        self._fifo: int | None = None
        self._waited: tuple[tuple[int, int], ...] = ()
        self._popped = -1
        self._place = 0
        self._order: dict[Issue, int] = {}
        self._done = 0
        self._signals: dict[int, Issue] = {}
        self._turns = Turns(_CHANNEL + CHANNELS, self._move)
        self._reported: set[tuple[str, object]] = set()

    # --- the scalar core -------------------------------------------------------------------------

    def run(self) -> Walked:
        """Execute the program as far as it goes."""
        try:
            for place, (_, entry) in enumerate(self._entries):
                self._place = place
                match entry:
                    case Dispatched(issue, tiles):
                        self._order[issue] = self._place
                        self._dispatch(issue, tiles)
                    case Streamed(event, plan):
                        self._stream(event, plan)
                    case Fence(chunk, bundle, instruction):
                        self._turns.settle()
                        self._scalar_fence(instruction, chunk, bundle)
                    case Descriptor(tag=DescriptorTag.INPUT):
                        self._host[StreamEngine.AVDATA_POP] += entry.size
                        self._turns.awake.add(_AVDATA_POP)
                    case Descriptor(tag=DescriptorTag.PARAMETERS):
                        self._host[StreamEngine.PARAMETER_POP] += entry.size
                        self._turns.awake.add(_PARAMETER_POP)
                    case HostWords() | ChunkStart() | ChunkEnd():
                        self._turns.settle()
            self._turns.settle()
        except _DeadlockError as stuck:
            chain_text = "; ".join(list(self._blocked())[:12])
            self._find("deadlock", stuck.where, stuck.what, reason=chain_text, key=None)
            return self.result
        self._finish()
        self.result.complete = True
        return self.result

    def _find(
        self,
        rule: str,
        where: str,
        what: str,
        *,
        key: object,
        reason: str = "",
        parties: tuple[str, str] | None = None,
    ) -> None:
        if (rule, key) not in self._reported:
            self._reported.add((rule, key))
            self.result.findings.append(Finding(rule, where, what, parties, reason))

    def _dispatch(self, issue: Issue, tiles: int) -> None:
        members = [tile for tile in _ALL if tiles >> tile & 1]
        waiting = self._waiting
        if any(waiting[tile] is not None for tile in members):
            self._turns.settle()
            late = [tile for tile in members if waiting[tile] is not None]
            if late:
                raise _DeadlockError(
                    f"the scalar core cannot hand it to {tiles_text(late)}", issue_name(issue)
                )
        for tile in members:
            waiting[tile] = issue
        self._turns.awake.add(_DISPATCH)

    def _stream(self, event: StreamEvent, plan: StreamPlan) -> None:
        unit = stream_unit(event)
        if self._streams[unit] is not None:
            self._turns.settle()
        if self._streams[unit] is not None:
            raise _DeadlockError(
                f"the scalar core cannot hand it to the {unit.name.lower()}", stream_name(event)
            )
        self._streams[unit] = _Streaming(event, plan, self._place)
        self._turns.awake.update(_STREAM_TURNS[unit])

    def _scalar_fence(self, fence: ScalarFence, chunk: int, bundle: int) -> None:
        missing = []
        if fence.wait_tiles and fence.tiles & ~self._done:
            late = [tile for tile in _ALL if fence.tiles & ~self._done & 1 << tile]
            missing.append(f"the signal of {tiles_text(late)}")
        for unit in self._streams:
            if fence.idle >> unit & 1 and self._streams[unit] is not None:
                missing.append(f"the {unit.name.lower()} to be idle")
        for flag in ScalarFlag:
            if fence.wait >> flag & 1:
                has, wants = self._scalar[flag], fence.thresholds[flag]
                if distance(has, wants) < 0:
                    missing.append(f"{flag.name.lower()} >= {wants}, which is {has}")
        where = f"scalar_fence at bundle {bundle} of chunk {chunk}"
        if missing:
            raise _DeadlockError(f"the scalar core waits for {' and '.join(missing)}", where)
        awaited = fence.tiles if fence.wait_tiles else 0
        for wrong, text in (
            (fence.clear & self._done & ~awaited, "it clears signals of {}, not awaited"),
            (awaited & ~fence.clear, "it waits for {} and does not clear the signals"),
        ):
            if wrong:
                tiles = tiles_text([tile for tile in _ALL if wrong >> tile & 1])
                self._find("signal-pairing", where, text.format(tiles), key=(chunk, bundle))
        self._learn(fence)
        self._done &= ~fence.clear
        for flag in ScalarFlag:
            if fence.set >> flag & 1:
                self._scalar[flag] = fence.value
        self._turns.awake.update((_AVDATA_POP, _PARAMETER_POP, *_CHANNELS))

    def _learn(self, fence: ScalarFence) -> None:
        """The scalar core knows that messages are complete."""
        for message in self._live:
            flag = ScalarFlag.PRODUCER_A + message.channel
            heard = fence.wait_tiles and any(fence.tiles >> tile & 1 for tile in message.told)
            fed = message.sender == TILES and fence.idle >> StreamEngine.INFEED & 1
            out = message.to_outfeed and fence.idle >> StreamEngine.OUTFEED & 1
            counted = (
                message.counted
                and fence.wait >> flag & 1
                and distance(self._scalar[flag], fence.thresholds[flag]) == 0
            )
            if heard or fed or out or counted:
                message.core = self._place

    # --- units -----------------------------------------------------------------------------------

    def _move(self, turn: int) -> None:
        """Let a unit go as far as it can."""
        if turn in _PLAIN:
            while self._plain(turn):
                pass
        elif turn in MESH:
            while self._mesh(turn):
                pass
        elif turn == _DISPATCH:
            self._dispatchers()
        elif turn in _POPS:
            while self._pop(_POPS[turn]):
                pass
        elif turn >= _CHANNEL:
            while self._ring(turn - _CHANNEL):
                pass

    def _count(self, tile: int, marks: tuple[tuple[int, Numbers], ...], at: int, to: int) -> None:
        for flag, ends in marks:
            done = passed(ends, at, to)
            if done:
                self._flags[flag][tile] += done
                self._wake_tiles()

    def _wake_tiles(self) -> None:
        self._turns.awake.update((*_PLAIN, *MESH, *_CHANNELS))

    def _token(self, channel: int, count: int) -> None:
        if count:
            flag = TileFlag.RING_PRODUCER_A + channel
            self._flags[flag] = [value + count for value in self._flags[flag]]
            self._scalar[ScalarFlag.PRODUCER_A + channel] += count
            self._totals[channel] += count
            self._turns.awake.update((_DISPATCH, *_CHANNELS))

    def _limit(self, part: Part, tile: int, position: int) -> int:
        end = part.total
        for gate in part.gates:
            end = min(end, gate.limit(self._flags[gate.flag][tile], position))
        if part.bounds is not None and end < part.total:
            end = part.bounds[bisect_right(part.bounds, end) - 1]
        return end

    def _plain(self, engine: int) -> bool:
        heads, positions = self._heads[engine], self._positions[engine]
        moved = False
        known: dict[tuple[object, ...], int] = {}
        for tile, issue in enumerate(heads):
            if issue is None:
                continue
            part = self._parts[issue][0]
            at = positions[tile][0]
            key = (issue, at, *[self._flags[gate.flag][tile] for gate in part.gates])
            end = known.get(key)
            if end is None:
                end = known[key] = self._limit(part, tile, at)
            if end <= at:
                continue
            moved = True
            positions[tile][0] = end
            self._count(tile, part.marks, at, end)
            if end == part.total:
                self._retire(engine, tile)
        return moved

    def _retire(self, engine: int, tile: int) -> None:
        self._heads[engine][tile] = None
        self._positions[engine][tile] = [0, 0]
        self._turns.awake.add(_DISPATCH)

    def _mesh(self, engine: int) -> bool:
        heads, positions = self._heads[engine], self._positions[engine]
        moved = False
        for tile, issue in enumerate(heads):
            if issue is None:
                continue
            send, receive = self._parts[issue]
            place = positions[tile]
            if place[0] < send.total:
                moved |= self._send(engine, tile, issue, send)
            if heads[tile] is issue and place[1] < receive.total and _fills(issue):
                end = self._limit(receive, tile, place[1])
                if end > place[1]:
                    self._count(tile, receive.marks, place[1], end)
                    place[1] = end
                    moved = True
            if heads[tile] is issue and place[0] >= send.total and place[1] >= receive.total:
                self._retire(engine, tile)
                moved = True
        return moved

    def _send(self, engine: int, tile: int, issue: Issue, send: Part) -> bool:
        other = DIRECTIONS[Opcode[TileEngine(engine).name]].neighbour(tile)
        if other is None:
            raise _DeadlockError(f"tile {tile} sends over the edge of the grid", issue_name(issue))
        taker = self._heads[engine][other]
        if taker is None or _fills(taker):
            return False
        receive = self._parts[taker][1]
        place, target = self._positions[engine][tile], self._positions[engine][other]
        at, to = place[0], target[1]
        if to >= receive.total:
            return False
        count = min(self._limit(send, tile, at) - at, self._limit(receive, other, to) - to)
        if count <= 0:
            return False
        place[0], target[1] = at + count, to + count
        self._count(tile, send.marks, at, at + count)
        self._count(other, receive.marks, to, to + count)
        other_send = self._parts[taker][0]
        if target[1] >= receive.total and target[0] >= other_send.total:
            self._retire(engine, other)
        return True

    # --- ring ------------------------------------------------------------------------------------

    def _ring(self, channel: int) -> bool:
        """Send rows of one message."""
        senders = [self._sender[channel]]
        if senders[0] is None:
            senders = [*self._candidates(channel)]
        return any(sender is not None and self._rows(channel, sender) for sender in senders)

    def _candidates(self, channel: int) -> Iterator[int]:
        """Tiles that could send on a channel, the infeed as a tile after the last."""
        feed = self._streams[StreamEngine.INFEED]
        if feed is not None and _fed(feed).channel == channel:
            yield TILES
        for tile, issue in enumerate(self._heads[TileEngine.RING_PRODUCE]):
            if issue is not None and _produced(issue).channel == channel:
                yield tile

    def _rows(self, channel: int, sender: int) -> bool:
        if sender == TILES:
            return self._feed_rows(channel)
        engine = TileEngine.RING_PRODUCE
        issue = self._heads[engine][sender]
        assert issue is not None
        part = self._parts[issue][0]
        at = self._positions[engine][sender][0]
        count = self._limit(part, sender, at) - at
        if count <= 0:
            return False
        instruction = _produced(issue)
        if not at and instruction.to_outfeed:
            # What the outfeed takes comes after what this has waited for.
            self._waited = tuple(
                (gate.flag - TileFlag.RING_PRODUCER_A, self._ever(gate, sender))
                for gate in part.gates
                if gate.flag >= TileFlag.RING_PRODUCER_A
            )
        count = self._deliver(
            channel,
            instruction.destination,
            count,
            to_outfeed=instruction.to_outfeed,
        )
        if not count:
            return False
        if not at:
            self._begin_message(issue, sender, channel, part)
        end = at + count
        self._positions[engine][sender][0] = end
        self._count(sender, part.marks, at, end)
        if part.tokens is not None:
            self._token(channel, passed(part.tokens[1], at, end))
        self._sender[channel] = sender
        if end == part.total:
            counted = part.tokens is not None and _counts_at(part.tokens[1], end)
            self._end_message(
                _Message(
                    channel,
                    self._order[issue],
                    sender,
                    f"{issue_name(issue)}, tile {sender}",
                    instruction.destination,
                    instruction.to_outfeed,
                    counted,
                )
            )
            self._retire(engine, sender)
        return True

    def _turn(self, tile: int) -> Turn:
        flags = self._flags
        return Turn(
            (self._totals[0], self._totals[1]),
            (flags[TileFlag.RING_PRODUCER_A][tile], flags[TileFlag.RING_PRODUCER_B][tile]),
        )

    def _begin_message(self, issue: Issue, tile: int, channel: int, part: Part) -> None:
        self.result.turns[issue, tile] = self._turn(tile)
        flag = TileFlag.RING_PRODUCER_A + channel
        has = self._flags[flag][tile]
        waits = [gate.wanted(0) for gate in part.gates if gate.flag == flag]
        exact = any(distance(want, has) == 0 for want in waits)
        wants = f"waits for {max(waits)}" if waits else "does not wait"
        instruction = _produced(issue)
        self._after_last(
            channel,
            tile,
            self._order[issue],
            instruction.destination | instruction.to_outfeed << TILES,
            issue_name(issue),
            exact,
            f"{has} tokens are produced before it, and it {wants}",
        )
        if instruction.to_outfeed:
            others = [gate for gate in part.gates if gate.flag == TileFlag.RING_PRODUCER_A]
            self._fifo = max((gate.wanted(0) for gate in others), default=None)

    def _ever(self, gate: Gate, tile: int) -> int:
        """Tokens produced ever by the time that a watcher opens."""
        channel = gate.flag - TileFlag.RING_PRODUCER_A
        return self._totals[channel] + distance(gate.wanted(0), self._flags[gate.flag][tile])

    def _after_last(
        self,
        channel: int,
        sender: int,
        order: int,
        receivers: int,
        name: str,
        exact: bool,
        reason: str,
    ) -> None:
        """A message must not begin before those that its receivers get before it are complete."""
        found = self._last[channel]
        for last in {
            found[tile] for tile in range(TILES + 1) if receivers >> tile & 1 and tile in found
        }:
            if last.sender == sender or (exact and last.counted):
                continue
            if last.core is not None and last.core < order:
                continue
            if sender in last.fenced and last.fenced[sender] < order:
                continue
            rule = "ring-mix" if TILES in (sender, last.sender) else "ring-turn"
            if sender == TILES and last.order < self._popped:
                # What it sends has to come from the host first.
                rule = "timing-guaranteed"
            self._find(
                rule,
                name if sender == TILES else f"{name}, tile {sender}",
                f"it can begin on channel {'AB'[channel]} before {last.name} is complete",
                key=order,
                reason=reason + ("" if last.counted else "; no token counts the message before"),
                parties=(last.name, name),
            )

    def _end_message(self, message: _Message) -> None:
        channel = message.channel
        self._sender[channel] = None
        receivers = message.destination | message.to_outfeed << TILES
        found = self._last[channel]
        for tile in range(TILES + 1):
            if receivers >> tile & 1:
                found[tile] = message
        self._live = [*{id(one): one for last in self._last for one in last.values()}.values()]

    def _receivers(self, channel: int, destination: int) -> Iterator[tuple[int, Issue | None]]:
        for tile in _ALL:
            if destination >> tile & 1:
                yield tile, self._heads[_CONSUMERS[channel]][tile]

    def _deliver(
        self, channel: int, destination: int, count: int, *, to_outfeed: bool, fed: bool = False
    ) -> int:
        """Give rows to all receivers, as many as all of them can take."""
        engine = _CONSUMERS[channel]
        takers = []
        for tile, issue in self._receivers(channel, destination):
            if issue is None:
                return 0
            part = self._parts[issue][0]
            at = self._positions[engine][tile][0]
            count = min(count, self._limit(part, tile, at) - at)
            if count <= 0:
                return 0
            takers.append((tile, issue, part, at))
        out = self._streams[StreamEngine.OUTFEED]
        if to_outfeed:
            if out is None:
                return 0
            count = min(count, self._outfeed_rows(out))
            if count <= 0:
                return 0
        for tile, issue, part, at in takers:
            end = at + count
            self._positions[engine][tile][0] = end
            self._count(tile, part.marks, at, end)
            if fed:
                self.result.fed.add((issue, tile))
            if end == part.total:
                self._retire(engine, tile)
        if to_outfeed and out is not None:
            self._take_out(out, count)
        return count

    def _outfeed_rows(self, out: _Streaming) -> int:
        """Rows that an outfeed may take."""
        unit, row = unit_bytes(out.event.instruction), row_bytes(_feeds(out))
        limit, total = self._stream_limit(out, out.rows * row // unit), len(out.plan.addresses)
        rows = out.total_rows if limit >= total else limit * unit // row
        return rows - out.rows

    def _stream_limit(self, running: _Streaming, position: int) -> int:
        return running.plan.limit(self._scalar, position)

    def _take_out(self, out: _Streaming, count: int) -> None:
        if not out.rows:
            self.result.outs[out.place] = self._waited
        unit, row = unit_bytes(out.event.instruction), row_bytes(_feeds(out))
        out.rows += count
        end = min(len(out.plan.addresses), out.rows * row // unit)
        self._count_scalar(ScalarFlag.RING_OUTFEED, passed(out.plan.ends, out.position, end))
        out.position = end
        if out.rows == out.total_rows:
            self._streams[StreamEngine.OUTFEED] = None
        self._turns.awake.update(_CHANNELS)

    def _count_scalar(self, flag: int, count: int) -> None:
        if count:
            self._scalar[flag] += count
            self._turns.awake.update((_AVDATA_POP, _PARAMETER_POP, *_CHANNELS))

    def _feed_rows(self, channel: int) -> bool:
        """The infeed reads units and sends the rows that they fill."""
        feed = self._streams[StreamEngine.INFEED]
        assert feed is not None
        instruction = _fed(feed)
        unit, row = unit_bytes(instruction), row_bytes(instruction)
        total, rows = len(feed.plan.addresses), feed.total_rows
        limit = self._stream_limit(feed, feed.position)
        ready = rows if limit >= total else limit * unit // row
        count = 0
        if ready > feed.rows:
            count = self._deliver(
                channel, instruction.destination, ready - feed.rows, to_outfeed=False, fed=True
            )
        # It reads on until the next row is full.
        end = min(limit, total, -(-(feed.rows + count + 1) * row // unit))
        if not count and end <= feed.position:
            return False
        plan = feed.plan
        if end > feed.position:
            done = passed(plan.ends, feed.position, end)
            self._count_scalar(_INFEED_FLAGS[instruction.memory], done)
            feed.position = end
        if count:
            if not feed.rows:
                self._begin_feed(feed, channel)
            sent = min(total, (feed.rows + count) * row // unit)
            before = min(total, feed.rows * row // unit)
            sent = total if feed.rows + count == rows else sent
            feed.rows += count
            self._token(channel, passed(plan.tokens, before, sent))
            self._sender[channel] = TILES
        if feed.rows == rows:
            counted = plan.tokens is not None and _counts_at(plan.tokens, total)
            name = stream_name(feed.event)
            order = feed.place
            target = instruction.destination
            self._end_message(_Message(channel, order, TILES, name, target, False, counted))
            self._streams[StreamEngine.INFEED] = None
        self._turns.awake.update(_CHANNELS)
        return True

    def _begin_feed(self, feed: _Streaming, channel: int) -> None:
        instruction = _fed(feed)
        values = (self._scalar[ScalarFlag.PRODUCER_A], self._scalar[ScalarFlag.PRODUCER_B])
        self.result.feeds[feed.place] = Turn((self._totals[0], self._totals[1]), values)
        flag = ScalarFlag.PRODUCER_A + channel
        has = self._scalar[flag]
        waits = [gate.wanted(0) for gate in feed.plan.gates if gate.flag == flag]
        exact = any(distance(want, has) == 0 for want in waits)
        if instruction.memory is InfeedMemory.SCALAR and self._fifo is not None:
            # The producer that feeds it waits until the last message has at least begun to end.
            waits.append(self._fifo)
            exact = exact or 0 <= distance(has, self._fifo) <= 1
        wants = f"waits for {max(waits)}" if waits else "does not wait"
        self._after_last(
            channel,
            TILES,
            feed.place,
            instruction.destination,
            stream_name(feed.event),
            exact,
            f"{has} tokens are produced before it, and it {wants}",
        )

    # --- streams and dispatchers -----------------------------------------------------------------

    def _pop(self, unit: StreamEngine) -> bool:
        running = self._streams[unit]
        if running is None:
            return False
        size = unit_bytes(running.event.instruction)
        at = running.position
        end = self._stream_limit(running, at)
        end = min(end, at + self._host[unit] // size, at + _BUFFER_UNITS[unit])
        if end <= at:
            return False
        self._host[unit] -= (end - at) * size
        running.position = end
        self._popped = max(self._popped, running.place)
        if end == len(running.plan.addresses):
            self._streams[unit] = None
        self._count_scalar(_POP_FLAGS[unit], passed(running.plan.ends, at, end))
        return True

    def _dispatchers(self) -> None:
        for tile, issue in enumerate(self._waiting):
            if issue is None:
                continue
            instruction = issue.instruction
            if isinstance(instruction, TileFence):
                if not self._fence_open(instruction, tile):
                    continue
                self._pass_fence(issue, instruction, tile)
            else:
                engine = ENGINE_OF[instruction.op]
                if self._heads[engine][tile] is not None:
                    continue
                self._heads[engine][tile] = issue
                self._turns.awake.add(engine)
                if engine in (*_CONSUMERS, TileEngine.RING_PRODUCE):
                    self._turns.awake.update(_CHANNELS)
            self._waiting[tile] = None

    def _fence_open(self, fence: TileFence, tile: int) -> bool:
        if any(fence.idle >> engine & 1 and self._heads[engine][tile] for engine in TileEngine):
            return False
        return all(
            not wait or distance(self._flags[flag][tile], fence.ring_threshold) >= 0
            for wait, flag in (
                (fence.wait_ring_a, TileFlag.RING_PRODUCER_A),
                (fence.wait_ring_b, TileFlag.RING_PRODUCER_B),
            )
        )

    def _pass_fence(self, issue: Issue, fence: TileFence, tile: int) -> None:
        if fence.wait_ring_a or fence.wait_ring_b:
            self.result.fences[issue, tile] = self._turn(tile)
        if fence.set:
            for flag in TileFlag:
                if fence.set >> flag & 1:
                    self._flags[flag][tile] = fence.value
            self._wake_tiles()
        for message in self._live:
            channel = message.channel
            got = message.destination >> tile & 1 and fence.idle >> _CONSUMERS[channel] & 1
            sent = message.sender == tile and fence.idle >> TileEngine.RING_PRODUCE & 1
            counter = TileFlag.RING_PRODUCER_A + channel
            waits = fence.wait_ring_b if channel else fence.wait_ring_a
            counted = (
                message.counted
                and waits
                and distance(self._flags[counter][tile], fence.ring_threshold) == 0
            )
            if got or sent or counted:
                message.fenced.setdefault(tile, self._order[issue])
            if fence.signal and tile in message.fenced:
                message.told.add(tile)
        if fence.signal:
            if self._done >> tile & 1:
                before = self._signals[tile]
                self._find(
                    "signal-pairing",
                    f"{issue_name(issue)}, tile {tile}",
                    "a signal comes before the one that precedes it has been taken",
                    key=issue,
                    parties=(issue_name(before), issue_name(issue)),
                )
            self._done |= 1 << tile
            self._signals[tile] = issue

    # --- the end ---------------------------------------------------------------------------------

    def _blocked(self) -> Iterator[str]:
        """Who waits for what."""
        for engine in TileEngine:
            groups: dict[tuple[Issue, tuple[int, ...], str], list[int]] = {}
            for tile, issue in enumerate(self._heads[engine]):
                if issue is not None:
                    place = self._positions[engine][tile]
                    reason = self._reason(engine, issue, tile)
                    groups.setdefault((issue, tuple(place), reason), []).append(tile)
            for (issue, _, reason), tiles in groups.items():
                yield f"{tiles_text(tiles)}: {issue_name(issue)} waits for {reason}"
        for unit, running in self._streams.items():
            if running is not None:
                yield f"{stream_name(running.event)} {self._stream_reason(unit, running)}"
        waiting: dict[tuple[Issue, str], list[int]] = {}
        for tile, issue in enumerate(self._waiting):
            if issue is not None:
                waiting.setdefault((issue, self._held(issue, tile)), []).append(tile)
        for (issue, held), tiles in waiting.items():
            yield f"{tiles_text(tiles)}: {issue_name(issue)} is not dispatched: {held}"

    def _held(self, issue: Issue, tile: int) -> str:
        fence = issue.instruction
        if not isinstance(fence, TileFence):
            engine = ENGINE_OF[fence.op]
            return f"{engine.name.lower()} has {issue_name(self._heads[engine][tile])}"
        busy = [
            engine.name.lower()
            for engine in TileEngine
            if fence.idle >> engine & 1 and self._heads[engine][tile] is not None
        ]
        return f"it waits for {' and '.join(busy) or 'ring tokens'}"

    def _reason(self, engine: int, issue: Issue, tile: int) -> str:
        """What the parts of an instruction wait for."""
        reasons = []
        for half, part in enumerate(self._parts[issue]):
            at = self._positions[engine][tile][half]
            if at >= part.total:
                continue
            closed = [self._shut(gate, tile, at) for gate in part.gates]
            wants = [text for text in closed if text]
            if not wants and engine in MESH:
                wants = ["words of its neighbour" if half else "its neighbour to take words"]
            if not wants and engine == TileEngine.RING_PRODUCE:
                wants = [self._unready(issue)]
            reasons += wants or ["rows"]
        return " and ".join(dict.fromkeys(reasons))

    def _shut(self, gate: Gate, tile: int, at: int) -> str:
        has = self._flags[gate.flag][tile]
        if gate.limit(has, at) > at:
            return ""
        return f"{TileFlag(gate.flag).name.lower()} >= {gate.wanted(at)}, which is {has}"

    def _unready(self, issue: Issue) -> str:
        instruction = _produced(issue)
        channel, destination = instruction.channel, instruction.destination
        late = [tile for tile, head in self._receivers(channel, destination) if head is None]
        if late:
            return f"a consumer in {tiles_text(late)}"
        sender = self._sender[channel]
        if (
            sender is not None
            and sender < TILES
            and self._heads[TileEngine.RING_PRODUCE][sender] is not issue
        ):
            return f"the message of tile {sender}"
        return "its receivers"

    def _stream_reason(self, unit: StreamEngine, running: _Streaming) -> str:
        at = running.position
        for gate in running.plan.gates:
            has = self._scalar[gate.flag]
            if gate.limit(has, at) <= at:
                name = ScalarFlag(gate.flag).name.lower()
                return f"waits at unit {at} for {name} >= {gate.wanted(at)}, which is {has}"
        needs = {
            StreamEngine.INFEED: "its receivers",
            StreamEngine.OUTFEED: "rows",
        }
        return f"waits at unit {at} for {needs.get(unit, 'bytes of the host')}"

    def _finish(self) -> None:
        """Everything is used up at the end of a program."""
        left = [*self._blocked()]
        left += [
            f"{size} bytes of the host for {unit.name.lower()}"
            for unit, size in self._host.items()
            if size
        ]
        for text in left:
            self._find("left-over", "the end of the program", text, key=text)
        late = [tile for tile in _ALL if self._done >> tile & 1]
        if late:
            self._find(
                "signal-pairing",
                issue_name(self._signals[late[0]]),
                f"no scalar fence takes the signal of {tiles_text(late)}",
                key=None,
            )
        for channel in range(CHANNELS):
            values = self._flags[TileFlag.RING_PRODUCER_A + channel]
            own = self._scalar[ScalarFlag.PRODUCER_A + channel]
            if any(chain(values, [own])):
                self._find(
                    "tokens-left",
                    "the end of the program",
                    f"{max(own, *values)} tokens of channel {'AB'[channel]} are left",
                    key=channel,
                )


def _fills(issue: Issue) -> bool:
    instruction = issue.instruction
    assert isinstance(instruction, Mesh)
    return instruction.fill


def _produced(issue: Issue) -> RingProduce:
    instruction = issue.instruction
    assert isinstance(instruction, RingProduce)
    return instruction


def _fed(running: _Streaming) -> Infeed:
    instruction = running.event.instruction
    assert isinstance(instruction, Infeed)
    return instruction


def _feeds(running: _Streaming) -> Infeed | Outfeed:
    instruction = running.event.instruction
    assert isinstance(instruction, Infeed | Outfeed)
    return instruction


def stream_unit(event: StreamEvent) -> StreamEngine:
    """The unit that executes a stream instruction."""
    match event.instruction:
        case Pop(memory=PopMemory.ACTIVATION):
            return StreamEngine.AVDATA_POP
        case Pop():
            return StreamEngine.PARAMETER_POP
        case Infeed():
            return StreamEngine.INFEED
    return StreamEngine.OUTFEED


def _counts_at(ends: Numbers, end: int) -> bool:
    """Whether the last count is at an end."""
    return bool(ends) and ends[-1] == end
