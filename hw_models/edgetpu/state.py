"""What stands still in a machine: instructions at the heads of queues, and what they wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitzroy.hw_models.edgetpu.conversion import ConversionPlan
from fitzroy.hw_models.edgetpu.mesh import MeshPlan
from fitzroy.hw_models.edgetpu.op_plan import OpPlan
from fitzroy.hw_models.edgetpu.resize import ResizePlan
from fitzroy.hw_models.edgetpu.ring import RingPlan
from fitzroy.hw_models.edgetpu.stream import StreamPlan
from fitzroy.hw_models.isa.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Head:
    """The instruction that an engine, a dispatcher or a stream unit is at.

    Attributes:
        unit: name of the engine or stream unit, or ``dispatcher``.
        tiles: mask of the tiles that are at the same place, 0 for a stream unit.
        instruction: the instruction.
        chunk: number of its chunk.
        bundle: its first bundle in the chunk.
        done: elements that are done; the two halves of a mesh instruction together.
        total: elements of the instruction, 0 if its engine has not begun it.
        queued: instructions after it, the most of any tile.
        waits: why it does not go on, as a clause.
    """

    unit: str
    tiles: int
    instruction: Instruction
    chunk: int
    bundle: int
    done: int
    total: int
    queued: int
    waits: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is on its way between units.

    Attributes:
        ring: rows that each tile has not taken, by channel and tile.
        outfeed: rows that the outfeed has not taken.
        mesh: words that each tile has not taken, by name of the engine.
        host: bytes from the host that nothing has popped, by name of the queue.
        output: bytes that have left the chip for an output that is not complete.
    """

    ring: tuple[tuple[int, ...], ...]
    outfeed: int
    mesh: dict[str, tuple[int, ...]]
    host: dict[str, int]
    output: int


def done_of(position: Any) -> int:
    """Elements that a position stands for; a mesh engine's has two halves."""
    return int(sum(position)) if isinstance(position, tuple) else int(position)


def total_of(plan: Any) -> int:
    """Elements of a plan, in the units of its positions; 0 if there is no plan."""
    match plan:
        case OpPlan() | ResizePlan():
            return plan.steps
        case ConversionPlan():
            return len(plan.narrow)
        case RingPlan():
            return len(plan.rows)
        case MeshPlan():
            return len(plan.send.words) + len(plan.receive.words)
        case StreamPlan():
            return len(plan.order)
    return 0
