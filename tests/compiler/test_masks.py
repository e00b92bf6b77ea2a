"""Masks of objects: weighted sums of prototypes, inside of boxes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import fitzroy
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.detections import Detections, DetectionsAttributes

SIZE, CHANNELS = 40, 7
STORED = Quantization((0.3,), (3,)), Quantization((0.1,), (-5,))
"""How coefficients and prototypes are stored."""

BOXES = np.array(
    [[3, 5, 21, 33], [-8, -2, 60, 9.5], [0.5, 0.5, 0.7, 30], [30, 20, 30, 35], [-9, -9, -2, -2]],
    np.float32,
)


def masks_of(
    boxes: Array, coefficients: Array, prototypes: Array, types: list[TensorType]
) -> Array:
    """Masks [n,h,w] of boxes in the order of their scores."""
    count = len(boxes)
    scores = np.linspace(0.9, 0.5, count, dtype=np.float32)
    given = {
        "boxes": boxes[None],
        "scores": scores.reshape(1, count, 1),
        "coefficients": coefficients[None],
        "prototypes": prototypes[None],
    }
    graph = Graph("masks")
    for (name, array), type in zip(given.items(), types, strict=True):
        graph.add_input(name, type.with_shape(array.shape))
    a = DetectionsAttributes(SIZE, SIZE, BoxCoding.CORNERS, overlap=1.0, most=count + 1)
    results = {
        "detections": TensorType((a.most, 6), DType.FLOAT32),
        "masks": TensorType((a.most, *prototypes.shape[:2]), DType.UINT8),
    }
    inputs = ("boxes", "scores", None, None, None, None, "coefficients", "prototypes")
    node = Node("objects", Detections.name, inputs, tuple(results), a)
    graph.add_node(node, list(results.values()))
    graph.outputs = list(results)
    found: Array = fitzroy.evaluate(graph, given)["masks"]
    return found


def expected(boxes: Array, sums: npt.NDArray[np.float64]) -> Array:
    """Where sums [n,h,w] are positive, pixel by pixel."""
    found = np.zeros(sums.shape, np.uint8)
    ratio = sums.shape[1] / SIZE
    for number, y, x in np.ndindex(sums.shape):
        left, top, right, bottom = boxes[number] * ratio
        inside = left <= x < right and top <= y < bottom
        found[number, y, x] = inside and sums[number, y, x] > 0
    return found


@pytest.mark.parametrize("side", [SIZE, SIZE // 2])
def test_masks_of_stored_numbers_are_exact(side: int) -> None:
    """Where a sum is zero, float32 numbers of these scales would say now one, now the other."""
    random = np.random.default_rng(1)
    coefficients = random.integers(-2, 3, (len(BOXES), CHANNELS))
    prototypes = random.integers(-2, 3, (side, side, CHANNELS))
    weights, images = (
        (array + quantization.zero_point[0]).astype(np.int8)
        for array, quantization in zip((coefficients, prototypes), STORED, strict=True)
    )
    real = TensorType((1,), DType.FLOAT32)
    types = [real, real, *(TensorType((1,), DType.INT8, each) for each in STORED)]
    sums = np.einsum("nm,yxm->nyx", coefficients, prototypes)
    assert (sums == 0).mean() > 0.05
    found = masks_of(BOXES, weights, images, types)
    np.testing.assert_array_equal(found[:-1], expected(BOXES, sums))
    assert found[0].any()
    assert found[1].any()
    assert not found[-2:].any()


def test_masks_of_real_numbers_and_of_boxes_that_are_no_numbers() -> None:
    random = np.random.default_rng(2)
    boxes = BOXES.copy()
    boxes[1, 2] = np.nan
    coefficients, prototypes = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((len(boxes), CHANNELS), (SIZE, SIZE, CHANNELS))
    )
    real = TensorType((1,), DType.FLOAT32)
    found = masks_of(boxes, coefficients, prototypes, [real] * 4)
    sums = np.einsum("nm,yxm->nyx", coefficients, prototypes, dtype=np.float64)
    assert np.abs(sums).min() > 1e-4
    np.testing.assert_array_equal(found[:-1], expected(boxes, sums))
    assert not found[1].any()
