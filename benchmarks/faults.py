"""The fault campaign: what comes of sessions in which several things go wrong."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.driver.fault_campaign import campaign, singles

from benchmarks.support import write_results

SESSIONS = 10_000
SEED = 1

_SAMPLE = 50
"""Of the sessions with one fault, every so many are played when the others are fewer as well."""

_STEP = 500
"""Sessions between two lines about the progress."""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/faults.json``.

    Args:
        progress: called with the number of sessions played, from time to time.
        repeats: number of sessions, 0 for the usual one.

    Returns:
        sessions that ended as none may.
    """

    def played(number: int) -> None:
        if not number % _STEP:
            progress(f"{number} sessions")

    began = time.process_time()
    one = singles(_SAMPLE if repeats else 1)
    tally = campaign(repeats or SESSIONS, SEED, progress=played)
    results = {
        "sessions": repeats or SESSIONS,
        "seed": SEED,
        "cpu_seconds": round(time.process_time() - began),
        **tally.as_json(),
        "single": one.as_json(),
    }
    write_results("faults", results)
    return [f"faults: session {failure}" for failure in one.failures + tally.failures]
