"""Operators that work on axes one by one, so that any order of these suits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Attributes, Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)

Order = tuple[int, ...]
"""Axes in the order in which they are stored: stored axis i is axis ``order[i]``."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The axes that an operator works on, one by one.

    Attributes:
        rank: how many there are.
        values: for the operands and results that have them, variables all, which they have.
        last: whether the last one has to stay there.
    """

    rank: int
    values: Mapping[str, Order]
    last: bool = False


def frame_of(graph: Graph, node: Node) -> Frame | None:
    """The axes of an operator that any order of them suits; None of others."""
    types = [graph.type(name) for name in (*node.inputs, *node.outputs) if name is not None]
    if not all(
        is_plain(type) for type in types[: None if OPS[node.op].channel_axis is None else 1]
    ):
        return None
    match node.attributes:
        case FullyConnectedAttributes():
            return _connected(graph, node)
        case ReductionAttributes():
            return _reduced(graph, node)
        case SoftmaxAttributes() | SplitAttributes() | StridedSliceAttributes():
            return _alike(graph, node, node.inputs[:1], last=node.op == "softmax")
        case ConcatenationAttributes():
            return _alike(graph, node, node.inputs)
    return _of_elements(graph, node) if OPS[node.op].elementwise else None


def is_plain(type: TensorType) -> bool:
    """Whether the axes of a tensor are alike: it has elements, and one scale at most."""
    return type.size > 0 and (type.quantization is None or type.quantization.is_per_tensor)


def _alike(
    graph: Graph, node: Node, operands: Sequence[str | None], *, last: bool = False
) -> Frame | None:
    """The frame of an operator whose operands and results have the same axes, the last at least."""
    rank = len(graph.type(node.outputs[0]).shape)
    names = [name for name in operands if name is not None and not graph.value(name).is_constant]
    values = {}
    for name in (*names, *node.outputs):
        own = len(graph.type(name).shape)
        if own > rank:
            return None
        values[name] = tuple(range(rank - own, rank))
    return Frame(rank, values, last)


def _of_elements(graph: Graph, node: Node) -> Frame | None:
    """The frame of an operator whose results depend on corresponding elements."""
    shape = graph.type(node.outputs[0]).shape
    shapes = [graph.type(name).shape for name in node.inputs if name is not None]
    if any(np.broadcast_shapes(shape, own) != shape for own in shapes):
        return None
    return _alike(graph, node, node.inputs)


def frame_of_pixels(graph: Graph, node: Node) -> Frame | None:
    """The axes of a convolution that computes every pixel from the same pixel alone."""
    attributes = node.attributes
    if node.op != "conv_2d" or not isinstance(attributes, ConvAttributes):
        return None
    image, filters = (graph.type(str(name)) for name in node.inputs[:2])
    single = filters.shape[1:] == (1, 1, image.shape[-1]) and attributes.stride == (1, 1)
    return _connected(graph, node) if single else None


def _connected(graph: Graph, node: Node) -> Frame | None:
    """The frame of a layer whose columns are last and are others afterwards."""
    source, (result,) = str(node.inputs[0]), node.outputs
    before, after = graph.type(source).shape, graph.type(result).shape
    others = [graph.value(name) for name in node.inputs[1:] if name is not None]
    if before[:-1] != after[:-1] or graph.value(source).is_constant:
        return None
    if not all(value.is_constant for value in others) or not is_plain(graph.type(source)):
        return None
    every = tuple(range(len(before)))
    return Frame(len(before), {source: every, result: every}, last=True)


def _reduced(graph: Graph, node: Node) -> Frame | None:
    """The frame of a reduction: the axes of its operand, of which the result may lack some."""
    attributes, source = node.attributes, str(node.inputs[0])
    assert isinstance(attributes, ReductionAttributes), "of a reduction"
    rank = len(graph.type(source).shape)
    if graph.value(source).is_constant or len(node.outputs) > 1:
        return None
    every = tuple(range(rank))
    kept = tuple(axis for axis in every if attributes.keep_dims or axis not in attributes.axes)
    return Frame(rank, {source: every, node.outputs[0]: kept})


def reordered(attributes: Attributes, order: Order) -> Attributes:
    """Attributes of an operator whose axes have another order."""
    match attributes:
        case ReductionAttributes(axes):
            return replace(attributes, axes=tuple(sorted(order.index(axis) for axis in axes)))
        case SplitAttributes(axis) | ConcatenationAttributes(axis):
            return replace(attributes, axis=order.index(axis))
        case StridedSliceAttributes(begin, size, stride):
            begin, size, stride = (
                tuple(row[axis] for axis in order) for row in (begin, size, stride)
            )
            return StridedSliceAttributes(begin, size, stride)
    return attributes


def order_of(frame: Frame, orders: Mapping[str, Order]) -> Order | None:
    """The order of an operator's axes, which a value has that has all of them."""
    every = tuple(range(frame.rank))
    full = [name for name, axes in frame.values.items() if axes == every]
    return orders.get(full[0], every) if full else None
