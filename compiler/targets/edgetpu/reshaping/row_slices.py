"""Rows cut out of values whose rows are the pixels of images, one after the other.

A vector among the images, such as the class token in front of the others, is taken as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import SplitAttributes, StridedSliceAttributes
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes_first
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Run, Section
from fitzroy.compiler.targets.edgetpu.reshaping.rows_as_pixels import as_positions
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import (
    MOST_JOINED,
    are_images,
    assemble,
    image_shape,
    keeps_bytes,
    split_begins,
    temporary,
)
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector

_Pieces = list[tuple[str, Section | None]]
"""Places that hold rows, and for an image that is not taken as a whole, which part of it."""


@legalizes_first
def cut_rows(legalizer: Legalizer, call: Call) -> bool:
    """Legalize an operator whose results are rows of its operand that follow each other.

    Returns:
        Whether it did: rows are pixels. Otherwise the rule of the operator applies.
    """
    begins = _begins(call)
    spans = [_rows(call, index, begin) for index, begin in enumerate(begins)]
    if not spans or None in spans:
        return False
    parts = _parts(legalizer, call)
    if not parts or not all(
        keeps_bytes(legalizer.type(part), value.type) for value in call.outputs for part in parts
    ):
        return False
    found = []
    for span in spans:
        assert span is not None
        pieces = _pieces(legalizer, parts, call.type().shape[-1], *span)
        if pieces is None:
            return False
        found.append(pieces)
    for value, pieces in zip(call.outputs, found, strict=True):
        place, *others = (
            _cut(legalizer, f"{value.name}.{number}", part, section)
            for number, (part, section) in enumerate(pieces)
        )
        if not others and legalizer.type(place).shape == value.type.shape:
            legalizer.aliases[value.name] = place
        else:
            legalizer.views[value.name] = (place, *others)
    return True


def _begins(call: Call) -> list[list[int]]:
    """The first element of every result along each axis; none for other operators."""
    match call.node.attributes:
        case StridedSliceAttributes(begin, _, stride) if set(stride) == {1}:
            return [list(begin)]
        case SplitAttributes():
            return split_begins(call)
    return []


def _rows(call: Call, index: int, begin: Sequence[int]) -> tuple[int, int] | None:
    """The first row of a result among those of the operand, and the end of its rows.

    A row has all elements of the last axis.

    Returns:
        None if the rows of the result do not follow each other, or are not whole.
    """
    shape, after = call.type().shape, call.outputs[index].type.shape
    cut = [axis for axis, size in enumerate(shape) if after[axis] != size]
    if not cut or cut[-1] == len(shape) - 1 or math.prod(after[: cut[-1]]) != 1:
        return None
    strides = (math.prod(shape[axis + 1 : -1]) for axis in range(len(shape) - 1))
    first = sum(number * step for number, step in zip(begin, strides, strict=False))
    return first, first + math.prod(after[:-1])


def _parts(legalizer: Legalizer, call: Call) -> tuple[str, ...]:
    """The places whose rows are those of an operand: pixels of images, and whole vectors.

    A vector becomes an image if no tile has room for all of it; none if the operand lies otherwise.
    """
    name, channels = call.node.inputs[0] or "", call.type().shape[-1]
    if name not in legalizer.aliases and name in legalizer.views:
        parts = legalizer.views[name]
    elif call.type().size > MOST_JOINED and is_vector(legalizer, legalizer.place(name)):
        parts = (as_positions(legalizer, name, channels),)
    else:
        return ()
    fits = all(
        legalizer.type(part).size % channels == 0
        if is_vector(legalizer, part)
        else are_images(legalizer, [part], channels)
        for part in parts
    )
    return parts if fits else ()


def _pieces(
    legalizer: Legalizer, parts: Sequence[str], channels: int, first: int, end: int
) -> _Pieces | None:
    """Rows of places one after the other: of each all, or at most three rectangles of an image.

    Args:
        legalizer: the graph.
        parts: the places.
        channels: elements of a row.
        first: number of the first row, counted over all places.
        end: one past the last row.

    Returns:
        None if a vector would be cut.
    """
    pieces, passed = _Pieces(), 0
    for part in parts:
        rows = legalizer.type(part).size // channels
        begin, stop = max(first - passed, 0), min(end - passed, rows)
        passed += rows
        if (begin, stop) == (0, rows):
            pieces.append((part, None))
        elif begin < stop:
            if is_vector(legalizer, part):
                return None
            _, width, _ = image_shape(legalizer, part)
            pieces += [(part, section) for section in _sections(width, channels, begin, stop)]
    return pieces


def _sections(width: int, channels: int, begin: int, stop: int) -> Iterator[Section]:
    """Pixels of an image one after the other, as at most three rectangles.

    Args:
        width: columns of the image.
        channels: its channels.
        begin: number of the first pixel.
        stop: one past the last.
    """
    while begin < stop:
        row, column = divmod(begin, width)
        rows = 1 if column else max(1, (stop - begin) // width)
        columns = min(width - column, stop - begin)
        yield Section(Run(rows, source=row), Run(columns, source=column), channels)
        begin += rows * columns


def _cut(legalizer: Legalizer, name: str, part: str, section: Section | None) -> str:
    """The place of a piece: its own if that is all of it."""
    if section is None:
        return part
    shape = (1, section.rows.count, section.columns.count, section.channels)
    type = replace(legalizer.type(part), shape=shape)
    own = temporary(legalizer, name, type)
    assemble(legalizer, own, own, type, [(part, section)])
    return own
