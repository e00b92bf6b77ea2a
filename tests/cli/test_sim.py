"""``sim`` on a tiny program made here, and on compiled models of the corpus."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.support import Run
from tests.driver.edgetpu_programs import POP, SIZE, echo
from tests.support import corpus, need

import fitzroy as library
from fitzroy.base.errors import SimulationError, UsageError
from fitzroy.base.types import Array
from fitzroy.cli.sim import fnv1a64
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.formats import darwinn, tflite
from fitzroy.linker.packages.container import wrapped

COUNTING = np.arange(SIZE, dtype=np.uint8)


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    path = tmp_path / "echo_edgetpu.tflite"
    path.write_bytes(tflite.write_model(wrapped(echo())))
    COUNTING.tofile(tmp_path / "x.raw")
    np.save(tmp_path / "x.npy", COUNTING.reshape(1, 8, 8, 4))
    return path


def test_the_hash() -> None:
    assert fnv1a64(b"") == "cbf29ce484222325"
    assert fnv1a64(b"foobar") == "85944171f73967e8"


@pytest.mark.parametrize("given", ["x.raw", "x.npy", "x=x.npy", "0=x.raw"])
def test_outputs_and_the_bytes_of_the_device(
    fitzroy: Run, compiled: Path, given: str, tmp_path: Path
) -> None:
    result = fitzroy("sim", compiled, "-i", given, "-o", "y.npy", "--raw-output", "y.raw")
    assert result.code == 0
    assert "y: uint8[1,256]" in result.out
    best = [line.split() for line in result.out.splitlines()[2:7]]
    assert best == [[str(n), f"{(n - 128) / 2:g}"] for n in (255, 254, 253, 252, 251)]
    assert fnv1a64(COUNTING.tobytes()) in result.out
    assert "wrote y.npy" in result.err
    np.testing.assert_array_equal(np.load("y.npy"), COUNTING[None])
    assert (tmp_path / "y.raw").read_bytes() == COUNTING.tobytes()


def test_json(fitzroy: Run, compiled: Path) -> None:
    results = [
        fitzroy("sim", compiled, "-i", "x.raw", "--json", *seed)
        for seed in ((), ("--seed", 1), ("--seed", 2))
    ]
    documents = [result.json for result in results]
    assert [document["seed"] for document in documents] == [None, 1, 2]
    for document in documents:
        assert document["stream"] == {"bytes": SIZE, "fnv1a64": fnv1a64(COUNTING.tobytes())}
        (output,) = document["outputs"]
        assert output["device_fnv1a64"] == document["stream"]["fnv1a64"]
        assert (output["name"], output["shape"]) == ("y", [1, SIZE])
        assert output["top"][0] == {"index": 255, "score": 63.5, "stored": 255}
        assert document["instructions"] > 20
        assert document["other_operators"] == 0


def test_quiet(fitzroy: Run, compiled: Path) -> None:
    assert fitzroy("sim", compiled, "-i", "x.raw", "-q").err == ""


def test_packages_and_executables(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(echo()))
    (tmp_path / "e.bin").write_bytes(darwinn.write_executable(echo().main))
    for name in ("p.dwn", "e.bin"):
        assert fitzroy("sim", name, "-i", "x.raw", "-o", "y.npy").code == 0
        np.testing.assert_array_equal(np.load("y.npy"), COUNTING[None])


def test_images(fitzroy: Run, tmp_path: Path) -> None:
    need("PIL", "images")
    from PIL import Image

    (tmp_path / "m.tflite").write_bytes(tflite.write_model(wrapped(echo(signed=True))))
    Image.fromarray(COUNTING.reshape(8, 8, 4), "RGBA").save("x.png")
    assert fitzroy("sim", "m.tflite", "-i", "x.png", "-o", "y.npy").code == 0
    wanted = (COUNTING.astype(np.int16) - 128).astype(np.int8)
    np.testing.assert_array_equal(np.load("y.npy"), wanted[None])
    norm = ("--mean", "127.5", "--std", "255")
    assert fitzroy("sim", "m.tflite", "-i", "x.png", *norm, "-o", "y.npy").code == 0
    np.testing.assert_array_equal(np.unique(np.load("y.npy")), [-1, 0, 1])


def test_a_deadlock(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "stuck.dwn").write_bytes(darwinn.write_package(echo(POP)))
    COUNTING.tofile("x.raw")
    result = fitzroy("sim", "stuck.dwn", "-i", "x.raw", "-o", "y.npy")
    assert (result.code, result.out) == (8, "")
    assert "error: deadlock\n  reason: the scalar core waits for tiles 0\n" in result.err
    assert "\n  tile 0: ring_consume_a #1 at bundle" in result.err
    assert "where: stuck.dwn, scalar_fence at bundle" in result.err
    assert not (tmp_path / "y.npy").exists()
    document = fitzroy("sim", "stuck.dwn", "-i", "x.raw", "--json").json
    assert (document["error"]["kind"], document["error"]["exit_code"]) == ("SimulationError", 8)


def test_models_with_more(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    model = tflite.read_model(compiled.read_bytes())
    [subgraph] = model.subgraphs or []
    [operator] = subgraph.operators or []
    twice = dataclasses.replace(subgraph, operators=[operator, operator])
    (tmp_path / "two.tflite").write_bytes(
        tflite.write_model(dataclasses.replace(model, subgraphs=[twice]))
    )
    refused = fitzroy("sim", "two.tflite", "-i", "x.raw")
    assert refused.code == 2
    assert "the model has 2 packages" in refused.err
    result = fitzroy("sim", "two.tflite", "-i", "x.raw", "--package", 1, "--json")
    assert (result.json["package"], result.json["packages"]) == (1, 2)
    assert result.json["other_operators"] == 1
    text = fitzroy("sim", "two.tflite", "-i", "x.raw", "--package", 0, "-q")
    assert text.code == 0
    assert "the model has 1 more operator\n" in text.err


def test_states_are_zero_unless_given(fitzroy: Run, compiled: Path) -> None:
    model = tflite.read_model(compiled.read_bytes())
    [subgraph] = model.subgraphs or []
    for tensor in subgraph.tensors or []:
        tensor.is_variable = tensor.name == "x"
    # What the model's caller gives would be no state.
    subgraph.inputs = np.zeros(0, np.int32)
    compiled.write_bytes(tflite.write_model(model))
    assert fitzroy("sim", compiled, "-o", "y.npy").code == 0
    assert (np.load("y.npy") == 128).all()
    x = COUNTING.reshape(1, 8, 8, 4)
    np.testing.assert_array_equal(library.simulate(compiled, {"x": x})["y"], COUNTING[None])
    assert fitzroy("sim", compiled, "-i", "x.raw").code == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "input 'x' is missing"),
        (["-i", "z=x.raw"], "no input named 'z'"),
        (["-i", "x.raw", "-i", "x.raw", "--raw-output", "y"], "--raw-output is for one inference"),
        (["-i", "short"], "the tensor has 256 bytes"),
        (["-i", "x.raw", "--package", "1"], "no package 1"),
        (["-i", "x.raw", "--package", "-1"], "no package -1"),
        (["-i", "x.raw", "--seed", "-1"], "--seed"),
        (["-i", "x.raw", "--mean", "1"], "are for images"),
        (["-i", "x.raw", "-o", "y.txt"], ".npy or .npz"),
        (["-i", "x.raw", "-o", "y.npy", "--raw-output", "y.npy"], "the same file"),
        (["-i", "x.raw", "-o", "echo_edgetpu.tflite"], "overwrite"),
        (["-i", "x.raw", "--raw-output", "nowhere/y"], "does not exist"),
        (["-i", "x.raw", "--clock", "turbo"], "no clock 'turbo'"),
        (["-i", "x.raw", "--host", "toaster"], "no host 'toaster'"),
        (["-i", "x.raw", "--usb", "1"], "no host with USB 1"),
        (["-i", "x.raw", "--usb", "2", "--host", "x"], "--usb and --host"),
        (["-i", "x.raw", "--functional", "--clock", "max"], "--functional does not go with"),
        (["-i", "x.raw", "--functional", "--trace", "t.json"], "--functional does not go with"),
        (["-i", "x.raw", "--stop-at", "2", "-o", "y.npy"], "--stop-at does not go with --output"),
        (["-i", "x.raw", "--stop-at", "2", "--usb", "2"], "--stop-at does not go with --usb"),
        (["-i", "x.raw", "--stop-at", "here"], "no place in a program"),
        (["-i", "x.raw", "--stop-at", "5:0"], "no chunk 5"),
        (["-i", "x.raw", "--tile", "0"], "--tile goes with"),
        (["-i", "x.raw", "--tile", "16", "--stop-at", "2"], "no tile 16"),
        (["-i", "x.raw", "--dump", "wide"], "no dump"),
        (["-i", "x.raw", "--dump", "huge=x.npy"], "no memory 'huge'"),
        (["-i", "x.raw", "--dump", "wide=x.txt"], ".npy or .npz"),
        (["-i", "x.raw", "--dump", "wide=y.npy", "-o", "y.npy"], "the same file"),
        (["-i", "x.raw", "--dump", "wide=y.npy", "--dump", "narrow=y.npy"], "the same file"),
        (["-i", "x.raw", "--dump", "wide=nowhere/x.npy"], "does not exist"),
        (["-i", "x.raw", "--report", "nowhere/r.html"], "does not exist"),
        (["-i", "x.raw", "--report", "r.json"], "the report is an HTML file"),
        (["-i", "x.raw", "-o", "y.txt"], "written as .npy or .npz"),
    ],
)
def test_mistakes(
    fitzroy: Run, compiled: Path, arguments: list[str], what: str, tmp_path: Path
) -> None:
    (tmp_path / "short").write_bytes(b"x")
    result = fitzroy("sim", compiled, *arguments)
    assert (result.code, result.out) == (2, "")
    assert what in result.err
    if "is missing" in what:
        assert "'x': uint8[1,8,8,4]" in result.err


def test_other_files(fitzroy: Run, digits: Path) -> None:
    result = fitzroy("sim", digits)
    assert result.code == 2
    assert "no Edge TPU operator" in result.err


# --- time ----------------------------------------------------------------------------------------


def test_timing(fitzroy: Run, compiled: Path) -> None:
    result = fitzroy("sim", compiled, "-i", "x.raw")
    assert "inference  " in result.out
    assert "on jetson_nano_10w_usb3\n" in result.out
    assert "at 500 MHz" in result.out
    assert "input + output" in result.out
    functional = fitzroy("sim", compiled, "-i", "x.raw", "--functional")
    assert functional.code == 0
    assert "inference" not in functional.out
    assert result.out.startswith(functional.out)
    assert fitzroy("sim", compiled, "-i", "x.raw", "--functional", "--json").json["timing"] is None


def test_clocks_and_hosts(fitzroy: Run, compiled: Path) -> None:
    def figures(*options: object) -> dict[str, Any]:
        timing: dict[str, Any] = fitzroy("sim", compiled, "-i", "x.raw", "--json", *options).json[
            "timing"
        ]
        assert timing["host_us"] + timing["chip_us"] == pytest.approx(timing["total_us"])
        assert sum(phase["us"] for phase in timing["phases"]) == pytest.approx(timing["chip_us"])
        return timing

    usual = figures()
    assert (usual["clock"], usual["core_mhz"]) == ("max", 500)
    assert usual["host"] == "jetson_nano_10w_usb3"
    assert usual["mac_utilization"] == 0
    assert usual["chip_us"] == pytest.approx(usual["cycles"] / 500)
    assert figures("--usb", 3) == usual
    slow = figures("--clock", "low")
    assert slow["core_mhz"] == 62.5
    assert slow["chip_us"] > usual["chip_us"]
    assert figures("--usb", 2)["host"] == "jetson_nano_10w_usb2"
    assert figures("--usb", 2)["total_us"] != usual["total_us"]
    assert figures("--host", "jetson_nano_5w_usb3")["host"] == "jetson_nano_5w_usb3"


def test_traces_and_reports(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    options = ("--trace", "t.json", "--report", "r.html", "--json")
    document = fitzroy("sim", compiled, "-i", "x.raw", *options).json
    assert document["written"] == ["t.json", "r.html"]
    trace = json.loads((tmp_path / "t.json").read_text())
    assert any(event["name"] == "ring_consume_a" for event in trace["traceEvents"])
    assert fitzroy("sim", compiled, "-i", "x.raw", "--trace", "t.json.gz").code == 0
    assert json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes())) == trace
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!")
    assert "echo_edgetpu.tflite" in page


# --- stopping ------------------------------------------------------------------------------------


def test_stopping_at_a_place(fitzroy: Run, compiled: Path) -> None:
    result = fitzroy("sim", compiled, "-i", "x.raw", "--stop-at", "0:28")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("0:28  outfeed row_words=64 to_host\n  phase 1, ")
    result = fitzroy("sim", compiled, "-i", "x.raw", "--stop-at", "20", "--json", "--tile", 0)
    document = result.json
    assert "outputs" not in document
    stopped = document["stopped"]
    assert (stopped["at"]["place"], stopped["at"]["over"]) == ("0:23", False)
    (head,) = stopped["waiting"]
    assert (head["unit"], head["tiles"], head["waits"]) == (
        *("ring_consume_a", "r0c0", "waits for data"),
    )
    assert list(stopped["flags"]) == ["0"]
    assert stopped["scalar_flags"]["avdata_pop"] == 32
    assert stopped["registers"]["s5"] == SIZE
    assert document["instructions"] == stopped["at"]["instructions"]
    last = fitzroy("sim", compiled, "-i", "x.raw", "--stop-at", "phase:1", "--json").json
    assert last["stopped"]["at"]["place"] == "0:35"
    assert last["stopped"]["done_tiles"] == list(range(16))
    assert len(last["stopped"]["flags"]) == 16


def test_a_stop_that_never_comes(fitzroy: Run, compiled: Path) -> None:
    result = fitzroy("sim", compiled, "-i", "x.raw", "--stop-at", "phase:9")
    assert result.code == 0
    assert "ended without coming to phase:9" in result.err
    assert fnv1a64(COUNTING.tobytes()) in result.out


def test_dumps(fitzroy: Run, compiled: Path) -> None:
    memories = {"narrow": (16, 49152), "wide": (16, 2080, 64), "scaling": (16, 128, 2)}
    dumps = [f"--dump={name}={name}.npy" for name in (*memories, "scalar")]
    before = ("--stop-at", "0:23")
    document = fitzroy("sim", compiled, "-i", "x.raw", "--json", *dumps, *before).json
    assert len(document["written"]) == 8
    for name, shape in memories.items():
        words, written = np.load(f"{name}.npy"), np.load(f"{name}_written.npy")
        assert (words.dtype, written.dtype) == (np.uint32, bool)
        assert words.shape == written.shape == shape
        assert not written.any()
    assert np.load("scalar.npy").shape == np.load("scalar_written.npy").shape == (4096,)
    assert fitzroy("sim", compiled, "-i", "x.raw", "--dump", "wide=w.npz").code == 0
    with np.load("w.npz") as archive:
        assert int(archive["written"].sum()) == SIZE // 4
        row = archive["wide"][0, 0x800].astype("<u4").view(np.uint8)
        np.testing.assert_array_equal(row, COUNTING)
    assert fitzroy("sim", compiled, "-i", "x.raw", "--tile", 0, "--dump", "wide=t.npy").code == 0
    assert np.load("t.npy").shape == memories["wide"][1:]


def test_a_deadlock_can_be_dumped(fitzroy: Run, tmp_path: Path) -> None:
    (tmp_path / "stuck.dwn").write_bytes(darwinn.write_package(echo(POP)))
    COUNTING.tofile("x.raw")
    result = fitzroy("sim", "stuck.dwn", "-i", "x.raw", "--dump", "wide=w.npy")
    assert result.code == 8
    assert "wrote w_written.npy" in result.err
    assert "the scalar core waits for tiles 0" in result.err
    assert not np.load("w_written.npy").any()


# --- the public function -------------------------------------------------------------------------


def test_simulate(compiled: Path, tmp_path: Path) -> None:
    x = COUNTING.reshape(1, 8, 8, 4)
    inputs: list[Mapping[str, Array] | Sequence[Array]] = [{"x": x}, [x], (x,)]
    for given in inputs:
        result = library.simulate(compiled, given, seed=5)
        assert list(result) == ["y"]
        np.testing.assert_array_equal(result["y"], COUNTING[None])
    for wrong in ({}, {"z": x}, {"x": x[0]}, {"x": x.astype(np.int8)}, [], [x, x]):
        with pytest.raises(UsageError):
            library.simulate(compiled, wrong)
    (tmp_path / "stuck.dwn").write_bytes(darwinn.write_package(echo(POP)))
    with pytest.raises(SimulationError, match="deadlock"):
        library.simulate(tmp_path / "stuck.dwn", [x])


def test_timed(compiled: Path) -> None:
    program = EdgeTpuProgram.load(compiled)
    inputs = {"x": COUNTING.reshape(1, 8, 8, 4)}
    outputs = program.start(inputs, record=True).finish()
    run = program.timed(outputs, clock="high", host="jetson_nano_5w_usb3")
    assert (run.timeline.clock, run.timeline.host) == ("high", "jetson_nano_5w_usb3")
    assert (run.inputs, run.outputs) == ({"x": SIZE}, {"y": SIZE})
    assert (run.streamed, run.cached) == (0, 0)
    [stream] = echo().main.instruction_bitstreams or []
    assert stream.bitstream is not None
    assert run.instructions == stream.bitstream.size
    for clock, host in (("warp", "jetson_nano_5w_usb3"), ("max", "abacus")):
        with pytest.raises(UsageError, match="there is no"):
            program.timed(outputs, clock=clock, host=host)
    with pytest.raises(UsageError, match="was not recorded"):
        program.timed(program.start(inputs).finish())


@pytest.mark.corpus
def test_parameters_of_a_timed_model() -> None:
    program = EdgeTpuProgram.load(corpus() / "templates" / "dense_256_edgetpu.tflite")
    [name] = program.inputs
    outputs = program.start({name: COUNTING.reshape(1, SIZE)}, record=True).finish()
    run = program.timed(outputs)
    assert (run.streamed, run.cached > SIZE * SIZE) == (0, True)
    assert sum(phase.bundles for phase in run.timeline.phases) > 0


# --- compiled models -----------------------------------------------------------------------------


@pytest.mark.corpus
def test_a_compiled_model(fitzroy: Run) -> None:
    (np.arange(256) % 251).astype(np.uint8).tofile("x.raw")
    model = corpus() / "templates" / "dense_256_edgetpu.tflite"
    for seed in ((), ("--seed", "4")):
        result = fitzroy("sim", model, "-i", "x.raw", "--json", *seed)
        assert result.json["stream"] == {"bytes": 256, "fnv1a64": "400646501957766c"}


@pytest.mark.corpus
def test_the_hash_of_a_real_device(fitzroy: Run) -> None:
    pattern = (np.arange(12 * 176 * 32) % 251).astype(np.uint8)
    # The published hash is for these bytes on the wire; the driver biases signed elements.
    (pattern ^ 0x80).tofile("x.raw")
    model = corpus() / "conv3x3" / "conv2d_12x176x32_to_32_k3_s1_same_quant_edgetpu.tflite"
    result = fitzroy("sim", model, "-i", "x.raw", "--json")
    assert result.json["stream"] == {"bytes": 67584, "fnv1a64": "00435b5db3e2d027"}
    (output,) = result.json["outputs"]
    assert output["type"].startswith("int8[1,12,176,32]")
