"""Heads whose scores are products, and encoded boxes that go through functions of their own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import MOST, SCORE, expected, image, listed, the_node

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.detections import DetectionsAttributes
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.objects import ranges_of_objects
from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import limits
from fitzroy.compiler.passes.heads.scores import product_of

Floats = npt.NDArray[np.float32]


def demand_listed(graph: Graph, *, boxes: int = 0, scores: int = 1) -> None:
    """Demand that a model's own centres, extents and scores are listed.

    Args:
        graph: the model.
        boxes: which of its outputs are boxes [1,n,4].
        scores: which are scores [1,n,c].
    """
    found = fitzroy.evaluate(graph, {"image": image()})
    rows = np.concatenate([found[graph.outputs[i]][0] for i in (boxes, scores)], axis=1)
    wanted = expected(rows, rows.shape[1] - 4, objectness=False)
    assert len(wanted) > 2
    listed_ = fitzroy.evaluate(listed(graph.copy()), {"image": image()})["detections"]
    assert listed_.shape == (MOST, 6)
    assert not listed_[len(wanted) :].any()
    for (_, item), row in zip(wanted, listed_, strict=False):
        np.testing.assert_allclose(row, item, rtol=1e-4, atol=1e-4)


def fcos(*, root: bool = True, joined: bool = False, swapped: bool = False) -> Graph:
    """Distances that a rectifier gives, and products of scores and centerness.

    Args:
        root: whether scores are square roots of the products.
        joined: whether the products of both levels are joined, and not their factors.
        swapped: whether the centerness is the first factor.
    """
    m = detectors.Maker()
    distances = m.binary("add", m.rows([4]), 1.5)
    positive = m.emit("maximum", [distances, m.constant(np.zeros(1))], m.shape(distances))
    boxes = detectors.from_distances(m, positive)
    scores, sure = (
        m.sigmoid(m.binary("add", m.rows([width]), 1.0)) for width in (detectors.CLASSES, 1)
    )
    parts, count = [(scores, sure)], detectors.CELLS[0][0] ** 2
    if joined:
        ends = ((0, count), (count, detectors.ROWS - count))
        parts = [(m.slice(scores, 1, *part), m.slice(sure, 1, *part)) for part in ends]
    made = []
    for kinds, any_ in parts:
        product = m.binary("mul", any_, kinds) if swapped else m.binary("mul", kinds, any_)
        made.append(m.emit("sqrt", [product], m.shape(product)) if root else product)
    return m.done(boxes, m.join(made, 1) if joined else made[0])


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_scores_that_are_products(root: bool, joined: bool, swapped: bool) -> None:
    graph = fcos(root=root, joined=joined, swapped=swapped)
    demand_listed(graph)
    node = the_node(listed(graph))
    assert isinstance(node.attributes, DetectionsAttributes)
    assert node.attributes.root == root
    assert node.inputs[4] is not None


def test_distances_below_zero_are_cut_off_as_the_model_does() -> None:
    """What a rectifier gives are the distances, and not what it reads."""
    result = listed(fcos())
    node = the_node(result)
    assert isinstance(node.attributes, DetectionsAttributes)
    assert node.attributes.coding is BoxCoding.DISTANCES
    part = result.cut([str(node.inputs[0])])
    (boxes,) = fitzroy.evaluate(part, {"image": image()}).values()
    assert boxes.min() == 0


def test_form_of_post_processing_of_roots() -> None:
    graph = fcos()
    rows = fitzroy.evaluate(listed(graph.copy()), {"image": image()})["detections"]
    result = listed(graph.copy(), HeadForm.SSD)
    _, classes, scores, _ = fitzroy.evaluate(result, {"image": image()}).values()
    assert rows[0, 4] > SCORE
    np.testing.assert_allclose(scores[0, 0], rows[0, 4], rtol=1e-5)
    assert classes[0, 0] == rows[0, 5]


@pytest.mark.parametrize("root", [False, True])
def test_logits_of_products_have_limits_in_the_form_of_post_processing(root: bool) -> None:
    options = {form: HeadOptions(True, form, score_threshold=0.3) for form in HeadForm}
    objects, ssd = (
        limits(listed(fcos(root=root), form), options[form])
        for form in (HeadForm.OBJECTS, HeadForm.SSD)
    )
    assert len(ssd) == len(objects)
    assert set(ssd.values()) == set(objects.values())


def test_roots_survive_files() -> None:
    graph = listed(fcos())
    again = import_model(export_model(graph))
    assert the_node(again).attributes == the_node(graph).attributes


def test_logits_of_roots_are_told_apart_from_the_square_of_the_threshold() -> None:
    """A score of 0.3 is one of a class of 0.09, where the centerness is one."""
    options = HeadOptions(True, score_threshold=0.3)
    ends = {root: set(limits(listed(fcos(root=root)), options).values()) for root in (False, True)}
    (low, _), (whole, _) = (next(iter(ends[root])) for root in (True, False))
    assert len(ends[True]) == len(ends[False]) == 1
    assert low == pytest.approx(np.log(0.09 / 0.91) - 1)
    assert whole == pytest.approx(np.log(0.3 / 0.7) - 1)


def test_products_of_more_than_an_objectness_are_none() -> None:
    m = detectors.Maker()
    scores, others = (m.sigmoid(m.rows([detectors.CLASSES])) for _ in "ab")
    for name in (m.binary("mul", scores, others), m.binary("mul", scores, 0.5)):
        assert product_of(Columns(m.graph), name) is None


def test_scores_with_factors_and_an_objectness_are_refused() -> None:
    """YOLOv5's rows, whose scores are multiplied by the objectness that stays beside them."""
    m = detectors.Maker()
    boxes = detectors.from_distances(m, m.rows([4]))
    scores, sure = m.sigmoid(m.rows([detectors.CLASSES])), m.sigmoid(m.rows([1]))
    rows = m.join([boxes, sure, m.binary("mul", scores, sure)], 2)
    with pytest.raises(UnsupportedError, match="no head"):
        listed(m.done(rows))


def test_centres_that_are_sigmoids_with_products_apart() -> None:
    graph = detectors.sigmoid_centres(apart=True)
    demand_listed(graph)
    result = listed(graph)
    node = the_node(result)
    assert isinstance(node.attributes, DetectionsAttributes)
    assert node.attributes.coding is BoxCoding.EXPONENTIAL
    anchors = result.value(str(node.inputs[2])).data
    assert anchors is not None
    side, stride = detectors.CELLS[0]
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    first = anchors[: 2 * side * side]
    np.testing.assert_allclose(first[::2, :2], (cells - 0.05) * stride, atol=1e-4)
    np.testing.assert_allclose(first[:, 2:4], 1.1 * stride, rtol=1e-4)
    np.testing.assert_allclose(first[:2, 4:], detectors.ANCHORS[0], rtol=1e-4)


def test_centres_and_extents_have_ranges_of_their_own() -> None:
    graph = listed(detectors.sigmoid_centres())
    node = the_node(graph)
    joint = graph.producer(str(node.inputs[0]))
    assert joint is not None
    assert joint.op == "concatenation"
    ranges = ranges_of_objects(graph, [{"image": image(seed)} for seed in range(4)])
    centres, extents = (ranges[str(name)] for name in joint.inputs)
    assert 0 <= centres[0] < centres[1] <= 1
    assert extents[0] < 0
    assert centres != extents


def test_boxes_of_an_unknown_decoder_have_no_anchors() -> None:
    """Boxes that are computed, but not in a known way, are not taken for those of layers."""
    m = detectors.Maker()
    rows = m.rows([4])
    boxes = m.emit("tanh", [rows], m.shape(rows))
    with pytest.raises(UnsupportedError, match="no head"):
        listed(m.done(boxes, m.rows([detectors.CLASSES])))


# --- which score is that of being any object -----------------------------------------------------


def offsets_and_logarithms(scores: str) -> Graph:
    """Boxes relative to cells, and scores.

    Args:
        scores: ``joint`` for an objectness and classes from two layers that one sigmoid takes,
            ``one`` for all from one layer, ``last`` for classes before the objectness.
    """
    m = detectors.Maker()
    points, strides = detectors.centres()
    rows = m.rows([4])
    xy = m.binary("mul", m.binary("add", m.slice(rows, 2, 0, 2), points - 0.5), strides)
    extents = m.slice(rows, 2, 2, 2)
    wh = m.binary("mul", m.emit("exp", [extents], m.shape(extents)), strides)
    if scores == "one":
        sure = [m.sigmoid(m.rows([1 + detectors.CLASSES]))]
    elif scores == "joint":
        sure = [m.sigmoid(m.join([m.rows([1]), m.rows([detectors.CLASSES])], 2))]
    else:
        sure = [m.sigmoid(m.rows([detectors.CLASSES])), m.sigmoid(m.rows([1]))]
    return m.done(m.join([xy, wh, *sure], 2))


def test_an_objectness_of_a_layer_of_its_own() -> None:
    graph = offsets_and_logarithms("joint")
    rows = fitzroy.evaluate(graph, {"image": image()})[graph.outputs[0]][0]
    wanted = expected(rows, detectors.CLASSES, objectness=True)
    found = fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
    assert len(wanted) > 2
    assert not found[len(wanted) :].any()
    for (_, item), row in zip(wanted, found, strict=False):
        np.testing.assert_allclose(row, item, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scores", ["one", "last"])
def test_scores_that_may_have_an_objectness_anywhere_are_refused(scores: str) -> None:
    with pytest.raises(UnsupportedError, match="nothing says which of its"):
        listed(offsets_and_logarithms(scores))


@pytest.mark.parametrize("sizes", [(1, detectors.CLASSES), (detectors.CLASSES, 1)])
def test_distances_with_scores_of_two_kinds_are_refused(sizes: tuple[int, int]) -> None:
    m = detectors.Maker()
    boxes = detectors.from_distances(m, m.rows([4]))
    rows = m.join([boxes, *(m.sigmoid(m.rows([size])) for size in sizes)], 2)
    with pytest.raises(UnsupportedError, match=f"its {sizes[0]} and {sizes[1]} scores"):
        listed(m.done(rows))


def test_anchors_with_one_score_have_no_objectness() -> None:
    """A model of one class without objectness, in YOLOv5's coding."""
    rows = detectors.anchored(classes=0)
    found = fitzroy.evaluate(rows.copy(), {"image": image()})[rows.outputs[0]][0]
    wanted = expected(found, 1, objectness=False)
    result = fitzroy.evaluate(listed(rows), {"image": image()})["detections"]
    assert len(wanted) > 2
    np.testing.assert_allclose(result[0], wanted[0][1], rtol=1e-4, atol=1e-4)
