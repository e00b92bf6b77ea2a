"""Times that are predicted for segments, against those of the compiled segments."""

from __future__ import annotations

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu.test_cuts import branching

from fitzroy.base.types import DType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.segments import predicted_cuts
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.partition.divide import segments_of
from fitzroy.execution.whole import predict


def convolutions() -> Graph:
    """Images that take longer to move than to compute, and one with many filters."""
    graph = chain(DType.INT8, (16, 16, 8))
    for filters in (64, 96, 64, 32):
        grow(graph, "conv_2d", filters, (3, 3))
    return graph


@pytest.mark.long
@pytest.mark.parametrize("graph", [convolutions(), branching(0)], ids=["chain", "branches"])
def test_segments_take_what_is_predicted(graph: Graph) -> None:
    source = Source.of(graph)
    possible = predicted_cuts(source)
    assert possible.best(1).times[0] == pytest.approx(taken(graph))
    for count in (2, 3):
        cut = possible.best(count)
        times = [taken(segment.graph) for segment in segments_of(graph, cut)]
        assert list(cut.times) == pytest.approx(times, rel=0.1)
        assert max(cut.times) == pytest.approx(max(times), rel=0.05)


def taken(graph: Graph) -> float:
    """Microseconds of a compiled model on the timing model."""
    return predict(compile_edgetpu(Source.of(graph)).data, "").total
