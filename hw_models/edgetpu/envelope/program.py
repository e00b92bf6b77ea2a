"""A program as the measures of the envelope see it: its instructions with places, and its course."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fitzroy.base.errors import SimulationError
from fitzroy.hw_models.edgetpu.scalar import (
    Dispatch,
    Event,
    HostWords,
    ScalarCore,
    UnknownValueError,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import positions
from fitzroy.hw_models.isa.scalar import Loop

MOST_STEPS = 1 << 28
"""Steps of tensor operations that are looked at in a program, hundreds of times those of any known
one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is in a program.

    Attributes:
        chunk: number of the chunk.
        bundle: first bundle in the chunk, whose START is bundle 0.
        tiles: mask of the tiles concerned; 0 if it is the scalar core's.
    """

    chunk: int
    bundle: int
    tiles: int = 0

    def __str__(self) -> str:
        return f"{self.chunk}:{self.bundle}"


@dataclass(frozen=True, slots=True)
class Value:
    """What a property has at one place of a program.

    Attributes:
        value: in the unit of the property.
        place: where.
    """

    value: int
    place: Place


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction in the order in which bundles stand.

    Attributes:
        at: bundles before it in the program; the body of a loop that runs more than once counts
            twice, so that distances from one iteration to the next are among those of neighbours.
        repeats: how often it runs one after the other with the rest of its loop.
        place: where it is.
        instruction: the instruction.
    """

    at: int
    repeats: int
    place: Place
    instruction: Instruction


@dataclass
class Program:
    """A program that is measured.

    Attributes:
        chunks: its instructions, START and END included.
        events: what its scalar core does, in order.
        complete: whether this is all that it does; a course that depends on data is known up to
            there only.
    """

    chunks: Sequence[Sequence[Instruction]]
    events: tuple[Event, ...]
    complete: bool = True
    _looked_at: int = field(default=0, init=False)

    @classmethod
    def of(cls, chunks: Sequence[Sequence[Instruction]]) -> Program:
        """A program whose scalar core is followed without data.

        Args:
            chunks: its instructions; addresses of buffers need not be filled in.

        Raises:
            SimulationError: the program does something that the scalar core would not survive.
        """
        events: list[Event] = []
        try:
            for event in ScalarCore().run(chunks):
                events.append(event)
        except UnknownValueError:
            return cls(chunks, tuple(events), complete=False)
        return cls(chunks, tuple(events))

    def steps(self) -> Iterator[Step]:
        """All instructions as they stand, the bodies of loops that run more than once twice."""
        at = 0
        for number, chunk in enumerate(self.chunks):
            placed = list(positions(chunk))
            index = 0
            while index < len(placed):
                bundle, instruction = placed[index]
                yield Step(at, 1, Place(number, bundle), instruction)
                at += instruction.bundles()
                index += 1
                if not isinstance(instruction, Loop):
                    continue
                # Bodies are scalar: as many instructions as bundles.
                body = placed[index : index + instruction.length]
                turns = min(2, instruction.count)
                for turn in range(turns):
                    # The second pass stands for all that follow the first.
                    repeats = 1 if not turn else instruction.count - 1
                    for place, item in body:
                        yield Step(at, repeats, Place(number, place), item)
                        at += item.bundles()
                index += len(body)

    def placed(self) -> Iterator[tuple[Place, Event]]:
        """All events with their places; words for the host have that of the event before them."""
        place = Place(0, 0)
        for event in self.events:
            if not isinstance(event, HostWords):
                tiles = event.tiles if isinstance(event, Dispatch) else None
                place = Place(event.chunk, getattr(event, "bundle", 0), tiles or 0)
            yield place, event

    def look_at(self, steps: int) -> None:
        """Count steps of operations that a measure looks at one by one.

        Raises:
            SimulationError: there are more than any sensible program has.
        """
        self._looked_at += steps
        if self._looked_at > MOST_STEPS:
            raise SimulationError(
                "the program has too many steps to be measured",
                reason=f"its tensor operations have more than {MOST_STEPS}",
            )
