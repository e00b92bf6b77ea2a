"""What an instruction does on each unit: elements, waits, counts, and the memory that it uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.conversion import (
    ConversionPlan,
    NarrowToWideUnit,
    WideToNarrowUnit,
)
from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.memory import LANES
from fitzroy.hw_models.edgetpu.mesh import HalfPlan, MeshPlan, MeshUnit
from fitzroy.hw_models.edgetpu.op_plan import OpPlan, plan
from fitzroy.hw_models.edgetpu.resize import ResizePlan, resize_plan
from fitzroy.hw_models.edgetpu.ring import Ring, RingConsumeUnit, RingPlan, RingProduceUnit
from fitzroy.hw_models.edgetpu.sequence import Gate, Numbers
from fitzroy.hw_models.edgetpu.timing.work import tile_work
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import ENGINE_OF, TileEngine, TileFlag
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.tensor import Resize, TensorOp

NARROW, WIDE, SCALING, AVDATA, PARAMETERS, WORDS = range(6)
"""Memories."""

MEMORY_NAMES = (
    "narrow word",
    "wide row",
    "scaling entry",
    "unit of the activation buffer",
    "unit of the parameter buffer",
    "word of scalar memory",
)

_ENTRIES = LANES // 2


@dataclass(eq=False)
class Access:
    """Elements of a memory that a part uses.

    Attributes:
        memory: which.
        write: whether it writes.
        addresses: int64[n].
        positions: element of the part at which each is used, int64[n], in order.
        spans: whether uses come in pairs, the first and the last element of each.
    """

    memory: int
    write: bool
    addresses: Array
    positions: Array
    spans: bool = False

    @cached_property
    def low(self) -> int:
        """The lowest address."""
        return int(self.addresses.min())

    @cached_property
    def high(self) -> int:
        """The highest address."""
        return int(self.addresses.max())

    @cached_property
    def present(self) -> Array:
        """Which addresses from `low` to `high` are used, bool[high - low + 1]."""
        found = np.zeros(self.high - self.low + 1, bool)
        found[self.addresses - self.low] = True
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """The share of one unit, or of one half of a mesh engine, in an instruction.

    Attributes:
        thread: number of the unit; receiving halves of mesh engines come after all engines.
        total: elements.
        gates: what it waits for, at positions of elements.
        marks: flags that it counts, with the numbers of elements done when it does.
        tokens: channel, and the same for ring tokens; None if it produces none.
        bounds: positions at which it can stop, None for all.
    """

    thread: int
    total: int
    gates: tuple[Gate, ...]
    marks: tuple[tuple[int, Numbers], ...]
    tokens: tuple[int, Numbers] | None = None
    bounds: list[int] | None = None


ENGINES = len(TileEngine)
MESH = tuple(engine for engine in TileEngine if engine.name.startswith("MESH"))
THREADS = ENGINES + len(MESH)
RECEIVE = ENGINES - MESH[0]
"""What is added to a mesh engine for the thread of its receiving half."""


_RING = Ring()
"""What units of the ring are made with that only plan."""


def plan_of(issue: Issue) -> Any:
    """The element order of an instruction, made when it is not there yet.

    Raises:
        SimulationError: addresses outside memories, operands that do not fit each other, or a
            resize of a form that no known program has.
    """
    if issue.plan is None:
        instruction = issue.instruction
        core: Any = None
        match instruction:
            case TensorOp():
                issue.plan = plan(instruction)
            case NarrowToWide():
                issue.plan = NarrowToWideUnit(core).plan(issue)
            case WideToNarrow():
                issue.plan = WideToNarrowUnit(core).plan(issue)
            case RingProduce():
                issue.plan = RingProduceUnit(core, _RING).plan(issue)
            case RingConsume():
                issue.plan = RingConsumeUnit(core, _RING, 0).plan(issue)
            case Mesh():
                issue.plan = MeshUnit(core, instruction.op).plan(issue)
            case Resize():
                issue.plan = resize_plan(instruction)
    return issue.plan


def parts_of(issue: Issue) -> tuple[Part, ...]:
    """The parts of an instruction for tiles.

    Raises:
        SimulationError: as `plan_of`.
    """
    found = plan_of(issue)
    engine = ENGINE_OF[issue.instruction.op]
    parts = []
    for half, work in enumerate(tile_work(issue)):
        gates = tuple(watch.gate for watch in work.watches)
        marks = tuple((mark.flag, mark.positions) for mark in work.marks)
        tokens = None
        if work.tokens is not None:
            tokens = (work.tokens.flag - TileFlag.RING_PRODUCER_A, work.tokens.positions)
        bounds = found.bounds if isinstance(issue.instruction, NarrowToWide) else None
        # What has no elements, such as a table, still takes its turn.
        total = work.elements if isinstance(found, MeshPlan) else max(1, work.elements)
        parts.append(Part(engine + half * RECEIVE, total, gates, marks, tokens, bounds))
    return tuple(parts)


def _rows(found: ConversionPlan) -> tuple[Array, Array]:
    """Rows of a conversion at their first and last elements."""
    ends = np.stack([found.starts[:-1], found.starts[1:] - 1], axis=1)
    return np.repeat(found.rows, 2), ends.reshape(-1)


def accesses_of(issue: Issue) -> tuple[tuple[Access, ...], ...]:
    """The memory that each part of an instruction uses."""
    found, instruction = plan_of(issue), issue.instruction
    match found:
        case OpPlan():
            return (tuple(_op(found)),)
        case ResizePlan():
            outputs, taps = found.words.shape
            steps, done = np.arange(found.steps), np.arange(outputs) * taps + taps - 1
            return (
                (
                    Access(NARROW, False, found.words.reshape(-1), steps),
                    Access(NARROW, True, found.b, done),
                ),
            )
        case ConversionPlan():
            rows, ends = _rows(found)
            narrow, words = found.narrow, np.arange(len(found.narrow))
            inward = isinstance(instruction, NarrowToWide)
            to_scaling = isinstance(instruction, WideToNarrow) and instruction.to_scaling
            space = SCALING if to_scaling else NARROW
            return (
                (
                    Access(WIDE, inward, rows, ends, spans=True),
                    Access(space, not inward, narrow, words),
                ),
            )
        case RingPlan():
            write = isinstance(instruction, RingConsume)
            return ((Access(WIDE, write, found.rows, np.arange(len(found.rows))),),)
        case MeshPlan():
            return (_words(found.send, write=False), _words(found.receive, write=True))
    return ((),)


def _words(half: HalfPlan, *, write: bool) -> tuple[Access, ...]:
    if not len(half.words):
        return ()
    return (Access(NARROW, write, half.words, np.arange(len(half.words))),)


def _op(found: OpPlan) -> list[Access]:
    op = found.op
    steps = np.arange(found.steps)
    accesses = []
    if found.a is not None:
        first, last = found.a >> 2, found.a + found.input_bytes - 1 >> 2
        addresses, places = first, steps
        if np.any(first != last):
            addresses = np.stack([first, last], axis=1).reshape(-1)
            places = np.repeat(steps, 2)
        accesses.append(Access(NARROW, False, addresses, places))
    rows, at = [found.c >> 2], [steps]
    runs = np.asarray(found.runs)
    if op.zero_points_in_memory:
        # Zero points of a block are read as long as it lasts.
        base, step, last_row = op.zero_point_base, op.zero_point_step, op.zero_point_last
        count = int(found.blocks.max()) + 1
        slots, row = np.empty(count, np.int64), base
        for number in range(count):
            slots[number] = row
            row += step
            if row > last_row:
                row = base
        zero = slots[found.blocks]
        rows.append(np.stack([zero, zero], axis=1).reshape(-1))
        at.append(np.stack([runs[:-1], runs[1:] - 1], axis=1).reshape(-1))
        order = np.argsort(np.concatenate(at), kind="stable")
        rows, at = [np.concatenate(rows)[order]], [np.concatenate(at)[order]]
    accesses.append(Access(WIDE, False, rows[0], at[0]))
    if found.d is not None:
        accesses.append(Access(WIDE, True, found.d >> 2, steps))
    ends = runs[1:] - 1
    sizes = np.diff(found.words)
    if len(found.b):
        accesses.append(Access(NARROW, True, found.b, np.repeat(ends, sizes)))
    for on, base in ((op.scale_in_memory, 0), (op.bias_in_memory, 2 * _ENTRIES)):
        if on:
            done = found.last.astype(bool)
            slot = base + (found.blocks[done] & 1) * _ENTRIES
            lanes = np.arange(-(-op.lanes // 2))
            entries = (slot[:, None] + lanes).reshape(-1)
            accesses.append(Access(SCALING, False, entries, np.repeat(ends[done], len(lanes))))
    return accesses
