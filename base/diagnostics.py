"""Diagnostics: what a component has to say about one place in a model or a file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a diagnostic matters."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One remark.

    Attributes:
        severity: how much it matters.
        code: stable identifier of the rule, in kebab case, such as ``fc-filter-zero-point``.
        where: the operator, tensor, or file concerned.
        what: what was found.
        reason: why it matters, naming the found and the permitted values.
        hint: what the user can do about it.
    """

    severity: Severity
    code: str
    where: str
    what: str
    reason: str = ""
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.severity}[{self.code}] {self.where}: {self.what}"
        if self.reason:
            text += f": {self.reason}"
        if self.hint:
            text += f" (hint: {self.hint})"
        return text
