"""Heads that give their anchors beside boxes: SSDs written with Keras."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import MOST, SCORE, expected, image, listed, the_node

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.detections import DetectionsAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections
from fitzroy.compiler.quantization.agreement import mean_average_precision
from fitzroy.compiler.quantization.comparison import stored_input
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model

Floats = npt.NDArray[np.float32]
CLASSES = detectors.CLASSES
VARIANCES = (0.1, 0.12, 0.2, 0.2)
EXTENTS = (0.2, 0.45)
"""Of the squares of each level, in parts of the image."""


def anchors() -> Floats:
    """Centres and extents [n,4] in parts of the image."""
    points, strides = detectors.centres()
    counts = [side * side for side, _ in detectors.CELLS]
    extents = np.repeat(EXTENTS, counts)[:, None].repeat(2, axis=1)
    found = np.concatenate([points * strides / detectors.SIDE, extents], axis=1)
    return found.astype(np.float32)


def ssd(
    *,
    boxes_first: bool = False,
    joined: bool = False,
    priors: Floats | None = None,
    variances: tuple[float, ...] = VARIANCES,
) -> Graph:
    """Probabilities, encoded boxes, anchors and variances [1,n,c+12].

    Args:
        boxes_first: whether boxes come before probabilities.
        joined: whether anchors and variances are one constant.
        priors: anchors [n,4]; those of `anchors` if there are none.
        variances: of the numbers of a box.
    """
    m = detectors.Maker()
    logits, boxes = m.rows([1 + CLASSES]), m.rows([4])
    sure = m.emit("softmax", [logits], m.shape(logits), SoftmaxAttributes())
    found = (anchors() if priors is None else priors)[None]
    factors = np.broadcast_to(np.array(variances, np.float32), found.shape)
    beside = [np.concatenate([found, factors], axis=2)] if joined else [found, factors]
    parts = [boxes, sure] if boxes_first else [sure, boxes]
    return m.done(m.join([*parts, *(m.constant(each) for each in beside)], 2))


def rows_of(given: Floats, *, boxes_first: bool = False, pixels: int = detectors.SIDE) -> Floats:
    """Centres, extents and scores of objects [n,4+c] in pixels of what a model gives [n,c+12]."""
    first, scores = given[:, -12:-8], given[:, 1:-12]
    if boxes_first:
        first, scores = given[:, :4], given[:, 5:-8]
    places, factors = given[:, -8:-4], given[:, -4:]
    centre = first[:, :2] * factors[:, :2] * places[:, 2:] + places[:, :2]
    extent = np.exp(first[:, 2:] * factors[:, 2:]) * places[:, 2:]
    rows: Floats = np.concatenate([centre * pixels, extent * pixels, scores], axis=1)
    return rows


@pytest.mark.parametrize("boxes_first", [False, True])
@pytest.mark.parametrize("joined", [False, True])
def test_anchors_beside_boxes(boxes_first: bool, joined: bool) -> None:
    """The first class is none of an object, and variances are factors."""
    graph = ssd(boxes_first=boxes_first, joined=joined)
    given = fitzroy.evaluate(graph, {"image": image()})[graph.outputs[0]][0]
    wanted = expected(rows_of(given, boxes_first=boxes_first), CLASSES, False)
    result = listed(graph)
    found = fitzroy.evaluate(result, {"image": image()})["detections"]
    assert len(wanted) > 5
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )
    a = the_node(result).attributes
    assert isinstance(a, DetectionsAttributes)
    assert a.background == 1


def test_anchors_in_pixels() -> None:
    graph = ssd(priors=anchors() * np.float32(detectors.SIDE))
    given = fitzroy.evaluate(graph, {"image": image()})[graph.outputs[0]][0]
    wanted = expected(rows_of(given, pixels=1), CLASSES, False)
    found = fitzroy.evaluate(listed(graph), {"image": image()})["detections"]
    assert len(wanted) > 5
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )


def test_quantized_boxes_without_their_anchors() -> None:
    """Boxes and probabilities have scales of their own, and anchors stay numbers of the model."""
    graph = with_detections(ssd(), HeadOptions(True, score_threshold=SCORE, most=MOST))
    samples = [{"image": image(seed)} for seed in range(4)]
    result = quantize_model(graph, samples, QuantizeOptions()).graph
    exact = fitzroy.evaluate(graph, {"image": image()})["detections"]
    given = {"image": stored_input(image(), result.type("image"))}
    found = fitzroy.evaluate(result, given)["detections"]
    assert mean_average_precision([found], [exact]) > 0.9


def test_corners_are_no_anchors() -> None:
    """Boxes that are relative to corners have other codings."""
    places = anchors()
    half = places[:, 2:] / 2
    corners = np.concatenate([places[:, :2] - half, places[:, :2] + half], axis=1)
    for order in ([0, 1, 2, 3], [0, 2, 1, 3]):
        with pytest.raises(UnsupportedError, match="no centres and extents"):
            listed(ssd(priors=corners[:, order]))


def test_variances_of_extents_are_the_same() -> None:
    with pytest.raises(UnsupportedError, match=r"several variances: 0\.2, 0\.3"):
        listed(ssd(variances=(0.1, 0.1, 0.2, 0.3)))
