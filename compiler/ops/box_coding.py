"""How detectors encode boxes, relative to anchors: one class for each family.

An anchor has a centre, a unit of distance and a size, in pixels of the model's input. Facts: the
papers of SSD, YOLOv5, YOLOX, FCOS and generalized focal loss, confirmed with exported models.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

CENTRE, UNIT, SIZE = slice(0, 2), slice(2, 4), slice(4, 6)
"""Columns of anchors [n,6]: x and y of each."""

ANCHOR = 6
BOX = 4


class BoxCoding(StrEnum):
    """What the four numbers of a box stand for.

    Attributes:
        CORNERS: left, top, right and bottom; no anchors.
        CENTRES: x and y of the centre, width and height; no anchors.
        DISTANCES: from the anchor's centre to the left, top, right and bottom edge, in its units:
            YOLOv8 and its successors, FCOS, NanoDet.
        EXPONENTIAL: offset of the centre in units, and logarithms of width and height relative to
            the anchor's size: SSD, EfficientDet, YOLOX.
        SQUARES: offset of the centre in units, and square roots of width and height likewise:
            YOLOv5 and YOLOv7.
        CENTRE_SIZES: offset of the centre in units, and width and height in the anchor's size:
            CenterNet, BlazeFace.
    """

    CORNERS = "corners"
    CENTRES = "centres"
    DISTANCES = "distances"
    EXPONENTIAL = "exponential"
    SQUARES = "squares"
    CENTRE_SIZES = "centre_sizes"

    @property
    def has_anchors(self) -> bool:
        """Whether boxes are relative to anchors."""
        return self not in (BoxCoding.CORNERS, BoxCoding.CENTRES)


def decoded(boxes: Floats, anchors: Floats | None, coding: BoxCoding, exponent: float) -> Floats:
    """Corners [n,4] as (left, top, right, bottom).

    Args:
        boxes: encoded boxes [n,4].
        anchors: [n,6]; None for codings without.
        coding: how boxes are encoded.
        exponent: factor of logarithms of extents; 1 for other codings.
    """
    first, second = boxes[:, :2], boxes[:, 2:]
    if coding is BoxCoding.CORNERS:
        return boxes
    if anchors is None:
        return _around(first, second)
    centre, unit, size = anchors[:, CENTRE], anchors[:, UNIT], anchors[:, SIZE]
    if coding is BoxCoding.DISTANCES:
        return np.concatenate([centre - first * unit, centre + second * unit], axis=1)
    with np.errstate(over="ignore"):
        factor = second
        if coding is BoxCoding.EXPONENTIAL:
            factor = np.exp(second * np.float32(exponent))
        elif coding is BoxCoding.SQUARES:
            factor = second * second
        return _around(centre + first * unit, factor * size)


def _around(centre: Floats, size: Floats) -> Floats:
    half = size * np.float32(0.5)
    return np.concatenate([centre - half, centre + half], axis=1)
