"""Operators that move elements without computing on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Attributes, Value
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import requantized
from fitzroy.compiler.ops.tflite_options import activation_of
from fitzroy.compiler.ops.windows import Activation
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic, quantized_range

Shape = tuple[int, ...]


def static(call: Call, index: int, what: str) -> Shape:
    """A parameter operand that TFLite allows to vary but that must be constant here.

    Raises:
        TypeRuleError: it varies.
    """
    values = call.constant(index)
    if values is None:
        raise TypeRuleError(f"the {what} is computed at run time; it must be a constant")
    return values


def normalized_axis(axis: int, rank: int) -> int:
    """A possibly negative axis as a non-negative one.

    Raises:
        TypeRuleError: it lies outside the rank.
    """
    demand(-rank <= axis < rank, f"axis {axis} of {rank} dimensions")
    return axis % rank


class Mover(Operator):
    """Base of operators whose result holds elements of their one input."""

    moves = True

    def move(self, call: Call, x: Array) -> Array:
        """The elements moved."""
        raise NotImplementedError

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        return [requantized(self.move(call, x), call.type(), call.result.type)]


@define
class Copy(Mover):
    """A copy of the operand."""

    name = "copy"
    tflite = ("DENSIFY",)

    def infer(self, call: Call) -> Sequence[Expected]:
        return [Expected(call.type().shape, call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        return x

    def to_tflite(self, call: Call) -> Exported:
        shape = np.array(call.type().shape, np.int32)
        return Exported("RESHAPE", tflite.ReshapeOptions(new_shape=shape), (0, shape))


@dataclass(frozen=True)
class ReshapeAttributes(Attributes):
    """Attributes of a reshape: the result's shape."""

    shape: Shape = ()


@define
class Reshape(Mover):
    """The same elements with another shape."""

    name = "reshape"
    attributes = ReshapeAttributes
    tflite = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")

    def _shape(self, call: Call) -> Shape:
        return call.attributes(ReshapeAttributes).shape

    def infer(self, call: Call) -> Sequence[Expected]:
        shape = self._shape(call)
        demand(
            math.prod(shape) == call.type().size and min(shape, default=1) >= 0,
            f"{call.type().size} elements do not fill {list(shape)}",
        )
        return [Expected(shape, call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        return x.reshape(self._shape(call))

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        stated, own = call.result.type.shape, call.type()
        if math.prod(stated) == own.size:
            return Imported(ReshapeAttributes(stated), (0,))
        # The file leaves the shape open; parameters say what it is.
        return Imported(ReshapeAttributes(_parameters_shape(builtin, options, call)), (0,))

    def to_tflite(self, call: Call) -> Exported:
        shape = np.array(self._shape(call), np.int32)
        return Exported("RESHAPE", tflite.ReshapeOptions(new_shape=shape), (0, shape))


def _parameters_shape(builtin: str, options: Any, call: Call) -> Shape:
    """The shape that parameters of RESHAPE, SQUEEZE and EXPAND_DIMS say."""
    own = call.type().shape
    if builtin == "SQUEEZE":
        given = () if options is None or options.squeeze_dims is None else options.squeeze_dims
        axes = {normalized_axis(int(axis), len(own)) for axis in given}
        chosen = axes or {axis for axis, extent in enumerate(own) if extent == 1}
        return tuple(extent for axis, extent in enumerate(own) if axis not in chosen)
    if builtin == "EXPAND_DIMS":
        axis = normalized_axis(static(call, 1, "axis")[0], len(own) + 1)
        return (*own[:axis], 1, *own[axis:])
    shape = static(call, 1, "shape")
    rest = math.prod(extent for extent in shape if extent != -1)
    filled = call.type().size // rest if rest else 0
    return tuple(filled if extent == -1 else extent for extent in shape)


@dataclass(frozen=True)
class TransposeAttributes(Attributes):
    """Attributes of a transpose: result axis i is input axis perm[i]."""

    perm: Shape = ()


@define
class Transpose(Mover):
    """Permutation of dimensions."""

    name = "transpose"
    attributes = TransposeAttributes
    tflite = ("TRANSPOSE",)

    def _perm(self, call: Call) -> Shape:
        return call.attributes(TransposeAttributes).perm

    def infer(self, call: Call) -> Sequence[Expected]:
        shape, perm = call.type().shape, self._perm(call)
        demand(sorted(perm) == list(range(len(shape))), f"{perm} permutes no {len(shape)} axes")
        return [Expected(tuple(shape[axis] for axis in perm), call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        return x.transpose(self._perm(call))

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        rank = call.type().rank
        perm = tuple(normalized_axis(axis, rank) for axis in static(call, 1, "permutation"))
        return Imported(TransposeAttributes(perm), (0,))

    def to_tflite(self, call: Call) -> Exported:
        return Exported(
            "TRANSPOSE", tflite.TransposeOptions(), (0, np.array(self._perm(call), np.int32))
        )


LOWEST = float(np.finfo(np.float32).min)
"""A border of this loses every comparison, whatever the range of a tensor is."""


@dataclass(frozen=True)
class PadAttributes(Attributes):
    """Attributes of padding.

    Attributes:
        before: elements to add before each dimension.
        after: elements to add after each dimension.
        value: the real number to pad with.
    """

    before: Shape = ()
    after: Shape = ()
    value: float = 0.0


@define
class Pad(Mover):
    """Padding with a constant real number."""

    name = "pad"
    attributes = PadAttributes
    tflite = ("PAD", "PADV2")

    def _pad(self, call: Call) -> PadAttributes:
        return call.attributes(PadAttributes)

    def stored(self, call: Call) -> float | int:
        """The padding as the input stores it."""
        a, type = self._pad(call), call.type()
        if type.quantization is None:
            return a.value
        return quantized_range(a.value, a.value, type.quantization, type.dtype)[0]

    def infer(self, call: Call) -> Sequence[Expected]:
        a, shape = self._pad(call), call.type().shape
        demand(
            len(a.before) == len(a.after) == len(shape),
            f"padding of {len(a.before)} dimensions for {len(shape)}",
        )
        demand(min((*a.before, *a.after), default=0) >= 0, "negative padding")
        dtype = call.type().dtype
        if not dtype.is_float:
            low, high = dtype.limits if dtype.is_integer else (0, 1)
            holds = not math.isnan(a.value) and (call.type().is_quantized or low <= a.value <= high)
            demand(holds, f"a padding of {a.value} for {dtype.value}")
        extents = zip(a.before, shape, a.after, strict=True)
        return [Expected(tuple(map(sum, extents)), call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        a = self._pad(call)
        widths = list(zip(a.before, a.after, strict=True))
        if not widths:
            return x
        return np.pad(x, widths, constant_values=self.stored(call))

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        amounts = np.array(static(call, 1, "padding"), np.int64).reshape(-1, 2)
        before, after = (tuple(map(int, column)) for column in amounts.T)
        value = 0.0
        if builtin == "PADV2":
            operand = call.operand(2)
            if operand.data is None:
                raise TypeRuleError("the padding value is computed at run time")
            value = float(operand.data.reshape(-1)[0])
            q = operand.type.quantization
            if q is not None:
                value = (value - q.zero_point[0]) * q.scale[0]
        return Imported(PadAttributes(before, after, value), (0,))

    def to_tflite(self, call: Call) -> Exported:
        a = self._pad(call)
        amounts = np.ascontiguousarray(np.array([a.before, a.after], np.int32).T)
        if not a.value:
            return Exported("PAD", tflite.PadOptions(), (0, amounts))
        value = np.array([self.stored(call)], call.type().dtype.numpy)
        type = call.type().with_shape((1,))
        return Exported("PADV2", tflite.PadV2Options(), (0, amounts, Value("", type, value)))


@dataclass(frozen=True)
class ConcatenationAttributes(Attributes):
    """Attributes of a concatenation: the axis along which operands follow one another."""

    axis: int = 0


@define
class Concatenation(Operator):
    """Operands one after another along an axis."""

    moves = True
    name = "concatenation"
    operands = ("inputs*",)
    attributes = ConcatenationAttributes
    tflite = ("CONCATENATION",)

    def _axis(self, call: Call) -> int:
        return call.attributes(ConcatenationAttributes).axis

    def infer(self, call: Call) -> Sequence[Expected]:
        demand(len(call.inputs) > 0, "no operands")
        axis, first = self._axis(call), call.type(0)
        demand(0 <= axis < first.rank, f"axis {axis} of {first.rank} dimensions")
        total = 0
        for index in range(len(call.inputs)):
            shape = call.type(index).shape
            demand(call.type(index).dtype is first.dtype, "operands differ in element type")
            demand(
                len(shape) == first.rank
                and shape[:axis] == first.shape[:axis]
                and shape[axis + 1 :] == first.shape[axis + 1 :],
                f"shapes {list(first.shape)} and {list(shape)} differ beside axis {axis}",
            )
            total += shape[axis]
        return [Expected((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        parts = [
            requantized(x, call.type(i), call.result.type)
            for i, x in enumerate(arrays)
            if x is not None
        ]
        return [np.concatenate(parts, axis=self._axis(call))]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        if activation_of(options.fused_activation_function) is not Activation.NONE:
            raise TypeRuleError("a concatenation with a fused activation")
        axis = normalized_axis(options.axis, call.type(0).rank)
        # What has no elements along the axis adds nothing.
        filled = tuple(i for i in range(len(call.inputs)) if call.type(i).shape[axis])
        return Imported(ConcatenationAttributes(axis), filled or (0,))

    def to_tflite(self, call: Call) -> Exported:
        return Exported("CONCATENATION", tflite.ConcatenationOptions(axis=self._axis(call)))


@dataclass(frozen=True)
class StridedSliceAttributes(Attributes):
    """Attributes of a slice: first index, count and step along each dimension."""

    begin: Shape = ()
    size: Shape = ()
    stride: Shape = ()


@define
class StridedSlice(Mover):
    """Every stride-th element of a box."""

    name = "strided_slice"
    attributes = StridedSliceAttributes
    tflite = ("STRIDED_SLICE", "SLICE")

    def _slice(self, call: Call) -> StridedSliceAttributes:
        return call.attributes(StridedSliceAttributes)

    def infer(self, call: Call) -> Sequence[Expected]:
        a, shape = self._slice(call), call.type().shape
        demand(
            len(a.begin) == len(a.size) == len(a.stride) == len(shape),
            f"a slice of {len(a.begin)} dimensions of {len(shape)}",
        )
        for extent, begin, size, stride in zip(shape, a.begin, a.size, a.stride, strict=True):
            last = begin + (size - 1) * stride
            demand(
                size >= 0
                and stride != 0
                and (size == 0 or (0 <= begin < extent and 0 <= last < extent)),
                f"elements {begin} to {last} of {extent}",
            )
        return [Expected(a.size, call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        a = self._slice(call)
        for axis, (begin, size, stride) in enumerate(zip(a.begin, a.size, a.stride, strict=True)):
            x = x.take(range(begin, begin + size * stride, stride), axis=axis)
        return x

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        shape = call.type().shape
        begin = static(call, 1, "first index")
        if builtin == "SLICE":
            sizes = static(call, 2, "size")
            size = tuple(
                extent - first if count == -1 else count
                for extent, first, count in zip(shape, begin, sizes, strict=True)
            )
            return Imported(StridedSliceAttributes(begin, size, (1,) * len(shape)), (0,))
        end, stride = static(call, 2, "end"), static(call, 3, "stride")
        specification = list(zip(begin, end, stride, strict=True))
        return _strided(shape, specification, options)

    def to_tflite(self, call: Call) -> Exported:
        a = self._slice(call)
        begin = np.array(a.begin, np.int32)
        if set(a.stride) <= {1}:
            sizes = np.array(a.size, np.int32)
            return Exported("SLICE", tflite.SliceOptions(), (0, begin, sizes))
        rows = zip(a.begin, a.size, a.stride, strict=True)
        ends = [first + count * step for first, count, step in rows]
        # An end before the first element cannot be spelt: negative numbers count from the last.
        mask = sum(1 << axis for axis, end in enumerate(ends) if end < 0)
        table = tflite.StridedSliceOptions(end_mask=mask)
        parameters = (begin, np.array(ends, np.int32), np.array(a.stride, np.int32))
        return Exported("STRIDED_SLICE", table, (0, *parameters))


def _strided(shape: Shape, specification: Sequence[Shape], options: Any) -> Imported:
    """TFLite's STRIDED_SLICE: a slice, and a reshape if dimensions come or go.

    Args:
        shape: the operand's.
        specification: begin, end and stride of every dimension that is spelt out.
        options: masks, whose bits are the places in the specification.
    """
    bits = [1 << place for place in range(len(specification))]
    added = [bool(options.new_axis_mask & bit) for bit in bits]
    ellipses = [place for place, bit in enumerate(bits) if options.ellipsis_mask & bit]
    demand(len(ellipses) <= 1, "a strided slice with several ellipses")
    spelt = len(bits) - sum(added) - len(ellipses)
    demand(spelt <= len(shape), f"{spelt} dimensions sliced of {len(shape)}")
    rows: list[Shape] = []
    result: list[int] = []

    def whole(count: int) -> None:
        for extent in shape[len(rows) : len(rows) + count]:
            rows.append((0, extent, 1))
            result.append(extent)

    for place, bit in enumerate(bits):
        if place in ellipses:
            # An ellipsis wins over an added axis of the same place.
            whole(len(shape) - spelt)
        elif added[place]:
            result.append(1)
        else:
            row = _resolve(shape[len(rows)], bit, specification[place], options)
            rows.append(row)
            if not options.shrink_axis_mask & bit:
                result.append(row[1])
    whole(len(shape) - len(rows))
    first, count, step = zip(*rows, strict=True) if rows else ((), (), ())
    reshape = None if tuple(result) == count else tuple(result)
    return Imported(StridedSliceAttributes(first, count, step), (0,), reshape=reshape)


def _resolve(extent: int, bit: int, specification: Shape, options: Any) -> Shape:
    """First index, count and step along one dimension of TFLite's STRIDED_SLICE."""
    begin, end, step = specification
    demand(step != 0, "a stride of 0")
    if options.shrink_axis_mask & bit:
        demand(-extent <= begin < extent, f"element {begin} of {extent}")
        return begin % extent, 1, 1
    first = None if options.begin_mask & bit else begin
    last = None if options.end_mask & bit else end
    if last is not None and options.offset and first is not None:
        last += first
    chosen = range(extent)[slice(first, last, step)]
    return chosen.start if len(chosen) else 0, len(chosen), step


@dataclass(frozen=True)
class SplitAttributes(Attributes):
    """Attributes of a split: the axis and the extents of the parts along it."""

    axis: int = 0
    sizes: Shape = ()


@define
class Split(Operator):
    """Consecutive parts along an axis."""

    moves = True
    name = "split"
    attributes = SplitAttributes
    results = None
    tflite = ("SPLIT", "SPLIT_V")

    def _split(self, call: Call) -> SplitAttributes:
        return call.attributes(SplitAttributes)

    def infer(self, call: Call) -> Sequence[Expected]:
        a, shape = self._split(call), call.type().shape
        demand(0 <= a.axis < len(shape), f"axis {a.axis} of {len(shape)} dimensions")
        demand(
            sum(a.sizes) == shape[a.axis] and min(a.sizes, default=0) >= 0,
            f"parts {a.sizes} of {shape[a.axis]}",
        )
        return [
            Expected((*shape[: a.axis], size, *shape[a.axis + 1 :]), call.type().dtype)
            for size in a.sizes
        ]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = self._split(call)
        parts = np.split(x, np.cumsum(a.sizes)[:-1], axis=a.axis)
        return [
            requantized(part, call.type(), out.type)
            for part, out in zip(parts, call.outputs, strict=True)
        ]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        data, where = (1, 0) if builtin == "SPLIT" else (0, 2)
        axis = normalized_axis(static(call, where, "axis")[0], call.type(data).rank)
        extent, count = call.type(data).shape[axis], len(call.outputs)
        if builtin == "SPLIT":
            return Imported(SplitAttributes(axis, (extent // count,) * count), (data,))
        sizes = static(call, 1, "extents of the parts")
        rest = extent - sum(size for size in sizes if size != -1)
        filled = tuple(rest if size == -1 else size for size in sizes)
        return Imported(SplitAttributes(axis, filled), (data,))

    def to_tflite(self, call: Call) -> Exported:
        a = self._split(call)
        axis = np.array(a.axis, np.int32)
        if len(set(a.sizes)) == 1:
            return Exported("SPLIT", tflite.SplitOptions(num_splits=len(a.sizes)), (axis, 0))
        table = tflite.SplitVOptions(num_splits=len(a.sizes))
        return Exported("SPLIT_V", table, (0, np.array(a.sizes, np.int32), axis))


@dataclass(frozen=True)
class AxisAttributes(Attributes):
    """Attributes of operators that work along one axis."""

    axis: int = 0


@define
class Pack(Operator):
    """Operands stacked along a new axis."""

    moves = True
    name = "pack"
    operands = ("inputs*",)
    attributes = AxisAttributes
    tflite = ("PACK",)

    def _axis(self, call: Call) -> int:
        return call.attributes(AxisAttributes).axis

    def infer(self, call: Call) -> Sequence[Expected]:
        axis, first = self._axis(call), call.type(0)
        demand(0 <= axis <= first.rank, f"axis {axis} of {first.rank + 1} dimensions")
        shapes = {call.type(i).shape for i in range(len(call.inputs))}
        demand(len(shapes) == 1, "operands differ in shape")
        dtypes = {call.type(i).dtype for i in range(len(call.inputs))}
        demand(len(dtypes) == 1, "operands differ in element type")
        shape = (*first.shape[:axis], len(call.inputs), *first.shape[axis:])
        return [Expected(shape, first.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        parts = [
            requantized(x, call.type(i), call.result.type)
            for i, x in enumerate(arrays)
            if x is not None
        ]
        return [np.stack(parts, axis=self._axis(call))]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(AxisAttributes(normalized_axis(options.axis, call.type(0).rank + 1)))

    def to_tflite(self, call: Call) -> Exported:
        table = tflite.PackOptions(values_count=len(call.inputs), axis=self._axis(call))
        return Exported("PACK", table)


@define
class Unpack(Operator):
    """Slices of extent 1 along an axis, without that axis."""

    moves = True
    name = "unpack"
    attributes = AxisAttributes
    results = None
    tflite = ("UNPACK",)

    def _axis(self, call: Call) -> int:
        return call.attributes(AxisAttributes).axis

    def infer(self, call: Call) -> Sequence[Expected]:
        axis, type = self._axis(call), call.type()
        demand(0 <= axis < type.rank, f"axis {axis} of {type.rank} dimensions")
        part = Expected((*type.shape[:axis], *type.shape[axis + 1 :]), type.dtype)
        return [part] * type.shape[axis]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        return [
            requantized(part, call.type(), out.type)
            for part, out in zip(np.moveaxis(x, self._axis(call), 0), call.outputs, strict=True)
        ]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(AxisAttributes(normalized_axis(options.axis, call.type(0).rank)))

    def to_tflite(self, call: Call) -> Exported:
        table = tflite.UnpackOptions(num=len(call.outputs), axis=self._axis(call))
        return Exported("UNPACK", table)


@dataclass(frozen=True)
class GatherAttributes(Attributes):
    """Attributes of a gather.

    Attributes:
        axis: the axis that the indices select along.
        batch: how many leading dimensions operand and indices have in common.
    """

    axis: int = 0
    batch: int = 0


@define
class Gather(Operator):
    """Slices of the first operand along an axis, chosen by an integer operand."""

    moves = True
    name = "gather"
    operands = ("input", "indices")
    attributes = GatherAttributes
    tflite = ("GATHER",)

    def _axis(self, call: Call) -> int:
        return call.attributes(GatherAttributes).axis

    def infer(self, call: Call) -> Sequence[Expected]:
        axis, shape = self._axis(call), call.type(0).shape
        batch = call.attributes(GatherAttributes).batch
        demand(0 <= axis < len(shape), f"axis {axis} of {len(shape)} dimensions")
        demand(
            0 <= batch <= min(axis, call.type(1).rank)
            and shape[:batch] == call.type(1).shape[:batch],
            f"{batch} common dimensions of {list(shape)} and {list(call.type(1).shape)}",
        )
        demand(call.type(1).dtype.is_integer, f"indices are {call.type(1).dtype.value}")
        demand(not call.type(1).is_quantized, "indices are quantized")
        indices = call.constant(1)
        if indices is not None:
            outside = [i for i in indices if not 0 <= i < shape[axis]]
            demand(not outside, f"index {outside[:1]} of {shape[axis]}")
        result = (*shape[:axis], *call.type(1).shape[batch:], *shape[axis + 1 :])
        return [Expected(result, call.type(0).dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, indices = arrays
        assert x is not None
        assert indices is not None
        axis, batch = self._axis(call), call.attributes(GatherAttributes).batch
        outside = indices[(indices < 0) | (indices >= x.shape[axis])]
        if outside.size:
            raise UsageError(f"the index {outside[0]} of {x.shape[axis]}", where=call.node.name)
        if not batch:
            found = x.take(indices, axis=axis)
        else:
            rows = math.prod(x.shape[:batch])
            parts = zip(
                x.reshape(rows, *x.shape[batch:]),
                indices.reshape(rows, *indices.shape[batch:]),
                strict=True,
            )
            found = np.array([part.take(places, axis=axis - batch) for part, places in parts])
        return [requantized(found.reshape(call.result.type.shape), call.type(0), call.result.type)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        if options is None:
            return Imported(GatherAttributes())
        axis = normalized_axis(options.axis, call.type(0).rank)
        batch = options.batch_dims
        return Imported(GatherAttributes(axis, batch + call.type(1).rank if batch < 0 else batch))

    def to_tflite(self, call: Call) -> Exported:
        batch = call.attributes(GatherAttributes).batch
        return Exported("GATHER", tflite.GatherOptions(axis=self._axis(call), batch_dims=batch))


@dataclass(frozen=True)
class BlockAttributes(Attributes):
    """Attributes of operators that trade space for channels: the block's extent."""

    block: int = 1


class SpaceDepth(Mover):
    """Base of the operators that trade space for channels."""

    attributes = BlockAttributes

    def block(self, call: Call) -> int:
        """Extent of the block."""
        block = call.attributes(BlockAttributes).block
        demand(call.type().rank == 4, f"an image has 4 dimensions, not {call.type().rank}")
        demand(block > 0, f"a block of {block}")
        return block

    def steps(self, call: Call) -> tuple[Shape, Shape, Shape]:
        """The move as reshape, permutation and reshape."""
        raise NotImplementedError

    def infer(self, call: Call) -> Sequence[Expected]:
        return [Expected(self.steps(call)[2], call.type().dtype)]

    def move(self, call: Call, x: Array) -> Array:
        split, perm, merged = self.steps(call)
        return x.reshape(split).transpose(perm).reshape(merged)

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(BlockAttributes(options.block_size))

    def to_tflite(self, call: Call) -> Exported:
        return Exported(self.tflite[0], self.options(block_size=self.block(call)))


@define
class SpaceToDepth(SpaceDepth):
    """Blocks of pixels become channels."""

    name = "space_to_depth"
    tflite = ("SPACE_TO_DEPTH",)
    table = "SpaceToDepthOptions"

    def steps(self, call: Call) -> tuple[Shape, Shape, Shape]:
        b = self.block(call)
        n, h, w, c = call.type().shape
        demand(h % b == 0 and w % b == 0, f"an image of {h} x {w} in blocks of {b}")
        return (n, h // b, b, w // b, b, c), (0, 1, 3, 2, 4, 5), (n, h // b, w // b, b * b * c)


@define
class DepthToSpace(SpaceDepth):
    """Channels become blocks of pixels."""

    name = "depth_to_space"
    tflite = ("DEPTH_TO_SPACE",)
    table = "DepthToSpaceOptions"

    def steps(self, call: Call) -> tuple[Shape, Shape, Shape]:
        b = self.block(call)
        n, h, w, c = call.type().shape
        demand(c % (b * b) == 0, f"{c} channels in blocks of {b} x {b}")
        return (n, h, w, b, b, c // (b * b)), (0, 1, 3, 2, 4, 5), (n, h * b, w * b, c // (b * b))
