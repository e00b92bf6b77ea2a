"""What the compiler for the Edge TPU did as one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fitzroy.report import units
from fitzroy.report.run import Run
from fitzroy.report.tables import (
    Cell,
    Column,
    blank_zero,
    escaped,
    meter,
    number,
    resource,
    table,
)

_FOOTER = (
    "Made by the FitzRoy compiler. Times are those of the simulator's timing model, not of a "
    "measurement. Cycles of a layer are those of its phases, from the end of the phase before; a "
    "layer is bound by what most of the critical path in it goes through."
)

_COLORS = ("op", "ring", "mesh", "conversion", "infeed", "host", "scalar")
"""Colours of the page that boxes of memory maps take in turn."""

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900.0, 300.0, 64.0, 22.0


def page(documents: Sequence[Mapping[str, Any]], runs: Sequence[Sequence[Run]]) -> str:
    """The report of models that were compiled together as an HTML document.

    Args:
        documents: what the compiler did for each, in full, see `fitzroy.compilation.documents`.
        runs: an inference of each part of each model.
    """
    names = ", ".join(document["model"] for document in documents)
    mapped = sum(document["mapped"] for document in documents)
    operators = sum(document["operators"] for document in documents)
    parts = {
        "title": escaped(names),
        "subtitle": escaped(
            f"Compiled for the Edge TPU · {mapped} of {operators} operators on the chip"
        ),
        "style": resource("page.css"),
        "models": "\n".join(map(_model, documents, runs)),
        "footer": escaped(_FOOTER),
    }
    # One pass, so that markers inside of what is filled in stay what they are.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], resource("compilation.html"))


def _section(title: str, *content: str) -> str:
    return f"<section><h2>{escaped(title)}</h2>\n{''.join(content)}\n</section>"


def _scroll(content: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region">{content}</div>'


def _model(document: Mapping[str, Any], runs: Sequence[Run]) -> str:
    sections = [
        _section(document["model"], _headline(document)),
        _section("Operators", _scroll(_operators(document))),
    ]
    for place, (part, run) in enumerate(zip(document["subgraphs"], runs, strict=True)):
        name = f"Subgraph {place}"
        sections += [
            _section(f"{name}: layers", _scroll(_layers(part))),
            _section(
                f"{name}: narrow memory over time",
                '<p class="hint">Bytes of every tile that tensors have, by step; what is left '
                "white is free. Point at a box for its name.</p>",
                _narrow(part["narrow"]),
            ),
            _section(
                f"{name}: parameters in wide memory",
                '<p class="hint">Rows of every tile that parameters have, and above the line '
                "those that the program uses for data.</p>",
                _wide(part["wide"]),
                _scroll(_parameters(part["wide"])),
            ),
            _section(f"{name}: transfers of an inference", _transfers(part, run)),
        ]
    return "\n".join(sections)


def _headline(document: Mapping[str, Any]) -> str:
    times = [part["estimate"]["total_us"] for part in document["subgraphs"] if part["estimate"]]
    items = [
        ("Operators on the chip", f"{document['mapped']} of {document['operators']}", ""),
        ("Subgraphs", str(len(document["subgraphs"])), ""),
        ("Estimated inference", units.time(sum(times)), "of the subgraphs, without the host"),
        (
            "Parameters on the chip",
            units.size(document["cached_bytes"]),
            f"{units.size(document['remaining_bytes'])} remain",
        ),
        ("Parameters streamed", units.size(document["streamed_bytes"]), "with every inference"),
    ]
    items += [("Output", units.size(file["bytes"]), file["path"]) for file in document["files"]]
    shown = "\n".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}<small>{escaped(detail)}</small></dd>"
        "</div>"
        for name, value, detail in items
    )
    return f'<dl class="figures">{shown}</dl>'


def _operators(document: Mapping[str, Any]) -> str:
    return table(
        (
            Column("#"),
            Column("operator", text=True),
            Column("result", text=True),
            Column("type", text=True),
            Column("runs on", text=True),
            Column("layers, or why not", text=True),
        ),
        [
            (
                number(item["index"]),
                Cell(escaped(item["operator"])),
                Cell(escaped(item["name"])),
                Cell(escaped(item["type"])),
                Cell("host" if item["subgraph"] is None else f"subgraph {item['subgraph']}"),
                Cell("<br>".join(map(escaped, _fate(item)))),
            )
            for item in document["explanation"]
        ],
    )


def _fate(item: Mapping[str, Any]) -> Iterator[str]:
    if item["subgraph"] is not None:
        yield ", ".join(item["layers"])
    for reason in item["reasons"]:
        yield reason["what"]
        if reason["hint"]:
            yield f"hint: {reason['hint']}"


def _layers(part: Mapping[str, Any]) -> str:
    total = sum(layer["cycles"] for layer in part["layers"]) or 1.0
    return table(
        (
            Column("step"),
            Column("layer", text=True),
            Column("cycles"),
            Column("share"),
            Column("MACs", title="products of all tiles, in lanes that are on"),
            Column("bound by", text=True),
        ),
        [
            (
                number(place),
                Cell(escaped(layer["name"])),
                number(layer["cycles"]),
                Cell(
                    escaped(units.share(layer["cycles"] / total))
                    + meter(layer["cycles"] / total, "scalar")
                ),
                blank_zero(layer["macs"]),
                Cell(escaped(layer["bound"])),
            )
            for place, layer in enumerate(part["layers"])
        ],
    )


def _parameters(wide: Mapping[str, Any]) -> str:
    return table(
        (
            Column("operand", text=True),
            Column("kind", text=True),
            Column("bytes"),
            Column("rows on the chip"),
            Column("tiles"),
        ),
        [
            (
                Cell(escaped(item["name"])),
                Cell(escaped(item["kind"])),
                number(item["bytes"]),
                blank_zero(sum(piece["rows"] for piece in item["pieces"])),
                blank_zero(len({piece["tile"] for piece in item["pieces"]})),
            )
            for item in wide["operands"]
        ],
    )


def _transfers(part: Mapping[str, Any], run: Run) -> str:
    rows = [(f"input {name}", size) for name, size in part["inputs"].items()]
    rows += [(f"output {name}", size) for name, size in part["outputs"].items()]
    rows += [
        ("instructions", run.instructions),
        ("parameters, streamed", run.streamed),
        ("parameters, once", run.cached),
    ]
    return table(
        (Column("what", text=True), Column("bytes")),
        [(Cell(escaped(name)), number(size)) for name, size in rows],
    )


# --- memory maps ---------------------------------------------------------------------------------


def _narrow(narrow: Mapping[str, Any]) -> str:
    """Tensors as boxes: steps along, bytes up; scratch of the steps hangs from the top."""
    steps, capacity = len(narrow["steps"]), narrow["capacity"]
    boxes = [
        (item["begin"], item["end"] + 1, item["base"], item["base"] + item["bytes"], item["name"])
        for item in narrow["tensors"]
    ]
    colored = [(*box, _COLORS[place % len(_COLORS)]) for place, box in enumerate(boxes)]
    colored += [
        (step, step + 1, capacity - size, capacity, f"scratch of step {step}", "fence")
        for step, size in enumerate(narrow["scratch"])
    ]
    return _map(colored, steps, capacity, units.size(capacity), f"{steps} steps")


def _wide(wide: Mapping[str, Any]) -> str:
    """Parameters as boxes: tiles along, rows up."""
    capacity, tiles = wide["capacity"], len(wide["taken"])
    boxes = [
        (
            piece["tile"],
            piece["tile"] + 1,
            piece["row"],
            piece["row"] + piece["rows"],
            item["name"],
            _COLORS[place % len(_COLORS)],
        )
        for place, item in enumerate(wide["operands"])
        for piece in item["pieces"]
    ]
    boxes += [
        (tile, tile + 1, 0, rows, "other models and parts", "fence")
        for tile, rows in enumerate(wide["taken"])
        if rows
    ]
    boxes.append((0, tiles, wide["limit"], capacity, "rows for data", "fence"))
    return _map(boxes, tiles, capacity, f"{capacity} rows", f"{tiles} tiles")


def _map(
    boxes: Sequence[tuple[float, float, float, float, str, str]],
    columns: int,
    rows: int,
    top: str,
    along: str,
) -> str:
    """Boxes from column to column and from row to row, with a name and a colour."""
    across = (_WIDTH - _LEFT) / max(1, columns)
    up = (_HEIGHT - _BOTTOM) / max(1, rows)
    shapes = [
        f'<rect class="box" x="{_LEFT + left * across:.1f}" y="{_HEIGHT - _BOTTOM - end * up:.1f}" '
        f'width="{(right - left) * across:.1f}" height="{(end - begin) * up:.1f}" '
        f'style="fill:var(--{color})"><title>{escaped(name)}: {begin:,} to {end:,}</title></rect>'
        for left, right, begin, end, name, color in boxes
        if end > begin
    ]
    shapes.append(f'<path class="axis" d="M{_LEFT} 0V{_HEIGHT - _BOTTOM}H{_WIDTH}"/>')
    shapes.append(f'<text x="{_LEFT - 6}" y="11" text-anchor="end">{escaped(top)}</text>')
    shapes.append(
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">'
        f"{escaped(along)}</text>"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="Memory map">{"".join(shapes)}</svg>'
    )
