from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.driver.edgetpu_programs import echo
from tests.report import timelines
from tests.report.test_phases import run_of, tensor_op

from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.timeline import Span
from fitzroy.report import perfetto
from fitzroy.report.run import Run


@pytest.fixture(scope="module")
def run() -> Run:
    return timelines.run(echo(), "echo")


def check(document: dict[str, Any]) -> None:
    """What the published format, and the importer of Perfetto, demand."""
    assert set(document) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    events = json.loads(json.dumps(document))["traceEvents"]
    processes = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    threads = {
        (e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"
    }
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    arrows: dict[int, dict[str, Any]] = defaultdict(dict)
    last = 0.0
    for event in events:
        assert isinstance(event["name"], str)
        assert event["pid"] in processes
        # Zero is the idle process of the kernel.
        assert event["pid"] > 0
        match event["ph"]:
            case "M":
                assert set(event) == {"ph", "name", "pid", "tid", "ts", "args"}
                continue
            case "X":
                assert event["dur"] >= 0
                assert (event["pid"], event["tid"]) in threads
                tracks[event["pid"], event["tid"]].append((event["ts"], event["dur"]))
            case "C":
                assert all(isinstance(value, int | float) for value in event["args"].values())
            case "s" | "f":
                arrows[event["id"]][event["ph"]] = event
            case other:
                pytest.fail(f"a phase of {other!r}")
        assert event["ts"] >= last
        last = event["ts"]
    for slices in tracks.values():
        for (begin, length), (after, _) in pairwise(slices):
            assert round((begin + length) * 1000) <= round(after * 1000)
    for ends in arrows.values():
        assert set(ends) == {"s", "f"}
        assert ends["s"]["ts"] <= ends["f"]["ts"]
        for event in ends.values():
            around = tracks[event["pid"], event["tid"]]
            assert any(ts <= event["ts"] <= ts + dur for ts, dur in around)


def slices(document: dict[str, Any], pid: int) -> list[dict[str, Any]]:
    return [e for e in document["traceEvents"] if e["ph"] == "X" and e["pid"] == pid]


def test_trace_is_well_formed(run: Run) -> None:
    check(perfetto.trace(run))


def test_every_engine_of_every_tile_has_a_track(run: Run) -> None:
    operation = tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])
    document = perfetto.trace(run_of(operation, tiles=0b101))
    check(document)
    for tile in range(16):
        found = slices(document, perfetto.TILES + tile)
        assert len(found) == (tile in (0, 2))
    (event,) = slices(document, perfetto.TILES + 2)
    assert event["name"] == "mac"
    # 10 us before the program, 500 MHz.
    assert (event["ts"], event["dur"]) == (12.0, 1.034)
    assert event["args"]["wait_cycles"] == {"data": 5}
    assert event["args"]["bundle"] == "0:16"
    assert event["args"]["instruction"].startswith("mac")
    assert "loops=8,64" in event["args"]["instruction"]


def test_host_and_phases_have_tracks(run: Run) -> None:
    document = perfetto.trace(run)
    kinds = [event["name"] for event in slices(document, perfetto.HOST)]
    assert kinds == ["instructions", "input", "output", "interrupt"]
    names = [e["name"] for e in slices(document, perfetto.CHIP) if e["cat"] == "phase"]
    assert len(names) == len(run.timeline.phases)
    assert {e["cat"] for e in slices(document, perfetto.STREAM)} == {
        "avdata_pop",
        "infeed",
        "outfeed",
    }


def test_utilization_is_counted() -> None:
    operation = tensor_op([8, 512], 1, 2, (64, 64), [(8, 4), (512, 32)])
    document = perfetto.trace(run_of(operation))
    counted = [e for e in document["traceEvents"] if e["name"] == "MAC utilization"]
    assert max(event["args"]["%"] for event in counted) == pytest.approx(100, abs=0.5)
    assert counted[-1]["args"]["%"] == 0


def test_spans_that_overlap_get_tracks_of_their_own(run: Run) -> None:
    timeline = run_of(tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])).timeline
    (span,) = timeline.spans
    more = (span, replace(span, begin=span.begin + 10), replace(span, begin=span.end, end=9000))
    document = perfetto.trace(replace(run, timeline=replace(timeline, spans=more)))
    check(document)
    assert len({event["tid"] for event in slices(document, perfetto.TILES)}) == 2


def test_arrows_follow_the_critical_path(run: Run) -> None:
    spans = (
        Span("ring_produce", 1, 0, 0, 100, 90, {}),
        Span("wide_to_narrow", 1, 1, 60, 200, 100, {"data": 40}),
    )
    base = run.timeline
    path = (
        replace(base.critical_path[0], what="ring_produce", issue=0, begin=0, end=100),
        replace(base.critical_path[0], what="wide_to_narrow", issue=1, begin=100, end=200),
    )
    timeline = replace(base, spans=spans, critical_path=path)
    document = perfetto.trace(replace(run, timeline=timeline))
    check(document)
    assert [e["ph"] for e in document["traceEvents"] if e["ph"] in "sf"] == ["s", "f"]


def test_file_is_compressed_if_its_name_says_so(run: Run) -> None:
    document = perfetto.trace(run)
    plain = perfetto.encode(document, "trace.json")
    assert json.loads(plain) == document
    packed = perfetto.encode(document, "trace.json.gz")
    assert gzip.decompress(packed) == plain
    assert packed == perfetto.encode(document, "trace.json.gz")


def test_names_of_models_are_data(run: Run) -> None:
    name = 'a"b</script>\n\u2028é'
    document = perfetto.trace(timelines.renamed(run, name))
    assert json.loads(perfetto.encode(document))["otherData"]["model"] == name


@pytest.mark.long
@pytest.mark.corpus
def test_trace_of_a_real_model(mobilenet: PackageFile) -> None:
    run = timelines.run(mobilenet)
    document = perfetto.trace(run)
    check(document)
    tiles = sum(span.tiles.bit_count() for span in run.timeline.spans if span.tiles)
    assert sum(len(slices(document, perfetto.TILES + tile)) for tile in range(16)) == tiles
    assert len(perfetto.encode(document)) < 400 * len(document["traceEvents"])
