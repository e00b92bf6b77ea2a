"""How does a depthwise convolution use all lanes of a tensor operation?

A tensor operation has 64 lanes, and a step feeds all of them with one word of four channels. One
position at a time would use four lanes. Here the lanes are a patch of positions and of groups of
channels. A step is one word of the patch's input window. A lane has the weights of its own
position for that word, or their zero point if the word is not in its window. Patches are chosen
for all layers together, because the weights of larger patches take more rows of wide memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fitzroy.base.errors import InternalError, UnsupportedError
from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Value
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder, Reference
from fitzroy.compiler.targets.edgetpu.kernels.contraction import Contraction, Lanes
from fitzroy.compiler.targets.edgetpu.kernels.tensor import Axis
from fitzroy.compiler.targets.edgetpu.kernels.transfers import produce
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import Vectors, WeightStream
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.halo import Blocks, Progress
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    PHASE_CYCLES,
    Context,
    Flow,
    Layer,
    Weights,
    Windows,
    filled,
)
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.lowerings.as_convolution import (
    image_operand,
    one_position,
    plain_convolution,
    windows_of,
)
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import (
    REST_ROWS,
    Sent,
    convolve,
    send_rows,
)
from fitzroy.compiler.targets.edgetpu.lowerings.delivery import Delivery
from fitzroy.compiler.targets.edgetpu.lowerings.functions import table_of
from fitzroy.compiler.targets.edgetpu.lowerings.patches import (
    FIFO_LANES,
    GROUPS,
    MOST_STAGED,
    Option,
    Patch,
    delivery_of,
    dense_patches,
    depthwise_patches,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    LANES,
    ROWS,
    TILES,
    WORD,
    Image,
    Placed,
    Window,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    SIGNED_OFFSET,
    OutputStage,
    filter_scales,
    output_stage,
)
from fitzroy.formats.object_file import OperandKind, Part, SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import BUFFER, INFEED_BUFFER
from fitzroy.hw_models.parameters import Prefix, WordKind, ZeroBias, prefix_for

_OPERAND_LANES = 16
"""Lanes of an operand's words are multiples of this."""


_FIFO_BLOCK = 64
"""Words of a row, which the fifo takes as a whole."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Depthwise(Layer):
    """A depthwise convolution of any kernel, stride, dilation, padding and multiplier.

    Attributes:
        in_channels: channels of the operand.
        channels: channels of the result.
        kernel: weights, uint8[channels, rows, columns].
        vectors: prefix words, float32, int32 or uint32[channels] each.
        zero_points: zero points of the weights, uint8[channels].
        rows: what it reads along rows.
        columns: what it reads along columns.
        stage: constants of the output stage.
        choice: what lanes compute; None until `choose_patches` has chosen.
    """

    in_channels: int
    channels: int
    kernel: Array
    vectors: Sequence[Array]
    zero_points: Array
    rows: Window
    columns: Window
    stage: OutputStage
    choice: Patch | None = None

    early: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    strips: ClassVar[bool] = True
    reading: ClassVar[bool] = True
    by_name: ClassVar[bool] = True

    def windows(self, index: int) -> Windows:
        """The window of the kernel."""
        return self.rows, self.columns

    @property
    def patch(self) -> Patch:
        """What lanes compute.

        Raises:
            InternalError: nobody has chosen it.
        """
        if self.choice is None:
            raise InternalError(f"no patch of {self.name!r} has been chosen")
        return self.choice

    @property
    def multiplier(self) -> int:
        """Output channels for each input channel."""
        return self.channels // self.in_channels

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Lanes are positions, and one group of channels comes after the other."""
        return self._patch_cycles(area, LANES // WORD, groups)

    def _patch_cycles(self, area: tuple[int, int], positions: int, words: int) -> float:
        """Estimated cycles of any patch: which one it will be shows when memory is known.

        Args:
            area: rows and columns of the tile that has most.
            positions: positions of a patch, at most.
            words: words that a position reads of each tap.
        """
        height, width = area
        tall = min(height, math.isqrt(positions))
        wide = min(width, positions // max(tall, 1))
        patches = -(-height // max(tall, 1)) * -(-width // max(wide, 1))
        taps = ((tall - 1) * self.rows.stride + self.rows.kernel) * (
            (wide - 1) * self.columns.stride + self.columns.kernel
        )
        return max(patches, BEAGLE.timing.ring_row) * (taps * words) + PHASE_CYCLES

    def patches(
        self, areas: Sequence[tuple[int, int]], *, both: bool = False
    ) -> tuple[Option, ...]:
        """All patches that it may use for results of which tiles own so much.

        Args:
            areas: rows and columns of tiles.
            both: whether weights may come on both channels of the ring.
        """
        return depthwise_patches(
            self.rows,
            self.columns,
            self.in_channels,
            self.multiplier,
            len(self.vectors),
            tuple(areas),
            both=both,
        )

    def delivery(self, areas: Iterable[tuple[int, int]]) -> Delivery:
        """How its weights come, for results of which tiles own so many rows and columns."""
        return delivery_of(self.patch, self.in_channels, len(self.vectors), areas)

    def scatter(self, data: Array) -> None:
        """Put weights where patches have them.

        Args:
            data: uint8[block, tap row, tap column, word, row and column of the position, group and
                channel of the lane, byte]; holds zero points.
        """
        patch, out = self.patch, np.arange(self.channels)
        source = out // self.multiplier
        block, group, lane = out // (patch.groups * WORD), out // WORD % patch.groups, out % WORD
        word, byte = source // WORD % patch.words, source % WORD
        for place, tap, ky, kx in patch.taps():
            data[block, *tap, word, *place, group, lane, byte] = self.kernel[:, ky, kx]

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Slots of weights and of vectors."""
        return self.patch.slots * (self.patch.staged + len(self.vectors))

    def streaming_rows(self, tensors: Mapping[str, Placed]) -> int:
        """A unit may hold more than the last of packed words."""
        return self.staging_rows(tensors) + REST_ROWS

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """What patches read after the operand for positions that do not count."""
        if self.choice is None:
            return 0
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(source, Image)
        assert isinstance(result, Image)
        source, base = replace(source, base=0), 0
        for tile in range(TILES):
            if result.active(tile):
                block = Axis("block", self.patch.blocks(self.in_channels), WORD * self.patch.words)
                axes = [*_taps(self, source), *_positions(self, source, result, tile), block]
                ends = sum((axis.count - 1) * axis.read for axis in axes)
                base = max(base, _start(self, source, result, tile) + ends)
        return max(0, round_up(base + WORD - source.nbytes, WORD))

    def completes(self, tensors: Mapping[str, Placed]) -> Blocks | None:
        """Blocks of the patch; None if it reads into the result, or writes beyond what is owned."""
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(result, Image)
        above = source.base + source.nbytes
        end = above + self.scratch_bytes(tensors)
        if result.base < end and above < result.base + result.nbytes:
            return None
        for axis, strip in ((result.rows, self.patch.rows), (result.columns, self.patch.columns)):
            for begin, end in axis.owned:
                if end > begin and strip.covered(end - begin) > end - begin:
                    return None
        return Blocks(self.patch.blocks(self.in_channels), self.patch.groups)

    def progress(self, tensors: Mapping[str, Placed]) -> Progress | None:
        """Rows of every block, or blocks if patches have several rows or lie between each other.

        None if weights come through the scalar core's fifo, which has no turns on the ring.
        """
        blocks = None if self.choice is None else self.completes(tensors)
        if blocks is None or self.patch.packed:
            return None
        rows = self.patch.rows
        return Progress(blocks.count, rows=rows.positions == rows.spread == 1)

    def emit(self, context: Context) -> None:
        """Consumers of weights first, then the operations, then the owners of the weights."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        operand = self.weights[0]
        packed = self.patch.packed
        stream = WeightStream(
            staged=self.patch.staged,
            slots=self.patch.slots,
            chunks=1,
            blocks=self.patch.blocks(self.in_channels),
            prefix=len(self.vectors),
            vectors=Vectors(
                int(self.stage.scale_in_memory) + int(self.stage.bias_in_memory),
                self.stage.scale_in_memory,
                FIFO_LANES if packed else operand.lanes,
            ),
            top=context.top,
            channel=0 if packed or context.streamed(operand.name) else 1,
            beside=self.patch.beside,
        )
        convolve(
            context,
            self.weights,
            result,
            stream,
            lambda tile: _operation(self, source, result, tile, stream, context.flow),
            sender=_send_words if packed else send_rows,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(Depthwise):
    """A convolution of few output channels, all of them for several positions at a time.

    Its `kernel` is uint8[channels, rows, columns, input channels].
    """

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Lanes are positions and all groups of channels."""
        positions = max(1, LANES // WORD // groups)
        return self._patch_cycles(area, positions, -(-self.in_channels // WORD))

    def patches(
        self, areas: Sequence[tuple[int, int]], *, both: bool = False
    ) -> tuple[Option, ...]:
        """All patches that it may use for results of which tiles own so much."""
        return dense_patches(
            self.rows,
            self.columns,
            self.in_channels,
            self.channels,
            len(self.vectors),
            tuple(areas),
            both=both,
        )

    def scatter(self, data: Array) -> None:
        """Put weights where patches have them."""
        channels, height, width, depth = self.kernel.shape
        padded = np.empty((channels, height, width, round_up(depth, WORD)), np.uint8)
        padded[:] = np.broadcast_to(self.zero_points, channels).reshape(-1, 1, 1, 1)
        padded[..., :depth] = self.kernel
        group, lane = np.arange(channels) // WORD, np.arange(channels) % WORD
        for place, tap, ky, kx in self.patch.taps():
            # Channel, word, byte.
            weights = padded[:, ky, kx].reshape(channels, -1, WORD)
            data[0, *tap].transpose(3, 4, 0, 1, 2, 5)[group, lane, :, *place] = weights


# --- emission ------------------------------------------------------------------------------------


def _start(layer: Depthwise, source: Image, result: Image, tile: int) -> int:
    """Byte address of what the first tap of the first patch reads."""
    (top, _), (left, _) = result.owned(tile)
    rows, columns = layer.rows, layer.columns
    return source.address(
        tile, top * rows.stride - rows.before, left * columns.stride - columns.before
    )


def _taps(layer: Depthwise, source: Image) -> list[Axis]:
    """The axes that are summed over, innermost first."""
    patch = layer.patch
    taps = [
        Axis("word", patch.words, WORD),
        Axis("kx", patch.columns.taps, layer.columns.dilation * source.depth),
        Axis("ky", patch.rows.taps, layer.rows.dilation * source.pitch),
    ]
    return _used(taps) or taps[:1]


def _positions(layer: Depthwise, source: Image, result: Image, tile: int) -> list[Axis]:
    """Patches, from one to the next: between the outputs of a patch, and beyond."""
    height, width = result.area(tile)
    found = []
    for name, strip, extent, window, read, write in (
        ("x", layer.patch.columns, width, layer.columns, source.depth, result.depth),
        ("y", layer.patch.rows, height, layer.rows, source.pitch, result.pitch),
    ):
        stride = strip.stride(extent)
        read *= window.stride
        found += [
            Axis(f"{name} between", strip.offsets(extent), read, write),
            Axis(name, strip.count(extent), stride * read, stride * write),
        ]
    return _used(found)


def _used(axes: Sequence[Axis]) -> list[Axis]:
    """Loops that run more than once."""
    return [axis for axis in axes if axis.count > 1]


def _operation(
    layer: Depthwise,
    source: Image,
    result: Image,
    tile: int,
    stream: WeightStream,
    flow: Flow,
) -> TensorOp:
    """The tensor operation of one tile.

    Args:
        layer: the convolution.
        source: what it reads.
        result: what it computes.
        tile: the tile.
        stream: its weights.
        flow: what the phase brings and sends.
    """
    patch = layer.patch
    (top, _), (left, _) = result.owned(tile)
    groups = -(-layer.channels // WORD) - patch.groups * (stream.blocks - 1)
    spread = (
        ("lane x", patch.columns.positions, patch.columns.spread * result.depth),
        ("lane y", patch.rows.positions, patch.rows.spread * result.pitch),
    )
    positions = _positions(layer, source, result, tile)
    # A tile with a single row has no loop over rows.
    by_rows = flow.counts_rows and any(axis.name == "y" for axis in positions)
    return Contraction(
        source=_start(layer, source, result, tile),
        result=result.address(tile, top, left),
        taps=_taps(layer, source),
        positions=positions,
        chunk=Axis("chunk", 1),
        block=Axis("block", stream.blocks, WORD * patch.words, WORD * patch.groups),
        lanes=Lanes(
            patch.lanes,
            patch.lanes // patch.groups * groups,
            patch.groups,
            tuple(dim for dim in spread if dim[1] > 1),
        ),
        weights=stream,
        stage=layer.stage,
        publish="y" if by_rows else "block",
        acquire=flow.arrived(tile),
    ).operation()


def _send_words(builder: Builder, stream: WeightStream, sent: Sent) -> None:
    """The owner sends rows to the scalar core, whose fifo sends them on in words of four lanes."""
    tokens = builder.tokens
    words = stream.blocks * (stream.prefix + stream.staged) * FIFO_LANES
    blocks = -(-words // _FIFO_BLOCK)
    last = words - _FIFO_BLOCK * (blocks - 1)
    halves = walk(0, word=(_FIFO_BLOCK, 1), row=(blocks, 0), turn=("row", _FIFO_BLOCK))
    present, room = tokens.fifo(words, _FIFO_BLOCK * blocks)
    builder.emit(
        Infeed(
            memory=InfeedMemory.SCALAR,
            buffer=replace(halves, part=(last, "row")).traversal(INFEED_BUFFER),
            token=halves.each("row"),
            infed=halves.each("word"),
            wait=(present, None),
            destination=sent.destination,
            row_words=FIFO_LANES,
        )
    )
    builder.emit(
        Outfeed(
            buffer=halves.traversal(BUFFER),
            outfed=halves.each("word"),
            wait=(room,),
            row_words=_FIFO_BLOCK,
        )
    )
    (piece,) = sent.pieces
    builder.emit(
        produce(
            walk(piece.row, row=(1, 1), word=(piece.words, 1)),
            token="word",
            acquire=tokens.fifo_turns("word", piece.words),
            tiles=1 << piece.tile,
            channel=1,
        ),
        Reference("wide.base", SymbolKind.OPERAND, sent.name, Part.ROW, 0, piece.group),
    )


# --- parameters ----------------------------------------------------------------------------------


def packed_weights(layer: Depthwise) -> tuple[Weights, ...]:
    """The parameters of a layer for its patch, divided if both channels of the ring bring some."""
    patch = layer.patch
    rows, columns, words, groups = patch.rows, patch.columns, patch.words, patch.groups
    blocks = patch.blocks(layer.in_channels)
    # Lanes without a channel add nothing: their weights are the zero point of the instruction,
    # or that of their vector, which is 0.
    filler = 0 if layer.stage.zero_points_in_memory else layer.zero_points[0]
    zero = np.full(blocks * groups * WORD, filler, np.uint8)
    zero[: layer.channels] = layer.zero_points
    # Block, tap, word; row and column of the position, group and channel of the lane; byte.
    shape = (blocks, rows.taps, columns.taps, words, rows.positions, columns.positions)
    data = np.empty((*shape, groups, WORD, WORD), np.uint8)
    data[:] = zero.reshape(blocks, 1, 1, 1, 1, 1, groups, WORD, 1)
    layer.scatter(data)
    lanes = FIFO_LANES if patch.packed else round_up(patch.lanes, _OPERAND_LANES)
    count = blocks * (len(layer.vectors) + patch.staged)
    packed = np.zeros((blocks, len(layer.vectors) + patch.staged, lanes * WORD), np.uint8)
    positions = rows.positions * columns.positions
    for number in range(blocks):
        # The last block may have fewer groups, and its lanes then are as many fewer.
        held = min(groups, -(-layer.channels // WORD) - groups * number)
        used = held * positions * WORD * WORD
        for index, values in enumerate(layer.vectors):
            vector = np.zeros(blocks * groups * WORD, values.dtype)
            vector[: layer.channels] = values
            part = vector.reshape(blocks, groups, WORD)[number, :held]
            packed[number, index, :used] = np.tile(part.reshape(-1), positions).view(np.uint8)
        packed[number, len(layer.vectors) :, :used] = data[number, ..., :held, :, :].reshape(
            patch.staged, used
        )
    if patch.packed:
        lanes, count = LANES, patch.parameter_rows(layer.in_channels, len(layer.vectors))
    found = Weights(
        layer.name,
        OperandKind.PACKED if patch.packed else OperandKind.CONVOLUTION,
        lanes,
        0 if patch.packed else len(layer.vectors),
        filled(packed),
        count,
    )
    return found.parted(blocks, patch.staged, patch.beside) if patch.beside else (found,)


# --- legalization --------------------------------------------------------------------------------


_WORTH = 0.9
"""Part of the cycles of one position at a time from which on several are computed."""


@legalizes("conv_2d")
def _convolution(legalizer: Legalizer, call: Call) -> None:
    patches = _dense_options(legalizer, call)
    # The first has a single position.
    if not patches or min(one.cycles for one in patches) > _WORTH * patches[0].cycles:
        plain_convolution(legalizer, call)
        return
    kernel, zero_points = _unsigned(call.operand(1))
    if call.node.op == "depthwise_conv_2d":
        kernel = kernel.transpose(3, 1, 2, 0)
    channels, height, width, depth = kernel.shape
    prefix, vectors = _vectors(call, zero_points)
    rows, columns = _reach(legalizer, call, (height, width))
    legalizer.layers.append(
        Dense(
            name=call.node.name,
            reads=(image_operand(legalizer, call),),
            writes=call.node.outputs[0],
            in_channels=depth,
            channels=channels,
            kernel=kernel,
            vectors=vectors,
            zero_points=zero_points,
            rows=rows,
            columns=columns,
            stage=output_stage(call, prefix),
            table=table_of(call),
        )
    )


def _reach(legalizer: Legalizer, call: Call, kernel: tuple[int, int]) -> tuple[Window, Window]:
    return windows_of(call, kernel, legalizer.padding_of(call.node.inputs[0] or ""))


def _dense_options(legalizer: Legalizer, call: Call) -> list[Option]:
    """Patches of a convolution, if it may have any, one position first."""
    _, height, width, depth = call.operand(1).type.shape
    _, down, across, channels = call.result.type.shape
    if call.node.op == "depthwise_conv_2d":
        depth = 1
    if 2 * channels > LANES or height * width == 1 or depth != call.type(0).shape[3]:
        return []
    if one_position(legalizer, call) or not legalizer.options.recipes.patches:
        return []
    area = (-(-down // ROWS), -(-across // COLUMNS))
    rows, columns = _reach(legalizer, call, (height, width))
    found = dense_patches(rows, columns, depth, channels, 2, (area,))
    return [option for option in found if option.held <= MOST_STAGED[0]]


@requires("depthwise_conv_2d")
def _lanes(call: Call) -> Iterator[Reject]:
    """The lanes of a tile are for few results of each channel."""
    depth, channels = call.type(0).shape[3], call.type(1).shape[3]
    multiplier = channels // depth
    if depth > 1 and multiplier > GROUPS:
        yield refused(
            call,
            f"makes {multiplier} channels of each; the lanes of a tile are for up to {GROUPS}",
            "split it by channels",
        )


@legalizes("depthwise_conv_2d")
def _depthwise(legalizer: Legalizer, call: Call) -> None:
    depth, weights = call.type(0).shape[3], call.operand(1)
    _, height, width, channels = weights.type.shape
    if depth == 1:
        # With a single input channel it is an ordinary convolution.
        _convolution(legalizer, call)
        return
    kernel, zero_points = _unsigned(weights)
    prefix, vectors = _vectors(call, zero_points)
    margin = legalizer.padding_of(call.node.inputs[0] or "")
    rows, columns = windows_of(call, (height, width), margin)
    legalizer.layers.append(
        Depthwise(
            name=call.node.name,
            reads=(image_operand(legalizer, call),),
            writes=call.node.outputs[0],
            in_channels=depth,
            channels=channels,
            kernel=np.moveaxis(kernel[0], 2, 0),
            vectors=vectors,
            zero_points=zero_points,
            rows=rows,
            columns=columns,
            stage=output_stage(call, prefix),
            table=table_of(call),
        )
    )


def _unsigned(value: Value) -> tuple[Array, Array]:
    """Weights as the chip holds them, and their zero points, one or one per channel."""
    quantization, data = value.type.quantization, value.data
    if quantization is None or data is None or value.type.dtype not in (DType.UINT8, DType.INT8):
        raise UnsupportedError(f"the weights {value.name!r} are not an 8-bit constant")
    if value.type.dtype is DType.UINT8:
        return data, np.array(quantization.zero_point, np.uint8)
    moved = np.array(quantization.zero_point) + SIGNED_OFFSET
    return data.view(np.uint8) ^ np.uint8(SIGNED_OFFSET), moved.astype(np.uint8)


def _vectors(call: Call, zero_points: Array) -> tuple[Prefix, list[Array]]:
    """What precedes the weights of each block."""
    weights, bias = call.operand(1), call.optional(2)
    scales, quantization = filter_scales(call), weights.type.quantization
    assert quantization is not None
    if bias is not None and (bias.data is None or bias.type.dtype is not DType.INT32):
        raise UnsupportedError(f"the biases {bias.name!r} are not an int32 constant")
    biases = None if bias is None or bias.data is None else bias.data.reshape(-1)
    per_channel = not quantization.is_per_tensor
    prefix = prefix_for(scales, biases, per_channel=per_channel, zero_bias=ZeroBias.KEEP)
    values = {
        WordKind.SCALE: np.asarray(scales, np.float32),
        WordKind.BIAS: None if biases is None else np.asarray(biases, np.int32),
        WordKind.ZERO_POINT: zero_points.astype(np.uint32),
    }
    return prefix, [value for kind in prefix.kinds if (value := values[kind]) is not None]
