"""ONNX's convolutions."""

from __future__ import annotations

import math

import numpy as np

from fitzroy.compiler.frontends import volumes
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import joined, padded, sliced
from fitzroy.compiler.frontends.onnx.values import Refusal, Shape, Tensor, channels_last
from fitzroy.compiler.frontends.onnx.windows import (
    NHWC,
    Windows,
    as_image,
    as_row,
    demand_image,
    flat_windows,
    pair,
    placed,
    windows,
)
from fitzroy.compiler.frontends.volumes import Filter, Layers
from fitzroy.compiler.ops.convolution import (
    ConvAttributes,
    TransposeConvAttributes,
    transpose_conv_padding,
)
from fitzroy.compiler.ops.definition import TypeRuleError
from fitzroy.compiler.ops.windows import PaddingScheme, scheme_of

SWAPPED = (0, 3, 2, 1)
"""The layout [N,W,H,C]."""


@imports("Conv")
def convolution(op: Operation) -> Tensor:
    """Convolution of [N,C,H,W] or [N,C,L] with a filter [O,C/groups,...]."""
    return convolution_of(op, op.input(0), op.input(1), op.optional(2))


def convolution_of(op: Operation, x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Convolution of some operands, with the attributes of an operator.

    Raises:
        Refusal: operands and attributes do not fit.
    """
    if x.rank == 5:
        return _volume(op, x, kernel, bias)
    demand_image(op, x)
    if kernel.rank != x.rank:
        raise Refusal("onnx-type-rule", f"a filter of {kernel.rank} dimensions for {x.rank}")
    w = windows(op, x.shape[2:], kernel.shape[2:])
    groups = op.integer("group", 1)
    if groups < 1 or kernel.shape[1] * groups != x.shape[1] or kernel.shape[0] % groups:
        raise Refusal(
            "onnx-type-rule", f"{x.shape[1]} channels in {groups} groups of {kernel.shape[1]}"
        )
    build = op.build
    if x.rank == 3:
        w = flat_windows(w)
    image = convolved(build, as_image(build, x), as_image(build, kernel), bias, w)
    return as_row(build, image, x.rank)


def _volume(op: Operation, x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Convolution of a volume [N,C,D,H,W] with a filter [O,C/groups,kd,kh,kw].

    Raises:
        Refusal: operands and attributes do not fit, or the filter is computed at run time.
    """
    build, data = op.build, op.build.elements(kernel)
    if data is None or kernel.rank != x.rank or 0 in (*x.shape, *kernel.shape):
        raise Refusal("onnx-run-time-parameter", "the filter of a volume is no constant of 5")
    w = windows(op, x.shape[2:], kernel.shape[2:])
    if kernel.shape[1] * op.integer("group", 1) != x.shape[1]:
        raise Refusal("onnx-type-rule", f"{x.shape[1]} channels, a filter {list(kernel.shape)}")
    rows, columns = ((w.before[axis], w.ends[axis]) for axis in (1, 2))
    flat = [pair(values[1:]) for values in (x.shape[2:], w.kernel, w.stride, w.dilation)]
    scheme = scheme_of((*rows, *columns), *flat)
    if scheme is None:
        before, after = (0, 0, 0, *w.before[1:]), (0, 0, 0, *w.ends[1:])
        x = padded(build, x, before, after, 0.0)
    layers = Layers(w.kernel[0], w.stride[0], w.dilation[0], w.before[0], w.ends[0])
    image = ConvAttributes(flat[2], flat[3], scheme or PaddingScheme.VALID)
    if bias is None:
        bias = build.constant(np.zeros(kernel.shape[0], np.float32), f"{build.stem}/bias")
    weights = data.astype(np.float32, copy=False).transpose(2, 3, 4, 1, 0)
    filter, order = Filter(weights, build.value(bias), layers, image), channels_last(x.rank)
    try:
        name = volumes.convolution(build.graph, build.value(x, order), filter, build.stem)
    except TypeRuleError as error:
        raise Refusal("onnx-type-rule", f"Conv of a volume: {error}") from None
    return build.variable(name, order)


def convolved(build: Builder, x: Tensor, kernel: Tensor, bias: Tensor | None, w: Windows) -> Tensor:
    """Convolution of an image [N,C,H,W] with a filter [O,C/groups,kh,kw]."""
    if x.perm == SWAPPED:
        # Rows and columns change places, which costs nothing.
        turned = build.transpose(kernel, (0, 1, 3, 2))
        result = convolved(build, build.transpose(x, (0, 1, 3, 2)), turned, bias, w.turned())
        return build.transpose(result, (0, 1, 3, 2))
    depthwise = kernel.shape[1] == 1 and x.shape[1] > 1
    x, padding = placed(build, x, w, 0.0)
    attributes = ConvAttributes(pair(w.stride), pair(w.dilation), padding)
    order = (1, 2, 3, 0) if depthwise else (0, 2, 3, 1)
    if bias is None:
        # TFLite's convolutions demand an offset.
        bias = build.constant(np.zeros(kernel.shape[0], np.float32), f"{build.stem}/bias")
    name = build.emit(
        "depthwise_conv_2d" if depthwise else "conv_2d",
        [build.value(x, NHWC), build.value(kernel, order), build.value(bias)],
        attributes,
    )
    return build.variable(name, NHWC)


@imports("ConvTranspose")
def transposed_convolution(op: Operation) -> Tensor:
    """Transposed convolution of [N,C,H,W] or [N,C,L] with a filter [C,O/groups,...]."""
    x, kernel, bias, build = op.input(0), op.input(1), op.optional(2), op.build
    demand_image(op, x)
    groups = op.integer("group", 1)
    if kernel.rank != x.rank or kernel.shape[0] != x.shape[1] or x.shape[1] % max(groups, 1):
        raise Refusal("onnx-type-rule", f"a filter {list(kernel.shape)} for {list(x.shape)}")
    stride, dilation, cut, output = _transposed_windows(op, x.shape[2:], kernel.shape[2:])
    if x.rank == 3:
        stride, output, cut = (1, *stride), (1, *output), [(0, 0), *cut]
    image, filter = as_image(build, x), as_image(build, _dilated(build, kernel, dilation))
    parts = []
    inner, outer = x.shape[1] // groups, kernel.shape[1]
    for group in range(groups):
        part = _channels(build, image, group * inner, inner, 1)
        weights = _channels(build, filter, group * inner, inner, 0)
        biases = None if bias is None else _channels(build, bias, group * outer, outer, 0)
        parts.append(_transposed(build, part, weights, biases, stride, cut, output))
    result = parts[0] if groups == 1 else joined(build, parts, 1)
    return as_row(build, result, x.rank)


def _channels(build: Builder, x: Tensor, first: int, count: int, axis: int) -> Tensor:
    begin, size = [0] * x.rank, list(x.shape)
    begin[axis], size[axis] = first, count
    return sliced(build, x, begin, size, [1] * x.rank)


def _dilated(build: Builder, kernel: Tensor, dilation: Shape) -> Tensor:
    """A filter with zeros between its elements.

    Raises:
        Refusal: it varies.
    """
    if set(dilation) <= {1}:
        return kernel
    elements = build.elements(kernel)
    if elements is None:
        raise Refusal("onnx-run-time-parameter", "a dilated filter that varies")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], dilation, strict=True)]
    if max(extents) > 1 << 12:
        raise Refusal("onnx-size", f"a filter that extends over {extents} elements")
    data = np.zeros((*kernel.shape[:2], *extents), elements.dtype)
    data[:, :, *(slice(None, None, step) for step in dilation)] = elements
    return build.constant(data, kernel.name)


def _transposed(
    build: Builder, x: Tensor, kernel: Tensor, bias: Tensor | None,
    stride: Shape, cut: list[tuple[int, int]], output: Shape,
) -> Tensor:  # fmt: skip
    """Transposed convolution of one group; parts of the full result are cut off.

    Raises:
        Refusal: more is added after the last window than our operator can.
    """
    full = [(e - 1) * s + k for e, s, k in zip(x.shape[2:], stride, kernel.shape[2:], strict=True)]
    image, size = pair(x.shape[2:]), kernel.shape[2:]
    operands = [build.value(x, NHWC), build.value(kernel, (1, 2, 3, 0))]
    operands += [] if bias is None else [build.value(bias)]
    same = transpose_conv_padding(PaddingScheme.SAME, image, size, pair(stride), pair(output))
    if same == (*cut[0], *cut[1]):
        attributes = TransposeConvAttributes(pair(stride), same, pair(output))
        return build.variable(build.emit("transpose_conv", operands, attributes), NHWC)
    reach = [max(f, c[0] + o) for f, c, o in zip(full, cut, output, strict=True)]
    if any(r - f >= s for r, f, s in zip(reach, full, stride, strict=True)):
        raise Refusal("onnx-attribute", f"a result of {list(output)}, of which {full} are reached")
    attributes = TransposeConvAttributes(pair(stride), (0, 0, 0, 0), (reach[0], reach[1]))
    result = build.variable(build.emit("transpose_conv", operands, attributes), NHWC)
    begin = (0, 0, cut[0][0], cut[1][0])
    return sliced(build, result, begin, (*result.shape[:2], *output), (1, 1, 1, 1))


def _transposed_windows(
    op: Operation, image: Shape, kernel: Shape
) -> tuple[Shape, Shape, list[tuple[int, int]], Shape]:
    """Strides, dilations, what is cut off, and the result's extents.

    Raises:
        Refusal: attributes do not fit.
    """
    rank = len(image)
    stride = op.integers("strides") or (1,) * rank
    dilation = op.integers("dilations") or (1,) * rank
    extra = op.integers("output_padding") or (0,) * rank
    pads = op.integers("pads") or (0,) * (2 * rank)
    wanted = op.integers("output_shape")
    lengths = (len(stride), len(dilation), len(extra), len(pads) // 2)
    if lengths != (rank,) * 4 or min((*stride, *dilation)) < 1 or min((*extra, *pads)) < 0:
        raise Refusal("onnx-attribute", f"strides {stride}, dilations {dilation}, pads {pads}")
    auto = op.text("auto_pad", "NOTSET")
    cut, output = [], []
    for i in range(rank):
        full = (image[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 + extra[i]
        if wanted is None and not auto.startswith("SAME"):
            low, high = (0, 0) if auto == "VALID" else (pads[i], pads[rank + i])
        else:
            target = image[i] * stride[i] if wanted is None else wanted[-rank:][i]
            total = max(full - target, 0)
            low = total // 2 if auto != "SAME_LOWER" else total - total // 2
            if auto == "NOTSET" and wanted is not None:
                low = total - total // 2 if op.opset < 11 else total // 2
            high = full - target - low
        cut.append((low, high))
        output.append(full - low - high)
    if min(output) < 1:
        raise Refusal("onnx-type-rule", f"a result of {output}")
    return stride, dilation, cut, tuple(output)


@imports("Col2Im")
def columns_to_image(op: Operation) -> Tensor:
    """Blocks [N,C*block,L] as an image [N,C,H,W], in which those that overlap are added."""
    x, build = op.input(), op.build
    image, block = (op.constants(index, what) or () for index, what in ((1, "image"), (2, "block")))
    if x.rank != 3 or len(image) != 2 or len(block) != 2:
        raise Refusal("onnx-rank", f"Col2Im to {len(image)} dimensions; 2 are known")
    w, size = windows(op, image, block), math.prod(block)
    rows, columns = w.outputs(image)
    if x.shape[1] % size or x.shape[2] != rows * columns:
        raise Refusal("onnx-type-rule", f"{list(x.shape)} as {rows} times {columns} of {block}")
    batch, channels = x.shape[0], x.shape[1] // size
    if block == w.stride and set(w.dilation) == {1} and not any((*w.before, *w.after)):
        whole = (rows * block[0], columns * block[1])
        blocks = build.reshape(x, (batch, channels, *block, rows, columns))
        result = build.reshape(
            build.transpose(blocks, (0, 1, 4, 2, 5, 3)), (batch, channels, *whole)
        )
        after = (0, 0, image[0] - whole[0], image[1] - whole[1])
        return padded(build, result, (0,) * 4, after, 0.0)
    # Each element of a block goes to its place: a transposed convolution, channel by channel.
    kernel = build.constant(np.eye(size, dtype=np.float32).reshape(size, 1, *block))
    kernel = _dilated(build, kernel, w.dilation)
    cut = list(zip(w.before, w.after, strict=True))
    images = build.reshape(x, (batch * channels, size, rows, columns))
    result = _transposed(build, images, kernel, None, w.stride, cut, image)
    return build.reshape(result, (batch, channels, *image))
