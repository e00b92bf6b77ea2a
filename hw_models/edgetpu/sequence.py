"""Element order of instructions: addresses of a traversal, and where its iterations lie."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import abc
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fitzroy.base.kept import kept
from fitzroy.base.types import Array
from fitzroy.hw_models.isa.counters import distance
from fitzroy.hw_models.isa.fields import Watcher
from fitzroy.hw_models.isa.traversal import Dim, Prefix, Traversal

_KEPT_BYTES = 16 << 20
"""Most bytes of element orders, and of bounds of iterations, that are kept for the next program."""

Numbers = abc.Sequence[int]
"""Positions in rising order."""


@dataclass(frozen=True, eq=False, slots=True)
class Order:
    """In which order an engine handles elements, without their addresses.

    Attributes:
        traversal: their traversal.
    """

    traversal: Traversal

    def __len__(self) -> int:
        return self.traversal.steps

    def begins(self, level: int) -> Numbers:
        """Where each iteration of a level begins, with the prefix that belongs to it."""
        return _iterations(self.traversal, level, 0)[:-1]

    def ends(self, level: int) -> Numbers:
        """Position after the last element of each iteration of a level."""
        return _iterations(self.traversal, level, 0)[1:]


@dataclass(frozen=True, eq=False, slots=True)
class Sequence(Order):
    """The elements of a traversal in the order in which an engine handles them.

    Attributes:
        addresses: int64[n], prefixes included.
        main: positions of the elements that are not prefix, None if all are.
        words: elements of a prefix.
        level: dimensions 0 to `level` make the run that a prefix precedes.
        partial_dim: dimension that a partial last chunk shortens.
    """

    addresses: Array
    main: Array | None = None
    words: int = 0
    level: int = 0
    partial_dim: int = 0

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.addresses.nbytes + (0 if self.main is None else self.main.nbytes)

    def begins(self, level: int) -> Numbers:
        """Where each iteration of a level begins, with the prefix that belongs to it."""
        first = _iterations(self.traversal, level, self.partial_dim)[:-1]
        if self.main is None:
            return first
        # A prefix stands before the first element of a run.
        runs = _iterations(self.traversal, self.level + 1, self.partial_dim)[:-1]
        places = as_array(first)
        heads = places % runs.step == 0 if isinstance(runs, range) else np.isin(places, runs)
        return numbers(self.main[places] - np.where(heads, self.words, 0))

    def ends(self, level: int) -> Numbers:
        """Position after the last element of each iteration of a level."""
        last = _iterations(self.traversal, level, self.partial_dim)[1:]
        return last if self.main is None else numbers(self.main[as_array(last) - 1] + 1)


@kept(_KEPT_BYTES, lambda found: found.nbytes)
def sequence(traversal: Traversal, prefix: Prefix | None = None, partial_dim: int = 0) -> Sequence:
    """The elements of a traversal, with a prefix where there is one.

    Raises:
        FormatError: an absurd number of elements.
        CapacityError: more of them than the budget has room for.
    """
    if prefix is None or not prefix.enabled:
        addresses = traversal.addresses(partial_dim=partial_dim)
        return Sequence(traversal, addresses, partial_dim=partial_dim)
    addresses, main = traversal.prefixed(prefix)
    places = np.flatnonzero(main)
    return Sequence(traversal, addresses, places, prefix.words, prefix.level, partial_dim)


def loops(counts: tuple[int, ...], part: int, part_dim: int) -> Traversal:
    """The loops of a tensor operation as a traversal, for their iterations."""
    return Traversal(0, tuple(Dim(count, 0) for count in counts), 0, 0, 0, part, part_dim, 0)


def _iterations(traversal: Traversal, level: int, partial_dim: int) -> Numbers:
    """Bounds of the iterations of a level, among the elements that are not prefix."""
    if traversal.part_dim:
        shorter = traversal.part_count <= traversal.dims[0].count
        if shorter and level == partial_dim == 0:
            # Every element is an iteration.
            return range(traversal.steps + 1)
        return _uneven(traversal, level, partial_dim)
    inner = math.prod([dim.count for dim in traversal.dims[:level]])
    return range(0, traversal.iterations(level) * inner + 1, inner)


@kept(_KEPT_BYTES, lambda bounds: 8 * len(bounds))
def _uneven(traversal: Traversal, level: int, partial_dim: int) -> Numbers:
    """Bounds of iterations of which some are shorter or longer than others."""
    run = traversal.runs(level, partial_dim=partial_dim)
    return numbers(np.concatenate([[0], np.flatnonzero(np.diff(run)) + 1, [len(run)]]))


def stretch(numbers: Array) -> slice | Array:
    """At least one address as an index; those that rise evenly become a slice.

    Indexing an array with a slice takes a fraction of the time that it takes with numbers.
    """
    first, last, count = int(numbers[0]), int(numbers[-1]), len(numbers)
    if count == 1:
        return slice(first, first + 1)
    step = int(numbers[1]) - first
    if step <= 0 or last - first != (count - 1) * step:
        return numbers
    index = slice(first, last + 1, step)
    even = count == 2 or (numbers == np.arange(first, last + 1, step)).all()
    return index if even else numbers


class Gate:
    """A watcher of an instruction: where it holds the engine, and for what.

    Args:
        watcher: flag, threshold and increment.
        begins: positions of the iterations.
        end: number of elements.
    """

    __slots__ = ("_array", "_end", "_step", "flag", "positions", "watcher")

    def __init__(self, watcher: Watcher, begins: Numbers, end: int) -> None:
        self.watcher = watcher
        self.positions = begins
        self.flag = watcher.flag
        self._array: Array | None = None
        self._end = end
        self._step = 0
        if isinstance(begins, range) and begins.start == 0:
            # Most iterations have one size, so that no search is needed.
            self._step = begins.step if len(begins) > 1 else end

    @property
    def begins(self) -> Array:
        """Positions of the iterations, int64[n]."""
        if self._array is None:
            self._array = as_array(self.positions)
        return self._array

    def _index(self, position: int) -> int:
        """Number of the first iteration that begins at a position or after it."""
        if self._step:
            return -(-position // self._step)
        return bisect_left(self.positions, position)

    def limit(self, value: int, position: int) -> int:
        """How far the engine may go from a position while the flag has a value."""
        step, begins, watcher = self._step, self.positions, self.watcher
        index = -(-position // step) if step else bisect_left(begins, position)
        if index >= len(begins):
            return self._end
        increment = watcher.increment
        ahead = distance(value, watcher.threshold + increment * index)
        if ahead < 0:
            return begins[index]
        if increment > 0:
            index += ahead // increment + 1
        elif increment < 0:
            index += 1
        else:
            return self._end
        return begins[index] if index < len(begins) else self._end

    def wanted(self, position: int) -> int:
        """Value that the flag must reach for the iteration at a position."""
        return self.watcher.threshold + self.watcher.increment * self._index(position)


def gates(watchers: Iterable[tuple[Watcher | None, Order]]) -> tuple[Gate, ...]:
    """Gates of the watchers that are there and on, each with the elements that it holds back."""
    return tuple(
        Gate(watcher, walk.begins(watcher.level), len(walk))
        for watcher, walk in watchers
        if watcher is not None and watcher.valid
    )


def numbers(positions: Array) -> Numbers:
    """Rising positions for `bisect`, 8 bytes each; those that rise evenly take no memory."""
    count = len(positions)
    first = int(positions[0]) if count else 0
    step = int(positions[1]) - first if count > 1 else 1
    even = step > 0 and (count < 3 or (positions[1:] - positions[:-1] == step).all())
    if even:
        return range(first, first + step * count, step)
    return array("q", positions.astype(np.int64, copy=False).tobytes())


def as_array(positions: abc.Sequence[int] | Array) -> Array:
    """Positions as int64[n]."""
    if isinstance(positions, range):
        return np.arange(positions.start, positions.stop, positions.step)
    return np.asarray(positions, np.int64)


def passed(ends: Numbers | None, before: int, after: int) -> int:
    """How many iterations end after `before`, up to `after`."""
    if ends is None:
        return 0
    return bisect_right(ends, after) - bisect_right(ends, before)
