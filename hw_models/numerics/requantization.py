"""From accumulators and real numbers to stored integers, and back.

Facts: XNNPACK's ``requantization.h`` and reference kernels, TFLite's ``kernels/internal/common``
(double rounding); all confirmed against the runtimes.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, DType, Quantization


class Arithmetic(Enum):
    """Whose integer arithmetic: they differ in how they round.

    That of the Edge TPU is XNNPACK's but for the factors of filters. What else its programs do in
    another way depends on how they are made.
    """

    XNNPACK = "xnnpack"
    TFLITE = "tflite"
    EDGETPU = "edgetpu"


def requantize(
    acc: Array,
    scale: float | np.float32 | Array,
    zero_point: int,
    low: int,
    high: int,
    dtype: DType,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
) -> Array:
    """Scale integer accumulators to stored integers.

    Args:
        acc: exact integers, of any integer type or as floats.
        scale: a scalar or one per element of the last axis. XNNPACK rounds it to float32 and
            multiplies; TFLite turns the float64 into a 32-bit multiplier and a shift.
        zero_point: of the result.
        low: smallest stored result.
        high: largest stored result.
        dtype: element type of the result.
        arithmetic: XNNPACK rounds ties to even; TFLite rounds twice, halves up after the
            multiplication and away from zero after the shift.

    Returns:
        Stored integers, of the shape of `acc`.
    """
    if arithmetic is Arithmetic.TFLITE:
        multiplier, shift = multiplier_of(np.asarray(scale, np.float64))
        scaled = multiply_by_quantized_multiplier(acc, multiplier, shift)
        return clip(scaled + zero_point, low, high).astype(dtype.numpy)
    real = np.asarray(acc).astype(np.float32)
    real *= np.asarray(scale, np.float32)
    np.rint(real, out=real)
    # Clamping before adding the zero point keeps sums exact, as in XNNPACK's kernels.
    np.clip(real, low - zero_point, high - zero_point, out=real)
    real += np.float32(zero_point)
    return real.astype(dtype.numpy)


def multiplier_of(
    scale: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """TFLite's fixed-point form of scales: ``scale = multiplier * 2 ** (shift - 31)``.

    Args:
        scale: non-negative scales of any shape.

    Returns:
        Multipliers in [2**30, 2**31), and shifts; both 0 where a scale is 0 or below 2**-32.
    """
    mantissa, shift = np.frexp(np.asarray(scale, np.float64))
    # The mantissa is not negative, so that rounding half up is rounding away from zero.
    multiplier = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    shift = shift.astype(np.int64)
    over = multiplier == 1 << 31
    multiplier = np.where(over, 1 << 30, multiplier)
    shift = np.where(over, shift + 1, shift)
    tiny = shift < -31
    return np.where(tiny, 0, multiplier), np.where(tiny, 0, shift)


def multiply_by_quantized_multiplier(
    values: Array, multiplier: Array | int, shift: Array | int
) -> npt.NDArray[np.int64]:
    """TFLite's ``MultiplyByQuantizedMultiplier``: rounds twice.

    Args:
        values: int32 values, held in any integer type.
        multiplier: from `multiplier_of`.
        shift: positive to the left.
    """
    shift = np.asarray(shift, np.int64)
    left = np.maximum(shift, 0)
    high = rounding_doubling_high_mul(values.astype(np.int64) << left, multiplier)
    return rounding_divide_by_pot(high, np.maximum(-shift, 0))


def rounding_doubling_high_mul(
    values: Array | int, multiplier: Array | int
) -> npt.NDArray[np.int64]:
    """Gemmlowp's ``SaturatingRoundingDoublingHighMul``: ``values * multiplier / 2**31``."""
    product = np.asarray(values, np.int64) * np.asarray(multiplier, np.int64)
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    # Division truncates towards zero.
    quotient = np.where(nudged >= 0, nudged >> 31, -((-nudged) >> 31))
    return np.minimum(quotient, (1 << 31) - 1)


def rounding_divide_by_pot(values: Array, exponent: Array | int) -> npt.NDArray[np.int64]:
    """Gemmlowp's ``RoundingDivideByPOT``: divide by ``2**exponent``, halves away from zero."""
    values = np.asarray(values, np.int64)
    exponent = np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponent) - 1
    remainder = values & mask
    threshold = (mask >> 1) + (values < 0)
    result: npt.NDArray[np.int64] = (values >> exponent) + (remainder > threshold)
    return result


def quantize(
    real: Array,
    quantization: Quantization,
    dtype: DType,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
) -> Array:
    """Real numbers to stored integers.

    XNNPACK multiplies by the float32 reciprocal of the scale and rounds ties to even; a NaN
    becomes the largest value. TFLite divides and rounds ties away from zero.

    Args:
        real: float32 numbers.
        quantization: per tensor or per axis.
        dtype: element type of the result.
        arithmetic: how to round.
    """
    low, high = dtype.limits
    scale = quantization.scale_array(real.ndim)
    zero = quantization.zero_point_array(real.ndim)
    values = real.astype(np.float32, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        if arithmetic is Arithmetic.TFLITE:
            scaled = round_half_away(values / scale)
        else:
            scaled = np.rint(values * (np.float32(1) / scale))
            scaled = np.where(np.isnan(scaled), np.float32(np.inf), scaled)
    wide = scaled.astype(np.float64) + zero
    return clip(wide, low, high).astype(dtype.numpy)


def quantize_reference(real: Array, quantization: Quantization, dtype: DType) -> Array:
    """Real numbers to stored integers as XNNPACK's reference kernels do it.

    Unlike `quantize`, the zero point is added before rounding, and a NaN becomes a stored 0.

    Args:
        real: float32 numbers.
        quantization: one scale per tensor.
        dtype: element type of the result.
    """
    low, high = dtype.limits
    inverse = np.float32(1) / np.float32(quantization.scale[0])
    with np.errstate(invalid="ignore", over="ignore"):
        stored = real.astype(np.float32) * inverse + np.float32(quantization.zero_point[0])
    stored = np.where(np.isnan(stored), np.float32(0), stored)
    return clip(np.rint(stored), low, high).astype(dtype.numpy)


def dequantize(stored: Array, quantization: Quantization) -> npt.NDArray[np.float32]:
    """Stored integers to float32 numbers: ``float32(stored - zero_point) * scale``.

    Numbers that float32 does not hold become infinite.
    """
    zero = quantization.zero_point_array(stored.ndim)
    # Differences of 24 bits are exact in float32, which takes less time than integers of 64 bits.
    narrow = stored.dtype.itemsize <= 2 and np.abs(zero).max() < 1 << 23
    kind = np.float32 if narrow else np.int64
    centred = stored.astype(kind) - zero.astype(kind)
    real: npt.NDArray[np.float32] = centred.astype(np.float32, copy=False)
    with np.errstate(over="ignore"):
        real *= quantization.scale_array(stored.ndim)
    return real


def quantized_range(
    low: float,
    high: float,
    quantization: Quantization | None,
    dtype: DType,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
) -> tuple[int, int]:
    """Stored values of an activation's clamp, within the range of the type.

    Args:
        low: smallest real output, or minus infinity.
        high: largest real output, or infinity.
        quantization: of the output, one scale per tensor.
        dtype: of the output.
        arithmetic: XNNPACK rounds ties to even, TFLite away from zero.

    Raises:
        UsageError: the output is not quantized per tensor.
    """
    if quantization is None or not quantization.is_per_tensor:
        raise UsageError("a clamp in stored values needs one scale per tensor")
    smallest, largest = dtype.limits

    def stored(real: float) -> int:
        if math.isinf(real):
            return smallest if real < 0 else largest
        with np.errstate(over="ignore"):
            scaled = np.float32(real) / np.float32(quantization.scale[0])
        if arithmetic is Arithmetic.TFLITE:
            value = float(round_half_away(np.asarray(scaled))) + quantization.zero_point[0]
        else:
            value = float(np.rint(scaled + np.float32(quantization.zero_point[0])))
        return int(min(max(value, smallest), largest))

    return stored(low), stored(high)


def clip(values: Array, low: float | np.float32, high: float | np.float32) -> Array:
    """Limit values to [low, high]."""
    result: Array = np.clip(values, low, high)
    return result


def round_half_away(values: Array) -> Array:
    """Round to integers, halves away from zero; keeps the float type."""
    rounded: Array = np.trunc(values + np.copysign(values.dtype.type(0.5), values))
    return rounded
