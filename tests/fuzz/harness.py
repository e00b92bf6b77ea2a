"""Run mutants through targets and keep count.

Case n of seed s is the same bytes wherever the same seeds are there.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz.budget import Verdict, judge
from tests.fuzz.catalog import SUBJECTS
from tests.fuzz.mutate import mutant

from fitzroy.base import budget
from fitzroy.base.errors import FormatError
from fitzroy.formats.detect import detect

BUDGET = 24 << 20
"""What cases have for tensors and buffers whose sizes files give. What is read of a device is held
twice for a moment, and both fit into `memory_bound`."""

UNMADE = "mutation failed"
"""Outcome of a case whose mutation raises an exception: a fault of the fuzzer."""

EVERY = 97
"""One case in as many runs under tracemalloc."""

MOST_KEPT = 20
"""Failures of a target whose texts are kept."""


@dataclass(frozen=True)
class Failure:
    """A case that ended badly; `seed` and `case` make its bytes again."""

    seed: int
    case: int
    what: str
    cause: str = ""
    trace: str = ""

    def __str__(self) -> str:
        return f"seed {self.seed} case {self.case}: {self.what}"


@dataclass
class Result:
    """What running some cases of a target gave.

    Attributes:
        peak: most bytes by which a case let the process grow.
        traced: most bytes that Python and numpy held in a case that was traced.
    """

    target: str
    seed: int
    seeds: int
    cases: int = 0
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    slowest: float = 0.0
    peak: int = 0
    traced: int = 0

    def add(self, other: Result) -> None:
        """Count the cases of another result of the same target."""
        self.cases += other.cases
        self.outcomes += other.outcomes
        self.failures += other.failures
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.peak = max(self.peak, other.peak)
        self.traced = max(self.traced, other.traced)

    def count(self, case: int, verdict: Verdict, *, traced: bool) -> None:
        """Count a case."""
        self.cases += 1
        self.outcomes[verdict.outcome] += 1
        if traced:
            self.traced = max(self.traced, verdict.peak)
        else:
            self.peak = max(self.peak, verdict.peak)
            self.slowest = max(self.slowest, verdict.seconds)
        if verdict.problem:
            self.failures.append(
                Failure(self.seed, case, verdict.problem, verdict.cause, verdict.trace)
            )

    @property
    def causes(self) -> dict[str, list[Failure]]:
        """Failures by cause, in the order in which they were found."""
        found: dict[str, list[Failure]] = {}
        for failure in self.failures:
            found.setdefault(failure.cause, []).append(failure)
        return found

    def as_json(self) -> dict[str, object]:
        return {
            "target": self.target,
            "cases": self.cases,
            "seed": self.seed,
            "seed_files": self.seeds,
            "outcomes": dict(sorted(self.outcomes.items())),
            "failures": [str(failure) for failure in self.failures[:MOST_KEPT]],
            "failure_count": len(self.failures),
            "causes": len(self.causes),
            "seconds": round(self.seconds, 1),
            "slowest_case_seconds": round(self.slowest, 3),
            "peak_resident_growth_bytes": self.peak,
            "peak_traced_bytes": self.traced,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }


def case_bytes(name: str, seeds: list[bytes], seed: int, case: int) -> bytes:
    """The bytes of a case of a target."""
    rng = random.Random(f"{seed}:{case}")
    subject = SUBJECTS[name]
    if subject.change is not None and (rng.random() < 0.5 or not subject.blind):
        return subject.change(rng, rng.choice(seeds), seeds)
    return mutant(rng, seeds)


def attempt(name: str, data: bytes, *, traced: bool = False) -> Verdict:
    """Send a file through a target, and judge what happens."""
    subject = SUBJECTS[name]

    def action() -> None:
        # As a user's command would; the target runs whatever was found.
        with budget.limited(BUDGET):
            with contextlib.suppress(FormatError):
                detect(data)
            subject.target(data)

    return judge(action, len(data), seconds=subject.seconds, traced=traced)


def fuzz(
    name: str,
    cases: int,
    seed: int,
    *,
    first: int = 0,
    seeds: list[bytes] | None = None,
    began: Callable[[int], None] = lambda case: None,
    until: float = float("inf"),
) -> Result:
    """Run cases of a target.

    Args:
        name: the target.
        cases: how many.
        seed: of the random numbers.
        first: number of the first case.
        seeds: files to start from, None to make them.
        began: told of each case before it runs.
        until: monotonic time after which no case begins but the first.
    """
    seeds = SUBJECTS[name].seeds() if seeds is None else seeds
    result = Result(name, seed, len(seeds))
    start = time.perf_counter()
    for case in range(first, first + cases):
        if case > first and time.monotonic() > until:
            break
        began(case)
        traced = case % EVERY == 0
        try:
            data = case_bytes(name, seeds, seed, case)
        except Exception as error:
            trace = traceback.format_exc()
            verdict = Verdict(UNMADE, f"{UNMADE}: {error!r}", UNMADE, trace=trace)
        else:
            verdict = attempt(name, data, traced=traced)
        result.count(case, verdict, traced=traced)
        if verdict.outcome == "hang":
            # Threads may still be under way; the caller goes on in another process.
            break
    result.seconds = time.perf_counter() - start
    return result
