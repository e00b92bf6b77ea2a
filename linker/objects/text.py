"""Text form of relocatable objects, from which the same object can be read again.

The head is directives with one JSON object each: ``.object`` with names, ``.resources``,
``.input`` and ``.output`` per layer, and ``.operand`` with its ``.run`` and ``.data`` lines, bytes
in hexadecimal. Then every ``.text`` section with its instructions; symbols are written where their
values go, and named in the order of their first use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.formats import flat
from fitzroy.formats.darwinn import FIELD_BITS, Layer
from fitzroy.formats.object_file import (
    Condition,
    Fixup,
    ObjectFile,
    Operand,
    Part,
    Resources,
    Run,
    SymbolKind,
    Text,
    check,
)
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.program import assemble, chunk, disassemble
from fitzroy.hw_models.isa.text import ChunkParser, Numbering, field_widths, listing
from fitzroy.linker.objects.assembly import DirectiveReader, check_chip
from fitzroy.linker.objects.symbols import Reference, SymbolTable, parse_reference

_DATA_BYTES = 64
_CONDITIONS = {condition.name.lower(): condition for condition in Condition}


def object_listing(file: ObjectFile, *, comments: bool = True) -> Iterator[str]:
    """Lines of an object.

    Yields:
        Lines without newline.

    Raises:
        FormatError: a section that is not instructions.
    """
    check_chip(file.chip or "")
    yield f".chip {file.chip}"
    yield f".object {_json({'name': file.name, 'producer': file.producer})}"
    if file.resources is not None:
        yield f".resources {_json(flat.as_dict(file.resources))}"
    for layer in file.inputs or ():
        yield f".input {_json(flat.as_dict(layer))}"
    for layer in file.outputs or ():
        yield f".output {_json(flat.as_dict(layer))}"
    for operand in file.operands or ():
        yield ""
        head = {"name": operand.name, "kind": operand.kind, "lanes": operand.lanes}
        yield f".operand {_json(head | {'prefix': operand.prefix})}"
        for run in operand.runs or ():
            yield f".run {_json(flat.as_dict(run))}"
        data = b"" if operand.data is None else operand.data.tobytes()
        for at in range(0, len(data), _DATA_BYTES):
            yield f".data {data[at : at + _DATA_BYTES].hex()}"
    numbering = Numbering()
    for text in file.text or ():
        yield ""
        yield f".text {_json(_head(file, text))}"
        code = b"" if text.code is None else text.code.tobytes()
        program = chunk(disassemble(code))
        # The listing counts bits from START, which sections do not have.
        places = {BUNDLE_BITS + fixup.bit: fixup for fixup in text.fixups or ()}
        widths = field_widths(program, places)
        for bit, fixup in places.items():
            if fixup.part not in (Part.LOW, Part.HIGH) and fixup.width != widths.get(bit):
                raise FormatError(f"a fixup of {fixup.width} bits is not a whole field")
        symbols = {bit: _reference(file, fixup).text() for bit, fixup in places.items()}
        yield from listing(program, symbols=symbols, numbering=numbering, comments=comments)


def _json(value: object) -> str:
    # A semicolon would begin a comment.
    return json.dumps(value, separators=(",", ":")).replace(";", "\\u003b")


def _head(file: ObjectFile, text: Text) -> dict[str, object]:
    head: dict[str, object] = {}
    if text.condition:
        head["when"] = Condition(text.condition).name.lower()
        head["operand"] = (file.operands or [])[text.operand].name
    if text.ends_chunk:
        head["ends_chunk"] = True
    return head


def _reference(file: ObjectFile, fixup: Fixup) -> Reference:
    symbol = (file.symbols or [])[fixup.symbol]
    return Reference(
        Part(fixup.part), SymbolKind(symbol.kind), symbol.name or "", symbol.batch, fixup.addend
    )


def is_object(text: str) -> bool:
    """Whether a listing is that of an object rather than of packages."""
    return any(line.startswith(".object") for line in text.splitlines())


def parse_object(text: str, path: str = "") -> ObjectFile:
    """The object of a listing.

    Raises:
        FormatError: names the line, or the table that is not consistent.
    """
    return _ObjectReader(path).read(text)


class _ObjectReader(DirectiveReader):
    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            {
                "chip": self._chip,
                "object": self._object,
                "resources": self._resources,
                "input": self._input,
                "output": self._output,
                "operand": self._operand,
                "run": self._run,
                "data": self._data,
                "text": self._text,
            },
        )
        self._file = ObjectFile(inputs=[], outputs=[], operands=[], text=[])
        self._bytes: list[bytearray] = []
        self._numbers: dict[str, int] = {}
        self._parser = ChunkParser(path)
        self._heads: list[dict[str, Any]] = []
        self._symbols = SymbolTable()

    def read(self, text: str) -> ObjectFile:
        self.read_lines(text, self._instruction)
        self._close()
        file = self._file
        for operand, data in zip(file.operands or (), self._bytes, strict=True):
            operand.data = np.frombuffer(bytes(data), np.uint8)
        file.symbols = self._symbols.symbols
        check(file, self.path)
        return file

    def _chip(self, name: str) -> None:
        check_chip(name)
        self._file.chip = name

    def _object(self, arguments: str) -> None:
        head = _parsed(arguments, {"name", "producer"})
        for value in head.values():
            if not isinstance(value, str | None):
                raise FormatError("names are strings")
        self._file.name, self._file.producer = head.get("name"), head.get("producer")

    def _resources(self, arguments: str) -> None:
        self._file.resources = flat.from_dict(Resources, _parsed(arguments))

    def _input(self, arguments: str) -> None:
        self._listed(self._file.inputs, Layer, arguments)

    def _output(self, arguments: str) -> None:
        self._listed(self._file.outputs, Layer, arguments)

    def _listed(self, place: list[Any] | None, cls: type[flat.Table], arguments: str) -> None:
        if place is not None:
            place.append(flat.from_dict(cls, _parsed(arguments)))

    def _operand(self, arguments: str) -> None:
        head = _parsed(arguments, {"name", "kind", "lanes", "prefix"})
        self._listed(self._file.operands, Operand, json.dumps(head))
        self._numbers[head.get("name", "")] = len(self._bytes)
        self._bytes.append(bytearray())

    def _last_operand(self) -> Operand:
        if not self._file.operands:
            raise FormatError("there is no .operand before")
        return self._file.operands[-1]

    def _run(self, arguments: str) -> None:
        operand = self._last_operand()
        if operand.runs is None:
            operand.runs = []
        operand.runs.append(flat.from_dict(Run, _parsed(arguments)))

    def _data(self, arguments: str) -> None:
        self._last_operand()
        try:
            self._bytes[-1] += bytes.fromhex(arguments)
        except ValueError:
            raise FormatError("data is written in hexadecimal") from None

    def _text(self, arguments: str) -> None:
        self._close()
        self._heads.append(_parsed(arguments, {"when", "operand", "ends_chunk"}))

    def _instruction(self, number: int, line: str) -> None:
        if not self._heads:
            raise FormatError(
                "an instruction outside a section",
                path=self.path,
                table=f"line {number}",
                hint="begin with .text {}",
            )
        self._parser.line(number, line)

    def _close(self) -> None:
        """Finish the section that is open."""
        if not self._heads:
            return
        head = self._heads.pop()
        parsed = self._parser.finish()
        body: list[Instruction] = parsed.instructions[1:-1]
        if parsed.instructions != chunk(body):
            raise FormatError(
                f"section {len(self._file.text or ())} does not end with END, or has another size",
                path=self.path,
                hint="leave out start and end",
            )
        fixups: list[Fixup] = []
        widths = field_widths(parsed.instructions, parsed.symbols)
        for bit, expression in sorted(parsed.symbols.items()):
            reference = parse_reference(expression)
            address = reference.part in (Part.LOW, Part.HIGH)
            place = bit - BUNDLE_BITS
            if bit not in widths and not address:
                raise FormatError(f"no field begins where {expression} stands", path=self.path)
            fixups.append(
                Fixup(
                    bit=place,
                    width=FIELD_BITS if address else widths[bit],
                    symbol=self._symbols.number(reference),
                    part=int(reference.part),
                    addend=reference.addend,
                )
            )
        section = Text(code=np.frombuffer(assemble(body), np.uint8), fixups=fixups)
        when = str(head.get("when", "always"))
        if when not in _CONDITIONS:
            raise FormatError(f"sections are there {', '.join(_CONDITIONS)}", path=self.path)
        section.condition = int(_CONDITIONS[when])
        if section.condition:
            name = head.get("operand")
            if not isinstance(name, str) or name not in self._numbers:
                raise FormatError(f"there is no operand {str(name)[:40]!r}", path=self.path)
            section.operand = self._numbers[name]
        section.ends_chunk = head.get("ends_chunk", False)
        if not isinstance(section.ends_chunk, bool):
            raise FormatError("ends_chunk is true or false", path=self.path)
        if self._file.text is not None:
            self._file.text.append(section)


def _parsed(text: str, names: set[str] | None = None) -> dict[str, Any]:
    """The JSON object of a directive.

    Raises:
        FormatError: it is not an object, or has other names.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {str(error)[:80]}") from None
    if not isinstance(value, dict):
        raise FormatError("a JSON object is expected")
    if names is not None and not value.keys() <= names:
        raise FormatError(f"unknown names, known are {', '.join(sorted(names))}")
    return value
