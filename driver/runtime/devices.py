"""Devices by name: the accelerator on a port, the simulator, a recorded session.

| name | device |
|---|---|
| ``sim`` | a virtual accelerator: the driver, the USB protocol, and the simulated chip |
| ``sim:direct`` | the simulated chip alone |
| ``usb`` | the accelerator, if there is one |
| ``usb:PATH`` | the accelerator on a port, as in ``usb:2-1`` |
| ``replay:FILE`` | what was recorded of a session |
| ``auto`` | the accelerator if there is one, else the virtual one |
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from fitzroy.base.clock import SYSTEM_CLOCK, Clock
from fitzroy.base.closing import Closing
from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.base.types import Array
from fitzroy.driver.device import firmware as firmware_sources
from fitzroy.driver.device.boards import refuse_pcie
from fitzroy.driver.device.bringup import Clocks
from fitzroy.driver.device.connection import Connection
from fitzroy.driver.device.discovery import choose
from fitzroy.driver.device.firmware import Firmware
from fitzroy.driver.device.limits import Limits
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.runtime.simulator import Lockstep
from fitzroy.driver.transports.libusb import NoLibusbError
from fitzroy.driver.transports.record import Recorder, RecordingBus
from fitzroy.driver.transports.replay import ReplayBus
from fitzroy.driver.transports.transport import Attached, Bus
from fitzroy.driver.transports.usb import UsbBus, libusb
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.chips.usb import Speed
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.transfer import UsbDevice

SIMULATED = replace(
    Limits(),
    request=3600.0,
    silence=900.0,
    settle=0.0,
    enumerate=1.0,
    control=10.0,
    drain=0.001,
    access=0.1,
)
"""Limits for virtual devices: they compute slowly, and need no time to settle."""

NO_FIRMWARE = Firmware(bytes(256), "none: virtual devices take anything")
"""What a virtual device is given: Google's firmware is not needed to simulate it."""


class Answer(Protocol):
    """What a device computed."""

    @property
    def tensors(self) -> Mapping[str, Array]:
        """Bytes of every output in the order of its elements, by layer name."""
        ...


class Pending(Protocol):
    """An answer that is still to come; `concurrent.futures.Future` says what its methods do."""

    def result(self, timeout: float | None = None) -> Answer:
        """The answer, or the error that came instead."""
        ...

    def cancel(self) -> bool:
        """Do without it; False if it is there already."""
        ...

    def done(self) -> bool:
        """Whether it is there."""
        ...


class Device(Protocol):
    """Something that executes packages.

    Attributes:
        description: what it is, for people.
    """

    description: str

    def run(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Answer:
        """Execute a package; see `EdgeTpu.run`."""
        ...

    def submit(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Pending:
        """Execute a package in the background; see `EdgeTpu.submit`."""
        ...

    def close(self) -> None:
        """Give the device back."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class ManyDevice(Device, Protocol):
    """A device that computes several images at a time."""

    def run_images(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> list[Answer]:
        """Execute a package for several images; see `LocalDevice.run_images`."""
        ...


class LocalDevice(Closing):
    """A device in this process, which computes one request after the other.

    Args:
        description: what it is, for people.
    """

    def __init__(self, description: str) -> None:
        self.description = description
        self._turn = threading.Lock()
        self._closed = False
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="device")

    def compute(self, package: PackageFile, inputs: Mapping[str, Array]) -> Answer:
        """Execute a package, while nothing else is executed.

        Args:
            package: the package.
            inputs: bytes of every input in the order of its elements, by layer name.
        """
        raise NotImplementedError

    def compute_images(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> Sequence[Answer]:
        """Execute a package for several images likewise; an answer for each."""
        return [self.compute(package, image) for image in inputs]

    def run(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Answer:
        """Execute a package; nothing takes too long.

        Raises:
            DeviceError: the device was closed.
            FitzroyError: as `compute` says.
        """
        # In the thread of the caller, so that Ctrl-C ends it.
        with self._turn:
            self._check_open()
            return self.compute(package, inputs)

    def run_images(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> list[Answer]:
        """Execute a package for several images; an answer for each.

        Args:
            package: the package.
            inputs: of each image, as `run` takes them.

        Raises:
            DeviceError: the device was closed.
            FitzroyError: as `compute` says.
        """
        with self._turn:
            self._check_open()
            return [*self.compute_images(package, inputs)]

    def submit(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Pending:
        """Execute a package in the background.

        Raises:
            DeviceError: the device was closed.
        """
        self._check_open()
        return self._worker.submit(self.run, package, inputs)

    def close(self) -> None:
        """End what is under way."""
        self._closed = True
        self._worker.shutdown(cancel_futures=True)

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError("the device was closed", where=self.description)


class DirectSimulator(LocalDevice):
    """The simulated chip without USB around it.

    Args:
        seed: randomize the order of engines and what memories hold at first.
    """

    def __init__(self, *, seed: int | None = None) -> None:
        super().__init__("the simulated chip")
        self._chips = Lockstep(seed)

    def compute(self, package: PackageFile, inputs: Mapping[str, Array]) -> Answer:
        """Execute a package on the simulated chip.

        Raises:
            SimulationError: the program fails.
        """
        (answer,) = self._chips.run(package, [inputs])
        return answer

    def compute_images(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> Sequence[Answer]:
        """Execute a package on the simulated chip, for many images at a time.

        Raises:
            SimulationError: the program fails.
        """
        return [*self._chips.run(package, inputs)]


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """How to use a device.

    Attributes:
        firmware: file with the firmware, or a libedgetpu; None to look for an installed one.
        clocks: performance level.
        limits: how long to wait; None for those that fit the device.
        verify: repeat every inference until two results agree.
        record: file for what is said on USB.
        seed: for simulators: randomize the order of engines and what memories hold at first.
        speed: for the virtual device: speed of its port.
        timeout: seconds of an inference whose caller says none; None for those of the limits.
    """

    firmware: str | os.PathLike[str] | None = None
    clocks: Clocks = Clocks.MAX
    limits: Limits | None = None
    verify: bool = False
    record: str | os.PathLike[str] | None = None
    seed: int | None = None
    speed: Speed = Speed.SUPER
    timeout: float | None = None


_FIRST = "1-1"
"""Path of the first virtual device."""


def virtual_bus(devices: Sequence[UsbDevice], clock: Clock = SYSTEM_CLOCK) -> UsbBus:
    """Virtual devices on the ports of a bus, whose time limits go by a clock."""
    backend = VirtualBackend(devices, clock)
    return UsbBus(lambda: backend, "sim", "virtual devices")


def open_device(spec: str = "auto", options: DeviceOptions | None = None) -> Device:
    """A device by its name; the first request opens it.

    Args:
        spec: see the table above.
        options: how to use it.

    Raises:
        UsageError: no such name, or options that it does not take.
        UnsupportedError: a module on PCIe.
        DeviceError: there is no such device, or more than one.
    """
    options = options or DeviceOptions()
    kind, _, rest = spec.partition(":")
    if spec == "sim:direct":
        _refuse_usb_options(options)
        return DirectSimulator(seed=options.seed)
    if spec == "sim":
        return virtual_device(options)
    if kind == "usb":
        return usb_device(libusb(), rest, options)
    if kind == "replay" and rest:
        return replayed_device(rest, options)
    if spec == "auto":
        return _automatic(options)
    check_name(spec)
    raise refuse_pcie(spec)


_PCIE = ("pci", "pcie", "apex")
"""What a module on PCIe may be called, none of which is a device here."""


def check_name(spec: str, others: Sequence[str] = ()) -> None:
    """Refuse a name that is not in the table above.

    Args:
        spec: the name.
        others: names of more devices that its error lists.

    Raises:
        UsageError: no such name.
    """
    kind, _, rest = spec.partition(":")
    known = spec in ("auto", "sim", "sim:direct") or kind == "usb" or (kind == "replay" and rest)
    if not known and kind not in _PCIE:
        names = ("auto", "sim", "sim:direct", "usb", "usb:PATH", "replay:FILE", *others)
        raise UsageError(
            f"no device {spec[:80]!r}", hint=f"known are {', '.join(names)}; see fitzroy devices"
        )


def is_accelerator(spec: str) -> bool:
    """Whether a device of this name is real, so that its times mean something.

    Raises:
        DeviceError: it is the one that is attached, and USB cannot be asked.
    """
    if spec == "auto":
        return bool(_attached())
    return spec.partition(":")[0] == "usb"


def virtual_device(
    options: DeviceOptions | None = None, device: VirtualDevice | None = None
) -> EdgeTpu:
    """A virtual accelerator on a port of its own.

    Args:
        options: how to use it.
        device: the accelerator, None for one that was just plugged in.
    """
    options = options or DeviceOptions()
    clock = (options.limits or SIMULATED).clock
    device = device or VirtualDevice(options.speed, seed=options.seed, clock=clock)
    bus = virtual_bus([device], clock)
    text = "the virtual accelerator with a simulated chip"
    return _edgetpu(bus, _FIRST, text, options, SIMULATED, lambda: NO_FIRMWARE)


def usb_device(bus: Bus, path: str = "", options: DeviceOptions | None = None) -> EdgeTpu:
    """An accelerator on a bus.

    Args:
        bus: where it is.
        path: bus and ports, empty for the only one.
        options: how to use it.

    Raises:
        DeviceError: there is none, or more than one.
    """
    options = options or DeviceOptions()
    chosen = choose(bus, path)
    text = f"the Coral USB Accelerator at {bus.name}:{chosen.path}"
    named = options.firmware
    return _edgetpu(bus, chosen.path, text, options, Limits(), lambda: firmware_sources.find(named))


def replayed_device(path: str | os.PathLike[str], options: DeviceOptions | None = None) -> EdgeTpu:
    """A recorded session.

    Raises:
        UsageError: the file cannot be read.
        FormatError: it is no recording.
    """
    options = options or DeviceOptions()
    bus = ReplayBus(path)
    firmware = Firmware(bus.firmware, "left out of the recording")
    text = f"the recorded session {bus.description}"
    return _edgetpu(bus, bus.first, text, options, SIMULATED, lambda: firmware)


def _automatic(options: DeviceOptions) -> Device:
    present = _attached()
    return usb_device(libusb(), present[0].path, options) if present else virtual_device(options)


def _attached() -> Sequence[Attached]:
    """Accelerators on USB."""
    try:
        return libusb().attached()
    except NoLibusbError:
        # Without libusb there is no accelerator either; `fitzroy doctor` says so.
        return ()


def _refuse_usb_options(options: DeviceOptions) -> None:
    if options.record is not None:
        raise UsageError(
            "there is nothing to record without USB", hint="use the device sim, or usb"
        )
    if options.timeout is not None:
        raise UsageError(
            "a simulated chip without USB has no time limit", hint="use the device sim, or usb"
        )


def _edgetpu(
    bus: Bus,
    path: str,
    text: str,
    options: DeviceOptions,
    limits: Limits,
    firmware: Callable[[], Firmware],
) -> EdgeTpu:
    recorder = None if options.record is None else Recorder(options.record)
    connection = Connection(
        bus if recorder is None else RecordingBus(bus, recorder),
        path,
        firmware=firmware,
        clocks=options.clocks,
        limits=options.limits or limits,
    )
    after = (lambda: None) if recorder is None else recorder.close
    return EdgeTpu(connection, text, verify=options.verify, timeout=options.timeout, after=after)
