"""Non-maximum suppression: the best of boxes that overlap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]
Real = np.float32 | np.float64


def descending(values: Floats) -> Indices:
    """Positions along the last axis, greatest first, equal ones in order."""
    return np.argsort(-values, axis=-1, kind="stable")


def suppressed(
    boxes: Floats, scores: Floats, most: int, overlap: np.float32 | np.float64
) -> Indices:
    """The best boxes, without those that overlap a better one.

    Args:
        boxes: corners [n,4], the smaller ones first; in which order of axes does not matter.
        scores: one per box [n].
        most: how many boxes at most.
        overlap: boxes that overlap a better one by more, as intersection over union, are left out.
            The comparison has its precision: torchvision's kernel compares in float64, TFLite's in
            float32.

    Returns:
        Indices of boxes, best first, equal ones in order.
    """
    return np.array([group[0] for group in grouped(boxes, scores, most, overlap)], np.intp)


def grouped(
    boxes: Floats, scores: Floats, most: int, overlap: np.float32 | np.float64
) -> list[Indices]:
    """The best boxes, each with those that it suppresses.

    Args:
        boxes: as of `suppressed`, as are the others.
        scores: one per box [n].
        most: how many groups at most.
        overlap: up to where boxes that overlap are apart.

    Returns:
        Indices of the boxes of each group, best first, equal ones in order; the groups in the order
        of their best. Boxes of groups beyond the bound are in none.
    """
    waiting = descending(scores)
    groups: list[Indices] = []
    while len(waiting) and len(groups) < most:
        bests = waiting[:_AT_ONCE]
        overlaps = _overlaps(boxes[bests], boxes[waiting]).astype(overlap.dtype)
        same: npt.NDArray[np.bool_] = np.greater(overlaps, overlap)
        left = np.ones(len(waiting), np.bool_)
        for number, best in enumerate(bests):
            if left[number] and len(groups) < most:
                left[number] = False
                others = np.flatnonzero(left & same[number])
                left[others] = False
                groups.append(np.array([best, *waiting[others]], np.intp))
        waiting = waiting[left]
    return groups


_AT_ONCE = 32
"""Boxes whose overlaps are computed at once. Some of them turn out not to be the best of a group,
but numpy takes longer for a call than for a few numbers."""


def _overlaps(boxes: Floats, others: Floats) -> Floats:
    """Intersections over unions of boxes [m,4] and others [n,4]; 0 where an area is not positive.

    Returns:
        One for each pair [m,n].
    """
    with np.errstate(all="ignore"):
        first, second = boxes[:, None], others[None]
        sides = np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(
            first[..., :2], second[..., :2]
        )
        common = np.maximum(sides, np.float32(0)).prod(axis=-1, dtype=np.float32)
        area, areas = _areas(boxes)[:, None], _areas(others)[None]
        result: Floats = np.where((area > 0) & (areas > 0), common / (area + areas - common), 0)
    return result


def _areas(boxes: Floats) -> Floats:
    """Areas [n] of boxes [n,4]."""
    found: Floats = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return found
