"""What operators have for some of their channels: types, quantization, biases, and slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fitzroy.base.types import Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import StridedSliceAttributes
from fitzroy.compiler.passes.rewritten import Item, Rewriter


def narrowed(type: TensorType, channels: range) -> TensorType:
    """The type of some channels of a value, which lie along its last axis."""
    return type.with_shape((*type.shape[:-1], len(channels)))


def some(quantization: Quantization, channels: range) -> Quantization:
    """The quantization of some output channels."""
    if quantization.is_per_tensor:
        return quantization
    chosen = slice(channels.start, channels.stop)
    return replace(
        quantization,
        scale=quantization.scale[chosen],
        zero_point=quantization.zero_point[chosen],
    )


def is_known(graph: Graph, node: Node) -> bool:
    """Whether the filter of a convolution is a quantized constant, and its bias a constant too."""
    call = Call.of(graph, node)
    filters, bias = call.operand(1), call.optional(2)
    known = filters.is_constant and (bias is None or bias.is_constant)
    return known and filters.type.quantization is not None


class ChannelRewriter(Rewriter[Item]):
    """A graph in which nodes that compute some channels each take the place of others."""

    def slice(self, node: Node, name: str, channels: range) -> str:
        """Append a slice of some channels of a value that a node reads."""
        type = narrowed(self.graph.type(name), channels)
        rank = len(type.shape)
        begin = (0,) * (rank - 1) + (channels.start,)
        taken = StridedSliceAttributes(begin, type.shape, (1,) * rank)
        return self.emit(node.name, "strided_slice", [name], type, taken)

    def biases(self, node: Node, channels: range) -> list[str | None]:
        """The biases of some of a convolution's output channels, as operands after its filter."""
        bias = Call.of(self.graph, node).optional(2)
        if bias is None:
            return []
        assert bias.data is not None, "the bias is known"
        count = self.graph.type(node.outputs[0]).shape[-1]
        data = np.broadcast_to(bias.data.reshape(-1), count)[channels.start : channels.stop]
        scales = bias.type.quantization
        kept = None if scales is None else some(scales, channels)
        return [self.graph.add_constant(bias.name, data, kept)]
