"""Which operators are made of other operators?

A rule puts other nodes, which have rules of their own, in the place of a node. Only the code
generator sees these nodes. Reports name the operator of the model: where it runs, and why not on
the chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.base.types import Array, Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import ReshapeAttributes, Shape, StridedSliceAttributes
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer


@dataclass
class Rewriting:
    """Nodes that take the place of one.

    Attributes:
        graph: the graph without the node, and with those that take its place.
        call: the node.
        nodes: names of those that take its place, in order.
    """

    graph: Graph
    call: Call
    nodes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, legalizer: Legalizer, call: Call) -> Rewriting:
        """Start to replace a call; there are no nodes yet."""
        graph = legalizer.graph.copy()
        graph.remove(call.node.name)
        return cls(graph, call)

    def emit(
        self,
        op: str,
        inputs: Sequence[str | None],
        type: TensorType,
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        result: str = "",
    ) -> str:
        """Append a node; returns the name of its result.

        Args:
            op: its operator.
            inputs: what it reads.
            type: type of its result.
            attributes: its attributes.
            result: the result of the replaced node that it makes; empty for another value.
        """
        name = self.graph.fresh(f"{self.call.node.name}/{op}")
        node = Node(name, op, tuple(inputs), (result or name,), attributes)
        self.graph.add_node(node, () if result else (type,))
        self.nodes.append(name)
        return result or name

    def constant(self, data: Array, scale: float) -> str:
        """A quantized constant whose zero is stored as zero; returns its name."""
        stem = f"{self.call.node.name}/constant"
        return self.graph.add_constant(stem, data, Quantization.per_tensor(scale, 0))

    def reshape(self, name: str, shape: Sequence[int], *, result: str = "") -> str:
        """The same elements in another shape; nothing to do if it is the same."""
        type = replace(self.graph.type(name), shape=tuple(shape))
        if type.shape == self.graph.type(name).shape and not result:
            return name
        return self.emit("reshape", [name], type, ReshapeAttributes(type.shape), result=result)

    def slice(self, name: str, axis: int, begin: int, count: int) -> str:
        """Append a slice of some elements along an axis."""
        type = self.graph.type(name)
        starts = [begin if k == axis else 0 for k in range(len(type.shape))]
        shape = tuple(count if k == axis else size for k, size in enumerate(type.shape))
        attributes = StridedSliceAttributes(tuple(starts), shape, (1,) * len(shape))
        return self.emit("strided_slice", [name], replace(type, shape=shape), attributes)

    def run(self, legalizer: Legalizer) -> None:
        """Legalize the nodes.

        Raises:
            UnsupportedError: a rule refuses one of them.
        """
        legalizer.graph = self.graph
        for name in self.nodes:
            # The call may stand for another itself: its layers get their origin with all others.
            legalizer.legalize_as(self.graph.node(name), "")


def with_rank(shape: Shape, rank: int) -> Shape:
    """A shape with axes of extent 1 in front."""
    return (1,) * (rank - len(shape)) + shape


def ones(shape: Sequence[int], type: TensorType) -> Array:
    """Weights of one, in the element type of a tensor."""
    return np.ones(tuple(shape), type.dtype.numpy)
