"""Patience that follows the device: a simulated chip is waited for as long as it computes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.driver.edgetpu_programs import SIZE, cached, echo
from tests.driver.simulated_clock import SimulatedClock
from tests.hw_models.usbip_client import Coral
from tests.hw_models.usbip_remote import RemoteDevice

from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.driver.device.limits import DeadlineError, Limits
from fitzroy.driver.device.simulation import Simulation
from fitzroy.driver.runtime.devices import (
    SIMULATED,
    DeviceOptions,
    open_device,
    virtual_bus,
    virtual_device,
)
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.transports.transport import TransferTimeoutError
from fitzroy.hw_models.chips import usb as chip_usb
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import StreamHeader, Tag, object_store, to_bytes
from fitzroy.hw_models.isa.program import assemble, chunk
from fitzroy.hw_models.isa.scalar import Halt, Scalar
from fitzroy.hw_models.usb_device import device as device_module
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.streams import FIFO_BYTES
from fitzroy.hw_models.usb_device.transfer import Status, Transfer
from fitzroy.hw_models.usb_device.usbip.served import AHEAD_BYTES, served_device
from fitzroy.hw_models.usb_device.usbip.server import Server

ROW = np.arange(SIZE).astype(np.uint8)
REAL = Limits()
"""How long the driver waits for an accelerator."""


class Held(Executor):
    """Programs that run when they are let go."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []
        self.free = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.tasks.append(lambda: fn(*args, **kwargs))
        if self.free:
            self.run()
        return Future()

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


class SlowClock(SimulatedClock):
    """A clock by which chips need some seconds for all that they are given."""

    def __init__(self, held: Held, seconds: float) -> None:
        super().__init__()
        self.held = held
        self.seconds = seconds

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        happened = super().wait(event, seconds)
        if self.now() >= self.seconds:
            self.held.free = True
            self.held.run()
        return happened or event.is_set()


def slow_accelerator(
    seconds: float, timeout: float | None = None, **limits: Any
) -> tuple[EdgeTpu, SlowClock]:
    """An accelerator whose chip computes for so long, and the driver as it is for real ones."""
    held = Held()
    clock = SlowClock(held, seconds)
    device = VirtualDevice(booted=True, executor=held, clock=clock)
    options = DeviceOptions(
        limits=replace(REAL, clock=clock, retries=0, idle=1e9, **limits), timeout=timeout
    )
    return virtual_device(options, device), clock


@pytest.mark.parametrize("package", [echo(), cached()], ids=["echo", "cached"])
def test_a_chip_that_computes_for_long(package: Any) -> None:
    host, clock = slow_accelerator(400.0)
    with host:
        assert (host.run(package, {"x": ROW}).tensors["y"][-SIZE:] == ROW).all()
        assert clock.now() > 400
        assert host.recoveries == 0
        assert (host.submit(package, {"x": ROW}).result(10).tensors["y"][-SIZE:] == ROW).all()


def test_the_caller_has_the_last_word() -> None:
    host, clock = slow_accelerator(400.0)
    with host:
        with pytest.raises(DeadlineError, match="no result within 20 s"):
            host.run(echo(), {"x": ROW}, timeout=20.0)
        assert 20 <= clock.now() < 21
    host, clock = slow_accelerator(400.0, timeout=11.0)
    with host:
        with pytest.raises(DeadlineError, match="no result within 11 s"):
            host.run(echo(), {"x": ROW})
        assert 11 <= clock.now() < 12


def test_there_is_an_end_all_the_same() -> None:
    host, clock = slow_accelerator(1e9, simulation=900.0)
    with host:
        with pytest.raises(DeadlineError):
            host.run(echo(), {"x": ROW})
        assert 900 <= clock.now() < 901


def test_a_real_chip_is_given_up_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "object_store", lambda simulated: object_store())
    host, clock = slow_accelerator(400.0)
    with host:
        with pytest.raises(TransferTimeoutError, match="nothing moves for 6 s"):
            host.run(echo(), {"x": ROW})
        assert clock.now() < 8


def test_a_simulated_chip_that_waits_for_its_host_is_given_up() -> None:
    host, clock = slow_accelerator(0.0)
    with host:
        host.open()
        # Its program has no end: it does not compute, it lacks data.
        with pytest.raises(DeviceError):
            host.connection.streams.event(host.connection.limits.of_request(None))
        assert clock.now() < 8


@pytest.mark.parametrize(
    "store",
    [
        b"",
        b"\x05\x0f",
        b"\x05\x0f\x05\x00\x00",
        b"\x05\x0f\xff\xff\x01",
        b"\x05\x0f\x06\x00\x01\x00",
        b"\x05\x0f\x07\x00\x01\x05\x10",
        object_store(simulated=True)[:-1] + b"",
        object_store(simulated=True)[:26] + bytes(18),
        bytes(44),
        object_store(),
    ],
)
def test_malformed_object_stores(monkeypatch: pytest.MonkeyPatch, store: bytes) -> None:
    monkeypatch.setattr(device_module, "object_store", lambda simulated: store)
    transport = virtual_bus([VirtualDevice(booted=True)]).open("1-1")
    simulation = Simulation(transport, SIMULATED)
    assert not simulation.present
    assert not simulation.computing()
    transport.close()


def test_no_chip_has_the_capability() -> None:
    assert chip_usb.simulation_request(object_store()) is None
    assert chip_usb.simulation_request(object_store(simulated=True)) is not None


def test_time_limits_need_something_that_takes_time() -> None:
    with pytest.raises(UsageError, match="no time limit"):
        open_device("sim:direct", DeviceOptions(timeout=1.0))


# --- over USB/IP ---------------------------------------------------------------------------------


@contextmanager
def attached(device: VirtualDevice) -> Iterator[RemoteDevice]:
    """A device that is served, as its client has it."""
    with Server([device]) as server:
        _, port = server.open(port=0)
        remote = RemoteDevice(port)
        try:
            yield remote
        finally:
            remote.close()


@pytest.mark.long
def test_the_driver_waits_for_a_device_that_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host cannot see that the device is a simulation, except by asking it."""
    device = served_device(booted=True)
    step = device._step
    gate = threading.Event()
    asked: list[bool] = []
    computing = Simulation.computing

    def late() -> Any:
        assert gate.wait(60)
        return step()

    def ask(simulation: Simulation) -> bool:
        asked.append(computing(simulation))
        # The chip is done long after the driver would have given up an accelerator.
        if len(asked) == 2:
            gate.set()
        return asked[-1]

    device._step = late  # type: ignore[method-assign]
    monkeypatch.setattr(Simulation, "computing", ask)
    limits = replace(REAL, slice=0.05, silence=1.0, settle=0.0, drain=0.02, retries=0)
    with attached(device) as remote:
        host = virtual_device(DeviceOptions(limits=limits), remote)  # type: ignore[arg-type]
        with host:
            assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
            assert asked == [True, True]
            assert host.recoveries == 0


def big_chunk(size: int) -> bytes:
    """A program of one chunk of so many bytes that does nothing."""
    end = len(assemble(chunk([Halt(end_program=True)])))
    one = len(assemble(chunk([Scalar(), Halt(end_program=True)]))) - end
    return assemble(chunk([*[Scalar()] * ((size - end) // one), Halt(end_program=True)]))


def test_instructions_are_taken_while_the_chip_computes() -> None:
    """Google's driver ends its process when a transfer takes 6 s."""
    held = Held()
    program = big_chunk(141 << 10)
    assert len(program) > 4 * FIFO_BYTES
    first = big_chunk(4 << 10)
    for ahead, ends in ((FIFO_BYTES, False), (AHEAD_BYTES, True)):
        device = VirtualDevice(booted=True, executor=held, ahead=ahead)
        with virtual_device(DeviceOptions(limits=SIMULATED), device) as host:
            host.open()
            transfers = [
                Transfer(BEAGLE.usb.endpoints["out_1"].address, data=data)
                for content in (first, program)
                for data in (
                    to_bytes(StreamHeader(length=len(content), tag=Tag.INSTRUCTIONS)),
                    content,
                )
            ]
            for transfer in transfers:
                device.submit(transfer)
            assert not device.idle
            # The credits are those of a chip, whatever is taken.
            assert (transfers[-1].status is Status.OK) is ends
            held.run()
            while held.tasks:
                held.run()
            assert transfers[-1].status is Status.OK
            assert device._core.programs == 2
            assert device.fault is None


def test_a_host_that_reads_ahead_is_not_kept_waiting() -> None:
    """As Google's driver does: everything is posted, and no write may take long."""
    device = served_device(booted=True)
    step = device._step
    gate = threading.Event()

    def late() -> Any:
        assert gate.wait(60)
        return step()

    device._step = late  # type: ignore[method-assign]
    first, second = big_chunk(4 << 10), big_chunk(141 << 10)
    with Server([device]) as server:
        _, port = server.open(port=0)
        with Coral(port) as host:
            host.enumerate()
            host.open()
            writes = [seq for chunk in (first, second) for seq in host.send(0, chunk)]
            # All of them end before the chip has done anything.
            assert all(host.wait(seq).status == 0 for seq in writes)
            assert not gate.is_set()
            gate.set()
