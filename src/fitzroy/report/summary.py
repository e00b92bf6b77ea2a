"""A run in a few lines for the terminal, and as a document for other programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fitzroy.hw_models.edgetpu.occupancy import Use
from fitzroy.report import units
from fitzroy.report.phases import RESOURCE_OF, PhaseFigures, phases, tile_name
from fitzroy.report.run import Run

_TOP = 10
_CAUSES = 5
_BOUNDS = 3
"""Resources that are named as those which bound a program."""


def document(run: Run) -> dict[str, Any]:
    """Figures of a run, which JSON can hold.

    Times are in microseconds from the start of the inference or in cycles, as the names say; sizes
    are in bytes; shares are between 0 and 1.
    """
    timeline = run.timeline
    figures = phases(run)
    macs = sum(item.macs for item in figures)
    possible = timeline.cycles * run.peak_macs
    return {
        "name": run.name,
        "chip": run.chip.name,
        "clock": timeline.clock,
        "core_mhz": timeline.core_mhz,
        "host": timeline.host,
        "driver": timeline.driver,
        "total_us": timeline.total,
        "chip_us": run.chip_time,
        "host_us": run.host_time,
        "start_us": timeline.start,
        "cycles": timeline.cycles,
        "macs": macs,
        "mac_utilization": macs / possible if possible else 0.0,
        "instruction_bytes": run.instructions,
        "streamed_bytes": run.streamed,
        "cached_bytes": run.cached,
        "inputs": dict(run.inputs),
        "outputs": dict(run.outputs),
        "phases": [_phase(run, item) for item in figures],
        "waits": {unit: dict(causes) for unit, causes in waits(figures).items()},
        "critical_path": [
            {
                "unit": link.what,
                "instruction": None if link.issue is None else timeline.issued[link.issue].name,
                "begin_cycle": link.begin,
                "end_cycle": link.end,
                "cause": link.cause,
            }
            for link in timeline.critical_path
        ],
        "transfers": [
            {"kind": item.kind, "bytes": item.size, "begin_us": item.begin, "end_us": item.end}
            for item in timeline.transfers
        ],
        "memory": {
            "narrow": _memory(run.occupancy.narrow),
            "wide": _memory(run.occupancy.wide) | {"cached": run.occupancy.resident.tolist()},
        },
        "notes": list(run.notes),
    }


def brief(run: Run) -> dict[str, Any]:
    """Time of an inference, and the resources that most of its critical path goes through."""
    critical: dict[str, float] = defaultdict(float)
    for figures in phases(run):
        for what, cycles in figures.critical.items():
            critical[what] += cycles
    total = sum(critical.values()) or 1.0
    most = sorted(critical.items(), key=lambda item: (-item[1], item[0]))[:_BOUNDS]
    return {
        "total_us": run.timeline.total,
        "chip_us": run.chip_time,
        "cycles": run.timeline.cycles,
        "clock": run.timeline.clock,
        "host": run.timeline.host,
        "bound": {what: cycles / total for what, cycles in most},
    }


def _phase(run: Run, item: PhaseFigures) -> dict[str, Any]:
    cycles = run.timeline.cycles
    return {
        "number": item.number,
        "name": item.name,
        "layer": item.layer,
        "begin_us": run.timeline.microsecond(item.begin),
        "us": item.cycles / run.timeline.core_mhz,
        "cycles": item.cycles,
        "share": item.cycles / cycles if cycles else 0.0,
        "bound": item.bound,
        "macs": item.macs,
        "mac_utilization": item.utilization,
        "ring_rows": item.ring_rows,
        "ring_bytes": item.ring_bytes,
        "mesh_words": item.mesh_words,
        "streamed_bytes": item.streamed,
        "input_bytes": item.input_bytes,
        "output_bytes": item.output_bytes,
        "busiest_tile": tile_name(item.tile, run.chip),
        "op_steps": item.steps,
        "op_busy_cycles": item.op_busy,
        "busy_cycles": dict(item.busy),
        "wait_cycles": {unit: dict(causes) for unit, causes in item.waits.items()},
        "critical_cycles": dict(item.critical),
    }


def _memory(use: Use) -> dict[str, Any]:
    return {
        "capacity": use.capacity,
        "element_bytes": use.element_bytes,
        "peak": use.peak.tolist(),
        "end": use.end.tolist(),
        "by_phase": use.live.tolist(),
    }


def waits(figures: Sequence[PhaseFigures]) -> dict[str, dict[str, float]]:
    """Cycles that the units of each phase's busiest tile wait, by unit and cause."""
    total: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for item in figures:
        for unit, causes in item.waits.items():
            for cause, cycles in causes.items():
                total[unit][cause] += cycles
    return {unit: dict(causes) for unit, causes in total.items()}


def lines(run: Run) -> list[str]:
    """What matters most about a run, as lines of text without colours."""
    titles, rows = longest(run)
    return [*_aligned(fields(run), (0, 1)), "", *_aligned([titles, *rows], TEXTS)]


def fields(run: Run) -> list[tuple[str, str]]:
    """What matters most about a run: names, and what is to be said of each."""
    timeline = run.timeline
    figures = phases(run)
    macs = sum(item.macs for item in figures)
    possible = timeline.cycles * run.peak_macs
    narrow, wide = run.occupancy.narrow, run.occupancy.wide
    found = [
        ("inference", f"{units.time(timeline.total)} on {timeline.place}"),
        (
            "program",
            f"{units.time(run.chip_time)}, {timeline.cycles:,.0f} cycles at "
            f"{timeline.core_mhz:g} MHz; {units.time(run.host_time)} outside of it",
        ),
        (
            "MAC array",
            f"{units.share(macs / possible if possible else 0.0)} of its products used, "
            f"{units.number(macs)} MACs",
        ),
        ("parameters", f"{units.size(run.streamed)} streamed, {units.size(run.cached)} cached"),
        (
            "memory",
            f"{_fullest(narrow)} of narrow, {_fullest(wide)} of wide memory in the fullest tile",
        ),
    ]
    critical: dict[str, float] = defaultdict(float)
    for link in timeline.critical_path:
        critical[RESOURCE_OF.get(link.what, link.what)] += link.end - link.begin
    if critical and timeline.cycles:
        parts = [f"{what} {units.share(part / timeline.cycles)}" for what, part in _most(critical)]
        found.append(("bound by", ", ".join(parts[:_CAUSES])))
    op = waits(figures).get("op", {})
    if op:
        parts = [f"{cause.replace('_', ' ')} {cycles:,.0f}" for cause, cycles in _most(op)]
        found.append(("op waits", f"{', '.join(parts[:_CAUSES])} cycles"))
    return found


def _fullest(use: Use) -> str:
    return units.share(float(use.peak.max(initial=0)) / use.capacity)


def _most(table: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(table.items(), key=lambda item: -item[1])


TEXTS = (1, 6)
"""Columns of `longest` that have text; the others have numbers."""


def longest(run: Run) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The phases that take the most time: titles of columns, and a row for each phase.

    The columns are number, name, time, share of the time, share of it that the op engine is busy,
    share of the products that are used, and what bounds the phase.
    """
    total = run.timeline.cycles or 1.0
    every = phases(run)
    found = sorted(every, key=lambda item: -item.cycles)[:_TOP]
    which = f"the {len(found)} longest of {len(every)} phases"
    rows: list[tuple[str, ...]] = [
        (
            str(item.number),
            item.title,
            units.time(item.cycles / run.timeline.core_mhz),
            units.share(item.cycles / total),
            units.share(item.op_busy / (item.cycles or 1.0)),
            units.share(item.utilization),
            item.bound,
        )
        for item in found
    ]
    title = which if len(found) < len(every) else "phase"
    return ("", title, "time", "share", "op busy", "MAC use", "bound by"), rows


def _aligned(rows: Sequence[Sequence[str]], texts: Sequence[int]) -> list[str]:
    """Rows as lines whose columns stand below each other, those of text flush left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
