"""Judges a case: how it ends, how long it takes, how much memory it holds, what it warns of.

A case may end in success or in a `FitzroyError` other than `InternalError`, within its processor
time and `memory_bound`. Memory is held down in two ways: the address space of the process may grow
by little more than the bound, so that a greedy case fails at once, and the greatest resident size
is compared with the bound after each case. The system reports both in ``/proc``.
"""

from __future__ import annotations

import resource
import signal
import time
import traceback
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

from tests.fuzz.subject import Misbehaviour

import fitzroy
from fitzroy.base.errors import FitzroyError, InternalError

HANG_SECONDS = 20.0
"""Processor time after which a case is interrupted."""

HANG_WALL_SECONDS = 60.0
"""Time after which a case is interrupted that waits for something."""

_BUSY = 0.01
"""Part of a processor that a case has on a machine with too much to do; one that waits has less."""

_MOST_WAITS = 10
"""How often a case may take `HANG_WALL_SECONDS` on such a machine."""

_ADDRESS_SLACK = 96 << 20
"""Address space that a case may take without using it: stacks of threads, and pools."""

_PAGE = resource.getpagesize()
_PRODUCT = str(Path(fitzroy.__file__).parents[2])


def memory_bound(size: int) -> int:
    """Most bytes that a case may hold at a time, for a file of some size."""
    return 4 * size + (64 << 20)


class Hang(BaseException):
    """A case that had to be interrupted; not an Exception, so that nothing swallows it."""


@dataclass(frozen=True)
class Verdict:
    """How a case ended.

    Attributes:
        outcome: name of the error, ``accepted``, or ``hang``.
        problem: what is wrong with that, empty if nothing is.
        cause: what two failures of one cause have in common.
        seconds: its processor time.
        peak: bytes by which the process grew meanwhile; traced, those of Python and numpy.
        trace: where the error came from, for a failure.
    """

    outcome: str
    problem: str = ""
    cause: str = ""
    seconds: float = 0.0
    peak: int = 0
    trace: str = ""


def judge(
    action: Callable[[], None], size: int, *, seconds: float, traced: bool = False
) -> Verdict:
    """Run a case and say how it ended.

    Args:
        action: the case.
        size: of its file.
        seconds: most processor time; not checked for a traced case, which is slower.
        traced: count every byte that Python and numpy hold, instead of pages.
    """
    before = _Memory.start(traced)
    began = time.process_time()
    bound = memory_bound(size)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        verdict = _ended(action, bound)
    passed = time.process_time() - began
    peak = before.peak()
    problem, cause = verdict.problem, verdict.cause
    serious = [item for item in said if issubclass(item.category, RuntimeWarning)]
    if not problem and serious:
        place = f"{_relative(serious[0].filename)}:{serious[0].lineno}"
        problem = f"{serious[0].category.__name__}: {serious[0].message} ({place})"
        cause = f"warning at {place}"
    if not problem and peak > bound:
        problem = f"{peak} bytes held for a file of {size} ({verdict.outcome})"
        cause = f"memory, {verdict.outcome}"
    if not problem and not traced and passed > seconds:
        problem, cause = f"{passed:.1f} s ({verdict.outcome})", f"time, {verdict.outcome}"
    return Verdict(verdict.outcome, problem, cause, passed, peak, verdict.trace)


def _ended(action: Callable[[], None], bound: int) -> Verdict:
    try:
        with _address_space(bound + _ADDRESS_SLACK), _interrupted():
            action()
    except InternalError as error:
        # What it says differs in names and numbers; where it was raised does not.
        return _failed("InternalError", error)
    except FitzroyError as error:
        outcome = type(error).__name__
        return Verdict(outcome) if str(error) else _failed(outcome, error)
    except Hang as error:
        text = f"interrupted after {error}"
        place = _place(error.__traceback__)
        trace = "".join(traceback.format_exception(error))
        return Verdict("hang", text, f"hang in {place.rpartition(':')[0]}", trace=trace)
    except Exception as error:
        return _failed(f"!{type(error).__name__}", error)
    return Verdict("accepted")


def _failed(outcome: str, error: BaseException) -> Verdict:
    place = _place(error.__traceback__)
    problem = f"{type(error).__name__}: {error} ({place})"
    cause = error.cause if isinstance(error, Misbehaviour) else f"{outcome} at {place}"
    trace = "".join(traceback.format_exception(error))
    return Verdict(outcome, problem, cause, trace=trace)


def _place(trace: TracebackType | None) -> str:
    """The innermost line of the product, or of the target if the product is not there."""
    frames = traceback.extract_tb(trace)
    inside = [
        frame
        for frame in frames
        if frame.filename.startswith(_PRODUCT) and "/site-packages/" not in frame.filename
    ]
    own = [frame for frame in inside if "/tests/" not in frame.filename]
    frame = (own or inside or frames)[-1]
    return f"{_relative(frame.filename)}:{frame.lineno}"


def _relative(file: str) -> str:
    return file.removeprefix(_PRODUCT).lstrip("/")


@dataclass(frozen=True)
class _Memory:
    """What the process held before a case."""

    resident: int
    traced: bool

    @classmethod
    def start(cls, traced: bool) -> _Memory:
        if traced:
            tracemalloc.start()
        # 5 forgets the greatest resident size so far.
        Path("/proc/self/clear_refs").write_text("5")
        return cls(_statm(1), traced)

    def peak(self) -> int:
        if self.traced:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return peak
        with open("/proc/self/status", "rb") as file:
            (most,) = (line.split()[1] for line in file if line.startswith(b"VmHWM:"))
        return max(0, int(most) * 1024 - self.resident)


def _statm(column: int) -> int:
    """Bytes of the process: column 0 is its address space, 1 what is resident."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[column]) * _PAGE


@contextmanager
def _address_space(growth: int) -> Iterator[None]:
    """Let allocations fail that take the process beyond its present size and `growth`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_statm(0) + growth, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _interrupted() -> Iterator[None]:
    """Interrupt what takes too much processor time, or waits too long."""
    waits = iter(range(_MOST_WAITS))
    used = time.process_time()

    def take(_: int, __: FrameType | None) -> None:
        raise Hang(f"{HANG_SECONDS:g} s of processor time")

    def wait(_: int, __: FrameType | None) -> None:
        nonlocal used
        before, used = used, time.process_time()
        if used - before < _BUSY * HANG_WALL_SECONDS or next(waits, None) is None:
            raise Hang(f"{HANG_WALL_SECONDS:g} s of waiting")

    handlers = {signal.SIGPROF: take, signal.SIGALRM: wait}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, HANG_WALL_SECONDS, HANG_WALL_SECONDS)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
