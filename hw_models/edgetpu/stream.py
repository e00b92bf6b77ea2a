"""Stream units of the scalar core: pops, infeed and outfeed, with their buffers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.course import Move
from fitzroy.hw_models.edgetpu.latitude import Latitude
from fitzroy.hw_models.edgetpu.ring import Ring, Rows
from fitzroy.hw_models.edgetpu.sequence import Gate, Numbers, Order, gates, passed, sequence
from fitzroy.hw_models.edgetpu.unknown import KNOWN, by_byte, by_word
from fitzroy.hw_models.isa.fields import ScalarFlag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory

WORD_BYTES = BEAGLE.memories.scalar.element_bytes
HOST_UNIT_BYTES = BEAGLE.limits.host_output_unit
FIFO_WORDS = BEAGLE.scalar.fifo_words


class StreamCore(Protocol):
    """What stream units see of the machine."""

    latitude: Latitude

    def do(self, move: Move, held: int = 0) -> None:
        """Make a move, which holds so many bytes, now and whenever the program is repeated."""
        ...

    def reach(self, plan: StreamPlan, position: int) -> int:
        """How far a unit may go from a position, as far as flags are concerned."""
        ...

    def count_scalar(self, flag: int, increment: int) -> None:
        """Increment a flag of the scalar core."""
        ...

    def token(self, channel: int, increment: int) -> None:
        """Increment the token counters of a ring channel."""
        ...

    def read_words(self, address: int, count: int) -> Array:
        """Words of the scalar core's memory, uint32[images or 1, count]."""
        ...

    def read_marks(self, address: int, count: int) -> Array:
        """Marks of words of the scalar core's memory, int16[count]."""
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


@dataclass(eq=False)
class StreamPlan:
    """A stream instruction with its element order.

    Attributes:
        order: the order of units.
        gates: watchers, at positions of units.
        ends: positions at which the unit's flag counts.
        tokens: positions at which the ring token counts.
    """

    order: Order
    gates: tuple[Gate, ...]
    ends: Numbers | None
    tokens: Numbers | None = None

    @cached_property
    def addresses(self) -> Array:
        """Buffer address of each unit, int64[n]: of use to who moves data."""
        return sequence(self.order.traversal).addresses

    def limit(self, flags: list[int], position: int) -> int:
        """How far the unit may go as far as flags are concerned."""
        end = len(self.order)
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
    units = Order(instruction.buffer)
    token = None
    match instruction:
        case Pop():
            producer = instruction.popped
        case Infeed():
            producer, token = instruction.infed, instruction.token
        case Outfeed():
            producer = instruction.outfed
    return StreamPlan(
        units,
        gates((watcher, units) for watcher in instruction.wait),
        units.ends(producer.level) if producer is not None and producer.valid else None,
        units.ends(token.level) if token is not None and token.valid else None,
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
            target = plan.addresses[position:end] % units
            self._fill(target)
            self.buffer.known[target] = True
            self._core.count_scalar(self._flag, passed(plan.ends, position, end))
        return end

    def _fill(self, target: Array) -> None:
        """Fill units of the buffer with what the host has sent."""
        queue, buffer = self.queue, self.buffer
        unit = buffer.data.shape[2]

        def fill() -> None:
            data = queue.take(len(target) * unit)
            buffer.data[:, target] = data.reshape(len(data), -1, unit)
            buffer.shared[target] = len(data) == 1

        self._core.do(fill, target.nbytes)


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
            # The outfeed may go on after this: no more than the ring of words holds.
            end = min(end, position + FIFO_WORDS)
            source = plan.addresses[position:end] % FIFO_WORDS
            read = partial(self._of_scalar, source)
            known = by_byte(self._core.read_marks(0, FIFO_WORDS)[source]).reshape(-1)
        else:
            buffer = self._buffers[instruction.memory]
            if self._core.latitude.plain_counters:
                _wrap_once(plan.addresses[position:end], len(buffer.known))
            source = plan.addresses[position:end] % len(buffer.known)
            if not buffer.known[source].all():
                raise SimulationError("the infeed reads a stream buffer that was never filled")
            read = partial(_of_buffer, buffer, source)
            known = np.full(len(source) * buffer.data.shape[2], KNOWN, np.int16)
        self._known = np.concatenate([self._known, known])
        size = WORD_BYTES * instruction.row_words
        whole = len(self._known) // size
        sent = [self._rows(instruction, whole, size)] if whole else []
        if end == len(plan.order) and len(self._known):
            sent.append(self._rows(instruction, 1, len(self._known)))

        def move() -> None:
            data = read()
            if self._row.shape[1]:
                data = joined([self._row, data])
            for rows in sent:
                rows.words = self._words(instruction, data[:, : rows.nbytes], rows)
                data = data[:, rows.nbytes :]
            self._row = data

        self._core.do(move, source.nbytes + sum(rows.nbytes for rows in sent))
        for rows in sent:
            self._ring.send(instruction.channel, instruction.destination, rows)
        self._core.count_scalar(self._FLAGS[instruction.memory], passed(plan.ends, position, end))
        self._core.token(instruction.channel, passed(plan.tokens, position, end))
        return end

    def _of_scalar(self, source: Array) -> Array:
        """Bytes of words of the scalar core's memory, uint8[images or 1, bytes]."""
        words = self._core.read_words(0, FIFO_WORDS)[:, source]
        return np.ascontiguousarray(words).view(np.uint8)

    def _rows(self, instruction: Infeed, count: int, size: int) -> Rows:
        """Rows of `size` bytes, whose marks are the next ones."""
        known, self._known = self._known[: count * size], self._known[count * size :]
        lanes = size // WORD_BYTES
        sure = None if known.min() == KNOWN else by_word(known).reshape(count, lanes)
        constant = instruction.memory is InfeedMemory.PARAMETER
        return Rows(count, lanes, sure, constant)

    def _words(self, instruction: Infeed, data: Array, rows: Rows) -> Array:
        """Words of rows, uint32[images or 1, rows, lanes], from their bytes."""
        return np.ascontiguousarray(data).reshape(len(data), rows.count, -1).view("<u4")


def _of_buffer(buffer: StreamBuffer, source: Array) -> Array:
    """Bytes of units of a buffer, uint8[images or 1, bytes]."""
    images = 1 if buffer.shared[source].all() else len(buffer.data)
    return buffer.data[:images, source].reshape(images, -1)


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
        parts = []
        while rows and self._ring.outfeed:
            message = self._ring.outfeed[0]
            place = slice(message.taken, message.taken + min(rows, message.left))
            parts.append((message.rows, place))
            taken = place.stop - place.start
            if message.rows.known is None:
                sure = np.full(taken * message.rows.lanes * WORD_BYTES, KNOWN, np.int16)
            else:
                sure = by_byte(message.rows.known[place]).reshape(-1)
            self._known = np.concatenate([self._known, sure])
            message.taken += taken
            rows -= taken
            if not message.left:
                self._ring.outfeed.popleft()
        end = max(position, min(end, position + len(self._known) // unit))
        if end <= position and not parts:
            return position
        size = (end - position) * unit
        known, self._known = self._known[:size], self._known[size:]
        done = end == len(plan.order)
        if done:
            # The unused end of the last row is dropped.
            self._known = self._known[:0]
        target = plan.addresses[position:end]
        if plan.gates:
            target = target % FIFO_WORDS
        marks = known if instruction.to_host else by_word(known)

        def move() -> None:
            row = joined([self._row, *(_bytes_of(rows.words[:, place]) for rows, place in parts)])
            data, row = row[:, :size], row[:, size:]
            if size and instruction.to_host:
                self._core.to_host(data, marks)
            elif size:
                self._core.write_words(target, np.ascontiguousarray(data).view("<u4"), marks)
            self._row = row[:, :0] if done else row

        self._core.do(move, target.nbytes + known.nbytes)
        self._core.count_scalar(ScalarFlag.RING_OUTFEED, passed(plan.ends, position, end))
        return end


def _bytes_of(words: Array) -> Array:
    """Bytes of rows, uint8[images or 1, bytes]."""
    return np.ascontiguousarray(words).reshape(len(words), -1).view(np.uint8)
