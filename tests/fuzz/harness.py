"""Run mutants through a target and judge what happens.

A case may end in success or in a `FitzroyError` other than `InternalError`, within two seconds of
processor time and bounded memory. Everything else is a failure. Case n of seed s is the same
bytes wherever the same seeds are there.
"""

from __future__ import annotations

import collections
import datetime
import random
import resource
import signal
import time
import traceback
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from tests.fuzz.mutate import mutant
from tests.fuzz.seeds import SEEDS
from tests.fuzz.tables import table_mutant
from tests.fuzz.targets import run

from fitzroy.base.errors import FitzroyError, InternalError
from fitzroy.formats import tflite

SECONDS = 2.0
"""Most processor time of a case."""

HANG_SECONDS = 20
"""Processor time after which a case is interrupted."""

EVERY = 97
"""One case in as many runs under tracemalloc."""

RESIDENT_GROWTH = 512 << 20
"""Most growth in bytes of the process over a whole run."""


def memory_bound(size: int) -> int:
    """Most bytes that a case may hold at a time: decoded tables, a copy of them, slack."""
    return 12 * size + (48 << 20)


class Hang(BaseException):
    """A case that had to be interrupted; not an Exception, so that nothing swallows it."""


@dataclass(frozen=True)
class Failure:
    """A case that ended badly; `seed` and `case` make its bytes again."""

    seed: int
    case: int
    what: str

    def __str__(self) -> str:
        return f"seed {self.seed} case {self.case}: {self.what}"


@dataclass
class Result:
    """What a run gave."""

    format: str
    cases: int
    seed: int
    seeds: int
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0
    peak: int = 0

    def as_json(self) -> dict[str, object]:
        return {
            "format": self.format,
            "cases": self.cases,
            "seed": self.seed,
            "seed_files": self.seeds,
            "outcomes": dict(sorted(self.outcomes.items())),
            "failures": [str(failure) for failure in self.failures[:20]],
            "failure_count": len(self.failures),
            "seconds": round(self.seconds, 1),
            "slowest_case_seconds": round(self.slowest, 3),
            "peak_traced_bytes": self.peak,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }


def case_bytes(seeds: list[bytes], seed: int, case: int) -> bytes:
    """The bytes of a case."""
    rng = random.Random(f"{seed}:{case}")
    if seeds[0][4:8] == tflite.IDENTIFIER and rng.random() < 0.5:
        return table_mutant(rng, rng.choice(seeds))
    return mutant(rng, seeds)


def fuzz(name: str, cases: int, seed: int, *, first: int = 0) -> Result:
    """Run cases `first` to `first + cases` of a format."""
    seeds = SEEDS[name]()
    result = Result(name, cases, seed, len(seeds))
    resident = _resident()
    began = time.perf_counter()
    for case in range(first, first + cases):
        _run_case(result, name, seeds, case)
    result.seconds = time.perf_counter() - began
    growth = _resident() - resident
    if growth > RESIDENT_GROWTH:
        result.failures.append(Failure(seed, -1, f"the process grew by {growth} bytes"))
    return result


def _run_case(result: Result, name: str, seeds: list[bytes], case: int) -> None:
    data = case_bytes(seeds, result.seed, case)
    traced = case % EVERY == 0
    if traced:
        tracemalloc.start()
    began = time.process_time()
    problem = ""
    try:
        with _interrupted_after(HANG_SECONDS):
            run(name, data)
        outcome = "accepted"
    except FitzroyError as error:
        outcome = type(error).__name__
        if isinstance(error, InternalError) or not str(error):
            problem = f"{outcome}: {error}"
    except Hang:
        outcome, problem = "hang", f"interrupted after {HANG_SECONDS} s"
    except Exception as error:
        outcome = f"!{type(error).__name__}"
        last = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
    seconds = time.process_time() - began
    if traced:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        result.peak = max(result.peak, peak)
        if peak > memory_bound(len(data)):
            problem = problem or f"{peak} bytes held for a file of {len(data)}"
    else:
        result.slowest = max(result.slowest, seconds)
        if seconds > SECONDS:
            problem = problem or f"{seconds:.1f} s ({outcome})"
    result.outcomes[outcome] += 1
    if problem:
        result.failures.append(Failure(result.seed, case, problem))


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    def interrupt(_: int, __: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
