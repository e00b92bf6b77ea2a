"""``fitzroy calibrate-host``, and the verbs that take what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.support import Run

import fitzroy as library
from fitzroy.execution.hosts import find


@pytest.fixture
def compiled(digits: Path, tmp_path: Path) -> Path:
    path = tmp_path / "digits_edgetpu.tflite"
    path.write_bytes(library.compile_edgetpu(digits).data)
    return path


@pytest.mark.long
def test_a_profile_is_written_and_can_be_used(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    path = tmp_path / "here.json"
    result = fitzroy("calibrate-host", "--device", "sim", "--runs", 1, "-o", path, "--json")
    assert result.code == 0
    document = json.loads(result.out)
    written = json.loads(path.read_text())
    assert document.items() >= (written | {"written": [str(path)]}).items()
    assert written["driver"] == "fitzroy"
    assert written["ran_on"] == "the virtual accelerator with a simulated chip"
    assert len(written["samples"]) == 10
    assert all(item["microseconds"] > 0 for item in written["samples"])
    host = find(str(path)).host
    assert host.fixed == written["constants"]["fixed"]
    options = ("--device", "sim:direct", "--runs", 1, "--json")
    result = fitzroy("bench", compiled, *options, "--host", path, "--driver", "fitzroy")
    predicted = json.loads(result.out)["predicted"]
    assert (predicted["host"], predicted["driver"]) == (str(path), "fitzroy")
    assert predicted["seconds"] * 1e3 >= host.fixed


@pytest.mark.long
def test_people_are_told_how_well_it_fits(fitzroy: Run, tmp_path: Path) -> None:
    result = fitzroy(
        "calibrate-host", "--device", "sim:direct", "--runs", 1, "-o", tmp_path / "h.json"
    )
    assert result.code == 0
    assert "ns per position in y and x of outputs" in result.out
    assert "predicted from others" in result.out


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("-o", "h.txt"), 2, "the name of a profile ends otherwise"),
        (("-o", "none/h.json"), 2, "none"),
        (("-o", "h.json", "--usb", 4), 2, "there is no USB 4"),
        (("-o", "h.json", "--clock", "warp"), 2, "there is no clock 'warp'"),
        (("-o", "h.json", "--device", "abacus"), 2, "no device 'abacus'"),
        ((), 2, "--output"),
    ],
)
def test_what_makes_no_sense_is_refused(
    fitzroy: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[object, ...],
    code: int,
    what: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = fitzroy("calibrate-host", *arguments)
    assert result.code == code
    assert what in result.err
    assert list(tmp_path.iterdir()) == []


def test_predictions_depend_on_the_driver(fitzroy: Run, compiled: Path) -> None:
    times = {}
    for driver in ("libedgetpu", "fitzroy"):
        result = fitzroy(
            "bench", compiled, "--device", "sim:direct", "--runs", 1, "--driver", driver, "--json"
        )
        timing = result.json["predicted"]
        assert timing["driver"] == driver
        times[driver] = timing
    assert times["fitzroy"]["seconds"] != times["libedgetpu"]["seconds"]
