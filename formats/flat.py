"""FlatBuffers codec driven by declarations.

A schema is a set of dataclasses, one per table, whose fields are made by `scalar`, `vector`,
`structs`, `string`, `strings`, `blobs`, `table`, `tables` and `union`. Fields take slots in order
of declaration, as in a FlatBuffers schema; a union takes two. From that one declaration come the
strict reader (`decode`), the writer (`encode`), comparison, `diff` and `as_dict`.

The reader trusts nothing: every offset and length is checked against the file, big vectors are
read-only views of the input rather than copies, and the number of objects built is limited by
the size of the file, so that tables shared a million times by a hostile file cannot exhaust
memory. All faults are `FormatError`.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

import flatbuffers
import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats.pieces import LARGE, Pieces

T = TypeVar("T", bound="Table")

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_BYTE = np.dtype("u1")
_FORMATS = {
    "?": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I",
    "i8": "q", "u8": "Q", "f4": "f", "f8": "d",
}  # fmt: skip
_PREPEND = {
    "?": "PrependBoolSlot", "i1": "PrependInt8Slot", "u1": "PrependUint8Slot",
    "i2": "PrependInt16Slot", "u2": "PrependUint16Slot", "i4": "PrependInt32Slot",
    "u4": "PrependUint32Slot", "i8": "PrependInt64Slot", "u8": "PrependUint64Slot",
    "f4": "PrependFloat32Slot", "f8": "PrependFloat64Slot",
}  # fmt: skip

_WIDE = ("i8", "u8")
"""Integers that many readers of JSON have no exact numbers for."""

# Upper bounds on the memory, in bytes, of what is built while decoding, for the object budget.
_TABLE_COST = 72
_FIELD_COST = 8
_NUMBER_COST = 32
_VECTOR_COST = 160
_STRING_COST = 80
_CHARACTER_COST = 4
_ELEMENT_COST = 16
# Every file may build this much, in bytes of Python objects, plus four times its own size.
_FREE_BUDGET = 16 << 20


@dataclass(frozen=True)
class _Scalar:
    code: str
    default: int | float | bool
    unpack: struct.Struct


@dataclass(frozen=True)
class _Vector:
    dtype: np.dtype[Any]
    align: int
    members: int = 0


@dataclass(frozen=True)
class _String:
    pass


@dataclass(frozen=True)
class _Strings:
    pass


@dataclass(frozen=True)
class _Blobs:
    align: int


@dataclass(frozen=True)
class _Table:
    type: type[Table]


@dataclass(frozen=True)
class _Tables:
    type: type[Table]


@dataclass(frozen=True)
class _Union:
    members: Mapping[int, type[Table]]
    codes: Mapping[type[Table], int]
    opaque: bool


@dataclass(frozen=True)
class _Skip:
    slots: int


_Kind = _Scalar | _Vector | _String | _Strings | _Blobs | _Table | _Tables | _Union | _Skip


def _field(kind: _Kind, default: object = None) -> Any:
    return dataclasses.field(default=default, metadata={"flat": kind})


def scalar(code: str, default: float = 0) -> Any:
    """A number. `code` is numpy's: ``i1 u1 i2 u2 i4 u4 i8 u8 f4 f8``, or ``?`` for bool."""
    value = bool(default) if code == "?" else default
    return _field(_Scalar(code, value, struct.Struct("<" + _FORMATS[code])), value)


def vector(code: str, align: int = 1) -> Any:
    """A vector of numbers: a read-only numpy view when decoded, None when absent.

    Args:
        code: numpy type code of an element.
        align: alignment in bytes of the first element, if stricter than the element's own.
    """
    return _field(_Vector(np.dtype("u1" if code == "?" else "<" + code), align))


def structs(code: str, members: int) -> Any:
    """A vector of structs of equal numbers: a read-only numpy view of shape (count, members).

    Args:
        code: numpy type code of a member.
        members: how many members a struct has.
    """
    return _field(_Vector(np.dtype("<" + code), 1, members))


def string() -> Any:
    """A UTF-8 string, None when absent."""
    return _field(_String())


def strings() -> Any:
    """A vector of strings, None when absent."""
    return _field(_Strings())


def blobs(align: int = 1) -> Any:
    """A vector of strings that hold bytes: a list of read-only uint8 views, None when absent.

    Args:
        align: alignment in bytes of the first byte of each.
    """
    return _field(_Blobs(align))


def table(cls: type[Table]) -> Any:
    """One table, None when absent."""
    return _field(_Table(cls))


def tables(cls: type[Table]) -> Any:
    """A vector of tables: a list, None when absent."""
    return _field(_Tables(cls))


def union(
    members: Mapping[int, type[Table]] | Sequence[type[Table]], *, opaque: bool = False
) -> Any:
    """A union of tables; takes two slots.

    Args:
        members: tables by type code; a sequence starts at code 1.
        opaque: decode members that are not listed as `UnknownMember` instead of refusing them.
    """
    if not isinstance(members, Mapping):
        members = dict(enumerate(members, start=1))
    return _field(_Union(members, {cls: code for code, cls in members.items()}, opaque))


def skipped(slots: int = 1) -> Any:
    """Slots of retired fields: never read, never written."""
    return _field(_Skip(slots))


@dataclass(frozen=True)
class _Declared:
    """What the codec needs to know of one table class."""

    fields: tuple[tuple[int, str, _Kind], ...]
    slots: int


class Table:
    """Base of all tables; subclasses are dataclasses with ``eq=False, kw_only=True``."""

    __slots__ = ()
    _declared: ClassVar[_Declared | None] = None

    @classmethod
    def declared(cls) -> _Declared:
        """Slots of this table's fields, computed once."""
        if "_declared" not in cls.__dict__:
            slot, fields = 0, []
            for field in dataclasses.fields(cast(Any, cls)):
                kind: _Kind | None = field.metadata.get("flat")
                if kind is None:
                    # What a file has beside its tables, which the codec leaves alone.
                    continue
                if isinstance(kind, _Skip):
                    slot += kind.slots
                    continue
                fields.append((slot, field.name, kind))
                slot += 2 if isinstance(kind, _Union) else 1
            cls._declared = _Declared(tuple(fields), slot)
        return cast(_Declared, cls._declared)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        names = (name for _, name, _ in self.declared().fields)
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]


@dataclass(eq=False, slots=True, kw_only=True)
class UnknownMember(Table):
    """A union member that the schema here does not list; it can be carried but not encoded."""

    code: int = scalar("u1")


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if a is None or b is None:
            return False
        return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b)


def ints(values: Array | Sequence[int] | None) -> tuple[int, ...]:
    """A scalar vector as Python integers; an absent one is empty."""
    if values is None:
        return ()
    return tuple(values.tolist()) if isinstance(values, np.ndarray) else tuple(values)


def as_dict(value: object, *, exact: bool = False) -> object:
    """A table as plain dicts and lists for JSON; byte vectors are given by their length.

    Args:
        value: the table, or a field of one.
        exact: whether integers of 64 bits become strings, because many readers of JSON have
            53 bits for a number.
    """
    if isinstance(value, Table):
        result: dict[str, object] = {}
        for _, name, _kind in value.declared().fields:
            item = getattr(value, name)
            if item is not None:
                wide = exact and isinstance(_kind, _Scalar) and _kind.code in _WIDE
                result[name] = str(item) if wide else as_dict(item, exact=exact)
                if isinstance(item, Table) and isinstance(_kind, _Union):
                    result[name + "_type"] = type(item).__name__
        return result
    if isinstance(value, list):
        return [as_dict(item, exact=exact) for item in value]
    if isinstance(value, np.ndarray):
        if exact and value.dtype.str[1:] in _WIDE:
            return value.astype(str).tolist()
        return {"bytes": value.nbytes} if value.dtype == np.uint8 else value.tolist()
    return value


def from_dict(cls: type[T], value: object) -> T:
    """The table that `as_dict` made plain; byte vectors and nested files are not covered.

    Raises:
        FormatError: a name that the schema does not have, or a value of another kind.
    """
    name = cls.__name__
    if not isinstance(value, Mapping):
        raise FormatError(f"{name} is written as an object with names and values")
    fields = {field: kind for _, field, kind in cls.declared().fields}
    unions = {field + "_type" for field, kind in fields.items() if isinstance(kind, _Union)}
    for key in value:
        if key not in fields and key not in unions:
            raise FormatError(f"{name} has no field {str(key)[:40]!r}")
    return cls(
        **{
            field: _from_plain(kind, value[field], value.get(field + "_type"), f"{name}.{field}")
            for field, kind in fields.items()
            if field in value
        }
    )


def _from_plain(kind: _Kind, value: Any, member: object, name: str) -> object:
    if isinstance(kind, _Scalar):
        return _plain_scalar(kind, value, name)
    if isinstance(kind, _String) and isinstance(value, str):
        return value
    if isinstance(kind, _Table):
        return from_dict(kind.type, value)
    if isinstance(kind, _Union):
        for cls in kind.codes:
            if cls.__name__ == member:
                return from_dict(cls, value)
        raise FormatError(f"{name}_type is not a member of the union")
    if isinstance(kind, _Tables) and isinstance(value, list):
        return [from_dict(kind.type, item) for item in value]
    strings = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(kind, _Strings) and strings:
        return list(value)
    if isinstance(kind, _Vector) and isinstance(value, list):
        shape = (len(value), kind.members) if kind.members else (len(value),)
        try:
            found = np.array(value, dtype=kind.dtype).reshape(shape)
            if found.tolist() == value:
                return found
        except (ValueError, OverflowError, TypeError):
            pass
    raise FormatError(f"{name} cannot hold {str(value)[:40]}")


def _plain_scalar(kind: _Scalar, value: object, name: str) -> object:
    try:
        if isinstance(kind.default, bool) == isinstance(value, bool):
            kind.unpack.pack(value)
            return value
    except (struct.error, OverflowError):
        pass
    raise FormatError(f"{name} cannot hold {str(value)[:40]}")


def offset_of(part: Array, data: bytes | bytearray | memoryview) -> int | None:
    """Where a view begins in the buffer that it was decoded from; None if it lies elsewhere."""
    whole = np.frombuffer(data, np.uint8)
    offset = part.ctypes.data - whole.ctypes.data
    return int(offset) if offset >= 0 and offset + part.nbytes <= whole.nbytes else None


def diff(a: object, b: object, path: str = "") -> list[str]:
    """What differs between two tables, one line per field or element, each with its path.

    Absent and empty vectors differ; a vector is named once, with its first difference.

    Args:
        a: a table, or anything a field of a table can hold.
        b: the other one.
        path: path of both, for the lines.
    """
    if isinstance(a, Table) and type(a) is type(b):
        return [
            line
            for _, name, _kind in a.declared().fields
            for line in diff(getattr(a, name), getattr(b, name), f"{path}.{name}".lstrip("."))
        ]
    if isinstance(a, list) and isinstance(b, list):
        lines = [] if len(a) == len(b) else [f"{path}: {len(a)} elements, {len(b)} elements"]
        for index, (one, other) in enumerate(zip(a, b, strict=False)):
            lines += diff(one, other, f"{path}[{index}]")
        return lines
    if _same(a, b):
        return []
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape:
            return [f"{path}: shape {list(a.shape)}, shape {list(b.shape)}"]
        differing = (a != b) & ~((a != a) & (b != b))
        first = tuple(np.argwhere(differing)[0].tolist())
        place = "".join(f"[{i}]" for i in first)
        return [f"{path}{place}: {a[first]}, {b[first]}"]
    return [f"{path}: {_brief(a)}, {_brief(b)}"]


def _brief(value: object) -> str:
    if isinstance(value, Table):
        return type(value).__name__
    if isinstance(value, np.ndarray):
        return f"{value.dtype} vector of {len(value)}"
    return f"{len(value)} elements" if isinstance(value, list) else repr(value)


# --- reading -------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, data: memoryview, path: str, base: int) -> None:
        self.data = data
        self.size = len(data)
        self.path = path
        self.base = base
        self.budget = _FREE_BUDGET + 4 * self.size

    def fail(self, what: str, offset: int, table: str) -> FormatError:
        return FormatError(what, path=self.path, offset=self.base + offset, table=table)

    def charge(self, cost: int, offset: int, table: str) -> None:
        self.budget -= cost
        if self.budget < 0:
            raise self.fail(
                "the file expands to far more objects than its size allows", offset, table
            )

    def check(self, offset: int, length: int, table: str) -> None:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self.fail(
                f"{length} bytes wanted, the file has {max(self.size - offset, 0)} from here",
                offset,
                table,
            )

    def u32(self, offset: int, table: str) -> int:
        self.check(offset, 4, table)
        return cast(int, _U32.unpack_from(self.data, offset)[0])

    def follow(self, offset: int, table: str) -> int:
        """Target of the relative offset stored at `offset`."""
        target = offset + self.u32(offset, table)
        if target == offset:
            raise self.fail("an offset points at itself", offset, table)
        self.check(target, 4, table)
        return target

    def table(self, cls: type[T], offset: int) -> T:
        name = cls.__name__
        declared = cls.declared()
        self.charge(_TABLE_COST + _FIELD_COST * len(declared.fields), offset, name)
        self.check(offset, 4, name)
        vtable = offset - _I32.unpack_from(self.data, offset)[0]
        self.check(vtable, 4, name)
        vtable_size = _U16.unpack_from(self.data, vtable)[0]
        if vtable_size < 4 or vtable_size % 2:
            raise self.fail(f"a vtable of {vtable_size} bytes", vtable, name)
        self.check(vtable, vtable_size, name)
        # Slots that the schema here does not know are ignored, however many there are.
        count = min((vtable_size - 4) // 2, declared.slots)
        where = struct.unpack_from(f"<{count}H", self.data, vtable + 4)
        values: dict[str, object] = {}
        for slot, field, kind in declared.fields:
            at = where[slot] if slot < count else 0
            if isinstance(kind, _Union):
                other = where[slot + 1] if slot + 1 < count else 0
                values[field] = self.union(kind, offset, at, other, f"{name}.{field}")
            elif at:
                values[field] = self.field(kind, offset + at, f"{name}.{field}")
        return cls(**values)

    def union(
        self, kind: _Union, base: int, code_at: int, value_at: int, name: str
    ) -> Table | None:
        if not code_at:
            return None
        self.check(base + code_at, 1, name)
        code = self.data[base + code_at]
        if code == 0:
            return None
        cls = kind.members.get(code)
        if cls is None:
            if kind.opaque:
                self.charge(_TABLE_COST, base + code_at, name)
                return UnknownMember(code=code)
            raise self.fail(f"unknown union member {code}", base + code_at, name)
        if not value_at:
            raise self.fail(f"union member {code} has no value", base + code_at, name)
        return self.table(cls, self.follow(base + value_at, name))

    def field(self, kind: _Kind, at: int, name: str) -> object:
        # Bounded by the file, not by the table's stated size: some writers share a vtable between
        # tables of different sizes, and other readers accept that.
        if isinstance(kind, _Scalar):
            self.check(at, kind.unpack.size, name)
            self.charge(_NUMBER_COST, at, name)
            return kind.unpack.unpack_from(self.data, at)[0]
        target = self.follow(at, name)
        if isinstance(kind, _Table):
            return self.table(kind.type, target)
        if isinstance(kind, _String):
            return self.string(target, name)
        if isinstance(kind, _Vector):
            return self.vector(kind.dtype, target, name, kind.members)
        offsets = self.vector(np.dtype("<u4"), target, name)
        self.charge(_ELEMENT_COST * len(offsets), target, name)
        places = range(target + 4, target + 4 + 4 * len(offsets), 4)
        if isinstance(kind, _Strings):
            return [self.string(self.follow(place, name), name) for place in places]
        if isinstance(kind, _Blobs):
            return [self.vector(_BYTE, self.follow(place, name), name) for place in places]
        assert isinstance(kind, _Tables)
        return [self.table(kind.type, self.follow(place, name)) for place in places]

    def vector(self, dtype: np.dtype[Any], target: int, name: str, members: int = 0) -> Array:
        count = self.u32(target, name)
        size = count * (members or 1) * dtype.itemsize
        self.check(target + 4, size, name)
        # Elements count although they are not copied: whoever walks over a vector that a
        # hostile file shares among thousands of tables must finish too.
        self.charge(_VECTOR_COST + size, target, name)
        # Unlike frombuffer, this shares one buffer object among all views.
        shape = (count, members) if members else (count,)
        return np.ndarray(shape, dtype, self.data, target + 4)

    def string(self, target: int, name: str) -> str:
        length = self.u32(target, name)
        self.check(target + 4, length, name)
        self.charge(_STRING_COST + _CHARACTER_COST * length, target, name)
        try:
            return bytes(self.data[target + 4 : target + 4 + length]).decode()
        except UnicodeDecodeError as error:
            raise self.fail(f"a string is not UTF-8 ({error.reason})", target + 4, name) from None


def identifier(data: bytes | bytearray | memoryview) -> bytes:
    """The four-byte file identifier of a FlatBuffers file; empty if the file is too short."""
    return bytes(data[4:8]) if len(data) >= 8 else b""


def decode(
    cls: type[T],
    data: bytes | bytearray | memoryview,
    *,
    identifiers: Sequence[bytes] = (),
    path: str = "",
    base: int = 0,
) -> T:
    """Read a FlatBuffers file.

    Args:
        cls: the root table.
        data: the whole buffer; vectors of the result are views of it.
        identifiers: the file identifiers to accept; none accepts any.
        path: name of the file, for errors.
        base: offset of the buffer in that file, for errors.

    Raises:
        FormatError: whatever is wrong with the bytes.
    """
    view = memoryview(data).toreadonly().cast("B")
    reader = _Reader(view, path, base)
    if identifiers:
        found = identifier(view)
        if found not in identifiers:
            wanted = " or ".join(i.decode() for i in identifiers)
            raise reader.fail(f"identifier {found!r} where {wanted} is expected", 4, cls.__name__)
    return reader.table(cls, reader.follow(0, cls.__name__))


# --- writing -------------------------------------------------------------------------------------


def encode(root: Table, *, identifier: bytes | None = None) -> bytes:
    """Write a table and all that it refers to; equal tables give equal bytes.

    Args:
        root: the root table.
        identifier: the file identifier, four bytes.

    Raises:
        ValueError: a value that the schema cannot hold.
    """
    return pieces(root, identifier=identifier).joined()


def pieces(root: Table, *, identifier: bytes | None = None) -> Pieces:
    """The same as `encode`, as part of something larger that is yet to be joined."""
    builder = _Builder(_SPARE + sum(_payload(root)))
    offset = _write_table(builder, root)
    builder.Finish(offset, file_identifier=identifier)
    return builder.pieces()


class _Builder(flatbuffers.Builder):  # type: ignore[misc]
    """A builder that writes from the end to the front, and leaves room for large vectors.

    Their elements are put there when all is written, by the one copy that makes the result. Pages
    of the buffer that nothing is written to take no memory.

    Args:
        size: upper bound of all bytes.
    """

    def __init__(self, size: int) -> None:
        super().__init__(0)
        self.Bytes = np.zeros(size, np.uint8).data
        self.head = size
        self._apart: list[tuple[int, memoryview | Pieces]] = []

    def place(self, values: Array | Pieces) -> None:
        """Put numbers in front of what is written, where room for them was reserved."""
        end = self.head
        self.head = end - values.nbytes
        elements: memoryview | Pieces
        if isinstance(values, Pieces):
            elements = values
        else:
            elements = values.reshape(-1).view(np.uint8).data
            if values.nbytes < LARGE:
                self.Bytes[self.head : end] = elements
                return
        self._apart.append((self.head, elements))

    def pieces(self) -> Pieces:
        """All that is written."""
        found, begin = Pieces(), self.Head()
        for head, elements in reversed(self._apart):
            found += self.Bytes[begin:head]
            found += elements
            begin = head + len(elements)
        found += self.Bytes[begin:]
        return found


_SPARE = 1 << 14
"""Upper bound of the bytes besides tables: the header and alignment."""

_FIELD, _VECTOR = 16, 64
"""Upper bounds of the bytes of a field, and of a vector besides its elements."""


def _payload(value: Table) -> Iterator[int]:
    """Upper bounds of the bytes of all parts of a table, to reserve the buffer in one piece."""
    fields = value.declared().fields
    yield _FIELD * (len(fields) + 1)
    for _, name, kind in fields:
        item, align = getattr(value, name), getattr(kind, "align", 0)
        for element in item if isinstance(item, list) else (item,):
            if isinstance(element, Table):
                yield _FIELD
                yield from _payload(element)
            elif isinstance(element, np.ndarray | Pieces):
                yield element.nbytes + _VECTOR + align
            elif isinstance(element, str):
                # A character of UTF-8 takes 4 bytes at most.
                yield 4 * len(element) + _VECTOR


def _write_table(builder: Any, value: Table) -> int:
    declared = value.declared()
    offsets: dict[int, int] = {}
    for slot, name, kind in declared.fields:
        item = getattr(value, name)
        if item is None or isinstance(kind, _Scalar):
            continue
        if isinstance(kind, _Union):
            if isinstance(item, UnknownMember) or type(item) not in kind.codes:
                raise ValueError(f"{type(value).__name__}.{name} cannot hold {item!r}")
            offsets[slot + 1] = _write_table(builder, item)
        else:
            offsets[slot] = _write_reference(builder, kind, item)
    builder.StartObject(declared.slots)
    for slot, name, kind in declared.fields:
        item = getattr(value, name)
        if isinstance(kind, _Scalar):
            getattr(builder, _PREPEND[kind.code])(slot, item, kind.default)
        elif isinstance(kind, _Union):
            if item is not None:
                builder.PrependUint8Slot(slot, kind.codes[type(item)], 0)
                builder.PrependUOffsetTRelativeSlot(slot + 1, offsets[slot + 1], 0)
        elif item is not None:
            builder.PrependUOffsetTRelativeSlot(slot, offsets[slot], 0)
    return cast(int, builder.EndObject())


def _write_reference(builder: Any, kind: _Kind, item: Any) -> int:
    if isinstance(kind, _Table):
        return _write_table(builder, item)
    if isinstance(kind, _String):
        return cast(int, builder.CreateString(item))
    if isinstance(kind, _Vector):
        return _write_vector(builder, item, kind)
    if isinstance(kind, _Strings):
        places = [builder.CreateString(element) for element in item]
    elif isinstance(kind, _Blobs):
        places = [_write_blob(builder, element, kind.align) for element in item]
    else:
        places = [_write_table(builder, element) for element in item]
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return cast(int, builder.EndVector())


def _write_blob(builder: Any, item: Array | Pieces, align: int) -> int:
    values = item if isinstance(item, Pieces) else _exact(np.asarray(item), _BYTE)
    # The terminating zero lies after the bytes, which are what has to be aligned.
    builder.StartVector(1, values.nbytes + 1, align)
    builder.Place(0, flatbuffers.number_types.Uint8Flags)
    builder.place(values)
    builder.vectorNumElems = values.nbytes
    return cast(int, builder.EndVector())


def _write_vector(builder: Any, item: Array | Pieces, kind: _Vector) -> int:
    if isinstance(item, Pieces):
        builder.StartVector(1, item.nbytes, kind.align)
        builder.place(item)
        return cast(int, builder.EndVector())
    values = _exact(np.asarray(item), kind.dtype)
    members = kind.members or 1
    if kind.members and (values.ndim != 2 or values.shape[1] != members):
        raise ValueError(f"shape {values.shape} for a vector of structs of {members} members")
    itemsize = kind.dtype.itemsize
    builder.StartVector(itemsize * members, values.size // members, max(kind.align, itemsize))
    builder.place(values)
    return cast(int, builder.EndVector())


def _exact(item: Array, dtype: np.dtype[Any]) -> Array:
    values = np.ascontiguousarray(item, dtype=dtype)
    if item.dtype != dtype and not np.array_equal(values, item):
        raise ValueError(f"{item.dtype} values do not fit a vector of {dtype}")
    return values
