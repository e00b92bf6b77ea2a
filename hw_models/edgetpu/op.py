"""The op engine: tensor operations and the non-linear unit.

A tensor operation walks its loops; each step multiplies up to four elements of A with those of
every lane of C. Steps are computed in bursts, for all tiles that are at the same place at once, as
matrix products in floating point that are exact, because all sums fit the mantissa. Sums stay
floating-point numbers that hold integers until they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.memory import (
    LANES,
    TILES,
    WIDE_ROWS,
    TileMemory,
    Tiles,
    count_of,
    crossing,
    selection,
)
from fitzroy.hw_models.edgetpu.op_plan import OpPlan
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.edgetpu.sequence import stretch
from fitzroy.hw_models.edgetpu.unknown import KNOWN, by_byte, by_word, whole
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp

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

_BURST_BYTES = 1 << 20
"""Bytes of A, C or sums that are computed with at a time: what a processor's caches hold."""


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
class _Weights:
    """Weights that pieces of an operation share.

    Attributes:
        begin: their first step.
        end: one past their last step.
        block: number of their output block.
        factors: what was read of them, while it is needed.
        kept: whether that stays: they are constants, and the operation is repeated.
    """

    begin: int
    end: int
    block: int
    factors: _Factors | None = None
    kept: bool = False


@dataclass(slots=True)
class Piece:
    """What some tiles compute of an operation at a time.

    Attributes:
        plan: the operation.
        tiles: the tiles.
        run: the first run.
        count: number of runs.
        begin: the first step.
        end: one past the last step.
        weights: weights of the steps.
        shared: whether all runs use the same weights, or each its own.
        opens: whether it has the first steps of its runs.
        closes: whether it has their last steps.
        final: whether no other piece needs the weights.
    """

    plan: OpPlan
    tiles: Tiles
    run: int
    count: int
    begin: int
    end: int
    weights: _Weights
    shared: bool = True
    opens: bool = True
    closes: bool = True
    final: bool = True


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

    Attributes:
        certain: whether what was unknown since this was set does not depend on data.
        room: bytes that constant weights may still take to be kept as factors.
    """

    def __init__(self, memory: TileMemory, late: int = 0) -> None:
        self.certain = True
        self.room = 0
        self._memory = memory
        self._late = late
        # Sums of each tile that may not have arrived in memory, the last one at the end.
        self._left: list[list[_Left]] = [[] for _ in range(TILES)]
        self._repeating = False
        # Sums of the reduction that a tile is in the middle of.
        self._open = np.zeros((TILES, memory.images, LANES), np.float64)
        self._open_known = np.full((TILES, LANES), KNOWN, np.int16)

    def load_table(self, table: NluTable, tiles: Tiles) -> None:
        """Load the function of the non-linear unit."""
        memory = self._memory
        memory.tables[tiles] = np.array(table.coefficients, np.float32)
        memory.breakpoints[tiles] = np.array(table.breakpoints, np.float32)
        memory.table_known[tiles] = True

    def compute(self, plan: OpPlan, tiles: Array, begin: int, end: int) -> list[Piece] | None:
        """Do the steps from `begin` up to `end` on all of the tiles.

        Returns:
            what was done, for `repeat`; None if sums are late, or if data decide what is unknown.

        Raises:
            SimulationError: a read of memory that nothing has written.
        """
        where = selection(tiles)
        if self._late and plan.nearest is not None and plan.nearest <= self._late:
            self._compute_late(plan, where, tiles, begin, end)
            return None
        self.certain = True
        pieces = []
        for piece in self._pieces(plan, where, begin, end):
            self._do(piece)
            pieces.append(piece)
        return pieces if self.certain else None

    def repeat(self, pieces: Sequence[Piece]) -> None:
        """Do what `compute` did again, without marks, which stay the same."""
        self._repeating, self.room = True, 0
        try:
            for piece in pieces:
                self._do(piece)
        finally:
            self._repeating = False

    def _compute_late(self, plan: OpPlan, where: Tiles, tiles: Array, begin: int, end: int) -> None:
        """As `compute`, run by run, with sums that may still be on their way to memory."""
        if begin == 0:
            for tile in tiles:
                self._left[tile].clear()
        for piece in self._part_by_part(plan, where, begin, end):
            if piece.opens:
                self._leave(plan, tiles, piece.run)
            self._do(piece)

    def _part_by_part(self, plan: OpPlan, where: Tiles, begin: int, end: int) -> Iterator[Piece]:
        """Parts of runs, one after the other."""
        run = plan.run_of(begin)
        while begin < end:
            first, last = int(plan.runs[run]), int(plan.runs[run + 1])
            stop = min(last, end)
            weights = _Weights(begin, stop, int(plan.blocks[run]))
            opens, closes = begin == first, stop == last
            yield Piece(plan, where, run, 1, begin, stop, weights, opens=opens, closes=closes)
            begin, run = stop, run + closes

    def _pieces(self, plan: OpPlan, where: Tiles, begin: int, end: int) -> Iterator[Piece]:
        """What is computed at a time: part of a run, or as many whole ones as is good."""
        run = plan.run_of(begin)
        while begin < end:
            first, stop = int(plan.runs[run]), int(plan.runs[run + 1])
            if begin != first or stop > end:
                stop = min(stop, end)
                yield from self._part_by_part(plan, where, begin, stop)
                run += stop == int(plan.runs[run + 1])
                begin = stop
                continue
            last, shared = plan.span_of(run)
            if end < plan.steps:
                last = min(last, plan.run_of(end))
            yield from self._whole_runs(plan, where, run, last, shared or last - run == 1)
            begin, run = int(plan.runs[last]), last

    def _whole_runs(
        self, plan: OpPlan, tiles: Tiles, run: int, last: int, shared: bool
    ) -> Iterator[Piece]:
        """The runs of a span, or some of them, as many at a time as is good."""
        runs, block = plan.runs, int(plan.blocks[run])
        first = int(runs[run])
        size = int(runs[run + 1]) - first
        # Runs with weights of their own take a row per step, others a word.
        words = size if shared else size * LANES
        count = self._memory.images * count_of(tiles)
        most = max(1, _BURST_BYTES // (count * 4 * max(words, plan.op.lanes)))
        weights = _Weights(first, first + size, block)
        while run < last:
            stop = min(last, run + most)
            begin, end = int(runs[run]), int(runs[stop])
            if not shared:
                weights = _Weights(begin, end, block)
            final = not shared or stop == last
            yield Piece(
                plan, tiles, run, stop - run, begin, end, weights, shared=shared, final=final
            )
            run = stop

    def _do(self, piece: Piece) -> None:
        plan, weights = piece.plan, piece.weights
        factors = weights.factors
        if factors is None:
            factors = weights.factors = self._factors(piece)
        sums = self._sums(piece, factors) if piece.shared else self._different(piece, factors)
        if piece.final and not weights.kept:
            weights.factors = None
        if plan.d is not None:
            opens = piece.opens and bool(plan.first[piece.run])
            self._spill(plan, piece.tiles, piece.run, sums, opens=opens, closes=piece.closes)
        elif piece.opens and piece.closes:
            self._write(plan, piece.tiles, piece.run, sums.values, sums.offset, sums.known)
        else:
            self._add(piece, sums)

    def _factors(self, piece: Piece) -> _Factors:
        """Weights; shared ones in a precision in which sums are exact, and with their offset."""
        plan, tiles, weights = piece.plan, piece.tiles, piece.weights
        w, known = self._weights(plan, tiles, weights.begin, weights.end, weights.block)
        found = _Factors(w, known)
        if piece.shared and plan.a is not None:
            # Few terms cannot leave the mantissa; for more the weights decide.
            if w.dtype == np.float32 and w.shape[1] * _LARGEST_BYTE**2 > _EXACT_F32:
                largest = float(np.abs(w).sum(axis=1).max())
                if largest * _LARGEST_BYTE > _EXACT_F32:
                    found.values = w.astype(np.float64)
            # The zero point of A takes part once per lane, not once per element.
            zero = plan.op.a_zero_point
            found.offset = w.sum(axis=1, dtype=np.float64) * -zero if zero else None
        if self.room > 0:
            self._keep(piece, found)
        return found

    def _keep(self, piece: Piece, factors: _Factors) -> None:
        """Let a piece have its weights for good if they are constants, and there is room."""
        weights, values = piece.weights, factors.values
        if factors.known is not None or not self._constant(piece):
            return
        if piece.shared and (values == values[:1]).all():
            # Tiles with the same weights compute one product.
            factors.values = values = values[:1].copy()
        weights.kept = values.nbytes <= self.room
        self.room -= values.nbytes if weights.kept else 0

    def _constant(self, piece: Piece) -> bool:
        """Whether the weights of a piece depend on parameters and instructions only."""
        plan, tiles, weights = piece.plan, piece.tiles, piece.weights
        constant = self._memory.wide_constant
        rows = plan.c[weights.begin : weights.end] >> 2
        if plan.op.zero_points_in_memory and not constant[tiles, _zero_point_rows(plan.op)].all():
            return False
        return bool(constant[crossing(tiles, rows)].all())

    def _sums(self, piece: Piece, factors: _Factors) -> _Sums:
        """Sums of equal runs that use the same weights."""
        plan, w = piece.plan, factors.values
        own = count_of(piece.tiles)
        if plan.a is None:
            values = np.maximum if plan.op.op is Opcode.MAX else np.add
            each = own * self._memory.images // len(w)
            found = values.reduce(w, axis=1, keepdims=True).repeat(each * piece.count, axis=1)
            known = factors.known
            if known is not None:
                known = known.min(axis=1, keepdims=True).repeat(piece.count, axis=1)
            return _Sums(found.reshape(own, -1, found.shape[2]), None, known)
        inputs = self._inputs(plan, piece.tiles, piece.begin, piece.end)
        x = inputs.reshape(len(w), -1, w.shape[1])
        known = self._known(piece, x, factors)
        sums, offset = _products(x, w), factors.offset
        if len(w) > own and offset is not None:
            # Images have offsets of their own; integers of float64 are exact.
            sums, offset = sums + offset[:, None], None
        return _Sums(sums.reshape(own, -1, sums.shape[2]), offset, known)

    def _different(self, piece: Piece, factors: _Factors) -> _Sums:
        """Sums of runs each with weights of its own."""
        plan, count = piece.plan, piece.count
        own, images = count_of(piece.tiles), self._memory.images
        w, sure = factors.values, factors.known
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
        inputs = self._inputs(plan, piece.tiles, piece.begin, piece.end)
        inputs = inputs.reshape(own, images, *w.shape[2:4])
        known = self._known(piece, inputs, _Factors(w, sure))
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

    def _known(self, piece: Piece, x: Array, factors: _Factors) -> Array | None:
        """Marks of sums of products, int16[tiles, runs, lanes], None if all are known.

        What is multiplied by zero, because it equals its zero point, does not matter.

        Args:
            piece: what is computed.
            x: elements of A of its steps, of all images.
            factors: weights that all runs share, or those of each run.
        """
        if self._repeating:
            return None
        plan, tiles, count = piece.plan, piece.tiles, piece.count
        marks = self._input_marks(plan, tiles, piece.begin, piece.end)
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
        used = (w != 0).reshape(min(own, len(w)), -1, groups, terms, lanes).any(axis=1)
        marks = None if marks is None else marks.reshape(shape)
        sure = None if sure is None else sure.reshape(own, groups, terms, lanes)
        found = _doubtful(x, used, marks, sure)
        if self.room > 0:
            used = used if self._constant(piece) else np.ones_like(used)
            worst = _doubtful(np.ones_like(x), used, marks, sure)
            self.certain &= np.array_equal(found, worst)
        found = found.reshape(own, count, lanes)
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
        known = None
        if not self._repeating:
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
        sure = None
        known = memory.wide_known[tiles, row, :lanes]
        if not self._repeating and known.min() != KNOWN:
            sure = whole(memory.marked("wide", tiles, row * LANES + np.arange(lanes), known))
        return memory.wide[where, row, :lanes].view(np.int32)[:, None, None], sure

    def _add(self, piece: Piece, sums: _Sums) -> None:
        """Take the sums of a part of a run."""
        tiles, opens = piece.tiles, piece.opens
        lanes = sums.values.shape[2]
        # One run: what is left are images.
        total = sums.values.astype(np.float64)
        if sums.offset is not None:
            total += sums.offset[:, None]
        shape = (len(total), lanes)
        sure = np.full(shape, KNOWN, np.int16) if sums.known is None else sums.known[:, 0]
        if not opens:
            total = piece.plan.joined(self._open[tiles, :, :lanes], total)
            sure = np.minimum(sure, self._open_known[tiles, :lanes])
        if piece.closes:
            known = None if sure.min() == KNOWN else sure[:, None]
            self._write(piece.plan, tiles, piece.run, total, None, known)
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
            if not self._repeating:
                known = self._added_marks(plan, tiles, run, memory.wide_known[place], known)
            before = memory.wide[held].view(np.int32)
            total = plan.joined(before.reshape(total.shape), total)
        memory.wide[held] = total.view(np.uint32).reshape(-1, count, lanes)
        if memory.images > 1:
            memory.wide_shared[crossing(tiles, rows)] = 0
        if not self._repeating:
            memory.wide_constant[crossing(tiles, rows)] = False
            memory.wide_known[place] = KNOWN if known is None else known
        if closes and plan.last[run]:
            self._write(plan, tiles, run, total, None, known)

    def _added_marks(
        self, plan: OpPlan, tiles: Tiles, run: int, sure: Array, known: Array | None
    ) -> Array | None:
        """Marks of sums that are added to those in wide memory.

        Args:
            plan: the operation.
            tiles: its tiles.
            run: the first run.
            sure: marks of what is in memory, int16[tiles, runs, lanes].
            known: those of what is added, None if all is known.
        """
        if sure.min() == KNOWN:
            return known
        assert plan.d is not None
        cells = (plan.d[plan.runs[run : run + sure.shape[1]], None] >> 2) * LANES
        cells = (cells + np.arange(sure.shape[2])).reshape(-1)
        flat = self._memory.marked("wide", tiles, cells, sure.reshape(len(sure), -1))
        sure = whole(flat).reshape(sure.shape)
        return sure if known is None else np.minimum(known, sure)

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
        first, size = int(plan.words[run]), int(plan.words[run + 1] - plan.words[run])
        if codes.itemsize * lanes != 4 * size:
            padded = np.zeros((*codes.shape[:2], 4 * size // codes.itemsize), codes.dtype)
            padded[..., :lanes] = codes
            codes = padded
        words = codes.view("<u4").reshape(len(codes), -1)
        places = stretch(plan.b[first : first + count * size])
        memory.narrow[crossing(memory.held(tiles), places)] = words
        if self._repeating:
            return
        known = self._stage_marks(plan.op, tiles, known, slot, (sums.shape[0], count, lanes))
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


def _doubtful(x: Array, used: Array, marks: Array | None, sure: Array | None) -> Array:
    """Marks of sums of products, int16[tiles, groups, runs, lanes].

    Args:
        x: which elements of A are not zero, bool[tiles, groups, runs, terms].
        used: which of C are not, bool[tiles or 1, groups, terms, lanes].
        marks: marks of those of A, None if all are known.
        sure: marks of those of C, None if all are known.
    """
    found = np.full((*x.shape[:3], used.shape[3]), KNOWN, np.int16)
    if marks is not None:
        x = x | (marks != KNOWN)
    if sure is not None:
        _doubt(found, sure, lambda unknown: (x, unknown))
        used = used | (sure != KNOWN)
    if marks is not None:
        _doubt(found, marks, lambda unknown: (unknown, used))
    return found


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
