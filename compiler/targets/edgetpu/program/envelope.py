"""Where a program leaves the envelope of published programs, and the refusal to leave it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted, Mark
from fitzroy.hw_models.edgetpu.envelope import Departure, Program, departures, measured

CODE = "edgetpu-envelope"
"""Code of diagnostics of properties outside the envelope."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A property of a program that leaves the envelope, and the steps that make it do so.

    Attributes:
        departure: the property, with its values and places.
        step: the step of the program that has the worst value; None for its beginning.
        operators: what all steps with values outside come from; empty if some come from nothing.
    """

    departure: Departure
    step: Mark | None
    operators: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The property and its worst value, with the step."""
        where = "" if self.step is None else f" in {self.step.name}"
        property = self.departure.property
        return f"{property.slug} is {self.departure.value:,} {property.unit}{where}"

    @property
    def reason(self) -> str:
        """The published range, and how often it is left."""
        item = self.departure
        return (
            f"published programs have {item.range}; places outside: {len(item.places):,}, the "
            f"worst at {item.place}"
        )


class OutsideError(UnsupportedError):
    """A program leaves the envelope and must not, and leaving operators out would not help.

    Args:
        exits: where it does.
    """

    def __init__(self, exits: Sequence[Exit]) -> None:
        more = f", and {len(exits) - 1} more properties" if len(exits) > 1 else ""
        super().__init__(
            f"the program leaves the envelope of published programs: {exits[0].what}{more}",
            rejects=[_diagnostic(item) for item in exits],
            hint="compile without --conservative",
        )


def _diagnostic(item: Exit) -> Diagnostic:
    where = "the program" if item.step is None else item.step.name
    remedy = item.departure.property.remedy
    return Diagnostic(Severity.WARNING, CODE, where, item.what, item.reason, remedy)


def exits(form: Emitted, confirmed: Set[str] = frozenset()) -> tuple[Exit, ...]:
    """Where a program leaves the envelope, the greatest risk first.

    Args:
        form: the program.
        confirmed: slugs of properties that a device confirmed outside of their range.
    """
    found = departures(measured(Program.of(form.chunks)))
    return tuple(_exit(form, item) for item in found if item.property.slug not in confirmed)


def _exit(form: Emitted, item: Departure) -> Exit:
    # Places count the START of a chunk, those of the program under construction do not.
    steps = [form.step_at(place.chunk, place.bundle - 1) for place in item.places]
    origins = ["" if step is None else step.origin for step in steps]
    operators = tuple(dict.fromkeys(origins)) if all(origins) else ()
    return Exit(item, form.step_at(item.place.chunk, item.place.bundle - 1), operators)


def refuse_exits(form: Emitted, confirmed: Set[str] = frozenset()) -> None:
    """Refuse a program that leaves the envelope.

    Args:
        form: the program.
        confirmed: as for `exits`.

    Raises:
        Refused: operators make it do so.
        OutsideError: it would do so without any of its operators.
    """
    found = exits(form, confirmed)
    if not found:
        return
    first = found[0]
    if not first.operators:
        raise OutsideError(found)
    raise Refused(
        first.operators,
        f"its program leaves the envelope of published programs: {first.what}",
        reason=first.reason,
        code=CODE,
        hint=f"{first.departure.property.remedy}, or compile without --conservative",
    )
