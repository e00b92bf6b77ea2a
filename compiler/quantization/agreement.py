"""How far the objects of a quantized detector are those of the float32 one.

Facts: the evaluation of COCO, with the objects of the float32 model in the place of annotations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

OVERLAPS = tuple(float(x) for x in np.arange(50, 100, 5) / 100)
"""Least intersections over union at which boxes are the same: means are over these."""

_RECALLS = np.linspace(0, 1, 101)


def mean_average_precision(
    found: Sequence[Floats], exact: Sequence[Floats], overlaps: Sequence[float] = OVERLAPS
) -> float:
    """Mean over classes and overlaps of the average precision, 0 to 1.

    Classes that no exact object is of do not count.

    Args:
        found: objects [n,6] of every picture: corners, score, class; rows of score 0 are none.
        exact: what they should be.
        overlaps: least intersections over union at which boxes are the same.
    """
    truth = [rows[rows[:, 4] > 0] for rows in exact]
    given = [rows[rows[:, 4] > 0] for rows in found]
    classes = sorted({int(kind) for rows in truth for kind in rows[:, 5]})
    values = [
        _average_precision(_of(given, kind), _of(truth, kind), overlap)
        for kind in classes
        for overlap in overlaps
    ]
    return float(np.mean(values)) if values else 1.0


def _of(pictures: Sequence[Floats], kind: int) -> list[Floats]:
    return [rows[rows[:, 5] == kind] for rows in pictures]


def _average_precision(found: Sequence[Floats], exact: Sequence[Floats], overlap: float) -> float:
    """Average precision of one class at one overlap."""
    rows = [(number, row) for number, picture in enumerate(found) for row in picture]
    rows.sort(key=lambda item: -float(item[1][4]))
    taken = [np.zeros(len(picture), bool) for picture in exact]
    right = np.zeros(len(rows))
    for place, (number, row) in enumerate(rows):
        if len(exact[number]) == 0:
            continue
        common = np.where(taken[number], -1.0, _overlaps(row, exact[number]))
        best = int(common.argmax())
        if common[best] >= overlap:
            taken[number][best] = True
            right[place] = 1
    total = sum(map(len, exact))
    hits = right.cumsum()
    recall, precision = hits / total, hits / np.arange(1, len(rows) + 1)
    # Of each recall, the best precision at that or a higher one.
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(recall, _RECALLS, side="left")
    values = np.append(precision, 0.0)[places]
    return float(values.mean())


def _overlaps(box: Floats, others: Floats) -> Doubles:
    """Intersection over union of a box and others [n,6]."""
    a, b = box.astype(np.float64), others.astype(np.float64)
    sides = np.minimum(a[2:4], b[:, 2:4]) - np.maximum(a[:2], b[:, :2])
    common = np.maximum(sides, 0).prod(axis=1)
    area = (a[2:4] - a[:2]).prod() + (b[:, 2:4] - b[:, :2]).prod(axis=1) - common
    result: Doubles = common / np.maximum(area, 1e-9)
    return result
