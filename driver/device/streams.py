"""The bulk and interrupt endpoints of an open device: payloads, outputs, events, interrupts.

Transfers are short in time: when one has waited for `Limits.slice` without a byte, the chip is
asked whether something is wrong with it, and the wait goes on as long as its watch allows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from fitzroy.base.errors import DeviceError, FormatError
from fitzroy.driver.device.limits import Limits, Watch
from fitzroy.driver.device.simulation import Simulation
from fitzroy.driver.transports.transport import (
    IdleTimeoutError,
    Payload,
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
    parts: tuple[array[int], ...]
    size: int

    @classmethod
    def of(cls, tag: Tag, data: memoryview | bytes) -> Message:
        """The message that carries some bytes."""
        largest = _PORT.most_out
        parts = []
        for first in range(0, len(data), largest):
            part = array("B")
            part.frombytes(data[first : first + largest])
            parts.append(part)
        return cls(tag, tuple(parts), len(data))

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
        self._held = b""

    # --- towards the device ----------------------------------------------------------------------

    def send(self, message: Message, watch: Watch) -> None:
        """Send a message with its header.

        Raises:
            DeviceError: the device, or the watch, does not let it.
        """
        self.begin(message.tag, message.size, watch)
        self.go_on(message, watch)

    def begin(self, tag: Tag, size: int, watch: Watch) -> None:
        """Send the header of a message of `size` bytes.

        Raises:
            DeviceError: as `send`.
        """
        if not self._multiple:
            self._write(_DATA[Tag.INSTRUCTIONS], _header(size, tag), watch)

    def go_on(self, message: Message, watch: Watch) -> None:
        """Send the bytes of a message whose header has been sent.

        Raises:
            DeviceError: as `send`.
        """
        endpoint = _DATA[message.tag if self._multiple else Tag.INSTRUCTIONS]
        for part in message.parts:
            self._write(endpoint, part, watch)

    def _write(self, endpoint: int, data: Payload, watch: Watch) -> None:
        quiet = _Quiet()
        while data:
            idle, sent = False, 0
            try:
                sent = self._transport.write(endpoint, data, self._limits.slice)
            except TransferTimeoutError as error:
                idle = isinstance(error, IdleTimeoutError)
            if sent == len(data):
                return
            data = data[sent:]
            quiet = _Quiet() if sent else quiet
            self._wait(watch, f"a transfer on {endpoint:#04x}", quiet, idle=idle)

    # --- towards the host ------------------------------------------------------------------------

    def receive(self, size: int, more: int, watch: Watch) -> bytes:
        """Receive bytes of the outputs.

        Args:
            size: how many.
            more: how many come after them without anything in between: fetched with them.
            watch: ends the wait.

        Raises:
            DeviceError: the device, or the watch, does not give them.
        """
        parts, count = [self._held], len(self._held)
        packet = _PORT.super_packet
        quiet = _Quiet()
        while count < size:
            # Bytes that trickle in must not keep a request beyond its deadline.
            what = f"outputs, {count} of {size} bytes are there"
            if watch.left <= 0 and self._simulation.present:
                watch.prolong()
            watch.check(what)
            wanted = min(-(-(size + more - count) // packet) * packet, _LARGEST_READ)
            idle = False
            try:
                part = self._transport.read(_OUTPUT, wanted, self._limits.slice)
            except TransferTimeoutError as error:
                idle = isinstance(error, IdleTimeoutError)
                part = b""
            parts.append(part)
            count += len(part)
            if part:
                quiet = _Quiet()
            else:
                self._wait(watch, what, quiet, idle=idle)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._held = data[size:]
        return data[:size]

    def finish(self) -> None:
        """A request has all its outputs.

        Raises:
            ProtocolError: there were more.
        """
        if self._held:
            raise ProtocolError(
                "more outputs than the program has",
                reason=f"{len(self._held)} bytes",
                where=self._transport.attached.path,
            )

    def event(self, watch: Watch) -> Event:
        """The next event.

        Raises:
            ProtocolError: something else came.
            DeviceError: the device, or the watch, does not give one.
        """
        quiet = _Quiet()
        while True:
            try:
                data = self._transport.read(_EVENT, _EVENT_BYTES, self._limits.slice)
                break
            except TransferTimeoutError as error:
                idle = isinstance(error, IdleTimeoutError)
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
        self._held = b""
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
