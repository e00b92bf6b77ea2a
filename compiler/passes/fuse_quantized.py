"""Operators on real numbers between conversions become operators on quantized integers.

Models that were quantized elsewhere often say it so: integers are dequantized, an operator computes
on real numbers, and its result is quantized again. The quantized operator computes the same with
one rounding, in fixed point, and may differ by one step.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, TypeRuleError
from fitzroy.compiler.ops.shape import ReshapeAttributes, TransposeAttributes
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.conversions import (
    convert_at_once,
    merge_equal,
    move_integers,
    quantize_early,
    results_of,
    source_of,
)

_CONVERSIONS = ("quantize", "dequantize")
_COMPUTING = frozenset({
    "add", "average_pool_2d", "batch_matmul", "clamp", "hardswish", "leaky_relu", "mean", "mul",
    "prelu", "resize_bilinear", "sub",
})  # fmt: skip
"""Operators that have quantized forms with a scale of their own for the result."""

_FIXED = {
    "sigmoid": (1 / 256, 0.0), "softmax": (1 / 256, 0.0), "tanh": (1 / 128, -1.0),
}  # fmt: skip
"""Operators whose quantized forms prescribe the scale of the result, and its smallest number."""


@dataclass(frozen=True)
class FuseQuantized(Pass):
    """Turn float operators between dequantization and quantization into quantized operators.

    Attributes:
        more: operators to quantize in addition to those that TFLite has kernels for.
    """

    name = "fuse-quantized"
    more: frozenset[str] = frozenset()

    def run(self, graph: Graph) -> Graph:
        """Rewrite such operators; conversions that nothing needs any more go away."""
        merge_equal(graph)
        quantize_early(graph)
        for node in graph.nodes():
            if node.op in _CONVERSIONS:
                continue
            if OPS[node.op].moves:
                move_integers(graph, node)
            else:
                _compute(graph, node, _COMPUTING | self.more)
        convert_at_once(graph)
        graph.prune()
        return graph


@dataclass(frozen=True)
class ComputeReals(Pass):
    """Let quantized operators compute on real numbers, between conversions.

    Attributes:
        nodes: names of the operators.
    """

    name = "compute-reals"
    nodes: frozenset[str] = frozenset()

    def run(self, graph: Graph) -> Graph:
        """Rewrite these operators; their results keep their names."""
        for node in graph.nodes():
            if node.name in self.nodes:
                _compute_reals(graph, node)
        return graph


def _compute_reals(graph: Graph, node: Node) -> None:
    """Put a float operator between conversions in the place of a quantized one."""
    inputs = []
    for name in node.inputs:
        if name is not None and graph.type(name).is_quantized:
            real = TensorType(graph.type(name).shape, DType.FLOAT32)
            name = graph.emit("dequantize", [name], real, stem=f"{name}/real", origin=node.origin)
        inputs.append(name)
    graph.remove(node.name)
    names = tuple(graph.fresh(f"{name}/real") for name in node.outputs)
    types = [TensorType(graph.type(name).shape, DType.FLOAT32) for name in node.outputs]
    graph.add_node(replace(node, inputs=tuple(inputs), outputs=names), types)
    for made, result in zip(names, node.outputs, strict=True):
        stem = graph.fresh(f"{result}/quantize")
        graph.add_node(Node(stem, "quantize", (made,), (result,), origin=node.origin))


# --- operators that compute --------------------------------------------------------------------


def _compute(graph: Graph, node: Node, computing: Collection[str]) -> None:
    """Compute on integers instead of real numbers, where an operator has a quantized form.

    Args:
        graph: the graph.
        node: the operator.
        computing: operators that have quantized forms with a scale of their own for the result.
    """
    afters = results_of(graph, node)
    if len(afters) != 1:
        return
    (after,) = afters
    type = graph.type(after.outputs[0])
    if OPS[node.op].channel_axis is not None:
        inputs = _filtered(graph, node)
    elif node.op in computing or (node.op in _FIXED and _prescribed(node.op, type)):
        inputs = [source_of(graph, name) for name in node.inputs]
        found = next((name for name in inputs if name is not None), None)
        if found is None:
            return
        dtype = graph.type(found).dtype
        inputs = [x or _number(graph, n, dtype) for x, n in zip(inputs, node.inputs, strict=True)]
    else:
        return
    if inputs is None or None in inputs:
        return
    quantized = replace(node, inputs=tuple(inputs), outputs=after.outputs)
    # The type rule says whether there is such an operator at all.
    try:
        OPS[node.op].infer(Call.of(graph, quantized))
    except TypeRuleError:
        return
    graph.remove(after.name)
    graph.remove(node.name)
    graph.add_node(quantized)


def _number(graph: Graph, name: str | None, dtype: DType) -> str | None:
    """A constant of one real number as an integer, exactly; None if it is another, or zero."""
    data = None if name is None else graph.value(name).data
    if data is None or data.dtype != np.float32 or data.size != 1:
        return None
    number = float(data.reshape(()))
    if not (number and np.isfinite(number)):
        return None
    zero = int(number < 0 and dtype is DType.UINT8)
    stored = (np.sign(data) + zero).astype(dtype.numpy)
    return graph.add_constant(f"{name}/stored", stored, Quantization.per_tensor(abs(number), zero))


def _prescribed(op: str, type: TensorType) -> bool:
    """Whether a result has the scale and zero point that the operator prescribes."""
    q, (scale, smallest) = type.quantization, _FIXED[op]
    if q is None or not np.isclose(q.scale[0], scale, rtol=1e-6):
        return False
    return q.zero_point[0] == type.dtype.limits[0] - round(smallest / scale)


def _filtered(graph: Graph, node: Node) -> list[str | None] | None:
    """Operands of an operator with a filter: integers, with the bias at its scale."""
    source = source_of(graph, node.inputs[0])
    kernel = _stored(graph, str(node.inputs[1]))
    axis = OPS[node.op].channel_axis
    if source is None or kernel is None or graph.type(source).quantization is None:
        return None
    data, q = kernel
    symmetric = not any(q.zero_point)
    if q.axis not in (None, axis) or not (symmetric or data.dtype == np.uint8):
        return None
    if data.dtype == np.uint8 and graph.type(source).dtype is not DType.UINT8:
        return None
    before = graph.type(source).quantization
    assert before is not None
    scales = np.float32(before.scale[0]) * np.asarray(q.scale, np.float32)
    inputs: list[str | None] = [source, graph.add_constant(f"{node.name}/filter", data, q)]
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = _real(graph, node.inputs[2])
        if bias is None:
            return None
        limits = np.iinfo(np.int32)
        steps = np.rint(bias.reshape(-1).astype(np.float64) / scales)
        if not (np.abs(steps) <= limits.max).all():
            return None
        several = len(q.scale) > 1
        found = Quantization(tuple(map(float, scales)), (0,) * len(q.scale), 0 if several else None)
        inputs.append(graph.add_constant(f"{node.name}/bias", steps.astype(np.int32), found))
    return inputs


def _stored(graph: Graph, name: str) -> tuple[Array, Quantization] | None:
    """The integers of a constant, in the order in which it is read, and what they stand for."""
    moves = []
    node = graph.producer(name)
    while node is not None and node.op in ("transpose", "reshape"):
        moves.append(node)
        node = graph.producer(str(node.inputs[0]))
    if node is None or node.op != "dequantize":
        return None
    value = graph.value(str(node.inputs[0]))
    data, q = value.data, value.type.quantization
    if data is None or q is None:
        return None
    scale = np.asarray(q.scale, np.float32)
    # Which scale each element has follows the elements around.
    index = np.zeros(data.shape, np.int64)
    if q.axis is not None:
        shape = [1] * data.ndim
        shape[q.axis] = -1
        index = index + np.arange(scale.size).reshape(shape)
    for move in reversed(moves):
        data, index = (_moved(move, array) for array in (data, index))
    axis = _axis_of(index, scale.size)
    if axis is None and scale.size > 1:
        return None
    return np.ascontiguousarray(data), replace(q, axis=axis)


def _moved(node: Node, array: Array) -> Array:
    if isinstance(node.attributes, TransposeAttributes):
        return array.transpose(node.attributes.perm)
    assert isinstance(node.attributes, ReshapeAttributes)
    return array.reshape(node.attributes.shape)


def _axis_of(index: Array, count: int) -> int | None:
    """The dimension along which elements have scales 0, 1, 2…; None if there is none."""
    for axis, extent in enumerate(index.shape):
        shape = [1] * index.ndim
        shape[axis] = -1
        if extent == count > 1 and (index == np.arange(count).reshape(shape)).all():
            return axis
    return None


def _real(graph: Graph, name: str) -> Array | None:
    """Real numbers of a constant, or of constant integers that are dequantized."""
    data = graph.value(name).data
    if data is not None:
        return data
    found = _stored(graph, name)
    if found is None:
        return None
    stored, q = found
    scale, zero = q.scale_array(stored.ndim), q.zero_point_array(stored.ndim)
    return np.asarray((stored.astype(np.float64) - zero) * scale)
