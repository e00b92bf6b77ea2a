"""Cases, labelled samples and latencies of a test file, on a device."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fitzroy.base.errors import FitzroyError, UsageError
from fitzroy.base.progress import counted
from fitzroy.base.types import Array
from fitzroy.driver.runtime.devices import is_accelerator
from fitzroy.evaluation.data import class_number, labelled_files
from fitzroy.evaluation.metrics import ranked
from fitzroy.execution import arrays
from fitzroy.execution.inputs import Port, Sample, samples
from fitzroy.execution.interpreter import Interpreter
from fitzroy.measurement.bench import measure, random_inputs
from fitzroy.testing.expected import deviation, read_expected
from fitzroy.testing.results import Check, Kind, Status, failure, limited
from fitzroy.testing.spec import Accuracy, Case, Spec
from fitzroy.testing.subject import Opening, Progress, Subject

_MOST_SAMPLES = 1 << 20
_NAMED = 3
"""Wrong samples that are named."""


def inferences(
    spec: Spec, found: Subject, device: tuple[str, Opening], progress: Progress = lambda _: None
) -> tuple[str, list[Check]]:
    """What ran the checks of a test file that need inferences, and those checks.

    Args:
        spec: what the test file asks.
        found: the model.
        device: name of the device, and what opens it.
        progress: is told what is under way.

    Raises:
        FitzroyError: the device cannot be opened, or the model cannot be run on the host.
    """
    name, opening = device
    with opening(name, found.source) as chosen:
        interpreter = Interpreter(found.data, device=chosen)
        runner = _Runner(spec, interpreter, spec.labels and spec.file(spec.labels))
        checks = []
        for number, case in enumerate(spec.cases, 1):
            progress(counted("case", number, len(spec.cases), f": {case.name}"))
            checks.append(_checked(Kind.CASE, case.name, partial(runner.case, case)))
        for item in spec.accuracies:
            for k, floor in item.floors.items():
                title = f"{item.name} top-{k}"
                progress(title)
                checks.append(
                    _checked(
                        Kind.ACCURACY,
                        title,
                        partial(runner.accuracy, item, k, floor),
                    )
                )
        if spec.measured:
            progress("measuring")
            checks += _measured(spec, interpreter, is_accelerator(name))
        return chosen.description, checks


def _checked(kind: Kind, name: str, check: Callable[[], Check]) -> Check:
    """A check with its time; an error is a result, too."""
    begin = time.perf_counter()
    try:
        result = check()
    except FitzroyError as error:
        result = failure(kind, name, error)
    return replace(result, seconds=time.perf_counter() - begin)


def _measured(spec: Spec, interpreter: Interpreter, real: bool) -> Iterator[Check]:
    """Whether latencies on a device keep to their limits."""
    if not real:
        for name in spec.measured:
            text = "a simulated device has no latency to measure; limit latency_us"
            yield Check(Kind.LIMIT, name, Status.SKIPPED, text, wanted=spec.limits[name])
        return
    found = measure(interpreter, random_inputs(interpreter), spec.runs)
    values = {
        "measured_us": found.total.percentile(50),
        "measured_p90_us": found.total.percentile(90),
        "measured_p99_us": found.total.percentile(99),
        "first_us": found.first,
    }
    for name in spec.measured:
        yield limited(name, 1e6 * values[name], spec.limits[name])


@dataclass
class _Runner:
    """Runs inferences of a model, and judges outputs.

    Attributes:
        spec: what the test file asks.
        interpreter: the model on its device.
        labels: file with the names of classes; empty for those that the model has.
    """

    spec: Spec
    interpreter: Interpreter
    labels: str

    def __post_init__(self) -> None:
        graph = self.interpreter.graph
        self._ports = tuple(Port(name, graph.type(name)) for name in graph.inputs)
        self._names = arrays.load_labels(self.labels) if self.labels else graph.labels
        self._ranks: dict[str, list[tuple[str, int]]] = {}

    def case(self, case: Case) -> Check:
        """Whether an inference gives what is expected."""
        found = samples(self._ports, [self._located(item) for item in case.inputs], self.spec.model)
        if len(found) != 1:
            raise UsageError(
                f"a case is one inference, and {len(found)} are given", where=self.spec.path
            )
        outputs = self._run(found[0])
        faults = [*self._deviations(case, outputs)]
        if case.top is not None:
            best = self._ranked(outputs)[0]
            wanted = self._class(case.top)
            if best != wanted:
                faults.append(f"the best class is {self._label(best)}, not {self._label(wanted)}")
        status = Status.FAILED if faults else Status.PASSED
        return Check(Kind.CASE, case.name, status, "; ".join(faults) or "as expected")

    def _deviations(self, case: Case, outputs: Sequence[tuple[str, Array]]) -> Iterator[str]:
        """How outputs differ from arrays and digests."""
        if case.expect:
            path = self.spec.file(case.expect)
            expected = read_expected(path, Path(case.inputs[0]).stem)
            for item in expected.deviations(outputs, case.tolerance):
                yield f"{item.output}: {item.text}"
        known = dict(outputs)
        for name, digest in case.sha256.items():
            if not name and len(outputs) == 1:
                name = outputs[0][0]
            if name not in known:
                raise UsageError(
                    f"no output {name!r}" if name else "a digest for several outputs",
                    reason=f"the outputs are {', '.join(map(repr, known))}",
                    where=self.spec.path,
                    hint="name the output: sha256 = { output = '...' }",
                )
            differs = deviation(name, known[name], digest)
            if differs is not None:
                yield f"{name}: {differs.text}"

    def accuracy(self, item: Accuracy, k: int, floor: float) -> Check:
        """Whether enough samples are classified rightly."""
        if item.name not in self._ranks:
            self._ranks[item.name] = [*self._ranked_samples(item)]
        ranks = self._ranks[item.name]
        wrong = [name for name, rank in ranks if rank >= k]
        right = len(ranks) - len(wrong)
        share = right / len(ranks)
        text = f"{right} of {len(ranks)} ({share:.2%}), at least {floor:.2%}"
        if wrong and share < floor:
            more = len(wrong) - _NAMED
            text += f"; wrong are {', '.join(wrong[:_NAMED])}"
            text += f" and {more} more" if more > 0 else ""
        status = Status.PASSED if share >= floor else Status.FAILED
        return Check(Kind.ACCURACY, f"{item.name} top-{k}", status, text, 0.0, share, floor)

    def _ranked_samples(self, item: Accuracy) -> Iterator[tuple[str, int]]:
        """Samples by name, and the place of the right class among all, from 0."""
        found = [*labelled(self.spec.file(item.data), item)]
        if item.most is not None and item.most < len(found):
            found = [found[n * len(found) // item.most] for n in range(item.most)]
        for path, name in found:
            right = self._class(name)
            order = self._ranked(self._run(Sample(path, (path,))))
            rank = order.index(right) if right in order else len(order)
            yield os.path.basename(path), rank

    def _run(self, sample: Sample) -> list[tuple[str, Array]]:
        """Outputs in order."""
        if len(sample.files) != len(self._ports):
            raise UsageError(
                f"{len(sample.files)} files for {len(self._ports)} inputs", where=self.spec.path
            )
        values = sample.read(self._ports, self.spec.rule)
        names = [port.name for port in self._ports]
        self.interpreter.reset_all_variables()
        return list(self.interpreter.run(dict(zip(names, values, strict=True))).items())

    def _ranked(self, outputs: Sequence[tuple[str, Array]]) -> list[int]:
        """Classes of the first vector of scores, the best first."""
        order = ranked(array for _, array in outputs)
        if order is None:
            raise UsageError("no output is a vector of scores", where=self.spec.model)
        return order

    def _class(self, name: int | str) -> int:
        """The number of a class from its label, or from its number."""
        numbers = {label: number for number, label in self._names.items()}
        if isinstance(name, int):
            return name
        hint = "name the file of labels: labels = 'labels.txt'"
        return class_number(name, numbers, where=self.spec.path, hint=hint)

    def _label(self, number: int) -> str:
        return f"{number} ({self._names[number]})" if number in self._names else str(number)

    def _located(self, item: str) -> str:
        """A file of a case relative to the folder of the test file; the name of its input stays."""
        names = [port.name for port in self._ports]
        name, equals, file = item.partition("=")
        if equals and name in (*names, *map(str, range(len(names)))):
            return f"{name}={self.spec.file(file)}"
        return self.spec.file(item)


def labelled(folder: str, item: Accuracy) -> Iterator[tuple[str, str]]:
    """Files with the names of their classes, in order.

    Args:
        folder: where they are.
        item: how their names tell the class.

    Raises:
        UsageError: the folder cannot be read, or a name tells no class.
    """
    try:
        if item.names is None:
            found = [*labelled_files(folder)]
        else:
            names = sorted(name for name in os.listdir(folder) if name[:1] != ".")
            found = [
                (os.path.join(folder, name), _class_of(name, item.names, folder)) for name in names
            ]
    except OSError as error:
        raise UsageError(
            "the folder cannot be read", reason=error.strerror or str(error), where=folder
        ) from None
    if not 1 <= len(found) <= _MOST_SAMPLES:
        raise UsageError(
            f"{len(found)} labelled samples",
            reason=f"1 to {_MOST_SAMPLES} are taken",
            where=folder,
            hint="make a folder for each class, or say how files are named: names = 'a_{class}_'",
        )
    yield from found


def _class_of(name: str, around: tuple[str, str], folder: str) -> str:
    """The class in the name of a file: between what stands before it and what stands after it."""
    before, after = around
    stem = Path(name).stem
    begin = stem.find(before)
    end = stem.find(after, begin + len(before)) if after else len(stem)
    if begin < 0 or end < 0:
        raise UsageError(
            f"the name {name!r} has no class",
            reason=f"it is not of the form {before}{{class}}{after}",
            where=folder,
        )
    return stem[begin + len(before) : end]
