"""The time that drivers and virtual devices go by: that of the system, or one that tests make."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Something that tells the time, and lets it pass."""

    def now(self) -> float:
        """Seconds since some moment; they never go back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let seconds pass."""
        ...

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Wait for an event.

        Args:
            event: what is waited for.
            seconds: most time to wait; None for ever.

        Returns:
            whether it has happened.
        """
        ...


class SystemClock:
    """The monotonic clock of the system."""

    def now(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let seconds pass."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Wait for an event; see `Clock.wait`."""
        return event.wait(seconds)


SYSTEM_CLOCK = SystemClock()
"""The clock that everything goes by unless it is told otherwise."""
