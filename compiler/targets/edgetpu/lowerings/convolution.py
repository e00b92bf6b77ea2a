"""How is a convolution computed?

Owners send the weights over the ring to all tiles, in chunks that go through slots of wide memory.
Every tile computes its part of the image, one chunk of weights after the other. If several chunks
add to the sums of several positions, the partial sums lie in wide memory in between. `Blocking`
divides the channels, and `convolve` makes the instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache, lru_cache, partial
from itertools import zip_longest
from typing import ClassVar

from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder, mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS, Condition
from fitzroy.compiler.targets.edgetpu.kernels.contraction import Contraction, Lanes
from fitzroy.compiler.targets.edgetpu.kernels.tensor import Axis
from fitzroy.compiler.targets.edgetpu.kernels.transfers import consume
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import Vectors, WeightStream, send
from fitzroy.compiler.targets.edgetpu.layers.halo import Blocks, Progress
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    PHASE_CYCLES,
    Context,
    Layer,
    Weights,
    Windows,
)
from fitzroy.compiler.targets.edgetpu.lowerings.delivery import Delivery
from fitzroy.compiler.targets.edgetpu.memory.allocation import Piece
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Image,
    Interval,
    Placed,
    Window,
    most_windows,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.partial_sums import PUBLISHED_RUN
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.parameters import ConvolutionLayout

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


_KEPT = 1 << 12
"""Most results that are kept for further convolutions of the same extents."""

_NOVEL: dict[Hashable, int] = {}
"""Consumers of weights whose form is not published, by all that they depend on."""


class Staging(Enum):
    """How weights are staged. If two ways give the same blocking, it goes by the first of them.

    Attributes:
        PAIR: in two slots in turn, or in one for each chunk, as in published programs.
        MANY: in as many slots as hide the latency of chunks.
        WHOLE: all input channels of a block at a time, so that sums stay in accumulators.
    """

    PAIR = auto()
    MANY = auto()
    WHOLE = auto()


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution(Layer):
    """A convolution of any kernel, stride, dilation and padding.

    Attributes:
        layout: layout of its only weights, input channels outermost.
        channels: channels of the result; the layout may have more.
        rows: what it reads along rows.
        columns: what it reads along columns.
        stage: constants of the output stage.
        staging: how its weights are staged; `staging.choose_staging` chooses.
        both: whether its weights may come on both channels of the ring; there are weights for each
            of them if they do.
    """

    layout: ConvolutionLayout
    channels: int
    rows: Window
    columns: Window
    stage: OutputStage
    staging: Staging = Staging.PAIR
    both: bool = False

    early: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    strips: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    reading: ClassVar[bool] = True
    by_name: ClassVar[bool] = True

    def windows(self, index: int) -> Windows:
        """The window of the kernel."""
        return self.rows, self.columns

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Two slots of weights and of vectors, and partial sums."""
        result = tensors[self.writes]
        assert isinstance(result, Image)
        return Blocking.of(self, result).rows

    def positions(self, result: Image, tile: int) -> tuple[Interval, Interval]:
        """Numbers of the windows down and across whose results a tile owns."""
        rows, columns = result.owned(tile)
        return self.rows.numbers(rows), self.columns.numbers(columns)

    def area(self, result: Image, tile: int) -> tuple[int, int]:
        """Number of these windows, down and across."""
        (top, bottom), (left, right) = self.positions(result, tile)
        return bottom - top, right - left

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """A step for every word of weights and position."""
        # A tile takes as long to write a word as to add one up.
        words = sum(item.words for item in self.weights)
        steps = math.prod(area) * max(words, -(-self.channels // WORD))
        return max(steps, BEAGLE.timing.ring_row * words) + PHASE_CYCLES

    def completes(self, tensors: Mapping[str, Placed]) -> Blocks | None:
        """Blocks of 64 channels, unless only some are computed in the last phase."""
        if len(self.weights) > 1 and not self.weights[0].beside:
            return None
        blocks = -(-self.channels // LANES)
        return Blocks(blocks, min(LANES, round_up(self.channels, WORD)) // WORD)

    def progress(self, tensors: Mapping[str, Placed]) -> Progress | None:
        """Rows of every block, unless they are a part of those that tiles own."""
        blocks = self.completes(tensors)
        if blocks is None or self.rows.phases > 1 or self.columns.phases > 1:
            return None
        return Progress(blocks.count, rows=True)

    def emit(self, context: Context) -> None:
        """Consumers of weights first, then the operations, then the owners of the weights."""
        whole, first = Blocking.of(self, context.image(self.writes)), 0
        if len(self.weights) == 1 or self.weights[0].beside:
            self._emit(context, whole, self.weights, first)
            return
        for item in self.weights:
            if first:
                context.builder.barrier()
            last = whole.last if first + item.blocks == whole.blocks else whole.lanes
            lanes = whole.lanes if item.blocks > 1 else last
            blocking = replace(whole, blocks=item.blocks, lanes=lanes, last=last)
            self._emit(context, blocking, (item,), first)
            first += item.blocks

    def _emit(
        self, context: Context, blocking: Blocking, weights: Sequence[Weights], first: int
    ) -> None:
        """The blocks from one on of which there are weights."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        channel = 0 if context.streamed(weights[0].name) else 1
        stream = self._stream(blocking, context.top, channel)
        publish = "y" if context.flow.counts_rows else "block"
        convolve(
            context,
            weights,
            result,
            stream,
            _operations(
                self, source, result, blocking, stream, first, publish, arrived=context.flow.arrived
            ),
        )

    def _stream(self, blocking: Blocking, top: int, channel: int = 1) -> WeightStream:
        """Its weights on their way.

        Args:
            blocking: how it runs.
            top: one past the last row of wide memory for them.
            channel: channel of the ring.
        """
        return WeightStream(
            staged=blocking.staged,
            slots=blocking.slots,
            chunks=blocking.chunks,
            blocks=blocking.blocks,
            prefix=blocking.prefix,
            vectors=vectors_of(self.layout),
            top=top,
            channel=channel,
            beside=blocking.beside,
        )

    def novel(self, tensors: Mapping[str, Placed], top: int) -> int:
        """How many consumers of weights have a form that is not published.

        Args:
            tensors: tensors by name; where they lie makes no difference.
            top: one past the last row of wide memory for weights.
        """
        source, result = self._images(tensors)
        blocking = Blocking.of(self, result)
        stream = self._stream(blocking, top)
        key = self.rows, self.columns, self.stage, blocking, stream, source.shape, result.shape
        if key not in _NOVEL:
            if len(_NOVEL) >= _KEPT:
                _NOVEL.clear()
            consumers = self.consumers(tensors, top)
            _NOVEL[key] = sum(form(item) not in published() for item in consumers)
        return _NOVEL[key]

    def consumers(self, tensors: Mapping[str, Placed], top: int) -> list[Instruction]:
        """The instructions that take and use weights, as they are without any others around.

        Args:
            tensors: places of tensors by name.
            top: one past the last row of wide memory for weights.
        """
        source, result = self._images(tensors)
        blocking, builder = Blocking.of(self, result), Builder()
        stream, active = self._stream(blocking, top), [*filter(result.active, range(TILES))]
        stream.receive(builder, mask_of(active))
        builder.on_tiles(_operations(self, source, result, blocking, stream, 0), active)
        return [instruction for _, _, instruction in builder.program]

    def _images(self, tensors: Mapping[str, Placed]) -> tuple[Image, Image]:
        """What it reads, and what it computes."""
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(source, Image)
        assert isinstance(result, Image)
        return source, result

    def blocking(self, result: Placed) -> Blocking:
        """How its loops are blocked for a result."""
        assert isinstance(result, Image)
        return Blocking.of(self, result)


@dataclass(frozen=True, slots=True)
class Blocking:
    """How the loops of a convolution are blocked: chunks of input channels, blocks of output ones.

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
        both: whether both channels of the ring bring weights.
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
    both: bool = False

    @classmethod
    def of(cls, layer: Convolution, result: Image) -> Blocking:
        """The fastest blocking for which the layer's staging and wide memory have room."""
        return cls._fastest(
            groups=-(-layer.layout.in_channels // WORD),
            taps=layer.rows.kernel * layer.columns.kernel,
            channels=layer.channels,
            prefix=len(layer.layout.prefix.kinds),
            positions=most_windows(layer.rows, result.rows)
            * most_windows(layer.columns, result.columns),
            staging=layer.staging,
            both=layer.both,
        )

    @classmethod
    @lru_cache(_KEPT)
    def _fastest(
        cls,
        *,
        groups: int,
        taps: int,
        channels: int,
        prefix: int,
        positions: int,
        staging: Staging,
        both: bool,
    ) -> Blocking:
        """The fastest blocking for which there is room.

        Args:
            groups: groups of four input channels.
            taps: taps of the kernel.
            channels: output channels.
            prefix: words of vectors of a block.
            positions: most positions of a tile.
            staging: how weights are staged.
            both: whether both channels of the ring may bring weights.
        """
        blocks = -(-channels // LANES)
        depth = round_up(channels, WORD)
        limit = _WHOLE_ROWS if staging is Staging.WHOLE else _STAGED_ROWS
        # Sums of many positions are worth their rows if the weights of a block take even more.
        sums = max(_MOST_SUMS, SLOTS * groups * taps - _STAGED_ROWS)
        options = [
            cls(
                chunk,
                groups // chunk,
                chunk * taps,
                slots,
                blocks,
                prefix,
                positions,
                LANES if blocks > 1 else depth,
                depth - LANES * (blocks - 1),
                both,
            )
            for chunk in _chunks(groups, taps, positions)
            if chunk == groups or (positions <= sums and staging is not Staging.WHOLE)
            for slots in _slots(staging, groups // chunk, chunk * taps, blocks)
        ]
        fitting = [blocking for blocking in options if blocking.slots * blocking.staged <= limit]
        # If nothing fits, what takes the fewest rows.
        least = min(options, key=lambda blocking: blocking.rows)
        best = min(fitting or [least], key=lambda blocking: (blocking.cycles, blocking.rows))
        return replace(best, both=best.beside > 0)

    @property
    def sums(self) -> int:
        """Rows of wide memory for partial sums."""
        return self.positions if self.chunks > 1 and self.positions > 1 else 0

    @property
    def rows(self) -> int:
        """Rows of wide memory for data."""
        return self.slots * self.staged + SLOTS * self.prefix + self.sums

    @property
    def delivery(self) -> Delivery:
        """How its weights come."""
        words, total = self.lanes // WORD, (LANES * (self.blocks - 1) + self.last) // WORD
        if self.chunks == 1:
            # A single chunk also writes the words of its block, one a cycle. What is not written
            # yet does not keep the steps of the next block.
            most = max(self.staged, words)
            last = max(self.staged * self.blocks, total) - most * (self.blocks - 1)
        else:
            most = last = self.staged
        return Delivery(
            self.positions * most,
            self.staged,
            self.prefix,
            self.chunks,
            self.blocks,
            self.slots,
            self.lanes,
            self.positions * last,
        )

    @property
    def cycles(self) -> float:
        """Estimated cycles: the delivery of chunks overlaps with steps."""
        return self.delivery.cycles(self.beside) + BEAGLE.timing.phase

    @property
    def first(self) -> float:
        """Those of them before the first step."""
        return self.delivery.first(self.beside)

    @property
    def beside(self) -> int:
        """Rows of a chunk that come on channel A while the others come on B."""
        return self.delivery.beside if self.both else 0


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


def vectors_of(layout: ConvolutionLayout) -> Vectors:
    """The vectors of a layout that go to scaling memory."""
    prefix = layout.prefix
    return Vectors(int(prefix.scales) + int(prefix.biases), prefix.scales, layout.lanes)


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
    weights: Sequence[Weights],
    result: Image,
    stream: WeightStream,
    operation: Callable[[int], TensorOp | None],
    sender: Callable[[Builder, WeightStream, Sent], None] | None = None,
) -> None:
    """Consumers of weights first, then the operations, then the owners of the weights.

    Args:
        context: where things are.
        weights: the weights; those on channel B and those beside them on A, if both bring some.
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
    first, *others = weights
    if context.streamed(first.name):
        _receive_rest(builder, stream, mask_of(active), first)
        context.host.send(builder, first.units, mask_of(active), stream.vectors.lanes)
        return
    sent = Sent(first.name, context.pieces[first.name], mask_of(active))
    for other in others:
        _send_both(builder, sent, replace(sent, name=other.name, pieces=context.pieces[other.name]))
        return
    (sender or send_rows)(builder, stream, sent)


def _send_both(builder: Builder, first: Sent, other: Sent) -> None:
    """Owners send words on both channels; all are different tiles, so that none waits for another.

    Args:
        builder: the program.
        first: what goes on channel B.
        other: what goes on channel A.
    """
    for pieces in zip_longest(first.pieces, other.pieces):
        for channel, sent, piece in zip((1, 0), (first, other), pieces, strict=True):
            if piece is not None:
                send(builder, sent.name, [piece], sent.destination, channel=channel)


def _receive_rest(builder: Builder, stream: WeightStream, tiles: int, weights: Weights) -> None:
    """Tiles take what fills up the last unit of weights that come from the host."""
    rest = len(weights.data) // (WORD * stream.vectors.lanes) - stream.words
    if rest:
        rows = walk(stream.vector_rows - REST_ROWS, row=(rest, 0))
        builder.emit(consume(0, rows, publish=None, tiles=tiles))


def send_rows(builder: Builder, stream: WeightStream, sent: Sent) -> None:
    """Owners send words on channel B, a row each."""
    send(builder, sent.name, sent.pieces, sent.destination, twice=stream.single)


def _operations(
    layer: Convolution,
    source: Image,
    result: Image,
    blocking: Blocking,
    stream: WeightStream,
    first: int,
    publish: str = "block",
    arrived: Callable[[int], Sequence[Condition]] = lambda tile: (),
) -> Callable[[int], TensorOp | None]:
    """The tensor operations of tiles, for the blocks from one on; many tiles have the same."""
    rows, columns = layer.rows, layer.columns
    operation = cache(partial(_operation, layer, source, result, blocking, stream, publish))

    def of_tile(tile: int) -> TensorOp | None:
        area = layer.area(result, tile)
        if not math.prod(area):
            return None
        (top, _), (left, _) = layer.positions(result, tile)
        return operation(
            area,
            source.address(
                tile, top * rows.stride - rows.before, left * columns.stride - columns.before
            ),
            result.address(
                tile,
                top * rows.phases + rows.phase,
                left * columns.phases + columns.phase,
                LANES * first,
            ),
            tuple(arrived(tile)),
        )

    return of_tile


def _operation(
    layer: Convolution,
    source: Image,
    result: Image,
    blocking: Blocking,
    stream: WeightStream,
    publish: str,
    area: tuple[int, int],
    read: int,
    written: int,
    acquire: Sequence[Condition],
) -> TensorOp:
    """The tensor operation of tiles that compute an area at the same addresses.

    Args:
        layer: the convolution.
        source: what it reads.
        result: what it computes.
        blocking: how it runs.
        stream: its weights.
        publish: axis of which AVDATA counts iterations.
        area: windows down and across.
        read: address of the first element of the first window.
        written: address of its result.
        acquire: what is waited for beside weights.
    """
    height, width = area
    rows, columns = layer.rows, layer.columns
    across, down = source.depth, source.pitch
    return Contraction(
        source=read,
        result=written,
        taps=[
            Axis("kx", columns.kernel, across * columns.dilation),
            Axis("ky", rows.kernel, down * rows.dilation),
            Axis("word", blocking.chunk, WORD),
        ],
        positions=[
            Axis("x", width, across * columns.stride, result.depth * columns.phases),
            Axis("y", height, down * rows.stride, result.pitch * rows.phases),
        ],
        chunk=Axis("chunk", blocking.chunks, WORD * blocking.chunk),
        block=Axis("block", blocking.blocks, 0, LANES),
        lanes=Lanes.channels(blocking.lanes, blocking.last),
        weights=stream,
        sums=blocking.sums,
        stage=layer.stage,
        publish=publish,
        acquire=acquire,
    ).operation()
