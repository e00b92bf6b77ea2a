"""What comes from outside: names, closed streams, options, files of any length."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import Run
from tests.work import calls_at_most

from fitzroy.base import budget, files
from fitzroy.base.errors import FormatError, UsageError
from fitzroy.cli.argv import budget_first
from fitzroy.cli.files import check_output, write_file, write_files
from fitzroy.cli.terminal import Terminal
from fitzroy.execution.arrays import load_labels

GRAPH = """graph "g" {{
  input {x} : int8[1,4] quant(0.5 : 0)
  %y : int8[1,4] quant(0.5 : 0) = abs({x})
  output %y
}}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "g.ir"
    path.write_text(GRAPH.format(x="%x"))
    (tmp_path / "x.raw").write_bytes(bytes(4))
    return path


# --- the budget ----------------------------------------------------------------------------------


def test_the_budget_is_an_option_of_every_verb(
    fitzroy: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("run", model, "-i", "x.raw")
    assert fitzroy(*run).code == 0
    for arguments in (("--memory", "200", *run), (*run, "--memory=200")):
        result = fitzroy(*arguments)
        assert result.code == 5
        assert "the budget is 200 B" in result.err
        assert "--memory" in result.err
    assert fitzroy(*run, "--memory", "1MiB").code == 0
    assert fitzroy(*run, "--memory", "much").code == 2
    monkeypatch.setenv(budget.VARIABLE, "200")
    assert fitzroy(*run).code == 5
    assert fitzroy(*run, "--memory", "1MiB").code == 0


def test_the_budget_goes_before_the_verb() -> None:
    assert budget_first(["run", "--memory", "1", "x"]) == ["--memory", "1", "run", "x"]
    assert budget_first(["run", "--memory=1", "--", "--memory"]) == [
        *("--memory=1", "run", "--", "--memory")
    ]
    assert budget_first(["run", "x", "--memory"]) == ["--memory", "run", "x"]


def test_outputs_without_a_name(fitzroy: Run, model: Path) -> None:
    case = model.with_name("x.raw")
    for arguments in (
        ("compile", model, "--target", "xnnpack", "--output=", "--bundle", case),
        ("compile", "", "--target", "xnnpack"),
        ("convert", "/"),
    ):
        result = fitzroy(*arguments)
        assert result.code == 2
        assert "a file is wanted" in result.err


def test_segments_without_number(fitzroy: Run, model: Path) -> None:
    """Names of results are made before the model is read."""
    with calls_at_most(500_000):
        result = fitzroy("compile", model, "-n", "9" * 30, "-o", model.with_name("out"))
    assert result.code == 2
    assert "in the range 0 to 1024" in result.err


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_devices_are_no_files(fitzroy: Run, device: str) -> None:
    result = fitzroy("inspect", device)
    assert result.code == 2
    assert f"this is a device\n  where: {device}" in result.err


@pytest.mark.parametrize(
    ("most", "budget", "what"),
    [(10_000, "1GiB", "at most 10000 are taken"), (1 << 30, "3MiB", "the budget is 3 MiB")],
)
def test_pipes_without_end(
    fitzroy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, budget: str, what: str
) -> None:
    monkeypatch.setattr(files, "PIPE_BYTES", most)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def flood() -> None:
        with suppress(BrokenPipeError), fifo.open("wb") as pipe:
            while True:
                pipe.write(bytes(1 << 16))

    writer = threading.Thread(target=flood)
    writer.start()
    result = fitzroy("inspect", fifo, "--memory", budget)
    writer.join()
    assert result.code == 5
    assert what in result.err


def test_allocations_that_fail(fitzroy: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("fitzroy.cli.run.samples", fail)
    result = fitzroy("run", model, "-i", "x.raw")
    assert result.code == 5
    assert "not enough memory" in result.err


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a=b", "=", "a=", "=b", "0=1"])
def test_inputs_with_equals_signs(fitzroy: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "g.ir"
    path.write_text(GRAPH.format(x=f'%"{name}"'))
    for file in ("x.raw", "x=y.raw"):
        (tmp_path / file).write_bytes(bytes(4))
        assert fitzroy("run", path, "-i", f"{name}={file}").code == 0
        assert fitzroy("run", path, "-i", f"0={file}").code == 0
        assert fitzroy("run", path, "-i", file).code == 0
    assert "no input named" in fitzroy("run", path, "-i", "other=x.raw").err
    assert fitzroy("run", path, "-i", "x" * 5000 + "=y").code == 2
    assert fitzroy("run", path, "-i", "9" * 5000 + "=y").code == 2


@pytest.mark.parametrize("length", [250, 254, 255])
def test_names_as_long_as_names_can_be(tmp_path: Path, length: int) -> None:
    for character in ("n", "ü"):
        name = character * (length // len(character.encode()))
        write_file(tmp_path / name, b"content")
        assert (tmp_path / name).read_bytes() == b"content"
        assert len(os.listdir(tmp_path)) == 1
        os.unlink(tmp_path / name)


def test_names_that_are_too_long(fitzroy: Run, model: Path, tmp_path: Path) -> None:
    for path in (tmp_path / ("n" * 256), tmp_path / ("n" * 256) / "y"):
        with pytest.raises(UsageError, match="too long"):
            check_output(path)
        with pytest.raises(UsageError, match="too long"):
            write_file(path, b"")
    assert fitzroy("run", model, "-i", "x.raw", "-o", "n" * 252 + ".npy").code == 2
    assert fitzroy("run", "n" * 300).code == 2


@pytest.mark.parametrize("character", ["\x9b", "\u202e", "\u2028", "\x07", "\x7f", "\u200f"])
def test_characters_that_steer_terminals(
    capsys: pytest.CaptureFixture[str], character: str
) -> None:
    import json

    terminal = Terminal()
    value = {f"a{character}b": f"x{character}", "plain": "Müßig €"}
    terminal.document("opt", value)
    text = capsys.readouterr().out
    assert character not in text
    assert "Müßig €" in text
    assert json.loads(text) == {"schema": "fitzroy-opt", "schema_version": 1, **value}
    terminal.line(f"x{character}")
    terminal.fields([(f"a{character}", f"b{character}")])
    assert character not in capsys.readouterr().out


# --- labels --------------------------------------------------------------------------------------


def test_labels_of_any_kind(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"

    def read(text: str) -> dict[int, str]:
        path.write_text(text)
        return load_labels(str(path))

    assert read("0 cat\n12: dog\n3 : cow\n007\tfox\n") == {0: "cat", 12: "dog", 3: "cow", 7: "fox"}
    assert read("cat\n1 dog\n") == {0: "cat", 1: "1 dog"}
    assert read("0" * 5000 + "1 one") == {1: "one"}
    with pytest.raises(FormatError, match="a class number of 5000 digits"):
        read("9" * 5000 + " many")
    with pytest.raises(FormatError, match="labels, at most"):
        read("\n" * (1 << 21))
    with pytest.raises(FormatError, match="bytes, at most"):
        read("a" * (17 << 20))
    assert read(f"1{' ' * 100_000}b") == {1: "b"}


# --- streams -------------------------------------------------------------------------------------


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(
        ["bash", "-c", command], cwd=directory, capture_output=True, text=True, env=environment
    )


def test_closed_streams(model: Path, tmp_path: Path) -> None:
    program = f'"$PYTHON" -m fitzroy run {model.name} -i x.raw'
    closed = shell(f"{program} --json -o y.npy >&-", tmp_path)
    assert (closed.returncode, closed.stderr) == (141, "")
    # No text of a library, and none of ours, ended up in the result.
    assert np.load(tmp_path / "y.npy").shape == (1, 4)
    head = shell(f"({program} --json; echo $? >code) | head -c 1; cat code", tmp_path)
    assert head.stderr == ""
    error = shell('"$PYTHON" -m fitzroy run missing 2>&-', tmp_path)
    assert (error.returncode, error.stdout) == (2, "")


# --- all or nothing ------------------------------------------------------------------------------


def test_what_cannot_be_written_comes_first(tmp_path: Path) -> None:
    one, folder = tmp_path / "one", tmp_path / "folder"
    for bad in (Path("/dev/full"), tmp_path / "missing" / "x", tmp_path / ("n" * 256)):
        with pytest.raises(UsageError):
            write_files([(one, b"1"), (bad, b"2")])
        assert not one.exists()
    folder.mkdir()
    write_files([(one, b"1"), (Path("/dev/null"), b"2")])
    assert one.read_bytes() == b"1"


def test_outputs_and_reports_come_together(
    fitzroy: Run, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fitzroy("compile", digits, "-q").code == 0
    (tmp_path / "x.raw").write_bytes(bytes(64))
    before = set(os.listdir(tmp_path))
    result = fitzroy(
        *("sim", "digits_edgetpu.tflite", "-i", "x.raw", "-o", "y.npy", "--raw-output", "y.raw"),
        *("--trace", "t.json", "--report", "/dev/full"),
    )
    assert result.code == 2
    assert set(os.listdir(tmp_path)) == before


def test_paths_that_are_no_text_reach_logs_reports_and_traces(
    fitzroy: Run, tmp_path: Path, digits: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"odd\xff.tflite")
    odd.write_bytes(digits.read_bytes())
    x = tmp_path / "x.raw"
    x.write_bytes(bytes(64))
    options = ("--log", "--no-estimate", "--dump", tmp_path / "stages")
    for report in ("r.html", "r.json"):
        answer = fitzroy("compile", odd, "--report", report, *options, "-o", "m_edgetpu.tflite")
        assert answer.code == 0
        assert b"odd\\udcff" in (tmp_path / report).read_bytes().replace(b"\\\\", b"\\")
    assert any(b"odd\\udcff" in log.read_bytes() for log in tmp_path.glob("*.log"))
    compiled = tmp_path / os.fsdecode(b"m\xff_edgetpu.tflite")
    (tmp_path / "m_edgetpu.tflite").rename(compiled)
    answer = fitzroy("sim", compiled, "-i", x, "--report", "s.html", "--trace", "t.json")
    assert answer.code == 0
