"""What all instructions have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fitzroy.base.bits import Choice, Flag, Record, Unsigned, bits
from fitzroy.hw_models.isa.fields import LIKELY, REGISTER, TILES, Opcode

BUNDLE_BITS = 128
BUNDLE_BYTES = BUNDLE_BITS // 8


def operation(*opcodes: Opcode) -> Any:
    """Declare the opcodes that share a layout; the first is the default."""
    return bits(6, Choice(Opcode, 6, opcodes), "operation", default=opcodes[0])


@dataclass(frozen=True, slots=True)
class Instruction(Record):
    """A whole number of consecutive bundles of 128 bits."""

    width = BUNDLE_BITS
    unit: ClassVar[str]

    op: Opcode = operation(*Opcode)

    @classmethod
    def bundles(cls) -> int:
        """Length in bundles."""
        return cls.width // BUNDLE_BITS


@dataclass(frozen=True, slots=True)
class TileInstruction(Instruction):
    """An instruction that the scalar core sends to tiles, where an engine executes it."""

    tiles: int = bits(12, TILES, "tiles that execute it")
    base_register: int = bits(
        28,
        REGISTER,
        "scalar register that replaces the base of the first traversal; has an enable bit only "
        "in narrow_to_wide",
    )
    tiles_register: int = bits(
        33, REGISTER, "scalar register whose low 16 bits are the tile set", evidence=LIKELY
    )
    tiles_from_register: bool = bits(
        38, Flag(), "take the tile set from `tiles_register`", evidence=LIKELY
    )
    seq: int = bits(46, Unsigned(16), "number of the tile instruction, modulo 65,536")
