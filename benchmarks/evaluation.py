"""One evaluation of 10,000 pictures in several ways, whose reports have to be the same.

Pictures are those of handwritten digits that scikit-learn ships, moved, scaled and with noise; the
model is the digit classifier of the examples. One process computes, two do, one breaks off and goes
on, and three workers of a Dask cluster do, of which one is killed on the way.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import fitzroy
from benchmarks.support import ROOT, write_results
from fitzroy.base.types import Array
from fitzroy.evaluation import Evaluation, Subject, Task, evaluate_model
from fitzroy.evaluation.workers import RESOURCE

COUNT = 10_000
WORKERS = 3

_DIGITS = ROOT / "examples" / "models" / "digits.tflite"
_LEVELS = 16
"""Grey levels of scikit-learn's digits."""

_METRICS = ("top1", "top5", "agreement")


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/evaluation.json``.

    Args:
        progress: called with what is under way.
        repeats: number of pictures, 0 for the usual number.

    Returns:
        ways whose report differs from the first one's.
    """
    with tempfile.TemporaryDirectory() as folder:
        task = _task(Path(folder), repeats or COUNT)
        rows, faults = [], []
        reports = list[dict[str, Any]]()
        for name, way in _WAYS.items():
            progress(f"evaluation: {name}")
            start = time.perf_counter()
            found = way(task)
            seconds = time.perf_counter() - start
            reports.append(found.report)
            rows.append({"way": name, "seconds": seconds, "same": reports[-1] == reports[0]})
            if reports[-1] != reports[0]:
                faults.append(f"evaluation: {name} has another report")
    figures = {entry["metric"]: entry["value"] for entry in reports[0]["metrics"]}
    write_results("evaluation", {"examples": repeats or COUNT, "figures": figures, "rows": rows})
    return faults


def _task(folder: Path, count: int) -> Task:
    """The pictures as arrays, and the model for the Edge TPU beside them."""
    model, data = folder / "digits_edgetpu.tflite", folder / "digits.npz"
    model.write_bytes(fitzroy.compile(_DIGITS, target="edgetpu").data)
    pictures, labels = _pictures(count)
    np.savez(data, x=pictures, y=labels)
    subject = Subject(str(model), f"twin:{_DIGITS}")
    return Task(subject, str(data), _METRICS, Subject(str(_DIGITS)))


def _pictures(count: int) -> tuple[Array, Array]:
    """Digits int8[count,8,8,1] with their classes."""
    from sklearn.datasets import load_digits

    found = load_digits()
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(found.images), size=count)
    pictures = found.images[chosen] * rng.uniform(0.7, 1.0, (count, 1, 1))
    pictures = np.stack([np.roll(one, tuple(rng.integers(-1, 2, 2)), (0, 1)) for one in pictures])
    pictures = pictures + rng.normal(0, 1, pictures.shape)
    levels = np.clip(np.rint(pictures * 255 / _LEVELS), 0, 255) - 128
    return levels.astype(np.int8)[..., None], found.target[chosen]


def _broken_off(task: Task) -> Evaluation:
    """Ctrl-C after half of the pictures, then the rest."""
    records = f"{task.data}.jsonl"

    def stop(done: int, count: int, rate: float) -> None:
        if 2 * done > count:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        evaluate_model(task, resume=records, progress=stop)
    return evaluate_model(task, resume=records)


def _clustered(task: Task) -> Evaluation:
    """On a cluster of this machine, of which a worker is killed."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None,
        resources={RESOURCE: 1},
    ) as cluster:  # fmt: skip
        victims = [next(iter(cluster.workers.values())).pid]

        def kill(done: int, count: int, rate: float) -> None:
            if victims and 3 * done > count:
                os.kill(victims.pop(), signal.SIGKILL)

        return evaluate_model(task, scheduler=cluster.scheduler_address, progress=kill)


_WAYS: dict[str, Callable[[Task], Evaluation]] = {
    "one process": evaluate_model,
    "two processes": lambda task: evaluate_model(task, jobs=2),
    "one process, broken off and resumed": _broken_off,
    f"a cluster of {WORKERS} workers, of which one is killed": _clustered,
}
