"""Files that pages of the documentation take for given: a model of the reader's, its pictures.

The digits model and its images stand for most of them.
"""

from __future__ import annotations

import csv
import functools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.compiler.onnx.models import helper, model

import fitzroy
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.cli.main import main
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.formats.darwinn import write_package
from fitzroy.linker.objects.text import parse_object
from fitzroy.linker.packages.darwinn import link

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
DIGITS = EXAMPLES / "models" / "digits.tflite"
IMAGES = sorted((EXAMPLES / "images").glob("*.png"))
SCENES = sorted((EXAMPLES / "detector" / "scenes").glob("*.png"))
Make = Callable[[Path], object]
"""Makes a file, or a folder, of some name."""

SIDE, STRIDE, CLASSES, BINS = 64, 8, 3, 16


@functools.cache
def compiled() -> bytes:
    """The digits model for the Edge TPU."""
    return fitzroy.compile_edgetpu(DIGITS).data


@functools.cache
def yolo() -> bytes:
    """An ONNX detector with random weights: distributions of distances to sides, and scores.

    It has names of its classes, as exports of Ultralytics do.
    """
    node, random = helper().make_node, np.random.default_rng(1)
    side = SIDE // STRIDE
    line = np.arange(side) + 0.5
    middles = np.stack(np.meshgrid(line, line)).reshape(1, 2, side * side)

    def filters(outputs: int, inputs: int) -> np.ndarray:
        return random.normal(0, 2 / np.sqrt(inputs), (outputs, inputs, 1, 1))

    constants = {
        "w": filters(8, 3), "w_boxes": filters(4 * BINS, 8), "w_scores": filters(CLASSES, 8),
        "middles": middles, "bins": np.arange(BINS).reshape(1, BINS, 1, 1),
        "half": np.array(0.5), "stride": np.array(STRIDE),
    }  # fmt: skip
    shapes = {
        "rows": [1, 4 * BINS + CLASSES, side**2], "parts": [4 * BINS, CLASSES],
        "apart": [1, 4, BINS, side**2], "four": [1, 4, side**2], "sizes": [2, 2],
    }  # fmt: skip
    nodes = [
        node("Conv", ["images", "w"], ["c"], strides=[STRIDE, STRIDE]),
        node("Sigmoid", ["c"], ["features"]),
        node("Conv", ["features", "w_boxes"], ["b"]),
        node("Conv", ["features", "w_scores"], ["s"]),
        node("Concat", ["b", "s"], ["both"], axis=1),
        node("Reshape", ["both", "rows"], ["flat"]),
        node("Split", ["flat", "parts"], ["boxes", "raw"], axis=1),
        node("Reshape", ["boxes", "apart"], ["each"]),
        node("Transpose", ["each"], ["turned"], perm=[0, 2, 1, 3]),
        node("Softmax", ["turned"], ["likely"], axis=1),
        node("Conv", ["likely", "bins"], ["mean"]),
        node("Reshape", ["mean", "four"], ["distances"]),
        node("Split", ["distances", "sizes"], ["left_top", "right_bottom"], axis=1),
        node("Sub", ["middles", "left_top"], ["low"]),
        node("Add", ["middles", "right_bottom"], ["high"]),
        node("Add", ["low", "high"], ["sum"]),
        node("Mul", ["sum", "half"], ["middle"]),
        node("Sub", ["high", "low"], ["extent"]),
        node("Concat", ["middle", "extent"], ["in_cells"], axis=1),
        node("Mul", ["in_cells", "stride"], ["in_pixels"]),
        node("Sigmoid", ["raw"], ["sure"]),
        node("Concat", ["in_pixels", "sure"], ["found"], axis=1),
    ]
    return model(
        nodes,
        [("images", [1, 3, SIDE, SIDE])],
        ["found"],
        {name: value.astype(np.float32) for name, value in constants.items()}
        | {name: np.array(shape) for name, shape in shapes.items()},
        properties={"names": str({number: f"thing {number}" for number in range(CLASSES)})},
    )


@functools.cache
def detecting() -> bytes:
    """The ONNX detector for the Edge TPU, with a list of objects."""
    Path("yolo.onnx").write_bytes(yolo())
    compiling = [
        "compile", "yolo.onnx", "--calibrate", str(EXAMPLES / "images"), "--detections", "--quiet",
    ]  # fmt: skip
    assert main(compiling) == 0
    return Path("yolo_edgetpu.tflite").read_bytes()


@functools.cache
def classifier() -> bytes:
    """A float ONNX classifier of the digits' images, with random weights."""
    node = helper().make_node
    weights = np.random.default_rng(2).normal(0, 0.2, (10, 1, 8, 8)).astype(np.float32)
    nodes = [
        node("Conv", ["image", "w"], ["c"]),
        node("Flatten", ["c"], ["logits"]),
        node("Softmax", ["logits"], ["probabilities"]),
    ]
    return model(nodes, [("image", [1, 1, 8, 8])], ["probabilities"], {"w": weights})


@functools.cache
def stateful() -> bytes:
    """An ONNX model whose state is an output and an input."""
    node = helper().make_node
    nodes = [
        node("Add", ["input", "state"], ["stateN"]),
        node("Tanh", ["stateN"], ["output"]),
    ]
    return model(nodes, [("input", [1, 4]), ("state", [1, 4])], ["output", "stateN"])


@functools.cache
def two_inputs() -> bytes:
    """A sum of two images, for the Edge TPU."""
    graph = Graph("sum")
    type = TensorType((1, 8, 8, 4), DType.INT8, Quantization.per_tensor(0.1, 0))
    names = [graph.add_input(name, type) for name in ("left", "right")]
    graph.outputs = [graph.emit("add", names, type, ActivationAttributes())]
    return fitzroy.compile_edgetpu(Source.of(graph)).data


@functools.cache
def echo(without: str = "") -> bytes:
    """The package of docs/assembly.md, which copies 256 bytes.

    Args:
        without: an instruction that is left out.
    """
    page = (ROOT / "docs" / "assembly.md").read_text()
    text = page.partition("```object\n")[2].partition("```")[0]
    if without:
        text = re.sub(rf"    {without} .*\n(        .*\n)*", "", text)
    (package,) = link([parse_object(text)])
    return write_package(package)


def array(path: Path) -> None:
    """An input of the digits model."""
    np.save(path, np.zeros((1, 8, 8, 1), np.int8))


def folder(pictures: list[Path]) -> Make:
    """A folder of pictures."""

    def make(path: Path) -> None:
        path.mkdir()
        for picture in pictures:
            shutil.copy(picture, path)

    return make


def classes(path: Path) -> None:
    """A folder for each class."""
    for image in IMAGES:
        (path / image.stem.split("_")[1]).mkdir(parents=True)
        shutil.copy(image, path / image.stem.split("_")[1])


def table(path: Path) -> None:
    """A table of files and their classes."""
    with path.open("w", newline="") as file:
        rows = [(str(image), image.stem.split("_")[1]) for image in IMAGES]
        csv.writer(file).writerows([("file", "label"), *rows])


def boxes(path: Path) -> None:
    """A data set of COCO's form for the pictures of the example detector."""
    document = {
        "images": [
            {"id": n, "file_name": scene.name, "width": 32, "height": 32}
            for n, scene in enumerate(SCENES)
        ],
        "categories": [{"id": 1, "name": "thing"}],
        "annotations": [
            {"id": n + 1, "image_id": n, "category_id": 1, "bbox": [4, 4, 12, 12],
             "area": 144, "iscrowd": 0}
            for n, _ in enumerate(SCENES)
        ],
    }  # fmt: skip
    path.write_text(json.dumps(document))


def street(path: Path) -> None:
    """A picture as cameras make them."""
    from PIL import Image

    Image.open(SCENES[0]).convert("RGB").save(path)


def data(content: Callable[[], bytes]) -> Make:
    """A file of some bytes."""
    return lambda path: path.write_bytes(content())


def text(content: str) -> Make:
    """A file of some text."""
    return lambda path: path.write_text(content)


def copy(source: Path) -> Make:
    """A copy of a file."""
    return lambda path: shutil.copy(source, path)


_SCRIPT = """\
from pycoral.utils.edgetpu import make_interpreter
interpreter = make_interpreter("model_edgetpu.tflite")
interpreter.allocate_tensors()
interpreter.invoke()
"""

GIVEN: dict[str, Make] = {
    "model.tflite": copy(DIGITS),
    "digits.tflite": copy(DIGITS),
    "first.tflite": copy(DIGITS),
    "second.tflite": copy(DIGITS),
    "float.tflite": copy(EXAMPLES / "detector" / "detector.tflite"),
    "model_edgetpu.tflite": data(compiled),
    "first_edgetpu.tflite": data(compiled),
    "second_edgetpu.tflite": data(compiled),
    "two_edgetpu.tflite": data(two_inputs),
    "model.onnx": data(classifier),
    "stateful.onnx": data(stateful),
    "yolo.onnx": data(yolo),
    "yolo_edgetpu.tflite": data(detecting),
    "package.dwn": data(echo),
    "stuck.dwn": data(lambda: echo("pop")),
    "labels.txt": copy(EXAMPLES / "models" / "digits_labels.txt"),
    "coco.txt": text("".join(f"thing {n}\n" for n in range(80))),
    "photo.png": copy(IMAGES[0]),
    "photo.jpg": copy(IMAGES[0]),
    "street.jpg": street,
    "images": folder(IMAGES),
    "photos": folder(IMAGES),
    "scenes": folder(SCENES),
    "val": classes,
    "val.csv": table,
    "coco.json": boxes,
    "x.npy": array,
    "image.npy": lambda path: np.save(path, np.zeros((1, 1, 8, 8), np.float32)),
    "a.npy": lambda path: np.save(path, np.zeros((1, 8, 8, 4), np.int8)),
    "b.npy": lambda path: np.save(path, np.ones((1, 8, 8, 4), np.int8)),
    "x.raw": data(lambda: bytes(range(256))),
    "examples": lambda path: shutil.copytree(EXAMPLES, path),
    "classify_image.py": text(_SCRIPT),
}
"""What makes each file, by its name."""


def give(said: str) -> None:
    """Make every file that a command or program names, if it is not there, in this folder."""
    words = {word.rstrip("/") for word in re.findall(r"[\w./-]+", said)}
    words |= {word.partition("/")[0] for word in words}
    for name, make in GIVEN.items():
        if name in words and not Path(name).exists():
            make(Path(name))
