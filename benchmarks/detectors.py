"""Detectors and other image models whole: ``python -m benchmarks.detectors [--only PATTERN]``.

Models are the architectures of `benchmarks.architectures`, with weights at random, at each of their
sizes. They are exported as ONNX, quantized on cuttings of photographs, compiled for the Edge TPU
and simulated: outputs of the simulated chip are compared with the reference of its arithmetic byte
by byte. Each model has a process and a time of its own, and its row is written once it is done, so
that a run goes on where the last one stopped: rows that are there are measured again with
``--again`` only. ``--unsimulated`` leaves out the simulation, and ``--one-chip`` the search for as
many chips as pay, which takes longest where parameters do not fit one. Writes
``benchmarks/results/detectors.json``, of which ``docs/detectors.md`` is made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

import fitzroy
from benchmarks.architectures import Architecture, architectures
from benchmarks.chip_costs import parameters
from benchmarks.models import samples_of
from benchmarks.pictures import samples
from benchmarks.support import ROOT, read_results, results_path, write_results
from fitzroy.base.errors import FitzroyError
from fitzroy.compilation.edgetpu import EdgeTpuCompilation, compile_edgetpu
from fitzroy.compilation.quantizing import quantized
from fitzroy.compilation.segments import compile_segments
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections
from fitzroy.compiler.quantization.comparison import compare, stored_input
from fitzroy.compiler.quantization.functions import FunctionUnit
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS
from fitzroy.compiler.targets.edgetpu.partition.cuts import Cut
from fitzroy.execution.estimate import Conditions
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice
from fitzroy.execution.whole import predict

Json = dict[str, Any]

HOSTS = ("raspberry_pi_5_usb3", "x86_workstation_usb3", "jetson_nano_10w_usb2")
"""Hosts that latency is predicted for."""

_SECONDS = 300
"""How long a model may take, its simulation included."""

_STATISTICS, _CALIBRATING, _JUDGING = 4, 4, 2
"""Cuttings of photographs for normalizations, to quantize on, and to judge on."""

_LISTING = ("yolo", "nanodet", "ssd", "efficientdet")
"""How names of detectors begin, which `--detections` lists objects of."""

_OPTIONS = QuantizeOptions(tables=True, parts=1)
"""How `fitzroy compile` quantizes for the Edge TPU, but that outliers have no parts: those of
random weights say nothing of trained ones."""

_REASONS = 3
"""Most reasons of operators on the host that a row has."""


def exported(architecture: Architecture, size: int, path: Path) -> None:
    """Write an architecture as ONNX, its normalizations settled on photographs."""
    cuttings = samples("scene", (size, size), _STATISTICS, held_out=False, seed=1)
    pictures = [np.ascontiguousarray(cut[None], np.float32) for cut in cuttings]
    architecture.export(size, pictures, path)


def of_architecture(architecture: Architecture, size: int) -> Graph:
    """The float32 model of an architecture, as it is read from ONNX."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{architecture.name}.onnx"
        exported(architecture, size, path)
        return fitzroy.load(path)


def measure(
    architecture: Architecture, size: int
) -> tuple[Json, Graph, Source, EdgeTpuCompilation]:
    """Everything about a model but its simulation: its row, the float32 and the compiled model."""
    graph = of_architecture(architecture, size)
    calibrating, judged = (
        samples_of(graph, count, seed)[1] for count, seed in ((_CALIBRATING, 1), (_JUDGING, 2))
    )
    result = quantized(graph, calibrating, _OPTIONS, known=_pixels(graph))
    levels = compare(result.source, result.counterpart, judged).outputs
    source = Source.of(result.graph)
    compiled = compile_edgetpu(source)
    return (
        {"snr_db": [round(off.decibels, 1) for off in levels.values()], **figures(compiled)},
        graph,
        source,
        compiled,
    )


def figures(compiled: EdgeTpuCompilation) -> Json:
    """What a compiled model has on the chip, and how long it would take."""
    sizes = [parameters(item.package) for item in compiled.segments]
    found = {host: predict(compiled.data, "", Conditions(host=host)) for host in HOSTS}
    return {
        "chip": len(compiled.mapped),
        "host": len(compiled.unmapped),
        "reasons": Counter(f"{r.code}: {r.what}" for r in compiled.reasons).most_common(_REASONS),
        "segments": len(compiled.segments),
        "bytes": len(compiled.data),
        "cached": sum(cached for cached, _ in sizes),
        "streamed": sum(streamed for _, streamed in sizes),
        "cycles": round(sum(run.timeline.cycles for run in found[HOSTS[0]].runs)),
        "us": {host: round(prediction.total, 1) for host, prediction in found.items()},
    }


def simulated(source: Source, compiled: EdgeTpuCompilation) -> Json:
    """Bytes of the outputs that differ between the simulated chip and the reference."""
    (name,) = source.graph.inputs
    picture = samples_of(source.graph, 1, 2)[1][0][name]
    with (
        Interpreter(compiled.data, device="sim:direct") as chip,
        Interpreter(compiled.data, device=TwinDevice(source.graph)) as twin,
    ):
        given = {chip.graph.inputs[0]: stored_input(picture, source.graph.type(name))}
        pairs = zip(chip.run(given).values(), twin.run(given).values(), strict=True)
        views = [tuple(np.ascontiguousarray(x).view(np.uint8) for x in pair) for pair in pairs]
    return {
        "compared": sum(ours.size for ours, _ in views),
        "differing": sum(int((ours != theirs).sum()) for ours, theirs in views),
    }


def listed(graph: Graph, *, cutting: bool) -> Json:
    """What becomes of a model that lists objects, whose head the chip reduces.

    Args:
        graph: the float32 model.
        cutting: whether to find out what more chips gain.
    """
    try:
        source = listing_of(graph)
    except FitzroyError as error:
        return {"unlisted": str(error).splitlines()[0]}
    compiled = compile_edgetpu(source)
    return {"listed": figures(compiled) | (several(source, compiled) if cutting else {})}


def listing_of(graph: Graph, unit: FunctionUnit = FUNCTIONS) -> Source:
    """A quantized model that lists objects.

    Args:
        graph: the float32 model.
        unit: what computes functions of several operators.

    Raises:
        UnsupportedError: its head is not known.
    """
    options = HeadOptions(True)
    listing = with_detections(graph, options)
    _, samples = samples_of(listing, _CALIBRATING, 1)
    result = quantized(listing, samples, _OPTIONS, options, known=_pixels(listing), unit=unit)
    return Source.of(with_best_classes(result.graph))


def _pixels(graph: Graph) -> dict[str, tuple[float, float]]:
    """Ranges of inputs that are pixels divided by 255."""
    return dict.fromkeys(graph.inputs, (0.0, 1.0))


def several(source: Source, compiled: EdgeTpuCompilation) -> Json:
    """What more chips gain if parameters do not fit one; nothing if they do.

    Returns:
        For one chip, and for as many as pay: how many there are, microseconds between results, and
        the bytes of parameters that are streamed for each.
    """
    if not any(parameters(item.package)[1] for item in compiled.segments):
        return {}
    found: list[Cut] = []
    segments = compile_segments(source, None, report=found.extend)
    chosen = (cut for cut in found if len(cut.times) in (1, len(segments)))
    return {
        "several": [
            {
                "chips": len(cut.times),
                "interval_us": round(cut.interval, 1),
                "latency_us": round(cut.latency, 1),
                "streamed": sum(load.streamed for load in cut.loads),
            }
            for cut in chosen
        ]
    }


def _one(name: str, size: int, *, simulating: bool, cutting: bool) -> int:
    """Print the row of a model, and again with what its head and its simulation say."""
    architecture = next(item for item in architectures() if item.name == name)
    row, graph, source, compiled = measure(architecture, size)
    print(json.dumps(row), flush=True)
    if architecture.name.startswith(_LISTING):
        row |= listed(graph, cutting=cutting)
        print(json.dumps(row), flush=True)
    if cutting:
        row |= several(source, compiled)
    if simulating:
        row |= simulated(source, compiled)
    print(json.dumps(row), flush=True)
    return 0


def _apart(architecture: Architecture, size: int, seconds: float, flags: Sequence[str]) -> Json:
    """The row of a model, measured in a process of its own."""
    row: Json = {"model": architecture.name, "size": size}
    command = [sys.executable, "-m", "benchmarks.detectors", "--one", architecture.name]
    failed = f"not finished after {seconds:.0f} s"
    try:
        done = subprocess.run(
            [*command, "--size", str(size), *flags],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds,
        )  # fmt: skip
        written, code = done.stdout, done.returncode
        if code:
            failed = (done.stderr.strip().splitlines() or ["no word"])[-1].strip()
    except subprocess.TimeoutExpired as error:
        written, code = (error.stdout or b"").decode(), 1
    lines = [line for line in written.splitlines() if line.startswith("{")]
    if not lines:
        return {**row, "failed": failed}
    found: Json = row | json.loads(lines[-1])
    return found if not code else found | {"unfinished": failed}


def _with_cuts(row: Json, before: Json) -> Json:
    """A row with what an earlier one says about several chips."""
    if "listed" in row and "listed" in before:
        row = row | {"listed": _with_cuts(row["listed"], before["listed"])}
    return row | ({"several": before["several"]} if "several" in before else {})


def _key(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["model"], row["size"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure models; the exit code is 1 if bytes differ or a model fails."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.detectors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of models")
    parser.add_argument("--size", type=int, help="pixels; every size of a model by default")
    parser.add_argument("--again", action="store_true", help="also rows that are there")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for each row")
    parser.add_argument("--unsimulated", action="store_true", help="leave the simulation out")
    parser.add_argument("--one-chip", action="store_true", help="do not ask whether several pay")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one:
        return _one(
            options.one,
            options.size,
            simulating=not options.unsimulated,
            cutting=not options.one_chip,
        )
    flags = ["--unsimulated"] if options.unsimulated else []
    flags += ["--one-chip"] if options.one_chip else []
    known = read_results("detectors")["models"] if results_path("detectors").is_file() else []
    rows = {_key(row): row for row in known}
    every = architectures()
    for architecture, size in ((item, size) for item in every for size in item.sizes):
        if not fnmatchcase(architecture.name, options.only) or options.size not in (None, size):
            continue
        if (architecture.name, size) in rows and not options.again:
            continue
        missing = architecture.missing()
        if missing is not None:
            print(f"{missing}: not installed, {architecture.name} is skipped")
            continue
        row = _apart(architecture, size, options.seconds, flags)
        if options.one_chip:
            row = _with_cuts(row, rows.get((architecture.name, size), {}))
        rows[_key(row)] = row
        print(json.dumps(row), flush=True)
        order = {item.name: number for number, item in enumerate(every)}
        written = sorted(rows.values(), key=lambda r: (order[r["model"]], r["size"]))
        write_results("detectors", {"models": written})
    return 1 if any("failed" in row or row.get("differing") for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
