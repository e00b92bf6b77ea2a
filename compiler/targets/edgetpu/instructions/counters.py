"""What do the counters of the tiles do in a phase: who counts, and does anybody wait for it?

Within a phase, flags 0 to 16 of every tile begin at zero. Instructions of other phases neither
increment them nor wait for them, so the instructions of one phase are all that has to be known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import EVERY, TILES
from fitzroy.hw_models.edgetpu.mesh import DIRECTIONS
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, Producer, TileFlag, Watcher
from fitzroy.hw_models.isa.instruction import Instruction, TileInstruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import Traversal

MOST = 0x7FFF
"""Largest distance of a counter from a threshold that a comparison of 16 bits still understands."""


def counts_with(instruction: Instruction, field: str) -> TileFlag | None:
    """The flag of a tile that a producer of an instruction increments.

    Args:
        instruction: the instruction.
        field: name of the producer's field.

    Returns:
        The flag; None for ring tokens, stream units, and fields that are no producers.
    """
    match instruction, field:
        case TensorOp(), "avdata":
            return TileFlag.AVDATA
        case TensorOp(), "parameters":
            return TileFlag.PARAMETERS
        case NarrowToWide(), "narrow_to_wide":
            return TileFlag.NARROW_TO_WIDE
        case WideToNarrow(), "wide_to_narrow":
            scaling = instruction.to_scaling
            return TileFlag.WIDE_TO_SCALING if scaling else TileFlag.WIDE_TO_NARROW
        case RingConsume(), "ring_read":
            first = instruction.op is Opcode.RING_CONSUME_A
            return TileFlag.RING_READ_A if first else TileFlag.RING_READ_B
        case RingProduce(), "ring_write":
            return TileFlag.RING_WRITE
        case Mesh(), "sent":
            return DIRECTIONS[instruction.op].sent
        case Mesh(), "received":
            return DIRECTIONS[instruction.op].received
    return None


_COUNTED = {
    TensorOp: (("avdata", "b"), ("parameters", "c")),
    NarrowToWide: (("narrow_to_wide", "wide"),),
    WideToNarrow: (("wide_to_narrow", "narrow"),),
    RingConsume: (("ring_read", "wide"),),
    RingProduce: (("ring_write", "wide"),),
    Mesh: (("sent", "send"), ("received", "receive")),
}
"""Producers of instructions, and the traversals whose iterations they count."""

_GATED = {
    TensorOp: ("loops", "loops"),
    NarrowToWide: ("narrow", "wide"),
    WideToNarrow: ("wide", "narrow"),
    RingConsume: ("wide", "wide"),
    RingProduce: ("wide", "wide"),
    Mesh: ("send", "receive"),
}
"""Traversals whose levels the conditions of the read and of the write side have."""


def _counts(instruction: TileInstruction) -> Iterator[tuple[TileFlag, Producer | None, Traversal]]:
    for name, counted in _COUNTED.get(type(instruction), ()):
        flag, value = counts_with(instruction, name), getattr(instruction, counted)
        if flag is not None and value is not None:
            yield flag, getattr(instruction, name), value


def iterations(value: Traversal | tuple[int, ...], level: int) -> int:
    """How often a level of a traversal, or of the loops of a tensor operation, is gone through."""
    if isinstance(value, Traversal):
        # The last chunk may also be longer than the others.
        return value.iterations(level) if level else value.steps
    return math.prod(value[level:])


def needs(instruction: TileInstruction) -> Iterator[tuple[Watcher, int, int]]:
    """Conditions of an instruction, with the least and the greatest count that each asks for."""
    for watcher in getattr(instruction, "wait", ()):
        if isinstance(watcher, Watcher) and watcher.valid:
            value = getattr(instruction, _GATED[type(instruction)][watcher.side])
            last = 0 if value is None else iterations(value, watcher.level) - 1
            ends = watcher.threshold, watcher.threshold + watcher.increment * last
            yield watcher, min(ends), max(ends)


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of a phase.

    Attributes:
        awaited: tiles on which an instruction waits for a flag to count, as a mask by flag.
        most: what a flag has counted at the end of the phase, at most, by flag and tile. A flag
            that nobody awaits may count every element.
    """

    awaited: Mapping[int, int]
    most: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, instructions: Iterable[Instruction]) -> Counters:
        """The counters of a phase.

        Args:
            instructions: all instructions between two fences that reset the flags of all tiles.
        """
        phase = [item for item in instructions if isinstance(item, TileInstruction)]
        every: dict[int, list[int]] = {}
        exact: dict[int, list[int]] = {}
        for instruction in phase:
            for flag, producer, value in _counts(instruction):
                valid = producer is not None and producer.valid
                count = iterations(value, producer.level) if producer and valid else 0
                _add(every.setdefault(flag, [0] * TILES), instruction.tiles, value.steps)
                _add(exact.setdefault(flag, [0] * TILES), instruction.tiles, count)
        awaited: dict[int, int] = {}
        for instruction in phase:
            for watcher, least, greatest in needs(instruction):
                elements = _greatest(every.get(watcher.flag), instruction.tiles)
                if greatest > 0 or elements - least > MOST:
                    awaited[watcher.flag] = awaited.get(watcher.flag, 0) | instruction.tiles
        most = {
            flag: tuple(
                exact[flag][tile] if awaited.get(flag, 0) >> tile & 1 else count
                for tile, count in enumerate(counts)
            )
            for flag, counts in every.items()
        }
        return cls(awaited, most)

    def idle(self, flag: TileFlag | None, tiles: int) -> bool:
        """Whether no instruction on some tiles waits for a flag, so that it may count anything."""
        return flag is not None and not self.awaited.get(flag, 0) & tiles

    def reaches(self, flag: int, tiles: int) -> int:
        """What a flag counts on any of some tiles, at most."""
        return _greatest(self.most.get(flag), tiles)

    def holds(self, flag: int, tiles: int, least: int, greatest: int) -> bool:
        """Whether a condition holds from the beginning of the phase on, whatever is counted.

        Args:
            flag: the flag.
            tiles: where it is asked.
            least: the least count that it asks for.
            greatest: the greatest one.
        """
        if flag >= TileFlag.RING_PRODUCER_A:
            return False
        return greatest <= 0 and self.reaches(flag, tiles) - least <= MOST

    def held(self, tiles: int, least: int) -> list[TileFlag]:
        """Flags of which a condition that asks for counts from a least one to 0 always holds."""
        uncounted = -least <= MOST
        return [
            flag
            for flag in TileFlag
            if (self.holds(flag, tiles, least, 0) if flag in self.most else uncounted)
            and flag < TileFlag.RING_PRODUCER_A
        ]


def _add(counts: list[int], tiles: int, count: int) -> None:
    for tile in range(TILES):
        if tiles >> tile & 1:
            counts[tile] += count


def _greatest(counts: Sequence[int] | None, tiles: int) -> int:
    if counts is None:
        return 0
    if tiles == EVERY:
        return max(counts)
    return max((count for tile, count in enumerate(counts) if tiles >> tile & 1), default=0)
