"""Memories of the tiles, those of all tiles in one array."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.unknown import KNOWN, Origins, unknown

TILES = BEAGLE.tiles.count
NARROW_WORDS = BEAGLE.memories.narrow.elements
WIDE_ROWS = BEAGLE.memories.wide.elements
ROW_BYTES = BEAGLE.memories.wide.element_bytes
LANES = BEAGLE.compute.lanes
SCALING_ENTRIES = BEAGLE.memories.scaling.elements


class TileMemory:
    """Contents of the tiles' memories, and which of it is known.

    Marks are those of `fitzroy.hw_models.edgetpu.unknown`.

    A program whose course does not depend on data can compute several images in lockstep: the
    memories of each tile are there once for every image, one after the other, so that their first
    axis counts tiles times images. Marks and functions are those of all images.

    Attributes:
        images: how many images are computed in lockstep.
        narrow: uint32[tiles * images, words].
        narrow_bytes: the same as uint8[tiles * images, bytes].
        narrow_known: marks, int16[tiles, words].
        wide: uint32[tiles * images, rows, lanes].
        wide_bytes: the same as uint8[tiles * images, rows, bytes].
        wide_known: marks, int16[tiles, rows, lanes].
        wide_shared: uint8[tiles, rows], first lanes of a row that are the same for all images.
        wide_constant: bool[tiles, rows], whether a row depends on parameters and instructions only.
        scaling: uint32[tiles * images, entries, 2].
        scaling_known: marks, int16[tiles, entries, 2].
        tables: coefficients of the non-linear unit, float32[tiles, segments, 5].
        breakpoints: float32[tiles, segments - 1].
        table_known: bool[tiles], whether there is a table.
        origins: where unknown values came from.

    Args:
        seed: fill the memories with random numbers, None with zeros.
        images: how many images are computed in lockstep.
    """

    def __init__(self, seed: int | None = None, images: int = 1) -> None:
        rng = None if seed is None else np.random.default_rng(seed)
        self.images = images

        def memory(*shape: int) -> Array:
            if rng is None:
                return np.zeros(shape, np.uint32)
            return rng.integers(0, 1 << 32, shape, np.uint32)

        self.narrow = memory(TILES * images, NARROW_WORDS)
        self.narrow_bytes = self.narrow.view(np.uint8)
        self.narrow_known = np.zeros((TILES, NARROW_WORDS), np.int16)
        self.wide = memory(TILES * images, WIDE_ROWS, LANES)
        self.wide_bytes = self.wide.view(np.uint8)
        self.wide_known = np.zeros((TILES, WIDE_ROWS, LANES), np.int16)
        self.wide_shared = np.full((TILES, WIDE_ROWS), LANES, np.uint8)
        self.wide_constant = np.ones((TILES, WIDE_ROWS), bool)
        self.scaling = memory(TILES * images, SCALING_ENTRIES, 2)
        self.scaling_known = np.zeros((TILES, SCALING_ENTRIES, 2), np.int16)
        segments = BEAGLE.compute.nlu_segments
        self.tables = np.zeros((TILES, segments, 5), np.float32)
        self.breakpoints = np.zeros((TILES, segments - 1), np.float32)
        self.table_known = np.zeros(TILES, bool)
        self.origins = Origins()

    def trust(self) -> None:
        """Take what memories hold for known."""
        for known in (self.narrow_known, self.wide_known, self.scaling_known):
            known[:] = KNOWN

    def held(self, tiles: Tiles) -> Tiles:
        """Index of what tiles hold, for all images."""
        images = self.images
        if images == 1:
            return tiles
        if isinstance(tiles, slice):
            return slice(tiles.start * images, tiles.stop * images)
        return (tiles[:, None] * images + np.arange(images)).reshape(-1)

    def of_first_image(self, tiles: Tiles) -> Tiles:
        """Index of what tiles hold, for the first image."""
        images = self.images
        if images == 1:
            return tiles
        if isinstance(tiles, slice):
            return slice(tiles.start * images, tiles.stop * images, images)
        return tiles * images

    def shares(self, tiles: Tiles, rows: slice | Array, lanes: int) -> bool:
        """Whether the first lanes of rows of wide memory are the same for all images."""
        return self.images == 1 or bool(self.wide_shared[crossing(tiles, rows)].min() >= lanes)

    def wide_rows(self, tile: int, rows: Array) -> Array:
        """Rows of a tile's wide memory, uint32[images, rows, lanes], one image if all are alike."""
        where = slice(tile, tile + 1)
        if self.shares(where, rows, LANES):
            return np.asarray(self.wide[self.of_first_image(where), rows])
        words: Array = self.wide[self.held(where), rows]
        # Lanes that nothing wrote may be alike, too.
        return words[:1] if alike(words, self.images) else words

    def set_wide(self, tiles: Tiles, rows: slice | Array, words: Array) -> None:
        """Write rows of wide memory from their first lane on.

        Args:
            tiles: the tiles.
            rows: addresses of the rows.
            words: uint32[images or 1, rows, lanes]; one image stands for all.
        """
        lanes = words.shape[2]
        if self.images > 1:
            place = crossing(tiles, rows)
            before = self.wide_shared[place]
            self.wide_shared[place] = np.maximum(before, lanes) if len(words) == 1 else 0
        if len(words) > 1:
            # Images take turns within each tile.
            words = np.tile(words, (count_of(tiles), 1, 1))
        self.wide[*crossing(self.held(tiles), rows), :lanes] = words

    def marked(self, memory: str, tiles: Tiles, addresses: Array, marks: Array) -> Array:
        """Marks of words that a unit reads, with origins for those that nothing has written.

        Args:
            memory: key of `PLACES`.
            tiles: the tiles.
            addresses: address of each word.
            marks: int16[tiles, words] or int16[words] of one tile; not changed.

        Returns:
            int16 of the same shape, without 0.
        """
        never = marks == 0
        if not never.any():
            return marks
        index = int(never.argmax())
        tile = number_of(tiles, index // len(addresses))
        address = int(addresses[index % len(addresses)])
        origin = self.origins.number(lambda: f"{PLACES[memory](address)} of tile {tile}")
        return np.where(never, unknown(origin), marks)

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


PLACES: dict[str, Callable[[int], str]] = {
    "narrow": lambda word: f"narrow word {word}",
    "wide": lambda cell: f"lane {cell % LANES} of wide row {cell // LANES}",
    "scaling": lambda word: f"entry {word // 2} of scaling memory",
}
"""Names of words by memory and address; the address of a lane is that of its row times 64, plus
its own."""


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


def alike(words: Array, images: int) -> bool:
    """Whether words are the same for all images; where they are not, the first row mostly tells.

    Args:
        words: uint32[tiles * images, rows, words].
        images: how many images there are.
    """
    each = words.reshape(-1, images, *words.shape[1:])
    return bool((each[:, :, 0] == each[:, :1, 0]).all() and (each == each[:, :1]).all())


def count_of(tiles: Tiles) -> int:
    """How many tiles a selection has."""
    return tiles.stop - tiles.start if isinstance(tiles, slice) else len(tiles)


def number_of(tiles: Tiles, index: int) -> int:
    """Number of the tile at an index of a selection."""
    return tiles.start + index if isinstance(tiles, slice) else int(tiles[index])


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
