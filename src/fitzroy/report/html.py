"""A run as one HTML file that needs nothing else: no network, no fonts, no other file."""

from __future__ import annotations

import html
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fitzroy.hw_models.edgetpu.occupancy import Use
from fitzroy.report import activity, units
from fitzroy.report.phases import (
    ENGINES,
    RESOURCE_OF,
    STREAM_UNITS,
    PhaseFigures,
    busiest_tile,
    phases,
    tile_name,
)
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

_LINKS = 200
"""Stretches of the critical path that are listed."""

_MINOR = 0.25
"""Share of the longest wait that another one must have to stand beside it."""

_LEGEND = {
    "op": "op engine",
    "ring": "ring",
    "mesh": "mesh",
    "conversion": "narrow and wide conversion",
    "infeed": "stream units",
    "fence": "fences of tiles",
    "scalar": "scalar core",
    "host": "host",
}

_FOOTER = (
    "Made by the FitzRoy simulator. Times are those of its timing model, not of a measurement. "
    "A phase is bound by what most of the critical path in it goes through. MACs are products in "
    "lanes that are on; those of a depthwise convolution count all inputs of a lane, of which one "
    "matters."
)


def page(run: Run) -> str:
    """The report of a run as an HTML document."""
    figures = phases(run)
    timeline = run.timeline
    narrow, wide = run.occupancy.narrow, run.occupancy.wide
    parts = {
        "title": html.escape(run.name),
        "subtitle": html.escape(
            f"One inference on the simulated chip {run.chip.name} · clock {timeline.clock}, "
            f"{timeline.core_mhz:g} MHz · host {timeline.host}"
        ),
        "style": resource("page.css"),
        "script": resource("page.js"),
        "figures": _headline(run, figures),
        "notes": _notes(run.notes),
        "phases": _phase_table(run, figures),
        "roofline": _roofline(run, figures),
        "critical": _critical(run, figures),
        "narrow": _memory_caption("Narrow memory (activations)", narrow, "words"),
        "wide": _memory_caption("Wide memory (parameters, staging, partial sums)", wide, "rows"),
        "memory": _memory_table(run),
        "transfers": _transfers(run),
        "package": _package(run),
        "footer": html.escape(_FOOTER),
        "data": _embedded(_data(run, figures)),
    }
    # One pass, so that markers inside of what is filled in stay what they are.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], resource("page.html"))


def _embedded(data: object) -> str:
    """JSON that can stand inside of a script element, whatever strings it has."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# --- data of the script --------------------------------------------------------------------------


def _data(run: Run, figures: Sequence[PhaseFigures]) -> dict[str, Any]:
    timeline = run.timeline
    texts, causes, names = _Strings(), _Strings(), _Strings()
    spans: dict[str, list[Any]] = {key: [] for key in "utiblyw"}
    for span in timeline.spans:
        spans["u"].append(names(span.unit))
        spans["t"].append(span.tiles)
        spans["i"].append(span.issue if 0 <= span.issue < len(timeline.issued) else -1)
        spans["b"].append(_short(span.begin))
        spans["l"].append(_short(span.end - span.begin))
        spans["y"].append(_short(span.busy))
        waits = [(causes(why), _short(cycles)) for why, cycles in span.waits.items() if cycles]
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
            _short(link.begin),
            _short(link.end),
            causes(link.cause),
        )
        for link in timeline.critical_path
    ]
    times, done = activity.work(run)
    return {
        "start": round(timeline.start, 4),
        "total": round(timeline.total, 4),
        "cycles": _short(timeline.cycles),
        "mhz": timeline.core_mhz,
        "tiles": [tile_name(tile, run.chip) for tile in range(run.chip.tiles.count)],
        "busiest": busiest_tile(run),
        "engines": ENGINES,
        "streams": STREAM_UNITS,
        "resources": RESOURCE_OF,
        "legend": _LEGEND,
        "phases": [(_short(item.begin), _short(item.end), item.title) for item in figures],
        "issued": issued,
        "spans": spans,
        "critical": critical,
        "transfers": [
            (item.kind, item.size, round(item.begin, 3), round(item.end, 3))
            for item in timeline.transfers
        ],
        # Percent times cycles, so that a difference over time is a mean.
        "use": {
            "t": [_short(float(value)) for value in times],
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


class _Strings:
    """Strings by number, each once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.all)
            self.all.append(text)
        return self._numbers[text]


def _short(value: float) -> float | int:
    """A number with one digit after the point, if it is not whole."""
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


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
    return "\n".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}<small>{escaped(detail)}</small></dd></div>"
        for name, value, detail in items
    )


def _notes(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{escaped(note)}</li>" for note in notes)
    return f'<ul class="notes">{items}</ul>' if items else ""


def _tag(resource: str) -> str:
    return f'<span class="tag" style="--c:var(--{_color(resource)})">{escaped(resource)}</span>'


def _color(resource: str) -> str:
    return resource if resource in _LEGEND else "scalar"


_PHASE_COLUMNS = (
    Column("#"),
    Column("phase", text=True),
    Column("time", title="time on the chip"),
    Column("share", title="share of the time on the chip"),
    Column("cycles"),
    Column("op busy", title="share of the time in which the busiest op engine computes"),
    Column("MACs", title="products of all tiles, in lanes that are on"),
    Column("MAC use", title="share of the products that the chip could do in the time"),
    Column("ring rows", title="rows that tiles and the infeed send over the ring"),
    Column("mesh words", title="words that tiles send to their neighbours"),
    Column("streamed", title="parameters from the host"),
    Column("bound by", text=True, title="what most of the critical path goes through"),
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
                Cell(_tag(item.bound) if item.bound else "", item.bound),
                Cell(escaped(shown), shown),
            )
        )
    return table(_PHASE_COLUMNS, rows, id="phases", sort=True)


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
                Cell(_tag(what)),
                number(cycles),
                Cell(escaped(units.share(cycles / total)) + meter(cycles / total, _color(what))),
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


# --- roofline ------------------------------------------------------------------------------------

_FEW = 1e-4
"""Share of all products below which a phase is not shown."""

_WIDTH, _HEIGHT = 640.0, 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 16.0, 14.0, 44.0


def _roofline(run: Run, figures: Sequence[PhaseFigures]) -> str:
    """MACs per byte on the ring against MACs per second, with the roofs of array, ring and link."""
    hertz = run.timeline.core_mhz * 1e6
    least = _FEW * sum(item.macs for item in figures)
    points = [
        (item, item.macs / item.ring_bytes, item.macs / item.cycles * hertz)
        for item in figures
        if item.macs > least and item.ring_bytes and item.cycles
    ]
    if not points:
        return '<p class="hint">No phase computes with what comes over the ring.</p>'
    peak = run.peak_macs * hertz
    ring = run.ring_rate * hertz
    link = None if run.link_rate is None else run.link_rate * 1e6
    knee = peak / ring
    x_range = _decades([x for _, x, _ in points] + [knee])
    y_range = _decades([y for _, _, y in points] + [peak])
    total = run.timeline.cycles or 1.0

    def at_x(value: float) -> float:
        part = (math.log10(value) - x_range[0]) / (x_range[1] - x_range[0])
        return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)

    def at_y(value: float) -> float:
        part = (math.log10(value) - y_range[0]) / (y_range[1] - y_range[0])
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    shapes = []
    for decade in range(x_range[0], x_range[1] + 1):
        x = at_x(10.0**decade)
        shapes.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
        shapes.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 15}" text-anchor="middle">'
            f"{escaped(units.number(10.0**decade).strip())}</text>"
        )
    for decade in range(y_range[0], y_range[1] + 1):
        y = at_y(10.0**decade)
        shapes.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        shapes.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escaped(units.number(10.0**decade).strip())}</text>"
        )
    low, high = 10.0 ** x_range[0], 10.0 ** x_range[1]
    shapes.append(f'<path class="roof" d="M{at_x(knee):.1f} {at_y(peak):.1f}H{_WIDTH - _RIGHT}"/>')
    shapes.append(
        f'<text x="{_WIDTH - _RIGHT - 4}" y="{at_y(peak) - 5:.1f}" text-anchor="end">'
        f"MAC array, {escaped(units.number(peak))} MAC/s</text>"
    )
    roofs = [("ring", ring, "ring")] + ([("host", link, "host link")] if link else [])
    for kind, rate, name in roofs:
        begin = max(low, 10.0 ** y_range[0] / rate)
        end = min(high, peak / rate)
        if begin >= end:
            continue
        shapes.append(
            f'<path class="roof {kind}" d="M{at_x(begin):.1f} {at_y(begin * rate):.1f}'
            f'L{at_x(end):.1f} {at_y(end * rate):.1f}"/>'
        )
        slope = math.degrees(
            math.atan2(at_y(begin * rate) - at_y(end * rate), at_x(end) - at_x(begin))
        )
        middle = 10 ** (0.7 * math.log10(begin) + 0.3 * math.log10(end))
        x, y = at_x(middle), at_y(middle * rate)
        shapes.append(
            f'<text x="{x:.1f}" y="{y - 6:.1f}" transform="rotate({-slope:.1f} {x:.1f} {y:.1f})">'
            f"{name}, {escaped(units.number(rate))}B/s</text>"
        )
    for item, x, y in sorted(points, key=lambda point: -point[0].cycles):
        share = item.cycles / total
        text = "|".join(
            (
                f"{units.number(x)} MACs per byte on the ring",
                f"{units.number(y)} MAC/s, {units.share(item.utilization)} of the array",
                f"{units.share(share)} of the time, bound by {item.bound or 'nothing'}",
            )
        )
        shapes.append(
            f'<circle class="dot" cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" '
            f'r="{3 + 22 * math.sqrt(share) / 2:.1f}" '
            f'style="fill:var(--{_color(item.bound)})" data-phase="{item.number}" '
            f'data-title="{escaped(f"{item.number}: {item.title}")}" data-text="{escaped(text)}"/>'
        )
    shapes.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"/>')
    shapes.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "MACs per byte on the ring</text>"
    )
    shapes.append(
        f'<text x="14" y="{_HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {_HEIGHT / 2})">MACs per second</text>'
    )
    idle = sum(1 for item in figures if item.macs > least and not item.ring_bytes)
    more = f" {idle} that use no ring are left out." if idle else ""
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="Roofline of the phases">{"".join(shapes)}</svg>'
        '<p class="hint">Each dot is a phase; its area is its share of the time, its colour what '
        "bounds it. All bytes from and to the host go over the ring; the roof of the host link "
        f"is that of phases which have their bytes from the host.{more}</p>"
    )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around values."""
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)) + 0.05)
    return low, max(high, low + 1)
