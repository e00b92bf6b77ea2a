"""Means, sums and extrema over any axes, as operators of an image.

Rows and columns are reduced by windows of their extent; channels by a convolution with weights of
one, or by halving them. Tensors of other shapes become images first: neighbouring axes that are all
reduced, or all kept, are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Quantization, TensorType
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting, ones
from fitzroy.compiler.targets.edgetpu.lowerings.folded_axes import images_of
from fitzroy.compiler.targets.edgetpu.lowerings.global_pool import (
    gathered_bytes,
    global_average,
)
from fitzroy.compiler.targets.edgetpu.memory.allocation import NARROW_BYTES
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD, grid, round_up
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    OutputStage,
    mean_stage,
    sum_stage,
)
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import keeps_bytes

_ROWS, _COLUMNS, _CHANNELS = 1, 2, 3

Shape = tuple[int, ...]


def as_image(shape: Shape, axes: Sequence[int]) -> tuple[Shape, frozenset[int]]:
    """The shape of one image in which some axes of a tensor can be reduced, and its axes for them.

    Raises:
        UnsupportedError: there is none.
    """
    wanted = {axis % len(shape) for axis in axes}
    if len(shape) == IMAGE_RANK and (shape[0] == 1 or 0 not in wanted):
        # Of several images, each is reduced by itself.
        return (1, *shape[1:]), frozenset(axis for axis in wanted if shape[axis] > 1)
    groups = [
        (is_reduced, math.prod(shape[axis] for axis in some))
        for is_reduced, some in groupby(
            (axis for axis in range(len(shape)) if shape[axis] > 1), lambda axis: axis in wanted
        )
    ]
    extents = tuple(extent for _, extent in groups)
    match [is_reduced for is_reduced, _ in groups]:
        case [] | [False]:
            return (1, 1, 1, math.prod(shape)), frozenset()
        case [True]:
            return (1, 1, 1, *extents), frozenset({_CHANNELS})
        case [False, True]:
            return (1, *grid(extents[0]), extents[1]), frozenset({_CHANNELS})
        case [True, False]:
            return (1, *grid(extents[0]), extents[1]), frozenset({_ROWS, _COLUMNS})
        case [False, True, False]:
            return (1, *extents), frozenset({_COLUMNS})
        case [True, False, True]:
            return (1, *extents), frozenset({_ROWS, _CHANNELS})
    raise UnsupportedError(
        f"a reduction of {list(shape)} over the axes {sorted(wanted)} has {len(groups)} groups of "
        "axes that are reduced, or kept, in turns; an image has 3",
        hint="reduce axes that are next to each other",
    )


def _over_images(call: Call) -> bool:
    """Whether the rows and columns of images are reduced."""
    axes = set(call.attributes(ReductionAttributes).axes)
    return len(call.type().shape) == IMAGE_RANK and axes == {_ROWS, _COLUMNS}


def stage_of(call: Call) -> OutputStage | None:
    """The output stage of a mean or a sum: how its exact sums are scaled.

    None if it is a change of the quantization, because its axes have one element.

    Raises:
        UnsupportedError: it cannot be mapped.
    """
    before, after = call.type(), call.result.type
    axes = call.attributes(ReductionAttributes).axes
    count = math.prod(before.shape[axis] for axis in axes)
    _, reduced = as_image(before.shape, axes)
    if not (reduced or _over_images(call)):
        return None
    if call.node.op == "sum":
        return sum_stage(before, after, 1.0)
    if _CHANNELS in reduced:
        return sum_stage(before, after, _share(count))
    return mean_stage(before, after, count)


def _share(count: int) -> float:
    """Scale of the weights of a mean."""
    return float(np.float32(1) / np.float32(count))


def _image(rewriting: Rewriting) -> tuple[str, frozenset[int]]:
    """The operand of a reduction as an image, and the axes that are reduced.

    Raises:
        UnsupportedError: it cannot be one.
    """
    call = rewriting.call
    shape, axes = as_image(call.type().shape, call.attributes(ReductionAttributes).axes)
    return rewriting.reshape(call.node.inputs[0] or "", shape), axes


def _left(shape: Shape, axes: frozenset[int]) -> Shape:
    """Shape of an image without some axes, which keep one element."""
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))


def _ended(rewriting: Rewriting, legalizer: Legalizer, name: str) -> None:
    """Give the result its shape, and run the nodes."""
    result = rewriting.call.result
    if not keeps_bytes(rewriting.graph.type(name), result.type):
        type = replace(result.type, shape=rewriting.graph.type(name).shape)
        name = rewriting.emit("quantize", [name], type)
    rewriting.reshape(name, result.type.shape, result=result.name)
    rewriting.run(legalizer)


# --- means and sums ------------------------------------------------------------------------------


@legalizes("mean")
@legalizes("sum")
def _sum(legalizer: Legalizer, call: Call) -> None:
    if _over_images(call):
        _of_image(legalizer, call)
        return
    rewriting = Rewriting.of(legalizer, call)
    image = _of_groups(legalizer, call)
    if image is not None:
        _groups_summed(rewriting, legalizer, image)
        return
    name, axes = _image(rewriting)
    shape = rewriting.graph.type(name).shape
    after = replace(call.result.type, shape=_left(shape, axes))
    if not axes:
        _ended(rewriting, legalizer, name)
        return
    kernel = tuple(shape[axis] if axis in axes else 1 for axis in (_ROWS, _COLUMNS))
    window = kernel[0], kernel[1]
    if _CHANNELS in axes:
        weights = ones((1, *window, shape[-1]), call.type())
        scale = 1.0 if call.node.op == "sum" else _share(math.prod(shape[axis] for axis in axes))
        names = [name, rewriting.constant(weights, scale)]
        name = rewriting.emit("conv_2d", names, after, ConvAttributes())
    elif axes == {_ROWS, _COLUMNS}:
        kept = ReductionAttributes((_ROWS, _COLUMNS), keep_dims=True)
        name = rewriting.emit(call.node.op, [name], after, kept)
    else:
        name = _windows_summed(rewriting, name, after, window, (1, 1))
    _ended(rewriting, legalizer, name)


def _windows_summed(
    rewriting: Rewriting,
    name: str,
    after: TensorType,
    window: tuple[int, int],
    stride: tuple[int, int],
) -> str:
    """The sums, or means, of windows of an image, channel by channel."""
    if rewriting.call.node.op == "mean":
        return rewriting.emit("average_pool_2d", [name], after, PoolAttributes(window, stride))
    weights = ones((1, *window, after.shape[-1]), rewriting.call.type())
    names = [name, rewriting.constant(weights, 1.0)]
    return rewriting.emit("depthwise_conv_2d", names, after, ConvAttributes(stride))


def _of_groups(legalizer: Legalizer, call: Call) -> Shape | None:
    """The image [1,H,W,C] of which groups of channels [G,C/G] are reduced to one; None if not so.

    Groups that are weighted and added, as by split attention, are channels of one convolution.
    """
    shape, axes = as_image(call.type().shape, call.attributes(ReductionAttributes).axes)
    groups, channels = shape[_COLUMNS:]
    if axes != {_COLUMNS} or channels % WORD:
        return None
    for image in images_of(legalizer, call.operand(0)):
        if image[:1] == (1,) and len(image) == IMAGE_RANK and image[-1] == groups * channels:
            return image if math.prod(image) == call.type().size else None
    return None


def _groups_summed(rewriting: Rewriting, legalizer: Legalizer, image: Shape) -> None:
    """A mean, or a sum, of groups of channels: they become columns next to each other."""
    call, (_, height, width, _) = rewriting.call, image
    shape, _ = as_image(call.type().shape, call.attributes(ReductionAttributes).axes)
    groups, channels = shape[_COLUMNS:]
    name = rewriting.reshape(call.node.inputs[0] or "", image)
    name = rewriting.reshape(name, (1, height, width * groups, channels))
    after = replace(call.result.type, shape=(1, height, width, channels))
    name = _windows_summed(rewriting, name, after, (1, groups), (1, groups))
    _ended(rewriting, legalizer, name)


@requires("mean", "sum")
def _values(call: Call) -> Iterator[Reject]:
    """All values of a channel are summed at a time, on one tile."""
    if _over_images(call):
        _, height, width, _ = call.type().shape
        nbytes = gathered_bytes(height, width)
        if nbytes > NARROW_BYTES:
            what = f"of {height} x {width} values takes {nbytes} bytes of a tile, which has"
            yield refused(call, f"{what} {NARROW_BYTES}")


def _of_image(legalizer: Legalizer, call: Call) -> None:
    """A mean, or a sum, over the rows and columns of one image."""
    stage = stage_of(call)
    assert stage is not None
    global_average(legalizer, call, stage)


# --- extrema -------------------------------------------------------------------------------------


@legalizes("reduce_max")
def _maximum(legalizer: Legalizer, call: Call) -> None:
    rewriting = Rewriting.of(legalizer, call)
    name, axes = _image(rewriting)
    _ended(rewriting, legalizer, _largest(rewriting, name, axes))


@legalizes("reduce_min")
def _minimum(legalizer: Legalizer, call: Call) -> None:
    """The largest of the complements of what is stored, and its complement."""
    rewriting = Rewriting.of(legalizer, call)
    name, axes = _image(rewriting)
    turned = rewriting.emit("negate", [name], _complement(rewriting.graph.type(name)))
    largest = _largest(rewriting, turned, axes)
    back = _complement(rewriting.graph.type(largest))
    _ended(rewriting, legalizer, rewriting.emit("negate", [largest], back))


def _complement(type: TensorType) -> TensorType:
    """The type in which the negative of a value is stored as the complement of its byte."""
    assert type.quantization is not None
    (scale,), (zero,) = type.quantization.scale, type.quantization.zero_point
    low, high = type.dtype.limits
    return replace(type, quantization=Quantization.per_tensor(scale, int(low + high - zero)))


def _largest(rewriting: Rewriting, name: str, axes: frozenset[int]) -> str:
    """The largest elements of an image over some axes, which keep one element."""
    for axis in (_COLUMNS, _ROWS):
        type = rewriting.graph.type(name)
        if axis in axes:
            after = replace(type, shape=_left(type.shape, frozenset({axis})))
            kernel = (type.shape[_ROWS], 1) if axis == _ROWS else (1, type.shape[_COLUMNS])
            name = rewriting.emit("max_pool_2d", [name], after, PoolAttributes(kernel))
    while _CHANNELS in axes and rewriting.graph.type(name).shape[_CHANNELS] > 1:
        name = _halved(rewriting, name)
    return name


def _halved(rewriting: Rewriting, name: str) -> str:
    """The larger ones of the first and the last channels; those in the middle count twice."""
    type = rewriting.graph.type(name)
    channels = type.shape[_CHANNELS]
    half = -(-channels // 2)
    if half > WORD:
        half = min(round_up(half, WORD), channels - 1)
    first, last = (rewriting.slice(name, _CHANNELS, begin, half) for begin in (0, channels - half))
    after = replace(type, shape=(*type.shape[:_CHANNELS], half))
    return rewriting.emit("maximum", [first, last], after)
