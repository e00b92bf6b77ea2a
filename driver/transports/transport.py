"""What a driver needs of USB: devices on ports, transfers with time limits, typed errors.

`Bus` finds and opens devices, `Transport` is one that is open. The same driver runs on libusb, on
virtual devices, and on recorded sessions.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from fitzroy.base.errors import DeviceError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import SetupPacket, Speed

Payload: TypeAlias = "bytes | array[int] | memoryview"
"""Bytes to send; they are not copied on their way."""

IN_FLIGHT = BEAGLE.usb.out_in_flight
"""Transfers to the device that are under way at a time: as libedgetpu."""

INWARD = 0x80
"""Bit of request types and of endpoint addresses: towards the host."""


class Room(np.ndarray[Any, np.dtype[np.uint8]]):
    """Memory for bytes of a device, as backends of pyusb want it."""

    @classmethod
    def of(cls, size: int) -> Room:
        """Memory for so many bytes; they are anything at first."""
        return cls((size,), np.uint8)

    def buffer_info(self) -> tuple[int, int]:
        """Address and length."""
        return self.__array_interface__["data"][0], len(self)


class TransferError(DeviceError):
    """A transfer failed; whether the device saw it is not known.

    Attributes:
        code: name of the kind in recordings and reports.
    """

    code: ClassVar[str] = "transfer"


class StallError(TransferError):
    """The device refused: a request that it does not know, or an endpoint that is halted."""

    code = "stall"


class TransferTimeoutError(TransferError):
    """No byte came or went in time."""

    code = "timeout"


class IdleTimeoutError(TransferTimeoutError):
    """No byte came or went in time, and none will: the device itself waits for the host.

    Only virtual devices know that of themselves.
    """

    code = "idle"


class BabbleError(TransferError):
    """The device sent more than it was asked for; the data is lost."""

    code = "overflow"


class TransactionError(TransferError):
    """Packets were damaged, or nothing answered."""

    code = "transaction"


class LostError(TransferError):
    """The device is gone, or has become another one."""

    code = "lost"


class AccessError(TransferError):
    """The system does not let this user open the device."""

    code = "access"


class BusyError(TransferError):
    """Another process, or another handle, has the device.

    Attributes:
        owner: pid of the process, 0 if it is not known.
        driver: the kernel's driver that has it, empty if it is a process.
    """

    code = "busy"
    owner: int = 0
    driver: str = ""


class ReplayError(DeviceError):
    """A recorded session goes another way than the driver."""


ERRORS: dict[str, type[TransferError]] = {
    kind.code: kind
    for kind in (
        TransferError,
        StallError,
        TransferTimeoutError,
        IdleTimeoutError,
        BabbleError,
        TransactionError,
        LostError,
        AccessError,
        BusyError,
    )
}
"""All kinds of errors by code."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A device as enumerated.

    Attributes:
        path: bus and ports that lead to it, as in ``1-2.4``; the same after it re-enumerates.
        address: its number on the bus; another one after it re-enumerates.
        vendor: vendor id.
        product: product id.
        speed: speed of the connection, None if it is another one than those of the chip.
    """

    path: str
    address: int
    vendor: int
    product: int
    speed: Speed | None


class Outgoing(Protocol):
    """Transfers under way to a device; for one thread, but for `check`."""

    @property
    def under_way(self) -> int:
        """How many were posted, and are not settled."""
        ...

    def post(self, endpoint: int, data: Payload) -> None:
        """Start to send bytes, which must not change before they are settled.

        Raises:
            TransferError: the device is gone, or the system refuses.
        """
        ...

    def settle(self, timeout: float) -> None:
        """Wait until fewer are under way.

        Args:
            timeout: seconds; afterwards all stay under way.

        Raises:
            TransferTimeoutError: none has ended in time.
            TransferError: one has failed; none is under way any more.
        """
        ...

    def check(self) -> None:
        """See whether one has failed, without a wait; any thread may.

        Raises:
            TransferError: one has.
        """
        ...

    def recall(self) -> None:
        """End all that are under way."""
        ...


class Transport(Outgoing, Protocol):
    """An open device. Transfers on different endpoints may come from different threads."""

    @property
    def attached(self) -> Attached:
        """What was opened."""
        ...

    def claim(self) -> None:
        """Take interface 0 for this transport alone.

        Raises:
            TransferError: another one has it, or the device is gone.
        """
        ...

    def control(self, setup: SetupPacket, data: bytes = b"", timeout: float = 1.0) -> bytes:
        """A control transfer.

        Args:
            setup: the request; its `length` says how much to read.
            data: bytes for a request towards the device.
            timeout: seconds.

        Returns:
            What came; empty for requests towards the device.

        Raises:
            TransferError: it failed, or fewer bytes went than there are.
        """
        ...

    def read(self, endpoint: int, size: int, timeout: float) -> bytes:
        """Receive up to `size` bytes, until a short packet ends the transfer.

        Raises:
            TransferError: as its subclasses say.
        """
        ...

    def read_into(self, endpoint: int, room: Room, timeout: float) -> int:
        """Receive bytes into memory, until it is full or a short packet ends the transfer.

        Returns:
            how many came.

        Raises:
            TransferError: as its subclasses say.
        """
        ...

    def clear_halt(self, endpoint: int) -> None:
        """Let an endpoint that stalls go on.

        Raises:
            TransferError: as its subclasses say.
        """
        ...

    def reset(self) -> None:
        """Reset the port. The device may become another one: close this transport afterwards.

        Raises:
            TransferError: the device is gone for another reason.
        """
        ...

    def close(self) -> None:
        """Give the device back; a second time does nothing, and so does a lost device."""
        ...


class Reservation(Protocol):
    """A device that others keep away from."""

    def release(self) -> None:
        """Let others have it; a second time does nothing."""
        ...


class Unreserved:
    """A device that no other process can reach, or that cannot be locked."""

    def release(self) -> None:
        """There is nothing to give back."""


class Bus(Protocol):
    """Where devices are.

    Attributes:
        name: name in paths of devices, as in ``usb``.
        description: what it is, for people.
    """

    name: str
    description: str

    def attached(self) -> tuple[Attached, ...]:
        """All devices of the chip's two modes, in order of their paths.

        Raises:
            DeviceError: there is no access to USB at all.
        """
        ...

    def open(self, path: str) -> Transport:
        """Open a device.

        Raises:
            TransferError: it is not there, belongs to somebody else, or does not answer.
        """
        ...

    def reserve(self, path: str) -> Reservation:
        """Keep other processes away from a device, also while it comes back from a reset.

        Raises:
            BusyError: another one keeps this one away.
        """
        ...

    def renew(self) -> None:
        """Forget what enumeration has found so far."""
        ...


def lost(path: str) -> LostError:
    """The error of a device that is not there."""
    return LostError(
        "the device is gone", where=path, hint="plug it in again; then the next request uses it"
    )
