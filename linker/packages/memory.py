"""Static memory layout: places for values that live for a part of a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How much memory something needs, and when.

    Attributes:
        size: bytes.
        begin: first step at which the bytes matter.
        end: last step at which they matter, not smaller than `begin`.
    """

    size: int
    begin: int
    end: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both matter at the same step."""
        return self.begin <= other.end and other.begin <= self.end


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """Places in one buffer.

    Attributes:
        offsets: byte offset of every request, in order of the requests.
        size: bytes that all of them take together.
    """

    offsets: tuple[int, ...]
    size: int


def lay_out_buffer(requests: Sequence[Lifetime], *, alignment: int = 16) -> BufferLayout:
    """Place requests in one buffer so that none overlaps another while both matter.

    Greedy by size: the biggest request first, each into the smallest gap that holds it, or else
    after everything that lives at the same time. Ties keep the order of the requests, so that
    equal requests give equal layouts.

    Args:
        requests: what to place.
        alignment: bytes to which every offset is aligned, a power of two.
    """
    order = sorted(range(len(requests)), key=lambda index: (-requests[index].size, index))
    placed: list[tuple[int, int]] = []  # (offset, request), sorted by offset
    offsets = [0] * len(requests)
    size = 0
    for index in order:
        request = requests[index]
        offset = _best_gap(request, requests, placed, alignment)
        offsets[index] = offset
        size = max(size, offset + request.size)
        placed.append((offset, index))
        placed.sort()
    return BufferLayout(tuple(offsets), size)


def _best_gap(
    request: Lifetime,
    requests: Sequence[Lifetime],
    placed: Sequence[tuple[int, int]],
    alignment: int,
) -> int:
    """Offset of the tightest gap among the neighbours in time that holds a request."""
    best, waste = -1, 0
    free = 0
    for offset, index in placed:
        other = requests[index]
        if not request.overlaps(other):
            continue
        room = offset - free
        if room >= request.size and (best < 0 or room - request.size < waste):
            best, waste = free, room - request.size
        end = offset + other.size
        free = max(free, end + -end % alignment)
    return free if best < 0 else best
