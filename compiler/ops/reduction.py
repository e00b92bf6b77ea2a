"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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
from fitzroy.compiler.ops.elementwise import real, reals, requantized, stored
from fitzroy.compiler.ops.shape import normalized_axis, static
from fitzroy.compiler.ops.tflite_options import output_type, tensor_code
from fitzroy.formats import tflite
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics import tflite as tflite_kernels


@dataclass(frozen=True)
class ReductionAttributes(Attributes):
    """Attributes of reductions: axes in rising order, and whether they stay with extent 1."""

    axes: tuple[int, ...] = ()
    keep_dims: bool = False


class Reduction(Operator):
    """Base of reductions."""

    attributes = ReductionAttributes

    def reduction(self, call: Call) -> ReductionAttributes:
        """The call's attributes, typed."""
        return call.attributes(ReductionAttributes)

    def infer(self, call: Call) -> Sequence[Expected]:
        a, shape = self.reduction(call), call.type().shape
        demand(
            list(a.axes) == sorted(set(a.axes)) and all(0 <= axis < len(shape) for axis in a.axes),
            f"axes {a.axes} of {len(shape)} dimensions",
        )
        result = [
            1 if axis in a.axes else extent
            for axis, extent in enumerate(shape)
            if a.keep_dims or axis not in a.axes
        ]
        return [Expected(tuple(result), call.type().dtype)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        rank = call.type().rank
        axes = sorted({normalized_axis(axis, rank) for axis in static(call, 1, "axis")})
        return Imported(ReductionAttributes(tuple(axes), bool(options and options.keep_dims)), (0,))

    def to_tflite(self, call: Call) -> Exported:
        a = self.reduction(call)
        table = tflite.ReducerOptions(keep_dims=a.keep_dims)
        return Exported(self.tflite[0], table, (0, np.array(a.axes, np.int32)))


@define
class Mean(Reduction):
    """Mean over axes."""

    name = "mean"
    tflite = ("MEAN",)

    def infer(self, call: Call) -> Sequence[Expected]:
        real(call.type())
        real(call.result.type)
        demand(call.type().size > 0, "an empty operand has no mean")
        return super().infer(call)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a, before, after = self.reduction(call), call.type(), call.result.type
        if arithmetic is Arithmetic.TFLITE and before.quantization is not None:
            return [tflite_kernels.mean(x, before, after, axes=a.axes, keep_dims=a.keep_dims)]
        return [numerics.mean(x, before, after, axes=a.axes, keep_dims=a.keep_dims)]


def _by_dequantizing(
    function: Callable[..., Array], call: Call, x: Array, a: ReductionAttributes
) -> Array:
    real = reals(x, call.type())
    result = np.asarray(function(real, axis=a.axes, keepdims=a.keep_dims), real.dtype)
    return stored(result, call.result.type)


@define
class Sum(Reduction):
    """Sum over axes."""

    name = "sum"
    tflite = ("SUM",)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        return [_by_dequantizing(np.sum, call, x, self.reduction(call))]


class Extremum(Reduction):
    """Base of the largest and smallest element over axes."""

    moves = True
    function: ClassVar[Callable[..., Array]]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = self.reduction(call)
        result = np.asarray(type(self).function(x, axis=a.axes, keepdims=a.keep_dims), x.dtype)
        return [requantized(result, call.type(), call.result.type)]

    def infer(self, call: Call) -> Sequence[Expected]:
        demand(call.type().size > 0, "an empty operand has no extremum")
        return super().infer(call)


@define
class ReduceMax(Extremum):
    """Largest element over axes."""

    name = "reduce_max"
    tflite = ("REDUCE_MAX",)
    function = np.amax


@define
class ReduceMin(Extremum):
    """Smallest element over axes."""

    name = "reduce_min"
    tflite = ("REDUCE_MIN",)
    function = np.amin


@define
class ReduceProd(Reduction):
    """Product over axes."""

    name = "reduce_prod"
    tflite = ("REDUCE_PROD",)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        return [_by_dequantizing(np.prod, call, x, self.reduction(call))]


class TruthReduction(Reduction):
    """Base of reductions of truth values."""

    function: ClassVar[Callable[..., Array]]

    def infer(self, call: Call) -> Sequence[Expected]:
        demand(call.type().dtype is DType.BOOL, f"the operand is {call.type()}, not bool")
        return super().infer(call)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = self.reduction(call)
        return [np.asarray(type(self).function(x, axis=a.axes, keepdims=a.keep_dims))]


@define
class ReduceAny(TruthReduction):
    """Whether one of the elements over axes is true."""

    name = "reduce_any"
    tflite = ("REDUCE_ANY",)
    function = np.any


@define
class ReduceAll(TruthReduction):
    """Whether all elements over axes are true."""

    name = "reduce_all"
    tflite = ("REDUCE_ALL",)
    function = np.all


@dataclass(frozen=True)
class ArgAttributes(Attributes):
    """Attributes of the position of an extremum: the axis searched."""

    axis: int = 0


class ArgExtremum(Operator):
    """Base of the positions of extrema; of equal elements the first counts."""

    attributes = ArgAttributes
    function: ClassVar[Callable[..., Array]]

    def _axis(self, call: Call) -> int:
        return call.attributes(ArgAttributes).axis

    def infer(self, call: Call) -> Sequence[Expected]:
        axis, shape = self._axis(call), call.type().shape
        demand(0 <= axis < len(shape), f"axis {axis} of {len(shape)} dimensions")
        stated = call.result.type.dtype
        demand(stated in (DType.INT32, DType.INT64), f"positions are {stated.value}")
        demand(call.type().size > 0, "an empty operand has no extremum")
        return [Expected((*shape[:axis], *shape[axis + 1 :]))]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        found = type(self).function(x, axis=self._axis(call))
        return [np.asarray(found).astype(call.result.type.dtype.numpy)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        axis = normalized_axis(static(call, 1, "axis")[0], call.type().rank)
        output_type(options.output_type, call)
        return Imported(ArgAttributes(axis), (0,))

    def to_tflite(self, call: Call) -> Exported:
        table = tflite.ArgMaxOptions if self.name == "arg_max" else tflite.ArgMinOptions
        code = tensor_code(call.result.type.dtype)
        return Exported(
            self.tflite[0], table(output_type=code), (0, np.array(self._axis(call), np.int32))
        )


@define
class ArgMax(ArgExtremum):
    """Position of the largest element along an axis."""

    name = "arg_max"
    tflite = ("ARG_MAX",)
    function = np.argmax


@define
class ArgMin(ArgExtremum):
    """Position of the smallest element along an axis."""

    name = "arg_min"
    tflite = ("ARG_MIN",)
    function = np.argmin
