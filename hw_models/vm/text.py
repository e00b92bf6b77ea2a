"""Assembly language of bytecode modules: text of a module and its parser.

Directives give the tables, in the order in which they are numbered; the instructions of a function
follow its directive. Branches name labels. Text and module determine each other, but for what has
no meaning: whether a table that is empty is there, and compression that no reader looks at.

=====================================  ===========================================================
``.module "host"``                     name of the module
``.dialect A``                         opcodes of before February 2020; B is meant otherwise
``.type "!iree.byte_buffer"``          a type; ``type#N`` is the N-th
``.state globals=8 refs=1``            bytes of 32-bit globals, number of global references
``.import "m.f" (type#0) -> (type#1)`` a function of another module
``.rodata 00ff``                       a read-only segment; ``.data`` lines continue it
``.rwdata 16``                         a writable segment
``.function "f" (..) -> (..) i32=2``   a function with its registers; its code follows
``.export "f" function#0 (..) -> (..)``  a function that others may call
``.attribute "key" "value"``           of the function, import or export before
``.byte 0xff``                         a byte of code that is no instruction
``.bytes at=12 00ff``                  bytes of code outside of functions
=====================================  ===========================================================

The code of a function lies after what came before, unless ``at=N`` says otherwise; with
``length=N`` it has no text of its own and shares bytes with others. A comment begins with ``;``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitzroy.base.bits import integer
from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats.bytecode_module import (
    BytecodeModule,
    ExportFunctionDef,
    FunctionDescriptor,
    FunctionSignatureDef,
    ImportFunctionDef,
    InternalFunctionDef,
    ModuleStateDef,
    ReflectionAttrDef,
    RodataSegmentDef,
    RwdataSegmentDef,
    TypeDef,
    check,
    pack_descriptors,
)
from fitzroy.hw_models.vm.opcodes import ARROW, NAMES, Dialect, Instruction, decode
from fitzroy.hw_models.vm.operands import KINDS, Branch

_LINE_BYTES = 32
_INDENT = "    "

# --- writing --------------------------------------------------------------------------------------


def disassemble(module: BytecodeModule, dialect: Dialect = Dialect.B) -> str:
    """Text of a module."""
    return "\n".join(_lines(module, dialect)) + "\n"


def _lines(module: BytecodeModule, dialect: Dialect) -> Iterator[str]:
    yield f".module {json.dumps(module.name)}"
    if dialect is not Dialect.B:
        yield f".dialect {dialect.name}"
    for item in module.types or ():
        yield f".type {json.dumps(item.full_name)}"
    state = module.module_state
    if state is not None:
        yield f".state globals={state.global_bytes_capacity} refs={state.global_ref_count}"
    for imported in module.imported_functions or ():
        yield f".import {json.dumps(imported.full_name)} {_signature(imported.signature)}"
        yield from _attributes(imported.signature)
    for segment in module.rodata_segments or ():
        first, *rest = _hex_lines(segment.data)
        yield f".rodata {first}".rstrip()
        yield from (f".data {line}" for line in rest)
    for writable in module.rwdata_segments or ():
        yield f".rwdata {writable.byte_size}"
    yield from _function_lines(module, dialect)
    for item_exported in module.exported_functions or ():
        yield (
            f".export {json.dumps(item_exported.local_name)}"
            f" function#{item_exported.internal_ordinal} {_signature(item_exported.signature)}"
        )
        yield from _attributes(item_exported.signature)


def _signature(signature: FunctionSignatureDef | None) -> str:
    if signature is None:
        return "() -> ()"
    sides = (
        ", ".join(f"type#{kind}" for kind in kinds)
        for kinds in (signature.arguments, signature.results)
    )
    return " -> ".join(f"({side})" for side in sides)


def _attributes(signature: FunctionSignatureDef | None) -> Iterator[str]:
    for item in (signature and signature.reflection_attrs) or ():
        yield f".attribute {json.dumps(item.key)} {json.dumps(item.value)}"


def _hex_lines(data: Array | None) -> list[str]:
    raw = b"" if data is None else bytes(data)
    pieces = [raw[at : at + _LINE_BYTES].hex() for at in range(0, len(raw), _LINE_BYTES)]
    return pieces or [""]


def _function_lines(module: BytecodeModule, dialect: Dialect) -> Iterator[str]:
    size = 0 if module.bytecode_data is None else len(module.bytecode_data)
    covered = np.zeros(size, bool)
    end = 0
    functions = module.internal_functions or []
    for number, (function, place) in enumerate(zip(functions, module.descriptors, strict=True)):
        span = slice(place.offset, place.offset + place.length)
        own = place.length > 0 and not covered[span].any()
        words = [".function"]
        if function.local_name is not None:
            words.append(json.dumps(function.local_name))
        words.append(_signature(function.signature))
        words += [f"i32={place.i32_registers}", f"ref={place.ref_registers}"]
        if not own:
            words += [f"at={place.offset}", f"length={place.length}"]
        elif place.offset != end:
            words.append(f"at={place.offset}")
        yield " ".join(words)
        yield from _attributes(function.signature)
        if own:
            yield from _code_lines(module.code(number), dialect)
            covered[span] = True
            end = span.stop
    for begin, stop in _gaps(covered):
        assert module.bytecode_data is not None
        yield f".bytes at={begin} {bytes(module.bytecode_data[begin:stop]).hex()}"


def _gaps(covered: Array) -> Iterator[tuple[int, int]]:
    """Runs of what is not covered."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], covered, [True]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _code_lines(code: bytes, dialect: Dialect) -> Iterator[str]:
    items: list[tuple[int, Instruction | int]] = []
    pc = 0
    while pc < len(code):
        try:
            instruction, following = decode(code, pc, dialect)
        except FormatError:
            items.append((pc, code[pc]))
            following = pc + 1
        else:
            items.append((pc, instruction))
        pc = following
    places = {pc for pc, _ in items}
    targets = {
        operand.target
        for _, item in items
        if isinstance(item, Instruction)
        for operand in item.operands
        if isinstance(operand, Branch) and operand.target in places
    }

    def label(target: int) -> str:
        return f"L{target}" if target in targets else f"@{target}"

    for pc, item in items:
        if pc in targets:
            yield f"L{pc}:"
        text = f".byte {item:#04x}" if isinstance(item, int) else item.text(label)
        yield _INDENT + text


# --- reading --------------------------------------------------------------------------------------

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s()"]*\([^()]*\)|->|[^\s()"]+')
_COMMENT = re.compile(r'^((?:[^";]|"(?:[^"\\]|\\.)*")*);.*$')
_LABEL = re.compile(r"([A-Za-z_][\w.]*):")


def is_module(text: str) -> bool:
    """Whether a text is that of a module: its first directive is ``.module``."""
    words = (line.split() for line in text.splitlines())
    return next((word[0] for word in words if word and not word[0].startswith(";")), "") == (
        ".module"
    )


@dataclass
class _Function:
    """A function that is being read."""

    definition: InternalFunctionDef
    i32: int
    ref: int
    at: int | None
    length: int | None
    code: list[tuple[int, str | bytes]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def assemble(text: str, path: str = "") -> tuple[BytecodeModule, Dialect]:
    """The module of a text, and its dialect.

    Raises:
        FormatError: names the line.
    """
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            reader.line(number, line)
        except FormatError as error:
            raise FormatError(error.what, path=path, table=f"line {number}") from None
    module = reader.finished(path)
    check(module, path)
    return module, reader.dialect


class _Reader:
    """A module that is being read."""

    def __init__(self) -> None:
        self.module = BytecodeModule(
            types=[],
            imported_functions=[],
            exported_functions=[],
            internal_functions=[],
            rwdata_segments=[],
        )
        self.dialect = Dialect.B
        self.functions: list[_Function] = []
        self.loose: list[tuple[int, bytes]] = []
        self.segments: list[list[bytes]] = []
        self.signature: FunctionSignatureDef | None = None

    def line(self, number: int, line: str) -> None:
        """Read a line."""
        comment = _COMMENT.match(line)
        line = (comment[1] if comment else line).strip()
        if not line:
            return
        label = _LABEL.fullmatch(line)
        if label is not None:
            labels = self._function().labels
            if label[1] in labels:
                raise FormatError(f"the label {label[1]} is there twice")
            labels[label[1]] = len(self._function().code)
            return
        tokens = _tokens(line)
        directive = _DIRECTIVES.get(tokens[0])
        if directive is not None:
            directive(self, tokens[1:])
        elif tokens[0].startswith("."):
            raise FormatError(f"{tokens[0][:40]} is no directive")
        else:
            self._function().code.append((number, line))

    def _function(self) -> _Function:
        if not self.functions:
            raise FormatError("code before the first .function")
        return self.functions[-1]

    def finished(self, path: str) -> BytecodeModule:
        """The module."""
        module, placed, descriptors, end = self.module, list(self.loose), [], 0
        for function in self.functions:
            code = self._assembled(function, path)
            at = end if function.at is None else function.at
            length = len(code) if function.length is None else function.length
            if code:
                placed.append((at, code))
                end = at + len(code)
            descriptors.append(FunctionDescriptor(at, length, function.i32, function.ref))
        size = max((at + len(code) for at, code in placed), default=0)
        if size > _MOST_CODE:
            raise FormatError(f"{size} bytes of code, at most {_MOST_CODE} are read", path=path)
        data = np.zeros(size, np.uint8)
        for at, code in placed:
            data[at : at + len(code)] = np.frombuffer(code, np.uint8)
        module.function_descriptors = pack_descriptors(descriptors)
        module.bytecode_data = data
        # As writers of that time do: what is empty is not there, but for types.
        module.imported_functions = module.imported_functions or None
        module.rodata_segments = [
            RodataSegmentDef(data=np.frombuffer(b"".join(pieces), np.uint8))
            for pieces in self.segments
        ] or None
        module.rwdata_segments = module.rwdata_segments or None
        return module

    def _assembled(self, function: _Function, path: str) -> bytes:
        """Code of a function; lengths of instructions do not depend on labels."""
        positions, at = [], 0
        for number, item in function.code:
            positions.append(at)
            at += len(self._encoded(item, number, path, lambda _: 0))
        positions.append(at)
        labels = {name: positions[index] for name, index in function.labels.items()}

        def place(text: str) -> int:
            if text.startswith("@"):
                return integer(text[1:])
            if text not in labels:
                raise FormatError(f"there is no label {text[:40]!r}")
            return labels[text]

        return b"".join(self._encoded(item, number, path, place) for number, item in function.code)

    def _encoded(
        self, item: str | bytes, number: int, path: str, place: Callable[[str], int]
    ) -> bytes:
        if isinstance(item, bytes):
            return item
        try:
            return self._instruction(item, place).encode()
        except FormatError as error:
            raise FormatError(error.what, path=path, table=f"line {number}") from None

    def _instruction(self, line: str, place: Callable[[str], int]) -> Instruction:
        name, *rest = _tokens(line)
        opcode = NAMES[self.dialect].get(name)
        if opcode is None:
            raise FormatError(f"{name[:40]!r} is no opcode")
        if ARROW in opcode.kinds and "->" in rest:
            rest.remove("->")
        if len(rest) != len(opcode.kinds):
            raise FormatError(f"{name} has {len(opcode.kinds)} operands, not {len(rest)}")
        pairs = zip(opcode.kinds, rest, strict=True)
        return Instruction(opcode, tuple(KINDS[kind].parse(text, place) for kind, text in pairs))


_MOST_CODE = 1 << 26
"""Bytes of code; offsets in a text could ask for more than there is memory."""


def _tokens(line: str) -> list[str]:
    tokens = _TOKEN.findall(line)
    if "".join(line.split()) != "".join("".join(tokens).split()) or not tokens:
        raise FormatError(f"{line[:60]!r} cannot be read")
    return tokens


def _string(text: str) -> str:
    return str(KINDS["Z"].parse(text, lambda _: 0))


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise FormatError(f"{text[:40]!r} is not hexadecimal") from None


def _types(text: str) -> Array:
    kinds = text.removeprefix("(").removesuffix(")").strip()
    parts = [part.strip() for part in kinds.split(",")] if kinds else []
    return np.array([KINDS["T"].parse(part, lambda _: 0) for part in parts], np.int32)


def _parsed_signature(tokens: Sequence[str]) -> FunctionSignatureDef:
    if len(tokens) != 3 or tokens[1] != "->" or not all(t.startswith("(") for t in tokens[::2]):
        raise FormatError("a signature is written (type#0, ...) -> (...)")
    try:
        sides = [_types(tokens[side]) for side in (0, 2)]
    except OverflowError:
        raise FormatError("a type has a number of 31 bits") from None
    arguments, results = (side if side.size else None for side in sides)
    return FunctionSignatureDef(argument_types=arguments, result_types=results)


def _options(tokens: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    found = {}
    for token in tokens:
        name, mark, value = token.partition("=")
        if name not in names or not mark or name in found:
            raise FormatError(f"{token[:40]!r} is none of {', '.join(n + '=N' for n in names)}")
        found[name] = integer(value)
        if not -128 <= found[name] < 1 << 31:
            raise FormatError(f"{name}={found[name]} does not fit 31 bits")
    return found


def _one(tokens: Sequence[str]) -> str:
    if len(tokens) != 1:
        raise FormatError(f"{len(tokens)} arguments instead of 1")
    return tokens[0]


def _read_module(reader: _Reader, tokens: Sequence[str]) -> None:
    reader.module.name = _string(_one(tokens))


def _read_dialect(reader: _Reader, tokens: Sequence[str]) -> None:
    if _one(tokens) not in Dialect.__members__:
        raise FormatError(f"dialects are {', '.join(Dialect.__members__)}")
    reader.dialect = Dialect[tokens[0]]


def _read_type(reader: _Reader, tokens: Sequence[str]) -> None:
    assert reader.module.types is not None
    reader.module.types.append(TypeDef(full_name=_string(_one(tokens))))


def _read_state(reader: _Reader, tokens: Sequence[str]) -> None:
    found = _options(tokens, ("globals", "refs"))
    reader.module.module_state = ModuleStateDef(
        global_bytes_capacity=found.get("globals", 0), global_ref_count=found.get("refs", 0)
    )


def _read_import(reader: _Reader, tokens: Sequence[str]) -> None:
    assert reader.module.imported_functions is not None
    reader.signature = _parsed_signature(tokens[1:])
    reader.module.imported_functions.append(
        ImportFunctionDef(full_name=_string(tokens[0]), signature=reader.signature)
    )


def _read_rodata(reader: _Reader, tokens: Sequence[str]) -> None:
    reader.segments.append([_hex(_one(tokens))] if tokens else [])


def _read_data(reader: _Reader, tokens: Sequence[str]) -> None:
    if not reader.segments:
        raise FormatError(".data before the first .rodata")
    reader.segments[-1].append(_hex(_one(tokens)))


def _read_rwdata(reader: _Reader, tokens: Sequence[str]) -> None:
    assert reader.module.rwdata_segments is not None
    size = _options([f"size={_one(tokens)}"], ("size",))["size"]
    reader.module.rwdata_segments.append(RwdataSegmentDef(byte_size=size))


def _read_function(reader: _Reader, tokens: Sequence[str]) -> None:
    assert reader.module.internal_functions is not None
    rest, name = list(tokens), None
    if rest and rest[0].startswith('"'):
        name = _string(rest.pop(0))
    reader.signature = _parsed_signature(rest[:3])
    found = _options(rest[3:], ("i32", "ref", "at", "length"))
    definition = InternalFunctionDef(local_name=name, signature=reader.signature)
    reader.module.internal_functions.append(definition)
    reader.functions.append(
        _Function(
            definition,
            found.get("i32", 0),
            found.get("ref", 0),
            found.get("at"),
            found.get("length"),
        )
    )


def _read_export(reader: _Reader, tokens: Sequence[str]) -> None:
    assert reader.module.exported_functions is not None
    if len(tokens) != 5:
        raise FormatError('an export is written .export "name" function#N (..) -> (..)')
    function = KINDS["F"].parse(tokens[1], lambda _: 0)
    reader.signature = _parsed_signature(tokens[2:])
    reader.module.exported_functions.append(
        ExportFunctionDef(
            local_name=_string(tokens[0]),
            signature=reader.signature,
            internal_ordinal=function.ordinal,
        )
    )


def _read_attribute(reader: _Reader, tokens: Sequence[str]) -> None:
    if reader.signature is None:
        raise FormatError(".attribute before the first function")
    if len(tokens) != 2:
        raise FormatError('an attribute is written .attribute "key" "value"')
    item = ReflectionAttrDef(key=_string(tokens[0]), value=_string(tokens[1]))
    reader.signature.reflection_attrs = [*(reader.signature.reflection_attrs or ()), item]


def _read_byte(reader: _Reader, tokens: Sequence[str]) -> None:
    value = integer(_one(tokens))
    if not 0 <= value <= 0xFF:
        raise FormatError(f"{value} is no byte")
    reader._function().code.append((0, bytes([value])))


def _read_bytes(reader: _Reader, tokens: Sequence[str]) -> None:
    if len(tokens) != 2:
        raise FormatError("bytes are written .bytes at=N HEX")
    reader.loose.append((_options(tokens[:1], ("at",))["at"], _hex(tokens[1])))


_DIRECTIVES: dict[str, Callable[[_Reader, Sequence[str]], Any]] = {
    ".module": _read_module,
    ".dialect": _read_dialect,
    ".type": _read_type,
    ".state": _read_state,
    ".import": _read_import,
    ".rodata": _read_rodata,
    ".data": _read_data,
    ".rwdata": _read_rwdata,
    ".function": _read_function,
    ".export": _read_export,
    ".attribute": _read_attribute,
    ".byte": _read_byte,
    ".bytes": _read_bytes,
}
