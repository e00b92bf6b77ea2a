"""Operands of bytecode: what they are, their bytes, and their text.

An operand kind is a `Codec`: `read` takes a value from bytes, `write` gives its bytes, `text` and
`parse` are its assembly. Numbers are little-endian and packed without alignment.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fitzroy.base.bits import integer
from fitzroy.base.errors import FormatError

I32_REGISTERS = 128
REF_REGISTERS = 64

_REF = 0x80
_MOVE = 0x40
_IMPORT = 1 << 31
_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")


class Reader:
    """Bytes that are taken from the front.

    Args:
        data: the bytes.
        position: where to begin.
    """

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def take(self, count: int) -> bytes:
        """So many bytes.

        Raises:
            FormatError: there are not so many left.
        """
        found = self.data[self.position : self.position + count]
        if len(found) < count:
            raise FormatError("an instruction goes beyond the end", offset=self.position)
        self.position += count
        return found

    def u8(self) -> int:
        """A byte."""
        return self.take(1)[0]

    def number(self, layout: struct.Struct) -> int:
        """A number."""
        (value,) = layout.unpack(self.take(layout.size))
        return int(value)


@dataclass(frozen=True, slots=True)
class Register:
    """A register.

    Attributes:
        number: its number in its bank.
        is_ref: whether it holds a reference.
        move: whether its reference is taken out of it.
    """

    number: int
    is_ref: bool = False
    move: bool = False

    @classmethod
    def of(cls, byte: int) -> Register:
        """The register that a byte names."""
        if byte & _REF:
            return cls(byte & REF_REGISTERS - 1, True, bool(byte & _MOVE))
        return cls(byte)

    @property
    def byte(self) -> int:
        """The byte that names it."""
        return self.number | (_REF | (_MOVE if self.move else 0) if self.is_ref else 0)

    def __str__(self) -> str:
        return f"%{'r' if self.is_ref else 'i'}{self.number}{'!' if self.move else ''}"


@dataclass(frozen=True, slots=True)
class Branch:
    """Where to go on, and what is copied between registers before.

    Attributes:
        target: byte of the function's code.
        moves: source and destination of copies, which happen one after the other.
    """

    target: int
    moves: tuple[tuple[Register, Register], ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A function to call.

    Attributes:
        ordinal: its number among imports or internal functions.
        imported: whether it is an import.
    """

    ordinal: int
    imported: bool = False


Labels = Callable[[int], str]
"""Text of a byte of the function's code."""

Places = Callable[[str], int]
"""Byte of the function's code of a text."""


class Codec(Protocol):
    """A kind of operand."""

    @property
    def meaning(self) -> str:
        """What it is, for reference pages."""
        ...

    def read(self, reader: Reader) -> Any:
        """Take a value."""
        ...

    def write(self, value: Any) -> bytes:
        """Bytes of a value."""
        ...

    def text(self, value: Any, labels: Labels) -> str:
        """Text of a value."""
        ...

    def parse(self, text: str, places: Places) -> Any:
        """Value of a text."""
        ...


_REGISTER = re.compile(r"%([ir])(\d{1,3})(!?)")


def parse_register(text: str) -> Register:
    """A register by its text.

    Raises:
        FormatError: no register.
    """
    found = _REGISTER.fullmatch(text)
    if found is not None:
        bank, number, move = found[1], int(found[2]), bool(found[3])
        is_ref = bank == "r"
        if number < (REF_REGISTERS if is_ref else I32_REGISTERS) and (is_ref or not move):
            return Register(number, is_ref, move)
    raise FormatError(f"{text[:40]!r} is no register: %i0 to %i127, %r0 to %r63, %r0! to take")


@dataclass(frozen=True, slots=True)
class RegisterOperand:
    """A register of one bank.

    Attributes:
        is_ref: which bank.
        written: whether the instruction writes it.
        takes: whether the move bit may be set.
    """

    is_ref: bool
    written: bool
    takes: bool

    @property
    def meaning(self) -> str:
        """Bank, and what happens to it."""
        bank = "ref register" if self.is_ref else "i32 register"
        taken = "; ! takes the reference away" if self.takes else ""
        return f"{bank} that is {'written' if self.written else 'read'}{taken}"

    def _checked(self, value: Register) -> Register:
        if value.is_ref != self.is_ref:
            raise FormatError(f"{value} where a {self.meaning} belongs")
        if value.move and not self.takes:
            raise FormatError(f"{value} where nothing is taken")
        return value

    def read(self, reader: Reader) -> Register:
        """One byte."""
        return self._checked(Register.of(reader.u8()))

    def write(self, value: Register) -> bytes:
        """One byte."""
        return bytes([self._checked(value).byte])

    def text(self, value: Register, labels: Labels) -> str:
        """``%i3``, ``%r3``, ``%r3!``."""
        return str(value)

    def parse(self, text: str, places: Places) -> Register:
        """Inverse of `text`."""
        return self._checked(parse_register(text))


@dataclass(frozen=True, slots=True)
class NumberOperand:
    """A number.

    Attributes:
        meaning: what it is.
        layout: its bytes.
        mark: what its text begins with.
        most: the largest value.
    """

    meaning: str
    layout: struct.Struct
    mark: str = ""
    most: int | None = None

    def _checked(self, value: int) -> int:
        if self.most is not None and not 0 <= value <= self.most:
            raise FormatError(f"{self.meaning} {value}, at most {self.most} is possible")
        return value

    def read(self, reader: Reader) -> int:
        """Its bytes."""
        return self._checked(reader.number(self.layout))

    def write(self, value: int) -> bytes:
        """Its bytes."""
        try:
            return self.layout.pack(self._checked(value))
        except struct.error:
            raise FormatError(f"{value} does not fit {self.layout.size} bytes") from None

    def text(self, value: int, labels: Labels) -> str:
        """Decimal, after the mark."""
        return f"{self.mark}{value}"

    def parse(self, text: str, places: Places) -> int:
        """Inverse of `text`."""
        if not text.startswith(self.mark):
            raise FormatError(f"{text[:40]!r} where {self.mark}N belongs")
        return integer(text[len(self.mark) :])


@dataclass(frozen=True, slots=True)
class FunctionOperand:
    """A function: imports have the highest bit set."""

    meaning: str = "function; imports have the highest bit set"

    def read(self, reader: Reader) -> Function:
        """Four bytes."""
        raw = reader.number(_U32)
        return Function(raw & _IMPORT - 1, bool(raw & _IMPORT))

    def write(self, value: Function) -> bytes:
        """Four bytes."""
        return _U32.pack(value.ordinal | (_IMPORT if value.imported else 0))

    def text(self, value: Function, labels: Labels) -> str:
        """``function#0``, ``import#0``."""
        return f"{'import' if value.imported else 'function'}#{value.ordinal}"

    def parse(self, text: str, places: Places) -> Function:
        """Inverse of `text`."""
        kind, _, number = text.partition("#")
        ordinal = integer(number) if number else -1
        if kind not in ("import", "function") or not 0 <= ordinal < _IMPORT:
            raise FormatError(f"{text[:40]!r} is no function: import#N or function#N")
        return Function(ordinal, kind == "import")


@dataclass(frozen=True, slots=True)
class ListOperand:
    """Up to 255 bytes after their number.

    Attributes:
        meaning: what they are.
        item: value of a byte.
        byte: byte of a value.
        shown: text of a value.
        parsed: value of a text.
    """

    meaning: str
    item: Callable[[int], Any]
    byte: Callable[[Any], int]
    shown: Callable[[Any], str]
    parsed: Callable[[str], Any]

    def read(self, reader: Reader) -> tuple[Any, ...]:
        """A byte with the number, and the bytes."""
        return tuple(map(self.item, reader.take(reader.u8())))

    def write(self, value: Sequence[Any]) -> bytes:
        """Inverse of `read`."""
        if len(value) > 255:
            raise FormatError(f"a list of {len(value)}, at most 255 are possible")
        return bytes([len(value), *map(self.byte, value)])

    def text(self, value: Sequence[Any], labels: Labels) -> str:
        """``(%i0, %r1!)``."""
        return f"({', '.join(map(self.shown, value))})"

    def parse(self, text: str, places: Places) -> tuple[Any, ...]:
        """Inverse of `text`."""
        if not (text.startswith("(") and text.endswith(")")):
            raise FormatError(f"{text[:40]!r} where a list in parentheses belongs")
        inner = text[1:-1].strip()
        return tuple(self.parsed(part.strip()) for part in inner.split(",")) if inner else ()


@dataclass(frozen=True, slots=True)
class BranchOperand:
    """A byte of the function's code, and copies between registers."""

    meaning: str = "branch: byte of the function's code, and copies of registers"

    def read(self, reader: Reader) -> Branch:
        """Four bytes, the number of copies, and two bytes for each."""
        target = reader.number(_I32)
        raw = reader.take(2 * reader.u8())
        pairs = zip(map(Register.of, raw[::2]), map(Register.of, raw[1::2]), strict=True)
        return Branch(target, tuple(map(_copy, pairs)))

    def write(self, value: Branch) -> bytes:
        """Inverse of `read`."""
        if len(value.moves) > 255:
            raise FormatError(f"{len(value.moves)} copies, at most 255 are possible")
        pairs = [register.byte for pair in value.moves for register in _copy(pair)]
        return _I32.pack(value.target) + bytes([len(value.moves), *pairs])

    def text(self, value: Branch, labels: Labels) -> str:
        """``label(%i0 -> %i1, %r0! -> %r1)``."""
        moves = ", ".join(f"{source} -> {target}" for source, target in value.moves)
        return f"{labels(value.target)}({moves})"

    def parse(self, text: str, places: Places) -> Branch:
        """Inverse of `text`."""
        label, mark, rest = text.partition("(")
        if not mark or not rest.endswith(")"):
            raise FormatError(f"{text[:40]!r} where label(copies) belongs")
        pairs = []
        for part in filter(None, map(str.strip, rest[:-1].split(","))):
            source, arrow, target = part.partition("->")
            if not arrow:
                raise FormatError(f"{part[:40]!r} is no copy: %i0 -> %i1")
            pairs.append(_copy((parse_register(source.strip()), parse_register(target.strip()))))
        return Branch(places(label.strip()), tuple(pairs))


def _copy(pair: tuple[Register, Register]) -> tuple[Register, Register]:
    source, target = pair
    if source.is_ref != target.is_ref or target.move:
        raise FormatError(f"{source} cannot be copied to {target}")
    return pair


@dataclass(frozen=True, slots=True)
class TextOperand:
    """A string of up to 65,535 bytes in UTF-8."""

    meaning: str = "text"

    def read(self, reader: Reader) -> str:
        """The number of bytes, and the bytes."""
        raw = reader.take(reader.number(_U16))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise FormatError("a text is not UTF-8", offset=reader.position) from None

    def write(self, value: str) -> bytes:
        """Inverse of `read`."""
        raw = value.encode()
        if len(raw) > 0xFFFF:
            raise FormatError(f"a text of {len(raw)} bytes, at most 65535 are possible")
        return _U16.pack(len(raw)) + raw

    def text(self, value: str, labels: Labels) -> str:
        """As in JSON."""
        return json.dumps(value)

    def parse(self, text: str, places: Places) -> str:
        """Inverse of `text`."""
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, str):
            raise FormatError(f"{text[:40]!r} is no text in quotes")
        return value


_SIGNED_BYTE = 0x80


def _segment(byte: int) -> int:
    return byte - 2 * _SIGNED_BYTE if byte >= _SIGNED_BYTE else byte


def _segment_byte(value: int) -> int:
    if not -_SIGNED_BYTE <= value < _SIGNED_BYTE:
        raise FormatError(f"a segment of {value}, -128 to 127 are possible")
    return value & 0xFF


_REGISTERS = ListOperand("registers", Register.of, lambda item: item.byte, str, parse_register)

KINDS: dict[str, Codec] = {
    "s": RegisterOperand(is_ref=False, written=False, takes=False),
    "d": RegisterOperand(is_ref=False, written=True, takes=False),
    "S": RegisterOperand(is_ref=True, written=False, takes=True),
    "D": RegisterOperand(is_ref=True, written=True, takes=False),
    "M": RegisterOperand(is_ref=True, written=True, takes=True),
    "G": NumberOperand("byte of the 32-bit globals", _U32, "i32@"),
    "N": NumberOperand("number of a 32-bit global", _I32, "i32#"),
    "Y": NumberOperand("number of a global reference", _U32, "ref#"),
    "T": NumberOperand("number of a type", _U32, "type#"),
    "I": NumberOperand("number", _I32),
    "B": NumberOperand("distance of a shift", struct.Struct("<B"), most=31),
    "K": NumberOperand("number of a read-only segment", _U32, "rodata#"),
    "F": FunctionOperand(),
    "L": BranchOperand(),
    "A": _REGISTERS,
    "R": replace(_REGISTERS, meaning="registers for results"),
    "V": ListOperand(
        "sizes of segments of arguments, -1 for a plain one",
        _segment,
        _segment_byte,
        str,
        integer,
    ),
    "Z": TextOperand(),
}
"""Kinds of operands by the letters that declarations of opcodes use."""
