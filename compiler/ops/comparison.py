"""Comparisons, truth values, and choices by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Imported,
    Operator,
    TypeRuleError,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import broadcast, reals, requantized
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics import tflite as tflite_kernels


class Comparison(Operator):
    """Base of comparisons of two numbers, which give booleans.

    Class attributes:
        function: numpy's comparison.
        booleans: whether operands may be booleans.
    """

    operands = ("a", "b")
    elementwise = True
    function: ClassVar[Callable[..., Array]]
    booleans: ClassVar[bool] = False

    def infer(self, call: Call) -> Sequence[Expected]:
        a, b = call.type(0), call.type(1)
        demand(a.dtype is b.dtype, f"operands are {a.dtype.value} and {b.dtype.value}")
        demand(a.is_quantized == b.is_quantized, "quantized and plain tensors are mixed")
        demand(self.booleans or a.dtype is not DType.BOOL, "booleans have no order")
        return [Expected(broadcast(call), DType.BOOL)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a, b = arrays
        assert a is not None
        assert b is not None
        compare = type(self).function
        first, second = call.type(0), call.type(1)
        if first.quantization is None or second.quantization is None:
            return [compare(a, b)]
        if arithmetic is Arithmetic.TFLITE:
            return [
                compare(*(tflite_kernels.comparable(x, t) for x, t in ((a, first), (b, second))))
            ]
        if first.quantization == second.quantization:
            return [compare(a, b)]
        return [compare(reals(a, first), reals(b, second))]


@define
class Equal(Comparison):
    """Whether two elements are equal."""

    name = "equal"
    tflite = ("EQUAL",)
    table = "EqualOptions"
    function = np.equal
    booleans = True


@define
class NotEqual(Comparison):
    """Whether two elements differ."""

    name = "not_equal"
    tflite = ("NOT_EQUAL",)
    table = "NotEqualOptions"
    function = np.not_equal
    booleans = True


@define
class Less(Comparison):
    """Whether the first element is smaller."""

    name = "less"
    tflite = ("LESS",)
    table = "LessOptions"
    function = np.less


@define
class LessEqual(Comparison):
    """Whether the first element is smaller or equal."""

    name = "less_equal"
    tflite = ("LESS_EQUAL",)
    table = "LessEqualOptions"
    function = np.less_equal


@define
class Greater(Comparison):
    """Whether the first element is larger."""

    name = "greater"
    tflite = ("GREATER",)
    table = "GreaterOptions"
    function = np.greater


@define
class GreaterEqual(Comparison):
    """Whether the first element is larger or equal."""

    name = "greater_equal"
    tflite = ("GREATER_EQUAL",)
    table = "GreaterEqualOptions"
    function = np.greater_equal


class Logical(Operator):
    """Base of functions of truth values.

    Class attributes:
        function: numpy's function.
    """

    elementwise = True
    function: ClassVar[Callable[..., Array]]

    def infer(self, call: Call) -> Sequence[Expected]:
        for index in range(len(self.operands)):
            dtype = call.type(index).dtype
            demand(dtype is DType.BOOL, f"operand {index} is {dtype.value}, not bool")
        shape = call.type().shape if len(self.operands) == 1 else broadcast(call)
        return [Expected(shape, DType.BOOL)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        return [np.asarray(type(self).function(*arrays))]


@define
class LogicalAnd(Logical):
    """Whether both are true."""

    name = "logical_and"
    operands = ("a", "b")
    tflite = ("LOGICAL_AND",)
    function = np.logical_and


@define
class LogicalOr(Logical):
    """Whether one or both are true."""

    name = "logical_or"
    operands = ("a", "b")
    tflite = ("LOGICAL_OR",)
    function = np.logical_or


@define
class LogicalNot(Logical):
    """Whether the operand is false."""

    name = "logical_not"
    tflite = ("LOGICAL_NOT",)
    function = np.logical_not


@define
class Select(Operator):
    """Elements of `x` where the condition is true, else of `y`; the three broadcast."""

    name = "select"
    operands = ("condition", "x", "y")
    tflite = ("SELECT_V2", "SELECT")
    table = "SelectV2Options"
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        condition, x, y = (call.type(index) for index in range(3))
        demand(condition.dtype is DType.BOOL, f"the condition is {condition.dtype.value}, not bool")
        demand(x.dtype is y.dtype, f"the choices are {x.dtype.value} and {y.dtype.value}")
        kinds = {type.is_quantized for type in (x, y, call.result.type)}
        demand(len(kinds) == 1, "quantized and plain tensors are mixed")
        try:
            shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
        except ValueError:
            shapes = ", ".join(str(list(type.shape)) for type in (condition, x, y))
            raise TypeRuleError(f"shapes {shapes} do not broadcast") from None
        return [Expected(shape, x.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        condition, *choices = arrays
        assert condition is not None
        x, y = (
            requantized(array, call.type(index), call.result.type)
            for index, array in enumerate(choices, 1)
            if array is not None
        )
        return [np.asarray(np.where(condition, x, y))]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        condition, rank = call.type(0), call.type(1).rank
        if builtin == "SELECT" and condition.rank == 1 and rank > 1:
            # One truth value for each row, along the first axis.
            rows = (condition.shape[0], *(1,) * (rank - 1))
            return Imported(self.attributes(), reshaped={0: rows})
        return Imported(self.attributes())


@define
class Where(Operator):
    """Indices of the elements that are true or not zero, one row each: int64 [n, rank]."""

    name = "where"
    operands = ("condition",)
    tflite = ("WHERE",)
    table = "WhereOptions"

    def infer(self, call: Call) -> Sequence[Expected]:
        data = call.operand(0).data
        if data is None:
            raise TypeRuleError(
                "the number of results depends on data that is computed at run time; shapes have"
                " to be known at compile time"
            )
        return [Expected((int(np.count_nonzero(data)), data.ndim), DType.INT64)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (condition,) = arrays
        assert condition is not None
        return [np.argwhere(condition).astype(np.int64)]
