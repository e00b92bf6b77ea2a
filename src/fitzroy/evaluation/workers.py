"""Who computes the records of examples: this process, several, or the workers of a cluster.

Every worker opens models and data once, and gets numbers of examples. A worker that dies leaves its
examples to others.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from multiprocessing.queues import Queue
from typing import Any

from fitzroy.base.cores import THREADS, cores
from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.base.installing import install_extra
from fitzroy.driver.runtime.simulator import MOST_IMAGES
from fitzroy.evaluation.data import Data
from fitzroy.evaluation.metrics import Record
from fitzroy.evaluation.task import Task, Work
from fitzroy.execution.devices import ENVIRONMENT

Batch = tuple[str, list[Record]]
"""What computed some examples, and their records."""

Batches = Iterator[Batch]

RESOURCE = "EDGETPU"
"""Resource of a Dask worker that has an Edge TPU, real or virtual."""

_TURNS = 4
"""Batches that each worker gets at least, so that none waits for the others for long."""

_MOST_DEATHS = 3
"""Workers that may die in an evaluation before that is an error."""

_CONNECT_SECONDS = 10


def batches(numbers: Sequence[int], workers: int) -> list[list[int]]:
    """Numbers of examples in pieces for workers."""
    size = max(1, min(MOST_IMAGES, -(-len(numbers) // (_TURNS * workers))))
    return [list(numbers[at : at + size]) for at in range(0, len(numbers), size)]


def serially(task: Task, data: Data, numbers: Sequence[int]) -> Batches:
    """Compute in this process, which has opened the data."""
    with Work(task, data) as work:
        for some in batches(numbers, 1):
            yield _described(work, [*work.records(some)])


def _described(work: Work, records: list[Record]) -> Batch:
    return work.model.description, records


# --- workers -------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _opened(task: Task) -> tuple[Work, threading.Lock]:
    """The models and the data of a task, open until the process ends or has another task."""
    return task.open(), threading.Lock()


def _compute(task: Task, numbers: Sequence[int]) -> Batch:
    """Records of examples, in a worker."""
    device = _DEVICE.get("name")
    if device is None and task.model.device is None:
        device = os.environ.get(ENVIRONMENT)
    if device:
        task = replace(task, model=replace(task.model, device=device))
    work, turn = _opened(task)
    with turn:
        return _described(work, [*work.records(numbers)])


_DEVICE: dict[str, str] = {}
"""The device of this process."""


def _begin(devices: Queue[str]) -> None:
    """Prepare a process: Ctrl-C is for the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _DEVICE["name"] = devices.get()


def on_processes(task: Task, numbers: Sequence[int], jobs: int, devices: Sequence[str]) -> Batches:
    """Compute in processes of this machine.

    Args:
        task: what to evaluate.
        numbers: numbers of the examples.
        jobs: how many processes.
        devices: names of their devices, handed out in turn; "" for what the task says.

    Raises:
        DeviceError: processes die again and again.
    """
    left = batches(numbers, jobs)
    for _ in range(_MOST_DEATHS):
        context = get_context("spawn")
        names = context.Queue()
        for number in range(jobs):
            names.put(devices[number % len(devices)])
        with (
            _threads(max(1, cores() // jobs)),
            ProcessPoolExecutor(jobs, context, _begin, (names,)) as pool,
        ):
            under_way = {pool.submit(_compute, task, some): some for some in left}
            try:
                for done in as_completed(under_way):
                    yield done.result()
                    left.remove(under_way[done])
            except BrokenProcessPool:
                continue
            except BaseException:
                _cancel(under_way)
                raise
        return
    raise DeviceError(
        "processes that evaluate die again and again",
        reason=f"{_MOST_DEATHS} times; the last had {len(left)} batches to do",
        hint="fewer --jobs take less memory",
    )


def _cancel(futures: Mapping[Future[Any], object]) -> None:
    for future in futures:
        future.cancel()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let processes that are started compute with so many threads each."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def on_cluster(task: Task, numbers: Sequence[int], address: str) -> Batches:
    """Compute on the workers of a Dask cluster.

    If a worker has the resource `RESOURCE`, only those that have it compute, one batch at a time
    for each unit of it. A worker's device is what the task says, else what its environment says.

    Args:
        task: what to evaluate.
        numbers: numbers of the examples.
        address: of the scheduler.

    Raises:
        UsageError: Dask is not installed.
        DeviceError: there is no scheduler, or workers die again and again.
    """
    try:
        from distributed import Client
        from distributed import as_completed as completed
        from distributed.scheduler import KilledWorker
    except ImportError:
        raise UsageError(
            "--scheduler needs Dask, which is not installed", hint=install_extra("evaluate")
        ) from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise DeviceError(
            "there is no scheduler", reason=str(error)[:200], where=address,
            hint="start one: dask scheduler",
        ) from None  # fmt: skip
    with client:
        workers = client.scheduler_info()["workers"].values()
        has = any(RESOURCE in worker.get("resources", {}) for worker in workers)
        pieces = batches(numbers, max(1, len(workers)))
        futures = [
            client.submit(
                _compute, _absolute(task), some, pure=False,
                resources={RESOURCE: 1} if has else None,
            )
            for some in pieces
        ]  # fmt: skip
        try:
            for future in completed(futures, loop=client.loop):
                yield future.result()
        except BaseException as error:
            client.cancel(futures)
            if not isinstance(error, KilledWorker):
                raise
            raise DeviceError(
                "workers of the cluster die again and again", reason=str(error)[:200], where=address
            ) from None


def _absolute(task: Task) -> Task:
    """A task whose files have the names that they have from everywhere."""
    other = task.against
    return replace(
        task,
        model=replace(task.model, path=os.path.abspath(task.model.path)),
        against=None if other is None else replace(other, path=os.path.abspath(other.path)),
        data=os.path.abspath(task.data),
        images=os.path.abspath(task.images) if task.images else "",
        labels=os.path.abspath(task.labels) if task.labels else "",
    )
