"""Operators that turn out not to run on the chip when their program is made.

The rule of an operator knows most limits before anything is generated. Memory, fields of
instructions and the forms of a finished program show later. Whoever finds such a limit says which
operators it concerns; the compilation leaves these to the host and divides the model again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fitzroy.base.errors import CapacityError, FitzroyError, FormatError, UnsupportedError

CAPACITY = "edgetpu-capacity"
"""Code of diagnostics of operators that need more of a memory than there is."""

ENCODING = "edgetpu-encoding"
"""Code of diagnostics of operators whose instructions need larger numbers than fields hold."""


class Refused(CapacityError):
    """Operators cannot be on the chip, as their program shows.

    Args:
        operators: names of nodes; the name of an input of the graph stands for all of its readers.
        what: what cannot be done.
        reason: why, with both numbers.
        code: code of the diagnostics that say so.
        where: the model concerned.
        hint: what the user can do about it.
    """

    def __init__(
        self,
        operators: Sequence[str],
        what: str,
        *,
        reason: str = "",
        code: str = CAPACITY,
        where: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(what, reason=reason, where=where, hint=hint)
        self.operators = tuple(dict.fromkeys(operators))
        self.code = code


def refused(operator: str, error: FitzroyError) -> Refused:
    """The refusal of an operator for an error."""
    if isinstance(error, FormatError):
        what = "an instruction of its program does not encode"
        hint = "split it into smaller operators, or let it come first or last"
        return Refused([operator], what, reason=str(error), code=ENCODING, hint=hint)
    return Refused([operator], error.what, reason=error.reason, hint=error.hint)


@contextmanager
def refusing(operator: str) -> Iterator[None]:
    """Let errors of what is done within be refusals of an operator.

    Raises:
        Refused: something did not fit, was not supported, or did not encode.
    """
    try:
        yield
    except Refused:
        raise
    except (CapacityError, FormatError, UnsupportedError) as error:
        raise refused(operator, error) from error
