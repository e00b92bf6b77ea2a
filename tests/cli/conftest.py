from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.support import Result, Run
from tests.schemas import hold

from fitzroy.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def fitzroy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Run:
    """The command line in an empty directory, with what it printed and its exit code.

    JSON documents are held to their schemas.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FITZROY_DEBUG", raising=False)

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        if captured.out.startswith("{"):
            document = json.loads(captured.out)
            # A schema itself follows none of ours.
            if "$schema" not in document:
                hold(document)
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def digits() -> Path:
    return EXAMPLES / "models" / "digits.tflite"


@pytest.fixture
def labels() -> Path:
    return EXAMPLES / "models" / "digits_labels.txt"


@pytest.fixture
def images() -> list[Path]:
    return sorted((EXAMPLES / "images").glob("digit_*.png"))


@pytest.fixture
def program(fitzroy: Run, digits: Path, tmp_path: Path) -> Path:
    assert fitzroy("compile", digits, "--target", "xnnpack", "-q").code == 0
    return tmp_path / "digits.pte"
