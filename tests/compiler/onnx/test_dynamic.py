"""Models that ONNX Runtime's `quantize_dynamic` writes, against ONNX Runtime.

Each is compared with the float32 model that has the real numbers of its integer weights, which has
to give the same, and with the model itself, which also rounds activations.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler.onnx.models import Port, executed, helper, model, operators, read
from tests.support import need

from fitzroy.base.types import Array, DType
from fitzroy.compilation.quantizing import quantize
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate

RNG = np.random.default_rng(8)


def real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper().make_node(kind, inputs, outputs, **attributes)


def products() -> bytes:
    constants = {"a": real(6, 9), "b": real(9), "c": real(5, 9), "d": real(5)}
    nodes = [
        node("MatMul", ["x", "a"], ["xa"]),
        node("Add", ["xa", "b"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("Gemm", ["r", "c", "d"], ["y"], transB=1),
    ]
    return model(nodes, [("x", [4, 6])], ["y"], constants)


def convolutions() -> bytes:
    constants = {"a": real(8, 3, 3, 3), "b": real(8), "c": real(8, 1, 3, 3)}
    nodes = [
        node("Conv", ["x", "a", "b"], ["h"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["h"], ["r"]),
        node("Conv", ["r", "c"], ["y"], group=8, pads=[1, 1, 1, 1]),
    ]
    return model(nodes, [("x", [1, 3, 10, 8])], ["y"], constants)


def memory(directions: int = 1) -> bytes:
    constants = {
        "w": real(directions, 28, 5) / 3,
        "r": real(directions, 28, 7) / 3,
        "b": real(directions, 56) / 5,
    }
    direction = "bidirectional" if directions > 1 else "forward"
    nodes = [node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=7, direction=direction)]
    return model(nodes, [("x", [6, 1, 5])], ["y"], constants)


def embedding() -> bytes:
    constants = {"table": real(11, 8), "w": real(8, 4)}
    nodes = [
        node("Gather", ["table", "x"], ["rows"]),
        node("MatMul", ["rows", "w"], ["p"]),
        node("Tanh", ["rows"], ["t"]),
        node("MatMul", ["t", "w"], ["q"]),
        node("Add", ["p", "q"], ["y"]),
    ]
    return model(nodes, [("x", [1, 6])], ["y"], constants, dtype=DType.INT64)


MODELS: dict[str, tuple[Callable[[], bytes], int]] = {
    "products": (products, 2),
    "convolutions": (convolutions, 2),
    "memory": (memory, 1),
    "memory in both directions": (lambda: memory(2), 1),
    "embedding": (embedding, 1),
}
"""What makes a model, and how many of its operators round activations."""


def dynamic(data: bytes, folder: Path, *, signed: bool, per_channel: bool) -> bytes:
    """What `quantize_dynamic` makes of a model."""
    need("onnxruntime", "dev")
    from onnxruntime.quantization import QuantType, quantize_dynamic

    before, after = folder / "float.onnx", folder / "dynamic.onnx"
    before.write_bytes(data)
    kind = QuantType.QInt8 if signed else QuantType.QUInt8
    quantize_dynamic(before, after, weight_type=kind, per_channel=per_channel)
    return after.read_bytes()


def with_rounded_weights(data: bytes, made: bytes) -> bytes:
    """A float32 model with the weights of another one, as real numbers."""
    import onnx
    from onnx import numpy_helper

    proto, source = onnx.ModelProto.FromString(data), onnx.ModelProto.FromString(made)
    held = {one.name: numpy_helper.to_array(one) for one in source.graph.initializer}
    for tensor in proto.graph.initializer:
        for name in (tensor.name, f"{tensor.name}_Transposed"):
            if f"{name}_quantized" not in held:
                continue
            scale, zero = held[f"{name}_scale"], held[f"{name}_zero_point"]
            weights = held[f"{name}_quantized"].astype(np.float32)
            if weights.ndim == 3:
                scale, zero = (one.reshape(len(weights), 1, -1) for one in (scale, zero))
            weights = (weights - zero.astype(np.float32)) * scale
            if weights.shape != tuple(tensor.dims):
                weights = weights.swapaxes(-1, -2)
            rounded = numpy_helper.from_array(np.ascontiguousarray(weights), tensor.name)
            tensor.CopyFrom(rounded)
    return bytes(proto.SerializeToString())


def sample(data: bytes) -> Array:
    import onnx

    (port,) = onnx.ModelProto.FromString(data).graph.input
    shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
    if port.type.tensor_type.elem_type == onnx.TensorProto.INT64:
        return RNG.integers(0, 11, shape)
    return real(*shape)


def check(graph: Graph, data: bytes, made: bytes, *, rounding: int) -> None:
    """Hold a graph to the float32 model with rounded weights, and to the model itself."""
    assert not {*operators(graph)} & {"quantize", "dequantize", "cast", "round"}
    (remark,) = graph.remarks
    assert remark.code == "onnx-dynamic"
    assert remark.what.startswith(f"{rounding} operator")
    for _ in range(3):
        x = sample(data)
        (found,) = evaluate(graph, {"x": x}).values()
        (exact,) = executed(with_rounded_weights(data, made), {"x": x})
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)
        (rounded,) = executed(made, {"x": x})
        np.testing.assert_allclose(found, rounded, atol=0.03 * abs(exact).max())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("signed", "per_channel"), [(True, False), (False, False), (True, True)])
def test_what_is_rounded_stays_real(
    tmp_path: Path, name: str, signed: bool, per_channel: bool
) -> None:
    made, rounding = MODELS[name]
    data = made()
    written = dynamic(data, tmp_path, signed=signed, per_channel=per_channel)
    check(read(written), data, written, rounding=rounding)


def test_models_that_onnx_runtime_has_optimized(tmp_path: Path) -> None:
    """They have one operator in the place of several."""
    data = products()
    written = dynamic(data, tmp_path, signed=True, per_channel=False)
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(written, options)
    optimized = (tmp_path / "optimized.onnx").read_bytes()
    kinds = {one.op_type for one in onnx.ModelProto.FromString(optimized).graph.node}
    assert "DynamicQuantizeMatMul" in kinds
    check(read(optimized), data, written, rounding=2)


def test_products_of_integers_with_scales_as_one_operator() -> None:
    """Of integers that are rounded as the model runs, and of others."""
    constants: dict[str, Array] = {
        "w": RNG.integers(-127, 128, (6, 4)).astype(np.int8),
        "ws": np.array([0.01, 0.02, 0.03, 0.04], np.float32),
        "b": real(4),
    }
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper().make_node(
            "MatMulIntegerToFloat",
            ["q", "w", "s", "ws", "z", "", "b"],
            ["y"],
            domain="com.microsoft",
        ),
    ]
    inputs: list[Port] = [("x", [3, 6])]
    data = model(nodes, inputs, ["y"], constants)
    x = real(3, 6)
    graph = read(data)
    (found,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(found, x @ (constants["w"] * constants["ws"]) + constants["b"], 1e-5)
    (rounded,) = executed(data, {"x": x})
    step = (max(x.max(), 0) - min(x.min(), 0)) / 255
    most = step * abs(constants["w"] * constants["ws"]).sum(axis=0)
    assert (abs(found - rounded) <= most).all()
    scales: dict[str, Array] = {"s": np.array(0.05, np.float32), "z": np.array(3, np.uint8)}
    known = model(
        [node("QuantizeLinear", ["x", "s", "z"], ["q"]), nodes[1]],
        inputs,
        ["y"],
        constants | scales,
    )
    (found,) = evaluate(read(known), {"x": x}).values()
    (wanted,) = executed(known, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_images_have_channels_last(tmp_path: Path) -> None:
    written = dynamic(convolutions(), tmp_path, signed=True, per_channel=False)
    graph = read(written, Reading())
    assert graph.type("x").shape == (1, 10, 8, 3)
    # The output has ONNX's order.
    *before, last = operators(graph)
    assert last == "transpose"
    assert last not in before


@pytest.mark.parametrize("name", ["products", "convolutions", "memory", "embedding"])
def test_they_are_quantized_with_samples(tmp_path: Path, name: str) -> None:
    """As any float32 model."""
    data = MODELS[name][0]()
    graph = read(dynamic(data, tmp_path, signed=True, per_channel=False))
    samples = [{"x": sample(data)} for _ in range(4)]
    quantized = quantize(graph, samples)
    assert quantized.type(quantized.outputs[0]).is_eight_bit
    assert not {"quantize", "dequantize"} & {*operators(quantized)}
