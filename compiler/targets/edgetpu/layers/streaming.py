"""Parameters that the host sends with every inference.

All of them are one stream of units, in the order in which layers send them on to the tiles. The
chip asks for what a layer still lacks when its consumers are there. After that it asks for the
begin of what is needed next, no more than the buffer holds: that may come at any time, and never
keeps the host from anything else that the program wants of it.

No more than `MOST_OPEN` descriptors are open at a time, as in published programs. One is open until
the scalar core has waited for an infeed that sends its last unit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from fitzroy.compiler.targets.edgetpu.instructions.builder import RING_STREAMS, Builder
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import AHEAD, PARAMETERS
from fitzroy.formats.object_file import UNIT_BYTES, SymbolKind
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.scalar import DescriptorTag

MOST_OPEN = 4
"""Descriptors that are open at a time."""


@dataclass(slots=True)
class HostStream:
    """The stream of a program under construction.

    Attributes:
        operands: names and units of what is sent, in order; an operand may be sent repeatedly.
        asked: units that the host has been asked for.
        sent: units that have gone to tiles.
    """

    operands: Sequence[tuple[str, int]]
    asked: int = 0
    sent: int = 0
    _ends: list[int] = field(init=False)
    _open: list[int] = field(init=False, default_factory=list)
    _awaited: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._ends = []
        for _, units in self.operands:
            self._ends.append(units + (self._ends[-1] if self._ends else 0))

    @property
    def complete(self) -> bool:
        """Whether everything has been sent."""
        return self.sent == (self._ends[-1] if self._ends else 0)

    def send(self, builder: Builder, units: int, destination: int, row_words: int) -> None:
        """Send the next units to tiles, whose consumers are there.

        Args:
            builder: the program.
            units: how many.
            destination: tiles that receive them.
            row_words: words of a row.
        """
        self._ask(builder, self.sent + units)
        builder.emit(PARAMETERS.infeed(units, self.sent, destination, row_words))
        # A fence in front of the infeed, if there is one, does not wait for it.
        self._not_served(builder)
        self.sent += units
        self.prefetch(builder)

    def prefetch(self, builder: Builder) -> None:
        """Ask for the next operand, as far as the buffer holds it.

        One descriptor is left for what is needed before anything else can go on.
        """
        if not self.complete and len(self._not_served(builder)) < MOST_OPEN - 1:
            end = self._ends[bisect_right(self._ends, self.sent)]
            self._ask(builder, min(end, self.sent + AHEAD))

    def _not_served(self, builder: Builder) -> list[int]:
        """Ends of the descriptors that are open.

        All infeeds so far were emitted before this is asked again: if the scalar core has waited
        for infeeds since the last time, it has for all of them.
        """
        if self._awaited != builder.infeeds_awaited:
            self._awaited = builder.infeeds_awaited
            self._open = [end for end in self._open if end > self.sent]
        return self._open

    def _ask(self, builder: Builder, end: int) -> None:
        """Ask for all units before a position."""
        while self.asked < end:
            if len(self._not_served(builder)) == MOST_OPEN:
                builder.emit(ScalarFence(idle=RING_STREAMS))
                self._not_served(builder)
            index = bisect_right(self._ends, self.asked)
            name, size = self.operands[index]
            units = min(end, self._ends[index]) - self.asked
            offset = self.asked - (self._ends[index] - size)
            builder.descriptor(
                DescriptorTag.PARAMETERS,
                units * UNIT_BYTES,
                SymbolKind.PARAMETERS,
                offset=offset * UNIT_BYTES,
                operand=name,
            )
            builder.emit(PARAMETERS.pop(units, self.asked))
            self.asked += units
            self._open.append(self.asked)
