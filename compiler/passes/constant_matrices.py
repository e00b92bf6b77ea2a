"""Constant matrices as filters.

A product with a constant matrix is a layer of fully connected neurons, whose filter the Edge TPU
keeps, and needs no copy of the matrix on its way. Models for open vocabularies have such products
with the embeddings of their words. Matrices of dequantized integers are filters of integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, DType, Quantization
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    SplitAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.conversions import source_of
from fitzroy.compiler.passes.stored_constants import integers_of

_MOST = 16
"""Most matrices of one product that become filters of their own."""


@dataclass(frozen=True)
class ConstantMatrices(Pass):
    """Let products with constant matrices of real numbers be layers of fully connected neurons."""

    name = "constant-matrices"

    def run(self, graph: Graph) -> Graph:
        """The graph with layers in the place of such products."""
        for node in graph.nodes():
            if isinstance(node.attributes, BatchMatMulAttributes):
                found = _layers(graph, node)
                if found is not None:
                    graph.remove(node.name)
                    graph.retarget(found, node.outputs[0])
        graph.prune()
        return graph


def _layers(graph: Graph, node: Node) -> str | None:
    """The product of rows and filters, as the node gives it; None if neither is constant."""
    a = node.attributes
    assert isinstance(a, BatchMatMulAttributes)
    left, right = (str(name) for name in node.inputs)
    if graph.type(node.outputs[0]).dtype is not DType.FLOAT32:
        return None
    first = _Filters.of(graph, left, swapped=a.adj_x)
    second = _Filters.of(graph, right, swapped=not a.adj_y)
    if (first is None) == (second is None):
        return None
    if second is not None:
        return _connected(graph, left if not a.adj_x else _swapped(graph, left), second)
    assert first is not None
    made = _connected(graph, right if a.adj_y else _swapped(graph, right), first)
    return None if made is None else _swapped(graph, made)


@dataclass(frozen=True, slots=True)
class _Filters:
    """Constant matrices as filters.

    Attributes:
        data: the matrices [...,n,k].
        quantization: of each [n,k], if they are dequantized integers.
    """

    data: Array
    quantization: Quantization | None = None

    @classmethod
    def of(cls, graph: Graph, name: str, *, swapped: bool) -> _Filters | None:
        """The filters of an operand; None if it is no constant whose channels have scales."""
        data, q = graph.value(name).data, None
        if data is None:
            found = integers_of(graph, name)
            if found is None or found[0].dtype.itemsize > 1:
                return None
            data, q = found
            if q.axis is not None and q.axis != data.ndim - (1 if swapped else 2):
                return None
            q = replace(q, axis=None if q.axis is None else 0)
        return cls(data.swapaxes(-1, -2) if swapped else data, q)

    @property
    def matrices(self) -> list[_Filters]:
        """Those of each matrix [n,k]."""
        matrices = self.data.reshape(-1, *self.data.shape[-2:])
        return [_Filters(matrix, self.quantization) for matrix in matrices]


def _connected(graph: Graph, rows: str, filters: _Filters) -> str | None:
    """Rows [...,m,k] times filters [...,n,k], as [...,m,n]; None for too many filters."""
    rank, shape = graph.type(rows).rank, graph.type(rows).shape
    *outer, count = (1, *filters.data.shape[:-2])
    if math.prod(outer) > 1 or filters.data.ndim > rank or count > _MOST:
        return None
    if count == 1:
        return _layer(graph, rows, filters.matrices[0])
    axis = rank - 3
    if shape[axis] != count:
        return None
    # Integers are taken apart as such, so that layers can read them.
    source = None if filters.quantization is None else source_of(graph, rows)
    whole = graph.type(source or rows)
    part = whole.with_shape((*shape[:axis], 1, *shape[axis + 1 :]))
    names = tuple(graph.fresh(f"{rows}.matrix{number}") for number in range(count))
    split = Node(names[0], "split", (source or rows,), names, SplitAttributes(axis, (1,) * count))
    graph.add_node(split, [part] * count)
    made = []
    for name, matrix in zip(names, filters.matrices, strict=True):
        if source is not None:
            name = graph.emit("dequantize", [name], graph.type(rows).with_shape(part.shape))
        made.append(_layer(graph, name, matrix))
    joint = graph.type(rows).with_shape((*shape[:-1], filters.data.shape[-2]))
    return graph.emit("concatenation", made, joint, ConcatenationAttributes(axis))


def _layer(graph: Graph, rows: str, filter: _Filters) -> str:
    type = graph.type(rows)
    made = type.with_shape((*type.shape[:-1], len(filter.data)))
    data = np.ascontiguousarray(filter.data)
    constant = graph.add_constant(f"{rows}.filter", data, filter.quantization)
    if filter.quantization is not None:
        constant = graph.emit("dequantize", [constant], type.with_shape(data.shape))
    attributes = FullyConnectedAttributes(keep_num_dims=type.rank > 2)
    return graph.emit("fully_connected", [rows, constant], made, attributes)


def _swapped(graph: Graph, name: str) -> str:
    """Matrices with rows and columns swapped."""
    type = graph.type(name)
    perm = (*range(type.rank - 2), type.rank - 1, type.rank - 2)
    moved = type.with_shape(tuple(type.shape[axis] for axis in perm))
    return graph.emit("transpose", [name], moved, TransposeAttributes(perm))
