"""Non-maximum suppression: by hand, and as torchvision does it where that is installed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from fitzroy.hw_models.numerics.suppression import grouped, suppressed

BOXES = np.array([[0, 0, 10, 10], [1, 0, 10, 10], [20, 20, 30, 30], [0, 0, 5, 10]], np.float32)


def test_better_boxes_suppress_those_that_overlap_more() -> None:
    scores = np.array([0.5, 0.9, 0.7, 0.5], np.float32)
    assert suppressed(BOXES, scores, 10, np.float64(0.45)).tolist() == [1, 2, 3]
    assert suppressed(BOXES, scores, 2, np.float64(0.45)).tolist() == [1, 2]
    assert suppressed(BOXES, scores, 10, np.float64(0.95)).tolist() == [1, 2, 0, 3]


def test_equal_scores_keep_their_order_and_equal_overlaps_stay() -> None:
    scores = np.full(4, 0.5, np.float32)
    # The last overlaps the first by exactly a half, which is not more.
    assert suppressed(BOXES, scores, 10, np.float64(0.5)).tolist() == [0, 2, 3]
    assert suppressed(BOXES, scores, 10, np.float64(0.49)).tolist() == [0, 2]


def test_empty_boxes_overlap_nothing() -> None:
    boxes = np.array([[3, 3, 3, 9], [3, 3, 3, 9], [0, 0, 9, 9]], np.float32)
    scores = np.array([0.9, 0.8, 0.7], np.float32)
    assert suppressed(boxes, scores, 10, np.float64(0.0)).tolist() == [0, 1, 2]
    assert suppressed(boxes[:0], scores[:0], 10, np.float64(0.5)).tolist() == []


def test_groups_are_the_best_boxes_with_those_that_they_suppress() -> None:
    scores = np.array([0.5, 0.9, 0.7, 0.5], np.float32)
    for most, wanted in ((10, [[1, 0, 3], [2]]), (1, [[1, 0, 3]]), (0, [])):
        groups = grouped(BOXES, scores, most, np.float64(0.4))
        assert [group.tolist() for group in groups] == wanted
    # A box belongs to the best that it overlaps, and equal ones keep their order.
    chain = np.array([[0, 0, 10, 10], [4, 0, 14, 10], [8, 0, 18, 10]], np.float32)
    equal = np.full(3, 0.5, np.float32)
    groups = grouped(chain, equal, 10, np.float64(0.4))
    assert [group.tolist() for group in groups] == [[0, 1], [2]]
    assert grouped(chain[:0], equal[:0], 10, np.float64(0.4)) == []


def test_groups_are_those_of_one_box_after_the_other() -> None:
    """Also if there are more boxes than are compared at once."""
    random = np.random.default_rng(3)
    boxes = (random.random((150, 4), np.float32) * 20).astype(np.float32)
    boxes[:, 2:] += boxes[:, :2]
    scores = random.integers(0, 30, 150).astype(np.float32)
    waiting, wanted = sorted(range(150), key=lambda number: -scores[number]), list[list[int]]()
    while waiting:
        best, *others = waiting
        same = [other for other in others if _overlap(boxes[best], boxes[other]) > 0.3]
        wanted.append([best, *same])
        waiting = [other for other in others if other not in same]
    assert len(wanted) > 32
    assert max(map(len, wanted)) > 10
    for most in (len(wanted), 33, 32, 5):
        groups = grouped(boxes, scores, most, np.float64(0.3))
        assert [group.tolist() for group in groups] == wanted[:most]


def _overlap(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> float:
    """Intersection over union of two boxes, in float32."""
    sides = np.minimum(first[2:], second[2:]) - np.maximum(first[:2], second[:2])
    common = np.maximum(sides, np.float32(0)).prod()
    areas = [(box[2:] - box[:2]).prod() for box in (first, second)]
    return float(common / (areas[0] + areas[1] - common))


def test_as_torchvision() -> None:
    torch = pytest.importorskip("torch")
    try:
        nms = pytest.importorskip("torchvision").ops.nms
    except RuntimeError as error:
        pytest.skip(f"torchvision does not load: {error}")
    random = np.random.default_rng(7)
    for number in range(100):
        count = int(random.integers(1, 300))
        boxes: npt.NDArray[np.float32] = random.integers(0, 20, (count, 4)).astype(np.float32)
        if number % 2:
            boxes = random.random((count, 4), np.float32) * 100
        boxes[:, 2:] += boxes[:, :2]
        boxes += (random.integers(0, 80, count) * 7680)[:, None].astype(np.float32)
        scores = random.integers(0, 10, count).astype(np.float32) / np.float32(10)
        limit = float(random.choice([0, 0.25, 0.45, 1 / 3, 0.7]))
        wanted = nms(torch.tensor(boxes), torch.tensor(scores), limit).numpy()
        found = suppressed(boxes, scores, count, np.float64(limit))
        np.testing.assert_array_equal(found, wanted)
