from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.byte_gate import Subjects, compare, record


@pytest.mark.long
def test_the_gate_finds_bytes_that_have_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gate.json"
    # The digits model alone.
    assert record(path, Subjects((), 0)) == 0
    assert compare(path) == 0
    content = json.loads(path.read_text())
    assert all(digest.endswith((" of 1", " of 2")) for digest in content["digests"].values())
    case = "streamed: digits.tflite"
    content["digests"][case] = "0" * 64
    path.write_text(json.dumps(content))
    capsys.readouterr()
    assert compare(path) == 1
    assert case in capsys.readouterr().out
