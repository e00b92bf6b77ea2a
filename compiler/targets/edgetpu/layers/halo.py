"""How do tiles get the parts of an image around what they own?

`exchange` fills the windows of an image over the mesh. First rows go to the tiles above and below,
then columns of all rows of the window, corners included, to those beside. A tile passes on what
tiles further away need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS, WHOLE, Condition, full, once
from fitzroy.compiler.targets.edgetpu.kernels.transfers import exchange_words
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    WORD,
    Image,
    Interval,
    TiledAxis,
    hull,
)
from fitzroy.hw_models.isa.fields import Opcode, TileFlag
from fitzroy.hw_models.isa.mesh import Mesh


@lru_cache(1 << 14)
def relayed(axis: TiledAxis) -> TiledAxis:
    """An axis with windows that also hold what tiles pass on to windows further away."""
    windows = list(axis.window)
    parts = len(windows)
    for part in range(parts - 1, 0, -1):
        if not _some(windows[part]):
            continue
        wanted = _inside((windows[part][0], axis.owned[part][0]), axis)
        windows[part - 1] = hull([windows[part - 1], wanted])
    for part in range(parts - 1):
        if not _some(windows[part]):
            continue
        wanted = _inside((axis.owned[part][1], windows[part][1]), axis)
        windows[part + 1] = hull([windows[part + 1], wanted])
    return replace(axis, window=tuple(windows))


def longest_way(axis: TiledAxis) -> tuple[int, int]:
    """Elements that come over the mesh, one after the other, until every window along it is full.

    A tile passes on what others need once it has all that it takes from the same side.

    Returns:
        Elements that the first tile on the way sends, and those that others pass on.
    """
    whole = relayed(axis)
    parts = range(len(axis.owned))
    longest = 0, 0
    for side, order in ((_before, parts), (_after, parts[::-1])):
        sent, passed, source = 0, 0, (0, 0)
        for part in order:
            begin, end = side(whole, part)
            if begin == end or (source[0] <= begin and end <= source[1]):
                sent, passed = end - begin, 0
            else:
                passed += end - begin
            longest = max(longest, (sent, passed), key=sum)
            source = axis.owned[part]
    return longest


def _inside(interval: Interval, axis: TiledAxis) -> Interval:
    begin, end = max(interval[0], 0), min(interval[1], axis.extent)
    return (begin, end) if begin < end else (0, 0)


def _before(axis: TiledAxis, part: int) -> Interval:
    """The part of a window that a tile receives from the tile before it on the axis."""
    window, owned = axis.window[part], axis.owned[part]
    if window[0] == window[1]:
        return (0, 0)
    return _inside((window[0], min(owned[0], window[1])), axis)


def _after(axis: TiledAxis, part: int) -> Interval:
    window, owned = axis.window[part], axis.owned[part]
    if window[0] == window[1]:
        return (0, 0)
    return _inside((max(owned[1], window[0]), window[1]), axis)


@dataclass(frozen=True, slots=True)
class _Way:
    """A direction of the mesh.

    Attributes:
        opcode: the engine.
        ahead: whether it goes from the front of the axis to its end.
        received: flag of what is received or filled.
    """

    opcode: Opcode
    ahead: bool
    received: TileFlag


_VERTICAL = (
    _Way(Opcode.MESH_SOUTHWARD, True, TileFlag.MESH_NORTH_IN),
    _Way(Opcode.MESH_NORTHWARD, False, TileFlag.MESH_SOUTH_IN),
)
_HORIZONTAL = (
    _Way(Opcode.MESH_EASTWARD, True, TileFlag.MESH_WEST_IN),
    _Way(Opcode.MESH_WESTWARD, False, TileFlag.MESH_EAST_IN),
)


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a phase computes an image: blocks of channels, one after the other.

    Attributes:
        count: number of blocks; AVDATA counts one for each.
        words: words of a pixel in a block; the last one may have fewer.
    """

    count: int
    words: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What AVDATA counts while a phase computes an image.

    Attributes:
        blocks: blocks of channels, one after the other.
        rows: whether rows are complete one after the other in each of them.
    """

    blocks: int
    rows: bool

    @property
    def free(self) -> bool:
        """Whether it may also count something else.

        Scales of a block wait until AVDATA has counted those before that had their slot.
        """
        return self.blocks <= SLOTS

    @property
    def by_rows(self) -> bool:
        """Whether it counts rows of every block, instead of blocks."""
        return self.rows and self.free

    def complete(self, axis: str, rows: int, first: int, before: int) -> Condition:
        """Wait before a row is read until it is complete.

        Args:
            axis: axis of the rows that are read.
            rows: rows that the tile computes.
            first: the first of them that is read.
            before: what AVDATA counts before.
        """
        if self.by_rows:
            return full(TileFlag.AVDATA, axis, before=before + (self.blocks - 1) * rows + first)
        return once(TileFlag.AVDATA, WHOLE, before + self.blocks)


def exchange(
    builder: Builder,
    image: Image,
    blocks: Blocks | None = None,
    counted: Sequence[int] | None = None,
) -> bool:
    """Fill the windows.

    Rows go to the neighbours above and below first, then columns of all rows of the window, and so
    the corners. What comes from further away goes through the tiles between. Flags keep the order,
    within one phase.

    Args:
        builder: the program.
        image: the image.
        blocks: how this phase computes the image, if it does; then every block is sent as soon as
            it is complete.
        counted: what AVDATA has counted when the part of each tile is complete, if this phase
            brings the image from the host.

    Returns:
        Whether there was anything to do; then a phase must be begun before the windows are read.
    """
    if all(axis.window == axis.owned for axis in (image.rows, image.columns)):
        return False
    done = False
    for vertical in (True, False):
        sweep = _Sweep(image, vertical, blocks, counted)
        for way in sweep.ways:
            done |= bool(builder.on_tiles(partial(sweep.fill, way)))
            done |= bool(builder.on_tiles(partial(sweep.take, way)))
            done |= bool(builder.on_tiles(partial(sweep.transfer, way)))
    return done


def arrivals(image: Image, tile: int) -> list[Condition]:
    """Conditions under which a tile has its window of an image that is exchanged as a whole."""
    sweeps = [_Sweep(image, vertical, None) for vertical in (True, False)]
    return [found for sweep in sweeps for way in sweep.ways for found in sweep.arrivals(tile, way)]


def _some(interval: Interval) -> bool:
    return interval[0] < interval[1]


@dataclass(frozen=True, slots=True)
class _Sweep:
    """Transfers and fills along one axis.

    Attributes:
        image: the image.
        vertical: along rows of the grid, or along columns.
        blocks: as in `exchange`.
        counted: as in `exchange`.
    """

    image: Image
    vertical: bool
    blocks: Blocks | None
    counted: Sequence[int] | None = None

    @property
    def axis(self) -> TiledAxis:
        """The axis along which this sweep goes."""
        return self.image.rows if self.vertical else self.image.columns

    @property
    def ways(self) -> tuple[_Way, _Way]:
        """To the tiles after, and to those before."""
        return _VERTICAL if self.vertical else _HORIZONTAL

    @property
    def each(self) -> str:
        """TiledAxis of words at which a transfer waits and counts, once for each block."""
        return WHOLE if self.blocks is None else "block"

    def place(self, tile: int) -> int:
        """Which part of the axis a tile has."""
        row, column = divmod(tile, COLUMNS)
        return row if self.vertical else column

    def missing(self, way: _Way, part: int) -> Interval:
        """What a part of the axis lacks from one direction."""
        if not 0 <= part < len(self.axis.owned):
            return (0, 0)
        return _before(self.axis, part) if way.ahead else _after(self.axis, part)

    def beyond(self, way: _Way, part: int) -> Interval:
        """The padding at the border from which a direction comes, as far as a window needs it."""
        axis = self.axis
        (begin, end), (first, last) = axis.window[part], axis.owned[part]
        gap = axis.gaps[part] if axis.gaps else None
        if way.ahead:
            return begin, min(0, end if gap is None or gap[1] != first else gap[0])
        return max(axis.extent, begin if gap is None or gap[0] != last else gap[1]), end

    def moved(self, tile: int, extent: Interval) -> Walk | None:
        """Words of a tile that are sent or received."""
        row, column = divmod(tile, COLUMNS)
        if self.vertical:
            return self.words(tile, extent, self.image.columns.owned[column])
        return self.words(tile, self.image.rows.window[row], extent)

    def words(self, tile: int, rows: Interval, columns: Interval) -> Walk | None:
        """Words of a rectangle of the window, block by block."""
        image, blocks = self.image, self.blocks
        if blocks is None:
            return rectangle(image, tile, rows, columns)
        if not (_some(rows) and _some(columns)):
            return None
        last = image.depth // WORD - (blocks.count - 1) * blocks.words
        return walk(
            image.address(tile, rows[0], columns[0]) // WORD,
            word=(blocks.words, 1),
            x=(columns[1] - columns[0], image.depth // WORD),
            y=(rows[1] - rows[0], image.pitch // WORD),
            block=(blocks.count, blocks.words),
            part=(last, "block"),
        )

    def filled(self, tile: int, way: _Way) -> Walk | None:
        """Words of a tile that get the border."""
        row, column = divmod(tile, COLUMNS)
        image, extent = self.image, self.beyond(way, self.place(tile))
        if self.vertical:
            # The corners come with the columns.
            return self.words(tile, extent, image.columns.owned[column])
        return self.words(tile, image.rows.window[row], extent)

    def fill(self, way: _Way, tile: int) -> Mesh | None:
        """Fill the padding at the border, if the tile also receives from that direction."""
        if self.moved(tile, self.missing(way, self.place(tile))) is None:
            return None
        return self.mesh(way, None, None, self.filled(tile, way), ())

    def passes_on(self, tile: int, way: _Way) -> bool:
        """Whether a tile sends on some of what it receives, in the same direction."""
        here = self.place(tile)
        begin, end = self.axis.owned[here]
        wanted = self.wanted(way, here)
        if self.moved(tile, wanted) is None or (begin <= wanted[0] and wanted[1] <= end):
            return False
        return bool(self.arrivals(tile, way))

    def wanted(self, way: _Way, part: int) -> Interval:
        """What the next part of the axis lacks from a direction."""
        return self.missing(way, part + (1 if way.ahead else -1))

    def received(self, tile: int, way: _Way) -> tuple[Walk | None, Walk | None]:
        """Words that a tile receives, or else words that it fills."""
        receive = self.moved(tile, self.missing(way, self.place(tile)))
        return receive, None if receive is not None else self.filled(tile, way)

    def take(self, way: _Way, tile: int) -> Mesh | None:
        """Receives, or fills, what goes on to the next part of the axis.

        An engine has done with it before it begins what it sends.
        """
        if not self.passes_on(tile, way):
            return None
        return self.mesh(way, None, *self.received(tile, way), ())

    def transfer(self, way: _Way, tile: int) -> Mesh | None:
        """Sends what the next part of the axis misses; receives, or fills, unless that is done."""
        wanted = self.wanted(way, self.place(tile))
        target = (None, None) if self.passes_on(tile, way) else self.received(tile, way)
        return self.mesh(way, self.moved(tile, wanted), *target, self.waits(tile))

    def waits(self, tile: int) -> list[Condition]:
        """What a tile waits for before it sends a block: its own part, and rows that go sideways.

        What it passes on has come before.
        """
        found = []
        if self.blocks is not None and self.image.active(tile):
            found.append(full(TileFlag.AVDATA, self.each))
        if self.counted is not None and self.image.active(tile):
            found.append(once(TileFlag.AVDATA, WHOLE, self.counted[tile]))
        if not self.vertical:
            rows = replace(self, vertical=True)
            for other in rows.ways:
                found += rows.arrivals(tile, other)
        return found

    def arrivals(self, tile: int, way: _Way) -> list[Condition]:
        """Conditions under which a tile has what it receives from a direction."""
        fills = self.filled(tile, way) is not None
        receives = self.moved(tile, self.missing(way, self.place(tile))) is not None
        if not (fills or receives):
            return []
        # Every block counts, and those that are filled come first.
        blocks = 1 if self.blocks is None else self.blocks.count
        return [full(way.received, self.each, before=blocks if fills and receives else 0)]

    def mesh(
        self,
        way: _Way,
        send: Walk | None,
        receive: Walk | None,
        fill: Walk | None,
        waits: Sequence[Condition],
    ) -> Mesh | None:
        """The mesh instruction; its receiving half receives, or fills padding."""
        target = fill if receive is None else receive
        if send is None and target is None:
            return None
        return exchange_words(
            way.opcode,
            send,
            target,
            publish=self.each,
            acquire=waits,
            word=None if fill is None else self.image.border * 0x01010101,
        )


def rectangle(image: Image, tile: int, rows: Interval, columns: Interval) -> Walk | None:
    """Words of a rectangle of a tile's window, with all channels; None if it is empty."""
    if not (_some(rows) and _some(columns)):
        return None
    words = (columns[1] - columns[0]) * image.depth // WORD
    start = image.address(tile, rows[0], columns[0]) // WORD
    return walk(start, word=(words, 1), line=(rows[1] - rows[0], image.pitch // WORD))
