"""Compiled models in tests: what they compute on a device, and what they cost."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property

from fitzroy.base.closing import Closing
from fitzroy.base.errors import MismatchError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph
from fitzroy.driver.runtime.devices import Device, DeviceOptions
from fitzroy.execution.arrays import Normalization
from fitzroy.execution.devices import TWIN
from fitzroy.execution.estimate import Conditions
from fitzroy.execution.inputs import Port, read_inputs
from fitzroy.execution.interpreter import Interpreter
from fitzroy.testing.figures import ModelFigures, model_figures
from fitzroy.testing.judging import judge
from fitzroy.testing.results import Status, TestReport
from fitzroy.testing.spec import DEVICE, read_spec
from fitzroy.testing.subject import Subject, opened, subject

Model = str | os.PathLike[str]


class Harness(Closing):
    """What the fixture ``edgetpu`` is: a device, and models on it.

    Args:
        device: name of the device, as ``fitzroy test --device`` takes it; None for the simulated
            chip, and for that of a test file.
        options: how to use it.
        conditions: clock, host and driver of predicted times.
    """

    def __init__(
        self,
        device: str | None = None,
        options: DeviceOptions | None = None,
        conditions: Conditions | None = None,
    ) -> None:
        self.device = device or DEVICE
        self._asked = device
        self.conditions = conditions
        self._options = options
        self._own = ExitStack()
        self._shared: Device | None = None

    def close(self) -> None:
        """Give the device back."""
        self._own.close()

    def load(self, model: Model, *, source: Model | None = None, **options: object) -> TestedModel:
        """A model on the device.

        Args:
            model: a compiled model, or one that is compiled for the Edge TPU first.
            source: the model that a compiled one was compiled from, which the twin needs.
            options: options of the compiler by name, for a model that is not compiled.

        Raises:
            UsageError: a file cannot be read, or options contradict the model.
            FormatError: a file is malformed.
            UnsupportedError: the model cannot be compiled.
            DeviceError: the device cannot be opened.
        """
        path = os.fspath(model)
        found = subject(path, "" if source is None else os.fspath(source), options)
        return TestedModel(path, found, self._device(found.source), self.conditions)

    def check(self, spec: Model) -> TestReport:
        """Hold a model to a test file.

        Raises:
            MismatchError: something does not hold; its reason lists what.
            UsageError: the test file cannot be read.
            FormatError: the test file is malformed.
        """
        report = judge(read_spec(os.fspath(spec)), self._asked, opening=self._lent)
        bad = [item for item in report.checks if item.status in (Status.FAILED, Status.ERROR)]
        if bad:
            raise MismatchError(
                f"{len(bad)} of {len(report.checks)} checks did not pass",
                reason="".join(f"\n  {item.kind} {item.name}: {item.text}" for item in bad),
                where=report.path,
            )
        return report

    def _lent(self, name: str, source: Graph | None) -> AbstractContextManager[Device]:
        """A device for a test file: ours, which stays open, or another one."""
        if name == self.device:
            return nullcontext(self._device(source))
        return opened(name, source)

    def _device(self, source: Graph | None) -> Device:
        """The device, which models share; a twin is one of its own model."""
        if self.device == TWIN:
            return self._own.enter_context(opened(TWIN, source))
        if self._shared is None:
            self._shared = self._own.enter_context(opened(self.device, None, self._options))
        return self._shared


class TestedModel:
    """A compiled model on a device.

    Args:
        path: its file.
        found: the model.
        device: the device, which stays open.
        conditions: clock, host and driver of predicted times.
    """

    # Not a class of tests, whatever pytest thinks of its name.
    __test__ = False

    def __init__(
        self, path: str, found: Subject, device: Device, conditions: Conditions | None
    ) -> None:
        self.path = path
        self.data = found.data
        self._conditions = conditions
        self._interpreter = Interpreter(found.data, device=device)

    @cached_property
    def figures(self) -> ModelFigures:
        """What it costs.

        Raises:
            UsageError: an unknown clock, host or driver.
        """
        return model_figures(self.data, self.path, self._conditions)

    @property
    def host(self) -> Mapping[str, int]:
        """Operators that the host computes, and how often each occurs."""
        return self.figures.host or {}

    def run(self, inputs: Mapping[str, Array] | Sequence[Array]) -> dict[str, Array]:
        """Outputs by name, with states of zero.

        Args:
            inputs: arrays by name, or in order.

        Raises:
            UsageError: an input is missing or of another type.
            DeviceError: the device fails.
            SimulationError: the simulated program fails.
        """
        if not isinstance(inputs, Mapping):
            inputs = dict(zip(self._interpreter.graph.inputs, inputs, strict=True))
        self._interpreter.reset_all_variables()
        return self._interpreter.run(inputs)

    def run_files(self, *files: Model, rule: Normalization | None = None) -> dict[str, Array]:
        """Outputs by name, from an image, a ``.npy`` file or raw bytes for each input.

        Args:
            files: one per input, in order.
            rule: what pixels of images become; None for the usual.

        Raises:
            UsageError: a file cannot be read, or does not suit its input.
            FormatError: a file is broken.
        """
        graph = self._interpreter.graph
        ports = [Port(name, graph.type(name)) for name in graph.inputs]
        return self.run(read_inputs(ports, [os.fspath(file) for file in files], rule, self.path))
