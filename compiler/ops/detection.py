"""Post-processing of object detectors: from boxes relative to anchors to a list of objects.

Facts: the published kernel ``TFLite_Detection_PostProcess`` of TFLite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.custom import PostProcessing
from fitzroy.compiler.ops.definition import Arrays, Call, Expected, define, demand
from fitzroy.compiler.ops.elementwise import reals
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics.suppression import descending, suppressed

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]

_BOX = 4
_MOST_DETECTIONS = 1 << 20
"""Bound on the rows of the results, which no file has to hold."""


@dataclass(frozen=True)
class DetectionAttributes(Attributes):
    """Attributes of the post-processing of detectors.

    Attributes:
        max_detections: most objects.
        max_classes_per_detection: classes that are given for each object; 1 with
            `use_regular_nms`.
        num_classes: classes without the background, which may be class 0 of the scores.
        nms_score_threshold: least score of an object; may be infinite.
        nms_iou_threshold: boxes that overlap an object's by more, as intersection over union, are
            the same object.
        y_scale: divisor of encoded centres, vertical.
        x_scale: divisor of encoded centres, horizontal.
        h_scale: divisor of encoded logarithms of heights.
        w_scale: divisor of encoded logarithms of widths.
        use_regular_nms: whether overlap is judged in each class, and not once for an object's
            best class.
        detections_per_class: most objects of a class, with `use_regular_nms`.
    """

    max_detections: int
    max_classes_per_detection: int
    num_classes: int
    nms_score_threshold: float
    nms_iou_threshold: float
    y_scale: float
    x_scale: float
    h_scale: float
    w_scale: float
    use_regular_nms: bool = False
    detections_per_class: int = 100


@define
class DetectionPostProcess(PostProcessing):
    """Objects of a detector: boxes decoded from anchors, without those that overlap a better one.

    Results are float32: boxes [1,n,4] as (top, left, bottom, right) in parts of the image, classes
    [1,n], scores [1,n], and how many objects there are [1]; rows after the last are zero.
    Objects are in order of their scores, equal ones in order of boxes.
    """

    name = "detection_post_process"
    operands = ("box_encodings", "class_predictions", "anchors")
    attributes = DetectionAttributes
    custom = "TFLite_Detection_PostProcess"
    # EfficientDet-Lite's threshold is less than all numbers.
    infinite = ("nms_score_threshold",)

    def infer(self, call: Call) -> Sequence[Expected]:
        a = call.attributes(DetectionAttributes)
        boxes, scores, anchors = (call.type(index) for index in range(3))
        for type in (boxes, scores, anchors):
            demand(
                type.dtype is DType.FLOAT32 or (type.dtype is DType.UINT8 and type.is_quantized),
                f"operands are float32 or quantized uint8, not {type}",
            )
        demand(boxes.dtype is anchors.dtype, "boxes and anchors have different element types")
        demand((boxes.rank, scores.rank, anchors.rank) == (3, 3, 2), "operands of wrong ranks")
        demand(boxes.shape[0] == scores.shape[0] == 1, "a batch")
        demand(boxes.shape[2] >= _BOX == anchors.shape[1], "boxes without 4 coordinates")
        demand(boxes.shape[1] == scores.shape[1] == anchors.shape[0], "other boxes than anchors")
        demand(
            scores.shape[2] - a.num_classes in (0, 1) and a.num_classes > 0,
            f"{scores.shape[2]} scores for {a.num_classes} classes",
        )
        rows = a.max_detections * a.max_classes_per_detection
        demand(a.max_detections >= 0 and a.max_classes_per_detection > 0, "no detections at all")
        demand(a.detections_per_class > 0, "no detections of a class")
        demand(rows <= _MOST_DETECTIONS, f"{rows} detections")
        demand(0 < a.nms_iou_threshold <= 1, f"an overlap of {a.nms_iou_threshold}")
        return [
            Expected(shape, DType.FLOAT32)
            for shape in ((1, rows, _BOX), (1, rows), (1, rows), (1,))
        ]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a = call.attributes(DetectionAttributes)
        encodings, predictions, anchors = (
            reals(array, call.type(index))
            for index, array in enumerate(arrays)
            if array is not None
        )
        boxes = decoded_boxes(encodings[0, :, :_BOX], anchors, a)
        if (boxes[:, :2] > boxes[:, 2:]).any():
            raise UsageError("a detected box has a negative extent", where=call.node.name)
        scores = predictions[0, :, predictions.shape[2] - a.num_classes :]
        found = _per_class(boxes, scores, a) if a.use_regular_nms else _per_box(boxes, scores, a)
        result = [np.zeros(value.type.shape, np.float32) for value in call.outputs]
        corners, classes, best, *_ = (whole[0] for whole in result)
        corners[found.rows] = boxes[found.boxes]
        classes[found.rows], best[found.rows] = found.classes, found.scores
        result[3][0] = found.count
        return result


def decoded_boxes(encodings: Floats, anchors: Floats, a: DetectionAttributes) -> Floats:
    """Corners [n,4] as (top, left, bottom, right).

    Args:
        encodings: centre relative to the anchor and logarithms of the extent [n,4]: y, x, h, w.
        anchors: centre and extent [n,4]: y, x, h, w.
        a: the divisors.
    """
    # The kernel computes in float64 and rounds centres and halves of extents.
    encoded, anchor = encodings.astype(np.float64), anchors.astype(np.float64)
    scales = np.array([a.y_scale, a.x_scale, a.h_scale, a.w_scale], np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        centre = (encoded[:, :2] / scales[:2] * anchor[:, 2:] + anchor[:, :2]).astype(np.float32)
        half = (0.5 * np.exp(encoded[:, 2:] / scales[2:]) * anchor[:, 2:]).astype(np.float32)
        return np.concatenate([centre - half, centre + half], axis=1)


@dataclass(frozen=True, slots=True)
class _Found:
    """Objects: the rows of the results that they take, and what to write there."""

    rows: Indices
    boxes: Indices
    classes: Indices
    scores: Floats
    count: int


def _per_box(boxes: Floats, scores: Floats, a: DetectionAttributes) -> _Found:
    """Boxes are objects by their best class; each takes a row per class."""
    best = descending(scores)[:, : a.max_classes_per_detection]
    selected = _best(boxes, scores.max(axis=1), a.max_detections, a)
    count, classes = len(selected), best.shape[1]
    rows = np.arange(count)[:, None] * a.max_classes_per_detection + np.arange(classes)
    chosen = best[selected].reshape(-1)
    repeated = np.repeat(selected, classes)
    return _Found(rows.reshape(-1), repeated, chosen, scores[repeated, chosen], count)


def _per_class(boxes: Floats, scores: Floats, a: DetectionAttributes) -> _Found:
    """Boxes of a class are objects if they overlap no better one of that class."""
    selected = [
        _best(boxes, scores[:, number], a.detections_per_class, a)
        for number in range(a.num_classes)
    ]
    indices = np.concatenate(selected)
    classes = np.repeat(np.arange(a.num_classes), [len(item) for item in selected])
    order = descending(scores[indices, classes])[: a.max_detections]
    indices, classes = indices[order], classes[order]
    rows = np.arange(len(order))
    return _Found(rows, indices, classes, scores[indices, classes], len(order))


def _best(boxes: Floats, scores: Floats, most: int, a: DetectionAttributes) -> Indices:
    """Indices of the boxes [n,4] that are objects by their scores [n], best first."""
    kept = np.flatnonzero(scores >= np.float32(a.nms_score_threshold))
    return kept[suppressed(boxes[kept], scores[kept], most, np.float32(a.nms_iou_threshold))]
