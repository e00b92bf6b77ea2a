"""Nests of loops: which fields of an instruction hold them, and what counts their levels.

A nest is compared without the loops that run once, and with loops that continue each other as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from fitzroy.base.bits import Optional, Series
from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Producer, Side
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.stream import Infeed, Outfeed, Pop
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import (
    Dim,
    Prefix,
    Traversal,
    TraversalCodec,
)

_BOTH = (Side.READ, Side.WRITE)


@dataclass(frozen=True, slots=True)
class NestFields:
    """A traversal, or the loops of a tensor operation, and what counts its levels.

    Attributes:
        field: the field that holds it.
        levels: fields with a level of it.
        sides: sides of wait conditions whose levels are of it.
    """

    field: str
    levels: tuple[str, ...] = ()
    sides: tuple[Side, ...] = ()


NESTS: Mapping[type[Instruction], tuple[NestFields, ...]] = {
    TensorOp: (
        NestFields("loops", ("block_level",), _BOTH),
        NestFields("a"),
        NestFields("b", ("avdata",)),
        NestFields("c", ("parameters",)),
        NestFields("d"),
    ),
    RingProduce: (NestFields("wide", ("prefix", "ring_write", "token"), _BOTH),),
    RingConsume: (NestFields("wide", ("prefix", "ring_read"), _BOTH),),
    NarrowToWide: (
        NestFields("narrow", ("pack_level",), (Side.READ,)),
        NestFields("wide", ("narrow_to_wide",), (Side.WRITE,)),
    ),
    WideToNarrow: (
        NestFields("wide", (), (Side.READ,)),
        NestFields("narrow", ("prefix", "wide_to_narrow", "pack_level"), (Side.WRITE,)),
    ),
    Mesh: (
        NestFields("send", ("sent",), (Side.READ,)),
        NestFields("receive", ("received",), (Side.WRITE,)),
    ),
    Pop: (NestFields("buffer", ("popped",), _BOTH),),
    Infeed: (NestFields("buffer", ("infed", "token"), _BOTH),),
    Outfeed: (NestFields("buffer", ("outfed",), _BOTH),),
}
"""Nests of every instruction that has any."""


Level = tuple[Set[int], int]
"""How many loops may be below a level of a nest, and that level."""


@dataclass(frozen=True, slots=True)
class Loops:
    """A nest without loops that run once, those that continue each other as one.

    Attributes:
        dims: what is left.
        marks: whether each of them is a reduction.
        below: how many of them are below each level.
    """

    dims: tuple[Dim, ...]
    marks: tuple[bool, ...]
    below: tuple[int, ...]

    @classmethod
    def of(
        cls, dims: Sequence[Dim], cuts: Iterable[int], most: int, marks: Sequence[bool]
    ) -> Loops:
        """The loops of a nest.

        Args:
            dims: all of them.
            cuts: levels whose iterations count.
            most: largest count of a loop.
            marks: what loops must have in common to be one.
        """
        cuts = set(cuts)
        found: list[tuple[Dim, bool]] = []
        below, cut = [0], True
        for level, (dim, mark) in enumerate(zip(dims, marks, strict=True)):
            cut |= level in cuts
            if dim.count > 1:
                last = found[-1] if found else None
                if (
                    last is not None
                    and not cut
                    and last[1] == mark
                    and dim.stride == last[0].count * last[0].stride
                    and dim.count * last[0].count <= most
                ):
                    found[-1] = (Dim(dim.count * last[0].count, last[0].stride), mark)
                else:
                    found.append((dim, mark))
                cut = False
            below.append(len(found))
        return cls(tuple(d for d, _ in found), tuple(m for _, m in found), tuple(below))

    def under(self, level: int) -> int:
        """How many loops are below a level."""
        return self.below[min(level, len(self.below) - 1)]

    def arrangements(
        self, rank: int, levels: Sequence[Level], allowed: Callable[[int, int], bool]
    ) -> Iterator[tuple[int, ...]]:
        """Positions of the loops in a nest where `rank` loops are in use, the rest running once.

        Args:
            rank: loops in use.
            levels: how many loops may be below a level, and that level.
            allowed: whether a loop may be at a position.
        """
        count = len(self.dims)
        if not count and not rank:
            yield ()
        for first in combinations(range(rank - 1), count - 1) if rank >= count > 0 else ():
            places = (*first, rank - 1)
            if all(
                sum(place < level for place in places) in below for below, level in levels
            ) and all(allowed(index, place) for index, place in enumerate(places)):
                yield places


def slot_distance(value: Traversal, dims: list[tuple[int, int]], ping: int) -> int:
    """Distance of two slots that give a traversal its addresses; 0 if there are no such.

    Args:
        value: a traversal without slots.
        dims: its loops; the one that goes from one slot to the other loses its stride.
        ping: the dimension from which on steps go from one slot to the other.
    """
    turning = next((k for k in range(ping, len(dims)) if dims[k][0] > 1), None)
    if turning is not None:
        count, stride = dims[turning]
        if count != SLOTS or not stride:
            return 0
        dims[turning] = count, 0
        return stride
    # The second slot is never used; it is beside the first one, in front of it where possible.
    ends = [(count - 1) * stride for count, stride in dims]
    size = 1 + sum(map(abs, ends))
    low = value.base + sum(end for end in ends if end < 0)
    return -size if size <= low else size


def loops_of(instruction: Instruction, nest: NestFields) -> Loops | None:
    """The loops of a nest of an instruction, cut at levels that count; None if it is absent."""
    value = getattr(instruction, nest.field)
    if value is None:
        return None
    cuts = [
        cut_of(getattr(instruction, name))
        for name in nest.levels
        if not is_absent(getattr(instruction, name))
        and (name != "block_level" or has_blocks(instruction))
    ]
    if nest.sides:
        cuts += [
            item.level
            for item in getattr(instruction, "wait", ())
            if item is not None and item.side in nest.sides and item.increment
        ]
    codec = type(instruction).field(nest.field).codec
    if nest.field == "loops":
        assert isinstance(instruction, TensorOp)
        marks = [bool(instruction.reduction >> k & 1) for k in range(len(value))]
        assert isinstance(codec, Series)
        most = 1 << codec.inner.width
        return Loops.of([Dim(count, 0) for count in value], cuts, most, marks)
    inner = codec.inner if isinstance(codec, Optional) else codec
    assert isinstance(inner, TraversalCodec)
    if value.fifo_step:
        cuts.append(value.fifo_dim)
    if value.part_dim:
        cuts += [1, value.part_dim, value.part_dim + 1]
    return Loops.of(value.dims, cuts, 1 << inner.address, [False] * len(value.dims))


def has_blocks(instruction: Instruction) -> bool:
    """Whether blocks of output channels of a tensor operation differ in anything."""
    assert isinstance(instruction, TensorOp)
    return (
        instruction.bias_in_memory
        or instruction.scale_in_memory
        or instruction.zero_points_in_memory
        or instruction.lanes != instruction.lanes_last
    )


def is_level(value: object) -> bool:
    """Whether a field is a level as such."""
    return isinstance(value, int)


def is_absent(value: object) -> bool:
    """Whether a producer, or a prefix, is not there."""
    return value is None or (isinstance(value, Producer) and not value.valid)


def cut_of(value: int | Producer | Prefix) -> int:
    """The level whose iterations a field counts."""
    match value:
        case Producer():
            return value.level
        case Prefix():
            return value.level + cut_above(value)
    return value


def cut_above(value: int | Producer | Prefix) -> int:
    """How far the level whose iterations a field counts is above the one in the field."""
    return int(isinstance(value, Prefix))


def level_in(text: str | None) -> int | None:
    """Level in the shape of a producer, a prefix, or a level."""
    if text is None or not text.lstrip("@")[:1].isdigit():
        return None
    return int(text.lstrip("@").partition("/")[0])


def with_level(value: int | Producer | Prefix, level: int) -> int | Producer | Prefix:
    """A field that counts a level, with another level."""
    return level if isinstance(value, int) else replace(value, level=level)


@cache
def parsed_traversal(shape: str) -> tuple[int, int | None, int | None]:
    """Loops in use, and dimensions of ping-pong and of the partial chunk, in the shape of one."""
    rank, *clauses = shape.split("/")
    found = {clause.rstrip("0123456789"): int(clause.lstrip("apginrt")) for clause in clauses}
    return int(rank), found.get("ping"), found.get("part")
