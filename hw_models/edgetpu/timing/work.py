"""What each instruction asks of its engine: elements, their rate, what they wait for and count."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.conversion import ConversionPlan
from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.mesh import DIRECTIONS, HalfPlan, MeshPlan
from fitzroy.hw_models.edgetpu.op_plan import OpPlan
from fitzroy.hw_models.edgetpu.resize import ResizePlan
from fitzroy.hw_models.edgetpu.ring import RingPlan
from fitzroy.hw_models.edgetpu.sequence import Gate, Numbers, as_array, numbers
from fitzroy.hw_models.edgetpu.stream import (
    HOST_UNIT_BYTES,
    WORD_BYTES,
    StreamPlan,
)
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, ScalarFlag, TileFlag
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.tensor import Resize, TensorOp

TIMING = BEAGLE.timing


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a flag counts.

    Attributes:
        flag: number of the flag.
        positions: elements that are done when it does, in order.
    """

    flag: int
    positions: Numbers

    def within(self, position: int, end: int) -> Sequence[int]:
        """Those after a position, up to an end."""
        positions = self.positions
        return positions[bisect_right(positions, position) : bisect_right(positions, end)]


@dataclass(frozen=True, slots=True)
class Watch:
    """A watcher, at positions of the engine's elements."""

    gate: Gate
    begins: Numbers


@dataclass(frozen=True, slots=True)
class Work:
    """One instruction on one engine; of a mesh instruction, one half.

    Attributes:
        elements: how many.
        rate: cycles of an element.
        watches: what it waits for.
        marks: what it counts.
        tokens: where it produces ring tokens.
    """

    elements: int
    rate: float
    watches: tuple[Watch, ...] = ()
    marks: tuple[Mark, ...] = ()
    tokens: Mark | None = None

    @property
    def room(self) -> Watch | None:
        """What makes room for its elements, if it waits for nothing else."""
        if len(self.watches) == 1 and self.watches[0].gate.watcher.increment > 0:
            return self.watches[0]
        return None


def _watches(gates: Sequence[Gate]) -> tuple[Watch, ...]:
    return tuple([Watch(gate, gate.positions) for gate in gates])


def _marks(*pairs: tuple[int, Numbers | Array | None]) -> tuple[Mark, ...]:
    return tuple(
        Mark(flag, numbers(ends) if isinstance(ends, np.ndarray) else ends)
        for flag, ends in pairs
        if ends is not None
    )


def _tokens(channel: int, ends: Numbers | Array | None) -> Mark | None:
    marks = _marks((TileFlag.RING_PRODUCER_A + channel, ends))
    return marks[0] if marks else None


def tile_work(issue: Issue) -> tuple[Work, ...]:
    """The work of an instruction for tiles; a mesh instruction has two, sending and receiving."""
    instruction, plan = issue.instruction, issue.plan
    match instruction, plan:
        case TensorOp(), OpPlan():
            return (_tensor(plan),)
        case Resize(), ResizePlan():
            return (Work(plan.steps, TIMING.resize_step),)
        case NarrowToWide(), ConversionPlan():
            rows = None if plan.ends is None else plan.starts[as_array(plan.ends)]
            return (_conversion(plan, (TileFlag.NARROW_TO_WIDE, rows)),)
        case WideToNarrow(), ConversionPlan():
            flag = TileFlag.WIDE_TO_SCALING if instruction.to_scaling else TileFlag.WIDE_TO_NARROW
            return (_conversion(plan, (flag, plan.ends)),)
        case RingProduce(), RingPlan():
            return (
                Work(
                    len(plan.rows),
                    TIMING.ring_row,
                    _watches(plan.gates),
                    _marks((TileFlag.RING_WRITE, plan.ends)),
                    _tokens(instruction.channel, plan.tokens),
                ),
            )
        case RingConsume(), RingPlan():
            flag = (
                TileFlag.RING_READ_A
                if instruction.op is Opcode.RING_CONSUME_A
                else TileFlag.RING_READ_B
            )
            return (
                Work(
                    len(plan.rows),
                    TIMING.ring_row,
                    _watches(plan.gates),
                    _marks((flag, plan.ends)),
                ),
            )
        case Mesh(), MeshPlan():
            direction = DIRECTIONS[instruction.op]
            rate = TIMING.mesh_fill_word if instruction.fill else TIMING.mesh_word
            return (
                _half(plan.send, TIMING.mesh_word, direction.sent),
                _half(plan.receive, rate, direction.received),
            )
    # The table of the non-linear unit; no measurement depends on how long it takes to load.
    return (Work(0, 0),)


def _tensor(plan: OpPlan) -> Work:
    words = int(plan.words[-1])
    # A word of output per cycle: steps with more of them than cycles are stretched.
    rate = TIMING.op_step * max(1.0, words / plan.steps)
    avdata = None
    if plan.avdata is not None and words:
        run = np.searchsorted(plan.words, plan.avdata) - 1
        avdata = plan.runs[np.minimum(run + 1, len(plan.runs) - 1)]
    return Work(
        plan.steps,
        rate,
        _watches(plan.gates),
        _marks((TileFlag.AVDATA, avdata), (TileFlag.PARAMETERS, plan.parameters)),
    )


def _conversion(plan: ConversionPlan, mark: tuple[int, Numbers | Array | None]) -> Work:
    return Work(len(plan.narrow), TIMING.conversion_word, _watches(plan.gates), _marks(mark))


def _half(plan: HalfPlan, rate: float, flag: int) -> Work:
    return Work(len(plan.words), rate, _watches(plan.gates), _marks((flag, plan.ends)))


_INFEED_FLAG = {
    InfeedMemory.PARAMETER: ScalarFlag.PARAMETER_INFEED,
    InfeedMemory.ACTIVATION: ScalarFlag.AVDATA_INFEED,
    InfeedMemory.SCALAR: ScalarFlag.SCALAR_INFEED,
}
_UNIT_BYTES = {
    InfeedMemory.PARAMETER: BEAGLE.memories.parameter_buffer.element_bytes,
    InfeedMemory.ACTIVATION: BEAGLE.memories.activation_buffer.element_bytes,
    InfeedMemory.SCALAR: WORD_BYTES,
}
_UNIT_CYCLES = {
    InfeedMemory.PARAMETER: TIMING.parameter_unit,
    InfeedMemory.ACTIVATION: TIMING.activation_unit,
    InfeedMemory.SCALAR: TIMING.fifo_word,
}


def stream_work(instruction: Pop | Infeed | Outfeed, plan: StreamPlan) -> tuple[Work, ...]:
    """The work of a stream instruction.

    A pop has units, an outfeed rows of the ring; an infeed has rows that it sends, and units that
    it reads for them.
    """
    total = len(plan.order)
    match instruction:
        case Pop():
            flag = (
                ScalarFlag.PARAMETER_POP
                if instruction.memory is PopMemory.PARAMETER
                else ScalarFlag.AVDATA_POP
            )
            # What limits a pop is the host, not the buffer.
            return (Work(total, 0.0, _watches(plan.gates), _marks((flag, plan.ends))),)
        case Infeed():
            unit = unit_bytes(instruction)
            row = row_bytes(instruction)
            tokens = None if plan.tokens is None else -(-as_array(plan.tokens) * unit // row)
            flag = _INFEED_FLAG[instruction.memory]
            rate = _UNIT_CYCLES[instruction.memory]
            return (
                Work(
                    -(-total * unit // row),
                    TIMING.ring_row,
                    tokens=_tokens(instruction.channel, tokens),
                ),
                Work(total, rate, _watches(plan.gates), _marks((flag, plan.ends))),
            )
        case Outfeed():
            unit = unit_bytes(instruction)
            row = row_bytes(instruction)
            ends = None if plan.ends is None else -(-as_array(plan.ends) * unit // row)
            return (
                Work(
                    -(-total * unit // row),
                    # The bus to the host is as wide in one direction as in the other.
                    max(TIMING.ring_row, row / HOST_UNIT_BYTES * TIMING.activation_unit),
                    tuple([_by_rows(gate, unit, row) for gate in plan.gates]),
                    _marks((ScalarFlag.RING_OUTFEED, ends)),
                ),
            )


def _by_rows(gate: Gate, unit: int, row: int) -> Watch:
    """A watcher of units at the rows that these begin.

    Of several iterations that begin in one row, the last one decides if it waits for most.

    Args:
        gate: the watcher, at positions of units.
        unit: bytes of a unit.
        row: bytes of a row.
    """
    rows = numbers(gate.begins * unit // row)
    watcher, units = gate.watcher, gate.positions
    if watcher.increment <= 0 or not isinstance(units, range) or units.start:
        return Watch(gate, rows)
    together, rest = divmod(row, unit * units.step)
    if rest or not together or len(units) % together:
        return Watch(gate, rows)
    last = replace(
        watcher,
        threshold=watcher.threshold + (together - 1) * watcher.increment,
        increment=together * watcher.increment,
    )
    rows = range(len(units) // together)
    return Watch(Gate(last, rows, len(rows)), rows)


def unit_bytes(instruction: Pop | Infeed | Outfeed) -> int:
    """Bytes of a unit."""
    match instruction:
        case Pop(memory=PopMemory.PARAMETER):
            return _UNIT_BYTES[InfeedMemory.PARAMETER]
        case Pop():
            return _UNIT_BYTES[InfeedMemory.ACTIVATION]
        case Infeed():
            return _UNIT_BYTES[instruction.memory]
        case Outfeed():
            return HOST_UNIT_BYTES if instruction.to_host else WORD_BYTES


def row_bytes(instruction: Infeed | Outfeed) -> int:
    """Bytes of a row of the ring that count."""
    return WORD_BYTES * instruction.row_words
