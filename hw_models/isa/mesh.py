"""Mesh bus: words from a tile to its neighbour."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.bits import Flag, Optional, Series, Unsigned, bits
from fitzroy.hw_models.isa.fields import RING_WATCHER, Opcode, Producer, ProducerCodec, Watcher
from fitzroy.hw_models.isa.instruction import TileInstruction, operation
from fitzroy.hw_models.isa.traversal import WIDE, Traversal


@dataclass(frozen=True, slots=True)
class Mesh(TileInstruction):
    """Sends words in one direction and receives those of the neighbour on the other side.

    Both halves run concurrently; the instruction retires when both are done. A half that is
    absent does nothing.
    """

    width = 6 * 128
    unit = "mesh engines"

    op: Opcode = operation(
        Opcode.MESH_SOUTHWARD, Opcode.MESH_WESTWARD, Opcode.MESH_NORTHWARD, Opcode.MESH_EASTWARD
    )
    send: Traversal | None = bits(62, Optional(WIDE), "words sent", unit="narrow word")
    receive: Traversal | None = bits(
        267, Optional(WIDE), "where words received or filled go", unit="narrow word"
    )
    sent: Producer | None = bits(
        473, ProducerCodec(3), "MESH_*_OUT += 1 per completed iteration of this level of send"
    )
    received: Producer | None = bits(
        477, ProducerCodec(3), "MESH_*_IN += 1 per completed iteration of this level of receive"
    )
    wait: tuple[Watcher | None, ...] = bits(
        481, Series(RING_WATCHER, 6), "wait conditions; read side gates send, write side receive"
    )
    fill: bool = bits(727, Flag(), "the receive half writes `fill_word` instead")
    fill_word: int = bits(728, Unsigned(32, hexadecimal=True), "word to fill with")
