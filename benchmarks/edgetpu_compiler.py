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
from pathlib import Path
from unittest.mock import patch

import numpy as np
from tests.compiler.edgetpu_models import Tally, check, random_inputs
from tests.support import corpus_path

from benchmarks.support import INT8_MODEL, ROOT, corpus_model, corpus_sources, write_results
from fitzroy.base.errors import DeviceError, FitzroyError, UnsupportedError
from fitzroy.base.evidence import Evidence
from fitzroy.base.types import Array
from fitzroy.compilation.edgetpu import EdgeTpuCompilation, MappedSegment, compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.driver.runtime.devices import open_device
from fitzroy.driver.runtime.simulator import SimulatedDevice, Stage
from fitzroy.execution.hosts import made, values
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import Host
from fitzroy.hw_models.edgetpu.latitude import ANY
from fitzroy.hw_models.edgetpu.timing import simulate
from fitzroy.hw_models.isa.tensor import TensorOp

SEEDS = (0, 1)
"""Of inputs, of the order of engines and of the first contents of memories."""

RANDOM_MODELS = 2000

MEAN_CYCLES, MOST_CYCLES = 0.65, 1.0
"""Bounds of the ratio of cycles to Google's: geometric mean, and of any model."""

MOST_SECONDS, MOST_BYTES = 2.0, 500e6
"""Bounds of compiling the int8 MobileNet v2: time, and the peak of memory of the process."""

_SHARD = 20
"""Random models that a process takes at a time."""

_INSTANT = "instant"
"""A host that takes no time: cycles are those of the chip alone."""

_INPUT_UNIT = "avdata_pop"
"""Stream unit that takes inputs from the host."""

_USB = "jetson_nano_10w_usb3"


def _instant() -> Host:
    """A host that takes no time."""
    usual = values(BEAGLE.hosts[_USB])
    nothing = dict.fromkeys((name for name in usual if name not in ("bus", "read")), 0.0)
    rates = {"link": 1e12, "stream": 1e12, "doze": 1e12}
    return made({**usual, **nothing, **rates}, Evidence.ASSUMED, "a host that takes no time")


@dataclass
class Costs:
    """What one inference costs, all parts on the chip together.

    Attributes:
        operators: operators of the source model on the chip.
        cycles: of the timing model with a host that takes no time, from the start of the first
            program to the end of the last: infeed and outfeed count, links do not.
        computing: cycles after the last byte of the last input is on the chip.
        milliseconds: of an inference on a Jetson Nano with USB 3 at the highest clock.
        steps: steps of the op engine on the tile with most of them.
        instructions: bytes of programs.
        parameters: bytes of parameters, cached and streamed.
        streamed: those of them that come with every inference.
    """

    operators: int = 0
    cycles: float = 0
    computing: float = 0
    milliseconds: float = 0
    steps: int = 0
    instructions: int = 0
    parameters: int = 0
    streamed: int = 0

    def add(self, package: PackageFile, stage: Stage) -> None:
        """Count one more part."""
        assert stage.recording is not None
        timelines = []
        for host in (_INSTANT, _USB):
            with patch.dict(BEAGLE.hosts, {_INSTANT: _instant()}):
                timelines.append(simulate(stage.recording, stage.chunk_sizes, host=host))
        chip = timelines[0]
        self.cycles += chip.cycles
        received = [span.end for span in chip.spans if span.unit == _INPUT_UNIT]
        self.computing += chip.cycles - max(received, default=0)
        self.milliseconds += timelines[1].total / 1000
        steps = np.zeros(BEAGLE.tiles.count, np.int64)
        for issued in chip.issued:
            if isinstance(issued.instruction, TensorOp):
                tiles = [tile for tile in range(len(steps)) if issued.tiles >> tile & 1]
                steps[tiles] += issued.steps
        self.steps += int(steps.max())
        self.instructions += sum(stage.chunk_sizes)
        cached, streamed = parameters(package)
        self.parameters += cached + streamed
        self.streamed += streamed


def parameters(package: PackageFile) -> tuple[int, int]:
    """Bytes of parameters that stay on the chip, and of those that come with every inference."""
    sizes = [
        0 if executable is None or executable.parameters is None else len(executable.parameters)
        for executable in (package.caching, package.main)
    ]
    return sizes[0], sizes[1]


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
        ours: costs of an inference, None if nothing runs.
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
    ours: Costs | None = None
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
                ours.add(part.package, _recorded(part.package))
        except FitzroyError as error:
            entry.faults.append(f"{type(error).__name__}: {error.what}")
    if costs and not entry.faults:
        entry.ours = ours
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


def _recorded(package: PackageFile) -> Stage:
    """The main executable on inputs that are zero, with a recording."""
    inputs = {
        name: np.zeros(layer.packed_bytes * layer.execution_count_per_inference, np.uint8)
        for name, layer in package.main.inputs.items()
    }
    return SimulatedDevice().start(package, inputs, record=True).finish().stages[-1]


def _google(path: Path, operators: int) -> Costs | None:
    """Costs of the program of Google's compiler for a source model."""
    beside = [path.with_name(path.stem + end) for end in ("_edgetpu.tflite", "-edgetpu.tflite")]
    found = [other for other in beside if other.is_file()]
    if not found:
        return None
    program = EdgeTpuProgram.load(found[0])
    costs = Costs(operators - program.others)
    costs.add(program.package, _recorded(program.package))
    return costs


def ratios(models: Sequence[Model]) -> dict[str, float]:
    """Ratio of cycles to Google's by model, of those where as much is on the chip."""
    return {
        item.model: item.ours.cycles / item.google.cycles
        for item in models
        if item.comparable and item.ours is not None and item.google is not None
    }


def computing_ratios(models: Sequence[Model]) -> dict[str, float]:
    """The same of the cycles after the input."""
    return {
        item.model: item.ours.computing / item.google.computing
        for item in models
        if item.comparable and item.ours is not None and item.google is not None
    }


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
    found = ratios(models)
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
        "computing_ratios": computing_ratios(models),
        "computing_mean": geometric_mean(list(computing_ratios(models).values())),
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
    found = ratios(models)
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
