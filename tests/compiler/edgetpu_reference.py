"""Reference semantics of graphs in the arithmetic of the chip, so that outputs can be equal.

The reference semantics of the compiler are those of XNNPACK, which differs in how sums are scaled:
it divides by the scale of a result, where the chip multiplies by the reciprocal, and sums of two
tensors are in its own fixed point. Here every operator that is a sum of products is one: exact
integers, one float32 factor from `output_stage`, a clamp, rounding to even. What only moves values,
and functions of one value, whose tables are fitted to the reference, are the same in both.

Programs of Google's compiler compute three operators in another way, see `evaluate_as_published`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes, reals, stored
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.recurrent import (
    BIASES,
    CELL_STATE,
    GATES,
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
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.rounding import rounded
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp
from fitzroy.hw_models.numerics import Arithmetic, Sampling, convolution
from fitzroy.hw_models.parameters import effective_scale

_LSTM = "unidirectional_sequence_lstm"

Integers = npt.NDArray[np.int64]
Operands = Sequence[Array]
Operator = Callable[[Call, Any], list[Array]]


def evaluate_on_device(
    graph: Graph, inputs: Mapping[str, Array], *, keep: bool = False
) -> dict[str, Array]:
    """Run a graph in the arithmetic of the chip, as programs of this compiler do.

    Args:
        graph: a verified graph, quantized to 8 bits.
        inputs: one array per graph input.
        keep: give every value, not only the outputs.
    """
    return _evaluate(graph, inputs, _OPERATORS | {_LSTM: _lstm}, keep)


@dataclass(frozen=True)
class Curve:
    """A function of the non-linear unit, and the range in which programs use it."""

    table: NluTable
    minimum: float
    maximum: float

    def __call__(self, x: Array) -> Array:
        """The function of float32 numbers, by Horner's rule in float32."""
        x = np.clip(x.astype(np.float32), np.float32(self.minimum), np.float32(self.maximum))
        bounds = np.array(self.table.breakpoints, np.float32)
        factors = np.array(self.table.coefficients, np.float32)
        factors = factors[np.searchsorted(bounds, x, side="right")]
        value = factors[..., 4]
        for degree in (3, 2, 1, 0):
            value = value * x + factors[..., degree]
        return np.asarray(value)


def published_logistic(package: PackageFile) -> Curve | None:
    """The function that a program computes LOGISTIC by: 256 times the sigmoid, nearly.

    None if the program has none.

    Args:
        package: a package, of any compiler.
    """
    table: NluTable | None = None
    for bitstream in package.main.instruction_bitstreams or ():
        for instruction in disassemble(np.asarray(bitstream.bitstream).tobytes()):
            if isinstance(instruction, NluTable):
                table = instruction
            elif isinstance(instruction, TensorOp) and instruction.nlu and table is not None:
                curve = Curve(table, instruction.minimum, instruction.maximum)
                x = np.linspace(-4, 4, 33, dtype=np.float32)
                if np.abs(curve(x) - 256 / (1 + np.exp(-x))).max() < _LARGEST_MISS:
                    return curve
    return None


_LARGEST_MISS = 1 / 64
"""How far a table may be from 256 times the sigmoid; the published one misses by 0.0076."""


def evaluate_as_published(
    graph: Graph, inputs: Mapping[str, Array], logistic: Curve | None, *, keep: bool = False
) -> dict[str, Array]:
    """Run a graph in the arithmetic of programs of Google's compiler.

    They compute LOGISTIC by polynomials that are not fitted to the quantization of the layer, which
    changes codes next to a tie by one; both halves of an LSTM gate's sum, and its states, are
    stored in 8 bits; and a bilinear resize by two rounds exact halves as the output stage does.

    Args:
        graph: a verified graph, quantized to 8 bits.
        inputs: one array per graph input.
        logistic: the function of the program, None if it has none.
        keep: give every value, not only the outputs.
    """
    operators = _OPERATORS | {
        _LSTM: _stored_gates,
        "resize_bilinear": _doubled,
        "add": lambda call, arrays: _shifted(call, arrays, 1),
        "sub": lambda call, arrays: _shifted(call, arrays, -1),
    }
    if logistic is not None:
        operators["sigmoid"] = lambda call, arrays: _by_curve(call, arrays, logistic)
    return _evaluate(graph, inputs, operators, keep)


def _by_curve(call: Call, arrays: Operands, curve: Curve) -> list[Array]:
    before, after = call.type(), call.result.type
    assert before.quantization is not None
    x = stored_unsigned(arrays[0], before) - unsigned_zero_point(before)
    real = x.astype(np.float32) * np.float32(before.quantization.scale[0])
    codes = rounded(curve(real)).clip(0, LARGEST).astype(np.int64)
    codes -= SIGNED_OFFSET if after.dtype is DType.INT8 else 0
    return [codes.astype(after.dtype.numpy)]


def _shifted(call: Call, arrays: Operands, sign: int) -> list[Array]:
    """A sum; a constant is a bias, a whole number of steps of the other operand."""
    before, other, after = call.type(0), call.type(1), call.result.type
    if call.inputs[1] is None or call.inputs[1].data is None:
        return _sum(call, arrays, sign)
    assert before.quantization is not None
    assert other.quantization is not None
    ratio = np.float64(other.quantization.scale[0]) / before.quantization.scale[0]
    steps = (stored_unsigned(arrays[1], other) - unsigned_zero_point(other)) * ratio
    bias = sign * rounded(steps.astype(np.float32)).astype(np.int64)
    x = stored_unsigned(arrays[0], before) - unsigned_zero_point(before)
    return [finished(x + bias, copy_stage(before, after), after)]


def _doubled(call: Call, arrays: Operands) -> list[Array]:
    """A bilinear resize by two in both directions, with one rounding; others as in our programs."""
    attributes, before, after = call.attributes(ResizeAttributes), call.type(), call.result.type
    doubles = attributes.size == (2 * before.shape[1], 2 * before.shape[2])
    if not doubles or attributes.sampling is not Sampling.HALF_PIXEL:
        return _resize_bilinear(call, arrays)
    x = stored_unsigned(arrays[0], before)
    for axis in (1, 2):
        # Neighbours at a quarter and at three quarters of a pixel; edges repeat.
        lower, weight, whole = _neighbours(before.shape[axis], attributes.size[axis - 1],
                                           attributes.sampling)  # fmt: skip
        upper = np.minimum(lower + 1, before.shape[axis] - 1)
        share = weight.reshape([-1 if k == axis else 1 for k in range(4)])
        x = x.take(lower, axis) * (whole - share) + x.take(upper, axis) * share
    found = finished(x, OutputStage(scale=1 / whole**2), before)
    return [converted(found, before, after)]


def _evaluate(
    graph: Graph, inputs: Mapping[str, Array], operators: Mapping[str, Operator], keep: bool
) -> dict[str, Array]:
    values: dict[str, Array] = dict(inputs)
    with patch.object(convolution, "requantization_scale", device_scale):
        for node in graph.nodes():
            call = Call.of(graph, node)
            arrays = [
                None if value is None else values[value.name] if value.data is None else value.data
                for value in call.inputs
            ]
            if node.op == _LSTM:
                results = operators[_LSTM](call, arrays)
            elif node.op in operators:
                results = operators[node.op](call, [x for x in arrays if x is not None])
            elif OPS[node.op].moves:
                results = _moved(call, arrays)
            else:
                results = list(OPS[node.op].evaluate(call, arrays, Arithmetic.XNNPACK))
            values.update(zip(node.outputs, results, strict=True))
    for name in graph.outputs:
        data = graph.value(name).data
        if data is not None:
            values[name] = data
    return values if keep else {name: values[name] for name in graph.outputs}


def device_scale(
    x: Quantization,
    w: Quantization,
    out: Quantization,
    arithmetic: Arithmetic = Arithmetic.XNNPACK,
    *,
    rounds_product: bool = False,
) -> Array:
    """Factors of the accumulators of convolutions and matrix products, as programs hold them."""
    del arithmetic, rounds_product
    scale = effective_scale(x.scale[0], np.asarray(w.scale), out.scale[0])
    return np.asarray(scale[0] if w.axis is None else scale)


def stored_unsigned(x: Array, type: TensorType) -> Integers:
    """Elements as the chip holds them."""
    return x.astype(np.int64) + (SIGNED_OFFSET if type.dtype is DType.INT8 else 0)


def finished(sums: Integers, stage: OutputStage, type: TensorType) -> Array:
    """What the output stage makes of exact sums, zero points and constant included."""
    real = sums.astype(np.float32) * np.float32(stage.scale)
    real = np.clip(real, np.float32(stage.minimum), np.float32(stage.maximum))
    found = np.clip(np.rint(real).astype(np.int64) + stage.output_zero_point, 0, LARGEST)
    found -= SIGNED_OFFSET if type.dtype is DType.INT8 else 0
    return np.asarray(found.astype(type.dtype.numpy))


def keeps_bytes(before: TensorType, after: TensorType) -> bool:
    """Whether a copy from one type to another changes nothing on the chip."""
    return (
        before.quantization is not None
        and after.quantization is not None
        and before.quantization.scale == after.quantization.scale
        and unsigned_zero_point(before) == unsigned_zero_point(after)
    )


def converted(
    x: Array,
    before: TensorType,
    after: TensorType,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Array:
    """A copy from one quantization to another, which may clamp."""
    stage = copy_stage(before, after, bounds)
    sums = stored_unsigned(x, before) - stage.a_zero_point
    if keeps_bytes(before, after):
        # There is nothing to scale.
        scaled = OutputStage(1.0, stage.minimum, stage.maximum, stage.output_zero_point)
        return finished(sums, scaled, after)
    return finished(sums, stage, after)


# --- operators -----------------------------------------------------------------------------------


def _moved(call: Call, arrays: Sequence[Array | None]) -> list[Array]:
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
    results = operator.evaluate(plain, arrays, Arithmetic.XNNPACK)
    return [converted(x, before, type) for x, type in zip(results, after, strict=True)]


def _sum(call: Call, arrays: Operands, sign: int) -> list[Array]:
    stage = output_stage(call)
    types = call.type(0), call.type(1)
    scales = [float(np.float32(t.quantization.scale[0])) for t in types if t.quantization]
    first, second = sum_weights(scales[0], scales[1])
    one, other = (stored_unsigned(x, t) for x, t in zip(arrays, types, strict=True))
    return [finished(first * one + sign * second * other + stage.constant, stage, call.result.type)]


def _mul(call: Call, arrays: Operands) -> list[Array]:
    first, second = call.type(0), call.type(1)
    if call.node.inputs[0] == call.node.inputs[1]:
        # A function of one value.
        return list(OPS["mul"].evaluate(call, arrays, Arithmetic.XNNPACK))
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
    attributes = call.node.attributes
    bounds = getattr(attributes, "min", -math.inf), getattr(attributes, "max", math.inf)
    return [converted(arrays[0], call.type(), call.result.type, bounds)]


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


def _resize_bilinear(call: Call, arrays: Operands) -> list[Array]:
    """Interpolated with weights that are exact if they fit bytes; the reference has 11 bits.

    The factor of the sums is larger than the reciprocal of their weights, so that ties go up.
    """
    attributes, before, after = call.attributes(ResizeAttributes), call.type(), call.result.type
    x, unit = stored_unsigned(arrays[0], before), 1
    for axis in (1, 2):
        size, inner = attributes.size[axis - 1], before.shape[axis]
        lower, weight, whole = _neighbours(inner, size, attributes.sampling)
        upper = np.minimum(lower + 1, inner - 1)
        shape = [1, 1, 1, 1]
        shape[axis] = size
        share = weight.reshape(shape)
        x = x.take(lower, axis) * (whole - share) + x.take(upper, axis) * share
        unit *= whole
    found = finished(x, OutputStage(scale=(1 + 2.0**-22) / unit), before)
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
    """Reciprocals of lengths are the sum of two with 16 bits, for lengths of more and less than 64.

    They come from a table of the non-linear unit.
    """
    before, after = call.type(), call.result.type
    x = stored_unsigned(arrays[0], before) - unsigned_zero_point(before)
    squares = np.square(x).sum(axis=-1, keepdims=True).astype(np.float32)
    one = normalization.ONE
    fine = _reciprocal_root(np.maximum(squares / 4096, 1))
    coarse = _reciprocal_root(squares.clip(1, 4096))
    stage = copy_stage(after, after)
    assert after.quantization is not None
    scale = float(np.float32(1 / (64 * one * after.quantization.scale[0])))
    return [finished(x * (fine + 64 * coarse - one), replace(stage, scale=scale), after)]


def _reciprocal_root(x: Array) -> Integers:
    """What the non-linear unit gives: powers of four are taken out of the argument."""
    power = np.floor(np.log2(x) / 2).astype(np.int32)
    root = interpolated(normalization.RECIPROCAL_ROOT, np.ldexp(x, -2 * power))
    return np.asarray(np.rint(np.ldexp(root, -power)).astype(np.int64))


def interpolated(table: NluTable, x: Array) -> Array:
    """What a table of the non-linear unit gives, in float32."""
    segment = np.searchsorted(np.array(table.breakpoints, np.float32), x, side="right")
    factors = np.array(table.coefficients, np.float32)[segment]
    value = factors[..., -1]
    for degree in reversed(range(factors.shape[-1] - 1)):
        value = value * x + factors[..., degree]
    return np.asarray(value)


def _softmax(call: Call, arrays: Operands) -> list[Array]:
    """One row is exact; several go through tables of exponentials and of reciprocals."""
    before = call.type()
    if before.size == before.shape[-1]:
        return list(OPS["softmax"].evaluate(call, arrays, Arithmetic.XNNPACK))
    stages = pixel_softmax.Stages.of(call)
    x = stored_unsigned(arrays[0], before)
    distances = (x - x.max(axis=-1, keepdims=True)).astype(np.float32)
    exponents = distances * np.float32(stages.exponential.scale)
    exponents = np.clip(exponents, np.float32(pixel_softmax.LEAST), np.float32(0))
    exponentials = np.rint(interpolated(pixel_softmax.EXPONENTIAL, exponents)).astype(np.int64)
    exponentials = exponentials.clip(0, (1 << 16) - 1)
    sums = exponentials.sum(axis=-1, keepdims=True).astype(np.float32)
    sums = sums * np.float32(stages.reciprocal.scale)
    sums = np.clip(sums, np.float32(1), np.float32(stages.reciprocal.maximum))
    table = pixel_softmax.reciprocal(before.shape[-1])
    reciprocals = np.rint(interpolated(table, sums)).astype(np.int64)
    return [finished(exponentials * reciprocals, stages.product, call.result.type)]


def _neighbours(before: int, after: int, sampling: Sampling) -> tuple[Integers, Integers, int]:
    """Lower neighbours, the weights of the upper ones, and the unit of the weights."""
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
    return place // unit, weights, whole


# --- long short-term memory ----------------------------------------------------------------------

_MIDDLE = 1 << 15
"""Zero of numbers of 16 bits; all others are as in `gates.py`."""


def _lstm(call: Call, arrays: Sequence[Array | None]) -> list[Array]:
    """Sums of gates in units of 2^-12, gates in 16 bits, the state in its own; rounded each."""
    before, after = call.type(INPUT), call.result.type
    attributes = call.attributes(LstmAttributes)
    unit = _unit(call.operand(CELL_STATE).type)
    zero = unsigned_zero_point(after)
    x = stored_unsigned(np.asarray(arrays[INPUT]), before).reshape(-1, before.shape[2])
    x -= unsigned_zero_point(before)
    largest = _MIDDLE - 1
    clip = round(attributes.cell_clip / unit) if attributes.cell_clip else _MIDDLE

    def half(values: Integers, gate: int, first: int, source: TensorType) -> Integers:
        sums: Integers = values @ np.asarray(arrays[first + gate]).astype(np.int64).T
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


def _stored_gates(call: Call, arrays: Sequence[Array | None]) -> list[Array]:
    """An LSTM with both halves of a gate's sum, and the states, stored as quantized numbers."""
    state, cells = call.result.type, call.type(CELL_STATE)

    def operand(index: int) -> Array:
        array = arrays[index]
        assert array is not None
        return reals(array, call.type(index))

    def kept(values: Array, type: TensorType) -> Array:
        return reals(stored(values, type), type)

    steps = operand(INPUT)
    time_major = call.attributes(LstmAttributes).time_major
    if not time_major:
        steps = steps.swapaxes(0, 1)
    cell = hidden = np.zeros((steps.shape[1], call.type(INPUT_WEIGHTS).shape[0]), np.float32)
    outputs = []
    for step in steps:
        sums = [
            kept(step @ operand(INPUT_WEIGHTS + gate).T + operand(BIASES + gate), state)
            + kept(hidden @ operand(RECURRENT_WEIGHTS + gate).T, state)
            for gate in range(len(GATES))
        ]
        i, f, o = (1 / (1 + np.exp(-sums[gate])) for gate in (0, 1, 3))
        cell = kept(f * cell + i * np.tanh(sums[2]), cells)
        hidden = kept(o * np.tanh(cell), state)
        outputs.append(hidden)
    return [stored(np.stack(outputs, axis=0 if time_major else 1), state)]


def _unit(type: TensorType) -> float:
    assert type.quantization is not None
    return type.quantization.scale[0]


def _saturated(sums: Integers, scale: float | np.float32) -> Integers:
    """Sums as numbers of 16 bits."""
    real = sums.astype(np.float32) * np.float32(scale)
    return np.asarray(np.rint(real).astype(np.int64).clip(-_MIDDLE, _MIDDLE - 1))


def _tanh(numbers: Integers, unit: float) -> Integers:
    """2^15 times the hyperbolic tangent, which is odd, by the table's polynomials."""
    table = tanh_table()
    low, high = -_MIDDLE * np.float32(unit), (_MIDDLE - 1) * np.float32(unit)
    x = (numbers.astype(np.float32) * np.float32(unit)).clip(low, high).clip(-8, 8)
    segment = np.searchsorted(np.array(table.breakpoints, np.float32), np.abs(x), side="right")
    factors = np.array(table.coefficients, np.float32)[segment]
    value = factors[..., 4]
    for degree in (3, 2, 1, 0):
        value = value * np.abs(x) + factors[..., degree]
    return np.asarray(np.rint(np.where(x < 0, -value, value)).astype(np.int64))


_OPERATORS: dict[str, Operator] = {
    "add": lambda call, arrays: _sum(call, arrays, 1),
    "sub": lambda call, arrays: _sum(call, arrays, -1),
    "mul": _mul,
    "average_pool_2d": _average_pool,
    "mean": _reduced,
    "sum": _reduced,
    "quantize": _converted,
    "clamp": _converted,
    "maximum": _extremum,
    "minimum": _extremum,
    "prelu": _prelu,
    "resize_bilinear": _resize_bilinear,
    "batch_matmul": _batch_matmul,
    "l2_normalization": _l2_normalization,
    "softmax": _softmax,
}
"""Operators whose results are rounded in another way than the reference semantics do."""
