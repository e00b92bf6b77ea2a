"""Convolutions whose dilated kernels reach beyond the image from every position of it.

Of a kernel of rate 24 on an image of 20 x 20 only the tap in the middle ever meets the image. Where
other taps do, they meet it from a part of the positions only. Results are put together of boxes
whose positions have the same taps: each is a convolution of kernel 1 over the shifted boxes that
its taps read, with their channels side by side. Padding adds nothing to sums, so they are the same
to the bit, and no tile needs room for as much padding as the kernel spans. That is done where a
single tap is left, or where there is no such room; otherwise moving boxes costs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.ops.windows import explicit_padding
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes_first, several
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import COLUMNS, ROWS

_HEIGHT, _WIDTH, _CHANNELS = 1, 2, 3


@dataclass(frozen=True, slots=True)
class _Span:
    """Positions of a result along an axis that have the same taps.

    Attributes:
        begin: the first position.
        count: how many there are.
        taps: the taps that meet the image, and for each the first element that it reads.
    """

    begin: int
    count: int
    taps: tuple[tuple[int, int], ...]


def _spans(extent: int, kernel: int, dilation: int, before: int, count: int) -> list[_Span]:
    """Positions along an axis by the taps that meet the image there.

    Args:
        extent: elements of the image.
        kernel: taps.
        dilation: distance of taps.
        before: padding in front of the image.
        count: positions of the result.
    """

    def met(position: int) -> tuple[int, ...]:
        return tuple(
            tap for tap in range(kernel) if 0 <= position + tap * dilation - before < extent
        )

    sets = [met(position) for position in range(count)]
    begins = [p for p in range(count) if p == 0 or sets[p] != sets[p - 1]]
    return [
        _Span(
            begin,
            end - begin,
            tuple((tap, begin + tap * dilation - before) for tap in sets[begin]),
        )
        for begin, end in zip(begins, [*begins[1:], count], strict=True)
    ]


def _along(call: Call) -> list[list[_Span]] | None:
    """Spans along rows and columns of a convolution; None if its kernel does not reach so far."""
    attributes = call.attributes(ConvAttributes)
    image, (_, height, width, _) = call.type().shape, call.type(1).shape
    kernel = height, width
    pads = explicit_padding(
        attributes.padding, (image[1], image[2]), kernel, attributes.stride, attributes.dilation
    )
    if attributes.stride != (1, 1) or max(attributes.dilation) == 1 or several(call.type()):
        return None
    reaches = [
        (taps - 1) * rate >= image[axis]
        for axis, taps, rate in zip((_HEIGHT, _WIDTH), kernel, attributes.dilation, strict=True)
    ]
    if not all(reaches):
        return None
    after = call.result.type.shape
    found = [
        _spans(
            image[axis], kernel[number], attributes.dilation[number], pads[2 * number], after[axis]
        )
        for number, axis in enumerate((_HEIGHT, _WIDTH))
    ]
    # Positions that only padding is read for would be biases.
    return found if all(span.taps for spans in found for span in spans) else None


@legalizes_first
def far_taps(legalizer: Legalizer, call: Call) -> bool:
    """Legalize a convolution whose kernel spans the image, as those of boxes of its result.

    Returns:
        Whether it did; otherwise the rule of the operator applies.
    """
    if call.node.op != "conv_2d" or call.operand(1).data is None:
        return False
    along = _along(call)
    if along is None or not (_single(along) or _crowds(legalizer, call)):
        return False
    rewriting = Rewriting.of(legalizer, call)
    rows = [
        _joined(rewriting, [_box(rewriting, call, row, column) for column in along[1]], _WIDTH)
        for row in along[0]
    ]
    _joined(rewriting, rows, _HEIGHT, call.result.name)
    rewriting.run(legalizer)
    return True


def _single(along: Sequence[Sequence[_Span]]) -> bool:
    """Whether one tap is all that ever meets the image."""
    return all(len(spans) == 1 and len(spans[0].taps) == 1 for spans in along)


def _crowds(legalizer: Legalizer, call: Call) -> bool:
    """Whether what a tile reads for its part of the result takes most of its memory."""
    attributes, needs = call.attributes(ConvAttributes), call.type().shape[_CHANNELS]
    for axis, tiles, rate in zip(
        (_HEIGHT, _WIDTH), (ROWS, COLUMNS), attributes.dilation, strict=True
    ):
        reach = (call.type(1).shape[axis] - 1) * rate
        needs *= -(-call.result.type.shape[axis] // tiles) + reach
    return needs > legalizer.options.narrow_bytes // 2


def _box(rewriting: Rewriting, call: Call, row: _Span, column: _Span) -> str:
    """The part of the result with the taps of a span along each axis."""
    image, weights, bias = call.operand(0), call.operand(1), call.optional(2)
    assert weights.data is not None
    taps = [(y, x) for y in row.taps for x in column.taps]
    shape = (1, row.count, column.count, image.type.shape[_CHANNELS])
    boxes = [_part(rewriting, image.name, shape, y, x) for (_, y), (_, x) in taps]
    kernel = np.concatenate([weights.data[:, y : y + 1, x : x + 1] for (y, _), (x, _) in taps], 3)
    filter = rewriting.graph.add_constant(weights.name, kernel, weights.type.quantization)
    type = replace(call.result.type, shape=(*shape[:_CHANNELS], kernel.shape[0]))
    attributes = ConvAttributes(activation=call.attributes(ConvAttributes).activation)
    operands = [_joined(rewriting, boxes, _CHANNELS), filter, None if bias is None else bias.name]
    return rewriting.emit("conv_2d", operands, type, attributes)


def _part(rewriting: Rewriting, name: str, shape: tuple[int, ...], y: int, x: int) -> str:
    """A box of an image: its rows first, as tiles have no room for far rows of far columns."""
    for axis, begin in ((_HEIGHT, y), (_WIDTH, x)):
        if rewriting.graph.type(name).shape[axis] != shape[axis]:
            name = rewriting.slice(name, axis, begin, shape[axis])
    return name


def _joined(rewriting: Rewriting, names: Sequence[str], axis: int, result: str = "") -> str:
    """Images side by side along an axis; nothing to do for a single one without a name."""
    types = [rewriting.graph.type(name) for name in names]
    if len(names) == 1 and not result:
        return names[0]
    shape = list(types[0].shape)
    shape[axis] = sum(type.shape[axis] for type in types)
    type = replace(types[0], shape=tuple(shape))
    return rewriting.emit(
        "concatenation", names, type, ConcatenationAttributes(axis), result=result
    )
