"""Parts of HTML pages: sections, figures, lists and names. Texts are plain and get escaped here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from fitzroy.report.phases import short_name
from fitzroy.report.tables import Cell, escaped

LEGEND = {
    "op": "op engine",
    "ring": "ring",
    "mesh": "mesh",
    "conversion": "narrow and wide conversion",
    "infeed": "stream units",
    "fence": "fences of tiles",
    "scalar": "scalar core",
    "host": "host",
}
"""What the colours of pages mean, by resource."""

_COLUMNS = (6, 5, 4, 3)
"""Figures that stand side by side on a wide page, the most first."""


def section(title: str, *content: str, beside: str = "", id: str = "") -> str:
    """A section of a page.

    Args:
        title: its heading, plain text.
        content: HTML.
        beside: HTML that stands in the line of the heading.
        id: its name in the page.
    """
    name = f' id="{id}"' if id else ""
    head = f"<h2>{escaped(title)}</h2>"
    top = f'<div class="bar">{head}{beside}</div>' if beside else head
    return f"<section{name}>{top}\n{''.join(content)}\n</section>"


def scroll(content: str, label: str) -> str:
    """HTML that scrolls where it is wider or higher than there is room for."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(label)}">'
        f"{content}</div>"
    )


def folded(summary: str, *content: str) -> str:
    """HTML that is shown when its summary is chosen."""
    return f"<details><summary>{escaped(summary)}</summary>\n{''.join(content)}</details>"


def hint(text: str) -> str:
    """A remark on what follows."""
    return f'<p class="hint">{escaped(text)}</p>'


def search(table: str, what: str) -> str:
    """A field that leaves those rows of a table whose text has what is typed.

    Args:
        table: the table's name in the page.
        what: what its rows are, in the plural.
    """
    return _field(f'data-filter="{escaped(table)}"', what)


def search_box(id: str, what: str) -> str:
    """A field for a script of the page.

    Args:
        id: its name in the page.
        what: what is searched, in the plural.
    """
    return _field(f'id="{escaped(id)}"', what)


def _field(attribute: str, what: str) -> str:
    text = escaped(f"Search {what}")
    return (
        f'<input type="search" class="search" {attribute} placeholder="{text}" aria-label="{text}">'
    )


def figure_list(items: Sequence[tuple[str, str, str]]) -> str:
    """Figures as tiles, none of which is alone in a line: name, value, and detail of each."""
    count = len(items)
    # A number without divisor has a last line that is one tile short.
    columns = next((n for n in _COLUMNS if count % n == 0), min(count, 4))
    shown = "\n".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}<small>{escaped(detail)}</small></dd>"
        "</div>"
        for name, value, detail in items
    )
    return f'<dl class="figures" style="--columns:{columns}">{shown}</dl>'


def listed(items: Iterable[str], kind: str = "notes") -> str:
    """Texts as a list; nothing if there are none."""
    shown = "".join(f"<li>{escaped(item)}</li>" for item in items)
    return f'<ul class="{kind}">{shown}</ul>' if shown else ""


def color(resource: str) -> str:
    """The colour of a resource: a variable of the style without its dashes."""
    return resource if resource in LEGEND else "scalar"


def tag(resource: str) -> str:
    """The name of a resource with its colour."""
    return f'<span class="tag" style="--c:var(--{color(resource)})">{escaped(resource)}</span>'


def legend(resources: Iterable[str]) -> str:
    """What the colours of resources mean."""
    items = "".join(
        f'<span><i style="background:var(--{name})"></i>{escaped(LEGEND[name])}</span>'
        for name in resources
    )
    return f'<div class="legend">{items}</div>'


def named(full: str, shown: str | None = None) -> Cell:
    """A name as short as tables need it, with all of it where the pointer rests."""
    short = short_name(full) if shown is None else shown
    if short == full:
        return Cell(escaped(full), full)
    return Cell(f'<span class="name" title="{escaped(full)}">{escaped(short)}</span>', full)


def file_name(path: str) -> str:
    """The last part of a path."""
    return os.path.basename(path) or path
