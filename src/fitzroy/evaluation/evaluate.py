"""An evaluation from beginning to end: what is done is kept, and a report is made of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fitzroy.base.errors import UsageError
from fitzroy.evaluation.data import Data
from fitzroy.evaluation.metrics import METRICS, Figures
from fitzroy.evaluation.records import Records
from fitzroy.evaluation.task import Task
from fitzroy.evaluation.workers import Batches, on_cluster, on_processes, serially

Progress = Callable[[int, int, float], None]
"""Is told how many examples are done, how many there are, and how many a second are computed."""


@dataclass(frozen=True)
class Evaluation:
    """What came out.

    Attributes:
        task: what was evaluated.
        count: how many examples the data has.
        figures: figures by metric, headline first.
        ran_on: what computed, each once.
        computed: how many examples were computed now, and not taken from a file.
        seconds: how long that took.
    """

    task: Task
    count: int
    figures: Mapping[str, Figures]
    ran_on: tuple[str, ...] = ()
    computed: int = 0
    seconds: float = 0.0

    @property
    def report(self) -> dict[str, Any]:
        """What does not depend on who computed it, for JSON."""
        against = self.task.against
        return {
            "model": self.task.model.path,
            "data": self.task.data,
            "against": None if against is None else against.path,
            "examples": self.count,
            "metrics": [
                {
                    "metric": name,
                    "value": next(iter(found.values())),
                    "figures": [{"name": key, "value": value} for key, value in found.items()],
                }
                for name, found in self.figures.items()
            ],
        }

    @property
    def document(self) -> dict[str, Any]:
        """All of it, for JSON."""
        run = {"ran_on": list(self.ran_on), "computed": self.computed, "seconds": self.seconds}
        return self.report | {"run": run}


@dataclass
class _Pace:
    """How many examples a second are computed."""

    count: int = 0
    begin: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begin

    @property
    def rate(self) -> float:
        return self.count / max(self.seconds, 1e-9)


def evaluate_model(
    task: Task,
    *,
    jobs: int = 1,
    scheduler: str = "",
    resume: str = "",
    progress: Progress = lambda done, count, rate: None,
    interrupted: Callable[[Records], None] = lambda records: None,
) -> Evaluation:
    """Evaluate a model over a data set.

    Args:
        task: what to evaluate.
        jobs: processes that compute, each with a device of its own; names of several devices,
            with commas between them, are handed out in turn.
        scheduler: address of a Dask scheduler whose workers compute; empty for none. Workers have
            to reach the files by the same names.
        resume: file of records: what it has is not computed again, and what is computed goes there.
        progress: is told how far it is.
        interrupted: is given what is done when Ctrl-C ends the evaluation.

    Raises:
        UsageError: data, models and metrics do not fit, or options contradict.
        FormatError: a file is malformed.
        DeviceError: a device or the cluster fails.
        SimulationError: a simulated program fails.
    """
    if scheduler and jobs > 1:
        raise UsageError("--jobs and --scheduler contradict", reason="workers are processes")
    data = task.opened_data()
    count = len(data)
    with Records(task.key(data), count, resume) as records:
        pace, ran_on = _Pace(), dict[str, None]()
        try:
            for where, found in _batches(task, data, records.left, jobs, scheduler):
                records.add(found)
                pace.count += len(found)
                ran_on[where] = None
                progress(count - len(records.left), count, pace.rate)
        except KeyboardInterrupt:
            interrupted(records)
            raise
        rows = [records.found[number] for number in range(count)]
    figures = {
        name: METRICS[name].figures([row[name] for row in rows], data) for name in task.metrics
    }
    return Evaluation(task, count, figures, tuple(sorted(ran_on)), pace.count, pace.seconds)


def _batches(task: Task, data: Data, left: list[int], jobs: int, scheduler: str) -> Batches:
    if not left:
        return iter(())
    if scheduler:
        return on_cluster(task, left, scheduler)
    devices = (task.model.device or "").split(",")
    jobs = max(jobs, len(devices))
    return serially(task, data, left) if jobs == 1 else on_processes(task, left, jobs, devices)
