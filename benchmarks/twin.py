"""Images a second on the twin of the chip, beside LiteRT and the simulated chip, by turns.

In a warm process: the twin and LiteRT compute the whole source model, on one thread and on one for
each core; the simulated chip the compiled program, an image on a new chip, and on a chip that knows
the course of the program one image and as many as it takes in lockstep. What has one thread is
measured by the time of its processor, which other processes do not take, the rest by the clock on
the wall. `benchmarks.twin_proof` compares the bytes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from benchmarks.support import LiteRT, corpus_model, random_array, summary, write_results
from benchmarks.twin_proof import RANDOM_MODELS, prove
from fitzroy.base.cores import cores
from fitzroy.base.types import Array
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.driver.runtime.devices import DirectSimulator
from fitzroy.driver.runtime.simulator import MOST_IMAGES
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice

TURNS = 5
_SIMULATED_TURNS = 2

BOUNDS = {
    "coral/mobilenet_v2_1.0_224_quant.tflite": 40,
    "coral/mobilenet_v1_1.0_224_quant_embedding_extractor.tflite": None,
    "coral/mobilenet_v1_0.25_128_quant.tflite": None,
    "coral/deeplabv3_mnv2_dm05_pascal_quant.tflite": None,
    "coral/tf2_mobilenet_v2_1.0_224_ptq.tflite": None,
}
"""Models, and the least images a second of the twin on one core."""

Runs = Mapping[str, Callable[[], int]]
"""Who computes: each computes some images and says how many."""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/twin.json``.

    Args:
        progress: called with the name of each model.
        repeats: turns, 0 for the usual number; with one, a tenth of the random models.

    Returns:
        bounds that were missed, and models of which outputs differ from the simulated chip's.

    Raises:
        UsageError: there is no corpus.
    """
    entries, missed = [], []
    for name, bound in BOUNDS.items():
        progress(name)
        times = _measured(name, repeats or TURNS)
        entries.append({"model": name, **{who: summary(found) for who, found in times.items()}})
        rate = 1 / statistics.median(times["twin_many"])
        if bound is not None and rate < bound:
            missed.append(f"twin: {name}, {rate:.1f} images a second, less than {bound}")
    proof, faults = prove(progress, RANDOM_MODELS // 10 if repeats == 1 else RANDOM_MODELS)
    write_results("twin", {"threads": cores(), "cases": entries, "proof": proof})
    return missed + faults


def _measured(name: str, turns: int) -> dict[str, list[float]]:
    """Seconds of an image of each, in every turn."""
    path = corpus_model(name)
    source = Source.read(path)
    compiled, rng = compile_edgetpu(source).data, np.random.default_rng(0)
    images = [
        {name: random_array(source.graph.type(name), rng) for name in source.graph.inputs}
        for _ in range(MOST_IMAGES)
    ]
    with ExitStack() as stack:
        devices = {
            "twin": TwinDevice(source.graph, threads=1),
            "cores": TwinDevice(source.graph),
            "simulator": DirectSimulator(),
        }
        opened = {
            who: stack.enter_context(Interpreter(compiled, device=stack.enter_context(device)))
            for who, device in devices.items()
        }
        peers = [LiteRT(path.read_bytes(), threads) for threads in (1, cores())]
        runs = {
            "twin": lambda: _many(opened["twin"], images[:1]),
            "twin_many": lambda: _many(opened["twin"], images),
            "twin_cores": lambda: _many(opened["cores"], images),
            "litert": lambda: _on_litert(peers[0], images),
            "litert_cores": lambda: _on_litert(peers[1], images),
            "simulator_new": lambda: _on_new_chip(compiled, images[:1]),
            "simulator": lambda: _many(opened["simulator"], images[:1]),
            "lockstep": lambda: _many(opened["simulator"], images),
        }
        return _by_turns(runs, turns)


def _by_turns(runs: Runs, turns: int) -> dict[str, list[float]]:
    """Seconds of an image, after a turn that prepares what is computed once."""
    seconds: dict[str, list[float]] = {who: [] for who in runs}
    for turn in range(turns + 1):
        for who, run in runs.items():
            if who in _SIMULATED and turn > _SIMULATED_TURNS:
                continue
            for _ in range(_UNFOLLOWED if who in _FOLLOWED and not turn else 0):
                run()
            clock = time.perf_counter if who in _PARALLEL else time.process_time
            start = clock()
            count = run()
            if turn:
                seconds[who].append((clock() - start) / count)
    return seconds


_PARALLEL = ("twin_cores", "litert_cores")
_FOLLOWED = ("simulator", "lockstep")
_SIMULATED = ("simulator_new", *_FOLLOWED)

_UNFOLLOWED = 2
"""Inferences after which the course of a program is known."""


def _on_new_chip(compiled: bytes, images: Sequence[Mapping[str, Array]]) -> int:
    with DirectSimulator() as device, Interpreter(compiled, device=device) as interpreter:
        return _many(interpreter, images)


def _many(interpreter: Interpreter, images: Sequence[Mapping[str, Array]]) -> int:
    return len(interpreter.run_images(images))


def _on_litert(runtime: LiteRT, images: Sequence[Mapping[str, Array]]) -> int:
    for image in images:
        runtime.time([*image.values()], 1)
    return len(images)
