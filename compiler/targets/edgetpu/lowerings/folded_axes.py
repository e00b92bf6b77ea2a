"""Operators of two operands on tensors of many axes, as operators on images.

Neighbouring axes are merged if both operands have all of their elements, or if the same operand is
repeated along them. Group normalization has one mean per group of channels; it is repeated for the
channels beforehand, so that the image stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Value
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import ReshapeAttributes, Shape
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting, with_rank
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import grid
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector

_MOST_CHANNELS = 2048
"""Most elements of an operand that are repeated for the sake of fewer axes."""


def fold_axes(legalizer: Legalizer, call: Call) -> None:
    """Legalize an operator of two operands as one of images, or of vectors.

    Raises:
        UnsupportedError: its axes cannot be those of one image.
    """
    after, rewriting = call.result.type, Rewriting.of(legalizer, call)
    values = [call.operand(0), call.operand(1)]
    shapes = [with_rank(value.type.shape, len(after.shape)) for value in values]
    spread = [_spread(shape, after.shape) for shape in shapes]
    sizes, kinds = _folded(spread, after.shape)
    if len(sizes) >= IMAGE_RANK:
        raise UnsupportedError(
            f"{call.node.name!r} has a result of shape {list(after.shape)}, not of one image"
        )
    if len(sizes) < 2 and not all(map(all, kinds)):
        # A single number is repeated for the elements of an image.
        sizes = [after.size // after.shape[-1], after.shape[-1]]
        kinds = [[all(kind)] * 2 for kind in kinds]
    whole = _extents(legalizer, values, sizes)
    names = []
    for value, before, wide, kind in zip(values, shapes, spread, kinds, strict=True):
        shape = _own(whole, sizes, kind)
        if value.data is not None:
            data = np.broadcast_to(value.data.reshape(before), wide).reshape(shape)
            quantization = value.type.quantization
            names.append(rewriting.graph.add_constant(value.name, data, quantization))
            continue
        name = rewriting.reshape(value.name, before)
        if before != wide:
            type = value.type.with_shape(wide)
            name = rewriting.emit("broadcast_to", [name], type, ReshapeAttributes(wide))
        names.append(rewriting.reshape(name, shape))
    type = after.with_shape(whole)
    made = rewriting.emit(call.node.op, names, type, call.node.attributes)
    rewriting.reshape(made, after.shape, result=call.result.name)
    rewriting.run(legalizer)


def _spread(shape: Shape, after: Shape) -> Shape:
    """An operand's shape, with all elements of its last axes if it is repeated along others."""
    first = next((axis for axis, size in enumerate(shape) if size > 1), len(shape))
    wide = (*shape[:first], *after[first:])
    more = math.prod(shape) < math.prod(wide) <= _MOST_CHANNELS
    return wide if more and math.prod(after[:first]) > 1 else shape


def _folded(shapes: Sequence[Shape], after: Shape) -> tuple[list[int], list[list[bool]]]:
    """Extents of axes that are left, and for each operand whether it has all of their elements."""
    sizes, kinds = list[int](), list[tuple[bool, ...]]()
    for axis, size in enumerate(after):
        if size == 1:
            continue
        kind = tuple(shape[axis] == size for shape in shapes)
        if kinds and kinds[-1] == kind:
            sizes[-1] *= size
        else:
            sizes.append(size)
            kinds.append(kind)
    return sizes, [[kind[number] for kind in kinds] for number in range(len(shapes))]


def _extents(legalizer: Legalizer, values: Sequence[Value], sizes: Sequence[int]) -> Shape:
    """The shape of the folded result: that in which an operand lies already, if there is one."""
    channels = sizes[-1] if len(sizes) > 1 else None
    for value in values:
        for shape in images_of(legalizer, value):
            if math.prod(shape) == math.prod(sizes) and channels in (None, shape[-1]):
                return shape
    if len(sizes) < 2:
        return (math.prod(sizes),)
    if len(sizes) == 2:
        return (1, *grid(sizes[0]), sizes[1])
    return (1, *sizes)


def images_of(legalizer: Legalizer, value: Value) -> list[Shape]:
    """Shapes of the images in which all elements of a value lie already."""
    parts = () if value.data is not None else legalizer.parts(value.name)
    if len(parts) != 1:
        return []
    if is_vector(legalizer, parts[0]):
        return [shape for name, shape in legalizer.copies if name == parts[0]]
    return [legalizer.type(parts[0]).shape]


def _own(whole: Shape, sizes: Sequence[int], kind: Sequence[bool]) -> Shape:
    """An operand's shape in that of the result."""
    if len(sizes) < 2:
        return whole if all(kind) else (1,) * len(whole)
    if len(sizes) == 2:
        rows = whole[1:3] if kind[0] else (1, 1)
        return (1, *rows, whole[3] if kind[1] else 1)
    return (1, *(size if full else 1 for size, full in zip(sizes, kind, strict=True)))
