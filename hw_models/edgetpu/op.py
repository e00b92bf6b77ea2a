"""The op engine: tensor operations and the non-linear unit.

A tensor operation walks its loops; each step multiplies up to four elements of A with those of
every lane of C. Steps are computed in bursts, for all tiles that are at the same place at once, as
matrix products in floating point that are exact, because all sums fit the mantissa.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.memory import LANES, NARROW_WORDS, TILES, WIDE_ROWS, TileMemory
from fitzroy.hw_models.edgetpu.sequence import Gate, Sequence, gates, loops, places, sequence
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp

_EXACT_F32 = 1 << 24
_FEW_TERMS = 64
"""Sums of fewer terms than this are not worth single precision."""

_SLOT_ENTRIES = LANES // 2
"""Entries of scaling memory for the lanes of one block; two slots of scales, then of biases."""

_BIAS_ENTRY = 2 * _SLOT_ENTRIES

_BURST_BYTES = 1 << 24
"""Most bytes of A that are gathered at a time."""


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
    avdata: list[int] | None
    parameters: list[int] | None

    @property
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


def plan(op: TensorOp) -> OpPlan:
    """The element order of a tensor operation.

    Raises:
        SimulationError: operands whose steps are not those of the loops.
    """
    space = loops(op.loops, op.loop_part, op.loop_part_dim)
    walk = sequence(space)
    steps = len(walk)
    c = _operand(op, "c", steps)
    d = None if op.accumulate else _operand(op, "d", steps)
    if d is not None:
        index = space.indices()
        first, last = np.ones(steps, bool), np.ones(steps, bool)
        for k in range(8):
            if op.reduction >> k & 1:
                first &= index[k] == 0
                last &= index[k] == op.loops[k] - 1
        # Outputs of several blocks may have one position.
        runs = np.concatenate([[0], np.flatnonzero((np.diff(d) != 0) | last[:-1]) + 1, [steps]])
        # A run holds whole passes over the inner reduction loops only if it begins and ends one.
        begins, ends = first[runs[:-1]], last[runs[1:] - 1]
    else:
        runs = np.array([0, steps], np.int64)
        if op.d is not None and op.d.fifo_step:
            runs = np.append(sequence(op.d).begins(op.d.fifo_dim), steps)
        begins = ends = np.ones(len(runs) - 1, bool)
    block = np.zeros(steps, np.int64)
    count = 1
    # Blocks do not matter to an operation that has nothing of its own for each.
    if (
        op.zero_points_in_memory
        or op.bias_in_memory
        or op.scale_in_memory
        or op.lanes != op.lanes_last
    ):
        index = space.indices()
        for k in range(op.block_level, 8):
            if op.loops[k] > 1 and not (d is not None and op.reduction >> k & 1):
                block += index[k] * count
                count *= op.loops[k]
    blocks = block[runs[:-1]]
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
    if a is not None and _outside(a >> 2, NARROW_WORDS):
        raise SimulationError("a tensor operation reads outside narrow memory")
    return OpPlan(
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


def _ends(walk: Sequence | None, level: int) -> list[int] | None:
    return None if walk is None else places(walk.ends(level))


def _parameter_ends(op: TensorOp, walk: Sequence) -> list[int] | None:
    if op.parameters is None or not op.parameters.valid:
        return None
    own = walk if op.c is None else sequence(op.c)
    # A single address stands for all steps.
    return places(own.ends(op.parameters.level)) if len(own) == len(walk) else [len(walk)]


def _outside(numbers: Array, count: int) -> bool:
    return bool(len(numbers)) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count


_Sums = tuple[Array, Array | None]
"""int64[tiles, runs, lanes], and bool[tiles, runs] where not all of them are known."""


class OpUnit:
    """Computes tensor operations on the memories of the tiles."""

    def __init__(self, memory: TileMemory) -> None:
        self._memory = memory
        # Sums of the reduction that a tile is in the middle of.
        self._open = np.zeros((TILES, LANES), np.int64)
        self._open_known = np.zeros(TILES, bool)

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
        run = plan.run_of(begin)
        step = begin
        while step < end:
            stop = int(plan.runs[run + 1])
            if step != plan.runs[run] or stop > end:
                piece = min(stop, end)
                sums = self._sums(plan, tiles, step, piece, 1, int(plan.blocks[run]))
                self._add(plan, tiles, run, *sums, step == plan.runs[run], piece == stop)
                step, run = piece, run + (piece == stop)
                continue
            step, run = self._whole_runs(plan, tiles, run, end)

    def _whole_runs(self, plan: OpPlan, tiles: Array, run: int, end: int) -> tuple[int, int]:
        """Do equal runs together that use the same weights; returns the next step and run."""
        runs = plan.runs
        size = int(runs[run + 1] - runs[run])
        most = int(np.searchsorted(runs, end, side="right")) - 1
        most = min(most, run + max(1, _BURST_BYTES // (4 * size * len(tiles))))
        same = np.diff(runs[run : most + 1]) == size
        same &= plan.blocks[run:most] == plan.blocks[run]
        same &= plan.first[run:most] == plan.first[run]
        same &= plan.last[run:most] == plan.last[run]
        count = len(same) if same.all() else int(np.argmin(same))
        start = int(runs[run])
        weights = plan.c[start : start + count * size].reshape(count, size)
        shared = (weights == weights[0]).all(axis=1)
        equal = count if shared.all() else int(np.argmin(shared))
        if plan.d is not None:
            rows = plan.d[runs[run : run + count]]
            again = np.flatnonzero(rows[1:] == rows[0])
            if len(again):
                count = min(count, int(again[0]) + 1)
                equal = min(equal, count)
        block = int(plan.blocks[run])
        if equal > 1 or count == 1:
            count = equal
            sums, known = self._sums(plan, tiles, start, start + count * size, count, block)
        else:
            sums, known = self._different(plan, tiles, start, count, size, block)
        if plan.d is not None:
            self._spill(plan, tiles, run, sums, known, bool(plan.first[run]))
        elif plan.last[run]:
            self._write(plan, tiles, run, sums, known)
        return start + count * size, run + count

    def _sums(
        self, plan: OpPlan, tiles: Array, begin: int, end: int, count: int, block: int
    ) -> _Sums:
        """Sums of `count` equal runs that use the same weights."""
        size = (end - begin) // count
        w = self._weights(plan, tiles, plan.c[begin : begin + size], block)
        if plan.a is None:
            return np.repeat(self._reduced(plan, w), count, axis=1), None
        known = self._known(plan, tiles, begin, end, w)
        x = self._inputs(plan, tiles, begin, end).reshape(len(tiles), count, -1)
        lanes = w.shape[2]
        factors = w.transpose(0, 1, 3, 2).reshape(len(tiles), -1, lanes)
        products = _products(x, factors)
        # The zero point of A takes part once per lane, not once per element.
        return products - plan.op.a_zero_point * factors.sum(axis=1, dtype=np.int64)[:, None], known

    def _different(
        self, plan: OpPlan, tiles: Array, start: int, count: int, size: int, block: int
    ) -> _Sums:
        """Sums of runs each with weights of its own."""
        most = max(1, _BURST_BYTES // (4 * LANES * size * len(tiles)))
        parts, sure = [], []
        for run in range(0, count, most):
            begin, end = start + run * size, start + min(run + most, count) * size
            here = (end - begin) // size
            w = self._weights(plan, tiles, plan.c[begin:end], block)
            shape = (len(tiles), here, size, *w.shape[2:])
            if plan.a is None:
                parts.append(
                    np.concatenate(
                        [self._reduced(plan, part) for part in w.reshape(shape).swapaxes(0, 1)],
                        axis=1,
                    )
                )
            else:
                x = self._inputs(plan, tiles, begin, end)
                sure.append(self._known_each(plan, tiles, begin, end, w, here))
                x = x.reshape(len(tiles), here, size, 1, -1).astype(np.int64)
                x -= plan.op.a_zero_point
                parts.append((w.reshape(shape) * x).sum(axis=(2, 4)))
        known = np.concatenate(sure, axis=1) if sure else None
        return np.concatenate(parts, axis=1), known

    def _known_each(
        self, plan: OpPlan, tiles: Array, begin: int, end: int, w: Array, count: int
    ) -> Array:
        """As `_known`, where every run has weights of its own."""
        assert plan.a is not None
        found = self._memory.narrow_known[tiles[:, None], plan.a[begin:end] >> 2]
        sure = found | ~w.any(axis=(2, 3))
        return np.asarray(sure.reshape(len(tiles), count, -1).all(axis=2))

    def _reduced(self, plan: OpPlan, w: Array) -> Array:
        """Maximum or sum of the elements of C, int64[tiles, 1, lanes]."""
        if plan.op.op is Opcode.MAX:
            return np.asarray(w.max(axis=(1, 3))[:, None].astype(np.int64))
        return np.asarray(w.sum(axis=(1, 3), dtype=np.int64)[:, None])

    def _known(self, plan: OpPlan, tiles: Array, begin: int, end: int, w: Array) -> Array | None:
        """Which runs use only words that have been written, bool[tiles, runs]; None if all do.

        Words whose weights equal their zero points do not matter.
        """
        assert plan.a is not None
        memory = self._memory
        known = memory.narrow_known if len(tiles) == TILES else memory.narrow_known[tiles]
        found = known.take(plan.a[begin:end] >> 2, axis=1)
        if found.all():
            return None
        used: Array = np.asarray(w.any(axis=(2, 3)))
        size = used.shape[1]
        sure: Array = found.reshape(len(tiles), -1, size) | ~used[:, None]
        return np.asarray(sure.all(axis=2))

    def _inputs(self, plan: OpPlan, tiles: Array, begin: int, end: int) -> Array:
        """Elements of A, uint8 or uint16[tiles, steps, elements]."""
        assert plan.a is not None
        memory = self._memory
        addresses = plan.a[begin:end]
        width = 2 if plan.op.a16 else 1
        size = plan.elements * width
        words = addresses >> 2
        if _outside(words, NARROW_WORDS) or int(addresses.max()) + size > 4 * NARROW_WORDS:
            raise SimulationError("a tensor operation reads outside narrow memory")
        every = len(tiles) == TILES
        if size == 4 and not np.any(addresses & 3):
            found = memory.narrow if every else memory.narrow[tiles]
            data = found.take(words, axis=1).view(np.uint8).reshape(len(tiles), -1, 4)
        else:
            places = (addresses[:, None] + np.arange(size)).reshape(-1)
            held = memory.narrow_bytes if every else memory.narrow_bytes[tiles]
            data = held.take(places, axis=1).reshape(len(tiles), -1, size)
        if width == 2:
            data = np.ascontiguousarray(data).view("<u2")
        return data

    def _weights(self, plan: OpPlan, tiles: Array, addresses: Array, block: int) -> Array:
        """Elements of C minus zero points, int32[tiles, steps, lanes, elements]."""
        op, memory = plan.op, self._memory
        rows, offset = addresses >> 2, addresses & 3
        lanes = op.lanes_last if block == int(plan.blocks[-1]) else op.lanes
        width = 2 if op.c16 else 1
        size = plan.elements * width
        known = memory.wide_known[tiles[:, None], rows[None], :lanes]
        if not known.all():
            tile, place, lane = (int(axis[0]) for axis in np.nonzero(~known))
            raise unwritten(f"lane {lane} of wide row", int(rows[place]), int(tiles[tile]))
        held = memory.wide_bytes.reshape(TILES, WIDE_ROWS, LANES, 4)
        data = held[tiles[:, None], rows[None], :lanes]
        if size < 4 or np.any(offset):
            if int(offset.max()) + size > 4 and op.op is not Opcode.MAX:
                raise SimulationError("a tensor operation reads beyond a lane of wide memory")
            # A maximum walks over the bytes of a lane with all four elements on: the same bytes
            # again do not matter, and nothing tells whether the hardware takes others.
            places = (offset[:, None] + np.arange(size)) % 4
            where = np.broadcast_to(places[None, :, None], (*data.shape[:3], size))
            data = np.take_along_axis(data, where, 3)
        if width == 2:
            data = np.ascontiguousarray(data).view("<u2")
        values = data.astype(np.int32)
        if op.op is Opcode.MAX:
            return values
        if op.zero_points_in_memory:
            span = op.zero_point_last - op.zero_point_base
            slots = max(1, span // op.zero_point_step + 1) if op.zero_point_step else 1
            row = op.zero_point_base + block % slots * op.zero_point_step
            if not memory.wide_known[tiles, row, :lanes].all():
                raise unwritten("zero points in wide row", row, int(tiles[0]))
            zero = memory.wide[tiles, row, :lanes].astype(np.int32)
            return values - zero[:, None, :, None]
        return values - op.c_zero_point

    def _add(
        self,
        plan: OpPlan,
        tiles: Array,
        run: int,
        sums: Array,
        known: Array | None,
        opens: bool,
        closes: bool,
    ) -> None:
        """Take the sums of a part of a run."""
        if plan.d is not None:
            self._spill(plan, tiles, run, sums, known, bool(plan.first[run]) and opens, closes)
            return
        lanes = sums.shape[2]
        total = sums[:, 0]
        sure = np.ones(len(tiles), bool) if known is None else known[:, 0]
        if not opens:
            total = self._joined(plan, self._open[tiles, :lanes], total)
            sure = sure & self._open_known[tiles]
        if closes:
            self._write(plan, tiles, run, total[:, None], sure[:, None])
        else:
            self._open[tiles[:, None], np.arange(lanes)] = total
            self._open_known[tiles] = sure

    def _joined(self, plan: OpPlan, one: Array, other: Array) -> Array:
        return np.maximum(one, other) if plan.op.op is Opcode.MAX else one + other

    def _spill(
        self,
        plan: OpPlan,
        tiles: Array,
        run: int,
        sums: Array,
        known: Array | None,
        opens: bool,
        closes: bool = True,
    ) -> None:
        """Add sums to those in wide memory, and write the outputs that are complete."""
        assert plan.d is not None
        memory = self._memory
        count, lanes = sums.shape[1:]
        rows = plan.d[plan.runs[run : run + count]] >> 2
        where = (tiles[:, None], rows[None])
        sure = np.ones((len(tiles), count), bool) if known is None else known
        if not opens:
            sure = sure & memory.wide_known[where][..., :lanes].all(axis=2)
            sums = self._joined(plan, memory.wide[where][..., :lanes].view(np.int32), sums)
        lane = np.arange(lanes)
        place = (tiles[:, None, None], rows[None, :, None], lane)
        memory.wide[place] = sums.astype(np.int32).view(np.uint32)
        memory.wide_known[place] = sure[..., None]
        if closes and plan.last[run]:
            self._write(plan, tiles, run, sums, sure)

    def _write(
        self, plan: OpPlan, tiles: Array, run: int, sums: Array, known: Array | None
    ) -> None:
        """The output stage: scale, clamp, function, rounding, and the words of the outputs."""
        if not len(plan.b):
            return
        op, memory = plan.op, self._memory
        count, lanes = sums.shape[1:]
        slot = int(plan.blocks[run]) & 1
        # Sums of what nothing has written, which programs do not use, may be anything.
        with np.errstate(over="ignore", invalid="ignore"):
            codes = self._codes(op, tiles, sums, slot)
        size = int(plan.words[run + 1] - plan.words[run])
        padded = np.zeros((len(tiles), count, 4 * size // codes.itemsize), codes.dtype)
        padded[..., :lanes] = codes
        words = padded.view("<u4").reshape(len(tiles), -1)
        first = int(plan.words[run])
        where = plan.b[first : first + count * size]
        memory.narrow[tiles[:, None], where] = words
        sure = True if known is None else np.repeat(known, size, axis=1)
        memory.narrow_known[tiles[:, None], where] = sure

    def _codes(self, op: TensorOp, tiles: Array, sums: Array, slot: int) -> Array:
        """Outputs of sums: bias, scale, clamp, function and rounding."""
        total = sums + op.constant
        if op.bias_in_memory:
            bias = self._scaling(tiles, _BIAS_ENTRY + _SLOT_ENTRIES * slot, sums.shape[2])
            total = total + bias.view(np.int32)[:, None]
        y = total.astype(np.float32)
        if op.scale_in_memory:
            scale = self._scaling(tiles, _SLOT_ENTRIES * slot, sums.shape[2])
            y *= scale.view(np.float32)[:, None]
        else:
            y *= np.float32(op.scale)
        np.clip(y, np.float32(op.minimum), np.float32(op.maximum), out=y)
        if op.nlu:
            y = self._function(op, tiles, y)
        np.rint(y, out=y)
        y += np.float32(op.output_zero_point)
        np.clip(y, 0, 0xFFFF if op.output16 else 0xFF, out=y)
        return y.astype("<u2" if op.output16 else np.uint8)

    def _scaling(self, tiles: Array, entry: int, lanes: int) -> Array:
        """Words of the scaling memory for some lanes, uint32[tiles, lanes]."""
        memory = self._memory
        place = (tiles, slice(entry, entry + _SLOT_ENTRIES))
        known = memory.scaling_known[place].reshape(len(tiles), LANES)[:, :lanes]
        if not known.all():
            raise unwritten("entry of scaling memory", entry, int(tiles[0]))
        words = memory.scaling[place].reshape(len(tiles), LANES)[:, :lanes]
        return np.ascontiguousarray(words)

    def _function(self, op: TensorOp, tiles: Array, y: Array) -> Array:
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
        for n, tile in enumerate(tiles):
            bounds, table = memory.breakpoints[tile], memory.tables[tile]
            factors = table[np.searchsorted(bounds, argument[n], side="right")]
            value = factors[..., 4]
            for degree in (3, 2, 1, 0):
                value = value * argument[n] + factors[..., degree]
            result[n] = value
        if exponent is not None:
            result = (result * np.exp2(-exponent)).astype(np.float32)
        return np.where(y < 0, -result, result) if op.nlu_odd else result


def unwritten(what: str, number: int, tile: int) -> SimulationError:
    """The error for a read of memory that nothing has written."""
    return SimulationError(f"{what} {number} of tile {tile} is read, but was never written")


def _products(x: Array, w: Array) -> Array:
    """Exact matrix products of unsigned and signed integers, in floating point.

    Args:
        x: uint8 or uint16[tiles, runs, terms].
        w: int32[tiles, terms, lanes].

    Returns:
        int64[tiles, runs, lanes].
    """
    most = int(np.iinfo(x.dtype).max) * _largest(w)
    terms = _EXACT_F32 // most
    if terms < _FEW_TERMS:
        found = np.matmul(x.astype(np.float64), w.astype(np.float64))
        return np.asarray(found.astype(np.int64))
    total: Array = np.zeros((*x.shape[:2], w.shape[2]), np.int64)
    for first in range(0, w.shape[1], terms):
        part = slice(first, first + terms)
        found = np.matmul(x[:, :, part].astype(np.float32), w[:, part].astype(np.float32))
        total += found.astype(np.int64)
    return total


def _largest(values: Array) -> int:
    """Largest magnitude."""
    return max(int(values.max()), -int(values.min()), 1)
