"""Recorded sessions as devices: they answer as they did, as long as the driver does the same.

Transfers of an endpoint keep their order, and so does everything else; endpoints run beside one
another. Where the driver does something else than was recorded, an error names both.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from typing import Any

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.files import read_file
from fitzroy.driver.transports import record
from fitzroy.driver.transports.record import FORMAT, Entry
from fitzroy.driver.transports.transport import (
    ERRORS,
    INWARD,
    Attached,
    Payload,
    ReplayError,
    Reservation,
    Room,
    TransferError,
    TransferTimeoutError,
    Unreserved,
)
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import DfuRequest, RequestType, SetupPacket, Speed

_HOST = "host"
"""Lane of everything but bulk and interrupt transfers."""

_MALFORMED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What reading a field of the wrong type raises."""


class ReplayBus:
    """The bus of a recorded session.

    Args:
        path: the file.

    Attributes:
        first: path of the first device that the session opens.
        firmware: as many bytes as the firmware of the session had; it is not recorded.

    Raises:
        UsageError: the file cannot be read.
        FormatError: it is no recording.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = "replay"
        self.description = os.fspath(path)
        self._lanes: dict[str, deque[tuple[int, Entry]]] = defaultdict(deque)
        self.first = ""
        size = 0
        for number, entry in enumerate(_entries(read_file(path), self.description), start=2):
            try:
                self._lanes[_lane(entry)].append((number, entry))
                self.first = self.first or str(entry.get("path", ""))
                size = max(size, _downloaded(entry))
            except _MALFORMED as error:
                raise FormatError(
                    f"line {number} makes no sense: {error!r}", path=self.description
                ) from None
        self.firmware = bytes(size)
        self._memory = bytearray(_MEMORY)

    def attached(self) -> tuple[Attached, ...]:
        """What was attached at this point of the session."""
        return self.devices(self.next(_HOST, {"op": "attached"}))

    def open(self, path: str) -> ReplayTransport:
        """Open a device as in the session."""
        entry = self.next(_HOST, {"op": "open", "path": path})
        devices = self.devices(entry)
        if len(devices) != 1:
            raise FormatError(f"{len(devices)} devices were opened", path=self.description)
        return ReplayTransport(self, devices[0])

    def reserve(self, path: str) -> Reservation:
        """Nobody else has the recorded device."""
        return Unreserved()

    def renew(self) -> None:
        """Nothing is kept."""

    def next(self, lane: str, wanted: Entry) -> Entry:
        """What came of the next thing that was done.

        Args:
            lane: endpoint, or that of the host.
            wanted: what the driver does.

        Raises:
            ReplayError: something else was done.
            TransferError: it failed in the session.
        """
        if not self._lanes[lane]:
            raise ReplayError(
                "the recording ends here", reason=f"the driver goes on with {wanted}",
                where=self.description,
            )  # fmt: skip
        number, entry = self._lanes[lane].popleft()
        differing = [name for name, value in wanted.items() if entry.get(name) != value]
        if differing:
            raise ReplayError(
                "the session goes another way than the recorded one",
                reason=", ".join(
                    f"{name} is {wanted[name]!r}, was {entry.get(name)!r}" for name in differing
                ),
                where=f"{self.description}:{number}",
                hint="replay needs the same model, inputs and options as the recorded session",
            )
        if "error" in entry:
            kind = ERRORS.get(str(entry["error"]), ERRORS["transfer"])
            raise kind(
                f"{entry['op']} failed as recorded",
                reason=str(entry.get("reason", "")),
                where=f"{self.description}:{number}",
            )
        return entry

    def leave(self) -> None:
        """Close a device where the session did so as well, or where the driver gives up."""
        lane = self._lanes[_HOST]
        if lane and lane[0][1]["op"] == "close":
            lane.popleft()

    def devices(self, entry: Entry) -> tuple[Attached, ...]:
        """The devices of a line."""
        try:
            return tuple(_attached(item) for item in entry["devices"])
        except _MALFORMED as error:
            raise FormatError(f"a malformed device: {error!r}", path=self.description) from None

    def firmware_block(self, setup: SetupPacket, data: bytes) -> bytes:
        """Keep a block of firmware, or give it back, as the boot ROM does.

        Args:
            setup: the request.
            data: the block, if it goes to the device.
        """
        if setup.request == DfuRequest.DOWNLOAD:
            at = setup.value * _BLOCK
            self._memory[at : at + len(data)] = data
            return b""
        at = setup.value * _BLOCK
        return bytes(self._memory[at : at + setup.length])


class ReplayTransport:
    """A device of a recorded session.

    Args:
        bus: the session.
        attached: what was opened.
    """

    def __init__(self, bus: ReplayBus, attached: Attached) -> None:
        self.attached = attached
        self._bus = bus
        self._posted: deque[tuple[int, Payload]] = deque()

    def claim(self) -> None:
        """Take interface 0 for this transport alone."""
        self._bus.next(_HOST, {"op": "claim"})

    def control(self, setup: SetupPacket, data: bytes = b"", timeout: float = 1.0) -> bytes:
        """A control transfer; see `Transport.control`."""
        entry = self._bus.next(_HOST, record.control(setup, data))
        if not record.holds_firmware(setup):
            return self._data(entry) if setup.request_type & INWARD else b""
        block = self._bus.firmware_block(setup, data)
        return block[: self._count(entry, "size", 0, len(block))] if block else b""

    @property
    def under_way(self) -> int:
        """How many transfers were posted, and are not settled."""
        return len(self._posted)

    def post(self, endpoint: int, data: Payload) -> None:
        """Send bytes when they are asked for; see `Transport.post`."""
        self._posted.append((endpoint, data))

    def settle(self, timeout: float) -> None:
        """See what became of all that were posted; see `Transport.settle`."""
        while self._posted:
            endpoint, data = self._posted[0]
            try:
                entry = self._bus.next(f"{endpoint:#04x}", record.write(endpoint, data))
            except TransferTimeoutError:
                raise
            except TransferError:
                self._posted.clear()
                raise
            self._count(entry, "sent", len(data), len(data))
            self._posted.popleft()

    def check(self) -> None:
        """Failures come with `settle`, where they were noticed in the session."""

    def recall(self) -> None:
        """Forget what was posted."""
        self._posted.clear()

    def read(self, endpoint: int, size: int, timeout: float) -> bytes:
        """Receive bytes; see `Transport.read`."""
        return self._data(self._bus.next(f"{endpoint:#04x}", record.read(endpoint, size)))

    def read_into(self, endpoint: int, room: Room, timeout: float) -> int:
        """Receive bytes into memory; see `Transport.read_into`."""
        data = self.read(endpoint, len(room), timeout)
        if len(data) > len(room):
            raise FormatError(
                f"{len(data)} bytes came, {len(room)} were asked for", path=self._bus.description
            )
        room[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    def clear_halt(self, endpoint: int) -> None:
        """Let an endpoint that stalls go on."""
        self._bus.next(_HOST, {"op": "clear_halt", "endpoint": f"{endpoint:#04x}"})

    def reset(self) -> None:
        """Reset the port."""
        self._bus.next(_HOST, {"op": "reset"})

    def close(self) -> None:
        """Give the device back."""
        self._bus.leave()

    def _count(self, entry: Entry, name: str, least: int, most: int) -> int:
        count = entry.get(name)
        if type(count) is not int or not least <= count <= most:
            raise FormatError(
                f"{name} is {count!r}, not from {least} to {most}", path=self._bus.description
            )
        return count

    def _data(self, entry: Entry) -> bytes:
        try:
            return bytes.fromhex(entry["data"])
        except (KeyError, TypeError, ValueError):
            raise FormatError(
                "a line without usable data", path=self._bus.description, table=str(entry["op"])
            ) from None


_BLOCK = BEAGLE.usb.dfu_block
_MEMORY = 32 << 10
"""Memory of the boot ROM."""

_DOWNLOAD = (f"{int(RequestType.CLASS_OUT):#04x}", int(DfuRequest.DOWNLOAD))


def _lane(entry: Entry) -> str:
    """What keeps its order: the transfers of an endpoint, and everything else."""
    return str(entry["endpoint"]) if entry["op"] in ("write", "read") else _HOST


def _downloaded(entry: Entry) -> int:
    """Where a block of firmware ends, 0 for everything else."""
    if (entry.get("type"), entry.get("request")) != _DOWNLOAD or "error" in entry:
        return 0
    length = int(entry["length"])
    end = int(entry["value"], 0) * _BLOCK + length if length else 0
    if not 0 <= end <= _MEMORY:
        raise ValueError(f"firmware of {end} bytes")
    return end


def _entries(data: bytes, path: str) -> list[Entry]:
    entries: list[Entry] = []
    for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not ("op" in entry or number == 1):
            raise FormatError(f"line {number} is no line of a recording", path=path)
        entries.append(entry)
    if not entries or entries[0].get("format") != FORMAT:
        raise FormatError(f"the first line does not say {FORMAT!r}", path=path)
    return entries[1:]


def _attached(item: dict[str, Any]) -> Attached:
    vendor, product = (int(part, 16) for part in item["id"].split(":"))
    speed = None if item["speed"] is None else Speed[item["speed"].upper()]
    return Attached(str(item["path"]), int(item["address"]), vendor, product, speed)
