"""The best class of boxes whose scores are an image: operators that find it.

Boxes of a cell that are side by side are reduced together, the scores of a class next to each
other, so that there are as many operators for several boxes as for one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array, Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.passes.heads.columns import Columns

LEVELS = 256
"""Scores that 8 bits tell apart, and classes."""

_HIGH = 127
_WORD = 4
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
    most = _MOST_ELEMENTS // (height * width * wanted) // _WORD * _WORD
    if boxes <= 1 or not most or not columns.has_channels_apart(image):
        for box in range(boxes):
            yield Group(columns.take(image, 3, box * classes + background, wanted), 1, 1)
        return
    for first in range(0, boxes, most):
        count = min(most, boxes - first)
        stride = -(-count // _WORD) * _WORD
        chosen_boxes = first + np.minimum(np.arange(stride), count - 1)
        number = np.arange(background, classes)
        chosen = np.add.outer(number, chosen_boxes * classes).reshape(-1)
        yield Group(columns.picked(image, chosen), stride, count)


def best_of(graph: Graph, group: Group) -> str:
    """The best score of every box [1,h,w,s]."""
    return largest(graph, group.image, group.stride, f"{group.image}.best")


def number_of(graph: Graph, group: Group, best: str) -> str:
    """The class of the best score of every box [1,h,w,s].

    The difference to the best score is 0 for the best and else one step or more below, which 8
    bits of a 255th of a step cannot tell from one. The lesser of that and a code for each class,
    which falls with its number, is the code for the best and the lowest integer for others.
    """
    name = group.image
    type = graph.type(name)
    assert type.quantization is not None
    fine = Quantization.per_tensor(type.quantization.scale[0] / (LEVELS - 1), _HIGH)
    apart = replace(type, quantization=fine)
    classes = type.shape[3] // group.stride
    codes = np.arange(_HIGH, _HIGH - classes, -1).astype(np.int8).repeat(group.stride)
    operands = [name, repeated(graph, best, classes)]
    off = graph.emit("sub", operands, apart, ActivationAttributes(), stem=f"{name}.off")
    code = graph.add_constant(f"{name}.codes", codes.reshape(1, 1, 1, -1), fine)
    coded = graph.emit("minimum", [off, code], apart, stem=f"{name}.coded")
    return largest(graph, coded, group.stride, f"{name}.class")


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
    ones = np.tile(np.eye(stride, dtype=np.int8), (classes, 1))
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
