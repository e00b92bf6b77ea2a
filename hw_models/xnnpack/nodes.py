"""What every node of a serialized XNNPACK graph computes, and what the runtime refuses.

Facts: XNNPACK's ``xnn_define_*`` functions and operators, confirmed against the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import Array, Quantization
from fitzroy.formats import xnnpack as xn
from fitzroy.formats.flat import ints
from fitzroy.formats.xnnpack import INVALID_ID, DataType, NodeFlag, NodeTable
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics.unary import fixed_point_multiplier
from fitzroy.hw_models.xnnpack.values import MAX_BYTES, MAX_RANK, Value, datatype_name

_QUANTIZED = (DataType.QINT8, DataType.QUINT8)
_COMMON = (DataType.FP32, *_QUANTIZED)


@dataclass(slots=True)
class Row:
    """Parameters that dynamic quantization found, one per row; shaped to broadcast."""

    scale: Array
    zero_point: Array


@dataclass(slots=True)
class Frame:
    """State of one execution, and helpers for the node that runs.

    Attributes:
        values: all values of the graph.
        arrays: what was computed so far, by value id.
        rows: parameters of dynamically quantized values.
        where: the node that runs, for errors.
        low: smallest real output of the node.
        high: largest real output of the node.
        clamped: whether the node states an output range.
    """

    values: Mapping[int, Value]
    arrays: dict[int, Array]
    rows: dict[int, Row] = field(default_factory=dict)
    where: str = ""
    low: float = -math.inf
    high: float = math.inf
    clamped: bool = False

    def fault(self, what: str) -> FormatError:
        """A malformed node."""
        return FormatError(what, table=self.where)

    def refuse(self, rule: str, what: str, reason: str = "", hint: str = "") -> UnsupportedError:
        """A node that the runtime does not execute, or not as anybody would expect."""
        reject = Diagnostic(Severity.ERROR, rule, self.where, what, reason, hint)
        return UnsupportedError(f"{self.where}: {what}", rejects=(reject,))

    def value(self, number: int, *kinds: int) -> Value:
        """The value with an id, of one of the permitted element types."""
        if number not in self.values:
            raise self.fault(f"no value has id {number}")
        value = self.values[number]
        if kinds and value.datatype not in kinds:
            raise self.refuse(
                "element-type",
                f"{value.name} has element type {datatype_name(value.datatype)}",
                f"{', '.join(map(datatype_name, kinds))} can be used here",
            )
        return value

    def read(self, number: int, *kinds: int) -> tuple[Array, Value]:
        """Contents and value of an input."""
        value = self.value(number, *kinds)
        if number not in self.arrays:
            raise self.fault(f"{value.name} is read before anything computed it")
        return self.arrays[number], value

    def constant(self, number: int, *kinds: int) -> tuple[Array, Value]:
        """Contents and value of an operand that must be a constant."""
        array, value = self.read(number, *kinds)
        if value.data is None:
            raise self.refuse("static-weights", f"{value.name} is no constant")
        return array, value

    def write(self, number: int, array: Array) -> None:
        """Store an output, whose type was declared."""
        value = self.value(number)
        if number in self.arrays:
            raise self.fault(f"{value.name} is computed twice, or is an input or a constant")
        self.expect(number, array.shape)
        # Operations on arrays without dimensions yield numpy scalars.
        self.arrays[number] = np.asarray(array, value.type.dtype.numpy)

    def expect(self, number: int, shape: tuple[int, ...]) -> None:
        """Compare the shape of a result, which may be large, before it is computed."""
        value = self.value(number)
        if shape != value.type.shape:
            raise self.fault(
                f"the result has shape {list(shape)}, "
                f"{value.name} declares {list(value.type.shape)}"
            )

    def same_type(self, first: Value, *others: Value) -> None:
        """Require one element type."""
        for other in others:
            if other.datatype != first.datatype:
                raise self.refuse(
                    "element-types-differ",
                    f"{first.name} has element type {datatype_name(first.datatype)}, "
                    f"{other.name} has {datatype_name(other.datatype)}",
                    hint="insert a Convert",
                )

    def same_parameters(self, first: Value, other: Value) -> None:
        """Require one element type and, of 8-bit integers, one quantization."""
        self.same_type(first, other)
        a, b = first.type.quantization, other.type.quantization
        if a is not None and b is not None and (a.scale, a.zero_point) != (b.scale, b.zero_point):
            raise self.refuse(
                "quantization-differs",
                f"{first.type} and {other.type} have different quantization",
                hint="insert a Convert",
            )

    def rank(self, value: Value, rank: int) -> None:
        """Require a number of dimensions."""
        if value.type.rank != rank:
            raise self.fault(f"{value.name} has {value.type.rank} dimensions, {rank} are needed")

    def check_range(self) -> None:
        """Require a sensible output range."""
        if math.isnan(self.low) or math.isnan(self.high) or self.low > self.high:
            raise self.fault(f"the output range is [{self.low}, {self.high}]")

    def unclamped(self) -> None:
        """Refuse an output range, which the runtime would ignore for this node."""
        if self.clamped and (self.low != -math.inf or self.high != math.inf):
            raise self.refuse(
                "ignored-output-range", "the runtime ignores the output range of this node"
            )


Run = Callable[[Frame, Any], None]


def _quantization(value: Value) -> Quantization:
    quantization = value.type.quantization
    if quantization is None:
        raise FormatError(f"{value.name} lacks quantization", table="XNNGraph")
    return quantization


# --- elementwise -----------------------------------------------------------------------------


def _unary(name: str, **parameters: str) -> Run:
    """A function of one input; `parameters` maps keywords to fields of the node."""

    def run(frame: Frame, node: Any) -> None:
        frame.unclamped()
        x, value = frame.read(node.input_id, *_COMMON)
        out = frame.value(node.output_id, *_COMMON)
        frame.same_type(value, out)
        params = {keyword: float(getattr(node, name)) for keyword, name in parameters.items()}
        frame.write(node.output_id, numerics.unary(name, x, value.type, out.type, **params))

    return run


def _clamp(frame: Frame, node: xn.Unary) -> None:
    frame.check_range()
    x, value = frame.read(node.input_id, *_COMMON)
    out = frame.value(node.output_id, *_COMMON)
    frame.same_type(value, out)
    result = numerics.unary("clamp", x, value.type, out.type, min=frame.low, max=frame.high)
    frame.write(node.output_id, result)


def _leaky_relu(frame: Frame, node: xn.XNNLeakyReLU) -> None:
    value, out = frame.value(node.input_id, *_COMMON), frame.value(node.output_id, *_COMMON)
    if value.datatype in _QUANTIZED and value.datatype == out.datatype:
        before, after = _quantization(value), _quantization(out)
        positive = fixed_point_multiplier(before, after)
        negative = fixed_point_multiplier(before, after, node.negative_slope)
        if positive > 32768 or not -32767 <= negative <= 32768:
            raise frame.refuse(
                "scale-ratio",
                f"multipliers {positive / 256:.7g} and {negative / 256:.7g} overflow",
                "input scale / output scale, and its product with the slope, are at most 128",
            )
    _unary("leaky_relu", slope="negative_slope")(frame, node)


def _convert(frame: Frame, node: xn.Unary) -> None:
    frame.unclamped()
    out = frame.value(node.output_id, *_COMMON, DataType.QDINT8)
    if out.datatype == DataType.QDINT8:
        x, value = frame.read(node.input_id, DataType.FP32)
        stored, row = quantize_rows(x, out.row_dims)
        frame.write(node.output_id, stored)
        frame.rows[node.output_id] = row
        return
    x, value = frame.read(node.input_id, *_COMMON)
    if value.datatype == out.datatype and value.datatype in _QUANTIZED:
        multiplier = fixed_point_multiplier(_quantization(value), _quantization(out))
        if multiplier > 32768:
            raise frame.refuse(
                "scale-ratio",
                f"the scales differ by a factor of {multiplier / 256:.7g}",
                "input scale / output scale is at most 128",
            )
    frame.write(node.output_id, numerics.convert(x, value.type, out.type))


def quantize_rows(x: Array, row_dims: int) -> tuple[Array, Row]:
    """Dynamic quantization to int8: scale and zero point from the extremes of every row.

    Args:
        x: float32 input.
        row_dims: number of trailing dimensions of a row.

    Returns:
        int8 values of the shape of `x`, and the parameters of the rows.
    """
    axes = tuple(range(x.ndim - row_dims, x.ndim))
    smallest = np.minimum(x.min(axis=axes, keepdims=True), np.float32(0))
    largest = np.maximum(x.max(axis=axes, keepdims=True), np.float32(0))
    one = np.float32(1)
    span = np.where(smallest == largest, one, largest - smallest)
    inverse = np.where(smallest == largest, one, np.float32(255) / span)
    from_min, from_max = smallest * inverse, largest * inverse
    low, high = np.float32(-128), np.float32(127)
    below = (low + from_min) + (high + from_max) > 0
    zero = np.rint(np.clip(np.where(below, low - from_min, high - from_max), low, high))
    stored = np.rint(x * inverse)
    stored = np.clip(stored + zero, -128, 127).astype(np.int8)
    return stored, Row(one / inverse, zero.astype(np.int32))


def _sum(function: Callable[..., Array]) -> Run:
    """Addition or subtraction, whose fixed point has a limited range."""
    inner = _binary(function, clamps=True)

    def run(frame: Frame, node: xn.Binary) -> None:
        operands = [frame.value(i, *_COMMON) for i in (node.input1_id, node.input2_id)]
        out = frame.value(node.output_id, *_COMMON)
        if all(value.datatype in _QUANTIZED for value in (*operands, out)):
            ratio = max(_quantization(v).scale[0] for v in operands) / _quantization(out).scale[0]
            if not 2**-11 <= ratio < 2**20:
                raise frame.refuse(
                    "scale-ratio",
                    f"the larger input scale / output scale is {ratio:.7g}",
                    "fixed point permits 2**-11 up to 2**20",
                )
        inner(frame, node)

    return run


def _binary(function: Callable[..., Array], *, clamps: bool) -> Run:
    def run(frame: Frame, node: xn.Binary) -> None:
        a, first = frame.read(node.input1_id, *_COMMON)
        b, second = frame.read(node.input2_id, *_COMMON)
        out = frame.value(node.output_id, *_COMMON)
        frame.same_type(first, second, out)
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            raise frame.fault(
                f"shapes {list(a.shape)} and {list(b.shape)} do not broadcast"
            ) from None
        options: dict[str, float] = {}
        if clamps:
            frame.check_range()
            options = {"low": frame.low, "high": frame.high}
        else:
            frame.unclamped()
        result = function(a, b, first.type, second.type, out.type, **options)
        frame.write(node.output_id, result)

    return run


# --- convolutions ----------------------------------------------------------------------------


def _window(frame: Frame, node: Any, kernel: str, stride: str) -> tuple[numerics.Pair, ...]:
    """Extents, strides and dilations of a node; all must be positive."""
    pairs = tuple(
        (int(getattr(node, f"{name}_height")), int(getattr(node, f"{name}_width")))
        for name in (kernel, stride, "dilation")
        if hasattr(node, f"{name}_height")
    )
    if any(extent == 0 for pair in pairs for extent in pair):
        raise frame.fault(f"an extent, stride or dilation is 0: {pairs}")
    return pairs


def _padding(
    frame: Frame,
    node: Any,
    value: Value,
    kernel: numerics.Pair,
    stride: numerics.Pair,
    dilation: numerics.Pair,
) -> numerics.Padding:
    padding = (node.padding_top, node.padding_bottom, node.padding_left, node.padding_right)
    if not node.flags & NodeFlag.TENSORFLOW_SAME_PADDING:
        return padding
    if any(padding):
        raise frame.fault(f"SAME padding together with explicit padding {padding}")
    size = value.type.shape[1], value.type.shape[2]
    return numerics.same_padding(size, kernel, stride, dilation)


def _check_same(
    frame: Frame,
    node: xn.Convolution | xn.Pooling,
    value: Value,
    kernel: numerics.Pair,
    stride: numerics.Pair,
    dilation: numerics.Pair,
) -> None:
    """Refuse SAME padding that underflows in the runtime, which then reads stray memory."""
    if not node.flags & NodeFlag.TENSORFLOW_SAME_PADDING:
        return
    for extent, window, step, spread in zip(
        value.type.shape[1:3], kernel, stride, dilation, strict=True
    ):
        needed = (-(-extent // step) - 1) * step + (window - 1) * spread + 1
        if needed < extent:
            raise frame.refuse(
                "same-padding",
                f"windows with SAME padding cover {needed} of {extent} elements",
                "the runtime calculates with negative padding",
                "state the padding explicitly",
            )


def _check_fit(
    frame: Frame,
    value: Value,
    kernel: numerics.Pair,
    dilation: numerics.Pair,
    padding: numerics.Padding,
) -> None:
    """Refuse a window larger than the padded input, with which the runtime crashes."""
    sums = padding[0] + padding[1], padding[2] + padding[3]
    batch, height, width, channels = value.type.shape
    padded = batch * (height + sums[0]) * (width + sums[1]) * channels
    if padded * 4 > MAX_BYTES:
        raise frame.refuse("input-size", f"the padded input has {padded} elements")
    for extent, window, spread, added in zip(
        value.type.shape[1:3], kernel, dilation, sums, strict=True
    ):
        span = (window - 1) * spread + 1
        if span > extent + added:
            raise frame.refuse(
                "window-exceeds-input",
                f"a window spans {span} elements of {extent + added} with padding",
            )


def _check_windows(
    frame: Frame,
    number: int,
    value: Value,
    kernel: numerics.Pair,
    stride: numerics.Pair,
    dilation: numerics.Pair,
    padding: numerics.Padding,
) -> None:
    """Refuse pooling windows without any element of the input; the runtime reads the border."""
    _check_fit(frame, value, kernel, dilation, padding)
    batch, height, width, channels = value.type.shape
    rows, columns = (
        numerics.conv_output_extent(size, window, step, spread, added)
        for size, window, step, spread, added in zip(
            (height, width), kernel, stride, dilation,
            (padding[0] + padding[1], padding[2] + padding[3]), strict=True,
        )
    )  # fmt: skip
    frame.expect(number, (batch, rows, columns, channels))
    counts = numerics.pool_counts(value.type.shape, kernel, stride, padding, dilation)
    if not counts.all():
        raise frame.refuse(
            "empty-window",
            f"padding {padding} leaves windows of {kernel} without any element of the input",
        )


def _product_types(
    frame: Frame, value: Value, filters: Value, bias: Value | None, out: Value, axis: int
) -> None:
    """Check the combinations of element types of a convolution or matrix product."""
    kinds = value.datatype, filters.datatype, out.datatype
    allowed: dict[tuple[int, ...], tuple[int, ...]] = {
        (DataType.FP32, DataType.FP32, DataType.FP32): (DataType.FP32,),
        (DataType.QINT8, DataType.QINT8, DataType.QINT8): (DataType.QINT32,),
        (DataType.QINT8, DataType.QCINT8, DataType.QINT8): (DataType.QCINT32,),
        (DataType.QUINT8, DataType.QUINT8, DataType.QUINT8): (DataType.QINT32,),
        (DataType.QDINT8, DataType.QCINT8, DataType.FP32): (DataType.FP32,),
        (DataType.FP32, DataType.QCINT8, DataType.FP32): (DataType.FP32,),
    }
    biases = allowed.get(kinds)
    if biases is None or (bias is not None and bias.datatype not in biases):
        names = [datatype_name(v.datatype) for v in (value, filters, out)]
        extra = "" if bias is None else f", bias {datatype_name(bias.datatype)}"
        raise frame.refuse(
            "product-types", f"input {names[0]}, filter {names[1]}{extra}, output {names[2]}"
        )
    weights = filters.type.quantization
    if weights is None:
        return
    if weights.axis is not None and weights.axis != axis:
        raise frame.refuse(
            "channel-dimension", f"the filter's scales run along dimension {weights.axis}",
            f"dimension {axis} is needed",
        )  # fmt: skip
    if filters.datatype == DataType.QINT8 and weights.zero_point[0]:
        raise frame.refuse(
            "filter-zero-point", f"the signed filter has zero point {weights.zero_point[0]}",
            "only 0 is possible",
        )  # fmt: skip
    before, after = value.type.quantization, out.type.quantization
    if before is not None and after is not None:
        scale = np.max(numerics.requantization_scale(before, weights, after))
        if scale >= 256:
            raise frame.refuse(
                "requantization-scale", f"input * filter / output scale is {scale:.7g}",
                "it must be below 256",
            )  # fmt: skip


def _bias(frame: Frame, number: int, channels: int, kinds: Sequence[int]) -> Value | None:
    if number == INVALID_ID:
        return None
    _, value = frame.constant(number, *kinds)
    if value.type.shape != (channels,):
        raise frame.fault(f"the bias has shape {list(value.type.shape)}, [{channels}] is needed")
    return value


_BIASES = (DataType.FP32, DataType.QINT32, DataType.QCINT32)
_FILTERS = (DataType.FP32, DataType.QINT8, DataType.QUINT8, DataType.QCINT8)
_INPUTS = (*_COMMON, DataType.QDINT8)


def _convolution(frame: Frame, node: xn.Convolution) -> None:
    x, value = frame.read(node.input1_id, *_INPUTS)
    w, filters = frame.constant(node.filter_id, *_FILTERS)
    out = frame.value(node.output_id, *_COMMON)
    frame.check_range()
    frame.rank(value, 4)
    kernel, stride, dilation = _window(frame, node, "kernel", "subsampling")
    depthwise = isinstance(node, xn.XNNDepthwiseConv2d)
    transposed = isinstance(node, xn.XNNConvTranspose2d)
    if node.flags & ~int(NodeFlag.TENSORFLOW_SAME_PADDING):
        raise frame.fault(f"flags {node.flags:#x} are no flags of a convolution")
    groups, depth, share = node.groups, node.group_input_channels, node.group_output_channels
    if not (groups and depth and share):
        raise frame.fault(f"{groups} groups of {depth} input and {share} output channels")
    if depthwise:
        share //= depth
        expected = (1, *kernel, groups * share)
        channels = groups
    else:
        expected = (groups * share, *kernel, depth)
        channels = groups * depth
    if filters.type.shape != expected:
        raise frame.fault(f"the filter has shape {list(w.shape)}, {list(expected)} is needed")
    if value.type.shape[3] != channels:
        raise frame.fault(f"the input has {value.type.shape[3]} channels, {channels} are needed")
    bias = _bias(frame, node.bias_id, groups * share, _BIASES)
    _product_types(frame, value, filters, bias, out, 3 if depthwise else 0)
    options: dict[str, Any] = {"stride": stride, "dilation": dilation}
    if transposed:
        if node.flags & NodeFlag.TENSORFLOW_SAME_PADDING:
            raise frame.fault("a transposed convolution cannot choose its own padding")
        options["padding"] = (
            node.padding_top, node.padding_bottom, node.padding_left, node.padding_right,
        )  # fmt: skip
        adjustment = (node.adjustment_height, node.adjustment_width)
        if any(a >= n for a, n in zip(adjustment, stride, strict=True)):
            raise frame.fault(f"adjustment {adjustment} must be below the stride {stride}")
        options["adjustment"] = adjustment
        options["groups"] = groups
    else:
        options["padding"] = _padding(frame, node, value, kernel, stride, dilation)
        if kernel != (1, 1):
            _check_same(frame, node, value, kernel, stride, dilation)
        _check_fit(frame, value, kernel, dilation, options["padding"])
        if depthwise:
            options["multiplier"] = share
        else:
            options["groups"] = groups
    padding = options["padding"]
    extents = tuple(
        (size - 1) * step + (window - 1) * spread + 1 + extra - before - after
        if transposed
        else numerics.conv_output_extent(size, window, step, spread, before + after)
        for size, window, step, spread, extra, before, after in zip(
            value.type.shape[1:3], kernel, stride, dilation,
            options.get("adjustment", (0, 0)), padding[::2], padding[1::2], strict=True,
        )
    )  # fmt: skip
    if min(extents) < 1:
        raise frame.fault(f"padding {padding} leaves an output of {extents}")
    frame.expect(node.output_id, (value.type.shape[0], *extents, groups * share))
    if value.type.quantization is None and filters.datatype != DataType.FP32:
        raise frame.refuse(
            "product-types", "a convolution of floats or dynamic values with quantized filters"
        )
    run = (
        numerics.depthwise_conv_2d if depthwise
        else numerics.transpose_conv_2d if transposed
        else numerics.conv_2d
    )  # fmt: skip
    addend = None if bias is None else bias.data
    result = run(
        x, w, addend, value.type, filters.type, out.type,
        low=frame.low, high=frame.high, **options,
    )  # fmt: skip
    frame.write(node.output_id, result)


def _fully_connected(frame: Frame, node: xn.XNNFullyConnected) -> None:
    x, value = frame.read(node.input1_id, *_INPUTS)
    w, filters = frame.read(node.filter_id, *_FILTERS)
    if filters.datatype != DataType.FP32:
        frame.constant(node.filter_id)
    out = frame.value(node.output_id, *_COMMON)
    frame.check_range()
    frame.rank(filters, 2)
    transposed = bool(node.flags & NodeFlag.TRANSPOSE_WEIGHTS)
    outputs, inputs = w.shape[::-1] if transposed else w.shape
    if value.type.rank == 0 or value.type.shape[-1] != inputs:
        raise frame.fault(f"the input has shape {list(x.shape)}, the filter {list(w.shape)}")
    bias = _bias(frame, node.bias_id, outputs, _BIASES)
    _product_types(frame, value, filters, bias, out, 1 if transposed else 0)
    if transposed:
        w = w.T
    addend = None if bias is None else bias.data
    if value.datatype == DataType.QDINT8:
        row = frame.rows[node.input1_id]
        if value.row_dims != 1:
            raise frame.refuse("dynamic-rows", f"rows of {value.row_dims} dimensions")
        result = dynamic_fully_connected(x, row, w, _quantization(filters), addend)
        result = np.clip(result, np.float32(frame.low), np.float32(frame.high))
    elif filters.datatype == DataType.QCINT8 and value.datatype == DataType.FP32:
        result = x @ w.T.astype(np.float32) * np.asarray(_quantization(filters).scale, np.float32)
        result = result if addend is None else result + addend
        result = np.clip(result, np.float32(frame.low), np.float32(frame.high))
    else:
        result = numerics.fully_connected(
            x, w, addend, value.type, filters.type, out.type, low=frame.low, high=frame.high
        )
    frame.write(node.output_id, result)


def dynamic_fully_connected(
    x: Array, row: Row, w: Array, weights: Quantization, bias: Array | None
) -> Array:
    """Matrix product of dynamically quantized rows with per-channel filters, in float32.

    Args:
        x: int8 [..., I].
        row: parameters of `x`.
        w: int8 [O, I].
        weights: scales of `w`.
        bias: float32 [O] or None.
    """
    acc = numerics.accumulate_fully_connected(x, w).astype(np.int64)
    acc = acc - row.zero_point * w.astype(np.int64).sum(axis=1)
    result: Array = acc.astype(np.float32) * row.scale
    scale = np.asarray(weights.scale, np.float32)
    if bias is None:
        return result * scale
    # The kernels fuse the last product with the addition.
    fused = result.astype(np.float64) * scale.astype(np.float64) + bias.astype(np.float64)
    return fused.astype(np.float32)


def _batch_matmul(frame: Frame, node: xn.Binary) -> None:
    frame.unclamped()
    a, first = frame.read(node.input1_id, DataType.FP32)
    b, second = frame.read(node.input2_id, DataType.FP32)
    frame.value(node.output_id, DataType.FP32)
    transposed = bool(node.flags & NodeFlag.TRANSPOSE_WEIGHTS)
    if first.type.rank < 2 or second.type.rank < 2:
        raise frame.fault(f"shapes {list(a.shape)} and {list(b.shape)} hold no matrices")
    if a.shape[-1] != b.shape[-1 if transposed else -2]:
        raise frame.fault(f"shapes {list(a.shape)} and {list(b.shape)} do not match")
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise frame.fault(f"shapes {list(a.shape)} and {list(b.shape)} do not match") from None
    frame.write(node.output_id, numerics.batch_matmul(a, b, transpose_b=transposed))


# --- pooling and the like --------------------------------------------------------------------


def _max_pool(frame: Frame, node: xn.Pooling) -> None:
    x, value = frame.read(node.input_id, *_COMMON)
    frame.same_parameters(value, frame.value(node.output_id, *_COMMON))
    frame.check_range()
    frame.rank(value, 4)
    kernel, stride, dilation = _window(frame, node, "pooling", "stride")
    padding = _padding(frame, node, value, kernel, stride, dilation)
    _check_windows(frame, node.output_id, value, kernel, stride, dilation, padding)
    result = numerics.max_pool(
        x, value.type, kernel=kernel, stride=stride, dilation=dilation, padding=padding,
        low=frame.low, high=frame.high,
    )  # fmt: skip
    frame.write(node.output_id, result)


def _average_pool(frame: Frame, node: xn.Pooling) -> None:
    x, value = frame.read(node.input_id, DataType.FP32)
    frame.value(node.output_id, DataType.FP32)
    frame.check_range()
    frame.rank(value, 4)
    kernel = node.pooling_height, node.pooling_width
    stride = node.stride_height, node.stride_width
    if not all((*kernel, *stride)):
        raise frame.fault(f"windows of {kernel} with strides {stride}")
    _check_same(frame, node, value, kernel, stride, (1, 1))
    padding = _padding(frame, node, value, kernel, stride, (1, 1))
    _check_windows(frame, node.output_id, value, kernel, stride, (1, 1), padding)
    result = numerics.average_pool(
        x, kernel=kernel, stride=stride, padding=padding, low=frame.low, high=frame.high
    )
    frame.write(node.output_id, result)


def _arg_max_pool(frame: Frame, node: xn.XNNArgMaxPooling2d) -> None:
    frame.unclamped()
    x, value = frame.read(node.input_id, DataType.FP32)
    frame.value(node.output_value_id, DataType.FP32)
    index = frame.value(node.output_index_id, DataType.INT32, DataType.FP32)
    frame.rank(value, 4)
    kernel = node.pooling_height, node.pooling_width
    if not all(kernel):
        raise frame.fault(f"windows of {kernel}")
    padding = _padding(frame, node, value, kernel, kernel, (1, 1))
    _check_windows(frame, node.output_value_id, value, kernel, kernel, (1, 1), padding)
    if padding[0] or padding[2]:
        raise frame.refuse(
            "index-of-padding", f"padding {padding} at the top or the left",
            "the runtime counts repeated border elements as places",
        )  # fmt: skip
    values, places = numerics.arg_max_pool(x, kernel=kernel, padding=padding)
    frame.write(node.output_value_id, values)
    places = places.astype(np.int32)
    frame.write(
        node.output_index_id,
        places if index.datatype == DataType.INT32 else places.view(np.float32),
    )


def _global_average_pool(frame: Frame, node: xn.Unary) -> None:
    x, value = frame.read(node.input_id, *_COMMON)
    out = frame.value(node.output_id, *_COMMON)
    frame.same_type(value, out)
    frame.check_range()
    if value.type.rank < 3:
        raise frame.fault(f"{value.name} has {value.type.rank} dimensions, 3 are needed")
    result = numerics.global_average_pool(
        x, value.type, out.type, low=frame.low, high=frame.high,
        keep_dims=bool(node.flags & NodeFlag.KEEP_DIMS),
    )  # fmt: skip
    frame.write(node.output_id, result)


def _softmax(frame: Frame, node: xn.Unary) -> None:
    frame.unclamped()
    x, value = frame.read(node.input_id, DataType.FP32)
    frame.value(node.output_id, DataType.FP32)
    if value.type.rank == 0:
        raise frame.fault("softmax of a scalar")
    frame.write(node.output_id, numerics.softmax(x))


def _resize(frame: Frame, node: xn.XNNStaticResizeBilinear2D) -> None:
    frame.unclamped()
    x, value = frame.read(node.input_id, *_COMMON)
    frame.same_parameters(value, frame.value(node.output_id, *_COMMON))
    frame.rank(value, 4)
    if not (node.new_height and node.new_width):
        raise frame.fault(f"resize to {node.new_height}x{node.new_width}")
    batch, _, _, channels = value.type.shape
    frame.expect(node.output_id, (batch, node.new_height, node.new_width, channels))
    corners = node.flags & NodeFlag.ALIGN_CORNERS
    legacy = node.flags & NodeFlag.TENSORFLOW_LEGACY_MODE
    if corners and legacy:
        raise frame.fault("align corners and legacy mode exclude each other")
    sampling = (
        numerics.Sampling.ALIGN_CORNERS if corners
        else numerics.Sampling.LEGACY if legacy
        else numerics.Sampling.HALF_PIXEL
    )  # fmt: skip
    frame.write(
        node.output_id, numerics.resize_bilinear(x, (node.new_height, node.new_width), sampling)
    )


# --- moving data -----------------------------------------------------------------------------

_MOVABLE = (*_COMMON, DataType.INT32)


def _move(frame: Frame, node: Any) -> tuple[Array, Value]:
    """Input of a node that only moves elements."""
    frame.unclamped()
    x, value = frame.read(node.input_id, *_MOVABLE)
    frame.same_parameters(value, frame.value(node.output_id, *_MOVABLE))
    return x, value


def _transpose(frame: Frame, node: xn.XNNStaticTranspose) -> None:
    x, value = _move(frame, node)
    order = ints(node.perm)
    if sorted(order) != list(range(value.type.rank)) or len(order) != node.num_dims:
        raise frame.fault(f"{list(order)} permutes no {value.type.rank} dimensions")
    frame.write(node.output_id, np.ascontiguousarray(x.transpose(order)))


def _reshape(frame: Frame, node: xn.XNNStaticReshape) -> None:
    x, _ = _move(frame, node)
    shape = list(ints(node.new_shape))
    if len(shape) != node.num_dims or len(shape) > MAX_RANK:
        raise frame.fault(f"{len(shape)} extents for {node.num_dims} dimensions")
    if shape.count(0) > 1:
        raise frame.fault(f"more than one extent of {shape} is to be inferred")
    rest = math.prod(extent for extent in shape if extent)
    if 0 in shape:
        shape[shape.index(0)] = x.size // rest
    if math.prod(shape) != x.size:
        raise frame.fault(f"{list(x.shape)} cannot become {list(ints(node.new_shape))}")
    frame.write(node.output_id, x.reshape(shape))


def _copy(frame: Frame, node: xn.Unary) -> None:
    x, _ = _move(frame, node)
    frame.write(node.output_id, x)


def _slice(frame: Frame, node: xn.XNNStaticSlice) -> None:
    x, value = _move(frame, node)
    begin, size = ints(node.offsets), ints(node.sizes)
    if not len(begin) == len(size) == value.type.rank == node.num_dims:
        raise frame.fault(f"a box of {len(begin)} dimensions in {value.type.rank}")
    if any(b + s > n or not s for b, s, n in zip(begin, size, x.shape, strict=True)):
        raise frame.fault(f"the box at {list(begin)} of {list(size)} leaves {list(x.shape)}")
    frame.write(node.output_id, numerics.slice_box(x, begin, size))


def _pad(frame: Frame, node: xn.XNNStaticConstantPad) -> None:
    x, value = _move(frame, node)
    if value.datatype == DataType.INT32:
        raise frame.refuse("element-type", "the runtime pads integers with stray bits")
    if math.isnan(node.padding_value) and value.datatype != DataType.FP32:
        raise frame.fault("quantized padding with NaN")
    before, after = ints(node.pre_paddings), ints(node.post_paddings)
    if not len(before) == len(after) == value.type.rank:
        raise frame.fault(
            f"{len(before)} and {len(after)} paddings for {value.type.rank} dimensions"
        )
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    frame.expect(node.output_id, shape)
    result = numerics.pad(x, value.type, before=before, after=after, value=node.padding_value)
    frame.write(node.output_id, result)


def _concatenate(count: int) -> Run:
    def run(frame: Frame, node: xn.Concatenation) -> None:
        frame.unclamped()
        out = frame.value(node.output_id, *_MOVABLE)
        parts = []
        for number in range(1, count + 1):
            x, value = frame.read(int(getattr(node, f"input{number}_id")), *_MOVABLE)
            frame.same_parameters(value, out)
            parts.append(x)
        axis, first = node.axis, parts[0].shape
        if axis >= 1 << 31:
            axis += len(first) - (1 << 32)
        if not 0 <= axis < len(first):
            raise frame.fault(f"axis {node.axis} of {len(first)} dimensions")
        for part in parts:
            shape = part.shape
            if (*shape[:axis], *shape[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]):
                raise frame.fault(f"shapes {list(first)} and {list(shape)} differ beside {axis}")
        frame.write(node.output_id, numerics.concatenate(parts, axis))

    return run


NODES: dict[type[NodeTable], Run] = {
    xn.XNNAbs: _unary("abs"),
    xn.XNNAdd: _sum(numerics.add),
    xn.XNNArgMaxPooling2d: _arg_max_pool,
    xn.XNNAvgPooling2d: _average_pool,
    xn.XNNBatchMatrixMultiply: _batch_matmul,
    xn.XNNCeiling: _unary("ceil"),
    xn.XNNClamp: _clamp,
    xn.XNNConcatenate2: _concatenate(2),
    xn.XNNConcatenate3: _concatenate(3),
    xn.XNNConcatenate4: _concatenate(4),
    xn.XNNConcatenate5: _concatenate(5),
    xn.XNNConv2d: _convolution,
    xn.XNNConvTranspose2d: _convolution,
    xn.XNNConvert: _convert,
    xn.XNNCopy: _copy,
    xn.XNNCos: _unary("cos"),
    xn.XNNDepthwiseConv2d: _convolution,
    xn.XNNDiv: _binary(numerics.divide, clamps=True),
    xn.XNNELU: _unary("elu", alpha="alpha"),
    xn.XNNExp: _unary("exp"),
    xn.XNNFloor: _unary("floor"),
    xn.XNNFullyConnected: _fully_connected,
    xn.XNNGelu: _unary("gelu"),
    xn.XNNGlobalAvgPooling2d: _global_average_pool,
    xn.XNNHardswish: _unary("hardswish"),
    xn.XNNLeakyReLU: _leaky_relu,
    xn.XNNLog: _unary("log"),
    xn.XNNMaxPooling2d: _max_pool,
    xn.XNNMaximum: _binary(numerics.maximum, clamps=False),
    xn.XNNMinimum: _binary(numerics.minimum, clamps=False),
    xn.XNNMultiply: _binary(numerics.multiply, clamps=True),
    xn.XNNNegate: _unary("negate"),
    xn.XNNPReLU: _binary(numerics.prelu, clamps=False),
    xn.XNNReciprocalSquareRoot: _unary("rsqrt"),
    xn.XNNSigmoid: _unary("sigmoid"),
    xn.XNNSin: _unary("sin"),
    xn.XNNSoftmax: _softmax,
    xn.XNNSquare: _unary("square"),
    xn.XNNSquareRoot: _unary("sqrt"),
    xn.XNNStaticConstantPad: _pad,
    xn.XNNStaticReshape: _reshape,
    xn.XNNStaticResizeBilinear2D: _resize,
    xn.XNNStaticSlice: _slice,
    xn.XNNStaticTranspose: _transpose,
    xn.XNNSubtract: _sum(numerics.subtract),
    xn.XNNTanh: _unary("tanh"),
}
"""How to execute every node that the runtime executes."""
