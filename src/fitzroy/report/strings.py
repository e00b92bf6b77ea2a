"""Data of pages made small: strings once, numbers with the digits that are shown."""

from __future__ import annotations


class Strings:
    """Strings by number, each once.

    Attributes:
        all: the strings, in the order of their numbers.
    """

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a string."""
        if text not in self._numbers:
            self._numbers[text] = len(self.all)
            self.all.append(text)
        return self._numbers[text]


def short(value: float) -> float | int:
    """A number with one digit after the point, if it is not whole."""
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded
