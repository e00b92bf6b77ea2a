"""What is said of work that is under way."""

from __future__ import annotations

from rich.console import Console
from rich.spinner import Spinner

from fitzroy.base.progress import Progress, counted, prefixed
from fitzroy.cli.terminal import Working, fitted


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


def test_names_neither_steer_the_terminal_nor_wrap() -> None:
    working = Working("reading")
    working("\x1b[2J" + "a" * 300)
    console = Console(width=60, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(Spinner("dots", working))
    assert "\x1b[2J" not in captured.get()
    assert captured.get().count("\n") == 1


def test_paths_are_shortened_in_the_middle_to_fit() -> None:
    path = "/home/somebody/projects/models/a_model_with_a_long_name_edgetpu.tflite"
    line = fitted(f"Output model: {path}", 60)
    assert len(line) == 60
    assert line.startswith("Output model: /home/")
    assert line.endswith("_edgetpu.tflite")
    assert fitted(f"Output model: {path}", 100) == f"Output model: {path}"
    assert fitted("words " * 30, 60) == "words " * 30
    assert fitted(f"Output model: {path}", 20) == f"Output model: {path}"
