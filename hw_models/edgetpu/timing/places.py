"""Where everything is while the timing model finds out when it happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fitzroy.hw_models.edgetpu.timing.chain import NOBODY, Chain, Hold, Wait
from fitzroy.hw_models.edgetpu.timing.work import Work


@dataclass(eq=False, slots=True)
class Side:
    """One of two things that an engine does at the same time.

    From the beginning of the instruction to `end`, a side is busy or waits.

    Attributes:
        end: cycle of the last thing known.
        busy: cycles of work so far.
        waits: what it waited for.
    """

    end: float
    busy: float = 0.0
    waits: list[Wait] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Node:
    """What happens between two moments: an instruction on an engine, or a fence.

    Attributes:
        what: name of the unit.
        tiles: mask of the tiles in step.
        issue: number of the instruction, None for a fence.
        begin: cycle at which it can begin.
        cause: why not earlier.
        maker: node that made it begin.
        sides: sending and receiving of a mesh instruction, rows and units of an infeed; else the
            second has nothing to do.
    """

    what: str
    tiles: int
    issue: int | None
    begin: float
    cause: str
    maker: int
    sides: tuple[Side, Side]

    @property
    def last(self) -> Side:
        """The side that ends last."""
        first, second = self.sides
        return second if second.end > first.end else first

    @property
    def end(self) -> float:
        """Cycle of the last thing known."""
        return self.last.end


@dataclass(eq=False, slots=True)
class Job:
    """An instruction in the queues of an engine."""

    number: int
    instruction: Any
    work: tuple[Work, ...]


@dataclass(eq=False, slots=True)
class Place:
    """Where an engine is: the same object for tiles in step.

    Attributes:
        position: elements done, of each half.
        clock: when it is ready for the next, of each half.
        node: number of the node of the instruction at the head, NOBODY before it begins.
        last: node that finished last.
    """

    position: tuple[int, ...] = (0, 0)
    clock: tuple[float, ...] = (0.0, 0.0)
    node: int = NOBODY
    last: int = NOBODY

    @property
    def free(self) -> float:
        """When the engine has done all that it began."""
        return max(self.clock)

    def ready(self, time: float, half: int) -> float:
        """When it is ready for its next element, if the head was dispatched at a time."""
        return max(time, self.free) if self.node == NOBODY else self.clock[half]


@dataclass(eq=False, slots=True)
class Queued:
    """An instruction with the moment at which its tile's dispatcher, or the core, let go of it."""

    job: Job
    time: float
    maker: int


@dataclass(eq=False, slots=True)
class Signal:
    """A fence that tiles have passed: when, and the node of each."""

    time: float
    maker: int


@dataclass(slots=True)
class Feed:
    """An infeed at work.

    Attributes:
        position: units read.
        clock: when it is ready for the next.
        ready: when each row was complete, of those that are.
        sent: when each row was sent, of those that have been.
    """

    position: int = 0
    clock: float = 0.0
    ready: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Lap:
    """What lies between two fences of all tiles.

    Attributes:
        steps: bundles that the scalar core had executed when it dispatched the fence that ends it.
        end: when the last tile passed that fence.
        streamed: bytes of parameters popped.
    """

    steps: int = 0
    end: float = 0.0
    streamed: int = 0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Words on the way to a neighbour.

    Attributes:
        chain: when they are sent.
        first: the first word, by its position in the chain.
        end: one past the last word.
        node: node of the sender.
    """

    chain: Chain
    first: int
    end: int
    node: int


@dataclass(frozen=True, slots=True)
class Move:
    """Receivers of rows that are in step.

    Attributes:
        members: the tiles.
        taker: head of their queues.
        place: where they are.
        work: work of the head.
        offset: rows that they have taken of it.
        holds: what they wait for.
    """

    members: list[int]
    taker: Queued
    place: Place
    work: Work
    offset: int
    holds: list[Hold]

    def holds_at(self, position: int) -> list[Hold]:
        """What the receivers wait for, at positions of a sender that is at one."""
        time, maker = self.place.free, self.place.last
        if self.place.node == NOBODY and self.taker.time > time:
            time, maker = self.taker.time, self.taker.maker
        shift = position - self.offset
        return [
            (position, time, maker, "receiver"),
            *[(place + shift, until, who, cause) for place, until, who, cause in self.holds],
        ]


@dataclass(slots=True)
class Output:
    """What the chip sends.

    Attributes:
        kind: ``output`` or ``interrupt``.
        size: bytes.
        begin: when the host begins to read it.
        end: when it has read it.
    """

    kind: str
    size: int
    begin: float = 0.0
    end: float = 0.0
