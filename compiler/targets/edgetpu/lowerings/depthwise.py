"""Depthwise convolutions: several positions of the result, and several channels, at a time.

A tensor operation has 64 lanes, and a step feeds all of them with one word of four channels. A
depthwise convolution that computes one position at a time would use four of them. Here lanes are a
patch of positions, and of groups of channels: a step is one word of the patch's input window, and
the weights of a lane are those of its own position for that word, or their zero point if the word
does not belong to its window. Patches are chosen for all layers together, because the weights of
larger ones take more rows of wide memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from typing import ClassVar

import numpy as np

from fitzroy.base.errors import InternalError, UnsupportedError
from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Value
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder, Reference
from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS
from fitzroy.compiler.targets.edgetpu.kernels.contraction import Contraction, Lanes
from fitzroy.compiler.targets.edgetpu.kernels.tensor import Axis
from fitzroy.compiler.targets.edgetpu.kernels.transfers import produce
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import Vectors, WeightStream
from fitzroy.compiler.targets.edgetpu.layers.halo import Blocks
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    PHASE_CYCLES,
    Context,
    Layer,
    Step,
    Weights,
    Window,
    filled,
)
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options, Recipes
from fitzroy.compiler.targets.edgetpu.lowerings.as_convolution import (
    image_operand,
    one_position,
    plain_convolution,
    reach,
)
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import (
    REST_ROWS,
    Convolution,
    Sent,
    convolve,
    fewest_slots,
    pipeline,
    published_slots,
    send_rows,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    LANES,
    ROWS,
    TILES,
    WORD,
    Image,
    Placed,
    Reach,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Axis as ImageAxis
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    SIGNED_OFFSET,
    OutputStage,
    output_stage,
)
from fitzroy.formats.object_file import OperandKind, Part, SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import BUFFER, INFEED_BUFFER
from fitzroy.hw_models.parameters import Prefix, WordKind, ZeroBias, effective_scale, prefix_for

_GROUPS = LANES // WORD
"""Groups of four lanes."""

_OPERAND_LANES = 16
"""Lanes of an operand's words are multiples of this."""

_MOST_ROWS = (640, 320, 192, 128, 96, 64, 0)
"""Limits of the weight rows in staging that are tried, because it takes rows of all tiles."""

_MOST_SLOTS = 8
"""More slots of staging than these hide nothing that fewer do not."""

_FIFO_LANES = WORD
"""Lanes of the words that the scalar core's fifo makes of rows."""

_FIFO_BLOCK = 64
"""Words of a row, which the fifo takes as a whole."""

_SPARE = 0.99
"""Part of wide memory that is filled; some rows are lost between operands."""


@dataclass(frozen=True, slots=True)
class Strip:
    """How the outputs along an axis form patches.

    With a dilation, the positions of a patch are those whose windows share elements, and the ones
    between them belong to other patches.

    Attributes:
        reach: what an output reads.
        positions: outputs of a patch.
    """

    reach: Reach
    positions: int

    @property
    def spread(self) -> int:
        """Distance of the outputs of a patch."""
        return self.reach.dilation // math.gcd(self.reach.dilation, self.reach.stride)

    @property
    def step(self) -> int:
        """Distance of their windows, in taps."""
        return self.reach.stride // math.gcd(self.reach.dilation, self.reach.stride)

    @property
    def taps(self) -> int:
        """Elements that a patch reads."""
        return (self.positions - 1) * self.step + self.reach.kernel

    def offsets(self, extent: int) -> int:
        """Patches between the outputs of a patch."""
        return min(self.spread, extent)

    def count(self, extent: int) -> int:
        """Patches one behind the other."""
        return -(-extent // (self.positions * self.spread))

    def stride(self, extent: int) -> int:
        """Outputs from one patch to the next: less than a patch if they then end together."""
        length, count = self.positions * self.spread, self.count(extent)
        if self.spread == 1 and count > 1 and (extent - length) % (count - 1) == 0:
            return (extent - length) // (count - 1)
        return length

    def patches(self, extent: int) -> int:
        """Patches of an extent."""
        return self.offsets(extent) * self.count(extent)

    def covered(self, extent: int) -> int:
        """Outputs from the first to the last that patches compute, at least the extent."""
        last = (self.count(extent) - 1) * self.stride(extent) + self.offsets(extent) - 1
        return last + (self.positions - 1) * self.spread + 1


@dataclass(frozen=True, slots=True)
class Patch:
    """What the lanes of a tensor operation compute.

    Attributes:
        rows: positions along rows.
        columns: positions along columns.
        words: words of input channels.
        groups: groups of four output channels.
        slots: blocks of weights that a tile can hold.
        packed: whether the words of weights share rows of wide memory. They have four lanes then,
            and reach tiles through the scalar core's fifo, which cuts rows into words.
    """

    rows: Strip
    columns: Strip
    words: int
    groups: int
    slots: int = SLOTS
    packed: bool = False

    @property
    def lanes(self) -> int:
        """Lanes that are used."""
        return WORD * self.groups * self.rows.positions * self.columns.positions

    @property
    def staged(self) -> int:
        """Weight rows of a block, and steps of a patch."""
        return self.words * self.rows.taps * self.columns.taps

    def blocks(self, in_channels: int) -> int:
        """Blocks of so many input channels."""
        return -(-in_channels // (WORD * self.words))

    def taps(self) -> Iterator[tuple[tuple[int, int], tuple[int, int], int, int]]:
        """Positions, and for each element of their kernels the tap that it is multiplied with."""
        rows, columns = self.rows, self.columns
        for y, x in np.ndindex(rows.positions, columns.positions):
            for ky, kx in np.ndindex(rows.reach.kernel, columns.reach.kernel):
                yield (y, x), (y * rows.step + ky, x * columns.step + kx), ky, kx

    def parameter_rows(self, in_channels: int, vectors: int) -> int:
        """Rows of wide memory for the parameters, with so many vectors of each block."""
        words = self.blocks(in_channels) * (vectors + self.staged)
        return -(-words // (LANES // _FIFO_LANES)) if self.packed else words


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
    rows: Reach
    columns: Reach
    stage: OutputStage
    choice: Patch | None = None

    streams: ClassVar[bool] = True
    strips: ClassVar[bool] = True
    reading: ClassVar[bool] = True
    by_name: ClassVar[bool] = True

    def windows(self, index: int) -> Window:
        """The kernel."""
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

    def patches(self, areas: Sequence[tuple[int, int]]) -> tuple[_Option, ...]:
        """All patches that it may use for results of which tiles own so much."""
        return _depthwise_patches(
            self.rows,
            self.columns,
            self.in_channels,
            self.multiplier,
            len(self.vectors),
            tuple(areas),
        )

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
        """Blocks of its patch, unless patches write over windows, or read those of the result."""
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(result, Image)
        behind = source.base + source.nbytes
        end = behind + self.scratch_bytes(tensors)
        if result.base < end and behind < result.base + result.nbytes:
            return None
        for axis, strip in ((result.rows, self.patch.rows), (result.columns, self.patch.columns)):
            for begin, end in axis.owned:
                if end > begin and strip.covered(end - begin) > end - begin:
                    return None
        return Blocks(self.patch.blocks(self.in_channels), self.patch.groups)

    def emit(self, context: Context) -> None:
        """Consumers of weights first, then the operations, then the owners of the weights."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        (operand,) = self.weights
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
                _FIFO_LANES if packed else operand.lanes,
            ),
            top=context.builder.staging,
            channel=0 if packed or context.streamed(operand.name) else 1,
        )
        convolve(
            context,
            operand,
            result,
            stream,
            lambda tile: _operation(self, source, result, tile, stream),
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

    def patches(self, areas: Sequence[tuple[int, int]]) -> tuple[_Option, ...]:
        """All patches that it may use for results of which tiles own so much."""
        return _dense_patches(
            self.rows,
            self.columns,
            self.in_channels,
            self.channels,
            len(self.vectors),
            tuple(areas),
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
    """What is summed over."""
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
    layer: Depthwise, source: Image, result: Image, tile: int, stream: WeightStream
) -> TensorOp:
    """The tensor operation of one tile."""
    patch = layer.patch
    (top, _), (left, _) = result.owned(tile)
    groups = -(-layer.channels // WORD) - patch.groups * (stream.blocks - 1)
    spread = (
        ("lane x", patch.columns.positions, patch.columns.spread * result.depth),
        ("lane y", patch.rows.positions, patch.rows.spread * result.pitch),
    )
    return Contraction(
        source=_start(layer, source, result, tile),
        result=result.address(tile, top, left),
        taps=_taps(layer, source),
        positions=_positions(layer, source, result, tile),
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
    ).operation()


def _send_words(builder: Builder, stream: WeightStream, sent: Sent) -> None:
    """The owner sends rows to the scalar core, whose fifo sends them on in words of four lanes."""
    tokens = builder.tokens
    words = stream.blocks * (stream.prefix + stream.staged) * _FIFO_LANES
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
            row_words=_FIFO_LANES,
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


# --- choice of patches ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Option:
    """A patch for a layer: what it costs, and how long the layer then takes.

    Attributes:
        patch: the patch.
        rows: rows of wide memory for the parameters.
        cycles: estimated cycles.
        held: rows of wide memory in staging.
        paired: whether two slots take turns, or each block has its own, as in published programs.
    """

    patch: Patch
    rows: int
    cycles: float
    held: int
    paired: bool


class Overlap(IntEnum):
    """Whose patches may reach beyond what tiles own, which takes narrow memory."""

    ALL = 0
    WHOLE = 1
    """Those of layers that do not run in strips."""
    NONE = 2


@dataclass(frozen=True, slots=True)
class Patches:
    """What lanes of depthwise convolutions compute.

    Attributes:
        layers: every layer with its patch.
        cycles: estimated cycles of all of them.
        compact: whether no other patches take fewer rows of wide memory.
    """

    layers: Mapping[Layer, Layer]
    cycles: float
    compact: bool


def choose_patches(
    steps: Iterable[Step],
    staging: int,
    overlap: Overlap = Overlap.ALL,
    options: Options = DEFAULT,
) -> Patches:
    """Choose the patches of all depthwise convolutions.

    Larger patches have fewer steps and more weights. Every layer starts with the fewest rows of
    weights, and those that save most cycles per row get more, until wide memory is full.

    Args:
        steps: all steps of the program.
        staging: rows at the top of wide memory that others use for data.
        overlap: whose patches may reach beyond what tiles own.
        options: what the program may use of the chip.
    """
    results: dict[Depthwise, list[Image]] = {}
    others = dict[Layer, None]()
    cycles = 0.0
    for step in steps:
        if isinstance(step.layer, Depthwise):
            assert isinstance(step.result, Image)
            results.setdefault(step.layer, []).append(step.result)
        else:
            others[step.layer] = None
            staging = max(staging, step.layer.staging_rows(step.tensors))
            if isinstance(step.layer, Convolution):
                cycles += step.layer.plan(step.result).cycles
    wanted = list(results)
    items = {id(item): item.words for layer in others for item in layer.weights}
    taken = sum(items.values())
    if not wanted:
        return Patches({}, 0.0, compact=True)
    # The weights of a layer that runs several times are sent as often.
    choices = [
        [
            replace(option, cycles=option.cycles * len(images))
            for option in _allowed(layer, images, overlap, options.recipes)
        ]
        for layer, images in results.items()
    ]
    cycles += sum(min(one.cycles for one in some) for some in choices)
    found: list[tuple[float, list[_Option], list[list[_Option]]]] = []
    for most in _MOST_ROWS:
        fitting = [
            [one for one in some if one.held <= most]
            or [min(some, key=lambda one: (one.held, one.cycles))]
            for some in choices
        ]
        held = max(one.held for some in fitting for one in some)
        room = int(_SPARE * options.free_rows(max(staging, held))) - taken
        chosen = _knapsack(fitting, room)
        rows = sum(one.rows for one in chosen)
        # What does not fit comes last, in the order of how much is missing.
        missing = 1e12 * max(0, rows - room)
        found.append((sum(one.cycles for one in chosen) + missing, chosen, fitting))
    _, best, fitting = min(found, key=lambda item: item[0])
    # Convolutions may spend the other half.
    best = _paired(best, fitting, options.recipes.cost * cycles / 2)
    return Patches(
        {
            layer: replace(layer, choice=option.patch)
            for layer, option in zip(wanted, best, strict=True)
        },
        sum(option.cycles for option in best),
        compact=all(
            option.rows <= min(one.rows for one in some)
            for option, some in zip(best, choices, strict=True)
        ),
    )


def _paired(
    chosen: Sequence[_Option], options: Sequence[Sequence[_Option]], budget: float
) -> list[_Option]:
    """Options with published numbers of slots instead of others, where they cost fewest cycles.

    Args:
        chosen: an option of each layer.
        options: all that each layer may have.
        budget: cycles that all of them may cost together.
    """
    result = list(chosen)
    swaps = []
    for index, (now, some) in enumerate(zip(chosen, options, strict=True)):
        paired = [one for one in some if one.paired and one.rows <= now.rows]
        if paired and not now.paired:
            one = min(paired, key=lambda one: one.cycles)
            swaps.append((one.cycles - now.cycles, index, one))
    for extra, index, one in sorted(swaps, key=lambda swap: swap[:2]):
        if extra <= budget:
            budget -= extra
            result[index] = one
    return result


def packed(layers: Iterable[Layer]) -> dict[Layer, Layer]:
    """Depthwise convolutions with the parameters for their patches."""
    return {
        layer: replace(layer, weights=(_weights(layer),))
        for layer in layers
        if isinstance(layer, Depthwise)
    }


def _allowed(
    layer: Depthwise, images: Sequence[Image], overlap: Overlap, recipes: Recipes
) -> Sequence[_Option]:
    """The patches that a layer may use; if all reach beyond what tiles own, all."""
    areas = _areas(images)
    options = _following(layer.patches(areas), recipes)
    if overlap is Overlap.ALL or (overlap is Overlap.WHOLE and len(images) == 1):
        return options
    return [
        option
        for option in options
        if all(
            option.patch.rows.covered(height) == height
            and option.patch.columns.covered(width) == width
            for height, width in areas
        )
    ] or options


def _following(options: Sequence[_Option], recipes: Recipes) -> Sequence[_Option]:
    """The patches that recipes allow; the first, which has a single position, if there are none."""
    return [
        one
        for one in options
        if (one.paired or recipes.cost < math.inf) and (recipes.patches or one.patch.packed)
    ] or options[:1]


def _areas(results: Iterable[Image]) -> list[tuple[int, int]]:
    """Different sizes of what tiles own of results."""
    return sorted(
        {image.area(tile) for image in results for tile in range(TILES) if image.active(tile)}
    )


@cache
def _depthwise_patches(
    rows: Reach,
    columns: Reach,
    in_channels: int,
    multiplier: int,
    vectors: int,
    areas: tuple[tuple[int, int], ...],
) -> tuple[_Option, ...]:
    """All patches of layers that are alike."""
    height, width = (max(extents) for extents in zip(*areas, strict=True))
    most, words = _GROUPS // multiplier, -(-in_channels // WORD)
    shapes = [
        Patch(Strip(rows, down), Strip(columns, across), count, count * multiplier)
        for across in range(1, min(most, width) + 1)
        for down in range(1, min(most // across, height) + 1)
        for count in range(1, min(most // (across * down), words) + 1)
    ]
    if multiplier == 1:
        shapes.append(Patch(Strip(rows, 1), Strip(columns, 1), 1, 1, packed=True))
    return tuple(
        _option(replace(shape, slots=slots), in_channels, vectors, areas)
        for shape in shapes
        for slots in range(fewest_slots(shape.staged), _MOST_SLOTS + 1)
        if slots <= SLOTS or shape.blocks(in_channels) % slots == 0
    )


@cache
def _dense_patches(
    rows: Reach,
    columns: Reach,
    in_channels: int,
    channels: int,
    vectors: int,
    areas: tuple[tuple[int, int], ...],
) -> tuple[_Option, ...]:
    """All patches of convolutions that are alike: they have a single block."""
    height, width = (max(extents) for extents in zip(*areas, strict=True))
    groups = -(-channels // WORD)
    most = _GROUPS // groups
    shapes = [
        Patch(Strip(rows, down), Strip(columns, across), -(-in_channels // WORD), groups, slots=1)
        for across in range(1, min(most, width) + 1)
        for down in range(1, min(most // across, height) + 1)
    ]
    return tuple(_option(shape, in_channels, vectors, areas) for shape in shapes)


def _option(
    patch: Patch, in_channels: int, vectors: int, areas: Iterable[tuple[int, int]]
) -> _Option:
    """What a patch costs."""
    timing, staged = BEAGLE.timing, patch.staged
    steps = staged * max(
        patch.rows.patches(height) * patch.columns.patches(width) for height, width in areas
    )
    row = timing.fifo_word * _FIFO_LANES if patch.packed else timing.ring_row
    return _Option(
        patch,
        patch.parameter_rows(in_channels, vectors),
        # Weights and steps of blocks overlap.
        pipeline(steps, row * (staged + vectors), patch.blocks(in_channels), patch.slots),
        patch.slots * (staged + vectors),
        published_slots(patch.slots, patch.blocks(in_channels)),
    )


def _knapsack(options: Sequence[Sequence[_Option]], room: int) -> list[_Option]:
    """One option of each layer, whose rows fit if possible."""
    chosen = [min(some, key=lambda one: (one.rows, one.cycles)) for some in options]
    room -= sum(one.rows for one in chosen)
    while True:
        best: tuple[float, int, _Option] | None = None
        for index, some in enumerate(options):
            now = chosen[index]
            for one in some:
                more, saved = one.rows - now.rows, now.cycles - one.cycles
                if saved <= 0 or more > room:
                    continue
                rate = saved / max(more, 1)
                if best is None or rate > best[0]:
                    best = (rate, index, one)
        if best is None:
            return chosen
        _, index, one = best
        room -= one.rows - chosen[index].rows
        chosen[index] = one


def with_room(steps: Iterable[Step]) -> dict[Placed, Placed]:
    """Results whose windows hold the positions that patches compute beyond what is owned."""
    found: dict[Placed, Placed] = {}
    for step in steps:
        layer, result = step.layer, step.result
        if isinstance(layer, Depthwise):
            assert isinstance(result, Image)
            found[result] = replace(
                result,
                rows=_with_slack(result.rows, layer.patch.rows),
                columns=_with_slack(result.columns, layer.patch.columns),
            )
    return found


def _with_slack(axis: ImageAxis, strip: Strip) -> ImageAxis:
    most = max(
        owned[0] - window[0] + strip.covered(owned[1] - owned[0])
        for owned, window in zip(axis.owned, axis.window, strict=True)
        if owned[0] < owned[1]
    )
    return replace(axis, slack=max(axis.slack, axis.slack + most - axis.most))


# --- parameters ----------------------------------------------------------------------------------


def _weights(layer: Depthwise) -> Weights:
    """The parameters of a layer for its patch."""
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
    lanes = _FIFO_LANES if patch.packed else round_up(patch.lanes, _OPERAND_LANES)
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
    return Weights(
        layer.name,
        OperandKind.PACKED if patch.packed else OperandKind.CONVOLUTION,
        lanes,
        0 if patch.packed else len(layer.vectors),
        filled(packed),
        count,
    )


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
        )
    )


def _reach(legalizer: Legalizer, call: Call, kernel: tuple[int, int]) -> tuple[Reach, Reach]:
    return reach(call, kernel, legalizer.padding_of(call.node.inputs[0] or ""))


def _dense_options(legalizer: Legalizer, call: Call) -> list[_Option]:
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
    found = _dense_patches(rows, columns, depth, channels, 2, (area,))
    return [option for option in found if option.held <= _MOST_ROWS[0]]


@legalizes("depthwise_conv_2d")
def _depthwise(legalizer: Legalizer, call: Call) -> None:
    depth, weights = call.type(0).shape[3], call.operand(1)
    _, height, width, channels = weights.type.shape
    if depth == 1:
        # With a single input channel it is an ordinary convolution.
        _convolution(legalizer, call)
        return
    multiplier = channels // depth
    if multiplier > _GROUPS:
        raise UnsupportedError(
            f"depthwise convolution {call.node.name!r} makes {multiplier} channels of each; the "
            f"lanes of a tile are for up to {_GROUPS}",
            hint="split it by channels",
        )
    kernel, zero_points = _unsigned(weights)
    prefix, vectors = _vectors(call, zero_points)
    margin = legalizer.padding_of(call.node.inputs[0] or "")
    rows, columns = reach(call, (height, width), margin)
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
        )
    )


def _unsigned(value: Value) -> tuple[Array, Array]:
    """Weights as the chip holds them, and their zero points, one or one per channel."""
    quantization, data = value.type.quantization, value.data
    if quantization is None or data is None or value.type.dtype not in (DType.UINT8, DType.INT8):
        raise UnsupportedError(f"the weights {value.name!r} are no 8-bit constant")
    if value.type.dtype is DType.UINT8:
        return data, np.array(quantization.zero_point, np.uint8)
    moved = np.array(quantization.zero_point) + SIGNED_OFFSET
    return data.view(np.uint8) ^ np.uint8(SIGNED_OFFSET), moved.astype(np.uint8)


def _vectors(call: Call, zero_points: Array) -> tuple[Prefix, list[Array]]:
    """What precedes the weights of each block."""
    weights, bias = call.operand(1), call.optional(2)
    source, result = call.type(0).quantization, call.result.type.quantization
    quantization = weights.type.quantization
    if source is None or result is None or quantization is None:
        raise UnsupportedError(f"the tensors of {call.node.name!r} are not quantized")
    if bias is not None and (bias.data is None or bias.type.dtype is not DType.INT32):
        raise UnsupportedError(f"the biases {bias.name!r} are no int32 constant")
    scales = effective_scale(source.scale[0], np.array(quantization.scale), result.scale[0])
    biases = None if bias is None or bias.data is None else bias.data.reshape(-1)
    per_channel = not quantization.is_per_tensor
    prefix = prefix_for(scales, biases, per_channel=per_channel, zero_bias=ZeroBias.KEEP)
    values = {
        WordKind.SCALE: np.asarray(scales, np.float32),
        WordKind.BIAS: None if biases is None else np.asarray(biases, np.int32),
        WordKind.ZERO_POINT: zero_points.astype(np.uint32),
    }
    return prefix, [value for kind in prefix.kinds if (value := values[kind]) is not None]
