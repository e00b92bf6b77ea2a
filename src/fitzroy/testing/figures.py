"""What a compiled model costs, in figures that tests limit and comparisons compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fitzroy.base.errors import SimulationError
from fitzroy.execution.estimate import Conditions, estimate
from fitzroy.execution.whole import predict
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import Executable, Layer
from fitzroy.linker.packages.container import Container, read_container
from fitzroy.report.phases import phases
from fitzroy.report.run import Run


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that models have.

    Attributes:
        title: what it is, for people.
        unit: its unit, empty for a count.
        better: whether ``less`` or ``more`` of it is better.
    """

    title: str
    unit: str
    better: str = "less"


FIGURES: Mapping[str, Figure] = {
    "latency_us": Figure("predicted latency", "µs"),
    "host_us": Figure("predicted time of operators on the host", "µs"),
    "cycles": Figure("cycles of the chip", ""),
    "measured_us": Figure("measured latency, median", "µs"),
    "measured_p90_us": Figure("measured latency, 90 %", "µs"),
    "measured_p99_us": Figure("measured latency, 99 %", "µs"),
    "first_us": Figure("measured first inference", "µs"),
    "instruction_bytes": Figure("instructions sent", "B"),
    "streamed_bytes": Figure("parameters sent", "B"),
    "input_bytes": Figure("inputs sent", "B"),
    "output_bytes": Figure("outputs received", "B"),
    "transfer_bytes": Figure("transfers of an inference", "B"),
    "cached_bytes": Figure("parameters kept on the chip", "B"),
    "narrow_bytes": Figure("narrow memory per tile", "B"),
    "model_bytes": Figure("file", "B"),
    "programs": Figure("programs on the chip", ""),
    "host_operators": Figure("operators on the host", ""),
    "mapped_operators": Figure("operators on the chip", "", "more"),
}
"""All figures by name. Those that are sent are of one inference, parameters on the chip."""


MEASURED = ("measured_us", "measured_p90_us", "measured_p99_us", "first_us")
"""Figures that only a real device has."""


_ACCURACY = "accuracy of "


def accuracy(name: str) -> str:
    """The name of the figure of labelled samples."""
    return _ACCURACY + name


def figure(name: str) -> Figure:
    """What a figure is.

    Args:
        name: a key of `FIGURES`, or what `accuracy` gave.
    """
    return Figure(name, "%", "more") if name.startswith(_ACCURACY) else FIGURES[name]


def text(kind: Figure, value: float) -> str:
    """A figure for people, with its unit."""
    if kind.unit == "%":
        return f"{100 * value:.2f} %"
    digits = f"{value:,.1f}" if kind.unit == "µs" else f"{value:,.0f}"
    return f"{digits} {kind.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class LayerCost:
    """A layer, or what lies between two fences of a program.

    Attributes:
        name: the source's layer, as short as titles are, and what is done for it.
        cycles: how long it takes.
        layer: the source's layer; empty if that is not known.
        does: what is done; empty if that is the whole name.
    """

    name: str
    cycles: float
    layer: str = ""
    does: str = ""


@dataclass(frozen=True)
class ModelFigures:
    """What a compiled model costs.

    Attributes:
        source: its file.
        values: figures by name, keys of `FIGURES`.
        layers: layers in order; empty if they are not known.
        host: operators that the host computes, and how often each occurs; None if not known.
        doubt: why there are no times; empty if there are.
    """

    source: str
    values: Mapping[str, float]
    layers: tuple[LayerCost, ...] = ()
    host: Mapping[str, int] | None = field(default=None)
    doubt: str = ""


def model_figures(
    data: bytes, path: str = "", conditions: Conditions | None = None
) -> ModelFigures:
    """What a compiled model costs on the timing model.

    Args:
        data: a model, package or executable.
        path: its name, for errors and tables.
        conditions: clock, host and driver.

    Raises:
        UsageError: it is not compiled, or an unknown clock, host or driver.
        FormatError: it is malformed.
        UnsupportedError: a package for a later runtime, or for several chips.
    """
    container = read_container(data, path)
    host = host_operators(container)
    values = _sizes(container)
    if host is not None:
        values["host_operators"] = sum(host.values())
    try:
        times, runs = _times(container, conditions)
    except SimulationError as error:
        # A program that relies on what the chip may not have has sizes, and no time.
        return ModelFigures(path, values, (), host, str(error))
    return ModelFigures(path, times | values, tuple(_layers(runs)), host)


def host_operators(container: Container) -> dict[str, int] | None:
    """Operators that the host computes by their names in TFLite; None for what is no model."""
    model = container.model
    if model is None:
        return None
    names = (
        tflite.operator_name(model, operator)
        for subgraph in model.subgraphs or ()
        for operator in subgraph.operators or ()
    )
    return dict(Counter(name for name in names if name != custom_op.CUSTOM_CODE))


def _sizes(container: Container) -> dict[str, float]:
    main = [package.main for package in container.packages]
    cached = [package.caching for package in container.packages if package.caching is not None]
    sent = {
        "instruction_bytes": sum(map(_instructions, main)),
        "streamed_bytes": sum(map(_parameters, main)),
        "input_bytes": sum(_layer_bytes(item.inputs.values()) for item in main),
        "output_bytes": sum(_layer_bytes(item.outputs.values()) for item in main),
    }
    return {
        **sent,
        "transfer_bytes": sum(sent.values()),
        "cached_bytes": sum(map(_parameters, cached)),
        "narrow_bytes": max(item.used_narrow_memory_bytes_per_tile for item in main),
        "model_bytes": len(container.data),
        "programs": len(main),
    }


def _instructions(executable: Executable) -> int:
    streams = executable.instruction_bitstreams or ()
    return sum(0 if item.bitstream is None else len(item.bitstream) for item in streams)


def _parameters(executable: Executable) -> int:
    return 0 if executable.parameters is None else len(executable.parameters)


def _layer_bytes(layers: Iterable[Layer]) -> int:
    return sum(layer.size_bytes * layer.execution_count_per_inference for layer in layers)


def _times(
    container: Container, conditions: Conditions | None
) -> tuple[dict[str, float], Sequence[Run]]:
    """Predicted times, and an inference of each program.

    Raises:
        SimulationError: a program relies on queues that the chip may not have.
    """
    if container.model is None:
        runs: Sequence[Run] = [
            estimate(package, container.path, conditions) for package in container.packages
        ]
        times = {"latency_us": sum(run.timeline.total for run in runs)}
    else:
        whole = predict(container.data, container.path, conditions)
        runs, times = whole.runs, {"latency_us": whole.total, "host_us": whole.on_host}
    return {**times, "cycles": sum(run.timeline.cycles for run in runs)}, runs


def _layers(runs: Sequence[Run]) -> Iterator[LayerCost]:
    for number, run in enumerate(runs):
        place = f"program {number}: " if len(runs) > 1 else ""
        for item in phases(run):
            yield LayerCost(
                place + item.title, item.cycles, item.layer and place + item.layer, item.name
            )
