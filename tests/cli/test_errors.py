from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.support import Run

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import (
    CapacityError,
    DeviceError,
    FitzroyError,
    FormatError,
    InternalError,
    LinkError,
    SimulationError,
    UnsupportedError,
    UsageError,
)
from fitzroy.cli import main as program
from fitzroy.cli import verbs
from fitzroy.cli.help import Verb

VERBS = ("compile", "run", "inspect", "explain", "opt", "dis", "sim", "bench", "debug")


def test_version_and_help(fitzroy: Run) -> None:
    assert fitzroy("--version").out.startswith("fitzroy 0.")
    bare = fitzroy()
    assert bare.code == 0
    assert all(verb in bare.out for verb in VERBS)
    assert "Examples" in bare.out


def test_the_version_needs_neither_numpy_nor_any_verb() -> None:
    code = (
        "import sys; from fitzroy.cli.main import main; main(['--version']);"
        " print('numpy' in sys.modules, 'fitzroy.cli.run' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "False False"


@pytest.mark.parametrize("verb", [*VERBS, "test", "compare", "schema"])
def test_help_of_verbs_ends_with_examples(fitzroy: Run, verb: str) -> None:
    result = fitzroy(verb, "--help")
    assert result.code == 0
    assert f"fitzroy {verb} " in result.out.partition("Examples")[2]
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("prepare", "what"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "this is a directory"),
    ],
    ids=["missing", "directory"],
)
def test_unusable_input_files(
    fitzroy: Run, verb: str, prepare: object, what: str, tmp_path: Path
) -> None:
    assert callable(prepare)
    prepare(tmp_path / "x.tflite")
    result = fitzroy(verb, "x.tflite")
    assert (result.code, result.out) == (2, "")
    assert what in result.err
    assert "x.tflite" in result.err
    assert "Traceback" not in result.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_file(fitzroy: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.tflite"
    path.write_bytes(b"x")
    path.chmod(0)
    result = fitzroy("inspect", path)
    assert result.code == 2
    assert "cannot be read" in result.err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("data", [b"", b"hello world, no model", b"PK\x03\x04" + bytes(30)])
def test_files_of_no_known_format(fitzroy: Run, verb: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    result = fitzroy(verb, "x")
    assert (result.code, result.out) == (3, "")
    assert "where: x, byte 0x0" in result.err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_truncated_models(
    fitzroy: Run, verb: str, share: float, digits: Path, tmp_path: Path
) -> None:
    data = digits.read_bytes()
    (tmp_path / "cut.tflite").write_bytes(data[: int(len(data) * share)])
    result = fitzroy(verb, "cut.tflite")
    assert result.code == 3
    assert result.err.startswith("error: ")
    assert "cut.tflite" in result.err


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_truncated_programs(fitzroy: Run, share: float, program: Path, tmp_path: Path) -> None:
    data = program.read_bytes()
    (tmp_path / "cut.pte").write_bytes(data[: int(len(data) * share)])
    for verb in ("inspect", "run"):
        assert fitzroy(verb, "cut.pte").code == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["compile", "--targt", "x"], "--target"),
        (["compile"], "MODEL"),
        (["frob"], "No such command"),
        (["run", "x.pte", "--top", "0"], "--top"),
        (["run", "x.pte", "--runtime", "magic"], "oracle"),
        (["compile", "x", "--uint8", "maybe"], "exact"),
    ],
)
def test_wrong_usage(fitzroy: Run, arguments: list[str], text: str) -> None:
    result = fitzroy(*arguments)
    assert (result.code, result.out) == (2, "")
    assert text in result.err
    assert "--help" in result.err
    as_json = fitzroy(*arguments, "--json")
    assert as_json.code == 2
    assert text in as_json.json["error"]["what"]


REJECT = Diagnostic(Severity.WARNING, "some-rule", "node 'a'", "no way", hint="try another")

ERRORS: list[tuple[FitzroyError, int]] = [
    (UsageError("what", reason="why", where="place", hint="help"), 2),
    (FormatError("what", path="place", offset=16, table="Table", hint="help"), 3),
    (UnsupportedError("what", rejects=[REJECT, REJECT], where="place", hint="help"), 4),
    (CapacityError("what", reason="why", where="place", hint="help"), 5),
    (LinkError("what", reason="why", where="place", hint="help"), 6),
    (DeviceError("what", reason="why", where="place", hint="help"), 7),
    (SimulationError("what", reason="why", where="place", hint="help"), 8),
    (InternalError("what", reason="why", where="place", hint="help"), 70),
]


def _failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> bytes:
        raise error

    monkeypatch.setattr("fitzroy.cli.inspect.read_file", fail)


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: type(value).__name__)
def test_every_error_has_its_text_and_code(
    fitzroy: Run, error: FitzroyError, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing(error, monkeypatch)
    result = fitzroy("inspect", "x")
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("error: what\n")
    assert "  where: place" in result.err
    assert "  hint: help\n" in result.err
    if isinstance(error, UnsupportedError):
        assert result.err.count("- node 'a': no way") == 2
        assert "hint: try another" in result.err
    elif isinstance(error, FormatError):
        assert "  where: place, byte 0x10, Table\n" in result.err
    else:
        assert "  reason: why\n" in result.err
    as_json = fitzroy("inspect", "x", "--json")
    assert (as_json.code, as_json.err) == (code, "")
    document = as_json.json["error"]
    assert (document["what"], document["exit_code"]) == ("what", code)
    assert document["kind"] == type(error).__name__
    if isinstance(error, UnsupportedError):
        assert [reject["code"] for reject in document["rejects"]] == ["some-rule"] * 2


def test_unexpected_exceptions_ask_for_a_report(
    fitzroy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing(ZeroDivisionError("oops"), monkeypatch)
    result = fitzroy("inspect", "x")
    assert result.code == 70
    assert "ZeroDivisionError: oops" in result.err
    assert "report" in result.err
    assert "Traceback" not in result.err
    monkeypatch.setenv("FITZROY_DEBUG", "1")
    assert "Traceback" in fitzroy("inspect", "x").err
    assert fitzroy("inspect", "x", "--json").json["error"]["kind"] == "InternalError"


def test_interruption(fitzroy: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(KeyboardInterrupt(), monkeypatch)
    result = fitzroy("inspect", "x")
    assert (result.code, result.out) == (program.INTERRUPTED, "")
    assert "interrupted" in result.err


def test_errors_while_cleaning_up_after_an_interruption(
    fitzroy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = DeviceError("the worker died")
    error.__context__ = KeyboardInterrupt()
    _failing(error, monkeypatch)
    assert fitzroy("inspect", "x").code == program.INTERRUPTED


def test_control_characters_in_names_are_escaped(
    fitzroy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing(UsageError("a \x1b[31mred\x07 name", where="[bold]x[/bold]"), monkeypatch)
    result = fitzroy("inspect", "x")
    assert "a \\x1b[31mred\\x07 name" in result.err
    assert "[bold]x[/bold]" in result.err
    assert "\x1b" not in result.err


def _process(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fitzroy", *map(str, arguments)]
    return subprocess.Popen(command, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.long
def test_a_reader_that_goes_away_is_no_error(digits: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = _process("inspect", digits, "--tables", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == program.BROKEN_PIPE


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_behind_stdout_is_reported(digits: Path) -> None:
    with open("/dev/full", "wb") as full:
        process = _process("inspect", digits, stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.startswith(b"error: the output cannot be written")
    assert b"Traceback" not in err


@pytest.mark.long
def test_the_module_runs_and_exits_with_the_code() -> None:
    process = _process("inspect", "missing", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, b"")
    assert b"no such file" in err


@pytest.mark.long
def test_output_survives_a_narrow_encoding(digits: Path) -> None:
    process = _process(
        "inspect", digits, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"CONV_2D \\xd74" in out


@pytest.mark.long
def test_interrupting_a_process(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.tflite"
    os.mkfifo(fifo)
    process = _process("inspect", fifo, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # The process is inside the verb as soon as it has opened the pipe for reading.
    with fifo.open("wb"):
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == program.INTERRUPTED
    assert b"Traceback" not in err


@pytest.mark.parametrize("verb", [*verbs.VERBS])
def test_no_name_is_cut_in_help_texts(
    fitzroy: Run, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = fitzroy(verb, "--help").out
    assert "\nExamples\n" in text
    assert max(map(len, text.splitlines())) <= 80
    for cut in ("…", "<bool>", "For the Edge TPU:"):
        assert cut not in text


def test_options_of_compile_stand_in_panels(fitzroy: Run) -> None:
    text = fitzroy("compile", "--help").out
    panels = ["Target", "Results", "Edge TPU", "XNNPACK", "Options", "Examples"]
    places = [text.index(f"\n{title}\n") for title in panels]
    assert places == sorted(places)
    verb = verbs.declared("compile")
    assert isinstance(verb, Verb)
    function = verb.function
    assert len(inspect.signature(function).parameters) <= 7
