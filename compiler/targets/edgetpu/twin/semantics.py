"""What operators give in the arithmetic of the chip, to the byte.

The reference semantics of operators are those of XNNPACK, which differs in how sums are scaled:
it divides by the scale of a result, where the chip multiplies by the reciprocal, and sums of two
tensors are in its own fixed point. Here every operator that is a sum of products is one: exact
integers, one float32 factor from `output_stage`, a clamp, rounding to even. What only moves values,
and functions of one value, whose tables are fitted to the reference, are the same in both.

Programs of Google's compiler compute some operators in another way, see `published`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.recurrent import (
    BIASES,
    CELL_STATE,
    INPUT,
    INPUT_WEIGHTS,
    RECURRENT_WEIGHTS,
    LstmAttributes,
)
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import AxisAttributes, ConcatenationAttributes
from fitzroy.compiler.ops.windows import explicit_padding
from fitzroy.compiler.targets.edgetpu.lowerings import normalization, pixel_softmax, reductions
from fitzroy.compiler.targets.edgetpu.lowerings.gates import tanh_table
from fitzroy.compiler.targets.edgetpu.lowerings.squared_difference import difference_type
from fitzroy.compiler.targets.edgetpu.lowerings.tables import with_functions_of_sums
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    LARGEST,
    SIGNED_OFFSET,
    OutputStage,
    copy_stage,
    mean_stage,
    output_stage,
    product_stage,
    sum_weights,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import keeps_bytes
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.isa.tensor import NluTable
from fitzroy.hw_models.numerics import Arithmetic, Sampling, horner
from fitzroy.hw_models.parameters import effective_scale

Integers = npt.NDArray[np.int64]

_ANY = (-math.inf, math.inf)
"""Bounds that let every number pass."""

Operands = Sequence[Any]
"""Stored elements of every operand; None where an optional one is absent."""
Operator = Callable[[Call, Operands], list[Array]]
"""What a call gives."""


def evaluate_on_device(
    graph: Graph, inputs: Mapping[str, Array], *, keep: bool = False
) -> dict[str, Array]:
    """Run a graph in the arithmetic of the chip, as programs of this compiler do.

    Args:
        graph: a verified graph, quantized to 8 bits.
        inputs: one array per graph input.
        keep: give every value, not only the outputs.
    """
    return evaluated(graph, inputs, OPERATORS, keep)


def evaluated(
    graph: Graph, inputs: Mapping[str, Array], operators: Mapping[str, Operator], keep: bool
) -> dict[str, Array]:
    """Run a graph by what operators give.

    Args:
        graph: a verified graph, quantized to 8 bits.
        inputs: one array per graph input.
        operators: operators whose results are not those of their declarations.
        keep: give every value, not only the outputs.
    """
    graph, values = with_functions_of_sums(graph), dict[str, Array](inputs)
    for node in graph.nodes():
        call = Call.of(graph, node)
        arrays = [
            None if value is None else values[value.name] if value.data is None else value.data
            for value in call.inputs
        ]
        values.update(zip(node.outputs, results(call, arrays, operators), strict=True))
    for name in graph.outputs:
        data = graph.value(name).data
        if data is not None:
            values[name] = data
    return values if keep else {name: values[name] for name in graph.outputs}


def results(
    call: Call, arrays: Operands, operators: Mapping[str, Operator] | None = None
) -> list[Array]:
    """What an operator gives on the chip.

    Args:
        call: an operator.
        arrays: stored elements of its operands; None where one is absent.
        operators: operators whose results are not those of their declarations; by default those of
            programs of this compiler.
    """
    operators = OPERATORS if operators is None else operators
    values = [value for value in (*call.inputs, *call.outputs) if value is not None]
    # Real numbers are what lies between integers, in functions that the chip looks up.
    if not any(value.type.dtype is DType.FLOAT32 for value in values):
        if call.node.op in operators:
            return operators[call.node.op](call, arrays)
        if OPS[call.node.op].moves:
            return _moved(call, arrays)
    return list(OPS[call.node.op].evaluate(call, arrays, Arithmetic.EDGETPU))


def stored_unsigned(x: Array, type: TensorType) -> Integers:
    """Elements as the chip holds them."""
    return x.astype(np.int64) + (SIGNED_OFFSET if type.dtype is DType.INT8 else 0)


def finished(sums: Integers, stage: OutputStage, type: TensorType) -> Array:
    """What the output stage makes of exact sums, zero points and constant included."""
    real = sums.astype(np.float32) * np.float32(stage.scale)
    real = np.clip(real, np.float32(stage.minimum), np.float32(stage.maximum))
    found = np.clip(rounded(real).astype(np.int64) + stage.output_zero_point, 0, LARGEST)
    found -= SIGNED_OFFSET if type.dtype is DType.INT8 else 0
    return np.asarray(found.astype(type.dtype.numpy))


def clamp_bounds(call: Call) -> tuple[float, float]:
    """The smallest and the largest real number that a copy lets pass."""
    attributes = call.node.attributes
    if isinstance(attributes, ClampAttributes):
        return attributes.min, attributes.max
    return _ANY


def converted(
    x: Array,
    before: TensorType,
    after: TensorType,
    bounds: tuple[float, float] = _ANY,
) -> Array:
    """A copy from one quantization to another, which may clamp."""
    if before.dtype is after.dtype and keeps_bytes(before, after) and bounds == _ANY:
        return x
    stage = copy_stage(before, after, bounds)
    sums = stored_unsigned(x, before) - stage.a_zero_point
    if keeps_bytes(before, after):
        # There is nothing to scale.
        scaled = OutputStage(1.0, stage.minimum, stage.maximum, stage.output_zero_point)
        return finished(sums, scaled, after)
    return finished(sums, stage, after)


# --- operators -----------------------------------------------------------------------------------


def _moved(call: Call, arrays: Operands) -> list[Array]:
    """Elements of operands somewhere else, in the quantization of the results."""
    operator, after = OPS[call.node.op], [value.type for value in call.outputs]
    if call.node.op in ("concatenation", "pack"):
        parts = [
            converted(x, call.type(index), after[0])
            for index, x in enumerate(arrays)
            if x is not None
        ]
        if call.node.op == "pack":
            return [np.stack(parts, call.attributes(AxisAttributes).axis)]
        return [np.concatenate(parts, call.attributes(ConcatenationAttributes).axis)]
    before = call.type()
    plain = replace(
        call,
        outputs=tuple(
            replace(value, type=replace(before, shape=value.type.shape)) for value in call.outputs
        ),
    )
    results = operator.evaluate(plain, arrays, Arithmetic.EDGETPU)
    return [converted(x, before, type) for x, type in zip(results, after, strict=True)]


def summed(call: Call, arrays: Operands, sign: int) -> list[Array]:
    """A sum of two operands, or a difference if the sign is -1."""
    stage = output_stage(call)
    types = call.type(0), call.type(1)
    scales = [float(np.float32(t.quantization.scale[0])) for t in types if t.quantization]
    first, second = sum_weights(scales[0], scales[1])
    one, other = (stored_unsigned(x, t) for x, t in zip(arrays, types, strict=True))
    return [finished(first * one + sign * second * other + stage.constant, stage, call.result.type)]


def _squared_difference(call: Call, arrays: Operands) -> list[Array]:
    """A difference, and the square of it, which is a function of one value."""
    between = replace(call.result, type=difference_type(call))
    difference = replace(
        call,
        node=replace(call.node, op="sub", attributes=ActivationAttributes()),
        outputs=(between,),
    )
    square = replace(
        call, node=replace(call.node, op="square", inputs=(between.name,)), inputs=(between,)
    )
    return results(square, summed(difference, arrays, -1))


def _mul(call: Call, arrays: Operands) -> list[Array]:
    first, second = call.type(0), call.type(1)
    if call.node.inputs[0] == call.node.inputs[1]:
        # A function of one value.
        return list(OPS["mul"].evaluate(call, arrays, Arithmetic.EDGETPU))
    bounds = call.attributes(ActivationAttributes).activation.bounds
    stage = product_stage(first, second, call.result.type, bounds)
    sums = (stored_unsigned(arrays[0], first) - stage.a_zero_point) * (
        stored_unsigned(arrays[1], second) - stage.c_zero_point
    )
    return [finished(sums, stage, call.result.type)]


def _average_pool(call: Call, arrays: Operands) -> list[Array]:
    attributes, before, after = call.attributes(PoolAttributes), call.type(), call.result.type
    (height, width), (rows, columns) = before.shape[1:3], after.shape[1:3]
    top, _, left, _ = explicit_padding(
        attributes.padding, (height, width), attributes.kernel, attributes.stride, (1, 1)
    )
    x = stored_unsigned(arrays[0], before) - unsigned_zero_point(before)
    result = np.empty(after.shape, after.dtype.numpy)
    for row in range(rows):
        y = row * attributes.stride[0] - top
        down = slice(max(y, 0), min(y + attributes.kernel[0], height))
        for column in range(columns):
            z = column * attributes.stride[1] - left
            across = slice(max(z, 0), min(z + attributes.kernel[1], width))
            count = (down.stop - down.start) * (across.stop - across.start)
            stage = mean_stage(before, after, count, attributes.activation.bounds)
            result[:, row, column] = finished(x[:, down, across].sum(axis=(1, 2)), stage, after)
    return [result]


def _reduced(call: Call, arrays: Operands) -> list[Array]:
    """A mean or a sum; those over channels are convolutions, whose scales are rounded so."""
    attributes, before, after = call.attributes(ReductionAttributes), call.type(), call.result.type
    stage = reductions.stage_of(call)
    if stage is None:
        return [converted(arrays[0], before, after).reshape(after.shape)]
    x = stored_unsigned(arrays[0], before) - unsigned_zero_point(before)
    sums = x.sum(axis=attributes.axes, keepdims=attributes.keep_dims)
    return [finished(sums, stage, after)]


def _converted(call: Call, arrays: Operands) -> list[Array]:
    return [converted(arrays[0], call.type(), call.result.type, clamp_bounds(call))]


def _extremum(call: Call, arrays: Operands) -> list[Array]:
    after = call.result.type
    parts = [converted(x, call.type(i), after) for i, x in enumerate(arrays)]
    function = np.maximum if call.node.op == "maximum" else np.minimum
    return [function(parts[0], parts[1])]


def _prelu(call: Call, arrays: Operands) -> list[Array]:
    before, slope, after = call.type(0), call.type(1), call.result.type
    stage = product_stage(before, slope, after)
    x = stored_unsigned(arrays[0], before) - stage.a_zero_point
    products = x * (stored_unsigned(arrays[1], slope) - stage.c_zero_point)
    negative = finished(products, stage, after)
    positive = np.broadcast_to(converted(arrays[0], before, after), negative.shape)
    return [np.where(np.broadcast_to(x < 0, negative.shape), negative, positive)]


def resized(call: Call, arrays: Operands) -> list[Array]:
    """Interpolated with weights that are exact if they fit bytes; the reference has 11 bits."""
    before, after = call.type(), call.result.type
    rows, columns = resized_axes(call)
    sums = interpolated_sums(stored_unsigned(arrays[0], before), rows, 1)
    sums = interpolated_sums(sums, columns, 2)
    found = finished(sums, OutputStage(scale=interpolation_scale(rows, columns)), before)
    return [converted(found, before, after)]


def _batch_matmul(call: Call, arrays: Operands) -> list[Array]:
    attributes, before, after = (
        call.attributes(BatchMatMulAttributes),
        call.type(),
        call.result.type,
    )
    x, y = (
        stored_unsigned(array, call.type(index)) - unsigned_zero_point(call.type(index))
        for index, array in enumerate(arrays)
    )
    x = x.swapaxes(-1, -2) if attributes.adj_x else x
    y = y.swapaxes(-1, -2) if attributes.adj_y else y
    stage = product_stage(before, call.type(1), after)
    return [finished(np.matmul(x, y), stage, after)]


def _l2_normalization(call: Call, arrays: Operands) -> list[Array]:
    before = call.type()
    x = stored_unsigned(arrays[0], before) - unsigned_zero_point(before)
    squares = np.square(x).sum(axis=-1, keepdims=True).astype(np.float32)
    return [finished(x * reciprocal_lengths(squares), length_stage(call), call.result.type)]


def length_stage(call: Call) -> OutputStage:
    """The output stage of an L2 normalization, whose sums are codes times reciprocal lengths."""
    after = call.result.type
    assert after.quantization is not None
    scale = float(np.float32(1 / (64 * normalization.ONE * after.quantization.scale[0])))
    return replace(copy_stage(after, after), scale=scale)


def reciprocal_lengths(squares: Array) -> Integers:
    """Reciprocals of the roots of numbers: the sum of two with 16 bits.

    They are for lengths of more and less than 64, and come from a table of the non-linear unit.

    Args:
        squares: float32.
    """
    fine = _reciprocal_root(np.maximum(squares / 4096, 1))
    coarse = _reciprocal_root(squares.clip(1, 4096))
    return fine + 64 * coarse - normalization.ONE


def _reciprocal_root(x: Array) -> Integers:
    """What the non-linear unit gives: powers of four are taken out of the argument."""
    power = np.floor(np.log2(x) / 2).astype(np.int32)
    root = interpolated(normalization.RECIPROCAL_ROOT, np.ldexp(x, -2 * power))
    return np.asarray(np.rint(np.ldexp(root, -power)).astype(np.int64))


def interpolated(table: NluTable, x: Array) -> Array:
    """What a table of the non-linear unit gives, in float32."""
    return horner(table.coefficients, table.breakpoints, x)


def _softmax(call: Call, arrays: Operands) -> list[Array]:
    """One row is exact; several go through tables of exponentials and of reciprocals."""
    before = call.type()
    if before.size == before.shape[-1]:
        return list(OPS["softmax"].evaluate(call, arrays, Arithmetic.EDGETPU))
    stages = pixel_softmax.Stages.of(call)
    x = stored_unsigned(arrays[0], before)
    exponentials = exponentials_of(x.max(axis=-1, keepdims=True) - x, stages)
    sums = exponentials.sum(axis=-1, keepdims=True).astype(np.float32)
    reciprocals = reciprocals_of(sums, before.shape[-1], stages)
    return [finished(exponentials * reciprocals, stages.product, call.result.type)]


def exponentials_of(distances: Integers, stages: pixel_softmax.Stages) -> Integers:
    """Exponentials of 16 bits, of distances below the largest code of a row."""
    exponents = -distances.astype(np.float32) * np.float32(stages.exponential.scale)
    exponents = np.clip(exponents, np.float32(pixel_softmax.LEAST), np.float32(0))
    found = np.rint(interpolated(pixel_softmax.EXPONENTIAL, exponents)).astype(np.int64)
    return np.asarray(found.clip(0, (1 << 16) - 1))


def reciprocals_of(sums: Array, channels: int, stages: pixel_softmax.Stages) -> Integers:
    """Reciprocals of 16 bits, of sums of so many exponentials in float32."""
    sums = sums * np.float32(stages.reciprocal.scale)
    sums = np.clip(sums, np.float32(1), np.float32(stages.reciprocal.maximum))
    found = interpolated(pixel_softmax.reciprocal(channels), sums)
    return np.asarray(np.rint(found).astype(np.int64))


@dataclass(frozen=True)
class Neighbours:
    """What every element of a resized axis is interpolated from.

    Attributes:
        lower: indices of the lower neighbours.
        upper: of the upper ones.
        weights: integer weights of the upper ones.
        whole: the sum of both weights.
    """

    lower: Integers
    upper: Integers
    weights: Integers
    whole: int


def neighbours(before: int, after: int, sampling: Sampling) -> Neighbours:
    """The neighbours of the elements of an axis that is resized.

    Args:
        before: its extent.
        after: the extent that it gets.
        sampling: which place an element stands for.
    """
    places = np.arange(after)
    if sampling is Sampling.HALF_PIXEL:
        unit = 2 * after
        place = np.clip((2 * places + 1) * before - after, 0, unit * (before - 1))
    elif sampling is Sampling.ALIGN_CORNERS and after > 1:
        unit = after - 1
        place = places * (before - 1)
    else:
        unit = after
        place = places * before
    weights = place % unit
    common = int(np.gcd.reduce(weights, initial=unit))
    whole, weights = unit // common, weights // common
    if whole > LARGEST:
        # Weights are bytes.
        weights, whole = (2 * LARGEST * weights + whole) // (2 * whole), LARGEST
    lower = place // unit
    return Neighbours(lower, np.minimum(lower + 1, before - 1), weights, whole)


def resized_axes(call: Call) -> tuple[Neighbours, Neighbours]:
    """The neighbours of rows and of columns of a resized image."""
    a, before = call.attributes(ResizeAttributes), call.type()
    rows, columns = (
        neighbours(before.shape[axis], a.size[axis - 1], a.sampling) for axis in (1, 2)
    )
    return rows, columns


def interpolation_scale(rows: Neighbours, columns: Neighbours) -> float:
    """The factor of interpolated sums, larger than the reciprocal of weights so that ties go up."""
    return (1 + 2.0**-22) / (rows.whole * columns.whole)


def interpolated_sums(x: Array, neighbours: Neighbours, axis: int) -> Array:
    """Sums of neighbours along an axis, times their weights, in the type of the elements."""
    share = neighbours.weights.astype(x.dtype)
    share = share.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    found, other = x.take(neighbours.lower, axis), x.take(neighbours.upper, axis)
    found *= neighbours.whole - share
    other *= share
    found += other
    return found


# --- long short-term memory ----------------------------------------------------------------------

_MIDDLE = 1 << 15
"""Zero of numbers of 16 bits; all others are as in `gates.py`."""


def _lstm(call: Call, arrays: Operands) -> list[Array]:
    """Sums of gates in units of 2^-12, gates in 16 bits, the state in its own; rounded each."""
    before, after = call.type(INPUT), call.result.type
    attributes = call.attributes(LstmAttributes)
    unit = _unit(call.operand(CELL_STATE).type)
    zero = unsigned_zero_point(after)
    x = stored_unsigned(np.asarray(arrays[INPUT]), before).reshape(-1, before.shape[2])
    x -= unsigned_zero_point(before)
    largest = _MIDDLE - 1
    clip = round(attributes.cell_clip / unit) if attributes.cell_clip else _MIDDLE

    matrices = {
        first + gate: np.asarray(arrays[first + gate]).astype(np.float64).T
        for first in (INPUT_WEIGHTS, RECURRENT_WEIGHTS)
        for gate in range(4)
    }

    def half(values: Integers, gate: int, first: int, source: TensorType) -> Integers:
        # Sums are far below what float64 holds.
        sums: Integers = (values.astype(np.float64) @ matrices[first + gate]).astype(np.int64)
        bias = arrays[BIASES + gate]
        if first == INPUT_WEIGHTS and bias is not None:
            sums = sums + bias.astype(np.int64)
        weights = np.asarray([_unit(call.type(first + gate))])
        return _saturated(sums, effective_scale(_unit(source), weights, 2.0**-12)[0])

    inputs = [half(x, gate, INPUT_WEIGHTS, before) for gate in range(4)]
    hidden = np.zeros(after.shape[2], np.int64)
    cell = np.zeros_like(hidden)
    outputs = []
    for step in range(len(x)):
        sums = [
            inputs[gate][step] + half(hidden, gate, RECURRENT_WEIGHTS, after) for gate in range(4)
        ]
        opened, kept, shown = (
            np.clip(_tanh(sums[gate], 2.0**-13) + _MIDDLE, 0, 2 * _MIDDLE - 1) for gate in (0, 1, 3)
        )
        candidate = np.clip(_tanh(sums[2], 2.0**-12), -_MIDDLE, largest)
        added = _saturated(opened * candidate, np.float32(2.0**-31 / unit))
        total = _saturated(kept * cell, 2.0**-16) + added
        cell = total.clip(max(-_MIDDLE, -clip), min(largest, clip))
        squashed = np.clip(_tanh(cell, unit), -_MIDDLE, largest)
        scale = np.float32(2.0**-31) * (np.float32(1) / np.float32(_unit(after)))
        real = (shown * squashed).astype(np.float32) * scale
        hidden = np.rint(real).astype(np.int64).clip(-zero, LARGEST - zero)
        outputs.append(hidden + zero - SIGNED_OFFSET)
    return [np.stack(outputs).astype(np.int8).reshape(after.shape)]


def _unit(type: TensorType) -> float:
    assert type.quantization is not None
    return type.quantization.scale[0]


def _saturated(sums: Integers, scale: float | np.float32) -> Integers:
    """Sums as numbers of 16 bits."""
    real = sums.astype(np.float32) * np.float32(scale)
    return np.asarray(np.rint(real).astype(np.int64).clip(-_MIDDLE, _MIDDLE - 1))


def _tanh(numbers: Integers, unit: float) -> Integers:
    """2^15 times the hyperbolic tangent of numbers that are clipped to 16 bits."""
    places: Integers = numbers.clip(-_MIDDLE, _MIDDLE - 1) + _MIDDLE
    return _tangents(unit)[places]


@lru_cache(maxsize=8)
def _tangents(unit: float) -> Integers:
    """The same of all numbers of 16 bits; it is odd, by the table's polynomials."""
    table = tanh_table()
    numbers = np.arange(-_MIDDLE, _MIDDLE)
    x = (numbers.astype(np.float32) * np.float32(unit)).clip(-8, 8)
    segment = np.searchsorted(np.array(table.breakpoints, np.float32), np.abs(x), side="right")
    factors = np.array(table.coefficients, np.float32)[segment]
    value = factors[..., 4]
    for degree in (3, 2, 1, 0):
        value = value * np.abs(x) + factors[..., degree]
    return np.asarray(np.rint(np.where(x < 0, -value, value)).astype(np.int64))


OPERATORS: dict[str, Operator] = {
    "add": lambda call, arrays: summed(call, arrays, 1),
    "sub": lambda call, arrays: summed(call, arrays, -1),
    "mul": _mul,
    "squared_difference": _squared_difference,
    "average_pool_2d": _average_pool,
    "mean": _reduced,
    "sum": _reduced,
    "quantize": _converted,
    "clamp": _converted,
    "maximum": _extremum,
    "minimum": _extremum,
    "prelu": _prelu,
    "resize_bilinear": resized,
    "batch_matmul": _batch_matmul,
    "l2_normalization": _l2_normalization,
    "softmax": _softmax,
    "unidirectional_sequence_lstm": _lstm,
}
"""Operators whose results are rounded in another way than the reference semantics do."""
