"""Two users of one device: who comes second learns who has it, and the first notices nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import usb.core
from tests.driver.edgetpu_programs import SIZE, echo

from fitzroy.driver.runtime import doctor
from fitzroy.driver.runtime.devices import SIMULATED, DeviceOptions, usb_device
from fitzroy.driver.runtime.doctor import Verdict, examine
from fitzroy.driver.transports.ownership import Ownership
from fitzroy.driver.transports.transport import Attached, BusyError, LostError, Unreserved
from fitzroy.driver.transports.usb import UsbBus
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.transfer import Transfer

ROW = np.arange(SIZE).astype(np.uint8)
OPTIONS = DeviceOptions(limits=replace(SIMULATED, retries=0))

HOLD = """
import sys
from fitzroy.driver.transports.ownership import Ownership
lock = Ownership(sys.argv[1]).reserve("1-1")
print("held", flush=True)
sys.stdin.readline()
"""


class CountingDevice(VirtualDevice):
    """A device that counts what reaches it."""

    transfers = 0
    resets = 0

    def submit(self, transfer: Transfer) -> None:
        self.transfers += 1
        super().submit(transfer)

    def reset(self) -> None:
        self.resets += 1
        super().reset()


def bus_with(device: VirtualDevice, root: Path) -> UsbBus:
    backend = VirtualBackend([device])
    return UsbBus(lambda: backend, "usb", "a port", Ownership(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a machine on which everybody may write to /tmp."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return tmp_path


@pytest.fixture
def holder(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the device on port 1-1."""
    command = [sys.executable, "-c", HOLD, str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_device_that_another_process_has(root: Path, holder: subprocess.Popen[str]) -> None:
    device = CountingDevice(booted=True)
    bus = bus_with(device, root)
    bus.attached()
    before = device.transfers
    with usb_device(bus, options=OPTIONS) as second:
        with pytest.raises(BusyError, match=f"in use by process {holder.pid}") as caught:
            second.open()
        assert caught.value.owner == holder.pid
        assert str(holder.pid) in caught.value.reason
        assert caught.value.hint
        # Neither a reset nor anything else has reached it.
        assert (device.transfers, device.resets) == (before, 0)
        # The lock ends with its process, and the text that it leaves behind means nothing.
        holder.kill()
        holder.wait()
        assert (second.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


def test_two_users_in_one_process(root: Path) -> None:
    device = CountingDevice(booted=True)
    bus = bus_with(device, root)
    with usb_device(bus, options=OPTIONS) as first, usb_device(bus, options=OPTIONS) as second:
        first.run(echo(), {"x": ROW})
        before = device.transfers, device.resets
        with pytest.raises(BusyError, match=f"process {os.getpid()} is this one"):
            second.run(echo(), {"x": ROW})
        assert (device.transfers, device.resets) == before
        assert (first.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
        assert first.recoveries == 0
        first.close()
        assert (second.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


def test_the_lock_lasts_while_the_device_comes_back(root: Path) -> None:
    device = CountingDevice()
    ownership = Ownership(root)
    seen: list[int] = []

    class Watching(CountingDevice):
        def reset(self) -> None:
            with pytest.raises(BusyError) as caught:
                ownership.reserve("1-1")
            seen.append(caught.value.owner)
            super().reset()

    device = Watching(booted=True)
    with usb_device(bus_with(device, root), options=OPTIONS) as first:
        first.open()
        first.connection.open(SIMULATED.watch(10.0))
    assert seen == [os.getpid()] * device.resets
    assert device.resets == 2
    ownership.reserve("1-1").release()


def test_an_opening_that_fails_gives_the_lock_back(root: Path) -> None:
    device = VirtualDevice(booted=True)
    bus = bus_with(device, root)
    with usb_device(bus, options=OPTIONS) as first:
        device.unplug()
        first.connection.limits = replace(SIMULATED, retries=0, replug=0.05)
        with pytest.raises(LostError):
            first.open()
        Ownership(root).reserve("1-1").release()


@pytest.mark.parametrize("text", [b"", b"x" * 4096, b"-1", b"\xff\xfe", b"999999999999", b"0"])
def test_lock_files_with_odd_texts(root: Path, text: bytes) -> None:
    lock = Ownership(root).reserve("1-1")
    (file,) = (root / "tmp").iterdir()
    file.write_bytes(text)
    with pytest.raises(BusyError, match="in use by"):
        Ownership(root).reserve("1-1")
    lock.release()
    lock.release()
    Ownership(root).reserve("1-1").release()
    # Files of others are never followed elsewhere.
    file.unlink()
    (root / "victim").write_bytes(b"precious")
    file.symlink_to(root / "victim")
    assert isinstance(Ownership(root).reserve("1-1"), Unreserved)
    assert (root / "victim").read_bytes() == b"precious"


def test_without_a_place_for_locks(tmp_path: Path) -> None:
    assert Ownership(tmp_path).folder() is None
    assert isinstance(Ownership(tmp_path).reserve("1-1"), Unreserved)
    (tmp_path / "tmp").mkdir(mode=0o755)
    assert Ownership(tmp_path).folder() is None


def foreign(root: Path, pid: int, address: int) -> None:
    """Another program, which locks nothing, has the node of a device open."""
    folder = root / f"proc/{pid}/fd"
    folder.mkdir(parents=True)
    (folder / "0").symlink_to("/dev/null")
    (folder / "7").symlink_to(f"/dev/bus/usb/001/{address:03d}")
    (root / f"proc/{pid}/comm").write_text("frigate\n")


class Claimed(VirtualBackend):
    """A backend whose device is claimed by somebody else."""

    def claim_interface(self, dev_handle: object, intf: int) -> None:
        raise usb.core.USBError("Resource busy", errno=16)


def test_who_has_claimed_the_interface(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = CountingDevice(booted=True)
    backend = Claimed([device])
    bus = UsbBus(lambda: backend, "usb", "a port", Ownership(root))
    with usb_device(bus, options=OPTIONS) as second:
        with pytest.raises(BusyError, match="in use by another process") as unknown:
            second.open()
        assert unknown.value.owner == 0
        foreign(root, 4321, bus.attached()[0].address)
        with pytest.raises(BusyError, match=r"process 4321 \(frigate\) has it") as known:
            second.open()
        assert known.value.owner == 4321
        monkeypatch.setattr(doctor, "library", lambda: "libusb")
        monkeypatch.setattr(doctor, "libusb", lambda: bus)
        checks = {check.name: check for check in examine("usb")}
        assert checks["owner"].verdict is Verdict.BAD
        assert "4321" in checks["owner"].text
        assert "self-test" not in checks
        links = root / "sys/bus/usb/devices/1-1:1.0"
        links.mkdir(parents=True)
        (links / "driver").symlink_to("../../../../bus/usb/drivers/cdc_acm")
        with pytest.raises(BusyError, match="in use by cdc_acm") as bound:
            second.open()
        assert "unbind" in bound.value.hint
        checks = {check.name: check for check in examine("usb")}
        assert checks["kernel driver"].verdict is Verdict.BAD
    assert device.resets == 0


def test_holders_of_odd_ports(root: Path) -> None:
    odd = Attached("replay-x", 0, 0x18D1, 0x9302, None)
    assert Ownership(root).holder(odd).pid == 0
