"""Arithmetic of plain numbers: quotients, powers, bits, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fitzroy.base.errors import UsageError
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
from fitzroy.compiler.ops.elementwise import broadcast
from fitzroy.compiler.ops.shape import normalized_axis, static
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic


class PlainBinary(Operator):
    """Base of functions of two plain numbers of one type.

    Class attributes:
        dtypes: element types that there are kernels for.
    """

    operands = ("a", "b")
    elementwise = True
    dtypes: ClassVar[tuple[DType, ...]]

    def infer(self, call: Call) -> Sequence[Expected]:
        a, b = call.type(0), call.type(1)
        demand(a.dtype is b.dtype, f"operands are {a.dtype.value} and {b.dtype.value}")
        plain_type(call, self.dtypes)
        return [Expected(broadcast(call), a.dtype)]

    def compute(self, call: Call, a: Array, b: Array) -> Array:
        """The function itself."""
        raise NotImplementedError

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a, b = arrays
        assert a is not None
        assert b is not None
        return [np.asarray(self.compute(call, a, b), a.dtype)]


def plain_type(call: Call, dtypes: Sequence[DType]) -> None:
    """Demand that operands are plain numbers of one of these types.

    Raises:
        TypeRuleError: they are not.
    """
    for value in call.inputs:
        if value is None:
            continue
        known = ", ".join(dtype.value for dtype in dtypes)
        found = value.type.dtype.value
        demand(value.type.dtype in dtypes, f"{value.name!r} is {found}, none of {known}")
        demand(not value.type.is_quantized, f"{value.name!r} is quantized")


def _nonzero(call: Call, divisor: Array) -> None:
    """Refuse to divide integers by zero, as the kernels do.

    Raises:
        UsageError: a divisor is zero.
    """
    if divisor.dtype.kind in "iu" and not divisor.all():
        raise UsageError("an integer is divided by zero", where=call.node.name)


@define
class FloorDiv(PlainBinary):
    """Quotient, rounded down."""

    name = "floor_div"
    tflite = ("FLOOR_DIV",)
    table = "FloorDivOptions"
    dtypes = (DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32)

    def compute(self, call: Call, a: Array, b: Array) -> Array:
        _nonzero(call, b)
        # numpy's own quotient of floats differs from a rounded one where that is inexact.
        return np.floor(a / b) if a.dtype.kind == "f" else np.floor_divide(a, b)


@define
class FloorMod(PlainBinary):
    """Remainder of the division rounded down; it has the sign of the divisor."""

    name = "floor_mod"
    tflite = ("FLOOR_MOD",)
    table = "FloorModOptions"
    dtypes = (DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64)

    def compute(self, call: Call, a: Array, b: Array) -> Array:
        _nonzero(call, b)
        return np.mod(a, b)


@define
class Pow(PlainBinary):
    """The first operand to the power of the second."""

    name = "pow"
    tflite = ("POW",)
    table = "PowOptions"
    dtypes = (DType.FLOAT32, DType.INT32)

    def compute(self, call: Call, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return np.power(a.astype(np.float64), b).astype(np.float32)
        if (b < 0).any():
            raise UsageError("an integer has a negative exponent", where=call.node.name)
        return np.power(a, b)


@define
class Atan2(PlainBinary):
    """Angle of the point with ordinate `a` and abscissa `b`, in radians."""

    name = "atan2"
    tflite = ("ATAN2",)
    table = "ATan2Options"
    dtypes = (DType.FLOAT32, DType.FLOAT64)

    def compute(self, call: Call, a: Array, b: Array) -> Array:
        return np.arctan2(a.astype(np.float64), b)

    def to_tflite(self, call: Call) -> Exported:
        operands: list[int | Array] = []
        for index in range(2):
            value, shape = call.operand(index), call.result.type.shape
            whole = value.type.shape == shape
            demand(whole or value.data is not None, "TFLite's ATAN2 does not broadcast")
            operands.append(index if whole else np.broadcast_to(np.asarray(value.data), shape))
        return Exported(self.tflite[0], self.options(), tuple(operands))


_BITS = (
    DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32,
)  # fmt: skip


@define
class BitwiseXor(PlainBinary):
    """Bitwise exclusive or."""

    name = "bitwise_xor"
    tflite = ("BITWISE_XOR",)
    table = "BitwiseXorOptions"
    dtypes = _BITS

    def compute(self, call: Call, a: Array, b: Array) -> Array:
        return np.bitwise_xor(a, b)


@define
class RightShift(PlainBinary):
    """Right shift, arithmetic for signed numbers, by at most the number of bits minus one."""

    name = "right_shift"
    tflite = ("RIGHT_SHIFT",)
    table = "RightShiftOptions"
    dtypes = _BITS

    def compute(self, call: Call, a: Array, b: Array) -> Array:
        return np.asarray(np.right_shift(a, np.clip(b, 0, 8 * a.itemsize - 1)))


@define
class Bitcast(Operator):
    """The same bytes as elements of another type."""

    name = "bitcast"
    tflite = ("BITCAST",)
    table = "BitcastOptions"

    def infer(self, call: Call) -> Sequence[Expected]:
        before, after = call.type(), call.result.type
        demand(not before.is_quantized and not after.is_quantized, "a tensor is quantized")
        shape, old, new = before.shape, before.dtype.itemsize, after.dtype.itemsize
        if new < old:
            shape = (*shape, old // new)
        elif new > old:
            demand(
                bool(shape) and shape[-1] == new // old,
                f"{list(shape)} elements of {old} bytes make none of {new}",
            )
            shape = shape[:-1]
        return [Expected(shape)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        type = call.result.type
        return [np.frombuffer(x.tobytes(), type.dtype.numpy).reshape(type.shape)]


@define
class AddN(Operator):
    """Sum of any number of tensors of one shape."""

    name = "add_n"
    operands = ("inputs*",)
    tflite = ("ADD_N",)
    table = "AddNOptions"
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        demand(len(call.inputs) > 0, "no operands")
        plain_type(call, (DType.FLOAT32, DType.INT32))
        types = {call.type(index) for index in range(len(call.inputs))}
        demand(len(types) == 1, "operands differ in type or shape")
        return [Expected(call.type().shape, call.type().dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        parts = [x for x in arrays if x is not None]
        return [np.sum(parts, axis=0, dtype=parts[0].dtype)]


@define
class ZerosLike(Operator):
    """Zeros of the operand's shape and type."""

    name = "zeros_like"
    by_shape = True
    tflite = ("ZEROS_LIKE",)
    table = "ZerosLikeOptions"
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        plain_type(call, (DType.FLOAT32, DType.INT32, DType.INT64))
        return [Expected(call.type().shape, call.type().dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        return [np.zeros(call.result.type.shape, call.result.type.dtype.numpy)]


@dataclass(frozen=True)
class CumsumAttributes(Attributes):
    """Attributes of running sums.

    Attributes:
        axis: the axis along which they run.
        exclusive: whether an element's own value is left out.
        reverse: whether they run from the last element to the first.
    """

    axis: int = 0
    exclusive: bool = False
    reverse: bool = False


@define
class Cumsum(Operator):
    """Running sums along an axis."""

    name = "cumsum"
    attributes = CumsumAttributes
    tflite = ("CUMSUM",)

    def infer(self, call: Call) -> Sequence[Expected]:
        plain_type(call, (DType.FLOAT32, DType.INT32, DType.INT64))
        axis, rank = call.attributes(CumsumAttributes).axis, call.type().rank
        demand(0 <= axis < rank, f"axis {axis} of {rank} dimensions")
        return [Expected(call.type().shape, call.type().dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = call.attributes(CumsumAttributes)
        line = np.flip(x, a.axis) if a.reverse else x
        sums = np.cumsum(line, axis=a.axis, dtype=x.dtype)
        if a.exclusive:
            first = np.zeros_like(sums.take([0] if x.shape[a.axis] else [], axis=a.axis))
            rest = sums.take(range(max(x.shape[a.axis] - 1, 0)), axis=a.axis)
            sums = np.concatenate([first, rest], axis=a.axis)
        return [np.ascontiguousarray(np.flip(sums, a.axis) if a.reverse else sums)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        axis = normalized_axis(static(call, 1, "axis")[0], call.type().rank)
        return Imported(CumsumAttributes(axis, options.exclusive, options.reverse), (0,))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(CumsumAttributes)
        table = tflite.CumsumOptions(exclusive=a.exclusive, reverse=a.reverse)
        return Exported("CUMSUM", table, (0, np.array(a.axis, np.int32)))


@dataclass(frozen=True)
class FakeQuantAttributes(Attributes):
    """Attributes of a rounding to few bits.

    Attributes:
        min: smallest real number.
        max: largest real number.
        num_bits: bits of the stored integers.
    """

    min: float = 0.0
    max: float = 0.0
    num_bits: int = 8


@define
class FakeQuant(Operator):
    """Real numbers rounded to the values of a quantized type."""

    name = "fake_quant"
    attributes = FakeQuantAttributes
    tflite = ("FAKE_QUANT",)
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        plain_type(call, (DType.FLOAT32,))
        a = call.attributes(FakeQuantAttributes)
        demand(a.min <= 0 <= a.max and a.min < a.max, f"a range of {a.min} to {a.max}")
        demand(2 <= a.num_bits <= 16, f"{a.num_bits} bits, of 2 to 16")
        return [Expected(call.type().shape, DType.FLOAT32)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = call.attributes(FakeQuantAttributes)
        low, high = 0, 2**a.num_bits - 1
        scale = (np.float32(a.max) - np.float32(a.min)) / np.float32(high - low)
        # The zero point is an integer, so that zero is exact, and the range moves with it.
        origin = np.float32(low) - np.float32(a.min) / scale
        zero = np.float32(np.clip(np.floor(origin + np.float32(0.5)), low, high))
        smallest, largest = (np.float32(low) - zero) * scale, (np.float32(high) - zero) * scale
        clamped = np.clip(x, smallest, largest)
        steps = np.floor((clamped - smallest) / scale + np.float32(0.5))
        return [np.asarray(steps * scale + smallest, np.float32)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        o = options
        demand(not o.narrow_range, "a narrow range, which no kernel computes")
        return Imported(FakeQuantAttributes(o.min, o.max, o.num_bits))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(FakeQuantAttributes)
        table = tflite.FakeQuantOptions(min=a.min, max=a.max, num_bits=a.num_bits)
        return Exported("FAKE_QUANT", table)


@dataclass(frozen=True)
class BucketizeAttributes(Attributes):
    """Attributes of a division into classes: their boundaries, in rising order."""

    boundaries: tuple[float, ...] = ()


@define
class Bucketize(Operator):
    """The number of boundaries that each element reaches."""

    name = "bucketize"
    attributes = BucketizeAttributes
    tflite = ("BUCKETIZE",)
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        plain_type(call, (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64))
        boundaries = call.attributes(BucketizeAttributes).boundaries
        demand(list(boundaries) == sorted(boundaries), "boundaries do not rise")
        return [Expected(call.type().shape, DType.INT32)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        boundaries = np.array(call.attributes(BucketizeAttributes).boundaries, np.float32)
        return [np.searchsorted(boundaries, x, side="right").astype(np.int32)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        given = () if options.boundaries is None else options.boundaries
        return Imported(BucketizeAttributes(tuple(float(item) for item in given)))

    def to_tflite(self, call: Call) -> Exported:
        boundaries = np.array(call.attributes(BucketizeAttributes).boundaries, np.float32)
        return Exported("BUCKETIZE", tflite.BucketizeOptions(boundaries=boundaries))


@define
class Round(Operator):
    """Nearest integer; ties round to even."""

    name = "round"
    tflite = ("ROUND",)
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        plain_type(call, (DType.FLOAT32,))
        return [Expected(call.type().shape, DType.FLOAT32)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        return [np.asarray(np.rint(x))]


@define
class Sign(Operator):
    """-1, 0 or 1."""

    name = "sign"
    tflite = ("SIGN",)
    table = "SignOptions"
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        plain_type(call, (DType.FLOAT32, DType.FLOAT64, DType.INT32))
        return [Expected(call.type().shape, call.type().dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        return [np.asarray(np.sign(x))]
