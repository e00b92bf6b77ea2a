"""Heads of detectors: recognised by what their decoders do, and listed by one operator."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors

import fitzroy
from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph, Node, parse_graph, print_graph
from fitzroy.compiler.ops.arithmetic import CumsumAttributes
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.detections import DetectionsAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.opaque import OpaqueAttributes
from fitzroy.compiler.ops.shape import GatherAttributes
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.heads.class_maximum import ClassMaximum
from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import (
    ListDetections,
    kept_float,
    limits,
    with_detections,
)
from fitzroy.compiler.quantization.comparison import stored_input
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic

Floats = npt.NDArray[np.float32]

SCORE, OVERLAP, MOST = 0.3, 0.45, 20


def image(seed: int = 0) -> Floats:
    side = detectors.SIDE
    return np.random.default_rng(seed).random((1, side, side, 3), np.float32)


def listed(graph: Graph, form: HeadForm = HeadForm.OBJECTS) -> Graph:
    options = ListDetections(True, form, SCORE, OVERLAP, MOST)
    return run_passes(graph, (options,))


def the_node(graph: Graph) -> Node:
    (node,) = (node for node in graph.nodes() if node.op == "detections")
    return node


def rows_of(graph: Graph, picture: Floats) -> Floats:
    """What the model itself gives, as rows [n,c]."""
    found: Floats = fitzroy.evaluate(graph, {"image": picture})[graph.outputs[0]][0]
    return found if found.shape[0] > found.shape[1] else found.T


def overlap(a: Floats, b: Floats) -> float:
    sides = np.minimum(a[2:4], b[2:4]) - np.maximum(a[:2], b[:2])
    common = float(np.maximum(sides, 0).prod())
    return common / (float((a[2:4] - a[:2]).prod() + (b[2:4] - b[:2]).prod()) - common)


def expected(rows: Floats, classes: int, objectness: bool) -> list[tuple[int, Floats]]:
    """Objects of decoded rows, by hand: their numbers, and box, score and class of each."""
    found = []
    for number, row in enumerate(rows):
        scores = row[4 + objectness : 4 + objectness + classes]
        score = scores.max() * (row[4] if objectness else 1)
        if score > SCORE:
            half = row[2:4] / 2
            corners = [*(row[:2] - half), *(row[:2] + half)]
            values = [*corners, score, scores.argmax()]
            found.append((number, np.array(values, np.float32)))
    found.sort(key=lambda item: -item[1][4])
    kept: list[tuple[int, Floats]] = []
    for number, item in found:
        if all(other[5] != item[5] or overlap(other, item) <= OVERLAP for _, other in kept):
            kept.append((number, item))
    return kept[:MOST]


@pytest.mark.parametrize("family", detectors.FAMILIES)
def test_families(family: str) -> None:
    graph = detectors.FAMILIES[family]()
    result = listed(graph)
    found = fitzroy.evaluate(result, {"image": image()})
    objectness = family in ("anchored", "exponential", "sigmoid centres")
    classes = 1 if family == "pose" else detectors.CLASSES
    wanted = expected(rows_of(graph, image()), classes, objectness)
    assert len(wanted) > 2
    rows = found["detections"]
    assert rows.shape == (MOST, 6)
    assert not rows[len(wanted) :].any()
    for (_, item), row in zip(wanted, rows, strict=False):
        np.testing.assert_allclose(row, item, rtol=1e-4, atol=1e-4)


def test_a_choice_of_the_model_is_left_out() -> None:
    """What the model chooses from is listed, each box by its best class, and none twice."""
    graph = detectors.chosen()
    result = listed(graph)
    assert not {"top_k", "gather"} & {node.op for node in result.nodes()}
    rows = fitzroy.evaluate(result, {"image": image()})["detections"]
    wanted = fitzroy.evaluate(graph, {"image": image()})[graph.outputs[0]][0]
    sure = [row for row in wanted if row[4] > SCORE]
    assert 2 < len(sure) <= np.count_nonzero(rows[:, 4])
    for row, item in zip(rows, sure, strict=False):
        np.testing.assert_allclose(row[:5], item[:5], rtol=1e-4, atol=1e-4)


def test_an_unknown_choice_of_the_model_is_told() -> None:
    """The place of a score among those of all boxes and classes is not the number of its box."""
    m = detectors.Maker()
    boxes = detectors.from_distances(m, m.rows([4]))
    scores = m.sigmoid(m.rows([detectors.CLASSES]))
    best, places = m.top(m.reshape(scores, 1, detectors.ROWS * detectors.CLASSES), 16)
    rows = m.reshape(places, 16)
    near = m.emit(
        "gather", [m.reshape(boxes, detectors.ROWS, 4), rows], (16, 4), GatherAttributes(0)
    )
    kind = m.reshape(m.emit("cast", [places], (1, 16)), 1, 16, 1)
    graph = m.done(m.join([m.reshape(near, 1, 16, 4), m.reshape(best, 1, 16, 1), kind], 2))
    with pytest.raises(UnsupportedError, match="chooses the best boxes itself, in no known way"):
        listed(graph)


@pytest.mark.parametrize("ranked", [False, True])
def test_queries(ranked: bool) -> None:
    """Boxes of queries are in parts of the image, none is left out for another, and each is once.

    The host computes them in float32 of what layers give.
    """
    graph = detectors.queries(ranked=ranked)
    result = listed(graph)
    assert "top_k" not in {node.op for node in result.nodes()}
    rows = fitzroy.evaluate(result, {"image": image()})["detections"]
    (given,) = fitzroy.evaluate(detectors.queries(), {"image": image()}).values()
    best = given[0, :, 4:].max(axis=1)
    order = np.argsort(-best, kind="stable")[:MOST]
    half = given[0, order, 2:4] / 2
    wanted = np.concatenate([given[0, order, :2] - half, given[0, order, :2] + half], axis=1)
    assert best[order].min() > SCORE
    np.testing.assert_allclose(rows[:, :4], wanted * detectors.SIDE, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(rows[:, 4], best[order], rtol=1e-4)
    np.testing.assert_array_equal(rows[:, 5], given[0, order, 4:].argmax(axis=1))
    (pattern,) = kept_float(result)
    decoders = {node.op for node in result.nodes() if fnmatchcase(node.outputs[0], pattern)}
    assert decoders >= {"sigmoid", "add", "log", "div"}


def check_queries(graph: Graph, boxes: Floats, scores: Floats) -> None:
    """A detector lists boxes [n,4] of queries by their best scores [n,c]; the host decodes them."""
    result = listed(graph)
    rows = fitzroy.evaluate(result, {"image": image()})["detections"]
    best = scores.max(axis=1)
    order = np.argsort(-best, kind="stable")[:MOST]
    order = order[best[order] > SCORE]
    assert len(order) > 10
    low, high = (boxes[order, :2] + side * boxes[order, 2:] / 2 for side in (-1, 1))
    wanted = np.concatenate([low, high], axis=1) * detectors.SIDE
    np.testing.assert_allclose(rows[: len(order), :4], wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(rows[: len(order), 4], best[order], rtol=1e-4)
    np.testing.assert_array_equal(rows[: len(order), 5], scores[order].argmax(axis=1))
    assert not rows[len(order) :].any()
    (pattern,) = kept_float(result)
    decoders = {node.op for node in result.nodes() if fnmatchcase(node.outputs[0], pattern)}
    assert "sigmoid" in decoders


@pytest.mark.parametrize("form", ["logits", "softmax", "objects", "joined"])
def test_queries_whose_classes_share_a_softmax(form: str) -> None:
    """DETR and YOLOS: the last class is none of an object, and boxes refine nothing."""
    graph = detectors.transformer(form="softmax")
    scores, boxes = (fitzroy.evaluate(graph, {"image": image()})[x][0] for x in graph.outputs)
    check_queries(detectors.transformer(form=form), boxes, scores[:, : detectors.CLASSES])


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("refines", ["places", "guesses"])
def test_queries_that_refine_have_scores_of_their_own(refines: str, stacked: bool) -> None:
    """Conditional and Deformable DETR add to reference points, and have no class for no object."""
    graph = detectors.transformer(refines=refines, stacked=stacked)
    scores, boxes = (fitzroy.evaluate(graph, {"image": image()})[x][0] for x in graph.outputs)
    check_queries(graph, boxes, 1 / (1 + np.exp(-scores)))


def test_quantized_queries() -> None:
    """Boxes are off by parts of pixels, as their layers are, and scores by steps of 8 bits."""
    options = HeadOptions(True, score_threshold=SCORE, most=MOST)
    graph = with_detections(detectors.transformer(), options)
    samples = [{"image": image(seed)} for seed in range(4)]
    chosen = QuantizeOptions(keep_float=kept_float(graph))
    result = quantize_model(graph, samples, chosen, limits=limits(graph, options)).graph
    exact = fitzroy.evaluate(graph, {"image": image()})["detections"]
    given = {"image": stored_input(image(), result.type("image"))}
    found = fitzroy.evaluate(result, given)["detections"]
    for row in exact[:10]:
        near = found[found[:, 5] == row[5]]
        apart = np.abs(near[:, :4] - row[:4]).max(axis=1)
        assert apart.min() < 1
        assert abs(near[apart.argmin(), 4] - row[4]) < 0.05


def test_codings() -> None:
    """Codings are those of the families, with the anchors that decoders have."""
    wanted = {
        "dfl": BoxCoding.DISTANCES,
        "plain": BoxCoding.DISTANCES,
        "anchored": BoxCoding.SQUARES,
        "exponential": BoxCoding.EXPONENTIAL,
    }
    points, strides = detectors.centres()
    for family, coding in wanted.items():
        result = listed(detectors.FAMILIES[family]())
        node = the_node(result)
        assert isinstance(node.attributes, DetectionsAttributes)
        assert node.attributes.coding is coding
        anchors = result.value(str(node.inputs[2])).data
        assert anchors is not None
        if family == "dfl":
            np.testing.assert_allclose(anchors[:, :2], points * strides, rtol=1e-5)
            np.testing.assert_allclose(anchors[:, 2:4], np.repeat(strides, 2, 1), rtol=1e-5)


def test_an_objectness_that_is_always_one_is_left_out() -> None:
    """YOLOv6 writes a column of ones between boxes and scores."""
    m = detectors.Maker()
    boxes, logits = detectors.from_distances(m, m.rows([4])), m.rows([detectors.CLASSES])
    ones = m.constant(np.ones((1, detectors.ROWS, 1)))
    same = m.done(m.join([boxes, m.sigmoid(logits)], 2)).copy()
    result = listed(m.done(m.join([boxes, ones, m.sigmoid(logits)], 2)))
    same = listed(same)
    assert len(the_node(result).inputs) == 3
    found, wanted = (fitzroy.evaluate(g, {"image": image()})["detections"] for g in (result, same))
    assert wanted[0, 4] > 0
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True)])
def test_outputs_apart_in_any_order_of_axes(turned: tuple[bool, bool]) -> None:
    """PP-YOLOE gives boxes one after another, and the scores of one class after another."""
    m = detectors.Maker()
    boxes = detectors.from_distances(m, m.rows([4]), corners=True)
    scores = m.sigmoid(m.rows([detectors.CLASSES]))
    same = listed(m.done(boxes, scores).copy())
    outputs = [
        m.transpose(name, 0, 2, 1) if turn else name
        for name, turn in zip((boxes, scores), turned, strict=True)
    ]
    result = listed(m.done(*outputs))
    found, wanted = (fitzroy.evaluate(g, {"image": image()})["detections"] for g in (result, same))
    assert wanted[0, 4] > 0
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("cells_first", [False, True])
def test_exports_of_detectors_with_anchors(cells_first: bool, apart: bool) -> None:
    """Boxes may be counted in another order after they are decoded, and sigmoids be several."""
    other = detectors.anchored(cells_first=cells_first, apart=apart)
    graphs = [listed(graph) for graph in (detectors.anchored(), other)]
    plain, exported = (the_node(graph).attributes for graph in graphs)
    assert plain == exported
    results = [fitzroy.evaluate(graph, {"image": image()}) for graph in graphs]
    (first,), (second,) = (found.values() for found in results)
    assert (first[:, 4] > 0).sum() > 3
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-5)


def test_keypoints_are_those_of_the_model() -> None:
    graph = detectors.pose()
    found = fitzroy.evaluate(listed(graph), {"image": image()})
    rows = rows_of(graph, image())
    for place, (number, _) in enumerate(expected(rows, 1, False)):
        points = rows[number, 5:].reshape(detectors.POINTS, 3)
        np.testing.assert_allclose(found["keypoints"][place], points, rtol=1e-4, atol=1e-4)


def test_masks_are_weighted_sums_inside_of_boxes() -> None:
    graph = detectors.masks()
    found = fitzroy.evaluate(listed(graph), {"image": image()})
    every = fitzroy.evaluate(graph, {"image": image()})
    pictures = every[graph.outputs[1]][0]
    rows = rows_of(graph, image())
    kept = expected(rows, detectors.CLASSES, False)
    assert any(found["masks"][number].any() for number in range(len(kept)))
    for place, (number, item) in enumerate(kept):
        sums = np.tensordot(rows[number, 4 + detectors.CLASSES :], pictures, 1)
        left, top, right, bottom = item[:4] * pictures.shape[1] / detectors.SIDE
        for (y, x), value in np.ndenumerate(sums):
            inside = left <= x < right and top <= y < bottom
            if abs(value) > 1e-4:
                assert found["masks"][place, y, x] == (inside and value > 0)


def test_boxes_and_scores_come_from_layers_of_their_own() -> None:
    """What shares a tensor in the model has tensors, and so scales, of its own."""
    result = listed(detectors.dfl())
    node = the_node(result)
    seen, pending = set(), [node.inputs[1]]
    while pending:
        before = result.producer(str(pending.pop()))
        if before is None or before.op == "conv_2d":
            continue
        seen.add(before.op)
        for name in before.inputs:
            assert result.type(str(name)).shape[-1] == detectors.CLASSES
            pending.append(name)
    assert seen == {"reshape", "concatenation"}
    assert not [node for node in result.nodes() if node.op in ("split", "strided_slice")]


def test_no_detector_is_refused_with_reasons() -> None:
    m = detectors.Maker()
    with pytest.raises(UnsupportedError, match="no head of a detector") as error:
        listed(m.done(m.join([m.rows([4]), m.rows([4])], 2)))
    assert "is no score" in str(error.value)
    m = detectors.Maker()
    with pytest.raises(UnsupportedError, match="the model does not hold"):
        listed(m.done(m.join([m.rows([4]), m.sigmoid(m.rows([4]))], 2)))
    m = detectors.Maker()
    rotated = [detectors.from_distances(m, m.rows([4])), m.sigmoid(m.rows([4])), m.rows([1])]
    with pytest.raises(UnsupportedError, match="boxes are rotated"):
        listed(m.done(m.join(rotated, 2)))
    m = detectors.Maker()
    with pytest.raises(UnsupportedError, match="have 3 axes"):
        listed(m.done(m.layer(m.image, 8)))
    graph = Graph("vectors")
    graph.add_input("x", TensorType((1, 8), DType.FLOAT32))
    graph.outputs = ["x"]
    with pytest.raises(UnsupportedError, match="no input is an image"):
        listed(graph)


def test_a_list_of_objects_is_not_listed_again() -> None:
    with pytest.raises(UnsupportedError, match="lists objects already"):
        listed(listed(detectors.dfl()))


def test_several_images_at_once_are_refused() -> None:
    graph = Graph("pair")
    graph.add_input("image", TensorType((2, 64, 64, 3), DType.FLOAT32))
    graph.outputs = ["image"]
    with pytest.raises(UnsupportedError, match="of one image, and 'image' takes 2"):
        listed(graph)


def test_slices_of_slices_that_nothing_computes_alone() -> None:
    m = detectors.Maker()
    whole = m.emit("cumsum", [m.rows([8])], (1, detectors.ROWS, 8), CumsumAttributes(2))
    part = m.slice(m.slice(whole, 1, 0, 40), 2, 0, 6)
    with pytest.raises(UnsupportedError, match="no head of a detector"):
        listed(m.done(part))


def test_what_reads_nothing_decodes_nothing() -> None:
    m = detectors.Maker()
    made = Node("made", "opaque", (), ("made",), OpaqueAttributes("Maker"))
    m.graph.add_node(made, [TensorType((1, 20, 8), DType.FLOAT32)])
    with pytest.raises(UnsupportedError, match="fifth column"):
        listed(m.done("made"))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (HeadOptions(most=5), "add --detections"),
        (HeadOptions(True, score_threshold=1.0), "between 0 and 1"),
        (HeadOptions(True, overlap=0.0), "more than 0"),
        (HeadOptions(True, most=0), "is 1 to"),
    ],
)
def test_options_that_mean_nothing(options: HeadOptions, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        options.check()


# --- TFLite's post-processing --------------------------------------------------------------------


def ssd(background: int = 1, classes: int = detectors.CLASSES, *, regular: bool = True) -> Graph:
    """A detector that ends in TFLite's own operator."""
    m = detectors.Maker()
    boxes, scores = m.rows([4]), m.sigmoid(m.rows([classes + background]))
    points, strides = detectors.centres()
    centre = (points * strides)[:, ::-1] / detectors.SIDE
    extent = np.repeat(strides, 2, axis=1) * np.array([1.5, 1.0], np.float32) / detectors.SIDE
    anchors = m.constant(np.concatenate([centre, extent], axis=1))
    a = DetectionAttributes(MOST, 1, classes, SCORE, OVERLAP, 10.0, 10.0, 5.0, 5.0, regular, MOST)
    names = ("where", "what", "sure", "number")
    shapes: tuple[tuple[int, ...], ...] = ((1, MOST, 4), (1, MOST), (1, MOST), (1,))
    node = Node("found", "detection_post_process", (boxes, scores, anchors), names, a)
    m.graph.add_node(node, [TensorType(shape, DType.FLOAT32) for shape in shapes])
    return m.done(*names)


@pytest.mark.parametrize("regular", [False, True])
def test_post_processing_becomes_the_same_list(regular: bool) -> None:
    graph = ssd(regular=regular)
    found = fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
    given = fitzroy.evaluate(graph, {"image": image()})
    boxes = given["where"][0] * detectors.SIDE
    theirs = {
        tuple(np.round([*box[[1, 0, 3, 2]], score, kind], 2))
        for box, score, kind in zip(boxes, given["sure"][0], given["what"][0], strict=True)
        if score > 0
    }
    mine = {tuple(np.round(row, 2)) for row in found if row[4] > 0}
    assert len(mine) > 2
    assert mine == theirs


@pytest.mark.parametrize("family", ["dfl", "anchored", "exponential"])
def test_form_of_post_processing(family: str) -> None:
    """The form of TFLite's operator has the same boxes, in parts of the image."""
    graph = detectors.FAMILIES[family]()
    result = listed(graph, HeadForm.SSD)
    boxes, classes, scores, number = fitzroy.evaluate(result, {"image": image()}).values()
    rows = rows_of(graph, image())
    wanted = expected(rows, detectors.CLASSES, family != "dfl")
    assert number[0] >= len(wanted)
    best, (_, first) = boxes[0, 0], wanted[0]
    np.testing.assert_allclose(scores[0, 0], first[4], rtol=1e-4)
    assert classes[0, 0] == first[5]
    np.testing.assert_allclose(best[[1, 0, 3, 2]] * detectors.SIDE, first[:4], rtol=1e-3, atol=1e-3)


def test_form_before_decoding() -> None:
    graph = detectors.dfl()
    result = listed(graph, HeadForm.YOLO)
    shapes = [result.type(name).shape for name in result.outputs]
    assert shapes == [(1, detectors.ROWS, 64), (1, detectors.ROWS, detectors.CLASSES)]
    with pytest.raises(UnsupportedError, match="no distributions"):
        listed(detectors.anchored(), HeadForm.YOLO)


@pytest.mark.parametrize("more", ["keypoints", "masks"])
def test_a_form_of_boxes_only(more: str) -> None:
    """Boxes are those of the list, and a remark says what is left out."""
    graph = detectors.masks() if more == "masks" else detectors.numbers_first(keypoints=True)
    rows, *others = fitzroy.evaluate(listed(graph.copy()), {"image": image()}).values()
    assert others
    result = listed(graph, HeadForm.SSD)
    (remark,) = result.remarks
    assert f"the form ssd has no place for {more}" in remark.what
    boxes, classes, scores, _ = (
        array[0] for array in fitzroy.evaluate(result, {"image": image()}).values()
    )
    found = np.column_stack([boxes[:, [1, 0, 3, 2]] * detectors.SIDE, scores, classes])
    # Random distances may be less than zero.
    real = rows[(rows[:, 4] > 0) & (rows[:, :2] < rows[:, 2:4]).all(axis=1)]
    assert len(real) > 2
    assert all(np.isclose(found, row, atol=1e-2).all(axis=1).any() for row in real)


def test_distributions_beside_keypoints_before_decoding() -> None:
    graph = detectors.numbers_first(keypoints=True)
    result = listed(graph, HeadForm.YOLO)
    assert [result.type(name).shape[2] for name in result.outputs] == [64, 1]
    (remark,) = result.remarks
    assert "keypoints, which are left out" in remark.what


def test_scores_that_are_no_logits_have_no_form_before_decoding() -> None:
    """One of the classes of a softmax stands for no object, which the form has not."""
    m = detectors.Maker()
    boxes = detectors.from_distances(m, detectors.expectation(m, m.rows([64])))
    logits = m.rows([3])
    scores = m.emit("softmax", [logits], m.shape(logits), SoftmaxAttributes())
    with pytest.raises(UnsupportedError, match="its scores are no logits"):
        listed(m.done(boxes, scores), HeadForm.YOLO)


def test_queries_are_listed_once_in_the_form_of_post_processing() -> None:
    """A box is one object, whatever the scores of its other classes are."""
    objects, result = (
        run_passes(detectors.queries(), (ListDetections(True, form, 0.01, most=300),))
        for form in (HeadForm.OBJECTS, HeadForm.SSD)
    )
    rows = fitzroy.evaluate(objects, {"image": image()})["detections"]
    boxes, classes, scores, number = fitzroy.evaluate(result, {"image": image()}).values()
    count = int(number[0])
    assert count == np.count_nonzero(rows[:, 4])
    np.testing.assert_allclose(scores[0, :count], rows[:count, 4], rtol=1e-5)
    np.testing.assert_array_equal(classes[0, :count], rows[:count, 5])
    places = boxes[0, :count][:, [1, 0, 3, 2]] * detectors.SIDE
    np.testing.assert_allclose(places, rows[:count, :4], atol=1e-3)


# --- quantized -----------------------------------------------------------------------------------


def quantized(form: HeadForm) -> tuple[Graph, Graph]:
    options = ListDetections(True, form, SCORE, OVERLAP, MOST)
    graph = listed(detectors.dfl(), form)
    samples = [{"image": image(seed)} for seed in range(4)]
    chosen = QuantizeOptions(keep_float=kept_float(graph))
    result = quantize_model(graph, samples, chosen, limits=limits(graph, options))
    return graph, result.graph


def test_scores_have_a_scale_for_what_matters() -> None:
    """Logits far below the threshold take none of the 256 levels."""
    _, result = quantized(HeadForm.OBJECTS)
    node = the_node(result)
    boxes, scores = (result.type(str(name)).quantization for name in node.inputs[:2])
    assert boxes is not None
    assert scores is not None
    least = scores.scale[0] * (-128 - scores.zero_point[0])
    threshold = float(np.log(SCORE / (1 - SCORE)))
    assert threshold - 1.1 < least < threshold
    assert boxes.scale != scores.scale
    assert not [node for node in result.nodes() if node.op == "dequantize"]


@pytest.mark.parametrize("form", HeadForm)
def test_quantized_finds_what_float_finds(form: HeadForm) -> None:
    graph, result = quantized(form)
    picture = image(1)
    stored = np.rint(picture * 255 - 128).astype(np.int8)
    exact = fitzroy.evaluate(graph, {"image": picture})
    found = fitzroy.evaluate(result, {"image": stored})
    if form is HeadForm.OBJECTS:
        a, b = exact["detections"], found["detections"]
        assert abs(np.count_nonzero(a[:, 4]) - np.count_nonzero(b[:, 4])) <= 2
        assert overlap(a[0], b[0]) > 0.8
        return
    names = graph.outputs if form is HeadForm.SSD else []
    for name in names[:1]:
        np.testing.assert_allclose(exact[name][0, 0], found[name][0, 0], atol=0.1)
    if form is HeadForm.YOLO:
        types = [result.type(name) for name in result.outputs]
        assert {type.dtype for type in types} == {DType.INT8}
        assert types[0].quantization != types[1].quantization


def test_decoding_on_the_host_stays_float() -> None:
    _, result = quantized(HeadForm.SSD)
    kinds = {node.op for node in result.nodes() if node.name.startswith("decoding/")}
    assert {"log", "add", "sub", "mul", "maximum"} <= kinds
    for node in result.nodes():
        if node.op == "log":
            assert result.type(node.outputs[0]).dtype is DType.FLOAT32


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["dfl", "pose", "masks"])
def test_operator_survives_files(family: str) -> None:
    graph = listed(detectors.FAMILIES[family]())
    again = import_model(tflite.read_model(tflite.write_model(export_model(graph))))
    assert the_node(again).attributes == the_node(graph).attributes
    text = parse_graph(print_graph(graph), attributes_of)
    assert the_node(text).attributes == the_node(graph).attributes
    first = fitzroy.evaluate(graph, {"image": image()})
    for other in (again, text):
        second = fitzroy.evaluate(other, {"image": image()})
        for a, b in zip(graph.outputs, other.outputs, strict=True):
            np.testing.assert_array_equal(first[a], second[b])


def test_options_of_a_file_are_judged() -> None:
    graph = listed(detectors.plain())
    model = export_model(graph)
    main = (model.subgraphs or [])[0]
    operator = (main.operators or [])[-1]
    assert operator.custom_options is not None
    raw = operator.custom_options.tobytes().replace(b"distances", b"distancez")
    operator.custom_options = np.frombuffer(raw, np.uint8)
    (last,) = [node for node in import_model(model).nodes() if node.op == "opaque"]
    assert "distancez" in last.attributes.why  # type: ignore[attr-defined]


# --- the best class on the chip ------------------------------------------------------------------


def many_classes(*, turned: bool = False) -> Graph:
    """A quantized detector of 40 classes, some of whose scores are equal.

    Args:
        turned: whether boxes are joined after classes, and then exchanged with them.
    """
    m = detectors.Maker()
    boxes = m.rows([4])
    if turned:
        levels = []
        for x, (side, _) in zip(m.features(), detectors.CELLS, strict=True):
            level = m.transpose(m.layer(x, 40), 0, 3, 1, 2)
            levels.append(m.reshape(level, 1, 40, side * side))
        scores = m.transpose(m.join(levels, 2), 0, 2, 1)
    else:
        scores = m.rows([40])
    both = m.join([detectors.from_distances(m, boxes), m.sigmoid(scores)], 2)
    graph = listed(m.done(both))
    options = ListDetections(True, HeadForm.OBJECTS, SCORE, OVERLAP, MOST)
    samples = [{"image": image(seed)} for seed in range(4)]
    chosen = QuantizeOptions()
    return quantize_model(graph, samples, chosen, limits=limits(graph, options)).graph


@pytest.mark.parametrize("turned", [False, True])
def test_best_class_is_found_where_scores_are_images(turned: bool) -> None:
    before = many_classes(turned=turned)
    after = run_passes(before, (ClassMaximum(),))
    node = the_node(after)
    assert after.type(str(node.inputs[1])).shape == (1, detectors.ROWS, 1)
    assert after.type(str(node.inputs[3])).shape == (1, detectors.ROWS, 1)
    random = np.random.default_rng(3)
    found = 0
    for _ in range(4):
        side = detectors.SIDE
        picture = random.integers(-128, 128, (1, side, side, 3)).astype(np.int8)
        for arithmetic in Arithmetic:
            first, second = (
                fitzroy.evaluate(graph, {"image": picture}, arithmetic)["detections"]
                for graph in (before, after)
            )
            np.testing.assert_array_equal(first, second)
            found += int(np.count_nonzero(first[:, 4]))
    assert found > 20


def found_alike(before: Graph, after: Graph) -> int:
    """How many objects of random pictures two quantized graphs find, which is the same."""
    found = 0
    for seed in range(4):
        picture = np.random.default_rng(seed).integers(-128, 128, (1, 64, 64, 3)).astype(np.int8)
        first, second = (
            fitzroy.evaluate(graph, {"image": picture})["detections"] for graph in (before, after)
        )
        np.testing.assert_array_equal(first, second)
        found += int(np.count_nonzero(first[:, 4]))
    return found


def test_few_classes_are_left_to_the_host() -> None:
    _, graph = quantized(HeadForm.OBJECTS)
    after = run_passes(graph, (ClassMaximum(),))
    assert print_graph(after) == print_graph(graph)


def test_best_class_is_found_for_several_anchors() -> None:
    """Scores of boxes side by side in an image are reduced together."""
    graph = listed(detectors.anchored(classes=40))
    options = ListDetections(True, HeadForm.OBJECTS, SCORE, OVERLAP, MOST)
    samples = [{"image": image(seed)} for seed in range(2)]
    bounds = limits(graph, options)
    before = quantize_model(graph, samples, QuantizeOptions(), limits=bounds).graph
    after = run_passes(before, (ClassMaximum(),))
    node = the_node(after)
    assert after.type(str(node.inputs[1])).shape == (1, 2 * detectors.ROWS, 1)
    assert after.type(str(node.inputs[4])).shape == (1, 2 * detectors.ROWS, 1)
    # Two boxes of a cell, and two that fill the word.
    types = [after.type(n.outputs[0]) for n in after.nodes() if n.op == "maximum"]
    widths = {type.shape[3] for type in types if type.is_quantized}
    assert sorted(widths) == [4 * half for half in (1, 2, 3, 5, 10, 20)]
    assert not any(n.op == "reduce_max" for n in after.nodes())
    assert found_alike(before, after) > 20


def test_classes_for_no_object_have_no_part_in_the_best() -> None:
    """Their filters are left out, so that they are not even computed."""
    graph = listed(ssd(2, 40, regular=False))
    samples = [{"image": image(seed)} for seed in range(2)]
    before = quantize_model(graph, samples, QuantizeOptions()).graph
    after = run_passes(before, (ClassMaximum(),))
    a = the_node(after).attributes
    assert isinstance(a, DetectionsAttributes)
    assert a.background == 0
    widths = {
        after.type(node.outputs[0]).shape[3] for node in after.nodes() if node.op == "conv_2d"
    }
    assert 40 in widths
    assert 42 not in widths
    picture = np.random.default_rng(1).integers(-128, 128, (1, 64, 64, 3)).astype(np.int8)
    first, second = (
        fitzroy.evaluate(graph, {"image": picture})["detections"] for graph in (before, after)
    )
    assert np.count_nonzero(first[:, 4]) > 5
    np.testing.assert_array_equal(first, second)
