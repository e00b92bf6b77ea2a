"""The errors of FitzRoy: one root, few kinds, stable exit codes.

Every error says what failed, why (with both numbers where there are two), where, and what the
user can do about it. Only the command line prints; libraries raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fitzroy.base.diagnostics import Diagnostic


class FitzroyError(Exception):
    """Root of all errors that a user, a file or a device can cause.

    Args:
        what: what failed, as a sentence without a full stop.
        reason: why, naming the found and the expected value.
        where: the file, operator, or address concerned.
        hint: what the user can do about it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, reason: str = "", where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.reason = reason
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        if self.reason:
            text += f": {self.reason}"
        if self.hint:
            text += f" (hint: {self.hint})"
        return text


class UsageError(FitzroyError):
    """The request makes no sense: a wrong option, a missing file, an absent optional package."""

    exit_code = 2


class FormatError(FitzroyError):
    """A file or a byte string does not follow its format.

    Args:
        what: what is wrong with the bytes.
        path: name of the file, if the bytes came from one.
        offset: byte offset in the file at which the fault was noticed.
        table: name of the table or structure that was being read.
        hint: what the user can do about it.
    """

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        path: str = "",
        offset: int | None = None,
        table: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(what, hint=hint)
        self.path = path
        self.offset = offset
        self.table = table

    def __str__(self) -> str:
        place = [self.path] if self.path else []
        if self.offset is not None:
            place.append(f"byte {self.offset:#x}")
        if self.table:
            place.append(self.table)
        text = f"{', '.join(place)}: {self.what}" if place else self.what
        return f"{text} (hint: {self.hint})" if self.hint else text


class UnsupportedError(FitzroyError):
    """A model asks for something that the target cannot do.

    Args:
        what: what was asked for.
        rejects: one diagnostic for every refusal that led here.
        where: the model concerned.
        hint: what the user can do about it.
    """

    exit_code = 4

    def __init__(
        self, what: str, *, rejects: Sequence[Diagnostic] = (), where: str = "", hint: str = ""
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.rejects = tuple(rejects)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {reject}" for reject in self.rejects)])


class CapacityError(FitzroyError):
    """Something does not fit: names what is needed, what there is, and of what."""

    exit_code = 5


class LinkError(FitzroyError):
    """Objects cannot be combined into a package."""

    exit_code = 6


class DeviceError(FitzroyError):
    """A device or a runtime is missing, refuses, was lost, or failed."""

    exit_code = 7


class SimulationError(FitzroyError):
    """A program does something that the hardware would not survive."""

    exit_code = 8


class MismatchError(FitzroyError):
    """Something is not as expected: outputs, the answer of a probe, a figure beyond its limit."""

    exit_code = 9


class InternalError(FitzroyError):
    """A fault of FitzRoy itself: an invariant that a pass or a library broke."""

    exit_code = 70
