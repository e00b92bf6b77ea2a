"""Messages of USB/IP, declared once; big-endian records and the order in which they come.

A message is a frozen dataclass whose fields are made by `wire`: a codec and one line of
documentation. `Message.pack` and `Message.unpack` follow from that. Numbers that have no meaning,
lengths beyond the limits and streams that end early are `FormatError`. Bytes that the protocol
leaves unused are zero when sent and ignored when received, because clients do not clear all.

Source: Documentation/usb/usbip_protocol.rst of Linux (protocol version 1.1.1); the setup stage
inside of a submission is little-endian, as on the bus.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.chips.usb import Speed

PORT = 3240
"""TCP port of USB/IP."""

VERSION = 0x0111
"""Version of the protocol."""

MOST_DEVICES = 1024
"""Most devices of a list; 127 fit on a bus."""

MOST_BYTES = 16 << 20
"""Most bytes in a transfer; Linux clients stay at 1 MiB and below."""

NO_PACKETS = 0xFFFFFFFF
"""Number of packets of a transfer that is not isochronous; clients also send 0."""

_ENDPOINTS = 16

T = TypeVar("T")


class OpCode(IntEnum):
    """Messages before a device is imported."""

    REPLY_IMPORT = 0x0003
    REPLY_LIST = 0x0005
    REQUEST_IMPORT = 0x8003
    REQUEST_LIST = 0x8005


class ImportStatus(IntEnum):
    """Outcome of a request before a device is imported."""

    OK = 0
    ERROR = 1


class Command(IntEnum):
    """Messages after a device is imported."""

    SUBMIT = 1
    UNLINK = 2
    SUBMITTED = 3
    UNLINKED = 4


class Direction(IntEnum):
    """Where the data of a transfer goes."""

    OUT = 0
    IN = 1


class Errno(IntEnum):
    """Status of a transfer: negative error numbers of Linux."""

    OK = 0
    PIPE = -32
    PROTOCOL = -71
    OVERFLOW = -75
    RESET = -104
    SHUTDOWN = -108
    REMOTE_IO = -121


SHORT_NOT_OK = 1
"""Flag of a submission: fewer bytes than asked for are an error (`Errno.REMOTE_IO`)."""

SPEEDS = {Speed.HIGH: 3, Speed.SUPER: 5}
"""Numbers of speeds, those of Linux."""


class Codec(Protocol[T]):
    """Meaning of a few bytes; `code` is their format for `struct`."""

    @property
    def code(self) -> str: ...  # noqa: D102

    def decode(self, raw: Any) -> T: ...  # noqa: D102

    def encode(self, value: T) -> Any: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Plain:
    """Whatever `struct` makes of it: a number, or bytes."""

    code: str

    def decode(self, raw: Any) -> Any:
        """The value as it is."""
        return raw

    def encode(self, value: Any) -> Any:
        """The value as it is."""
        return value


U8, U16, U32, I32 = Plain("B"), Plain("H"), Plain("I"), Plain("i")


@dataclass(frozen=True, slots=True)
class Member(Generic[T]):
    """A member of an enumeration.

    Args:
        code: format of its number.
        type: the enumeration.
    """

    code: str
    type: type[IntEnum]

    def decode(self, raw: int) -> IntEnum:
        """The member of a number.

        Raises:
            FormatError: there is none.
        """
        try:
            return self.type(raw)
        except ValueError:
            raise FormatError(f"{raw:#x} is not a {self.type.__name__}") from None

    def encode(self, value: IntEnum) -> int:
        """The number of a member."""
        return int(value)


@dataclass(frozen=True, slots=True)
class Text:
    """ASCII text that a zero ends, in a field of `size` bytes."""

    size: int

    @property
    def code(self) -> str:
        """A field of so many bytes."""
        return f"{self.size}s"

    def decode(self, raw: bytes) -> str:
        """The text up to the first zero.

        Raises:
            FormatError: there is no zero, or a byte is not ASCII.
        """
        text, end, _ = raw.partition(b"\0")
        if not end or not text.isascii():
            raise FormatError(f"{text[:40]!r} is not ASCII text that a zero ends")
        return text.decode("ascii")

    def encode(self, value: str) -> bytes:
        """The bytes of a text.

        Raises:
            FormatError: it does not fit.
        """
        if len(value) >= self.size or not value.isascii():
            raise FormatError(f"{value[:40]!r} is not ASCII text of at most {self.size - 1} bytes")
        return value.encode("ascii")


def wire(codec: Codec[Any], doc: str, default: Any = 0) -> Any:
    """Declare a field of a message.

    Args:
        codec: size and meaning.
        doc: one line for readers.
        default: value when nothing is said.
    """
    return dataclasses.field(default=default, metadata={"wire": codec, "doc": doc})


_Declared = tuple[struct.Struct, tuple[tuple[str, Codec[Any]], ...]]


class Message:
    """Base of all messages.

    Attributes:
        SIZE: number of bytes; what fields leave is unused.
    """

    __slots__ = ()
    SIZE: ClassVar[int]
    _made: ClassVar[_Declared]

    @classmethod
    def _declared(cls) -> _Declared:
        """Layout and codecs of the fields, made on first use."""
        if "_made" not in cls.__dict__:
            fields = tuple(
                (field.name, field.metadata["wire"])
                for field in dataclasses.fields(cls)  # type: ignore[arg-type]
            )
            code = ">" + "".join(codec.code for _, codec in fields)
            rest = cls.SIZE - struct.calcsize(code)
            cls._made = struct.Struct(f"{code}{rest}x"), fields
        return cls._made

    def pack(self) -> bytes:
        """The bytes of the message.

        Raises:
            FormatError: a value does not fit its field.
        """
        layout, fields = self._declared()
        try:
            return layout.pack(*[codec.encode(getattr(self, name)) for name, codec in fields])
        except struct.error as error:
            raise FormatError(str(error), table=type(self).__name__) from None

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The message in `SIZE` bytes.

        Raises:
            FormatError: a number has no meaning.
        """
        layout, fields = cls._declared()
        values = []
        for raw, (name, codec) in zip(layout.unpack(data), fields, strict=True):
            try:
                values.append(codec.decode(raw))
            except FormatError as error:
                raise FormatError(error.what, table=f"{cls.__name__}.{name}") from None
        return cls(*values)


@dataclass(frozen=True, slots=True)
class OpHeader(Message):
    """Begins every message before a device is imported."""

    SIZE = 8

    version: int = wire(U16, "version of the protocol", VERSION)
    code: OpCode = wire(Member("H", OpCode), "what follows", OpCode.REQUEST_LIST)
    status: int = wire(U32, "0 in requests and if all went well")


@dataclass(frozen=True, slots=True)
class ImportBody(Message):
    """Follows the header of a request to import."""

    SIZE = 32

    busid: str = wire(Text(32), "name of the device on the server", "")


@dataclass(frozen=True, slots=True)
class CountBody(Message):
    """Follows the header of a list."""

    SIZE = 4

    count: int = wire(U32, "number of devices")


@dataclass(frozen=True, slots=True)
class DeviceEntry(Message):
    """A device, in lists and after an import."""

    SIZE = 312

    path: str = wire(Text(256), "where the server has it", "")
    busid: str = wire(Text(32), "its name for imports", "")
    bus: int = wire(U32, "number of the bus")
    number: int = wire(U32, "number on the bus")
    speed: int = wire(U32, "one of `SPEEDS`")
    vendor: int = wire(U16, "idVendor")
    product: int = wire(U16, "idProduct")
    version: int = wire(U16, "bcdDevice")
    device_class: int = wire(U8, "bDeviceClass")
    subclass: int = wire(U8, "bDeviceSubClass")
    protocol: int = wire(U8, "bDeviceProtocol")
    configuration: int = wire(U8, "bConfigurationValue")
    configurations: int = wire(U8, "bNumConfigurations")
    interfaces: int = wire(U8, "bNumInterfaces")

    @property
    def devid(self) -> int:
        """How messages after the import name the device."""
        return self.bus << 16 | self.number


@dataclass(frozen=True, slots=True)
class InterfaceEntry(Message):
    """An interface of a device in a list."""

    SIZE = 4

    interface_class: int = wire(U8, "bInterfaceClass")
    subclass: int = wire(U8, "bInterfaceSubClass")
    protocol: int = wire(U8, "bInterfaceProtocol")


@dataclass(frozen=True, slots=True)
class UrbHeader(Message):
    """Begins every message after a device is imported."""

    SIZE = 20

    command: Command = wire(Member("I", Command), "what this is", Command.SUBMIT)
    seq: int = wire(U32, "number of the request")
    devid: int = wire(U32, "the device; 0 in answers")
    direction: Direction = wire(Member("I", Direction), "0 in answers", Direction.OUT)
    endpoint: int = wire(U32, "number of the endpoint; 0 in answers")


@dataclass(frozen=True, slots=True)
class Submit(UrbHeader):
    """Start a transfer; data towards the device follows."""

    SIZE = 48

    flags: int = wire(U32, "flags of the transfer")
    length: int = wire(I32, "size of the buffer")
    start_frame: int = wire(U32, "isochronous only")
    packets: int = wire(U32, "isochronous only", NO_PACKETS)
    interval: int = wire(U32, "of interrupt endpoints")
    setup: bytes = wire(Plain("8s"), "setup stage of a control transfer", bytes(8))


@dataclass(frozen=True, slots=True)
class Unlink(UrbHeader):
    """End a transfer that is under way."""

    SIZE = 48

    victim: int = wire(U32, "its number")


@dataclass(frozen=True, slots=True)
class Submitted(UrbHeader):
    """A transfer has ended; data towards the host follows."""

    SIZE = 48

    status: int = wire(I32, "an `Errno`")
    actual: int = wire(U32, "bytes transferred")
    start_frame: int = wire(U32, "isochronous only")
    packets: int = wire(U32, "isochronous only", NO_PACKETS)
    errors: int = wire(U32, "isochronous only")


@dataclass(frozen=True, slots=True)
class Unlinked(UrbHeader):
    """Answer to `Unlink`."""

    SIZE = 48

    status: int = wire(I32, "`Errno.RESET` if it was under way, 0 if it had ended")


class Stream(Protocol):
    """Bytes as they arrive."""

    def read(self, size: int, /) -> bytes:
        """So many bytes; fewer only if the stream ends."""
        ...


def exactly(stream: Stream, size: int) -> bytes:
    """So many bytes of a stream.

    Raises:
        FormatError: it ends before.
    """
    data = stream.read(size)
    if len(data) < size:
        raise FormatError(f"the connection ended {size - len(data)} bytes too early")
    return data


def read_op(stream: Stream) -> tuple[OpHeader, ImportBody] | None:
    """Next request of a client that has not imported a device; None at the end.

    Returns:
        the header, and for a request to import what is asked for.

    Raises:
        FormatError: this is no such request.
    """
    start = stream.read(1)
    if not start:
        return None
    header = OpHeader.unpack(start + exactly(stream, OpHeader.SIZE - 1))
    _check_version(header)
    if header.code is OpCode.REQUEST_IMPORT:
        return header, ImportBody.unpack(exactly(stream, ImportBody.SIZE))
    if header.code is OpCode.REQUEST_LIST:
        return header, ImportBody()
    raise FormatError(f"{header.code.name} is not a request", table="OpHeader.code")


def read_urb(stream: Stream) -> tuple[Submit | Unlink, bytes] | None:
    """Next request of a client that has imported a device; None at the end.

    Returns:
        the request, and the data towards the device.

    Raises:
        FormatError: this is no such request.
    """
    start = stream.read(1)
    if not start:
        return None
    data = start + exactly(stream, Submit.SIZE - 1)
    command = UrbHeader.unpack(data[: UrbHeader.SIZE]).command
    if command is Command.UNLINK:
        return Unlink.unpack(data), b""
    if command is not Command.SUBMIT:
        raise FormatError(f"{command.name} is not a request", table="UrbHeader.command")
    submit = Submit.unpack(data)
    if not 0 <= submit.length <= MOST_BYTES:
        raise FormatError(
            f"a buffer of {submit.length} bytes, expected 0 to {MOST_BYTES}", table="Submit.length"
        )
    if submit.endpoint >= _ENDPOINTS:
        raise FormatError(f"there is no endpoint {submit.endpoint}", table="Submit.endpoint")
    if submit.packets not in (0, NO_PACKETS):
        raise FormatError("isochronous transfers are not served", table="Submit.packets")
    return submit, exactly(stream, submit.length) if submit.direction is Direction.OUT else b""


def list_reply(devices: list[tuple[DeviceEntry, list[InterfaceEntry]]]) -> bytes:
    """The answer to a request for the list of devices."""
    parts = [OpHeader(code=OpCode.REPLY_LIST).pack(), CountBody(len(devices)).pack()]
    for device, interfaces in devices:
        parts += [device.pack(), *(interface.pack() for interface in interfaces)]
    return b"".join(parts)


def read_list(stream: Stream) -> list[tuple[DeviceEntry, list[InterfaceEntry]]]:
    """The list of devices that a server sends.

    Raises:
        FormatError: this is no such list.
    """
    header = OpHeader.unpack(exactly(stream, OpHeader.SIZE))
    _check_version(header)
    if header.code is not OpCode.REPLY_LIST or header.status:
        raise FormatError(f"{header.code.name} with status {header.status} is no list of devices")
    count = CountBody.unpack(exactly(stream, CountBody.SIZE)).count
    if count > MOST_DEVICES:
        raise FormatError(
            f"a list of {count} devices, at most {MOST_DEVICES} are read", table="CountBody.count"
        )
    devices = []
    for _ in range(count):
        device = DeviceEntry.unpack(exactly(stream, DeviceEntry.SIZE))
        parts = [exactly(stream, InterfaceEntry.SIZE) for _ in range(device.interfaces)]
        devices.append((device, list(map(InterfaceEntry.unpack, parts))))
    return devices


def _check_version(header: OpHeader) -> None:
    if header.version != VERSION:
        raise FormatError(
            f"version {header.version:#06x} of the protocol, expected {VERSION:#06x}",
            table="OpHeader.version",
        )
