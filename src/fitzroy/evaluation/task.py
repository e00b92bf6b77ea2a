"""What is to be evaluated, as a value that goes to other processes, and the work on an example."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property

from fitzroy.base.closing import Closing
from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.reference import evaluate
from fitzroy.driver.runtime.devices import DeviceOptions
from fitzroy.evaluation.data import Data, Example, class_number, open_data
from fitzroy.evaluation.metrics import METRICS, Metric, Outcome, Record
from fitzroy.execution import arrays
from fitzroy.execution.devices import TWIN, open_device
from fitzroy.execution.inputs import Port
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.objects import objects_of
from fitzroy.execution.parts import Host
from fitzroy.formats import custom_op, tflite
from fitzroy.hw_models.numerics import Arithmetic

LITERT = "litert"
"""Name of LiteRT among devices: it computes models that are not compiled."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A model and what computes it.

    Attributes:
        path: its file.
        device: name of the device of a compiled model, see `fitzroy.execution.devices`, or
            ``litert``; None for the device that is attached, and for the reference semantics of a
            model that is not compiled.
        options: how to use the device.
        prove: how many inferences to repeat on the simulated chip.
        how: how an ONNX model is read, whose images keep the model's own order; of a compiled
            model, how the source of its twin is read. TFLite models have nothing to say there.
    """

    path: str
    device: str | None = None
    options: DeviceOptions | None = None
    prove: int = 0
    how: Reading = field(default=PLAINLY, hash=False)

    @property
    def on_twin(self) -> bool:
        """Whether a device reads the source of the model."""
        return (self.device or "").startswith(f"{TWIN}:")


@dataclass(frozen=True, slots=True)
class Task:
    """An evaluation.

    Attributes:
        model: the model.
        data: file or folder of the data, see `fitzroy.evaluation.data`.
        metrics: what is measured, keys of `METRICS`.
        against: another model that says what is right.
        images: folder of the pictures of a COCO file.
        labels: file with the names of classes; empty for those that the model has.
        most: take as many examples.
        rule: what pixels become.
    """

    model: Subject
    data: str
    metrics: tuple[str, ...]
    against: Subject | None = None
    images: str = ""
    labels: str = ""
    most: int | None = None
    rule: arrays.Normalization | None = None

    def check(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            UsageError: no such metric, or one that needs another model.
        """
        for name in self.metrics:
            if name not in METRICS:
                raise UsageError(f"no metric {name!r}", reason=f"there are {', '.join(METRICS)}")
            if METRICS[name].needs_other and self.against is None:
                raise UsageError(
                    f"{name} compares with another model", hint="give it: --against MODEL"
                )

    def opened_data(self) -> Data:
        """The data, after what cannot be measured on it is refused.

        Raises:
            UsageError: as `check`; the data cannot be read, or do not suit a metric.
            FormatError: they are malformed.
        """
        self.check()
        data = open_data(self.data, self.images, self.most)
        for name in self.metrics:
            METRICS[name].check(data)
        return data

    def open(self) -> Work:
        """Open models and data.

        Raises:
            FitzroyError: one of them cannot be opened, or they do not fit.
        """
        return Work(self, self.opened_data())

    def key(self, data: Data) -> str:
        """A digest of all that records depend on; devices do not matter."""
        digest = hashlib.sha256(data.fingerprint.encode())
        for subject in filter(None, (self.model, self.against)):
            digest.update(hashlib.sha256(read_file(subject.path)).digest())
            if subject.how != PLAINLY:
                digest.update(repr(subject.how).encode())
        labels = read_file(self.labels) if self.labels else b""
        digest.update(repr((self.metrics, self.rule, labels)).encode())
        return digest.hexdigest()


class Opened(Closing):
    """A model that computes.

    Attributes:
        graph: the model.
        description: what computes it.
        inputs: its inputs.
    """

    def __init__(self, subject: Subject) -> None:
        self._stack = ExitStack()
        self._interpreter: Interpreter | None = None
        data = read_file(subject.path)
        if data[4:8] != tflite.IDENTIFIER:
            _refuse_device(subject)
            self.graph = load(subject.path, replace(subject.how, keep_layout=True))
            self.description = "numpy"
        else:
            compiled = bool(custom_op.extract(tflite.read_model(data, subject.path), subject.path))
            self.description = self._interpret(subject, compiled)
        self.inputs = tuple(Port(name, self.graph.type(name)) for name in self.graph.inputs)

    def _interpret(self, subject: Subject, compiled: bool) -> str:
        """Open a TFLite model; what computes it."""
        host, device, description = Host.REFERENCE, None, "numpy"
        if subject.device == LITERT:
            if compiled:
                raise UsageError(
                    "LiteRT has no Edge TPU", where=subject.path, hint="name another --device"
                )
            host, description = Host.LITERT, "LiteRT"
        elif compiled:
            chosen = open_device(
                subject.device or "auto",
                subject.options,
                prove=subject.prove,
                how=subject.how if subject.on_twin else PLAINLY,
            )
            device = self._stack.enter_context(chosen)
            description = device.description
        else:
            _refuse_device(subject)
        self._interpreter = Interpreter(subject.path, device=device, host=host)
        self._stack.enter_context(self._interpreter)
        self.graph = self._interpreter.graph
        return description

    def run(self, images: Sequence[Mapping[str, Array]]) -> list[list[Array]]:
        """Outputs in order for each of some examples; states begin at zero."""
        names = self.graph.outputs
        if self._interpreter is None:
            found = [evaluate(self.graph, dict(one), Arithmetic.XNNPACK) for one in images]
        else:
            self._interpreter.reset_all_variables()
            found = self._interpreter.run_images(images)
        return [[one[name] for name in names] for one in found]

    def close(self) -> None:
        """Give the device back."""
        self._stack.close()


def _refuse_device(subject: Subject) -> None:
    if subject.device is not None:
        raise UsageError(
            f"--device {subject.device} is for models that are compiled for the Edge TPU",
            where=subject.path,
            hint="compile it first: fitzroy compile MODEL",
        )


@dataclass
class Work(Closing):
    """Models and data of a task, open in this process.

    Attributes:
        task: the task.
        data: its data.
    """

    task: Task
    data: Data
    _stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        task = self.task
        self.metrics: tuple[Metric, ...] = tuple(METRICS[name] for name in task.metrics)
        self._given = arrays.load_labels(task.labels) if task.labels else None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Numbers of classes by their names: those that are given, or those of the model."""
        names = self.model.graph.labels if self._given is None else self._given
        return {label: number for number, label in names.items()}

    @cached_property
    def model(self) -> Opened:
        """The model, opened when it is first needed."""
        return self._stack.enter_context(Opened(self.task.model))

    @cached_property
    def other(self) -> Opened | None:
        """The model that it is compared with."""
        subject = self.task.against
        return None if subject is None else self._stack.enter_context(Opened(subject))

    def close(self) -> None:
        """Give devices back."""
        self._stack.close()

    def records(self, numbers: Sequence[int]) -> Iterator[Record]:
        """What metrics keep of some examples, in their order.

        Args:
            numbers: numbers of the examples.

        Raises:
            FitzroyError: an example cannot be read, a device fails, or a metric does not suit.
        """
        found = self._outputs(self.model, numbers)
        others = self._outputs(self.other, numbers) if self.other is not None else None
        for place, number in enumerate(numbers):
            example = self.data.examples[number]
            outcome = Outcome(
                example=example,
                graph=self.model.graph,
                outputs=found[place],
                right=self._class(example),
                objects=objects_of(self.model.graph, found[place]),
            )
            if others is not None and self.other is not None:
                outcome.other_graph, outcome.others = self.other.graph, others[place]
                outcome.other_objects = objects_of(self.other.graph, others[place])
            yield {"example": number} | {
                metric.name: metric.record(outcome) for metric in self.metrics
            }

    def _outputs(self, model: Opened, numbers: Sequence[int]) -> list[list[Array]]:
        names = [port.name for port in model.inputs]
        images = [
            dict(zip(names, self.data.read(number, model.inputs, self.task.rule), strict=True))
            for number in numbers
        ]
        return model.run(images)

    def _class(self, example: Example) -> int | None:
        """Number of the right class, None if it is unknown."""
        if not example.label:
            return None
        return class_number(
            example.label,
            self._numbers,
            where=os.path.join(self.task.data, example.name),
            hint="name the file of labels: --labels FILE",
        )
