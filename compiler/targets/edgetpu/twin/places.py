"""Fast kernels of operators that move, pool or interpolate elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    AxisAttributes,
    ConcatenationAttributes,
    Pad,
    PadAttributes,
)
from fitzroy.compiler.ops.windows import explicit_padding
from fitzroy.compiler.targets.edgetpu.lowerings import reductions
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    LARGEST,
    mean_stage,
    output_stage,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.twin.codes import (
    EXACT,
    Codes,
    Finish,
    Kernel,
    Single,
    copy,
    exact_type,
    operands_of,
    reach,
)
from fitzroy.compiler.targets.edgetpu.twin.semantics import (
    interpolated_sums,
    interpolation_scale,
    resized_axes,
)
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics.convolution import windows


def moved(call: Call) -> Kernel | None:
    """Elements of the only operand without data somewhere else."""
    before = call.type()
    finishes = [copy(before, value.type) for value in call.outputs]
    plain = replace(
        call,
        outputs=tuple(
            replace(value, type=replace(before, shape=value.type.shape)) for value in call.outputs
        ),
    )
    operator = OPS[call.node.op]
    others: list[Any] = [None if value is None else value.data for value in call.inputs[1:]]

    def run(operands: Sequence[Codes], outs: Sequence[Codes]) -> None:
        for number, image in enumerate(operands[0]):
            parts = operator.evaluate(plain, [image, *others], Arithmetic.EDGETPU)
            for part, out in zip(parts, outs, strict=True):
                out[number] = part
        for finish, out in zip(finishes, outs, strict=True):
            finish(out)

    return run


def padded(call: Call) -> Single | None:
    """An image with a border of one value."""
    a, before = call.attributes(PadAttributes), call.type()
    finish = copy(before, call.result.type)
    assert before.quantization is not None
    value = np.float32(Pad().stored(call) - before.quantization.zero_point[0])
    inside = (slice(None), *(slice(n, n + k) for n, k in zip(a.before, before.shape, strict=True)))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        out[...] = value
        out[inside] = operands[0]
        finish(out)

    return run


def concatenation(call: Call) -> Single | None:
    """Operands side by side."""
    axis, after = call.attributes(ConcatenationAttributes).axis, call.result.type
    finishes = [copy(call.type(i), after) for i in range(len(call.inputs))]
    ends = np.cumsum([call.type(i).shape[axis] for i in range(len(call.inputs))])[:-1]
    operands_in_order = operands_of(call)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        parts = zip(np.split(out, ends, axis + 1), operands_in_order(operands), strict=True)
        for (part, x), finish in zip(parts, finishes, strict=True):
            part[...] = x
            finish(part)

    return run


def pack(call: Call) -> Single | None:
    """Operands stacked along an axis of their own."""
    if any(value is None or value.data is not None for value in call.inputs):
        return None
    axis, after = call.attributes(AxisAttributes).axis, call.result.type
    finishes = [copy(call.type(i), after) for i in range(len(call.inputs))]

    def run(operands: Sequence[Codes], out: Codes) -> None:
        parts = zip(np.moveaxis(out, axis + 1, 0), operands, finishes, strict=True)
        for part, x, finish in parts:
            part[...] = x
            finish(part)

    return run


def reshape(call: Call) -> Single | None:
    """The same elements in another shape."""
    finish = copy(call.type(), call.result.type)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        out.reshape(-1)[...] = operands[0].reshape(-1)
        finish(out)

    return run


# --- windows and axes ----------------------------------------------------------------------------


def _pool_view(call: Call, fill: float) -> Callable[[Codes], Array]:
    """Windows [N, OH, OW, kh, kw, C] of images; `fill` is what lies outside."""
    a, image = call.attributes(PoolAttributes), call.type().shape[1:]
    padding = explicit_padding(a.padding, (image[0], image[1]), a.kernel, a.stride, (1, 1))
    return lambda x: windows(x.reshape(-1, *image), a.kernel, a.stride, (1, 1), padding, fill)


def average_pool_2d(call: Call) -> Single | None:
    """Means of windows; those at the border have fewer elements, and scales of their own."""
    a = call.attributes(PoolAttributes)
    view, size = _pool_view(call, 0), math.prod(a.kernel)
    if size * LARGEST > EXACT:
        return None
    inside = np.ones(call.type().shape[1:], np.float32)
    counts = view(inside)[0, ..., 0].sum(axis=(2, 3)).astype(int)
    before, after = call.type(), call.result.type
    stages = {n: mean_stage(before, after, n, a.activation.bounds) for n in np.unique(counts)}
    scales = np.vectorize(lambda n: stages[n].scale, otypes=[np.float32])(counts)[..., None]
    finish = Finish.of(next(iter(stages.values())), scales)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        _folded(np.add, view(operands[0]), out)
        finish(out)

    return run


def max_pool_2d(call: Call) -> Single | None:
    """Maxima of windows, in the quantization of the operand until there is one each."""
    before, after = call.type(), call.result.type
    inside = replace(call.result, type=replace(before, shape=after.shape))
    finish = Finish.of(output_stage(replace(call, outputs=(inside,))))
    view, converted = _pool_view(call, -math.inf), copy(before, after)
    same = before.quantization == after.quantization

    def run(operands: Sequence[Codes], out: Codes) -> None:
        _folded(np.maximum, view(operands[0]), out)
        finish(out)
        if not same:
            converted(out)

    return run


def _folded(function: np.ufunc, view: Array, out: Codes) -> None:
    """Fold the elements of every window into one."""
    result = out.reshape(*view.shape[:3], view.shape[-1])
    result[...] = view[:, :, :, 0, 0]
    for tap in range(1, view.shape[3] * view.shape[4]):
        part = view[:, :, :, tap // view.shape[4], tap % view.shape[4]]
        function(result, part, out=result)


def mean(call: Call) -> Single | None:
    """A mean or a sum over axes."""
    stage, a = reductions.stage_of(call), call.attributes(ReductionAttributes)
    before, after = call.type(), call.result.type
    if stage is None:
        return reshape(call)
    kind = exact_type(before.size // max(after.size, 1) * reach(before))
    finish, axes = Finish.of(stage), tuple(axis + 1 for axis in a.axes)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        out[...] = operands[0].sum(axis=axes, keepdims=a.keep_dims, dtype=kind)
        finish(out)

    return run


def reduced(function: np.ufunc) -> Callable[[Call], Single | None]:
    """The largest or the smallest element over axes."""

    def prepared(call: Call) -> Single | None:
        a, finish = call.attributes(ReductionAttributes), copy(call.type(), call.result.type)
        axes = tuple(axis + 1 for axis in a.axes)

        def run(operands: Sequence[Codes], out: Codes) -> None:
            out[...] = function.reduce(operands[0], axis=axes, keepdims=a.keep_dims)
            finish(out)

        return run

    return prepared


# --- interpolation -------------------------------------------------------------------------------


def resize_bilinear(call: Call, factor: float | None = None) -> Single | None:
    """Interpolated images: columns first, which are fewer, then one row after the other.

    Args:
        call: the operator.
        factor: that of interpolated sums, if it is not that of our programs.
    """
    before, after = call.type(), call.result.type
    rows, columns = resized_axes(call)
    if LARGEST * rows.whole * columns.whole > EXACT:
        return None
    zero = np.float32(unsigned_zero_point(before))
    scale = np.float32(interpolation_scale(rows, columns) if factor is None else factor)
    finish, same = copy(before, after), before.quantization == after.quantization
    shares = [
        (int(low), int(high), np.float32(rows.whole - weight), np.float32(weight))
        for low, high, weight in zip(rows.lower, rows.upper, rows.weights, strict=True)
    ]

    def run(operands: Sequence[Codes], out: Codes) -> None:
        images = zip(
            operands[0].reshape(-1, *before.shape[1:]),
            out.reshape(-1, *after.shape[1:]),
            strict=True,
        )
        for x, result in images:
            # Ties are those of stored codes.
            wide = interpolated_sums(x + zero, columns, 1)
            part = np.empty_like(wide[0])
            for row, (low, high, share, other) in zip(result, shares, strict=True):
                np.multiply(wide[low], share, out=row)
                if other:
                    np.multiply(wide[high], other, out=part)
                    np.add(row, part, out=row)
                np.multiply(row, scale, out=row)
                np.clip(rounded(row, out=row), 0, LARGEST, out=row)
                np.subtract(row, zero, out=row)
                if not same:
                    finish(row)

    return run
