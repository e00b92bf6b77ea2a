"""Worker processes that hold a runtime.

Runtimes end their process on faults of a file that nobody vouches for, so they run in a child: a
crash or a hang of it becomes a `DeviceError`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, cast

from fitzroy.base.errors import DeviceError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.wire import Message, receive, send

_STDERR_TAIL = 4000


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker process runs.

    Attributes:
        module: its module.
        title: the runtime, for people.
        subject: what the runtime runs, for people.
    """

    module: str
    title: str
    subject: str


class Child:
    """A worker process; every exchange has a deadline.

    Args:
        worker: what it runs.
        timeout: seconds until it has to be there.
        arguments: its arguments.

    Raises:
        DeviceError: it does not start.
    """

    def __init__(self, worker: Worker, timeout: float, arguments: Sequence[str] = ()) -> None:
        self.worker = worker
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        command = [sys.executable, "-m", worker.module, *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors
        )
        self.mark = 0
        self.expired = False
        self.exchange("start", None, (), timeout)

    def exchange(
        self,
        what: str,
        fields: Mapping[str, Any] | None,
        arrays: Sequence[Array],
        timeout: float,
    ) -> Message:
        """Send a message, unless `fields` is None, and wait for one.

        Raises:
            DeviceError: the worker died, or the deadline passed.
        """
        self.mark = os.fstat(self.errors.fileno()).st_size
        watch = threading.Timer(timeout, self.expire)
        watch.daemon = True
        watch.start()
        try:
            if fields is not None:
                send(cast(BinaryIO, self.process.stdin), fields, arrays)
            return receive(cast(BinaryIO, self.process.stdout))
        except (EOFError, OSError) as error:
            raise self.death(what, timeout) from error
        finally:
            watch.cancel()

    def expire(self) -> None:
        """End the process, since it does not answer."""
        self.expired = True
        self.process.kill()

    def death(self, what: str, timeout: float) -> DeviceError:
        """Why there is no answer, of a process that has ended."""
        self.close()
        code = self.process.returncode
        if self.expired:
            reason = f"no answer within {timeout:g} s"
        elif code is not None and code < 0:
            names = {int(number): number.name for number in signal.Signals}
            reason = f"the runtime crashed with {names.get(-code, 'signal')} ({-code})"
        else:
            reason = f"the worker ended with exit code {code}"
        return DeviceError(
            f"{self.worker.title} could not {what} the {self.worker.subject}"
            if what != "start"
            else f"{self.worker.title}'s runtime did not start",
            reason=reason + self.detail(),
        )

    def detail(self) -> str:
        """What the worker printed since the last message was sent, shortened."""
        size = os.fstat(self.errors.fileno()).st_size
        start = max(self.mark, size - _STDERR_TAIL)
        text = os.pread(self.errors.fileno(), size - start, start).decode(errors="replace").strip()
        return f"\n{text}" if text else ""

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    def close(self) -> None:
        """Let the process end."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
