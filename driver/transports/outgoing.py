"""Bytes on their way to a device: several transfers under way at a time, in order.

libusb's plain calls end a transfer before the next one begins, and the link is idle in between.
Google's driver hands over three at a time, and so does this one. What is under way has no time
limit of its own: cutting short a transfer with others after it would leave a gap in the stream.
Whoever waits decides how long, and recalls all of them when it gives up.
"""

from __future__ import annotations

import ctypes
import threading
import time
from array import array
from collections import deque
from typing import Any, Protocol

import numpy as np
from usb.backend import libusb1

from fitzroy.driver.transports.transport import (
    BabbleError,
    LostError,
    Outgoing,
    Payload,
    StallError,
    TransactionError,
    TransferError,
    TransferTimeoutError,
)

_BULK = 2
_CANCELLED = 3
_FAILURES: dict[int, type[TransferError]] = {
    1: TransactionError,
    2: TransferTimeoutError,
    _CANCELLED: TransferError,
    4: StallError,
    5: LostError,
    6: BabbleError,
}
"""Ends of transfers (`libusb_transfer_status`) other than completion."""

_NO_DEVICE = -4

_RECALL_SECONDS = 1.0
"""Most time until what is recalled has ended; systems need microseconds."""

_abandoned: list[object] = []
"""Transfers that did not end when they were recalled: their memory must stay."""


class OutgoingQueue(Outgoing, Protocol):
    """Transfers under way, in memory of their own."""

    def close(self) -> None:
        """Recall, and give back the memory; before the handle is closed."""
        ...


def address_of(data: Payload) -> int:
    """Where bytes are in memory."""
    if isinstance(data, array):
        return data.buffer_info()[0]
    place: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return place


def failure(kind: type[TransferError], endpoint: int, reason: str) -> TransferError:
    """The error of a transfer towards the device."""
    return kind(f"a transfer on endpoint {endpoint:#04x} failed", reason=reason)


class TimeValue(ctypes.Structure):
    """`struct timeval`."""

    _fields_ = (("seconds", ctypes.c_long), ("microseconds", ctypes.c_long))


def declare(library: Any) -> None:
    """Say the types of functions that pyusb does not use.

    Raises:
        AttributeError: the library lacks one.
    """
    transfer = ctypes.POINTER(libusb1._libusb_transfer)
    library.libusb_cancel_transfer.argtypes = [transfer]
    library.libusb_handle_events_timeout_completed.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(TimeValue),
        ctypes.POINTER(ctypes.c_int),
    ]


class _Slot:
    """A transfer of libusb, used again and again.

    Attributes:
        transfer: the structure.
        ended: 1 when it has ended; libusb looks at it.
        data: the bytes, kept as long as libusb may read them.
    """

    def __init__(self, library: Any, handle: Any) -> None:
        self.transfer = library.libusb_alloc_transfer(0)
        if not self.transfer:
            raise TransferError("libusb has no memory for a transfer")
        self.ended = ctypes.c_int(0)
        self.data: Payload = b""
        self.content = self.transfer.contents
        self._callback = libusb1._libusb_transfer_cb_fn_p(self._end)
        self.content.dev_handle = handle
        self.content.type = _BULK
        self.content.callback = self._callback

    def _end(self, _: Any) -> None:
        self.ended.value = 1


class LibusbOutgoing:
    """Transfers by libusb's own queue.

    Args:
        backend: pyusb's backend of libusb 1.0.
        handle: an open device of it.
    """

    def __init__(self, backend: Any, handle: Any) -> None:
        self._library = backend.lib
        self._context = backend.ctx
        self._handle = handle.handle
        self._free: list[_Slot] = []
        self._queue: deque[_Slot] = deque()
        self._lock = threading.Lock()

    @property
    def under_way(self) -> int:
        """How many were posted, and are not settled."""
        return len(self._queue)

    def post(self, endpoint: int, data: Payload) -> None:
        """Start to send bytes; see `Outgoing.post`."""
        slot = self._free.pop() if self._free else _Slot(self._library, self._handle)
        slot.data = data
        slot.ended.value = 0
        slot.content.endpoint = endpoint
        slot.content.buffer = address_of(data)
        slot.content.length = len(data)
        code = self._library.libusb_submit_transfer(slot.transfer)
        if code:
            self._release(slot)
            kind = LostError if code == _NO_DEVICE else TransferError
            raise failure(kind, endpoint, f"libusb_submit_transfer says {code}")
        with self._lock:
            self._queue.append(slot)

    def settle(self, timeout: float) -> None:
        """Wait until fewer are under way; see `Outgoing.settle`."""
        head = self._queue[0]
        if not self._await(head, timeout):
            raise failure(TransferTimeoutError, head.content.endpoint, f"not within {timeout:g} s")
        while self._queue and self._queue[0].ended.value:
            try:
                _demand(self._queue[0])
            except TransferError:
                self.recall()
                raise
            with self._lock:
                self._release(self._queue.popleft())

    def _release(self, slot: _Slot) -> None:
        """Keep a transfer for another time, and let go of the bytes of its sender."""
        slot.data = b""
        self._free.append(slot)

    def check(self) -> None:
        """See whether one has failed; see `Outgoing.check`."""
        with self._lock:
            ended = [slot for slot in self._queue if slot.ended.value]
        for slot in ended:
            _demand(slot)

    def recall(self) -> None:
        """End all that are under way, the last one first, so that none goes out after a gap."""
        for slot in reversed(self._queue):
            if not slot.ended.value:
                self._library.libusb_cancel_transfer(slot.transfer)
        with self._lock:
            recalled, self._queue = self._queue, deque()
        for slot in recalled:
            if self._await(slot, _RECALL_SECONDS):
                self._release(slot)
            else:
                _abandoned.append(slot)

    def close(self) -> None:
        """Recall, and give back the memory; before the handle is closed."""
        self.recall()
        for slot in self._free:
            self._library.libusb_free_transfer(slot.transfer)
        self._free.clear()

    def _await(self, slot: _Slot, timeout: float) -> bool:
        """Handle events until a transfer has ended, for so many seconds."""
        until = time.monotonic() + timeout
        left = timeout
        while not slot.ended.value and left >= 0:
            wait = TimeValue(int(left), int(left % 1 * 1e6))
            self._library.libusb_handle_events_timeout_completed(
                self._context, ctypes.byref(wait), ctypes.byref(slot.ended)
            )
            left = until - time.monotonic()
        return bool(slot.ended.value)


def _demand(slot: _Slot) -> None:
    """See that a transfer that has ended went as a whole.

    Raises:
        TransferError: it did not.
    """
    content = slot.content
    if content.status:
        kind = _FAILURES.get(content.status, TransferError)
        raise failure(kind, content.endpoint, f"libusb's status {content.status}")
    if content.actual_length != content.length:
        went = f"{content.actual_length} of {content.length} bytes went"
        raise failure(TransactionError, content.endpoint, went)
