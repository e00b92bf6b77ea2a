"""Scores of a detector without their last functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.elementwise import reals
from fitzroy.compiler.ops.shape import ConcatenationAttributes, TransposeAttributes
from fitzroy.compiler.passes.heads.columns import MOVERS, Columns, stored
from fitzroy.compiler.quantization.ranges import asymmetric


@dataclass(frozen=True, slots=True)
class Product:
    """Scores that are products: of a class, times of being any object.

    Attributes:
        classes: logits of classes [...,c].
        objectness: logits of being any object [...,1].
        root: whether a score is the square root of the product, as in FCOS.
    """

    classes: str
    objectness: str
    root: bool = False


def product_of(columns: Columns, name: str) -> Product | None:
    """The factors of scores [1,n,c], moved as those are; None if scores are no such products.

    Both are sigmoids. The classes of a box are the last axis.
    """
    graph, node = columns.graph, columns.graph.producer(name)
    if node is None or len(node.outputs) > 1:
        return None
    if is_rescaled(graph, node):
        return product_of(columns, str(node.inputs[0]))
    if node.op == "sqrt":
        found = product_of(columns, str(node.inputs[0]))
        return None if found is None or found.root else replace(found, root=True)
    if node.op == "mul":
        return _factors(columns, node)
    if node.op == "concatenation":
        return _joined(columns, node)
    if node.op not in ("reshape", "transpose"):
        return None
    found = product_of(columns, str(node.inputs[0]))
    return None if found is None else _moved(columns, node, found)


def _factors(columns: Columns, node: Node) -> Product | None:
    """The factors of a product, of which one has one number for all classes."""
    graph, whole = columns.graph, columns.graph.type(node.outputs[0]).shape
    names = [str(name) for name in node.inputs]
    one = (*whole[:-1], 1)
    for classes, sure in (names, names[::-1]):
        if (graph.type(classes).shape, graph.type(sure).shape) != (whole, one):
            continue
        logits = without_sigmoid(columns, classes), without_sigmoid(columns, sure)
        if logits[0] is not None and logits[1] is not None:
            return Product(logits[0], logits[1])
    return None


def _joined(columns: Columns, node: Node) -> Product | None:
    """Factors of what is joined along another axis than classes."""
    a, rank = node.attributes, columns.graph.type(node.outputs[0]).rank
    assert isinstance(a, ConcatenationAttributes)
    parts = [product_of(columns, str(name)) for name in node.inputs]
    found = [part for part in parts if part is not None]
    roots = {part.root for part in found}
    if len(found) < len(parts) or len(roots) > 1 or a.axis % rank == rank - 1:
        return None
    classes, sure = (
        columns.joined(names, a.axis % rank)
        for names in ([part.classes for part in found], [part.objectness for part in found])
    )
    return Product(classes, sure, roots.pop())


def _moved(columns: Columns, node: Node, found: Product) -> Product | None:
    """Factors moved as their product is; None if that moves classes."""
    graph, a = columns.graph, node.attributes
    before, after = (graph.type(name).shape for name in (str(node.inputs[0]), node.outputs[0]))
    moves_classes = after[-1:] != before[-1:]
    if isinstance(a, TransposeAttributes):
        moves_classes = a.perm[-1] != len(before) - 1
    if moves_classes:
        return None

    def move(name: str) -> str:
        if isinstance(a, TransposeAttributes):
            return columns.transposed(name, a.perm)
        return columns.reshaped(name, (*after[:-1], graph.type(name).shape[-1]))

    return Product(move(found.classes), move(found.objectness), found.root)


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
    found = [without_sigmoid(columns, str(read)) for read in node.inputs]
    inputs = [logits for logits in found if logits is not None]
    if len(inputs) < len(found):
        return None
    if isinstance(node.attributes, ConcatenationAttributes):
        return columns.joined(inputs, node.attributes.axis)
    type = graph.type(inputs[0]).with_shape(graph.type(name).shape)
    return graph.emit(node.op, inputs, type, node.attributes)


def in_one_scale(graph: Graph, name: str) -> str:
    """Scores of a quantized model as integers of one scale, if they are joined as float32.

    Its levels may have scales of their own. The chip finds the best class only among integers of
    one scale, which is chosen to hold the values of all levels. Other scores stay as they are.
    """
    node = graph.producer(name)
    if node is None or node.op not in _KEPT_WHOLE or graph.type(name).is_quantized:
        return name
    parts = [in_one_scale(graph, stored(graph, str(read))) for read in node.inputs]
    types = [graph.type(part) for part in parts]
    if not all(type.is_eight_bit for type in types) or len({type.dtype for type in types}) > 1:
        return name
    whole = _holding(types).with_shape(graph.type(name).shape)
    scaled = [
        part
        if type.quantization == whole.quantization
        else graph.emit("quantize", [part], whole.with_shape(type.shape))
        for part, type in zip(parts, types, strict=True)
    ]
    return graph.emit(node.op, scaled, whole, node.attributes)


_KEPT_WHOLE = ("concatenation", "reshape", "transpose")
"""Operators whose results have all elements of their operands."""


def _holding(types: Sequence[TensorType]) -> TensorType:
    """A type of 8 bits that holds all numbers of some others, of the same element type."""
    if len({type.quantization for type in types}) == 1:
        return types[0]
    ends = [bound for type in types for bound in reals(np.array(type.dtype.limits), type)]
    return replace(types[0], quantization=asymmetric(min(ends), max(ends), types[0].dtype))


def is_rescaled(graph: Graph, node: Node) -> bool:
    """Whether a node gives the same numbers with another quantization, or as float32."""
    conversion = node.op in ("quantize", "dequantize")
    return conversion and graph.type(str(node.inputs[0])).is_quantized
