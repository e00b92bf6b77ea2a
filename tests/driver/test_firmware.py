"""Where firmware comes from; the images themselves are Google's, so these are made up."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fitzroy.driver.device import firmware
from fitzroy.driver.device.connection import Connection
from fitzroy.driver.device.firmware import IMAGES, VARIABLE, FirmwareError, Image, find, from_file
from fitzroy.driver.device.limits import Limits
from fitzroy.driver.runtime.devices import SIMULATED, virtual_bus
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import Speed, device_descriptor, to_bytes
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind

DESCRIPTOR = to_bytes(device_descriptor(BEAGLE.usb.runtime, Speed.SUPER))


def content(size: int, at: int, fill: int) -> bytes:
    data = bytes([2]) + bytes([fill]) * (at - 1) + DESCRIPTOR
    return data + bytes([fill]) * (size - len(data))


SINGLE, MULTIPLE = content(1_000, 300, 7), content(1_200, 500, 9)


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> None:
    known = tuple(
        replace(image, size=len(data), descriptor=at, sha256=hashlib.sha256(data).hexdigest())
        for image, data, at in zip(IMAGES, (SINGLE, MULTIPLE), (300, 500), strict=True)
    )
    monkeypatch.setattr(firmware, "IMAGES", known)
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libedgetpu.so.1"
    path.write_bytes(b"\x7fELF" + os.urandom(999) + MULTIPLE + b"between" + SINGLE + b"end")
    return path


def test_known_images() -> None:
    assert [image.multiple for image in IMAGES] == [False, True]
    assert all(isinstance(image, Image) and image.size < 32 << 10 for image in IMAGES)


@pytest.mark.usefixtures("images")
def test_images_in_a_library(library: Path) -> None:
    assert from_file(library).data == SINGLE
    assert from_file(library, multiple=True).data == MULTIPLE
    assert "single endpoint" in from_file(library).origin


@pytest.mark.usefixtures("images")
def test_images_in_files(tmp_path: Path) -> None:
    path = tmp_path / "fw.bin"
    path.write_bytes(MULTIPLE)
    assert from_file(path).multiple is True
    damaged = bytearray(SINGLE)
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    found = from_file(path)
    assert found.multiple is None
    assert "unknown version" in found.origin
    for wrong in (b"", b"\2" + bytes(99), bytes(40_000), bytes(damaged) + bytes(40_000)):
        path.write_bytes(wrong)
        with pytest.raises(FirmwareError, match="no firmware"):
            from_file(path)


@pytest.mark.usefixtures("images")
def test_where_it_is_looked_for(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firmware, "_FOLDERS", (str(tmp_path / "no*"), str(tmp_path / "none")))
    monkeypatch.setattr(firmware.libraries, "__defaults__", ((),))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    with pytest.raises(FirmwareError, match="no libedgetpu is installed") as caught:
        find()
    assert VARIABLE in caught.value.hint
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert find().data == SINGLE
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    monkeypatch.setenv(VARIABLE, str(library))
    assert find(multiple=True).data == MULTIPLE
    other = tmp_path / "fw.bin"
    other.write_bytes(SINGLE)
    assert find(other).origin.startswith(str(other))


def host(faults: list[Fault], limits: Limits) -> tuple[VirtualDevice, EdgeTpu]:
    device = VirtualDevice(faults=faults)
    supply = firmware.Firmware(SINGLE, "test")
    return device, EdgeTpu(
        Connection(virtual_bus([device]), "1-1", firmware=lambda: supply, limits=limits)
    )


def test_what_is_read_back_must_be_what_was_sent() -> None:
    # 2 requests before the download, 10 of it, then the blocks that are read back.
    device, accelerator = host([Fault(FaultKind.CORRUPT, 18)], SIMULATED)
    with accelerator.open():
        assert device.firmware == SINGLE
    limits = replace(SIMULATED, boot_tries=2, enumerate=0.1)
    faults = [Fault(FaultKind.CORRUPT, number) for number in range(14, 2_000)]
    _, accelerator = host(faults, limits)
    with pytest.raises(FirmwareError, match="2 times"):
        accelerator.open()


def test_without_firmware() -> None:
    def none() -> firmware.Firmware:
        raise FirmwareError("the device needs its firmware", hint="install it")

    connection = Connection(virtual_bus([VirtualDevice()]), "1-1", firmware=none, limits=SIMULATED)
    with pytest.raises(FirmwareError, match="install it"):
        EdgeTpu(connection).open()
