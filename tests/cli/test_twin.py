"""``--device twin:MODEL``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.support import Run

from fitzroy.base.errors import UsageError


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
