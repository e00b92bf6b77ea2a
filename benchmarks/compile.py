"""Time from model to program, against ExecuTorch's own exporter in the same run.

Ours is the int8 MobileNet v2 of the corpus, from file to bytes in a warm process, and once as a
command in a cold one. The official exporter gets MobileNet v2 as a module of torch, quantizes it
to int8 and lowers it to XNNPACK; the time without quantization is given as well, because a
``.tflite`` model comes quantized. Neither counts imports.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import fitzroy
from benchmarks.support import INT8_MODEL, corpus_model, run_python, summary, write_results

REPEATS = 20
_LOWERING = ("export", "lower", "serialize")


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/compile.json``.

    Args:
        progress: called with the name of each step.
        repeats: number of compilations, 0 for the usual number.

    Returns:
        targets that were missed.
    """
    path = corpus_model(INT8_MODEL)
    progress(f"compile {INT8_MODEL}")
    seconds, stages = [], []
    fitzroy.compile(path)
    for _ in range(repeats or REPEATS):
        start = time.perf_counter()
        compilation = fitzroy.compile(path)
        seconds.append(time.perf_counter() - start)
        stages.append([(stage.name, stage.seconds) for stage in compilation.stages])
    with tempfile.TemporaryDirectory() as folder:
        progress("compile as a command")
        program = str(Path(folder) / "model.pte")
        start = time.perf_counter()
        run_python(["-m", "fitzroy", "compile", str(path), "--target", "xnnpack", "-o", program])
        command = time.perf_counter() - start
        progress("export with ExecuTorch's own exporter")
        printed = run_python(["-m", "benchmarks.official", str(Path(folder) / "official.pte")])
    official = json.loads(printed.splitlines()[-1])
    whole = sum(official["seconds"].values())
    lowering = sum(official["seconds"][name] for name in _LOWERING)
    ours = statistics.median(seconds)
    write_results(
        "compile",
        {
            "model": INT8_MODEL,
            "ours": {
                **summary(seconds),
                "stages_ms": _stages(stages),
                "command_seconds": command,
                "bytes": len(compilation.data),
            },
            "official": {
                "model": "MobileNet v2, torch, quantized by XNNPACKQuantizer",
                "seconds": whole,
                "lowering_seconds": lowering,
                "steps": official["seconds"],
                "bytes": official["bytes"],
            },
            "ratio": whole / ours,
            "lowering_ratio": lowering / ours,
        },
    )
    return [] if ours < lowering else ["compile: slower than the official exporter"]


def _stages(runs: list[list[tuple[str, float]]]) -> list[tuple[str, float]]:
    """Median milliseconds of each stage, in order."""
    return [
        (name, 1000 * statistics.median(run[index][1] for run in runs))
        for index, (name, _) in enumerate(runs[0])
    ]
