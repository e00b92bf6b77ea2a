"""Which inputs of an ONNX model are images, whose channels the graph stores last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import NodeProto

_SPATIAL = frozenset({
    "AveragePool", "BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GridSample", "GroupNormalization",
    "InstanceNormalization", "LRN", "LpPool", "MaxPool", "MaxUnpool", "QLinearAveragePool",
    "QLinearConv", "QLinearGlobalAveragePool", "Resize", "RoiAlign", "SpaceToDepth", "Upsample",
})  # fmt: skip
"""Operators whose operands have channels in dimension 1."""

_INDIFFERENT = frozenset({
    "Abs", "Add", "Cast", "Clip", "Concat", "DequantizeLinear", "Div", "Dropout",
    "DynamicQuantizeLinear", "Identity", "LeakyRelu", "Max", "Min", "Mul", "Neg", "PRelu",
    "Pad", "Pow", "QuantizeLinear", "Relu", "Sigmoid", "Slice", "Split", "Sub", "Tanh",
})  # fmt: skip
"""Operators that keep dimensions where they are."""


def image_inputs(nodes: Sequence[NodeProto]) -> set[str]:
    """Names of values that convolutions or the like read, perhaps after operators on elements.

    Args:
        nodes: the nodes of a model, in the order in which they run.
    """
    wanted: set[str] = set()
    for node in reversed(nodes):
        spatial = node.op_type in _SPATIAL
        passed = node.op_type in _INDIFFERENT and not wanted.isdisjoint(node.output)
        if spatial or passed:
            wanted.update(node.input[:1] if spatial else node.input)
    return wanted
