"""Products whose columns are matrices of their own, as one product.

Converters that hold an image's pixels first write a product with all of them as one product for
each: the same matrix times one column. The columns are those of a matrix, and what they make, too.
"""

from __future__ import annotations

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import Shape, TransposeAttributes
from fitzroy.compiler.passes.rewritten import Rewriter, Rewritten


def has_columns_apart(left: Shape, right: Shape, adj_y: bool) -> bool:
    """Whether products are of the same matrices, and of one column each along the first axis.

    Args:
        left: the first operand's shape [1,...,m,k], or transposed.
        right: that of the second [n,...,k,1].
        adj_y: whether the second operand's matrices are transposed.
    """
    same = len(left) == len(right) > 2 and left[1:-2] == right[1:-2] and left[0] == 1
    return same and not adj_y and right[0] > 1 == right[-1]


def joined_columns(graph: Graph) -> Rewritten:
    """A graph of the same results in which such products are one; itself if there are none."""
    return _Work.applied(graph, [node for node in graph.nodes() if _is_apart(graph, node)])


def _is_apart(graph: Graph, node: Node) -> bool:
    a = node.attributes
    if not isinstance(a, BatchMatMulAttributes):
        return False
    left, right = (graph.value(str(name)) for name in node.inputs)
    known = left.is_constant or right.is_constant
    return not known and has_columns_apart(left.type.shape, right.type.shape, a.adj_y)


class _Work(Rewriter[Node]):
    """A graph whose columns are joined product by product."""

    def rewrite(self, node: Node) -> None:
        """Put a product with all columns in the place of one for each."""
        left, right = map(str, node.inputs)
        columns = self._exchanged(node, right)
        shape = _swapped(self.graph.type(node.outputs[0]).shape)
        type = self.graph.type(node.outputs[0]).with_shape(shape)
        made = self.emit(node.name, node.op, [left, columns], type, node.attributes)
        perm = _swapped(tuple(range(len(shape))))
        self.put_in_place(node, "transpose", [made], TransposeAttributes(perm))

    def _exchanged(self, node: Node, name: str) -> str:
        """A value with its first and its last axis exchanged."""
        type = self.graph.type(name)
        perm = _swapped(tuple(range(type.rank)))
        moved = type.with_shape(_swapped(type.shape))
        return self.emit(node.name, "transpose", [name], moved, TransposeAttributes(perm))


def _swapped(shape: Shape) -> Shape:
    """A shape, or numbers of axes, with the first and the last exchanged."""
    return (shape[-1], *shape[1:-1], shape[0])
