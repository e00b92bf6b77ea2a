"""Anchors of quantized models, put back where cells are.

A quantized decoder adds its anchors as constants of 8 bits, whose steps are an eighth of a cell and
more. Cells are regular, so that all of an image together say where each of them is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ops.box_coding import CENTRE, UNIT
from fitzroy.compiler.passes.heads.anchors import Grid

Floats = npt.NDArray[np.float32]

_OFF = 0.2
"""How far the first cell of an image may be from a corner or a middle, in cells."""

_STRETCHED = 0.05
"""By how much distances between cells may differ, relatively."""


def straightened(anchors: Floats, grids: Sequence[Grid], size: tuple[int, int]) -> Floats:
    """Anchors whose centres are corners or middles of cells, with units that are cells.

    Args:
        anchors: [n,6] in pixels, x before y, level by level and row by row.
        grids: the cells of each level.
        size: width and height of the image.

    Returns:
        The same anchors if they are not those of such cells. Units that are no cells stay.
    """
    result, begin = anchors.copy(), 0
    for grid in grids:
        count = grid.height * grid.width * grid.boxes
        rows = result[begin : begin + count]
        if len(rows) < count or not _put_right(rows, grid, size):
            return anchors
        begin += count
    return result if begin == len(anchors) else anchors


def _put_right(rows: Floats, grid: Grid, size: tuple[int, int]) -> bool:
    """Change the anchors of a level in place; False if they are not regular."""
    index = np.arange(len(rows)) // grid.boxes
    places = index % grid.width, index // grid.width
    strides = size[0] / grid.width, size[1] / grid.height
    for axis, (place, stride) in enumerate(zip(places, strides, strict=True)):
        centres, units = rows[:, CENTRE][:, axis], rows[:, UNIT][:, axis]
        spread = float(((place - place.mean()) ** 2).sum())
        slope = 1.0
        if spread > 0:
            slope = float(((place - place.mean()) * centres).sum()) / spread / stride
        first = float((centres / stride).mean() - slope * place.mean())
        nearest = round(2 * first) / 2
        if abs(slope - 1) > _STRETCHED or abs(first - nearest) > _OFF:
            return False
        centres[:] = (place + nearest) * stride
        if abs(float(np.median(units)) / stride - 1) < _STRETCHED:
            units[:] = stride
    return True
