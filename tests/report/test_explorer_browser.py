"""The explorer in a real browser, where one is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.browser import Browser, browser
from tests.report.test_explorer import DIGITS

from fitzroy.compilation.exploring import explored
from fitzroy.report.explorer import page

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser() as found:
        path: Path = tmp_path_factory.mktemp("explorer") / "digits.html"
        path.write_text(page(explored(DIGITS)), encoding="utf-8")
        found.size(1400, 1000)
        found.open(path)
        assert found.run("return document.documentElement.dataset.ready") == "yes"
        yield found


def detail(session: Browser) -> str:
    return str(session.run("return document.getElementById('detail').innerText"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 900, 1400])
def test_page_fits_its_width_and_reports_nothing(session: Browser, width: int, dark: bool) -> None:
    session.size(width, 900, dark=dark)
    assert session.run("return document.documentElement.scrollWidth") <= width
    assert session.log() == []


def test_an_operator_shows_its_layer_instructions_bytes_and_time(session: Browser) -> None:
    session.size(1400, 1000)
    session.run(
        "document.querySelector('.drawing g[data-op=o3]')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert session.run("return document.querySelector('#layers .on .label').textContent") == (
        "depthwise depthwise"
    )
    assert session.run("return document.querySelectorAll('#code .row.in').length") > 3
    text = detail(session)
    assert "instructions" in text
    assert "KiB" in text
    assert "cycles" in text


def test_an_instruction_shows_its_fields_and_what_they_mean(session: Browser) -> None:
    session.size(1400, 1000)
    session.run(
        "const f = document.getElementById('find'); f.value = 'mac tiles';"
        "f.dispatchEvent(new Event('input'))"
    )
    shown = "return [...document.querySelectorAll('#code .row')].map((r) => r.textContent)"
    rows = session.run(shown)
    assert rows
    assert all("mac tiles" in row for row in rows)
    session.run("document.querySelector('#code .row').click()")
    text = detail(session)
    assert "Executed by: op engine" in text
    assert "tiles that execute it" in text
    assert session.run("return document.querySelectorAll('#layers .on').length") == 1
    session.run(
        "const f = document.getElementById('find'); f.value = '';"
        "f.dispatchEvent(new Event('input'))"
    )


def test_an_instruction_of_other_tiles_says_when_and_where_it_runs(session: Browser) -> None:
    session.size(1400, 1000)
    place, tile, busiest, text = session.run(
        "const d = JSON.parse(document.getElementById('data').textContent), p = d.parts[0];"
        "const s = p.elsewhere.find((s) => s[1] >= 0), lines = d.texts[p.instructions[s[1]][1]];"
        "return [p.places[s[1]].join(':'), s[5], p.tile, lines.split('\\n')[0]]"
    )
    assert tile != busiest
    session.run(
        "const f = document.getElementById('find'); f.value = arguments[1];"
        "f.dispatchEvent(new Event('input'));"
        "[...document.querySelectorAll('#code .row')]"
        ".find((r) => r.querySelector('.place').textContent === arguments[0]).click();"
        "f.value = ''; f.dispatchEvent(new Event('input'))",
        place,
        text,
    )
    shown = detail(session)
    assert f"@{place}" in shown
    assert f"in tile {tile}" in shown


def test_only_instructions_in_sight_are_in_the_page(session: Browser) -> None:
    session.size(1400, 1000)
    counts = (
        "const c = document.getElementById('code');"
        "return [c.querySelectorAll('.row').length, Page.data.parts[0].instructions.length]"
    )
    shown, all_of_them = session.run(counts)
    assert shown < 60 < all_of_them


def test_keys_go_from_layer_to_layer(session: Browser) -> None:
    press = (
        "const c = document.getElementById('time'); c.focus(); c.dispatchEvent("
        "new KeyboardEvent('keydown', {key: arguments[0], bubbles: true, cancelable: true}));"
        "return Number(document.querySelector('#layers .on').dataset.group)"
    )
    first = session.run(press, "[")
    assert session.run(press, "]") == first + 1
