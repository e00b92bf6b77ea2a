"""A device that is served, and the connection of the client that has imported it.

A connection reads its requests in a thread of its own, another one writes answers, and each
endpoint in use has one that hands transfers to the device, because a device may take long while a
simulated chip computes. Transfers of an endpoint keep their order.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial

from fitzroy.base.errors import FitzroyError, FormatError
from fitzroy.hw_models.chips.usb import (
    ConfigurationDescriptor,
    DescriptorType,
    DeviceDescriptor,
    InterfaceDescriptor,
    SetupPacket,
)
from fitzroy.hw_models.usb_device.transfer import Status, Transfer, UsbDevice
from fitzroy.hw_models.usb_device.usbip.messages import (
    NO_PACKETS,
    SHORT_NOT_OK,
    SPEEDS,
    Command,
    DeviceEntry,
    Direction,
    Errno,
    InterfaceEntry,
    Submit,
    Submitted,
    Unlink,
    Unlinked,
    read_urb,
)
from fitzroy.hw_models.usb_device.usbip.stream import SocketStream
from fitzroy.hw_models.usb_device.usbip.watch import Kind, Occurrence, Watcher

MOST_TRANSFERS = 1024
"""Most transfers of a connection that are under way, or whose answers wait to be written."""

MOST_BUFFERED = 64 << 20
"""Most bytes in these transfers."""

_URB_SECONDS = 60.0
"""How long the bytes of a request may take from the first to the last."""

_BUS = 1

_ERRNO = {
    Status.OK: Errno.OK,
    Status.STALL: Errno.PIPE,
    Status.OVERFLOW: Errno.OVERFLOW,
    Status.ERROR: Errno.PROTOCOL,
    Status.CANCELLED: Errno.RESET,
    Status.NO_DEVICE: Errno.SHUTDOWN,
}

Report = Callable[[Occurrence], None]
"""Is told what happens."""


@dataclass(eq=False)
class Export:
    """A device that is served.

    Attributes:
        number: from 1; part of its names.
        device: the device.
        watcher: what its transfers mean.
        session: the connection that has imported it.
        generation: the device's, as far as clients know.
        connected: the same.
    """

    number: int
    device: UsbDevice
    watcher: Watcher = field(default_factory=Watcher)
    session: Session | None = None
    generation: int = 0
    connected: bool = True

    @property
    def busid(self) -> str:
        """Name for imports."""
        return f"{_BUS}-{self.number}"

    def entry(self) -> tuple[DeviceEntry, list[InterfaceEntry]]:
        """What lists say of the device.

        Raises:
            FormatError: the device has malformed descriptors.
        """
        data, configuration = self.device.descriptors()
        device = DeviceDescriptor.unpack(int.from_bytes(data, "little"))
        head = ConfigurationDescriptor.unpack(
            int.from_bytes(configuration[: ConfigurationDescriptor.width // 8], "little")
        )
        interfaces = [
            InterfaceEntry(item.interface_class, item.subclass, item.protocol)
            for item in _interfaces(configuration)
            if not item.alternate
        ]
        entry = DeviceEntry(
            path=f"/fitzroy/usb{_BUS}/{self.busid}",
            busid=self.busid,
            bus=_BUS,
            # Zero is the host's own address on a bus, one its hub's.
            number=self.number + 1,
            speed=SPEEDS[self.device.speed],
            vendor=device.vendor,
            product=device.product,
            version=device.device_version,
            device_class=device.device_class,
            subclass=device.device_subclass,
            protocol=device.device_protocol,
            configuration=head.value,
            configurations=device.configurations,
            interfaces=len(interfaces),
        )
        return entry, interfaces


def _interfaces(configuration: bytes) -> list[InterfaceDescriptor]:
    found = []
    while configuration:
        size = configuration[0]
        if not 2 <= size <= len(configuration):
            raise FormatError(
                f"a descriptor of {size} bytes, of {len(configuration)} that are left"
            )
        if configuration[1] == DescriptorType.INTERFACE:
            raw = int.from_bytes(configuration[:size], "little")
            found.append(InterfaceDescriptor.unpack(raw))
        configuration = configuration[size:]
    return found


class _State(Enum):
    QUEUED = auto()
    STARTED = auto()
    ENDED = auto()


@dataclass(eq=False)
class _Urb:
    """A transfer with the request it came from, and the requests to unlink it."""

    request: Submit
    transfer: Transfer
    state: _State = _State.QUEUED
    unlinks: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Answer:
    """Bytes for the client, and the share of the limits that they free."""

    data: bytes
    transfers: int
    buffered: int = 0


class _Pipe:
    """Does what it is given, one after the other, in a thread of its own."""

    def __init__(self, name: str, failed: Callable[[Exception], None]) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._failed = failed
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def put(self, job: Callable[[], None] | None) -> None:
        """Add a job; None is the last."""
        self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # a thread has nobody else to tell
                self._failed(error)


class Session:
    """A connection that has imported a device: turns requests into transfers, and back."""

    def __init__(self, export: Export, connection: socket.socket, report: Report) -> None:
        self.export = export
        self.reason = ""
        self._connection = connection
        self._report = report
        self._devid = 0
        self._lock = threading.Lock()
        self._reset = threading.Lock()
        self._pending: dict[int, _Urb] = {}
        self._transfers = self._buffered = 0
        self._pipes: dict[int, _Pipe] = {}
        self._answers: queue.SimpleQueue[_Answer | None] = queue.SimpleQueue()
        self._ended = False

    # --- requests: the thread of the connection ---------------------------------------------------

    def serve(self, stream: SocketStream, entry: DeviceEntry) -> None:
        """Serve requests until the connection ends, then cancel what is under way."""
        self._devid = entry.devid
        writer = threading.Thread(target=self._write, name="usbip-writer", daemon=True)
        writer.start()
        try:
            while (request := self._next(stream)) is not None:
                urb, payload = request
                if urb.devid != self._devid:
                    raise FormatError(f"device {urb.devid:#x}, expected {self._devid:#x}")
                if isinstance(urb, Submit):
                    self._submit(urb, payload)
                else:
                    self._unlink(urb)
        except OSError as error:
            self.end(f"the connection broke: {error.strerror or error}")
        except FormatError as error:
            # A message that is cut off by `end` is no fault of the client.
            if self.end(str(error)):
                self._report(Occurrence(Kind.ERROR, self.export.busid, str(error)))
        finally:
            self.end("the client is done")
            self._drain()
            self._answers.put(None)
            writer.join()

    def _next(self, stream: SocketStream) -> tuple[Submit | Unlink, bytes] | None:
        """The next request, None at the end; a client may be silent between two, and not within."""
        stream.rest(_URB_SECONDS)
        return read_urb(stream)

    def end(self, reason: str) -> bool:
        """End the connection from the side of the server; False if it has ended before."""
        with self._lock:
            if self._ended:
                return False
            self._ended = True
            self.reason = reason
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        return True

    def _submit(self, request: Submit, payload: bytes) -> None:
        transfer = transfer_of(request, payload)
        urb = _Urb(request, transfer)
        transfer.done = partial(self._done, urb)
        with self._lock:
            if request.seq in self._pending:
                raise FormatError(f"request {request.seq} is under way already")
            self._admit(1, request.length)
            self._pending[request.seq] = urb
        self._pipe(transfer.endpoint).put(partial(self._start, urb))

    def _unlink(self, request: Unlink) -> None:
        with self._lock:
            self._admit(1, 0)
            urb = self._pending.get(request.victim)
            if urb is None:
                self._answer_unlink(request.seq, Errno.OK)
            elif urb.state is _State.QUEUED:
                urb.unlinks.append(request.seq)
                self._finish(urb, Status.CANCELLED)
            else:
                urb.unlinks.append(request.seq)
                self._pipes[urb.transfer.endpoint].put(partial(self._cancel, urb))

    def _admit(self, transfers: int, buffered: int) -> None:
        self._transfers += transfers
        self._buffered += buffered
        if self._transfers > MOST_TRANSFERS or self._buffered > MOST_BUFFERED:
            raise FormatError(
                f"{self._transfers} transfers of {self._buffered} bytes are under way, at most "
                f"{MOST_TRANSFERS} of {MOST_BUFFERED} may be"
            )

    def _pipe(self, endpoint: int) -> _Pipe:
        if endpoint not in self._pipes:
            name = f"usbip-{self.export.busid}-{endpoint:02x}"
            self._pipes[endpoint] = _Pipe(name, self._fail)
        return self._pipes[endpoint]

    def _drain(self) -> None:
        """Cancel what is under way, and wait for the device to be done with it."""
        with self._lock:
            urbs = list(self._pending.values())
        for urb in urbs:
            pipe = self._pipes.get(urb.transfer.endpoint)
            if pipe is not None:
                pipe.put(partial(self._cancel, urb))
        for pipe in self._pipes.values():
            pipe.put(None)
        for pipe in self._pipes.values():
            pipe.thread.join()

    # --- transfers: the threads of the endpoints --------------------------------------------------

    def _start(self, urb: _Urb) -> None:
        with self._lock:
            if urb.state is not _State.QUEUED or self._ended:
                return
            urb.state = _State.STARTED
            follows_reset = self.export.watcher.follows_reset(urb.transfer)
        if follows_reset:
            self._reset_port()
        try:
            self.export.device.submit(urb.transfer)
        except Exception:
            # The device knows nothing of it, so nobody else would end it.
            urb.transfer.end(Status.ERROR)
            raise

    def _cancel(self, urb: _Urb) -> None:
        with self._lock:
            started = urb.state is _State.STARTED
        if started:
            self.export.device.cancel(urb.transfer)

    def _reset_port(self) -> None:
        export = self.export
        with self._reset:
            before = _identity(export.device)
            export.device.reset()
            export.generation = export.device.generation
            after = _identity(export.device)
        if before != after:
            vendor, product = after
            text = f"comes back as {vendor:04x}:{product:04x}"
            figures = {"vendor": vendor, "product": product}
            self._report(Occurrence(Kind.BOOT, export.busid, text, figures))

    def stale(self) -> bool:
        """Whether the device is not the one that was imported, other than by a port reset."""
        if not self._reset.acquire(blocking=False):
            return False
        try:
            device = self.export.device
            return not device.connected or device.generation != self.export.generation
        finally:
            self._reset.release()

    def _fail(self, error: Exception) -> None:
        text = str(error) if isinstance(error, FitzroyError) else f"{type(error).__name__}: {error}"
        self._report(Occurrence(Kind.ERROR, self.export.busid, text))
        self.end("the device failed")

    # --- answers: any thread ----------------------------------------------------------------------

    def _done(self, urb: _Urb, transfer: Transfer) -> None:
        with self._lock:
            if urb.state is _State.ENDED:
                return
            self._finish(urb, transfer.status or Status.ERROR)
            occurrence = self.export.watcher.finished(transfer)
        if occurrence is not None:
            self._report(replace(occurrence, busid=self.export.busid))
        if transfer.status is Status.NO_DEVICE:
            self.end("the device was unplugged")

    def _finish(self, urb: _Urb, status: Status) -> None:
        """Answer a transfer and the requests to unlink it; an unlinked one has no answer."""
        urb.state = _State.ENDED
        del self._pending[urb.request.seq]
        outcome = Errno.OK
        if status is Status.CANCELLED and urb.unlinks:
            outcome = Errno.RESET
            self._answers.put(_Answer(b"", 1, urb.request.length))
        else:
            self._answers.put(_Answer(_submitted(urb, status), 1, urb.request.length))
        for seq in urb.unlinks:
            self._answer_unlink(seq, outcome)

    def _answer_unlink(self, seq: int, status: Errno) -> None:
        answer = Unlinked(command=Command.UNLINKED, seq=seq, status=status)
        self._answers.put(_Answer(answer.pack(), 1))

    def _write(self) -> None:
        while (answer := self._answers.get()) is not None:
            try:
                self._connection.sendall(answer.data)
            except OSError:
                self.end("the client went away")
            with self._lock:
                self._transfers -= answer.transfers
                self._buffered -= answer.buffered


def transfer_of(request: Submit, payload: bytes) -> Transfer:
    """The transfer that a request asks for.

    Raises:
        FormatError: the setup stage contradicts the rest.
    """
    inward = request.direction is Direction.IN
    room = request.length if inward else 0
    if request.endpoint:
        address = request.endpoint | (0x80 if inward else 0)
        return Transfer(address, data=payload, length=room)
    setup = SetupPacket.unpack(int.from_bytes(request.setup, "little"))
    if setup.length != request.length or (
        setup.length and bool(setup.request_type & 0x80) != inward
    ):
        raise FormatError(
            f"a setup stage for {setup.length} bytes of type {setup.request_type:#04x} comes with "
            f"{request.length} bytes {request.direction.name}"
        )
    return Transfer(0, setup, payload, room)


def _submitted(urb: _Urb, status: Status) -> bytes:
    """The answer to a transfer that has ended; never more than its buffer holds."""
    request, transfer = urb.request, urb.transfer
    received = transfer.received[: request.length] if request.direction is Direction.IN else b""
    actual = len(received) if request.direction is Direction.IN else transfer.sent
    errno = _ERRNO[status]
    if status is Status.OK and request.flags & SHORT_NOT_OK and actual < request.length:
        errno = Errno.REMOTE_IO
    answer = Submitted(
        command=Command.SUBMITTED,
        seq=request.seq,
        status=errno,
        actual=actual,
        packets=NO_PACKETS,
    )
    return answer.pack() + received


def _identity(device: UsbDevice) -> tuple[int, int]:
    descriptor = DeviceDescriptor.unpack(int.from_bytes(device.descriptors()[0], "little"))
    return descriptor.vendor, descriptor.product
