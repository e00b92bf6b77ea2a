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
    waiting = descending(scores)
    selected: list[int] = []
    while len(waiting) and len(selected) < most:
        best, waiting = waiting[0], waiting[1:]
        selected.append(int(best))
        overlaps = _overlap(boxes[best], boxes[waiting]).astype(overlap.dtype)
        waiting = waiting[~(overlaps > overlap)]
    return np.array(selected, np.intp)


def _overlap(box: Floats, others: Floats) -> Floats:
    """Intersection over union of a box [4] and others [n,4]; 0 where an area is not positive."""
    with np.errstate(all="ignore"):
        sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
        common = np.maximum(sides, np.float32(0)).prod(axis=1, dtype=np.float32)
        area, areas = (box[2:] - box[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1)
        result: Floats = np.where((area > 0) & (areas > 0), common / (area + areas - common), 0)
    return result
