"""Transpositions that move pixels of images, or runs of their channels, as boxes.

A transposition of rows and columns that are divided into patches or windows takes pixels to other
places, and leaves their channels next to each other. Those at regular distances along rows and
columns make one box, which is copied at once: an image of patches of 2 x 2 pixels, one after the
other, has four.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import Shape, TransposeAttributes
from fitzroy.compiler.passes.axes.movement import Movement
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Run, Section
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import assemble, temporary
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector
from fitzroy.compiler.targets.edgetpu.reshaping.windows import (
    has_whole_rows,
    has_whole_windows,
    multiplied_together,
)

_MOST_BOXES = 64
"""Boxes that an image is made of."""

_FEWEST_PIXELS = 4
"""Pixels of a box, unless there are as few boxes: every tile moves many small ones by single words
faster."""

_ROWS, _COLUMNS, _CHANNELS = range(3)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an axis of the result, along one axis of the operand.

    Attributes:
        count: its extent.
        axis: rows, columns or channels of the operand, which it follows.
        stride: distance of its elements there.
        target: rows, columns or channels of the result.
        step: distance of its elements there.
    """

    count: int
    axis: int
    stride: int
    target: int
    step: int


def moved_pixels(legalizer: Legalizer, call: Call) -> bool:
    """Legalize a transposition of an image as boxes of pixels; whether it is one.

    The result is an image, or a view of one whose channels are its last axis.
    """
    (place, *others) = legalizer.parts(call.node.inputs[0] or "")
    image = legalizer.type(place).shape
    after = call.result.type
    if others or is_vector(legalizer, place) or len(image) != IMAGE_RANK or image[0] != 1:
        return False
    movement = Movement.of(image).reshaped(call.type().shape)
    if movement is None:
        return False
    movement = movement.transposed(call.attributes(TransposeAttributes).perm)
    options = [
        (len(boxes), abs(shape[1] - shape[2]), shape, boxes)
        for shape in _shapes(movement, legalizer.graph, call.result.name)
        if (boxes := _boxes(movement, image, shape)) is not None
    ]
    if not options:
        return False
    _, _, shape, boxes = min(options, key=lambda option: option[:3])
    whole = replace(after, shape=shape)
    name = call.result.name
    direct = shape == after.shape
    result = name if direct else temporary(legalizer, f"{name}.pixels", whole)
    try:
        assemble(legalizer, call.node.name, result, whole, [(place, box) for box in boxes])
    except UnsupportedError:
        return False
    if not direct:
        legalizer.views[name] = (result,)
    return True


def _read_as(graph: Graph, name: str) -> Shape:
    """The shape in which a value is read: what all its readers make of it, if they reshape it."""
    shape = graph.type(name).shape
    while name not in graph.outputs:
        readers = graph.consumers(name)
        shapes = {
            graph.type(reader.outputs[0]).shape if reader.op == "reshape" else None
            for reader in readers
        }
        (found, *others) = shapes or {None}
        if others or found is None:
            break
        shape, name = found, readers[0].outputs[0]
        if len(readers) > 1:
            break
    return shape


def _shapes(movement: Movement, graph: Graph, name: str) -> list[Shape]:
    """Shapes of images that a result may be: its own, or any whose channels are its last axis.

    Those of which tiles own whole windows are the only ones, if matrices are multiplied in windows,
    or those that have windows in rows, if heads of these are windows.
    """
    read = _read_as(graph, name)
    shapes = list(_images(movement, read))
    count = multiplied_together(graph, read)
    if not count:
        return shapes
    fits = has_whole_windows if count == read[0] else has_whole_rows
    return [shape for shape in shapes if fits(shape, read[0], read[1])] or shapes


def _images(movement: Movement, after: Shape) -> Iterator[Shape]:
    """Shapes of images of a result: its own if it is one, or any with its last axis as channels."""
    if len(after) == IMAGE_RANK and after[0] == 1:
        yield after
        return
    moved = movement.reshaped(after)
    if moved is None:
        return
    extents = [extent for factors in moved.axes[:-1] for extent, _ in factors]
    for cut in range(len(extents) + 1):
        yield 1, math.prod(extents[:cut]), math.prod(extents[cut:]), after[-1]


def _boxes(movement: Movement, image: Shape, shape: Shape) -> list[Section] | None:
    """The boxes of an image of which another one is made; None if they are too many or too small.

    Args:
        movement: where the elements of the result come from.
        image: shape of the operand [1,H,W,C].
        shape: that of the result, likewise.
    """
    found = movement.reshaped(shape)
    parts = None if found is None else _parts(found, image)
    if parts is None or parts[-1].axis != _CHANNELS or parts[-1].stride != 1:
        return None
    if parts[-1].target != _CHANNELS or parts[-1].step != 1 or parts[-1].count < WORD:
        return None
    runs = {_CHANNELS: parts[-1]}
    for axis in (_ROWS, _COLUMNS):
        along = [part for part in parts if part.axis == part.target == axis]
        if along:
            runs[axis] = max(along, key=lambda part: part.count)
    rest = [part for part in parts if part not in runs.values()]
    count = math.prod(part.count for part in rest)
    pixels = math.prod(runs[axis].count for axis in (_ROWS, _COLUMNS) if axis in runs)
    if count > (_MOST_BOXES if pixels >= _FEWEST_PIXELS else _FEWEST_PIXELS):
        return None
    return [_box(runs, rest, indices) for indices in product(*(range(part.count) for part in rest))]


def _box(runs: dict[int, _Part], rest: Sequence[_Part], indices: Sequence[int]) -> Section:
    """A box, by the indices of the parts that it has one element of."""
    sources, targets = [0, 0, 0], [0, 0, 0]
    for part, index in zip(rest, indices, strict=True):
        sources[part.axis] += index * part.stride
        targets[part.target] += index * part.step
    rows, columns = (
        Run(one.count, targets[axis], one.step, sources[axis], one.stride)
        if (one := runs.get(axis)) is not None
        else Run(1, targets[axis], 1, sources[axis], 1)
        for axis in (_ROWS, _COLUMNS)
    )
    channels = runs[_CHANNELS].count
    return Section(rows, columns, channels, targets[_CHANNELS], sources[_CHANNELS])


def _parts(movement: Movement, image: Shape) -> list[_Part] | None:
    """The parts of the axes of a result; None if some are along several axes of the operand."""
    found: list[_Part] = []
    for target, factors in enumerate(movement.axes[1:]):
        own: list[tuple[int, int, int]] = []
        for extent, step in factors:
            pieces = _pieces(extent, step, image)
            if pieces is None:
                return None
            own += pieces
        for number, (count, axis, stride) in enumerate(own):
            inner = math.prod(count for count, _, _ in own[number + 1 :])
            found.append(_Part(count, axis, stride, target, inner))
    return found


def _pieces(extent: int, step: int, image: Shape) -> list[tuple[int, int, int]] | None:
    """A factor as pieces along rows, columns and channels: extent, axis and distance of each."""
    _, _, width, depth = image
    found = []
    for axis, unit, end in ((_CHANNELS, 1, depth), (_COLUMNS, depth, depth * width)):
        if step >= end or extent == 1:
            continue
        inside = min(extent, -(-end // step))
        # It leaves an axis only where that ends.
        if step % unit or (inside < extent and (inside * step != end or extent % inside)):
            return None
        found.append((inside, axis, step // unit))
        extent, step = extent // inside, step * inside
    if extent > 1:
        found.append((extent, _ROWS, step // (depth * width)))
        if step % (depth * width):
            return None
    return found[::-1]
