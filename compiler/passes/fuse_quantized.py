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
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, TypeRuleError
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.conversions import (
    convert_at_once,
    drop_returns,
    merge_equal,
    move_integers,
    quantize_early,
    quantized,
    results_of,
    source_of,
)
from fitzroy.compiler.passes.stored_constants import integers_of, operand_of, reals_of, relabelled

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

_CONVERTED = ("softmax",)
"""Those of them that no target computes with another scale, so that it is converted."""

_ADDING = ("add", "sub", "maximum", "minimum")
"""Operators whose results change by as much as an operand, or less."""


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
        drop_returns(graph)
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


@dataclass(frozen=True)
class Form:
    """An operator on integers.

    Attributes:
        inputs: its operands.
        result: type of its result, which may have to be converted afterwards.
    """

    inputs: tuple[str | None, ...]
    result: TensorType


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
        form = filtered(graph, node, type)
    elif node.op in computing:
        form = _plain(graph, node, type)
    else:
        prescribed = _prescribed(node.op, type)
        form = None if prescribed is None else _plain(graph, node, prescribed)
    if form is not None:
        _replace(graph, node, after, form)


def _replace(graph: Graph, node: Node, after: Node, form: Form) -> None:
    """Put the operator on integers in the place of one on real numbers, if there is one."""
    (output,) = after.outputs
    converted = form.result != graph.type(output)
    if converted:
        output = graph.add_value(Value(graph.fresh(f"{node.name}/stored"), form.result))
    made = replace(node, inputs=form.inputs, outputs=(output,))
    # The type rule says whether there is such an operator at all.
    try:
        OPS[node.op].infer(Call.of(graph, made))
    except TypeRuleError:
        return
    graph.remove(node.name)
    if converted:
        graph.update(replace(after, inputs=(output,)))
    else:
        graph.remove(after.name)
    graph.add_node(made)


def _plain(graph: Graph, node: Node, type: TensorType) -> Form | None:
    """The form of an operator whose operands are all alike; constants become integers."""
    inputs = [source_of(graph, name) for name in node.inputs]
    computed = [graph.type(name) for name in inputs if name is not None]
    if not computed:
        return None
    dtype, tolerance = computed[0].dtype, _tolerance(node.op, computed[0], type)
    if any(other.dtype is not dtype for other in computed):
        return None
    for index, name in enumerate(node.inputs):
        if inputs[index] is None and name is not None:
            inputs[index] = operand_of(graph, name, dtype, tolerance)
    return None if None in inputs else Form(tuple(inputs), type.relabelled(dtype))


def _tolerance(op: str, operand: TensorType, result: TensorType) -> float:
    """The error of a constant that changes the result by one step at most.

    Args:
        op: the operator.
        operand: type of the other operand.
        result: type of the result.
    """
    before, after = operand.quantization, result.quantization
    assert before is not None
    assert after is not None
    step = after.scale[0]
    if op in _ADDING:
        return step
    low, high = (before.scale[0] * (end - before.zero_point[0]) for end in operand.dtype.limits)
    # Slopes multiply negative numbers only.
    reach = {"mul": max(-low, high), "prelu": -low}.get(op, 0.0)
    return step / reach if reach > 0 else 0.0


def _prescribed(op: str, type: TensorType) -> TensorType | None:
    """The type that an operator prescribes for a result of about another type; None if it has none.

    The result is converted if its scale is larger, and may then differ by one step.
    """
    q = type.quantization
    if op not in _FIXED or q is None:
        return None
    scale, smallest = _FIXED[op]
    zero = type.dtype.limits[0] - round(smallest / scale)
    if np.isclose(q.scale[0], scale, rtol=1e-6) and q.zero_point[0] == zero:
        return type
    if op not in _CONVERTED or q.scale[0] < scale:
        return None
    return replace(type, quantization=Quantization.per_tensor(scale, zero))


# --- operators with filters --------------------------------------------------------------------


def filtered(graph: Graph, node: Node, type: TensorType) -> Form | None:
    """The form of an operator with a filter: integers, with the bias at its scale.

    Args:
        graph: gets the constants.
        node: the operator on real numbers.
        type: of its result.

    Returns:
        None if its operands are no integers.
    """
    source = source_of(graph, node.inputs[0])
    found = integers_of(graph, str(node.inputs[1]))
    if source is None or found is None or found[0].dtype.itemsize > 1:
        return None
    before = graph.type(source)
    data, q = _kernel(*found, before.dtype)
    if q.axis not in (None, OPS[node.op].channel_axis):
        return None
    if data.dtype == np.uint8 and before.dtype is not DType.UINT8:
        # Hosts have no kernels for uint8 filters with a scale per channel.
        if not q.is_per_tensor:
            return None
        before = before.relabelled(DType.UINT8)
        source = quantized(graph, source, before)
    inputs: list[str | None] = [source, graph.add_constant(f"{node.name}/filter", data, q)]
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = _bias(graph, node, before, q)
        if bias is None:
            return None
        inputs.append(bias)
    return Form(tuple(inputs), type.relabelled(before.dtype))


def _kernel(data: Array, q: Quantization, dtype: DType) -> tuple[Array, Quantization]:
    """A filter as int8 without zero points, or else as uint8, which activations then are, too.

    Args:
        data: the filter, of 8 bits.
        q: what it stands for.
        dtype: type of the activations.
    """
    signed = relabelled(data, q, DType.INT8)
    centred = not any(signed[1].zero_point)
    if centred and (dtype is DType.INT8 or data.dtype == np.int8):
        return signed
    return relabelled(data, q, DType.UINT8)


def _bias(graph: Graph, node: Node, operand: TensorType, q: Quantization) -> str | None:
    """The bias as integers of 32 bits, at the scale of products; None if they do not hold it.

    Args:
        graph: gets the constant.
        node: the operator on real numbers.
        operand: type of the first operand.
        q: quantization of the filter.
    """
    before, real = operand.quantization, reals_of(graph, str(node.inputs[2]))
    if before is None or real is None:
        return None
    scales = np.float32(before.scale[0]) * np.asarray(q.scale, np.float32)
    steps = np.rint(real.reshape(-1).astype(np.float64) / scales)
    if not (np.abs(steps) <= np.iinfo(np.int32).max).all():
        return None
    several = len(q.scale) > 1
    found = Quantization(tuple(map(float, scales)), (0,) * len(q.scale), 0 if several else None)
    return graph.add_constant(f"{node.name}/bias", steps.astype(np.int32), found)
