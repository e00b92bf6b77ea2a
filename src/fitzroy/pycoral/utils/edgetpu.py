"""Interpreters for models that are compiled for the Edge TPU."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

import fitzroy
from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array
from fitzroy.driver.device.boards import refuse_pcie
from fitzroy.driver.runtime.devices import Device, open_device
from fitzroy.driver.transports.usb import libusb
from fitzroy.execution.interpreter import Interpreter

DEVICE = "FITZROY_DEVICE"
"""Environment variable that names a device for scripts, whatever they ask for."""

_NUMBERED = re.compile(r"(usb)?:(\d+)")
_ANY = "auto"


@dataclass(frozen=True, slots=True)
class Delegate:
    """A device for several interpreters.

    Attributes:
        device: the device, open.
    """

    device: Device


def list_edge_tpus() -> list[dict[str, str]]:
    """All accelerators that are attached: their type, which is ``usb``, and their port.

    Raises:
        DeviceError: libusb is not installed.
    """
    return [{"type": "usb", "path": item.path} for item in libusb().attached()]


def get_runtime_version() -> str:
    """Name and version of this runtime."""
    return f"FitzRoy {fitzroy.__version__}"


def load_edgetpu_delegate(options: Mapping[str, str] | None = None) -> Delegate:
    """Open a device.

    Interpreters of one process share it, with the parameters that it caches.

    Args:
        options: ``device`` is a name as `make_interpreter` takes it.

    Raises:
        UsageError: there is no such name.
        UnsupportedError: a PCIe device.
        DeviceError: there is no such device.
    """
    return Delegate(_opened(_spec((options or {}).get("device"))))


def make_interpreter(
    model_path_or_content: str | os.PathLike[str] | bytes,
    device: str | None = None,
    delegate: Delegate | None = None,
) -> Interpreter:
    """An interpreter for a model.

    Args:
        model_path_or_content: a file, or its bytes.
        device: ``usb`` is an accelerator, ``:N`` and ``usb:N`` the N-th that `list_edge_tpus`
            names; other names are those of `driver.runtime.devices`, such as ``sim``. None takes
            the accelerator that is attached, else the simulator. The environment variable
            FITZROY_DEVICE overrides all of them.
        delegate: what `load_edgetpu_delegate` gave; then `device` is ignored.

    Raises:
        UsageError: the file cannot be read or is no model, or there is no such name.
        UnsupportedError: a PCIe device, or an unknown operator.
        FormatError: the model is malformed.
        DeviceError: there is no such device.
    """
    chosen = delegate or load_edgetpu_delegate({} if device is None else {"device": device})
    return Interpreter(model_path_or_content, device=chosen.device)


def _spec(device: str | None) -> str:
    """The name of a device by PyCoral's name."""
    if os.environ.get(DEVICE):
        return os.environ[DEVICE]
    if device is None:
        return _ANY
    if device.startswith("pci"):
        raise refuse_pcie(device)
    match = _NUMBERED.fullmatch(device)
    if match is None:
        return device
    found, number = list_edge_tpus(), int(match[2])
    if number >= len(found):
        raise UsageError(
            f"there is no device {device!r}",
            reason=f"{len(found)} are attached",
            hint=f"{DEVICE}=sim in the environment takes the simulator",
        )
    return f"usb:{found[number]['path']}"


@cache
def _opened(spec: str) -> Device:
    """The one handle of this process to a device."""
    device = open_device(spec)
    atexit.register(device.close)
    return device


def run_inference(
    interpreter: Interpreter, input_data: bytes | Array | tuple[ctypes.c_void_p, int]
) -> None:
    """Run a model on bytes for its first input.

    Args:
        interpreter: the model.
        input_data: at least as many bytes as the input has, of which the first are taken: bytes,
            an array, or an address with a size.

    Raises:
        UsageError: there are too few, or it is something else.
    """
    details = interpreter.get_input_details()[0]
    tensor = interpreter.tensor(details["index"])()
    given = _bytes(input_data)
    if len(given) < tensor.nbytes:
        raise UsageError(
            f"the input has {tensor.nbytes} bytes",
            reason=f"{len(given)} are given",
            where=interpreter.path,
        )
    tensor[...] = np.frombuffer(given, tensor.dtype, tensor.size).reshape(tensor.shape)
    interpreter.invoke()


def _bytes(data: object) -> bytes:
    match data:
        case bytes() | bytearray() | memoryview():
            return bytes(data)
        case np.ndarray():
            return data.tobytes()
        case ctypes.c_void_p() as address, int() as size:
            return ctypes.string_at(address, size)
    raise UsageError(f"an input of type {type(data).__name__}", hint="give bytes or an array")
