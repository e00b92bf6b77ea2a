"""Transposed convolutions, as ordinary ones of every phase of the result.

Results at distances of the stride, which have one phase, are a convolution of the image with those
taps of the kernel that meet its pixels there: no zeros are put between pixels. The convolutions of
all phases run one after the other, and write to positions that interleave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.ops.convolution import TransposeConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, Weights, Windows
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.lowerings.as_convolution import (
    as_convolution,
    convolution_of,
    image_operand,
)
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Interval, Placed, Window, hull

_MOST_BUNDLES = 1000
"""Bundles of the convolution of a phase."""


@dataclass(frozen=True, slots=True)
class Together(Window):
    """What several operators read.

    Attributes:
        parts: what each of them reads.
    """

    parts: tuple[Window, ...] = ()

    def needs(self, interval: Interval) -> Interval:
        """Elements that any of them reads."""
        return hull(part.needs(interval) for part in self.parts)


@dataclass(frozen=True, eq=False, kw_only=True)
class TransposedConvolution(Layer):
    """Convolutions that write one image, at positions that interleave.

    Attributes:
        parts: the convolutions.
    """

    parts: tuple[Convolution, ...]

    streams: ClassVar[bool] = True
    strips: ClassVar[bool] = True

    def windows(self, index: int) -> Windows:
        """The hull of the windows of all phases."""
        return (
            Together(parts=tuple(part.rows for part in self.parts)),
            Together(parts=tuple(part.columns for part in self.parts)),
        )

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Those of the convolution that takes most."""
        return max(part.staging_rows(tensors) for part in self.parts)

    def streaming_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Those of the convolution that takes most."""
        return max(part.streaming_rows(tensors) for part in self.parts)

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Those of all convolutions, each of which computes some of the positions."""
        height, width = area
        return sum(
            part.cycles((-(-height // part.rows.phases), -(-width // part.columns.phases)), groups)
            for part in self.parts
        )

    def emit(self, context: Context) -> None:
        """The convolutions one after the other, each with its blocks of the weights."""
        items = iter(self.weights)
        for index, part in enumerate(self.parts):
            if index:
                context.builder.barrier()
            context.builder.room(_MOST_BUNDLES)
            own: list[Weights] = []
            while sum(item.blocks for item in own) < part.layout.blocks:
                own.append(next(items))
            replace(part, weights=tuple(own)).emit(context)


@dataclass(frozen=True, slots=True)
class _Phase:
    """Results along an axis that the same taps make.

    Attributes:
        taps: the taps, in the order of the elements that they meet; none if no tap meets any.
        window: elements that the results read.
    """

    taps: tuple[int, ...]
    window: Window

    @classmethod
    def of(cls, number: int, kernel: int, stride: int, cut: int) -> _Phase:
        """Results at `number` and at distances of `stride` from there.

        Element i and tap k add to the result at ``i * stride + k - cut``.
        """
        last, first = divmod(number + cut, stride)
        taps = tuple(range(first, kernel, stride))[::-1]
        count = max(1, len(taps))
        return cls(taps, Window(count, before=count - 1 - last, phases=stride, phase=number))


def _phases(extent: int, kernel: int, stride: int, cut: int) -> Iterator[_Phase]:
    """All phases of an axis that have results."""
    for number in range(min(stride, extent)):
        yield _Phase.of(number, kernel, stride, cut)


def _taken(call: Call, down: _Phase, across: _Phase) -> Array:
    """Weights of a phase down and across; zeros if no tap meets any element."""
    weights = call.operand(1)
    if weights.data is None or weights.type.quantization is None:
        raise UnsupportedError(f"{call.node.name!r} has weights that are not constant")
    if down.taps and across.taps:
        return np.ascontiguousarray(weights.data[:, down.taps][:, :, across.taps])
    zeros = np.asarray(weights.type.quantization.zero_point, weights.data.dtype)
    channels, _, _, depth = weights.type.shape
    shape = (channels, down.window.kernel, across.window.kernel, depth)
    return np.ascontiguousarray(np.broadcast_to(zeros.reshape(-1, 1, 1, 1), shape))


@legalizes("transpose_conv")
def _transposed_convolution(legalizer: Legalizer, call: Call) -> None:
    attributes, (_, height, width, _) = call.attributes(TransposeConvAttributes), call.type(1).shape
    top, _, left, _ = attributes.padding
    source, result = image_operand(legalizer, call), call.node.outputs[0]
    parts = []
    for down, across in product(
        _phases(attributes.output[0], height, attributes.stride[0], top),
        _phases(attributes.output[1], width, attributes.stride[1], left),
    ):
        name = f"{call.node.name}/{down.window.phase}/{across.window.phase}"
        own, part = as_convolution(
            legalizer, call, name, _taken(call, down, across), attributes.activation
        )
        window = down.window, across.window
        parts.append(convolution_of(own, part, source, result, window))
    legalizer.layers.append(
        TransposedConvolution(
            name=call.node.name,
            reads=(source,),
            writes=result,
            weights=tuple(item for part in parts for item in part.weights),
            parts=tuple(parts),
        )
    )
