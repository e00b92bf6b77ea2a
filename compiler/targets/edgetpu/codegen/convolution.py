"""Convolutions: weights from their owners over the ring, in slots of staging, to all tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import ClassVar

from fitzroy.compiler.targets.edgetpu.codegen.builder import Builder, Reference, mask_of
from fitzroy.compiler.targets.edgetpu.codegen.halo import Blocks
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer, Weights, Window
from fitzroy.compiler.targets.edgetpu.codegen.memory import Piece
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    LANES,
    TILES,
    WORD,
    Image,
    Interval,
    Placed,
    Reach,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.codegen.sync import SLOTS, free, full
from fitzroy.compiler.targets.edgetpu.requantization import OutputStage
from fitzroy.formats.object_file import Part, SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, Producer, TileFlag, Watcher
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.partial_sums import PUBLISHED_RUN
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import (
    BYTES,
    NARROW,
    QUARTERS,
    WIDE,
    Prefix,
    Traversal,
    traversal,
)
from fitzroy.hw_models.parameters import ConvolutionLayout

QUARTER = 4
"""Addresses of tensor operations in wide memory count quarters of a row."""

SLOT = 32
"""Entries of scaling memory of a slot."""

BIASES = 64
"""First entry of scaling memory for biases."""

REST_ROWS = 1
"""Rows below those of vectors that take what nobody needs."""

_STAGED_ROWS = 128
"""Rows of wide memory for weights in staging, unless a single tap takes more."""

_WHOLE_ROWS = 512
"""The same where all input channels of a block are staged at a time."""

_MOST_ROWS = BEAGLE.memories.wide.elements // 2
"""Rows of wide memory for weights in staging from which on a single slot has to do."""

_MOST_SUMS = 256
"""Partial sums of so many positions may be in wide memory."""


class Staging(Enum):
    """How weights are staged.

    Attributes:
        MANY: in as many slots as hide the latency of chunks.
        PAIR: in two slots in turn, or in one for each chunk, as in published programs.
        WHOLE: all input channels of a block at a time, so that sums stay in accumulators.
    """

    MANY = auto()
    PAIR = auto()
    WHOLE = auto()


@dataclass(eq=False, kw_only=True)
class Convolution(Layer):
    """A convolution of any kernel, stride, dilation and padding.

    Attributes:
        layout: layout of its only weights, input channels outermost.
        channels: channels of the result; the layout may have more.
        rows: what it reads along rows.
        columns: what it reads along columns.
        stage: constants of the output stage.
        staging: how its weights are staged; `published.choose_staging` chooses.
    """

    layout: ConvolutionLayout
    channels: int
    rows: Reach
    columns: Reach
    stage: OutputStage
    staging: Staging = Staging.PAIR

    streams: ClassVar[bool] = True

    def windows(self, index: int) -> Window:
        """The kernel."""
        return self.rows, self.columns

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Two slots of weights and of vectors, and partial sums."""
        result = tensors[self.writes]
        assert isinstance(result, Image)
        return Plan.of(self, result).rows

    def positions(self, result: Image, tile: int) -> tuple[Interval, Interval]:
        """Numbers of the windows down and across whose results a tile owns."""
        rows, columns = result.owned(tile)
        return self.rows.numbers(rows), self.columns.numbers(columns)

    def area(self, result: Image, tile: int) -> tuple[int, int]:
        """Number of these windows, down and across."""
        (top, bottom), (left, right) = self.positions(result, tile)
        return bottom - top, right - left

    def completes(self, tensors: Mapping[str, Placed]) -> Blocks | None:
        """Blocks of 64 channels, unless only some are computed in the last phase."""
        if len(self.weights) > 1:
            return None
        blocks = -(-self.channels // LANES)
        return Blocks(blocks, min(LANES, round_up(self.channels, WORD)) // WORD)

    def emit(self, context: Context) -> None:
        """Consumers of weights first, then the operations, then the owners of the weights."""
        whole, first = Plan.of(self, context.image(self.writes)), 0
        if len(self.weights) == 1:
            self._emit(context, whole, self.weights[0], first)
            return
        for item in self.weights:
            if first:
                context.builder.barrier()
            last = whole.last if first + item.blocks == whole.blocks else whole.lanes
            lanes = whole.lanes if item.blocks > 1 else last
            plan = replace(whole, blocks=item.blocks, lanes=lanes, last=last)
            self._emit(context, plan, item, first)
            first += item.blocks

    def _emit(self, context: Context, plan: Plan, weights: Weights, first: int) -> None:
        """The blocks from one on of which there are weights."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        channel = 0 if context.streamed(weights.name) else 1
        stream = self._stream(plan, context.builder.staging, channel)
        convolve(
            context,
            weights,
            result,
            stream,
            lambda tile: _operation(self, source, result, tile, plan, stream, first),
        )

    def _stream(self, plan: Plan, top: int, channel: int = 1) -> WeightStream:
        """Its weights on their way.

        Args:
            plan: how it runs.
            top: behind the last row of wide memory for them.
            channel: channel of the ring.
        """
        return WeightStream(
            staged=plan.staged,
            slots=plan.slots,
            chunks=plan.chunks,
            blocks=plan.blocks,
            prefix=plan.prefix,
            vectors=int(self.layout.prefix.scales) + int(self.layout.prefix.biases),
            scales=self.layout.prefix.scales,
            lanes=self.layout.lanes,
            top=top,
            channel=channel,
        )

    def consumers(self, tensors: Mapping[str, Placed], top: int) -> list[Instruction]:
        """The instructions that take and use weights, as they are without any others around.

        Args:
            tensors: places of tensors by name.
            top: behind the last row of wide memory for weights.
        """
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(source, Image)
        assert isinstance(result, Image)
        plan, builder = Plan.of(self, result), Builder()
        stream = self._stream(plan, top)
        stream.receive(builder, mask_of([tile for tile in range(TILES) if result.active(tile)]))
        builder.on_tiles(
            lambda tile: _operation(self, source, result, tile, plan, stream, 0),
            [tile for tile in range(TILES) if result.active(tile)],
        )
        return [instruction for _, _, instruction in builder.program]

    def plan(self, result: Placed) -> Plan:
        """How it runs for a result."""
        assert isinstance(result, Image)
        return Plan.of(self, result)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a convolution runs.

    Attributes:
        chunk: groups of four input channels whose weights are staged at a time.
        chunks: how many chunks.
        staged: weight rows of a chunk.
        slots: slots of staging.
        blocks: blocks of output channels.
        prefix: words of vectors of a block.
        positions: most positions of a tile.
        lanes: lanes of a block.
        last: lanes of the last block.
    """

    chunk: int
    chunks: int
    staged: int
    slots: int
    blocks: int
    prefix: int
    positions: int
    lanes: int
    last: int

    @classmethod
    def of(cls, layer: Convolution, result: Image) -> Plan:
        """The fastest plan that the layer's way of staging and wide memory allow."""
        groups = -(-layer.layout.in_channels // WORD)
        taps = layer.rows.kernel * layer.columns.kernel
        blocks = -(-layer.channels // LANES)
        depth = round_up(layer.channels, WORD)
        positions = max(math.prod(layer.area(result, tile)) for tile in range(TILES))
        limit = _WHOLE_ROWS if layer.staging is Staging.WHOLE else _STAGED_ROWS
        # Sums of many positions are worth their rows if the weights of a block take even more.
        sums = max(_MOST_SUMS, SLOTS * groups * taps - _STAGED_ROWS)
        options = [
            cls(
                chunk,
                groups // chunk,
                chunk * taps,
                slots,
                blocks,
                len(layer.layout.prefix.kinds),
                positions,
                LANES if blocks > 1 else depth,
                depth - LANES * (blocks - 1),
            )
            for chunk in _chunks(groups, taps, positions)
            if chunk == groups or (positions <= sums and layer.staging is not Staging.WHOLE)
            for slots in _slots(layer.staging, groups // chunk, chunk * taps, blocks)
        ]
        fitting = [plan for plan in options if plan.slots * plan.staged <= limit]
        # If nothing fits, what takes the fewest rows.
        least = min(options, key=lambda plan: plan.rows)
        return min(fitting or [least], key=lambda plan: (plan.cycles, plan.rows))

    @property
    def sums(self) -> int:
        """Rows of partial sums."""
        return self.positions if self.chunks > 1 and self.positions > 1 else 0

    @property
    def rows(self) -> int:
        """Rows of wide memory for data."""
        return self.slots * self.staged + SLOTS * self.prefix + self.sums

    @property
    def cycles(self) -> float:
        """Estimated cycles: the delivery of chunks overlaps with steps."""
        vectors = BEAGLE.timing.ring_row * self.prefix
        steps = self.positions * self.staged
        count = self.chunks * self.blocks
        delivery = BEAGLE.timing.ring_row * self.staged + vectors / self.chunks
        return pipeline(steps, delivery, count, self.slots) + vectors


def _chunks(groups: int, taps: int, positions: int) -> list[int]:
    """Groups of input channels that may be staged at a time, all of them last.

    A chunk adds to the partial sums of one position after the other. What it adds to a row has as
    many steps as in published programs, or as few more as can be, so that a row has been written
    before it is read again.

    Args:
        groups: groups of input channels.
        taps: taps of the kernel.
        positions: most positions of a tile; the sums of a single one stay in accumulators.
    """
    found = [chunk for chunk in range(1, groups + 1) if groups % chunk == 0]
    if positions == 1:
        return found
    parts = [chunk for chunk in found[:-1] if chunk * taps >= PUBLISHED_RUN.start]
    within = [chunk for chunk in parts if chunk * taps in PUBLISHED_RUN]
    return (within or parts[:1]) + found[-1:]


def _slots(staging: Staging, turns: int, staged: int, blocks: int) -> list[int]:
    """Numbers of slots that there may be.

    Args:
        staging: how weights are staged.
        turns: chunks of a block.
        staged: weight rows of a chunk.
        blocks: blocks of output channels.
    """
    most = max(SLOTS, _STAGED_ROWS // staged)
    # A slot for every chunk is one that the next block uses again.
    usual = turns if blocks > 1 else SLOTS
    return [
        slots
        for slots in range(fewest_slots(staged), most + 1)
        if published_slots(slots, usual) or (staging is Staging.MANY and turns % slots == 0)
    ]


def fewest_slots(staged: int) -> int:
    """Slots for so many weight rows, at least: two, unless these take too much of wide memory."""
    return SLOTS if SLOTS * staged <= _MOST_ROWS else 1


def published_slots(slots: int, turns: int) -> bool:
    """Whether published programs have so many slots for something that comes so many times.

    They use two in turn, or one for each.
    """
    return slots <= SLOTS or slots == turns


def pipeline(steps: float, delivery: float, count: int, slots: int) -> float:
    """Estimated cycles of tensor operations that are fed with chunks over the ring.

    Args:
        steps: cycles of the steps with a chunk.
        delivery: cycles that a chunk takes on the ring.
        count: number of chunks.
        slots: chunks that a tile can hold.
    """
    latency = BEAGLE.timing.chunk_latency
    period = max(steps, delivery, (steps + delivery + latency) / slots)
    return delivery + latency + (count - 1) * period + steps


def stage_fields(stage: OutputStage) -> dict[str, object]:
    """The fields of a tensor operation that an output stage fixes."""
    return {
        "scale": stage.scale,
        "minimum": stage.minimum,
        "maximum": stage.maximum,
        "output_zero_point": stage.output_zero_point,
        "a_zero_point": stage.a_zero_point,
        "c_zero_point": stage.c_zero_point,
        "constant": stage.constant,
        "scale_in_memory": stage.scale_in_memory,
        "bias_in_memory": stage.bias_in_memory,
        "zero_points_in_memory": stage.zero_points_in_memory,
        "nlu": stage.nlu,
        "nlu_odd": stage.nlu_odd,
    }


def bytes_at(base: int, dims: list[tuple[int, int]], **more: object) -> Traversal:
    """Bytes of narrow memory; dims are (count, stride), innermost first.

    A loop that runs once goes nowhere, so that its stride need not fit the field.
    """
    most = 1 << BYTES.address
    held = [(count, 0 if count == 1 and abs(step) >= most else step) for count, step in dims]
    return traversal(base, held, rank=BYTES.rank, **more)  # type: ignore[arg-type]


def quarters_at(base: int, dims: list[tuple[int, int]], **more: object) -> Traversal:
    """Quarter rows of wide memory."""
    return traversal(base, dims, rank=QUARTERS.rank, **more)  # type: ignore[arg-type]


def rows_at(base: int, dims: list[tuple[int, int]], **more: object) -> Traversal:
    """Rows of wide memory."""
    return traversal(base, dims, rank=WIDE.rank, **more)  # type: ignore[arg-type]


def padded(items: Sequence[Watcher], count: int) -> tuple[Watcher | None, ...]:
    """Wait conditions, filled up to as many as an instruction has."""
    return (*items, *[None] * (count - len(items)))


def loops_of(counts: Sequence[int]) -> tuple[int, ...]:
    """Loops of a tensor operation, filled up to eight."""
    return (*counts, *[1] * (8 - len(counts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightStream:
    """Weights on their way from their owners through two slots at the top of wide memory.

    Attributes:
        staged: weight rows of a slot.
        slots: how many slots; other numbers than two must divide the chunks of a block, or the
            blocks if they have a single chunk.
        chunks: chunks of weights of a block, each of which takes a slot.
        blocks: blocks of output channels.
        prefix: words of vectors in front of each block.
        vectors: how many of them go to scaling memory.
        scales: whether the first of those holds scales.
        lanes: lanes of every word.
        top: behind the last row.
        channel: channel of the ring.
    """

    staged: int
    slots: int = SLOTS
    chunks: int
    blocks: int
    prefix: int
    vectors: int
    scales: bool
    lanes: int
    top: int
    channel: int = 1

    @property
    def weights(self) -> int:
        """First row of weights."""
        return self.top - self.slots * self.staged

    @property
    def vector_slots(self) -> int:
        """Slots of vectors: a block has one."""
        return self.slots if self.chunks == 1 else SLOTS

    @property
    def vector_rows(self) -> int:
        """First row of vectors, and behind the last row of whatever else."""
        return self.weights - self.vector_slots * self.prefix

    @property
    def delivered(self) -> TileFlag:
        """Flag that counts chunks."""
        return (TileFlag.RING_READ_A, TileFlag.RING_READ_B)[self.channel]

    @property
    def single(self) -> bool:
        """Whether there is nothing but one row, which its owner sends.

        It is sent twice, to the same place: no published program sends a single row on channel B,
        or takes one from it.
        """
        return self.channel == 1 and self.blocks * (self.prefix + self.chunks * self.staged) == 1

    def turns(self, step: int, dim: int) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """Loops over chunks and blocks of a traversal, which go round the slots.

        Args:
            step: distance of slots.
            dim: the dimension of the first of these loops.

        Returns:
            The loops, and `fifo_dim` and `fifo_step`.
        """
        chunks, blocks, slots = self.chunks, self.blocks, self.slots
        if slots == SLOTS:
            return [(chunks, 0), (blocks, 0)], (dim, step)
        if chunks == 1:
            return [(slots, step), (blocks // slots, 0)], (0, 0)
        return [(slots, step), (chunks // slots, 0), (blocks, 0)], (0, 0)

    def receive(self, builder: Builder, tiles: int) -> None:
        """Tiles take the weights from the ring, and the vectors to scaling memory."""
        vectors = self.vector_rows
        loops, ping_pong = self.turns(self.staged, 1)
        prefix = None
        if self.prefix:
            # Before the loop over blocks, which slots may have divided.
            level = 0 if self.chunks == 1 else len(loops) - 1
            prefix = Prefix(level, vectors, self.prefix, self.weights - 1, self.prefix)
        builder.emit(
            RingConsume(
                op=(Opcode.RING_CONSUME_A, Opcode.RING_CONSUME_B)[self.channel],
                tiles=tiles,
                wide=rows_at(self.weights, [(2, 0)])
                if self.single
                else rows_at(self.weights, [(self.staged, 1), *loops], ping_pong=ping_pong),
                prefix=prefix,
                wait=padded([free(TileFlag.PARAMETERS, 1, slots=self.slots)], 1),
                ring_read=Producer(1),
            )
        )
        if not self.vectors:
            return
        count = self.vector_slots
        builder.emit(
            WideToNarrow(
                tiles=tiles,
                wide=rows_at(
                    vectors,
                    [(self.vectors, 1), (self.blocks, 0)]
                    if count == SLOTS
                    else [(self.vectors, 1), (count, self.prefix), (self.blocks // count, 0)],
                    ping_pong=(1, self.prefix) if count == SLOTS else (0, 0),
                ),
                narrow=traversal(
                    0 if self.scales else BIASES,
                    [(self.lanes // 2, 1), (self.vectors, SLOTS * SLOT), (self.blocks, 0)],
                    rank=NARROW.rank,
                    ping_pong=(2, SLOT),
                ),
                to_scaling=True,
                pack_level=1,
                wait=padded(
                    [
                        # Vectors come in front of the first chunk of a block.
                        full(self.delivered, 1, step=self.chunks, before=1 - self.chunks),
                        free(TileFlag.AVDATA, 2),
                    ],
                    2,
                ),
                wide_to_narrow=Producer(2),
            )
        )

    def receive_rest(self, builder: Builder, tiles: int, weights: Weights) -> None:
        """Tiles take what fills up the last unit of weights that come from the host."""
        used = self.blocks * (self.prefix + self.chunks * self.staged)
        rest = len(weights.data) // (WORD * self.lanes) - used
        if rest:
            builder.emit(
                RingConsume(
                    op=Opcode.RING_CONSUME_A,
                    tiles=tiles,
                    wide=rows_at(self.vector_rows - REST_ROWS, [(rest, 0)]),
                )
            )

    def waits(self, chunk: int, block: int) -> list[Watcher]:
        """What a tensor operation waits for before its loops over chunks and blocks."""
        weights = full(self.delivered, chunk)
        return [weights, full(TileFlag.WIDE_TO_SCALING, block)] if self.vectors else [weights]

    def zero_points(self, stage: OutputStage) -> dict[str, int]:
        """Fields of a tensor operation with zero points in the last word of vectors."""
        if not stage.zero_points_in_memory:
            return {}
        return {
            "zero_point_base": self.vector_rows + self.prefix - 1,
            "zero_point_step": self.prefix,
            "zero_point_last": self.weights - 1,
        }


@dataclass(frozen=True, slots=True)
class Sent:
    """Weights that owners send.

    Attributes:
        name: name of the weights.
        pieces: where they lie.
        destination: tiles that receive them.
    """

    name: str
    pieces: Sequence[Piece]
    destination: int


def convolve(
    context: Context,
    weights: Weights,
    result: Image,
    stream: WeightStream,
    operation: Callable[[int], TensorOp | None],
    sender: Callable[[Builder, WeightStream, Sent], None] | None = None,
) -> None:
    """Consumers of weights first, then the operations, then the owners of the weights.

    Args:
        context: where things are.
        weights: the weights.
        result: what is computed; tiles that own nothing of it take no part.
        stream: the weights.
        operation: the operation of a tile, None if it computes nothing.
        sender: how owners send the weights, `send_rows` by default.
    """
    builder = context.builder
    operations = {tile: operation(tile) for tile in range(TILES) if result.active(tile)}
    active = [tile for tile, found in operations.items() if found is not None]
    if not active:
        return
    if stream.channel == 0:
        # Between other rows on this channel and these, and of one fifo the next.
        builder.sync()
    stream.receive(builder, mask_of(active))
    builder.on_tiles(operations.get, active)
    if context.streamed(weights.name):
        stream.receive_rest(builder, mask_of(active), weights)
        context.host.send(builder, weights.units, mask_of(active), stream.lanes)
        return
    sent = Sent(weights.name, context.pieces[weights.name], mask_of(active))
    (sender or send_rows)(builder, stream, sent)


def send_rows(builder: Builder, stream: WeightStream, sent: Sent) -> None:
    """Owners send words on channel B, a row each."""
    send(builder, sent.name, sent.pieces, sent.destination, twice=stream.single)


def send(
    builder: Builder,
    name: str,
    pieces: Sequence[Piece],
    destination: int,
    words: range | None = None,
    *,
    channel: int = 1,
    twice: bool = False,
) -> None:
    """Owners send words of an operand.

    Args:
        builder: the program.
        name: name of the operand.
        pieces: where its words lie.
        destination: tiles that receive them.
        words: which of them, all by default.
        channel: channel of the ring.
        twice: whether every word is sent twice.
    """
    at = 0
    for piece in pieces:
        low, high = 0, piece.words
        if words is not None:
            low, high = max(low, words.start - at), min(high, words.stop - at)
        at += piece.words
        if low >= high:
            continue
        loops = [(2, 0), (high - low, 1)] if twice else [(high - low, 1)]
        rows = rows_at(piece.row + low, loops)
        builder.emit(
            RingProduce(
                tiles=1 << piece.tile,
                wide=rows,
                token=Producer(0),
                wait=padded([builder.tokens.turn(channel, len(loops), rows.steps)], 2),
                channel=channel,
                destination=destination,
            ),
            Reference("wide.base", SymbolKind.OPERAND, name, Part.ROW, low, piece.group),
        )


def _operation(
    layer: Convolution,
    source: Image,
    result: Image,
    tile: int,
    plan: Plan,
    stream: WeightStream,
    first: int,
) -> TensorOp | None:
    """The tensor operation of one tile, for the blocks from one on."""
    height, width = layer.area(result, tile)
    if not height * width:
        return None
    (top, _), (left, _) = layer.positions(result, tile)
    rows, columns = layer.rows, layer.columns
    chunk, chunks, staged, blocks = plan.chunk, plan.chunks, plan.staged, plan.blocks
    positions = width * height
    start = source.address(
        tile, top * rows.stride - rows.before, left * columns.stride - columns.before
    )
    loops = [columns.kernel, rows.kernel, chunk, width, height]
    a = [
        (columns.kernel, source.depth * columns.dilation),
        (rows.kernel, source.pitch * rows.dilation),
        (chunk, WORD),
        (width, source.depth * columns.stride),
        (height, source.pitch * rows.stride),
    ]
    turns, ping_pong = stream.turns(QUARTER * staged, 2)
    reduction = 0b111
    if chunks > 1:
        loops.append(chunks)
        a.append((chunks, WORD * chunk))
        reduction |= 1 << 5
    outer = len(loops)
    loops.append(blocks)
    a.append((blocks, 0))
    in_memory = chunks > 1 and positions > 1
    if in_memory:
        sums = QUARTER * (stream.vector_rows - plan.sums)
        d = quarters_at(sums, [(staged, 0), (positions, QUARTER), (chunks, 0), (blocks, 0)])
    else:
        d = quarters_at(
            0, [(staged * chunks, 0), (positions, 0), (blocks, 0)], ping_pong=(1, QUARTER)
        )
    return TensorOp(
        op=Opcode.MAC,
        loops=loops_of(loops),
        a=bytes_at(start, a),
        b=bytes_at(
            result.address(
                tile,
                top * rows.phases + rows.phase,
                left * columns.phases + columns.phase,
                LANES * first,
            ),
            [
                (plan.lanes // WORD, WORD),
                (width, result.depth * columns.phases),
                (height, result.pitch * rows.phases),
                (blocks, LANES),
            ],
            part=(plan.last // WORD, 3) if plan.last != plan.lanes and blocks > 1 else None,
        ),
        c=quarters_at(
            QUARTER * stream.weights,
            [(staged, QUARTER), (positions, 0), *turns],
            ping_pong=ping_pong,
        ),
        d=d,
        avdata=Producer(3),
        parameters=Producer(2),
        wait=padded(stream.waits(5, outer), 6),
        trained=True,
        accumulate=not in_memory,
        block_level=outer,
        reduction=reduction,
        lanes=plan.lanes,
        lanes_last=plan.last,
        **stream.zero_points(layer.stage),  # type: ignore[arg-type]
        **stage_fields(layer.stage),  # type: ignore[arg-type]
    )
