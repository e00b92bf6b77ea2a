"""Where everything is while the timing model finds out when it happens."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.timing.chain import NO_WAITS, NOBODY, Chain, Held, Holds, Waits
from fitzroy.hw_models.edgetpu.timing.work import Work, row_bytes, unit_bytes


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
    waits: Waits = field(default_factory=Waits)

    def work(self, chain: Chain) -> None:
        """Be busy with the elements of a chain."""
        self.busy += (chain.end - chain.first) * chain.rate
        self.end = chain.finish

    def go_on(self, chain: Chain) -> None:
        """Be busy with the elements of a chain, and wait for what it waits for."""
        if chain.before is not NO_WAITS:
            self.waits.update(chain.before)
        if chain.waits is not NO_WAITS:
            self.waits.update(chain.waits)
        self.work(chain)


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

    position: tuple[int, int] = (0, 0)
    clock: tuple[float, float] = (0.0, 0.0)
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
    ready: array[float] = field(default_factory=lambda: array("d"))
    sent: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class Reads:
    """Units that an infeed reads for rows.

    Attributes:
        end: one past the last unit.
        beginning: rows that begin, and the first unit of each: int64[n] each.
        completing: units read when each row is complete, int64[n].
    """

    end: int
    beginning: tuple[Array, Array]
    completing: Array


@dataclass(slots=True)
class Feeding:
    """What an infeed has yet to read.

    Attributes:
        work: work of reading units.
        rows: rows that all units make.
        unit: bytes of a unit.
        row: bytes of a row.
        first: the next unit.
        clock: when the infeed is ready for it.
        end: how far it may read, as far as that is known.
        holds: what it waits for until there.
    """

    work: Work
    rows: int
    unit: int
    row: int
    first: int
    clock: float
    end: int = 0
    holds: Sequence[Held] = ()

    @classmethod
    def of(cls, job: Job, feed: Feed, ready: float) -> Feeding:
        """That of an infeed at work, or of one that is ready to begin at a time."""
        rows, work = job.work
        instruction = job.instruction
        clock = feed.clock if feed.position else max(feed.clock, ready)
        sizes = unit_bytes(instruction), row_bytes(instruction)
        return cls(work, rows.elements, *sizes, feed.position, clock)

    def reading(self, rows: int) -> int:
        """Units to read for so many rows to be complete."""
        return min(-(-rows * self.row // self.unit), self.work.elements)

    def complete(self, units: int) -> int:
        """Rows that are complete once so many units have been read."""
        return self.rows if units == self.work.elements else units * self.unit // self.row

    def completing(self, first: int, end: int) -> Array:
        """Units read when each of some rows is complete: int64[n]."""
        units = -(-np.arange(first + 1, end + 1) * self.row // self.unit)
        # The last unit of a row may have been read before.
        found: Array = np.minimum(np.maximum(units, self.first + 1), self.work.elements)
        return found

    def reads(self, first: int, end: int) -> Reads:
        """What has to be read for some rows to be complete."""
        last = self.reading(end)
        return Reads(last, self.beginning(last), self.completing(first, end))

    def beginning(self, end: int) -> tuple[Array, Array]:
        """Rows that begin with a unit up to an end, and these units: int64[n] each."""
        rows = np.arange(self.first * self.unit // self.row, (end - 1) * self.unit // self.row + 1)
        units = -(-rows * self.row // self.unit)
        # A unit may begin several rows; then it waits for what the last of them waits for.
        last = (units >= self.first) & (units * self.unit // self.row == rows)
        return rows[last], units[last]


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
        known: rows up to which that is known.
    """

    members: list[int]
    taker: Queued
    place: Place
    work: Work
    offset: int
    holds: Sequence[Held]
    known: int

    def holds_at(self, position: int) -> list[Held]:
        """What the receivers wait for, at positions of a sender that is at one."""
        time, maker = self.place.free, self.place.last
        if self.place.node == NOBODY and self.taker.time > time:
            time, maker = self.taker.time, self.taker.maker
        shift = position - self.offset
        return [
            (position, time, maker, "receiver"),
            *[
                held.moved(shift) if isinstance(held, Holds) else (held[0] + shift, *held[1:])
                for held in self.holds
            ],
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
