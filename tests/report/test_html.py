from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.driver.edgetpu_programs import echo
from tests.report import timelines
from tests.report.test_phases import run_of, tensor_op

from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.timeline import Link
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.traversal import traversal
from fitzroy.report import html
from fitzroy.report.run import Run

HOSTILE = "</script><script>document.title='broken out'</script><img src=x onerror=alert(1)>"
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Elements, attributes and the text of each kind of element; notices unbalanced tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])
    return found


@pytest.fixture(scope="module")
def run() -> Run:
    return timelines.run(echo(), "echo")


def computing(**changes: Any) -> Run:
    """A run with a phase that the roofline shows."""
    operation = tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])
    rows = RingProduce(wide=traversal(0, [(4, 1)], rank=4))
    return replace(run_of(operation, rows), **changes)


def test_page_is_well_formed(run: Run) -> None:
    reader = read(html.page(run))
    assert reader.text["h1"] == ["echo"]
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    # What the script looks for by name is there.
    script = reader.text["script"][-1]
    assert set(re.findall(r'byId\("([\w-]+)"\)', script)) <= set(ids)
    for _, attrs in reader.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(name) in (None, *ids)


def test_page_needs_no_network(run: Run) -> None:
    page = html.page(run)
    assert "://" not in page
    assert "@import" not in page
    assert "url(" not in page
    for tag, attrs in read(page).tags:
        assert "src" not in attrs
        assert attrs.get("href") in (None, "data:,")
        assert tag not in ("iframe", "object", "embed", "form", "base")
    assert "default-src 'none'" in page


def test_names_do_not_break_out() -> None:
    found = computing(
        name=HOSTILE, inputs={HOSTILE: 1}, outputs={HOSTILE: 2}, notes=(HOSTILE, "{{script}}")
    )
    path = (*found.timeline.critical_path, Link("op", 0, 12_000, 12_001, HOSTILE))
    waits = {HOSTILE: 3.0}
    spans = tuple(replace(span, waits=waits) for span in found.timeline.spans)
    timeline = replace(found.timeline, host=HOSTILE, critical_path=path, spans=spans)
    page = html.page(replace(found, timeline=timeline))
    reader = read(page)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert not [tag for tag, _ in reader.tags if tag == "img"]
    assert not [attrs for _, attrs in reader.tags if "onerror" in attrs]
    assert "".join(reader.text["h1"]) == HOSTILE
    assert HOSTILE in "".join(reader.text["li"])
    assert "{{script}}" in "".join(reader.text["li"])
    assert HOSTILE in data_of(page)["causes"]


def test_markers_in_names_stay_what_they_are(run: Run) -> None:
    page = html.page(timelines.renamed(run, "{{data}} \\1 $x"))
    assert read(page).text["h1"] == ["{{data}} \\1 $x"]


def test_embedded_data_is_the_timeline(run: Run) -> None:
    timeline = run.timeline
    data = data_of(html.page(run))
    spans = data["spans"]
    assert len(spans["b"]) == len(timeline.spans)
    for index, span in enumerate(timeline.spans):
        assert data["units"][spans["u"][index]] == span.unit
        assert spans["t"][index] == span.tiles
        assert spans["b"][index] == pytest.approx(span.begin, abs=0.05)
        assert spans["l"][index] == pytest.approx(span.end - span.begin, abs=0.05)
        issued = data["issued"][spans["i"][index]]
        assert issued[0] == timeline.issued[span.issue].instruction.op.name.lower()
        assert data["texts"][issued[2]].startswith(issued[0])
    assert data["phases"][-1][1] == timeline.cycles
    assert data["memory"]["wide"]["live"] == run.occupancy.wide.live.tolist()
    assert len(data["critical"]) == len(timeline.critical_path)


def test_strings_are_embedded_once() -> None:
    operation = tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])
    data = data_of(html.page(run_of(*[operation] * 50)))
    assert len(data["issued"]) == 50
    assert len(data["texts"]) == 1


def test_work_of_the_array_is_embedded() -> None:
    use = data_of(html.page(computing()))["use"]
    done = 8 * 64 * 32 * 4 * 16
    assert use["s"][-1] == pytest.approx(100 * done / (16 * 64 * 4), abs=0.01)
    assert use["t"] == [1000, 1000 + 8 * 64 + 5]


def test_phases_can_be_sorted(run: Run) -> None:
    reader = read(html.page(computing()))
    cells = [attrs for tag, attrs in reader.tags if tag == "td" and "data-value" in attrs]
    heads = [attrs for tag, attrs in reader.tags if tag == "th" and "data-kind" in attrs]
    assert len(cells) == 3 * len(heads)
    for index, attrs in enumerate(cells):
        if heads[index % len(heads)]["data-kind"] == "number":
            assert attrs["data-value"] is not None
            float(attrs["data-value"])


def test_roofline_has_a_dot_for_each_phase_that_computes() -> None:
    reader = read(html.page(computing()))
    dots = [attrs for _, attrs in reader.tags if attrs.get("class") == "dot"]
    assert [attrs["data-phase"] for attrs in dots] == ["1"]
    # No dot is above the roof of the array.
    roofs = [attrs["d"] for _, attrs in reader.tags if attrs.get("class") == "roof"]
    assert len(roofs) == 1
    assert roofs[0] is not None
    height = float(roofs[0].split()[1].split("H")[0])
    assert float(dots[0]["cy"] or 0) >= height


def test_run_that_computes_nothing(run: Run) -> None:
    page = html.page(run)
    assert "<svg" not in page
    assert "No phase computes" in page


def test_run_without_spans_or_path(run: Run) -> None:
    timeline = replace(run.timeline, spans=(), critical_path=(), transfers=())
    page = html.page(replace(run, timeline=timeline))
    read(page)
    assert "no critical path" in page


@pytest.mark.long
@pytest.mark.corpus
def test_page_of_a_real_model(mobilenet: PackageFile) -> None:
    page = html.page(timelines.run(mobilenet, "mobilenet"))
    reader = read(page)
    assert "depthwise 3x3, 8 channels" in reader.text["button"]
    assert len([attrs for _, attrs in reader.tags if attrs.get("class") == "dot"]) > 20
    assert len(page) < 600_000
