"""``fitzroy devices`` and ``fitzroy doctor``."""

from __future__ import annotations

import json

import pytest
import usb.libloader

from fitzroy.cli.main import main


@pytest.fixture(autouse=True)
def without_usb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usb.libloader, "locate_library", lambda names, finder: None)


def test_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    out, err = capsys.readouterr()
    assert "sim:direct" in out
    assert "libusb" in err
    assert main(["devices", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [device["name"] for device in document["devices"]] == ["sim", "sim:direct"]
    assert "libusb" in document["usb_problem"]


def test_udev_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--udev-rules"]) == 0
    assert capsys.readouterr().out.count("SUBSYSTEM") == 2
    assert main(["devices", "--udev-rules", "--json"]) == 0
    assert "SUBSYSTEM" in json.loads(capsys.readouterr().out)["udev_rules"]


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--device", "sim"]) == 0
    assert "ok      sim self-test" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 7
    document = json.loads(capsys.readouterr().out)
    assert document["failed"] is True
    verdicts = [(check["name"], check["verdict"]) for check in document["checks"]]
    assert ("libusb", "failed") in verdicts
    assert verdicts[-1] == ("self-test", "ok")
