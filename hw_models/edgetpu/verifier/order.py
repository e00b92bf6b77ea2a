"""What must have happened before what, among units that share counters and a dispatcher.

Such a cluster is a tile with its engines, or the scalar core with its stream units. Every unit is
a thread, whose time is the number of elements that it has done. A clock says, for every thread, how
many of its elements are certain to be done. Clocks change where a thread begins an instruction and
where a watcher opens, so that a thread is a list of stretches with one clock each.

A counter starts an era when a fence sets it; in an era, the n-th count is that of a certain
element. So what a watcher waits for is an element, wherever everything else is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.sequence import Gate
from fitzroy.hw_models.edgetpu.verifier.parts import Part
from fitzroy.hw_models.isa.counters import HALF, nearest


@dataclass(frozen=True, eq=False, slots=True)
class Tokens:
    """How ring tokens are counted from here on.

    Attributes:
        flags: channel of each token counter.
        origin: tokens produced ever, less the value of the counter, per channel.
        totals: tokens produced ever, per channel.
    """

    flags: Mapping[int, int]
    origin: tuple[int, ...]
    totals: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Job:
    """An instruction for some threads.

    Attributes:
        key: the instruction.
        parts: its parts, on threads of their own.
        tokens: the state of the ring when it begins, None if that does not matter.
        after: for each ring channel, tokens produced ever before what it takes was sent.
        fed: whether it takes what the infeed sends.
    """

    key: Any
    parts: tuple[Part, ...]
    tokens: Tokens | None = None
    after: tuple[tuple[int, int], ...] = ()
    fed: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Barrier:
    """A fence.

    Attributes:
        key: the instruction.
        idle: threads that it waits for.
        sets: counters that it sets, and to what.
        tokens: for each ring channel that it waits for, tokens produced ever by then.
    """

    key: Any
    idle: tuple[int, ...]
    sets: tuple[tuple[int, int], ...]
    tokens: tuple[tuple[int, int], ...] = ()


class Timeline:
    """The clocks of a thread.

    Args:
        width: number of threads.
    """

    __slots__ = ("_rows", "_size", "_starts")

    def __init__(self, width: int) -> None:
        self._starts = np.zeros(16, np.int64)
        self._rows = np.zeros((16, width), np.int64)
        self._size = 1

    @property
    def starts(self) -> Array:
        """First element of each stretch, int64[stretches]."""
        return self._starts[: self._size]

    @property
    def rows(self) -> Array:
        """Clock of each stretch, int64[stretches, threads]; that of the thread itself is void."""
        return self._rows[: self._size]

    def append(self, starts: Array, rows: Array) -> None:
        """Add stretches."""
        count, size = len(starts), self._size
        if size + count > len(self._starts):
            room = max(2 * len(self._starts), size + count)
            self._starts = np.resize(self._starts, room)
            self._rows = np.resize(self._rows, (room, self._rows.shape[1]))
        self._starts[size : size + count] = starts
        self._rows[size : size + count] = rows
        self._size += count

    def at(self, elements: Array) -> Array:
        """Clocks of elements, int64[n, threads]."""
        found: Array = self.rows[self.index(elements)]
        return found

    def one(self, element: int) -> Array:
        """Clock of an element, a copy."""
        found: Array = self._rows[self.starts.searchsorted(element, side="right") - 1].copy()
        return found

    def add(self, start: int, row: Array) -> None:
        """Add a stretch."""
        if self._size == len(self._starts):
            self.append(np.array([start]), row[None])
            return
        self._starts[self._size] = start
        self._rows[self._size] = row
        self._size += 1

    def index(self, elements: Array) -> Array:
        """Number of the stretch of each element."""
        return self.starts.searchsorted(elements, side="right") - 1


@dataclass(eq=False, slots=True)
class Era:
    """A counter from one setting to the next.

    Attributes:
        value: what it was set to.
        clock: of the fence that set it, None at the start.
        marks: elements done by the counting thread when it counts.
        used: for every thread, its elements done that saw the counter in this era.
        closed: for how many instructions of the counting thread the era lasts, None while open.
        barrier: the fence that ends it.
        end: clock of that.
    """

    value: int
    clock: Array | None
    marks: array[int] = field(default_factory=lambda: array("q"))
    used: dict[int, tuple[int, Any]] = field(default_factory=dict)
    closed: int | None = None
    barrier: Any = None
    end: Array | None = None


@dataclass(eq=False, slots=True)
class Instance:
    """A part of an instruction on its thread.

    Attributes:
        job: the instruction.
        part: the part.
        base: elements that the thread has done before it; -1 before it begins.
        clock: of the dispatcher.
        eras: number of the era in which it counts, by flag.
        done: its elements done.
        nexts: next iteration of every gate.
        seen: era that every gate looks at.
        held: marks that it waits for and how many, None unless that is all.
    """

    job: Job
    part: Part
    clock: Array
    eras: dict[int, int]
    base: int = -1
    done: int = 0
    nexts: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    held: tuple[array[int], int, int] | None = None


@dataclass(frozen=True, slots=True)
class Wrap:
    """A watcher whose comparison can be ambiguous."""

    key: Any
    flag: int
    distance: int


@dataclass(frozen=True, slots=True)
class Reset:
    """A counter that is set while somebody uses it."""

    key: Any
    fence: Any
    flag: int
    counts: bool


class Cluster:
    """The order of everything in a stretch of a program.

    Args:
        threads: number of units.
        counters: thread that counts with each flag.
        values: values of the flags at first.
        channels: ring channels, whose tokens are threads of their own.

    Attributes:
        timelines: clocks of every thread.
        instances: parts of instructions in order of dispatch.
        complete: whether everything has happened.
    """

    def __init__(
        self, threads: int, counters: Mapping[int, int], values: Sequence[int], channels: int = 2
    ) -> None:
        self.threads = threads
        self.dispatcher = threads
        self.width = threads + 1 + channels
        self.timelines = [Timeline(self.width) for _ in range(threads)]
        self.instances: list[Instance] = []
        self.complete = False
        self.eras = [[Era(value, None)] for value in values]
        self._counters = counters
        self._clocks = [np.zeros(self.width, np.int64) for _ in range(threads)]
        self._totals = [0] * threads
        self._queues: list[deque[Instance]] = [deque() for _ in range(threads)]
        self._pairs: list[deque[Job]] = [deque() for _ in range(threads)]
        self._dispatched = [0] * threads
        self._finished = [0] * threads
        self._clock = np.zeros(self.width, np.int64)
        self._own: list[tuple[int, int, int, int]] = []
        self._senders: list[Instance] = []
        self._fences = 0

    # --- what happens ----------------------------------------------------------------------------

    def run(self, items: Sequence[Job | Barrier]) -> None:
        """Find the order of the instructions of a stretch of a program."""
        place = 0
        while True:
            moved = False
            while place < len(items):
                item = items[place]
                if isinstance(item, Job):
                    self._dispatch(item)
                elif not self._pass(item):
                    break
                place += 1
                moved = True
            for thread in range(self.threads):
                while self._queues[thread] and self._advance(thread):
                    moved = True
            if not moved:
                break
        self.complete = place == len(items) and not any(self._queues)

    def values(self) -> list[int]:
        """Values of the flags when everything has happened."""
        return [eras[-1].value + len(eras[-1].marks) for eras in self.eras]

    def _dispatch(self, job: Job) -> None:
        for part in job.parts:
            eras = {flag: len(self.eras[flag]) - 1 for flag, _ in part.marks}
            seen = []
            for gate in part.gates:
                # What a fence that precedes it has set is what it sees.
                seen.append(len(self.eras[gate.flag]) - 1)
            instance = Instance(
                job, part, self._clock, eras, nexts=[0] * len(part.gates), seen=seen
            )
            self.instances.append(instance)
            if part.tokens is not None:
                self._senders.append(instance)
            self._queues[part.thread].append(instance)
            self._dispatched[part.thread] += 1

    def _pass(self, barrier: Barrier) -> bool:
        idle = barrier.idle
        if any(self._finished[thread] < self._dispatched[thread] for thread in idle):
            return False
        clock = self._clock.copy()
        for thread in idle:
            np.maximum(clock, self._clocks[thread], out=clock)
            clock[thread] = max(clock[thread], self._totals[thread])
        for channel, total in barrier.tokens:
            self._knows(clock, channel, total)
        self._fences += 1
        clock[self.dispatcher] = self._fences
        for flag, value in barrier.sets:
            eras = self.eras[flag]
            counter = self._counters.get(flag)
            last = eras[-1]
            last.closed = 0 if counter is None else self._dispatched[counter]
            last.barrier, last.end = barrier.key, clock
            eras.append(Era(value, clock))
        self._clock = clock
        return True

    def _knows(self, clock: Array, channel: int, total: int) -> None:
        """A clock learns of ring tokens, and so of what this cluster has sent."""
        at = self.dispatcher + 1 + channel
        if clock[at] >= total:
            return
        clock[at] = total
        for own, number, thread, element in self._own:
            if own == channel and number <= total and element > clock[thread]:
                row = self.timelines[thread].at(np.array([element - 1]))[0].copy()
                row[thread] = element
                np.maximum(clock, row, out=clock)

    def _produced(self, channel: int, total: int) -> bool:
        """Whether this cluster's share of the first tokens of a channel has been produced."""
        for instance in self._senders:
            tokens, part = instance.job.tokens, instance.part
            if tokens is None or part.tokens is None or part.tokens[0] != channel:
                continue
            share = total - tokens.totals[channel]
            ends = part.tokens[1]
            if share > 0 and bisect_right(ends, instance.done) < min(share, len(ends)):
                return False
        return True

    def _begin(self, instance: Instance) -> bool:
        """An instruction begins when all its threads have come to it."""
        job = instance.job
        if len(job.parts) > 1:
            threads = [part.thread for part in job.parts]
            if any(not q or q[0].job is not job for q in (self._queues[t] for t in threads)):
                return False
        else:
            threads = [instance.part.thread]
        clock = instance.clock
        if job.after:
            if not all(self._produced(channel, total) for channel, total in job.after):
                return False
            clock = clock.copy()
            for channel, total in job.after:
                self._knows(clock, channel, total)
        for thread in threads:
            clock = np.maximum(clock, self._clocks[thread])
            if len(threads) > 1:
                clock[thread] = self._totals[thread]
        for thread in threads:
            head = self._queues[thread][0]
            head.base = self._totals[thread]
            self._clocks[thread] = clock.copy()
            self.timelines[thread].append(np.array([head.base]), clock[None])
        return True

    def _advance(self, thread: int) -> bool:
        """Let a thread go on as far as it is known to."""
        instance = self._queues[thread][0]
        if instance.held is not None:
            marks, need, fences = instance.held
            if len(marks) < need and fences == self._fences:
                return False
            instance.held = None
        part = instance.part
        begun = instance.base >= 0
        if not begun and not self._begin(instance):
            return False
        end = part.total
        if end == 0:
            self._finish(thread, instance)
            return True
        events: list[tuple[Array, Array]] = []
        seen = [*instance.seen]
        for number, gate in enumerate(part.gates):
            end = min(end, self._open(instance, number, gate, thread, events, seen))
        if end <= instance.done:
            return not begun
        self._merge(thread, instance, events, end)
        for number, gate in enumerate(part.gates):
            first = instance.nexts[number]
            if first < len(gate.begins):
                if gate.begins[first] < end:
                    instance.seen[number] = seen[number]
                stop = int(gate.begins.searchsorted(end))
                instance.nexts[number] = max(instance.nexts[number], stop)
        base, done = instance.base, instance.done
        for flag, ends in part.marks:
            marks = self.eras[flag][instance.eras[flag]].marks
            first, last = bisect_right(ends, done), bisect_right(ends, end)
            if first < last:
                marks.extend([base + place for place in ends[first:last]])
        if part.tokens is not None and instance.job.tokens is not None:
            channel, ends = part.tokens
            start = instance.job.tokens.totals[channel]
            first, last = bisect_right(ends, done), bisect_right(ends, end)
            for index in range(first, last):
                self._own.append((channel, start + index + 1, thread, base + ends[index]))
        instance.done = end
        if end == part.total:
            self._finish(thread, instance)
        return True

    def _finish(self, thread: int, instance: Instance) -> None:
        self._totals[thread] = instance.base + instance.part.total
        self._queues[thread].popleft()
        self._finished[thread] += 1

    def _merge(
        self, thread: int, instance: Instance, events: list[tuple[Array, Array]], end: int
    ) -> None:
        """Stretches of a thread up to where it goes on to."""
        kept = []
        for places, rows in events:
            if places[-1] >= end:
                count = int(places.searchsorted(end))
                places, rows = places[:count], rows[:count]
            if len(places):
                kept.append((places, rows))
        if not kept:
            return
        if len(kept) == 1 and len(kept[0][0]) == 1:
            row = np.maximum(kept[0][1][0], self._clocks[thread])
            self.timelines[thread].add(instance.base + int(kept[0][0][0]), row)
            self._clocks[thread] = row
            return
        places = np.concatenate([places for places, _ in kept])
        rows = np.concatenate([rows for _, rows in kept])
        if len(kept) > 1:
            order = np.argsort(places, kind="stable")
            places, rows = places[order], rows[order]
        np.maximum(rows[0], self._clocks[thread], out=rows[0])
        if len(rows) > 1:
            rows = np.maximum.accumulate(rows, axis=0)
            last = np.append(places[1:] != places[:-1], True)
            places, rows = places[last], rows[last]
        self.timelines[thread].append(instance.base + places, rows)
        self._clocks[thread] = rows[-1].copy()

    # --- watchers --------------------------------------------------------------------------------

    def _open(
        self,
        instance: Instance,
        number: int,
        gate: Gate,
        thread: int,
        events: list[tuple[Array, Array]],
        seen: list[int],
    ) -> int:
        """How far a watcher lets an instruction go, and what its thread learns by that."""
        begins, end = gate.begins, instance.part.total
        first, count = instance.nexts[number], len(gate.begins)
        if first >= count:
            return end
        tokens = instance.job.tokens
        if tokens is not None and gate.flag in tokens.flags:
            self._turns(gate, first, tokens, events)
            return end
        counter = self._counters.get(gate.flag)
        if counter is None:
            return end
        watcher = gate.watcher
        eras = self.eras[gate.flag]
        learnt: Array | None = None
        while True:
            era = eras[seen[number]]
            marks = era.marks
            known = len(marks)
            sure = bisect_right(marks, int(self._clocks[thread][counter]))
            wanted = watcher.threshold + watcher.increment * first
            need = nearest(wanted - era.value, sure)
            if need <= known:
                break
            lasts = era.closed is None or self._finished[counter] < era.closed
            if lasts or seen[number] + 1 == len(eras):
                if era.closed is None and begins[first] <= instance.done:
                    instance.held = (marks, need, self._fences)
                return int(begins[first])
            seen[number] += 1
            fresh = eras[seen[number]].clock
            assert fresh is not None
            learnt = fresh if learnt is None else np.maximum(learnt, fresh)
        if learnt is not None:
            events.append((begins[first : first + 1], learnt[None].copy()))
        step = watcher.increment
        if step > 0:
            last = min(count, first + (known - need) // step + 1)
        else:
            last = first + 1 if step else count
        # Only what is not certain already is news.
        start = first
        if need <= sure:
            start = count if step <= 0 else min(last, first + (sure - need) // step + 1)
        if start < last:
            stop = last if step else start + 1
            if stop == start + 1:
                element = marks[need + step * (start - first) - 1]
                row = self.timelines[counter].one(element - 1)
                row[counter] = element
                events.append((begins[start:stop], row[None]))
            else:
                self._many(
                    counter,
                    marks,
                    need + step * np.arange(start - first, stop - first),
                    begins[start:stop],
                    events,
                )
        # Whoever sets the counter must know that these iterations have begun.
        place = instance.base + int(begins[last - 1]) + 1
        if era.used.get(thread, (0, None))[0] < place:
            era.used[thread] = (place, instance.job.key)
        return int(begins[last]) if last < count else end

    def _many(
        self,
        counter: int,
        marks: array[int],
        needs: Array,
        begins: Array,
        events: list[tuple[Array, Array]],
    ) -> None:
        """What a thread learns by many iterations of a watcher."""
        elements = np.frombuffer(marks, np.int64)[needs - 1]
        rows = self.timelines[counter].at(elements - 1)
        rows[:, counter] = elements
        events.append((begins, rows))

    def _turns(
        self,
        gate: Gate,
        first: int,
        tokens: Tokens,
        events: list[tuple[Array, Array]],
    ) -> None:
        """What a thread learns by waiting for ring tokens."""
        channel = tokens.flags[gate.flag]
        watcher = gate.watcher
        value = tokens.totals[channel] - tokens.origin[channel]
        wanted = nearest(watcher.threshold, value)
        iterations = np.arange(first, len(gate.begins))
        rows = np.zeros((len(iterations), self.width), np.int64)
        rows[:, self.dispatcher + 1 + channel] = np.maximum(
            tokens.origin[channel] + wanted + watcher.increment * iterations, 0
        )
        events.append((gate.begins[first:], rows))

    # --- afterwards ------------------------------------------------------------------------------

    def resets(self) -> list[Reset]:
        """Counters that are set while somebody counts with them or waits for them."""
        found = []
        for flag, eras in enumerate(self.eras):
            thread = self._counters.get(flag)
            for era in eras[:-1]:
                assert era.end is not None
                if era.marks and thread is not None and era.marks[-1] > era.end[thread]:
                    key = self._key_of(thread, era.marks[-1] - 1)
                    found.append(Reset(key, era.barrier, flag, True))
                for user, (place, key) in era.used.items():
                    if place > era.end[user]:
                        found.append(Reset(key, era.barrier, flag, False))
        return found

    def _key_of(self, thread: int, element: int) -> Any:
        for instance in self.instances:
            if instance.part.thread == thread and instance.base <= element < (
                instance.base + instance.part.total
            ):
                return instance.job.key
        return None

    def wraps(self) -> list[Wrap]:
        """Watchers whose counter may be too far away from what they want."""
        found = []
        for instance in self.instances:
            thread = instance.part.thread
            for number, gate in enumerate(instance.part.gates):
                counter = self._counters.get(gate.flag)
                if counter is None:
                    continue
                eras = self.eras[gate.flag]
                era = eras[min(instance.seen[number], len(eras) - 1)]
                count, watcher = len(gate.begins), gate.watcher
                ends = np.array([0, count - 1]) * watcher.increment + watcher.threshold
                span = int(ends.max() - ends.min()) + len(era.marks) + abs(int(ends[0]) - era.value)
                if span < HALF:
                    continue
                worst = self._furthest(instance, gate, era, thread, counter)
                if worst is not None:
                    found.append(Wrap(instance.job.key, gate.flag, worst))
        return found

    def _furthest(
        self, instance: Instance, gate: Gate, era: Era, thread: int, counter: int
    ) -> int | None:
        """The largest distance of a counter from what a watcher wants, if it is too large."""
        begins, watcher = gate.begins, gate.watcher
        places = instance.base + begins
        marks = np.frombuffer(era.marks, np.int64) if era.marks else np.zeros(0, np.int64)
        sure = marks.searchsorted(
            self.timelines[thread].at(np.maximum(places - 1, instance.base))[:, counter],
            side="right",
        )
        wanted = watcher.threshold + watcher.increment * np.arange(len(begins))
        need = nearest(wanted[0] - era.value, sure[0])
        needs = need + wanted - wanted[0]
        line = self.timelines[counter]
        knows = np.maximum.accumulate(line.rows[:, thread])
        after = knows.searchsorted(places + 1, side="left")
        limit = np.append(line.starts, np.iinfo(np.int64).max)[after]
        most = marks.searchsorted(limit, side="right")
        distance = np.maximum(most - needs, needs - sure - 1)
        worst = int(distance.max())
        return worst if worst >= HALF else None
