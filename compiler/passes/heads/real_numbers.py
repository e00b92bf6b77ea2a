"""What a quantized graph computes, in real numbers.

A scale that serves the boxes of a whole image has steps of pixels, in which no coding of boxes can
be told from another. What the operators do is exact without the rounding between them.
"""

from __future__ import annotations

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.elementwise import reals

_CONVERSIONS = ("quantize", "dequantize")


def in_real_numbers(graph: Graph) -> Graph:
    """A graph of the same operators, whose quantized values are the float32 that they stand for.

    Conversions between quantizations go; they are the identity of real numbers.
    """
    result = graph.copy()
    for value in graph.values.values():
        if value.type.is_quantized:
            data = None if value.data is None else reals(value.data, value.type)
            type = TensorType(value.type.shape, DType.FLOAT32)
            result.set_value(Value(value.name, type, data))
    for node in graph.nodes():
        source, made = node.inputs[0] if node.inputs else None, node.outputs[0]
        if node.op not in _CONVERSIONS or source is None:
            continue
        if result.type(source) == result.type(made):
            result.remove(node.name)
            result.replace_uses(made, source)
    return result
