"""What compiling for the Edge TPU costs: seconds of CPU, their shares, and memory.

Each model has a process of its own, which is warmed by a small model. ``python -m
benchmarks.compile_cost WARM_UP MODEL`` is such a process. Commands are compared with what they do
in a process that is warm, and with an interpreter that does nothing.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cuts import convolutions, dense
from benchmarks.memory import WARM_UP, status
from benchmarks.support import INT8_MODEL, corpus_model, run_python, write_results
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.records import steps_of
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.execution.estimate import estimate
from fitzroy.formats import tflite

_MIB = 1 << 20
_LARGE_SECONDS, _LARGE_BYTES = 8.0, 600 * _MIB
"""Most that 128 MB of parameters should take, estimate included."""

_LAYERS, _CHAIN_SECONDS = 1000, 6.0
"""Layers of a long chain, and the most that it should take."""

_SHARE = 0.15
"""Most of a compilation that its estimate should take."""

_COMMAND = 1.5
"""Most that a command should take, relative to the same in a warm process."""

_VERSION, _VERSION_MORE = 1.3, 0.06
"""Most that telling the version should take: of an interpreter's start, and seconds beside it."""

_REPEATS = 5
_POSENET = "coral/posenet_mobilenet_v1_075_481_641_16_quant_decoder.tflite"


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/compile_cost.json``.

    Args:
        progress: called with the name of each step.
        repeats: processes for each model and command, 0 for the usual number; medians count.

    Returns:
        targets that were missed.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path, seconds, nbytes in _models(Path(folder)):
            progress(f"compile {name}")
            found = [
                json.loads(run_python(["-m", "benchmarks.compile_cost", str(WARM_UP), str(path)]))
                for _ in range(repeats or _REPEATS)
            ]
            row = {key: statistics.median(item[key] for item in found) for key in found[0]}
            rows.append({"name": name, **row, "most_seconds": seconds, "most_bytes": nbytes})
        progress("commands")
        commands = _commands(Path(folder), repeats or _REPEATS)
    warm = rows[0]["compile"] + rows[0]["estimate"] + rows[0]["read"]
    commands["command_ratio"] = commands["compile"] / warm
    write_results("compile_cost", {"models": rows, "commands": commands})
    return [*_missed(rows), *_slow(commands)]


def _models(folder: Path) -> Iterator[tuple[str, Path, float | None, int | None]]:
    """Names and files of models, with the most seconds and bytes that each should take."""
    yield INT8_MODEL, corpus_model(INT8_MODEL), None, None
    yield _POSENET, corpus_model(_POSENET), None, None
    made: Sequence[tuple[str, Callable[[], Graph], float, int | None]] = (
        (
            "convolutions 1x1, 128 MB",
            lambda: convolutions(2048, 4, 32, kernel=1),
            _LARGE_SECONDS,
            _LARGE_BYTES,
        ),
        ("fully connected, 128 MB", lambda: dense(5120), _LARGE_SECONDS, _LARGE_BYTES),
        (
            f"{_LAYERS:,} convolutions",
            lambda: convolutions(8, 4, _LAYERS, kernel=1),
            _CHAIN_SECONDS,
            None,
        ),
    )
    for number, (name, graph, seconds, nbytes) in enumerate(made):
        path = folder / f"{number}.tflite"
        path.write_bytes(tflite.write_model(export_model(graph())))
        yield name, path, seconds, nbytes


def _missed(rows: Sequence[dict[str, Any]]) -> list[str]:
    faults = []
    for row in rows:
        whole = row["read"] + row["compile"] + row["estimate"]
        if row["most_seconds"] is not None and whole > row["most_seconds"]:
            faults.append(f"compile_cost: {row['name']} takes {whole:.1f} s")
        if row["most_bytes"] is not None and row["bytes"] > row["most_bytes"]:
            faults.append(f"compile_cost: {row['name']} takes {row['bytes'] / _MIB:.0f} MiB")
        if row["estimate"] > _SHARE * whole:
            faults.append(
                f"compile_cost: {row['estimate'] / whole:.0%} of {row['name']} is its estimate"
            )
    return faults


def _slow(commands: dict[str, float]) -> list[str]:
    faults = []
    if commands["command_ratio"] > _COMMAND:
        faults.append(
            f"compile_cost: the command takes {commands['command_ratio']:.2f} times as long as the "
            "same in a process"
        )
    if commands["version"] > _VERSION * commands["nothing"] + _VERSION_MORE:
        faults.append(f"compile_cost: --version takes {1000 * commands['version']:.0f} ms")
    return faults


def _commands(folder: Path, repeats: int) -> dict[str, float]:
    """Median seconds of CPU of processes, by what they do; all take turns."""
    target = str(folder / "model_edgetpu.tflite")
    model = str(corpus_model(INT8_MODEL))
    wanted = {
        "nothing": ["-c", "pass"],
        "version": ["-m", "fitzroy", "--version"],
        "compile": ["-m", "fitzroy", "compile", model, "-o", target, "--quiet"],
    }
    taken: dict[str, list[float]] = {name: [] for name in wanted}
    for _ in range(repeats):
        for name, arguments in wanted.items():
            before = os.times()
            run_python(arguments)
            after = os.times()
            taken[name].append(
                after.children_user
                - before.children_user
                + after.children_system
                - before.children_system
            )
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def _probe(warm_up: str, model: str) -> dict[str, float]:
    """Seconds of CPU of each step of a compilation, and bytes of the process at its peak."""
    compile_edgetpu(warm_up)
    start = time.process_time()
    source = Source.read(model)
    read = time.process_time()
    result = compile_edgetpu(source)
    compiled = time.process_time()
    for part in result.segments:
        estimate(part.package, model, steps=steps_of(part.segment, part.forms))
    return {
        "read": read - start,
        "compile": compiled - read,
        "estimate": time.process_time() - compiled,
        "bytes": status("VmHWM"),
    }


if __name__ == "__main__":
    print(json.dumps(_probe(*sys.argv[1:3])))
