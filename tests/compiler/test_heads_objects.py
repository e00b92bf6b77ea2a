"""Ranges of boxes from the boxes of objects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import listed as listed_with_defaults
from tests.compiler.test_heads import the_node
from tests.compiler.test_heads_kept import BOXES, CLASSES, PLAIN, ending, listed, picture

from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.passes.heads.objects import ranges_of_objects
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model

Floats = npt.NDArray[np.float32]
FAR = 1000.0


def with_garbage(seed: int) -> Floats:
    """Boxes and scores as an image; two of three boxes are far out and no objects."""
    image = picture(seed, different=False)
    rows = image.reshape(BOXES, 4 + CLASSES)
    rows[::3, 4:], rows[1::3, 4:] = 0.1, 0.01
    rows[::3, :4], rows[1::3, :4] = FAR, -FAR
    return image


@pytest.mark.parametrize("a", [PLAIN, replace(PLAIN, use_regular_nms=True)])
def test_boxes_of_no_object_do_not_count(a: DetectionAttributes) -> None:
    graph = listed(ending(a), HeadOptions(True))
    pictures = [with_garbage(seed) for seed in range(2)]
    rows = np.concatenate([image.reshape(BOXES, -1)[2::3] for image in pictures])
    low, high = float(rows[:, :4].min()), float(rows[:, :4].max())
    margin = 0.25 * (high - low)
    found = ranges_of_objects(graph, [{"image": image} for image in pictures])
    assert len(found) == 1
    np.testing.assert_allclose(next(iter(found.values())), (low - margin, high + margin), rtol=1e-6)


def test_few_objects_say_nothing() -> None:
    graph = listed(ending(PLAIN), HeadOptions(True))
    image = with_garbage(0)
    image.reshape(BOXES, -1)[30:, 4:] = 0
    assert not ranges_of_objects(graph, [{"image": image}])
    assert not ranges_of_objects(detectors.dfl(), [{"image": np.ones((1, 64, 64, 3), np.float32)}])


def test_distributions_have_ranges_like_their_expectations() -> None:
    """Up to the layers of the head, and no further."""
    graph = listed_with_defaults(detectors.dfl())
    samples = [
        {"image": np.random.default_rng(seed).random((1, 64, 64, 3), np.float32)}
        for seed in range(4)
    ]
    found = ranges_of_objects(graph, samples)
    boxes = str(the_node(graph).inputs[0])
    layers = [node for node in graph.nodes() if node.op == "conv_2d"]
    wide = {n.outputs[0] for n in layers if graph.type(n.outputs[0]).shape[3] == 64}
    assert {boxes, *wide} <= found.keys()
    assert not {str(node.inputs[0]) for node in layers if node.outputs[0] in wide} & found.keys()
    # What is joined has one range, and takes it from here.
    name = next(iter(wide))
    joined = {other for other, extent in found.items() if extent == found[name]}
    bounds = dict.fromkeys(joined, (-0.5, 0.75))
    options = QuantizeOptions(equalize=False)
    quantized = quantize_model(graph, samples, options, bounds=bounds).graph
    quantization = quantized.type(name).quantization
    assert quantization is not None
    np.testing.assert_allclose(quantization.scale, 1.25 / 255, rtol=1e-3)
