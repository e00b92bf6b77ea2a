"""Fully connected layers: every tile gathers the whole input and computes blocks of channels.

Tiles have the weights of their blocks in their own wide memory. Blocks that are too long for that
are spread over all tiles, and come over the ring like those of convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.codegen.builder import Reference
from fitzroy.compiler.targets.edgetpu.codegen.convolution import (
    BIASES,
    QUARTER,
    SLOT,
    WeightStream,
    bytes_at,
    loops_of,
    padded,
    quarters_at,
    rows_at,
    send,
    stage_fields,
)
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer, Weights
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer, filter_operand, legalizes
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    LANES,
    TILES,
    WORD,
    Placed,
    Vector,
)
from fitzroy.compiler.targets.edgetpu.codegen.sync import free, full
from fitzroy.compiler.targets.edgetpu.codegen.vectors import (
    gather,
    gather_rows,
    is_vector,
    linear_bytes,
)
from fitzroy.compiler.targets.edgetpu.requantization import OutputStage, output_stage
from fitzroy.formats.object_file import OperandKind, Part, SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, Producer, TileFlag
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import NARROW, traversal
from fitzroy.hw_models.parameters import ConvolutionLayout, WordOrder, pack


@dataclass(eq=False, kw_only=True)
class FullyConnected(Layer):
    """A product of a matrix with all values of a tensor.

    Attributes:
        layout: layout of its only weights, in the order of a linear copy of the operand.
        stage: constants of the output stage.
    """

    layout: ConvolutionLayout
    stage: OutputStage

    makes_vector = True
    gathers = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Those of the gather."""
        return gather_rows(tensors[self.reads[0]])

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """The gathered operand."""
        return linear_bytes(tensors[self.reads[0]])

    def emit(self, context: Context) -> None:
        """The gather, then the tensor operations, block after block of every tile."""
        result = context.vector(self.writes)
        gather(context, context.tensors[self.reads[0]], context.scratch, result.tiles)
        for number in range(-(-result.blocks // TILES)):
            context.builder.barrier()
            self._pass(context, result, number)

    def _pass(self, context: Context, result: Vector, number: int) -> None:
        """Operations of one block of every tile."""
        builder, layout = context.builder, self.layout
        prefix, stage = layout.prefix, self.stage
        vectors = int(prefix.scales) + int(prefix.biases)
        blocks = range(TILES * number, min(TILES * (number + 1), result.blocks))
        widths: dict[int, int] = {}
        for block in blocks:
            lanes = result.lanes(block)
            widths[lanes] = widths.get(lanes, 0) | 1 << result.owner(block)
        group = context.pieces[self.weights[0].name][blocks[0]].group

        def row(place: str, part: Part, addend: int) -> Reference:
            return Reference(place, SymbolKind.OPERAND, self.weights[0].name, part, addend, group)

        if vectors:
            builder.emit(
                WideToNarrow(
                    tiles=sum(widths.values()),
                    wide=rows_at(0, [(vectors, 1)]),
                    narrow=traversal(
                        0 if prefix.scales else BIASES,
                        [(layout.lanes // 2, 1), (vectors, 2 * SLOT), (1, 0)],
                        rank=NARROW.rank,
                        ping_pong=(2, SLOT),
                    ),
                    to_scaling=True,
                    pack_level=1,
                    wait=padded([free(TileFlag.AVDATA, 2)], 2),
                    wide_to_narrow=Producer(2),
                ),
                row("wide.base", Part.ROW, 0),
            )
        references = [row("c.base", Part.QUARTER_ROW, QUARTER * layout.prefix_words)]
        zero_points: dict[str, object] = {}
        if stage.zero_points_in_memory:
            zero_points = {"zero_point_step": 1}
            last = layout.prefix_words - 1
            references += [
                row(place, Part.ROW, last) for place in ("zero_point_base", "zero_point_last")
            ]
        steps = layout.weight_words
        for lanes, tiles in widths.items():
            builder.emit(
                TensorOp(
                    op=Opcode.MAC,
                    tiles=tiles,
                    loops=loops_of([steps]),
                    a=bytes_at(context.scratch, [(steps, WORD)]),
                    b=bytes_at(result.base + LANES * number, [(lanes // WORD, WORD)]),
                    c=quarters_at(0, [(steps, QUARTER)]),
                    d=quarters_at(0, [(steps, 0)]),
                    avdata=Producer(2),
                    parameters=Producer(1),
                    wait=padded([full(TileFlag.WIDE_TO_SCALING, 1)] if vectors else [], 6),
                    trained=True,
                    accumulate=True,
                    block_level=1,
                    reduction=1,
                    lanes=lanes,
                    lanes_last=lanes,
                    **zero_points,  # type: ignore[arg-type]
                    **stage_fields(stage),  # type: ignore[arg-type]
                ),
                *references,
            )


_STAGED = 64
"""Weight rows that are staged at a time, at most."""

_RESIDENT = BEAGLE.memories.wide.elements * 7 // 8
"""Rows of the longest blocks that tiles have themselves."""


@dataclass(eq=False, kw_only=True)
class StreamedFullyConnected(FullyConnected):
    """A product with weights that come over the ring; there is one operand for each block."""

    def _stream(self, blocks: int, top: int) -> WeightStream:
        layout = self.layout
        steps = layout.weight_words
        staged = max(part for part in range(1, _STAGED + 1) if steps % part == 0)
        return WeightStream(
            staged=staged,
            chunks=steps // staged,
            blocks=blocks,
            prefix=layout.prefix_words,
            vectors=int(layout.prefix.scales) + int(layout.prefix.biases),
            scales=layout.prefix.scales,
            lanes=layout.lanes,
            top=top,
        )

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Those of the gather, and later two slots of weights and vectors."""
        return max(gather_rows(tensors[self.reads[0]]), -self._stream(1, 0).vector_rows)

    def emit(self, context: Context) -> None:
        """The gather, then consumers, operations, and the owners of the weights."""
        builder, result = context.builder, context.vector(self.writes)
        gather(context, context.tensors[self.reads[0]], context.scratch, result.tiles)
        builder.barrier()
        counts: dict[int, int] = {}
        for tile in result.tiles:
            held = len(result.held(tile))
            counts[held] = counts.get(held, 0) | 1 << tile
        for held, tiles in counts.items():
            self._stream(held, builder.staging).receive(builder, tiles)
        builder.on_tiles(lambda tile: self._operation(context, result, tile), result.tiles)
        for block, item in enumerate(self.weights):
            builder.room(_MOST_BUNDLES)
            for group, piece in enumerate(context.pieces[item.name]):
                send(builder, item.name, group, piece, 1 << result.owner(block))

    def _operation(self, context: Context, result: Vector, tile: int) -> TensorOp:
        held = result.held(tile)
        blocks, lanes, last = len(held), result.lanes(held[0]), result.lanes(held[-1])
        stream = self._stream(blocks, context.builder.staging)
        staged, chunks = stream.staged, stream.chunks
        return TensorOp(
            op=Opcode.MAC,
            loops=loops_of([staged, chunks, blocks]),
            a=bytes_at(context.scratch, [(staged, WORD), (chunks, WORD * staged), (blocks, 0)]),
            b=bytes_at(
                result.base,
                [(lanes // WORD, WORD), (blocks, LANES)],
                part=(last // WORD, 1) if last != lanes else None,
            ),
            c=quarters_at(
                QUARTER * stream.weights,
                [(staged, QUARTER), (chunks, 0), (blocks, 0)],
                ping_pong=(1, QUARTER * staged),
            ),
            d=quarters_at(0, [(staged, 0), (chunks, 0), (blocks, 0)], ping_pong=(2, QUARTER)),
            avdata=Producer(1),
            parameters=Producer(1),
            wait=padded(stream.waits(1, 2), 6),
            trained=True,
            accumulate=True,
            block_level=2,
            reduction=0b11,
            lanes=lanes,
            lanes_last=last,
            **stream.zero_points(self.stage),  # type: ignore[arg-type]
            **stage_fields(self.stage),  # type: ignore[arg-type]
        )


_MOST_BUNDLES = 4 * TILES
"""Bundles that send a block."""


def _layer(legalizer: Legalizer, call: Call) -> FullyConnected:
    source = legalizer.place(call.node.inputs[0] or "")
    operand = filter_operand(legalizer, call.node)
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
    parameters = replace(
        operand.parameters, weights=operand.parameters.weights.reshape(layout.weight_shape)
    )
    data = np.frombuffer(pack(layout, parameters), np.uint8)
    name, lanes, prefix = call.node.name, layout.lanes, layout.prefix_words
    resident = layout.block_words <= _RESIDENT
    if resident:
        kind = OperandKind.FULLY_CONNECTED
        weights = [Weights(name, kind, lanes, prefix, data, layout.word_count, layout.blocks)]
    else:
        kind, words = OperandKind.CONVOLUTION, layout.block_words
        weights = [
            Weights(f"{name}/{block}", kind, lanes, prefix, part, words)
            for block, part in enumerate(np.split(data, layout.blocks))
        ]
    return (FullyConnected if resident else StreamedFullyConnected)(
        name=name,
        reads=(source,),
        writes=call.node.outputs[0],
        weights=tuple(weights),
        layout=layout,
        stage=output_stage(call, layout.prefix),
    )


@legalizes("fully_connected")
def _fully_connected(legalizer: Legalizer, call: Call) -> None:
    rows = call.result.type.size // call.type(1).shape[0]
    if rows != 1:
        raise UnsupportedError(
            f"{call.node.op} {call.node.name!r} multiplies {rows} rows, the Edge TPU takes one",
            hint="give the model a batch of one",
        )
    legalizer.layers.append(_layer(legalizer, call))
