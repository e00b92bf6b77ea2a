from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.compiler import detectors
from tests.compiler.test_tflite_features import resizable
from tests.support import need, need_executorch

from fitzroy.base.installing import install_extra
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.formats import bundled, tflite
from fitzroy.formats.executorch import read_program

ORACLE = ("--runtime", "oracle")


@pytest.fixture(autouse=True)
def _images() -> None:
    need("PIL", "images")


@pytest.fixture
def pair(fitzroy: Run, tmp_path: Path) -> Path:
    """A program with two inputs and two outputs."""
    graph, type = Graph("pair"), TensorType((2, 3), DType.FLOAT32)
    graph.add_input("left", type)
    graph.add_input("right", type)
    total = graph.emit("sub", ["left", "right"], type, attributes_of("sub")(), stem="difference")
    graph.outputs = [total, graph.emit("abs", [total], type, stem="distance")]
    path = tmp_path / "pair.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(tmp_path / "b.npy", np.full((2, 3), 4, np.float32))
    assert fitzroy("compile", path, "-q").code == 0
    return tmp_path / "pair.pte"


def digit(image: Path) -> int:
    return int(image.name.split("_")[1])


def test_models_by_reference_semantics(fitzroy: Run, digits: Path, images: list[Path]) -> None:
    result = fitzroy("run", digits, "--input", images[3], "--json")
    assert result.code == 0
    [output] = result.json["outputs"]
    assert output["top"][0]["index"] == digit(images[3])
    assert output["top"][0]["score"] == (output["top"][0]["stored"] + 128) / 256
    assert "XNNPACK" in result.json["ran_on"]


def test_the_oracle(fitzroy: Run, program: Path, images: list[Path], labels: Path) -> None:
    for image in images:
        result = fitzroy("run", program, "-i", image, *ORACLE, "--labels", labels, "--top", 3)
        assert result.code == 0
        assert "ran on the numpy oracle" in result.err
        name, head, *rows = result.out.splitlines()
        assert name.startswith("probabilities: int8[1,10]")
        assert head.split() == ["class", "score", "label"]
        assert len(rows) == 3
        assert rows[0].split()[2] == str(digit(image))


@pytest.mark.long
@pytest.mark.runtime
def test_the_runtime(fitzroy: Run, program: Path, digits: Path, images: list[Path]) -> None:
    need_executorch()
    result = fitzroy("run", program, "-i", images[5], "-o", "y.npy", "--threads", 1)
    assert result.code == 0
    assert "ran on ExecuTorch's runtime" in result.err
    assert fitzroy("run", digits, "-i", images[5], "-o", "z.npy").code == 0
    np.testing.assert_array_equal(np.load("y.npy"), np.load("z.npy"))


def test_a_missing_runtime_is_said(
    fitzroy: Run, program: Path, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("fitzroy.driver.runtime", "fitzroy.driver.runtime.executorch"):
        monkeypatch.setattr(f"{module}.available", lambda: False)
    result = fitzroy("run", program, "-i", images[0])
    assert result.code == 0
    assert install_extra("executorch") in result.err
    wanted = fitzroy("run", program, "-i", images[0], "--runtime", "executorch")
    assert wanted.code == 2
    assert "not installed" in wanted.err


def test_several_inputs_and_outputs(fitzroy: Run, pair: Path, tmp_path: Path) -> None:
    wanted = np.arange(6, dtype=np.float32).reshape(2, 3) - 4
    for inputs in (
        ["left=a.npy", "right=b.npy"],
        ["right=b.npy", "a.npy"],
        ["a.npy", "b.npy"],
        ["1=b.npy", "0=a.npy"],
    ):
        flags = [part for item in inputs for part in ("--input", item)]
        result = fitzroy("run", "pair.tflite", *flags, "-o", "y.npz")
        assert result.code == 0, result.err
        archive = np.load("y.npz")
        np.testing.assert_array_equal(archive["difference"], wanted)
        np.testing.assert_array_equal(archive["distance"], abs(wanted))
    result = fitzroy("run", pair, "-i", "a.npy", "-i", "b.npy", *ORACLE, "-o", "y.npy")
    assert result.code == 0
    np.testing.assert_array_equal(np.load("y_0.npy"), wanted)
    np.testing.assert_array_equal(np.load("y_1.npy"), abs(wanted))
    raw = fitzroy("run", pair, "-i", "a.npy", "-i", "b.npy", *ORACLE, "-o", "y.bin", "--raw-output")
    assert raw.code == 0
    assert (tmp_path / "y_1.bin").read_bytes() == abs(wanted).tobytes()


def test_an_archive_feeds_several_inputs(fitzroy: Run, pair: Path, tmp_path: Path) -> None:
    a, b = np.load("a.npy"), np.load("b.npy")
    np.savez("by_name.npz", right=b, left=a, unused=a)
    np.savez("by_number.npz", **{"0": a, "1": b})
    np.savez("one.npz", right=b)
    np.savez("any.npz", whatever=b)
    for inputs in (
        ["by_name.npz"],
        ["by_number.npz"],
        ["left=a.npy", "one.npz"],
        ["left=a.npy", "right=any.npz"],
        ["left=by_name.npz", "right=by_name.npz"],
    ):
        flags = [part for item in inputs for part in ("--input", item)]
        result = fitzroy("run", "pair.tflite", *flags, "-o", "y.npz")
        assert result.code == 0, result.err
        np.testing.assert_array_equal(np.load("y.npz")["difference"], a - b)
    refused = fitzroy("run", "pair.tflite", "-i", "one.npz")
    assert refused.code == 2
    assert "no array for input 'left'" in refused.err
    assert "the archive has 'right'" in refused.err
    np.savez("wide.npz", left=a, right=b.astype(np.float64))
    refused = fitzroy("run", "pair.tflite", "-i", "wide.npz")
    assert refused.code == 2
    assert "wide.npz: right" in refused.err
    (tmp_path / "broken.npz").write_bytes(b"PK")
    assert fitzroy("run", "pair.tflite", "-i", "broken.npz").code == 3
    (tmp_path / "several").mkdir()
    np.savez("several/x.npz", left=a, right=b)
    np.savez("several/y.npz", left=b, right=b)
    assert fitzroy("run", "pair.tflite", "-i", "several", "-o", "out").code == 0
    np.testing.assert_array_equal(np.load("out/x.npz")["difference"], a - b)
    np.testing.assert_array_equal(np.load("out/y.npz")["difference"], b - b)


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([], "input 'left' is missing"),
        (["a.npy"], "input 'right' is missing"),
        (["left=a.npy", "left=b.npy"], "input 'right' is missing"),
        (["a.npy", "b.npy", "a.npy"], "input 'left' is given 2 times, and 'right' once"),
        (["middle=a.npy"], "no input named 'middle'"),
    ],
)
def test_wrong_inputs_name_the_right_ones(
    fitzroy: Run, pair: Path, inputs: list[str], text: str
) -> None:
    flags = [part for item in inputs for part in ("--input", item)]
    result = fitzroy("run", "pair.tflite", *flags)
    assert (result.code, result.out) == (2, "")
    assert text in result.err
    if "twice" not in text:
        assert "'right': float32[2,3]" in result.err


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ["digits.tflite", "--runtime", "oracle"],
        ["digits.tflite", "--threads", "2"],
        ["digits.tflite", "--method", "forward"],
        ["digits.pte", "--arithmetic", "tflite"],
        ["digits.pte", "--runtime", "oracle", "--threads", "2"],
        ["digits.pte", "--runtime", "oracle", "--method", "backward"],
        ["digits.pte", "--raw-output"],
        ["digits.pte", "--runtime", "oracle", "--output", "y.txt"],
        ["digits.pte", "--runtime", "oracle", "--output", "digits.pte"],
    ],
)
def test_options_without_effect_are_refused(
    fitzroy: Run, program: Path, digits: Path, images: list[Path], arguments: list[str]
) -> None:
    file = digits if arguments[0].endswith("tflite") else program
    result = fitzroy("run", file, *arguments[1:], "--input", images[0])
    assert (result.code, result.out) == (2, "")


def test_labels_that_do_not_fit(
    fitzroy: Run, digits: Path, images: list[Path], pair: Path, tmp_path: Path
) -> None:
    (tmp_path / "many.txt").write_text("x\n" * 11)
    result = fitzroy("run", digits, "-i", images[0], "--labels", "many.txt")
    assert result.code == 0
    assert "warning: 11 labels for 10 scores" in result.err
    (tmp_path / "one.txt").write_text("x\n")
    result = fitzroy("run", digits, "-i", images[0], "--labels", "one.txt")
    assert "warning: 1 label for 10 scores" in result.err
    result = fitzroy("run", "pair.tflite", "-i", "a.npy", "-i", "b.npy", "--labels", "many.txt")
    assert "the labels have no use" in result.err
    assert fitzroy("run", digits, "-i", images[0], "--labels", "none.txt").code == 2


def test_other_outputs_are_summed_up(fitzroy: Run, pair: Path) -> None:
    result = fitzroy("run", "pair.tflite", "-i", "a.npy", "-i", "b.npy")
    assert "distance: float32[2,3]\n  4 3 2 1 0 1\n" in result.out
    document = fitzroy("run", "pair.tflite", "-i", "a.npy", "-i", "b.npy", "--json").json
    assert document["outputs"][0]["mean"] == -1.5


# --- bundled programs ----------------------------------------------------------------------------


@pytest.fixture
def bundle(fitzroy: Run, digits: Path, images: list[Path], tmp_path: Path) -> Path:
    assert fitzroy("compile", digits, "-o", "d.bpte", "-q", "--bundle", *images[:3]).code == 0
    return tmp_path / "d.bpte"


def _spoil(path: Path) -> None:
    """Change one expected output of the second case."""
    read = bundled.read_bundle(path.read_bytes())
    cases = list(read.suites[0].cases)
    output = np.array(cases[1].outputs[0])
    output[0, 0] += 3
    cases[1] = bundled.Case(cases[1].inputs, (output,))
    suite = bundled.Suite("forward", tuple(cases))
    path.write_bytes(bundled.write_bundle(bytes(read.program), [suite]))


def test_bundles_on_the_oracle(fitzroy: Run, bundle: Path) -> None:
    result = fitzroy("run", bundle, *ORACLE)
    assert result.code == 0
    assert result.out.count("as expected") == 3
    _spoil(bundle)
    failed = fitzroy("run", bundle, *ORACLE)
    assert failed.code == 8
    assert failed.out.count("as expected") == 2
    assert "output 0: 1 of 10 elements differ, by at most 3" in failed.out
    assert "1 of 3 test cases failed" in failed.err
    document = fitzroy("run", bundle, *ORACLE, "--json")
    assert document.code == document.json["error"]["exit_code"] == 8
    assert [case["passed"] for case in document.json["cases"]] == [True, False, True]


@pytest.mark.long
@pytest.mark.runtime
def test_bundles_on_the_runtime(fitzroy: Run, bundle: Path) -> None:
    need_executorch()
    assert fitzroy("run", bundle).code == 0
    _spoil(bundle)
    failed = fitzroy("run", bundle)
    assert failed.code == 7
    assert failed.out.count("as expected") == 2


def test_old_bundles(fitzroy: Run, bundle: Path, tmp_path: Path) -> None:
    read = bundled.read_bundle(bundle.read_bytes())
    (tmp_path / "old.bpte").write_bytes(bundled.write_old_bundle(read))
    assert fitzroy("run", "old.bpte", *ORACLE).out.count("as expected") == 3


def test_the_program_of_a_bundle_takes_inputs(
    fitzroy: Run, bundle: Path, images: list[Path]
) -> None:
    result = fitzroy("run", bundle, "-i", images[7], *ORACLE, "--json")
    assert result.json["outputs"][0]["top"][0]["index"] == digit(images[7])


@pytest.mark.parametrize(
    "options", [["--output", "y.npy"], ["--labels", "x"], ["--method", "no"], ["--mean", "1"]]
)
def test_checking_a_bundle_takes_few_options(
    fitzroy: Run, bundle: Path, options: list[str]
) -> None:
    assert fitzroy("run", bundle, *ORACLE, *options).code == 2


def test_delegate_graphs_do_not_run(fitzroy: Run, program: Path, tmp_path: Path) -> None:
    file = read_program(program.read_bytes())
    [plan] = file.program.execution_plan or []
    [delegate] = plan.delegates or []
    (tmp_path / "graph.xnn").write_bytes(file.delegate_data(delegate))
    result = fitzroy("run", "graph.xnn")
    assert result.code == 2
    assert "does not run alone" in result.err


def test_objects_of_a_detector(fitzroy: Run, tmp_path: Path) -> None:
    from fitzroy.compiler.ir import Node
    from fitzroy.compiler.ops.detection import DetectionAttributes

    graph = Graph("detector")
    for name, shape in (("boxes", (1, 3, 4)), ("scores", (1, 3, 2))):
        graph.add_input(name, TensorType(shape, DType.FLOAT32))
    anchors = np.array([[0.5, 0.5, 0.5, 0.25], [0.5, 0.5, 0.5, 0.25], [0.25, 0.25, 0.5, 0.5]])
    names = ("boxes", "scores", graph.add_constant("anchors", anchors.astype(np.float32)))
    a = DetectionAttributes(4, 1, 2, 0.25, 0.5, 10, 10, 5, 5)
    outputs = ("where", "what", "sure", "number")
    shapes = ((1, 4, 4), (1, 4), (1, 4), (1,))
    graph.add_node(
        Node("found", "detection_post_process", names, outputs, a),
        [TensorType(shape, DType.FLOAT32) for shape in shapes],
    )
    graph.outputs = list(outputs)
    path = tmp_path / "detector.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    np.save("boxes.npy", np.zeros((1, 3, 4), np.float32))
    np.save("scores.npy", np.array([[[0.5, 0.4], [0.75, 0.3], [0.1, 0.5]]], np.float32))
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    arguments = (
        "run", path, "-i", "boxes=boxes.npy", "-i", "scores=scores.npy", "--labels", "labels.txt",
    )  # fmt: skip
    result = fitzroy(*arguments, "--json")
    assert result.json["objects"] == [
        {"class": 0, "label": "cat", "score": 0.75, "box": [0.25, 0.375, 0.75, 0.625]},
        {"class": 1, "label": "dog", "score": 0.5, "box": [0, 0, 0.5, 0.5]},
    ]
    result = fitzroy(*arguments)
    assert result.code == 0
    assert "warning" not in result.err
    *_, head, first, second = result.out.splitlines()
    assert head.split() == ["class", "score", "top", "left", "bottom", "right", "label"]
    assert first.split() == ["0", "0.750", "0.250", "0.375", "0.750", "0.625", "cat"]
    assert second.split()[-1] == "dog"
    best = fitzroy(*arguments, "--top", 1)
    assert best.out.splitlines()[-2:] == result.out.splitlines()[-3:-1]
    (only,) = fitzroy(*arguments, "--top", 1, "--json").json["objects"]
    assert only["label"] == "cat"
    np.save("scores.npy", np.zeros((1, 3, 2), np.float32))
    assert fitzroy(*arguments).out.splitlines()[-1] == "no objects"


# --- detectors that list objects -----------------------------------------------------------------


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A picture, twice as wide as high."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (50, 100, 3)).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("family", ["pose", "masks", "exponential"])
def test_objects_are_listed_and_drawn(
    fitzroy: Run, tmp_path: Path, photo: Path, family: str
) -> None:
    from PIL import Image

    path = tmp_path / "detector.tflite"
    path.write_bytes(tflite.write_model(export_model(detectors.FAMILIES[family]())))
    result = fitzroy(
        "run", path, "-i", photo, "--detections", "--most", 5, "--draw", "found.png", "--json"
    )
    objects = result.json["objects"]
    assert 0 < len(objects) <= 5
    scores = [item["score"] for item in objects]
    assert scores == sorted(scores, reverse=True)
    assert ("keypoints" in objects[0]) == (family == "pose")
    assert ("mask_share" in objects[0]) == (family == "masks")
    assert result.json["written"] == ["found.png"]
    with Image.open(photo) as before, Image.open("found.png") as after:
        assert after.size == (3 * before.width, 3 * before.height)
        larger = before.resize(after.size, Image.Resampling.NEAREST)
        changed = (np.asarray(larger) != np.asarray(after)).any(axis=2)
    assert changed.any()
    best = ("run", path, "-i", photo, "--detections", "--top", 1, "--draw", "best.png", "--json")
    assert fitzroy(*best).json["objects"] == objects[:1]
    with Image.open("best.png") as fewer, Image.open("found.png") as all:
        assert (len(objects) == 1) == (fewer.tobytes() == all.tobytes())


def test_drawing_that_cannot_be_done(fitzroy: Run, tmp_path: Path, photo: Path) -> None:
    path = tmp_path / "detector.tflite"
    path.write_bytes(tflite.write_model(export_model(detectors.pose())))
    assert "for detectors" in fitzroy("run", path, "-i", photo, "--draw", "found.png").err
    np.save("x.npy", np.zeros((1, detectors.SIDE, detectors.SIDE, 3), np.float32))
    arguments = ("run", path, "--detections")
    assert "needs a picture" in fitzroy(*arguments, "-i", "x.npy", "--draw", "found.png").err
    assert "not written as" in fitzroy(*arguments, "-i", photo, "--draw", "found.xyz").err
    assert "add --detections" in fitzroy("run", path, "-i", photo, "--most", 5).err
    assert not Path("found.png").exists()
    before = photo.read_bytes()
    result = fitzroy(*arguments, "-i", photo, "--draw", photo)
    assert "would overwrite an input" in result.err
    assert photo.read_bytes() == before


def test_drawings_are_refused_before_anything_runs(
    fitzroy: Run, tmp_path: Path, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluated(*_: object) -> None:
        raise AssertionError("the model ran")

    monkeypatch.setattr("fitzroy.evaluate", evaluated)
    path = tmp_path / "detector.tflite"
    path.write_bytes(tflite.write_model(export_model(detectors.pose())))
    result = fitzroy("run", path, "-i", photo, "--detections", "--draw", "found.xyz")
    assert "not written as .xyz" in result.err
    refused = fitzroy("run", path, "-i", photo, "--draw", "found.png").err
    assert "for detectors" in refused
    assert "give --detections here" in refused
    assert "written as .npy or .npz" in fitzroy("run", path, "-i", photo, "-o", "x.txt").err


def test_objects_without_a_label_are_remarked_on(fitzroy: Run, tmp_path: Path, photo: Path) -> None:
    path = tmp_path / "detector.tflite"
    path.write_bytes(tflite.write_model(export_model(detectors.FAMILIES["exponential"]())))
    arguments = ("run", path, "-i", photo, "--detections", "--labels", "labels.txt")
    every = "".join(f"thing {number}\n" for number in range(detectors.CLASSES))
    Path("labels.txt").write_text(every)
    assert "warning" not in fitzroy(*arguments).err
    Path("labels.txt").write_text("thing\n")
    result = fitzroy(*arguments)
    assert "warning: 1 label, and none for class" in result.err
    assert result.code == 0


def test_arrays_are_not_overwritten_by_outputs(fitzroy: Run, tmp_path: Path) -> None:
    path = tmp_path / "detector.tflite"
    path.write_bytes(tflite.write_model(export_model(detectors.pose())))
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.npy", "b.npy"):
        np.save(folder / name, np.zeros((1, detectors.SIDE, detectors.SIDE, 3), np.float32))
    before = (folder / "a.npy").read_bytes()
    assert "overwrite" in fitzroy("run", path, "-i", folder, "-o", folder).err
    assert "overwrite" in fitzroy("run", path, "-i", folder / "a.npy", "-o", folder / "a.npy").err
    assert (folder / "a.npy").read_bytes() == before


def test_arrays_give_the_extents_that_a_model_leaves_open(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "open.tflite").write_bytes(resizable(1, 1, [-1, -1, -1, 2]).data())
    np.save(tmp_path / "x.npy", np.ones((1, 6, 4, 2), np.float32))
    np.savez(tmp_path / "any.npz", any=np.ones((1, 6, 4, 2), np.float32))
    np.savez(tmp_path / "named.npz", t1_0=np.ones((1, 6, 4, 2), np.float32), other=np.ones(3))
    for given in ("x.npy", "t1_0=x.npy", "any.npz", "t1_0=any.npz", "named.npz"):
        result = fitzroy("run", "open.tflite", "--input", given, "--output", "y.npy", "--quiet")
        assert (result.code, result.err) == (0, "")
        assert np.load(tmp_path / "y.npy").shape == (1, 12, 6)
