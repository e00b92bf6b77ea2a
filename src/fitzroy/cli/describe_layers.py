"""Inputs and outputs of packages and objects as plain dicts: elements, extents, who owns what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import (
    DataType,
    Layer,
    OutputLayer,
    OutputLayout,
    OutputShapeInfo,
)
from fitzroy.formats.flat import ints
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.linker.layouts import Ownership, ownership_of

Document = dict[str, Any]
_DTYPES = {
    DataType.FIXED_POINT8: "uint8",
    DataType.FIXED_POINT16: "uint16",
    DataType.SIGNED_FIXED_POINT8: "int8",
    DataType.SIGNED_FIXED_POINT16: "int16",
    DataType.SIGNED_FIXED_POINT32: "int32",
    DataType.BFLOAT: "bfloat16",
    DataType.HALF: "float16",
    DataType.SINGLE: "float32",
}


def layer(item: Layer, path: str = "") -> Document:
    """An input or output.

    The zero point is that of the elements; packages store it for the unsigned numbers with which
    the chip computes.

    Raises:
        FormatError: its element type does not exist.
    """
    if item.data_type not in set(DataType):
        raise FormatError(
            f"DataType {item.data_type} is unknown", path=path, table=f"Layer {item.name!r}"
        )
    element = item.element
    result: Document = {
        "name": item.name or "",
        "dtype": _DTYPES[element],
        "shape": list(item.extent),
    }
    if item.numerics is not None:
        bias = 1 << 8 * element.itemsize - 1 if element.signed else 0
        result["quantization"] = {
            "scale": [item.numerics.dequantization_factor],
            "zero_point": [item.numerics.zero_point - bias],
            "axis": None,
        }
    output = item.any_layer if isinstance(item.any_layer, OutputLayer) else None
    return {
        **result,
        "size_bytes": item.size_bytes,
        "packed_bytes": item.packed_bytes,
        "executions": item.execution_count_per_inference,
        "cached_on_dram": item.cache_on_dram,
        "ranges": None if item.shape is None else _box(item.shape.dimension),
        "layout": None if output is None else _layout(item, output.layout),
        "slices": None if output is None else _slices(output.shape_info),
    }


def _box(dimension: Array | None) -> list[list[int]]:
    """First and last index of every dimension."""
    return [] if dimension is None else dimension.tolist()


def _layout(item: Layer, layout: OutputLayout | None) -> Document | None:
    """Which tile owns which rows and columns, and how much of the buffer is each tile's.

    Padding is counted with the part in front of it.

    An element is on the tile with the sum of the numbers of its row and its column. Outputs that
    are computed in several passes have 16 more tiles for each.
    """
    if layout is None or layout.linearized_tile_byte_offset is None:
        return None
    try:
        ownership = ownership_of(layout)
    except FormatError:
        # Vectors need no tables: they are packed.
        return None
    offsets = layout.linearized_tile_byte_offset.astype(np.int64) * item.element.itemsize
    owners = sorted(
        (int(offsets[tile]), tile) for tile in _owners(item, ownership) if 0 <= tile < len(offsets)
    )
    sizes = [0] * len(offsets)
    for (begin, tile), (end, _) in pairwise([*owners, (item.size_bytes, -1)]):
        sizes[tile] = end - begin
    return {
        "tiles": ownership.tiles,
        "rows": _runs(ownership.rows),
        "columns": _runs(ownership.columns),
        "tile_bytes": sizes,
    }


_MOST_PARTS = 1 << 16
"""Most parts of one output to look at; real ones have 16 per pass."""


def _owners(item: Layer, ownership: Ownership) -> set[int]:
    """Tiles that own elements; vectors are in blocks of channels on consecutive tiles."""
    rows, columns = set(ownership.rows), set(ownership.columns)
    if len(rows) * len(columns) > _MOST_PARTS:
        raise FormatError(f"more than {_MOST_PARTS} parts", table=f"layout of {item.name!r}")
    tiles = {row + column for row in rows for column in columns}
    if len(tiles) == 1 and item.y_dim == item.x_dim == 1 and ownership.tiles > 1:
        first, blocks = tiles.pop(), -(-item.z_dim // BEAGLE.compute.lanes)
        return set(range(first, first + min(blocks, ownership.tiles)))
    return tiles


def _runs(owners: Sequence[int]) -> list[Document]:
    """First and last index of adjacent ones with the same number."""
    runs: list[Document] = []
    for index, owner in enumerate(owners):
        if runs and runs[-1]["tile"] == owner:
            runs[-1]["last"] = index
        else:
            runs.append({"tile": owner, "first": index, "last": index})
    return runs


def _slices(info: OutputShapeInfo | None) -> list[Document] | None:
    if info is None:
        return None
    return [
        {
            "ranges": [] if item.shape is None else _box(item.shape.dimension),
            "strides": list(ints(item.stride)),
            "offset": offset,
        }
        for item, offset in zip(info.slice_layout or (), ints(info.slice_offset), strict=False)
    ]
