"""ONNX's Fourier transforms of known lengths, as products with waves."""

from __future__ import annotations

import math

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.frontends.onnx.convolution import convolved
from fitzroy.compiler.frontends.onnx.matmul import connected
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import sliced
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor
from fitzroy.compiler.frontends.onnx.windows import Windows, as_image, as_row, flat_windows

_MOST_ELEMENTS = 1 << 24
"""Most elements of a matrix of waves."""


def _waves(length: int, used: int, parts: int, bins: int, *, inverse: bool = False) -> Array:
    """Real and imaginary parts of waves: float32 [bins, 2, used, parts].

    Args:
        length: places of a period.
        used: how many of them the signal has.
        parts: 1 for real signals, 2 for complex ones.
        bins: frequencies, from 0 on.
        inverse: whether waves turn the other way, and are divided by their length.

    Raises:
        Refusal: they are too many.
    """
    if bins * used * 2 * parts > _MOST_ELEMENTS:
        raise Refusal("onnx-size", f"{bins} waves of {used} places, of which few millions fit")
    # Products of frequency and place are taken modulo a period, so that angles stay exact.
    turns = np.outer(np.arange(bins), np.arange(used)) % length
    angles = turns * (2 * np.pi / length) * (-1 if inverse else 1)
    cos, sin = np.cos(angles), np.sin(angles)
    real, imaginary = (cos, sin)[:parts], (-sin, cos)[:parts]
    both = np.stack([np.stack(real, -1), np.stack(imaginary, -1)], 1)
    return (both / (length if inverse else 1)).astype(np.float32)


def _back(length: int, used: int) -> Array:
    """What makes a real signal of the first half of a spectrum: float32 [length, 1, used, 2].

    Raises:
        Refusal: it is too large.
    """
    waves = _waves(length, length, 1, used)
    # Frequencies that the other half has, too, count twice.
    twice = np.array([1 if 2 * k in (0, length) else 2 for k in range(used)], np.float32)
    return waves.transpose(2, 3, 0, 1) * twice[:, None] / np.float32(length)


@imports("DFT")
def transform(op: Operation) -> Tensor:
    """The spectrum along an axis: real and imaginary part in the last dimension.

    Raises:
        Refusal: the length varies, or the parts are transformed.
    """
    build, x = op.build, op.input()
    if x.rank < 2 or x.shape[-1] not in (1, 2):
        raise Refusal("onnx-type-rule", f"a signal of shape {list(x.shape)}")
    if op.opset < 20:
        axis = op.integer("axis", 1)
    else:
        given = op.constants(2, "axis")
        axis = -2 if given is None else given[0]
    axis = op.axis(axis, x.rank)
    inverse, onesided = bool(op.integer("inverse")), bool(op.integer("onesided"))
    half, parts = inverse and onesided, x.shape[-1]
    if axis == x.rank - 1 or (half and parts == 1):
        raise Refusal("onnx-attribute", "a transform of parts, or of half of a real spectrum")
    lengths, extent = op.constants(1, "length"), x.shape[axis]
    length = lengths[0] if lengths else 2 * (extent - 1) if half else extent
    used = min(length // 2 + 1 if half else length, extent)
    if length < 1 or used < 1:
        raise Refusal("onnx-type-rule", f"a transform of {length} places")
    if half:
        waves = _back(length, used)
    else:
        bins = length // 2 + 1 if onesided else length
        waves = _waves(length, used, parts, bins, inverse=inverse)
    count = [used if other == axis else extent for other, extent in enumerate(x.shape)]
    x = sliced(build, x, [0] * x.rank, count, [1] * x.rank)
    others = [other for other in range(x.rank - 1) if other != axis]
    x = build.transpose(x, (*others, axis, x.rank - 1))
    outer = x.shape[:-2]
    rows = build.reshape(x, (math.prod(outer), used * parts))
    weights = build.constant(waves.reshape(-1, used * parts).T.copy())
    found = build.reshape(connected(build, rows, weights, None), (*outer, *waves.shape[:2]))
    order = [*others, axis]
    return build.transpose(found, (*(order.index(k) for k in range(len(order))), len(order)))


@imports("STFT")
def short_time_transform(op: Operation) -> Tensor:
    """Spectra of windows that move over a signal: [B, windows, frequencies, 2].

    Raises:
        Refusal: the length of windows or their distance varies.
    """
    build, x = op.build, op.input()
    x = build.reshape(x, (*x.shape, 1)) if x.rank == 2 else x
    if x.rank != 3 or x.shape[-1] not in (1, 2):
        raise Refusal("onnx-type-rule", f"a signal of shape {list(x.shape)}")
    step = int(op.constant(1, "distance of windows").reshape(-1)[0])
    window = None if op.optional(2) is None else op.constant(2, "window").reshape(-1)
    lengths = op.constants(3, "length of windows")
    length = lengths[0] if lengths else 0 if window is None else window.size
    if not 0 < length <= x.shape[1] or step < 1 or (window is not None and window.size != length):
        raise Refusal("onnx-type-rule", f"windows of {length} every {step} of {x.shape[1]}")
    batch, _, parts = x.shape
    bins = length // 2 + 1 if op.integer("onesided", 1) else length
    waves = _waves(length, length, parts, bins)
    if window is not None:
        waves *= window.astype(np.float32)[:, None]
    kernel = build.constant(waves.reshape(bins * 2, length, parts).transpose(0, 2, 1).copy())
    moves = Windows((length,), (step,), (1,), (0,), (0,), (0,))
    signal = as_image(build, build.transpose(x, (0, 2, 1)))
    image = convolved(build, signal, as_image(build, kernel), None, flat_windows(moves))
    found = build.transpose(as_row(build, image, 3), (0, 2, 1))
    return build.reshape(found, (batch, found.shape[1], bins, 2))
