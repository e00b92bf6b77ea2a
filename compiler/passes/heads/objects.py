"""Ranges of boxes, from the boxes of objects alone.

Where nothing is, a detector's boxes are anything: those of BlazeFace lie thousands of pixels
outside of the image. No score chooses them, so that 8 bits are for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.detections import (
    BOXES,
    OBJECTNESS,
    POINTS,
    SCORES,
    DetectionsAttributes,
    sigmoid,
)
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.passes.heads.columns import is_layer
from fitzroy.compiler.passes.heads.rewriting import moved
from fitzroy.compiler.quantization.statistics import Range, Sample, in_order
from fitzroy.compiler.reference import evaluate

Floats = npt.NDArray[np.float32]

_LEAST_OBJECTS = 16
"""Fewer boxes say nothing of those to come."""

_ALMOST = 0.5
"""Boxes count from this share of the threshold on: others of the same objects."""

_MARGIN = 0.25
"""By how much of itself a range is wider at both ends, for larger objects than were seen."""


def ranges_of_objects(graph: Graph, samples: Sequence[Sample]) -> dict[str, Range]:
    """Between what the encoded boxes and keypoints of objects are, by value; empty for no detector.

    Args:
        graph: a detector that lists objects, with float32 values.
        samples: its inputs.

    Raises:
        CapacityError: evaluation takes more memory than the budget has.
    """
    chooser = _chooser(graph)
    if chooser is None:
        return {}
    names = list(dict.fromkeys(chooser.encoded(graph)))
    part = graph.cut([*names, *chooser.scores])

    def of_sample(sample: Sample) -> dict[str, tuple[Floats, Range]]:
        values = evaluate(part, sample)
        rows = chooser.rows(values)
        return {
            name: (
                values[name].reshape(len(rows), -1)[rows],
                (float(values[name].min()), float(values[name].max())),
            )
            for name in names
        }

    seen = list(in_order(of_sample, samples))
    found: dict[str, Range] = {}
    for name in names:
        rows = np.concatenate([each[name][0] for each in seen])
        if len(rows) < _LEAST_OBJECTS:
            continue
        low, high = float(rows.min()), float(rows.max())
        margin = _MARGIN * (high - low)
        # No further than any box goes.
        low = max(low - margin, min(each[name][1][0] for each in seen))
        high = min(high + margin, max(each[name][1][1] for each in seen))
        found |= dict.fromkeys(moved(graph, name), (low, high))
    return found


@dataclass(frozen=True)
class _Chooser:
    """An operator that chooses boxes by their scores.

    Attributes:
        places: encoded boxes and keypoints [1,n,c].
        scores: scores of classes [1,n,c], and of being any object [1,n,1] if there are such.
        logits: whether scores are logits.
        background: how many of the first classes stand for no object.
        threshold: least product of the shares of an object.
    """

    places: tuple[str, ...]
    scores: tuple[str, ...]
    logits: bool
    background: int
    threshold: float

    def encoded(self, graph: Graph) -> Iterator[str]:
        """Values [1,n,...] that boxes and keypoints are computed of, those first."""
        for name in self.places:
            yield from _decoded_from(graph, name)

    def rows(self, values: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        """Which boxes [n] are those of objects, or almost."""
        first, *others = (values[name][0] for name in self.scores)
        columns = [first[:, self.background :].max(axis=1), *(x[:, 0] for x in others)]
        shares = [sigmoid(x) if self.logits else x for x in columns]
        found: npt.NDArray[np.bool_] = np.prod(shares, axis=0) > _ALMOST * self.threshold
        return found


def _chooser(graph: Graph) -> _Chooser | None:
    """The operator that lists the objects of a detector; None if it has none."""
    for node in graph.nodes():
        a = node.attributes
        if isinstance(a, DetectionAttributes):
            background = graph.type(str(node.inputs[SCORES])).shape[2] - a.num_classes
            places, scores = _given(node, BOXES), _given(node, SCORES)
            return _Chooser(places, scores, False, background, a.nms_score_threshold)
        if isinstance(a, DetectionsAttributes) and a.overlap < 1 and not a.peaks:
            places, scores = _given(node, BOXES, POINTS), _given(node, SCORES, OBJECTNESS)
            return _Chooser(places, scores, a.logits, a.background, a.share_threshold)
    return None


def _given(node: Node, *places: int) -> tuple[str, ...]:
    """The operands at some places, if they are given."""
    names = (node.inputs[place] for place in places if place < len(node.inputs))
    return tuple(name for name in names if name is not None)


def _decoded_from(graph: Graph, name: str) -> Iterator[str]:
    """A value of rows [1,n,...], and the distributions whose expectations it is."""
    count = graph.type(name).shape[1]
    while graph.type(name).shape[:2] == (1, count):
        yield name
        node = graph.producer(name)
        while node is not None and node.op in ("reshape", "transpose"):
            node = graph.producer(str(node.inputs[0]))
        if node is not None and isinstance(node.attributes, ConcatenationAttributes):
            # Centres and extents that are joined on the host have ranges of their own.
            if node.attributes.axis % graph.type(name).rank == 2:
                for part in node.inputs:
                    yield from _decoded_from(graph, str(part))
            return
        if node is None or is_layer(graph, node) or node.op not in ("softmax", "conv_2d"):
            return
        name = str(node.inputs[0])
