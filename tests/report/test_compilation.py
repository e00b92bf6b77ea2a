"""The report of the compiler as one HTML file."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow

from fitzroy.base.types import DType
from fitzroy.compilation.documents import document
from fitzroy.compilation.edgetpu import compile_together
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.execution.estimate import estimate
from fitzroy.formats import tflite
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.report.advice import advice
from fitzroy.report.compilation import page
from fitzroy.report.run import Run
from fitzroy.report.streaming import streaming_document

EVIL = "</title><script>alert(1)</script>{{style}}"


class _Tags(HTMLParser):
    """Names of the elements of a page, which must be closed in order."""

    VOID = ("meta", "link", "br", "rect", "path", "input")

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


@pytest.fixture(scope="module")
def documents(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[list[dict[str, Any]], list[list[Run]]]:
    """What was done with two models, one of which has a name that wants out."""
    tmp_path = tmp_path_factory.mktemp("models")
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
    return [document(r, run, full=True) for r, run in zip(results, runs, strict=True)], runs


@pytest.fixture(scope="module")
def made(documents: tuple[list[dict[str, Any]], list[list[Run]]]) -> str:
    """Their page."""
    return page(*documents)


@pytest.mark.long
def test_pages_are_well_formed_and_safe(made: str) -> None:
    tags = _Tags()
    tags.feed(made)
    assert not tags.open
    assert tags.seen.count("script") == 1
    assert made.count("{{style}}") > 0, "names stay what they are"
    assert "default-src &#x27;none&#x27;" in made or "default-src 'none'" in made
    assert not re.search(r'(src|href)="(?!data:)', made)


def test_pages_hold_what_was_done(made: str) -> None:
    assert made.count('aria-label="Memory map"') == 4
    assert made.count('<div class="drawing"') == 2
    assert "other models and parts" in made
    assert "convolution" in made
    assert made.count("How fast is it?") == 2
    assert made.count("Nothing</strong>") == 2
    assert made.count("4 of 4 operators on the chip") == 1


def test_pages_show_names_of_files_and_no_paths(made: str) -> None:
    assert "<h1>0.tflite, 1.tflite</h1>" in made
    assert "/models" not in made.replace("</", "")


def test_edges_join_operators_inputs_and_outputs(
    documents: tuple[list[dict[str, Any]], list[list[Run]]],
) -> None:
    first = documents[0][0]
    assert [(edge["from"], edge["to"]) for edge in first["edges"]] == [(None, 0), (0, 1), (1, None)]
    assert first["edges"][0]["bytes"] == 10 * 10 * 6
    layers = first["subgraphs"][0]["layers"]
    assert {layer["operator"] for layer in layers} >= {0, 1}
    assert all(0 <= layer["utilization"] <= 1 for layer in layers)
    chosen = [layer for layer in layers if layer["variant"]]
    assert chosen
    for layer in chosen:
        assert layer["expected"] > 0
        assert 0 < layer["least"] <= layer["cycles"]


def _left(document: dict[str, Any]) -> dict[str, Any]:
    """A model whose last operator is on the host, for a reason."""
    reason = {"code": "c", "what": EVIL, "hint": "do this first"}
    last = document["explanation"][-1] | {"subgraph": None, "reasons": [reason], "layers": []}
    explanation = [*document["explanation"][:-1], last]
    return document | {"explanation": explanation, "mapped": document["operators"] - 1}


def test_operators_on_the_host_come_first_with_reason_and_remedy(
    documents: tuple[list[dict[str, Any]], list[list[Run]]],
) -> None:
    found = _left(documents[0][0])
    text = page([found], documents[1][:1])
    rows = re.findall(r'<tr data-op="m0:(\d+)">', text[text.index('id="m0-operators"') :])
    assert rows[:2] == ["1", "0"]
    assert "1 of 2 operators</strong>" in text
    assert "hint: do this first" in text
    assert "<script>alert" not in text
    assert text.count('class="cross"') == 2
    assert any("do this first" in item for item in advice(found))


def test_advice_names_the_operator_whose_strips_take_the_most_time(
    documents: tuple[list[dict[str, Any]], list[list[Run]]],
) -> None:
    def layer(operator: int | None, name: str, cycles: float, bound: str) -> dict[str, Any]:
        return {"operator": operator, "name": name, "cycles": cycles, "bound": bound}

    first = documents[0][0]
    names = [item["name"] for item in first["explanation"]]
    part = first["subgraphs"][0] | {
        "layers": [
            layer(None, "receive image", 50.0, "host"),
            layer(0, "halo a", 30.0, "mesh"),
            layer(0, "convolution a", 20.0, "op"),
            layer(0, "convolution a", 25.0, "op"),
            layer(1, "convolution b", 40.0, "ring"),
        ]
    }
    found = [item for item in advice(first | {"subgraphs": [part]}) if "chip's time" in item]
    assert found == [
        f"CONV_2D {names[0]} takes 45.5 % of the chip's time. "
        "It is bound by arithmetic: fewer channels or a smaller picture help"
    ]


def test_advice_names_what_is_streamed_and_the_slowest_layer(
    documents: tuple[list[dict[str, Any]], list[list[Run]]],
) -> None:
    host = BEAGLE.hosts["raspberry_pi_5_usb3"]
    cost = streaming_document(6 << 20, 1 << 20, 3 << 20, ("raspberry_pi_5_usb3", host))
    assert cost is not None
    assert (cost["width_multiplier"], cost["chips"]) == (0.88, 2)
    # The link alone, without what prepares the transfer.
    assert cost["us"] >= (3 << 20) / host.stream
    found = advice(documents[0][0] | {"streamed_bytes": 3 << 20, "streaming": cost})
    assert found[0].startswith("parameters do not fit, and are streamed: 3.00 MiB")
    assert "0.88 of the channels would fit one chip" in found[0]
    assert "--num-segments 2" in found[0]
    assert documents[0][0]["streaming"] is None
    assert any("of the chip's time" in item for item in found)
    assert not any("do not fit" in item for item in advice(documents[0][0]))
