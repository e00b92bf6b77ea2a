"""Where do tensors lie on the grid of tiles?

Every tile owns a rectangle of an image and keeps a window of it. The window is the hull of what
the tile owns and of what its part of every consumer's result reads, borders of padding included.
Rectangles of some images overlap: they have the same size on all tiles, which then execute the same
instructions, and elements that two tiles own are computed by both.
Channels are padded to whole words. Vectors, 1 x 1 x C, are split into blocks of 64 channels on
consecutive tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import starmap

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.output_layouts import even_parts

ROWS = BEAGLE.tiles.rows
COLUMNS = BEAGLE.tiles.columns
TILES = BEAGLE.tiles.count
EVERY = (1 << TILES) - 1
LANES = BEAGLE.compute.lanes
WORD = BEAGLE.memories.narrow.element_bytes

Interval = tuple[int, int]
"""Begin and end; empty if they are equal."""

Intervals = tuple[Interval, ...]
"""Of every tile along an axis."""

_AXES = 1 << 14
"""Divisions of axes that are remembered: the same ones are asked for again and again while a
program is made to fit."""


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


@lru_cache(_AXES)
def grids(count: int) -> tuple[tuple[int, int], ...]:
    """Rows and columns of so many positions, those first that leave the fewest to any tile."""
    options = [(rows, count // rows) for rows in range(1, count + 1) if count % rows == 0]
    return tuple(sorted(options, key=lambda one: (-(-one[0] // ROWS) * -(-one[1] // COLUMNS), one)))


def grid(count: int) -> tuple[int, int]:
    """Rows and columns of so many positions that leave the fewest to any tile."""
    return grids(count)[0]


@lru_cache(_AXES)
def split(extent: int, parts: int) -> Intervals:
    """Parts of an axis that is split evenly over rows or columns of tiles."""
    return even_parts(extent, parts)


@lru_cache(_AXES)
def alike(extent: int, parts: int) -> Intervals:
    """Parts of an axis that all have the size of the largest part of `split`.

    Neighbours overlap where the axis does not divide evenly. An axis with no more elements than
    parts is split as usual: further parts would only repeat others.
    """
    if extent <= parts:
        return split(extent, parts)
    size = -(-extent // parts)
    begins = [-(-(extent - size) * part // (parts - 1)) for part in range(parts)]
    return tuple((begin, begin + size) for begin in begins)


@dataclass(frozen=True, slots=True)
class Within:
    """How the elements of an interval are divided evenly; no tile has the others of the axis.

    Attributes:
        interval: the interval.
    """

    interval: Interval

    def __call__(self, extent: int, parts: int) -> Intervals:
        """Parts of the interval along an axis of so many elements."""
        begin, end = self.interval
        return tuple((begin + first, begin + last) for first, last in split(end - begin, parts))


Division = Callable[[int, int], Intervals]
"""How an axis of so many elements is divided over so many rows or columns of tiles."""


def hull(intervals: Iterable[Interval]) -> Interval:
    """The smallest interval that contains some; empty ones do not count."""
    real = [(begin, end) for begin, end in intervals if begin < end]
    if not real:
        return (0, 0)
    return min(begin for begin, _ in real), max(end for _, end in real)


def between(one: Interval, other: Interval) -> Interval | None:
    """What lies between two intervals; None if they meet, or if one of them is empty."""
    if one[0] >= one[1] or other[0] >= other[1]:
        return None
    (_, begin), (end, _) = sorted([one, other])
    return (begin, end) if begin < end else None


@dataclass(frozen=True, slots=True)
class Window:
    """What an operator reads along one axis to compute an interval of its result.

    Attributes:
        kernel: extent of the window, in elements.
        stride: distance of windows.
        dilation: distance of the elements of a window.
        before: elements of padding in front of the first.
        phases: distance of the results that there are windows for.
        phase: the first of these results, less than `phases`.
    """

    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    phases: int = 1
    phase: int = 0

    def numbers(self, interval: Interval) -> Interval:
        """Numbers of the windows whose results lie in an interval."""
        begin, end = interval
        phases, phase = self.phases, self.phase
        return -((phase - begin) // phases), -((phase - end) // phases)

    def needs(self, interval: Interval) -> Interval:
        """Elements that an interval of the result reads; may lie outside of the image."""
        begin, end = self.numbers(interval)
        if begin >= end:
            return (0, 0)
        first = begin * self.stride - self.before
        return first, (end - 1) * self.stride - self.before + (self.kernel - 1) * self.dilation + 1


@lru_cache(1 << 16)
def needs_of(window: Window, intervals: Intervals) -> Intervals:
    """Elements that each of some intervals of the result reads; may lie outside of the image."""
    return tuple(map(window.needs, intervals))


@dataclass(frozen=True, slots=True)
class TiledAxis:
    """One axis of an image on the tiles along it.

    Attributes:
        extent: elements.
        owned: what each tile computes; neighbours may compute the same elements.
        window: what each tile keeps.
        slack: elements after the largest window that operators may write over.
        gaps: of each window, what lies between what its tile owns and what it reads, or None if
            these meet; nobody reads it. Empty if all meet.
    """

    extent: int
    owned: Intervals
    window: Intervals
    slack: int = 0
    gaps: tuple[Interval | None, ...] = ()

    @classmethod
    def of(
        cls,
        extent: int,
        parts: int,
        needs: Iterable[Intervals],
        division: Division = split,
    ) -> TiledAxis:
        """An axis that is divided, with windows for what consumers need on each tile."""
        return _tiled(extent, parts, tuple(needs), division)

    @property
    def exchanged(self) -> bool:
        """Whether tiles keep anything that they do not own."""
        return any(
            begin < end and not (first <= begin and end <= last)
            for (begin, end), (first, last) in zip(self.window, self.owned, strict=True)
        )

    @property
    def most(self) -> int:
        """Extent of the largest window, with the slack."""
        return max([end - begin for begin, end in self.window]) + self.slack

    def with_most(self, most: int) -> TiledAxis:
        """The axis with slack added until its largest window has so many elements."""
        return replace(self, slack=self.slack + max(0, most - self.most))


@lru_cache(_AXES)
def _tiled(extent: int, parts: int, needs: tuple[Intervals, ...], division: Division) -> TiledAxis:
    """See `TiledAxis.of`."""
    owned = division(extent, parts)
    read = [hull([need[part] for need in needs]) for part in range(parts)]
    window = tuple(hull(both) for both in zip(owned, read, strict=True))
    gaps = tuple(starmap(between, zip(owned, read, strict=True)))
    return TiledAxis(extent, owned, window, gaps=gaps if any(gaps) else ())


def most_windows(window: Window, axis: TiledAxis) -> int:
    """Windows whose results a tile owns, at most."""
    return max([end - begin for begin, end in map(window.numbers, axis.owned)])


@dataclass(frozen=True, slots=True)
class Cover:
    """Words of a tensor on a tile.

    Attributes:
        base: byte address of the first.
        dims: count and stride in bytes of three loops, innermost first.
    """

    base: int
    dims: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]

    @property
    def words(self) -> int:
        """Number of words."""
        return self.dims[0][0] * self.dims[1][0] * self.dims[2][0]


LEAST = 0
"""The least byte as it is stored, unsigned."""


@dataclass(frozen=True, eq=False, slots=True)
class Image:
    """A tensor of rows, columns and channels in narrow memory.

    Attributes:
        name: name of the tensor.
        rows: along the rows of the grid.
        columns: along its columns.
        channels: channels.
        zero_point: stored value of zero, unsigned.
        base: byte address of the window's first element, on every tile; -1 before it has one.
        compared: whether only maxima read beyond its border.
    """

    name: str
    rows: TiledAxis
    columns: TiledAxis
    channels: int
    zero_point: int
    base: int = -1
    compared: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        shape: Sequence[int],
        zero_point: int = 0,
        read: tuple[Sequence[Intervals], Sequence[Intervals]] = ((), ()),
    ) -> Image:
        """An image [1,h,w,c] that tiles divide evenly.

        Args:
            name: name of the tensor.
            shape: its shape.
            zero_point: stored value of zero, unsigned.
            read: what tiles read of its rows, and of its columns, beside what they own.
        """
        _, height, width, channels = shape
        rows, columns = read
        return cls(
            name,
            TiledAxis.of(height, ROWS, rows),
            TiledAxis.of(width, COLUMNS, columns),
            channels,
            zero_point,
        )

    @property
    def border(self) -> int:
        """Stored value that surrounds it, unsigned: zero, or the least byte for maxima."""
        return LEAST if self.compared else self.zero_point

    @property
    def depth(self) -> int:
        """Bytes of a pixel: its channels, filled up to words."""
        return round_up(self.channels, WORD)

    @property
    def pitch(self) -> int:
        """Bytes of a row of the window."""
        return self.depth * self.columns.most

    @property
    def nbytes(self) -> int:
        """Bytes that the window takes on every tile."""
        return self.pitch * self.rows.most

    @property
    def shape(self) -> tuple[TiledAxis, TiledAxis, int]:
        """Its layout, without name, zero point and address."""
        return self.rows, self.columns, self.channels

    def owned(self, tile: int) -> tuple[Interval, Interval]:
        """Rows and columns that a tile owns."""
        row, column = divmod(tile, COLUMNS)
        return self.rows.owned[row], self.columns.owned[column]

    def area(self, tile: int) -> tuple[int, int]:
        """Number of rows and columns that a tile owns."""
        (top, bottom), (left, right) = self.owned(tile)
        return bottom - top, right - left

    def active(self, tile: int) -> bool:
        """Whether a tile owns anything."""
        return all(self.area(tile))

    def window(self, tile: int) -> tuple[Interval, Interval]:
        """Rows and columns that a tile keeps."""
        row, column = divmod(tile, COLUMNS)
        return self.rows.window[row], self.columns.window[column]

    def cover(self, tile: int, area: tuple[Interval, Interval] | None = None) -> Cover | None:
        """The words of some rows and columns of a tile, by default of those that it owns."""
        (top, bottom), (left, right) = area or self.owned(tile)
        height, width = bottom - top, right - left
        if not height * width:
            return None
        return Cover(
            self.address(tile, top, left),
            ((self.depth // WORD, WORD), (width, self.depth), (height, self.pitch)),
        )

    def address(self, tile: int, y: int, x: int, channel: int = 0) -> int:
        """Byte address of an element on a tile; it must lie in the window, or in its padding."""
        (top, _), (left, _) = self.window(tile)
        return self.base + (y - top) * self.pitch + (x - left) * self.depth + channel


class Remote(Image):
    """An image in the host's memory, which takes nothing of the chip's."""

    @property
    def nbytes(self) -> int:
        """No bytes: the host holds it."""
        return 0


@dataclass(frozen=True, eq=False, slots=True)
class Vector:
    """A tensor of channels only, in blocks on consecutive tiles.

    Attributes:
        name: name of the tensor.
        channels: channels.
        zero_point: stored value of zero, unsigned.
        base: byte address of a tile's first block; -1 before it has one.
        first: tile that has the first block.
        filled: whether all blocks have 64 lanes, if there are several; those of the last one after
            its channels have any values.
    """

    name: str
    channels: int
    zero_point: int
    base: int = -1
    first: int = 0
    filled: bool = False

    @property
    def blocks(self) -> int:
        """Number of blocks of 64 channels; the last one may have fewer."""
        return -(-self.channels // LANES)

    @property
    def nbytes(self) -> int:
        """Bytes that the blocks take on every tile."""
        return LANES * -(-self.blocks // TILES)

    @property
    def tiles(self) -> list[int]:
        """Tiles that own at least one block."""
        return [tile for tile in range(TILES) if self.active(tile)]

    def owner(self, block: int) -> int:
        """The tile that has a block."""
        return (self.first + block) % TILES

    def held(self, tile: int) -> list[int]:
        """Numbers of the blocks on a tile."""
        return list(range((tile - self.first) % TILES, self.blocks, TILES))

    def active(self, tile: int) -> bool:
        """Whether a tile owns anything."""
        return bool(self.held(tile))

    def cover(self, tile: int) -> Cover | None:
        """The words that a tile owns; of a short last block, words after its end too."""
        held = self.held(tile)
        if not held:
            return None
        words = self.lanes(held[0]) // WORD
        return Cover(self.base, ((words, WORD), (len(held), LANES), (1, 0)))

    def lanes(self, block: int) -> int:
        """Channels of a block, filled up to words."""
        return min(LANES, round_up(self.channels, WORD) - LANES * block)

    def computed(self, block: int) -> int:
        """Lanes of a block that have values."""
        return LANES if self.filled and self.blocks > 1 else self.lanes(block)


Placed = Image | Vector

Changes = Mapping[Placed, Placed]
"""What tensors become."""

Kept = Sequence[tuple[Image, int]]
"""Parts of an image that tiles have sent to the scratch buffer, and where each part begins."""


def covered(tensor: Placed, result: Placed, tile: int) -> Cover | None:
    """The words of a tensor at the places that a tile owns of a result of the same shape."""
    if isinstance(tensor, Image) and isinstance(result, Image):
        return tensor.cover(tile, result.owned(tile))
    return tensor.cover(tile)
