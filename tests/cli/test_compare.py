"""``compare`` and ``test`` on the digits model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.support import Run
from tests.sharing import shared

import fitzroy as library
from fitzroy.cli.terminal import Terminal


@pytest.fixture
def builds(digits: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The digits model as the compiler likes it, and with forms of published programs only."""
    paths = []
    for name, conservative in (("old", False), ("new", True)):
        data = shared(
            ("digits for compare", digits.read_bytes(), conservative),
            lambda conservative=conservative: (
                library.compile(  # type: ignore[misc]
                    digits, target="edgetpu", conservative=conservative
                ).data
            ),
        )
        path = tmp_path / f"{name}_edgetpu.tflite"
        path.write_bytes(data)
        paths.append(path)
    return paths[0], paths[1]


def test_what_changed(fitzroy: Run, builds: tuple[Path, Path], images: list[Path]) -> None:
    result = fitzroy("compare", *builds, "-i", images[0], "-i", images[1], "--json")
    assert result.code == 0
    document = result.json
    figures = {item["name"]: item for item in document["figures"]}
    assert figures["cycles"]["new"] > figures["cycles"]["old"]
    assert figures["cached_bytes"]["percent"] < 0
    assert document["layers"]
    assert (document["samples"], document["outputs"], document["regressions"]) == (2, [], [])
    text = fitzroy("compare", *builds)
    assert "cycles of the chip" in text.out
    assert "layers changed" in text.out
    page = builds[0].with_name("changes.html")
    assert fitzroy("compare", *builds, "--report", page).code == 0
    assert "<title>old_edgetpu.tflite → new_edgetpu.tflite</title>" in page.read_text("utf-8")
    assert fitzroy("compare", *builds, "--report", builds[0]).code == 2
    refused = fitzroy("compare", *builds, "--report", "changes.json")
    assert (refused.code, "the report is an HTML file" in refused.err) == (2, True)
    same = fitzroy("compare", builds[0], builds[0]).out
    assert "layers changed" not in same
    assert "+" not in same


def test_each_model_is_told_of(
    fitzroy: Run, builds: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    @contextmanager
    def working(terminal: Terminal, what: str) -> Iterator[Callable[[str], None]]:
        yield lambda text: told.append(f"{what}: {text}")

    monkeypatch.setattr(Terminal, "working", working)
    assert fitzroy("compare", *builds).code == 0
    assert told == ["estimating: model 1 of 2", "estimating: model 2 of 2"]


def test_regressions(fitzroy: Run, builds: tuple[Path, Path]) -> None:
    result = fitzroy("compare", *builds, "--max-regression", 1, "--json")
    assert result.code == 9
    assert result.json["regressions"] == [
        "latency_us", "cycles", "instruction_bytes", "transfer_bytes", "model_bytes",
    ]  # fmt: skip
    assert result.json["error"]["exit_code"] == 9
    assert fitzroy("compare", *builds, "--max-regression", 50).code == 0
    only = ("--max-regression", 1, "--figures")
    assert fitzroy("compare", *builds, *only, "cached_bytes, narrow_bytes").code == 0
    text = fitzroy("compare", *builds, *only, "cycles", "--markdown")
    assert text.code == 9
    assert text.out.startswith("### ")
    assert "error: worse than before: cycles of the chip by " in text.err
    # Better is no regression.
    assert fitzroy("compare", *reversed(builds), "--max-regression", 1).code == 9
    assert fitzroy("compare", *reversed(builds), *only, "cycles").code == 0


def test_documents_of_other_verbs(
    fitzroy: Run, builds: tuple[Path, Path], digits: Path, images: list[Path], tmp_path: Path
) -> None:
    spec = tmp_path / "t.toml"
    spec.write_text(f"model = {str(digits)!r}\n")
    documents = {
        "sim": fitzroy("sim", builds[0], "-i", images[0], "--json"),
        "compile": fitzroy("compile", digits, "-o", "x.tflite", "--json"),
        "bench": fitzroy("bench", builds[0], "--device", "sim:direct", "--runs", 1, "--json"),
        "test": fitzroy("test", spec, "--json"),
    }
    for name, result in documents.items():
        assert result.code == 0, result.err
        (tmp_path / f"{name}.json").write_text(result.out)
        compared = fitzroy("compare", f"{name}.json", builds[0], "--json").json
        latency = next(item for item in compared["figures"] if item["name"] == "latency_us")
        assert latency["percent"] == pytest.approx(0, abs=1e-6), name


def test_mistakes(fitzroy: Run, builds: tuple[Path, Path], digits: Path) -> None:
    for arguments, what in (
        (("--json", "--csv"), "--json and --csv do not go together"),
        (("--figures", "cycles"), "--figures goes with --max-regression"),
        (("--max-regression", 1, "--figures", "speed"), "no figure 'speed'"),
        (("--max-difference", 0), "--max-difference needs inputs"),
    ):
        result = fitzroy("compare", *builds, *arguments)
        assert result.code == 2
        assert what in result.err + result.out
    assert fitzroy("compare", builds[0], digits).code == 2


@pytest.mark.long
def test_outputs_that_differ(
    fitzroy: Run, builds: tuple[Path, Path], digits: Path, images: list[Path], tmp_path: Path
) -> None:
    # The same model with the weights of its largest layer in another order.
    from fitzroy.formats import tflite

    model = tflite.read_model(digits.read_bytes())
    buffers = [buffer for buffer in model.buffers or [] if buffer.data is not None]
    weights = max(buffers, key=lambda buffer: 0 if buffer.data is None else len(buffer.data))
    assert weights.data is not None
    weights.data = weights.data[::-1].copy()
    (tmp_path / "other.tflite").write_bytes(tflite.write_model(model))
    assert fitzroy("compile", "other.tflite", "--target", "edgetpu", "-q").code == 0
    result = fitzroy(
        "compare", builds[0], "other_edgetpu.tflite", "-i", images[0].parent,
        "--max-difference", 0, "--json",
    )  # fmt: skip
    assert result.code == 9
    assert result.json["samples"] == 10
    assert result.json["outputs"][0]["elements"] > 0
    loose = fitzroy(
        "compare", builds[0], "other_edgetpu.tflite", "-i", images[0], "--max-difference", 256
    )
    assert loose.code == 0


# --- test files ----------------------------------------------------------------------------------


def spec_of(folder: Path, model: Path, limits: str) -> Path:
    path = folder / "t.toml"
    path.write_text(f"model = {str(model)!r}\n[limits]\n{limits}\n")
    return path


def test_a_test_file(fitzroy: Run, builds: tuple[Path, Path], tmp_path: Path) -> None:
    good = spec_of(tmp_path, builds[0], "cycles = 20000\nlatency_us = 1000")
    result = fitzroy("test", good, "--junit", "j.xml")
    assert result.code == 0
    assert "2 checks passed" in result.err
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")
    assert fitzroy("test", good, "-q").out == ""


def test_what_does_not_hold(fitzroy: Run, builds: tuple[Path, Path], tmp_path: Path) -> None:
    bad = spec_of(tmp_path, builds[0], "cycles = 20000\nlatency_us = 1")
    result = fitzroy("test", bad, "-q")
    assert result.code == 9
    assert [line.split()[0] for line in result.out.splitlines()] == [f"{bad}:", "FAILED"]
    document = fitzroy("test", bad, "--json", "--junit", "j.xml").json
    assert document["error"]["what"] == "1 of 2 checks did not pass"
    assert document["written"] == ["j.xml"]
    (report,) = document["reports"]
    assert report["counts"] == {"passed": 1, "failed": 1, "error": 0, "skipped": 0}


def test_exit_codes_of_errors(fitzroy: Run, builds: tuple[Path, Path], tmp_path: Path) -> None:
    missing = spec_of(tmp_path, tmp_path / "none.tflite", "cycles = 1")
    result = fitzroy("test", missing, "--json")
    assert result.code == 2
    assert result.json["reports"][0]["checks"][0]["status"] == "error"
    broken = tmp_path / "broken.toml"
    broken.write_text("model = 1")
    assert fitzroy("test", broken).code == 3
    assert json.loads(fitzroy("test", broken, "--json").out)["error"]["kind"] == "FormatError"
    assert fitzroy("test", missing, "--junit", missing).code == 2
    device = spec_of(tmp_path, builds[0], "measured_us = 1")
    assert fitzroy("test", device, "--device", "nowhere").code == 2
