"""What operators have for some of their channels: types, quantization, biases, and slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fitzroy.base.types import Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.shape import StridedSliceAttributes
from fitzroy.compiler.passes.rewritten import Rewriter


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


def bias_of(graph: Graph, node: Node) -> Value | None:
    """The bias of a convolution, if it has one."""
    name = node.inputs[2] if len(node.inputs) > 2 else None
    return None if name is None else graph.value(name)


class ChannelRewriter(Rewriter):
    """A graph in whose nodes others compute some channels each."""

    def slice(self, node: Node, name: str, channels: range) -> str:
        """Append a slice of some channels of a value that a node reads."""
        type = narrowed(self.graph.type(name), channels)
        rank = len(type.shape)
        begin = (0,) * (rank - 1) + (channels.start,)
        taken = StridedSliceAttributes(begin, type.shape, (1,) * rank)
        return self.emit(node.name, "strided_slice", [name], type, taken)

    def biases(self, node: Node, channels: range) -> list[str | None]:
        """The biases of some of a convolution's output channels, as operands after its filter."""
        bias = bias_of(self.graph, node)
        if bias is None:
            return []
        assert bias.data is not None, "the bias is known"
        count = self.graph.type(node.outputs[0]).shape[-1]
        data = np.broadcast_to(bias.data.reshape(-1), count)[channels.start : channels.stop]
        scales = bias.type.quantization
        kept = None if scales is None else some(scales, channels)
        return [self.graph.add_constant(bias.name, data, kept)]
