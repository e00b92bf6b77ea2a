"""What engines have in common: a queue of instructions per tile, and bursts of many tiles.

An engine executes the instructions of its queue in order. It advances in bursts, as far as the
watchers of the head, the data in its input and nothing else permit; tiles that are at the same
place of the same instruction move together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any, Protocol

from fitzroy.hw_models.edgetpu.course import Move
from fitzroy.hw_models.edgetpu.memory import TileMemory
from fitzroy.hw_models.edgetpu.sequence import Gate
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.instruction import TileInstruction


@dataclass(eq=False, slots=True)
class Issue:
    """An instruction on its way through the tiles.

    Attributes:
        instruction: the instruction.
        chunk: number of its chunk.
        bundle: its first bundle in the chunk.
        base: base of the first traversal if a register replaces it.
        plan: what its engine made of it.
        watched: mask of the flags that its engine watches, once it has a plan.
    """

    instruction: TileInstruction | TileFence
    chunk: int
    bundle: int
    base: int | None = None
    plan: Any = None
    watched: int = 0

    def __str__(self) -> str:
        name = self.instruction.op.name.lower()
        return f"{name} #{self.instruction.seq} at bundle {self.bundle} of chunk {self.chunk}"


class Core(Protocol):
    """What engines see of the machine."""

    memory: TileMemory
    flags: list[list[int]]
    """Values by flag and tile; the hardware keeps the low 16 bits."""

    def do(self, move: Move, held: int = 0) -> None:
        """Make a move, which holds so many bytes, now and whenever the program is repeated."""
        ...

    def count(self, tiles: list[int], flag: int, increment: int) -> None:
        """Increment a flag of some tiles."""
        ...

    def token(self, channel: int, increment: int) -> None:
        """Increment the token counters of a ring channel in all tiles and the scalar core."""
        ...

    def held_back(
        self, tiles: list[int], position: int, limit: int, bounds: list[int] | None
    ) -> tuple[list[int], int]:
        """Which of some tiles move now, and how far all of them do.

        Args:
            tiles: tiles that could move.
            position: where they are.
            limit: how far they could.
            bounds: positions at which the engine can stop, if not at all.
        """
        ...


def movable(
    core: Core,
    gates: Items[Gate],
    tiles: list[int],
    position: int,
    end: int,
    bounds: list[int] | None = None,
) -> tuple[list[int], int]:
    """Tiles that may go on from a position, and how far all of them may, as to their flags.

    Args:
        core: the machine.
        gates: what holds the engine back.
        tiles: tiles that are at the position.
        position: elements that are done.
        end: where the instruction, or the data, ends.
        bounds: positions at which the engine can stop, if not at all.
    """
    if not tiles:
        return [], position
    limit = end
    uneven: list[tuple[Gate, list[int]]] = []
    for gate in gates:
        row = core.flags[gate.flag]
        value = row[tiles[0]]
        # Most flags have one value in all tiles, most of the time.
        if row.count(value) == len(row):
            limit = min(limit, gate.limit(value, position))
            if limit <= position:
                return [], position
        else:
            uneven.append((gate, row))
    if not uneven:
        if bounds is not None:
            limit = bounds[bisect_right(bounds, limit) - 1]
        return (
            core.held_back(tiles, position, limit, bounds) if limit > position else ([], position)
        )
    ready, most = [], end
    known: dict[tuple[int, ...], int] = {}
    for tile in tiles:
        values = tuple([row[tile] for _, row in uneven])
        own = known.get(values)
        if own is None:
            own = limit
            for (gate, _), value in zip(uneven, values, strict=True):
                own = min(own, gate.limit(value, position))
            if bounds is not None:
                own = bounds[bisect_right(bounds, own) - 1]
            known[values] = own
        if own > position:
            ready.append(tile)
            most = min(most, own)
    return core.held_back(ready, position, most, bounds) if ready else (ready, position)
