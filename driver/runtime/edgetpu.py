"""Packages on a Coral USB Accelerator, real or virtual.

A request is a pure function of its inputs, so that it may be repeated: when something goes wrong,
the device is brought back (`driver.device.recovery`) and the request starts anew, as long as its
deadline and `Limits.retries` allow. A request whose deadline has passed, or that was cancelled,
leaves a device that the next request brings back first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from fitzroy.base.errors import DeviceError
from fitzroy.base.progress import counting
from fitzroy.base.types import Array
from fitzroy.driver.device.connection import Connection
from fitzroy.driver.runtime.engine import Engine
from fitzroy.driver.runtime.pipeline import Pipeline
from fitzroy.driver.runtime.requests import Job, Outputs, Request
from fitzroy.formats.darwinn import PackageFile


class EdgeTpu:
    """An accelerator with the parameters that it caches. Requests may come from any thread.

    Args:
        connection: the device; it is opened by the first request, or by `open`.
        description: what it is, for people.
        verify: repeat every inference until two results agree. The device sends no checksums:
            this is the only way to notice outputs that were damaged where USB does not look.
        timeout: seconds of requests that say none; None for those of the limits.
        after: called when the device has been closed.

    Attributes:
        connection: as given.
        description: as given.
    """

    def __init__(
        self,
        connection: Connection,
        description: str = "",
        *,
        verify: bool = False,
        timeout: float | None = None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.connection = connection
        self.description = description or connection.path
        self._engine = Engine(connection, verify=verify)
        self._pipeline: Pipeline | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._after = after
        self._timeout = timeout

    @property
    def recoveries(self) -> int:
        """How often the device had to be brought back."""
        return self._engine.recoveries

    @property
    def loads(self) -> int:
        """How often parameters were loaded."""
        return self._engine.loads

    def open(self) -> Self:
        """Open the device now, and not with the first request.

        Raises:
            DeviceError: it is not there, or does not answer.
        """
        self._check_open()
        limits = self.connection.limits
        watch = limits.watch(limits.request)
        with self._engine.turn(watch):
            self._engine.ready(watch)
        return self

    def run(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Outputs:
        """Execute a package; its parameters are loaded first unless the chip has them.

        Args:
            package: the package.
            inputs: elements of every input tensor as bytes, by layer name; of a batch, one after
                the other.
            timeout: seconds, None for those of the device, else for those of the limits: these
                start anew with the request's turn, and as long as a chip that is simulated says
                that it computes.

        Raises:
            UsageError: an input is missing or unknown.
            FormatError: an input has another size than its layer, or a malformed package.
            DeviceError: the device failed, as its subclasses say; the next request may use it.
        """
        job = self._job(package, inputs, timeout, lent=True)
        self._engine.take_turn(job.watch)
        try:
            self._check_open()
            job.watch.prolong()
            # A simulated chip says how far it is.
            with counting(package.main.bundles):
                return self._engine.settle(job)
        finally:
            self._engine.end_turn()

    def submit(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Request:
        """Execute a package in the background, after those submitted before.

        While the device computes, what the next request has to send is on its way already. With
        asyncio, ``await asyncio.wrap_future(request)``.

        Args:
            package: as `run`.
            inputs: as `run`.
            timeout: as `run`, from now.

        Raises:
            UsageError: as `run`.
            FormatError: as `run`.
        """
        job = self._job(package, inputs, timeout)
        job.request = Request(job.watch)
        with self._lock:
            self._check_open()
            if self._pipeline is None:
                self._pipeline = Pipeline(self._engine)
            self._pipeline.put(job)
        return job.request

    def run_many(
        self,
        package: PackageFile,
        inputs: Iterable[Mapping[str, Array]],
        *,
        timeout: float | None = None,
        ahead: int = 3,
    ) -> Iterator[Outputs]:
        """Outputs for many inputs, in order; the next ones are under way while one is used.

        Args:
            package: as `run`.
            inputs: those of `run`, any number.
            timeout: seconds for each.
            ahead: how many are submitted before their turn.

        Raises:
            DeviceError: as `run`.
        """
        waiting: deque[Request] = deque()
        try:
            for item in inputs:
                waiting.append(self.submit(package, item, timeout=timeout))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for request in waiting:
                request.cancel()

    def close(self, *, abandon: bool = False) -> None:
        """End what is under way, cancel what has not begun, and close the device.

        Args:
            abandon: cancel what is under way as well; so does leaving a context with an error.
        """
        with self._lock:
            self._closed = True
            pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.close(abandon=abandon)
        with self._engine.turn():
            self._engine.close()
        self._after()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(abandon=error is not None)

    def _job(
        self,
        package: PackageFile,
        inputs: Mapping[str, Array],
        timeout: float | None,
        *,
        lent: bool = False,
    ) -> Job:
        program = self._engine.program(package)
        watch = self.connection.limits.of_request(self._timeout if timeout is None else timeout)
        return Job(program, program.prepared.encoded(inputs, lent=lent), watch)

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError("the device was closed", where=self.description)
