"""The virtual device, transfer by transfer."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.driver.edgetpu_programs import POP, SIZE, echo
from tests.driver.usb_client import payloads

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import (
    DfuError,
    DfuRequest,
    DfuState,
    Event,
    InterruptPacket,
    SetupPacket,
    Speed,
    StreamHeader,
    Tag,
    boot_configuration,
    configuration,
    device_descriptor,
    object_store,
    simulation_request,
    to_bytes,
)
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.beagle import TopLevelInterrupt
from fitzroy.hw_models.csr.fields import CoreClock, PowerState, SleepControl
from fitzroy.hw_models.csr.register import Access, Register
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import assemble, chunk
from fitzroy.hw_models.isa.scalar import Alu, Branch, End, Halt, Scalar, Start, Store
from fitzroy.hw_models.usb_device.device import Mode, VirtualDevice
from fitzroy.hw_models.usb_device.faults import FAULTS, Fault, FaultKind, FaultScript, read_script
from fitzroy.hw_models.usb_device.streams import FIFO_BYTES
from fitzroy.hw_models.usb_device.transfer import Status, Transfer
from fitzroy.linker.schedule import SendInput, SendInstructions

FIRMWARE = bytes(n * 11 & 0xFF for n in range(700))
INPUT = (np.arange(SIZE) * 3 + 1).astype(np.uint8)
OUT, OUTPUT, EVENT, INTERRUPT = 0x01, 0x81, 0x82, 0x83
DONE = to_bytes(Event(tag=Tag.INTERRUPT_0))
RUNNING = (
    csr.SCALAR_CORE_RUN_CONTROL,
    *csr.STREAM_RUN_CONTROLS.values(),
    *csr.TILE_RUN_CONTROLS.values(),
)


@dataclass
class Port:
    """A host controller that does as it is told."""

    device: VirtualDevice

    def submit(
        self, endpoint: int, data: bytes = b"", length: int = 0, setup: SetupPacket | None = None
    ) -> Transfer:
        ends: list[Transfer] = []
        transfer = Transfer(endpoint, setup, data, length, done=ends.append)
        self.device.submit(transfer)
        assert ends == ([] if transfer.status is None else [transfer])
        return transfer

    def control(
        self, kind: int, request: int, value: int = 0, index: int = 0, data: bytes | int = 0
    ) -> Transfer:
        size = data if isinstance(data, int) else len(data)
        sent = b"" if isinstance(data, int) else data
        return self.submit(0, sent, size, SetupPacket(kind, request, value, index, size))

    def answer(self, kind: int, request: int, value: int = 0, index: int = 0, size: int = 0) -> Any:
        """Answer to a request, None if it stalls."""
        transfer = self.control(kind, request, value, index, size)
        assert transfer.status in (Status.OK, Status.STALL)
        return transfer.received if transfer.status is Status.OK else None

    def descriptor(self, kind: int, size: int = 255, number: int = 0) -> Any:
        return self.answer(0x80, 6, kind << 8 | number, 0, size)

    def configure(self) -> None:
        assert self.control(0, 9, 1).status is Status.OK

    def dfu(self, request: DfuRequest, value: int = 0, data: bytes | int = 0) -> Transfer:
        kind = 0xA1 if isinstance(data, int) and data else 0x21
        return self.control(kind, request, value, 0, data)

    def dfu_status(self) -> tuple[int, int]:
        received = self.dfu(DfuRequest.GET_STATUS, 0, 6).received
        assert len(received) == 6
        return received[0], received[4]

    def download(self, firmware: bytes = FIRMWARE) -> None:
        for first in range(0, len(firmware), 256):
            block = firmware[first : first + 256]
            assert self.dfu(DfuRequest.DOWNLOAD, first // 256, block).sent == len(block)
            assert self.dfu_status() == (0, DfuState.DOWNLOAD_IDLE)
        assert self.dfu(DfuRequest.DOWNLOAD, 9).status is Status.OK
        assert self.dfu_status() == (0, DfuState.IDLE)

    def read(self, register: Register | int, width: int = 0) -> int | None:
        address, width = _place(register, width)
        data = self.answer(0xC0, width == 32, address & 0xFFFF, address >> 16, width // 8)
        return None if data is None else int.from_bytes(data, "little")

    def write(self, register: Register | int, value: int, width: int = 0) -> bool:
        address, width = _place(register, width)
        data = value.to_bytes(width // 8, "little")
        transfer = self.control(0x40, width == 32, address & 0xFFFF, address >> 16, data)
        return transfer.status is Status.OK

    def field(self, register: Register, name: str) -> Any:
        value = self.read(register)
        assert value is not None
        return register.field(value, name)

    def run_engines(self, command: int = 1) -> None:
        assert self.write(csr.TILECONFIG0, csr.ALL_TILES)
        for register in RUNNING:
            assert self.write(register, command)

    def send(self, tag: Tag, data: bytes) -> Transfer:
        return self.submit(OUT, to_bytes(StreamHeader(length=len(data), tag=tag)) + data)

    def echo(self) -> bytes | None:
        """Output of the program that copies its input; None if it does not end."""
        for tag, data in messages():
            self.send(tag, data)
        output, event = self.submit(OUTPUT, length=1024), self.submit(EVENT, length=16)
        if event.status is None:
            self.device.cancel(output)
            self.device.cancel(event)
            return None
        assert event.received == DONE
        return output.received


def _place(register: Register | int, width: int) -> tuple[int, int]:
    if isinstance(register, Register):
        return register.address, width or register.width
    return register, width or (64 if register >= 0x40000 else 32)


def messages(drop: str = "") -> Iterator[tuple[Tag, bytes]]:
    for step, data in payloads(echo(drop).main, {"x": INPUT}):
        if isinstance(step, SendInstructions | SendInput):
            yield Tag.INSTRUCTIONS if isinstance(step, SendInstructions) else Tag.INPUT, data


def boot(**options: Any) -> Port:
    port = Port(VirtualDevice(**options))
    port.configure()
    return port


def opened(*, events: int = 0xF0, multiple: bool = False, **options: Any) -> Port:
    """A device of the run time whose engines run."""
    port = boot(booted=True, **options)
    assert port.write(csr.DESCR_EP, events)
    assert port.write(csr.MULTI_BO_EP, multiple)
    assert port.write(csr.OUTFEED_CHUNK_LENGTH, 0x80)
    for register in (csr.FATAL_ERR_INT_CONTROL, *csr.TOP_LEVEL_CONTROLS.values()):
        assert port.write(register, 1)
    port.run_engines()
    return port


def wake(port: Port) -> None:
    value = csr.SCU_CTRL_3.reset
    for control in (SleepControl.SLEEP, SleepControl.AWAKE):
        assert port.write(csr.SCU_CTRL_3, csr.SCU_CTRL_3.changed(value, force_sleep=control))


def program(*body: Instruction) -> bytes:
    return assemble(chunk([*body, Halt(end_program=True)]))


# --- enumeration ------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", Speed)
@pytest.mark.parametrize("booted", [False, True])
def test_descriptors(speed: Speed, booted: bool) -> None:
    port = Port(VirtualDevice(speed, booted=booted))
    identity = BEAGLE.usb.runtime if booted else BEAGLE.usb.boot
    device = to_bytes(device_descriptor(identity, speed))
    config = configuration(BEAGLE.usb, speed) if booted else boot_configuration(BEAGLE.usb)
    assert port.device.descriptors() == (device, config)
    assert port.descriptor(1, 18) == device
    assert port.descriptor(1, 8) == device[:8]
    assert port.descriptor(2, 9) == config[:9]
    assert port.descriptor(2, 521) == config
    store = port.descriptor(15, 44)
    assert store[:5] == bytes.fromhex("050f2c0003")
    assert len(store) == 44
    # A capability of a platform, which hosts that do not know it pass over.
    assert store[22:26] == bytes.fromhex("16100500")
    assert simulation_request(store) == store[43]
    assert simulation_request(object_store()) is None
    assert port.descriptor(3) == bytes.fromhex("04030904")
    assert port.descriptor(3, number=1) is None
    assert port.descriptor(4) is None
    high = speed is Speed.HIGH and booted
    assert (port.descriptor(6) == bytes.fromhex("0a061002000000400100")) is high
    other = port.descriptor(7)
    if high:
        assert other[:2] == bytes([9, 7])
        assert len(other) == len(config)
        assert other.replace(bytes([0x40, 0]), bytes([0, 2])).count(bytes([7, 5])) == 6
    else:
        assert other is None


def test_standard_requests() -> None:
    port = Port(VirtualDevice(booted=True))
    assert port.answer(0x80, 8, size=1) == b"\0"
    assert port.answer(0x81, 10, size=1) is None
    assert port.control(0, 9, 2).status is Status.STALL
    port.configure()
    assert port.answer(0x80, 8, size=1) == b"\1"
    assert port.answer(0x80, 0, size=2) == b"\1\0"
    assert port.answer(0x81, 0, size=2) == b"\0\0"
    assert port.answer(0x81, 0, index=1, size=2) is None
    assert port.answer(0x81, 10, size=1) == b"\0"
    assert port.answer(0x82, 0, index=0x81, size=2) == b"\0\0"
    assert port.answer(0x82, 0, index=0, size=2) == b"\0\0"
    assert port.answer(0x82, 0, index=0x84, size=2) is None
    accepted = [
        (0, 0x30, 0),
        (0, 0x31, 40),
        (0, 3, 48),
        (0, 1, 48),
        (1, 11, 0),
        (2, 1, 0),
        (0, 5, 9),
    ]
    for kind, request, value in accepted:
        assert port.control(kind, request, value).status is Status.OK, (kind, request)
    refused = [(0, 3, 9), (1, 11, 1), (2, 3, 1), (0, 7, 0), (0x82, 12, 0), (0xFF, 0xFF, 0xFFFF)]
    for kind, request, value in refused:
        assert port.control(kind, request, value).status is Status.STALL, (kind, request)
    assert port.answer(0x80, 0, size=0) == b""


def test_halts() -> None:
    port = opened()
    assert port.control(2, 3, 0, OUTPUT).status is Status.OK
    assert port.answer(0x82, 0, index=OUTPUT, size=2) == b"\1\0"
    assert port.submit(OUTPUT, length=1024).status is Status.STALL
    assert port.control(2, 1, 0, OUTPUT).status is Status.OK
    assert port.echo() == INPUT.tobytes()


def test_nothing_answers_without_a_configuration() -> None:
    port = Port(VirtualDevice(booted=True))
    assert port.submit(OUTPUT, length=4).status is Status.ERROR
    port.configure()
    assert port.submit(0x04, b"x").status is Status.ERROR
    assert port.submit(0).status is Status.ERROR
    read = port.submit(OUTPUT, length=4)
    port.control(0, 9, 0)
    assert read.status is Status.CANCELLED
    boot_rom = boot()
    assert boot_rom.submit(OUT, b"x").status is Status.ERROR


# --- boot ROM ---------------------------------------------------------------------------------


def test_download_makes_another_device() -> None:
    port = boot()
    port.download()
    for block in range(0, 128, 5):
        data = port.dfu(DfuRequest.UPLOAD, block, 256).received
        assert data == FIRMWARE.ljust(32 << 10, b"\0")[block * 256 :][:256]
    assert port.dfu(DfuRequest.UPLOAD, 128, 256).received == b""
    assert port.dfu_status() == (0, DfuState.IDLE)
    assert (port.device.mode, port.device.generation) == (Mode.BOOT, 1)
    port.device.reset()
    assert (port.device.mode, port.device.generation) == (Mode.RUN, 2)
    assert port.device.firmware == FIRMWARE
    assert port.device.configured == 0
    # From here, only DETACH leads back.
    port.device.reset()
    assert (port.device.mode, port.device.generation) == (Mode.RUN, 2)
    assert port.dfu(DfuRequest.GET_STATUS, 0, 6).status is Status.STALL
    assert port.dfu(DfuRequest.DETACH, 100).status is Status.OK
    assert port.device.mode is Mode.RUN
    port.device.reset()
    assert (port.device.mode, port.device.generation) == (Mode.BOOT, 3)


def test_part_of_a_download_is_lost_by_a_reset() -> None:
    port = boot()
    port.dfu(DfuRequest.DOWNLOAD, 0, FIRMWARE[:256])
    port.device.reset()
    assert (port.device.mode, port.device.generation) == (Mode.BOOT, 1)
    assert port.dfu_status() == (0, DfuState.IDLE)
    assert port.dfu(DfuRequest.UPLOAD, 0, 256).received == bytes(256)


@pytest.mark.parametrize(
    ("request_", "value", "data", "error"),
    [
        (DfuRequest.DOWNLOAD, 0, b"", DfuError.STALLED_PACKET),
        (DfuRequest.DOWNLOAD, 0, bytes(257), DfuError.UNKNOWN),
        (DfuRequest.DOWNLOAD, 128, b"x", DfuError.ADDRESS),
        (DfuRequest.DETACH, 0, b"", DfuError.STALLED_PACKET),
        (DfuRequest.CLEAR_STATUS, 0, b"", DfuError.STALLED_PACKET),
        (DfuRequest.UPLOAD, 0, b"x", DfuError.STALLED_PACKET),
        (DfuRequest.GET_STATE, 0, b"", DfuError.STALLED_PACKET),
        (77, 0, b"", DfuError.STALLED_PACKET),
    ],
)
def test_wrong_requests_stall_until_cleared(
    request_: int, value: int, data: bytes, error: DfuError
) -> None:
    port = boot()
    assert port.control(0x21, request_, value, 0, data).status is Status.STALL
    assert port.dfu_status() == (error, DfuState.ERROR)
    assert port.dfu(DfuRequest.UPLOAD, 0, 256).status is Status.STALL
    assert port.dfu(DfuRequest.ABORT).status is Status.STALL
    assert port.dfu(DfuRequest.GET_STATE, 0, 1).received == bytes([DfuState.ERROR])
    assert port.dfu(DfuRequest.CLEAR_STATUS).status is Status.OK
    assert port.dfu_status() == (0, DfuState.IDLE)
    port.download()
    port.device.reset()
    assert port.device.mode is Mode.RUN


def test_downloads_need_a_request_for_the_status_and_can_be_given_up() -> None:
    port = boot()
    port.dfu(DfuRequest.DOWNLOAD, 0, b"x")
    assert port.dfu(DfuRequest.GET_STATE, 0, 1).received == bytes([DfuState.DOWNLOAD_SYNC])
    assert port.dfu(DfuRequest.DOWNLOAD, 1, b"x").status is Status.STALL
    port.dfu(DfuRequest.CLEAR_STATUS)
    port.dfu(DfuRequest.DOWNLOAD, 0, b"x")
    port.dfu_status()
    assert port.dfu(DfuRequest.ABORT).status is Status.OK
    assert port.dfu_status() == (0, DfuState.IDLE)
    assert port.control(0xA1, DfuRequest.GET_STATUS, 0, 1, 6).status is Status.STALL
    port.device.reset()
    assert port.device.mode is Mode.BOOT


# --- registers --------------------------------------------------------------------------------


def test_registers_have_reset_values_and_are_not_there_in_boot_mode() -> None:
    port = boot(booted=True)
    for register in csr.REGISTERS:
        wanted = register.reset
        if register is csr.EP_STATUS_CREDIT:
            room = FIFO_BYTES // 8
            wanted = register.value(instructions=room, input=room, parameters=room)
        assert port.read(register) == wanted, register.name
    assert port.device.registers.accesses.total() == len(csr.REGISTERS)
    assert boot().read(csr.SCU_CTRL_0) is None


def test_writes_keep_to_the_declarations() -> None:
    port = boot(booted=True)
    special = {csr.SCU_CTRL_3, csr.OMC0_DC, csr.EP_STATUS_CREDIT}
    for register in csr.REGISTERS:
        if register in special or register in csr.TILE_RUN_CONTROLS.values():
            continue
        everything = (1 << register.width) - 1
        before = port.read(register)
        assert before is not None
        assert port.write(register, everything)
        wanted = before if register.access is Access.READ else register.written(before, everything)
        assert port.read(register) == wanted, register.name
    assert port.field(csr.RAMBIST_CTRL_1, "mbist_int_status") == 0
    assert port.field(csr.SCU_CTR_7, "boot_failure_raw") == 0


def test_accesses_of_other_sizes_are_refused() -> None:
    port = boot(booted=True)
    assert port.read(csr.SCU_CTRL_0, 64) is None
    assert port.read(csr.DESCR_EP, 32) is None
    assert not port.write(csr.DESCR_EP, 1, 32)
    assert port.read(0x1A30D) is None
    assert port.read(0x4C144) is None
    assert port.read(0x20000) is None
    assert port.read(0x50000) is None
    assert port.control(0x40, 1, 0xA30C, 1, b"abc").status is Status.STALL
    assert port.control(0xC0, 2, 0xA30C, 1, 4).status is Status.STALL
    assert port.control(0xC0, 1, 0xA30C, 1, 2).received == b"\x59\x09"


def test_addresses_without_a_declaration_hold_what_is_written() -> None:
    port = boot(booted=True)
    for address, value in ((0x1FFFC, 0x12345678), (0x40008, 0x123456789ABCDEF0)):
        assert port.read(address) == 0
        assert port.write(address, value)
        assert port.read(address) == value
    wake(port)
    assert (port.read(0x1FFFC), port.read(0x40008)) == (0x12345678, 0)


def test_sleep() -> None:
    port = boot(booted=True)
    states = [port.device.registers.power]
    asleep = csr.SCU_CTRL_3.changed(csr.SCU_CTRL_3.reset, force_sleep=SleepControl.SLEEP)
    port.write(csr.DESCR_EP, 0xFF)
    port.write(csr.SCU_CTRL_3, asleep)
    assert port.read(csr.SCU_CTRL_3) == 0x60C5025C
    states.append(port.device.registers.power)
    assert states == [PowerState.ACTIVE, PowerState.SLEEP]
    assert port.read(csr.DESCR_EP) is None
    assert not port.write(csr.DESCR_EP, 1)
    port.write(csr.SCU_CTRL_3, 0x0085025C)
    assert port.read(csr.SCU_CTRL_3) == 0x00850004
    assert port.read(csr.DESCR_EP) == 0


@pytest.mark.parametrize("clock", CoreClock)
def test_clock(clock: CoreClock) -> None:
    port = boot(booted=True)
    port.write(csr.SCU_CTRL_3, csr.SCU_CTRL_3.changed(csr.SCU_CTRL_3.reset, gcb_clock=clock))
    assert port.device.registers.clock is clock


def test_registers_of_tiles() -> None:
    port = boot(booted=True)
    op = csr.TILE_RUN_CONTROLS[next(iter(csr.TILE_RUN_CONTROLS))]
    for tile, value in ((3, 1), (4, 2), (100, 3)):
        port.write(csr.TILECONFIG0, tile)
        port.write(op, value)
    found = []
    for tile in (2, 3, 4, 100):
        port.write(csr.TILECONFIG0, tile)
        found.append(port.read(op))
    assert found == [0, 1, 2, 0]
    port.write(csr.TILECONFIG0, csr.ALL_TILES)
    port.write(op, 1)
    port.write(csr.TILECONFIG0, 4)
    assert port.read(op) == 1


def test_temperature() -> None:
    port = opened()
    port.write(csr.OMC0_D4, csr.OMC0_D4.value(thm_warn_en=True, thm_warn1=344))
    port.device.set_temperature(79)
    assert port.field(csr.OMC0_DC, "data") == 348
    packet = port.submit(INTERRUPT, length=4)
    assert packet.status is None
    port.device.set_temperature(81)
    assert packet.status is Status.OK
    assert packet.received == to_bytes(InterruptPacket(top_level=(False, False, False, True)))
    assert port.read(csr.TOP_LEVEL_STATUSES[TopLevelInterrupt.THERMAL_WARNING]) == 1
    assert port.field(csr.OMC0_DC, "warn_o")
    port.write(csr.TOP_LEVEL_STATUSES[TopLevelInterrupt.THERMAL_WARNING], 0)
    dc = port.read(csr.OMC0_DC)
    assert dc is not None
    port.write(csr.OMC0_DC, csr.OMC0_DC.changed(dc, warn_clear=True))
    assert not port.field(csr.OMC0_DC, "warn_o")
    assert not port.field(csr.OMC0_DC, "warn_clear")
    assert port.field(csr.OMC0_DC, "data") == 340
    assert port.echo() == INPUT.tobytes()


def test_thermal_shutdown() -> None:
    port = opened()
    port.device.overheat(TopLevelInterrupt.THERMAL_SHUTDOWN)
    assert port.submit(INTERRUPT, length=4).status is None  # the host has not enabled it
    assert port.echo() is None
    assert str(port.device.fault) == "thermal shutdown"
    wake(port)
    port.write(csr.DESCR_EP, 0xF0)
    port.run_engines()
    assert port.echo() == INPUT.tobytes()


def test_interrupts_wait_until_they_are_enabled() -> None:
    port = boot(booted=True)
    port.device.fail("axi_slave_r")
    packet = port.submit(INTERRUPT, length=4)
    assert packet.status is None
    port.write(csr.FATAL_ERR_INT_CONTROL, 1)
    assert packet.received == b"\1\0\0\0"
    assert port.read(csr.HIB_ERROR_STATUS) == csr.HIB_ERROR_STATUS.value(axi_slave_r=True)
    port.device.overheat(TopLevelInterrupt.THERMAL_WARNING)
    port.write(csr.OMC0_D4, csr.OMC0_D4.value(thm_warn_en=True))
    port.device.overheat(TopLevelInterrupt.THERMAL_WARNING)
    port.device.fail("csr_parity")
    first = csr.HIB_FIRST_ERROR_STATUS.value(axi_slave_r=True)
    assert port.read(csr.HIB_FIRST_ERROR_STATUS) == first
    assert port.read(csr.HIB_ERROR_STATUS) == first | csr.HIB_ERROR_STATUS.value(csr_parity=True)
    assert port.submit(INTERRUPT, length=4).received == b"\1\0\0\0"
    port.write(csr.TOP_LEVEL_CONTROLS[TopLevelInterrupt.THERMAL_WARNING], 1)
    assert port.submit(INTERRUPT, length=4).received == bytes([1 << 4, 0, 0, 0])


# --- streams ----------------------------------------------------------------------------------


def test_program_runs() -> None:
    port = opened()
    assert [port.echo() for _ in range(3)] == [INPUT.tobytes()] * 3
    assert port.device.fault is None


@pytest.mark.parametrize("size", [1, 3, 8, 17, 1 << 20])
def test_streams_may_be_cut_anywhere(size: int) -> None:
    port = opened()
    stream = b"".join(
        to_bytes(StreamHeader(length=len(data), tag=tag)) + data for tag, data in messages()
    )
    for first in range(0, len(stream), size):
        assert port.submit(OUT, stream[first : first + size]).status is Status.OK
    assert port.submit(OUTPUT, length=1024).received == INPUT.tobytes()
    assert port.submit(EVENT, length=16).received == DONE


@pytest.mark.parametrize("backwards", [False, True])
def test_each_kind_may_have_an_endpoint(backwards: bool) -> None:
    port = opened(multiple=True)
    for tag, data in sorted(messages(), reverse=backwards):
        for first in range(0, len(data), 100):
            assert port.submit(OUT + tag, data[first : first + 100]).status is Status.OK
    assert port.submit(OUTPUT, length=1024).received == INPUT.tobytes()
    assert port.submit(EVENT, length=16).received == DONE


def test_other_endpoints_take_nothing_in_single_endpoint_mode() -> None:
    port = opened()
    transfer = port.submit(2, b"x")
    assert transfer.status is None
    assert port.device.cancel(transfer)
    assert not port.device.cancel(transfer)
    assert transfer.status is Status.CANCELLED


def test_descriptors_are_announced() -> None:
    port = opened(events=0xFF)
    for step, data in payloads(echo().main, {"x": INPUT}, 0x1234567800):
        if data:
            port.send(Tag.INSTRUCTIONS if isinstance(step, SendInstructions) else Tag.INPUT, data)
    events = [port.submit(EVENT, length=16).received for _ in range(3)]
    assert events == [
        to_bytes(Event(0x1234567800, SIZE, Tag.INPUT)),
        to_bytes(Event(0x1234567800, SIZE, Tag.OUTPUT)),
        DONE,
    ]
    quiet = opened(events=0)
    for tag, data in messages():
        quiet.send(tag, data)
    assert quiet.submit(OUTPUT, length=1024).received == INPUT.tobytes()
    assert quiet.submit(EVENT, length=16).status is None


@pytest.mark.parametrize("speed", Speed)
@pytest.mark.parametrize("length", [0x20, 0x80, 0])
def test_outputs_come_in_packets(speed: Speed, length: int) -> None:
    port = opened(speed=speed)
    port.write(csr.OUTFEED_CHUNK_LENGTH, length // 4)
    for tag, data in messages():
        port.send(tag, data)
    sizes: list[int] = []
    while sum(sizes) < SIZE:
        sizes.append(len(port.submit(OUTPUT, length=1024).received))
    assert sizes == [min(2 * length or SIZE, SIZE)] * len(sizes)


def test_reads_take_several_packets_and_packets_must_fit() -> None:
    port = opened()
    port.device._outlets[OUTPUT].push(bytes(2048), 1024)
    assert port.submit(OUTPUT, length=2048).received == bytes(2048)
    port.device._outlets[OUTPUT].push(bytes(1024), 1024)
    transfer = port.submit(OUTPUT, length=4096)
    assert transfer.status is None
    assert port.device.cancel(transfer)
    assert transfer.received == bytes(1024)
    for tag, data in messages():
        port.send(tag, data)
    assert port.submit(OUTPUT, length=255).status is Status.OVERFLOW
    assert port.submit(EVENT, length=4).status is Status.OVERFLOW
    assert port.echo() == INPUT.tobytes()


def test_data_runs_ahead_as_far_as_the_fifo_goes() -> None:
    port = opened()
    transfer = port.send(Tag.PARAMETERS, bytes(100_000))
    assert (transfer.status, transfer.sent) == (None, FIFO_BYTES + StreamHeader.width // 8)
    behind = port.send(Tag.INSTRUCTIONS, bytes(16))
    assert (behind.status, behind.sent) == (None, 0)
    assert port.device.cancel(behind)
    assert port.device.cancel(transfer)
    port.write(csr.GCBB_CREDIT0, 0xF)
    port.write(csr.GCBB_CREDIT0, 0)
    assert port.echo() == INPUT.tobytes()


def test_credits_say_how_much_fits() -> None:
    port = opened(multiple=True)
    assert port.submit(3, bytes(800)).status is Status.OK
    assert port.field(csr.EP_STATUS_CREDIT, "parameters") == FIFO_BYTES // 8 - 100
    assert port.field(csr.EP_STATUS_CREDIT, "input") == FIFO_BYTES // 8
    assert port.submit(3, bytes(FIFO_BYTES)).status is None
    assert port.field(csr.EP_STATUS_CREDIT, "parameters") == 0


def test_chip_waits_for_the_host_to_fetch_outputs() -> None:
    port = opened()
    device = port.device
    device._outlets[OUTPUT].push(bytes(FIFO_BYTES + 1))
    for tag, data in messages():
        assert port.send(tag, data).status is Status.OK
    assert port.submit(EVENT, length=16).status is None
    assert device._core.programs == 0
    assert port.submit(OUTPUT, length=FIFO_BYTES).status is Status.OK
    assert device._core.programs == 1


def test_engines_must_run() -> None:
    port = opened()
    port.write(csr.TILECONFIG0, 5)
    halted = next(iter(csr.TILE_RUN_CONTROLS.values()))
    port.write(halted, 2)
    for tag, data in messages():
        assert port.send(tag, data).status is Status.OK
    output = port.submit(OUTPUT, length=1024)
    assert output.status is None
    port.write(halted, 1)
    assert output.received == INPUT.tobytes()


@pytest.mark.parametrize("forget", [False, True])
def test_memories_are_lost_by_a_reset_only(forget: bool) -> None:
    port = opened()
    assert port.echo() == INPUT.tobytes()
    machine = port.device._core._machine
    assert machine is not None
    if forget:
        port.device.reset()
        port.configure()
    assert port.echo() == INPUT.tobytes()
    assert (port.device._core._machine is machine) is not forget


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        ("10000000 00000000" + "ff" * 16, "reserved"),
        ("10000000 00000000" + "00" * 16, "does not exist"),
        ("08000000 00000000" + "00" * 8, "whole bundles"),
        ("00001000 00000000", "1048576 bytes of instructions"),
        ("00000000 03000000", "3 is not a Tag"),
        ("00000000 00010000", "reserved"),
    ],
)
def test_malformed_streams_are_fatal(stream: str, text: str) -> None:
    port = opened()
    packet = port.submit(INTERRUPT, length=4)
    assert port.submit(OUT, bytes.fromhex(stream)).status is Status.OK
    assert text in str(port.device.fault)
    assert packet.received == b"\1\0\0\0"
    assert port.field(csr.HIB_FIRST_ERROR_STATUS, "instruction_queue_invalid")
    assert port.echo() is None


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (bytes(16), "Start.op"),
        (assemble([End()]), "Start.op"),
        (assemble([Start(size=1 << 31)]), "bytes of instructions"),
    ],
)
def test_malformed_chunks_without_a_header_are_fatal(stream: bytes, text: str) -> None:
    port = opened(multiple=True)
    assert port.submit(OUT, stream).status is Status.OK
    assert text in str(port.device.fault)


def test_programs_that_fail_are_fatal() -> None:
    port = opened()
    for tag, data in messages(POP):
        port.send(tag, data)
    assert "deadlock" in str(port.device.fault)
    assert port.read(csr.FATAL_ERR_INT_STATUS) == 1
    assert port.submit(INTERRUPT, length=4).received == b"\1\0\0\0"
    assert port.echo() is None
    port.write(csr.FATAL_ERR_INT_STATUS, 0)
    assert port.read(csr.FATAL_ERR_INT_STATUS) == 0
    wake(port)
    port.write(csr.DESCR_EP, 0xF0)
    port.run_engines()
    assert port.echo() == INPUT.tobytes()
    assert "deadlock" in str(port.device.fault)


def test_programs_have_an_end() -> None:
    port = opened(budget=10_000)
    port.send(Tag.INSTRUCTIONS, program(Scalar(), Branch(offset=-1)))
    assert "does not end within" in str(port.device.fault)


@pytest.mark.parametrize("size", [0, 300 << 20])
def test_programs_ask_for_something_and_not_too_much(size: int) -> None:
    port = opened()
    body = [
        Scalar(alu=Alu.MOV, immediate_b=True, to=slot, immediate=value)
        for slot, value in enumerate((0, 0, 1, 1))
    ]
    if size:
        body += [Scalar(alu=Alu.SHL, immediate_b=True, a=2, to=2, immediate=29)]
    else:
        body += [Scalar(alu=Alu.MOV, immediate_b=True, to=2, immediate=0)]
    body += [
        Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=slot) for slot in range(4)
    ]
    port.send(Tag.INSTRUCTIONS, program(*body, Scalar(store=Store.ISSUE)))
    assert "asks for" in str(port.device.fault)
    name = "inbound_page_fault" if size else "length_0_dma"
    assert port.field(csr.HIB_ERROR_STATUS, name)


# --- threads ----------------------------------------------------------------------------------


def test_done_may_submit() -> None:
    port = opened()
    seen: list[bytes] = []

    def again(transfer: Transfer) -> None:
        seen.append(transfer.received)
        if transfer.status is Status.OK:
            port.device.submit(Transfer(OUTPUT, length=1024, done=again))

    port.device._outlets[OUTPUT].push(bytes(5000 * 1024), 1024)
    port.device.submit(Transfer(OUTPUT, length=1024, done=again))
    assert len(seen) == 5000
    for tag, data in messages():
        port.send(tag, data)
    assert seen[-1] == INPUT.tobytes()


def test_failures_of_done_reach_whoever_submits() -> None:
    port = opened()

    def fail(_: Transfer) -> None:
        raise RuntimeError("no")

    port.device.submit(Transfer(EVENT, length=16, done=fail))
    (_, instructions), (_, data) = messages()
    port.send(Tag.INSTRUCTIONS, instructions)
    with pytest.raises(RuntimeError, match="no"):
        port.device.submit(Transfer(OUT, data=to_bytes(StreamHeader(SIZE, Tag.INPUT)) + data))
    assert port.submit(OUTPUT, length=1024).received == INPUT.tobytes()
    assert port.echo() == INPUT.tobytes()


def test_programs_may_run_in_an_executor() -> None:
    with ThreadPoolExecutor(2) as executor:
        port = opened(executor=executor)
        for _ in range(5):
            ended: queue.Queue[Transfer] = queue.Queue()
            output = Transfer(OUTPUT, length=1024)
            event = Transfer(EVENT, length=16, done=ended.put)
            port.device.submit(output)
            port.device.submit(event)
            for tag, data in messages():
                transfer = Transfer(OUT, data=to_bytes(StreamHeader(len(data), tag)) + data)
                port.device.submit(transfer)
            assert ended.get(timeout=10) is event
            assert output.received == INPUT.tobytes()


def test_several_threads() -> None:
    port = opened()
    received: list[bytes] = []
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            assert port.read(csr.SCU_CTRL_0) == csr.SCU_CTRL_0.reset

    def fetch() -> None:
        for _ in range(20):
            ended: queue.Queue[Transfer] = queue.Queue()
            port.device.submit(Transfer(OUTPUT, length=1024, done=ended.put))
            received.append(ended.get(timeout=10).received)

    threads = [threading.Thread(target=target) for target in (poll, fetch)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        for tag, data in messages():
            transfer = Transfer(OUT, data=to_bytes(StreamHeader(len(data), tag)) + data)
            port.device.submit(transfer)
        event = Transfer(EVENT, length=16)
        port.device.submit(event)
        assert event.received == DONE
    threads[1].join(10)
    stop.set()
    threads[0].join(10)
    assert received == [INPUT.tobytes()] * 20


# --- faults -----------------------------------------------------------------------------------


def faulty(*faults: dict[str, Any]) -> Port:
    """A device of the run time; its faults count from its first transfer."""
    return opened(faults=read_script(json.dumps(faults)))


def test_stall() -> None:
    port = faulty({"at": {"transfer": 2, "endpoint": "0x81"}, "do": "stall"})
    assert port.echo() == INPUT.tobytes()
    assert port.submit(OUTPUT, length=1024).status is Status.STALL
    assert port.submit(OUTPUT, length=1024).status is Status.STALL
    port.control(2, 1, 0, OUTPUT)
    assert port.echo() == INPUT.tobytes()


def test_stall_of_data_to_the_device() -> None:
    port = faulty({"at": {"transfer": 1, "endpoint": 1}, "do": "stall"})
    assert port.submit(OUT, b"x").status is Status.STALL
    port.control(2, 1, 0, OUT)
    assert port.echo() == INPUT.tobytes()


def test_stall_of_a_register() -> None:
    port = faulty({"at": {"transfer": 2, "register": "scu_ctrl_0"}, "do": "stall"})
    values = [port.read(csr.SCU_CTRL_0) for _ in range(3)]
    assert values == [csr.SCU_CTRL_0.reset, None, csr.SCU_CTRL_0.reset]


@pytest.mark.parametrize("endpoint", ["0x0", "0x1", "0x81"])
def test_timeout(endpoint: str) -> None:
    number = 40 if endpoint == "0x0" else 1
    port = faulty({"at": {"transfer": number, "endpoint": endpoint}, "do": "timeout"})
    stuck = None
    while stuck is None:
        address = int(endpoint, 16)
        setup = SetupPacket(0x80, 8, length=1) if not address else None
        transfer = port.submit(address, b"", 1, setup)
        stuck = transfer if transfer.status is None else None
    if int(endpoint, 16):
        assert port.submit(int(endpoint, 16), b"", 1).status is None
    assert port.device.cancel(stuck)
    assert stuck.status is Status.CANCELLED
    assert port.read(csr.SCU_CTRL_0) == csr.SCU_CTRL_0.reset


def test_short() -> None:
    port = faulty(
        {"at": {"transfer": 1, "endpoint": "0x81"}, "do": "short", "length": 10},
        {"at": {"transfer": 3, "endpoint": "0x01"}, "do": "short", "length": 5},
        {"at": {"transfer": 1, "register": "scu_ctrl_0"}, "do": "short", "length": 3},
    )
    assert port.echo() == INPUT.tobytes()[:10]
    transfer = port.send(Tag.INPUT, b"abc")
    assert (transfer.status, transfer.sent) == (Status.ERROR, 5)
    assert port.answer(0xC0, 1, 0xA30C, 1, 4) == b"\x59\x09\x0f"


def test_babble_and_errors() -> None:
    port = faulty(
        {"at": {"transfer": 1, "endpoint": "0x81"}, "do": "babble"},
        {"at": {"transfer": 2, "endpoint": "0x82"}, "do": "error"},
        {"at": {"transfer": 1, "register": "scu_ctrl_0"}, "do": "babble"},
        {"at": {"transfer": 2, "register": "scu_ctrl_0"}, "do": "error"},
    )
    output = port.submit(OUTPUT, length=1024)
    for tag, data in messages():
        port.send(tag, data)
    assert output.status is Status.OVERFLOW
    assert port.submit(EVENT, length=16).received == DONE
    assert port.submit(EVENT, length=16).status is Status.ERROR
    register = (0xC0, 1, 0xA30C, 1, 4)
    statuses = [port.control(*register).status for _ in range(3)]
    assert statuses == [Status.OVERFLOW, Status.ERROR, Status.OK]


def test_corrupted_and_lost_events() -> None:
    port = faulty(
        {"at": {"transfer": 1, "endpoint": "0x82"}, "do": "corrupt", "data": "ffee"},
        {"at": {"transfer": 2, "endpoint": "0x82"}, "do": "corrupt"},
        {"at": {"transfer": 3, "endpoint": "0x82"}, "do": "lose"},
    )
    events = [port.submit(EVENT, length=16) for _ in range(3)]
    for _ in range(4):
        for tag, data in messages():
            port.send(tag, data)
    assert events[0].received == b"\xff\xee" + DONE[2:]
    assert events[1].received == bytes(255 - byte for byte in DONE)
    assert events[2].received == DONE
    assert port.submit(EVENT, length=16).status is None


def test_unplug() -> None:
    port = faulty({"at": {"transfer": 2, "endpoint": "0x81"}, "do": "unplug"})
    reads = [port.submit(endpoint, length=1024) for endpoint in (OUTPUT, EVENT, OUTPUT)]
    assert [read.status for read in reads] == [Status.NO_DEVICE] * 3
    assert not port.device.connected
    assert port.control(0x80, 6, 0x100, 0, 18).status is Status.NO_DEVICE
    generation = port.device.generation
    port.device.plug()
    assert port.device.connected
    assert port.device.generation == generation
    assert port.device.mode is Mode.BOOT
    assert generation == 2


def test_replug() -> None:
    port = faulty(
        {"at": {"transfer": 1, "endpoint": "0x81"}, "do": "replug"},
        {"at": {"transfer": 2, "endpoint": "0x81"}, "do": "replug", "seconds": 3600},
    )
    read = port.submit(OUTPUT, length=1024)
    assert read.status is Status.ERROR  # the boot ROM has no such endpoint
    assert port.device.connected
    assert (port.device.mode, port.device.generation) == (Mode.BOOT, 2)
    assert port.submit(OUTPUT, length=1024).status is Status.NO_DEVICE
    assert not port.device.connected
    assert port.device.generation == 3


def test_faults_of_the_chip() -> None:
    port = faulty(
        {"at": {"transfer": 1, "endpoint": "0x82"}, "do": "thermal_warning"},
        {"at": {"transfer": 2, "endpoint": "0x82"}, "do": "temperature", "celsius": 50},
        {"at": {"transfer": 3, "endpoint": "0x82"}, "do": "fatal", "error": "virtual_table"},
        {"at": {"transfer": 4, "endpoint": "0x82"}, "do": "thermal_shutdown"},
    )
    port.write(csr.OMC0_D4, csr.OMC0_D4.value(thm_warn_en=True))
    port.write(csr.OMC0_D8, csr.OMC0_D8.value(sd_en=True))
    assert port.echo() == INPUT.tobytes()
    assert port.submit(INTERRUPT, length=4).received == bytes([1 << 4, 0, 0, 0])
    assert port.echo() == INPUT.tobytes()
    assert port.field(csr.OMC0_DC, "data") == 464
    port.device.cancel(port.submit(EVENT, length=16))
    assert port.submit(INTERRUPT, length=4).received == b"\1\0\0\0"
    assert port.field(csr.HIB_FIRST_ERROR_STATUS, "virtual_table")
    assert port.echo() is None
    assert port.submit(INTERRUPT, length=4).received == b"\2\0\0\0"


def test_faults_count_all_transfers_or_those_of_an_endpoint() -> None:
    script = FaultScript(
        read_script(
            b'{"faults": [{"at": {"transfer": 3}, "do": "stall"},'
            b'{"at": {"transfer": 2, "endpoint": "0x82"}, "do": "unplug"},'
            b'{"at": {"transfer": 2, "endpoint": "0x82"}, "do": "error"}]}'
        )
    )
    due = [script.take(Transfer(endpoint)) for endpoint in (0x81, 0x82, 0x81, 0x82, 0x82)]
    assert [[fault.kind.value for fault in faults] for faults in due] == [
        [],
        [],
        ["stall"],
        ["unplug", "error"],
        [],
    ]


def test_every_kind_is_described() -> None:
    assert list(FAULTS) == list(FaultKind)
    assert Fault(FaultKind.STALL, 1) == read_script('[{"at": {"transfer": 1}, "do": "stall"}]')[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "a list"),
        ('{"faulty": []}', "unknown member 'faulty'"),
        ("[3]", "is an object"),
        ('[{"do": "nothing"}]', "do is 'nothing'"),
        ('[{"do": ["stall"]}]', "do is"),
        ('[{"do": "stall"}]', "at is missing"),
        ('[{"do": "stall", "at": {}}]', "transfer is not a whole number"),
        ('[{"do": "stall", "at": {"transfer": 0}}]', "count from 1"),
        ('[{"do": "stall", "at": {"transfer": true}}]', "not a whole number"),
        ('[{"do": "stall", "at": {"transfer": 1, "endpoint": "0x84"}}]', "no endpoint 0x84"),
        ('[{"do": "stall", "at": {"transfer": 1, "endpoint": [1]}}]', "no endpoint"),
        ('[{"do": "stall", "at": {"transfer": 1, "register": "no"}}]', "no register 'no'"),
        ('[{"do": "stall", "at": {"transfer": 1, "register": [1]}}]', "no register"),
        (
            '[{"do": "stall", "at": {"transfer": 1, "register": "omc0_00", "endpoint": 1}}]',
            "at endpoint 0",
        ),
        ('[{"do": "stall", "at": {"transfer": 1}, "length": 3}]', "unknown member 'length'"),
        ('[{"do": "short", "at": {"transfer": 1}}]', "short needs an endpoint"),
        ('[{"do": "babble", "at": {"transfer": 1, "endpoint": 1}}]', "data from the device"),
        ('[{"do": "lose", "at": {"transfer": 1, "endpoint": 0}}]', "cannot be lost"),
        (
            '[{"do": "short", "at": {"transfer": 1, "endpoint": 1}, "length": -1}]',
            "negative",
        ),
        (
            '[{"do": "corrupt", "at": {"transfer": 1, "endpoint": "0x82"}, "data": "xy"}]',
            "hexadecimal",
        ),
        ('[{"do": "fatal", "at": {"transfer": 1}, "error": "bad"}]', "no error 'bad'"),
        ('[{"do": "fatal", "at": {"transfer": 1}, "error": []}]', "no error"),
        ('[{"do": "replug", "at": {"transfer": 1}, "seconds": NaN}]', "not a number"),
        ('[{"do": "temperature", "at": {"transfer": 1}, "celsius": "hot"}]', "not a number"),
    ],
)
def test_scripts_are_checked(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_script(text, "faults.json")
