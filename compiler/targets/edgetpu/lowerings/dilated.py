"""Convolutions whose kernels reach far: of each row of the kernel, only what hits the image.

A tile needs the elements that its results read, and those between them. A kernel of three with a
dilation of 12 reaches over 25 rows, most of which nothing reads, and the rest of which is padding
where images are small. So images are put side by side in channels, shifted as the elements of the
kernel say, and a convolution of one pixel adds them up. Rows of the result that padding hides the
same rows of the kernel from are computed together, without these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from fitzroy.compiler.ops.convolution import ConvAttributes, conv_attributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import ConcatenationAttributes, PadAttributes
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes_first
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.lowerings.as_convolution import windows_of
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    ROWS,
    Image,
    Interval,
    Window,
)

_SHARE = 4
"""Shifted images are joined all at once if what they become takes one of so many parts of narrow
memory at most: they take as much again, and what they are cut from more than that."""


@dataclass(frozen=True)
class Band:
    """Results along an axis that the same elements of a kernel reach.

    Attributes:
        results: their numbers.
        taps: the elements of the kernel that are inside of the image for any of them.
    """

    results: Interval
    taps: tuple[int, ...]


def bands(window: Window, extent: int, count: int) -> list[Band]:
    """The bands of an axis, in order.

    Args:
        window: what the convolution reads; its stride is one.
        extent: elements of the image.
        count: results.
    """

    def taps(result: int) -> tuple[int, ...]:
        first = result - window.before
        return tuple(
            tap for tap in range(window.kernel) if 0 <= first + tap * window.dilation < extent
        )

    found = []
    for reached, results in groupby(range(count), taps):
        numbers = list(results)
        found.append(Band((numbers[0], numbers[-1] + 1), reached))
    return found


@legalizes_first
def dilated(legalizer: Legalizer, call: Call) -> bool:
    """Legalize a convolution as one of pixels, if its kernel reaches too far otherwise.

    Returns:
        Whether it did.
    """
    if call.node.op != "conv_2d" or not _reaches_far(legalizer, call):
        return False
    rewriting = Rewriting.of(legalizer, call)
    shifts = _Shifts.of(call, legalizer.options.narrow_bytes)
    _, down, _, _ = call.result.type.shape
    rows = bands(shifts.rows, call.type(0).shape[1], down)
    if not all(band.taps for band in rows):
        # Nothing but padding is in reach of some rows.
        return False
    parts = [
        shifts.emit(rewriting, band, call.result.name if len(rows) == 1 else "") for band in rows
    ]
    if len(parts) > 1:
        attributes = ConcatenationAttributes(1)
        rewriting.emit(
            "concatenation", parts, call.result.type, attributes, result=call.result.name
        )
    rewriting.run(legalizer)
    return True


def _reaches_far(legalizer: Legalizer, call: Call) -> bool:
    """Whether padding hides all but one element of a kernel, or tiles have no room otherwise.

    They need what they read, and what lies between.
    """
    a, shape, filters = conv_attributes(call), call.type(0).shape, call.operand(1)
    if max(a.dilation) == 1 or a.stride != (1, 1) or filters.data is None or shape[0] != 1:
        return False
    padding = legalizer.padding_of(call.node.inputs[0] or "")
    if filters.type.shape[3] != shape[3] or padding != (0, 0):
        return False
    size = shape[3]
    counts = call.result.type.shape[1:3]
    windows = windows_of(call, (filters.type.shape[1], filters.type.shape[2]))
    found = [bands(*axis) for axis in zip(windows, shape[1:3], counts, strict=True)]
    if all(len(axis) == 1 and len(axis[0].taps) == 1 for axis in found):
        return True
    for window, count, tiles in zip(windows, counts, (ROWS, COLUMNS), strict=True):
        first, end = window.needs((0, -(-count // tiles)))
        size *= end - first
    return size > legalizer.options.narrow_bytes


@dataclass(frozen=True)
class _Shifts:
    """Shifted images of a convolution.

    Attributes:
        call: the convolution.
        rows: what it reads along rows.
        columns: what it reads along columns.
        narrow_bytes: bytes of narrow memory of every tile.
    """

    call: Call
    rows: Window
    columns: Window
    narrow_bytes: int

    @classmethod
    def of(cls, call: Call, narrow_bytes: int) -> _Shifts:
        """Those of a convolution."""
        _, height, width, _ = call.operand(1).type.shape
        return cls(call, *windows_of(call, (height, width)), narrow_bytes)

    def emit(self, rewriting: Rewriting, band: Band, result: str) -> str:
        """Append the convolution of a band of rows.

        Args:
            rewriting: gets it.
            band: the rows.
            result: the result of the replaced node, if it has no other rows.
        """
        call, type = self.call, self.call.result.type
        begin, end = band.results
        taps, images = list[tuple[int, int]](), list[str]()
        for row in band.taps:
            top = begin + row * self.rows.dilation - self.rows.before
            part = rewriting.slice(call.node.inputs[0] or "", 1, top, end - begin)
            across = list(self._across(rewriting, part))
            taps += [(row, column) for column, _ in across]
            some = [image for _, image in across]
            # The part may be much larger than they are. Once they are joined, it makes room.
            images += [self._joined(rewriting, some)] if self._crowded(band) else some
        joined = self._joined(rewriting, images)
        after = replace(type, shape=(1, end - begin, *type.shape[2:]))
        operands = [joined, self._filters(rewriting, taps), *call.node.inputs[2:]]
        a = ConvAttributes(activation=conv_attributes(call).activation)
        return rewriting.emit("conv_2d", operands, after, a, result=result)

    def _crowded(self, band: Band) -> bool:
        """Whether what the shifted images of a band become leaves little room for anything else."""
        begin, end = band.results
        width, taps = self.call.result.type.shape[2], len(band.taps) * self.columns.kernel
        shape = (1, end - begin, width, self.call.type(0).shape[3] * taps)
        return Image.of("", shape).nbytes * _SHARE > self.narrow_bytes

    def _joined(self, rewriting: Rewriting, images: Sequence[str]) -> str:
        """Images side by side in channels."""
        if len(images) == 1:
            return images[0]
        types = [rewriting.graph.type(name) for name in images]
        channels = sum(type.shape[3] for type in types)
        wide = replace(types[0], shape=(*types[0].shape[:3], channels))
        return rewriting.emit("concatenation", images, wide, ConcatenationAttributes(3))

    def _across(self, rewriting: Rewriting, part: str) -> Iterator[tuple[int, str]]:
        """The elements of the kernel that reach into rows, and those rows as far as each reads."""
        type = rewriting.graph.type(part)
        extent, count = type.shape[2], self.call.result.type.shape[2]
        for column in range(self.columns.kernel):
            shift = column * self.columns.dilation - self.columns.before
            low, high = max(0, -shift), min(count, extent - shift)
            if low >= high:
                continue
            image = part
            if (low + shift, high - low) != (0, extent):
                image = rewriting.slice(part, 2, low + shift, high - low)
            if high - low < count:
                pad = PadAttributes((0, 0, low, 0), (0, 0, count - high, 0))
                shape = (*type.shape[:2], count, type.shape[3])
                image = rewriting.emit("pad", [image], replace(type, shape=shape), pad)
            yield column, image

    def _filters(self, rewriting: Rewriting, taps: list[tuple[int, int]]) -> str:
        """The weights of some elements of the kernel, one after another in channels."""
        operand = self.call.operand(1)
        assert operand.data is not None
        weights = np.concatenate([operand.data[:, row, column] for row, column in taps], axis=1)
        return rewriting.graph.add_constant(
            f"{self.call.node.name}/taps", weights[:, None, None, :], operand.type.quantization
        )
