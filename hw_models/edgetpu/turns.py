"""Turns: units move one after the other, and sleep while nothing that they wait for has changed.

The simulator, the timing model and the synchronization verifier execute programs in three ways,
and all let a unit move only when something has happened that may let it go on.
"""

from __future__ import annotations

from collections.abc import Callable


class Turns:
    """Which units may be able to move.

    Args:
        units: how many there are; they have numbers from 0.
        move: lets a unit move.
        choose: whose turn it is of those that are awake; by default the one with the lowest number.

    Attributes:
        awake: numbers of the units that may be able to move.
    """

    __slots__ = ("_choose", "_move", "_waits", "awake")

    def __init__(
        self,
        units: int,
        move: Callable[[int], None],
        choose: Callable[[set[int]], int] = min,
    ) -> None:
        self.awake: set[int] = set()
        self._move = move
        self._choose = choose
        self._waits = [0] * units

    def wait(self, unit: int, flags: int) -> None:
        """A unit waits for any flag of a mask, and for no other."""
        self._waits[unit] = flags

    def wait_also(self, unit: int, flag: int) -> None:
        """A unit waits for a flag, too."""
        self._waits[unit] |= 1 << flag

    def changed(self, flags: int) -> None:
        """Wake the units that wait for any flag of a mask."""
        self.awake.update([unit for unit, mask in enumerate(self._waits) if mask & flags])

    def turn(self) -> None:
        """Let one unit move; at least one is awake."""
        unit = self._choose(self.awake)
        self.awake.discard(unit)
        self._move(unit)

    def settle(self) -> None:
        """Let units move until none is awake."""
        while self.awake:
            self.turn()
