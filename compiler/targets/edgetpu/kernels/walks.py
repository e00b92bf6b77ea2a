"""Walks: the addresses of an engine as loops with names.

Instructions refer to loops by their level. A walk derives the level from the name of an axis, so
that a kernel says "count per row" or "wait before each block", and the order of its loops is
written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fitzroy.base.errors import InternalError
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, Condition
from fitzroy.hw_models.isa.fields import Producer, Watcher
from fitzroy.hw_models.isa.traversal import (
    BUFFER,
    BYTES,
    NARROW,
    QUARTERS,
    WIDE,
    Traversal,
    TraversalCodec,
    traversal,
)

Dim = tuple[str, int, int]
"""A loop of a walk: its name, its iterations, and the distance of these."""


def level(axis: str, names: Sequence[str]) -> int:
    """The level of an axis: how many loops are inside each of its iterations.

    Args:
        axis: the axis; `WHOLE` for something that happens once.
        names: all axes, innermost first.

    Raises:
        InternalError: there is no such axis, or there are several.
    """
    if axis == WHOLE:
        return len(names)
    if names.count(axis) != 1:
        raise InternalError(
            f"{names.count(axis)} axes are called {axis!r}", reason=f"there are {', '.join(names)}"
        )
    return names.index(axis)


def watchers(
    conditions: Iterable[Condition], names: Sequence[str], count: int
) -> tuple[Watcher | None, ...]:
    """Conditions as an instruction has them, at the levels of their axes.

    Args:
        conditions: the conditions.
        names: axes of the walk that they gate.
        count: how many conditions the instruction has room for.
    """
    found = [condition.at(level(condition.axis, names)) for condition in conditions]
    return (*found, *[None] * (count - len(found)))


@dataclass(frozen=True, slots=True)
class Walk:
    """Addresses in some memory, in its unit.

    Attributes:
        base: the first one.
        axes: the loops, innermost first.
        turn: an axis from which on two slots are used in turn, and their distance.
        part: iterations of the innermost loop in the last iteration of another one, and that one;
            None if these are as many as always.
    """

    base: int
    axes: tuple[Dim, ...]
    turn: tuple[str, int] | None = None
    part: tuple[int, str] | None = None

    @property
    def names(self) -> list[str]:
        """The axes, innermost first."""
        return [name for name, _, _ in self.axes]

    def level(self, axis: str) -> int:
        """The level of an axis."""
        return level(axis, self.names)

    def each(self, axis: str) -> Producer:
        """Count whenever an iteration of an axis is complete."""
        return Producer(self.level(axis))

    def traversal(self, codec: TraversalCodec) -> Traversal:
        """The walk as an engine does it."""
        return traversal(
            self.base,
            [(count, stride) for _, count, stride in self.axes],
            rank=codec.rank,
            ping_pong=(0, 0) if self.turn is None else (self.level(self.turn[0]), self.turn[1]),
            part=self._part,
        )

    @property
    def _part(self) -> tuple[int, int] | None:
        """The shorter last run; none if it is as long as the others."""
        if self.part is None or self.part[0] == self.axes[0][1]:
            return None
        return self.part[0], self.level(self.part[1])

    @property
    def words(self) -> Traversal:
        """Words of narrow memory, as conversions walk over them."""
        return self.traversal(NARROW)

    @property
    def rows(self) -> Traversal:
        """Rows of wide memory, or words of narrow memory as meshes walk over them."""
        return self.traversal(WIDE)

    @property
    def quarters(self) -> Traversal:
        """Quarter rows of wide memory."""
        return self.traversal(QUARTERS)

    @property
    def buffer(self) -> Traversal:
        """Words of the scalar core's memory."""
        return self.traversal(BUFFER)

    @property
    def bytes(self) -> Traversal:
        """Bytes of narrow memory.

        A loop that runs once goes nowhere, so that its stride need not fit the field.
        """
        most = 1 << BYTES.address
        held = (
            (name, count, 0 if count == 1 and abs(stride) >= most else stride)
            for name, count, stride in self.axes
        )
        return Walk(self.base, tuple(held), self.turn, self.part).traversal(BYTES)


def walk(
    base: int,
    *,
    turn: tuple[str, int] | None = None,
    part: tuple[int, str] | None = None,
    **axes: tuple[int, int],
) -> Walk:
    """A walk over axes that are given as keywords, innermost first.

    ``walk(8, word=(4, 1), line=(3, 16))`` goes over three lines of four words, 16 apart.

    Args:
        base: the first address.
        turn: as in `Walk`.
        part: as in `Walk`.
        axes: iterations, and their distance, by name.
    """
    return Walk(base, tuple((name, *dim) for name, dim in axes.items()), turn, part)
