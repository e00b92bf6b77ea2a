"""Outcomes of calls, as IREE numbers them, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum

from fitzroy.base.errors import SimulationError


class Status(IntEnum):
    """Outcome of a call."""

    OK = 0
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13


class VmError(SimulationError):
    """A call did not end well.

    Args:
        status: its outcome.
        what: what failed.
        where: module, function and byte.
        hint: what the user can do about it.
    """

    def __init__(self, status: Status, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, reason=status.name, where=where, hint=hint)
        self.status = status


class VmTrap(VmError):
    """Something that the VM of that time does not survive: a division by 0, an access to nothing.

    Args:
        what: what happened.
        where: module, function and byte.
    """

    def __init__(self, what: str, *, where: str = "") -> None:
        super().__init__(Status.INTERNAL, what, where=where)
