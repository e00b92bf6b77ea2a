"""The course of a program: what units move, in order, so that it can be done again with other data.

Which words units move, and when, depends on instructions and counters, not on the words. Where a
program runs again, and its scalar core does the same again, the same moves can be made without
queues, flags and marks. What the scalar core does may depend on data, so it is executed every time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fitzroy.hw_models.edgetpu.scalar import Event, HostWords

Move = Callable[[], None]
"""Moves words between memories, or computes with them; which words, and where, never changes."""

ROOM_BYTES = 1 << 28
"""Bytes that a course may hold: words between units, and constant weights as factors."""

_MOVE_BYTES = 1 << 10
"""Bytes of a move itself."""


class Diverged(Exception):
    """A program does not do again what it did before: the scalar core decides by data."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What the course of a program depends on besides its instructions.

    Attributes:
        flags: values of the tiles' flags, by flag and tile.
        scalar_flags: values of the scalar core's flags.
        done: mask of the tiles whose done bits are set.
    """

    flags: tuple[tuple[int, ...], ...]
    scalar_flags: tuple[int, ...]
    done: int


@dataclass(slots=True)
class Course:
    """What a program did.

    Attributes:
        begin: counters when it began.
        end: counters when it ended.
        steps: events of the scalar core, each with the moves before it was over.
        room: bytes that are left for what moves hold.
    """

    begin: Counters
    end: Counters | None = None
    steps: list[tuple[Event, list[Move]]] = field(default_factory=list)
    room: int = field(default_factory=lambda: ROOM_BYTES)

    def event(self, event: Event) -> None:
        """The scalar core has come to an event."""
        self.steps.append((event, []))

    def move(self, move: Move, nbytes: int) -> None:
        """A move was made that holds so many bytes."""
        self.room -= nbytes + _MOVE_BYTES
        self.steps[-1][1].append(move)

    def moves(self, number: int, event: Event) -> list[Move]:
        """Moves that belong to an event.

        Args:
            number: how many events there were before.
            event: what the scalar core has come to.

        Raises:
            Diverged: it had come to something else.
        """
        if number >= len(self.steps):
            raise Diverged
        before, moves = self.steps[number]
        # Words for the host are data.
        if before != event and not isinstance(before, HostWords) & isinstance(event, HostWords):
            raise Diverged
        return moves
