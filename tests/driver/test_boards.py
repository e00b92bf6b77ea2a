"""Edge TPUs on PCIe and on boards: found, named, and refused by the driver with what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import usb.libloader

from fitzroy.base.errors import UnsupportedError
from fitzroy.cli.main import main
from fitzroy.driver.device import boards
from fitzroy.driver.device.permissions import installed_rules, udev_rules
from fitzroy.driver.runtime.devices import open_device
from fitzroy.driver.runtime.doctor import Verdict, examine


def pci_device(root: Path, address: str, vendor: str, device: str, driver: str = "") -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{device}\n")
    if driver:
        (folder / "driver").mkdir()


def node(root: Path, name: str) -> Path:
    (root / "dev").mkdir(exist_ok=True)
    path = root / "dev" / name
    path.touch()
    return path


def usb_device(root: Path, port: str, vendor: str, product: str) -> None:
    folder = root / "sys/bus/usb/devices" / port
    folder.mkdir(parents=True)
    (folder / "idVendor").write_text(f"{vendor}\n")
    (folder / "idProduct").write_text(f"{product}\n")


def test_nothing_there(tmp_path: Path) -> None:
    assert boards.boards(tmp_path) == ()


def test_modules_on_pcie(tmp_path: Path) -> None:
    pci_device(tmp_path, "0000:01:00.0", "0x8086", "0x089a")
    pci_device(tmp_path, "0000:02:00.0", "0x1ac1", "0x089a")
    (bare,) = boards.boards(tmp_path)
    assert (bare.kind, bare.place, bare.ready) == ("pcie", "0000:02:00.0", False)
    assert "without its driver" in bare.text
    assert "gasket" in bare.hint
    pci_device(tmp_path, "0000:03:00.0", "0x1ac1", "0x089a", "apex")
    node(tmp_path, "apex_0")
    first, second = boards.boards(tmp_path)
    assert first.ready
    assert "/dev/apex_0" in first.text
    assert "a driver is bound, and there is no node" in second.text


def test_a_node_in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node(tmp_path, "apex_0")
    node(tmp_path, "apexlike")
    (board,) = boards.boards(tmp_path)
    assert (board.place, board.ready) == ("/dev/apex_0", True)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (board,) = boards.boards(tmp_path)
    assert not board.ready
    assert "apex" in board.hint
    assert "no access" in board.text


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("Freescale i.MX8MQ Phanbell\0", "dev-board"),
        ("MediaTek MT8167 Coral Board\0", "dev-board-mini"),
        ("Raspberry Pi 5\0", ""),
    ],
)
def test_boards_by_their_device_tree(tmp_path: Path, model: str, kind: str) -> None:
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/model").write_text(model)
    assert [board.kind for board in boards.boards(tmp_path)] == ([kind] if kind else [])


def test_dev_board_micro(tmp_path: Path) -> None:
    usb_device(tmp_path, "1-2", "18d1", "9308")
    usb_device(tmp_path, "1-3", "18d1", "9302")
    (micro,) = boards.boards(tmp_path)
    assert (micro.kind, micro.place) == ("dev-board-micro", "1-2")


def test_accelerators_that_libusb_does_not_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usb_device(tmp_path, "2-1.4", "1a6e", "089a")
    usb_device(tmp_path, "1-3", "18d1", "9302")
    usb_device(tmp_path, "1-4", "18d1", "9308")
    (tmp_path / "sys/bus/usb/devices/1-3/speed").write_text("480\n")
    assert boards.accelerators(tmp_path) == (
        "usb:1-3, running, 480 Mbit/s",
        "usb:2-1.4, in its boot ROM",
    )
    monkeypatch.setattr(boards, "ROOT", tmp_path)
    monkeypatch.setattr(usb.libloader, "locate_library", lambda names, finder: None)
    texts = [check.text for check in examine() if check.name == "system"]
    assert len(texts) == 2
    (only,) = [check for check in examine("usb:2-1.4") if check.name == "system"]
    assert only.verdict is Verdict.BAD
    assert "usb:2-1.4" in only.text


@pytest.mark.parametrize("name", ["pci", "pci:0", "pcie", "apex:1"])
def test_pcie_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match="PCIe") as caught:
        open_device(name)
    assert boards.PAGE in caught.value.hint


def test_the_page_that_errors_name_exists() -> None:
    page = Path(__file__).parents[2] / boards.PAGE
    text = page.read_text()
    for word in ("gasket-dkms", "/dev/apex_0", "1ac1:089a", "Dev Board Mini", "Dev Board Micro"):
        assert word in text


def test_what_the_verbs_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pci_device(tmp_path, "0000:02:00.0", "0x1ac1", "0x089a", "apex")
    monkeypatch.setattr(boards, "ROOT", tmp_path)
    assert main(["devices", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["boards"]
    assert listed["place"] == "0000:02:00.0"
    assert main(["devices"]) == 0
    assert "0000:02:00.0" in capsys.readouterr().err
    (check,) = [check for check in examine() if check.name == "pcie"]
    assert check.verdict is Verdict.BAD
    node(tmp_path, "apex_0")
    (check,) = [check for check in examine() if check.name == "pcie"]
    assert check.verdict is Verdict.NOTE
    assert main(["doctor", "--device", "pci:0"]) == 2


def test_rules_that_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_rules(tmp_path) == ()
    folder = tmp_path / "etc/udev/rules.d"
    folder.mkdir(parents=True)
    (folder / "10-other.rules").write_text('ATTR{idProduct}=="9302"\n')
    # The boot ROM is missing.
    assert installed_rules(tmp_path) == ()
    (folder / "60-fitzroy-edgetpu.rules").write_text(udev_rules())
    assert len(installed_rules(tmp_path)) == 2
    monkeypatch.setattr(boards, "ROOT", tmp_path)
    checks = {check.name: check for check in examine()}
    assert checks["udev rules"].verdict is Verdict.GOOD
    assert checks["usb"].verdict is Verdict.NOTE
    assert checks["locks"].verdict is Verdict.NOTE
