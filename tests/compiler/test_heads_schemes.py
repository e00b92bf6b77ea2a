"""Heads that are not decoded, whose structure says what they are: NanoDet, YOLOX, SSDs, others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import MOST, OVERLAP, SCORE, expected, image, listed, rows_of
from tests.compiler.test_post_processing import detector
from tests.support import corpus_path

import fitzroy
from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.detections import CLASSES as BEST
from fitzroy.compiler.ops.detections import sigmoid
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.passes.heads.anchors import Grid, Scheme, anchors_of, parse_anchors
from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.pairs import pair_of
from fitzroy.compiler.passes.heads.rewriting import with_detections
from fitzroy.compiler.passes.heads.schemes import scheme_of
from fitzroy.compiler.quantization.agreement import mean_average_precision
from fitzroy.compiler.quantization.comparison import real_output, stored_input
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model

Floats = npt.NDArray[np.float32]
BINS, CLASSES = 8, 3


def nanodet(levels: int, form: str = "joined", *, bins: int = BINS, logits: bool = False) -> Graph:
    """Scores and logits of distances.

    Args:
        levels: how many there are.
        form: one output [1,n,c+4*bins] (`joined`) or [n,c+4*bins] (`flat`), or two (`apart`).
        bins: numbers of a distribution.
        logits: whether scores are.
    """
    m = detectors.Maker()
    found: list[list[str]] = []
    for level in range(levels):
        side = max(detectors.SIDE >> (level + 3), 1)
        x = m.sigmoid(m.layer(m.image, 8, detectors.SIDE // side))
        scores = m.layer(x, CLASSES)
        parts = [scores if logits else m.sigmoid(scores), m.layer(x, 4 * bins)]
        if form != "apart":
            parts = [m.join([m.transpose(part, 0, 3, 1, 2) for part in parts], 1)]
            parts = [m.reshape(parts[0], 1, CLASSES + 4 * bins, side * side)]
        else:
            parts = [m.reshape(part, 1, side * side, m.shape(part)[3]) for part in parts]
        found.append(parts)
    apart = form == "apart"
    joined = [m.join(list(parts), 1 if apart else 2) for parts in zip(*found, strict=True)]
    if apart:
        return m.done(*joined)
    rows = m.transpose(joined[0], 0, 2, 1)
    return m.done(m.reshape(rows, *m.shape(rows)[1:]) if form == "flat" else rows)


def decoded(rows: Floats, levels: int, middle: float, bins: int = BINS) -> Floats:
    """Rows as centres, extents and scores, of scores and logits of distances."""
    classes = rows.shape[1] - 4 * bins
    powers = np.exp(rows[:, classes:].reshape(len(rows), 4, bins))
    numbers = (powers / powers.sum(axis=2, keepdims=True)) @ np.arange(bins, dtype=np.float32)
    points, strides = [], []
    for level in range(levels):
        side = max(detectors.SIDE >> (level + 3), 1)
        y, x = np.mgrid[:side, :side].reshape(2, -1) + middle
        points.append(np.stack([x, y], axis=1))
        strides.append(np.full((side * side, 1), 8 << level))
    point, stride = np.concatenate(points), np.concatenate(strides)
    low, high = (point - numbers[:, :2]) * stride, (point + numbers[:, 2:]) * stride
    found: Floats = np.concatenate([(low + high) / 2, high - low, rows[:, :classes]], axis=1)
    return found


@pytest.mark.parametrize("form", ["joined", "apart", "flat"])
@pytest.mark.parametrize(("levels", "middle"), [(3, 0.5), (4, 0.0), (5, 0.0)])
def test_distributions_without_points(form: str, levels: int, middle: float) -> None:
    """NanoDet has points in the middle of cells; NanoDet-Plus and GFL have corners."""
    check_distributions(nanodet(levels, form), levels, middle)


def test_logits_beside_distributions() -> None:
    """Layers give both, and only the width of distributions of GFL tells them from scores."""
    check_distributions(nanodet(5, bins=17, logits=True), 5, 0.0, 17)


def check_distributions(graph: Graph, levels: int, middle: float, bins: int = BINS) -> None:
    """A detector lists what its scores and distributions say."""
    given = fitzroy.evaluate(graph, {"image": image()})
    rows = np.concatenate([given[x].reshape(-1, given[x].shape[-1]) for x in graph.outputs], axis=1)
    if (rows[:, :CLASSES] < 0).any():
        rows[:, :CLASSES] = sigmoid(rows[:, :CLASSES])
    wanted = expected(decoded(rows, levels, middle, bins), CLASSES, False)
    found = fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
    assert len(wanted) > 5
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )
    assert not found[len(wanted) :].any()


Order = Callable[[detectors.Maker, str], str]
"""How an export gives what a layer computes, an image [1,h,w,c]."""


def _cells(m: detectors.Maker, x: str) -> str:
    _, height, width, channels = m.shape(x)
    return m.reshape(x, 1, height * width, channels)


ORDERS: dict[str, Order] = {
    "rows": _cells,
    "numbers first": lambda m, x: m.transpose(_cells(m, x), 0, 2, 1),
    "images": lambda m, x: x,
    "channels first": lambda m, x: m.transpose(x, 0, 3, 1, 2),
}


def layers(order: str, *, sigmoids: bool, classes: int = CLASSES, bins: int = BINS) -> Graph:
    """Distributions of distances and scores, as the layers of three levels give them.

    Args:
        order: a key of `ORDERS`.
        sigmoids: whether scores are, or logits.
        classes: of objects.
        bins: numbers of a distribution.
    """
    m = detectors.Maker()
    found: list[list[str]] = []
    for level in range(3):
        x = m.sigmoid(m.layer(m.image, 8, 8 << level))
        scores = m.layer(x, classes)
        parts = [m.layer(x, 4 * bins), m.sigmoid(scores) if sigmoids else scores]
        found.append([ORDERS[order](m, part) for part in parts])
    # Some exports begin with the coarsest level.
    return m.done(*(name for parts in reversed(found) for name in parts))


def rows_of_layers(graph: Graph, order: str) -> Floats:
    """Scores and logits of distances [n,c+4*bins] of a float32 or a quantized graph."""
    given = fitzroy.evaluate(graph, {"image": stored_input(image(), graph.type("image"))})
    axis = 1 if order in ("numbers first", "channels first") else -1
    parts = [
        np.moveaxis(real_output(given[name], graph.type(name)), axis, -1) for name in graph.outputs
    ]
    flat = [part.reshape(-1, part.shape[-1]) for part in parts]
    boxes, scores = (np.concatenate(flat[kind::2][::-1]) for kind in (0, 1))
    if (scores < 0).any():
        scores = sigmoid(scores)
    rows: Floats = np.concatenate([scores, boxes], axis=1)
    return rows


@pytest.mark.parametrize("sigmoids", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_layers_of_every_level(order: str, sigmoids: bool) -> None:
    """Exports for accelerators leave out all that comes after the layers."""
    graph = layers(order, sigmoids=sigmoids)
    wanted = expected(decoded(rows_of_layers(graph, order), 3, 0.5), CLASSES, False)
    found = fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
    assert len(wanted) > 5
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )
    assert not found[len(wanted) :].any()


@pytest.mark.parametrize("classes", [CLASSES, 40])
@pytest.mark.parametrize("sigmoids", [False, True])
@pytest.mark.parametrize("order", ["rows", "channels first"])
def test_quantized_layers(order: str, sigmoids: bool, classes: int) -> None:
    """What the file gives is decoded with real numbers; the chip finds the best of many classes."""
    samples = [{"image": image(seed)} for seed in range(4)]
    graph = layers(order, sigmoids=sigmoids, classes=classes)
    stored = quantize_model(graph, samples, QuantizeOptions()).graph
    wanted = expected(decoded(rows_of_layers(stored, order), 3, 0.5), classes, False)
    result = with_best_classes(listed(stored))
    (node,) = (node for node in result.nodes() if node.op == "detections")
    assert (len(node.inputs) > BEST and node.inputs[BEST] is not None) == (classes > 32)
    given = {"image": stored_input(image(), result.type("image"))}
    found = fitzroy.evaluate(result, given)["detections"]
    assert len(wanted) > 5
    # The list reads logits, which tell the best scores apart where 8 bits of sigmoids do not.
    least = 0.8 if sigmoids else 0.99
    assert mean_average_precision([found], [np.array([item for _, item in wanted])]) > least
    # Levels have scales of their own, and scores one for all of them.
    assert abs(found[:, 4].max() - max(item[4] for _, item in wanted)) < 0.004


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


# --- torchvision's RetinaNet and FCOS ------------------------------------------------------------

LEVELS = (40, 20, 10, 5, 3)
"""Cells of a row of 320 pixels; those of the last level are 106 pixels apart."""


@pytest.mark.parametrize("scheme", [Scheme.RETINANET, Scheme.FCOS])
def test_anchors_of_torchvision(scheme: Scheme) -> None:
    """The same as the package makes of the same features."""
    torch = pytest.importorskip("torch")
    utils = pytest.importorskip("torchvision.models.detection.anchor_utils")
    lists = pytest.importorskip("torchvision.models.detection.image_list")
    octaves: tuple[float, ...] = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    ratio: tuple[float, ...] = (0.5, 1.0, 2.0)
    first = 32
    if scheme is Scheme.FCOS:
        octaves, ratio, first = octaves[:1], ratio[1:2], 8
    sizes = tuple(tuple(int((first << level) * x) for x in octaves) for level in range(5))
    ratios = (ratio,) * 5
    images = lists.ImageList(torch.zeros(1, 3, 320, 320), [(320, 320)])
    maker = utils.AnchorGenerator(sizes, ratios)
    (wanted,) = maker(images, [torch.zeros(1, 1, n, n) for n in LEVELS])
    boxes = len(sizes[0]) * len(ratios[0])
    rows = anchors_of(scheme, (320, 320), [Grid(n, n, boxes) for n in LEVELS]).rows
    extents = rows[:, 2:4]
    found = np.concatenate([rows[:, :2] - extents / 2, rows[:, :2] + extents / 2], axis=1)
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-4)


def fcos_layers(*, classes: int = CLASSES) -> Graph:
    """Scores, centerness and distances of five levels, each an output of its own."""
    m = detectors.Maker()
    parts: list[list[str]] = [[], [], []]
    for level in range(5):
        side = max(detectors.SIDE >> (level + 3), 1)
        x = m.sigmoid(m.layer(m.image, 8, detectors.SIDE // side))
        for found, channels in zip(parts, (classes, 1, 4), strict=True):
            found.append(m.reshape(m.layer(x, channels), 1, side * side, channels))
    return m.done(*(m.join(found, 1) for found in parts))


def test_fcos_is_decoded() -> None:
    """A score is the root of a product; distances are in units from the corners of cells."""
    graph = fcos_layers()
    options = HeadOptions(True, score_threshold=SCORE, overlap=0.99, most=MOST, anchors="fcos")
    found = fitzroy.evaluate(with_detections(graph.copy(), options), {"image": image()})
    scores, sure, boxes = (fitzroy.evaluate(graph, {"image": image()})[x][0] for x in graph.outputs)
    shares = np.sqrt(1 / (1 + np.exp(-scores)) / (1 + np.exp(-sure)))
    best = int(shares.max(axis=1).argmax())
    cells, steps, units = [], [], []
    for level, side in enumerate((8, 4, 2, 1, 1)):
        y, x = np.mgrid[:side, :side].reshape(2, -1)
        cells.append(np.stack([x, y], axis=1))
        steps.append(np.full((side * side, 1), detectors.SIDE // side))
        units.append(np.full((side * side, 1), 8 << level))
    point = (np.concatenate(cells) * np.concatenate(steps))[best]
    distances = boxes[best] * np.concatenate(units)[best]
    wanted = [*(point - distances[:2]), *(point + distances[2:]), shares[best].max(),
              shares[best].argmax()]  # fmt: skip
    np.testing.assert_allclose(found["detections"][0], wanted, rtol=1e-4, atol=1e-4)


def test_boxes_scores_and_objectness_apart_need_a_name() -> None:
    """FCOS and others have such outputs; none is chosen, YOLOX neither."""
    with pytest.raises(UnsupportedError, match="which the model does not hold") as caught:
        with_detections(fcos_layers(), HeadOptions(True))
    assert "fcos" in caught.value.hint


def test_four_classes_are_not_told_from_boxes() -> None:
    with pytest.raises(UnsupportedError, match="--anchors is for models"):
        with_detections(fcos_layers(classes=4), HeadOptions(True, anchors="fcos"))


def test_a_scheme_without_objectness() -> None:
    m = detectors.Maker()
    graph = m.done(*(
        m.join([
            m.reshape(m.layer(m.sigmoid(m.layer(m.image, 8, detectors.SIDE // side)), channels),
                      1, side * side, channels)
            for side in (8, 4, 2, 1, 1)
        ], 1)
        for channels in (4, CLASSES)
    ))  # fmt: skip
    with pytest.raises(UnsupportedError, match="boxes have no objectness, those of fcos have an"):
        with_detections(graph, HeadOptions(True, anchors="fcos"))


# --- layers of YOLOs -----------------------------------------------------------------------------

NUMBERS = 5 + CLASSES
FORMS = ("anchors first", "cells first", "channels first", "channels last")


def yolo_layers(form: str, *, coarse_first: bool = False) -> Graph:
    """What layers of three levels give for each cell and anchor, in the order of a form."""
    m = detectors.Maker()
    outputs = []
    for stride in (8, 16, 32):
        side = detectors.SIDE // stride
        x = m.layer(m.sigmoid(m.layer(m.image, 8, stride)), 3 * NUMBERS)
        if form == "channels first":
            x = m.transpose(x, 0, 3, 1, 2)
        elif form != "channels last":
            x = m.reshape(x, 1, side, side, 3, NUMBERS)
            x = m.transpose(x, 0, 3, 1, 2, 4) if form == "anchors first" else x
        outputs.append(x)
    return m.done(*(reversed(outputs) if coarse_first else outputs))


OF_YOLOV3 = [[10, 13], [16, 30], [33, 23], [30, 61], [62, 45], [59, 119], [116, 90], [156, 198],
             [373, 326]]  # fmt: skip
OF_YOLOV4 = [[12, 16], [19, 36], [40, 28], [36, 75], [76, 55], [72, 146], [142, 110], [192, 243],
             [459, 401]]  # fmt: skip


def yolo_rows(graph: Graph, scheme: str, *, plain: bool = False) -> Floats:
    """Centres, extents, objectness and scores [n,5+c] as the models' own decoders give them.

    Args:
        graph: the model.
        scheme: whose anchors and decoder.
        plain: whether sigmoids of YOLOv4 reach over one cell, as those of YOLOv3 do.
    """
    outputs = fitzroy.evaluate(graph, {"image": image()})
    found = []
    for name in graph.outputs:
        x = outputs[name][0]
        if x.ndim == 3:
            x = x.transpose(1, 2, 0) if x.shape[0] == 3 * NUMBERS else x
            x = x.reshape(*x.shape[:2], 3, NUMBERS)
        elif x.shape[0] == 3:
            x = x.transpose(1, 2, 0, 3)
        side = len(x)
        stride = detectors.SIDE // side
        level = (8, 16, 32).index(stride)
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1)[:, :, None]
        sizes = np.array(OF_YOLOV3 if scheme in ("yolov3", "yolov5") else OF_YOLOV4)
        sizes = sizes[3 * level : 3 * level + 3]
        share = 1 / (1 + np.exp(-x))
        if scheme in ("yolov5", "yolov7"):
            xy = (share[..., :2] * 2 - 0.5 + grid) * stride
            wh = (share[..., 2:4] * 2) ** 2 * sizes
        else:
            scale = (1.2, 1.1, 1.05)[level] if scheme == "yolov4" and not plain else 1.0
            xy = (share[..., :2] * scale - 0.5 * (scale - 1) + grid) * stride
            wh = np.exp(x[..., 2:4]) * sizes
        found.append(np.concatenate([xy, wh, share[..., 4:]], axis=-1).reshape(-1, NUMBERS))
    rows: Floats = np.concatenate(found).astype(np.float32)
    return rows


@pytest.mark.parametrize("scheme", ["yolov3", "yolov4", "yolov5", "yolov7"])
@pytest.mark.parametrize("form", FORMS)
def test_layers_of_yolos(scheme: str, form: str) -> None:
    graph = yolo_layers(form, coarse_first=form == "cells first")
    options = HeadOptions(True, score_threshold=SCORE, overlap=OVERLAP, most=MOST, anchors=scheme)
    found = fitzroy.evaluate(with_detections(graph.copy(), options), {"image": image()})
    wanted = expected(yolo_rows(graph, scheme), CLASSES, objectness=True)
    assert len(wanted) > 2
    rows = found["detections"]
    assert not rows[len(wanted) :].any()
    for (_, item), row in zip(wanted, rows, strict=False):
        np.testing.assert_allclose(row, item, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("decoder", ["yolov3", "yolov7"])
def test_layers_of_yolos_with_anchors_of_their_own(decoder: str, tmp_path: Path) -> None:
    path = tmp_path / "anchors.json"
    own = OF_YOLOV4 if decoder == "yolov3" else OF_YOLOV3
    path.write_text(json.dumps({"decoder": decoder, "anchors": own}))
    graph = yolo_layers("anchors first")
    options = HeadOptions(
        True, score_threshold=SCORE, overlap=OVERLAP, most=MOST, anchors=str(path)
    )
    found = fitzroy.evaluate(with_detections(graph.copy(), options), {"image": image()})
    # The decoders of the others that have these anchors.
    rows = yolo_rows(graph, {"yolov3": "yolov4", "yolov7": "yolov5"}[decoder], plain=True)
    wanted = expected(rows, CLASSES, objectness=True)
    assert len(wanted) > 2
    for (_, item), row in zip(wanted, found["detections"], strict=False):
        np.testing.assert_allclose(row, item, rtol=1e-4, atol=1e-3)


def test_two_levels_of_a_yolo(tmp_path: Path) -> None:
    """Cells say which levels they are: tiny models have those of 16 and 32 pixels."""
    path = tmp_path / "anchors.json"
    path.write_text(json.dumps({"decoder": "yolov5", "anchors": OF_YOLOV3[3:]}))
    graph = yolo_layers("cells first")
    graph.outputs = graph.outputs[:0:-1]
    options = HeadOptions(
        True, score_threshold=SCORE, overlap=OVERLAP, most=MOST, anchors=str(path)
    )
    found = fitzroy.evaluate(with_detections(graph.copy(), options), {"image": image()})
    wanted = expected(yolo_rows(graph, "yolov5"), CLASSES, objectness=True)
    assert wanted
    for (_, item), row in zip(wanted, found["detections"], strict=False):
        np.testing.assert_allclose(row, item, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"decoder": "yolov9", "anchors": OF_YOLOV3}, "the decoder is 'yolov9', not yolov3"),
        ({"decoder": [], "anchors": OF_YOLOV3}, "the decoder is"),
        ({"decoder": "yolov5"}, "no map of anchors and decoder"),
        ({"decoder": "yolov5", "anchors": OF_YOLOV3, "factors": [1, 1]}, "no map of anchors"),
        ({"decoder": "yolov5", "anchors": []}, "nx2|0 anchors"),
        ({"decoder": "yolov5", "anchors": OF_YOLOV3[:4]}, "4 anchors, not 3 of each level"),
        ({"decoder": "yolov5", "anchors": [[1, 2], [3, 0], [5, 6]]}, "0 pixels wide or high"),
        ({"decoder": "yolov5", "anchors": [[1, 2, 3, 4]] * 3}, "nx2"),
    ],
)
def test_files_that_are_no_yolos(document: object, text: str) -> None:
    with pytest.raises(FormatError, match=text):
        parse_anchors(json.dumps(document).encode(), "anchors.json")


@pytest.mark.parametrize("form", FORMS)
def test_layers_of_yolos_need_a_name(form: str) -> None:
    """Nothing in the file says whether extents are squares or exponentials."""
    with pytest.raises(UnsupportedError, match="no head") as caught:
        with_detections(yolo_layers(form), HeadOptions(True))
    assert "yolov3, yolov4, yolov5, yolov7" in caught.value.hint


def test_cells_that_are_no_yolos() -> None:
    m = detectors.Maker()
    graph = m.done(*(m.layer(m.image, 3 * NUMBERS, stride) for stride in (4, 8, 16)))
    with pytest.raises(UnsupportedError, match="levels have cells of 4, 8, 16 pixels"):
        with_detections(graph, HeadOptions(True, anchors="yolov5"))


def test_other_heads_are_no_layers_of_yolos() -> None:
    m = detectors.Maker()
    graph = m.done(m.rows([4]), m.rows([CLASSES]))
    with pytest.raises(UnsupportedError, match="boxes in a cell of its levels"):
        with_detections(graph, HeadOptions(True, anchors="yolov5"))
