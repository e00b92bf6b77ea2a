"""Detectors that TensorFlow exports: TFLite's post-processing in a list, and boxes with y first."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import listed as listed_with_defaults
from tests.compiler.test_heads import the_node
from tests.support import need_litert

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph, Node, parse_graph, print_graph
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.detections import DetectionsAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes, StridedSliceAttributes
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import (
    ListDetections,
    encoded,
    kept_float,
    limits,
    with_detections,
)
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.formats import tflite

Floats = npt.NDArray[np.float32]

HEIGHT, WIDTH, CLASSES, BOXES = 16, 12, 5, 64
SIZES = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT], np.float32)
PLAIN = DetectionAttributes(7, 1, CLASSES, 0.25, 0.5, 1.0, 1.0, 1.0, 1.0, False, 3)
STORED = TensorType((), DType.INT8, Quantization.per_tensor(1 / 128))

CASES = {
    "best class": PLAIN,
    "each class": replace(PLAIN, use_regular_nms=True),
    "several classes of an object": replace(PLAIN, max_classes_per_detection=2),
    "divisors": replace(PLAIN, y_scale=10.0, x_scale=9.0, h_scale=5.0, w_scale=4.0),
    "background": replace(PLAIN, num_classes=CLASSES - 1),
}


def ending(a: DetectionAttributes, *, stored: bool = False, computed: bool = False) -> Graph:
    """A model whose image holds encoded boxes and scores, and which ends in TFLite's operator."""
    graph = Graph("ending")
    real = TensorType((1, HEIGHT, WIDTH, 3), DType.FLOAT32)
    name = graph.add_input("image", STORED.with_shape(real.shape) if stored else real)
    type, shape = graph.type(name), (1, BOXES, 4 + CLASSES)
    name = graph.emit("reshape", [name], type.with_shape(shape), ReshapeAttributes(shape))
    parts = []
    for begin, size in ((0, 4), (4, CLASSES)):
        extent = (1, BOXES, size)
        cut = StridedSliceAttributes((0, 0, begin), extent, (1, 1, 1))
        part = graph.emit("strided_slice", [name], type.with_shape(extent), cut)
        made = TensorType(extent, DType.FLOAT32)
        parts.append(graph.emit("dequantize", [part], made) if stored else part)
    anchors = np.random.default_rng(5).uniform(0.1, 0.6, (BOXES, 4)).astype(np.float32)
    anchor = graph.add_constant("anchors", anchors)
    if computed:
        # Anchors that depend on the image in a way that changes nothing.
        row = (BOXES, 4)
        flat = graph.emit("reshape", [parts[0]], TensorType(row, DType.FLOAT32),
                          ReshapeAttributes(row))  # fmt: skip
        low = graph.emit("minimum", [flat, anchor], TensorType(row, DType.FLOAT32), NO_ATTRIBUTES)
        anchor = graph.emit("maximum", [low, anchor], TensorType(row, DType.FLOAT32), NO_ATTRIBUTES)
    rows = a.max_detections * a.max_classes_per_detection
    names = ("where", "what", "sure", "number")
    node = Node("found", "detection_post_process", (*parts, anchor), names, a)
    shapes: tuple[tuple[int, ...], ...] = ((1, rows, 4), (1, rows), (1, rows), (1,))
    graph.add_node(node, [TensorType(shape, DType.FLOAT32) for shape in shapes])
    graph.outputs = list(names)
    return graph


def picture(seed: int, *, different: bool) -> Floats:
    """Boxes and scores of 128ths as an image; scores are often equal unless they are to differ."""
    random = np.random.default_rng(seed)
    rows = np.empty((BOXES, 4 + CLASSES), np.float32)
    rows[:, :4] = random.integers(-40, 40, (BOXES, 4)) / 128
    rows[:, 4:] = random.choice([8, 16, 32, 33, 64, 120], (BOXES, CLASSES)) / 128
    if different:
        scores = random.permutation(BOXES * CLASSES).reshape(BOXES, CLASSES)
        rows[:, 4:] = scores / (BOXES * CLASSES)
    return rows.reshape(1, HEIGHT, WIDTH, 3)


def by_litert(graph: Graph, given: Array) -> Floats:
    """Objects [n,6] of a model that ends in TFLite's operator, in the order of their scores."""
    need_litert()
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=tflite.write_model(export_model(graph)))
    interpreter.allocate_tensors()
    (port,) = interpreter.get_input_details()
    interpreter.set_tensor(port["index"], given)
    interpreter.invoke()
    results = [
        interpreter.get_tensor(port["index"])[0] for port in interpreter.get_output_details()
    ]
    where, what, sure, number = results
    (node,) = (node for node in graph.nodes() if node.op == "detection_post_process")
    a = node.attributes
    assert isinstance(a, DetectionAttributes)
    count = int(number) * a.max_classes_per_detection
    rows = np.column_stack([where[:, [1, 0, 3, 2]] * SIZES, sure, what])[:count]
    found: Floats = rows[np.argsort(-rows[:, 4], kind="stable")]
    return found


def listed(graph: Graph, options: HeadOptions) -> Graph:
    return run_passes(graph, (ListDetections(**vars(options)),))


def rows_of(graph: Graph, given: Array) -> Floats:
    found: Floats = fitzroy.evaluate(graph, {"image": given})[graph.outputs[0]]
    return found[found[:, 4] > 0]


# --- as LiteRT lists them ------------------------------------------------------------------------


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_objects_are_those_of_litert(case: str, computed: bool) -> None:
    """Equal scores, scores at the threshold, and more objects than there are rows."""
    graph = ending(CASES[case], computed=computed)
    result = listed(graph, HeadOptions(True))
    full = 0
    for seed in range(6):
        # The kernel leaves the order of equal scores of one box open.
        given = picture(seed, different=CASES[case].max_classes_per_detection > 1)
        wanted, found = by_litert(graph, given), rows_of(result, given)
        np.testing.assert_array_equal(found[:, 4:], wanted[:, 4:])
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        full += len(found) == result.type(result.outputs[0]).shape[0]
    assert full > 1


@pytest.mark.parametrize("case", CASES)
def test_objects_of_quantized_models_are_those_of_litert(case: str) -> None:
    graph = ending(CASES[case], stored=True)
    result = listed(graph, HeadOptions(True))
    for seed in range(6):
        several = CASES[case].max_classes_per_detection > 1
        stored = np.rint(picture(seed, different=False) * 128).astype(np.int8)
        if several:
            scores = np.random.default_rng(seed).permuted(
                np.tile(np.arange(CLASSES), (BOXES, 1)) * 20, axis=1
            )
            stored.reshape(BOXES, -1)[:, 4:] = scores
        np.testing.assert_array_equal(rows_of(result, stored), by_litert(graph, stored))


def test_nothing_is_left_to_the_chip_but_what_the_operator_reads() -> None:
    """It has found the best classes itself."""
    for case, graph in ((case, ending(a, stored=True)) for case, a in CASES.items()):
        result = listed(graph, HeadOptions(True))
        assert print_graph(with_best_classes(result)) == print_graph(result), case


def test_bounds_of_options_are_those_of_the_kernel() -> None:
    options = HeadOptions(True, score_threshold=0.5, overlap=0.2, most=4)
    for case in ("best class", "each class"):
        bounded = replace(CASES[case], nms_score_threshold=0.5, nms_iou_threshold=0.2,
                          max_detections=4)  # fmt: skip
        result = listed(ending(CASES[case]), options)
        given = picture(3, different=False)
        found = rows_of(result, given)
        assert len(found) == 4
        np.testing.assert_allclose(found, by_litert(ending(bounded), given), rtol=1e-5)


def test_the_form_of_post_processing_keeps_the_operator() -> None:
    graph = ending(CASES["each class"])
    result = listed(graph, HeadOptions(True, HeadForm.SSD, score_threshold=0.5))
    assert result.outputs == graph.outputs
    assert [node.op for node in result.nodes()] == [node.op for node in graph.nodes()]
    a = result.nodes()[-1].attributes
    assert isinstance(a, DetectionAttributes)
    assert a == replace(CASES["each class"], nms_score_threshold=0.5)


def test_as_many_rows_as_the_model_gives() -> None:
    for case, rows in (("best class", 7), ("several classes of an object", 14)):
        result = listed(ending(CASES[case]), HeadOptions(True))
        assert result.type(result.outputs[0]).shape == (rows, 6)


def test_quantized_scores_have_a_scale_for_what_matters() -> None:
    """What the operator reads is quantized as it is for other forms."""
    m = detectors.Maker()
    boxes, scores = m.rows([4]), m.sigmoid(m.rows([CLASSES]))
    anchors = m.constant(np.full((detectors.ROWS, 4), 0.3))
    node = Node("found", "detection_post_process", (boxes, scores, anchors),
                ("where", "what", "sure", "number"),
                replace(PLAIN, use_regular_nms=True))  # fmt: skip
    shapes: tuple[tuple[int, ...], ...] = ((1, 7, 4), (1, 7), (1, 7), (1,))
    m.graph.add_node(node, [TensorType(shape, DType.FLOAT32) for shape in shapes])
    options = HeadOptions(True)
    graph = with_detections(m.done(*node.outputs), options)
    assert encoded(graph).outputs == [boxes]
    pictures = [
        {"image": np.random.default_rng(seed).random((1, 64, 64, 3), np.float32)}
        for seed in range(2)
    ]
    chosen = QuantizeOptions(keep_float=kept_float(graph))
    result = quantize_model(graph, pictures, chosen, limits=limits(graph, options)).graph
    chooser = result.node("found")
    sure = result.producer(str(chooser.inputs[1]))
    assert sure is not None
    assert sure.op == "dequantize"
    before = result.producer(str(sure.inputs[0]))
    assert before is not None
    assert before.op == "sigmoid"
    quantization = result.type(str(before.inputs[0])).quantization
    assert quantization is not None
    least = quantization.scale[0] * (-128 - quantization.zero_point[0])
    assert least > math.log(0.25 / 0.75) - 1.1
    assert the_node(result).inputs[0] == "where"


def test_a_threshold_below_all_numbers() -> None:
    """EfficientDet-Lite of AutoML says minus infinity."""
    a = replace(PLAIN, nms_score_threshold=-math.inf)
    graph = import_model(export_model(ending(a)))
    (node,) = (node for node in graph.nodes() if node.op == "detection_post_process")
    assert node.attributes == a
    assert print_graph(parse_graph(print_graph(graph), attributes_of)) == print_graph(graph)
    given = picture(1, different=False)
    assert len(rows_of(listed(graph, HeadOptions(True)), given)) == 7


# --- boxes that are decoded, with y before x -----------------------------------------------------


def decoded(*, y_first: bool, shares: bool) -> Graph:
    """Boxes [1,n,4] as corners in parts of the image or in pixels, and scores [1,n,c]."""
    m = detectors.Maker()
    boxes, scores = m.rows([4]), m.sigmoid(m.rows([detectors.CLASSES]))
    points, strides = detectors.centres()
    sizes = 2 * strides * np.array([[1.0, 1.5]], np.float32)
    points = points * strides
    if y_first:
        points, sizes = points[:, ::-1], sizes[:, ::-1]
    middle = m.binary("add", m.binary("mul", m.slice(boxes, 2, 0, 2), sizes), points)
    extent = m.emit("exp", [m.slice(boxes, 2, 2, 2)], (1, detectors.ROWS, 2))
    half = m.binary("mul", extent, sizes / 2)
    corners = m.join([m.binary("sub", middle, half), m.binary("add", middle, half)], 2)
    if shares:
        corners = m.binary("mul", corners, 1 / detectors.SIDE)
    return m.done(corners, scores)


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("y_first", [False, True])
def test_which_axis_is_first(y_first: bool, shares: bool) -> None:
    """Boxes of cells row by row say it; scores of boxes apart from them have no objectness."""
    graph = decoded(y_first=y_first, shares=shares)
    result = listed_with_defaults(graph)
    a = the_node(result).attributes
    assert isinstance(a, DetectionsAttributes)
    assert a.y_first is y_first
    given = np.random.default_rng(1).random((1, 64, 64, 3), np.float32)
    boxes, scores = (array[0] for array in fitzroy.evaluate(graph, {"image": given}).values())
    objects = rows_of(result, given)
    assert len(objects) > 2
    for row in objects:
        (number,) = np.flatnonzero(np.isclose(scores.max(axis=1), row[4], rtol=1e-5))
        assert scores[number].argmax() == row[5]
        corners = boxes[number] * (detectors.SIDE if shares else 1)
        wanted = corners[[1, 0, 3, 2]] if y_first else corners
        np.testing.assert_allclose(row[:4], wanted, rtol=1e-3, atol=1e-2)


def test_decoders_of_quantized_models_with_real_outputs() -> None:
    """Their operators tell the coding, and boxes then are nearer to those of real numbers."""
    graph = decoded(y_first=True, shares=True)
    pictures = [
        {"image": np.random.default_rng(seed).random((1, 64, 64, 3), np.float32)}
        for seed in range(4)
    ]
    options = QuantizeOptions()
    stored = quantize_model(graph, pictures, options).graph
    names = []
    for name in stored.outputs:
        type = TensorType(stored.type(name).shape, DType.FLOAT32)
        names.append(stored.emit("dequantize", [name], type))
    stored.outputs = names
    result = listed_with_defaults(stored)
    a = the_node(result).attributes
    assert isinstance(a, DetectionsAttributes)
    assert a.y_first
    assert a.coding is BoxCoding.EXPONENTIAL
    given = np.rint(pictures[0]["image"] * 255 - 128).astype(np.int8)
    boxes, scores = (array[0] for array in fitzroy.evaluate(stored, {"image": given}).values())
    exact, _ = (array[0] for array in fitzroy.evaluate(graph, pictures[0]).values())
    best = rows_of(result, given)[0]
    number = int(np.argmax(scores.max(axis=1)))
    wanted, coarse = (array[number][[1, 0, 3, 2]] * detectors.SIDE for array in (exact, boxes))
    assert np.abs(best[:4] - wanted).max() < np.abs(coarse - wanted).max()


def test_integers_are_no_boxes() -> None:
    """A map of classes is refused as no detector, whatever its size."""
    graph = Graph("segmentation")
    image = graph.add_input("image", TensorType((1, 32, 32, 3), DType.FLOAT32))
    shape = (1, 32, 96)
    rows = graph.emit("reshape", [image], TensorType(shape, DType.FLOAT32),
                      ReshapeAttributes(shape))  # fmt: skip
    numbers = graph.emit("cast", [rows], TensorType(shape, DType.INT64))
    low = graph.add_constant("zero", np.array(0, np.int64))
    graph.outputs = [
        graph.emit("maximum", [numbers, low], TensorType(shape, DType.INT64), NO_ATTRIBUTES)
    ]
    with pytest.raises(UnsupportedError, match="no head of a detector"):
        listed_with_defaults(graph)


@pytest.mark.parametrize("form", HeadForm)
def test_anchors_beside_those_of_the_model_are_refused(form: HeadForm) -> None:
    with pytest.raises(UnsupportedError, match="do not contain theirs, and 'found' has some"):
        with_detections(ending(PLAIN), HeadOptions(detections=True, form=form, anchors="blaze"))
