"""Agreement of a quantized detector with its float32 model, measure by measure.

The detector is the YOLOv8n that the package ``nudenet`` ships with trained weights; pictures are
those of scikit-image, scikit-learn, matplotlib, ultralytics and insightface, as far as these
packages are there; models are judged on others than they are calibrated on. Objects of
the float32 model with a score of 0.25 or more are what is to be found; those of the quantized ones
count from the least score on that its scale holds.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

import fitzroy
from benchmarks.support import write_results
from fitzroy.base.errors import UsageError
from fitzroy.base.types import DType, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BoxCoding
from fitzroy.compiler.ops.detections import DetectionsAttributes
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.heads.box_parts import with_box_parts
from fitzroy.compiler.passes.heads.class_maximum import ClassMaximum
from fitzroy.compiler.passes.heads.emphasis import emphasis
from fitzroy.compiler.passes.heads.objects import ranges_of_objects
from fitzroy.compiler.passes.heads.options import PLAIN_OUTPUTS, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import (
    features,
    limits,
    with_detections,
    with_lower_threshold,
)
from fitzroy.compiler.quantization.agreement import mean_average_precision
from fitzroy.compiler.quantization.comparison import real_output, stored_input
from fitzroy.compiler.quantization.functions import ANY_TABLE, FunctionUnit
from fitzroy.compiler.quantization.options import Mixed, QuantizeOptions, RangeMethod
from fitzroy.compiler.quantization.pipeline import prepared, quantize_model
from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice

Floats = npt.NDArray[np.float32]

CALIBRATING, JUDGING = 5, 20
"""Cuttings of each picture to calibrate and to judge on."""

SIDE, CLASSES, LEAST, KNOWN = 320, 18, 0.25, 0.11
"""Of the model: pixels, classes; least score of an object, and of one that is looked for."""

CALIBRATION = (
    ("ultralytics", "assets/bus.jpg"),
    ("ultralytics", "assets/zidane.jpg"),
    ("insightface", "data/images/Tom_Hanks_54745.png"),
    ("insightface", "data/images/mask_black.jpg"),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
    ("skimage", "data/coffee.png"),
    ("skimage", "data/chelsea.png"),
    ("skimage", "data/rocket.jpg"),
    ("sklearn", "datasets/images/china.jpg"),
)
"""What models are calibrated on."""

PICTURES = (
    ("skimage", "data/astronaut.png"),
    ("insightface", "data/images/t1.jpg"),
    ("insightface", "data/images/mask_white.jpg"),
)
"""What they are judged on: pictures that calibration never saw."""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/detections.json``.

    Args:
        progress: called with what is under way.
        repeats: crops of each picture for the evaluation, 0 for the usual number.

    Returns:
        pictures on which the simulated chip lists other objects than the reference.

    Raises:
        UsageError: the package of the model, or all packages of pictures, are missing.
    """
    graph = model()
    pictures, others = _present(PICTURES), _present(CALIBRATION)
    if not pictures or not others:
        raise UsageError("there are no pictures", hint="pip install scikit-image ultralytics")
    calibrating = cuttings(others, CALIBRATING, 1)
    judging = cuttings(pictures, repeats or JUDGING, 2)
    options = HeadOptions(True)
    listing = with_detections(graph, options)
    exact = [_listed(listing, picture) for picture in judging]
    rows = []
    for title, made in _variants(prepared(graph), listing, options, calibrating).items():
        progress(title)
        quantized, rows_of = made()
        found = [rows_of(quantized, picture) for picture in judging]
        rows.append(
            {
                "method": title,
                "map": mean_average_precision(found, exact),
                "map50": mean_average_precision(found, exact, (0.5,)),
                "objects": sum(int((item[:, 4] >= LEAST).sum()) for item in found),
            }
        )
        last = quantized
    progress("simulating")
    simulated, faults = _simulated(last, listing, judging[:: len(judging) // len(pictures)])
    results = {
        "pictures": [os.path.basename(path) for path in pictures],
        "calibration": [os.path.basename(path) for path in others],
        "calibrated": len(calibrating),
        "judged": len(judging),
        "exact": sum(int((item[:, 4] > 0).sum()) for item in exact),
        "rows": rows,
        "simulated": simulated,
    }
    write_results("detections", results)
    return faults


_SHAPE = Reading(shapes={"images": (1, 3, SIDE, SIDE)})

_EXCHANGED = 2
"""How many of the first pictures to calibrate on are judged on in turn."""


def model() -> Graph:
    """The detector.

    Raises:
        UsageError: its package is missing.
    """
    return fitzroy.load(_file("nudenet", "320n.onnx"), _SHAPE)


def splits(judging: int = JUDGING) -> dict[str, tuple[list[Floats], list[Floats]]]:
    """Cuttings to calibrate and to judge on, those of `measure` and of other pictures.

    Args:
        judging: crops of each picture for the evaluation.
    """
    exchanged = CALIBRATION[:_EXCHANGED]
    parts = {
        "people": (CALIBRATION, PICTURES),
        "streets": ((*PICTURES, *CALIBRATION[_EXCHANGED:]), exchanged),
    }
    return {
        name: (cuttings(_present(first), CALIBRATING, 1), cuttings(_present(second), judging, 2))
        for name, (first, second) in parts.items()
    }


def _found(package: str, name: str) -> str | None:
    """A file of an installed package."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None


def _present(files: Sequence[tuple[str, str]]) -> list[str]:
    return [path for package, name in files if (path := _found(package, name)) is not None]


def _file(package: str, name: str) -> Path:
    path = _found(package, name)
    if path is None:
        raise UsageError(f"the package {package} is not installed", hint=f"pip install {package}")
    return Path(path)


def cuttings(paths: Sequence[str], count: int, seed: int) -> list[Floats]:
    """Cuttings of pictures [1,320,320,3], 0 to 1: all of each first, then random ones."""
    from PIL import Image, ImageOps

    random = np.random.default_rng(seed)
    found = []
    for path in paths:
        with Image.open(path) as file:
            whole = file.convert("RGB")
        for number in range(count):
            share = random.uniform(0.4, 1.0) if number or seed > 1 else 1.0
            width, height = (round(extent * share) for extent in whole.size)
            left = int(random.integers(0, whole.width - width + 1))
            top = int(random.integers(0, whole.height - height + 1))
            part = whole.crop((left, top, left + width, top + height))
            if random.random() < 0.5:
                part = ImageOps.mirror(part)
            # As the package does: the longer side fills the input.
            fitted = ImageOps.pad(part, (SIDE, SIDE), Image.Resampling.BILINEAR, centering=(0, 0))
            found.append(np.asarray(fitted, np.float32)[None] / np.float32(255))
    return found


# --- what lists objects --------------------------------------------------------------------------


_ALL = ("scores", "features", "boxes")
"""What is done for a head when it is quantized."""

Made = tuple[Graph, Callable[[Graph, Floats], Floats]]


def _variants(
    plain: Graph, listing: Graph, options: HeadOptions, pictures: Sequence[Floats]
) -> dict[str, Callable[[], Made]]:
    """Ways to quantize, each with what those before have."""
    ranges = QuantizeOptions(ranges=RangeMethod.MINMAX, parts=1)

    def joined(mixed: Mixed) -> Made:
        chosen = QuantizeOptions(mixed_outputs=mixed)
        return _quantized(plain, chosen, pictures, {}), _decoded

    def recognised(*, tables: bool) -> Made:
        counts = emphasis(plain, PLAIN_OUTPUTS, [])
        chosen, unit = QuantizeOptions(tables=tables), FUNCTIONS if tables else ANY_TABLE
        graph = _quantized(
            counts.graph, chosen, pictures, counts.limits, counts.rare, counts.bounds, unit
        )
        return graph, _decoded

    whole = QuantizeOptions(parts=1)

    def heads(chosen: QuantizeOptions, *measures: str, unit: FunctionUnit = ANY_TABLE) -> Made:
        (name,) = listing.inputs
        samples = [{name: picture} for picture in pictures]
        graph, bounds = listing, dict[str, tuple[float, float]]()
        if "boxes" in measures:
            graph, bounds = with_box_parts(graph, ranges_of_objects(graph, samples))
        found = limits(graph, options) if "scores" in measures else {}
        kept = features(graph, options) if "features" in measures else set()
        return _quantized(graph, chosen, pictures, found, kept, bounds, unit), _listed

    return {
        "one output, one scale": lambda: joined(Mixed.KEEP),
        "boxes decoded and joined with scores in float32": lambda: joined(Mixed.FLOAT),
        "the same, head recognised": lambda: recognised(tables=False),
        "the same, functions of sums that are not rounded": lambda: recognised(tables=True),
        "objects listed, ranges from extrema": lambda: heads(ranges),
        "ranges weighted by the effect of SiLU": lambda: heads(whole),
        "scores limited to those near or above the threshold": lambda: heads(whole, "scores"),
        "features of objects not clipped": lambda: heads(whole, "scores", "features"),
        "boxes with the range of objects' boxes, in 2 parts": lambda: heads(whole, *_ALL),
        "channels with outliers in up to 4 parts": lambda: heads(QuantizeOptions(), *_ALL),
        "functions in tables": lambda: heads(QuantizeOptions(tables=True), *_ALL),
        "functions of sums that are not rounded": lambda: heads(
            QuantizeOptions(tables=True), *_ALL, unit=FUNCTIONS
        ),
    }


def _quantized(
    graph: Graph,
    options: QuantizeOptions,
    pictures: Sequence[Floats],
    bounds: Mapping[str, tuple[float, float]],
    rare: Collection[str] = (),
    boxes: Mapping[str, tuple[float, float]] = MappingProxyType({}),
    unit: FunctionUnit = ANY_TABLE,
) -> Graph:
    (name,) = graph.inputs
    samples = [{name: picture} for picture in pictures]
    known = {name: (0.0, 1.0)}
    return quantize_model(
        graph, samples, options, known=known, limits=bounds, rare=rare, bounds=boxes, unit=unit
    ).graph


def _results(graph: Graph, picture: Floats) -> Floats:
    """The first output, as real numbers."""
    (name,) = graph.inputs
    (output,) = graph.outputs
    given = stored_input(picture, graph.type(name))
    found: Floats = real_output(fitzroy.evaluate(graph, {name: given})[output], graph.type(output))
    return found


def _listed(graph: Graph, picture: Floats) -> Floats:
    """Objects of a model that lists them; of a quantized one, also those below the threshold."""
    quantized = graph.type(graph.inputs[0]).is_quantized
    return _results(with_lower_threshold(graph) if quantized else graph, picture)


def _decoded(graph: Graph, picture: Floats) -> Floats:
    """Objects of a model that gives decoded rows [1,4+c,n]."""
    rows = _results(graph, picture).transpose(0, 2, 1)
    lister = _lister(rows.shape[1], KNOWN)
    parts = {"boxes": rows[:, :, :4], "scores": rows[:, :, 4:]}
    given = {name: np.ascontiguousarray(part, np.float32) for name, part in parts.items()}
    found: Floats = fitzroy.evaluate(lister, given)["objects"]
    return found


def _lister(count: int, score: float) -> Graph:
    """The operator alone, for decoded boxes and probabilities."""
    graph = Graph("lister")
    for name, width in (("boxes", 4), ("scores", CLASSES)):
        graph.add_input(name, TensorType((1, count, width), DType.FLOAT32))
    a = DetectionsAttributes(SIDE, SIDE, BoxCoding.CENTRES, score_threshold=score)
    node = Node("list", "detections", ("boxes", "scores"), ("objects",), a)
    graph.add_node(node, [TensorType((a.most, 6), DType.FLOAT32)])
    graph.outputs = ["objects"]
    return graph


# --- on the simulated chip -----------------------------------------------------------------------


def _simulated(
    quantized: Graph, listing: Graph, pictures: Sequence[Floats]
) -> tuple[list[dict[str, object]], list[str]]:
    """Objects of the simulated chip beside those of ONNX Runtime's float32 results."""
    source = Source.of(run_passes(quantized, (ClassMaximum(),)))
    data = compile_edgetpu(source).data
    entries, faults = [], []
    with (
        Interpreter(data, device="sim:direct") as interpreter,
        Interpreter(data, device=TwinDevice(source.graph)) as twin,
    ):
        (name,) = interpreter.graph.inputs
        for number, picture in enumerate(pictures):
            given = stored_input(picture, interpreter.graph.type(name))
            found, same = (next(iter(x.run({name: given}).values())) for x in (interpreter, twin))
            if not np.array_equal(found, same):
                faults.append(f"detections: picture {number} is another on the simulated chip")
            entries.append(_beside(found, by_onnxruntime(picture)))
    return entries, faults


def by_onnxruntime(picture: Floats) -> Floats:
    """Objects of the float32 model on ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(_file("nudenet", "320n.onnx"))
    (rows,) = session.run(None, {"images": picture.transpose(0, 3, 1, 2)})
    parts = np.asarray(rows).transpose(0, 2, 1)
    lister = _lister(parts.shape[1], LEAST)
    found: Floats = fitzroy.evaluate(
        lister,
        {
            "boxes": np.ascontiguousarray(parts[:, :, :4]),
            "scores": np.ascontiguousarray(parts[:, :, 4:]),
        },
    )["objects"]
    return found


def _beside(found: Floats, exact: Floats) -> dict[str, object]:
    """The best objects of both, and how many there are."""
    mine, theirs = (rows[rows[:, 4] > 0] for rows in (found, exact))
    return {
        "found": len(mine),
        "exact": len(theirs),
        "best": [rows[:3].round(2).tolist() for rows in (mine, theirs)],
        "map": mean_average_precision([found], [exact]),
    }
