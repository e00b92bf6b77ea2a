"""Rules of operators that move elements, or change their quantization."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Node
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    BlockAttributes,
    ConcatenationAttributes,
    PadAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.ops.windows import explicit_padding
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.matrices import (
    Pointwise,
    VectorPointwise,
)
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    SIGNED_OFFSET,
    OutputStage,
    copy_stage,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.reshaping.channels import FILL, picked
from fitzroy.compiler.targets.edgetpu.reshaping.elements import distances, take_elements
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Assembly, Run, Section, runs
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import ToVector, as_image_of
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector
from fitzroy.hw_models.numerics import quantized_range, resize_nearest

MOST_JOINED = 1 << 14
"""Elements of a vector that parts of others are put together to, all on one tile."""

_MOST_SECTIONS = 64
"""Sections of an image; each is a tensor operation for every kind of tile."""


def keeps_bytes(before: TensorType, after: TensorType) -> bool:
    """Whether stored values are the same bytes on the chip, where all are unsigned."""
    return (
        before.quantization is not None
        and after.quantization is not None
        and before.quantization.scale == after.quantization.scale
        and unsigned_zero_point(before) == unsigned_zero_point(after)
    )


def changes_bytes(call: Call, advice: str) -> Iterator[Reject]:
    """Results whose stored values are other bytes than those of the first operand.

    Values that the chip does not store at all have a reason already.

    Args:
        call: an operator that moves elements.
        advice: what to do about it.
    """
    stored = [value for value in call.outputs if value.type.is_eight_bit]
    for value in stored if call.type().is_eight_bit else ():
        if not keeps_bytes(call.type(), value.type):
            yield refused(call, f"changes the quantization to {value.type}", advice)


def image_shape(legalizer: Legalizer, name: str) -> tuple[int, int, int]:
    """Rows, columns and channels of a value that lies as an image.

    Raises:
        UnsupportedError: it does not.
    """
    shape = legalizer.type(name).shape
    if is_vector(legalizer, name):
        raise UnsupportedError(
            f"{name!r} of shape {list(shape)} lies in blocks of channels, not as an image"
        )
    if len(shape) != 4 or shape[0] != 1:
        raise UnsupportedError(f"{name!r} has shape {list(shape)}, not that of one image")
    return shape[1], shape[2], shape[3]


def result_image(call: Call, index: int = 0) -> tuple[int, int, int]:
    """Rows, columns and channels of a result.

    Raises:
        UnsupportedError: it is not one image.
    """
    shape = call.outputs[index].type.shape
    if len(shape) != 4 or shape[0] != 1:
        raise UnsupportedError(f"{call.node.name!r} has a result of shape {list(shape)}")
    return shape[1], shape[2], shape[3]


def pointwise(
    legalizer: Legalizer, name: str, source: str, result: str, stage: OutputStage, **more: Any
) -> None:
    """Add a layer for every element by itself, of an image or a vector.

    Args:
        legalizer: the graph.
        name: name of the layer.
        source: place of the operand.
        result: what the layer writes.
        stage: constants of the output stage.
        more: further attributes of `Pointwise`.
    """
    kind = VectorPointwise if is_vector(legalizer, source) else Pointwise
    if kind is Pointwise:
        image_shape(legalizer, source)
    legalizer.layers.append(kind(name=name, reads=(source,), writes=result, stage=stage, **more))


def temporary(legalizer: Legalizer, stem: str, type: TensorType) -> str:
    """A name for a value that no node of the graph makes."""
    name = unused_name(stem, legalizer.graph.values, legalizer.types)
    legalizer.types[name] = type
    return name


def assemble(
    legalizer: Legalizer,
    name: str,
    result: str,
    after: TensorType,
    parts: Sequence[tuple[str, Section]],
    fill: int | None = None,
) -> None:
    """Add a layer that makes an image of parts of others, each with its own quantization.

    Parts that share words with others are requantized beforehand.
    """
    if len(parts) > _MOST_SECTIONS:
        raise UnsupportedError(
            f"{name!r} would be made of {len(parts)} parts: at most {_MOST_SECTIONS}"
        )
    reads, sections = [], []
    converted: dict[str, str] = {}
    whole = all(section.target % WORD == 0 for _, section in parts)
    for source, section in parts:
        image_shape(legalizer, source)
        before = legalizer.type(source)
        if keeps_bytes(before, after):
            reads.append(source)
            sections.append(section)
        elif whole:
            reads.append(source)
            sections.append(replace(section, stage=copy_stage(before, after)))
        else:
            if source not in converted:
                type = replace(after, shape=before.shape)
                converted[source] = temporary(legalizer, f"{name}.operand", type)
                pointwise(
                    legalizer,
                    converted[source],
                    source,
                    converted[source],
                    copy_stage(before, after),
                )
            reads.append(converted[source])
            sections.append(section)
    legalizer.layers.append(
        Assembly(name=name, reads=tuple(reads), writes=result, sections=tuple(sections), fill=fill)
    )


def pixel(legalizer: Legalizer, name: str) -> str:
    """A value as an image of one pixel; vectors are copied to one."""
    if not is_vector(legalizer, name):
        return name
    shape = (1, 1, 1, legalizer.type(name).size)
    return as_image_of(legalizer, legalizer.place(name), shape, f"{name}.image")


def as_image(legalizer: Legalizer, name: str) -> str:
    """The place of a value, as an image if it has the shape of one."""
    place = legalizer.place(name)
    return pixel(legalizer, place) if len(legalizer.type(place).shape) == 4 else place


def join(
    legalizer: Legalizer,
    name: str,
    result: str,
    after: TensorType,
    parts: Sequence[tuple[str, int, int]],
) -> None:
    """Parts of vectors, from an element on, make a result one after another."""
    if after.size > MOST_JOINED or any(
        legalizer.type(part).size > MOST_JOINED for part, _, _ in parts
    ):
        raise UnsupportedError(
            f"{name!r} moves vectors of more than {MOST_JOINED} elements, "
            "which one tile takes for that"
        )
    sections, target = [], 0
    for part, begin, count in parts:
        source = pixel(legalizer, part)
        height, width, _ = image_shape(legalizer, source)
        if (height, width) != (1, 1):
            raise UnsupportedError(
                f"{name!r} joins {part!r}, an image of {height} x {width}, to vectors",
                hint="reshape it to a vector",
            )
        sections.append((source, Section(Run(1), Run(1), count, target, begin)))
        target += count
    if len(after.shape) == 4:
        assemble(legalizer, name, result, after, sections)
        return
    type = replace(after, shape=(1, 1, 1, after.size))
    joined = temporary(legalizer, f"{result}.image", type)
    assemble(legalizer, joined, joined, type, sections)
    legalizer.layers.append(ToVector(name=result, reads=(joined,), writes=result))


@legalizes("quantize")
@legalizes("clamp")
@legalizes("copy")
def _conversion(legalizer: Legalizer, call: Call) -> None:
    source = legalizer.place(call.node.inputs[0] or "")
    result = call.node.outputs[0]
    clamps = isinstance(call.node.attributes, ClampAttributes)
    if not clamps and keeps_bytes(call.type(), call.result.type):
        legalizer.aliases[result] = source
        return
    bounds = (-math.inf, math.inf)
    if isinstance(call.node.attributes, ClampAttributes):
        bounds = (call.node.attributes.min, call.node.attributes.max)
    stage = copy_stage(call.type(), call.result.type, bounds)
    if keeps_bytes(call.type(), call.result.type):
        stage = replace(stage, scale=1.0)
    pointwise(legalizer, call.node.name, source, result, stage)


FOLDS_PADDING = frozenset(["conv_2d", "depthwise_conv_2d"])
"""Operators whose windows may reach further over the border for a padding in front of them."""


@requires("pad")
def _same_numbers(call: Call) -> Iterator[Reject]:
    """Elements of an image stay as they are."""
    amounts = call.attributes(PadAttributes)
    if len(amounts.before) != IMAGE_RANK:
        yield refused(call, f"adds a border to {call.type()}, which is no image")
    elif amounts.before[0] or amounts.after[0]:
        yield refused(call, "adds images", "give the model a batch of one")
    yield from changes_bytes(call, "requantize after it")


def _folds(
    legalizer: Legalizer, reader: Node, name: str, amounts: PadAttributes, stored: int
) -> bool:
    """Whether the windows of an operator may reach over the border instead of reading a padding.

    Args:
        legalizer: the graph.
        reader: an operator that reads the padded image.
        name: of the padded image.
        amounts: of padding.
        stored: the byte of the padding.
    """
    if reader.inputs.count(name) != 1:
        return False
    if reader.op in FOLDS_PADDING:
        return stored == unsigned_zero_point(legalizer.type(name))
    a = reader.attributes
    if reader.op != "max_pool_2d" or not isinstance(a, PoolAttributes) or stored:
        return False
    # The least byte never is a maximum, unless a window has nothing else.
    shape = legalizer.type(name).shape
    own = explicit_padding(a.padding, (shape[1], shape[2]), a.kernel, a.stride, (1, 1))
    added = zip(amounts.before[1:3], amounts.after[1:3], a.kernel, strict=True)
    return not any(own) and all(max(before, after) < size for before, after, size in added)


@legalizes("pad")
def _pad(legalizer: Legalizer, call: Call) -> None:
    node, before, after = call.node, call.type(), call.result.type
    source = pixel(legalizer, legalizer.place(node.inputs[0] or ""))
    result = node.outputs[0]
    height, width, channels = image_shape(legalizer, source)
    amounts = call.attributes(PadAttributes)
    top, left, front = amounts.before[1:]
    quantization = before.quantization
    assert quantization is not None, "a condition of all operators"
    stored = quantized_range(amounts.value, amounts.value, quantization, before.dtype)[0]
    stored += SIGNED_OFFSET if before.dtype is DType.INT8 else 0
    readers = legalizer.graph.consumers(result)
    if (
        not front + amounts.after[3]
        and result not in legalizer.graph.outputs
        and all(_folds(legalizer, reader, result, amounts, stored) for reader in readers)
    ):
        legalizer.aliases[result] = source
        legalizer.margins[result] = (top, left)
        return
    if front % WORD or (amounts.after[3] and channels % WORD):
        _between_words(legalizer, call, stored - unsigned_zero_point(before))
        return
    section = Section(Run(height, target=top), Run(width, target=left), channels, target=front)
    assemble(legalizer, node.name, result, after, [(source, section)], fill=stored)


def _between_words(legalizer: Legalizer, call: Call, fill: int) -> None:
    """Add channels where no word begins; rows and columns after them."""
    rewriting, after = Rewriting.of(legalizer, call), call.result.type
    amounts = call.attributes(PadAttributes)
    shape = call.type().shape
    order = [FILL] * amounts.before[3] + list(range(shape[-1])) + [FILL] * amounts.after[3]
    image = call.node.inputs[0] or ""
    wide = after.with_shape((*shape[:-1], len(order)))
    name = picked(rewriting, image, order, wide, fill)
    rest = PadAttributes((*amounts.before[:3], 0), (*amounts.after[:3], 0), amounts.value)
    if any(rest.before) or any(rest.after):
        rewriting.emit("pad", [name], after, rest, result=call.result.name)
    else:
        rewriting.reshape(name, after.shape, result=call.result.name)
    rewriting.run(legalizer)


def concatenate(legalizer: Legalizer, call: Call) -> None:
    """Images side by side, one below the other, or with their channels together."""
    axis = call.attributes(ConcatenationAttributes).axis
    height, width, channels = result_image(call)
    parts, offset = [], [0, 0, 0, 0]
    for index, name in enumerate(call.node.inputs):
        source = legalizer.place(name or "")
        if is_vector(legalizer, source):
            source = pixel(legalizer, source)
        height, width, channels = image_shape(legalizer, source)
        section = Section(
            Run(height, target=offset[1]), Run(width, target=offset[2]), channels, offset[3]
        )
        parts.append((source, section))
        offset[axis] += call.type(index).shape[axis]
    if axis == 0 and len(parts) > 1:
        raise UnsupportedError(f"{call.node.name!r} makes several images")
    assemble(legalizer, call.node.name, call.node.outputs[0], call.result.type, parts)


def _box(
    legalizer: Legalizer,
    call: Call,
    index: int,
    begin: Sequence[int],
    stride: Sequence[int],
) -> None:
    """Every stride-th element of a box becomes a result."""
    source, result = legalizer.place(call.node.inputs[0] or ""), call.node.outputs[index]
    before, after = legalizer.type(source), call.outputs[index].type
    if before.shape == after.shape and keeps_bytes(before, after) and set(stride) == {1}:
        legalizer.aliases[result] = source
        return
    if is_vector(legalizer, source):
        # Elements follow one another if dimensions within the one that is cut are whole.
        shape = call.type().shape
        cut = [axis for axis, size in enumerate(shape) if after.shape[axis] != size]
        if set(stride) != {1} or math.prod(after.shape[: max(cut, default=0)]) != 1:
            _single(legalizer, call, index, begin, stride)
            return
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        start = sum(first * step for first, step in zip(begin, strides, strict=True))
        name = f"{call.node.name}.{index}"
        join(legalizer, name, result, after, [(source, start, after.size)])
        return
    height, width, channels = result_image(call, index)
    image_shape(legalizer, source)
    if stride[3] != 1:
        _single(legalizer, call, index, begin, stride)
        return
    section = Section(
        Run(height, source=begin[1], stride=stride[1]),
        Run(width, source=begin[2], stride=stride[2]),
        channels,
        source=begin[3],
    )
    name = call.node.name if len(call.outputs) == 1 else f"{call.node.name}.{index}"
    assemble(legalizer, name, result, after, [(source, section)])


def _single(
    legalizer: Legalizer, call: Call, index: int, begin: Sequence[int], stride: Sequence[int]
) -> None:
    """Every stride-th element of a box, where elements are not next to each other."""
    source = legalizer.place(call.node.inputs[0] or "")
    result = call.outputs[index]
    if not keeps_bytes(legalizer.type(source), result.type):
        raise UnsupportedError(f"{call.node.name!r} changes the quantization of single elements")
    steps = distances(legalizer, source, call.type().shape)
    take_elements(
        legalizer,
        call.node.name,
        source,
        (result.name, result.type),
        sum(first * step for first, step in zip(begin, steps, strict=True)),
        [step * distance for step, distance in zip(steps, stride, strict=True)],
    )


def _channels_of_parts(
    legalizer: Legalizer, call: Call, index: int, begin: int, parts: Sequence[str]
) -> None:
    """Some channels of every pixel of several images become the parts of a result."""
    value, places = call.outputs[index], []
    channels = value.type.shape[-1]
    for number, part in enumerate(parts):
        height, width, _ = image_shape(legalizer, part)
        type = replace(value.type, shape=(1, height, width, channels))
        own = temporary(legalizer, f"{value.name}.{number}", type)
        section = Section(Run(height), Run(width), channels, source=begin)
        assemble(legalizer, own, own, type, [(part, section)])
        places.append(own)
    legalizer.views[value.name] = tuple(places)


def _images_of(legalizer: Legalizer, call: Call, channels: int) -> tuple[str, ...]:
    """The images whose pixels are an operand's runs of so many elements; none if there are none."""
    name = call.node.inputs[0] or ""
    parts = () if name in legalizer.aliases else legalizer.views.get(name, ())
    return parts if are_images(legalizer, parts, channels) else ()


def are_images(legalizer: Legalizer, places: Sequence[str], channels: int) -> bool:
    """Whether all of some places are images of so many channels."""
    return all(
        len(legalizer.type(place).shape) == IMAGE_RANK
        and not is_vector(legalizer, place)
        and legalizer.type(place).shape[-1] == channels
        for place in places
    )


def _boxes(
    legalizer: Legalizer, call: Call, begins: Sequence[Sequence[int]], stride: Sequence[int]
) -> None:
    """A result for each box of the operand.

    An operand of several images that is too large to lie in one place is cut image by image.

    Raises:
        UnsupportedError: neither can be.
    """
    *rows, channels = call.type().shape
    parts = _images_of(legalizer, call, channels)
    apart = set(stride) == {1} and all(
        value.type.shape[:-1] == tuple(rows) for value in call.outputs
    )
    whole = legalizer.split() if parts and apart else legalizer
    try:
        for index, begin in enumerate(begins):
            _box(whole, call, index, begin, stride)
    except UnsupportedError:
        if whole is legalizer:
            raise
        for index, begin in enumerate(begins):
            _channels_of_parts(legalizer, call, index, begin[-1], parts)
    else:
        legalizer.adopt(whole)


def split_begins(call: Call) -> list[list[int]]:
    """The first element of every result of a split, along each axis."""
    attributes, begins = call.attributes(SplitAttributes), [[0] * len(call.type().shape)]
    for size in attributes.sizes[:-1]:
        begins.append([*begins[-1]])
        begins[-1][attributes.axis] += size
    return begins


def _runs_of_rows(
    legalizer: Legalizer, call: Call, begins: Sequence[Sequence[int]], stride: Sequence[int]
) -> bool:
    """Cut an axis, if it and those after it are a row of elements in each pixel of an image.

    Queries, keys and values that are split from one product have axes for part, head and channel,
    which are the channels of the product.

    Returns:
        Whether it did.
    """
    shape, after = call.type().shape, call.result.type.shape
    cut = [axis for axis, size in enumerate(shape) if after[axis] != size]
    if len(cut) != 1 or set(stride) != {1}:
        return False
    (axis,) = cut
    each, row = math.prod(shape[axis + 1 :]), math.prod(shape[axis:])
    if each == 1 or not (len(shape) > IMAGE_RANK or _images_of(legalizer, call, row)):
        return False
    rewriting = Rewriting.of(legalizer, call)
    rows = rewriting.reshape(call.node.inputs[0] or "", (1, math.prod(shape[:axis]), row))
    for begin, value in zip(begins, call.outputs, strict=True):
        count = each * value.type.shape[axis]
        part = rewriting.slice(rows, 2, each * begin[axis], count)
        if not keeps_bytes(call.type(), value.type):
            type = value.type.with_shape(rewriting.graph.type(part).shape)
            part = rewriting.emit("quantize", [part], type)
        rewriting.reshape(part, value.type.shape, result=value.name)
    rewriting.run(legalizer)
    return True


@legalizes("split")
def _split(legalizer: Legalizer, call: Call) -> None:
    begins = split_begins(call)
    stride = [1] * len(begins[0])
    if not _runs_of_rows(legalizer, call, begins, stride):
        _boxes(legalizer, call, begins, stride)


def _rows_of_view(legalizer: Legalizer, call: Call) -> bool:
    """Cut rows, and channels, of a value [1,m,n,c] from the image that it is a view of.

    Rows of the value are several of the image.

    Returns:
        Whether it did.
    """
    a, before, after = call.attributes(StridedSliceAttributes), call.type(), call.result
    if len(before.shape) != IMAGE_RANK or before.shape[0] != 1 or set(a.stride) != {1}:
        return False
    parts = _images_of(legalizer, call, before.shape[-1])
    if len(parts) != 1:
        return False
    width = legalizer.type(parts[0]).shape[2]
    each, rest = divmod(before.shape[2], width)
    if rest or after.type.shape[2] != before.shape[2]:
        return False
    top, count = each * a.begin[1], each * after.type.shape[1]
    channels = after.type.shape[3]
    type = after.type.with_shape((1, count, width, channels))
    image = temporary(legalizer, f"{call.node.name}.rows", type)
    section = Section(Run(count, source=top), Run(width), channels, source=a.begin[3])
    assemble(legalizer, image, image, type, [(parts[0], section)])
    legalizer.views[after.name] = (image,)
    return True


@legalizes("strided_slice")
def _strided_slice(legalizer: Legalizer, call: Call) -> None:
    attributes = call.attributes(StridedSliceAttributes)
    begins = [attributes.begin]
    if _rows_of_view(legalizer, call) or _runs_of_rows(legalizer, call, begins, attributes.stride):
        return
    _boxes(legalizer, call, begins, attributes.stride)


@legalizes("resize_nearest_neighbor")
def _resize_nearest(legalizer: Legalizer, call: Call) -> None:
    source = as_image(legalizer, call.node.inputs[0] or "")
    height, width, channels = image_shape(legalizer, source)
    attributes = call.attributes(ResizeAttributes)
    numbers = np.arange(height * width).reshape(1, height, width, 1)
    chosen = resize_nearest(numbers, attributes.size, attributes.sampling)[0, :, :, 0]
    rows = runs((chosen[:, 0] // width).tolist())
    columns = runs((chosen[0] % width).tolist())
    name, result, after = call.node.name, call.node.outputs[0], call.result.type
    if len(rows) * len(columns) > _MOST_SECTIONS:
        # Rows first: there may be few sections along each axis.
        before = legalizer.type(source)
        type = replace(before, shape=(1, attributes.size[0], width, channels))
        tall = temporary(legalizer, f"{result}.rows", type)
        parts = [(source, Section(row, Run(width), channels)) for row in rows]
        assemble(legalizer, tall, tall, type, parts)
        source, rows = tall, [Run(attributes.size[0])]
    parts = [(source, Section(row, column, channels)) for row in rows for column in columns]
    assemble(legalizer, name, result, after, parts)


@legalizes("space_to_depth")
def _space_to_depth(legalizer: Legalizer, call: Call) -> None:
    source = as_image(legalizer, call.node.inputs[0] or "")
    height, width, channels = image_shape(legalizer, source)
    block = call.attributes(BlockAttributes).block
    parts = [
        (
            source,
            Section(
                Run(height // block, source=y, stride=block),
                Run(width // block, source=x, stride=block),
                channels,
                target=channels * (block * y + x),
            ),
        )
        for y in range(block)
        for x in range(block)
    ]
    assemble(legalizer, call.node.name, call.node.outputs[0], call.result.type, parts)


@legalizes("depth_to_space")
def _depth_to_space(legalizer: Legalizer, call: Call) -> None:
    source = as_image(legalizer, call.node.inputs[0] or "")
    height, width, channels = image_shape(legalizer, source)
    block = call.attributes(BlockAttributes).block
    channels //= block * block
    parts = [
        (
            source,
            Section(
                Run(height, target=y, step=block),
                Run(width, target=x, step=block),
                channels,
                source=channels * (block * y + x),
            ),
        )
        for y in range(block)
        for x in range(block)
    ]
    assemble(legalizer, call.node.name, call.node.outputs[0], call.result.type, parts)
