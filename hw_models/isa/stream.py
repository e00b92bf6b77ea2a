"""Stream units of the scalar core: between host queues, ring and stream buffers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fitzroy.base.bits import Choice, Count, Flag, Series, Unsigned, bits
from fitzroy.hw_models.isa.fields import (
    STREAM_WATCHER,
    TILES,
    UNKNOWN,
    Opcode,
    Producer,
    ProducerCodec,
    Watcher,
)
from fitzroy.hw_models.isa.instruction import Instruction, operation
from fitzroy.hw_models.isa.traversal import BUFFER, INFEED_BUFFER, Traversal


class PopMemory(IntEnum):
    """Stream buffer that a pop fills."""

    PARAMETER = 0
    ACTIVATION = 1


class InfeedMemory(IntEnum):
    """What an infeed reads: units of 64, 8 and 4 bytes."""

    PARAMETER = 0
    ACTIVATION = 1
    SCALAR = 2


@dataclass(frozen=True, slots=True)
class Pop(Instruction):
    """Moves units of a host queue into their stream buffer."""

    width = 2 * 128
    unit = "pop units"

    op: Opcode = operation(Opcode.POP)
    memory: PopMemory = bits(12, Choice(PopMemory, 1), "units of 64 bytes, or of 8")
    buffer: Traversal = bits(13, BUFFER, "where units go, modulo the size", unit="buffer unit")
    popped: Producer | None = bits(
        174, ProducerCodec(2), "AVDATA_POP or PARAMETER_POP += 1 per unit"
    )
    wait: tuple[Watcher | None, ...] = bits(
        177, Series(STREAM_WATCHER, 1), "credit: AVDATA_INFEED or PARAMETER_INFEED"
    )


@dataclass(frozen=True, slots=True)
class Infeed(Instruction):
    """Reads units of a stream buffer and sends them to tiles in rows of the ring."""

    width = 4 * 128
    unit = "infeed"

    op: Opcode = operation(Opcode.INFEED)
    memory: InfeedMemory = bits(12, Choice(InfeedMemory, 2), "units of 64, 8 or 4 bytes")
    buffer: Traversal = bits(
        14, INFEED_BUFFER, "units read, modulo the size of the buffer", unit="buffer unit"
    )
    token: Producer | None = bits(
        308, ProducerCodec(2), "PRODUCER_A token; only of scalar memory, per block of 64 words"
    )
    infed: Producer | None = bits(
        311, ProducerCodec(2), "AVDATA_, PARAMETER_ or SCALAR_INFEED += 1 per unit"
    )
    wait: tuple[Watcher | None, ...] = bits(
        314, Series(STREAM_WATCHER, 2), "unit present; turn on the ring"
    )
    constant1: bool = bits(392, Flag(), "set in all instances", default=True, evidence=UNKNOWN)
    channel: int = bits(408, Unsigned(1), "channel of the ring; 0, A, in all instances")
    destination: int = bits(409, TILES, "tiles that receive the rows")
    to_outfeed: bool = bits(425, Flag(), "never set")
    row_words: int = bits(434, Count(6), "words per row of the ring: lanes of a wide row")


@dataclass(frozen=True, slots=True)
class Outfeed(Instruction):
    """Takes rows from the ring to the host, or to the memory of the scalar core."""

    width = 2 * 128
    unit = "outfeed"

    op: Opcode = operation(Opcode.OUTFEED)
    buffer: Traversal = bits(
        12, BUFFER, "scalar memory words; only the count matters to the host", unit="buffer unit"
    )
    outfed: Producer | None = bits(173, ProducerCodec(2), "RING_OUTFEED += 1")
    wait: tuple[Watcher | None, ...] = bits(176, Series(STREAM_WATCHER, 1), "room in scalar memory")
    row_words: int = bits(222, Count(6), "words per row; 64 in all instances")
    to_host: bool = bits(228, Flag(), "units of 8 bytes to the host, not words to memory")
