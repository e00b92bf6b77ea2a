"""Whether the host's script in a package is that of its program."""

from __future__ import annotations

from itertools import zip_longest

from fitzroy.base.errors import FormatError, LinkError
from fitzroy.formats.darwinn import Executable
from fitzroy.hw_models.edgetpu.scalar import STEP_BUDGET
from fitzroy.linker.schedule.derive import followed
from fitzroy.linker.schedule.hints import from_hints
from fitzroy.linker.schedule.steps import Fence, Script, Step, joined

_TABLE = "dma_hints"


def demand_script(executable: Executable, budget: int = STEP_BUDGET) -> None:
    """Refuse a script after which the host and the chip would wait for each other.

    The chip takes and gives bytes in the order in which its program asks for them; the host goes
    by the hints. Where they differ, data gets into the wrong place, or nothing moves any more.
    Fences only order the host's own steps, and are left out of account, as is how adjacent
    transfers are divided. A program that cannot be followed has no script to compare with; what
    executes it says what is wrong with it.

    Args:
        executable: the executable.
        budget: most steps of the scalar core in which the program is followed.

    Raises:
        FormatError: the first step that differs, as the hints and as the program have it.
    """
    hints = executable.dma_hints
    if hints is None:
        return
    stored = from_hints(hints)
    try:
        derived = followed(executable, budget)
    except LinkError:
        return
    found, wanted = _plain(stored), _plain(derived)
    for number, (hint, step) in enumerate(zip_longest(found, wanted)):
        if hint != step:
            says, needs = _text(hint), _text(step)
            raise _differs(f"at step {number}, the hints say {says}, and the program needs {needs}")
    if stored.deterministic != derived.deterministic:
        raise _differs(f"the hints say {_course(stored)}, and the program has {_course(derived)}")


def _plain(script: Script) -> tuple[Step, ...]:
    return joined(step for step in script.steps if not isinstance(step, Fence))


def _text(step: Step | None) -> str:
    return "no more" if step is None else str(step)


def _course(script: Script) -> str:
    return "all of its steps" if script.deterministic else "a course that depends on data"


def _differs(what: str) -> FormatError:
    return FormatError(
        f"the script for the host is not that of the program: {what}",
        table=_TABLE,
        hint="fitzroy link writes a script that fits",
    )
