"""A run as one HTML file that needs nothing else: no network, no fonts, no other file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fitzroy.hw_models.edgetpu.occupancy import Use
from fitzroy.report import activity, units
from fitzroy.report.elements import (
    LEGEND,
    color,
    figure_list,
    listed,
    named,
    scroll,
    search,
    section,
    tag,
)
from fitzroy.report.notebook import framed
from fitzroy.report.pages import filled
from fitzroy.report.pages import page as whole_page
from fitzroy.report.phases import (
    ENGINES,
    RESOURCE_OF,
    STREAM_UNITS,
    PhaseFigures,
    busiest_tile,
    phases,
    tile_name,
)
from fitzroy.report.roofline import roofline
from fitzroy.report.run import Run
from fitzroy.report.strings import Strings, short
from fitzroy.report.tables import (
    Cell,
    Column,
    blank_zero,
    escaped,
    meter,
    number,
    table,
)

_LINKS = 200
"""Stretches of the critical path that are listed."""

_MINOR = 0.25
"""Share of the longest wait that another one must have to stand beside it."""

_FOOTER = (
    "Made by the FitzRoy simulator. Times are those of its timing model, not of a measurement. "
    "A phase is bound by what most of the critical path in it goes through. MACs are products in "
    "lanes that are on; those of a depthwise convolution count all inputs of a lane, of which one "
    "matters."
)


def page(run: Run) -> str:
    """The report of a run as an HTML document."""
    found = phases(run)
    timeline = run.timeline
    narrow, wide = run.occupancy.narrow, run.occupancy.wide
    main = filled(
        "simulation.html",
        {
            "figures": _headline(run, found),
            "notes": listed(run.notes),
            "layers": _layer_section(run, found),
            "search": search("phases", "phases"),
            "phases": _phase_table(run, found),
            "roofline": roofline(run, found),
            "critical": _critical(run, found),
            "narrow": _memory_caption("Narrow memory (activations)", narrow, "words"),
            "wide": _memory_caption(
                "Wide memory (parameters, staging, partial sums)", wide, "rows"
            ),
            "memory": _memory_table(run),
            "transfers": _transfers(run),
            "package": _package(run),
        },
    )
    subtitle = (
        f"One inference on the simulated chip {run.chip.name} · clock {timeline.clock}, "
        f"{timeline.core_mhz:g} MHz · host {timeline.host}"
    )
    scripts = ("simulation.js",)
    return whole_page(run.name, subtitle, main, _FOOTER, scripts=scripts, data=_data(run, found))


# --- data of the script --------------------------------------------------------------------------


def _data(run: Run, figures: Sequence[PhaseFigures]) -> dict[str, Any]:
    timeline = run.timeline
    texts, causes, names = Strings(), Strings(), Strings()
    spans: dict[str, list[Any]] = {key: [] for key in "utiblyw"}
    for span in timeline.spans:
        spans["u"].append(names(span.unit))
        spans["t"].append(span.tiles)
        spans["i"].append(span.issue if 0 <= span.issue < len(timeline.issued) else -1)
        spans["b"].append(short(span.begin))
        spans["l"].append(short(span.end - span.begin))
        spans["y"].append(short(span.busy))
        waits = [(causes(why), short(cycles)) for why, cycles in span.waits.items() if cycles]
        spans["w"].append(waits or 0)
    issued = [
        (
            item.instruction.op.name.lower(),
            f"{item.chunk}:{item.bundle}",
            texts(activity.text(item)),
        )
        for item in timeline.issued
    ]
    critical = [
        (
            names(link.what),
            -1 if link.issue is None else link.issue,
            short(link.begin),
            short(link.end),
            causes(link.cause),
        )
        for link in timeline.critical_path
    ]
    times, done = activity.work(run)
    return {
        "start": round(timeline.start, 4),
        "total": round(timeline.total, 4),
        "cycles": short(timeline.cycles),
        "mhz": timeline.core_mhz,
        "tiles": [tile_name(tile, run.chip) for tile in range(run.chip.tiles.count)],
        "busiest": busiest_tile(run),
        "engines": ENGINES,
        "streams": STREAM_UNITS,
        "resources": RESOURCE_OF,
        "legend": LEGEND,
        "phases": [(short(item.begin), short(item.end), item.title) for item in figures],
        "issued": issued,
        "spans": spans,
        "critical": critical,
        "transfers": [
            (item.kind, item.size, round(item.begin, 3), round(item.end, 3))
            for item in timeline.transfers
        ],
        # Percent times cycles, so that a difference over time is a mean.
        "use": {
            "t": [short(float(value)) for value in times],
            "s": [round(100 * float(value) / run.peak_macs, 2) for value in done],
        },
        "memory": {
            "narrow": _memory_data(run.occupancy.narrow, "words"),
            "wide": _memory_data(run.occupancy.wide, "rows"),
        },
        "units": names.all,
        "causes": causes.all,
        "texts": texts.all,
    }


def _memory_data(use: Use, unit: str) -> dict[str, Any]:
    return {
        "live": use.live.tolist(),
        "capacity": use.capacity,
        "bytes": use.element_bytes,
        "unit": unit,
    }


# --- parts of the page ---------------------------------------------------------------------------


def _headline(run: Run, figures: Sequence[PhaseFigures]) -> str:
    timeline = run.timeline
    macs = sum(item.macs for item in figures)
    possible = timeline.cycles * run.peak_macs
    rate = macs / (run.chip_time * 1e-6) if run.chip_time else 0.0
    narrow, wide = run.occupancy.narrow, run.occupancy.wide
    items = [
        ("Inference", units.time(timeline.total), "as the host measures it"),
        (
            "On the chip",
            units.time(run.chip_time),
            f"{timeline.cycles:,.0f} cycles, {units.share(run.chip_time / timeline.total)}"
            if timeline.total
            else "",
        ),
        (
            "Inferences per second",
            f"{1e6 / timeline.total:,.0f}" if timeline.total else "",
            "one after the other",
        ),
        ("Outside of the program", units.time(run.host_time), "host, instructions, last outputs"),
        (
            "MAC utilization",
            units.share(macs / possible if possible else 0.0),
            f"{units.number(macs)} MACs, {units.number(rate)} MAC/s",
        ),
        ("Parameters streamed", units.size(run.streamed), f"{units.size(run.cached)} cached"),
        (
            "Fullest narrow memory",
            units.share(float(narrow.peak.max()) / narrow.capacity),
            units.size(float(narrow.peak.max()) * narrow.element_bytes) + " of a tile",
        ),
        (
            "Fullest wide memory",
            units.share(float(wide.peak.max()) / wide.capacity),
            units.size(float(wide.peak.max()) * wide.element_bytes) + " of a tile",
        ),
    ]
    return figure_list(items)


def _layer_section(run: Run, found: Sequence[PhaseFigures]) -> str:
    """Layers of the source model, with the phases of each; nothing if they are not known."""
    members: dict[str, list[PhaseFigures]] = {}
    for item in found:
        if item.layer:
            members.setdefault(item.layer, []).append(item)
    if not members:
        return ""
    total = run.timeline.cycles or 1.0
    rows = [_layer_row(run, name, items, total) for name, items in members.items()]
    spans = [f"{items[0].number} {items[-1].number}" for items in members.values()]
    shown = table(
        _LAYER_COLUMNS, rows, id="layers", sort=True, mark="phases", marks=spans, wrap=(0,)
    )
    return section(
        "Layers of the model",
        '<p class="hint">In the order of the program; a name brings its phases into the timeline. '
        "What a model does not name, such as moves between layers, counts to the layer "
        "before.</p>",
        scroll(shown, "Table of layers"),
        beside=search("layers", "layers"),
    )


_LAYER_COLUMNS = (
    Column("layer", text=True),
    Column("time"),
    Column("share", title="share of the time on the chip"),
    Column("MACs", title="products of all tiles, in lanes that are on"),
    Column("MAC use", title="share of the products that the chip could do in the time"),
    Column("bound by", text=True, title="what most of the critical path goes through"),
    Column("phases"),
)


def _layer_row(
    run: Run, name: str, items: Sequence[PhaseFigures], total: float
) -> tuple[Cell, ...]:
    cycles, macs = sum(item.cycles for item in items), sum(item.macs for item in items)
    critical: dict[str, float] = defaultdict(float)
    for item in items:
        for what, spent in item.critical.items():
            critical[what] += spent
    bound = max(sorted(critical), key=critical.__getitem__, default="")
    possible = cycles * run.peak_macs
    label = named(name)
    return (
        Cell(f'<button type="button">{label.shown}</button>', label.value),
        number(cycles, units.time(cycles / run.timeline.core_mhz)),
        Cell(
            escaped(units.share(cycles / total)) + meter(cycles / total, "scalar"), cycles / total
        ),
        blank_zero(macs),
        blank_zero(macs / possible if possible else 0.0, units.share(macs / (possible or 1.0))),
        Cell(tag(bound) if bound else "", bound),
        number(len(items)),
    )


_PHASE_COLUMNS = (
    Column("#"),
    Column("phase", text=True),
    Column("time", title="time on the chip"),
    Column("share", title="share of the time on the chip"),
    Column("bound by", text=True, title="what most of the critical path goes through"),
    Column("cycles"),
    Column("op busy", title="share of the time in which the busiest op engine computes"),
    Column("MACs", title="products of all tiles, in lanes that are on"),
    Column("MAC use", title="share of the products that the chip could do in the time"),
    Column("ring rows", title="rows that tiles and the infeed send over the ring"),
    Column("mesh words", title="words that tiles send to their neighbours"),
    Column("streamed", title="parameters from the host"),
    Column("op engine waits for", text=True, title="cycles that the busiest op engine waits"),
)


def _phase_table(run: Run, figures: Sequence[PhaseFigures]) -> str:
    total = run.timeline.cycles or 1.0
    rows = []
    for item in figures:
        cycles = item.cycles or 1.0
        waits = sorted(item.op_waits.items(), key=lambda wait: -wait[1])
        shown = ", ".join(
            f"{why.replace('_', ' ')} {count:,.0f}"
            for why, count in waits[:2]
            if count > _MINOR * waits[0][1]
        )
        rows.append(
            (
                number(item.number),
                Cell(f'<button type="button">{escaped(item.title)}</button>', item.title),
                number(item.cycles, units.time(item.cycles / run.timeline.core_mhz)),
                Cell(
                    escaped(units.share(item.cycles / total))
                    + meter(item.cycles / total, "scalar"),
                    round(item.cycles / total, 6),
                ),
                Cell(tag(item.bound) if item.bound else "", item.bound),
                number(item.cycles),
                blank_zero(item.op_busy / cycles, units.share(item.op_busy / cycles)),
                blank_zero(item.macs),
                Cell(
                    escaped(units.share(item.utilization)) + meter(item.utilization),
                    round(item.utilization, 6),
                )
                if item.macs
                else Cell("", 0),
                blank_zero(item.ring_rows),
                blank_zero(item.mesh_words),
                blank_zero(item.streamed, units.size(item.streamed)),
                Cell(escaped(shown), shown),
            )
        )
    # What is nothing in all phases takes no room.
    kept = [
        place
        for place, column in enumerate(_PHASE_COLUMNS)
        if column.text or any(row[place].value for row in rows)
    ]
    columns = [_PHASE_COLUMNS[place] for place in kept]
    cells = [[row[place] for place in kept] for row in rows]
    return table(columns, cells, id="phases", sort=True, mark="phase", wrap=(1, len(columns) - 1))


def _critical(run: Run, figures: Sequence[PhaseFigures]) -> str:
    timeline = run.timeline
    total = timeline.cycles or 1.0
    by_resource: dict[str, float] = defaultdict(float)
    by_cause: dict[tuple[str, str], float] = defaultdict(float)
    for link in timeline.critical_path:
        by_resource[RESOURCE_OF.get(link.what, link.what)] += link.end - link.begin
        by_cause[link.what, link.cause] += link.end - link.begin
    if not by_resource:
        return '<p class="hint">The timeline has no critical path.</p>'
    summary = table(
        (Column("goes through", text=True), Column("cycles"), Column("share")),
        [
            (
                Cell(tag(what)),
                number(cycles),
                Cell(escaped(units.share(cycles / total)) + meter(cycles / total, color(what))),
            )
            for what, cycles in _most(by_resource)
        ],
    )
    causes = table(
        (
            Column("unit", text=True),
            Column("why not earlier", text=True),
            Column("cycles"),
            Column("share"),
        ),
        [
            (
                Cell(escaped(what.replace("_", " "))),
                Cell(escaped(cause.replace("_", " "))),
                number(cycles),
                number(cycles, units.share(cycles / total)),
            )
            for (what, cause), cycles in _most(by_cause)[:8]
        ],
    )
    longest = sorted(timeline.critical_path, key=lambda link: link.begin - link.end)[:_LINKS]
    count = len(timeline.critical_path)
    links = table(
        (
            Column("begins at", title="microseconds from the start of the inference"),
            Column("cycles"),
            Column("unit", text=True),
            Column("instruction", text=True),
            Column("why not earlier", text=True),
        ),
        [
            (
                number(link.begin, f"{timeline.microsecond(link.begin):,.1f} µs"),
                number(link.end - link.begin),
                Cell(escaped(link.what.replace("_", " "))),
                Cell(escaped("" if link.issue is None else timeline.issued[link.issue].name)),
                Cell(escaped(link.cause.replace("_", " "))),
            )
            for link in sorted(longest, key=lambda link: link.begin)
        ],
    )
    which = f"The {_LINKS} longest of {count:,}" if count > _LINKS else f"All {count:,}"
    return (
        f"{summary}<details open><summary>By unit and cause</summary>"
        f'<div class="scroll">{causes}</div></details>'
        f"<details><summary>{which} stretches</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="Critical path">{links}</div>'
        "</details>"
    )


def _most(counts: Mapping[Any, float]) -> list[tuple[Any, float]]:
    return sorted(counts.items(), key=lambda item: -item[1])


def _memory_caption(name: str, use: Use, unit: str) -> str:
    most = int(use.peak.max())
    return escaped(
        f"{name}: at most {most:,} of {use.capacity:,} {unit} in a tile, "
        f"{units.size(most * use.element_bytes)}"
    )


def _memory_table(run: Run) -> str:
    occupancy = run.occupancy
    narrow, wide = occupancy.narrow, occupancy.wide
    columns = (
        Column("tile", text=True),
        Column("narrow words"),
        Column("share"),
        Column("highest address"),
        Column("wide rows"),
        Column("share"),
        Column("highest address"),
        Column("of these cached parameters"),
    )
    return table(
        columns,
        [
            (
                Cell(escaped(tile_name(tile, run.chip))),
                number(int(narrow.peak[tile])),
                number(0, units.share(float(narrow.peak[tile]) / narrow.capacity)),
                number(max(0, int(narrow.end[tile]) - 1)),
                number(int(wide.peak[tile])),
                number(0, units.share(float(wide.peak[tile]) / wide.capacity)),
                number(max(0, int(wide.end[tile]) - 1)),
                number(int(occupancy.resident[tile])),
            )
            for tile in range(run.chip.tiles.count)
        ],
    )


def _transfers(run: Run) -> str:
    return table(
        (
            Column("transfer", text=True),
            Column("bytes"),
            Column("begins at"),
            Column("takes"),
            Column("MB/s"),
        ),
        [
            (
                Cell(escaped(item.kind)),
                number(item.size),
                number(item.begin, f"{item.begin:,.1f} µs"),
                number(item.end - item.begin, units.time(item.end - item.begin)),
                number(item.size / (item.end - item.begin) if item.end > item.begin else 0)
                if item.end > item.begin and item.kind != "interrupt"
                else Cell(""),
            )
            for item in run.timeline.transfers
        ],
    )


def _package(run: Run) -> str:
    rows = [
        ("instructions", run.instructions),
        ("parameters streamed in every inference", run.streamed),
        ("parameters that stay on the chip", run.cached),
        *((f"input {name}", size) for name, size in run.inputs.items()),
        *((f"output {name}", size) for name, size in run.outputs.items()),
    ]
    return table(
        (Column("package", text=True), Column("bytes")),
        [(Cell(escaped(name)), number(size)) for name, size in rows],
    )


def displayed(run: Run) -> str:
    """The report in a frame, for notebooks."""
    return framed(page(run), f"Run of {run.name}")
