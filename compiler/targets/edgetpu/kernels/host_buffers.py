"""Host I/O: buffers between the host and the ring, and what goes from the ring to the host."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.instructions.sync import counted
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import LANES
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.fields import Producer, ScalarFlag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.units import infeed_units, outfeed_units, pop_units

UNIT = BEAGLE.memories.activation_buffer.element_bytes
"""Bytes of a unit of inputs and outputs."""

AHEAD = BEAGLE.memories.parameter_buffer.elements - 4
"""Units of parameters that may be in their buffer, as in compiled programs."""

_EACH, _ALL = Producer(0), Producer(1)
"""Count units, or all of them together."""


@dataclass(frozen=True, slots=True)
class HostBuffer:
    """A buffer that a pop fills with units from the host, and an infeed empties to the ring.

    Attributes:
        filled: where pops put units.
        emptied: where infeeds take them.
        popped: counts units that are there.
        infed: counts units that have left.
        ahead: units that may be there, beside the credit with which `infed` begins.
    """

    filled: PopMemory
    emptied: InfeedMemory
    popped: ScalarFlag
    infed: ScalarFlag
    ahead: int = 0

    def pop(self, units: int, position: int, again: int = 0) -> Pop:
        """Take units of the host into the buffer, from a position of its stream on.

        Args:
            units: how many.
            position: units of the stream before them.
            again: how many of those infeeds have sent twice.
        """
        return Pop(
            memory=self.filled,
            buffer=pop_units(self.filled, units, position),
            popped=_EACH,
            wait=(counted(self.infed, position + again - self.ahead),),
        )

    def infeed(self, units: int, position: int, tiles: int, row_words: int = LANES) -> Infeed:
        """Send units to tiles as they come.

        Args:
            units: how many.
            position: units of the stream before them.
            tiles: mask of the tiles that receive their rows.
            row_words: words of a row.
        """
        return Infeed(
            memory=self.emptied,
            buffer=infeed_units(self.emptied, units, position),
            infed=_EACH,
            wait=(counted(self.popped, position + 1), None),
            destination=tiles,
            row_words=row_words,
        )


ACTIVATIONS = HostBuffer(
    PopMemory.ACTIVATION,
    InfeedMemory.ACTIVATION,
    ScalarFlag.AVDATA_POP,
    ScalarFlag.AVDATA_INFEED,
)
PARAMETERS = HostBuffer(
    PopMemory.PARAMETER,
    InfeedMemory.PARAMETER,
    ScalarFlag.PARAMETER_POP,
    ScalarFlag.PARAMETER_INFEED,
    AHEAD,
)


def to_host(units: int) -> Outfeed:
    """Send units of the message that is on the ring to the host."""
    return Outfeed(buffer=outfeed_units(units), outfed=_ALL, to_host=True, row_words=LANES)
