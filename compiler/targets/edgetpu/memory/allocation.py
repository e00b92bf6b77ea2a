"""Which rows of wide memory do parameters get, and which bytes of narrow memory do tensors get?

`allocate_narrow` finds addresses for tensors with live ranges, so that tensors that are live at
the same time are disjoint. `WideRows` hands out rows of every tile. Neither decides what has to
fit: `fitting` does, and asks again with less if there is no room (`NoRoom`, `NoRows`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from random import Random

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, Placed
from fitzroy.hw_models.chips.beagle import BEAGLE

_UNUSED_BYTES = 16
"""Bytes at the top of narrow memory that stay free. No published program uses the last three words,
and addresses of 16 bytes keep what lies below them aligned."""

NARROW_BYTES = BEAGLE.memories.narrow.size - _UNUSED_BYTES
"""Bytes of narrow memory that programs use."""

WIDE_ROWS = BEAGLE.memories.wide.elements


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A tensor for which narrow memory has no room.

    Attributes:
        tensor: the tensor.
        free: bytes where it could begin.
        nbytes: bytes of narrow memory.
    """

    tensor: Placed
    free: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where tensors lie in narrow memory.

    Attributes:
        bases: byte address of every tensor.
        used: bytes used from the bottom.
    """

    bases: Mapping[Placed, int]
    used: int

    def changes(self) -> dict[Placed, Placed]:
        """The tensors with their addresses."""
        return {tensor: replace(tensor, base=base) for tensor, base in self.bases.items()}


@dataclass(frozen=True, slots=True)
class Overlap:
    """Where a tensor may lie over another one, although both live.

    Attributes:
        tensor: the other one.
        below: it may begin no more than so many bytes after the other.
        above: or so many bytes after it, or further.
    """

    tensor: Placed
    below: int
    above: int


@dataclass(frozen=True, slots=True)
class Live:
    """A tensor and the steps in which it is in narrow memory.

    Attributes:
        tensor: the tensor.
        begin: step that writes it.
        end: last step that reads it.
        overlap: a tensor that it may lie over.
    """

    tensor: Placed
    begin: int
    end: int
    overlap: Overlap | None = None

    def refuses(self, other: Live, base: int) -> tuple[int, int]:
        """Between which addresses another tensor must not begin; it may begin at both of them.

        Args:
            other: the other tensor.
            base: where this one begins.
        """
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
) -> Addresses | NoRoom:
    """Addresses of tensors, one after the other, each the lowest that is free while it lives.

    Some orders are tried until all tensors fit. In each, what does not fit comes first the next
    time, for a while. If no order helps, tensors for which there is no room take that of others.

    Args:
        lives: the tensors.
        reserved: for each step, bytes at the top that it uses for itself; none of further steps.
        nbytes: bytes of narrow memory.

    Returns:
        What did not fit the first time if they never do.
    """
    items = list(lives)
    first: NoRoom | None = None
    for order in _ORDERS:
        queue = sorted(items, key=order)
        for _ in range(_RETRIES):
            found = _allocated(queue, reserved, nbytes)
            if isinstance(found, Addresses):
                return found
            left, error = found
            first = first or error
            queue.remove(left)
            queue.insert(0, left)
    assert first is not None
    if _demand(items, reserved) > nbytes:
        return first
    searches = (_rearranged(items, reserved, nbytes, seed) for seed in range(_SEARCHES))
    return next((found for found in searches if found is not None), first)


_RETRIES = 8


_ORDERS: tuple[Callable[[Live], tuple[int, int]], ...] = (
    lambda live: (-live.tensor.nbytes, live.begin),
    lambda live: (live.begin - live.end, -live.tensor.nbytes),
    lambda live: (live.begin, -live.tensor.nbytes),
)
"""The largest first; those that live longest; those that are written first."""


def _allocated(
    lives: Sequence[Live], reserved: Sequence[int], nbytes: int
) -> Addresses | tuple[Live, NoRoom]:
    """Addresses of tensors, in order; the first one that does not fit, if any."""
    # First and last step, first byte and the one after the last of what has been placed.
    placed = np.empty((4, len(lives)), np.int64)
    numbers: dict[Placed, int] = {}
    bases: dict[Placed, int] = {}
    used, relatives = 0, _relatives(lives)
    for number, live in enumerate(lives):
        tensor, size = live.tensor, live.tensor.nbytes
        begin, end, first, after = placed[:, :number]
        low, high = first - size, after.copy()
        for other in relatives.get(tensor, ()):
            place = numbers.get(other.tensor)
            if place is not None:
                low[place], high[place] = other.refuses(live, bases[other.tensor])
        there = (begin <= live.end) & (live.begin <= end)
        base = _lowest(low[there], high[there])
        limit = nbytes - max(reserved[live.begin : live.end + 1], default=0)
        if base + size > limit:
            return live, NoRoom(tensor, limit - base, nbytes)
        bases[tensor], numbers[tensor], used = base, number, max(used, base + size)
        placed[:, number] = live.begin, live.end, base, base + size
    return Addresses(bases, used)


_LONG_ORDERS: tuple[Callable[[Live], tuple[int, int]], ...] = (
    lambda live: ((live.begin - live.end - 1) * live.tensor.nbytes, live.begin),
    _ORDERS[1],
)
"""Those first that take the most bytes for the longest, or that live longest: short-lived tensors
find gaps between them, or move a few of them."""

_SEARCHES = 6
"""Searches at most; each begins anew."""

_MOVES = 1000
"""How often tensors take the room of others in a search."""

_INSISTENCE = 1.2
"""Factor of the weight of a tensor that has taken the room of others."""

_NOISE = 0.3
"""Largest share by which a place may seem worse than it is."""

_NOWHERE = -1
"""Address of a tensor that has none."""


def _rearranged(
    lives: Sequence[Live], reserved: Sequence[int], nbytes: int, seed: int
) -> Addresses | None:
    """Addresses of tensors that take the room of others, which look for another then.

    Searches that find something mostly find it early.

    Args:
        lives: the tensors.
        reserved: as for `allocate_narrow`.
        nbytes: bytes of narrow memory.
        seed: which search it is; others take other turns.
    """
    order = _LONG_ORDERS[seed % len(_LONG_ORDERS)]
    contest = _Contest.of(sorted(lives, key=order), reserved, nbytes, Random(seed))
    # Those that have no address; the first in the order comes first.
    left = list(range(len(lives)))
    while left and contest.moves < _MOVES:
        for loser in contest.settle(heappop(left)):
            heappush(left, loser)
    return None if left else contest.addresses()


@dataclass(slots=True)
class _Contest:
    """Tensors with and without addresses, which take the room of each other.

    Attributes:
        lives: the tensors.
        noise: makes places seem worse than they are.
        relatives: tensors that each may overlap.
        numbers: the number of each tensor.
        begin: first step of each tensor, int64[tensors].
        end: last step of each tensor, int64[tensors].
        size: bytes of each tensor, int64[tensors].
        most: highest address of each tensor, int64[tensors].
        bases: address of each tensor, or `_NOWHERE`, int64[tensors].
        weights: what it costs to take the room of each tensor, float64[tensors].
        moves: how often a tensor has taken the room of others.
    """

    lives: Sequence[Live]
    noise: Random
    relatives: Mapping[Placed, Sequence[Live]]
    numbers: Mapping[Placed, int]
    begin: Array
    end: Array
    size: Array
    most: Array
    bases: Array
    weights: Array
    moves: int = 0

    @classmethod
    def of(
        cls, lives: Sequence[Live], reserved: Sequence[int], nbytes: int, noise: Random
    ) -> _Contest:
        """Tensors of which none has an address."""
        begin, end, size = np.array([(x.begin, x.end, x.tensor.nbytes) for x in lives], np.int64).T
        own = [max(reserved[live.begin : live.end + 1], default=0) for live in lives]
        return cls(
            lives,
            noise,
            _relatives(lives),
            {live.tensor: number for number, live in enumerate(lives)},
            begin,
            end,
            size,
            nbytes - size - own,
            np.full(len(lives), _NOWHERE),
            size.astype(float),
        )

    def settle(self, number: int) -> list[int]:
        """Give a tensor an address; returns the numbers of those that lose theirs.

        If there is no room, it goes where those in its way have the fewest bytes, or almost so.
        Each time its own bytes count more, so that no two tensors take turns for ever.
        """
        others, low, high = self._bounds(number)
        places = np.unique(np.concatenate([low, high, [0, self.most[number]]]))
        places = places[(places >= 0) & (places <= self.most[number])]
        refused = (low < places[:, None]) & (places[:, None] < high)
        costs = refused @ self.weights[others]
        if costs.all():
            costs *= [1 + _NOISE * self.noise.random() for _ in places]
            self.moves += 1
            self.weights[number] *= _INSISTENCE
        best = int(costs.argmin())
        self.bases[number] = places[best]
        losers: list[int] = others[refused[best]].tolist()
        self.bases[losers] = _NOWHERE
        return losers

    def _bounds(self, number: int) -> tuple[Array, Array, Array]:
        """Between which addresses a tensor must not begin, because of others that have theirs.

        Returns:
            Numbers of the others, and the bounds for each, at which it may begin.
        """
        together = (self.begin <= self.end[number]) & (self.end >= self.begin[number])
        others = np.flatnonzero((self.bases != _NOWHERE) & together)
        low = self.bases[others] - self.size[number]
        high = self.bases[others] + self.size[others]
        for other in self.relatives.get(self.lives[number].tensor, ()):
            for place in np.flatnonzero(others == self.numbers[other.tensor]):
                base = int(self.bases[others[place]])
                low[place], high[place] = other.refuses(self.lives[number], base)
        return others, low, high

    def addresses(self) -> Addresses:
        """The addresses, if all tensors have theirs."""
        found = {live.tensor: int(base) for live, base in zip(self.lives, self.bases, strict=True)}
        return Addresses(found, int((self.bases + self.size).max()))


def held(lives: Iterable[Live], steps: int) -> Array:
    """Bytes of all tensors that live in each step, int64[steps]; further steps do not count."""
    change = np.zeros(steps + 1, np.int64)
    for live in lives:
        change[min(live.begin, steps)] += live.tensor.nbytes
        change[min(live.end + 1, steps)] -= live.tensor.nbytes
    return change[:-1].cumsum()


def _demand(lives: Sequence[Live], reserved: Sequence[int]) -> int:
    """Bytes that tensors take in any step at least, with what the step uses for itself."""
    taken = held(lives, max(len(reserved), 1 + max(live.end for live in lives)))
    taken[: len(reserved)] += np.array(reserved, np.int64)
    of = {live.tensor: live for live in lives}
    for live in lives:
        if live.overlap is not None:
            # They may lie over each other.
            other = of[live.overlap.tensor]
            both = slice(max(live.begin, other.begin), min(live.end, other.end) + 1)
            taken[both] -= min(live.tensor.nbytes, other.tensor.nbytes)
    return int(taken.max())


def _lowest(low: Array, high: Array) -> int:
    """The lowest address, from 0 on, that lies between none of some bounds."""
    order = np.argsort(low, kind="stable")
    # After all that begins before a gap.
    bases = np.append(0, np.maximum.accumulate(high[order])).clip(0)
    free = np.flatnonzero(bases[:-1] <= low[order])
    return int(bases[free[0]] if len(free) else bases[-1])


def _relatives(lives: Iterable[Live]) -> dict[Placed, list[Live]]:
    """For tensors that may overlap others, which these are."""
    items = list(lives)
    of = {live.tensor: live for live in items}
    found: dict[Placed, list[Live]] = {}
    for live in items:
        if live.overlap is not None:
            other = of[live.overlap.tensor]
            found.setdefault(live.tensor, []).append(other)
            found.setdefault(other.tensor, []).append(live)
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


@dataclass(frozen=True, slots=True)
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

    used: tuple[int, ...] = (0,) * TILES
    limit: int = WIDE_ROWS
    groups: int = 0
    holes: tuple[tuple[int, int, int], ...] = ()
    level: bool = False

    def anywhere(
        self,
        words: int,
        *,
        whole: bool = False,
        most: int = WIDE_ROWS,
        apart: Iterable[int] | None = None,
    ) -> Taken | NoRows:
        """Rows for words that their owner sends, in the smallest hole or on the emptiest tiles.

        Args:
            words: how many rows.
            whole: whether one tile must have all of them.
            most: rows of a piece, at most.
            apart: tiles that must not have any of them, if every piece must be on another tile.
        """
        rows, pieces, left = self, list[Piece](), words
        avoided = set[int]() if apart is None else set(apart)
        while left:
            # Half of the tiles are for what is sent at the same time.
            share = 0 if apart is None else -(-left // max(1, TILES // 2 - len(pieces)))
            piece = rows._piece(left, left if whole else most, avoided, share, whole=whole)
            if apart is not None:
                avoided.add(piece.tile)
            if piece.words <= 0 or (whole and piece.words < left):
                return NoRows(left, f"{self.limit} rows of every tile are for parameters", rows)
            rows, left = rows._without(piece), left - piece.words
            pieces.append(piece)
        return Taken(tuple(pieces), rows)

    def _piece(
        self, words: int, most: int, avoided: Container[int], share: int, *, whole: bool
    ) -> Piece:
        """Where the first words had best lie; none if nothing is free."""
        tile, row, room = self._room(words, avoided)
        if self.level and not whole and row == self.used[tile]:
            mean = -(-(sum(self.used) + words) // TILES)
            room = min(room, max(mean - row, _LEAST_ROWS, share))
        return Piece(tile, row, min(words, room, most), self.groups)

    def _without(self, piece: Piece) -> WideRows:
        """What is left when a piece is taken of the room where it begins."""
        groups = self.groups + 1
        if piece.row == self.used[piece.tile]:
            return replace(self, used=_raised(self.used, [piece]), groups=groups)
        place = piece.tile, piece.row
        holes = tuple(
            (piece.tile, piece.row + piece.words, hole[2] - piece.words)
            if hole[:2] == place
            else hole
            for hole in self.holes
        )
        return replace(self, holes=holes, groups=groups)

    def _room(self, words: int, avoided: Container[int]) -> tuple[int, int, int]:
        """Where words had best begin: tile, first row, number of rows that are free there."""
        holes = [hole for hole in self.holes if hole[0] not in avoided]
        fits = [hole for hole in holes if hole[2] >= words]
        if fits:
            return min(fits, key=lambda hole: (hole[2], hole))
        tiles = [tile for tile in range(TILES) if tile not in avoided]
        if not tiles:
            return 0, 0, 0
        tile = min(tiles, key=lambda candidate: self.used[candidate])
        above = (tile, self.used[tile], self.limit - self.used[tile])
        # The largest hole takes a part of what is too much for all tiles.
        return max([above, *holes], key=lambda room: room[2]) if above[2] <= 0 else above

    def origin(self, count: int) -> int:
        """The tile from which on so many tiles have most room for blocks."""
        return min(
            range(TILES),
            key=lambda first: max(
                self.used[(first + block) % TILES] for block in range(min(count, TILES))
            ),
        )

    def blocks(self, words: int, count: int, origin: int = 0) -> Taken | NoRows:
        """Rows for blocks that tiles read in place: block b on tile b + origin, mod 16.

        Blocks of one pass over the tiles have the same rows on all of them.
        """
        rows, pieces = self, list[Piece]()
        for first in range(0, count, TILES):
            tiles = [(origin + block) % TILES for block in range(min(TILES, count - first))]
            row = max(rows.used[tile] for tile in tiles)
            if row + words > self.limit:
                free = f"{self.limit - row} rows are free on all of {len(tiles)} tiles"
                return NoRows(words, free, rows)
            own = [Piece(tile, row, words, rows.groups) for tile in tiles]
            holes = [
                (tile, rows.used[tile], row - rows.used[tile])
                for tile in tiles
                if rows.used[tile] < row
            ]
            rows = replace(
                rows,
                used=_raised(rows.used, own),
                holes=(*rows.holes, *holes),
                groups=rows.groups + 1,
            )
            pieces += own
        return Taken(tuple(pieces), rows)


def _raised(used: Sequence[int], pieces: Iterable[Piece]) -> tuple[int, ...]:
    """Rows taken on each tile, with pieces above them."""
    ends = {piece.tile: piece.row + piece.words for piece in pieces}
    return tuple(ends.get(tile, rows) for tile, rows in enumerate(used))


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows that an operand has got.

    Attributes:
        pieces: the rows.
        rows: what is left.
    """

    pieces: tuple[Piece, ...]
    rows: WideRows


@dataclass(frozen=True, slots=True)
class NoRows:
    """Words of parameters for which there are no rows.

    Attributes:
        words: how many words.
        reason: how many rows there are.
        rows: what is left; the words before these have got rows.
    """

    words: int
    reason: str
    rows: WideRows
