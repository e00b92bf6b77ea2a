"""Field codecs of the instruction set: opcodes, tile sets, flags, registers, producers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from fitzroy.base.bits import BitSet, integer, misfit
from fitzroy.base.errors import FormatError
from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.isa.counters import signed16


class Opcode(IntEnum):
    """Bits 6 to 11 of the first bundle of every instruction."""

    MAC = 0x01
    MAX = 0x02
    SUM = 0x03
    RESIZE = 0x05
    RING_PRODUCE = 0x10
    RING_CONSUME_A = 0x11
    RING_CONSUME_B = 0x12
    NARROW_TO_WIDE = 0x13
    WIDE_TO_NARROW = 0x14
    MESH_SOUTHWARD = 0x15
    MESH_WESTWARD = 0x16
    MESH_NORTHWARD = 0x17
    MESH_EASTWARD = 0x18
    NLU_TABLE = 0x19
    TILE_FENCE = 0x1A
    SCALAR = 0x20
    HALT = 0x21
    BRANCH = 0x22
    LOOP = 0x23
    SCALAR_FENCE = 0x24
    POP = 0x25
    INFEED = 0x26
    OUTFEED = 0x27
    START = 0x3E
    END = 0x3F


class TileFlag(IntEnum):
    """Counters of a tile, 16 bits each, named after the unit that increments them."""

    AVDATA = 0
    PARAMETERS = 1
    PARTIAL_SUMS = 2
    MESH_NORTH_IN = 3
    MESH_EAST_IN = 4
    MESH_SOUTH_IN = 5
    MESH_WEST_IN = 6
    MESH_NORTH_OUT = 7
    MESH_EAST_OUT = 8
    MESH_SOUTH_OUT = 9
    MESH_WEST_OUT = 10
    WIDE_TO_NARROW = 11
    WIDE_TO_SCALING = 12
    NARROW_TO_WIDE = 13
    RING_READ_A = 14
    RING_READ_B = 15
    RING_WRITE = 16
    RING_PRODUCER_A = 17
    RING_PRODUCER_B = 18


class ScalarFlag(IntEnum):
    """Counters of the scalar core, 16 bits each."""

    AVDATA_POP = 0
    PARAMETER_POP = 1
    AVDATA_INFEED = 2
    PARAMETER_INFEED = 3
    SCALAR_INFEED = 4
    PRODUCER_A = 5
    PRODUCER_B = 6
    RING_OUTFEED = 7
    SCALAR_PIPELINE = 8


class TileEngine(IntEnum):
    """Engines of a tile, as bits of a tile fence. Which of 2 to 4 is which is LIKELY only."""

    OP = 0
    WIDE_TO_NARROW = 1
    RING_CONSUME_A = 2
    RING_CONSUME_B = 3
    RING_PRODUCE = 4
    NARROW_TO_WIDE = 5
    MESH_SOUTHWARD = 6
    MESH_WESTWARD = 7
    MESH_NORTHWARD = 8
    MESH_EASTWARD = 9


_OP_ENGINE = (Opcode.MAC, Opcode.MAX, Opcode.SUM, Opcode.RESIZE, Opcode.NLU_TABLE)
ENGINE_OF = dict.fromkeys(_OP_ENGINE, TileEngine.OP) | {
    Opcode[engine.name]: engine for engine in TileEngine if engine is not TileEngine.OP
}
"""Which engine executes an opcode."""


class StreamEngine(IntEnum):
    """Stream engines, as bits of a scalar fence. The meaning of PIPELINE is UNKNOWN."""

    AVDATA_POP = 0
    PARAMETER_POP = 1
    INFEED = 2
    OUTFEED = 3
    PIPELINE = 4


TILE_FLAGS = BitSet(TileFlag, 19, {"all": 0x7FFFF, "local": 0x1FFFF})
SCALAR_FLAGS = BitSet(ScalarFlag, 9, {"all": 0x1FF})
TILE_ENGINES = BitSet(TileEngine, 10, {"all": 0x3FF})
STREAM_ENGINES = BitSet(StreamEngine, 5, {"all": 0x1F})

_TERM = re.compile(r"r([0-3]{1,4})c([0-3]{1,4})")


class TileSet:
    """A set of tiles of the 4 x 4 grid as a mask; bit = 4 * row + column.

    Text is a union of rectangles, rows that use the same columns together: ``r01c23`` is rows
    0 and 1, columns 2 and 3; ``all`` and ``none``.
    """

    __slots__ = ("_masks", "_texts")
    width = 16
    kind = "set of tiles, bit = 4 * row + column"

    def __init__(self) -> None:
        self._texts: dict[int, str] = {0: "none", 0xFFFF: "all"}
        self._masks: dict[str, int] = {"none": 0, "all": 0xFFFF}

    def decode(self, raw: int) -> int:
        return raw

    def encode(self, value: int) -> int:
        if 0 <= value <= 0xFFFF:
            return value
        raise misfit(value, "a set of 16 tiles")

    def text(self, value: int) -> str:
        if value not in self._texts:
            rows: dict[int, str] = {}
            for row in range(4):
                columns = value >> 4 * row & 0xF
                rows[columns] = rows.get(columns, "") + str(row)
            rows.pop(0, None)
            self._texts[value] = "+".join(
                f"r{text}c{''.join(str(c) for c in range(4) if columns >> c & 1)}"
                for columns, text in rows.items()
            )
        return self._texts[value]

    def parse(self, text: str) -> int:
        if text in self._masks:
            return self._masks[text]
        mask = 0
        for term in text.split("+"):
            match = _TERM.fullmatch(term)
            if match is None:
                raise misfit(term[:40], "a set of tiles such as all, r0c0 or r01c23")
            for row in match[1]:
                for column in match[2]:
                    mask |= 1 << 4 * int(row) + int(column)
        if len(self._masks) < 1 << 16:
            self._masks[text] = mask
        return mask


TILES = TileSet()


@dataclass(frozen=True, slots=True)
class Numbered:
    """Number of one of several equal things, such as a register: a letter and the number."""

    letter: str
    width: int

    @property
    def kind(self) -> str:
        return f"{self.letter}0 to {self.letter}{(1 << self.width) - 1}"

    def decode(self, raw: int) -> int:
        return raw

    def encode(self, value: int) -> int:
        if 0 <= value >> self.width < 1:
            return value
        raise misfit(value, f"one of {self.kind}")

    def text(self, value: int) -> str:
        return f"{self.letter}{value}"

    def parse(self, text: str) -> int:
        if text.startswith(self.letter) and text[1:].isascii() and text[1:].isdigit():
            return integer(text[1:].lstrip("0") or "0")
        raise misfit(text[:40], f"one of {self.kind}")


REGISTER = Numbered("s", 5)
PREDICATE = Numbered("p", 3)


class Piece(NamedTuple):
    """A group of bits inside a codec, for reference pages."""

    name: str
    first: int
    width: int
    kind: str


@dataclass(frozen=True, slots=True)
class Producer:
    """Increments the engine's flag each time an iteration of a level is complete."""

    level: int
    valid: bool = True


class ProducerCodec:
    """A producer: a valid bit and a level. Text ``@level``, with ``off`` before it if not valid.

    Args:
        level_width: bits of the level.
    """

    __slots__ = ("width",)
    kind = "producer: valid (1 bit), level; counts completed iterations of a level"

    def __init__(self, level_width: int) -> None:
        self.width = 1 + level_width

    def layout(self) -> tuple[Piece, ...]:
        return (Piece("valid", 0, 1, "flag"), Piece("level", 1, self.width - 1, "unsigned"))

    def decode(self, raw: int) -> Producer | None:
        return Producer(raw >> 1, bool(raw & 1)) if raw else None

    def encode(self, value: Producer | None) -> int:
        if value is None:
            return 0
        if 0 <= value.level < 1 << self.width - 1:
            return int(value.valid) | value.level << 1
        raise misfit(value.level, f"a level of {self.width - 1} bits")

    def text(self, value: Producer | None) -> str:
        if value is None:
            return "none"
        return f"@{value.level}" if value.valid else f"off@{value.level}"

    def parse(self, text: str) -> Producer | None:
        if text == "none":
            return None
        off, at, level = text.partition("@")
        if not at or off not in ("", "off"):
            raise misfit(text[:40], "a producer such as @1")
        return Producer(integer(level), not off)


class Side(IntEnum):
    """Half of an instruction that a watcher gates."""

    READ = 0
    WRITE = 1


@dataclass(frozen=True, slots=True)
class Watcher:
    """Before iteration i of a level: wait until flag >= threshold + increment * i.

    Compared as a signed difference of 16 bits, so that flags and thresholds may wrap.
    """

    flag: int
    level: int
    threshold: int
    increment: int = 0
    valid: bool = True
    side: Side = Side.READ


_WATCHER = re.compile(
    r"(?P<off>off )?(?P<flag>\w{1,20})>=(?P<threshold>-?\d{1,6})(?P<increment>[+-]\d{1,6}\*i)?"
    r"@(?P<level>\d)(?P<write> write)?"
)


class WatcherCodec:
    """A wait condition. Text ``flag>=threshold+increment*i@level``, then `` write`` for side 1.

    Args:
        flags: which counters it can watch.
        flag_width: bits of the flag number.
        level_width: bits of the level.
        sided: there is a bit for the side.
    """

    __slots__ = ("_by_name", "_level", "_names", "_sided", "_threshold", "width")
    kind = "watcher: flag, level, threshold (signed 16), increment (signed 16), valid, side"

    def __init__(
        self, flags: type[IntEnum], flag_width: int, level_width: int, *, sided: bool
    ) -> None:
        self._names = {flag.value: flag.name.lower() for flag in flags}
        self._by_name = {name: number for number, name in self._names.items()}
        self._level = (flag_width, level_width)
        self._threshold = flag_width + level_width
        self._sided = sided
        self.width = self._threshold + 33 + sided

    def layout(self) -> tuple[Piece, ...]:
        flag, level = self._level
        at = self._threshold
        side = (Piece("side", at + 33, 1, "0 read, 1 write"),) if self._sided else ()
        return (
            Piece("flag", 0, flag, "number of a flag"),
            Piece("level", flag, level, "unsigned"),
            Piece("threshold", at, 16, "signed"),
            Piece("increment", at + 16, 16, "signed"),
            Piece("valid", at + 32, 1, "flag"),
            *side,
        )

    def decode(self, raw: int) -> Watcher | None:
        if not raw:
            return None
        at, (flag, level) = self._threshold, self._level
        number = raw & (1 << flag) - 1
        if number not in self._names:
            raise misfit(number, "the number of a flag")
        return Watcher(
            number,
            raw >> flag & (1 << level) - 1,
            signed16(raw >> at),
            signed16(raw >> at + 16),
            bool(raw >> at + 32 & 1),
            Side(raw >> at + 33),
        )

    def encode(self, value: Watcher | None) -> int:
        if value is None:
            return 0
        at, (flag, level) = self._threshold, self._level
        if not (
            value.flag in self._names
            and 0 <= value.level < 1 << level
            and -0x8000 <= value.threshold <= 0x7FFF
            and -0x8000 <= value.increment <= 0x7FFF
            and (self._sided or value.side == Side.READ)
        ):
            raise misfit(value, f"a watcher of {self.width} bits")
        return (
            value.flag
            | value.level << flag
            | (value.threshold & 0xFFFF) << at
            | (value.increment & 0xFFFF) << at + 16
            | value.valid << at + 32
            | value.side << at + 33
        )

    def text(self, value: Watcher | None) -> str:
        if value is None:
            return "none"
        increment = f"{value.increment:+d}*i" if value.increment else ""
        return (
            f"{'' if value.valid else 'off '}{self._names[value.flag]}"
            f">={value.threshold}{increment}@{value.level}{' write' if value.side else ''}"
        )

    def parse(self, text: str) -> Watcher | None:
        if text == "none":
            return None
        match = _WATCHER.fullmatch(text)
        if match is None or match["flag"] not in self._by_name:
            raise FormatError(
                f"{text[:60]!r} is not a wait condition",
                hint=f"write flag>=threshold@level; the flags are {', '.join(self._by_name)}",
            )
        increment = match["increment"]
        return Watcher(
            self._by_name[match["flag"]],
            int(match["level"]),
            int(match["threshold"]),
            int(increment[:-2]) if increment else 0,
            match["off"] is None,
            Side.WRITE if match["write"] else Side.READ,
        )


RING_WATCHER = WatcherCodec(TileFlag, 5, 2, sided=True)
CONVERSION_WATCHER = WatcherCodec(TileFlag, 5, 3, sided=True)
OP_WATCHER = WatcherCodec(TileFlag, 5, 3, sided=False)
STREAM_WATCHER = WatcherCodec(ScalarFlag, 4, 2, sided=False)

LIKELY = Evidence.LIKELY
UNKNOWN = Evidence.UNKNOWN
