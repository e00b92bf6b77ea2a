"""The documentation site: every page has its place, and references name all that there is."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import pkgutil
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from docs import drawings, layouts, reference

from fitzroy.base.errors import FitzroyError
from fitzroy.cli.help import VerbGroup
from fitzroy.cli.main import TASKS
from fitzroy.cli.verbs import VERBS, Commands, declared
from fitzroy.formats import darwinn
from fitzroy.formats.flat import Table, encode
from fitzroy.formats.layout import layout

ROOT = Path(__file__).parents[1]


_WHOM = re.compile(
    r"\b[Ff]or (those|every|users|owners|authors|contributors|programmers|teams|the curious)"
)


def opening(text: str) -> str:
    """What a page begins with after its title, as one line."""
    body = re.sub(r"\A(<!--.*?-->\n+)?# .*\n+", "", text)
    return " ".join(body.partition("\n\n")[0].split())


def test_every_page_begins_with_what_it_is_for_and_for_whom() -> None:
    texts = {path.name: path.read_text() for path in ROOT.glob("docs/*.md")}
    texts |= {name: page() for name, page in reference.PAGES.items()}
    for name, text in texts.items():
        first = opening(text)
        assert re.match(r"[A-Z`]", first), f"{name} begins with {first[:60]!r}"
        if name != "index.md":
            assert _WHOM.search(first), f"{name} does not say whom it is for: {first!r}"


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


def test_the_page_on_the_terminal_has_the_tasks_of_the_help() -> None:
    page = (ROOT / "docs" / "terminal.md").read_text()
    rows = dict(re.findall(r"^\| (.+) \| `(fitzroy .+)` \|$", page, re.MULTILINE))
    assert rows == TASKS


def examples() -> list[str]:
    """Commands that help texts end with."""
    verbs = [declared(name) for name in VERBS]
    groups = [item for item in verbs if isinstance(item, VerbGroup)]
    inner = [verb for group in groups for verb in group.verbs.values()]
    return [*TASKS.values(), *(text for verb in [*verbs, *inner] for text in verb.examples)]


def test_examples_of_help_are_understood() -> None:
    parser, understood = Commands(), 0
    for text in examples():
        words = iter(shlex.split(text.replace("\\\n", " "), comments=True))
        called = [*itertools.dropwhile(lambda word: word != "fitzroy", words)][1:]
        called = [*itertools.takewhile(lambda word: word not in ("|", ">", "&&"), called)]
        # Options are checked, and nothing is run.
        parser[called[0]].make_context(text, called[1:])
        understood += 1
    assert understood > 100


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
    assert "narrow memory, 192 KiB" in texts["tile.svg"]
    assert "lane 63" in texts["array.svg"]
    assert "channel b" in texts["buses.svg"]
    assert "tile 15" in texts["division.svg"]
    assert f"{drawings.digits_timeline().cycles:,.0f} cycles" in texts["engines.svg"]
    assert "mac @" in texts["engines.svg"]
    assert re.search(r"works \d+waits: ring read b \d+", texts["instruction.svg"].replace("\n", ""))


@pytest.mark.parametrize("format", layouts.FORMATS, ids=lambda format: format.identifiers)
def test_the_page_of_formats_has_every_table_that_is_declared(format: layouts.Format) -> None:
    declared = {
        table
        for table in vars(format.module).values()
        if inspect.isclass(table)
        and issubclass(table, Table)
        and table.__module__ == format.module.__name__
        and dataclasses.is_dataclass(table)
        and layout(table)
    }
    shown = layouts.tables(format)
    bases = {base for table in shown for base in table.__mro__[1:]}
    assert declared - bases <= {*shown}


def test_the_page_of_formats_places_fields_as_the_codec_does() -> None:
    package = encode(darwinn.Package(min_runtime_version=13, virtual_chip_id=7), identifier=b"DWN1")
    root = int.from_bytes(package[:4], "little")
    vtable = root - int.from_bytes(package[root : root + 4], "little", signed=True)
    page = reference.PAGES["formats.md"]()
    section = page.partition("### Package ")[2].partition("###")[0]
    for name, value in (("min_runtime_version", 13), ("virtual_chip_id", 7)):
        row = next(line for line in section.splitlines() if f"`{name}`" in line)
        at = vtable + int(row.split("|")[2])
        offset = root + int.from_bytes(package[at : at + 2], "little")
        assert int.from_bytes(package[offset : offset + 4], "little") == value


def test_the_python_reference_names_what_there_is() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    names = re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)
    assert len(names) > 10
    for name in names:
        assert pkgutil.resolve_name(name) is not None
