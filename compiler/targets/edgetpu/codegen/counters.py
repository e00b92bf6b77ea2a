"""What the tiles' counters do in a phase: who counts, and whether anybody waits for it.

Within a phase, flags 0 to 16 of every tile begin at zero. Instructions of other phases neither
count with them nor wait for what they count, so that the instructions of a phase tell everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.codegen.placement import TILES
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


def _counts(instruction: TileInstruction) -> Iterator[tuple[TileFlag, Producer | None, Traversal]]:
    for name, counted in _COUNTED.get(type(instruction), ()):
        flag, value = counts_with(instruction, name), getattr(instruction, counted)
        if flag is not None and value is not None:
            yield flag, getattr(instruction, name), value


def _iterations(value: Traversal, producer: Producer) -> int:
    # The last chunk may also be longer than the others.
    return value.iterations(producer.level) if producer.level else value.steps


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of a phase.

    Attributes:
        awaited: tiles on which an instruction waits for a flag, as a mask by flag.
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
        awaited: dict[int, int] = {}
        for instruction in phase:
            for watcher in getattr(instruction, "wait", ()):
                if isinstance(watcher, Watcher) and watcher.valid:
                    awaited[watcher.flag] = awaited.get(watcher.flag, 0) | instruction.tiles
        most: dict[int, list[int]] = {}
        for instruction in phase:
            for flag, producer, value in _counts(instruction):
                counted = most.setdefault(flag, [0] * TILES)
                exact = _iterations(value, producer) if producer and producer.valid else 0
                for tile in range(TILES):
                    if instruction.tiles >> tile & 1:
                        idle = not awaited.get(flag, 0) >> tile & 1
                        counted[tile] += value.steps if idle else exact
        return cls(awaited, {flag: tuple(counts) for flag, counts in most.items()})

    def idle(self, flag: TileFlag | None, tiles: int) -> bool:
        """Whether no instruction on some tiles waits for a flag, so that it may count anything."""
        return flag is not None and not self.awaited.get(flag, 0) & tiles

    def reaches(self, flag: int, tiles: int) -> int:
        """What a flag counts on any of some tiles, at most."""
        counts = self.most.get(flag)
        if counts is None:
            return 0
        return max((count for tile, count in enumerate(counts) if tiles >> tile & 1), default=0)

    def holds(self, watcher: Watcher, iterations: int, tiles: int) -> bool:
        """Whether a condition holds from the beginning of the phase on, whatever is counted.

        Args:
            watcher: the condition.
            iterations: how often it is asked.
            tiles: where.
        """
        if watcher.flag >= TileFlag.RING_PRODUCER_A:
            return False
        ends = watcher.threshold, watcher.threshold + watcher.increment * (iterations - 1)
        return max(ends) <= 0 and self.reaches(watcher.flag, tiles) - min(ends) <= MOST
