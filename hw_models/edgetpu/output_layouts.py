"""Tables of output layouts, made from which tile owns which part of an output.

Tiles send their parts in order of their linear ids: id modulo 16 is the tile, and an output that
is computed in several passes goes on with id 16. A part has its rows in order, each with its
columns in order, each with its channels padded to whole words of 32 bits; parts follow each other
without gaps. Passes begin at multiples of 32 bytes, and the last one is padded to 8. Vectors,
1 x 1 x C, lie in blocks of 64 channels on consecutive tiles.

Facts: all output layouts of compiled models are made this way, and all of their transfers begin at
multiples of 32 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import OutputLayout, OutputShapeInfo, TensorLayout, TensorShape
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.memory import TILES

_WORD_BYTES = BEAGLE.memories.narrow.element_bytes
_UNIT_BYTES = BEAGLE.limits.host_output_unit
"""The device sends units of 8 bytes."""

PART_BYTES = 32
"""Parts of an output that the host takes one by one begin at multiples of this."""

_LANES = BEAGLE.compute.lanes
"""Channels that a tile computes at a time: the blocks of vectors."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Which tile owns which element: the one with linear id ``rows[y] + columns[x]``.

    Attributes:
        rows: what each y adds to the id; 4 * row of the grid, plus 16 per pass.
        columns: what each x adds to the id; the column of the grid.
        tiles: number of linear ids. With 1, an output comes whole from the scalar core.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    tiles: int = TILES


def even_parts(extent: int, parts: int) -> tuple[tuple[int, int], ...]:
    """Begin and end of each part of an axis that is split evenly: at ceil(extent * k / parts)."""
    return tuple(pairwise([-(-extent * part // parts) for part in range(parts + 1)]))


def split(extent: int, parts: int) -> tuple[int, ...]:
    """Number of the part that owns each index of an axis that is split evenly."""
    owned = enumerate(even_parts(extent, parts))
    return tuple([part for part, (begin, end) in owned for _ in range(begin, end)])


def default_ownership(y: int, x: int) -> Ownership:
    """The usual ownership of an output of y rows and x columns: both are split evenly."""
    grid = BEAGLE.tiles
    rows = [grid.columns * row for row in split(y, grid.rows)]
    return Ownership(tuple(rows), split(x, grid.columns))


def output_layout(
    extent: tuple[int, int, int], itemsize: int, ownership: Ownership | None = None
) -> tuple[OutputLayout, int]:
    """The layout of an output, and the size of its buffer.

    Args:
        extent: elements in y, x and z.
        itemsize: bytes per element.
        ownership: by default `default_ownership`, with more passes for vectors of more than
            1,024 channels.

    Returns:
        The tables, and the `size_bytes` of the layer.

    Raises:
        FormatError: the ownership does not fit the extent, or gives two parts to one id.
    """
    parts = _Parts.of(extent, itemsize, ownership)
    ids = parts.ownership
    layout = OutputLayout(
        y_coordinate_to_linear_tile_id_map=_table(ids.rows),
        x_coordinate_to_linear_tile_id_map=_table(ids.columns),
        linearized_tile_byte_offset=_table(parts.starts),
        x_coordinate_to_local_byte_offset=_table(parts.local_x * parts.pitch),
        y_coordinate_to_local_y_offset=_table(parts.local_y),
        x_coordinate_to_local_y_row_size=_table(parts.row_sizes),
    )
    return layout, parts.size_bytes


def output_shape_info(
    extent: tuple[int, int, int], itemsize: int, ownership: Ownership | None = None
) -> tuple[OutputShapeInfo, int]:
    """The same as `output_layout` in the form of slices, one per part.

    Slices have the dimensions batch, y, x and z, and strides in elements; offsets are in bytes.

    Raises:
        FormatError: as `output_layout`, or a tile owns rows or columns that are not adjacent.
    """
    parts = _Parts.of(extent, itemsize, ownership)
    starts = parts.starts.tolist()
    layouts, offsets = [], []
    for index, box, strides in parts.boxes():
        layouts.append(
            TensorLayout(
                shape=TensorShape(dimension=np.array([(0, 0), *box], "i4")), stride=_table(strides)
            )
        )
        offsets.append(starts[index] * itemsize)
    info = OutputShapeInfo(slice_layout=layouts, slice_offset=_table(offsets))
    return info, parts.size_bytes


def element_offsets(
    extent: tuple[int, int, int], itemsize: int, ownership: Ownership | None = None
) -> tuple[Array, int]:
    """Where the elements of an output begin: int64[y, x] in elements, and the size of its buffer.

    Raises:
        FormatError: as `output_layout`.
    """
    parts = _Parts.of(extent, itemsize, ownership)
    rows, columns = np.array(parts.ownership.rows), np.array(parts.ownership.columns)
    offsets: Array = parts.starts[rows[:, None] + columns]
    offsets += parts.local_y[:, None] * parts.row_sizes + parts.local_x * parts.pitch
    return offsets, parts.size_bytes


def listed_layout(offsets: Array) -> OutputLayout:
    """The layout of an output whose elements in y, of one x, lie anywhere: each is a part.

    Args:
        offsets: where each y begins, in elements.
    """
    nothing = np.zeros(len(offsets), np.int64)
    return OutputLayout(
        y_coordinate_to_linear_tile_id_map=_table(np.arange(len(offsets))),
        x_coordinate_to_linear_tile_id_map=_table([0]),
        linearized_tile_byte_offset=_table(offsets),
        x_coordinate_to_local_byte_offset=_table([0]),
        y_coordinate_to_local_y_offset=_table(nothing),
        x_coordinate_to_local_y_row_size=_table([0]),
    )


def ownership_of(layout: OutputLayout) -> Ownership:
    """The ownership that a layout describes.

    Raises:
        FormatError: it has no coordinates.
    """
    rows = layout.y_coordinate_to_linear_tile_id_map
    columns = layout.x_coordinate_to_linear_tile_id_map
    tiles = layout.linearized_tile_byte_offset
    if rows is None or columns is None or tiles is None:
        raise FormatError("no coordinates", table="OutputLayout")
    return Ownership(tuple(rows.tolist()), tuple(columns.tolist()), len(tiles))


def _table(values: Sequence[int] | Array) -> Array:
    return np.asarray(values, "i4")


@dataclass(frozen=True)
class _Parts:
    """The parts of an output; sizes and distances are in elements.

    Attributes:
        ownership: whose they are.
        extent: elements in y, x and z.
        pitch: distance of adjacent elements in x.
        local_y: row of each y in its part.
        local_x: column of each x in its part.
        row_sizes: distance of rows in the parts of each x.
        sizes: size of the part of each linear id.
        starts: where it begins.
        size_bytes: size of the buffer.
    """

    ownership: Ownership
    extent: tuple[int, int, int]
    pitch: int
    local_y: Array
    local_x: Array
    row_sizes: Array
    sizes: Array
    starts: Array
    size_bytes: int

    @classmethod
    def of(cls, extent: tuple[int, int, int], itemsize: int, ownership: Ownership | None) -> _Parts:
        y, x, z = extent
        pitch = _up(z * itemsize, _WORD_BYTES) // itemsize
        blocks = -(-z // _LANES)
        vector = (y, x) == (1, 1)
        ids = ownership or default_ownership(y, x)
        if ownership is None and vector:
            ids = Ownership(ids.rows, ids.columns, _up(blocks, TILES))
        _check(ids, extent)
        local_y, heights = _ranks(ids.rows)
        local_x, widths = _ranks(ids.columns)
        sizes = np.zeros(ids.tiles, np.int64)
        if vector and ids.tiles > 1:
            first = ids.rows[0] + ids.columns[0]
            if first + blocks > ids.tiles:
                raise _misfit(
                    f"a vector of {z} channels takes {blocks} blocks of {_LANES} from tile "
                    f"{first} on, of {ids.tiles} tiles"
                )
            sizes[first : first + blocks] = _LANES
            sizes[first + blocks - 1] = pitch - _LANES * (blocks - 1)
            row_sizes = np.array([min(pitch, _LANES)])
        else:
            for row, height in heights.items():
                for column, width in widths.items():
                    if sizes[row + column]:
                        raise _misfit(f"two parts of an output on linear tile {row + column}")
                    sizes[row + column] = height * width * pitch
            row_sizes = np.array([widths[column] * pitch for column in ids.columns])
        starts, size = _starts(sizes, itemsize)
        size_bytes = size * itemsize
        return cls(ids, extent, pitch, local_y, local_x, row_sizes, sizes, starts, size_bytes)

    def boxes(self) -> list[tuple[int, list[tuple[int, int]], tuple[int, int, int, int]]]:
        """Linear id, first and last y, x and z, and strides of each part, in order of ids."""
        y, x, z = self.extent
        ids = self.ownership
        if (y, x) == (1, 1) and ids.tiles > 1:
            first = ids.rows[0] + ids.columns[0]
            return [
                (
                    first + start // _LANES,
                    [(0, 0), (0, 0), (start, min(start + _LANES, z) - 1)],
                    (size := int(self.sizes[first + start // _LANES]), size, size, 1),
                )
                for start in range(0, z, _LANES)
            ]
        boxes = []
        for row, ys in _runs(ids.rows, "rows").items():
            for column, xs in _runs(ids.columns, "columns").items():
                line = (xs[1] - xs[0] + 1) * self.pitch
                strides = (int(self.sizes[row + column]), line, self.pitch, 1)
                boxes.append((row + column, [ys, xs, (0, z - 1)], strides))
        return sorted(boxes)


def _starts(sizes: Array, itemsize: int) -> tuple[Array, int]:
    """Where parts begin, in elements, and where the last pass ends."""
    passes = np.zeros((-(-len(sizes) // TILES), TILES), np.int64)
    passes.reshape(-1)[: len(sizes)] = sizes
    units = np.full(len(passes), _elements(PART_BYTES, itemsize))
    units[-1] = _elements(_UNIT_BYTES, itemsize)
    ends = np.cumsum(-(-passes.sum(axis=1) // units) * units)
    inside = np.cumsum(passes, axis=1) - passes
    starts = inside + np.concatenate([[0], ends[:-1]])[:, None]
    return starts.reshape(-1)[: len(sizes)], int(ends[-1])


def _elements(nbytes: int, itemsize: int) -> int:
    """Elements of the fewest whole units of some bytes."""
    return nbytes // math.gcd(itemsize, nbytes)


def _misfit(what: str) -> FormatError:
    return FormatError(what, table="OutputLayout")


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _check(ids: Ownership, extent: tuple[int, int, int]) -> None:
    if (len(ids.rows), len(ids.columns)) != extent[:2] or extent[2] < 1:
        raise _misfit(
            f"the ownership of {len(ids.rows)} rows and {len(ids.columns)} columns "
            f"for an output of {list(extent)}"
        )
    if not ids.rows or not ids.columns:
        raise _misfit(f"an output of extent {list(extent)}")
    low = min(min(ids.rows), min(ids.columns))
    high = max(ids.rows) + max(ids.columns)
    if low < 0 or high >= ids.tiles:
        raise _misfit(f"linear tile {low if low < 0 else high}, of {ids.tiles}")


def _ranks(owners: Sequence[int]) -> tuple[Array, dict[int, int]]:
    """Number of each index among those of its owner, and how many each owner has."""
    counts: dict[int, int] = {}
    ranks = []
    for owner in owners:
        ranks.append(counts.get(owner, 0))
        counts[owner] = ranks[-1] + 1
    return np.array(ranks, np.int64), counts


def _runs(owners: Sequence[int], what: str) -> dict[int, tuple[int, int]]:
    """First and last index of each owner."""
    runs: dict[int, tuple[int, int]] = {}
    for index, owner in enumerate(owners):
        first, last = runs.get(owner, (index, index - 1))
        if last != index - 1:
            raise _misfit(f"slices of {what} {last} and {index}, which are not adjacent")
        runs[owner] = first, index
    return runs
