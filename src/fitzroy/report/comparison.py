"""What changed between two compiled models as one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fitzroy.report import units
from fitzroy.report.elements import (
    figure_list,
    file_name,
    hint,
    listed,
    named,
    scroll,
    search,
    section,
)
from fitzroy.report.pages import page as whole_page
from fitzroy.report.tables import Cell, Column, escaped, number, table

_FOOTER = (
    "Made by fitzroy compare. Times are those of the simulator's timing model, not of a "
    "measurement, unless a document says its own."
)

_HEADLINE = ("latency_us", "cycles", "transfer_bytes", "model_bytes", "cached_bytes")
"""Figures that stand at the top, where both sides have them."""

_TOP = 4


def page(document: Mapping[str, Any]) -> str:
    """The comparison as an HTML document.

    Args:
        document: what ``fitzroy compare --json`` prints.
    """
    old, new = file_name(document["old"]), file_name(document["new"])
    changed = sum(item["old"] != item["new"] for item in document["figures"])
    subtitle = f"{changed} of {len(document['figures'])} figures"
    subtitle += f" and {len(document['layers'])} layers" if document["layers_known"] else ""
    subtitle += " changed"
    sections = [
        section("Summary", _headline(document), _remarks(document)),
        section(
            "Figures",
            scroll(_figures(document), "Table of figures"),
            beside=search("figures", "figures"),
        ),
        section("Layers", _layers(document), beside=search("layers", "layers")),
    ]
    if document["samples"]:
        sections.append(section("Outputs", _outputs(document)))
    main = "\n".join(sections)
    return whole_page(f"{old} → {new}", subtitle, main, _FOOTER, kind="comparison")


def _headline(document: Mapping[str, Any]) -> str:
    found = {item["name"]: item for item in document["figures"]}
    both = [found[name] for name in _HEADLINE if name in found and _of_both(found[name])]
    # Those that changed say more; they stay in their order.
    kept = sorted(both, key=lambda item: item["old"] == item["new"])[:_TOP]
    shown = [item for item in both if item in kept]
    return figure_list(
        [
            (
                item["title"],
                _value(item["new"], item["unit"]),
                f"before: {_value(item['old'], item['unit'])}, {_change(item)}",
            )
            for item in shown or document["figures"][:_TOP]
        ]
    )


def _of_both(item: Mapping[str, Any]) -> bool:
    return item["old"] is not None and item["new"] is not None


def _remarks(document: Mapping[str, Any]) -> str:
    counts = document["host_operators"].items()
    moves = ", ".join(f"{name} {each['old']} → {each['new']}" for name, each in counts)
    moved = [f"operators on the host: {moves}"] if moves else []
    titles = {item["name"]: item["title"] for item in document["figures"]}
    worse = [
        f"{titles.get(name, name)} got worse by more than is allowed"
        for name in document["regressions"]
    ]
    return listed([*worse, *moved])


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "µs":
        return units.time(value)
    if unit == "B":
        return units.size(value)
    return f"{value:,.0f} {unit}".strip()


def _change(item: Mapping[str, Any]) -> str:
    """By how much a figure or a layer grew."""
    if item["old"] is None or item["new"] is None:
        return "same" if item["old"] is item["new"] else "new" if item["old"] is None else "gone"
    if item["old"] == item["new"]:
        return "same"
    return f"{100 * _grown(item):+.1f} %" if item["old"] else "new"


def _grown(item: Mapping[str, Any]) -> float:
    """Growth by what was there before; infinite if that was nothing."""
    old, new = item["old"] or 0.0, item["new"] or 0.0
    if old == new:
        return 0.0
    return (new - old) / old if old else math.inf


def _grown_cell(item: Mapping[str, Any], better: str) -> Cell:
    grown = _grown(item)
    kind = "" if not grown else "better" if (grown > 0) == (better == "more") else "worse"
    return Cell(f'<span class="{kind}">{escaped(_change(item))}</span>', min(grown, 1e9))


def _figures(document: Mapping[str, Any]) -> str:
    return table(
        (Column("figure", text=True), Column("before"), Column("after"), Column("change")),
        [
            (
                Cell(escaped(item["title"]), item["title"]),
                number(item["old"] or 0.0, _value(item["old"], item["unit"])),
                number(item["new"] or 0.0, _value(item["new"], item["unit"])),
                _grown_cell(item, item["better"]),
            )
            for item in document["figures"]
        ],
        id="figures",
        sort=True,
        wrap=(0,),
    )


def _layers(document: Mapping[str, Any]) -> str:
    """Layers that changed, those by the most cycles first, with bars to both sides."""
    layers = sorted(document["layers"], key=lambda item: -abs(_difference(item)))
    most = max((abs(_difference(item)) for item in layers), default=0.0) or 1.0
    rows = [
        (
            Cell(escaped(item["name"]), item["name"]),
            number(item["old"] or 0.0, _value(item["old"], "")),
            number(item["new"] or 0.0, _value(item["new"], "")),
            _grown_cell(item, "less"),
            Cell(_bar(_difference(item) / most), _difference(item)),
        )
        for item in layers
    ]
    if not layers:
        known = "All layers take the same cycles."
        unknown = (
            "One side has no layers. Compare models, or JSON reports: compile --report X.json."
        )
        return hint(known if document["layers_known"] else unknown)
    shown = table(_LAYER_COLUMNS, rows, id="layers", sort=True, wrap=(0,))
    return scroll(shown, "Table of layers")


_LAYER_COLUMNS = (
    Column("layer", text=True),
    Column("cycles before"),
    Column("after"),
    Column("change"),
    Column("difference", title="cycles, to the left where it is faster"),
)


def _difference(item: Mapping[str, Any]) -> float:
    return float((item["new"] or 0.0) - (item["old"] or 0.0))


def _bar(part: float) -> str:
    """A bar from the middle: to the left where it is faster, to the right where it is slower."""
    left, color = (50 + 50 * part, "ring") if part < 0 else (50.0, "infeed")
    return (
        f'<span class="meter both"><i style="margin-left:{left:.1f}%;width:{50 * abs(part):.1f}%;'
        f'background:var(--{color})"></i></span>'
    )


def _outputs(document: Mapping[str, Any]) -> str:
    if not document["outputs"]:
        return hint(f"Outputs are the same on all {document['samples']} inputs.")
    rows = [
        (named(item["sample"]), named(item["output"]), Cell(escaped(item["text"])))
        for item in document["outputs"]
    ]
    columns = (
        Column("input", text=True),
        Column("output", text=True),
        Column("difference", text=True),
    )
    return scroll(table(columns, rows, wrap=(2,)), "Table of outputs")
