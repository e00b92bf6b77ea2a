"""The firmware of the microcontroller: where to get it, and how to load it into the boot ROM.

The firmware is Google's, and not part of this project: it comes from a file, or out of an
installed libedgetpu, which carries it as plain bytes. Known images are recognized by their content.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fitzroy.base.errors import DeviceError, FormatError
from fitzroy.base.files import read_file
from fitzroy.driver.device.limits import Limits, Watch
from fitzroy.driver.device.registers import control_in, retried
from fitzroy.driver.transports.transport import LostError, TransferError, Transport
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import (
    DescriptorType,
    DfuDescriptor,
    DfuRequest,
    DfuState,
    DfuStatus,
    InterfaceDescriptor,
    RequestType,
    SetupPacket,
    Speed,
    StandardRequest,
    device_descriptor,
    parts,
    to_bytes,
)

VARIABLE = "FITZROY_FIRMWARE"
"""Environment variable that names a file with the firmware, or a libedgetpu."""

_LARGEST = 32 << 10
"""Memory of the microcontroller for its program."""

_JUMP = 0x02
"""LJMP of the 8051, with which its programs begin."""

_DESCRIPTOR = to_bytes(device_descriptor(BEAGLE.usb.runtime, Speed.SUPER))
_CONFIGURATION_BYTES = 521
"""How much of the configuration the published driver asks for."""

_STATUS_BYTES = DfuStatus.width // 8


class FirmwareError(DeviceError):
    """There is no firmware, or it did not get into the device."""


@dataclass(frozen=True, slots=True)
class Image:
    """A known image.

    Attributes:
        name: what it is for.
        size: its bytes.
        descriptor: where the device descriptor lies in it.
        sha256: digest of the whole image.
        multiple: whether each kind of data has an endpoint of its own.
    """

    name: str
    size: int
    descriptor: int
    sha256: str
    multiple: bool


IMAGES = (
    Image(
        "single endpoint",
        10_783,
        6_416,
        "3b07311b174b81fd14fd2c887f40d646c0ebf2f140cc5ee5cf8befa0f3e3dc7f",
        multiple=False,
    ),
    Image(
        "multiple endpoints",
        12_117,
        7_750,
        "f95e0b348e3a38e1191ec81baa80c7c3c331556da6ca8be59c01d66769c3c415",
        multiple=True,
    ),
)
"""Images of libedgetpu, all published versions of it."""

_NAMES = ("libedgetpu.so.1", "libedgetpu.so.1.0", "libedgetpu.1.dylib", "edgetpu.dll")
_FOLDERS = (
    "/usr/lib",
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib/*-linux-gnu",
    "/opt/homebrew/lib",
    "/opt/local/lib",
    "C:/Windows/System32",
)


@dataclass(frozen=True, slots=True)
class Firmware:
    """A firmware image.

    Attributes:
        data: the image.
        origin: where it is from, for people.
        multiple: whether it is for multiple endpoints; None if it is not a known image.
    """

    data: bytes
    origin: str
    multiple: bool | None = False


# --- where it is ---------------------------------------------------------------------------------


def images_in(data: bytes) -> Iterator[tuple[Image, bytes]]:
    """The known images that lie somewhere in a file, verified by their digests."""
    at = data.find(_DESCRIPTOR)
    while at >= 0:
        for image in IMAGES:
            first = at - image.descriptor
            found = data[first : first + image.size] if first >= 0 else b""
            if hashlib.sha256(found).hexdigest() == image.sha256:
                yield image, bytes(found)
        at = data.find(_DESCRIPTOR, at + 1)


def from_file(path: str | os.PathLike[str], *, multiple: bool = False) -> Firmware:
    """The firmware in a file: an image, or a libedgetpu.

    Args:
        path: the file.
        multiple: which of the known images to take where there are several.

    Raises:
        UsageError: the file cannot be read.
        FirmwareError: there is none in it.
    """
    data = read_file(path)
    for image, content in images_in(data):
        if image.multiple == multiple or len(data) == image.size:
            return Firmware(content, f"{os.fspath(path)} ({image.name})", image.multiple)
    # A version that nobody has seen yet still has to be a program of this device.
    if len(data) <= _LARGEST and data[:1] == bytes([_JUMP]) and _DESCRIPTOR in data:
        return Firmware(data, f"{os.fspath(path)} (unknown version)", None)
    raise FirmwareError(
        "the file holds no firmware of the Edge TPU",
        reason=f"none of {len(IMAGES)} known images is in its {len(data)} bytes",
        where=os.fspath(path),
        hint="give the image, or a libedgetpu of Google that holds it",
    )


def libraries(folders: Sequence[str] = _FOLDERS) -> list[Path]:
    """Installed libedgetpu, in the places where systems and installers put it."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    found: list[Path] = []
    for folder in (*filter(None, named), *folders):
        root = Path(folder).anchor
        places = Path(root or ".").glob(folder[len(root) :]) if "*" in folder else [Path(folder)]
        found += [place / name for place in places for name in _NAMES]
    return list(dict.fromkeys(path.resolve() for path in found if path.is_file()))


def find(path: str | os.PathLike[str] | None = None, *, multiple: bool = False) -> Firmware:
    """The firmware: from a file, the environment, or an installed libedgetpu, in this order.

    Args:
        path: a file with the image, or a libedgetpu.
        multiple: whether each kind of data is to have an endpoint of its own.

    Raises:
        UsageError: the file cannot be read.
        FirmwareError: there is none.
    """
    named = path or os.environ.get(VARIABLE)
    if named:
        return from_file(named, multiple=multiple)
    tried = libraries()
    for library in tried:
        try:
            return from_file(library, multiple=multiple)
        except FirmwareError:
            continue
    places = ", ".join(map(str, tried))
    raise FirmwareError(
        "the device needs its firmware",
        reason=f"none is in {places}" if tried else "no libedgetpu is installed",
        hint=f"install Google's {_package()}, or name a file with {VARIABLE} or --firmware",
    )


def _package() -> str:
    return "libedgetpu1-std" if sys.platform == "linux" else "Edge TPU runtime"


# --- how to load it ------------------------------------------------------------------------------


class Dfu:
    """The boot ROM of an open device: device firmware upgrade, as in USB DFU 1.1.

    Args:
        transport: the device, in boot mode.
        limits: how long to wait.
        watch: ends the download.
    """

    def __init__(self, transport: Transport, limits: Limits, watch: Watch) -> None:
        self._transport = transport
        self._limits = limits
        self._watch = watch
        self._interface = 0
        self._block = BEAGLE.usb.dfu_block

    def load(self, firmware: bytes) -> None:
        """Download an image, read it back, and compare.

        Raises:
            FirmwareError: the device does not take it.
            TransferError: the device is gone, or does not say how it takes firmware.
            DeadlineError: there is no time for it.
            RequestCancelledError: nobody wants it any more.
        """
        self._look()
        self._transport.claim()
        failure: DeviceError | None = None
        for _ in range(self._limits.boot_tries):
            try:
                if failure is not None:
                    self._start_anew()
                self._download(firmware)
                self._verify(firmware)
                return
            except LostError:
                raise
            except (TransferError, FirmwareError) as error:
                failure = error
        raise FirmwareError(
            "the firmware cannot be loaded",
            reason=f"{failure}, {self._limits.boot_tries} times",
            where=self._transport.attached.path,
            hint="unplug the device and plug it in again; try another port or cable",
        ) from failure

    def _look(self) -> None:
        """Find the interface, and the size of a block."""
        setup = SetupPacket(
            RequestType.STANDARD_IN,
            StandardRequest.GET_DESCRIPTOR,
            DescriptorType.CONFIGURATION << 8,
            0,
            _CONFIGURATION_BYTES,
        )

        def read() -> None:
            data = self._transport.control(setup, timeout=self._limits.control)
            identity = BEAGLE.usb.boot
            interface: InterfaceDescriptor | None = None
            try:
                for part in parts(data):
                    number = int.from_bytes(part, "little")
                    if part[1] == DescriptorType.INTERFACE:
                        interface = InterfaceDescriptor.unpack(number)
                    elif part[1] == DescriptorType.DFU and interface is not None:
                        wanted = identity.interface_class, identity.interface_subclass
                        if (interface.interface_class, interface.subclass) == wanted:
                            self._interface = interface.number
                            self._block = self._block_of(DfuDescriptor.unpack(number))
                            return
            except FormatError as error:
                raise TransferError("a malformed descriptor", reason=error.what) from error
            raise TransferError(
                "the device has no interface for firmware", where=self._transport.attached.path
            )

        retried(read, self._limits.control_tries)

    def _block_of(self, function: DfuDescriptor) -> int:
        """Size of a block.

        Raises:
            TransferError: no download can be made of such blocks.
        """
        if not function.transfer_size:
            raise TransferError(
                "the device takes firmware in blocks of 0 bytes",
                where=self._transport.attached.path,
                hint="unplug the device and plug it in again",
            )
        return function.transfer_size

    def _download(self, firmware: bytes) -> None:
        blocks = range(0, len(firmware), self._block)
        for number, first in enumerate(blocks):
            self._send(DfuRequest.DOWNLOAD, number, firmware[first : first + self._block])
            self._demand(DfuState.DOWNLOAD_IDLE)
        self._send(DfuRequest.DOWNLOAD, len(blocks))
        self._demand(DfuState.IDLE)

    def _verify(self, firmware: bytes) -> None:
        held = bytearray()
        # The boot ROM returns all of its memory; a short block is its end.
        for number in range(_LARGEST // self._block + 1):
            setup = SetupPacket(
                RequestType.CLASS_IN, DfuRequest.UPLOAD, number, self._interface, self._block
            )
            part = self._control(setup)
            held += part
            if len(part) < self._block:
                break
        if held[: len(firmware)] != firmware:
            raise FirmwareError("the device holds other bytes than were sent")

    def _status(self) -> DfuStatus:
        data = control_in(
            self._transport,
            RequestType.CLASS_IN,
            DfuRequest.GET_STATUS,
            0,
            self._interface,
            _STATUS_BYTES,
            self._limits.control,
        )
        try:
            return DfuStatus.unpack(int.from_bytes(data, "little"))
        except FormatError as error:
            raise FirmwareError("a malformed status", reason=error.what) from error

    def _demand(self, state: DfuState) -> None:
        status = self._status()
        if status.status or status.state is not state:
            raise FirmwareError(
                "the boot ROM refuses a block",
                reason=f"status {status.status}, state {status.state.name}, not {state.name}",
            )

    def _start_anew(self) -> None:
        """Lead the boot ROM back to where a download begins."""
        ways: dict[bool, Callable[[], None]] = {
            True: lambda: self._send(DfuRequest.CLEAR_STATUS),
            False: lambda: self._send(DfuRequest.ABORT),
        }
        for _ in range(len(ways) + 1):
            state = self._status().state
            if state is DfuState.IDLE:
                return
            ways[state is DfuState.ERROR]()

    def _send(self, request: DfuRequest, value: int = 0, data: bytes = b"") -> None:
        setup = SetupPacket(RequestType.CLASS_OUT, request, value, self._interface, len(data))
        self._control(setup, data)

    def _control(self, setup: SetupPacket, data: bytes = b"") -> bytes:
        """A control transfer, if there is time for it."""
        self._watch.check("the download of the firmware")
        return self._transport.control(setup, data, self._limits.control)
