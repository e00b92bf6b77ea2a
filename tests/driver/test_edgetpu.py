"""The driver on an accelerator: any one (--device=usb), and on virtual ones that misbehave."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.driver.edgetpu_programs import POP, SIZE, cached, echo, followed
from tests.end_to_end.test_simulator import facts, fnv, packages, pattern
from tests.support import corpus, corpus_models

from fitzroy.base.errors import DeviceError, FormatError, SimulationError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.program import emission
from fitzroy.compiler.targets.edgetpu.program import lower as lowering
from fitzroy.driver.device.bringup import Clocks
from fitzroy.driver.device.connection import ChipError, Connection, ThermalError
from fitzroy.driver.device.firmware import Firmware
from fitzroy.driver.device.limits import DeadlineError, RequestCancelledError
from fitzroy.driver.device.streams import ProtocolError
from fitzroy.driver.runtime import devices, engine
from fitzroy.driver.runtime.devices import SIMULATED, DeviceOptions, open_device, virtual_device
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.driver.transports.transport import (
    AccessError,
    Attached,
    IdleTimeoutError,
    LostError,
    Room,
    TransferTimeoutError,
)
from fitzroy.driver.transports.usb import UsbBus, UsbTransport
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.formats.darwinn import Executable, PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import Speed
from fitzroy.hw_models.csr.beagle import TopLevelInterrupt
from fitzroy.hw_models.csr.fields import CoreClock
from fitzroy.hw_models.usb_device.device import Mode, VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.schedule import ReceiveOutput, Script, from_hints, to_hints

QUICK = replace(
    SIMULATED, request=5.0, slice=0.02, silence=2.0, idle=2.0, control=0.05, poll=0.1, replug=0.5
)
ROW = np.arange(SIZE)[::-1].astype(np.uint8)
OUTPUT, EVENT = 0x81, 0x82


def opened(device: VirtualDevice | None = None, **limits: Any) -> EdgeTpu:
    options = DeviceOptions(limits=replace(QUICK, **limits))
    return virtual_device(options, device or VirtualDevice(booted=True)).open()


class Clock:
    """The driver's clock, which only waiting moves: a busy machine does not change it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.asleep = threading.Event()
        self.awake = threading.Event()
        self.awake.set()
        read = UsbTransport.read

        def timed(transport: UsbTransport, endpoint: int, size: int, timeout: float) -> bytes:
            try:
                return read(transport, endpoint, size, timeout)
            except TransferTimeoutError:
                self.seconds += timeout
                raise

        into = UsbTransport.read_into

        def timed_into(transport: UsbTransport, endpoint: int, room: Room, timeout: float) -> int:
            try:
                return into(transport, endpoint, room, timeout)
            except TransferTimeoutError:
                self.seconds += timeout
                raise

        monkeypatch.setattr(UsbTransport, "read", timed)
        monkeypatch.setattr(UsbTransport, "read_into", timed_into)

    def now(self) -> float:
        return self.seconds

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        return event.wait(seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.asleep.set()
        assert self.awake.wait(10)


def random_inputs(package: PackageFile, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(
            0, 256, layer.packed_bytes * layer.execution_count_per_inference, np.uint8
        )
        for name, layer in package.main.inputs.items()
    }


@pytest.fixture
def accelerator(device_name: str) -> Iterator[EdgeTpu]:
    with open_device(device_name) as device:
        assert isinstance(device, EdgeTpu)
        yield device


# --- what any accelerator does -------------------------------------------------------------------


def test_inferences(accelerator: EdgeTpu) -> None:
    package = echo()
    for turn in range(3):
        outputs = accelerator.run(package, {"x": ROW + turn})
        assert (outputs.tensors["y"] == ROW + turn).all()
        assert outputs.stream == outputs.buffers["y"].tobytes() == (ROW + turn).tobytes()
        assert outputs.attempts == 1
    assert accelerator.recoveries == 0


def test_requests_in_the_background(accelerator: EdgeTpu) -> None:
    package = echo()
    requests = [accelerator.submit(package, {"x": ROW + n}) for n in range(40)]
    for number, request in enumerate(requests):
        assert (request.result(10).tensors["y"] == ROW + number).all()
    many = accelerator.run_many(package, ({"x": ROW + n} for n in range(10)))
    for number, outputs in enumerate(many):
        assert (outputs.tensors["y"] == ROW + number).all()
    assert accelerator.recoveries == 0


def test_outputs_come_before_the_next_chunk(
    accelerator: EdgeTpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host takes outputs in the order of the program, and sends no chunk before it has them."""
    graph = Graph("two outputs")
    type = TensorType((1, 8, 12, 8), DType.UINT8, Quantization.per_tensor(0.1, 99))
    names = [graph.add_input("x", type)]
    for scale in (0.2, 0.4, 0.3):
        other = replace(type, quantization=Quantization.per_tensor(scale, 120))
        names.append(graph.emit("quantize", [names[-1]], other))
    graph.outputs = names[1:]
    # No two layers fit a chunk.
    monkeypatch.setattr(emission, "_MOST_BUNDLES", BEAGLE.memories.instruction.elements - 64)
    (package,) = link([lowering.lower(graph)])
    assert len(package.main.instruction_bitstreams or ()) > 4
    inputs = random_inputs(package, 0)
    expected = SimulatedDevice().run(package, inputs)
    for _ in range(2):
        found = accelerator.run(package, inputs, timeout=20)
        for name, array in expected.tensors.items():
            np.testing.assert_array_equal(found.tensors[name], array)


def test_requests_of_asyncio(accelerator: EdgeTpu) -> None:
    async def both() -> list[Any]:
        requests = [accelerator.submit(echo(), {"x": ROW + n}) for n in range(2)]
        return await asyncio.gather(*map(asyncio.wrap_future, requests))

    for number, outputs in enumerate(asyncio.run(both())):
        assert (outputs.tensors["y"] == ROW + number).all()


@pytest.mark.corpus
def test_published_outputs_of_a_real_device(accelerator: EdgeTpu) -> None:
    rows = facts("golden-hashes.json")["rows"]
    assert len(rows) == 3
    for row in rows:
        (package,) = packages(corpus() / row["model"])
        inputs = {name: pattern(layer) for name, layer in package.main.inputs.items()}
        for _ in range(2):
            assert fnv(accelerator.run(package, inputs).stream) == row["output_fnv1a64"]


QUICKEST = {"dense_256_edgetpu.tflite", "gabor_128x128_7k_4o_2s_edgetpu.tflite"}


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.name in QUICKEST else [pytest.mark.slow])
        for path in corpus_models("**/*edgetpu*.tflite")
    ],
)
def test_compiled_models_compute_what_the_chip_does(path: Any, accelerator: EdgeTpu) -> None:
    """First inference, which loads parameters, and second, which does not."""
    for package in packages(path):
        reference = SimulatedDevice()
        loads = accelerator.loads
        for seed in range(2):
            inputs = random_inputs(package, seed)
            expected = reference.run(package, inputs)
            found = accelerator.run(package, inputs)
            assert found.stream == expected.stream
            for name, tensor in expected.tensors.items():
                assert (found.tensors[name] == tensor).all(), name
        assert accelerator.loads - loads == (package.caching is not None)
    assert accelerator.recoveries == 0


@pytest.mark.corpus
def test_models_that_do_not_share_the_chip_take_turns(accelerator: EdgeTpu) -> None:
    paths = ("templates/dense_256_edgetpu.tflite", "templates/dense_512_edgetpu.tflite")
    both = [packages(corpus() / path)[0] for path in paths if (corpus() / path).is_file()]
    assert len({package.main.parameter_caching_token for package in both}) == len(both) == 2
    expected = [SimulatedDevice().run(p, random_inputs(p, 0)).stream for p in both]
    for turn in range(4):
        package = both[turn % 2]
        found = accelerator.run(package, random_inputs(package, 0))
        assert found.stream == expected[turn % 2]
    assert accelerator.loads == 4
    accelerator.run(both[1], random_inputs(both[1], 1))
    assert accelerator.loads == 4
    order = (0, 0, 0, 1, 1, 0)
    requests = [accelerator.submit(both[n], random_inputs(both[n], 0)) for n in order]
    for number, request in zip(order, requests, strict=True):
        assert request.result(60).stream == expected[number]
    assert accelerator.loads == 7


# --- bringing up ---------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", Speed)
@pytest.mark.parametrize("multiple", [False, True])
def test_from_the_boot_rom(speed: Speed, multiple: bool) -> None:
    device = VirtualDevice(speed)
    firmware = Firmware(bytes(range(256)) * 3 + b"end", "test", multiple)
    connection = Connection(
        devices.virtual_bus([device]), "1-1", firmware=lambda: firmware, limits=QUICK
    )
    with EdgeTpu(connection) as host:
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
        assert device.firmware == firmware.data
        assert device.registers.multiple is multiple
    assert device.mode is Mode.RUN


@pytest.mark.parametrize("clocks", Clocks)
def test_clocks(clocks: Clocks) -> None:
    device = VirtualDevice(booted=True)
    with virtual_device(DeviceOptions(clocks=clocks), device) as host:
        host.open()
        assert device.registers.clock is clocks.value[0]
    assert CoreClock.MHZ_62 is Clocks.LOW.value[0]


def test_a_boot_rom_left_in_the_middle_of_a_download() -> None:
    device = VirtualDevice()
    device._rom.control(_dfu(1, 0, 256), bytes(256))
    with opened(device) as host:
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


def _dfu(request: int, value: int, length: int) -> Any:
    from fitzroy.hw_models.chips.usb import RequestType, SetupPacket

    return SetupPacket(RequestType.CLASS_OUT, request, value, 0, length)


class Sluggish(UsbBus):
    """A system that is late: with access to a device that is back, and with noticing it."""

    def __init__(self, device: VirtualDevice) -> None:
        backend = VirtualBackend([device])
        super().__init__(lambda: backend, "test", "test")
        self.opens = 0
        self.listings: list[tuple[Attached, ...]] = []

    def open(self, path: str) -> UsbTransport:
        self.opens += 1
        if self.opens in (2, 4):
            raise AccessError("no access yet")
        return super().open(path)

    def attached(self) -> tuple[Attached, ...]:
        self.listings.append(super().attached())
        # What was there before is still listed the first time that something else is.
        late = len(self.listings) > 1 and self.listings[-1] != self.listings[-2]
        return self.listings[-2] if late else self.listings[-1]


def test_systems_that_are_late() -> None:
    device = VirtualDevice()
    bus = Sluggish(device)
    limits = replace(QUICK, access=1.0)
    supply = devices.NO_FIRMWARE
    with EdgeTpu(Connection(bus, "1-1", firmware=lambda: supply, limits=limits)) as host:
        host.open()
        assert (bus.opens, host.recoveries) == (5, 0)
        assert len(bus.listings) == 3
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


class BootRom(UsbBus):
    """A bus on which no firmware runs."""

    def attached(self) -> tuple[Attached, ...]:
        return tuple(replace(one, vendor=0x1A6E, product=0x089A) for one in super().attached())


def stubborn(**limits: Any) -> EdgeTpu:
    """A device that stays in its boot ROM."""
    backend = VirtualBackend([VirtualDevice()])
    return EdgeTpu(
        Connection(
            BootRom(lambda: backend, "test", "test"),
            "1-1",
            firmware=lambda: devices.NO_FIRMWARE,
            limits=replace(QUICK, **limits),
        )
    )


def test_firmware_that_does_not_run() -> None:
    with pytest.raises(DeviceError, match=r"stays in its boot ROM|no interface"):
        stubborn(enumerate=0.05, replug=0.05).open()


def test_requests_do_not_wait_longer_than_they_want_for_a_device_to_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    with (
        stubborn(enumerate=20.0, clock=clock) as host,
        pytest.raises(DeadlineError, match="come back"),
    ):
        host.run(echo(), {"x": ROW}, timeout=0.2)
    assert 0.2 <= clock.now() < 0.4
    with stubborn(enumerate=20.0, clock=clock) as host:
        clock.asleep.clear()
        clock.awake.clear()
        request = host.submit(echo(), {"x": ROW}, timeout=10)
        assert clock.asleep.wait(10)
        began = clock.now()
        assert request.cancel()
        clock.awake.set()
        with pytest.raises(RequestCancelledError):
            request.result(5)
        assert clock.now() - began < 0.2


def test_a_device_that_others_have() -> None:
    bus = devices.virtual_bus([VirtualDevice(booted=True)])
    firmware = devices.NO_FIRMWARE
    first, second = (
        EdgeTpu(Connection(bus, "1-1", firmware=lambda: firmware, limits=QUICK)) for _ in range(2)
    )
    with first.open():
        with pytest.raises(DeviceError, match="claiming"):
            second.open()
        assert (first.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
        assert first.recoveries == 0
    with second:
        assert (second.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


def test_several_devices_in_threads() -> None:
    backend = devices.virtual_bus([VirtualDevice() for _ in range(4)])

    def work(number: int) -> int:
        connection = Connection(
            backend, f"1-{number + 1}", firmware=lambda: devices.NO_FIRMWARE, limits=SIMULATED
        )
        with EdgeTpu(connection) as host:
            for turn in range(10):
                row = ROW + np.uint8(10 * number + turn)
                assert (host.run(echo(), {"x": row}).tensors["y"] == row).all()
            return host.recoveries

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0] * 4


# --- what may go wrong with requests -------------------------------------------------------------


def test_inputs_that_do_not_fit() -> None:
    with opened() as host:
        with pytest.raises(UsageError, match="'z'"):
            host.run(echo(), {"z": ROW})
        with pytest.raises(UsageError, match="missing"):
            host.submit(echo(), {})
        with pytest.raises(FormatError):
            host.run(echo(), {"x": ROW[1:]})
        assert host.recoveries == 0
    with pytest.raises(DeviceError, match="closed"):
        host.run(echo(), {"x": ROW})
    with pytest.raises(DeviceError, match="closed"):
        host.submit(echo(), {"x": ROW})


def lose_event(number: int = 1) -> VirtualDevice:
    return VirtualDevice(booted=True, faults=[Fault(FaultKind.LOSE, number, EVENT)])


def test_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with opened(lose_event(), clock=clock) as host:
        began = clock.now()
        with pytest.raises(DeadlineError, match=r"within 0\.2 s"):
            host.run(echo(), {"x": ROW}, timeout=0.2)
        assert 0.2 <= clock.now() - began < 0.2 + 2 * QUICK.slice
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
        assert host.recoveries == 1


def test_cancellation() -> None:
    with opened(lose_event()) as host:
        first, second, third = (host.submit(echo(), {"x": ROW + n}) for n in range(3))
        while first.running() is False:
            time.sleep(0.001)
        time.sleep(0.05)
        assert first.cancel()
        with pytest.raises(RequestCancelledError):
            first.result(5)
        assert (second.result(5).tensors["y"] == ROW + 1).all()
        assert (third.result(5).tensors["y"] == ROW + 2).all()
        assert not third.cancel()


def test_closing_cancels_what_has_not_begun() -> None:
    host = opened(lose_event(), request=0.3)
    requests = [host.submit(echo(), {"x": ROW}) for _ in range(5)]
    host.close()
    assert all(request.done() for request in requests)
    with pytest.raises((CancelledError, DeadlineError)):
        requests[-1].result()


def test_leaving_with_an_error_abandons_what_is_under_way() -> None:
    requests = []

    def interrupted() -> None:
        with opened(lose_event(), request=60) as host:
            requests.append(host.submit(echo(), {"x": ROW}))
            time.sleep(0.05)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(RequestCancelledError):
        requests[0].result(0)


def test_others_wait_for_their_turn_no_longer_than_they_want() -> None:
    with opened(lose_event(), request=1.0) as host:
        slow = host.submit(echo(), {"x": ROW})
        time.sleep(0.05)
        with pytest.raises(DeadlineError, match="other requests"):
            host.run(echo(), {"x": ROW}, timeout=0.05)
        with pytest.raises(DeadlineError):
            slow.result(5)


# --- chips that wait for the host ----------------------------------------------------------------


def with_steps(order: slice) -> PackageFile:
    """The program of the self-test with a script for the host that does not fit it."""
    package = echo()
    (main,) = package.executables
    assert main.dma_hints is not None
    hints = replace(main.dma_hints, hints=(main.dma_hints.hints or [])[order])
    return replace(package, executables=[replace(main, dma_hints=hints)])


@pytest.mark.parametrize("order", [slice(1, None), slice(None, None, -1)], ids=["first", "all"])
def test_hosts_and_chips_that_wait_for_each_other(
    order: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that is counted ends it, not the silence after which a chip that computes is given up.

    The device is well afterwards.
    """
    # As for programs that cannot be followed.
    monkeypatch.setattr(engine, "demand_script", lambda executable: None)
    with opened(silence=900.0, request=900.0, idle=0.06) as host:
        with pytest.raises(IdleTimeoutError, match="the host for the chip") as caught:
            host.run(with_steps(order), {"x": ROW})
        assert "fitzroy sim" in caught.value.hint
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


@pytest.mark.parametrize("order", [slice(1, None), slice(None, None, -1)], ids=["first", "all"])
def test_scripts_that_are_not_those_of_the_program_are_refused(order: slice) -> None:
    """Nothing is sent, in the foreground or in the background, and the device is not opened."""
    host = virtual_device(DeviceOptions(limits=QUICK))
    package = with_steps(order)
    for run in (host.run, host.submit):
        with pytest.raises(FormatError, match="not that of the program: at step 0"):
            run(package, {"x": ROW})
    assert not host.connection.opened


def test_scripts_that_give_outputs_the_wrong_places_are_refused() -> None:
    """The chip could run it, and the host could not tell: both halves are 128 bytes long."""
    package = echo()
    (main,) = package.executables
    assert main.dma_hints is not None
    script = from_hints(main.dma_hints)
    half = SIZE // 2
    take = [ReceiveOutput("y", 0, half, half), ReceiveOutput("y", 0, 0, half)]
    steps = [
        part
        for step in script.steps
        for part in (take if isinstance(step, ReceiveOutput) else [step])
    ]
    hints = to_hints(Script(tuple(steps), deterministic=True))
    package = replace(package, executables=[replace(main, dma_hints=hints)])
    host = virtual_device(DeviceOptions(limits=QUICK))
    with pytest.raises(FormatError, match=r"ReceiveOutput.*offset=128.*ReceiveOutput.*offset=0"):
        host.run(package, {"x": ROW})


def test_scripts_are_compared_once_for_each_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[Executable]()
    monkeypatch.setattr(engine, "demand_script", compared.append)
    package, other = cached(), echo()
    with opened() as host:
        for one in (package, other, package):
            host.run(one, {"x": ROW})
    assert package.caching is not None
    assert [id(one) for one in compared] == [
        id(one) for one in (package.caching, package.main, other.main)
    ]


def test_hosts_that_ask_the_device_need_no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[Executable]()
    monkeypatch.setattr(engine, "demand_script", compared.append)
    with opened() as host:
        assert (host.run(followed(), {"x": ROW}).tensors["y"] == ROW).all()
    assert not compared


def test_chips_that_compute_are_waited_for() -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        # The program is to run, and its turn does not come.
        executor.submit(gate.wait, 10)
        device = VirtualDevice(booted=True, executor=executor)
        with opened(device, idle=0.04) as host:
            pending = host.submit(echo(), {"x": ROW})
            while device.idle and not pending.done():
                time.sleep(0.01)
            time.sleep(0.3)
            assert not device.idle
            assert not pending.done()
            gate.set()
            assert (pending.result(10).tensors["y"] == ROW).all()
            assert device.idle
            assert host.recoveries == 0


# --- recovery ------------------------------------------------------------------------------------


def test_programs_that_fail_are_told_from_devices_that_do() -> None:
    with opened() as host:
        with pytest.raises(ChipError, match="instruction_queue_invalid") as caught:
            host.run(echo(POP), {"x": ROW})
        assert caught.value.errors == ("instruction_queue_invalid",)
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


def test_the_chip_without_usb(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_device("sim:direct") as device:
        with pytest.raises(SimulationError):
            device.run(echo(POP), {"x": ROW})
        assert (device.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
        assert (device.submit(echo(), {"x": ROW}).result(5).tensors["y"] == ROW).all()
        threads: list[int] = []
        usual = SimulatedDevice.run_images

        def noted(*request: Any) -> Any:
            threads.append(threading.get_ident())
            return usual(*request)

        monkeypatch.setattr(SimulatedDevice, "run_images", noted)
        # Ctrl-C reaches the main thread only.
        device.run(echo(), {"x": ROW})
        assert threads == [threading.get_ident()]
    for use in (device.run, device.submit):
        with pytest.raises(DeviceError, match="closed"):
            use(echo(), {"x": ROW})


def test_heat() -> None:
    device = VirtualDevice(booted=True)
    with opened(device) as host:
        device.overheat(TopLevelInterrupt.THERMAL_SHUTDOWN)
        with pytest.raises(ThermalError, match="too hot"):
            host.run(echo(), {"x": ROW})
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
        assert host.connection.temperature() is None
        device.set_temperature(60)
        assert host.connection.temperature() == pytest.approx(60, abs=0.25)
        device.overheat(TopLevelInterrupt.THERMAL_WARNING)
        host.connection.inspect()
        assert host.connection.warnings == 1


def test_heat_is_not_tried_again_in_the_background() -> None:
    device = VirtualDevice(booted=True, faults=[Fault(FaultKind.THERMAL_SHUTDOWN, 3, 1)])
    with opened(device) as host:
        with pytest.raises(ThermalError):
            host.submit(echo(), {"x": ROW}).result(5)
        assert (host.submit(echo(), {"x": ROW}).result(5).tensors["y"] == ROW).all()


def test_unplugged_and_plugged_in_again() -> None:
    device = VirtualDevice(booted=True)
    with opened(device, replug=0.05) as host:
        package = packages(corpus() / "templates/dense_256_edgetpu.tflite")[0]
        inputs = random_inputs(package, 0)
        before = host.run(package, inputs).stream
        device.unplug()
        with pytest.raises(LostError, match="gone"):
            host.run(package, inputs)
        device.plug()
        assert device.mode is Mode.BOOT
        assert host.run(package, inputs).stream == before
        assert host.loads == 2


def test_unplugged_while_waiting() -> None:
    device = lose_event()
    with opened(device) as host:
        request = host.submit(echo(), {"x": ROW})
        time.sleep(0.05)
        device.unplug()
        threading.Timer(0.1, device.plug).start()
        assert (request.result(5).tensors["y"] == ROW).all()


def test_a_chip_that_fell_asleep() -> None:
    device = VirtualDevice(booted=True)
    with opened(device) as host:
        host.connection.registers.change(_scu3(), force_sleep=3)
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


def _scu3() -> Any:
    from fitzroy.hw_models.csr import beagle as csr

    return csr.SCU_CTRL_3


@pytest.mark.parametrize(
    ("data", "number"),
    [(bytes(12) + b"\x05", 1), (b"\1" + bytes(11) + b"\x04", 1), (bytes(12) + b"\xff", 1)],
)
def test_wrong_events_are_not_taken(data: bytes, number: int) -> None:
    faults = [Fault(FaultKind.CORRUPT, n, EVENT, data=data) for n in (number, number + 1)]
    with opened(VirtualDevice(booted=True, faults=faults), retries=0) as host:
        with pytest.raises(ProtocolError):
            host.run(echo(), {"x": ROW})
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()


def test_outputs_that_were_damaged_are_noticed_by_repetition() -> None:
    device = VirtualDevice(booted=True, faults=[Fault(FaultKind.CORRUPT, 1, OUTPUT)])
    options = DeviceOptions(limits=QUICK, verify=True)
    with virtual_device(options, device) as host:
        assert (host.run(echo(), {"x": ROW}).tensors["y"] == ROW).all()
        assert (host.submit(echo(), {"x": ROW}).result(5).tensors["y"] == ROW).all()


def test_lost_outputs_are_not_made_up_by_the_next_request() -> None:
    device = VirtualDevice(booted=True, faults=[Fault(FaultKind.LOSE, 3, OUTPUT)])
    with opened(device, silence=0.1) as host:
        requests = [host.submit(echo(), {"x": ROW + n}) for n in range(8)]
        for number, request in enumerate(requests):
            assert (request.result(10).tensors["y"] == ROW + number).all()
        assert host.recoveries == 1


# --- load ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_many_inferences_need_no_more_memory(full: bool) -> None:
    count = 10_000 if full else 200
    package = echo()
    with opened() as host:
        for turn in range(20):
            host.run(package, {"x": ROW + np.uint8(turn)})
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for turn in range(count):
            row = ROW + np.uint8(turn % 251)
            assert (host.run(package, {"x": row}).tensors["y"] == row).all()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert host.recoveries == 0
        assert grown < 64 << 10, grown
