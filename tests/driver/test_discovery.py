"""Which devices there are, who may open them, and what is wrong if one does not work."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import usb.core
import usb.libloader
from usb.backend import libusb1

from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.base.installing import install_extra
from fitzroy.driver.device import firmware
from fitzroy.driver.device.discovery import SIMULATORS, choose, found
from fitzroy.driver.device.permissions import advice, udev_rules
from fitzroy.driver.runtime import doctor
from fitzroy.driver.runtime.devices import open_device, usb_device, virtual_bus
from fitzroy.driver.runtime.doctor import Verdict, examine
from fitzroy.driver.transports import libusb, outgoing
from fitzroy.driver.transports import usb as transport
from fitzroy.driver.transports.libusb import LibusbInitError, LibusbSymbolsError, NoLibusbError
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


def libraries(monkeypatch: pytest.MonkeyPatch, system: str | None, wheel: str | None) -> None:
    """Let there be these libraries, or none."""
    found = {None: system, libusb._in_wheel: wheel}
    monkeypatch.setattr(usb.libloader, "locate_library", lambda names, finder: found[finder])


def test_without_libusb(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries(monkeypatch, None, None)
    with pytest.raises(NoLibusbError, match=re.escape(install_extra("usb"))):
        transport.libusb().attached()
    with pytest.raises(NoLibusbError, match="there is no libusb"):
        transport.library()
    checks = {check.name: check for check in examine()}
    assert checks["libusb"].verdict is Verdict.BAD
    assert checks["self-test"].verdict is Verdict.GOOD
    assert "virtual accelerator" in open_device("auto").description


def shared_library(folder: Path, name: str, source: str) -> str:
    """A library of C functions."""
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    (folder / f"{name}.c").write_text(source)
    path = folder / f"{name}.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(path), str(folder / f"{name}.c")]
    subprocess.run(command, check=True)
    return str(path)


@pytest.fixture
def old_library(tmp_path: Path) -> str:
    """A library as libusb 0.1 is: without any function of libusb 1.0."""
    return shared_library(tmp_path, "usb01", "int usb_init(void) { return 0; }")


@pytest.fixture
def failing_library(tmp_path: Path) -> str:
    """A library with all functions of libusb 1.0, whose `libusb_init` fails."""
    probe = FunctionNames()
    libusb1._setup_prototypes(probe)
    outgoing.declare(probe)
    others = (name for name in probe.names if name not in ("libusb_init", "libusb_strerror"))
    lines = [f"int {name}(void) {{ return 0; }}" for name in sorted(others)]
    lines.append("int libusb_init(void **context) { return -99; }")
    lines.append('const char *libusb_strerror(int code) { return "Other error"; }')
    return shared_library(tmp_path, "usb10", "\n".join(lines))


class FunctionNames:
    """Stands for a library, and notes the functions that are asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> SimpleNamespace:
        self.names.add(name)
        return SimpleNamespace()


def test_a_library_that_is_not_libusb(
    monkeypatch: pytest.MonkeyPatch, old_library: str, failing_library: str, tmp_path: Path
) -> None:
    libraries(monkeypatch, old_library, None)
    with pytest.raises(LibusbSymbolsError, match=r"lacks a function.*libusb_") as caught:
        transport.libusb().attached()
    assert caught.value.where == old_library
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    libraries(monkeypatch, str(broken), None)
    with pytest.raises(LibusbSymbolsError, match="cannot be loaded"):
        transport.library()
    text = next(check.text for check in examine() if check.name == "libusb")
    assert text.startswith("libusb cannot be loaded")
    # A wheel beside it is used instead, and its own trouble is told.
    libraries(monkeypatch, old_library, failing_library)
    with pytest.raises(LibusbInitError):
        transport.library()


def test_a_context_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, failing_library: str
) -> None:
    libraries(monkeypatch, failing_library, None)
    with pytest.raises(LibusbInitError, match=r"libusb_init says -99: Other error") as caught:
        transport.libusb().attached()
    assert "no libusb" not in str(caught.value)
    # No simulator takes the place of an accelerator that may well be there.
    with pytest.raises(LibusbInitError, match="--device sim"):
        open_device("auto")
    checks = {check.name: check for check in examine()}
    assert checks["libusb"].verdict is Verdict.BAD
    assert "-99" in checks["libusb"].text


def test_a_wheel_that_lacks_something(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "half_a_wheel.py").write_text("import what_nobody_has")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(libusb, "WHEEL", "half_a_wheel")
    monkeypatch.setattr(
        usb.libloader, "locate_library", lambda names, finder: finder and finder(names[0])
    )
    with pytest.raises(LibusbSymbolsError, match="what_nobody_has"):
        transport.library()


def test_libusb_of_a_wheel() -> None:
    path = f"/site-packages/{libusb.WHEEL}/libusb-1.0.so"
    backend = SimpleNamespace(lib=SimpleNamespace(_name=path))
    assert libusb.name_of(backend) == f"{path} from the wheel {libusb.WHEEL}"
    backend.lib._name = "libusb-1.0.so.0"
    assert libusb.name_of(backend) == "libusb-1.0.so.0 of the system"


def patched_bus(monkeypatch: pytest.MonkeyPatch, *devices: VirtualDevice) -> None:
    bus = virtual_bus(devices)
    bus.name = "usb"
    monkeypatch.setattr(doctor, "libusb", lambda: bus)
    monkeypatch.setattr(doctor, "library", lambda: "libusb")


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
