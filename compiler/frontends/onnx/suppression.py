"""ONNX's non-maximum suppression."""

from __future__ import annotations

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.types import DType
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.logical import chosen
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import joined, sliced
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor
from fitzroy.compiler.ops.suppression import SuppressionAttributes

NOTHING = -1
"""What stands in rows of results that no box has been selected for."""

_MOST_CLASSES = 512
"""Most classes, of all pictures together."""


@imports("NonMaxSuppression")
def non_max_suppression(op: Operation) -> Tensor:
    """Rows of picture, class and box: as many as can be selected, those that are not all -1.

    Raises:
        Refusal: a limit is computed at run time or of no use, or there are very many classes.
    """
    build, boxes, scores = op.build, op.input(0), op.input(1)
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape[2] != 4:
        raise Refusal("onnx-type-rule", f"boxes {list(boxes.shape)}, scores {list(scores.shape)}")
    pictures, classes, count = scores.shape
    if boxes.shape[:2] != (pictures, count):
        raise Refusal("onnx-type-rule", f"boxes {list(boxes.shape)}, scores {list(scores.shape)}")
    limits = _limits(op, count)
    if not limits.most or not pictures * classes:
        return build.constant(np.zeros((0, 3), np.int64))
    if pictures * classes > _MOST_CLASSES:
        what = f"{pictures * classes} classes, of which {_MOST_CLASSES} are computed"
        raise Refusal("onnx-size", what)
    if op.integer("center_point_box"):
        boxes = _corners(build, boxes)
    rows = []
    for picture in range(pictures):
        shape = (1, count, 4)
        part = sliced(build, boxes, (picture, 0, 0), shape, (1, 1, 1))
        corners = build.value(build.reshape(part, (count, 4)))
        for label in range(classes):
            part = sliced(build, scores, (picture, label, 0), (1, 1, count), (1, 1, 1))
            line = build.value(build.reshape(part, (count,)))
            found = build.emit_all(
                "non_max_suppression", [corners, line], limits, 2, dtype=DType.INT32
            )
            rows.append(_rows(build, found, limits.most, (picture, label)))
    build.graph.remarks.append(_remark(op, limits.most * len(rows)))
    return build.unary("cast", joined(build, rows, 0), dtype=DType.INT64)


def _remark(op: Operation, rows: int) -> Diagnostic:
    what = f"{op.outputs[0]!r} always has {rows} rows; those that select no box are {NOTHING}"
    hint = "leave out rows of -1 where the model's results are read"
    return Diagnostic(Severity.WARNING, "onnx-rows", op.name, what, hint=hint)


def _limits(op: Operation, count: int) -> SuppressionAttributes:
    """How many boxes are selected, and which.

    Raises:
        Refusal: that is computed at run time, or no overlap is too much.
    """

    def limit(index: int, what: str, default: float) -> float:
        if op.optional(index) is None:
            return default
        return float(op.constant(index, what).reshape(-1)[0])

    most = int(limit(2, "number of boxes", 0))
    overlap = np.float32(limit(3, "overlap", 0))
    score = max(limit(4, "score", -np.inf), float(np.finfo(np.float32).min))
    if not 0 <= overlap < 1:
        raise Refusal("onnx-attribute", f"an overlap of {overlap}, of 0 to less than 1")
    # ONNX leaves out what overlaps by more, TFLite what overlaps by as much.
    above = float(np.nextafter(overlap, np.float32(1)))
    return SuppressionAttributes(min(max(most, 0), count), above, score)


def _corners(build: Builder, boxes: Tensor) -> Tensor:
    """Boxes of centre and size as two corners."""
    shape = (*boxes.shape[:2], 2)
    centre, size = (sliced(build, boxes, (0, 0, at), shape, (1, 1, 1)) for at in (0, 2))
    half = build.mul(size, build.scalar(0.5, size))
    return joined(build, [build.binary("sub", centre, half), build.add(centre, half)], 2)


def _rows(build: Builder, found: list[str], most: int, place: tuple[int, int]) -> Tensor:
    """Rows of picture, class and box: int32 [most,3]."""
    boxes, selected = (build.variable(name) for name in found)
    numbers = build.constant(np.arange(most, dtype=np.int32).reshape(-1, 1))
    exists = build.binary("less", numbers, build.reshape(selected, (1, 1)))
    fixed = build.constant(np.broadcast_to(np.array(place, np.int32), (most, 2)).copy())
    row = joined(build, [fixed, build.reshape(boxes, (most, 1))], 1)
    return chosen(build, exists, row, build.constant(np.array(NOTHING, np.int32)))
