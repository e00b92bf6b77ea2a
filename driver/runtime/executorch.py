"""Programs on ExecuTorch's own runtime, which lives in a worker process.

The runtime ends its process on faults such as an unaligned pointer or an unplanned output, so it
runs in a child: a crash, a refusal or a hang becomes a `DeviceError`, and the next program gets
another child.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fitzroy.base.closing import Closing
from fitzroy.base.errors import DeviceError, FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array
from fitzroy.driver.runtime.child import Child, Worker
from fitzroy.driver.runtime.session import (
    MethodInfo,
    find_method,
    method_infos,
)
from fitzroy.driver.runtime.wire import Message
from fitzroy.formats import bundled
from fitzroy.formats import executorch as et

STATUS: dict[int, str] = {
    0x00: "no error",
    0x01: "internal fault of the runtime",
    0x02: "the call is not allowed in this state",
    0x03: "the method stands at its end",
    0x04: "already loaded",
    0x10: "not supported",
    0x11: "not implemented by this runtime, such as a node or kernel that it lacks",
    0x12: "invalid argument: a shape, a rank, or parameters of a node",
    0x13: "a value of the wrong kind",
    0x14: "the runtime lacks a kernel that the program calls",
    0x15: "too many kernels are registered",
    0x16: "a kernel is registered twice",
    0x20: "not found: an unknown backend, method, or named constant",
    0x21: "not enough memory, often a planned buffer that is too small",
    0x22: "a file or device could not be accessed",
    0x23: "invalid program: a field that this release requires is missing or wrong",
    0x24: "an external file is invalid",
    0x25: "out of resources",
    0x30: "the delegate was made for another release or backend",
    0x31: "memory for the delegate could not be allocated",
    0x32: "the delegate's handle is invalid",
}
"""Meaning of the runtime's status codes; facts: ``runtime/core/error.h``."""

_WORKER = Worker("fitzroy.driver.runtime.worker", "ExecuTorch", "program")
_CODE = re.compile(r"0x:?([0-9a-fA-F]{1,8})\b")
_VERIFICATION = "Result verification failed"


def available() -> bool:
    """Whether the runtime is installed; nothing is imported."""
    try:
        return (
            importlib.util.find_spec("executorch.extension.pybindings") is not None
            and importlib.util.find_spec("torch") is not None
        )
    except ModuleNotFoundError:
        return False


def explain(text: str) -> str:
    """Meaning of the status code in an error text of the runtime; empty if there is none."""
    if _VERIFICATION in text:
        return "the outputs differ from the expected ones"
    found = [int(code, 16) for code in _CODE.findall(text)]
    known = [code for code in found if code in STATUS]
    return f"status {known[-1]:#x} means {STATUS[known[-1]]}" if known else ""


class ExecuTorchRuntime(Closing):
    """ExecuTorch's runtime with its XNNPACK backend and portable kernels.

    The worker process starts with the first program.

    Args:
        threads: size of the thread pool, or None for the runtime's own choice.
        timeout: seconds after which a load or a run counts as hanging.

    Raises:
        UsageError: the packages are not installed, or a number makes no sense.
    """

    START_TIMEOUT = 120.0

    def __init__(self, *, threads: int | None = None, timeout: float = 60.0) -> None:
        if not available():
            raise UsageError(
                "ExecuTorch's runtime is not installed", hint=install_extra("executorch")
            )
        if threads is not None and threads < 1:
            raise UsageError("a thread pool needs at least one thread", reason=f"{threads} given")
        if timeout <= 0:
            raise UsageError("a timeout must be positive", reason=f"{timeout} s given")
        self.threads = threads
        self.timeout = timeout
        self._child: Child | None = None
        self._count = 0

    def load(self, data: bytes, path: str = "") -> ExecuTorchSession:
        """Load a program from memory; see `Runtime.load`."""
        file = et.read_program(data, path=path)
        return self._load(file, "", [np.frombuffer(data, np.uint8)])

    def load_file(self, path: str | os.PathLike[str]) -> ExecuTorchSession:
        """Load a program from a file, which the runtime maps; see `Runtime.load_file`."""
        file = et.read_program(read_file(path), path=os.fspath(path))
        return self._load(file, os.path.abspath(path), [])

    def _load(self, file: et.ProgramFile, path: str, arrays: Sequence[Array]) -> ExecuTorchSession:
        methods = method_infos(file)
        child = self._worker()
        self._count += 1
        session = ExecuTorchSession(self, child, self._count, methods, file.path)
        session.request("load", {"path": path, "methods": [m.name for m in methods]}, arrays)
        return session

    def verify_bundle(
        self,
        data: bytes,
        method: str = "forward",
        case: int = 0,
        *,
        rtol: float = 1e-5,
        atol: float = 1e-8,
    ) -> None:
        """Let the runtime run a test case of a bundled program and compare the outputs.

        Args:
            data: the bundled program.
            method: name of the method.
            case: index of the test case.
            rtol: relative tolerance of floating-point outputs; others must be equal.
            atol: absolute tolerance of floating-point outputs.

        Raises:
            FormatError: the bytes are no bundled program that runtimes read.
            UsageError: there is no such method or case.
            DeviceError: the outputs differ, or the runtime failed.
        """
        bundle = bundled.read_bundle(data)
        if bundle.identifier != bundled.IDENTIFIER:
            raise FormatError(
                f"runtimes do not read bundles of layout {bundle.identifier.decode()}",
                hint=f"write the bundle as {bundled.IDENTIFIER.decode()}",
            )
        suite = bundle.suite(method)
        if suite is None or not 0 <= case < len(suite.cases):
            count = 0 if suite is None else len(suite.cases)
            raise UsageError(
                f"the bundle has no case {case} for method {method!r}", reason=f"it has {count}"
            )
        room = sum(item.nbytes for item in suite.cases[case].inputs if isinstance(item, np.ndarray))
        fields = {"method": method, "case": case, "rtol": rtol, "atol": atol}
        self._exchange(
            self._worker(),
            "verify",
            {**fields, "input_bytes": 2 * room + 16384},
            [np.frombuffer(data, np.uint8)],
        )

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that this runtime has, such as ``aten::add.out``."""
        return tuple(self._exchange(self._worker(), "kernels", {}, ()).fields["kernels"])

    def close(self) -> None:
        """End the worker process."""
        if self._child is not None:
            self._child.close()
            self._child.errors.close()
            self._child = None

    def _worker(self) -> Child:
        if self._child is not None and not self._child.alive:
            self.close()
        if self._child is None:
            arguments = () if self.threads is None else (str(self.threads),)
            self._child = Child(_WORKER, self.START_TIMEOUT, arguments)
        return self._child

    def _exchange(
        self,
        child: Child,
        command: str,
        fields: Mapping[str, Any],
        arrays: Sequence[Array],
        timeout: float | None = None,
    ) -> Message:
        if child is not self._child or not child.alive:
            raise DeviceError(
                f"ExecuTorch could not {command} the program",
                reason="the worker process that held it has ended",
                hint="load the program again",
            )
        answer = child.exchange(
            command, {"command": command, **fields}, arrays, timeout or self.timeout
        )
        if not answer.fields["ok"]:
            text = answer.fields["reason"]
            meaning = explain(text)
            raise DeviceError(
                f"ExecuTorch could not {command} the program",
                reason=text + (f"; {meaning}" if meaning else "") + child.detail(),
            )
        return answer


class ExecuTorchSession(Closing):
    """A program in the worker process; made by `ExecuTorchRuntime`."""

    def __init__(
        self,
        runtime: ExecuTorchRuntime,
        child: Child,
        number: int,
        methods: tuple[MethodInfo, ...],
        path: str,
    ) -> None:
        self._runtime = runtime
        self._child: Child | None = child
        self._number = number
        self._methods = methods
        self._path = path

    @property
    def methods(self) -> tuple[MethodInfo, ...]:
        """Methods of the program, in order of the file."""
        return self._methods

    def run(self, inputs: Sequence[Array], method: str = "forward") -> list[Array]:
        """Run a method; see `Session.run`."""
        find_method(self._methods, method).check(inputs)
        return list(self.request("run", {"method": method}, inputs).arrays)

    def time(
        self, inputs: Sequence[Array], repeats: int = 10, method: str = "forward"
    ) -> list[float]:
        """Run a method several times.

        Returns:
            seconds of each execution, measured next to the runtime; inputs and outputs are
            not copied meanwhile.

        Raises:
            UsageError: as for `run`, or `repeats` is not positive.
            DeviceError: the runtime failed.
        """
        if repeats < 1:
            raise UsageError("at least one run is needed", reason=f"{repeats} asked for")
        find_method(self._methods, method).check(inputs)
        answer = self.request(
            "time",
            {"method": method, "repeats": repeats},
            inputs,
            timeout=self._runtime.timeout * repeats,
        )
        return [float(value) for value in answer.fields["seconds"]]

    def close(self) -> None:
        """Unload the program."""
        child, self._child = self._child, None
        if child is not None and child is self._runtime._child and child.alive:
            self._runtime._exchange(child, "unload", {"session": self._number}, ())

    def request(
        self,
        command: str,
        fields: Mapping[str, Any],
        arrays: Sequence[Array],
        timeout: float | None = None,
    ) -> Message:
        """Exchange one message about this session with the worker."""
        if self._child is None:
            raise UsageError("the session is closed", where=self._path)
        try:
            return self._runtime._exchange(
                self._child, command, {"session": self._number, **fields}, arrays, timeout
            )
        except DeviceError as error:
            error.where = error.where or self._path
            raise
