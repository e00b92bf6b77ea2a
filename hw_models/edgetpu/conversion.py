"""Engines between narrow and wide memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.engine import Core, Issue, movable
from fitzroy.hw_models.edgetpu.memory import (
    LANES,
    NARROW_WORDS,
    SCALING_ENTRIES,
    TILES,
    WIDE_ROWS,
    Tiles,
    alike,
    check_range,
    crossing,
    selection,
)
from fitzroy.hw_models.edgetpu.sequence import (
    Gate,
    Numbers,
    Order,
    Sequence,
    as_array,
    numbers,
    passed,
    sequence,
    stretch,
)
from fitzroy.hw_models.edgetpu.unknown import KNOWN, WORD_BYTES, by_byte, by_word
from fitzroy.hw_models.isa.conversion import NarrowToWide, Transpose, WideToNarrow
from fitzroy.hw_models.isa.fields import Side, TileFlag

_ENTRY_LANES = 2


@dataclass(eq=False)
class ConversionPlan:
    """A conversion with its element order.

    Attributes:
        narrow: address of each word or scaling entry.
        rows: address of each row.
        starts: position of the first element of each row, and the number of elements.
        gates: watchers, at positions of elements.
        most: most elements of a row.
        ends: positions at which the flag counts: rows to wide memory, elements from it.
    """

    narrow: Array
    rows: Array
    starts: Array
    gates: tuple[Gate, ...]
    most: int
    ends: Numbers | None = None

    # What matters to who moves the elements, but not to when.

    @cached_property
    def bounds(self) -> list[int]:
        """`starts` as numbers."""
        found: list[int] = self.starts.tolist()
        return found

    @cached_property
    def cells(self) -> Array:
        """Number of each element in wide memory, whose rows hold a fixed number of them."""
        first = self.most * self.rows - self.starts[:-1]
        return np.repeat(first, np.diff(self.starts)) + np.arange(len(self.narrow))


def _packed(begins: Array, total: int, most: int) -> Array:
    """Positions where rows start: at each of `begins`, and after every `most` elements."""
    size = np.diff(np.append(begins, total))
    if size.max(initial=0) <= most:
        return np.append(begins, total)
    rows = -(-size // most)
    first = np.repeat(begins, rows)
    within = np.arange(len(first)) - np.repeat(np.cumsum(rows) - rows, rows)
    return np.append(first + within * most, total)


def _plan(
    instruction: NarrowToWide | WideToNarrow, narrow: Sequence, most: int, read: Side
) -> ConversionPlan:
    wide = sequence(instruction.wide)
    total = len(narrow)
    starts = _packed(as_array(narrow.begins(instruction.pack_level)), total, most)
    if len(starts) - 1 != len(wide):
        raise SimulationError(
            f"a conversion has {len(wide)} rows", reason=f"its words fill {len(starts) - 1}"
        )
    check_range(wide.addresses, WIDE_ROWS, "wide row")
    gates = []
    for watcher in instruction.wait:
        if watcher is None or not watcher.valid:
            continue
        if watcher.side is read:
            begins = narrow.begins(watcher.level)
        else:
            begins = numbers(starts[as_array(wide.begins(watcher.level))])
        gates.append(Gate(watcher, begins, total))
    return ConversionPlan(narrow.addresses, wide.addresses, starts, tuple(gates), most)


class NarrowToWideUnit:
    """Packs words of narrow memory into wide rows, whole rows at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def plan(self, issue: Issue) -> ConversionPlan:
        """The element order of an instruction.

        Raises:
            SimulationError: addresses outside the memories, or rows that do not fit the words.
        """
        instruction = issue.instruction
        assert isinstance(instruction, NarrowToWide)
        traversal = instruction.narrow
        if issue.base is not None:
            traversal = replace(traversal, base=issue.base)
        narrow = sequence(traversal, None, 1 if instruction.transpose else 0)
        plan = _plan(instruction, narrow, LANES, Side.READ)
        check_range(plan.narrow, NARROW_WORDS, "narrow word")
        producer = instruction.narrow_to_wide
        if producer is not None and producer.valid:
            plan.ends = Order(instruction.wide).ends(producer.level)
        return plan

    def advance(self, issue: Issue, tiles: list[int], position: int) -> tuple[list[int], int, bool]:
        """Pack as many whole rows as all tiles can that can any."""
        plan: ConversionPlan = issue.plan
        instruction = issue.instruction
        assert isinstance(instruction, NarrowToWide)
        tiles, end = movable(self._core, plan.gates, tiles, position, len(plan.narrow), plan.bounds)
        if not tiles:
            return tiles, position, False
        row, last = bisect_left(plan.bounds, position), bisect_left(plan.bounds, end)
        where = selection(tiles)
        memory = self._core.memory
        for first, stop in _uniform(plan.starts, row, last):
            addresses = plan.narrow[plan.bounds[first] : plan.bounds[stop]]
            source = stretch(addresses)
            marks = memory.narrow_known[crossing(where, source)]
            known: Array | None = None
            if marks.min() != KNOWN:
                known = memory.marked("narrow", where, addresses, marks)
                known = known.reshape(len(tiles), stop - first, -1)
            if known is not None and instruction.transpose:
                known = _transposed_marks(known, instruction.transpose)
            rows = stretch(plan.rows[first:stop])
            self._pack(instruction.transpose, where, source, rows, stop - first)
            place = crossing(where, rows)
            memory.wide_constant[place] = False
            memory.wide_known[place] = KNOWN
            if known is not None:
                memory.wide_known[*place, : known.shape[2]] = known
        done = passed(plan.ends, row, last)
        self._core.count(tiles, TileFlag.NARROW_TO_WIDE, done)
        return tiles, end, last == len(plan.rows)

    def _pack(
        self,
        transpose: Transpose | None,
        tiles: Tiles,
        source: slice | Array,
        rows: slice | Array,
        count: int,
    ) -> None:
        """Write rows of equal size from words of narrow memory.

        Args:
            transpose: how groups of words are transposed, if they are.
            tiles: the tiles.
            source: addresses of the words.
            rows: addresses of the rows.
            count: how many rows there are.
        """
        memory = self._core.memory
        held = crossing(memory.held(tiles), source)
        target, place = crossing(memory.held(tiles), rows), crossing(tiles, rows)

        def write() -> None:
            found = memory.narrow[held]
            words = found.reshape(len(found), count, -1)
            if transpose:
                words = _transposed(words, transpose)
            size = words.shape[2]
            memory.wide[*target, :size] = words
            # Whole rows are written; programs read the rest, but do not use what comes of it.
            memory.wide[*target, size:] = 0
            if memory.images > 1:
                memory.wide_shared[place] = LANES if alike(words, memory.images) else 0

        self._core.do(write)


def _uniform(starts: Array, row: int, last: int) -> Iterator[tuple[int, int]]:
    """Runs of rows of equal size."""
    size = np.diff(starts[row : last + 1])
    cuts = [row, *(np.flatnonzero(np.diff(size)) + row + 1).tolist(), last]
    yield from pairwise(cuts)


def _transposed(words: Array, kind: Transpose) -> Array:
    """Groups of 4 words as 4 x 4 bytes, or of 2 as 2 x 2 halfwords, transposed.

    Args:
        words: uint32[tiles * images, rows, words of a row]; zeros fill up an incomplete group.
        kind: size of groups.
    """
    words, shape = _groups(words, kind, 0)
    group = shape[-1]
    parts = words.reshape(shape).view(np.uint8 if group == 4 else "<u2")
    square = parts.reshape(*shape[:2], -1, group, group).swapaxes(3, 4)
    return np.ascontiguousarray(square).view("<u4").reshape(words.shape)


def _transposed_marks(known: Array, kind: Transpose) -> Array:
    """Marks of transposed words, of which each has a part of every word of its group."""
    known, shape = _groups(known, kind, KNOWN)
    group = shape[-1]
    bytes_known = by_byte(known).reshape(*shape, group, WORD_BYTES // group)
    return by_word(bytes_known.swapaxes(3, 4).reshape(*shape[:2], -1)).reshape(known.shape)


def _groups(words: Array, kind: Transpose, fill: int) -> tuple[Array, tuple[int, ...]]:
    """Rows of whole groups, and their shape with an axis of groups."""
    group = 4 if kind is Transpose.BYTES else 2
    pad = ((0, 0), (0, 0), (0, -words.shape[2] % group))
    # Padding keeps the order of axes in memory, which a selection of rows may have changed.
    words = np.ascontiguousarray(np.pad(words, pad, constant_values=fill))
    return words, (*words.shape[:2], -1, group)


class WideToNarrowUnit:
    """Unpacks wide rows into words of narrow memory, or into entries of scaling memory."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def plan(self, issue: Issue) -> ConversionPlan:
        """The element order of an instruction.

        Raises:
            SimulationError: addresses outside the memories, or rows that do not fit the words.
        """
        instruction = issue.instruction
        assert isinstance(instruction, WideToNarrow)
        narrow = sequence(instruction.narrow, instruction.prefix)
        most = LANES // _ENTRY_LANES if instruction.to_scaling else LANES
        plan = _plan(instruction, narrow, most, Side.WRITE)
        if instruction.to_scaling:
            check_range(plan.narrow, SCALING_ENTRIES, "entry of scaling memory")
        else:
            check_range(plan.narrow, NARROW_WORDS, "narrow word")
        producer = instruction.wide_to_narrow
        if producer is not None and producer.valid:
            plan.ends = narrow.ends(producer.level)
        return plan

    def advance(self, issue: Issue, tiles: list[int], position: int) -> tuple[list[int], int, bool]:
        """Unpack as many elements as all tiles can that can any."""
        plan: ConversionPlan = issue.plan
        instruction = issue.instruction
        assert isinstance(instruction, WideToNarrow)
        tiles, end = movable(self._core, plan.gates, tiles, position, len(plan.narrow))
        if not tiles:
            return tiles, position, False
        memory = self._core.memory
        where = selection(tiles)
        cells, places = stretch(plan.cells[position:end]), stretch(plan.narrow[position:end])
        source, target = crossing(where, cells), crossing(where, places)
        held = memory.held(where)
        if instruction.to_scaling:
            entries = memory.wide.reshape(len(memory.wide), -1, _ENTRY_LANES)
            self._copy(memory.scaling, crossing(held, places), entries, crossing(held, cells))
            known = memory.wide_known.reshape(TILES, -1, _ENTRY_LANES)[source]
            if known.min() != KNOWN:
                lanes = _ENTRY_LANES * plan.cells[position:end, None] + np.arange(_ENTRY_LANES)
                flat = known.reshape(len(tiles), -1)
                known = memory.marked("wide", where, lanes.reshape(-1), flat).reshape(known.shape)
            memory.scaling_known[target] = known
            flag = TileFlag.WIDE_TO_SCALING
        else:
            wide = memory.wide.reshape(len(memory.wide), -1)
            self._copy(memory.narrow, crossing(held, places), wide, crossing(held, cells))
            known = memory.wide_known.reshape(TILES, -1)[source]
            if known.min() == KNOWN:
                memory.narrow_known[target] = KNOWN
            else:
                numbers = plan.cells[position:end]
                memory.narrow_known[target] = memory.marked("wide", where, numbers, known)
            flag = TileFlag.WIDE_TO_NARROW
        self._core.count(tiles, flag, passed(plan.ends, position, end))
        return tiles, end, end == len(plan.narrow)

    def _copy(self, target: Array, places: Any, source: Array, cells: Any) -> None:
        """Copy from one memory to another, at some places of some tiles."""

        def copy() -> None:
            target[places] = source[cells]

        self._core.do(copy)
