"""Constants as integers with scales, for operators that compute on integers.

Some are dequantized integers in the model, perhaps in another order. Others are real numbers, which
integers represent exactly or with a bounded error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType, is_usable_scale
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import Mover
from fitzroy.compiler.passes.conversions import source_of
from fitzroy.hw_models import numerics

_ORDERS = ("reshape", "strided_slice", "transpose")
"""Operators that only say which elements of a constant are read, and in which order."""


def integers_of(graph: Graph, name: str) -> tuple[Array, Quantization] | None:
    """The integers of a constant, in the order in which it is read, and what they stand for."""
    moves = []
    node = graph.producer(name)
    while node is not None and node.op in _ORDERS:
        moves.append(node)
        node = graph.producer(str(node.inputs[0]))
    if node is None or node.op != "dequantize":
        return None
    value = graph.value(str(node.inputs[0]))
    data, q = value.data, value.type.quantization
    if data is None or q is None:
        return None
    moves.reverse()
    stored = _moved(graph, moves, data)
    if len(q.scale) == 1:
        return stored, Quantization(q.scale, q.zero_point)
    if not moves or q.axis is None:
        return stored, q
    # Which scale each element has follows the elements around.
    shape = [1] * data.ndim
    shape[q.axis] = -1
    index = np.broadcast_to(np.arange(len(q.scale)).reshape(shape), data.shape)
    found = _chosen(q, _moved(graph, moves, index))
    return None if found is None else (stored, found)


def keep_filters(graph: Graph) -> set[str]:
    """Dequantize filters at once for operators that read dequantized activations.

    Args:
        graph: gets the integers, in the order in which the operators read them.

    Returns:
        Names of the nodes that dequantize them.
    """
    kept: set[str] = set()
    for node in graph.nodes():
        axis = _filter_axis(graph, node)
        if axis is None or source_of(graph, node.inputs[0]) is None:
            continue
        name = str(node.inputs[1])
        found = integers_of(graph, name)
        if found is None or found[0].dtype.itemsize > 1 or found[1].axis not in (None, axis):
            continue
        integers = graph.add_constant(f"{name}/stored", *found)
        real = graph.emit("dequantize", [integers], graph.type(name), stem=f"{name}/filter")
        graph.update(replace(node, inputs=(node.inputs[0], real, *node.inputs[2:])))
        producer = graph.producer(real)
        assert producer is not None
        kept.add(producer.name)
    return kept


def _filter_axis(graph: Graph, node: Node) -> int | None:
    """The axis of a filter, or of a matrix, whose channels may have scales of their own."""
    a = node.attributes
    if isinstance(a, BatchMatMulAttributes):
        return graph.type(str(node.inputs[1])).rank - (2 if a.adj_y else 1)
    return OPS[node.op].channel_axis


def _moved(graph: Graph, moves: Sequence[Node], array: Array) -> Array:
    """What nodes make of elements of any type, one after another."""
    for node in moves:
        operator = OPS[node.op]
        assert isinstance(operator, Mover)
        array = operator.move(Call.of(graph, node), array)
    return np.ascontiguousarray(array)


def _chosen(q: Quantization, index: Array) -> Quantization | None:
    """The quantization of elements that have scales by index; None if they follow no dimension."""
    if not index.size:
        return None
    if (index == index.flat[0]).all():
        at = int(index.flat[0])
        return Quantization((q.scale[at],), (q.zero_point[at],))
    for axis, extent in enumerate(index.shape):
        lines = np.moveaxis(index, axis, -1).reshape(-1, extent)
        if (lines == lines[0]).all():
            order = lines[0].tolist()
            scales, zeros = ([values[at] for at in order] for values in (q.scale, q.zero_point))
            return Quantization(tuple(scales), tuple(zeros), axis)
    return None


def reals_of(graph: Graph, name: str) -> Array | None:
    """Real numbers of a constant, or of constant integers that are dequantized."""
    data = graph.value(name).data
    if data is not None:
        return data
    found = integers_of(graph, name)
    if found is None:
        return None
    stored, q = found
    scale, zero = q.scale_array(stored.ndim), q.zero_point_array(stored.ndim)
    return np.asarray((stored.astype(np.float64) - zero) * scale)


def relabelled(data: Array, q: Quantization, dtype: DType) -> tuple[Array, Quantization]:
    """Integers of 8 bits as those of another type that stand for the same numbers."""
    type = TensorType(data.shape, DType.of(data), q)
    after = type.relabelled(dtype).quantization
    assert after is not None
    shift = dtype.limits[0] - type.dtype.limits[0]
    return (data.astype(np.int16) + shift).astype(dtype.numpy), after


def operand_of(graph: Graph, name: str, dtype: DType, tolerance: float) -> str | None:
    """A constant as integers with one scale; None if it is none, or errors would be too large.

    Args:
        graph: gets the constant.
        name: the real numbers.
        dtype: type of the integers, of 8 bits.
        tolerance: the largest error of a number.
    """
    found = integers_of(graph, name)
    if found is None or found[0].dtype.itemsize > 1 or not found[1].is_per_tensor:
        real = reals_of(graph, name)
        found = None if real is None else _rounded(real, tolerance)
    if found is None:
        return None
    return graph.add_constant(f"{name}/stored", *relabelled(*found, dtype))


def _rounded(real: Array, tolerance: float) -> tuple[Array, Quantization] | None:
    """Real numbers as int8 with zero point 0, as exactly as possible; None if errors are larger."""
    largest = float(np.abs(real).max(initial=0))
    if real.dtype.kind != "f" or not np.isfinite(largest):
        return None
    # The scale of a single number is the number.
    steps = 1 if real.size == 1 else np.iinfo(np.int8).max
    if not is_usable_scale(largest / steps):
        return None
    q = Quantization.per_tensor(largest / steps)
    stored = numerics.quantize(real, q, DType.INT8)
    error = np.abs(numerics.dequantize(stored, q) - real).max()
    return (stored, q) if real.size == 1 or error <= tolerance else None
