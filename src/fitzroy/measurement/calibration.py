"""The constants of a host, from times of programs on it.

The timing model says how long a program takes with constants that are assumed, and how much more
it would take if each of them were larger. What was measured then tells the constants, by least
squares of relative errors; how well, the same fit tells that leaves out one program at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from fitzroy.base.errors import UsageError
from fitzroy.base.evidence import Evidence
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.driver.runtime.devices import Device
from fitzroy.execution.estimate import Conditions, estimate
from fitzroy.execution.hosts import Profile, made, values
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import FITZROY, LARGE_TRANSFER, USB2, Host
from fitzroy.hw_models.edgetpu.timeline import Timeline
from fitzroy.report.run import Run

CONSTANTS = ("fixed", "link", "large", "output_byte", "output_piece")
"""What is fitted; a rate stands for its time per byte."""

MOST_CONSTANTS = 5
"""Constants of a host that may be fitted."""

_TO_CHIP = ("instructions", "input", "parameters")
_ROUNDS = 3
"""Fits, each around the constants of the one before; the model is not quite linear in them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A program on a host.

    Attributes:
        name: the program.
        measured: microseconds.
        modelled: microseconds with the constants that were assumed.
        terms: microseconds more for a constant that is larger by 1: a millisecond for ``fixed``, a
            nanosecond per byte for ``link``, and the unit of the others.
    """

    name: str
    measured: float
    modelled: float
    terms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Fit:
    """What samples tell.

    Attributes:
        changes: of the constants, in the units of `Sample.terms`.
        errors: of each sample, in percent of what was measured.
        left_out: the same from fits without it; None where the others do not tell the constants.
    """

    changes: Mapping[str, float]
    errors: tuple[float, ...]
    left_out: tuple[float | None, ...]


def terms(timeline: Timeline, positions: int) -> dict[str, float]:
    """How much more an inference takes if constants were larger; see `Sample.terms`.

    Transfers to the chip count as if nothing else happened meanwhile.
    """
    sent = [item.size for item in timeline.transfers if item.kind in _TO_CHIP]
    read = sum(item.size for item in timeline.transfers if item.kind == "output")
    return {
        "fixed": 1000.0,
        "link": sum(sent) / 1000,
        "large": float(sum(size > LARGE_TRANSFER for size in sent)),
        "output_byte": read / 1000,
        "output_piece": positions / 1000,
    }


def fit(samples: Sequence[Sample], names: Sequence[str], least: Mapping[str, float]) -> Fit:
    """Fit constants to samples.

    Args:
        samples: programs with their times.
        names: the constants.
        least: smallest change of each; one that would be less is kept there.

    Raises:
        UsageError: too many constants, or the samples do not tell them apart.
    """
    if len(names) > MOST_CONSTANTS:
        raise UsageError(f"{len(names)} constants of a host, of at most {MOST_CONSTANTS}")
    changes = _solve(samples, names, least)
    if changes is None:
        raise UsageError(
            f"{len(samples)} samples do not tell {len(names)} constants apart",
            reason=", ".join(names),
        )
    left_out: list[float | None] = []
    for index, sample in enumerate(samples):
        others = _solve([*samples[:index], *samples[index + 1 :]], names, least)
        left_out.append(None if others is None else _error(sample, others))
    return Fit(changes, tuple(_error(sample, changes) for sample in samples), tuple(left_out))


def _error(sample: Sample, changes: Mapping[str, float]) -> float:
    predicted = sample.modelled + sum(sample.terms[name] * by for name, by in changes.items())
    return 100 * (predicted / sample.measured - 1)


def _solve(
    samples: Sequence[Sample], names: Sequence[str], least: Mapping[str, float]
) -> dict[str, float] | None:
    """Least squares of relative errors; None if the samples do not tell."""
    free, fixed = list(names), dict[str, float]()
    while True:
        rows = np.array([[item.terms[name] / item.measured for name in free] for item in samples])
        wanted = np.array(
            [
                1
                - (item.modelled + sum(item.terms[name] * fixed[name] for name in fixed))
                / item.measured
                for item in samples
            ]
        )
        if not free:
            return fixed
        scale = np.abs(rows).max(axis=0, initial=0.0) if len(rows) else np.zeros(len(free))
        if len(rows) < len(free) or not scale.all():
            return None
        solution, _, rank, _ = np.linalg.lstsq(rows / scale, wanted, rcond=1e-9)
        if rank < len(free):
            return None
        found = dict(zip(free, (solution / scale).tolist(), strict=True))
        below = [name for name in free if found[name] < least[name]]
        if not below:
            return {**fixed, **found}
        worst = max(below, key=lambda name: (least[name] - found[name]) * scale[free.index(name)])
        fixed[worst] = least[worst]
        free.remove(worst)


def changed(host: Host, changes: Mapping[str, float], source: str) -> Host:
    """A host with other constants; parameters move at the rate of the rest."""
    constants = values(host)
    for name, by in changes.items():
        if name == "link":
            constants["link"] = 1000 / (1000 / constants["link"] + by)
            constants["stream"] = constants["link"]
        else:
            constants[name] = max(0.0, constants[name] + by)
    return made(constants, Evidence.FITTED, source)


def least_changes(host: Host) -> dict[str, float]:
    """Smallest changes that leave every constant of a host possible."""
    found = {name: -getattr(host, name) for name in CONSTANTS if name != "link"}
    # No link is faster than ten gigabytes a second.
    return {**found, "link": 0.1 - 1000 / host.link}


# --- measuring a host -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """A program that is measured.

    Attributes:
        name: what it is for.
        package: the program.
    """

    name: str
    package: PackageFile


def _tensor(shape: tuple[int, ...]) -> TensorType:
    return TensorType(shape, DType.INT8, Quantization((1 / 16,), (0,)))


def _model(shape: tuple[int, ...], channels: int, stride: int) -> Graph:
    """A layer: dense if `shape` has one dimension, else a convolution of single pixels."""
    graph = Graph("trial")
    last = graph.add_input("x", _tensor((1, *shape)))
    depth = shape[-1]
    dense = len(shape) == 1
    weights = np.random.default_rng(0).integers(
        -127, 128, (channels, depth) if dense else (channels, 1, 1, depth), np.int8
    )
    scales = Quantization((1 / (64 * depth),) * channels, (0,) * channels, 0)
    biases = Quantization((1 / (1024 * depth),) * channels, (0,) * channels, 0)
    operands = [
        last,
        graph.add_constant("w", weights, scales),
        graph.add_constant("b", np.zeros(channels, np.int32), biases),
    ]
    if dense:
        result = graph.emit(
            "fully_connected", operands, _tensor((1, channels)), FullyConnectedAttributes()
        )
    else:
        extent = tuple(-(-size // stride) for size in shape[:-1])
        attributes = ConvAttributes(stride=(stride, stride))
        result = graph.emit("conv_2d", operands, _tensor((1, *extent, channels)), attributes)
    graph.outputs = [result]
    return graph


_STREAMING = Options(parameter_rows=0)
_TRIALS: tuple[tuple[str, tuple[int, ...], int, int, Options], ...] = (
    ("nothing", (16,), 8, 1, DEFAULT),
    ("inputs of 27 KB", (96, 96, 3), 8, 8, DEFAULT),
    ("inputs of 49 KB", (128, 128, 3), 8, 8, DEFAULT),
    ("inputs of 197 KB", (256, 256, 3), 8, 16, DEFAULT),
    ("outputs of 64 KB, few positions", (32, 32, 8), 64, 1, DEFAULT),
    ("outputs of 131 KB, few positions", (32, 32, 8), 128, 1, DEFAULT),
    ("outputs of 66 KB, many positions", (128, 128, 1), 4, 1, DEFAULT),
    ("outputs of 147 KB, many positions", (192, 192, 1), 4, 1, DEFAULT),
    ("parameters of 262 KB", (512,), 512, 1, _STREAMING),
    ("parameters of 1 MB", (1024,), 1024, 1, _STREAMING),
)
"""Name, input shape, channels of the output, stride, and how the program is generated."""


def trials(progress: Callable[[str], None] = lambda _: None) -> list[Trial]:
    """Programs that tell the constants of a host apart; the same every time."""
    found = []
    for name, shape, channels, stride, options in _TRIALS:
        progress(f"compiling {name}")
        model = export_model(_model(shape, channels, stride))
        source = Source("trial", 0, model, import_model(model, path="trial"))
        compiled = compile_edgetpu(source, generator=options, costs=None)
        found.append(Trial(name, compiled.segments[0].package))
    return found


def _inputs(package: PackageFile) -> dict[str, Array]:
    return {
        name: np.zeros(layer.packed_bytes * layer.execution_count_per_inference, np.uint8)
        for name, layer in package.main.inputs.items()
    }


def measure(
    device: Device,
    programs: Sequence[Trial],
    runs: int,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[str], None] = lambda _: None,
) -> list[float]:
    """Median microseconds of an inference of each program, parameters loaded.

    Args:
        device: where they run.
        programs: what runs.
        runs: how often, at least once.
        clock: gives seconds.
        progress: is told how far that is.

    Raises:
        DeviceError: the device fails.
    """
    found = []
    for trial in programs:
        progress(f"running {trial.name}")
        inputs = _inputs(trial.package)
        device.run(trial.package, inputs)
        times = []
        for _ in range(runs):
            begin = clock()
            device.run(trial.package, inputs)
            times.append((clock() - begin) * 1e6)
        found.append(median(times))
    return found


def usual(bus: str) -> Host:
    """Constants to begin with, for a host on a bus under the project's driver."""
    link = 36.0 if bus == USB2 else 400.0
    driver = BEAGLE.drivers[FITZROY]
    constants = {
        "bus": bus,
        "fixed": 0.25,
        "link": link,
        "stream": link,
        "large": 0.0,
        "prepare": 0.0,
        "prepare_instructions": 0.0,
        "output_byte": 1000 / link,
        "output_piece": 0.0,
        "read": driver.read_high if bus == USB2 else driver.read,
        "doze": 1000.0,
        "wake": 0.0,
        "compute": 1.0,
        "element": 1.0,
    }
    return made(constants, Evidence.ASSUMED, "to begin with")


@dataclass(frozen=True, slots=True)
class Calibration:
    """A host as it was measured.

    Attributes:
        host: its constants.
        samples: programs, with what the model says of them at the host before the last fit.
        fit: the last fit.
    """

    host: Host
    samples: tuple[Sample, ...]
    fit: Fit


def calibrate(
    programs: Sequence[Trial],
    measured: Sequence[float],
    base: Host,
    conditions: Conditions,
    source: str,
) -> Calibration:
    """The constants of a host from times of programs.

    Args:
        programs: what ran.
        measured: microseconds of each.
        base: constants to begin with; those that are not fitted stay.
        conditions: clock and driver.
        source: where the times are from.

    Raises:
        UsageError: a time is no time, or they do not tell the constants apart.
    """
    for trial, took in zip(programs, measured, strict=True):
        if not 0 < took < float("inf"):
            raise UsageError(f"{took:g} us is no time of an inference", where=trial.name)
    host = base
    for _ in range(_ROUNDS):
        runs = [_run(trial, host, conditions) for trial in programs]
        samples = tuple(
            Sample(trial.name, took, run.timeline.total, terms(run.timeline, run.positions))
            for trial, took, run in zip(programs, measured, runs, strict=True)
        )
        found = fit(samples, CONSTANTS, least_changes(host))
        host = changed(host, found.changes, source)
    return Calibration(host, samples, found)


def _run(trial: Trial, host: Host, conditions: Conditions) -> Run:
    profile = Profile("measured", host)
    return estimate(
        trial.package, trial.name, Conditions(conditions.clock, profile, conditions.driver)
    )
