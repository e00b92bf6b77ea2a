"""Fast kernels of operators that compute elements from those at their place, or of their row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fitzroy.base.types import DType
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.lowerings import pixel_softmax
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    LARGEST,
    SIGNED_OFFSET,
    output_stage,
    product_stage,
    sum_weights,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.twin.codes import (
    BLOCK_BYTES,
    Codes,
    Finish,
    Single,
    centred,
    copy,
    exact_type,
    operands_of,
    reach,
)
from fitzroy.compiler.targets.edgetpu.twin.semantics import (
    Operator,
    clamp_bounds,
    exponentials_of,
    length_stage,
    reciprocal_lengths,
    reciprocals_of,
    results,
)


def summed(sign: int) -> Callable[[Call], Single | None]:
    """A sum of two operands, or a difference if the sign is -1."""

    def prepared(call: Call) -> Single | None:
        types = call.type(0), call.type(1)
        scales = [float(np.float32(q.scale[0])) for t in types if (q := t.quantization) is not None]
        weights = sum_weights(scales[0], scales[1])
        kind = exact_type(weights[0] * reach(types[0]) + weights[1] * reach(types[1]))
        first, second = kind(weights[0]), kind(sign * weights[1])
        finish, operands_in_order = Finish.of(output_stage(call)), operands_of(call)

        def run(operands: Sequence[Codes], out: Codes) -> None:
            one, other = operands_in_order(operands)
            if kind is np.float32:
                np.multiply(other, second, out=out)
                np.add(out, one * first, out=out)
            else:
                out[...] = one * first + other * second
            finish(out)

        return run

    return prepared


def product(call: Call) -> Single | None:
    """A product of two operands."""
    finish, operands_in_order = Finish.of(output_stage(call)), operands_of(call)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        one, other = operands_in_order(operands)
        np.multiply(one, other, out=out)
        finish(out)

    return run


def extremum(function: np.ufunc) -> Callable[[Call], Single | None]:
    """The larger or the smaller of two operands."""

    def prepared(call: Call) -> Single | None:
        finishes = [copy(call.type(index), call.result.type) for index in (0, 1)]
        operands_in_order = operands_of(call)

        def run(operands: Sequence[Codes], out: Codes) -> None:
            # Copies of single numbers are no arrays.
            one, other = (np.array(codes) for codes in operands_in_order(operands))
            finishes[0](one)
            finishes[1](other)
            function(one, other, out=out)

        return run

    return prepared


def prelu(call: Call) -> Single | None:
    """What is negative, times a slope."""
    before, slope, after = call.type(0), call.type(1), call.result.type
    negative, positive = Finish.of(product_stage(before, slope, after)), copy(before, after)
    operands_in_order = operands_of(call)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        x, slopes = operands_in_order(operands)
        np.multiply(x, slopes, out=out)
        negative(out)
        kept = x.copy()
        positive(kept)
        np.copyto(out, kept, where=x >= 0)

    return run


def converted(call: Call) -> Single | None:
    """A copy from one quantization to another, which may clamp."""
    finish = copy(call.type(), call.result.type, clamp_bounds(call))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        out[...] = operands[0]
        finish(out)

    return run


def function(call: Call, operators: Mapping[str, Operator]) -> Single:
    """A function of one code, as a table of all of them.

    Args:
        call: a node whose operands are all the same value.
        operators: as for `kernel_of`.
    """
    source, result = call.operand(0), call.result
    codes = np.arange(LARGEST + 1, dtype=np.uint8)
    if source.type.dtype is DType.INT8:
        codes = (codes ^ SIGNED_OFFSET).view(np.int8)
    flat = replace(
        call,
        inputs=tuple(
            replace(source, type=replace(source.type, shape=codes.shape)) for _ in call.inputs
        ),
        outputs=(replace(result, type=replace(result.type, shape=codes.shape)),),
    )
    (found,) = results(flat, [codes] * len(call.inputs), operators)
    table = centred(found, result.type)
    zero = np.float32(unsigned_zero_point(source.type))
    step = BLOCK_BYTES // np.dtype(np.intp).itemsize

    def run(operands: Sequence[Codes], out: Codes) -> None:
        x, y = operands[0].reshape(-1), out.reshape(-1)
        for first in range(0, len(x), step):
            places = (x[first : first + step] + zero).astype(np.intp)
            np.take(table, places, out=y[first : first + step], mode="clip")

    return run


def softmax(call: Call) -> Single | None:
    """Softmax of several rows; what depends on one code comes from a table of all."""
    before = call.type()
    channels = before.shape[-1]
    if before.size == channels:
        return None
    stages = pixel_softmax.Stages.of(call)
    table = exponentials_of(np.arange(LARGEST + 1, dtype=np.int64), stages).astype(np.float64)
    finish = Finish.of(stages.product)
    step = max(1, BLOCK_BYTES // (8 * channels))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        rows, found = operands[0].reshape(-1, channels), out.reshape(-1, channels)
        for first in range(0, len(rows), step):
            x = rows[first : first + step]
            exponentials = table[(x.max(axis=-1, keepdims=True) - x).astype(np.intp)]
            sums = exponentials.sum(axis=-1, keepdims=True).astype(np.float32)
            part = found[first : first + step]
            part[...] = exponentials * reciprocals_of(sums, channels, stages)
            finish(part)

    return run


def l2_normalization(call: Call) -> Single | None:
    """Rows divided by their length."""
    channels, finish = call.type().shape[-1], Finish.of(length_stage(call))
    kind = exact_type(channels * reach(call.type()) ** 2)
    step = max(1, BLOCK_BYTES // (8 * channels))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        rows, found = operands[0].reshape(-1, channels), out.reshape(-1, channels)
        for first in range(0, len(rows), step):
            x, part = rows[first : first + step], found[first : first + step]
            squares = np.square(x).sum(axis=-1, keepdims=True, dtype=kind).astype(np.float32)
            # Their products may be larger than what float32 holds.
            part[...] = x.astype(np.float64) * reciprocal_lengths(squares)
            finish(part)

    return run
