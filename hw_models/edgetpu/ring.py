"""The ring bus: rows from tiles and the infeed to tiles and the outfeed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.engine import Core, Issue, movable
from fitzroy.hw_models.edgetpu.memory import (
    LANES,
    TILES,
    WIDE_ROWS,
    Tiles,
    check_range,
    crossing,
    selection,
)
from fitzroy.hw_models.edgetpu.sequence import (
    Gate,
    Numbers,
    gates,
    passed,
    sequence,
    stretch,
)
from fitzroy.hw_models.edgetpu.unknown import KNOWN
from fitzroy.hw_models.isa.fields import Opcode, TileFlag
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce

CHANNELS = 2


@dataclass(eq=False, slots=True)
class Rows:
    """Rows that were sent together, for all their receivers.

    Attributes:
        count: how many.
        lanes: words of each.
        known: marks of the words, int16[rows, lanes], or None if all are known.
        constant: whether they depend on parameters and instructions only.
        words: uint32[images or 1, rows, lanes], 1 for rows that all images share.
    """

    count: int
    lanes: int
    known: Array | None = None
    constant: bool = False
    words: Array = field(default_factory=lambda: np.zeros((1, 0, 0), np.uint32))

    @property
    def nbytes(self) -> int:
        """Bytes of the words of an image."""
        return 4 * self.count * self.lanes


@dataclass(eq=False, slots=True)
class Message:
    """Rows on their way to one receiver.

    Attributes:
        rows: the rows.
        taken: how many of them the receiver has had.
    """

    rows: Rows
    taken: int = 0

    @property
    def left(self) -> int:
        """Rows that are still to be taken."""
        return self.rows.count - self.taken


class Ring:
    """Rows in order of arrival for every tile and channel, and for the outfeed."""

    def __init__(self) -> None:
        self.queues: list[list[deque[Message]]] = [
            [deque() for _ in range(TILES)] for _ in range(CHANNELS)
        ]
        self.outfeed: deque[Message] = deque()

    def send(
        self,
        channel: int,
        destination: int,
        rows: Rows,
        *,
        to_outfeed: bool = False,
    ) -> None:
        """Send rows to the tiles of a mask, and perhaps to the outfeed."""
        for tile in range(TILES):
            if destination >> tile & 1:
                self.queues[channel][tile].append(Message(rows))
        if to_outfeed:
            self.outfeed.append(Message(rows))


@dataclass(eq=False, slots=True)
class RingPlan:
    """A ring instruction with its element order.

    Attributes:
        rows: address of each row.
        gates: watchers, at positions of rows.
        ends: positions at which the tile's flag counts.
        tokens: positions at which the ring token counts.
    """

    rows: Array
    gates: tuple[Gate, ...]
    ends: Numbers | None
    tokens: Numbers | None = None


class RingProduceUnit:
    """Sends wide rows."""

    def __init__(self, core: Core, ring: Ring) -> None:
        self._core = core
        self._ring = ring

    def plan(self, issue: Issue) -> RingPlan:
        """The element order of an instruction.

        Raises:
            SimulationError: rows outside wide memory.
        """
        instruction = issue.instruction
        assert isinstance(instruction, RingProduce)
        rows = sequence(instruction.wide, instruction.prefix)
        check_range(rows.addresses, WIDE_ROWS, "wide row")
        write, token = instruction.ring_write, instruction.token
        return RingPlan(
            rows.addresses,
            gates((watcher, rows) for watcher in instruction.wait),
            rows.ends(write.level) if write is not None and write.valid else None,
            rows.ends(token.level) if token is not None and token.valid else None,
        )

    def advance(self, issue: Issue, tiles: list[int], position: int) -> tuple[list[int], int, bool]:
        """Send as many rows as the first tile can that can any."""
        plan: RingPlan = issue.plan
        instruction = issue.instruction
        assert isinstance(instruction, RingProduce)
        # Messages of several tiles have an order; tokens decide it.
        ready, _ = movable(self._core, plan.gates, tiles, position, len(plan.rows))
        if not ready:
            return [], position, False
        tile = ready[0]
        ready, end = movable(self._core, plan.gates, [tile], position, len(plan.rows))
        if not ready:
            return [], position, False
        memory = self._core.memory
        rows = plan.rows[position:end]
        known: Array | None = None
        marks = memory.wide_known[tile, rows]
        if marks.min() != KNOWN:
            cells = (LANES * rows[:, None] + np.arange(LANES)).reshape(-1)
            flat = memory.marked("wide", np.array([tile]), cells, marks.reshape(-1))
            known = flat.reshape(marks.shape)
        sent = Rows(len(rows), LANES, known, bool(memory.wide_constant[tile, rows].all()))

        def read() -> None:
            sent.words = memory.wide_rows(tile, rows)

        self._core.do(read, sent.nbytes)
        self._ring.send(
            instruction.channel,
            instruction.destination,
            sent,
            to_outfeed=instruction.to_outfeed,
        )
        self._core.count(ready, TileFlag.RING_WRITE, passed(plan.ends, position, end))
        self._core.token(instruction.channel, passed(plan.tokens, position, end))
        return ready, end, end == len(plan.rows)


class RingConsumeUnit:
    """Stores rows of one channel."""

    def __init__(self, core: Core, ring: Ring, channel: int) -> None:
        self._core = core
        self._queues = ring.queues[channel]
        self._flag = (TileFlag.RING_READ_A, TileFlag.RING_READ_B)[channel]

    def plan(self, issue: Issue) -> RingPlan:
        """The element order of an instruction.

        Raises:
            SimulationError: rows outside wide memory.
        """
        instruction = issue.instruction
        assert isinstance(instruction, RingConsume)
        assert instruction.op in (Opcode.RING_CONSUME_A, Opcode.RING_CONSUME_B)
        rows = sequence(instruction.wide, instruction.prefix)
        check_range(rows.addresses, WIDE_ROWS, "wide row")
        read = instruction.ring_read
        return RingPlan(
            rows.addresses,
            gates((watcher, rows) for watcher in instruction.wait),
            rows.ends(read.level) if read is not None and read.valid else None,
        )

    def advance(self, issue: Issue, tiles: list[int], position: int) -> tuple[list[int], int, bool]:
        """Store as many rows of one message as all tiles can that can any."""
        plan: RingPlan = issue.plan
        queues = self._queues
        tiles = [tile for tile in tiles if queues[tile]]
        tiles, end = movable(self._core, plan.gates, tiles, position, len(plan.rows))
        if not tiles:
            return tiles, position, False
        heads = [queues[tile][0] for tile in tiles]
        size = min(end - position, *[message.left for message in heads])
        rows = stretch(plan.rows[position : position + size])
        for group, message in _shared(tiles, heads):
            where, place = selection(group), slice(message.taken, message.taken + size)
            self._store(where, rows, message.rows, place)
        for tile, message in zip(tiles, heads, strict=True):
            message.taken += size
            if not message.left:
                queues[tile].popleft()
        end = position + size
        self._core.count(tiles, self._flag, passed(plan.ends, position, end))
        return tiles, end, end == len(plan.rows)

    def _store(self, tiles: Tiles, rows: slice | Array, sent: Rows, part: slice) -> None:
        """Store some of the rows that were sent."""
        memory = self._core.memory

        def write() -> None:
            memory.set_wide(tiles, rows, sent.words[:, part])

        self._core.do(write)
        place = crossing(tiles, rows)
        if sent.lanes < LANES:
            memory.wide_constant[place] &= sent.constant
        else:
            memory.wide_constant[place] = sent.constant
        memory.wide_known[*place, : sent.lanes] = KNOWN if sent.known is None else sent.known[part]


def _shared(tiles: list[int], heads: list[Message]) -> list[tuple[Array, Message]]:
    """Tiles that take the same rows, with the message of one of them."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index, message in enumerate(heads):
        groups.setdefault((id(message.rows), message.taken), []).append(index)
    where = np.array(tiles)
    return [(where[indices], heads[indices[0]]) for indices in groups.values()]
