"""Time of one inference, against LiteRT with its XNNPACK delegate, on one thread.

Both take turns in one run. Times are those of the bare execution: they are taken inside of the
process that holds the runtime, without copies of inputs and outputs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import fitzroy
from benchmarks.support import (
    INT8_MODEL,
    UINT8_MODEL,
    LiteRT,
    corpus_model,
    image_inputs,
    summary,
    write_results,
)
from fitzroy.driver.runtime import ExecuTorchRuntime

ROUNDS = 40
_PER_ROUND = 10
_WARM_UP = 20
_IMAGE_SEED = 0


@dataclass(frozen=True)
class Case:
    """What to run.

    Attributes:
        model: name in the corpus.
        policy: how uint8 is computed.
        target: largest ratio of our time and LiteRT's, None for a case without target.
    """

    model: str
    policy: str
    target: float | None


CASES = (
    Case(INT8_MODEL, "exact", 1.0),
    Case(UINT8_MODEL, "fast", 0.55),
    Case(UINT8_MODEL, "exact", None),
)


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/run.json``.

    Args:
        progress: called with the name of each step.
        repeats: number of turns of both, 0 for the usual number.

    Returns:
        targets that were missed.
    """
    entries, faults = [], []
    with ExecuTorchRuntime(threads=1) as runtime:
        for case in CASES:
            progress(f"run {case.model} ({case.policy})")
            entry = _measure_case(case, runtime, repeats or ROUNDS)
            entries.append(entry)
            if case.target is not None and float(str(entry["ratio"])) > case.target:
                faults.append(f"run: {case.model} ({case.policy}) takes {entry['ratio']:.3f}")
    write_results("run", {"threads": 1, "cases": entries})
    return faults


def _measure_case(case: Case, runtime: ExecuTorchRuntime, rounds: int) -> dict[str, object]:
    path = corpus_model(case.model)
    graph = fitzroy.load(path)
    inputs = next(image_inputs(graph, 1, _IMAGE_SEED))
    litert = LiteRT(path.read_bytes(), threads=1)
    ours: list[float] = []
    theirs: list[float] = []
    with runtime.load(fitzroy.compile(graph, uint8=case.policy).data) as session:
        session.time(inputs, _WARM_UP)
        litert.time(inputs, _WARM_UP)
        for _ in range(rounds):
            ours += session.time(inputs, _PER_ROUND)
            theirs += litert.time(inputs, _PER_ROUND)
    return {
        "model": case.model,
        "policy": case.policy,
        "ours": summary(ours),
        "litert": summary(theirs),
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "target": case.target,
    }
