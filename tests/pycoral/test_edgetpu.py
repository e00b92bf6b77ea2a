"""Interpreters and devices as PyCoral makes them."""

from __future__ import annotations

import ctypes
import logging
import re

import numpy as np
import pytest
from tests.support import need_litert
from tests.tflite_runtime.models import DIGITS, compiled_digits, image

import fitzroy
from fitzroy.base.errors import FitzroyError
from fitzroy.execution.devices import ENVIRONMENT
from fitzroy.pycoral.adapters import common
from fitzroy.pycoral.utils import edgetpu
from fitzroy.tflite_runtime.interpreter import Interpreter


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """One simulated device is there."""
    monkeypatch.setenv(ENVIRONMENT, "sim:direct")


@pytest.fixture
def digits() -> Interpreter:
    """The compiled digits model."""
    interpreter = edgetpu.make_interpreter(compiled_digits())
    interpreter.allocate_tensors()
    return interpreter


def test_devices() -> None:
    assert edgetpu.list_edge_tpus() == [{"type": "usb", "path": "sim:direct"}]
    delegate = edgetpu.load_edgetpu_delegate()
    edgetpu.make_interpreter(compiled_digits(), device="ignored", delegate=delegate)
    with pytest.raises(ValueError, match="Failed to load delegate"):
        edgetpu.make_interpreter(compiled_digits(), device=":1000")
    with pytest.raises(ValueError, match="Failed to load delegate"):
        edgetpu.make_interpreter(compiled_digits(), device="foo")
    with pytest.raises(ValueError, match=r"Could not open 'no such model.tflite'\."):
        edgetpu.make_interpreter("no such model.tflite")


def test_version() -> None:
    text = edgetpu.get_runtime_version()
    assert re.fullmatch(r"BuildLabel\(FitzRoy [\d.]+\), RuntimeVersion\(14\)", text)
    assert fitzroy.__version__ in text


def test_verbosity(digits: Interpreter, caplog: pytest.LogCaptureFixture) -> None:
    assert not edgetpu.set_verbosity(11)
    assert not edgetpu.set_verbosity(-1)
    try:
        assert edgetpu.set_verbosity(10)
        digits.invoke()
        assert "package 0 on Edge TPU" in caplog.text
        caplog.clear()
        assert edgetpu.set_verbosity(1)
        digits.invoke()
        assert not caplog.text
    finally:
        assert edgetpu.set_verbosity(0)
    assert not logging.getLogger("fitzroy").handlers


def test_raw_inputs(digits: Interpreter) -> None:
    details = digits.get_input_details()[0]
    digits.set_tensor(details["index"], image(5))
    digits.invoke()
    wanted = common.output_tensor(digits, 0).copy()
    data = image(5).tobytes() + b"more"
    buffer = ctypes.create_string_buffer(data)
    address = ctypes.c_void_p(ctypes.addressof(buffer))
    output = common.output_tensor(digits, 0)
    for form in (data, image(5), np.frombuffer(data, np.uint8), (address, len(data))):
        digits.set_tensor(details["index"], image(6))
        # As PyCoral has it, arrays that show tensors are no hindrance here.
        edgetpu.run_inference(digits, form)
        np.testing.assert_array_equal(output, wanted)
    with pytest.raises(ValueError, match=r"input size=63, expected=64\."):
        edgetpu.run_inference(digits, data[:63])
    with pytest.raises(TypeError, match="input data type is not supported"):
        edgetpu.run_inference(digits, "x")  # type: ignore[arg-type]


def test_raw_inputs_of_models_for_the_host() -> None:
    need_litert()
    interpreter = edgetpu.make_interpreter(str(DIGITS))
    interpreter.allocate_tensors()
    edgetpu.run_inference(interpreter, image(5))
    wanted = fitzroy.evaluate(fitzroy.load(DIGITS), {"image": image(5)})["probabilities"]
    found = common.output_tensor(interpreter, 0)
    assert np.abs(found.astype(int) - wanted).max() <= 1


def test_handles(digits: Interpreter) -> None:
    handle = digits._native_handle()
    data = image(4)
    output = digits.get_output_details()[0]["index"]
    edgetpu.invoke_with_bytes(handle, data.tobytes())
    first = digits.get_tensor(output)
    edgetpu.invoke_with_bytes(handle, bytes(64))
    edgetpu.invoke_with_membuffer(handle, data.ctypes.data, data.nbytes)
    np.testing.assert_array_equal(digits.get_tensor(output), first)
    with pytest.raises(RuntimeError, match=r"Input buffer \(63\).*\(64\)"):
        edgetpu.invoke_with_bytes(handle, bytes(63))
    assert not edgetpu.supports_dmabuf(handle)
    with pytest.raises(RuntimeError, match=r"InvokeWithDmaBuffer failed.*USB"):
        edgetpu.invoke_with_dmabuffer(handle, 3, 64)
    del digits
    with pytest.raises(ValueError, match="no interpreter with handle 0"):
        edgetpu.supports_dmabuf(0)


def test_handles_of_models_that_are_not_ready() -> None:
    interpreter = edgetpu.make_interpreter(compiled_digits())
    handle, data = interpreter._native_handle(), image()
    ready = "Invoke called on model that is not ready"
    with pytest.raises(RuntimeError, match=ready):
        edgetpu.invoke_with_membuffer(handle, data.ctypes.data, data.nbytes)
    with pytest.raises(RuntimeError, match=ready):
        edgetpu.invoke_with_dmabuffer(handle, 0, data.nbytes)
    with pytest.raises(FitzroyError, match=ready):
        interpreter.invoke()
