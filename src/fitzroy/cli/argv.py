"""What has to be known of the arguments before they are parsed."""

from __future__ import annotations

from collections.abc import Sequence

from fitzroy.base.errors import UsageError

BUDGET = "--memory"
"""The option that sets the budget of memory."""

_GREEDY = frozenset({"--bundle", "--calibrate", "--data"})
"""Options that take every value up to the next option."""


def spread(arguments: Sequence[str]) -> list[str]:
    """Arguments in which an option that takes several values stands before each of them.

    ``--bundle a b --json`` becomes ``--bundle a --bundle b --json``. Names of options may have
    underscores, as those of Google's compiler do: ``--out_dir`` is ``--out-dir``.

    Raises:
        UsageError: another option follows where a value has to.
    """
    result: list[str] = []
    greedy, fresh = "", False
    for number, argument in enumerate(arguments):
        if argument == "--":
            return result + list(arguments[number:])
        if argument.startswith("-") and argument != "-":
            if greedy and fresh:
                raise UsageError(f"{greedy} has no value", hint="name files or folders after it")
            argument = _dashed(argument)
            greedy, fresh = argument if argument in _GREEDY else "", True
            result.append(argument)
        elif greedy and not fresh:
            result += [greedy, argument]
        else:
            result.append(argument)
            fresh = False
    return result


def budget_first(arguments: Sequence[str]) -> list[str]:
    """Arguments in which the memory budget, an option of the program, stands before the verb."""
    first: list[str] = []
    others = list(arguments)
    end = others.index("--") if "--" in others else len(others)
    for place in reversed(range(end)):
        if others[place] == BUDGET:
            first, others[place : place + 2] = [*others[place : place + 2], *first], []
        elif others[place].startswith(f"{BUDGET}="):
            first.insert(0, others.pop(place))
    return [*first, *others]


def _dashed(argument: str) -> str:
    """An option whose name has dashes in the place of underscores."""
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else argument


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether errors, too, go to stdout as JSON."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]
