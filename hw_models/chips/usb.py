"""What goes over the USB port: identities, descriptors, requests, headers, events.

Descriptors and messages are bit records, least significant byte first, so that driver and virtual
device share one declaration. Sources: the USB 3.2 and DFU 1.1 specifications for descriptor
formats, google-coral/libedgetpu for the protocol and, through the firmware images in it, for the
descriptors of beagle.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fitzroy.base.bits import BitSet, Choice, Flag, Record, Series, Unsigned, bits
from fitzroy.base.errors import FormatError
from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.chips.facts import Part, Quantity

_SOURCE = Evidence.SOURCE


class Speed(IntEnum):
    """Speed of a connection."""

    HIGH = 2
    SUPER = 3


class Tag(IntEnum):
    """What a message on a bulk endpoint carries or asks for."""

    INSTRUCTIONS = 0
    INPUT = 1
    PARAMETERS = 2
    OUTPUT = 3
    INTERRUPT_0 = 4
    INTERRUPT_1 = 5
    INTERRUPT_2 = 6
    INTERRUPT_3 = 7


INTERRUPT_TAGS = 0xF0
ALL_TAGS = 0xFF
"""Sets of tags, one bit each: those of interrupts, and all."""


class EndpointMode(IntEnum):
    """How data to the device is spread over endpoints; numbers of the driver's option."""

    MULTIPLE_HARDWARE = 0
    MULTIPLE_CREDITS = 1
    SINGLE = 2


class CsrRequest(IntEnum):
    """Vendor requests on the control endpoint; wValue and wIndex are the halves of the address."""

    ACCESS_64 = 0
    ACCESS_32 = 1


class DfuRequest(IntEnum):
    """Class requests of the boot ROM (USB DFU 1.1, section 3)."""

    DETACH = 0
    DOWNLOAD = 1
    UPLOAD = 2
    GET_STATUS = 3
    CLEAR_STATUS = 4
    GET_STATE = 5
    ABORT = 6


class DfuState(IntEnum):
    """States of the boot ROM (USB DFU 1.1, section 6.1.2)."""

    APP_IDLE = 0
    APP_DETACH = 1
    IDLE = 2
    DOWNLOAD_SYNC = 3
    DOWNLOAD_BUSY = 4
    DOWNLOAD_IDLE = 5
    MANIFEST_SYNC = 6
    MANIFEST = 7
    MANIFEST_WAIT_RESET = 8
    UPLOAD_IDLE = 9
    ERROR = 10


class DfuError(IntEnum):
    """Status of the boot ROM (USB DFU 1.1, section 6.1.2); those in use."""

    OK = 0
    ADDRESS = 8
    NOT_DONE = 9
    UNKNOWN = 14
    STALLED_PACKET = 15


class RequestType(IntEnum):
    """bmRequestType of control transfers: direction, kind and recipient in one byte."""

    STANDARD_OUT = 0x00
    STANDARD_INTERFACE_OUT = 0x01
    STANDARD_ENDPOINT_OUT = 0x02
    CLASS_OUT = 0x21
    VENDOR_OUT = 0x40
    STANDARD_IN = 0x80
    STANDARD_INTERFACE_IN = 0x81
    STANDARD_ENDPOINT_IN = 0x82
    CLASS_IN = 0xA1
    VENDOR_IN = 0xC0


class StandardRequest(IntEnum):
    """Requests that every device knows (USB 3.2, table 9-5)."""

    GET_STATUS = 0
    CLEAR_FEATURE = 1
    SET_FEATURE = 3
    SET_ADDRESS = 5
    GET_DESCRIPTOR = 6
    SET_DESCRIPTOR = 7
    GET_CONFIGURATION = 8
    SET_CONFIGURATION = 9
    GET_INTERFACE = 10
    SET_INTERFACE = 11
    SYNCH_FRAME = 12
    SET_SEL = 0x30
    SET_ISOCH_DELAY = 0x31


class DeviceFeature(IntEnum):
    """Features of a device that can be set and cleared (USB 3.2, table 9-7)."""

    REMOTE_WAKEUP = 1
    TEST_MODE = 2
    U1_ENABLE = 48
    U2_ENABLE = 49
    LTM_ENABLE = 50


ENDPOINT_HALT = 0
"""The feature of endpoints that can be set and cleared."""


class DescriptorType(IntEnum):
    """Types of descriptors."""

    DEVICE = 1
    CONFIGURATION = 2
    STRING = 3
    INTERFACE = 4
    ENDPOINT = 5
    DEVICE_QUALIFIER = 6
    OTHER_SPEED = 7
    BOS = 15
    CAPABILITY = 16
    DFU = 0x21
    COMPANION = 0x30


class TransferType(IntEnum):
    """Kinds of endpoints."""

    CONTROL = 0
    ISOCHRONOUS = 1
    BULK = 2
    INTERRUPT = 3


FULL_PACKET = 64
"""Largest packet of a bulk endpoint at full speed (USB 2.0, section 5.8.3)."""

INTERRUPT_PACKET = 64
"""Packet of the interrupt endpoint at every speed."""


def to_bytes(record: Record) -> bytes:
    """The bytes of a record."""
    return record.pack().to_bytes(record.width // 8, "little")


@dataclass(frozen=True, slots=True)
class SetupPacket(Record):
    """Setup stage of a control transfer."""

    width = 64

    request_type: int = bits(
        0, Unsigned(8, hexadecimal=True), "bmRequestType", default=RequestType.STANDARD_IN
    )
    request: int = bits(8, Unsigned(8), "bRequest")
    value: int = bits(16, Unsigned(16, hexadecimal=True), "wValue")
    index: int = bits(32, Unsigned(16, hexadecimal=True), "wIndex")
    length: int = bits(48, Unsigned(16), "wLength", unit="byte")


@dataclass(frozen=True, slots=True)
class DfuStatus(Record):
    """Answer to GET_STATUS."""

    width = 48

    status: int = bits(0, Unsigned(8), "0: no error")
    poll_timeout: int = bits(8, Unsigned(24), "time to wait; the driver ignores it", unit="ms")
    state: DfuState = bits(32, Choice(DfuState, 8), "state after the request")
    string: int = bits(40, Unsigned(8), "number of a string")


@dataclass(frozen=True, slots=True)
class StreamHeader(Record):
    """Precedes every payload on the endpoint for data to the device, in single endpoint mode."""

    width = 64

    length: int = bits(0, Unsigned(32), "size of the payload", unit="byte", evidence=_SOURCE)
    tag: Tag = bits(
        32,
        Choice(Tag, 8, (Tag.INSTRUCTIONS, Tag.INPUT, Tag.PARAMETERS)),
        "what it is",
        evidence=_SOURCE,
    )


@dataclass(frozen=True, slots=True)
class Event(Record):
    """Message of the event endpoint: a descriptor, or an interrupt with address and length 0."""

    width = 128

    address: int = bits(
        0, Unsigned(64, hexadecimal=True), "address that was linked", evidence=_SOURCE
    )
    length: int = bits(64, Unsigned(32), "size of the transfer", unit="byte", evidence=_SOURCE)
    tag: Tag = bits(96, Choice(Tag, 8), "what it is", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class InterruptPacket(Record):
    """Message of the interrupt endpoint."""

    width = 32

    fatal: bool = bits(0, Flag(), "a fatal error", evidence=_SOURCE)
    top_level: tuple[bool, ...] = bits(
        1, Series(Flag(), 4), "interrupts of the chip, by id", evidence=_SOURCE
    )


@dataclass(frozen=True, slots=True)
class DeviceDescriptor(Record):
    """Device descriptor."""

    width = 18 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=18, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.DEVICE
    )
    usb_version: int = bits(16, Unsigned(16, hexadecimal=True), "bcdUSB", default=0x310)
    device_class: int = bits(32, Unsigned(8), "bDeviceClass; 0: said by interfaces")
    device_subclass: int = bits(40, Unsigned(8), "bDeviceSubClass")
    device_protocol: int = bits(48, Unsigned(8), "bDeviceProtocol")
    max_packet: int = bits(
        56, Unsigned(8), "bMaxPacketSize0; an exponent of two at super speed", default=9
    )
    vendor: int = bits(64, Unsigned(16, hexadecimal=True), "idVendor")
    product: int = bits(80, Unsigned(16, hexadecimal=True), "idProduct")
    device_version: int = bits(96, Unsigned(16, hexadecimal=True), "bcdDevice", default=0x100)
    strings: tuple[int, ...] = bits(
        112, Series(Unsigned(8), 3), "iManufacturer, iProduct, iSerialNumber"
    )
    configurations: int = bits(136, Unsigned(8), "bNumConfigurations", default=1)


@dataclass(frozen=True, slots=True)
class QualifierDescriptor(Record):
    """Device qualifier: what the device is at its other speed."""

    width = 10 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=10, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.DEVICE_QUALIFIER
    )
    usb_version: int = bits(16, Unsigned(16, hexadecimal=True), "bcdUSB", default=0x310)
    device_class: int = bits(32, Unsigned(24), "class, subclass, protocol")
    max_packet: int = bits(56, Unsigned(8), "bMaxPacketSize0", default=9)
    configurations: int = bits(64, Unsigned(8), "bNumConfigurations", default=1)


@dataclass(frozen=True, slots=True)
class LanguagesDescriptor(Record):
    """String descriptor 0: the languages of strings."""

    width = 4 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=4, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.STRING
    )
    language: int = bits(
        16, Unsigned(16, hexadecimal=True), "wLANGID; 0x409: English", default=0x409
    )


@dataclass(frozen=True, slots=True)
class DeviceStatus(Record):
    """Answer to GET_STATUS of a device."""

    width = 16

    self_powered: bool = bits(0, Flag(), "has power of its own")
    remote_wakeup: bool = bits(1, Flag(), "may wake the host")


@dataclass(frozen=True, slots=True)
class EndpointStatus(Record):
    """Answer to GET_STATUS of an endpoint."""

    width = 16

    halted: bool = bits(0, Flag(), "stalls until the host clears it")


@dataclass(frozen=True, slots=True)
class ConfigurationDescriptor(Record):
    """Configuration descriptor; interfaces and endpoints follow it."""

    width = 9 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=9, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.CONFIGURATION
    )
    total_length: int = bits(16, Unsigned(16), "wTotalLength", unit="byte")
    interfaces: int = bits(32, Unsigned(8), "bNumInterfaces", default=1)
    value: int = bits(40, Unsigned(8), "bConfigurationValue", default=1)
    string: int = bits(48, Unsigned(8), "iConfiguration")
    attributes: int = bits(
        56, Unsigned(8, hexadecimal=True), "bmAttributes; 0xc0: self-powered", default=0xC0
    )
    max_power: int = bits(64, Unsigned(8), "bMaxPower", unit="2 mA, 8 mA at super speed")


@dataclass(frozen=True, slots=True)
class InterfaceDescriptor(Record):
    """Interface descriptor."""

    width = 9 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=9, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.INTERFACE
    )
    number: int = bits(16, Unsigned(8), "bInterfaceNumber")
    alternate: int = bits(24, Unsigned(8), "bAlternateSetting")
    endpoints: int = bits(32, Unsigned(8), "bNumEndpoints")
    interface_class: int = bits(40, Unsigned(8, hexadecimal=True), "bInterfaceClass", default=0xFF)
    subclass: int = bits(48, Unsigned(8, hexadecimal=True), "bInterfaceSubClass", default=0xFF)
    protocol: int = bits(56, Unsigned(8, hexadecimal=True), "bInterfaceProtocol", default=0xFF)
    string: int = bits(64, Unsigned(8), "iInterface")


@dataclass(frozen=True, slots=True)
class EndpointDescriptor(Record):
    """Endpoint descriptor."""

    width = 7 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=7, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.ENDPOINT
    )
    address: int = bits(16, Unsigned(8, hexadecimal=True), "bEndpointAddress; 0x80: to the host")
    transfer: TransferType = bits(24, Choice(TransferType, 8), "bmAttributes")
    max_packet: int = bits(32, Unsigned(16), "wMaxPacketSize", unit="byte")
    interval: int = bits(48, Unsigned(8), "bInterval")


@dataclass(frozen=True, slots=True)
class CompanionDescriptor(Record):
    """Endpoint companion descriptor, at super speed."""

    width = 6 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=6, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.COMPANION
    )
    max_burst: int = bits(16, Unsigned(8), "bMaxBurst: packets in a burst, minus one")
    attributes: int = bits(24, Unsigned(8), "bmAttributes")
    interval_bytes: int = bits(32, Unsigned(16), "wBytesPerInterval", unit="byte")


@dataclass(frozen=True, slots=True)
class BosDescriptor(Record):
    """Header of the binary object store; capabilities follow it."""

    width = 5 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=5, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.BOS
    )
    total_length: int = bits(16, Unsigned(16), "wTotalLength", unit="byte")
    capabilities: int = bits(32, Unsigned(8), "bNumDeviceCaps")


@dataclass(frozen=True, slots=True)
class Usb2Capability(Record):
    """Capability: USB 2.0 extension."""

    width = 7 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=7, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.CAPABILITY
    )
    capability: int = bits(16, Unsigned(8), "bDevCapabilityType", default=2)
    attributes: int = bits(24, Unsigned(32, hexadecimal=True), "bmAttributes; 2: LPM", default=2)


class SupportedSpeed(IntEnum):
    """Speeds that a device supports, as bits."""

    LOW = 0
    FULL = 1
    HIGH = 2
    SUPER = 3


@dataclass(frozen=True, slots=True)
class SuperSpeedCapability(Record):
    """Capability: super speed."""

    width = 10 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=10, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.CAPABILITY
    )
    capability: int = bits(16, Unsigned(8), "bDevCapabilityType", default=3)
    attributes: int = bits(24, Unsigned(8), "bmAttributes")
    speeds: int = bits(32, BitSet(SupportedSpeed, 16), "wSpeedsSupported", default=0x0C)
    lowest_full: int = bits(48, Unsigned(8), "bFunctionalitySupport", default=2)
    u1_exit: int = bits(56, Unsigned(8), "bU1DevExitLat", unit="us")
    u2_exit: int = bits(64, Unsigned(16), "wU2DevExitLat", unit="us")


SIMULATION = 0x5E01_9A20_77F1_D8A1_524C_5A3B_0E7C_1F6D
"""Names the capability `SimulationCapability` among those that anybody may define."""

SIMULATION_REQUEST = 0x46
"""The request of vendors by which a simulated device says whether it computes."""


@dataclass(frozen=True, slots=True)
class SimulationCapability(Record):
    """Capability of a platform (USB 3.2, section 9.6.2.4): the chip is simulated, and slow.

    A host that knows the capability may ask, by `request`, for a byte that is 1 while the chip
    computes. Others pass over it; chips do not have it.
    """

    width = 22 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=22, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.CAPABILITY
    )
    capability: int = bits(16, Unsigned(8), "bDevCapabilityType: platform", default=5)
    reserved: int = bits(24, Unsigned(8), "bReserved")
    uuid: int = bits(
        32, Unsigned(128, hexadecimal=True), "PlatformCapabilityUUID", default=SIMULATION
    )
    version: int = bits(160, Unsigned(8), "version of this capability", default=1)
    request: int = bits(168, Unsigned(8), "bRequest of the question", default=SIMULATION_REQUEST)


@dataclass(frozen=True, slots=True)
class DfuDescriptor(Record):
    """Functional descriptor of the boot ROM's interface."""

    width = 9 * 8

    length: int = bits(0, Unsigned(8), "bLength", default=9, unit="byte")
    type: DescriptorType = bits(
        8, Choice(DescriptorType, 8), "bDescriptorType", default=DescriptorType.DFU
    )
    attributes: int = bits(
        16,
        Unsigned(8, hexadecimal=True),
        "bmAttributes: download, upload, will detach",
        default=0x0B,
        evidence=Evidence.ASSUMED,
    )
    detach_timeout: int = bits(
        24, Unsigned(16), "wDetachTimeOut", default=255, unit="ms", evidence=Evidence.ASSUMED
    )
    transfer_size: int = bits(
        40,
        Unsigned(16),
        "wTransferSize: size of a block",
        default=256,
        unit="byte",
        evidence=Evidence.MEASURED,
    )
    dfu_version: int = bits(
        56,
        Unsigned(16, hexadecimal=True),
        "bcdDFUVersion",
        default=0x101,
        evidence=Evidence.ASSUMED,
    )


@dataclass(frozen=True)
class Identity(Part):
    """How a device presents itself in one of its modes."""

    vendor: Quantity[int] = Quantity("vendor id")
    product: Quantity[int] = Quantity("product id")
    interface_class: Quantity[int] = Quantity("class of interface 0")
    interface_subclass: Quantity[int] = Quantity("subclass of interface 0")
    interface_protocol: Quantity[int] = Quantity("protocol of interface 0")


@dataclass(frozen=True)
class Endpoint(Part):
    """An endpoint of the run-time mode."""

    address: Quantity[int] = Quantity("address; 0x80 is set towards the host")
    transfer: Quantity[TransferType] = Quantity("kind of transfers")
    role: Quantity[str] = Quantity("data that it carries")
    message: Quantity[int] = Quantity("size of the host's transfers at super speed", "byte")


@dataclass(frozen=True)
class UsbPort(Part):
    """The USB port of a chip.

    Attributes:
        boot: the boot ROM, which takes the firmware by DFU.
        runtime: the device that the firmware makes of it.
        endpoints: endpoints of the run-time mode.
    """

    boot: Identity
    runtime: Identity
    endpoints: dict[str, Endpoint]
    dfu_block: Quantity[int] = Quantity("block of a firmware download", "byte")
    super_packet: Quantity[int] = Quantity("packet of a bulk endpoint, super speed", "byte")
    super_burst: Quantity[int] = Quantity("packets in a burst, super speed")
    high_packet: Quantity[int] = Quantity("packet of a bulk endpoint, high speed", "byte")
    super_output: Quantity[int] = Quantity("packet size for outputs, set by the driver", "byte")
    high_output: Quantity[int] = Quantity("packet size for outputs at high speed", "byte")
    super_power: Quantity[int] = Quantity("bMaxPower, super speed", "8 mA")
    high_power: Quantity[int] = Quantity("bMaxPower, high speed", "2 mA")
    most_out: Quantity[int] = Quantity("largest transfer of the driver to the device", "byte")
    out_in_flight: Quantity[int] = Quantity("transfers to the device in flight at a time")
    output_reads: Quantity[int] = Quantity("reads of outputs in flight at a time")
    control_timeout: Quantity[int] = Quantity("time limit of control transfers", "ms")
    reset_settle: Quantity[int] = Quantity("time to wait after a reset", "ms")
    open_attempts: Quantity[int] = Quantity("attempts of the driver to open the device")


def device_descriptor(identity: Identity, speed: Speed) -> DeviceDescriptor:
    """Device descriptor of a mode."""
    fast = speed is Speed.SUPER
    return DeviceDescriptor(
        usb_version=0x310 if fast else 0x210,
        max_packet=9 if fast else 64,
        vendor=identity.vendor,
        product=identity.product,
    )


def configuration(port: UsbPort, speed: Speed) -> bytes:
    """Configuration descriptor of the run-time mode, with its interface and endpoints.

    Args:
        port: the port.
        speed: speed of the connection; companions exist at super speed only.
    """
    if speed is Speed.SUPER:
        return _configuration(port, port.super_packet, port.super_power, fast=True)
    return _configuration(port, port.high_packet, port.high_power)


def other_speed_configuration(port: UsbPort) -> bytes:
    """What the run-time mode would be at full speed: the packets are those of the specification."""
    return _configuration(port, FULL_PACKET, port.high_power, type=DescriptorType.OTHER_SPEED)


def _configuration(
    port: UsbPort,
    packet: int,
    power: int,
    *,
    fast: bool = False,
    type: DescriptorType = DescriptorType.CONFIGURATION,
) -> bytes:
    parts: list[Record] = [
        InterfaceDescriptor(
            endpoints=len(port.endpoints),
            interface_class=port.runtime.interface_class,
            subclass=port.runtime.interface_subclass,
            protocol=port.runtime.interface_protocol,
        )
    ]
    for endpoint in port.endpoints.values():
        bulk = endpoint.transfer is TransferType.BULK
        parts.append(
            EndpointDescriptor(
                address=endpoint.address,
                transfer=endpoint.transfer,
                max_packet=packet if bulk else INTERRUPT_PACKET,
                interval=0 if bulk else 1,
            )
        )
        if fast:
            parts.append(
                CompanionDescriptor(max_burst=port.super_burst - 1)
                if bulk
                else CompanionDescriptor(interval_bytes=endpoint.message)
            )
    size = (ConfigurationDescriptor.width + sum(part.width for part in parts)) // 8
    head = ConfigurationDescriptor(type=type, max_power=power, total_length=size)
    return b"".join(map(to_bytes, (head, *parts)))


def boot_configuration(port: UsbPort) -> bytes:
    """Configuration descriptor of the boot ROM; power and attributes are ASSUMED."""
    interface = InterfaceDescriptor(
        interface_class=port.boot.interface_class,
        subclass=port.boot.interface_subclass,
        protocol=port.boot.interface_protocol,
    )
    function = DfuDescriptor(transfer_size=port.dfu_block)
    size = (ConfigurationDescriptor.width + interface.width + function.width) // 8
    head = ConfigurationDescriptor(total_length=size, attributes=0x80, max_power=port.high_power)
    return b"".join(map(to_bytes, (head, interface, function)))


def parts(data: bytes) -> list[bytes]:
    """The descriptors of a configuration or of an object store, one by one.

    Raises:
        FormatError: a length that leads nowhere.
    """
    found = []
    at = 0
    while at < len(data):
        size = data[at]
        if size < 2 or at + size > len(data):
            raise FormatError(f"a descriptor of {size} bytes, {len(data) - at} are left", offset=at)
        found.append(data[at : at + size])
        at += size
    return found


def object_store(*, simulated: bool = False) -> bytes:
    """Binary object store descriptor of the run-time mode.

    Args:
        simulated: whether the device says that it is.
    """
    parts: tuple[Record, ...] = (Usb2Capability(), SuperSpeedCapability())
    if simulated:
        parts = (*parts, SimulationCapability())
    size = BosDescriptor.width // 8 + sum(part.width // 8 for part in parts)
    head = BosDescriptor(total_length=size, capabilities=len(parts))
    return b"".join(map(to_bytes, (head, *parts)))


def simulation_request(store: bytes) -> int | None:
    """The request by which a device says whether it computes; None if it is not simulated.

    Args:
        store: binary object store descriptor, whatever it holds.

    Raises:
        FormatError: a length that leads nowhere.
    """
    size = SimulationCapability.width // 8
    uuid = SIMULATION.to_bytes(16, "little")
    for part in parts(store):
        if len(part) == size and part[1] == DescriptorType.CAPABILITY and part[4:20] == uuid:
            return SimulationCapability.unpack(int.from_bytes(part, "little")).request
    return None
