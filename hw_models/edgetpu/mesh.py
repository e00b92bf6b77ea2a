"""The mesh bus: words from tiles to their neighbours."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.engine import Core, Issue, movable
from fitzroy.hw_models.edgetpu.memory import (
    NARROW_WORDS,
    TILES,
    check_range,
    crossing,
    selection,
)
from fitzroy.hw_models.edgetpu.sequence import (
    Gate,
    Numbers,
    gates,
    passed,
    places,
    sequence,
    stretch,
)
from fitzroy.hw_models.edgetpu.unknown import KNOWN
from fitzroy.hw_models.isa.fields import Opcode, Side, TileFlag
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.traversal import WIDE, traversal


@dataclass(frozen=True, slots=True)
class Direction:
    """One of the four directions.

    Attributes:
        rows: rows from a sender to its receiver.
        columns: columns likewise.
        received: flag of the receive half.
        sent: flag of the send half.
    """

    rows: int
    columns: int
    received: TileFlag
    sent: TileFlag

    def neighbour(self, tile: int) -> int | None:
        """The tile that a tile sends to; None over the edge of the grid."""
        columns = BEAGLE.tiles.columns
        row, column = tile // columns + self.rows, tile % columns + self.columns
        if not (0 <= row < BEAGLE.tiles.rows and 0 <= column < columns):
            return None
        return row * columns + column


DIRECTIONS = {
    Opcode.MESH_SOUTHWARD: Direction(1, 0, TileFlag.MESH_NORTH_IN, TileFlag.MESH_SOUTH_OUT),
    Opcode.MESH_WESTWARD: Direction(0, -1, TileFlag.MESH_EAST_IN, TileFlag.MESH_WEST_OUT),
    Opcode.MESH_NORTHWARD: Direction(-1, 0, TileFlag.MESH_SOUTH_IN, TileFlag.MESH_NORTH_OUT),
    Opcode.MESH_EASTWARD: Direction(0, 1, TileFlag.MESH_WEST_IN, TileFlag.MESH_EAST_OUT),
}


_EMPTY = traversal(0, [], rank=WIDE.rank)
"""What all zero bits mean where a half is known to be there."""


@dataclass(eq=False, slots=True)
class HalfPlan:
    """One half of a mesh instruction with its element order.

    Attributes:
        words: address of each word; empty if the half does nothing.
        gates: watchers, at positions of words.
        ends: positions at which the flag counts.
    """

    words: Array
    gates: tuple[Gate, ...]
    ends: Numbers | None


@dataclass(eq=False, slots=True)
class MeshPlan:
    """Both halves of a mesh instruction."""

    send: HalfPlan
    receive: HalfPlan


class MeshUnit:
    """The engine of one direction; a position is words sent and words received."""

    def __init__(self, core: Core, opcode: Opcode) -> None:
        self._core = core
        self.direction = DIRECTIONS[opcode]
        self.links: list[deque[tuple[Array, Array]]] = [deque() for _ in range(TILES)]
        self.waiting = [0] * TILES
        self._neighbours = [self.direction.neighbour(tile) for tile in range(TILES)]

    def plan(self, issue: Issue) -> MeshPlan:
        """The element order of both halves.

        Raises:
            SimulationError: words outside narrow memory, or a way off the grid.
        """
        instruction = issue.instruction
        assert isinstance(instruction, Mesh)
        halves = []
        for words, side, producer in (
            (instruction.send, Side.READ, instruction.sent),
            (instruction.receive, Side.WRITE, instruction.received),
        ):
            on = producer is not None and producer.valid
            if side is Side.WRITE:
                on = on or instruction.fill
            if words is None and not on:
                halves.append(HalfPlan(np.zeros(0, np.int64), (), None))
                continue
            walk = sequence(_EMPTY if words is None else words)
            check_range(walk.addresses, NARROW_WORDS, "narrow word")
            halves.append(
                HalfPlan(
                    walk.addresses,
                    gates((w, walk) for w in instruction.wait if w is not None and w.side is side),
                    places(walk.ends(producer.level))
                    if producer is not None and producer.valid
                    else None,
                )
            )
        return MeshPlan(*halves)

    def advance(
        self, issue: Issue, tiles: list[int], position: tuple[int, int]
    ) -> tuple[list[int], tuple[int, int], bool]:
        """Move one half as far as all tiles can that can any."""
        plan: MeshPlan = issue.plan
        instruction = issue.instruction
        assert isinstance(instruction, Mesh)
        sent, received = position
        goal = (len(plan.send.words), len(plan.receive.words))
        if goal == (0, 0):
            return tiles, position, True
        if sent < goal[0]:
            moved, place = self._send(plan.send, tiles, sent)
            if len(moved):
                now = (place, received)
                return moved, now, now == goal
        if received < goal[1]:
            moved, place = self._receive(instruction, plan.receive, tiles, received)
            if len(moved):
                now = (sent, place)
                return moved, now, now == goal
        return [], position, False

    def _send(self, plan: HalfPlan, tiles: list[int], position: int) -> tuple[list[int], int]:
        tiles, end = movable(self._core, plan.gates, tiles, position, len(plan.words))
        if not tiles:
            return tiles, position
        memory = self._core.memory
        where = selection(tiles)
        places = stretch(plan.words[position:end])
        # A slice only looks at the memory, which goes on changing.
        words = memory.narrow[crossing(memory.held(where), places)].copy()
        words = words.reshape(len(tiles), memory.images, -1)
        known = memory.narrow_known[crossing(where, places)].copy()
        if known.min() != KNOWN:
            known = memory.marked("narrow", where, plan.words[position:end], known)
        for tile, some, sure in zip(tiles, words, known, strict=True):
            neighbour = self._neighbours[tile]
            if neighbour is None:
                raise SimulationError(f"tile {tile} sends over the edge of the grid")
            self.links[neighbour].append((some, sure))
            self.waiting[neighbour] += end - position
        self._core.count(tiles, self.direction.sent, passed(plan.ends, position, end))
        return tiles, end

    def _receive(
        self, instruction: Mesh, plan: HalfPlan, tiles: list[int], position: int
    ) -> tuple[list[int], int]:
        if not instruction.fill:
            tiles = [tile for tile in tiles if self.waiting[tile]]
        tiles, end = movable(self._core, plan.gates, tiles, position, len(plan.words))
        if not tiles:
            return tiles, position
        if not instruction.fill:
            end = min(end, position + min(self.waiting[tile] for tile in tiles))
        memory = self._core.memory
        target = stretch(plan.words[position:end])
        if instruction.fill:
            where = selection(tiles)
            memory.narrow[crossing(memory.held(where), target)] = instruction.fill_word
            memory.narrow_known[crossing(where, target)] = KNOWN
        else:
            for tile in tiles:
                words, known = self._take(tile, end - position)
                memory.narrow[memory.held(slice(tile, tile + 1)), target] = words
                memory.narrow_known[tile, target] = known
        self._core.count(tiles, self.direction.received, passed(plan.ends, position, end))
        return tiles, end

    def _take(self, tile: int, count: int) -> tuple[Array, Array]:
        """Words from the link of a tile, uint32[images, count], and their marks."""
        self.waiting[tile] -= count
        link, words, known = self.links[tile], [], []
        while count:
            some, sure = link.popleft()
            if len(sure) > count:
                link.appendleft((some[:, count:], sure[count:]))
                some, sure = some[:, :count], sure[:count]
            words.append(some)
            known.append(sure)
            count -= len(sure)
        if len(words) == 1:
            return words[0], known[0]
        return np.concatenate(words, axis=1), np.concatenate(known)
