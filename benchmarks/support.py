"""What the measurements share: peers, inputs, the description of the machine, result files."""

from __future__ import annotations

import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from tests.support import corpus_path

from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.opaque import Opaque
from fitzroy.formats import tflite

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
INT8_MODEL = "coral/tf2_mobilenet_v2_1.0_224_ptq.tflite"
UINT8_MODEL = "coral/mobilenet_v2_1.0_224_quant.tflite"

_PACKAGES = ("ai-edge-litert", "executorch", "fitzroy", "numpy", "torch", "torchao")


def corpus_model(name: str) -> Path:
    """A model of the corpus.

    Raises:
        UsageError: it is absent.
    """
    path = corpus_path() / name
    if not path.is_file():
        raise UsageError(f"no model {path}", hint="set FITZROY_CORPUS to the corpus of models")
    return path


def corpus_sources() -> list[Path]:
    """Models of the corpus as they were before any vendor's compiler, in order of their paths.

    Raises:
        UsageError: there is no corpus.
    """
    files = sorted(corpus_path().glob("**/*.tflite"))
    sources = [file for file in files if "edgetpu" not in file.stem]
    if not sources:
        raise UsageError(
            f"no models below {corpus_path()}", hint="set FITZROY_CORPUS to the corpus of models"
        )
    return sources


def machine() -> dict[str, object]:
    """Processor, system, versions and date, fit for JSON."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    """Name and vector extensions of the processor, which decide on kernels and speed."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, content = line.partition(":")
        fields[name.strip()] = content.strip()
    flags = set(fields.get("flags", "").split())
    extensions = [name for name in ("avx2", "avx512f", "avx512_vnni") if name in flags]
    return " ".join([fields.get("model name", platform.machine()), *extensions])


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def summary(seconds: Sequence[float]) -> dict[str, object]:
    """Median, extremes and number of measured times, in milliseconds."""
    return {
        "median_ms": 1000 * statistics.median(seconds),
        "fastest_ms": 1000 * min(seconds),
        "slowest_ms": 1000 * max(seconds),
        "count": len(seconds),
    }


_BYTECODE = Path(tempfile.gettempdir()) / "fitzroy-benchmarks-bytecode"


def run_python(arguments: Sequence[str]) -> str:
    """What another Python process prints on standard output, run in the project's folder.

    Bytecode is kept from one process to the next, as in an installation, whatever the environment
    says.

    Raises:
        DeviceError: it failed.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": os.fspath(_BYTECODE)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise DeviceError(
            f"{' '.join(arguments)} failed",
            reason=f"exit code {result.returncode}\n{result.stderr[-2000:]}",
        )
    return result.stdout


def results_path(name: str) -> Path:
    """Where a measurement's results are kept."""
    return RESULTS / f"{name}.json"


def write_results(name: str, results: Mapping[str, object]) -> Path:
    """Write ``results/<name>.json`` and tell where."""
    path = results_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), **results}
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def read_results(name: str) -> dict[str, Any]:
    """Content of ``results/<name>.json``.

    Raises:
        UsageError: nothing was measured yet.
    """
    path = results_path(name)
    if not path.is_file():
        raise UsageError(f"no {path}", hint=f"run python -m benchmarks --only {name}")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


class LiteRT:
    """LiteRT's interpreter with its XNNPACK delegate, which it applies by default.

    Args:
        model: bytes of a ``.tflite`` model.
        threads: size of its thread pool.
    """

    def __init__(self, model: bytes, threads: int = 1) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(model_content=model, num_threads=threads)
        self._interpreter.allocate_tensors()
        self._inputs = [item["index"] for item in self._interpreter.get_input_details()]
        self._outputs = [item["index"] for item in self._interpreter.get_output_details()]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs for one array per input, in the model's order; states start anew."""
        self._interpreter.reset_all_variables()
        self._set(inputs)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]

    def time(self, inputs: Sequence[Array], repeats: int) -> list[float]:
        """Seconds of each of several executions, without copies of inputs and outputs."""
        seconds = []
        for _ in range(repeats):
            self._set(inputs)
            start = time.perf_counter()
            self._interpreter.invoke()
            seconds.append(time.perf_counter() - start)
        return seconds

    def _set(self, inputs: Sequence[Array]) -> None:
        for index, array in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(index, array)


def without_custom(graph: Graph) -> Graph | None:
    """A graph cut so that no custom operator is left; None if nothing remains.

    Outputs that depend on no custom operator stay; what custom operators read comes after them.
    """
    tainted: set[str] = set()
    wanted: dict[str, None] = {}
    for node in graph.nodes():
        inputs = [name for name in node.inputs if name is not None]
        if node.op == Opaque.name or OPS[node.op].custom or tainted.intersection(inputs):
            tainted.update(node.outputs)
            wanted.update(
                (name, None)
                for name in inputs
                if name not in tainted and graph.producer(name) is not None
            )
    if not tainted:
        return graph
    kept = [name for name in graph.outputs if name not in tainted]
    outputs = [*kept, *(name for name in wanted if name not in kept)]
    return graph.cut(outputs) if outputs else None


def as_tflite(path: Path, original: Graph, graph: Graph) -> bytes:
    """Bytes for LiteRT: those of the file, or an export if the graph was cut."""
    if graph is original:
        return path.read_bytes()
    return bytes(tflite.write_model(export_model(graph)))


def random_array(type: TensorType, rng: np.random.Generator) -> Array:
    """Uniform integers over the whole range, or normal floating-point numbers."""
    if type.dtype.is_float:
        return rng.standard_normal(type.shape).astype(type.dtype.numpy)
    low, high = type.dtype.limits
    return rng.integers(low, high, type.shape, dtype=type.dtype.numpy, endpoint=True)


def random_inputs(graph: Graph, count: int, seed: int = 0) -> Iterator[list[Array]]:
    """Random arrays for all inputs of a graph, several times."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield [random_array(graph.type(name), rng) for name in graph.inputs]


def image_extent(type: TensorType) -> tuple[int, int, int] | None:
    """Height, width and channels of an input that can take a picture of bytes, else None."""
    if type.dtype not in (DType.INT8, DType.UINT8):
        return None
    shape = (*type.shape, 1) if type.rank == 3 else type.shape
    if len(shape) != 4 or shape[0] != 1 or shape[3] not in (1, 3) or min(shape[1:3]) < 16:
        return None
    return shape[1], shape[2], shape[3]


def image_inputs(graph: Graph, count: int, seed: int = 0) -> Iterator[list[Array]]:
    """Pictures and crops of the corpus for the first input, random arrays for the others.

    The first pictures are whole; crops have random positions and at least half of the extent.
    Nothing comes if the first input takes no picture.

    Args:
        graph: the model.
        count: number of pictures.
        seed: seed of the crops.
    """
    from PIL import Image

    type = graph.type(graph.inputs[0])
    extent = image_extent(type)
    if extent is None:
        return
    height, width, channels = extent
    mode = "RGB" if channels == 3 else "L"
    files = sorted((corpus_path() / "images").glob("*.bmp"))
    if channels == 3:
        files = [file for file in files if not file.stem.startswith("mnist")]
    pictures = [Image.open(file).convert(mode) for file in files]
    rng, choice = np.random.default_rng(seed), random.Random(seed)
    for number in range(count if pictures else 0):
        picture = pictures[number % len(pictures)]
        if number >= len(pictures):
            w, h = (round(size * choice.uniform(0.5, 1)) for size in picture.size)
            x, y = choice.randint(0, picture.width - w), choice.randint(0, picture.height - h)
            picture = picture.crop((x, y, x + w, y + h))
        pixels = np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR))
        first = _from_pixels(pixels.reshape(type.shape), type)
        yield [first, *(random_array(graph.type(name), rng) for name in graph.inputs[1:])]


def _from_pixels(pixels: Array, type: TensorType) -> Array:
    """Pixels as the models of the corpus take them: over the whole range."""
    low, _ = type.dtype.limits
    return (pixels.astype(np.int32) + low).astype(type.dtype.numpy)
