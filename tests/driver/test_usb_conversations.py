"""The driver beside recorded conversations of the published one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.driver.test_usb_traces import (
    FIRMWARE_BYTES,
    MODELS,
    RUNS,
    package,
    recorded_inputs,
    trace,
)
from tests.support import corpus

from fitzroy.driver.device.connection import Connection
from fitzroy.driver.device.firmware import Firmware
from fitzroy.driver.runtime.devices import SIMULATED, virtual_bus
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.hw_models.chips.usb import RequestType, StandardRequest, StreamHeader
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.transfer import Transfer

pytestmark = pytest.mark.corpus

HEADER = StreamHeader.width // 8


@dataclass(frozen=True)
class Request:
    """A control transfer; of what it carries, only what goes into registers."""

    setup: tuple[int, ...]
    data: str


@dataclass(frozen=True)
class Payload:
    """A transfer to endpoint 1: a header with its bytes, or the size of something else."""

    size: int
    header: str


ALLOWED = {
    # The operating system sets the configuration of a device that has appeared or was reset; the
    # recording was made below it.
    (RequestType.STANDARD_OUT, StandardRequest.SET_CONFIGURATION),
    # pyusb asks which configuration is set; on Linux, libusb answers without a transfer.
    (RequestType.STANDARD_IN, StandardRequest.GET_CONFIGURATION),
}
"""Requests that are not in the recordings."""


class Tapped(VirtualDevice):
    """A device that keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Request | Payload] = []
        self.digests: list[str] = []

    def submit(self, transfer: Transfer) -> None:
        setup = transfer.setup
        if setup is None and not transfer.inward:
            head = transfer.data.hex() if len(transfer.data) == HEADER else ""
            self.sent.append(Payload(len(transfer.data), head))
            self.digests.append(hashlib.sha256(transfer.data).hexdigest())
        elif setup is not None and (setup.request_type, setup.request) not in ALLOWED:
            written = setup.request_type == RequestType.VENDOR_OUT
            fields = setup.request_type, setup.request, setup.value, setup.index, setup.length
            self.sent.append(Request(fields, transfer.data.hex() if written else ""))
        super().submit(transfer)


def recorded(records: list[dict[str, Any]]) -> Iterator[tuple[Request | Payload, str]]:
    """What the published driver sent, with digests of payloads."""
    for record in records:
        match record:
            case {"type": "control", "setup": fields}:
                numbers = tuple(v if isinstance(v, int) else int(v, 0) for v in fields.values())
                written = numbers[0] == RequestType.VENDOR_OUT
                yield Request(numbers, record["head"] if written else ""), ""
            case {"type": "bulk", "dir": "out", "length": size}:
                head = record["head"] if size == HEADER else ""
                yield Payload(size, head), record["sha256"]


@pytest.mark.parametrize(
    "name",
    [
        "dense_256",
        pytest.param("mobilenet_v1_0.25_128_quant", marks=pytest.mark.slow),
        pytest.param("posenet_481_641", marks=pytest.mark.slow),
    ],
)
def test_the_same_goes_to_the_device(name: str) -> None:
    file = package(corpus() / MODELS[name])
    device = Tapped()
    # The firmware is not part of the project: any bytes of its size.
    firmware = Firmware(bytes(FIRMWARE_BYTES), "test")
    connection = Connection(
        virtual_bus([device]), "1-1", firmware=lambda: firmware, limits=SIMULATED
    )
    with EdgeTpu(connection) as host:
        for _ in range(RUNS):
            host.run(file, recorded_inputs(file))
    theirs = list(recorded(trace(name)))
    assert device.sent == [item for item, _ in theirs]
    digests = [digest for _, digest in theirs if digest]
    tags = [
        int(item.header[8:10], 16)
        for item in device.sent
        if isinstance(item, Payload) and item.header
    ]
    assert len(digests) == len(device.digests)
    tag = -1
    remaining = iter(tags)
    for item, ours, digest in zip(
        [item for item in device.sent if isinstance(item, Payload)],
        device.digests,
        digests,
        strict=True,
    ):
        tag = next(remaining) if item.header else tag
        # Instructions hold addresses of the recording host, and are otherwise the same.
        assert (item.header == "" and tag == 0) or ours == digest
