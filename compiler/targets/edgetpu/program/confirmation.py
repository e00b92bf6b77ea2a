"""Programs of what published programs do, or what a device was seen to do.

Two things speak for an instruction that no published program has: a form, or a value of a property,
that a probe has confirmed. A conservative compilation keeps to the envelope; one with a report of
probes keeps to published and confirmed forms, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.compiler.targets.edgetpu.program.envelope import exits, refuse_exits
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction

CODE = "edgetpu-unconfirmed-form"
"""Code of diagnostics of forms that are neither published nor confirmed."""

_BEGINNING = "the beginning of the program"
_HINT = "probe the device with fitzroy probe, or compile without --confirmed"
_MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """Something of a program that is neither published nor confirmed.

    Attributes:
        what: the form of an instruction, or the property.
        step: name of the first step that has it.
        operator: what that step comes from; empty if it comes from no operator.
    """

    what: str
    step: str
    operator: str = ""


class UnconfirmedError(UnsupportedError):
    """A program needs what nobody has seen a chip execute.

    Args:
        items: what is neither published nor confirmed.
    """

    def __init__(self, items: Sequence[Unconfirmed]) -> None:
        number = len(items)
        super().__init__(
            f"the program has {number} thing{'s' if number > 1 else ''} that no published program "
            "has and no probe has confirmed",
            rejects=[
                Diagnostic(Severity.ERROR, CODE, item.step, item.what)
                for item in items[:_MOST_LISTED]
            ],
            hint=_HINT,
        )


def refuse_unconfirmed(
    instructions: Iterable[Instruction], confirmed: Set[str], where: str
) -> None:
    """Refuse a program with forms that are neither published nor confirmed.

    Args:
        instructions: those of the program.
        confirmed: texts of forms that a device executed as predicted.
        where: the program, for the error.

    Raises:
        UnconfirmedError: it has such forms.
    """
    strange = sorted(set(map(form, instructions)) - published().keys() - confirmed)
    if strange:
        raise UnconfirmedError([Unconfirmed(_shown(text), where) for text in strange])


def refuse_unproven(
    emitted: Emitted, confirmed: frozenset[str] | None, *, conservative: bool
) -> None:
    """Refuse what published programs do not do and no probe has confirmed.

    Args:
        emitted: the program.
        confirmed: texts of forms and slugs of properties that a device confirmed; None if forms
            do not matter.
        conservative: whether the program has published forms wherever it can. One that has not is
            refused as a whole, because it could do with fewer.

    Raises:
        Refused: operators are at fault.
        UnconfirmedError: something is not confirmed, and no operator is at fault, or the program
            is not conservative.
        OutsideError: the program leaves the envelope whatever its operators are.
    """
    allowed = confirmed or frozenset()
    if confirmed is not None:
        strange = list(_unconfirmed(emitted, allowed))
        if not conservative:
            strange += [
                Unconfirmed(item.what, _BEGINNING if item.step is None else item.step.name)
                for item in exits(emitted, allowed)
            ]
        if strange and not (conservative and all(item.operator for item in strange)):
            raise UnconfirmedError(strange)
        if strange:
            raise Refused(
                [item.operator for item in strange],
                "instructions of its program are neither published nor confirmed",
                reason=strange[0].what,
                code=CODE,
                hint=_HINT,
            )
    refuse_exits(emitted, allowed)


def _unconfirmed(emitted: Emitted, confirmed: Set[str]) -> Iterator[Unconfirmed]:
    """Forms that are neither published nor confirmed, for every operator that has them."""
    known, seen = published(), set[tuple[str, str]]()
    for chunk, bundle, instruction in emitted.program:
        text = form(instruction)
        if text in known or text in confirmed:
            continue
        step = emitted.step_at(chunk, bundle)
        operator = "" if step is None else step.origin
        if (text, operator) not in seen:
            seen.add((text, operator))
            name = _BEGINNING if step is None else step.name
            yield Unconfirmed(_shown(text), name, operator)


def _shown(text: str) -> str:
    return f"the form {text!r}"
