"""Parameters that the host sends with every inference.

All of them are one stream of units, in the order in which layers send them on to the tiles. The
chip asks for what a layer still lacks when its consumers are there. Behind that it asks for the
begin of what is needed next, no more than the buffer holds: that may come at any time, and never
keeps the host from anything else that the program wants of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from fitzroy.compiler.targets.edgetpu.codegen.builder import Builder
from fitzroy.compiler.targets.edgetpu.codegen.sync import counted
from fitzroy.formats.object_file import UNIT_BYTES, SymbolKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.fields import Producer, ScalarFlag
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Pop, PopMemory
from fitzroy.hw_models.isa.traversal import BUFFER, INFEED_BUFFER, Traversal, traversal

_BUFFER_UNITS = BEAGLE.memories.parameter_buffer.elements
_BLOCK_UNITS = _BUFFER_UNITS // 2
AHEAD = _BUFFER_UNITS - 4
"""Units that may be in the buffer, as in compiled programs."""


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
        builder.emit(
            Infeed(
                memory=InfeedMemory.PARAMETER,
                buffer=_units(self.sent, units, INFEED_BUFFER.rank),
                infed=Producer(0),
                wait=(counted(ScalarFlag.PARAMETER_POP, self.sent + 1), None),
                destination=destination,
                row_words=row_words,
            )
        )
        self.sent += units
        self.prefetch(builder)

    def prefetch(self, builder: Builder) -> None:
        """Ask for the next operand, as far as the buffer holds it."""
        if not self.complete:
            end = self._ends[bisect_right(self._ends, self.sent)]
            self._ask(builder, min(end, self.sent + AHEAD))

    def _ask(self, builder: Builder, end: int) -> None:
        """Ask for all units before a position."""
        while self.asked < end:
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
            builder.emit(
                Pop(
                    memory=PopMemory.PARAMETER,
                    buffer=_units(self.asked, units, BUFFER.rank),
                    popped=Producer(0),
                    wait=(counted(ScalarFlag.PARAMETER_INFEED, self.asked - AHEAD),),
                )
            )
            self.asked += units


def _units(position: int, units: int, rank: int) -> Traversal:
    """Units of the stream in a buffer that they may be longer than."""
    blocks = -(-units // _BLOCK_UNITS)
    rest = units - (blocks - 1) * _BLOCK_UNITS
    base = position % _BUFFER_UNITS
    if blocks == 1:
        return traversal(base, [(units, 1)], rank=rank)
    return traversal(
        base,
        [(_BLOCK_UNITS, 1), (blocks, 0)],
        rank=rank,
        ping_pong=(1, _BLOCK_UNITS),
        part=(rest, 1) if rest != _BLOCK_UNITS else None,
    )
