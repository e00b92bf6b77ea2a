"""Mutations of bitstreams that know instructions and their fields."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.isa.catalog import INSTRUCTIONS, opcodes
from fitzroy.hw_models.isa.fields import Piece
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import assemble, disassemble

_Code = tuple[Instruction, ...]


def _value(rng: random.Random, width: int) -> int:
    """A raw number, mostly an extreme one."""
    most = (1 << width) - 1
    choice = rng.choice((0, 1, 2, most, most >> 1, (most >> 1) + 1, most - 1, None, None))
    return rng.getrandbits(width) if choice is None else choice & most


def changed(rng: random.Random, instruction: Instruction) -> Instruction:
    """The instruction with another number in a field, or a part of one; itself if that fails."""
    field = rng.choice(type(instruction).fields())
    inner = getattr(field.codec, "inner", field.codec)
    first, width = field.first, field.width
    layout = getattr(inner, "layout", None)
    if layout is not None and rng.random() < 0.9:
        piece: Piece = rng.choice(layout())
        first, width = first + piece.first, piece.width
    raw = instruction.pack() & ~((1 << width) - 1 << first) | _value(rng, width) << first
    return _unpacked(type(instruction), raw) or instruction


def any_instruction(rng: random.Random) -> Instruction | None:
    """Random numbers in some fields of an instruction; None if they mean nothing."""
    cls = rng.choice(INSTRUCTIONS)
    raw = 0
    for field in cls.fields():
        if rng.random() < 0.4:
            raw |= _value(rng, field.width) << field.first
    return _unpacked(cls, raw & cls.declared().owned & ~(0x3F << 6) | rng.choice(opcodes(cls)) << 6)


def _unpacked(cls: type[Instruction], raw: int) -> Instruction | None:
    try:
        return cls.unpack(raw)
    except FormatError:
        return None


@lru_cache(64)
def _read(seed: bytes) -> tuple[_Code, Mapping[int, bytes]]:
    """The instructions of a seed, and the bytes of each one by its identity."""
    code = tuple(disassemble(seed))
    return code, {id(item): assemble([item]) for item in code}


MOST_BYTES = 64 << 10


def bitstream_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A bitstream after one to six changes of instructions; refused bits in some."""
    read, known = _read(seed)
    code = list(read)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        at = rng.randrange(len(code)) if code else 0
        kind = rng.random()
        if kind < 0.5 and code:
            code[at] = changed(rng, code[at])
        elif kind < 0.65:
            made = any_instruction(rng)
            if made is not None:
                code.insert(at, made)
        elif kind < 0.75:
            part = code[at : at + rng.choice((1, 1, 2, 4, 16))]
            times = rng.choice((1, 1, 2, 10))
            if rng.random() < 0.05:
                times = MOST_BYTES // max(1, sum(item.width // 8 for item in part))
            code[at:at] = part * times
        elif kind < 0.85:
            del code[at : at + rng.choice((1, 1, 1, 2, 8))]
        elif kind < 0.95 and code:
            code.insert(rng.randint(0, len(code) - 1), code.pop(at))
        else:
            other = _read(rng.choice(seeds))[0]
            start = rng.randint(0, len(other))
            code[at:at] = other[start : start + 16]
    return b"".join([known.get(id(item)) or assemble([item]) for item in code])
