"""The report of the compiler in a real browser, where one is installed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.report.browser import Browser, browser

from fitzroy.compilation.documents import document
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.execution.estimate import estimate
from fitzroy.report.compilation import page

_DIGITS = Path(__file__).parents[2] / "examples" / "models" / "digits.tflite"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The report of the digits model."""
    with browser() as session:
        result = compile_edgetpu(str(_DIGITS))
        runs = [estimate(part.package, "digits") for part in result.segments]
        path: Path = tmp_path_factory.mktemp("report") / "digits.html"
        path.write_text(page([document(result, runs, full=True)], [runs]), encoding="utf-8")
        session.size(1400, 1000)
        session.open(path)
        assert session.run("return document.documentElement.dataset.ready") == "yes"
        yield session


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 900, 1400])
def test_page_fits_its_width_and_reports_nothing(report: Browser, width: int, dark: bool) -> None:
    report.size(width, 900, dark=dark)
    assert report.run("return document.documentElement.scrollWidth") <= width
    assert report.log() == []
    # What is wider than there is room scrolls in a frame of its own.
    inside = (
        "return [...document.querySelectorAll('table')]"
        ".every((t) => t.closest('.scroll').clientWidth <= document.body.clientWidth)"
    )
    assert report.run(inside)


@pytest.mark.long
def test_drawings_begin_and_go_on_with_a_node_in_the_middle(report: Browser) -> None:
    report.size(400, 900)
    apart = (
        "const f = document.querySelector('.drawing'), g = f.querySelector(arguments[0]);"
        "const a = f.getBoundingClientRect(), b = g.getBoundingClientRect();"
        "return Math.abs(a.left + a.width / 2 - b.left - b.width / 2)"
    )
    assert report.run(apart, "g") < 20
    report.run("document.querySelector('.strip [data-op=\"m0:7\"]').click()")
    assert report.run(apart, "g.on") < 20


@pytest.mark.long
@pytest.mark.parametrize("width", [320, 400, 800, 1400])
def test_tables_show_all_columns_at_every_width(report: Browser, width: int) -> None:
    report.size(width, 900)
    report.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    # Opening is told of afterwards.
    report.devtools(
        "Runtime.evaluate", expression="new Promise(requestAnimationFrame)", awaitPromise=True
    )
    cut = (
        "return [...document.querySelectorAll('.scroll > table')]"
        ".filter((t) => t.parentElement.scrollWidth > t.parentElement.clientWidth)"
        ".map((t) => [t.id, t.textContent.slice(0, 60)])"
    )
    assert report.run(cut) == []
    # Headings stand above what they name, in rows of several lines, too.
    apart = (
        "return [...document.querySelectorAll('.scroll > table')].flatMap((t) =>"
        "[...t.tHead.rows[0].cells].map((h, i) => {"
        "const a = h.getBoundingClientRect(), b = t.tBodies[0].rows[0].cells[i]"
        ".getBoundingClientRect();"
        "return b.width ? Math.abs(a.left - b.left) : 0; }).filter((d) => d > 1))"
    )
    assert report.run(apart) == []
    stacked = report.run(
        "return document.querySelector('#m0-operators').classList.contains('stacked')"
    )
    assert stacked == (width < 900)


@pytest.mark.long
def test_search_hides_rows_of_several_lines(report: Browser) -> None:
    report.size(400, 900)
    search = (
        "const f = document.querySelector('[data-filter=m0-operators]'); f.value = arguments[0];"
        "f.dispatchEvent(new Event('input'));"
        "return [...document.querySelectorAll('#m0-operators tbody tr')]"
        ".filter((r) => r.offsetHeight).length"
    )
    assert report.run(search, "depthwise") == 1
    assert report.run(search, "") == 9


@pytest.mark.long
def test_an_operator_that_is_chosen_is_shown_everywhere(report: Browser) -> None:
    report.size(1400, 1000)
    report.run("document.querySelector('.strip [data-op=\"m0:3\"]').click()")
    chosen = "return [...document.querySelectorAll('.on')].map((e) => e.tagName.toLowerCase())"
    assert set(report.run(chosen)) == {"button", "g", "tr"}
    assert "depthwise" in report.run("return document.querySelector('[data-status]').textContent")
    # Keys go from layer to layer, and choose nodes of the graph.
    press = (
        "const e = document.querySelector(arguments[0]); e.focus(); e.dispatchEvent("
        "new KeyboardEvent('keydown', {key: arguments[1], bubbles: true, cancelable: true}));"
        "return document.querySelector('.drawing g.on').dataset.op"
    )
    assert report.run(press, ".drawing g[data-op='m0:5']", "Enter") == "m0:5"
    assert report.run(press, ".strip:not(.low)", "ArrowRight") == "m0:0"
    assert report.run(press, ".strip:not(.low)", "ArrowRight") == "m0:1"


@pytest.mark.long
def test_tables_are_searched_and_sorted(report: Browser) -> None:
    report.run(
        "const f = document.querySelector('[data-filter=m0-operators]'); f.value = 'CONV depth';"
        "f.dispatchEvent(new Event('input'))"
    )
    rows = (
        "return [...document.querySelectorAll('#m0-operators tbody tr')]"
        ".filter((r) => r.offsetParent).map((r) => r.dataset.op)"
    )
    assert report.run(rows) == ["m0:3"]
    report.run("document.querySelectorAll('#m0-layers-0 th button')[2].click()")
    most = report.run(
        "return [...document.querySelectorAll('#m0-layers-0 tbody tr')]"
        ".map((r) => Number(r.cells[2].dataset.value))"
    )
    assert most == sorted(most, reverse=True)


@pytest.mark.long
@pytest.mark.parametrize("width", [400, 1400])
def test_the_timeline_has_axes_and_shows_where_the_program_lies(
    report: Browser, width: int
) -> None:
    report.size(width, 900)
    ticks = report.run(
        "return [...document.querySelectorAll('.ticks')].map((axis) => [...axis.children].map("
        "(tick) => [tick.textContent, tick.offsetLeft, tick.offsetLeft + tick.offsetWidth,"
        "axis.clientWidth]))"
    )
    assert len(ticks) == 2
    for axis in ticks:
        assert axis[0][0] == "0 µs"
        assert len(axis) > 2
        # Texts stand side by side, and none is cut.
        assert all(a[2] <= b[1] for a, b in pairwise(axis))
        assert axis[-1][2] <= axis[-1][3]
    # The funnel leads from the program in the inference to the strip of its layers.
    widths = report.run(
        "return [...document.querySelectorAll('.strip.low button')].map((b) => b.style.width)"
    )
    begin, program, _ = (float(text.rstrip("%")) for text in widths)
    path = report.run("return document.querySelector('.funnel path').getAttribute('d')")
    assert path == f"M{10 * begin:.1f} 0H{10 * (begin + program):.1f}L1000 10H0Z"


@pytest.mark.long
def test_maps_of_memory_can_be_read_without_a_pointer(report: Browser) -> None:
    names = report.run(
        "const t = document.querySelector('#m0-tensors-0'); t.closest('details').open = true;"
        "const texts = (row) => [...row.cells].map((c) => c.innerText);"
        "return [...t.querySelectorAll('tbody tr')].map(texts)"
    )
    shown = report.run(
        "return [...document.querySelector('svg[aria-label=\"Memory map\"]')"
        ".querySelectorAll('title')].map((t) => t.textContent)"
    )
    assert len(names) > 5
    for name, nbytes, base, _, _ in names:
        first, size = (int(text.replace(",", "")) for text in (base, nbytes))
        assert f"{name}: {first:,} to {first + size:,}" in shown


@pytest.mark.long
def test_operators_are_sorted_by_the_cycles_of_their_layers(report: Browser) -> None:
    report.run("document.querySelectorAll('#m0-operators th button')[5].click()")
    cycles = report.run(
        "return [...document.querySelectorAll('#m0-operators tbody tr')]"
        ".map((r) => [r.dataset.op, Number(r.cells[5].dataset.value)])"
    )
    assert [count for _, count in cycles] == sorted((n for _, n in cycles), reverse=True)
    layers = report.run(
        "return [...document.querySelectorAll('#m0-layers-0 tbody tr')]"
        ".map((r) => [r.dataset.op, Number(r.cells[2].dataset.value)])"
    )
    for operator, count in cycles:
        assert count == pytest.approx(sum(n for key, n in layers if key == operator))
