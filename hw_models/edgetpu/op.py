"""The op engine: tensor operations and the non-linear unit.

A tensor operation walks its loops; each step multiplies up to four elements of A with those of
every lane of C. Steps are computed in bursts, for all tiles that are at the same place at once, as
matrix products in floating point that are exact, because all sums fit the mantissa. Sums stay
floating-point numbers that hold integers until they are written.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.memory import (
    LANES,
    NARROW_WORDS,
    TILES,
    WIDE_ROWS,
    TileMemory,
    Tiles,
    count_of,
    crossing,
    selection,
)
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.edgetpu.sequence import (
    Gate,
    Numbers,
    Sequence,
    gates,
    loops,
    places,
    sequence,
    stretch,
)
from fitzroy.hw_models.edgetpu.unknown import KNOWN, by_byte, by_word, whole
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp
from fitzroy.hw_models.isa.traversal import Dim, Traversal

_EXACT_F32 = 1 << 24
"""Integers up to here are exact in single precision."""

_LARGEST_BYTE = 0xFF
_SLOT_ENTRIES = LANES // 2
"""Entries of scaling memory for the lanes of one block; two slots of scales, then of biases."""

_BIAS_ENTRY = 2 * _SLOT_ENTRIES

_SINGLE_THREAD = 1 << 18
"""Most terms of one matrix product; OpenBLAS shares larger ones among threads, which costs more
than it saves here, and far more where other processes run."""

_FEW_RUNS = 64
"""Matrix products are slow with fewer rows than this."""

_TOLD_APART = 3
"""Origins of unknown elements in a burst that are told apart; all others count as the last."""

_STEP_BYTES = 64
"""Bytes of a step while an operation is planned and computed: 8 for each operand, and copies."""

_BURST_BYTES = 1 << 20
"""Bytes of A, C or sums that are computed with at a time: what a processor's caches hold."""


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
    walk = sequence(space)
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
            runs = np.append(sequence(op.d).begins(op.d.fifo_dim), steps)
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
        blocks = _weighted(space, _mixed(op.loops, kept))[runs[:-1]]
        count = math.prod(op.loops[k] for k in kept)
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
    return None if walk is None else places(walk.ends(level))


def _parameter_ends(op: TensorOp, walk: Sequence) -> Numbers | None:
    if op.parameters is None or not op.parameters.valid:
        return None
    own = walk if op.c is None else sequence(op.c)
    # A single address stands for all steps.
    return places(own.ends(op.parameters.level)) if len(own) == len(walk) else [len(walk)]


def _outside(numbers: Array, count: int) -> bool:
    return bool(len(numbers)) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count


@dataclass(slots=True)
class _Factors:
    """Weights of some steps: a set for each tile, or for each tile and image unless images share.

    Attributes:
        values: weights minus zero points, float32 or float64[sets, terms, lanes], integers.
        known: their marks, int16[tiles, terms, lanes], None if all of them are known.
        offset: what the zero point of A adds to sums, float64[sets, lanes], None for nothing.
    """

    values: Array
    known: Array | None = None
    offset: Array | None = None


@dataclass(slots=True)
class _Sums:
    """Sums of some runs, which are `values` and `offset` together.

    Attributes:
        values: float32 or float64[tiles, images * runs, lanes], integers.
        offset: float64[tiles, lanes], integers; None for 0.
        known: marks, int16[tiles, runs, lanes], None if all of them are known.
    """

    values: Array
    offset: Array | None = None
    known: Array | None = None


@dataclass(slots=True)
class _Left:
    """A sum in memory that a run has left.

    Attributes:
        row: its wide row.
        last: the last step of the run.
        words: uint32[lanes] that were there before.
        known: bool[lanes], which of them are known.
    """

    row: int
    last: int
    words: Array
    known: Array


class OpUnit:
    """Computes tensor operations on the memories of the tiles.

    Args:
        memory: the memories.
        late: steps that a partial sum takes to wide memory.
    """

    def __init__(self, memory: TileMemory, late: int = 0) -> None:
        self._memory = memory
        self._late = late
        # Sums of each tile that may not have arrived in memory, the last one at the end.
        self._left: list[list[_Left]] = [[] for _ in range(TILES)]
        # Sums of the reduction that a tile is in the middle of.
        self._open = np.zeros((TILES, memory.images, LANES), np.float64)
        self._open_known = np.full((TILES, LANES), KNOWN, np.int16)

    def load_table(self, table: NluTable, tiles: Array) -> None:
        """Load the function of the non-linear unit."""
        memory = self._memory
        memory.tables[tiles] = np.array(table.coefficients, np.float32)
        memory.breakpoints[tiles] = np.array(table.breakpoints, np.float32)
        memory.table_known[tiles] = True

    def compute(self, plan: OpPlan, tiles: Array, begin: int, end: int) -> None:
        """Do the steps from `begin` up to `end` on all of the tiles.

        Raises:
            SimulationError: a read of memory that nothing has written.
        """
        where = selection(tiles)
        run = plan.run_of(begin)
        step = begin
        late = self._late > 0 and plan.nearest is not None and plan.nearest <= self._late
        if begin == 0:
            for tile in tiles:
                self._left[tile].clear()
        while step < end:
            first, stop = int(plan.runs[run]), int(plan.runs[run + 1])
            if late and step == first:
                self._leave(plan, tiles, run)
            if late or step != first or stop > end:
                piece = min(stop, end)
                factors = self._factors(plan, where, step, piece, int(plan.blocks[run]))
                sums = self._sums(plan, where, step, piece, 1, factors)
                self._add(plan, where, run, sums, step == first, piece == stop)
                step, run = piece, run + (piece == stop)
                continue
            last, shared = plan.span_of(run)
            if end < plan.steps:
                last = min(last, plan.run_of(end))
            self._whole_runs(plan, where, run, last, shared or last - run == 1)
            step, run = int(plan.runs[last]), last

    def _whole_runs(self, plan: OpPlan, tiles: Tiles, run: int, last: int, shared: bool) -> None:
        """Do the runs of a span, or some of them, as many at a time as is good."""
        runs, block = plan.runs, int(plan.blocks[run])
        size = int(runs[run + 1]) - int(runs[run])
        # Runs with weights of their own take a row per step, others a word.
        words = size if shared else size * LANES
        count = self._memory.images * count_of(tiles)
        most = max(1, _BURST_BYTES // (count * 4 * max(words, plan.op.lanes)))
        factors = None
        if shared:
            begin = int(runs[run])
            factors = self._factors(plan, tiles, begin, begin + size, block)
        while run < last:
            stop = min(last, run + most)
            begin, end = int(runs[run]), int(runs[stop])
            if factors is not None:
                sums = self._sums(plan, tiles, begin, end, stop - run, factors)
            else:
                sums = self._different(plan, tiles, begin, end, stop - run, block)
            if plan.d is not None:
                self._spill(plan, tiles, run, sums, opens=bool(plan.first[run]))
            elif plan.last[run]:
                self._write(plan, tiles, run, sums.values, sums.offset, sums.known)
            run = stop

    def _factors(self, plan: OpPlan, tiles: Tiles, begin: int, end: int, block: int) -> _Factors:
        """Weights in a precision in which sums with them are exact, and the offset of sums."""
        w, known = self._weights(plan, tiles, begin, end, block)
        if plan.a is None:
            return _Factors(w, known)
        # Few terms cannot leave the mantissa; for more the weights decide.
        if w.dtype == np.float32 and w.shape[1] * _LARGEST_BYTE**2 > _EXACT_F32:
            largest = float(np.abs(w).sum(axis=1).max())
            if largest * _LARGEST_BYTE > _EXACT_F32:
                w = w.astype(np.float64)
        # The zero point of A takes part once per lane, not once per element.
        zero = plan.op.a_zero_point
        return _Factors(w, known, w.sum(axis=1, dtype=np.float64) * -zero if zero else None)

    def _sums(
        self,
        plan: OpPlan,
        tiles: Tiles,
        begin: int,
        end: int,
        count: int,
        factors: _Factors,
    ) -> _Sums:
        """Sums of `count` equal runs that use the same weights."""
        w = factors.values
        own = count_of(tiles)
        if plan.a is None:
            values = np.maximum if plan.op.op is Opcode.MAX else np.add
            each = own * self._memory.images // len(w)
            found = values.reduce(w, axis=1, keepdims=True).repeat(each * count, axis=1)
            known = factors.known
            if known is not None:
                known = known.min(axis=1, keepdims=True).repeat(count, axis=1)
            return _Sums(found.reshape(own, -1, found.shape[2]), None, known)
        inputs = self._inputs(plan, tiles, begin, end)
        x = inputs.reshape(len(w), -1, w.shape[1])
        known = self._known(plan, tiles, begin, end, x, factors, count)
        sums, offset = _products(x, w), factors.offset
        if len(w) > own and offset is not None:
            # Images have offsets of their own; integers of float64 are exact.
            sums, offset = sums + offset[:, None], None
        return _Sums(sums.reshape(own, -1, sums.shape[2]), offset, known)

    def _different(
        self, plan: OpPlan, tiles: Tiles, begin: int, end: int, count: int, block: int
    ) -> _Sums:
        """Sums of runs each with weights of its own."""
        own, images = count_of(tiles), self._memory.images
        w, sure = self._weights(plan, tiles, begin, end, block)
        lanes = w.shape[2]
        # Without an axis of images of their own, weights are those of all.
        w = w.reshape(own, -1, count, w.shape[1] // count, lanes)
        if sure is not None:
            sure = sure.reshape(own, count, -1, lanes)
        if plan.a is None:
            values = np.maximum if plan.op.op is Opcode.MAX else np.add
            found = values.reduce(w, axis=3)
            found = found.repeat(images // found.shape[1], axis=1)
            known = None if sure is None else sure.min(axis=2)
            return _Sums(found.reshape(own, -1, lanes), None, known)
        inputs = self._inputs(plan, tiles, begin, end).reshape(own, images, *w.shape[2:4])
        known = self._known(plan, tiles, begin, end, inputs, _Factors(w, sure), count)
        x = inputs[..., None].astype(w.dtype)
        x -= plan.op.a_zero_point
        x = x * w
        x = x[:, :, :, 0] if x.shape[3] == 1 else x.sum(axis=3, dtype=np.float64)
        return _Sums(x.reshape(own, -1, lanes), None, known)

    def _input_marks(self, plan: OpPlan, tiles: Tiles, begin: int, end: int) -> Array | None:
        """Marks of the elements of A, int16[tiles, steps, elements], None if all are known."""
        assert plan.a is not None
        memory, addresses = self._memory, plan.a[begin:end]
        low, high = int(addresses.min()) >> 2, int(addresses.max()) + plan.input_bytes - 1 >> 2
        if memory.narrow_known[tiles, low : high + 1].min() == KNOWN:
            return None
        places = addresses[:, None] + np.arange(plan.input_bytes)
        words = np.unique(places >> 2)
        marks = _taken(memory.narrow_known, tiles, words)
        if marks.min() == KNOWN:
            return None
        marks = by_byte(memory.marked("narrow", tiles, words, marks)).reshape(len(marks), -1)
        held = 4 * np.searchsorted(words, places >> 2) + (places & 3)
        found = marks[:, held].reshape(len(marks), len(held), plan.elements, -1)
        return np.asarray(found.min(axis=3))

    def _known(
        self,
        plan: OpPlan,
        tiles: Tiles,
        begin: int,
        end: int,
        x: Array,
        factors: _Factors,
        count: int,
    ) -> Array | None:
        """Marks of sums of products, int16[tiles, runs, lanes], None if all are known.

        What is multiplied by zero, because it equals its zero point, does not matter.

        Args:
            plan: the operation.
            tiles: its tiles.
            begin: first step.
            end: one past the last step.
            x: elements of A of these steps, of all images.
            factors: weights that all runs share, or those of each run.
            count: number of runs.
        """
        marks = self._input_marks(plan, tiles, begin, end)
        if marks is None and factors.known is None:
            return None
        w, sure = factors.values, factors.known
        own, images = count_of(tiles), self._memory.images
        # Runs that share their weights, or each with its own: four axes with that of images.
        lanes, terms = w.shape[-1], w.shape[-2]
        groups = count if w.ndim == 5 else 1
        shape = (own, groups, count // groups, terms)
        # What matters for one image matters for all.
        x = (x.reshape(own, images, -1) != plan.op.a_zero_point).any(axis=1).reshape(shape)
        found = np.full((own, count, lanes), KNOWN, np.int16)
        used = (w != 0).reshape(own, -1, groups, terms, lanes).any(axis=1)
        if marks is not None:
            marks = marks.reshape(shape)
            x |= marks != KNOWN
        if sure is not None:
            sure = sure.reshape(used.shape)
            _doubt(found, sure, lambda doubtful: (x, doubtful))
            used |= sure != KNOWN
        if marks is not None:
            _doubt(found, marks, lambda doubtful: (doubtful, used))
        return None if found.min() == KNOWN else found

    def _inputs(self, plan: OpPlan, tiles: Tiles, begin: int, end: int) -> Array:
        """Elements of A, uint8 or uint16[tiles * images, steps * elements]."""
        assert plan.a is not None
        memory, size = self._memory, plan.input_bytes
        tiles = memory.held(tiles)
        if plan.a_words is not None:
            data = _taken(memory.narrow, tiles, plan.a_words[begin:end]).view(np.uint8)
        else:
            places = (plan.a[begin:end, None] + np.arange(size)).reshape(-1)
            data = _taken(memory.narrow_bytes, tiles, places)
        return data.view("<u2") if plan.op.a16 else data

    def _weights(
        self, plan: OpPlan, tiles: Tiles, begin: int, end: int, block: int
    ) -> tuple[Array, Array | None]:
        """Elements of C minus zero points, float32 or float64[sets, steps * elements, lanes].

        All of them are integers; see `_Factors` for the sets. The second result has their marks,
        int16[tiles, steps * elements, lanes], None if all are known.
        """
        op, memory = plan.op, self._memory
        lanes = op.lanes_last if block == plan.blocks[-1] else op.lanes
        rows = stretch(plan.c[begin:end] >> 2)
        place = (*crossing(tiles, rows), slice(lanes))
        shared = memory.shares(tiles, rows, lanes) and not (
            op.zero_points_in_memory and not memory.shares(tiles, _zero_point_rows(op), lanes)
        )
        where = memory.of_first_image(tiles) if shared else memory.held(tiles)
        held = memory.wide_bytes.reshape(-1, WIDE_ROWS, LANES, 4)
        data = held[(*crossing(where, rows), slice(lanes))]
        if not plan.whole_rows:
            # A maximum walks over the bytes of a lane with all four elements on: the same bytes
            # again do not matter, and nothing tells whether the hardware takes others.
            places = ((plan.c[begin:end, None] & 3) + np.arange(plan.weight_bytes)) % 4
            index = np.broadcast_to(places[None, :, None], (*data.shape[:3], places.shape[1]))
            data = np.take_along_axis(data, index, 3)
        if op.c16:
            data = np.ascontiguousarray(data).view("<u2")
        known = self._weight_marks(plan, tiles, begin, end, memory.wide_known[place])
        zero: Array | int = op.c_zero_point
        if op.op is Opcode.MAX:
            zero = 0
        elif op.zero_points_in_memory:
            zero, sure = self._zero_points(op, tiles, where, lanes, block)
            if sure is not None:
                shape = (len(sure), data.shape[1] * data.shape[3], lanes)
                known = np.minimum(KNOWN if known is None else known, sure[:, None])
                known = np.broadcast_to(known, shape)
        # Sums of products of bytes fit single precision if there are not too many.
        small = not (op.a16 or op.c16) and np.abs(zero).max() <= _LARGEST_BYTE
        single = small and op.op is not Opcode.SUM
        values = np.empty((*data.shape[:2], data.shape[3], lanes), "f4" if single else "f8")
        values[...] = data.swapaxes(2, 3)
        values -= zero
        return values.reshape(len(values), -1, lanes), known

    def _weight_marks(
        self, plan: OpPlan, tiles: Tiles, begin: int, end: int, known: Array
    ) -> Array | None:
        """Marks of the elements of C, int16[tiles, steps * elements, lanes], None if all are known.

        Args:
            plan: the operation.
            tiles: its tiles.
            begin: first step.
            end: one past the last step.
            known: marks of the lanes, int16[tiles, steps, lanes].
        """
        if known.min() == KNOWN:
            return None
        count, lanes = known.shape[0], known.shape[2]
        cells = (plan.c[begin:end, None] >> 2) * LANES + np.arange(lanes)
        flat = known.reshape(count, -1)
        marks = by_byte(self._memory.marked("wide", tiles, cells.reshape(-1), flat))
        marks = marks.reshape(*known.shape, 4)
        places = ((plan.c[begin:end, None] & 3) + np.arange(plan.weight_bytes)) % 4
        where = np.broadcast_to(places[None, :, None], (*known.shape, plan.weight_bytes))
        marks = np.take_along_axis(marks, where, 3)
        marks = marks.reshape(*known.shape, plan.elements, -1).min(axis=4)
        marks = marks.swapaxes(2, 3).reshape(count, -1, lanes)
        return None if marks.min() == KNOWN else marks

    def _zero_points(
        self, op: TensorOp, tiles: Tiles, where: Tiles, lanes: int, block: int
    ) -> tuple[Array, Array | None]:
        """Zero points of C for a block, int32[sets, 1, 1, lanes], and marks[tiles, lanes].

        Args:
            op: the operation.
            tiles: its tiles.
            where: index of the sets of weights, see `_Factors`.
            lanes: how many lanes there are.
            block: number of the block.
        """
        memory = self._memory
        rows = range(WIDE_ROWS)[_zero_point_rows(op)]
        row = rows[block % len(rows)]
        known = memory.wide_known[tiles, row, :lanes]
        sure = None
        if known.min() != KNOWN:
            sure = whole(memory.marked("wide", tiles, row * LANES + np.arange(lanes), known))
        return memory.wide[where, row, :lanes].view(np.int32)[:, None, None], sure

    def _add(
        self, plan: OpPlan, tiles: Tiles, run: int, sums: _Sums, opens: bool, closes: bool
    ) -> None:
        """Take the sums of a part of a run."""
        if plan.d is not None:
            opens = opens and bool(plan.first[run])
            self._spill(plan, tiles, run, sums, opens=opens, closes=closes)
            return
        lanes = sums.values.shape[2]
        # One run: what is left are images.
        total = sums.values.astype(np.float64)
        if sums.offset is not None:
            total += sums.offset[:, None]
        shape = (len(total), lanes)
        sure = np.full(shape, KNOWN, np.int16) if sums.known is None else sums.known[:, 0]
        if not opens:
            total = plan.joined(self._open[tiles, :, :lanes], total)
            sure = np.minimum(sure, self._open_known[tiles, :lanes])
        if closes:
            known = None if sure.min() == KNOWN else sure[:, None]
            self._write(plan, tiles, run, total, None, known)
        else:
            self._open[tiles, :, :lanes] = total
            self._open_known[tiles, :lanes] = sure

    def _spill(
        self,
        plan: OpPlan,
        tiles: Tiles,
        run: int,
        sums: _Sums,
        *,
        opens: bool,
        closes: bool = True,
    ) -> None:
        """Add sums to those in wide memory, and write the outputs that are complete."""
        assert plan.d is not None
        memory = self._memory
        lanes = sums.values.shape[2]
        count = sums.values.shape[1] // memory.images
        rows = stretch(plan.d[plan.runs[run : run + count]] >> 2)
        place = (*crossing(tiles, rows), slice(lanes))
        held = (*crossing(memory.held(tiles), rows), slice(lanes))
        total, known = _int32(sums), sums.known
        if not opens:
            sure: Array = np.asarray(memory.wide_known[place])
            if sure.min() != KNOWN:
                cells = (plan.d[plan.runs[run : run + count], None] >> 2) * LANES
                cells = (cells + np.arange(lanes)).reshape(-1)
                flat = memory.marked("wide", tiles, cells, sure.reshape(len(sure), -1))
                sure = whole(flat).reshape(sure.shape)
                known = sure if known is None else np.minimum(known, sure)
            before = memory.wide[held].view(np.int32)
            total = plan.joined(before.reshape(total.shape), total)
        memory.wide[held] = total.view(np.uint32).reshape(-1, count, lanes)
        if memory.images > 1:
            memory.wide_shared[crossing(tiles, rows)] = 0
        memory.wide_known[place] = KNOWN if known is None else known
        if closes and plan.last[run]:
            self._write(plan, tiles, run, total, None, known)

    def _leave(self, plan: OpPlan, tiles: Array, run: int) -> None:
        """Put back what is in memory when a run takes up a sum that is still on its way there.

        The run adds to that, and what was on its way is lost.
        """
        assert plan.d is not None
        memory = self._memory
        begin, last = int(plan.runs[run]), int(plan.runs[run + 1]) - 1
        row = int(plan.d[begin]) >> 2
        for tile in tiles.tolist():
            place = tile, row
            recent = [left for left in self._left[tile] if begin - left.last <= self._late]
            missed = [left for left in recent if left.row == row]
            if missed and not plan.first[run]:
                memory.wide[place] = missed[0].words
                memory.wide_known[place] = missed[0].known
            held = memory.wide[place].copy(), memory.wide_known[place].copy()
            self._left[tile] = [*recent, _Left(row, last, *held)]

    def _write(
        self,
        plan: OpPlan,
        tiles: Tiles,
        run: int,
        sums: Array,
        offset: Array | None,
        known: Array | None,
    ) -> None:
        """The output stage: scale, clamp, function, rounding, and the words of the outputs."""
        if not len(plan.b):
            return
        memory = self._memory
        lanes = sums.shape[2]
        count = sums.shape[1] // memory.images
        slot = int(plan.blocks[run]) & 1
        # Sums of what nothing has written, which programs do not use, may be anything.
        with np.errstate(over="ignore", invalid="ignore"):
            codes = self._codes(plan, tiles, sums, offset, slot)
        known = self._stage_marks(plan.op, tiles, known, slot, (len(sums), count, lanes))
        first, size = int(plan.words[run]), int(plan.words[run + 1] - plan.words[run])
        if codes.itemsize * lanes != 4 * size:
            padded = np.zeros((*codes.shape[:2], 4 * size // codes.itemsize), codes.dtype)
            padded[..., :lanes] = codes
            codes = padded
        words = codes.view("<u4").reshape(len(codes), -1)
        places = stretch(plan.b[first : first + count * size])
        memory.narrow[crossing(memory.held(tiles), places)] = words
        memory.narrow_known[crossing(tiles, places)] = (
            KNOWN if known is None else _word_marks(known, size, 2 if plan.op.output16 else 1)
        )

    def _stage_marks(
        self, op: TensorOp, tiles: Tiles, known: Array | None, slot: int, shape: tuple[int, ...]
    ) -> Array | None:
        """Marks of outputs: those of their sums, scales, biases and function.

        Args:
            op: the operation.
            tiles: its tiles.
            known: marks of the sums, None if all are known.
            slot: slot of scaling memory.
            shape: tiles, runs and lanes.
        """
        memory, lanes = self._memory, shape[2]
        entries = [_BIAS_ENTRY + _SLOT_ENTRIES * slot] if op.bias_in_memory else []
        entries += [_SLOT_ENTRIES * slot] if op.scale_in_memory else []
        for entry in entries:
            place = slice(2 * entry, 2 * entry + lanes)
            sure = memory.scaling_known.reshape(TILES, -1)[tiles, place]
            if sure.min() != KNOWN:
                sure = memory.marked("scaling", tiles, 2 * entry + np.arange(lanes), sure)
                sure = np.broadcast_to(whole(sure)[:, None], shape)
                known = sure if known is None else np.minimum(known, sure)
        return known

    def _codes(
        self, plan: OpPlan, tiles: Tiles, sums: Array, offset: Array | None, slot: int
    ) -> Array:
        """Outputs of sums: bias, scale, clamp, function and rounding.

        Returns:
            uint8 or uint16[tiles * images, runs, lanes].
        """
        op, lanes = plan.op, sums.shape[2]
        images, shape = self._memory.images, sums.shape
        sums = sums.reshape(len(sums) * images, -1, lanes)
        bias: Array | float = float(op.constant)
        if offset is not None:
            bias = bias + (offset if images == 1 else offset.repeat(images, axis=0))
        if op.bias_in_memory:
            found = self._scaling(tiles, _BIAS_ENTRY + _SLOT_ENTRIES * slot, lanes)
            bias = bias + found.view(np.int32).astype(np.float64)
        y = _biased(sums, bias)
        if op.scale_in_memory:
            scale = self._scaling(tiles, _SLOT_ENTRIES * slot, lanes)
            y *= scale.view(np.float32)[:, None]
        else:
            y *= np.float32(op.scale)
        if op.nlu:
            np.clip(y, np.float32(op.minimum), np.float32(op.maximum), out=y)
            y = self._function(op, tiles, y.reshape(shape)).reshape(y.shape)
        rounded(y, out=y)
        y += np.float32(op.output_zero_point)
        # Rounding and the zero point do not change order: both clamps become one.
        np.clip(y, *plan.limits, out=y)
        return y.astype("<u2" if op.output16 else np.uint8)

    def _scaling(self, tiles: Tiles, entry: int, lanes: int) -> Array:
        """Words of the scaling memory for some lanes, uint32[tiles * images, lanes]."""
        memory, place = self._memory, slice(2 * entry, 2 * entry + lanes)
        return memory.scaling.reshape(len(memory.scaling), -1)[memory.held(tiles), place]

    def _function(self, op: TensorOp, tiles: Tiles, y: Array) -> Array:
        """The non-linear unit: a polynomial per segment, in float32."""
        memory = self._memory
        if not memory.table_known[tiles].all():
            raise SimulationError("a tensor operation uses a function that was not loaded")
        exponent = None
        argument = y
        if op.nlu_odd:
            argument = np.abs(argument)
        if op.nlu_rsqrt:
            exponent = np.floor(np.log2(np.maximum(argument, np.finfo(np.float32).tiny)) / 2)
            argument = (argument * np.exp2(-2 * exponent)).astype(np.float32)
        result = np.empty_like(argument)
        for n, (bounds, table) in enumerate(
            zip(memory.breakpoints[tiles], memory.tables[tiles], strict=True)
        ):
            factors = table[np.searchsorted(bounds, argument[n], side="right")]
            value = factors[..., 4]
            for degree in (3, 2, 1, 0):
                value = value * argument[n] + factors[..., degree]
            result[n] = value
        if exponent is not None:
            result = (result * np.exp2(-exponent)).astype(np.float32)
        return np.where(y < 0, -result, result) if op.nlu_odd else result


def _zero_point_rows(op: TensorOp) -> slice:
    """Rows of wide memory that have zero points of C, used in turn by blocks."""
    step = op.zero_point_step
    span = op.zero_point_last - op.zero_point_base
    slots = max(1, span // step + 1) if step else 1
    return slice(op.zero_point_base, op.zero_point_base + (slots - 1) * step + 1, step or 1)


def _taken(memory: Array, tiles: Tiles, places: Array) -> Array:
    """Elements of some tiles at the same places, [tiles, places]."""
    # The numbers were checked when the operation was planned.
    if isinstance(tiles, slice):
        return np.asarray(memory[tiles].take(places, axis=1, mode="clip"))
    index = tiles[:, None] * memory.shape[1] + places
    return np.asarray(memory.reshape(-1).take(index, mode="clip"))


def _doubt(found: Array, marks: Array, terms: Callable[[Array], tuple[Array, Array]]) -> None:
    """Mark the sums that use unknown elements.

    Args:
        found: marks of the sums, int16[tiles, runs, lanes], which become unknown.
        marks: marks of the elements of one operand.
        terms: which elements of A, bool[tiles, groups, runs, terms], meet which of C,
            bool[tiles, groups, terms, lanes], given which elements of the operand are doubtful.
    """
    distinct = np.unique(marks[marks != KNOWN]).tolist()
    for rank, mark in enumerate(distinct[:_TOLD_APART]):
        last = rank == _TOLD_APART - 1
        x, w = terms((marks >= mark) & (marks != KNOWN) if last else marks == mark)
        hits = np.matmul(x.astype(np.float32), w.astype(np.float32)) > 0
        np.minimum(found, mark, out=found, where=hits.reshape(found.shape))


def _word_marks(known: Array, size: int, lane_bytes: int) -> Array:
    """Marks of `size` output words a run from those of the lanes, int16[tiles, runs * size]."""
    count, lanes = known.shape[1:]
    marks = np.full((len(known), count, size * 4), KNOWN, np.int16)
    marks[..., : lanes * lane_bytes] = known.repeat(lane_bytes, axis=2)
    return by_word(marks.reshape(len(known), -1))


def _products(x: Array, w: Array) -> Array:
    """Exact matrix products of unsigned and signed integers, in floating point.

    Args:
        x: uint8 or uint16[tiles, runs, terms].
        w: float32 or float64[tiles, terms, lanes], integers.

    Returns:
        float32 or float64[tiles, runs, lanes].
    """
    (runs, terms), lanes = x.shape[1:], w.shape[2]
    if runs * terms * lanes <= _SINGLE_THREAD:
        return np.asarray(np.matmul(x.astype(w.dtype), w))
    found = np.zeros((len(x), runs, lanes), w.dtype)
    most = min(runs, max(_FEW_RUNS, _SINGLE_THREAD // (terms * lanes)))
    depth = max(1, _SINGLE_THREAD // (most * lanes))
    for first in range(0, runs, most):
        rows = slice(first, first + most)
        factors = x[:, rows].astype(w.dtype)
        for begin in range(0, terms, depth):
            part = slice(begin, begin + depth)
            found[:, rows] += np.matmul(factors[:, :, part], w[:, part])
    return found


def _int32(sums: _Sums) -> Array:
    """Sums as the hardware holds them, int32[tiles, runs, lanes]."""
    values, offset = sums.values, sums.offset
    if values.dtype == np.float32:
        total = values.astype(np.int32)
        if offset is not None:
            total += offset.astype(np.int64).astype(np.int32)[:, None]
        return total
    if offset is not None:
        values = values + offset[:, None]
    return values.astype(np.int64).astype(np.int32)


def _biased(sums: Array, bias: Array | float) -> Array:
    """Sums plus a number per tile and lane, rounded once, float32[tiles, runs, lanes].

    Args:
        sums: float32, float64 or int32[tiles, runs, lanes]; may be written over.
        bias: float64[tiles, lanes] or a number for all.
    """
    if isinstance(bias, np.ndarray):
        bias = bias[:, None]
    # A sum of two float32 is rounded once; those of integers are exact up to the mantissa.
    if sums.dtype == np.float32 and np.abs(bias).max() <= _EXACT_F32:
        sums += np.asarray(bias, np.float32)
        return sums
    return np.add(sums, bias, dtype=np.float64).astype(np.float32)
