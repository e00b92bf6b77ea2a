"""The section of a report on a model for several chips."""

from __future__ import annotations

import re

import pytest
from tests.compiler.edgetpu.test_cuts import CAPACITY, branching, found

from fitzroy.compilation.documents import cut_document
from fitzroy.compiler.targets.edgetpu.partition.costs import parameter_bytes
from fitzroy.report.segments import faster, several_chips


def test_loads_of_segments_add_up() -> None:
    graph = branching(1)
    for cut in (found(graph).best(count) for count in (1, 3)):
        segments = cut_document(cut)["segments"]
        parameters = sum(parameter_bytes(graph, node) for node in graph.nodes())
        held = [item["cached_bytes"] + item["streamed_bytes"] for item in segments]
        assert sum(held) == parameters
        assert all(item["cached_bytes"] <= CAPACITY for item in segments)
        assert sum(item["operators"] for item in segments) == len(graph.nodes())
        parts = [graph.part(nodes) for nodes in cut.segments]
        assert [item["tensor_bytes"] for item in segments] == [
            sum(part.type(name).nbytes for name in (*part.inputs, *part.outputs)) for part in parts
        ]


def test_times_say_where_they_come_from() -> None:
    possible = found(branching(1))
    cut = possible.best(2)
    refined = possible.refined({cut.pieces[0]: 7.0}).along(cut.path)
    assert [item["timed"] for item in cut_document(refined)["segments"]] == [True, False]
    whole = possible.on_one_chip(5.0)
    assert (
        cut_document(whole.best(1))["segments"][0] | {"us": 5.0, "timed": True}
        == (cut_document(whole.best(1))["segments"][0])
    )
    assert whole.along(cut.path).times == cut.times
    assert whole.along(cut.path).whole == 5.0


@pytest.mark.parametrize(
    ("chips", "pipeline", "parallel", "wanted"),
    [
        (1, 5.0, 10.0, ""),
        (2, 10.0, 10.1, ""),
        (2, 5.0, 10.0, "pipeline, 2.0 times"),
        (3, 30.0, 10.0, "whole models, 3.0 times"),
    ],
)
def test_what_is_faster(chips: int, pipeline: float, parallel: float, wanted: str) -> None:
    cut = {"chips": chips, "interval_us": pipeline, "parallel_interval_us": parallel}
    assert faster(cut) == wanted


def test_a_section_has_every_number_of_chips_and_the_segments_that_were_written() -> None:
    cuts = [cut_document(cut) for cut in found(branching(1)).choose()]
    text = several_chips(cuts, 3)
    numbers, segments = re.findall(r"<tbody>(.*?)</tbody>", text, re.DOTALL)
    assert numbers.count("<tr>") == len(cuts)
    assert numbers.count("written") == 1
    assert segments.count("<tr>") == 3
    for item in cuts[2]["segments"]:
        assert f"<td>{item['tensor_bytes']:,}</td>" in segments
