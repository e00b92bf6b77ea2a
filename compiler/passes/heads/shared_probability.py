"""The best class of boxes whose classes share one probability: a softmax, one number of it.

The probability of the best class is ``exp(best - largest) / sum(exp(score - largest))``, where the
largest score may be that of a class for no object. Exponentials are 8-bit numbers, their sum comes
from convolutions with weights of one: once in fine steps up to two, once in coarse ones from there
to where the probability is below the threshold. Their logarithms are subtracted before the last
exponential.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fitzroy.base.types import Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.passes.heads.best_class import (
    Group,
    best_of,
    largest,
    repeated,
    sum_of_classes,
)
from fitzroy.compiler.passes.heads.columns import Columns

LEAST_THRESHOLD = 0.05
"""Below, sums that 8 bits do not tell apart would be those of objects."""

_LOW, _HIGH = -128, 127
_STEPS = 255
_MARGIN = 1.0
"""How far below the logarithm of the threshold logarithms are told apart."""

_FINE = 2.0
"""Sums up to here are known in fine steps: those of probabilities of a half and more."""

_ABOVE = 1.05
"""By how much sums go beyond the reciprocal of the threshold."""


@dataclass(frozen=True)
class Shared:
    """What becomes of a group of scores.

    Attributes:
        objects: the scores of the classes for objects, as a group.
        best: the largest of them [1,h,w,s].
        probability: that of the best class [1,h,w,s], int8.
    """

    objects: Group
    best: str
    probability: str


def shared(graph: Graph, group: Group, background: int, threshold: float) -> Shared:
    """The probability of the best class for an object.

    Args:
        graph: the graph, which gets the operators for it.
        group: the scores of all classes before a softmax.
        background: how many of the first classes stand for no object; at least one.
        threshold: probabilities that are less are not told apart; at least `LEAST_THRESHOLD`.
    """
    columns, stride = Columns(graph), group.stride
    name, none = group.image, background * stride
    type = graph.type(name)
    assert type.quantization is not None
    image = columns.sliced(name, 3, none, type.shape[3] - none)
    objects = replace(group, image=image)
    best = best_of(graph, objects)
    other = largest(graph, columns.sliced(name, 3, 0, none), stride, f"{name}.none")
    column = graph.type(best)
    most = graph.emit("maximum", [best, other], column, NO_ATTRIBUTES, stem=f"{name}.most")
    below = _up_to_zero(type.quantization.scale[0])
    every = repeated(graph, most, type.shape[3] // stride)
    distance = _minus(graph, name, every, _quantized(type, below))
    power = graph.emit("exp", [distance], _quantized(type, _from_zero(1.0)), stem=f"{name}.power")
    exponent = _minus(graph, best, most, _quantized(column, below))
    depth = _quantized(column, _up_to_zero((_MARGIN - math.log(threshold)) / _STEPS))
    for log in _logarithms(graph, power, stride, max(_ABOVE / threshold, 2 * _FINE)):
        exponent = _minus(graph, exponent, log, depth)
    sure = graph.emit(
        "exp", [exponent], _quantized(column, _from_zero(1.0)), stem=f"{name}.probability"
    )
    return Shared(objects, best, sure)


def _logarithms(graph: Graph, power: str, stride: int, reach: float) -> Iterator[str]:
    """Two numbers that add up to the logarithm of the sum of all classes [1,h,w,s].

    The first one stops at that of `_FINE`. The second one is how much there is beyond, for sums up
    to a reach: negative logarithms are stored as zero.
    """
    for unit, most in ((1.0, _FINE), (1 / _FINE, reach / _FINE)):
        total = sum_of_classes(graph, power, stride, unit, _from_zero(most))
        type = _quantized(graph.type(total), _from_zero(math.log(most)))
        yield graph.emit("log", [total], type, stem=f"{total}.log")


def _from_zero(reach: float) -> Quantization:
    """Numbers from zero to a largest one."""
    return Quantization.per_tensor(reach / _STEPS, _LOW)


def _up_to_zero(scale: float) -> Quantization:
    """Numbers up to zero, in steps of a scale."""
    return Quantization.per_tensor(scale, _HIGH)


def _quantized(type: TensorType, quantization: Quantization) -> TensorType:
    return replace(type, quantization=quantization)


def _minus(graph: Graph, a: str, b: str, type: TensorType) -> str:
    return graph.emit("sub", [a, b], type, ActivationAttributes(), stem=f"{a}.below")
