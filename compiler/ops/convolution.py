"""Convolutions: activations NHWC, filters in TFLite's layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import real
from fitzroy.compiler.ops.tflite_options import (
    activation_code,
    activation_of,
    padding_code,
    padding_of,
    tflite_window,
)
from fitzroy.compiler.ops.windows import (
    Activation,
    FusedFunction,
    Padding,
    PaddingScheme,
    Pair,
    ending,
    explicit_padding,
    image_extent,
    output_extent,
)
from fitzroy.formats import tflite
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic


@dataclass(frozen=True)
class ConvAttributes(Attributes):
    """Attributes of convolutions; pairs are (height, width)."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Padding = PaddingScheme.VALID
    activation: FusedFunction = Activation.NONE


def conv_attributes(call: Call) -> ConvAttributes:
    """The call's attributes, typed."""
    return call.attributes(ConvAttributes)


def edges(call: Call, kernel: Pair) -> tuple[int, int, int, int]:
    """Explicit padding of a convolution."""
    a = conv_attributes(call)
    return explicit_padding(a.padding, image_extent(call.type(0)), kernel, a.stride, a.dilation)


def check_weights(call: Call, channel_axis: int | None) -> None:
    """Demand that input, filter and result are all float32 or all quantized.

    Args:
        call: input and filter.
        channel_axis: the filter's axis of output channels, along which its scales may run.
    """
    types = (call.type(0), call.type(1), call.result.type)
    for type in types:
        real(type)
    demand(
        len({type.is_quantized for type in types}) == 1,
        "quantized and float32 tensors are mixed; dequantize the filter or quantize the input",
    )
    for type in (types[0], types[2]):
        demand(
            type.quantization is None or type.quantization.is_per_tensor,
            "an activation has a scale per channel",
        )
    q = types[1].quantization
    demand(
        q is None or q.axis in (None, channel_axis),
        f"the filter's scales run along axis {q and q.axis}, not {channel_axis}",
    )


def check_bias(call: Call, index: int, channels: int) -> None:
    """Demand that an optional bias has one element per output channel."""
    bias = call.optional(index)
    if bias is not None:
        demand(bias.type.size == channels, f"{bias.type.size} biases for {channels} channels")


@define
class Conv2D(Operator):
    """Two-dimensional convolution.

    Input [N,H,W,C], filter [O,kh,kw,C/groups], optional bias [O]; the number of groups follows
    from the shapes.
    """

    name = "conv_2d"
    operands = ("input", "filter", "bias?")
    attributes = ConvAttributes
    tflite = ("CONV_2D",)
    channel_axis = 0

    def infer(self, call: Call) -> Sequence[Expected]:
        image, kernel = call.type(0), call.type(1)
        extent = image_extent(image)
        demand(kernel.rank == 4, f"the filter has {kernel.rank} dimensions, not 4")
        out, height, width, channels = kernel.shape
        demand(
            channels > 0 and image.shape[3] % channels == 0,
            f"{image.shape[3]} input channels with a filter for {channels}",
        )
        groups = image.shape[3] // channels
        demand(groups > 0 and out % groups == 0, f"{out} output channels in {groups} groups")
        check_weights(call, self.channel_axis)
        check_bias(call, 2, out)
        a = conv_attributes(call)
        rows, cols = output_extent(a.padding, extent, (height, width), a.stride, a.dilation)
        return [Expected((image.shape[0], rows, cols, out))]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a, kernel = conv_attributes(call), call.type(1).shape
        x, w, bias = (*arrays, None)[:3]
        bias = None if bias is None else bias.reshape(-1)
        assert x is not None
        assert w is not None
        return [
            numerics.conv_2d(
                x, w, bias, call.type(0), call.type(1), call.result.type,
                stride=a.stride, dilation=a.dilation, padding=edges(call, (kernel[1], kernel[2])),
                groups=call.type(0).shape[3] // kernel[3],
                arithmetic=arithmetic, **ending(a.activation),
            )
        ]  # fmt: skip

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(conv_from_tflite(options))

    def to_tflite(self, call: Call) -> Exported:
        window = tflite_window(call, conv_attributes(call), call.type(1).shape[1:3])
        return Exported("CONV_2D", tflite.Conv2DOptions(**window))


@define
class DepthwiseConv2D(Operator):
    """Depthwise convolution: every input channel has its own filters.

    Input [N,H,W,C], filter [1,kh,kw,C*m], optional bias [C*m].
    """

    name = "depthwise_conv_2d"
    operands = ("input", "filter", "bias?")
    attributes = ConvAttributes
    tflite = ("DEPTHWISE_CONV_2D",)
    channel_axis = 3

    def infer(self, call: Call) -> Sequence[Expected]:
        image, kernel = call.type(0), call.type(1)
        extent = image_extent(image)
        demand(kernel.rank == 4, f"the filter has {kernel.rank} dimensions, not 4")
        one, height, width, out = kernel.shape
        demand(one == 1, f"the filter's first extent is {one}, not 1")
        demand(
            image.shape[3] > 0 and out % image.shape[3] == 0,
            f"{out} output channels are no multiple of {image.shape[3]} input channels",
        )
        check_weights(call, self.channel_axis)
        check_bias(call, 2, out)
        a = conv_attributes(call)
        rows, cols = output_extent(a.padding, extent, (height, width), a.stride, a.dilation)
        return [Expected((image.shape[0], rows, cols, out))]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a, kernel = conv_attributes(call), call.type(1).shape
        x, w, bias = (*arrays, None)[:3]
        bias = None if bias is None else bias.reshape(-1)
        assert x is not None
        assert w is not None
        return [
            numerics.depthwise_conv_2d(
                x, w, bias, call.type(0), call.type(1), call.result.type,
                stride=a.stride, dilation=a.dilation, padding=edges(call, (kernel[1], kernel[2])),
                multiplier=kernel[3] // call.type(0).shape[3],
                arithmetic=arithmetic, **ending(a.activation),
            )
        ]  # fmt: skip

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(conv_from_tflite(options))

    def to_tflite(self, call: Call) -> Exported:
        kernel = call.type(1).shape
        return Exported(
            "DEPTHWISE_CONV_2D",
            tflite.DepthwiseConv2DOptions(
                depth_multiplier=kernel[3] // call.type(0).shape[3],
                **tflite_window(call, conv_attributes(call), kernel[1:3]),
            ),
        )


def conv_from_tflite(options: Any) -> ConvAttributes:
    """Attributes from Conv2DOptions or DepthwiseConv2DOptions."""
    if options is None:
        raise TypeRuleError("the operator has no options")
    return ConvAttributes(
        stride=(options.stride_h, options.stride_w),
        dilation=(options.dilation_h_factor, options.dilation_w_factor),
        padding=padding_of(options.padding),
        activation=activation_of(options.fused_activation_function),
    )


@dataclass(frozen=True)
class TransposeConvAttributes(Attributes):
    """Attributes of transposed convolutions.

    Attributes:
        stride: rows and columns of the output per row and column of the input.
        padding: what is cut off the full result: top, bottom, left, right.
        output: height and width of the result.
        activation: fused clamp.
    """

    stride: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    output: Pair = (1, 1)
    activation: Activation = Activation.NONE


@define
class TransposeConv(Operator):
    """Transposed convolution: the gradient of a convolution used as a layer.

    Input [N,H,W,C], filter [O,kh,kw,C], optional bias [O].
    """

    name = "transpose_conv"
    operands = ("input", "filter", "bias?")
    attributes = TransposeConvAttributes
    tflite = ("TRANSPOSE_CONV",)
    channel_axis = 0

    def _attributes(self, call: Call) -> TransposeConvAttributes:
        return call.attributes(TransposeConvAttributes)

    def adjustment(self, call: Call) -> Pair:
        """Rows and columns of the output that no window position reaches."""
        a, kernel = self._attributes(call), call.type(1).shape
        image = image_extent(call.type(0))
        cut = (a.padding[0] + a.padding[1], a.padding[2] + a.padding[3])
        rest = [
            a.output[i] - ((image[i] - 1) * a.stride[i] + kernel[1 + i] - cut[i]) for i in (0, 1)
        ]
        return rest[0], rest[1]

    def infer(self, call: Call) -> Sequence[Expected]:
        image, kernel, a = call.type(0), call.type(1), self._attributes(call)
        image_extent(image)
        demand(kernel.rank == 4, f"the filter has {kernel.rank} dimensions, not 4")
        demand(
            kernel.shape[3] == image.shape[3],
            f"{image.shape[3]} input channels with a filter for {kernel.shape[3]}",
        )
        demand(min(a.stride) > 0, f"stride {a.stride}")
        demand(min(a.padding) >= 0, f"negative padding {a.padding}")
        check_weights(call, self.channel_axis)
        check_bias(call, 2, kernel.shape[0])
        adjustment = self.adjustment(call)
        demand(
            all(0 <= extra < step for extra, step in zip(adjustment, a.stride, strict=True)),
            f"an output of {a.output} does not follow from stride {a.stride} and the padding",
        )
        return [Expected((image.shape[0], *a.output, kernel.shape[0]))]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a = self._attributes(call)
        x, w, bias = (*arrays, None)[:3]
        bias = None if bias is None else bias.reshape(-1)
        assert x is not None
        assert w is not None
        return [
            numerics.transpose_conv_2d(
                x, w, bias, call.type(0), call.type(1), call.result.type,
                stride=a.stride, padding=a.padding, adjustment=self.adjustment(call),
                low=a.activation.bounds[0], high=a.activation.bounds[1], arithmetic=arithmetic,
            )
        ]  # fmt: skip

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        # TFLite's operands: output shape, filter, input, bias.
        shape = call.constant(0)
        demand(shape is not None and len(shape) == 4, "the output shape is not a constant")
        assert shape is not None
        kernel, stride = call.type(1).shape, (options.stride_h, options.stride_w)
        output = (shape[1], shape[2])
        padding = transpose_conv_padding(
            padding_of(options.padding), image_extent(call.type(2)), kernel[1:3], stride, output
        )
        activation = activation_of(options.fused_activation_function)
        attributes = TransposeConvAttributes(stride, padding, output, activation)
        return Imported(attributes, (2, 1, 3) if call.optional(3) is not None else (2, 1))

    def to_tflite(self, call: Call) -> Exported:
        a, image = self._attributes(call), image_extent(call.type(0))
        kernel = call.type(1).shape[1:3]
        for scheme in PaddingScheme:
            if transpose_conv_padding(scheme, image, kernel, a.stride, a.output) == a.padding:
                table = tflite.TransposeConvOptions(
                    padding=padding_code(scheme), stride_h=a.stride[0], stride_w=a.stride[1],
                    fused_activation_function=activation_code(a.activation),
                )  # fmt: skip
                shape = np.array(call.result.type.shape, np.int32)
                rest = (2,) if call.optional(2) is not None else ()
                version = 3 if rest else None
                return Exported("TRANSPOSE_CONV", table, (shape, 1, 0, *rest), version)
        raise TypeRuleError(f"padding {a.padding} is neither SAME nor VALID")


def transpose_conv_padding(
    scheme: PaddingScheme,
    image: Pair,
    kernel: tuple[int, ...],
    stride: Pair,
    output: Pair,
) -> tuple[int, int, int, int]:
    """What TFLite's TRANSPOSE_CONV cuts off: the padding of the convolution it inverts."""
    edges = []
    for extent, size, step, result in zip(image, kernel, stride, output, strict=True):
        full = (extent - 1) * step + size
        cut = max(full - result, 0) if scheme is PaddingScheme.SAME else 0
        edges += [cut // 2, cut - cut // 2]
    return (edges[0], edges[1], edges[2], edges[3])
