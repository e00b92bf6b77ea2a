"""Several images in a tensor: each is computed by itself, and the tensor is a view of them.

A tensor of several images has no place of its own. As an input it is one image with the rows of
all, which are taken apart when an operator needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Attributes, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.targets.edgetpu.layers.legalize import (
    Legalizer,
    legalizes_first,
    rows_of_images,
    several,
)
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.layers.sharing import sharing_weights
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Run, Section
from fitzroy.compiler.targets.edgetpu.reshaping.row_operators import apply_to_rows
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import assemble, keeps_bytes, temporary
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector
from fitzroy.compiler.targets.edgetpu.reshaping.views import apply_to_parts

_AS_A_WHOLE = frozenset(
    ["reshape", "transpose", "pack", "unpack", "fully_connected", "batch_matmul", "softmax"]
)
"""Operators whose rules take tensors of any shape."""


@legalizes_first
def by_parts(legalizer: Legalizer, call: Call) -> bool:
    """Legalize an operator part by part if its operand is a view, or has several images.

    Returns:
        Whether it did; otherwise the rule of the operator applies.

    Raises:
        UnsupportedError: there are several images, and it cannot be computed image by image.
    """
    return (
        apply_to_parts(legalizer, call)
        or apply_to_rows(legalizer, call)
        or _by_images(legalizer, call)
    )


def _by_images(legalizer: Legalizer, call: Call) -> bool:
    """Legalize an operator of several images for each of them; whether it is one.

    Raises:
        UnsupportedError: it is, and cannot be computed image by image.
    """
    values = (call.operand(index) for index in _operands_of_images(call))
    if call.node.op in _AS_A_WHOLE or not any(several(value.type) for value in values):
        return False
    attributes = call.node.attributes
    if isinstance(attributes, ConcatenationAttributes) and not attributes.axis:
        return False
    if isinstance(attributes, ReductionAttributes) and 0 in attributes.axes:
        return False
    if isinstance(attributes, SplitAttributes):
        _divided(legalizer, call, attributes)
    elif isinstance(attributes, StridedSliceAttributes):
        _sliced(legalizer, call, attributes)
    else:
        _each(legalizer, call, attributes)
    return True


def _operands_of_images(call: Call) -> range:
    """Numbers of the operands that have an image for each one of the result; filters do not."""
    every = OPS[call.node.op].elementwise or call.node.op == "concatenation"
    return range(len(call.inputs) if every else 1)


def _each(legalizer: Legalizer, call: Call, attributes: Attributes) -> None:
    """Legalize the operator image by image; the result is a view of what that makes."""
    after, images = call.result.type, _operands_of_images(call)
    count = max(call.type(index).shape[0] for index in images if several(call.type(index)))
    if len(call.outputs) > 1 or after.shape[:1] != (count,):
        raise UnsupportedError(
            f"{call.node.spelled} {call.node.name!r} makes {list(after.shape)} of {count} images",
            hint="give the model a batch of one",
        )
    rewriting, single = Rewriting.of(legalizer, call), replace(after, shape=(1, *after.shape[1:]))
    parts = [
        rewriting.emit(
            call.node.op,
            [
                _image(rewriting, value, number) if index in images else name
                for index, (name, value) in enumerate(
                    zip(call.node.inputs, call.inputs, strict=True)
                )
            ],
            single,
            attributes,
        )
        for number in range(count)
    ]
    rewriting.emit(
        "concatenation", parts, after, ConcatenationAttributes(0), result=call.result.name
    )
    first = len(legalizer.layers)
    rewriting.run(legalizer)
    legalizer.layers[first:] = sharing_weights(legalizer.layers[first:], Convolution)


def _image(rewriting: Rewriting, value: Value | None, number: int) -> str | None:
    """An image of an operand; operands that are the same for all of them are as they are."""
    if value is None or not several(value.type):
        return None if value is None else value.name
    if value.data is None:
        return rewriting.slice(value.name, 0, number, 1)
    data = value.data[number : number + 1]
    return rewriting.graph.add_constant(value.name, data, value.type.quantization)


def _divided(legalizer: Legalizer, call: Call, attributes: SplitAttributes) -> None:
    """The parts of a split as slices."""
    rewriting, begin = Rewriting.of(legalizer, call), 0
    for value, size in zip(call.outputs, attributes.sizes, strict=True):
        shape = value.type.shape
        starts = tuple(begin if axis == attributes.axis else 0 for axis in range(len(shape)))
        taken = StridedSliceAttributes(starts, shape, (1,) * len(shape))
        names = [call.node.inputs[0]]
        rewriting.emit("strided_slice", names, value.type, taken, result=value.name)
        begin += size
    rewriting.run(legalizer)


def _sliced(legalizer: Legalizer, call: Call, attributes: StridedSliceAttributes) -> None:
    """Some of the images, or a part of each of them."""
    before, after, source = call.type(), call.result.type, call.node.inputs[0] or ""
    begin, stride = attributes.begin, attributes.stride
    if before.shape[1:] == after.shape[1:] and set(stride[1:]) <= {1}:
        if not keeps_bytes(before, after):
            raise UnsupportedError(f"{call.node.name!r} changes the quantization")
        images = images_of(legalizer, source, before)
        chosen = images[begin[0] :: stride[0]][: after.shape[0]]
        if len(chosen) == 1:
            legalizer.aliases[call.result.name] = chosen[0]
        else:
            legalizer.views[call.result.name] = tuple(chosen)
        return
    if (begin[0], after.shape[0], stride[0]) == (0, before.shape[0], 1):
        own = replace(attributes, size=(1, *attributes.size[1:]))
        _each(legalizer, call, own)
        return
    rewriting, shape = Rewriting.of(legalizer, call), (after.shape[0], *before.shape[1:])
    some = StridedSliceAttributes((begin[0], 0, 0, 0), shape, (stride[0], 1, 1, 1))
    name = rewriting.emit("strided_slice", [source], replace(before, shape=shape), some)
    rest = StridedSliceAttributes((0, *begin[1:]), after.shape, (1, *stride[1:]))
    rewriting.emit("strided_slice", [name], after, rest, result=call.result.name)
    rewriting.run(legalizer)


def images_of(legalizer: Legalizer, name: str, type: TensorType) -> Sequence[str]:
    """Places of the images of a tensor; they are taken apart if they are none yet.

    Args:
        legalizer: the graph.
        name: the tensor.
        type: its type.
    """
    count, height, width, channels = type.shape
    single, parts = replace(type, shape=(1, height, width, channels)), legalizer.parts(name)
    if len(parts) == count and all(_lies_as(legalizer, part, single) for part in parts):
        return parts
    tall = replace(type, shape=rows_of_images(type))
    if len(parts) != 1 or not _lies_as(legalizer, parts[0], tall):
        together = temporary(legalizer, f"{name}.rows", tall)
        legalizer.views[together] = parts
        parts = (legalizer.place(together),)
    found = []
    for number in range(count):
        image = temporary(legalizer, f"{name}.image", single)
        section = Section(Run(height, source=height * number), Run(width), channels)
        assemble(legalizer, image, image, single, [(parts[0], section)])
        found.append(image)
    legalizer.views[name] = tuple(found)
    return found


def _lies_as(legalizer: Legalizer, place: str, type: TensorType) -> bool:
    """Whether a place is an image of a type."""
    return not is_vector(legalizer, place) and legalizer.type(place).shape == type.shape
