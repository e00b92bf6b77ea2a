"""The host's end of a program in time: what it sends, and how fast it reads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    """

    block: int
    preparation: float
    delay: float


def _parts(chunk: int, legs: Sequence[Leg], first: Array, pace: Pace) -> Iterator[_Part]:
    """Headers and pieces of legs after a chunk of instructions, in order."""
    largest = BEAGLE.usb.most_out
    before = Leg("instructions", chunk)
    for leg, block in zip(legs, first, strict=False):
        long = before.kind == "instructions" and before.size > BEAGLE.timing.long_chunk
        yield _Part(int(block), 0.0, pace.pause if long else 0.0)
        for offset in range(0, leg.size, largest):
            size = min(leg.size - offset, largest)
            delay = 0.0 if offset else pace.delay(leg) + pace.idle
            yield _Part(int(block) + offset // BLOCK, pace.preparation(leg.kind, size), delay)
        before = leg


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
        counts = [-(-leg.size // BLOCK) for leg in legs]
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        total = int(self._first[-1])
        self._arrival = np.full(total, np.nan)
        self._taken = np.full(total, np.nan)
        self._cycles = np.zeros(total)
        self._sent = 0
        self._time = 0.0
        self._fifo = max(1, pace.fifo // BLOCK)
        self._parts = tuple(_parts(first, legs, self._first, pace))
        self._begun = 0
        # What follows the first chunk is prepared while that moves.
        self._prepared = -pace.moving(first)
        self._ends = deque([-inf] * (pace.in_flight - 1) + [0.0], pace.in_flight)
        blocks: dict[str, list[Array]] = {}
        sizes: dict[str, list[Array]] = {}
        for number, leg in enumerate(legs):
            span = np.arange(self._first[number], self._first[number + 1])
            size = np.full(len(span), BLOCK)
            if leg.size % BLOCK:
                size[-1] = leg.size % BLOCK
            self._cycles[span] = size * pace.rates[leg.kind]
            blocks.setdefault(leg.kind, []).append(span)
            sizes.setdefault(leg.kind, []).append(size)
        self._blocks = {kind: np.concatenate(parts) for kind, parts in blocks.items()}
        self._bytes = {kind: np.cumsum(np.concatenate(parts)) for kind, parts in sizes.items()}
        # Blocks that the chip takes as they come.
        self._direct = np.zeros(total, bool)
        for span in blocks.get("instructions", ()):
            self._direct[span] = True

    def _send(self, flowing: int = 0) -> None:
        """Send what there is room for.

        Args:
            flowing: one past blocks that the chip takes as they come: what had the room of one of
                them is gone before it comes.
        """
        while self._sent < len(self._arrival):
            first = self._sent
            last = min(max(first + self._fifo, flowing), self._begin_parts())
            room = np.zeros(last - first)
            behind = np.arange(first, last) - self._fifo
            old = (behind >= 0) & (behind < first)
            room[old] = self._taken[behind[old]]
            unknown = np.isnan(room)
            if unknown.any():
                last = first + int(np.argmax(unknown))
                if last == first:
                    return
            cycles = self._cycles[first:last]
            ends = np.cumsum(cycles)
            begins = np.maximum.accumulate(
                np.maximum(room[: last - first], self._time) - (ends - cycles)
            )
            arrival = begins + ends
            self._arrival[first:last] = arrival
            direct = self._direct[first:last]
            self._taken[first:last][direct] = arrival[direct]
            self._time = float(arrival[-1])
            self._sent = last

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
        if kind not in self._bytes:
            return np.zeros(0)
        wanted = offset + unit * np.arange(1, count + 1)
        index = np.searchsorted(self._bytes[kind], wanted)
        index = index[index < len(self._bytes[kind])]
        times: Array = self._arrival[self._blocks[kind][index]]
        unknown = np.isnan(times)
        return times[: int(np.argmax(unknown))] if unknown.any() else times

    def flow(self, kind: str, offset: int, unit: int, count: int) -> None:
        """The chip will take units as they come; this changes nothing if others are in their way.

        Args:
            kind: the stream.
            offset: bytes before them, all of which have been taken.
            unit: bytes of a unit.
            count: how many.
        """
        self._send()
        span = np.searchsorted(self._bytes[kind], (offset, offset + unit * count), side="right")
        blocks = self._blocks[kind][slice(*span)]
        here = blocks[blocks < self._sent]
        last = int(blocks[-1]) + 1 if len(blocks) else 0
        others = last - self._sent - (len(blocks) - len(here))
        if others == np.count_nonzero(self._direct[self._sent : last]):
            self._direct[blocks] = True
            self._taken[here] = self._arrival[here]
            self._send(last)

    def take(self, kind: str, offset: int, unit: int, times: Array) -> None:
        """The chip takes units at these times."""
        ends = self._bytes[kind]
        first = int(np.searchsorted(ends, offset, side="right"))
        last = int(np.searchsorted(ends, offset + unit * len(times), side="right"))
        if last > first:
            index = -(-(ends[first:last] - offset) // unit) - 1
            self._taken[self._blocks[kind][first:last]] = times[index]

    def spans(self) -> Iterable[tuple[Leg, float, float]]:
        """Each transfer with the cycles of its first and last byte."""
        for number, leg in enumerate(self.legs):
            first, last = int(self._first[number]), int(self._first[number + 1]) - 1
            if last >= first and not np.isnan(self._arrival[last]):
                begin = float(self._arrival[first] - self._cycles[first])
                yield leg, begin, float(self._arrival[last])


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
