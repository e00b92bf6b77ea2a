"""``--device twin:MODEL``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.support import Run

from fitzroy.base.errors import UsageError
from fitzroy.base.types import DType
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.formats.tflite import write_model


@pytest.fixture
def compiled(fitzroy: Run, digits: Path, tmp_path: Path) -> Path:
    path = tmp_path / "digits_edgetpu.tflite"
    assert fitzroy("compile", digits, "-o", path, "-q").code == 0
    return path


def test_a_run_is_proven_on_the_simulated_chip(
    fitzroy: Run, compiled: Path, digits: Path, images: list[Path]
) -> None:
    twin = f"twin:{digits}"
    run = fitzroy("run", compiled, "--device", twin, "--prove", "1", "--input", images[0])
    assert run.code == 0
    assert "the twin of the chip" in run.err
    assert run.out == fitzroy("run", compiled, "--device", "sim", "--input", images[0]).out


def test_several_images_are_run_together(
    fitzroy: Run, compiled: Path, digits: Path, images: list[Path]
) -> None:
    inputs = [option for image in images[:3] for option in ("--input", image)]
    found, wanted = (
        json.loads(fitzroy("run", compiled, "--device", device, *inputs, "--json").out)
        for device in (f"twin:{digits}", "sim")
    )
    for one, other in zip(found["inferences"], wanted["inferences"], strict=True):
        assert one["outputs"] == other["outputs"]
        assert one["seconds"] == pytest.approx(sum(part["seconds"] for part in one["parts"]))


def test_another_model_is_refused(
    fitzroy: Run, compiled: Path, digits: Path, images: list[Path], tmp_path: Path
) -> None:
    graph = load(digits)
    bias = next(value for value in graph.values.values() if value.type.dtype is DType.INT32)
    assert bias.data is not None
    graph.set_value(replace(bias, data=bias.data + 1))
    (tmp_path / "other.tflite").write_bytes(write_model(export_model(graph)))
    run = fitzroy("run", compiled, "--device", "twin:other.tflite", "--input", images[0])
    assert run.code == UsageError.exit_code
    assert "constants of 1 of" in run.err
    assert "other.tflite" in run.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--device", "twin"), "--device twin:MODEL.tflite"),
        (("--device", "twin:nowhere.tflite"), "nowhere.tflite"),
    ],
)
def test_what_a_twin_needs(
    fitzroy: Run, compiled: Path, images: list[Path], options: tuple[str, ...], text: str
) -> None:
    run = fitzroy("run", compiled, "--input", images[0], *options)
    assert run.code == UsageError.exit_code
    assert text in run.err


def test_a_twin_has_no_usb_to_record(
    fitzroy: Run, compiled: Path, digits: Path, images: list[Path]
) -> None:
    options = ("--device", f"twin:{digits}", "--record", "session.jsonl")
    run = fitzroy("run", compiled, "--input", images[0], *options)
    assert run.code == UsageError.exit_code
    assert "no USB to record" in run.err
