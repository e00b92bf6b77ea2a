"""Arithmetic of waiting: when the elements of an instruction begin, given when flags count.

An engine handles its elements one after the other at a constant rate, and before some of them
waits for a flag. So element i begins at the larger of the end of element i - 1 and the moment at
which the flag has its value. Only the few elements that really wait need to be kept: between them,
time runs at the rate.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from typing import Any

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


@dataclass(eq=False, slots=True)
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
        return cls(positions, times, _same(maker, len(positions)), cause)

    def each(self) -> Iterable[Hold]:
        """One by one."""
        columns = self.positions.tolist(), self.times.tolist(), self.makers.tolist()
        return zip(*columns, repeat(self.cause), strict=False)

    def moved(self, distance: int) -> Holds:
        """The same before positions that are so much larger."""
        return Holds(self.positions + distance, self.times, self.makers, self.cause)


Held = Hold | Holds
"""What an engine waits for, before one position or before many."""


@dataclass(eq=False, slots=True)
class Ended:
    """Waits that are over, in order of time.

    Attributes:
        times: float64[n], when each ended.
        makers: int32[n], who ended it.
        causes: numbers of what was waited for, integers[n].
        names: what was waited for, by these numbers.
    """

    times: Array
    makers: Array
    causes: Array
    names: Sequence[str]


class Waits:
    """Waits that are over, in order of time.

    What is added together stays together: most waits are only ever summed up.

    Attributes:
        cycles: how long all of them took, by cause.
    """

    __slots__ = ("_parts", "cycles")

    def __init__(self) -> None:
        self.cycles: dict[str, float] = {}
        self._parts: list[tuple[float, int, str] | Ended] = []

    @classmethod
    def of(cls, ended: Ended, lengths: Array) -> Waits:
        """Many, which took float64[n] cycles."""
        waits = cls()
        if len(lengths):
            names = ended.names
            if len(names) == 1:
                waits.cycles[names[0]] = float(np.add.accumulate(lengths)[-1])
            else:
                cycles = np.bincount(ended.causes, lengths, len(names)).tolist()
                waits.cycles = {
                    name: length for name, length in zip(names, cycles, strict=True) if length
                }
            waits._parts.append(ended)
        return waits

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, time: float, length: float, maker: int, cause: str) -> None:
        """One that ended at a time."""
        self._parts.append((time, maker, cause))
        self.cycles[cause] = self.cycles.get(cause, 0.0) + length

    def update(self, others: Waits) -> None:
        """All of somebody else."""
        if others._parts:
            self._parts += others._parts
            for cause, length in others.cycles.items():
                self.cycles[cause] = self.cycles.get(cause, 0.0) + length

    def copy(self) -> Waits:
        """The same, to go on with."""
        other = Waits()
        other.update(self)
        return other

    def ended(self, names: list[str]) -> Iterator[tuple[Array, Array, Array]]:
        """Times, makers and numbers of causes, part by part.

        Args:
            names: names by number; those that are missing are added.
        """
        few: list[tuple[float, int, int]] = []
        for part in self._parts:
            if isinstance(part, Ended):
                yield from _alone(few)
                few.clear()
                numbers = np.array([_number(names, name) for name in part.names])
                yield part.times, part.makers, numbers[part.causes]
            else:
                time, maker, cause = part
                few.append((time, maker, _number(names, cause)))
        yield from _alone(few)


def _same(number: int, count: int) -> Array:
    """A number as often as that, int32[count], which takes the memory of one."""
    return np.ndarray((count,), np.int32, np.array([number], np.int32), 0, (0,))


def _alone(few: Sequence[tuple[float, int, int]]) -> Iterator[tuple[Array, Array, Array]]:
    if few:
        times, makers, causes = zip(*few, strict=True)
        yield np.array(times), np.array(makers, np.int32), np.array(causes)


def _number(names: list[str], name: str) -> int:
    if name not in names:
        names.append(name)
    return names.index(name)


def joined(every: Sequence[Waits], but: int) -> Ended:
    """Waits of several that go on side by side, in order of time, without those that one ended."""
    names: list[str] = []
    parts = [part for waits in every for part in waits.ended(names)]
    if not parts:
        return Ended(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int64), names)
    times, makers, causes = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    order = order[makers[order] != but]
    return Ended(times[order], makers[order], causes[order], names)


NO_WAITS = Waits()
"""What nobody adds to."""


def shifted(positions: Sequence[int], distance: int) -> Positions:
    """Positions that are so much larger."""
    if len(positions) <= _FEW:
        return [position + distance for position in positions]
    return as_array(positions) + distance


def plain(numbers: Times) -> Sequence[Any]:
    """Numbers as Python's, without a copy of many."""
    return numbers.data if isinstance(numbers, np.ndarray) else numbers


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

    __slots__ = ("_base", "_firsts", "_latest", "_runs", "_start", "counted")

    def __init__(self, value: int = 0, time: float = 0.0, maker: int = NOBODY) -> None:
        self.counted = 0
        """How often the flag has counted since it was set."""
        self._base = value
        self._start = (time, maker)
        self._latest = time
        # Times that one maker counted one after the other, and counts before each.
        self._runs: list[tuple[Sequence[float], int]] = []
        self._firsts: list[int] = []

    @property
    def value(self) -> int:
        """The value after all that is known to have happened."""
        return self._base + self.counted

    @property
    def latest(self) -> float:
        """When it reached that value."""
        return self._latest

    def is_set_to(self, value: int, time: float) -> bool:
        """Whether it has only been set, to this value at this time."""
        return not self.counted and self._base == value and self._start[0] == time

    def extend(self, times: Times, maker: int) -> None:
        """The flag counts at these times, which do not decrease."""
        if self.counted and times[0] < self._latest:
            # Several makers of one flag, known one after the other.
            before, makers = self._between(0, self.counted)
            every = np.concatenate((before, times))
            makers = np.append(makers, np.full(len(times), maker, np.int32))
            order = np.argsort(every, kind="stable")
            self._rewrite(every[order], makers[order])
        else:
            self._append(times, maker)

    def _append(self, times: Times, maker: int) -> None:
        run = plain(times)
        self._firsts.append(self.counted)
        self._runs.append((run, maker))
        self.counted += len(run)
        self._latest = run[-1]

    def _rewrite(self, times: Array, makers: Array) -> None:
        """Replace everything that has been counted."""
        self.counted, self._runs, self._firsts = 0, [], []
        ends = [*(np.flatnonzero(np.diff(makers)) + 1).tolist(), len(makers)]
        for first, end in pairwise([0, *ends]):
            self._append(times[first:end], int(makers[first]))

    def _between(self, first: int, end: int) -> tuple[Array, Array]:
        """When counts from one to another happened, and who made them: float64[n], int32[n]."""
        number = bisect_right(self._firsts, first) - 1
        times, makers, sizes = list[Array](), list[int](), list[int]()
        while first < end:
            run, maker = self._runs[number]
            offset = first - self._firsts[number]
            part = np.asarray(run[offset : offset + end - first])
            times.append(part)
            makers.append(maker)
            sizes.append(len(part))
            first += len(part)
            number += 1
        if len(times) == 1:
            return times[0], _same(makers[0], sizes[0])
        return np.concatenate(times), np.repeat(np.array(makers, np.int32), sizes)

    def when(self, counts: Array) -> Array:
        """When counts happened that are known, by their numbers int64[n] in order: float64[n]."""
        first = int(counts[0])
        found: Array = self._between(first, int(counts[-1]) + 1)[0][counts - first]
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
        counts = self.counted + short - 1 + watcher.increment * np.arange(last - first)
        before = as_array(begins[first:last]) + shift
        return Promise(self, counts, np.asarray(chain.done(before)))

    def copy(self) -> History:
        """A history that goes on by itself."""
        other = History(self._base, *self._start)
        other.counted, other._latest = self.counted, self._latest
        other._runs, other._firsts = self._runs[:], self._firsts[:]
        return other

    def reached(self, value: int) -> tuple[float, int]:
        """When the flag reached a value, not above the present one, and who made it."""
        return self._count(value - self._base - 1)

    def _count(self, index: int) -> tuple[float, int]:
        """When a count happened, and who made it; below 0, those of the first value."""
        if index < 0:
            return self._start
        number = bisect_right(self._firsts, index) - 1
        run, maker = self._runs[number]
        return run[index - self._firsts[number]], maker

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
        if isinstance(begins, range):
            # As bisect_left would find, in positions that rise evenly.
            first = max(0, -(-(position - begins.start) // begins.step))
            last = min(len(begins), max(0, -(-(end - begins.start) // begins.step)))
        else:
            first, last = bisect_left(begins, position), bisect_left(begins, end)
        if first >= last:
            return [], end
        watcher = gate.watcher
        threshold, increment = watcher.threshold, watcher.increment
        ahead = distance(self._base + self.counted, threshold + increment * first)
        if ahead < 0:
            return [], begins[first]
        if increment > 0:
            known = first + ahead // increment + 1
        else:
            # All iterations wait for the same value, or each for less than the one before.
            known = first + 1 if increment else last
        if known < last:
            last, end = known, begins[known]
        index = self.counted - ahead - 1
        if not increment:
            last = first + 1
        if self._latest <= clock and self._start[0] <= clock:
            return [], end
        time, maker = self._count(index)
        if self._count(index + (last - first - 1) * increment)[0] == time:
            # Who has waited for the first of them waits for none of the others.
            return [(begins[first], time, maker, cause)] if time > clock else [], end
        if last - first > _FEW and self.counted:
            return self._many(begins[first:last], index, increment, clock, cause), end
        found: list[Hold] = []
        for number in range(first, last):
            time, maker = self._count(index)
            if time > clock:
                found.append((begins[number], time, maker, cause))
            index += increment
        return found, end

    def _many(
        self, begins: Sequence[int], index: int, increment: int, clock: float, cause: str
    ) -> list[Held]:
        """The holds of many iterations, of which the first waits for a count."""
        found: list[Held] = []
        early = len(range(index, 0, increment))
        start, maker = self._start
        if early and start > clock:
            found += [(begin, start, maker, cause) for begin in begins[:early]]
        begins, index = begins[early:], index + early * increment
        if begins and self._latest > clock:
            last = index + (len(begins) - 1) * increment
            times, makers = self._between(index, last + 1)
            times, makers = times[::increment], makers[::increment]
            late = int(np.searchsorted(times, clock, side="right"))
            if late < len(times):
                places = as_array(begins[late:])
                found.append(Holds(places, times[late:], makers[late:], cause))
        return found


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

    def set(self, owners: Sequence[int], value: int, time: float, maker: int) -> None:
        """The flag of some owners is set; owners whose flags are set alike share the history."""
        rows = self._rows
        if len(owners) == len(rows):
            self._rows = [History(value, time, maker)] * len(rows)
            return
        for history in dict.fromkeys(rows):
            if history.is_set_to(value, time):
                break
        else:
            history = History(value, time, maker)
        for owner in owners:
            rows[owner] = history

    def extend(self, owners: Sequence[int], times: Times, maker: int) -> None:
        """The flag counts."""
        rows = self._rows
        first = rows[owners[0]]
        if rows.count(first) == len(owners) == len(rows):
            first.extend(times, maker)
            return
        if [rows[owner] for owner in owners].count(first) == len(owners):
            groups: list[Sequence[int]] = [owners]
        else:
            shared: dict[int, list[int]] = {}
            for owner in owners:
                shared.setdefault(id(rows[owner]), []).append(owner)
            groups = [*shared.values()]
        for members in groups:
            history = rows[members[0]]
            if rows.count(history) > len(members):
                history = history.copy()
                for owner in members:
                    rows[owner] = history
            history.extend(times, maker)

    def own(self, owners: Sequence[int]) -> History:
        """The history of owners who share one, for which all will have made it count alone."""
        history = self._rows[owners[0]]
        if self._rows.count(history) > len(owners):
            history = history.copy()
            for owner in owners:
                self._rows[owner] = history
        return history

    def forget(self, time: float, maker: int) -> None:
        """Let owners whose flags have one value, and had it at a time, share a history."""
        if self.alike:
            if self._rows[0].latest <= time:
                self.set(range(len(self._rows)), self._rows[0].value, time, maker)
            return
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
    before: Waits = field(default=NO_WAITS)
    waits: Waits = field(default=NO_WAITS)

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
        chain = cls(first, end, rate, (first,), (clock,))
        if not holds:
            return chain
        few: list[Hold] = []
        many: list[Holds] = []
        for held in holds:
            if isinstance(held, Holds):
                many.append(held)
            else:
                few.append(held)
        if sum([len(held.positions) for held in many]) > _FEW:
            if not chain._wait_always(few, many):
                chain._wait_often(few, many)
        elif many:
            chain._wait([*few, *(hold for held in many for hold in held.each())])
        elif few:
            chain._wait(few)
        return chain

    def _wait(self, holds: Sequence[Hold]) -> None:
        """Take account of holds, one after the other."""
        positions, starts = [*self.positions], [*self.starts]
        place, start, rate = self.first, starts[0], self.rate
        before = waits = NO_WAITS
        for position, time, maker, cause in sorted(holds):
            if position >= self.end:
                break
            ready = start + (position - place) * rate
            if time > ready:
                if position > self.first:
                    if waits is NO_WAITS:
                        waits = Waits()
                    waits.add(time, time - ready, maker, cause)
                else:
                    if before is NO_WAITS:
                        before = Waits()
                    before.add(time, time - ready, maker, cause)
                place, start = position, time
                if positions[-1] == position:
                    starts[-1] = time
                else:
                    positions.append(position)
                    starts.append(time)
        self.positions, self.starts, self.before, self.waits = positions, starts, before, waits

    def _wait_always(self, few: Sequence[Hold], many: Sequence[Holds]) -> bool:
        """Take account of holds if every element waits for one, and for no other.

        So it is with what comes from a host, which is slower than all that handles it.

        Returns:
            Whether that is so; if not, nothing is taken account of.
        """
        main = max(many, key=lambda held: len(held.positions))
        count = self.end - self.first
        if len(main.positions) != count or main.positions[0] != self.first:
            return False
        if main.positions[-1] != self.end - 1:
            # Some lie beyond the end, and between others.
            return False
        times, clock = main.times, self.starts[0]
        wanted = times - np.arange(count) * self.rate if self.rate else times
        lengths = np.empty(count)
        lengths[0] = wanted[0] - clock
        np.subtract(wanted[1:], wanted[:-1], lengths[1:])
        if lengths.min() <= _GRID:
            return False
        ready = np.concatenate(([clock], times[:-1] + self.rate))
        if any(hold[1] > ready[hold[0] - self.first] for hold in few if hold[0] < self.end):
            return False
        for held in many:
            if held is not main:
                inside = int(np.searchsorted(held.positions, self.end))
                if (held.times[:inside] > ready[held.positions[:inside] - self.first]).any():
                    return False
        causes = _same(0, count)
        self.before, self.waits = (
            Waits.of(Ended(times[part], main.makers[part], causes[part], (main.cause,)), length)
            for part, length in ((slice(1), lengths[:1]), (slice(1, None), lengths[1:]))
        )
        self.positions, self.starts = range(self.first, self.end), plain(times)
        return True

    def _wait_often(self, few: Sequence[Hold], many: Sequence[Holds]) -> None:
        """Take account of many holds at once."""
        positions, times, makers, causes, names = _columns(few, many)
        order = np.lexsort((times, positions))
        positions = positions[order]
        inside = positions.searchsorted(self.end)
        order, positions = order[:inside], positions[:inside]
        times = times[order]
        # When the first element would have to begin, were this the only hold.
        wanted = times - (positions - self.first) * self.rate if self.rate else times
        before = np.empty(len(wanted) + 1)
        before[0], before[1:] = self.starts[0], wanted
        before = np.maximum.accumulate(before)[:-1]
        late = (np.rint(wanted / _GRID) > np.rint(before / _GRID)).nonzero()[0]
        lengths, order = (wanted - before)[late], order[late]
        positions, times = positions[late], times[late]
        makers, causes = makers[order], causes[order]
        start = int(positions.searchsorted(self.first, side="right"))
        self.before, self.waits = (
            Waits.of(Ended(times[part], makers[part], causes[part], names), lengths[part])
            for part in (slice(start), slice(start, None))
        )
        if start:
            self.starts = [float(times[start - 1])]
        positions, times = positions[start:], times[start:]
        # Of waits before one element, the last one decides.
        last = np.ones(len(positions), bool)
        np.not_equal(positions[1:], positions[:-1], out=last[:-1])
        self.positions = plain(np.concatenate(((self.first,), positions[last])))
        self.starts = plain(np.concatenate((self.starts, times[last])))

    @property
    def finish(self) -> float:
        """When the last element has ended."""
        return self.starts[-1] + (self.end - self.positions[-1]) * self.rate

    def done(self, positions: Positions) -> Times:
        """When the element before each position has ended; positions lie after the first."""
        rate = self.rate
        if len(positions) > _FEW:
            if len(self.positions) == self.end - self.first:
                # All elements begin at a time of their own.
                ends: Array = np.asarray(self.starts)[self._elements(positions)]
                return ends + rate if rate else ends
            wanted = as_array(positions)
            places, starts = np.asarray(self.positions), np.asarray(self.starts)
            before = places.searchsorted(wanted) - 1
            found: Array = starts[before] + (wanted - places[before]) * rate
            return found
        if isinstance(positions, np.ndarray):
            positions = positions.tolist()
        if len(self.positions) == 1:
            start, place = self.starts[0], self.positions[0]
            return [start + (position - place) * rate for position in positions]
        result = []
        for position in positions:
            index = bisect_left(self.positions, position) - 1
            result.append(self.starts[index] + (position - self.positions[index]) * rate)
        return result

    def _elements(self, positions: Positions) -> slice | Array:
        """The elements before positions, as an index of what all elements have."""
        before = self.first + 1
        if isinstance(positions, range):
            return slice(positions.start - before, positions.stop - before, positions.step)
        return as_array(positions) - before

    def begun(self, positions: Array) -> Array:
        """When the elements at int64[n] positions begin: float64[n]."""
        places, starts = as_array(self.positions), np.asarray(self.starts)
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
        np.repeat(np.array(numbers, np.int8), counts),
        names,
    )
