"""Where parameters live: rows of wide memory on tiles, or the stream of every inference.

Every tile has its own wide memory. Parameters grow from row 0 upwards; staging rows and partial
sums are reserved at the top. Operands that are placed stay on the chip from inference to inference
(cached); the others are sent again with every inference (streamed).

What is cached is chosen so that the fewest bytes are streamed. Models that share the chip take
their rows one after another, the first one first, as the vendor's compiler documents it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import CapacityError, UsageError
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.parameters import BLOB_ALIGNMENT, Layout

TILES = BEAGLE.tiles.count
"""Tiles of the chip."""

WIDE_ROWS = BEAGLE.memories.wide.elements
"""Rows of wide memory of a tile."""

LANE_BYTES = BEAGLE.compute.multipliers
"""Bytes of a lane in a row, one for each of its multipliers."""

ROW_LANES = BEAGLE.compute.lanes
"""Lanes of a whole row."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Parameters of one layer.

    Attributes:
        name: name for messages.
        kind: how it is used.
        size: bytes in the blob, a multiple of 64.
        words: rows of wide memory that a block takes, prefix words included.
        lanes: lanes of a row, 64 for packed operands.
        prefix_words: words of scales, biases and zero points of a block.
        blocks: blocks of output channels; 1 unless fully connected.
    """

    name: str
    kind: OperandKind
    size: int
    words: int
    lanes: int
    prefix_words: int = 0
    blocks: int = 1

    def __post_init__(self) -> None:
        if self.size <= 0 or self.size % BLOB_ALIGNMENT:
            raise UsageError(
                f"operand {self.name} of {self.size} bytes", reason="sizes are multiples of 64"
            )
        if not (0 < self.lanes <= ROW_LANES and self.lanes * LANE_BYTES % BLOB_ALIGNMENT == 0):
            raise UsageError(
                f"operand {self.name} of {self.lanes} lanes", reason="rows have 16, 32, 48 or 64"
            )
        if self.blocks < 1 or (self.blocks > 1 and self.kind is not OperandKind.FULLY_CONNECTED):
            raise UsageError(
                f"operand {self.name} of {self.blocks} blocks",
                reason="only blocks of fully connected layers have places of their own",
            )
        if self.words_of(self.size // BLOB_ALIGNMENT) != self.rows or self.size % self.blocks:
            raise UsageError(
                f"operand {self.name} of {self.rows} rows of {self.lanes} lanes",
                reason=f"it has {self.size} bytes",
            )
        if not 0 <= self.prefix_words < self.words:
            raise UsageError(
                f"operand {self.name} of {self.prefix_words} prefix words",
                reason=f"a block has {self.words} words",
            )

    @classmethod
    def of(cls, name: str, kind: OperandKind, layout: Layout) -> Operand:
        """The operand of a parameter layout.

        Args:
            name: name for messages.
            kind: how the layer uses it; layouts of four lanes are packed in any case.
            layout: its words.

        Raises:
            UsageError: a fully connected layer with words of four lanes.
        """
        prefix = int(getattr(layout, "prefix_words", 0))
        if layout.words_per_row > 1:
            if kind is OperandKind.FULLY_CONNECTED:
                raise UsageError(f"operand {name} is fully connected", reason="it has 4 lanes")
            return cls(name, OperandKind.PACKED, layout.nbytes, layout.rows, ROW_LANES)
        blocks = 1
        if kind is OperandKind.FULLY_CONNECTED:
            blocks = int(getattr(layout, "blocks", 1))
        return cls(name, kind, layout.nbytes, layout.rows // blocks, layout.lanes, prefix, blocks)

    @property
    def rows(self) -> int:
        """Rows of wide memory of all blocks."""
        return self.words * self.blocks

    @property
    def units(self) -> int:
        """Units of 64 bytes in the blob."""
        return self.size // BLOB_ALIGNMENT

    def words_of(self, units: int) -> int:
        """Rows that units of the blob fill; the last one perhaps not to the end."""
        return segment_words(units, self.lanes)


def segment_words(units: int, lanes: int) -> int:
    """Rows of `lanes` lanes that units of 64 bytes fill, the last one perhaps not to the end."""
    return -(-units * BLOB_ALIGNMENT // (LANE_BYTES * lanes))


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of an operand's words in consecutive rows of one tile.

    Attributes:
        operand: number of the operand that it belongs to.
        tile: tile that keeps the rows.
        row: first row, that of the prefix where there is one.
        words: rows, prefix words included.
        lanes: lanes of a row.
        position: first unit of 64 bytes in the blob.
        units: units in the blob.
        prefix_words: words of the block's prefix, if the segment is a block of a fully connected
            layer; 0 where the prefix is a part of the words sent to other tiles.
    """

    operand: int
    tile: int
    row: int
    words: int
    lanes: int
    position: int
    units: int
    prefix_words: int = 0

    @property
    def end(self) -> int:
        """First row behind the segment."""
        return self.row + self.words

    @property
    def weights_row(self) -> int:
        """First row behind the prefix: the base of the weights."""
        return self.row + self.prefix_words


@dataclass(frozen=True, slots=True)
class Streamed:
    """An operand that is sent with every inference.

    Attributes:
        operand: number of the operand.
        position: first unit of 64 bytes in the streamed blob.
        units: units.
    """

    operand: int
    position: int
    units: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the parameters of one model live.

    Both blobs hold their operands in the order of the model.

    Attributes:
        operands: the operands, in execution order.
        segments: rows of cached operands, in order of the cached blob.
        streamed: operands of the streamed blob, in its order.
        rows_used: rows of this model on every tile.
    """

    operands: tuple[Operand, ...]
    segments: tuple[Segment, ...]
    streamed: tuple[Streamed, ...]
    rows_used: tuple[int, ...]

    @property
    def cached(self) -> tuple[int, ...]:
        """Numbers of the cached operands."""
        return tuple(dict.fromkeys(segment.operand for segment in self.segments))

    @property
    def cached_bytes(self) -> int:
        """Size of the cached blob."""
        return sum(segment.units for segment in self.segments) * BLOB_ALIGNMENT

    @property
    def streamed_bytes(self) -> int:
        """Size of the streamed blob."""
        return sum(item.units for item in self.streamed) * BLOB_ALIGNMENT

    def of(self, operand: int) -> tuple[Segment, ...]:
        """Segments of an operand, empty if it is streamed."""
        return tuple(segment for segment in self.segments if segment.operand == operand)


def place(
    models: Sequence[Sequence[Operand]],
    *,
    reserved: int | Sequence[int] = 0,
    streaming: bool = True,
    rows: int = WIDE_ROWS,
    tiles: int = TILES,
) -> list[Placement]:
    """Place the parameters of models that share a chip.

    Models take rows in their order: what the first one needs, the others cannot have. A model
    caches the operands that leave the fewest bytes to stream; among equals, the earlier ones.
    Fully connected blocks are placed first, because their tiles are fixed; then the other operands,
    the largest first, each on the tile with the most free rows, or from there on over as many
    tiles as it needs. Equal requests give equal placements.

    Args:
        models: operands of every model, in execution order.
        reserved: rows that programs need at the top of every tile, or of each tile.
        streaming: whether operands may be streamed.
        rows: rows of wide memory per tile.
        tiles: tiles of the chip.

    Returns:
        A placement for every model; their rows are disjoint.

    Raises:
        CapacityError: the reserved rows exceed a tile, or parameters that may not be streamed
            exceed the free rows.
        UsageError: reserved rows are not stated for every tile.
    """
    top = [reserved] * tiles if isinstance(reserved, int) else list(reserved)
    if len(top) != tiles or min(top) < 0:
        raise UsageError(
            f"reserved rows {top}", reason=f"expected one number for each of {tiles} tiles"
        )
    if max(top) > rows:
        raise CapacityError(
            f"a program needs {max(top)} rows of wide memory on a tile",
            reason=f"a tile has {rows}",
            hint="use smaller chunks of weights or fewer partial sums",
        )
    used = [0] * tiles
    limit = [rows - count for count in top]
    placements = []
    for number, operands in enumerate(models):
        where = f"model {number}" if len(models) > 1 else ""
        placement = _place_model(operands, used, limit, streaming, where)
        placements.append(placement)
        used = [now + more for now, more in zip(used, placement.rows_used, strict=True)]
    return placements


_Run = tuple[int, int, int]


def _place_model(
    operands: Sequence[Operand],
    used: Sequence[int],
    limit: Sequence[int],
    streaming: bool,
    where: str,
) -> Placement:
    """Place one model between the rows in use and the reserved ones."""
    runs = _choose(operands, used, limit)
    missing = [index for index in range(len(operands)) if index not in runs]
    if missing and not streaming:
        free = [most - count for most, count in zip(limit, used, strict=True)]
        raise _too_large(operands, missing, free, where)
    segments = []
    rows_used = [0] * len(used)
    position = 0
    for index, parts in runs.items():
        operand = operands[index]
        prefix = operand.prefix_words if operand.kind is OperandKind.FULLY_CONNECTED else 0
        left = operand.units
        for tile, row, words in parts:
            units = min(left, words * operand.lanes * LANE_BYTES // BLOB_ALIGNMENT)
            segments.append(
                Segment(index, tile, row, words, operand.lanes, position, units, prefix)
            )
            rows_used[tile] += words
            position += units
            left -= units
    streamed = []
    position = 0
    for index in missing:
        streamed.append(Streamed(index, position, operands[index].units))
        position += operands[index].units
    return Placement(tuple(operands), tuple(segments), tuple(streamed), tuple(rows_used))


def _blocks(operand: Operand, tiles: int) -> Iterator[tuple[int, int]]:
    """Tiles of a fully connected operand, each with its number of blocks."""
    for tile in range(min(tiles, operand.blocks)):
        yield tile, -(-(operand.blocks - tile) // tiles)


def _choose(
    operands: Sequence[Operand], used: Sequence[int], limit: Sequence[int]
) -> dict[int, list[_Run]]:
    """Runs of the operands to cache, which are those that leave the fewest bytes to stream.

    Packed operands do not come in parts. They are chosen as if they did; those for which no tile
    then has room are left out, one after another.
    """
    free = [most - count for most, count in zip(limit, used, strict=True)]
    # Fully connected blocks compete for rows of their tiles before anything else does.
    room = list(free)
    candidates = []
    for index in sorted(range(len(operands)), key=lambda index: (-operands[index].size, index)):
        operand = operands[index]
        if operand.kind is OperandKind.FULLY_CONNECTED:
            need = {tile: count * operand.words for tile, count in _blocks(operand, len(free))}
            if any(room[tile] < count for tile, count in need.items()):
                continue
            for tile, count in need.items():
                room[tile] -= count
        candidates.append(index)
    candidates.sort()
    while True:
        chosen = _best_subset([operands[index] for index in candidates], sum(free))
        runs = _allocate(operands, [candidates[number] for number in chosen], used, limit)
        stranded = [index for index, parts in runs.items() if not parts]
        if not stranded:
            return runs
        candidates.remove(stranded[0])


def _best_subset(operands: Sequence[Operand], rows: int) -> list[int]:
    """Operands with the most bytes in all that fit a number of rows: a knapsack, exactly."""
    if sum(operand.rows for operand in operands) <= rows:
        return list(range(len(operands)))
    # best[r] is the most that the operands seen so far bring in r rows. Starting with the last one
    # and taking an operand when it does not make things worse prefers the earlier ones.
    best = np.zeros(rows + 1, np.int64)
    takes = []
    for operand in reversed(operands):
        taken = np.full(rows + 1, -1, np.int64)
        if operand.rows <= rows:
            taken[operand.rows :] = best[: rows + 1 - operand.rows] + operand.size
        takes.append(taken >= best)
        best = np.maximum(best, taken)
    chosen = []
    for index, (operand, take) in enumerate(zip(operands, reversed(takes), strict=True)):
        if take[rows]:
            chosen.append(index)
            rows -= operand.rows
    return chosen


_RANK = {OperandKind.FULLY_CONNECTED: 0, OperandKind.PACKED: 1, OperandKind.CONVOLUTION: 2}
"""Operands with fixed tiles come first, then those that do not come in parts."""


def _allocate(
    operands: Sequence[Operand],
    cached: Sequence[int],
    used: Sequence[int],
    limit: Sequence[int],
) -> dict[int, list[_Run]]:
    """Runs (tile, first row, rows) of every cached operand; none if no tile has room for it."""
    runs: dict[int, list[_Run]] = {index: [] for index in cached}
    next_row = list(used)

    def take(index: int, tile: int, words: int) -> None:
        runs[index].append((tile, next_row[tile], words))
        next_row[tile] += words

    for index in sorted(
        cached, key=lambda index: (_RANK[operands[index].kind], -operands[index].rows, index)
    ):
        operand = operands[index]
        if operand.kind is OperandKind.FULLY_CONNECTED:
            for block in range(operand.blocks):
                take(index, block % len(limit), operand.words)
            continue
        left = operand.rows
        while left:
            tile = max(range(len(limit)), key=lambda tile: (limit[tile] - next_row[tile], -tile))
            words = min(left, limit[tile] - next_row[tile])
            if operand.kind is OperandKind.PACKED and words < left:
                break
            take(index, tile, words)
            left -= words
    return runs


def _too_large(
    operands: Sequence[Operand], missing: Sequence[int], free: Sequence[int], where: str
) -> CapacityError:
    """The error for operands that fit nowhere and may not be streamed."""
    need = sum(operand.rows for operand in operands)
    names = ", ".join(operands[index].name for index in missing[:4])
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    if need > sum(free):
        reason = f"{need} rows are needed, {sum(free)} are free"
    else:
        largest = max((operands[index] for index in missing), key=lambda operand: operand.words)
        reason = f"{largest.words} rows are needed on one tile, {max(free)} are free"
    return CapacityError(
        f"parameters do not fit wide memory: {names}{more}",
        reason=reason,
        where=where,
        hint="allow streaming, link fewer models together, or use a smaller model",
    )
