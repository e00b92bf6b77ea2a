"""TFLite's reference kernels on stored 8-bit integers, where they differ from XNNPACK's.

Convolutions and matrix products take `Arithmetic.TFLITE` instead; copies and maxima are the same
everywhere. All inputs and outputs are quantized per tensor. Facts: the builtin reference kernels
of LiteRT, whose results these functions equal.
"""

from __future__ import annotations

import math

import numpy as np

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, Quantization, TensorType
from fitzroy.hw_models.numerics.convolution import Padding, Pair, windows
from fitzroy.hw_models.numerics.pooling import pool_counts
from fitzroy.hw_models.numerics.requantization import (
    Arithmetic,
    clip,
    multiplier_of,
    multiply_by_quantized_multiplier,
    quantized_range,
    round_half_away,
)
from fitzroy.hw_models.numerics.unary import through_table

_LEFT_SHIFT = 20
_COMPARED_BITS = 8


def add(
    a: Array,
    b: Array,
    a_type: TensorType,
    b_type: TensorType,
    out_type: TensorType,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    subtract: bool = False,
) -> Array:
    """Sum or difference: both inputs are scaled to a common unit with 20 fractional bits.

    Args:
        a: first input.
        b: second input, of the same element type; broadcasts against `a`.
        a_type: type of `a`.
        b_type: type of `b`.
        out_type: type of the result.
        low: smallest real output.
        high: largest real output.
        subtract: whether `b` is subtracted.
    """
    qa, qb, out = _parameters(a_type), _parameters(b_type), _parameters(out_type)
    unit = 2 * max(qa.scale[0], qb.scale[0])
    first = _scaled(_centred(a, qa) << _LEFT_SHIFT, qa.scale[0] / unit)
    second = _scaled(_centred(b, qb) << _LEFT_SHIFT, qb.scale[0] / unit)
    total = first - second if subtract else first + second
    result = _scaled(total, unit / ((1 << _LEFT_SHIFT) * out.scale[0]))
    return _stored(result, out_type, low, high)


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
    qa, qb, out = _parameters(a_type), _parameters(b_type), _parameters(out_type)
    scale = np.float32(qa.scale[0]) * np.float32(qb.scale[0]) / np.float32(out.scale[0])
    result = _scaled(_centred(a, qa) * _centred(b, qb), float(scale))
    return _stored(result, out_type, low, high)


def prelu(
    x: Array, slope: Array, x_type: TensorType, slope_type: TensorType, out_type: TensorType
) -> Array:
    """Parametric leaky rectifier; the arguments are those of `add`."""
    qx, qs, out = _parameters(x_type), _parameters(slope_type), _parameters(out_type)
    centred = _centred(x, qx)
    positive = _scaled(centred, qx.scale[0] / out.scale[0])
    product = centred * _centred(slope, qs)
    negative = _scaled(product, qx.scale[0] * qs.scale[0] / out.scale[0])
    return _stored(np.where(centred >= 0, positive, negative), out_type)


def requantize(x: Array, x_type: TensorType, out_type: TensorType) -> Array:
    """Change of quantization, or between int8 and uint8."""
    before, after = _parameters(x_type), _parameters(out_type)
    return _stored(_scaled(_centred(x, before), before.scale[0] / after.scale[0]), out_type)


def comparable(x: Array, type: TensorType) -> Array:
    """Real numbers in units of 1/256, which is what comparisons of quantized tensors compare."""
    parameters = _parameters(type)
    return _scaled(_centred(x, parameters) << _COMPARED_BITS, parameters.scale[0])


def mean(
    x: Array, x_type: TensorType, out_type: TensorType, *, axes: tuple[int, ...], keep_dims: bool
) -> Array:
    """Mean over some dimensions; the sum is scaled first and divided then."""
    before, after = _parameters(x_type), _parameters(out_type)
    count = math.prod(x.shape[axis] for axis in axes)
    total = _centred(x, before).sum(axis=axes, keepdims=keep_dims)
    multiplier, shift = multiplier_of(np.asarray(before.scale[0] / after.scale[0]))
    # The division by the count moves into the shift as far as the multiplier stays exact.
    room = min(int(count).bit_length() - 1, 32, 31 + int(shift))
    divided = (int(multiplier) << room) // count
    result = multiply_by_quantized_multiplier(total, divided, int(shift) - room)
    return _stored(result, out_type)


def average_pool(
    x: Array,
    x_type: TensorType,
    *,
    kernel: Pair,
    stride: Pair,
    padding: Padding,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Mean of every window in stored integers, halves away from zero; padding does not count.

    Args:
        x: [N, H, W, C], whose quantization the result keeps.
        x_type: its type.
        kernel: extents of the window.
        stride: distance between windows.
        padding: (top, bottom, left, right).
        low: smallest real output.
        high: largest real output.
    """
    total = windows(x.astype(np.int32), kernel, stride, (1, 1), padding).sum(axis=(3, 4))
    count = pool_counts(x.shape, kernel, stride, padding)
    rounded = np.sign(total) * ((np.abs(total) + count // 2) // count)
    smallest, largest = quantized_range(
        low, high, x_type.quantization, x_type.dtype, Arithmetic.TFLITE
    )
    return clip(rounded, smallest, largest).astype(x.dtype)


def softmax(x: Array, x_type: TensorType, out_type: TensorType, beta: float = 1.0) -> Array:
    """Softmax over the last dimension, with a float32 table of exponentials."""
    before, after = _parameters(x_type), _parameters(out_type)
    step = np.float32(before.scale[0]) * np.float32(beta)
    exponents = -step * np.arange(256).astype(np.float32)
    table = np.exp(exponents.astype(np.float64)).astype(np.float32)
    wide = x.astype(np.int32)
    power = table[wide.max(axis=-1, keepdims=True) - wide]
    # The reference adds one after the other; a cumulative sum keeps that order.
    total = np.cumsum(power, axis=-1, dtype=np.float32)[..., -1:]
    scaled = power * (np.float32(1) / (total * np.float32(after.scale[0])))
    low, high = out_type.dtype.limits
    return clip(np.rint(scaled) + after.zero_point[0], low, high).astype(out_type.dtype.numpy)


def logistic(x: Array, x_type: TensorType, out_type: TensorType) -> Array:
    """Logistic function through a table of 256 entries."""
    before, after = _parameters(x_type), _parameters(out_type)

    def evaluate(stored: Array) -> Array:
        real = np.float32(before.scale[0]) * _centred(stored, before).astype(np.float32)
        value = (1 / (1 + np.exp(-real.astype(np.float64)))).astype(np.float32)
        scaled = round_half_away(value * (np.float32(1) / np.float32(after.scale[0])))
        return _stored(scaled.astype(np.int64), out_type)

    return through_table(evaluate, x, x_type.dtype)


def _parameters(tensor: TensorType) -> Quantization:
    if tensor.quantization is None or not tensor.quantization.is_per_tensor:
        raise UsageError(f"{tensor} is not quantized per tensor")
    return tensor.quantization


def _centred(stored: Array, quantization: Quantization) -> Array:
    centred: Array = stored.astype(np.int64) - quantization.zero_point[0]
    return centred


def _scaled(values: Array, scale: float) -> Array:
    multiplier, shift = multiplier_of(np.asarray(scale))
    return multiply_by_quantized_multiplier(values, multiplier, shift)


def _stored(
    result: Array, out_type: TensorType, low: float = -math.inf, high: float = math.inf
) -> Array:
    """Add the zero point and clamp."""
    out = _parameters(out_type)
    smallest, largest = quantized_range(low, high, out, out_type.dtype, Arithmetic.TFLITE)
    return clip(result + out.zero_point[0], smallest, largest).astype(out_type.dtype.numpy)
