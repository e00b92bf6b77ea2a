"""Positions of largest channels, counted on the chip.

`arg_max` gives integers of 32 or 64 bits, which no chip sends: what remains for the host is to make
them of a byte for every pixel, and a map of classes leaves in place of the scores of all classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.reduction import ArgAttributes, ArgMax
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.heads.best_class import LEVELS, Group, best_of, counted, number_of
from fitzroy.compiler.passes.heads.columns import Columns

_IMAGE = 4


@dataclass(frozen=True)
class ArgMaxima(Pass):
    """Compute ``arg_max`` over channels of an image as operators of images, and a cast.

    Images are int8 or uint8 with 256 channels at most. Of equal channels, the first counts.
    """

    name = "arg-maxima"

    def run(self, graph: Graph) -> Graph:
        """Rewrite the operators that read images."""
        for node in graph.nodes():
            if node.op == ArgMax.name and _is_of_channels(graph, node):
                _rewrite(graph, node)
        graph.prune()
        return graph


def _is_of_channels(graph: Graph, node: Node) -> bool:
    a, type = node.attributes, graph.type(str(node.inputs[0]))
    return (
        isinstance(a, ArgAttributes)
        and type.rank == _IMAGE
        and type.shape[0] == 1
        and a.axis == _IMAGE - 1
        and 1 < type.shape[3] <= LEVELS
        and type.dtype in (DType.INT8, DType.UINT8)
        and type.quantization is not None
        and type.quantization.is_per_tensor
    )


def _rewrite(graph: Graph, node: Node) -> None:
    image, (result,) = str(node.inputs[0]), node.outputs
    group = Group(image, 1, 1)
    number = counted(graph, number_of(graph, group, best_of(graph, group)))
    shaped = Columns(graph).reshaped(number, graph.type(result).shape)
    graph.remove(node.name)
    graph.add_node(Node(node.name, "cast", (shaped,), (result,), origin=node.origin))
