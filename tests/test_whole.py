"""How long a whole model takes, with operators that stay on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.hosts import NAMES, published, rows_path
from tests.support import corpus

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.detections import Detections, DetectionsAttributes
from fitzroy.execution.estimate import Conditions
from fitzroy.execution.host_operators import (
    ALIASES,
    LIST,
    MOVES,
    PER_ELEMENT,
    Work,
    host_time,
    work_of,
)
from fitzroy.execution.hosts import find
from fitzroy.execution.whole import CHIP, HOST, predict
from fitzroy.measurement.operators import CONSTANTS, measure, trials


def bytes_of(*shape: int) -> TensorType:
    return TensorType(shape, DType.INT8, Quantization((0.1,), (0,)))


def test_the_tables_name_operators() -> None:
    assert set(OPS) >= ALIASES | MOVES | set(PER_ELEMENT)
    assert not ALIASES & MOVES
    assert not (ALIASES | MOVES) & set(PER_ELEMENT)


def test_operators_take_what_their_elements_and_products_take() -> None:
    graphs = dict(trials())
    (convolution,) = graphs["a convolution"].nodes()
    work = work_of(graphs["a convolution"], convolution)
    assert work == Work(1000 + 32 * 32 * 128 * 128 * 0.0076, 0)
    (scale,) = graphs["another scale"].nodes()
    assert work_of(graphs["another scale"], scale) == Work(1000, 2 * 128 * 128 * 32)
    (largest,) = graphs["the largest channel"].nodes()
    assert work_of(graphs["the largest channel"], largest).compute == 1000 + 128 * 128 * 32 * 0.87


def test_a_function_without_an_entry_has_a_cost() -> None:
    graph = Graph("g")
    x = graph.add_input("x", TensorType((1, 10), DType.FLOAT32))
    graph.outputs = [graph.emit("exp", [x], graph.type("x"))]
    (node,) = graph.nodes()
    assert "exp" not in PER_ELEMENT
    assert work_of(graph, node).compute > 1000


def test_a_list_of_objects_takes_what_it_reads() -> None:
    """Anchors are no weights of products, and masks are mostly zeros."""
    graph = Graph("g")
    real = TensorType((1,), DType.FLOAT32)
    read = [("boxes", (1, 80, 4)), ("scores", (1, 80, 2))]
    masks = [("coefficients", (1, 80, 8)), ("prototypes", (1, 40, 40, 8))]
    for name, shape in read + masks:
        graph.add_input(name, real.with_shape(shape))
    graph.add_constant("anchors", np.ones((80, 6), np.float32))
    a = DetectionsAttributes(80, 80, BoxCoding.DISTANCES, most=50)
    results = [real.with_shape((50, 6)), TensorType((50, 40, 40), DType.UINT8)]
    rows, beside = ("boxes", "scores", "anchors"), ("coefficients", "prototypes")
    boxes = Node("boxes_alone", Detections.name, rows, ("objects",), a)
    both = Node("both", Detections.name, (*rows, None, None, None, *beside), ("rows", "masks"), a)
    graph.add_node(boxes, results[:1])
    graph.add_node(both, results)
    least = LIST + 80 * 6 * PER_ELEMENT["detections"]
    assert work_of(graph, boxes) == Work(least, 0)
    more = (80 * 8 + 40 * 40 * 8) * PER_ELEMENT["detections"]
    assert work_of(graph, both).compute == pytest.approx(least + more)


def test_slower_hosts_take_longer() -> None:
    graph = dict(trials())["a softmax"]
    times = [
        host_time(graph, graph.nodes(), find(name).host)
        for name in ("x86_workstation_usb3", "raspberry_pi_4_usb3", "dev_board_pcie")
    ]
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_this_host_is_measured() -> None:
    ticks = iter(range(10_000))
    found = measure(3, clock=lambda: next(ticks) / 1000)
    assert [sample.name for sample in found.samples] == [name for name, _ in trials()]
    assert all(sample.measured == pytest.approx(1000) for sample in found.samples)
    assert tuple(found.fit.changes) == CONSTANTS
    host = found.of(find("mac_usb3").host, "here")
    assert host.compute == found.fit.changes["compute"]
    assert host.link == find("mac_usb3").host.link


@pytest.mark.long
@pytest.mark.corpus
def test_the_parts_of_a_model_add_up(tmp_path: Path) -> None:
    source = corpus() / "coral" / "yamnet_spectra_in.tflite"
    found = predict(compile_edgetpu(source).data, "y.tflite", Conditions())
    assert [part.where for part in found.parts] == [HOST, CHIP, HOST]
    assert found.total == pytest.approx(sum(part.time for part in found.parts))
    assert found.on_host == found.parts[0].time + found.parts[2].time
    assert len(found.runs) == 1


MOST_ERROR = 0.05
"""Share by which an estimate may miss a published time of a model with operators of the host."""


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize("host", NAMES.values())
def test_published_times_of_a_model_with_operators_of_the_host(host: str) -> None:
    corpus()
    name = "deeplabv3_mnv2_dm05_pascal_quant"
    path = rows_path().parent / f"{name}_edgetpu.tflite"
    if not path.is_file():
        pytest.skip("no published times")
    (measured,) = (
        float(row["ms"])
        for row in published()
        if NAMES[row["host"]] == host and row["model"] == name
    )
    found = predict(path.read_bytes(), str(path), Conditions(host=host))
    assert abs(found.total / 1000 / measured - 1) < MOST_ERROR
