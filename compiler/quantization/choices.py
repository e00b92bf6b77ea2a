"""Choices between real numbers by known conditions, as products with 0 and 1.

The condition of TFLite's choice is a tensor of booleans, for which hardware of 8-bit numbers has no
operator. If it is a constant, as at the border of a window or for a triangle of a matrix, a sum of
products with zeros and ones gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.quantization.rules import is_real

_PLAIN = ActivationAttributes()


def with_products(graph: Graph) -> None:
    """Let choices by constants become products, or sums of two.

    Choices between constants stay, and so do those that may give a constant that is not finite.
    """
    for node in graph.nodes():
        if node.op != "select" or not is_real(graph, node.outputs[0]):
            continue
        condition, *choices = (graph.value(str(name)) for name in node.inputs)
        finite = all(x.data is None or np.isfinite(x.data).all() for x in choices)
        if condition.data is None or not finite or all(x.is_constant for x in choices):
            continue
        _compute(graph, node, choices, condition.data.astype(np.float32))


def _compute(graph: Graph, node: Node, choices: Sequence[Value], weights: Array) -> None:
    """Make a choice a product, or a sum.

    Args:
        graph: a float32 graph.
        node: the choice.
        choices: what it is between; one at least is no constant.
        weights: 1 where it gives the first, 0 where the second.
    """
    shape = graph.type(node.outputs[0]).shape
    given = np.zeros((), np.float32)
    products: list[tuple[str, Array]] = []
    for value, weight in zip(choices, (weights, 1 - weights), strict=True):
        if value.data is None:
            products.append((value.name, weight))
        else:
            given = (value.data * weight).astype(np.float32)
    if len(products) == 1 and not given.any():
        ((name, weight),) = products
        if np.broadcast_shapes(graph.type(name).shape, weight.shape) == shape:
            inputs = (name, graph.add_constant(f"{node.name}.factor", weight))
            graph.update(replace(node, op="mul", inputs=inputs, attributes=_PLAIN))
        return
    terms = [_product(graph, node, *product) for product in products]
    if len(terms) == 1:
        terms.append(graph.add_constant(f"{node.name}.given", given))
    graph.update(replace(node, op="add", inputs=tuple(terms), attributes=_PLAIN))


def _product(graph: Graph, node: Node, name: str, weight: Array) -> str:
    """The product of a value and a constant, before a node."""
    factor = graph.add_constant(f"{node.name}.factor", weight)
    shape = np.broadcast_shapes(graph.type(name).shape, weight.shape)
    type, stem = TensorType(shape, DType.FLOAT32), f"{node.name}.product"
    return graph.emit("mul", (name, factor), type, _PLAIN, stem=stem, origin=node.origin)
