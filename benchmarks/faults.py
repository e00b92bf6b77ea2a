"""The fault campaign: what comes of sessions in which several things go wrong."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.driver.fault_campaign import campaign, singles

from benchmarks.support import write_results

SESSIONS = 10_000
SEED = 1

_EVERY = 5
"""Transfers from one session with one fault to the next; tests play the others with ``--full``."""

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
    tally = campaign(repeats or SESSIONS, SEED, progress=played)
    one = singles(_EVERY)
    results = {
        "sessions": repeats or SESSIONS,
        "seed": SEED,
        "cpu_seconds": round(time.process_time() - began),
        **tally.as_json(),
        "single": one.as_json(),
    }
    write_results("faults", results)
    return [f"faults: session {failure}" for failure in one.failures + tally.failures]
