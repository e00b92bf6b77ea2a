"""What the driver itself costs: CPU time per transfer, on a backend that answers at once.

The backend hands back answers that were recorded on the virtual device, without looking at what
it is sent: what remains is the time of the driver and of pyusb. Beside it, a bulk write of 8 bytes
through pyusb alone runs on the same backend, in the same process.
"""

from __future__ import annotations

import errno
import statistics
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import usb.core

from benchmarks.simulator import packages, random_bytes
from benchmarks.support import write_results
from fitzroy.base.types import Array
from fitzroy.driver.device.connection import Connection
from fitzroy.driver.runtime.devices import NO_FIRMWARE, SIMULATED
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.transports.outgoing import OutgoingQueue
from fitzroy.driver.transports.transport import Payload
from fitzroy.driver.transports.usb import UsbBus
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.usb_device.device import VirtualDevice

REPEATS = 200
INFERENCES = 200
"""Inferences of one measurement."""

BOUND_MICROSECONDS = 40.0
BOUND_RATIO = 2.0
"""Most CPU time per transfer, alone and as a multiple of a bulk write of pyusb."""

MODELS = (
    "templates/dense_256_edgetpu.tflite",
    "coral/mobilenet_v1_0.25_128_quant_edgetpu.tflite",
)

LATENCY = 1.5e-3
"""Seconds from the last byte of an input to the event, where a device that takes time stands in."""

LATE_REPEATS = 10
LATE_INFERENCES = 50

BOUND_INFERENCE = 400.0
"""Most microseconds of CPU time of an inference on a device that takes time."""

LATE_MODELS = (
    "templates/dense_256_edgetpu.tflite",
    "coral/mobilenet_v1_0.25_128_quant_edgetpu.tflite",
    "coral/model_mobilenet_v2_w_fc_224x224x3_edgetpu.tflite",
    "coral/yamnet_spectra_in_edgetpu.tflite",
    "coral/split_concat_edgetpu.tflite",
    "coral/posenet_mobilenet_v1_075_353_481_16_quant_decoder_edgetpu.tflite",
    "coral/deeplabv3_mnv2_dm05_pascal_quant_edgetpu.tflite",
    "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder_edgetpu.tflite",
)
"""Models with large and small inputs and outputs, with one and several of them."""


class InstantBackend(VirtualBackend):
    """Two virtual devices until `learn` has seen an inference; then nothing but its answers."""

    def __init__(self) -> None:
        super().__init__([VirtualDevice(booted=True), VirtualDevice(booted=True)])
        self.instant = False
        self.latency = 0.0
        self.transfers = 0
        self._answers: dict[int, list[bytes]] = defaultdict(list)
        self._turns: dict[int, int] = defaultdict(int)

    def learn(self, action: Callable[[], object]) -> None:
        """Do something, and keep the answers to it for every later time."""
        self._answers.clear()
        action()
        self.instant = True

    def outgoing(self, dev_handle: Any) -> Any:
        """What posts transfers, all of which have ended at once."""
        return InstantOutgoing(self, super().outgoing(dev_handle))

    def bulk_write(
        self, dev_handle: Any, ep: int, intf: int, data: array[int], timeout: int
    ) -> int:
        """Take bytes."""
        self.transfers += 1
        if self.instant:
            return len(data)
        return super().bulk_write(dev_handle, ep, intf, data, timeout)

    def bulk_read(self, dev_handle: Any, ep: int, intf: int, buff: array[int], timeout: int) -> int:
        """Give the next answer, the end of a program after some time."""
        self.transfers += 1
        if self.latency and ep == _EVENT:
            time.sleep(self.latency)
        answers = self._answers[ep]
        if self.instant:
            answer = answers[self._turns[ep] % len(answers)]
            self._turns[ep] += 1
            memoryview(buff)[: len(answer)] = answer
            return len(answer)
        count = super().bulk_read(dev_handle, ep, intf, buff, timeout)
        answers.append(bytes(buff[:count]))
        return count

    def ctrl_transfer(self, *arguments: Any) -> int:
        """Control transfers, of which inferences have none."""
        if self.instant:
            raise usb.core.USBError("no control transfers any more", errno=errno.EIO)
        return super().ctrl_transfer(*arguments)


class InstantOutgoing:
    """Transfers that have ended at once, as soon as the backend has learned.

    Args:
        backend: counts them.
        slow: what carries them out until then.
    """

    def __init__(self, backend: InstantBackend, slow: OutgoingQueue) -> None:
        self._backend = backend
        self._slow = slow

    @property
    def under_way(self) -> int:
        """How many were posted, and are not settled."""
        return self._slow.under_way

    def post(self, endpoint: int, data: Payload) -> None:
        """Take bytes."""
        self._backend.transfers += 1
        if not self._backend.instant:
            self._slow.post(endpoint, data)

    def settle(self, timeout: float) -> None:
        """Wait until fewer are under way."""
        self._slow.settle(timeout)

    def check(self) -> None:
        """None has failed."""

    def recall(self) -> None:
        """End all that are under way."""
        self._slow.recall()

    def close(self) -> None:
        """Recall."""
        self._slow.close()


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/driver.json``.

    Args:
        progress: called with the name of each model.
        repeats: how often everything is done, 0 for the usual number.

    Returns:
        bounds that were exceeded.

    Raises:
        UsageError: there is no corpus.
    """
    entries, faults = [], []
    for name in MODELS:
        progress(name)
        (package,) = packages(name)
        entry = _entry(package, repeats or REPEATS)
        entries.append({"model": name, **entry})
        if entry["microseconds_per_transfer"] > BOUND_MICROSECONDS:
            faults.append(
                f"driver: {entry['microseconds_per_transfer']:.1f} us per transfer of {name}"
            )
        if entry["ratio"] > BOUND_RATIO:
            faults.append(f"driver: {entry['ratio']:.2f} times a bulk write of pyusb, {name}")
    late = []
    for name in LATE_MODELS:
        progress(name)
        entry = _late_entry(packages(name)[0])
        late.append({"model": name, **entry})
        taken = entry["microseconds_per_inference"]
        if taken > BOUND_INFERENCE:
            faults.append(f"driver: {taken:.0f} us of CPU time of {name}")
    bounds = {
        "microseconds_per_transfer": BOUND_MICROSECONDS,
        "ratio": BOUND_RATIO,
        "microseconds_per_inference": BOUND_INFERENCE,
    }
    results = {
        "bounds": bounds,
        "repeats": repeats or REPEATS,
        "cases": entries,
        "latency": LATENCY,
        "late": late,
    }
    write_results("driver", results)
    return faults


def _host(backend: InstantBackend) -> EdgeTpu:
    connection = Connection(
        UsbBus(lambda: backend, "instant", "answers at once"),
        "1-1",
        firmware=lambda: NO_FIRMWARE,
        limits=SIMULATED,
    )
    return EdgeTpu(connection)


def _late_entry(package: PackageFile) -> dict[str, float]:
    """CPU time of an inference on a device that takes `LATENCY` for its program."""
    backend = InstantBackend()
    host = _host(backend)
    inputs: Mapping[str, Array] = random_bytes(package)
    host.run(package, inputs)
    backend.learn(lambda: host.run(package, inputs))
    backend.latency = LATENCY
    backend.transfers = 0
    host.run(package, inputs)
    transfers = backend.transfers
    times = []
    for _ in range(LATE_REPEATS):
        began = time.process_time()
        for _ in range(LATE_INFERENCES):
            host.run(package, inputs)
        times.append((time.process_time() - began) / LATE_INFERENCES)
    main = package.main
    return {
        "transfers": transfers,
        "bytes_in": sum(layer.size_bytes for layer in main.inputs.values()),
        "bytes_out": sum(layer.size_bytes for layer in main.outputs.values()),
        "microseconds_per_inference": 1e6 * min(times),
    }


def _entry(package: PackageFile, repeats: int) -> dict[str, float]:
    backend = InstantBackend()
    host = _host(backend)
    inputs: Mapping[str, Array] = random_bytes(package)
    # Parameters are loaded by the first inference.
    host.run(package, inputs)
    raw_device = usb.core.find(backend=backend, custom_match=lambda dev: dev.port_number == 2)
    raw_device.write(1, _EIGHT)
    backend.learn(lambda: host.run(package, inputs))
    ours, raw, transfers = [], [], 0
    for _ in range(repeats):
        backend.transfers = 0
        ours.append(_cpu_seconds(lambda: host.run(package, inputs)) / INFERENCES)
        transfers = backend.transfers // INFERENCES
        raw.append(_cpu_seconds(lambda: raw_device.write(1, _EIGHT, 1_000)) / INFERENCES)
    per_transfer = 1e6 * statistics.median(ours) / transfers
    write = 1e6 * statistics.median(raw)
    return {
        "transfers": transfers,
        "microseconds_per_inference": 1e6 * statistics.median(ours),
        "microseconds_per_transfer": per_transfer,
        "microseconds_of_pyusb_write": write,
        "ratio": min(ours) / transfers / min(raw),
    }


_EIGHT = bytes(8)
_EVENT = BEAGLE.usb.endpoints["event"].address


def _cpu_seconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(INFERENCES):
        action()
    return time.process_time() - began
