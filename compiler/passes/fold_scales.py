"""Scales, offsets and orders of channels that become part of the filters before them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import GatherAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.stored_constants import integers_of, reals_of


@dataclass(frozen=True)
class FoldScales(Pass):
    """Merge scaling, offsets and reordering of channels into the preceding float32 filter.

    This is what becomes of batch normalization after a convolution. If the filter is dequantized,
    it keeps its integers, and only offsets are merged into the bias.
    """

    name = "fold-scales"

    def run(self, graph: Graph) -> Graph:
        """Rewrite pairs of an operator with a filter and one on its channels, its only reader."""
        for node in graph.nodes():
            source = _filtering(graph, node)
            if source is None:
                continue
            with np.errstate(all="ignore"):
                change = _change(graph, node, source)
            if change is None or not (change.keeps_filter or _has_filter(graph, source)):
                continue
            graph.remove(node.name)
            moved = graph.retarget(source.outputs[0], node.outputs[0])
            # Infinities and NaN in filters are values.
            with np.errstate(all="ignore"):
                _rewrite(graph, moved, change)
        graph.prune()
        return graph


@dataclass(frozen=True, slots=True)
class _Change:
    """What happens to channels: ``(x * factor + offset)[order]``, in this order."""

    factor: Array
    offset: Array
    order: Array

    @property
    def keeps_filter(self) -> bool:
        """Whether channels get offsets only."""
        same = np.array_equal(self.order, np.arange(self.factor.size))
        return same and bool((self.factor == 1).all())


def _filtering(graph: Graph, node: Node) -> Node | None:
    """The operator with a known float32 filter and bias that only `node` reads, or None."""
    names = [name for name in node.inputs if name is not None and not _is_known(graph, name)]
    if len(names) != 1 or len(node.outputs) != 1:
        return None
    source = graph.producer(names[0])
    if source is None or OPS[source.op].channel_axis is None or len(source.outputs) != 1:
        return None
    operands = [name for name in source.inputs[1:3] if name is not None]
    same = graph.type(names[0]).shape[-1:] == graph.type(node.outputs[0]).shape[-1:]
    fits = (
        same
        and all(graph.type(name).dtype is DType.FLOAT32 for name in operands)
        and all(_is_known(graph, name) for name in operands)
        and getattr(source.attributes, "activation", Activation.NONE) is Activation.NONE
        and names[0] not in graph.outputs
        and len(graph.consumers(names[0])) == 1
    )
    return source if fits else None


def _is_known(graph: Graph, name: str) -> bool:
    """Whether real numbers are constant, or constant integers that are dequantized."""
    return graph.value(name).is_constant or integers_of(graph, name) is not None


def _has_filter(graph: Graph, node: Node) -> bool:
    """Whether the filter of a node is a constant of real numbers, which may be changed."""
    return graph.value(str(node.inputs[1])).is_constant


def _change(graph: Graph, node: Node, source: Node) -> _Change | None:
    """What a node does to the channels of its operand; None if it does something else."""
    before, after = graph.type(source.outputs[0]), graph.type(node.outputs[0])
    channels = before.shape[-1] if before.shape else 0
    if before.shape != after.shape or not channels:
        return None
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    order = np.arange(channels)
    if node.op == "gather" and isinstance(node.attributes, GatherAttributes):
        indices = graph.value(str(node.inputs[1])).data
        last = node.attributes.axis == len(before.shape) - 1
        if indices is None or indices.ndim != 1 or not last or not _is_dense(graph, source):
            return None
        return _Change(ones, zeros, indices)
    if not isinstance(node.attributes, ActivationAttributes) or after.dtype is not DType.FLOAT32:
        return None
    if node.attributes.activation is not Activation.NONE or len(node.inputs) != 2:
        return None
    first = node.inputs[0] == source.outputs[0]
    operand = reals_of(graph, str(node.inputs[1 if first else 0]))
    if operand is None or operand.size not in (1, channels) or operand.ndim > len(before.shape):
        return None
    if operand.size > 1 and operand.shape[-1] != channels:
        return None
    values = np.broadcast_to(operand.reshape(-1).astype(np.float32), (channels,))
    changes: dict[str, tuple[Array, Array]] = {
        "mul": (values, zeros),
        "add": (ones, values),
        "sub": (ones, -values) if first else (-ones, values),
    }
    if first and (values != 0).all():
        changes["div"] = (1 / values, zeros)
    found = changes.get(node.op)
    return None if found is None else _Change(*found, order)


def _is_dense(graph: Graph, source: Node) -> bool:
    """Whether every channel of the result is made of all channels of the operand."""
    if source.op == "conv_2d":
        return (
            graph.type(str(source.inputs[0])).shape[3] == graph.type(str(source.inputs[1])).shape[3]
        )
    return source.op != "depthwise_conv_2d"


def _rewrite(graph: Graph, node: Node, change: _Change) -> None:
    """Apply a change to the filter and bias of a node."""
    kernel = str(node.inputs[1])
    if not change.keeps_filter:
        kernel = _add(graph, node, 1, _changed(graph, node, change))
    bias_name = node.inputs[2] if len(node.inputs) > 2 else None
    data = None if bias_name is None else reals_of(graph, bias_name)
    bias = np.zeros(change.factor.size, np.float32) if data is None else data.reshape(-1)
    bias = (bias * change.factor + change.offset).take(change.order)
    graph.update(replace(node, inputs=(node.inputs[0], kernel, _add(graph, node, 2, bias))))


def _changed(graph: Graph, node: Node, change: _Change) -> Array:
    """The filter of a node after a change."""
    axis, kernel = OPS[node.op].channel_axis, graph.value(str(node.inputs[1])).data
    assert axis is not None
    assert kernel is not None
    shape = [1] * kernel.ndim
    shape[axis] = -1
    return np.asarray((kernel * change.factor.reshape(shape)).take(change.order, axis=axis))


def _add(graph: Graph, node: Node, index: int, array: Array) -> str:
    """A filter or a bias of float32."""
    return graph.add_constant(_stem(graph, node, index), np.ascontiguousarray(array, np.float32))


def _stem(graph: Graph, node: Node, index: int) -> str:
    """A name for a filter or a bias: that of the one before, if there was one."""
    name = node.inputs[index] if index < len(node.inputs) else None
    return f"{node.name}/bias" if name is None else name
