"""Quantized ONNX models become quantized operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.edgetpu.test_integers import on_host
from tests.compiler.onnx.models import compare, expected, helper, model, operators, read

from fitzroy.base.types import Array, DType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate
from fitzroy.execution.interpreter import Interpreter

RNG = np.random.default_rng(11)


def steps_apart(graph: Graph, data: bytes, x: Array, step: float) -> float:
    """Largest difference to ONNX's own evaluator, in steps of the result's scale."""
    found = evaluate(graph, {"x": x})["y"]
    (wanted,) = expected(data, {"x": x})
    return float(np.abs(found - wanted).max() / step)


def conversions(source: str, scale: str, zero: str, target: str) -> list[Any]:
    """A value quantized and dequantized."""
    node = helper().make_node
    return [
        node("QuantizeLinear", [source, scale, zero], [f"{target}/q"]),
        node("DequantizeLinear", [f"{target}/q", scale, zero], [target]),
    ]


def converted_network(activation: type, filters: type) -> bytes:
    """Two convolutions, a rectifier, a sum and a matrix product between conversions."""
    node, rng = helper().make_node, np.random.default_rng(2)
    nodes = [
        *conversions("x", "sx", "zx", "x/d"),
        node("DequantizeLinear", ["w", "sw", "zw"], ["w/d"], axis=0),
        node("DequantizeLinear", ["b", "sb", "zb"], ["b/d"], axis=0),
        node("Conv", ["x/d", "w/d", "b/d"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        *conversions("r", "sr", "zr", "r/d"),
        node("Add", ["r/d", "r/d"], ["a"]),
        *conversions("a", "sa", "zr", "a/d"),
        node("Concat", ["a/d", "r/d"], ["k"], axis=1),
        *conversions("k", "sa", "zr", "k/d"),
        node("GlobalAveragePool", ["k/d"], ["g"]),
        *conversions("g", "sr", "zr", "g/d"),
        node("Flatten", ["g/d"], ["f"]),
        *conversions("f", "sr", "zr", "f/d"),
        node("DequantizeLinear", ["m", "sm", "zm"], ["m/d"]),
        node("MatMul", ["f/d", "m/d"], ["p"]),
        *conversions("p", "sp", "zx", "y"),
    ]
    zero = 0 if activation is np.int8 else 128
    limit = 127
    scales = np.array([0.01, 0.02, 0.005, 0.015], np.float32)
    constants = {
        "sx": np.float32(0.02), "zx": activation(zero), "zr": activation(zero - 120),
        "sr": np.float32(0.03), "sa": np.float32(0.06), "sp": np.float32(0.1),
        "w": rng.integers(-limit, limit, (4, 3, 3, 3)).astype(filters),
        "sw": scales, "zw": np.zeros(4, filters),
        "b": rng.integers(-500, 500, 4).astype(np.int32),
        "sb": scales * np.float32(0.02), "zb": np.zeros(4, np.int32),
        "m": rng.integers(-limit, limit, (8, 5)).astype(filters),
        "sm": np.float32(0.01), "zm": filters(0),
    }  # fmt: skip
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    return model(nodes, [("x", [1, 3, 6, 7])], ["y"], arrays, opset=21)


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
def test_operators_between_conversions_compute_on_integers(activation: type) -> None:
    data = converted_network(activation, np.int8)
    graph = read(data, Reading(keep_layout=True))
    found = operators(graph)
    assert found.count("dequantize") == 1, "of the result alone"
    for node in graph.nodes():
        if node.op in ("conv_2d", "add", "concatenation", "mean", "fully_connected"):
            assert graph.type(node.outputs[0]).dtype is DType.INT8, node
    x = RNG.standard_normal((1, 3, 6, 7)).astype(np.float32)
    assert steps_apart(graph, data, x, 0.1) <= 1.01


def test_filters_keep_their_integers() -> None:
    data = converted_network(np.int8, np.int8)
    graph = read(data)
    (node,) = [node for node in graph.nodes() if node.op == "conv_2d"]
    kernel = graph.value(str(node.inputs[1]))
    assert kernel.type.quantization is not None
    assert kernel.type.quantization.axis == 0
    assert kernel.type.quantization.scale == pytest.approx([0.01, 0.02, 0.005, 0.015])
    assert graph.type(str(node.inputs[2])).dtype is DType.INT32


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
def test_sums_that_are_not_converted_before_a_function_are_for_the_chip(activation: type) -> None:
    """The filter keeps its integers, and the chip computes all but what is at the borders."""
    node, rng = helper().make_node, np.random.default_rng(7)
    nodes = [
        *conversions("x", "sx", "zx", "x/d"),
        node("DequantizeLinear", ["w", "sw", "zw"], ["w/d"], axis=0),
        node("Conv", ["x/d", "w/d", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("Sigmoid", ["c"], ["s"]),
        node("Mul", ["c", "s"], ["m"]),
        *conversions("m", "sm", "zm", "y"),
    ]
    zero = 0 if activation is np.int8 else 128
    constants = {
        "sx": np.float32(0.02), "zx": activation(zero),
        "sm": np.float32(0.03), "zm": activation(zero - 118),
        "w": rng.integers(-127, 127, (4, 3, 3, 3)).astype(np.int8),
        "sw": np.array([0.01, 0.02, 0.005, 0.015], np.float32), "zw": np.zeros(4, np.int8),
        "b": rng.normal(0, 0.5, 4).astype(np.float32),
    }  # fmt: skip
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    data = model(nodes, [("x", [1, 3, 6, 7])], ["y"], arrays, opset=21)
    graph = read(data)
    (kernel,) = [node.inputs[1] for node in graph.nodes() if node.op == "conv_2d"]
    producer = graph.producer(str(kernel))
    assert producer is not None
    stored = graph.value(str(producer.inputs[0]))
    assert stored.is_constant
    assert stored.type.dtype is DType.INT8
    compiled = compile_edgetpu(Source.of(graph))
    assert on_host(compiled) <= {"quantize", "dequantize", "transpose"}
    x = RNG.standard_normal((1, 3, 6, 7)).astype(np.float32)
    (found,) = Interpreter(compiled.data, device="sim:direct").run({"x": x}).values()
    (wanted,) = expected(data, {"x": x})
    assert np.abs(found - wanted).max() <= 0.03 * 1.01
    assert np.abs(found - wanted).mean() < 0.001


@pytest.mark.parametrize("biases", [[1.5, -0.7, 0.2, 3.0], [30, -14, 4, 60]])
def test_offsets_become_biases_of_filters_that_keep_their_integers(biases: list[float]) -> None:
    node, rng = helper().make_node, np.random.default_rng(4)
    known = all(isinstance(bias, float) for bias in biases)
    nodes = [
        *conversions("x", "sx", "zx", "x/d"),
        node("DequantizeLinear", ["w", "sw", "zw"], ["w/d"]),
        *([] if known else [node("DequantizeLinear", ["b", "sb", "zw"], ["b/d"])]),
        node("MatMul", ["x/d", "w/d"], ["m"]),
        node("Add", ["b" if known else "b/d", "m"], ["s"]),
        *conversions("s", "sy", "zx", "y"),
    ]
    constants: dict[str, Array] = {
        "sx": np.array(0.02, np.float32), "zx": np.array(5, np.int8),
        "w": rng.integers(-127, 128, (6, 4)).astype(np.int8),
        "sw": np.array(0.01, np.float32), "zw": np.array(0, np.int8),
        "b": np.array(biases, np.float32 if known else np.int8),
        "sb": np.array(0.05, np.float32), "sy": np.array(0.1, np.float32),
    }  # fmt: skip
    data = model(nodes, [("x", [1, 5, 6])], ["y"], constants, opset=21)
    graph = read(data)
    assert operators(graph) == ["quantize", "fully_connected", "dequantize"]
    x = rng.standard_normal((1, 5, 6)).astype(np.float32)
    assert steps_apart(graph, data, x, 0.1) <= 1.01


def test_quantized_inputs_have_channels_last() -> None:
    graph = read(converted_network(np.int8, np.int8), Reading())
    assert graph.type("x").shape == (1, 6, 7, 3)
    assert "transpose" not in operators(graph)


def test_graph_input_of_integers_is_quantized() -> None:
    node = helper().make_node
    nodes = [node("DequantizeLinear", ["x", "s", "z"], ["y"])]
    constants: dict[str, Array] = {"s": np.array(0.5, np.float32), "z": np.array(3, np.int8)}
    graph = read(model(nodes, [("x", [4])], ["y"], constants, dtype=DType.INT8))
    quantization = graph.type("x").quantization
    assert quantization is not None
    assert quantization.zero_point == (3,)
    found = evaluate(graph, {"x": np.array([3, 4, 5, -1], np.int8)})["y"]
    assert found.tolist() == [0, 0.5, 1, -2]


def test_scales_that_vary_are_computed() -> None:
    node = helper().make_node
    nodes = [
        node("ReduceMax", ["x"], ["s"], keepdims=0),
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    data = model(nodes, [("x", [3, 4])], ["y"], {"z": np.array(7, np.uint8)}, opset=21)
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    assert steps_apart(read(data), data, x, float(x.max())) <= 0.001


@pytest.mark.parametrize(
    ("op", "shape", "filter", "attributes"),
    [
        ("Conv", (1, 2, 4, 6, 6), (3, 2, 3, 3, 3), {"pads": [1] * 6}),
        ("ConvTranspose", (1, 4, 5, 6), (4, 2, 3, 3), {"dilations": [2, 3]}),
        ("ConvTranspose", (1, 4, 6), (4, 2, 3), {"dilations": [2]}),
    ],
)
def test_filters_of_integers_are_known(
    op: str, shape: tuple[int, ...], filter: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    node = helper().make_node
    nodes = [
        node("DequantizeLinear", ["w", "sw", "zw"], ["w/d"], axis=1),
        node(op, ["x", "w/d"], ["y"], **attributes),
    ]
    constants: dict[str, Array] = {
        "w": RNG.integers(-127, 127, filter).astype(np.int8),
        "sw": np.array([0.01, 0.02], np.float32), "zw": np.array([3, 0], np.int8),
    }  # fmt: skip
    data = model(nodes, [("x", shape)], ["y"], constants, opset=21)
    compare(data, {"x": RNG.standard_normal(shape).astype(np.float32)})


def test_padding_may_be_a_number_that_an_integer_stands_for() -> None:
    node = helper().make_node
    nodes = [
        node("DequantizeLinear", ["border", "s", "z"], ["value"]),
        node("Pad", ["x", "pads", "value"], ["y"]),
    ]
    constants: dict[str, Array] = {
        "border": np.array(137, np.uint8), "s": np.array(0.03, np.float32),
        "z": np.array(120, np.uint8), "pads": np.array([0, 1, 2, 0]),
    }  # fmt: skip
    data = model(nodes, [("x", [2, 3])], ["y"], constants, opset=21)
    compare(data, {"x": RNG.standard_normal((2, 3)).astype(np.float32)})
