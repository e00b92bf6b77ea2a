"""Pooling and reductions over height and width; activations are NHWC."""

from __future__ import annotations

import math

import numpy as np

from fitzroy.base.types import Array, TensorType
from fitzroy.hw_models.numerics.convolution import Padding, Pair, windows
from fitzroy.hw_models.numerics.requantization import clip, quantized_range

_NO_PADDING: Padding = (0, 0, 0, 0)


_POOL_TILE = 9
"""Elements that XNNPACK's average pooling adds per pass."""


def max_pool(
    x: Array,
    x_type: TensorType,
    *,
    kernel: Pair,
    stride: Pair,
    dilation: Pair = (1, 1),
    padding: Padding = _NO_PADDING,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Largest element of every window; padding never wins.

    Args:
        x: [N, H, W, C], float32 or stored integers, whose quantization the result keeps.
        x_type: its type.
        kernel: extents of the window.
        stride: distance between windows.
        dilation: distance between taps.
        padding: (top, bottom, left, right).
        low: smallest real output.
        high: largest real output.

    Returns:
        [N, OH, OW, C] of the type of `x`.
    """
    floating = x.dtype.kind == "f"
    fill = -math.inf if floating else x_type.dtype.limits[0]
    best: Array = windows(x, kernel, stride, dilation, padding, fill).max(axis=(3, 4))
    if math.isinf(low) and math.isinf(high):
        return best
    if floating:
        return clip(best, np.float32(low), np.float32(high))
    smallest, largest = quantized_range(low, high, x_type.quantization, x_type.dtype)
    return clip(best, smallest, largest)


def arg_max_pool(x: Array, *, kernel: Pair, padding: Padding = _NO_PADDING) -> tuple[Array, Array]:
    """Largest element of every window, and its place within the window, columns first.

    Windows do not overlap. The first of equal elements counts.

    Args:
        x: [N, H, W, C] float32.
        kernel: extents of the window, which are also its strides.
        padding: (top, bottom, left, right).

    Returns:
        [N, OH, OW, C] float32, and uint32 ``column * kernel height + row``.
    """
    view = windows(x, kernel, kernel, (1, 1), padding, -math.inf)
    flat = view.transpose(0, 1, 2, 5, 4, 3).reshape(*view.shape[:3], view.shape[5], -1)
    index = flat.argmax(axis=-1)
    values = np.take_along_axis(flat, index[..., None], axis=-1)[..., 0]
    return values, index.astype(np.uint32)


def average_pool(
    x: Array,
    *,
    kernel: Pair,
    stride: Pair,
    padding: Padding = _NO_PADDING,
    low: float = -math.inf,
    high: float = math.inf,
) -> Array:
    """Mean of every window in float32, over the elements inside of the input.

    The order of the additions is XNNPACK's (``f32-avgpool-9p``), since ties after a later
    rounding depend on it: columns one after another, nine elements at a time.

    Args:
        x: [N, H, W, C] float32.
        kernel: extents of the window.
        stride: distance between windows.
        padding: (top, bottom, left, right); does not count.
        low: smallest output.
        high: largest output.
    """
    taps = windows(x, kernel, stride, (1, 1), padding).swapaxes(3, 4)
    elements = taps.reshape(*taps.shape[:3], -1, taps.shape[-1]).astype(np.float32)
    missing = -elements.shape[3] % _POOL_TILE
    elements = np.pad(elements, ((0, 0), (0, 0), (0, 0), (0, missing), (0, 0)))
    total = np.zeros_like(elements[:, :, :, 0])
    for first in range(0, elements.shape[3], _POOL_TILE):
        v = np.moveaxis(elements[:, :, :, first : first + _POOL_TILE], 3, 0)
        inner = (v[2] + v[3]) + (v[4] + v[5])
        outer = ((v[0] + v[1]) + v[8]) + (v[6] + v[7])
        total = total + (inner + outer)
    count = pool_counts(x.shape, kernel, stride, padding)
    return clip(
        total * (np.float32(1) / count.astype(np.float32)), np.float32(low), np.float32(high)
    )


def pool_counts(
    shape: tuple[int, ...],
    kernel: Pair,
    stride: Pair,
    padding: Padding,
    dilation: Pair = (1, 1),
) -> Array:
    """[1, OH, OW, 1] int64 numbers of the elements of each window inside of the input."""
    ones = np.ones((1, shape[1], shape[2], 1), np.int64)
    counts: Array = windows(ones, kernel, stride, dilation, padding).sum(axis=(3, 4))
    return counts


def global_average_pool(
    x: Array,
    x_type: TensorType,
    out_type: TensorType,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    keep_dims: bool = True,
) -> Array:
    """Mean over height and width, the two dimensions before the last.

    Args:
        x: [..., H, W, C], float32 or stored 8-bit integers.
        x_type: its type.
        out_type: type of the result.
        low: smallest real output.
        high: largest real output.
        keep_dims: whether height and width stay, with extent 1.
    """
    rank = x.ndim
    return mean(
        x, x_type, out_type, axes=(rank - 3, rank - 2), low=low, high=high, keep_dims=keep_dims
    )


def mean(
    x: Array,
    x_type: TensorType,
    out_type: TensorType,
    *,
    axes: tuple[int, ...],
    low: float = -math.inf,
    high: float = math.inf,
    keep_dims: bool = True,
) -> Array:
    """Mean over some dimensions; the arguments are those of `global_average_pool`.

    Integers are summed exactly, then ``float32(sum) * scale + offset`` is rounded, ties to
    even, where the offset holds both zero points in float32.
    """
    count = math.prod(x.shape[axis] for axis in axes)
    before, after = x_type.quantization, out_type.quantization
    if before is None or after is None:
        total = x.sum(axis=axes, keepdims=keep_dims, dtype=np.float32)
        return clip(total * (np.float32(1) / np.float32(count)), np.float32(low), np.float32(high))
    acc = x.sum(axis=axes, keepdims=keep_dims, dtype=np.int64)
    ratio = np.float32(before.scale[0]) / np.float32(after.scale[0])
    scale = ratio * (np.float32(1) / np.float32(count))
    offset = np.float32(after.zero_point[0])
    offset -= np.float32(count * before.zero_point[0]) * scale
    stored = np.rint(acc.astype(np.float32) * scale + offset)
    smallest, largest = quantized_range(low, high, after, out_type.dtype)
    return clip(stored, smallest, largest).astype(out_type.dtype.numpy)
