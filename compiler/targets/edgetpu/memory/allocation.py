"""Rows of wide memory for parameters, and bytes of narrow memory for tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.base.errors import CapacityError
from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, Placed
from fitzroy.hw_models.chips.beagle import BEAGLE

_UNUSED_BYTES = 16
"""Bytes at the top of narrow memory that stay free. No published program uses the last three words,
and addresses of 16 bytes keep what lies below them aligned."""

NARROW_BYTES = BEAGLE.memories.narrow.size - _UNUSED_BYTES
"""Bytes of narrow memory that programs use."""

WIDE_ROWS = BEAGLE.memories.wide.elements


class NoRoom(CapacityError):
    """A tensor for which narrow memory has no room.

    Args:
        tensor: the tensor.
        reason: bytes that are free, and how many there are.
    """

    def __init__(self, tensor: Placed, reason: str) -> None:
        what = f"tensor {tensor.name!r} takes {tensor.nbytes} bytes of every tile"
        super().__init__(what, reason=reason)
        self.tensor = tensor


@dataclass(frozen=True, slots=True)
class Overlap:
    """Where a tensor may lie over another one, although both live.

    Attributes:
        tensor: the other one.
        below: it may begin no more than so many bytes behind the other.
        above: or so many bytes behind it, or further.
    """

    tensor: Placed
    below: int
    above: int


@dataclass(frozen=True, slots=True)
class Live:
    """A tensor and the steps in which it is in narrow memory.

    Attributes:
        tensor: the tensor, without address.
        begin: step that writes it.
        end: last step that reads it.
        overlap: a tensor that it may lie over.
    """

    tensor: Placed
    begin: int
    end: int
    overlap: Overlap | None = None

    def refuses(self, other: Live) -> tuple[int, int]:
        """Between which addresses another tensor must not begin; it may begin at both of them."""
        base = self.tensor.base
        low, high = base - other.tensor.nbytes, base + self.tensor.nbytes
        if self.begin > other.end or other.begin > self.end:
            return base, base
        if other.overlap is not None and other.overlap.tensor is self.tensor:
            return max(low, base + other.overlap.below), min(high, base + other.overlap.above)
        if self.overlap is not None and self.overlap.tensor is other.tensor:
            return max(low, base - self.overlap.above), min(high, base - self.overlap.below)
        return low, high


def allocate_narrow(
    lives: Iterable[Live], *, reserved: Sequence[int] = (), nbytes: int = NARROW_BYTES
) -> int:
    """Give tensors addresses, one after the other, each the lowest that is free while it lives.

    Some orders are tried until all tensors fit. In each, what does not fit comes first the next
    time, for a while.

    Args:
        lives: the tensors.
        reserved: for each step, bytes at the top that it uses for itself; none of further steps.
        nbytes: bytes of narrow memory.

    Returns:
        Bytes used from the bottom.

    Raises:
        NoRoom: they do not fit.
    """
    items = list(lives)
    first: NoRoom | None = None
    for order in _ORDERS:
        queue = sorted(items, key=order)
        for _ in range(_RETRIES):
            left = _allocated(queue, reserved, nbytes)
            if left is None:
                return max((live.tensor.base + live.tensor.nbytes for live in items), default=0)
            first = first or left.error
            queue.remove(left.live)
            queue.insert(0, left.live)
    assert first is not None
    raise first


_RETRIES = 8


_ORDERS: tuple[Callable[[Live], tuple[int, int]], ...] = (
    lambda live: (-live.tensor.nbytes, live.begin),
    lambda live: (live.begin - live.end, -live.tensor.nbytes),
    lambda live: (live.begin, -live.tensor.nbytes),
)
"""The largest first; those that live longest; those that are written first."""


@dataclass(frozen=True, slots=True)
class _Left:
    """A tensor for which there is no room, and how to say so."""

    live: Live
    error: NoRoom


def _allocated(lives: Sequence[Live], reserved: Sequence[int], nbytes: int) -> _Left | None:
    """Give tensors addresses, in order; what does not fit, if anything."""
    # First and last step, first byte and byte behind the last one of what has been placed.
    placed = np.empty((4, len(lives)), np.int64)
    places: dict[int, int] = {}
    relatives = _relatives(lives)
    for number, live in enumerate(lives):
        size = live.tensor.nbytes
        begin, end, first, behind = placed[:, :number]
        low, high = first - size, behind.copy()
        for other in relatives.get(id(live.tensor), ()):
            place = places.get(id(other.tensor))
            if place is not None:
                low[place], high[place] = other.refuses(live)
        there = (begin <= live.end) & (live.begin <= end)
        base = _lowest(low[there], high[there])
        limit = nbytes - max(reserved[live.begin : live.end + 1], default=0)
        if base + size > limit:
            return _Left(live, NoRoom(live.tensor, f"{limit - base} of {nbytes} are free"))
        live.tensor.base = base
        places[id(live.tensor)] = number
        placed[:, number] = live.begin, live.end, base, base + size
    return None


def _lowest(low: Array, high: Array) -> int:
    """The lowest address, from 0 on, that lies between none of some bounds."""
    order = np.argsort(low, kind="stable")
    # Behind all that begins before a gap.
    bases = np.append(0, np.maximum.accumulate(high[order])).clip(0)
    free = np.flatnonzero(bases[:-1] <= low[order])
    return int(bases[free[0]] if len(free) else bases[-1])


def _relatives(lives: Iterable[Live]) -> dict[int, list[Live]]:
    """For tensors that may overlap others, which these are."""
    items = list(lives)
    of = {id(live.tensor): live for live in items}
    found: dict[int, list[Live]] = {}
    for live in items:
        if live.overlap is not None:
            other = of[id(live.overlap.tensor)]
            found.setdefault(id(live.tensor), []).append(other)
            found.setdefault(id(other.tensor), []).append(live)
    return found


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of a tile that hold words of an operand, in the order of the words.

    Attributes:
        tile: the tile.
        row: first row.
        words: number of rows.
        group: number of the pieces that the linker moves together.
    """

    tile: int
    row: int
    words: int
    group: int = 0


_LEAST_ROWS = 64
"""An operand is not divided into smaller pieces, because every owner needs instructions."""


@dataclass(slots=True)
class WideRows:
    """Rows of wide memory from the bottom, by tile.

    Attributes:
        used: rows taken on each tile.
        limit: rows that may be taken.
        groups: number of groups of pieces.
        holes: rows below those taken that blocks have left free: tile, first row, number of rows.
        level: whether operands are divided so that about as many rows are taken on all tiles:
            other programs then find the same rows on all tiles for blocks.
    """

    used: list[int] = field(default_factory=lambda: [0] * TILES)
    limit: int = WIDE_ROWS
    groups: int = 0
    holes: tuple[tuple[int, int, int], ...] = ()
    level: bool = False

    def anywhere(self, words: int, *, whole: bool = False, most: int = WIDE_ROWS) -> list[Piece]:
        """Rows for words that their owner sends, in the smallest hole or on the emptiest tiles.

        Args:
            words: how many rows.
            whole: whether one tile must have all of them.
            most: rows of a piece, at most.

        Raises:
            CapacityError: they do not fit.
        """
        pieces: list[Piece] = []
        while words:
            tile, row, room = self._room(words)
            if self.level and not whole and row == self.used[tile]:
                mean = -(-(sum(self.used) + words) // TILES)
                room = min(room, max(mean - row, _LEAST_ROWS))
            count = min(words, room, words if whole else most)
            if count <= 0 or (whole and count < words):
                raise CapacityError(
                    f"{words} rows of parameters do not fit in wide memory",
                    reason=f"{self.limit} rows of every tile are for parameters",
                )
            pieces.append(Piece(tile, row, count, self.groups))
            self.groups += 1
            if row == self.used[tile]:
                self.used[tile] += count
            else:
                rest = (tile, row + count, room - count)
                self.holes = tuple(rest if hole[:2] == (tile, row) else hole for hole in self.holes)
            words -= count
        return pieces

    def _room(self, words: int) -> tuple[int, int, int]:
        """Where words had best begin: tile, first row, number of rows that are free there."""
        fits = [hole for hole in self.holes if hole[2] >= words]
        if fits:
            return min(fits, key=lambda hole: (hole[2], hole))
        tile = min(range(TILES), key=lambda candidate: self.used[candidate])
        above = (tile, self.used[tile], self.limit - self.used[tile])
        # The largest hole takes a part of what is too much for all tiles.
        return max([above, *self.holes], key=lambda room: room[2]) if above[2] <= 0 else above

    def origin(self, count: int) -> int:
        """The tile from which on so many tiles have most room for blocks."""
        return min(
            range(TILES),
            key=lambda first: max(
                self.used[(first + block) % TILES] for block in range(min(count, TILES))
            ),
        )

    def blocks(self, words: int, count: int, origin: int = 0) -> list[Piece]:
        """Rows for blocks that tiles read in place: block b on tile b + origin, mod 16.

        Blocks of one pass over the tiles have the same rows on all of them.

        Raises:
            CapacityError: they do not fit.
        """
        pieces: list[Piece] = []
        for first in range(0, count, TILES):
            tiles = [(origin + block) % TILES for block in range(min(TILES, count - first))]
            row = max(self.used[tile] for tile in tiles)
            if row + words > self.limit:
                raise CapacityError(
                    f"{words} rows of parameters do not fit in wide memory",
                    reason=f"{self.limit - row} rows are free on all of {len(tiles)} tiles",
                )
            for tile in tiles:
                if self.used[tile] < row:
                    self.holes = (*self.holes, (tile, self.used[tile], row - self.used[tile]))
                self.used[tile] = row + words
                pieces.append(Piece(tile, row, words, self.groups))
            self.groups += 1
        return pieces
