"""Requests one after the other, with retries: what brings a device from any state to a result."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from fitzroy.base.errors import DeviceError
from fitzroy.driver.device.connection import Connection, ThermalError
from fitzroy.driver.device.limits import ENDED, DeadlineError, Watch
from fitzroy.driver.device.recovery import HOPELESS, recover
from fitzroy.driver.runtime.caching import ParameterCache
from fitzroy.driver.runtime.prepared import Exchange, PreparedExecutable
from fitzroy.driver.runtime.requests import Job, Outputs, Program
from fitzroy.formats.darwinn import Executable, PackageFile
from fitzroy.linker.schedule.check import demand_script

T = TypeVar("T")

_MOST_KEPT = 64
"""Packages, and executables, that are kept ready."""

_FINAL = (*ENDED, ThermalError, *HOPELESS)
"""Errors after which a request is not repeated."""


class Engine:
    """A device, and what is known of its state.

    Args:
        connection: the device.
        verify: repeat every request until two results agree.

    Attributes:
        connection: as given.
        verify: as given.
        cache: parameters that the chip holds.
        recoveries: how often the device had to be brought back.
        loads: how often parameters were loaded.
    """

    def __init__(self, connection: Connection, *, verify: bool = False) -> None:
        self.connection = connection
        self.verify = verify
        self.cache = ParameterCache()
        self.recoveries = 0
        self.loads = 0
        self._turn = threading.Lock()
        self._programs: dict[int, Program] = {}
        self._prepared_by_id: dict[int, PreparedExecutable] = {}
        self._plans_lock = threading.Lock()
        self._fault: DeviceError | None = None

    def program(self, package: PackageFile) -> Program:
        """A package, made ready.

        Raises:
            FormatError: the package makes no sense, or its script is not that of its program.
        """
        # Whatever is kept holds what its key is the id of, so that nothing else gets that id.
        found = self._programs.get(id(package))
        if found is None:
            main, caching = package.main, package.caching
            if caching is not None:
                # A fault in it is found before anything is sent.
                self._prepared(caching)
            found = Program(package, main, caching, self._prepared(main))
            with self._plans_lock:
                _keep(self._programs, id(package), found)
        return found

    def _prepared(self, executable: Executable) -> PreparedExecutable:
        found = self._prepared_by_id.get(id(executable))
        if found is None:
            found = PreparedExecutable(executable)
            # Afterwards, because it says more of a script that makes no sense at all.
            if found.goes_by_hints:
                demand_script(executable)
            with self._plans_lock:
                _keep(self._prepared_by_id, id(executable), found)
        return found

    @contextmanager
    def turn(self, watch: Watch | None = None) -> Iterator[None]:
        """Have the device for oneself.

        Raises:
            DeadlineError: others have it for too long.
        """
        self.take_turn(watch)
        try:
            yield
        finally:
            self.end_turn()

    def take_turn(self, watch: Watch | None = None) -> None:
        """Have the device for oneself from now on; see `turn`."""
        if self._turn.acquire(blocking=False):
            return
        # Those before it are held to limits of their own.
        if not self._turn.acquire(timeout=-1 if watch is None else max(watch.most_left, 0.0)):
            raise DeadlineError(
                f"no result within {watch.seconds if watch else 0:g} s",
                reason="other requests have the device",
                where=self.connection.path,
            )

    def end_turn(self) -> None:
        """Let others have it."""
        self._turn.release()

    def fail(self, error: BaseException) -> None:
        """Note that something went wrong, and that nobody knows what state the device is in."""
        self._fault = (
            error
            if isinstance(error, DeviceError)
            else DeviceError("a request was left in the middle", reason=repr(error))
        )

    def settle(self, job: Job) -> Outputs:
        """The outputs of a job; twice the same if that is wanted.

        Raises:
            DeviceError: the device failed in every attempt, or the job has no time for more.
        """
        outputs = self._insist(job)
        while self.verify:
            again = self._insist(job)
            if again.stream == outputs.stream:
                break
            outputs = again
        return outputs

    def _insist(self, job: Job) -> Outputs:
        last = job.attempts + self.connection.limits.retries
        while True:
            job.watch.check("its turn")
            # What recovery cannot mend, another attempt cannot either.
            self.ready(job.watch)
            try:
                return self._attempt(job)
            except _FINAL:
                raise
            except DeviceError:
                if job.attempts > last:
                    raise

    def _attempt(self, job: Job) -> Outputs:
        try:
            exchange = job.begin()
            self.prepare(job)
            self._carry_out(job.prepared, exchange, job.watch)
        except BaseException as error:
            self.fail(error)
            raise
        return job.outputs(exchange)

    def prepare(self, job: Job) -> None:
        """Load the parameters of a job's package unless the chip has them.

        Raises:
            DeviceError: the device fails.
        """
        caching = job.program.caching
        lacking = self.cache.lacks(job.program.main, caching)
        self.cache.enter(job.program.main)
        if lacking and caching is not None:
            prepared = self._prepared(caching)
            self.connection.announce(prepared.events)
            self._carry_out(prepared, prepared.exchange(prepared.encoded({})), job.watch)
            self.cache.add(caching)
            self.loads += 1
        self.connection.announce(job.prepared.events)

    def _carry_out(self, prepared: PreparedExecutable, exchange: Exchange, watch: Watch) -> None:
        streams = self.connection.streams
        for send in prepared.head:
            send(exchange, streams, watch)
        for action in prepared.tail:
            action(exchange, streams, watch)
        streams.settle(watch)
        streams.finish()

    def ready(self, watch: Watch) -> None:
        """Open the device if it is not, and bring it back after an error.

        Raises:
            DeviceError: that is not possible; the error says what to do.
        """
        fault = self._fault
        if fault is None and self.connection.opened:
            return
        self.cache.forget()
        if fault is None:
            try:
                self.connection.open(watch)
                return
            except ENDED:
                raise
            except DeviceError as error:
                fault = error
        self.recoveries += 1
        recover(self.connection, fault, watch)
        self._fault = None

    def close(self) -> None:
        """Close the device."""
        self.connection.close()
        self.cache.forget()


def _keep(kept: dict[int, T], key: int, item: T) -> None:
    """Keep one more; the oldest goes when there are too many."""
    kept[key] = item
    while len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]
