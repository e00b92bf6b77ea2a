"""What the inferences of a virtual device would have taken on a chip.

A simulated chip has no time of its own. Its programs, as a driver sent them over USB, have one on
the timing model, at the clock that the driver has set.
"""

from __future__ import annotations

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import LIBEDGETPU
from fitzroy.hw_models.csr.fields import CoreClock
from fitzroy.hw_models.edgetpu import timing
from fitzroy.hw_models.edgetpu.timeline import Timeline
from fitzroy.hw_models.usb_device.core import Program


class Stopwatch:
    """Times the inferences of a virtual device: programs that send something to the host.

    Programs that only load parameters do not count. What the host does with outputs that have come
    is not part of it.

    Args:
        host: the host that the device would be attached to, a key of `BEAGLE.hosts`.
        driver: a key of `BEAGLE.drivers`.
    """

    def __init__(self, host: str, driver: str = LIBEDGETPU) -> None:
        self._host, self._driver = host, driver
        self._ran: list[tuple[Program, CoreClock]] = []

    def ran(self, program: Program, clock: CoreClock) -> None:
        """Take note of a program that has run to its end, and of the clock of the core."""
        if program.sent:
            self._ran.append((program, clock))

    def microseconds(self) -> list[float]:
        """Time of every inference so far, in order.

        Raises:
            SimulationError: a program relies on queues that the chip may not have.
        """
        return [timeline.total for timeline in self.timelines()]

    def timelines(self) -> list[Timeline]:
        """Everything that would have happened in every inference so far, in order.

        Raises:
            SimulationError: a program relies on queues that the chip may not have.
        """
        return [
            timing.simulate(
                program.recording,
                program.chunks,
                clock=_level(clock),
                host=self._host,
                driver=self._driver,
            )
            for program, clock in self._ran
        ]


def _level(clock: CoreClock) -> str:
    """The performance level of a clock."""
    return next(name for name, level in BEAGLE.clocks.items() if level.core_mhz == clock.mhz)
