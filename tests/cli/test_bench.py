"""``fitzroy bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.support import Run

import fitzroy
from fitzroy.execution.estimate import estimate
from fitzroy.linker.packages.container import read_container
from fitzroy.measurement.bench import Latencies, Traffic, session_traffic


@pytest.fixture
def compiled(digits: Path, tmp_path: Path) -> Path:
    path = tmp_path / "digits_edgetpu.tflite"
    path.write_bytes(fitzroy.compile_edgetpu(digits).data)
    return path


def test_percentiles_are_measured_values() -> None:
    latencies = Latencies(tuple(float(n) for n in range(100, 0, -1)))
    assert [latencies.percentile(p) for p in (50, 90, 99, 100)] == [50, 90, 99, 100]
    assert latencies.mean == 50.5
    assert Latencies((3.0,)).percentile(50) == 3.0


@pytest.mark.long
def test_figures(fitzroy: Run, compiled: Path) -> None:
    result = fitzroy(
        "bench", compiled, "--device", "sim:direct", "--simulation", "--runs", 3, "--json"
    )
    assert result.code == 0
    document = result.json
    assert document["runs"] == 3
    assert document["ran_on"] == "the simulated chip"
    assert document["first_seconds"] > 0
    (part,) = document["parts"]
    for figures in (document["seconds"], part["seconds"]):
        assert figures["min"] <= figures["p50"] <= figures["p90"] <= figures["p99"]
        assert figures["p99"] == figures["max"]
        assert figures["min"] <= figures["mean"] <= figures["max"]
    (package,) = read_container(compiled.read_bytes()).packages
    run = estimate(package, "")
    predicted = document["predicted"]
    assert predicted["seconds"] == pytest.approx(run.timeline.total / 1e6)
    transfers = {item["kind"]: item for item in predicted["transfers"]}
    assert transfers["input"]["bytes"] == sum(run.inputs.values())
    assert transfers["output"]["bytes"] == sum(run.outputs.values())
    assert transfers["instructions"]["bytes"] == run.instructions


def test_transfers_on_usb(fitzroy: Run, compiled: Path) -> None:
    result = fitzroy("bench", compiled, "--device", "sim", "--simulation", "--runs", 1, "--json")
    assert result.code == 0
    sizes = {
        side: {item["kind"]: item["bytes"] for item in entries}
        for side, entries in (
            ("seen", result.json["transfers"]),
            ("told", result.json["predicted"]["transfers"]),
        )
    }
    # Every message has a header of 8 bytes.
    assert sizes["seen"]["instructions"] == sizes["told"]["instructions"] + 8
    assert sizes["seen"]["input"] == sizes["told"]["input"] + 8
    assert sizes["seen"]["output"] == sizes["told"]["output"]
    assert "parameters" not in sizes["seen"]


def test_sessions_by_kind() -> None:
    def entry(t: float, op: str, endpoint: str, data: bytes) -> dict[str, Any]:
        known = {"t": t, "op": op, "endpoint": endpoint, "data": data.hex()}
        return known | ({"sent": len(data)} if op == "write" else {})

    header = (300).to_bytes(4, "little") + b"\2\0\0\0"
    found = session_traffic(
        [
            {"t": 1.0, "op": "open"},
            entry(1.5, "write", "0x01", header),
            entry(2.0, "write", "0x01", bytes(256)),
            entry(2.25, "write", "0x01", bytes(44)),
            {"t": 3.0, "op": "control", "data": "00"},
            entry(4.0, "read", "0x81", bytes(10)),
            entry(4.5, "read", "0x82", bytes(16)),
            {"t": 5.0, "op": "read", "endpoint": "0x81", "error": "timeout"},
        ]
    )
    assert found == (
        Traffic("parameters", 3, 308, 1.25),
        Traffic("control", 1, 0, 0.75),
        Traffic("output", 2, 10, 1.5),
        Traffic("event", 1, 16, 0.5),
    )


@pytest.mark.long
def test_slower_links_are_predicted_slower(fitzroy: Run, compiled: Path) -> None:
    found = [
        fitzroy("bench", compiled, "--device", "sim:direct", "--usb", usb, "--json")
        for usb in (2, 3)
    ]
    slow, fast = (result.json["predicted"] for result in found)
    assert slow["seconds"] > fast["seconds"]
    assert slow["host"].endswith("usb2")


def test_a_simulated_device_is_predicted_without_an_inference(
    fitzroy: Run, compiled: Path, monkeypatch: pytest.MonkeyPatch, images: list[Path]
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("nothing runs")

    monkeypatch.setattr("fitzroy.measurement.bench.measure", refuse)
    result = fitzroy("bench", compiled, "--device", "sim", "--json")
    assert result.code == 0
    document = result.json
    assert (document["ran_on"], document["runs"]) == ("the timing model", 0)
    assert document["seconds"] is document["first_seconds"] is document["transfers"] is None
    predicted = document["predicted"]
    assert sum(part["seconds"] for part in predicted["parts"]) == pytest.approx(
        predicted["seconds"]
    )
    assert fitzroy("bench", compiled, "--json").json["predicted"] == predicted
    told = fitzroy("bench", compiled, "--device", "sim", "-i", images[0])
    assert "predicted at clock max" in told.out
    assert "measured" not in told.out
    assert "does not depend on inputs" in told.err
    for option in (
        ("--prove", 2),
        ("--record", "s.jsonl"),
        ("--firmware", "f"),
        ("--timeout", 2),
    ):
        result = fitzroy("bench", compiled, "--device", "sim", *option)
        assert result.code == 2
        assert f"{option[0]} is for inferences" in result.err
        assert "add --simulation" in result.err
    assert not Path("s.jsonl").exists()


def test_a_twin_is_measured_as_a_simulation(fitzroy: Run, compiled: Path, digits: Path) -> None:
    twin = f"twin:{digits}"
    found = fitzroy("bench", compiled, "--device", twin, "--simulation", "--runs", 2, "--json")
    assert found.code == 0, found.err
    assert (found.json["runs"], found.json["transfers"]) == (2, None)


def test_unknown_devices_are_refused_without_an_inference(fitzroy: Run, compiled: Path) -> None:
    result = fitzroy("bench", compiled, "--device", "tpu")
    assert result.code == 2
    assert "no device 'tpu'" in result.err
    assert "twin:MODEL" in result.err


def test_tables(fitzroy: Run, compiled: Path, images: list[Path]) -> None:
    options = ("--device", "sim:direct", "--simulation", "--runs", 2)
    result = fitzroy("bench", compiled, *options, "-i", images[0])
    assert result.code == 0
    assert "2 inferences on the simulated chip" in result.err
    head, total, part, *rest = result.out.splitlines()
    assert head.split() == ["measured", "p50", "p90", "p99", "mean", "min", "max"]
    assert total.startswith("inference")
    assert part.startswith("Edge TPU: package 0")
    assert any(line.startswith("predicted at clock max") for line in rest)
    assert any("transfers" in line for line in rest)


def test_programs_without_prediction(
    fitzroy: Run, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fitzroy.base.errors import SimulationError

    def refuse(*arguments: object) -> None:
        raise SimulationError("its course depends on data")

    monkeypatch.setattr("fitzroy.execution.whole.estimate", refuse)
    result = fitzroy("bench", compiled, "--device", "sim:direct")
    assert result.code == 0
    assert "no prediction" in result.err
    assert "its course depends on data" in result.err
    assert "predicted" not in result.out


@pytest.mark.parametrize("kind", ["model", "array"])
def test_only_compiled_models(fitzroy: Run, digits: Path, kind: str) -> None:
    np.save("x.npy", np.zeros(3))
    result = fitzroy("bench", digits if kind == "model" else "x.npy")
    assert result.code in (2, 3)
    assert ("Edge TPU" if kind == "model" else "an array of numpy") in result.err
