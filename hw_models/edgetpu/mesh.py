"""The mesh bus: words from tiles to their neighbours."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

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


@dataclass(eq=False, slots=True)
class _Sent:
    """Words that tiles have sent: uint32[tiles, images, words]."""

    words: Array


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """Words on their way to a tile.

    Attributes:
        sent: what was sent together with them.
        row: number of the sender among the tiles that did.
        place: which of its words they are.
        known: marks of the words, int16[words].
    """

    sent: _Sent
    row: int
    place: slice
    known: Array


class MeshUnit:
    """The engine of one direction; a position is words sent and words received."""

    def __init__(self, core: Core, opcode: Opcode) -> None:
        self._core = core
        self.direction = DIRECTIONS[opcode]
        self.links: list[deque[_Part]] = [deque() for _ in range(TILES)]
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
                    walk.ends(producer.level) if producer is not None and producer.valid else None,
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
        source = crossing(memory.held(where), places)
        count, sent = end - position, _Sent(np.zeros((0, 0, 0), np.uint32))

        def read() -> None:
            # A slice only looks at the memory, which goes on changing.
            words = memory.narrow[source].copy()
            sent.words = words.reshape(-1, memory.images, count)

        self._core.do(read, 4 * count * len(tiles))
        known = memory.narrow_known[crossing(where, places)].copy()
        if known.min() != KNOWN:
            known = memory.marked("narrow", where, plan.words[position:end], known)
        for row, (tile, sure) in enumerate(zip(tiles, known, strict=True)):
            neighbour = self._neighbours[tile]
            if neighbour is None:
                raise SimulationError(f"tile {tile} sends over the edge of the grid")
            self.links[neighbour].append(_Part(sent, row, slice(0, count), sure))
            self.waiting[neighbour] += count
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
            held = crossing(memory.held(where), target)

            def fill() -> None:
                memory.narrow[held] = instruction.fill_word

            self._core.do(fill)
            memory.narrow_known[crossing(where, target)] = KNOWN
        else:
            for group, parts in _together(tiles, [self._take(t, end - position) for t in tiles]):
                self._write(group, parts, target)
        self._core.count(tiles, self.direction.received, passed(plan.ends, position, end))
        return tiles, end

    def _write(
        self, tiles: list[int], parts: list[tuple[_Part, ...]], target: slice | Array
    ) -> None:
        """Write words that have arrived.

        Args:
            tiles: who has received them.
            parts: the same number of parts for each tile, which were sent together.
            target: addresses of the words.
        """
        memory = self._core.memory
        where = selection(tiles)
        held = crossing(memory.held(where), target)
        pieces = [
            (part.sent, [own[k].row for own in parts], part.place)
            for k, part in enumerate(parts[0])
        ]

        def write() -> None:
            words = [sent.words[rows, :, place] for sent, rows, place in pieces]
            found = words[0] if len(words) == 1 else np.concatenate(words, axis=2)
            memory.narrow[held] = found.reshape(-1, found.shape[2])

        self._core.do(write)
        known = [np.concatenate([part.known for part in own]) for own in parts]
        memory.narrow_known[crossing(where, target)] = np.stack(known)

    def _take(self, tile: int, count: int) -> tuple[_Part, ...]:
        """Words from the link of a tile."""
        self.waiting[tile] -= count
        link, parts = self.links[tile], []
        while count:
            part = link.popleft()
            size = len(part.known)
            if size > count:
                first, middle, last = part.place.start, part.place.start + count, part.place.stop
                link.appendleft(replace(part, place=slice(middle, last), known=part.known[count:]))
                part = replace(part, place=slice(first, middle), known=part.known[:count])
                size = count
            parts.append(part)
            count -= size
        return tuple(parts)


def _together(
    tiles: list[int], taken: list[tuple[_Part, ...]]
) -> Iterator[tuple[list[int], list[tuple[_Part, ...]]]]:
    """Tiles whose words were sent together, with the words of each."""
    groups: dict[Any, list[int]] = {}
    for index, parts in enumerate(taken):
        key = tuple((id(part.sent), part.place.start, part.place.stop) for part in parts)
        groups.setdefault(key, []).append(index)
    for members in groups.values():
        yield [tiles[index] for index in members], [taken[index] for index in members]
