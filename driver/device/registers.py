"""Registers of an open device, by vendor requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fitzroy.base.errors import DeviceError, FormatError
from fitzroy.driver.device.limits import Limits, Watch
from fitzroy.driver.transports.transport import (
    AccessError,
    BusyError,
    LostError,
    TransactionError,
    TransferError,
    Transport,
)
from fitzroy.hw_models.chips.usb import CsrRequest, RequestType, SetupPacket
from fitzroy.hw_models.csr.register import Register

T = TypeVar("T")

_FINAL = (LostError, AccessError, BusyError)
"""Errors that another attempt does not change."""

_REQUESTS = {32: CsrRequest.ACCESS_32, 64: CsrRequest.ACCESS_64}


class RegisterError(DeviceError):
    """A register does not reach the value that it should, or holds one without a meaning."""


def retried(attempt: Callable[[], T], tries: int) -> T:
    """Repeat something that may be repeated, like the driver's accesses to registers.

    Raises:
        TransferError: that of the last attempt.
    """
    for _ in range(tries - 1):
        try:
            return attempt()
        except _FINAL:
            raise
        except TransferError:
            continue
    return attempt()


def control_in(
    transport: Transport, kind: RequestType, request: int, value: int, index: int, size: int,
    timeout: float,
) -> bytes:  # fmt: skip
    """A request for exactly `size` bytes.

    Raises:
        TransferError: it failed, or fewer bytes came.
    """
    answer = transport.control(SetupPacket(kind, request, value, index, size), timeout=timeout)
    if len(answer) != size:
        raise TransactionError(
            "a control transfer failed",
            reason=f"{len(answer)} of {size} bytes came",
            where=transport.attached.path,
        )
    return answer


class RegisterFile:
    """The registers of an open device.

    Every access may be repeated: reads have no effects, and writes the same one twice.

    Args:
        transport: the device.
        limits: how long to wait.
        watch: ends the accesses as well; None for no other limit than those of each.
    """

    def __init__(self, transport: Transport, limits: Limits, watch: Watch | None = None) -> None:
        self._transport = transport
        self._limits = limits
        self._watch = watch

    def within(self, watch: Watch) -> RegisterFile:
        """The same registers, as long as a watch allows: a device may answer late every time."""
        return RegisterFile(self._transport, self._limits, watch)

    def _check(self, register: Register) -> None:
        if self._watch is not None:
            self._watch.check(f"an access to register {register.name}")

    def read(self, register: Register) -> int:
        """The number in a register.

        Raises:
            TransferError: the access failed, again and again.
            DeadlineError: there is no time for it.
            RequestCancelledError: nobody wants it any more.
        """
        self._check(register)
        data = retried(
            lambda: control_in(
                self._transport,
                RequestType.VENDOR_IN,
                *_place(register),
                register.width // 8,
                self._limits.control,
            ),
            self._limits.control_tries,
        )
        return int.from_bytes(data, "little")

    def write(self, register: Register, value: int) -> None:
        """Write a number to a register.

        Raises:
            DeviceError: as `read`.
        """
        self._check(register)
        size = register.width // 8
        setup = SetupPacket(RequestType.VENDOR_OUT, *_place(register), size)
        data = value.to_bytes(size, "little")
        retried(
            lambda: self._transport.control(setup, data, self._limits.control),
            self._limits.control_tries,
        )

    def change(self, register: Register, **fields: Any) -> None:
        """Write fields of a register, and keep the others.

        Raises:
            TransferError: an access failed, again and again.
        """
        self.write(register, register.changed(self.read(register), **fields))

    def field(self, register: Register, name: str) -> Any:
        """One field of a register.

        Raises:
            TransferError: the access failed, again and again.
            RegisterError: it holds a number without a meaning.
        """
        value = self.read(register)
        try:
            return register.field(value, name)
        except FormatError as error:
            raise RegisterError(
                f"register {register.name} holds {value:#x}",
                reason=error.what,
                where=self._transport.attached.path,
            ) from error

    def poll(self, register: Register, name: str, wanted: Any) -> None:
        """Read a register until a field has a value.

        Raises:
            TransferError: an access failed, again and again.
            RegisterError: it does not get there in time.
        """
        watch = self._limits.watch(self._limits.poll)
        while True:
            value = self.read(register)
            spec = register.layout.field(name)
            if value >> spec.first & (1 << spec.width) - 1 == spec.codec.encode(wanted):
                return
            if watch.left <= 0:
                raise RegisterError(
                    f"{name} of register {register.name} does not become {wanted!r}",
                    reason=f"it holds {value:#x} after {self._limits.poll:g} s",
                    where=self._transport.attached.path,
                    hint="unplug the device and plug it in again",
                )


def _place(register: Register) -> tuple[int, int, int]:
    """bRequest, wValue and wIndex of an access."""
    return _REQUESTS[register.width], register.address & 0xFFFF, register.address >> 16
