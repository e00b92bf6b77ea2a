"""The order of outputs: the host reads large ones while layers compute others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu.test_strips import arrangement
from tests.compiler.edgetpu_models import differing_bytes, findings, program

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.fitting import ordering
from fitzroy.compiler.targets.edgetpu.fitting.narrow import arranged
from fitzroy.compiler.targets.edgetpu.host.host_layers import Fetch, Send
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower
from fitzroy.execution.estimate import estimate
from fitzroy.linker.packages.darwinn import link

BACKBONE, SMALL, LARGE = range(3)


def two_heads(depth: int = 6) -> Graph:
    """A small output that takes many layers, before a large one that takes a single layer."""
    graph = chain(DType.INT8, (24, 24, 16))
    grow(graph, "conv_2d", 32, (3, 3), seed=BACKBONE)
    (features,) = graph.outputs
    for number in range(depth):
        grow(graph, "conv_2d", 4 if number == depth - 1 else 64, (3, 3), seed=SMALL)
    (small,) = graph.outputs
    graph.outputs = [features]
    grow(graph, "conv_2d", 64, (1, 1), seed=LARGE)
    graph.outputs.insert(0, small)
    return graph


def order(layered: Layered) -> list[str]:
    """Outputs in the order in which they are sent."""
    return [layer.output for layer in layered.layers if isinstance(layer, Send)]


@pytest.mark.long
def test_what_the_host_reads_for_long_is_computed_first() -> None:
    graph = two_heads()
    small, large = graph.outputs
    assert order(legalized(graph)) == [small, large]
    found = arrangement(graph)
    assert order(found.layered) == [large, small]
    package = program(graph)
    assert differing_bytes(graph, package) == 0
    assert not findings(package)


@pytest.mark.long
def test_the_timing_model_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = two_heads()
    early = estimate(link([lower(graph)])[0], "early")
    monkeypatch.setattr(ordering, "sent_early", lambda layered: None)
    late = estimate(link([lower(graph)])[0], "late")
    assert late.timeline.total - early.timeline.total > 50


def test_layers_come_after_what_they_read_and_each_once() -> None:
    layered = legalized(two_heads())
    found = ordering.sent_early(layered)
    assert found is not None
    assert set(found.layers) == set(layered.layers)
    assert len(found.layers) == len(layered.layers)
    there: set[str] = set()
    for layer in found.layers:
        assert there.issuperset(layer.reads)
        there.add(layer.writes)


def test_an_order_that_saves_nothing_is_left() -> None:
    assert ordering.sent_early(legalized(two_heads(depth=1))) is None
    found = ordering.sent_early(legalized(two_heads()))
    assert found is not None
    assert ordering.sent_early(found) is None


def test_a_single_output_has_no_order() -> None:
    graph = chain(DType.INT8, (8, 8, 8))
    grow(graph, "conv_2d", 8, (1, 1))
    assert ordering.sent_early(legalized(graph)) is None


@pytest.mark.long
def test_what_has_been_fetched_was_sent_before() -> None:
    """No operand says so: such layers keep their order."""
    layered = legalized(two_heads())
    fetch = Fetch(name="back", reads=(), writes="back", source="kept", origin="back")
    kept = replace(layered, layers=(*layered.layers, fetch))
    assert ordering.sent_early(kept) is None


def test_an_order_that_turns_out_slower_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips and patches are only known once layers have their places."""
    late = legalized(two_heads())
    early = ordering.sent_early(late)
    assert early is not None
    monkeypatch.setattr(ordering, "sent_early", lambda layered: late)
    assert order(arranged(early).layered) == order(early)
