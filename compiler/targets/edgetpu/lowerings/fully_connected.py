"""Fully connected layers: every tile gathers the whole input and computes blocks of channels.

Tiles have the weights of their blocks in their own wide memory. Blocks that are too long for that
are spread over all tiles, and come over the ring like those of convolutions; so do blocks for which
there is no room, from the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.targets.edgetpu.instructions.builder import Reference
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, full
from fitzroy.compiler.targets.edgetpu.kernels.contraction import Contraction, Lanes
from fitzroy.compiler.targets.edgetpu.kernels.tensor import QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import WeightStream, send
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Deferred, Layer, Weights
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, filter_operand, legalizes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.lowerings.batch_matmul import multiplied_rows
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import vectors_of
from fitzroy.compiler.targets.edgetpu.lowerings.functions import table_of
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Placed,
    Vector,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage, output_stage
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import (
    gather,
    gather_rows,
    is_vector,
    linear_bytes,
)
from fitzroy.formats.object_file import UNIT_BYTES, OperandKind, Part, SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.fields import TileFlag
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.parameters import ConvolutionLayout, WordOrder, pack


@dataclass(frozen=True, eq=False, kw_only=True)
class FullyConnected(Layer):
    """A product of a matrix with all values of a tensor.

    Weights are read in place, those of a block of every tile in a pass, or come over the ring, from
    their owners or from the host. There are weights for consecutive blocks, whose number is that
    of all tiles if they are read in place and others follow.

    Attributes:
        layout: layout of all weights, in the order of a linear copy of the operand.
        stage: constants of the output stage.
    """

    layout: ConvolutionLayout
    stage: OutputStage

    makes_vector: ClassVar[bool] = True
    fills_blocks: ClassVar[bool] = True
    gathers: ClassVar[bool] = True
    doubled: ClassVar[bool] = True
    streams: ClassVar[bool] = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Those of the gather, and of weights that come over the ring."""
        if any(item.kind is not OperandKind.FULLY_CONNECTED for item in self.weights):
            return self.streaming_rows(tensors)
        return gather_rows(tensors[self.reads[0]])

    def streaming_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Those of the gather, and later two slots of weights and vectors."""
        return max(gather_rows(tensors[self.reads[0]]), -self._stream(1, 0).vector_rows)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for the operand, which every tile gathers."""
        return linear_bytes(tensors[self.reads[0]])

    def emit(self, context: Context) -> None:
        """The gather, then the blocks in their order."""
        result = context.vector(self.writes)
        gather(context, context.tensors[self.reads[0]], context.scratch, result.tiles)
        first = 0
        for channel, items in groupby(self.weights, lambda item: _channel(context, item)):
            if channel is None:
                for item in items:
                    # The engine that loads vectors has taken the whole operand before.
                    if first or not vectors_of(self.layout).count:
                        context.builder.barrier()
                    self._pass(context, result, first // TILES, item)
                    first += item.blocks
                continue
            some = list(items)
            self._relay(context, result, first, some, channel)
            first += sum(item.blocks for item in some)

    def _pass(self, context: Context, result: Vector, number: int, item: Weights) -> None:
        """Operations of one block of every tile, which has its weights."""
        builder, layout = context.builder, self.layout
        stage, vectors = self.stage, vectors_of(layout)
        widths: dict[int, int] = {}
        for block in range(TILES * number, TILES * number + item.blocks):
            lanes = result.computed(block)
            widths[lanes] = widths.get(lanes, 0) | 1 << result.owner(block)
        group = context.pieces[item.name][0].group

        def row(place: str, part: Part, addend: int) -> Reference:
            return Reference(place, SymbolKind.OPERAND, item.name, part, addend, group)

        if vectors.count:
            rows = walk(0, vector=(vectors.count, 1))
            load = vectors.load(rows, 1, [], tiles=sum(widths.values()))
            builder.emit(load, row("wide.base", Part.ROW, 0))
        references = [row("c.base", Part.QUARTER_ROW, QUARTER * layout.prefix_words)]
        zero_points: dict[str, Any] = {}
        if stage.zero_points_in_memory:
            zero_points = {"zero_point_step": 1}
            last = layout.prefix_words - 1
            references += [
                row(place, Part.ROW, last) for place in ("zero_point_base", "zero_point_last")
            ]
        for lanes, tiles in widths.items():
            operation = moves(
                context.scratch,
                result.base + LANES * number,
                0,
                [Axis("word", layout.weight_words, WORD, 0, QUARTER)],
                [Axis("block", 1)],
                stage,
                acquire=[full(TileFlag.WIDE_TO_SCALING, "block")] if vectors.count else [],
                publish=WHOLE,
                release="block",
                block="block",
                lanes=lanes,
                tiles=tiles,
                trained=True,
                **zero_points,
            )
            # A single sum needs no second accumulator.
            sums = walk(0, word=(layout.weight_words, 0))
            builder.emit(replace(operation, d=sums.quarters), *references)

    def _stream(self, blocks: int, top: int, channel: int = 1) -> WeightStream:
        layout = self.layout
        steps = layout.weight_words
        staged = max(part for part in range(1, _STAGED + 1) if steps % part == 0)
        return WeightStream(
            staged=staged,
            chunks=steps // staged,
            blocks=blocks,
            prefix=layout.prefix_words,
            vectors=vectors_of(layout),
            top=top,
            channel=channel,
        )

    def _relay(
        self,
        context: Context,
        result: Vector,
        first: int,
        items: Sequence[Weights],
        channel: int,
    ) -> None:
        """Consumers, operations, and then the senders, of blocks that come over the ring."""
        builder = context.builder
        if channel == 0:
            # The gather used the same channel.
            builder.sync()
        else:
            builder.barrier()
        blocks = range(first, first + sum(item.blocks for item in items))
        mine = {tile: [b for b in result.held(tile) if b in blocks] for tile in result.tiles}
        counts: dict[int, int] = {}
        for tile, some in mine.items():
            if some:
                counts[len(some)] = counts.get(len(some), 0) | 1 << tile
        streams = {count: self._stream(count, builder.staging, channel) for count in counts}
        for count, tiles in counts.items():
            streams[count].receive(builder, tiles)

        def operation(tile: int) -> TensorOp | None:
            some = mine[tile]
            return self._operation(context, result, streams[len(some)], some) if some else None

        builder.on_tiles(operation, result.tiles)
        for item in items:
            for number in range(item.blocks):
                builder.room(_MOST_BUNDLES)
                owner = result.owner(first + number)
                self._send(context, item, number, owner, twice=streams[len(mine[owner])].single)
            first += item.blocks

    def _send(
        self, context: Context, item: Weights, number: int, tile: int, *, twice: bool
    ) -> None:
        """Send a block of weights to its tile."""
        words, lanes = self.layout.block_words, self.layout.lanes
        if context.streamed(item.name):
            context.host.send(context.builder, words * WORD * lanes // UNIT_BYTES, 1 << tile, lanes)
        else:
            some = range(words * number, words * (number + 1))
            send(
                context.builder, item.name, context.pieces[item.name], 1 << tile, some, twice=twice
            )

    def _operation(
        self, context: Context, result: Vector, stream: WeightStream, held: Sequence[int]
    ) -> TensorOp:
        """The operation of a tile on the blocks that it gets."""
        blocks, lanes, last = len(held), result.computed(held[0]), result.computed(held[-1])
        staged, chunks = stream.staged, stream.chunks
        return Contraction(
            source=context.scratch,
            result=result.base + LANES * (held[0] // TILES),
            taps=[Axis("word", staged, WORD)],
            positions=None,
            chunk=Axis("chunk", chunks, WORD * staged),
            block=Axis("block", blocks, 0, LANES),
            lanes=Lanes.channels(lanes, last),
            weights=stream,
            stage=self.stage,
        ).operation()


_STAGED = 64
"""Weight rows that are staged at a time, at most."""

_RESIDENT = BEAGLE.memories.wide.elements * 7 // 8
"""Rows of the longest blocks that tiles have themselves."""

_MOST_BUNDLES = 4 * TILES
"""Bundles that send a block."""


def _channel(context: Context, item: Weights) -> int | None:
    """Channel of the ring on which weights come, None if they are read in place."""
    if context.streamed(item.name):
        return 0
    return None if item.kind is OperandKind.FULLY_CONNECTED else 1


def _layer(legalizer: Legalizer, call: Call) -> FullyConnected:
    source = legalizer.place(call.node.inputs[0] or "")
    operand = filter_operand(legalizer.graph, call.node)
    assert isinstance(operand.layout, ConvolutionLayout)
    shape = legalizer.type(source).shape
    size = legalizer.type(source).size
    window = (1, 1, size) if is_vector(legalizer, source) else shape[1:]
    layout = replace(
        operand.layout,
        kernel=(window[0], window[1]),
        in_channels=window[2],
        order=WordOrder.IC_INNER,
        fully_connected=True,
    )
    graph, node = legalizer.graph, call.node

    def packed() -> Array:
        parameters = filter_operand(graph, node).parameters
        weights = parameters.weights.reshape(layout.weight_shape)
        return np.frombuffer(pack(layout, replace(parameters, weights=weights)), np.uint8)

    name, lanes, prefix = call.node.name, layout.lanes, layout.prefix_words
    words, blocks = layout.block_words, layout.blocks
    resident = words <= _RESIDENT
    step = TILES if resident else blocks
    kind = OperandKind.FULLY_CONNECTED if resident else OperandKind.CONVOLUTION
    # Those that tiles have themselves are small, and several operands share what is packed.
    if blocks <= step:
        data = Deferred(layout.nbytes, packed)
        weights = [Weights(name, kind, lanes, prefix, data, words * blocks, blocks)]
    else:
        every, weights = packed(), []
        unit = len(every) // blocks
        for number, first in enumerate(range(0, blocks, step)):
            count = min(step, blocks - first)
            part = every[unit * first : unit * (first + count)]
            title = f"{name}/{number}"
            weights.append(Weights(title, kind, lanes, prefix, part, words * count, count))
    return FullyConnected(
        name=name,
        reads=(source,),
        writes=call.node.outputs[0],
        weights=tuple(weights),
        layout=layout,
        stage=output_stage(call, layout.prefix),
        table=table_of(call),
    )


@requires("fully_connected")
def _no_biases(call: Call) -> Iterator[Reject]:
    """Products of computed matrices have no biases."""
    if not call.operand(1).is_constant and call.optional(2) is not None:
        yield refused(call, "adds biases to a product with computed weights", "add them after it")


def _product(legalizer: Legalizer, call: Call, attributes: FullyConnectedAttributes) -> None:
    """Rows of the operand times a computed matrix, whose rows are the columns of the product."""
    rewriting, after, weights = Rewriting.of(legalizer, call), call.result.type, call.operand(1)
    channels, depth = weights.type.shape
    rows = after.size // channels
    type = after.with_shape((rows, channels))
    source = rewriting.reshape(call.operand(0).name, (rows, depth))
    operands = [source, weights.name]
    product = rewriting.emit("batch_matmul", operands, type, BatchMatMulAttributes(adj_y=True))
    # Functions of sums are fused into products with constants only.
    assert isinstance(attributes.activation, Activation)
    if attributes.activation is not Activation.NONE:
        clamp = ClampAttributes(*attributes.activation.bounds)
        product = rewriting.emit("clamp", [product], type, clamp)
    rewriting.reshape(product, after.shape, result=call.result.name)
    rewriting.run(legalizer)


@legalizes("fully_connected")
def _fully_connected(legalizer: Legalizer, call: Call) -> None:
    attributes = call.node.attributes
    # Convolutions whose window is the whole image come here too, and have one row.
    if isinstance(attributes, FullyConnectedAttributes):
        weights = call.operand(1).data
        if weights is None:
            _product(legalizer, call, attributes)
            return
        if call.result.type.size != len(weights):
            multiplied_rows(legalizer, call, weights, attributes.activation)
            return
    legalizer.layers.append(_layer(legalizer, call))
