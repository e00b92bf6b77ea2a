"""The page of file formats: what tables hold, from the declarations of the codecs."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from enum import IntEnum, IntFlag
from types import ModuleType

from fitzroy.formats import bundled, bytecode_module, darwinn, executorch, xnnpack
from fitzroy.formats.flat import Table, UnknownMember
from fitzroy.formats.layout import Slot, layout

_LITERAL = re.compile(r"::\n\n((?:    .*\n|\n)+)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^    (\w+(?:, \w+)*): ((?:.*\n)(?:        .*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        identifiers: what the bytes 4 to 8 of a file say.
        title: what the files are.
        module: where it is declared; its docstring introduces it.
        roots: tables that others are reached from, the root of the file first.
    """

    identifiers: str
    title: str
    module: ModuleType
    roots: tuple[type[Table], ...]


FORMATS = (
    Format(
        "DWN1", "packages for the Edge TPU", darwinn,
        (darwinn.Package, darwinn.MultiExecutable, darwinn.Executable),
    ),
    Format("ET12", "ExecuTorch programs", executorch, (executorch.Program,)),
    Format(
        "BP08, BP04", "programs with test cases", bundled,
        (bundled.BundledProgram, bundled.OldBundledProgram),
    ),
    Format("XN00, XN01", "XNNPACK graphs", xnnpack, (xnnpack.XNNGraph,)),
    Format("BMOD", "bytecode modules", bytecode_module, (bytecode_module.BytecodeModule,)),
)  # fmt: skip

_OPENING = """\
# File formats

File contents, byte by byte: for users who read or write files with their own tools, or look at them
in a hex editor. The tables are generated from the declarations in `formats/`, on which the reader,
the writer, the comparison and the JSON form are also based. `fitzroy inspect FILE --full` shows the
contents of a file.

All formats are [FlatBuffers](https://flatbuffers.dev): little-endian, with the offset of the root
table in the first four bytes and the identifier in the next four. A table starts with the distance
back to its vtable. The column *vtable* is the byte of the vtable with the offset of a field, or 0
if the field is absent. A union has two entries: its type code and, two bytes later, its table.

| identifier | files |
|---|---|
"""


def tables(format: Format) -> list[type[Table]]:
    """All tables of a format, each after the first one that refers to it."""
    found: list[type[Table]] = []
    waiting = [*format.roots]
    while waiting:
        cls = waiting.pop(0)
        if cls in found or cls is UnknownMember:
            continue
        found.append(cls)
        inner = [member for slot in layout(cls) for member in slot.members.values()]
        waiting = [*inner, *waiting]
    return found


def _alike(cls: type[Table]) -> type[Table] | None:
    """The class that says what a table holds, if it adds nothing to it."""
    (base,) = cls.__bases__
    declared = issubclass(base, Table) and is_dataclass(base)
    return base if declared and layout(base) == layout(cls) else None


def _meanings(cls: type[Table]) -> dict[str, str]:
    """What fields mean, as far as the docstring says so."""
    text = (inspect.getdoc(cls) or "").partition("Attributes:\n")[2] + "\n"
    return {
        name: " ".join(meaning.split())
        for names, meaning in _ATTRIBUTE.findall(text)
        for name in names.split(", ")
    }


def _members(slot: Slot, format: Format) -> str:
    known = [(code, cls) for code, cls in slot.members.items() if cls is not UnknownMember]
    links = (
        (f"{code} " if code else "") + f"[{cls.__name__}](#{_anchor(cls, format)})"
        for code, cls in known
    )
    return ", ".join(links)


def _anchor(cls: type[Table], format: Format) -> str:
    shown = _alike(cls) or cls
    return f"{format.identifiers[:4]}-{shown.__name__}".lower()


def _rows(cls: type[Table], format: Format) -> Iterator[str]:
    meanings = _meanings(cls)
    for slot in layout(cls):
        holds = " ".join(filter(None, (slot.holds, _members(slot, format))))
        meaning = meanings.get(slot.name, "").replace("|", "\\|")
        yield (
            f"| {slot.number} | {4 + 2 * slot.number} | `{slot.name}` | {holds} "
            f"| {slot.default} | {meaning} |"
        )


def _summary(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def _table(cls: type[Table], named: Iterable[str], format: Format) -> list[str]:
    lines = [f"### {cls.__name__} {{ #{_anchor(cls, format)} }}", "", _summary(cls), ""]
    if named:
        lines += [f"Tables of this layout: {', '.join(f'`{name}`' for name in named)}.", ""]
    if not layout(cls):
        return [*lines, "It has no fields.", ""]
    header = "| place | vtable | field | holds | default | meaning |"
    return [*lines, header, "|---|---|---|---|---|---|", *_rows(cls, format), ""]


def _numbers(module: ModuleType) -> Iterator[str]:
    """The enumerations of a format."""
    for name, item in vars(module).items():
        own = inspect.isclass(item) and item.__module__ == module.__name__
        if own and issubclass(item, IntEnum | IntFlag):
            values = ", ".join(f"{member.value} `{member.name}`" for member in item)
            yield from (f"`{name}`: {_summary(item)} {values}.", "")


def _introduction(module: ModuleType) -> str:
    """The docstring of a module, with its literal blocks fenced."""
    text = (inspect.getdoc(module) or "") + "\n"

    def fenced(match: re.Match[str]) -> str:
        return f":\n\n```text\n{textwrap.dedent(match[1]).strip()}\n```\n\n"

    return _LITERAL.sub(fenced, text).strip()


def formats() -> str:
    """Every format with its tables."""
    lines = [
        f"| [`{format.identifiers}`](#{format.identifiers[:4].lower()}) | {format.title} |"
        for format in FORMATS
    ]
    for format in FORMATS:
        title = f"{format.identifiers}: {format.title}"
        lines += ["", f"## {title} {{ #{format.identifiers[:4].lower()} }}", ""]
        lines += [_introduction(format.module), ""]
        alike: dict[type[Table], list[str]] = {}
        for cls in tables(format):
            shown = _alike(cls) or cls
            alike.setdefault(shown, [])
            if shown is not cls:
                alike[shown].append(cls.__name__)
        for cls, named in alike.items():
            lines += _table(cls, named, format)
        numbers = [*_numbers(format.module)]
        if numbers:
            lines += [f"### Numbers of {format.identifiers}", "", *numbers]
    return _OPENING + "\n".join(lines) + "\n"
