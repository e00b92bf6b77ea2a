"""Which parameters a chip holds."""

from __future__ import annotations

from fitzroy.formats.darwinn import Executable


class ParameterCache:
    """What a chip has cached, by the rules of the published driver.

    Packages with the same token share the chip; one with another token, or with none, makes it
    forget the others.
    """

    def __init__(self) -> None:
        self._token = 0
        self._held: list[Executable] = []

    def lacks(self, main: Executable, caching: Executable | None) -> bool:
        """Whether an executable has to load parameters before another one can run.

        Args:
            main: the one that computes.
            caching: the one that loads its parameters, None if it needs none.
        """
        if caching is None:
            return False
        known = self._token == main.parameter_caching_token != 0
        return not known or all(caching is not other for other in self._held)

    def enter(self, main: Executable) -> None:
        """An executable is about to compute, or to have its parameters loaded."""
        token = main.parameter_caching_token
        if not token or token != self._token:
            self._held.clear()
            self._token = token

    def add(self, caching: Executable) -> None:
        """An executable has loaded its parameters."""
        self._held.append(caching)

    def forget(self) -> None:
        """The chip has lost them all."""
        self._held.clear()
        self._token = 0
