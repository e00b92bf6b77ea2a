"""Operators on real numbers between conversions: the chip computes them, or they stay as they are.

Expected numbers are those of the model as it was given, on real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.compiler.edgetpu_models import Model, random_inputs

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import EdgeTpuCompilation, compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    LOWEST,
    ConcatenationAttributes,
    PadAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.partition.integers import (
    could_be_integers,
    fusing,
    returned,
)
from fitzroy.compiler.targets.edgetpu.partition.rules import NAME
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice

SHAPE = (1, 12, 10, 8)
REAL = TensorType(SHAPE, DType.FLOAT32)


class Reals(Model):
    """A model some of whose operators compute on real numbers."""

    def real(self, op: str, inputs: Sequence[str]) -> str:
        """Append an operator on dequantized operands; the result is real."""
        return self.emit(op, [self.emit("dequantize", [x], REAL) for x in inputs], REAL)


def between(op: str, *, operands: int = 1, scale: float = 0.02, result: float = 0.02) -> Graph:
    """An operator on real numbers among others of a model that is quantized otherwise.

    Args:
        op: the operator.
        operands: how many it reads.
        scale: of its operands.
        result: scale of its result.
    """
    model = Reals(3)
    x = model.graph.add_input("x", model.type(SHAPE, scale))
    doubled = [
        model.emit("add", [x, x], model.type(SHAPE, scale), ActivationAttributes())
        for _ in range(operands)
    ]
    stored = model.emit("quantize", [model.real(op, doubled)], model.type(SHAPE, result))
    last = model.emit("abs", [stored], model.type(SHAPE, result))
    model.graph.outputs.append(last)
    verify(model.graph)
    return model.graph


def on_host(compiled: EdgeTpuCompilation) -> set[str]:
    """Operators that the host computes."""
    return {node.op for one in compiled.placements if one.target != NAME for node in one.nodes}


def compared(source: Source, compiled: EdgeTpuCompilation, steps: float) -> None:
    """The chip gives the twin's bytes, and numbers that differ from the model's by few steps."""
    inputs = random_inputs(source.graph, 5)
    with (
        Interpreter(compiled.data, device="sim") as chip,
        Interpreter(compiled.data, device=TwinDevice(source.graph)) as twin,
    ):
        found, expected = chip.run(inputs), twin.run(inputs)
    given = evaluate(source.graph, inputs)
    for name, wanted in given.items():
        assert np.array_equal(found[name], expected[name])
        assert np.abs(found[name].astype(int) - wanted.astype(int)).max() <= steps


@pytest.mark.parametrize(
    ("op", "operands", "scale", "result"),
    [
        ("negate", 1, 0.02, 0.02),
        ("square", 1, 0.01, 0.01),
        ("exp", 1, 0.02, 0.05),
        ("maximum", 2, 0.02, 0.03),
        ("squared_difference", 2, 0.01, 0.01),
    ],
)
def test_operators_on_reals_run_on_the_chip(
    op: str, operands: int, scale: float, result: float
) -> None:
    source = Source.of(between(op, operands=operands, scale=scale, result=result))
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=2)


def divided(numerator: float | None, denominator: float | None, dtype: DType) -> Graph:
    """A quotient of real numbers, one of which is known, or none."""
    model = Reals(3)
    model.dtype = dtype
    low = dtype.limits[0]
    positive = TensorType(SHAPE, dtype, Quantization.per_tensor(0.05, int(low)))
    x = model.graph.add_input("x", positive)
    copies = [model.emit("abs", [x], positive) for _ in range(2)]
    operands = [
        model.emit("dequantize", [copy], REAL)
        if number is None
        else model.graph.add_constant("c", np.array(number, np.float32))
        for copy, number in zip(copies, (numerator, denominator), strict=True)
    ]
    real = model.emit("div", operands, REAL, ActivationAttributes())
    stored = model.emit("quantize", [real], model.type(SHAPE, 0.02))
    model.graph.outputs.append(model.emit("abs", [stored], model.type(SHAPE, 0.02)))
    verify(model.graph)
    return model.graph


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize(
    ("numerator", "denominator"), [(1.0, None), (-0.3, None), (None, 3.0), (None, -0.7)]
)
def test_quotients_with_one_known_number_run_on_the_chip(
    numerator: float | None, denominator: float | None, dtype: DType
) -> None:
    source = Source.of(divided(numerator, denominator, dtype))
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=1)


def test_quotients_of_computed_numbers_stay_on_the_host() -> None:
    source = Source.of(divided(None, None, DType.INT8))
    compiled = compile_edgetpu(source, costs=None)
    assert "div" in on_host(compiled)
    compared(source, compiled, steps=1)


def test_what_the_chip_cannot_compute_stays_on_real_numbers() -> None:
    # Sines of many periods have no table.
    source = Source.of(between("sin", scale=3.0, result=0.02))
    compiled = compile_edgetpu(source, costs=None)
    assert on_host(compiled) == {"dequantize", "sin", "quantize"}
    compared(source, compiled, steps=1)


def moved(model: Reals, x: str) -> list[str]:
    """Squares, of which a part is turned and flattened."""
    x = model.real("square", [x])
    a = StridedSliceAttributes((0, 2, 0, 0), (1, 6, 10, 8), (1, 1, 1, 1))
    x = model.emit("strided_slice", [x], REAL.with_shape((1, 6, 10, 8)), a)
    perm = (0, 3, 1, 2)
    x = model.emit("transpose", [x], REAL.with_shape((1, 8, 6, 10)), TransposeAttributes(perm))
    return [model.emit("reshape", [x], REAL.with_shape((1, 480)), ReshapeAttributes((1, 480)))]


def joined(model: Reals, x: str) -> list[str]:
    """Squares beside constants and what they were made of."""
    square, part = model.real("square", [x]), REAL.with_shape((1, 12, 10, 4))
    numbers = model.rng.normal(size=part.shape).astype(np.float32)
    operands = [square, model.graph.add_constant("c", numbers), model.emit("dequantize", [x], REAL)]
    whole = REAL.with_shape((1, 12, 10, 20))
    return [model.emit("concatenation", operands, whole, ConcatenationAttributes(3))]


def halved(model: Reals, x: str) -> list[str]:
    """Two halves of squares."""
    square, part = model.real("square", [x]), REAL.with_shape((1, 12, 10, 4))
    node = Node("parts", "split", (square,), ("left", "right"), SplitAttributes(3, (4, 4)))
    return list(model.graph.add_node(node, [part] * 2).outputs)


def pooled(value: float) -> Callable[[Reals, str], list[str]]:
    """Largest elements of windows that overlap the edge, where there is a number."""

    def append(model: Reals, x: str) -> list[str]:
        edges = PadAttributes((0, 1, 1, 0), (0, 1, 1, 0), value)
        x = model.emit("dequantize", [x], REAL)
        x = model.emit("pad", [x], REAL.with_shape((1, 14, 12, 8)), edges)
        a = PoolAttributes((3, 3), (2, 2))
        return [model.emit("max_pool_2d", [x], REAL.with_shape((1, 6, 5, 8)), a)]

    return append


def clipped(model: Reals, x: str) -> list[str]:
    """Squares between two bounds."""
    x = model.real("square", [x])
    for op, number in (("maximum", 0.317), ("minimum", 1.53)):
        bound = model.graph.add_constant("bound", np.array(number, np.float32))
        x = model.emit(op, [x, bound], REAL)
    return [x]


def repeated(model: Reals, x: str) -> list[str]:
    """The same numbers."""
    return [model.emit("dequantize", [x], REAL)]


def doubled(model: Reals, x: str) -> list[str]:
    """Squares, converted for each of two operators that read them."""
    return [model.real("square", [x])] * 2


@pytest.mark.parametrize("result", [None, 0.02])
@pytest.mark.parametrize(
    "append", [moved, joined, halved, pooled(LOWEST), pooled(0.513), clipped, repeated, doubled]
)
def test_conversions_move_towards_what_computes_the_numbers(
    append: Callable[[Reals, str], list[str]], result: float | None
) -> None:
    model = Reals(5)
    type = model.type(SHAPE, 0.015)
    x = model.emit("abs", [model.graph.add_input("x", type)], type)
    after = type if result is None else model.type(SHAPE, result)
    for real in append(model, x):
        stored = after.with_shape(model.of(real).shape)
        quantized = model.emit("quantize", [real], stored)
        model.graph.outputs.append(model.emit("abs", [quantized], stored))
    verify(model.graph)
    source = Source.of(model.graph)
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    assert len(compiled.segments) == 1
    compared(source, compiled, steps=1)


@pytest.mark.parametrize("scales", [(0.02, 0.02), (0.02, 0.03)])
def test_numbers_are_quantized_before_they_are_moved_only_to_one_scale(
    scales: Sequence[float],
) -> None:
    model = Reals(5)
    x = model.graph.add_input("x", model.type(SHAPE, 0.015))
    square, part = model.real("square", [x]), REAL.with_shape((1, 12, 10, 4))
    for begin, scale in zip((0, 4), scales, strict=True):
        a = StridedSliceAttributes((0, 0, 0, begin), part.shape, (1, 1, 1, 1))
        real = model.emit("strided_slice", [square], part, a)
        type = TensorType(part.shape, model.dtype, Quantization.per_tensor(scale, 3))
        model.graph.outputs.append(model.emit("quantize", [real], type))
    fused = run_passes(model.graph, [fusing()])
    found = sorted(node.op for node in fused.nodes())
    if scales[0] == scales[1]:
        assert found == ["square", "strided_slice", "strided_slice"]
    else:
        assert found == sorted(node.op for node in model.graph.nodes())
    inputs = random_inputs(model.graph, 1)
    wanted, given = evaluate(model.graph, inputs), evaluate(fused, inputs)
    for name in model.graph.outputs:
        assert np.abs(wanted[name].astype(int) - given[name].astype(int)).max() <= 1


def test_conversions_to_a_scale_for_every_channel_stay_where_they_are() -> None:
    model = Reals(5)
    x = model.graph.add_input("x", model.type(SHAPE, 0.015))
    shape, perm = (1, 8, 12, 10), (0, 3, 1, 2)
    square = model.real("square", [x])
    real = model.emit("transpose", [square], REAL.with_shape(shape), TransposeAttributes(perm))
    q = Quantization(tuple((np.arange(8) + 1.0) / 100), (0,) * 8, 1)
    model.graph.outputs.append(model.emit("quantize", [real], TensorType(shape, model.dtype, q)))
    fused = run_passes(model.graph, [fusing()])
    assert [node.op for node in fused.nodes()] == [node.op for node in model.graph.nodes()]


def test_numbers_are_padded_with_what_integers_can_stand_for() -> None:
    model = Reals(5)
    type = TensorType(SHAPE, DType.INT8, Quantization.per_tensor(0.25, 3))
    x = model.graph.add_input("x", type)
    real = model.emit("dequantize", [x], REAL)
    for value in (0.75, 0.8):
        edges = PadAttributes((0, 1, 1, 0), (0, 1, 1, 0), value)
        padded = model.emit("pad", [real], REAL.with_shape((1, 14, 12, 8)), edges)
        model.graph.outputs.append(padded)
    fused = run_passes(model.graph, [fusing()])
    pads = [node for node in fused.nodes() if node.op == "pad"]
    stored = {
        a.value: fused.type(node.outputs[0]).is_quantized
        for node in pads
        if isinstance(a := node.attributes, PadAttributes)
    }
    assert stored == {0.75: True, 0.8: False}
    inputs = random_inputs(model.graph, 1)
    wanted, found = evaluate(model.graph, inputs), evaluate(fused, inputs)
    for name in model.graph.outputs:
        assert np.array_equal(wanted[name], found[name])


def beside_constant(op: str, dtype: DType, reach: float) -> Graph:
    """An operator on real numbers and a constant for every channel, whose numbers have a reach."""
    model = Reals(6)
    model.dtype = dtype
    x = model.graph.add_input("x", model.type(SHAPE, 0.02))
    numbers = (model.rng.uniform(-1, 1, (1, 1, 1, 8)) * reach).astype(np.float32)
    operands = [model.emit("dequantize", [x], REAL), model.graph.add_constant("c", numbers)]
    a = ActivationAttributes() if op in ("add", "mul") else NO_ATTRIBUTES
    real = model.emit(op, operands, REAL, a)
    result = model.type(SHAPE, 0.02)
    model.graph.outputs.append(model.emit("quantize", [real], result))
    verify(model.graph)
    return model.graph


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("op", ["add", "mul", "prelu", "maximum"])
def test_constants_for_channels_become_integers(op: str, dtype: DType) -> None:
    source = Source.of(beside_constant(op, dtype, 0.9))
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=2)


def test_constants_that_integers_of_8_bits_represent_badly_stay_on_the_host() -> None:
    source = Source.of(beside_constant("mul", DType.INT8, 20))
    assert [node.op for node in run_passes(source.graph, [fusing()]).nodes()].count("mul") == 1
    with pytest.raises(UnsupportedError):
        compile_edgetpu(source, costs=None)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_dequantized_constants_keep_their_integers(dtype: DType) -> None:
    model = Reals(7)
    model.dtype = DType.INT8
    x = model.graph.add_input("x", model.type(SHAPE, 0.02))
    low, high = dtype.limits
    data = model.rng.integers(low, high, 8, dtype.numpy, endpoint=True)
    q = Quantization.per_tensor(0.013, low + 100)
    real = TensorType((8,), DType.FLOAT32)
    constant = model.emit("dequantize", [model.graph.add_constant("c", data, q)], real)
    shape = (1, 1, 1, 8)
    constant = model.emit("reshape", [constant], real.with_shape(shape), ReshapeAttributes(shape))
    operands = [constant, model.emit("dequantize", [x], REAL)]
    total = model.emit("add", operands, REAL, ActivationAttributes())
    model.graph.outputs.append(model.emit("quantize", [total], model.type(SHAPE, 0.03)))
    source = Source.of(model.graph)
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=1)
    (node,) = [n for n in run_passes(model.graph, [fusing()]).nodes() if n.op == "add"]
    stored = run_passes(model.graph, [fusing()]).type(str(node.inputs[0]))
    assert stored.quantization == Quantization.per_tensor(0.013, -128 + 100)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("scale", [1 / 256, 1 / 255, 1 / 200])
def test_softmax_gives_results_of_any_larger_scale(scale: float, dtype: DType) -> None:
    model = Reals(8)
    model.dtype = dtype
    rows = REAL.with_shape((6, 40))
    x = model.graph.add_input("x", model.type(rows.shape, 0.05))
    real = model.emit("dequantize", [x], rows)
    real = model.emit("softmax", [real], rows, SoftmaxAttributes())
    q = Quantization.per_tensor(scale, dtype.limits[0])
    model.graph.outputs.append(model.emit("quantize", [real], TensorType(rows.shape, dtype, q)))
    source = Source.of(model.graph)
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=1)


@pytest.mark.parametrize("op", ["add", "mul", "softmax", "tanh"])
@pytest.mark.parametrize("before", [DType.INT8, DType.UINT8])
def test_results_may_be_integers_of_the_other_type(op: str, before: DType) -> None:
    after = DType.UINT8 if before is DType.INT8 else DType.INT8
    model = Reals(9)
    model.dtype = before
    x = model.graph.add_input("x", model.type(SHAPE, 0.02))
    real = model.emit("dequantize", [x], REAL)
    operands = [real, real] if op in ("add", "mul") else [real]
    attributes = {"softmax": SoftmaxAttributes(), "tanh": NO_ATTRIBUTES}
    real = model.emit(op, operands, REAL, attributes.get(op, ActivationAttributes()))
    q = Quantization.per_tensor(1 / 64, after.limits[0] + 100)
    model.graph.outputs.append(model.emit("quantize", [real], TensorType(SHAPE, after, q)))
    source = Source.of(model.graph)
    compared(source, compile_edgetpu(source, costs=None), steps=1)


def test_matrices_with_zeros_beside_a_diagonal_stay_real() -> None:
    model = Reals(10)
    row, square = REAL.with_shape((4, 6)), REAL.with_shape((4, 6, 6))
    x = model.graph.add_input("x", model.type(row.shape, 0.02))
    real = model.emit("tanh", [model.emit("dequantize", [x], row)], row)
    real = model.emit("matrix_diag", [real], square)
    model.graph.outputs.append(model.emit("quantize", [real], model.type(square.shape, 0.02)))
    fused = run_passes(model.graph, [fusing()])
    assert "matrix_diag" in [node.op for node in fused.nodes()]


def filtered(kernel: TensorType, begin: int, dtype: DType, count: int = 1) -> Graph:
    """Convolutions by eight of the channels of a dequantized filter, which begin at one."""
    model = Reals(9)
    model.dtype = dtype
    x = model.graph.add_input("x", model.type(SHAPE, 0.02))
    low, high = kernel.dtype.limits
    data = model.rng.integers(low, high, kernel.shape, kernel.dtype.numpy, endpoint=True)
    weights = model.graph.add_constant("w", data, kernel.quantization)
    weights = model.emit("dequantize", [weights], kernel.real())
    part = (8, 3, 3, 8)
    a = StridedSliceAttributes((begin, 0, 0, 0), part, (1, 1, 1, 1))
    weights = model.emit("strided_slice", [weights], REAL.with_shape(part), a)
    bias = model.graph.add_constant("b", model.rng.normal(size=8).astype(np.float32))
    for _ in range(count):
        operands = [model.emit("dequantize", [x], REAL), weights, bias]
        real = model.emit("conv_2d", operands, REAL, ConvAttributes(padding=PaddingScheme.SAME))
        x = model.emit("quantize", [real], model.type(SHAPE, 0.1))
    model.graph.outputs.append(x)
    verify(model.graph)
    return model.graph


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize(
    ("stored", "q"),
    [
        (DType.INT8, Quantization.per_tensor(0.01, 9)),
        (DType.UINT8, Quantization.per_tensor(0.01, 137)),
        (DType.UINT8, Quantization.per_tensor(0.01, 128)),
        (DType.INT8, Quantization(tuple((np.arange(16) + 8.0) / 1600), (0,) * 16, 0)),
    ],
)
def test_filters_may_have_zero_points_and_be_parts_of_others(
    stored: DType, q: Quantization, dtype: DType
) -> None:
    source = Source.of(filtered(TensorType((16, 3, 3, 8), stored, q), 5, dtype))
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=1)


def test_activations_between_filters_with_zero_points_keep_their_type() -> None:
    kernel = TensorType((16, 3, 3, 8), DType.INT8, Quantization.per_tensor(0.01, 9))
    source = Source.of(filtered(kernel, 5, DType.INT8, count=3))
    found = [node.op for node in run_passes(source.graph, [fusing()]).nodes()]
    assert found == ["quantize", *["conv_2d"] * 3, "quantize"]
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=2)


def test_parts_of_real_numbers_are_stored_wherever_integers_are_made_of_them() -> None:
    model = Reals(4)
    x = model.graph.add_input("x", model.type(SHAPE, 0.02))
    whole = model.emit("dequantize", [x], REAL)
    left, right = "left", "right"
    node = Node("parts", "split", (whole,), (left, right), SplitAttributes(3, (4, 4)))
    model.graph.add_node(node, [REAL.with_shape((1, 12, 10, 4))] * 2)
    stored = [
        model.emit("quantize", [left], model.type((1, 12, 10, 4), 0.03)),
        model.emit("quantize", [left], model.type((1, 12, 10, 4), 0.01)),
    ]
    model.graph.outputs += [*stored, right]
    graph = model.graph
    verify(graph)
    fused = run_passes(graph, [fusing()])
    by_op = {node.op: node for node in fused.nodes()}
    assert fused.type(by_op["split"].outputs[0]).is_quantized
    assert sum(node.op == "dequantize" for node in fused.nodes()) == 1
    inputs = random_inputs(graph, 1)
    wanted, found = evaluate(graph, inputs), evaluate(fused, inputs)
    for name in stored:
        assert np.abs(wanted[name].astype(int) - found[name].astype(int)).max() <= 1
    assert np.array_equal(wanted[right], found[right])


@pytest.mark.parametrize("op", ["negate", "square", "maximum"])
def test_what_goes_back_to_the_host_computes_on_real_numbers_again(op: str) -> None:
    graph = between(op, operands=2 if op == "maximum" else 1)
    fused = run_passes(graph, [fusing()])
    everything = tuple(fused.nodes())
    assert not any(node.op == "dequantize" for node in everything)
    assert not returned(fused, [Placement(NAME, everything)])
    again = run_passes(fused, returned(fused, [Placement("", everything)]))
    assert sorted(node.op for node in again.nodes()) == sorted(node.op for node in graph.nodes())
    assert not returned(again, [Placement("", tuple(again.nodes()))])
    inputs = random_inputs(graph, 2)
    (name,) = graph.outputs
    assert np.array_equal(evaluate(graph, inputs)[name], evaluate(again, inputs)[name])


# --- what tools leave on real numbers ------------------------------------------------------------


def centred(function: str = "", *, ends: bool = False) -> Graph:
    """Differences from the mean of each pixel, on real numbers between integers.

    Args:
        function: what is computed of them.
        ends: whether the model gives them as well.
    """
    model = Reals(3)
    x = model.graph.add_input("x", model.type(SHAPE, 0.02))
    real = model.emit("dequantize", [x], REAL)
    mean = REAL.with_shape((*SHAPE[:-1], 1))
    of = model.emit("mean", [real], mean, ReductionAttributes((3,), keep_dims=True))
    result = model.emit("sub", [real, of], REAL, ActivationAttributes())
    if function:
        result = model.emit(function, [result], REAL)
    last = model.emit("quantize", [result], model.type(SHAPE, 0.02))
    model.graph.outputs += [last, *([result] if ends else [])]
    verify(model.graph)
    return model.graph


def test_operators_that_tools_leave_between_integers_are_known() -> None:
    assert could_be_integers(centred())
    assert could_be_integers(centred("square"))
    # No form in 8 bits.
    assert not could_be_integers(centred("floor"))
    # Real numbers are wanted.
    assert not could_be_integers(centred(ends=True))
    model = Reals(3)
    x = model.graph.add_input("x", REAL)
    model.graph.outputs.append(model.emit("quantize", [x], model.type(SHAPE, 0.02)))
    assert not could_be_integers(model.graph)
