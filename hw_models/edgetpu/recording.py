"""What the scalar core of a machine did: enough to find out afterwards when everything happened.

The course of a program depends on data in the scalar core only. Whoever has its events, with the
element order of each instruction, knows all that the tiles, the ring and the stream units do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.engine import Issue
from fitzroy.hw_models.edgetpu.scalar import (
    ChunkEnd,
    ChunkStart,
    Descriptor,
    Fence,
    HostWords,
    Stream,
)
from fitzroy.hw_models.edgetpu.stream import StreamPlan
from fitzroy.hw_models.isa.fence import TileFence


@dataclass(frozen=True, slots=True)
class Dispatched:
    """An instruction for tiles.

    Attributes:
        issue: the instruction; its plan is there once its engine has begun it.
        tiles: mask of the tiles.
    """

    issue: Issue
    tiles: int

    @property
    def ends_phase(self) -> bool:
        """Whether all tiles wait for engines of theirs: what compilers put between layers."""
        instruction = self.issue.instruction
        return (
            isinstance(instruction, TileFence)
            and self.tiles == (1 << BEAGLE.tiles.count) - 1
            and bool(instruction.idle)
        )


@dataclass(frozen=True, slots=True)
class Streamed:
    """An instruction for a stream unit.

    Attributes:
        event: the instruction with its place.
        plan: its element order.
    """

    event: Stream
    plan: StreamPlan


Entry = Dispatched | Streamed | Fence | Descriptor | HostWords | ChunkStart | ChunkEnd


@dataclass
class Recording:
    """A program as it was executed.

    Attributes:
        entries: what the scalar core did, in order, each with the number of bundles that it had
            executed by then since power-up. Bundles of a loop count when the loop begins.
    """

    entries: list[tuple[int, Entry]] = field(default_factory=list)

    def append(self, steps: int, entry: Entry) -> None:
        """Take down the next thing."""
        self.entries.append((steps, entry))
