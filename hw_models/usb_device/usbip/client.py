"""Asks a USB/IP server what it serves. To attach a device is up to the kernel of the client."""

from __future__ import annotations

import socket

from fitzroy.base.errors import DeviceError
from fitzroy.hw_models.usb_device.usbip.messages import (
    PORT,
    DeviceEntry,
    InterfaceEntry,
    OpHeader,
    read_list,
)

_SECONDS = 10.0


def list_devices(host: str, port: int = PORT) -> list[tuple[DeviceEntry, list[InterfaceEntry]]]:
    """Devices of a server that nobody has imported, with their interfaces.

    Raises:
        DeviceError: the server cannot be reached, or breaks off.
        FormatError: its answer is not that of a USB/IP server.
    """
    try:
        with (
            socket.create_connection((host, port), _SECONDS) as connection,
            connection.makefile("rb") as stream,
        ):
            connection.sendall(OpHeader().pack())
            return read_list(stream)
    except OSError as error:
        raise DeviceError(
            "the USB/IP server does not answer",
            reason=error.strerror or str(error),
            where=f"{host}:{port}",
            hint="start one with: fitzroy usbip serve, or usbipd",
        ) from error
