"""The model that a test file is about, and the device that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.compilation.build import compile
from fitzroy.compilation.loading import load
from fitzroy.compiler.ir import Graph
from fitzroy.driver.runtime.devices import Device, DeviceOptions, open_device
from fitzroy.execution.twin import TwinDevice
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.detect import FileKind, detect
from fitzroy.testing.spec import Spec

Progress = Callable[[str], None]

TWIN = "twin"
"""The device that computes the model that a program was compiled from."""


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


def subject(spec: Spec, progress: Progress = lambda _: None) -> Subject:
    """The model of a test file, compiled if it is not yet.

    Raises:
        FitzroyError: it cannot be read or compiled.
    """
    path = spec.file(spec.model)
    data = read_file(path)
    if detect(data, path) is FileKind.TFLITE:
        model = tflite.read_model(data, path)
        if custom_op.extract(model, path, data):
            if spec.options:
                raise UsageError(
                    "options of the compiler for a model that is compiled", where=spec.path
                )
            return Subject(data, load(spec.file(spec.source)) if spec.source else None)
    if spec.source:
        raise UsageError("a source of a model that is not compiled", where=spec.path)
    progress("compiling")
    compiled = compile(path, target="edgetpu", **dict(spec.options))
    return Subject(compiled.data, load(path))


def opened(device: str, source: Graph | None, options: DeviceOptions | None = None) -> Device:
    """A device by its name, the twin among them.

    Args:
        device: a name that `open_device` knows, or ``twin``.
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
