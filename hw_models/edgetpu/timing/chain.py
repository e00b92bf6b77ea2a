"""Arithmetic of waiting: when the elements of an instruction begin, given when flags count.

An engine handles its elements one after the other at a constant rate, and before some of them
waits for a flag. So element i begins at the larger of the end of element i - 1 and the moment at
which the flag has its value. Only the few elements that really wait need to be kept: between them,
time runs at the rate.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.sequence import Gate, Numbers, as_array
from fitzroy.hw_models.isa.counters import distance

NOBODY = -1
"""Maker of what nothing has made: the value that a flag had from the start."""

_FEW = 48
"""Up to so many numbers, plain loops are faster than numpy."""

_GRID = 2.0**-24
"""Cycles: of many moments, those that are no further apart count as one."""

Positions = Sequence[int] | Array
"""Positions: a list or range of any, int64[n] of many."""

Times = Sequence[float] | Array
"""Moments: a list of a few, float64[n] for many."""

Hold = tuple[int, float, int, str]
"""An engine waits before a position until a time; who ends the wait; what is waited for."""


@dataclass(frozen=True, eq=False, slots=True)
class Holds:
    """What an engine waits for before each of many positions.

    Attributes:
        positions: int64[n], in order.
        times: float64[n], until when it waits.
        makers: int32[n], who ends each wait.
        cause: what is waited for.
    """

    positions: Array
    times: Array
    makers: Array
    cause: str

    @classmethod
    def by(cls, maker: int, positions: Array, times: Array, cause: str) -> Holds:
        """Waits that one maker ends."""
        return cls(positions, times, np.full(len(positions), maker, np.int32), cause)

    def each(self) -> Iterable[Hold]:
        """One by one."""
        columns = self.positions.tolist(), self.times.tolist(), self.makers.tolist()
        return zip(*columns, repeat(self.cause), strict=False)

    def moved(self, distance: int) -> Holds:
        """The same before positions that are so much larger."""
        return Holds(self.positions + distance, self.times, self.makers, self.cause)


Held = Hold | Holds
"""What an engine waits for, before one position or before many."""


class Waits:
    """Waits that are over, in order of time.

    Attributes:
        times: when each ended.
        makers: who ended it.
        causes: what was waited for.
        cycles: how long all of them took, by cause.
    """

    __slots__ = ("causes", "cycles", "makers", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.makers = array("i")
        self.causes: list[str] = []
        self.cycles: dict[str, float] = {}

    @classmethod
    def of(
        cls, times: Array, lengths: Array, makers: Array, causes: Array, names: Sequence[str]
    ) -> Waits:
        """Many, by their columns.

        Args:
            times: float64[n], when each ended.
            lengths: float64[n], how long each took.
            makers: int32[n], who ended it.
            causes: int64[n], numbers of causes, whose names differ.
            names: the causes.
        """
        waits = cls()
        waits.times.frombytes(times.tobytes())
        waits.makers.frombytes(makers.tobytes())
        waits.causes += np.array(names, object)[causes].tolist()
        cycles = np.bincount(causes, lengths, len(names)).tolist()
        waits.cycles = {name: length for name, length in zip(names, cycles, strict=True) if length}
        return waits

    def add(self, time: float, length: float, maker: int, cause: str) -> None:
        """One that ended at a time."""
        self.times.append(time)
        self.makers.append(maker)
        self.causes.append(cause)
        self.cycles[cause] = self.cycles.get(cause, 0.0) + length

    def update(self, others: Waits) -> None:
        """All of somebody else."""
        if others.times:
            self.times += others.times
            self.makers += others.makers
            self.causes += others.causes
            for cause, length in others.cycles.items():
                self.cycles[cause] = self.cycles.get(cause, 0.0) + length

    def copy(self) -> Waits:
        """The same, to go on with."""
        other = Waits()
        other.update(self)
        return other


def joined(every: Sequence[Waits], but: int) -> Waits:
    """Waits of several that go on side by side, in order of time, without those that one ended."""
    times = np.concatenate([np.asarray(waits.times) for waits in every])
    makers = np.concatenate([np.asarray(waits.makers) for waits in every])
    names = [*dict.fromkeys(cause for waits in every for cause in waits.causes)]
    numbers = {name: number for number, name in enumerate(names)}
    causes = np.array([numbers[cause] for waits in every for cause in waits.causes], np.int64)
    order = np.argsort(times, kind="stable")
    order = order[makers[order] != but]
    nothing = np.zeros(len(order))
    return Waits.of(times[order], nothing, makers[order], causes[order], names)


_NONE = Waits()


def shifted(positions: Sequence[int], distance: int) -> Positions:
    """Positions that are so much larger."""
    if len(positions) <= _FEW:
        return [position + distance for position in positions]
    return as_array(positions) + distance


def later(times: Times, delay: float) -> Times:
    """Moments that are so much later."""
    if isinstance(times, np.ndarray):
        moved: Array = times + delay
        return moved
    return [time + delay for time in times]


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

    def extend(self, times: Times, maker: int) -> None:
        """The flag counts at these times, which do not decrease."""
        late = self._times and times[0] < self._times[-1]
        if isinstance(times, np.ndarray):
            self._times.frombytes(times.tobytes())
        else:
            self._times.extend(times)
        self._makers += array("i", (maker,)) * len(times)
        if late:
            # Several makers of one flag, known one after the other.
            order = np.argsort(self._times, kind="stable")
            self._times = array("d", np.asarray(self._times)[order])
            self._makers = array("i", np.asarray(self._makers)[order])

    @property
    def counted(self) -> int:
        """How often the flag has counted since it was set."""
        return len(self._times)

    def when(self, counts: Array) -> Array:
        """When counts happened that are known, by their numbers int64[n]: float64[n]."""
        found: Array = np.asarray(self._times)[counts]
        return found

    def promise(
        self, gate: Gate, begins: Numbers, position: int, end: int, chain: Chain, shift: int
    ) -> Promise:
        """That an engine does not wait for this flag, which will have counted before.

        Args:
            gate: the watcher; what it waits for grows.
            begins: positions of its iterations.
            position: how far the engine may go by what is known.
            end: how far it has gone.
            chain: when it did.
            shift: how much larger positions of the chain are.
        """
        first, last = bisect_left(begins, position), bisect_left(begins, end)
        watcher = gate.watcher
        short = -distance(self.value, watcher.threshold + watcher.increment * first)
        counts = len(self._times) + short - 1 + watcher.increment * np.arange(last - first)
        before = as_array(begins[first:last]) + shift
        return Promise(self, counts, np.asarray(chain.done(before)))

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
        self, gate: Gate, begins: Numbers, position: int, end: int, clock: float, cause: str
    ) -> tuple[Sequence[Held], int]:
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
            return self._many(begins[first:last], index, increment, clock, cause), end
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
        self, begins: Sequence[int], index: int, increment: int, clock: float, cause: str
    ) -> Sequence[Held]:
        """The holds of many iterations, of which the first waits for a count."""
        where = index + increment * np.arange(len(begins))
        counted, known = where >= 0, np.maximum(where, 0)
        start, maker = self._start
        times = np.where(counted, np.asarray(self._times)[known], start)
        late = times > clock
        if not late.any():
            return ()
        makers = np.where(counted, np.asarray(self._makers)[known], np.int32(maker))
        return (Holds(as_array(begins)[late], times[late], makers[late], cause),)


@dataclass(frozen=True, eq=False, slots=True)
class Promise:
    """A flag will have counted before an engine asks, so that the engine need not wait for it.

    Attributes:
        history: the flag.
        counts: int64[n], numbers of the counts that are asked for, in order.
        times: float64[n], when each is asked for.
    """

    history: History
    counts: Array
    times: Array

    @property
    def due(self) -> bool:
        """Whether the flag has counted as often."""
        return bool(self.counts[-1] < self.history.counted)

    def kept(self) -> bool:
        """Whether the flag has counted in time; the promise is due."""
        return bool((self.history.when(self.counts) <= self.times).all())


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

    def extend(self, owners: Sequence[int], times: Times, maker: int) -> None:
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

    def own(self, owners: Sequence[int]) -> History:
        """The history of owners who share one, for which all will have made it count alone."""
        history = self._rows[owners[0]]
        if sum([row is history for row in self._rows]) > len(owners):
            history = history.copy()
            for owner in owners:
                self._rows[owner] = history
        return history

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
        before: waits before the first position.
        waits: waits between the elements.
    """

    first: int
    end: int
    rate: float
    positions: Sequence[int]
    starts: Sequence[float]
    before: Waits = field(default=_NONE)
    waits: Waits = field(default=_NONE)

    @classmethod
    def of(cls, first: int, end: int, clock: float, rate: float, holds: Sequence[Held]) -> Chain:
        """The chain of an engine.

        Args:
            first: the first element.
            end: one past the last element.
            clock: when the engine is ready for the first element.
            rate: cycles of an element.
            holds: what it waits for, in any order.
        """
        few: list[Hold] = []
        many: list[Holds] = []
        for held in holds:
            if isinstance(held, Holds):
                many.append(held)
            else:
                few.append(held)
        chain = cls(first, end, rate, [first], [clock])
        if sum([len(held.positions) for held in many]) > _FEW:
            chain._wait_often(few, many)
        elif many:
            chain._wait([*few, *(hold for held in many for hold in held.each())])
        elif few:
            chain._wait(few)
        return chain

    def _wait(self, holds: Sequence[Hold]) -> None:
        """Take account of holds, one after the other."""
        positions, starts = array("q", self.positions), array("d", self.starts)
        place, start, rate = self.first, starts[0], self.rate
        before, waits = Waits(), Waits()
        for position, time, maker, cause in sorted(holds):
            if position >= self.end:
                break
            ready = start + (position - place) * rate
            if time > ready:
                (waits if position > self.first else before).add(time, time - ready, maker, cause)
                place, start = position, time
                if positions[-1] == position:
                    starts[-1] = time
                else:
                    positions.append(position)
                    starts.append(time)
        self.positions, self.starts, self.before, self.waits = positions, starts, before, waits

    def _wait_often(self, few: Sequence[Hold], many: Sequence[Holds]) -> None:
        """Take account of many holds at once."""
        positions, times, makers, causes, names = _columns(few, many)
        order = np.lexsort((times, positions))
        order = order[: np.searchsorted(positions[order], self.end)]
        positions, times = positions[order], times[order]
        # When the first element would have to begin, were this the only hold.
        wanted = times - (positions - self.first) * self.rate
        before = np.maximum.accumulate(np.concatenate((self.starts, wanted)))[:-1]
        late = np.rint(wanted / _GRID) > np.rint(before / _GRID)
        order, positions, times = order[late], positions[late], times[late]
        lengths, makers, causes = (wanted - before)[late], makers[order], causes[order]
        start = int(np.searchsorted(positions, self.first, side="right"))
        self.before, self.waits = (
            Waits.of(times[part], lengths[part], makers[part], causes[part], names)
            for part in (slice(start), slice(start, None))
        )
        if start:
            self.starts = [float(times[start - 1])]
        # Of waits before one element, the last one decides.
        last = np.flatnonzero(np.diff(positions[start:], append=self.end)) + start
        self.positions = array("q", np.append(self.first, positions[last]).tobytes())
        self.starts = array("d", np.append(self.starts, times[last]).tobytes())

    @property
    def finish(self) -> float:
        """When the last element has ended."""
        return self.starts[-1] + (self.end - self.positions[-1]) * self.rate

    def done(self, positions: Positions) -> Times:
        """When the element before each position has ended; positions lie after the first."""
        rate = self.rate
        if len(positions) > _FEW:
            places, starts = np.asarray(self.positions), np.asarray(self.starts)
            wanted = as_array(positions)
            before = places.searchsorted(wanted) - 1
            found: Array = starts[before] + (wanted - places[before]) * rate
            return found
        if len(self.positions) == 1:
            start, place = self.starts[0], self.positions[0]
            return [start + (position - place) * rate for position in positions]
        result = []
        for position in positions:
            index = bisect_left(self.positions, position) - 1
            result.append(self.starts[index] + (position - self.positions[index]) * rate)
        return result

    def begun(self, positions: Array) -> Array:
        """When the elements at int64[n] positions begin: float64[n]."""
        places, starts = np.asarray(self.positions), np.asarray(self.starts)
        index = places.searchsorted(positions, side="right") - 1
        found: Array = starts[index] + (positions - places[index]) * self.rate
        return found

    def holds(self, first: int, end: int, shift: int, maker: int, cause: str) -> list[Held]:
        """What somebody waits for who handles the same elements, at positions shifted by some.

        Nothing is lost by leaving out elements between those that waited here, as long as
        the other does not handle them faster.
        """
        index, stop = bisect_left(self.positions, first), bisect_left(self.positions, end)
        positions, starts = self.positions[index:stop], self.starts[index:stop]
        found: list[Held] = []
        if len(positions) > _FEW:
            places = np.asarray(positions) + shift
            found.append(Holds.by(maker, places, np.asarray(starts), cause))
        else:
            found += [
                (position + shift, start, maker, cause)
                for position, start in zip(positions, starts, strict=True)
            ]
        if not positions or positions[0] != first:
            start = self.done([first])[0] if first > self.first else self.starts[0]
            found.append((first + shift, start, maker, cause))
        return found


def begins(holds: Iterable[Held], position: int, ready: float) -> float:
    """When an engine that is ready at a time begins the element at a position."""
    for held in holds:
        if isinstance(held, Holds):
            ready = max([ready, *held.times[held.positions == position].tolist()])
        elif held[0] == position:
            ready = max(ready, held[1])
    return ready


def _columns(
    few: Sequence[Hold], many: Sequence[Holds]
) -> tuple[Array, Array, Array, Array, list[str]]:
    """Positions, times, makers, and numbers of causes of all holds; and the causes."""
    every = [hold[3] for hold in few] + [held.cause for held in many]
    names = [*dict.fromkeys(every)]
    numbers = [names.index(cause) for cause in every]
    counts = [1] * len(few) + [len(held.times) for held in many]
    columns = [[hold[index] for hold in few] for index in range(3)]
    return (
        np.concatenate([np.array(columns[0], np.int64), *(held.positions for held in many)]),
        np.concatenate([np.array(columns[1], np.float64), *(held.times for held in many)]),
        np.concatenate([np.array(columns[2], np.int32), *(held.makers for held in many)]),
        np.repeat(numbers, counts),
        names,
    )
