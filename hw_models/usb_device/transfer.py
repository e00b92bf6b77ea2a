"""USB transfers, as a host controller hands them to a device and gets them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from fitzroy.hw_models.chips.usb import SetupPacket, Speed


class Status(Enum):
    """How a transfer ended; the value is the text for messages."""

    OK = "completed"
    STALL = "stalled"
    OVERFLOW = "overflow"
    ERROR = "transaction error"
    CANCELLED = "cancelled"
    NO_DEVICE = "no device"


@dataclass(eq=False)
class Transfer:
    """A transfer, from its submission to its end.

    Attributes:
        endpoint: address of the endpoint, 0x80 set towards the host; 0 for control transfers.
        setup: setup stage of a control transfer.
        data: bytes towards the device, data stage of a control transfer included.
        length: most bytes towards the host.
        done: called once, when `status` has been set; from whatever thread made the device move.
        status: how it ended, None as long as it is under way.
        sent: bytes that the device took.
        received: bytes that the device gave.
    """

    endpoint: int
    setup: SetupPacket | None = None
    data: bytes = b""
    length: int = 0
    done: Callable[[Transfer], None] = field(default=lambda _: None, repr=False)
    status: Status | None = None
    sent: int = 0
    received: bytes = b""

    @property
    def inward(self) -> bool:
        """Whether data goes to the host."""
        if self.setup is not None:
            return bool(self.setup.request_type & 0x80)
        return bool(self.endpoint & 0x80)

    def end(self, status: Status) -> None:
        """Set the status, and tell whoever waits."""
        self.status = status
        self.done(self)


class UsbDevice(Protocol):
    """A device on a port, as a host controller sees it. Calls may come from several threads.

    A transfer that the device cannot serve yet stays under way (the device answers NAK); whoever
    submitted it decides how long to wait, and cancels.
    """

    @property
    def connected(self) -> bool:
        """Whether the device is plugged in."""
        ...

    @property
    def generation(self) -> int:
        """Counts up whenever the device appears with other descriptors, or again."""
        ...

    @property
    def speed(self) -> Speed:
        """Speed of the connection."""
        ...

    @property
    def idle(self) -> bool:
        """Whether it computes nothing, so that nothing moves before the host does something."""
        ...

    def descriptors(self) -> tuple[bytes, bytes]:
        """Device and configuration descriptor of what the device is now."""
        ...

    def submit(self, transfer: Transfer) -> None:
        """Start a transfer; it may end before this returns."""
        ...

    def cancel(self, transfer: Transfer) -> bool:
        """End a transfer that is under way as cancelled; False if it has ended before."""
        ...

    def reset(self) -> None:
        """Reset the port; transfers under way are cancelled, and the device may re-enumerate."""
        ...
