"""Positions of largest channels, counted on the chip.

`arg_max` gives integers of 32 or 64 bits, which no chip sends: what remains for the host is to make
them of a byte for every pixel, and a map of classes leaves in place of the scores of all classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import DType, Quantization
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.reduction import ArgAttributes, ArgMax
from fitzroy.compiler.ops.shape import StridedSliceAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.heads.best_class import (
    LEVELS,
    WORD,
    Group,
    best_of,
    number_of,
    rising_codes,
    unsigned,
)
from fitzroy.compiler.passes.heads.columns import Columns

_IMAGE = 4


@dataclass(frozen=True)
class ArgMaxima(Pass):
    """Rewrite ``arg_max`` over the channels of an image as image operators and a cast.

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
        and type.is_eight_bit
    )


def _rewrite(graph: Graph, node: Node) -> None:
    image, (result,) = str(node.inputs[0]), node.outputs
    group = Group(image, 1, 1)
    number = number_of(graph, group, best_of(graph, group))
    shape = graph.type(result).shape
    packed = _packed(graph, number)
    width = math.prod(graph.type(packed).shape[2:])
    rows = Columns(graph).reshaped(packed, (*shape[:2], width))
    if width > shape[2]:
        a = StridedSliceAttributes((0, 0, _before(shape[2])), shape, (1, 1, 1))
        rows = graph.emit("strided_slice", [rows], graph.type(rows).with_shape(shape), a)
    graph.remove(node.name)
    graph.add_node(Node(node.name, "cast", (rows,), (result,), origin=node.origin))
    for reader in graph.consumers(result):
        if reader.op == "cast":
            # Whatever it gives, it is made of a byte.
            graph.update(replace(reader, inputs=(rows,)))


def _packed(graph: Graph, number: str) -> str:
    """Positions [1,h,w/4,4] as uint8, of what `number_of` gives [1,h,w,1].

    A word of the chip, and of what it sends, has four channels. A convolution puts neighbouring
    pixels of a row there, and turns codes that fall into positions.
    """
    type = graph.type(number)
    filters = np.zeros((WORD, 1, WORD, 1), np.int64)
    filters[np.arange(WORD), 0, np.arange(WORD), 0] = -1
    zero = int(type.dtype is DType.UINT8)
    stored = (filters + zero).astype(type.dtype.numpy)
    weights = graph.add_constant(f"{number}.turned", stored, Quantization.per_tensor(1.0, zero))
    rising = rising_codes(type)
    assert rising.quantization is not None
    scale = Quantization.per_tensor(rising.quantization.scale[0])
    bias = graph.add_constant(f"{number}.zeros", np.zeros(WORD, np.int32), scale)
    shape = (*type.shape[:2], -(-type.shape[2] // WORD), WORD)
    a = ConvAttributes((1, WORD), padding=PaddingScheme.SAME)
    operands, stem = [number, weights, bias], f"{number}.packed"
    return unsigned(graph, graph.emit("conv_2d", operands, rising.with_shape(shape), a, stem=stem))


def _before(width: int) -> int:
    """Places in front of the first pixel of a row in its first word."""
    return -width % WORD // 2
