"""Into how many segments a model is cut, and what is predicted of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from fitzroy.cli.terminal import Column, Terminal

if TYPE_CHECKING:
    from fitzroy.compiler.targets.edgetpu.partition.cuts import Cut

_MOST_SEGMENTS = 1024
"""Every segment has at least one operator, and files of its own."""

AUTO = -1
"""As many segments as pay."""


def number_of_segments(text: str | int) -> int:
    """How many segments an option asks for; typer hands the default through as a number.

    Raises:
        BadParameter: neither a number of segments nor `auto`.
    """
    if text == "auto":
        return AUTO
    try:
        number = int(text)
    except ValueError:
        number = AUTO
    if isinstance(text, str) and not 0 <= number <= _MOST_SEGMENTS:
        raise typer.BadParameter(f"{text!r} is neither auto nor in the range 0 to {_MOST_SEGMENTS}")
    return number


def cuts_document(cuts: Sequence[Cut]) -> dict[str, Any]:
    """Predictions for every number of chips that was considered, for JSON."""
    from fitzroy.compilation.documents import cut_document

    return {"cuts": [cut_document(cut) for cut in cuts]} if cuts else {}


_COLUMNS = (
    Column("Chips", right=True),
    Column("Slowest segment", right=True),
    Column("Latency", right=True),
    Column("Pipeline", right=True),
    Column("Whole models in parallel", right=True),
    Column(""),
)


def show_cuts(terminal: Terminal, cuts: Sequence[Cut], chosen: int) -> None:
    """What was predicted for every number of chips, in outputs per second."""
    if not cuts:
        return
    terminal.heading("predicted for several chips on one controller")
    rows = [
        [
            str(len(cut.times)),
            f"{max(cut.times):,.0f} µs",
            f"{cut.latency:,.0f} µs",
            f"{1e6 / cut.interval:,.0f}/s",
            f"{1e6 / cut.parallel_interval:,.0f}/s",
            "written" if len(cut.times) == chosen else "",
        ]
        for cut in cuts
    ]
    terminal.table(_COLUMNS, rows)
    if not all(cut.exact for cut in cuts):
        terminal.line("There are too many cuts to try all: those along the order of the model.")
