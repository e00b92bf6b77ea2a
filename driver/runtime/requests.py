"""Requests to an accelerator: what they hold, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from fitzroy.base.types import Array
from fitzroy.driver.device.limits import Watch
from fitzroy.driver.runtime.prepared import Exchange, PreparedExecutable, Source
from fitzroy.formats.darwinn import Executable, PackageFile


class Outputs:
    """What a package computed.

    Args:
        prepared: the executable that did.
        exchange: what came.
        attempts: how often the request was tried.

    Attributes:
        tensors: bytes of every output in the order of its elements, by layer name.
        attempts: as given.
    """

    def __init__(self, prepared: PreparedExecutable, exchange: Exchange, attempts: int) -> None:
        self.tensors: Mapping[str, Array] = prepared.tensors(exchange)
        self.attempts = attempts
        self._prepared = prepared
        self._exchange = exchange

    @property
    def buffers(self) -> Mapping[str, Array]:
        """Bytes of every output as the device sends them, by layer name."""
        return self._prepared.buffers(self._exchange)

    @property
    def stream(self) -> bytes:
        """All bytes that left the device, in order."""
        return b"".join(self._exchange.stream)


class Request(Future[Outputs]):
    """A request under way: a future whose cancellation also ends what has begun.

    Args:
        watch: its deadline.
    """

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def cancel(self) -> bool:
        """Do without the result; what has begun ends with `RequestCancelledError`.

        Returns:
            False if the result is there already.
        """
        if super().cancel():
            return True
        if self.done():
            return False
        self._watch.cancel()
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A package, made ready.

    Attributes:
        package: the package.
        main: the executable that computes.
        caching: the one that loads its parameters, None if nothing has to be loaded.
        prepared: `main`.
    """

    package: PackageFile
    main: Executable
    caching: Executable | None
    prepared: PreparedExecutable


class Job:
    """A request with all that it needs.

    Args:
        program: what is to be run.
        inputs: encoded inputs.
        watch: deadline.

    Attributes:
        program: as given.
        prepared: the executable that computes.
        watch: as given.
        request: what its owner holds.
        exchange: data of the attempt under way, None before the first one.
        attempts: how many there were.
    """

    __slots__ = ("_inputs", "attempts", "exchange", "prepared", "program", "request", "watch")

    def __init__(self, program: Program, inputs: Sequence[Source], watch: Watch) -> None:
        self.program = program
        self.prepared = program.prepared
        self.watch = watch
        self.request: Request | None = None
        self.exchange: Exchange | None = None
        self.attempts = 0
        self._inputs = inputs

    def begin(self) -> Exchange:
        """The data of another attempt."""
        self.attempts += 1
        self.exchange = exchange = self.prepared.exchange(self._inputs)
        return exchange

    def outputs(self, exchange: Exchange) -> Outputs:
        """What came of an attempt."""
        return Outputs(self.prepared, exchange, self.attempts)

    def start(self) -> bool:
        """Whether its owner still wants it."""
        return self.request is None or self.request.set_running_or_notify_cancel()

    def resolve(self, result: Callable[[], Outputs]) -> None:
        """Give its owner a result, or the error that comes instead."""
        try:
            outputs = result()
        except Exception as error:
            self.reject(error)
        else:
            if self.request is not None:
                self.request.set_result(outputs)

    def reject(self, error: Exception) -> None:
        """Give its owner an error."""
        if self.request is not None:
            self.request.set_exception(error)
