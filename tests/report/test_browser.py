"""The report in a real browser, where one is installed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.browser import Browser, browser
from tests.report.test_html import HOSTILE, computing

from fitzroy.report import html


@pytest.fixture(scope="module")
def session() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def page(session: Browser, tmp_path: Path) -> Browser:
    """The report of a run of a model with a hostile name."""
    path = tmp_path / "report.html"
    path.write_text(html.page(computing(name=HOSTILE, notes=(HOSTILE,))), encoding="utf-8")
    session.size(1400, 1000)
    session.open(path)
    assert session.run("return document.documentElement.dataset.ready") == "yes"
    return session


def wait(session: Browser, script: str) -> Any:
    """What a script returns, once that is something."""
    deadline = time.monotonic() + 60
    while not (found := session.run(script)):
        assert time.monotonic() < deadline, script
        time.sleep(0.02)
    return found


def box(session: Browser, selector: str) -> tuple[float, float, float, float]:
    script = (
        "const r = document.querySelector(arguments[0]).getBoundingClientRect();"
        "return [r.x, r.y, r.width, r.height]"
    )
    x, y, width, height = session.run(script, selector)
    return x, y, width, height


def test_nothing_is_reported_and_nothing_loaded(page: Browser) -> None:
    assert page.log() == []
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert page.run("return document.title") == HOSTILE
    assert page.run("return document.querySelectorAll('img').length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 900, 1400])
def test_page_fits_its_width(page: Browser, width: int, dark: bool) -> None:
    page.size(width, 900, dark=dark)
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert box(page, "#timeline")[2] > width * 0.8
    background = page.run("return getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in background[4:-1].split(",")) > 3 * 128
    assert light is not dark


def test_text_has_contrast(page: Browser) -> None:
    script = """
      const light = (c) => {
        const p = c.match(/\\d+/g).slice(0, 3).map((v) => v / 255)
          .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2];
      };
      const back = light(getComputedStyle(document.querySelector('section')).backgroundColor);
      return ['td', '.hint', 'th', 'td button', 'button', 'dd small'].map((selector) => {
        const text = light(getComputedStyle(document.querySelector(selector)).color);
        return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
      });
    """
    for dark in (False, True):
        page.size(1400, 1000, dark=dark)
        assert min(page.run(script)) >= 4.5


def test_pointer_shows_what_an_instruction_does(page: Browser) -> None:
    page.run("document.querySelectorAll('#phases tbody button')[1].click()")
    status = wait(page, "return document.getElementById('tl-status').textContent")
    assert status.startswith("Phase 1: conv 1x1x32 -> 32")
    time.sleep(0.1)
    x, y, _, height = box(page, "#timeline")
    # The op engine is the only one, in the last row.
    page.mouse("mouseMoved", x + 132 + 70, y + height - 14)
    text = wait(page, "return document.getElementById('tip').innerText")
    assert text.startswith("mac @0:16")
    assert "waits: data 5" in text
    assert "loops=8,64" in text
    page.mouse("mouseMoved", 2, 2)
    wait(page, "return document.getElementById('tip').hidden")


def test_wheel_and_keys_move_the_timeline(page: Browser) -> None:
    script = (
        "const c = document.getElementById('timeline');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "let h = 0; for (let i = 0; i < d.length; i += 7) h = (h * 31 + d[i]) | 0; return h"
    )
    seen = [page.run(script)]

    def changed() -> bool:
        time.sleep(0.1)
        seen.append(page.run(script))
        return bool(seen[-1] != seen[-2])

    x, y, width, height = box(page, "#timeline")
    # Without Ctrl the wheel scrolls the page.
    page.mouse("mouseWheel", x + width / 2, y + height / 2, deltaX=0, deltaY=-1)
    assert not changed()
    page.mouse("mouseWheel", x + width / 2, y + height / 2, deltaX=0, deltaY=-240, modifiers=2)
    assert changed()
    page.run("document.getElementById('timeline').focus()")
    for key in "+-]":
        page.key(key)
        assert changed()
    page.key("0")
    assert changed()
    assert seen[-1] == seen[0]
    page.run("document.getElementById('tl-all').click()")
    assert changed()
    assert box(page, "#timeline")[3] > height
    assert not [entry for entry in page.log() if entry["level"] == "SEVERE"]


def test_table_is_sorted_by_the_column_that_is_chosen(page: Browser) -> None:
    rows = "return [...document.querySelectorAll('#phases tbody tr')].map((r) => r.dataset.phase)"
    assert page.run(rows) == ["0", "1", "2"]
    # Most time first, then least; the heading says which.
    page.run("document.querySelectorAll('#phases thead button')[2].click()")
    assert page.run(rows)[0] == "1"
    page.run("document.querySelectorAll('#phases thead button')[2].click()")
    assert page.run(rows)[-1] == "1"
    sort = "return document.querySelectorAll('#phases th')[2].getAttribute('aria-sort')"
    assert page.run(sort) == "ascending"
    page.run("document.querySelectorAll('#phases thead button')[0].click()")
    assert page.run(rows) == ["0", "1", "2"]


def test_dots_of_the_roofline_show_their_phase(page: Browser) -> None:
    page.run("document.querySelector('svg .dot').scrollIntoView({block: 'center'})")
    x, y, width, height = box(page, "svg .dot")
    page.mouse("mouseMoved", x + width / 2, y + height / 2)
    text = wait(page, "return document.getElementById('tip').innerText")
    assert text.startswith("1: conv 1x1x32 -> 32")
    assert "bound by op" in text


def test_page_is_printed_light_and_whole(page: Browser) -> None:
    page.size(1000, 700, dark=True)
    page.devtools("Emulation.setEmulatedMedia", media="print", features=[])
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert page.run(style, "body", "backgroundColor") == "rgb(255, 255, 255)"
    assert page.run(style, ".controls", "display") == "none"
    script = "const t = document.querySelector('.scroll'); return t.scrollHeight - t.clientHeight"
    assert page.run(script) == 0
