"""Ranges, equalization, correction and fitting, each against what it is to achieve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.compiler.test_quantize import apply, normal, q, real
from tests.support import need_litert

from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
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
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.quantization import fitting
from fitzroy.compiler.quantization.calibrated import Calibrated, Quantized, Recipe
from fitzroy.compiler.quantization.channels import FIXED, Channels
from fitzroy.compiler.quantization.comparison import compare, real_output, stored_input
from fitzroy.compiler.quantization.correction import mean_error
from fitzroy.compiler.quantization.equalization import equalize
from fitzroy.compiler.quantization.fitting import compensated
from fitzroy.compiler.quantization.options import (
    Border,
    Effort,
    Mixed,
    QuantizeOptions,
    RangeMethod,
)
from fitzroy.compiler.quantization.parameters import Parameters, nearest
from fitzroy.compiler.quantization.pipeline import prepared, quantize_model
from fitzroy.compiler.quantization.ranges import Use, choose_range, readers_function
from fitzroy.compiler.quantization.report import advice, layers
from fitzroy.compiler.quantization.sensitivity import sensitivities
from fitzroy.compiler.quantization.statistics import Sample, Statistics, collect
from fitzroy.compiler.reference import evaluate, evaluate_node
from fitzroy.compiler.targets.edgetpu.partition.rules import lowerings
from fitzroy.driver.runtime.litert import LiteRtModel
from fitzroy.formats.tflite import read_model, write_model
from fitzroy.hw_models.numerics import Arithmetic

PLAIN = QuantizeOptions(
    ranges=RangeMethod.MINMAX, equalize=False, correct_bias=False, effort=Effort.FAST
)


def statistics(rows: Array) -> Statistics:
    graph = Graph("x")
    graph.add_input("x", real(*rows.shape))
    graph.outputs = ["x"]
    return collect(graph, [{"x": rows.astype(np.float32)}])["x"]


# --- ranges --------------------------------------------------------------------------------------


def noise(rows: Array, extent: tuple[float, float]) -> float:
    low, high = extent
    step = (high - low) / 255
    rounded = np.clip(np.rint((rows - low) / step), 0, 255) * step + low
    return float(np.square(rounded - rows).mean())


ALONE = Use(coherent=1.0)


def test_least_squares_cut_off_what_costs_more_than_it_tells() -> None:
    rows = np.random.default_rng(0).normal(size=(1, 1 << 17, 1)).astype(np.float32)
    rows[0, :2] = 6
    found = choose_range(statistics(rows), RangeMethod.MSE, use=ALONE)
    everything = choose_range(statistics(rows), RangeMethod.MINMAX)
    assert everything == (rows.min(), 6)
    assert 3 < found[1] < 5.5
    assert noise(rows, found) < 0.9 * noise(rows, everything)
    # What is cut off weighs more than rounding where it is large.
    rows[0, :2] = 60
    assert choose_range(statistics(rows), RangeMethod.MSE, use=ALONE)[1] > 40


def test_percentiles_leave_a_share_out() -> None:
    rows = np.arange(10001, dtype=np.float32).reshape(1, -1, 1) - 5000
    options = QuantizeOptions(ranges=RangeMethod.PERCENTILE, percentile=99.0)
    assert choose_range(statistics(rows), options.ranges, 99.0) == pytest.approx((-4900, 4900))
    with pytest.raises(UsageError, match="more than 50"):
        quantize_model(chain([1.0])[0], [], replace(options, percentile=10.0))


def silu(x: Array) -> Graph:
    graph = Graph("silu")
    graph.add_input("x", real(*x.shape))
    (scaled,) = apply(graph, "sub", ("x", graph.add_constant("k", np.full(1, 0.25, np.float32))))
    (gate,) = apply(graph, "sigmoid", (scaled,))
    graph.outputs = apply(graph, "mul", (scaled, gate), stem="y")
    return graph


def test_silu_needs_no_range_where_it_gives_nothing() -> None:
    x = np.linspace(-150, 10, 4096, dtype=np.float32).reshape(1, -1, 1)
    graph = silu(x)
    value = graph.nodes()[0].outputs[0]
    function = readers_function(graph, value)
    assert function is not None
    low, high = choose_range(statistics(x), RangeMethod.MSE, use=Use(function))
    assert -15 < low < -3
    assert high == pytest.approx(10, rel=0.1)
    errors = {}
    for ranges in (RangeMethod.MSE, RangeMethod.MINMAX):
        # The value comes from a float32 operator, so that nothing is lost before it.
        options = replace(PLAIN, ranges=ranges, keep_float=["sub"], input_type=Border.FLOAT)
        result = quantize_model(graph, [{"x": x}], options)
        errors[ranges] = compare(graph, result.graph, [{"x": x}]).outputs["y"].decibels
    assert errors[RangeMethod.MSE] > errors[RangeMethod.MINMAX] + 3


# --- samples -------------------------------------------------------------------------------------


def powers(*, layers: int = 3, calm: int = 0) -> Graph:
    """A network that squares what its input has beyond 0.8, again and again.

    Args:
        layers: number of squares.
        calm: number of layers of ordinary values before.
    """
    graph = Graph("powers")
    graph.add_input("x", real(1, 8, 8, 2))
    y = "x"
    for _ in range(calm):
        (y,) = apply(graph, "tanh", (y,))
    a = ActivationAttributes(Activation.RELU)
    beyond = graph.add_constant("beyond", np.full(1, 0.8 if not calm else 0.0, np.float32))
    (y,) = apply(graph, "sub", (y, beyond), a)
    scale = graph.add_constant("scale", np.full(1, 10, np.float32))
    (y,) = apply(graph, "mul", (y, scale), ActivationAttributes())
    for _ in range(layers):
        (y,) = apply(graph, "mul", (y, y), ActivationAttributes())
    graph.outputs = [y]
    return graph


def bright(count: int, *numbers: int, by: float = 1.25) -> list[dict[str, Array]]:
    """Samples of which some have larger elements."""
    rng = np.random.default_rng(2)
    samples = [{"x": rng.uniform(0, 0.9, (1, 8, 8, 2)).astype(np.float32)} for _ in range(count)]
    for number in numbers:
        samples[number]["x"] *= by
    return samples


def test_a_sample_that_the_network_amplifies_is_left_out() -> None:
    graph, samples = powers(), bright(20, 7, by=1.6)
    others = [sample for number, sample in enumerate(samples) if number != 7]
    found = {}
    for ranges in (RangeMethod.MSE, RangeMethod.MINMAX):
        result = quantize_model(graph, samples, replace(PLAIN, ranges=ranges))
        assert result.left_out == ((7,) if ranges is RangeMethod.MSE else ())
        (level,) = compare(graph, result.graph, others).outputs.values()
        found[ranges] = level.decibels
    assert found[RangeMethod.MSE] > 20 > 10 > found[RangeMethod.MINMAX]


@pytest.mark.parametrize(
    ("graph", "samples"),
    [
        (powers(), bright(20)),
        # One in ten is no exception.
        (powers(), bright(20, 3, 7, by=1.6)),
        # Few values are large where only one sample has an object.
        (powers(calm=40), bright(20, 7, by=1.6)),
        # It is far from the others itself.
        (powers(), bright(20, 7, by=6)),
    ],
)
def test_other_samples_count(graph: Graph, samples: list[dict[str, Array]]) -> None:
    assert quantize_model(graph, samples, replace(PLAIN, ranges=RangeMethod.MSE)).left_out == ()


# --- channels ------------------------------------------------------------------------------------


def conv(graph: Graph, x: str, weights: Array, activation: Activation = Activation.NONE) -> str:
    inputs = (x, graph.add_constant("w", weights.astype(np.float32)))
    attributes = ConvAttributes(padding=PaddingScheme.SAME, activation=activation)
    return apply(graph, "conv_2d", inputs, attributes)[0]


def chain(
    reaches: Sequence[float], activation: Activation = Activation.RELU
) -> tuple[Graph, list[dict[str, Array]]]:
    """Two convolutions with a depthwise one between them, and channels of these reaches."""
    rng = np.random.default_rng(1)
    count = len(reaches)
    graph = Graph("chain")
    graph.add_input("x", real(1, 6, 6, 4))
    spread = np.asarray(reaches).reshape(-1, 1, 1, 1)
    first = conv(graph, "x", normal(rng, count, 1, 1, 4) * spread, activation)
    weights = graph.add_constant("d", normal(rng, 1, 3, 3, count) / 3)
    attributes = ConvAttributes(padding=PaddingScheme.SAME, activation=activation)
    (second,) = apply(graph, "depthwise_conv_2d", (first, weights), attributes)
    graph.outputs = [conv(graph, second, normal(rng, 3, 1, 1, count) / spread.reshape(-1))]
    return graph, [{"x": normal(rng, 1, 6, 6, 4)} for _ in range(8)]


def test_channels_that_vary_between_samples_saturate_later() -> None:
    """A channel that one sample takes far beyond others may be taken further by samples to come."""
    graph, samples = chain([1, 0.05, 0.05, 0.05], Activation.RELU6)
    name = graph.nodes()[0].outputs[0]
    even = equalize(graph, collect(graph, samples), []).scales[name]
    samples[0]["x"] *= 4
    uneven = equalize(graph, collect(graph, samples), []).scales[name]
    assert even[1:].max() < 0.2
    assert (uneven[1:] > 6 * even[1:]).all()


@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU6])
def test_channels_that_no_sample_activates_do_not_saturate_later(activation: Activation) -> None:
    """What a channel reaches that is 0 on all samples is unknown: it may go as far as others."""
    rng = np.random.default_rng(7)
    graph = Graph("asleep")
    graph.add_input("x", real(1, 6, 6, 4))
    kernel = normal(rng, 6, 1, 1, 4)
    # The last output channel sees nothing but the last input channel.
    kernel[:, ..., 3], kernel[5] = 0, np.array([0, 0, 0, 1], np.float32)
    hidden = conv(graph, "x", kernel, activation)
    graph.outputs = [conv(graph, hidden, normal(rng, 3, 1, 1, 6))]
    unseen = [{"x": normal(rng, 1, 6, 6, 4)} for _ in range(8)]
    seen = np.array([1, 1, 1, 0], np.float32)
    samples = [{"x": sample["x"] * seen} for sample in unseen]
    model = quantize_model(graph, samples, replace(PLAIN, equalize=True), known={"x": (-4, 4)})
    (off,) = compare(graph, model.graph, unseen).outputs.values()
    assert off.decibels > 25


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU, Activation.RELU6])
def test_scaled_channels_compute_the_same_and_lose_less(activation: Activation) -> None:
    graph, samples = chain([1, 0.5, 0.1, 0.02, 1, 0.03], activation)
    found = equalize(graph, collect(graph, samples), [])
    assert found.scales
    for sample in samples:
        (wanted,), (scaled,) = (evaluate(g, sample).values() for g in (graph, found.graph))
        np.testing.assert_allclose(scaled, wanted, rtol=1e-4, atol=1e-5)
    decibels = [
        min(
            off.decibels
            for off in compare(
                graph, quantize_model(graph, samples, options).graph, samples
            ).outputs.values()
        )
        for options in (PLAIN, replace(PLAIN, equalize=True))
    ]
    assert decibels[1] > decibels[0] + 6


def test_scales_pass_what_moves_and_adds_elements() -> None:
    """Scales reach from filter to filter through every operator that lets them."""
    rng = np.random.default_rng(2)
    graph = Graph("movers")
    graph.add_input("x", real(1, 8, 8, 4))
    spread = np.array([1, 0.1, 0.02, 0.5]).reshape(-1, 1, 1, 1)
    a = conv(graph, "x", normal(rng, 4, 1, 1, 4) * spread)
    b = conv(graph, "x", normal(rng, 4, 1, 1, 4) * spread)
    slope = graph.add_constant("slope", np.full((1, 1, 4), 0.25, np.float32))
    (x,) = apply(graph, "add", (a, b), ActivationAttributes())
    (x,) = apply(graph, "prelu", (x, slope))
    (x,) = apply(graph, "max_pool_2d", (x,), PoolAttributes((2, 2), (2, 2)))
    (x,) = apply(graph, "pad", (x,), PadAttributes((0, 1, 1, 0), (0, 1, 1, 2)))
    (x,) = apply(graph, "transpose", (x,), TransposeAttributes((0, 2, 1, 3)))
    left, right = apply(graph, "split", (x,), SplitAttributes(3, (2, 4)), results=2)
    (x,) = apply(graph, "concatenation", (right, left), ConcatenationAttributes(3))
    slice = StridedSliceAttributes((0, 1, 0, 0), (1, 5, 6, 6), (1, 1, 1, 1))
    (x,) = apply(graph, "strided_slice", (x,), slice)
    (x,) = apply(graph, "clamp", (x,), ClampAttributes(0.0, float("inf")))
    (m,) = apply(graph, "mean", (x,), ReductionAttributes((1,)))
    (x,) = apply(graph, "reshape", (m,), ReshapeAttributes((1, 36)))
    w = graph.add_constant("w", normal(rng, 5, 36))
    graph.outputs = apply(graph, "fully_connected", (x, w), FullyConnectedAttributes())
    samples = [{"x": normal(rng, 1, 8, 8, 4)} for _ in range(6)]
    found = equalize(graph, collect(graph, samples), [])
    assert {a, b, m} <= set(found.scales)
    for sample in samples:
        (wanted,), (scaled,) = (evaluate(g, sample).values() for g in (graph, found.graph))
        np.testing.assert_allclose(scaled, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["sigmoid", "hardswish", "tanh", "softmax", "exp"])
def test_other_functions_stop_scales(op: str) -> None:
    rng = np.random.default_rng(3)
    graph = Graph("stopped")
    graph.add_input("x", real(1, 4, 4, 4))
    first = conv(graph, "x", normal(rng, 4, 1, 1, 4))
    (x,) = apply(graph, op, (first,))
    graph.outputs = [conv(graph, x, normal(rng, 4, 1, 1, 4))]
    labels = Channels(graph, []).labels
    assert set(labels[first]) == set(labels[x]) == set(labels["x"]) == {FIXED}


def test_readers_of_one_filter_keep_sharing_it() -> None:
    rng = np.random.default_rng(4)
    graph = Graph("shared")
    graph.add_input("x", real(1, 4, 4, 4))
    spread = np.array([1, 0.1, 0.02, 0.5]).reshape(-1, 1, 1, 1)
    head = graph.add_constant("head", normal(rng, 2, 1, 1, 4))
    tops = []
    for _ in range(2):
        x = conv(graph, "x", normal(rng, 4, 1, 1, 4) * spread, Activation.RELU)
        tops += apply(graph, "conv_2d", (x, head), ConvAttributes())
    graph.outputs = tops
    samples = [{"x": normal(rng, 1, 4, 4, 4)} for _ in range(4)]
    found = equalize(graph, collect(graph, samples), [])
    kernels = {found.graph.node(str(name)).inputs[1] for name in tops}
    assert found.scales
    assert len(kernels) == 1


# --- parameters ----------------------------------------------------------------------------------


def decibels(result: Quantized, samples: Sequence[dict[str, Array]]) -> float:
    found = compare(result.source, result.graph, samples).outputs.values()
    return min(off.decibels for off in found)


def deep() -> tuple[Graph, list[dict[str, Array]]]:
    """A network of several layers whose inputs are not centred."""
    rng = np.random.default_rng(5)
    graph = Graph("deep")
    graph.add_input("x", real(1, 8, 8, 3))
    name, depth = "x", 3
    for _ in range(6):
        name = conv(
            graph, name, normal(rng, 8, 3, 3, depth) / np.sqrt(4.5 * depth), Activation.RELU
        )
        depth = 8
    graph.outputs = [conv(graph, name, normal(rng, 4, 1, 1, depth))]
    return graph, [{"x": np.abs(normal(rng, 1, 8, 8, 3))} for _ in range(24)]


def test_more_effort_is_closer_on_other_samples() -> None:
    graph, samples = deep()
    found = {}
    for effort in Effort:
        # One scale for all weights of a filter leaves more for the others to make up for.
        options = replace(QuantizeOptions(), effort=effort, per_channel=False, equalize=False)
        found[effort] = decibels(quantize_model(graph, samples[:12], options), samples[12:])
    assert found[Effort.NORMAL] > found[Effort.FAST] - 0.5
    assert found[Effort.BEST] > found[Effort.NORMAL]


def test_a_mean_error_goes_into_the_bias() -> None:
    """Weights that are all rounded the same way are off on average."""
    graph = Graph("off")
    graph.add_input("x", real(1, 16))
    weights = np.full((2, 16), 0.3, np.float32) / 127
    weights[:, 0] = 1
    w = graph.add_constant("w", weights)
    graph.outputs = apply(graph, "fully_connected", ("x", w), FullyConnectedAttributes())
    rng = np.random.default_rng(6)
    samples = [{"x": np.abs(normal(rng, 1, 16)) + np.float32(2)} for _ in range(64)]
    errors = []
    for options in (PLAIN, replace(PLAIN, correct_bias=True, effort=Effort.NORMAL)):
        result = quantize_model(graph, samples, options)
        (name,) = result.graph.outputs
        scale = q(result.graph, name)
        off = []
        for sample in samples:
            stored = np.clip(
                np.rint(sample["x"] / q(result.graph, "x").scale[0])
                + q(result.graph, "x").zero_point[0], -128, 127,
            ).astype(np.int8)  # fmt: skip
            found = evaluate(result.graph, {"x": stored})[name].astype(float)
            off.append(
                (found - scale.zero_point[0]) * scale.scale[0] - evaluate(graph, sample)[name]
            )
        errors.append(abs(float(np.mean(off))))
    assert errors[1] < errors[0] / 4


def test_a_mean_error_is_that_of_the_few_elements_that_count() -> None:
    """Most elements before a SiLU are far below zero, where an error changes nothing."""
    rng = np.random.default_rng(7)
    exact = rng.normal(-5, 0.5, (1, 40, 40, 2)).astype(np.float32)
    exact[0, :4] = rng.normal(2, 0.5, (4, 40, 2))
    error = np.where(exact > 0, 0.25, -0.5).astype(np.float32)
    bias = mean_error([exact], [exact - error], (-8.0, 8.0), lambda x: x / (1 + np.exp(-x)))
    np.testing.assert_allclose(bias, 0.25, atol=0.01)
    assert (mean_error([exact], [exact - error], (-8.0, 8.0), None) < -0.4).all()


# --- whole models --------------------------------------------------------------------------------


def test_one_scale_for_a_filter() -> None:
    graph, samples = chain([1, 0.1])
    result = quantize_model(graph, samples, replace(PLAIN, per_channel=False))
    filters = [
        v.type for v in result.graph.values.values() if v.data is not None and v.data.ndim == 4
    ]
    assert len(filters) == 3
    for type in filters:
        assert type.quantization is not None
        assert type.quantization.is_per_tensor


@pytest.mark.parametrize("border", list(Border))
def test_borders_of_every_type(border: Border) -> None:
    graph, samples = chain([1, 0.5])
    options = replace(PLAIN, input_type=border, output_type=border)
    result = quantize_model(graph, samples, options)
    assert result.graph.inputs == graph.inputs
    assert result.graph.outputs == graph.outputs
    for name in (*graph.inputs, *graph.outputs):
        assert result.graph.type(name).dtype is border.dtype
    assert decibels(result, samples) > 25


def test_operators_without_8_bit_form_stay_float32() -> None:
    graph = Graph("mixed")
    graph.add_input("x", real(1, 4, 4, 4))
    first = conv(graph, "x", normal(np.random.default_rng(7), 4, 1, 1, 4))
    (middle,) = apply(graph, "floor", (first,))
    graph.outputs = [conv(graph, middle, normal(np.random.default_rng(8), 4, 1, 1, 4))]
    samples = [{"x": 50 * normal(np.random.default_rng(9), 1, 4, 4, 4)} for _ in range(4)]
    result = quantize_model(graph, samples, PLAIN)
    assert [node.op for node in result.graph.nodes()] == [
        "conv_2d", "dequantize", "floor", "quantize", "conv_2d"
    ]  # fmt: skip
    assert [reason.where for reason in result.floats] == ["floor 'floor'"]
    assert decibels(result, samples) > 30


def test_what_a_narrow_part_of_a_concatenation_keeps() -> None:
    """A part that others read, too, has a scale of its own; it is converted for the rest."""
    rng = np.random.default_rng(10)
    graph = Graph("parts")
    graph.add_input("x", real(1, 4, 4, 4))
    (narrow,) = apply(graph, "tanh", (conv(graph, "x", normal(rng, 4, 1, 1, 4)),))
    (narrow,) = apply(graph, "max_pool_2d", (narrow,), PoolAttributes((1, 1), (1, 1)))
    wide = conv(graph, "x", 100 * normal(rng, 4, 1, 1, 4))
    (joined,) = apply(graph, "concatenation", (narrow, wide), ConcatenationAttributes(3))
    (soft,) = apply(graph, "sigmoid", (narrow,))
    graph.outputs = [joined, soft]
    samples = [{"x": normal(rng, 1, 4, 4, 4)} for _ in range(4)]
    result = quantize_model(graph, samples, replace(PLAIN, mixed_outputs=Mixed.KEEP))
    assert q(result.graph, narrow).scale[0] < q(result.graph, joined).scale[0] / 10
    assert compare(graph, result.graph, samples).outputs[soft].decibels > 35


@pytest.mark.parametrize("width", [1.0, 100.0])
def test_halves_of_a_narrow_image_keep_a_scale_of_their_own(width: float) -> None:
    """Both halves are parts of a concatenation, and one is read by a layer, as in YOLOs' blocks."""
    rng = np.random.default_rng(12)
    graph = Graph("halves")
    graph.add_input("x", real(1, 4, 4, 4))
    image = conv(graph, "x", normal(rng, 4, 1, 1, 4))
    halves = "first", "second"
    for name in halves:
        graph.add_value(Value(name, real(1, 4, 4, 2)))
    graph.add_node(Node("halves", "split", (image,), halves, SplitAttributes(3, (2, 2))))
    result = conv(graph, "second", width * normal(rng, 2, 1, 1, 2))
    (joined,) = apply(graph, "concatenation", (*halves, result), ConcatenationAttributes(3))
    graph.outputs = [conv(graph, joined, normal(rng, 2, 1, 1, 6))]
    samples = [{"x": normal(rng, 1, 4, 4, 4)} for _ in range(4)]
    quantized = quantize_model(graph, samples, replace(PLAIN, equalize=False)).graph
    own = {q(quantized, name) for name in (image, *halves)}
    assert len(own) == 1
    assert (own == {q(quantized, joined)}) == (width == 1)
    if width > 1:
        assert own.pop().scale[0] < q(quantized, joined).scale[0] / 10


def test_costs_of_operators_and_what_to_do() -> None:
    graph, samples = chain([1, 0.5, 0.1])
    result = quantize_model(graph, samples, PLAIN)
    found = layers(result, samples[:2])
    (output,) = graph.outputs
    assert [layer.op for layer in found] == ["conv_2d", "depthwise_conv_2d", "conv_2d"]
    whole = compare(result.source, result.graph, samples[:2]).outputs[output]
    for layer in found:
        assert layer.alone[output].decibels > whole.decibels
        assert layer.others[output].decibels > whole.decibels - 3
    # What is measured last is the output itself.
    assert found[-1].here.decibels == pytest.approx(whole.decibels, abs=0.1)
    assert advice({output: whole}, found, result) == []
    bad = replace(whole, noise=whole.signal)
    assert any("--effort best" in text for text in advice({output: bad}, found, result))


def test_squares_and_quotients_by_constants_become_products() -> None:
    graph = Graph("products")
    graph.add_input("x", real(1, 4, 4, 4))
    (squared,) = apply(graph, "square", ("x",))
    divisor = graph.add_constant("k", np.array([1, 2, 4, 8], np.float32))
    graph.outputs = apply(graph, "div", (squared, divisor))
    samples = [{"x": normal(np.random.default_rng(11), 1, 4, 4, 4)} for _ in range(4)]
    result = quantize_model(graph, samples, PLAIN)
    assert [node.op for node in result.graph.nodes()] == ["mul", "mul"]
    assert compare(graph, result.graph, samples).outputs[graph.outputs[0]].decibels > 30


@pytest.mark.parametrize("least", [None, 1e-3])
def test_quotients_by_roots_become_products(least: float | None) -> None:
    """Layer normalization divides by a root; L2 normalization by one that is not too small."""
    graph = Graph("normalized")
    graph.add_input("x", real(1, 4, 4, 8))
    square = apply(graph, "mul", ("x", "x"))[0]
    (power,) = apply(graph, "sum", (square,), ReductionAttributes((3,), True))
    (divisor,) = apply(graph, "sqrt", (power,))
    if least is not None:
        bound = graph.add_constant("least", np.array(least, np.float32))
        (divisor,) = apply(graph, "maximum", (divisor, bound))
    zeros = graph.add_constant("zeros", np.zeros((1, 4, 4, 8), np.float32))
    (repeated,) = apply(graph, "add", (divisor, zeros))
    graph.outputs = apply(graph, "div", ("x", repeated))
    samples = [{"x": normal(np.random.default_rng(n), 1, 4, 4, 8)} for n in range(8)]
    result = quantize_model(graph, samples, PLAIN)
    operators = [node.op for node in result.graph.nodes()]
    between = [] if least is None else ["maximum"]
    assert operators == ["mul", "sum", *between, "rsqrt", "mul"]
    assert compare(graph, result.graph, samples).outputs[graph.outputs[0]].decibels > 25
    assert all(lowerings()[op] for op in operators)


@pytest.mark.parametrize("least", [-1.0, 0.0, 1e-30])
def test_quotients_by_bounded_roots_stay_where_the_bound_has_no_square(least: float) -> None:
    graph = Graph("bounded")
    graph.add_input("x", real(1, 4, 4, 8))
    (root,) = apply(graph, "sqrt", apply(graph, "mul", ("x", "x")))
    bound = graph.add_constant("least", np.array(least, np.float32))
    graph.outputs = apply(graph, "div", ("x", *apply(graph, "maximum", (root, bound))))
    assert "div" in [node.op for node in prepared(graph).nodes()]


def _normalized(least: float, most: float) -> tuple[Graph, list[Sample]]:
    """Numbers that are divided by others between two bounds, one for each pixel."""
    graph = Graph("normalized")
    graph.add_input("x", real(1, 4, 4, 8))
    graph.add_input("y", real(1, 4, 4, 1))
    (twice,) = apply(graph, "add", ("y", "y"))
    graph.outputs = apply(graph, "div", ("x", twice))
    samples: list[Sample] = []
    for number in range(8):
        rng = np.random.default_rng(number)
        y = rng.uniform(least, most, (1, 4, 4, 1)).astype(np.float32)
        samples.append({"x": normal(rng, 1, 4, 4, 8), "y": y})
    return graph, samples


@pytest.mark.parametrize("bounds", [(0.5, 2.0), (-3.0, -0.5)])
def test_quotients_by_similar_numbers_become_products(bounds: tuple[float, float]) -> None:
    graph, samples = _normalized(*bounds)
    result = quantize_model(graph, samples, PLAIN)
    operators = [node.op for node in result.graph.nodes()]
    assert operators == ["add", "div", "mul"]
    assert all(lowerings()[op] for op in operators)
    assert compare(graph, result.graph, samples).outputs[graph.outputs[0]].decibels > 30


@pytest.mark.parametrize("bounds", [(0.01, 2.0), (-1.0, 2.0), (1e-25, 2e-25)])
def test_quotients_by_other_numbers_stay(bounds: tuple[float, float]) -> None:
    result = quantize_model(*_normalized(*bounds), PLAIN)
    operators = [node.op for node in result.graph.nodes()]
    assert "div" in operators
    assert "mul" not in operators


def _masked(op: str, number: float) -> Graph:
    """Causal attention whose scores a number is added to, or put in the place of."""
    graph, count = Graph("masked"), 12
    x, y = (graph.add_input(name, real(1, count, 8)) for name in "xy")
    (scores,) = apply(graph, "batch_matmul", (x, y), BatchMatMulAttributes(False, True))
    hidden = np.triu(np.ones((1, count, count), np.bool_), 1)
    if op == "add":
        mask = np.where(hidden, np.float32(number), np.float32(0))
        (scores,) = apply(graph, "add", (scores, graph.add_constant("mask", mask)))
    else:
        chosen = graph.add_constant("number", np.array(number, np.float32))
        operands = (graph.add_constant("hidden", hidden), chosen, scores)
        (scores,) = apply(graph, "select", operands)
    (shares,) = apply(graph, "softmax", (scores,))
    graph.outputs = apply(graph, "batch_matmul", (shares, x), BatchMatMulAttributes())
    return graph


@pytest.mark.parametrize("beta", [1.0, 0.05])
def test_ranges_hold_what_counts_in_a_softmax_of_any_factor(beta: float) -> None:
    graph = Graph("tempered")
    graph.add_input("x", real(1, 64, 16))
    (twice,) = apply(graph, "add", ("x", "x"))
    graph.outputs = apply(graph, "softmax", (twice,), SoftmaxAttributes(beta))
    samples: list[Sample] = [
        {"x": normal(np.random.default_rng(seed), 1, 64, 16) / np.float32(beta)}
        for seed in range(4)
    ]
    result = quantize_model(graph, samples, PLAIN)
    assert compare(graph, result.graph, samples).outputs[graph.outputs[0]].largest < 0.03


def test_choices_that_add_an_axis_stay() -> None:
    graph = Graph("wider")
    x = graph.add_input("x", real(4, 16, 16))
    (twice,) = apply(graph, "add", (x, x))
    hidden = graph.add_constant("hidden", np.triu(np.ones((16, 16), np.bool_), 1))
    number = graph.add_constant("number", np.full((1, 1, 1, 1), -1e9, np.float32))
    (chosen,) = apply(graph, "select", (hidden, number, twice))
    graph.outputs = apply(graph, "softmax", (chosen,))
    samples: list[Sample] = [{"x": normal(np.random.default_rng(n), 4, 16, 16)} for n in range(4)]
    result = quantize_model(graph, samples, PLAIN)
    assert compare(graph, result.graph, samples).outputs[graph.outputs[0]].decibels > 20


@pytest.mark.parametrize("number", [-1e4, -1e9, float(np.finfo(np.float32).min), -math.inf])
@pytest.mark.parametrize("op", ["add", "select"])
def test_masks_leave_the_steps_to_what_counts(op: str, number: float) -> None:
    graph = _masked(op, number)
    samples: list[Sample] = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        samples.append({name: normal(rng, 1, 12, 8) for name in "xy"})
    result = quantize_model(graph, samples, PLAIN)
    operators = [node.op for node in result.graph.nodes()]
    assert operators == ["batch_matmul", "add", "softmax", "batch_matmul"]
    assert compare(graph, result.graph, samples).outputs[graph.outputs[0]].decibels > 25


def test_quotients_and_masks_of_nothing_stay() -> None:
    graph = Graph("nothing")
    x, y = (graph.add_input(name, real(0, 8)) for name in "xy")
    z = graph.add_input("z", real(2, 8))
    mask = graph.add_constant("mask", np.full((1, 8), -1e9, np.float32))
    (quotient,) = apply(graph, "div", (x, y))
    (shares,) = apply(graph, "softmax", apply(graph, "add", (quotient, mask)))
    graph.outputs = [shares, *apply(graph, "add", (z, z))]
    samples: list[Sample] = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        samples.append({"x": normal(rng, 0, 8), "y": normal(rng, 0, 8), "z": normal(rng, 2, 8)})
    result = quantize_model(graph, samples, PLAIN)
    assert [node.op for node in result.graph.nodes()].count("div") == 1


@pytest.mark.parametrize(("op", "number"), [("maximum", -1e38), ("minimum", 1e38)])
def test_numbers_that_are_never_chosen_take_no_steps(op: str, number: float) -> None:
    graph = Graph("bounded")
    graph.add_input("x", real(1, 4, 4, 8))
    bound = graph.add_constant("bound", np.array([number], np.float32))
    (sums,) = apply(graph, "add", ("x", "x"))
    graph.outputs = apply(graph, op, (sums, bound))
    samples = [{"x": normal(np.random.default_rng(n), 1, 4, 4, 8)} for n in range(8)]
    result = quantize_model(graph, samples, PLAIN)
    assert compare(graph, result.graph, samples).outputs[graph.outputs[0]].decibels > 35


def test_nothing_left_to_quantize_is_refused() -> None:
    graph, samples = chain([1.0])
    with pytest.raises(UnsupportedError, match="nothing is left"):
        quantize_model(graph, samples, replace(PLAIN, keep_float=["*"]))


# --- what counts ---------------------------------------------------------------------------------


def test_sensitivity_is_what_noise_in_a_channel_does_to_the_outputs() -> None:
    """Measured: white noise is added to one channel, and what follows is computed again."""
    graph, samples = chain([1.0, 0.1, 3.0, 0.5])
    found = sensitivities(graph, collect(graph, samples))
    rng = np.random.default_rng(5)
    for value in (graph.nodes()[0].outputs[0], graph.nodes()[1].outputs[0]):
        measured = np.zeros(4)
        for sample in samples:
            exact = evaluate(graph, sample, keep=True)
            output = graph.outputs[0]
            after = graph.cut(graph.outputs)
            for channel in range(4):
                values = dict(exact)
                disturbed = exact[value].copy()
                size = 1e-3
                disturbed[..., channel] += size * rng.normal(size=disturbed.shape[:-1])
                values[value] = disturbed.astype(np.float32)
                for node in after.nodes():
                    if value not in node.outputs and _depends(graph, node, value):
                        values.update(evaluate_node(graph, node, values, Arithmetic.XNNPACK))
                off = values[output].astype(np.float64) - exact[output]
                measured[channel] += np.square(off).mean() / size**2
        ratio = found[value] / measured
        assert ratio.max() < 2 * ratio.min(), (value, ratio)


def _depends(graph: Graph, node: Node, value: str) -> bool:
    operands = [name for name in node.inputs if name is not None]
    if value in operands:
        return True
    producers = [producer for name in operands if (producer := graph.producer(name)) is not None]
    return any(_depends(graph, producer, value) for producer in producers)


def test_scales_are_finer_where_more_depends_on_a_channel() -> None:
    """Two channels go as far, and ten times as much depends on the first."""
    rng = np.random.default_rng(3)
    graph = Graph("uneven")
    graph.add_input("x", real(1, 8, 8, 3))
    first = conv(graph, "x", normal(rng, 4, 1, 1, 3), Activation.RELU)
    weights = normal(rng, 4, 1, 1, 4) * np.array([10, 1, 1, 1], np.float32)
    graph.outputs = [conv(graph, first, weights)]
    samples = [{"x": normal(rng, 1, 8, 8, 3)} for _ in range(4)]
    found = equalize(graph, collect(graph, samples), [])
    before, after = collect(graph, samples)[first], found.scales[first]
    reach = before.reach / after
    assert reach[0] > 1.25 * reach[1:].max()
    wanted, got = (evaluate(g, samples[0])[graph.outputs[0]] for g in (graph, found.graph))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("biased", [False, True])
def test_means_of_others_do_not_move_the_elements_that_matter(biased: bool) -> None:
    """Most elements lose a half by what is cut off before them; the ones that matter nothing."""
    rng = np.random.default_rng(5)
    pixels = rng.uniform(0, 1, (1, 8, 8, 2)).astype(np.float32)
    pixels[..., 1] = 0
    pixels[:, 1:] = 4, 3.5
    graph = Graph("difference")
    graph.add_input("x", real(1, 8, 8, 2))
    kernel = graph.add_constant("w", np.array([1, -1], np.float32).reshape(1, 1, 1, 2))
    bias = (graph.add_constant("b", np.array([0.1], np.float32)),) if biased else ()
    (name,) = graph.outputs = list(apply(graph, "conv_2d", ("x", kernel, *bias), ConvAttributes()))
    samples = [{"x": pixels}]
    exact = evaluate(graph, samples[0])[name][:, :1]
    errors = []
    for bounds in ({}, {name: (0.0, 1.2)}):
        result = quantize_model(
            graph, samples, QuantizeOptions(), known={"x": (0.0, 1.0)}, bounds=bounds
        ).graph
        given = stored_input(pixels, result.type("x"))
        found = real_output(evaluate(result, {"x": given})[name], result.type(name))
        errors.append(float(np.abs(found[:, :1] - exact).max()))
    assert errors[0] > 0.2
    assert errors[1] < 0.01


@pytest.mark.parametrize("axis", [0, 3, None])
@pytest.mark.parametrize("factor", [1.0, -0.37])
def test_multiples_of_whole_numbers_are_exact(axis: int | None, factor: float) -> None:
    """Of 0 to 15, as an expectation has them, of binomials, and of others up to 100."""
    for whole in (np.arange(16), np.array([1, 4, 6, 4, 1]), np.array([100, 7, 0]), np.zeros(3)):
        kernel = np.broadcast_to(whole * np.float32(factor), (3, 3, 3, len(whole)))
        kernel = np.ascontiguousarray(kernel, np.float32)
        found = nearest(kernel, None, axis, 1.0, 1.0)
        np.testing.assert_allclose(found.real_filter(), kernel, rtol=1e-6, atol=0)


@pytest.mark.parametrize("axis", [0, 3, None])
def test_steps_of_filters_lose_no_more_than_the_finest_ones(axis: int | None) -> None:
    rng = np.random.default_rng(3)
    kernel = normal(rng, 8, 3, 3, 8) * np.exp(normal(rng, 8, 1, 1, 8))
    others = tuple(i for i in range(4) if i != axis)
    finest = np.abs(kernel).max(axis=others, keepdims=True).astype(np.float64) / 127
    plain = np.rint(kernel / finest) * finest
    found = nearest(kernel, None, axis, 1.0, 1.0).real_filter()
    ours, theirs = (np.square(x - kernel).sum(axis=others) for x in (found, plain))
    assert (ours <= theirs * (1 + 1e-5)).all()
    if axis is not None:
        assert ours.sum() < 0.95 * theirs.sum()


def _product(kernel: Array) -> tuple[Graph, Node, Parameters]:
    """A matrix product with weights [channels,taps], and its parameters, rounded to the nearest."""
    graph = Graph("product")
    graph.add_input("x", real(1, kernel.shape[1]))
    weights = graph.add_constant("w", kernel)
    graph.outputs = apply(graph, "fully_connected", ("x", weights))
    return graph, graph.nodes()[0], nearest(kernel, None, 0, 1.0, 1.0)


@pytest.mark.parametrize("rows", [16, 400])
def test_weights_that_are_rounded_together_lose_less(rows: int) -> None:
    """Inputs that go together, as means of pictures do; fewer of them than weights, and more."""
    rng = np.random.default_rng(4)
    base = normal(rng, 6, 64)
    inputs = (normal(rng, 2 * rows, 6) @ base + 0.02 * normal(rng, 2 * rows, 64)).astype(np.float32)
    kernel = normal(rng, 8, 64)
    graph, node, given = _product(kernel)
    found = compensated(graph, node, given, inputs[:rows])
    assert found.quantization == given.quantization
    assert np.abs(found.filter).max() <= 127
    unseen = inputs[rows:] - inputs[:rows].mean(axis=0)
    errors = [
        np.square(unseen @ (kernel - parameters.real_filter()).T).mean()
        for parameters in (given, found)
    ]
    assert errors[1] < 0.25 * errors[0]


def test_long_sums_are_rounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work for all weights of a sum at once would grow with their cube."""
    monkeypatch.setattr(fitting, "_MOST_TAPS", 64)
    rng = np.random.default_rng(5)
    kernel, inputs = normal(rng, 8, 150), normal(rng, 30, 6) @ normal(rng, 6, 150)
    inverted: list[int] = []
    inverse = np.linalg.inv

    def counting(matrices: Array) -> Array:
        inverted.append(matrices.shape[-1])
        return inverse(matrices)

    monkeypatch.setattr(np.linalg, "inv", counting)
    graph, node, given = _product(kernel)
    found = compensated(graph, node, given, inputs)
    assert inverted == [64, 64, 22]
    exact = inputs @ kernel.T
    errors = [
        np.square((inputs @ parameters.real_filter().T - exact).std(axis=0)).mean()
        for parameters in (given, found)
    ]
    assert errors[1] < 0.25 * errors[0]


def test_the_best_effort_keeps_what_is_better_and_counts_its_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, samples = chain([1.0, 0.1, 3.0, 0.5])
    made: list[Recipe] = []
    levels: dict[Recipe, float] = {}
    quantized = Calibrated.quantized

    def counting(self: Calibrated, recipe: Recipe, *rest: Any) -> Quantized:
        made.append(recipe)
        result = quantized(self, recipe, *rest)
        levels[recipe] = decibels(result, samples[1::2])
        return result

    monkeypatch.setattr(Calibrated, "quantized", counting)
    for trials in (1, 3, 6):
        made.clear()
        options = QuantizeOptions(effort=Effort.BEST, trials=trials)
        result = quantize_model(graph, samples, options)
        assert len(made) <= trials
        assert decibels(result, samples[1::2]) == max(levels[recipe] for recipe in made)
    with pytest.raises(UsageError, match="--trials"):
        quantize_model(graph, samples, QuantizeOptions(trials=0))


def test_borders_that_lose_every_comparison_have_no_part_in_ranges() -> None:
    rng = np.random.default_rng(3)
    graph = Graph("bordered")
    graph.add_input("x", real(1, 8, 8, 4))
    pad = PadAttributes((0, 1, 1, 0), (0, 1, 1, 0), LOWEST)
    (padded,) = apply(graph, "pad", ["x"], pad)
    pool = PoolAttributes((3, 3), (2, 2), PaddingScheme.VALID)
    graph.outputs = apply(graph, "max_pool_2d", [padded], pool)
    samples = [{"x": normal(rng, 1, 8, 8, 4) - 3} for _ in range(2)]
    found = collect(graph, samples)
    assert found[padded].extrema == found["x"].extrema
    quantized = quantize_model(graph, samples, PLAIN).graph
    levels = compare(graph, quantized, samples).outputs
    assert min(level.decibels for level in levels.values()) > 35
    # The file says the same to LiteRT, and to whoever reads it again.
    need_litert()
    (name,), data = quantized.inputs, write_model(export_model(quantized))
    x = rng.integers(-128, 128, (1, 8, 8, 4)).astype(np.int8)
    (wanted,) = LiteRtModel(data, xnnpack=False).run([x])
    for reading in (quantized, import_model(read_model(data, "again"), path="again")):
        (mine,) = evaluate(reading, {name: x}, Arithmetic.TFLITE).values()
        np.testing.assert_array_equal(mine, wanted)
