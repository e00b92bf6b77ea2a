"""The host's end of a program in time: what it sends, and how fast it reads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.types import Array

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


class Wire:
    """Data on its way to the chip, in the order in which the host sends it.

    The host sends without a break, but no more than a fifo ahead of what the chip has taken.

    Args:
        legs: all transfers after the first chunk of instructions.
        rates: cycles of a byte, by kind.
        fifo: bytes that may be on the chip and not taken.
    """

    def __init__(self, legs: Sequence[Leg], rates: dict[str, float], fifo: int) -> None:
        self.legs = legs
        counts = [-(-leg.size // BLOCK) for leg in legs]
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        total = int(self._first[-1])
        self._arrival = np.full(total, np.nan)
        self._taken = np.full(total, np.nan)
        self._cycles = np.zeros(total)
        self._sent = 0
        self._time = 0.0
        self._fifo = max(1, fifo // BLOCK)
        blocks: dict[str, list[Array]] = {}
        sizes: dict[str, list[Array]] = {}
        for number, leg in enumerate(legs):
            span = np.arange(self._first[number], self._first[number + 1])
            size = np.full(len(span), BLOCK)
            if leg.size % BLOCK:
                size[-1] = leg.size % BLOCK
            self._cycles[span] = size * rates[leg.kind]
            blocks.setdefault(leg.kind, []).append(span)
            sizes.setdefault(leg.kind, []).append(size)
        self._blocks = {kind: np.concatenate(parts) for kind, parts in blocks.items()}
        self._ends = {kind: np.cumsum(np.concatenate(parts)) for kind, parts in sizes.items()}
        self._instructions = np.zeros(total, bool)
        for span in blocks.get("instructions", ()):
            self._instructions[span] = True

    def _send(self) -> None:
        """Send what there is room for."""
        while self._sent < len(self._arrival):
            first = self._sent
            last = min(first + self._fifo, len(self._arrival))
            room = np.zeros(last - first)
            behind = np.arange(first, last) - self._fifo
            old = behind >= 0
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
            direct = self._instructions[first:last]
            self._taken[first:last][direct] = arrival[direct]
            self._time = float(arrival[-1])
            self._sent = last

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
        if kind not in self._ends:
            return np.zeros(0)
        wanted = offset + unit * np.arange(1, count + 1)
        index = np.searchsorted(self._ends[kind], wanted)
        index = index[index < len(self._ends[kind])]
        times: Array = self._arrival[self._blocks[kind][index]]
        unknown = np.isnan(times)
        return times[: int(np.argmax(unknown))] if unknown.any() else times

    def take(self, kind: str, offset: int, unit: int, times: Array) -> None:
        """The chip takes units at these times."""
        ends = self._ends[kind]
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
