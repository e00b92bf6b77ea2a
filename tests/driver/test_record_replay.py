"""Sessions as text, and devices made of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.driver.edgetpu_programs import SIZE, echo

from fitzroy.base.errors import FitzroyError, FormatError, UsageError
from fitzroy.driver.device.firmware import Firmware
from fitzroy.driver.device.streams import ENDPOINTS
from fitzroy.driver.runtime import devices, engine
from fitzroy.driver.runtime.devices import (
    SIMULATED,
    DeviceOptions,
    open_device,
    virtual_device,
)
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.transports.replay import ReplayBus
from fitzroy.driver.transports.transport import IdleTimeoutError, ReplayError
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind

ROW = np.arange(SIZE)[::-1].astype(np.uint8)
HEAD = '{"format": "fitzroy session 1"}\n'
LIMITS = replace(SIMULATED, slice=0.02, silence=0.1, control=0.05)
QUICK = replace(LIMITS, poll=0.01, enumerate=0.01, replug=0.01)


def record(path: Path, *faults: Fault, turns: int = 3) -> list[dict[str, Any]]:
    options = DeviceOptions(record=path, limits=LIMITS)
    with virtual_device(options, VirtualDevice(faults=faults)) as host:
        session(host, turns)
    return [json.loads(line) for line in path.read_text().splitlines()]


def session(host: Any, turns: int) -> None:
    for turn in range(turns):
        assert (host.run(echo(), {"x": ROW + turn}).tensors["y"] == ROW + turn).all()


def test_chips_that_wait_for_the_host_do_so_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorded session ends as the real one did, after as many waits."""
    # As for programs that cannot be followed.
    monkeypatch.setattr(engine, "demand_script", lambda executable: None)
    package = echo()
    (main,) = package.executables
    assert main.dma_hints is not None
    hints = replace(main.dma_hints, hints=(main.dma_hints.hints or [])[1:])
    package = replace(package, executables=[replace(main, dma_hints=hints)])
    path, limits = tmp_path / "s.jsonl", replace(LIMITS, silence=900.0, idle=0.06)
    ends = []
    for spec, options in (
        ("sim", DeviceOptions(record=path, limits=limits)),
        (f"replay:{path}", DeviceOptions(limits=limits)),
    ):
        with open_device(spec, options) as device, pytest.raises(IdleTimeoutError) as caught:
            device.run(package, {"x": ROW})
        ends.append(str(caught.value))
    assert ends[0] == ends[1]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(line.get("error") == "idle" for line in lines) >= 9


def test_sessions_are_readable(tmp_path: Path) -> None:
    lines = record(tmp_path / "s.jsonl")
    assert lines[0]["format"] == "fitzroy session 1"
    assert [line["t"] for line in lines] == sorted(line["t"] for line in lines)
    assert sum(line.get("op") == "control" for line in lines) > 150
    registers = [line["register"] for line in lines if "register" in line]
    assert registers[0] == "scu_ctrl_0"
    writes = [line for line in lines if line.get("op") == "write"]
    assert len(writes) == 12
    assert writes[2] == {
        "t": writes[2]["t"], "op": "write", "endpoint": "0x01", "size": 8,
        "data": "0001000001000000", "posted": writes[2]["posted"], "sent": 8,
    }  # fmt: skip
    assert writes[1]["posted"] <= writes[2]["posted"] <= writes[2]["t"]
    assert len(writes[3]["data"]) == 128
    assert len(writes[3]["sha256"]) == 64
    (first, *_) = [line for line in lines if line.get("endpoint") == "0x81"]
    assert bytes.fromhex(first["data"]) == ROW.tobytes()


def test_firmware_is_not_recorded(tmp_path: Path) -> None:
    lines = record(tmp_path / "s.jsonl")
    firmware = [line for line in lines if line.get("type") in ("0x21", "0xa1")]
    assert len(firmware) > 100
    assert all("data" not in line or line["request"] == 3 for line in firmware)


@pytest.mark.parametrize(
    "faults",
    [
        (),
        (Fault(FaultKind.STALL, 2, 0x81),),
        (Fault(FaultKind.LOSE, 1, 0x82), Fault(FaultKind.ERROR, 11, 0x01)),
    ],
)
def test_replay(tmp_path: Path, faults: tuple[Fault, ...]) -> None:
    path = tmp_path / "s.jsonl"
    lines = record(path, *faults)
    assert any("error" in line for line in lines) == bool(faults)
    recoveries = sum(line.get("op") == "clear_halt" for line in lines) // len(ENDPOINTS)
    assert (recoveries > 0) == bool(faults)
    with open_device(f"replay:{path}", DeviceOptions(limits=LIMITS)) as device:
        assert isinstance(device, EdgeTpu)
        session(device, 3)
        assert device.recoveries == recoveries
        with pytest.raises(ReplayError, match=r"ends here|another way"):
            session(device, 1)


def test_firmware_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    firmware = Firmware(bytes(range(250)) * 4, "test")
    monkeypatch.setattr(devices, "NO_FIRMWARE", firmware)
    record(path, turns=1)
    bus = ReplayBus(path)
    assert (bus.first, len(bus.firmware)) == ("1-1", 1_000)
    with open_device(f"replay:{path}") as device:
        session(device, 1)


def test_other_inputs_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    record(path)
    with (
        open_device(f"replay:{path}") as device,
        pytest.raises(ReplayError, match=r"s\.jsonl:\d+.*another way.*sha256|data") as caught,
    ):
        device.run(echo(), {"x": ROW + 1})
    assert "same model" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        HEAD + "x",
        HEAD + "[]",
        HEAD + '{"op": "read"}',
        HEAD + '{"op": "control", "type": "0x21", "request": 1, "length": "x"}',
        HEAD + '{"op": "control", "type": "0x21", "request": 1, "length": 256, "value": "0xffff"}',
    ],
)
def test_other_files_are_no_recordings(tmp_path: Path, content: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(content)
    with pytest.raises(FormatError):
        open_device(f"replay:{path}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("devices", []),
        ("devices", [5]),
        ("devices", [{"path": "1-1", "address": 1e999, "id": "1a6e:089a", "speed": None}]),
        ("devices", [{"path": "1-1", "address": 1, "id": 5, "speed": None}]),
        ("devices", [{"path": "1-1", "address": 1, "id": "1a6e:089a", "speed": 3}]),
        ("error", []),
        ("sent", "x"),
        ("sent", 0),
        ("size", None),
        ("size", 1e999),
        ("length", 1e999),
        ("data", 5),
        ("data", "0"),
    ],
)
def test_fields_that_make_no_sense(tmp_path: Path, name: str, value: Any) -> None:
    path = tmp_path / "s.jsonl"
    lines = record(path, turns=1)
    first = next(line for line in lines[1:] if name in line or name == "error")
    first[name] = value
    path.write_text("\n".join(map(json.dumps, lines)))
    with (
        pytest.raises(FitzroyError),
        open_device(f"replay:{path}", DeviceOptions(limits=QUICK)) as device,
    ):
        device.run(echo(), {"x": ROW})


def test_names_and_options_that_make_no_sense(tmp_path: Path) -> None:
    for name in ("", "gpu", "replay:", "sim:other"):
        with pytest.raises(UsageError, match="no device"):
            open_device(name)
    with pytest.raises(UsageError, match="nothing to record"):
        open_device("sim:direct", DeviceOptions(record=tmp_path / "s.jsonl"))
    with pytest.raises(UsageError, match="cannot be written"):
        open_device("sim", DeviceOptions(record=tmp_path / "none" / "s.jsonl"))
    with pytest.raises(UsageError, match="no such file"):
        open_device("replay:" + str(tmp_path / "none"))
