"""Bitstreams: a chunk of bundles as a list of instructions, and back.

One chunk is what the host sends at a time: START, instructions, END. State persists from chunk to
chunk; bundle numbers restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.isa.catalog import BY_OPCODE
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.instruction import (
    BUNDLE_BITS,
    BUNDLE_BYTES,
    Instruction,
    TileInstruction,
)
from fitzroy.hw_models.isa.scalar import Branch, End, Loop, Start

_OPCODE = Instruction.field("op")

NUMBERED = (TileInstruction, TileFence)
"""Instructions that tiles execute, which have sequence numbers."""

NOPS_AFTER_HALT = 4
"""Empty scalar bundles between HALT and END."""


def bundle_count(instructions: Iterable[Instruction]) -> int:
    """Length in bundles."""
    return sum(instruction.bundles() for instruction in instructions)


def disassemble(data: bytes | bytearray | memoryview, *, path: str = "") -> list[Instruction]:
    """All instructions of a bitstream, START and END included.

    Args:
        data: whole bundles of 16 bytes.
        path: name of the file, for errors.

    Raises:
        FormatError: an opcode that does not exist, reserved bits, a truncated instruction.
    """
    data = bytes(data)
    if len(data) % BUNDLE_BYTES:
        raise FormatError(f"a bitstream of {len(data)} bytes, not whole bundles", path=path)
    instructions = []
    at = 0
    while at < len(data):
        head = data[at] | data[at + 1] << 8
        opcode = head >> _OPCODE.first & (1 << _OPCODE.width) - 1
        instruction = BY_OPCODE.get(opcode)
        if instruction is None:
            raise _fault(f"opcode {opcode:#04x} does not exist", at, path)
        size = instruction.width // 8
        raw = int.from_bytes(data[at : at + size], "little")
        if at + size > len(data):
            raise _fault(
                f"{instruction.__name__} needs {size} bytes, {len(data) - at} are left", at, path
            )
        try:
            instructions.append(_decoded(opcode, raw))
        except FormatError as error:
            raise _fault(error.what, at, path, error.table) from None
        at += size
    return instructions


@lru_cache(1 << 14)
def _decoded(opcode: int, raw: int) -> Instruction:
    """An instruction, which may be shared: linking and running decode a program several times."""
    return BY_OPCODE[opcode].unpack(raw)


def _fault(what: str, at: int, path: str, table: str = "") -> FormatError:
    place = f"bundle {at // BUNDLE_BYTES}"
    return FormatError(what, path=path, offset=at, table=f"{place}, {table}" if table else place)


def assemble(instructions: Iterable[Instruction]) -> bytes:
    """Bitstream of instructions; inverse of `disassemble`.

    Raises:
        FormatError: a value does not fit its field.
    """
    return b"".join(
        [
            instruction.pack().to_bytes(instruction.width // 8, "little")
            for instruction in instructions
        ]
    )


def positions(instructions: Iterable[Instruction]) -> Iterator[tuple[int, Instruction]]:
    """Instructions with the numbers of their first bundles."""
    bundle = 0
    for instruction in instructions:
        yield bundle, instruction
        bundle += instruction.bundles()


def chunk(body: Sequence[Instruction]) -> list[Instruction]:
    """A whole chunk around its body: START with its size, the body, END."""
    return [Start(size=bundle_count(body) * BUNDLE_BITS), *body, End()]


def jump_target(bundle: int, instruction: Instruction) -> int | None:
    """Bundle where a branch leads, or after the body of a loop; None for other instructions."""
    if isinstance(instruction, Branch):
        return bundle + instruction.offset
    if isinstance(instruction, Loop):
        return bundle + 1 + instruction.length
    return None


def next_seq(seq: int, count: int = 1) -> int:
    """Sequence number of the tile instruction `count` after one with a number."""
    return seq + count & 0xFFFF


def renumbered(instructions: Iterable[Instruction], first: int) -> Iterator[Instruction]:
    """The same instructions with tile sequence numbers counted from `first`."""
    seq = first
    for instruction in instructions:
        if isinstance(instruction, NUMBERED):
            yield instruction if instruction.seq == seq else replace(instruction, seq=seq)
            seq = next_seq(seq)
        else:
            yield instruction
