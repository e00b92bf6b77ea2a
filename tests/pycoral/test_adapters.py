"""Adapters of PyCoral: inputs, scores, objects, and labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.compiler import detectors
from tests.support import corpus, need

import fitzroy
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections
from fitzroy.formats import tflite
from fitzroy.pycoral.adapters import classify, common, detect, segment
from fitzroy.pycoral.adapters.detect import BBox
from fitzroy.pycoral.utils import edgetpu
from fitzroy.pycoral.utils.dataset import read_label_file
from fitzroy.tflite_runtime.interpreter import Interpreter

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIGITS = EXAMPLES / "models" / "digits.tflite"


@pytest.fixture
def digits() -> Interpreter:
    """The digits model on the host."""
    return allocated(DIGITS.read_bytes())


def allocated(data: bytes) -> Interpreter:
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    return interpreter


def image(digit: int) -> Array:
    need("PIL", "examples")
    from PIL import Image

    (path,) = (EXAMPLES / "images").glob(f"digit_{digit}_*.png")
    with Image.open(path) as file:
        return np.asarray(file.convert("L")).astype(np.int16) - 128


# --- images and scores ---------------------------------------------------------------------------


def test_classification(digits: Interpreter) -> None:
    assert common.input_size(digits) == (8, 8)
    assert common.input_details(digits, "dtype") is np.int8
    common.set_input(digits, image(7))
    digits.invoke()
    assert classify.num_classes(digits) == 10
    scores = classify.get_scores(digits)
    stored = common.output_tensor(digits, 0)
    np.testing.assert_allclose(scores, (stored[0].astype(int) + 128) / 256)
    best, *others = classify.get_classes(digits)
    assert best.id == 7
    assert len(others) == 9
    assert classify.get_classes(digits, top_k=1) == [best]
    assert classify.get_classes(digits, score_threshold=best.score) == [best]
    assert classify.get_classes(digits, score_threshold=2.0) == []


def test_classes_are_in_order() -> None:
    scores = np.array([0.1, 0.5, 0.5, 0.3], np.float32)
    found = classify.get_classes_from_scores(scores, top_k=3, score_threshold=0.2)
    assert [item.id for item in found] == [1, 2, 3]
    assert all(type(item.score) is float for item in found)
    assert [item.id for item in classify.get_classes_from_scores(scores)] == [1, 2, 3, 0]


def test_float_outputs_are_what_they_are() -> None:
    graph, type = Graph("plain"), TensorType((1, 4), DType.FLOAT32)
    graph.add_input("x", type)
    graph.outputs = [graph.emit("abs", ["x"], type)]
    interpreter = allocated(tflite.write_model(export_model(graph)))
    interpreter.set_tensor(
        interpreter.get_input_details()[0]["index"], np.array([[-1, 2, -3, 0]], np.float32)
    )
    interpreter.invoke()
    assert classify.get_scores(interpreter).tolist() == [1, 2, 3, 0]
    assert classify.get_scores(interpreter).dtype == np.float32


def test_resized_input(digits: Interpreter) -> None:
    common.set_input(digits, np.full((8, 8), 9))
    asked: list[tuple[int, int]] = []

    def resize(size: tuple[int, int]) -> Array:
        asked.append(size)
        return np.full(size[::-1], 5)

    resized, scale = common.set_resized_input(digits, (32, 16), resize)
    assert asked == [(8, 4)]
    assert scale == (0.25, 0.25)
    assert resized.shape == (4, 8)
    tensor = common.input_tensor(digits)
    assert (tensor[:4] == 5).all()
    assert (tensor[4:] == 0).all()


def test_segmentation() -> None:
    graph, type = Graph("segments"), TensorType((1, 3, 4, 5), DType.FLOAT32)
    graph.add_input("x", type)
    graph.outputs = [graph.emit("abs", ["x"], type)]
    interpreter = allocated(tflite.write_model(export_model(graph)))
    common.set_input(interpreter, np.full((3, 4, 5), -2))
    interpreter.invoke()
    found = segment.get_output(interpreter)
    assert (found == 2).all()
    assert found.shape == (3, 4, 5)
    assert found.dtype == np.uint8


# --- objects -------------------------------------------------------------------------------------


def detector(order: tuple[str, ...], signature: bool = False) -> Interpreter:
    """A model with the outputs of a detector, which copies them from its inputs."""
    graph = Graph("detector")
    graph.add_input("image", TensorType((1, 10, 20, 3), DType.FLOAT32))
    shapes = {"boxes": (1, 3, 4), "classes": (1, 3), "scores": (1, 3), "number": (1,)}
    named = {}
    for name, shape in shapes.items():
        type = TensorType(shape, DType.FLOAT32)
        graph.add_input(f"x {name}", type)
        named[name] = graph.emit("abs", [f"x {name}"], type, stem=name)
    graph.outputs = [named[name] for name in order]
    model = export_model(graph)
    if signature:
        main = (model.subgraphs or [])[0]
        names = [tensor.name for tensor in main.tensors or ()]
        meaning = {"output_0": "number", "output_1": "scores", "output_2": "classes"}
        outputs = [
            tflite.TensorMap(name=key, tensor_index=names.index(value))
            for key, value in (meaning | {"output_3": "boxes"}).items()
        ]
        model.signature_defs = [tflite.SignatureDef(outputs=outputs, signature_key="serving")]
    interpreter = allocated(tflite.write_model(model))
    values = {
        "x boxes": [[[0.125, 0.25, 0.5, 0.75], [0, 0, 1, 1], [0, 0, 0, 0]]],
        "x classes": [[4, 2, 0]],
        "x scores": [[0.9, 0.4, 0]],
        "x number": [2],
    }
    for details in interpreter.get_input_details():
        if details["name"] in values:
            array = np.array(values[details["name"]], np.float32)
            interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    return interpreter


@pytest.mark.parametrize(
    ("order", "signature"),
    [
        (("boxes", "classes", "scores", "number"), False),
        (("scores", "boxes", "number", "classes"), False),
        (("number", "scores", "classes", "boxes"), True),
    ],
)
def test_objects(order: tuple[str, ...], signature: bool) -> None:
    interpreter = detector(order, signature)
    first, second = detect.get_objects(interpreter, score_threshold=0.3)
    assert (first.id, second.id) == (4, 2)
    assert first.score == pytest.approx(0.9)
    assert first.bbox == BBox(5, 1, 15, 5)
    assert second.bbox == BBox(0, 0, 20, 10)
    assert len(detect.get_objects(interpreter)) == 3
    (scaled, *_) = detect.get_objects(interpreter, 0.5, (0.5, 0.25))
    assert scaled.bbox == BBox(10, 5, 30, 20)


def test_objects_of_a_model_that_lists_them() -> None:
    graph = with_detections(detectors.exponential(), HeadOptions(True, score_threshold=0.3))
    interpreter = Interpreter(model_content=tflite.write_model(export_model(graph)))
    interpreter.allocate_tensors()
    side = detectors.SIDE
    picture = np.random.default_rng(0).random((side, side, 3), np.float32)
    common.set_input(interpreter, picture)
    interpreter.invoke()
    rows = fitzroy.evaluate(graph, {"image": picture[None]})["detections"]
    found = detect.get_objects(interpreter, 0.4, (0.5, 0.25))
    assert len(found) == np.count_nonzero(rows[:, 4] >= 0.4) > 2
    for item, row in zip(found, rows, strict=False):
        assert item.id == row[5]
        assert item.score == pytest.approx(row[4])
        np.testing.assert_allclose(item.bbox, row[:4] * [2, 4, 2, 4], atol=1.001)


def test_models_that_are_no_detectors(digits: Interpreter) -> None:
    with pytest.raises(ValueError, match=r"four outputs.*compile MODEL --detections"):
        detect.get_objects(digits)


def test_boxes() -> None:
    a, b, away = BBox(0, 0, 4, 2), BBox(2, 1, 6, 3), BBox(9, 9, 10, 10)
    assert (a.width, a.height, a.area, a.valid) == (4, 2, 8, True)
    assert BBox.intersect(a, b) == BBox(2, 1, 4, 2)
    assert BBox.union(a, b) == BBox(0, 0, 6, 3)
    assert BBox.iou(a, b) == pytest.approx(2 / 14)
    assert BBox.iou(a, a) == 1
    assert not BBox.intersect(a, away).valid
    assert BBox.iou(a, away) == 0
    assert a.scale(2, 3) == BBox(0, 0, 8, 6)
    assert a.translate(1, -1) == BBox(1, -1, 5, 1)
    assert BBox(0.5, 1.5, 2.5, 3.5).map(int) == BBox(0, 1, 2, 3)


# --- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cat\ndog\n", {0: "cat", 1: "dog"}),
        ("3 cat\n7: a dog\n", {3: "cat", 7: "a dog"}),
        ("0:cat\n1  guinea pig\n", {0: "cat", 1: "guinea pig"}),
        ("background\n2 of us\n", {0: "background", 2: "of us"}),
        ("5::cat\n6:\n7: a: b\n", {5: "cat", 6: "", 7: "a: b"}),
    ],
)
def test_labels(tmp_path: Path, text: str, wanted: dict[int, str]) -> None:
    path = tmp_path / "labels.txt"
    path.write_text(text)
    assert read_label_file(path) == wanted
    with pytest.raises(OSError, match="no such file"):
        read_label_file(tmp_path / "absent.txt")


@pytest.mark.corpus
@pytest.mark.slow
def test_a_compiled_model_classifies_a_photo() -> None:
    need("PIL", "examples")
    from PIL import Image

    folder = corpus()
    interpreter = edgetpu.make_interpreter(
        str(folder / "coral" / "mobilenet_v1_0.25_128_quant_edgetpu.tflite"), device="sim:direct"
    )
    interpreter.allocate_tensors()
    with Image.open(folder / "images" / "grace_hopper.bmp") as photo:
        common.set_input(interpreter, photo.convert("RGB").resize(common.input_size(interpreter)))
    interpreter.invoke()
    (best,) = classify.get_classes(interpreter, top_k=1)
    labels = read_label_file(folder / "images" / "imagenet_labels.txt")
    assert "academic gown" in labels[best.id]
