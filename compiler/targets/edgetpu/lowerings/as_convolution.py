"""Operators as convolutions: what their windows read, their weights in rows, and the layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.windows import FusedFunction, explicit_padding
from fitzroy.compiler.targets.edgetpu.layers.conditions import WEIGHTS, hint, refused, requires
from fitzroy.compiler.targets.edgetpu.layers.layer import Deferred, Weights, Windows
from fitzroy.compiler.targets.edgetpu.layers.legalize import RULES, Legalizer, filter_operand
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.lowerings.functions import table_of
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Window
from fitzroy.compiler.targets.edgetpu.parameters.operands import FilterOperand
from fitzroy.compiler.targets.edgetpu.parameters.requantization import output_stage
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import pixel
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.parameters import (
    ConvolutionLayout,
    Parameters,
    WordOrder,
    pack,
)

_MOST_TAPS = 2_000
"""Taps of a kernel, whose weights for four input channels are staged at a time, a row each."""


@requires("conv_2d", "depthwise_conv_2d")
def _taps(call: Call) -> Iterator[Reject]:
    """Wide memory holds the weights of a group of channels, a row for each tap."""
    height, width = call.type(1).shape[1:3]
    if height * width > _MOST_TAPS:
        yield refused(
            call,
            f"has a kernel of {height * width} taps: wide memory holds weights of {_MOST_TAPS} at "
            "a time",
            "split it into smaller ones whose results are added",
        )


@requires("conv_2d", "depthwise_conv_2d", "fully_connected", "transpose_conv")
def _biases(call: Call) -> Iterator[Reject]:
    """Biases are known, in the unit of the sums."""
    bias = call.optional(2)
    if bias is not None and (bias.data is None or bias.type.dtype is not DType.INT32):
        what = f"{call.node.spelled}: the biases {bias.name!r} are {bias.type}, no int32 constant"
        yield Reject(WEIGHTS, what, hint(call))


def windows_of(
    call: Call, kernel: tuple[int, int], margin: tuple[int, int] = (0, 0)
) -> tuple[Window, Window]:
    """What a convolution reads along rows and columns.

    Args:
        call: the convolution.
        kernel: extent of its kernel.
        margin: rows and columns in front of the image that are padding, see `padding_of`.
    """
    attributes = call.attributes(ConvAttributes)
    image = call.type(0).shape
    pads = explicit_padding(
        attributes.padding, (image[1], image[2]), kernel, attributes.stride, attributes.dilation
    )
    return (
        Window(kernel[0], attributes.stride[0], attributes.dilation[0], pads[0] + margin[0]),
        Window(kernel[1], attributes.stride[1], attributes.dilation[1], pads[2] + margin[1]),
    )


_PACKED = 4
"""Up to so many output channels, words share rows of wide memory, and could not be sent as rows."""


def rows_of(operand: FilterOperand) -> tuple[ConvolutionLayout, Parameters]:
    """The layout of the weights with a row of wide memory for each word, and its parameters."""
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
    return pixel(legalizer, legalizer.place(call.node.inputs[0] or ""))


def as_convolution(
    legalizer: Legalizer, call: Call, name: str, weights: Array, activation: FusedFunction
) -> tuple[Legalizer, Call]:
    """An operator with weights and biases as a convolution, in a graph of its own.

    Args:
        legalizer: the graph of the operator.
        call: the operator.
        name: name of the convolution.
        weights: the weights [O,kh,kw,I], in the quantization of the operator's.
        activation: fused function.
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
    legalizer: Legalizer, call: Call, source: str, result: str, window: Windows
) -> Convolution:
    """The layer of a convolution.

    Args:
        legalizer: the graph of the convolution.
        call: the convolution.
        source: place of its image.
        result: what the layer writes.
        window: what it reads along rows and columns.
    """
    graph, node = legalizer.graph, call.node
    layout, _ = rows_of(filter_operand(graph, node))
    rows, columns = window

    def packed() -> Array:
        return np.frombuffer(pack(*rows_of(filter_operand(graph, node))), np.uint8)

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
                Deferred(layout.nbytes, packed),
                layout.word_count,
                layout.blocks,
            ),
        ),
        layout=layout,
        channels=call.result.type.shape[-1],
        rows=rows,
        columns=columns,
        stage=output_stage(call, layout.prefix),
        table=table_of(call),
    )


def plain_convolution(legalizer: Legalizer, call: Call) -> None:
    """A convolution that computes one position at a time."""
    if one_position(legalizer, call):
        RULES["fully_connected"](legalizer, call)
        return
    _, height, width, _ = call.type(1).shape
    margin = legalizer.padding_of(call.node.inputs[0] or "")
    window = windows_of(call, (height, width), margin)
    source = image_operand(legalizer, call)
    legalizer.layers.append(convolution_of(legalizer, call, source, call.node.outputs[0], window))
