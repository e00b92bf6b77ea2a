"""Counts of work: what a test asserts in place of seconds, which depend on the machine."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Calls:
    """How many functions have been called, those written in C included."""

    count: int = 0


class _Exceeded(BaseException):
    """Ends the work that is counted; not an Exception, so that nothing swallows it."""


@contextmanager
def calls_at_most(most: int) -> Iterator[Calls]:
    """Count calls on this thread, and end what exceeds a limit.

    The count does not depend on the machine or on what else runs there. Python 3.12 and later
    compute comprehensions without a call: limits need slack for 3.11.

    Args:
        most: calls allowed.

    Raises:
        AssertionError: there are more.
    """
    calls = Calls()

    def count(_: FrameType, event: str, __: object) -> None:
        if event in ("call", "c_call"):
            calls.count += 1
            if calls.count > most:
                raise _Exceeded

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    except _Exceeded:
        raise AssertionError(f"more than {most} calls") from None
    finally:
        sys.setprofile(before)


@dataclass
class Memory:
    """How many bytes were allocated at a time, beyond those before."""

    peak: int = 0


@contextmanager
def memory_of() -> Iterator[Memory]:
    """Measure the bytes that are allocated at a time, those of arrays included."""
    memory = Memory()
    tracemalloc.start()
    try:
        yield memory
        memory.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
