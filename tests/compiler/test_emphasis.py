"""Detectors that keep their outputs: what counts in them when they are quantized."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler import detectors
from tests.compiler.detectors import Maker
from tests.compiler.test_heads import Floats, image, overlap
from tests.compiler.test_heads_apart import blaze

import fitzroy
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes, StridedSliceAttributes
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.fuse_quantized import FuseQuantized
from fitzroy.compiler.passes.heads.emphasis import coarse_scores, emphasis
from fitzroy.compiler.passes.heads.options import PLAIN_OUTPUTS, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections
from fitzroy.compiler.quantization.agreement import mean_average_precision
from fitzroy.compiler.quantization.comparison import real_output, stored_input
from fitzroy.compiler.quantization.options import Border, Mixed, QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model

_HALF_A_STEP = 1 / 512


@pytest.mark.parametrize("family", detectors.FAMILIES)
def test_outputs_stay(family: str) -> None:
    """Boxes and scores are computed apart, and the model gives what it gave."""
    graph = detectors.FAMILIES[family]()
    found = emphasis(graph, PLAIN_OUTPUTS, []).graph
    assert found.outputs == graph.outputs
    for name in graph.outputs:
        ours, theirs = (fitzroy.evaluate(x, {"image": image()})[name] for x in (found, graph))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "family", ["dfl", "plain", "anchored", "exponential", "sigmoid centres", "pose"]
)
def test_scores_that_8_bits_hardly_tell_from_none_have_no_steps(family: str) -> None:
    """Those below half of a step of their probability, in all values that have their logits."""
    found = emphasis(detectors.FAMILIES[family](), PLAIN_OUTPUTS, [])
    assert found.limits
    for name, (low, _) in found.limits.items():
        assert name in found.graph.values
        assert 1 / (1 + np.exp(-low)) < _HALF_A_STEP
    assert found.rare
    assert found.rare <= set(found.graph.values)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("cells_first", [False, True])
def test_one_sigmoid_of_objectness_and_classes(apart: bool, cells_first: bool) -> None:
    """A list reads them apart. What boxes are made of keeps its range."""
    found = emphasis(detectors.anchored(apart=apart, cells_first=cells_first), PLAIN_OUTPUTS, [])
    graph = found.graph
    read = [str(node.inputs[0]) for node in graph.nodes() if node.op == "sigmoid"]
    columns = {name: graph.type(name).shape[-1] for name in read if graph.type(name).rank == 5}
    assert set(columns.values()) == {2, 1 + detectors.CLASSES}
    for name, count in columns.items():
        assert (name in found.limits) == (count > 2)


def test_single_numbers_are_no_rows_of_boxes() -> None:
    graph = Graph("number")
    graph.add_input("image", TensorType((1, 8, 8, 3), DType.FLOAT32))
    attributes = ReductionAttributes((0, 1, 2, 3), False)
    type = TensorType((), DType.FLOAT32)
    graph.outputs = [graph.emit("sum", ["image"], type, attributes)]
    assert emphasis(graph, PLAIN_OUTPUTS, []).graph is graph


def test_logits_that_are_given_are_given_whole() -> None:
    found = emphasis(blaze(), PLAIN_OUTPUTS, [])
    assert found.rare
    assert not found.limits
    boxes, scores = found.graph.outputs
    assert scores in found.logits
    assert boxes not in found.logits


def test_logits_with_large_steps_are_told() -> None:
    """8 bits from -4343 to 10, as in some detectors of faces, find no face."""
    found = emphasis(blaze(), PLAIN_OUTPUTS, [])
    boxes, scores = found.graph.outputs
    (note,) = coarse_scores(found, dict.fromkeys([boxes, scores], Quantization((16.0,), (0,))))
    assert scores in note.where
    assert "steps of 16" in note.what
    assert "--detections" in str(note.hint)
    assert not [*coarse_scores(found, {scores: Quantization((0.1,), (0,))})]


def test_other_models_have_nothing_of_the_kind() -> None:
    m = Maker(1)
    graph = m.done(m.sigmoid(m.layer(m.image, 8, 8)))
    found = emphasis(graph, PLAIN_OUTPUTS, [])
    assert found.graph is graph
    assert not found.limits
    assert not found.rare


def _quantized(graph: Graph, mixed: Mixed = Mixed.FLOAT) -> Graph:
    samples = [{"image": image(seed)} for seed in range(4)]
    return fitzroy.quantize(graph, samples, options=QuantizeOptions(mixed_outputs=mixed))


def _boxes(graph: Graph, seed: int) -> Floats:
    """Corners [n,4] of the boxes in the first output of a model, [1,4+...,n]."""
    name = graph.outputs[0]
    stored = stored_input(image(seed), graph.type("image"))
    given = fitzroy.evaluate(graph, {"image": stored})[name]
    rows = real_output(given, graph.type(name))[0].T
    half = rows[:, 2:4] / 2
    corners: Floats = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1)
    return corners


def _loss(graph: Graph, quantized: Graph) -> float:
    """How little boxes of a quantized model overlap those of real numbers, in the mean."""
    pairs = (zip(_boxes(graph, seed), _boxes(quantized, seed), strict=True) for seed in range(4))
    return float(np.mean([1 - overlap(a, b) for both in pairs for a, b in both]))


def test_boxes_are_decoded_with_real_numbers() -> None:
    """A step of 8 bits is one of a distance, and not of all places in the picture."""
    graph = detectors.dfl()
    small = _quantized(graph)
    reals = {n.op for n in small.nodes() if n.name in _after_layers(small)}
    assert {"sub", "add", "mul", "concatenation"} <= reals
    assert _loss(graph, small) < 0.75 * _loss(graph, _quantized(graph, Mixed.SPLIT))


def _after_layers(graph: Graph) -> set[str]:
    """Names of nodes on real numbers."""
    return {
        node.name
        for node in graph.nodes()
        if node.op != "dequantize" and not graph.type(node.outputs[0]).is_quantized
    }


def _apart() -> Graph:
    """Decoded boxes [1,n,4] and scores [1,n,c], as outputs of their own."""
    m = Maker(1)
    boxes = detectors.from_distances(m, detectors.expectation(m, m.rows([4 * detectors.BINS])))
    return m.done(boxes, m.sigmoid(m.rows([detectors.CLASSES])))


@pytest.mark.parametrize("mixed", [Mixed.FLOAT, Mixed.SPLIT, Mixed.KEEP])
def test_boxes_of_their_own_are_decoded_with_real_numbers(mixed: Mixed) -> None:
    small = _quantized(_apart(), mixed)
    boxes, scores = (small.type(name) for name in small.outputs)
    assert boxes.is_quantized == (mixed is not Mixed.FLOAT)
    assert scores.is_quantized


@pytest.mark.parametrize("output", [Border.INT8, Border.FLOAT])
def test_arithmetic_of_other_models_is_quantized(output: Border) -> None:
    m = Maker(1)
    graph = m.done(m.binary("mul", m.layer(m.image, 8, 8), 100.0))
    options = QuantizeOptions(output_type=output)
    small = quantize_model(graph, [{"image": image()}], options).graph
    (product,) = (node for node in small.nodes() if node.op == "mul")
    assert small.type(product.outputs[0]).is_quantized


def test_no_activation_is_taken_for_a_decoder() -> None:
    """Products of values with functions of themselves are no arithmetic with constants."""
    m = Maker(1)
    layers = [m.layer(m.image, 8, 8) for _ in range(2)]
    first, second = (m.binary("mul", x, m.sigmoid(x)) for x in layers)
    small = _quantized(m.done(m.join([first, m.binary("mul", second, 100.0)], 3)))
    reals = [node for node in small.nodes() if node.name in _after_layers(small)]
    assert sorted(node.op for node in reals) == ["concatenation", "mul"]


def test_values_that_are_read_elsewhere_are_not_decoded_twice() -> None:
    m = Maker(1)
    x = m.layer(m.features()[0], 8)
    scaled = m.binary("mul", x, 100.0)
    other = m.layer(scaled, 8)
    small = _quantized(m.done(m.join([scaled, m.sigmoid(x)], 3), other))
    reals = [node for node in small.nodes() if node.name in _after_layers(small)]
    assert [node.op for node in reals] == ["concatenation"]


@pytest.mark.parametrize("taken", [2, 1])
def test_real_numbers_are_taken_apart_by_the_host(taken: int) -> None:
    """The chip gives one result in the place of two, unless it gives less that way."""
    graph = Graph("slices")
    stored = TensorType((1, 8, 4), DType.INT8, Quantization((0.5,), (0,)))
    graph.add_input("x", stored)
    real = graph.emit("dequantize", ["x"], TensorType(stored.shape, DType.FLOAT32))
    for begin in (0, 2):
        a = StridedSliceAttributes((0, 0, begin), (1, 8, taken), (1, 1, 1))
        type = TensorType(a.size, DType.FLOAT32)
        graph.outputs.append(graph.emit("strided_slice", [real], type, a))
    result = run_passes(graph, (FuseQuantized(),))
    sliced = [result.type(str(n.inputs[0])) for n in result.nodes() if n.op == "strided_slice"]
    assert [type.is_quantized for type in sliced] == [taken == 1] * 2


def test_parts_that_are_stored_again_are_integers_all_along() -> None:
    graph = Graph("slices")
    stored = TensorType((1, 8, 4), DType.INT8, Quantization((0.5,), (0,)))
    graph.add_input("x", stored)
    real = graph.emit("dequantize", ["x"], TensorType(stored.shape, DType.FLOAT32))
    for begin in (0, 2):
        a = StridedSliceAttributes((0, 0, begin), (1, 8, 2), (1, 1, 1))
        part = graph.emit("strided_slice", [real], TensorType(a.size, DType.FLOAT32), a)
        flat = TensorType((1, 16), DType.FLOAT32)
        flat_name = graph.emit("reshape", [part], flat, ReshapeAttributes(flat.shape))
        if begin:
            flat_name = graph.emit("quantize", [flat_name], stored.with_shape(flat.shape))
        graph.outputs.append(flat_name)
    result = run_passes(graph, (FuseQuantized(),))
    sliced = [result.type(str(n.inputs[0])) for n in result.nodes() if n.op == "strided_slice"]
    assert all(type.is_quantized for type in sliced)


def test_objects_are_listed_if_asked_for() -> None:
    """From Python as from the command line: the same objects as of the float32 model."""
    heads = HeadOptions(detections=True, score_threshold=0.4)
    graph = detectors.dfl()
    listed = fitzroy.quantize(graph, [{"image": image(n)} for n in range(4)], heads=heads)
    assert listed.type(listed.outputs[0]).dtype is DType.FLOAT32
    exact = with_detections(graph, heads)
    pairs = [
        (
            fitzroy.evaluate(listed, {"image": stored_input(image(n), listed.type("image"))}),
            fitzroy.evaluate(exact, {"image": image(n)}),
        )
        for n in range(4)
    ]
    found, wanted = ([given[n]["detections"] for given in pairs] for n in range(2))
    assert sum(int((rows[:, 4] > 0).sum()) for rows in wanted) > 8
    assert mean_average_precision(found, wanted) > 0.8
