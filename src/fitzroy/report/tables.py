"""Parts of HTML pages that reports share."""

from __future__ import annotations

import html
import re
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
    rows = list(rows)
    kinds = [
        _kind(column, (row[place] for row in rows), place in wrap)
        for place, column in enumerate(columns)
    ]
    head = "".join(
        _heading(column, kind, sort) for column, kind in zip(columns, kinds, strict=True)
    )
    body = []
    for row_number, row in enumerate(rows):
        known = (
            f' data-{mark}="{escaped(row_number if marks is None else marks[row_number])}"'
            if mark
            else ""
        )
        cells = "".join(_cell(cell, kind, sort) for cell, kind in zip(row, kinds, strict=True))
        body.append(f"<tr{known}>{cells}</tr>")
    name = f' id="{id}"' if id else ""
    kind = ' class="sorts"' if sort else ""
    return (
        f"<table{name}{kind}><thead><tr>{head}</tr></thead>\n"
        f"<tbody>{chr(10).join(body)}</tbody></table>"
    )


_SHORT, _MIDDLE = 12, 22
"""Letters of texts that have room in one column, and in two, of a table with rows of several
lines."""


def _kind(column: Column, cells: Iterable[Cell], wrap: bool) -> str:
    """The class of a column: its side, and its room where a row takes several lines."""
    if column.name == "#":
        return ' class="index"'
    names = [name for name, on in (("left", column.text), ("wrap", wrap)) if on]
    if column.text and not wrap:
        longest = max((len(_text(cell.shown)) for cell in cells), default=0)
        names += ["full"] if longest > _MIDDLE else ["two"] if longest > _SHORT else []
    return f' class="{" ".join(names)}"' if names else ""


def _text(shown: str) -> str:
    """HTML without its elements."""
    return html.unescape(re.sub(r"<[^>]*>", "", shown))


def _heading(column: Column, kind: str, sort: bool) -> str:
    title = f' title="{escaped(column.title)}"' if column.title else ""
    label = escaped(column.name)
    if not sort:
        return f'<th scope="col"{kind}{title}>{label}</th>'
    order = f' data-kind="{"text" if column.text else "number"}"'
    first = ' data-first="ascending"' if column.text or column.name == "#" else ""
    button = f'<button type="button">{label}</button>'
    return f'<th scope="col"{kind}{title}{order}{first}>{button}</th>'


def _cell(cell: Cell, kind: str, sort: bool) -> str:
    value = f' data-value="{escaped(cell.value)}"' if sort else ""
    return f"<td{kind}{value}>{cell.shown}</td>"


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
