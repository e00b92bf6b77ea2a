"""Heads that give their anchors beside what is relative to them, in one output.

SSDs written with Keras do so: probabilities of classes that share a softmax, encoded boxes, anchors
as centres and extents, and variances, by which the numbers of boxes are multiplied first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ops.box_coding import ANCHOR, BOX, CENTRE, SIZE, UNIT, BoxCoding
from fitzroy.compiler.ops.elementwise import reals
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.head import Head
from fitzroy.compiler.passes.heads.segments import comes_from_layers, is_shared, segments

Floats = npt.NDArray[np.float32]

_PARTS = 4.0
"""Anchors whose coordinates are all smaller are in parts of the image, not in pixels."""


def priors_head(columns: Columns, size: tuple[int, int]) -> Head | None:
    """The head of a model whose only output has scores, boxes, anchors and variances [1,n,c+12].

    Args:
        columns: makes parts of values.
        size: width and height of the image.

    Returns:
        The head; None if the output is another.

    Raises:
        UnsupportedError: anchors are no centres and extents, or variances are not the same for all
            extents.
    """
    graph = columns.graph
    if len(graph.outputs) != 1 or graph.type(graph.outputs[0]).rank != 3:
        return None
    (rows,) = graph.outputs
    parts, wide = segments(graph, rows), graph.type(rows).shape[2]
    sizes = [part.size for part in parts[:2]]
    if sorted(sizes) != sorted((BOX, wide - 3 * BOX)):
        return None
    anchors, variances = (_numbers(columns, rows, wide - count * BOX) for count in (2, 1))
    if anchors is None or variances is None:
        return None
    for scores, boxes in (parts[:2], parts[1::-1]):
        encoded = columns.take(rows, 2, boxes.begin, boxes.size)
        if boxes.size != BOX or not comes_from_layers(graph, encoded):
            continue
        if is_shared(columns, scores):
            _demand_centres(graph.name, anchors, variances)
            coded, exponent = _anchors(anchors, variances, size), float(variances[0, 2])
            return Head(
                size, encoded, BoxCoding.EXPONENTIAL, exponent, coded, (1.0, 1.0),
                columns.take(rows, 2, scores.begin, scores.size), None, logits=False, background=1,
            )  # fmt: skip
    return None


def _numbers(columns: Columns, rows: str, begin: int) -> Floats | None:
    """Constant numbers [n,4] of rows, from a column on; None if they are computed."""
    value = columns.graph.value(columns.take(rows, 2, begin, BOX))
    return None if value.data is None else reals(value.data, value.type).astype(np.float32)[0]


def _demand_centres(name: str, anchors: Floats, variances: Floats) -> None:
    """Refuse anchors or variances that mean something else.

    Of corners, one coordinate is greater than the other in all anchors.
    """
    x, second, third = anchors[:, :3].T
    if (second > x).all() or (third > x).all() or not (anchors[:, 2:] > 0).all():
        raise UnsupportedError(
            "the anchors beside boxes are no centres and extents",
            where=name,
            hint="export them as centroids: x and y of the centre, width and height",
        )
    if np.unique(variances[:, 2:]).size > 1 or not (variances > 0).all():
        found = ", ".join(f"{number:g}" for number in np.unique(variances[:, 2:]))
        raise UnsupportedError(
            f"extents of boxes have several variances: {found}",
            where=name,
            hint="export the model with the same for all of them",
        )


def _anchors(anchors: Floats, variances: Floats, size: tuple[int, int]) -> Floats:
    """Anchors [n,6] in pixels, of centres and extents, and factors of the numbers of boxes."""
    pixels = np.array(size, np.float32) if np.abs(anchors).max() < _PARTS else np.ones(2)
    found = np.empty((len(anchors), ANCHOR), np.float32)
    found[:, CENTRE] = anchors[:, :2] * pixels
    found[:, SIZE] = anchors[:, 2:] * pixels
    found[:, UNIT] = found[:, SIZE] * variances[:, :2]
    return found
