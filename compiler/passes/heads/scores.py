"""Scores of a detector without their last function."""

from __future__ import annotations

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.passes.heads.columns import MOVERS, Columns


def without_sigmoid(columns: Columns, name: str) -> str | None:
    """The logits of scores, moved as those are; None if not all are sigmoids."""
    graph, node = columns.graph, columns.graph.producer(name)
    if node is None:
        return None
    if node.op == "sigmoid":
        return str(node.inputs[0])
    if is_rescaled(graph, node):
        return without_sigmoid(columns, str(node.inputs[0]))
    if node.op not in MOVERS or len(node.outputs) > 1:
        return None
    inputs = [without_sigmoid(columns, str(read)) for read in node.inputs]
    if None in inputs:
        return None
    type = graph.type(str(inputs[0])).with_shape(graph.type(name).shape)
    return graph.emit(node.op, inputs, type, node.attributes)


def is_rescaled(graph: Graph, node: Node) -> bool:
    """Whether a node gives the same numbers with another quantization, or as float32."""
    conversion = node.op in ("quantize", "dequantize")
    return conversion and graph.type(str(node.inputs[0])).is_quantized
