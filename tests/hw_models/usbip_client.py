"""A client of USB/IP from raw sockets: it shares no code with the server.

Layouts are written down from the published protocol, Documentation/usb/usbip_protocol.rst of
Linux, so that a mistake in the server's declarations does not cancel out.
"""

from __future__ import annotations

import dataclasses
import socket
import struct
from dataclasses import dataclass
from typing import Self

OP = struct.Struct("!HHI")
DEVICE = struct.Struct("!256s32sIIIHHHBBBBBB")
SUBMIT = struct.Struct("!IIIIIIiIIi8s")
UNLINK = struct.Struct("!IIIIII24x")
RETURN = struct.Struct("!IIIIIiiIII8x")

EPIPE, EOVERFLOW, ECONNRESET, EREMOTEIO = 32, 75, 104, 121


@dataclass(frozen=True)
class Device:
    path: str
    busid: str
    bus: int
    number: int
    speed: int
    vendor: int
    product: int
    configuration: int
    interfaces: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Reply:
    command: int
    seq: int
    status: int
    actual: int
    data: bytes


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def take(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(size)
        if not part:
            raise EOFError(f"{size} bytes are missing")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def device_of(data: bytes) -> tuple[Device, int]:
    assert len(data) == 312
    path, busid, bus, number, speed, vendor, product, _, *rest = DEVICE.unpack(data)
    assert rest[:3] == [0, 0, 0]
    assert rest[4] == 1
    names = path.rstrip(b"\0").decode(), busid.rstrip(b"\0").decode()
    return Device(*names, bus, number, speed, vendor, product, rest[3]), rest[5]


def listing(port: int) -> list[Device]:
    with connect(port) as connection:
        connection.sendall(OP.pack(0x0111, 0x8005, 0))
        assert OP.unpack(take(connection, 8)) == (0x0111, 0x0005, 0)
        (count,) = struct.unpack("!I", take(connection, 4))
        devices = []
        for _ in range(count):
            device, interfaces = device_of(take(connection, 312))
            kinds = [struct.unpack("!BBBx", take(connection, 4)) for _ in range(interfaces)]
            devices.append(dataclasses.replace(device, interfaces=tuple(kinds)))
        assert connection.recv(1) == b""
        return devices


class Refused(Exception):
    pass


class Client:
    """An imported device."""

    def __init__(self, port: int, busid: str = "1-1") -> None:
        self.connection = connect(port)
        self.connection.sendall(OP.pack(0x0111, 0x8003, 0) + busid.encode().ljust(32, b"\0"))
        version, code, status = OP.unpack(take(self.connection, 8))
        assert (version, code) == (0x0111, 0x0003)
        if status:
            assert self.connection.recv(1) == b""
            self.connection.close()
            raise Refused(status)
        self.device, _ = device_of(take(self.connection, 312))
        self.devid = self.device.bus << 16 | self.device.number
        self.seq = 0
        self.early: dict[int, Reply] = {}
        self.rooms: dict[int, bool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def submit(
        self,
        endpoint: int,
        data: bytes = b"",
        *,
        room: int = 0,
        setup: bytes = bytes(8),
        inward: bool | None = None,
        flags: int = 0,
    ) -> int:
        """Start a transfer; returns its number."""
        inward = bool(endpoint & 0x80) if inward is None else inward
        self.seq += 1
        size = room if inward else len(data)
        number = endpoint & 0xF
        head = SUBMIT.pack(
            1, self.seq, self.devid, int(inward), number, flags, size, 0, 0xFFFFFFFF, 0, setup
        )
        self.rooms[self.seq] = inward
        self.connection.sendall(head + data)
        return self.seq

    def unlink(self, victim: int) -> int:
        self.seq += 1
        self.connection.sendall(UNLINK.pack(2, self.seq, self.devid, 0, 0, victim))
        return self.seq

    def next(self) -> Reply:
        """The next message of the server."""
        fields = RETURN.unpack(take(self.connection, 48))
        command, seq, devid, direction, endpoint, status, actual, frame, packets, errors = fields
        assert (devid, direction, endpoint) == (0, 0, 0)
        assert command in (3, 4)
        if command == 4:
            assert (actual, frame, packets, errors) == (0, 0, 0, 0)
            return Reply(command, seq, status, 0, b"")
        assert (frame, packets, errors) == (0, 0xFFFFFFFF, 0)
        data = take(self.connection, actual) if self.rooms[seq] else b""
        return Reply(command, seq, status, actual, data)

    def wait(self, seq: int) -> Reply:
        """The answer to a request; keeps others for later."""
        while seq not in self.early:
            reply = self.next()
            assert reply.seq not in self.early
            self.early[reply.seq] = reply
        return self.early.pop(seq)

    def control(
        self, kind: int, request: int, value: int = 0, index: int = 0, data: bytes | int = 0
    ) -> Reply:
        """A control transfer: data to the device, or the number of bytes from it."""
        inward = bool(kind & 0x80)
        length = data if isinstance(data, int) else len(data)
        setup = struct.pack("<BBHHH", kind, request, value, index, length)
        payload = data if isinstance(data, bytes) else b""
        return self.wait(self.submit(0, payload, room=length, setup=setup, inward=inward))

    def read(self, kind: int, request: int, value: int = 0, index: int = 0, size: int = 0) -> bytes:
        reply = self.control(kind, request, value, index, size)
        assert reply.status == 0, reply
        return reply.data

    def write(
        self, kind: int, request: int, value: int = 0, index: int = 0, data: bytes = b""
    ) -> None:
        reply = self.control(kind, request, value, index, data)
        assert (reply.status, reply.actual) == (0, len(data)), reply

    def bulk(self, endpoint: int, data: bytes = b"", room: int = 0) -> Reply:
        return self.wait(self.submit(endpoint, data, room=room))

    def ended(self) -> bool:
        """Whether the server closes the connection, after answers that are still on the way."""
        try:
            while self.connection.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        return True


# --- what a driver of the accelerator does, with the numbers of published captures ---------------

BLOCK = 256
EVENT_DONE = struct.pack("<QIB3x", 0, 0, 4)

WAKE = (
    (32, 0x1A30C, 0x000F0059),
    (32, 0x1A318, 0x60C50004),
    (32, 0x1907C, 0xF),
    (32, 0x1907C, 0),
    (32, 0x1A318, 0x0085025C),
    (64, 0x4A000, 1),
    (64, 0x48788, 0x7F),
    (64, 0x40020, 0x1E02),
    (32, 0x1A314, 0x00150000),
    (64, 0x4C148, 0xF0),
    (64, 0x4C160, 0),
)
ENGINES = (
    (64, 0x44018),
    (64, 0x44158),
    (64, 0x44198),
    (64, 0x441D8),
    (64, 0x44218),
    (64, 0x400C0),
    (64, 0x40150),
    (64, 0x40110),
    (64, 0x40250),
    (64, 0x40298),
    (64, 0x402E0),
    (64, 0x40328),
    (64, 0x40190),
    (64, 0x401D0),
    (64, 0x40210),
    (64, 0x4C060),
    (64, 0x4C070),
    (64, 0x4C080),
    (64, 0x4C090),
    (64, 0x4C0A0),
)


class Coral(Client):
    """A driver of the accelerator, on top of an imported device."""

    def enumerate(self) -> tuple[int, int]:
        """What the kernel does with a device that it has not seen; its vendor and product."""
        assert len(self.read(0x80, 6, 0x100, size=8)) == 8
        descriptor = self.read(0x80, 6, 0x100, size=18)
        assert len(descriptor) == 18
        fast = self.device.speed == 5
        assert descriptor[7] == (9 if fast else 64)
        assert int.from_bytes(descriptor[2:4], "little") == (0x310 if fast else 0x210)
        store = self.read(0x80, 6, 0xF00, size=5)
        size = int.from_bytes(store[2:4], "little")
        assert self.read(0x80, 6, 0xF00, size=size)[:5] == store
        if fast:
            self.write(0x00, 0x31, 40)
        head = self.read(0x80, 6, 0x200, size=9)
        whole = self.read(0x80, 6, 0x200, size=int.from_bytes(head[2:4], "little"))
        assert whole[:9] == head
        assert self.read(0x80, 6, 0x200, size=521) == whole
        self.write(0x00, 9, head[5])
        vendor, product = struct.unpack_from("<HH", descriptor, 8)
        return vendor, product

    def download(self, firmware: bytes) -> None:
        """Load firmware into the boot ROM, and read it back."""
        blocks = [firmware[at : at + BLOCK] for at in range(0, len(firmware), BLOCK)]
        for number, block in enumerate([*blocks, b""]):
            self.write(0x21, 1, number, 0, block)
            status = self.read(0xA1, 3, size=6)
            assert (status[0], status[4]) == (0, 5 if block else 2)
        memory, number = b"", 0
        while not number or len(memory) == number * BLOCK:
            memory += self.read(0xA1, 2, number, size=BLOCK)
            number += 1
        assert memory[: len(firmware)] == firmware

    def csr(self, bits: int, address: int, value: int | None = None) -> int:
        """Write a register, or read it if no value is given."""
        place = (int(bits == 32), address & 0xFFFF, address >> 16)
        if value is None:
            return int.from_bytes(self.read(0xC0, *place, size=bits // 8), "little")
        self.write(0x40, *place, value.to_bytes(bits // 8, "little"))
        return value

    def open(self) -> None:
        for bits, address, value in WAKE:
            self.csr(bits, address, value)
        assert self.csr(64, 0x48788) == 0x7F
        self.csr(64, 0x4C058, 0x80 if self.device.speed == 5 else 0x20)
        for bits, address in ENGINES:
            self.csr(bits, address, 1)

    def send(self, tag: int, payload: bytes) -> list[int]:
        """Send a payload with its header; returns the requests."""
        parts = [payload[at : at + (1 << 20)] for at in range(0, len(payload), 1 << 20)]
        header = struct.pack("<IB3x", len(payload), tag)
        return [self.submit(1, part) for part in (header, *parts)]

    def run(self, payloads: list[tuple[int, bytes]], size: int) -> bytes:
        """Send payloads by tag, and read outputs and the event at the end."""
        event = self.submit(0x82, room=16)
        packet = 1024 if self.device.speed == 5 else 256
        reads = [self.submit(0x81, room=packet) for _ in range(-(-size // packet))]
        sent = [seq for tag, payload in payloads for seq in self.send(tag, payload)]
        for seq in sent:
            assert self.wait(seq).status == 0
        output = b"".join(self.wait(seq).data for seq in reads)
        reply = self.wait(event)
        assert (reply.status, reply.data) == (0, EVENT_DONE)
        return output
