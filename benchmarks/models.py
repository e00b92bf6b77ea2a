"""Real models on every target: ``python -m benchmarks.models [FOLDER...] [--only PATTERN]``.

Models are those that installed packages ship, and those in folders, such as ``node_modules``; what
is missing is skipped, and files never enter the repository. Every model is computed by LiteRT or
ONNX Runtime, and by what is compiled of it: a program for XNNPACK on ExecuTorch's runtime, a
bytecode module, and, quantized on photographs or random numbers, a program for the Edge TPU. Each
has a process and a time of its own. Writes ``benchmarks/results/models.json``, of which
``docs/models.md`` is made; ``--only`` renews some of its rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

import fitzroy
from benchmarks.model_files import TEXT, ModelFile, collected
from benchmarks.pictures import samples
from benchmarks.support import ROOT, read_results, results_path, write_results
from fitzroy.base.errors import FitzroyError, UnsupportedError
from fitzroy.base.types import Array, TensorType
from fitzroy.cli.models import Importing
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.onnx.reader import library
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.quantization.comparison import compare
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.reference import evaluate
from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS
from fitzroy.driver.runtime import ExecuTorchRuntime
from fitzroy.driver.runtime.litert import LiteRtModel
from fitzroy.execution.modules import ModuleProgram
from fitzroy.formats.tflite import write_model

Json = dict[str, Any]
Arrays = dict[str, Array]

_ROUNDING = 1e-3
"""Largest difference, beside the largest number of the output, that is called rounding."""

_SECONDS = 1200
"""How long everything about one model may take."""

_CALIBRATING, _JUDGING = 16, 4


def inputs_of(graph: Graph, seed: int = 0) -> Arrays:
    """Inputs at random: real numbers from 0 to 1, integers of all quantized values, or 0 and 1."""
    rng = np.random.default_rng(seed)
    return {name: _random(graph.type(name), rng) for name in graph.inputs}


def _random(type: TensorType, rng: np.random.Generator) -> Array:
    if type.dtype.is_float:
        return np.asarray(rng.random(type.shape)).astype(type.dtype.numpy)
    low, high = type.dtype.limits if type.quantization is not None else (0, 1)
    return np.asarray(rng.integers(low, high + 1, type.shape)).astype(type.dtype.numpy)


def samples_of(graph: Graph, count: int, seed: int, model: str = "") -> tuple[str, list[Arrays]]:
    """What models are quantized on: cuttings of pictures for a picture, else random numbers.

    Args:
        graph: the model.
        count: how many samples.
        seed: of their places; those of more than one are of pictures for judging.
        model: its name, by which it may be one that looks for text.
    """
    shapes = [graph.type(name).shape for name in graph.inputs]
    (shape,) = shapes if len(shapes) == 1 else [()]
    if len(shape) == 4 and shape[0] == 1 and shape[3] == 3:
        kind, name = ("text", "printed text") if model in TEXT else ("scene", "photographs")
        mean, deviation = (np.array(x, np.float32) for x in TEXT.get(model, (0.0, 1.0)))
        found = samples(kind, shape[1:3], count, held_out=seed > 1, seed=seed)
        if found:
            return name, [{graph.inputs[0]: ((cut - mean) / deviation)[None]} for cut in found]
    return "random numbers", [inputs_of(graph, 100 * seed + number) for number in range(count)]


# --- comparing ------------------------------------------------------------------------------------


def apart(found: Array, wanted: Array) -> float:
    """Largest difference, beside the largest number, or beside 0.001 if that is smaller."""
    if not wanted.size:
        return 0.0
    largest = max(float(np.abs(wanted.astype(np.float64)).max()), 1e-3)
    return float(np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()) / largest


def difference(found: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Largest difference of any output."""
    return max(apart(a, b) for a, b in zip(found, wanted, strict=True))


def onnxruntime_values(data: bytes, feeds: Arrays, names: Sequence[str]) -> list[Array]:
    """Values of a model by ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    given = {info.name: feeds[info.name] for info in session.get_inputs() if info.name in feeds}
    return [np.asarray(array) for array in session.run(list(names), given)]


def begins(data: bytes, graph: Graph, feeds: Arrays) -> str:
    """The first value of an ONNX model that differs by more than rounding.

    Values are compared as sorted numbers, since the graph may store them in another order.
    """
    onnx = library()
    model = onnx.ModelProto.FromString(data)
    known = {info.name for info in model.graph.output}
    names = [n for node in model.graph.node for n in node.output if n and n in graph.values]
    for name in names:
        if name not in known:
            model.graph.output.add().name = name
    wanted = onnxruntime_values(model.SerializeToString(), feeds, names)
    values = evaluate(graph, feeds, keep=True)
    for name, other in zip(names, wanted, strict=True):
        pair = [np.sort(x, axis=None) for x in (values[name], other)]
        if pair[0].size == pair[1].size and apart(*pair) > _ROUNDING:
            return str(name)
    return "none of the values of that name"


def _refusal(error: Exception) -> str:
    """Why something fails, on one line."""
    rejects = getattr(error, "rejects", ())
    if rejects:
        return f"{rejects[0].where}: {rejects[0].what}"
    return str(error).splitlines()[0].strip()


def _attempt(row: Json, key: str, function: Callable[[], Json]) -> None:
    try:
        row[key] = function()
    except FitzroyError as error:
        row[key] = {"refused": _refusal(error)}


# --- one model ------------------------------------------------------------------------------------


def measure(file: ModelFile, path: Path, repeats: int) -> Json:
    """A row: the model as it is read, and what becomes of it on every target.

    Args:
        file: the model.
        path: where it lies.
        repeats: how often compilations are timed, of which the shortest counts.
    """
    how = Importing(input=[f"{name}={text}" for name, text in file.given.items()]).how
    row: Json = {"package": file.package, "model": file.name, "format": file.suffix[1:]}
    try:
        graph = fitzroy.load(path, how)
        kept = fitzroy.load(path, Reading(**{**_fields(how), "keep_layout": True}))
    except FitzroyError as error:
        return {**row, "refused": _refusal(error)}
    nodes = graph.nodes()
    row["operators"] = len(nodes)
    row["convolutions"] = sum(_is_convolution(node.op) for node in nodes)
    row["transpositions"] = Counter(node.op for node in nodes)["transpose"]
    feeds = inputs_of(kept)
    wanted = _peer(row, file, kept, feeds, how)
    _attempt(row, "xnnpack", lambda: _xnnpack(kept, feeds, wanted))
    _attempt(row, "module", lambda: _module(kept, feeds, wanted))
    _attempt(row, "edgetpu", lambda: _edgetpu(graph, file.name))
    _attempt(row, "seconds", lambda: _seconds(path, how, graph, repeats))
    return row


def _fields(how: Reading) -> Json:
    return {name: getattr(how, name) for name in how.__dataclass_fields__}


def _is_convolution(op: str) -> bool:
    return OPS[op].channel_axis is not None and op != "fully_connected" if op in OPS else False


def _peer(row: Json, file: ModelFile, graph: Graph, feeds: Arrays, how: Reading) -> Any:
    """Outputs by the runtime of the model's format; None, with the reason in the row, if it fails.

    Reference semantics are compared with it, and for ONNX what ``fitzroy convert`` writes.
    """
    names = list(graph.outputs)
    try:
        computed = evaluate(graph, feeds)
    except UnsupportedError as error:
        # It has operators that nobody here computes.
        row["peer"] = _refusal(error)
        return None
    ours = [computed[name] for name in names]
    if file.suffix == ".onnx":
        every = feeds | {name: np.asarray(value) for name, value in how.values.items()}
        wanted = onnxruntime_values(file.data, _typed(file.data, every), names)
        converted = LiteRtModel(write_model(export_model(graph)), xnnpack=True)
        row["converted"] = difference(converted.run(list(feeds.values())), wanted)
    else:
        try:
            wanted = LiteRtModel(file.data, xnnpack=True).run(list(feeds.values()))
        except FitzroyError as error:
            row["peer"] = _refusal(error)
            return ours
    row["reference"] = difference(ours, wanted)
    if file.suffix == ".onnx" and row["reference"] > _ROUNDING:
        row["begins"] = begins(file.data, graph, feeds)
    return wanted


def _typed(data: bytes, feeds: Arrays) -> Arrays:
    """Arrays of the element types that an ONNX model declares for its inputs."""
    onnx = library()
    infos = onnx.ModelProto.FromString(data).graph.input
    codes = {info.name: info.type.tensor_type.elem_type for info in infos}
    return {
        name: array.astype(onnx.helper.tensor_dtype_to_np_dtype(codes[name]))
        for name, array in feeds.items()
    }


def _xnnpack(graph: Graph, feeds: Arrays, wanted: Sequence[Array] | None) -> Json:
    compiled = fitzroy.compile(graph, target="xnnpack")
    methods: Any = compiled.summary()["methods"]
    placed = {
        target: count
        for method in methods.values()
        for target, count in method["nodes"].items()
    }  # fmt: skip
    if wanted is None:
        return {"placed": placed}
    with ExecuTorchRuntime(threads=1) as runtime, runtime.load(compiled.data) as session:
        found = session.run(list(feeds.values()))
    return {"placed": placed, "apart": difference(found, wanted)}


def _module(graph: Graph, feeds: Arrays, wanted: Sequence[Array] | None) -> Json:
    data = fitzroy.compile(graph, target="vm").data
    if wanted is None:
        return {}
    with ModuleProgram(data) as program:
        found = program.run(feeds)
    return {"apart": difference([found[name] for name in graph.outputs], wanted)}


def _edgetpu(graph: Graph, model: str) -> Json:
    """Operators on the chip and on the host, and how far outputs are from float32, in dB."""
    row: Json = {}
    if not any(graph.type(name).quantization for node in graph.nodes() for name in node.outputs):
        row["calibration"], samples = samples_of(graph, _CALIBRATING, 1, model)
        result = quantize_model(graph, samples, QuantizeOptions(tables=True), unit=FUNCTIONS)
        judged = samples_of(graph, _JUDGING, 2, model)[1]
        levels = compare(result.source, result.counterpart, judged).outputs
        row["snr_db"] = {name: round(off.decibels, 1) for name, off in levels.items()}
        graph = result.graph
    compiled = compile_edgetpu(Source.of(graph))
    convolutions = [node for node in compiled.mapped if _is_convolution(node.op)]
    return {
        **row,
        "chip": len(compiled.mapped),
        "host": len(compiled.unmapped),
        "convolutions": len(convolutions),
        "segments": len(compiled.segments),
        "reasons": Counter(f"{r.code}: {r.what}" for r in compiled.reasons).most_common(4),
    }


def _seconds(path: Path, how: Reading, graph: Graph, repeats: int) -> Json:
    """Time of a compilation for XNNPACK, of the file and of the same model as TFLite."""
    times = {"file": _shortest(lambda: fitzroy.compile(fitzroy.load(path, how)), repeats)}
    if path.suffix == ".onnx":
        with tempfile.TemporaryDirectory() as folder:
            same = Path(folder) / "model.tflite"
            same.write_bytes(write_model(export_model(graph)))
            times["tflite"] = _shortest(lambda: fitzroy.compile(fitzroy.load(same)), repeats)
    return times


def _shortest(function: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


# --- all of them ----------------------------------------------------------------------------------


def _apart(file: ModelFile, repeats: int) -> Json:
    """The row of a model, measured in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{file.name}{file.suffix}"
        path.write_bytes(file.data)
        what = {"package": file.package, "given": dict(file.given)}
        command = ["--one", os.fspath(path), "--what", json.dumps(what), "--repeats", str(repeats)]
        try:
            result = subprocess.run(
                [sys.executable, "-m", "benchmarks.models", *command],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            failed = f"not finished after {_SECONDS} s"
        else:
            if result.returncode == 0:
                row: Json = json.loads(result.stdout.splitlines()[-1])
                return row
            failed = (result.stderr.strip().splitlines() or ["no word"])[-1]
    suffix = file.suffix[1:]
    return {"package": file.package, "model": file.name, "format": suffix, "failed": failed}


def _one(options: argparse.Namespace) -> int:
    path, what = Path(options.one), json.loads(options.what)
    file = ModelFile(what["package"], path.stem, path.suffix, path.read_bytes(), what["given"])
    # Messages name the file, but not the folder that it lies in for this.
    print(json.dumps(measure(file, path, options.repeats)).replace(f"{path.parent}/", ""))
    return 0


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["package"], row["model"], row["format"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure models; the exit code is 1 if one cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--what", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one:
        return _one(options)
    missing: list[str] = []
    files = collected(options.folders, missing)
    for package in missing:
        print(f"{package}: not installed, its models are skipped")
    rows = {}
    if options.only != "*" and results_path("models").is_file():
        rows = {_key(row): row for row in read_results("models")["models"]}
    for file in files:
        if fnmatchcase(file.name, options.only):
            row = _apart(file, options.repeats)
            rows[_key(row)] = row
            print(json.dumps(row), flush=True)
            write_results("models", {"models": list(rows.values())})
    return 1 if any("failed" in row for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
