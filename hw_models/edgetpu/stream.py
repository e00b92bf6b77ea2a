"""Stream units of the scalar core: pops, infeed and outfeed, with their buffers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.latitude import Latitude
from fitzroy.hw_models.edgetpu.ring import Ring
from fitzroy.hw_models.edgetpu.sequence import Gate, Numbers, gates, passed, places, sequence
from fitzroy.hw_models.edgetpu.unknown import KNOWN, by_byte, by_word
from fitzroy.hw_models.isa.fields import ScalarFlag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory

WORD_BYTES = BEAGLE.memories.scalar.element_bytes
HOST_UNIT_BYTES = BEAGLE.limits.host_output_unit
FIFO_WORDS = BEAGLE.scalar.fifo_words


class StreamCore(Protocol):
    """What stream units see of the machine."""

    latitude: Latitude

    def reach(self, plan: StreamPlan, position: int) -> int:
        """How far a unit may go from a position, as far as flags are concerned."""
        ...

    def count_scalar(self, flag: int, increment: int) -> None:
        """Increment a flag of the scalar core."""
        ...

    def token(self, channel: int, increment: int) -> None:
        """Increment the token counters of a ring channel."""
        ...

    def read_words(self, address: int, count: int) -> tuple[Array, Array]:
        """Words of the scalar core's memory, uint32[images or 1, count], and their marks."""
        ...

    def write_words(self, addresses: Array, words: Array, known: Array) -> None:
        """Write words, uint32[images or 1, count], of the scalar core's memory, and their marks."""
        ...

    def to_host(self, data: Array, known: Array) -> None:
        """Append bytes, uint8[images or 1, count], to the output stream, with the mark of each."""
        ...


class HostQueue:
    """Bytes that the host has sent and no pop has taken; 1 row, or one for each image."""

    def __init__(self) -> None:
        self._parts: deque[Array] = deque()
        self.size = 0

    @property
    def parts(self) -> int:
        """Transfers of which bytes are left."""
        return len(self._parts)

    def push(self, data: Array) -> None:
        """Append bytes, uint8[images or 1, count]."""
        if data.shape[1]:
            self._parts.append(data)
            self.size += data.shape[1]

    def take(self, count: int) -> Array:
        """The next bytes; there must be so many."""
        parts = []
        self.size -= count
        while count:
            part = self._parts.popleft()
            if part.shape[1] > count:
                self._parts.appendleft(part[:, count:])
                part = part[:, :count]
            parts.append(part)
            count -= part.shape[1]
        return joined(parts)


def joined(parts: Sequence[Array]) -> Array:
    """Bytes or words one after the other, [images or 1, count].

    What all images share becomes that of each where others differ.
    """
    if len(parts) == 1:
        return parts[0]
    images = max(len(part) for part in parts)
    return np.concatenate(
        [np.broadcast_to(part, (images, part.shape[1])) for part in parts], axis=1
    )


@dataclass(eq=False, slots=True)
class StreamPlan:
    """A stream instruction with its element order.

    Attributes:
        addresses: buffer address of each unit.
        gates: watchers, at positions of units.
        ends: positions at which the unit's flag counts.
        tokens: positions at which the ring token counts.
    """

    addresses: Array
    gates: tuple[Gate, ...]
    ends: Numbers | None
    tokens: Numbers | None = None

    def limit(self, flags: list[int], position: int) -> int:
        """How far the unit may go as far as flags are concerned."""
        end = len(self.addresses)
        for gate in self.gates:
            end = min(end, gate.limit(flags[gate.flag], position))
        return end


MOST_UNITS = 1 << 19
"""Most units of a stream instruction; the longest of compiled models, of 8 MB, has 114,688."""


def stream_plan(instruction: Pop | Infeed | Outfeed) -> StreamPlan:
    """The element order of a stream instruction.

    Raises:
        SimulationError: it moves more than `MOST_UNITS`.
    """
    count = math.prod(dim.count for dim in instruction.buffer.dims)
    if count > MOST_UNITS:
        raise SimulationError(
            f"{instruction.op.name.lower()} moves {count} units",
            reason=f"at most {MOST_UNITS} are simulated",
        )
    units = sequence(instruction.buffer)
    token = None
    match instruction:
        case Pop():
            producer = instruction.popped
        case Infeed():
            producer, token = instruction.infed, instruction.token
        case Outfeed():
            producer = instruction.outfed
    return StreamPlan(
        units.addresses,
        gates((watcher, units) for watcher in instruction.wait),
        places(units.ends(producer.level)) if producer is not None and producer.valid else None,
        places(units.ends(token.level)) if token is not None and token.valid else None,
    )


class StreamBuffer:
    """A buffer between host and ring.

    Attributes:
        data: uint8[images, units, bytes].
        known: bool[units], what has been filled.
        shared: bool[units], what is the same for all images.
    """

    def __init__(self, images: int, units: int, unit_bytes: int) -> None:
        self.data = np.zeros((images, units, unit_bytes), np.uint8)
        self.shared = np.zeros(units, bool)
        self.known = np.zeros(units, bool)


class PopUnit:
    """Moves units of one host queue into its buffer."""

    def __init__(self, core: StreamCore, memory: PopMemory, images: int) -> None:
        parameters = memory is PopMemory.PARAMETER
        size = BEAGLE.memories.parameter_buffer if parameters else BEAGLE.memories.activation_buffer
        self._core = core
        self._flag = ScalarFlag.PARAMETER_POP if parameters else ScalarFlag.AVDATA_POP
        self.queue = HostQueue()
        self.buffer = StreamBuffer(images, size.elements, size.element_bytes)

    def advance(self, instruction: Pop, plan: StreamPlan, position: int) -> int:
        """Pop as many units as credits and the host permit; returns the position."""
        _, units, unit = self.buffer.data.shape
        end = self._core.reach(plan, position)
        # Units that are overwritten must have been infed: one buffer full at a time.
        end = min(end, position + self.queue.size // unit, position + units)
        if end > position:
            data = self.queue.take((end - position) * unit)
            target = plan.addresses[position:end] % units
            self.buffer.data[:, target] = data.reshape(len(data), -1, unit)
            self.buffer.shared[target] = len(data) == 1
            self.buffer.known[target] = True
            self._core.count_scalar(self._flag, passed(plan.ends, position, end))
        return end


class InfeedUnit:
    """Reads units, collects rows, and sends them over the ring."""

    _FLAGS = (
        ScalarFlag.PARAMETER_INFEED,
        ScalarFlag.AVDATA_INFEED,
        ScalarFlag.SCALAR_INFEED,
    )

    def __init__(self, core: StreamCore, ring: Ring, buffers: dict[int, StreamBuffer]) -> None:
        self._core = core
        self._ring = ring
        self._buffers = buffers
        # Bytes of a row that is not complete, and their marks.
        self._row = np.zeros((1, 0), np.uint8)
        self._known = np.zeros(0, np.int16)

    def advance(self, instruction: Infeed, plan: StreamPlan, position: int) -> int:
        """Send as many units as flags permit; returns the position."""
        end = self._core.reach(plan, position)
        if end <= position:
            return position
        if instruction.to_outfeed:
            raise SimulationError("an infeed to the outfeed is not known to exist")
        if instruction.memory is InfeedMemory.SCALAR:
            end, data, known = self._scalar(plan, position, end)
        else:
            buffer = self._buffers[instruction.memory]
            if self._core.latitude.plain_counters:
                _wrap_once(plan.addresses[position:end], len(buffer.known))
            source = plan.addresses[position:end] % len(buffer.known)
            if not buffer.known[source].all():
                raise SimulationError("the infeed reads a stream buffer that was never filled")
            images = 1 if buffer.shared[source].all() else len(buffer.data)
            data = buffer.data[:images, source].reshape(images, -1)
            known = np.full(data.shape[1], KNOWN, np.int16)
        done = end == len(plan.addresses)
        data = joined([self._row, data]) if len(self._known) else data
        known = np.concatenate([self._known, known])
        size = WORD_BYTES * instruction.row_words
        whole = len(known) // size * size
        if whole:
            self._send(instruction, data[:, :whole], known[:whole], size)
        self._row, self._known = data[:, whole:], known[whole:]
        if done and len(self._known):
            self._send(instruction, self._row, self._known, len(self._known))
            self._row, self._known = self._row[:, :0], self._known[:0]
        self._core.count_scalar(self._FLAGS[instruction.memory], passed(plan.ends, position, end))
        self._core.token(instruction.channel, passed(plan.tokens, position, end))
        return end

    def _scalar(self, plan: StreamPlan, position: int, end: int) -> tuple[int, Array, Array]:
        # The outfeed may go on after this: no more than the ring of words holds.
        end = min(end, position + FIFO_WORDS)
        source = plan.addresses[position:end] % FIFO_WORDS
        words, known = self._core.read_words(0, FIFO_WORDS)
        data = np.ascontiguousarray(words[:, source]).view(np.uint8)
        return end, data, by_byte(known[source]).reshape(-1)

    def _send(self, instruction: Infeed, data: Array, known: Array, size: int) -> None:
        """Send rows of `size` bytes."""
        words = np.ascontiguousarray(data).reshape(len(data), -1, size).view("<u4")
        sure = None if known.min() == KNOWN else by_word(known).reshape(words.shape[1:])
        self._ring.send(instruction.channel, instruction.destination, words, sure)


def _wrap_once(addresses: Array, size: int) -> None:
    """Refuse addresses that are in a buffer only after they wrapped twice.

    Raises:
        SimulationError: names the address and the buffer's size.
    """
    highest = int(addresses.max())
    if highest >= 2 * size:
        raise SimulationError(
            f"an infeed reads unit {highest} of its buffer",
            reason=f"it has {size}, and addresses wrap once",
        )


class OutfeedUnit:
    """Takes rows from the ring to the host or to the memory of the scalar core."""

    def __init__(self, core: StreamCore, ring: Ring) -> None:
        self._core = core
        self._ring = ring
        # Bytes that have arrived and make no whole unit, and their marks.
        self._row = np.zeros((1, 0), np.uint8)
        self._known = np.zeros(0, np.int16)

    def advance(self, instruction: Outfeed, plan: StreamPlan, position: int) -> int:
        """Take as many units as have arrived; returns the position."""
        unit = HOST_UNIT_BYTES if instruction.to_host else WORD_BYTES
        end = self._core.reach(plan, position)
        size = WORD_BYTES * instruction.row_words
        wanted = (end - position) * unit - len(self._known)
        rows = -(-max(wanted, 0) // size)
        while rows and self._ring.outfeed:
            message = self._ring.outfeed[0]
            taken = min(rows, message.left)
            part = message.words[:, message.taken : message.taken + taken]
            data = np.ascontiguousarray(part).reshape(len(part), -1).view(np.uint8)
            self._row = joined([self._row, data]) if len(self._known) else data
            if message.known is None:
                sure = np.full(data.shape[1], KNOWN, np.int16)
            else:
                sure = by_byte(message.known[message.taken : message.taken + taken]).reshape(-1)
            self._known = np.concatenate([self._known, sure])
            message.taken += taken
            rows -= taken
            if not message.left:
                self._ring.outfeed.popleft()
        end = min(end, position + len(self._known) // unit)
        if end <= position:
            return position
        size = (end - position) * unit
        data, known = self._row[:, :size], self._known[:size]
        self._row, self._known = self._row[:, size:], self._known[size:]
        if instruction.to_host:
            self._core.to_host(data, known)
        else:
            target = plan.addresses[position:end]
            self._core.write_words(
                target % FIFO_WORDS if plan.gates else target,
                np.ascontiguousarray(data).view("<u4"),
                by_word(known),
            )
        if end == len(plan.addresses):
            # The unused end of the last row is dropped.
            self._row, self._known = self._row[:, :0], self._known[:0]
        self._core.count_scalar(ScalarFlag.RING_OUTFEED, passed(plan.ends, position, end))
        return end
