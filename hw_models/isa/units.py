"""Traversals of stream units, in the form that compilers give them.

A traversal of T units is two blocks of a stream buffer used in turn: an inner loop over the units
of a block, an outer loop over blocks that alternates between the two. The buffer of parameters has
two blocks of 1,024 units, that of activations two of 16,384, and the ring of scalar memory between
an outfeed and an infeed two of 64 words.

Facts: every pop, infeed and outfeed of published compiled models, reproduced bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fitzroy.base.errors import UsageError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.chip import Memory
from fitzroy.hw_models.isa.stream import InfeedMemory, PopMemory
from fitzroy.hw_models.isa.traversal import Dim, Traversal, traversal

_RANK = 3

MOST_OUTFEEDS = 16
"""Outfeeds to the host, or to scalar memory, that wait at a time in published programs."""

MOST_INFEEDS = 16
"""Infeeds of activations that wait at a time in published programs."""

MOST_PARAMETER_INFEEDS = 159
"""Infeeds of parameters that wait at a time in published programs."""

MOST_OUTFED = 1 << 14
"""Units of an outfeed to the host in published programs, at most: whole rows of the ring."""


class UnitForm(Enum):
    """How units that fit one block are written; both mean the same to the hardware."""

    BLOCKS = "blocks"
    """As one block out of two; runtime versions from 12 on."""

    SINGLE = "single"
    """As a plain loop; runtime version 10."""


@dataclass(frozen=True, slots=True)
class StreamBuffer:
    """A buffer between host queues and the ring, used as two blocks.

    Attributes:
        units: units that it holds; positions in the stream wrap here.
        unit_bytes: size of a unit, the smallest amount that moves.
    """

    units: int
    unit_bytes: int

    @property
    def block(self) -> int:
        """Units of a block."""
        return self.units // 2


def _buffer(memory: Memory) -> StreamBuffer:
    return StreamBuffer(memory.elements, memory.element_bytes)


PARAMETER_BUFFER = _buffer(BEAGLE.memories.parameter_buffer)
ACTIVATION_BUFFER = _buffer(BEAGLE.memories.activation_buffer)
SCALAR_FIFO = StreamBuffer(BEAGLE.scalar.fifo_words, BEAGLE.memories.scalar.element_bytes)

_POP_BUFFERS = {
    PopMemory.PARAMETER: PARAMETER_BUFFER,
    PopMemory.ACTIVATION: ACTIVATION_BUFFER,
}
_INFEED_BUFFERS = {
    InfeedMemory.PARAMETER: PARAMETER_BUFFER,
    InfeedMemory.ACTIVATION: ACTIVATION_BUFFER,
    InfeedMemory.SCALAR: SCALAR_FIFO,
}


def pop_units(
    memory: PopMemory, units: int, position: int = 0, form: UnitForm = UnitForm.BLOCKS
) -> Traversal:
    """Traversal of a pop.

    Args:
        memory: the buffer that it fills.
        units: units popped.
        position: units popped since the flag of the buffer was last reset.
        form: how few units are written.

    Raises:
        UsageError: there are no units.
    """
    # No published program pops a single unit as a block.
    return _units(_POP_BUFFERS[memory], units, position, UnitForm.SINGLE if units == 1 else form)


def infeed_units(
    memory: InfeedMemory, units: int, position: int = 0, form: UnitForm = UnitForm.BLOCKS
) -> Traversal:
    """Traversal of an infeed.

    Args:
        memory: what it reads.
        units: units read; words of scalar memory.
        position: units of the stream before the first one, since the flag of the buffer was last
            reset. The ring of scalar memory always begins at 0.
        form: how few units are written.

    Raises:
        UsageError: there are no units.
    """
    return _units(_INFEED_BUFFERS[memory], units, position, form)


def outfeed_units(units: int) -> Traversal:
    """Traversal of an outfeed to the host: a count and no addresses.

    Args:
        units: units of 8 bytes.

    Raises:
        UsageError: there are no units.
    """
    _check(units)
    # A single unit has a stride in all instances; it has no effect.
    stride = 1 if units == 1 else 0
    return Traversal(0, (Dim(units, stride), Dim(1, 0), Dim(1, 0)))


def outfeed_words(words: int, address: int = 0) -> Traversal:
    """Traversal of an outfeed to words of scalar memory that the scalar core reads.

    Args:
        words: words taken.
        address: first word.

    Raises:
        UsageError: there are no words.
    """
    _check(words)
    return traversal(address, [(words, 1)], rank=_RANK)


def outfeed_fifo(words: int, form: UnitForm = UnitForm.BLOCKS) -> Traversal:
    """Traversal of an outfeed to the ring of scalar memory that an infeed empties.

    Args:
        words: words taken.
        form: how few words are written.

    Raises:
        UsageError: there are no words.
    """
    return _units(SCALAR_FIFO, words, 0, form)


def _units(buffer: StreamBuffer, units: int, position: int, form: UnitForm) -> Traversal:
    _check(units)
    base = position % buffer.units
    block = buffer.block
    if form is UnitForm.SINGLE and units <= block:
        return traversal(base, [(units, 1)], rank=_RANK)
    ping_pong = (1, block)
    # One unit and one whole block have no partial last block.
    if units == 1:
        return traversal(base, [(1, 1)], rank=_RANK, ping_pong=ping_pong)
    blocks, rest = -(-units // block), units % block
    return traversal(
        base,
        [(block, 1), (blocks, 0)],
        rank=_RANK,
        ping_pong=ping_pong,
        part=(rest, 1) if rest else None,
    )


def _check(units: int) -> None:
    if units < 1:
        raise UsageError(f"a stream instruction moves {units} units; it needs at least one")
