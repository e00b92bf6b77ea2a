"""``fitzroy bench --devices``: segments of a model that compute at the same time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fitzroy.base.errors import SimulationError
from fitzroy.base.files import read_file
from fitzroy.cli import timing
from fitzroy.cli.compiled import DeviceChoice
from fitzroy.cli.terminal import Column, Terminal, count
from fitzroy.execution import controller, whole
from fitzroy.execution.pipelined import PipelinedInterpreter, segments_of
from fitzroy.measurement.bench import random_arrays
from fitzroy.report import units

_WAITS = 1.02
"""How much longer than its slowest segment a pipeline takes if segments wait for the controller."""


def bench_pipeline(
    terminal: Terminal, file: str, device: DeviceChoice, speed: timing.Speed, runs: int | None
) -> None:
    """Predict what segments on several devices take, and measure it.

    Args:
        terminal: where to print.
        file: a segment of the model.
        device: the devices.
        speed: what the timing model assumes.
        runs: inferences to measure, None to measure nothing.

    Raises:
        FitzroyError: a segment or a device is missing, or fails.
    """
    paths = segments_of(file)
    document: dict[str, Any] = {"file": file, "runs": runs or 0, "measured": None}
    with terminal.working("predicting"):
        document["predicted"] = _predicted(terminal, paths, speed)
    if runs is not None:
        with device.segments(file) as pipeline, terminal.working("running"):
            document["measured"] = _measured(pipeline, runs)
    document["segments"] = paths
    if terminal.json:
        terminal.document("bench-pipeline", document)
    else:
        _show(terminal, document)


def _predicted(terminal: Terminal, paths: list[str], speed: timing.Speed) -> dict[str, Any] | None:
    """What the timing model says of segments whose devices share a controller."""
    try:
        found = [whole.predict(read_file(path), path, speed.conditions) for path in paths]
    except SimulationError as error:
        terminal.warn("no prediction for this model", [str(error)])
        return None
    seconds = [item.total / 1e6 for item in found]
    between = controller.interval([controller.course(item) for item in found]) / 1e6
    return {
        "clock": speed.clock,
        "host": speed.profile.name,
        "driver": speed.driver,
        "segment_seconds": seconds,
        "latency_seconds": sum(seconds),
        "interval_seconds": between,
        "per_second": 1 / between,
    }


def _measured(pipeline: PipelinedInterpreter, runs: int) -> dict[str, Any]:
    """Inferences on random inputs, after one that loads parameters."""
    inputs = random_arrays({port.name: port.type for port in pipeline.inputs})
    begin = time.perf_counter()
    pipeline.run(inputs)
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in pipeline.map([inputs] * runs):
        pass
    seconds = time.perf_counter() - begin
    return {
        "first_seconds": first,
        "seconds": seconds,
        "per_second": runs / seconds,
        "segments": [
            {"on": item.where, "mean_seconds": float(np.mean(item.seconds[1:]))}
            for item in pipeline.times
        ],
    }


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    predicted, measured = document["predicted"], document["measured"]
    columns = [Column("segment", right=True), Column("file", style="cyan")]
    rows = [[str(number), path] for number, path in enumerate(document["segments"])]
    if predicted is not None:
        columns.append(Column("predicted", right=True))
        for row, seconds in zip(rows, predicted["segment_seconds"], strict=True):
            row.append(_time(seconds))
    if measured is not None:
        columns.append(Column("measured", right=True))
        for row, item in zip(rows, measured["segments"], strict=True):
            row.append(_time(item["mean_seconds"]))
    terminal.table(columns, rows)
    if predicted is not None:
        slowest = max(predicted["segment_seconds"])
        shared = predicted["interval_seconds"] > _WAITS * slowest
        decides = (
            "the controller of the devices decides"
            if shared
            else f"segment {predicted['segment_seconds'].index(slowest)} decides"
        )
        terminal.line(
            f"predicted at clock {predicted['clock']} on {predicted['host']}: "
            f"{predicted['per_second']:.1f} inferences a second, each in "
            f"{_time(predicted['latency_seconds'])}; {decides}"
        )
    if measured is not None:
        runs = count(document["runs"], "inference")
        terminal.line(f"measured over {runs}: {measured['per_second']:.1f} a second")


def _time(seconds: float) -> str:
    return units.time(1e6 * seconds)
