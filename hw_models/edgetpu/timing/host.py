"""The host's end of a program in time: what it sends, and how fast it reads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import LARGE_TRANSFER, PCIE, Driver, Host

BLOCK = 64
"""Granularity of transfers to the chip, in bytes."""


@dataclass(frozen=True, slots=True)
class Leg:
    """A transfer to the chip.

    Attributes:
        kind: ``instructions``, ``input`` or ``parameters``.
        size: bytes.
    """

    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a host with its driver sends, in cycles.

    Attributes:
        rates: of a byte on the link, by kind.
        prepare: of a byte, before its transfer moves, by kind.
        large: before a leg of more than `LARGE_TRANSFER` bytes.
        idle: before a leg, if nothing else may be under way meanwhile.
        pause: after instructions of more than `Timing.long_chunk` bytes.
        in_flight: transfers, headers included, that are handed over at a time.
        fifo: bytes that may be on the chip and not taken.
    """

    rates: Mapping[str, float]
    prepare: Mapping[str, float]
    large: float
    idle: float
    pause: float
    in_flight: int
    fifo: int

    @classmethod
    def of(cls, host: Host, driver: Driver, mhz: float) -> Pace:
        """That of a host at a clock of the chip."""
        per_ns = mhz / 1000
        link, stream = (1000 / rate * per_ns for rate in (host.link, host.stream))
        return cls(
            rates={"instructions": link, "input": link, "parameters": stream},
            prepare={
                "instructions": host.prepare_instructions * per_ns,
                "input": host.prepare * per_ns,
                "parameters": host.prepare * per_ns,
            },
            large=host.large * mhz,
            idle=driver.idle * mhz,
            pause=0.0 if host.bus == PCIE else BEAGLE.timing.long_chunk_pause * mhz,
            in_flight=driver.in_flight,
            fifo=BEAGLE.timing.host_fifo,
        )

    def preparation(self, kind: str, size: int) -> float:
        """What a transfer takes before it can move; it does not keep the link busy."""
        return self.prepare[kind] * size if size > LARGE_TRANSFER else 0.0

    def delay(self, leg: Leg) -> float:
        """What a leg takes before it moves, with the link idle."""
        return self.large if leg.size > LARGE_TRANSFER else 0.0

    def first(self, size: int) -> float:
        """The first chunk of instructions, from nothing to its last byte."""
        return self.preparation("instructions", size) + self.moving(size)

    def moving(self, size: int) -> float:
        """The first chunk of instructions, once it is prepared."""
        leg = Leg("instructions", size)
        return self.delay(leg) + size * self.rates[leg.kind]


@dataclass(frozen=True, slots=True)
class _Part:
    """A transfer that the driver hands over.

    Attributes:
        block: its first block.
        preparation: cycles before it can move.
        delay: cycles before it moves once the link is free.
        rate: cycles of a byte.
        end: one past the last block of its leg.
        tail: bytes of that block.
    """

    block: int
    preparation: float
    delay: float
    rate: float
    end: int
    tail: int

    def cycles(self, count: int, last: int) -> Array:
        """What some of its blocks, up to a last one, take on the link: float64[n]."""
        found = np.full(count, BLOCK * self.rate)
        if last == self.end:
            found[-1] = self.tail * self.rate
        return found

    def ends(self, steady: Array, last: int) -> Array:
        """When some of its blocks, up to a last one, end that begin together at 0: float64[n].

        Args:
            steady: the same if all blocks are whole.
            last: one past the last block.
        """
        if last < self.end or self.tail == BLOCK:
            return steady
        before = float(steady[-2]) if len(steady) > 1 else 0.0
        return np.append(steady[:-1], before + self.tail * self.rate)


def _parts(chunk: int, legs: Sequence[Leg], first: Array, pace: Pace) -> Iterator[_Part]:
    """Headers and pieces of legs after a chunk of instructions, in order."""
    largest = BEAGLE.usb.most_out
    before = Leg("instructions", chunk)
    for leg, (block, end) in zip(legs, pairwise(first.tolist()), strict=True):
        long = before.kind == "instructions" and before.size > BEAGLE.timing.long_chunk
        bytes_ = pace.rates[leg.kind], end, leg.size - (end - block - 1) * BLOCK
        yield _Part(block, 0.0, pace.pause if long else 0.0, *bytes_)
        for offset in range(0, leg.size, largest):
            size = min(leg.size - offset, largest)
            delay = 0.0 if offset else pace.delay(leg) + pace.idle
            preparation = pace.preparation(leg.kind, size)
            yield _Part(block + offset // BLOCK, preparation, delay, *bytes_)
        before = leg


class _Stream:
    """Legs of one kind, whose bytes the chip takes one after the other.

    Args:
        legs: each with its first block.
    """

    def __init__(self, legs: Sequence[tuple[Leg, int]]) -> None:
        self._ends = np.cumsum([leg.size for leg, _ in legs]).tolist()
        self._begins = [0, *self._ends]
        self._first = [first for _, first in legs]

    def blocks(self, offset: int, unit: int, count: int) -> list[slice | Array]:
        """The block with the last byte of each of some units, in order; fewer if they end.

        Args:
            offset: bytes before the units.
            unit: bytes of a unit.
            count: how many.
        """
        count = min(count, (self._ends[-1] - offset) // unit)
        found: list[slice | Array] = []
        while count > 0:
            leg = bisect_left(self._ends, offset + unit)
            inside = min(count, (self._ends[leg] - offset) // unit)
            within = offset - self._begins[leg]
            if unit == BLOCK and within % BLOCK == 0:
                first = self._first[leg] + within // BLOCK
                found.append(slice(first, first + inside))
            else:
                last = within + unit * np.arange(1, inside + 1) - 1
                found.append(self._first[leg] + last // BLOCK)
            offset, count = offset + unit * inside, count - inside
        return found

    def ending(self, offset: int, unit: int, count: int) -> Iterator[tuple[slice, Array]]:
        """Blocks that end within units, and the unit of each, int64[n].

        Args:
            offset: bytes before the units.
            unit: bytes of a unit.
            count: how many.
        """
        last = offset + unit * count
        for leg in range(bisect_right(self._ends, offset), len(self._first)):
            begin, end, block = self._begins[leg], self._ends[leg], self._first[leg]
            if begin >= last:
                return
            before = max(0, offset - begin) // BLOCK
            after = -(-(end - begin) // BLOCK) if last >= end else (last - begin) // BLOCK
            if after > before:
                ends = np.minimum(begin + BLOCK * np.arange(before + 1, after + 1), end)
                yield slice(block + before, block + after), -(-(ends - offset) // unit) - 1


class Wire:
    """Data on its way to the chip, in the order in which the host sends it.

    The host prepares transfers in their order, no more at a time than its driver hands over, and
    sends what is prepared without a break, but no more than a fifo ahead of what the chip has
    taken.

    Args:
        first: bytes of the first chunk of instructions, which is there at cycle 0.
        legs: all transfers after it.
        pace: how fast the host is.
    """

    def __init__(self, first: int, legs: Sequence[Leg], pace: Pace) -> None:
        self.legs = legs
        self._rates = pace.rates
        counts = [-(-leg.size // BLOCK) for leg in legs]
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        total = int(self._first[-1])
        self._arrival = np.full(total, np.nan)
        self._taken = np.full(total, np.nan)
        self._sent = 0
        self._time = 0.0
        self._fifo = max(1, pace.fifo // BLOCK)
        self._parts = tuple(_parts(first, legs, self._first, pace))
        self._begun = 0
        # What follows the first chunk is prepared while that moves.
        self._prepared = -pace.moving(first)
        self._ends = deque([-inf] * (pace.in_flight - 1) + [0.0], pace.in_flight)
        kinds: dict[str, list[tuple[Leg, int]]] = {}
        # Blocks that the chip takes as they come.
        self._direct = np.zeros(total, bool)
        for leg, (block, end) in zip(legs, pairwise(self._first.tolist()), strict=True):
            if leg.size:
                kinds.setdefault(leg.kind, []).append((leg, block))
            self._direct[block:end] = leg.kind == "instructions"
        self._streams = {kind: _Stream(items) for kind, items in kinds.items()}
        # When whole blocks end, by the cycles of a byte; no transfer has more of them.
        most = min(max(counts, default=0), BEAGLE.usb.most_out // BLOCK)
        self._steady = {
            rate: np.cumsum(np.full(most, BLOCK * rate)) for rate in {*pace.rates.values()}
        }

    def _send(self, flowing: int = 0) -> None:
        """Send what there is room for.

        Args:
            flowing: one past blocks that the chip takes as they come: what had the room of one of
                them is gone before it comes.
        """
        while self._sent < len(self._arrival):
            first = self._sent
            last = min(max(first + self._fifo, flowing), self._begin_parts())
            room = self._room(first, last)
            part = self._parts[self._begun - 1]
            late = not (room <= self._time).all()
            if late:
                unknown = np.isnan(room)
                if unknown.any():
                    last = first + int(np.argmax(unknown))
                    if last == first:
                        return
            ends = part.ends(self._steady[part.rate][: last - first], last)
            begins: float | Array = self._time
            if late:
                # When the first block would have to begin for each to have room.
                ready = np.maximum(room[: last - first], self._time)
                cycles = part.cycles(last - first, last)
                begins = np.maximum.accumulate(ready - (ends - cycles))
            arrival = begins + ends
            self._arrival[first:last] = arrival
            direct = self._direct[first:last]
            self._taken[first:last][direct] = arrival[direct]
            self._time = float(arrival[-1])
            self._sent = last

    def _room(self, first: int, last: int) -> Array:
        """When there is room for blocks; 0 for those whose room others of them have."""
        room = np.zeros(last - first)
        behind = slice(max(0, first - self._fifo), max(0, min(first, last - self._fifo)))
        taken = self._taken[behind]
        start = behind.start + self._fifo - first
        room[start : start + len(taken)] = taken
        return room

    def _begin_parts(self) -> int:
        """Begin the transfers that the next block belongs to; returns where the next one begins."""
        while self._begun < len(self._parts):
            part = self._parts[self._begun]
            if part.block > self._sent:
                return part.block
            if self._begun:
                # The link has moved all of the transfer before.
                self._ends.append(self._time)
            self._begun += 1
            self._prepared = max(self._prepared, self._ends[0]) + part.preparation
            self._time = max(self._time, self._prepared) + part.delay
        return len(self._arrival)

    def chunk(self, number: int) -> float | None:
        """When a chunk of instructions, counted from 1, is there; None if it waits for others."""
        self._send()
        seen = 0
        for index, leg in enumerate(self.legs):
            seen += leg.kind == "instructions"
            if seen == number:
                time = float(self._arrival[self._first[index + 1] - 1])
                return None if np.isnan(time) else time
        return 0.0

    def arrivals(self, kind: str, offset: int, unit: int, count: int) -> Array:
        """When the units from a byte of a stream on arrive, as far as that is known.

        Args:
            kind: the stream.
            offset: bytes before them.
            unit: bytes of a unit.
            count: how many are wanted.
        """
        self._send()
        if kind not in self._streams:
            return np.zeros(0)
        arrival = self._arrival[: self._sent]
        found = []
        for blocks in self._streams[kind].blocks(offset, unit, count):
            if not isinstance(blocks, slice):
                blocks = blocks[: blocks.searchsorted(self._sent)]
            found.append(arrival[blocks])
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.zeros(0)

    def flow(self, kind: str, offset: int, unit: int, count: int) -> None:
        """The chip will take units as they come; this changes nothing if others are in their way.

        Args:
            kind: the stream.
            offset: bytes before them, all of which have been taken.
            unit: bytes of a unit.
            count: how many.
        """
        self._send()
        sent = self._sent
        spans = [span for span, _ in self._streams[kind].ending(offset, unit, count)]
        last = spans[-1].stop if spans else 0
        others = last - sent - sum([max(0, span.stop - max(span.start, sent)) for span in spans])
        if others == np.count_nonzero(self._direct[sent:last]):
            for span in spans:
                self._direct[span] = True
                here = slice(span.start, min(span.stop, sent))
                self._taken[here] = self._arrival[here]
            self._send(last)

    def take(self, kind: str, offset: int, unit: int, times: Array) -> None:
        """The chip takes units at these times."""
        for span, units in self._streams[kind].ending(offset, unit, len(times)):
            self._taken[span] = times[units]

    def spans(self) -> Iterable[tuple[Leg, float, float]]:
        """Each transfer with the cycles of its first and last byte."""
        for leg, (first, end) in zip(self.legs, pairwise(self._first.tolist()), strict=True):
            if end > first and not np.isnan(self._arrival[end - 1]):
                block = min(leg.size, BLOCK) * self._rates[leg.kind]
                yield leg, float(self._arrival[first] - block), float(self._arrival[end - 1])


class Reader:
    """The host reads outputs, at its own pace.

    Args:
        rate: cycles of a byte.
        fifo: bytes that may wait on the chip.
    """

    def __init__(self, rate: float, fifo: int) -> None:
        self._rate = rate
        self._fifo = fifo
        self._offsets = [0]
        self._begins = [0.0]
        self._times = [0.0]

    @property
    def time(self) -> float:
        """When the last byte was read."""
        return self._times[-1]

    def room(self, sizes: Iterable[int]) -> list[float]:
        """When there is room for so many more bytes each; shorter where that is not known."""
        found = []
        known = self._offsets[-1]
        for size in sizes:
            wanted = known + size - self._fifo
            if wanted > known:
                break
            found.append(self.when(wanted))
        return found

    def read(self, sizes: Iterable[int], times: Iterable[float]) -> None:
        """Pieces of so many bytes become available at these times."""
        for size, time in zip(sizes, times, strict=True):
            begin = max(time, self._times[-1])
            self._begins.append(begin)
            self._times.append(begin + size * self._rate)
            self._offsets.append(self._offsets[-1] + size)

    def when(self, offset: int) -> float:
        """When the host had read up to an offset."""
        index = bisect_left(self._offsets, offset)
        return self._times[min(index, len(self._times) - 1)]

    def begun(self, offset: int) -> float:
        """When the host began to read the piece that the byte at an offset is in."""
        index = bisect_right(self._offsets, offset)
        return self._begins[min(index, len(self._begins) - 1)]
