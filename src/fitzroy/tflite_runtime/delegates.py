"""Devices by the names that Google's delegate knows, and the delegates that hold them open.

| device | which |
|---|---|
| none, or an empty name | the first that is there |
| ``:N`` | the N-th that is there, counted from 0 |
| ``usb``, ``usb:N`` | the first, or the N-th, on USB |
| ``pci``, ``pci:N`` | none: there is no driver for PCIe |
| ``sim``, ``usb:PATH``, ... | any other name of `execution.devices` |

The environment variable FITZROY_DEVICE, one or more names of `execution.devices` separated by
commas, puts these devices in the place of those on USB: programs find them and choose among them.

Facts: the published delegate and device manager of the Edge TPU runtime.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from fitzroy.base.errors import DeviceError, FitzroyError
from fitzroy.base.installing import install_extra
from fitzroy.driver.device.boards import refuse_pcie
from fitzroy.driver.device.bringup import Clocks
from fitzroy.driver.runtime import litert
from fitzroy.driver.runtime.devices import Device, DeviceOptions
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.transports.usb import libusb
from fitzroy.execution.devices import ENVIRONMENT, open_device
from fitzroy.tflite_runtime.errors import DelegateError

LIBRARY = "libedgetpu.so.1"
"""Name of Google's delegate, which `load_delegate` takes for FitzRoy's."""

_LIBRARY = re.compile(r"(lib)?edgetpu([-.].*)?", re.IGNORECASE)
_NAME = re.compile(r"(usb|pci)?(?::(\d+))?")
_OPTIONS = ("device", "Performance", "Usb.AlwaysDfu", "Usb.MaxBulkInQueueLength")
_LONGEST_QUEUE = 255

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A device that is there.

    Attributes:
        type: ``usb``; what stands in for a device on USB says so, too.
        path: its port, or the name of what stands in for it.
        spec: its name for `open_device`.
    """

    type: str
    path: str
    spec: str


def found_devices() -> tuple[Found, ...]:
    """The devices that programs find, in order.

    Raises:
        DeviceError: there is no access to USB, and FITZROY_DEVICE is not set.
    """
    named = [name for name in os.environ.get(ENVIRONMENT, "").split(",") if name.strip()]
    if named:
        return tuple(Found("usb", name.strip(), name.strip()) for name in named)
    return tuple(Found("usb", one.path, f"usb:{one.path}") for one in libusb().attached())


class _Lease:
    """A device that is open as long as somebody holds this."""

    def __init__(self, device: Device) -> None:
        self.device = device
        weakref.finalize(self, device.close)


_leases: weakref.WeakValueDictionary[tuple[object, ...], _Lease] = weakref.WeakValueDictionary()
_turn = threading.Lock()


class Delegate:
    """An Edge TPU for interpreters; it is closed when neither they nor anybody else has this.

    Delegates of one device in a process share it, with the parameters that it caches.

    Args:
        library: Google's delegate by its file name, such as ``libedgetpu.so.1``; no file is read.
        options: ``device`` is a name of the table above. ``Performance`` is ``Low``, ``Medium``,
            ``High`` or ``Max``; a device that is open already keeps its own. ``Usb.AlwaysDfu`` may
            be ``False`` only. ``Usb.MaxBulkInQueueLength``, 0 to 255, changes nothing here.

    Attributes:
        device: the device, open.

    Raises:
        DelegateError: another library, no such option or device, or the device does not open.
    """

    def __init__(self, library: str, options: Mapping[Any, Any] | None = None) -> None:
        if not is_edgetpu(library):
            raise DelegateError(f"{library!r} is not the delegate of the Edge TPU")
        chosen = {str(key): str(value) for key, value in (options or {}).items()}
        self._lease = _leased(chosen)

    @property
    def device(self) -> Device:
        """The device, open."""
        return self._lease.device


def is_edgetpu(library: str | os.PathLike[str]) -> bool:
    """Whether a library is Google's delegate, by its name."""
    return _LIBRARY.fullmatch(PurePath(os.fspath(library)).name) is not None


def load_delegate(library: str | os.PathLike[str], options: Mapping[Any, Any] | None = None) -> Any:
    """A delegate by the name of its library: FitzRoy's for Google's, others by LiteRT.

    Args:
        library: such as ``libedgetpu.so.1``.
        options: see `Delegate`.

    Raises:
        DelegateError: it cannot be loaded, which is a ValueError, as TFLite raises.
    """
    name = os.fspath(library)
    if not is_edgetpu(name):
        return _foreign(name, options)
    try:
        return Delegate(name, options)
    except FitzroyError as error:
        raise DelegateError(
            f"Failed to load delegate from {name}\n{error.what}",
            reason=error.reason,
            where=error.where,
            hint=error.hint,
        ) from error


def _foreign(name: str, options: Mapping[Any, Any] | None) -> Any:
    """A delegate of others."""
    if not litert.available():
        raise DelegateError(
            f"Failed to load delegate from {name}",
            reason="LiteRT is not installed, which alone loads delegates of others",
            hint=install_extra("litert"),
        )
    from ai_edge_litert.interpreter import load_delegate as load

    return load(name, dict(options or {}))


def _leased(options: Mapping[str, str]) -> _Lease:
    """The device that options choose, opened by the first who asks."""
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise DelegateError(
            f"there is no option {unknown[0][:80]!r}", reason=f"there are {', '.join(_OPTIONS)}"
        )
    how = DeviceOptions(clocks=_clocks(options))
    _check_usb(options)
    spec, number = _chosen(options.get("device", ""))
    with _turn:
        lease = _leases.get((spec, number))
        if lease is None:
            device = open_device(spec, how)
            lease = _Lease(device)
            if isinstance(device, EdgeTpu):
                device.open()
            _log.info("opened %s", device.description)
            _leases[spec, number] = lease
    return lease


def _chosen(name: str) -> tuple[str, int]:
    """A device by a name of the table above: its name for `open_device`, and its number.

    Raises:
        DelegateError: there is no such device.
        DeviceError: there is no access to USB.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return name, 0
    kind, digits = match.groups()
    if kind == "pci":
        refusal = refuse_pcie(name)
        raise DelegateError(refusal.what, hint=refusal.hint)
    found, number = found_devices(), int(digits or 0)
    if number >= len(found):
        raise DelegateError(
            f"there is no device {name!r}" if name else "there is no Edge TPU",
            reason=f"{len(found)} are attached",
            hint=f"see fitzroy doctor; with {ENVIRONMENT}=sim there is a simulated one",
        )
    return found[number].spec, number if os.environ.get(ENVIRONMENT) else 0


def _clocks(options: Mapping[str, str]) -> Clocks:
    level = options.get("Performance", "Max")
    if level.upper() not in Clocks.__members__:
        known = ", ".join(name.capitalize() for name in Clocks.__members__)
        raise DelegateError(f"Performance cannot be {level[:80]!r}", reason=f"there are {known}")
    return Clocks[level.upper()]


def _check_usb(options: Mapping[str, str]) -> None:
    if options.get("Usb.AlwaysDfu", "False") != "False":
        raise DelegateError(
            "Usb.AlwaysDfu can only be False",
            reason="an accelerator is given its firmware when it has none",
        )
    length = options.get("Usb.MaxBulkInQueueLength", "0")
    if not (length.isascii() and length.isdigit() and int(length[:9]) <= _LONGEST_QUEUE):
        raise DelegateError(
            f"Usb.MaxBulkInQueueLength cannot be {length[:80]!r}",
            reason=f"it is a number from 0 to {_LONGEST_QUEUE}",
        )


def listed_devices() -> list[dict[str, str]]:
    """The devices that programs find; none without access to USB."""
    try:
        return [{"type": item.type, "path": item.path} for item in found_devices()]
    except DeviceError as error:
        _log.info("no access to USB: %s", error)
        return []
