"""Pooling over windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import real, reals, requantized, stored
from fitzroy.compiler.ops.tflite_options import (
    activation_code,
    activation_of,
    padding_of,
    scheme_code,
)
from fitzroy.compiler.ops.windows import (
    Activation,
    Edges,
    Padding,
    PaddingScheme,
    Pair,
    explicit_padding,
    image_extent,
    output_extent,
)
from fitzroy.formats import tflite
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics import tflite as tflite_kernels


@dataclass(frozen=True)
class PoolAttributes(Attributes):
    """Attributes of pooling; pairs are (height, width)."""

    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Padding = PaddingScheme.VALID
    activation: Activation = Activation.NONE


class Pool(Operator):
    """Base of pooling operators; input and result are [N,H,W,C]."""

    attributes = PoolAttributes

    def pool(self, call: Call) -> PoolAttributes:
        """The call's attributes, typed."""
        return call.attributes(PoolAttributes)

    def edges(self, call: Call) -> Edges:
        """Explicit padding."""
        a = self.pool(call)
        return explicit_padding(a.padding, image_extent(call.type()), a.kernel, a.stride, (1, 1))

    def is_global(self, call: Call) -> bool:
        """Whether one window covers exactly the whole image."""
        covers = self.pool(call).kernel == image_extent(call.type())
        return covers and not any(self.edges(call)) and call.result.type.shape[1:3] == (1, 1)

    def infer(self, call: Call) -> Sequence[Expected]:
        a, shape = self.pool(call), call.type().shape
        rows, cols = output_extent(a.padding, image_extent(call.type()), a.kernel, a.stride)
        return [Expected((shape[0], rows, cols, shape[3]), call.type().dtype)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(
            PoolAttributes(
                kernel=(options.filter_height, options.filter_width),
                stride=(options.stride_h, options.stride_w),
                padding=padding_of(options.padding),
                activation=activation_of(options.fused_activation_function),
            )
        )

    def to_tflite(self, call: Call) -> Exported:
        a = self.pool(call)
        image = image_extent(call.type())
        table = tflite.Pool2DOptions(
            padding=scheme_code(a.padding, image, a.kernel, a.stride, (1, 1)),
            stride_h=a.stride[0], stride_w=a.stride[1],
            filter_height=a.kernel[0], filter_width=a.kernel[1],
            fused_activation_function=activation_code(a.activation),
        )  # fmt: skip
        return Exported(self.tflite[0], table)


def mean_filter(kernel: Pair, image: TensorType) -> tuple[Array, Quantization]:
    """The depthwise filter [1,kh,kw,C] of ones, scaled so that it takes the mean of a window."""
    data = np.ones((1, *kernel, image.shape[3]), image.dtype.numpy)
    return data, Quantization.per_tensor(1 / (kernel[0] * kernel[1]))


@define
class AveragePool2D(Pool):
    """Mean over each window; padding does not count.

    Quantized windows without padding are summed exactly and scaled once. Those with padding, whose
    counts differ, are averaged in float32.
    """

    name = "average_pool_2d"
    tflite = ("AVERAGE_POOL_2D",)

    def infer(self, call: Call) -> Sequence[Expected]:
        real(call.type())
        real(call.result.type)
        return super().infer(call)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a, before, after = self.pool(call), call.type(), call.result.type
        low, high = a.activation.bounds
        if arithmetic is Arithmetic.TFLITE and before.quantization is not None:
            return [
                tflite_kernels.average_pool(
                    x, before, kernel=a.kernel, stride=a.stride,
                    padding=self.edges(call), low=low, high=high,
                )
            ]  # fmt: skip
        if before.quantization is not None and self.is_global(call):
            return [numerics.mean(x, before, after, axes=(1, 2), low=low, high=high)]
        if before.quantization is not None and after.is_quantized and not any(self.edges(call)):
            data, quantization = mean_filter(a.kernel, before)
            ones = TensorType(data.shape, before.dtype, quantization)
            return [
                numerics.depthwise_conv_2d(
                    x, data, None, before, ones, after, stride=a.stride, low=low, high=high
                )
            ]
        result = numerics.average_pool(
            reals(x, before), kernel=a.kernel, stride=a.stride, padding=self.edges(call),
            low=low, high=high,
        )  # fmt: skip
        return [stored(result, after)]


@define
class MaxPool2D(Pool):
    """Largest element of each window."""

    moves = True
    name = "max_pool_2d"
    tflite = ("MAX_POOL_2D",)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = self.pool(call)
        low, high = a.activation.bounds
        pooled = numerics.max_pool(
            x, call.type(), kernel=a.kernel, stride=a.stride, padding=self.edges(call),
            low=low, high=high,
        )  # fmt: skip
        return [requantized(pooled, call.type(), call.result.type)]


@define
class L2Pool2D(Pool):
    """Root of the mean of the squares in each window; padding does not count."""

    name = "l2_pool_2d"
    tflite = ("L2_POOL_2D",)

    def infer(self, call: Call) -> Sequence[Expected]:
        demand(call.type().dtype is DType.FLOAT32, f"the operand is {call.type()}, not float32")
        return super().infer(call)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = self.pool(call)
        low, high = a.activation.bounds
        mean = numerics.average_pool(
            np.square(x), kernel=a.kernel, stride=a.stride, padding=self.edges(call)
        )
        return [np.clip(np.sqrt(mean), np.float32(low), np.float32(high))]


@dataclass(frozen=True)
class ArgMaxPoolAttributes(Attributes):
    """Attributes of max pooling with positions; windows do not overlap."""

    kernel: Pair = (1, 1)


@define
class ArgMaxPool2D(Operator):
    """Largest element of each window and its position in it, ``column * kernel height + row``."""

    name = "arg_max_pool_2d"
    attributes = ArgMaxPoolAttributes
    results = 2

    def _kernel(self, call: Call) -> Pair:
        return call.attributes(ArgMaxPoolAttributes).kernel

    def infer(self, call: Call) -> Sequence[Expected]:
        kernel, shape = self._kernel(call), call.type().shape
        none = PaddingScheme.VALID
        rows, cols = output_extent(none, image_extent(call.type()), kernel, kernel)
        result = (shape[0], rows, cols, shape[3])
        return [Expected(result, call.type().dtype), Expected(result, DType.INT32)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        value, index = numerics.arg_max_pool(x, kernel=self._kernel(call))
        return [value, index.astype(np.int32)]
