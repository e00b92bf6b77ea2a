"""Operators that have no class: from the file to the host, which runs them on LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support import need_litert

import fitzroy
from fitzroy.base.errors import DeviceError, UnsupportedError, UsageError
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import TFLITE
from fitzroy.compiler.ops.elementwise import ActivationAttributes, LeakyReluAttributes
from fitzroy.compiler.ops.opaque import OpaqueAttributes, opaque_nodes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.comparison import compare
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.driver.runtime.litert import LiteRtModel
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.modules import ModuleProgram
from fitzroy.execution.parts import DevicePart, HostPart
from fitzroy.formats import tflite
from fitzroy.pycoral.utils.edgetpu import make_interpreter

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "models" / "digits.tflite"
DIRECT = "sim:direct"


def tailed() -> fitzroy.Graph:
    """The digits model with operators on real numbers behind it: two, then one, then two."""
    graph = fitzroy.load(DIGITS)
    type = graph.type("probabilities").real()
    (x,) = graph.outputs
    x = graph.emit("dequantize", [x], type, stem="real")
    x = graph.emit("negate", [x], type, stem="minus")
    x = graph.emit("leaky_relu", [x], type, LeakyReluAttributes(0.2), stem="leaky")
    x = graph.emit("exp", [x], type, stem="power")
    graph.outputs = [graph.emit("add", [x, x], type, ActivationAttributes(Activation.RELU))]
    return graph


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "tailed.tflite"
    path.write_bytes(tflite.write_model(export_model(tailed())))
    return path


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No class for the operator in the middle of the tail."""
    monkeypatch.delitem(TFLITE, "LEAKY_RELU")


def image() -> Array:
    return np.random.default_rng(5).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)


def operators(data: bytes) -> dict[str, tflite.Operator]:
    model = tflite.read_model(data)
    [main] = model.subgraphs or []
    return {tflite.operator_name(model, item): item for item in main.operators or ()}


# --- compiling -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("unknown")
def test_the_compiled_model_holds_them_untouched(source: Path) -> None:
    result = fitzroy.compile_edgetpu(source)
    before, after = operators(source.read_bytes()), operators(result.data)
    assert "CONV_2D" not in after
    assert before["LEAKY_RELU"].builtin_options == after["LEAKY_RELU"].builtin_options
    assert isinstance(after["LEAKY_RELU"].builtin_options, tflite.LeakyReluOptions)
    [reason] = [item for item in result.reasons if item.code == "opaque-operator"]
    assert reason.where.startswith("LEAKY_RELU 'leaky'")
    assert "LEAKY_RELU is opaque" in reason.what
    assert install_extra("litert") in reason.hint


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("target", ["xnnpack", "portable"])
def test_other_targets_refuse_by_name(source: Path, target: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        fitzroy.compile(source, target=target)
    reject = next(item for item in caught.value.rejects if item.code == "opaque-operator")
    assert "LEAKY_RELU is opaque" in reject.what
    assert reject.hint == "compile up to it with --outputs 'minus'"


def test_quantization_stops_before_them(tmp_path: Path) -> None:
    graph = Graph("unknown")
    type = TensorType((1, 8), DType.FLOAT32)
    x = graph.add_input("x", type)
    before = graph.emit("tanh", [x], type, stem="before")
    secret = OpaqueAttributes("Secret", b"abc", reason="nobody knows it")
    decoded = graph.emit("opaque", [before], type, secret, stem="decoded")
    graph.outputs = [graph.emit("exp", [decoded], type, stem="after"), before]
    rng = np.random.default_rng(0)
    samples = [{"x": rng.standard_normal((1, 8)).astype(np.float32)} for _ in range(3)]
    result = quantize_model(graph, samples, QuantizeOptions())
    kinds = [node.op for node in result.graph.nodes()]
    assert kinds.index("tanh") < kinds.index("dequantize") < kinds.index("opaque")
    assert result.graph.outputs == graph.outputs
    assert {reason.where for reason in result.floats} == {"Secret 'decoded'", "exp 'after'"}
    assert all("Secret" in reason.what for reason in result.floats)
    levels = compare(result.source, result.counterpart, samples).outputs
    assert levels["before"].decibels > 30
    alone = Graph("alone")
    x = alone.add_input("x", type)
    alone.outputs = [alone.emit("opaque", [x], type, secret)]
    with pytest.raises(UnsupportedError, match="Secret comes first"):
        quantize_model(alone, samples, QuantizeOptions())


@pytest.mark.usefixtures("unknown")
def test_modules_leave_them_to_litert(source: Path) -> None:
    need_litert()
    with ModuleProgram(fitzroy.compile(source, target="vm").data) as program:
        found = program.run({"image": image()})
    (wanted,) = LiteRtModel(source.read_bytes(), xnnpack=False).run([image()])
    (result,) = found.values()
    np.testing.assert_allclose(result, wanted, rtol=1e-5)


# --- running -------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
def test_litert_computes_them(
    source: Path, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_litert()
    data = fitzroy.compile_edgetpu(source).data if compiled else source.read_bytes()
    with Interpreter(data, device=DIRECT) as known:
        wanted = known.run({"image": image()})
    monkeypatch.delitem(TFLITE, "LEAKY_RELU")
    with Interpreter(data, device=DIRECT) as interpreter:
        host = [part for part in interpreter.parts if isinstance(part, HostPart)]
        assert [part.title for part in host][-2:] == ["LEAKY_RELU", "EXP, ADD"]
        assert [part.where for part in host][-2:] == ["LiteRT", "reference"]
        assert any(isinstance(part, DevicePart) for part in interpreter.parts) == compiled
        found = interpreter.run({"image": image()})
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.usefixtures("unknown")
def test_pycoral(source: Path) -> None:
    need_litert()
    data = fitzroy.compile_edgetpu(source).data
    interpreter = make_interpreter(data, device=DIRECT)
    interpreter.allocate_tensors()
    [given], [taken] = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.set_tensor(given["index"], image())
    interpreter.invoke()
    found = interpreter.get_tensor(taken["index"])
    assert found.shape == (1, 10)
    # The sum of twice exp(-0.2 p) over classes whose probabilities p add up to 1.
    assert np.all((found > 2 * np.exp(-0.21)) & (found <= 2))


@pytest.mark.usefixtures("unknown")
def test_without_litert_the_extra_is_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitzroy.driver.runtime.litert.available", lambda: False)
    data = fitzroy.compile_edgetpu(source).data
    with pytest.raises(UsageError, match="alone computes LEAKY_RELU") as caught:
        Interpreter(data, device=DIRECT)
    assert caught.value.hint == install_extra("litert")


def custom(tmp_path: Path) -> Path:
    """A model that ends in a custom operator that nobody knows."""
    graph = fitzroy.load(DIGITS)
    type = TensorType((1, 10), DType.FLOAT32)
    secret = OpaqueAttributes("Secret", b"\x01\x02\x03")
    graph.outputs = [graph.emit("opaque", graph.outputs, type, secret, stem="decoded")]
    path = tmp_path / "secret.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    return path


def test_custom_operators_that_litert_lacks(tmp_path: Path) -> None:
    need_litert()
    result = fitzroy.compile_edgetpu(custom(tmp_path))
    assert operators(result.data)["Secret"].custom_options.tobytes() == b"\x01\x02\x03"  # type: ignore[union-attr]
    with pytest.raises(DeviceError, match="LiteRT refuses") as caught:
        Interpreter(result.data, device=DIRECT)
    assert "Secret" in caught.value.reason


def test_the_simulator_needs_only_the_package(tmp_path: Path) -> None:
    path = tmp_path / "secret_edgetpu.tflite"
    path.write_bytes(fitzroy.compile_edgetpu(custom(tmp_path)).data)
    [found] = fitzroy.simulate(path, [image()]).values()
    np.testing.assert_array_equal(
        found, fitzroy.evaluate(fitzroy.load(DIGITS), {"image": image()})["probabilities"]
    )


def test_the_reference_says_what_computes_them(tmp_path: Path) -> None:
    graph = fitzroy.load(custom(tmp_path))
    [node] = opaque_nodes(graph)
    assert node.spelled == "Secret"
    with pytest.raises(UnsupportedError, match="Secret has no reference semantics") as caught:
        fitzroy.evaluate(graph, {"image": image()})
    assert "--outputs 'probabilities'" in caught.value.hint
