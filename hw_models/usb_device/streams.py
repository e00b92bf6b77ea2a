"""Bulk and interrupt endpoints: queues of transfers, and the bytes between them and the chip."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.chips.usb import StreamHeader, Tag
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES
from fitzroy.hw_models.isa.scalar import Start
from fitzroy.hw_models.usb_device.core import CHUNK_BYTES, ChipCore
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind
from fitzroy.hw_models.usb_device.transfer import Status, Transfer

FIFO_BYTES = 32 << 10
"""How far data runs ahead of the chip, and outputs ahead of the host: 30 to 40 KB are LIKELY."""

CREDIT_BYTES = 8
"""Unit of `ep_status_credit`."""

_HEADER_BYTES = StreamHeader.width // 8
_FRAME_BYTES = 2 * BUNDLE_BYTES
"""First and last bundle of a chunk, which its size leaves out."""

End = Callable[[Transfer, Status], None]
"""Ends a transfer."""


@dataclass(eq=False, slots=True)
class Queued:
    """A transfer under way, what is to go wrong with it, and what it has received."""

    transfer: Transfer
    fault: Fault | None = None
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    @property
    def kind(self) -> FaultKind | None:
        """What is to go wrong."""
        return None if self.fault is None else self.fault.kind


class Endpoint:
    """Transfers of one endpoint, in order.

    Args:
        end: ends a transfer.

    Attributes:
        halted: whether the endpoint stalls until the host clears that.
    """

    def __init__(self, end: End) -> None:
        self.halted = False
        self._end = end
        self._queue: deque[Queued] = deque()

    def submit(self, transfer: Transfer, fault: Fault | None) -> None:
        """Append a transfer."""
        self._queue.append(Queued(transfer, fault))

    def cancel(self, transfer: Transfer) -> bool:
        """Take a transfer out; False if it is not there."""
        for entry in self._queue:
            if entry.transfer is transfer:
                self._leave(entry, Status.CANCELLED)
                return True
        return False

    def cancel_all(self, status: Status) -> None:
        """End all transfers."""
        while self._queue:
            self._leave(self._queue[0], status)

    def clear(self) -> None:
        """Drop bytes on their way; here there are none."""

    def _leave(self, entry: Queued, status: Status) -> None:
        self._queue.remove(entry)
        entry.transfer.received = b"".join(entry.parts)
        self._end(entry.transfer, status)

    def _head(self) -> Queued | None:
        """The first transfer that can move, after those that fail at once."""
        while self._queue:
            entry = self._queue[0]
            if entry.kind is FaultKind.STALL:
                self.halted = True
            if self.halted:
                self._leave(entry, Status.STALL)
            elif entry.kind is FaultKind.ERROR:
                self._leave(entry, Status.ERROR)
            else:
                return None if entry.kind is FaultKind.TIMEOUT else entry
        return None


class Intake(Endpoint):
    """Endpoint for data to the chip.

    Args:
        end: ends a transfer.
        tag: what it carries with multiple endpoints.

    Attributes:
        capacity: bytes that fit into the FIFO; what is in it stays when that becomes less.
    """

    def __init__(self, end: End, tag: Tag) -> None:
        super().__init__(end)
        self.capacity = FIFO_BYTES
        self._own = tag
        self._fifo = bytearray()
        self._tag: Tag | None = None
        self._left = 0

    @property
    def room(self) -> int:
        """Bytes that still fit into the FIFO."""
        return max(self.capacity - len(self._fifo), 0)

    @property
    def credit(self) -> int:
        """Bytes that would still fit into that of a chip."""
        return max(FIFO_BYTES - len(self._fifo), 0)

    def clear(self) -> None:
        """Drop bytes on their way."""
        self._fifo.clear()
        self._tag, self._left = None, 0

    def advance(self, core: ChipCore, *, multiple: bool) -> None:
        """Move bytes from the host towards the chip as far as they go.

        Args:
            core: the chip.
            multiple: whether the endpoint has no headers.
        """
        while self._fill() | self._drain(core, multiple):
            pass

    def _fill(self) -> bool:
        """Move bytes of transfers into the FIFO; whether any moved."""
        moved = False
        while entry := self._head():
            transfer, fault = entry.transfer, entry.fault
            end = len(transfer.data) if fault is None else min(fault.length, len(transfer.data))
            part = transfer.data[transfer.sent : min(end, transfer.sent + self.room)]
            self._fifo += part
            transfer.sent += len(part)
            moved = moved or bool(part)
            if transfer.sent < end:
                break
            self._leave(entry, Status.OK if fault is None else Status.ERROR)
        return moved

    def _drain(self, core: ChipCore, multiple: bool) -> bool:
        """Give bytes of the FIFO to the chip; whether any moved."""
        moved = False
        while not core.stuck:
            if self._tag is None and not self._frame(core, multiple):
                break
            tag = self._tag
            if tag is None:
                break
            count = min(self._left, len(self._fifo), core.wants(tag))
            if count:
                core.give(tag, self._fifo[:count])
                del self._fifo[:count]
                self._left -= count
                moved = True
                if not self._left and tag is Tag.INSTRUCTIONS:
                    core.end_chunk()
            elif self._left:
                break
            if not self._left:
                self._tag = None
        return moved

    def _frame(self, core: ChipCore, multiple: bool) -> bool:
        """Find out what comes next; False as long as that is not known."""
        try:
            if not multiple:
                return self._header()
            if self._own is Tag.INSTRUCTIONS:
                return self._chunk()
        except FormatError as error:
            core.fail(error, "instruction_queue_invalid")
            return False
        self._tag, self._left = self._own, len(self._fifo)
        return bool(self._fifo)

    def _header(self) -> bool:
        if len(self._fifo) < _HEADER_BYTES:
            return False
        header = StreamHeader.unpack(int.from_bytes(self._fifo[:_HEADER_BYTES], "little"))
        if header.tag is Tag.INSTRUCTIONS and header.length > CHUNK_BYTES:
            raise _too_long(header.length)
        del self._fifo[:_HEADER_BYTES]
        self._tag, self._left = header.tag, header.length
        return True

    def _chunk(self) -> bool:
        """The size of a chunk without a header is in its first bundle."""
        if len(self._fifo) < BUNDLE_BYTES:
            return False
        start = Start.unpack(int.from_bytes(self._fifo[:BUNDLE_BYTES], "little"))
        size = start.size // 8 + _FRAME_BYTES
        if size > CHUNK_BYTES:
            raise _too_long(size)
        self._tag, self._left = Tag.INSTRUCTIONS, size
        return True


class Outlet(Endpoint):
    """Endpoint for data to the host.

    Args:
        end: ends a transfer.
        packet: largest packet of the endpoint.
    """

    def __init__(self, end: End, packet: int) -> None:
        super().__init__(end)
        self._packet = packet
        self._packets: deque[bytes] = deque()
        self._tail = b""
        self._size = 0

    @property
    def waiting(self) -> int:
        """Bytes that the host has not fetched."""
        return self._size

    def clear(self) -> None:
        """Drop bytes on their way."""
        self._packets.clear()
        self._tail = b""
        self._size = 0

    def push(self, data: bytes, chunk: int = 0) -> None:
        """Append data; what does not fill a chunk waits for more, or for `flush`.

        Args:
            data: the bytes.
            chunk: size of a chunk, 0 for that of a packet. A chunk of several whole packets has
                no empty packet at its end.
        """
        chunk = chunk or self._packet
        self._size += len(data)
        data = self._tail + data
        whole = len(data) - len(data) % chunk
        for first in range(0, whole, chunk):
            self._cut(data[first : first + chunk])
        self._tail = data[whole:]

    def flush(self) -> None:
        """End the data: what does not fill a chunk becomes a shorter one."""
        self._cut(self._tail)
        self._tail = b""

    def _cut(self, chunk: bytes) -> None:
        for first in range(0, len(chunk), self._packet):
            self._packets.append(chunk[first : first + self._packet])

    def advance(self) -> None:
        """Hand packets to the host as far as it asks for them."""
        while entry := self._head():
            if not self._packets:
                return
            packet = self._packets.popleft()
            self._size -= len(packet)
            fault = entry.fault
            if entry.kind is FaultKind.LOSE:
                entry.fault = None
                continue
            if entry.kind is FaultKind.BABBLE:
                self._leave(entry, Status.OVERFLOW)
                continue
            whole = len(packet) == self._packet
            if fault is not None:
                packet, whole = fault.spoiled(packet), whole and entry.kind is not FaultKind.SHORT
            if entry.size + len(packet) > entry.transfer.length:
                self._leave(entry, Status.OVERFLOW)
                continue
            entry.parts.append(packet)
            entry.size += len(packet)
            entry.fault = None
            if not whole or entry.size == entry.transfer.length:
                self._leave(entry, Status.OK)


def _too_long(size: int) -> FormatError:
    return FormatError(f"{size} bytes of instructions; the chip takes {CHUNK_BYTES}")
