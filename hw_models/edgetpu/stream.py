"""Stream units of the scalar core: pops, infeed and outfeed, with their buffers."""

from __future__ import annotations

import math
from collections import deque
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
        """Words of the scalar core's memory, uint32[count], and their marks."""
        ...

    def write_words(self, addresses: Array, words: Array, known: Array) -> None:
        """Write words of the scalar core's memory, with their marks."""
        ...

    def to_host(self, data: Array, known: Array) -> None:
        """Append bytes to the output stream, with the mark of each."""
        ...


class HostQueue:
    """Bytes that the host has sent and no pop has taken."""

    def __init__(self) -> None:
        self._parts: deque[Array] = deque()
        self.size = 0

    @property
    def parts(self) -> int:
        """Transfers of which bytes are left."""
        return len(self._parts)

    def push(self, data: Array) -> None:
        """Append bytes."""
        if len(data):
            self._parts.append(data)
            self.size += len(data)

    def take(self, count: int) -> Array:
        """The next bytes; there must be so many."""
        parts = []
        self.size -= count
        while count:
            part = self._parts.popleft()
            if len(part) > count:
                self._parts.appendleft(part[count:])
                part = part[:count]
            parts.append(part)
            count -= len(part)
        return np.concatenate(parts) if len(parts) != 1 else parts[0]


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
    """A buffer between host and ring."""

    def __init__(self, units: int, unit_bytes: int) -> None:
        self.data = np.zeros((units, unit_bytes), np.uint8)
        self.known = np.zeros(units, bool)


class PopUnit:
    """Moves units of one host queue into its buffer."""

    def __init__(self, core: StreamCore, memory: PopMemory) -> None:
        parameters = memory is PopMemory.PARAMETER
        size = BEAGLE.memories.parameter_buffer if parameters else BEAGLE.memories.activation_buffer
        self._core = core
        self._flag = ScalarFlag.PARAMETER_POP if parameters else ScalarFlag.AVDATA_POP
        self.queue = HostQueue()
        self.buffer = StreamBuffer(size.elements, size.element_bytes)

    def advance(self, instruction: Pop, plan: StreamPlan, position: int) -> int:
        """Pop as many units as credits and the host permit; returns the position."""
        unit = self.buffer.data.shape[1]
        end = self._core.reach(plan, position)
        # Units that are overwritten must have been infed: one buffer full at a time.
        end = min(end, position + self.queue.size // unit, position + len(self.buffer.data))
        if end > position:
            data = self.queue.take((end - position) * unit).reshape(-1, unit)
            target = plan.addresses[position:end] % len(self.buffer.data)
            self.buffer.data[target] = data
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
        self._row = np.zeros(0, np.uint8)
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
            data = buffer.data[source].reshape(-1)
            known = np.full(len(data), KNOWN, np.int16)
        done = end == len(plan.addresses)
        data = np.concatenate([self._row, data])
        known = np.concatenate([self._known, known])
        size = WORD_BYTES * instruction.row_words
        whole = len(data) // size * size
        if whole:
            self._send(instruction, data[:whole].reshape(-1, size), known[:whole])
        self._row, self._known = data[whole:], known[whole:]
        if done and len(self._row):
            self._send(instruction, self._row[None], self._known)
            self._row, self._known = self._row[:0], self._known[:0]
        self._core.count_scalar(self._FLAGS[instruction.memory], passed(plan.ends, position, end))
        self._core.token(instruction.channel, passed(plan.tokens, position, end))
        return end

    def _scalar(self, plan: StreamPlan, position: int, end: int) -> tuple[int, Array, Array]:
        # The outfeed may go on after this: no more than the ring of words holds.
        end = min(end, position + FIFO_WORDS)
        source = plan.addresses[position:end] % FIFO_WORDS
        words, known = self._core.read_words(0, FIFO_WORDS)
        data = np.ascontiguousarray(words[source]).view(np.uint8)
        return end, data, by_byte(known[source]).reshape(-1)

    def _send(self, instruction: Infeed, rows: Array, known: Array) -> None:
        words = np.ascontiguousarray(rows).view("<u4")
        sure = None if known.min() == KNOWN else by_word(known).reshape(words.shape)
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
        self._row = np.zeros(0, np.uint8)
        self._known = np.zeros(0, np.int16)

    def advance(self, instruction: Outfeed, plan: StreamPlan, position: int) -> int:
        """Take as many units as have arrived; returns the position."""
        unit = HOST_UNIT_BYTES if instruction.to_host else WORD_BYTES
        end = self._core.reach(plan, position)
        size = WORD_BYTES * instruction.row_words
        wanted = (end - position) * unit - len(self._row)
        rows = -(-max(wanted, 0) // size)
        while rows and self._ring.outfeed:
            message = self._ring.outfeed[0]
            taken = min(rows, message.left)
            part = message.words[message.taken : message.taken + taken]
            self._row = np.concatenate([self._row, part.reshape(-1).view(np.uint8)])
            if message.known is None:
                sure = np.full(part.size * WORD_BYTES, KNOWN, np.int16)
            else:
                sure = by_byte(message.known[message.taken : message.taken + taken]).reshape(-1)
            self._known = np.concatenate([self._known, sure])
            message.taken += taken
            rows -= taken
            if not message.left:
                self._ring.outfeed.popleft()
        end = min(end, position + len(self._row) // unit)
        if end <= position:
            return position
        data = self._row[: (end - position) * unit]
        known = self._known[: len(data)]
        self._row, self._known = self._row[len(data) :], self._known[len(data) :]
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
            self._row, self._known = self._row[:0], self._known[:0]
        self._core.count_scalar(ScalarFlag.RING_OUTFEED, passed(plan.ends, position, end))
        return end
