"""Devices behind pyusb: those of libusb, or of a backend in this process."""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import usb.core
import usb.util
from usb.backend import libusb1

from fitzroy.driver.transports import libusb as system_usb
from fitzroy.driver.transports.outgoing import LibusbOutgoing, OutgoingQueue
from fitzroy.driver.transports.ownership import Ownership
from fitzroy.driver.transports.transport import (
    INWARD,
    AccessError,
    Attached,
    BabbleError,
    BusyError,
    IdleTimeoutError,
    LostError,
    Payload,
    Reservation,
    Room,
    StallError,
    TransactionError,
    TransferError,
    TransferTimeoutError,
    Unreserved,
    lost,
)
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import SetupPacket, Speed

_IDENTITIES = tuple((mode.vendor, mode.product) for mode in (BEAGLE.usb.boot, BEAGLE.usb.runtime))
_SPEEDS = {usb.util.SPEED_HIGH: Speed.HIGH, usb.util.SPEED_SUPER: Speed.SUPER}
_INTERFACE = 0
_INTERRUPT = BEAGLE.usb.endpoints["interrupt"].address

_BY_ERRNO: dict[int, type[TransferError]] = {
    errno.EPIPE: StallError,
    errno.ETIMEDOUT: TransferTimeoutError,
    errno.EOVERFLOW: BabbleError,
    errno.EIO: TransactionError,
    errno.ENODEV: LostError,
    errno.ENOENT: LostError,
    errno.EACCES: AccessError,
    errno.EPERM: AccessError,
    errno.EBUSY: BusyError,
}
"""Kinds of errors by the number that pyusb gives, on every system."""


class UsbTransport:
    """A device behind pyusb.

    Args:
        device: the device.
        attached: what it is.
        ownership: tells who else has it, None if nobody can.

    Raises:
        TransferError: it cannot be opened.
    """

    def __init__(self, device: Any, attached: Attached, ownership: Ownership | None = None) -> None:
        self._device = device
        self._backend = device.backend
        self._ownership = ownership
        self.attached = attached
        with self._errors("opening the device"):
            # Bulk transfers go to the backend: what `Device.write` looks up every time, and costs
            # more than the transfer, is known here.
            self._handle = device._ctx.managed_open()
        self._outgoing: OutgoingQueue = (
            LibusbOutgoing(self._backend, self._handle)
            if isinstance(self._backend, libusb1._LibUSB)
            else self._backend.outgoing(self._handle)
        )

    def claim(self) -> None:
        """Take interface 0 for this transport alone."""
        try:
            with self._errors("claiming the interface"):
                usb.util.claim_interface(self._device, _INTERFACE)
        except BusyError:
            if self._ownership is None:
                raise
            raise self._ownership.holder(self.attached).error(self.attached.path) from None

    def control(self, setup: SetupPacket, data: bytes = b"", timeout: float = 1.0) -> bytes:
        """A control transfer; see `Transport.control`."""
        inward = setup.request_type & INWARD
        try:
            answer = self._device.ctrl_transfer(
                setup.request_type,
                setup.request,
                setup.value,
                setup.index,
                setup.length if inward else data,
                int(timeout * 1000) or 1,
            )
        except (usb.core.USBError, ValueError) as error:
            raise self._error(error, "a control transfer") from error
        if inward:
            return bytes(answer)
        if answer != len(data):
            raise TransactionError(
                "a control transfer failed",
                reason=f"{answer} of {len(data)} bytes went",
                where=self.attached.path,
            )
        return b""

    @property
    def under_way(self) -> int:
        """How many transfers were posted, and are not settled."""
        return self._outgoing.under_way

    def post(self, endpoint: int, data: Payload) -> None:
        """Start to send bytes; see `Transport.post`."""
        try:
            self._outgoing.post(endpoint, data)
        except TransferError as error:
            raise self._placed(error) from None

    def settle(self, timeout: float) -> None:
        """Wait until fewer transfers are under way; see `Transport.settle`."""
        try:
            self._outgoing.settle(timeout)
        except TransferError as error:
            raise self._placed(error) from None

    def check(self) -> None:
        """See whether a posted transfer has failed."""
        if self._outgoing.under_way:
            try:
                self._outgoing.check()
            except TransferError as error:
                raise self._placed(error) from None

    def recall(self) -> None:
        """End all posted transfers that are under way."""
        self._outgoing.recall()

    def read(self, endpoint: int, size: int, timeout: float) -> bytes:
        """Receive bytes; see `Transport.read`."""
        buffer = array("B", bytes(size))
        read = self._backend.intr_read if endpoint == _INTERRUPT else self._backend.bulk_read
        try:
            count = read(self._handle, endpoint, _INTERFACE, buffer, int(timeout * 1000) or 1)
        except usb.core.USBError as error:
            raise self._error(error, f"a transfer on endpoint {endpoint:#04x}") from error
        return buffer.tobytes() if count == size else buffer[:count].tobytes()

    def read_into(self, endpoint: int, room: Room, timeout: float) -> int:
        """Receive bytes into memory; see `Transport.read_into`."""
        try:
            count: int = self._backend.bulk_read(
                self._handle, endpoint, _INTERFACE, room, int(timeout * 1000) or 1
            )
        except usb.core.USBError as error:
            raise self._error(error, f"a transfer on endpoint {endpoint:#04x}") from error
        return count

    def clear_halt(self, endpoint: int) -> None:
        """Let an endpoint that stalls go on."""
        with self._errors(f"clearing the halt of endpoint {endpoint:#04x}"):
            self._device.clear_halt(endpoint)

    def reset(self) -> None:
        """Reset the port."""
        try:
            self._device.reset()
        except usb.core.USBError as error:
            # ENOENT: the device has re-enumerated, which is what resets are for.
            if error.errno != errno.ENOENT:
                raise self._error(error, "a reset of the port") from error

    def close(self) -> None:
        """Give the device back."""
        self._outgoing.close()
        # Releasing what is gone fails, and needs no answer.
        with suppress(usb.core.USBError):
            usb.util.dispose_resources(self._device)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (usb.core.USBError, ValueError) as error:
            raise self._error(error, what) from error

    def _placed(self, error: TransferError) -> TransferError:
        """An error of what goes out, with the place and what to do."""
        error.where = self.attached.path
        error.hint = error.hint or _HINTS.get(type(error), "")
        return error

    def _error(self, error: Exception, what: str) -> TransferError:
        return _typed(error, what, self.attached.path)


class UsbBus:
    """All devices of a backend of pyusb.

    Args:
        backend: makes the backend; called again after `renew`.
        name: name in paths of devices.
        description: what it is, for people.
        ownership: locks and owners of its devices, None if no other process can reach them.
    """

    def __init__(
        self,
        backend: Callable[[], Any],
        name: str,
        description: str,
        ownership: Ownership | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.ownership = ownership
        self._make = backend
        self._backend: Any = None

    def attached(self) -> tuple[Attached, ...]:
        """All devices of the chip's two modes, in order of their paths."""
        return tuple(sorted((found for found, _ in self._devices()), key=lambda one: one.path))

    def open(self, path: str) -> UsbTransport:
        """Open a device."""
        for found, device in self._devices():
            if found.path == path:
                return UsbTransport(device, found, self.ownership)
        raise lost(path)

    def reserve(self, path: str) -> Reservation:
        """Keep other processes away from a device; see `Bus.reserve`."""
        return Unreserved() if self.ownership is None else self.ownership.reserve(path)

    def renew(self) -> None:
        """Forget the context of libusb: without udev, an old one does not see new devices."""
        self._backend = None

    def _devices(self) -> Iterator[tuple[Attached, Any]]:
        if self._backend is None:
            self._backend = self._make()
        try:
            for device in usb.core.find(find_all=True, backend=self._backend):
                if (device.idVendor, device.idProduct) in _IDENTITIES:
                    yield _attached(device), device
        except usb.core.USBError as error:
            raise _typed(error, "listing devices", self.name) from error


def _attached(device: Any) -> Attached:
    ports = ".".join(map(str, device.port_numbers or (device.address,)))
    return Attached(
        f"{device.bus}-{ports}",
        device.address,
        device.idVendor,
        device.idProduct,
        _SPEEDS.get(device.speed),
    )


class IdleError(usb.core.USBTimeoutError):  # type: ignore[misc]
    """A transfer took too long with a device that computes nothing and waits for the host."""


def _typed(error: Exception, what: str, where: str) -> TransferError:
    number = getattr(error, "errno", None)
    # pyusb raises ValueError for an endpoint that the device does not have (any more).
    kind = LostError if number is None and isinstance(error, ValueError) else TransferError
    kind = _BY_ERRNO.get(number, kind) if number is not None else kind
    kind = IdleTimeoutError if isinstance(error, IdleError) else kind
    return kind(f"{what} failed", reason=str(error), where=where, hint=_HINTS.get(kind, ""))


_HINTS: dict[type[TransferError], str] = {
    LostError: "plug the device in again; then the next request uses it",
    AccessError: "see fitzroy doctor",
    BusyError: "end the process that uses the device",
}


# --- libusb --------------------------------------------------------------------------------------


def libusb() -> UsbBus:
    """All devices that libusb finds."""
    return UsbBus(system_usb.open_backend, "usb", "libusb", Ownership())


def library() -> str:
    """Which libusb is used, for people.

    Raises:
        LibusbError: none, and why.
    """
    return system_usb.name_of(system_usb.open_backend())
