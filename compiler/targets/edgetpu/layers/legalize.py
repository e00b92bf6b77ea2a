"""From the nodes of a quantized graph to machine-level layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.windows import Activation, explicit_padding
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Weights, Window
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Reach
from fitzroy.compiler.targets.edgetpu.parameters.operands import FilterOperand, operands
from fitzroy.compiler.targets.edgetpu.parameters.requantization import output_stage
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.parameters import (
    ConvolutionLayout,
    Parameters,
    WordOrder,
    ZeroBias,
    pack,
)

Rule = Callable[["Legalizer", Call], None]

RULES: dict[str, Rule] = {}
"""How the nodes of each operator become layers."""


def legalizes(op: str) -> Callable[[Rule], Rule]:
    """Declare the rule for an operator."""

    def declare(rule: Rule) -> Rule:
        RULES[op] = rule
        return rule

    return declare


IMAGE_RANK = 4


def several(type: TensorType) -> bool:
    """Whether a tensor has several images."""
    return len(type.shape) == IMAGE_RANK and type.shape[0] > 1


def rows_of_images(type: TensorType) -> tuple[int, int, int, int]:
    """Shape of one image with the rows of all images of a tensor."""
    count, height, width, channels = type.shape
    return 1, count * height, width, channels


@dataclass
class Legalizer:
    """A graph on its way to layers.

    Attributes:
        graph: the graph.
        options: what the program may use of the chip.
        layers: layers so far.
        aliases: values that are the same bytes in the same place as another value.
        types: types of values that no node of the graph makes.
        margins: rows and columns of padding in front of an alias that its place does not have.
        views: places whose elements, one after the other, are those of a value that has no place
            unless one is needed.
        rows: places of the inputs of several images, as one with the rows of all.
    """

    graph: Graph
    options: Options = DEFAULT
    layers: list[Layer] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    margins: dict[str, tuple[int, int]] = field(default_factory=dict)
    views: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Inputs of several images lie as one, with the rows of all."""
        for name in self.graph.inputs:
            type = self.graph.type(name)
            if several(type) and name not in self.rows:
                tall = unused_name(f"{name}.rows", self.graph.values, self.types)
                self.types[tall] = replace(type, shape=rows_of_images(type))
                self.rows[name], self.views[name] = tall, (tall,)

    def run(self) -> None:
        """Legalize all nodes.

        Raises:
            UnsupportedError: a node has no rule, or its rule refuses it.
        """
        for node in self.graph.nodes():
            if node.op not in RULES:
                raise UnsupportedError(f"{node.op} {node.name!r} has no lowering for the Edge TPU")
            self.legalize(node)

    def legalize(self, node: Node) -> None:
        """Add the layers of a node whose operator has a rule.

        Raises:
            UnsupportedError: the rule refuses it.
        """
        self.legalize_as(node, node.name)

    def legalize_as(self, node: Node, origin: str) -> None:
        """Add the layers of a node that stands for one of the model.

        Args:
            node: the node.
            origin: name of the node of the model.

        Raises:
            UnsupportedError: the rule refuses it.
        """
        # Views are made by rules, whose modules need this one.
        from fitzroy.compiler.targets.edgetpu.lowerings.batches import by_images
        from fitzroy.compiler.targets.edgetpu.lowerings.views import apply_to_parts

        call, before = Call.of(self.graph, node), len(self.layers)
        if not (apply_to_parts(self, call) or by_images(self, call)):
            RULES[node.op](self, call)
        self.layers[:] = [
            layer if layer.origin else replace(layer, origin=origin) for layer in self.layers
        ]
        self._check_images(node, before)

    def _check_images(self, node: Node, first: int) -> None:
        """Refuse several images in a tensor, which only vectors may be.

        Args:
            node: a node.
            first: number of the first of its layers.

        Raises:
            UnsupportedError: there are several.
        """
        names = [
            part
            for name in node.inputs
            if name is not None and not self.graph.value(name).is_constant
            for part in self.parts(name)
        ]
        for layer in self.layers[first:]:
            names += [*layer.reads, layer.writes]
        vectors = {layer.writes for layer in self.layers if layer.makes_vector}
        for name in names:
            shape = self.type(name).shape
            if len(shape) == 4 and shape[0] != 1 and name not in vectors:
                raise UnsupportedError(
                    f"{name!r} has shape {list(shape)}, not that of one image",
                    hint="give the model a batch of one",
                )

    def place(self, name: str) -> str:
        """The value that holds the bytes of a value; a view gets a place."""
        from fitzroy.compiler.targets.edgetpu.lowerings.views import put

        if name in self.views and name not in self.aliases:
            put(self, name)
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def parts(self, name: str) -> tuple[str, ...]:
        """Places whose elements, one after the other, are those of a value."""
        return self.views.get(name) or (self.place(name),)

    def split(self) -> Legalizer:
        """A copy that goes another way."""
        return replace(
            self,
            layers=list(self.layers),
            aliases=dict(self.aliases),
            types=dict(self.types),
            margins=dict(self.margins),
            views=dict(self.views),
        )

    def padding_of(self, name: str) -> tuple[int, int]:
        """Rows and columns of padding that lie in front of a value and its place does not have."""
        rows = columns = 0
        while name in self.aliases:
            above, left = self.margins.get(name, (0, 0))
            rows, columns = rows + above, columns + left
            name = self.aliases[name]
        return rows, columns

    def type(self, name: str) -> TensorType:
        """Type of a value."""
        return self.types[name] if name in self.types else self.graph.type(name)


def filter_operand(legalizer: Legalizer, node: Node) -> FilterOperand:
    """The weights of an operator in the layout of compiled models."""
    (found,) = operands(legalizer.graph, zero_bias=ZeroBias.KEEP, nodes=[node])
    assert isinstance(found, FilterOperand)
    return found


_MOST_TAPS = 2_000
"""Taps of a kernel, whose weights for four input channels are staged at a time, a row each."""


def reach(
    call: Call, kernel: tuple[int, int], margin: tuple[int, int] = (0, 0)
) -> tuple[Reach, Reach]:
    """What a convolution reads along rows and columns.

    Args:
        call: the convolution.
        kernel: extent of its kernel.
        margin: rows and columns in front of the image that are padding, see `padding_of`.

    Raises:
        UnsupportedError: wide memory cannot hold the weights of a single group of channels.
    """
    if math.prod(kernel) > _MOST_TAPS:
        raise UnsupportedError(
            f"the kernel of {call.node.name!r} has {math.prod(kernel)} taps: wide memory holds "
            f"weights of {_MOST_TAPS} at a time",
            hint="split it into smaller ones whose results are added",
        )
    attributes = call.attributes(ConvAttributes)
    image = call.type(0).shape
    pads = explicit_padding(
        attributes.padding, (image[1], image[2]), kernel, attributes.stride, attributes.dilation
    )
    return (
        Reach(kernel[0], attributes.stride[0], attributes.dilation[0], pads[0] + margin[0]),
        Reach(kernel[1], attributes.stride[1], attributes.dilation[1], pads[2] + margin[1]),
    )


_PACKED = 4
"""Up to so many output channels, words share rows of wide memory, and could not be sent as rows."""


def rows_of(operand: FilterOperand) -> tuple[ConvolutionLayout, Parameters]:
    """The layout of a convolution's weights with a row for each word, and what it holds."""
    layout, parameters = operand.layout, operand.parameters
    assert isinstance(layout, ConvolutionLayout)
    layout = replace(layout, order=WordOrder.IC_OUTER)
    zero_points = parameters.zero_points
    assert zero_points is not None
    missing = _PACKED + 1 - layout.channels
    if missing <= 0:
        return layout, parameters

    def more(values: Array | None, fill: Array | None = None) -> Array | None:
        if values is None or len(values) < layout.channels:
            return values
        last = values[-1:] if fill is None else fill
        return np.concatenate([values, np.repeat(last, missing, axis=0)])

    weights = np.full((missing, *parameters.weights.shape[1:]), zero_points[-1])
    return (
        replace(layout, channels=layout.channels + missing),
        Parameters(
            np.concatenate([parameters.weights, weights.astype(np.uint8)]),
            more(parameters.zero_points) if layout.prefix.zero_points else parameters.zero_points,
            more(parameters.biases, np.zeros(1, np.int32)),
            more(parameters.scales),
        ),
    )


def one_position(legalizer: Legalizer, call: Call) -> bool:
    """Whether the window of a convolution is the whole image: a fully connected layer."""
    if legalizer.type(legalizer.place(call.node.inputs[0] or "")).size != call.type(0).size:
        # The image has a border that was folded into it.
        return False
    attributes = call.attributes(ConvAttributes)
    image, (_, height, width, _) = call.type(0).shape, call.type(1).shape
    pads = explicit_padding(
        attributes.padding, (image[1], image[2]), (height, width), attributes.stride, (1, 1)
    )
    return (image[1], image[2]) == (height, width) and not any(pads)


def image_operand(legalizer: Legalizer, call: Call) -> str:
    """The place of the operand of a convolution as an image; vectors are copied to one."""
    # Copies are layers with rules of their own, which that module declares with this one.
    from fitzroy.compiler.targets.edgetpu.reshaping.shapes import pixel

    return pixel(legalizer, legalizer.place(call.node.inputs[0] or ""))


def as_convolution(
    legalizer: Legalizer, call: Call, name: str, weights: Array, activation: Activation
) -> tuple[Legalizer, Call]:
    """An operator with weights and biases as a convolution, in a graph of its own.

    Args:
        legalizer: the graph of the operator.
        call: the operator.
        name: name of the convolution.
        weights: the weights [O,kh,kw,I], in the quantization of the operator's.
        activation: fused clamp.
    """
    graph = Graph(name)
    channels, depth = weights.shape[0], weights.shape[3]
    names: list[str | None] = [
        graph.add_input("image", replace(call.type(), shape=(1, 1, 1, depth))),
        graph.add_constant("filter", weights, call.type(1).quantization),
    ]
    bias = call.optional(2)
    if bias is not None:
        graph.add_value(bias)
        names.append(bias.name)
    attributes = ConvAttributes(activation=activation)
    node = Node(name, "conv_2d", tuple(names), ("result",), attributes)
    graph.add_node(node, [replace(call.result.type, shape=(1, 1, 1, channels))])
    return Legalizer(graph, legalizer.options), Call.of(graph, node)


def convolution_of(
    legalizer: Legalizer, call: Call, source: str, result: str, window: Window
) -> Convolution:
    """The layer of a convolution.

    Args:
        legalizer: the graph of the convolution.
        call: the convolution.
        source: place of its image.
        result: what the layer writes.
        window: what it reads along rows and columns.
    """
    layout, parameters = rows_of(filter_operand(legalizer, call.node))
    rows, columns = window
    return Convolution(
        name=call.node.name,
        reads=(source,),
        writes=result,
        weights=(
            Weights(
                call.node.name,
                OperandKind.CONVOLUTION,
                layout.lanes,
                len(layout.prefix.kinds),
                np.frombuffer(pack(layout, parameters), np.uint8),
                layout.word_count,
                layout.blocks,
            ),
        ),
        layout=layout,
        channels=call.result.type.shape[-1],
        rows=rows,
        columns=columns,
        stage=output_stage(call, layout.prefix),
    )


def plain_convolution(legalizer: Legalizer, call: Call) -> None:
    """A convolution that computes one position at a time."""
    if one_position(legalizer, call):
        RULES["fully_connected"](legalizer, call)
        return
    _, height, width, _ = call.type(1).shape
    margin = legalizer.padding_of(call.node.inputs[0] or "")
    window = reach(call, (height, width), margin)
    source = image_operand(legalizer, call)
    legalizer.layers.append(convolution_of(legalizer, call, source, call.node.outputs[0], window))
