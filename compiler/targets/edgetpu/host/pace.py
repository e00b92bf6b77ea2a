"""How long does what comes from the host, and what goes there, take?

Figures are cycles at the highest clock behind the default host, a Jetson Nano on USB 3. The code
generator decides by what a transfer takes if nothing else is under way. `Traffic` adds what
precedes it: what the link still has to bring, and what the host still has to read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import UNIT
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import LANES, TILES, WORD
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import LARGE_TRANSFER, LIBEDGETPU

_HOST, _DRIVER = BEAGLE.hosts["jetson_nano_10w_usb3"], BEAGLE.drivers[LIBEDGETPU]
_TIMING = BEAGLE.timing
_MHZ = BEAGLE.clocks["max"].core_mhz

ARRIVAL = _MHZ / _HOST.link
"""Cycles of a byte of an input, or of instructions, on the link."""

_STREAMED = _MHZ / _HOST.stream
"""Cycles of a byte of parameters on the link."""

READING = _DRIVER.output_byte(_HOST) * _MHZ / 1000
"""Cycles of a byte of an output that the host reads."""

HELD = READING * _TIMING.host_fifo
"""Cycles in which the host reads what waits on the chip at most; the chip computes meanwhile."""

INSTRUCTIONS = 2500
"""Cycles in which the instructions of a layer arrive; each strip has its own."""

_BUFFERED = _TIMING.activation_unit / UNIT
"""Cycles of a byte between the ring and the buffer of inputs or outputs."""

_TAKEN = _TIMING.ring_row + _TIMING.chunk_latency + _TIMING.phase
"""Cycles from the last row of an input on the ring to the next phase."""


def arriving(pixels: int, channels: int) -> float:
    """Estimated cycles until all tiles have their parts of an input, if the link is idle.

    Args:
        pixels: pixels of the tile that takes most; all count as many.
        channels: bytes of a pixel.
    """
    return ARRIVAL * TILES * pixels * channels + _TAKEN


def taking(nbytes: int) -> float:
    """Estimated cycles in which bytes of an input that wait on the chip go to the tiles."""
    return _BUFFERED * nbytes


def taken(words: int) -> float:
    """Estimated cycles from the last byte of an input to the next phase.

    Args:
        words: words that a tile has to unpack and to copy then.
    """
    return _TAKEN + (_TIMING.conversion_word + _TIMING.op_step) * words


def sending(rows: int, relayed: int = 0) -> float:
    """Estimated cycles until tiles have sent their parts of an output, if the host keeps up.

    Args:
        rows: rows of the ring; one that is not full takes as long.
        relayed: words that then go through the scalar core.
    """
    return _BUFFERED * LANES * WORD * rows + _TIMING.scalar_bundle * relayed + _TIMING.phase


def sent_rows(pixels: int, words: int) -> int:
    """Rows of the ring that all tiles send.

    Args:
        pixels: pixels of the tile that has most; all count as many.
        words: words of a pixel, of four bytes.
    """
    return TILES * -(-pixels * words // LANES)


def sent(pixels: int, words: int) -> int:
    """Bytes of the pixels that all tiles send."""
    return TILES * pixels * words * WORD


def blocked(nbytes: int) -> float:
    """Estimated cycles that the chip waits for a host that has read everything before."""
    return max(0.0, READING * nbytes - HELD)


@dataclass(slots=True)
class _Reading:
    """Bytes that the host reads one after the other.

    Attributes:
        end: bytes that the chip had for the host, up to the last of these.
        rate: cycles after which a byte makes room for another; 0 if all do at once.
        time: cycle at which the host has read them all.
    """

    end: int
    rate: float
    time: float = 0.0


@dataclass(slots=True)
class Traffic:
    """What the link has brought and the host has read, as far as a program has run.

    The host sends transfers in order, no more than a fifo ahead of what the chip takes. It prepares
    the next one meanwhile. It reads outputs in order, and the chip waits once a fifo of them has
    not been read.

    Attributes:
        arrived: cycle at which the last byte of all transfers so far is there.
        prepared: cycle at which the host has prepared them.
        read: cycle at which the host has read all outputs so far.
        offered: bytes of these outputs.
    """

    arrived: float = 0.0
    prepared: float = 0.0
    read: float = 0.0
    offered: int = 0
    _reading: deque[_Reading] = field(default_factory=deque)
    _sent: int = 0
    _asked: deque[tuple[int, float]] = field(default_factory=deque)
    _pause: float = 0.0

    @classmethod
    def after(cls, nbytes: int) -> Traffic:
        """What follows the first chunk of instructions, which is there at cycle 0.

        Args:
            nbytes: bytes of the chunk; the host prepares what follows while they move.
        """
        return cls(prepared=-ARRIVAL * nbytes, _pause=_pause(nbytes))

    def instructions(self, nbytes: int) -> float:
        """A chunk is sent, which the chip takes as it comes; returns the cycle when it is there."""
        arrived = self._move(nbytes, ARRIVAL, _HOST.prepare_instructions)
        self._pause = _pause(nbytes)
        return arrived

    def input(self, nbytes: int, asked: float) -> float:
        """The chip takes an input from a cycle on; returns the cycle when all of it is there.

        Args:
            nbytes: bytes of the input.
            asked: cycle when the chip asks for them; those that no fifo holds come after that.
        """
        self._asked.append((self._sent, asked))
        return self._move(nbytes, ARRIVAL, _HOST.prepare)

    def parameters(self, nbytes: int, asked: float) -> float:
        """The same of parameters."""
        self._asked.append((self._sent, asked))
        return self._move(nbytes, _STREAMED, _HOST.prepare)

    def output(self, nbytes: int, first: float, last: float) -> float:
        """The chip has bytes for the host; returns the cycle when the last one has left.

        Args:
            nbytes: how many.
            first: cycle of the first one.
            last: cycle of the last one, if there is room for it.
        """
        self._read(_Reading(self.offered + nbytes, READING), nbytes, first, last)
        return max(last, self._room())

    def whole(self, nbytes: int, there: float) -> None:
        """The scalar core has bytes for the host, which make room when all of them are read.

        It does not wait for room.

        Args:
            nbytes: how many.
            there: cycle when it has them all.
        """
        self._read(_Reading(self.offered + nbytes, 0.0), nbytes, there, there)

    def _read(self, reading: _Reading, nbytes: int, first: float, last: float) -> None:
        self.offered += nbytes
        self.read = max(max(self.read, first) + READING * nbytes, last)
        reading.time = self.read
        self._reading.append(reading)

    def _room(self) -> float:
        """The cycle when all that was offered, but for a fifo, has been read."""
        over = self.offered - _TIMING.host_fifo
        while self._reading[0].end < over:
            self._reading.popleft()
        reading = self._reading[0]
        return reading.time - reading.rate * (reading.end - over) if over > 0 else 0.0

    def _move(self, nbytes: int, rate: float, prepare: float) -> float:
        if nbytes > LARGE_TRANSFER:
            self.prepared += prepare * nbytes * _MHZ / 1000
        self.arrived = max(self.arrived, self.prepared) + self._pause + rate * nbytes
        self._pause = 0.0
        self._sent += nbytes
        while self._asked and (over := self._sent - self._asked[0][0] - _TIMING.host_fifo) > 0:
            # What is more than a fifo waits until the chip takes what is before it.
            _, asked = self._asked.popleft()
            self.arrived = max(self.arrived, asked + rate * over)
        return self.arrived


def _pause(nbytes: int) -> float:
    """Cycles for which the port pauses after a chunk of instructions."""
    return _TIMING.long_chunk_pause * _MHZ if nbytes > _TIMING.long_chunk else 0.0
