"""``sim`` on a tiny program made here, and on compiled models of the corpus."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.driver.edgetpu_programs import POP, SIZE, echo
from tests.support import corpus, need

import fitzroy as library
from fitzroy.base.errors import SimulationError, UsageError
from fitzroy.base.types import Array
from fitzroy.cli.sim import fnv1a64
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
    compiled.write_bytes(tflite.write_model(model))
    assert fitzroy("sim", compiled, "-o", "y.npy").code == 0
    assert (np.load("y.npy") == 128).all()
    x = COUNTING.reshape(1, 8, 8, 4)
    np.testing.assert_array_equal(library.simulate(compiled, {"x": x})["y"], COUNTING[None])
    assert fitzroy("sim", compiled, "-i", "x.raw").code == 2


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "input 'x' is missing"),
        (["-i", "z=x.raw"], "no input named 'z'"),
        (["-i", "x.raw", "-i", "x.raw"], "2 inputs given, 1 wanted"),
        (["-i", "short"], "the tensor has 256 bytes"),
        (["-i", "x.raw", "--package", "1"], "no package 1"),
        (["-i", "x.raw", "--package", "-1"], "no package -1"),
        (["-i", "x.raw", "--seed", "-1"], "--seed"),
        (["-i", "x.raw", "--mean", "1"], "are for images"),
        (["-i", "x.raw", "-o", "y.txt"], ".npy or .npz"),
        (["-i", "x.raw", "-o", "y.npy", "--raw-output", "y.npy"], "the same file"),
        (["-i", "x.raw", "-o", "echo_edgetpu.tflite"], "overwrite"),
        (["-i", "x.raw", "--raw-output", "nowhere/y"], "does not exist"),
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
