"""ONNX values and the order in which the graph stores them.

ONNX computes images as [N,C,H,W], our operators as [N,H,W,C]. Every value has a layout, and
operators that do not care work in whatever layout their operands have. Elements move only where an
operator needs another order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fitzroy.base.types import Array, DType

Shape = tuple[int, ...]


class Refusal(Exception):
    """An operator, or a use of one, that has no counterpart here.

    Args:
        rule: stable identifier of the rule, in kebab case; `RULES` has all of them.
        reason: what was found and what is permitted.
        hint: what the user can do about it.
    """

    def __init__(self, rule: str, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason
        self.hint = hint


RULES = {
    "onnx-operator": "there is no counterpart of the operator",
    "onnx-attribute": "an attribute has a value that cannot be expressed",
    "onnx-element-type": "an element type that graphs do not have, or the operator does not take",
    "onnx-rank": "the operator is not expressed for tensors of that many dimensions",
    "onnx-run-time-parameter": "a parameter is computed at run time and must be a constant",
    "onnx-shape": "a shape is not known before the model runs",
    "onnx-stated-size": "constants are for another size of the input than is given",
    "onnx-type-rule": "operands do not fit the operator that they would become",
    "onnx-control-flow": "which operators run is not known before the model runs",
    "onnx-sequence": "sequences, maps and optional values are no tensors",
    "onnx-random": "the result is random",
    "onnx-size": "the operator would become too many operators",
}
"""Rules by which operators are refused, and what each means."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """An ONNX value.

    A variable is stored as ``logical.reshape(split).transpose(perm)``. The split is the shape,
    unless dimensions that are not stored side by side were merged by a reshape.

    Attributes:
        shape: its shape in ONNX.
        dtype: element type in the graph.
        data: elements of a constant in ONNX's order; None for variables.
        name: the graph's value; empty for constants.
        split: extents of which the shape is made.
        perm: stored dimension i is dimension ``perm[i]`` of the split.
    """

    shape: Shape
    dtype: DType
    data: Array | None = None
    name: str = ""
    split: Shape = ()
    perm: Shape = field(default=())

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_constant(self) -> bool:
        """Whether the elements are known."""
        return self.data is not None

    @property
    def is_plain(self) -> bool:
        """Whether every dimension of the shape is stored as one dimension."""
        return self.split == self.shape

    def ordered(self, stored: Array) -> Array:
        """What the graph stores, in ONNX's order."""
        return stored.transpose(inverse(self.perm)).reshape(self.shape)

    @property
    def stored_shape(self) -> Shape:
        """The shape that the graph has."""
        return tuple(self.split[axis] for axis in self.perm)


def identity(rank: int) -> Shape:
    """The layout in which dimensions have their order in ONNX."""
    return tuple(range(rank))


def channels_last(rank: int) -> Shape:
    """The layout in which dimension 1 is stored last."""
    return (0, *range(2, rank), 1) if rank > 2 else identity(rank)


def inverse(perm: Sequence[int]) -> Shape:
    """The permutation that undoes another."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def without_units(perm: Iterable[int], shape: Shape) -> Shape:
    """A layout without the dimensions of extent 1, which may lie anywhere."""
    return tuple(axis for axis in perm if shape[axis] != 1)


def shuffled(tensor: Tensor) -> tuple[Shape, Shape] | None:
    """Layouts that keep a dimension in its place whose parts have changed places, as in a shuffle.

    Args:
        tensor: a variable whose dimensions are made of parts.

    Returns:
        The order in which the parts are to be stored, and then that of the dimensions; None if
        parts of a dimension lie apart, or all of them in order.
    """
    stored = without_units(tensor.perm, tensor.split)
    found = sorted(
        groups(tensor.split, tensor.shape),
        key=lambda group: min(map(stored.index, group.source)),
    )
    parts = tuple(axis for group in found for axis in group.source)
    place, inside = 0, True
    for group in found:
        size = len(group.source)
        inside &= len(group.target) == 1 and {*stored[place : place + size]} == {*group.source}
        place += size
    if not inside or parts == stored:
        return None
    units = tuple(axis for axis, extent in enumerate(tensor.split) if extent == 1)
    alone = tuple(axis for axis, extent in enumerate(tensor.shape) if extent == 1)
    return (*units, *parts), (*alone, *(group.target[0] for group in found))


@dataclass(frozen=True, slots=True)
class Group:
    """Dimensions of two shapes that hold the same elements: indices into each."""

    source: Shape
    target: Shape


def groups(source: Shape, target: Shape) -> list[Group]:
    """The smallest pieces of a reshape, without dimensions of extent 1.

    Args:
        source: a shape without zeros.
        target: another with as many elements.
    """
    found: list[Group] = []
    left = [i for i, extent in enumerate(source) if extent != 1]
    right = [i for i, extent in enumerate(target) if extent != 1]
    while left or right:
        a, b = [left.pop(0)], [right.pop(0)]
        x, y = source[a[0]], target[b[0]]
        while x != y:
            if x < y:
                a.append(left.pop(0))
                x *= source[a[-1]]
            else:
                b.append(right.pop(0))
                y *= target[b[-1]]
        found.append(Group(tuple(a), tuple(b)))
    return found
