"""Inputs that the host sends: a stream of pieces, which run ahead of what tiles take.

All pieces go through the buffer of activations. While layers compute, the scalar core asks for the
next piece as soon as the one before is there and the buffer has room for it, so that the link does
not stand still. One request is open at a time, as in published programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.instructions.builder import RING_STREAMS, Builder
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import ACTIVATIONS, UNIT
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Interval
from fitzroy.formats.object_file import SymbolKind
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.fields import ScalarFlag, StreamEngine
from fitzroy.hw_models.isa.scalar import DescriptorTag

CREDIT = 32764
"""AVDATA_INFEED at the start of a stream: as much credit as compiled programs give, which is how
many units may wait in the buffer."""

_ALL_POPPED = RING_STREAMS | 1 << StreamEngine.AVDATA_POP
"""Stream engines, with the one that takes inputs from the host."""


def request(
    builder: Builder,
    units: Interval,
    name: str = "",
    kind: SymbolKind = SymbolKind.INPUT,
    *,
    position: int = 0,
    again: int = 0,
) -> None:
    """Ask the host for some units of an input, or of the scratch buffer.

    One such request is open at a time, as in published programs: the scalar core has waited until
    the one before was served.

    Args:
        builder: the program.
        units: the units, in the host's buffer.
        name: the input.
        kind: what the buffer is.
        position: units of the stream before the first one. At 0 it begins, once infeeds have sent
            everything before it; else it goes on, once everything before it is in the buffer.
        again: how many of those infeeds have sent twice.
    """
    begin, end = units
    if position:
        builder.emit(ScalarFence(idle=_ALL_POPPED))
    else:
        builder.set_scalar([ScalarFlag.AVDATA_INFEED], CREDIT)
        builder.set_scalar([ScalarFlag.AVDATA_POP], 0)
    builder.emit(ACTIVATIONS.pop(end - begin, position, again))
    builder.descriptor(DescriptorTag.INPUT, (end - begin) * UNIT, kind, name, begin * UNIT)


@dataclass(frozen=True, slots=True)
class Piece:
    """Units that the host sends on one request.

    Attributes:
        name: the input.
        units: the units, in the host's buffer.
        again: how many of them infeeds send twice, to different tiles.
    """

    name: str
    units: Interval
    again: int = 0

    @property
    def count(self) -> int:
        """How many units."""
        return self.units[1] - self.units[0]


@dataclass(slots=True)
class InputStream:
    """The inputs of a program under construction.

    Attributes:
        streams: pieces in the order in which tiles take them. Between two of these streams,
            something else goes through the buffer.
        stream: number of the stream that tiles take pieces of.
        asked: pieces of it that the host has been asked for.
        taken: pieces of it that infeeds send.
        requested: units of the pieces that were asked for.
        sent: units of the pieces that were taken.
        again: how many of these infeeds have sent twice.
    """

    streams: Sequence[Sequence[Piece]]
    stream: int = 0
    asked: int = 0
    taken: int = 0
    requested: int = 0
    sent: int = 0
    again: int = 0

    @property
    def complete(self) -> bool:
        """Whether everything has been taken."""
        return all(not some for some in self._left())

    def _left(self) -> list[Sequence[Piece]]:
        first, *others = self.streams[self.stream :] or [()]
        return [first[self.taken :], *others]

    def take(self, builder: Builder) -> int:
        """The next piece for infeeds to send; it is asked for if that was not done ahead.

        Returns:
            Units of the stream before it.
        """
        while self.taken == len(self.streams[self.stream]):
            self.stream += 1
            self.asked = self.taken = self.requested = self.sent = self.again = 0
        if self.asked == self.taken:
            self._ask(builder)
        before = self.sent
        piece = self.streams[self.stream][self.taken]
        self.sent += piece.count
        self.again += piece.again
        self.taken += 1
        return before

    def ahead(self, builder: Builder, count: int) -> None:
        """Ask for the next pieces of the stream, if it has begun.

        Args:
            builder: the program.
            count: how many; fewer if the buffer has no room for them, or the stream ends.
        """
        pieces = self.streams[self.stream] if self.taken else ()
        while self.asked < min(self.taken + count, len(pieces)):
            if self.requested + pieces[self.asked].count - self.sent > CREDIT:
                return
            self._ask(builder)

    def _ask(self, builder: Builder) -> None:
        piece = self.streams[self.stream][self.asked]
        builder.room(_REQUEST_BUNDLES)
        request(builder, piece.units, piece.name, position=self.requested, again=self.again)
        self.asked += 1
        self.requested += piece.count


_REQUEST_BUNDLES = 48
"""Bundles of a request."""
