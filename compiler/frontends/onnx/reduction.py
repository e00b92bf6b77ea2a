"""ONNX's reductions."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from fitzroy.base.types import DType
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.values import Shape, Tensor
from fitzroy.compiler.ops.arrangement import ReverseAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.reduction import ArgAttributes, ReductionAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, SplitAttributes

_KINDS = {
    "ReduceMax": "reduce_max",
    "ReduceMean": "mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "sum",
}


def reduced(build: Builder, kind: str, x: Tensor, axes: Shape, *, keep: bool = True) -> Tensor:
    """A reduction over dimensions, which stay with extent 1 or go away."""
    x = build.plain(x)
    stored = tuple(sorted(x.perm.index(axis) for axis in axes))
    quantization = build.type(x).quantization
    name = build.emit(
        kind, [build.stored(x)], ReductionAttributes(stored, keep), quantization=quantization
    )
    if keep:
        return build.variable(name, x.perm)
    left = [axis for axis in x.perm if axis not in axes]
    return build.variable(name, tuple(sorted(left).index(axis) for axis in left))


_OF_TWO = {"ReduceMax": "maximum", "ReduceMin": "minimum", "ReduceSum": "add"}
"""Operators of two operands that do the same with tensors that were stacked to be reduced."""

_MOST_STACKED = 8


def _stacked(build: Builder, x: Tensor, axes: Shape, kind: str) -> list[Tensor] | None:
    """Tensors that were stacked along the one axis of a reduction, without it.

    Args:
        build: the graph.
        x: what is reduced.
        axes: of the reduction.
        kind: the reduction.

    Returns:
        None if the tensor is no stack of two to eight, nor, for a sum, one that was weighted.
    """
    if len(axes) != 1 or x.data is not None or not x.is_plain or not x.dtype.is_float:
        return None
    stored = x.perm.index(axes[0])
    parts = _parts(build, x.name, stored)
    if parts is None and kind == "ReduceSum":
        parts = _weighted(build, x.name, stored)
    if parts is None:
        return None
    shape = (*x.shape[: axes[0]], *x.shape[axes[0] + 1 :])
    return [build.reshape(build.variable(name, x.perm), shape) for name in parts]


def _parts(build: Builder, name: str, axis: int) -> list[str] | None:
    """The values of which each is one element of a value along an axis; None if there are none."""
    source = build.graph.producer(name)
    if source is None or not isinstance(source.attributes, ConcatenationAttributes):
        return None
    parts = [str(part) for part in source.inputs]
    alone = {build.graph.type(part).shape[axis] for part in parts} == {1}
    if source.attributes.axis != axis or not alone or not 2 <= len(parts) <= _MOST_STACKED:
        return None
    return parts


def _weighted(build: Builder, name: str, axis: int) -> list[str] | None:
    """The products of what was stacked along an axis, and of weights; None if it is something else.

    Selective kernels add branches so: their stack is multiplied with one weight for each.
    """
    source = build.graph.producer(name)
    if source is None or source.attributes != ActivationAttributes() or source.op != "mul":
        return None
    operands = [str(operand) for operand in source.inputs]
    stacked = [_parts(build, operand, axis) for operand in operands]
    if not any(stacked):
        return None
    type = build.graph.type(name)
    count = type.shape[axis]
    factors = []
    for operand, parts in zip(operands, stacked, strict=True):
        shape = build.graph.type(operand).shape
        own = axis - (type.rank - len(shape))
        if parts is None and own >= 0 and shape[own] == count:
            attributes = SplitAttributes(own, (1,) * count)
            parts = build.emit_all("split", [operand], attributes, count)
        factors.append(parts or [operand] * count)
    return [build.emit("mul", pair, ActivationAttributes()) for pair in zip(*factors, strict=True)]


@imports(*_KINDS)
def reduction(op: Operation) -> Tensor:
    """Mean, sum or extremum over axes."""
    x, axes = op.input(), reduced_axes(op)
    if axes is None:
        return x
    stacked = _stacked(op.build, x, axes, op.name) if op.name in _OF_TWO else None
    if stacked is not None:
        result = reduce(partial(op.build.binary, _OF_TWO[op.name]), stacked)
        kept = (1,) if op.integer("keepdims", 1) else ()
        return op.build.reshape(result, (*x.shape[: axes[0]], *kept, *x.shape[axes[0] + 1 :]))
    return reduced(op.build, _KINDS[op.name], x, axes, keep=bool(op.integer("keepdims", 1)))


@imports("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def reduction_of_function(op: Operation) -> Tensor:
    """A sum of functions of elements, or a function of it; integers are computed as real numbers.

    Operator sets before 18 do not say what these are made of.
    """
    build, given, axes = op.build, op.input(), reduced_axes(op)
    # Without axes, every element is a sum of its own.
    axes = () if axes is None else axes
    x = given
    if not given.dtype.is_float:
        x = build.unary("cast", given, dtype=DType.FLOAT32)
    keep = bool(op.integer("keepdims", 1))
    if op.name == "ReduceLogSumExp":
        result = _log_sum_exp(build, x, axes, keep=keep)
    else:
        before, after = _FUNCTIONS[op.name]
        x = build.unary(before, x) if before else x
        result = reduced(build, "sum", x, axes, keep=keep) if axes else x
        result = build.unary(after, result) if after else result
    return result if result.dtype is given.dtype else build.unary("cast", result, dtype=given.dtype)


_FUNCTIONS = {
    "ReduceL1": ("abs", ""),
    "ReduceL2": ("square", "sqrt"),
    "ReduceLogSum": ("", "log"),
    "ReduceSumSquare": ("square", ""),
}
"""Function of every element, and function of their sum."""


def _log_sum_exp(build: Builder, x: Tensor, axes: Shape, *, keep: bool) -> Tensor:
    """The logarithm of a sum of exponentials, of which none overflows."""
    if not axes:
        return x
    shift = None
    if x.size:
        # Less than any number would leave nothing to subtract.
        least = build.scalar(float(np.finfo(np.float32).min), x)
        shift = build.binary("maximum", reduced(build, "reduce_max", x, axes), least)
        x = build.binary("sub", x, shift)
    total = build.unary("log", reduced(build, "sum", build.unary("exp", x), axes, keep=True))
    total = total if shift is None else build.add(total, shift)
    if keep:
        return total
    left = tuple(size for axis, size in enumerate(total.shape) if axis not in axes)
    return build.reshape(total, left)


def reduced_axes(op: Operation) -> Shape | None:
    """Axes of a reduction; without any given all of them, or none if an attribute says so."""
    rank = op.input().rank
    given = op.integers("axes")
    if given is None:
        given = op.constants(1, "axes")
    if not given:
        return None if op.integer("noop_with_empty_axes") else tuple(range(rank))
    return tuple(sorted({op.axis(axis, rank) for axis in given}))


@imports("ArgMax", "ArgMin")
def position(op: Operation) -> Tensor:
    """Position of an extremum along an axis."""
    x, build = op.build.plain(op.input()), op.build
    axis = op.axis(op.integer("axis"), x.rank)
    stored = x.perm.index(axis)
    kind = "arg_max" if op.name == "ArgMax" else "arg_min"
    source, backwards = build.stored(x), bool(op.integer("select_last_index"))
    if backwards:
        # The last of equal elements is the first of them, turned around.
        source = build.emit("reverse", [source], ReverseAttributes((stored,)))
    name = build.emit(kind, [source], ArgAttributes(stored), dtype=DType.INT64)
    left = [other for other in x.perm if other != axis]
    result = build.variable(name, tuple(sorted(left).index(other) for other in left))
    if backwards:
        last = build.constant(np.array(x.shape[axis] - 1, np.int64))
        result = build.binary("sub", last, result)
    if not op.integer("keepdims", 1):
        return result
    return build.reshape(result, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
