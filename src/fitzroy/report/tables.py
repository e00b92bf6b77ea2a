"""Parts of HTML pages that reports share."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources


def resource(name: str) -> str:
    """A file of this package."""
    return resources.files("fitzroy.report").joinpath(name).read_text(encoding="utf-8")


def escaped(text: object) -> str:
    """Text for HTML."""
    return html.escape(str(text))


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        shown: HTML.
        value: what it is sorted by.
    """

    shown: str
    value: float | str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: heading, whether it holds text, and what the heading means."""

    name: str
    text: bool = False
    title: str = ""


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], *, id: str = "", sort: bool = False
) -> str:
    """A table.

    Args:
        columns: its columns.
        rows: its cells, row by row.
        id: its name in the page.
        sort: whether headings sort it, which a script of the page does.
    """
    head = []
    for column in columns:
        side = ' class="left"' if column.text else ""
        title = f' title="{escaped(column.title)}"' if column.title else ""
        kind = f' data-kind="{"text" if column.text else "number"}"' if sort else ""
        first = ' data-first="ascending"' if sort and (column.text or column.name == "#") else ""
        label = (
            f'<button type="button">{escaped(column.name)}</button>'
            if sort
            else escaped(column.name)
        )
        head.append(f'<th scope="col"{side}{title}{kind}{first}>{label}</th>')
    body = []
    for place, row in enumerate(rows):
        cells = []
        for column, cell in zip(columns, row, strict=True):
            side = ' class="left"' if column.text else ""
            value = f' data-value="{escaped(cell.value)}"' if sort else ""
            cells.append(f"<td{side}{value}>{cell.shown}</td>")
        mark = f' data-phase="{place}"' if sort else ""
        body.append(f"<tr{mark}>{''.join(cells)}</tr>")
    name = f' id="{id}"' if id else ""
    return (
        f"<table{name}><thead><tr>{''.join(head)}</tr></thead>\n"
        f"<tbody>{chr(10).join(body)}</tbody></table>"
    )


def number(value: float, text: str | None = None) -> Cell:
    """A number, shown with separators unless there is a text for it."""
    return Cell(escaped(f"{value:,.0f}" if text is None else text), round(value, 6))


def blank_zero(value: float, text: str | None = None) -> Cell:
    """A number that is not shown if it is zero."""
    return number(value, text) if value else Cell("", 0)


def meter(part: float, color: str = "op") -> str:
    """A bar that is filled to a share."""
    width = min(100.0, max(0.0, 100 * part))
    return (
        f'<span class="meter"><i style="width:{width:.1f}%;background:var(--{color})"></i></span>'
    )
