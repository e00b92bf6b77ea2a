"""A program as the measures of the envelope see it: instructions with places, and its course."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from fitzroy.base.errors import SimulationError
from fitzroy.hw_models.edgetpu.recording import Dispatched, Entry, Recording, Streamed
from fitzroy.hw_models.edgetpu.scalar import (
    ChunkEnd,
    ChunkStart,
    Descriptor,
    Dispatch,
    Event,
    Fence,
    HostWords,
    ScalarCore,
    Stream,
    UnknownValueError,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import positions
from fitzroy.hw_models.isa.scalar import Branch, Halt, Loop, Scalar, Store

MOST_STEPS = 1 << 28
"""Steps of tensor operations that are looked at in a program, hundreds of times those of any known
one."""


class Place(NamedTuple):
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


class Value(NamedTuple):
    """What a property has at one place of a program.

    Attributes:
        value: in the unit of the property.
        place: where.
    """

    value: int
    place: Place


class Step(NamedTuple):
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
        short = _shortened(chunks)
        runs = iter(_runs_of_pushes(chunks)) if short is not None else None
        events: list[Event] = []
        complete = True
        try:
            for event in ScalarCore().run(chunks if short is None else short):
                if runs is not None and isinstance(event, HostWords):
                    event = HostWords((None,) * next(runs))
                events.append(event)
        except UnknownValueError:
            complete = False
        return cls(chunks, tuple(events), complete)

    @classmethod
    def recorded(cls, chunks: Sequence[Sequence[Instruction]], recording: Recording) -> Program:
        """A program whose course has been recorded.

        Args:
            chunks: its instructions.
            recording: what its scalar core did, by the verifier or by a run of the simulator.
        """
        return cls(chunks, tuple(_event(entry) for _, entry in recording.entries))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All instructions as they stand, the bodies of loops that run more than once twice."""
        return tuple(_steps(self.chunks))

    @cached_property
    def scalar_steps(self) -> tuple[tuple[Step, Scalar], ...]:
        """Those of `steps` that are bundles of the scalar core and do something."""
        return tuple(
            (step, step.instruction)
            for step in self.steps
            if isinstance(step.instruction, Scalar) and step.instruction != _EMPTY
        )

    @cached_property
    def placed(self) -> tuple[tuple[Place, Event], ...]:
        """All events with their places; words for the host have that of the event before them."""
        found: list[tuple[Place, Event]] = []
        place = Place(0, 0)
        for event in self.events:
            match event:
                case Dispatch():
                    place = Place(event.chunk, event.bundle, event.tiles or 0)
                case ChunkStart():
                    place = Place(event.chunk, 0)
                case Stream() | Fence() | Descriptor() | ChunkEnd():
                    place = Place(event.chunk, event.bundle)
            found.append((place, event))
        return tuple(found)

    @cached_property
    def dispatched(self) -> tuple[tuple[Place, Dispatch], ...]:
        """The instructions for tiles among all events."""
        return tuple((place, event) for place, event in self.placed if isinstance(event, Dispatch))

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


def _event(entry: Entry) -> Event:
    """What the scalar core did, as it said so."""
    match entry:
        case Dispatched(issue=issue, tiles=tiles):
            return Dispatch(issue.chunk, issue.bundle, issue.instruction, tiles, issue.base)
        case Streamed(event=event):
            return event
    return entry


_EMPTY = Scalar()


def _steps(chunks: Sequence[Sequence[Instruction]]) -> Iterator[Step]:
    at = 0
    for number, chunk in enumerate(chunks):
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
            for turn in range(min(2, instruction.count)):
                # The second pass stands for all that follow the first.
                repeats = 1 if not turn else instruction.count - 1
                for place, item in body:
                    yield Step(at, repeats, Place(number, place), item)
                    at += 1
            index += len(body)


# --- the scalar core, with loops that run once ---------------------------------------------------


def _shortened(chunks: Sequence[Sequence[Instruction]]) -> list[list[Instruction]] | None:
    """The program with loops that run once; None if its events could depend on what they compute.

    Loops load, store, compute and push. Without branches, and descriptors in loops, only the number
    of words that they push shows in events, and `_runs_of_pushes` gives that.
    """
    for chunk in chunks:
        body = 0
        for instruction in chunk:
            if isinstance(instruction, Loop):
                body = instruction.length
            elif body:
                body -= 1
                if isinstance(instruction, Scalar) and instruction.store is Store.ISSUE:
                    return None
            if isinstance(instruction, Branch) or _may_tell(instruction):
                return None
    return [
        [replace(item, count=1) if isinstance(item, Loop) else item for item in chunk]
        for chunk in chunks
    ]


def _may_tell(instruction: Instruction) -> bool:
    """Whether a predicate decides on what others see of a bundle."""
    return (
        isinstance(instruction, Scalar)
        and instruction.predicated
        and instruction.store in (Store.PUSH, Store.DESCRIPTOR, Store.ISSUE)
    )


def _runs_of_pushes(chunks: Sequence[Sequence[Instruction]]) -> Iterator[int]:
    """Words of each run of pushes between two other events of a program without branches."""
    count, halted = 0, -1
    for step in _steps(chunks):
        instruction = step.instruction
        if step.place.chunk == halted:
            continue
        if isinstance(instruction, Halt):
            halted = step.place.chunk
        if isinstance(instruction, Scalar):
            count += step.repeats * (instruction.store is Store.PUSH)
            ends = instruction.store is Store.ISSUE
        else:
            ends = not isinstance(instruction, Loop)
        if ends and count:
            yield count
            count = 0
