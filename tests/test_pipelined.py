"""Segments of a model on several devices at the same time."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pycoral.test_pipeline import segments
from tests.tflite_runtime.models import compiled_digits

from fitzroy.base.errors import DeviceError, FitzroyError, UsageError
from fitzroy.base.types import Array
from fitzroy.driver.device.bringup import Clocks
from fitzroy.driver.runtime.devices import (
    SIMULATED,
    DeviceOptions,
    DirectSimulator,
    virtual_device,
)
from fitzroy.driver.transports.transport import LostError
from fitzroy.execution.estimate import HOST
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.pipelined import PipelinedInterpreter, device_names, segments_of
from fitzroy.execution.whole import predict
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind
from fitzroy.hw_models.usb_device.stopwatch import Stopwatch

IMAGES = 5

_QUICK = DeviceOptions(
    limits=replace(
        SIMULATED,
        request=2.0,
        simulation=2.0,
        slice=0.05,
        silence=0.3,
        idle=0.2,
        control=0.2,
        replug=0.3,
    )
)
"""Nobody plugs devices in again."""


def images(count: int = IMAGES) -> list[dict[str, Array]]:
    rng = np.random.default_rng(3)
    return [{"image": rng.integers(-128, 128, (1, 8, 8, 1), np.int8)} for _ in range(count)]


def wanted(given: Sequence[Mapping[str, Array]]) -> list[Array]:
    """What one device computes."""
    with Interpreter(compiled_digits(), device=DirectSimulator()) as interpreter:
        return [interpreter.run(image)["probabilities"] for image in given]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three segments."""
    paths = []
    for number, data in enumerate(segments(3)):
        path = tmp_path / f"digits_segment_{number}_of_3_edgetpu.tflite"
        path.write_bytes(data)
        paths.append(str(path))
    return paths


def test_results_are_those_of_one_device_in_order(files: list[str]) -> None:
    given = images()
    with PipelinedInterpreter(files, ["sim:direct"] * 3) as pipeline:
        found = [*pipeline.map(given)]
        once = pipeline.run(given[0])
    for result, right in zip([*found, once], [*wanted(given), wanted(given[:1])[0]], strict=True):
        np.testing.assert_array_equal(result["probabilities"], right)
    assert [len(item.seconds) for item in pipeline.times] == [IMAGES + 1] * 3


def test_clocks_of_virtual_accelerators_tell_what_is_predicted(files: list[str]) -> None:
    watches = [Stopwatch(HOST) for _ in files]
    devices = [virtual_device(device=VirtualDevice(stopwatch=watch)) for watch in watches]
    with PipelinedInterpreter(files, devices) as pipeline:
        found = [result["probabilities"] for result in pipeline.map(images())]
    np.testing.assert_array_equal(found, wanted(images()))
    for path, watch in zip(files, watches, strict=True):
        predicted = predict(Path(path).read_bytes(), path).total
        assert watch.microseconds() == pytest.approx([predicted] * IMAGES, rel=0.05)


def test_a_slower_clock_takes_longer(files: list[str]) -> None:
    times = []
    for clocks in (Clocks.MAX, Clocks.LOW):
        watch = Stopwatch(HOST)
        device = virtual_device(DeviceOptions(clocks=clocks), VirtualDevice(stopwatch=watch))
        with Interpreter(compiled_digits(), device=device) as interpreter:
            interpreter.run(images(1)[0])
        times += watch.microseconds()
    assert len(times) == 2
    assert times[1] > times[0]


def test_inputs_are_taken_as_they_are_needed(files: list[str]) -> None:
    taken: list[int] = []

    def given() -> Any:
        for number, image in enumerate(images(20)):
            taken.append(number)
            yield image

    with PipelinedInterpreter(files, ["sim:direct"] * 3) as pipeline:
        results = pipeline.map(given())
        next(results)
        assert len(taken) <= 7
        assert sum(1 for _ in results) == 19


def test_what_is_given_may_be_written_over(files: list[str]) -> None:
    first, second = images(2)
    pixels = first["image"].copy()
    with PipelinedInterpreter(files, ["sim:direct"] * 3) as pipeline:
        pipeline.push({"image": pixels})
        pixels[...] = second["image"]
        found = pipeline.pop()["probabilities"]
    np.testing.assert_array_equal(found, wanted([first])[0])


class Failing(DirectSimulator):
    """A device that fails in its second inference."""

    error: FitzroyError = DeviceError("it is broken", where="here")
    count = 0

    def compute(self, package: PackageFile, inputs: Mapping[str, Array]) -> Any:
        self.count += 1
        if self.count > 1:
            raise self.error
        return super().compute(package, inputs)


def test_an_error_ends_all(files: list[str]) -> None:
    devices = [DirectSimulator(), Failing(), DirectSimulator()]
    with PipelinedInterpreter(files, devices) as pipeline:
        results = pipeline.map(images())
        np.testing.assert_array_equal(next(results)["probabilities"], wanted(images()[:1])[0])
        with pytest.raises(DeviceError, match="it is broken") as caught:
            next(results)
        assert caught.value.where == "segment 1 on the simulated chip, here"
        with pytest.raises(DeviceError, match="it is broken"):
            pipeline.push(images()[0])


def test_a_spare_takes_over(files: list[str]) -> None:
    lost = Failing()
    lost.error = LostError("the device is gone")
    devices = [DirectSimulator(), lost, DirectSimulator()]
    with PipelinedInterpreter(files, [*devices, "sim:direct"]) as pipeline:
        found = [item["probabilities"] for item in pipeline.map(images())]
    np.testing.assert_array_equal(found, wanted(images()))
    with PipelinedInterpreter(files, devices) as pipeline, pytest.raises(LostError, match="gone"):
        [*pipeline.map(images())]


@pytest.mark.long
@pytest.mark.parametrize("kind", FaultKind)
def test_faults_of_an_accelerator(files: list[str], kind: FaultKind) -> None:
    given, right = images(4), wanted(images(4))
    for transfer, spares in ((60, 0), (80, 1)):
        fault = Fault(kind, transfer, length=3, celsius=120.0, seconds=0.05)
        broken = virtual_device(_QUICK, VirtualDevice(booted=True, faults=[fault]))
        others = [virtual_device(device=VirtualDevice(booted=True)) for _ in range(2 + spares)]
        devices = [others[0], broken, *others[1:]]
        found: list[Array] = []
        try:
            with PipelinedInterpreter(files, devices) as pipeline:
                for result in pipeline.map(given):
                    found.append(result["probabilities"])
        except FitzroyError as error:
            ended = error.where
        else:
            ended = "segment 1 on" if len(found) == len(given) else "too early"
        finally:
            for device in devices:
                device.close()
        assert "segment 1 on" in ended
        # Nothing is lost where there is a spare, nothing is reordered, and what came is right.
        if kind is FaultKind.UNPLUG:
            assert (len(found) == len(given)) == bool(spares)
        np.testing.assert_array_equal(found, right[: len(found)])


def test_an_unplugged_accelerator_has_a_spare(files: list[str]) -> None:
    fault = Fault(FaultKind.UNPLUG, 60)
    broken = virtual_device(_QUICK, VirtualDevice(booted=True, faults=[fault]))
    with PipelinedInterpreter(files, ["sim:direct", broken, "sim:direct", "sim"]) as pipeline:
        found = [item["probabilities"] for item in pipeline.map(images(3))]
    np.testing.assert_array_equal(found, wanted(images(3)))
    broken.close()


def test_pipelines_that_cannot_be(files: list[str]) -> None:
    with pytest.raises(UsageError, match="3 segments need as many devices"):
        PipelinedInterpreter(files, ["sim:direct"] * 2)
    with pytest.raises(UsageError, match="without segments"):
        PipelinedInterpreter([], ["sim:direct"])
    with pytest.raises(UsageError, match=r"segment [01] needs"):
        PipelinedInterpreter([files[0], files[2]], ["sim:direct"] * 2)
    with PipelinedInterpreter(files, ["sim:direct"] * 3) as pipeline:
        with pytest.raises(UsageError, match="'image' is missing"):
            pipeline.push({})
        with pytest.raises(UsageError, match="is int8"):
            pipeline.push({"image": np.zeros((1, 8, 8, 1), np.uint8)})
        with pytest.raises(UsageError, match="no inputs to be answered"):
            pipeline.pop()
    assert threading.active_count() < 50


def test_names_of_devices() -> None:
    assert device_names("sim:3") == ["sim"] * 3
    assert device_names("usb:1-1, sim:direct:2") == ["usb:1-1", "sim:direct", "sim:direct"]
    assert device_names("twin:m.tflite,sim:direct") == ["twin:m.tflite", "sim:direct"]
    for text in ("", ",", "sim:0", "sim:99999999"):
        with pytest.raises(UsageError):
            device_names(text)


def test_files_of_segments(files: list[str], tmp_path: Path) -> None:
    assert segments_of(files[1]) == files
    assert segments_of("model_edgetpu.tflite") == ["model_edgetpu.tflite"]
    Path(files[2]).unlink()
    with pytest.raises(UsageError, match="segment 2 of 3 is missing"):
        segments_of(files[0])
    with pytest.raises(UsageError, match="at most 64"):
        segments_of("m_segment_0_of_9999999_edgetpu.tflite")
