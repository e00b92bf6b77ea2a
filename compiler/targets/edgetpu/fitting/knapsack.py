"""One option of each group, so that all fit and are worth most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Option = tuple[int, int]
"""Rows of wide memory that an option takes, and how much it is worth."""


def knapsack(options: Sequence[Sequence[Option]], room: int) -> list[int]:
    """Number of an option of each group, so that their values are the highest that fit.

    Args:
        options: options of each group; the first ones fit together.
        room: sum of all sizes, at most.
    """
    best = np.full(room + 1, -1, np.int64)
    best[0] = 0
    picks = []
    for some in options:
        reached = np.full(room + 1, -1, np.int64)
        pick = np.zeros(room + 1, np.int32)
        for number, (size, value) in enumerate(some):
            if size > room:
                continue
            before = best[: room + 1 - size]
            total = np.where(before < 0, -1, before + value)
            better = total > reached[size:]
            reached[size:][better] = total[better]
            pick[size:][better] = number
        picks.append(pick)
        best = reached
    at = int(np.argmax(best))
    found = []
    for some, pick in zip(reversed(options), reversed(picks), strict=True):
        number = int(pick[at])
        found.append(number)
        at -= some[number][0]
    return found[::-1]
