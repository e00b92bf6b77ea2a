"""Heads that are not decoded, whose structure says what they are: NanoDet, YOLOX, SSDs, others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import MOST, OVERLAP, SCORE, expected, image, listed, rows_of
from tests.compiler.test_post_processing import detector
from tests.support import corpus_path

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.passes.heads.anchors import Grid, Scheme, anchors_of
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.pairs import pair_of
from fitzroy.compiler.passes.heads.rewriting import with_detections
from fitzroy.compiler.passes.heads.schemes import scheme_of

Floats = npt.NDArray[np.float32]
BINS, CLASSES = 8, 3


def nanodet(levels: int, *, apart: bool = False) -> Graph:
    """Scores and logits of distances, in one output [1,n,c+4*bins] or in two."""
    m = detectors.Maker()
    found: list[list[str]] = []
    for level in range(levels):
        x = m.sigmoid(m.layer(m.image, 8, 8 << level))
        side = detectors.SIDE >> (level + 3)
        parts = [m.sigmoid(m.layer(x, CLASSES)), m.layer(x, 4 * BINS)]
        if not apart:
            parts = [m.join([m.transpose(part, 0, 3, 1, 2) for part in parts], 1)]
            parts = [m.reshape(parts[0], 1, CLASSES + 4 * BINS, side * side)]
        else:
            parts = [m.reshape(part, 1, side * side, m.shape(part)[3]) for part in parts]
        found.append(parts)
    joined = [m.join(list(parts), 1 if apart else 2) for parts in zip(*found, strict=True)]
    return m.done(*(joined if apart else [m.transpose(joined[0], 0, 2, 1)]))


def decoded(rows: Floats, levels: int, middle: float) -> Floats:
    """Rows as centres, extents and scores, of scores and logits of distances."""
    powers = np.exp(rows[:, CLASSES:].reshape(len(rows), 4, BINS))
    numbers = (powers / powers.sum(axis=2, keepdims=True)) @ np.arange(BINS, dtype=np.float32)
    points, strides = [], []
    for level in range(levels):
        side = detectors.SIDE >> (level + 3)
        y, x = np.mgrid[:side, :side].reshape(2, -1) + middle
        points.append(np.stack([x, y], axis=1))
        strides.append(np.full((side * side, 1), 8 << level))
    point, stride = np.concatenate(points), np.concatenate(strides)
    low, high = (point - numbers[:, :2]) * stride, (point + numbers[:, 2:]) * stride
    found: Floats = np.concatenate([(low + high) / 2, high - low, rows[:, :CLASSES]], axis=1)
    return found


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("levels", "middle"), [(3, 0.5), (4, 0.0)])
def test_distributions_without_points(apart: bool, levels: int, middle: float) -> None:
    """NanoDet has three levels and points in the middle of cells, NanoDet-Plus four and corners."""
    graph = nanodet(levels, apart=apart)
    given = fitzroy.evaluate(graph, {"image": image()})
    rows = np.concatenate([given[name][0] for name in graph.outputs], axis=1)
    wanted = expected(decoded(rows, levels, middle), CLASSES, False)
    found = fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
    assert len(wanted) > 5
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )
    assert not found[len(wanted) :].any()


def test_offsets_without_cells() -> None:
    """YOLOX without its decoder gives what it gives with it."""
    graph = detectors.exponential()
    wanted = expected(rows_of(graph, image()), detectors.CLASSES, True)
    raw = listed(detectors.exponential(decoding=False))
    found = fitzroy.evaluate(raw, {"image": image()})["detections"]
    assert len(wanted) > 5
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )


def efficientdet(*, separable: bool = True, gates: bool = False) -> Graph:
    """Images of scores and boxes of five levels, with nine boxes in a cell."""
    m = detectors.Maker()
    boxes, scores = [], []
    for level in range(5):
        side = max(detectors.SIDE >> (level + 3), 1)
        x = m.layer(m.image, 64, detectors.SIDE // side)
        if gates:
            x = m.binary("mul", x, m.sigmoid(x))
        if separable:
            filters = m.constant(np.ones((1, 1, 1, 64), np.float32))
            a = ConvAttributes(padding=PaddingScheme.VALID)
            bias = m.constant(np.zeros(64, np.float32))
            x = m.emit("depthwise_conv_2d", [x, filters, bias], m.shape(x), a)
        scores.append(m.transpose(m.layer(x, 9 * CLASSES), 0, 3, 1, 2))
        boxes.append(m.transpose(m.layer(x, 9 * 4), 0, 3, 1, 2))
    return m.done(*scores, *boxes)


@pytest.mark.parametrize(
    ("gates", "scheme"), [(False, "efficientdet-lite"), (True, "efficientdet")]
)
def test_efficientdet_by_its_structure(gates: bool, scheme: str) -> None:
    """Lite models have no sigmoids in their features, and smaller anchors."""
    both = [
        with_detections(efficientdet(gates=gates), HeadOptions(True, anchors=anchors))
        for anchors in (None, scheme)
    ]
    first, second = (fitzroy.evaluate(graph, {"image": image()})["detections"] for graph in both)
    assert np.count_nonzero(first[:, 4]) > 10
    np.testing.assert_array_equal(first, second)


def test_other_anchors_of_nine_are_asked_for() -> None:
    """RetinaNet has as many boxes on as many levels, and other anchors."""
    with pytest.raises(UnsupportedError, match="the model does not hold"):
        with_detections(efficientdet(separable=False), HeadOptions(True))


SIX_LEVELS = [(10, 6), (5, 6), (3, 6), (2, 6), (1, 6)]
PYRAMID = [(side, 6) for side in (40, 20, 10, 5, 3)]


@pytest.mark.parametrize(
    ("side", "cells", "shared", "apart"),
    [
        (320, [(20, 6), *SIX_LEVELS], Scheme.SSDLITE, None),
        (512, [(20, 6), *SIX_LEVELS], None, None),
        (300, [(38, 4), (19, 6), (10, 6), (5, 6), (3, 4), (1, 4)], Scheme.SSD300, None),
        (300, [(19, 3), *SIX_LEVELS], None, Scheme.SSD_MOBILENET),
        (320, [(20, 3), *SIX_LEVELS], None, Scheme.SSD_MOBILENET),
        (320, [(19, 3), *SIX_LEVELS], None, None),
        (320, PYRAMID, None, Scheme.SSD_FPN),
        (640, PYRAMID, None, None),
        (320, PYRAMID[:4], None, None),
    ],
)
def test_default_boxes_by_cells(
    side: int, cells: list[tuple[int, int]], shared: Scheme | None, apart: Scheme | None
) -> None:
    """torchvision's, whose classes share one probability; TensorFlow's have scores of their own."""
    for sigmoids, scheme in ((False, shared), (True, apart)):
        m = detectors.Maker()
        scores = m.sigmoid(m.rows([CLASSES])) if sigmoids else m.rows([CLASSES])
        graph = m.done(m.rows([4]), scores)
        pair = pair_of(Columns(graph))
        assert pair is not None
        found = scheme_of(graph, pair, (side, side), [Grid(n, n, boxes) for n, boxes in cells])
        assert found == scheme


def corners(rows: Floats) -> Floats:
    """Left, top, right and bottom [n,4] of anchors [n,6]."""
    found: Floats = np.concatenate(
        [rows[:, :2] - rows[:, 4:] / 2, rows[:, :2] + rows[:, 4:] / 2], axis=1
    )
    return found


def test_anchors_of_ssd_mobilenet() -> None:
    """Three in a cell of 16 pixels: a tenth of the image, and a fifth, wide and high."""
    grids = [Grid(n, n, boxes) for n, boxes in ((20, 3), *SIX_LEVELS)]
    found = anchors_of("ssd-mobilenet", (320, 320), grids).rows
    assert len(found) == 20 * 20 * 3 + (100 + 25 + 9 + 4 + 1) * 6 == 2034
    half = 32 / np.sqrt(2)
    wanted = [
        [8 - 16, 8 - 16, 8 + 16, 8 + 16],
        [8 - 2 * half, 8 - half, 8 + 2 * half, 8 + half],
        [8 - half, 8 - 2 * half, 8 + half, 8 + 2 * half],
        [24 - 16, 8 - 16, 24 + 16, 8 + 16],
    ]
    np.testing.assert_allclose(corners(found[:4]), wanted, rtol=1e-6)
    sides = 320 * np.array([0.95, 0.95 * np.sqrt(2), 0.95 / np.sqrt(2)])
    np.testing.assert_allclose(found[-6:-3, 4], sides, rtol=1e-6)
    np.testing.assert_allclose(found[-1], [160, 160, *[32 * 0.95**0.5] * 2, *[320 * 0.95**0.5] * 2])


def test_anchors_of_ssd_mobilenet_in_a_wide_image() -> None:
    """Squares stay squares, in parts of the shorter side."""
    grids = [Grid(10, 20, 3), *(Grid(-(-n // 2), n, 6) for n, _ in SIX_LEVELS)]
    found = anchors_of("ssd-mobilenet", (320, 160), grids).rows
    np.testing.assert_allclose(corners(found[:1]), [[0, 0, 16, 16]])


def test_anchors_of_ssd_fpn() -> None:
    """Four strides and its square root of 2 more; cells that do not fill the image begin at 0."""
    grids = [Grid(n, n, boxes) for n, boxes in PYRAMID]
    found = anchors_of("ssd-fpn", (320, 320), grids).rows
    assert len(found) == (1600 + 400 + 100 + 25 + 9) * 6 == 12804
    root = np.sqrt(2)
    extents = [[1, 1], [root, root], [root, 1 / root], [2, 1], [1 / root, root], [1, 2]]
    np.testing.assert_allclose(found[:6, :2], [[4, 4]] * 6)
    np.testing.assert_allclose(found[:6, 4:], 32 * np.array(extents), rtol=1e-6)
    np.testing.assert_allclose(found[-6:, :2], [[256, 256]] * 6)
    np.testing.assert_allclose(found[-6:, 4:], 512 * np.array(extents), rtol=1e-6)
    np.testing.assert_allclose(found[-9 * 6 - 1], [288, 288, *found[-9 * 6 - 1, 2:]])


def test_anchors_of_a_published_model() -> None:
    """The same as an SSD on MobileNet v2 has in its post-processing."""
    name = "ssd_mobilenet_v2_coco_segment_1_of_2_edgetpu.tflite"
    file = corpus_path().parent / "study" / "timing" / name
    if not file.is_file():
        pytest.skip(f"no file {file} (set FITZROY_CORPUS)")
    graph = fitzroy.load(file)
    (node,) = (node for node in graph.nodes() if node.op == "detection_post_process")
    data = graph.value(str(node.inputs[2])).data
    assert data is not None
    grids = [Grid(n, n, boxes) for n, boxes in ((19, 3), *SIX_LEVELS)]
    found = anchors_of("ssd-mobilenet", (300, 300), grids).rows
    np.testing.assert_allclose(found[:, [1, 0, 5, 4]] / 300, data, atol=1e-6)


def tensorflow_ssd(scheme: Scheme) -> tuple[Graph, Floats]:
    """Boxes and scores of no object and of one class, and anchors [n,4] for TFLite's kernel.

    The anchors are y, x, height and width in parts of the image.
    """
    m = detectors.Maker()
    pyramid = scheme is Scheme.SSD_FPN
    boxes, scores, grids = [], [], []
    for level in range(5 if pyramid else 6):
        # Six levels of cells of 16 pixels and more; five of 8 and more.
        side = max(detectors.SIDE >> (level + (3 if pyramid else 4)), 1)
        count = 3 if not pyramid and not level else 6
        x = m.sigmoid(m.layer(m.image, 8, detectors.SIDE // side))
        boxes.append(m.reshape(m.layer(x, 4 * count), 1, side * side * count, 4))
        scores.append(m.reshape(m.layer(x, 2 * count), 1, side * side * count, 2))
        grids.append(Grid(side, side, count))
    graph = m.done(m.join(boxes, 1), m.sigmoid(m.join(scores, 1)))
    rows = anchors_of(scheme, (detectors.SIDE, detectors.SIDE), grids).rows
    return graph, rows[:, [1, 0, 5, 4]] / np.float32(detectors.SIDE)


@pytest.mark.parametrize("scheme", [Scheme.SSD_MOBILENET, Scheme.SSD_FPN])
def test_ssds_are_decoded_as_tflite_does(scheme: Scheme) -> None:
    """Recognised, they list what TFLite's post-processing lists for the same anchors."""
    graph, anchors = tensorflow_ssd(scheme)
    found = fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
    boxes, scores = fitzroy.evaluate(graph, {"image": image()}).values()
    a = DetectionAttributes(MOST, 1, 1, SCORE, OVERLAP, 10.0, 10.0, 5.0, 5.0)
    kernel = detector(anchors, a, background=1)
    results = fitzroy.evaluate(kernel, {"boxes": boxes, "scores": scores})
    places, classes, certain, number = (results[name] for name in kernel.outputs)
    count = int(number[0])
    assert count > 5
    wanted = places[0, :count][:, [1, 0, 3, 2]] * detectors.SIDE
    np.testing.assert_allclose(found[:count, :4], wanted, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found[:count, 4], certain[0, :count], rtol=1e-6)
    np.testing.assert_array_equal(found[:count, 5], classes[0, :count])
    assert not found[count:].any()


def test_anchors_of_another_coding() -> None:
    with pytest.raises(UnsupportedError, match="distances to their edges, those of yolox"):
        with_detections(nanodet(3), HeadOptions(True, anchors="yolox"))


def test_cells_of_another_size() -> None:
    """Points are known only where cells are."""
    with pytest.raises(UnsupportedError, match=r"level 1 has 5 x 5 cells, .* 16 pixels are 4 x 4"):
        anchors_of("nanodet", (64, 64), [Grid(8, 8, 1), Grid(5, 5, 1)])
