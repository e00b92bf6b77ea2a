"""Encoded boxes of which some numbers go through a sigmoid before they mean what their coding says.

The centres of YOLOv3 and YOLOv4 are sigmoids, and their extents are exponentials: no value of such
a model holds both as a coding has them. So centres are computed by the chip, with a scale of their
own, and joined with extents on the host.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import BOX
from fitzroy.compiler.ops.detections import DECODING, sigmoid
from fitzroy.compiler.passes.heads.columns import Columns
from fitzroy.compiler.quantization.rules import RULES

Floats = npt.NDArray[np.float32]


def activated(columns: Columns, boxes: str, count: int) -> str:
    """Encoded boxes [1,n,4] after the sigmoid of their first numbers.

    Args:
        columns: makes parts of values.
        boxes: the boxes before [1,n,4].
        count: how many numbers of a box go through it.
    """
    graph = columns.graph
    if not count:
        return boxes
    first = _sigmoid(graph, columns.take(boxes, 2, 0, count))
    if count == BOX:
        return first
    rest = columns.take(boxes, 2, count, BOX - count)
    return Columns(graph, DECODING).joined([first, rest], 2)


def activated_numbers(boxes: Floats, count: int) -> Floats:
    """The same of numbers [n,4]."""
    return np.concatenate([sigmoid(boxes[:, :count]), boxes[:, count:]], axis=1)


def _sigmoid(graph: Graph, name: str) -> str:
    type = graph.type(name)
    if type.is_quantized:
        type = TensorType(type.shape, DType.INT8, RULES["sigmoid"].result)
    return graph.emit("sigmoid", [name], type)
