"""Time limits of the driver, and the watch that holds every wait to them."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.clock import SYSTEM_CLOCK, Clock
from fitzroy.base.errors import DeviceError
from fitzroy.hw_models.chips.beagle import BEAGLE


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, in seconds, and how often to try.

    Attributes:
        request: a whole inference, with its recoveries, whose caller says no time; since the last
            sign that it goes on, if the chip is simulated.
        simulation: the same in all, if the chip is simulated.
        slice: one bulk transfer; then the driver looks for errors of the chip, for its deadline
            and for cancellation, and goes on waiting.
        silence: without a byte on the endpoint that is waited for; then the request fails, and is
            tried again. No program computes for as long; a simulated chip may, and is asked.
        idle: the same, with a device that says that it computes nothing and waits for the host.
        control: one control transfer.
        poll: a register that has to reach a value.
        settle: after a reset of the port, before the device is looked for.
        enumerate: until the device is back after a reset.
        access: until the system lets a device be opened that is back.
        replug: until a device that is gone is plugged in again.
        drain: a read that throws away what an earlier request has left.
        control_tries: attempts of a control transfer.
        boot_tries: attempts of a firmware download.
        retries: further attempts of an inference.
        clock: whose seconds these are.
    """

    request: float = 30.0
    simulation: float = 3600.0
    slice: float = 0.25
    silence: float = 6.0
    idle: float = 0.75
    control: float = BEAGLE.usb.control_timeout / 1000
    poll: float = 1.0
    settle: float = BEAGLE.usb.reset_settle / 1000
    enumerate: float = 25.0
    access: float = 3.0
    replug: float = 5.0
    drain: float = 0.002
    control_tries: int = 5
    boot_tries: int = 3
    retries: int = 2
    clock: Clock = SYSTEM_CLOCK

    def watch(self, seconds: float) -> Watch:
        """A watch for so many seconds from now."""
        return Watch(seconds, self.clock)

    def of_request(self, timeout: float | None) -> Watch:
        """The watch of an inference.

        Args:
            timeout: seconds that its caller gives it; None for the limits here, which a simulated
                chip may prolong.
        """
        if timeout is not None:
            return Watch(timeout, self.clock)
        return Watch(self.request, self.clock, most=self.simulation)


class DeadlineError(DeviceError):
    """A request took longer than it was given."""


class RequestCancelledError(DeviceError):
    """A request was cancelled."""


ENDED = (DeadlineError, RequestCancelledError)
"""What a watch ends waits with."""


class Watch:
    """What a wait may be ended by: its deadline, or its owner.

    Args:
        seconds: time from now.
        clock: whose seconds these are.
        most: time from now that it may be prolonged to.

    Attributes:
        seconds: as given.
        deadline: when it ends, on its clock.
        cancelled: whether its owner has ended it.
    """

    __slots__ = ("_clock", "_last", "cancelled", "deadline", "seconds")

    def __init__(self, seconds: float, clock: Clock = SYSTEM_CLOCK, most: float = 0.0) -> None:
        now = clock.now()
        self.seconds = seconds
        self.deadline = now + seconds
        self.cancelled = False
        self._clock = clock
        self._last = now + max(seconds, most)

    def cancel(self) -> None:
        """End the wait."""
        self.cancelled = True

    def prolong(self) -> None:
        """Count its seconds from now, as far as it may be prolonged."""
        if self.deadline < self._last:
            self.deadline = max(self.deadline, min(self._clock.now() + self.seconds, self._last))

    @property
    def left(self) -> float:
        """Seconds to the deadline, negative after it."""
        return self.deadline - self._clock.now()

    @property
    def most_left(self) -> float:
        """Seconds to the deadline, if it is prolonged as far as it may be."""
        return self._last - self._clock.now()

    def check(self, what: str) -> None:
        """Go on only if there is time.

        Args:
            what: what is waited for, for the error.

        Raises:
            DeadlineError: there is none.
            RequestCancelledError: nobody wants the result any more.
        """
        if self.cancelled:
            raise RequestCancelledError("the request was cancelled", reason=f"during {what}")
        if self.left <= 0:
            raise DeadlineError(
                f"no result within {self.seconds:g} s",
                reason=f"the time ended during {what}",
                hint="give the request more time",
            )
