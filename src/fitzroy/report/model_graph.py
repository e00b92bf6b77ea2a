"""The dataflow of a model as a drawing: what runs on chip and host, and what crosses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fitzroy.report import units
from fitzroy.report.drawing import Box, Line, drawing
from fitzroy.report.elements import hint
from fitzroy.report.phases import short_name

KEY = (
    '<div class="legend key"><span><i class="chip"></i>Edge TPU</span>'
    '<span><i class="away"></i>host</span></div>'
)
"""What the colours of a drawing mean."""


def model_graph(
    operators: Sequence[Mapping[str, Any]],
    edges: Sequence[Mapping[str, Any]],
    cycles: Mapping[int, float],
    key: Callable[[Mapping[str, Any]], str],
) -> str:
    """A model as HTML.

    Args:
        operators: what became of each, see `fitzroy.compilation.documents`.
        edges: which of them reads what of which.
        cycles: cycles of operators on the chip, by their indices, as far as they are known.
        key: how scripts know an operator.
    """
    inputs = list(dict.fromkeys(edge["name"] for edge in edges if edge["from"] is None))
    outputs = list(dict.fromkeys(edge["name"] for edge in edges if edge["to"] is None))
    boxes = [Box("input", short_name(name), name) for name in inputs]
    boxes += [_box(item, key(item), cycles.get(item["index"], 0.0)) for item in operators]
    boxes += [Box("output", short_name(name), name) for name in outputs]
    first, last = len(inputs), len(inputs) + len(operators)
    lines = []
    for edge in edges:
        source = inputs.index(edge["name"]) if edge["from"] is None else first + edge["from"]
        target = last + outputs.index(edge["name"]) if edge["to"] is None else first + edge["to"]
        lines.append(_line(source, target, edge, operators))
    # A tensor that several operators read crosses once.
    pairs = zip(edges, lines, strict=True)
    crossing = len({edge["name"] for edge, line in pairs if line.kind})
    remark = (
        f"{units.some(len(operators), 'operator')}; transfers between host and chip, of "
        f"{units.some(crossing, 'tensor')}, are dashed. Choose an operator to see its layers."
    )
    return f"{hint(remark)}{KEY}{drawing(boxes, lines, 'Graph of the model')}"


def _line(
    source: int, target: int, edge: Mapping[str, Any], operators: Sequence[Mapping[str, Any]]
) -> Line:
    sides = {
        None if edge[side] is None else operators[edge[side]]["subgraph"] for side in ("from", "to")
    }
    text = f"{edge['name']}, {units.size(edge['bytes'])}"
    if len(sides) == 1:
        return Line(source, target, text)
    return Line(source, target, f"{text}, between host and chip", "cross")


def _box(item: Mapping[str, Any], key: str, cycles: float) -> Box:
    where = "host" if item["subgraph"] is None else f"subgraph {item['subgraph']}"
    detail = f"{where}, {cycles:,.0f} cycles" if cycles else where
    title = f"{item['index']} {item['operator']}"
    second = "host" if item["subgraph"] is None else short_name(item["name"])
    return Box(
        title,
        f"{cycles:,.0f} cycles" if cycles else second,
        "\n".join([title, item["name"], item["type"], detail, *fate(item)]),
        "away" if item["subgraph"] is None else "chip",
        key,
    )


def fate(item: Mapping[str, Any]) -> Iterator[str]:
    """The layers of an operator, or why it stays on the host and what to do about it."""
    if item["subgraph"] is not None:
        yield ", ".join(item["layers"])
    for reason in item["reasons"]:
        yield reason["what"]
        if reason["hint"]:
            yield f"hint: {reason['hint']}"
