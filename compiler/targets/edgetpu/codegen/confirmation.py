"""Programs of forms that published programs have, or that a device was seen to execute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.targets.edgetpu.codegen.stages import Emitted
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction

CODE = "edgetpu-unconfirmed-form"
"""Code of diagnostics of forms that are neither published nor confirmed."""

_BEGINNING = "the begin of the program"
_MOST_LISTED = 20


class UnconfirmedError(UnsupportedError):
    """A program needs instructions that nobody has seen a chip execute.

    Args:
        forms: forms that are neither published nor confirmed, by the step that has them first.

    Attributes:
        layers: names of the layers that need them, without inputs and outputs.
    """

    def __init__(self, forms: Sequence[tuple[str, str, str]]) -> None:
        number = len(forms)
        super().__init__(
            f"the program needs {number} form{'s' if number > 1 else ''} of instructions that no "
            "published program has and no probe has confirmed",
            rejects=[
                Diagnostic(Severity.ERROR, CODE, step, f"the form {text!r}")
                for text, step, _ in forms[:_MOST_LISTED]
            ],
            hint="probe the device with fitzroy probe, leave these layers to the host, or compile "
            "without --confirmed",
        )
        self.layers = tuple(dict.fromkeys(layer for _, _, layer in forms if layer))


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
        raise UnconfirmedError([(text, where, "") for text in strange])


def refuse_unconfirmed_steps(emitted: Emitted, confirmed: Set[str]) -> None:
    """Refuse a program with such forms, and name the steps that have them.

    Args:
        emitted: the program.
        confirmed: texts of forms that a device executed as predicted.

    Raises:
        UnconfirmedError: it has such forms.
    """
    known = published()
    found: dict[str, tuple[str, str, str]] = {}
    for chunk, bundle, instruction in emitted.program:
        text = form(instruction)
        if text not in known and text not in confirmed and text not in found:
            found[text] = (text, *_step(emitted, (chunk, bundle)))
    if found:
        raise UnconfirmedError(list(found.values()))


def _step(emitted: Emitted, place: tuple[int, int]) -> tuple[str, str]:
    """Name and layer of the step that an instruction belongs to."""
    before = [mark for mark in emitted.marks if (mark.chunk, mark.bundle) <= place]
    return (before[-1].name, before[-1].layer) if before else (_BEGINNING, "")
