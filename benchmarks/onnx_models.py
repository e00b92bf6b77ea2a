"""Whole ONNX models of installed packages: ``python -m benchmarks.onnx_models [--repeats N]``.

Every model that a package of the list ships is imported and compared with ONNX Runtime on the same
random inputs: computed by reference semantics, and as the TFLite model that `fitzroy convert`
writes on LiteRT. Where results differ by more than rounding, the first value that does is named.
The time of a compilation for XNNPACK is compared with that of the same model as TFLite. Packages
that are missing are skipped; files never enter the repository. Writes
``benchmarks/results/onnx_models.json``, of which ``docs/onnx.md`` is made.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fitzroy
from benchmarks.report import onnx as page
from benchmarks.support import ROOT, read_results, results_path, write_results
from fitzroy.base.errors import FitzroyError
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.onnx.reader import library
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate
from fitzroy.formats.tflite import write_model

_ROUNDING = 1e-3
"""Largest difference, beside the largest number of the output, that is called rounding."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that a package ships.

    Attributes:
        package: name of the package that is imported.
        path: the file in it.
        shapes: shapes of inputs that the model leaves open.
    """

    package: str
    path: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def file(self) -> Path | None:
        """Where the file is, or None if the package is not installed."""
        found = importlib.util.find_spec(self.package)
        for folder in (found.submodule_search_locations or ()) if found else ():
            if (Path(folder) / self.path).is_file():
                return Path(folder) / self.path
        return None


_VOICE = {"input": (1, 576), "state": (2, 1, 128)}
MODELS = (
    Model("nudenet", "320n.onnx", {"images": (1, 3, 320, 320)}),
    Model("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    Model("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    Model(
        "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}
    ),
    Model("magika", "models/standard_v3_3/model.onnx"),
    Model("silero_vad", "data/silero_vad.onnx", _VOICE),
    Model("silero_vad", "data/silero_vad_16k_op15.onnx", _VOICE),
    Model("silero_vad", "data/silero_vad_16k_sequence.onnx"),
    Model("silero_vad", "data/silero_vad_half.onnx", _VOICE),
    Model("silero_vad", "data/silero_vad_op18_ifless.onnx", _VOICE),
    Model("silero_vad", "data/silero_vad_openvino_16k.onnx"),
)


def inputs_of(graph: Graph) -> dict[str, Array]:
    """Inputs at random: numbers from 0 to 1, integers 0 or 1."""
    rng = np.random.default_rng(0)
    found = {}
    for name in graph.inputs:
        type = graph.type(name)
        numbers = rng.random(type.shape) if type.dtype.is_float else rng.integers(0, 2, type.shape)
        found[name] = np.asarray(numbers).astype(type.dtype.numpy)
    return found


def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def runtime(data: bytes, feeds: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """Values of a model by ONNX Runtime."""
    session = _session(data)
    given = {info.name: feeds[info.name] for info in session.get_inputs() if info.name in feeds}
    return dict(zip(names, map(np.asarray, session.run(list(names), given)), strict=True))


def lite(data: bytes, feeds: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """Outputs of a TFLite model by LiteRT."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    interpreter.invoke()
    details = {detail["name"]: detail["index"] for detail in interpreter.get_output_details()}
    return {name: interpreter.get_tensor(details[name]) for name in names}


def apart(found: Array, wanted: Array) -> float:
    """Largest difference, beside the largest number, or beside 0.001 if that is smaller."""
    if not wanted.size:
        return 0.0
    largest = max(float(np.abs(wanted).max()), 1e-3)
    return float(np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()) / largest


def difference(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> float:
    """Largest difference of any output."""
    return max(apart(found[name], array) for name, array in wanted.items())


def begins(data: bytes, graph: Graph, feeds: Mapping[str, Array]) -> str:
    """The first value that differs by more than rounding.

    Values are compared as sorted numbers, since the graph may store them in another order.
    """
    onnx = library()
    model = onnx.ModelProto.FromString(data)
    known = {info.name for info in model.graph.output}
    names = [n for node in model.graph.node for n in node.output if n and n in graph.values]
    for name in names:
        if name not in known:
            model.graph.output.add().name = name
    wanted = runtime(model.SerializeToString(), feeds, names)
    values = evaluate(graph, feeds, keep=True)
    for name in names:
        pair = [np.sort(x, axis=None) for x in (values[name], wanted[name])]
        if pair[0].size == pair[1].size and apart(*pair) > _ROUNDING:
            return str(name)
    return "none of the values of that name"


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The shortest time of a function."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(model: Model, file: Path, repeats: int) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {"package": model.package, "model": Path(model.path).stem}
    try:
        kept = fitzroy.load(file, Reading(shapes=model.shapes, keep_layout=True))
        graph = fitzroy.load(file, Reading(shapes=model.shapes))
    except FitzroyError as error:
        return {**row, "refused": str(error).splitlines()[-1].strip()}
    data, feeds = file.read_bytes(), inputs_of(kept)
    names = list(kept.outputs)
    wanted = runtime(data, feeds, names)
    row["operators"] = len(graph.nodes())
    row["transpositions"] = Counter(node.op for node in graph.nodes())["transpose"]
    row["reference"] = difference(evaluate(kept, feeds), wanted)
    if row["reference"] > _ROUNDING:
        row["begins"] = begins(data, kept, feeds)
    converted = write_model(export_model(kept))
    row["litert"] = difference(lite(converted, feeds, names), wanted)
    methods: Any = fitzroy.compile(graph, target="xnnpack").summary()["methods"]
    row["placed"] = {
        target: nodes for method in methods.values()
        for target, nodes in method["nodes"].items()
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        same = Path(folder) / "model.tflite"
        same.write_bytes(write_model(export_model(graph)))
        how = Reading(shapes=model.shapes)
        row["seconds"] = seconds(lambda: fitzroy.compile(fitzroy.load(file, how)), repeats)
        row["seconds_tflite"] = seconds(lambda: fitzroy.compile(fitzroy.load(same)), repeats)
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all models that are there; the exit code is 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onnx_models")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(argv)
    rows = []
    for model in MODELS:
        file = model.file()
        if file is None:
            print(f"{model.package}: not installed, {model.path} is skipped")
            continue
        rows.append(measure(model, file, options.repeats))
        print(rows[-1])
    if rows:
        write_results("onnx_models", {"models": rows})
        if results_path("onnx_nodes").is_file():
            path = ROOT / "docs" / "onnx.md"
            path.write_text(page(read_results("onnx_nodes"), read_results("onnx_models")))
    return 1 if any("begins" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
