"""Several products with the same matrix, as one product.

Converters that hold an image's pixels first write a product with all of them as one product for
each: the same matrix times one column, or one row times the same matrix. The columns, or rows, are
those of a matrix, and what they make, too.
"""

from __future__ import annotations

import math

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes, Shape, TransposeAttributes
from fitzroy.compiler.passes.rewritten import Rewriter, Rewritten


def joined_shapes(
    left: Shape, right: Shape, attributes: BatchMatMulAttributes
) -> tuple[Shape, Shape]:
    """Shapes of the operands of a product once columns or rows of the same matrix are joined.

    Args:
        left: the shape of the first operand, which is computed, like the second one.
        right: that of the second operand.
        attributes: which operands are transposed.

    Returns:
        The same shapes if there is nothing to join.
    """
    if _has_columns_apart(left, right, attributes):
        return left, _swapped(right)
    kept = _axes_before_rows(left, right)
    if kept is None or attributes.adj_x:
        return left, right
    rows = math.prod(left[kept:-1])
    return (*left[:kept], rows, left[-1]), (*left[:kept], *right[-2:])


def joined_products(graph: Graph) -> Rewritten:
    """A graph of the same results in which such products are one; itself if there are none."""
    return _Work.applied(graph, [node for node in graph.nodes() if _is_apart(graph, node)])


def _has_columns_apart(left: Shape, right: Shape, attributes: BatchMatMulAttributes) -> bool:
    """Whether products are of the same matrices, and of one column each along the first axis.

    The first operand is [1,...,m,k], or transposed, and the second [n,...,k,1].
    """
    same = len(left) == len(right) > 2 and left[1:-2] == right[1:-2] and left[0] == 1
    return same and not attributes.adj_y and right[0] > 1 == right[-1]


def _axes_before_rows(left: Shape, right: Shape) -> int | None:
    """How many leading axes matrices have in common; None if no rows are apart.

    The first operand is [...,n,m,k] and the second [...,1,k,c], or without some of the leading
    ones: all axes between those in common and the columns are of rows.
    """
    if len(left) < len(right):
        return None
    matrices = (1,) * (len(left) - len(right)) + right[:-2]
    kept = len(matrices)
    while kept and matrices[kept - 1] == 1:
        kept -= 1
    apart = math.prod(left[kept:-2]) > 1
    return kept if apart and left[:kept] == matrices[:kept] else None


def _is_apart(graph: Graph, node: Node) -> bool:
    a = node.attributes
    if not isinstance(a, BatchMatMulAttributes):
        return False
    values = [graph.value(str(name)) for name in node.inputs]
    if any(value.is_constant for value in values):
        return False
    left, right = (value.type.shape for value in values)
    return joined_shapes(left, right, a) != (left, right)


class _Work(Rewriter[Node]):
    """A graph whose columns and rows are joined product by product."""

    def rewrite(self, node: Node) -> None:
        """Put a product with all columns, or rows, in the place of one for each."""
        a = node.attributes
        assert isinstance(a, BatchMatMulAttributes)
        left, right = (self.graph.type(str(name)).shape for name in node.inputs)
        if _has_columns_apart(left, right, a):
            self._join_columns(node, a)
        else:
            self._join_rows(node, a, joined_shapes(left, right, a))

    def _join_columns(self, node: Node, a: BatchMatMulAttributes) -> None:
        left, right = map(str, node.inputs)
        columns = self._exchanged(node, right)
        shape = _swapped(self.graph.type(node.outputs[0]).shape)
        type = self.graph.type(node.outputs[0]).with_shape(shape)
        made = self.emit(node.name, node.op, [left, columns], type, a)
        perm = _swapped(tuple(range(len(shape))))
        self.put_in_place(node, "transpose", [made], TransposeAttributes(perm))

    def _join_rows(self, node: Node, a: BatchMatMulAttributes, shapes: tuple[Shape, Shape]) -> None:
        operands = [
            self._reshaped(node, str(name), shape)
            for name, shape in zip(node.inputs, shapes, strict=True)
        ]
        after = self.graph.type(node.outputs[0])
        type = after.with_shape((*shapes[0][:-1], after.shape[-1]))
        made = self.emit(node.name, node.op, operands, type, a)
        self.put_in_place(node, "reshape", [made], ReshapeAttributes(after.shape))

    def _reshaped(self, node: Node, name: str, shape: Shape) -> str:
        type = self.graph.type(name)
        if type.shape == shape:
            return name
        return self.emit(
            node.name, "reshape", [name], type.with_shape(shape), ReshapeAttributes(shape)
        )

    def _exchanged(self, node: Node, name: str) -> str:
        """A value with its first and its last axis exchanged."""
        type = self.graph.type(name)
        perm = _swapped(tuple(range(type.rank)))
        moved = type.with_shape(_swapped(type.shape))
        return self.emit(node.name, "transpose", [name], moved, TransposeAttributes(perm))


def _swapped(shape: Shape) -> Shape:
    """A shape, or numbers of axes, with the first and the last exchanged."""
    return (shape[-1], *shape[1:-1], shape[0])
