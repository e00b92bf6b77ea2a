"""Programs measured against the envelope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fitzroy.hw_models.edgetpu.envelope.declaration import PROPERTIES, Bound, Property, Risk
from fitzroy.hw_models.edgetpu.envelope.program import Place, Program, Value
from fitzroy.hw_models.edgetpu.envelope.published import Published, published


@dataclass(frozen=True, slots=True)
class Measured:
    """Values of a property in a program.

    Attributes:
        property: the property.
        lowest: the lowest value.
        highest: the highest value.
        occurrences: places where it was measured.
        outside: those that leave the published range.
        worst: the value that leaves it furthest, the first of several; None if all are inside.
    """

    property: Property
    lowest: int
    highest: int
    occurrences: int
    outside: tuple[Place, ...]
    worst: Value | None


@dataclass(frozen=True, slots=True)
class Departure:
    """A property that leaves the envelope.

    Attributes:
        property: the property.
        value: the value that leaves it furthest.
        range: the published range as text.
        place: where the value is.
        places: all places outside the range.
    """

    property: Property
    value: int
    range: str
    place: Place
    places: tuple[Place, ...]

    def __str__(self) -> str:
        return f"{self.property.slug} {self.value:,} ({self.range})"


def bounds(item: Property, known: Published | None) -> tuple[int | None, int | None]:
    """Lowest and highest value of a property inside the envelope; None for no limit.

    Args:
        item: the property.
        known: its values in published programs, None if none has any: nothing is inside then.
    """
    if known is None:
        return (1, 0) if item.surveyed is None else (None, item.surveyed)
    surveyed = [] if item.surveyed is None else [item.surveyed]
    low = None if item.bound is Bound.MOST else min([known.lowest, *surveyed])
    high = None if item.bound is Bound.LEAST else max([known.highest, *surveyed])
    return low, high


def range_text(item: Property, known: Published | None) -> str:
    """The range of a property as text."""
    low, high = bounds(item, known)
    if low is not None and high is not None:
        if low > high:
            return "not in published programs"
        return f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"at least {low:,}" if low is not None else f"at most {high:,}"


def excess(item: Property, known: Published | None, value: int) -> int:
    """How far a value is outside the range of a property; 0 if it is inside."""
    low, high = bounds(item, known)
    below = low - value if low is not None else 0
    above = value - high if high is not None else 0
    return max(0, below, above)


def measured(
    program: Program,
    properties: Iterable[Property] = tuple(PROPERTIES.values()),
    ranges: Mapping[str, Published] | None = None,
) -> dict[str, Measured]:
    """The values of properties in a program, by slug; without those that it does not have.

    Args:
        program: the program.
        properties: what is measured.
        ranges: published ranges by slug; None for those that ship with the declaration.

    Raises:
        SimulationError: the program is too large to be measured, or an operation has operands
            that do not fit each other.
        FormatError: an operation has more steps than can be followed.
    """
    known = published() if ranges is None else ranges
    found = {}
    for item in properties:
        values = list(item.measure(program))
        if not values:
            continue
        own = known.get(item.slug)
        numbers = [value.value for value in values]
        lowest, highest = min(numbers), max(numbers)
        outside, worst = tuple[Place, ...](), None
        if excess(item, own, lowest) or excess(item, own, highest):
            beyond = [excess(item, own, number) for number in numbers]
            outside = tuple(one.place for one, far in zip(values, beyond, strict=True) if far)
            worst = values[beyond.index(max(beyond))]
        found[item.slug] = Measured(item, lowest, highest, len(numbers), outside, worst)
    return found


def departures(found: Mapping[str, Measured]) -> tuple[Departure, ...]:
    """What leaves the envelope, in order of risk and declaration."""
    known = published()
    risks = list(Risk)
    outside = [
        Departure(
            item.property,
            item.worst.value,
            range_text(item.property, known.get(slug)),
            item.worst.place,
            item.outside,
        )
        for slug, item in found.items()
        if item.worst is not None
    ]
    return tuple(sorted(outside, key=lambda item: risks.index(item.property.risk)))
