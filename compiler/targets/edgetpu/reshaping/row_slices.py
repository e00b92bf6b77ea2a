"""Rows cut out of values whose rows are the pixels of images, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
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

_Sections = list[tuple[str, Section]]
"""Parts of images, each with the place of its image."""


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
    parts = _images(legalizer, call)
    if not parts or not all(
        keeps_bytes(legalizer.type(part), value.type) for value in call.outputs for part in parts
    ):
        return False
    for value, span in zip(call.outputs, spans, strict=True):
        assert span is not None
        legalizer.views[value.name] = tuple(
            _cut(legalizer, f"{value.name}.{number}", part, section)
            for number, (part, section) in enumerate(_sections(legalizer, parts, *span))
        )
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


def _images(legalizer: Legalizer, call: Call) -> tuple[str, ...]:
    """The images whose pixels, one after the other, are the rows of an operand.

    A vector becomes an image if no tile has room for all of it; none if the operand lies otherwise.
    """
    name, channels = call.node.inputs[0] or "", call.type().shape[-1]
    if name not in legalizer.aliases and name in legalizer.views:
        parts = legalizer.views[name]
    elif call.type().size > MOST_JOINED and is_vector(legalizer, legalizer.place(name)):
        parts = (as_positions(legalizer, name, channels),)
    else:
        return ()
    return parts if are_images(legalizer, parts, channels) else ()


def _sections(legalizer: Legalizer, parts: Sequence[str], first: int, end: int) -> _Sections:
    """Pixels of images one after the other, as rectangles: at most three of each image.

    Args:
        legalizer: the graph.
        parts: places of the images.
        first: number of the first pixel, counted over all images.
        end: one past the last pixel.
    """
    sections, passed = _Sections(), 0
    for part in parts:
        height, width, channels = image_shape(legalizer, part)
        begin, stop = max(first - passed, 0), min(end - passed, height * width)
        passed += height * width
        while begin < stop:
            row, column = divmod(begin, width)
            rows = 1 if column else max(1, (stop - begin) // width)
            columns = min(width - column, stop - begin)
            section = Section(Run(rows, source=row), Run(columns, source=column), channels)
            sections.append((part, section))
            begin += rows * columns
    return sections


def _cut(legalizer: Legalizer, name: str, part: str, section: Section) -> str:
    """The place of a part of an image: its own if that is all of it."""
    height, width, channels = image_shape(legalizer, part)
    shape = (1, section.rows.count, section.columns.count, channels)
    if shape == (1, height, width, channels):
        return part
    type = replace(legalizer.type(part), shape=shape)
    own = temporary(legalizer, name, type)
    assemble(legalizer, own, own, type, [(part, section)])
    return own
