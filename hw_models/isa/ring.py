"""Ring bus of a tile: producer and the two consumers."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.bits import Flag, Series, Unsigned, bits
from fitzroy.hw_models.isa.fields import (
    RING_WATCHER,
    TILES,
    Opcode,
    Producer,
    ProducerCodec,
    Watcher,
)
from fitzroy.hw_models.isa.instruction import TileInstruction, operation
from fitzroy.hw_models.isa.traversal import WIDE, Prefix, PrefixCodec, Traversal


@dataclass(frozen=True, slots=True)
class RingProduce(TileInstruction):
    """Sends wide rows over the ring to other tiles or to the scalar core."""

    width = 4 * 128
    unit = "ring producer"

    op: Opcode = operation(Opcode.RING_PRODUCE)
    wide: Traversal = bits(62, WIDE, "rows sent, always all 256 bytes", unit="wide row")
    prefix: Prefix | None = bits(267, PrefixCodec(2), "never enabled", unit="wide row")
    ring_write: Producer | None = bits(
        335, ProducerCodec(3), "RING_WRITE of this tile += 1: the rows may be overwritten"
    )
    token: Producer | None = bits(
        339,
        ProducerCodec(3),
        "ring token of the channel: RING_PRODUCER of all tiles and PRODUCER of the scalar "
        "core += 1",
    )
    wait: tuple[Watcher | None, ...] = bits(
        343, Series(RING_WATCHER, 2), "wait conditions; levels of `wide`"
    )
    channel: int = bits(466, Unsigned(1), "0: channel A, taken by ring_consume_a; 1: channel B")
    destination: int = bits(467, TILES, "tiles that receive the rows; may include the sender")
    to_outfeed: bool = bits(483, Flag(), "send to the scalar core, where an outfeed takes it")


@dataclass(frozen=True, slots=True)
class RingConsume(TileInstruction):
    """Stores rows that arrive on one channel of the ring."""

    width = 4 * 128
    unit = "ring consumers"

    op: Opcode = operation(Opcode.RING_CONSUME_A, Opcode.RING_CONSUME_B)
    wide: Traversal = bits(
        62, WIDE, "where each row goes; a row of fewer lanes fills the start", unit="wide row"
    )
    prefix: Prefix | None = bits(
        267, PrefixCodec(2), "rows of scales, biases and zero points", unit="wide row"
    )
    ring_read: Producer | None = bits(335, ProducerCodec(3), "RING_READ_A or RING_READ_B += 1")
    wait: tuple[Watcher | None, ...] = bits(
        339, Series(RING_WATCHER, 1), "wait condition; level of `wide`"
    )
