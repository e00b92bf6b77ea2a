"""How a tensor operation with partial sums in wide memory goes from row to row.

With `accumulate` cleared, sums live in wide memory at `d`. A *contribution* is a run of consecutive
steps that add to one row of `d`; it ends when `d` moves to another row, or when the reduction is
complete. The last contribution to a row hands out the result.

Published programs give every contribution 8 to 15 steps and return to a row after 9 steps at the
soonest (4,237 operations of 135 programs). How long the op engine takes to write a row back is not
known, so the bounds are those of what was observed.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import Dim, Traversal

PUBLISHED_RUN = range(8, 16)
"""Steps of a contribution in published programs."""

PUBLISHED_REVISIT = 9
"""Fewest steps, in published programs, from the last step on a row to the next one on it."""


def contribution_run(instruction: TensorOp) -> int | None:
    """Steps of the shortest contribution to a row that gets several of them.

    Args:
        instruction: a tensor operation.

    Returns:
        The steps; None if sums are in accumulators, or every reduction is a single contribution.

    Raises:
        FormatError: the operation has more steps than `Traversal.addresses` makes.
    """
    begins, partial, steps = _contributions(instruction)
    if not partial.any():
        return None
    lengths = np.diff(np.append(begins, steps))
    return int(lengths[partial].min())


def revisit_distance(instruction: TensorOp) -> int | None:
    """Fewest steps from the last step of a contribution to the next contribution to the same row.

    A row that the next step touches again is at a distance of 1. Rows count, not lanes: addresses
    of `d` are in quarters of a row.

    Args:
        instruction: a tensor operation.

    Returns:
        The steps; None if sums are in accumulators, or no row gets a second contribution.

    Raises:
        FormatError: the operation has more steps than `Traversal.addresses` makes.
    """
    begins, partial, steps = _contributions(instruction)
    if not partial.any() or instruction.d is None:
        return None
    rows = _rows(instruction.d, steps)[begins]
    order = np.argsort(rows, kind="stable")
    last = np.append(begins[1:], steps)[order] - 1
    again = rows[order[1:]] == rows[order[:-1]]
    distances = begins[order[1:]][again] - last[:-1][again]
    return int(distances.min()) if len(distances) else None


def words_per_step(instruction: TensorOp) -> float | None:
    """Words of the result that the last contribution to a row hands out per step of its own.

    Published programs hand out at most 6.

    Args:
        instruction: a tensor operation.

    Returns:
        The words; None where `contribution_run` is None.

    Raises:
        FormatError: the operation has more steps than `Traversal.addresses` makes.
    """
    run = contribution_run(instruction)
    if run is None:
        return None
    lanes = max(instruction.lanes, instruction.lanes_last)
    return math.ceil(lanes * (2 if instruction.output16 else 1) / 4) / run


@lru_cache(maxsize=1)
def _contributions(instruction: TensorOp) -> tuple[Array, Array, int]:
    """Where contributions begin, and which of them are not a whole reduction.

    Returns:
        int64[n], the first step of each; bool[n]; and the number of steps.
    """
    space = Traversal(
        0,
        tuple(Dim(count, 0) for count in instruction.loops),
        part_count=instruction.loop_part,
        part_dim=instruction.loop_part_dim,
    )
    steps = space.steps
    if instruction.accumulate or instruction.d is None:
        return np.zeros(1, np.int64), np.zeros(1, bool), steps
    first, last = _ends_of_reductions(instruction, space)
    rows = _rows(instruction.d, steps)
    begins = np.append(0, np.flatnonzero((np.diff(rows) != 0) | last[:-1]) + 1)
    ends = np.append(begins[1:], steps) - 1
    return begins, ~(first[begins] & last[ends]), steps


def _ends_of_reductions(instruction: TensorOp, space: Traversal) -> tuple[Array, Array]:
    """Which steps are the first, and which are the last, of a reduction, bool[steps] each."""
    indices = space.indices()
    first, last = np.ones(len(indices[0]), bool), np.ones(len(indices[0]), bool)
    for number, (index, count) in enumerate(zip(indices, instruction.loops, strict=True)):
        if instruction.reduction >> number & 1:
            first &= index == 0
            most = np.full(len(index), count - 1)
            if number == 0 and instruction.loop_part_dim:
                # The last chunk of the innermost loop has a length of its own.
                axis = instruction.loop_part_dim
                chunk = indices[axis] == instruction.loops[axis] - 1
                most = np.where(chunk, instruction.loop_part - 1, most)
            last &= index == most
    return first, last


def _rows(d: Traversal, steps: int) -> Array:
    """Row of wide memory of each step, int64[steps]."""
    rows = d.addresses() >> 2
    # A single address stands for all steps.
    return rows if len(rows) == steps else np.full(steps, rows[0])
