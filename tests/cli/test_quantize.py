from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.cli.support import Run
from tests.compiler import detectors

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph, Node, print_graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.formats.tflite import read_model, write_model

F32 = DType.FLOAT32


def network() -> Graph:
    """A small float32 classifier of pictures of 16 x 16."""
    rng = np.random.default_rng(0)
    graph = Graph("pictures")
    graph.add_input("picture", TensorType((1, 16, 16, 3), F32))
    name, depth = "picture", 3
    for number, width in enumerate((8, 12)):
        w = rng.normal(size=(width, 3, 3, depth)).astype(np.float32) / 4
        inputs = [name, graph.add_constant("w", w), graph.add_constant("b", w[:, 0, 0, 0])]
        attributes = ConvAttributes((2, 2), padding=PaddingScheme.SAME, activation=Activation.RELU6)
        size = 8 >> number
        name = graph.emit("conv_2d", inputs, TensorType((1, size, size, width), F32), attributes)
        depth = width
    pooled = TensorType((1, 1, 1, depth), F32)
    name = graph.emit("average_pool_2d", [name], pooled, PoolAttributes((4, 4), (4, 4)))
    scores = graph.emit("softmax", [name], pooled, SoftmaxAttributes(1.0), stem="scores")
    graph.outputs = [scores]
    return graph


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "float.tflite"
    path.write_bytes(write_model(export_model(network())))
    return str(path)


@pytest.fixture
def pictures(tmp_path: Path) -> str:
    rng = np.random.default_rng(1)
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    for number in range(6):
        pixels = rng.integers(0, 256, (20, 24, 3)).astype(np.uint8)
        where = folder / "more" if number % 2 else folder
        Image.fromarray(pixels).save(where / f"{number}.png")
    (folder / "README.txt").write_text("pictures of noise")
    return str(folder)


def test_a_folder_of_pictures_becomes_a_quantized_model(
    fitzroy: Run, model: str, pictures: str, tmp_path: Path
) -> None:
    result = fitzroy("quantize", model, "--calibrate", pictures, "-o", "q.tflite", "--json")
    assert result.code == 0, result.err
    document = result.json
    assert document["samples"] == 6
    assert document["inputs"][0]["dtype"] == "int8"
    assert document["operators"]["float"] == 0
    assert document["accuracy"][0]["snr_db"] > 25
    first = (tmp_path / "q.tflite").read_bytes()
    read_model(first)
    assert document["files"] == [{"path": "q.tflite", "bytes": len(first)}]
    assert fitzroy("quantize", model, "--calibrate", pictures, "-o", "r.tflite", "-q").out == ""
    assert (tmp_path / "r.tflite").read_bytes() == first


def test_litert_agrees_with_the_verb(
    fitzroy: Run, model: str, pictures: str, tmp_path: Path
) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    options = ("--input-type", "uint8", "--output-type", "float32", "--mixed-outputs", "keep")
    result = fitzroy("quantize", model, "--calibrate", pictures, "-o", "q.tflite", *options)
    assert result.code == 0, result.err
    runs = []
    for name in ("float.tflite", "q.tflite"):
        runner = interpreter.Interpreter(str(tmp_path / name))
        runner.allocate_tensors()
        (port,) = runner.get_input_details()
        pixels = np.random.default_rng(5).integers(0, 256, (1, 16, 16, 3)).astype(np.uint8)
        given = pixels if port["dtype"] is np.uint8 else pixels.astype(np.float32) / 255
        runner.set_tensor(port["index"], given)
        runner.invoke()
        runs.append(runner.get_tensor(runner.get_output_details()[0]["index"]))
    np.testing.assert_allclose(runs[1], runs[0], atol=0.02)


def test_compile_tells_of_outputs_that_8_bits_hold_badly(
    fitzroy: Run, model: str, pictures: str, tmp_path: Path
) -> None:
    graph = Graph("cancelled")
    type = TensorType((1, 16, 16, 3), F32)
    name = graph.add_input("picture", type)
    # In steps of 1000 / 255, nothing is left of pixels from 0 to 1.
    for op in ("add", "sub"):
        much = graph.add_constant("much", np.array([1000], np.float32))
        name = graph.emit(op, [name, much], type, ActivationAttributes(), stem=op)
    graph.outputs = [name]
    path = tmp_path / "cancelled.tflite"
    path.write_bytes(write_model(export_model(graph)))
    result = fitzroy("compile", str(path), "--calibrate", pictures)
    assert result.code == 0, result.err
    assert re.search(r"output 'sub' has -?\d+\.\d dB of signal to noise on 2 samples", result.err)
    assert "--report q.html" in result.err
    assert "signal to noise" not in fitzroy("compile", model, "--calibrate", pictures).err


def test_an_output_near_0_is_as_exact_as_its_steps(
    fitzroy: Run, pictures: str, tmp_path: Path
) -> None:
    """A probability that no sample raises has no signal; LiteRT confirms how far it is off."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    graph = Graph("never")
    type = TensorType((1, 16, 16, 3), F32)
    low = graph.add_constant("low", np.array([-9], np.float32))
    graph.add_input("picture", type)
    sums = graph.emit("add", ["picture", low], type, ActivationAttributes())
    graph.outputs = [graph.emit("sigmoid", [sums], type, stem="score")]
    path = tmp_path / "never.tflite"
    path.write_bytes(write_model(export_model(graph)))
    words = ("quantize", str(path), "--calibrate", pictures, "-o", "q.tflite")
    in_floats = fitzroy(*words, "--output-type", "float32", "--json").json["accuracy"][0]
    assert in_floats["snr_db"] > 10
    assert in_floats["largest_steps"] is None
    result = fitzroy(*words)
    assert result.code == 0, result.err
    assert "warning" not in result.err
    (said,) = re.findall("off by at most ([0-9.]+) steps of 0.0039", result.err)
    entry = json.loads(fitzroy(*words, "--json").out)["accuracy"][0]
    assert entry["snr_db"] < 10
    assert float(said) == pytest.approx(entry["largest_steps"], abs=0.05)
    found = []
    for name in ("never.tflite", "q.tflite"):
        runner = interpreter.Interpreter(str(tmp_path / name))
        runner.allocate_tensors()
        (given,), (made,) = runner.get_input_details(), runner.get_output_details()
        x = np.random.default_rng(5).random((1, 16, 16, 3), np.float32)
        scale, zero = given["quantization"]
        stored = np.clip(np.rint(x / scale) + zero, -128, 127) if scale else x
        runner.set_tensor(given["index"], stored.astype(given["dtype"]))
        runner.invoke()
        y = runner.get_tensor(made["index"]).astype(np.float64)
        scale, zero = made["quantization"]
        found.append((y - zero) * scale if scale else y)
    assert np.abs(found[1] - found[0]).max() * 256 == pytest.approx(float(said), abs=0.1)


def test_compile_quantizes_first(fitzroy: Run, model: str, pictures: str, tmp_path: Path) -> None:
    target = tmp_path / "float_edgetpu.tflite"
    result = fitzroy("compile", model, "--calibrate", pictures, "--samples", "3", "--json")
    assert result.code == 0, result.err
    assert target.exists()
    assert result.json["model_bytes"] == Path(model).stat().st_size
    result = fitzroy("compile", model, "--calibrate", pictures, "-o", "float.pte")
    assert result.code == 0, result.err
    result = fitzroy("compile", model, "--samples", "3")
    assert result.code == 2
    assert "--samples is for models that are quantized" in result.err


def operators_of(data: bytes) -> set[str]:
    return {node.op for node in import_model(read_model(data)).nodes()}


@pytest.fixture
def gated(tmp_path: Path) -> str:
    """A model with a SiLU between two layers."""
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    graph = m.done(m.layer(m.binary("mul", x, m.sigmoid(x)), 4))
    (tmp_path / "silu.tflite").write_bytes(write_model(export_model(graph)))
    return "silu.tflite"


def test_functions_of_sums_are_not_for_conservative_programs(
    fitzroy: Run, gated: str, pictures: str
) -> None:
    """There the filter is no integer that becomes a real number on the chip."""
    given = ("compile", gated, "--calibrate", pictures, "--json")
    free, bound = (fitzroy(*given, *more).json for more in ((), ("--conservative",)))
    assert free["operators"] == free["mapped"] == 7
    assert bound["operators"] == bound["mapped"] == 6


def test_functions_are_looked_up_on_the_edge_tpu_only(
    fitzroy: Run, gated: str, pictures: str, tmp_path: Path
) -> None:
    given = (gated, "--calibrate", pictures, "-q")

    def written(verb: str, *more: str) -> bytes:
        result = fitzroy(verb, *given, *more)
        assert result.code == 0, result.err
        return (tmp_path / more[1]).read_bytes()

    plain, tables = (written("quantize", "-o", "q.tflite", *x) for x in ((), ("--tables",)))
    document = fitzroy("quantize", *given[:-1], "--tables", "--json").json
    assert document["operators"] | {"after": 0} == {
        "model": 4, "integer": 2, "tables": 2, "float": 0, "after": 0,
    }  # fmt: skip
    assert "dequantize" not in operators_of(plain)
    assert "dequantize" in operators_of(tables)
    looked_up, each = (written("compile", "-o", "c.tflite", *x) for x in ((), ("--no-tables",)))
    assert looked_up != each
    mine, same = (written("compile", "-o", "p.pte", *x) for x in ((), ("--no-tables",)))
    assert mine == same
    result = fitzroy("compile", "q.tflite", "--no-tables")
    assert result.code == 2
    assert "--no-tables is for models that are quantized" in result.err


def test_arrays_are_one_or_several_samples(fitzroy: Run, model: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    pixels = rng.integers(0, 256, (4, 16, 16, 3)).astype(np.uint8)
    np.save(tmp_path / "one.npy", pixels[0].astype(np.float32) / 255)
    np.save(tmp_path / "all.npy", pixels.astype(np.float64) / 255)
    np.save(tmp_path / "pixels.npy", pixels)
    np.savez_compressed(tmp_path / "all.npz", picture=pixels.astype(np.float32) / 255)
    made = {}
    for name in ("all.npy", "pixels.npy", "all.npz"):
        result = fitzroy("quantize", model, "--calibrate", name, "-o", "q.tflite", "--json")
        assert result.code == 0, result.err
        assert result.json["samples"] == 4
        made[name] = (tmp_path / "q.tflite").read_bytes()
    assert len(set(made.values())) == 1
    result = fitzroy("quantize", model, "--calibrate", "one.npy", "all.npy", "--json")
    assert result.json["samples"] == 5


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("cut.png", b"\x89PNG\r\n\x1a\n cut", "no readable image"),
        ("cut.npz", b"PK\x03\x04 cut", "no readable .npz file"),
        ("cut.npy", b"\x93NUMPY\x01", "no readable .npy file"),
        ("raw", b"12345", "the tensor has 3072 bytes"),
        ("raw", np.full(768, np.nan, np.float32).tobytes(), "numbers that are not finite"),
    ],
)
def test_broken_samples_are_named(
    fitzroy: Run, model: str, pictures: str, tmp_path: Path, name: str, content: bytes, text: str
) -> None:
    (tmp_path / name).write_bytes(content)
    result = fitzroy("quantize", model, "--calibrate", pictures, name, "-o", "q.tflite")
    assert result.code in (2, 3)
    assert text in result.err
    assert name in result.err
    assert not (tmp_path / "q.tflite").exists()


def test_samples_of_another_size_are_named(fitzroy: Run, model: str, tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((2, 16, 17, 3), np.float32))
    np.savez(tmp_path / "other.npz", left=np.zeros(3), right=np.zeros(3))
    result = fitzroy("quantize", model, "--calibrate", "wide.npy", "-o", "q.tflite")
    assert result.code == 2
    assert "float32[2,16,17,3]" in result.err
    assert "float32[1,16,16,3]" in result.err
    result = fitzroy("quantize", model, "--calibrate", "other.npz", "-o", "q.tflite")
    assert "no array for input 'picture'" in result.err
    (tmp_path / "empty").mkdir()
    result = fitzroy("quantize", model, "--calibrate", "empty", "-o", "q.tflite")
    assert "no images and no arrays" in result.err
    assert not (tmp_path / "q.tflite").exists()


def test_without_samples_the_next_command_is_given(fitzroy: Run, model: str) -> None:
    result = fitzroy("quantize", model)
    assert result.code == 2
    assert "--calibrate DIR -o float_quant.tflite" in result.err


def test_operators_kept_float_run_between_conversions(
    fitzroy: Run, model: str, pictures: str
) -> None:
    given = ("quantize", model, "--calibrate", pictures, "-o", "q.tflite", "--json")
    result = fitzroy(*given, "--keep-float", "SOFTMAX")
    assert result.json["operators"]["float"] == 1
    assert result.json["outputs"][0]["dtype"] == "float32"
    result = fitzroy(*given, "--keep-float", "nothing*")
    assert result.code == 2
    assert "--keep-float nothing* fits no operator" in result.json["error"]["what"]


def test_rules_for_pixels(fitzroy: Run, model: str, pictures: str, tmp_path: Path) -> None:
    scales = {}
    for rule in ("0..1", "tf", "imagenet", "torch", "none"):
        options = ("--calibrate", pictures, "--preprocess", rule, "-o", "q.tflite", "--json")
        result = fitzroy("quantize", model, *options)
        assert result.code == 0, result.err
        (scale,) = result.json["inputs"][0]["quantization"]["scale"]
        scales[rule] = scale * 255
    assert scales["0..1"] == pytest.approx(1, rel=1e-3)
    assert scales["tf"] == pytest.approx(2, rel=1e-3)
    assert scales["none"] == pytest.approx(255, rel=1e-3)
    assert scales["imagenet"] == scales["torch"] == pytest.approx(4.758, rel=1e-3)
    both = ("--preprocess", "tf", "--mean", "127")
    result = fitzroy("quantize", model, "--calibrate", pictures, *both)
    assert "both say what pixels become" in result.err


def detector() -> Graph:
    """Boxes in pixels and scores in one tensor."""
    graph = Graph("detector")
    graph.add_input("x", TensorType((1, 16, 16, 3), F32))
    rng = np.random.default_rng(3)
    parts = []
    for name, factor in (("boxes", 300.0), ("logits", 1.0)):
        w = rng.normal(size=(4, 1, 1, 3)).astype(np.float32) * np.float32(factor)
        inputs = ["x", graph.add_constant("w", w)]
        parts.append(
            graph.emit(
                "conv_2d", inputs, TensorType((1, 16, 16, 4), F32), ConvAttributes(), stem=name
            )
        )
    joined = TensorType((1, 16, 16, 8), F32)
    graph.add_node(
        Node("out", "concatenation", tuple(parts), ("out",), ConcatenationAttributes(3)), [joined]
    )
    graph.outputs = ["out"]
    return graph


def test_boxes_and_scores_are_scaled_apart(fitzroy: Run, pictures: str, tmp_path: Path) -> None:
    (tmp_path / "d.ir").write_text(print_graph(detector()))
    given = ("quantize", "d.ir", "--calibrate", pictures, "-o", "q.tflite", "--json")
    joined = fitzroy(*given).json
    assert [tensor["dtype"] for tensor in joined["outputs"]] == ["float32"]
    assert "very different" in joined["warnings"][0]["reason"] or "wide" in str(joined["warnings"])
    split = fitzroy(*given, "--mixed-outputs", "split").json
    assert [tensor["dtype"] for tensor in split["outputs"]] == ["int8", "int8"]
    scales = [tensor["quantization"]["scale"][0] for tensor in split["outputs"]]
    assert scales[0] > 50 * scales[1]
    kept = fitzroy(*given, "--mixed-outputs", "keep").json
    assert [tensor["dtype"] for tensor in kept["outputs"]] == ["int8"]
    assert split["accuracy"][1]["snr_db"] > 35


def test_a_report_says_what_each_operator_costs(
    fitzroy: Run, model: str, pictures: str, tmp_path: Path
) -> None:
    given = ("quantize", model, "--calibrate", pictures, "-o", "q.tflite")
    result = fitzroy(*given, "--report", "q.json", "--json")
    assert result.code == 0, result.err
    report = json.loads((tmp_path / "q.json").read_text())
    layers = {layer["name"]: layer for layer in report["layers"]}
    assert [layer["op"] for layer in report["layers"]] == [
        "conv_2d", "conv_2d", "average_pool_2d", "softmax"
    ]  # fmt: skip
    assert sum(layer["share"] for layer in report["layers"]) == pytest.approx(1)
    # A step of 1/256 is all that the last function costs, and leaving it out helps most.
    last = layers["scores"]
    assert last["range"] == [0, pytest.approx(255 / 256)]
    assert last["others_db"]["scores"] > last["snr_db"]
    assert all(layer["snr_db"] > 20 for layer in report["layers"])
    assert len(report["worst_samples"]) == 6
    assert report["worst_samples"][0]["sample"].endswith(".png")
    assert fitzroy(*given, "--report", "q.html").code == 0
    page = (tmp_path / "q.html").read_text()
    assert "average_pool_2d" in page
    assert "http://" not in page
    refused = fitzroy(*given, "--report", "q.txt")
    assert refused.code == 2
    assert "a report is an .html or a .json file" in refused.err


def test_noisy_outputs_are_remarked_on(
    fitzroy: Run, model: str, pictures: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("quantize", model, "--calibrate", pictures, "-o", "q.tflite")
    assert "signal to noise" not in fitzroy(*arguments).err
    monkeypatch.setattr("fitzroy.cli.quantize._NOISY", 1000.0)
    result = fitzroy(*arguments)
    assert result.code == 0
    assert "dB of signal to noise" in result.err


def test_models_of_others_are_compared(
    fitzroy: Run, model: str, pictures: str, tmp_path: Path
) -> None:
    assert fitzroy("quantize", model, "--calibrate", pictures, "-o", "q.tflite").code == 0
    pair = ("quantize", "--compare", model, "q.tflite")
    result = fitzroy(*pair, "--data", pictures, "--report", "c.json", "--json")
    assert result.code == 0, result.err
    assert result.json["accuracy"][0]["snr_db"] > 25
    assert [layer["op"] for layer in result.json["layers"]][-1] == "softmax"
    assert json.loads((tmp_path / "c.json").read_text())["quantized"] == "q.tflite"
    assert fitzroy(*pair, "--data", pictures, "--report", "c.html").code == 0
    assert "needs inputs" in fitzroy(*pair).err
    for option in (("--tables",), ("--no-tables",), ("--effort", "best"), ("--detections",)):
        refused = fitzroy(*pair, "--data", pictures, *option)
        assert refused.code == 2
        assert f"{option[0]} does not go with --compare" in refused.err
    limited = fitzroy(*pair, "--data", pictures, "--samples", 2, "--preprocess", "tf", "--json")
    assert limited.json["samples"] == 2
    same = fitzroy("quantize", "--compare", model, model, "--data", pictures, "--json")
    assert same.json["accuracy"][0]["snr_db"] == "inf"
    (tmp_path / "d.ir").write_text(print_graph(detector()))
    other = fitzroy("quantize", "--compare", model, "d.ir", "--data", pictures)
    assert other.code == 2
    assert "different outputs" in other.err


@pytest.mark.parametrize("option", ["--mixed-outputs", "--output-type"])
def test_objects_take_no_options_of_outputs(fitzroy: Run, tmp_path: Path, option: str) -> None:
    path = tmp_path / "detector.tflite"
    path.write_bytes(write_model(export_model(detectors.dfl())))
    np.save("x.npy", np.zeros((1, detectors.SIDE, detectors.SIDE, 3), np.float32))
    value = "keep" if option == "--mixed-outputs" else "uint8"
    for verb in ("quantize", "compile"):
        words = (verb, path, "--calibrate", "x.npy", option, value, "--effort", "fast")
        refused = fitzroy(*words, "--detections")
        assert refused.code == 2
        assert f"{option} does not go with --detections" in refused.err
        assert fitzroy(*words, "--detections", "--form", "yolo").code == 0


def test_a_picture_that_stands_out_is_named(fitzroy: Run, tmp_path: Path) -> None:
    graph = Graph("powers")
    graph.add_input("x", TensorType((1, 4, 4, 3), DType.FLOAT32))
    beyond = graph.add_constant("beyond", np.full(1, 0.88, np.float32))
    relu = ActivationAttributes(Activation.RELU)
    y = graph.emit("sub", ["x", beyond], graph.type("x"), relu)
    for _ in range(3):
        y = graph.emit("mul", [y, y], graph.type("x"), ActivationAttributes())
    graph.outputs = [y]
    (tmp_path / "powers.tflite").write_bytes(write_model(export_model(graph)))
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(12):
        pixels = np.full((4, 4, 3), 255 if number == 5 else 226 + number % 3, np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    result = fitzroy("quantize", "powers.tflite", "--calibrate", "pictures", "-o", "q.tflite")
    assert result.code == 0
    assert "05.png: it is left out" in result.err
    given = ("--calibrate", "pictures", "-o", "r.tflite", "--ranges", "minmax")
    assert "left out" not in fitzroy("quantize", "powers.tflite", *given).err
