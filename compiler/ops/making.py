"""Operators that make tensors of shapes and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, DType
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
from fitzroy.compiler.ops.shape import ReshapeAttributes, static
from fitzroy.compiler.ops.tflite_options import output_type
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic


@define
class Fill(Operator):
    """A tensor whose elements are all equal to the operand, which is a scalar."""

    name = "fill"
    operands = ("value",)
    attributes = ReshapeAttributes
    moves = True
    tflite = ("FILL",)

    def infer(self, call: Call) -> Sequence[Expected]:
        shape = call.attributes(ReshapeAttributes).shape
        demand(call.type().size == 1, f"a value of shape {list(call.type().shape)}")
        demand(min(shape, default=0) >= 0, f"the shape {list(shape)}")
        return [Expected(shape, call.type().dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (value,) = arrays
        assert value is not None
        whole = np.full(call.result.type.shape, value.reshape(-1)[0], value.dtype)
        return [requantized(whole, call.type(), call.result.type)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(ReshapeAttributes(static(call, 0, "shape")), (1,))

    def to_tflite(self, call: Call) -> Exported:
        shape = np.array(call.attributes(ReshapeAttributes).shape, np.int32)
        return Exported("FILL", tflite.FillOptions(), (shape, 0))


@define
class Range(Operator):
    """Numbers from a start in equal steps up to an exclusive limit."""

    name = "range"
    operands = ("start", "limit", "delta")
    tflite = ("RANGE",)
    table = "RangeOptions"

    def infer(self, call: Call) -> Sequence[Expected]:
        dtypes = {call.type(index).dtype for index in range(3)}
        demand(len(dtypes) == 1, "start, limit and step differ in type")
        dtype = call.type().dtype
        demand(dtype in _RANGE_TYPES, f"a range of {dtype.value}")
        numbers = []
        for index, what in enumerate(("start", "limit", "step")):
            data = call.operand(index).data
            if data is None or data.size != 1:
                raise TypeRuleError(f"the {what} of a range is no constant scalar")
            numbers.append(data.reshape(-1)[0].item())
        start, limit, step = numbers
        demand(step != 0 and math.isfinite(limit - start), f"a range to {limit} in steps of {step}")
        count = max(math.ceil((limit - start) / step), 0)
        demand(count < _LONGEST_RANGE, f"a range of {count} numbers")
        return [Expected((count,), call.type().dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        start, _, delta = (array.reshape(()) for array in arrays if array is not None)
        places = np.arange(call.result.type.shape[0])
        if start.dtype.kind == "f":
            # The kernel adds the step again and again.
            steps = np.full(len(places), delta, start.dtype)
            steps[:1] = start
            return [np.cumsum(steps, dtype=start.dtype)]
        return [(start + places * delta).astype(start.dtype)]


_RANGE_TYPES = (DType.FLOAT32, DType.INT32, DType.INT64)
_LONGEST_RANGE = 1 << 28


class OfShape(Operator):
    """Base of operators whose result depends on shapes only."""

    by_shape = True

    def _value(self, call: Call) -> Array:
        raise NotImplementedError

    def infer(self, call: Call) -> Sequence[Expected]:
        demand(call.result.type.dtype in (DType.INT32, DType.INT64), "shapes are int32 or int64")
        return [Expected(self._value(call).shape)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        return [self._value(call).astype(call.result.type.dtype.numpy)]


@define
class ShapeOf(OfShape):
    """The extents of the operand."""

    name = "shape"
    tflite = ("SHAPE",)

    def _value(self, call: Call) -> Array:
        return np.array(call.type().shape, np.int64)

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        output_type(options.out_type, call)
        return Imported(self.attributes())

    def to_tflite(self, call: Call) -> Exported:
        codes = tflite.TENSOR_TYPES
        return Exported("SHAPE", tflite.ShapeOptions(out_type=int(codes[call.result.type.dtype])))


@define
class Rank(OfShape):
    """The number of dimensions of the operand."""

    name = "rank"
    tflite = ("RANK",)
    table = "RankOptions"

    def _value(self, call: Call) -> Array:
        return np.array(call.type().rank, np.int64)

    def infer(self, call: Call) -> Sequence[Expected]:
        return [Expected((), DType.INT32)]


@define
class BroadcastArgs(Operator):
    """The shape that two shapes broadcast to."""

    name = "broadcast_args"
    operands = ("a", "b")
    tflite = ("BROADCAST_ARGS",)

    def infer(self, call: Call) -> Sequence[Expected]:
        a, b = call.type(0), call.type(1)
        demand(a.dtype is b.dtype and a.dtype in (DType.INT32, DType.INT64), "shapes are integers")
        demand(a.rank == b.rank == 1, "shapes are vectors")
        return [Expected((max(a.size, b.size),), a.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        shapes = [tuple(int(n) for n in array) for array in arrays if array is not None]
        try:
            found = np.broadcast_shapes(*shapes)
        except ValueError:
            raise UsageError(f"shapes {shapes} do not broadcast", where=call.node.name) from None
        return [np.array(found, call.result.type.dtype.numpy)]
