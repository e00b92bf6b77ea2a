"""Sparse constants of TFLite models: from stored elements to dense arrays.

A tensor is cut into blocks along some dimensions; the dimensions, and after them those of a block,
are the levels of a tree in a given order. A dense level has every index; a compressed one lists
those that are there, as segments of a list for every node above.

Facts: the published TFLite schema, after *The tensor algebra compiler* (Kjolstad et al., 2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fitzroy.base import budget
from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import Array
from fitzroy.formats.flat import Table, UnknownMember, ints, scalar, tables, union, vector

Indices = npt.NDArray[np.int64]


class DimensionType(IntEnum):
    """How a dimension of a sparse tensor is stored."""

    DENSE = 0
    SPARSE_CSR = 1


@dataclass(eq=False, slots=True, kw_only=True)
class Int32Vector(Table):
    """Indices of a sparse tensor, as int32."""

    values: Array | None = vector("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class Uint16Vector(Table):
    """Indices of a sparse tensor, as uint16."""

    values: Array | None = vector("u2")


@dataclass(eq=False, slots=True, kw_only=True)
class Uint8Vector(Table):
    """Indices of a sparse tensor, as uint8."""

    values: Array | None = vector("u1")


SparseIndices = Int32Vector | Uint16Vector | Uint8Vector


@dataclass(eq=False, slots=True, kw_only=True)
class DimensionMetadata(Table):
    """Storage of one dimension of a sparse tensor."""

    format: int = scalar("i1")
    dense_size: int = scalar("i4")
    array_segments: SparseIndices | UnknownMember | None = union(
        (Int32Vector, Uint16Vector, Uint8Vector), opaque=True
    )
    array_indices: SparseIndices | UnknownMember | None = union(
        (Int32Vector, Uint16Vector, Uint8Vector), opaque=True
    )


@dataclass(eq=False, slots=True, kw_only=True)
class SparsityParameters(Table):
    """Storage of a sparse tensor."""

    traversal_order: Array | None = vector("i4")
    block_map: Array | None = vector("i4")
    dim_metadata: list[DimensionMetadata] | None = tables(DimensionMetadata)


def dense(
    sparsity: SparsityParameters, values: Array, shape: tuple[int, ...], name: str, path: str = ""
) -> Array:
    """The dense array of a sparse tensor; what is not stored is zero.

    Args:
        sparsity: where elements are.
        values: the stored elements, in the order of the tree.
        shape: the tensor's.
        name: its name, for errors.
        path: name of the file, for errors.

    Raises:
        FormatError: order, blocks, segments or indices do not fit the shape or one another.
        CapacityError: the dense array takes more memory than the budget has.
        UnsupportedError: indices of an unknown kind.
    """
    return _Tree(sparsity, shape, name, path).dense(values)


class _Tree:
    def __init__(
        self, sparsity: SparsityParameters, shape: tuple[int, ...], name: str, path: str
    ) -> None:
        self.shape, self.name, self.path = shape, name, path
        self.order, self.blocks = ints(sparsity.traversal_order), ints(sparsity.block_map)
        self.levels = sparsity.dim_metadata or []
        rank, count = len(shape), len(shape) + len(self.blocks)
        if sorted(self.order) != list(range(count)) or len(self.levels) != count:
            raise self.malformed(f"levels {list(self.order)} of {count}")
        if len(set(self.blocks)) != len(self.blocks) or not set(self.blocks) <= set(range(rank)):
            raise self.malformed(f"blocks along {list(self.blocks)} of {rank} dimensions")

    def malformed(self, what: str) -> FormatError:
        return FormatError(f"sparse data: {what}", path=self.path, table=f"Tensor {self.name!r}")

    def extents(self) -> list[int]:
        """Extents of dimensions in blocks, and after them those of a block."""
        inner = []
        for place in range(len(self.blocks)):
            level = self.levels[self.order.index(len(self.shape) + place)]
            if level.format != DimensionType.DENSE or level.dense_size < 1:
                raise self.malformed(f"blocks of {level.dense_size}")
            inner.append(level.dense_size)
        outer = list(self.shape)
        for axis, size in zip(self.blocks, inner, strict=True):
            if outer[axis] % size:
                raise self.malformed(f"an extent of {outer[axis]} in blocks of {size}")
            outer[axis] //= size
        return outer + inner

    def dense(self, values: Array) -> Array:
        extents = self.extents()
        size = math.prod(self.shape)
        # Places of all elements are held beside the array while the tree is walked.
        budget.demand(
            size * values.itemsize + 8 * len(values) * (len(extents) + 2),
            f"sparse tensor {self.name!r}",
            where=self.path,
        )
        places: list[Indices] = [np.zeros(0, np.int64)] * len(extents)
        nodes, walked = 1, list[int]()
        # Every node has an element or the end of a segment, both of which the file holds.
        most = max(len(values), *(len(self.stored(level.array_segments)) for level in self.levels))
        for axis, level in zip(self.order, self.levels, strict=True):
            parents, found = self.children(level, nodes, extents[axis], most)
            for earlier in walked:
                places[earlier] = places[earlier][parents]
            places[axis] = found
            walked.append(axis)
            nodes = len(found)
        if nodes != len(values):
            raise self.malformed(f"{len(values)} elements for {nodes} places")
        return self.filled(values, places, extents)

    def children(
        self, level: DimensionMetadata, nodes: int, extent: int, most: int
    ) -> tuple[Indices, Indices]:
        """The parent and the index of every node of a level."""
        if level.format == DimensionType.DENSE:
            if level.dense_size != extent:
                raise self.malformed(f"{level.dense_size} indices of {extent}")
            if nodes * extent > most:
                raise self.malformed(f"{nodes * extent} places, of which the file lists {most}")
            return np.repeat(np.arange(nodes), extent), np.tile(np.arange(extent), nodes)
        if level.format != DimensionType.SPARSE_CSR:
            raise self.malformed(f"a level of format {level.format}")
        segments, indices = self.stored(level.array_segments), self.stored(level.array_indices)
        counts = np.diff(segments)
        if len(segments) != nodes + 1 or segments[0] or (counts < 0).any():
            raise self.malformed(f"{len(segments)} ends of segments for {nodes} nodes")
        if segments[-1] != len(indices):
            raise self.malformed(f"{len(indices)} indices in segments up to {segments[-1]}")
        if len(indices) and not (indices.min() >= 0 and indices.max() < extent):
            raise self.malformed(f"index {indices.max()} of {extent}")
        return np.repeat(np.arange(nodes), counts), indices

    def stored(self, held: SparseIndices | UnknownMember | None) -> Indices:
        if isinstance(held, UnknownMember):
            raise UnsupportedError(
                "sparse data with indices of an unknown kind", where=f"tensor {self.name!r}"
            )
        values = None if held is None else held.values
        return np.zeros(0, np.int64) if values is None else np.asarray(values, np.int64)

    def filled(self, values: Array, places: list[Indices], extents: list[int]) -> Array:
        result = np.zeros(extents, values.dtype)
        result[tuple(places)] = values
        rank = len(self.shape)
        # Every block lies behind the dimension that it is part of.
        order: list[int] = []
        for axis in range(rank):
            order.append(axis)
            if axis in self.blocks:
                order.append(rank + self.blocks.index(axis))
        return np.ascontiguousarray(result.transpose(order).reshape(self.shape))
