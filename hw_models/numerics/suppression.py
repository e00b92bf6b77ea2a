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
        best, others = waiting[0], waiting[1:]
        overlaps = _overlap(boxes[best], boxes[others]).astype(overlap.dtype)
        same = overlaps > overlap
        groups.append(np.concatenate([waiting[:1], others[same]]))
        waiting = others[~same]
    return groups


def _overlap(box: Floats, others: Floats) -> Floats:
    """Intersection over union of a box [4] and others [n,4]; 0 where an area is not positive."""
    with np.errstate(all="ignore"):
        sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
        common = np.maximum(sides, np.float32(0)).prod(axis=1, dtype=np.float32)
        area, areas = (box[2:] - box[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1)
        result: Floats = np.where((area > 0) & (areas > 0), common / (area + areas - common), 0)
    return result
