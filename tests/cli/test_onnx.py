"""ONNX models on the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.compiler.onnx.models import Port, expected, helper, model
from tests.compiler.onnx.test_choice import compressed
from tests.compiler.onnx.test_layout import network
from tests.compiler.onnx.test_resized import convolution
from tests.support import need

import fitzroy as api
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.evaluation.data import open_data
from fitzroy.evaluation.task import Subject, Task

X = np.random.default_rng(3).standard_normal((2, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def onnx_model(tmp_path: Path) -> Path:
    need("onnx", "onnx")
    (tmp_path / "net.onnx").write_bytes(network())
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "net.onnx"


def test_run_takes_and_gives_arrays_of_the_model(
    fitzroy: Run, onnx_model: Path, tmp_path: Path
) -> None:
    result = fitzroy("run", onnx_model, "--input", "x.npy", "--output", "y.npy", "--quiet")
    assert (result.code, result.err) == (0, "")
    (wanted,) = expected(onnx_model.read_bytes(), {"x": X})
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-4)


def test_convert_writes_a_model_that_litert_runs(
    fitzroy: Run, onnx_model: Path, tmp_path: Path
) -> None:
    assert fitzroy("convert", onnx_model).code == 0
    need("ai_edge_litert", "litert")
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(tmp_path / "net.tflite"))
    interpreter.allocate_tensors()
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.set_tensor(given["index"], X.transpose(0, 2, 3, 1))
    interpreter.invoke()
    (wanted,) = expected(onnx_model.read_bytes(), {"x": X})
    found = interpreter.get_tensor(result["index"])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_convert_keeps_the_layout_on_request(fitzroy: Run, onnx_model: Path) -> None:
    result = fitzroy("convert", onnx_model, "--keep-layout", "--json")
    assert json.loads(result.out)["inputs"][0]["shape"] == [2, 3, 8, 8]
    result = fitzroy("convert", onnx_model, "--json")
    assert json.loads(result.out)["inputs"][0]["shape"] == [2, 8, 8, 3]


def test_convert_refuses_other_names(fitzroy: Run, onnx_model: Path) -> None:
    result = fitzroy("convert", onnx_model, "-o", "net.pte")
    assert result.code == 2
    assert "name the output .tflite" in result.err


@pytest.mark.long
def test_compile_and_explain(fitzroy: Run, onnx_model: Path, tmp_path: Path) -> None:
    result = fitzroy("compile", onnx_model, "--target", "xnnpack", "-o", "net.pte")
    assert (result.code, result.err) == (0, "")
    np.save(tmp_path / "turned.npy", X.transpose(0, 2, 3, 1))
    ran = fitzroy("run", "net.pte", "--input", "turned.npy", "--output", "y.npy")
    assert ran.code == 0, ran.err
    (wanted,) = expected(onnx_model.read_bytes(), {"x": X})
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-4)
    told = fitzroy("explain", onnx_model)
    assert told.code == 0
    assert "conv_2d" in told.out


def test_inspect_shows_what_the_file_has(fitzroy: Run, onnx_model: Path) -> None:
    told = fitzroy("inspect", onnx_model, "--full")
    assert (told.code, told.err) == (0, "")
    assert "Conv ×3" in told.out
    document = json.loads(fitzroy("inspect", onnx_model, "--json").out)
    assert document["subgraphs"][0]["inputs"][0]["shape"] == [2, 3, 8, 8]
    assert document["kind"] == "ONNX model"
    assert fitzroy("inspect", onnx_model, "--tables").code == 4


def test_shapes_of_inputs(fitzroy: Run, onnx_model: Path) -> None:
    result = fitzroy("explain", onnx_model, "--input", "x=2x3x8")
    assert result.code == 2
    assert "2x3x8x8" in result.err
    result = fitzroy("explain", onnx_model, "--input", "x")
    assert result.code == 2
    assert "NAME=AxBxC" in result.err


@pytest.mark.long
def test_a_stated_shape_is_replaced(fitzroy: Run, onnx_model: Path, tmp_path: Path) -> None:
    """By what `--input` says, not by an array, and not in a model with a dense layer."""
    data = convolution(helper().make_node("Relu", ["c"], ["y"]))
    (tmp_path / "any.onnx").write_bytes(data)
    x = np.random.default_rng(4).standard_normal((1, 3, 16, 12)).astype(np.float32)
    np.save(tmp_path / "larger.npy", x)
    run = ("run", "any.onnx", "--input", "larger.npy", "--output", "y.npy")
    refused = fitzroy(*run)
    assert refused.code == 2
    assert "1x3x8x8" in refused.err
    shape = ("--input", "x=1x3x16x12")
    assert fitzroy(*run, *shape).code == 0
    (wanted,) = expected(data, {"x": x})
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-4)
    samples = ("--calibrate", "larger.npy", "--effort", "fast")
    assert fitzroy("quantize", "any.onnx", *shape, *samples).code == 0
    assert api.load(tmp_path / "any_quant.tflite").type("x").shape == (1, 16, 12, 3)
    bound = fitzroy("explain", onnx_model, *shape)
    assert bound.code == 4
    assert "(Gemm, 'y')" in bound.err
    assert "dynamic_axes" in bound.err


@pytest.mark.long
def test_the_next_command_for_the_edge_tpu_runs_as_printed(
    fitzroy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("onnx", "onnx")
    node, rng = helper().make_node, np.random.default_rng(0)
    nodes = [node("Conv", ["my x", "w"], ["c"]), node("Relu", ["c"], ["y"])]
    weights = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)}
    (tmp_path / "net.onnx").write_bytes(model(nodes, [("my x", [1, 3, "h", "w"])], ["y"], weights))
    given = ("--input", "my x=1x3x12x12", "--keep-layout")
    (tmp_path / "DIR").mkdir()
    np.save(tmp_path / "DIR" / "one.npy", rng.random((3, 12, 12), np.float32))
    monkeypatch.chdir(tmp_path)
    refused = fitzroy("compile", "net.onnx", "--target", "edgetpu", *given)
    assert refused.code == 4
    explained = fitzroy("explain", "net.onnx", "--target", "edgetpu", *given, "--json")
    command = explained.json["next"]
    assert command in " ".join(refused.err.split())
    missing = fitzroy("quantize", "net.onnx", *given)
    assert command in " ".join(missing.err.split())
    verb, *arguments = shlex.split(command)[1:]
    result = fitzroy(verb, *arguments)
    assert result.code == 0, result.err
    assert fitzroy("compile", "net_quant.tflite").code == 0
    assert (tmp_path / "net_quant_edgetpu.tflite").is_file()


def test_inputs_that_are_fixed(fitzroy: Run, tmp_path: Path) -> None:
    need("onnx", "onnx")
    node = helper().make_node
    nodes = [node("Mul", ["x", "factor"], ["a"]), node("Add", ["a", "offsets"], ["y"])]
    inputs: list[Port] = [("x", ["n", 2]), ("factor", []), ("offsets", [2])]
    (tmp_path / "net.onnx").write_bytes(model(nodes, inputs, ["y"]))
    np.save(tmp_path / "x.npy", np.array([[1, 2]], np.float32))
    fixed = ("--input", "factor=3", "--input", "offsets=[0.5,-1]")
    told = fitzroy("convert", "net.onnx", "--input", "x=1x2", *fixed, "--json")
    assert [port["name"] for port in told.json["inputs"]] == ["x"]
    result = fitzroy("run", "net.onnx", "--input", "x=x.npy", *fixed, "--output", "y.npy")
    assert result.code == 0, result.err
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [[3.5, 5.0]])
    # A number is the extent of an input that has dimensions.
    result = fitzroy("explain", "net.onnx", "--input", "offsets=3")
    assert "has shape 2, not 3" in result.err
    assert "--input offsets=[3]" in result.err
    for text in ("factor=three", "factor=", 'factor={"a":1}', "factor=[[[[[[[[[[1]]]]]]]]]]"):
        assert fitzroy("explain", "net.onnx", "--input", text).code == 2


def test_graph_may_be_loaded_with_its_own_layout(onnx_model: Path) -> None:
    assert api.load(onnx_model).type("x").shape == (2, 8, 8, 3)
    assert api.load(onnx_model, Reading(keep_layout=True)).type("x").shape == (2, 3, 8, 8)


def test_a_choice_of_boxes_is_left_out_and_told(fitzroy: Run, tmp_path: Path) -> None:
    """By every command that lists objects; others refuse the model and say how to list them."""
    (tmp_path / "chooses.onnx").write_bytes(compressed())
    pictures = np.random.default_rng(1).random((4, 3, 64, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", pictures)
    np.save(tmp_path / "one.npy", pictures[:1])
    files = ("--input", "one.npy", "--output", "y.npy")
    result = fitzroy("run", "chooses.onnx", "--detections", *files)
    assert result.code == 0, result.err
    assert np.count_nonzero(np.load(tmp_path / "y.npy")[:, 4]) > 2
    samples = ("--calibrate", "x.npy", "--effort", "fast", "--detections")
    for words in (("quantize",), ("compile",)):
        result = fitzroy(*words, "chooses.onnx", *samples, "-o", "made.tflite")
        assert result.code == 0, result.err
        assert "warning: the model's own non-maximum suppression is left out" in result.err
        assert "--overlap 0.4" in result.err
    result = fitzroy("convert", "chooses.onnx")
    assert result.code == 4
    assert "use --detections" in result.err


@pytest.fixture
def open_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quantized model with open extents as `net.onnx`, other weights, and an input."""
    need("onnx", "onnx")
    node, rng = helper().make_node, np.random.default_rng(0)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xr"]),
        node("DequantizeLinear", ["w", "ws", "z"], ["wr"]),
        node("Conv", ["xr", "wr"], ["c"]),
        node("QuantizeLinear", ["c", "cs", "z"], ["cq"]),
        node("DequantizeLinear", ["cq", "cs", "z"], ["y"]),
    ]
    scales = {name: np.array(x, np.float32) for name, x in (("s", 0.02), ("ws", 0.01), ("cs", 0.1))}
    filters = rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    for name, w in (("net", filters), ("retrained", -filters)):
        data: dict[str, Array] = {**scales, "z": np.array(0, np.int8), "w": w}
        inputs: list[Port] = [("x", [1, 3, "h", "w"])]
        (tmp_path / f"{name}.onnx").write_bytes(model(nodes, inputs, ["y"], data))
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "x.npy", rng.standard_normal((1, 12, 12, 3)).astype(np.float32))
    monkeypatch.chdir(tmp_path)


SHAPE = ("--input", "x=1x3x12x12")


def test_the_source_of_a_twin_has_the_shapes_of_the_compiled_model(
    fitzroy: Run, open_models: None, tmp_path: Path
) -> None:
    assert fitzroy("compile", "net.onnx", *SHAPE, "-q").code == 0
    run = ("run", "net_edgetpu.tflite", "--input", "data/x.npy", "--device")
    refused = fitzroy(*run, "twin:net.onnx")
    assert refused.code == 4
    assert "--input x=1x3x?x?" in refused.err
    ran = fitzroy(*run, "twin:net.onnx", *SHAPE, "--prove", "1")
    assert ran.code == 0, ran.err
    evaluate = ("evaluate", "net_edgetpu.tflite", "--data", "data", "--against")
    same = fitzroy(*evaluate, "net_edgetpu.tflite", "--device", "twin:net.onnx", *SHAPE, "--json")
    assert same.code == 0, same.err
    assert same.json["metrics"][0]["value"] == 1
    # Nothing takes what is said of inputs.
    refused = fitzroy(*run, "sim:direct", *SHAPE)
    assert refused.code == 2
    assert "--device twin:MODEL" in refused.err
    refused = fitzroy(*evaluate, "net_edgetpu.tflite", "--device", "sim:direct", *SHAPE)
    assert refused.code == 2
    assert "none is read" in refused.err


def test_weights_are_patched_from_a_source_with_open_shapes(
    fitzroy: Run, open_models: None
) -> None:
    assert fitzroy("compile", "net.onnx", *SHAPE, "-q").code == 0
    patch = ("patch-weights", "net_edgetpu.tflite", "retrained.onnx", "-o", "patched.tflite")
    refused = fitzroy(*patch)
    assert refused.code == 4
    assert "--input x=1x3x?x?" in refused.err
    assert fitzroy(*patch, *SHAPE).code == 0
    assert fitzroy("compile", "retrained.onnx", *SHAPE, "-o", "new.tflite", "-q").code == 0
    results = [
        fitzroy("run", name, "-i", "data/x.npy", "--device", "sim:direct", "--json").json["outputs"]
        for name in ("patched.tflite", "new.tflite")
    ]
    assert results[0] == results[1]


@pytest.mark.long
def test_test_files_of_models_with_open_shapes(
    fitzroy: Run, open_models: None, tmp_path: Path
) -> None:
    """What is said of inputs on the command line counts before what the file says."""
    case = '[[case]]\ninput = "data/x.npy"\nexpect = "y.npy"\n'
    (tmp_path / "open.toml").write_text('model = "net.onnx"\n[limits]\ninput_bytes = 700\n')
    refused = fitzroy("test", "open.toml")
    assert refused.code == 4
    assert "--input x=1x3x?x?" in refused.out
    assert fitzroy("test", "open.toml", *SHAPE).code == 0
    text = 'model = "net.onnx"\nshapes = { x = [1, 3, 16, 16] }\n[limits]\ninput_bytes = 700\n'
    (tmp_path / "said.toml").write_text(text)
    assert fitzroy("test", "said.toml").code == 9
    assert fitzroy("test", "said.toml", *SHAPE).code == 0
    assert fitzroy("compile", "net.onnx", *SHAPE).code == 0
    (tmp_path / "compiled.toml").write_text(f'model = "net_edgetpu.tflite"\n{case}')
    refused = fitzroy("test", "compiled.toml", *SHAPE)
    assert refused.code == 2
    assert "its source is not named" in refused.out
    text = f'model = "net_edgetpu.tflite"\nsource = "net.onnx"\n{case}'
    (tmp_path / "twin.toml").write_text(text)
    sim = ("--device", "sim:direct", "-i", "data/x.npy", "-o", "y.npy")
    assert fitzroy("run", "net_edgetpu.tflite", *sim).code == 0
    assert fitzroy("test", "twin.toml", *SHAPE, "--device", "twin").code == 0
    assert fitzroy("test", "twin.toml", "--device", "twin").code == 4


@pytest.mark.long
def test_explore_takes_shapes(fitzroy: Run, open_models: None) -> None:
    page = ("-o", "page.html")
    assert fitzroy("explore", "net.onnx", *page).code == 4
    assert fitzroy("explore", "net.onnx", *SHAPE, *page).code == 0
    assert fitzroy("compile", "net.onnx", *SHAPE).code == 0
    refused = fitzroy("explore", "net_edgetpu.tflite", *SHAPE, *page)
    assert refused.code == 2
    assert "compiled already" in refused.err


def test_pictures_for_open_shapes(fitzroy: Run, open_models: None, images: list[Path]) -> None:
    refused = fitzroy("run", "net.onnx", "--input", images[0])
    assert "--input x=1x3x?x?" in refused.err
    ran = fitzroy("run", "net.onnx", "--input", images[0], *SHAPE, "--json")
    assert ran.json["outputs"][0]["shape"] == [1, 4, 10, 10]
    # What is there is a file, whatever it is called.
    (Path("1x3x12x12")).write_bytes(bytes(4 * 3 * 12 * 12))
    ran = fitzroy("run", "net.onnx", *SHAPE)
    assert "--input x=1x3x?x?" in ran.err
    told = fitzroy("opt", "net.onnx", *SHAPE)
    assert "[1,12,12,3]" in told.out


def test_models_are_compared_at_a_shape(fitzroy: Run, open_models: None) -> None:
    np.save("data/x.npy", np.load("data/x.npy").transpose(0, 3, 1, 2))
    evaluate = ("evaluate", "net.onnx", "--data", "data", "--against", "net.onnx")
    assert "--input x=1x3x?x?" in fitzroy(*evaluate).err
    assert fitzroy(*evaluate, *SHAPE, "--json").json["metrics"][0]["value"] == 1


def test_an_evaluation_at_another_shape_is_another_one(tmp_path: Path, open_models: None) -> None:
    def key(side: int) -> str:
        how = Reading(shapes={"x": (1, 3, side, side)})
        task = Task(Subject("net.onnx", how=how), "data", ("top1",))
        return task.key(open_data("data"))

    assert key(12) == key(12) != key(16)
