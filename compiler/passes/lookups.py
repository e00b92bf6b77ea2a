"""Products of one-hot vectors and constant tables, which look up rows of the tables.

Frameworks without integer inputs spell an embedding so: a vector for each index, in which only the
place of the index is 1, times the table. An index that names no place gives a vector of zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.indexing import OneHotAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.shape import GatherAttributes, ReshapeAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.reference import evaluate

_INDICES = (DType.INT32, DType.INT64)
"""Elements that may be indices of a gather."""


@dataclass(frozen=True)
class Lookups(Pass):
    """Let products of one-hot vectors and tables, and functions of their rows, be lookups."""

    name = "lookups"

    def run(self, graph: Graph) -> Graph:
        """The graph with gathers in the place of such products."""
        for node in graph.nodes():
            found = _product(graph, node)
            if found is not None:
                _put(graph, node, _looked_up(graph, node, *found))
        for node in graph.nodes():
            table = _function_of_rows(graph, node)
            if table is not None:
                _put(graph, node, table)
        graph.prune()
        return graph


def looks_up(graph: Graph) -> bool:
    """Whether a graph has products that `Lookups` rewrites."""
    return any(_product(graph, node) is not None for node in graph.nodes())


def _put(graph: Graph, node: Node, made: str) -> None:
    """Let a value take the place of a node's result."""
    graph.remove(node.name)
    graph.retarget(made, node.outputs[0])


# --- one-hot vectors -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OneHots:
    """One-hot vectors.

    Attributes:
        indices: their indices, in order.
        first: the index of the first place.
        depth: number of places.
    """

    indices: str
    first: int
    depth: int


def _one_hots(graph: Graph, name: str) -> _OneHots | None:
    """What a value [...,depth] is made of, if that is one-hot vectors of zeros and ones."""
    node, depth = graph.producer(name), graph.type(name).shape[-1]
    while node is not None and node.op == "reshape":
        name = str(node.inputs[0])
        if graph.type(name).shape[-1:] != (depth,):
            return None
        node = graph.producer(name)
    if node is None or graph.type(name).dtype is not DType.FLOAT32:
        return None
    a = node.attributes
    if isinstance(a, OneHotAttributes):
        indices, on, off = map(str, node.inputs)
        if a.axis != graph.type(indices).rank or not _is(graph, on, 1) or not _is(graph, off, 0):
            return None
        return _OneHots(indices, 0, depth)
    compared = graph.producer(str(node.inputs[0])) if node.op == "cast" else None
    return None if compared is None else _equal(graph, compared)


def _is(graph: Graph, name: str, number: int) -> bool:
    data = graph.value(name).data
    return data is not None and bool((data == number).all())


def _equal(graph: Graph, node: Node) -> _OneHots | None:
    """Indices compared with each of some consecutive numbers."""
    if node.op != "equal":
        return None
    shape = graph.type(node.outputs[0]).shape
    for indices, places in (node.inputs, node.inputs[::-1]):
        data, type = graph.value(str(places)).data, graph.type(str(indices))
        if data is None or data.size < 2 or not type.dtype.is_integer or type.is_quantized:
            continue
        first = int(data.reshape(-1)[0])
        if type.shape[-1:] not in ((), (1,)) or type.size * data.size != math.prod(shape):
            continue
        consecutive = bool((data.reshape(-1) == first + np.arange(data.size)).all())
        if consecutive and shape[-1] == data.shape[-1] == data.size:
            return _OneHots(str(indices), first, data.size)
    return None


# --- products ------------------------------------------------------------------------------------


def _product(graph: Graph, node: Node) -> tuple[_OneHots, Array] | None:
    """The one-hot vectors that a node multiplies, and what each place gives; None otherwise.

    Rows of the table are the result for indices from one before the first place to one after the
    last one. They are exact: all other products are 0.
    """
    a = node.attributes
    if not isinstance(a, FullyConnectedAttributes | BatchMatMulAttributes):
        return None
    vectors, filters, *more = map(str, filter(None, node.inputs))
    data = graph.value(filters).data
    if data is None or graph.type(node.outputs[0]).dtype is not DType.FLOAT32:
        return None
    if data.dtype != np.float32 or not graph.type(vectors).rank:
        return None
    swapped, bias, low, high = False, np.zeros(1, np.float32), -np.inf, np.inf
    if isinstance(a, BatchMatMulAttributes):
        data = data.reshape(data.shape[-2:]) if data.size == math.prod(data.shape[-2:]) else data
        swapped = not a.adj_y
        if a.adj_x or data.ndim != 2 or graph.type(filters).rank > graph.type(vectors).rank:
            return None
    elif isinstance(a.activation, Activation):
        low, high = a.activation.bounds
        for found in (graph.value(name).data for name in more):
            if found is None:
                return None
            bias = found.reshape(-1)
    else:
        return None
    table = data if swapped else data.T
    hots = _one_hots(graph, vectors)
    if hots is None or hots.depth != len(table) or not np.isfinite(table).all():
        return None
    zeros = np.zeros((1, table.shape[1]), np.float32)
    return hots, np.clip(np.concatenate([zeros, table, zeros]) + bias, low, high)


def _looked_up(graph: Graph, node: Node, hots: _OneHots, table: Array) -> str:
    """The result of a product as a gather."""
    type = graph.type(node.outputs[0])
    indices = hots.indices
    stem = f"{node.outputs[0]}.index"
    if graph.type(indices).dtype not in _INDICES:
        wide = replace(graph.type(indices), dtype=DType.INT32)
        indices = graph.emit("cast", [indices], wide, stem=stem)
    integers = graph.type(indices)
    # What names no place is next to the first or the last one, whose rows are those of zeros.
    for op, number in (
        ("maximum", hots.first - 1),
        ("minimum", hots.first + hots.depth),
        ("sub", hots.first - 1),
    ):
        if op != "sub" or number:
            constant = graph.add_constant(stem, np.array(number, integers.dtype.numpy))
            a = ActivationAttributes() if op == "sub" else NO_ATTRIBUTES
            indices = graph.emit(op, [indices, constant], integers, a, stem=stem)
    shape = type.shape[:-1]
    if graph.type(indices).shape != shape:
        made, place = integers.with_shape(shape), ReshapeAttributes(shape)
        indices = graph.emit("reshape", [indices], made, place, stem=stem)
    rows = graph.add_constant(f"{node.outputs[0]}.table", table.astype(np.float32))
    return graph.emit("gather", [rows, indices], type, GatherAttributes(0), stem=node.outputs[0])


# --- functions of rows ---------------------------------------------------------------------------


def _function_of_rows(graph: Graph, node: Node) -> str | None:
    """A function of the elements of looked-up rows as a lookup of what it gives for all rows.

    None if it is none, or if there are more rows than are looked up.
    """
    type = graph.type(node.outputs[0])
    if not OPS[node.op].elementwise or type.dtype is not DType.FLOAT32 or not type.rank:
        return None
    indices, tables = dict[str, None](), dict[str, Array]()
    function = Graph("rows")
    operands = []
    for name in map(str, node.inputs):
        data, source = graph.value(name).data, graph.producer(name)
        if data is not None and data.size == math.prod(data.shape[-1:]) and data.ndim <= type.rank:
            operands.append(function.add_constant(name, data.reshape(data.shape[-1:])))
            continue
        table = None if source is None else _table(graph, source)
        if source is None or table is None or graph.type(name).shape != type.shape:
            return None
        indices[str(source.inputs[1])] = None
        if name not in tables:
            function.add_input(name, TensorType(table.shape, DType.FLOAT32))
        tables[name] = table
        operands.append(name)
    rows = {len(table) for table in tables.values()}
    if len(indices) != 1 or len(rows) != 1 or min(rows) > math.prod(type.shape[:-1]):
        return None
    made = TensorType((*rows, *type.shape[-1:]), DType.FLOAT32)
    function.outputs = [function.emit(node.op, operands, made, node.attributes)]
    (found,) = evaluate(function, tables).values()
    names = [graph.add_constant(f"{node.outputs[0]}.table", found), *indices]
    return graph.emit("gather", names, type, GatherAttributes(0), stem=node.outputs[0])


def _table(graph: Graph, node: Node) -> Array | None:
    """The constant rows [rows,width] that a node looks up; None if it looks up none."""
    if node.attributes != GatherAttributes(0):
        return None
    data = graph.value(str(node.inputs[0])).data
    return data if data is not None and data.ndim == 2 and data.dtype == np.float32 else None
