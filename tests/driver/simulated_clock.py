"""Clocks for sessions that are to wait for nothing: time passes when somebody waits for it."""

from __future__ import annotations

import threading

_TICK = 0.001
"""Real seconds between two looks at whether other threads are still busy."""

_QUIET_TICKS = 4
"""Looks without any change after which nobody is taken to be busy."""


class EndlessError(BaseException):
    """Something waits for what never happens, or goes on for ever.

    No handler of errors takes it for a failure of the device.
    """


class SimulatedClock:
    """The time of one thread: nothing can happen while it waits but that its time runs out."""

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds since the clock was made."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let seconds pass at once."""
        with self._lock:
            self._now += max(seconds, 0.0)

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Whether an event has happened; if not, the time for it passes at once."""
        if not event.is_set():
            if seconds is None:
                raise EndlessError("a wait without an end")
            self.sleep(seconds)
        return event.is_set()


class SharedClock(SimulatedClock):
    """The time of several threads: it passes when none of them has spent any for a while."""

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        """Wait until an event happens, or until nobody else is busy; then its time passes."""
        if seconds is None:
            raise EndlessError("a wait without an end")
        until, seen, quiet = self._now + seconds, self._now, 0
        while not event.wait(_TICK):
            quiet = quiet + 1 if self._now == seen else 0
            seen = self._now
            if quiet >= _QUIET_TICKS:
                with self._lock:
                    self._now = max(self._now, until)
            if self._now >= until:
                break
        return event.is_set()
