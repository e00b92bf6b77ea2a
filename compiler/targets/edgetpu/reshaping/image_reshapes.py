"""Images reshaped to images as boxes of pixels, which tiles copy from each other.

Pixels stay as they are, become several pixels of fewer channels, or are joined to pixels of more.
A row of an image ends where a row of the other one does only sometimes: between two such places,
pixels are cut into runs wherever either image has the end of a row. All boxes repeat there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from fitzroy.compiler.ops.shape import Shape
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Run, Section
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import assemble, temporary
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector

_MOST_BOXES = 32
"""Boxes that an image is made of."""


def reshaped_image(legalizer: Legalizer, place: str, shape: Shape, name: str) -> str | None:
    """The place of an image with the elements of another one in the same order.

    Args:
        legalizer: the graph.
        place: place of the image.
        shape: what it is reshaped to.
        name: a name for the result, if nothing has it.

    Returns:
        None if either is no image, or there are too many boxes.
    """
    before = legalizer.type(place)
    images = all(len(one) == IMAGE_RANK and one[0] == 1 for one in (before.shape, shape))
    if not images or is_vector(legalizer, place):
        return None
    if (place, shape) not in legalizer.copies:
        boxes = list(_boxes(before.shape, shape))
        if not 0 < len(boxes) <= _MOST_BOXES:
            return None
        result = temporary(legalizer, name, replace(before, shape=shape))
        parts = [(place, box) for box in boxes]
        assemble(legalizer, result, result, legalizer.types[result], parts)
        legalizer.copies[place, shape] = result
    return legalizer.copies[place, shape]


def _boxes(before: Shape, after: Shape) -> Iterator[Section]:
    """The boxes of which the result is made; none unless its pixels are parts or groups of others.

    Positions are counted in runs of as many channels as the pixels of fewer channels have.
    """
    channels = min(before[-1], after[-1])
    source, target = before[-1] // channels, after[-1] // channels
    if before[-1] % channels or after[-1] % channels or (channels % WORD and source != target):
        return
    widths = before[2] * source, after[2] * target
    period = math.lcm(*widths)
    count = before[1] * widths[0] // period
    ends = sorted({*range(0, period + 1, widths[0]), *range(0, period + 1, widths[1])})
    # Of pixels that are taken apart, or joined, each has its own place in the larger ones.
    each = max(source, target)
    for begin, end in pairwise(ends):
        for first in range(begin, min(begin + each, end)):
            columns = -(-(end - first) // each)
            (row, column), (down, across) = (divmod(first, width) for width in widths)
            yield Section(
                Run(count, down, period // widths[1], row, period // widths[0]),
                Run(columns, across // target, each // target, column // source, each // source),
                channels,
                channels * (across % target),
                channels * (column % source),
            )
