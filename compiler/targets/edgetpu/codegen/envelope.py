"""Where a program leaves the envelope of published programs, and the refusal to leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.targets.edgetpu.codegen.stages import Emitted, Mark
from fitzroy.hw_models.edgetpu.envelope import Departure, Program, departures, measured

CODE = "edgetpu-envelope"
"""Code of diagnostics of properties outside the envelope."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A property of a program that leaves the envelope, and the step that makes it do so.

    Attributes:
        departure: the property, with its value and place.
        step: the step of the program that has the value; None for its beginning.
    """

    departure: Departure
    step: Mark | None

    def diagnostic(self) -> Diagnostic:
        """What is wrong, and what to do about it."""
        item = self.departure
        return Diagnostic(
            Severity.WARNING,
            CODE,
            "the program" if self.step is None else self.step.name,
            f"{item.property.slug} is {item.value:,} {item.property.unit}",
            f"published programs have {item.range}; places outside: {item.count:,}, the worst at "
            f"{item.place}",
            item.property.remedy,
        )


class OutsideError(UnsupportedError):
    """A program leaves the envelope, and must not.

    Args:
        exits: where it does.

    Attributes:
        layers: names of the layers that make it do so, without inputs and outputs.
    """

    def __init__(self, exits: Sequence[Exit]) -> None:
        first = exits[0].diagnostic()
        more = f" and {len(exits) - 1} more properties" if len(exits) > 1 else ""
        super().__init__(
            f"the program leaves the envelope of published programs: {first.what} in "
            f"{first.where}{more}",
            rejects=[item.diagnostic() for item in exits],
            hint="compile without --conservative, or leave these layers to the host",
        )
        steps = [item.step for item in exits if item.step is not None]
        self.layers = tuple(dict.fromkeys(step.layer for step in steps if step.layer))


def exits(form: Emitted) -> tuple[Exit, ...]:
    """Where a program leaves the envelope, the greatest risk first."""
    return tuple(
        Exit(item, form.step_at(item.place.chunk, item.place.bundle))
        for item in departures(measured(Program.of(form.chunks)))
    )


def refuse_exits(form: Emitted) -> None:
    """Refuse a program that leaves the envelope.

    Raises:
        OutsideError: it does.
    """
    found = exits(form)
    if found:
        raise OutsideError(found)
