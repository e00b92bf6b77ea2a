"""Values of a softmax on their way from the tiles to the memory of the scalar core.

Tiles send values as halfwords, each the place of its value in a table, in portions that fit the
memory. The largest one is found among the maxima of the lanes of all tiles where there are many.
"""

from __future__ import annotations

from dataclasses import replace

from fitzroy.compiler.targets.edgetpu.host.inputs import SPREAD_ROWS
from fitzroy.compiler.targets.edgetpu.host.outputs import collect
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, once
from fitzroy.compiler.targets.edgetpu.kernels.tensor import (
    PLAIN,
    QUARTER,
    Axis,
    Nest,
    moves,
    stage_fields,
)
from fitzroy.compiler.targets.edgetpu.kernels.transfers import pack
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.layers.layer import Context
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    EVERY,
    LANES,
    TILES,
    WORD,
    Vector,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import LARGEST
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import Opcode, StreamEngine, TileFlag
from fitzroy.hw_models.isa.stream import Outfeed
from fitzroy.hw_models.isa.tensor import TensorOp

TABLE = BEAGLE.scalar.fifo_words
"""First word of the tables, after the fifo; halfwords are places in them, and normal floats."""

ENTRIES = LARGEST + 1
VALUES = TABLE + ENTRIES
"""First word of the values."""

WIDTH = 2
"""Bytes of a value on its way."""

BLOCK = WIDTH * LANES // WORD
"""Words of a block of values."""

MOST_BLOCKS = (BEAGLE.memories.scalar.elements - VALUES) // (BLOCK * TILES) * TILES
"""Blocks of a portion, whole passes over the tiles; words after it are read, but not used."""


def portions(vector: Vector) -> list[range]:
    """Blocks that go to the scalar core at a time, about as many every time."""
    count = -(-vector.blocks // MOST_BLOCKS)
    size = round_up(-(-vector.blocks // count), TILES)
    return [
        range(first, min(first + size, vector.blocks)) for first in range(0, vector.blocks, size)
    ]


def widened(context: Context, vector: Vector, result: Vector, tile: int) -> TensorOp:
    """A tile widens its values to 16 bits: indices into the tables."""
    held = vector.held(tile)
    first = vector.lanes(held[0]) // WORD
    size = WIDTH * WORD
    stage = replace(PLAIN, output_zero_point=TABLE)
    places = [
        Axis("word", first, WORD, size),
        Axis("block", len(held), LANES, WIDTH * LANES),
    ]
    return moves(vector.base, result.base, context.identity, [], places, stage, output16=True)


MAXIMA_BYTES = (1 + WIDTH) * LANES
"""Bytes of narrow memory for the maxima of a tile, and for the same with 16 bits."""


_MOST_ROWS = 128
"""Wide rows for the values of a tile whose maxima are found, at most."""


def rows_of_maxima(vector: Vector) -> int:
    """Wide rows of the values of a tile, if maxima of these go to the scalar core; else 0.

    They do if every tile has whole rows, of which there is room for so many.
    """
    rows = 0 if vector.channels % (WORD * LANES * TILES) else vector.nbytes // (WORD * LANES)
    return rows if rows <= _MOST_ROWS else 0


def largest_values(context: Context, vector: Vector, base: int) -> Vector:
    """Every tile finds the largest of the values that each of its lanes holds, and widens these.

    Args:
        context: where things are.
        vector: the values, of which there are `rows_of_maxima`.
        base: byte address of `MAXIMA_BYTES` in narrow memory.

    Returns:
        The widened maxima, a block on every tile.
    """
    builder, rows = context.builder, rows_of_maxima(vector)
    first = builder.staging - SPREAD_ROWS - rows
    found = replace(vector, channels=LANES * TILES, base=base)
    builder.emit(
        pack(
            walk(vector.base // WORD, word=(rows * LANES, 1)),
            walk(first, row=(rows, 1)),
            publish=WHOLE,
            tiles=EVERY,
        )
    )
    taps = [Axis("byte", WORD, factor=1), Axis("row", rows, factor=QUARTER)]
    nest = Nest.of([*taps, Axis("block", 1)], taps)
    builder.emit(
        TensorOp(
            tiles=EVERY,
            op=Opcode.MAX,
            b=nest.written(found.base, [("lane", LANES // WORD, WORD)]).bytes,
            c=nest.factors(QUARTER * first).quarters,
            d=nest.accumulators().quarters,
            accumulate=True,
            idle_multipliers=(True,) * 3,
            lanes=LANES,
            lanes_last=LANES,
            **nest.fields([once(TileFlag.NARROW_TO_WIDE, "block", 1)]),
            **stage_fields(PLAIN),
        )
    )
    builder.barrier()
    values = replace(found, base=found.base + LANES)
    builder.on_tiles(lambda tile: widened(context, found, values, tile))
    return values


def take_values(context: Context, values: Vector, blocks: range) -> None:
    """Tiles send blocks of values of 16 bits to the scalar core's memory."""
    builder = context.builder

    def outfeed(block: int) -> Outfeed:
        count = WIDTH * values.lanes(block) // WORD
        return Outfeed(
            buffer=walk(VALUES + BLOCK * (block - blocks[0]), word=(count, 1)).buffer,
            row_words=LANES,
        )

    builder.sync()
    collect(builder, values, outfeed, blocks=blocks, base=values.base, width=WIDTH)
    builder.barrier()
    builder.emit(ScalarFence(idle=1 << StreamEngine.OUTFEED))
