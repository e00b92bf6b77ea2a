"""The pass that puts one operator in the place of a detector's outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.detection import DetectionPostProcess
from fitzroy.compiler.ops.detections import (
    BOXES,
    CLASSES,
    DECODING,
    OBJECTNESS,
    ROW,
    SCORES,
    Detections,
    DetectionsAttributes,
)
from fitzroy.compiler.passes.base import Pass, run_passes
from fitzroy.compiler.passes.canonicalize import FOLDING
from fitzroy.compiler.passes.heads.apart import grids
from fitzroy.compiler.passes.heads.columns import MOVERS, Columns, separate, stored
from fitzroy.compiler.passes.heads.distances import in_cells
from fitzroy.compiler.passes.heads.forms import (
    post_processed,
    raw_outputs,
    remark_on_more,
    threshold_logit,
)
from fitzroy.compiler.passes.heads.head import Head
from fitzroy.compiler.passes.heads.joint_sigmoids import join_sigmoids
from fitzroy.compiler.passes.heads.kept import (
    is_replaceable,
    listed,
    post_processing_of,
    with_bounds,
)
from fitzroy.compiler.passes.heads.options import HeadForm, HeadOptions
from fitzroy.compiler.passes.heads.recognition import image_size, recognised
from fitzroy.compiler.passes.heads.row_order import in_row_order
from fitzroy.compiler.passes.heads.scores import in_one_scale

_MARGIN = 1.0
"""How far below the threshold logits are told apart, so that rounding does not lose objects."""

_SURE = 0.95
"""A score up to which scores are told apart, whatever samples have."""


@dataclass(frozen=True)
class ListDetections(HeadOptions, Pass):
    """Recognise the head of a detector and replace it by an operator that lists objects."""

    name = "detections"

    def run(self, graph: Graph) -> Graph:
        """The graph with objects, in the form that is asked for, as outputs.

        Raises:
            UnsupportedError: the model is no detector that is known, or has not what the form is
                made of.
        """
        node = post_processing_of(graph)
        if node is not None and self.anchors is not None:
            raise UnsupportedError(
                f"--anchors is for models that do not contain theirs, and {node.name!r} has some",
                where=graph.name,
                hint="leave it out",
            )
        if node is not None and self._keeps(graph, node):
            graph.outputs = self._kept(graph, node)
            graph.prune()
            return graph
        head = self._head(graph)
        if self.form is not HeadForm.OBJECTS:
            remark_on_more(graph, head, self.form)
        if self.form is HeadForm.YOLO:
            graph.outputs = raw_outputs(graph, head)
        elif self.form is HeadForm.SSD:
            chosen = self.score_threshold, self._overlap(head), self._most(head)
            graph.outputs = post_processed(graph, head, chosen)
        else:
            graph.outputs = self._emitted(graph, head)
        graph.prune()
        separate(Columns(graph), graph.outputs)
        graph.prune()
        return in_row_order(graph)

    def listed(self, graph: Graph) -> list[str]:
        """Let a graph without post-processing list its objects, beside what it gives.

        Returns the names of the results.

        Raises:
            UnsupportedError: the model is no detector that is known.
        """
        return self._emitted(graph, self._head(graph))

    def _head(self, graph: Graph) -> Head:
        join_sigmoids(graph)
        head = recognised(graph, self.anchors)
        head = in_cells(Columns(graph), head, grids(graph, head.boxes) or [])
        sure = None if head.objectness is None else in_one_scale(graph, head.objectness)
        return replace(head, scores=in_one_scale(graph, head.scores), objectness=sure)

    def _keeps(self, graph: Graph, node: Node) -> bool:
        """Whether TFLite's post-processing goes on choosing objects."""
        if self.form is HeadForm.YOLO:
            return False
        return self.form is HeadForm.SSD or not is_replaceable(graph, node)

    def _kept(self, graph: Graph, node: Node) -> list[str]:
        """Let TFLite's post-processing choose objects; names of the results."""
        size = image_size(graph)
        node = with_bounds(graph, node, self.score_threshold, self.overlap, self.most)
        return list(node.outputs) if self.form is HeadForm.SSD else [listed(graph, node, size)]

    def _emitted(self, graph: Graph, head: Head) -> list[str]:
        """Emit the operator; names of its results."""
        width, height = head.size
        most, least = self._most(head), self._least(head)
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
            root=head.root,
            score_threshold=least,
            overlap=self._overlap(head),
            most=most,
            agnostic=head.agnostic,
            y_first=head.y_first,
            point_scale=1.0 if points is None else points.scale,
            point_offset=0.0 if points is None else points.offset,
            point_logits=points is not None and points.logits,
            point_scores=points is not None and points.scored,
            peaks=head.peaks,
            average_threshold=least if head.averaged else 1.0,
        )
        anchors = None
        if head.anchors is not None and a.coding.has_anchors:
            anchors = graph.add_constant("anchors", head.anchors)
        read = [
            head.boxes,
            head.scores,
            anchors,
            None,
            head.objectness,
            None if points is None else points.name,
            None if masks is None else masks.coefficients,
            None if masks is None else masks.prototypes,
        ]
        # The operator takes both, and converts only what it needs.
        inputs = [None if name is None else stored(graph, name) for name in read]
        while inputs[-1] is None:
            inputs.pop()
        results = {"detections": TensorType((most, ROW), DType.FLOAT32)}
        if points is not None:
            count = graph.type(points.name).shape[2] // a.point
            results["keypoints"] = TensorType((most, count, 3), DType.FLOAT32)
        if masks is not None:
            extent = graph.type(masks.prototypes).shape[1:3]
            results["masks"] = TensorType((most, *extent), DType.UINT8)
        names = [graph.fresh(name) for name in results]
        node = Node(graph.fresh(Detections.name), Detections.name, tuple(inputs), tuple(names), a)
        graph.add_node(node, list(results.values()))
        return names

    def _most(self, head: Head) -> int:
        return self.most or head.most or DetectionsAttributes.most

    def _least(self, head: Head) -> float:
        """What scores of objects are greater than."""
        if not head.inclusive:
            return self.score_threshold
        return float(np.nextafter(np.float32(self.score_threshold), np.float32(0)))

    def _overlap(self, head: Head) -> float:
        if head.once:
            return 1.0
        if self.overlap is not None:
            return self.overlap
        return DetectionsAttributes.overlap if head.overlap is None else head.overlap


def with_detections(graph: Graph, options: HeadOptions) -> Graph:
    """A detector that gives objects; the graph itself if that is not asked for.

    Raises:
        UsageError: an option means nothing.
        UnsupportedError: as of the pass.
    """
    options.check()
    if not options.detections:
        return graph
    steps = (*FOLDING, ListDetections(**vars(options)))
    return run_passes(graph, steps)


def is_detector(graph: Graph) -> bool:
    """Whether a model has a head that is recognised, and does not list its objects yet.

    Args:
        graph: the model; it stays as it is.
    """
    try:
        ListDetections(detections=True).run(graph.copy())
    except UnsupportedError:
        return False
    return True


def encoded(graph: Graph) -> Graph:
    """A detector with what is decoded as outputs, in the place of objects, which have no order.

    Scores are not among it: those that are cut off have no part in objects. Other graphs are as
    they were.
    """
    chooser = post_processing_of(graph)
    if chooser is not None:
        return graph.cut([str(chooser.inputs[0])])
    for node in graph.nodes():
        a = node.attributes
        if isinstance(a, DetectionsAttributes):
            left = {SCORES, OBJECTNESS, CLASSES}
            read = [name for place, name in enumerate(node.inputs) if place not in left]
            if a.part > 0:
                # No part says anything alone.
                read[BOXES] = _probabilities(graph, read[BOXES])
            return graph.cut([x for x in read if x is not None and not graph.value(x).is_constant])
    return graph


def _probabilities(graph: Graph, name: str | None) -> str | None:
    """The distributions whose expectations boxes are."""
    while name is not None and (node := graph.producer(name)) is not None:
        if node.op == "softmax":
            return name
        name = node.inputs[0]
    return None


def with_lower_threshold(graph: Graph) -> Graph:
    """A detector that lists all objects whose scores its scale holds, if those are logits.

    So an object whose score is a little lower than that of another model is not lost to it. Boxes
    are averaged as before, for those below the threshold have no part in objects of other models.
    """
    result = graph.copy()
    for node in result.nodes():
        a = node.attributes
        if isinstance(a, DetectionsAttributes) and 0 < a.score_threshold < 1:
            least = 1 / (1 + math.exp(_MARGIN - threshold_logit(a.share_threshold)))
            least = math.sqrt(least) if a.root else least
            result.update(replace(node, attributes=replace(a, score_threshold=least)))
    return result


def kept_float(graph: Graph) -> list[str]:
    """Patterns of the nodes that decode boxes on the host, and are not to be quantized."""
    return [f"{DECODING}*"] if any(n.name.startswith(DECODING) for n in graph.nodes()) else []


def limits(graph: Graph, options: HeadOptions) -> dict[str, tuple[float, float]]:
    """The least logits of a detector that matter, and up to where they do, by value.

    A logit far below the threshold is no object, whatever it is: 8 bits are for those above. Few
    boxes are objects, but they are what counts: none of their logits is cut off.

    Args:
        graph: what the pass of these options made of a detector.
        options: which objects count.
    """
    found: dict[str, tuple[float, float]] = {}
    if not options.detections:
        return found
    for name, share in _logits(graph, options):
        ends = threshold_logit(share) - _MARGIN, threshold_logit(_SURE)
        found |= dict.fromkeys(moved(graph, name), ends)
    return found


_COARSE = 64
"""In a feature of objects, an element stands for so many pixels at least."""


def features(graph: Graph, options: HeadOptions) -> set[str]:
    """Values of a detector in which few elements count, those that speak of objects.

    Before, images are fine, and their largest elements are edges and light like others.

    Args:
        graph: what the pass of these options made of a detector.
        options: whether objects are asked for.
    """
    sizes = [graph.type(name).shape for name in graph.inputs]
    pixels = max((h * w for _, h, w, _ in (shape for shape in sizes if len(shape) == 4)), default=0)
    if not options.detections or not pixels:
        return set()
    found: set[str] = set()
    for node in graph.nodes():
        shapes = [graph.type(name).shape for name in node.outputs]
        coarse = any(len(x) == 4 and x[1] * x[2] * _COARSE <= pixels for x in shapes)
        if coarse or not found.isdisjoint(filter(None, node.inputs)):
            found.update(node.outputs)
    return found


def _logits(graph: Graph, options: HeadOptions) -> Iterator[tuple[str, float]]:
    """Logits of classes and of objectness, and the least shares of objects."""
    if options.form is HeadForm.YOLO:
        yield graph.outputs[1], options.score_threshold
    for node in graph.nodes():
        a = node.attributes
        if isinstance(a, DetectionsAttributes) and a.logits:
            read = (node.inputs[i] for i in (SCORES, OBJECTNESS) if i < len(node.inputs))
            yield from ((name, a.share_threshold) for name in read if name is not None)
        if node.op == DetectionPostProcess.name:
            scores, share = str(node.inputs[SCORES]), options.score_threshold
            root = graph.producer(scores)
            if root is not None and root.op == "sqrt":
                scores, share = str(root.inputs[0]), share**2
            yield from ((name, share) for name in _factors(graph, scores) or ())


def _factors(graph: Graph, name: str) -> list[str] | None:
    """The logits whose shares, and masks, a score is the product of; None if of anything else."""
    node = graph.producer(name)
    if node is None:
        return None
    first = str(node.inputs[0])
    if node.op == "sigmoid":
        return [first]
    if node.op == "cast" and graph.type(first).dtype is DType.BOOL:
        return []
    if node.op in (*MOVERS, "dequantize"):
        return _factors(graph, first) if len(node.inputs) == 1 else None
    if node.op != "mul":
        return None
    parts = [_factors(graph, str(read)) for read in node.inputs]
    return None if None in parts else [item for part in parts for item in part or ()]


def moved(graph: Graph, name: str) -> Iterator[str]:
    """A value, and those before it whose elements it has, if nothing else reads them."""
    yield name
    node = graph.producer(name)
    if node is None or node.op not in MOVERS:
        return
    for read in node.inputs:
        if read is not None and len(graph.consumers(read)) == 1 and read not in graph.outputs:
            yield from moved(graph, read)
