"""Messages between a runtime's client and its worker process.

A message is a JSON header and the raw bytes of its arrays::

    u32  length of the header
         header: {"fields": {...}, "arrays": [[dtype, shape], ...]}
         bytes of every array, C order, native byte order, one after another

Bytes travel as arrays of uint8. Nothing is ever executed or unpickled on arrival.

A worker process says ``{"ready": true}`` once, then answers every message in turn: ``{"ok": true,
...}`` with results, or ``{"ok": false, "what": ..., "reason": ...}``, where ``what`` is empty for
faults that the runtime itself raised.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from fitzroy.base.errors import DeviceError
from fitzroy.base.types import Array, DType

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Message:
    """A message.

    Attributes:
        fields: what JSON can hold.
        arrays: payloads.
    """

    fields: Mapping[str, Any]
    arrays: tuple[Array, ...] = ()


def send(stream: BinaryIO, fields: Mapping[str, Any], arrays: Sequence[Array] = ()) -> None:
    """Write a message and flush.

    Raises:
        OSError: the other side is gone.
    """
    dense = [np.ascontiguousarray(array).reshape(array.shape) for array in arrays]
    header: dict[str, Any] = {
        "fields": dict(fields),
        "arrays": [[DType.of(array).value, list(array.shape)] for array in dense],
    }
    text = json.dumps(header).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for array in dense:
        stream.write(array.reshape(-1).view(np.uint8).data)
    stream.flush()


def receive(stream: BinaryIO) -> Message:
    """Read a message; its arrays can be written to.

    Raises:
        EOFError: the stream ended.
    """
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    header = json.loads(_exactly(stream, length))
    arrays = []
    for name, shape in header["arrays"]:
        dtype = DType(name).numpy
        data = _exactly(stream, math.prod(shape) * dtype.itemsize)
        array = np.frombuffer(data, dtype) if data else np.empty(0, dtype)
        arrays.append(array.reshape(shape))
    return Message(header["fields"], tuple(arrays))


Answer = tuple[Mapping[str, Any], Sequence[Array]]
"""Fields and arrays of the answer to a message."""


def serve(start: Callable[[], Callable[[Message], Answer]]) -> None:
    """Answer messages from standard input on standard output until either is closed.

    A fault that Python sees becomes an answer; one that it does not see ends the process, which
    the client explains.

    Args:
        start: loads the runtime, and gives what answers a message.
    """
    sink = os.fdopen(os.dup(1), "wb")
    # Nothing but messages may go to the real standard output.
    os.dup2(2, 1)
    handle = start()
    send(sink, {"ready": True})
    while True:
        try:
            message = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            fields, arrays = handle(message)
            send(sink, {"ok": True, **fields}, arrays)
        except DeviceError as error:
            send(sink, {"ok": False, "what": error.what, "reason": error.reason})
        except (RuntimeError, ValueError, TypeError, MemoryError, KeyError) as error:
            reason = f"{type(error).__name__}: {error}"
            send(sink, {"ok": False, "what": "", "reason": reason})


def _exactly(stream: BinaryIO, size: int) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError(f"the stream ended {size - done} bytes too early")
        done += count
    return data
