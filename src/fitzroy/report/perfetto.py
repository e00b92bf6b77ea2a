"""A run as a trace in Chrome's Trace Event Format, which Perfetto (ui.perfetto.dev) opens.

Times are microseconds from the start of the inference. Every tile is a process with a thread for
each of its engines; host, scalar core and stream units have processes of their own. Flow arrows
follow the critical path. Source of the format: "Trace Event Format", published by the Chromium
project.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from fitzroy.base.files import text_bytes
from fitzroy.hw_models.edgetpu.timeline import Link, Timeline
from fitzroy.report import activity
from fitzroy.report.phases import ENGINES, STREAM_UNITS, PhaseFigures, members, phases, tile_name
from fitzroy.report.run import Run

CHIP, HOST, SCALAR, STREAM, TILES = 1, 2, 3, 4, 16
"""Process numbers; tile n is process TILES + n."""

_PHASES, _CRITICAL = 1, 2
_TRANSFERS = ("instructions", "input", "parameters", "output", "interrupt")
_BINS = 1_000
_INSIDE = 0.5
"""Cycles before its end at which an arrow leaves an instruction."""
_UNITS = {unit: number for number, unit in enumerate((*ENGINES, *STREAM_UNITS), 1)}

Event = dict[str, Any]


def trace(run: Run) -> dict[str, Any]:
    """The run as a trace: an object that JSON can hold."""
    timeline = run.timeline
    figures = phases(run)
    tracks = _Tracks(run)
    spans = list(_spans(run, tracks))
    events = [
        *_phases(timeline, figures),
        *_critical(timeline),
        *_transfers(timeline),
        *spans,
        *_flows(timeline, tracks),
        *_counters(run),
    ]
    events.sort(key=lambda event: float(event["ts"]))
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "model": run.name,
            "chip": run.chip.name,
            "clock": f"{timeline.clock}, {timeline.core_mhz:g} MHz",
            "host": timeline.host,
            "total_us": round(timeline.total, 3),
        },
        "traceEvents": [*tracks.names(), *events],
    }


def encode(document: dict[str, Any], path: str = "") -> bytes:
    """A trace as the content of a file, compressed if its name ends in ``.gz``."""
    data = text_bytes(json.dumps(document, separators=(",", ":"), ensure_ascii=False))
    return gzip.compress(data, mtime=0) if path.endswith(".gz") else data


def _ns(us: float) -> float:
    """Microseconds as whole nanoseconds, so that neighbours neither overlap nor leave gaps."""
    return round(us, 3)


def _slice(
    name: str, category: str, pid: int, tid: int, begin: float, end: float, args: dict[str, Any]
) -> Event:
    begin, end = _ns(begin), _ns(end)
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": tid,
        "ts": begin,
        "dur": _ns(max(0.0, end - begin)),
        "args": args,
    }


class _Tracks:
    """Which thread an element of the trace is in; spans that overlap get threads of their own.

    Attributes:
        of: process and thread of each span in the first of its tiles, by place in the timeline.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ends: dict[tuple[int, str], list[float]] = defaultdict(list)
        self.used: dict[tuple[int, int], str] = {}
        self.of: dict[int, tuple[int, int]] = {}

    def place(self, pid: int, unit: str, begin: float, end: float) -> tuple[int, int]:
        """Process and thread for a span of a unit; spans come in order of their beginning."""
        ends = self._ends[pid, unit]
        row = next((row for row, busy in enumerate(ends) if busy <= begin), len(ends))
        if row == len(ends):
            ends.append(end)
        ends[row] = end
        tid = _UNITS.get(unit, len(_UNITS) + 1) + 100 * row
        self.used[pid, tid] = unit.replace("_", " ") + (f" ({row + 1})" if row else "")
        return pid, tid

    def names(self) -> Iterator[Event]:
        """Names and order of processes and threads."""
        chip = self._run.chip
        processes = {CHIP: f"chip: {chip.name}", HOST: f"host: {self._run.timeline.host}"}
        processes |= {SCALAR: "scalar core", STREAM: "stream units"}
        processes |= {
            TILES + tile: f"tile {tile_name(tile, chip)}" for tile in range(chip.tiles.count)
        }
        threads = {(CHIP, _PHASES): "phases", (CHIP, _CRITICAL): "critical path"}
        threads |= {(HOST, number): kind for number, kind in enumerate(_TRANSFERS, 1)}
        for pid, name in processes.items():
            yield _meta("process_name", pid, 0, {"name": name})
            yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
        for (pid, tid), name in (threads | dict(sorted(self.used.items()))).items():
            yield _meta("thread_name", pid, tid, {"name": name})
            yield _meta("thread_sort_index", pid, tid, {"sort_index": tid})


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _spans(run: Run, tracks: _Tracks) -> Iterator[Event]:
    timeline = run.timeline
    texts: dict[int, str] = {}
    for index, span in enumerate(timeline.spans):
        begin, end = timeline.microsecond(span.begin), timeline.microsecond(span.end)
        args: dict[str, Any] = {"busy_cycles": round(span.busy, 1)}
        name = span.unit
        if 0 <= span.issue < len(timeline.issued):
            item = timeline.issued[span.issue]
            if span.issue not in texts:
                texts[span.issue] = activity.text(item)
            name = item.name.split(" ")[0]
            args = {
                "instruction": texts[span.issue],
                "bundle": f"{item.chunk}:{item.bundle}",
                "phase": item.phase,
                "steps": item.steps,
                **args,
            }
        if span.waits:
            args["wait_cycles"] = {
                cause: round(cycles, 1) for cause, cycles in span.waits.items() if cycles
            }
        pids = [TILES + tile for tile in members(span.tiles, run.chip)]
        for pid in pids or [SCALAR if span.unit == "scalar" else STREAM]:
            place = tracks.place(pid, span.unit, begin, end)
            tracks.of.setdefault(index, place)
            yield _slice(name, span.unit, *place, begin, end, args)


def _phases(timeline: Timeline, figures: Iterable[PhaseFigures]) -> Iterator[Event]:
    for item in figures:
        args = {
            "phase": item.number,
            "cycles": round(item.cycles, 1),
            "macs": item.macs,
            "mac_utilization": round(item.utilization, 4),
            "ring_rows": item.ring_rows,
            "mesh_words": item.mesh_words,
            "streamed_bytes": item.streamed,
            "bound_by": item.bound,
        }
        begin, end = timeline.microsecond(item.begin), timeline.microsecond(item.end)
        yield _slice(item.title, "phase", CHIP, _PHASES, begin, end, args)


def _critical(timeline: Timeline) -> Iterator[Event]:
    for link in timeline.critical_path:
        args: dict[str, Any] = {"cause": link.cause}
        if link.issue is not None:
            args["instruction"] = timeline.issued[link.issue].name
        begin, end = timeline.microsecond(link.begin), timeline.microsecond(link.end)
        yield _slice(link.what, "critical path", CHIP, _CRITICAL, begin, end, args)


def _transfers(timeline: Timeline) -> Iterator[Event]:
    for item in timeline.transfers:
        tid = _TRANSFERS.index(item.kind) + 1
        args = {"bytes": item.size}
        yield _slice(item.kind, "transfer", HOST, tid, item.begin, item.end, args)


def _flows(timeline: Timeline, tracks: _Tracks) -> Iterator[Event]:
    """Arrows from each instruction on the critical path to the next one."""
    by_issue: dict[int, list[int]] = defaultdict(list)
    for index, span in enumerate(timeline.spans):
        by_issue[span.issue].append(index)
    stops = []
    for link in timeline.critical_path:
        if link.issue is not None:
            nearest = _nearest(timeline, by_issue.get(link.issue, ()), link)
            if nearest is not None:
                stops.append((nearest, link))
    number = 0
    for (source, left), (target, reached) in pairwise(stops):
        if source == target:
            continue
        number += 1
        common = {"name": "critical path", "cat": "critical path", "id": number}
        begin, end = timeline.spans[source].begin, timeline.spans[source].end
        # Arrows bind to the slices that they are inside of.
        leave = max(begin, min(end, left.end) - _INSIDE)
        pid, tid = tracks.of[source]
        ts = _ns(timeline.microsecond(leave))
        yield {"ph": "s", **common, "pid": pid, "tid": tid, "ts": ts}
        span = timeline.spans[target]
        pid, tid = tracks.of[target]
        arrive = max(leave, min(max(reached.begin, span.begin), span.end))
        ts = _ns(timeline.microsecond(arrive))
        yield {"ph": "f", "bp": "e", **common, "pid": pid, "tid": tid, "ts": ts}


def _nearest(timeline: Timeline, indices: Iterable[int], link: Link) -> int | None:
    """The span of an instruction that has most in common with a stretch of time."""

    def common(index: int) -> float:
        span = timeline.spans[index]
        return min(span.end, link.end) - max(span.begin, link.begin)

    return max(indices, key=common, default=None)


def _counters(run: Run) -> Iterator[Event]:
    timeline = run.timeline
    edges, share = activity.utilization(run, _BINS)
    before = None
    for cycle, value in zip(edges, [*share, 0.0], strict=True):
        percent = round(100 * float(value), 1)
        if percent != before:
            yield _counter("MAC utilization", timeline.microsecond(float(cycle)), "%", percent)
            before = percent
    for name, use in (("narrow memory", run.occupancy.narrow), ("wide memory", run.occupancy.wide)):
        most = use.live.max(axis=1, initial=0) * (use.element_bytes / 1024)
        for phase, value in zip(timeline.phases, most, strict=False):
            time = timeline.microsecond(phase.begin)
            yield _counter(f"{name} of the fullest tile", time, "KiB", round(float(value), 2))
        yield _counter(
            f"{name} of the fullest tile", timeline.microsecond(timeline.cycles), "KiB", 0
        )


def _counter(name: str, ts: float, unit: str, value: float) -> Event:
    return {"ph": "C", "name": name, "pid": CHIP, "tid": 0, "ts": _ns(ts), "args": {unit: value}}
