"""Names of classes that travel with a model: into files, through commands, and out again."""

from __future__ import annotations

import ast
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.compiler import detectors
from tests.compiler.onnx.models import helper, model
from tests.support import need

import fitzroy as api
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.formats import tflite
from fitzroy.formats.labels import labels_of
from fitzroy.pycoral.utils.dataset import read_label_file

DIGITS = {number: f"digit {number}" for number in range(10)}


@pytest.fixture
def names(tmp_path: Path) -> Path:
    path = tmp_path / "names.txt"
    path.write_text("".join(f"{name}\n" for name in DIGITS.values()))
    return path


@pytest.fixture
def named(fitzroy: Run, digits: Path, names: Path, tmp_path: Path) -> Path:
    """A compiled model with labels."""
    path = tmp_path / "named_edgetpu.tflite"
    assert fitzroy("compile", digits, "--labels", names, "-o", path, "-q").code == 0
    return path


def labels(path: Path) -> dict[int, str]:
    return labels_of(tflite.read_model(path.read_bytes())).labels


def onnx_classifier(path: Path, text: str) -> Path:
    """A model of three scores that says of itself what exports of Ultralytics do."""
    node = helper().make_node
    nodes = [node("MatMul", ["x", "w"], ["y"]), node("Softmax", ["y"], ["p"])]
    constants = {"w": np.eye(4, 3, dtype=np.float32)}
    properties = {"task": "classify", "stride": "1", "names": text}
    path.write_bytes(model(nodes, [("x", [1, 4])], ["p"], constants, properties=properties))
    return path


# --- into models ---------------------------------------------------------------------------------


def test_onnx_metadata_goes_all_the_way(fitzroy: Run, tmp_path: Path) -> None:
    path = onnx_classifier(tmp_path / "c.onnx", "{0: 'cat', 1: 'dog', 2: 'bird'}")
    wanted = {0: "cat", 1: "dog", 2: "bird"}
    assert api.load(path).labels == wanted
    np.save("x.npy", np.array([[0, 3, 0, 0]], np.float32))
    [output] = fitzroy("run", path, "-i", "x.npy", "--json").json["outputs"]
    assert output["top"][0]["label"] == "dog"
    assert fitzroy("convert", path, "-o", "c.tflite", "-q").code == 0
    assert labels(Path("c.tflite")) == wanted
    for source in (path, Path("c.tflite")):
        arguments = ("--calibrate", "x.npy", "-q")
        assert fitzroy("quantize", source, *arguments, "-o", "q.tflite").code == 0
        assert labels(Path("q.tflite")) == wanted
        assert fitzroy("compile", source, *arguments, "-o", "e.tflite").code == 0
        assert labels(Path("e.tflite")) == wanted
    assert fitzroy("compile", "q.tflite", "-q", "-o", "f.tflite").code == 0
    assert labels(Path("f.tflite")) == wanted
    for name in ("c.tflite", "e.tflite", "f.tflite"):
        # Ultralytics' programs take the first file for a dictionary of what the model is.
        with zipfile.ZipFile(name) as archive:
            assert archive.namelist() == ["metadata.json", "labels.txt"]
            text = archive.read("metadata.json").decode()
        found = ast.literal_eval(text)
        assert found == json.loads(text)
        assert (found["task"], found["stride"]) == ("classify", "1")
        assert ast.literal_eval(found["names"]) == wanted


def test_other_files_go_with_the_labels(fitzroy: Run, digits: Path) -> None:
    graph = api.load(digits)
    graph.files = {"vocab.txt": b"a\nb\n"}
    graph.labels = {0: "zero"}
    Path("with.tflite").write_bytes(tflite.write_model(export_model(graph)))
    assert fitzroy("compile", "with.tflite", "-o", "e.tflite", "-q").code == 0
    for name in ("with.tflite", "e.tflite"):
        assert api.load(name).files == {"vocab.txt": b"a\nb\n", "labels.txt": b"zero\n"}
        assert api.load(name).labels == {0: "zero"}


def test_text_that_is_no_list_of_names_is_remarked_on(fitzroy: Run, tmp_path: Path) -> None:
    path = onnx_classifier(tmp_path / "c.onnx", "{0: print('cat')}")
    assert api.load(path).labels == {}
    np.save("x.npy", np.zeros((1, 4), np.float32))
    result = fitzroy("compile", path, "--calibrate", "x.npy", "-o", "e.tflite")
    assert result.code == 0
    assert "warning: names of classes are left out: metadata 'names'" in result.err
    assert "--labels FILE" in result.err
    assert labels(Path("e.tflite")) == {}
    assert "names of classes are left out" in fitzroy("inspect", path).err


def test_metadata_that_are_no_text_are_remarked_on(tmp_path: Path) -> None:
    path = onnx_classifier(tmp_path / "c.onnx", "{0: 'cat', 1: 'dog', 2: 'bird'}")
    path.write_bytes(path.read_bytes().replace(b"'cat'", b"'c\xfft'"))
    graph = api.load(path)
    assert (graph.labels, graph.files) == ({}, {})
    assert [remark.code for remark in graph.remarks] == ["labels"]


def test_compiling_with_labels_adds_only_what_is_packed(
    fitzroy: Run, digits: Path, named: Path, names: Path, tmp_path: Path
) -> None:
    assert labels(named) == DIGITS
    first = named.read_bytes()
    assert fitzroy("compile", digits, "--labels", names, "-o", named, "-q").code == 0
    assert named.read_bytes() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert archive.testzip() is None
        assert archive.read("labels.txt") == names.read_bytes()
        assert archive.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)
    assert fitzroy("compile", digits, "-o", "plain.tflite", "-q").code == 0
    assert Path("plain.tflite").read_bytes() == api.compile_edgetpu(digits).data
    assert b"labels.txt" not in Path("plain.tflite").read_bytes()


def test_litert_loads_models_with_labels(fitzroy: Run, digits: Path, names: Path) -> None:
    need("ai_edge_litert", "litert")
    from ai_edge_litert.interpreter import Interpreter

    assert fitzroy("convert", digits, "--labels", names, "-o", "named.tflite", "-q").code == 0
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    found = []
    for path in (digits, Path("named.tflite")):
        interpreter = Interpreter(str(path))
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    assert (found[0] == found[1]).all()


def test_detectors_keep_their_labels(fitzroy: Run, tmp_path: Path) -> None:
    graph = detectors.FAMILIES["exponential"]()
    graph.labels = {number: f"thing {number}" for number in range(detectors.CLASSES)}
    path = tmp_path / "detector.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    side = detectors.SIDE
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.random((1, side, side, 3), np.float32))
    for form in ("objects", "ssd"):
        arguments = ("--calibrate", "x.npy", "--detections", "--form", form, "-q")
        result = fitzroy("compile", path, *arguments, "-o", "e.tflite")
        assert result.code == 0, result.err
        assert labels(Path("e.tflite")) == graph.labels
    result = fitzroy("run", path, "-i", "x.npy", "--detections", "--json")
    assert {item["label"] for item in result.json["objects"]} <= {*graph.labels.values()}
    assert result.json["objects"]


def test_segments_have_the_labels(fitzroy: Run, digits: Path, names: Path, tmp_path: Path) -> None:
    arguments = ("--labels", names, "-n", 2, "--out-dir", tmp_path / "parts", "-q")
    assert fitzroy("compile", digits, *arguments).code == 0
    last = tmp_path / "parts" / "digits_segment_1_of_2_edgetpu.tflite"
    assert labels(last) == DIGITS


def test_what_holds_no_labels_refuses_them(
    fitzroy: Run, digits: Path, names: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(digits.read_bytes())
    for arguments, reason in (
        (("compile", digits, "--target", "xnnpack"), "--labels is for the Edge TPU"),
        (("compile", digits, "--format", "package"), "--labels does not go with --format package"),
        (
            ("compile", digits, other, "--out-dir", "d"),
            "--labels is for one model, and 2 are given",
        ),
        (("quantize", "--compare", digits, other, "--data", "x"), "--labels does not go with"),
    ):
        result = fitzroy(*arguments, "--labels", names)
        assert result.code == 2
        assert reason in result.err
    Path("far.txt").write_text("70000 x\n1 y\n")
    result = fitzroy("compile", digits, "--labels", "far.txt")
    assert result.code == 2
    assert "models have at most 65536 classes" in result.err


# --- through other commands ----------------------------------------------------------------------


def test_linking_and_new_weights_keep_labels(fitzroy: Run, digits: Path, named: Path) -> None:
    assert fitzroy("link", named, "-o", "linked.tflite", "-q").code == 0
    assert labels(Path("linked.tflite")) == DIGITS
    other = tflite.read_model(digits.read_bytes())
    for tensor in (other.subgraphs or [])[0].tensors or ():
        data = (other.buffers or [])[tensor.buffer].data
        if tensor.type == tflite.TensorType.INT8 and data is not None:
            (other.buffers or [])[tensor.buffer].data = data[::-1]
            break
    Path("retrained.tflite").write_bytes(tflite.write_model(other))
    result = fitzroy("patch-weights", named, "retrained.tflite", "-o", "patched.tflite")
    assert result.code == 0, result.err
    assert Path("patched.tflite").read_bytes() != named.read_bytes()
    assert labels(Path("patched.tflite")) == DIGITS


# --- used ----------------------------------------------------------------------------------------


def test_running_names_classes(fitzroy: Run, named: Path, images: list[Path]) -> None:
    need("PIL", "images")
    for command in (("run", "--device", "sim:direct"), ("sim", "--functional")):
        arguments = (*command, named, "-i", images[0])
        [output] = fitzroy(*arguments, "--json").json["outputs"]
        best = output["top"][0]
        assert best["label"] == DIGITS[best["index"]]
        Path("others.txt").write_text("".join(f"other {n}\n" for n in range(10)))
        result = fitzroy(*arguments, "--labels", "others.txt", "--json")
        [output] = result.json["outputs"]
        assert output["top"][0]["label"] == f"other {best['index']}"


def test_labels_of_other_outputs_are_not_shown(
    fitzroy: Run, digits: Path, images: list[Path]
) -> None:
    need("PIL", "images")
    Path("few.txt").write_text("one\ntwo\n")
    assert fitzroy("convert", digits, "--labels", "few.txt", "-o", "few.tflite", "-q").code == 0
    result = fitzroy("run", "few.tflite", "-i", images[0], "--json")
    assert "label" not in result.json["outputs"][0]["top"][0]


def test_evaluation_knows_folders_by_labels(
    fitzroy: Run, named: Path, images: list[Path], tmp_path: Path
) -> None:
    need("PIL", "images")
    folder = tmp_path / "data" / "digit 1"
    folder.mkdir(parents=True)
    one = next(image for image in images if image.name.startswith("digit_1_"))
    (folder / one.name).write_bytes(one.read_bytes())
    arguments = ("evaluate", named, "--data", tmp_path / "data", "--device", "sim:direct")
    result = fitzroy(*arguments, "--json")
    assert result.code == 0, result.err
    test = tmp_path / "test.toml"
    test.write_text(
        f'model = "{named.name}"\ndevice = "sim:direct"\n'
        f'[[case]]\ninput = "data/digit 1/{one.name}"\ntop = "digit 1"\n'
    )
    result = fitzroy("test", test)
    assert result.code == 0, result.out + result.err


def test_interpreters_have_labels(named: Path) -> None:
    with api.Interpreter(named, device="sim:direct") as interpreter:
        assert interpreter.labels == DIGITS
    assert read_label_file(named) == DIGITS


# --- and out -------------------------------------------------------------------------------------


def test_inspecting_shows_and_writes_labels(
    fitzroy: Run, named: Path, digits: Path, names: Path
) -> None:
    result = fitzroy("inspect", named, "--labels-out", "out.txt")
    assert "10 classes: digit 0; digit 1; digit 2; digit 3; digit 4; ..." in result.out
    assert "wrote out.txt, 10 labels" in result.err
    assert Path("out.txt").read_bytes() == names.read_bytes()
    full = fitzroy("inspect", named, "--full").out
    assert "packed file: labels.txt, 80 B" in full
    document = fitzroy("inspect", named, "--json").json
    assert document["packed_files"] == [{"name": "labels.txt", "bytes": 80}]
    assert document["labels"][9] == {"class": 9, "label": "digit 9"}
    result = fitzroy("inspect", digits, "--labels-out", "none.txt")
    assert result.code == 2
    assert "the model has no names of classes" in result.err
    assert not Path("none.txt").exists()
    assert fitzroy("inspect", named, "--labels-out", named).code == 2


def test_a_damaged_archive_is_remarked_on(fitzroy: Run, named: Path) -> None:
    data = bytearray(named.read_bytes())
    data[data.index(b"digit 3")] ^= 1
    named.write_bytes(data)
    result = fitzroy("inspect", named)
    assert result.code == 0
    assert "names of classes are left out: 'labels.txt' is damaged" in result.err
