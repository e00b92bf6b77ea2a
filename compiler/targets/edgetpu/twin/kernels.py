"""Fast kernels of the twin: operators on centred codes, in float32 wherever that is exact.

A centred code is a stored 8-bit value without its zero point, -255 to 255, held as float32. Sums
of their products are integers, which float32 holds as long as every partial sum stays below 2^24;
sums that may be larger are in float64. So results equal those of the chip, which sums integers,
and rounds once to float32 before it scales.

What is not here is computed by `semantics`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import conv_attributes, edges
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.ops.windows import Activation, explicit_padding
from fitzroy.compiler.targets.edgetpu.lowerings import reductions
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    LARGEST,
    SIGNED_OFFSET,
    OutputStage,
    copy_stage,
    mean_stage,
    output_stage,
    sum_weights,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import keeps_bytes
from fitzroy.compiler.targets.edgetpu.twin.semantics import (
    clamp_bounds,
    interpolated_sums,
    interpolation_scale,
    neighbours,
    results,
    stored_unsigned,
)
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.numerics.convolution import windows
from fitzroy.hw_models.parameters import Prefix, effective_scale

Codes = npt.NDArray[np.float32]
Kernel = Callable[[Sequence[Codes], Codes], None]
"""Computes the result of a node, the second argument, from its operands that are not constant."""

_EXACT = 1 << 24
"""Integers of up to this magnitude are exact in float32."""

_BLOCK_BYTES = 256 << 10
"""What stays in a core's own cache."""


@dataclass(frozen=True)
class _Finish:
    """Scaling, clamping and rounding of sums; zero points cancel out of centred codes.

    Attributes:
        scale: factor of the sums, one or one per channel.
        low: smallest centred code.
        high: largest.
    """

    scale: Codes
    low: np.float32
    high: np.float32

    @classmethod
    def of(cls, stage: OutputStage, scale: Array | float | None = None) -> _Finish:
        factor = np.asarray(stage.scale if scale is None else scale, np.float32)
        return cls(factor, np.float32(stage.minimum), np.float32(stage.maximum))

    def __call__(self, sums: Codes) -> None:
        """Turn sums into centred codes in their place."""
        np.multiply(sums, self.scale, out=sums)
        np.clip(sums, self.low, self.high, out=sums)
        rounded(sums, out=sums)


def reach(type: TensorType) -> int:
    """The largest magnitude of a centred code of a tensor."""
    zero = unsigned_zero_point(type)
    return max(zero, LARGEST - zero)


@dataclass(frozen=True)
class _Filter:
    """A filter of centred codes, and what follows its sums.

    Attributes:
        weights: of the filter's shape, in a type in which all sums are exact.
        bias: [channels], integers in that type, or None.
        finish: what becomes of the sums.
    """

    weights: Array
    bias: Array | None
    finish: _Finish

    @classmethod
    def of(cls, call: Call, channel_axis: int) -> _Filter | None:
        """The filter of a convolution or a matrix product; None if it is no constant.

        Args:
            call: the operator.
            channel_axis: the filter's axis of output channels.
        """
        filter, biased = call.operand(1), call.optional(2)
        quantization = filter.type.quantization
        source, result = call.type(0).quantization, call.result.type.quantization
        if filter.data is None or quantization is None or source is None or result is None:
            return None
        if biased is not None and biased.data is None:
            return None
        weights = filter.data.astype(np.int64) - quantization.zero_point_array(filter.data.ndim)
        bias = None if biased is None or biased.data is None else biased.data.reshape(-1)
        others = tuple(axis for axis in range(weights.ndim) if axis != channel_axis)
        most = int(np.abs(weights).sum(axis=others).max(initial=0)) * reach(call.type(0))
        most += 0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
        kind = np.float32 if most <= _EXACT else np.float64
        # Scales in memory leave no condition on those of the channels.
        stage = output_stage(call, Prefix(scales=True, biases=True, zero_points=True))
        scales = effective_scale(source.scale[0], np.asarray(quantization.scale), result.scale[0])
        return cls(
            weights.astype(kind),
            None if bias is None else bias.astype(kind),
            _Finish.of(stage, scales if len(scales) > 1 else scales[0]),
        )

    def finished(self, sums: Array, out: Codes) -> None:
        """Write centred codes that sums become; the sums are lost."""
        if self.bias is not None:
            np.add(sums, self.bias, out=sums)
        if sums is not out:
            out[...] = sums
        self.finish(out)


def _conv_2d(call: Call) -> Kernel | None:
    filter = _Filter.of(call, 0)
    channels, depth = call.type(0).shape[3], call.type(1).shape[3]
    if filter is None:
        return None
    if channels != depth:
        return _grouped_conv_2d(call, filter, channels // depth)
    a = conv_attributes(call)
    kernel = (call.type(1).shape[1], call.type(1).shape[2])
    padding = edges(call, kernel)
    taps = math.prod(kernel) * depth
    matrix = np.ascontiguousarray(filter.weights.reshape(-1, taps).T)
    if kernel == (1, 1) and a.stride == (1, 1) and not any(padding):
        return lambda operands, out: _product(filter, matrix, operands[0], out)
    rows, columns = call.result.type.shape[1:3]
    step = max(1, _BLOCK_BYTES // (columns * taps * matrix.itemsize))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        for image, result in zip(operands[0], out, strict=True):
            # Padding is the zero point, which is 0 here.
            view = windows(image[None], kernel, a.stride, a.dilation, padding)[0]
            for row in range(0, rows, step):
                part = np.ascontiguousarray(view[row : row + step]).reshape(-1, taps)
                _product(filter, matrix, part, result[row : row + step])

    return run


def _grouped_conv_2d(call: Call, filter: _Filter, groups: int) -> Kernel:
    """A convolution whose input and output channels are in groups: a matrix product for each."""
    a, depth = conv_attributes(call), call.type(1).shape[3]
    kernel = (call.type(1).shape[1], call.type(1).shape[2])
    padding = edges(call, kernel)
    taps = math.prod(kernel) * depth
    # Groups are consecutive in both kinds of channels: [groups, taps, channels of a group].
    matrices = filter.weights.reshape(groups, -1, taps).swapaxes(1, 2)
    rows, columns, width = call.result.type.shape[1:]
    step = max(1, _BLOCK_BYTES // (columns * taps * groups * matrices.itemsize))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        for image, result in zip(operands[0], out, strict=True):
            view = windows(image[None], kernel, a.stride, a.dilation, padding)[0]
            for row in range(0, rows, step):
                part = view[row : row + step]
                part = part.reshape(*part.shape[:-1], groups, depth)
                part = np.moveaxis(part, -2, 0).reshape(groups, -1, taps)
                sums = part.astype(matrices.dtype, copy=False) @ matrices
                joined = np.ascontiguousarray(sums.swapaxes(0, 1)).reshape(-1, columns, width)
                filter.finished(joined, result[row : row + step])

    return run


def _product(filter: _Filter, matrix: Array, x: Codes, out: Codes) -> None:
    """A matrix product of rows of centred codes with a filter, finished."""
    rows = x.reshape(-1, matrix.shape[0])
    result = out.reshape(-1, matrix.shape[1])
    if matrix.dtype == np.float32:
        np.matmul(rows, matrix, out=result)
        filter.finished(result, result)
    else:
        filter.finished(rows.astype(matrix.dtype) @ matrix, result)


def _fully_connected(call: Call) -> Kernel | None:
    filter = _Filter.of(call, 0)
    if filter is None:
        return None
    matrix = np.ascontiguousarray(filter.weights.T)
    return lambda operands, out: _product(filter, matrix, operands[0], out)


def _depthwise_conv_2d(call: Call) -> Kernel | None:
    filter = _Filter.of(call, 3)
    channels, results = call.type(0).shape[3], call.type(1).shape[3]
    if filter is None or filter.weights.dtype != np.float32 or results != channels:
        return None
    a = conv_attributes(call)
    kernel = (call.type(1).shape[1], call.type(1).shape[2])
    padding, weights = edges(call, kernel), filter.weights[0]
    rows, columns = call.result.type.shape[1:3]
    step = max(1, _BLOCK_BYTES // (columns * channels * weights.itemsize))
    taps = [(i, j) for i in range(kernel[0]) for j in range(kernel[1])]

    def run(operands: Sequence[Codes], out: Codes) -> None:
        for image, result in zip(operands[0], out, strict=True):
            view = windows(image[None], kernel, a.stride, a.dilation, padding)[0]
            product = np.empty((step, columns, channels), np.float32)
            for row in range(0, rows, step):
                sums, source = result[row : row + step], view[row : row + step]
                part = product[: len(sums)]
                for index, (i, j) in enumerate(taps):
                    goal = part if index else sums
                    np.multiply(source[:, :, i, j], weights[i, j], out=goal)
                    if index:
                        np.add(sums, part, out=sums)
                filter.finished(sums, sums)

    return run


def _sum(sign: int) -> Callable[[Call], Kernel | None]:
    def prepared(call: Call) -> Kernel | None:
        types = call.type(0), call.type(1)
        quantizations = [type.quantization for type in types]
        if any(value is None or value.data is not None for value in call.inputs[:2]):
            return None
        scales = [float(np.float32(q.scale[0])) for q in quantizations if q is not None]
        if len(scales) != len(types):
            return None
        first, second = (np.float32(weight) for weight in sum_weights(scales[0], scales[1]))
        if first * reach(types[0]) + second * reach(types[1]) > _EXACT:
            return None
        finish = _Finish.of(output_stage(call))

        def run(operands: Sequence[Codes], out: Codes) -> None:
            np.multiply(operands[1], sign * second, out=out)
            np.add(out, operands[0] * first, out=out)
            finish(out)

        return run

    return prepared


def _mul(call: Call) -> Kernel | None:
    if call.node.inputs[0] == call.node.inputs[1] or _constants(call):
        return None
    finish = _Finish.of(output_stage(call))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        np.multiply(operands[0], operands[1], out=out)
        finish(out)

    return run


def _constants(call: Call) -> bool:
    """Whether an operand is constant."""
    return any(value is not None and value.data is not None for value in call.inputs)


def _pool_view(call: Call, fill: float) -> Callable[[Codes], Array]:
    """Windows [N, OH, OW, kh, kw, C] of an image; `fill` is what lies outside."""
    a, image = call.attributes(PoolAttributes), call.type().shape[1:3]
    padding = explicit_padding(a.padding, (image[0], image[1]), a.kernel, a.stride, (1, 1))
    return lambda x: windows(x, a.kernel, a.stride, (1, 1), padding, fill)


def _average_pool_2d(call: Call) -> Kernel | None:
    a = call.attributes(PoolAttributes)
    view, size = _pool_view(call, 0), math.prod(a.kernel)
    if size * LARGEST > _EXACT:
        return None
    # Windows at the border have fewer elements, and scales of their own.
    inside = np.ones((1, *call.type().shape[1:3], 1), np.float32)
    counts = view(inside)[0, ..., 0].sum(axis=(2, 3)).astype(int)
    before, after = call.type(), call.result.type
    stages = {n: mean_stage(before, after, n, a.activation.bounds) for n in np.unique(counts)}
    scales = np.vectorize(lambda n: stages[n].scale, otypes=[np.float32])(counts)[..., None]
    finish = _Finish.of(next(iter(stages.values())), scales)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        _folded(np.add, view(operands[0]), out)
        finish(out)

    return run


def _max_pool_2d(call: Call) -> Kernel | None:
    if call.type().quantization != call.result.type.quantization:
        return None
    view, finish = _pool_view(call, -math.inf), _Finish.of(output_stage(call))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        _folded(np.maximum, view(operands[0]), out)
        finish(out)

    return run


def _folded(function: np.ufunc, view: Array, out: Codes) -> None:
    """Fold the elements of every window into one."""
    out[...] = view[:, :, :, 0, 0]
    for tap in range(1, view.shape[3] * view.shape[4]):
        function(out, view[:, :, :, tap // view.shape[4], tap % view.shape[4]], out=out)


def _copy(before: TensorType, after: TensorType, bounds: tuple[float, float]) -> _Finish:
    """What a copy from one quantization to another does with centred codes."""
    stage = copy_stage(before, after, bounds)
    return _Finish.of(stage, 1.0 if keeps_bytes(before, after) else None)


def _converted(call: Call) -> Kernel | None:
    finish = _copy(call.type(), call.result.type, clamp_bounds(call))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        out[...] = operands[0]
        finish(out)

    return run


def _concatenation(call: Call) -> Kernel | None:
    if _constants(call):
        return None
    axis, after = call.attributes(ConcatenationAttributes).axis, call.result.type
    finishes = [_copy(call.type(i), after, _ANY) for i in range(len(call.inputs))]
    ends = np.cumsum([call.type(i).shape[axis] for i in range(len(call.inputs))])

    def run(operands: Sequence[Codes], out: Codes) -> None:
        for part, x, finish in zip(np.split(out, ends[:-1], axis), operands, finishes, strict=True):
            part[...] = x
            finish(part)

    return run


def _reshape(call: Call) -> Kernel | None:
    finish = _copy(call.type(), call.result.type, _ANY)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        out.reshape(-1)[...] = operands[0].reshape(-1)
        finish(out)

    return run


def _mean(call: Call) -> Kernel | None:
    stage, a = reductions.stage_of(call), call.attributes(ReductionAttributes)
    before, after = call.type(), call.result.type
    if stage is None:
        return _reshape(call)
    if before.size // max(after.size, 1) * reach(before) > _EXACT:
        return None
    finish = _Finish.of(stage)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        out[...] = operands[0].sum(axis=a.axes, keepdims=a.keep_dims)
        finish(out)

    return run


def _resize_bilinear(call: Call) -> Kernel | None:
    a, before, after = call.attributes(ResizeAttributes), call.type(), call.result.type
    rows, columns = (
        neighbours(before.shape[axis], a.size[axis - 1], a.sampling) for axis in (1, 2)
    )
    if LARGEST * rows.whole * columns.whole > _EXACT:
        return None
    zero, scale = (
        np.float32(unsigned_zero_point(before)),
        np.float32(interpolation_scale(rows, columns)),
    )
    finish = _copy(before, after, _ANY)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        # Ties are those of stored codes.
        x = interpolated_sums(interpolated_sums(operands[0] + zero, rows, 1), columns, 2)
        np.multiply(x, scale, out=out)
        np.clip(rounded(out, out=out), 0, LARGEST, out=out)
        out -= zero
        finish(out)

    return run


def _function(call: Call) -> Kernel | None:
    """A function of one code, as a table of all of them."""
    source, result = call.operand(0), call.result
    codes = np.arange(LARGEST + 1, dtype=np.uint8)
    if source.type.dtype is DType.INT8:
        codes = (codes ^ SIGNED_OFFSET).view(np.int8)
    flat = replace(
        call,
        inputs=(replace(source, type=replace(source.type, shape=codes.shape)),),
        outputs=(replace(result, type=replace(result.type, shape=codes.shape)),),
    )
    (found,) = results(flat, [codes])
    table = (stored_unsigned(found, result.type) - unsigned_zero_point(result.type)).astype(
        np.float32
    )
    zero = np.float32(unsigned_zero_point(source.type))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        np.take(table, (operands[0] + zero).astype(np.intp), out=out, mode="clip")

    return run


_ANY = Activation.NONE.bounds

_KERNELS: dict[str, Callable[[Call], Kernel | None]] = {
    "conv_2d": _conv_2d,
    "depthwise_conv_2d": _depthwise_conv_2d,
    "fully_connected": _fully_connected,
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _mul,
    "average_pool_2d": _average_pool_2d,
    "max_pool_2d": _max_pool_2d,
    "mean": _mean,
    "sum": _mean,
    "quantize": _converted,
    "clamp": _converted,
    "concatenation": _concatenation,
    "reshape": _reshape,
    "resize_bilinear": _resize_bilinear,
}


def kernel_of(call: Call) -> Kernel | None:
    """A kernel for an operator; None if there is none, or none for such operands.

    Raises:
        UnsupportedError: the operator has no arithmetic on the chip.
    """
    values = [value for value in (*call.inputs, *call.outputs) if value and value.data is None]
    if not values or not all(is_coded(value.type) for value in values):
        return None
    if call.node.op in _KERNELS:
        return _KERNELS[call.node.op](call)
    return _function(call) if OPS[call.node.op].elementwise and len(call.inputs) == 1 else None


def is_coded(type: TensorType) -> bool:
    """Whether elements of a tensor have codes: 8 bits, with one scale for all."""
    quantization = type.quantization
    eight = type.dtype in (DType.INT8, DType.UINT8)
    return eight and quantization is not None and quantization.is_per_tensor
