"""Boxes in the order in which layers give them.

PyTorch has the numbers of a box in front of the boxes, so that exporters to TFLite, whose layers
have channels last, move all distributions before and after their expectations. A list of objects
wants boxes one after another, as layers give them.
"""

from __future__ import annotations

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BOX
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.passes.axes.orders import in_cheapest_orders
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.canonicalize import Simplify
from fitzroy.compiler.passes.heads.columns import Columns

_SWAPPED = (0, 2, 1, 3)
"""The order of axes with boxes in front of their numbers, and back."""


def in_row_order(graph: Graph) -> Graph:
    """A detector that gives the same, and moves fewer elements before boxes are decoded."""
    for node in graph.nodes():
        if _is_expectation(graph, node):
            _put_boxes_first(graph, node)
    graph.prune()
    moved = in_cheapest_orders(graph).graph
    return moved if moved is graph else run_passes(moved, (Simplify(),))


def _is_expectation(graph: Graph, node: Node) -> bool:
    """Whether a node computes expectations, with the numbers of a box in front of boxes."""
    a, before = node.attributes, graph.producer(str(node.inputs[0])) if node.inputs else None
    if not isinstance(a, ConvAttributes) or before is None or before.op != "softmax":
        return False
    kernel = graph.type(str(node.inputs[1])).shape
    shape = graph.type(node.outputs[0]).shape
    single = kernel[:3] == (1, 1, 1) and a.stride == (1, 1)
    return single and shape[1] == BOX < shape[2]


def _put_boxes_first(graph: Graph, node: Node) -> None:
    """Let a convolution of single elements read boxes one after another."""
    columns = Columns(graph)
    type = graph.type(node.outputs[0])
    turned = columns.transposed(str(node.inputs[0]), _SWAPPED)
    shape = tuple(type.shape[axis] for axis in _SWAPPED)
    inputs = (turned, *node.inputs[1:])
    made = graph.emit(node.op, inputs, type.with_shape(shape), node.attributes, stem=node.name)
    graph.replace_uses(node.outputs[0], columns.transposed(made, _SWAPPED))
