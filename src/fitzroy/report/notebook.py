"""What notebooks show of programs, runs and results: reports in frames, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fitzroy.base.types import Array
from fitzroy.report.tables import Cell, Column, escaped, number, table

_FIRST = 6
"""Elements of a tensor that are shown."""


def framed(page: str, title: str, height: int = 640) -> str:
    """A page as part of a notebook, in a frame of its own.

    The frame keeps styles and scripts of page and notebook apart; it has no origin, so the page
    reaches nothing of the notebook.

    Args:
        page: an HTML document.
        title: what it is.
        height: its height in pixels.
    """
    return (
        f'<iframe title="{escaped(title)}" sandbox="allow-scripts" srcdoc="{escaped(page)}" '
        f'style="width:100%;height:{height}px;border:1px solid #8884;border-radius:6px"></iframe>'
    )


def tensors(values: Mapping[str, Array]) -> str:
    """Tensors as a table: shape, range and the first elements of each."""
    return table(
        (
            Column("tensor", text=True),
            Column("type", text=True),
            Column("least"),
            Column("most"),
            Column("first elements", text=True),
        ),
        [
            (
                Cell(escaped(name)),
                Cell(escaped(f"{value.dtype}{list(value.shape)}")),
                _limit(value, "min"),
                _limit(value, "max"),
                Cell(escaped(_first(value))),
            )
            for name, value in values.items()
        ],
    )


def _limit(value: Array, kind: str) -> Cell:
    if not value.size:
        return Cell("")
    limit = float(value.min() if kind == "min" else value.max())
    return number(limit, f"{limit:.6g}")


def _first(value: Array) -> str:
    shown = [f"{item:.6g}" for item in value.reshape(-1)[:_FIRST].tolist()]
    return ", ".join([*shown, *(["…"] if value.size > _FIRST else [])])


def facts(title: str, rows: Iterable[Sequence[str]]) -> str:
    """Names and what they stand for, as a table under a title."""
    cells = [tuple(Cell(escaped(text)) for text in row) for row in rows]
    columns = (Column("what", text=True), Column("is", text=True))
    return f"<strong>{escaped(title)}</strong>{table(columns, cells)}"
