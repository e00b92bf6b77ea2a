"""How much of the tiles' memories a program needs, phase by phase.

A word, or a row, is in use during a phase if the phase reads or writes it, or if it holds a value
that a later phase reads. That is liveness as compilers compute it, over phases instead of basic
blocks: a phase ends with a fence in which all tiles wait for their engines, where their order is
certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.conversion import ConversionPlan
from fitzroy.hw_models.edgetpu.memory import NARROW_WORDS, TILES, WIDE_ROWS
from fitzroy.hw_models.edgetpu.mesh import MeshPlan
from fitzroy.hw_models.edgetpu.op_plan import OpPlan
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording
from fitzroy.hw_models.edgetpu.resize import ResizePlan
from fitzroy.hw_models.edgetpu.ring import RingPlan
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, TileFlag
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp

_SIZES = (NARROW_WORDS, WIDE_ROWS)
_NARROW, _WIDE = 0, 1
_ELEMENT_BYTES = (BEAGLE.memories.narrow.element_bytes, BEAGLE.memories.wide.element_bytes)

_ARRIVALS = {
    Opcode.MAC: TileFlag.AVDATA,
    Opcode.MAX: TileFlag.AVDATA,
    Opcode.SUM: TileFlag.AVDATA,
    Opcode.RING_CONSUME_A: TileFlag.RING_READ_A,
    Opcode.RING_CONSUME_B: TileFlag.RING_READ_B,
    Opcode.NARROW_TO_WIDE: TileFlag.NARROW_TO_WIDE,
    Opcode.WIDE_TO_NARROW: TileFlag.WIDE_TO_NARROW,
    Opcode.MESH_SOUTHWARD: TileFlag.MESH_NORTH_IN,
    Opcode.MESH_WESTWARD: TileFlag.MESH_EAST_IN,
    Opcode.MESH_NORTHWARD: TileFlag.MESH_SOUTH_IN,
    Opcode.MESH_EASTWARD: TileFlag.MESH_WEST_IN,
}
"""Flag by which an instruction says that what it writes is there."""


@dataclass(frozen=True, slots=True)
class Use:
    """Use of one memory.

    Attributes:
        live: elements in use, int64[phases, tiles].
        peak: most elements in use in a phase, int64[tiles].
        end: highest address that is used plus one, int64[tiles].
        capacity: elements that there are.
        element_bytes: bytes of an element.
    """

    live: Array
    peak: Array
    end: Array
    capacity: int
    element_bytes: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Use of the tiles' memories by a program.

    Attributes:
        narrow: words of narrow memory.
        wide: rows of wide memory, resident parameters included.
        resident: rows that parameter caching filled, int64[tiles].
    """

    narrow: Use
    wide: Use
    resident: Array

    @property
    def phases(self) -> int:
        """Number of phases."""
        return len(self.narrow.live)


@dataclass(slots=True)
class _Access:
    """What an instruction reads and writes, as addresses; by memory."""

    instruction: Instruction
    tiles: int
    reads: tuple[Array, Array]
    writes: tuple[Array, Array]


def occupancy(main: Recording, caching: Sequence[Recording] = ()) -> Occupancy:
    """What a program has in the tiles' memories.

    Args:
        main: the program, as it was executed.
        caching: those that loaded its parameters; the rows that they filled are in use all through.
    """
    resident = np.zeros((TILES, WIDE_ROWS), bool)
    for recording in caching:
        for phase in _phases(recording):
            for access in phase:
                resident[np.ix_(_tiles(access.tiles), access.writes[_WIDE])] = True
    phases = _phases(main)
    return Occupancy(
        _use(phases, _NARROW, None),
        _use(phases, _WIDE, resident),
        resident.sum(axis=1),
    )


def phase_numbers(recording: Recording) -> Iterator[int]:
    """Number of the phase that each entry belongs to; the fence that ends a phase belongs to it."""
    number = 0
    for _, entry in recording.entries:
        yield number
        number += isinstance(entry, Dispatched) and entry.ends_phase


def _phases(recording: Recording) -> list[list[_Access]]:
    """What the instructions of each phase access, in program order."""
    numbers = list(phase_numbers(recording))
    phases: list[list[_Access]] = [[] for _ in range(numbers[-1] + 1 if numbers else 0)]
    for number, (_, entry) in zip(numbers, recording.entries, strict=True):
        if isinstance(entry, Dispatched) and entry.issue.plan is not None:
            instruction = entry.issue.instruction
            reads, writes = _accesses(instruction, entry.issue.plan)
            phases[number].append(_Access(instruction, entry.tiles, reads, writes))
    return phases


def _accesses(
    instruction: Instruction, plan: object
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Addresses that an instruction reads and writes: narrow words and wide rows."""
    nothing = np.zeros(0, np.int64)
    match plan:
        case OpPlan():
            return _operation(plan)
        case ResizePlan():
            read, written = _distinct(_NARROW, plan.words.reshape(-1)), _distinct(_NARROW, plan.b)
            return (read, nothing), (written, nothing)
        case MeshPlan():
            sent, received = plan.send.words, plan.receive.words
            return (_distinct(_NARROW, sent), nothing), (_distinct(_NARROW, received), nothing)
        case RingPlan():
            rows = _distinct(_WIDE, plan.rows)
            if isinstance(instruction, RingProduce):
                return (nothing, rows), (nothing, nothing)
            return (nothing, nothing), (nothing, rows)
        case ConversionPlan():
            rows = _distinct(_WIDE, plan.rows)
            if isinstance(instruction, NarrowToWide):
                return (_distinct(_NARROW, plan.narrow), nothing), (nothing, rows)
            if isinstance(instruction, WideToNarrow) and instruction.to_scaling:
                return (nothing, rows), (nothing, nothing)
            return (nothing, rows), (_distinct(_NARROW, plan.narrow), nothing)
    return (nothing, nothing), (nothing, nothing)


def _operation(plan: OpPlan) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    op = plan.op
    words = np.zeros(0, np.int64)
    if plan.a is not None and op.a is not None:
        size = plan.elements * (2 if op.a16 else 1)
        words = _distinct(_NARROW, plan.a >> 2, plan.a + size - 1 >> 2)
    size = plan.elements * (2 if op.c16 else 1)
    rows = [plan.c >> 2, plan.c + size - 1 >> 2] if op.c is not None else []
    if op.zero_points_in_memory:
        rows.append(_zero_points(op, plan.blocks))
    sums = np.zeros(0, np.int64) if plan.d is None else _distinct(_WIDE, plan.d >> 2)
    return (words, _distinct(_WIDE, *rows)), (_distinct(_NARROW, plan.b), sums)


def _zero_points(op: TensorOp, blocks: Array) -> Array:
    """Rows with zero points of output blocks; they begin again after the last one."""
    count = int(blocks.max(initial=0)) + 1
    step = op.zero_point_step or 1
    slots = max(1, (op.zero_point_last - op.zero_point_base) // step + 1)
    return op.zero_point_base + step * np.arange(min(count, slots))


def _distinct(memory: int, *addresses: Array) -> Array:
    """Addresses without repetition, ascending."""
    size = _SIZES[memory]
    if not addresses:
        return np.zeros(0, np.int64)
    # What lies outside is an error that the machine has raised already.
    seen = np.zeros(size + 1, bool)
    for some in addresses:
        seen[np.minimum(some, size)] = True
    return np.flatnonzero(seen[:size])


def _tiles(mask: int) -> Array:
    return np.flatnonzero([mask >> tile & 1 for tile in range(TILES)])


def _use(phases: list[list[_Access]], memory: int, resident: Array | None) -> Use:
    """Liveness of one memory, from the last phase to the first."""
    capacity = _SIZES[memory]
    ends = [
        int(addresses[-1]) + 1
        for phase in phases
        for access in phase
        for addresses in (access.reads[memory], access.writes[memory])
        if len(addresses)
    ]
    # Most programs use a small part.
    size = max(ends, default=0)
    always = np.zeros((TILES, size), bool)
    if resident is not None:
        size = max(size, int(np.flatnonzero(resident.any(axis=0)).max(initial=-1)) + 1)
        always = resident[:, :size]
    live = np.zeros((len(phases), TILES), np.int64)
    held = np.zeros((TILES, size), bool)
    ever = always.copy()
    count = always.sum(axis=1)
    for number in reversed(range(len(phases))):
        if any(len(a.reads[memory]) or len(a.writes[memory]) for a in phases[number]):
            reads, writes, exposed = _sets(phases[number], memory, size)
            touched = reads | writes
            ever |= touched
            after = held
            held = exposed | (after & ~writes)
            live[number] = (touched | held | after | always).sum(axis=1)
            count = (held | always).sum(axis=1)
        else:
            live[number] = count
    return Use(
        live,
        live.max(axis=0, initial=0),
        np.where(ever, np.arange(1, size + 1), 0).max(axis=1, initial=0),
        capacity,
        _ELEMENT_BYTES[memory],
    )


def _sets(phase: list[_Access], memory: int, size: int) -> tuple[Array, Array, Array]:
    """What a phase reads, writes, and reads of what was there before; bool[tiles, elements]."""
    reads = np.zeros((TILES, size), bool)
    writes = np.zeros((TILES, size), bool)
    exposed = np.zeros((TILES, size), bool)
    by_flag: dict[int, Array] = {}
    for access in phase:
        targets = access.writes[memory]
        flag = _ARRIVALS.get(access.instruction.op)
        if len(targets) and flag is not None:
            if flag not in by_flag:
                by_flag[flag] = np.zeros((TILES, size), bool)
            by_flag[flag][np.ix_(_tiles(access.tiles), targets)] = True
    for access in phase:
        tiles = _tiles(access.tiles)
        sources, targets = access.reads[memory], access.writes[memory]
        if len(sources):
            where = np.ix_(tiles, sources)
            reads[where] = True
            # An instruction may be issued before the one whose results it waits for.
            before = writes[where]
            for watcher in getattr(access.instruction, "wait", ()):
                if watcher is not None and watcher.valid and watcher.flag in by_flag:
                    before = before | by_flag[watcher.flag][where]
            exposed[where] |= ~before
        if len(targets):
            writes[np.ix_(tiles, targets)] = True
    return reads, writes, exposed
