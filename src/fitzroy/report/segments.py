"""What a page says of a model for several chips: a pipeline of segments, or whole models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fitzroy.report import units
from fitzroy.report.elements import hint, scroll, section
from fitzroy.report.tables import Cell, Column, blank_zero, escaped, meter, number, table

_PIPELINE, _PARALLEL = "pipeline", "whole models"

_EQUAL = 1.02
"""How much faster one way to use chips has to be to be called faster."""


def several_chips(cuts: Sequence[Mapping[str, Any]], chosen: int) -> str:
    """A section on a model that was cut into segments.

    Args:
        cuts: the best cut for every number of chips that was considered, see
            `fitzroy.compilation.documents.cut_document`.
        chosen: how many segments were written.
    """
    written = next(cut for cut in cuts if cut["chips"] == chosen)
    return section(
        "Several chips",
        hint(
            "Outputs per second if each chip computes a segment of the model, and if each computes "
            "the whole model for inputs of its own. All chips are on one controller, which moves "
            "what they take and give."
        ),
        scroll(_numbers(cuts, chosen), "Numbers of chips"),
        hint(
            "Segments that were written. Tensors are what a segment takes and gives with every "
            "inference; the host sends streamed parameters with every inference, too."
        ),
        scroll(_segments(written), "Segments"),
    )


def _numbers(cuts: Sequence[Mapping[str, Any]], chosen: int) -> str:
    return table(
        (
            Column("chips"),
            Column("slowest segment"),
            Column("latency", title="from an input to its output, through all segments"),
            Column("controller", title="time in which it moves what all segments take and give"),
            Column("pipeline", title="outputs per second, of segments"),
            Column("whole models", title="outputs per second, of whole models in parallel"),
            Column("faster", text=True),
            Column("times", text=True, title="of compiled segments, or predicted"),
            Column("", text=True),
        ),
        [
            (
                number(cut["chips"]),
                number(max(cut["segments_us"]), units.time(max(cut["segments_us"]))),
                number(cut["latency_us"], units.time(cut["latency_us"])),
                number(cut["bus_us"], units.time(cut["bus_us"])),
                number(1e6 / cut["interval_us"]),
                number(1e6 / cut["parallel_interval_us"]),
                Cell(escaped(faster(cut))),
                Cell(_source(cut["segments"])),
                Cell("written" if cut["chips"] == chosen else ""),
            )
            for cut in cuts
        ],
    )


def faster(cut: Mapping[str, Any]) -> str:
    """Which way to use several chips gives more outputs per second; nothing for one chip."""
    gain = cut["parallel_interval_us"] / cut["interval_us"]
    if cut["chips"] == 1 or 1 / _EQUAL < gain < _EQUAL:
        return ""
    return f"{_PIPELINE}, {gain:.1f} times" if gain > 1 else f"{_PARALLEL}, {1 / gain:.1f} times"


def _source(segments: Sequence[Mapping[str, Any]]) -> str:
    return "timing model" if all(item["timed"] for item in segments) else "predicted"


def _segments(cut: Mapping[str, Any]) -> str:
    slowest = max(cut["segments_us"])
    return table(
        (
            Column("segment"),
            Column("operators"),
            Column("time"),
            Column("parameters kept", title="bytes that stay on the chip"),
            Column("parameters streamed", title="bytes from the host with every inference"),
            Column("tensors", title="bytes that it takes and gives with every inference"),
        ),
        [
            (
                number(place),
                number(item["operators"]),
                Cell(escaped(units.time(item["us"])) + meter(item["us"] / slowest), item["us"]),
                blank_zero(item["cached_bytes"]),
                blank_zero(item["streamed_bytes"]),
                number(item["tensor_bytes"]),
            )
            for place, item in enumerate(cut["segments"])
        ],
    )
