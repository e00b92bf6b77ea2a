"""Sessions in which one thing goes wrong: every kind of fault, at every transfer."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import Enum
from functools import cache, partial

import numpy as np
from tests.driver.edgetpu_programs import SIZE, echo

from fitzroy.base.errors import DeviceError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.devices import SIMULATED, DeviceOptions, virtual_device
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.runtime.requests import Outputs
from fitzroy.driver.transports.transport import LostError
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind
from fitzroy.hw_models.usb_device.transfer import Transfer

LIMITS = replace(
    SIMULATED,
    request=5.0,
    slice=0.02,
    silence=0.1,
    control=0.02,
    poll=0.1,
    enumerate=0.3,
    replug=0.3,
    control_tries=3,
)
INFERENCES = 4
HANG_SECONDS = 20.0
"""Far more than all limits of a session together."""


class Ending(Enum):
    """What came of a session; the value is the heading of the table."""

    UNNOTICED = "no effect"
    RECOVERED = "recovered"
    ERROR = "typed error, usable afterwards"
    LOST = "typed error, device gone"
    UNUSABLE = "unusable"
    WRONG = "wrong result"
    UNTYPED = "untyped error"
    HANG = "hang"


GOOD = (Ending.UNNOTICED, Ending.RECOVERED, Ending.ERROR, Ending.LOST)


class Counted(VirtualDevice):
    """A device that counts its transfers, by endpoint."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        super().__init__(faults=faults)
        self.endpoints: list[int] = []

    def submit(self, transfer: Transfer) -> None:
        self.endpoints.append(transfer.endpoint)
        super().submit(transfer)


@cache
def package() -> PackageFile:
    return echo()


def fault(kind: FaultKind, transfer: int) -> Fault:
    """A fault of a kind that hurts."""
    return Fault(kind, transfer, length=3, seconds=0.05, celsius=120.0)


def session(device: VirtualDevice, *, verify: bool, pipelined: bool) -> Ending:
    """Boot, open, infer, close, and the same with what is booted; how it ended."""
    worked = [True]
    recoveries = 0
    for turn in range(2):
        host = virtual_device(DeviceOptions(limits=LIMITS, verify=verify), device)
        with host:
            for data, answer in inferences(host, turn, pipelined=pipelined):
                try:
                    if (answer().tensors["y"] != data).any():
                        return Ending.WRONG
                    worked.append(True)
                except LostError:
                    if not device.connected:
                        return Ending.LOST
                    worked.append(False)
                except DeviceError:
                    worked.append(False)
            if not worked[-1] and not usable(host):
                return Ending.UNUSABLE
            recoveries += host.recoveries
    if not all(worked):
        return Ending.ERROR
    return Ending.RECOVERED if recoveries else Ending.UNNOTICED


def usable(host: EdgeTpu) -> bool:
    """Whether the request after one that failed is right."""
    ((data, answer), *_) = inferences(host, 0, pipelined=False)
    try:
        return bool((answer().tensors["y"] == data).all())
    except DeviceError:
        return False


def inferences(
    host: EdgeTpu, turn: int, *, pipelined: bool
) -> Iterator[tuple[Array, Callable[[], Outputs]]]:
    """Inputs, and what gives the answers to them."""
    rows = [(np.arange(SIZE) * 7 + turn + number).astype(np.uint8) for number in range(INFERENCES)]
    if pipelined:
        requests = [host.submit(package(), {"x": row}) for row in rows]
        answers = [partial(request.result, HANG_SECONDS) for request in requests]
    else:
        answers = [partial(host.run, package(), {"x": row}) for row in rows]
    yield from zip(rows, answers, strict=True)


def ending(kind: FaultKind, transfer: int, *, pipelined: bool = False) -> Ending:
    """How a session with a fault ends."""
    endings: list[Ending] = []
    # Bytes that are damaged behind the checksums of USB can only be noticed by repetition.
    verify = kind is FaultKind.CORRUPT

    def run() -> None:
        try:
            device = Counted([fault(kind, transfer)])
            endings.append(session(device, verify=verify, pipelined=pipelined))
        except Exception:
            endings.append(Ending.UNTYPED)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    return endings[0] if endings else Ending.HANG


def transfers() -> list[int]:
    """Endpoints of the transfers of a session in which nothing goes wrong."""
    device = Counted()
    assert session(device, verify=False, pipelined=False) is Ending.UNNOTICED
    return device.endpoints


def main() -> None:
    """Print the table; arguments: N for every N-th transfer, ``pipelined`` for `submit`."""
    step = next((int(word) for word in sys.argv[1:] if word.isdecimal()), 1)
    pipelined = "pipelined" in sys.argv
    endpoints = transfers()
    print(f"{len(endpoints)} transfers")
    print("| " + " | ".join(["fault", *(end.value for end in Ending), "slowest"]) + " |")
    for kind in FaultKind:
        found: Counter[Ending] = Counter()
        slowest = 0.0
        for place in range(1, len(endpoints) + 1, step):
            began = time.monotonic()
            end = ending(kind, place, pipelined=pipelined)
            slowest = max(slowest, time.monotonic() - began)
            found[end] += 1
            if end not in GOOD:
                print(f"  {kind.value} at {place}, endpoint {endpoints[place - 1]:#x}: {end.value}")
        cells = " | ".join(str(found[end]) for end in Ending)
        print(f"| {kind.value} | {cells} | {slowest:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
