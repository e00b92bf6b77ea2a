"""Forms in which other programs take what a detector finds, made of TFLite's own operators."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node
from fitzroy.compiler.ops.box_coding import BOX, SIZE, UNIT, BoxCoding
from fitzroy.compiler.ops.detection import DetectionAttributes, DetectionPostProcess
from fitzroy.compiler.ops.detections import DECODING
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.head import Head

Floats = npt.NDArray[np.float32]

_LEAST = np.array([1e-4], np.float32)
"""Least extent of a box in units of its anchor, so that it has a logarithm."""

_PLAIN = ("log", "maximum")
"""Operators without attributes."""

_BINS = 16
_HALF = np.array([0.5], np.float32)
_RESULTS = ("boxes", "classes", "scores", "count")


def raw_outputs(graph: Graph, head: Head) -> list[str]:
    """Distributions of the distances of edges [1,n,64], and logits of classes [1,n,c].

    This is what recorders take that decode such models themselves.

    Raises:
        UnsupportedError: the model has no such distributions.
    """
    if not head.logits or head.background:
        raise UnsupportedError(
            "its scores are no logits of classes, which the form yolo is made of",
            where=graph.name,
            hint="use --form ssd",
        )
    name, passed = head.boxes, set()
    while (node := graph.producer(name)) is not None:
        if node.op not in ("reshape", "transpose", "conv_2d", "softmax"):
            break
        passed.add(node.op)
        after, name = graph.type(name).shape, str(node.inputs[0])
        shape = graph.type(name).shape
        if len(shape) != 3 or not {"conv_2d", "softmax"} <= passed or head.objectness is not None:
            continue
        if shape[2] == BOX * _BINS:
            return [name, head.scores]
        if after == (1, BOX, _BINS, shape[2]):
            # PyTorch has the numbers of a box in front of the boxes.
            return [Columns(graph).transposed(name, (0, 2, 1)), head.scores]
    raise UnsupportedError(
        f"its boxes are no distributions over {_BINS} distances, which the form yolo is made of",
        where=graph.name,
        hint="use --form ssd",
    )


def post_processed(graph: Graph, head: Head, chosen: tuple[float, float, int]) -> list[str]:
    """The four results of TFLite's post-processing: boxes, classes, scores and their number.

    Args:
        graph: the graph, which gets the operators for it.
        head: the head of its detector.
        chosen: least score, largest overlap, and most objects.

    """
    maker = _Maker(graph, _real(graph, head))
    names = [graph.fresh(name) for name in _RESULTS]
    score, overlap, most = chosen
    a = DetectionAttributes(
        max_detections=most,
        max_classes_per_detection=1,
        num_classes=graph.type(head.scores).shape[2] - head.background,
        nms_score_threshold=score,
        nms_iou_threshold=overlap,
        y_scale=1.0,
        x_scale=1.0,
        h_scale=1.0,
        w_scale=1.0,
        # The regular choice lists a box once for each of its classes.
        use_regular_nms=not (head.agnostic or head.once),
        detections_per_class=most,
    )
    inputs = (maker.encoded(), maker.probabilities(), graph.add_constant("anchors", maker.anchors))
    types = [
        TensorType(shape, DType.FLOAT32) for shape in ((1, most, BOX), (1, most), (1, most), (1,))
    ]
    node = Node(graph.fresh("post_process"), DetectionPostProcess.name, inputs, tuple(names), a)
    graph.add_node(node, types)
    return names


def _real(graph: Graph, head: Head) -> Head:
    """A head whose boxes and scores are float32, for standard operators to decode."""
    columns = Columns(graph)
    sure = None if head.objectness is None else columns.real(head.objectness)
    boxes, scores = columns.real(head.boxes), columns.real(head.scores)
    return replace(head, boxes=boxes, scores=scores, objectness=sure)


def remark_on_more(graph: Graph, head: Head, form: str) -> None:
    """Say of a graph what its head finds beside boxes, for which a form has no place."""
    found = {"keypoints": head.points, "masks": head.masks}
    left = " and ".join(name for name, item in found.items() if item is not None)
    if left:
        what = f"the form {form} has no place for {left}, which are left out"
        hint = "--form objects has them"
        remark = Diagnostic(Severity.WARNING, "detections-form", graph.name, what, hint=hint)
        graph.remarks.append(remark)


class _Maker:
    """Makes the operands of TFLite's post-processing.

    Args:
        graph: the graph.
        head: the head of its detector.
    """

    def __init__(self, graph: Graph, head: Head) -> None:
        self.graph, self.head, self.columns = graph, head, Columns(graph, DECODING)
        self.count = graph.type(head.boxes).shape[1]
        self.coded = self._coded()

    def _coded(self) -> Floats:
        """Anchors [n,6] in pixels; those of boxes without are the unit of x and y."""
        if self.head.anchors is not None:
            return self.head.anchors
        (width, height), units = self.head.size, self.head.scale
        row = np.array([0, 0, *units, width, height], np.float32)
        return np.tile(row, (self.count, 1))

    @property
    def anchors(self) -> Floats:
        """Anchors [n,4] of post-processing: centre and unit, y before x, in parts of the image."""
        x, y, width, height = self.coded[:, :4].T / np.array(
            [[*self.head.size] * 2], np.float32
        ).reshape(4, 1)
        return np.stack([y, x, height, width], axis=1).astype(np.float32)

    def emit(self, op: str, *operands: str | Array) -> str:
        """An operation on columns [1,n,1]."""
        names = [
            item if isinstance(item, str) else self.graph.add_constant("factor", item)
            for item in operands
        ]
        type = TensorType((1, self.count, 1), DType.FLOAT32)
        a = NO_ATTRIBUTES if op in _PLAIN else ActivationAttributes()
        return self.graph.emit(op, names, type, a, stem=f"{DECODING}{op}")

    def column(self, index: int) -> str:
        """A number of all encoded boxes [1,n,1]."""
        return self.columns.sliced(self.head.boxes, 2, index, 1)

    def encoded(self) -> str:
        """Encoded boxes [1,n,4]: y and x of the centre, logarithms of height and width."""
        swap = self.head.y_first
        x, y = (self._axis(axis, axis ^ swap) for axis in (0, 1))
        return self.columns.joined([y[0], x[0], y[1], x[1]], 2)

    def _axis(self, axis: int, place: int) -> tuple[str, str]:
        """Offset of the centre in units, and logarithm of the extent in units, along an axis.

        Args:
            axis: 0 for x and 1 for y.
            place: which of the first two numbers is for it.
        """
        first, second = self.column(place), self.column(place + 2)
        coding = self.head.coding
        if coding in (BoxCoding.DISTANCES, BoxCoding.CORNERS):
            before, after = "sub", "add"
            if coding is BoxCoding.CORNERS:
                before, after = "add", "sub"
            middle = self.emit("mul", self.emit(before, second, first), _HALF)
            return middle, self._log(self.emit(after, second, first))
        unit = self.coded[:, UNIT][:, axis]
        if coding is BoxCoding.CENTRES:
            return first, self._log(second)
        shift = np.log(self.coded[:, SIZE][:, axis] / unit).astype(np.float32).reshape(1, -1, 1)
        if coding is BoxCoding.EXPONENTIAL:
            scaled = self.emit("mul", second, np.array([self.head.exponent], np.float32))
            return first, self.emit("add", scaled, shift)
        power = np.array([2.0 if coding is BoxCoding.SQUARES else 1.0], np.float32)
        return first, self.emit("add", self.emit("mul", self._log(second), power), shift)

    def _log(self, name: str) -> str:
        return self.emit("log", self.emit("maximum", name, _LEAST))

    def probabilities(self) -> str:
        """Scores of classes [1,n,c], times the objectness."""
        graph, head = self.graph, self.head
        type = graph.type(head.scores)
        name = graph.emit("sigmoid", [head.scores], type) if head.logits else head.scores
        if head.peaks:
            name = self._at_peaks(name)
        if head.objectness is None:
            return name
        sure = head.objectness
        if head.logits:
            sure = graph.emit("sigmoid", [sure], graph.type(sure))
        name = graph.emit("mul", [name, sure], type, ActivationAttributes())
        return graph.emit("sqrt", [name], type) if head.root else name

    def _at_peaks(self, scores: str) -> str:
        """Scores [1,n,c], with zeros where those of the head are no peaks of images."""
        columns = self.head.peaks
        rows = self.graph.type(self.head.scores)
        count, classes = rows.shape[1:]
        image = rows.with_shape((1, count // columns, columns, classes))
        around = PoolAttributes((3, 3), (1, 1), PaddingScheme.SAME)

        def emit(op: str, names: list[str], type: TensorType, a: Attributes = NO_ATTRIBUTES) -> str:
            return self.graph.emit(op, names, type, a, stem=f"{DECODING}{op}")

        cells = emit("reshape", [self.head.scores], image, ReshapeAttributes(image.shape))
        maxima = emit("max_pool_2d", [cells], image, around)
        peaks = emit("greater_equal", [cells, maxima], replace(image, dtype=DType.BOOL))
        mask = emit("cast", [peaks], image)
        shares = emit("reshape", [mask], rows, ReshapeAttributes(rows.shape))
        return emit("mul", [scores, shares], rows, ActivationAttributes())


def threshold_logit(score: float) -> float:
    """The logit of a score."""
    return math.log(score / (1 - score))
