"""``fitzroy run`` on devices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.given import EXAMPLES
from tests.support import need_litert

import fitzroy
from fitzroy.base.types import Array
from fitzroy.hw_models.csr.beagle import SCU_CTRL_3
from fitzroy.hw_models.csr.fields import CoreClock


@pytest.fixture
def compiled(digits: Path, tmp_path: Path) -> Path:
    path = tmp_path / "digits_edgetpu.tflite"
    path.write_bytes(fitzroy.compile_edgetpu(digits).data)
    return path


@pytest.fixture
def wanted(compiled: Path, tmp_path: Path) -> Array:
    """What the chip answers to ``x.npy``."""
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    np.save(tmp_path / "x.npy", x)
    return fitzroy.simulate(compiled, [x])["probabilities"]


@pytest.mark.parametrize("device", ["sim", "sim:direct"])
def test_simulated_devices(fitzroy: Run, compiled: Path, wanted: Array, device: str) -> None:
    result = fitzroy("run", compiled, "--device", device, "-i", "x.npy", "-o", "y.npy", "--json")
    assert result.code == 0
    np.testing.assert_array_equal(np.load("y.npy"), wanted)
    assert "simulated chip" in result.json["ran_on"]
    (part,) = result.json["parts"]
    assert (part["on"], part["what"]) == ("Edge TPU", "package 0")
    assert 0 < part["seconds"] <= result.json["seconds"]


def test_a_session_is_recorded_and_replayed(fitzroy: Run, compiled: Path, wanted: Array) -> None:
    recorded = fitzroy(
        "run", compiled, "--device", "sim", "-i", "x.npy", "-o", "y.npy", "--record", "s.jsonl"
    )
    assert recorded.code == 0
    assert Path("s.jsonl").stat().st_size > 1000
    replay = ("--device", "replay:s.jsonl")
    assert fitzroy("run", compiled, *replay, "-i", "x.npy", "-o", "z.npy").code == 0
    np.testing.assert_array_equal(np.load("y.npy"), wanted)
    np.testing.assert_array_equal(np.load("z.npy"), wanted)


def test_images_and_labels(fitzroy: Run, compiled: Path, images: list[Path], labels: Path) -> None:
    result = fitzroy(
        "run", compiled, "--device", "sim:direct", "-i", images[4], "--labels", labels, "--top", 1
    )
    assert result.code == 0
    assert result.out.splitlines()[2].split()[2] == "4"
    assert "ran on the simulated chip" in result.err


@pytest.mark.parametrize("option", [("--detections",), ("--score-threshold", "0.9")])
def test_objects_are_chosen_when_compiling(
    fitzroy: Run, compiled: Path, option: tuple[str, ...]
) -> None:
    result = fitzroy("run", compiled, "--device", "sim:direct", "-i", "x.npy", *option)
    assert result.code == 2
    assert f"{option[0]} has no meaning for a compiled model" in result.err
    assert "fitzroy compile MODEL --detections" in result.err


def test_labels_without_use_in_a_simulation(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("a\nb\n")
    result = fitzroy("sim", compiled, "-i", "x.npy", "--functional", "--labels", "few.txt")
    assert "warning: 2 labels for 10 scores" in result.err


def test_litert_for_the_host(fitzroy: Run, digits: Path, compiled: Path, wanted: Array) -> None:
    need_litert()
    litert = ("--runtime", "litert", "-i", "x.npy", "--json")
    result = fitzroy("run", digits, *litert)
    assert result.code == 0
    assert result.json["ran_on"] == "LiteRT"
    result = fitzroy("run", compiled, "--device", "sim:direct", *litert)
    assert result.code == 0
    assert result.json["ran_on"] == "the simulated chip"


@pytest.mark.parametrize(
    "option",
    [
        ("--device", "sim"),
        ("--record", "s.jsonl"),
        ("--firmware", "f.bin"),
        ("--clock", "low"),
    ],
)
def test_only_compiled_models_have_devices(
    fitzroy: Run, digits: Path, program: Path, wanted: Array, option: tuple[str, str]
) -> None:
    for file in (digits, program):
        result = fitzroy("run", file, *option, "-i", "x.npy")
        assert result.code == 2
        assert f"{option[0]} is for models that are compiled" in result.err
        assert "--target edgetpu" in result.err


@pytest.mark.parametrize(
    ("clock", "value"), [("max", CoreClock.MHZ_500), ("low", CoreClock.MHZ_62)]
)
def test_clocks(
    fitzroy: Run, compiled: Path, wanted: Array, tmp_path: Path, clock: str, value: CoreClock
) -> None:
    session = tmp_path / "clock.jsonl"
    options = ("--device", "sim", "--clock", clock, "--record", session)
    assert fitzroy("run", compiled, "-i", "x.npy", *options).code == 0
    lines = [json.loads(line) for line in session.read_text().splitlines()]
    written = [
        int.from_bytes(bytes.fromhex(line["data"]), "little")
        for line in lines
        if line.get("register") == SCU_CTRL_3.name and line["type"] == "0x40"
    ]
    assert value in {SCU_CTRL_3.field(number, "gcb_clock") for number in written}


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--device", "moon"), "no device 'moon'"),
        (("--device", "replay:absent.jsonl"), "absent.jsonl"),
        (("--clock", "fast"), "there is no clock 'fast'"),
        (("--runtime", "oracle"), "--runtime has no meaning"),
        (("--threads", "2"), "--threads has no meaning"),
        (("--method", "forward"), "--method has no meaning"),
        (("--device", "sim:direct", "--record", "s.jsonl"), "nothing to record"),
    ],
)
def test_options_that_make_no_sense(
    fitzroy: Run, compiled: Path, wanted: Array, options: tuple[str, ...], text: str
) -> None:
    result = fitzroy("run", compiled, "-i", "x.npy", *options)
    assert result.code == 2
    assert text in result.err


def test_litert_does_not_run_programs(fitzroy: Run, program: Path, wanted: Array) -> None:
    result = fitzroy("run", program, "-i", "x.npy", "--runtime", "litert")
    assert result.code == 2
    assert "--runtime has no meaning for a program" in result.err


def test_time_limits(fitzroy: Run, compiled: Path, wanted: Array, digits: Path) -> None:
    given = ("run", compiled, "-i", "x.npy")
    assert fitzroy(*given, "--device", "sim", "--timeout", 60).code == 0
    late = fitzroy(*given, "--device", "sim", "--timeout", 0.001)
    assert late.code == 7
    assert "no result within 0.001 s" in late.err
    assert fitzroy(*given, "--device", "sim", "--timeout", 0).code == 2
    # Where it would have no effect, it is refused.
    assert fitzroy(*given, "--device", "sim:direct", "--timeout", 60).code == 2
    host = fitzroy("run", digits, "-i", "x.npy", "--timeout", 60)
    assert host.code == 2
    assert "--timeout is for models that are compiled" in host.err


@pytest.fixture
def segment(fitzroy: Run, digits: Path) -> str:
    """One of three segments."""
    assert fitzroy("compile", digits, "--num-segments", 3, "--out-dir", "s", "-q").code == 0
    return "s/digits_segment_1_of_3_edgetpu.tflite"


def test_segments_on_several_devices(
    fitzroy: Run, compiled: Path, wanted: Array, segment: str, tmp_path: Path
) -> None:
    result = fitzroy("run", segment, "--devices", "sim:direct:3", "-i", "x.npy", "-o", "y.npy")
    assert result.code == 0
    np.testing.assert_array_equal(np.load("y.npy"), wanted)
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(4):
        np.save(folder / f"{number}.npy", np.load("x.npy"))
    result = fitzroy("run", segment, "--devices", "sim:direct:3", "-i", folder, "--json")
    assert [item["name"] for item in result.json["inferences"]] == ["0", "1", "2", "3"]
    assert [len(item["parts"]) for item in result.json["inferences"]] == [3] * 4
    for extra in (["--device", "sim"], ["--prove", 1], ["--threads", 2]):
        assert fitzroy("run", segment, "--devices", "sim:3", "-i", "x.npy", *extra).code == 2
    assert fitzroy("run", segment, "--devices", "sim:2", "-i", "x.npy").code == 2
    assert fitzroy("run", compiled, "--devices", "sim:direct", "-i", "x.npy").code == 0


@pytest.mark.long
def test_segments_list_objects(fitzroy: Run, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    folder = EXAMPLES / "detector"
    compiling = ("compile", folder / "detector.tflite", "--detections", "--num-segments", 2)
    assert fitzroy(*compiling, "--calibrate", folder / "calibration", "-q").code == 0
    segment = "detector_segment_0_of_2_edgetpu.tflite"
    picture = folder / "scenes" / "00.png"
    given = ("run", segment, "--devices", "sim:direct:2", "-i", picture, "--draw", "found.png")
    result = fitzroy(*given, "--labels", folder / "labels.txt", "--json")
    assert result.code == 0, result.err
    assert [item["label"] for item in result.json["objects"]] == ["8", "6"]
    assert result.json["written"] == ["found.png"]


def test_throughput_of_segments(fitzroy: Run, segment: str) -> None:
    found = fitzroy("bench", segment, "--devices", "sim:direct:3", "--json").json
    predicted = found["predicted"]
    slowest = max(predicted["segment_seconds"])
    # Segments wait for a controller that they share, and less than one after the other would.
    assert slowest <= predicted["interval_seconds"] < predicted["latency_seconds"]
    assert predicted["per_second"] == pytest.approx(1 / predicted["interval_seconds"])
    assert predicted["latency_seconds"] == pytest.approx(sum(predicted["segment_seconds"]))
    assert found["measured"] is None
    options = ("--devices", "sim:direct:3", "--simulation", "--runs", 2)
    found = fitzroy("bench", segment, *options, "--json").json
    assert found["measured"]["per_second"] > 0
    result = fitzroy("bench", segment, *options)
    assert "inferences a second" in result.out
    assert fitzroy("bench", segment, "--devices", "sim:3", "-i", "x.npy").code == 2
