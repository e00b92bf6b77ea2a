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
from fitzroy.formats.darwinn import Executable, PackageFile
from fitzroy.hw_models.chips.usb import (
    CsrRequest,
    DfuRequest,
    DfuState,
    DfuStatus,
    Event,
    RequestType,
    Speed,
    StreamHeader,
    Tag,
    to_bytes,
)
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.fields import ClockGate, PowerState, RunControl, SleepControl
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

BLOCK = 256
FIRMWARE = bytes(n * 7 & 0xFF for n in range(5_000))
TIMEOUT = 2_000
BOOT, RUN = (0x1A6E, 0x089A), (0x18D1, 0x9302)
DATA, OUTPUT, EVENT, INTERRUPT = 0x01, 0x81, 0x82, 0x83
LARGEST = 1 << 20

RUN_CONTROLS = (csr.SCALAR_CORE_RUN_CONTROL, *csr.STREAM_RUN_CONTROLS.values())
SLEEPY = {"cur_pwr_state": PowerState.SLEEP}


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

    def dfu(self, request: DfuRequest, value: int = 0, data: Any = None) -> Any:
        out = isinstance(data, bytes)
        return self.device.ctrl_transfer(
            RequestType.CLASS_OUT if out else RequestType.CLASS_IN,
            request,
            value,
            0,
            data,
            timeout=TIMEOUT,
        )

    def dfu_state(self) -> DfuState:
        status = DfuStatus.unpack(int.from_bytes(self.dfu(DfuRequest.GET_STATUS, 0, 6), "little"))
        assert status.status == 0
        return status.state

    def download(self, firmware: bytes = FIRMWARE) -> None:
        for block, first in enumerate(range(0, len(firmware), BLOCK)):
            self.dfu(DfuRequest.DOWNLOAD, block, firmware[first : first + BLOCK])
            assert self.dfu_state() is DfuState.DOWNLOAD_IDLE
        self.dfu(DfuRequest.DOWNLOAD, -(-len(firmware) // BLOCK), b"")
        assert self.dfu_state() is DfuState.IDLE

    def upload(self) -> bytes:
        data = b""
        block = 0
        while True:
            part = bytes(self.dfu(DfuRequest.UPLOAD, block, BLOCK))
            data += part
            if len(part) < BLOCK:
                return data
            block += 1

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
            assert self.upload()[: len(firmware)] == firmware
        self.reset()
        assert self.identity == RUN

    # --- registers -------------------------------------------------------------------------------

    def read(self, register: Register) -> int:
        self.accesses[f"r{register.width}"] += 1
        wide = register.width == 64
        data = self.device.ctrl_transfer(
            RequestType.VENDOR_IN,
            CsrRequest.ACCESS_64 if wide else CsrRequest.ACCESS_32,
            register.address & 0xFFFF,
            register.address >> 16,
            register.width // 8,
            timeout=TIMEOUT,
        )
        assert len(data) == register.width // 8
        return int.from_bytes(data, "little")

    def write(self, register: Register, value: int) -> None:
        self.accesses[f"w{register.width}"] += 1
        wide = register.width == 64
        self.device.ctrl_transfer(
            RequestType.VENDOR_OUT,
            CsrRequest.ACCESS_64 if wide else CsrRequest.ACCESS_32,
            register.address & 0xFFFF,
            register.address >> 16,
            value.to_bytes(register.width // 8, "little"),
            timeout=TIMEOUT,
        )

    def change(self, register: Register, **fields: Any) -> None:
        self.write(register, register.changed(self.read(register), **fields))

    def poll(self, register: Register, **fields: Any) -> None:
        value = self.read(register)
        for name, wanted in fields.items():
            assert register.field(value, name) == wanted, (register.name, name)

    def sleep(self) -> None:
        """Rows 3 and 3a to 3c of the open sequence."""
        value = self.read(csr.SCU_CTRL_3)
        if csr.SCU_CTRL_3.field(value, "force_sleep") == SleepControl.SLEEP:
            return
        changed = csr.SCU_CTRL_3.changed(value, force_sleep=SleepControl.SLEEP)
        self.write(csr.SCU_CTRL_3, changed)
        self.poll(csr.SCU_CTRL_3, **SLEEPY)
        self.write(csr.GCBB_CREDIT0, 0xF)
        self.write(csr.GCBB_CREDIT0, 0)

    def control_engines(self, command: RunControl) -> None:
        for register in RUN_CONTROLS:
            self.write(register, register.value(command=command))
        self.select_tiles()
        for register in csr.TILE_RUN_CONTROLS.values():
            self.write(register, register.value(command=command))

    def select_tiles(self) -> None:
        self.write(csr.TILECONFIG0, csr.ALL_TILES)
        self.poll(csr.TILECONFIG0, tile=csr.ALL_TILES)

    def open(self) -> None:
        """The open sequence of the driver."""
        fast = self.device.speed == 4
        usb.util.claim_interface(self.device, 0)
        self.change(csr.SCU_CTRL_0, pcie_inact_phy_mode=0, usb_inact_phy_mode=0)
        gates = self.read(csr.SCU_CTRL_2)
        if csr.SCU_CTRL_2.field(gates, "gated_gcb") == ClockGate.HARDWARE:
            self.write(csr.SCU_CTRL_2, csr.SCU_CTRL_2.changed(gates, gated_gcb=ClockGate.OFF))
        self.sleep()
        self.change(
            csr.SCU_CTRL_3, force_sleep=SleepControl.AWAKE, gcb_clock=0, axi_clock=0, mcu_clock=0
        )
        self.poll(csr.SCU_CTRL_3, cur_pwr_state=PowerState.ACTIVE)
        assert self.read(csr.SCALAR_CORE_RUN_CONTROL) == 0
        self.write(csr.IDLE_REGISTER, csr.IDLE_REGISTER.value(counter=1))
        self.select_tiles()
        delays = csr.DEEP_SLEEP.value(to_sleep_delay=2, to_wake_delay=0x1E)
        self.write(csr.DEEP_SLEEP, delays)
        self.change(csr.SCU_CTRL_2, gated_gcb=ClockGate.HARDWARE)
        self.read(csr.OMC0_00)
        self.write(csr.DESCR_EP, self.events)
        self.write(csr.MULTI_BO_EP, csr.MULTI_BO_EP.value(multiple=self.multiple))
        chunk = csr.OUTFEED_CHUNK_LENGTH.value(length=0x80 if fast else 0x20)
        self.write(csr.OUTFEED_CHUNK_LENGTH, chunk)
        self.control_engines(RunControl.RUN)
        self.write(csr.FATAL_ERR_INT_CONTROL, 1)
        for register in csr.TOP_LEVEL_CONTROLS.values():
            self.write(register, 1)
        self.change(csr.OMC0_D4, thm_warn_en=True)
        self.change(csr.RAMBIST_CTRL_1, mbist_int_status=0, mbist_int_mask=0)
        clear = {"pll_lock_failure": False, "usb_sel_failure": False}
        self.change(csr.SCU_CTR_7, boot_failure_mask=0, **clear)
        for register, value in (
            (csr.SLV_ABM_EN, 1),
            (csr.MST_ABM_EN, 1),
            (csr.SLV_ERR_RESP_ISR_MASK, 3),
            (csr.MST_ERR_RESP_ISR_MASK, 3),
        ):
            self.write(register, value)
        self.change(csr.OMC0_D8, sd_en=True)

    def close(self) -> None:
        """The close sequence of the driver."""
        for register in csr.TOP_LEVEL_CONTROLS.values():
            self.write(register, 0)
        self.change(csr.OMC0_D4, thm_warn_en=False)
        self.change(csr.RAMBIST_CTRL_1, mbist_int_mask=7)
        self.change(csr.SCU_CTR_7, boot_failure_mask=3)
        for register in (
            csr.SLV_ABM_EN,
            csr.MST_ABM_EN,
            csr.SLV_ERR_RESP_ISR_MASK,
            csr.MST_ERR_RESP_ISR_MASK,
        ):
            self.write(register, 0)
        self.change(csr.OMC0_D8, sd_en=False)
        self.write(csr.FATAL_ERR_INT_CONTROL, 0)
        self.control_engines(RunControl.HALT)
        self.sleep()
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
