from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tests.support import need_litert

from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compilation.quantizing import quantize
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node, Value, print_graph
from fitzroy.compiler.ops.arrangement import (
    BatchBlockAttributes,
    MirrorPadAttributes,
    TileAttributes,
)
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes, TransposeConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ArgAttributes, ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    AxisAttributes,
    BlockAttributes,
    ConcatenationAttributes,
    GatherAttributes,
    PadAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.quantization.comparison import output_step
from fitzroy.compiler.quantization.options import Effort, QuantizeOptions
from fitzroy.compiler.quantization.parameters import filter_quantization
from fitzroy.compiler.quantization.ranges import asymmetric
from fitzroy.compiler.quantization.rules import RULES
from fitzroy.compiler.quantization.statistics import calibrate
from fitzroy.compiler.reference import evaluate
from fitzroy.formats.tflite import write_model
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic

F32 = DType.FLOAT32
IMAGE = (1, 4, 4, 4)


def real(*shape: int) -> TensorType:
    return TensorType(shape, F32)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def q(graph: Graph, name: str) -> Quantization:
    found = graph.type(name).quantization
    assert found is not None
    return found


def apply(
    graph: Graph,
    op: str,
    inputs: Sequence[str],
    attributes: Attributes | None = None,
    *,
    stem: str = "",
    results: int = 1,
    dtype: DType = F32,
) -> list[str]:
    """Add a node whose result shapes follow from the operator's own rule."""
    base = graph.fresh(stem or op)
    names = [base] if results == 1 else [f"{base}:{i}" for i in range(results)]
    node = Node(base, op, tuple(inputs), tuple(names), attributes or OPS[op].attributes())
    outputs = tuple(Value(name, TensorType((1,), dtype)) for name in names)
    call = Call(node, tuple(graph.value(name) for name in inputs), outputs)
    expected = OPS[op].infer(call)
    graph.add_node(node, [TensorType(e.shape, e.dtype or dtype) for e in expected])
    return names


def stored_inputs(graph: Graph, sample: Mapping[str, Array]) -> dict[str, Array]:
    return {
        name: numerics.quantize(sample[name], q(graph, name), DType.INT8) for name in graph.inputs
    }


def litert(graph: Graph, inputs: Mapping[str, Array], *, delegate: bool = True) -> list[Array]:
    """Results of LiteRT, with its XNNPACK delegate or with its own kernels only."""
    need_litert()
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    if delegate:
        resolver = OpResolverType.BUILTIN
    interpreter = Interpreter(
        model_content=write_model(export_model(graph)),
        experimental_op_resolver_type=resolver,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    for detail, name in zip(interpreter.get_input_details(), graph.inputs, strict=True):
        interpreter.set_tensor(detail["index"], inputs[name])
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


# --- every operator ------------------------------------------------------------------------------

ATTRIBUTES: dict[str, Attributes] = {
    "arg_max": ArgAttributes(3),
    "arg_min": ArgAttributes(3),
    "average_pool_2d": PoolAttributes((2, 2), (2, 2)),
    "batch_to_space": BatchBlockAttributes((1, 1), (0, 1), (1, 0)),
    "broadcast_to": ReshapeAttributes((2, 4, 4, 4)),
    "clamp": ClampAttributes(0.0, 6.0),
    "concatenation": ConcatenationAttributes(3),
    "conv_2d": ConvAttributes(padding=PaddingScheme.SAME, activation=Activation.RELU),
    "depth_to_space": BlockAttributes(2),
    "depthwise_conv_2d": ConvAttributes(stride=(2, 2), padding=PaddingScheme.SAME),
    "fully_connected": FullyConnectedAttributes(),
    "gather": GatherAttributes(1),
    "max_pool_2d": PoolAttributes((2, 2), (2, 2)),
    "mirror_pad": MirrorPadAttributes((0, 1, 1, 0), (0, 1, 0, 0)),
    "mean": ReductionAttributes((1, 2)),
    "pack": AxisAttributes(0),
    "pad": PadAttributes((0, 1, 1, 0), (0, 1, 1, 0)),
    "reduce_max": ReductionAttributes((1, 2)),
    "reduce_min": ReductionAttributes((1, 2), keep_dims=True),
    "reshape": ReshapeAttributes((1, 64)),
    "resize_bilinear": ResizeAttributes((8, 8)),
    "resize_nearest_neighbor": ResizeAttributes((8, 8)),
    "space_to_batch": BatchBlockAttributes((2, 2), (0, 1), (2, 1)),
    "space_to_depth": BlockAttributes(2),
    "split": SplitAttributes(3, (2, 2)),
    "strided_slice": StridedSliceAttributes((0, 1, 1, 0), (1, 2, 2, 4), (1, 1, 1, 1)),
    "sum": ReductionAttributes((1, 2)),
    "tile": TileAttributes((1, 2, 1, 3)),
    "transpose": TransposeAttributes((0, 2, 1, 3)),
    "transpose_conv": TransposeConvAttributes((2, 2), (0, 1, 0, 1), (8, 8)),
    "unpack": AxisAttributes(1),
}
PAIRS = (
    "add", "batch_matmul", "concatenation", "div", "maximum", "minimum", "mul", "pack",
    "select", "squared_difference", "sub",
)  # fmt: skip
FILTERS = {
    "conv_2d": (6, 3, 3, 4),
    "depthwise_conv_2d": (1, 3, 3, 8),
    "fully_connected": (6, 64),
    "transpose_conv": (5, 3, 3, 4),
}
POSITIVE = ("div", "log", "rsqrt", "sqrt")


def single(op: str, rng: np.random.Generator) -> tuple[Graph, list[dict[str, Array]]]:
    """A graph of one operator with samples."""
    graph = Graph(op)
    inputs = [graph.add_input("x", real(*IMAGE))]
    if op in PAIRS:
        inputs.append(graph.add_input("y", real(*IMAGE)))
    if op == "prelu":
        inputs.append(graph.add_constant("slope", normal(rng, 1, 1, 4)))
    if op == "gather":
        inputs.append(graph.add_constant("indices", np.array([0, 2, 1], np.int32)))
    if op == "gather_nd":
        inputs.append(graph.add_constant("indices", np.array([[0, 2], [0, 1]], np.int32)))
    if op == "select":
        chosen = rng.integers(0, 2, IMAGE).astype(np.bool_)
        inputs.insert(0, graph.add_constant("condition", chosen))
    if op in FILTERS:
        channels = FILTERS[op][OPS[op].channel_axis or 0]
        inputs.append(graph.add_constant("filter", normal(rng, *FILTERS[op])))
        inputs.append(graph.add_constant("bias", normal(rng, channels)))
    results = {"split": 2, "unpack": 4}.get(op, 1)
    dtype = DType.INT32 if op in ("arg_max", "arg_min") else F32
    attributes = ATTRIBUTES.get(op, OPS[op].attributes())
    graph.outputs = apply(graph, op, inputs, attributes, results=results, dtype=dtype, stem="r")
    samples = [{name: normal(rng, *IMAGE) for name in graph.inputs} for _ in range(4)]
    if op in POSITIVE:
        for sample in samples:
            sample.update({name: np.abs(x) + np.float32(1) for name, x in sample.items()})
    return graph, samples


def check(graph: Graph, sample: Mapping[str, Array], quantized: Graph, steps: float) -> None:
    """Compare with float32: the bound is in steps of the result's scale."""
    inputs = stored_inputs(quantized, sample)
    found = evaluate(quantized, inputs)
    wanted = evaluate(graph, sample)
    # Positions are exact for what the inputs have become.
    rounded = {name: numerics.dequantize(x, q(quantized, name)) for name, x in inputs.items()}
    for name in graph.outputs:
        if quantized.type(name).quantization is None:
            np.testing.assert_array_equal(found[name], evaluate(graph, rounded)[name])
            continue
        error = numerics.dequantize(found[name], q(quantized, name)) - wanted[name]
        assert np.abs(error).max() <= steps * q(quantized, name).scale[0]


@pytest.mark.parametrize("op", sorted(RULES))
def test_every_operator_stays_close_to_float32(op: str) -> None:
    graph, samples = single(op, np.random.default_rng(0))
    quantized = quantize(graph, samples)
    for sample in samples:
        check(graph, sample, quantized, steps=4)


@pytest.mark.parametrize("op", sorted(RULES))
def test_litert_runs_every_operator(op: str) -> None:
    graph, samples = single(op, np.random.default_rng(0))
    quantized = quantize(graph, samples)
    inputs = stored_inputs(quantized, samples[0])
    wanted = evaluate(quantized, inputs)
    results = litert(quantized, inputs, delegate=False)
    for name, found in zip(quantized.outputs, results, strict=True):
        assert found.dtype == wanted[name].dtype
        # LiteRT's own kernels round some results differently, by one step.
        assert np.abs(found.astype(np.int64) - wanted[name]).max() <= 1


# --- random graphs -------------------------------------------------------------------------------


class RandomNetwork:
    """A random graph of convolutions, branches and moves, with samples."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph(f"random{seed}")
        self.graph.add_input("x", real(1, 8, 8, int(self.rng.integers(1, 5))))
        x = "x"
        for _ in range(int(self.rng.integers(3, 8))):
            x = self.grow(x)
        (x,) = apply(self.graph, "mean", (x,), ReductionAttributes((1, 2)))
        channels = self.graph.type(x).shape[1]
        weights = self.graph.add_constant("dense/filter", normal(self.rng, 5, channels))
        (logits,) = apply(self.graph, "fully_connected", (x, weights), FullyConnectedAttributes())
        (result,) = apply(self.graph, "softmax", (logits,))
        self.graph.outputs = [logits, result]
        self.samples = [{"x": normal(self.rng, *self.graph.type("x").shape)} for _ in range(8)]

    def grow(self, x: str) -> str:
        steps = (self.conv, self.depthwise, self.branch, self.clamp, self.pad, self.concat)
        return steps[self.rng.integers(len(steps))](x)

    def conv(self, x: str) -> str:
        channels, outputs = self.graph.type(x).shape[3], int(self.rng.integers(2, 9))
        size = int(self.rng.choice([1, 3]))
        kernel = normal(self.rng, outputs, size, size, channels) / np.sqrt(size * size * channels)
        # Channels of very different magnitude are what scales per channel are for.
        kernel *= self.rng.uniform(0.1, 1, (outputs, 1, 1, 1))
        return self.weighted("conv_2d", x, kernel, outputs)

    def depthwise(self, x: str) -> str:
        channels = self.graph.type(x).shape[3]
        return self.weighted(
            "depthwise_conv_2d", x, normal(self.rng, 1, 3, 3, channels) / 3, channels
        )

    def weighted(self, op: str, x: str, kernel: Array, outputs: int) -> str:
        activation = [Activation.NONE, Activation.RELU, Activation.RELU6][self.rng.integers(3)]
        inputs = (
            x,
            self.graph.add_constant("filter", kernel.astype(np.float32)),
            self.graph.add_constant("bias", normal(self.rng, outputs) / 4),
        )
        attributes = ConvAttributes(padding=PaddingScheme.SAME, activation=activation)
        return apply(self.graph, op, inputs, attributes)[0]

    def branch(self, x: str) -> str:
        (sum_,) = apply(self.graph, "add", (x, self.depthwise(x)))
        return sum_

    def clamp(self, x: str) -> str:
        return apply(self.graph, "clamp", (x,), ClampAttributes(0.0, 6.0))[0]

    def pad(self, x: str) -> str:
        (x,) = apply(self.graph, "pad", (x,), PadAttributes((0, 1, 1, 0), (0, 1, 1, 0)))
        return apply(self.graph, "max_pool_2d", (x,), PoolAttributes((3, 3), (1, 1)))[0]

    def concat(self, x: str) -> str:
        (gate,) = apply(self.graph, "sigmoid", (x,))
        return apply(self.graph, "concatenation", (x, gate), ConcatenationAttributes(3))[0]


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_stay_close_to_float32(seed: int) -> None:
    network = RandomNetwork(seed)
    logits, probabilities = network.graph.outputs
    quantized = quantize(network.graph, network.samples)
    low, high = calibrate(network.graph, network.samples)[logits]
    for sample in network.samples:
        found = evaluate(quantized, stored_inputs(quantized, sample))
        wanted = evaluate(network.graph, sample)
        error = numerics.dequantize(found[logits], q(quantized, logits)) - wanted[logits]
        assert np.abs(error).max() <= 0.03 * (high - low)
        error = numerics.dequantize(found[probabilities], q(quantized, probabilities))
        assert np.abs(error - wanted[probabilities]).max() <= 0.05


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("arithmetic", list(numerics.Arithmetic))
def test_litert_agrees_on_random_networks(seed: int, arithmetic: numerics.Arithmetic) -> None:
    network = RandomNetwork(seed)
    quantized = quantize(network.graph, network.samples)
    inputs = stored_inputs(quantized, network.samples[0])
    wanted = evaluate(quantized, inputs, arithmetic)
    exact = arithmetic is numerics.Arithmetic.XNNPACK and platform.machine() in ("x86_64", "AMD64")
    results = litert(quantized, inputs, delegate=arithmetic is numerics.Arithmetic.XNNPACK)
    for name, found in zip(quantized.outputs, results, strict=True):
        assert np.abs(found.astype(np.int64) - wanted[name]).max() <= (0 if exact else 2)


def test_equal_inputs_give_equal_graphs() -> None:
    first, second = RandomNetwork(3), RandomNetwork(3)
    assert print_graph(quantize(first.graph, first.samples)) == print_graph(
        quantize(second.graph, second.samples)
    )


def test_the_source_is_not_changed() -> None:
    network = RandomNetwork(4)
    before = print_graph(network.graph)
    quantize(network.graph, network.samples)
    assert print_graph(network.graph) == before


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero_point"),
    [
        (0.0, 1.0, 1 / 255, -128),
        (-1.0, 0.0, 1 / 255, 127),
        (0.5, 1.0, 1 / 255, -128),
        (-3.0, -1.0, 3 / 255, 127),
        (-1.0, 3.0, 4 / 255, -64),
        (-0.25, 2.3, 0.01, -103),
        (0.0, 0.0, 1.0, 0),
    ],
)
def test_activation_ranges_contain_zero(
    low: float, high: float, scale: float, zero_point: int
) -> None:
    found = asymmetric(low, high)
    assert found == Quantization.per_tensor(scale, zero_point)


def test_filters_are_symmetric_narrow_and_per_channel() -> None:
    rng = np.random.default_rng(1)
    graph = Graph("filters")
    graph.add_input("x", real(1, 5, 5, 2))
    kernel = normal(rng, 3, 3, 3, 2) * np.array([0.01, 1, 100], np.float32)[:, None, None, None]
    inputs = ("x", graph.add_constant("w", kernel), graph.add_constant("b", normal(rng, 3)))
    (name,) = apply(graph, "conv_2d", inputs, ConvAttributes())
    (other,) = apply(
        graph, "depthwise_conv_2d", ("x", graph.add_constant("d", normal(rng, 1, 3, 3, 4))),
        ConvAttributes(),
    )  # fmt: skip
    graph.outputs = [name, other]
    options = QuantizeOptions(effort=Effort.FAST)
    quantized = quantize(graph, [{"x": normal(rng, 1, 5, 5, 2)}], options=options)
    filters = quantized.value("w")
    assert filters.data is not None
    assert filters.type.dtype is DType.INT8
    assert q(quantized, "w").axis == 0
    largest = np.abs(filters.data).max(axis=(1, 2, 3))
    assert (largest >= 64).all()
    assert (largest <= 127).all()
    np.testing.assert_allclose(
        numerics.dequantize(filters.data, q(quantized, "w")), kernel,
        atol=0, rtol=1, err_msg="scales do not follow the channels",
    )  # fmt: skip
    assert q(quantized, "d").axis == 3
    assert len(q(quantized, "d").scale) == 4
    bias = q(quantized, "b")
    assert quantized.type("b").dtype is DType.INT32
    assert bias.zero_point == (0, 0, 0)
    product = np.float32(q(quantized, "x").scale[0]) * np.asarray(q(quantized, "w").scale, "f")
    np.testing.assert_array_equal(np.asarray(bias.scale, np.float32), product)


def test_empty_channels_keep_their_bias() -> None:
    kernel, bias = np.zeros((2, 3), np.float32), np.array([0, 5], np.float32)
    found = filter_quantization(kernel, bias, 0, 0.01, 0.02)
    assert found.is_usable()
    graph = Graph("empty")
    graph.add_input("x", real(1, 3))
    inputs = ("x", graph.add_constant("w", kernel), graph.add_constant("b", bias))
    graph.outputs = apply(graph, "fully_connected", inputs, FullyConnectedAttributes())
    sample = {"x": np.array([[1, -1, 0.5]], np.float32)}
    check(graph, sample, quantize(graph, [sample]), steps=1)


def test_a_filter_with_two_readers_gets_a_bias_for_each() -> None:
    rng = np.random.default_rng(2)
    graph = Graph("twice")
    graph.add_input("x", real(1, 4))
    w, b = graph.add_constant("w", normal(rng, 4, 4)), graph.add_constant("b", normal(rng, 4))
    (first,) = apply(graph, "fully_connected", ("x", w, b), FullyConnectedAttributes())
    (second,) = apply(graph, "fully_connected", (first, w, b), FullyConnectedAttributes())
    graph.outputs = [second]
    samples = [{"x": normal(rng, 1, 4)} for _ in range(4)]
    quantized = quantize(graph, samples)
    constants = [v for v in quantized.values.values() if v.is_constant]
    assert sorted(v.type.dtype.value for v in constants) == ["int32", "int32", "int8"]
    check(graph, samples[0], quantized, steps=4)


# --- sharing -------------------------------------------------------------------------------------


def test_operators_that_copy_share_one_quantization() -> None:
    rng = np.random.default_rng(5)
    graph = Graph("copies")
    graph.add_input("x", real(1, 4, 4, 2))
    graph.add_input("y", real(1, 4, 4, 2))
    extra = graph.add_constant("extra", np.full((1, 4, 4, 1), 30, np.float32))
    (joined,) = apply(graph, "concatenation", ("x", "y", extra), ConcatenationAttributes(3))
    (pooled,) = apply(graph, "max_pool_2d", (joined,), PoolAttributes((2, 2), (2, 2)))
    (flat,) = apply(graph, "reshape", (pooled,), ReshapeAttributes((1, 20)))
    graph.outputs = [flat]
    samples = [{"x": normal(rng, 1, 4, 4, 2), "y": normal(rng, 1, 4, 4, 2) * 10}]
    quantized = quantize(graph, samples)
    names = ("x", "y", "extra", joined, pooled, flat)
    assert len({quantized.type(name).quantization for name in names}) == 1
    assert q(quantized, "x").scale[0] * 255 >= 30


@pytest.mark.parametrize(
    ("op", "scale", "zero_point"),
    [
        ("softmax", 1 / 256, -128),
        ("sigmoid", 1 / 256, -128),
        ("tanh", 1 / 128, 0),
        ("l2_normalization", 1 / 128, 0),
        ("log_softmax", 1 / 16, 127),
    ],
)
def test_fixed_results_and_their_copies(op: str, scale: float, zero_point: int) -> None:
    graph, samples = single(op, np.random.default_rng(6))
    (copy,) = apply(graph, "reshape", graph.outputs, ReshapeAttributes((64,)))
    graph.outputs = [copy]
    quantized = quantize(graph, samples)
    assert q(quantized, copy) == Quantization.per_tensor(scale, zero_point)
    assert [node.op for node in quantized.nodes()] == [op, "reshape"]


def test_fixed_results_are_converted_where_others_share() -> None:
    graph = Graph("mixed")
    graph.add_input("x", real(1, 8))
    (gate,) = apply(graph, "sigmoid", ("x",))
    (joined,) = apply(graph, "concatenation", ("x", gate), ConcatenationAttributes(1))
    graph.outputs = [joined]
    samples = [{"x": np.linspace(-8, 8, 8, dtype=np.float32)[None]}]
    quantized = quantize(graph, samples)
    assert [node.op for node in quantized.nodes()] == ["sigmoid", "quantize", "concatenation"]
    raw = quantized.nodes()[0].outputs[0]
    assert q(quantized, raw) == Quantization.per_tensor(1 / 256, -128)
    check(graph, samples[0], quantized, steps=1)


def test_what_feeds_only_a_clamp_saturates_with_it() -> None:
    graph = Graph("clamped")
    graph.add_input("x", real(1, 8))
    graph.add_input("y", real(1, 8))
    (total,) = apply(graph, "add", ("x", "y"))
    (clamped,) = apply(graph, "clamp", (total,), ClampAttributes(0.0, 6.0))
    graph.outputs = [clamped]
    line = np.linspace(-50, 50, 8, dtype=np.float32)[None]
    quantized = quantize(graph, [{"x": line, "y": line}])
    assert q(quantized, clamped) == asymmetric(0, 6)
    (node,) = quantized.nodes()
    assert node.attributes == ActivationAttributes(Activation.RELU6)
    graph.outputs = [clamped, total]
    quantized = quantize(graph, [{"x": line, "y": line}])
    assert q(quantized, total) == asymmetric(-100, 100)


# --- borders -------------------------------------------------------------------------------------


def test_float_borders() -> None:
    network = RandomNetwork(7)
    inside = quantize(network.graph, network.samples)
    quantized = quantize(network.graph, network.samples, io="float")
    assert (quantized.inputs, quantized.outputs) == (network.graph.inputs, network.graph.outputs)
    for name in (*quantized.inputs, *quantized.outputs):
        assert quantized.type(name) == network.graph.type(name)
    sample = network.samples[0]
    found = evaluate(quantized, sample)
    integers = evaluate(inside, stored_inputs(inside, sample))
    for name in network.graph.outputs:
        wanted = numerics.dequantize(integers[name], q(inside, name))
        np.testing.assert_array_equal(found[name], wanted)


def test_litert_takes_float_borders() -> None:
    network = RandomNetwork(7)
    quantized = quantize(network.graph, network.samples, io="float")
    wanted = evaluate(quantized, network.samples[0])
    inside = quantize(network.graph, network.samples)
    for name, found in zip(quantized.outputs, litert(quantized, network.samples[0]), strict=True):
        np.testing.assert_allclose(found, wanted[name], rtol=0, atol=2 * q(inside, name).scale[0])


def test_values_that_are_not_real_stay() -> None:
    graph = Graph("indices")
    graph.add_input("x", real(1, 8))
    graph.add_input("i", TensorType((3,), DType.INT32))
    (picked,) = apply(graph, "gather", ("x", "i"), GatherAttributes(1))
    graph.outputs = [picked, "i"]
    sample = {"x": normal(np.random.default_rng(8), 1, 8), "i": np.array([1, 0, 7], np.int32)}
    quantized = quantize(graph, [sample], io="float")
    found = evaluate(quantized, sample)
    np.testing.assert_array_equal(found["i"], sample["i"])
    np.testing.assert_allclose(found[picked], sample["x"][:, [1, 0, 7]], atol=0.02)


# --- refusals ------------------------------------------------------------------------------------


def test_joined_integers_stay() -> None:
    graph = Graph("indices")
    for name in ("i", "j"):
        graph.add_input(name, TensorType((1, 1), DType.INT32))
    graph.add_input("x", real(3, 4))
    (rows,) = apply(
        graph, "concatenation", ("i", "j"), ConcatenationAttributes(1), dtype=DType.INT32
    )
    graph.outputs = apply(graph, "gather_nd", ("x", rows))
    one = np.ones((1, 1), np.int32)
    quantized = quantize(graph, [{"i": one, "j": one, "x": np.ones((3, 4), np.float32)}])
    assert quantized.type(rows).dtype is DType.INT32


def test_unknown_operators_are_named() -> None:
    graph = Graph("refused")
    graph.add_input("x", real(1, 8))
    (floor,) = apply(graph, "floor", ("x",), stem="lower")
    (cosine,) = apply(graph, "cos", (floor,), stem="wave")
    graph.outputs = [cosine]
    with pytest.raises(UnsupportedError) as caught:
        quantize(graph, [{"x": np.zeros((1, 8), np.float32)}])
    assert [reject.where for reject in caught.value.rejects] == ["floor 'lower'", "cos 'wave'"]
    assert "no 8-bit kernel for floor" in str(caught.value)


def test_filters_computed_at_run_time_are_refused() -> None:
    graph = Graph("dynamic")
    graph.add_input("x", real(1, 8))
    graph.add_input("w", real(4, 8))
    graph.outputs = apply(graph, "fully_connected", ("x", "w"), FullyConnectedAttributes())
    sample = {"x": np.zeros((1, 8), np.float32), "w": np.zeros((4, 8), np.float32)}
    with pytest.raises(UnsupportedError, match="the filter is computed at run time"):
        quantize(graph, [sample])


def test_quantized_graphs_are_refused() -> None:
    network = RandomNetwork(9)
    quantized = quantize(network.graph, network.samples)
    with pytest.raises(UnsupportedError, match="only float32 values can be quantized"):
        quantize(quantized, [stored_inputs(quantized, network.samples[0])])


def test_constant_outputs_are_refused() -> None:
    graph = Graph("constant")
    graph.outputs = [graph.add_constant("c", np.ones(3, np.float32))]
    with pytest.raises(UnsupportedError, match="the output 'c' is a constant"):
        quantize(graph, [{}])


@pytest.mark.parametrize(
    ("samples", "options", "text"),
    [
        ([], {}, "at least one sample"),
        ([{}], {}, "no array for input 'x'"),
        ([{"x": np.zeros((2, 8), np.float32)}], {}, r"takes float32\[1, 8\]"),
        ([{"x": np.full((1, 8), np.nan, np.float32)}], {}, "'x' is not finite on sample 0"),
        ([{"x": np.zeros((1, 8), np.float32)}], {"dtype": DType.UINT8}, "not to uint8"),
        ([{"x": np.zeros((1, 8), np.float32)}], {"io": "double"}, "'double'"),
    ],
)
def test_wrong_requests(samples: Any, options: dict[str, Any], text: str) -> None:
    graph = Graph("usage")
    graph.add_input("x", real(1, 8))
    graph.add_node(Node("n", "negate", ("x",), ("n",), NO_ATTRIBUTES), [real(1, 8)])
    graph.outputs = ["n"]
    with pytest.raises(UsageError, match=text):
        quantize(graph, samples, **options)


@pytest.mark.parametrize("arithmetic", list(Arithmetic))
@pytest.mark.parametrize("zero", [0, 3])
def test_one_scale_and_two_types(zero: int, arithmetic: Arithmetic) -> None:
    """Equal scales and zero points do not make nothing of a conversion between types."""
    same = Quantization.per_tensor(0.5, zero)
    for first, second in ((DType.INT8, DType.UINT8), (DType.UINT8, DType.INT8)):
        graph = Graph("conversion")
        graph.add_input("x", TensorType((256,), first, same))
        result = TensorType((256,), second, same)
        graph.outputs = [graph.emit("quantize", ["x"], result, stem="y")]
        x = np.arange(first.limits[0], first.limits[1] + 1).astype(first.numpy)
        (y,) = evaluate(graph, {"x": x}, arithmetic).values()
        assert y.dtype == second.numpy
        np.testing.assert_array_equal(y, np.clip(x.astype(int), *second.limits))


def test_the_step_of_an_output_is_that_of_what_it_is_dequantized_from() -> None:
    graph = Graph("steps")
    stored = TensorType((1, 6), DType.INT8, Quantization.per_tensor(0.25, 3))
    graph.add_input("x", stored)
    numbers = graph.emit("dequantize", ["x"], real(1, 6))
    moved = graph.emit("reshape", [numbers], real(6), ReshapeAttributes((6,)))
    function = graph.emit("sigmoid", [moved], real(6))
    assert [output_step(graph, name) for name in ("x", numbers, moved)] == [0.25, 0.25, 0.25]
    assert output_step(graph, function) == 0
