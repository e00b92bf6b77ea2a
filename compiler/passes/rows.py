"""Rows as images of one row.

A convolution of rows [N,L,C] is one of images [N,1,L,C]. What lies between two of them is computed
on images, too, so that no reshape comes between a convolution and the function of its sums, and
between layers of a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Attributes, Graph, Node
from fitzroy.compiler.ops.arrangement import MirrorPadAttributes
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    PadAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.passes.base import Pass

_ROWS = 3
"""Dimensions of rows [N,L,C]."""

_UNIT = 1
"""The axis of the one row of an image."""

_IMAGES = frozenset({
    "average_pool_2d", "conv_2d", "depthwise_conv_2d", "max_pool_2d", "transpose_conv",
})  # fmt: skip
"""Operators of images."""


@dataclass(frozen=True)
class RowsAsImages(Pass):
    """Compute on rows as on the images of one row that convolutions and pools make of them."""

    name = "rows-as-images"

    def run(self, graph: Graph) -> Graph:
        """Move reshapes of images to rows behind the operators that read them."""
        moved = set[str]()
        for node in graph.nodes():
            operands = _operands(graph, node, moved)
            attributes = None if operands is None else _attributes(node)
            if operands is not None and attributes is not None:
                moved |= _on_images(graph, node, operands, attributes)
        graph.prune()
        return graph


def _operands(graph: Graph, node: Node, moved: set[str]) -> list[str] | None:
    """The operands of an operator as images, or constants; None if some are neither.

    Args:
        graph: the graph.
        node: the operator.
        moved: images that operators have made of images.
    """
    found, images = [], 0
    for name in node.inputs:
        if name is None:
            return None
        value = graph.value(name)
        if value.data is not None:
            found.append(name)
            continue
        image = _image(graph, name)
        source = None if image is None else graph.producer(image)
        if image is None or source is None:
            return None
        if image not in moved and source.op not in _IMAGES:
            return None
        found.append(image)
        images += 1
    return found if images else None


def _image(graph: Graph, name: str) -> str | None:
    """The image [N,1,L,C] that rows [N,L,C] were; None if they were none."""
    node, type = graph.producer(name), graph.type(name)
    if node is None or node.op != "reshape" or type.rank != _ROWS:
        return None
    image = str(node.inputs[0])
    return image if graph.type(image) == _imaged(type) else None


def _imaged(type: TensorType) -> TensorType:
    """The type of rows as images."""
    return type.with_shape(_inserted(type.shape, 1))


def _inserted(values: Sequence[int], value: int) -> tuple[int, ...]:
    return (*values[:_UNIT], value, *values[_UNIT:])


def _attributes(node: Node) -> Attributes | None:
    """The attributes of an operator on images; None if it is no operator that can be moved."""
    a = node.attributes
    match a:
        case ConcatenationAttributes() | SplitAttributes():
            return replace(a, axis=_shifted(a.axis))
        case PadAttributes() | MirrorPadAttributes():
            return replace(a, before=_inserted(a.before, 0), after=_inserted(a.after, 0))
        case StridedSliceAttributes():
            return StridedSliceAttributes(
                _inserted(a.begin, 0), _inserted(a.size, 1), _inserted(a.stride, 1)
            )
        case ReductionAttributes():
            axes = tuple(map(_shifted, a.axes))
            return replace(a, axes=axes) if 0 not in axes else None
    return a if OPS[node.op].elementwise else None


def _shifted(axis: int) -> int:
    """An axis of rows as one of images."""
    return axis + (axis >= _UNIT)


def _on_images(
    graph: Graph, node: Node, operands: Sequence[str], attributes: Attributes
) -> set[str]:
    """Let an operator read images and its results be reshaped; the images that it makes."""
    types = [graph.type(name) for name in node.outputs]
    if not all(map(_has_one_scale, [*types, *map(graph.type, operands)])):
        return set()
    inputs = [_constant(graph, name) for name in operands]
    names = [graph.fresh(f"{name}/image") for name in node.outputs]
    made = Node(names[0], node.op, tuple(inputs), tuple(names), attributes, node.origin)
    graph.remove(node.name)
    graph.add_node(made, [_imaged(type) for type in types])
    for name, type, result in zip(names, types, node.outputs, strict=True):
        rows = graph.emit("reshape", [name], type, ReshapeAttributes(type.shape), stem=result)
        graph.retarget(rows, result)
    return set(names)


def _has_one_scale(type: TensorType) -> bool:
    return type.quantization is None or type.quantization.is_per_tensor


def _constant(graph: Graph, name: str) -> str:
    """An operand of images; constants of rows get the axis of the row."""
    value = graph.value(name)
    if value.data is None or value.type.rank < _ROWS:
        return name
    data = value.data.reshape(_inserted(value.type.shape, 1))
    return graph.add_constant(name, data, value.type.quantization)
