"""Pages of a large model in a real browser: quiet, as wide as the window, and not too heavy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.browser import Browser, browser
from tests.report.large import POSENET, opened, pages_of
from tests.support import corpus

_MOST_ELEMENTS = 8_000
"""Of a page. A browser makes ten thousand in less time than people notice."""

_MOST_BYTES = 700_000
_MOST_LAYOUTS = 12
"""Passes of layout until a page answers. One that measures each row would need thousands."""

pytestmark = [pytest.mark.slow, pytest.mark.corpus]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The compiler's report, that of a run, and the explorer, for PoseNet."""
    return pages_of(corpus() / POSENET, tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def session() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("name", ["compilation", "simulation", "explorer"])
def test_page_of_a_large_model(pages: dict[str, Path], session: Browser, name: str) -> None:
    assert pages[name].stat().st_size < _MOST_BYTES
    work = opened(session, pages[name])
    assert work["elements"] < _MOST_ELEMENTS
    assert work["layouts"] <= _MOST_LAYOUTS
    for width in (400, 800, 1280):
        for dark in (False, True):
            session.size(width, 900, dark=dark)
            assert session.run("return document.documentElement.scrollWidth") <= width
    assert session.log() == []
