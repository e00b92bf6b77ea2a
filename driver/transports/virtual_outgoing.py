"""Transfers under way to a virtual device; what `outgoing` is to libusb."""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import usb.core

from fitzroy.driver.transports.outgoing import failure
from fitzroy.driver.transports.transport import (
    BabbleError,
    IdleTimeoutError,
    LostError,
    Payload,
    StallError,
    TransactionError,
    TransferError,
    TransferTimeoutError,
)
from fitzroy.hw_models.usb_device.transfer import Status, Transfer, UsbDevice


@dataclass(eq=False)
class Posted:
    """A transfer under way."""

    device: UsbDevice
    transfer: Transfer
    ended: threading.Event = field(default_factory=threading.Event)

    def demand(self) -> None:
        """See that a transfer that has ended went as a whole.

        Raises:
            TransferError: it did not.
        """
        status = self.transfer.status or Status.ERROR
        if status is not Status.OK:
            kind = _FAILURES.get(status, TransferError)
            raise failure(kind, self.transfer.endpoint, status.value)


_FAILURES: dict[Status, type[TransferError]] = {
    Status.STALL: StallError,
    Status.OVERFLOW: BabbleError,
    Status.ERROR: TransactionError,
    Status.NO_DEVICE: LostError,
}


class VirtualOutgoing:
    """Transfers under way to a virtual device; see `transport.Outgoing`.

    Args:
        start: starts to send bytes to an endpoint.
        ends: whether a transfer ends in so many seconds.
    """

    def __init__(
        self, start: Callable[[int, bytes], Posted], ends: Callable[[Posted, float], bool]
    ) -> None:
        self._start = start
        self._ends = ends
        self._queue: deque[Posted] = deque()

    @property
    def under_way(self) -> int:
        """How many were posted, and are not settled."""
        return len(self._queue)

    def post(self, endpoint: int, data: Payload) -> None:
        """Start to send bytes; see `Outgoing.post`."""
        try:
            self._queue.append(self._start(endpoint, bytes(data)))
        except usb.core.USBError as error:
            kind = LostError if error.errno in (errno.ENODEV, errno.ENOENT) else TransferError
            raise failure(kind, endpoint, str(error)) from error

    def settle(self, timeout: float) -> None:
        """Wait until fewer are under way; see `Outgoing.settle`."""
        head = self._queue[0]
        if not self._ends(head, timeout):
            kind = IdleTimeoutError if head.device.idle else TransferTimeoutError
            raise failure(kind, head.transfer.endpoint, f"not within {timeout:g} s")
        while self._queue and self._queue[0].ended.is_set():
            try:
                self._queue[0].demand()
            except TransferError:
                self.recall()
                raise
            self._queue.popleft()

    def check(self) -> None:
        """See whether one has failed; see `Outgoing.check`."""
        for posted in tuple(self._queue):
            if posted.ended.is_set():
                posted.demand()

    def recall(self) -> None:
        """End all that are under way, the last one first."""
        while self._queue:
            posted = self._queue.pop()
            posted.device.cancel(posted.transfer)
            posted.ended.wait()

    def close(self) -> None:
        """Recall."""
        self.recall()
