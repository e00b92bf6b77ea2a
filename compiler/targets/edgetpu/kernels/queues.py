"""Queues: slots of wide memory between the ring and narrow memory, filled and emptied in turn.

Both ends of a queue follow from one description: what fills a slot waits until it has been emptied,
and what empties it waits until it has been filled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS, WHOLE, Condition, free, full
from fitzroy.compiler.targets.edgetpu.kernels.transfers import (
    consume,
    pack,
    produce,
    unpack,
)
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import LANES
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import TileFlag
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.traversal import Prefix

SLOT = "slot"
"""The axis of slots."""


@dataclass(frozen=True, slots=True)
class Sending:
    """Words of narrow memory that go over channel A of the ring, row by row through two slots.

    Attributes:
        words: the words.
        count: rows.
        slots: first row of wide memory of the two slots.
        row: axis of the words each iteration of which begins a row; 64 words fill one anyway.
        sent: how often slots were emptied before.
        depth: rows of a slot; the last time, a slot may have fewer.
        acquire: what is waited for before words are read.
    """

    words: Walk
    count: int
    slots: int
    row: str = WHOLE
    sent: int = 0
    depth: int = 1
    acquire: Sequence[Condition] = ()

    @property
    def turns(self) -> int:
        """How often a slot is filled."""
        return -(-self.count // self.depth)

    def _rows(self, inner: str | None) -> Walk:
        """The rows of the slots, from that on whose turn it is; inside of a slot, along an axis."""
        turn = SLOT, self.depth * (1 - 2 * (self.sent % SLOTS))
        first = self.slots + self.depth * (self.sent % SLOTS)
        if inner is None:
            return walk(first, slot=(self.turns, 0), turn=turn)
        rest = self.count - self.depth * (self.turns - 1)
        part = None if rest == self.depth else (rest, SLOT)
        return walk(first, row=(self.depth, 1), slot=(self.turns, 0), turn=turn, part=part)

    def pack(self, tiles: int = 0) -> NarrowToWide:
        """Fill the slots, on the tiles of a mask."""
        return pack(
            self.words,
            self._rows(None if self.depth == 1 else "row"),
            row=self.row,
            publish=SLOT,
            acquire=[free(TileFlag.RING_WRITE, SLOT, before=self.sent), *self.acquire],
            tiles=tiles,
        )

    def produce(self, tile: int, turn: Condition, destination: int | None) -> RingProduce:
        """Empty the slots.

        Args:
            tile: the tile that sends.
            turn: its turn on the channel, for one token.
            destination: as for `transfers.produce`.
        """
        return _produced(self._rows("row"), tile, turn, destination, self.sent)


def produce_row(tile: int, slots: int, number: int, turn: Condition) -> RingProduce:
    """Send one of the rows in two slots to the scalar core.

    Args:
        tile: the tile that sends.
        slots: first of the two rows of wide memory.
        number: number of the row among those that go through the slots.
        turn: its turn on channel A, for one token.
    """
    rows = walk(slots + number % SLOTS, row=(1, 1), slot=(1, 0))
    return _produced(rows, tile, turn, None, number)


def _produced(
    rows: Walk, tile: int, turn: Condition, destination: int | None, sent: int
) -> RingProduce:
    return produce(
        rows,
        release=SLOT,
        token=WHOLE,
        acquire=[turn, full(TileFlag.NARROW_TO_WIDE, SLOT, before=sent)],
        tiles=1 << tile,
        destination=destination,
    )


@dataclass(frozen=True, slots=True)
class Taking:
    """Rows of channel A of the ring that become words of narrow memory, slot by slot.

    Attributes:
        rows: where rows go, and come from; `SLOT` is one of its axes.
        words: where their words go.
        row: axis of the words each iteration of which begins a row; a row holds 64 words.
        publish: axis of the words of which WIDE_TO_NARROW counts iterations; each word by default.
        acquire: what is waited for before words are written.
        prefix: words that go elsewhere.
    """

    rows: Walk
    words: Walk
    row: str = WHOLE
    publish: str | None = None
    acquire: Sequence[Condition] = ()
    prefix: Prefix | None = None

    @property
    def _counted(self) -> str:
        return self.words.names[0] if self.publish is None else self.publish

    @property
    def _credit(self) -> int:
        """What WIDE_TO_NARROW counts for a slot."""
        rows = math.prod(count for _, count, _ in self.rows.axes[: self.rows.level(SLOT)])
        inside = self.words.axes[self.words.level(self._counted) : self.words.level(self.row)]
        return rows * (LANES if self.row == WHOLE else math.prod(count for _, count, _ in inside))

    def unpack(self, tiles: int = 0) -> WideToNarrow:
        """Empty the slots, on the tiles of a mask."""
        return unpack(
            self.rows,
            self.words,
            row=self.row,
            publish=self._counted,
            acquire=[full(TileFlag.RING_READ_A, SLOT), *self.acquire],
            prefix=self.prefix,
            tiles=tiles,
        )

    def consume(self, tiles: int = 0, *, uncounted: int = 0) -> RingConsume:
        """Fill the slots, on the tiles of a mask.

        Args:
            tiles: the mask.
            uncounted: words that are taken before the first that WIDE_TO_NARROW counts.
        """
        credit = free(TileFlag.WIDE_TO_NARROW, SLOT, before=-uncounted, step=self._credit)
        return consume(0, self.rows, publish=SLOT, acquire=credit, tiles=tiles)


def in_slots(base: int, count: int, size: int, step: int | None = None) -> Walk:
    """A walk over elements in two slots of some size, `step` apart."""
    rounds = -(-count // size)
    rest = count - (rounds - 1) * size
    return walk(
        base,
        element=(size, 1),
        slot=(rounds, 0),
        turn=(SLOT, size if step is None else step),
        part=(rest, SLOT),
    )
