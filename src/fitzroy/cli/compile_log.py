"""What a compilation for the Edge TPU says of itself: the log, and the same on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fitzroy.cli.terminal import Column, Terminal, count, seconds, size
from fitzroy.cli.timing import estimated_time, whole_time
from fitzroy.hw_models.edgetpu.envelope import Risk
from fitzroy.report.advice import borders
from fitzroy.report.streaming import streaming_text


def _summary(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of a log, as those who read logs of compilers for the chip know them."""
    file = document["files"][0]
    yield "Input model", document["model"]
    yield "Input size", size(document["model_bytes"])
    yield "Output model", file["path"]
    yield "Output size", size(file["bytes"])
    yield "On-chip memory used for caching model parameters", size(document["cached_bytes"])
    yield "On-chip memory remaining for caching model parameters", size(document["remaining_bytes"])
    yield (
        "Off-chip memory used for streaming uncached model parameters",
        size(document["streamed_bytes"]),
    )
    if document["streaming"]:
        yield "Cost of streaming", streaming_text(document["streaming"])
    yield "Number of Edge TPU subgraphs", str(len(document["subgraphs"]))
    yield "Total number of operations", str(document["operators"])
    if document["log"] is not None:
        yield "Operation log", document["log"]
    if document["mapped"] < document["operators"]:
        left = document["operators"] - document["mapped"]
        yield "Number of operations that will run on Edge TPU", str(document["mapped"])
        yield "Number of operations that will run on CPU", str(left)
    for number, part in enumerate(document["subgraphs"]):
        name = f", subgraph {number}" if len(document["subgraphs"]) > 1 else ""
        if part["estimate"] is not None:
            yield f"Estimated time of an inference{name}", estimated_time(part["estimate"])
        outside = [item for item in part["envelope"] if Risk(item["risk"]).matters]
        if outside:
            yield f"Outside the envelope of published programs{name}", _outside(outside)
    whole = document["inference"]
    if whole is not None and len(whole["parts"]) > 1:
        yield "Estimated time of an inference of the whole model", whole_time(whole)


_NAMED = 3
"""Properties outside the envelope that are named in a log."""


def _outside(items: Sequence[dict[str, Any]]) -> str:
    named = [
        f"{item['property']} {item['value']:,} ({item['published']} there, {item['risk']} risk, "
        f"{item['step'] or 'the program'})"
        for item in items[:_NAMED]
    ]
    rest = len(items) - len(named)
    return "; ".join([*named, *([f"{rest} more"] if rest else [])])


_COLUMNS = (Column("Operator"), Column("Count", right=True), Column("Status"))


def _operations(document: dict[str, Any]) -> list[list[str]]:
    return [
        [item["operator"], str(item["count"]), item["status"]] for item in document["operations"]
    ]


def version() -> str:
    """The first line of a log: which compiler it is."""
    import fitzroy

    return f"FitzRoy {fitzroy.__version__}, compiler for the Edge TPU"


def log(document: dict[str, Any]) -> str:
    """The log of a compilation as text."""
    rows = [[column.title for column in _COLUMNS], *_operations(document)]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    table = ["".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines = [
        version(),
        *(f"{name}: {text}" for name, text in _summary(document)),
        "",
        *table,
    ]
    return "\n".join(lines) + "\n"


def show(terminal: Terminal, document: dict[str, Any], *, operations: bool, explain: bool) -> None:
    """Print what became of a model.

    Args:
        terminal: where to.
        document: what the compiler did.
        operations: whether to list kinds of operators also if all run on the chip.
        explain: whether to list every operator.
    """
    left = document["operators"] - document["mapped"]
    terminal.line(f"Model compiled successfully in {seconds(document['seconds'])}.")
    terminal.line()
    for name, text in _summary(document):
        terminal.line(f"{name}: {text}")
    if left:
        terminal.warn(f"{count(left, 'operation')} will run on the CPU")
    if operations or left:
        terminal.line()
        terminal.table(_COLUMNS, _operations(document))
    for text in borders(document):
        terminal.line(f"hint: {text}", style="green")
    if explain:
        _explain(terminal, document)


def _explain(terminal: Terminal, document: dict[str, Any]) -> None:
    """What became of every operator: why it stays and what to do about it, or its layers."""
    from fitzroy.report.phases import short_name

    items = document["explanation"]
    left = [item for item in items if item["subgraph"] is None]
    if left:
        terminal.heading("operators on the host")
    for item in left:
        terminal.line(f"{item['index']} {item['operator']} {short_name(item['name'])!r}")
        for reason in item["reasons"]:
            terminal.line(f"{reason['code']}: {reason['what']}", indent=2)
            if reason["hint"]:
                terminal.line(f"hint: {reason['hint']}", style="green", indent=4)
    mapped = [item for item in items if item["subgraph"] is not None]
    if mapped:
        terminal.heading("operators on the Edge TPU")
        several = len({item["subgraph"] for item in mapped}) > 1
        rows = [
            [
                str(item["index"]),
                item["operator"],
                short_name(item["name"]),
                *([str(item["subgraph"])] if several else []),
                ", ".join(item["layers"]) or "none of its own",
            ]
            for item in mapped
        ]
        terminal.table(
            [column for column in _EXPLAINED if several or column is not _SUBGRAPH], rows
        )


_SUBGRAPH = Column("subgraph", right=True)
_EXPLAINED = (
    Column("#", right=True),
    Column("operator", keep=True),
    Column("result", short=True, keep=True),
    _SUBGRAPH,
    Column("layers"),
)
