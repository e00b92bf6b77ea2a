"""Max pooling that keeps the places of the largest elements, and its inverse.

Facts: MediaPipe's published custom operators ``MaxPoolingWithArgmax2D`` and ``MaxUnpooling2D``,
whose options are the bytes of TFLite's struct of pooling parameters.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType
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
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.windows import (
    Activation,
    PaddingScheme,
    explicit_padding,
    image_extent,
    output_extent,
    scheme_of,
)
from fitzroy.hw_models.numerics import Arithmetic

_POOL = struct.Struct("<6i")
"""Padding, strides as width and height, filter as width and height, activation."""
_COMPUTED = bytes(16)
"""Padding in elements, which the kernel fills in."""

SCHEMES = {1: PaddingScheme.SAME, 2: PaddingScheme.VALID}
"""Padding schemes by their numbers in structs, which are not those of option tables."""
_ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU_N1_TO_1, Activation.RELU6)

_ROUNDED = np.float32(0.1)
"""Added to positions, so that conversion to an integer, which rounds down, is safe."""


def numbers(options: bytes, layout: struct.Struct) -> tuple[int, ...]:
    """The fields of a struct that options begin with.

    Raises:
        TypeRuleError: options are too short.
    """
    if len(options) < layout.size:
        raise TypeRuleError(f"options of {len(options)} bytes, at least {layout.size}")
    return layout.unpack_from(options)


class ArgMaxPooling(Operator):
    """Base of the two operators."""

    attributes = PoolAttributes

    def pool(self, call: Call) -> PoolAttributes:
        """The call's attributes, typed."""
        return call.attributes(PoolAttributes)

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        fields = numbers(options, _POOL)
        padding, stride_w, stride_h, width, height, activation = fields
        demand(padding in SCHEMES, f"no padding scheme {padding}")
        demand(0 <= activation < len(_ACTIVATIONS), f"no activation {activation}")
        kernel, stride = (height, width), (stride_h, stride_w)
        return Imported(PoolAttributes(kernel, stride, SCHEMES[padding], _ACTIVATIONS[activation]))

    def scheme(self, call: Call) -> int:
        """The number of the padding scheme.

        Raises:
            TypeRuleError: amounts of padding that no scheme gives.
        """
        a = self.pool(call)
        image = image_extent(call.outputs[0].type if len(call.inputs) == 2 else call.type())
        found = scheme_of(a.padding, image, a.kernel, a.stride, (1, 1))
        if found is None:
            raise TypeRuleError(f"padding {a.padding} is neither SAME nor VALID")
        return next(number for number, scheme in SCHEMES.items() if scheme is found)

    def to_tflite(self, call: Call) -> Exported:
        a = self.pool(call)
        activation = _ACTIVATIONS.index(a.activation)
        fields = (self.scheme(call), a.stride[1], a.stride[0], a.kernel[1], a.kernel[0], activation)
        return Exported(self.custom, _POOL.pack(*fields) + _COMPUTED)


def _float_image(call: Call) -> None:
    for value in call.inputs:
        if value is not None:
            image_extent(value.type)
            demand(value.type.dtype is DType.FLOAT32, f"{value.name!r} is {value.type}")


@define
class MaxPoolWithArgMax(ArgMaxPooling):
    """Largest element of each window, and its position in it: ``row * kernel width + column``.

    Positions are float32, and greater by 0.1 than the integer that they stand for.
    """

    name = "max_pool_with_arg_max"
    results = 2
    custom = "MaxPoolingWithArgmax2D"

    def infer(self, call: Call) -> Sequence[Expected]:
        _float_image(call)
        a, shape = self.pool(call), call.type().shape
        rows, cols = output_extent(a.padding, image_extent(call.type()), a.kernel, a.stride)
        result = Expected((shape[0], rows, cols, shape[3]), DType.FLOAT32)
        return [result, result]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a, shape = self.pool(call), call.result.type.shape
        top, bottom, left, right = explicit_padding(
            a.padding, image_extent(call.type()), a.kernel, a.stride, (1, 1)
        )
        lowest = np.finfo(np.float32).min
        widths = ((0, 0), (top, bottom), (left, right), (0, 0))
        padded = np.pad(x, widths, constant_values=lowest)
        best = np.full(shape, lowest, np.float32)
        position = np.zeros(shape, np.float32)
        for row in range(a.kernel[0]):
            for column in range(a.kernel[1]):
                last = row + (shape[1] - 1) * a.stride[0] + 1
                end = column + (shape[2] - 1) * a.stride[1] + 1
                here = padded[:, row : last : a.stride[0], column : end : a.stride[1]]
                better = here > best
                best = np.where(better, here, best)
                position = np.where(better, np.float32(row * a.kernel[1] + column), position)
        low, high = a.activation.bounds
        clamped = np.clip(best, np.float32(low), np.float32(high))
        return [clamped, position + _ROUNDED]


@define
class MaxUnpool(ArgMaxPooling):
    """Zeros, except for elements at the window positions given by the second operand.

    Positions outside of the result are left out.
    """

    name = "max_unpool"
    operands = ("input", "positions")
    custom = "MaxUnpooling2D"

    def infer(self, call: Call) -> Sequence[Expected]:
        _float_image(call)
        a, shape = self.pool(call), call.type(0).shape
        demand(call.type(1).shape == shape, f"positions of shape {list(call.type(1).shape)}")
        demand(min(*a.kernel, *a.stride) > 0, f"kernel {a.kernel}, stride {a.stride}")
        result = (shape[0], shape[1] * a.kernel[0], shape[2] * a.kernel[1], shape[3])
        return [Expected(result, DType.FLOAT32)]

    def _corner(self, call: Call) -> tuple[int, int]:
        """Rows and columns by which the first window sticks out of the result."""
        a, shape = self.pool(call), call.type().shape
        corner = []
        for extent, size, step in zip(shape[1:3], a.kernel, a.stride, strict=True):
            # The kernel computes this from the result, whatever the padding scheme.
            corner.append(max((extent - 1) * step + size - extent * size, 0) // 2)
        return corner[0], corner[1]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, positions = arrays
        assert x is not None
        assert positions is not None
        a, shape = self.pool(call), call.result.type.shape
        top, left = self._corner(call)
        finite = np.nan_to_num(positions, nan=-1, posinf=-1, neginf=-1)
        index = np.clip(np.trunc(finite), -1, 2**31 - 1).astype(np.int64)
        grid: tuple[Array, ...] = np.indices(x.shape, sparse=True)
        image, row, column, channel = grid
        y = row * a.stride[0] - top + index // a.kernel[1]
        z = column * a.stride[1] - left + index % a.kernel[1]
        inside = (index >= 0) & (y >= 0) & (y < shape[1]) & (z >= 0) & (z < shape[2])
        places = (np.broadcast_to(part, x.shape)[inside] for part in (image, y, z, channel))
        result = np.zeros(shape, np.float32)
        result[tuple(places)] = x[inside]
        return [result]
