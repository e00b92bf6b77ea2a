"""Legalization: rewrites operators into ones that the XNNPACK backend has nodes for.

One rule per operator that needs help; a rule rewrites a node or leaves it alone. What remains
illegal afterwards is for the partitioner, which asks every operator for its reasons.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.arrangement import ReverseAttributes
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes, Unary, reals
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import AveragePool2D, PoolAttributes, mean_filter
from fitzroy.compiler.ops.recurrent import (
    BIASES,
    INPUT_WEIGHTS,
    RECURRENT_WEIGHTS,
    LstmAttributes,
)
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    AxisAttributes,
    DepthToSpace,
    SpaceDepth,
    SpaceToDepth,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.canonicalize import bites
from fitzroy.compiler.targets.xnnpack import spatial, spectral
from fitzroy.compiler.targets.xnnpack.rewriter import Leave, Rewriter, Rule
from fitzroy.compiler.targets.xnnpack.rules import MOST_CONCATENATED, is_activation
from fitzroy.hw_models.numerics import Sampling


@dataclass(frozen=True)
class LegalizeXnnpack(Pass):
    """Rewrite operators into those that XNNPACK has."""

    name = "legalize-xnnpack"

    def run(self, graph: Graph) -> Graph:
        """Apply the rule of each operator once, and once more to what that produced."""
        for _ in range(2):
            for node in graph.nodes():
                rule = RULES.get(node.op)
                if rule is not None:
                    # What a rule emitted before it gave up is dead, and pruned.
                    with contextlib.suppress(Leave):
                        rule(Rewriter(graph, Call.of(graph, node)))
        graph.prune()
        return graph


_PLAIN = ActivationAttributes()


def _attributes(r: Rewriter) -> Any:
    return r.call.node.attributes


def _names(r: Rewriter) -> list[str]:
    return [value.name for value in r.call.inputs if value is not None]


def in_float(r: Rewriter) -> None:
    """Compute on float32 between a dequantization and a quantization."""
    values = [value for value in r.call.inputs if value is not None]
    if not any(value.type.is_quantized for value in values) and not r.out.is_quantized:
        return
    inputs = [r.real(value.name) for value in values]
    node = r.call.node
    r.replace(r.emit(node.op, inputs, r.out.real(), node.attributes))


def in_input_type(r: Rewriter) -> None:
    """Move elements in the input's representation, then convert the result."""
    before = r.call.type()
    if before.dtype is r.out.dtype and before.quantization == r.out.quantization:
        return
    if before.quantization is None or r.out.quantization is None:
        return
    node = r.call.node
    inner = before.with_shape(r.out.shape)
    r.replace(r.emit(node.op, _names(r), inner, node.attributes))


def strided_slice(r: Rewriter) -> None:
    """Slices that go backwards go forwards, and are turned around."""
    a = _attributes(r)
    assert isinstance(a, StridedSliceAttributes)
    axes = tuple(axis for axis, step in enumerate(a.stride) if step < 0)
    if not axes:
        in_input_type(r)
        return
    begin = tuple(
        first + (count - 1) * step if step < 0 else first
        for first, count, step in zip(a.begin, a.size, a.stride, strict=True)
    )
    forwards = StridedSliceAttributes(begin, a.size, tuple(map(abs, a.stride)))
    type = r.call.type().with_shape(r.out.shape)
    part = r.emit("strided_slice", _names(r), type, forwards)
    r.replace(r.emit("reverse", [part], r.out, ReverseAttributes(axes)))


def softmax(r: Rewriter) -> None:
    """Softmax in float32, with the factor of the exponents as a multiplication."""
    beta = _attributes(r).beta
    if not r.call.type().is_quantized and beta == 1:
        return
    x = r.real(_names(r)[0])
    if beta != 1:
        x = r.emit("mul", [x, r.constant(np.array([beta]))], r.type(x), _PLAIN)
    r.replace(r.emit("softmax", [x], r.out.real(), SoftmaxAttributes()))


def average_pool(r: Rewriter) -> None:
    """Over the whole image a mean, without padding a depthwise convolution, else in float32."""
    a = _attributes(r)
    assert isinstance(a, PoolAttributes)
    if AveragePool2D().is_global(r.call) and a.activation is Activation.NONE:
        r.replace(r.emit("mean", _names(r), r.out, ReductionAttributes((1, 2), True)))
    elif a.kernel == (1, 1):
        _without_window(r, a)
    elif r.call.type().is_quantized and r.out.is_quantized and a.padding == (0, 0, 0, 0):
        _mean_of_windows(r, a)
    else:
        in_float(r)


def _mean_of_windows(r: Rewriter, a: PoolAttributes) -> None:
    x = _names(r)[0]
    data, quantization = mean_filter(a.kernel, r.type(x))
    filter = r.graph.add_constant(f"{r.call.node.name}/ones", data, quantization)
    attributes = ConvAttributes(a.stride, (1, 1), (0, 0, 0, 0), a.activation)
    r.replace(r.emit("depthwise_conv_2d", [x, filter, None], r.out, attributes))


def max_pool(r: Rewriter) -> None:
    """Windows of one element are slices; else the result is converted afterwards."""
    a = _attributes(r)
    assert isinstance(a, PoolAttributes)
    if a.kernel == (1, 1):
        _without_window(r, a)
    else:
        in_input_type(r)


def _without_window(r: Rewriter, a: PoolAttributes) -> None:
    padded = isinstance(a.padding, tuple) and any(a.padding)
    if padded or a.activation is not Activation.NONE:
        return
    begin, stride = (0, 0, 0, 0), (1, *a.stride, 1)
    attributes = StridedSliceAttributes(begin, r.out.shape, stride)
    inner = r.call.type().with_shape(r.out.shape)
    r.replace(r.emit("strided_slice", _names(r), inner, attributes))


def mean(r: Rewriter) -> None:
    """Reduce neighbouring axes as height and width of an image."""
    a, type = _attributes(r), r.call.type()
    if type.dtype is not r.out.dtype and type.is_quantized and r.out.is_quantized:
        r.replace(r.emit("mean", [r.to(_names(r)[0], _as(type, r.out))], r.out, a))
        return
    if not is_activation(type) or (type.rank == 4 and a.axes == (1, 2)) or not a.axes:
        return
    if a.axes != tuple(range(a.axes[0], a.axes[-1] + 1)):
        return
    shape = type.shape
    outer, inner = math.prod(shape[: a.axes[0]]), math.prod(shape[a.axes[-1] + 1 :])
    count = math.prod(shape[a.axes[0] : a.axes[-1] + 1])
    x = r.reshape(_names(r)[0], (outer, count, 1, inner))
    reduced = r.out.with_shape((outer, 1, 1, inner))
    y = r.emit("mean", [x], reduced, ReductionAttributes((1, 2), True))
    r.replace(r.reshape(y, r.out.shape))


def _as(type: TensorType, other: TensorType) -> TensorType:
    """A type with the representation of another."""
    return replace(type, dtype=other.dtype, quantization=other.quantization)


def total(r: Rewriter) -> None:
    """A sum as the mean times the count, in float32."""
    a, type = _attributes(r), r.call.type()
    if (type.dtype is not DType.FLOAT32 and not type.is_quantized) or 0 in type.shape:
        return
    if not a.axes or a.axes != tuple(range(a.axes[0], a.axes[-1] + 1)):
        in_float(r)
        return
    count = math.prod(type.shape[axis] for axis in a.axes)
    y = r.emit("mean", [r.real(_names(r)[0])], r.out.real(), a)
    factor = r.constant(np.full((1,)[: r.out.rank], count))
    r.replace(r.emit("mul", [y, factor], r.out.real(), _PLAIN))


def clamp(r: Rewriter) -> None:
    """Convert first, then clamp what the result's type does not clamp by itself."""
    a, before = _attributes(r), r.call.type()
    assert isinstance(a, ClampAttributes)
    if before == r.out or before.quantization is None or r.out.quantization is None:
        return
    x = r.to(_names(r)[0], r.out)
    if bites(r.out, (a.min, a.max)):
        x = r.emit("clamp", [x], r.out, a)
    r.replace(x)


def unary(r: Rewriter) -> None:
    """Compute in the result's element type."""
    before = r.call.type()
    if before.dtype is r.out.dtype or not (before.is_quantized and r.out.is_quantized):
        return
    node = r.call.node
    x = r.to(_names(r)[0], before.relabelled(r.out.dtype))
    r.replace(r.emit(node.op, [x], r.out, node.attributes))


def quantize(r: Rewriter) -> None:
    """Scales too far apart for fixed point go through float32."""
    if not OPS["quantize"].scales_fit(r.call):
        r.replace(r.real(_names(r)[0]))


def leaky_relu(r: Rewriter) -> None:
    """In the result's element type, or in float32 if scales are too far apart."""
    if r.call.type().dtype is r.out.dtype:
        in_range(r)
    else:
        unary(r)


def in_range(r: Rewriter) -> None:
    """In float32 if scales are too far apart for XNNPACK's arithmetic."""
    if not OPS[r.call.node.op].scales_fit(r.call):
        in_float(r)


def concatenation(r: Rewriter) -> None:
    """Inputs in the result's representation, in a tree of nodes that take five each."""
    names = _names(r)
    inputs = [r.to(name, _as(r.type(name), r.out)) for name in names]
    if inputs == names and 2 <= len(names) <= MOST_CONCATENATED:
        return
    r.replace(r.chain("concatenation", inputs, r.out, _attributes(r).axis))


def split(r: Rewriter) -> None:
    """One slice per part."""
    a, type = _attributes(r), r.call.type()
    assert isinstance(a, SplitAttributes)
    begin = 0
    results = []
    for size in a.sizes:
        results.append(_part(r, type, a.axis, begin, size))
        begin += size
    r.replace(*results)


def _part(r: Rewriter, type: TensorType, axis: int, begin: int, size: int) -> str:
    first, extent = [0] * type.rank, list(type.shape)
    first[axis], extent[axis] = begin, size
    shape = tuple(extent)
    attributes = StridedSliceAttributes(tuple(first), shape, (1,) * type.rank)
    return r.emit("strided_slice", _names(r)[:1], type.with_shape(shape), attributes)


def unpack(r: Rewriter) -> None:
    """One slice and reshape per part."""
    a, type = _attributes(r), r.call.type()
    assert isinstance(a, AxisAttributes)
    parts = [_part(r, type, a.axis, i, 1) for i in range(type.shape[a.axis])]
    r.replace(*(r.reshape(p, out.type.shape) for p, out in zip(parts, r.call.outputs, strict=True)))


def pack(r: Rewriter) -> None:
    """Reshapes and a concatenation."""
    a = _attributes(r)
    assert isinstance(a, AxisAttributes)
    shape = (*r.out.shape[: a.axis], 1, *r.out.shape[a.axis + 1 :])
    names = [r.reshape(r.to(n, _as(r.type(n), r.out)), shape) for n in _names(r)]
    r.replace(r.chain("concatenation", names, r.out, a.axis))


def space_depth(operator: SpaceDepth) -> Rule:
    """A reshape, a transpose and a reshape."""

    def rule(r: Rewriter) -> None:
        parts, perm, merged = operator.steps(r.call)
        x = r.reshape(_names(r)[0], parts)
        moved = r.type(x).with_shape(tuple(parts[axis] for axis in perm))
        x = r.emit("transpose", [x], moved, TransposeAttributes(perm))
        r.replace(r.reshape(x, merged))

    return rule


def fully_connected(r: Rewriter) -> None:
    """Input and result as matrices."""
    a, x, out = _attributes(r), r.call.type(0), r.out
    assert isinstance(a, FullyConnectedAttributes)
    if x.rank == 2 and out.rank == 2 and x.shape[1] == r.call.type(1).shape[1]:
        return
    depth = r.call.type(1).shape[1]
    rows = r.reshape(_names(r)[0], (x.size // depth, depth))
    inner = out.with_shape((x.size // depth, r.call.type(1).shape[0]))
    rest = [None if value is None else value.name for value in r.call.inputs[1:]]
    y = r.emit("fully_connected", [rows, *rest], inner, replace(a, keep_num_dims=False))
    r.replace(r.reshape(y, out.shape))


def batch_matmul(r: Rewriter) -> None:
    """Float32 matrices of at least three dimensions, none transposed, equal batches."""
    a = _attributes(r)
    assert isinstance(a, BatchMatMulAttributes)
    ready = not (a.adj_x or a.adj_y) and min(r.call.type(0).rank, r.call.type(1).rank) >= 3
    if ready and not r.call.type(0).is_quantized and not r.call.type(1).is_quantized:
        return
    x, y = (
        _matrix(r, r.real(name), swap)
        for name, swap in zip(_names(r), (a.adj_x, a.adj_y), strict=True)
    )
    shape = r.out.shape if r.out.rank >= 3 else (1, *r.out.shape)
    z = r.emit("batch_matmul", [x, y], r.out.real().with_shape(shape), BatchMatMulAttributes())
    r.replace(r.reshape(z, r.out.shape))


def _matrix(r: Rewriter, name: str, swap: bool) -> str:
    type = r.type(name)
    if swap:
        perm = (*range(type.rank - 2), type.rank - 1, type.rank - 2)
        shape = tuple(type.shape[axis] for axis in perm)
        name = r.emit("transpose", [name], type.with_shape(shape), TransposeAttributes(perm))
    shape = r.type(name).shape
    return name if len(shape) >= 3 else r.reshape(name, (1, *shape))


def resize_nearest(r: Rewriter) -> None:
    """Integer factors as concatenations of an image with itself."""
    a, type = _attributes(r), r.call.type()
    assert isinstance(a, ResizeAttributes)
    n, h, w, c = type.shape
    height, width = a.size
    whole = 0 not in type.shape and height % h == 0 and width % w == 0
    if a.sampling is Sampling.ALIGN_CORNERS or not whole or not is_activation(type):
        in_input_type(r)
        return
    down, across = height // h, width // w
    x = r.reshape(_names(r)[0], (n, h, w, 1, c))
    x = r.chain("concatenation", [x] * across, type.with_shape((n, h, w, across, c)), 3)
    x = r.reshape(x, (n, h, 1, width * c))
    x = r.chain("concatenation", [x] * down, type.with_shape((n, h, down, width * c)), 2)
    r.replace(r.reshape(x, r.out.shape))


def squared_difference(r: Rewriter) -> None:
    """A difference and a square, in float32."""
    a, b = (r.real(name) for name in _names(r))
    difference = r.emit("sub", [a, b], r.out.real(), _PLAIN)
    r.replace(r.emit("square", [difference], r.out.real()))


def l2_normalization(r: Rewriter) -> None:
    """Square, mean, reciprocal root and product, in float32."""
    x = r.real(_names(r)[0])
    real, depth = r.type(x), r.type(x).shape[-1]
    if depth == 0:
        return
    column = real.with_shape((*real.shape[:-1], 1))
    squares = r.emit("square", [x], real)
    axes = ReductionAttributes((real.rank - 1,), True)
    average = r.emit("mean", [squares], column, axes)
    floor = r.constant(np.array([1e-12 / depth]))
    bounded = r.emit("maximum", [average, floor], column)
    factor = r.emit("rsqrt", [bounded], column)
    unit = r.emit("mul", [x, factor], real, _PLAIN)
    shrink = r.constant(np.array([1 / math.sqrt(depth)]))
    r.replace(r.emit("mul", [unit, shrink], real, _PLAIN))


def lstm(r: Rewriter) -> None:
    """The recurrence unrolled, in float32: two products and four gates per step."""
    a, sequence = _attributes(r), r.call.type(0)
    assert isinstance(a, LstmAttributes)
    time, batch = (0, 1) if a.time_major else (1, 0)
    steps, rows = sequence.shape[time], sequence.shape[batch]
    depth, cells = sequence.shape[2], r.call.type(INPUT_WEIGHTS).shape[0]
    weights, recurrent, bias = (
        r.constant(_stacked(r, first, cells))
        for first in (INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES)
    )
    x = r.real(r.call.operand(0).name)
    if not a.time_major:
        order = TransposeAttributes((1, 0, 2))
        x = r.emit("transpose", [x], r.type(x).with_shape((steps, rows, depth)), order)
    matrix = TensorType((rows, cells), DType.FLOAT32)
    sums = TensorType((steps * rows, 4 * cells), DType.FLOAT32)
    layer = FullyConnectedAttributes()
    flat = r.reshape(x, (steps * rows, depth))
    inputs = r.emit("fully_connected", [flat, weights, bias], sums, layer)
    gate_rows = sums.with_shape((rows, 4 * cells))

    def cut(name: str, begin: tuple[int, int], shape: tuple[int, int]) -> str:
        box = StridedSliceAttributes(begin, shape, (1, 1))
        return r.emit("strided_slice", [name], TensorType(shape, DType.FLOAT32), box)

    hidden = cell = ""
    outputs: list[str] = []
    for step in range(steps):
        total = cut(inputs, (step * rows, 0), (rows, 4 * cells))
        if hidden:
            product = r.emit("fully_connected", [hidden, recurrent, None], gate_rows, layer)
            total = r.emit("add", [total, product], gate_rows, _PLAIN)
        parts = [cut(total, (0, gate * cells), (rows, cells)) for gate in range(4)]
        i, f, o = (r.emit("sigmoid", [parts[gate]], matrix) for gate in (0, 1, 3))
        fresh = r.emit("tanh", [parts[2]], matrix)
        state = r.emit("mul", [i, fresh], matrix, _PLAIN)
        if cell:
            kept = r.emit("mul", [f, cell], matrix, _PLAIN)
            state = r.emit("add", [kept, state], matrix, _PLAIN)
        if a.cell_clip > 0:
            state = r.emit("clamp", [state], matrix, ClampAttributes(-a.cell_clip, a.cell_clip))
        cell = state
        squashed = r.emit("tanh", [cell], matrix)
        hidden = r.emit("mul", [o, squashed], matrix, _PLAIN)
        outputs.append(r.reshape(hidden, (1, rows, cells)))
    series = TensorType((steps, rows, cells), DType.FLOAT32)
    y = r.chain("concatenation", outputs, series, 0)
    if not a.time_major:
        swapped = series.with_shape((rows, steps, cells))
        y = r.emit("transpose", [y], swapped, TransposeAttributes((1, 0, 2)))
    r.replace(y)


def _stacked(r: Rewriter, first: int, cells: int) -> Array:
    """Real numbers of four gates' operands, one below the other; absent ones are zeros."""
    parts = []
    for gate in range(4):
        value = r.call.optional(first + gate)
        if value is None:
            parts.append(np.zeros(cells, np.float32))
        elif value.data is None:
            raise Leave
        else:
            parts.append(reals(value.data, value.type))
    return np.concatenate(parts)


_UNARY = [name for name, operator in OPS.items() if isinstance(operator, Unary)]
"""Functions of one number; those with a rule of their own follow."""

RULES: dict[str, Rule] = {
    **dict.fromkeys(_UNARY, unary),
    "add": in_range,
    "average_pool_2d": average_pool,
    "batch_matmul": batch_matmul,
    "batch_to_space": spatial.batch_to_space,
    "cast": spectral.real_part,
    "clamp": clamp,
    "complex_abs": spectral.complex_abs,
    "concatenation": concatenation,
    "depth_to_space": space_depth(DepthToSpace()),
    "fully_connected": fully_connected,
    "imaginary": spectral.imaginary_part,
    "l2_normalization": l2_normalization,
    "l2_pool_2d": spatial.l2_pool,
    "log_softmax": in_float,
    "max_pool_2d": max_pool,
    "mean": mean,
    "mul": in_range,
    "leaky_relu": leaky_relu,
    "pack": pack,
    "pad": in_input_type,
    "quantize": quantize,
    "real": spectral.real_part,
    "reshape": in_input_type,
    "resize_bilinear": in_input_type,
    "resize_nearest_neighbor": resize_nearest,
    "softmax": softmax,
    "space_to_batch": spatial.space_to_batch,
    "space_to_depth": space_depth(SpaceToDepth()),
    "split": split,
    "sub": in_range,
    "squared_difference": squared_difference,
    "strided_slice": strided_slice,
    "sum": total,
    "transpose": in_input_type,
    "unidirectional_sequence_lstm": lstm,
    "unpack": unpack,
}
"""The rule of each operator that has one."""
