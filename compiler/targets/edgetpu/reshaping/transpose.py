"""Transposition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ops.convolution import TransposeConvAttributes
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.shape import ConcatenationAttributes, TransposeAttributes
from fitzroy.compiler.targets.edgetpu.layers.conditions import requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import (
    CHANNELS_LAST,
    IMAGE_RANK,
    RULES,
    Legalizer,
    image_of_plane,
    legalizes,
    several,
)
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD
from fitzroy.compiler.targets.edgetpu.reshaping.channels import picked
from fitzroy.compiler.targets.edgetpu.reshaping.elements import (
    MOST_BYTES,
    copied_bytes,
    distances,
    take_elements,
)
from fitzroy.compiler.targets.edgetpu.reshaping.pixel_moves import moved_pixels
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import as_vector
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import (
    MOST_JOINED,
    changes_bytes,
    temporary,
)
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector

_MOST_IMAGES = 32
"""Images that a result of more axes than an image has is made of, each by a gather of its own."""

_MOST_BANDS = 4
"""Bands that a large image is transposed in, each by a gather of its own."""

_MOST_SHUFFLED = 1024
"""Channels that are moved by a matrix of as many rows and columns."""

Axis = tuple[int, int]
"""Extent of an axis of the result, and distance of its elements in the operand."""


def _keeps_order(shape: Sequence[int], perm: Sequence[int]) -> bool:
    """Whether only axes of one element change their places."""
    moved = [axis for axis in perm if shape[axis] > 1]
    return moved == sorted(moved)


def _merged(axes: Sequence[Axis]) -> list[Axis]:
    """Axes without those of extent 1, and with neighbours that stay together as one."""
    found: list[Axis] = []
    for extent, step in axes:
        if extent == 1:
            continue
        if found and found[-1][1] == extent * step:
            found[-1] = found[-1][0] * extent, step
        else:
            found.append((extent, step))
    return found


@requires("transpose", "unpack")
def _same_numbers(call: Call) -> Iterator[Reject]:
    """Elements move as they are."""
    yield from changes_bytes(call, "requantize before it")


@legalizes("transpose")
def _transpose(legalizer: Legalizer, call: Call) -> None:
    node, before, after = call.node, call.type(), call.result.type
    perm = call.attributes(TransposeAttributes).perm
    if _keeps_order(before.shape, perm):
        RULES["reshape"](legalizer, call)
        return
    if _shuffles(legalizer, call):
        _shuffled(legalizer, call)
        return
    if moved_pixels(legalizer, call) or _of_planes(legalizer, call) or _in_bands(legalizer, call):
        return
    source = legalizer.place(node.inputs[0] or "")
    if not is_vector(legalizer, source) and legalizer.type(source).shape != before.shape:
        source = as_vector(legalizer, source)
    steps = distances(legalizer, source, before.shape)
    strides = [steps[axis] for axis in perm]
    if len(after.shape) <= IMAGE_RANK and not several(after):
        take_elements(legalizer, node.name, source, (node.outputs[0], after), 0, strides)
        return
    _in_images(legalizer, call, source, _merged(list(zip(after.shape, strides, strict=True))))


def _of_planes(legalizer: Legalizer, call: Call) -> bool:
    """Put planes that came from the host together to an image, in strips if it is large.

    Words of all planes at a place are joined to a pixel. A transposed convolution by ones and zeros
    writes their bytes as pixels of the result, one for each byte of a word.

    Returns:
        Whether it did; otherwise the operand does not lie as planes.
    """
    if call.attributes(TransposeAttributes).perm != CHANNELS_LAST:
        return False
    before, after, name = call.type(), call.result.type, call.node.inputs[0] or ""
    _, height, width, planes = after.shape
    places = [legalizer.type(part).shape for part in legalizer.parts(name)]
    if places != [image_of_plane(before)] * planes:
        return False
    rewriting = Rewriting.of(legalizer, call)
    words = rewriting.reshape(name, (1, planes * height, width // WORD, WORD))
    parts = [rewriting.slice(words, 1, height * plane, height) for plane in range(planes)]
    type = before.with_shape((1, height, width // WORD, planes * WORD))
    joined = rewriting.emit("concatenation", parts, type, ConcatenationAttributes(IMAGE_RANK - 1))
    weights = np.eye(planes * WORD, dtype=before.dtype.numpy).reshape(planes, 1, WORD, -1)
    attributes = TransposeConvAttributes(stride=(1, WORD), output=(height, width))
    operands = [joined, rewriting.constant(weights, 1.0)]
    rewriting.emit("transpose_conv", operands, after, attributes, result=call.result.name)
    rewriting.run(legalizer)
    return True


def _shuffles(legalizer: Legalizer, call: Call) -> bool:
    """Whether a transposition moves channels of an image, each pixel's by themselves."""
    shape, perm = call.type().shape, call.attributes(TransposeAttributes).perm
    rank, (place, *others) = len(shape), legalizer.parts(call.node.inputs[0] or "")
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    image = legalizer.type(place).shape
    return (
        not others
        and rank > IMAGE_RANK
        and perm == swapped
        and not is_vector(legalizer, place)
        and image[-1] == shape[-1] * shape[-2]
        and image[-1] <= _MOST_SHUFFLED
    )


def _shuffled(legalizer: Legalizer, call: Call) -> None:
    """Channels in another order, which a convolution with weights of zero and one gives."""
    rewriting, before, after = Rewriting.of(legalizer, call), call.type(), call.result.type
    (place,) = legalizer.parts(call.node.inputs[0] or "")
    shape = legalizer.type(place).shape
    order = np.arange(shape[-1]).reshape(before.shape[-2:]).T.reshape(-1).tolist()
    image = rewriting.reshape(call.node.inputs[0] or "", shape)
    moved = picked(rewriting, image, order, replace(after, shape=shape))
    rewriting.reshape(moved, after.shape, result=call.result.name)
    rewriting.run(legalizer)


def _in_bands(legalizer: Legalizer, call: Call) -> bool:
    """Transpose bands of an image one after the other, if tiles have no room for all of it.

    Returns:
        Whether it did; otherwise one gather is enough, or bands cannot be cut or joined.
    """
    before, after = call.type(), call.result.type
    perm = call.attributes(TransposeAttributes).perm
    if len(perm) > IMAGE_RANK or several(before) or several(after):
        return False
    axis, bounds = _by_parts(legalizer, call) or _by_size(legalizer, call)
    if len(bounds) <= 2:
        return False
    rewriting, parts = Rewriting.of(legalizer, call), []
    for begin, end in pairwise(bounds):
        band = rewriting.slice(call.node.inputs[0] or "", axis, begin, end - begin)
        shape = rewriting.graph.type(band).shape
        moved = after.with_shape(tuple(shape[source] for source in perm))
        parts.append(rewriting.emit("transpose", [band], moved, TransposeAttributes(perm)))
    joined = ConcatenationAttributes(perm.index(axis))
    rewriting.emit("concatenation", parts, after, joined, result=call.result.name)
    tried = legalizer.split()
    try:
        rewriting.run(tried)
    except UnsupportedError:
        return False
    legalizer.adopt(tried)
    return True


def _by_size(legalizer: Legalizer, call: Call) -> tuple[int, list[int]]:
    """The axis and the bounds of bands that tiles have room for; no bounds if there are none.

    Bands are of rows or columns before and after, or else of channels that fill words.
    """
    before, perm = call.type(), call.attributes(TransposeAttributes).perm
    (place, *others) = legalizer.parts(call.node.inputs[0] or "")
    count = 1 if others else -(-copied_bytes(legalizer, place) // MOST_BYTES)
    channels = {len(perm) - 1, perm[-1]}
    units = {axis: WORD if axis in channels else 1 for axis in perm}
    axes = [axis for axis in perm if before.shape[axis] >= count * units[axis]]
    if not 1 < count <= _MOST_BANDS or not axes:
        return 0, []
    # Of the same size where the extent divides.
    axis = min(axes, key=lambda axis: (units[axis], before.shape[axis] % count))
    extent, unit = before.shape[axis], units[axis]
    bounds = [extent * number // (count * unit) * unit for number in range(count)]
    return axis, [*bounds, extent]


def _by_parts(legalizer: Legalizer, call: Call) -> tuple[int, list[int]] | None:
    """The axis and the bounds of bands that parts of the operand are, if no tile can join them."""
    before = call.type()
    sizes = [legalizer.type(part).size for part in legalizer.parts(call.node.inputs[0] or "")]
    if len(sizes) == 1 or before.size <= MOST_JOINED:
        return None
    axis = next(axis for axis, extent in enumerate(before.shape) if extent > 1)
    row = before.size // before.shape[axis]
    if any(size % row for size in sizes):
        return None
    return axis, [0, *accumulate(size // row for size in sizes)]


def _in_images(legalizer: Legalizer, call: Call, source: str, axes: Sequence[Axis]) -> None:
    """A result of any axes as images of the last three of them, one after the other."""
    name, after = call.result.name, call.result.type
    inner = [(1, 0)] * (IMAGE_RANK - 1 - len(axes)) + list(axes[-(IMAGE_RANK - 1) :])
    outer = list(axes[: -(IMAGE_RANK - 1)])
    count = math.prod(extent for extent, _ in outer)
    if count > _MOST_IMAGES:
        raise UnsupportedError(
            f"transpose {call.node.name!r} of {list(call.type().shape)} is made of {count} images "
            f"of three axes: at most {_MOST_IMAGES}",
            hint="transpose fewer axes at a time",
        )
    type = replace(after, shape=(1, *(extent for extent, _ in inner)))
    parts = []
    for number in range(count):
        part = temporary(legalizer, f"{name}.{number}", type)
        strides = [0, *(step for _, step in inner)]
        first = _offset(outer, number)
        take_elements(legalizer, part, source, (part, type), first, strides)
        parts.append(part)
    legalizer.views[name] = tuple(parts)


def _offset(axes: Sequence[Axis], number: int) -> int:
    """Distance of an element from the first one, by its number in the order of some axes."""
    offset = 0
    for extent, step in reversed(axes):
        number, index = divmod(number, extent)
        offset += index * step
    return offset
