"""Options as fields of frozen dataclasses: declared once, for scripts and for command lines.

A class of options has a class attribute `panel`, the heading under which a help text shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from fitzroy.base.errors import UsageError


@dataclass(frozen=True, slots=True)
class Declared:
    """What a help text says of an option.

    Attributes:
        help: what it does.
        metavar: what stands for its value; empty to show what it may be.
        short: a name of one letter, with its dash.
    """

    help: str
    metavar: str = ""
    short: str = ""


def option(default: Any, help: str, *, metavar: str = "", short: str = "") -> Any:
    """A field of a class of options.

    Args:
        default: its value unless told otherwise.
        help: what it does.
        metavar: what stands for its value in help texts.
        short: a name of one letter, with its dash.
    """
    return field(default=default, metadata={"option": Declared(help, metavar, short)})


def choose(options: Any) -> None:
    """Let choices be members of their enumerations, where a script gives their values.

    Classes of options call this when they are made: `Effort.FAST` and "fast" are the same then.

    Args:
        options: frozen options, whose defaults say which fields are choices.

    Raises:
        UsageError: there is no such choice.
    """
    for item in fields(options):
        kind, value = type(item.default), getattr(options, item.name)
        if not issubclass(kind, StrEnum) or isinstance(value, kind):
            continue
        choices = [member.value for member in kind]
        if value not in choices:
            name = item.name.replace("_", "-")
            raise UsageError(
                f"--{name} is one of {', '.join(choices)}", reason=f"{value!r} is given"
            )
        object.__setattr__(options, item.name, kind(value))


def declared(metadata: Mapping[str, Any]) -> Declared | None:
    """What a help text says of a field; None if it is no option."""
    found: Declared | None = metadata.get("option")
    return found


def given(options: object) -> list[str]:
    """Names of the options that are not as they are by default, as a command line spells them."""
    found = []
    for item in fields(options):  # type: ignore[arg-type]
        value = getattr(options, item.name)
        # A list that nobody has filled is as good as none.
        if value != item.default and (value or value is False or item.default):
            name = item.name.replace("_", "-")
            found.append(f"no-{name}" if value is False else name)
    return found


def arguments(options: object) -> list[str]:
    """The options that are not as they are by default, as words of a command line."""
    words = []
    for name in given(options):
        value = getattr(options, name.removeprefix("no-").replace("-", "_"))
        words += [f"--{name}", *([] if isinstance(value, bool) else [str(value)])]
    return words
