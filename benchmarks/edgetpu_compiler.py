"""The compiler for the Edge TPU: what it maps, whether outputs are right, and how fast they come.

Every quantized source model of the corpus is compiled. Each part on the chip runs on the simulator
with random inputs, a random order of engines and random first contents of memories, and is compared
byte by byte with the reference semantics in the arithmetic of the chip. So are random models.

Programs of Google's compiler in the corpus run on the same simulator and the same timing model.
``python -m benchmarks.edgetpu_compiler MODEL`` compiles a model in a process of its own and prints
the time, the peak of memory and the digest of the result.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from pathlib import Path

import numpy as np
from tests.compiler.edgetpu_models import Tally, check, random_inputs
from tests.support import corpus_path

from benchmarks.chip_costs import HOSTS, Costs, bound, least_milliseconds, parameters
from benchmarks.support import INT8_MODEL, ROOT, corpus_model, corpus_sources, write_results
from fitzroy.base.errors import DeviceError, FitzroyError, UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compilation.edgetpu import EdgeTpuCompilation, MappedSegment, compile_edgetpu
from fitzroy.compilation.records import steps_of
from fitzroy.compilation.source import Source
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.driver.runtime.devices import open_device
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.execution.estimate import StepFigures, estimate, steps
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.hw_models.edgetpu.envelope import PROPERTIES
from fitzroy.hw_models.edgetpu.latitude import ANY
from fitzroy.hw_models.isa.forms import form
from fitzroy.report.forms import instructions

SEEDS = (0, 1)
"""Of inputs, of the order of engines and of the first contents of memories."""

RANDOM_MODELS = 2000

MEAN_CYCLES, MOST_CYCLES = 0.55, 1.0
"""Bounds of the ratio of cycles to Google's: geometric mean, and of any model."""

MOST_SECONDS, MOST_BYTES = 2.0, 500e6
"""Bounds of compiling the int8 MobileNet v2: time, and the peak of memory of the process."""

CLOSE = 0.1
"""Share of the timing model's cycles that an estimate may be off."""

_SHARD = 20
"""Random models that a process takes at a time."""


@dataclass
class Estimates:
    """How well the cycles of layers were estimated by which the code generator decides.

    Attributes:
        count: how many layers.
        close: those whose estimate is within `CLOSE` of the timing model's cycles.
        expected: estimated cycles of all of them.
        timed: cycles of the timing model, on its default host.
    """

    count: int = 0
    close: int = 0
    expected: float = 0
    timed: float = 0

    def add(self, expected: float, timed: float) -> None:
        """Count one more layer."""
        self.count += 1
        self.close += abs(expected - timed) <= CLOSE * timed
        self.expected += expected
        self.timed += timed


@dataclass
class Model:
    """A source model of the corpus, compiled.

    Attributes:
        model: its name.
        failure: why it does not compile, empty if it does.
        operators: operators of the model.
        mapped: those on the chip.
        reasons: why the others are not, with how many there are of each.
        segments: parts on the chip.
        bytes: bytes of outputs that were compared, of all seeds together.
        differing: those that differ from the reference in the arithmetic of the chip.
        usb_bytes: bytes of outputs that came through the driver and a virtual accelerator.
        usb_differing: those of them that differ from the same reference.
        largest: largest difference.
        faults: parts whose program fails.
        chunks: chunks of instructions.
        cached: bytes of parameters that stay on the chip.
        streamed: bytes of parameters that come with every inference.
        seconds: time to compile.
        bound: cycles that no program takes less than.
        least: milliseconds of an inference that the host alone takes, by its link.
        ours: costs of an inference, None if nothing runs.
        paced: milliseconds of an inference by link if a device confirmed everything in the program,
            and short chunks.
        layers: layers with an estimate, by their kind.
        google: the same of the program of Google's compiler, None if there is none.
    """

    model: str
    failure: str = ""
    operators: int = 0
    mapped: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    segments: int = 0
    bytes: int = 0
    differing: int = 0
    usb_bytes: int = 0
    usb_differing: int = 0
    largest: int = 0
    faults: list[str] = field(default_factory=list)
    chunks: int = 0
    cached: int = 0
    streamed: int = 0
    seconds: float = 0
    bound: float = 0
    least: dict[str, float] = field(default_factory=dict)
    ours: Costs | None = None
    paced: dict[str, float] = field(default_factory=dict)
    layers: dict[str, Estimates] = field(default_factory=dict)
    google: Costs | None = None

    @property
    def comparable(self) -> bool:
        """Whether at least as much is on the chip as Google's compiler maps."""
        return (
            self.ours is not None
            and self.google is not None
            and self.ours.operators >= self.google.operators
        )


def measured(path: Path, seeds: Sequence[int] = SEEDS, *, costs: bool = True) -> Model:
    """Compile a source model and run its parts.

    Args:
        path: the model.
        seeds: seeds of the runs.
        costs: whether to time it, and the program of Google's compiler.
    """
    entry = Model(name_of(path))
    try:
        # The same operators as Google's compiler maps.
        compiled = compile_edgetpu(path, generator=replace(DEFAULT, reduced=False))
    except FitzroyError as error:
        entry.failure = f"{type(error).__name__}: {error.what}"
        return entry
    _describe(entry, compiled)
    ours = Costs(entry.mapped)
    for part in compiled.segments:
        try:
            _compare(entry, part, seeds)
            if costs:
                ours.add(part.package)
        except FitzroyError as error:
            entry.faults.append(f"{type(error).__name__}: {error.what}")
    if costs and not entry.faults:
        parts = [part.segment.graph for part in compiled.segments]
        entry.ours, entry.bound = ours, bound(parts)
        entry.least = {link: least_milliseconds(parts, link) for link in HOSTS}
        entry.paced = _paced(path, compiled)
        entry.layers = _estimates(compiled)
        entry.google = _google(path, entry.operators)
    return entry


def name_of(path: Path) -> str:
    """Name of a model of the corpus."""
    return str(path.relative_to(corpus_path()).with_suffix(""))


def _describe(entry: Model, compiled: EdgeTpuCompilation) -> None:
    entry.operators = len(compiled.graph.nodes())
    entry.mapped = len(compiled.mapped)
    reasons = Counter(reason.what for reason in compiled.reasons)
    entry.reasons = dict(sorted(reasons.items()))
    entry.segments = len(compiled.segments)
    entry.seconds = compiled.seconds
    for part in compiled.segments:
        entry.chunks += len(part.package.main.instruction_bitstreams or ())
        cached, streamed = parameters(part.package)
        entry.cached += cached
        entry.streamed += streamed


def _compare(entry: Model, part: MappedSegment, seeds: Sequence[int]) -> None:
    graph = part.segment.graph
    for seed in seeds:
        inputs = random_inputs(graph, seed)
        wanted = evaluate_on_device(graph, inputs)
        outputs = SimulatedDevice(seed=seed, latitude=ANY).run(part.package, _raw(inputs)).tensors
        for name in graph.outputs:
            gap = _gap(outputs[name], wanted[name])
            entry.bytes += gap.size
            entry.differing += int(np.count_nonzero(gap))
            entry.largest = max(entry.largest, int(gap.max(initial=0)))
    with open_device("sim") as device:
        # From boot mode, with the inputs of the last seed.
        outputs = device.run(part.package, _raw(inputs)).tensors
        for name in graph.outputs:
            gap = _gap(outputs[name], wanted[name])
            entry.usb_bytes += gap.size
            entry.usb_differing += int(np.count_nonzero(gap))


def _gap(have: Array, want: Array) -> Array:
    """By how much elements differ."""
    return np.abs(have.view(want.dtype).reshape(want.shape).astype(np.int64) - want)


def _raw(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}


def _paced(path: Path, compiled: EdgeTpuCompilation) -> dict[str, float]:
    """Milliseconds of an inference, by link, in short chunks.

    Args:
        path: the model.
        compiled: the model, compiled by default; everything in it counts as confirmed.
    """
    packages = [part.package for part in compiled.segments]
    used = {form(instruction) for _, instruction in instructions(packages)}
    confirmed = frozenset(used | PROPERTIES.keys())
    again = compile_edgetpu(path, generator=replace(DEFAULT, reduced=False, confirmed=confirmed))
    costs = Costs()
    for part in again.segments:
        costs.add(part.package)
    return costs.milliseconds


def _estimates(compiled: EdgeTpuCompilation) -> dict[str, Estimates]:
    """How well the layers of a model were estimated, by their kind; those of a phase together."""
    found: dict[str, Estimates] = {}
    for part in compiled.segments:
        run = estimate(part.package, "", steps=steps_of(part.segment, part.forms))
        emitted = next(stage for stage in part.forms if isinstance(stage, Emitted))
        phases: list[list[StepFigures]] = []
        for item in steps(emitted.marks, run):
            if item.mark.joined:
                phases[-1].append(item)
            else:
                phases.append([item])
        for phase in phases:
            if all(item.mark.cycles for item in phase):
                kind = " + ".join(item.mark.kind for item in phase)
                known = found.setdefault(kind, Estimates())
                known.add(
                    sum(item.mark.cycles for item in phase), sum(item.cycles for item in phase)
                )
    return found


def _google(path: Path, operators: int) -> Costs | None:
    """Costs of the program of Google's compiler for a source model."""
    beside = [path.with_name(path.stem + end) for end in ("_edgetpu.tflite", "-edgetpu.tflite")]
    found = [other for other in beside if other.is_file()]
    if not found:
        return None
    program = EdgeTpuProgram.load(found[0])
    costs = Costs(operators - program.others)
    costs.add(program.package)
    return costs


_CYCLES, _COMPUTING = attrgetter("cycles"), attrgetter("computing")


def ratios(models: Sequence[Model], cost: Callable[[Costs], float]) -> dict[str, float]:
    """Ratio of a cost to that of Google's programs, by model, of those where as much is mapped."""
    return {
        item.model: cost(item.ours) / cost(item.google)
        for item in models
        if item.comparable and item.ours is not None and item.google is not None
    }


def _inference(link: str) -> Callable[[Costs], float]:
    """Milliseconds of an inference behind a link."""
    return lambda costs: costs.milliseconds[link]


def _mean(
    models: Sequence[Model], link: str, milliseconds: Callable[[Model], Mapping[str, float]]
) -> float:
    """The geometric mean of the ratios of some times, by link, to those of Google's programs."""
    return geometric_mean(
        [
            milliseconds(item)[link] / item.google.milliseconds[link]
            for item in models
            if item.comparable and item.google is not None
        ]
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Their geometric mean, NaN if there are none."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


# --- processes of their own ----------------------------------------------------------------------


def compile_apart(path: Path, hash_seed: str = "random") -> dict[str, float | str]:
    """Compile a model in a new process.

    Args:
        path: the model.
        hash_seed: seed of Python's hashes.

    Returns:
        ``seconds`` of the first compilation, ``again`` of the second, ``peak`` in bytes, ``digest``
        of both results, ``baseline`` in bytes before.

    Raises:
        DeviceError: it failed.
    """
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.edgetpu_compiler", str(path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise DeviceError(f"compiling {path.name} failed", reason=result.stderr[-2000:])
    found: dict[str, float | str] = json.loads(result.stdout)
    return found


def _apart(path: str) -> dict[str, float | str]:
    baseline = _peak()
    seconds, digests = [], []
    for _ in range(2):
        start = time.perf_counter()
        compiled = compile_edgetpu(path)
        seconds.append(time.perf_counter() - start)
        digests.append(hashlib.sha256(compiled.data).hexdigest())
    return {
        "seconds": seconds[0],
        "again": seconds[1],
        "baseline": baseline,
        "peak": _peak(),
        "digest": " ".join(dict.fromkeys(digests)),
    }


def _peak() -> float:
    """Largest resident memory of this process so far, in bytes (Linux)."""
    # What getrusage tells may be that of the process that started this one.
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, content = line.partition(":")
        if name == "VmHWM":
            return 1024.0 * int(content.split()[0])
    raise UnsupportedError("the system does not tell the peak of memory of a process")


# --- all of it -----------------------------------------------------------------------------------


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/edgetpu_compiler.json``.

    Args:
        progress: called with the name of each model.
        repeats: number of random models, 0 for `RANDOM_MODELS`.

    Returns:
        models that fail or differ, and bounds that were exceeded.
    """
    models = []
    with ProcessPoolExecutor() as pool:
        for item in pool.map(measured, filter(quantized, corpus_sources())):
            progress(item.model)
            models.append(item)
    progress("compile times")
    apart = [compile_apart(corpus_model(INT8_MODEL), seed) for seed in ("1", "2", "3")]
    count = repeats or RANDOM_MODELS
    tally = Tally()
    with ProcessPoolExecutor() as pool:
        for seed, one in enumerate(pool.map(check, range(count), chunksize=_SHARD)):
            if seed % 100 == 0:
                progress(f"random models from {seed}")
            tally.add(one)
    found, computing = ratios(models, _CYCLES), ratios(models, _COMPUTING)
    inferences = {link: ratios(models, _inference(link)) for link in HOSTS}
    results = {
        "seeds": list(SEEDS),
        "bounds": {
            "mean": MEAN_CYCLES,
            "most": MOST_CYCLES,
            "seconds": MOST_SECONDS,
            "bytes": MOST_BYTES,
        },
        "models": [asdict(item) | {"comparable": item.comparable} for item in models],
        "ratios": found,
        "mean": geometric_mean(list(found.values())),
        "computing_mean": geometric_mean(list(computing.values())),
        "inferences": {
            link: {
                "mean": geometric_mean(list(some.values())),
                "most": max(some.values(), default=math.nan),
                "paced": _mean(models, link, attrgetter("paced")),
                "floor": _mean(models, link, attrgetter("least")),
            }
            for link, some in inferences.items()
        },
        "apart": {"model": INT8_MODEL, "runs": apart},
        "random": {
            "models": tally.models,
            "segments": tally.segments,
            "mapped": dict(sorted(tally.mapped.items())),
            "bytes": tally.bytes,
            "refused": dict(sorted(tally.refused.items())),
            "failures": [[seed, fault] for seed, fault, _ in tally.failures],
            "unordered": [list(item) for item in tally.unordered],
        },
    }
    write_results("edgetpu_compiler", results)
    return list(_faults(models, apart, tally))


def quantized(path: Path) -> bool:
    """Whether a file of the corpus is a model of 8 bits."""
    try:
        return Source.read(path).quantized
    except FitzroyError:
        return False


def _faults(
    models: Sequence[Model], apart: Sequence[Mapping[str, float | str]], tally: Tally
) -> list[str]:
    faults = [f"edgetpu_compiler: {item.model}: {item.failure}" for item in models if item.failure]
    for item in models:
        faults += [f"edgetpu_compiler: {item.model}: {fault}" for fault in item.faults]
        if item.differing:
            faults.append(f"edgetpu_compiler: {item.model}: {item.differing} bytes differ")
        if item.usb_differing:
            faults.append(f"edgetpu_compiler: {item.model}: {item.usb_differing} differ over USB")
    found = ratios(models, _CYCLES)
    mean = geometric_mean(list(found.values()))
    if mean > MEAN_CYCLES:
        faults.append(f"edgetpu_compiler: {mean:.3f} of Google's cycles, bound {MEAN_CYCLES}")
    faults += [
        f"edgetpu_compiler: {name}: {ratio:.3f} of Google's cycles, bound {MOST_CYCLES}"
        for name, ratio in found.items()
        if ratio > MOST_CYCLES
    ]
    if len({run["digest"] for run in apart}) > 1:
        faults.append("edgetpu_compiler: equal models give different bytes")
    seconds = min(float(run["seconds"]) for run in apart)
    if seconds > MOST_SECONDS:
        faults.append(f"edgetpu_compiler: {seconds:.2f} s to compile, bound {MOST_SECONDS} s")
    peak = max(float(run["peak"]) for run in apart)
    if peak > MOST_BYTES:
        faults.append(f"edgetpu_compiler: {peak / 1e6:.0f} MB to compile")
    random = [(seed, fault) for seed, fault, _ in tally.failures] + tally.unordered
    faults += [f"edgetpu_compiler: random model {seed}: {fault}" for seed, fault in random]
    return faults


if __name__ == "__main__":
    print(json.dumps(_apart(sys.argv[1])))
