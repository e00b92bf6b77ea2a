"""The map in docs/codegen.md is the path that a model takes through the code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from fitzroy.compilation.edgetpu import compile_edgetpu

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "codegen.md"
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)(?:#[^)]*)?\)")


def steps() -> list[tuple[Path, str]]:
    """The file and the function of each step, in the order of the page."""
    rows = re.findall(r"^\| \d+ \| `([\w.]+)` in \[`[^`]+`\]\(([^)]+)\) \|", PAGE.read_text(), re.M)
    return [((PAGE.parent / target).resolve(), name) for name, target in rows]


@contextmanager
def first_calls() -> Iterator[list[tuple[Path, str]]]:
    """Functions in the order in which they are called for the first time."""
    order: dict[tuple[str, str], None] = {}
    found: list[tuple[Path, str]] = []

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            order.setdefault((frame.f_code.co_filename, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield found
    finally:
        sys.setprofile(before)
        found += [(Path(file).resolve(), name) for file, name in order]


def test_links_of_the_page_lead_to_files() -> None:
    links = [target for _, target in LINK.findall(PAGE.read_text()) if "://" not in target]
    assert len(links) > 30
    assert not [target for target in links if not (PAGE.parent / target).exists()]


def test_files_of_the_map_begin_with_the_question_that_they_answer() -> None:
    folder = ROOT / "compiler" / "targets" / "edgetpu"
    files = {(PAGE.parent / target).resolve() for _, target in LINK.findall(PAGE.read_text())}
    files = {path for path in files if path.suffix == ".py" and path.is_relative_to(folder)}
    assert len(files) >= 20
    first = {path.name: path.read_text().partition("\n")[0] for path in files}
    assert not {name: line for name, line in first.items() if not re.search(r'\?(""")?$', line)}


def test_every_room_of_the_code_generator_that_models_pass_is_named() -> None:
    text = PAGE.read_text()
    folder = ROOT / "compiler" / "targets" / "edgetpu"
    rooms = {path.parent.name for path in folder.glob("*/*.py")} - {"patching", "twin"}
    assert "lowerings" in rooms
    assert not [room for room in rooms if f"`{room}/" not in text and f"edgetpu/{room}" not in text]


@pytest.mark.long
def test_steps_are_called_in_the_order_of_the_map() -> None:
    expected = steps()
    assert len(expected) == 11
    with first_calls() as calls:
        compile_edgetpu(str(ROOT / "examples" / "models" / "digits.tflite"))
    assert [call for call in calls if call in expected] == expected
