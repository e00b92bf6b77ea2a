from __future__ import annotations

import json

import pytest
from tests.driver.edgetpu_programs import echo
from tests.report import timelines
from tests.report.test_phases import run_of, tensor_op

from fitzroy.formats.darwinn import PackageFile
from fitzroy.report import summary, units
from fitzroy.report.run import Run


@pytest.fixture(scope="module")
def run() -> Run:
    return timelines.run(echo(), "echo")


def test_document_is_json(run: Run) -> None:
    document = summary.document(run)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_figures_add_up(run: Run) -> None:
    document = summary.document(run)
    assert document["chip_us"] + document["host_us"] == pytest.approx(document["total_us"])
    assert sum(phase["cycles"] for phase in document["phases"]) == pytest.approx(document["cycles"])
    assert sum(phase["share"] for phase in document["phases"]) == pytest.approx(1)
    assert sum(phase["output_bytes"] for phase in document["phases"]) == 256
    path = sum(link["end_cycle"] - link["begin_cycle"] for link in document["critical_path"])
    in_phases = sum(sum(phase["critical_cycles"].values()) for phase in document["phases"])
    assert path == pytest.approx(in_phases)


def test_waits_are_those_of_all_phases() -> None:
    operation = tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])
    document = summary.document(run_of(operation, operation))
    assert document["waits"] == {"op": {"data": 10}}
    assert document["phases"][1]["wait_cycles"] == {"op": {"data": 10}}
    assert document["phases"][1]["busiest_tile"] == "r0c0"


def test_memory_has_a_row_for_each_phase(run: Run) -> None:
    memory = summary.document(run)["memory"]
    assert len(memory["wide"]["by_phase"]) == len(run.timeline.phases)
    assert memory["wide"]["peak"] == [1] + [0] * 15
    assert memory["narrow"]["capacity"] * memory["narrow"]["element_bytes"] == 192 * 1024


def test_lines_say_what_matters() -> None:
    operation = tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])
    text = summary.lines(run_of(operation))
    assert text[0] == "inference   100.0 µs on jetson_nano_10w_usb3"
    assert text[1] == "program     24.0 µs, 12,000 cycles at 500 MHz; 76.0 µs outside of it"
    assert "op 78.3 %" in text[5]
    assert text[6] == "op waits    data 5 cycles"
    assert text[8].split() == ["phase", "time", "share", "op", "busy", "MAC", "use", "bound", "by"]
    first = text[9].split("  ")
    assert first[0] == "1"
    assert "conv 1x1x32 -> 32" in text[9]
    assert text[9].endswith("op")


@pytest.mark.corpus
def test_only_the_longest_phases_are_listed(mobilenet: PackageFile) -> None:
    run = timelines.run(mobilenet)
    text = summary.lines(run)
    assert f"the 10 longest of {len(run.timeline.phases)} phases" in "\n".join(text)
    assert len(text) == text.index("") + 12


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.time(0.4), "0.4 µs"),
        (units.time(1234.5678), "1.235 ms"),
        (units.time(123_456), "123.5 ms"),
        (units.time(2_500_000), "2.50 s"),
        (units.size(1023), "1,023 B"),
        (units.size(2048), "2.0 KiB"),
        (units.size(3 << 20), "3.00 MiB"),
        (units.number(2.048e12), "2.05 T"),
        (units.number(999), "999 "),
        (units.share(0.1234), "12.3 %"),
        (units.share(0.0002), "< 0.1 %"),
        (units.share(0), "0.0 %"),
    ],
)
def test_units(text: str, expected: str) -> None:
    assert text == expected
