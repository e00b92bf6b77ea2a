"""Several inferences in one call, and what ``--expect`` and ``--max-us`` make of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.driver.edgetpu_programs import SIZE, echo

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.formats import tflite
from fitzroy.linker.packages.container import wrapped

RNG = np.random.default_rng(0)
SAMPLES = {name: RNG.integers(0, 256, SIZE).astype(np.uint8) for name in ("a", "b", "c")}


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A program that gives back what it is given, and three inputs for it."""
    path = tmp_path / "echo_edgetpu.tflite"
    path.write_bytes(tflite.write_model(wrapped(echo())))
    (tmp_path / "in").mkdir()
    for name, sample in SAMPLES.items():
        sample.tofile(tmp_path / "in" / f"{name}.raw")
    (tmp_path / "in" / ".hidden").write_bytes(b"")
    return path


@pytest.mark.parametrize("given", [["in"], ["in/a.raw", "x=in/b.raw", "in/c.raw"]])
def test_a_folder_and_several_files(
    fitzroy: Run, compiled: Path, tmp_path: Path, given: list[str]
) -> None:
    flags = [part for item in given if "=" not in item or len(given) == 1 for part in ("-i", item)]
    wanted = [name for name in SAMPLES if len(given) == 1 or name != "b"]
    result = fitzroy("sim", compiled, *flags, "-o", "out", "--json")
    assert result.code == 0
    document = result.json
    assert document["schema"] == "fitzroy-sim-batch"
    assert [item["name"] for item in document["inferences"]] == wanted
    assert document["timing"]["total_us"] > 0
    assert document["written"] == [f"out/{name}.npy" for name in wanted]
    for name, item in zip(wanted, document["inferences"], strict=True):
        np.testing.assert_array_equal(np.load(tmp_path / f"out/{name}.npy"), SAMPLES[name][None])
        assert item["inputs"] == [f"in/{name}.raw"]
        assert item["stream"]["bytes"] == SIZE


def test_run_takes_them_too(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    common = ("run", compiled, "--device", "sim:direct", "-i", "in")
    document = fitzroy(*common, "-o", "out", "--raw-output", "--json").json
    assert document["schema"] == "fitzroy-run-batch"
    assert [item["written"] for item in document["inferences"]] == [
        [f"out/{name}.bin"] for name in SAMPLES
    ]
    assert (tmp_path / "out/b.bin").read_bytes() == SAMPLES["b"].tobytes()
    text = fitzroy(*common)
    assert [line for line in text.out.splitlines() if line in SAMPLES] == [*SAMPLES]


def test_what_is_of_one_inference(fitzroy: Run, compiled: Path) -> None:
    for option in (
        ("--raw-output", "y"), ("--trace", "t.json"), ("--report", "r.html"),
        ("--dump", "wide=w.npy"),
    ):  # fmt: skip
        result = fitzroy("sim", compiled, "-i", "in", *option)
        assert result.code == 2
        assert f"{option[0]} is for one inference, and there are inputs for 3" in result.err
    result = fitzroy("sim", compiled, "-i", "in", "-o", "y.npy")
    assert result.code == 2
    assert "outputs of several inferences go to a folder" in result.err
    several = fitzroy("debug", compiled, "-i", "in")
    assert several.code == 2
    assert "inputs for 3 inferences, one is wanted" in several.err


def test_folders_that_are_none(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = fitzroy("sim", compiled, "-i", "empty")
    assert (result.code, "a folder with 0 files for an input" in result.err) == (2, True)


def test_folders_of_several_inputs_belong_together(fitzroy: Run, tmp_path: Path) -> None:
    graph, type = Graph("sum"), TensorType((2,), DType.FLOAT32)
    graph.add_input("left", type)
    graph.add_input("right", type)
    graph.outputs = [graph.emit("sub", ["left", "right"], type, attributes_of("sub")(), stem="y")]
    path = tmp_path / "sum.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        for number in range(2):
            np.save(
                tmp_path / side / f"{number}.npy", np.full(2, number + (side == "left"), np.float32)
            )
    pairs = ("-i", "left=left", "-i", "right=right")
    result = fitzroy("run", path, *pairs, "--json")
    assert [item["outputs"][0]["max"] for item in result.json["inferences"]] == [1.0, 1.0]
    (tmp_path / "right" / "1.npy").rename(tmp_path / "right" / "2.npy")
    result = fitzroy("run", path, *pairs)
    assert (result.code, "do not belong together" in result.err) == (2, True)
    (tmp_path / "right" / "2.npy").unlink()
    result = fitzroy("run", path, *pairs)
    assert (result.code, "'left' is given 2 times, and 'right' once" in result.err) == (2, True)


def test_expected_outputs(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    one = ("sim", compiled, "-i", "in/a.raw", "--functional")
    (tmp_path / "golden.json").write_text(fitzroy(*one, "--json").out)
    np.save(tmp_path / "a.npy", SAMPLES["a"][None])
    np.save(tmp_path / "b.npy", SAMPLES["b"][None])
    for good in ("golden.json", "a.npy"):
        result = fitzroy(*one, "--expect", good)
        assert result.code == 0
        assert f"outputs are those of {good}" in result.err
    off = int(np.abs(SAMPLES["a"].astype(int) - SAMPLES["b"]).max())
    for tolerance, code in ((off, 0), (off - 1, 9), (None, 9)):
        flags = () if tolerance is None else ("--tolerance", tolerance)
        result = fitzroy(*one, "--expect", "b.npy", *flags, "--json")
        assert result.code == code
        assert len(result.json["expected"]["deviations"]) == bool(code)
        assert ("error" in result.json) == bool(code)
    text = fitzroy(*one, "--expect", "b.npy")
    assert text.code == 9
    assert "error: outputs are not as expected" in text.err
    assert f"by at most {off}" in text.err
    assert fitzroy(*one, "--tolerance", 1).code == 2


def test_expected_outputs_of_many(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    many = ("sim", compiled, "-i", "in", "--functional")
    (tmp_path / "golden.json").write_text(fitzroy(*many, "-o", "out", "--json").out)
    assert fitzroy(*many, "--expect", "golden.json").code == 0
    assert fitzroy(*many, "--expect", "out").code == 0
    assert (
        fitzroy("run", compiled, "--device", "sim:direct", "-i", "in", "--expect", "out").code == 0
    )
    np.save(tmp_path / "out" / "b.npy", SAMPLES["a"][None])
    result = fitzroy(*many, "--expect", "out")
    assert result.code == 9
    assert "outputs of 1 of 3 inferences are not as expected" in result.err
    assert "b, y: " in result.err
    (tmp_path / "out" / "c.npy").unlink()
    assert "nothing is expected of 'c'" in fitzroy(*many, "--expect", "out").err


def test_the_most_microseconds(fitzroy: Run, compiled: Path) -> None:
    us = fitzroy("sim", compiled, "-i", "in/a.raw", "--json").json["timing"]["total_us"]
    assert fitzroy("sim", compiled, "-i", "in/a.raw", "--max-us", us + 1).code == 0
    for given in ("in/a.raw", "in"):
        result = fitzroy("sim", compiled, "-i", given, "--max-us", us - 1, "--json")
        assert result.code == 9
        assert result.json["limit"] == {"max_us": us - 1, "us": us}
        assert result.json["error"]["exit_code"] == 9
    late = fitzroy("sim", compiled, "-i", "in/a.raw", "--max-us", 1)
    assert "at most 1 µs are allowed" in late.err
    functional = fitzroy("sim", compiled, "-i", "in/a.raw", "--functional", "--max-us", 1)
    assert (functional.code, "--max-us" in functional.err) == (2, True)
    simulated = fitzroy("run", compiled, "--device", "sim", "-i", "in/a.raw", "--max-us", 1)
    assert simulated.code == 2
    assert "its time is that of the simulation" in simulated.err


def test_measured_times_have_a_limit(fitzroy: Run, digits: Path, images: list[Path]) -> None:
    common = ("run", digits, "-i", images[0], "-i", images[1], "--json")
    document = fitzroy(*common, "--max-us", 1e9).json
    assert 0 < document["limit"]["us"] < 1e9
    slow = fitzroy(*common, "--max-us", 0)
    assert slow.code == 9
    assert json.loads(slow.out)["limit"]["max_us"] == 0
