"""What verbs say of operators that have no class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.support import need_litert
from tests.test_opaque import image, tailed

from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ops.catalog import TFLITE
from fitzroy.formats import tflite


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tailed.tflite"
    path.write_bytes(tflite.write_model(export_model(tailed())))
    np.save(tmp_path / "x.npy", image())
    monkeypatch.delitem(TFLITE, "LEAKY_RELU")
    return path


def test_compile(fitzroy: Run, model: Path) -> None:
    result = fitzroy("compile", model, "--explain")
    assert result.code == 0
    assert "Number of operations that will run on CPU: 5" in result.out
    assert "opaque-operator: LEAKY_RELU is opaque" in result.out
    assert "hint: it stays as it is, and LiteRT runs it on the host" in result.out


def test_explain(fitzroy: Run, model: Path) -> None:
    result = fitzroy("explain", model)
    assert result.code == 0
    [row] = [line for line in result.out.splitlines() if line.split()[1:2] == ["LEAKY_RELU"]][:1]
    assert row.split()[2:] == ["float32[1,10]", "host"]
    assert "opaque-operator: LEAKY_RELU is opaque" in result.out
    other = fitzroy("explain", model, "--target", "xnnpack")
    assert other.code == 4
    assert "opaque-operator: LEAKY_RELU is opaque" in other.out


def test_inspect(fitzroy: Run, model: Path) -> None:
    result = fitzroy("inspect", model, "--full")
    assert "opaque operators, which LiteRT computes" in result.out
    assert "LEAKY_RELU: it is none of the operators of docs/operators.md" in result.out
    document = fitzroy("inspect", model, "--json").json
    reasons = {item["op"]: item.get("opaque") for item in document["subgraphs"][0]["operators"]}
    assert [name for name, reason in reasons.items() if reason] == ["LEAKY_RELU"]


def test_run(fitzroy: Run, model: Path) -> None:
    need_litert()
    result = fitzroy("run", model, "-i", "x.npy", "--json")
    assert result.json["ran_on"] == "numpy with the rounding of XNNPACK, and LiteRT"
    assert [(part["on"], part["what"]) for part in result.json["parts"]][1:] == [
        ("LiteRT", "LEAKY_RELU"),
        ("reference", "EXP, ADD"),
    ]
    assert fitzroy("compile", model, "-o", "compiled.tflite").code == 0
    on_chip = fitzroy("run", "compiled.tflite", "-i", "x.npy", "--device", "sim:direct", "--json")
    assert on_chip.json["outputs"] == result.json["outputs"]
    assert {part["on"] for part in on_chip.json["parts"]} == {"Edge TPU", "LiteRT", "reference"}


def test_sim(fitzroy: Run, model: Path) -> None:
    assert fitzroy("compile", model, "-o", "compiled.tflite").code == 0
    result = fitzroy("sim", "compiled.tflite", "-i", "x.npy", "--functional")
    assert result.code == 0
    assert "5 more operators" in result.err
