"""What the transfers of a host mean: firmware downloads, port resets, and runs of programs.

Clients of USB/IP keep port resets to themselves. But a host that has reset a port reads the device
descriptor again, and a chip whose firmware has been downloaded, or that was told to detach, waits
for just that reset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import (
    DescriptorType,
    DfuRequest,
    Event,
    RequestType,
    StandardRequest,
    Tag,
)
from fitzroy.hw_models.usb_device.transfer import Status, Transfer

_PAYLOADS = {
    endpoint.address for endpoint in BEAGLE.usb.endpoints.values() if not endpoint.address & 0x80
}
_EVENTS = BEAGLE.usb.endpoints["event"].address


class Kind(StrEnum):
    """What happened to a device that is served."""

    IMPORT = "import"
    RELEASE = "release"
    REFUSE = "refuse"
    DOWNLOAD = "download"
    DETACH = "detach"
    BOOT = "boot"
    PROGRAM = "program"
    UNPLUG = "unplug"
    PLUG = "plug"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened.

    Attributes:
        kind: what.
        busid: the device; empty if it concerns none.
        text: the rest, for people.
        figures: the same for machines.
    """

    kind: Kind
    busid: str
    text: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Watcher:
    """Follows the transfers of one device.

    Attributes:
        reset_due: whether the next read of the device descriptor follows a reset of the port.
    """

    clock: Callable[[], float] = time.monotonic
    reset_due: bool = False
    _blocks: int = 0
    _firmware: int = 0
    _sent: int = 0
    _start: float | None = None

    def follows_reset(self, transfer: Transfer) -> bool:
        """Whether the host must have reset the port before it submitted this transfer."""
        setup = transfer.setup
        if (
            not self.reset_due
            or setup is None
            or setup.request_type != RequestType.STANDARD_IN
            or setup.request != StandardRequest.GET_DESCRIPTOR
            or setup.value >> 8 != DescriptorType.DEVICE
        ):
            return False
        self.reset_due = False
        return True

    def finished(self, transfer: Transfer) -> Occurrence | None:
        """What a transfer that has ended means; the caller knows the device's busid."""
        if transfer.status is not Status.OK:
            return None
        if transfer.setup is not None:
            return self._control(transfer)
        if transfer.endpoint in _PAYLOADS:
            self._start = self.clock() if self._start is None else self._start
            self._sent += transfer.sent
        elif transfer.endpoint == _EVENTS:
            return self._event(transfer.received)
        return None

    def _control(self, transfer: Transfer) -> Occurrence | None:
        setup = transfer.setup
        if setup is None or setup.request_type != RequestType.CLASS_OUT:
            return None
        if setup.request == DfuRequest.DETACH:
            self.reset_due = True
            return Occurrence(Kind.DETACH, "", "goes back to the boot ROM at the next reset")
        if setup.request != DfuRequest.DOWNLOAD:
            return None
        if transfer.data:
            if setup.value == 0:
                self._blocks = self._firmware = 0
            self._blocks += 1
            self._firmware += len(transfer.data)
            return None
        self.reset_due = True
        figures = {"bytes": self._firmware, "blocks": self._blocks}
        text = f"firmware of {self._firmware:,} bytes in {self._blocks} blocks"
        return Occurrence(Kind.DOWNLOAD, "", text, figures)

    def _event(self, data: bytes) -> Occurrence | None:
        try:
            event = Event.unpack(int.from_bytes(data, "little"))
        except FormatError:
            # Scripted faults corrupt events; the host gets them as they are.
            return None
        if event.tag < Tag.INTERRUPT_0:
            return None
        took = 0.0 if self._start is None else self.clock() - self._start
        figures = {"sent": self._sent, "seconds": round(took, 6)}
        text = f"{self._sent:,} bytes sent, completed after {took:.3f} s"
        self._sent = 0
        self._start = None
        return Occurrence(Kind.PROGRAM, "", text, figures)
