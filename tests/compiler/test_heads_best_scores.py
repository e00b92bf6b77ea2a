"""Heads of models that give the best score of each box in place of all."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import expected, image, listed, rows_of

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.reduction import ReductionAttributes


def made(*, turned: bool = False, shaped: bool = False, twice: bool = False) -> tuple[Graph, Graph]:
    """A model that gives boxes and the best score of each, and one that gives all scores.

    The first also gives boxes that scores have moved, which are no boxes of objects.

    Args:
        turned: whether scores have classes before boxes.
        shaped: whether the axis of one image is left out.
        twice: whether there are boxes of twice the size, too.
    """
    m = detectors.Maker()
    boxes = detectors.from_distances(m, detectors.expectation(m, m.rows([4 * detectors.BINS])))
    scores = m.sigmoid(m.rows([detectors.CLASSES]))
    whole = m.done(m.join([boxes, scores], 2)).copy()
    if turned:
        scores = m.transpose(scores, 0, 2, 1)
    a = ReductionAttributes((1 if turned else 2,), False)
    best = m.emit("reduce_max", [scores], (1, detectors.ROWS), a)
    moved = m.binary("add", boxes, m.reshape(best, 1, detectors.ROWS, 1))
    more = [m.binary("mul", boxes, 2)] if twice else []
    if shaped:
        best, boxes = m.reshape(best, detectors.ROWS), m.reshape(boxes, detectors.ROWS, 4)
    return m.done(best, moved, boxes, *more), whole


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shaped", [False, True])
def test_all_scores_are_read(turned: bool, shaped: bool) -> None:
    """And no class is missing from the list."""
    graph, whole = made(turned=turned, shaped=shaped)
    result = listed(graph)
    assert "reduce_max" not in {node.op for node in result.nodes()}
    found = fitzroy.evaluate(result, {"image": image()})[result.outputs[0]]
    wanted = expected(rows_of(whole, image()), detectors.CLASSES, False)
    assert len(wanted) > 2
    for (_, item), row in zip(wanted, found, strict=False):
        np.testing.assert_allclose(row, item, rtol=1e-4, atol=1e-4)
    assert not found[len(wanted) :].any()


def test_two_outputs_that_may_be_boxes_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="no head of a detector"):
        listed(made(twice=True)[0])
