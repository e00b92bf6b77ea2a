"""How long does what comes from the host, and what goes there, take?

The figures are cycles at the highest clock behind the default host, a Jetson Nano on USB 3
(`BEAGLE.hosts`). They only have to tell what a program waits for: its own work, or the host.
"""

from __future__ import annotations

from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, WORD
from fitzroy.hw_models.chips.beagle import BEAGLE

ARRIVAL = 1.25
"""Cycles of a byte of an input on the link: 2.5 ns."""

READING = 11.0
"""Cycles of a byte of an output that the host reads: 22 ns."""

HELD = READING * BEAGLE.timing.host_fifo
"""Cycles in which the host reads what waits on the chip at most; the chip computes meanwhile."""

INSTRUCTIONS = 2500
"""Cycles in which the instructions of a layer arrive; each strip has its own."""

_SENDING = 0.25
"""Cycles of a byte of an output from the tiles to the buffer: the ring moves four in a cycle."""

_REQUESTED, _OFFERED = 1200.0, 670.0
"""Further cycles of an input, and of an output, for requests and barriers: what the timing model
takes for a few bytes."""


def arriving(pixels: int, channels: int) -> float:
    """Estimated cycles until all tiles have their parts of an input.

    Args:
        pixels: pixels of the tile that takes most; all count as many.
        channels: bytes of a pixel.
    """
    return ARRIVAL * TILES * pixels * channels + _REQUESTED


def sending(pixels: int, words: int) -> float:
    """Estimated cycles until all tiles have sent their parts of an output, if the host keeps up.

    Args:
        pixels: pixels of the tile that has most; all count as many.
        words: words of a pixel, of four bytes.
    """
    return _SENDING * sent(pixels, words) + _OFFERED


def sending_vector(nbytes: int) -> float:
    """Estimated cycles until a vector of so many bytes has been sent, one byte a cycle."""
    return nbytes + _OFFERED


def sent(pixels: int, words: int) -> int:
    """Bytes of the pixels that all tiles send."""
    return TILES * pixels * words * WORD


def blocked(nbytes: int) -> float:
    """Estimated cycles that the chip waits for a host that has read everything before."""
    return max(0.0, READING * nbytes - HELD)
