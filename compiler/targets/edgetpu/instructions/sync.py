"""What does an instruction wait for, and how far must a counter have come?

All thresholds are computed here. Within a phase, flags 0 to 16 count from zero. A layer says what
it waits for in terms of what other instructions produce: that the n-th slot of a buffer is full,
or free again. Ring tokens run through many phases. They are reset between two phases before they
exceed what fences have been seen to compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.counters import signed16
from fitzroy.hw_models.isa.fields import ScalarFlag, Side, TileFlag, Watcher

SLOTS = 2
"""Slots of a staging buffer."""

FIFO_WORDS = BEAGLE.scalar.fifo_words
"""Words of the scalar core's fifo."""


_TOKENS = 8192
"""Ring tokens after which they are reset before the next phase.

The largest count in a published program is 20,488, and no phase of a model of the corpus takes more
than 4,400; a reset takes some ten cycles of 30,000 or more in which so many rows go over the ring.
"""


WHOLE = ""
"""Instead of the name of an axis: something that happens once."""


_TOP = 7
"""The highest level of a loop."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What an engine waits for before each iteration of an axis.

    Attributes:
        axis: the axis; `WHOLE` to wait before the first element only.
        flag: what counts.
        first: what it must have counted before the first iteration.
        step: how much more it must have before each further one.
        side: which of the engine's walks the axis is of.
    """

    axis: str
    flag: TileFlag
    first: int
    step: int = 0
    side: Side = Side.READ

    def at(self, level: int) -> Watcher:
        """The condition in an instruction, where the axis has some level.

        Where loops have all levels, none is left for what happens once: that is waited for before
        each iteration of the outermost loop, and counts do not fall.
        """
        if level > _TOP:
            return Watcher(self.flag, _TOP, self.first, side=self.side)
        return Watcher(self.flag, level, self.first, self.step, side=self.side)


def full(flag: TileFlag, axis: str, *, before: int = 0, step: int = 1) -> Condition:
    """Wait, before iteration i of an axis, until slot i has been filled.

    Args:
        flag: counts when a slot is full.
        axis: axis of what uses the slots.
        before: what the flag counts before slot 0 is begun.
        step: what it counts for a slot.
    """
    return Condition(axis, flag, before + step, step)


def once(flag: TileFlag, axis: str, count: int) -> Condition:
    """Wait, before the first iteration of an axis, until a flag has counted."""
    return Condition(axis, flag, count)


def free(
    flag: TileFlag, axis: str, *, before: int = 0, step: int = 1, slots: int = SLOTS
) -> Condition:
    """Wait, before iteration i of an axis, until slot i is free again.

    Args:
        flag: counts when a slot has been used.
        axis: axis of what fills the slots.
        before: what the flag counts before the use of slot 0.
        step: what it counts for a slot.
        slots: how many slots there are.
    """
    return Condition(axis, flag, before + step * (1 - slots), step, Side.WRITE)


def counted(flag: ScalarFlag, position: int) -> Watcher:
    """Wait, before unit i of a stream instruction, until a flag has counted up to position + i.

    Positions run through the whole program, and flags wrap.
    """
    return Watcher(flag, 0, signed16(position), 1)


@dataclass(slots=True)
class Tokens:
    """Turns of the senders on the channels of the ring, and of the scalar core's fifo.

    Attributes:
        ring: tokens produced since they were last reset, by channel.
        outfed: words that the outfeed has put into the scalar core's fifo.
        infed: words that the infeed has taken from it.
    """

    ring: list[int] = field(default_factory=lambda: [0, 0])
    outfed: int = 0
    infed: int = 0

    @property
    def many(self) -> bool:
        """Whether a channel has produced so many that the next phase begins from zero."""
        return max(self.ring) > _TOKENS

    def turn(self, channel: int, count: int) -> Condition:
        """Wait for the turn of a message of so many tokens on a channel."""
        flag = (TileFlag.RING_PRODUCER_A, TileFlag.RING_PRODUCER_B)[channel]
        before = self.ring[channel]
        self.ring[channel] += count
        return Condition(WHOLE, flag, signed16(before))

    def fifo(self, words: int, put: int) -> tuple[Watcher, Watcher]:
        """What the two ends of the scalar core's fifo wait for, before each word.

        Args:
            words: how many the infeed will take.
            put: how many the outfeed will put in, whole rows.

        Returns:
            Wait conditions of the infeed, for words, and of the outfeed, for room.
        """
        present = Watcher(ScalarFlag.RING_OUTFEED, 0, signed16(self.outfed + 1), 1)
        room = Watcher(ScalarFlag.SCALAR_INFEED, 0, signed16(self.infed + 1 - FIFO_WORDS), 1)
        self.outfed += put
        self.infed += words
        return present, room

    def fifo_turns(self, axis: str, count: int) -> tuple[Condition, Condition]:
        """Wait for the turns of rows that go through the scalar core's fifo, one by one.

        Each takes a token of channel B, and one of channel A when it leaves the fifo: a row may
        come while the one before it still goes out.
        """
        before_a, before_b = self.ring
        self.ring = [before_a + count, before_b + count]
        return (
            Condition(axis, TileFlag.RING_PRODUCER_A, signed16(before_a - 1), 1),
            Condition(axis, TileFlag.RING_PRODUCER_B, signed16(before_b), 1),
        )
