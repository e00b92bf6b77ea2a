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
from fitzroy.hw_models.usb_device.usbip.stream import SocketStream

_SECONDS = 5.0
"""How long a list may take in all, however its bytes come."""


def list_devices(host: str, port: int = PORT) -> list[tuple[DeviceEntry, list[InterfaceEntry]]]:
    """Devices of a server that nobody has imported, with their interfaces.

    Raises:
        DeviceError: the server cannot be reached, breaks off, or takes too long.
        FormatError: its answer is not that of a USB/IP server, or offers too many devices.
    """
    try:
        with (
            socket.create_connection((host, port), _SECONDS) as connection,
            SocketStream(connection, _SECONDS) as stream,
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
