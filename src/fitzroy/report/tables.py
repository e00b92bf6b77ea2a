"""Parts of HTML pages that reports share."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


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
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    id: str = "",
    sort: bool = False,
    mark: str = "",
    marks: Sequence[object] | None = None,
    wrap: Sequence[int] = (),
) -> str:
    """A table.

    Args:
        columns: its columns.
        rows: its cells, row by row.
        id: its name in the page.
        sort: whether headings sort it.
        mark: name of the data attribute by which scripts know a row; empty for none.
        marks: its value for each row; None for the row's number.
        wrap: columns whose texts go over several lines.
    """
    head = "".join(_heading(column, sort) for column in columns)
    body = []
    for row_number, row in enumerate(rows):
        known = (
            f' data-{mark}="{escaped(row_number if marks is None else marks[row_number])}"'
            if mark
            else ""
        )
        cells = "".join(
            _cell(column, cell, sort, place in wrap)
            for place, (column, cell) in enumerate(zip(columns, row, strict=True))
        )
        body.append(f"<tr{known}>{cells}</tr>")
    name = f' id="{id}"' if id else ""
    kind = ' class="sorts"' if sort else ""
    return (
        f"<table{name}{kind}><thead><tr>{head}</tr></thead>\n"
        f"<tbody>{chr(10).join(body)}</tbody></table>"
    )


def _heading(column: Column, sort: bool) -> str:
    side = ' class="left"' if column.text else ""
    title = f' title="{escaped(column.title)}"' if column.title else ""
    label = escaped(column.name)
    if not sort:
        return f'<th scope="col"{side}{title}>{label}</th>'
    kind = f' data-kind="{"text" if column.text else "number"}"'
    first = ' data-first="ascending"' if column.text or column.name == "#" else ""
    return f'<th scope="col"{side}{title}{kind}{first}><button type="button">{label}</button></th>'


def _cell(column: Column, cell: Cell, sort: bool, wrap: bool) -> str:
    names = " ".join(name for name, on in (("left", column.text), ("wrap", wrap)) if on)
    side = f' class="{names}"' if names else ""
    value = f' data-value="{escaped(cell.value)}"' if sort else ""
    return f"<td{side}{value}>{cell.shown}</td>"


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
