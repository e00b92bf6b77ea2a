"""Outputs from the order in which tiles send them to the order of tensors, and back.

Facts: the published driver of the Edge TPU. Slices, where there are any, come before the tables
of coordinates, and are only looked at in outputs of one execution; without slices, outputs of
extent 1 in y and x are packed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import (
    Layer,
    OutputLayer,
    OutputLayout,
    OutputShapeInfo,
    TensorLayout,
    TensorShape,
)

_PLACE_BYTES = 48
"""Most bytes in use for each position while its place is found, in 64 bits each."""

Bytes = bytes | bytearray | memoryview | Array


@dataclass(frozen=True, eq=False, slots=True)
class GridMap:
    """An output whose elements lie together in z, and anywhere in y and x.

    Attributes:
        offsets: byte at which each (y, x) begins, int64[y, x].
        z_bytes: bytes of each (y, x).
        alignment: bytes of an element; divides all offsets.
        size_bytes: size of the buffer in tile order.
        index: number of the item of `_items` for each (y, x), in order.
        item: dtype of the elements of one (y, x), which are moved as one.
    """

    offsets: Array
    z_bytes: int
    alignment: int
    size_bytes: int
    index: Array = field(init=False)
    item: np.dtype[np.void] = field(init=False)

    def __post_init__(self) -> None:
        # Once for all outputs that are unpacked by this map.
        object.__setattr__(self, "index", self.offsets.reshape(-1) // self.alignment)
        object.__setattr__(self, "item", np.dtype(f"V{self.z_bytes}"))

    @property
    def packed_bytes(self) -> int:
        """Size of the output in tensor order."""
        return self.offsets.size * self.z_bytes

    def unpack(self, data: Bytes) -> Array:
        """Bytes in tensor order.

        Args:
            data: bytes in tile order, at least `size_bytes`.

        Returns:
            uint8[packed_bytes].

        Raises:
            FormatError: there are fewer bytes.
        """
        buffer = _sized(data, self.size_bytes)
        if self.offsets.size == 1:
            first = self.offsets.item()
            return buffer[first : first + self.z_bytes].copy()
        return self._items(buffer)[self.index].view(np.uint8)

    def pack(self, data: Bytes) -> Array:
        """Bytes in tile order, zero where there are no elements; inverse of `unpack`.

        Args:
            data: bytes in tensor order, `packed_bytes`.

        Returns:
            uint8[size_bytes].

        Raises:
            FormatError: there are more or fewer bytes.
        """
        buffer = np.zeros(self.size_bytes, np.uint8)
        source = _sized(data, self.packed_bytes, exactly=True)
        self._items(buffer)[self.index] = source.view(self.item)
        return buffer

    def _items(self, buffer: Array) -> np.ndarray[Any, np.dtype[np.void]]:
        """All places where the elements of one (y, x) can begin, one item each."""
        # Items overlap; numpy checks the index, and moves each as one.
        count = (self.size_bytes - self.z_bytes) // self.alignment + 1
        return np.ndarray((count,), self.item, buffer, strides=(self.alignment,))


@dataclass(frozen=True, eq=False, slots=True)
class Slice:
    """A box of a tensor, in a buffer.

    Attributes:
        box: first and one past the last index of each dimension.
        strides: bytes between neighbours, per dimension.
        offset: byte at which the first element begins.
    """

    box: tuple[tuple[int, int], ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True, eq=False, slots=True)
class SliceMap:
    """An output made of slices.

    Attributes:
        shape: elements per dimension.
        itemsize: bytes per element.
        slices: the slices; together they hold as many elements as the output.
        size_bytes: size of the buffer in tile order.
    """

    shape: tuple[int, ...]
    itemsize: int
    slices: tuple[Slice, ...]
    size_bytes: int

    @property
    def packed_bytes(self) -> int:
        """Size of the output in tensor order."""
        return math.prod(self.shape) * self.itemsize

    def unpack(self, data: Bytes) -> Array:
        """Bytes in tensor order; see `GridMap.unpack`."""
        buffer = _sized(data, self.size_bytes)
        tensor = np.zeros((*self.shape, self.itemsize), np.uint8)
        for item in self.slices:
            tensor[_index(item)] = self._view(item, buffer)
        return tensor.reshape(-1)

    def pack(self, data: Bytes) -> Array:
        """Bytes in tile order; see `GridMap.pack`."""
        buffer = np.zeros(self.size_bytes, np.uint8)
        source = _sized(data, self.packed_bytes, exactly=True)
        tensor = source.reshape(*self.shape, self.itemsize)
        for item in self.slices:
            self._view(item, buffer)[...] = tensor[_index(item)]
        return buffer

    def _view(self, item: Slice, buffer: Array) -> Array:
        extent = tuple([end - first for first, end in item.box])
        # The constructor refuses views that are not inside the buffer, which is not trusted to
        # have been checked.
        return np.ndarray(
            (*extent, self.itemsize), np.uint8, buffer, item.offset, (*item.strides, 1)
        )


OutputMap = GridMap | SliceMap
"""Where the elements of one execution of an output lie."""


def _index(item: Slice) -> tuple[slice, ...]:
    return tuple([slice(first, end) for first, end in item.box])


def octets(data: Bytes) -> Array:
    """The bytes of a buffer or an array in C order: uint8[n], a view where that is possible."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    if array.dtype == np.uint8 and array.ndim == 1 and array.flags.c_contiguous:
        return array
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _sized(data: Bytes, size: int, *, exactly: bool = False) -> Array:
    buffer = octets(data)
    if len(buffer) < size or (exactly and len(buffer) > size):
        raise FormatError(f"{len(buffer)} bytes of an output of {size}")
    return buffer[:size]


def output_map(layer: Layer) -> OutputMap:
    """Where the elements of one execution of an output layer lie.

    Raises:
        FormatError: the layer is no output, or elements are not inside its buffer.
        CapacityError: it has more positions than the budget has memory for.
    """
    output = layer.any_layer
    name = f"layer {layer.name!r}"
    if not isinstance(output, OutputLayer):
        raise FormatError("it is no output", table=name)
    if min(layer.extent) < 1:
        raise FormatError(f"an extent of {list(layer.extent)} in y, x and z", table=name)
    if layer.packed_bytes > layer.size_bytes:
        raise FormatError(f"{layer.packed_bytes} bytes in {layer.size_bytes}", table=name)
    itemsize = layer.element.itemsize
    if output.shape_info is not None and layer.execution_count_per_inference == 1:
        return _slice_map(output.shape_info, layer, f"{name}.shape_info")
    if (layer.y_dim, layer.x_dim) == (1, 1):
        offsets = np.zeros((1, 1), np.int64)
    elif output.layout is None:
        raise FormatError("an output of more than one dimension needs a layout", table=name)
    else:
        offsets = _offsets(output.layout, layer, f"{name}.layout")
    first = int(offsets.min()) * itemsize
    end = (int(offsets.max()) + layer.z_dim) * itemsize
    if first < 0 or end > layer.size_bytes:
        raise FormatError(f"elements from byte {first} to {end} of {layer.size_bytes}", table=name)
    return GridMap(offsets * itemsize, layer.z_dim * itemsize, itemsize, layer.size_bytes)


def _offsets(layout: OutputLayout, layer: Layer, table: str) -> Array:
    """Element at which each (y, x) begins: int64[y, x]."""

    def read(name: str, length: int | None) -> Array:
        values = getattr(layout, name)
        found = 0 if values is None else len(values)
        if not found or (length is not None and found != length):
            raise FormatError(
                f"{found} values, expected {'some' if length is None else length}",
                table=f"{table}.{name}",
            )
        return np.asarray(values, np.int64)

    y, x, _ = layer.extent
    budget.demand(_PLACE_BYTES * y * x, f"the places of {y} by {x} elements", where=table)
    tiles = read("linearized_tile_byte_offset", None)
    row, column = (
        read("y_coordinate_to_linear_tile_id_map", y),
        read("x_coordinate_to_linear_tile_id_map", x),
    )
    lowest, highest = int(row.min() + column.min()), int(row.max() + column.max())
    if lowest < 0 or highest >= len(tiles):
        raise FormatError(f"linear tiles {lowest} to {highest} of {len(tiles)}", table=table)
    offsets: Array = tiles[row[:, None] + column]
    offsets += read("y_coordinate_to_local_y_offset", y)[:, None] * read(
        "x_coordinate_to_local_y_row_size", x
    )
    offsets += read("x_coordinate_to_local_byte_offset", x)
    return offsets


def _slice_map(info: OutputShapeInfo, layer: Layer, table: str) -> SliceMap:
    ranges = _ranges(layer.shape, f"{table}: the layer's shape")
    shape = tuple([last - first + 1 for first, last in ranges])
    itemsize = layer.element.itemsize
    if math.prod(shape) * itemsize > layer.size_bytes:
        raise FormatError(f"a shape of {list(shape)} in {layer.size_bytes} bytes", table=table)
    layouts = info.slice_layout or []
    starts = [] if info.slice_offset is None else info.slice_offset.tolist()
    if len(layouts) != len(starts):
        raise FormatError(f"{len(layouts)} slices and {len(starts)} offsets", table=table)
    slices = [
        _slice(layout, start, ranges, layer, f"{table}.slice_layout[{number}]")
        for number, (layout, start) in enumerate(zip(layouts, starts, strict=True))
    ]
    held = sum([math.prod([end - first for first, end in item.box]) for item in slices])
    if held != math.prod(shape):
        raise FormatError(f"slices of {held} elements, expected {math.prod(shape)}", table=table)
    return SliceMap(shape, itemsize, tuple(slices), layer.size_bytes)


def _slice(
    layout: TensorLayout, offset: int, whole: list[tuple[int, int]], layer: Layer, table: str
) -> Slice:
    ranges = _ranges(layout.shape, table)
    itemsize = layer.element.itemsize
    strides = [] if layout.stride is None else [item * itemsize for item in layout.stride.tolist()]
    if not len(ranges) == len(strides) == len(whole):
        raise FormatError(
            f"{len(ranges)} ranges and {len(strides)} strides, expected {len(whole)}", table=table
        )
    box = []
    low = high = offset
    for (first, last), (lowest, highest), stride in zip(ranges, whole, strides, strict=True):
        if not lowest <= first <= last <= highest:
            raise FormatError(
                f"indices {first} to {last}, the output has {lowest} to {highest}", table=table
            )
        box.append((first - lowest, last - lowest + 1))
        low += min(0, stride * (last - first))
        high += max(0, stride * (last - first))
    if low < 0 or high + itemsize > layer.size_bytes:
        raise FormatError(
            f"elements from byte {low} to {high + itemsize} of {layer.size_bytes}", table=table
        )
    return Slice(tuple(box), tuple(strides), offset)


_MOST_DIMENSIONS = 8


def _ranges(shape: TensorShape | None, table: str) -> list[tuple[int, int]]:
    """First and last index of each dimension."""
    if shape is None or shape.dimension is None:
        raise FormatError("no shape", table=table)
    ranges = [(int(first), int(last)) for first, last in shape.dimension.tolist()]
    if not 0 < len(ranges) <= _MOST_DIMENSIONS:
        raise FormatError(f"{len(ranges)} dimensions", table=table)
    for first, last in ranges:
        if last < first:
            raise FormatError(f"indices {first} to {last}", table=table)
    return ranges
