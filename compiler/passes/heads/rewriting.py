"""The pass that puts one operator in the place of a detector's outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.detections import (
    OBJECTNESS,
    ROW,
    SCORES,
    Detections,
    DetectionsAttributes,
)
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.heads.columns import MOVERS, Columns, separate
from fitzroy.compiler.passes.heads.head import Head
from fitzroy.compiler.passes.heads.recognition import image_size, recognised

_MARGIN = 1.0
"""How far below the threshold logits are told apart, so that rounding does not lose objects."""


@dataclass(frozen=True)
class ListDetections(Pass):
    """Put the operator ``detections`` in the place of a detector's outputs.

    Attributes:
        score_threshold: least score of an object.
        overlap: boxes of a class that overlap a better one by more are the same object; None to do
            as the model says, or else 0.45.
        most: most objects.
    """

    name = "detections"

    score_threshold: float = 0.25
    overlap: float | None = None
    most: int = 100

    def run(self, graph: Graph) -> Graph:
        """The graph with objects as outputs.

        Raises:
            UnsupportedError: the model is no detector that is known.
        """
        head = recognised(graph)
        graph.outputs = self._emitted(graph, head)
        graph.prune()
        (node,) = (node for node in graph.nodes() if node.op == Detections.name)
        separate(Columns(graph), [name for name in node.inputs if name is not None])
        graph.prune()
        return graph

    def _emitted(self, graph: Graph, head: Head) -> list[str]:
        """Emit the operator; names of its results."""
        width, height = image_size(graph)
        points, masks = head.points, head.masks
        a = DetectionsAttributes(
            width=width,
            height=height,
            coding=head.coding,
            exponent=head.exponent,
            x_scale=head.scale[0],
            y_scale=head.scale[1],
            logits=head.logits,
            background=head.background,
            score_threshold=self.score_threshold,
            overlap=self._overlap(head),
            most=self.most,
            agnostic=head.agnostic,
            several=head.once,
            y_first=head.y_first,
            point_scale=1.0 if points is None else points.scale,
            point_offset=0.0 if points is None else points.offset,
            point_logits=points is not None and points.logits,
        )
        anchors = None
        if head.anchors is not None and a.coding.has_anchors:
            anchors = graph.add_constant("anchors", head.anchors)
        inputs = [
            head.boxes,
            head.scores,
            anchors,
            None,
            head.objectness,
            None if points is None else points.name,
            None if masks is None else masks.coefficients,
            None if masks is None else masks.prototypes,
        ]
        while inputs[-1] is None:
            inputs.pop()
        results = {"detections": TensorType((self.most, ROW), DType.FLOAT32)}
        if points is not None:
            count = graph.type(points.name).shape[2] // a.point
            results["keypoints"] = TensorType((self.most, count, 3), DType.FLOAT32)
        if masks is not None:
            extent = graph.type(masks.prototypes).shape[1:3]
            results["masks"] = TensorType((self.most, *extent), DType.UINT8)
        names = [graph.fresh(name) for name in results]
        node = Node(graph.fresh(Detections.name), Detections.name, tuple(inputs), tuple(names), a)
        graph.add_node(node, list(results.values()))
        return names

    def _overlap(self, head: Head) -> float:
        if head.once:
            return 1.0
        if self.overlap is not None:
            return self.overlap
        return DetectionsAttributes.overlap if head.overlap is None else head.overlap


def limits(graph: Graph) -> dict[str, tuple[float, float]]:
    """Ranges beyond which the scores of a detector's operator do not matter, by value.

    A logit far below the threshold is no object, whatever it is: 8 bits are for those above.
    """
    found: dict[str, tuple[float, float]] = {}
    for node in graph.nodes():
        a = node.attributes
        if not isinstance(a, DetectionsAttributes) or not a.logits or a.score_threshold <= 0:
            continue
        low = math.log(a.score_threshold / (1 - a.score_threshold)) - _MARGIN
        for index in (SCORES, OBJECTNESS):
            name = node.inputs[index] if index < len(node.inputs) else None
            if name is not None:
                found |= dict.fromkeys(moved(graph, name), (low, math.inf))
    return found


def moved(graph: Graph, name: str) -> Iterator[str]:
    """A value, and those before it whose elements it has, if nothing else reads them."""
    yield name
    node = graph.producer(name)
    if node is None or node.op not in MOVERS:
        return
    for read in node.inputs:
        if read is not None and len(graph.consumers(read)) == 1 and read not in graph.outputs:
            yield from moved(graph, read)
