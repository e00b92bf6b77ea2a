"""The model that a test file is about, and the device that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.compilation.build import compile
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import Graph
from fitzroy.driver.runtime.devices import Device, DeviceOptions
from fitzroy.execution.devices import TWIN, open_device
from fitzroy.execution.twin import TwinDevice
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.detect import FileKind, detect

Progress = Callable[[str], None]

Opening = Callable[[str, Graph | None], AbstractContextManager[Device]]
"""Opens a device by its name, for a model before it was compiled, if that is known."""


@dataclass(frozen=True)
class Subject:
    """A compiled model.

    Attributes:
        data: the model.
        source: the model before it was compiled; None if it is not known.
    """

    data: bytes
    source: Graph | None = None

    @property
    def operators(self) -> frozenset[str] | None:
        """Names of the operators of the model before it was compiled; None if unknown."""
        if self.source is None:
            return None
        return frozenset(node.spelled.upper() for node in self.source.nodes())


def subject(
    path: str,
    source: str = "",
    options: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
    how: Reading = PLAINLY,
) -> Subject:
    """A compiled model, compiled here if it is not yet.

    Args:
        path: its file.
        source: the model that a compiled one was compiled from; empty if it is not known.
        options: options of the compiler by name, for a model that is not compiled.
        progress: is told what is under way.
        how: what to read of the model before it is compiled, or of the source.

    Raises:
        UsageError: a file cannot be read, or source or options contradict the model.
        FormatError: a file is malformed.
        UnsupportedError: the model cannot be compiled.
        CapacityError: it does not fit the chip.
    """
    data, options = read_file(path), dict(options or {})
    if detect(data, path) is FileKind.TFLITE:
        model = tflite.read_model(data, path)
        if custom_op.extract(model, path, data):
            if options:
                raise UsageError("options of the compiler for a model that is compiled", where=path)
            if how != PLAINLY and not source:
                raise UsageError(
                    "shapes or values of inputs for a model that is compiled",
                    reason="its shapes are fixed, and its source is not named",
                    where=path,
                )
            return Subject(data, load(source, how) if source else None)
    if source:
        raise UsageError("a source for a model that is not compiled", where=path)
    progress("compiling")
    made = compile(path, target="edgetpu", how=how, **options)
    return Subject(made.data, load(path, how))


def opened(device: str, source: Graph | None, options: DeviceOptions | None = None) -> Device:
    """A device by its name, the twin among them.

    Args:
        device: a name that `open_device` knows, or ``twin`` for that of the source.
        source: the model before it was compiled; None if it is not known.
        options: how to use the device; they have no meaning for the twin.

    Raises:
        UsageError: no such name, or a twin without a source.
        DeviceError: there is no such device, or more than one.
    """
    if device != TWIN:
        return open_device(device, options)
    if source is None:
        raise UsageError(
            "the twin computes the model that the program was compiled from",
            reason="only the compiled one is known",
            hint="name it in the test file: source = 'model.tflite'",
        )
    return TwinDevice(source)
