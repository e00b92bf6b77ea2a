"""Elementwise functions of two inputs, with numpy's broadcasting.

Quantized ADD and SUBTRACT use XNNPACK's fixed point with 21-bit multipliers, MULTIPLY and
PRELU scale an exact product by a float32 factor, and the others are calculated on real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, Quantization, TensorType
from fitzroy.hw_models.numerics.requantization import (
    clip,
    dequantize,
    quantize_reference,
    quantized_range,
    requantize,
)


def add(
    a: Array,
    b: Array,
    a_type: TensorType,
    b_type: TensorType,
    out_type: TensorType,
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Sum.

    Args:
        a: first input, float32 or 8-bit and quantized per tensor.
        b: second input, of the same element type.
        a_type: type of `a`.
        b_type: type of `b`.
        out_type: type of the result, of the same element type.
        low: smallest real output.
        high: largest real output.

    Raises:
        UsageError: some of the types are quantized and others are not.
    """
    return _sum(a, b, a_type, b_type, out_type, low, high, sign=1)


def subtract(
    a: Array,
    b: Array,
    a_type: TensorType,
    b_type: TensorType,
    out_type: TensorType,
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Difference; the arguments are those of `add`."""
    return _sum(a, b, a_type, b_type, out_type, low, high, sign=-1)


def multiply(
    a: Array,
    b: Array,
    a_type: TensorType,
    b_type: TensorType,
    out_type: TensorType,
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Product; the arguments are those of `add`."""
    parameters = _parameters(a_type, b_type, out_type)
    if parameters is None:
        return _clamp(a * b, low, high)
    qa, qb, out = parameters
    product = _centred(a, qa) * _centred(b, qb)
    scale = np.float32(qa.scale[0]) * np.float32(qb.scale[0]) / np.float32(out.scale[0])
    smallest, largest = quantized_range(low, high, out, out_type.dtype)
    return requantize(product, scale, out.zero_point[0], smallest, largest, out_type.dtype)


def divide(
    a: Array,
    b: Array,
    a_type: TensorType,
    b_type: TensorType,
    out_type: TensorType,
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Quotient; the arguments are those of `add`. Quantized, 0 / 0 is the stored value 0."""
    return _through_reals(np.divide, a, b, a_type, b_type, out_type, low, high)


def minimum(
    a: Array, b: Array, a_type: TensorType, b_type: TensorType, out_type: TensorType
) -> Array:
    """Smaller of two; the arguments are those of `add`."""
    return _through_reals(_smaller, a, b, a_type, b_type, out_type)


def maximum(
    a: Array, b: Array, a_type: TensorType, b_type: TensorType, out_type: TensorType
) -> Array:
    """Larger of two; the arguments are those of `add`."""
    return _through_reals(_larger, a, b, a_type, b_type, out_type)


def prelu(
    x: Array, slope: Array, x_type: TensorType, slope_type: TensorType, out_type: TensorType
) -> Array:
    """Parametric leaky rectifier; the arguments are those of `add`."""
    parameters = _parameters(x_type, slope_type, out_type)
    if parameters is None:
        return np.where(x < 0, x * slope, x)
    qx, qs, out = parameters
    centred = _centred(x, qx)
    product = centred * _centred(slope, qs)
    positive = np.float32(qx.scale[0]) / np.float32(out.scale[0])
    negative = np.float32(qx.scale[0]) * np.float32(qs.scale[0]) / np.float32(out.scale[0])
    shape = np.broadcast_shapes(x.shape, slope.shape)
    real = np.where(
        centred < 0, product.astype(np.float32) * negative, centred.astype(np.float32) * positive
    )
    low, high = out_type.dtype.limits
    zero = out.zero_point[0]
    stored = np.rint(np.clip(real, low - zero, high - zero)).astype(np.int32) + zero
    return np.broadcast_to(stored, shape).astype(out_type.dtype.numpy)


def _sum(
    a: Array,
    b: Array,
    a_type: TensorType,
    b_type: TensorType,
    out_type: TensorType,
    low: float,
    high: float,
    sign: int,
) -> Array:
    parameters = _parameters(a_type, b_type, out_type)
    if parameters is None:
        return _clamp(a + b if sign > 0 else a - b, low, high)
    qa, qb, out = parameters
    ratios = [np.float32(q.scale[0]) / np.float32(out.scale[0]) for q in (qa, qb)]
    shift = 20 - (math.frexp(float(max(ratios)))[1] - 1)
    first, second = (int(np.rint(np.ldexp(ratio, shift))) for ratio in ratios)
    acc = _centred(a, qa, np.int64) * first + _centred(b, qb, np.int64) * (sign * second)
    half = 1 << (shift - 1) if shift > 0 else 0
    acc = (acc + half) >> shift if shift > 0 else acc << -shift
    smallest, largest = quantized_range(low, high, out, out_type.dtype)
    return clip(acc + out.zero_point[0], smallest, largest).astype(out_type.dtype.numpy)


def _through_reals(
    function: Callable[[Array, Array], Array],
    a: Array,
    b: Array,
    a_type: TensorType,
    b_type: TensorType,
    out_type: TensorType,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    parameters = _parameters(a_type, b_type, out_type)
    with np.errstate(all="ignore"):
        if parameters is None:
            return _clamp(function(a, b), low, high)
        qa, qb, out = parameters
        real = function(dequantize(a, qa), dequantize(b, qb))
    stored = quantize_reference(real, out, out_type.dtype)
    smallest, largest = quantized_range(low, high, out, out_type.dtype)
    return clip(stored, smallest, largest)


def _smaller(a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


def _larger(a: Array, b: Array) -> Array:
    return np.where(a > b, a, b)


def _clamp(real: Array, low: float, high: float) -> Array:
    if math.isinf(low) and math.isinf(high):
        return real
    return np.minimum(np.maximum(real, np.float32(low)), np.float32(high))


def _parameters(
    a: TensorType, b: TensorType, out: TensorType
) -> tuple[Quantization, Quantization, Quantization] | None:
    """Parameters of all three, or None if none has any."""
    qa, qb, qo = a.quantization, b.quantization, out.quantization
    if qa is not None and qb is not None and qo is not None:
        return qa, qb, qo
    if qa is None and qb is None and qo is None:
        return None
    raise UsageError("either both inputs and the output are quantized, or none of them")


def _centred(
    stored: Array, quantization: Quantization, kind: type[np.signedinteger] = np.int32
) -> Array:
    centred: Array = stored.astype(kind) - kind(quantization.zero_point[0])
    return centred
