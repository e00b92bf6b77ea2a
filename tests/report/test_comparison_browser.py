"""The comparison of two models in a real browser, where one is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.browser import Browser, browser
from tests.report.test_comparison import document

from fitzroy.report.comparison import page

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser() as found:
        path: Path = tmp_path_factory.mktemp("comparison") / "changes.html"
        layers = [
            {"name": "MobilenetV1/Conv2d_13_pointwise/Relu6: conv 1x1x384", "old": old, "new": new}
            for old, new in ((1_286_450, 1_100_341), (None, 76_564), (548_028, None))
        ]
        text = page(document(layers=layers))
        path.write_text(text.replace("title of cycles", "predicted time of operators on the host"))
        found.open(path)
        assert found.run("return document.documentElement.dataset.ready") == "yes"
        yield found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1400])
def test_values_and_change_are_in_sight(session: Browser, width: int, dark: bool) -> None:
    session.size(width, 900, dark=dark)
    assert session.run("return document.documentElement.scrollWidth") <= width
    hidden = (
        "return [...document.querySelectorAll('.scroll')].map((s) => s.scrollWidth - s.clientWidth)"
    )
    assert session.run(hidden) == [0, 0]
    assert session.log() == []


def test_layers_are_sorted_and_searched(session: Browser) -> None:
    session.size(1400, 900)
    rows = (
        "return [...document.querySelectorAll('#layers tbody tr')].filter((r) => r.offsetParent)"
        ".map((r) => r.cells[2].textContent)"
    )
    assert session.run(rows) == ["–", "1,100,341", "76,564"]
    session.run("document.querySelectorAll('#layers th button')[2].click()")
    assert session.run(rows) == ["1,100,341", "76,564", "–"]
    session.run(
        "const f = document.querySelector('[data-filter=layers]'); f.value = '548';"
        "f.dispatchEvent(new Event('input'))"
    )
    assert session.run(rows) == ["–"]
