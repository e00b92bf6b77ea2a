"""Engines between the memories of a tile."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fitzroy.base.bits import Choice, Flag, Series, Unsigned, bits
from fitzroy.hw_models.isa.fields import (
    CONVERSION_WATCHER,
    Opcode,
    Producer,
    ProducerCodec,
    Watcher,
)
from fitzroy.hw_models.isa.instruction import TileInstruction, operation
from fitzroy.hw_models.isa.traversal import NARROW, WIDE, Prefix, PrefixCodec, Traversal


class Transpose(IntEnum):
    """Transposition on the way from narrow to wide memory."""

    NONE = 0
    BYTES = 1
    HALFWORDS = 3


@dataclass(frozen=True, slots=True)
class NarrowToWide(TileInstruction):
    """Packs words of narrow memory into wide rows; word w of a row goes to lane w."""

    width = 7 * 128
    unit = "narrow-to-wide engine"

    op: Opcode = operation(Opcode.NARROW_TO_WIDE)
    narrow: Traversal = bits(62, NARROW, "words read", unit="narrow word")
    wide: Traversal = bits(337, WIDE, "rows written", unit="wide row")
    base_from_register: bool = bits(542, Flag(), "the base of `narrow` comes from `base_register`")
    narrow_to_wide: Producer | None = bits(
        543, ProducerCodec(3), "NARROW_TO_WIDE += 1 per completed iteration of this level of wide"
    )
    wait: tuple[Watcher | None, ...] = bits(
        547,
        Series(CONVERSION_WATCHER, 5),
        "wait conditions; read side counts levels of narrow, write side of wide",
    )
    transpose: Transpose = bits(
        799,
        Choice(Transpose, 2),
        "transpose groups of 4 words as 4 x 4 bytes, or of 2 words as 2 x 2 halfwords",
    )
    pack_level: int = bits(
        801,
        Unsigned(3),
        "a row ends after 64 words, or when the dimensions of narrow below this one complete",
    )


@dataclass(frozen=True, slots=True)
class WideToNarrow(TileInstruction):
    """Unpacks wide rows into words of narrow memory, or into entries of scaling memory."""

    width = 7 * 128
    unit = "wide-to-narrow engine"

    op: Opcode = operation(Opcode.WIDE_TO_NARROW)
    wide: Traversal = bits(62, WIDE, "rows read", unit="wide row")
    narrow: Traversal = bits(
        267, NARROW, "words written; entries of 8 bytes if `to_scaling`", unit="narrow word"
    )
    prefix: Prefix | None = bits(
        542,
        PrefixCodec(3),
        "words before the main ones; they count among the 64 of a row",
        unit="narrow word",
    )
    wide_to_narrow: Producer | None = bits(
        611,
        ProducerCodec(3),
        "WIDE_TO_NARROW, or WIDE_TO_SCALING, += 1 per completed iteration of this level of narrow",
    )
    wait: tuple[Watcher | None, ...] = bits(
        615,
        Series(CONVERSION_WATCHER, 2),
        "wait conditions; read side counts levels of wide, write side of narrow",
    )
    to_scaling: bool = bits(867, Flag(), "the destination is the scaling memory")
    pack_level: int = bits(
        870,
        Unsigned(3),
        "the next row starts after 64 words (32 entries), or when the dimensions of narrow below "
        "this one complete",
    )
