"""ONNX operators that choose elements by their places."""

from __future__ import annotations

import math

import numpy as np

from fitzroy.base import budget
from fitzroy.base.types import Array, DType
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.logical import chosen
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import counted, gathered, joined
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor
from fitzroy.compiler.ops.arithmetic import CumsumAttributes
from fitzroy.compiler.ops.indexing import OneHotAttributes, TopKAttributes
from fitzroy.compiler.ops.shape import GatherAttributes


def _places(shape: tuple[int, ...], extents: tuple[int, ...], axis: int) -> Array:
    """Places in a flat tensor of what lies at index 0 of an axis, for every element of a shape."""
    budget.demand(16 * math.prod(shape), "places of gathered elements")
    places = np.zeros(shape, np.int64)
    for other, extent in enumerate(shape):
        if other != axis:
            step = math.prod(extents[other + 1 :])
            line = [1] * len(shape)
            line[other] = extent
            places = places + (np.arange(extent) * step).reshape(line)
    return places


@imports("GatherElements")
def gather_elements(op: Operation) -> Tensor:
    """One element for every index, along an axis.

    Raises:
        Refusal: operand and indices differ in the number of dimensions.
    """
    build, x, indices = op.build, op.input(0), op.input(1)
    axis = op.axis(op.integer("axis"), x.rank)
    if indices.rank != x.rank:
        raise Refusal("onnx-type-rule", f"indices of {indices.rank} dimensions for {x.rank}")
    step = math.prod(x.shape[axis + 1 :])
    found = counted(build, indices, x.shape[axis])
    dtype = indices.dtype.numpy
    places = build.mul(found, build.constant(np.array(step, dtype)))
    places = build.add(places, build.constant(_places(indices.shape, x.shape, axis).astype(dtype)))
    flat = build.value(build.reshape(x, (x.size,)))
    name = build.emit("gather", [flat, build.value(places)], GatherAttributes(0))
    return build.variable(name)


@imports("GatherND")
def gather_nd(op: Operation) -> Tensor:
    """Parts of a tensor, each named by a row of indices.

    Raises:
        Refusal: the operands share batches, or known indices name no part.
    """
    build, x, indices = op.build, op.input(0), op.input(1)
    if op.integer("batch_dims"):
        raise Refusal("onnx-attribute", "GatherND with batches")
    if indices.data is not None:
        return _parts_at(build, x, indices.data)
    extents = np.array(x.shape[: indices.shape[-1]], indices.dtype.numpy)
    found = build.binary("floor_mod", indices, build.constant(extents))
    return build.variable(build.emit("gather_nd", [build.value(x), build.value(found)]))


def _parts_at(build: Builder, x: Tensor, rows: Array) -> Tensor:
    """Parts of a tensor, named by known rows of indices.

    Args:
        build: makes nodes.
        x: the tensor.
        rows: indices along the first dimensions of `x`, [..., dimensions].

    Raises:
        Refusal: an index lies outside.
    """
    rows = _counted_up(x.shape, rows)
    depth = rows.shape[-1]
    shape = (*rows.shape[:-1], *x.shape[depth:])
    lines = _grid(rows)
    if lines is None:
        places = _flat(x.shape[:depth], rows)
        flat = build.reshape(x, (math.prod(x.shape[:depth]), *x.shape[depth:]))
        return build.reshape(gathered(build, flat, places.reshape(-1), 0), shape)
    for axis, line in enumerate(lines):
        x = gathered(build, x, line, axis)
    return build.reshape(x, shape)


def _grid(rows: Array) -> list[Array] | None:
    """The indices along each dimension if rows name a grid, as ``x[ys[:, None], xs]`` does.

    Args:
        rows: indices, [..., dimensions].

    Returns:
        None if a dimension's indices vary along the same axis as those of another one, or along
        one that lies before it: what is named is no product of choices in their order.
    """
    if not rows.size:
        return None
    lines, begin = [], 0
    for dimension in range(rows.shape[-1]):
        column = rows[..., dimension]
        varies = [axis for axis in range(column.ndim) if _varies(column, axis)]
        if varies and varies[0] < begin:
            return None
        end = varies[-1] + 1 if varies else begin
        # Axes that are left to the last dimension repeat what it chooses.
        end = column.ndim if dimension == rows.shape[-1] - 1 else end
        box = tuple(slice(None) if begin <= axis < end else 0 for axis in range(column.ndim))
        lines.append(column[box].reshape(-1))
        begin = end
    return lines


def _varies(column: Array, axis: int) -> bool:
    """Whether indices differ along an axis."""
    return bool((column != column.take([0], axis=axis)).any())


_COMBINED = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}
"""Functions of what a tensor has and what it gets."""


@imports("ScatterND", "ScatterElements", "Scatter")
def scattered(op: Operation) -> Tensor:
    """A tensor of which elements at known places are others.

    Raises:
        Refusal: places are computed at run time, or several updates are combined.
    """
    build, x, updates = op.build, op.input(0), op.input(2)
    indices = op.constant(1, "places of updates")
    if op.name == "ScatterND":
        places = _rows(x.shape, indices)
        wanted = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
    else:
        axis = op.axis(op.integer("axis"), x.rank)
        inside = np.where(indices < 0, indices + x.shape[axis], indices)
        places = _places(indices.shape, x.shape, axis) + inside * math.prod(x.shape[axis + 1 :])
        wanted = indices.shape
    if updates.shape != wanted:
        raise Refusal("onnx-type-rule", f"updates {list(updates.shape)}, not {list(wanted)}")
    if places.size and not 0 <= places.min() <= places.max() < x.size:
        raise Refusal("onnx-type-rule", f"places {places.min()} to {places.max()} of {x.size}")
    reduction = op.text("reduction", "none")
    if reduction != "none":
        if reduction not in _COMBINED or len(np.unique(places)) < places.size:
            raise Refusal("onnx-attribute", f"{op.name} that combines several updates")
        old = gathered(build, build.reshape(x, (x.size,)), places.reshape(-1), 0)
        new = build.reshape(updates, (updates.size,))
        updates = build.binary(_COMBINED[reduction], old, new)
    # Where each element comes from: the tensor, or what follows it; of several, the last counts.
    budget.demand(16 * (x.size + updates.size), "places of updates")
    source = np.arange(x.size)
    source[places.reshape(-1)] = x.size + np.arange(updates.size)
    both = [build.reshape(tensor, (tensor.size,)) for tensor in (x, updates)]
    flat = gathered(build, joined(build, both, 0), source, 0)
    return build.reshape(flat, x.shape)


def _rows(shape: tuple[int, ...], indices: Array) -> Array:
    """Places in a flat tensor of the parts that rows of indices name.

    Raises:
        Refusal: an index lies outside.
    """
    indices = _counted_up(shape, indices)
    depth = indices.shape[-1]
    size = math.prod(shape[depth:])
    budget.demand(8 * indices.size * max(size, 1), "places of updates")
    first = _flat(shape[:depth], indices)
    return np.asarray(first[..., None] * size + np.arange(size))


def _counted_up(shape: tuple[int, ...], rows: Array) -> Array:
    """Rows of known indices, those that count from the end counted from the beginning.

    Raises:
        Refusal: a row has more indices than the shape has dimensions, or an index lies outside.
    """
    depth = rows.shape[-1] if rows.ndim else 0
    if not 0 < depth <= len(shape):
        raise Refusal("onnx-type-rule", f"rows of {depth} indices for {len(shape)} dimensions")
    extents = np.array(shape[:depth])
    if ((rows < -extents) | (rows >= extents)).any():
        raise Refusal("onnx-type-rule", f"an index outside of {list(shape)}")
    return np.where(rows < 0, rows + extents, rows)


def _flat(extents: tuple[int, ...], rows: Array) -> Array:
    """Where rows of indices point to in order of storage."""
    steps = np.array([math.prod(extents[axis + 1 :]) for axis in range(len(extents))])
    found: Array = (rows * steps).sum(axis=-1)
    return found


@imports("OneHot")
def one_hot(op: Operation) -> Tensor:
    """Along a fresh axis, one value at the place that an index names and another elsewhere.

    Raises:
        Refusal: the number of places or the values vary.
    """
    build, indices = op.build, op.input(0)
    depth = int(op.constant(1, "number of places").reshape(-1)[0])
    values = op.constant(2, "values")
    axis = op.axis(op.integer("axis", -1), indices.rank + 1)
    if indices.dtype is DType.FLOAT32:
        indices = build.unary("cast", indices, dtype=DType.INT32)
    budget.demand(8 * max(depth, 0) * indices.size, "places of indices")
    # Negative indices count from the end; those beyond name no place.
    below = build.binary("less", indices, build.constant(np.array(0, indices.dtype.numpy)))
    extent = build.constant(np.array(depth, indices.dtype.numpy))
    found = chosen(build, below, build.add(indices, extent), indices)
    off, on = (build.constant(np.array(value)) for value in values.reshape(-1)[:2])
    names = [build.value(tensor) for tensor in (found, on, off)]
    result = build.emit("one_hot", names, OneHotAttributes(axis, depth), dtype=on.dtype)
    return build.variable(result)


@imports("TopK")
def top_k(op: Operation) -> list[Tensor]:
    """The largest elements along an axis and their places.

    Raises:
        Refusal: the smallest are asked for of integers, or the number varies.
    """
    build, x = op.build, op.build.plain(op.input())
    axis = op.axis(op.integer("axis", -1), x.rank)
    count = op.integer("k") if op.opset < 10 else int(op.constant(1, "number").reshape(-1)[0])
    smallest = not op.integer("largest", 1)
    if smallest and x.dtype is not DType.FLOAT32:
        raise Refusal("onnx-element-type", f"the smallest of {x.dtype.value}")
    x = build.unary("negate", x) if smallest else x
    order = (*(other for other in x.perm if other != axis), axis)
    values, places = build.emit_all("top_k", [build.value(x, order)], TopKAttributes(count), 2)
    found = build.variable(values, order)
    if smallest:
        found = build.unary("negate", found)
    return [found, build.unary("cast", build.variable(places, order), dtype=DType.INT64)]


@imports("CumSum")
def cumulated(op: Operation) -> Tensor:
    """Running sums along an axis."""
    build, x = op.build, op.build.plain(op.input())
    axis = op.axis(int(op.constant(1, "axis").reshape(-1)[0]), x.rank)
    attributes = CumsumAttributes(
        x.perm.index(axis), bool(op.integer("exclusive")), bool(op.integer("reverse"))
    )
    return build.unary("cumsum", x, attributes)


@imports("Trilu")
def triangle(op: Operation) -> Tensor:
    """A triangle of matrices, with zeros elsewhere."""
    build, x = op.build, op.input()
    if x.rank < 2:
        raise Refusal("onnx-rank", f"Trilu of {x.rank} dimensions")
    offset = 0
    if op.optional(1) is not None:
        offset = int(op.constant(1, "diagonal").reshape(-1)[0])
    ones = np.ones(x.shape[-2:], np.bool_)
    kept = np.triu(ones, offset) if op.integer("upper", 1) else np.tril(ones, offset)
    zero = build.constant(np.zeros((), x.dtype.numpy))
    return chosen(build, build.constant(kept), x, zero)
