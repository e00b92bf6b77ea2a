"""Fast kernels of operators with weights: matrix products wherever there is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ops.convolution import (
    ConvAttributes,
    TransposeConv,
    TransposeConvAttributes,
    conv_attributes,
    edges,
)
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    filter_scales,
    function_of,
    output_stage,
    product_stage,
)
from fitzroy.compiler.targets.edgetpu.twin.codes import (
    BLOCK_BYTES,
    EXACT,
    Codes,
    Finish,
    Single,
    by_channel,
    exact_type,
    operands_of,
    reach,
    span,
    spread,
)
from fitzroy.hw_models.numerics.convolution import windows
from fitzroy.hw_models.parameters import Prefix

_LEAST_ROWS = 256
"""Rows of a matrix product that make up for reading its weights."""

_LANES = 4096
"""Elements that are multiplied with their weights at a time, at least."""


@dataclass(frozen=True)
class Ending:
    """What follows the sums of a filter.

    Attributes:
        bias: what is added to sums, as `spread` gives it, in a type that holds them; or None.
        finish: what becomes of them then.
    """

    bias: Array | None
    finish: Finish

    def __call__(self, sums: Array, out: Codes) -> None:
        """Write centred codes that sums become; the sums are lost.

        Args:
            sums: contiguous, channels last.
            out: contiguous; may be the sums.
        """
        if self.bias is not None:
            by_channel(np.add, sums, self.bias)
        if sums is not out:
            out[...] = sums
        self.finish(out)


@dataclass(frozen=True)
class Filter:
    """A filter of centred codes.

    Attributes:
        weights: float32 of the filter's shape, integers.
        type: the type in which all sums are exact.
        span: smallest and largest code that weights are multiplied with.
        ending: what follows the sums.
    """

    weights: Codes
    type: type[np.float32] | type[np.float64]
    span: tuple[int, int]
    ending: Ending

    @classmethod
    def of(cls, call: Call, channel_axis: int) -> Filter | None:
        """The filter of a convolution or a matrix product; None if it is no constant.

        Args:
            call: the operator.
            channel_axis: the filter's axis of output channels.
        """
        filter, biased = call.operand(1), call.optional(2)
        quantization = filter.type.quantization
        if filter.data is None or quantization is None:
            return None
        if biased is not None and biased.data is None:
            return None
        weights = filter.data.astype(np.float32) - quantization.zero_point_array(filter.data.ndim)
        weights, codes = weights.astype(np.float32, copy=False), span(call.type(0))
        bias = None if biased is None or biased.data is None else biased.data.reshape(-1)
        most = _most(
            np.moveaxis(weights, channel_axis, -1).reshape(-1, weights.shape[channel_axis]), codes
        )
        most += 0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
        # Scales in memory leave no condition on those of the channels.
        stage = output_stage(call, Prefix(scales=True, biases=True, zero_points=True))
        scales = filter_scales(call)
        finish = Finish.of(
            stage, scales if len(scales) > 1 else scales[0], function=function_of(call)
        )
        kind = exact_type(most)
        added = None if bias is None else spread(bias.astype(kind))
        return cls(weights, kind, codes, Ending(added, finish))


def _most(matrix: Array, codes: tuple[int, int]) -> int:
    """The largest magnitude of a sum of products, or of a part of it.

    Args:
        matrix: weights, [taps, channels].
        codes: smallest and largest code that they are multiplied with.
    """
    low, high = codes
    positive = np.maximum(matrix, 0).sum(axis=0, dtype=np.float64)
    negative = np.minimum(matrix, 0).sum(axis=0, dtype=np.float64)
    sums = np.maximum(positive * high + negative * low, -(positive * low + negative * high))
    return int(sums.max(initial=0))


def _parts(matrix: Array, codes: tuple[int, int]) -> list[slice]:
    """Rows of a matrix of weights in pieces whose sums are exact in float32.

    Args:
        matrix: as for `_most`.
        codes: as for `_most`.
    """
    if len(matrix) < 2 or _most(matrix, codes) <= EXACT:
        return [slice(0, len(matrix))]
    half = len(matrix) // 2
    rest = _parts(matrix[half:], codes)
    return _parts(matrix[:half], codes) + [slice(p.start + half, p.stop + half) for p in rest]


def _product(filter: Filter, matrix: Array) -> Callable[[Codes, Codes], None]:
    """A matrix product of rows of centred codes with a filter, finished.

    Args:
        filter: the filter.
        matrix: its weights, [taps, channels].
    """
    ending, taps, channels = filter.ending, *matrix.shape
    pieces = [(rows, np.ascontiguousarray(matrix[rows])) for rows in _parts(matrix, filter.span)]
    whole = len(pieces) == 1 and filter.type is np.float32
    step = max(_LEAST_ROWS, BLOCK_BYTES // (4 * max(taps, channels)))

    def run(x: Codes, out: Codes) -> None:
        x, out = x.reshape(-1, taps), out.reshape(-1, channels)
        for first in range(0, len(x), step):
            source, result = x[first : first + step], out[first : first + step]
            if whole:
                np.matmul(source, pieces[0][1], out=result)
                ending(result, result)
                continue
            sums = np.zeros(result.shape, np.float64)
            for rows, weights in pieces:
                sums += source[:, rows] @ weights
            ending(sums, result)

    return run


def fully_connected(call: Call) -> Single | None:
    """A fully connected layer."""
    filter = Filter.of(call, 0)
    if filter is None:
        return None
    product = _product(filter, filter.weights.T)
    return lambda operands, out: product(operands[0], out)


def conv_2d(call: Call) -> Single | None:
    """A convolution: matrix products of windows."""
    filter = Filter.of(call, 0)
    channels, depth = call.type(0).shape[3], call.type(1).shape[3]
    if filter is None:
        return None
    if channels != depth:
        return _grouped_conv_2d(call, filter, channels // depth)
    a, kernel = conv_attributes(call), _kernel(call)
    padding, image = edges(call, kernel), call.type(0).shape[1:]
    taps = math.prod(kernel) * depth
    product = _product(filter, filter.weights.reshape(-1, taps).T)
    if kernel == (1, 1) and a.stride == (1, 1) and not any(padding):
        return lambda operands, out: product(operands[0], out)
    shape = call.result.type.shape[1:]
    block = max(BLOCK_BYTES // (4 * taps), _LEAST_ROWS)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        results = out.reshape(-1, *shape)
        # Padding is the zero point, which is 0 here.
        view = windows(operands[0].reshape(-1, *image), kernel, a.stride, a.dilation, padding)
        for images, rows in _blocks(len(view), shape[0], shape[1], block):
            product(np.ascontiguousarray(view[images, rows]), results[images, rows])

    return run


def _kernel(call: Call) -> tuple[int, int]:
    return call.type(1).shape[1], call.type(1).shape[2]


def _blocks(images: int, rows: int, columns: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Images in blocks of about so many pixels: several images, or rows of one."""
    together = max(1, most // (rows * columns))
    pieces = 1 if together > 1 else -(-rows * columns // most)
    step = -(-rows // pieces)
    for image in range(0, images, together):
        for row in range(0, rows, step):
            yield slice(image, min(image + together, images)), slice(row, min(row + step, rows))


def _grouped_conv_2d(call: Call, filter: Filter, groups: int) -> Single:
    """A convolution whose input and output channels are in groups: a matrix product for each."""
    a, depth, kernel = conv_attributes(call), call.type(1).shape[3], _kernel(call)
    padding, image, shape = edges(call, kernel), call.type(0).shape[1:], call.result.type.shape[1:]
    taps = math.prod(kernel) * depth
    # Groups are consecutive in both kinds of channels: [groups, taps, channels of a group].
    matrices = filter.weights.reshape(groups, -1, taps).swapaxes(1, 2).astype(filter.type)
    ending = filter.ending
    block = max(1, BLOCK_BYTES // (taps * groups * matrices.itemsize))

    def run(operands: Sequence[Codes], out: Codes) -> None:
        results = out.reshape(-1, *shape)
        view = windows(operands[0].reshape(-1, *image), kernel, a.stride, a.dilation, padding)
        for images, rows in _blocks(len(view), shape[0], shape[1], block):
            part = view[images, rows]
            part = part.reshape(*part.shape[:-1], groups, depth)
            part = np.moveaxis(part, -2, 0).reshape(groups, -1, taps)
            sums = part.astype(matrices.dtype, copy=False) @ matrices
            result = results[images, rows]
            joined = np.ascontiguousarray(sums.swapaxes(0, 1)).reshape(result.shape)
            ending(joined, result)

    return run


# --- depthwise -----------------------------------------------------------------------------------


def depthwise_conv_2d(call: Call) -> Single | None:
    """A depthwise convolution: a product and a sum for every tap, over whole rows at a time."""
    filter = Filter.of(call, 3)
    return None if filter is None else _Depthwise.of(call, filter)


@dataclass(frozen=True)
class _Phase:
    """The columns of an image that have one remainder when they are divided by the stride.

    Attributes:
        source: columns of the image.
        goal: where they lie among all columns that windows touch.
    """

    source: slice
    goal: slice


@dataclass(frozen=True)
class _Tap:
    """A tap of the window.

    Attributes:
        row: its first row in the rows that windows touch.
        phase: remainder of its columns.
        column: its first column among those.
        weights: of every channel, repeated for some columns.
    """

    row: int
    phase: int
    column: int
    weights: Array


@dataclass(frozen=True)
class _Depthwise:
    """A depthwise convolution, prepared.

    Attributes:
        ending: what follows its sums.
        image: extents of the input.
        shape: extents of the result.
        stride: rows between windows.
        top: rows of padding.
        reach: rows between the first and the last tap.
        width: columns that windows touch, of every phase.
        phases: phases that taps read.
        taps: all taps.
    """

    ending: Ending
    image: tuple[int, int, int]
    shape: tuple[int, int, int]
    stride: int
    top: int
    reach: int
    width: int
    phases: dict[int, _Phase]
    taps: tuple[_Tap, ...]

    @classmethod
    def of(cls, call: Call, filter: Filter) -> _Depthwise:
        a, kernel = conv_attributes(call), _kernel(call)
        (_, *image), (_, *shape) = call.type(0).shape, call.result.type.shape
        top, _, left, _ = edges(call, kernel)
        step = a.stride[1]
        width = shape[1] + (kernel[1] - 1) * a.dilation[1] // step
        # Weights of as many columns as make a fast loop, and divide a row.
        enough = (n for n in range(1, shape[1]) if shape[1] % n == 0 and n * shape[2] >= _LANES)
        copies, phases, taps = next(enough, shape[1]), dict[int, _Phase](), []
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                column, phase = divmod(j * a.dilation[1], step)
                first = max(0, -(-(left - phase) // step))
                last = max(first, min(width, -(-(image[1] + left - phase) // step)))
                begin = first * step + phase - left
                phases[phase] = _Phase(
                    slice(begin, begin + (last - first) * step, step), slice(first, last)
                )
                weights = np.tile(filter.weights[0, i, j].astype(filter.type), copies)
                taps.append(_Tap(i * a.dilation[0], phase, column, weights))
        rows = (kernel[0] - 1) * a.dilation[0]
        return cls(
            filter.ending,
            (image[0], image[1], image[2]),
            (shape[0], shape[1], shape[2]),
            a.stride[0],
            top,
            rows,
            width,
            phases,
            tuple(taps),
        )

    def __call__(self, operands: Sequence[Codes], out: Codes) -> None:
        x, results = operands[0].reshape(-1, *self.image), out.reshape(-1, *self.shape)
        rows, columns, channels = self.shape
        block, kind = BLOCK_BYTES // (4 * channels), self.taps[0].weights.dtype
        scratch: Array | None = None
        for images, part in _blocks(len(x), rows, columns, max(1, block)):
            result = results[images, part]
            count = (len(result[0]) - 1) * self.stride + self.reach + 1
            if scratch is None:
                # The first block is the largest.
                shape = (max(self.phases) + 1, len(result), count, self.width, channels)
                scratch = np.zeros(shape, kind)
                product = np.empty(result.shape, kind)
                total = np.empty_like(product)
            held = scratch[:, : len(result), :count]
            self._fill(held, x[images], part.start * self.stride - self.top)
            sums = result if kind == np.float32 else total[: len(result), : len(result[0])]
            self._sum(held, product[: len(result), : len(result[0])], sums)
            self.ending(sums, result)

    def _fill(self, held: Array, x: Codes, begin: int) -> None:
        """Copy the rows that windows touch, from one on; what lies outside is 0."""
        count, height = held.shape[2], self.image[0]
        first, last = min(max(-begin, 0), count), max(min(height - begin, count), 0)
        held[:, :, :first] = 0
        held[:, :, last:] = 0
        multiplier = self.shape[2] // self.image[2]
        for number, phase in self.phases.items():
            source = x[:, begin + first : begin + last, phase.source]
            goal = held[number, :, first:last, phase.goal]
            if multiplier == 1:
                goal[...] = source
            else:
                goal.reshape(*source.shape, multiplier)[...] = source[..., None]

    def _sum(self, held: Array, product: Array, sums: Array) -> None:
        """Add up the products of all taps."""
        images, rows, columns, channels = sums.shape
        lanes = len(self.taps[0].weights)
        split = (images, rows, columns * channels // lanes, lanes)
        sums, product = sums.reshape(split), product.reshape(split)
        for number, tap in enumerate(self.taps):
            last = tap.row + (rows - 1) * self.stride + 1
            source = held[tap.phase, :, tap.row : last : self.stride]
            source = source[:, :, tap.column : tap.column + columns].reshape(split)
            np.multiply(source, tap.weights, out=product if number else sums)
            if number:
                np.add(sums, product, out=sums)


# --- others --------------------------------------------------------------------------------------


def transpose_conv(call: Call) -> Single | None:
    """A transposed convolution: a matrix product for every tap, added to where the tap writes."""
    a = call.attributes(TransposeConvAttributes)
    plain = ConvAttributes(activation=a.activation)
    filter = Filter.of(replace(call, node=replace(call.node, op="conv_2d", attributes=plain)), 0)
    if filter is None:
        return None
    (_, *image), (_, *shape), kernel = call.type(0).shape, call.result.type.shape, _kernel(call)
    height, width, depth = image
    top, _, left, _ = a.padding
    taps, ending = filter.weights.transpose(1, 2, 3, 0).astype(filter.type), filter.ending
    adjustment = TransposeConv().adjustment(call)
    full = tuple(
        (image[axis] - 1) * a.stride[axis] + kernel[axis] + max(adjustment[axis], 0)
        for axis in (0, 1)
    )

    def run(operands: Sequence[Codes], out: Codes) -> None:
        images = zip(operands[0].reshape(-1, *image), out.reshape(-1, *shape), strict=True)
        for x, result in images:
            rows = x.reshape(-1, depth).astype(taps.dtype, copy=False)
            sums = np.zeros((*full, shape[2]), taps.dtype)
            for i in range(kernel[0]):
                for j in range(kernel[1]):
                    goal = sums[i :: a.stride[0], j :: a.stride[1]][:height, :width]
                    goal += (rows @ taps[i, j]).reshape(goal.shape)
            cut = sums[top : top + shape[0], left : left + shape[1]]
            ending(np.ascontiguousarray(cut), result)

    return run


def batch_matmul(call: Call) -> Single | None:
    """Products of matrices, both of activations."""
    a = call.attributes(BatchMatMulAttributes)
    depth = call.type(0).shape[-2 if a.adj_x else -1]
    finish = Finish.of(product_stage(call.type(0), call.type(1), call.result.type))
    kind = exact_type(depth * reach(call.type(0)) * reach(call.type(1)))
    operands_in_order = operands_of(call)

    def run(operands: Sequence[Codes], out: Codes) -> None:
        x, y = (codes.astype(kind, copy=False) for codes in operands_in_order(operands))
        x = x.swapaxes(-1, -2) if a.adj_x else x
        y = y.swapaxes(-1, -2) if a.adj_y else y
        out[...] = np.matmul(x, y)
        finish(out)

    return run
