"""A small host for a device behind pyusb, as drivers do it: boot, open, run, close."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import usb.core
import usb.util

from fitzroy.base.types import Array
from fitzroy.driver.device.bringup import CLOSE, OPEN, Setup, perform
from fitzroy.driver.device.firmware import Dfu
from fitzroy.driver.device.registers import RegisterFile
from fitzroy.driver.runtime.devices import SIMULATED
from fitzroy.driver.transports.transport import Transport
from fitzroy.driver.transports.usb import UsbBus, UsbTransport
from fitzroy.formats.darwinn import Executable, PackageFile
from fitzroy.hw_models.chips.usb import (
    DfuRequest,
    Event,
    RequestType,
    Speed,
    StreamHeader,
    Tag,
    to_bytes,
)
from fitzroy.hw_models.csr.register import Register
from fitzroy.linker.layouts import encode_input
from fitzroy.linker.resolve.fields import address_fields, patched
from fitzroy.linker.schedule import (
    AwaitInterrupt,
    ReceiveOutput,
    SendInput,
    SendInstructions,
    SendParameters,
    Step,
    derive_executable,
)

FIRMWARE = bytes(n * 7 & 0xFF for n in range(5_000))
TIMEOUT = 2_000
BOOT, RUN = (0x1A6E, 0x089A), (0x18D1, 0x9302)
DATA, OUTPUT, EVENT, INTERRUPT = 0x01, 0x81, 0x82, 0x83
LARGEST = 1 << 20


def payloads(
    executable: Executable, inputs: Mapping[str, Array], address: int = 0
) -> Iterator[tuple[Step, bytes]]:
    """What a host does for an executable: each step, with the bytes that it sends.

    Args:
        executable: the executable.
        inputs: elements of every input as bytes, uint8.
        address: device address of every buffer; it means nothing on the wire.
    """
    addresses = {field.buffer: address for field in address_fields(executable)}
    encoded = {
        name: encode_input(layer, inputs[name]).tobytes()
        for name, layer in executable.inputs.items()
    }
    for step in derive_executable(executable).steps:
        data = b""
        match step:
            case SendInstructions(chunk=chunk):
                stream = (executable.instruction_bitstreams or [])[chunk]
                assert stream.bitstream is not None
                data = patched(stream.bitstream.tobytes(), stream.field_offsets or (), addresses)
            case SendInput():
                data = encoded[step.name][step.offset :][: step.size]
            case SendParameters():
                assert executable.parameters is not None
                data = executable.parameters[step.offset :][: step.size].tobytes()
        yield step, data


class Counted(RegisterFile):
    """Registers whose accesses are counted."""

    def __init__(self, transport: Transport, accesses: Counter[str]) -> None:
        super().__init__(transport, SIMULATED)
        self.accesses = accesses

    def read(self, register: Register) -> int:
        self.accesses[f"r{register.width}"] += 1
        return super().read(register)

    def write(self, register: Register, value: int) -> None:
        self.accesses[f"w{register.width}"] += 1
        super().write(register, value)


class Client:
    """A host with one device.

    Args:
        backend: backend of pyusb.
        port: number of the port.
        multiple: whether each kind of data goes to an endpoint of its own.
        events: tags that the device announces.
    """

    def __init__(
        self, backend: Any, port: int = 1, *, multiple: bool = False, events: int = 0xF0
    ) -> None:
        self.backend = backend
        self.bus = UsbBus(lambda: backend, "test", "test")
        self.port = port
        self.multiple = multiple
        self.events = events
        self.accesses: Counter[str] = Counter()
        self.device: Any = None

    def find(self) -> Any:
        """The device as it is now."""
        self.device = usb.core.find(
            backend=self.backend, custom_match=lambda dev: dev.port_number == self.port
        )
        return self.device

    @property
    def identity(self) -> tuple[int, int]:
        return self.device.idVendor, self.device.idProduct

    # --- boot ------------------------------------------------------------------------------------

    @property
    def transport(self) -> UsbTransport:
        """The device as the driver sees it."""
        (attached,) = [one for one, _ in self.bus._devices() if one.path == f"1-{self.port}"]
        return UsbTransport(self.device, attached)

    def detach(self) -> None:
        """Ask for the boot ROM, which the next reset leads to."""
        self.device.ctrl_transfer(
            RequestType.CLASS_OUT, DfuRequest.DETACH, 100, 0, b"", timeout=TIMEOUT
        )

    def download(self, firmware: bytes = FIRMWARE) -> None:
        Dfu(self.transport, SIMULATED, SIMULATED.watch(60.0)).load(firmware)

    def reset(self) -> None:
        """Reset the port, and find the device again."""
        try:
            self.device.reset()
        except usb.core.USBError as error:
            if error.errno != errno.ENOENT:
                raise
        self.close_handle()
        self.find()

    def close_handle(self) -> None:
        usb.util.dispose_resources(self.device)

    def boot(self, firmware: bytes = FIRMWARE) -> None:
        """Make a run-time device of whatever is on the port."""
        self.find()
        if self.identity == BOOT:
            self.download(firmware)
        self.reset()
        assert self.identity == RUN

    # --- registers -------------------------------------------------------------------------------

    @property
    def registers(self) -> Counted:
        return Counted(self.transport, self.accesses)

    def read(self, register: Register) -> int:
        return self.registers.read(register)

    def open(self) -> None:
        """The open sequence of the driver."""
        speed = Speed.SUPER if self.device.speed == 4 else Speed.HIGH
        usb.util.claim_interface(self.device, 0)
        setup = Setup(speed, multiple=self.multiple, events=self.events)
        perform(OPEN, self.registers, setup)

    def close(self) -> None:
        """The close sequence of the driver."""
        perform(CLOSE, self.registers, Setup())
        self.close_handle()

    # --- programs --------------------------------------------------------------------------------

    def send(self, tag: Tag, data: bytes, timeout: int = TIMEOUT) -> None:
        endpoint = DATA + tag if self.multiple else DATA
        if not self.multiple:
            header = to_bytes(StreamHeader(length=len(data), tag=tag))
            assert self.device.write(DATA, header, timeout) == len(header)
        for first in range(0, len(data), LARGEST):
            part = data[first : first + LARGEST]
            assert self.device.write(endpoint, part, timeout) == len(part)

    def receive(self, size: int, timeout: int = TIMEOUT) -> bytes:
        """Bytes of the output stream, read packet by packet."""
        packet = 1_024 if self.device.speed == 4 else 256
        data = b""
        while len(data) < size:
            data += bytes(self.device.read(OUTPUT, packet, timeout))
        return data

    def event(self, timeout: int = TIMEOUT) -> Event:
        data = bytes(self.device.read(EVENT, 16, timeout))
        assert len(data) == 16
        return Event.unpack(int.from_bytes(data, "little"))

    def execute(self, executable: Executable, inputs: Mapping[str, Array]) -> bytes:
        """Run an executable: all bytes that the device sends."""
        steps = list(payloads(executable, inputs))
        size = sum(step.size for step, _ in steps if isinstance(step, ReceiveOutput))
        received: list[bytes] = []
        # The chip stops when outputs are not fetched, whatever the host wants to send then.
        reader = threading.Thread(target=lambda: received.append(self.receive(size, 100_000)))
        reader.start()
        try:
            for step, data in steps:
                match step:
                    case SendInstructions():
                        self.send(Tag.INSTRUCTIONS, data)
                    case SendInput():
                        self.send(Tag.INPUT, data)
                    case SendParameters():
                        self.send(Tag.PARAMETERS, data)
                    case AwaitInterrupt(number=number):
                        while (event := self.event()).tag < Tag.INTERRUPT_0:
                            pass
                        assert event == Event(tag=Tag(Tag.INTERRUPT_0 + number))
                    case ReceiveOutput():
                        pass
                    case _:
                        raise NotImplementedError(step)
        finally:
            reader.join()
        return received[0]

    def run(self, package: PackageFile, inputs: Mapping[str, Array]) -> bytes:
        """Load the parameters of a package, and run it: the raw output stream."""
        if package.caching is not None:
            assert self.execute(package.caching, {}) == b""
        return self.execute(package.main, inputs)


def speeds() -> tuple[Speed, ...]:
    return (Speed.SUPER, Speed.HIGH)
