"""Memories of the tiles, those of all tiles in one array."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE

TILES = BEAGLE.tiles.count
NARROW_WORDS = BEAGLE.memories.narrow.elements
WIDE_ROWS = BEAGLE.memories.wide.elements
ROW_BYTES = BEAGLE.memories.wide.element_bytes
LANES = BEAGLE.compute.lanes
SCALING_ENTRIES = BEAGLE.memories.scaling.elements


class TileMemory:
    """Contents of the tiles' memories, and which of it has been written.

    Attributes:
        narrow: uint32[tiles, words].
        narrow_bytes: the same as uint8[tiles, bytes].
        narrow_known: bool[tiles, words], written since power-up.
        wide: uint32[tiles, rows, lanes].
        wide_bytes: the same as uint8[tiles, rows, bytes].
        wide_known: bool[tiles, rows, lanes].
        scaling: uint32[tiles, entries, 2].
        scaling_known: bool[tiles, entries, 2].
        tables: coefficients of the non-linear unit, float32[tiles, segments, 5].
        breakpoints: float32[tiles, segments - 1].

    Args:
        seed: fill the memories with random numbers, None with zeros.
    """

    def __init__(self, seed: int | None = None) -> None:
        rng = None if seed is None else np.random.default_rng(seed)

        def memory(*shape: int) -> Array:
            if rng is None:
                return np.zeros(shape, np.uint32)
            return rng.integers(0, 1 << 32, shape, np.uint32)

        self.narrow = memory(TILES, NARROW_WORDS)
        self.narrow_bytes = self.narrow.view(np.uint8)
        self.narrow_known = np.zeros((TILES, NARROW_WORDS), bool)
        self.wide = memory(TILES, WIDE_ROWS, LANES)
        self.wide_bytes = self.wide.view(np.uint8)
        self.wide_known = np.zeros((TILES, WIDE_ROWS, LANES), bool)
        self.scaling = memory(TILES, SCALING_ENTRIES, 2)
        self.scaling_known = np.zeros((TILES, SCALING_ENTRIES, 2), bool)
        segments = BEAGLE.compute.nlu_segments
        self.tables = np.zeros((TILES, segments, 5), np.float32)
        self.breakpoints = np.zeros((TILES, segments - 1), np.float32)
        self.table_known = np.zeros(TILES, bool)

    def __deepcopy__(self, memo: dict[int, Any]) -> TileMemory:
        copy = object.__new__(TileMemory)
        memo[id(self)] = copy
        for name in ("narrow", "wide"):
            array = getattr(self, name).copy()
            memo[id(getattr(self, name))] = array
            # Views of one array stay views of one array.
            memo[id(getattr(self, f"{name}_bytes"))] = array.view(np.uint8)
        for name, value in vars(self).items():
            setattr(copy, name, deepcopy(value, memo))
        return copy


Tiles = slice | Array
"""Numbers of tiles, ascending: as a slice if they follow each other, which saves copies."""


def selection(tiles: Array | list[int]) -> Tiles:
    """Tiles as an index, from their numbers in ascending order."""
    first, last = int(tiles[0]), int(tiles[-1])
    if last - first + 1 == len(tiles):
        return slice(first, last + 1)
    return np.asarray(tiles)


def crossing(tiles: Tiles, places: slice | Array) -> tuple[slice | Array, slice | Array]:
    """Index of the same places in some tiles."""
    if isinstance(tiles, slice) or isinstance(places, slice):
        return tiles, places
    return tiles[:, None], places


def check_range(addresses: Array, count: int, what: str) -> None:
    """Refuse addresses outside a memory.

    Args:
        addresses: at least one.
        count: number of elements of the memory.
        what: name of an element.

    Raises:
        SimulationError: names the first address outside, and the size.
    """
    low, high = int(addresses.min()), int(addresses.max())
    if low < 0 or high >= count:
        raise SimulationError(
            f"{what} {low if low < 0 else high} is used", reason=f"there are {count}"
        )
