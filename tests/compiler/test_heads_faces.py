"""Softmaxes with a class for no object, scores beside scores, and keypoints that are apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import MOST, SCORE, expected, image, listed, the_node

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.detections import DetectionsAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.passes.heads.anchors import Grid, anchors_of
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections

Floats = npt.NDArray[np.float32]

SIDES = tuple(detectors.SIDE >> shift for shift in (3, 4, 5))
POINTS = 5


def demand_objects(graph: Graph, rows: Floats, classes: int, *, objectness: bool = False) -> None:
    """Demand that rows [n,4+c] of centres, extents and scores are what is listed."""
    wanted = expected(rows, classes, objectness)
    assert len(wanted) > 3
    found = fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
    assert found.shape == (MOST, 6)
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )
    assert not found[len(wanted) :].any()


def softmax(m: detectors.Maker, name: str) -> str:
    return m.emit("softmax", [name], m.shape(name), SoftmaxAttributes())


def from_offsets(m: detectors.Maker, encoded: str) -> str:
    """Centres and extents of boxes relative to squares of twice the stride."""
    points, strides = detectors.centres()
    offsets = m.binary("mul", m.slice(encoded, 2, 0, 2), 0.2 * strides)
    xy = m.binary("add", offsets, points * strides)
    powers = m.binary("mul", m.slice(encoded, 2, 2, 2), 0.2)
    wh = m.binary("mul", m.emit("exp", [powers], m.shape(powers)), 2 * strides)
    return m.join([xy, wh], 2)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("form", ["boxes first", "scores first", "joined"])
def test_softmaxes_of_decoded_boxes(form: str, classes: int) -> None:
    """SSDs in PyTorch: the first class stands for no object, and no object is one of it."""
    m = detectors.Maker()
    boxes, scores = from_offsets(m, m.rows([4])), softmax(m, m.rows([classes]))
    given = fitzroy.evaluate(m.done(boxes, scores), {"image": image()})
    rows = np.concatenate([given[boxes][0], given[scores][0, :, 1:]], axis=1)
    outputs = {"boxes first": [boxes, scores], "scores first": [scores, boxes]}
    graph = m.done(*outputs.get(form, [m.join([boxes, scores], 2)]))
    demand_objects(graph, rows, classes - 1)
    a = the_node(listed(graph.copy())).attributes
    assert isinstance(a, DetectionsAttributes)
    assert (a.coding, a.background, a.logits) == (BoxCoding.EXPONENTIAL, 1, False)


def test_softmaxes_of_boxes_without_anchors_are_refused() -> None:
    """Transformers give such boxes, and their class for no object is the last one."""
    m = detectors.Maker()
    boxes, scores = m.sigmoid(m.rows([4])), softmax(m, m.rows([4]))
    with pytest.raises(UnsupportedError, match="no head"):
        listed(m.done(boxes, m.join([scores, scores], 2)))


@pytest.mark.parametrize("classes", [1, detectors.CLASSES])
@pytest.mark.parametrize("first", ["scores", "objectness"])
def test_an_objectness_apart_from_decoded_boxes(first: str, classes: int) -> None:
    """A single score beside those of classes is a factor of each, and no class."""
    m = detectors.Maker()
    boxes = detectors.from_distances(m, m.rows([4]))
    scores, sure = (m.sigmoid(m.binary("add", m.rows([n]), 1.0)) for n in (classes, 1))
    outputs = [boxes, *((scores, sure) if first == "scores" else (sure, scores))]
    graph = m.done(*outputs)
    given = fitzroy.evaluate(graph, {"image": image()})
    rows = np.concatenate([given[name][0] for name in (boxes, sure, scores)], axis=1)
    demand_objects(graph, rows, classes, objectness=True)


def test_products_for_four_classes_are_no_boxes() -> None:
    """Before boxes, scores of as many classes as a box has numbers are told by their functions."""
    m = detectors.Maker()
    boxes = from_offsets(m, m.rows([4]))
    factors = [m.sigmoid(m.binary("add", m.rows([n]), 1.0)) for n in (4, 1)]
    scores = m.binary("mul", *factors)
    graph = m.done(scores, boxes)
    given = fitzroy.evaluate(graph, {"image": image()})
    demand_objects(graph, np.concatenate([given[boxes][0], given[scores][0]], axis=1), 4)


def test_scores_of_the_only_class_without_a_third_axis() -> None:
    m = detectors.Maker()
    boxes = detectors.from_distances(m, m.rows([4]))
    scores = m.sigmoid(m.binary("add", m.rows([1]), 1.0))
    graph = m.done(boxes, m.reshape(scores, detectors.ROWS, 1))
    given = fitzroy.evaluate(graph, {"image": image()})
    rows = np.concatenate([given[boxes][0], given[graph.outputs[1]]], axis=1)
    result = listed(graph.copy())
    assert result.type(str(the_node(result).inputs[1])).shape == (1, detectors.ROWS, 1)
    demand_objects(graph, rows, 1)


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT16])
@pytest.mark.parametrize("joined", [False, True])
def test_results_of_other_real_numbers(dtype: DType, joined: bool) -> None:
    """Exporters may compute places of cells in float64, and give what is added to them so."""
    m = detectors.Maker()
    # Without a coding, the boxes themselves are read.
    boxes = detectors.from_distances(m, m.rows([4]), corners=True)
    boxes = m.emit("minimum", [boxes, m.constant(np.array([60]))], m.shape(boxes))
    scores = m.sigmoid(m.rows([detectors.CLASSES]))
    outputs = [m.join([boxes, scores], 2)] if joined else [boxes, scores]
    plain = m.done(*outputs).copy()
    real = [m.graph.emit("cast", [name], TensorType(m.shape(name), dtype)) for name in outputs]
    found, wanted = (
        fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
        for graph in (m.done(*real), plain)
    )
    assert wanted[0, 4] > SCORE
    np.testing.assert_array_equal(found, wanted)


# --- faces ---------------------------------------------------------------------------------------

KINDS = {
    "yunet": (1, {"scores": 1, "sure": 1, "boxes": 4, "points": 2 * POINTS}),
    "scrfd": (2, {"scores": 1, "boxes": 4, "points": 2 * POINTS}),
    "retinaface": (2, {"boxes": 4, "scores": 2, "points": 2 * POINTS}),
}
"""Boxes of a cell, and what each family gives of each, in its order."""


def faces(family: str, form: str) -> Graph:
    """A detector of faces that decodes nothing.

    Args:
        family: whose outputs it has.
        form: of an output: ``rows`` [n,c] of a level, ``batch`` [1,n,c] likewise, or ``joined``,
            of all levels.
    """
    m = detectors.Maker()
    boxes, kinds = KINDS[family]
    found: dict[str, list[str]] = {kind: [] for kind in kinds}
    for side in SIDES:
        x = m.sigmoid(m.layer(m.image, 8, detectors.SIDE // side))
        for kind, width in kinds.items():
            rows = m.reshape(m.layer(x, boxes * width), 1, side * side * boxes, width)
            if kind in ("scores", "sure"):
                rows = softmax(m, rows) if family == "retinaface" else m.sigmoid(rows)
            found[kind].append(m.reshape(rows, *m.shape(rows)[1:]) if form == "rows" else rows)
    if form == "joined":
        return m.done(*(m.join(levels, 1) for levels in found.values()))
    return m.done(*(name for levels in found.values() for name in levels))


def decoded(family: str, given: list[Floats]) -> tuple[Floats, Floats]:
    """Centres, extents and scores [n,5] of what a family gives, and keypoints [n,5,2]."""
    count, kinds = KINDS[family]
    levels = len(given) // len(kinds)
    parts = [
        np.concatenate([x.reshape(-1, width) for x in given[i * levels : (i + 1) * levels]])
        for i, width in enumerate(kinds.values())
    ]
    rows = dict(zip(kinds, parts, strict=True))
    cells, strides, squares = [], [], []
    for level, side in enumerate(SIDES):
        y, x = np.mgrid[:side, :side].reshape(2, -1)
        cells.append(np.repeat(np.stack([x, y], axis=1), count, axis=0))
        strides.append(np.full((side * side * count, 1), detectors.SIDE // side))
        squares.append(np.tile([16 * 4**level, 32 * 4**level], side * side)[: len(cells[-1])])
    cell, stride = np.concatenate(cells), np.concatenate(strides)
    square = np.concatenate(squares)[:, None] if family == "retinaface" else stride
    boxes, points = rows["boxes"], rows["points"].reshape(-1, POINTS, 2)
    if family == "scrfd":
        low, high = (cell * stride + sign * part * stride
                     for sign, part in ((-1, boxes[:, :2]), (1, boxes[:, 2:])))  # fmt: skip
        both = [(low + high) / 2, high - low, rows["scores"]]
        places = (cell * stride)[:, None] + points * stride[:, None]
    elif family == "yunet":
        score = np.sqrt(rows["scores"] * rows["sure"])
        both = [(cell + boxes[:, :2]) * stride, np.exp(boxes[:, 2:]) * stride, score]
        places = (cell[:, None] + points) * stride[:, None]
    else:
        middle = (cell + 0.5) * stride
        extents = np.exp(0.2 * boxes[:, 2:]) * square
        both = [middle + 0.1 * boxes[:, :2] * square, extents, rows["scores"][:, 1:]]
        places = middle[:, None] + 0.1 * points * square[:, None]
    return np.concatenate(both, axis=1).astype(np.float32), places.astype(np.float32)


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("form", ["rows", "batch", "joined"])
def test_faces_with_keypoints(family: str, form: str) -> None:
    graph = faces(family, form)
    given = fitzroy.evaluate(graph, {"image": image()})
    rows, places = decoded(family, [given[name] for name in graph.outputs])
    demand_objects(graph.copy(), rows, 1)
    result = listed(graph.copy())
    found = fitzroy.evaluate(result, {"image": image()})[result.outputs[1]]
    for (number, _), points in zip(expected(rows, 1, False), found, strict=False):
        np.testing.assert_allclose(points[:, :2], places[number], rtol=1e-4, atol=1e-3)


def test_faces_without_keypoints_go_by_a_scheme() -> None:
    """Two outputs of each level say nothing of how boxes are encoded."""
    graph = faces("scrfd", "rows")
    rows, _ = decoded("scrfd", list(fitzroy.evaluate(graph, {"image": image()}).values()))
    graph.outputs = graph.outputs[: 2 * len(SIDES)]
    with pytest.raises(UnsupportedError, match="with --anchors"):
        with_detections(graph.copy(), HeadOptions(True))
    options = HeadOptions(True, score_threshold=SCORE, most=MOST, anchors="scrfd")
    result = with_detections(graph, options)
    found = fitzroy.evaluate(result, {"image": image()})["detections"]
    wanted = expected(rows, 1, False)
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )


def test_squares_of_other_levels_are_asked_for() -> None:
    with pytest.raises(UnsupportedError, match="boxes in a cell of its levels"):
        anchors_of("retinaface", (64, 64), [Grid(8, 8, 2), Grid(4, 4, 2)])
