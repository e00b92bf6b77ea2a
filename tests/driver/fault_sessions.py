"""Sessions with a device on which things go wrong: what is played, and how it ends."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, partial
from pathlib import Path

import numpy as np
from tests.driver.edgetpu_programs import PARAMETERS, SIZE, cached, echo, followed
from tests.driver.hostile_device import CountedDevice
from tests.driver.simulated_clock import EndlessError, SimulatedClock

from fitzroy.base.errors import DeviceError
from fitzroy.base.types import Array
from fitzroy.driver.device.connection import Connection
from fitzroy.driver.device.limits import Limits
from fitzroy.driver.runtime.devices import NO_FIRMWARE, SIMULATED
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.driver.runtime.requests import Outputs
from fitzroy.driver.transports.usb import UsbBus
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.formats.darwinn import PackageFile

LIMITS = replace(
    SIMULATED,
    request=1.5,
    slice=0.02,
    silence=0.1,
    control=0.02,
    poll=0.1,
    enumerate=0.3,
    replug=0.3,
    control_tries=3,
)

OVERTIME = 1.1
"""Seconds that a request may take beyond its deadline: what is under way is ended first.

Most of it is the second that systems wait for an answer to requests of their own, such as that
which clears a halt.
"""

HANG_SECONDS = 60.0
"""Real time after which a session is given up; time and transfers are counted long before."""


class Ending(Enum):
    """What came of a session; the value is the heading of the table."""

    UNNOTICED = "right"
    RECOVERED = "right, recovered"
    ERROR = "typed error"
    LOST = "typed error, device gone"
    REFUSED = "refused"
    UNUSABLE = "unusable"
    WRONG = "wrong result"
    UNTYPED = "untyped error"
    HANG = "hang"


BAD = (Ending.UNUSABLE, Ending.WRONG, Ending.UNTYPED, Ending.HANG)


class Work(Enum):
    """Programs that sessions run; the value makes the package."""

    ECHO = (echo,)
    CACHED = (cached,)
    FOLLOWED = (followed,)

    @property
    def package(self) -> PackageFile:
        """The package, the same one every time."""
        return _package(self)

    def answer(self, row: Array) -> bytes:
        """What the output has to be."""
        return (PARAMETERS if self is Work.CACHED else b"") + row.tobytes()


@cache
def _package(work: Work) -> PackageFile:
    make: Callable[[], PackageFile]
    (make,) = work.value
    return make()


@dataclass
class Verdict:
    """What is known of a session so far.

    Attributes:
        right: requests whose results were right.
        errors: kinds of the errors of the others, in order.
        bad: what must not happen, and did.
        refused: whether the chip was never opened.
        recoveries: how often the device was brought back.
        latest: most simulated seconds that anything has taken beyond its deadline.
        transfers: transfers of the session.
    """

    right: int = 0
    errors: list[str] = field(default_factory=list)
    bad: list[tuple[Ending, str]] = field(default_factory=list)
    refused: bool = False
    lost: bool = False
    recoveries: int = 0
    latest: float = 0.0
    transfers: int = 0

    @property
    def ending(self) -> Ending:
        """How the session ended."""
        if self.bad:
            return self.bad[0][0]
        if self.refused:
            return Ending.REFUSED
        if self.errors:
            return Ending.LOST if self.lost else Ending.ERROR
        return Ending.RECOVERED if self.recoveries else Ending.UNNOTICED

    def judge(self, work: Work, row: Array, answer: Callable[[], Outputs]) -> bool:
        """Compare a result with what it has to be; whether it was right."""
        try:
            stream = answer().tensors["y"].tobytes()
        except DeviceError as error:
            self.errors.append(type(error).__name__)
            return False
        except TimeoutError:
            self.bad.append((Ending.HANG, "a result does not come"))
            return False
        if stream != work.answer(row):
            self.bad.append((Ending.WRONG, f"{work.name} gives {stream[:8].hex()}"))
        self.right += 1
        return True


class Bench:
    """A device on a port, and hosts for it, in a time of their own.

    Args:
        device: the device.
        clock: its time.
        limits: of the hosts.
    """

    def __init__(
        self, device: CountedDevice, clock: SimulatedClock, limits: Limits = LIMITS
    ) -> None:
        self.device = device
        self.clock = clock
        self.limits = replace(limits, clock=clock)
        self.backend = VirtualBackend([device], clock)

    def host(self, *, verify: bool = False, multiple: bool = False) -> EdgeTpu:
        """Another process, with everything of its own but the device.

        Args:
            verify: as `EdgeTpu`.
            multiple: whether its firmware has several endpoints.
        """
        firmware = replace(NO_FIRMWARE, multiple=multiple)
        bus = UsbBus(lambda: self.backend, "sim", "virtual devices")
        connection = Connection(bus, "1-1", firmware=lambda: firmware, limits=self.limits)
        return EdgeTpu(connection, verify=verify)

    @contextmanager
    def timed(self, what: str, verdict: Verdict, timeout: float | None = None) -> Iterator[None]:
        """Whatever a host does ends soon after its deadline."""
        before = self.clock.now()
        yield
        taken = self.clock.now() - before
        late = taken - (self.limits.request if timeout is None else timeout)
        verdict.latest = max(verdict.latest, late)
        if late > OVERTIME:
            verdict.bad.append((Ending.HANG, f"{what} takes {taken:.2f} s"))

    def run(
        self,
        host: EdgeTpu,
        works: tuple[Work, ...],
        verdict: Verdict,
        timeout: float | None = None,
    ) -> None:
        """One request after the other, each within its time."""
        for work, row in requests(works):
            self.device.phase = "infer" if work is not Work.CACHED else "load"
            with self.timed(work.name, verdict, timeout):
                verdict.judge(
                    work, row, partial(host.run, work.package, {"x": row}, timeout=timeout)
                )

    def submit(
        self,
        host: EdgeTpu,
        works: tuple[Work, ...],
        verdict: Verdict,
        timeout: float | None = None,
    ) -> None:
        """All requests at once, in the background."""
        self.device.phase = "infer"
        under_way = [
            (work, row, host.submit(work.package, {"x": row}, timeout=timeout))
            for work, row in requests(works)
        ]
        for work, row, request in under_way:
            verdict.judge(work, row, partial(request.result, HANG_SECONDS))


def requests(works: tuple[Work, ...]) -> Iterator[tuple[Work, Array]]:
    """Programs and their inputs, no two of which are the same."""
    for number, work in enumerate(works):
        yield work, (np.arange(SIZE) * 7 + number).astype(np.uint8)


def guarded(play: Callable[[Verdict], None]) -> Verdict:
    """Play a session in a thread that is given up if it does not end; what came of it."""
    verdict = Verdict()

    def run() -> None:
        try:
            play(verdict)
        except EndlessError as error:
            verdict.bad.append((Ending.HANG, str(error)))
        except BaseException as error:
            *_, last = traceback.extract_tb(error.__traceback__)
            place = f"{Path(last.filename).name}:{last.lineno}"
            verdict.bad.append((Ending.UNTYPED, f"{error!r} at {place}"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    if thread.is_alive():
        verdict.bad.append((Ending.HANG, f"no end within {HANG_SECONDS:g} s"))
    return verdict
