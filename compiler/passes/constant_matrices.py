"""Constant matrices as filters.

A product with a constant matrix is a layer of fully connected neurons, whose filter the Edge TPU
keeps, and needs no copy of the matrix on its way. Models for open vocabularies have such products
with the embeddings of their words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    SplitAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.passes.base import Pass

Floats = npt.NDArray[np.float32]

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
    data = [graph.value(name).data for name in (left, right)]
    if graph.type(node.outputs[0]).dtype is not DType.FLOAT32 or (data[0] is None) == (
        data[1] is None
    ):
        return None
    if data[1] is not None:
        filters = data[1] if a.adj_y else data[1].swapaxes(-1, -2)
        return _connected(graph, left if not a.adj_x else _swapped(graph, left), filters)
    assert data[0] is not None
    filters = data[0].swapaxes(-1, -2) if a.adj_x else data[0]
    made = _connected(graph, right if a.adj_y else _swapped(graph, right), filters)
    return None if made is None else _swapped(graph, made)


def _connected(graph: Graph, rows: str, filters: Floats) -> str | None:
    """Rows [...,m,k] times filters [...,n,k], as [...,m,n]; None for too many filters."""
    rank, shape = graph.type(rows).rank, graph.type(rows).shape
    *outer, count = (1, *filters.shape[:-2])
    if math.prod(outer) > 1 or filters.ndim > rank or count > _MOST:
        return None
    if count == 1:
        return _layer(graph, rows, filters.reshape(filters.shape[-2:]))
    axis = rank - 3
    if shape[axis] != count:
        return None
    part = graph.type(rows).with_shape((*shape[:axis], 1, *shape[axis + 1 :]))
    names = tuple(graph.fresh(f"{rows}.matrix{number}") for number in range(count))
    split = Node(names[0], "split", (rows,), names, SplitAttributes(axis, (1,) * count))
    graph.add_node(split, [part] * count)
    matrices = filters.reshape(count, *filters.shape[-2:])
    made = [_layer(graph, name, matrix) for name, matrix in zip(names, matrices, strict=True)]
    joint = graph.type(rows).with_shape((*shape[:-1], filters.shape[-2]))
    return graph.emit("concatenation", made, joint, ConcatenationAttributes(axis))


def _layer(graph: Graph, rows: str, filter: Floats) -> str:
    type = graph.type(rows)
    made = type.with_shape((*type.shape[:-1], len(filter)))
    constant = graph.add_constant(f"{rows}.filter", np.ascontiguousarray(filter))
    attributes = FullyConnectedAttributes(keep_num_dims=type.rank > 2)
    return graph.emit("fully_connected", [rows, constant], made, attributes)


def _swapped(graph: Graph, name: str) -> str:
    """Matrices with rows and columns swapped."""
    type = graph.type(name)
    perm = (*range(type.rank - 2), type.rank - 1, type.rank - 2)
    moved = type.with_shape(tuple(type.shape[axis] for axis in perm))
    return graph.emit("transpose", [name], moved, TransposeAttributes(perm))
