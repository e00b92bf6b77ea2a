"""Legalization of operators that take images apart and put them together."""

from __future__ import annotations

import math
from dataclasses import replace

from fitzroy.base.types import DType
from fitzroy.compiler.ops.arrangement import BatchBlockAttributes
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.shape import PadAttributes, StridedSliceAttributes, TransposeAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.targets.xnnpack.rewriter import Rewriter


def _permuted(r: Rewriter, name: str, perm: tuple[int, ...]) -> str:
    type = r.type(name)
    moved = type.with_shape(tuple(type.shape[axis] for axis in perm))
    return r.emit("transpose", [name], moved, TransposeAttributes(perm))


def _blocks(r: Rewriter) -> BatchBlockAttributes:
    return r.call.attributes(BatchBlockAttributes)


def space_to_batch(r: Rewriter) -> None:
    """Padding, a reshape, a transpose and a reshape."""
    a, type, x = _blocks(r), r.call.type(), r.call.operand(0).name
    count, rest = len(a.block), type.rank - 1 - len(a.block)
    if any((*a.before, *a.after)):
        none = (0,) * rest
        pad = PadAttributes((0, *a.before, *none), (0, *a.after, *none))
        extents = zip(pad.before, type.shape, pad.after, strict=True)
        x = r.emit("pad", [x], type.with_shape(tuple(map(sum, extents))), pad)
    shape = r.type(x).shape
    split = [shape[0]]
    for extent, block in zip(shape[1 : 1 + count], a.block, strict=True):
        split += [extent // block, block]
    x = r.reshape(x, (*split, *shape[1 + count :]))
    inner, outer = range(2, 2 + 2 * count, 2), range(1, 1 + 2 * count, 2)
    x = _permuted(r, x, (*inner, 0, *outer, *range(1 + 2 * count, r.type(x).rank)))
    r.replace(r.reshape(x, r.out.shape))


def batch_to_space(r: Rewriter) -> None:
    """A reshape, a transpose, a reshape and a slice."""
    a, type = _blocks(r), r.call.type()
    count, batch = len(a.block), type.shape[0] // math.prod(a.block)
    x = r.reshape(r.call.operand(0).name, (*a.block, batch, *type.shape[1:]))
    pairs = (axis for i in range(count) for axis in (count + 1 + i, i))
    x = _permuted(r, x, (count, *pairs, *range(2 * count + 1, r.type(x).rank)))
    extents = (n * b for n, b in zip(type.shape[1:], a.block, strict=False))
    whole = (batch, *extents, *type.shape[1 + count :])
    x = r.reshape(x, whole)
    if any((*a.before, *a.after)):
        none = (0,) * (type.rank - 1 - count)
        box = StridedSliceAttributes((0, *a.before, *none), r.out.shape, (1,) * type.rank)
        x = r.emit("strided_slice", [x], r.type(x).with_shape(r.out.shape), box)
    r.replace(x)


def l2_pool(r: Rewriter) -> None:
    """Square, average and root."""
    a, x = r.call.attributes(PoolAttributes), r.call.operand(0)
    if x.type.dtype is not DType.FLOAT32:
        return
    squares = r.emit("square", [x.name], x.type)
    plain = replace(a, activation=Activation.NONE)
    average = r.emit("average_pool_2d", [squares], r.out, plain)
    result = r.emit("sqrt", [average], r.out)
    if a.activation is not Activation.NONE:
        result = r.emit("clamp", [result], r.out, ClampAttributes(*a.activation.bounds))
    r.replace(result)
