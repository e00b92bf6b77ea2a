"""The examples of docs/assembly.md are what the tools print; docs/linking.md lists all tables."""

from __future__ import annotations

import re
from pathlib import Path

from fitzroy.formats import flat, object_file
from fitzroy.formats.object_file import read_object, write_object
from fitzroy.hw_models.isa.text import ChunkParser, listing, uncommented
from fitzroy.linker.objects.text import object_listing, parse_object
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.schedule import from_hints

PAGE_FOLDER = Path(__file__).parent.parent / "docs"
PAGE = (PAGE_FOLDER / "assembly.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def canonical(text: str) -> list[str]:
    """Lines without indentation and alignment of comments."""
    lines = [re.sub(r"\s*;\s*", " ; ", line).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def test_fragments_are_canonical() -> None:
    fragments = blocks("asm")
    assert len(fragments) == 3
    for text in fragments:
        parser = ChunkParser()
        for number, line in enumerate(text.splitlines(), start=1):
            parser.line(number, uncommented(line))
        printed = "\n".join(listing(parser.finish().instructions))
        assert canonical(printed) == canonical(text)


def test_the_example_is_what_is_printed_and_linked() -> None:
    (text,) = blocks("object")
    (script,) = blocks("script")
    found = read_object(write_object(parse_object(text)))
    assert "\n".join(object_listing(found)) + "\n" == text
    (package,) = link([found])
    assert package.main.dma_hints is not None
    steps = from_hints(package.main.dma_hints).steps
    assert "\n".join(map(str, steps)) + "\n" == script


def test_the_page_lists_every_part_and_buffer() -> None:
    expressions = re.findall(r"`([a-z_]+\([a-z]*)", PAGE)
    names = {"low(input", "high(output", "low(parameters", "low(scratch", "row(", "quarter_row("}
    assert names | {"offset("} <= set(expressions)


def test_the_tables_of_objects_are_listed_with_their_fields() -> None:
    page = (PAGE_FOLDER / "linking.md").read_text()
    rows = re.findall(r"^\| `([A-Z]\w+)` \| ([^|]+) \|", page, re.MULTILINE)
    listed = {name: re.findall(r"`(\w+)`", fields) for name, fields in rows}
    declared = {
        name: [field for _, field, _kind in table.declared().fields]
        for name, table in vars(object_file).items()
        if isinstance(table, type)
        and issubclass(table, flat.Table)
        and table.__module__ == object_file.__name__
    }
    assert {name: listed.get(name) for name in declared} == declared
    parts = re.findall(r"`([A-Z_]+)`", "\n".join(re.findall(r"^\| `[A-Z_, `]+ \|.*", page, re.M)))
    assert {part.name for part in object_file.Part} <= set(parts)
