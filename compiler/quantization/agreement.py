"""How far the objects of a quantized detector are those of the float32 one.

Facts: the evaluation of COCO, with the objects of the float32 model in the place of annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    value = _mean(_matched(found, exact, overlaps), range(len(exact)))
    return 1.0 if value is None else value


def likely_precision(
    found: Sequence[Floats],
    exact: Sequence[Floats],
    overlaps: Sequence[float] = OVERLAPS,
    share: float = 0.9,
) -> tuple[float, float]:
    """A confidence interval of the mean average precision over the choice of pictures.

    Facts: the bootstrap. As many pictures are drawn with replacement from the given ones, and the
    interval is that of the precisions of many draws.

    Args:
        found: objects [n,6] of every picture.
        exact: what they should be.
        overlaps: least intersections over union at which boxes are the same.
        share: share of the draws that lie in the interval.
    """
    matched = _matched(found, exact, overlaps)
    random = np.random.default_rng(0)
    draws = (random.integers(0, len(exact), len(exact)).tolist() for _ in range(_DRAWS))
    values = [value for draw in draws if (value := _mean(matched, draw)) is not None]
    if not values:
        return 1.0, 1.0
    low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


_DRAWS = 400
"""Draws of the bootstrap."""


@dataclass(frozen=True, slots=True)
class _Matched:
    """Found objects of one class in one picture, best first.

    Attributes:
        scores: [n].
        right: [n, overlaps], 1 where an object is one that should be found, and else 0.
        wanted: how many should be found.
    """

    scores: Floats
    right: Doubles
    wanted: int


def _matched(
    found: Sequence[Floats], exact: Sequence[Floats], overlaps: Sequence[float]
) -> list[list[_Matched]]:
    """For each class that an exact object is of, what is found in each picture."""
    truth = [rows[rows[:, 4] > 0] for rows in exact]
    given = [rows[rows[:, 4] > 0] for rows in found]
    classes = sorted({int(kind) for rows in truth for kind in rows[:, 5]})
    return [
        [
            _in_picture(one[one[:, 5] == kind], other[other[:, 5] == kind], overlaps)
            for one, other in zip(given, truth, strict=True)
        ]
        for kind in classes
    ]


def _in_picture(found: Floats, exact: Floats, overlaps: Sequence[float]) -> _Matched:
    order = np.argsort(-found[:, 4], kind="stable")
    right = np.zeros((len(found), len(overlaps)))
    shared = [_overlaps(found[row], exact) for row in order] if len(exact) else []
    for column, overlap in enumerate(overlaps):
        taken = np.zeros(len(exact), bool)
        for place, own in enumerate(shared):
            common = np.where(taken, -1.0, own)
            best = int(common.argmax())
            if common[best] >= overlap:
                taken[best] = True
                right[place, column] = 1
    return _Matched(found[order, 4], right, len(exact))


def _mean(classes: Sequence[Sequence[_Matched]], pictures: Sequence[int]) -> float | None:
    """The mean precision over classes and overlaps; None where nothing should be found."""
    chosen = [[one[number] for number in pictures] for one in classes]
    values = [_precisions(one) for one in chosen if any(picture.wanted for picture in one)]
    return float(np.mean(values)) if values else None


def _precisions(pictures: Sequence[_Matched]) -> Doubles:
    """Average precision of one class at every overlap."""
    order = np.argsort(-np.concatenate([one.scores for one in pictures]), kind="stable")
    hits = np.concatenate([one.right for one in pictures])[order].cumsum(axis=0)
    recall = hits / sum(one.wanted for one in pictures)
    precision = hits / np.arange(1, len(hits) + 1)[:, None]
    # Of each recall, the best precision at that or a higher one.
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    values = [
        np.append(level, 0.0)[np.searchsorted(reached, _RECALLS, side="left")].mean()
        for level, reached in zip(precision.T, recall.T, strict=True)
    ]
    return np.array(values)


def _overlaps(box: Floats, others: Floats) -> Doubles:
    """Intersection over union of a box and others [n,6]."""
    a, b = box.astype(np.float64), others.astype(np.float64)
    sides = np.minimum(a[2:4], b[:, 2:4]) - np.maximum(a[:2], b[:, :2])
    common = np.maximum(sides, 0).prod(axis=1)
    area = (a[2:4] - a[:2]).prod() + (b[:, 2:4] - b[:, :2]).prod(axis=1) - common
    result: Doubles = common / np.maximum(area, 1e-9)
    return result
