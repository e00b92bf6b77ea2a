"""A host as bytes: what it does with a virtual device, one action after the other."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from tests.driver.edgetpu_programs import SIZE, echo
from tests.driver.usb_client import payloads
from tests.fuzz.mutate import mutant

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.chips.usb import (
    DfuRequest,
    RequestType,
    SetupPacket,
    Speed,
    StandardRequest,
    StreamHeader,
    Tag,
    to_bytes,
)
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.fields import SleepControl
from fitzroy.hw_models.csr.register import Register
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.transfer import Status, Transfer
from fitzroy.linker.schedule import SendInstructions

_HEAD = struct.Struct("<BBH")
_MOST_ACTIONS = 2_000
_ENDPOINTS = (1, 2, 3, 0x81, 0x82, 0x83, 0)


class Action(IntEnum):
    """What a host does: an action byte, an argument, a length, and data for some."""

    CONTROL = 0
    OUT = 1
    IN = 2
    CANCEL = 3
    RESET = 4
    UNPLUG = 5
    HEAT = 6


@dataclass(frozen=True)
class Step:
    """One action; `data` is the setup packet with its data, or the data of a transfer."""

    action: Action
    argument: int = 0
    length: int = 0
    data: bytes = b""

    def pack(self) -> bytes:
        return _HEAD.pack(self.action, self.argument, self.length) + self.data


def read_script(data: bytes) -> list[Step]:
    """The steps of a host, after one byte for the kind of the device.

    Raises:
        FormatError: an action that does not exist, or data that is not there.
    """
    steps: list[Step] = []
    at = 1
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise FormatError("truncated", offset=at)
        action, argument, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if action not in tuple(Action) or len(steps) == _MOST_ACTIONS:
            raise FormatError(f"action {action}", offset=at)
        size = length if action in (Action.CONTROL, Action.OUT) else 0
        if action == Action.CONTROL and size < SetupPacket.width // 8:
            raise FormatError("a request without a setup packet", offset=at)
        if at + size > len(data):
            raise FormatError("data is missing", offset=at)
        steps.append(Step(Action(action), argument, length, data[at : at + size]))
        at += size
    return steps


def play(data: bytes, budget: int) -> None:
    """Let a host do what it wants; nothing may be lost, and the device must survive.

    Raises:
        FormatError: as `read_script`.
    """
    steps = read_script(data)
    kind = data[0] if data else 0
    device = VirtualDevice(
        Speed.SUPER if kind & 1 else Speed.HIGH,
        booted=bool(kind & 2),
        budget=budget,
    )
    ended: list[Transfer] = []
    pending: list[Transfer] = []
    for step in steps:
        match step.action:
            case Action.CONTROL:
                setup = SetupPacket.unpack(int.from_bytes(step.data[:8], "little"))
                inward = bool(setup.request_type & 0x80)
                size = setup.length if inward else 0
                pending.append(Transfer(0, setup, b"" if inward else step.data[8:], size))
            case Action.OUT:
                endpoint = _ENDPOINTS[step.argument % len(_ENDPOINTS)]
                pending.append(Transfer(endpoint, data=step.data))
            case Action.IN:
                endpoint = _ENDPOINTS[step.argument % len(_ENDPOINTS)]
                pending.append(Transfer(endpoint, length=step.length))
            case Action.CANCEL:
                waiting = [transfer for transfer in pending if transfer.status is None]
                if waiting and not device.cancel(waiting[step.argument % len(waiting)]):
                    raise AssertionError("a transfer cannot be cancelled")
                continue
            case Action.RESET:
                device.reset()
                continue
            case Action.UNPLUG:
                device.unplug()
                device.plug()
                continue
            case Action.HEAT:
                device.set_temperature(step.length - 1000)
                continue
        pending[-1].done = ended.append
        device.submit(pending[-1])
    device.unplug()
    if sorted(map(id, ended)) != sorted(map(id, pending)):
        raise AssertionError("a transfer does not end, or ends twice")
    for transfer in pending:
        if transfer.status is None or len(transfer.received) > transfer.length:
            raise AssertionError("a transfer brings more than it may")
        outward = not transfer.inward and transfer.endpoint
        if transfer.status is Status.OK and outward and transfer.sent != len(transfer.data):
            raise AssertionError("a part of a transfer is lost")


def script_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A script after changes of steps, their order and their data."""
    steps = read_script(seed)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(steps) + 1)
        match rng.randrange(5):
            case 0:
                del steps[at : at + rng.randint(1, 3)]
            case 1:
                other = read_script(rng.choice(seeds))
                first = rng.randrange(len(other))
                steps[at:at] = other[first : first + rng.randint(1, 40)]
            case 2:
                action = rng.choice((Action.CANCEL, Action.RESET, Action.UNPLUG, Action.HEAT))
                steps.insert(at, Step(action, rng.randrange(256), rng.randrange(1 << 16)))
            case _ if at < len(steps):
                step = steps[at]
                data = mutant(rng, [step.data])[:0xFFFF] if step.data else b""
                data = data.ljust(8, b"\0") if step.action is Action.CONTROL else data
                length = len(data) if step.data else rng.choice((0, 1, 15, 16, 1024, 0xFFFF))
                steps[at] = Step(step.action, rng.choice((step.argument, 0, 1, 3)), length, data)
    kind = rng.choice((seed[0], rng.randrange(4)))
    return bytes([kind]) + b"".join(step.pack() for step in steps[:_MOST_ACTIONS])


def control(kind: int, request: int, value: int = 0, index: int = 0, data: bytes | int = 0) -> Step:
    size = data if isinstance(data, int) else len(data)
    content = to_bytes(SetupPacket(kind, request, value, index, size))
    if isinstance(data, bytes):
        content += data
    return Step(Action.CONTROL, 0, len(content), content)


def write(register: Register, value: int) -> Step:
    data = value.to_bytes(register.width // 8, "little")
    address = register.address
    return control(
        RequestType.VENDOR_OUT, register.width == 32, address & 0xFFFF, address >> 16, data
    )


def scripts() -> list[bytes]:
    """A download, a program, registers and descriptors."""
    configure = control(RequestType.STANDARD_OUT, StandardRequest.SET_CONFIGURATION, 1)
    status = control(RequestType.CLASS_IN, DfuRequest.GET_STATUS, data=6)
    boot = [
        configure,
        control(RequestType.CLASS_OUT, DfuRequest.DOWNLOAD, 0, 0, bytes(range(100))),
        status,
        control(RequestType.CLASS_OUT, DfuRequest.DOWNLOAD, 1),
        status,
        *(control(RequestType.CLASS_IN, DfuRequest.UPLOAD, block, 0, 256) for block in (0, 127)),
        Step(Action.RESET),
        configure,
    ]
    engines = (
        csr.SCALAR_CORE_RUN_CONTROL,
        *csr.STREAM_RUN_CONTROLS.values(),
        *csr.TILE_RUN_CONTROLS.values(),
    )
    opening = [
        write(csr.DESCR_EP, 0xFF),
        write(csr.OUTFEED_CHUNK_LENGTH, 0x80),
        write(csr.FATAL_ERR_INT_CONTROL, 1),
        write(csr.TILECONFIG0, csr.ALL_TILES),
        *(write(engine, 1) for engine in engines),
    ]
    reads = [
        Step(Action.IN, number, size) for number, size in ((3, 1024), (4, 16), (4, 16), (5, 4))
    ]
    transfers = []
    for step, data in payloads(echo().main, {"x": np.arange(SIZE).astype(np.uint8)}):
        if data:
            tag = Tag.INSTRUCTIONS if isinstance(step, SendInstructions) else Tag.INPUT
            transfers.append((tag, data))
    single = [
        Step(Action.OUT, 0, len(part), part)
        for tag, data in transfers
        for part in (to_bytes(StreamHeader(len(data), tag)), data)
    ]
    multiple = [
        write(csr.MULTI_BO_EP, 1),
        *(Step(Action.OUT, tag, len(data), data) for tag, data in transfers),
    ]
    asleep = csr.SCU_CTRL_3.changed(csr.SCU_CTRL_3.reset, force_sleep=SleepControl.SLEEP)
    closing = [Step(Action.CANCEL), write(csr.SCU_CTRL_3, asleep), Step(Action.HEAT, 0, 1100)]
    standard = [
        control(RequestType.STANDARD_IN, StandardRequest.GET_DESCRIPTOR, kind << 8, 0, 255)
        for kind in (1, 2, 3, 6, 7, 15)
    ]
    return [
        bytes([kind]) + b"".join(step.pack() for step in steps)
        for kind, steps in (
            (1, [*boot, *opening, *reads, *single, *closing]),
            (2, [configure, *opening, *reads, *single, *reads, *single, *reads]),
            (3, [configure, *opening, *multiple, *reads, Step(Action.UNPLUG), configure]),
            (0, [*standard, *boot, *standard, *closing]),
        )
    ]
