"""Models that end in TFLite's own post-processing, which goes on choosing their objects.

Its kernel decides by rules of its own: with `use_regular_nms`, a box is an object once for each
class; with several classes for an object, once for each of the best. Quantized scores are often
equal, and then order decides. Where a list of the best classes would say something else, the
operator stays, and what it gives is put in rows.
"""

from __future__ import annotations

from dataclasses import replace

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BOX, BoxCoding
from fitzroy.compiler.ops.detection import DetectionAttributes, DetectionPostProcess
from fitzroy.compiler.ops.detections import MOST, ROW, Detections, DetectionsAttributes

_BOXES, _SCORES, _ANCHORS = range(3)


def post_processing_of(graph: Graph) -> Node | None:
    """TFLite's post-processing in a graph; None if it has none."""
    return next((node for node in graph.nodes() if node.op == DetectionPostProcess.name), None)


def is_replaceable(graph: Graph, node: Node) -> bool:
    """Whether a list of boxes by their best classes finds what the operator does.

    Its anchors are constants, boxes are objects by one class, and nothing is quantized.
    """
    a = node.attributes
    assert isinstance(a, DetectionAttributes)
    alone = not a.use_regular_nms and a.max_classes_per_detection == 1
    known = graph.value(str(node.inputs[_ANCHORS])).is_constant and a.h_scale == a.w_scale
    stored = any(_is_stored(graph, str(node.inputs[index])) for index in (_BOXES, _SCORES))
    return alone and known and not stored


def _is_stored(graph: Graph, name: str) -> bool:
    """Whether a value is quantized, or was."""
    node = graph.producer(name)
    return graph.type(name).is_quantized or (node is not None and node.op == "dequantize")


def with_bounds(
    graph: Graph, node: Node, score: float, overlap: float | None, most: int | None
) -> Node:
    """The operator with other bounds. Its results become those of the graph.

    Args:
        graph: the graph.
        node: the operator.
        score: least score of an object.
        overlap: largest overlap; None to keep the operator's.
        most: most objects; None to keep the operator's.
    """
    a = node.attributes
    assert isinstance(a, DetectionAttributes)
    a = replace(
        a,
        nms_score_threshold=score,
        nms_iou_threshold=a.nms_iou_threshold if overlap is None else overlap,
        max_detections=a.max_detections if most is None else most,
    )
    graph.outputs = list(node.outputs)
    graph.prune()
    rows = a.max_detections * a.max_classes_per_detection
    for name, shape in zip(node.outputs, ((1, rows, BOX), (1, rows), (1, rows)), strict=False):
        graph.set_value(replace(graph.value(name), type=TensorType(shape, DType.FLOAT32)))
    return graph.update(replace(node, attributes=a))


def listed(graph: Graph, node: Node, size: tuple[int, int]) -> str:
    """Rows [n,6] of what the operator gives, in the order of their scores.

    Args:
        graph: the graph, which gets the operator that makes them.
        node: TFLite's post-processing.
        size: width and height of the image.
    """
    boxes, classes, scores, _ = node.outputs
    rows = graph.type(boxes).shape[1]
    chosen = DetectionsAttributes(
        *size,
        coding=BoxCoding.CORNERS,
        x_scale=float(size[0]),
        y_scale=float(size[1]),
        # Rows after the last object have a score of zero.
        score_threshold=0.0,
        overlap=1.0,
        most=min(rows, MOST),
        y_first=True,
    )
    name = graph.fresh("detections")
    inputs = (boxes, scores, None, classes)
    made = Node(graph.fresh(Detections.name), Detections.name, inputs, (name,), chosen)
    graph.add_node(made, [TensorType((chosen.most, ROW), DType.FLOAT32)])
    return name
