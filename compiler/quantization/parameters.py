"""Filters and biases as integers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, Quantization

FILTER_LIMIT = 127
_BIAS_LIMIT = 1 << 30
_LARGEST_BIAS = (1 << 31) - 1
_SMALLEST_RATIO = 2.0**-24

_FEWEST_LEVELS = 64
"""Least integer that stands for the largest weight. From here to 127 there is a multiple of every
whole number up to 127, so filters of whole numbers are exact."""

_ROUNDING = 1e-12
"""Squared errors that differ by less count as equal; they are relative to the largest weight."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Filter and bias of a node as integers.

    Attributes:
        quantization: of the filter: its axis of output channels is the operator's, or None.
        filter: int8, of the filter's shape.
        bias: int32, one per output channel, or None.
        bias_scale: float32, the bias's scale of each channel: the input's times the filter's.
    """

    quantization: Quantization
    filter: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int32] | None
    bias_scale: npt.NDArray[np.float32]

    @property
    def bias_quantization(self) -> Quantization:
        """Quantization of the bias."""
        scales = tuple(map(float, self.bias_scale))
        axis = None if self.quantization.is_per_tensor else 0
        return Quantization(scales, (0,) * len(scales), axis)

    def real_filter(self) -> npt.NDArray[np.float32]:
        """The filter that the integers stand for."""
        scale = self.quantization.scale_array(self.filter.ndim)
        return self.filter.astype(np.float32) * scale

    def real_bias(self) -> npt.NDArray[np.float32] | None:
        """The bias that the integers stand for."""
        return None if self.bias is None else self.bias.astype(np.float32) * self.bias_scale

    def with_bias(self, bias: Array | None) -> Parameters:
        """The same filter with another bias, given in real numbers."""
        return replace(self, bias=_stored_bias(bias, self.bias_scale))


def nearest(
    data: Array, bias: Array | None, axis: int | None, input_scale: float, output_scale: float
) -> Parameters:
    """Filter and bias, each rounded to the nearest integer.

    Args:
        data: the float32 filter.
        bias: one float32 number per channel, or None.
        axis: the filter's axis of output channels, or None for one scale for all.
        input_scale: scale of the input.
        output_scale: scale of the result.
    """
    quantization = filter_quantization(data, bias, axis, input_scale, output_scale)
    # Runtimes take the product of the scales, rounded to float32.
    scales = np.asarray(quantization.scale, np.float32) * np.float32(input_scale)
    stored = stored_filter(data, quantization)
    return Parameters(quantization, stored, _stored_bias(bias, scales), scales)


def _stored_bias(
    bias: Array | None, scales: npt.NDArray[np.float32]
) -> npt.NDArray[np.int32] | None:
    if bias is None:
        return None
    stored = np.rint(bias.reshape(-1).astype(np.float64) / scales)
    return np.clip(stored, -_LARGEST_BIAS, _LARGEST_BIAS).astype(np.int32)


def filter_quantization(
    data: Array, bias: Array | None, axis: int | None, input_scale: float, output_scale: float
) -> Quantization:
    """Scales of a filter, one per output channel or one for all.

    A channel's scale is its largest magnitude / n, with the n from 64 to 127 for which the rounded
    weights have the least squared error. For example, the whole numbers 0 to 15 of an expectation
    are exact with n = 120, but off by up to half a step with n = 127. The scale is at least so
    large that the bias stays below 2**30 and the factor from accumulator to result is no less than
    2**-24; weights that this rounds away have no effect on the result either way.

    Args:
        data: the float32 filter.
        bias: one float32 number per channel, or None.
        axis: the filter's axis of output channels, or None for one scale for all.
        input_scale: scale of the input.
        output_scale: scale of the result.
    """
    # [1,n] for one scale, [channels,n] else.
    rows = data.reshape(1, -1) if axis is None else np.moveaxis(data, axis, 0)
    scale = _closest_scales(rows.reshape(len(rows), -1))
    scale = scale[0] if axis is None else scale
    scale = np.maximum(scale, output_scale * _SMALLEST_RATIO / input_scale)
    if bias is not None:
        least = np.abs(bias.reshape(-1)) / (input_scale * _BIAS_LIMIT)
        scale = np.maximum(scale, least if axis is not None else least.max(initial=0.0))
    if axis is None:
        return Quantization.per_tensor(float(scale))
    rounded = scale.astype(np.float32)
    return Quantization(tuple(map(float, rounded)), (0,) * len(rounded), axis)


def _closest_scales(rows: Array) -> npt.NDArray[np.float64]:
    """The scale with the least squared rounding error for each row of weights [n,taps]."""
    largest = np.abs(rows).max(axis=1, initial=0.0).astype(np.float64)
    best: npt.NDArray[np.float64] = largest / FILTER_LIMIT
    found = np.full(len(rows), np.inf)
    ratios = rows / np.where(largest > 0, largest, 1.0)[:, None]
    # Among equal errors, the first and finest scale wins.
    for levels in range(FILTER_LIMIT, _FEWEST_LEVELS - 1, -1):
        exact = ratios * levels
        error = np.square(np.rint(exact) - exact).sum(axis=1) / levels**2
        better = error < found - _ROUNDING
        best[better] = largest[better] / levels
        found[better] = error[better]
    return best


def stored_filter(data: Array, quantization: Quantization) -> npt.NDArray[np.int8]:
    """A float32 filter, rounded to the nearest integers."""
    scaled = np.rint(data.astype(np.float64) / quantization.scale_array(data.ndim))
    return np.clip(scaled, -FILTER_LIMIT, FILTER_LIMIT).astype(np.int8)
