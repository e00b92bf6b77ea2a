"""Pages of a large model in a real browser: quiet, as wide as the window, and not too heavy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.report.browser import Browser, browser
from tests.support import corpus

from fitzroy.compilation.documents import document
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.exploring import explored
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.execution.estimate import Conditions, estimate, timed
from fitzroy.report import compilation, explorer, html

_MODEL = "coral/posenet_mobilenet_v1_075_481_641_16_quant_decoder.tflite"
_MOST_ELEMENTS = 8_000
"""Of a page. A browser makes ten thousand in less time than people notice."""

_MOST_BYTES = 700_000
_MOST_LAYOUTS = 12
"""Passes of layout until a page answers. One that measures each row would need thousands."""

pytestmark = [pytest.mark.slow, pytest.mark.corpus]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The compiler's report, that of a run, and the explorer, for PoseNet."""
    model = corpus() / _MODEL
    result = compile_edgetpu(str(model))
    runs = [estimate(part.package, "posenet") for part in result.segments]
    package = result.segments[0].package
    inputs = {
        name: np.zeros(layer.packed_bytes, np.uint8) for name, layer in package.main.inputs.items()
    }
    outputs = SimulatedDevice().start(package, inputs, record=True).finish()
    sizes = {name: data.size for name, data in outputs.buffers.items()}
    run = timed(outputs.stages, "posenet", sizes, Conditions())
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "compilation": compilation.page([document(result, runs, full=True)], [runs]),
        "simulation": html.page(run),
        "explorer": explorer.page(explored(str(model))),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def session() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("name", ["compilation", "simulation", "explorer"])
def test_page_of_a_large_model(pages: dict[str, Path], session: Browser, name: str) -> None:
    assert pages[name].stat().st_size < _MOST_BYTES
    session.devtools("Performance.enable")
    session.open(pages[name])
    assert session.run("return document.documentElement.dataset.ready") == "yes"
    counts = session.devtools("Performance.getMetrics")["metrics"]
    assert {item["name"]: item["value"] for item in counts}["LayoutCount"] <= _MOST_LAYOUTS
    for width in (400, 800, 1280):
        for dark in (False, True):
            session.size(width, 900, dark=dark)
            assert session.run("return document.documentElement.scrollWidth") <= width
    assert session.log() == []
    assert session.run("return document.querySelectorAll('*').length") < _MOST_ELEMENTS
