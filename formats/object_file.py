"""Relocatable objects: what a code generator hands to the linker.

A FlatBuffers file with the identifier ``FZO1``. An object holds the program of one model without
addresses: text sections of whole bundles, parameter operands, symbols, and fixups that say where
a symbol's value goes. The linker chooses rows of wide memory and chunks, fills in what is known
then, and leaves the addresses of buffers to the driver.

=================  ==============================================================================
table              content
=================  ==============================================================================
`ObjectFile`       one model: sections, operands, symbols, ports, resources
`Text`             bundles of a section, without START and END, and its fixups
`Operand`          parameters of one layer, and where its words lie on the chip
`Run`              words of an operand in consecutive rows of one tile
`Symbol`           input, output, parameters, scratch, or the rows of an operand
`Fixup`            bits of a section that take a part of a symbol's value
=================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats import flat
from fitzroy.formats.darwinn import BUNDLE_BYTES, Layer
from fitzroy.formats.flat import Table, scalar, string, table, tables, vector

E = TypeVar("E", bound=IntEnum)

IDENTIFIER = b"FZO1"
VERSION = 0

UNIT_BYTES = 64
"""Unit of parameters: sizes of operands and runs are multiples."""

_LARGEST = (1 << 31) - 1
"""Packages store sizes as int32."""


class SymbolKind(IntEnum):
    """What a symbol stands for; the first four are the descriptions of a package's fields."""

    OUTPUT = 0
    INPUT = 1
    PARAMETERS = 2
    SCRATCH = 3
    OPERAND = 4


class Part(IntEnum):
    """What of a symbol's value a fixup takes."""

    LOW = 0
    """Lower half of an address, 32 bits: left to the driver."""
    HIGH = 1
    """Upper half of an address, 32 bits: left to the driver."""
    ROW = 2
    """First row of a group of runs in wide memory, plus the addend."""
    QUARTER_ROW = 3
    """Four times the row, plus the addend: the unit of tensor operations."""
    OFFSET = 4
    """Byte offset of the operand in the streamed parameters, plus the addend."""


class Condition(IntEnum):
    """When a section is part of the program."""

    ALWAYS = 0
    CACHED = 1
    """Its operand stays on the chip."""
    STREAMED = 2
    """Its operand is sent with every inference."""


class OperandKind(IntEnum):
    """How a layer uses its parameters, which decides where they may live."""

    FULLY_CONNECTED = 0
    """Block b of output channels is read in place by tile b mod 16: rows without a gap."""
    CONVOLUTION = 1
    """An owner sends the words to all tiles; several owners may share them."""
    PACKED = 2
    """Words of four lanes, 16 to the row, on a single owner that sends whole rows."""
    MATRICES = 3
    """Small matrices, which every tile reads in place, as blocks; no layer's own parameters."""


@dataclass(eq=False, slots=True, kw_only=True)
class Symbol(Table):
    """A name that fixups refer to."""

    kind: int = scalar("i1")
    name: str | None = string()
    batch: int = scalar("i4")
    """Batch index of a layer, group of runs of an operand."""


@dataclass(eq=False, slots=True, kw_only=True)
class Fixup(Table):
    """`width` bits at `bit` of a section become a part of a symbol's value plus `addend`."""

    bit: int = scalar("u4")
    width: int = scalar("u1", 32)
    symbol: int = scalar("u4")
    part: int = scalar("i1")
    addend: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class Text(Table):
    """Instructions in a row; sections follow one another in the order of the file."""

    code: Array | None = vector("u1", align=BUNDLE_BYTES)
    fixups: list[Fixup] | None = tables(Fixup)
    condition: int = scalar("i1")
    operand: int = scalar("u4")
    ends_chunk: bool = scalar("?")
    """The section ends with HALT: what follows is another chunk."""


@dataclass(eq=False, slots=True, kw_only=True)
class Run(Table):
    """Words of an operand in consecutive rows of a tile; runs are in the order of the data.

    `row` is where they are unless the linker moves them; it moves all runs of a `group` by the
    same distance, because an instruction for several tiles refers to all of them.
    """

    tile: int = scalar("u1")
    row: int = scalar("u2")
    words: int = scalar("u2")
    units: int = scalar("u4")
    group: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class Operand(Table):
    """Parameters of one layer in the layout of the hardware.

    `prefix` words of scales, biases and zero points precede the weights of each block. An operand
    without runs can only be streamed.
    """

    name: str | None = string()
    kind: int = scalar("i1", OperandKind.CONVOLUTION)
    lanes: int = scalar("u1", 64)
    prefix: int = scalar("u2")
    data: Array | None = vector("u1", align=UNIT_BYTES)
    runs: list[Run] | None = tables(Run)


@dataclass(eq=False, slots=True, kw_only=True)
class Reserved(Table):
    """Rows of wide memory that the program uses for data on some tiles."""

    tiles: int = scalar("u2")
    """Mask: bit = 4 * row + column."""
    row: int = scalar("u2")
    rows: int = scalar("u2")


@dataclass(eq=False, slots=True, kw_only=True)
class Resources(Table):
    """What the program needs of the chip and the host.

    Parameters that stay on the chip, of this model and of others, keep off the `staging` rows.
    """

    narrow_bytes: int = scalar("u4")
    staging: list[Reserved] | None = tables(Reserved)
    scratch_bytes: int = scalar("u4")
    batch_size: int = scalar("u4", 1)
    estimated_cycles: int = scalar("i8")


@dataclass(eq=False, slots=True, kw_only=True)
class ObjectFile(Table):
    """The program of one model before linking."""

    version: int = scalar("u4", VERSION)
    name: str | None = string()
    chip: str | None = string()
    producer: str | None = string()
    text: list[Text] | None = tables(Text)
    operands: list[Operand] | None = tables(Operand)
    symbols: list[Symbol] | None = tables(Symbol)
    inputs: list[Layer] | None = tables(Layer)
    outputs: list[Layer] | None = tables(Layer)
    resources: Resources | None = table(Resources)


def read_object(data: bytes | bytearray | memoryview, path: str = "") -> ObjectFile:
    """Read an object; what it refers to exists, and sizes agree.

    Raises:
        FormatError: whatever is wrong with the bytes.
    """
    result = flat.decode(ObjectFile, data, identifiers=(IDENTIFIER,), path=path)
    check(result, path)
    return result


def write_object(file: ObjectFile) -> bytes:
    """Bytes of an object; equal objects give equal bytes.

    Raises:
        FormatError: the object is not consistent.
    """
    check(file, "")
    return flat.encode(file, identifier=IDENTIFIER)


def check(file: ObjectFile, path: str = "") -> None:
    """Verify everything that a linker relies on.

    Raises:
        FormatError: names the table.
    """
    if file.version != VERSION:
        raise FormatError(
            f"version {file.version}, {VERSION} is known", path=path, table="ObjectFile"
        )
    operands = list(file.operands or ())
    symbols = list(file.symbols or ())
    names = [operand.name or "" for operand in operands]
    if len(set(names)) != len(names) or "" in names:
        raise FormatError("names of operands must differ", path=path, table="Operand")
    for number, operand in enumerate(operands):
        _check_operand(operand, path, f"operands[{number}]")
    _check_resources(file.resources, path)
    groups = {operand.name: {run.group for run in operand.runs or ()} for operand in operands}
    layers = {
        SymbolKind.INPUT: {layer.name for layer in file.inputs or ()},
        SymbolKind.OUTPUT: {layer.name for layer in file.outputs or ()},
    }
    for number, symbol in enumerate(symbols):
        where = f"symbols[{number}]"
        kind = _member(SymbolKind, symbol.kind, path, where)
        if kind in layers and symbol.name not in layers[kind]:
            raise FormatError(f"there is no layer {symbol.name!r}", path=path, table=where)
        if kind is SymbolKind.OPERAND and symbol.name not in groups:
            raise FormatError(f"there is no operand {symbol.name!r}", path=path, table=where)
    used: list[int] = []
    for number, text in enumerate(file.text or ()):
        _check_text(text, symbols, groups, len(operands), path, f"text[{number}]")
        used += [fixup.symbol for fixup in text.fixups or ()]
    # One order, so that the text form, which has no table of symbols, loses nothing.
    if list(dict.fromkeys(used)) != list(range(len(symbols))):
        raise FormatError(
            "symbols are not numbered in the order of their first use",
            path=path,
            table="ObjectFile.symbols",
        )


def _member(kind: type[E], value: int, path: str, where: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise FormatError(f"{value} is not a {kind.__name__}", path=path, table=where) from None


def _check_resources(resources: Resources | None, path: str) -> None:
    for name in ("narrow_bytes", "scratch_bytes", "batch_size"):
        value = 0 if resources is None else getattr(resources, name)
        if value > _LARGEST:
            raise FormatError(
                f"{name} is {value}, packages hold up to {_LARGEST}", path=path, table="Resources"
            )


def _check_operand(operand: Operand, path: str, where: str) -> None:
    _member(OperandKind, operand.kind, path, where)
    size = 0 if operand.data is None else len(operand.data)
    if not size or size % UNIT_BYTES:
        raise FormatError(
            f"{size} bytes, not a multiple of {UNIT_BYTES}", path=path, table=f"{where}.data"
        )
    if operand.lanes not in (16, 32, 48, 64):
        raise FormatError(f"{operand.lanes} lanes", path=path, table=where)
    runs = operand.runs or []
    for run in runs:
        held = -(-run.units * UNIT_BYTES // (4 * operand.lanes))
        if run.tile > 15 or not run.words or run.words != held:
            raise FormatError(
                f"{run.units} units in {run.words} rows of tile {run.tile}", path=path, table=where
            )
    if runs and sum(run.units for run in runs) * UNIT_BYTES != size:
        raise FormatError("the runs do not cover the data", path=path, table=where)


_ADDRESS_PARTS = (Part.LOW, Part.HIGH)


def _check_text(
    text: Text,
    symbols: Sequence[Symbol],
    groups: dict[str | None, set[int]],
    operands: int,
    path: str,
    where: str,
) -> None:
    size = 0 if text.code is None else len(text.code)
    if size % BUNDLE_BYTES:
        raise FormatError(f"{size} bytes, not whole bundles", path=path, table=where)
    condition = _member(Condition, text.condition, path, where)
    if condition and text.operand >= operands:
        raise FormatError(f"there is no operand {text.operand}", path=path, table=where)
    end = 0
    for fixup in text.fixups or ():
        part = _member(Part, fixup.part, path, where)
        if fixup.bit < end or not 1 <= fixup.width <= 32:
            raise FormatError(
                f"fixups overlap or are out of order at bit {fixup.bit}", path=path, table=where
            )
        end = fixup.bit + fixup.width
        if end > 8 * size:
            raise FormatError(f"a fixup at bit {fixup.bit} of {8 * size}", path=path, table=where)
        if fixup.symbol >= len(symbols):
            raise FormatError(f"there is no symbol {fixup.symbol}", path=path, table=where)
        symbol = symbols[fixup.symbol]
        if (symbol.kind == SymbolKind.OPERAND) == (part in _ADDRESS_PARTS):
            raise FormatError(
                f"{part.name} of {SymbolKind(symbol.kind).name}", path=path, table=where
            )
        if part in _ADDRESS_PARTS and (fixup.width != 32 or fixup.addend):
            raise FormatError("addresses are filled in 32 bits as they are", path=path, table=where)
        if part in (Part.ROW, Part.QUARTER_ROW) and symbol.batch not in groups[symbol.name]:
            raise FormatError(
                f"{symbol.name!r} has no group {symbol.batch}", path=path, table=where
            )
