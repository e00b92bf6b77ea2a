"""Virtual devices through pyusb, as a driver sees them."""

from __future__ import annotations

import errno
import threading
import time
from array import array
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import usb.core
import usb.util
from tests.driver.edgetpu_programs import POP, SIZE, echo
from tests.driver.usb_client import (
    BOOT,
    DATA,
    EVENT,
    FIRMWARE,
    INTERRUPT,
    OUTPUT,
    RUN,
    Client,
    payloads,
)
from tests.end_to_end.test_simulator import facts, fnv, packages, pattern
from tests.support import corpus

from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.hw_models.chips.usb import DfuDescriptor, RequestType, Speed, Tag
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.faults import read_script
from fitzroy.linker.schedule import SendInstructions

INPUT = np.arange(SIZE)[::-1].astype(np.uint8)


def client(device: VirtualDevice, **options: Any) -> Client:
    found = Client(VirtualBackend([device]), **options)
    found.find()
    return found


def opened(**options: Any) -> Client:
    host = client(VirtualDevice(booted=True, **options))
    host.open()
    return host


def send(host: Client, drop: str = "") -> None:
    """All that the program that copies its input needs."""
    for step, data in payloads(echo(drop).main, {"x": INPUT}):
        if data:
            host.send(Tag.INSTRUCTIONS if isinstance(step, SendInstructions) else Tag.INPUT, data)


@pytest.mark.parametrize("speed", Speed)
def test_boot_open_run_close_and_again(speed: Speed) -> None:
    device = VirtualDevice(speed)
    host = client(device)
    assert host.identity == BOOT
    host.boot()
    assert host.identity == RUN
    assert device.firmware == FIRMWARE
    for accesses in (
        {"r32": 12, "w32": 14, "r64": 3, "w64": 27},
        {"r32": 11, "w32": 11, "r64": 3, "w64": 27},
    ):
        host.accesses.clear()
        host.open()
        assert host.accesses == accesses
        for turn in range(3):
            assert host.run(echo(), {"x": INPUT + turn}) == (INPUT + turn).tobytes()
        host.accesses.clear()
        host.close()
        assert host.accesses == {"r32": 6, "w32": 11, "r64": 1, "w64": 21}
        host.find()
        host.reset()
        assert host.identity == RUN
    assert device.fault is None


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize("speed", Speed)
@pytest.mark.parametrize("multiple", [False, True])
def test_outputs_of_a_real_device(speed: Speed, multiple: bool) -> None:
    rows = facts("golden-hashes.json")["rows"]
    assert len(rows) == 3
    device = VirtualDevice(speed)
    host = client(device, multiple=multiple, events=0xFF if multiple else 0xF0)
    host.boot()
    host.open()
    for row in rows:
        (package,) = packages(corpus() / row["model"])
        inputs = {name: pattern(layer) for name, layer in package.main.inputs.items()}
        for _ in range(2):
            assert fnv(host.run(package, inputs)) == row["output_fnv1a64"], row["model"]
    assert device.fault is None


def test_order_of_engines_does_not_matter() -> None:
    host = opened(seed=5)
    assert host.run(echo(), {"x": INPUT}) == INPUT.tobytes()


def test_detach_leads_back_to_the_boot_rom() -> None:
    host = client(VirtualDevice(booted=True))
    address = host.device.address
    host.detach()
    host.reset()
    assert host.identity == BOOT
    assert host.device.address == address + 1
    assert host.device.port_number == 1
    host.boot()


def test_descriptors_are_those_of_pyusb() -> None:
    host = client(VirtualDevice())
    (configuration,) = host.device.configurations()
    (interface,) = configuration.interfaces()
    assert (interface.bInterfaceClass, interface.bInterfaceSubClass) == (0xFE, 1)
    assert interface.bNumEndpoints == 0
    function = DfuDescriptor.unpack(int.from_bytes(bytes(interface.extra_descriptors), "little"))
    assert function.transfer_size == 256
    assert host.device.speed == usb.util.SPEED_SUPER
    assert host.device.parent is None
    run = client(VirtualDevice(Speed.HIGH, booted=True)).device
    assert run.speed == usb.util.SPEED_HIGH
    assert [ep.bEndpointAddress for ep in run[0][0, 0]] == [1, 2, 3, 0x81, 0x82, 0x83]
    assert [ep.wMaxPacketSize for ep in run[0][0, 0]] == [512] * 5 + [64]
    assert run.get_active_configuration().bConfigurationValue == 1
    fast = client(VirtualDevice(booted=True)).device
    assert fast[0][0, 0][0].extra_descriptors == bytes.fromhex("06300f000000")
    assert "ENDPOINT 0x83: Interrupt IN" in str(fast)
    assert fast.bcdUSB == 0x310
    with pytest.raises(ValueError, match="Invalid endpoint"):
        fast.read(0x84, 1)
    for index in ((1, 0), (0, 1), (-1, 0)):
        with pytest.raises(IndexError):
            fast[0][index]
    with pytest.raises(IndexError):
        fast[1]
    with pytest.raises(IndexError):
        fast[0][0, 0][6]


def test_several_devices() -> None:
    devices = [VirtualDevice(booted=True), VirtualDevice(), VirtualDevice(booted=True)]
    backend = VirtualBackend(devices)
    found = list(usb.core.find(find_all=True, backend=backend))
    assert [(dev.bus, dev.port_number, dev.address) for dev in found] == [
        (1, 1, 1),
        (1, 2, 2),
        (1, 3, 3),
    ]
    assert len(set(found)) == 3
    assert [dev.idProduct for dev in found] == [RUN[1], BOOT[1], RUN[1]]
    devices[0].unplug()
    assert len(list(usb.core.find(find_all=True, backend=backend))) == 2
    hosts = [Client(backend, port) for port in (2, 3)]
    for host in hosts:
        host.boot()
        host.open()
    for turn, host in enumerate(hosts):
        assert host.run(echo(), {"x": INPUT + turn}) == (INPUT + turn).tobytes()
    devices[0].plug()
    (dev,) = usb.core.find(
        find_all=True, backend=backend, idVendor=BOOT[0], idProduct=BOOT[1], port_number=1
    )
    assert dev.address == 5


def test_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    host = opened()
    waits: list[float | None] = []

    class Event(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return super().wait(timeout)

    monkeypatch.setattr("fitzroy.driver.transports.virtual.threading", SimpleNamespace(Event=Event))
    for endpoint in (OUTPUT, EVENT, INTERRUPT):
        with pytest.raises(usb.core.USBTimeoutError) as caught:
            host.device.read(endpoint, 16, 30)
        assert (caught.value.errno, caught.value.backend_error_code) == (errno.ETIMEDOUT, -7)
    # Each waits for data as long as asked, and then for its cancellation.
    assert waits[-6:] == [0.03, None] * 3
    with pytest.raises(usb.core.USBTimeoutError):
        host.device.write(2, b"x", 10)
    header = bytes.fromhex("ffff0f0002000000")
    assert host.device.write(DATA, header + bytes(100_000), 10) == (32 << 10) + 8


def test_reads_wait_for_other_threads() -> None:
    host = opened()
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(host.receive(SIZE, 5_000)))
    reader.start()
    time.sleep(0.02)
    assert received == []
    send(host)
    reader.join(5)
    assert received == [INPUT.tobytes()]


def test_stalls_and_halts() -> None:
    host = opened()
    with pytest.raises(usb.core.USBError) as caught:
        host.device.ctrl_transfer(0xC0, 99, 0, 0, 4)
    assert caught.value.errno == errno.EPIPE
    host.device.ctrl_transfer(RequestType.STANDARD_ENDPOINT_OUT, 3, 0, OUTPUT)
    with pytest.raises(usb.core.USBError) as caught:
        host.device.read(OUTPUT, 16, 100)
    assert caught.value.errno == errno.EPIPE
    host.device.clear_halt(OUTPUT)
    assert host.run(echo(), {"x": INPUT}) == INPUT.tobytes()


def test_buffers_are_filled() -> None:
    host = opened()
    send(host)
    buffer = array("B", bytes(1024))
    assert host.device.read(OUTPUT, buffer) == SIZE
    assert bytes(buffer[:SIZE]) == INPUT.tobytes()
    answer = array("B", bytes(18))
    assert host.device.ctrl_transfer(0x80, 6, 0x100, 0, answer) == 18
    assert bytes(answer[8:12]) == bytes.fromhex("d1180293")


def test_interfaces_have_one_owner() -> None:
    backend = VirtualBackend([VirtualDevice(booted=True)])
    first, second = Client(backend), Client(backend)
    first.find()
    second.find()
    usb.util.claim_interface(first.device, 0)
    with pytest.raises(usb.core.USBError) as caught:
        usb.util.claim_interface(second.device, 0)
    assert caught.value.errno == errno.EBUSY
    with pytest.raises(usb.core.USBError) as caught:
        second.device.read(EVENT, 16, 10)
    assert caught.value.errno == errno.EBUSY
    # Registers need no claim.
    assert second.read(csr.SCU_CTRL_0) == csr.SCU_CTRL_0.reset
    usb.util.release_interface(first.device, 0)
    usb.util.claim_interface(second.device, 0)
    second.close_handle()
    usb.util.claim_interface(first.device, 0)
    with pytest.raises(usb.core.USBError) as caught:
        usb.util.claim_interface(first.device, 1)
    assert caught.value.errno == errno.ENOENT


def test_reset_says_whether_the_device_is_another_one() -> None:
    host = client(VirtualDevice())
    host.device.reset()
    host.download()
    with pytest.raises(usb.core.USBError) as caught:
        host.device.reset()
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(usb.core.USBError) as caught:
        host.device.ctrl_transfer(0x80, 6, 0x100, 0, 18)
    assert caught.value.errno == errno.ENODEV
    host.close_handle()
    host.find()
    assert host.identity == RUN
    # A reset of the run time changes nothing, and the operating system configures it again.
    host.device.reset()
    host.open()
    host.run(echo(), {"x": INPUT})


def test_unplugging_ends_what_waits() -> None:
    device = VirtualDevice(booted=True)
    host = client(device)
    failures: list[usb.core.USBError] = []

    def read() -> None:
        try:
            host.device.read(EVENT, 16, 5_000)
        except usb.core.USBError as error:
            failures.append(error)

    host.device.get_active_configuration()
    reader = threading.Thread(target=read)
    reader.start()
    while not device._outlets[EVENT]._queue:
        time.sleep(0.001)
    device.unplug()
    reader.join(5)
    assert [error.errno for error in failures] == [errno.ENODEV]
    with pytest.raises(usb.core.USBError) as caught:
        host.device.reset()
    assert caught.value.errno == errno.ENODEV
    assert host.find() is None


def test_programs_that_fail_show_in_registers() -> None:
    host = opened()
    send(host, POP)
    with pytest.raises(usb.core.USBTimeoutError):
        host.event(10)
    packet = host.device.read(INTERRUPT, 4)
    assert bytes(packet) == b"\1\0\0\0"
    errors = csr.HIB_ERROR_STATUS.fields(host.read(csr.HIB_ERROR_STATUS))
    assert errors.names() == ("instruction_queue_invalid",)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("do", "error"),
    [
        ("stall", errno.EPIPE),
        ("timeout", errno.ETIMEDOUT),
        ("babble", errno.EOVERFLOW),
        ("error", errno.EIO),
        ("lose", errno.ETIMEDOUT),
        ("unplug", errno.ENODEV),
    ],
)
def test_faults_are_errors_of_pyusb(do: str, error: int) -> None:
    script = f'[{{"at": {{"transfer": 1, "endpoint": "0x82"}}, "do": "{do}"}}]'
    host = opened(faults=read_script(script))
    send(host)
    with pytest.raises(usb.core.USBError) as caught:
        host.event(50)
    assert caught.value.errno == error
