"""Pages of large models, and the work that a browser has with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.report.browser import Browser

from fitzroy.compilation.documents import document
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.exploring import explored
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.execution.estimate import Conditions, estimate, timed
from fitzroy.report import compilation, explorer, html

POSENET = "coral/posenet_mobilenet_v1_075_481_641_16_quant_decoder.tflite"


def pages_of(model: Path, folder: Path) -> dict[str, Path]:
    """Files with the compiler's report, that of a run, and the explorer, by their kinds.

    Args:
        model: a quantized model with one part on the chip.
        folder: where they are written.
    """
    result = compile_edgetpu(str(model))
    runs = [estimate(part.package, model.stem) for part in result.segments]
    package = result.segments[0].package
    inputs = {
        name: np.zeros(layer.packed_bytes, np.uint8) for name, layer in package.main.inputs.items()
    }
    outputs = SimulatedDevice().start(package, inputs, record=True).finish()
    sizes = {name: data.size for name, data in outputs.buffers.items()}
    run = timed(outputs.stages, model.stem, sizes, Conditions())
    texts = {
        "compilation": compilation.page([document(result, runs, full=True)], [runs]),
        "simulation": html.page(run),
        "explorer": explorer.page(explored(str(model))),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def opened(session: Browser, page: Path) -> dict[str, float]:
    """Open a page until it answers: what the browser did for that.

    Returns:
        Passes of layout, elements of the page, and milliseconds until its scripts had run.
    """
    session.devtools("Performance.enable")
    session.open(page)
    assert session.run("return document.documentElement.dataset.ready") == "yes"
    counts = session.devtools("Performance.getMetrics")["metrics"]
    return {
        "layouts": next(item["value"] for item in counts if item["name"] == "LayoutCount"),
        "elements": session.run("return document.querySelectorAll('*').length"),
        "interactive_ms": session.run(
            "return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
        ),
    }
