"""What TFLite's post-processing reads of all scores: the best of each box, found on the chip.

With `max_classes_per_detection` of 1 and without `use_regular_nms`, the kernel takes of the scores
of a box the largest and the first class that has it (`std::max_element`), and nothing else: boxes
are dropped, ordered and told apart by that score alone. Scores in which all others are zero have
the same largest and the same first class, if none is negative. Where the largest is above zero, it
stands alone; where it is zero, so were all, and the first class is the best in both. So the model
gets these scores, made on the host of two bytes for every box.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.detection import DetectionAttributes, DetectionPostProcess
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.indexing import OneHotAttributes
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.heads.best_class import LEVELS
from fitzroy.compiler.passes.heads.class_maximum import FEW
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.passes.heads.levels import Level, best_classes, levels_of

_BOXES, _SCORES, _ANCHORS = range(3)


@dataclass(frozen=True)
class BestScores(Pass):
    """Pass only the best score of each box to ``TFLite_Detection_PostProcess``, zero for others.

    Its results are the same. Scores are int8 or uint8, and none is negative.
    """

    name = "best-scores"

    def run(self, graph: Graph) -> Graph:
        """Rewrite the operators whose scores are computed as images."""
        for node in graph.nodes():
            if node.op == DetectionPostProcess.name:
                _rewrite(graph, node)
        graph.prune()
        return graph


def _rewrite(graph: Graph, node: Node) -> None:
    """Give an operator scores that are made of the best ones."""
    scores = _stored(graph, node)
    a = node.attributes
    assert isinstance(a, DetectionAttributes)
    if scores is None or a.use_regular_nms or a.max_classes_per_detection != 1:
        return
    background = graph.type(scores).shape[2] - a.num_classes
    if not FEW < a.num_classes <= LEVELS - background:
        return
    levels = levels_of(graph, scores)
    if levels:
        spread = _spread(graph, levels, background, a.num_classes)
        inputs = [spread if index == _SCORES else name for index, name in enumerate(node.inputs)]
        graph.update(replace(node, inputs=tuple(inputs)))


def _stored(graph: Graph, node: Node) -> str | None:
    """The scores as 8 bits, if only the operator reads them and none is negative."""
    name = str(node.inputs[_SCORES])
    if len(graph.consumers(name)) > 1 or name in graph.outputs:
        return None
    before = graph.producer(name)
    if before is not None and before.op == "dequantize":
        name = str(before.inputs[0])
    type = graph.type(name)
    quantization = type.quantization
    if type.dtype not in (DType.INT8, DType.UINT8) or quantization is None:
        return None
    alone = len(graph.consumers(name)) == 1 and name not in graph.outputs
    lowest = quantization.is_per_tensor and quantization.zero_point[0] == type.dtype.limits[0]
    return name if alone and lowest else None


def _spread(graph: Graph, levels: list[Level], background: int, classes: int) -> str:
    """Scores [1,n,c] in float32: the best of each box at its class, and zero.

    Args:
        graph: the graph.
        levels: the images of all scores.
        background: how many of the first classes stand for no object.
        classes: how many there are after these.
    """
    columns = Columns(graph)
    best, number = best_classes(columns, levels, background)
    boxes = graph.type(best).shape[1]
    score = graph.emit("dequantize", [best], TensorType((1, boxes, 1), DType.FLOAT32))
    place = columns.reshaped(number, (1, boxes))
    high = int(graph.type(number).dtype.limits[1])
    whole = TensorType((1, boxes), DType.INT32)
    place = graph.emit("cast", [place], whole)
    # Codes fall from the highest integer.
    last = graph.add_constant("last", np.array(background + high, np.int32))
    place = graph.emit("sub", [last, place], whole, ActivationAttributes())
    ends = [graph.add_constant(stem, np.array(real, np.float32)) for stem, real in _ENDS]
    type = TensorType((1, boxes, background + classes), DType.FLOAT32)
    a = OneHotAttributes(2, background + classes)
    ones = graph.emit("one_hot", [place, *ends], type, a)
    return graph.emit("mul", [ones, score], type, ActivationAttributes())


_ENDS = (("on", 1.0), ("off", 0.0))
