"""Detectors that were quantized before, and the order of axes that TFLite exports have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import Floats, image, listed, overlap, rows_of, the_node

import fitzroy
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.patching import patch_weights
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import CENTRE, UNIT, BoxCoding
from fitzroy.compiler.ops.detections import (
    ANCHORS,
    BOXES,
    OBJECTNESS,
    PROTOTYPES,
    SCORES,
    DetectionsAttributes,
)
from fitzroy.compiler.ops.elementwise import reals
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.passes.heads.anchors import Grid
from fitzroy.compiler.passes.heads.class_maximum import listing, with_best_classes
from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions
from fitzroy.compiler.passes.heads.straightening import straightened
from fitzroy.compiler.quantization.options import Border, Mixed, QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice
from fitzroy.formats import tflite

SIZE = (detectors.SIDE, detectors.SIDE)


def quantized(graph: Graph) -> Graph:
    """A detector whose decoder is quantized, too; what it gives is joined as real numbers."""
    samples = [{"image": image(seed)} for seed in range(4)]
    result = quantize_model(graph, samples, QuantizeOptions(mixed_outputs=Mixed.SPLIT)).graph
    if len(result.outputs) > 1:
        (whole,) = (graph.type(name) for name in graph.outputs)
        parts = [
            result.emit("dequantize", [name], TensorType(result.type(name).shape, DType.FLOAT32))
            for name in result.outputs
        ]
        axis = 1 if result.type(parts[0]).shape[2] == detectors.ROWS else 2
        joined = result.emit("concatenation", parts, whole, ConcatenationAttributes(axis))
        result.outputs = [joined]
    return result


def stored(seed: int) -> Array:
    """A picture as quantized detectors read it."""
    return np.rint(image(seed) * 255 - 128).astype(np.int8)


@pytest.mark.parametrize("bias", [False, True])
def test_distributions_are_not_moved(bias: bool) -> None:
    """Layers give boxes one after another; so expectations read them, and lists want them."""
    graph = detectors.numbers_first()
    if not bias:
        (softmax,) = (node for node in graph.nodes() if node.op == "softmax")
        (product,) = graph.consumers(softmax.outputs[0])
        graph.update(replace(product, inputs=(*product.inputs[:2], None)))
    result = listed(graph)
    assert "transpose" not in {node.op for node in result.nodes()}
    flat = result.producer(str(the_node(result).inputs[BOXES]))
    assert flat is not None
    mean = result.producer(str(flat.inputs[0]))
    assert mean is not None
    assert mean.op == "conv_2d"
    assert result.type(mean.outputs[0]).shape == (1, detectors.ROWS, 4, 1)


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("keypoints", [False, True])
def test_codings_of_quantized_models(keypoints: bool, shares: bool) -> None:
    """Operators tell the coding, whatever their scales; anchors are those of real numbers."""
    graph = detectors.numbers_first(keypoints=keypoints, shares=shares)
    exact, result = listed(graph.copy()), listed(quantized(graph))
    wanted, found = the_node(exact), the_node(result)
    first, second = wanted.attributes, found.attributes
    assert isinstance(first, DetectionsAttributes)
    assert isinstance(second, DetectionsAttributes)
    assert second.coding is BoxCoding.DISTANCES
    assert second.point_scale == first.point_scale
    assert second.point_offset == first.point_offset
    ours, theirs = _anchors(exact), _anchors(result)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


def _anchors(graph: Graph) -> Floats:
    data = graph.value(str(the_node(graph).inputs[ANCHORS])).data
    assert data is not None
    return data.astype(np.float32)


@pytest.mark.parametrize("shares", [False, True])
def test_objects_of_quantized_models(shares: bool) -> None:
    """They are nearer to those of real numbers than what the model decodes with 8 bits."""
    graph = detectors.numbers_first(shares=shares)
    small = quantized(graph)
    result = with_best_classes(listed(small.copy()))
    losses, coarse = [], []
    for seed in range(4):
        rows = rows_of(graph, image(seed))
        (name,) = small.outputs
        given = reals(fitzroy.evaluate(small, {"image": stored(seed)})[name], small.type(name))
        given = given[0].T
        whole = detectors.SIDE if shares else 1
        boxes, rough = (_corners(x[:, :4] * whole) for x in (rows, given))
        for item in fitzroy.evaluate(result, {"image": stored(seed)})["detections"]:
            if item[4] > 0:
                number = max(range(len(boxes)), key=lambda i: overlap(boxes[i], item))
                losses.append(1 - overlap(boxes[number], item))
                coarse.append(1 - overlap(boxes[number], rough[number]))
    assert len(losses) > 8
    assert np.mean(losses) < np.mean(coarse)


def _corners(boxes: Floats) -> Floats:
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)


@pytest.mark.parametrize("shares", [False, True])
def test_post_processing_of_quantized_models(shares: bool) -> None:
    """Standard operators decode real numbers; the best object is that of the list."""
    small = quantized(detectors.numbers_first(shares=shares))
    rows = fitzroy.evaluate(listed(small.copy()), {"image": stored(1)})["detections"]
    result = listed(small, HeadForm.SSD)
    boxes, classes, scores, _ = fitzroy.evaluate(result, {"image": stored(1)}).values()
    found = boxes[0, 0, [1, 0, 3, 2]] * detectors.SIDE
    np.testing.assert_allclose(found, rows[0, :4], rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(scores[0, 0], rows[0, 4], rtol=1e-4)
    assert classes[0, 0] == rows[0, 5]


@pytest.mark.parametrize("small", [False, True])
def test_form_before_decoding(small: bool) -> None:
    """Distributions whose numbers come before boxes are those of boxes one after another."""
    graph = detectors.numbers_first()
    if small:
        graph = quantized(graph)
    picture = stored(1) if small else image(1)
    result = listed(graph.copy(), HeadForm.YOLO)
    assert "transpose" not in {node.op for node in result.nodes()}
    softmax = next(node for node in graph.nodes() if node.op == "softmax")
    exact = graph.cut([str(softmax.inputs[0])])
    (bins,) = fitzroy.evaluate(exact, {"image": picture}).values()
    rows, logits = fitzroy.evaluate(result, {"image": picture}).values()
    np.testing.assert_array_equal(rows, bins.transpose(0, 2, 1, 3).reshape(rows.shape))
    assert logits.shape == (1, detectors.ROWS, detectors.CLASSES)


def test_keypoints_before_boxes() -> None:
    """Keypoints whose numbers come before boxes are recognised as those after them are."""
    graph = detectors.numbers_first(keypoints=True)
    rows = rows_of(graph, image())
    found = fitzroy.evaluate(listed(graph), {"image": image()})
    for row, points in zip(found["detections"], found["keypoints"], strict=True):
        if row[4] > 0:
            number = int(np.abs(rows[:, 4] - row[4]).argmin())
            wanted = rows[number, 5:].reshape(-1, 3)
            np.testing.assert_allclose(points, wanted, rtol=1e-4, atol=1e-4)


def test_units_of_boxes_that_are_read_as_decoded() -> None:
    """The last step of a decoder says nothing of them."""
    m = detectors.Maker()
    boxes, scores = m.rows([4]), m.sigmoid(m.rows([detectors.CLASSES]))
    decoded = detectors.from_distances(m, boxes)
    squares = m.binary("mul", m.binary("mul", decoded, decoded), 1 / detectors.SIDE)
    graph = m.done(m.join([squares, scores], 2))
    a = the_node(listed(graph)).attributes
    assert isinstance(a, DetectionsAttributes)
    assert a.coding in (BoxCoding.CENTRES, BoxCoding.CORNERS)
    assert (a.x_scale, a.y_scale) == (1.0, 1.0)


# --- anchors -------------------------------------------------------------------------------------

GRIDS = [Grid(8, 8, 1), Grid(4, 4, 1)]


def anchors(offset: float = 0.5) -> Floats:
    """Anchors [n,6] of two levels, without sizes."""
    points, strides = detectors.centres()
    result = np.zeros((len(points), 6), np.float32)
    result[:, CENTRE] = (points - 0.5 + offset) * strides
    result[:, UNIT] = strides
    return result


@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_anchors_go_back_to_their_cells(offset: float) -> None:
    exact = anchors(offset)
    rounded = np.rint(exact / 0.7).astype(np.float32) * np.float32(0.7)
    assert np.abs(rounded - exact).max() > 0.3
    np.testing.assert_allclose(straightened(rounded, GRIDS, SIZE), exact, atol=1e-4)


def test_other_anchors_stay() -> None:
    for others in (anchors(0.25), anchors()[::-1].copy(), anchors() * np.float32(1.2)):
        np.testing.assert_array_equal(straightened(others, GRIDS, SIZE), others)
    moved = anchors() + np.float32(0.1)
    for grids in ([], GRIDS[:1]):
        np.testing.assert_array_equal(straightened(moved, grids, SIZE), moved)


@pytest.mark.parametrize("type", [Border.INT8, Border.UINT8])
def test_sigmoids_of_quantized_models_may_be_several(type: Border) -> None:
    """Outputs may be converted to another type of 8 bits once rows are joined."""
    graph = detectors.anchored(cells_first=True, apart=True)
    samples = [{"image": image(seed)} for seed in range(4)]
    options = QuantizeOptions(output_type=type, mixed_outputs=Mixed.KEEP)
    result = listed(quantize_model(graph, samples, options).graph)
    found = the_node(result).attributes
    assert isinstance(found, DetectionsAttributes)
    assert found.coding is BoxCoding.SQUARES
    assert "sigmoid" in {node.op for node in result.nodes()}


def test_real_numbers_that_a_file_makes_of_stored_ones_are_left_out() -> None:
    """Prototypes are an output of their own, and large: the list converts what it needs of them."""
    samples = [{"image": image(seed)} for seed in range(4)]
    options = QuantizeOptions(output_type=Border.FLOAT, mixed_outputs=Mixed.KEEP)
    graph = quantize_model(detectors.masks(), samples, options).graph
    assert graph.producer(graph.outputs[-1]).op == "dequantize"  # type: ignore[union-attr]
    result = listed(graph)
    prototypes = str(the_node(result).inputs[PROTOTYPES])
    assert result.type(prototypes).is_quantized
    assert "dequantize" not in {node.op for node in result.nodes()}
    whole = result.copy()
    node, real = the_node(whole), result.type(prototypes)
    real = TensorType(real.shape, DType.FLOAT32)
    inputs = (*node.inputs[:PROTOTYPES], whole.emit("dequantize", [prototypes], real))
    whole.update(replace(node, inputs=inputs))
    first, second = (fitzroy.evaluate(each, {"image": stored(7)}) for each in (result, whole))
    assert first["masks"].any()
    np.testing.assert_array_equal(first["masks"], second["masks"])


@pytest.mark.parametrize("family", ["exponential", "sigmoid centres"])
def test_objectness_of_quantized_models(family: str) -> None:
    """Objectness and classes that a file keeps in one tensor, converted to float32 as a whole."""
    graph = detectors.FAMILIES[family]()
    exact, result = listed(graph.copy()), listed(quantized(graph))
    wanted, found = the_node(exact), the_node(result)
    a = found.attributes
    assert isinstance(a, DetectionsAttributes)
    assert a.coding is BoxCoding.EXPONENTIAL
    shapes = [[g.type(str(n.inputs[i])).shape[2] for i in (BOXES, SCORES, OBJECTNESS)]
              for g, n in ((exact, wanted), (result, found))]  # fmt: skip
    assert shapes[0] == shapes[1] == [4, detectors.CLASSES, 1]
    ours, theirs = _anchors(exact), _anchors(result)
    # Units and extents of a quantized decoder are those of 8 bits.
    np.testing.assert_allclose(ours[:, CENTRE], theirs[:, CENTRE], atol=0.05)
    first = fitzroy.evaluate(exact, {"image": image(7)})["detections"]
    second = fitzroy.evaluate(result, {"image": stored(7)})["detections"]
    near = [row for row in second if row[4] > 0 and overlap(row, first[0]) > 0.7]
    assert first[0, 4] > 0
    assert any(row[5] == first[0, 5] and abs(row[4] - first[0, 4]) < 0.1 for row in near)


@pytest.mark.long
@pytest.mark.parametrize("form", [HeadForm.OBJECTS, HeadForm.YOLO])
def test_the_source_of_a_compiled_list_has_its_values(tmp_path: Path, form: HeadForm) -> None:
    """It is the detector that was compiled, whose head is recognised once more."""
    graph = quantized(detectors.numbers_first())
    path, retrained = tmp_path / "detector.tflite", tmp_path / "retrained.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    compiled = tmp_path / "detector_edgetpu.tflite"
    source = Source.read(path)
    passes = listing(HeadOptions(detections=True, form=form))
    compiled.write_bytes(compile_edgetpu(source.passed(passes)).data)
    assert not source.graph.values.keys() >= source.passed(passes).graph.values.keys()
    with (
        Interpreter(compiled.read_bytes(), device="sim:direct") as chip,
        Interpreter(compiled.read_bytes(), device=TwinDevice(load(path))) as twin,
    ):
        first, second = (one.run({"image": stored(9)}) for one in (chip, twin))
    assert {name: array.tobytes() for name, array in first.items()} == {
        name: array.tobytes() for name, array in second.items()
    }
    (layer, *_) = (node for node in graph.nodes() if node.op == "conv_2d")
    weights = graph.value(str(layer.inputs[1]))
    assert weights.data is not None
    graph.set_value(replace(weights, data=np.flip(weights.data, 0).copy()))
    retrained.write_bytes(tflite.write_model(export_model(graph)))
    patched, _ = patch_weights(compiled, retrained, original=path)
    again = compile_edgetpu(Source.read(retrained).passed(passes))
    assert patched == again.data
