"""The report of the compiler as one HTML file."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow

from fitzroy.base.types import DType
from fitzroy.compilation.documents import document
from fitzroy.compilation.edgetpu import compile_together
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.execution.estimate import estimate
from fitzroy.formats import tflite
from fitzroy.report.compilation import page

EVIL = "</title><script>alert(1)</script>{{style}}"


class _Tags(HTMLParser):
    """Names of the elements of a page, which must be closed in order."""

    VOID = ("meta", "link", "br", "rect", "path")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.fixture
def made(tmp_path: Path) -> str:
    """The page of two models, one of which has a name that wants out."""
    paths = []
    for number in range(2):
        graph = chain(DType.INT8, (10, 10, 6))
        for _ in range(2):
            grow(graph, "conv_2d", 40, (3, 3), seed=number)
        if number:
            graph.rename_output(graph.outputs[0], EVIL)
        paths.append(tmp_path / f"{number}.tflite")
        paths[-1].write_bytes(tflite.write_model(export_model(graph)))
    results = compile_together(paths, generator=Options(taken=(100,) * 16))
    runs = [[estimate(part.package, "m") for part in result.segments] for result in results]
    return page([document(r, run, full=True) for r, run in zip(results, runs, strict=True)], runs)


@pytest.mark.long
def test_pages_are_well_formed_and_safe(made: str) -> None:
    tags = _Tags()
    tags.feed(made)
    assert not tags.open
    assert "script" not in tags.seen
    assert made.count("{{style}}") > 0, "names stay what they are"
    assert "default-src &#x27;none&#x27;" in made or "default-src 'none'" in made
    assert not re.search(r'(src|href)="(?!data:)', made)


def test_pages_hold_what_was_done(made: str) -> None:
    assert made.count("<svg") == 4
    assert "other models and parts" in made
    assert "convolution" in made
    assert made.count("Estimated inference") == 2
    assert made.count("4 of 4 operators on the chip") == 1
