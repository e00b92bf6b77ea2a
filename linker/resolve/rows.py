"""Rows of wide memory for the parameters of objects that share a chip.

An object says on which tiles its parameters lie; the rows are the linker's choice. Runs of a
group move together, because instructions for several tiles refer to all of them by one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fitzroy.base.errors import CapacityError
from fitzroy.formats.object_file import Condition, ObjectFile, Operand, Run
from fitzroy.hw_models.chips.beagle import BEAGLE

_ROWS = BEAGLE.memories.wide.elements


@dataclass
class Allocation:
    """What the linker decided for one object.

    Attributes:
        moves: rows by which each group of runs moves.
        cached: names of the operands that stay on the chip.
    """

    moves: dict[int, int] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)

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

    def take(self, tile: int, first: int, rows: int) -> None:
        """Take rows, some of which may be taken already."""
        self._free[tile] &= ~((1 << rows) - 1 << first)

    def move(self, runs: Sequence[Run]) -> int | None:
        """Distance by which runs have to move to be in free rows; None if nowhere."""
        low = min(run.row for run in runs)
        # Rows at which the lowest run can begin.
        fits = (1 << _ROWS) - 1
        for run in runs:
            fits &= _begins(self._free[run.tile], run.words) >> run.row - low
        if fits >> low & 1:
            return 0
        return (fits & -fits).bit_length() - 1 - low if fits else None


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
    is streamed, if its object has code for that.

    Raises:
        CapacityError: parameters that must be cached do not fit below the staging rows.
    """
    tiles = _Tiles()
    for obj in objects:
        for reserved in (obj.resources and obj.resources.staging) or ():
            for tile in range(BEAGLE.tiles.count):
                if reserved.tiles >> tile & 1:
                    tiles.take(tile, reserved.row, reserved.rows)
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
