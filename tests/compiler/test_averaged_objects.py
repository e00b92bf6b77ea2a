"""Objects whose boxes are averaged: by hand, in files, and of which heads."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import image, overlap, the_node
from tests.compiler.test_heads_apart import blaze

import fitzroy
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.definition import TypeRuleError
from fitzroy.compiler.ops.detections import Detections, DetectionsAttributes
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections, with_lower_threshold
from fitzroy.compiler.reference import check
from fitzroy.formats import flexbuffer

Floats = npt.NDArray[np.float32]

LEAST = 0.3
AVERAGED = DetectionsAttributes(
    100, 100, BoxCoding.CORNERS, score_threshold=LEAST, overlap=0.3, most=20,
    average_threshold=LEAST,
)  # fmt: skip
ALONE = replace(AVERAGED, average_threshold=DetectionsAttributes.average_threshold)

SCORES = [0.8, 0.9, 0.6, 0.4, 0.2]
BOXES = [[2, 0, 12, 10], [0, 0, 10, 10], [50, 50, 60, 60], [0, 2, 10, 12], [0, 1, 10, 11]]
"""Boxes of one thing, the third apart, and the last one hardly any."""


def found(
    a: DetectionsAttributes,
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    points: npt.ArrayLike | None = None,
    masks: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None,
) -> list[Floats]:
    """What the operator gives for corners [n,4], scores [n] or [n,c] and what is beside them."""
    count = len(np.asarray(boxes))
    given = {
        "boxes": np.reshape(boxes, (1, count, 4)),
        "scores": np.reshape(scores, (1, count, -1 if count else 1)),
        "points": None if points is None else np.reshape(points, (1, count, -1)),
        "coefficients": None if masks is None else masks[0][None],
        "prototypes": None if masks is None else masks[1][None],
    }
    graph = Graph("objects")
    arrays = {k: v.astype(np.float32) for k, v in given.items() if v is not None}
    for name, array in arrays.items():
        graph.add_input(name, TensorType(array.shape, DType.FLOAT32))
    results = {"detections": TensorType((a.most, 6), DType.FLOAT32)}
    if points is not None:
        keypoints = arrays["points"].shape[2] // a.point
        results["keypoints"] = TensorType((a.most, keypoints, 3), DType.FLOAT32)
    if masks is not None:
        results["masks"] = TensorType((a.most, *arrays["prototypes"].shape[1:3]), DType.UINT8)
    beside = [name if name in arrays else None for name in [*given][2:]]
    inputs: list[str | None] = ["boxes", "scores", None, None, None, *beside]
    while inputs[-1] is None:
        inputs.pop()
    node = Node("objects", Detections.name, tuple(inputs), tuple(results), a)
    graph.add_node(node, list(results.values()))
    graph.outputs = list(results)
    return [*fitzroy.evaluate(graph, arrays).values()]


def by_hand(
    boxes: Floats, scores: Floats, a: DetectionsAttributes
) -> list[npt.NDArray[np.float64]]:
    """Edges and score of objects, by the definition; each box is of the first that it overlaps."""
    left = sorted(np.flatnonzero(scores > a.score_threshold), key=lambda n: -scores[n])
    objects: list[npt.NDArray[np.float64]] = []
    while left and len(objects) < a.most:
        best = left[0]
        same = [n for n in left if n == best or overlap(boxes[best], boxes[n]) > a.overlap]
        left = [n for n in left if n not in same]
        sure = [n for n in same if scores[n] > a.average_threshold] or [best]
        shares = scores[sure].astype(np.float64)
        mean = (boxes[sure] * shares[:, None]).sum(axis=0) / shares.sum()
        objects.append(np.array([*mean, scores[best]]))
    return objects


@pytest.mark.parametrize("most", [3, 20])
@pytest.mark.parametrize("least", [LEAST, 0.6])
def test_objects_are_means_of_their_boxes(most: int, least: float) -> None:
    random = np.random.default_rng(3)
    a = replace(AVERAGED, most=most, average_threshold=least)
    for _ in range(20):
        middles = random.random((6, 2)) * 100
        corners = middles[random.integers(0, 6, 60)] + random.normal(0, 3, (60, 2))
        boxes = np.concatenate([corners, corners + random.random((60, 2)) * 20 + 5], axis=1)
        boxes = boxes.astype(np.float32)
        # Few different ones, so that many are equal.
        scores = (random.integers(1, 20, 60) / 20).astype(np.float32)
        (rows,) = found(a, boxes, scores)
        wanted = by_hand(boxes, scores, a)
        assert min(most, 6) <= len(wanted) == np.count_nonzero(rows[:, 4])
        np.testing.assert_allclose(rows[: len(wanted), :5], wanted, rtol=1e-5, atol=1e-5)


def test_only_boxes_above_the_threshold_count() -> None:
    lower = replace(AVERAGED, score_threshold=0.1)
    for a in (AVERAGED, lower):
        (rows,) = found(a, BOXES, SCORES)
        shares = np.array([0.9, 0.8, 0.4]) / 2.1
        first = shares @ np.array([BOXES[1], BOXES[0], BOXES[3]])
        np.testing.assert_allclose(rows[:2, :4], [first, BOXES[2]], rtol=1e-6)
        np.testing.assert_array_equal(rows[:2, 4], np.array([0.9, 0.6], np.float32))
        assert not rows[2:].any()


def test_objects_below_the_threshold_are_their_best_box() -> None:
    """As lists of quantized models contain them, so that noise does not lose objects."""
    a = replace(AVERAGED, score_threshold=0.1)
    (rows,) = found(a, BOXES, np.array(SCORES) / 4)
    np.testing.assert_array_equal(rows[0, :4], BOXES[1])


def test_nothing_found_and_one_box() -> None:
    points = np.zeros((5, 4))
    for array in found(AVERAGED, BOXES, np.zeros(5), points):
        assert not array.any()
    (rows,) = found(AVERAGED, [[1 / 3, 0, 10, 10]], [2 / 3])
    wanted = np.array([1 / 3, 0, 10, 10, 2 / 3, 0], np.float32)
    np.testing.assert_array_equal(rows[0], wanted)


def test_classes_are_averaged_apart_unless_they_are_one_object() -> None:
    scores = np.zeros((5, 2))
    scores[range(5), [0, 0, 0, 1, 0]] = SCORES
    (rows,) = found(AVERAGED, BOXES, scores)
    assert rows[:3, 5].tolist() == [0, 0, 1]
    np.testing.assert_array_equal(rows[2, :4], BOXES[3])
    (joint,) = found(replace(AVERAGED, agnostic=True), BOXES, scores)
    np.testing.assert_array_equal(joint, found(AVERAGED, BOXES, SCORES)[0])


def test_places_of_keypoints_are_averaged_and_their_scores_are_those_of_the_best_box() -> None:
    a = replace(AVERAGED, point_scores=True)
    points = np.random.default_rng(5).random((5, 2, 3))
    rows, keypoints = found(a, BOXES, SCORES, points)
    shares = np.array([0.9, 0.8, 0.4]) / 2.1
    mean = np.einsum("n,nkc->kc", shares, points[[1, 0, 3], :, :2])
    np.testing.assert_allclose(keypoints[0, :, :2], mean, rtol=1e-5)
    np.testing.assert_array_equal(keypoints[:2, :, 2], points[[1, 2], :, 2].astype(np.float32))
    np.testing.assert_array_equal(keypoints[1], points[2].astype(np.float32))
    assert not keypoints[2:].any()
    assert np.count_nonzero(rows[:, 4]) == 2


def test_masks_are_those_of_the_best_box() -> None:
    """Each box has its own prototype here; all of them cover the image."""
    prototypes = np.where(np.arange(5) == 1, 1, -1) * np.ones((100, 100, 1))
    rows, masks = found(AVERAGED, BOXES, SCORES, masks=(np.eye(5), prototypes))
    left, top, right, bottom = np.ceil(rows[0, :4]).astype(int)
    wanted = np.zeros((100, 100), np.uint8)
    wanted[top:bottom, left:right] = 1
    np.testing.assert_array_equal(masks[0], wanted)
    assert not masks[1:].any()


def test_the_best_box_counts_alone_by_default() -> None:
    points = np.random.default_rng(6).random((5, 4)).astype(np.float32)
    rows, keypoints = found(ALONE, BOXES, SCORES, points)
    np.testing.assert_array_equal(rows[:2, :4], [BOXES[1], BOXES[2]])
    np.testing.assert_array_equal(keypoints[:2, :, :2], points[[1, 2]].reshape(2, 2, 2))


def test_boxes_that_are_no_ones_else_are_not_averaged() -> None:
    once = replace(AVERAGED, overlap=1.0)
    np.testing.assert_array_equal(
        found(once, BOXES, SCORES)[0], found(replace(ALONE, overlap=1.0), BOXES, SCORES)[0]
    )


@pytest.mark.parametrize("least", [-0.1, 1.1, float("nan")])
def test_no_share_of_one(least: float) -> None:
    graph = with_detections(blaze(), HeadOptions(True))
    node = the_node(graph)
    node = replace(node, attributes=replace(attributes(graph), average_threshold=least))
    with pytest.raises(TypeRuleError, match="an average from"):
        check(graph, node)


# --- heads and files -----------------------------------------------------------------------------


def attributes(graph: Graph) -> DetectionsAttributes:
    a = the_node(graph).attributes
    assert isinstance(a, DetectionsAttributes)
    return a


def test_heads_of_mediapipe_average() -> None:
    """Its graphs do so, from the threshold on that scores have."""
    graph = with_detections(blaze(), HeadOptions(True, score_threshold=0.4))
    assert attributes(graph).average_threshold == pytest.approx(0.4)
    # More objects count where models are compared, but no more boxes of each.
    lower = attributes(with_lower_threshold(graph))
    assert lower.score_threshold < 0.4
    assert lower.average_threshold == pytest.approx(0.4)


@pytest.mark.parametrize("family", detectors.FAMILIES)
def test_other_heads_do_not(family: str) -> None:
    graph = with_detections(detectors.FAMILIES[family](), HeadOptions(True))
    assert attributes(graph).average_threshold == 1


def test_files_have_it_and_those_without_are_read_as_before() -> None:
    graph = with_detections(blaze(), HeadOptions(True, score_threshold=0.4))
    again = import_model(export_model(graph))
    assert attributes(again) == attributes(graph)
    (name,) = again.inputs
    before = fitzroy.evaluate(graph, {"image": image()}).values()
    for one, other in zip(before, fitzroy.evaluate(again, {name: image()}).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    model = export_model(graph)
    operators = (model.subgraphs or [])[0].operators or []
    (operator,) = (x for x in operators if x.custom_options is not None)
    options = asdict(attributes(graph))
    del options["average_threshold"]
    operator.custom_options = np.frombuffer(flexbuffer.encode(options), np.uint8)
    assert attributes(import_model(model)) == replace(attributes(graph), average_threshold=1.0)
