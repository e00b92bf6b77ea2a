from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.support import Run
from tests.compiler.onnx.models import helper, model


@pytest.fixture
def compiled(fitzroy: Run, digits: Path) -> Path:
    assert fitzroy("compile", digits, "-q").code == 0
    return Path("digits_edgetpu.tflite")


def test_models_that_load_in_turn(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other_edgetpu.tflite"
    other.write_bytes(compiled.read_bytes())
    result = fitzroy("plan", f"{compiled}@10", f"{other}@5.5", "--json")
    assert result.code == 0
    # Copies of one program have one token, and share their parameters.
    (arrangement,) = result.json["arrangements"]
    assert arrangement["name"] == "compiled together"
    assert [item["requests_per_second"] for item in arrangement["models"]] == [10, 5.5]
    assert all(item["loading_seconds"] > 0 for item in arrangement["models"])


def test_models_that_are_not_compiled(fitzroy: Run, digits: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(digits.read_bytes())
    result = fitzroy("plan", f"{digits}@1", f"{other}@20", "--json")
    names = [item["name"] for item in result.json["arrangements"]]
    assert names[-2:] == ["together, in this order", "together, most requests first"]
    assert result.json["best"] in names
    text = fitzroy("plan", f"{digits}@1", f"{other}@20").out
    assert "least latency: " in text
    assert "other.tflite" in text


def test_requests_that_cannot_be(fitzroy: Run, compiled: Path, digits: Path) -> None:
    for text in (compiled, f"{compiled}@", f"{compiled}@x", f"{compiled}@-1", "@3", "a@nan"):
        assert fitzroy("plan", text).code == 2
    result = fitzroy("plan", f"{compiled}@1", f"{digits}@1")
    assert result.code == 2
    assert "some models are compiled and others are not" in result.err
    assert fitzroy("plan", "nowhere.tflite@1").code == 2
    assert fitzroy("plan", *[f"{compiled}@1"] * 17).code == 2
    result = fitzroy("plan", f"{compiled}@100000", "--json")
    assert result.json["best"] is None
    node = helper().make_node("Relu", ["x"], ["y"])
    Path("x.onnx").write_bytes(model([node], [("x", [2])], ["y"]))
    result = fitzroy("plan", "x.onnx@1")
    assert (result.code, "fitzroy compile MODEL" in result.err) == (2, True)
