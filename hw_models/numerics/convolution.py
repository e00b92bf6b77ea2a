"""Convolutions and matrix products: exact integer accumulators, and the kernels on top.

Activations are NHWC, filters OHWI (depthwise ``[1, kh, kw, C * multiplier]``, fully connected
``[O, I]``), padding is (top, bottom, left, right). Integer sums run through floating-point BLAS
whenever every partial sum provably stays an exactly representable integer.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fitzroy.base import budget
from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.hw_models.numerics.polynomials import Polynomials
from fitzroy.hw_models.numerics.requantization import (
    Arithmetic,
    clip,
    quantized_range,
    requantize,
    round_half_away,
)
from fitzroy.hw_models.parameters import effective_scale

Pair = tuple[int, int]
Padding = tuple[int, int, int, int]

_CHUNK_BYTES = 32 << 20
_NO_PADDING: Padding = (0, 0, 0, 0)


def conv_output_extent(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Output positions along one dimension; `padding` is the sum of both sides."""
    return (size + padding - (kernel - 1) * dilation - 1) // stride + 1


def same_padding(size: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> Padding:
    """TensorFlow's SAME padding: as even as possible, the odd one below or to the right."""
    before_after: list[int] = []
    for extent, window, step, spread in zip(size, kernel, stride, dilation, strict=True):
        total = max((-(-extent // step) - 1) * step + (window - 1) * spread + 1 - extent, 0)
        before_after += [total // 2, total - total // 2]
    top, bottom, left, right = before_after
    return top, bottom, left, right


def windows(
    x: Array, kernel: Pair, stride: Pair, dilation: Pair, padding: Padding, fill: float = 0
) -> Array:
    """A view [N, OH, OW, kh, kw, C] of all windows of an NHWC array.

    Args:
        x: NHWC array.
        kernel: extents of the window.
        stride: distance between windows.
        dilation: distance between taps.
        padding: (top, bottom, left, right).
        fill: value of the padding.
    """
    top, bottom, left, right = padding
    if any(padding):
        batch, height, width, channels = x.shape
        budget.demand(
            batch * (height + top + bottom) * (width + left + right) * channels * x.itemsize,
            f"{height}x{width} with a padding of {list(padding)}",
        )
        x = np.pad(
            x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=x.dtype.type(fill)
        )
    batch, height, width, channels = x.shape
    rows = conv_output_extent(height, kernel[0], stride[0], dilation[0], 0)
    columns = conv_output_extent(width, kernel[1], stride[1], dilation[1], 0)
    if rows <= 0 or columns <= 0:
        raise UsageError(
            f"windows of {kernel[0]}x{kernel[1]} do not fit into {height}x{width}",
            reason="the output would be empty",
        )
    n, h, w, c = x.strides
    return as_strided(
        x,
        (batch, rows, columns, *kernel, channels),
        (n, h * stride[0], w * stride[1], h * dilation[0], w * dilation[1], c),
        writeable=False,
    )


def accumulate_conv_2d(
    x: Array,
    w: Array,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = _NO_PADDING,
    groups: int = 1,
    x_zero_point: int = 0,
    w_zero_point: int = 0,
) -> Array:
    """Sums of products of a convolution, without bias.

    Args:
        x: [N, H, W, C], integers or floats.
        w: [O, kh, kw, C / groups].
        stride: (vertical, horizontal).
        dilation: (vertical, horizontal).
        padding: (top, bottom, left, right), filled with the zero point.
        groups: number of groups; O and C are multiples.
        x_zero_point: subtracted from `x`.
        w_zero_point: subtracted from `w`.

    Returns:
        [N, OH, OW, O]; exact int32 or int64 for integers, float32 for floats.

    Raises:
        UsageError: the window does not fit.
    """
    outputs, kernel = w.shape[0], (w.shape[1], w.shape[2])
    xs, ws, result = _exact(x, w, x_zero_point, w_zero_point, axis=(1, 2, 3))
    view = windows(xs, kernel, stride, dilation, padding)
    batch, rows, columns = view.shape[:3]
    out = np.empty((batch, rows, columns, outputs), result)
    depth, share = w.shape[3], outputs // groups
    taps = kernel[0] * kernel[1] * depth
    step = max(1, _CHUNK_BYTES // max(1, columns * taps * xs.itemsize))
    for group in range(groups):
        filters = ws[group * share : (group + 1) * share].reshape(share, taps).T
        channels = slice(group * depth, (group + 1) * depth)
        for image in range(batch):
            for row in range(0, rows, step):
                part = view[image, row : row + step, ..., channels].reshape(-1, taps)
                sums = part @ filters
                out[image, row : row + step, :, group * share : (group + 1) * share] = sums.reshape(
                    -1, columns, share
                )
    return out


def accumulate_depthwise_conv_2d(
    x: Array,
    w: Array,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = _NO_PADDING,
    multiplier: int = 1,
    x_zero_point: int = 0,
    w_zero_point: int = 0,
) -> Array:
    """Sums of products of a depthwise convolution, without bias.

    Args:
        x: [N, H, W, C].
        w: [1, kh, kw, C * multiplier]; output channel ``c * multiplier + m`` reads channel c.
        stride: (vertical, horizontal).
        dilation: (vertical, horizontal).
        padding: (top, bottom, left, right).
        multiplier: output channels per input channel.
        x_zero_point: subtracted from `x`.
        w_zero_point: subtracted from `w`.

    Returns:
        [N, OH, OW, C * multiplier]; int32 or int64 for integers, float32 for floats.
    """
    kernel = (w.shape[1], w.shape[2])
    xs, ws, result = _exact(x, w, x_zero_point, w_zero_point, axis=(0, 1, 2))
    view = windows(xs, kernel, stride, dilation, padding)
    batch, rows, columns = view.shape[:3]
    channels = x.shape[3]
    shape = (batch, rows, columns, channels, multiplier)
    taps = ws.reshape(*kernel, channels, multiplier)
    total = np.zeros(shape, xs.dtype)
    product = np.empty(shape, xs.dtype)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            np.multiply(view[:, :, :, i, j, :, None], taps[i, j], out=product)
            total += product
    return total.reshape(batch, rows, columns, channels * multiplier).astype(result, copy=False)


def accumulate_fully_connected(
    x: Array, w: Array, *, x_zero_point: int = 0, w_zero_point: int = 0
) -> Array:
    """Sums of products of ``x @ w.T``.

    Args:
        x: [..., I].
        w: [O, I].
        x_zero_point: subtracted from `x`.
        w_zero_point: subtracted from `w`.

    Returns:
        [..., O]; int32 or int64 for integers, float32 for floats.
    """
    xs, ws, result = _exact(x, w, x_zero_point, w_zero_point, axis=(1,))
    return (xs.reshape(-1, x.shape[-1]) @ ws.T).reshape(*x.shape[:-1], w.shape[0]).astype(
        result, copy=False
    )  # fmt: skip


def accumulate_transpose_conv_2d(
    x: Array,
    w: Array,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = _NO_PADDING,
    adjustment: Pair = (0, 0),
    groups: int = 1,
    x_zero_point: int = 0,
    w_zero_point: int = 0,
) -> Array:
    """Sums of products of a transposed convolution, without bias.

    Args:
        x: [N, H, W, C].
        w: [O, kh, kw, C / groups], as TFLite's TRANSPOSE_CONV has it.
        stride: (vertical, horizontal) distance between windows in the output.
        dilation: (vertical, horizontal).
        padding: (top, bottom, left, right), cropped from the output.
        adjustment: rows and columns added at the bottom and the right.
        groups: number of groups; O and C are multiples.
        x_zero_point: subtracted from `x`.
        w_zero_point: subtracted from `w`.

    Returns:
        [N, OH, OW, O] with ``OH = (H - 1) * stride + (kh - 1) * dilation + 1 - top - bottom
        + adjustment``; int32 or int64 for integers, float32 for floats.

    Raises:
        UsageError: the output would be empty.
    """
    top, bottom, left, right = padding
    xs, ws, result = _exact(x, w, x_zero_point, w_zero_point, axis=(1, 2, 3))
    batch, height, width, _ = x.shape
    outputs, kh, kw, depth = w.shape
    share = outputs // groups
    full = (
        (height - 1) * stride[0] + (kh - 1) * dilation[0] + 1 + adjustment[0],
        (width - 1) * stride[1] + (kw - 1) * dilation[1] + 1 + adjustment[1],
    )
    if full[0] <= top + bottom or full[1] <= left + right:
        raise UsageError(f"padding {padding} leaves nothing of an output of {full[0]}x{full[1]}")
    out = budget.zeros((batch, *full, outputs), xs.dtype, "a transposed convolution")
    for group in range(groups):
        source = xs[..., group * depth : (group + 1) * depth]
        span = slice(group * share, (group + 1) * share)
        for i in range(kh):
            for j in range(kw):
                y0, x0 = i * dilation[0], j * dilation[1]
                out[
                    :,
                    y0 : y0 + (height - 1) * stride[0] + 1 : stride[0],
                    x0 : x0 + (width - 1) * stride[1] + 1 : stride[1],
                    span,
                ] += source @ ws[span, i, j].T
    cropped = out[:, top : full[0] - bottom, left : full[1] - right]
    return cropped.astype(result)


def conv_2d(
    x: Array,
    w: Array,
    bias: Array | None,
    x_type: TensorType,
    w_type: TensorType,
    out_type: TensorType,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = _NO_PADDING,
    groups: int = 1,
    low: float = -math.inf,
    high: float = math.inf,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
    function: Polynomials | None = None,
) -> Array:
    """Convolution with bias, clamp and requantization.

    Args:
        x: [N, H, W, C], float32 or quantized.
        w: [O, kh, kw, C / groups]; quantized per tensor, or per channel along axis 0.
        bias: [O] float32 or int32, or None.
        x_type: type of `x`.
        w_type: type of `w`.
        out_type: element type and quantization of the result.
        stride: (vertical, horizontal).
        dilation: (vertical, horizontal).
        padding: (top, bottom, left, right).
        groups: number of groups.
        low: smallest real output.
        high: largest real output.
        arithmetic: how accumulators are scaled.
        function: of the real sums of quantized operands, in place of the clamp; its values are
            codes less the zero point. It is the Edge TPU's.
    """
    acc = accumulate_conv_2d(
        x, w, stride=stride, dilation=dilation, padding=padding, groups=groups,
        x_zero_point=_zero(x_type), w_zero_point=_zero(w_type),
    )  # fmt: skip
    return finish(
        acc, bias, x_type, w_type, out_type, low, high, arithmetic, function=function
    )  # fmt: skip


def depthwise_conv_2d(
    x: Array,
    w: Array,
    bias: Array | None,
    x_type: TensorType,
    w_type: TensorType,
    out_type: TensorType,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = _NO_PADDING,
    multiplier: int = 1,
    low: float = -math.inf,
    high: float = math.inf,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
    function: Polynomials | None = None,
) -> Array:
    """Depthwise convolution; `w` is [1, kh, kw, C * multiplier], per-channel along axis 3.

    The other arguments are those of `conv_2d`.
    """
    acc = accumulate_depthwise_conv_2d(
        x, w, stride=stride, dilation=dilation, padding=padding, multiplier=multiplier,
        x_zero_point=_zero(x_type), w_zero_point=_zero(w_type),
    )  # fmt: skip
    return finish(
        acc, bias, x_type, w_type, out_type, low, high, arithmetic, function=function
    )  # fmt: skip


def fully_connected(
    x: Array,
    w: Array,
    bias: Array | None,
    x_type: TensorType,
    w_type: TensorType,
    out_type: TensorType,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
    function: Polynomials | None = None,
) -> Array:
    """``x @ w.T + bias`` with clamp and requantization; [..., I] and [O, I] give [..., O].

    The arguments are those of `conv_2d`.
    """
    acc = accumulate_fully_connected(
        x, w, x_zero_point=_zero(x_type), w_zero_point=_zero(w_type)
    )  # fmt: skip
    return finish(
        acc, bias, x_type, w_type, out_type, low, high, arithmetic, function=function,
        rounds_once=True,
    )  # fmt: skip


def transpose_conv_2d(
    x: Array,
    w: Array,
    bias: Array | None,
    x_type: TensorType,
    w_type: TensorType,
    out_type: TensorType,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = _NO_PADDING,
    adjustment: Pair = (0, 0),
    groups: int = 1,
    low: float = -math.inf,
    high: float = math.inf,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
) -> Array:
    """Transposed convolution; see `accumulate_transpose_conv_2d` and `conv_2d`."""
    acc = accumulate_transpose_conv_2d(
        x, w, stride=stride, dilation=dilation, padding=padding, adjustment=adjustment,
        groups=groups, x_zero_point=_zero(x_type), w_zero_point=_zero(w_type),
    )  # fmt: skip
    return finish(acc, bias, x_type, w_type, out_type, low, high, arithmetic)


def requantization_scale(
    x: Quantization,
    w: Quantization,
    out: Quantization,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
    *,
    rounds_product: bool = False,
) -> Array:
    """Scale from accumulators to outputs: ``x * w / out``, a scalar or one per channel.

    Args:
        x: quantization of the activations.
        w: quantization of the filters.
        out: quantization of the output.
        arithmetic: XNNPACK calculates in float32, TFLite in float64; the Edge TPU has factors in
            float32 that multiply by the reciprocal of the output's scale.
        rounds_product: whether TFLite rounds ``x * w`` to float32 first, as its uint8
            convolutions do.
    """
    if arithmetic is Arithmetic.EDGETPU:
        factors = effective_scale(x.scale[0], np.asarray(w.scale), out.scale[0])
        return factors[0] if w.axis is None else factors
    kind = "float32" if arithmetic is Arithmetic.XNNPACK else "float64"
    inputs, filters, outputs = (np.asarray(q.scale).astype(kind) for q in (x, w, out))
    product = inputs * filters
    if rounds_product:
        product = product.astype(np.float32).astype(kind)
    scale: Array = product / outputs
    return scale[0] if w.axis is None else scale


def finish(
    acc: Array,
    bias: Array | None,
    x_type: TensorType,
    w_type: TensorType,
    out_type: TensorType,
    low: float,
    high: float,
    arithmetic: Arithmetic,
    *,
    function: Polynomials | None = None,
    rounds_once: bool = False,
) -> Array:
    """Bias, clamp and requantization after an accumulation; channels are the last axis.

    TFLite's matrix products round once, ties away from zero, where its convolutions round twice.

    Raises:
        UsageError: some of the types are quantized and others are not.
    """
    if acc.dtype.kind == "f":
        if bias is not None:
            acc = acc + bias.astype(acc.dtype, copy=False)
        return np.clip(acc, np.float32(low), np.float32(high)).astype(
            out_type.dtype.numpy, copy=False
        )
    x, w, out = x_type.quantization, w_type.quantization, out_type.quantization
    if x is None or w is None or out is None:
        raise UsageError("an integer product needs quantized inputs, filters and outputs")
    if bias is not None:
        acc = acc + bias
    if function is not None:
        return _of_real_sums(acc, function, x, w, out, out_type.dtype)
    unsigned = x_type.dtype is DType.UINT8 and not rounds_once
    scale = requantization_scale(x, w, out, arithmetic, rounds_product=unsigned)
    smallest, largest = quantized_range(low, high, out, out_type.dtype, arithmetic)
    if arithmetic is Arithmetic.TFLITE and rounds_once:
        real = round_half_away(acc.astype(np.float64) * scale) + out.zero_point[0]
        return clip(real, smallest, largest).astype(out_type.dtype.numpy)
    return requantize(acc, scale, out.zero_point[0], smallest, largest, out_type.dtype, arithmetic)


def _of_real_sums(
    acc: Array,
    function: Polynomials,
    x: Quantization,
    w: Quantization,
    out: Quantization,
    dtype: DType,
) -> Array:
    """A function of sums that were not rounded, as the Edge TPU computes it."""
    scale = requantization_scale(x, w, Quantization.per_tensor(1.0), Arithmetic.EDGETPU)
    codes = np.rint(function(acc.astype(np.float32) * scale)) + np.float32(out.zero_point[0])
    return clip(codes, *dtype.limits).astype(dtype.numpy)


def _zero(tensor: TensorType) -> int:
    quantization = tensor.quantization
    return 0 if quantization is None else quantization.zero_point[0]


def _exact(
    x: Array, w: Array, x_zero: int, w_zero: int, axis: tuple[int, ...]
) -> tuple[Array, Array, np.dtype[np.generic]]:
    """Centred operands in the cheapest type whose sums are exact, and the type of the result.

    `axis` names the dimensions of `w` that one sum runs over.
    """
    if x.dtype.kind == "f":
        return x, w.astype(x.dtype, copy=False), x.dtype
    filters = w.astype(np.int64) - w_zero
    reach = 0
    if x.size:
        reach = max(abs(int(x.min()) - x_zero), abs(int(x.max()) - x_zero))
    total = int(np.abs(filters).sum(axis=axis).max(initial=0))
    bound = max(reach * total, reach, int(np.abs(filters).max(initial=0)))
    if bound < 1 << 24:
        kind: type[np.generic] = np.float32
    elif bound < 1 << 53:
        kind = np.float64
    else:
        kind = np.int64
    centred = x.astype(kind)
    if x_zero:
        centred -= kind(x_zero)
    result = np.dtype(np.int32 if bound < 1 << 30 else np.int64)
    return centred, filters.astype(kind), result
