"""Resizing of NHWC images."""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array
from fitzroy.hw_models.numerics.convolution import Pair


class Sampling(Enum):
    """Which point of the input an output position reads."""

    HALF_PIXEL = "half_pixel"
    ALIGN_CORNERS = "align_corners"
    LEGACY = "legacy"


def resize_bilinear(x: Array, size: Pair, sampling: Sampling = Sampling.HALF_PIXEL) -> Array:
    """Bilinear resize; 8-bit integers keep their quantization.

    Integers are interpolated with weights of 11 fractional bits and rounded half up, as
    XNNPACK does it.

    Args:
        x: [N, H, W, C] float32, int8 or uint8.
        size: (height, width) of the output.
        sampling: how output positions map to the input.
    """
    top, bottom, vertical = _taps(x.shape[1], size[0], sampling)
    left, right, horizontal = _taps(x.shape[2], size[1], sampling)
    down, across = vertical[None, :, None, None], horizontal[None, None, :, None]
    if x.dtype.kind == "f":
        return _blend(x, (top, bottom), (left, right), down, across, 1)
    fixed = [np.rint(weight * 2048).astype(np.int32) for weight in (down, across)]
    acc = _blend(x.astype(np.int32), (top, bottom), (left, right), fixed[0], fixed[1], 2048)
    return ((acc + (1 << 21)) >> 22).astype(x.dtype)


def _blend(
    x: Array, rows: tuple[Array, Array], columns: tuple[Array, Array], down: Array, across: Array,
    one: int,
) -> Array:  # fmt: skip
    """Interpolate across, then down, with weights in units of ``1 / one``."""
    first, second = (
        x[:, row][:, :, columns[0]] * one
        + (x[:, row][:, :, columns[1]] - x[:, row][:, :, columns[0]]) * across
        for row in rows
    )
    result: Array = first * one + (second - first) * down
    return result


def resize_nearest(x: Array, size: Pair, sampling: Sampling = Sampling.LEGACY) -> Array:
    """Nearest-neighbour resize, as TFLite does it.

    Args:
        x: [N, H, W, C] of any type.
        size: (height, width) of the output.
        sampling: how output positions map to the input.
    """
    rows = _nearest(x.shape[1], size[0], sampling)
    columns = _nearest(x.shape[2], size[1], sampling)
    return x[:, rows][:, :, columns]


def _scale(before: int, after: int, sampling: Sampling) -> np.float32:
    inset = int(sampling is Sampling.ALIGN_CORNERS and after != 1)
    return np.float32(before - inset) / np.float32(after - inset)


def _taps(
    before: int, after: int, sampling: Sampling
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Lower neighbour, upper neighbour, and weight of the upper one, per output position."""
    scale = _scale(before, after, sampling)
    place = np.arange(after).astype(np.float32) * scale
    if sampling is Sampling.HALF_PIXEL:
        place += np.float32(0.5) * scale - np.float32(0.5)
        place = np.clip(place, np.float32(0), np.float32(before - 1))
    lower = place.astype(np.int64)
    return lower, np.minimum(lower + 1, before - 1), place - lower.astype(np.float32)


def _nearest(before: int, after: int, sampling: Sampling) -> npt.NDArray[np.int64]:
    scale = _scale(before, after, sampling)
    place = np.arange(after).astype(np.float32)
    if sampling is Sampling.HALF_PIXEL:
        place = np.floor((place + np.float32(0.5)) * scale)
    elif sampling is Sampling.ALIGN_CORNERS:
        place = np.floor(place * scale + np.float32(0.5))
    else:
        place = np.floor(place * scale)
    index: npt.NDArray[np.int64] = np.clip(place.astype(np.int64), 0, before - 1)
    return index
