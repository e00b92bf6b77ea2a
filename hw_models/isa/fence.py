"""Fences: where tiles and the scalar core wait."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.bits import Flag, Series, Signed, Unsigned, bits
from fitzroy.hw_models.isa.fields import (
    SCALAR_FLAGS,
    STREAM_ENGINES,
    TILE_ENGINES,
    TILE_FLAGS,
    TILES,
    UNKNOWN,
    Opcode,
)
from fitzroy.hw_models.isa.instruction import Instruction, operation


@dataclass(frozen=True, slots=True)
class TileFence(Instruction):
    """Executed by a tile's dispatcher: wait for engines and ring tokens, set flags, signal.

    Later instructions of the tile are not dispatched before it completes.
    """

    width = 128
    unit = "tile dispatcher"

    op: Opcode = operation(Opcode.TILE_FENCE)
    tiles: int = bits(12, TILES, "tiles that execute it")
    seq: int = bits(28, Unsigned(16), "number of the tile instruction, modulo 65,536")
    set: int = bits(44, TILE_FLAGS, "flags that become `value` after the wait")
    value: int = bits(63, Signed(16), "value of the flags that are set")
    idle: int = bits(79, TILE_ENGINES, "engines to wait for: queue empty, last one finished")
    wait_ring_a: bool = bits(89, Flag(), "wait until RING_PRODUCER_A >= ring_threshold")
    wait_ring_b: bool = bits(90, Flag(), "wait until RING_PRODUCER_B >= ring_threshold")
    ring_threshold: int = bits(91, Unsigned(16), "ring tokens to wait for")
    signal: bool = bits(107, Flag(), "set this tile's done bit in the scalar core")
    end: int = bits(109, Unsigned(2), "3 in the last fence of a program", evidence=UNKNOWN)


@dataclass(frozen=True, slots=True)
class ScalarFence(Instruction):
    """The scalar core waits for tiles, stream engines and flags, then clears and sets."""

    width = 2 * 128
    unit = "scalar core"

    op: Opcode = operation(Opcode.SCALAR_FENCE)
    clear: int = bits(12, TILES, "tile-done bits cleared after the wait")
    set: int = bits(32, SCALAR_FLAGS, "flags that become `value` after the wait")
    value: int = bits(41, Signed(16), "value of the flags that are set")
    wait_tiles: bool = bits(57, Flag(), "wait for the done bits of `tiles`")
    tiles: int = bits(73, TILES, "tiles whose done bits are awaited")
    thresholds: tuple[int, ...] = bits(
        93, Series(Signed(16), 9), "value that each flag must reach", group="thresholds"
    )
    wait: int = bits(237, SCALAR_FLAGS, "flags that must reach their thresholds")
    idle: int = bits(246, STREAM_ENGINES, "stream engines that must be idle")
