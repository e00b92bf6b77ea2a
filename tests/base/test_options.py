from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.options import choose, declared, given, option
from fitzroy.cli.groups import grouped


@dataclass(frozen=True)
class Options:
    panel: ClassVar[str] = "Panel"

    careful: bool = option(False, "Look twice.")
    estimated: bool = option(True, "Guess.")
    most_rows: int = option(4, "Rows at most.", metavar="N", short="-r")
    folder: Path | None = option(None, "Where.")


def test_options_that_are_given_are_named_as_on_a_command_line() -> None:
    assert given(Options()) == []
    found = given(Options(careful=True, estimated=False, most_rows=5, folder=Path("x")))
    assert found == ["careful", "no-estimated", "most-rows", "folder"]


def test_what_is_declared_is_kept() -> None:
    said = {item.name: declared(item.metadata) for item in fields(Options)}
    rows = said["most_rows"]
    assert rows is not None
    assert (rows.help, rows.metavar, rows.short) == ("Rows at most.", "N", "-r")


def test_groups_become_options_and_come_back_as_groups() -> None:
    seen: list[tuple[str, Options]] = []

    def verb(name: Annotated[str, typer.Argument()], options: Options) -> None:
        seen.append((name, options))

    app = typer.Typer()
    app.command()(grouped(verb))
    command = typer.main.get_command(app)
    arguments = ["x", "--careful", "--no-estimated", "-r", "7", "--folder", "out"]
    command.main(arguments, standalone_mode=False)
    assert seen == [("x", Options(True, False, 7, Path("out")))]
    command.main(["y"], standalone_mode=False)
    assert seen[1] == ("y", Options())
    panels = {item.name: getattr(item, "rich_help_panel", None) for item in command.params}
    assert panels["most_rows"] == panels["careful"] == "Panel"


def test_parameters_without_declaration_are_refused() -> None:
    def verb(name: str) -> None:
        raise AssertionError(name)

    with pytest.raises(TypeError, match="name is no option"):
        grouped(verb)


class Pace(StrEnum):
    SLOW = "slow"
    FAST = "fast"


@dataclass(frozen=True)
class Choices:
    panel: ClassVar[str] = "Panel"

    walking_pace: Pace = option(Pace.SLOW, "How fast.")

    def __post_init__(self) -> None:
        choose(self)


def test_choices_may_be_given_by_their_values() -> None:
    assert Choices("fast").walking_pace is Pace.FAST  # type: ignore[arg-type]
    assert given(Choices("fast")) == ["walking-pace"]  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--walking-pace is one of slow, fast") as caught:
        Choices("faster")  # type: ignore[arg-type]
    assert caught.value.reason == "'faster' is given"
