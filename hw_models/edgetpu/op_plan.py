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
        d: quarter row of each step, where partial sums are in memory.
        runs: bounds of the steps that make one sum.
        blocks: number of the output block of each run.
        first: whether each run begins the sum of its position; all do unless sums are in memory.
        last: whether each run completes an output.
        words: bounds of each run's output words among those of B.
        avdata: positions in output words at which AVDATA counts.
        parameters: positions in steps at which PARAMETERS counts.
    """

    op: TensorOp
    steps: int
    gates: tuple[Gate, ...]
    d: Array | None
    runs: Array
    blocks: Array
    first: Array
    last: Array
    words: Array
    avdata: Numbers | None
    parameters: Numbers | None

    # Addresses, which matter to what is computed but not to when.

    @cached_property
    def a(self) -> Array | None:
        """Byte address of each step, None for MAX and SUM."""
        return _operand(self.op, "a", self.steps) if self.op.op is Opcode.MAC else None

    @cached_property
    def b(self) -> Array:
        """Word address of each output word; empty if nothing is written."""
        if self.op.b is None or not self.words[-1]:
            return np.zeros(0, np.int64)
        return sequence(self.op.b).addresses >> 2

    @cached_property
    def c(self) -> Array:
        """Quarter row of each step."""
        return _operand(self.op, "c", self.steps)

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
    for name in ("a", "c") if op.op is Opcode.MAC else ("c",):
        _demand_steps(op, name, steps)
    d = None
    if not op.accumulate:
        _demand_steps(op, "d", steps)
        d = _operand(op, "d", steps)
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
            runs = np.append(as_array(Order(op.d).begins(op.d.fifo_dim)), steps)
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
    room = 0 if op.b is None else op.b.steps
    if room != words[-1]:
        if room > 1:
            raise SimulationError(
                f"a tensor operation has room for {room} output words",
                reason=f"it makes {words[-1]}",
            )
        # Sums that only stay in wide memory.
        words = np.zeros_like(words)
    found = OpPlan(
        op,
        steps,
        gates((watcher, walk) for watcher in op.wait),
        d,
        runs,
        blocks,
        begins,
        ends,
        words,
        Order(op.b).ends(op.avdata.level) if op.b and op.avdata and op.avdata.valid else None,
        _parameter_ends(op, walk),
    )
    _check_addresses(found)
    return found


def _check_addresses(plan: OpPlan) -> None:
    """Refuse operands outside the memories.

    Loops tell most of what addresses are, which are made only if that is not enough.

    Raises:
        SimulationError: names the memory.
    """
    op = plan.op
    sure = op.b is None or (_whole(op.b) and _inside(op.b, 4, NARROW_WORDS))
    if op.b is not None and plan.words[-1] and not sure:
        words = sequence(op.b).addresses
        if np.any(words & 3) or _outside(words >> 2, NARROW_WORDS):
            raise SimulationError("a tensor operation writes outside narrow memory")
    rows = op.c is None or _inside(op.c, 4, WIDE_ROWS) or not _outside(plan.c >> 2, WIDE_ROWS)
    if not rows or (plan.d is not None and _outside(plan.d >> 2, WIDE_ROWS)):
        raise SimulationError("a tensor operation uses rows outside wide memory")
    if op.op is Opcode.MAC:
        last = plan.input_bytes - 1
        if op.a is not None and not _inside(op.a, 4, NARROW_WORDS, last) and plan.a is not None:
            ends = np.array([plan.a.min(), plan.a.max() + last])
            if _outside(ends >> 2, NARROW_WORDS):
                raise SimulationError("a tensor operation reads outside narrow memory")
    if op.op is not Opcode.MAX:
        within = 0 if op.c is None or _whole(op.c) else int((plan.c & 3).max())
        if within + plan.weight_bytes > 4:
            raise SimulationError("a tensor operation reads beyond a lane of wide memory")


def _inside(walk: Traversal, size: int, count: int, more: int = 0) -> bool:
    """Whether addresses surely lie in elements of a size, of which there are some.

    Args:
        walk: the addresses.
        size: addresses of an element.
        count: number of elements.
        more: addresses that are used after the last one.
    """
    low, high = walk.extent
    return low >= 0 and high + more < size * count


def _whole(walk: Traversal) -> bool:
    """Whether addresses surely are multiples of 4."""
    steps = [dim.stride for dim in walk.dims if dim.count > 1]
    return not (walk.base & 3 or walk.fifo_step & 3 or any(step & 3 for step in steps))


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


def _demand_steps(op: TensorOp, name: str, steps: int) -> None:
    """Refuse an operand that has other steps than the loops."""
    traversal = getattr(op, name)
    if traversal is not None and traversal.steps not in (1, steps):
        raise SimulationError(
            f"operand {name} of a tensor operation has {traversal.steps} steps",
            reason=f"its loops have {steps}",
        )


def _operand(op: TensorOp, name: str, steps: int) -> Array:
    """Address of an operand for each step, which it has as many of as the loops, or one."""
    traversal = getattr(op, name)
    if traversal is None:
        return np.zeros(steps, np.int64)
    found = sequence(traversal).addresses
    return found if len(found) == steps else np.full(steps, found[0])


def _parameter_ends(op: TensorOp, walk: Order) -> Numbers | None:
    if op.parameters is None or not op.parameters.valid:
        return None
    own = walk if op.c is None else Order(op.c)
    # A single address stands for all steps.
    return own.ends(op.parameters.level) if len(own) == len(walk) else [len(walk)]


def _outside(numbers: Array, count: int) -> bool:
    return bool(len(numbers)) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count
