"""Structural forms of instructions: what an instruction does, without how much and where.

Two instructions have the same form if they differ in magnitudes only: addresses, counts, strides,
thresholds, constants, numbers of registers and of instructions, and which tiles. The form keeps
the opcode and every mode: flags, choices, sets of flags and engines, which operands there are and
how many loops each has, ping-pong, partial chunks and prefixes, levels of producers, and on which
flag, level and side an instruction waits, and whether the threshold grows.

What a field contributes follows from the codec of its declaration. The text of a form is the
opcode and ``name=shape`` of every field whose shape differs from that of zero bits, in order of
declaration: ``ring_produce wide=2/ping1 ring_write=@1 token=@2 wait=narrow_to_wide+@1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from fitzroy.base.bits import (
    BitSet,
    Choice,
    Codec,
    Count,
    Flag,
    Float32,
    Optional,
    Series,
    Signed,
    Unsigned,
)
from fitzroy.base.errors import FormatError
from fitzroy.hw_models.isa.fields import (
    Numbered,
    ProducerCodec,
    Side,
    TileSet,
    Watcher,
    WatcherCodec,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.traversal import Prefix, PrefixCodec, Traversal, TraversalCodec

MODE_BITS = 8
"""Unsigned fields of up to so many bits are modes, levels and masks; wider ones are magnitudes."""

TABLE = "published_forms.txt"
"""Forms of published programs: lines of instructions, programs, and the form."""


def shape(codec: Codec, value: Any) -> str:
    """What a value contributes to the form of an instruction; empty for a magnitude.

    Args:
        codec: of the field.
        value: of the field.

    Raises:
        FormatError: nothing says how values of the codec count.
    """
    match codec:
        case Optional():
            return "none" if value is None else shape(codec.inner, value)
        case Series():
            return _series(codec, value)
        case TraversalCodec():
            return _traversal(value)
        case WatcherCodec():
            return "none" if value is None else _watcher(codec, value)
        case PrefixCodec():
            return "none" if value is None else _prefix(value)
        case Unsigned():
            return codec.text(value) if codec.width <= MODE_BITS else ""
        case Count():
            return _count(codec, value)
        case ProducerCodec() | Flag() | Choice() | BitSet():
            return codec.text(value)
        case Signed() | Float32() | Numbered() | TileSet():
            return ""
    raise FormatError(f"no rule says what a {type(codec).__name__} contributes to a form")


def form(instruction: Instruction) -> str:
    """The form of an instruction as text."""
    return written(instruction.op.name.lower(), shapes(instruction))


def written(opcode: str, found: Mapping[str, str]) -> str:
    """The text of a form; the inverse of `parsed`.

    Args:
        opcode: name of the opcode.
        found: shapes by field, in order of declaration.
    """
    return " ".join([opcode, *[f"{name}={shape}" for name, shape in found.items()]])


def shapes(instruction: Instruction) -> dict[str, str]:
    """Shapes by field, of those whose shape differs from that of zero bits."""
    found = {}
    for name, codec, rest in rules(type(instruction)):
        here = shape(codec, getattr(instruction, name))
        if here != rest:
            found[name] = here
    return found


def parsed(text: str) -> tuple[str, dict[str, str]]:
    """Name of the opcode and shapes by field of a form."""
    opcode, *tokens = text.split(" ")
    return opcode, dict(token.split("=", 1) for token in tokens)


def rules(kind: type[Instruction]) -> tuple[tuple[str, Codec, str], ...]:
    """Names and codecs of fields other than the opcode, with the shape of zero bits."""
    if kind not in _RULES:
        _RULES[kind] = tuple(
            (field.name, field.codec, shape(field.codec, field.codec.decode(0)))
            for field in kind.fields()
            if field.name != "op"
        )
    return _RULES[kind]


_RULES: dict[type[Instruction], tuple[tuple[str, Codec, str], ...]] = {}


def _series(codec: Series, values: tuple[Any, ...]) -> str:
    if isinstance(codec.inner, WatcherCodec):
        # All conditions have to hold, so that their order means nothing.
        return "&".join(sorted(shape(codec.inner, value) for value in values if value is not None))
    if isinstance(codec.inner, Count):
        return str(used(values))
    found = [shape(codec.inner, value) for value in values]
    return ",".join(found) if any(found) else ""


def used(counts: tuple[int, ...]) -> int:
    """Number of loops without those after the last one that runs more than once."""
    return max((k + 1 for k, count in enumerate(counts) if count > 1), default=0)


def _traversal(value: Traversal) -> str:
    text = str(used(tuple(dim.count for dim in value.dims)))
    if value.fifo_step:
        text += f"/ping{value.fifo_dim}"
    if value.part_dim:
        text += f"/part{value.part_dim}"
    return text


def _watcher(codec: WatcherCodec, value: Watcher) -> str:
    flag = codec.text(value).partition(">=")[0].replace(" ", ":")
    grows = "+" if value.increment > 0 else "-" if value.increment < 0 else ""
    return f"{flag}{grows}@{value.level}{':write' if value.side is Side.WRITE else ''}"


def _prefix(value: Prefix) -> str:
    return f"{'' if value.enabled else 'off:'}{value.level}{'/moves' if value.step else ''}"


def _count(codec: Count, value: int) -> str:
    return "1" if value == 1 else "all" if value == 1 << codec.width else "n"


# --- forms of published programs -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Occurrence:
    """How often published programs have a form.

    Attributes:
        instructions: instructions of that form.
        programs: programs with such an instruction.
    """

    instructions: int
    programs: int


@cache
def published() -> Mapping[str, Occurrence]:
    """Forms of published programs; `benchmarks.forms` collects them."""
    text = resources.files("fitzroy.hw_models.isa").joinpath(TABLE).read_text(encoding="ascii")
    found = {}
    for line in text.splitlines():
        instructions, programs, form = line.split(" ", 2)
        found[form] = Occurrence(int(instructions), int(programs))
    return found
