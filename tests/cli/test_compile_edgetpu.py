from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.support import Run
from tests.compiler import detectors
from tests.compiler.edgetpu.test_convolution import chain, grow

from fitzroy.base.errors import CapacityError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.formats import custom_op, darwinn, tflite
from fitzroy.formats.object_file import ObjectFile, read_object


@pytest.mark.long
def test_quantized_models_go_to_the_edge_tpu(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    result = fitzroy("compile", digits)
    assert (result.code, result.err) == (0, "")
    assert os.listdir(tmp_path) == ["digits_edgetpu.tflite"]
    assert "Model compiled successfully" in result.out
    assert "Number of Edge TPU subgraphs" in result.out
    assert "CONV_2D" not in result.out
    listed = fitzroy("compile", digits, "--show-operations")
    assert "Mapped to Edge TPU" in listed.out
    assert "CONV_2D" in listed.out


@pytest.mark.long
def test_the_compiled_model_answers_as_its_source(
    fitzroy: Run, digits: Path, images: list[Path]
) -> None:
    assert fitzroy("compile", digits, "-o", "d_edgetpu.tflite", "-q").code == 0
    for image in images[:4]:
        assert fitzroy("run", digits, "-i", image, "-o", "a.npy", "-q").code == 0
        assert fitzroy("sim", "d_edgetpu.tflite", "-i", image, "-o", "b.npy", "-q").code == 0
        assert np.array_equal(np.load("a.npy"), np.load("b.npy"))


def test_figures(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    document = fitzroy("compile", digits, "--json").json
    assert document["target"] == "edgetpu"
    assert document["mapped"] == document["operators"] == 9
    assert document["streamed_bytes"] == 0
    [part] = document["subgraphs"]
    assert part["operators"] == 9
    assert part["cached_bytes"] == document["cached_bytes"] > 40_000
    assert part["instruction_bytes"] > 1_000
    [file] = document["files"]
    data = (tmp_path / file["path"]).read_bytes()
    assert len(data) == file["bytes"]
    [operator] = custom_op.extract(tflite.read_model(data))
    assert operator.outputs == ("probabilities",)


@pytest.mark.long
def test_formats(fitzroy: Run, digits: Path, tmp_path: Path, images: list[Path]) -> None:
    assert fitzroy("compile", digits, "--format", "package").code == 0
    package = darwinn.read_package((tmp_path / "digits.dwn").read_bytes())
    assert package.package.min_runtime_version == 14
    assert fitzroy("compile", digits, "--format", "object").code == 0
    assert read_object((tmp_path / "digits.fzo").read_bytes()).chip == "beagle"
    assert fitzroy("compile", digits, "-o", "old.dwn", "--format", "package",
                   "--min-runtime-version", "12").code == 0  # fmt: skip
    old = darwinn.read_package((tmp_path / "old.dwn").read_bytes())
    assert old.package.min_runtime_version == 12
    assert fitzroy("compile", digits, "-o", "13.dwn", "--format", "package", "-m", "13").code == 0
    assert Path("13.dwn").read_bytes() == Path("old.dwn").read_bytes()
    assert fitzroy("sim", "digits.dwn", "-i", images[0]).code == 0


def test_equal_input_gives_equal_bytes(fitzroy: Run, digits: Path) -> None:
    assert fitzroy("compile", digits, "-o", "a_edgetpu.tflite").code == 0
    assert fitzroy("compile", digits, "-o", "b_edgetpu.tflite").code == 0
    assert Path("a_edgetpu.tflite").read_bytes() == Path("b_edgetpu.tflite").read_bytes()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--min-runtime-version", "15"], "no form of programs for runtime 15"),
        (["--target", "edgetpu", "--bundle", "x.npy"], "--bundle is for ExecuTorch programs"),
        (["--outputs", "a,b"], "--outputs a,b -o cut.tflite"),
        (["--report", "r.txt"], "a report is an .html or a .json file"),
        (["-o", "m.tflite", "--out-dir", "d"], "-o and --out-dir both say where results go"),
        (["--num-segments", "2", "-o", "m.tflite"], "2 results and one output file"),
        (["--num-segments", "auto", "-o", "m.tflite"], "up to 8 results and one output file"),
        (["--objective", "latency"], "--objective is for models in several segments"),
        (["--num-segments", "10"], "10 segments of a model with 9 operators"),
        (["--target", "xnnpack", "--num-segments", "2"], "--num-segments is for the Edge TPU"),
        (["--min-runtime-version", "9"], "no form of programs for runtime 9"),
        (["--uint8", "fast"], "--uint8 is for ExecuTorch programs"),
        (["--target", "xnnpack", "--format", "package"], "--format is for the Edge TPU"),
        (["--target", "xnnpack", "-s"], "--show-operations is for the Edge TPU"),
        (["--target", "xnnpack", "-m", "12"], "--min-runtime-version is for the Edge TPU"),
        (["--target", "xnnpack", "--no-estimate"], "--no-estimate is for the Edge TPU"),
        (["--target", "xnnpack", "--partition", "all"], "--partition is for the Edge TPU"),
        (["--target", "xnnpack", "--out-dir", "d"], "--out-dir is for the Edge TPU"),
        (["--report", "missing/r.html"], "the directory of the output does not exist"),
    ],
)
def test_refused_options(fitzroy: Run, digits: Path, options: list[str], text: str) -> None:
    result = fitzroy("compile", digits, *options)
    assert result.code == 2
    assert text in result.err + result.out
    assert not os.listdir()


def test_a_model_without_integers_goes_to_xnnpack(fitzroy: Run, tmp_path: Path) -> None:
    graph = Graph("float")
    x = graph.add_input("x", TensorType((1, 6), DType.FLOAT32))
    graph.outputs = [graph.emit("abs", [x], TensorType((1, 6), DType.FLOAT32), stem="y")]
    path = tmp_path / "float.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    assert fitzroy("compile", path).code == 0
    assert (tmp_path / "float.pte").exists()
    refused = fitzroy("compile", path, "--target", "edgetpu")
    assert refused.code == 4
    assert "the Edge TPU with integers of 8 bits" in refused.err
    explained = fitzroy("explain", path, "--target", "edgetpu")
    assert "not 8-bit quantized" in explained.out


def two_parts(path: Path) -> Path:
    """A model with two parts for the chip, and something between them that it lacks."""
    graph = chain(DType.INT8, (16, 16, 16))
    for number in range(2):
        for _ in range(3):
            grow(graph, "conv_2d", 96, (3, 3), seed=number)
        (x,) = graph.outputs
        real = TensorType(graph.type(x).shape, DType.FLOAT32)
        y = graph.emit("abs", [graph.emit("dequantize", [x], real)], real)
        y = graph.emit("floor", [y], real)
        graph.outputs = [graph.emit("quantize", [y], graph.type(x))]
    path.write_bytes(tflite.write_model(export_model(graph)))
    return path


@pytest.mark.long
def test_what_does_not_fit_stays_on_the_host(
    fitzroy: Run, tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = two_parts(tmp_path / "two.tflite")
    assert len(fitzroy("compile", path, "--json").json["subgraphs"]) == 2
    calls = []

    def limited(graph: Graph, *rest: Any) -> ObjectFile:
        calls.append(graph)
        if len(calls) == 1:
            raise CapacityError("tensor 'x' takes too many bytes", reason="192 KiB are there")
        return lower(graph, *rest)

    monkeypatch.setattr("fitzroy.compiler.targets.edgetpu.chip.lower", limited)
    document = fitzroy("compile", path, "--json").json
    assert len(document["subgraphs"]) == 1
    assert any("192 KiB" in item["status"] for item in document["operations"])


# --- several results -----------------------------------------------------------------------------


@pytest.mark.long
def test_models_compiled_together(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    two = two_parts(tmp_path / "two.tflite")
    document = fitzroy("compile", digits, two, "--out_dir", "out", "--json").json
    assert sorted(os.listdir("out")) == ["digits_edgetpu.tflite", "two_edgetpu.tflite"]
    assert [item["model"] for item in document["models"]] == [str(digits), str(two)]
    tokens = {part["token"] for item in document["models"] for part in item["subgraphs"]}
    assert len(tokens) == 1
    assert tokens != {0}
    used = [item["cached_bytes"] for item in document["models"]]
    left = [item["remaining_bytes"] for item in document["models"]]
    assert left[0] - left[1] == used[1]
    text = fitzroy("compile", digits, two, "--no-estimate").out
    assert text.count("Number of Edge TPU subgraphs") == 2
    assert (tmp_path / "two_edgetpu.tflite").read_bytes() == Path(
        "out/two_edgetpu.tflite"
    ).read_bytes()


def test_two_models_of_one_name(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "digits.tflite").write_bytes(digits.read_bytes())
    result = fitzroy("compile", digits, "digits.tflite")
    assert result.code == 2
    assert "two models have the same name" in result.err


@pytest.mark.long
def test_segments_in_sequence(fitzroy: Run, digits: Path, images: list[Path]) -> None:
    document = fitzroy("compile", digits, "--num_segments", "3", "--json").json
    names = [f"digits_segment_{number}_of_3_edgetpu.tflite" for number in range(3)]
    assert [file["path"] for file in document["files"]] == names
    assert sum(item["operators"] for item in document["models"]) == 9
    assert fitzroy("run", digits, "-i", images[0], "-o", "whole.npy", "-q").code == 0
    value: Path | str = images[0]
    for number, name in enumerate(names):
        assert fitzroy("sim", name, "-i", value, "-o", f"{number}.npy", "-q").code == 0
        value = f"{number}.npy"
    assert np.array_equal(np.load("2.npy"), np.load("whole.npy"))


@pytest.mark.long
def test_as_many_segments_as_pay(fitzroy: Run, digits: Path) -> None:
    document = fitzroy("compile", digits, "--num-segments", "auto", "--no-estimate", "--json").json
    assert [item["chips"] for item in document["cuts"]] == list(range(1, 9))
    assert [file["path"] for file in document["files"]] == [
        "digits_segment_0_of_1_edgetpu.tflite"
    ], "a small model gains nothing"
    for item in document["cuts"]:
        assert len(item["segments_us"]) == item["chips"]
        assert item["latency_us"] == pytest.approx(sum(item["segments_us"]))
        assert item["interval_us"] >= max(*item["segments_us"], item["bus_us"])
        assert [segment["us"] for segment in item["segments"]] == item["segments_us"]
    assert document["cuts"][0]["segments"][0]["timed"]
    options = ("--objective", "latency", "--no-estimate", "--report", "r.html")
    result = fitzroy("compile", digits, "-n", "2", *options)
    page = Path("r.html").read_text("utf-8")
    assert page.index("<h2>Several chips") < page.index("<h2>Timeline")
    assert "Whole models in parallel" in result.out
    assert "written" in result.out


@pytest.mark.parametrize("number", ["some", "-2", "5000"])
def test_numbers_of_segments(fitzroy: Run, digits: Path, number: str) -> None:
    result = fitzroy("compile", digits, f"--num-segments={number}")
    assert result.code == 2
    assert f"'{number}' is neither auto nor in the range 0 to 1024" in result.err


def test_an_output_directory(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert fitzroy("compile", digits, "-o", "there").code == 0
    assert os.listdir("there") == ["digits_edgetpu.tflite"]


@pytest.mark.long
def test_all_or_nothing_is_written(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    two = two_parts(tmp_path / "two.tflite")
    refused = fitzroy("compile", digits, two, "--format", "package", "--out-dir", "out", "--log")
    assert refused.code == 2
    assert "the model has 2 parts on the Edge TPU" in refused.err
    assert os.listdir() == ["two.tflite"]
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(digits.read_bytes()[:500])
    assert fitzroy("compile", digits, broken, "--out-dir", "out").code == 3
    assert sorted(os.listdir()) == ["broken.tflite", "two.tflite"]
    full = fitzroy("compile", digits, "--out-dir", "made/deep", "--dump", "two.tflite/forms")
    assert full.code == 2
    assert sorted(os.listdir()) == ["broken.tflite", "two.tflite"]


def test_compiled_models(fitzroy: Run, digits: Path) -> None:
    assert fitzroy("compile", digits, "-q").code == 0
    refused = fitzroy("compile", "digits_edgetpu.tflite")
    assert refused.code == 4
    assert "compiled for the Edge TPU already" in refused.err
    module = ("compile", "digits_edgetpu.tflite", "--format", "module")
    assert fitzroy(*module, "--out-dir", "made/deep").code == 0
    assert os.listdir("made/deep") == ["digits_edgetpu.module"]
    assert "--log is for models that are compiled here" in fitzroy(*module, "--log").err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open all directories")
def test_closed_directories(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o600)
    for options in (["-o", "closed/m.tflite"], ["--out-dir", "closed/d"], ["--dump", "closed/d"]):
        refused = fitzroy("compile", digits, *options)
        assert refused.code == 2
        assert "Permission denied" in refused.err


# --- what is said --------------------------------------------------------------------------------


@pytest.mark.long
def test_estimated_time(fitzroy: Run, digits: Path) -> None:
    text = fitzroy("compile", digits).out
    assert "Estimated time of an inference: 0." in text
    assert "ms on jetson_nano_10w_usb3" in text
    [part] = fitzroy("compile", digits, "--json").json["subgraphs"]
    assert part["estimate"]["cycles"] > 1_000
    assert sum(part["estimate"]["bound"].values()) <= 1.0
    assert "Estimated" not in fitzroy("compile", digits, "--no-estimate").out
    [part] = fitzroy("compile", digits, "--no-estimate", "--json").json["subgraphs"]
    assert part["estimate"] is None


def test_explanations(fitzroy: Run, tmp_path: Path) -> None:
    text = fitzroy("compile", two_parts(tmp_path / "two.tflite"), "--explain").out
    assert "CONV_2D" in text
    assert text.index("operators on the host") < text.index("operators on the Edge TPU")
    assert re.search(r"CONV_2D +\S+ +0 +convolution", text)
    assert re.search(r"CONV_2D +\S+ +1 +convolution", text)
    assert "on the host" in text
    assert "edgetpu-type: ABS" in text
    assert "hint: quantize it to 8 bits" in text


def test_models_of_real_numbers_get_the_next_command(fitzroy: Run, tmp_path: Path) -> None:
    graph = Graph("real")
    type = TensorType((1, 4), DType.FLOAT32)
    x = graph.add_input("x", type)
    graph.outputs = [graph.emit("abs", [graph.emit("exp", [x], type, stem="y")], type, stem="z")]
    path = tmp_path / "my real.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    command = f"fitzroy quantize '{path}' --calibrate DIR -o 'my real_quant.tflite'"
    for options in (("--target", "edgetpu"), ("-o", "out.tflite"), ("--num-segments", "2")):
        result = fitzroy("compile", path, "--target", "edgetpu", *options)
        assert result.code == 4
        assert "the model computes with real numbers" in result.err
        assert command in " ".join(result.err.split())
        assert "EXP" not in result.err
    assert not Path("out.tflite").exists()
    explained = fitzroy("explain", path, "--target", "edgetpu")
    assert explained.code == 0
    assert command in " ".join(explained.out.split())
    for name in ("EXP 'y'", "ABS 'z'"):
        assert name in explained.out
    document = fitzroy("explain", path, "--target", "edgetpu", "--json").json
    assert document["next"] == command
    assert all(row["reasons"] for row in document["operators"])
    assert fitzroy("explain", path, "--json").json["next"] is None


def test_detectors_of_real_numbers_get_a_command_that_lists_objects(
    fitzroy: Run, tmp_path: Path
) -> None:
    """Recognised after it was quantized, a head would have lost much."""
    path = tmp_path / "detector.tflite"
    path.write_bytes(tflite.write_model(export_model(detectors.dfl())))
    options = ("--detections", "--most", "7")
    result = fitzroy("compile", path, "--target", "edgetpu", *options)
    assert result.code == 4
    command = f"fitzroy quantize {path} --detections --most 7 --calibrate DIR"
    assert command in " ".join(result.err.split())


def test_models_of_16_bits_get_another_command(fitzroy: Run, tmp_path: Path) -> None:
    graph = Graph("wide")
    type = TensorType((1, 4), DType.INT16, Quantization.per_tensor(0.5, 0))
    x = graph.add_input("x", type)
    graph.outputs = [graph.emit("add", [x, x], type, ActivationAttributes())]
    path = tmp_path / "wide.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    result = fitzroy("compile", path, "--target", "edgetpu")
    assert result.code == 4
    assert "the model computes with integers of 16 bits" in result.err
    assert "convert the model with int8 activations" in " ".join(result.err.split())
    assert "--calibrate" not in result.err
    explained = fitzroy("explain", path, "--target", "edgetpu")
    assert "real numbers" not in explained.out


def test_models_that_only_compare_compute_with_integers(fitzroy: Run, tmp_path: Path) -> None:
    graph = Graph("compares")
    x = graph.add_input("x", TensorType((1, 4), DType.INT8, Quantization.per_tensor(0.5, 0)))
    graph.outputs = [graph.emit("greater", [x, x], TensorType((1, 4), DType.BOOL))]
    path = tmp_path / "compares.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    result = fitzroy("compile", path, "--target", "edgetpu")
    assert result.code == 4
    assert "GREATER has no lowering" in result.err
    assert "real numbers" not in result.err
    explained = fitzroy("explain", path)
    assert "real numbers" not in explained.out


def test_explain_names_layers(fitzroy: Run, digits: Path) -> None:
    text = fitzroy("explain", digits, "--target", "edgetpu").out
    assert "global average" in text
    assert "9 operators: 9 on edgetpu" in text


def test_partition_all(fitzroy: Run, tmp_path: Path) -> None:
    graph = chain(DType.INT8, (8, 8, 8))
    grow(graph, "conv_2d", 64, (3, 3))
    (x,) = graph.outputs
    real = TensorType(graph.type(x).shape, DType.FLOAT32)
    y = graph.emit("abs", [graph.emit("dequantize", [x], real)], real)
    y = graph.emit("floor", [y], real)
    y = graph.emit("quantize", [y], graph.type(x))
    graph.outputs = [graph.emit("quantize", [y], graph.type(x))]
    path = tmp_path / "tail.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    by_cost = fitzroy("compile", path, "--json").json
    assert len(by_cost["subgraphs"]) == 1
    assert any("would cost more than it saves" in i["status"] for i in by_cost["operations"])
    everything = fitzroy("compile", path, "--partition", "all", "--json").json
    assert len(everything["subgraphs"]) == 2
    assert everything["mapped"] > by_cost["mapped"]


def test_logs(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    assert fitzroy("compile", digits, "--log", "-q").code == 0
    log = (tmp_path / "digits_edgetpu.log").read_text()
    assert log.startswith("FitzRoy ")
    assert "Operation log: digits_edgetpu.log\n" in log
    assert "Number of Edge TPU subgraphs: 1\n" in log
    assert "CONV_2D            4      Mapped to Edge TPU\n" in log


def test_reports(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    assert fitzroy("compile", digits, "--report", "r.html").code == 0
    page = (tmp_path / "r.html").read_text()
    assert "How fast is it?" in page
    assert "{{" not in page
    # A graph, the way from an inference to its program, and two memories.
    assert page.count("<svg") == 4
    assert fitzroy("compile", digits, "--report", "r.json").code == 0
    document = json.loads((tmp_path / "r.json").read_text())
    [part] = document["subgraphs"]
    assert part["timing"]["cycles"] == part["estimate"]["cycles"]
    assert part["narrow"]["tensors"]
    assert part["layers"]


@pytest.mark.long
def test_dumps(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    assert fitzroy("compile", digits, "--dump", "d", "-q").code == 0
    names = sorted(os.listdir("d"))
    assert names[:3] == ["0-graph.ir", "1-parts.txt", "part-0-2-legalized.txt"]
    first = {name: (tmp_path / "d" / name).read_bytes() for name in names}
    assert fitzroy("compile", digits, "--dump", "e", "-q").code == 0
    assert first == {name: (tmp_path / "e" / name).read_bytes() for name in names}
    listing = tmp_path / "d" / "part-0-6-program.s"
    compiled = "digits_edgetpu.tflite"
    assert fitzroy("as", listing, "--like", compiled, "-o", "again.tflite").code == 0
    assert (tmp_path / "again.tflite").read_bytes() == (tmp_path / compiled).read_bytes()


_CHANNELS_FIRST = """graph "g" {
  input %x : float32[1,3,64,64]
  %q : int8[1,3,64,64] quant(0.5 : 0) = quantize(%x)
  %t : int8[1,64,64,3] quant(0.5 : 0) = transpose(%q) {perm = [0, 2, 3, 1]}
  %s : int8[1,64,64,3] quant(0.5 : 0) = add(%t, %t) {activation = none}
  %y : float32[1,64,64,3] = dequantize(%s)
  output %y
}
"""


@pytest.mark.long
def test_callers_can_do_what_the_host_would(fitzroy: Run, tmp_path: Path) -> None:
    """A model whose inputs are real numbers, channels first, says how they become pictures."""
    (tmp_path / "m.txt").write_text(_CHANNELS_FIRST)
    plain = fitzroy("compile", "m.txt", "--target", "edgetpu")
    assert "--passes integer-borders,channels-last-inputs" in plain.out
    passes = ["integer-borders", "channels-last-inputs"]
    options = ["--target", "edgetpu", "--json"]
    assert fitzroy("compile", "m.txt", *options).json["border_passes"] == passes
    given = fitzroy("compile", "m.txt", *options, "--passes", ",".join(passes)).json
    assert given["border_passes"] == []
    assert given["mapped"] == given["operators"] == 1


@pytest.mark.long
@pytest.mark.parametrize(("function", "hinted"), [("square", True), ("floor", False)])
def test_a_model_that_another_tool_left_real_in_part_is_said_to_be_one(
    fitzroy: Run, tmp_path: Path, function: str, hinted: bool
) -> None:
    graph = chain(DType.INT8, (32, 32, 64))
    for _ in range(3):
        for _ in range(4):
            grow(graph, "conv_2d", 64, (3, 3))
        (x,) = graph.outputs
        type = graph.type(x)
        real = TensorType(type.shape, DType.FLOAT32)
        mean = real.with_shape((1, 32, 32, 1))
        y = graph.emit("dequantize", [x], real)
        of = graph.emit("mean", [y], mean, ReductionAttributes((3,), keep_dims=True))
        y = graph.emit("sub", [y, of], real, ActivationAttributes())
        y = graph.emit(function, [y], real)
        graph.outputs = [graph.emit("quantize", [y], type)]
    (tmp_path / "m.tflite").write_bytes(tflite.write_model(export_model(graph)))
    plain = fitzroy("compile", "m.tflite", "--partition", "all")
    assert "Number of Edge TPU subgraphs: 3" in plain.out
    assert ("compile the float32 model with --calibrate" in plain.out) is hinted


@pytest.mark.long
def test_a_detector_whose_outputs_the_host_arranges_is_said_to_be_one(
    fitzroy: Run, tmp_path: Path
) -> None:
    (tmp_path / "m.tflite").write_bytes(tflite.write_model(export_model(detectors.dfl())))
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((2, 64, 64, 3), np.float32))
    options = ["--target", "edgetpu", "--calibrate", "x.npy", "--effort", "fast"]
    options += ["--input-type", "float32"]
    plain = fitzroy("compile", "m.tflite", *options, "--output-type", "float32")
    assert "with --detections it lists objects" in plain.out
    listed = fitzroy("compile", "m.tflite", *options, "--detections")
    assert listed.code == 0
    assert "with --detections" not in listed.out
    form = ("--detections", "--form", "ssd")
    pose = detectors.numbers_first(keypoints=True)
    (tmp_path / "pose.tflite").write_bytes(tflite.write_model(export_model(pose)))
    chosen = fitzroy("compile", "pose.tflite", *options, *form)
    assert chosen.code == 0
    assert "with --detections" not in chosen.out
    assert "no place for keypoints, which are left out" in chosen.err
    # The remark is kept by models that are not quantized in the same go, too.
    assert fitzroy("quantize", "pose.tflite", "--calibrate", "x.npy", "--effort", "fast").code == 0
    chosen = fitzroy("compile", "pose_quant.tflite", *form)
    assert "no place for keypoints, which are left out" in chosen.err
    (tmp_path / "n.txt").write_text(_CHANNELS_FIRST)
    assert "--detections" not in fitzroy("compile", "n.txt", "--target", "edgetpu").out
