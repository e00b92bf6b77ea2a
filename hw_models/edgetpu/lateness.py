"""What the scalar core has begun and not finished: stored words, results of the special unit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from fitzroy.hw_models.edgetpu.latitude import NONE, Latitude
from fitzroy.hw_models.isa.scalar import Special

Word = int | None
"""A word of 32 bits, unsigned; `Doubtful` if it is unknown, None if it has no value, either."""


class Lateness:
    """Writes of a scalar core that take effect some bundles later.

    Args:
        latitude: how much later.
        rng: makes it any number up to that.
    """

    def __init__(self, latitude: Latitude = NONE, rng: random.Random | None = None) -> None:
        self._latitude = latitude
        self._rng = rng
        self._clock = 0
        self._stored: dict[int, tuple[int, Word]] = {}
        self._results: list[tuple[int, Callable[[], None]]] = []
        self._busy = 0
        self.delays_stores = latitude.stores > 0
        self.counts_bundles = bool(latitude.exponential or latitude.reciprocal or latitude.special)
        """Whether `tick` must be called before every bundle."""

    @property
    def storing(self) -> bool:
        """Whether words have been stored that may not have arrived."""
        return bool(self._stored)

    def _number(self, most: int) -> int:
        return most if self._rng is None else self._rng.randint(min(1, most), most)

    # --- stores ----------------------------------------------------------------------------------

    def store(self, address: int, step: int, before: Word) -> None:
        """A word is stored in a step, in place of another one."""
        # Of several words on their way to one address, the oldest is still there.
        _, oldest = self._stored.get(address, (0, before))
        self._stored[address] = step + self._number(self._latitude.stores), oldest

    def replaced(self, address: int) -> None:
        """A word comes from elsewhere, and nothing is on its way to its address any more."""
        self._stored.pop(address, None)

    def complete_stores(self) -> None:
        """All stored words arrive."""
        self._stored.clear()

    def arrived(self, address: int, words: Sequence[Word], step: int) -> tuple[Word, ...]:
        """Words at an address as units other than the core find them in a step."""
        self._stored = {place: late for place, late in self._stored.items() if late[0] > step}
        found = list(words)
        for place, (_, before) in self._stored.items():
            if address <= place < address + len(found):
                found[place - address] = before
        return tuple(found)

    # --- special functions -----------------------------------------------------------------------

    def tick(self) -> None:
        """A bundle begins."""
        self._clock += 1
        if self._results:
            due = [write for when, write in self._results if when <= self._clock]
            self._results = [item for item in self._results if item[0] > self._clock]
            for write in due:
                write()

    def bundles(self, function: Special) -> int:
        """Most bundles that a result takes."""
        latitude = self._latitude
        return latitude.exponential if function is Special.EXP2 else latitude.reciprocal

    def result(self, bundles: int, write: Callable[[], None]) -> None:
        """The special unit has an operand, whose result is written so many bundles later."""
        if self._clock < self._busy:
            return
        self._busy = self._clock + self._latitude.special
        if bundles:
            self._results.append((self._clock + self._number(bundles), write))
        else:
            write()
