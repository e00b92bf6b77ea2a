"""Is everything there that a device needs: one check after the other, each with advice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum

from fitzroy.base.errors import FitzroyError, UsageError
from fitzroy.driver.device import boards
from fitzroy.driver.device import firmware as firmware_sources
from fitzroy.driver.device.discovery import Found, found
from fitzroy.driver.device.permissions import RULES_FILE, advice, installed_rules
from fitzroy.driver.runtime import selftest
from fitzroy.driver.runtime.devices import DeviceOptions, usb_device, virtual_device
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.transports.ownership import Ownership
from fitzroy.driver.transports.transport import Bus, BusyError, TransferError
from fitzroy.driver.transports.usb import library, libusb


class Verdict(Enum):
    """How a check ended; the value is the text for people."""

    GOOD = "ok"
    NOTE = "note"
    BAD = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """A check and what it found.

    Attributes:
        name: what was looked at.
        verdict: how it ended.
        text: what was found.
        hint: what to do about it.
        device: name of the device, empty for the machine.
    """

    name: str
    verdict: Verdict
    text: str
    hint: str = ""
    device: str = ""


def examine(name: str = "", options: DeviceOptions | None = None) -> Iterator[Check]:
    """Check the machine and its devices.

    Args:
        name: a device as in ``usb:2-1``, or ``sim``; empty for all accelerators, and for the
            virtual one if there are none.
        options: how to use them.

    Raises:
        UsageError: no device has such a name.
    """
    if name not in ("", "sim", "usb") and not name.startswith("usb:"):
        raise UsageError(
            f"no device {name[:80]!r} to check",
            hint="known are sim, usb, usb:PATH; see fitzroy devices",
        )
    return _checks(name, options or DeviceOptions())


def _checks(name: str, options: DeviceOptions) -> Iterator[Check]:
    devices: list[Found] = []
    if name != "sim":
        usable = _library()
        yield usable
        if sys.platform == "linux":
            yield from _system()
        if usable.verdict is Verdict.GOOD:
            bus = libusb()
            try:
                devices = [one for one in found(bus) if name in ("", "usb", one.name)]
            except FitzroyError as error:
                yield _bad("devices", error)
            else:
                if not devices:
                    yield _none_attached(name)
            for one in devices:
                yield from _device(bus, one, options)
        if not devices:
            yield from _unreached(name)
        if not name:
            yield from _boards()
    if name == "sim" or not (devices or name):
        yield _self_test("sim", lambda: virtual_device(options))


def _none_attached(name: str) -> Check:
    return Check(
        "devices",
        Verdict.BAD if name else Verdict.NOTE,
        f"no accelerator {name}".rstrip(),
        "plug in the accelerator, with a data cable; then see `lsusb -d 1a6e:` or `-d 18d1:`",
    )


def _unreached(name: str) -> Iterator[Check]:
    """Accelerators that the system sees, and libusb does not."""
    for seen in boards.accelerators():
        if name in ("", "usb") or seen.startswith(f"{name},"):
            yield Check(
                "system",
                Verdict.BAD,
                f"the system has an accelerator that libusb does not reach: {seen}",
                "see the check of libusb; in a container, pass /dev/bus/usb on as well",
            )


def _library() -> Check:
    try:
        return Check("libusb", Verdict.GOOD, library())
    except FitzroyError as error:
        return _bad("libusb", error)


def _system() -> Iterator[Check]:
    """What Linux has for accelerators: buses, rules for permissions, a place for locks."""
    root = boards.ROOT
    if (root / "dev/bus/usb").is_dir():
        yield Check("usb", Verdict.GOOD, "/dev/bus/usb is there")
    else:
        yield Check(
            "usb",
            Verdict.NOTE,
            "there is no /dev/bus/usb: no USB port, or a container without them",
            "docker: --device-cgroup-rule='c 189:* rmw' -v /dev/bus/usb:/dev/bus/usb",
        )
    rules = installed_rules(root)
    if rules:
        yield Check("udev rules", Verdict.GOOD, ", ".join(map(str, rules)))
    else:
        hint = f"fitzroy devices --udev-rules | sudo tee {RULES_FILE}"
        yield Check("udev rules", Verdict.NOTE, "none names both modes of the device", hint)
    folder = Ownership(root).folder()
    if folder is not None:
        yield Check("locks", Verdict.GOOD, f"kept in {folder}")
    else:
        yield Check(
            "locks",
            Verdict.NOTE,
            "no folder that everybody may write to, so no process can say that it has a device",
            "mount /run/lock or /tmp; without it, the claim of the interface keeps others out",
        )


def _boards() -> Iterator[Check]:
    for board in boards.boards():
        verdict = Verdict.NOTE if board.ready else Verdict.BAD
        yield Check(board.kind, verdict, board.text, board.hint, board.place)


def _device(bus: Bus, one: Found, options: DeviceOptions) -> Iterator[Check]:
    yield Check("device", Verdict.GOOD, one.text, device=one.name)
    yield _speed(one)
    access = _access(bus, one)
    yield access
    supply = _firmware(one, options)
    yield supply
    if Verdict.BAD not in (access.verdict, supply.verdict):
        yield _self_test(one.name, lambda: usb_device(bus, one.port, options))


def _speed(one: Found) -> Check:
    if one.speed == "super":
        return Check("speed", Verdict.GOOD, "USB 3, super speed", device=one.name)
    return Check(
        "speed",
        Verdict.NOTE,
        f"USB 2, {one.speed} speed: inputs and streamed parameters take about 10 times as long",
        "use a USB 3 port, without a hub, and a USB 3 cable",
        one.name,
    )


def _access(bus: Bus, one: Found) -> Check:
    """Whether the device can be opened, without a word to it that would disturb its owner."""
    try:
        reservation = bus.reserve(one.port)
        try:
            with closing(bus.open(one.port)) as transport:
                transport.claim()
        finally:
            reservation.release()
    except BusyError as error:
        name = "kernel driver" if error.driver else "owner"
        return _bad(name, error, one.name)
    except TransferError as error:
        return Check("access", Verdict.BAD, str(error), advice(error) or error.hint, one.name)
    text = "this user may open the device; no other process and no driver of the kernel has it"
    return Check("access", Verdict.GOOD, text, device=one.name)


def _firmware(one: Found, options: DeviceOptions) -> Check:
    if not one.needs_firmware:
        return Check("firmware", Verdict.GOOD, "the device has it already", device=one.name)
    try:
        supply = firmware_sources.find(options.firmware)
    except FitzroyError as error:
        return _bad("firmware", error, one.name)
    return Check("firmware", Verdict.GOOD, supply.origin, device=one.name)


def _self_test(name: str, opened: Callable[[], EdgeTpu]) -> Check:
    try:
        with opened() as device:
            seconds = selftest.check(device)
            celsius = device.connection.temperature()
    except FitzroyError as error:
        return _bad("self-test", error, name)
    heat = "" if celsius is None else f", {celsius:.0f} degrees Celsius"
    text = f"a small program gives the right answers, {1000 * seconds:.1f} ms each{heat}"
    return Check("self-test", Verdict.GOOD, text, device=name)


def _bad(name: str, error: FitzroyError, device: str = "") -> Check:
    reason = f": {error.reason}" if error.reason else ""
    return Check(name, Verdict.BAD, error.what + reason, error.hint, device)
