"""Bytecode modules on the command line: made, shown, taken apart, executed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run

import fitzroy as library
from fitzroy.base.types import Array


@pytest.fixture
def wanted(digits: Path, tmp_path: Path) -> Array:
    """What the chip answers to ``x.npy``."""
    compiled = tmp_path / "digits_edgetpu.tflite"
    compiled.write_bytes(library.compile_edgetpu(digits).data)
    x = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    np.save(tmp_path / "x.npy", x)
    return library.simulate(compiled, [x])["probabilities"]


def ran(fitzroy: Run, file: str, *options: str) -> Array:
    result = fitzroy("run", file, *options, "-i", "x.npy", "-o", "y.npy")
    assert result.code == 0, result.err
    return np.asarray(np.load("y.npy"))


@pytest.mark.long
def test_from_source_and_from_compiled_model(fitzroy: Run, digits: Path, wanted: Array) -> None:
    assert fitzroy("compile", digits, "--format", "module", "-o", "a.module").code == 0
    result = fitzroy("compile", "digits_edgetpu.tflite", "--format", "module")
    assert "wrote digits_edgetpu.module" in result.out
    for file in ("a.module", "digits_edgetpu.module"):
        np.testing.assert_array_equal(ran(fitzroy, file, "--device", "sim:direct"), wanted)


def test_on_xnnpack(fitzroy: Run, digits: Path, wanted: Array) -> None:
    options = ("--target", "xnnpack", "--format", "module", "-o", "x.module", "--json")
    result = fitzroy("compile", digits, *options)
    (file,) = result.json["files"]
    assert {entry["name"] for entry in file["imports"]} >= {"xnnpack.invoke"}
    graph = library.load(digits)
    expected = library.evaluate(graph, {"image": np.load("x.npy")})["probabilities"]
    np.testing.assert_array_equal(ran(fitzroy, "x.module"), expected)
    refused = fitzroy("run", "x.module", "--device", "sim", "-i", "x.npy")
    assert refused.code == 2
    assert "--device" in refused.err


@pytest.mark.long
def test_several_models_in_one_module(fitzroy: Run, digits: Path, wanted: Array) -> None:
    Path("other.tflite").write_bytes(digits.read_bytes())
    options = ("--format", "module", "-o", "both.module", "--log", "--dump", "stages")
    assert fitzroy("compile", digits, "other.tflite", *options).code == 0
    exports = fitzroy("inspect", "both.module", "--json").json["exports"]
    assert [item["name"] for item in exports] == ["digits", "other"]
    assert Path("both.log").read_text().count("Input model") == 2
    assert {path.name for path in Path("stages").iterdir()} == {"digits", "other"}
    found = ran(fitzroy, "both.module", "--method", "other", "--device", "sim:direct")
    np.testing.assert_array_equal(found, wanted)
    unknown = fitzroy("run", "both.module", "--method", "none", "-i", "x.npy")
    assert unknown.code == 2
    assert "'digits', 'other'" in unknown.err


def test_sources_and_compiled_models_do_not_mix(fitzroy: Run, digits: Path, wanted: Array) -> None:
    result = fitzroy("compile", digits, "digits_edgetpu.tflite", "--format", "module")
    assert result.code == 2
    assert "some models are compiled" in result.err


@pytest.mark.long
def test_shown_and_taken_apart(fitzroy: Run, digits: Path, wanted: Array) -> None:
    assert fitzroy("compile", digits, "--format", "module", "-o", "a.module").code == 0
    shown = fitzroy("inspect", "a.module")
    assert "DarwiNN package" in shown.out
    assert "darwinn.execute" in shown.out
    assert fitzroy("inspect", "a.module", "--tables").json["name"] == "digits"
    assert fitzroy("dis", "a.module", "-o", "a.s").code == 0
    assert fitzroy("as", "a.s", "-o", "b.module").code == 0
    assert Path("b.module").read_bytes() == Path("a.module").read_bytes()
    text = Path("a.s").read_text()
    assert "(%r2!, %r0, %r1)" in text
    Path("bad.s").write_text(text.replace("%r0,", "%r63,"))
    # The assembler writes what it reads; whoever loads the module refuses it.
    assert fitzroy("as", "bad.s", "-o", "bad.module").code == 0
    for verb in (["inspect", "bad.module", "--json"], ["run", "bad.module", "-i", "x.npy"]):
        refused = fitzroy(*verb)
        assert refused.code == 3
        assert "registers" in refused.out + refused.err
    assert fitzroy("dis", "bad.module").code == 0
