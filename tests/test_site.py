"""The documentation site: every page has its place, and references name all that there is."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from docs import drawings, reference

from fitzroy.base.errors import FitzroyError
from fitzroy.cli.verbs import VERBS, Commands

ROOT = Path(__file__).parents[1]


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
