"""Reshapes and transpositions, one after the other, as a single order of elements.

Both only say where elements of a tensor lie. A `Movement` keeps, for every axis of the last result,
which steps through the first operand its elements are. However many operators it is made of, it is
written back as one reshape, one transposition and one reshape at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter

from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.shape import ReshapeAttributes, Shape, TransposeAttributes

Factor = tuple[int, int]
"""A part of an axis: its extent, and the distance of its elements in the operand."""

Step = tuple[str, Attributes, Shape]
"""An operator that moves elements, its attributes, and the shape of its result."""

_SINGLE_ELEMENTS = 4
"""Elements that move by themselves cost as much as so many of which a run stays together: a word
of the chip has as many."""


@dataclass(frozen=True)
class Movement:
    """Where the elements of a tensor come from.

    Attributes:
        source: shape of the tensor that they come from.
        axes: for every axis of the result, the factors that it is made of, the outermost first;
            none for an axis of extent 1.
    """

    source: Shape
    axes: tuple[tuple[Factor, ...], ...]

    @classmethod
    def of(cls, shape: Sequence[int]) -> Movement:
        """Nothing moved yet; no extent is zero."""
        axes = (
            ((extent, math.prod(shape[axis + 1 :])),) if extent > 1 else ()
            for axis, extent in enumerate(shape)
        )
        return cls(tuple(shape), tuple(axes))

    @property
    def shape(self) -> Shape:
        """Shape of the result."""
        return tuple(math.prod(extent for extent, _ in factors) for factors in self.axes)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """All factors of the result, those that stay together as one."""
        return tuple(_merged([factor for factors in self.axes for factor in factors]))

    def transposed(self, perm: Sequence[int]) -> Movement:
        """The axes in another order: axis i is what axis ``perm[i]`` was."""
        return Movement(self.source, tuple(self.axes[axis] for axis in perm))

    def reshaped(self, shape: Sequence[int]) -> Movement | None:
        """The same elements in another shape; None if an extent divides no factor."""
        left = list(self.factors)
        axes: list[tuple[Factor, ...]] = []
        for extent in reversed(shape):
            taken: list[Factor] = []
            while extent > 1:
                size, step = left.pop()
                if extent % size == 0:
                    taken.append((size, step))
                    extent //= size
                elif size % extent == 0:
                    left.append((size // extent, step * extent))
                    taken.append((extent, step))
                    extent = 1
                else:
                    return None
            axes.append(tuple(reversed(taken)))
        return Movement(self.source, tuple(reversed(axes)))

    def extended(self, rank: int) -> Movement:
        """The same elements with axes of extent 1 in front, up to a number of axes."""
        return Movement(self.source, ((),) * (rank - len(self.axes)) + self.axes)

    def then(self, attributes: Attributes) -> Movement | None:
        """The elements after a reshape or a transposition; None if it cannot be said."""
        match attributes:
            case TransposeAttributes(perm):
                return self.transposed(perm)
            case ReshapeAttributes(shape):
                return self.reshaped(shape)
        return None

    @property
    def is_reshape(self) -> bool:
        """Whether the elements follow each other as they did."""
        return len(self.factors) < 2

    @cached_property
    def keeps_axes(self) -> bool:
        """Whether no axis of the operand is divided into parts that part, and none is made of such.

        Axes that it does not divide are still the same axes then.
        """
        order = _Places.of(self.source)
        parts = [factor for factors in self.axes for factor in factors]
        split = [order.axis(factor) for factor in parts]
        if None in split or any(len(_merged(list(factors))) > 1 for factors in self.axes):
            return False
        # Parts of an axis of the operand follow each other.
        runs = [
            (axis, [part for _, part in some])
            for axis, some in groupby(zip(split, parts, strict=True), key=itemgetter(0))
        ]
        return len(runs) == len(dict(runs)) and all(len(_merged(some)) == 1 for _, some in runs)

    def same_axes(self) -> list[tuple[int, int]]:
        """Axes of the operand and of the result that are the same elements in the same order."""
        whole = {
            (extent, math.prod(self.source[axis + 1 :])): axis
            for axis, extent in enumerate(self.source)
            if extent > 1
        }
        found = []
        for number, factors in enumerate(self.axes):
            if len(factors) == 1 and factors[0] in whole:
                found.append((whole[factors[0]], number))
        return found

    @cached_property
    def cost(self) -> tuple[int, int]:
        """What it costs to move the elements, and how far they go: to compare, without a unit.

        Nothing if it is a reshape. Elements that are not next to each other any more move one by
        one. Elements that stay within a part of the tensor go less far.
        """
        if self.is_reshape:
            return 0, 0
        size = math.prod(self.source)
        weight = 1 if self.factors[-1][1] == 1 else _SINGLE_ELEMENTS
        span, rest = size, list(self.factors)
        while rest and rest[0][1] * rest[0][0] == span:
            span = rest.pop(0)[1]
        return weight * size, size * span.bit_length()

    def steps(self) -> list[Step]:
        """The fewest operators that move elements so."""
        if self.shape == self.source and self.is_reshape:
            return []
        if self.is_reshape:
            return [("reshape", ReshapeAttributes(self.shape), self.shape)]
        perm = self._permutation()
        if perm is not None:
            return [("transpose", TransposeAttributes(perm), self.shape)]
        inner = sorted(self.factors, key=lambda factor: -factor[1])
        order = tuple(inner.index(factor) for factor in self.factors)
        before, after = (tuple(e for e, _ in some) for some in (inner, self.factors))
        found: list[Step] = [("transpose", TransposeAttributes(order), after)]
        if before != self.source:
            found.insert(0, ("reshape", ReshapeAttributes(before), before))
        if after != self.shape:
            found.append(("reshape", ReshapeAttributes(self.shape), self.shape))
        return found

    def _permutation(self) -> Shape | None:
        """The order of the operand's axes, if that is all that changes."""
        same = {target: source for source, target in self.same_axes()}
        units = [axis for axis, extent in enumerate(self.source) if extent == 1]
        if len(self.axes) != len(self.source):
            return None
        perm: list[int] = []
        for number, factors in enumerate(self.axes):
            if not factors:
                perm.append(units.pop(0) if units else -1)
            else:
                perm.append(same.get(number, -1))
        return tuple(perm) if sorted(perm) == list(range(len(self.source))) else None


@dataclass(frozen=True)
class _Places:
    """Where the axes of a shape lie.

    Attributes:
        spans: for every axis longer than 1, the distance of its elements, and that of whole axes.
    """

    spans: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, shape: Shape) -> _Places:
        """The axes of a shape."""
        found = []
        for axis, extent in enumerate(shape):
            step = math.prod(shape[axis + 1 :])
            if extent > 1:
                found.append((axis, step, step * extent))
        return cls(tuple(found))

    def axis(self, factor: Factor) -> int | None:
        """The axis that a factor is a part of; of several whole ones, the first; else None."""
        extent, step = factor
        low = next((axis for axis, begin, end in self.spans if begin <= step < end), None)
        high = next((axis for axis, begin, end in self.spans if begin < step * extent <= end), None)
        if low == high:
            return low
        begins = {begin for _, begin, _ in self.spans}
        ends = {end for _, _, end in self.spans}
        return high if step in begins and step * extent in ends else None


def _merged(factors: Sequence[Factor]) -> list[Factor]:
    """Factors of which neighbours that stay together are one."""
    found: list[Factor] = []
    for extent, step in factors:
        if found and found[-1][1] == extent * step:
            found[-1] = found[-1][0] * extent, step
        else:
            found.append((extent, step))
    return found
