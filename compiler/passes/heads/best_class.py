"""The best class of boxes whose scores are an image: operators that find it.

Boxes of a cell that are side by side are reduced together, the scores of a class next to each
other, so that there are as many operators for several boxes as for one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.passes.heads.columns import Columns

LEVELS = 256
"""Scores that 8 bits tell apart, and classes."""

_SIGNED = 127
"""The largest weight of 8 bits."""

WORD = 4
"""Numbers of boxes that are reduced together are multiples, so that halves begin at words."""

_MOST_ELEMENTS = 1 << 20
"""Scores that are reduced together; more do not fit the memory of a chip next to what is made of
them."""


@dataclass(frozen=True)
class Group:
    """Scores of some boxes of every cell.

    Attributes:
        image: the scores [1,h,w,c*s], those of a class next to each other.
        stride: how many there are of a class, s.
        boxes: how many of them count; the others repeat the last.
    """

    image: str
    stride: int
    boxes: int


def groups(columns: Columns, image: str, boxes: int, background: int) -> Iterator[Group]:
    """The boxes of an image in groups that are reduced together.

    Args:
        columns: makes parts of values.
        image: scores [1,h,w,b*c], those of a box next to each other.
        boxes: boxes of a cell, b.
        background: how many of the first classes stand for no object.
    """
    _, height, width, channels = columns.graph.type(image).shape
    classes = channels // boxes
    wanted = classes - background
    most = _MOST_ELEMENTS // (height * width * wanted) // WORD * WORD
    together = boxes if boxes > 1 and most and columns.has_channels_apart(image) else 0
    if together > most and together % most <= WORD // 2:
        # A word of boxes that repeat the last takes longer than one or two, each by itself.
        together -= together % most
    for first in range(0, together, most or 1):
        count = min(most, together - first)
        stride = -(-count // WORD) * WORD
        chosen_boxes = first + np.minimum(np.arange(stride), count - 1)
        number = np.arange(background, classes)
        chosen = np.add.outer(number, chosen_boxes * classes).reshape(-1)
        yield Group(columns.picked(image, chosen), stride, count)
    for box in range(together, boxes):
        yield Group(columns.take(image, 3, box * classes + background, wanted), 1, 1)


def best_of(graph: Graph, group: Group) -> str:
    """The best score of every box [1,h,w,s]."""
    return largest(graph, group.image, group.stride, f"{group.image}.best")


def number_of(graph: Graph, group: Group, best: str) -> str:
    """The class of the best score of every box [1,h,w,s], as the highest integer less its number.

    The difference to the best score is 0 for the best and else one step or more below, which 8
    bits of a 255th of a step cannot tell from one. A code for each class, which falls from 0 with
    its number, is added: of the best that is its code, of others the lowest integer. With up to
    127 classes, a 127th of a step is enough to keep others below all codes.

    Codes of as many classes have the same scale, however many boxes are reduced together: those of
    all groups and levels are joined in one tensor.
    """
    classes = graph.type(group.image).shape[3] // group.stride
    coded = _coded_at_once if group.stride == 1 and classes <= _SIGNED else _coded
    return largest(graph, coded(graph, group, best), group.stride, f"{group.image}.class")


def _coded(graph: Graph, group: Group, best: str) -> str:
    """Codes that fall from 0 with the number of a class, for the best; below them for others."""
    name = group.image
    type = graph.type(name)
    classes = type.shape[3] // group.stride
    fine, apart = _codes_of(type, _SIGNED if classes <= _SIGNED else LEVELS - 1)
    high = fine.zero_point[0]
    codes = np.arange(high, high - classes, -1).astype(apart.dtype.numpy).repeat(group.stride)
    operands = [name, repeated(graph, best, classes)]
    off = graph.emit("sub", operands, apart, ActivationAttributes(), stem=f"{name}.off")
    code = graph.add_constant(f"{name}.codes", codes.reshape(1, 1, 1, -1), fine)
    return graph.emit("add", [off, code], apart, ActivationAttributes(), stem=f"{name}.coded")


def _coded_at_once(graph: Graph, group: Group, best: str) -> str:
    """The same as one convolution of the scores and the best, whose biases are the codes."""
    name = group.image
    type = graph.type(name)
    assert type.quantization is not None
    _, coded = _codes_of(type, _SIGNED)
    classes = type.shape[3]
    both = Columns(graph).joined([name, best], 3)
    unsigned = type.dtype is DType.UINT8
    weights = np.hstack([np.eye(classes), -np.ones((classes, 1))]) * _SIGNED + unsigned * _SIGNED
    step = Quantization.per_tensor(1 / _SIGNED, _SIGNED if unsigned else 0)
    scale = Quantization.per_tensor(type.quantization.scale[0] / _SIGNED)
    stored = weights.astype(type.dtype.numpy).reshape(classes, 1, 1, -1)
    filters = graph.add_constant(f"{name}.differences", stored, step)
    bias = graph.add_constant(f"{name}.codes", -np.arange(classes, dtype=np.int32), scale)
    operands = [both, filters, bias]
    return graph.emit("conv_2d", operands, coded, ConvAttributes(), stem=f"{name}.coded")


def _codes_of(type: TensorType, steps: int) -> tuple[Quantization, TensorType]:
    """How codes are stored for scores of a type, so many of them for a step of these."""
    assert type.quantization is not None
    _, high = type.dtype.limits
    fine = Quantization.per_tensor(type.quantization.scale[0] / steps, int(high))
    return fine, replace(type, quantization=fine)


def rising_codes(type: TensorType) -> TensorType:
    """The type of codes that rise from the lowest integer, of those that fall from the highest."""
    assert type.quantization is not None
    low, _ = type.dtype.limits
    return replace(type, quantization=replace(type.quantization, zero_point=(int(low),)))


def unsigned(graph: Graph, rising: str) -> str:
    """Codes that rise from the lowest integer as uint8, where they count from 0 up."""
    type = graph.type(rising)
    if type.dtype is DType.UINT8:
        return rising
    other = rising_codes(replace(type, dtype=DType.UINT8))
    return graph.emit("quantize", [rising], other, stem=f"{rising}.unsigned")


def _of_channels(type: TensorType, channels: int) -> TensorType:
    return type.with_shape((*type.shape[:3], channels))


def largest(graph: Graph, name: str, stride: int, stem: str) -> str:
    """The largest of every box [1,h,w,s], by halves of classes, of an image [1,h,w,c*s]."""
    type = graph.type(name)
    if stride == 1:
        a = ReductionAttributes((3,), keep_dims=True)
        return graph.emit("reduce_max", [name], _of_channels(type, 1), a, stem=stem)
    columns, classes = Columns(graph), type.shape[3] // stride
    while classes > 1:
        half = math.ceil(classes / 2)
        # The class in the middle of an odd number of them is in both halves.
        parts = [
            columns.sliced(name, 3, begin * stride, half * stride) for begin in (0, classes - half)
        ]
        after = _of_channels(type, half * stride)
        name = graph.emit("maximum", parts, after, NO_ATTRIBUTES, stem=stem)
        classes = half
    return name


def repeated(graph: Graph, best: str, classes: int) -> str:
    """The best scores [1,h,w,c*s], once for each class.

    One score of a cell repeats by itself.
    """
    type = graph.type(best)
    stride = type.shape[3]
    if stride == 1:
        return best
    ones = np.tile(np.eye(stride, dtype=type.dtype.numpy), (classes, 1))
    return _weighed(graph, best, ones, _of_channels(type, classes * stride), f"{best}.each")


def sum_of_classes(
    graph: Graph, name: str, stride: int, unit: float, quantization: Quantization
) -> str:
    """The sums of all classes of every box [1,h,w,s], of an image [1,h,w,c*s].

    Args:
        graph: the graph, which gets the operator for it.
        name: the image.
        stride: boxes of a cell, s.
        unit: by what sums are multiplied.
        quantization: of the sums; those out of its range are cut off.
    """
    type = graph.type(name)
    ones = np.tile(np.eye(stride, dtype=np.int8), (1, type.shape[3] // stride))
    after = replace(_of_channels(type, stride), quantization=quantization)
    return _weighed(graph, name, ones, after, f"{name}.sum", unit)


def _weighed(
    graph: Graph, name: str, ones: Array, after: TensorType, stem: str, unit: float = 1.0
) -> str:
    """Sums of the channels of an image, those that are one in a row of a matrix [out,in]."""
    quantization = graph.type(name).quantization
    assert quantization is not None
    count, depth = ones.shape
    filters = graph.add_constant(
        f"{stem}.ones", ones.reshape(count, 1, 1, depth), Quantization.per_tensor(unit)
    )
    scale = Quantization.per_tensor(quantization.scale[0] * unit)
    bias = graph.add_constant(f"{stem}.zeros", np.zeros(count, np.int32), scale)
    return graph.emit("conv_2d", [name, filters, bias], after, ConvAttributes(), stem=stem)
