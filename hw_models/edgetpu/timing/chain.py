"""Arithmetic of waiting: when the elements of an instruction begin, given when flags count.

An engine handles its elements one after the other at a constant rate, and before some of them
waits for a flag. So element i begins at the larger of the end of element i - 1 and the moment at
which the flag has its value. Only the few elements that really wait need to be kept: between them,
time runs at the rate.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.hw_models.edgetpu.sequence import Gate
from fitzroy.hw_models.isa.counters import distance

NOBODY = -1
"""Maker of what nothing has made: the value that a flag had from the start."""

_FEW = 48
"""Up to so many numbers, plain loops are faster than numpy."""

Hold = tuple[int, float, int, str]
"""An engine waits before a position until a time; who ends the wait; what is waited for."""

Wait = tuple[float, float, int, str]
"""A wait that is over: when it ended, how long it was, who ended it, what was waited for."""


class History:
    """When a flag counted since it was set, and who made it count.

    Tiles that have done the same share a history, until one of them does something else.

    Args:
        value: what the flag was set to.
        time: when.
        maker: number of the node that set it.
    """

    __slots__ = ("_base", "_makers", "_start", "_times")

    def __init__(self, value: int = 0, time: float = 0.0, maker: int = NOBODY) -> None:
        self._base = value
        self._start = (time, maker)
        self._times = array("d")
        self._makers = array("i")

    @property
    def value(self) -> int:
        """The value after all that is known to have happened."""
        return self._base + len(self._times)

    @property
    def latest(self) -> float:
        """When it reached that value."""
        return self._times[-1] if self._times else self._start[0]

    def is_set_to(self, value: int, time: float) -> bool:
        """Whether it has only been set, to this value at this time."""
        return not self._times and self._base == value and self._start[0] == time

    def extend(self, times: Sequence[float], maker: int) -> None:
        """The flag counts at these times, which do not decrease."""
        late = self._times and times[0] < self._times[-1]
        self._times.extend(times)
        self._makers.extend([maker] * len(times))
        if late:
            # Several makers of one flag, known one after the other.
            order = np.argsort(self._times, kind="stable")
            self._times = array("d", np.asarray(self._times)[order])
            self._makers = array("i", np.asarray(self._makers)[order])

    def copy(self) -> History:
        """A history that goes on by itself."""
        other = History(self._base, *self._start)
        other._times, other._makers = self._times[:], self._makers[:]
        return other

    def reached(self, value: int) -> tuple[float, int]:
        """When the flag reached a value, not above the present one, and who made it."""
        index = value - self._base - 1
        return self._start if index < 0 else (self._times[index], self._makers[index])

    def holds(
        self, gate: Gate, begins: Sequence[int], position: int, end: int, clock: float, cause: str
    ) -> tuple[list[Hold], int]:
        """What a watcher of this flag makes an engine wait for, as far as that is known.

        Args:
            gate: the watcher.
            begins: positions of its iterations.
            position: elements that are done.
            end: how far the engine would go otherwise.
            clock: when the engine is ready; what was there by then is left out.
            cause: name of the flag.

        Returns:
            The holds, and how far the engine may go.
        """
        first = bisect_left(begins, position) if position else 0
        last = bisect_left(begins, end)
        if first >= last:
            return [], end
        watcher = gate.watcher
        threshold, increment = watcher.threshold, watcher.increment
        value = len(self._times) + self._base
        ahead = distance(value, threshold + increment * first)
        if ahead < 0:
            return [], begins[first]
        if increment > 0:
            known = first + ahead // increment + 1
        else:
            # All iterations wait for the same value, or each for less than the one before.
            known = first + 1 if increment else last
        if known < last:
            last, end = known, begins[known]
        index = value - ahead - self._base - 1
        if not increment:
            last = first + 1
        elif last - first > _FEW and self._times:
            return self._many(begins, first, last, index, increment, clock, cause), end
        found: list[Hold] = []
        for number in range(first, last):
            if index < 0:
                time, maker = self._start
            else:
                time, maker = self._times[index], self._makers[index]
            if time > clock:
                found.append((begins[number], time, maker, cause))
            index += increment
        return found, end

    def _many(
        self,
        begins: Sequence[int],
        first: int,
        last: int,
        index: int,
        increment: int,
        clock: float,
        cause: str,
    ) -> list[Hold]:
        """The holds of many iterations."""
        where = index + increment * np.arange(last - first)
        times = np.where(where < 0, self._start[0], np.asarray(self._times)[np.maximum(where, 0)])
        return [
            (begins[first + number], float(times[number]), self.reached_by(where[number]), cause)
            for number in np.flatnonzero(times > clock).tolist()
        ]

    def reached_by(self, index: int) -> int:
        """Who made the flag count for the n-th time since it was set."""
        return self._start[1] if index < 0 else self._makers[index]


class Histories:
    """One flag of several owners, whose histories are shared as long as they are equal."""

    __slots__ = ("_rows",)

    def __init__(self, owners: int) -> None:
        self._rows = [History()] * owners

    def __getitem__(self, owner: int) -> History:
        return self._rows[owner]

    @property
    def alike(self) -> bool:
        """Whether all owners share one history."""
        rows = self._rows
        return rows.count(rows[0]) == len(rows)

    def set(self, owner: int, value: int, time: float, maker: int) -> None:
        """The flag of an owner is set; owners whose flags are set alike share the history."""
        for history in self._rows:
            if history.is_set_to(value, time):
                self._rows[owner] = history
                return
        self._rows[owner] = History(value, time, maker)

    def extend(self, owners: Sequence[int], times: Sequence[float], maker: int) -> None:
        """The flag counts."""
        rows = self._rows
        first = rows[owners[0]]
        if all(rows[owner] is first for owner in owners):
            groups: list[Sequence[int]] = [owners]
        else:
            shared: dict[int, list[int]] = {}
            for owner in owners:
                shared.setdefault(id(rows[owner]), []).append(owner)
            groups = [*shared.values()]
        for members in groups:
            history = rows[members[0]]
            if len(members) < len(rows) and sum([row is history for row in rows]) > len(members):
                history = history.copy()
                for owner in members:
                    rows[owner] = history
            history.extend(times, maker)

    def forget(self, time: float, maker: int) -> None:
        """Let owners whose flags have one value, and had it at a time, share a history."""
        fresh: dict[int, History] = {}
        for owner, history in enumerate(self._rows):
            if history.latest <= time:
                value = history.value
                self._rows[owner] = fresh.setdefault(value, History(value, time, maker))


@dataclass(slots=True)
class Chain:
    """When the elements from one position to another begin and end.

    Attributes:
        first: the first position.
        end: one past the last element.
        rate: cycles of an element.
        positions: where time does not just go on: the first position, and those that waited.
        starts: when the elements there begin.
        waits: the waits.
    """

    first: int
    end: int
    rate: float
    positions: list[int]
    starts: list[float]
    waits: list[Wait] = field(default_factory=list)

    @classmethod
    def of(cls, first: int, end: int, clock: float, rate: float, holds: list[Hold]) -> Chain:
        """The chain of an engine.

        Args:
            first: the first element.
            end: one past the last element.
            clock: when the engine is ready for the first element.
            rate: cycles of an element.
            holds: what it waits for, in any order.
        """
        chain = cls(first, end, rate, [first], [clock])
        if not holds:
            return chain
        positions, starts = chain.positions, chain.starts
        place, start = first, clock
        for position, time, maker, cause in sorted(holds):
            if position >= end:
                break
            ready = start + (position - place) * rate
            if time > ready:
                chain.waits.append((time, time - ready, maker, cause))
                place, start = position, time
                if positions[-1] == position:
                    starts[-1] = time
                else:
                    positions.append(position)
                    starts.append(time)
        return chain

    @property
    def finish(self) -> float:
        """When the last element has ended."""
        return self.starts[-1] + (self.end - self.positions[-1]) * self.rate

    def done(self, positions: Sequence[int]) -> list[float]:
        """When the element before each position has ended; positions lie after the first."""
        rate = self.rate
        if len(self.positions) == 1:
            start, place = self.starts[0], self.positions[0]
            return [start + (position - place) * rate for position in positions]
        if len(positions) > _FEW:
            places, starts = np.array(self.positions), np.array(self.starts)
            wanted = np.asarray(positions)
            before = places.searchsorted(wanted) - 1
            found: list[float] = (starts[before] + (wanted - places[before]) * rate).tolist()
            return found
        result = []
        for position in positions:
            index = bisect_left(self.positions, position) - 1
            result.append(self.starts[index] + (position - self.positions[index]) * rate)
        return result

    def holds(self, first: int, end: int, shift: int, maker: int, cause: str) -> list[Hold]:
        """What somebody waits for who handles the same elements, at positions shifted by some.

        Nothing is lost by leaving out elements between those that waited here, as long as
        the other does not handle them faster.
        """
        index = bisect_left(self.positions, first)
        found = [
            (position + shift, start, maker, cause)
            for position, start in zip(self.positions[index:], self.starts[index:], strict=True)
            if position < end
        ]
        if not found or found[0][0] != first + shift:
            start = self.done([first])[0] if first > self.first else self.starts[0]
            found.append((first + shift, start, maker, cause))
        return found
