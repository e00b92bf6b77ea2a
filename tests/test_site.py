"""The documentation site: every page has its place, every snippet of the tutorials runs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from docs import drawings, reference

from fitzroy.base.errors import FitzroyError
from fitzroy.cli.main import main
from fitzroy.cli.verbs import VERBS, Commands

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
_BLOCK = re.compile(r"^```(\w+)( no-run)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = {
    "float_model.md": 2,  # needs PyTorch, and pictures of the reader's
    "raspberry_pi.md": 3,  # needs a Coral USB Accelerator
}
"""How many blocks of a page need what the tests do not have."""


def blocks(page: Path) -> list[tuple[str, bool, str]]:
    """Language, whether it is left out, and text of every block of a page."""
    return [(kind, bool(left), text) for kind, left, text in _BLOCK.findall(page.read_text())]


def test_pages_leave_out_only_what_is_listed() -> None:
    left_out = {page.name: sum(left for _, left, _ in blocks(page)) for page in PAGES}
    assert {name: count for name, count in left_out.items() if count} == NOT_RUN


def execute(page: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the commands and programs of a page print, in their order."""
    printed = []
    for kind, left_out, text in blocks(page):
        if left_out:
            continue
        if kind == "python":
            exec(compile(text, page.name, "exec"), {"__name__": "__main__"})
            continue
        assert kind == "console", f"{page.name}: a block of {kind}"
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            if program == "cmp":
                first, second = (Path(name).read_bytes() for name in arguments)
                assert first == second, line
                continue
            assert program == "fitzroy", line
            code = main(arguments)
            done = capsys.readouterr()
            assert code == 0, f"{line}\n{done.err}"
            printed.append(done.out)
    return printed


@pytest.mark.long
@pytest.mark.parametrize("name", [page.stem for page in PAGES if blocks(page)])
def test_snippets_of_a_tutorial_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    printed = execute(ROOT / "docs" / "tutorials" / f"{name}.md", capsys)
    if name == "look_inside":
        original, edited = printed[-2:]
        assert original.startswith("probabilities")
        assert original != edited


def test_every_page_has_a_place_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    kept = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert listed == kept | set(reference.PAGES)


def test_the_command_reference_names_every_verb_and_option() -> None:
    page = reference.commands()
    parser = Commands()
    for name in VERBS:
        assert f"## fitzroy {name}\n" in page
        options = [
            option
            for item in parser[name].params
            if not isinstance(item, typer.core.TyperArgument) and not item.hidden
            for option in item.opts
        ]
        assert all(f"`{option}`" in page for option in options), name


def test_the_error_reference_has_a_remedy_for_every_kind() -> None:
    kinds = reference.error_kinds()
    assert FitzroyError in kinds
    assert {kind.__name__ for kind in kinds} == set(reference.REMEDIES)
    page = reference.errors()
    for kind in kinds:
        assert f"| {kind.exit_code} | `{kind.__name__}` | " in page


@pytest.mark.long
def test_drawings_show_the_chip_and_a_run() -> None:
    made = {name: ElementTree.fromstring(draw()) for name, draw in drawings.DRAWINGS.items()}
    texts = {name: "".join(tree.itertext()) for name, tree in made.items()}
    assert [f"tile {number}" in texts["grid.svg"] for number in range(17)] == [True] * 16 + [False]
    assert "520 KiB" in texts["grid.svg"]
    assert f"{drawings.digits_timeline().cycles:,.0f} cycles" in texts["engines.svg"]
    assert "mac @" in texts["engines.svg"]
