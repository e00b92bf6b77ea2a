"""Probabilities of a softmax of which one number counts, as SSD has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors, edgetpu_models
from tests.compiler.test_heads import image, the_node
from tests.compiler.test_heads_apart import levels, written

import fitzroy
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.ops.detections import CLASSES as BEST
from fitzroy.compiler.ops.detections import SCORES
from fitzroy.compiler.passes.heads.best_class import Group, number_of
from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections
from fitzroy.compiler.passes.heads.shared_probability import shared
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model

Floats = npt.NDArray[np.float32]
CLASSES, SIDE, THRESHOLD = 41, 4, 0.25
SCALE = 0.08


def made(stride: int) -> Graph:
    """The probability and the class of the best of 40 classes, the first of 41 left out."""
    graph = Graph("scores")
    shape = (1, SIDE, SIDE, CLASSES * stride)
    graph.add_input("scores", TensorType(shape, DType.INT8, Quantization.per_tensor(SCALE, 0)))
    found = shared(graph, Group("scores", stride, stride), 1, THRESHOLD)
    graph.outputs = [found.probability, number_of(graph, found.objects, found.best)]
    graph.prune()
    return graph


def scores(stride: int, seed: int) -> npt.NDArray[np.int8]:
    """Scores of which some stand out."""
    random = np.random.default_rng(seed)
    numbers = random.normal(-30, 20, (1, SIDE, SIDE, CLASSES, stride))
    rows = numbers.reshape(-1, CLASSES, stride)
    for row in rows[::2]:
        row[random.integers(CLASSES)] += random.uniform(40, 120)
    return np.clip(np.rint(numbers), -128, 127).astype(np.int8).reshape(1, SIDE, SIDE, -1)


@pytest.mark.parametrize("stride", [1, 4])
def test_probability_of_the_best_class(stride: int) -> None:
    """It is near the softmax in float64, and the class is that of the largest score."""
    graph, seen = made(stride), 0
    for seed in range(4):
        given = scores(stride, seed)
        sure, codes = fitzroy.evaluate(graph, {"scores": given}).values()
        numbers = given.reshape(-1, CLASSES, stride).transpose(0, 2, 1).reshape(-1, CLASSES)
        powers = np.exp(numbers * np.float64(SCALE))
        wanted = (powers / powers.sum(axis=1, keepdims=True))[:, 1:].max(axis=1)
        found = (sure.reshape(-1).astype(np.int32) + 128) / 255
        clear = wanted > THRESHOLD
        np.testing.assert_allclose(found[clear], wanted[clear], atol=0.03)
        assert (found[~clear] < THRESHOLD + 0.03).all()
        best = numbers[:, 1:].argmax(axis=1)
        np.testing.assert_array_equal(127 - codes.reshape(-1).astype(np.int32), best)
        seen += int(clear.sum())
    assert seen > 20


@pytest.mark.long
def test_chip_computes_what_its_reference_does() -> None:
    graph = made(4)
    package = edgetpu_models.program(graph)
    assert edgetpu_models.differences(graph, package, 1) == ""


def detector(path: Path, threshold: float) -> Graph:
    """A quantized detector with six boxes in a cell, whose classes share one probability."""
    middles, strides = detectors.centres()
    rows = np.repeat(np.concatenate([middles * strides, strides, strides], axis=1), 6, axis=0)
    document = {"anchors": rows.tolist(), "scores": "softmax", "background": 1}
    options = HeadOptions(True, score_threshold=threshold, anchors=written(path, document))
    graph = with_detections(levels(6, classes=CLASSES), options)
    samples = [{"image": image(seed)} for seed in range(2)]
    return quantize_model(graph, samples, QuantizeOptions()).graph


def test_objects_of_a_softmax(tmp_path: Path) -> None:
    """Scores are those of the host's softmax but for their rounding."""
    before = detector(tmp_path / "anchors.json", THRESHOLD)
    after = with_best_classes(before.copy())
    assert not any(node.op == "softmax" for node in after.nodes())
    assert after.type(str(the_node(after).inputs[SCORES])).shape == (1, 6 * detectors.ROWS, 1)
    compared = 0
    for seed in range(3):
        picture = np.random.default_rng(seed).integers(-128, 128, (1, 64, 64, 3)).astype(np.int8)
        probabilities, sure, codes = (
            fitzroy.evaluate(graph.cut([name]), {"image": picture})[name].astype(np.int32)[0]
            for graph, name in [
                (before, str(the_node(before).inputs[SCORES])),
                (after, str(the_node(after).inputs[SCORES])),
                (after, str(the_node(after).inputs[BEST])),
            ]
        )
        wanted = (probabilities[:, 1:].max(axis=1) + 128) / 256
        clear = wanted > THRESHOLD
        np.testing.assert_allclose((sure[clear, 0] + 128) / 255, wanted[clear], atol=0.03)
        places = 1 + 127 - codes[clear, 0]
        chosen = probabilities[clear][np.arange(len(places)), places]
        np.testing.assert_array_equal(chosen, probabilities[clear, 1:].max(axis=1))
        compared += len(places)
    assert compared > 20


def test_low_thresholds_are_left_to_the_host(tmp_path: Path) -> None:
    """Sums of exponentials have no room for them."""
    before = detector(tmp_path / "anchors.json", 0.01)
    assert print_graph(with_best_classes(before.copy())) == print_graph(before)
