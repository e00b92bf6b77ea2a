"""The bulk and interrupt endpoints of an open device: payloads, outputs, events, interrupts.

Transfers are short in time: when one has waited for `Limits.slice` without a byte, the chip is
asked whether something is wrong with it, and the wait goes on as long as its watch allows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from fitzroy.base.errors import DeviceError, FormatError
from fitzroy.base.memory import Pool
from fitzroy.driver.device.limits import Limits, Watch
from fitzroy.driver.device.simulation import Simulation
from fitzroy.driver.transports.transport import (
    IN_FLIGHT,
    IdleTimeoutError,
    Payload,
    Room,
    TransferTimeoutError,
    Transport,
)
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import Event, InterruptPacket, StreamHeader, Tag, to_bytes

_PORT = BEAGLE.usb
_OUTPUT = _PORT.endpoints["output"].address
_EVENT = _PORT.endpoints["event"].address
_INTERRUPT = _PORT.endpoints["interrupt"].address
_DATA = {
    Tag.INSTRUCTIONS: _PORT.endpoints["out_1"].address,
    Tag.INPUT: _PORT.endpoints["out_2"].address,
    Tag.PARAMETERS: _PORT.endpoints["out_3"].address,
}
"""Endpoints by what they carry, with multiple endpoints; otherwise the first carries all."""

ENDPOINTS = (*_DATA.values(), _OUTPUT, _EVENT, _INTERRUPT)
"""All endpoints but that for control."""

PACKET = _PORT.super_packet
"""Bytes of the largest packet; a multiple of those at lower speeds."""

_MOST_OUT = _PORT.most_out
_EVENT_BYTES = Event.width // 8
_INTERRUPT_BYTES = InterruptPacket.width // 8
_LARGEST_READ = 256 << 10
"""Largest transfer of outputs; a multiple of every packet."""

_MOST_STALE = 1 << 10
"""Most packets of an endpoint that are thrown away: many times what fits into the device."""


class ProtocolError(DeviceError):
    """The device sent something that the program on it does not send."""


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """Bytes for the device, ready to go.

    Attributes:
        tag: what they are.
        parts: the bytes in transfers of the largest size.
        size: their number.
    """

    tag: Tag
    parts: tuple[memoryview, ...]
    size: int

    @classmethod
    def of(cls, tag: Tag, *pieces: memoryview | bytes) -> Message:
        """The message that carries some bytes; they are not copied.

        Args:
            tag: what they are.
            pieces: the bytes; all but the last in whole packets.
        """
        parts: list[memoryview] = []
        for piece in pieces:
            size, view = len(piece), memoryview(piece)
            if size <= _MOST_OUT:
                parts.append(view)
            else:
                cuts = range(0, size, _MOST_OUT)
                parts += [view[first : first + _MOST_OUT] for first in cuts]
        return cls(tag, tuple(parts), sum(map(len, parts)))

    def divided(self, last: int) -> tuple[Message, Message]:
        """The message without its last bytes, and these; neither has a header of its own."""
        *parts, end = self.parts
        cut = max(len(end) - last, 0)
        return (
            Message(self.tag, (*parts, end[:cut]), self.size - len(end) + cut),
            Message(self.tag, (end[cut:],), len(end) - cut),
        )


_HEADERS: dict[tuple[int, Tag], array[int]] = {}
"""Headers that were made before; programs have few sizes."""


def _header(size: int, tag: Tag) -> array[int]:
    found = _HEADERS.get((size, tag))
    if found is None:
        if len(_HEADERS) > 1 << 12:
            _HEADERS.clear()
        found = _HEADERS[size, tag] = array("B", to_bytes(StreamHeader(length=size, tag=tag)))
    return found


@dataclass(slots=True)
class _Quiet:
    """Seconds without a byte on an endpoint, and those at the end with a device that is idle."""

    seconds: float = 0.0
    idle: float = 0.0


class _Held:
    """Memory for outputs, and which of its bytes have come and are not taken.

    Args:
        size: bytes that are expected.
        pool: where the memory comes from.

    Attributes:
        begin: first byte that is not taken.
        end: first byte that has not come.
    """

    __slots__ = ("_room", "begin", "end")

    def __init__(self, size: int, pool: Pool) -> None:
        # Transfers end with whole packets.
        self._room = pool.take(-(-size // PACKET) * PACKET).view(Room)
        self.begin = self.end = 0

    @property
    def left(self) -> int:
        """Bytes that have come and are not taken."""
        return self.end - self.begin

    def room(self, wanted: int) -> Room:
        """Memory for the next bytes, in whole packets."""
        size = min(-(-wanted // PACKET) * PACKET, _LARGEST_READ)
        room = self._room
        if not self.end and size == len(room):
            return room
        if self.end + size > len(room):
            # Short packets came before, or less was expected when the memory was taken.
            room = Room.of(self.left + size + PACKET)
            room[: self.left] = self._room[self.begin : self.end]
            self._room, self.begin, self.end = room, 0, self.left
        return self._room[self.end : self.end + size].view(Room)

    def take(self, size: int) -> memoryview:
        """Bytes that have come; their memory is not used again."""
        first, self.begin = self.begin, self.begin + size
        return self._room.data[first : self.begin]


def _missing(held: _Held, size: int) -> str:
    """What a reader of outputs waits for."""
    return f"outputs, {held.left} of {size} bytes are there"


class Streams:
    """The endpoints of a device for one user at a time in each direction.

    Args:
        transport: the device.
        limits: how long to wait.
        multiple: whether each kind of data has an endpoint of its own.
        inspect: called when nothing moves; raises if the chip has failed.
    """

    def __init__(
        self,
        transport: Transport,
        limits: Limits,
        multiple: bool,
        inspect: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._multiple = multiple
        self._inspect = inspect
        self._simulation = Simulation(transport, limits)
        self._pool = Pool()
        self._held = _Held(0, self._pool)

    # --- towards the device ----------------------------------------------------------------------

    def send(self, message: Message, watch: Watch) -> None:
        """Start to send a message with its header; its bytes must not change until `settle`.

        No more than `IN_FLIGHT` transfers are under way at a time.

        Raises:
            DeviceError: the device, or the watch, does not let it.
        """
        self.begin(message.tag, message.size, watch)
        self.go_on(message, watch)

    def begin(self, tag: Tag, size: int, watch: Watch) -> None:
        """Start to send the header of a message of `size` bytes.

        Raises:
            DeviceError: as `send`.
        """
        if not self._multiple:
            self._post(_DATA[Tag.INSTRUCTIONS], _header(size, tag), watch)

    def go_on(self, message: Message, watch: Watch) -> None:
        """Start to send the bytes of a message whose header went before.

        Raises:
            DeviceError: as `send`.
        """
        endpoint = _DATA[message.tag if self._multiple else Tag.INSTRUCTIONS]
        for part in message.parts:
            self._post(endpoint, part, watch)

    def settle(self, watch: Watch) -> None:
        """Wait until all that was sent has gone.

        Raises:
            DeviceError: as `send`.
        """
        self._make_room(0, watch)

    def _post(self, endpoint: int, data: Payload, watch: Watch) -> None:
        if len(data):
            if self._transport.under_way >= IN_FLIGHT:
                self._make_room(IN_FLIGHT - 1, watch)
            self._transport.post(endpoint, data)

    def _make_room(self, most: int, watch: Watch) -> None:
        """Wait until no more transfers are under way than that."""
        if self._transport.under_way <= most:
            return
        quiet = _Quiet()
        while self._transport.under_way > most:
            try:
                self._transport.settle(self._limits.slice)
                quiet = _Quiet()
            except TransferTimeoutError as error:
                idle = isinstance(error, IdleTimeoutError)
                self._wait(watch, "a transfer to the device", quiet, idle=idle)

    # --- towards the host ------------------------------------------------------------------------

    def receive(self, size: int, more: int, watch: Watch) -> memoryview:
        """Receive bytes of the outputs.

        Args:
            size: how many.
            more: how many come after them without anything in between: fetched with them.
            watch: ends the wait.

        Raises:
            DeviceError: the device, or the watch, does not give them.
        """
        held = self._held
        if not held.left:
            held = self._held = _Held(size + more, self._pool)
        quiet: _Quiet | None = None
        while held.left < size:
            # Bytes that trickle in must not keep a request beyond its deadline.
            if watch.left <= 0:
                self._late(watch, _missing(held, size))
            room = held.room(size + more - held.left)
            idle, count = False, 0
            try:
                count = self._transport.read_into(_OUTPUT, room, self._limits.slice)
            except TransferTimeoutError as error:
                idle = isinstance(error, IdleTimeoutError)
            held.end += count
            if count:
                quiet = None
            else:
                quiet = quiet or _Quiet()
                self._wait(watch, _missing(held, size), quiet, idle=idle)
        return held.take(size)

    def _late(self, watch: Watch, what: str) -> None:
        """The deadline has passed while bytes come: go on only if the chip is simulated."""
        if self._simulation.present:
            watch.prolong()
        watch.check(what)

    def finish(self) -> None:
        """A request has all its outputs.

        Raises:
            ProtocolError: there were more.
        """
        if self._held.left:
            raise ProtocolError(
                "more outputs than the program has",
                reason=f"{self._held.left} bytes",
                where=self._transport.attached.path,
            )

    def event(self, watch: Watch) -> Event:
        """The next event.

        Raises:
            ProtocolError: something else came.
            DeviceError: the device, or the watch, does not give one.
        """
        quiet: _Quiet | None = None
        while True:
            try:
                data = self._transport.read(_EVENT, _EVENT_BYTES, self._limits.slice)
                break
            except TransferTimeoutError as error:
                idle = isinstance(error, IdleTimeoutError)
                quiet = quiet or _Quiet()
                self._wait(watch, "the end of the program", quiet, idle=idle)
        if len(data) != _EVENT_BYTES:
            raise self._malformed("event", data)
        raw = int.from_bytes(data, "little")
        known = _EVENTS.get(raw)
        if known is not None:
            return known
        try:
            return Event.unpack(raw)
        except FormatError as error:
            raise self._malformed("event", data) from error

    def interrupts(self, timeout: float) -> InterruptPacket | None:
        """What the chip reports beside its events, None if it reports nothing.

        Raises:
            ProtocolError: something else came.
            DeviceError: the device does not answer.
        """
        try:
            data = self._transport.read(_INTERRUPT, _INTERRUPT_BYTES, timeout)
        except TransferTimeoutError:
            return None
        try:
            if len(data) == _INTERRUPT_BYTES:
                return InterruptPacket.unpack(int.from_bytes(data, "little"))
        except FormatError as error:
            raise self._malformed("interrupt", data) from error
        raise self._malformed("interrupt", data)

    def _malformed(self, what: str, data: bytes) -> ProtocolError:
        return ProtocolError(
            f"a malformed {what}",
            reason=f"{len(data)} bytes: {data.hex()}",
            where=self._transport.attached.path,
        )

    # --- between requests ------------------------------------------------------------------------

    def renew(self, watch: Watch) -> None:
        """Throw away what an earlier request has left, after the chip was opened.

        Raises:
            TransferError: the device does not answer.
            ProtocolError: there is no end of it.
            DeadlineError: there is no time for it.
            RequestCancelledError: nobody wants it any more.
        """
        self._held = _Held(0, self._pool)
        for endpoint, size in (
            (_OUTPUT, _PORT.super_packet),
            (_EVENT, _EVENT_BYTES),
            (_INTERRUPT, _INTERRUPT_BYTES),
        ):
            for _ in range(_MOST_STALE):
                watch.check("the end of what an earlier request has left")
                try:
                    self._transport.read(endpoint, size, self._limits.drain)
                except TransferTimeoutError:
                    break
            else:
                raise ProtocolError(
                    f"endpoint {endpoint:#04x} does not run dry",
                    reason=f"{_MOST_STALE} packets came after the chip was opened",
                    where=self._transport.attached.path,
                )

    def clear_halts(self, watch: Watch) -> None:
        """Let all endpoints go on.

        Raises:
            TransferError: the device does not answer.
            DeadlineError: there is no time for it.
            RequestCancelledError: nobody wants it any more.
        """
        for endpoint in ENDPOINTS:
            watch.check(f"clearing the halt of endpoint {endpoint:#04x}")
            self._transport.clear_halt(endpoint)

    def _wait(self, watch: Watch, what: str, quiet: _Quiet, *, idle: bool) -> None:
        """Nothing has moved for a slice of time: see whether to go on waiting.

        Args:
            watch: ends the wait.
            what: what is waited for.
            quiet: how long nothing has moved before; the slice is added.
            idle: whether the device has said that it waits for the host.

        Raises:
            DeviceError: the chip has failed, the watch ends the wait, or it was too long.
        """
        self._inspect()
        self._transport.check()
        # Counted and not measured, so that recorded sessions take the same course.
        quiet.seconds += self._limits.slice
        quiet.idle = quiet.idle + self._limits.slice if idle else 0.0
        late = watch.left <= 0 or quiet.seconds >= self._limits.silence
        if late and not watch.cancelled and self._simulation.computing():
            watch.prolong()
            quiet.seconds = 0.0
        watch.check(what)
        if quiet.seconds >= self._limits.silence:
            raise TransferTimeoutError(
                f"nothing moves for {self._limits.silence:g} s",
                reason=f"during {what}",
                where=self._transport.attached.path,
            )
        if quiet.idle >= self._limits.idle:
            raise IdleTimeoutError(
                "the chip waits for the host, and the host for the chip",
                reason=f"during {what}",
                where=self._transport.attached.path,
                hint="the script for the host (DMA hints) may not fit the program: see fitzroy sim",
            )


_EVENTS: dict[int, Event] = {
    event.pack(): event
    for event in (Event(tag=Tag(tag)) for tag in range(Tag.INTERRUPT_0, Tag.INTERRUPT_3 + 1))
}
"""Interrupts of programs, by their bits."""
