"""Time of an inference on the twin of the chip, beside LiteRT and the simulated chip, by turns.

All compute on one thread, in a warm process: the twin and LiteRT the whole source model, the
simulated chip the compiled program, one image at a time and as many as it takes in lockstep.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.support import LiteRT, corpus_model, summary, write_results
from fitzroy.base.types import Array
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.driver.runtime.devices import DirectSimulator
from fitzroy.driver.runtime.simulator import MOST_IMAGES
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice

ROUNDS = 20
_PER_SIMULATION = 10
_LOCKSTEPS = 2

BOUNDS = {
    "coral/mobilenet_v2_1.0_224_quant.tflite": 1 / 20,
    "coral/mobilenet_v1_1.0_224_quant_embedding_extractor.tflite": None,
    "coral/mobilenet_v1_0.25_128_quant.tflite": None,
    "coral/deeplabv3_mnv2_dm05_pascal_quant.tflite": None,
    "coral/tf2_mobilenet_v2_1.0_224_ptq.tflite": None,
}
"""Models, and the most seconds on one thread; with two it is 40 images of MobileNet v2 a second."""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/twin.json``.

    Args:
        progress: called with the name of each model.
        repeats: turns of the twin and LiteRT, 0 for the usual number.

    Returns:
        bounds that were exceeded, and models of which outputs differ from the simulated chip's.

    Raises:
        UsageError: there is no corpus.
    """
    entries, faults = [], []
    for name, bound in BOUNDS.items():
        progress(name)
        times, differing = _measured(name, repeats or ROUNDS)
        found = {who: summary(seconds) for who, seconds in times.items()}
        entries.append({"model": name, **found, "differing_bytes": differing})
        median = statistics.median(times["ours"])
        if bound is not None and median > bound:
            faults.append(f"twin: {name} takes {median:.3f} s, more than {bound:.3f} s")
        if differing:
            faults.append(f"twin: {name} differs in {differing} bytes")
    write_results("twin", {"cases": entries})
    return faults


def _measured(name: str, rounds: int) -> tuple[dict[str, list[float]], int]:
    """Seconds of the inferences of each, and the bytes that differ from the simulated chip's."""
    source = Source.read(corpus_model(name))
    compiled = compile_edgetpu(source).data
    litert = LiteRT(corpus_model(name).read_bytes())
    inputs = _inputs(source)
    times: dict[str, list[float]] = {"ours": [], "litert": [], "simulator": [], "lockstep": []}
    differing = 0
    with (
        Interpreter(compiled, device=TwinDevice(source.graph)) as twin,
        Interpreter(compiled, device=DirectSimulator()) as simulated,
    ):
        twin.run(inputs)
        for turn in range(rounds):
            found = _timed(twin, inputs, times["ours"])
            times["litert"] += litert.time(list(inputs.values()), 1)
            if turn % _PER_SIMULATION == 0:
                wanted = _timed(simulated, inputs, times["simulator"])
                differing += _differing(found, wanted)
        for turn in range(_LOCKSTEPS + 1):
            images = [_inputs(source, seed) for seed in range(MOST_IMAGES)]
            start = time.perf_counter()
            results = simulated.run_images(images)
            if turn:
                # The first one loads parameters.
                times["lockstep"].append((time.perf_counter() - start) / MOST_IMAGES)
        for image, wanted in zip(images, results, strict=True):
            differing += _differing(twin.run(image), wanted)
    return times, differing


def _differing(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> int:
    """Elements that are not what they should be."""
    return sum(int(np.count_nonzero(found[key] != array)) for key, array in wanted.items())


def _timed(
    interpreter: Interpreter, inputs: Mapping[str, Array], seconds: list[float]
) -> Mapping[str, Array]:
    start = time.perf_counter()
    found = interpreter.run(inputs)
    seconds.append(time.perf_counter() - start)
    return found


def _inputs(source: Source, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, 256, source.graph.type(name).shape, np.uint8).view(
            source.graph.type(name).dtype.numpy
        )
        for name in source.graph.inputs
    }
