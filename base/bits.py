"""Bit records: instructions and registers declared once.

A record is a frozen dataclass whose fields are made by `bits`. A field names its first bit, a
codec that knows the width and the meaning of the raw number, and one line of documentation. From
that declaration come `Record.pack`, `Record.unpack` (which refuses bits that no field owns), the
text of every field and its parser, reference pages, and the bit positions that relocations use.

Bit 0 is the least significant bit of the first byte. Values that do not fit, reserved bits that
are set and raw numbers without a meaning are `FormatError`.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Protocol, Self, cast

from fitzroy.base.errors import FormatError
from fitzroy.base.evidence import Evidence

_F32 = struct.Struct("<f")
_U32 = struct.Struct("<I")


class Codec(Protocol):
    """Meaning of a group of bits: raw number, value and text."""

    @property
    def width(self) -> int:
        """Number of bits."""
        ...

    @property
    def kind(self) -> str:
        """What the values are, for reference pages."""
        ...

    def decode(self, raw: int) -> Any:
        """Value of a raw number of `width` bits."""
        ...

    def encode(self, value: Any) -> int:
        """Raw number of a value."""
        ...

    def text(self, value: Any) -> str:
        """Canonical text of a value, without spaces unless the codec is a record."""
        ...

    def parse(self, text: str) -> Any:
        """Value of a text; inverse of `text`."""
        ...


def integer(text: str) -> int:
    """Number of a decimal or hexadecimal literal.

    Raises:
        FormatError: it is neither.
    """
    # Longer literals are refused unread: conversion takes quadratic time.
    if len(text) <= 80 and not text.startswith("_"):
        try:
            return int(text, 0)
        except ValueError:
            pass
    raise FormatError(f"{text[:40]!r} is not a number")


def misfit(value: object, what: str) -> FormatError:
    """The error for a value that a field cannot hold."""
    return FormatError(f"{value!r} is not {what}")


@dataclass(frozen=True, slots=True)
class Unsigned:
    """An unsigned number.

    Args:
        width: number of bits.
        hexadecimal: how it is written.
    """

    width: int
    hexadecimal: bool = False

    @property
    def kind(self) -> str:
        return "unsigned"

    def decode(self, raw: int) -> int:
        return raw

    def encode(self, value: int) -> int:
        if 0 <= value >> self.width < 1:
            return value
        raise misfit(value, f"an unsigned number of {self.width} bits")

    def text(self, value: int) -> str:
        return hex(value) if self.hexadecimal else str(value)

    def parse(self, text: str) -> int:
        return integer(text)


@dataclass(frozen=True, slots=True)
class Signed:
    """A number in two's complement of `width` bits."""

    width: int

    @property
    def kind(self) -> str:
        return "signed"

    def decode(self, raw: int) -> int:
        sign = 1 << self.width - 1
        return (raw ^ sign) - sign

    def encode(self, value: int) -> int:
        if -1 <= value >> self.width - 1 <= 0:
            return value & (1 << self.width) - 1
        raise misfit(value, f"a signed number of {self.width} bits")

    def text(self, value: int) -> str:
        return str(value)

    def parse(self, text: str) -> int:
        return integer(text)


@dataclass(frozen=True, slots=True)
class Count:
    """A number of things, at least one, stored minus one."""

    width: int

    @property
    def kind(self) -> str:
        return "count"

    def decode(self, raw: int) -> int:
        return raw + 1

    def encode(self, value: int) -> int:
        if 0 <= value - 1 >> self.width < 1:
            return value - 1
        raise misfit(value, f"a count of 1 to {1 << self.width}")

    def text(self, value: int) -> str:
        return str(value)

    def parse(self, text: str) -> int:
        return integer(text)


@dataclass(frozen=True, slots=True)
class Flag:
    """One bit, yes or no."""

    width: int = 1

    @property
    def kind(self) -> str:
        return "flag"

    def decode(self, raw: int) -> bool:
        return raw != 0

    def encode(self, value: bool) -> int:
        return 1 if value else 0

    def text(self, value: bool) -> str:
        return "1" if value else "0"

    def parse(self, text: str) -> bool:
        if text in ("0", "1"):
            return text == "1"
        raise misfit(text, "0 or 1")


@dataclass(frozen=True, slots=True)
class Float32:
    """An IEEE single-precision number; NaN is refused."""

    width: int = 32

    @property
    def kind(self) -> str:
        return "float32"

    def decode(self, raw: int) -> float:
        value = cast(float, _F32.unpack(_U32.pack(raw))[0])
        if value != value:
            raise misfit(hex(raw), "a float32 (it is NaN)")
        return value

    def encode(self, value: float) -> int:
        try:
            data = _F32.pack(value)
        except OverflowError:
            raise misfit(value, "a float32") from None
        if value != value:
            raise misfit(value, "a number")
        return cast(int, _U32.unpack(data)[0])

    def text(self, value: float) -> str:
        # Nine digits always identify a float32; mostly fewer do.
        for digits in ("%.6g", "%.7g", "%.8g", "%.9g"):
            text = digits % value
            if _F32.pack(float(text)) == _F32.pack(value):
                break
        return text

    def parse(self, text: str) -> float:
        try:
            value = float(text)
            return cast(float, _F32.unpack(_F32.pack(value))[0])
        except (ValueError, OverflowError):
            raise misfit(text[:40], "a float32") from None


class Choice:
    """One of the members of an enumeration, written by name in lower case.

    Args:
        type: the enumeration.
        width: number of bits.
        members: those to allow; all by default.
    """

    __slots__ = ("_names", "_values", "members", "type", "width")

    def __init__(self, type: type[IntEnum], width: int, members: Sequence[IntEnum] = ()) -> None:
        self.type = type
        self.width = width
        self.members = tuple(members or type)
        self._values = {member.value: member for member in self.members}
        self._names = {member.name.lower(): member for member in self.members}

    @property
    def kind(self) -> str:
        return "one of " + ", ".join(f"{m.value} {n}" for n, m in self._names.items())

    def decode(self, raw: int) -> IntEnum:
        try:
            return self._values[raw]
        except KeyError:
            raise misfit(raw, f"a {self.type.__name__}") from None

    def encode(self, value: int) -> int:
        if value in self._values:
            return int(value)
        raise misfit(value, f"a {self.type.__name__}")

    def text(self, value: IntEnum) -> str:
        return value.name.lower()

    def parse(self, text: str) -> IntEnum:
        try:
            return self._names[text]
        except KeyError:
            known = ", ".join(self._names)
            raise FormatError(
                f"{text[:40]!r} is not a {self.type.__name__}", hint=f"known are {known}"
            ) from None


class BitSet:
    """A set of named bits, written as names joined by ``+``; a mask of the members.

    Args:
        type: an enumeration of bit numbers.
        width: number of bits.
        aliases: names of whole masks, tried first.
    """

    __slots__ = ("_aliases", "_bits", "_masks", "_names", "type", "width")

    def __init__(
        self, type: type[IntEnum], width: int, aliases: dict[str, int] | None = None
    ) -> None:
        self.type = type
        self.width = width
        self._aliases = {"none": 0} | (aliases or {})
        self._masks = {mask: name for name, mask in self._aliases.items()}
        self._bits = {member.value: member.name.lower() for member in type}
        self._names = {name: 1 << bit for bit, name in self._bits.items()}

    @property
    def kind(self) -> str:
        return "set of " + ", ".join(f"{bit} {name}" for bit, name in self._bits.items())

    def decode(self, raw: int) -> int:
        return raw

    def encode(self, value: int) -> int:
        if 0 <= value >> self.width < 1:
            return value
        raise misfit(value, f"a set of {self.width} bits")

    def text(self, value: int) -> str:
        if value in self._masks:
            return self._masks[value]
        bits = (bit for bit in range(self.width) if value >> bit & 1)
        return "+".join(self._bits.get(bit, f"bit{bit}") for bit in bits)

    def parse(self, text: str) -> int:
        if text in self._aliases:
            return self._aliases[text]
        mask = 0
        for name in text.split("+"):
            if name in self._names:
                mask |= self._names[name]
            elif name.startswith("bit") and 0 <= integer(name[3:]) < self.width:
                mask |= 1 << integer(name[3:])
            else:
                known = ", ".join([*self._names, *self._aliases])
                raise FormatError(f"{name[:40]!r} names no bit", hint=f"known are {known}")
        return mask


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that is absent, None, when all of its bits are zero."""

    inner: Codec

    @property
    def width(self) -> int:
        return self.inner.width

    @property
    def kind(self) -> str:
        return f"{self.inner.kind}, or absent"

    def decode(self, raw: int) -> Any:
        return self.inner.decode(raw) if raw else None

    def encode(self, value: Any) -> int:
        return 0 if value is None else self.inner.encode(value)

    def text(self, value: Any) -> str:
        return "none" if value is None else self.inner.text(value)

    def parse(self, text: str) -> Any:
        return None if text == "none" else self.inner.parse(text)


class Series:
    """A fixed number of equal values at a regular distance: a tuple.

    Text joins the values by commas and leaves out the last ones if their bits are zero.

    Args:
        inner: codec of one value.
        count: how many.
        stride: distance in bits between their first bits; the width of one by default.
    """

    __slots__ = ("_shifts", "count", "inner", "stride", "width")

    def __init__(self, inner: Codec, count: int, stride: int = 0) -> None:
        self.inner = inner
        self.count = count
        self.stride = stride or inner.width
        self.width = self.stride * (count - 1) + inner.width
        self._shifts = tuple(self.stride * index for index in range(count))

    @property
    def kind(self) -> str:
        return f"{self.count} x {self.inner.kind}"

    def decode(self, raw: int) -> tuple[Any, ...]:
        mask = (1 << self.inner.width) - 1
        decode = self.inner.decode
        return tuple([decode(raw >> shift & mask) for shift in self._shifts])

    def encode(self, value: tuple[Any, ...]) -> int:
        if len(value) != self.count:
            raise misfit(value, f"a series of {self.count}")
        encode = self.inner.encode
        raw = 0
        for shift, item in zip(self._shifts, value, strict=True):
            raw |= encode(item) << shift
        return raw

    def text(self, value: tuple[Any, ...]) -> str:
        used = len(value)
        while used > 1 and not self.inner.encode(value[used - 1]):
            used -= 1
        return ",".join(map(self.inner.text, value[:used]))

    def parse(self, text: str) -> tuple[Any, ...]:
        return self.padded([self.inner.parse(item) for item in text.split(",", self.count)])

    def padded(self, values: list[Any]) -> tuple[Any, ...]:
        """A series that begins with `values` and goes on with what zero bits mean."""
        if len(values) > self.count:
            raise misfit(len(values), f"a number of values up to {self.count}")
        return tuple(values) + (self.inner.decode(0),) * (self.count - len(values))


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: where it is, what its bits mean, and how well that is known."""

    name: str
    first: int
    codec: Codec
    doc: str
    default: Any
    unit: str
    group: str
    evidence: Evidence

    @property
    def width(self) -> int:
        """Number of bits from the first to the last of the field."""
        return self.codec.width


def bits(
    first: int,
    codec: Codec,
    doc: str,
    *,
    default: Any = None,
    unit: str = "",
    group: str = "",
    evidence: Evidence = Evidence.CONFIRMED,
) -> Any:
    """Declare a field of a record.

    Args:
        first: number of its lowest bit in the record.
        codec: width and meaning.
        doc: one line for the reference page.
        default: value when nothing is said; what zero bits mean by default.
        unit: unit of the value.
        group: heading under which assembly text writes it.
        evidence: how well position and meaning are known.
    """
    value = codec.decode(0) if default is None else default
    spec = Field("", first, codec, doc, value, unit, group, evidence)
    return dataclasses.field(default=value, metadata={"bits": spec})


@dataclass(frozen=True)
class _Declared:
    fields: tuple[Field, ...]
    by_name: dict[str, Field]
    decoders: tuple[tuple[int, int, Any], ...]
    encoders: tuple[tuple[str, int, Any], ...]
    owned: int


def _owned(first: int, codec: Codec) -> int:
    """Bits that a codec gives a meaning to."""
    if isinstance(codec, Series):
        one = _owned(0, codec.inner)
        return sum(one << first + codec.stride * index for index in range(codec.count))
    if isinstance(codec, Optional):
        return _owned(first, codec.inner)
    return (1 << codec.width) - 1 << first


class Record:
    """Base of all bit records; subclasses are dataclasses with ``frozen=True, slots=True``."""

    __slots__ = ()
    width: ClassVar[int]
    _declared: ClassVar[_Declared]

    @classmethod
    def declared(cls) -> _Declared:
        """The compiled declaration, made on first use."""
        if "_declared" not in cls.__dict__:
            fields = tuple(
                dataclasses.replace(field.metadata["bits"], name=field.name)
                for field in dataclasses.fields(cast(Any, cls))
            )
            owned = 0
            for field in fields:
                mine = _owned(field.first, field.codec)
                if owned & mine or mine >> cls.width:
                    raise TypeError(f"{cls.__name__}.{field.name} overlaps or exceeds the record")
                owned |= mine
            cls._declared = _Declared(
                fields,
                {field.name: field for field in fields},
                tuple(
                    (
                        f.first,
                        (1 << f.width) - 1,
                        None if type(f.codec) in _PLAIN else f.codec.decode,
                    )
                    for f in fields
                ),
                tuple((f.name, f.first, f.codec.encode) for f in fields),
                owned,
            )
        return cls._declared

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """The fields in order of declaration."""
        return cls.declared().fields

    @classmethod
    def field(cls, name: str) -> Field:
        """A field by name."""
        return cls.declared().by_name[name]

    @classmethod
    def unpack(cls, raw: int) -> Self:
        """The record in `width` bits.

        Raises:
            FormatError: reserved bits are set, or a field holds a number without a meaning.
        """
        declared = cls.declared()
        if raw & ~declared.owned:
            stray = raw & ~declared.owned
            numbers = [bit for bit in range(stray.bit_length()) if stray >> bit & 1][:8]
            raise FormatError(
                f"reserved bits are set: {', '.join(map(str, numbers))}", table=cls.__name__
            )
        try:
            return cls(
                *[
                    raw >> first & mask if decode is None else decode(raw >> first & mask)
                    for first, mask, decode in declared.decoders
                ]
            )
        except FormatError as error:
            raise _located(error, cls, raw) from None

    def pack(self) -> int:
        """The bits of the record.

        Raises:
            FormatError: a value does not fit its field.
        """
        raw = 0
        for name, first, encode in self.declared().encoders:
            try:
                raw |= encode(getattr(self, name)) << first
            except FormatError as error:
                raise FormatError(
                    error.what, table=f"{type(self).__name__}.{name}", hint=error.hint
                ) from None
        return raw


# Codecs whose values are their raw numbers.
_PLAIN = (Unsigned, BitSet)


def _located(error: FormatError, cls: type[Record], raw: int) -> FormatError:
    """The error with the name of the first field that cannot be decoded."""
    for field in cls.fields():
        try:
            field.codec.decode(raw >> field.first & (1 << field.width) - 1)
        except FormatError:
            where = f".{error.table}" if error.table else ""
            return FormatError(
                error.what, table=f"{cls.__name__}.{field.name}{where}", hint=error.hint
            )
    return error


class Nested:
    """A record inside a record. Its text is that of its fields, ``name=value`` joined by spaces.

    Args:
        type: the record's class.
    """

    __slots__ = ("type",)

    def __init__(self, type: type[Record]) -> None:
        self.type = type

    @property
    def width(self) -> int:
        return self.type.width

    @property
    def kind(self) -> str:
        return self.type.__name__

    def decode(self, raw: int) -> Record:
        return self.type.unpack(raw)

    def encode(self, value: Record) -> int:
        return value.pack()

    def text(self, value: Record) -> str:
        return " ".join(field_texts(value, self.type.fields())) or "default"

    def parse(self, text: str) -> Record:
        tokens = [] if text == "default" else text.split()
        return self.type(**parse_fields(self.type, tokens))


def field_texts(record: Record, fields: tuple[Field, ...]) -> list[str]:
    """Tokens of the fields that differ from their defaults: ``name=value``, or ``name`` if True."""
    texts = []
    for field in fields:
        value = getattr(record, field.name)
        # Zero and minus zero are equal, but not the same bits.
        if value != field.default or (
            type(value) in (float, tuple) and str(value) != str(field.default)
        ):
            if value is True:
                texts.append(field.name)
            else:
                texts.append(f"{field.name}={field.codec.text(value)}")
    return texts


def parse_fields(cls: type[Record], tokens: list[str]) -> dict[str, Any]:
    """Values of ``name=value`` and ``name`` tokens.

    Raises:
        FormatError: an unknown or repeated name, or a value that does not parse.
    """
    by_name = cls.declared().by_name
    values: dict[str, Any] = {}
    for token in tokens:
        name, equals, text = token.partition("=")
        field = by_name.get(name)
        if field is None:
            raise FormatError(
                f"{cls.__name__} has no field {name[:40]!r}",
                hint=f"its fields are {', '.join(by_name)}",
            )
        if name in values:
            raise FormatError(f"{name} is given twice")
        if not equals and not isinstance(field.codec, Flag):
            raise FormatError(f"{name} needs a value", hint=f"write {name}=...")
        values[name] = field.codec.parse(text) if equals else True
    return values
