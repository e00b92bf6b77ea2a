"""Convolutions of the phases of an image, which are dilated convolutions of the image.

`space_to_batch` divides an image into phases: images of every second, third, ... row and column. A
step within a phase is as many steps of the image. So what lies between that and `batch_to_space`
is a convolution with a larger dilation, which TensorFlow 1 and some converters write so. Every
element of the result is the same, and the image is not taken apart. Rows of pixels, as convolutions
over time have, are images of one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.arrangement import BatchBlockAttributes
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.shape import PadAttributes, ReshapeAttributes, StridedSliceAttributes
from fitzroy.compiler.ops.windows import (
    Edges,
    PaddingScheme,
    Pair,
    explicit_padding,
    image_extent,
    output_extent,
    scheme_of,
)
from fitzroy.compiler.passes.base import Pass

_ROW = 3
"""Dimensions of a row of pixels; an image has one more."""

_SPATIAL = 2
"""Rows and columns."""

_RESHAPED = 3
"""Fewest nodes on phases of rows: one adds an axis, one computes, one takes the axis away."""

_CONVOLUTIONS = ("conv_2d", "depthwise_conv_2d")

_NOTHING: Edges = (0, 0, 0, 0)


@dataclass(frozen=True)
class DilatedConvolutions(Pass):
    """Let convolutions of the phases of an image be dilated convolutions of the image."""

    name = "dilated-convolutions"

    def run(self, graph: Graph) -> Graph:
        """Rewrite convolutions between a division into phases and its inverse."""
        for phases in list(_all_phases(graph)):
            _rewrite(graph, phases)
        graph.prune()
        return graph


def has_phases(graph: Graph) -> bool:
    """Whether a graph has convolutions that `DilatedConvolutions` rewrites."""
    return next(_all_phases(graph), None) is not None


@dataclass(frozen=True, slots=True)
class _Phases:
    """What is computed on the phases of an image.

    Attributes:
        divided: the node that divides the image.
        nodes: the nodes that compute on its phases, each on what the one before gives: a
            convolution and what follows it.
        joined: the node that puts the result together.
        axis: where rows of pixels get an axis to be images, and lose it again; None if they are.
    """

    divided: Node
    nodes: tuple[Node, ...]
    joined: Node
    axis: int | None = None

    @property
    def block(self) -> Pair:
        """Rows and columns of the image from one row and column of a phase to the next."""
        rows, columns = self._spatial(_attributes(self.divided).block, 1)
        return rows, columns

    @property
    def border(self) -> Edges:
        """What the image gets around it when it is divided."""
        return self._edges(self.divided)

    @property
    def excess(self) -> Edges:
        """What is cut off around the result."""
        return self._edges(self.joined)

    def _edges(self, node: Node) -> Edges:
        a = _attributes(node)
        (top, left), (bottom, right) = self._spatial(a.before, 0), self._spatial(a.after, 0)
        return top, bottom, left, right

    def _spatial(self, items: Sequence[int], other: int) -> list[int]:
        """Figures of rows and columns, of which an image of one row or column has one figure."""
        found = list(items)
        if self.axis is not None:
            found.insert(self.axis - 1, other)
        return found


def _attributes(node: Node) -> BatchBlockAttributes:
    assert isinstance(node.attributes, BatchBlockAttributes)
    return node.attributes


def _all_phases(graph: Graph) -> Iterator[_Phases]:
    for node in graph.nodes():
        if node.op == "batch_to_space" and (found := _phases(graph, node)) is not None:
            yield found


def _phases(graph: Graph, joined: Node) -> _Phases | None:
    """What is computed on the phases that a node puts together, if it can be on the image."""
    nodes: list[Node] = []
    name = str(joined.inputs[0])
    while (node := graph.producer(name)) is not None and node.op != "space_to_batch":
        read = graph.computed(node)
        if name in graph.outputs or len(graph.consumers(name)) != 1 or len(read) != 1:
            return None
        nodes.insert(0, node)
        (name,) = read
    if node is None or _attributes(node).block != _attributes(joined).block:
        return None
    axis = None
    if graph.type(node.outputs[0]).rank == _ROW:
        axis = _added_axis(graph, nodes)
        if axis is None:
            return None
        nodes = nodes[1:-1]
    if len(_attributes(node).block) + (axis is not None) != _SPATIAL:
        return None
    if not nodes or nodes[0].op not in _CONVOLUTIONS:
        return None
    alike = all(_same_everywhere(graph, one) for one in nodes)
    return _Phases(node, tuple(nodes), joined, axis) if alike else None


def _added_axis(graph: Graph, nodes: Sequence[Node]) -> int | None:
    """The axis that the first of some nodes adds to rows of pixels, and the last takes away."""
    if len(nodes) < _RESHAPED:
        return None
    first, last = nodes[0], nodes[-1]
    row, image = (graph.type(name).shape for name in (str(first.inputs[0]), first.outputs[0]))
    then, result = (graph.type(name).shape for name in (str(last.inputs[0]), last.outputs[0]))
    if first.op != "reshape" or last.op != "reshape":
        return None
    for axis in (1, 2):
        if image == _with_axis(row, axis) and then == _with_axis(result, axis):
            return axis
    return None


def _with_axis(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis:])


def _same_everywhere(graph: Graph, node: Node) -> bool:
    """Whether a node does the same at every place of all images, and gives one there."""
    constants = [
        graph.type(name).shape
        for name in node.inputs
        if name is not None and graph.value(name).is_constant
    ]
    if node.op in _CONVOLUTIONS:
        image, *_ = node.inputs
        return _convolution(node).stride == (1, 1) and not graph.value(str(image)).is_constant
    by_channel = all(extent == 1 for shape in constants for extent in shape[:-1])
    return OPS[node.op].elementwise and by_channel


def _convolution(node: Node) -> ConvAttributes:
    assert isinstance(node.attributes, ConvAttributes)
    return node.attributes


def _kernel(graph: Graph, node: Node) -> Pair:
    _, height, width, _ = graph.type(str(node.inputs[1])).shape
    return height, width


def _padding(graph: Graph, node: Node) -> Edges:
    """Padding of a convolution."""
    a, image = _convolution(node), image_extent(graph.type(str(node.inputs[0])))
    return explicit_padding(a.padding, image, _kernel(graph, node), a.stride, a.dilation)


def _has_window(graph: Graph, node: Node) -> bool:
    """Whether elements of a result depend on others of the operand than those at their place."""
    if node.op not in _CONVOLUTIONS:
        return False
    return _kernel(graph, node) != (1, 1) or any(_padding(graph, node))


# --- on the image --------------------------------------------------------------------------------


def _rewrite(graph: Graph, phases: _Phases) -> None:
    """Compute on the image what is computed on its phases."""
    image, border, excess = str(phases.divided.inputs[0]), phases.border, phases.excess
    type = graph.type(image)
    if phases.axis is not None:
        type = type.with_shape(_with_axis(type.shape, phases.axis))
        image = graph.emit("reshape", [image], type, ReshapeAttributes(type.shape))
    first, *others = phases.nodes
    if not any(_has_window(graph, node) for node in others):
        # What nothing reads before it is cut off need not be computed.
        border, excess = _difference(border, excess), _NOTHING
    image = _convolved(graph, first, image, phases.block, border)
    for node in others:
        if node.op in _CONVOLUTIONS:
            image = _convolved(graph, node, image, phases.block, _NOTHING)
        else:
            image = _by_element(graph, node, image)
    image = _bordered(graph, image, _difference(_NOTHING, excess))
    result = phases.joined.outputs[0]
    if phases.axis is not None:
        type = graph.type(result)
        image = graph.emit("reshape", [image], type, ReshapeAttributes(type.shape))
    graph.remove(phases.joined.name)
    graph.retarget(image, result)


def _difference(one: Edges, other: Edges) -> Edges:
    top, bottom, left, right = (a - b for a, b in zip(one, other, strict=True))
    return top, bottom, left, right


def _convolved(graph: Graph, node: Node, image: str, block: Pair, border: Edges) -> str:
    """The convolution of an image that a node computes of its phases.

    Args:
        graph: the graph.
        node: the node.
        image: the image.
        block: rows and columns from one of a phase to the next.
        border: what the image has around it, or less than it has.
    """
    a, kernel = _convolution(node), _kernel(graph, node)
    dilation = a.dilation[0] * block[0], a.dilation[1] * block[1]
    steps = (block[0], block[0], block[1], block[1])
    top, bottom, left, right = (
        edge * step + more
        for edge, step, more in zip(_padding(graph, node), steps, border, strict=True)
    )
    image = _bordered(graph, image, (min(top, 0), min(bottom, 0), min(left, 0), min(right, 0)))
    edges = (max(top, 0), max(bottom, 0), max(left, 0), max(right, 0))
    extent = image_extent(graph.type(image))
    padding = scheme_of(edges, extent, kernel, a.stride, dilation)
    if padding is None:
        # A file has names of padding alone.
        padding, image = PaddingScheme.VALID, _bordered(graph, image, edges)
        extent = image_extent(graph.type(image))
    rows, columns = output_extent(padding, extent, kernel, a.stride, dilation)
    before, after = graph.type(image), graph.type(node.outputs[0])
    type = after.with_shape((before.shape[0], rows, columns, after.shape[-1]))
    attributes = replace(a, dilation=dilation, padding=padding)
    return graph.emit(node.op, [image, *node.inputs[1:]], type, attributes, stem=node.name)


def _by_element(graph: Graph, node: Node, image: str) -> str:
    """What a node computes of the elements of phases, of those of an image."""
    (read,) = graph.computed(node)
    inputs = [image if name == read else name for name in node.inputs]
    type = graph.type(node.outputs[0]).with_shape(graph.type(image).shape)
    return graph.emit(node.op, inputs, type, node.attributes, stem=node.name)


def _bordered(graph: Graph, image: str, edges: Edges) -> str:
    """An image with a border of zeros; where edges are negative, with less of it."""
    if not any(edges):
        return image
    type, (top, bottom, left, right) = graph.type(image), edges
    batch, height, width, channels = type.shape
    shape = batch, height + top + bottom, width + left + right, channels
    if min(edges) < 0:
        begin = (0, -top, -left, 0)
        cut = StridedSliceAttributes(begin, shape, (1, 1, 1, 1))
        return graph.emit("strided_slice", [image], type.with_shape(shape), cut)
    padded = PadAttributes((0, top, left, 0), (0, bottom, right, 0))
    return graph.emit("pad", [image], type.with_shape(shape), padded)
