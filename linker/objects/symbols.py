"""Symbol expressions of assembly text: ``low(input, "image")``, ``row("weights", 1)+2``.

The same expressions name what an executable's field offsets and an object's fixups refer to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fitzroy.base.errors import FormatError
from fitzroy.formats.darwinn import Description, Position
from fitzroy.formats.object_file import Part, Symbol, SymbolKind
from fitzroy.linker.resolve.fields import AddressField, Buffer


@dataclass(frozen=True, slots=True)
class Reference:
    """A part of a symbol's value.

    Attributes:
        part: which part.
        kind: what the symbol is.
        name: of the layer or operand, else empty.
        batch: batch index of a layer, group of runs of an operand.
        addend: added to the value.
    """

    part: Part
    kind: SymbolKind
    name: str = ""
    batch: int = 0
    addend: int = 0

    def text(self) -> str:
        """Canonical expression."""
        arguments = [] if self.kind is SymbolKind.OPERAND else [self.kind.name.lower()]
        if self.kind not in (SymbolKind.PARAMETERS, SymbolKind.SCRATCH) or self.name:
            arguments.append(quoted(self.name))
        elif self.batch:
            arguments.append('""')
        if self.batch:
            arguments.append(str(self.batch))
        addend = f"{self.addend:+d}" if self.addend else ""
        return f"{self.part.name.lower()}({', '.join(arguments)}){addend}"


class SymbolTable:
    """Symbols of an object, numbered in order of their first use."""

    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self._numbers: dict[tuple[SymbolKind, str, int], int] = {}

    def number(self, reference: Reference) -> int:
        """Number of the symbol that an expression refers to."""
        key = (reference.kind, reference.name, reference.batch)
        if key not in self._numbers:
            self._numbers[key] = len(self.symbols)
            kind, name, batch = key
            self.symbols.append(Symbol(kind=int(kind), name=name or None, batch=batch))
        return self._numbers[key]


def quoted(name: str) -> str:
    """A name in quotes; characters that assembly lines give a meaning are percent-encoded."""
    return '"' + "".join(c if _plain(c) else _encoded(c) for c in name) + '"'


def _plain(character: str) -> bool:
    return character.isprintable() and character not in '"%|;'


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


_ESCAPES = re.compile(r"(?:%[0-9a-f]{2})+")


def unquoted(text: str) -> str:
    """Inverse of `quoted`.

    Raises:
        FormatError: the text is not a quoted name.
    """
    if len(text) < 2 or text[0] != '"' or text[-1] != '"' or '"' in text[1:-1]:
        raise FormatError(f"{text[:60]} is not a name in quotes")
    try:
        name = _ESCAPES.sub(
            lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8"), text[1:-1]
        )
    except UnicodeDecodeError:
        raise FormatError(f"{text[:60]} has escapes that are not UTF-8") from None
    if quoted(name) != text:
        raise FormatError(f"{text[:60]} is not written canonically", hint=f"write {quoted(name)}")
    return name


_EXPRESSION = re.compile(
    r"(?P<part>[a-z_]{1,16})\((?P<kind>[a-z]{1,16})?(?:, )?(?P<name>\"[^\"]*\")?"
    r"(?:, (?P<batch>\d{1,9}))?\)(?P<addend>[+-]\d{1,10})?"
)
_PARTS = {part.name.lower(): part for part in Part}
_KINDS = {kind.name.lower(): kind for kind in SymbolKind if kind is not SymbolKind.OPERAND}


def parse_reference(text: str) -> Reference:
    """The reference of an expression.

    Raises:
        FormatError: it is not an expression, or not in canonical form.
    """
    match = _EXPRESSION.fullmatch(text)
    kind = SymbolKind.OPERAND if match is None or not match["kind"] else _KINDS.get(match["kind"])
    if match is None or match["part"] not in _PARTS or kind is None:
        raise FormatError(
            f"{text[:60]!r} is not a symbol",
            hint='write low(parameters), high(input, "name") or row("operand")',
        )
    result = Reference(
        _PARTS[match["part"]],
        kind,
        unquoted(match["name"]) if match["name"] else "",
        int(match["batch"] or 0),
        int(match["addend"] or 0),
    )
    if result.text() != text:
        raise FormatError(f"{text[:60]!r} is not in canonical form", hint=result.text())
    return result


def reference_of(field: AddressField) -> Reference:
    """The expression of a field that the driver fills in."""
    buffer = field.buffer
    return Reference(Part(field.position), SymbolKind(buffer.desc), buffer.name, buffer.batch)


def field_of(reference: Reference, bit: int, chunk: int = 0) -> AddressField:
    """The field that an expression leaves to the driver.

    Raises:
        FormatError: only addresses of buffers are left to the driver.
    """
    if reference.part not in (Part.LOW, Part.HIGH) or reference.addend:
        raise FormatError(f"{reference.text()} cannot be left to the driver")
    buffer = Buffer(Description(reference.kind), reference.name, reference.batch)
    return AddressField(chunk, bit, buffer, Position(reference.part))
