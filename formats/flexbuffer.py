"""FlexBuffers: data without a schema, as options of custom operators hold them.

`decode` is strict: every offset, size and width is checked, maps must have sorted keys that differ
(readers search them), and the work is limited by the size of the input, however often a hostile
one shares its vectors. `encode` writes one form for a value, with the narrowest widths.

In Python, an untyped vector is a list, a typed vector of numbers a numpy array, a map a dict in
order of its keys, and a string, blob or key a `Bytes`, since strings may carry binary data.

Facts: the published description of the FlexBuffers format.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias, Union

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats.pieces import Pieces


class Type(IntEnum):
    """Types of stored values."""

    NULL = 0
    INT = 1
    UINT = 2
    FLOAT = 3
    KEY = 4
    STRING = 5
    INDIRECT_INT = 6
    INDIRECT_UINT = 7
    INDIRECT_FLOAT = 8
    MAP = 9
    VECTOR = 10
    VECTOR_INT = 11
    VECTOR_UINT = 12
    VECTOR_FLOAT = 13
    VECTOR_KEY = 14
    VECTOR_STRING_DEPRECATED = 15
    VECTOR_INT2 = 16
    VECTOR_UINT2 = 17
    VECTOR_FLOAT2 = 18
    VECTOR_INT3 = 19
    VECTOR_UINT3 = 20
    VECTOR_FLOAT3 = 21
    VECTOR_INT4 = 22
    VECTOR_UINT4 = 23
    VECTOR_FLOAT4 = 24
    BLOB = 25
    BOOL = 26
    VECTOR_BOOL = 36


@dataclass(frozen=True, slots=True)
class Bytes:
    """A string, blob or key.

    Attributes:
        data: the bytes without the terminating zero; a view of the input when decoded.
        type: STRING, BLOB or KEY.
    """

    data: bytes | memoryview
    type: Type = Type.STRING

    def text(self) -> str:
        """The bytes as UTF-8.

        Raises:
            FormatError: they are not.
        """
        try:
            return bytes(self.data).decode()
        except UnicodeDecodeError as error:
            raise FormatError(
                f"a string is not UTF-8 ({error.reason})", table="flexbuffer"
            ) from None


Value: TypeAlias = Union[  # noqa: UP007 (refers to itself)
    bool, int, float, str, bytes, Bytes, Array, list["Value"], dict[str, "Value"], None
]
"""What a flexbuffer holds; str and bytes are accepted for strings and blobs, never returned."""

_WIDTHS = (1, 2, 4, 8)
_SIGNED = {1: "<b", 2: "<h", 4: "<i", 8: "<q"}
_UNSIGNED = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
_REAL = {4: "<f", 8: "<d"}
_FORMATS = {Type.INT: _SIGNED, Type.UINT: _UNSIGNED, Type.FLOAT: _REAL, Type.BOOL: _UNSIGNED}
_INDIRECT = {
    Type.INDIRECT_INT: Type.INT,
    Type.INDIRECT_UINT: Type.UINT,
    Type.INDIRECT_FLOAT: Type.FLOAT,
}
_TYPED = {
    Type.VECTOR_INT: Type.INT,
    Type.VECTOR_UINT: Type.UINT,
    Type.VECTOR_FLOAT: Type.FLOAT,
    Type.VECTOR_BOOL: Type.BOOL,
}
_FIXED = {
    fixed: ((Type.INT, Type.UINT, Type.FLOAT)[number % 3], 2 + number // 3)
    for number, fixed in enumerate(Type(code) for code in range(16, 25))
}
_KINDS = {Type.INT: "i", Type.UINT: "u", Type.FLOAT: "f", Type.BOOL: "u"}

_MOST_KEY_BYTES = 1024
_MOST_DEPTH = 32
# Upper bounds on the memory, in bytes, of a number and of any other value in its container.
_NUMBER_COST = 48
_VALUE_COST = 240
# Every input may build this much, in bytes of Python objects, plus four times its own size.
_FREE_BUDGET = 16 << 20


# --- reading -------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, data: memoryview, path: str, base: int) -> None:
        self.data = data
        self.path = path
        self.base = base
        self.budget = _FREE_BUDGET + 4 * len(data)

    def fail(self, what: str, at: int) -> FormatError:
        offset = self.base + min(max(at, 0), len(self.data))
        return FormatError(what, path=self.path, offset=offset, table="flexbuffer")

    def charge(self, cost: int, at: int) -> None:
        self.budget -= cost
        if self.budget < 0:
            raise self.fail("the data expand to far more than their size allows", at)

    def check(self, at: int, size: int) -> None:
        if at < 0 or at + size > len(self.data):
            raise self.fail(f"{size} bytes at {at} of {len(self.data)}", at)

    def number(self, kind: Type, at: int, width: int) -> int | float:
        code = _FORMATS[kind].get(width)
        if code is None:
            raise self.fail(f"a {kind.name} of {width} bytes", at)
        self.check(at, width)
        value: int | float = struct.unpack_from(code, self.data, at)[0]
        return value

    def size(self, at: int, width: int) -> int:
        return int(self.number(Type.UINT, at, width))

    def follow(self, at: int, width: int) -> int:
        offset = self.size(at, width)
        # 0 is the way to an empty vector that was written last.
        if offset > at:
            raise self.fail(f"an offset leads {offset} bytes back from {at}", at)
        return at - offset

    def value(self, packed: int, at: int, width: int, depth: int = 0) -> Value:
        """The value of packed type `packed`, stored or referred to by `width` bytes at `at`."""
        code, inner = packed >> 2, 1 << (packed & 3)
        self.charge(_NUMBER_COST if code <= Type.FLOAT else _VALUE_COST, at)
        if code not in Type._value2member_map_:
            raise self.fail(f"unknown type {code}", at)
        kind = Type(code)
        if kind is Type.NULL:
            self.check(at, width)
            return None
        if kind in _FORMATS:
            value = self.number(kind, at, width)
            return bool(value) if kind is Type.BOOL else value
        target = self.follow(at, width)
        if kind in _INDIRECT:
            return self.number(_INDIRECT[kind], target, inner)
        if kind is Type.KEY:
            return Bytes(self.key(target), Type.KEY)
        if kind in (Type.STRING, Type.BLOB):
            return self.string(kind, target, inner)
        if kind in _FIXED:
            return self.array(*_FIXED[kind], target, inner)
        count = self.size(target - inner, inner)
        if kind in _TYPED:
            return self.array(_TYPED[kind], count, target, inner)
        if depth >= _MOST_DEPTH:
            raise self.fail(f"values nested {depth} deep", at)
        # Checked before anything is built, since the count alone may ask for any amount.
        typed = kind in (Type.VECTOR_KEY, Type.VECTOR_STRING_DEPRECATED)
        self.check(target, count * inner + (0 if typed else count))
        places = range(target, target + count * inner, inner)
        if typed:
            # Elements of typed vectors have no packed type; strings there have sizes of a byte.
            element = (Type.KEY if kind is Type.VECTOR_KEY else Type.STRING) << 2
            return [self.value(element, place, inner, depth + 1) for place in places]
        types = self.data[target + count * inner : target + count * inner + count]
        if kind is Type.VECTOR:
            return [
                self.value(element, place, inner, depth + 1)
                for element, place in zip(types, places, strict=True)
            ]
        keys = self.keys(target, count, inner)
        return {
            key: self.value(element, place, inner, depth + 1)
            for key, element, place in zip(keys, types, places, strict=True)
        }

    def keys(self, target: int, count: int, width: int) -> list[str]:
        """Keys of the map whose values are at `target`."""
        at = self.follow(target - 3 * width, width)
        inner = self.size(target - 2 * width, width)
        if inner not in _WIDTHS:
            raise self.fail(f"keys of {inner} bytes each", target - 2 * width)
        found = self.size(at - inner, inner)
        if found != count:
            raise self.fail(f"{found} keys for {count} values", at - inner)
        self.check(at, count * inner)
        self.charge(_VALUE_COST * count, at)
        keys: list[bytes] = []
        for place in range(at, at + count * inner, inner):
            key = bytes(self.key(self.follow(place, inner)))
            if keys and key <= keys[-1]:
                raise self.fail(f"key {key!r} after key {keys[-1]!r}", place)
            keys.append(key)
        try:
            return [key.decode() for key in keys]
        except UnicodeDecodeError as error:
            raise self.fail(f"a key is not UTF-8 ({error.reason})", at) from None

    def key(self, at: int) -> memoryview:
        length = bytes(self.data[at : at + _MOST_KEY_BYTES]).find(0)
        if length < 0:
            raise self.fail(f"a key has no end within {_MOST_KEY_BYTES} bytes", at)
        self.charge(length, at)
        return self.data[at : at + length]

    def string(self, kind: Type, at: int, width: int) -> Bytes:
        length = self.size(at - width, width)
        self.check(at, length + (kind is Type.STRING))
        # Bytes count although they are not copied: whoever walks over them must finish too.
        self.charge(length, at)
        if kind is Type.STRING and self.data[at + length]:
            raise self.fail("a string does not end with a zero", at + length)
        return Bytes(self.data[at : at + length], kind)

    def array(self, kind: Type, count: int, at: int, width: int) -> Array:
        if width not in _FORMATS[kind]:
            raise self.fail(f"{kind.name}s of {width} bytes", at)
        self.check(at, count * width)
        self.charge(count * width, at)
        view: Array = np.ndarray((count,), np.dtype(f"<{_KINDS[kind]}{width}"), self.data, at)
        return view != 0 if kind is Type.BOOL else view


def decode(data: bytes | bytearray | memoryview, path: str = "", base: int = 0) -> Value:
    """Read a flexbuffer.

    Args:
        data: the whole flexbuffer; bytes and arrays of the result are views of it.
        path: name of the file, for errors.
        base: offset of the flexbuffer in that file, for errors.

    Raises:
        FormatError: whatever is wrong with the bytes.
    """
    view = memoryview(data).toreadonly()
    reader = _Reader(view, path, base)
    if len(view) < 3:
        raise reader.fail(f"{len(view)} bytes, a flexbuffer has 3 at least", 0)
    width = view[-1]
    if width not in _WIDTHS:
        raise reader.fail(f"a root of {width} bytes", len(view) - 1)
    return reader.value(view[-2], len(view) - 2 - width, width)


# --- writing -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stored:
    """A value on its way: a number to put into its container, or the place of what is written.

    Attributes:
        type: its type.
        value: the number; for what is stored elsewhere, its place.
        width: for what is stored elsewhere, the width of its own fields.
        inline: whether `value` is the number itself.
    """

    type: Type
    value: int | float
    width: int = 1
    inline: bool = False

    def packed(self, width: int) -> int:
        """The packed type in a container of a width."""
        return self.type << 2 | (width if self.inline else self.width).bit_length() - 1

    def fits(self, width: int, at: int) -> bool:
        """Whether `width` bytes at `at` can hold the number, or the way back to the place."""
        if self.inline:
            return _fits(self.type, self.value, width)
        return at - int(self.value) < 1 << 8 * width


def _fits(kind: Type, value: int | float, width: int) -> bool:
    if kind is Type.FLOAT:
        if width == 4:
            try:
                narrow = struct.unpack("<f", struct.pack("<f", value))[0]
            except OverflowError:
                return False
            return bool(narrow == value) or value != value
        return width == 8
    half = 1 << 8 * width - 1
    return -half <= value < half if kind is Type.INT else 0 <= value < 2 * half


class _Writer:
    def __init__(self, align: int) -> None:
        self.out = Pieces()
        self.align = align

    def pad(self, alignment: int, ahead: int = 0) -> None:
        """Zeros up to where what comes `ahead` bytes later is aligned."""
        self.out += bytes(-(len(self.out) + ahead) % alignment)

    def store(self, value: Value) -> _Stored:
        """Write what a value needs outside its container."""
        if value is None:
            return _Stored(Type.NULL, 0, inline=True)
        if isinstance(value, bool | np.bool_):
            return _Stored(Type.BOOL, int(value), inline=True)
        if isinstance(value, int | np.integer):
            return _Stored(_integer_type(int(value)), int(value), inline=True)
        if isinstance(value, float | np.floating):
            return _Stored(Type.FLOAT, float(value), inline=True)
        if isinstance(value, str):
            value = Bytes(value.encode())
        elif isinstance(value, bytes):
            value = Bytes(value, Type.BLOB)
        if isinstance(value, Bytes):
            return self.string(value)
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, dict):
            return self.map(value)
        elements = [self.store(element) for element in value]
        return self.vector(Type.VECTOR, elements)

    def string(self, value: Bytes) -> _Stored:
        if value.type is Type.KEY:
            return self.key(bytes(value.data))
        length = len(value.data)
        width = next(width for width in _WIDTHS if length < 1 << 8 * width)
        self.pad(max(self.align, width), width)
        self.out += length.to_bytes(width, "little")
        place = len(self.out)
        self.out += value.data
        if value.type is Type.STRING:
            self.out += b"\0"
        return _Stored(value.type, place, width)

    def key(self, key: bytes) -> _Stored:
        if 0 in key or len(key) >= _MOST_KEY_BYTES:
            raise ValueError(f"a key of {len(key)} bytes, or with a zero in it")
        place = len(self.out)
        self.out += key + b"\0"
        return _Stored(Type.KEY, place)

    def array(self, values: Array) -> _Stored:
        if values.ndim != 1:
            raise ValueError(f"an array of shape {values.shape}")
        kinds = {"i": Type.INT, "u": Type.UINT, "f": Type.FLOAT, "b": Type.BOOL}
        if values.dtype.kind not in kinds:
            raise ValueError(f"an array of {values.dtype}")
        kind = kinds[values.dtype.kind]
        typed = next(vector for vector, element in _TYPED.items() if element is kind)
        numbers = [_Stored(kind, number, inline=True) for number in values.tolist()]
        return self.vector(typed, numbers)

    def map(self, value: dict[str, Value]) -> _Stored:
        keys = sorted(key.encode() for key in value)
        stored = self.vector(Type.VECTOR_KEY, [self.key(key) for key in keys])
        elements = [self.store(value[key.decode()]) for key in keys]
        return self.vector(Type.MAP, elements, stored)

    def vector(self, kind: Type, elements: list[_Stored], keys: _Stored | None = None) -> _Stored:
        """Write a vector with the narrowest width that holds its elements and offsets."""
        for width in _WIDTHS:
            front = (3 if keys else 1) * width
            start = len(self.out) + -len(self.out) % width + front
            if (
                len(elements) < 1 << 8 * width
                and (keys is None or keys.fits(width, start - front))
                and all(
                    element.fits(width, start + number * width)
                    for number, element in enumerate(elements)
                )
            ):
                break
        else:
            raise ValueError("a value that no flexbuffer can hold")
        self.pad(width)
        if keys is not None:
            self.element(keys, width)
            self.out += keys.width.to_bytes(width, "little")
        self.out += len(elements).to_bytes(width, "little")
        place = len(self.out)
        for element in elements:
            self.element(element, width)
        if kind in (Type.VECTOR, Type.MAP):
            self.out += bytes(element.packed(width) for element in elements)
        return _Stored(kind, place, width)

    def element(self, stored: _Stored, width: int) -> None:
        if not stored.inline:
            self.out += (len(self.out) - int(stored.value)).to_bytes(width, "little")
        elif stored.type is Type.NULL:
            self.out += bytes(width)
        else:
            self.out += struct.pack(_FORMATS[stored.type][width], stored.value)


def _integer_type(value: int) -> Type:
    return Type.UINT if value >= 1 << 63 else Type.INT


def encode(value: Value, *, align: int = 1) -> bytes:
    """Write a flexbuffer; equal values give equal bytes.

    Args:
        value: what to write; keys of maps are sorted.
        align: bytes, a power of two, to which strings and blobs are aligned.

    Raises:
        ValueError: a value that a flexbuffer cannot hold.
    """
    return encoded(value, align=align).joined()


def encoded(value: Value, *, align: int = 1) -> Pieces:
    """The same as `encode`, as part of something larger that is yet to be joined."""
    writer = _Writer(align)
    root = writer.store(value)
    for width in _WIDTHS:
        if root.fits(width, len(writer.out) + -len(writer.out) % width):
            break
    else:
        raise ValueError(f"{value!r} is too large for a flexbuffer")
    writer.pad(width)
    writer.element(root, width)
    writer.out += bytes((root.packed(width), width))
    return writer.out
