"""Devices that lie, and processes that get into each other's way: one test for each cause."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import usb.core
from tests.driver.edgetpu_programs import SIZE, echo, followed
from tests.driver.fault_sessions import LIMITS, OVERTIME, Bench, Work
from tests.driver.hostile_device import (
    EVENT,
    OUTPUT,
    SLOW_SECONDS,
    TRANSFER_SECONDS,
    CountedDevice,
    HostileDevice,
    Lie,
)
from tests.driver.simulated_clock import SimulatedClock

from fitzroy.base.errors import DeviceError
from fitzroy.driver.device.limits import DeadlineError, Limits
from fitzroy.driver.device.streams import ProtocolError
from fitzroy.driver.transports.transport import (
    BusyError,
    LostError,
    TransactionError,
    TransferError,
)
from fitzroy.driver.transports.usb import UsbBus
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.formats.darwinn import Description
from fitzroy.hw_models.chips.usb import DfuDescriptor, Event, InterruptPacket, Tag, to_bytes
from fitzroy.hw_models.usb_device.device import Mode, VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind
from fitzroy.hw_models.usb_device.transfer import Status, Transfer
from fitzroy.linker.resolve.fields import Buffer, buffer_addresses

ROW = np.arange(SIZE)[::-1].astype(np.uint8)
DATA, INTERRUPT = 0x01, 0x83


class Endless(CountedDevice):
    """A device that has always the same to say on some endpoints, and takes everything there."""

    def __init__(self, clock: SimulatedClock, said: dict[int, bytes]) -> None:
        super().__init__(clock, booted=True)
        self.said = said

    def serve(self, transfer: Transfer) -> None:
        said = self.said.get(transfer.endpoint)
        if said is None:
            super().serve(transfer)
            return
        transfer.received = said[: transfer.length]
        transfer.sent = len(transfer.data)
        transfer.end(Status.OK)


def endless(said: dict[int, bytes], limits: Limits = LIMITS) -> Bench:
    clock = SimulatedClock()
    return Bench(Endless(clock, said), clock, limits)


def hostile(lie: Lie, *, booted: bool = True, limits: Limits = LIMITS) -> Bench:
    clock = SimulatedClock()
    return Bench(HostileDevice(clock, lies=(lie, 1), seed="1", booted=booted), clock, limits)


@pytest.mark.parametrize("endpoint", [EVENT, INTERRUPT])
def test_what_an_earlier_request_has_left_has_an_end(endpoint: int) -> None:
    said = {
        EVENT: to_bytes(Event(tag=Tag.INTERRUPT_1)),
        INTERRUPT: to_bytes(InterruptPacket()),
    }
    bench = endless({endpoint: said[endpoint]}, replace(LIMITS, retries=0))
    host = bench.host().open()
    bench.device.hooks[len(bench.device.trace) + 2] = bench.device.fail
    with pytest.raises(DeviceError):
        host.run(echo(), {"x": ROW})
    with suppress(ProtocolError):
        # The chip is opened anew, which has to clear all endpoints, and then the port is reset.
        host.run(echo(), {"x": ROW})
    assert host.recoveries == 1
    assert 1_000 < bench.device.endpoints.count(endpoint) < 1_200


def test_clearing_endpoints_ends_with_the_request() -> None:
    event = to_bytes(Event(tag=Tag.INTERRUPT_1))
    bench = endless({EVENT: event}, replace(LIMITS, request=0.1))
    with pytest.raises(DeadlineError, match="earlier request"):
        bench.host().run(echo(), {"x": ROW})
    assert bench.clock.now() < 0.2


def test_outputs_that_trickle_in_end_with_the_request() -> None:
    bench = hostile(Lie.DRIP)
    host = bench.host()
    assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
    with pytest.raises(DeadlineError, match=r"outputs, \d+ of 256 bytes"):
        host.run(echo(), {"x": ROW}, timeout=100 * TRANSFER_SECONDS)


def test_announcements_without_an_end_end_with_the_request() -> None:
    # The device asks for the same input again and again, and takes it.
    package = followed()
    addresses = buffer_addresses(package.main)
    place = addresses[Buffer(Description.BASE_ADDRESS_INPUT_ACTIVATION, "x")]
    event = Event(address=place, length=SIZE, tag=Tag.INPUT)
    bench = endless({EVENT: to_bytes(event), DATA: b""})
    with pytest.raises(DeadlineError, match="end of the program"):
        bench.host().run(package, {"x": ROW})
    assert bench.clock.now() < LIMITS.request + OVERTIME


@pytest.mark.parametrize("endpoint", [EVENT])
def test_programs_that_end_too_early_have_no_result(endpoint: int) -> None:
    bench = endless({endpoint: to_bytes(Event(tag=Tag.INTERRUPT_0))})
    with pytest.raises(ProtocolError, match="0 of 256 bytes"):
        bench.host().run(followed(), {"x": ROW})


def test_announcements_that_are_lost_are_missed() -> None:
    clock = SimulatedClock()
    # The second announcement is that of the output.
    device = CountedDevice(clock, [Fault(FaultKind.LOSE, 2, endpoint=EVENT)], booted=True)
    host = Bench(device, clock).host()
    assert (host.run(followed(), {"x": ROW}).tensors["y"] == ROW).all()
    assert host.recoveries == 1


@pytest.mark.parametrize("booted", [False, True])
def test_answers_at_the_last_moment_do_not_add_up(booted: bool) -> None:
    bench = hostile(Lie.SLOW, booted=booted, limits=replace(LIMITS, request=0.5))
    host = bench.host()
    with pytest.raises(DeadlineError):
        host.open()
    assert bench.clock.now() < 0.5 + 2 * SLOW_SECONDS


def test_closing_has_an_end() -> None:
    clock = SimulatedClock()
    device = HostileDevice(clock, lies=(Lie.SLOW, 1_000_000), booted=True)
    bench = Bench(device, clock, replace(LIMITS, request=0.2))
    with bench.host().open():
        device._first, began = 1, clock.now()
    assert clock.now() - began < 0.2 + 2 * SLOW_SECONDS
    # It was given back all the same.
    device.heal()
    assert (bench.host().run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


class Blocks(CountedDevice):
    """A boot ROM with another size of blocks."""

    size = 0

    def descriptors(self) -> tuple[bytes, bytes]:
        device, configuration = super().descriptors()
        if self.mode is Mode.BOOT:
            function = to_bytes(DfuDescriptor(transfer_size=self.size))
            configuration = configuration[: -len(function)] + function
        return device, configuration


def test_firmware_in_blocks_of_nothing_is_refused() -> None:
    clock = SimulatedClock()
    with pytest.raises(TransferError, match="blocks of 0 bytes"):
        Bench(Blocks(clock), clock).host().open()


class Garbled(VirtualDevice):
    """A device with other descriptors."""

    def __init__(self, device: bytes | None = None, configuration: bytes | None = None) -> None:
        super().__init__(booted=True)
        true = super().descriptors()
        self.told = (
            true[0] if device is None else device,
            true[1] if configuration is None else true[1][:9] + configuration,
        )

    def descriptors(self) -> tuple[bytes, bytes]:
        return self.told


def attached(device: VirtualDevice) -> UsbBus:
    backend = VirtualBackend([device])
    return UsbBus(lambda: backend, "test", "test")


@pytest.mark.parametrize("data", [b"", b"\x12", b"\x12\x02" + bytes(16), bytes(18), b"\xff" * 30])
def test_systems_do_not_list_what_they_cannot_read(data: bytes) -> None:
    bus = attached(Garbled(data))
    assert bus.attached() == ()
    with pytest.raises(LostError):
        bus.open("1-1")


@pytest.mark.parametrize("data", [b"\0", b"\x09", b"\x07\x05\x81\x02\0\0\0", b"\xff" * 50])
def test_configurations_that_make_no_sense_are_errors_of_the_system(data: bytes) -> None:
    transport = attached(Garbled(configuration=data)).open("1-1")
    with pytest.raises(TransactionError, match="claiming"):
        transport.claim()
    (device,) = usb.core.find(find_all=True, backend=VirtualBackend([Garbled(None, data)]))
    with pytest.raises(usb.core.USBError):
        device.get_active_configuration()


def test_longer_descriptors_are_cut_as_systems_do() -> None:
    longer = VirtualDevice(booted=True).descriptors()[0] + b"\xff" * 300
    assert len(attached(Garbled(longer)).attached()) == 1


def test_a_second_process_does_not_disturb_the_first() -> None:
    clock = SimulatedClock()
    device = CountedDevice(clock)
    bench = Bench(device, clock)
    first, second = bench.host(), bench.host()
    refused = 0

    def intrude() -> None:
        nonlocal refused
        with pytest.raises(BusyError):
            second.open()
        refused += 1
        device.hooks[len(device.trace) + 1] = intrude

    first.open()
    # Between any two transfers of an inference.
    intrude()
    assert (first.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
    device.hooks.clear()
    assert (first.recoveries, first.connection.sessions) == (0, 1)
    assert refused > device.endpoints.count(OUTPUT) + 4
    first.close()
    assert (second.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


def test_a_process_that_dies_leaves_the_device_to_the_next() -> None:
    class DiedError(BaseException):
        pass

    def die() -> None:
        raise DiedError

    clock = SimulatedClock()
    device = CountedDevice(clock)
    bench = Bench(device, clock)
    host = bench.host()
    for number in range(1, 6):
        host.run(Work.CACHED.package, {"x": ROW})
        device.hooks[len(device.trace) + number] = die
        with pytest.raises(DiedError):
            host.run(Work.CACHED.package, {"x": ROW})
        host.connection.drop()
        host = bench.host()
        # What the chip held was the other process's.
        answer = host.run(Work.CACHED.package, {"x": ROW}).tensors["y"]
        assert answer.tobytes() == Work.CACHED.answer(ROW)
        assert (host.recoveries, host.loads) == (0, 1)
