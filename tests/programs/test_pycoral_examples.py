"""What PyCoral's nine examples ask of it, on two simulated devices."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.programs import models
from tests.programs.models import BLUE, CELLS, GREEN, RED, SIDE, scene
from tests.pycoral.test_learn import classifier as imprinting_model
from tests.pycoral.test_learn import compiled_extractor, pictures
from tests.support import need

import fitzroy
from fitzroy.base.types import Array
from fitzroy.execution.devices import ENVIRONMENT
from fitzroy.pycoral.adapters import classify, common, detect, segment
from fitzroy.pycoral.learn.backprop.softmax_regression import SoftmaxRegression
from fitzroy.pycoral.learn.imprinting.engine import ImprintingEngine
from fitzroy.pycoral.pipeline import pipelined_model_runner as pipeline
from fitzroy.pycoral.utils.dataset import read_label_file
from fitzroy.pycoral.utils.edgetpu import list_edge_tpus, make_interpreter, run_inference
from fitzroy.tflite_runtime.interpreter import Interpreter

PLACES = {RED: (0, 1), GREEN: (2, 2), BLUE: (3, 0)}
SCENE = scene(*((row, column, label) for label, (row, column) in PLACES.items()))


@pytest.fixture(autouse=True)
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "sim:direct,sim:direct")


def opened(model: models.Pair, device: str | None = None) -> Interpreter:
    interpreter = make_interpreter(model.compiled, device)
    interpreter.allocate_tensors()
    return interpreter


def picture(pixels: Array) -> Any:
    """An image of Pillow."""
    need("PIL", "examples")
    from PIL import Image

    return Image.fromarray(pixels)


def box_of(label: int, scale: float = 1.0) -> tuple[float, ...]:
    """Where a thing of the scene is, as (left, top, right, bottom) in pixels."""
    row, column = PLACES[label]
    extent = scale * SIDE / CELLS
    return tuple(extent * part for part in (column, row, column + 1, row + 1))


def test_classify_image(tmp_path: Path) -> None:
    labels_file = tmp_path / "labels.txt"
    labels_file.write_text("0 red\n1 green\n2 blue\n")
    labels = read_label_file(str(labels_file))
    _, path = models.classifier().written(tmp_path)
    interpreter = make_interpreter(*f"{path}@:1".split("@"))
    interpreter.allocate_tensors()
    assert common.input_details(interpreter, "dtype") == np.uint8
    size = common.input_size(interpreter)
    image = picture(scene(*((row, row, BLUE) for row in range(CELLS)))).resize(size)
    parameters = common.input_details(interpreter, "quantization_parameters")
    scale, zero_point = parameters["scales"], parameters["zero_points"]
    # The model takes pixel / 255, which is a mean of 0 and a deviation of 255.
    assert abs(scale * 255 - 1) > 1e-5
    assert scale.shape == zero_point.shape == (1,)
    stored = np.asarray(image) / (255.0 * scale) + zero_point
    np.clip(stored, 0, 255, out=stored)
    common.set_input(interpreter, stored.astype(np.uint8))
    for _ in range(2):
        interpreter.invoke()
        classes = classify.get_classes(interpreter, 1, 0.0)
    assert [labels.get(item.id, item.id) for item in classes] == ["blue"]
    assert classes[0].score > 0.5


@pytest.mark.parametrize("scale", [1, 2])
def test_detect_image(scale: int) -> None:
    interpreter = opened(models.detector())
    image = picture(SCENE.repeat(scale, axis=0).repeat(scale, axis=1))
    _, factors = common.set_resized_input(
        interpreter, image.size, lambda size: image.resize(size, 0)
    )
    assert factors == (1 / scale, 1 / scale)
    interpreter.invoke()
    found = detect.get_objects(interpreter, 0.4, factors)
    assert {item.id for item in found} == {RED, GREEN, BLUE}
    for item in found:
        np.testing.assert_allclose(item.bbox, box_of(item.id, scale), atol=scale)


def test_small_object_detection() -> None:
    """Tiles of a large image, one after the other, into the same input."""
    interpreter = opened(models.detector())
    image = np.concatenate([SCENE, scene((1, 3, GREEN))], axis=1)
    found = []
    for left in (0, SIDE):
        tile = picture(image[:, left : left + SIDE])
        _, factors = common.set_resized_input(
            interpreter, tile.size, partial(tile.resize, resample=0)
        )
        interpreter.invoke()
        for item in detect.get_objects(interpreter, 0.4, factors):
            found.append((item.id, item.bbox.translate(left, 0).map(round)))
    assert sorted(label for label, _ in found) == [RED, GREEN, GREEN, BLUE]
    (last,) = (box for label, box in found if label == GREEN and box.xmin >= SIDE)
    np.testing.assert_allclose(last, (SIDE + 24, 8, SIDE + 32, 16), atol=1)


def test_semantic_segmentation() -> None:
    interpreter = opened(models.segmenter(), ":0")
    width, height = common.input_size(interpreter)
    common.set_input(interpreter, picture(SCENE).resize((width, height)))
    interpreter.invoke()
    result = segment.get_output(interpreter)
    assert result.shape == (CELLS, CELLS, 3)
    colours = np.argmax(result, axis=-1)
    for label, place in PLACES.items():
        assert colours[place] == label


def test_movenet_pose_estimation() -> None:
    interpreter = opened(models.pose())
    image = picture(SCENE).resize(common.input_size(interpreter))
    common.set_input(interpreter, image)
    interpreter.invoke()
    found = common.output_tensor(interpreter, 0).copy().reshape(17, 3)
    with fitzroy.Interpreter(models.pose().source, host="litert") as source:
        (wanted,) = source.run({"image": SCENE[None]}).values()
    np.testing.assert_allclose(found, wanted.reshape(17, 3), atol=0.05)
    assert found.std() > 0.05


def test_two_models_inference() -> None:
    """Two models in turn on one device, and each on a device and in a thread of its own."""
    assert len(list_edge_tpus()) > 1
    results: dict[str, list[Any]] = {}

    def job(name: str, model: models.Pair, device: str) -> None:
        interpreter = opened(model, device)
        common.set_input(interpreter, SCENE)
        results[name] = []
        for _ in range(2):
            interpreter.invoke()
            if name.startswith("classes"):
                results[name] += classify.get_classes(interpreter, top_k=1)
            else:
                found = detect.get_objects(interpreter, score_threshold=0.4)
                results[name].append(sorted(item.id for item in found))

    classifying, detecting = models.classifier(), models.detector()
    for device in (":0", ":1"):
        threads = [
            threading.Thread(target=job, args=(f"classes {device}", classifying, ":0")),
            threading.Thread(target=job, args=(f"objects {device}", detecting, device)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert results["objects :0"] == results["objects :1"] == [[RED, GREEN, BLUE]] * 2
    assert results["classes :0"] == results["classes :1"]
    assert len(results["classes :0"]) == 2


def test_model_pipelining_classify_image(tmp_path: Path) -> None:
    source, _ = models.classifier().written(tmp_path)
    template = str(tmp_path / "model_segment_%d_of_2_edgetpu.tflite")
    for number, part in enumerate(fitzroy.compile_segments(source, 2)):
        Path(template % number).write_bytes(part.data)
    assert sum(device["type"] == "pci" for device in list_edge_tpus()) == 0
    interpreters = [make_interpreter(template % n, f"usb:{n}") for n in range(2)]
    for interpreter in interpreters:
        interpreter.allocate_tensors()
    runner = pipeline.PipelinedModelRunner(interpreters)
    assert common.input_size(runner.interpreters()[0]) == (SIDE, SIDE)
    name = common.input_details(runner.interpreters()[0], "name")
    image = scene(*((row, 0, GREEN) for row in range(CELLS)))
    found = []

    def producer() -> None:
        for _ in range(3):
            runner.push({name: image})
        runner.push({})

    def consumer() -> None:
        details = runner.interpreters()[-1].get_output_details()[0]
        scale, zero_point = details["quantization"]
        while result := runner.pop():
            (values,) = result.values()
            scores = scale * (values[0].astype(np.int64) - zero_point)
            found.append(classify.get_classes_from_scores(scores, 1, 0.0)[0].id)

    threads = [threading.Thread(target=job) for job in (producer, consumer)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [GREEN] * 3


def test_imprinting_learning(tmp_path: Path) -> None:
    path = tmp_path / "base_edgetpu.tflite"
    path.write_bytes(imprinting_model(compiled_extractor(False), False))
    engine = ImprintingEngine(str(path), keep_classes=False)
    extractor = make_interpreter(engine.serialize_extractor_model(), device=":0")
    extractor.allocate_tensors()
    first = engine.num_classes
    for number in range(3):
        for image in pictures(number, 3, 0):
            common.set_input(extractor, image)
            extractor.invoke()
            engine.train(classify.get_scores(extractor), class_id=first + number)
    output = tmp_path / "trained.tflite"
    output.write_bytes(engine.serialize_model())
    interpreter = make_interpreter(str(output))
    interpreter.allocate_tensors()
    for number in range(3):
        common.set_input(interpreter, pictures(number, 1, 1)[0])
        interpreter.invoke()
        assert classify.get_classes(interpreter, 5, score_threshold=0.1)[0].id == number


def test_backprop_last_layer(tmp_path: Path) -> None:
    path = tmp_path / "extractor_edgetpu.tflite"
    path.write_bytes(compiled_extractor(False))

    def outputs(model: str, seed: int) -> Array:
        interpreter = make_interpreter(model, device=":0")
        interpreter.allocate_tensors()
        found = np.empty((9, classify.num_classes(interpreter)), np.float32)
        for row, image in enumerate(np.concatenate([pictures(n, 3, seed) for n in range(3)])):
            common.set_input(interpreter, image)
            interpreter.invoke()
            found[row] = classify.get_scores(interpreter)
        return found

    labels = np.repeat(np.arange(3), 3)
    data = {
        "data_train": outputs(str(path), 0), "labels_train": labels,
        "data_val": outputs(str(path), 1), "labels_val": labels,
    }  # fmt: skip
    count = int(np.max(labels)) + 1
    model = SoftmaxRegression(data["data_train"].shape[1], count, weight_scale=5e-2, reg=0.0)
    model.train_with_sgd(data, 100, 0.5, batch_size=20)
    output = tmp_path / "retrained_edgetpu.tflite"
    output.write_bytes(model.serialize_model(str(path)))
    found = outputs(str(output), 2)
    assert (np.argmax(found, axis=1) == labels).all()


def test_raw_bytes_as_cameras_give_them() -> None:
    """PyCoral's cameras pass flat arrays to `run_inference`."""
    interpreter = opened(models.classifier())
    run_inference(interpreter, scene(*((row, 1, RED) for row in range(CELLS))).reshape(-1))
    assert classify.get_classes(interpreter, 1)[0].id == RED
