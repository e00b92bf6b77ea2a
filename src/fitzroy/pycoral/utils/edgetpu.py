"""Interpreters for models that are compiled for the Edge TPU, and the devices that run them."""

from __future__ import annotations

import ctypes
import logging
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

import fitzroy
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import MAX_RUNTIME_VERSION
from fitzroy.tflite_runtime.delegates import LIBRARY, listed_devices, load_delegate
from fitzroy.tflite_runtime.errors import ArgumentError, ArgumentTypeError, NotReadyError
from fitzroy.tflite_runtime.interpreter import Delegate, Interpreter, interpreter_of

__all__ = [
    "get_runtime_version",
    "invoke_with_bytes",
    "invoke_with_dmabuffer",
    "invoke_with_membuffer",
    "list_edge_tpus",
    "load_edgetpu_delegate",
    "make_interpreter",
    "run_inference",
    "set_verbosity",
    "supports_dmabuf",
]

_MOST_VERBOSE, _EVERYTHING = 10, 5
_logger = logging.getLogger("fitzroy")
_handler = logging.StreamHandler()


# --- devices -------------------------------------------------------------------------------------


def list_edge_tpus() -> list[dict[str, str]]:
    """All accelerators: their type, which is ``usb``, and their port; none without access to USB.

    With FITZROY_DEVICE in the environment, what it names is there instead.
    """
    return listed_devices()


def get_runtime_version() -> str:
    """Name and version of this runtime, and the latest version of packages that it takes."""
    return f"BuildLabel(FitzRoy {fitzroy.__version__}), RuntimeVersion({MAX_RUNTIME_VERSION})"


def set_verbosity(verbosity: int) -> bool:
    """Log on standard error what devices do: nothing (0), opening (1), every inference (5 to 10).

    Returns:
        Whether there is such a level; otherwise nothing changes.
    """
    if not 0 <= verbosity <= _MOST_VERBOSE:
        return False
    _logger.removeHandler(_handler)
    _logger.setLevel(logging.NOTSET)
    if verbosity:
        _logger.addHandler(_handler)
        _logger.setLevel(logging.DEBUG if verbosity >= _EVERYTHING else logging.INFO)
    return True


def load_edgetpu_delegate(options: Mapping[str, str] | None = None) -> Delegate:
    """Open a device; see `tflite_runtime.delegates.Delegate`.

    Args:
        options: ``device`` is a name as `make_interpreter` takes it.

    Raises:
        DelegateError: there is no such device, or it does not open. It is a ValueError.
    """
    delegate: Delegate = load_delegate(LIBRARY, options)
    return delegate


# --- interpreters --------------------------------------------------------------------------------


def make_interpreter(
    model_path_or_content: str | os.PathLike[str] | bytes,
    device: str | None = None,
    delegate: Any = None,
) -> Interpreter:
    """An interpreter for a model.

    Args:
        model_path_or_content: a file, or its bytes.
        device: ``usb`` is an accelerator, ``:N`` and ``usb:N`` the N-th that `list_edge_tpus`
            names, None the first; other names are those of `driver.runtime.devices`, such as
            ``sim``.
        delegate: what `load_edgetpu_delegate` gave; then `device` is ignored.

    Raises:
        ValueError: there is no such device, or the model cannot be read or is malformed.
    """
    chosen = delegate or load_edgetpu_delegate({"device": device} if device else {})
    if isinstance(model_path_or_content, bytes):
        return Interpreter(model_content=model_path_or_content, experimental_delegates=[chosen])
    return Interpreter(model_path=model_path_or_content, experimental_delegates=[chosen])


def run_inference(
    interpreter: Interpreter, input_data: bytes | Array | tuple[ctypes.c_void_p, int]
) -> None:
    """Run a model on bytes for its first input.

    Args:
        interpreter: the model.
        input_data: at least as many bytes as the input has, of which the first are taken: bytes,
            an array, or an address with a size.

    Raises:
        ArgumentError: there are too few; a ValueError.
        ArgumentTypeError: it is something else; a TypeError.
        RuntimeError: tensors are not allocated, or the inference fails.
    """
    given, wanted = _bytes(input_data), _input_bytes(interpreter)
    if len(given) < wanted:
        raise ArgumentError(f"input size={len(given)}, expected={wanted}.")
    invoke_with_bytes(interpreter._native_handle(), given)


def invoke_with_bytes(interpreter_handle: int, input_data: bytes) -> None:
    """Run a model on bytes for its first input.

    Args:
        interpreter_handle: what ``_native_handle`` of the interpreter gave.
        input_data: at least as many bytes as the input has, of which the first are taken.

    Raises:
        NotReadyError: tensors are not allocated, or there are too few bytes; a RuntimeError.
    """
    interpreter = interpreter_of(interpreter_handle)
    details = interpreter.get_input_details()[0]
    wanted = _input_bytes(interpreter)
    if len(input_data) < wanted:
        raise NotReadyError(
            f"Input buffer ({len(input_data)}) has fewer entries than model input tensor "
            f"({wanted})."
        )
    elements = np.frombuffer(input_data[:wanted], details["dtype"]).reshape(details["shape"])
    try:
        interpreter.set_tensor(details["index"], elements)
    except ValueError as error:
        raise NotReadyError(
            "Invoke called on model that is not ready.", reason=str(error)
        ) from error
    interpreter._invoke_anyway()


def invoke_with_membuffer(interpreter_handle: int, buffer: int, size: int) -> None:
    """Run a model on memory for its first input; see `invoke_with_bytes`.

    Args:
        interpreter_handle: what ``_native_handle`` of the interpreter gave.
        buffer: address of the memory.
        size: its bytes.
    """
    invoke_with_bytes(interpreter_handle, ctypes.string_at(buffer, size))


def invoke_with_dmabuffer(interpreter_handle: int, dma_fd: int, size: int) -> None:
    """Refuse to run a model on a DMA buffer, which devices on PCIe alone can read.

    Raises:
        NotReadyError: always; a RuntimeError.
    """
    interpreter = interpreter_of(interpreter_handle)
    try:
        interpreter.get_tensor(interpreter.get_input_details()[0]["index"])
    except ValueError as error:
        raise NotReadyError(
            "Invoke called on model that is not ready.", reason=str(error)
        ) from error
    raise NotReadyError(
        "InvokeWithDmaBuffer failed",
        reason="an Edge TPU on USB cannot read a DMA buffer",
        where=f"file descriptor {dma_fd}, {size} bytes",
        hint="supports_dmabuf() says so before; map the buffer and take invoke_with_membuffer",
    )


def supports_dmabuf(interpreter_handle: int) -> bool:
    """Whether the device of an interpreter reads DMA buffers: none here does."""
    interpreter_of(interpreter_handle)
    return False


def _input_bytes(interpreter: Interpreter) -> int:
    details = interpreter.get_input_details()[0]
    size: int = np.dtype(details["dtype"]).itemsize
    return size * math.prod(map(int, details["shape"]))


def _bytes(data: object) -> bytes:
    match data:
        case bytes() | bytearray() | memoryview():
            return bytes(data)
        case np.ndarray():
            return data.tobytes()
        case ctypes.c_void_p() as address, int() as size:
            return ctypes.string_at(address, size)
    raise ArgumentTypeError(
        "input data type is not supported.",
        reason=f"it is {type(data).__name__}",
        hint="give bytes or an array; map a Gst.Buffer, and give its address and size",
    )
