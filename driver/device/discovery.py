"""Which devices there are."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.errors import DeviceError
from fitzroy.driver.device.connection import in_boot_mode
from fitzroy.driver.transports.transport import Attached, Bus
from fitzroy.hw_models.chips.usb import Speed


@dataclass(frozen=True, slots=True)
class Found:
    """A device that can be opened.

    Attributes:
        name: what to open it by, as in ``usb:2-1``.
        port: bus and ports; devices have no serial numbers. Empty for simulators without USB.
        mode: ``boot``, ``run``, or ``simulated``.
        speed: speed of its connection, for people.
        needs_firmware: whether it has to be given its firmware first.
        text: what it is, for people.
    """

    name: str
    port: str
    mode: str
    speed: str
    needs_firmware: bool
    text: str


SIMULATORS = (
    Found("sim", "", "simulated", "super", False, "virtual USB accelerator with a simulated chip"),
    Found("sim:direct", "", "simulated", "", False, "simulated chip without USB"),
)
"""Devices that are always there."""

_SPEEDS = {Speed.SUPER: "super", Speed.HIGH: "high", None: "other"}


def found(bus: Bus) -> tuple[Found, ...]:
    """The devices on a bus.

    Raises:
        DeviceError: there is no access to USB at all.
    """
    return tuple(_described(bus, one) for one in bus.attached())


def _described(bus: Bus, one: Attached) -> Found:
    boot = in_boot_mode(one)
    text = "Coral USB Accelerator" + (", waiting for its firmware" if boot else "")
    mode = "boot" if boot else "run"
    return Found(f"{bus.name}:{one.path}", one.path, mode, _SPEEDS[one.speed], boot, text)


def choose(bus: Bus, path: str = "") -> Attached:
    """The device on a port, or the only one.

    Args:
        bus: where to look.
        path: bus and ports, empty for the only device.

    Raises:
        DeviceError: there is none, or there are several.
    """
    devices = bus.attached()
    names = ", ".join(f"{bus.name}:{one.path}" for one in devices)
    chosen = [one for one in devices if one.path == path] if path else list(devices)
    if not chosen:
        raise DeviceError(
            f"no Edge TPU at {bus.name}:{path}" if path else "no Edge TPU is attached",
            reason=f"there are {names}" if names else "",
            hint="see fitzroy devices and fitzroy doctor",
        )
    if len(chosen) > 1:
        raise DeviceError(
            f"{len(chosen)} Edge TPUs are attached",
            reason=names,
            hint=f"name one, as in {bus.name}:{chosen[0].path}",
        )
    return chosen[0]
