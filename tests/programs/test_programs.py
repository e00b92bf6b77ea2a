"""Programs for the Edge TPU find on the simulated device what they find on LiteRT."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.programs import models
from tests.programs.calls import ON_CPU, Doods, Frigate, FrigateYolo, Scrypted, Ultralytics
from tests.programs.models import BLUE, CELLS, GREEN, RED, Pair, scene
from tests.support import need_litert

from fitzroy.base.types import Array
from fitzroy.execution.devices import ENVIRONMENT
from fitzroy.pycoral.adapters import common, detect
from fitzroy.pycoral.utils import edgetpu
from fitzroy.tflite_runtime import interpreter as tflite
from fitzroy.tflite_runtime.shim import shim_files

SCENE = scene((0, 1, RED), (2, 2, GREEN), (3, 0, BLUE))
PLACES = {RED: (0, 1), GREEN: (2, 2), BLUE: (3, 0)}


@pytest.fixture(autouse=True)
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "sim:direct,sim:direct")


@pytest.fixture
def nothing_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Edge TPU is there."""
    from fitzroy.base.errors import DeviceError
    from fitzroy.tflite_runtime import delegates

    class Bus:
        def attached(self) -> tuple[Any, ...]:
            raise DeviceError("there is no libusb 1.0")

    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setattr(delegates, "libusb", Bus)


def litert() -> Any:
    need_litert()
    from ai_edge_litert import interpreter

    return interpreter


def corners(label: int) -> tuple[float, ...]:
    """Where a thing of the scene is, as parts of the image: top, left, bottom, right."""
    row, column = PLACES[label]
    return row / CELLS, column / CELLS, (row + 1) / CELLS, (column + 1) / CELLS


@pytest.mark.parametrize("device", [None, {"device": "usb"}, {"device": "usb:1"}, {"device": ":0"}])
@pytest.mark.parametrize("later", [False, True])
def test_frigate(device: Mapping[str, str] | None, later: bool, tmp_path: Path) -> None:
    source, compiled = models.detector().written(tmp_path)
    # The program knows an empty configuration, and no None.
    program = Frigate(tflite, compiled, device or {}, later)
    found = program.detect_raw(SCENE[None])
    wanted = Frigate(litert(), source, ON_CPU, later).detect_raw(SCENE[None])
    np.testing.assert_allclose(found, wanted, atol=0.01)
    things = found[found[:, 1] > 0]
    assert sorted(things[:, 0]) == [RED, GREEN, BLUE]
    for label, _, *box in things:
        np.testing.assert_allclose(box, corners(int(label)), atol=0.02)
    # Nothing is seen in a dark image, in the same arrays.
    assert not program.detect_raw(scene()[None]).any()


def test_frigate_with_yolo(tmp_path: Path) -> None:
    source, compiled = models.heads().written(tmp_path)
    found = FrigateYolo(tflite, compiled, {}).detect_raw(SCENE[None])
    wanted = FrigateYolo(litert(), source, ON_CPU).detect_raw(SCENE[None])
    np.testing.assert_allclose(found, wanted, atol=0.2)
    order = sorted(PLACES, key=PLACES.__getitem__)
    assert found[:, 0].tolist() == order


@pytest.mark.usefixtures("nothing_attached")
@pytest.mark.parametrize("program", [Frigate, Doods, Ultralytics])
def test_without_a_device_programs_are_told_as_they_expect(program: Any, tmp_path: Path) -> None:
    _, compiled = models.detector().written(tmp_path)
    with pytest.raises(ValueError, match=r"Failed to load delegate|no detector on an Edge TPU"):
        program(tflite, compiled, {})


@pytest.mark.parametrize("model", [models.detector, models.classifier])
def test_doods(model: Callable[[], Pair], tmp_path: Path) -> None:
    source, compiled = model().written(tmp_path)
    program = Doods(tflite, compiled, {}, size=3)
    with ThreadPoolExecutor(3) as threads:
        every = list(threads.map(program.detect, [SCENE] * 4))
    wanted = Doods(litert(), source, ON_CPU).detect(SCENE)
    for found in every:
        assert [item[0] for item in found] == [item[0] for item in wanted]
        for (_, score, box), (_, other, place) in zip(found, wanted, strict=True):
            assert score == pytest.approx(other, abs=1.0)
            np.testing.assert_allclose(box, place, atol=0.01)


def test_ultralytics(tmp_path: Path) -> None:
    source, compiled = models.yolo().written(tmp_path)
    image = SCENE[None].astype(np.float32) / 255
    program = Ultralytics(tflite, compiled, {"device": ":0"})
    (found,) = program.forward(image)
    (wanted,) = Ultralytics(litert(), source, ON_CPU).forward(image)
    assert found.shape == (1, 7, CELLS**2)
    np.testing.assert_allclose(found, wanted, atol=models.SIDE / 128)
    # Channels 0 and 3 and 6 are red, in the cell of the red thing alone.
    row, column = PLACES[RED]
    assert found[0, 6].argmax() == CELLS * row + column
    assert program.names == {0: "red", 1: "green", 2: "blue"}


def scrypted(paths: tuple[Path, Path]) -> Scrypted:
    return Scrypted(tflite, edgetpu, detect, common, paths)


def labels_of(objects: list[Any]) -> set[int]:
    for item in objects:
        top, left, bottom, right = (models.SIDE * part for part in corners(item.id))
        np.testing.assert_allclose(item.bbox, (left, top, right, bottom), atol=1)
    return {item.id for item in objects}


def test_scrypted_on_every_device(tmp_path: Path) -> None:
    program = scrypted(models.detector().written(tmp_path))
    assert [item["type"] for item in program.found] == ["usb", "usb"]
    assert program.size == (models.SIDE, models.SIDE, 3)
    images: list[Array] = [SCENE, scene((1, 1, RED)), SCENE, scene()]
    found = list(program.executor.map(program._predict, images))
    assert labels_of(found[0]) == labels_of(found[2]) == {RED, GREEN, BLUE}
    assert [item.id for item in found[1]] == [RED]
    assert found[3] == []


@pytest.mark.usefixtures("nothing_attached")
def test_scrypted_without_a_device_takes_the_cpu(tmp_path: Path) -> None:
    program = scrypted(models.detector().written(tmp_path))
    assert program.found == []
    assert labels_of(program.detect_once(SCENE)) == {RED, GREEN, BLUE}


def test_a_program_that_nobody_changes(tmp_path: Path) -> None:
    """It finds packages by the names that it imports, and runs in a process of its own."""
    for name, text in shim_files(["tflite_runtime", "pycoral"]).items():
        path = tmp_path / "shim" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    _, compiled = models.classifier().written(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys
            import numpy as np
            import tflite_runtime.interpreter as tflite
            from pycoral.adapters import classify, common
            from pycoral.learn.backprop.softmax_regression import SoftmaxRegression
            from pycoral.learn.imprinting.engine import ImprintingEngine
            from pycoral.pipeline.pipelined_model_runner import PipelinedModelRunner
            from pycoral.utils.dataset import read_label_file
            from pycoral.utils.edgetpu import list_edge_tpus, make_interpreter

            assert len(list_edge_tpus()) == 2
            interpreter = make_interpreter(sys.argv[1])
            assert isinstance(interpreter, tflite.Interpreter)
            interpreter.allocate_tensors()
            image = np.zeros((32, 32, 3), np.uint8)
            image[..., 1] = 250
            common.set_input(interpreter, image)
            interpreter.invoke()
            print(classify.get_classes(interpreter, top_k=1)[0].id)
            """
        )
    )
    paths = [str(tmp_path / "shim"), *filter(None, [os.environ.get("PYTHONPATH")])]
    result = subprocess.run(
        [sys.executable, str(program), str(compiled)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert result.stdout.strip() == str(GREEN), result.stderr
