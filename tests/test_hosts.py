"""Hosts by name and by file, and which driver can be used with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.execution.estimate import Conditions
from fitzroy.execution.hosts import FORMAT, VERSION, Profile, find, parse, values
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.measurement.calibration import usual


def document(**changes: Any) -> dict[str, Any]:
    constants = {**values(usual("USB 3")), **changes}
    return {"format": FORMAT, "version": VERSION, "constants": constants}


def test_a_host_is_found_by_its_name_or_in_a_file(tmp_path: Path) -> None:
    for name, host in BEAGLE.hosts.items():
        assert find(name) == Profile(name, host)
    path = tmp_path / "here.json"
    path.write_text(json.dumps(document(fixed=0.5, link=123.0)))
    found = find(str(path))
    assert (found.name, found.host.fixed, found.host.link) == (str(path), 0.5, 123.0)
    assert values(found.host) == document(fixed=0.5, link=123.0)["constants"]
    with pytest.raises(UsageError, match="no host 'abacus'") as caught:
        find("abacus")
    assert "mac_usb3" in caught.value.reason
    with pytest.raises(UsageError, match="no such file"):
        find(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"link": 0}, "link is 0"),
        ({"stream": -1}, "stream is -1"),
        ({"fixed": float("nan")}, "fixed is nan"),
        ({"large": float("inf")}, "large is inf"),
        ({"output_byte": 1e12}, "output_byte is 1"),
        ({"prepare": True}, "prepare is True"),
        ({"wake": "3"}, "wake is 3"),
        ({"doze": None}, "doze is None"),
        ({"fixed": 10**400}, "fixed is 1000"),
        ({"bus": "ISA"}, "bus 'ISA'"),
        ({"bus": []}, r"bus '\[\]'"),
        ({"read": 0}, "reads of 0 bytes"),
        ({"read": 1.5}, "reads of 1.5 bytes"),
        ({"speed": 1}, "constants are to be"),
    ],
)
def test_profiles_with_wrong_constants_are_refused(change: dict[str, Any], what: str) -> None:
    with pytest.raises(FormatError, match=what):
        parse(json.dumps(document(**change)).encode(), "p.json")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no fitzroy host profile"),
        (b'{"format": "x"}', "no fitzroy host profile"),
        (b'{"format": "fitzroy host profile", "version": 7}', "version 7"),
        (b'{"format": "fitzroy host profile", "version": 2}', "constants are to be"),
        (b" " * (1 << 21), "2097152 bytes"),
    ],
)
def test_what_is_no_profile_is_refused(data: bytes, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        parse(data, "p.json")


def test_conditions_name_a_host_and_a_driver_that_fit() -> None:
    assert Conditions().check().name == "jetson_nano_10w_usb3"
    assert Conditions(driver="fitzroy").check().host is BEAGLE.hosts["jetson_nano_10w_usb3"]
    with pytest.raises(UsageError, match="no driver 'telepathy'"):
        Conditions(driver="telepathy").check()
    with pytest.raises(UsageError, match="does not know the bus of dev_board_pcie") as caught:
        Conditions(host="dev_board_pcie", driver="fitzroy").check()
    assert caught.value.reason == "PCIe; it knows USB 2, USB 3"


@pytest.mark.parametrize("name", BEAGLE.hosts)
def test_every_host_is_possible(name: str) -> None:
    host = BEAGLE.hosts[name]
    for constant, value in values(host).items():
        if constant not in ("bus", "read"):
            assert value >= 0, constant
    # No link is faster than the bus, and a host takes its outputs no faster than they come.
    assert host.link <= {"USB 2": 60, "USB 3": 625, "PCIe": 500}[host.bus]
    assert host.output_byte >= 1000 / {"USB 2": 60, "USB 3": 625, "PCIe": 500}[host.bus]
    assert ("usb2" in name) == (host.bus == "USB 2")
    libedgetpu = BEAGLE.drivers["libedgetpu"]
    assert libedgetpu.output_byte(host) == pytest.approx(host.output_byte)
