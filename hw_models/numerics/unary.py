"""Elementwise functions of one input, on real numbers and on stored 8-bit integers.

Quantized inputs go through a table of 256 entries (dequantize, function, quantize), except
LEAKY_RELU and a change of parameters within one type, which XNNPACK does in fixed point.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.hw_models.numerics.requantization import (
    Arithmetic,
    clip,
    dequantize,
    quantize,
    quantize_reference,
    quantized_range,
)

Floats = npt.NDArray[np.float32]

_erf = np.frompyfunc(math.erf, 1, 1)


def _double(function: Callable[[Array], Array]) -> Callable[[Floats], Floats]:
    """Evaluate in float64 and round once, which is what a good float32 library gives."""

    def evaluate(x: Floats) -> Floats:
        return function(x.astype(np.float64)).astype(np.float32)

    return evaluate


def _sigmoid(x: Floats) -> Floats:
    wide = np.clip(x.astype(np.float64), -700, 700)
    power = np.exp(wide)
    return np.where(wide > 100, 1.0, np.where(wide < -100, 0.0, power / (1 + power))).astype(
        np.float32
    )


def _gelu(x: Floats) -> Floats:
    half = (x / np.float32(2)).astype(np.float64)
    scaled = np.asarray(x, np.float64) * math.sqrt(2.0) / 2
    return (half * (1 + np.asarray(_erf(scaled), np.float64))).astype(np.float32)


def _hardswish(x: Floats) -> Floats:
    gate: Floats = np.clip(x + np.float32(3), np.float32(0), np.float32(6))
    return (x / np.float32(6)) * gate


def _elu(x: Floats, alpha: float) -> Floats:
    power = np.expm1(np.minimum(x, 0).astype(np.float64)).astype(np.float32)
    return np.where(x < 0, np.float32(alpha) * power, x)


def _leaky_relu(x: Floats, slope: float) -> Floats:
    return np.where(x < 0, x * np.float32(slope), x)


def _clamp(x: Floats, min: float = -math.inf, max: float = math.inf) -> Floats:
    return np.minimum(np.maximum(x, np.float32(min)), np.float32(max))


REAL_FUNCTIONS: dict[str, Callable[..., Floats]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "clamp": _clamp,
    "cos": _double(np.cos),
    "elu": _elu,
    "exp": _double(np.exp),
    "floor": np.floor,
    "gelu": _gelu,
    "hardswish": _hardswish,
    "leaky_relu": _leaky_relu,
    "log": _double(np.log),
    "negate": np.negative,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "sigmoid": _sigmoid,
    "sin": _double(np.sin),
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": _double(np.tanh),
}
"""Functions on float32 arrays; some take parameters by keyword."""


def unary(name: str, x: Array, x_type: TensorType, out_type: TensorType, **params: float) -> Array:
    """Apply a function of one input.

    Args:
        name: a key of `REAL_FUNCTIONS`, or ``convert`` (also quantize, dequantize, requantize).
        x: the input.
        x_type: its type: float32, or 8-bit and quantized per tensor.
        out_type: type of the result, likewise.
        **params: ``alpha`` of elu, ``slope`` of leaky_relu, ``min`` and ``max`` of clamp.

    Raises:
        UsageError: an unknown name.
    """
    if name in ("convert", "quantize", "dequantize", "requantize"):
        return convert(x, x_type, out_type)
    function = REAL_FUNCTIONS.get(name)
    if function is None:
        raise UsageError(f"no function named {name!r}", hint=", ".join(sorted(REAL_FUNCTIONS)))
    before, after = x_type.quantization, out_type.quantization
    if before is not None and after is not None and x_type.dtype is out_type.dtype:
        if name == "leaky_relu":
            return leaky_relu_fixed_point(x, before, after, out_type.dtype, **params)
        if name == "clamp" and _equal(before, after):
            low, high = quantized_range(
                params.get("min", -math.inf), params.get("max", math.inf), after, out_type.dtype
            )
            return clip(x, low, high).astype(x.dtype)
    if before is None:
        with np.errstate(all="ignore"):
            real = function(x.astype(np.float32, copy=False), **params)
        return real if after is None else quantize(real, after, out_type.dtype)

    def evaluate(stored: Array) -> Array:
        with np.errstate(all="ignore"):
            real = function(dequantize(stored, before), **params)
        return real if after is None else quantize_reference(real, after, out_type.dtype)

    return through_table(evaluate, x, x_type.dtype)


_TABLE_BYTES = 2
"""Widest integers for which there are tables."""


def through_table(evaluate: Callable[[Array], Array], x: Array, dtype: DType) -> Array:
    """Evaluate a function of integers through a table of all of them, if they have few bits."""
    if dtype.itemsize > _TABLE_BYTES:
        return evaluate(x)
    low, high = dtype.limits
    table = evaluate(np.arange(low, high + 1).astype(dtype.numpy))
    result: Array = table[x.astype(np.int32) - low]
    return result


def convert(
    x: Array,
    x_type: TensorType,
    out_type: TensorType,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
) -> Array:
    """Change element type and quantization.

    Integers to integers of the same type: fixed point with eight fractional bits and ties up,
    as XNNPACK does it. Between int8 and uint8: through real numbers.

    Args:
        x: float32 or quantized 8-bit input.
        x_type: its type.
        out_type: type of the result.
        arithmetic: how real numbers are rounded; `fitzroy.hw_models.numerics.tflite` has
            TFLite's change of parameters.
    """
    before, after = x_type.quantization, out_type.quantization
    if after is None:
        real = x if before is None else dequantize(x, before)
        return real.astype(out_type.dtype.numpy, copy=False)
    if before is None:
        return quantize(x, after, out_type.dtype, arithmetic)
    if x_type.dtype is not out_type.dtype:

        def evaluate(stored: Array) -> Array:
            return quantize_reference(dequantize(stored, before), after, out_type.dtype)

        return through_table(evaluate, x, x_type.dtype)
    multiplier = fixed_point_multiplier(before, after)
    low, high = out_type.dtype.limits
    scaled = ((x.astype(np.int32) - before.zero_point[0]) * multiplier + 128) >> 8
    return clip(scaled + after.zero_point[0], low, high).astype(out_type.dtype.numpy)


def fixed_point_multiplier(before: Quantization, after: Quantization, slope: float = 1) -> int:
    """Ratio of scales, times `slope`, in units of 1/256, ties to even."""
    ratio = np.float32(before.scale[0]) / np.float32(after.scale[0])
    if slope != 1:
        ratio *= np.float32(slope)
    return int(np.rint(np.float32(256) * ratio))


def leaky_relu_fixed_point(
    x: Array, before: Quantization, after: Quantization, dtype: DType, slope: float
) -> Array:
    """XNNPACK's LEAKY_RELU on stored integers: eight fractional bits, ties up."""
    low, high = dtype.limits
    centred = x.astype(np.int32) - before.zero_point[0]
    positive = fixed_point_multiplier(before, after)
    negative = fixed_point_multiplier(before, after, slope)
    scaled = (centred * np.where(centred > 0, positive, negative) + 128) >> 8
    return clip(scaled + after.zero_point[0], low, high).astype(dtype.numpy)


def _equal(a: Quantization, b: Quantization) -> bool:
    return a.scale == b.scale and a.zero_point == b.zero_point
