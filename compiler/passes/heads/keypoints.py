"""Heads of models that give the keypoints of one person, as MoveNet does."""

from __future__ import annotations

from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.detections import DECODING
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.head import Head, Points

_POINT = 3
"""Numbers of a keypoint: y and x in parts of the image, and its score."""

_FEWEST = 4
"""Fewer are not taken for keypoints."""


def keypoints_head(columns: Columns, size: tuple[int, int]) -> Head | None:
    """The head of a model whose only output is keypoints [1,1,k,3]; None for others.

    The box is what all keypoints are within, its score the mean of theirs.
    """
    graph = columns.graph
    shapes = [graph.type(name).shape for name in graph.outputs]
    if len(shapes) != 1 or len(shapes[0]) != 4:
        return None
    (first, second, count, numbers), (output,) = shapes[0], graph.outputs
    if (first, second, numbers) != (1, 1, _POINT) or count < _FEWEST:
        return None
    host = Columns(graph, DECODING)
    rows = host.reshaped(output, (1, count, _POINT))
    y, x, score = (host.sliced(rows, 2, index, 1) for index in range(_POINT))
    corners = [_reduced(host, op, name) for op in ("reduce_min", "reduce_max") for name in (x, y)]
    places = host.reshaped(host.joined([x, y, score], 2), (1, 1, count * _POINT))
    return Head(
        size, host.joined(corners, 2), BoxCoding.CORNERS, 1.0, None,
        (float(size[0]), float(size[1])), _reduced(host, "mean", score), None, logits=False,
        points=Points(places, 1.0, 0.0, logits=False, scored=True), once=True,
    )  # fmt: skip


def _reduced(columns: Columns, op: str, name: str) -> str:
    """One number of a column [1,n,1]."""
    graph = columns.graph
    type = graph.type(name).with_shape((1, 1, 1))
    a = ReductionAttributes((1,), keep_dims=True)
    return graph.emit(op, [name], type, a, stem=f"{DECODING}{op}")
