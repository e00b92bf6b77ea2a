"""Boxes of distributions in parts: the same in float32, and with smaller steps in 8 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import listed, the_node

import fitzroy
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, TypeRuleError
from fitzroy.compiler.ops.detections import DetectionsAttributes
from fitzroy.compiler.passes.heads.box_parts import PARTS, with_box_parts
from fitzroy.compiler.passes.heads.objects import ranges_of_objects
from fitzroy.compiler.passes.heads.rewriting import encoded
from fitzroy.compiler.quantization.comparison import stored_input
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.quantization.statistics import Range

Floats = npt.NDArray[np.float32]
SAMPLES = [
    {"image": np.random.default_rng(seed).random((1, 64, 64, 3), np.float32)} for seed in range(4)
]


def divided() -> tuple[Graph, Graph, dict[str, Range]]:
    """A detector, and the same with boxes in parts."""
    graph = listed(detectors.dfl())
    ranges = ranges_of_objects(graph, SAMPLES)
    return graph, *with_box_parts(graph, ranges)


def attributes(graph: Graph) -> DetectionsAttributes:
    a = the_node(graph).attributes
    assert isinstance(a, DetectionsAttributes)
    return a


def found_in(graph: Graph, picture: Floats) -> Floats:
    given = stored_input(picture, graph.type("image"))
    found: Floats = fitzroy.evaluate(graph, {"image": given})["detections"]
    return found


def test_parts_add_up() -> None:
    """Also where boxes are outside of the range."""
    graph, parts, ranges = divided()
    assert attributes(parts).part > 0
    assert parts.type(str(the_node(parts).inputs[0])).shape[2] == 4 * PARTS
    narrow, _ = with_box_parts(graph, dict.fromkeys(ranges_of_objects(graph, SAMPLES), (1.0, 2.0)))
    for sample in SAMPLES:
        exact = found_in(graph, sample["image"])
        assert np.count_nonzero(exact[:, 4]) > 2
        for other in (parts, narrow):
            np.testing.assert_allclose(found_in(other, sample["image"]), exact, atol=1e-3)
    joint = str(the_node(parts).inputs[0])
    assert ranges[joint] == (0.0, attributes(parts).part)


def test_steps_are_smaller() -> None:
    graph, parts, bounds = divided()
    names = [str(the_node(one).inputs[0]) for one in (graph, parts)]
    chosen = QuantizeOptions()
    before = quantize_model(graph, SAMPLES, chosen, bounds=ranges_of_objects(graph, SAMPLES)).graph
    after = quantize_model(parts, SAMPLES, chosen, bounds=bounds).graph
    steps = []
    for quantized, name in zip((before, after), names, strict=True):
        quantization = quantized.type(name).quantization
        assert quantization is not None
        steps.append(quantization.scale[0])
    assert steps[1] < steps[0] / PARTS * 1.05
    exact = [found_in(graph, sample["image"])[:3, :4] for sample in SAMPLES]
    mine = [found_in(after, sample["image"])[:3, :4] for sample in SAMPLES]
    assert np.median(np.abs(np.array(mine) - exact)) < 4
    read = import_model(export_model(after))
    assert attributes(read) == attributes(after)
    (measured,) = encoded(after).outputs
    node = after.producer(measured)
    assert node is not None
    assert node.op == "softmax"


@pytest.mark.parametrize("family", ["plain", "anchored", "exponential"])
def test_other_boxes_stay_whole(family: str) -> None:
    """Their layers are less exact than a step, so that parts bring nothing."""
    graph = listed(detectors.FAMILIES[family]())
    ranges = ranges_of_objects(graph, SAMPLES) or {str(the_node(graph).inputs[0]): (0.0, 4.0)}
    result, same = with_box_parts(graph, ranges)
    assert print_graph(result) == print_graph(graph)
    assert same == ranges
    assert with_box_parts(detectors.dfl(), {})[1] == {}


def test_numbers_that_are_no_parts() -> None:
    _, parts, _ = divided()
    node = the_node(parts)
    whole = replace(node, attributes=replace(attributes(parts), part=0.0))
    with pytest.raises(TypeRuleError, match=f"{4 * PARTS} numbers of a box"):
        OPS[node.op].infer(Call.of(parts, whole))
