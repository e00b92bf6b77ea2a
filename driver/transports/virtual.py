"""Virtual devices behind the interface of pyusb: ``usb.core.find(backend=VirtualBackend([...]))``.

What works on it works on hardware, and the other way round: errors are those of libusb on Linux.
The operating system's part, which sets the only configuration of a device that appears, is here.
"""

from __future__ import annotations

import errno
import os
import threading
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import usb.core
from usb.backend import IBackend

from fitzroy.base.bits import Record
from fitzroy.base.clock import SYSTEM_CLOCK, Clock
from fitzroy.base.errors import FormatError
from fitzroy.driver.transports.usb import IdleError
from fitzroy.driver.transports.virtual_outgoing import Posted, VirtualOutgoing
from fitzroy.hw_models.chips.usb import (
    ENDPOINT_HALT,
    ConfigurationDescriptor,
    DescriptorType,
    DeviceDescriptor,
    EndpointDescriptor,
    InterfaceDescriptor,
    RequestType,
    SetupPacket,
    Speed,
    StandardRequest,
    parts,
)
from fitzroy.hw_models.usb_device.transfer import Status, Transfer, UsbDevice

_BUS = 1
_SPEEDS = {Speed.HIGH: 3, Speed.SUPER: 4}
"""Numbers of libusb."""

_CONTROL_MS = 1_000
"""Time limit of requests that the operating system makes."""

_FAILURES = {
    Status.STALL: (errno.EPIPE, -9),
    Status.OVERFLOW: (errno.EOVERFLOW, -8),
    Status.ERROR: (errno.EIO, -1),
    Status.NO_DEVICE: (errno.ENODEV, -4),
    Status.CANCELLED: (errno.ETIMEDOUT, -7),
}
"""Errors of the system and of libusb."""

_BUSY = (errno.EBUSY, -6)
_NOT_FOUND = (errno.ENOENT, -5)
_NO_DEVICE = _FAILURES[Status.NO_DEVICE]

_HEAD = {"length": "bLength", "type": "bDescriptorType"}
_NAMES: dict[type[Record], dict[str, str]] = {
    DeviceDescriptor: _HEAD
    | {
        "usb_version": "bcdUSB",
        "device_class": "bDeviceClass",
        "device_subclass": "bDeviceSubClass",
        "device_protocol": "bDeviceProtocol",
        "max_packet": "bMaxPacketSize0",
        "vendor": "idVendor",
        "product": "idProduct",
        "device_version": "bcdDevice",
        "configurations": "bNumConfigurations",
    },
    ConfigurationDescriptor: _HEAD
    | {
        "total_length": "wTotalLength",
        "interfaces": "bNumInterfaces",
        "value": "bConfigurationValue",
        "string": "iConfiguration",
        "attributes": "bmAttributes",
        "max_power": "bMaxPower",
    },
    InterfaceDescriptor: _HEAD
    | {
        "number": "bInterfaceNumber",
        "alternate": "bAlternateSetting",
        "endpoints": "bNumEndpoints",
        "interface_class": "bInterfaceClass",
        "subclass": "bInterfaceSubClass",
        "protocol": "bInterfaceProtocol",
        "string": "iInterface",
    },
    EndpointDescriptor: _HEAD
    | {
        "address": "bEndpointAddress",
        "transfer": "bmAttributes",
        "max_packet": "wMaxPacketSize",
        "interval": "bInterval",
    },
}
"""Names of the USB specification, which pyusb uses, for the fields of descriptors."""


@dataclass(eq=False)
class _Port:
    """A port with the device in it, and its descriptors as they were when it appeared."""

    device: UsbDevice
    number: int
    generation: int = 0
    address: int = 0
    descriptors: tuple[bytes, bytes] = (b"", b"")
    owners: dict[int, _Handle] = field(default_factory=dict)


@dataclass(frozen=True)
class _Id:
    """A device as enumerated; another one after it has re-enumerated."""

    port: _Port
    address: int


@dataclass(eq=False)
class _Handle:
    """An open device."""

    id: _Id
    open: bool = True


class VirtualBackend(IBackend):  # type: ignore[misc]
    """Devices on the ports of one bus, the first one on port 1.

    Args:
        devices: devices, plugged in or not.
        clock: what the time limits of transfers go by.
    """

    def __init__(self, devices: Sequence[UsbDevice], clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._ports = [_Port(device, number) for number, device in enumerate(devices, start=1)]
        self._lock = threading.RLock()
        self._addresses = 0

    # --- enumeration -----------------------------------------------------------------------------

    def enumerate_devices(self) -> Iterator[_Id]:
        """The devices that are plugged in."""
        with self._lock:
            found = [self._enumerated(port) for port in self._ports if port.device.connected]
            return iter([dev for dev in found if _acceptable(*dev.port.descriptors)])

    def get_parent(self, dev: _Id) -> None:
        """No device is on a hub."""

    def get_device_descriptor(self, dev: _Id) -> Any:
        """Device descriptor, with bus, address, port and speed."""
        # Systems read no more than that, however much there is.
        data = dev.port.descriptors[0][: DeviceDescriptor.width // 8]
        found = _named(data, DeviceDescriptor)
        strings = DeviceDescriptor.unpack(int.from_bytes(data, "little")).strings
        found.iManufacturer, found.iProduct, found.iSerialNumber = strings
        found.bus = _BUS
        found.address = dev.address
        found.port_number = dev.port.number
        found.port_numbers = (dev.port.number,)
        found.speed = _SPEEDS[dev.port.device.speed]
        return found

    def get_configuration_descriptor(self, dev: _Id, config: int) -> Any:
        """Configuration descriptor by index; others that belong to it are `extra_descriptors`."""
        head, extra, _ = _tree(dev)
        if config:
            raise IndexError(f"no configuration {config}")
        head.extra_descriptors = extra
        return head

    def get_interface_descriptor(self, dev: _Id, intf: int, alt: int, config: int) -> Any:
        """Interface descriptor by index."""
        interfaces = _tree(dev)[2]
        if config or alt or not 0 <= intf < len(interfaces):
            raise IndexError(f"no interface {intf}, alternate setting {alt}")
        return interfaces[intf][0]

    def get_endpoint_descriptor(self, dev: _Id, ep: int, intf: int, alt: int, config: int) -> Any:
        """Endpoint descriptor by index."""
        interfaces = _tree(dev)[2]
        if config or alt or not 0 <= intf < len(interfaces):
            raise IndexError(f"no interface {intf}, alternate setting {alt}")
        endpoints = interfaces[intf][1]
        if not 0 <= ep < len(endpoints):
            raise IndexError(f"no endpoint {ep}")
        return endpoints[ep]

    def _enumerated(self, port: _Port) -> _Id:
        if port.generation != port.device.generation:
            self._addresses += 1
            port.generation, port.address = port.device.generation, self._addresses
            port.owners.clear()
            port.descriptors = port.device.descriptors()
            if _acceptable(*port.descriptors):
                self._configure(port)
        return _Id(port, port.address)

    def _configure(self, port: _Port) -> None:
        """What the operating system does with a device that appears or was reset."""
        setup = SetupPacket(RequestType.STANDARD_OUT, StandardRequest.SET_CONFIGURATION, value=1)
        self._wait(port.device, Transfer(0, setup), _CONTROL_MS)

    # --- handles ---------------------------------------------------------------------------------

    def open_device(self, dev: _Id) -> _Handle:
        """Open a device."""
        handle = _Handle(dev)
        self._device(handle)
        return handle

    def close_device(self, dev_handle: _Handle) -> None:
        """Close a device; its interfaces are released."""
        with self._lock:
            dev_handle.open = False
            owners = dev_handle.id.port.owners
            for number in [n for n, owner in owners.items() if owner is dev_handle]:
                del owners[number]

    def _device(self, handle: _Handle) -> UsbDevice:
        """The device behind a handle.

        Raises:
            USBError: it is gone, or has become another one.
        """
        with self._lock:
            port = handle.id.port
            if not handle.open or not port.device.connected:
                raise _error(_NO_DEVICE)
            if self._enumerated(port) != handle.id:
                raise _error(_NO_DEVICE)
            return port.device

    def set_configuration(self, dev_handle: _Handle, config_value: int) -> None:
        """Set the configuration."""
        self._request(
            dev_handle, RequestType.STANDARD_OUT, StandardRequest.SET_CONFIGURATION, config_value
        )

    def get_configuration(self, dev_handle: _Handle) -> int:
        """The configuration that is set."""
        data = array("B", bytes(1))
        self._transfer_control(
            dev_handle,
            SetupPacket(RequestType.STANDARD_IN, StandardRequest.GET_CONFIGURATION, length=1),
            data,
            _CONTROL_MS,
        )
        return int(data[0])

    def set_interface_altsetting(self, dev_handle: _Handle, intf: int, altsetting: int) -> None:
        """Set an alternate setting."""
        self._request(
            dev_handle,
            RequestType.STANDARD_INTERFACE_OUT,
            StandardRequest.SET_INTERFACE,
            altsetting,
            intf,
        )

    def claim_interface(self, dev_handle: _Handle, intf: int) -> None:
        """Claim an interface.

        Raises:
            USBError: another handle has it, or there is none.
        """
        self._device(dev_handle)
        with self._lock:
            if not 0 <= intf < len(_tree(dev_handle.id)[2]):
                raise _error(_NOT_FOUND)
            if dev_handle.id.port.owners.setdefault(intf, dev_handle) is not dev_handle:
                raise _error(_BUSY)

    def release_interface(self, dev_handle: _Handle, intf: int) -> None:
        """Release an interface.

        Raises:
            USBError: the handle has not claimed it.
        """
        self._device(dev_handle)
        with self._lock:
            owners = dev_handle.id.port.owners
            if owners.get(intf) is not dev_handle:
                raise _error(_NOT_FOUND)
            del owners[intf]

    def clear_halt(self, dev_handle: _Handle, ep: int) -> None:
        """Clear the halt of an endpoint."""
        self._request(
            dev_handle,
            RequestType.STANDARD_ENDPOINT_OUT,
            StandardRequest.CLEAR_FEATURE,
            ENDPOINT_HALT,
            ep,
        )

    def reset_device(self, dev_handle: _Handle) -> None:
        """Reset the port.

        Raises:
            USBError: the device has re-enumerated with other descriptors, and must be found again.
        """
        device = self._device(dev_handle)
        device.reset()
        with self._lock:
            if device.generation != dev_handle.id.port.generation:
                raise _error(_NOT_FOUND)
            self._configure(dev_handle.id.port)

    def is_kernel_driver_active(self, dev_handle: _Handle, intf: int) -> bool:
        """No driver of the operating system is bound to a device."""
        return False

    def detach_kernel_driver(self, dev_handle: _Handle, intf: int) -> None:
        """Nothing to detach.

        Raises:
            USBError: always.
        """
        raise _error(_NOT_FOUND)

    def attach_kernel_driver(self, dev_handle: _Handle, intf: int) -> None:
        """Nothing to attach.

        Raises:
            USBError: always.
        """
        raise _error(_NOT_FOUND)

    # --- transfers -------------------------------------------------------------------------------

    def bulk_write(
        self, dev_handle: _Handle, ep: int, intf: int, data: array[int], timeout: int
    ) -> int:
        """Send bytes; how many were taken."""
        device = self._owned(dev_handle, intf)
        transfer = Transfer(ep, data=data.tobytes())
        self._finish(device, transfer, timeout)
        return transfer.sent

    def bulk_read(
        self, dev_handle: _Handle, ep: int, intf: int, buff: array[int], timeout: int
    ) -> int:
        """Receive bytes into a buffer; how many came."""
        device = self._owned(dev_handle, intf)
        transfer = Transfer(ep, length=len(buff) * buff.itemsize)
        self._finish(device, transfer, timeout)
        return _fill(buff, transfer.received)

    def outgoing(self, dev_handle: _Handle) -> VirtualOutgoing:
        """What posts transfers to an open device."""
        return VirtualOutgoing(partial(self._start, dev_handle), self._ends)

    def _start(self, dev_handle: _Handle, ep: int, data: bytes) -> Posted:
        """Start to send bytes.

        Raises:
            USBError: the device is gone, or not claimed.
        """
        device = self._owned(dev_handle, 0)
        posted = Posted(device, Transfer(ep, data=data))
        posted.transfer.done = lambda _: posted.ended.set()
        device.submit(posted.transfer)
        return posted

    def _ends(self, posted: Posted, seconds: float) -> bool:
        """Whether a transfer ends in so many seconds."""
        return self._clock.wait(posted.ended, seconds)

    intr_write = bulk_write
    intr_read = bulk_read

    def ctrl_transfer(
        self,
        dev_handle: _Handle,
        bmRequestType: int,  # noqa: N803
        bRequest: int,  # noqa: N803
        wValue: int,  # noqa: N803
        wIndex: int,  # noqa: N803
        data: array[int],
        timeout: int,
    ) -> int:
        """A control transfer; how many bytes went or came."""
        size = len(data) * data.itemsize
        setup = SetupPacket(bmRequestType, bRequest, wValue, wIndex, size)
        return self._transfer_control(dev_handle, setup, data, timeout)

    def _request(
        self,
        handle: _Handle,
        request_type: RequestType,
        request: StandardRequest,
        value: int = 0,
        index: int = 0,
    ) -> None:
        setup = SetupPacket(request_type, request, value, index)
        self._transfer_control(handle, setup, array("B"), _CONTROL_MS)

    def _transfer_control(
        self, handle: _Handle, setup: SetupPacket, data: array[int], timeout: int
    ) -> int:
        device = self._device(handle)
        transfer = Transfer(0, setup, length=setup.length)
        if not transfer.inward:
            transfer.data = data.tobytes()
        self._finish(device, transfer, timeout)
        return _fill(data, transfer.received) if transfer.inward else transfer.sent

    def _owned(self, handle: _Handle, interface: int) -> UsbDevice:
        device = self._device(handle)
        with self._lock:
            if handle.id.port.owners.get(interface) is not handle:
                raise _error(_NOT_FOUND)
        return device

    def _finish(self, device: UsbDevice, transfer: Transfer, timeout: int) -> None:
        """Carry out a transfer.

        Raises:
            USBError: it failed, or no byte came or went in time.
        """
        status, idle = self._wait(device, transfer, timeout)
        if status is Status.OK:
            return
        # As libusb does for pyusb: what came in time counts.
        if status is Status.CANCELLED and (transfer.sent or transfer.received):
            return
        if idle:
            number, libusb = _FAILURES[Status.CANCELLED]
            raise IdleError(os.strerror(number), libusb, number)
        raise _error(_FAILURES[status])

    def _wait(self, device: UsbDevice, transfer: Transfer, timeout: int) -> tuple[Status, bool]:
        """Submit a transfer, wait for its end, and cancel it if it takes too long.

        Args:
            device: the device.
            transfer: the transfer.
            timeout: most time to wait, in milliseconds; 0 for ever.

        Returns:
            How it ended, and whether it took too long because the device waits for the host.
        """
        ended = threading.Event()
        transfer.done = lambda _: ended.set()
        device.submit(transfer)
        idle = False
        if not self._clock.wait(ended, timeout / 1000 if timeout else None):
            idle = device.idle
            device.cancel(transfer)
            ended.wait()
        status = transfer.status or Status.ERROR
        return status, idle and status is Status.CANCELLED


def _error(code: tuple[int, int]) -> Exception:
    number, libusb = code
    kind = usb.core.USBTimeoutError if number == errno.ETIMEDOUT else usb.core.USBError
    error: Exception = kind(os.strerror(number), libusb, number)
    return error


def _fill(buffer: array[int], data: bytes) -> int:
    memoryview(buffer).cast("B")[: len(data)] = data
    return len(data)


def _named(data: bytes, record: type[Record]) -> SimpleNamespace:
    """The fields of a descriptor by the names of the USB specification."""
    raw = int.from_bytes(data, "little")
    found = SimpleNamespace(extra_descriptors=b"")
    for name, usb_name in _NAMES[record].items():
        field = record.field(name)
        setattr(found, usb_name, raw >> field.first & (1 << field.width) - 1)
    return found


_Interface = tuple[SimpleNamespace, list[SimpleNamespace]]
"""The descriptor of an interface, and those of its endpoints."""


def _acceptable(data: bytes, configuration: bytes) -> bool:
    """Whether an operating system enumerates a device with such descriptors.

    Linux gives up a device whose device descriptor, or the head of whose configuration, it cannot
    read (drivers/usb/core/config.c); what follows that head is not looked at before it is used.
    """
    return all(
        len(part) >= size and part[:2] == bytes([size, kind])
        for part, size, kind in (
            (data, DeviceDescriptor.width // 8, DescriptorType.DEVICE),
            (configuration, ConfigurationDescriptor.width // 8, DescriptorType.CONFIGURATION),
        )
    )


def _tree(dev: _Id) -> tuple[SimpleNamespace, bytes, list[_Interface]]:
    """A configuration: its descriptor, extra descriptors, interfaces with their endpoints.

    Raises:
        USBError: it is malformed, as libusb says it.
    """
    try:
        return _parsed(dev.port.descriptors[1])
    except FormatError:
        raise _error(_FAILURES[Status.ERROR]) from None


def _parsed(data: bytes) -> tuple[SimpleNamespace, bytes, list[_Interface]]:
    """See `_tree`.

    Raises:
        FormatError: a length that leads nowhere, or an endpoint without an interface.
    """
    head = last = _named(data, ConfigurationDescriptor)
    interfaces: list[_Interface] = []
    for part in parts(data)[1:]:
        match part[1]:
            case DescriptorType.INTERFACE:
                last = _named(part, InterfaceDescriptor)
                interfaces.append((last, []))
            case DescriptorType.ENDPOINT if not interfaces:
                raise FormatError("an endpoint without an interface")
            case DescriptorType.ENDPOINT:
                last = _named(part, EndpointDescriptor)
                # Members that descriptors of audio devices have.
                last.bRefresh = last.bSynchAddress = 0
                interfaces[-1][1].append(last)
            case _:
                last.extra_descriptors += part
    return head, head.extra_descriptors, interfaces
