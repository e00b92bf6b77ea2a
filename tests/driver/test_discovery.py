"""Which devices there are, who may open them, and what is wrong if one does not work."""

from __future__ import annotations

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import usb.core
from usb.backend import libusb1

from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.driver.device import firmware
from fitzroy.driver.device.discovery import SIMULATORS, choose, found
from fitzroy.driver.device.permissions import advice, udev_rules
from fitzroy.driver.runtime import doctor
from fitzroy.driver.runtime.devices import usb_device, virtual_bus
from fitzroy.driver.runtime.doctor import Verdict, examine
from fitzroy.driver.transports import usb as transport
from fitzroy.driver.transports.transport import (
    ERRORS,
    AccessError,
    BabbleError,
    BusyError,
    LostError,
    StallError,
    TransactionError,
    TransferError,
    TransferTimeoutError,
)
from fitzroy.driver.transports.usb import UsbBus
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.hw_models.chips.usb import Speed
from fitzroy.hw_models.usb_device.device import VirtualDevice


def test_devices_on_a_bus() -> None:
    bus = virtual_bus([VirtualDevice(), VirtualDevice(Speed.HIGH, booted=True)])
    first, second = found(bus)
    assert (first.name, first.mode, first.speed, first.needs_firmware) == (
        "sim:1-1", "boot", "super", True,
    )  # fmt: skip
    assert (second.name, second.mode, second.speed, second.needs_firmware) == (
        "sim:1-2", "run", "high", False,
    )  # fmt: skip
    assert [one.name for one in SIMULATORS] == ["sim", "sim:direct"]
    assert choose(bus, "1-2").path == "1-2"
    with pytest.raises(DeviceError, match="2 Edge TPUs are attached") as caught:
        choose(bus)
    assert "sim:1-1" in caught.value.hint
    with pytest.raises(DeviceError, match="no Edge TPU at sim:1-9"):
        usb_device(bus, "1-9")
    with pytest.raises(DeviceError, match="no Edge TPU is attached"):
        choose(virtual_bus([]))


def test_udev_rules() -> None:
    rules = [line for line in udev_rules("users").splitlines() if not line.startswith("#")]
    assert len(rules) == 2
    assert 'ATTR{idVendor}=="1a6e", ATTR{idProduct}=="089a"' in rules[0]
    assert 'ATTR{idVendor}=="18d1", ATTR{idProduct}=="9302"' in rules[1]
    assert all('GROUP="users"' in rule and 'TAG+="uaccess"' in rule for rule in rules)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EPIPE, StallError),
        (errno.ETIMEDOUT, TransferTimeoutError),
        (errno.EOVERFLOW, BabbleError),
        (errno.EIO, TransactionError),
        (errno.ENODEV, LostError),
        (errno.EACCES, AccessError),
        (errno.EBUSY, BusyError),
        (errno.EXDEV, TransferError),
        (None, TransferError),
    ],
)
def test_errors_of_pyusb_have_types(number: int | None, kind: type[TransferError]) -> None:
    class Backend(VirtualBackend):
        def claim_interface(self, dev_handle: Any, intf: int) -> None:
            raise usb.core.USBError("on purpose", errno=number)

    bus = UsbBus(lambda: Backend([VirtualDevice()]), "test", "test")
    with pytest.raises(TransferError, match="on purpose") as caught:
        bus.open("1-1").claim()
    assert type(caught.value) is kind
    assert ERRORS[kind.code] is kind
    assert bool(advice(caught.value)) == (kind in (AccessError, BusyError))


def test_a_context_that_has_grown_old_is_renewed() -> None:
    made: list[VirtualBackend] = []

    def backend() -> VirtualBackend:
        made.append(VirtualBackend([VirtualDevice()]))
        return made[-1]

    bus = UsbBus(backend, "test", "test")
    bus.attached()
    bus.attached()
    assert len(made) == 1
    bus.renew()
    bus.attached()
    assert len(made) == 2


def test_without_libusb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libusb1, "get_backend", lambda find_library=None: None)
    with pytest.raises(DeviceError, match=r"fitzroy\[usb\]"):
        transport.libusb().attached()
    assert transport.library() == ""
    checks = {check.name: check for check in examine()}
    assert checks["libusb"].verdict is Verdict.BAD
    assert checks["self-test"].verdict is Verdict.GOOD


def test_libusb_of_a_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/site-packages/{transport.WHEEL}/libusb-1.0.so"
    wheel = SimpleNamespace(lib=SimpleNamespace(_name=path))

    def get_backend(find_library: Callable[[str], str | None] | None = None) -> Any:
        return None if find_library is None else wheel

    monkeypatch.setattr(libusb1, "get_backend", get_backend)
    assert transport.library() == f"{path} from the wheel {transport.WHEEL}"


def patched_bus(monkeypatch: pytest.MonkeyPatch, *devices: VirtualDevice) -> None:
    bus = virtual_bus(devices)
    bus.name = "usb"
    monkeypatch.setattr(doctor, "libusb", lambda: bus)


def test_a_healthy_device(monkeypatch: pytest.MonkeyPatch) -> None:
    patched_bus(monkeypatch, VirtualDevice(Speed.HIGH, booted=True))
    checks = {check.name: check for check in examine("usb:1-1") if check.device}
    assert {name: check.verdict for name, check in checks.items()} == {
        "device": Verdict.GOOD,
        "speed": Verdict.NOTE,
        "access": Verdict.GOOD,
        "firmware": Verdict.GOOD,
        "self-test": Verdict.GOOD,
    }
    assert "USB 3" in checks["speed"].hint


def test_devices_that_lack_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(named: object = None) -> None:
        raise DeviceError("the device needs its firmware", hint="install it")

    monkeypatch.setattr(firmware, "find", none)
    patched_bus(monkeypatch, VirtualDevice())
    checks = {check.name: check for check in examine()}
    assert checks["firmware"].verdict is Verdict.BAD
    assert checks["firmware"].hint == "install it"
    assert "self-test" not in checks
    patched_bus(monkeypatch)
    assert [check.verdict for check in examine("usb:1-1")][-1] is Verdict.BAD


@pytest.mark.parametrize("name", ["gpu", "usb2", "sim:direct", "replay:s.jsonl"])
def test_names_that_cannot_be_checked(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        examine(name)
