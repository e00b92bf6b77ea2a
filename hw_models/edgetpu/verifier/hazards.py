"""Uses of one place of a memory by two units without an order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.verifier.order import Cluster, Instance
from fitzroy.hw_models.edgetpu.verifier.parts import WIDE, Access
from fitzroy.hw_models.isa.fields import TileEngine

_TAKERS: dict[int, tuple[int, ...]] = {
    TileEngine.WIDE_TO_NARROW: (TileEngine.RING_CONSUME_A, TileEngine.RING_CONSUME_B),
    TileEngine.RING_PRODUCE: (TileEngine.NARROW_TO_WIDE,),
}
"""Who takes rows before their writers bring the next ones."""


_MOST_KEPT = 1 << 23
"""Numbers that are kept for later comparisons."""


class Timing(Enum):
    """Whether time gives two uses of a row an order.

    It does so for a write and the reads of what it replaces; the order of the same write and
    earlier reads is implied.
    """

    NONE = 0
    ADJACENT = 1
    IMPLIED = 2


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two parts of instructions that use one place without an order.

    Attributes:
        one: the instruction dispatched first.
        other: the other.
        memory: the memory.
        kinds: whether each writes.
        address: an example.
        positions: elements of both.
        count: how many uses of the first conflict.
        timed: whether whoever reads has all that it needs when the other one writes.
    """

    one: Any
    other: Any
    memory: int
    kinds: tuple[bool, bool]
    address: int
    positions: tuple[int, int]
    count: int
    timed: bool


@dataclass(eq=False, slots=True)
class _Index:
    """Uses by address and position, sorted.

    Attributes:
        keys: address times `scale` plus position.
        scale: more than any position.
    """

    keys: Array
    scale: int


class Comparer:
    """Compares accesses, and remembers what they have in common.

    Args:
        accesses: accesses of each part of an instruction.
    """

    def __init__(self, accesses: Callable[[Any], tuple[tuple[Access, ...], ...]]) -> None:
        self._accesses = accesses
        self._known: dict[Any, tuple[tuple[Access, ...], ...]] = {}
        self._common: dict[tuple[int, int], tuple[Array, Array] | None] = {}
        self._indices: dict[int, _Index] = {}
        self._size = 0

    def uses(self, key: Any) -> tuple[tuple[Access, ...], ...]:
        """Accesses of each part of an instruction."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._accesses(key)
            self._size += sum(2 * len(access.addresses) for part in found for access in part)
        return found

    def _forget(self) -> None:
        """Forget everything if it is much; it can be made again."""
        if self._size > _MOST_KEPT:
            self._known.clear()
            self._common.clear()
            self._indices.clear()
            self._size = 0

    def conflicts(self, cluster: Cluster) -> list[Conflict]:
        """All conflicts in a cluster."""
        self._forget()
        users: list[tuple[Instance, Access]] = []
        for instance in cluster.instances:
            accesses = self.uses(instance.job.key)
            if not accesses:
                continue
            for access in accesses[instance.job.parts.index(instance.part)]:
                users.append((instance, access))
        if len(users) < 2:
            return []
        threads = np.array([instance.part.thread for instance, _ in users])
        memories = np.array([access.memory for _, access in users])
        writes = np.array([access.write for _, access in users])
        lows = np.array([access.low for _, access in users])
        highs = np.array([access.high for _, access in users])
        ends = np.array([instance.base + instance.part.total for instance, _ in users])
        found = []
        for number, (instance, access) in enumerate(users):
            if number == 0:
                continue
            known = instance.clock[threads[:number]]
            candidates = np.flatnonzero(
                (threads[:number] != threads[number])
                & (memories[:number] == memories[number])
                & (writes[:number] | writes[number])
                & (lows[:number] <= highs[number])
                & (highs[:number] >= lows[number])
                & (known < ends[:number])
            )
            for other in candidates.tolist():
                before, earlier = users[other]
                conflict = self._compare(cluster, before, earlier, instance, access)
                if conflict is not None:
                    found.append(conflict)
        return found

    def _shared(self, one: Access, other: Access) -> tuple[Array, Array] | None:
        """Addresses and positions of the first that the other one uses as well."""
        key = (id(one), id(other))
        if key not in self._common:
            low, high = max(one.low, other.low), min(one.high, other.high) + 1
            both = one.present[low - one.low : high - one.low].copy()
            both &= other.present[low - other.low : high - other.low]
            if both.any():
                near = np.flatnonzero((one.addresses >= low) & (one.addresses < high))
                here = near[both[one.addresses[near] - low]]
                self._common[key] = (one.addresses[here], one.positions[here])
                self._size += 2 * len(here)
            else:
                self._common[key] = None
        return self._common[key]

    def _index(self, access: Access) -> _Index:
        found = self._indices.get(id(access))
        if found is None:
            scale = int(access.positions[-1]) + 2
            found = _Index(np.sort(access.addresses * scale + access.positions), scale)
            self._indices[id(access)] = found
            self._size += len(found.keys)
        return found

    def _compare(
        self, cluster: Cluster, one: Instance, first: Access, other: Instance, second: Access
    ) -> Conflict | None:
        shared = self._shared(first, second)
        if shared is None:
            return None
        addresses, positions = shared
        line, target = cluster.timelines[one.part.thread], cluster.timelines[other.part.thread]
        stretches = line.index(one.base + positions)
        if len(addresses) > 1:
            # Uses of one address in one stretch see the same; the last is known last.
            last = np.full(len(addresses), True)
            order = np.lexsort((positions, addresses, stretches))
            same = (addresses[order[1:]] == addresses[order[:-1]]) & (
                stretches[order[1:]] == stretches[order[:-1]]
            )
            last[order[:-1][same]] = False
            addresses, positions, stretches = addresses[last], positions[last], stretches[last]
        sure = line.rows[stretches, other.part.thread] - other.base
        index = self._index(second)
        low = np.clip(sure, 0, index.scale - 1)
        place = index.keys.searchsorted(addresses * index.scale + low)
        keys = index.keys[np.minimum(place, len(index.keys) - 1)]
        open_ = (place < len(index.keys)) & (keys // index.scale == addresses)
        if not open_.any():
            return None
        addresses, positions, keys = addresses[open_], positions[open_], keys[open_]
        uses = keys % index.scale
        known = target.rows[target.index(other.base + uses), one.part.thread]
        race = known <= one.base + positions
        if not race.any():
            return None
        addresses, positions, uses = addresses[race], positions[race], uses[race]
        timing = self._timed(cluster, one, first, other, second, addresses, positions, uses)
        if timing is Timing.IMPLIED:
            return None
        return Conflict(
            one.job.key,
            other.job.key,
            first.memory,
            (first.write, second.write),
            int(addresses[0]),
            (int(positions[0]), int(uses[0])),
            len(addresses),
            timing is Timing.ADJACENT,
        )

    def _timed(
        self,
        cluster: Cluster,
        one: Instance,
        first: Access,
        other: Instance,
        second: Access,
        addresses: Array,
        positions: Array,
        uses: Array,
    ) -> Timing:
        """Whether rows are read in time although nothing but time says so.

        That is so if the reader has what it reads, and waits for nothing that the writer need not
        have waited for, while what replaces it takes a way through a tile and over the ring: it is
        not of the same instruction, and not from the infeed. A ring producer may have to wait for
        its turn in addition; so its writer must not be more than one message ahead of it.
        """
        if first.memory != WIDE or first.write == second.write:
            return Timing.NONE
        if first.write:
            return self._timed(cluster, other, second, one, first, addresses, uses, positions)
        reader, writer = one.part.thread, other.part.thread
        if writer not in _TAKERS.get(reader, ()) or other.job.fed:
            return Timing.NONE
        read = cluster.timelines[reader].at(one.base + positions)
        wrote = cluster.timelines[writer].at(other.base + uses)
        wrote[:, writer] = other.base + uses
        needs = read.copy()
        needs[:, reader] = 0
        needs[:, cluster.dispatcher + 1 :] = 0
        if np.any(needs > wrote):
            return Timing.NONE
        found = Timing.IMPLIED
        for address, position, use, row in zip(addresses, positions, uses, read, strict=True):
            reads, writes, owners = self._versions(cluster, int(address), reader, writer)
            version = int(np.searchsorted(reads, one.base + position, side="right"))
            known = int(np.searchsorted(writes, row[writer]))
            before = int(np.searchsorted(writes, other.base + use))
            if known < version or (reader == TileEngine.RING_PRODUCE and before != version):
                return Timing.NONE
            if before == version:
                if owners[version - 1] is other:
                    return Timing.NONE
                found = Timing.ADJACENT
        return found

    def _versions(
        self, cluster: Cluster, address: int, reader: int, writer: int
    ) -> tuple[Array, Array, list[Instance]]:
        """When a row is read by one thread, and written by another, and by which of its parts."""
        found: tuple[list[Array], list[Array]] = ([], [])
        owners: list[Instance] = []
        for instance in cluster.instances:
            thread = instance.part.thread
            if thread not in (reader, writer):
                continue
            for access in self.uses(instance.job.key)[instance.job.parts.index(instance.part)]:
                if access.memory == WIDE and access.write == (thread == writer):
                    places = self._visits(access, access.positions[access.addresses == address])
                    found[thread == writer].append(instance.base + places)
                    if thread == writer:
                        owners += [instance] * len(places)
        reads, writes = (np.concatenate(places) for places in found)
        return reads, writes, owners

    @staticmethod
    def _visits(access: Access, places: Array) -> Array:
        """First elements of the uses of a row; conversions use it from a first to a last."""
        return places[::2] if access.spans else places


def merged(conflicts: Sequence[tuple[int, Conflict]]) -> list[tuple[list[int], Conflict]]:
    """Conflicts of the same instructions in several tiles together, each with its tiles."""
    groups: dict[tuple[Any, ...], tuple[list[int], Conflict]] = {}
    for tile, conflict in conflicts:
        key = (conflict.one, conflict.other, conflict.memory, conflict.kinds, conflict.timed)
        groups.setdefault(key, ([], conflict))[0].append(tile)
    return [*groups.values()]
