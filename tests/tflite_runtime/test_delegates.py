"""Devices by the names that programs for TFLite give them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytest
from tests.support import need_litert
from tests.tflite_runtime.models import compiled_digits, image

from fitzroy.base.errors import DeviceError
from fitzroy.driver.device.bringup import Clocks
from fitzroy.driver.runtime.devices import DeviceOptions, DirectSimulator
from fitzroy.execution.devices import ENVIRONMENT
from fitzroy.tflite_runtime import delegates
from fitzroy.tflite_runtime.delegates import LIBRARY, Delegate, listed_devices
from fitzroy.tflite_runtime.interpreter import Interpreter, load_delegate


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Clocks]]]:
    """Names of devices that were opened, in order, with their clocks; two are attached."""
    opened: list[tuple[str, Clocks]] = []

    class Bus:
        def attached(self) -> tuple[Any, ...]:
            return tuple(type("Attached", (), {"path": path}) for path in ("1-2", "2-1.4"))

    def open_device(spec: str, options: DeviceOptions) -> DirectSimulator:
        if spec == "usb:9-9":
            raise DeviceError("no Edge TPU at usb:9-9", reason="there are usb:1-2")
        opened.append((spec, options.clocks))
        return DirectSimulator()

    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setattr(delegates, "open_device", open_device)
    monkeypatch.setattr(delegates, "libusb", Bus)
    # Threads and tracebacks of other tests may still hold devices.
    monkeypatch.setattr(delegates, "_leases", WeakValueDictionary())
    yield opened
    gc.collect()
    assert not delegates._leases


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        (None, "usb:1-2"),
        ({"device": ""}, "usb:1-2"),
        ({"device": "usb"}, "usb:1-2"),
        ({"device": ":0"}, "usb:1-2"),
        ({"device": "usb:1"}, "usb:2-1.4"),
        ({"device": "usb:2-1.4"}, "usb:2-1.4"),
        ({"device": "sim"}, "sim"),
    ],
)
def test_names_of_devices(
    devices: list[tuple[str, Clocks]], options: dict[str, str] | None, spec: str
) -> None:
    load_delegate("libedgetpu.so.1", options)
    assert devices == [(spec, Clocks.MAX)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"device": ":2"}, "there is no device ':2': 2 are attached"),
        ({"device": "usb:1000"}, "2 are attached"),
        ({"device": "pci:0"}, "PCIe"),
        ({"device": "usb:9-9"}, "there are usb:1-2"),
        ({"no such": "option"}, "there is no option 'no such'"),
        ({"Performance": "Ultra"}, "Performance cannot be 'Ultra'"),
        ({"Usb.AlwaysDfu": "True"}, "can only be False"),
        ({"Usb.MaxBulkInQueueLength": "256"}, "from 0 to 255"),
        ({"Usb.MaxBulkInQueueLength": "²"}, "from 0 to 255"),
    ],
)
def test_failures_are_value_errors(
    devices: list[tuple[str, Clocks]], options: dict[str, str], reason: str
) -> None:
    with pytest.raises(
        ValueError, match=r"Failed to load delegate from libedgetpu\.so\.1"
    ) as caught:
        load_delegate("libedgetpu.so.1", options)
    assert reason in str(caught.value)
    assert isinstance(caught.value, DeviceError)
    assert not devices


def test_options_of_google_s_delegate(devices: list[tuple[str, Clocks]]) -> None:
    options = {"device": ":0", "Performance": "Low", "Usb.AlwaysDfu": "False"}
    load_delegate("libedgetpu.so.1", options | {"Usb.MaxBulkInQueueLength": 8})
    assert devices == [("usb:1-2", Clocks.LOW)]


def test_the_environment_names_what_is_there(
    devices: list[tuple[str, Clocks]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, "sim:direct, sim:direct")
    assert listed_devices() == [{"type": "usb", "path": "sim:direct"}] * 2
    first, second, same = (load_delegate(LIBRARY, {"device": name}) for name in (":0", ":1", "usb"))
    assert first.device is same.device is not second.device
    assert devices == [("sim:direct", Clocks.MAX)] * 2
    monkeypatch.setattr(delegates, "open_device", _refused)
    for name in (":2", "usb:2", "pci", "nonsense:1"):
        with pytest.raises(ValueError, match="Failed to load delegate"):
            load_delegate(LIBRARY, {"device": name})


def _refused(spec: str, options: DeviceOptions) -> DirectSimulator:
    raise DeviceError(f"no device {spec!r}")


def test_without_libusb_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bus:
        def attached(self) -> tuple[Any, ...]:
            raise DeviceError("there is no libusb 1.0")

    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setattr(delegates, "libusb", Bus)
    assert listed_devices() == []
    with pytest.raises(ValueError, match="there is no libusb"):
        load_delegate(LIBRARY)


def test_a_device_is_open_as_long_as_somebody_has_it(devices: list[tuple[str, Clocks]]) -> None:
    delegate = load_delegate(LIBRARY)
    device = delegate.device
    interpreter = Interpreter(
        model_content=compiled_digits(), experimental_delegates=[delegate, load_delegate(LIBRARY)]
    )
    del delegate
    gc.collect()
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image())
    interpreter.invoke()
    assert len(devices) == 1
    del interpreter
    gc.collect()
    with pytest.raises(DeviceError, match="was closed"):
        device.submit(None, {})


def test_the_virtual_accelerator_is_opened_at_once() -> None:
    delegate: Delegate = load_delegate(LIBRARY, {"device": "sim"})
    interpreter = Interpreter(model_content=compiled_digits(), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    other = load_delegate(LIBRARY, {"device": "sim:direct"})
    direct = Interpreter(model_content=compiled_digits(), experimental_delegates=[other])
    direct.allocate_tensors()
    results = []
    for item in (interpreter, direct):
        item.set_tensor(item.get_input_details()[0]["index"], image(2))
        item.invoke()
        results.append(item.get_tensor(item.get_output_details()[0]["index"]))
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize(
    "name",
    [
        "libedgetpu.so.1",
        "libedgetpu.so.1.0",
        "edgetpu.dll",
        "/usr/lib/libedgetpu.1.dylib",
        "libedgetpu-max.so",
    ],
)
def test_names_of_the_library(name: str) -> None:
    assert delegates.is_edgetpu(name)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_delegates_are_those_of_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    need_litert()
    with pytest.raises(OSError, match=r"libanother\.so"):
        load_delegate("libanother.so")
    with pytest.raises(ValueError, match="is not the delegate of the Edge TPU"):
        Delegate("libanother.so")
    monkeypatch.setattr("fitzroy.driver.runtime.litert.available", lambda: False)
    with pytest.raises(ValueError, match="LiteRT is not installed"):
        load_delegate("libanother.so")
