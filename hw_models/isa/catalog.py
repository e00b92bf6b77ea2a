"""Which declaration an opcode has."""

from __future__ import annotations

from fitzroy.base.bits import Choice
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.scalar import Branch, End, Halt, Loop, Scalar, Start
from fitzroy.hw_models.isa.stream import Infeed, Outfeed, Pop
from fitzroy.hw_models.isa.tensor import NluTable, Resize, TensorOp

INSTRUCTIONS: tuple[type[Instruction], ...] = (
    TensorOp,
    Resize,
    RingProduce,
    RingConsume,
    NarrowToWide,
    WideToNarrow,
    Mesh,
    NluTable,
    TileFence,
    Scalar,
    Halt,
    Branch,
    Loop,
    ScalarFence,
    Pop,
    Infeed,
    Outfeed,
    Start,
    End,
)
"""All layouts, in order of their first opcodes."""


def opcodes(instruction: type[Instruction]) -> tuple[Opcode, ...]:
    """The opcodes that share a layout."""
    codec = instruction.field("op").codec
    members = codec.members if isinstance(codec, Choice) else ()
    return tuple(Opcode(member) for member in members)


BY_OPCODE: dict[int, type[Instruction]] = {
    opcode.value: instruction for instruction in INSTRUCTIONS for opcode in opcodes(instruction)
}
