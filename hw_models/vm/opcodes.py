"""Opcodes of the IREE virtual machine, each declared once.

From a declaration come decoding, encoding, assembly, the reference page, and what the verifier
checks of registers. What an opcode does is in `fitzroy.hw_models.vm.interpreter`.

Facts: ``iree/vm/bytecode_op_table.h`` and ``VMBase.td`` of google/iree. In February 2020 the first
eight opcodes were renumbered, and nothing in a file says which numbers it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.vm.operands import KINDS, Labels, Reader


class Dialect(Enum):
    """Which numbers opcodes have."""

    B = "February to March 2020"
    A = "December 2019 to February 2020"


@dataclass(frozen=True, slots=True)
class Opcode:
    """An opcode.

    Attributes:
        code: its byte.
        name: its name.
        kinds: letters of its operands, see `operands.KINDS`.
        meaning: what it does.
        ends: whether what follows it is not executed after it.
    """

    code: int
    name: str
    kinds: str
    meaning: str
    ends: bool = False


_LATER = (
    Opcode(0x00, "global.load.i32", "Gd", "read a 32-bit global"),
    Opcode(0x01, "global.store.i32", "Gs", "write a 32-bit global"),
    Opcode(0x02, "global.load.indirect.i32", "sd", "read the global at a byte in a register"),
    Opcode(0x03, "global.store.indirect.i32", "ss", "write the global at a byte in a register"),
    Opcode(0x04, "global.load.ref", "YTM", "read a global reference; ! takes it out"),
    Opcode(0x05, "global.store.ref", "YTS", "write a global reference"),
    Opcode(0x06, "global.load.indirect.ref", "sTM", "read the reference numbered in a register"),
    Opcode(0x07, "global.store.indirect.ref", "sTS", "write the reference numbered in a register"),
)
_EARLIER = (
    Opcode(0x00, "global.load.i32", "Nd", "read a 32-bit global"),
    Opcode(0x01, "global.store.i32", "Ns", "write a 32-bit global"),
    Opcode(0x02, "global.load.ref", "YTM", "read a global reference; ! takes it out"),
    Opcode(0x03, "global.store.ref", "YTS", "write a global reference"),
    Opcode(0x04, "global.reset.ref", "Y", "make a global reference null"),
)
COMMON = (
    Opcode(0x08, "const.i32.zero", "d", "0"),
    Opcode(0x09, "const.i32", "Id", "a number"),
    Opcode(0x0A, "const.ref.zero", "D", "null"),
    Opcode(0x0B, "const.ref.rodata", "KD", "a read-only segment"),
    Opcode(0x20, "select.i32", "sssd", "the second operand, or the third if the first is 0"),
    Opcode(0x21, "select.ref", "sTSSD", "one of two references; the other is released if taken"),
    Opcode(0x22, "add.i32", "ssd", "sum, modulo 2^32"),
    Opcode(0x23, "sub.i32", "ssd", "difference, modulo 2^32"),
    Opcode(0x24, "mul.i32", "ssd", "product, modulo 2^32"),
    Opcode(0x25, "div.i32.s", "ssd", "quotient towards 0; traps on 0 and on overflow"),
    Opcode(0x26, "div.i32.u", "ssd", "unsigned quotient; traps on 0"),
    Opcode(0x27, "rem.i32.s", "ssd", "remainder with the sign of the dividend; traps as div"),
    Opcode(0x28, "rem.i32.u", "ssd", "unsigned remainder; traps on 0"),
    Opcode(0x29, "not.i32", "sd", "all bits inverted"),
    Opcode(0x2A, "and.i32", "ssd", "bits of both"),
    Opcode(0x2B, "or.i32", "ssd", "bits of either"),
    Opcode(0x2C, "xor.i32", "ssd", "bits of one"),
    Opcode(0x2D, "shl.i32", "sBd", "shift to the left"),
    Opcode(0x2E, "shr.i32.s", "sBd", "shift to the right, with the sign"),
    Opcode(0x2F, "shr.i32.u", "sBd", "shift to the right, with zeros"),
    Opcode(0x31, "trunc.i8", "sd", "low 8 bits, with zeros"),
    Opcode(0x32, "trunc.i16", "sd", "low 16 bits, with zeros"),
    Opcode(0x33, "ext.i8.i32.s", "sd", "low 8 bits, with their sign"),
    Opcode(0x34, "ext.i16.i32.s", "sd", "low 16 bits, with their sign"),
    Opcode(0x40, "cmp.eq.i32", "ssd", "1 if equal, else 0"),
    Opcode(0x41, "cmp.ne.i32", "ssd", "1 if not equal"),
    Opcode(0x42, "cmp.lt.i32.s", "ssd", "1 if less"),
    Opcode(0x43, "cmp.lt.i32.u", "ssd", "1 if less, unsigned"),
    Opcode(0x44, "cmp.lte.i32.s", "ssd", "1 if less or equal"),
    Opcode(0x45, "cmp.lte.i32.u", "ssd", "1 if less or equal, unsigned"),
    Opcode(0x46, "cmp.gt.i32.s", "ssd", "1 if greater"),
    Opcode(0x47, "cmp.gt.i32.u", "ssd", "1 if greater, unsigned"),
    Opcode(0x48, "cmp.gte.i32.s", "ssd", "1 if greater or equal"),
    Opcode(0x49, "cmp.gte.i32.u", "ssd", "1 if greater or equal, unsigned"),
    Opcode(0x4A, "cmp.eq.ref", "SSd", "1 if both are the same object"),
    Opcode(0x4B, "cmp.ne.ref", "SSd", "1 if they are not the same object"),
    Opcode(0x4C, "cmp.nz.ref", "Sd", "1 if not null"),
    Opcode(0x50, "br", "L", "go on elsewhere", ends=True),
    Opcode(0x51, "cond_br", "sLL", "go on at the first place, or the second if 0", ends=True),
    Opcode(0x52, "call", "FAR", "call a function"),
    Opcode(0x53, "call.variadic", "FVAR", "call an import with segments of arguments"),
    Opcode(0x54, "return", "A", "leave the function with results", ends=True),
    Opcode(0x60, "yield", "", "interrupt the function, which no caller survives", ends=True),
    Opcode(0x7C, "trace", "ZA", "an event for a debugger"),
    Opcode(0x7D, "print", "ZA", "a text for a debugger"),
    Opcode(0x7E, "cond_break", "sL", "a stop for a debugger if not 0; goes on at the place", True),
    Opcode(0x7F, "break", "L", "a stop for a debugger; goes on at the place", ends=True),
)

OPCODES: dict[Dialect, dict[int, Opcode]] = {
    Dialect.B: {item.code: item for item in (*_LATER, *COMMON)},
    Dialect.A: {item.code: item for item in (*_EARLIER, *COMMON)},
}
"""Opcodes by their byte."""

NAMES: dict[Dialect, dict[str, Opcode]] = {
    dialect: {item.name: item for item in table.values()} for dialect, table in OPCODES.items()
}
"""Opcodes by their name."""

ARROW = "R"
"""Operands of this kind come after an arrow."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An opcode and its operands.

    Attributes:
        opcode: the opcode.
        operands: a value for each of its kinds.
    """

    opcode: Opcode
    operands: tuple[Any, ...] = ()

    def encode(self) -> bytes:
        """Its bytes.

        Raises:
            FormatError: an operand that cannot be encoded.
        """
        pairs = zip(self.opcode.kinds, self.operands, strict=True)
        return bytes([self.opcode.code]) + b"".join(KINDS[k].write(value) for k, value in pairs)

    def text(self, labels: Labels) -> str:
        """Its assembly."""
        parts = [self.opcode.name]
        for kind, value in zip(self.opcode.kinds, self.operands, strict=True):
            parts += ["->"] * (kind == ARROW) + [KINDS[kind].text(value, labels)]
        return " ".join(parts)


def decode(code: bytes, pc: int, dialect: Dialect = Dialect.B) -> tuple[Instruction, int]:
    """The instruction at a byte, and where the next one begins.

    Raises:
        FormatError: no opcode, operands of the wrong bank, or beyond the end of the code.
    """
    reader = Reader(code, pc)
    number = reader.u8()
    opcode = OPCODES[dialect].get(number)
    if opcode is None:
        raise FormatError(f"{number:#04x} is no opcode", offset=pc)
    try:
        values = tuple(KINDS[kind].read(reader) for kind in opcode.kinds)
    except FormatError as error:
        raise FormatError(f"{opcode.name}: {error.what}", offset=pc) from None
    return Instruction(opcode, values), reader.position


def decode_all(code: bytes, dialect: Dialect = Dialect.B) -> Iterator[tuple[int, Instruction]]:
    """All instructions of a function with their places.

    Raises:
        FormatError: as `decode`.
    """
    pc = 0
    while pc < len(code):
        instruction, following = decode(code, pc, dialect)
        yield pc, instruction
        pc = following


def assemble(instructions: Sequence[Instruction]) -> bytes:
    """Bytes of instructions.

    Raises:
        FormatError: an operand that cannot be encoded.
    """
    return b"".join(item.encode() for item in instructions)
