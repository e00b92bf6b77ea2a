"""Rows of wide memory for the parameters of objects that share a chip.

An object says on which tiles its parameters lie; the rows are the linker's choice. Runs of a
group move together, because instructions for several tiles refer to all of them by one number.

Where objects do not fit beside each other, they share rows: what lies there is loaded with every
inference, by each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import CapacityError
from fitzroy.formats.object_file import Condition, ObjectFile, Operand, Run
from fitzroy.hw_models.chips.beagle import BEAGLE

_ROWS = BEAGLE.memories.wide.elements


@dataclass
class Allocation:
    """What the linker decided for one object.

    Attributes:
        moves: rows by which each group of runs moves.
        cached: names of the operands that have rows on the chip.
        shared: runs of these in rows that others use, too: operand and number of the run.
    """

    moves: dict[int, int] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)
    shared: set[tuple[str, int]] = field(default_factory=set)

    def row(self, run: Run) -> int:
        """Where a run begins."""
        return run.row + self.moves.get(run.group, 0)


class _Tiles:
    """Rows that are free on every tile, as masks: bit = row."""

    def __init__(self) -> None:
        self._free = [(1 << _ROWS) - 1] * BEAGLE.tiles.count

    def copy(self) -> _Tiles:
        result = _Tiles()
        result._free = list(self._free)
        return result

    def also(self, other: _Tiles) -> _Tiles:
        """What is free in both."""
        result = _Tiles()
        result._free = [a & b for a, b in zip(self._free, other._free, strict=True)]
        return result

    def reserve(self, obj: ObjectFile) -> None:
        """Take the rows that an object uses for data."""
        for reserved in (obj.resources and obj.resources.staging) or ():
            for tile in range(BEAGLE.tiles.count):
                if reserved.tiles >> tile & 1:
                    self.take(tile, reserved.row, reserved.rows)

    def taken(self, tile: int) -> npt.NDArray[np.bool_]:
        """Which rows of a tile are taken."""
        free = self._free[tile].to_bytes(-(-_ROWS // 8), "little")
        bits = np.unpackbits(np.frombuffer(free, np.uint8), bitorder="little")[:_ROWS]
        taken: npt.NDArray[np.bool_] = bits == 0
        return taken

    def moves(self, runs: Sequence[Run]) -> Sequence[int]:
        """All distances by which runs may move to be in free rows."""
        low = min(run.row for run in runs)
        fits = self._fits(runs, low)
        return [row - low for row in range(_ROWS) if fits >> row & 1]

    def take(self, tile: int, first: int, rows: int) -> None:
        """Take rows, some of which may be taken already."""
        self._free[tile] &= ~((1 << rows) - 1 << first)

    def last_move(self, runs: Sequence[Run]) -> int | None:
        """Distance by which runs move to the last free rows; None if there are none."""
        low = min(run.row for run in runs)
        fits = self._fits(runs, low)
        return fits.bit_length() - 1 - low if fits else None

    def move(self, runs: Sequence[Run]) -> int | None:
        """Distance by which runs have to move to be in free rows; None if nowhere."""
        low = min(run.row for run in runs)
        fits = self._fits(runs, low)
        if fits >> low & 1:
            return 0
        return (fits & -fits).bit_length() - 1 - low if fits else None

    def _fits(self, runs: Sequence[Run], low: int) -> int:
        """Rows at which the lowest of some runs can begin."""
        fits = (1 << _ROWS) - 1
        for run in runs:
            fits &= _begins(self._free[run.tile], run.words) >> run.row - low
        return fits


def _begins(free: int, rows: int) -> int:
    """Rows from which as many rows are free."""
    found = 1
    while found < rows:
        step = min(found, rows - found)
        free &= free >> step
        found += step
    return free


def allocate(objects: Sequence[ObjectFile]) -> list[Allocation]:
    """Choose rows for the parameters of all objects, in order of priority.

    A group stays where its object has it if the rows are free, and else moves to the first rows
    that are. What must be cached comes first, then what would be most to stream; what does not fit
    is streamed, if its object has code for that. Objects that fit one by one and not together share
    rows.

    Raises:
        CapacityError: parameters that must be cached do not fit below the staging rows.
    """
    try:
        return _beside(objects)
    except CapacityError:
        if len(objects) < 2:
            raise
    for obj in objects:
        _beside([obj])
    return _sharing(objects)


def _beside(objects: Sequence[ObjectFile]) -> list[Allocation]:
    """Rows of their own for all objects."""
    tiles = _Tiles()
    for obj in objects:
        tiles.reserve(obj)
    result = []
    for obj in objects:
        allocation, tiles = _allocate(obj, tiles)
        result.append(allocation)
    return result


def _allocate(obj: ObjectFile, tiles: _Tiles) -> tuple[Allocation, _Tiles]:
    """Rows for one object beside those that are taken."""
    streamed = {operand.name or "" for operand in obj.operands or () if not operand.runs}
    streamable = {
        (obj.operands or [])[text.operand].name or ""
        for text in obj.text or ()
        if text.condition == Condition.STREAMED
    }
    while True:
        free = tiles.copy()
        allocation = Allocation()
        groups: dict[int, list[tuple[Operand, Run]]] = {}
        for operand in obj.operands or ():
            if operand.name not in streamed:
                allocation.cached.add(operand.name or "")
                for run in operand.runs or ():
                    groups.setdefault(run.group, []).append((operand, run))
        for group in sorted(groups, key=lambda group: _urgency(groups[group], streamable)):
            members = groups[group]
            runs = [run for _, run in members]
            move = free.move(runs)
            if move is None:
                streamed |= _give_up(obj, [operand for operand, _ in members], streamable)
                break
            allocation.moves[group] = move
            for run in runs:
                free.take(run.tile, run.row + move, run.words)
        else:
            return allocation, free


def _urgency(members: Sequence[tuple[Operand, Run]], streamable: set[str]) -> tuple[bool, int]:
    """Sort key of a group: what must be cached, then what would be most to stream."""
    names = {operand.name or "" for operand, _ in members}
    return names <= streamable, -sum(run.units for _, run in members)


def _give_up(obj: ObjectFile, operands: Sequence[Operand], streamable: set[str]) -> set[str]:
    """Operands to stream because they do not fit.

    Raises:
        CapacityError: there is no code for that.
    """
    names = {operand.name or "" for operand in operands}
    if not names <= streamable:
        words = max(run.words for operand in operands for run in operand.runs or ())
        held = sum(run.words for operand in obj.operands or () for run in operand.runs or ())
        raise CapacityError(
            f"parameters of {', '.join(sorted(names))} do not fit on the chip",
            reason=f"{words} rows in a piece are needed; a tile has {_ROWS}, of which the programs "
            f"need some for data; the model's parameters take {held} rows on all tiles",
            where=obj.name or "",
            hint="link fewer models together, or compile this one so that it streams parameters",
        )
    return names


# --- sharing rows --------------------------------------------------------------------------------


@dataclass
class _Placing:
    """Objects whose parameters get rows one after the other.

    Attributes:
        objects: the objects.
        order: which groups come first.
        high: whether those of several tiles take the last free rows, and not the first.
        every: rows that any of them has.
        own: rows that each of them has.
        allocations: what was decided for each.
    """

    objects: Sequence[ObjectFile]
    order: _Order
    high: bool
    every: _Tiles = field(default_factory=_Tiles)
    own: list[_Tiles] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)

    def place(self, obj: ObjectFile) -> None:
        """Give rows to the next object.

        A group without free rows takes some of other objects where it is in the way of least. If
        the groups before leave none for it, all groups stay where their object has them.
        """
        own, every = _Tiles(), self.every.copy()
        own.reserve(obj)
        groups = _groups(obj)
        names = {item.name or "" for item in obj.operands or () if item.runs}
        allocation = Allocation(cached=names)
        for group, runs in sorted(groups.items(), key=lambda item: self.order(item[1])):
            both = every.also(own)
            move = both.last_move(runs) if self.high and len(runs) > 1 else both.move(runs)
            if move is None:
                move = _least_in_the_way(runs, own, every)
            if move is None:
                self._stay(obj, allocation)
                return
            allocation.moves[group] = move
            for run in runs:
                for tiles in (own, every):
                    tiles.take(run.tile, run.row + move, run.words)
        self._finish(obj, allocation)

    def _stay(self, obj: ObjectFile, allocation: Allocation) -> None:
        """Leave all groups of an object in the rows where it has them."""
        allocation.moves = dict.fromkeys(_groups(obj), 0)
        self._finish(obj, allocation)

    def _finish(self, obj: ObjectFile, allocation: Allocation) -> None:
        own = _Tiles()
        own.reserve(obj)
        for runs in _groups(obj).values():
            for run in runs:
                for tiles in (own, self.every):
                    tiles.take(run.tile, allocation.row(run), run.words)
        self.own.append(own)
        self.allocations.append(allocation)

    def share(self) -> list[Allocation]:
        """Note which runs lie in rows that another object has."""
        for number, (obj, allocation) in enumerate(
            zip(self.objects, self.allocations, strict=True)
        ):
            others = _Tiles()
            for other, tiles in enumerate(self.own):
                if other != number:
                    others = others.also(tiles)
            for operand in obj.operands or ():
                for index, run in enumerate(operand.runs or ()):
                    first = allocation.row(run)
                    if others.taken(run.tile)[first : first + run.words].any():
                        allocation.shared.add((operand.name or "", index))
        return self.allocations


_Order = Callable[[Sequence[Run]], tuple[int, ...]]
"""Sort key of groups."""


def _sharing(objects: Sequence[ObjectFile]) -> list[Allocation]:
    """Rows for objects that fit one by one: of their own as far as possible, else shared.

    Of several ways to place groups, that counts which leaves least to be loaded all the time.
    """
    best: tuple[int, list[Allocation]] | None = None
    for order in (_long_first, _wide_first):
        for high in (False, True):
            placing = _Placing(objects, order, high)
            for obj in objects:
                # Data of any program would overwrite parameters that are to stay.
                placing.every.reserve(obj)
            for obj in objects:
                placing.place(obj)
            found = placing.share()
            units = sum(map(_shared_units, objects, found))
            if best is None or units < best[0]:
                best = units, found
    assert best is not None
    return best[1]


def _shared_units(obj: ObjectFile, allocation: Allocation) -> int:
    """Units of parameters in shared rows."""
    return sum(
        run.units
        for operand in obj.operands or ()
        for index, run in enumerate(operand.runs or ())
        if (operand.name or "", index) in allocation.shared
    )


def _groups(obj: ObjectFile) -> dict[int, list[Run]]:
    """Runs that move together."""
    groups: dict[int, list[Run]] = {}
    for operand in obj.operands or ():
        for run in operand.runs or ():
            groups.setdefault(run.group, []).append(run)
    return groups


def _long_first(runs: Sequence[Run]) -> tuple[int, ...]:
    """Groups that need most rows in a piece come first."""
    return (-max(run.words for run in runs), -len(runs))


def _wide_first(runs: Sequence[Run]) -> tuple[int, ...]:
    """Groups on most tiles come first."""
    return (-len(runs), -max(run.words for run in runs))


def _least_in_the_way(runs: Sequence[Run], own: _Tiles, every: _Tiles) -> int | None:
    """Distance by which runs move to rows that their object leaves free, in the way of the fewest.

    Args:
        runs: a group.
        own: rows that its object has.
        every: rows that any object has.
    """
    moves = np.array(own.moves(runs), np.int64)
    if not moves.size:
        return None
    rows = np.zeros(moves.size, np.int64)
    for run in runs:
        before = np.concatenate([[0], np.cumsum(every.taken(run.tile))])
        begin = run.row + moves
        rows += before[begin + run.words] - before[begin]
    return int(moves[int(rows.argmin())])
