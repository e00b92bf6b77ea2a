"""What a person will wait for: an inference of a whole model, operators of the host included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph, Node
from fitzroy.execution.estimate import Conditions, estimate, timed
from fitzroy.execution.host_operators import host_time
from fitzroy.formats import custom_op, tflite
from fitzroy.hw_models.chips.hosts import Host
from fitzroy.hw_models.edgetpu.scalar import UnknownValueError
from fitzroy.linker.packages.container import read_container
from fitzroy.report.run import Run

if TYPE_CHECKING:
    from fitzroy.execution.programs import EdgeTpuProgram

CHIP, HOST = "Edge TPU", "host"
"""Where parts run."""


@dataclass(frozen=True)
class PartTime:
    """A part of an inference.

    Attributes:
        where: `CHIP` or `HOST`.
        what: what it is, for people.
        time: microseconds.
        run: everything that happens in it, of a part on the chip.
    """

    where: str
    what: str
    time: float
    run: Run | None = None


@dataclass(frozen=True)
class Prediction:
    """An inference of a model.

    Attributes:
        parts: its parts in the order in which they run.
    """

    parts: tuple[PartTime, ...]

    @property
    def total(self) -> float:
        """Microseconds of all parts, one after the other."""
        return sum(part.time for part in self.parts)

    @property
    def on_host(self) -> float:
        """Microseconds of operators on the host."""
        return sum(part.time for part in self.parts if part.where == HOST)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The parts on the chip."""
        return tuple(part.run for part in self.parts if part.run is not None)


def document(found: Prediction, host: str) -> dict[str, Any]:
    """A prediction for JSON, of an inference on a host."""
    return {
        "host": host,
        "total_us": found.total,
        "host_us": found.on_host,
        "parts": [{"on": part.where, "what": part.what, "us": part.time} for part in found.parts],
    }


def on_host(graph: Graph, nodes: Sequence[Node], host: Host) -> PartTime:
    """Operators that a host computes."""
    names = ", ".join(dict.fromkeys(node.spelled for node in nodes))
    return PartTime(HOST, names, host_time(graph, nodes, host))


def predict(data: bytes, path: str, conditions: Conditions | None = None) -> Prediction:
    """How long an inference of a compiled model takes once its parameters are on the chip.

    A program whose course depends on data is simulated with inputs of zero.

    Args:
        data: a compiled TFLite model.
        path: its file, for errors.
        conditions: clock, host and driver.

    Raises:
        UsageError: an unknown clock, host or driver; the model has no Edge TPU operator.
        FormatError: the file is malformed.
        SimulationError: a program relies on queues that the chip may not have.
    """
    from fitzroy.execution.programs import EdgeTpuProgram

    conditions = conditions or Conditions()
    profile = conditions.check()
    container = read_container(data, path)
    model = container.model if container.model is not None else tflite.read_model(data, path)
    graph = import_model(model, path=path)
    numbers = {
        item.operator: number
        for number, item in enumerate(custom_op.extract(model, path))
        if item.subgraph == 0
    }

    def place(node: Node) -> int:
        return -1 if node.origin is None else numbers.get(node.origin.index, -1)

    def parts() -> Iterator[PartTime]:
        for number, members in groupby(graph.nodes(), place):
            if number < 0:
                yield on_host(graph, tuple(members), profile.host)
                continue
            run = estimated(EdgeTpuProgram.of(container, number), conditions)
            yield PartTime(CHIP, f"package {number}", run.timeline.total, run)

    return Prediction(tuple(parts()))


def estimated(program: EdgeTpuProgram, conditions: Conditions) -> Run:
    """An inference of a package; with inputs of zero if its course depends on data.

    Args:
        program: the package.
        conditions: clock, host and driver.

    Raises:
        UsageError: an unknown clock, host or driver.
        SimulationError: the program relies on queues that the chip may not have.
    """
    name = f"{program.path}, package {program.number}"
    try:
        return estimate(program.package, name, conditions, program.steps)
    except UnknownValueError:
        from fitzroy.execution.programs import zeros

        inputs = {item: zeros(type) for item, type in program.inputs.items()}
        outputs = program.start(inputs, record=True).finish()
        sizes = {item: len(held) for item, held in outputs.buffers.items()}
        return replace(timed(outputs.stages, name, sizes, conditions), steps=program.steps)
