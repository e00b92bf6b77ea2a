"""Heads whose boxes are not decoded in the model: peaks, keypoints, boxes without their anchors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import found_alike, image, listed, the_node
from tests.support import need_litert

import fitzroy
from fitzroy.base.errors import FormatError, UnsupportedError, UsageError
from fitzroy.base.types import DType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.detections import CLASSES as BEST_CLASSES
from fitzroy.compiler.ops.detections import SCORES, DetectionsAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.shape import BlockAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.passes.heads import best_class
from fitzroy.compiler.passes.heads.anchors import Grid, anchors_of, parse_anchors
from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import kept_float, limits, with_detections
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.formats import tflite

Floats = npt.NDArray[np.float32]
SIDE = detectors.SIDE


def found_in(graph: Graph, picture: Floats) -> tuple[Floats, Floats]:
    """Objects, and keypoints if there are any."""
    results = fitzroy.evaluate(graph, {"image": picture})
    rows = results["detections"]
    return rows[rows[:, 4] > 0], results.get("keypoints", np.zeros((len(rows), 0, 3), np.float32))


def sigmoid(x: Floats) -> Floats:
    found: Floats = np.float32(1) / (np.float32(1) + np.exp(-x))
    return found


# --- anchors of one size, with keypoints ---------------------------------------------------------

POINTS = 2
IN_CELL = (2, 3)


def blaze() -> Graph:
    """Boxes and two keypoints in pixels around cells, with a score [1,n,4+4], [1,n,1]."""
    m = detectors.Maker()
    boxes, scores = [], []
    for x, count in zip(m.features(), IN_CELL, strict=True):
        _, height, width, _ = m.shape(x)
        rows = height * width * count
        numbers = 4 + 2 * POINTS
        boxes.append(m.reshape(m.layer(x, count * numbers), 1, rows, numbers))
        scores.append(m.reshape(m.layer(x, count), 1, rows, 1))
    return m.done(m.join(boxes, 1), m.join(scores, 1))


def test_boxes_around_cells_with_keypoints() -> None:
    """As MediaPipe decodes them: all numbers are pixels, from the middle of the cell on."""
    graph = blaze()
    objects, points = found_in(listed(graph), image())
    boxes, scores = (fitzroy.evaluate(graph, {"image": image()})[x][0] for x in graph.outputs)
    middles = np.concatenate(
        [
            np.array([[x + 0.5, y + 0.5] for y in range(side) for x in range(side)]).repeat(n, 0)
            * stride
            for (side, stride), n in zip(detectors.CELLS, IN_CELL, strict=True)
        ]
    )
    best = int(scores[:, 0].argmax())
    pairs = boxes[best].reshape(-1, 2)
    centre = pairs[0] + middles[best]
    corners = np.concatenate([centre - pairs[1] / 2, centre + pairs[1] / 2])
    np.testing.assert_allclose(objects[0, :4], corners, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(objects[0, 4], sigmoid(scores[best, 0]), rtol=1e-5)
    np.testing.assert_allclose(points[0, :, :2], pairs[2:] + middles[best], rtol=1e-5, atol=1e-4)
    assert (points[0, :, 2] == 1).all()


def test_depth_may_become_space_behind_layers() -> None:
    """As in MediaPipe's sparse detector of faces: a layer has the boxes of four cells."""
    m = detectors.Maker()
    outputs = []
    for numbers in (4 + 2 * POINTS, 1):
        x = m.layer(m.features()[1], 4 * numbers)
        _, height, width, _ = m.shape(x)
        shape = (1, 2 * height, 2 * width, numbers)
        x = m.emit("depth_to_space", [x], shape, BlockAttributes(2))
        outputs.append(m.reshape(x, 1, 4 * height * width, numbers))
    a = the_node(with_detections(m.done(*outputs), HeadOptions(True))).attributes
    assert isinstance(a, DetectionsAttributes)
    assert a.coding is BoxCoding.CENTRE_SIZES


def test_nothing_found_has_no_keypoints() -> None:
    """A score that no box reaches."""
    graph = with_detections(blaze(), HeadOptions(True, score_threshold=1 - 1e-7))
    objects, points = found_in(graph, image())
    assert len(objects) == 0
    assert points.shape[1:] == (POINTS, 3)
    assert not points.any()


def test_overlap_of_mediapipe_is_the_default() -> None:
    node = the_node(with_detections(blaze(), HeadOptions(True)))
    assert isinstance(node.attributes, DetectionsAttributes)
    assert node.attributes.overlap == pytest.approx(0.3)


# --- peaks ---------------------------------------------------------------------------------------

CLASSES = 3


def centres(*, first: bool = False) -> Graph:
    """CenterNet: images of scores, extents and offsets in cells; channels may come first."""
    m = detectors.Maker()
    x = m.features()[0]
    parts = [m.sigmoid(m.layer(x, CLASSES)), m.layer(x, 2), m.sigmoid(m.layer(x, 2))]
    return m.done(*(m.transpose(part, 0, 3, 1, 2) if first else part for part in parts))


def peaks_by_hand(scores: Floats, extents: Floats, offsets: Floats, least: float) -> Floats:
    """Objects [n,6] of images [h,w,c], the best first; each cell counts once."""
    height, width, _ = scores.shape
    stride = SIDE / width
    rows = []
    for y in range(height):
        for x in range(width):
            around = scores[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2].max(axis=(0, 1))
            own = np.where(scores[y, x] >= around, scores[y, x], 0)
            if own.max() > least:
                centre = (np.array([x, y]) + offsets[y, x]) * stride
                half = extents[y, x] * stride / 2
                rows.append([*(centre - half), *(centre + half), own.max(), own.argmax()])
    rows.sort(key=lambda row: -row[4])
    return np.array(rows, np.float32)


@pytest.mark.parametrize("first", [False, True])
def test_objects_are_peaks_of_images(first: bool) -> None:
    graph = centres(first=first)
    given = fitzroy.evaluate(graph, {"image": image()})
    parts = [given[name][0] for name in graph.outputs]
    parts = [part.transpose(1, 2, 0) if first else part for part in parts]
    objects, _ = found_in(listed(graph), image())
    scores, extents, offsets = parts
    by_hand = peaks_by_hand(scores, extents, offsets, 0.3)
    assert 3 < len(objects) < scores[..., 0].size // 2
    np.testing.assert_allclose(objects, by_hand[: len(objects)], rtol=1e-4, atol=1e-3)


def masked(op: str, *, swapped: bool, first: bool) -> Graph:
    """CenterNet whose scores are zero but for their peaks."""
    m = detectors.Maker()
    x = m.features()[0]
    scores, extents, offsets = m.sigmoid(m.layer(x, CLASSES)), m.layer(x, 2), m.layer(x, 2)
    pool = PoolAttributes((3, 3), (1, 1), PaddingScheme.SAME)
    maxima = m.emit("max_pool_2d", [scores], m.shape(scores), pool)
    operands = [maxima, scores] if swapped else [scores, maxima]
    type = m.graph.type(scores)
    flags = m.graph.emit(op, operands, replace(type, dtype=DType.BOOL))
    mask = m.graph.emit("cast", [flags], type)
    left = m.emit(
        "mul", [mask, scores] if swapped else [scores, mask], type.shape, ActivationAttributes()
    )
    parts = (left, extents, offsets)
    return m.done(*(m.transpose(part, 0, 3, 1, 2) if first else part for part in parts))


@pytest.mark.parametrize(
    ("op", "swapped", "first"),
    [("equal", False, False), ("equal", True, True), ("greater_equal", False, True)],
)
def test_peaks_that_a_model_finds_itself_are_not_found_twice(
    op: str, swapped: bool, first: bool
) -> None:
    graph = masked(op, swapped=swapped, first=first)
    given = fitzroy.evaluate(graph, {"image": image()})
    parts = [given[name][0] for name in graph.outputs]
    scores, extents, offsets = (part.transpose(1, 2, 0) if first else part for part in parts)
    lists = listed(graph)
    assert not {"max_pool_2d", "cast", op} & {node.op for node in lists.nodes()}
    objects, _ = found_in(lists, image())
    by_hand = peaks_by_hand(scores, extents, offsets, 0.3)
    assert len(objects) > 3
    np.testing.assert_allclose(objects, by_hand[: len(objects)], rtol=1e-4, atol=1e-3)


def test_a_mask_of_other_pixels_is_part_of_the_scores() -> None:
    """A maximum is never less than the score in its middle, so this mask is one everywhere."""
    graph = masked("greater_equal", swapped=True, first=False)
    assert "max_pool_2d" in {node.op for node in listed(graph).nodes()}


@pytest.mark.parametrize("first", [False, True])
def test_maxima_beside_the_scores_are_left_out(first: bool) -> None:
    """Programs compare them with the scores to find peaks."""
    m = detectors.Maker()
    x = m.features()[0]
    scores, extents, offsets = m.sigmoid(m.layer(x, CLASSES)), m.layer(x, 2), m.layer(x, 2)
    pool = PoolAttributes((3, 3), (1, 1), PaddingScheme.SAME)
    maxima = m.emit("max_pool_2d", [scores], m.shape(scores), pool)
    parts = [scores, extents, offsets, maxima]
    graph = m.done(*(m.transpose(part, 0, 3, 1, 2) if first else part for part in parts))
    lists = listed(graph)
    assert "max_pool_2d" not in {node.op for node in lists.nodes()}
    objects, _ = found_in(lists, image())
    assert len(objects) > 3


def test_quantized_peaks_are_near_those_of_float32() -> None:
    """Extents and offsets have scales of their own, and are joined by the host."""
    options = HeadOptions(True, score_threshold=0.3)
    graph = with_detections(centres(), options)
    chosen = QuantizeOptions(keep_float=kept_float(graph))
    samples = [{"image": image(seed)} for seed in range(4)]
    result = quantize_model(graph, samples, chosen, limits=limits(graph, options)).graph
    exact, _ = found_in(graph, image())
    stored = np.rint(image() * 255 - 128).astype(np.int8)
    rows, _ = found_in(result, stored)  # type: ignore[arg-type]
    near = [
        any(np.abs(row[:4] - other[:4]).max() < 2 and row[5] == other[5] for other in rows)
        for row in exact[:5]
    ]
    assert sum(near) >= 4


@pytest.mark.parametrize("first", [False, True])
def test_peaks_in_the_form_of_post_processing(first: bool) -> None:
    """Standard operators find the peaks, and each is listed once."""
    graph = centres(first=first)
    objects, _ = found_in(listed(graph.copy()), image())
    result = listed(graph, HeadForm.SSD)
    _, classes, scores, number = fitzroy.evaluate(result, {"image": image()}).values()
    count = int(number[0])
    assert 3 < count == len(objects)
    np.testing.assert_allclose(scores[0, :count], objects[:, 4], rtol=1e-5)
    np.testing.assert_array_equal(classes[0, :count], objects[:, 5])
    # Those of one class are as logits that the quantization tells apart.
    ends = limits(result, HeadOptions(True, HeadForm.SSD, score_threshold=0.3))
    assert {round(low, 4) for low, _ in ends.values()} == {round(np.log(0.3 / 0.7) - 1, 4)}


def test_litert_finds_the_peaks_of_the_form_of_post_processing() -> None:
    need_litert()
    from fitzroy.driver.runtime.litert import LiteRtModel

    options = HeadOptions(True, HeadForm.SSD, score_threshold=0.3)
    graph = with_detections(centres(), options)
    data = tflite.write_model(export_model(graph))
    exact = fitzroy.evaluate(graph, {"image": image()})
    found = LiteRtModel(data, xnnpack=False).run([image()])
    count = int(found[3][0])
    assert count > 3
    # Rows after the last object have no meaning.
    for name, array in zip(graph.outputs[:3], found[:3], strict=True):
        np.testing.assert_allclose(array[:, :count], exact[name][:, :count], atol=1e-4)
    assert found[3] == exact[graph.outputs[3]]


# --- keypoints of one person ---------------------------------------------------------------------


def person() -> Graph:
    """MoveNet: y and x in parts of the image, and a score [1,1,5,3]."""
    m = detectors.Maker()
    x = m.features()[1]
    rows = m.reshape(m.slice(m.layer(x, 15), 1, 0, 1), 1, 4, 5, 3)
    return m.done(m.sigmoid(m.slice(rows, 1, 0, 1)))


def test_keypoints_of_one_person_are_listed() -> None:
    graph = person()
    (given,) = fitzroy.evaluate(graph, {"image": image()}).values()
    objects, points = found_in(listed(graph), image())
    places = given[0, 0, :, [1, 0]].T * SIDE
    np.testing.assert_allclose(points[0, :, :2], places, rtol=1e-5)
    np.testing.assert_allclose(points[0, :, 2], given[0, 0, :, 2], rtol=1e-6)
    assert len(objects) == 1
    np.testing.assert_allclose(objects[0, :4], [*places.min(0), *places.max(0)], rtol=1e-5)
    np.testing.assert_allclose(objects[0, 4], given[0, 0, :, 2].mean(), rtol=1e-5)


# --- anchors that models do not hold -------------------------------------------------------------


def levels(in_cell: int, *, classes: int = CLASSES, images: bool = False) -> Graph:
    """Boxes and logits of classes apart, joined or an image for each level."""
    m = detectors.Maker()
    boxes, scores = [], []
    for x in m.features():
        _, height, width, _ = m.shape(x)
        rows = height * width * in_cell
        parts = m.layer(x, in_cell * 4), m.layer(x, in_cell * classes)
        if images:
            boxes.append(m.transpose(parts[0], 0, 3, 1, 2))
            scores.append(m.transpose(parts[1], 0, 3, 1, 2))
        else:
            boxes.append(m.reshape(parts[0], 1, rows, 4))
            scores.append(m.reshape(parts[1], 1, rows, classes))
    if images:
        return m.done(*scores, *boxes)
    return m.done(m.join(scores, 1), m.join(boxes, 1))


def test_images_of_levels_are_rows() -> None:
    """An output for each level gives what joined rows give."""
    options = HeadOptions(True, anchors="efficientdet")
    both = [with_detections(levels(9, images=images), options) for images in (False, True)]
    first, second = (found_in(graph, image())[0] for graph in both)
    assert len(first) > 10
    np.testing.assert_array_equal(first, second)
    node = the_node(both[0])
    assert isinstance(node.attributes, DetectionsAttributes)
    assert node.attributes.y_first
    assert node.attributes.coding is BoxCoding.EXPONENTIAL


def nine_boxes() -> tuple[Graph, Graph]:
    """A quantized detector with nine boxes in a cell, and the same with the best classes only."""
    options = HeadOptions(True, score_threshold=0.4, anchors="efficientdet")
    graph = with_detections(levels(9, classes=40, images=True), options)
    samples = [{"image": image(seed)} for seed in range(2)]
    bounds = limits(graph, options)
    before = quantize_model(graph, samples, QuantizeOptions(), limits=bounds).graph
    return before, with_best_classes(before.copy())


def test_best_class_of_boxes_that_are_adjacent() -> None:
    """Boxes of a cell one after another become channels of one image, in their order."""
    before, after = nine_boxes()
    count = 9 * detectors.ROWS
    node = the_node(after)
    for place in (SCORES, BEST_CLASSES):
        name = str(node.inputs[place])
        assert after.type(name).shape == (1, count, 1)
    # Nine boxes of a cell, and three that fill words.
    widths = [after.type(n.outputs[0]).shape[3] for n in after.nodes() if n.op == "maximum"]
    assert sorted(set(widths)) == [12 * half for half in (1, 2, 3, 5, 10, 20)]
    assert found_alike(before, after) > 20


def test_boxes_are_reduced_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four boxes of a cell, four more, and the one that is left; no scores wait for others."""
    side, _ = detectors.CELLS[0]
    monkeypatch.setattr(best_class, "_MOST_ELEMENTS", side * side * 40 * 4)
    before, after = nine_boxes()
    assert found_alike(before, after) > 20
    cells, runs = (1, side, side), list[tuple[str, int]]()
    for node in after.nodes():
        type = after.type(node.outputs[0])
        if node.op in ("maximum", "reduce_max") and type.shape[:3] == cells:
            runs.append((node.op, type.shape[3]))
    halves = [("maximum", 4 * half) for half in (20, 10, 5, 3, 2, 1)]
    assert runs == 4 * halves + 2 * [("reduce_max", 1)]
    order = after.nodes()
    reduced = [n for n, node in enumerate(order) if node.op == "maximum"]
    first, second = (
        n
        for n, node in enumerate(order)
        if node.op == "conv_2d"
        and after.type(node.outputs[0]).shape == (*cells, 160)
        and ".best" not in node.outputs[0]
    )
    # Scores of the second group are computed when those of the first have been reduced.
    assert sum(first < n < second for n in reduced) == 2 * len(halves)


def test_missing_anchors_are_asked_for() -> None:
    with pytest.raises(UnsupportedError, match="does not hold") as error:
        with_detections(levels(9), HeadOptions(True))
    assert "--anchors" in str(error.value.hint)


def test_other_anchors_than_boxes() -> None:
    with pytest.raises(UnsupportedError, match=r"\[2, 2\] boxes in a cell .* \[9, 9\]"):
        with_detections(levels(2), HeadOptions(True, anchors="efficientdet"))


def test_anchors_are_for_boxes_apart() -> None:
    with pytest.raises(UnsupportedError, match="boxes before decoding"):
        with_detections(detectors.dfl(), HeadOptions(True, anchors="blaze"))


@pytest.mark.parametrize(
    ("scheme", "side", "grids", "rows"),
    [
        # Of effdet 0.4.1, and of torchvision 0.29.
        ("efficientdet", 512, [(n, 9) for n in (64, 32, 16, 8, 4)],
         {0: [4, 4, 32, 32], 8: [4, 4, 35.557785, 71.11557]}),
        ("efficientdet-lite", 320, [(n, 9) for n in (40, 20, 10, 5, 3)], {1: [4, 4, 33.6, 16.8]}),
        ("ssd300", 300, [(38, 4), (19, 6), (10, 6), (5, 6), (3, 4), (1, 4)],
         {0: [4, 4, 21, 21], 1: [4, 4, 30.740852, 30.740852]}),
        ("ssdlite", 320, [(n, 6) for n in (20, 10, 5, 3, 2, 1)],
         {2: [8, 8, 90.509674, 45.254837], 3232: [160, 160, 320, 175.5145]}),
    ],
)  # fmt: skip
def test_schemes(
    scheme: str, side: int, grids: list[tuple[int, int]], rows: dict[int, list[float]]
) -> None:
    found = anchors_of(scheme, (side, side), [Grid(n, n, boxes) for n, boxes in grids])
    assert len(found.rows) == sum(n * n * boxes for n, boxes in grids)
    for number, row in rows.items():
        np.testing.assert_allclose(found.rows[number, [0, 1, 4, 5]], row, rtol=1e-5)


def written(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def test_anchors_of_a_file(tmp_path: Path) -> None:
    """A softmax with a class for no object, and boxes as those of TFLite's SSD."""
    count = detectors.ROWS
    middles, strides = detectors.centres()
    rows = np.concatenate([middles * strides, np.repeat(strides, 2, 1)], axis=1)
    document = {
        "anchors": rows.tolist(), "coding": "exponential", "factors": [0.1, 0.2],
        "y_first": True, "scores": "softmax", "background": 1,
    }  # fmt: skip
    path = written(tmp_path / "anchors.json", document)
    graph = levels(1)
    objects, _ = found_in(with_detections(graph, HeadOptions(True, anchors=path)), image())
    scores, boxes = (fitzroy.evaluate(graph, {"image": image()})[x][0] for x in graph.outputs)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    sure = (powers / powers.sum(axis=1, keepdims=True))[:, 1:]
    best = int(sure.max(axis=1).argmax())
    assert len(sure) == count
    y, x, h, w = boxes[best]
    centre = rows[best, :2] + np.array([x, y]) * 0.1 * rows[best, 2:]
    extent = np.exp(np.array([w, h]) * 0.2) * rows[best, 2:]
    wanted = [*(centre - extent / 2), *(centre + extent / 2), sure[best].max(), sure[best].argmax()]
    np.testing.assert_allclose(objects[0], wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([1], "no map"),
        ({"anchors": [[1, 2, 3, 4]], "colour": 1}, "no map"),
        ({"anchors": [[1, 2, 3]]}, "nx4"),
        ({"anchors": "many"}, "no numbers|nx4"),
        ({"anchors": [[1, 2, 3, 1e999]]}, "up to 1e"),
        ({"anchors": [[1, 2, 3, 4]], "coding": "corners"}, "'corners'"),
        ({"anchors": [[1, 2, 3, 4]], "coding": []}, "the coding"),
        ({"anchors": [[1, 2, 3, 4]], "scores": "best"}, "'best'"),
        ({"anchors": [[1, 2, 3, 4]], "factors": [1]}, "factors"),
        ({"anchors": [[1, 2, 3, 4]], "background": -1}, "background"),
        ({"anchors": [[1, 2, 3, 4], [1, 2, 0, 4]]}, "0 pixels wide or high"),
    ],
)
def test_files_that_are_no_anchors(document: object, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        parse_anchors(json.dumps(document).encode(), "anchors.json")


def test_anchors_that_leave_no_class_are_refused(tmp_path: Path) -> None:
    document = {"anchors": [[1, 2, 3, 4]] * detectors.ROWS, "background": 99}
    options = HeadOptions(True, anchors=written(tmp_path / "anchors.json", document))
    with pytest.raises(UnsupportedError, match="99 classes stand for no object"):
        with_detections(levels(1), options)


def test_unknown_anchors_are_refused_with_the_schemes() -> None:
    with pytest.raises(UsageError, match="schemes are blaze, efficientdet"):
        with_detections(levels(1), HeadOptions(True, anchors="ssd500"))


def test_operators_survive_files() -> None:
    """Attributes of peaks and of scored keypoints are options of the operator in a file."""
    for graph in (listed(centres()), listed(person())):
        again = import_model(export_model(graph))
        (name,) = again.inputs
        before = fitzroy.evaluate(graph, {"image": image()})
        after = fitzroy.evaluate(again, {name: image()})
        for first, second in zip(before.values(), after.values(), strict=True):
            np.testing.assert_array_equal(first, second)
