"""Operators that arrange elements anew: repetition, order, borders, blocks and diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import requantized
from fitzroy.compiler.ops.shape import (
    Mover,
    ReshapeAttributes,
    Shape,
    normalized_axis,
    static,
)
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic

# --- repetition ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TileAttributes(Attributes):
    """Attributes of a repetition: how often along each dimension."""

    multiples: Shape = ()


@define
class Tile(Mover):
    """The operand, repeated along its dimensions."""

    name = "tile"
    attributes = TileAttributes
    tflite = ("TILE",)

    def _multiples(self, call: Call) -> Shape:
        return call.attributes(TileAttributes).multiples

    def infer(self, call: Call) -> Sequence[Expected]:
        shape, multiples = call.type().shape, self._multiples(call)
        demand(
            len(multiples) == len(shape) and min(multiples, default=0) >= 0,
            f"repetitions {list(multiples)} of {len(shape)} dimensions",
        )
        result = tuple(n * m for n, m in zip(shape, multiples, strict=True))
        return [Expected(result, call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        return np.tile(x, self._multiples(call))

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(TileAttributes(static(call, 1, "number of repetitions")), (0,))

    def to_tflite(self, call: Call) -> Exported:
        multiples = np.array(self._multiples(call), np.int32)
        return Exported("TILE", tflite.TileOptions(), (0, multiples))


@define
class BroadcastTo(Mover):
    """The operand, repeated along dimensions of extent 1 to fill a shape."""

    name = "broadcast_to"
    attributes = ReshapeAttributes
    tflite = ("BROADCAST_TO",)

    def _shape(self, call: Call) -> Shape:
        return call.attributes(ReshapeAttributes).shape

    def infer(self, call: Call) -> Sequence[Expected]:
        shape, own = self._shape(call), call.type().shape
        demand(min(shape, default=0) >= 0, f"the shape {list(shape)}")
        try:
            fits = np.broadcast_shapes(own, shape) == shape
        except ValueError:
            fits = False
        demand(fits, f"shape {list(own)} does not broadcast to {list(shape)}")
        return [Expected(shape, call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        return np.array(np.broadcast_to(x, self._shape(call)))

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(ReshapeAttributes(static(call, 1, "shape")), (0,))

    def to_tflite(self, call: Call) -> Exported:
        shape = np.array(self._shape(call), np.int32)
        return Exported("BROADCAST_TO", tflite.BroadcastToOptions(), (0, shape), version=2)


# --- order ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReverseAttributes(Attributes):
    """Attributes of a reversal: the axes to turn around."""

    axes: Shape = ()


@define
class Reverse(Mover):
    """Elements in reverse order along axes."""

    name = "reverse"
    attributes = ReverseAttributes
    tflite = ("REVERSE_V2",)

    def _axes(self, call: Call) -> Shape:
        return call.attributes(ReverseAttributes).axes

    def infer(self, call: Call) -> Sequence[Expected]:
        axes, rank = self._axes(call), call.type().rank
        demand(
            len(set(axes)) == len(axes) and all(0 <= axis < rank for axis in axes),
            f"axes {list(axes)} of {rank} dimensions",
        )
        return [Expected(call.type().shape, call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        return np.ascontiguousarray(np.flip(x, self._axes(call)))

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        rank = call.type().rank
        axes = tuple(normalized_axis(axis, rank) for axis in static(call, 1, "axis"))
        return Imported(ReverseAttributes(axes), (0,))

    def to_tflite(self, call: Call) -> Exported:
        axes = np.array(self._axes(call), np.int32)
        return Exported("REVERSE_V2", tflite.ReverseV2Options(), (0, axes))


@dataclass(frozen=True)
class ReverseSequenceAttributes(Attributes):
    """Attributes of a reversal of sequences: their axis, and that of the batch."""

    sequence: int = 0
    batch: int = 0


@define
class ReverseSequence(Operator):
    """The elements of each sequence along an axis in reverse order, up to its length."""

    name = "reverse_sequence"
    operands = ("input", "lengths")
    attributes = ReverseSequenceAttributes
    moves = True
    tflite = ("REVERSE_SEQUENCE",)

    def infer(self, call: Call) -> Sequence[Expected]:
        a, x, lengths = call.attributes(ReverseSequenceAttributes), call.type(0), call.type(1)
        demand(
            0 <= a.sequence < x.rank and 0 <= a.batch < x.rank and a.sequence != a.batch,
            f"axes {a.sequence} and {a.batch} of {x.rank} dimensions",
        )
        demand(lengths.dtype in (DType.INT32, DType.INT64), "lengths are int32 or int64")
        demand(
            lengths.shape == (x.shape[a.batch],),
            f"{list(lengths.shape)} lengths of {x.shape[a.batch]} sequences",
        )
        return [Expected(x.shape, x.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, lengths = arrays
        assert x is not None
        assert lengths is not None
        a = call.attributes(ReverseSequenceAttributes)
        extent, rank = x.shape[a.sequence], x.ndim
        places = np.arange(extent).reshape([-1 if i == a.sequence else 1 for i in range(rank)])
        count = np.clip(lengths, 0, extent).reshape(
            [-1 if i == a.batch else 1 for i in range(rank)]
        )
        source = np.where(places < count, count - 1 - places, places)
        moved = np.take_along_axis(x, np.broadcast_to(source, x.shape), axis=a.sequence)
        return [requantized(moved, call.type(0), call.result.type)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        rank = call.type().rank
        axes = (normalized_axis(axis, rank) for axis in (options.seq_dim, options.batch_dim))
        return Imported(ReverseSequenceAttributes(*axes))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(ReverseSequenceAttributes)
        table = tflite.ReverseSequenceOptions(seq_dim=a.sequence, batch_dim=a.batch)
        return Exported("REVERSE_SEQUENCE", table)


# --- borders and blocks --------------------------------------------------------------------------


@dataclass(frozen=True)
class MirrorPadAttributes(Attributes):
    """Attributes of padding with what is there.

    Attributes:
        before: elements to add before each dimension.
        after: elements to add after each dimension.
        symmetric: whether the outermost element is repeated.
    """

    before: Shape = ()
    after: Shape = ()
    symmetric: bool = False


@define
class MirrorPad(Mover):
    """Padding with the mirror image of the operand."""

    name = "mirror_pad"
    attributes = MirrorPadAttributes
    tflite = ("MIRROR_PAD",)

    def infer(self, call: Call) -> Sequence[Expected]:
        a, shape = call.attributes(MirrorPadAttributes), call.type().shape
        demand(
            len(a.before) == len(a.after) == len(shape),
            f"padding of {len(a.before)} dimensions for {len(shape)}",
        )
        for before, extent, after in zip(a.before, shape, a.after, strict=True):
            most = extent if a.symmetric else extent - 1
            demand(
                0 <= before <= max(most, 0) and 0 <= after <= max(most, 0),
                f"{before} and {after} elements mirrored of {extent}, at most {most}",
            )
        extents = zip(a.before, shape, a.after, strict=True)
        return [Expected(tuple(map(sum, extents)), call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        return x[np.ix_(*mirrored(call))]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        amounts = np.array(static(call, 1, "padding"), np.int64).reshape(-1, 2)
        before, after = (tuple(map(int, column)) for column in amounts.T)
        symmetric = options.mode == tflite.MirrorPadMode.SYMMETRIC
        return Imported(MirrorPadAttributes(before, after, symmetric), (0,))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(MirrorPadAttributes)
        modes = tflite.MirrorPadMode
        mode = modes.SYMMETRIC if a.symmetric else modes.REFLECT
        amounts = np.ascontiguousarray(np.array([a.before, a.after], np.int32).T)
        return Exported("MIRROR_PAD", tflite.MirrorPadOptions(mode=int(mode)), (0, amounts))


def mirrored(call: Call) -> list[Array]:
    """For each axis of the result of a `MirrorPad`, the elements of the operand that it has."""
    a = call.attributes(MirrorPadAttributes)
    mode = "symmetric" if a.symmetric else "reflect"
    return [
        np.pad(np.arange(size), added, mode=mode)  # type: ignore[call-overload]
        for size, added in zip(call.type().shape, zip(a.before, a.after, strict=True), strict=True)
    ]


@dataclass(frozen=True)
class BatchBlockAttributes(Attributes):
    """Attributes of operators that trade space for batches.

    Attributes:
        block: extents of a block, one for each dimension after the first that is divided.
        before: elements to add, or to cut off, before each of these dimensions.
        after: elements to add, or to cut off, after each of them.
    """

    block: Shape = ()
    before: Shape = ()
    after: Shape = ()


class SpaceBatch(Mover):
    """Base of the operators that trade space for batches."""

    attributes = BatchBlockAttributes

    def _checked(self, call: Call) -> BatchBlockAttributes:
        a, rank = call.attributes(BatchBlockAttributes), call.type().rank
        demand(
            0 < len(a.block) < rank and len(a.before) == len(a.after) == len(a.block),
            f"blocks of {len(a.block)} dimensions of {rank}",
        )
        demand(min(a.block) > 0 and min((*a.before, *a.after)) >= 0, "a negative block or border")
        return a

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        block = static(call, 1, "block")
        amounts = np.array(static(call, 2, "border"), np.int64).reshape(-1, 2)
        before, after = (tuple(map(int, column)) for column in amounts.T)
        return Imported(BatchBlockAttributes(block, before, after), (0,))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(BatchBlockAttributes)
        amounts = np.ascontiguousarray(np.array([a.before, a.after], np.int32).T)
        return Exported(self.tflite[0], self.options(), (0, np.array(a.block, np.int32), amounts))


@define
class SpaceToBatch(SpaceBatch):
    """Each pixel of a block goes to a separate image."""

    name = "space_to_batch"
    tflite = ("SPACE_TO_BATCH_ND",)
    table = "SpaceToBatchNDOptions"

    def infer(self, call: Call) -> Sequence[Expected]:
        a, shape = self._checked(call), call.type().shape
        inner = shape[1 : 1 + len(a.block)]
        padded = [sum(row) for row in zip(a.before, inner, a.after, strict=True)]
        for extent, block in zip(padded, a.block, strict=True):
            demand(extent % block == 0, f"an extent of {extent} in blocks of {block}")
        extents = (n // b for n, b in zip(padded, a.block, strict=True))
        batch = shape[0] * math.prod(a.block)
        return [Expected((batch, *extents, *shape[1 + len(a.block) :]), call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        a, count = (
            call.attributes(BatchBlockAttributes),
            len(call.attributes(BatchBlockAttributes).block),
        )
        q = call.type().quantization
        zero = 0 if q is None else q.zero_point[0]
        rest = [(0, 0)] * (x.ndim - 1 - count)
        x = np.pad(x, [(0, 0), *zip(a.before, a.after, strict=True), *rest], constant_values=zero)
        split = [x.shape[0]]
        for extent, block in zip(x.shape[1 : 1 + count], a.block, strict=True):
            split += [extent // block, block]
        x = x.reshape(*split, *x.shape[1 + count :])
        inner, outer = range(2, 2 + 2 * count, 2), range(1, 1 + 2 * count, 2)
        moved = x.transpose(*inner, 0, *outer, *range(1 + 2 * count, x.ndim))
        return moved.reshape(call.result.type.shape)


@define
class BatchToSpace(SpaceBatch):
    """Images become the pixels of blocks of a single image."""

    name = "batch_to_space"
    tflite = ("BATCH_TO_SPACE_ND",)
    table = "BatchToSpaceNDOptions"

    def _whole(self, call: Call) -> Shape:
        a, shape = self._checked(call), call.type().shape
        batch, count = math.prod(a.block), len(a.block)
        demand(shape[0] % batch == 0, f"{shape[0]} images in blocks of {batch}")
        extents = (n * b for n, b in zip(shape[1 : 1 + count], a.block, strict=True))
        return (shape[0] // batch, *extents, *shape[1 + count :])

    def infer(self, call: Call) -> Sequence[Expected]:
        a, shape = self._checked(call), list(self._whole(call))
        for axis, (before, after) in enumerate(zip(a.before, a.after, strict=True), 1):
            demand(before + after <= shape[axis], f"{before + after} of {shape[axis]} cut off")
            shape[axis] -= before + after
        return [Expected(tuple(shape), call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        a, whole = call.attributes(BatchBlockAttributes), self._whole(call)
        count = len(a.block)
        split = x.reshape(*a.block, whole[0], *x.shape[1:])
        pairs = (axis for i in range(count) for axis in (count + 1 + i, i))
        moved = split.transpose(count, *pairs, *range(2 * count + 1, split.ndim)).reshape(whole)
        cuts = zip(a.before, a.after, whole[1:], strict=False)
        return moved[(slice(None), *(slice(b, extent - e) for b, e, extent in cuts))]


@define
class MatrixDiag(Mover):
    """Rows as the diagonals of square matrices that are zero elsewhere."""

    name = "matrix_diag"
    # The zeros are no elements of the operand.
    moves = False
    tflite = ("MATRIX_DIAG",)
    table = "MatrixDiagOptions"

    def infer(self, call: Call) -> Sequence[Expected]:
        type = call.type()
        demand(type.rank >= 1, "a scalar is no diagonal")
        demand(not type.is_quantized, "the operand is quantized")
        return [Expected((*type.shape, type.shape[-1]), type.dtype)]

    def move(self, call: Call, x: Array) -> Array:
        return np.where(np.eye(x.shape[-1], dtype=bool), x[..., None, :], x.dtype.type(0))


@define
class MatrixSetDiag(Operator):
    """Matrices with their diagonals replaced."""

    name = "matrix_set_diag"
    operands = ("input", "diagonal")
    moves = True
    tflite = ("MATRIX_SET_DIAG",)
    table = "MatrixSetDiagOptions"

    def infer(self, call: Call) -> Sequence[Expected]:
        x, diagonal = call.type(0), call.type(1)
        demand(x.rank >= 2, f"{x.rank} dimensions are no matrix")
        wanted = (*x.shape[:-2], min(x.shape[-2:]))
        demand(diagonal.shape == wanted, f"diagonals of shape {list(diagonal.shape)}")
        same = x.dtype is diagonal.dtype and x.quantization == diagonal.quantization
        demand(same, "matrices and diagonals differ in type")
        demand(call.result.type.quantization == x.quantization, "the result has another scale")
        return [Expected(x.shape, x.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, diagonal = arrays
        assert x is not None
        assert diagonal is not None
        places = np.arange(diagonal.shape[-1])
        result = np.array(x)
        result[..., places, places] = diagonal
        return [result]


@dataclass(frozen=True)
class DilateAttributes(Attributes):
    """Attributes of a spreading: the distance between elements along each dimension."""

    dilations: Shape = ()


@define
class Dilate(Operator):
    """Elements spread apart, with a padding value between them."""

    name = "dilate"
    operands = ("input", "padding")
    attributes = DilateAttributes
    moves = True
    tflite = ("DILATE",)

    def infer(self, call: Call) -> Sequence[Expected]:
        x, steps = call.type(0), call.attributes(DilateAttributes).dilations
        demand(
            len(steps) == x.rank and min(steps, default=1) > 0,
            f"distances {list(steps)} of {x.rank} dimensions",
        )
        demand(call.type(1).size == 1 and call.type(1).dtype is x.dtype, "padding is one element")
        shape = ((n - 1) * s + 1 if n else 0 for n, s in zip(x.shape, steps, strict=True))
        return [Expected(tuple(shape), x.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, padding = arrays
        assert x is not None
        assert padding is not None
        steps = call.attributes(DilateAttributes).dilations
        result = np.full(call.result.type.shape, padding.reshape(-1)[0], x.dtype)
        result[tuple(slice(None, None, step) for step in steps)] = x
        return [requantized(result, call.type(0), call.result.type)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(DilateAttributes(static(call, 1, "distance")), (0, 2))

    def to_tflite(self, call: Call) -> Exported:
        steps = np.array(call.attributes(DilateAttributes).dilations, np.int32)
        return Exported("DILATE", tflite.DilateOptions(), (0, steps, 1))
