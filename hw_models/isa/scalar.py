"""Scalar core: one bundle per instruction, several slots per bundle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fitzroy.base.bits import Choice, Flag, Record, Signed, Unsigned, bits
from fitzroy.hw_models.isa.fields import PREDICATE, REGISTER, UNKNOWN, Opcode
from fitzroy.hw_models.isa.instruction import Instruction, operation


class Load(IntEnum):
    """Load slot; the word is read before any slot of the bundle writes."""

    NONE = 0
    ABSOLUTE = 1
    REGISTER = 2
    INCREMENT = 3


class Store(IntEnum):
    """Store slot."""

    NONE = 0
    ABSOLUTE = 1
    REGISTER = 2
    INCREMENT = 3
    PUSH = 4
    DESCRIPTOR = 5
    ISSUE = 6


class Alu(IntEnum):
    """Operations of the ALU slot; bit 5 set takes operand b from the immediate."""

    NOP = 0x00
    ADD = 0x01
    SUB = 0x02
    AND = 0x03
    OR = 0x04
    XOR = 0x05
    SHL = 0x06
    SHR = 0x07
    ASR = 0x08
    EQ = 0x09
    NE = 0x0A
    GT = 0x0B
    LT = 0x0C
    GE = 0x0D
    GEU = 0x0E
    MOV = 0x0F
    I2F = 0x10
    F2I = 0x11
    FADD = 0x12
    FSUB = 0x13
    FMUL = 0x14
    FMAX = 0x15
    FMIN = 0x16


COMPARES = frozenset({Alu.EQ, Alu.NE, Alu.GT, Alu.LT, Alu.GE, Alu.GEU})
"""Operations whose destination is a predicate."""


class Special(IntEnum):
    """Operations of the slot for transcendental functions, on float32."""

    NONE = 0
    RECIPROCAL = 2
    EXP2 = 3


class DescriptorTag(IntEnum):
    """What a descriptor asks the host for."""

    INPUT = 1
    PARAMETERS = 2
    OUTPUT = 3
    INTERRUPT_0 = 4
    INTERRUPT_1 = 5
    INTERRUPT_2 = 6
    INTERRUPT_3 = 7


class DescriptorSlot(IntEnum):
    """Words of a descriptor; slots keep their values."""

    ADDRESS_LOW = 0
    ADDRESS_HIGH = 1
    SIZE = 2
    TAG = 3


@dataclass(frozen=True, slots=True)
class Indexed(Record):
    """Address field of a load or store that goes through a register."""

    width = 12

    register: int = bits(0, REGISTER, "register with the word address")
    increment: int = bits(
        5, Unsigned(7), "added to the register afterwards; 1 in all instances", unit="word"
    )


@dataclass(frozen=True, slots=True)
class Scalar(Instruction):
    """ALU, load, store and special-function slots; all read before any writes.

    A compare writes a predicate. Store slot kinds beyond memory push a word to the host's output
    stream, write a word of the descriptor, or issue the descriptor.
    """

    width = 128
    unit = "scalar core"

    op: Opcode = operation(Opcode.SCALAR)
    predicated: bool = bits(0, Flag(), "execute only if the predicate has the value `sense`")
    predicate: int = bits(1, PREDICATE, "predicate register")
    sense: bool = bits(4, Flag(), "value of the predicate that lets the bundle execute")
    load: Load = bits(12, Choice(Load, 2), "load slot: address mode")
    load_to: int = bits(14, REGISTER, "destination of the load")
    load_address: int = bits(19, Unsigned(12), "word address, or `Indexed`")
    store: Store = bits(32, Choice(Store, 4), "store slot: address mode, push or descriptor")
    store_address: int = bits(
        36, Unsigned(12), "as `load_address`; number of the word of the descriptor"
    )
    store_from: int = bits(49, REGISTER, "source of the store")
    alu: Alu = bits(54, Choice(Alu, 5), "operation of the ALU slot")
    immediate_b: bool = bits(59, Flag(), "operand b is `immediate`, not a register")
    to: int = bits(60, REGISTER, "destination register, or predicate of a compare")
    a: int = bits(65, REGISTER, "operand a")
    immediate: int = bits(
        70, Unsigned(32, hexadecimal=True), "operand b: a word, or the number of a register"
    )
    special: Special = bits(102, Choice(Special, 3), "operation of the special-function slot")
    special_to: int = bits(105, REGISTER, "its destination")
    special_from: int = bits(110, REGISTER, "its operand")


@dataclass(frozen=True, slots=True)
class Halt(Instruction):
    """End of a chunk; the program continues with the next one unless `end_program`."""

    width = 128
    unit = "scalar core"

    op: Opcode = operation(Opcode.HALT)
    bit14: bool = bits(14, Flag(), "set in some halts between chunks", evidence=UNKNOWN)
    end_program: bool = bits(16, Flag(), "the program is finished")


@dataclass(frozen=True, slots=True)
class Branch(Instruction):
    """Jump relative to the branch itself, without delay slot."""

    width = 128
    unit = "scalar core"

    op: Opcode = operation(Opcode.BRANCH)
    predicated: bool = bits(0, Flag(), "execute only if the predicate has the value `sense`")
    predicate: int = bits(1, PREDICATE, "predicate register")
    sense: bool = bits(4, Flag(), "value of the predicate that lets the bundle execute")
    conditional: bool = bits(12, Flag(), "jump only if `condition` has the value `condition_sense`")
    condition: int = bits(13, PREDICATE, "predicate of the condition")
    condition_sense: bool = bits(16, Flag(), "value that lets the branch jump")
    offset: int = bits(17, Signed(15), "distance of the target", unit="bundle")
    bit33: bool = bits(33, Flag(), "set in all instances", default=True, evidence=UNKNOWN)


@dataclass(frozen=True, slots=True)
class Loop(Instruction):
    """Repeats the bundles that follow, without overhead; bodies are scalar and never nested."""

    width = 128
    unit = "scalar core"

    op: Opcode = operation(Opcode.LOOP)
    count: int = bits(12, Unsigned(16), "how often the body runs")
    length: int = bits(28, Unsigned(16), "size of the body", unit="bundle")


@dataclass(frozen=True, slots=True)
class Start(Instruction):
    """First bundle of a chunk."""

    width = 128
    unit = "instruction fetch"

    op: Opcode = operation(Opcode.START)
    size: int = bits(
        19, Unsigned(32), "size of the chunk without its first and last bundle", unit="bit"
    )


@dataclass(frozen=True, slots=True)
class End(Instruction):
    """Last bundle of a chunk."""

    width = 128
    unit = "instruction fetch"

    op: Opcode = operation(Opcode.END)
    size: int = bits(19, Unsigned(32), "128 in all instances", default=128, unit="bit")
