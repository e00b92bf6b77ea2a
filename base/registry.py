"""Things found by name: those that come with FitzRoy, and those of other installed packages.

What comes with FitzRoy is imported when it is asked for. Other packages declare theirs as entry
points, which are read only when a name is not ours or when all names are wanted: starting costs
nothing more for them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from fitzroy.base.errors import UsageError

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes by name that are made without arguments.

    Args:
        kind: what is registered, in one word, for messages.
        plural: the same for several.
        group: entry points of other packages.
        base: what every class is derived from; it has a `name`.
        own: classes that come with FitzRoy, as ``module:attribute``, by name.
    """

    def __init__(
        self, kind: str, plural: str, *, group: str, base: type[T], own: Mapping[str, str]
    ) -> None:
        self.kind = kind
        self.plural = plural
        self.group = group
        self.base = base
        self.own = own

    def names(self) -> tuple[str, ...]:
        """All names: ours in the order in which they are declared, then others sorted.

        Raises:
            UsageError: two packages claim one name.
        """
        return (*self.own, *sorted(self._others()))

    def get(self, name: str) -> T:
        """What a name stands for.

        Raises:
            UsageError: nothing has that name, or what another package offers cannot be used.
        """
        if name in self.own:
            module, _, attribute = self.own[name].partition(":")
            made: T = getattr(import_module(module), attribute)()
            return made
        others = self._others()
        if name not in others:
            known = self.names()
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"{self.plural}: {', '.join(known)}"
            raise UsageError(f"no {self.kind} {name!r}", hint=hint)
        return self._loaded(others[name])

    def others(self) -> Iterator[T]:
        """What other packages offer, in order of their names.

        Raises:
            UsageError: as for `get`.
        """
        found = self._others()
        for name in sorted(found):
            yield self._loaded(found[name])

    def _others(self) -> dict[str, EntryPoint]:
        """Entry points of other packages by name."""
        found: dict[str, EntryPoint] = {}
        for entry in entry_points(group=self.group):
            before = found.get(entry.name)
            if before is not None and before.value == entry.value:
                # A package that is found twice on the path.
                continue
            if before is not None or entry.name in self.own:
                owner = "FitzRoy" if before is None else _package(before)
                raise UsageError(
                    f"two {self.plural} are named {entry.name!r}",
                    reason=f"{owner} and {_package(entry)} have one",
                    hint="uninstall the package that is not needed",
                )
            found[entry.name] = entry
        return found

    def _loaded(self, entry: EntryPoint) -> T:
        """What another package offers.

        Raises:
            UsageError: it cannot be imported or made, or is something else.
        """
        try:
            made: Any = entry.load()()
        except Exception as error:
            # Code of others may fail in any way.
            raise self._unusable(entry, f"{type(error).__name__}: {error}") from error
        if not isinstance(made, self.base):
            raise self._unusable(entry, f"{entry.value} makes no {self.base.__name__}")
        own = getattr(made, "name", None)
        if own != entry.name:
            raise self._unusable(entry, f"its own name is {own!r}")
        return made

    def _unusable(self, entry: EntryPoint, reason: str) -> UsageError:
        return UsageError(
            f"the {self.kind} {entry.name!r} cannot be used",
            reason=reason,
            where=_package(entry),
            hint="mend or uninstall that package",
        )


def _package(entry: EntryPoint) -> str:
    """The package that declares an entry point, with its version."""
    return "a package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
