"""ONNX's pools."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from fitzroy.base import budget
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import padded, sliced
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor
from fitzroy.compiler.frontends.onnx.windows import (
    NHWC,
    Windows,
    as_image,
    as_row,
    demand_image,
    flat_windows,
    pair,
    placed,
    windows,
)
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import LOWEST
from fitzroy.compiler.ops.windows import PaddingScheme, scheme_of

Pool = Callable[[Tensor, Windows], Tensor]
"""A pool of an image [N,C,H,W]."""


def _pooled(op: Operation, x: Tensor, pool: Pool) -> Tensor:
    """An image, pooled by an operator; volumes are along their depth, and then layer by layer."""
    build = op.build
    if x.rank != 5:
        demand_image(op, x)
        w = windows(op, x.shape[2:], None)
        flat = w if x.rank == 4 else flat_windows(w)
        return as_row(build, pool(as_image(build, x), flat), x.rank)
    if 0 in x.shape:
        raise Refusal("onnx-rank", f"{op.name} of an empty tensor {list(x.shape)}")
    w = windows(op, x.shape[2:], None)
    batch, channels, depth, height, width = x.shape
    x = pool(build.reshape(x, (batch, channels, depth, height * width)), w.along((0,)))
    depth = x.shape[2]
    x = build.transpose(build.reshape(x, (batch, channels, depth, height, width)), _BY_LAYER)
    x = pool(build.reshape(x, (batch * depth, channels, height, width)), w.along((1, 2)))
    x = build.reshape(x, (batch, depth, channels, *x.shape[2:]))
    return build.transpose(x, _BY_LAYER)


_BY_LAYER = (0, 2, 1, 3, 4)
"""Channels and layers change places."""


@imports("MaxPool")
def max_pool(op: Operation) -> Tensor:
    """Largest element of each window.

    Raises:
        Refusal: positions are wanted as well.
    """
    if op.wanted(1):
        raise Refusal("onnx-attribute", "MaxPool that gives positions")
    return _pooled(op, op.input(), partial(_largest, op.build))


def _largest(build: Builder, x: Tensor, w: Windows) -> Tensor:
    """Largest elements of windows on an image."""
    real = build.is_real(x)
    lowest = LOWEST if real else float(x.dtype.limits[0])
    if set(w.dilation) != {1} or not real:
        return _shifted(build, x, w, lowest)
    x, padding = placed(build, x, w, lowest)
    attributes = PoolAttributes(pair(w.kernel), pair(w.stride), padding)
    return build.variable(build.emit("max_pool_2d", [build.value(x, NHWC)], attributes), NHWC)


def _shifted(build: Builder, x: Tensor, w: Windows, lowest: float) -> Tensor:
    """Largest elements of windows with gaps or on integers, one operand for each of a window.

    Raises:
        Refusal: the window has too many elements.
    """
    if w.kernel[0] * w.kernel[1] > 128:
        kind = "dilated windows" if set(w.dilation) != {1} else f"windows on {x.dtype.value}"
        raise Refusal("onnx-size", f"{kind} of {list(w.kernel)}; up to 128 elements are known")
    outputs = w.outputs(x.shape[2:])
    x = padded(build, x, (0, 0, *w.before), (0, 0, *w.ends), lowest)
    result: Tensor | None = None
    for row, column in itertools.product(range(w.kernel[0]), range(w.kernel[1])):
        begin = (0, 0, row * w.dilation[0], column * w.dilation[1])
        part = sliced(build, x, begin, (*x.shape[:2], *outputs), (1, 1, *w.stride))
        result = part if result is None else build.extremum("maximum", result, part)
    assert result is not None
    return result


@imports("AveragePool")
def average_pool(op: Operation) -> Tensor:
    """Mean over each window."""
    return average_pool_of(op, op.input())


def average_pool_of(op: Operation, x: Tensor) -> Tensor:
    """Mean over each window of a tensor, with the attributes of an operator."""
    counted = bool(op.integer("count_include_pad"))
    return _pooled(op, x, lambda image, w: averaged(op.build, image, w, counted=counted))


def averaged(build: Builder, x: Tensor, w: Windows, *, counted: bool) -> Tensor:
    """Means over windows of an image; padding is `counted` or not."""
    edges = (w.before[0], w.ends[0], w.before[1], w.ends[1])
    image, gaps = pair(x.shape[2:]), set(w.dilation) != {1}
    scheme = scheme_of(edges, image, pair(w.kernel), pair(w.stride), (1, 1))
    if not gaps and scheme is not None and (not any(edges) or not counted):
        attributes = PoolAttributes(pair(w.kernel), pair(w.stride), scheme)
        name = build.emit("average_pool_2d", [build.value(x, NHWC)], attributes)
        return build.variable(name, NHWC)
    counts = _counts(image, w, counted=counted)
    outputs = w.outputs(x.shape[2:])
    x = padded(build, x, (0, 0, *w.before), (0, 0, *w.ends), 0.0)
    if gaps:
        summed = _summed(build, x, w, outputs)
        return build.mul(summed, build.constant((1 / counts).astype(np.float32)))
    attributes = PoolAttributes(pair(w.kernel), pair(w.stride), PaddingScheme.VALID)
    pooled = build.variable(build.emit("average_pool_2d", [build.value(x, NHWC)], attributes), NHWC)
    factors = (w.kernel[0] * w.kernel[1] / counts).astype(np.float32)
    return pooled if (factors == 1).all() else build.mul(pooled, build.constant(factors))


def _counts(image: tuple[int, int], w: Windows, *, counted: bool) -> Array:
    """How many elements of each window count: [H,W] of the result."""
    rows = []
    for axis in (0, 1):
        low, high = w.before[axis], w.after[axis]
        first = -low if counted else 0
        last = image[axis] + (high if counted else 0)
        count = w.outputs(image)[axis]
        budget.demand(16 * count * w.kernel[axis], "places of windows")
        starts = np.arange(count) * w.stride[axis] - low
        places = starts[:, None] + np.arange(w.kernel[axis]) * w.dilation[axis]
        rows.append(((places >= first) & (places < last)).sum(axis=1))
    budget.demand(16 * rows[0].size * rows[1].size, "counts of windows")
    return np.maximum(np.outer(rows[0], rows[1]), 1).astype(np.float64)


def _summed(build: Builder, x: Tensor, w: Windows, outputs: tuple[int, ...]) -> Tensor:
    """Sums over windows with gaps."""
    if w.kernel[0] * w.kernel[1] > 128:
        raise Refusal("onnx-size", f"dilated windows of {list(w.kernel)}")
    result: Tensor | None = None
    for row, column in itertools.product(range(w.kernel[0]), range(w.kernel[1])):
        begin = (0, 0, row * w.dilation[0], column * w.dilation[1])
        part = sliced(build, x, begin, (*x.shape[:2], *outputs), (1, 1, *w.stride))
        result = part if result is None else build.add(result, part)
    assert result is not None
    return result


@imports("LpPool")
def lp_pool(op: Operation) -> Tensor:
    """Euclidean length, or sum of sizes, of each window."""
    build, p = op.build, op.integer("p", 2)
    if p not in (1, 2):
        raise Refusal("onnx-attribute", f"LpPool of order {p}; 1 and 2 are known")

    def length(x: Tensor, w: Windows) -> Tensor:
        powered = build.unary("square" if p == 2 else "abs", x)
        means = averaged(build, powered, w, counted=True)
        # The mean counts padding, of which the part beyond is none.
        counts = _counts(pair(x.shape[2:]), w, counted=True)
        sums = build.mul(means, build.constant(counts.astype(np.float32)))
        return build.unary("sqrt", sums) if p == 2 else sums

    return _pooled(op, op.input(), length)


@imports("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(op: Operation) -> Tensor:
    """One number for each channel, in any number of dimensions."""
    x, build = op.build.plain(op.input()), op.build
    if x.rank < 3:
        raise Refusal("onnx-rank", f"{op.name} of {x.rank} dimensions")
    p = op.integer("p", 2)
    if op.name == "GlobalLpPool":
        if p not in (1, 2):
            raise Refusal("onnx-attribute", f"GlobalLpPool of order {p}; 1 and 2 are known")
        x = build.unary("square" if p == 2 else "abs", x)
    axes = tuple(sorted(x.perm.index(axis) for axis in range(2, x.rank)))
    kind = {"GlobalAveragePool": "mean", "GlobalMaxPool": "reduce_max", "GlobalLpPool": "sum"}
    name = build.emit(kind[op.name], [build.stored(x)], ReductionAttributes(axes, True))
    result = build.variable(name, x.perm)
    return build.unary("sqrt", result) if op.name == "GlobalLpPool" and p == 2 else result
