"""What notebooks show, and the notebook of the examples, executed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.report.test_html import HOSTILE, computing
from tests.support import need

import fitzroy
from fitzroy.api import EdgeTpuProgram
from fitzroy.report.notebook import facts, framed, tensors

EXAMPLES = Path(__file__).parents[1] / "examples"


class Frames(HTMLParser):
    """Attributes of frames, and all other elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.frames: list[dict[str, str | None]] = []
        self.others: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "iframe":
            self.frames.append(dict(attrs))
        else:
            self.others.add(tag)


def test_reports_stand_in_frames_that_reach_nothing() -> None:
    run = computing(name=HOSTILE)
    found = Frames(run._repr_html_())
    (frame,) = found.frames
    assert not found.others
    assert frame["sandbox"] == "allow-scripts"
    assert (frame["srcdoc"] or "").startswith("<!doctype html>")
    assert frame["title"] == f"Run of {HOSTILE}"


def test_names_are_escaped() -> None:
    for text in (
        framed(HOSTILE, HOSTILE),
        tensors({HOSTILE: np.zeros((2, 0)), "x": np.arange(9)}),
        facts(HOSTILE, [(HOSTILE, HOSTILE)]),
    ):
        assert not Frames(text).others & {"script", "img"}


def test_tensors_show_range_and_first_elements() -> None:
    text = tensors({"y": np.arange(9, dtype=np.int8)})
    assert "int8[9]" in text
    assert "0, 1, 2, 3, 4, 5, …" in text
    assert ">8<" in text


@pytest.mark.long
def test_compilations_and_programs_show_themselves(tmp_path: Path) -> None:
    digits = EXAMPLES / "models" / "digits.tflite"
    compiled = fitzroy.compile_edgetpu(digits)
    (frame,) = Frames(compiled._repr_html_()).frames
    assert "What to do first?" in (frame["srcdoc"] or "")
    path = tmp_path / "digits_edgetpu.tflite"
    path.write_bytes(compiled.data)
    assert "input image" in EdgeTpuProgram.load(path)._repr_html_()
    assert "inference on the chip" in fitzroy.compile(digits, target="edgetpu")._repr_html_()


def test_the_notebook_has_no_outputs() -> None:
    cells = json.loads((EXAMPLES / "digits.ipynb").read_text("utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)


@pytest.mark.long
def test_the_notebook_runs(tmp_path: Path) -> None:
    for module in ("nbclient", "ipykernel"):
        need(module, "notebook")
    need("PIL", "images")
    import nbclient
    import nbformat

    for folder in ("models", "images"):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder)
    notebook = nbformat.read(EXAMPLES / "digits.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    )
    # The kernel has a folder of its own, and takes the same sources as this test.
    sources = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    client.execute(env={**os.environ, "PYTHONPATH": sources})
    shown = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]
    assert sum("<iframe" in data.get("text/html", "") for data in shown) == 2
    assert shown[-2]["text/plain"] == "4"
