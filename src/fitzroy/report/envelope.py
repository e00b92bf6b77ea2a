"""Properties of programs beside their ranges in published programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.envelope import (
    PROPERTIES,
    Measured,
    Program,
    Property,
    measured,
    published,
    range_text,
)
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.report.forms import Place


@dataclass(frozen=True, slots=True)
class PropertyReport:
    """A property of all programs of a file.

    Attributes:
        property: the property.
        range: its range in published programs as text.
        lowest: the lowest value; 0 if there is none.
        highest: the highest value; 0 if there is none.
        occurrences: places where it was measured.
        outside: how many of these leave the range.
        worst: the place that leaves it furthest.
    """

    property: Property
    range: str
    lowest: int = 0
    highest: int = 0
    occurrences: int = 0
    outside: int = 0
    worst: Place | None = None


@dataclass(frozen=True, slots=True)
class EnvelopeReport:
    """All properties of the programs of a file.

    Attributes:
        programs: number of programs.
        partial: how many of these have a course that depends on data: they were followed up to
            there.
        properties: all properties, in order of their declaration.
    """

    programs: int
    partial: int
    properties: tuple[PropertyReport, ...]

    @property
    def outside(self) -> tuple[PropertyReport, ...]:
        """Properties that leave their ranges."""
        return tuple(item for item in self.properties if item.outside)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a program has of a property, and which program it is."""

    package: int
    executable: int
    measured: Measured


def envelope_of(packages: Iterable[PackageFile]) -> EnvelopeReport:
    """The properties of packages.

    Raises:
        FormatError: a malformed program.
        SimulationError: a program does something that the scalar core would not survive, or is
            too large to be measured.
    """
    found: dict[str, list[_Found]] = {}
    count = partial = 0
    for package, executable, program in _programs(packages):
        count += 1
        partial += not program.complete
        for slug, item in measured(program).items():
            found.setdefault(slug, []).append(_Found(package, executable, item))
    return EnvelopeReport(
        count,
        partial,
        tuple(_joined(item, found.get(slug, ())) for slug, item in PROPERTIES.items()),
    )


def _programs(packages: Iterable[PackageFile]) -> Iterator[tuple[int, int, Program]]:
    for number, package in enumerate(packages):
        for index, executable in enumerate(package.executables):
            streams = executable.instruction_bitstreams or ()
            code = [b"" if one.bitstream is None else bytes(one.bitstream) for one in streams]
            chunks = [disassemble(data, path=package.path) for data in code]
            yield number, index, Program.of(chunks)


def _joined(item: Property, found: Iterable[_Found]) -> PropertyReport:
    parts = list(found)
    text = range_text(item, published().get(item.slug))
    if not parts:
        return PropertyReport(item, text)
    first = next((part for part in parts if part.measured.worst is not None), None)
    worst = None
    if first is not None and first.measured.worst is not None:
        place = first.measured.worst.place
        worst = Place(first.package, first.executable, place.chunk, place.bundle)
    return PropertyReport(
        item,
        text,
        min(part.measured.lowest for part in parts),
        max(part.measured.highest for part in parts),
        sum(part.measured.occurrences for part in parts),
        sum(len(part.measured.outside) for part in parts),
        worst,
    )


def document(report: EnvelopeReport) -> dict[str, Any]:
    """A report as a document that JSON can hold."""
    return {
        "programs": report.programs,
        "partial": report.partial,
        "properties": [
            {
                "property": item.property.slug,
                "title": item.property.title,
                "unit": item.property.unit,
                "risk": item.property.risk.value,
                "published": item.range,
                "lowest": item.lowest if item.occurrences else None,
                "highest": item.highest if item.occurrences else None,
                "places": item.occurrences,
                "outside": item.outside,
                "first": None if item.worst is None else _place(item.worst),
            }
            for item in report.properties
        ],
    }


def _place(place: Place) -> dict[str, int]:
    return {
        "package": place.package,
        "executable": place.executable,
        "chunk": place.chunk,
        "bundle": place.bundle,
    }
