"""Models whose first output has a score for every class."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fitzroy.base.types import Array
from fitzroy.pycoral.adapters.common import Tensors, dequantize

__all__ = ["Class", "get_classes", "get_classes_from_scores", "get_scores", "num_classes"]


class Class(NamedTuple):
    """A class and its score."""

    id: int
    score: float


def num_classes(interpreter: Tensors) -> int:
    """How many classes the model tells apart."""
    return math.prod(int(extent) for extent in interpreter.get_output_details()[0]["shape"])


def get_scores(interpreter: Tensors) -> Array:
    """The scores of all classes, in order, as real numbers."""
    return dequantize(interpreter, 0).reshape(-1)


def get_classes_from_scores(
    scores: Array, top_k: float = math.inf, score_threshold: float = -math.inf
) -> list[Class]:
    """The best classes, best first; equal ones in order.

    Args:
        scores: one per class.
        top_k: how many at most.
        score_threshold: least score.
    """
    order = np.argsort(-scores, kind="stable")
    kept = [int(index) for index in order if scores[index] >= score_threshold]
    return [Class(index, scores[index].item()) for index in kept[: int(min(top_k, len(kept)))]]


def get_classes(
    interpreter: Tensors, top_k: float = math.inf, score_threshold: float = -math.inf
) -> list[Class]:
    """The best classes of the last inference; see `get_classes_from_scores`."""
    return get_classes_from_scores(get_scores(interpreter), top_k, score_threshold)
