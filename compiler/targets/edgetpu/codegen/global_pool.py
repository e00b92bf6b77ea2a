"""Means over whole images: tiles gather blocks of channels of the image and average them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.windows import explicit_padding
from fitzroy.compiler.targets.edgetpu.codegen.builder import Builder, mask_of
from fitzroy.compiler.targets.edgetpu.codegen.convolution import padded, rows_at
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.codegen.matrices import moves
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    LANES,
    TILES,
    WORD,
    Image,
    Placed,
    Vector,
)
from fitzroy.compiler.targets.edgetpu.codegen.pools import MOST_SUMMED, average_pool
from fitzroy.compiler.targets.edgetpu.codegen.sync import SLOTS, free, full, once
from fitzroy.compiler.targets.edgetpu.requantization import OutputStage, output_stage
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, Producer, Side, TileFlag
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import NARROW, WIDE, Traversal, traversal

_MOST_STAGED = 384
"""Wide rows for a gather, unless a single row of the image takes more."""

_WORDS = LANES // WORD


@dataclass(frozen=True, slots=True)
class _Slice:
    """Rows of an image that tiles send at a time, all of them the same of what they own.

    Attributes:
        first: first of these rows.
        rows: how many; fewer on tiles that own less.
    """

    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """How blocks of the channels of an image get to the tiles that average them.

    A message has the pixels of a tile block by block, each from a wide row of its own on. Tiles
    store all rows of a message, but each so that its own first block comes to the same place.

    Attributes:
        image: the image.
        result: the means.
        slices: what is sent at a time.
        spacing: wide rows from one block of a message to the next.
    """

    image: Image
    result: Vector
    slices: tuple[_Slice, ...]
    spacing: int

    @classmethod
    def of(cls, image: Image, result: Vector) -> _Plan:
        height = max(end - begin for begin, end in image.rows.owned)
        for count in range(1, height + 1):
            rows = -(-height // count)
            plan = cls(image, result, _slices(height, rows), _rows(image, rows))
            if plan.staged <= _MOST_STAGED:
                break
        return plan

    @property
    def message(self) -> int:
        """Wide rows of a message."""
        return self.spacing * self.result.blocks

    @property
    def before(self) -> int:
        """Wide rows for first blocks that are not a tile's own."""
        return self.spacing * (min(self.result.blocks, TILES) - 1)

    @property
    def staged(self) -> int:
        """Wide rows: of the sender, and two slots of the receivers."""
        return (1 + SLOTS) * self.message + self.before

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a pixel of a gathered block."""
        return self.result.lanes(0)

    @property
    def block_bytes(self) -> int:
        """Bytes of a gathered block."""
        return self.image.rows.extent * self.image.columns.extent * self.pixel_bytes

    def pixels(self, tile: int, part: _Slice) -> tuple[int, int]:
        """Rows and columns that a tile sends."""
        height, width = self.image.area(tile)
        return max(0, min(part.rows, height - part.first)), width

    def blocks(self, tile: int, part: _Slice, blocks: Sequence[int], stride: int) -> _Blocks:
        """Loops over some blocks of a message, which are `stride` words apart."""
        height, width = self.pixels(tile, part)
        whole, last = (self.result.lanes(blocks[end]) // WORD for end in (0, -1))
        return _Blocks(height, width, len(blocks), whole, last, stride)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Words of a message, on the side of narrow memory and on the side of wide memory.

    Attributes:
        height: rows of pixels.
        width: pixels of a row.
        count: blocks.
        whole: words of a pixel in all blocks but the last.
        last: words of a pixel in the last block.
        stride: words from one block to the next.
    """

    height: int
    width: int
    count: int
    whole: int
    last: int
    stride: int

    def narrow(self, base: int, pixel: int, line: int) -> Traversal:
        """Words of narrow memory, for distances of pixels and rows in words."""
        return traversal(
            base,
            [(self.whole, 1), (self.width, pixel), (self.height, line), (self.count, self.stride)],
            rank=NARROW.rank,
            part=(self.last, 3) if self.last != self.whole else None,
        )

    def wide(self, base: int, spacing: int) -> Traversal:
        """Rows of wide memory."""
        whole, last = (
            -(-words * self.width * self.height // LANES) for words in (self.whole, self.last)
        )
        return traversal(
            base,
            [(whole, 1), (self.count, spacing)],
            rank=WIDE.rank,
            part=(last, 1) if last != whole else None,
        )


_PACKED = 3
"""Loops over a block of a message: words, pixels and rows."""


def _slices(height: int, rows: int) -> tuple[_Slice, ...]:
    return tuple(_Slice(first, rows) for first in range(0, height, rows))


def _rows(image: Image, rows: int) -> int:
    """Wide rows of a block of so many image rows."""
    width = max(end - begin for begin, end in image.columns.owned)
    return -(-min(image.depth, LANES) // WORD * rows * width // LANES)


def _gather(context: Context, plan: _Plan) -> None:
    """Bring every tile the blocks of channels that it averages; a barrier must follow."""
    builder, image, result = context.builder, plan.image, plan.result
    own = builder.staging - plan.message
    first = own - SLOTS * plan.message
    messages = [
        (tile, part)
        for part in plan.slices
        for tile in range(TILES)
        if all(plan.pixels(tile, part))
    ]
    builder.on_tiles(
        lambda tile: RingConsume(
            op=Opcode.RING_CONSUME_A,
            wide=rows_at(
                first - plan.spacing * result.held(tile)[0],
                [(plan.message, 1), (len(messages), 0)],
                ping_pong=(1, plan.message),
            ),
            wait=padded([free(TileFlag.WIDE_TO_NARROW, 1)], 1),
            ring_read=Producer(1),
        ),
        result.tiles,
    )
    for number, part in enumerate(plan.slices):
        builder.room(_SLICE_BUNDLES)
        senders = [tile for tile, sent in messages if sent is part]
        for tile in senders:
            _produce(builder, tile, own, plan.message, mask_of(result.tiles), number)
        every = range(result.blocks)

        def send(
            tile: int, part: _Slice = part, every: range = every, number: int = number
        ) -> NarrowToWide:
            (top, _), (left, _) = image.owned(tile)
            blocks = plan.blocks(tile, part, every, _WORDS)
            start = image.address(tile, top + part.first, left) // WORD
            return NarrowToWide(
                narrow=blocks.narrow(start, image.depth // WORD, image.pitch // WORD),
                wide=blocks.wide(own, plan.spacing),
                narrow_to_wide=Producer(2),
                wait=padded([once(TileFlag.RING_WRITE, 2, number, Side.WRITE)], 5),
                pack_level=_PACKED,
            )

        builder.on_tiles(send, senders)
        for index, (tile, sent) in enumerate(messages):
            if sent is part:
                builder.on_tiles(
                    lambda receiver, tile=tile, part=part, index=index: _unpack(  # type: ignore[misc]
                        context,
                        plan,
                        receiver,
                        tile,
                        part,
                        first + index % SLOTS * plan.message,
                        index,
                    ),
                    result.tiles,
                )


_SLICE_BUNDLES = TILES * (4 + 7 + 3 * 7)


def _produce(
    builder: Builder, tile: int, row: int, rows: int, destination: int, number: int
) -> None:
    builder.emit(
        RingProduce(
            tiles=1 << tile,
            wide=rows_at(row, [(rows, 1)]),
            ring_write=Producer(1),
            token=Producer(2),
            wait=padded(
                [
                    builder.tokens.turn(0, 2, 1),
                    full(TileFlag.NARROW_TO_WIDE, 1, before=number),
                ],
                2,
            ),
            destination=destination,
        )
    )


def _unpack(
    context: Context,
    plan: _Plan,
    receiver: int,
    tile: int,
    part: _Slice,
    row: int,
    index: int,
) -> WideToNarrow:
    """A tile takes its blocks out of a message."""
    (top, _), (left, _) = plan.image.owned(tile)
    columns = plan.image.columns.extent
    blocks = plan.blocks(tile, part, plan.result.held(receiver), plan.block_bytes // WORD)
    pixel = plan.pixel_bytes // WORD
    start = context.scratch // WORD + pixel * ((top + part.first) * columns + left)
    return WideToNarrow(
        wide=blocks.wide(row, plan.spacing * TILES),
        narrow=blocks.narrow(start, pixel, pixel * columns),
        wide_to_narrow=Producer(4),
        wait=padded([once(TileFlag.RING_READ_A, 2, index + 1)], 2),
        pack_level=_PACKED,
    )


@dataclass(eq=False, kw_only=True)
class GlobalAverage(Layer):
    """The mean of every channel.

    Attributes:
        stage: constants of the output stage.
    """

    stage: OutputStage

    makes_vector = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Those of the gather."""
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(result, Vector)
        return _Plan.of(source, result).staged if isinstance(source, Image) else 0

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """The gathered blocks of a tile."""
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(result, Vector)
        if isinstance(source, Vector):
            return 0
        return _Plan.of(source, result).block_bytes * -(-result.blocks // TILES)

    def emit(self, context: Context) -> None:
        """The gather, and an operation for every block."""
        source, result = context.tensors[self.reads[0]], context.vector(self.writes)
        base, step, pixel, count = source.base, LANES, LANES, 1
        if isinstance(source, Image):
            plan = _Plan.of(source, result)
            _gather(context, plan)
            context.builder.barrier()
            base, step, pixel = context.scratch, plan.block_bytes, plan.pixel_bytes
            count = source.rows.extent * source.columns.extent

        def average(tile: int, number: int) -> TensorOp | None:
            held = result.held(tile)
            if number >= len(held):
                return None
            return moves(
                base + step * number,
                result.base + LANES * number,
                context.identity,
                [(count, pixel, 0)],
                [(result.lanes(held[number]) // WORD, WORD, WORD, 0)],
                self.stage,
            )

        for number in range(-(-result.blocks // TILES)):
            context.builder.on_tiles(lambda tile, number=number: average(tile, number))  # type: ignore[misc]


def is_global(call: Call) -> bool:
    """Whether the window of an average pool is the whole image."""
    attributes, image = call.attributes(PoolAttributes), call.type().shape
    extent = (image[1], image[2])
    pads = explicit_padding(
        attributes.padding, extent, attributes.kernel, attributes.stride, (1, 1)
    )
    return attributes.kernel == extent and not any(pads)


def global_average(legalizer: Legalizer, call: Call) -> None:
    """Append the mean of every channel of an image."""
    source = legalizer.place(call.node.inputs[0] or "")
    legalizer.layers.append(
        GlobalAverage(
            name=call.node.name,
            reads=(source,),
            writes=call.node.outputs[0],
            stage=output_stage(call),
        )
    )


@legalizes("average_pool_2d")
def _average_pool(legalizer: Legalizer, call: Call) -> None:
    image = call.type().shape
    if is_global(call) and image[1] * image[2] <= MOST_SUMMED:
        global_average(legalizer, call)
    else:
        average_pool(legalizer, call)


@legalizes("mean")
def _mean(legalizer: Legalizer, call: Call) -> None:
    shape = call.type().shape
    axes = {axis % len(shape) for axis in call.attributes(ReductionAttributes).axes}
    if len(shape) != 4 or axes != {1, 2} or shape[0] != 1:
        raise UnsupportedError(
            f"mean {call.node.name!r} of {list(shape)} over the axes {sorted(axes)}; the Edge TPU "
            "takes means over the rows and columns of one image"
        )
    if shape[1] * shape[2] > MOST_SUMMED:
        raise UnsupportedError(
            f"mean {call.node.name!r} of {shape[1]} x {shape[2]} values, {MOST_SUMMED} are "
            "summed at most"
        )
    global_average(legalizer, call)
