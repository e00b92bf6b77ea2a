"""Order of the elements of a tensor operation: addresses, sums and outputs of each step."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.memory import NARROW_WORDS, WIDE_ROWS
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.edgetpu.sequence import (
    Gate,
    Numbers,
    Order,
    Sequence,
    as_array,
    gates,
    loops,
    sequence,
)
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import Dim, Traversal

_STEP_BYTES = 64
"""Bytes of a step while an operation is planned and computed: 8 for each operand, and copies."""


@dataclass(eq=False)
class OpPlan:
    """A tensor operation with its element order.

    Attributes:
        op: the instruction.
        steps: number of loop steps.
        gates: its watchers.
        a: byte address of each step, None for MAX and SUM.
        c: quarter row of each step.
        d: quarter row of each step, where partial sums are in memory.
        runs: bounds of the steps that make one sum.
        blocks: number of the output block of each run.
        first: whether each run begins the sum of its position; all do unless sums are in memory.
        last: whether each run completes an output.
        words: bounds of each run's output words among those of B.
        b: word address of each output word; empty if nothing is written.
        avdata: positions in output words at which AVDATA counts.
        parameters: positions in steps at which PARAMETERS counts.
    """

    op: TensorOp
    steps: int
    gates: tuple[Gate, ...]
    a: Array | None
    c: Array
    d: Array | None
    runs: Array
    blocks: Array
    first: Array
    last: Array
    words: Array
    b: Array
    avdata: Numbers | None
    parameters: Numbers | None

    @cached_property
    def nearest(self) -> int | None:
        """Least steps from the last one of a contribution to a sum in memory to its next one.

        None if no sum has several.
        """
        if self.d is None:
            return None
        rows = self.d[self.runs[:-1]]
        order = np.lexsort((np.arange(len(rows)), rows))
        before, after = order[:-1], order[1:]
        same = (rows[before] == rows[after]) & ~self.first[after]
        distance = self.runs[after] - self.runs[before + 1] + 1
        return int(distance[same].min()) if same.any() else None

    @cached_property
    def elements(self) -> int:
        """Products per step and lane."""
        op = self.op
        on = 4 - sum(op.idle_multipliers)
        return max(1, on // ((2 if op.a16 else 1) * (2 if op.c16 else 1)))

    def run_of(self, step: int) -> int:
        """Number of the run that a step belongs to."""
        return int(np.searchsorted(self.runs, step, side="right")) - 1

    def written(self, step: int) -> int:
        """How many output words are complete before a step."""
        if step >= self.steps:
            return int(self.words[-1])
        return int(self.words[self.run_of(step)])

    # What computing needs, and nothing else.

    @cached_property
    def input_bytes(self) -> int:
        """Bytes of A per step."""
        return self.elements * (2 if self.op.a16 else 1)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of C per step and lane."""
        return self.elements * (2 if self.op.c16 else 1)

    @cached_property
    def a_words(self) -> Array | None:
        """Word address of each step if A consists of whole words, else None."""
        if self.a is None or self.input_bytes != 4 or np.any(self.a & 3):
            return None
        return self.a >> 2

    @cached_property
    def whole_rows(self) -> bool:
        """Whether each step uses all bytes of its lanes."""
        return self.weight_bytes == 4 and not np.any(self.c & 3)

    @cached_property
    def limits(self) -> tuple[np.float32, np.float32]:
        """Range of the outputs, rounded and with their zero point."""
        op = self.op
        top = np.float32(0xFFFF if op.output16 else 0xFF)
        if op.nlu:
            return np.float32(0), top
        zero = np.float32(op.output_zero_point)
        low, high = rounded(np.array([op.minimum, op.maximum], np.float32)) + zero
        return np.clip(low, 0, top), np.clip(high, 0, top)

    @cached_property
    def spans(self) -> tuple[list[int], list[bool]]:
        """Where spans end, in runs, and which of them share their weights.

        Runs of a span have one size, block and part of a reduction, and sums of their own, so
        that they can be computed together. Either they use the same weights, or each its own.
        """
        count = len(self.runs) - 1
        size = np.diff(self.runs)
        cut = np.diff(size) != 0
        for kind in (self.blocks, self.first, self.last):
            cut |= kind[1:] != kind[:-1]
        cut[_repeats(self, cut)] = True
        turn = np.ones(count - 1, bool)
        bounds = [0, *(np.flatnonzero(np.diff(size)) + 1).tolist(), count]
        for begin, end in pairwise(bounds):
            weights = self.c[self.runs[begin] : self.runs[end]].reshape(end - begin, -1)
            turn[begin : end - 1] = (weights[1:] != weights[:-1]).any(axis=1)
        # Parts with the same weights; those of single runs go together.
        ends = np.append(np.flatnonzero(cut | turn) + 1, count)
        single = np.diff(ends, prepend=0) == 1
        joins = single[:-1] & single[1:] & ~cut[ends[:-1] - 1]
        kept = np.append(~joins, True)
        return ends[kept].tolist(), (~single[kept]).tolist()

    def span_of(self, run: int) -> tuple[int, bool]:
        """Where the span of a run ends, and whether its runs use the same weights."""
        ends, shared = self.spans
        index = bisect_right(ends, run)
        return ends[index], shared[index]

    def joined(self, one: Array, other: Array) -> Array:
        """What becomes of two parts of a sum; the second is written over."""
        join = np.maximum if self.op.op is Opcode.MAX else np.add
        return np.asarray(join(one, other, out=other))


def _repeats(plan: OpPlan, cut: Array) -> list[int]:
    """Where spans must be cut so that no two runs of one add to the same sum, in runs less 1."""
    if plan.d is None:
        return []
    rows = plan.d[plan.runs[:-1]]
    order = np.argsort(rows, kind="stable")
    again = np.flatnonzero(rows[order[1:]] == rows[order[:-1]])
    before = np.full(len(rows), -1)
    before[order[again + 1]] = order[again]
    begins = np.maximum.accumulate(np.where(np.append(True, cut), np.arange(len(rows)), 0))
    cuts: list[int] = []
    last = 0
    for run in np.flatnonzero(before >= begins).tolist():
        if before[run] >= max(last, begins[run]):
            cuts.append(run - 1)
            last = run
    return cuts


def plan(op: TensorOp) -> OpPlan:
    """The element order of a tensor operation.

    Raises:
        SimulationError: operands whose steps are not those of the loops.
        CapacityError: the budget has no room for so many steps.
    """
    space = loops(op.loops, op.loop_part, op.loop_part_dim)
    budget.demand(
        space.steps * _STEP_BYTES, f"the order of a tensor operation of {space.steps} steps"
    )
    walk = Order(space)
    steps = len(walk)
    c = _operand(op, "c", steps)
    d = None if op.accumulate else _operand(op, "d", steps)
    if d is not None:
        # The place in the reduction as one number, largest in its last step.
        reduced = [k for k in range(len(op.loops)) if op.reduction >> k & 1]
        # The last chunk of the innermost loop may also be longer than the others.
        inner = max(op.loops[0], op.loop_part) if op.loop_part_dim else op.loops[0]
        factors = _mixed((inner, *op.loops[1:]), reduced)
        place = _weighted(space, factors)
        first = place == 0
        last = place == sum(factors[k] * (op.loops[k] - 1) for k in reduced)
        # Outputs of several blocks may have one position.
        runs = np.concatenate([[0], np.flatnonzero((np.diff(d) != 0) | last[:-1]) + 1, [steps]])
        # A run holds whole passes over the inner reduction loops only if it begins and ends one.
        begins, ends = first[runs[:-1]], last[runs[1:] - 1]
    else:
        runs = np.array([0, steps], np.int64)
        if op.d is not None and op.d.fifo_step:
            runs = np.append(as_array(sequence(op.d).begins(op.d.fifo_dim)), steps)
        begins = ends = np.ones(len(runs) - 1, bool)
    blocks, count = np.zeros(len(runs) - 1, np.int64), 1
    # Blocks do not matter to an operation that has nothing of its own for each.
    if (
        op.zero_points_in_memory
        or op.bias_in_memory
        or op.scale_in_memory
        or op.lanes != op.lanes_last
    ):
        outer = range(op.block_level, len(op.loops))
        kept = [k for k in outer if d is None or not op.reduction >> k & 1]
        count = math.prod([op.loops[k] for k in kept])
        if count > 1:
            blocks = _weighted(space, _mixed(op.loops, kept))[runs[:-1]]
    lanes = np.where(blocks == count - 1, op.lanes_last, op.lanes)
    size = -(-lanes * (2 if op.output16 else 1) // 4)
    words = np.concatenate([[0], np.cumsum(np.where(ends, size, 0))])
    b = sequence(op.b) if op.b is not None else None
    addresses = np.zeros(0, np.int64) if b is None else b.addresses
    if len(addresses) != words[-1]:
        if len(addresses) > 1:
            raise SimulationError(
                f"a tensor operation has room for {len(addresses)} output words",
                reason=f"it makes {words[-1]}",
            )
        # Sums that only stay in wide memory.
        addresses = np.zeros(0, np.int64)
        words = np.zeros_like(words)
    if len(addresses) and (np.any(addresses & 3) or _outside(addresses >> 2, NARROW_WORDS)):
        raise SimulationError("a tensor operation writes outside narrow memory")
    if _outside(c >> 2, WIDE_ROWS) or (d is not None and _outside(d >> 2, WIDE_ROWS)):
        raise SimulationError("a tensor operation uses rows outside wide memory")
    a = _operand(op, "a", steps) if op.op is Opcode.MAC else None
    found = OpPlan(
        op,
        steps,
        gates((watcher, walk) for watcher in op.wait),
        a,
        c,
        d,
        runs,
        blocks,
        begins,
        ends,
        words,
        addresses >> 2,
        _ends(b, op.avdata.level) if op.avdata and op.avdata.valid else None,
        _parameter_ends(op, walk),
    )
    if a is not None and _outside(
        np.array([a.min(), a.max() + found.input_bytes - 1]) >> 2, NARROW_WORDS
    ):
        raise SimulationError("a tensor operation reads outside narrow memory")
    if op.op is not Opcode.MAX and int((c & 3).max()) + found.weight_bytes > 4:
        raise SimulationError("a tensor operation reads beyond a lane of wide memory")
    return found


def _mixed(counts: tuple[int, ...], dims: list[int]) -> list[int]:
    """Factors of all loops that make one number of the indices of some, innermost first."""
    factors, product = [0] * len(counts), 1
    for k in dims:
        factors[k] = product
        product *= counts[k]
    return factors


def _weighted(space: Traversal, factors: list[int]) -> Array:
    """Sum of the indices of loops times factors for each step."""
    dims = tuple(Dim(dim.count, factor) for dim, factor in zip(space.dims, factors, strict=True))
    return replace(space, dims=dims).addresses()


def _operand(op: TensorOp, name: str, steps: int) -> Array:
    """Address of an operand for each step."""
    traversal = getattr(op, name)
    if traversal is None:
        return np.zeros(steps, np.int64)
    found = sequence(traversal).addresses
    if len(found) not in (1, steps):
        raise SimulationError(
            f"operand {name} of a tensor operation has {len(found)} steps",
            reason=f"its loops have {steps}",
        )
    return found if len(found) == steps else np.full(steps, found[0])


def _ends(walk: Sequence | None, level: int) -> Numbers | None:
    return None if walk is None else walk.ends(level)


def _parameter_ends(op: TensorOp, walk: Order) -> Numbers | None:
    if op.parameters is None or not op.parameters.valid:
        return None
    own = walk if op.c is None else Order(op.c)
    # A single address stands for all steps.
    return own.ends(op.parameters.level) if len(own) == len(walk) else [len(walk)]


def _outside(numbers: Array, count: int) -> bool:
    return bool(len(numbers)) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count
