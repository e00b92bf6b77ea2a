"""Recorded conversations of the published driver with a device, replayed on the virtual one."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.driver.usb_client import DATA, EVENT, INTERRUPT, OUTPUT, payloads
from tests.support import corpus

from fitzroy.base.types import Array
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.chips.usb import (
    DeviceDescriptor,
    DfuRequest,
    RequestType,
    SetupPacket,
    StandardRequest,
    StreamHeader,
)
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.transfer import Status, Transfer
from fitzroy.linker.schedule import SendInput, SendInstructions, SendParameters

pytestmark = pytest.mark.corpus

MODELS = {
    "dense_256": "templates/dense_256_edgetpu.tflite",
    "mobilenet_v1_0.25_128_quant": "coral/mobilenet_v1_0.25_128_quant_edgetpu.tflite",
    "posenet_481_641": "coral/posenet_mobilenet_v1_075_481_641_16_quant_decoder_edgetpu.tflite",
}
RUNS = 2
HEAD = 64
FIRMWARE_BYTES = 10_783
"""Size of the firmware in all conversations; of each block, only its head was recorded."""

DOWNLOADS = 43 + 1
"""Blocks of the firmware, and the empty one at the end; each with a request for the status."""

UPLOADS = 128 + 1
"""Blocks of the boot ROM's memory, and the empty one at the end."""

LARGEST = 1 << 20
ACCESSES = {"r32": 12 + 6, "w32": 14 + 11, "r64": 3 + 1, "w64": 27 + 21}
"""Of the first opening and of closing."""


def trace(name: str) -> list[dict[str, Any]]:
    path = corpus().parent / "beagle" / "usb-traces" / f"trace_{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return [json.loads(line) for line in path.read_text().splitlines()]


def package(path: Path) -> PackageFile:
    (op,) = custom_op.extract(tflite.read_model(path.read_bytes()), path.name)
    return op.read()


def recorded_inputs(file: PackageFile) -> dict[str, Array]:
    inputs = {}
    for name, layer in file.main.inputs.items():
        at = np.arange(layer.packed_bytes)
        inputs[name] = (at * 131 + (at >> 8) * 17 + 7).astype(np.uint8)
    return inputs


def sent(file: PackageFile) -> Iterator[tuple[bytes, bool]]:
    """Transfers to the device of all programs, and whether all their bytes are those recorded."""
    assert file.caching is not None
    runs = [(file.main, recorded_inputs(file))] * RUNS
    for executable, inputs in [(file.caching, {}), *runs]:
        for step, data in payloads(executable, inputs):
            match step:
                case SendInstructions() | SendInput() | SendParameters():
                    exact = not isinstance(step, SendInstructions)
                    for first in range(0, len(data), LARGEST):
                        yield data[first : first + LARGEST], exact


class Replay:
    """A host that does what was recorded."""

    def __init__(self, device: VirtualDevice, file: PackageFile) -> None:
        self.device = device
        self.sent = sent(file)
        self.generation = 0
        self.reads: dict[int, Transfer] = {}
        self.ended: dict[int, list[Transfer]] = {OUTPUT: [], EVENT: [], INTERRUPT: []}
        self.completed: dict[int, list[dict[str, Any]]] = {OUTPUT: [], EVENT: [], INTERRUPT: []}
        self.compared: Counter[str] = Counter()

    def configure(self) -> None:
        setup = SetupPacket(RequestType.STANDARD_OUT, StandardRequest.SET_CONFIGURATION, 1)
        self.submit(Transfer(0, setup))

    def submit(self, transfer: Transfer) -> Transfer:
        ended: list[Transfer] = []
        transfer.done = ended.append
        self.device.submit(transfer)
        assert ended == [transfer], "the device does not take it"
        assert transfer.status is Status.OK
        return transfer

    def step(self, record: dict[str, Any]) -> None:
        match record:
            case {"type": "mgmt", "op": "get_device_list", "ids": ids}:
                raw = int.from_bytes(self.device.descriptors()[0], "little")
                found = DeviceDescriptor.unpack(raw)
                assert f"{found.vendor:04x}:{found.product:04x}" == ids
                self.compared["device lists"] += 1
            case {"type": "mgmt", "op": "open"}:
                if self.generation != self.device.generation:
                    self.generation = self.device.generation
                    self.configure()
            case {"type": "mgmt", "op": "reset_device"}:
                self.device.reset()
                self.configure()
            case {"type": "mgmt"}:
                pass
            case {"type": "control"}:
                self.control(record)
            case {"dir": "out"}:
                self.out(record)
            case {"ev": "submit", "id": number, "ep": endpoint, "length": length}:
                ended = self.ended[endpoint]
                transfer = Transfer(endpoint, length=length, done=ended.append)
                self.reads[number] = transfer
                self.device.submit(transfer)
            case {"ev": "complete", "status": "OK", "ep": endpoint}:
                # Endpoints have no order among them: the recording device sent its event before
                # the host had fetched the outputs, this one when few of them are left.
                self.completed[endpoint].append(record)
            case {"ev": "complete", "status": "CANCELLED"}:
                assert self.device.cancel(self.reads[record["id"]])
                self.compared["cancelled"] += 1
            case _:
                raise AssertionError(record)

    def control(self, record: dict[str, Any]) -> None:
        fields = {
            name: value if isinstance(value, int) else int(value, 0)
            for name, value in record["setup"].items()
        }
        setup = SetupPacket(*fields.values())
        head = bytes.fromhex(record["head"])
        if record["dir"] == "out":
            data = head.ljust(setup.length, b"\0")
            assert self.submit(Transfer(0, setup, data)).sent == record["length"]
            self.compared["requests out"] += 1
            return
        received = self.submit(Transfer(0, setup, length=setup.length)).received
        assert len(received) == record["length"]
        assert received[:HEAD] == head
        upload = (setup.request_type, setup.request) == (RequestType.CLASS_IN, DfuRequest.UPLOAD)
        if not upload or setup.value >= FIRMWARE_BYTES // setup.length:
            assert hashlib.sha256(received).hexdigest() == record["sha256"]
            self.compared["whole answers"] += 1
        self.compared["answers"] += 1

    def out(self, record: dict[str, Any]) -> None:
        if record["length"] == StreamHeader.width // 8:
            data, exact = bytes.fromhex(record["head"]), True
        else:
            data, exact = next(self.sent)
        assert len(data) == record["length"]
        assert data[:HEAD].hex() == record["head"]
        # Instructions hold addresses of the recording host.
        same = hashlib.sha256(data).hexdigest() == record["sha256"]
        assert same or not exact
        self.compared["payloads"] += 1
        assert record["ep"] == DATA
        transfer = self.submit(Transfer(record["ep"], data=data))
        assert transfer.sent == len(data)

    def finish(self) -> None:
        """Compare what has come from the device."""
        assert next(self.sent, None) is None
        for endpoint, records in self.completed.items():
            done = [t for t in self.ended[endpoint] if t.status is not Status.CANCELLED]
            assert done == [self.reads[record["id"]] for record in records]
            for transfer, record in zip(done, records, strict=True):
                assert transfer.status is Status.OK
                assert len(transfer.received) == record["length"]
                # The recording device did not compute.
                assert endpoint == OUTPUT or transfer.received.hex() == record["head"]
                self.compared[f"endpoint {endpoint:#x}"] += 1


@pytest.mark.parametrize(
    ("name", "payloads", "outputs", "cancelled"),
    [
        ("dense_256", 12, 2, 34),
        pytest.param("mobilenet_v1_0.25_128_quant", 12, 2, 34, marks=pytest.mark.slow),
        pytest.param("posenet_481_641", 17, 300, 34, marks=pytest.mark.slow),
    ],
)
def test_conversation_is_accepted(name: str, payloads: int, outputs: int, cancelled: int) -> None:
    device = VirtualDevice()
    replay = Replay(device, package(corpus() / MODELS[name]))
    for record in trace(name):
        replay.step(record)
    replay.finish()
    assert device.fault is None
    assert device.registers.accesses == ACCESSES
    assert len(device.firmware) == FIRMWARE_BYTES
    assert replay.compared == {
        "device lists": 8,
        "requests out": DOWNLOADS + ACCESSES["w32"] + ACCESSES["w64"],
        "answers": 2 + DOWNLOADS + UPLOADS + ACCESSES["r32"] + ACCESSES["r64"],
        "whole answers": 2 + DOWNLOADS + UPLOADS - 42 + ACCESSES["r32"] + ACCESSES["r64"],
        "payloads": payloads,
        "endpoint 0x81": outputs,
        "endpoint 0x82": 3,
        "cancelled": cancelled,
    }
