"""Whole sessions as text: one JSON object per line for everything that a driver does on a bus.

Each line has the time in seconds (`t`), what was done (`op`), with what, and what came of it:
`data` in hexadecimal, or the kind of the `error`. Of what goes to the device there are the first
bytes and a digest; what comes from it is complete. Firmware is left out: it belongs to Google.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fitzroy.base.errors import UsageError
from fitzroy.driver.transports.transport import (
    INWARD,
    Attached,
    Bus,
    Payload,
    Reservation,
    Room,
    TransferError,
    TransferTimeoutError,
    Transport,
)
from fitzroy.hw_models.chips.usb import CsrRequest, DfuRequest, RequestType, SetupPacket
from fitzroy.hw_models.csr import beagle as csr

FORMAT = "fitzroy session 1"
"""Content of the first line."""

_SHOWN = 64
"""Bytes to the device that are shown; the rest is in the digest."""

_CLASS = (RequestType.CLASS_IN, RequestType.CLASS_OUT)
_FIRMWARE = (DfuRequest.DOWNLOAD, DfuRequest.UPLOAD)

Entry = dict[str, Any]
T = TypeVar("T")


# --- what is done, as it is written --------------------------------------------------------------


def listing(devices: tuple[Attached, ...]) -> Entry:
    """Devices that are attached."""
    return {
        "devices": [
            {
                "path": one.path,
                "address": one.address,
                "id": f"{one.vendor:04x}:{one.product:04x}",
                "speed": None if one.speed is None else one.speed.name.lower(),
            }
            for one in devices
        ]
    }


def holds_firmware(setup: SetupPacket) -> bool:
    """Whether the data of a request is firmware."""
    return setup.request_type in _CLASS and setup.request in _FIRMWARE


def control(setup: SetupPacket, data: bytes) -> Entry:
    """A control transfer."""
    entry: Entry = {
        "op": "control",
        "type": f"{int(setup.request_type):#04x}",
        "request": int(setup.request),
        "value": f"{setup.value:#06x}",
        "index": f"{setup.index:#06x}",
        "length": setup.length,
    }
    register = csr.BY_ADDRESS.get(setup.index << 16 | setup.value)
    if (
        setup.request_type in (RequestType.VENDOR_IN, RequestType.VENDOR_OUT)
        and setup.request in tuple(CsrRequest)
        and register is not None
    ):
        entry["register"] = register.name
    if not setup.request_type & INWARD and not holds_firmware(setup):
        entry["data"] = data.hex()
    return entry


def write(endpoint: int, data: Payload) -> Entry:
    """Bytes to the device."""
    content = bytes(data)
    entry: Entry = {"op": "write", "endpoint": f"{endpoint:#04x}", "size": len(content)}
    entry["data"] = content[:_SHOWN].hex()
    if len(content) > _SHOWN:
        entry["sha256"] = hashlib.sha256(content).hexdigest()
    return entry


def read(endpoint: int, size: int) -> Entry:
    """A wish for bytes from the device."""
    return {"op": "read", "endpoint": f"{endpoint:#04x}", "size": size}


# --- recording -----------------------------------------------------------------------------------


class Recorder:
    """A file that grows by a line for everything that happens.

    Args:
        path: the file; what it holds is replaced.

    Raises:
        UsageError: it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._file = Path(path).open("w", buffering=1)  # noqa: SIM115 - open until `close`
        except OSError as error:
            raise UsageError(
                "the recording cannot be written",
                reason=error.strerror or str(error),
                where=os.fspath(path),
            ) from None
        self._lock = threading.Lock()
        self._begin = time.monotonic()
        self.add({"format": FORMAT})

    def now(self) -> float:
        """Seconds since the recording began."""
        return round(time.monotonic() - self._begin, 6)

    def add(self, entry: Entry) -> None:
        """Append a line."""
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps({"t": self.now()} | entry) + "\n")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def done(self, entry: Entry, action: Callable[[], T], shown: Callable[[T], Entry]) -> T:
        """Do something, and write what came of it.

        Args:
            entry: what is done.
            action: does it.
            shown: what to write of its result.
        """
        try:
            result = action()
        except TransferError as error:
            self.add(entry | _failed(error))
            raise
        self.add(entry | shown(result))
        return result


def _nothing(_: object) -> Entry:
    return {}


def _failed(error: TransferError) -> Entry:
    return {"error": error.code, "reason": error.reason}


class RecordingTransport:
    """A transport, and a line for everything that it does.

    Args:
        transport: the device.
        recorder: gets the lines.
    """

    def __init__(self, transport: Transport, recorder: Recorder) -> None:
        self._transport = transport
        self._recorder = recorder
        self._posted: deque[tuple[Entry, int]] = deque()

    @property
    def attached(self) -> Attached:
        """What was opened."""
        return self._transport.attached

    def claim(self) -> None:
        """Take interface 0 for this transport alone."""
        self._recorder.done({"op": "claim"}, self._transport.claim, _nothing)

    def control(self, setup: SetupPacket, data: bytes = b"", timeout: float = 1.0) -> bytes:
        """A control transfer; see `Transport.control`."""

        def shown(answer: bytes) -> Entry:
            if not setup.request_type & INWARD:
                return {}
            return {"size": len(answer)} if holds_firmware(setup) else {"data": answer.hex()}

        return self._recorder.done(
            control(setup, data), lambda: self._transport.control(setup, data, timeout), shown
        )

    @property
    def under_way(self) -> int:
        """How many transfers were posted, and are not settled."""
        return self._transport.under_way

    def post(self, endpoint: int, data: Payload) -> None:
        """Start to send bytes; written down when it is known what became of them."""
        entry = write(endpoint, data) | {"posted": self._recorder.now()}
        try:
            self._transport.post(endpoint, data)
        except TransferError as error:
            self._recorder.add(entry | _failed(error))
            raise
        self._posted.append((entry, len(data)))

    def settle(self, timeout: float) -> None:
        """Wait until fewer transfers are under way; see `Transport.settle`."""
        try:
            self._transport.settle(timeout)
        except TransferError as error:
            self._recorder.add(self._posted[0][0] | _failed(error))
            if not isinstance(error, TransferTimeoutError):
                self._posted.clear()
            raise
        while len(self._posted) > self._transport.under_way:
            entry, size = self._posted.popleft()
            self._recorder.add(entry | {"sent": size})

    def check(self) -> None:
        """See whether a posted transfer has failed."""
        self._transport.check()

    def recall(self) -> None:
        """End all posted transfers that are under way."""
        self._transport.recall()
        self._posted.clear()

    def read(self, endpoint: int, size: int, timeout: float) -> bytes:
        """Receive bytes; see `Transport.read`."""
        return self._recorder.done(
            read(endpoint, size),
            lambda: self._transport.read(endpoint, size, timeout),
            lambda data: {"data": data.hex()},
        )

    def read_into(self, endpoint: int, room: Room, timeout: float) -> int:
        """Receive bytes into memory; see `Transport.read_into`."""
        return self._recorder.done(
            read(endpoint, len(room)),
            lambda: self._transport.read_into(endpoint, room, timeout),
            lambda count: {"data": room[:count].tobytes().hex()},
        )

    def clear_halt(self, endpoint: int) -> None:
        """Let an endpoint that stalls go on."""
        self._recorder.done(
            {"op": "clear_halt", "endpoint": f"{endpoint:#04x}"},
            lambda: self._transport.clear_halt(endpoint),
            _nothing,
        )

    def reset(self) -> None:
        """Reset the port."""
        self._recorder.done({"op": "reset"}, self._transport.reset, _nothing)

    def close(self) -> None:
        """Give the device back."""
        self._recorder.done({"op": "close"}, self._transport.close, _nothing)


class RecordingBus:
    """A bus whose devices are recorded.

    Args:
        bus: the bus.
        recorder: gets the lines.
    """

    def __init__(self, bus: Bus, recorder: Recorder) -> None:
        self.name = bus.name
        self.description = bus.description
        self._bus = bus
        self._recorder = recorder

    def attached(self) -> tuple[Attached, ...]:
        """All devices of the chip's two modes."""
        return self._recorder.done({"op": "attached"}, self._bus.attached, listing)

    def open(self, path: str) -> RecordingTransport:
        """Open a device."""
        entry = {"op": "open", "path": path}

        def opened() -> Transport:
            return self._bus.open(path)

        transport = self._recorder.done(entry, opened, lambda found: listing((found.attached,)))
        return RecordingTransport(transport, self._recorder)

    def reserve(self, path: str) -> Reservation:
        """Keep other processes away; that is not said on the bus, and not recorded."""
        return self._bus.reserve(path)

    def renew(self) -> None:
        """Forget what enumeration has found so far."""
        self._bus.renew()
