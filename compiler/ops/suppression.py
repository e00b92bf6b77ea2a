"""Non-maximum suppression: the best boxes, without those that overlap a better one.

Facts: TFLite's documented operators NON_MAX_SUPPRESSION_V4 and V5.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
    define,
    demand,
)
from fitzroy.compiler.ops.shape import static
from fitzroy.hw_models.numerics import Arithmetic

Floats = npt.NDArray[np.float32]

_MOST_BOXES = 1 << 24


@dataclass(frozen=True)
class SuppressionAttributes(Attributes):
    """Attributes of non-maximum suppression.

    Attributes:
        most: rows of the results.
        overlap: boxes that overlap a better one by as much or more, as intersection over union,
            are left out.
        score: boxes have to have a greater score.
        sigma: how fast scores fall with overlap; 0 if they do not.
    """

    most: int = 0
    overlap: float = 1.0
    score: float = 0.0
    sigma: float = 0.0


class Suppression(Operator):
    """Base of the two operators: boxes [n,4] as two corners (y, x), and scores [n]."""

    operands = ("boxes", "scores")
    attributes = SuppressionAttributes

    def infer(self, call: Call) -> Sequence[Expected]:
        a, boxes, scores = call.attributes(SuppressionAttributes), call.type(0), call.type(1)
        for type in (boxes, scores):
            demand(type.dtype is DType.FLOAT32, f"an operand is {type.dtype.value}, not float32")
        demand(boxes.rank == 2 and boxes.shape[-1] == 4, f"boxes of shape {list(boxes.shape)}")
        demand(scores.shape == boxes.shape[:1], f"scores of shape {list(scores.shape)}")
        demand(0 <= a.most < _MOST_BOXES, f"{a.most} rows of results")
        demand(a.sigma >= 0, f"a sigma of {a.sigma}")
        demand(0 <= a.overlap <= 1, f"an overlap of {a.overlap}, of 0 to 1")
        rows = Expected((a.most,), DType.INT32)
        count = Expected((), DType.INT32)
        return (
            [rows, count]
            if self.results == 2
            else [rows, Expected((a.most,), DType.FLOAT32), count]
        )

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        boxes, scores = arrays
        assert boxes is not None
        assert scores is not None
        a = call.attributes(SuppressionAttributes)
        chosen, remaining = selected(boxes, scores, a)
        rows, values = np.zeros(a.most, np.int32), np.zeros(a.most, np.float32)
        rows[: len(chosen)], values[: len(chosen)] = chosen, remaining
        count = np.array(len(chosen), np.int32)
        return [rows, count] if self.results == 2 else [rows, values, count]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        numbers = []
        for index, what in enumerate(("overlap", "score", "sigma")[: len(call.inputs) - 3], 3):
            data = call.operand(index).data
            if data is None or data.size != 1:
                raise TypeRuleError(f"the {what} is computed at run time; it must be a constant")
            numbers.append(float(data.reshape(-1)[0]))
        most = static(call, 2, "number of results")[0]
        return Imported(SuppressionAttributes(most, *numbers), (0, 1))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(SuppressionAttributes)
        limits = [a.overlap, a.score] if self.results == 2 else [a.overlap, a.score, a.sigma]
        parameters = [np.array(a.most, np.int32), *(np.array(x, np.float32) for x in limits)]
        return Exported(self.tflite[0], self.options(), (0, 1, *parameters))


@define
class NonMaxSuppression(Suppression):
    """Indices of the best boxes, best first and then zeros, and their number."""

    name = "non_max_suppression"
    results = 2
    tflite = ("NON_MAX_SUPPRESSION_V4",)
    table = "NonMaxSuppressionV4Options"


@define
class SoftNonMaxSuppression(Suppression):
    """Indices and scores of the best boxes, with scores reduced by overlap, and their number."""

    name = "soft_non_max_suppression"
    results = 3
    tflite = ("NON_MAX_SUPPRESSION_V5",)
    table = "NonMaxSuppressionV5Options"


def selected(
    boxes: Floats, scores: Floats, a: SuppressionAttributes
) -> tuple[list[int], list[float]]:
    """Indices of the selected boxes, best first and equal ones in order, and their scores."""
    lowest, sigma = np.float32(a.score), np.float32(a.sigma)
    # Score, index, and how many of the selected boxes the score takes into account.
    heap = [(-float(scores[i]), int(i), 0) for i in np.flatnonzero(scores > lowest)]
    heapq.heapify(heap)
    chosen: list[int] = []
    remaining: list[float] = []
    while heap and len(chosen) < a.most:
        negative, index, seen = heapq.heappop(heap)
        score = np.float32(-negative)
        overlaps = _overlaps(boxes[index], boxes[chosen[seen:]][::-1])
        if (overlaps >= np.float32(a.overlap)).any():
            continue
        if sigma > 0:
            for overlap in overlaps:
                score *= np.exp(np.float32(-0.5) / sigma * overlap * overlap)
        if score == np.float32(-negative):
            chosen.append(index)
            remaining.append(float(score))
        elif score > lowest:
            heapq.heappush(heap, (-float(score), index, len(chosen)))
    return chosen, remaining


def _overlaps(box: Floats, others: Floats) -> Floats:
    """Intersection over union of a box [4] and others [n,4]; 0 where an area is not positive."""
    low, high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    lows, highs = np.minimum(others[:, :2], others[:, 2:]), np.maximum(others[:, :2], others[:, 2:])
    sides = np.maximum(np.minimum(high, highs) - np.maximum(low, lows), np.float32(0))
    common = sides.prod(axis=1)
    area, areas = (high - low).prod(), (highs - lows).prod(axis=1)
    with np.errstate(all="ignore"):
        result: Floats = np.where((area > 0) & (areas > 0), common / (area + areas - common), 0)
    return result
