"""The USB/IP server, seen by a client that shares no code with it."""

from __future__ import annotations

import contextlib
import io
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.driver.edgetpu_programs import SIZE, echo
from tests.hw_models import usbip_client as raw
from tests.hw_models.usbip_client import Client, Coral, Refused, connect, listing
from tests.support import corpus

from fitzroy.base.errors import DeviceError, FormatError, UsageError
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats.darwinn import Executable
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import (
    Speed,
    boot_configuration,
    configuration,
    device_descriptor,
    to_bytes,
)
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind
from fitzroy.hw_models.usb_device.transfer import Status, Transfer, UsbDevice
from fitzroy.hw_models.usb_device.usbip import messages, session
from fitzroy.hw_models.usb_device.usbip.client import list_devices
from fitzroy.hw_models.usb_device.usbip.messages import (
    CountBody,
    DeviceEntry,
    ImportBody,
    InterfaceEntry,
    OpCode,
    OpHeader,
    Submit,
    Submitted,
    Unlink,
    Unlinked,
)
from fitzroy.hw_models.usb_device.usbip.server import Server
from fitzroy.hw_models.usb_device.usbip.watch import Kind, Occurrence
from fitzroy.linker.packages.container import read_container

BOOT, RUNTIME = (0x1A6E, 0x089A), (0x18D1, 0x9302)
PORT = BEAGLE.usb


@dataclass
class Echo:
    """A device that gives back what it gets on endpoint 1, and downloads any firmware."""

    speed: Speed = Speed.SUPER
    booted: bool = False
    connected: bool = True
    generation: int = 1
    idle: bool = False
    gate: threading.Event | None = None
    reads: list[Transfer] = field(default_factory=list)
    store: bytes = b""
    cancelled: list[Transfer] = field(default_factory=list)
    resets: int = 0
    firmware: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.RLock()

    def descriptors(self) -> tuple[bytes, bytes]:
        identity = PORT.runtime if self.booted else PORT.boot
        whole = configuration(PORT, self.speed) if self.booted else boot_configuration(PORT)
        return to_bytes(device_descriptor(identity, self.speed)), whole

    def submit(self, transfer: Transfer) -> None:
        if self.gate is not None and transfer.endpoint == 1:
            self.gate.wait(10)
        with self.lock:
            if transfer.setup is not None:
                self.control(transfer)
            elif transfer.endpoint == 1:
                self.store += transfer.data
                transfer.sent = len(transfer.data)
                transfer.end(Status.OK)
            elif transfer.endpoint == 0x81:
                self.reads.append(transfer)
            elif transfer.endpoint == 3:
                transfer.sent = 5
                transfer.end(Status.ERROR)
            elif transfer.endpoint == 0x83:
                transfer.received = bytes(transfer.length)
                transfer.end(Status.OVERFLOW)
            elif transfer.endpoint == 0x8F:
                raise ValueError("broken")
            else:
                transfer.end(Status.STALL)
            while self.store and self.reads:
                read = self.reads.pop(0)
                read.received, self.store = self.store[: read.length], self.store[read.length :]
                read.end(Status.OK)

    def control(self, transfer: Transfer) -> None:
        setup = transfer.setup
        assert setup is not None
        transfer.sent = len(transfer.data)
        kind = int(setup.request_type)
        if (kind, setup.request) == (0x80, 6) and setup.value in (0x100, 0x200):
            transfer.received = self.descriptors()[(setup.value >> 8) - 1][: transfer.length]
        elif (kind, setup.request) == (0x21, 1) and not self.booted:
            self.firmware += len(transfer.data)
        elif (kind, setup.request) not in ((0x00, 9), (0x21, 0)):
            transfer.end(Status.STALL)
            return
        transfer.end(Status.OK)

    def cancel(self, transfer: Transfer) -> bool:
        with self.lock:
            if transfer.status is not None:
                return False
            self.reads.remove(transfer)
            self.cancelled.append(transfer)
            transfer.end(Status.CANCELLED)
            return True

    def reset(self) -> None:
        with self.lock:
            self.resets += 1
            self.booted = bool(self.firmware) and not self.booted
            self.generation += 1
            for read in list(self.reads):
                self.cancel(read)

    def replug(self) -> None:
        self.connected = False
        self.generation += 1


class Log(list[Occurrence]):
    """What a server reported."""

    def kinds(self) -> list[str]:
        return [str(item.kind) for item in self]

    def of(self, kind: Kind) -> list[str]:
        return [item.text for item in self if item.kind is kind]


@dataclass
class Served:
    server: Server
    port: int
    log: Log


@contextmanager
def serving(
    *devices: UsbDevice, renew: Callable[[int], UsbDevice] | None = None
) -> Iterator[Served]:
    log = Log()
    with Server(devices, log.append, renew) as server:
        _, port = server.open(port=0)
        yield Served(server, port, log)


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for what other threads do."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


# --- messages ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "layout", "values"),
    [
        (OpHeader(status=7), raw.OP, (0x111, 0x8005, 7)),
        (CountBody(3), struct.Struct("!I"), (3,)),
        (ImportBody("1-1"), struct.Struct("!32s"), (b"1-1".ljust(32, b"\0"),)),
        (InterfaceEntry(1, 2, 3), struct.Struct("!BBBx"), (1, 2, 3)),
        (
            DeviceEntry("p", "b", *range(1, 13)),
            raw.DEVICE,
            (b"p".ljust(256, b"\0"), b"b".ljust(32, b"\0"), *range(1, 13)),
        ),
        (
            Submit(
                messages.Command.SUBMIT, 2, 3, messages.Direction.IN, 5, 6, 7, 8, 9, 10, b"s" * 8
            ),
            raw.SUBMIT,
            (1, 2, 3, 1, 5, 6, 7, 8, 9, 10, b"s" * 8),
        ),
        (Unlink(messages.Command.UNLINK, 2, 3, victim=4), raw.UNLINK, (2, 2, 3, 0, 0, 4)),
        (
            Submitted(messages.Command.SUBMITTED, 2, status=-32, actual=4),
            raw.RETURN,
            (3, 2, 0, 0, 0, -32, 4, 0, 0xFFFFFFFF, 0, 0)[:10],
        ),
        (
            Unlinked(messages.Command.UNLINKED, 2, status=-104),
            raw.RETURN,
            (4, 2, 0, 0, 0, -104, 0, 0, 0, 0),
        ),
    ],
    ids=lambda item: type(item).__name__,
)
def test_layouts(
    message: messages.Message, layout: struct.Struct, values: tuple[object, ...]
) -> None:
    data = message.pack()
    assert data == layout.pack(*values)
    assert len(data) == message.SIZE
    assert type(message).unpack(data) == message


def submit(**changes: object) -> bytes:
    return Submit(**({"endpoint": 1} | changes)).pack()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x01", "7 bytes too early"),
        (struct.pack("!HHI", 0x100, 0x8005, 0), "version 0x0100"),
        (struct.pack("!HHI", 0x111, 0x8006, 0), "0x8006 is not a OpCode"),
        (struct.pack("!HHI", 0x111, 0x0005, 0), "REPLY_LIST is not a request"),
        (struct.pack("!HHI", 0x111, 0x8003, 0) + b"x" * 32, "that a zero ends"),
        (struct.pack("!HHI", 0x111, 0x8003, 0) + b"\xff" + bytes(31), "ASCII"),
        (struct.pack("!HHI", 0x111, 0x8003, 0) + b"1-1", "29 bytes too early"),
    ],
)
def test_malformed_requests(data: bytes, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        messages.read_op(io.BytesIO(data))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (submit()[:-1], "1 bytes too early"),
        (struct.pack("!I", 9) + submit()[4:], "0x9 is not a Command"),
        (struct.pack("!I", 3) + submit()[4:], "SUBMITTED is not a request"),
        (submit(length=-1), "a buffer of -1 bytes"),
        (submit(length=(16 << 20) + 1), "a buffer of 16777217 bytes"),
        (submit(endpoint=16), "no endpoint 16"),
        (submit(packets=1), "isochronous"),
        (submit(length=4) + b"abc", "1 bytes too early"),
        (struct.pack("!IIII", 1, 1, 1, 2) + submit()[16:], "0x2 is not a Direction"),
    ],
)
def test_malformed_transfers(data: bytes, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        messages.read_urb(io.BytesIO(data))


def test_the_end_of_a_stream() -> None:
    assert messages.read_op(io.BytesIO()) is None
    assert messages.read_urb(io.BytesIO()) is None
    with pytest.raises(FormatError):
        DeviceEntry(busid="x" * 32).pack()
    with pytest.raises(FormatError):
        DeviceEntry(bus=-1).pack()


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speed", "number"), [(Speed.HIGH, 3), (Speed.SUPER, 5)])
def test_the_list(speed: Speed, number: int) -> None:
    with serving(Echo(speed), Echo(speed, booted=True), Echo(connected=False)) as served:
        first, second = listing(served.port)
        assert (first.busid, first.speed, first.vendor, first.product) == ("1-1", number, *BOOT)
        assert first.interfaces == ((0xFE, 1, 2),)
        assert (second.busid, second.vendor, second.product) == ("1-2", *RUNTIME)
        assert second.interfaces == ((0xFF, 0xFF, 0xFF),)
        assert first.path.endswith("/1-1")
        assert first.number != second.number
        with Client(served.port, "1-2"):
            assert [device.busid for device in listing(served.port)] == ["1-1"]


def test_a_device_has_one_client() -> None:
    with serving(Echo()) as served:
        with Client(served.port) as client:
            assert (client.device.busid, client.device.vendor) == ("1-1", BOOT[0])
            with pytest.raises(Refused):
                Client(served.port)
        until(lambda: "release" in served.log.kinds())
        with pytest.raises(Refused):
            Client(served.port, "1-2")
        with Client(served.port):
            pass
        refused = served.log.of(Kind.REFUSE)
    assert "another client has it" in refused[0]
    assert "no such device" in refused[1]


def test_control_transfers() -> None:
    with serving(Echo()) as served, Client(served.port) as client:
        descriptor = client.read(0x80, 6, 0x100, size=18)
        assert struct.unpack_from("<HH", descriptor, 8) == BOOT
        assert client.read(0x80, 6, 0x100, size=8) == descriptor[:8]
        assert client.read(0x80, 6, 0x200, size=521) == boot_configuration(PORT)
        client.write(0x00, 9, 1)
        stalled = client.control(0xC0, 99, data=4)
        assert (stalled.status, stalled.actual) == (-raw.EPIPE, 0)


def test_bulk_transfers_and_their_ends() -> None:
    data = bytes(range(256)) * 4096
    with serving(Echo()) as served, Client(served.port) as client:
        pending = client.submit(0x81, room=16 << 20)
        sent = client.bulk(1, data)
        assert (sent.status, sent.actual, sent.data) == (0, 1 << 20, b"")
        assert client.wait(pending).data == data
        failed = client.bulk(3, bytes(10))
        assert (failed.status, failed.actual) == (-71, 5)
        babble = client.bulk(0x83, room=4)
        assert (babble.status, babble.data) == (-raw.EOVERFLOW, bytes(4))
        assert client.bulk(0x82, room=16).status == -raw.EPIPE
        assert client.bulk(1).status == 0


def test_short_reads_may_be_errors() -> None:
    with serving(Echo()) as served, Client(served.port) as client:
        short = client.submit(0x81, room=8, flags=1)
        full = client.submit(0x81, room=3, flags=1)
        client.bulk(1, b"abc")
        reply = client.wait(short)
        assert (reply.status, reply.data) == (-raw.EREMOTEIO, b"abc")
        client.bulk(1, b"def")
        assert (client.wait(full).status, full) == (0, 2)


def test_unlinking() -> None:
    device = Echo()
    with serving(device) as served, Client(served.port) as client:
        first, second = (client.submit(0x81, room=4) for _ in range(2))
        until(lambda: len(device.reads) == 2)
        reply = client.wait(client.unlink(first))
        assert (reply.command, reply.status) == (4, -raw.ECONNRESET)
        assert client.wait(client.unlink(first)).status == 0
        client.bulk(1, b"data")
        assert client.wait(second).data == b"data"
        assert client.wait(client.unlink(second)).status == 0
        assert client.early == {}
        assert len(device.cancelled) == 1


def test_unlinking_while_the_device_computes() -> None:
    device = Echo(gate=threading.Event())
    assert device.gate is not None
    with serving(device) as served, Client(served.port) as client:
        busy = client.submit(1, b"abcd")
        waiting = client.submit(1, b"efgh")
        read = client.submit(0x81, room=64)
        until(lambda: len(device.reads) == 1)
        # Neither the read nor what has not reached the device has to wait for it.
        assert client.wait(client.unlink(read)).status == -raw.ECONNRESET
        assert client.wait(client.unlink(waiting)).status == -raw.ECONNRESET
        late = client.unlink(busy)
        device.gate.set()
        # The transfer ends first, or the client would give it back twice.
        replies = [client.next(), client.next()]
        assert [(reply.command, reply.seq) for reply in replies] == [(3, busy), (4, late)]
        assert [reply.status for reply in replies] == [0, 0]
        assert device.store == b"abcd"


def test_the_next_client_finds_nothing_under_way() -> None:
    device = Echo()
    with serving(device) as served:
        with Client(served.port) as client:
            client.bulk(1, b"left")
            for _ in range(3):
                client.submit(0x81, room=2)
            until(lambda: len(device.reads) == 1)
        until(lambda: "release" in served.log.kinds())
        assert device.reads == []
        with Client(served.port) as client:
            client.bulk(1, b"more")
            assert client.bulk(0x81, room=4).data == b"more"


def test_fresh_devices() -> None:
    made: queue.SimpleQueue[int] = queue.SimpleQueue()

    def renew(position: int) -> Echo:
        made.put(position)
        return Echo(booted=True)

    with serving(Echo(), Echo(), renew=renew) as served:
        with Client(served.port, "1-2"):
            pass
        until(lambda: "release" in served.log.kinds())
        assert made.get_nowait() == 1
        assert made.empty()
        assert [device.vendor for device in listing(served.port)] == [BOOT[0], RUNTIME[0]]


# --- resets and plugs ----------------------------------------------------------------------------


def test_a_reset_is_inferred_from_the_next_look_at_the_device() -> None:
    device = Echo()
    with serving(device) as served, Client(served.port) as client:
        for _ in range(2):
            assert client.read(0x80, 6, 0x100, size=18)[8:10] == b"\x6e\x1a"
        client.write(0x21, 1, 0, data=b"x" * 256)
        client.write(0x21, 1, 1, data=b"y" * 44)
        assert client.read(0x80, 6, 0x100, size=18)[8:10] == b"\x6e\x1a"
        assert device.resets == 0
        client.write(0x21, 1, 2)
        client.read(0x80, 6, 0x200, size=9)
        assert device.resets == 0
        assert client.read(0x80, 6, 0x100, size=18)[8:10] == b"\xd1\x18"
        assert client.read(0x80, 6, 0x100, size=18)[8:10] == b"\xd1\x18"
        assert device.resets == 1
        client.write(0x00, 9, 1)
        time.sleep(0.15)  # as long as a connection to an unplugged device would live
        client.write(0x21, 0, 0x100)
        assert client.read(0x80, 6, 0x100, size=18)[8:10] == b"\x6e\x1a"
        kinds = served.log.kinds()
        assert kinds == ["import", "download", "boot", "detach", "boot"]
        assert served.log.of(Kind.DOWNLOAD) == ["firmware of 300 bytes in 2 blocks"]
        assert served.log.of(Kind.BOOT)[0] == "comes back as 18d1:9302"


def test_unplugging() -> None:
    device = Echo()
    with serving(device) as served:
        with Client(served.port) as client:
            client.submit(0x81, room=4)
            until(lambda: device.reads)
            device.replug()
            assert client.ended()
        until(lambda: "release" in served.log.kinds())
        assert served.log.of(Kind.RELEASE) == ["the device was unplugged"]
        assert listing(served.port) == []
        with pytest.raises(Refused):
            Client(served.port)
        device.connected = True
        until(lambda: "plug" in served.log.kinds())
        assert len(listing(served.port)) == 1
        with Client(served.port) as client:
            # Too fast for anybody to see it absent.
            device.generation += 1
            assert client.ended()


# --- clients that misbehave ----------------------------------------------------------------------


def control(length: int, setup_length: int, kind: int = 0x80, inward: int = 1) -> bytes:
    setup = struct.pack("<BBHHH", kind, 6, 0x100, 0, setup_length)
    return raw.SUBMIT.pack(1, 1, 0x10002, inward, 0, 0, length, 0, 0, 0, setup)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\xff" * 48, "not a Command"),
        (raw.UNLINK.pack(2, 1, 0x99, 0, 0, 1), "device 0x99"),
        (control(18, 8), "setup stage"),
        (control(18, 18, kind=0), "setup stage"),
        (submit(devid=0x10002, length=1 << 30), "buffer"),
        (2 * raw.SUBMIT.pack(1, 1, 0x10002, 1, 1, 0, 4, 0, 0, 0, bytes(8)), "under way already"),
        (
            b"".join(
                raw.SUBMIT.pack(1, seq, 0x10002, 1, 1, 0, 16 << 20, 0, 0, 0, bytes(8))
                for seq in range(5)
            ),
            "5 transfers of 83886080 bytes",
        ),
        (
            b"".join(
                raw.SUBMIT.pack(1, seq, 0x10002, 1, 1, 0, 4, 0, 0, 0, bytes(8))
                for seq in range(session.MOST_TRANSFERS + 1)
            ),
            "1025 transfers",
        ),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_malformed_messages_end_one_connection(data: bytes, what: str) -> None:
    device = Echo()
    with serving(device, Echo()) as served, Client(served.port, "1-2") as other:
        with Client(served.port) as client:
            client.connection.sendall(data)
            assert client.ended()
        until(lambda: "release" in served.log.kinds())
        assert what in served.log.of(Kind.ERROR)[0]
        assert device.reads == []
        assert other.bulk(1, b"still there").status == 0
        with Client(served.port) as client:
            assert client.bulk(1, b"again").status == 0


def test_malformed_requests_and_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitzroy.hw_models.usb_device.usbip.server._REQUEST_SECONDS", 1.0)
    with serving(Echo()) as served:
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x01\x11\x80"):
            with connect(served.port) as connection:
                connection.sendall(data)
                until(lambda: connection.recv(1) == b"")
        with connect(served.port):
            pass
        assert len(listing(served.port)) == 1
        # The server notices an end of silence in its own time.
        until(lambda: len(served.log.of(Kind.ERROR)) == 2)


def test_too_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitzroy.hw_models.usb_device.usbip.server.MOST_CONNECTIONS", 2)
    with serving(Echo()) as served, Client(served.port):
        # Who says nothing makes room for others; who has a device does not.
        with connect(served.port) as silent, connect(served.port) as drip:
            assert silent.recv(1) == b""
            drip.sendall(b"\x01")
            assert listing(served.port) == []
            assert drip.recv(1) == b""
        until(lambda: len(served.server._connections) == 1)
        assert listing(served.port) == []
        assert len(served.log.of(Kind.REFUSE)) == 2


def test_a_byte_now_and_then_does_not_put_off_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitzroy.hw_models.usb_device.usbip.server._REQUEST_SECONDS", 0.4)
    monkeypatch.setattr("fitzroy.hw_models.usb_device.usbip.session._URB_SECONDS", 0.4)

    def drips(connection: socket.socket, message: bytes) -> None:
        with contextlib.suppress(OSError):
            for byte in message:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)

    with serving(Echo()) as served:
        with connect(served.port) as connection:
            drips(connection, b"\x01\x11\x80\x05\0\0\0")
            until(lambda: len(served.log.of(Kind.ERROR)) == 1)
        assert "after 0.4 s" in served.log.of(Kind.ERROR)[0]
        with Client(served.port) as client:
            # Between two requests, a client may be silent for longer.
            time.sleep(0.6)
            assert client.bulk(1, b"still there").status == 0
            drips(client.connection, submit(devid=0x10001, length=4)[:10])
            assert client.ended()
        until(lambda: "release" in served.log.kinds())
        assert "connection broke" in served.log.of(Kind.RELEASE)[0]


@contextmanager
def hostile_server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that does something else than to answer a request."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(64)
                answer(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        thread.join(5)


def head(count: int) -> bytes:
    return OpHeader(code=OpCode.REPLY_LIST).pack() + struct.pack(">I", count)


def test_lists_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitzroy.hw_models.usb_device.usbip.client._SECONDS", 0.4)
    entry = raw.DEVICE.pack(
        b"/x", b"1-1", 1, 2, 5, 0x18D1, 0x9302, 0x100, 0, 0, 0, 1, 1, 0
    )  # fmt: skip

    def drip(connection: socket.socket) -> None:
        connection.sendall(head(3))
        for _ in range(30):
            connection.sendall(b"/")
            time.sleep(0.1)

    def endless(connection: socket.socket) -> None:
        connection.sendall(head(0xFFFFFFFF))
        while True:
            connection.sendall(entry * 100)

    with hostile_server(endless) as port, pytest.raises(FormatError, match="4294967295 devices"):
        list_devices("127.0.0.1", port)
    for answer in (drip, lambda connection: time.sleep(2)):
        with hostile_server(answer) as port, pytest.raises(DeviceError) as caught:
            list_devices("127.0.0.1", port)
        assert "after 0.4 s" in caught.value.reason


def test_a_device_that_fails() -> None:
    with serving(Echo()) as served, Client(served.port) as client:
        client.submit(0x8F, room=4)
        assert client.ended()
        until(lambda: "release" in served.log.kinds())
        assert served.log.of(Kind.ERROR) == ["ValueError: broken"]
        assert served.log.of(Kind.RELEASE) == ["the device failed"]


def test_a_client_that_vanishes() -> None:
    device = Echo()
    with serving(device) as served:
        client = Client(served.port)
        client.bulk(1, bytes(1 << 20))
        for _ in range(30):
            client.submit(0x81, room=1 << 20)
            client.submit(1, bytes(1 << 20))
        linger = struct.pack("ii", 1, 0)
        client.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        client.connection.close()
        until(lambda: "release" in served.log.kinds())
        assert device.reads == []
        assert len(listing(served.port)) == 1


def test_addresses() -> None:
    with serving(Echo()) as served, Server([Echo()]) as other:
        with pytest.raises(UsageError, match="cannot listen") as caught:
            other.open(port=served.port)
        assert "--port 0" in caught.value.hint
        with pytest.raises(UsageError):
            other.open("no.such.host.invalid", 0)
        with pytest.raises(UsageError):
            other.open("192.0.2.1", 0)


def test_closing_ends_connections() -> None:
    device = Echo()
    with serving(device) as served:
        client = Client(served.port)
        client.submit(0x81, room=4)
        until(lambda: device.reads)
    assert client.ended()
    assert device.reads == []
    client.connection.close()
    with pytest.raises(OSError, match="refused"):
        connect(served.port)


# --- the virtual accelerator ---------------------------------------------------------------------

FIRMWARE = bytes(range(256)) * 42 + b"end"
COUNTING = np.arange(SIZE, dtype=np.uint8)


def payloads(executable: Executable, data: bytes = b"") -> list[tuple[int, bytes]]:
    """What the host sends for an executable whose transfers are whole buffers, by tag."""
    found = []
    for stream in executable.instruction_bitstreams or ():
        assert stream.bitstream is not None
        found.append((0, stream.bitstream.tobytes()))
    assert len(found) == 1
    if executable.parameters is not None and executable.parameters.size:
        found.append((2, executable.parameters.tobytes()))
    return [*found, (1, data)] if data else found


@contextmanager
def accelerator(speed: Speed, **options: Any) -> Iterator[Served]:
    with serving(VirtualDevice(speed, **options)) as served:
        yield served


@pytest.mark.parametrize("speed", Speed, ids=str)
def test_an_accelerator_boots_and_runs(speed: Speed) -> None:
    program = payloads(echo().main, COUNTING.tobytes())
    with accelerator(speed) as served:
        assert [(device.vendor, device.product) for device in listing(served.port)] == [BOOT]
        with Coral(served.port) as client:
            assert client.enumerate() == BOOT
            client.download(FIRMWARE)
            assert client.enumerate() == RUNTIME
            client.open()
            for _ in range(2):
                assert client.run(program, SIZE) == COUNTING.tobytes()
            # What waits for ever, such as the driver's read of interrupts, is unlinked at the end.
            pending = client.submit(0x83, room=4)
            assert client.wait(client.unlink(pending)).status == -raw.ECONNRESET
        until(lambda: "release" in served.log.kinds())
        # Another host finds the firmware running, and loads it again.
        assert [(device.vendor, device.product) for device in listing(served.port)] == [RUNTIME]
        with Coral(served.port) as client:
            assert client.enumerate() == RUNTIME
            client.write(0x21, 0, 0x100)
            assert client.enumerate() == BOOT
            client.download(FIRMWARE)
        with until_free(served), Coral(served.port) as client:
            assert client.enumerate() == RUNTIME
            client.open()
            assert client.run(program, SIZE) == COUNTING.tobytes()
        until(lambda: served.log.kinds().count("release") == 3)
        log = served.log
    assert log.kinds()[:6] == ["import", "download", "boot", "program", "program", "release"]
    assert log.kinds()[6:] == [
        "import", "detach", "boot", "download", "release", "import", "boot", "program", "release",
    ]  # fmt: skip
    assert log.of(Kind.DOWNLOAD)[0] == f"firmware of {len(FIRMWARE):,} bytes in 43 blocks"
    sent = sum(8 + len(payload) for _, payload in program)
    assert log.of(Kind.PROGRAM)[0].startswith(f"{sent:,} bytes sent")


@contextmanager
def until_free(served: Served) -> Iterator[None]:
    """Once no client has the device."""
    until(lambda: all(export.session is None for export in served.server.exports))
    yield


class DiedError(Exception):
    """The process ends where it is."""


class Mortal(Coral):
    """A host that dies after a number of transfers; its system closes the connection."""

    last = 1 << 30

    def submit(self, *arguments: Any, **options: Any) -> int:
        if self.seq == self.last:
            self.connection.close()
            raise DiedError
        return super().submit(*arguments, **options)

    def do_all(self) -> None:
        """Boot the device if it has to be, open it, and run a program."""
        if self.enumerate() == BOOT:
            # Another host may have left a download in the middle.
            state = self.read(0xA1, 3, size=6)[4]
            if state != 2:
                self.write(0x21, 4 if state == 10 else 6)
            self.download(FIRMWARE)
            assert self.enumerate() == RUNTIME
        self.open()
        assert self.run(payloads(echo().main, COUNTING.tobytes()), SIZE) == COUNTING.tobytes()


def test_a_host_dies_and_another_one_goes_on(full: bool) -> None:
    with accelerator(Speed.SUPER) as served, Mortal(served.port) as client:
        client.do_all()
        transfers = client.seq
    assert transfers > 200
    for last in range(1, transfers, 1 if full else 37):
        with accelerator(Speed.SUPER) as served:
            first = Mortal(served.port)
            first.last = last
            with pytest.raises(Refused):
                Client(served.port)
            with pytest.raises(DiedError):
                first.do_all()
            until(lambda: "release" in served.log.kinds())
            with Mortal(served.port) as client:
                client.do_all()


def test_an_accelerator_is_unplugged() -> None:
    device = VirtualDevice(booted=True)
    with serving(device) as served:
        with Coral(served.port) as client:
            client.enumerate()
            client.submit(0x82, room=16)
            device.unplug()
            assert client.ended()
        assert listing(served.port) == []
        device.plug()
        until(lambda: listing(served.port))
        with Coral(served.port) as client:
            assert client.enumerate() == BOOT


def test_faults_reach_the_client() -> None:
    faults = [
        Fault(FaultKind.STALL, 1, endpoint=0x81),
        Fault(FaultKind.BABBLE, 1, endpoint=0x82),
        Fault(FaultKind.REPLUG, 5, endpoint=1, seconds=0.2),
    ]
    program = payloads(echo().main, COUNTING.tobytes())
    with accelerator(Speed.SUPER, booted=True, faults=faults) as served:
        with Coral(served.port) as client:
            client.enumerate()
            client.open()
            assert client.bulk(0x81, room=1024).status == -raw.EPIPE
            client.write(0x02, 1, 0, 0x81)
            event = client.submit(0x82, room=16)
            for tag, payload in program:
                assert [client.wait(seq).status for seq in client.send(tag, payload)] == [0, 0]
            assert client.wait(event).status == -raw.EOVERFLOW
            assert client.bulk(0x81, room=1024).data == COUNTING.tobytes()
            client.send(*program[0])
            assert client.ended()
        until(lambda: "plug" in served.log.kinds())
        assert served.log.of(Kind.RELEASE) == ["the device was unplugged"]
        with Coral(served.port) as client:
            assert client.enumerate() == BOOT


@pytest.mark.corpus
@pytest.mark.parametrize("speed", Speed, ids=str)
def test_a_compiled_model(speed: Speed) -> None:
    path = corpus() / "templates" / "dense_256_edgetpu.tflite"
    (package,) = read_container(path.read_bytes()).packages
    assert package.caching is not None
    wanted = SimulatedDevice().run(package, {next(iter(package.main.inputs)): COUNTING}).stream
    with accelerator(speed, booted=True, seed=3) as served, Coral(served.port) as client:
        assert client.enumerate() == RUNTIME
        client.open()
        assert client.run(payloads(package.caching), 0) == b""
        for _ in range(2):
            assert client.run(payloads(package.main, COUNTING.tobytes()), SIZE) == wanted
