"""Custom operators of TFLite files that are operators of ours under another name.

Facts: MediaPipe's published custom operator ``Convolution2DTransposeBias``, whose options are the
bytes of TFLite's struct of the parameters of transposed convolutions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from fitzroy.compiler.ops.convolution import TransposeConv, TransposeConvAttributes
from fitzroy.compiler.ops.definition import Call, Imported, Operator, demand
from fitzroy.compiler.ops.unpooling import SCHEMES, numbers
from fitzroy.compiler.ops.windows import PaddingScheme, image_extent

_TRANSPOSE_CONV = struct.Struct("<3i")
"""Padding, strides as width and height."""


def _transpose_conv_bias(options: bytes, call: Call) -> Imported:
    padding, stride_w, stride_h = numbers(options, _TRANSPOSE_CONV)
    demand(padding in SCHEMES, f"no padding scheme {padding}")
    demand(call.type(1).rank == 4, f"the filter has {call.type(1).rank} dimensions, not 4")
    demand(min(stride_w, stride_h) > 0, f"strides {stride_h} and {stride_w}")
    edges, output = list[int](), list[int]()
    sizes = zip(
        image_extent(call.type()), call.type(1).shape[1:3], (stride_h, stride_w), strict=True
    )
    for extent, size, step in sizes:
        cut = (
            max(0, size - (extent - 1) % step - 1) if SCHEMES[padding] is PaddingScheme.SAME else 0
        )
        edges += [cut // 2, cut - cut // 2]
        output.append((extent - 1) * step + size - cut)
    top, bottom, left, right = edges
    attributes = TransposeConvAttributes(
        (stride_h, stride_w), (top, bottom, left, right), (output[0], output[1])
    )
    return Imported(attributes)


ALIASES: dict[str, tuple[Operator, Callable[[bytes, Call], Imported]]] = {
    "Convolution2DTransposeBias": (TransposeConv(), _transpose_conv_bias)
}
"""Operators, and what their options mean, by the names of custom operators."""
