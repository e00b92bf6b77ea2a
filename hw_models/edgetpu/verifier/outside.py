"""Findings about properties that leave the envelope of published programs."""

from __future__ import annotations

from collections.abc import Iterator

from fitzroy.hw_models.edgetpu.envelope import Program, departures, measured
from fitzroy.hw_models.edgetpu.verifier.rules import Finding
from fitzroy.hw_models.edgetpu.verifier.text import tiles_text


def check(program: Program) -> Iterator[Finding]:
    """One finding for each property of a program that leaves the envelope.

    Raises:
        SimulationError: the program is too large to be measured, or an operation has operands
            that do not fit each other.
        FormatError: an operation has more steps than can be followed.
    """
    for item in departures(measured(program)):
        place = item.place
        members = [tile for tile in range(place.tiles.bit_length()) if place.tiles >> tile & 1]
        where = ", ".join([f"bundle {place}", *([tiles_text(members)] if members else [])])
        yield Finding(
            "envelope",
            where,
            f"{item.property.slug} is {item.value:,} {item.property.unit}",
            reason=f"published programs have {item.range}; places outside: {len(item.places):,}",
            remedy=item.property.remedy,
            level=item.property.risk.severity,
        )
