"""Views of a timeline that several reports show."""

from __future__ import annotations

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.timeline import Issued
from fitzroy.hw_models.isa.text import instruction_lines
from fitzroy.report.phases import products
from fitzroy.report.run import Run

_SHOWN = ("wait:", "loops:", "fill")


def text(item: Issued) -> str:
    """What an instruction does: its first line, its loops, and what it waits for."""
    first, *rest = instruction_lines(item.instruction)
    shown = [line.split(";")[0].strip() for line in rest if line.strip().startswith(_SHOWN)]
    return "\n".join([first.strip(), *shown])


def work(run: Run) -> tuple[Array, Array]:
    """Products done up to a cycle, those of an operation spread evenly over its span.

    Returns:
        Cycles at which the rate changes, float64[n], ascending, and the products that all tiles
        together have done by then, float64[n]; between them it grows linearly.
    """
    timeline = run.timeline
    parts = [
        (span.begin, span.end, products(timeline.issued[span.issue]) * span.tiles.bit_count())
        for span in timeline.spans
        if span.unit == "op" and 0 <= span.issue < len(timeline.issued) and span.end > span.begin
    ]
    parts = [part for part in parts if part[2]]
    if not parts:
        return np.array([0.0, timeline.cycles]), np.zeros(2)
    begin, end, macs = (np.array(column, np.float64) for column in zip(*parts, strict=True))
    rate = macs / (end - begin)
    times, where = np.unique(np.concatenate([begin, end]), return_inverse=True)
    change = np.bincount(where, np.concatenate([rate, -rate]))
    done = np.concatenate([[0.0], np.cumsum(np.cumsum(change)[:-1] * np.diff(times))])
    return times, done


def utilization(run: Run, bins: int) -> tuple[Array, Array]:
    """Use of the MAC array over the program.

    Args:
        run: the run.
        bins: into how many pieces of equal length the program is cut.

    Returns:
        Where the pieces begin and the last one ends in cycles, float64[bins + 1], and the share
        of the products that were possible in each, float64[bins].
    """
    edges = np.linspace(0.0, max(run.timeline.cycles, 1.0), bins + 1)
    done = np.interp(edges, *work(run))
    return edges, np.diff(done) / np.diff(edges) / run.peak_macs
