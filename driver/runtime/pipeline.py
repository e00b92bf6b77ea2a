"""Requests in the background: while one is received, the next one is sent.

What a program has to be sent may start as soon as all of its predecessor has been sent. Its last
bytes are withheld until the predecessor has all its outputs: so a byte of these that was lost is
missed, and never taken from the next program. When anything fails, all requests under way start
anew, one after the other.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from fitzroy.driver.device.connection import ThermalError
from fitzroy.driver.runtime.engine import Engine
from fitzroy.driver.runtime.requests import Job
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import INTERRUPT_TAGS

_WITHHELD = BEAGLE.usb.super_packet
"""Bytes that are withheld."""


class Pipeline:
    """A thread that carries out what is put into it.

    Args:
        engine: the device.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._under_way: tuple[Job, ...] = ()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="edgetpu", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Append a job."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def close(self, *, abandon: bool = False) -> None:
        """End what is under way, and cancel what has not begun.

        Args:
            abandon: cancel what is under way as well.
        """
        with self._changed:
            self._closed = True
            for job in (*self._jobs, *(self._under_way if abandon else ())):
                if job.request is not None:
                    job.request.cancel()
            self._changed.notify()
        self._thread.join()

    def _take(self) -> Job | None:
        """The next job, None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            return self._jobs.popleft() if self._jobs else None

    def _serve(self) -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="edgetpu-outputs") as receiver:
            while (job := self._take()) is not None:
                following: Job | None = job if job.start() else None
                with self._engine.turn():
                    while following is not None:
                        self._under_way = (following,)
                        following = self._advance(following, receiver)
                    self._under_way = ()

    def _advance(self, job: Job, receiver: ThreadPoolExecutor) -> Job | None:
        """Carry out a job that may have been sent: the next one, if it has been sent meanwhile."""
        engine = self._engine
        if engine.verify:
            job.resolve(partial(engine.settle, job))
            return None
        job.watch.prolong()
        if job.exchange is None:
            try:
                job.watch.check("its turn")
                engine.ready(job.watch)
            except Exception as error:
                job.reject(error)
                return None
        following: Job | None = None
        try:
            if job.exchange is None:
                self._send(job)
            following = self._following(job)
            if following is None:
                self._receive(job)
            else:
                self._overlap(job, following, receiver)
        except Exception as error:
            engine.fail(error)
            self._settle(error, job, following)
            return None
        exchange = job.exchange
        if exchange is not None:
            job.resolve(partial(job.outputs, exchange))
        return following

    def _settle(self, error: Exception, *jobs: Job | None) -> None:
        """Carry out jobs that an error has met, one after the other."""
        for job in filter(None, jobs):
            if isinstance(error, ThermalError):
                job.reject(error)
            else:
                job.resolve(partial(self._engine.settle, job))

    def _following(self, job: Job) -> Job | None:
        """The next job, if it can be sent while this one is received."""
        if not job.prepared.overlaps:
            return None
        with self._changed:
            while self._jobs and self._may_follow(self._jobs[0]):
                found = self._jobs.popleft()
                if found.start():
                    self._under_way = (job, found)
                    return found
        return None

    def _may_follow(self, job: Job) -> bool:
        lacking = self._engine.cache.lacks(job.program.main, job.program.caching)
        return not lacking and job.prepared.events == INTERRUPT_TAGS and bool(job.prepared.head)

    def _send(self, job: Job) -> None:
        exchange = job.begin()
        self._engine.prepare(job)
        for action in job.prepared.head:
            action(exchange, self._engine.connection.streams, job.watch)

    def _receive(self, job: Job) -> None:
        streams, exchange = self._engine.connection.streams, job.exchange
        if exchange is not None:
            for action in job.prepared.tail:
                action(exchange, streams, job.watch)
            streams.finish()

    def _overlap(self, job: Job, following: Job, receiver: ThreadPoolExecutor) -> None:
        streams, watch = self._engine.connection.streams, following.watch
        received = receiver.submit(self._receive, job)
        try:
            exchange = following.begin()
            self._engine.prepare(following)
            *first, last = following.prepared.head
            for action in first:
                action(exchange, streams, watch)
            early, late = last.of(exchange).divided(_WITHHELD)
            streams.begin(early.tag, early.size + late.size, watch)
            streams.go_on(early, watch)
        finally:
            received.result()
        streams.go_on(late, watch)
