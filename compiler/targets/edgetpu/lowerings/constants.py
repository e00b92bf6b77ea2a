"""Tensors in narrow memory whose elements are parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Value
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.instructions.builder import mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS, WHOLE, full
from fitzroy.compiler.targets.edgetpu.kernels.transfers import consume, unpack
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import send
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    Context,
    Layer,
    Weights,
    filled,
)
from fitzroy.compiler.targets.edgetpu.layers.legalize import (
    IMAGE_RANK,
    Legalizer,
    legalizes_first,
)
from fitzroy.compiler.targets.edgetpu.layers.matrices import COVERED
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting, with_rank
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Image,
    Placed,
    Vector,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    SIGNED_OFFSET,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import (
    temporary,
)
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.fields import TileFlag
from fitzroy.hw_models.isa.ring import RingConsume


def _counted(rows: int) -> str:
    """What is counted: published programs count one or two rows, or all of them as a whole."""
    return "row" if rows <= SLOTS else WHOLE


@dataclass(frozen=True, eq=False, kw_only=True)
class Constant(Layer):
    """A tensor whose elements are parameters: its owners send each tile its part."""

    def _rows(self, result: Placed) -> list[int]:
        """Wide rows of every tile's part."""
        covers = (result.cover(tile) for tile in range(TILES))
        return [0 if cover is None else -(-cover.words // LANES) for cover in covers]

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory for the largest part that is sent at a time."""
        return max(self._rows(tensors[self.writes]))

    def emit(self, context: Context) -> None:
        """Unpacking and consumers first, then the messages in the order of the tiles."""
        builder, result = context.builder, context.tensors[self.writes]
        rows = self._rows(result)
        first = builder.staging - max(rows)

        def take(tile: int) -> WideToNarrow | None:
            cover = result.cover(tile)
            if cover is None:
                return None
            dims = zip(COVERED, cover.dims, strict=True)
            words = tuple((name, count, stride // WORD) for name, (count, stride) in dims)
            return unpack(
                walk(first, row=(rows[tile], 1)),
                Walk(cover.base // WORD, words),
                publish="word",
                acquire=[full(TileFlag.RING_READ_A, _counted(rows[tile]))],
            )

        def store(tile: int) -> RingConsume | None:
            if not rows[tile]:
                return None
            return consume(0, walk(first, row=(rows[tile], 1)), publish=_counted(rows[tile]))

        builder.on_tiles(take)
        builder.on_tiles(store)
        (operand,) = self.weights
        begin = 0
        for tile, count in enumerate(rows):
            words = range(begin, begin + count)
            pieces = context.pieces[operand.name]
            send(builder, operand.name, pieces, mask_of([tile]), words, channel=0)
            begin += count


class VectorConstant(Constant):
    """A vector whose elements are parameters."""

    makes_vector: ClassVar[bool] = True


def constant(legalizer: Legalizer, value: Value, *, vector: bool, channels: int = 0) -> str:
    """The name of a tensor in narrow memory with the elements of a constant.

    Args:
        legalizer: the graph.
        value: a quantized constant.
        vector: whether it is for vectors.
        channels: channels to which a single one is repeated.
    """
    assert value.data is not None
    stored = unsigned(value)
    zero = unsigned_zero_point(value.type)
    result: Placed
    if vector:
        data = stored.reshape(-1)
        if channels and data.size == 1:
            data = np.repeat(data, channels)
        result = Vector(value.name, data.size, zero)
        data = np.pad(data, (0, -data.size % (LANES * TILES)), constant_values=zero)
        parts = [
            np.concatenate([data[LANES * b :][: result.lanes(held[0])] for b in held])
            for held in map(result.held, range(TILES))
            if held
        ]
        shape: tuple[int, ...] = (1, channels) if channels else value.type.shape
    else:
        own = value.type.shape
        *rows, width, depth = with_rank(own, IMAGE_RANK)
        height = math.prod(rows)
        pixels = stored.reshape(height, width, depth)
        if channels and depth == 1:
            depth = channels
            pixels = np.repeat(pixels, channels, axis=2)
        shape = (1, height, width, depth)
        image = result = Image.of(value.name, shape, zero)
        data = np.pad(pixels, ((0, 0), (0, 0), (0, -depth % WORD)), constant_values=zero)
        parts = []
        for tile in range(TILES):
            (top, bottom), (left, right) = image.owned(tile)
            if image.active(tile):
                parts.append(data[top:bottom, left:right].reshape(-1))
    row = WORD * LANES
    packed = np.concatenate([np.pad(part, (0, -part.size % row)) for part in parts])
    name = temporary(legalizer, f"{value.name}.constant", replace(value.type, shape=shape))
    legalizer.layers.append(
        (VectorConstant if vector else Constant)(
            name=name,
            reads=(),
            writes=name,
            weights=(
                Weights(
                    name, OperandKind.CONVOLUTION, LANES, 0, filled(packed), packed.size // row
                ),
            ),
        )
    )
    return name


@legalizes_first
def with_constants_in_memory(legalizer: Legalizer, call: Call) -> bool:
    """Legalize an operator that can only read constants once they are tensors in narrow memory.

    These are the constants that a concatenation joins, and the first operand of any other operator
    if all of its operands are constants.

    Returns:
        Whether it did; otherwise the rule of the operator applies.
    """
    values = [value for value in call.inputs if value is not None]
    found = [value for value in values if value.is_constant]
    if call.node.op != "concatenation":
        known = len(found) == len(values) and values[0].type.is_eight_bit
        found = found[:1] if known else []
    if not found:
        return False
    put_in_memory(legalizer, call, found)
    return True


def put_in_memory(legalizer: Legalizer, call: Call, constants: Sequence[Value]) -> None:
    """Legalize a call that reads tensors in narrow memory instead of some constants.

    Args:
        legalizer: the graph.
        call: the call.
        constants: what it is to read, by the names of its constants.
    """
    rewriting, places = Rewriting.of(legalizer, call), dict[str, str]()
    for value in constants:
        if value.name in places:
            continue
        place = constant(legalizer, value, vector=False)
        name = rewriting.graph.fresh(f"{value.name}.operand")
        rewriting.graph.add_value(replace(value, name=name, data=None))
        places[value.name], legalizer.views[name] = name, (place,)
        if legalizer.type(place).shape == value.type.shape:
            legalizer.aliases[name] = place
    names = [None if name is None else places.get(name, name) for name in call.node.inputs]
    type, attributes = call.result.type, call.node.attributes
    rewriting.emit(call.node.op, names, type, attributes, result=call.result.name)
    rewriting.run(legalizer)


def unsigned(value: Value) -> Array:
    """Elements of a constant as the chip stores them, uint8."""
    assert value.data is not None
    if value.type.dtype is DType.INT8:
        return (value.data.astype(np.int16) + SIGNED_OFFSET).astype(np.uint8)
    return value.data


def scalar_of(value: Value) -> int | None:
    """The stored value of all elements of a constant, if they are equal."""
    if value.data is None or not value.data.size:
        return None
    stored = unsigned(value).reshape(-1)
    return int(stored[0]) if (stored == stored[0]).all() else None
