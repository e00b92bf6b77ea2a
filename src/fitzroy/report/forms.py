"""Which forms of instructions programs have, and which of them no published program has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.novelty import Novelty, novelty
from fitzroy.hw_models.isa.program import disassemble, positions


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instruction is.

    Attributes:
        package: number of the package.
        executable: number of the executable in it.
        chunk: number of the chunk.
        bundle: number of its first bundle.
    """

    package: int
    executable: int
    chunk: int
    bundle: int

    def __str__(self) -> str:
        return f"{self.package}:{self.executable}:{self.chunk}:{self.bundle}"


@dataclass(frozen=True, slots=True)
class NovelForm:
    """A form that no published program has.

    Attributes:
        novelty: the form, and what is new about it.
        count: instructions of that form.
        first: the first of them.
    """

    novelty: Novelty
    count: int
    first: Place


@dataclass(frozen=True, slots=True)
class FormsReport:
    """Forms of the instructions of programs.

    Attributes:
        instructions: number of instructions.
        forms: number of different forms.
        novel: forms that no published program has, the most frequent ones first.
    """

    instructions: int
    forms: int
    novel: tuple[NovelForm, ...]

    @property
    def known_instructions(self) -> int:
        """Instructions whose form is published."""
        return self.instructions - sum(item.count for item in self.novel)

    @property
    def known_forms(self) -> int:
        """Published forms among them."""
        return self.forms - len(self.novel)


def instructions(packages: Iterable[PackageFile]) -> Iterator[tuple[Place, Instruction]]:
    """All instructions of packages, and where they are.

    Raises:
        FormatError: a malformed program.
    """
    for number, package in enumerate(packages):
        for index, executable in enumerate(package.executables):
            for chunk, stream in enumerate(executable.instruction_bitstreams or ()):
                code = b"" if stream.bitstream is None else bytes(stream.bitstream)
                for bundle, instruction in positions(disassemble(code, path=package.path)):
                    yield Place(number, index, chunk, bundle), instruction


def forms_of(packages: Iterable[PackageFile]) -> FormsReport:
    """The forms of packages.

    Raises:
        FormatError: a malformed program.
    """
    found: dict[str, tuple[int, Place]] = {}
    for place, instruction in instructions(packages):
        text = form(instruction)
        count, first = found.get(text, (0, place))
        found[text] = (count + 1, first)
    novel = [
        NovelForm(novelty(text), count, first)
        for text, (count, first) in found.items()
        if text not in published()
    ]
    novel.sort(key=lambda item: (-item.count, item.novelty.form))
    return FormsReport(sum(count for count, _ in found.values()), len(found), tuple(novel))


def document(report: FormsReport) -> dict[str, Any]:
    """A report as a document that JSON can hold."""
    return {
        "instructions": report.instructions,
        "known_instructions": report.known_instructions,
        "forms": report.forms,
        "known_forms": report.known_forms,
        "novel": [
            {
                "form": item.novelty.form,
                "count": item.count,
                "first": {
                    "package": item.first.package,
                    "executable": item.first.executable,
                    "chunk": item.first.chunk,
                    "bundle": item.first.bundle,
                },
                "nearest": item.novelty.nearest or None,
                "nearest_programs": item.novelty.occurrence.programs,
                "risk": item.novelty.risk.title,
                "aspects": [aspect.name for aspect in item.novelty.aspects],
                "differences": [
                    {
                        "field": one.field,
                        "here": one.here,
                        "published": one.there,
                        "seen_elsewhere": one.seen,
                    }
                    for one in item.novelty.differences
                ],
            }
            for item in report.novel
        ],
    }
