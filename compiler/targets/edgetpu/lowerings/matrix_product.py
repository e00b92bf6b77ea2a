"""Products of two matrices that are both computed, as those of attention.

Pixels of an image are the rows of the first matrix and of the result. Every tile that owns some
gathers the second matrix and packs it into rows of wide memory as a convolution has its weights: a
row for four summands, with a lane for each column of the result. If the summands are channels of
the second operand, words go to lanes as they are. If they are its pixels, the bytes of four words
change places on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fitzroy.compiler.targets.edgetpu.instructions.builder import mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE
from fitzroy.compiler.targets.edgetpu.kernels.tensor import QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.transfers import fill, pack
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.layers.layer import POINT, Context, Layer, Windows
from fitzroy.compiler.targets.edgetpu.layers.matrices import kept, matrices, narrow_bytes
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Image,
    Interval,
    Placed,
    Window,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import gather, gather_rows
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose
from fitzroy.hw_models.isa.tensor import TensorOp

MOST_SUMMANDS = 2048
"""Most summands of an element: a block of the second matrix has a row for four of them."""

MOST_BYTES = 96 << 10
"""Bytes of the second matrix, of which every tile keeps a copy."""

MOST_ROWS = MOST_SUMMANDS // WORD
"""Rows of wide memory that blocks take at a time."""

BUNDLES = 1000
"""Bundles of a pass, at most."""


class Nothing(Window):
    """No element: the operand is gathered."""

    def needs(self, interval: Interval) -> Interval:
        """An empty interval."""
        return (0, 0)


@dataclass(frozen=True, slots=True)
class Second:
    """The second matrix as weights.

    Attributes:
        pixels: how many pixels it has.
        channels: channels of a pixel.
        columns: whether its summands are pixels, rather than channels.
        zero_point: stored value of zero, unsigned.
    """

    pixels: int
    channels: int
    columns: bool
    zero_point: int

    @property
    def depth(self) -> int:
        """Bytes of a pixel."""
        return round_up(self.channels, WORD)

    @property
    def results(self) -> int:
        """Columns of the result, filled up to words."""
        return self.depth if self.columns else round_up(self.pixels, WORD)

    @property
    def groups(self) -> int:
        """Fours of summands, each of which has a row in a block."""
        return -(-self.pixels // WORD) if self.columns else self.depth // WORD

    @property
    def blocks(self) -> int:
        """Blocks of results that the lanes compute at a time."""
        return -(-self.results // LANES)

    @property
    def at_once(self) -> int:
        """Blocks that are in wide memory at a time."""
        return min(self.blocks, max(1, MOST_ROWS // self.groups))

    @property
    def rest(self) -> int:
        """Summands of the last word if it is not full, and summands are channels."""
        return 0 if self.columns else self.channels % WORD

    @property
    def nbytes(self) -> int:
        """Bytes of a copy, with whole fours of pixels."""
        return round_up(self.pixels, WORD) * self.depth

    def lanes(self, block: int) -> int:
        """Lanes of a block."""
        return min(LANES, self.results - LANES * block)

    def alike(self, first: int = 0, end: int | None = None) -> list[range]:
        """Some blocks, by default all, as runs of as many lanes each: those of all lanes first."""
        blocks = range(first, self.blocks if end is None else end)
        whole = len([block for block in blocks if self.lanes(block) == LANES])
        return [some for some in (blocks[:whole], blocks[whole:]) if some]

    def words(self, copy: int, block: int) -> Walk:
        """The words of a block in a copy, 64 or fewer of which fill a row."""
        words, lanes = self.depth // WORD, self.lanes(block)
        first = copy // WORD + block * (LANES // WORD if self.columns else LANES * words)
        if self.columns:
            return walk(
                first, pixel=(WORD, words), word=(lanes // WORD, 1), row=(self.groups, WORD * words)
            )
        return walk(first, word=(lanes, words), row=(self.groups, 1))


@dataclass(frozen=True, eq=False, kw_only=True)
class MatrixProduct(Layer):
    """Pixels of the first operand times a matrix that the second one holds.

    Attributes:
        stage: constants of the output stage.
        columns: whether pixels of the second operand are summed over, rather than its channels.
    """

    stage: OutputStage
    columns: bool

    def windows(self, index: int) -> Windows:
        """The same pixel of the first operand; the second one is gathered."""
        return (Nothing(), Nothing()) if index else POINT

    def _image(self, tensors: Mapping[str, Placed]) -> Image:
        """Where the second matrix lies."""
        image = tensors[self.reads[1]]
        assert isinstance(image, Image)
        return image

    def _second(self, tensors: Mapping[str, Placed]) -> Second:
        image = self._image(tensors)
        pixels = image.rows.extent * image.columns.extent
        return Second(pixels, image.channels, self.columns, image.zero_point)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of the gather; later those of some blocks, and a matrix."""
        second = self._second(tensors)
        return max(gather_rows(self._image(tensors)), second.at_once * second.groups + 1)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """A copy of the second matrix, and what makes a small one."""
        return self._second(tensors).nbytes + narrow_bytes([kept(WORD)])

    def emit(self, context: Context) -> None:
        """Gather the second matrix, then multiply with some blocks of it at a time."""
        builder, result = context.builder, context.image(self.writes)
        second = self._second(context.tensors)
        tiles = [tile for tile in range(TILES) if result.active(tile)]
        gather(context, self._image(context.tensors), context.scratch, tiles)
        builder.barrier()
        fill_up(context, second, tiles, 1)
        for first in range(0, second.blocks, second.at_once):
            builder.room(BUNDLES)
            self._multiply(context, second, tiles, first)

    def _multiply(self, context: Context, second: Second, tiles: list[int], first: int) -> None:
        """Pack blocks from `first` on, then compute their part of the result."""
        builder = context.builder
        blocks = range(first, min(first + second.at_once, second.blocks))
        base = builder.staging - second.at_once * second.groups
        builder.emit_all(packed(second, context.scratch, blocks, base, mask_of(tiles)))
        builder.barrier()
        for some in second.alike(first, blocks.stop):
            row = base + (some[0] - first) * second.groups
            make = partial(self._operation, context, second, (some[0], len(some)), row)
            builder.on_tiles(make, tiles)
        builder.barrier()

    def _operation(
        self, context: Context, second: Second, blocks: tuple[int, int], row: int, tile: int
    ) -> TensorOp:
        """Blocks of the pixels that a tile owns: the number of the first, and how many."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        height, width = result.area(tile)
        (top, _), (left, _) = result.owned(tile)
        first, count = blocks
        return moves(
            source.address(tile, top, left),
            result.address(tile, top, left, LANES * first),
            row,
            [Axis("summand", second.groups, WORD, factor=QUARTER)],
            [
                Axis("x", width, source.depth, result.depth),
                Axis("y", height, source.pitch, result.pitch),
                Axis("block", count, 0, LANES, QUARTER * second.groups),
            ],
            self.stage,
            lanes=second.lanes(first),
        )


def fill_up(context: Context, second: Second, tiles: list[int], copies: int) -> None:
    """Give bytes after the last pixels, and after their last channels, the zero point.

    Args:
        context: what layers find.
        second: a matrix.
        tiles: tiles that have copies of such matrices, one after the other in scratch memory.
        copies: how many.
    """
    builder, zero, depth = context.builder, second.zero_point, second.depth
    mask = mask_of(tiles)
    filled = second.pixels * depth
    if second.nbytes > filled:
        words = walk(
            (context.scratch + filled) // WORD,
            word=(second.nbytes - filled >> 2, 1),
            copy=(copies, second.nbytes // WORD),
        )
        builder.emit(fill(words, zero * 0x01010101, tiles=mask))
        builder.barrier()
    if second.rest:
        end = context.scratch + copies * second.nbytes
        row = matrices(context, [kept(second.rest)], end)
        last = context.scratch + depth - WORD
        stage = OutputStage(scale=1.0, a_zero_point=zero, output_zero_point=zero)
        pixel = Axis("pixel", second.pixels, depth, depth)
        copy = Axis("copy", copies, second.nbytes, second.nbytes)
        builder.emit(replace(moves(last, last, row, [], [pixel, copy], stage), tiles=mask))
        builder.barrier()


def packed(
    second: Second, copy: int, blocks: Sequence[int], base: int, tiles: int
) -> Iterator[NarrowToWide]:
    """Blocks of a copy of a matrix become rows of wide memory, those of a block together.

    Args:
        second: the matrix.
        copy: byte address of the copy.
        blocks: their numbers.
        base: the first row.
        tiles: mask of tiles.
    """
    for number, block in enumerate(blocks):
        yield pack(
            second.words(copy, block),
            walk(base + number * second.groups, row=(second.groups, 1)),
            row="row",
            publish=WHOLE,
            tiles=tiles,
            transpose=Transpose.BYTES if second.columns else Transpose.NONE,
        )
