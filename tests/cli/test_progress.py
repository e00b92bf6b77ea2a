"""What is said of work that is under way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.spinner import Spinner

import fitzroy
from fitzroy.base.progress import (
    Progress,
    advance,
    along,
    counted,
    counting,
    listening,
    prefixed,
    reached,
)
from fitzroy.cli.terminal import Column, Terminal, Working, fitted, shorter
from fitzroy.execution.estimate import estimate

DIGITS = Path(__file__).parents[2] / "examples" / "models" / "digits.tflite"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_shares_are_counted_from_the_beginning_of_each() -> None:
    assert counted("sample", 1, 4) == "sample 1 of 4"
    assert counted("sample", 1, 4).share == 0
    assert counted("sample", 4, 4, ", last", within=0.5).share == 0.875
    assert prefixed("costs, ", counted("sample", 3, 4)).share == 0.5
    assert prefixed("costs, ", "linking").share is None
    assert Progress("x", 7.0).share == 1.0


def test_time_left_follows_from_what_has_passed() -> None:
    clock = Clock()
    working = Working("running", clock)
    assert str(working) == "running"
    working(counted("case", 2, 4))
    assert str(working) == "running: case 2 of 4, 25%"
    clock.now += 10
    assert str(working) == "running: case 2 of 4, 25%, 30.0 s left"
    working(counted("case", 4, 4))
    assert str(working) == "running: case 4 of 4, 75%, 3.3 s left"


def test_time_that_nobody_can_tell_is_what_has_passed() -> None:
    clock = Clock()
    working = Working("compiling", clock)
    working("linking")
    clock.now += 65
    assert str(working) == "compiling: linking, 1:05"


def test_another_count_begins_anew() -> None:
    clock = Clock()
    working = Working("quantizing", clock)
    working(counted("sample", 3, 4))
    clock.now += 60
    working(counted("operator", 1, 4))
    clock.now += 3
    working(counted("operator", 2, 4))
    assert str(working).endswith("25%, 9.0 s left")


def test_short_steps_of_what_takes_long_say_the_time_left() -> None:
    clock = Clock()
    working = Working("quantizing", clock)
    working(counted("sample", 2, 4))
    clock.now += 1
    assert str(working).endswith("sample 2 of 4, 25%")
    clock.now += 2
    working(counted("operator", 1, 4))
    assert str(working).endswith("operator 1 of 4")
    working(counted("operator", 2, 4))
    clock.now += 0.1
    assert str(working).endswith("operator 2 of 4, 25%")
    clock.now += 0.4
    assert str(working).endswith("operator 2 of 4, 25%, 1.5 s left")


def test_names_neither_steer_the_terminal_nor_wrap() -> None:
    working = Working("reading")
    working("\x1b[2J" + "a" * 300)
    console = Console(width=60, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(Spinner("dots", working))
    assert "\x1b[2J" not in captured.get()
    assert captured.get().count("\n") == 1


def test_fields_on_a_narrow_terminal_keep_paths_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    path = "/home/somebody/projects/models/a_model_with_a_long_name_edgetpu.tflite"
    Terminal().fields([("file", path), ("what", "TFLite model")])
    first, second = capsys.readouterr().out.splitlines()
    assert "…" in first
    assert "_edgetpu.tflite" in first
    assert "TFLite model" in second


def test_cells_of_short_columns_stay_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    columns = [Column("#", right=True), Column("result", keep=True, short=True), Column("layers")]
    rows = [["3", "Mobilenet/Conv2d_1_depthwise/BatchNorm/Relu6", "depthwise"], ["4", "a", "pool"]]
    for width, whole in ((40, False), (100, True)):
        monkeypatch.setenv("COLUMNS", str(width))
        Terminal().table(columns, rows)
        lines = [line for line in capsys.readouterr().out.splitlines() if "Relu6" in line]
        assert len(lines) == 1
        assert "depthwise" in lines[0]
        assert (rows[0][1] in lines[0]) == whole


def test_spare_columns_are_left_out_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    columns = [Column("phase", short=True), Column("time"), Column("op busy", spare=True)]
    rows = [["input of the program", "2.201 ms", "36.5 %"]]
    for width, whole in ((40, False), (60, True)):
        monkeypatch.setenv("COLUMNS", str(width))
        Terminal().table(columns, rows)
        text = capsys.readouterr().out
        assert ("op busy" in text, "36.5" in text) == (whole, whole)
        assert "input of the program" in text


def test_names_are_still_told_from_one_another_when_they_are_shortened() -> None:
    names = [f"Net/block_{n}/depthwise/Relu6: depthwise 3x3, 96 channels" for n in range(3)]
    assert shorter(names, 80) == names
    assert shorter(names, 24) == [f"…/block_{n}/depthwise/Rel…" for n in range(3)]
    # No folder that most lie in; the end of a name tells as much as its beginning.
    assert shorter(["a/bcdefghijkl", "d"], 8) == ["a/…hijkl", "d"]


def test_lines_break_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    path = "/" + "x" * 60
    Terminal().line(
        f"hint: express it by operators that the chip computes, or see {path} for more", indent=2
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "  hint: express it by operators that the",
        "  chip computes, or see",
        f"  {path}",
        "  for more",
    ]


def test_paths_are_shortened_in_the_middle_to_fit() -> None:
    path = "/home/somebody/projects/models/a_model_with_a_long_name_edgetpu.tflite"
    line = fitted(f"Output model: {path}", 60)
    assert len(line) == 60
    assert line.startswith("Output model: /home/")
    assert line.endswith("_edgetpu.tflite")
    assert fitted(f"Output model: {path}", 100) == f"Output model: {path}"
    assert fitted("words " * 30, 60) == "words " * 30
    assert fitted(f"Output model: {path}", 20) == f"Output model: {path}"


def test_what_goes_on_within_a_step_moves_its_share() -> None:
    working = Working("compiling")
    working(counted("part", 2, 4))
    with listening(working.within):
        advance("memory", 0.5)
    assert str(working) == "compiling: part 2 of 4, memory, 38%"
    with listening(working.within):
        assert [*along("abcd", "instructions", 0.6, 1.0)] == [*"abcd"]
    assert str(working) == "compiling: part 2 of 4, instructions, 48%"
    working(counted("part", 3, 4))
    assert str(working) == "compiling: part 3 of 4, 50%"


def test_a_share_that_is_said_as_a_whole_stays() -> None:
    working = Working("simulating")
    working(Progress("phase 3", 0.4))
    working.within("", 0.9)
    assert str(working) == "simulating: phase 3, 40%"


def test_what_is_counted_never_goes_back() -> None:
    working = Working("running")
    with listening(working.within), counting(200):
        for number in (0, 100, 20):
            reached(number)
    assert str(working) == "running, 50%"
    reached(200)
    assert str(working) == "running, 50%"


def test_figures_are_shown_whole_where_names_are_long() -> None:
    clock = Clock()
    working = Working("estimating", clock)
    working(Progress("a_model_with_a_very_long_name.tflite", 0.5))
    clock.now += 10
    line = working.line(56)
    assert len(line) == 56
    assert line.startswith("estimating: ")
    assert line.endswith("tflite, 50%, 10.0 s left")


@pytest.mark.parametrize("device", ["sim:direct", "sim"])
def test_a_simulated_run_says_how_far_it_is(
    program_of_digits: bytes, tmp_path: Path, device: str
) -> None:
    (tmp_path / "m_edgetpu.tflite").write_bytes(program_of_digits)
    shares = list[float]()
    with (
        listening(lambda what, share: shares.append(share)),
        fitzroy.Interpreter(tmp_path / "m_edgetpu.tflite", device=device) as interpreter,
    ):
        interpreter.run({"image": np.zeros((1, 8, 8, 1), np.int8)})
    assert len(shares) > 100
    assert 0.9 < max(shares) <= 1.0


def test_a_compilation_says_how_far_it_is() -> None:
    said = list[tuple[str, float]]()
    with listening(lambda what, share: said.append((what, share))):
        compilation = fitzroy.compile_edgetpu(DIGITS)
    assert [*dict.fromkeys(what for what, _ in said)] == ["memory", "instructions"]
    assert sorted(share for _, share in said) == [share for _, share in said]
    said.clear()
    with listening(lambda what, share: said.append((what, share))):
        estimate(compilation.segments[0].package, "digits")
    assert len(said) > 100


@pytest.fixture(scope="module")
def program_of_digits() -> bytes:
    return fitzroy.compile_edgetpu(DIGITS).data


def test_commands_that_people_copy_stay_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    command = "fitzroy quantize /home/somebody/projects/model.onnx --calibrate DIR"
    Terminal().line(command, indent=2, whole=True)
    assert capsys.readouterr().out == f"  {command}\n"
