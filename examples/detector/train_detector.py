# ruff: noqa: D102 - methods of layers are documented by Layer
"""Train a small detector, quantize it, and compare boxes with those of float32.

Handwritten digits of scikit-learn lie on dark canvases of 32x32 pixels. A network trained with
numpy says for each of 8x8 cells how far the edges of a digit are, and how sure it is of each of
ten; decoded boxes and scores are in one tensor, as YOLO models have them. One scale for both leaves
the scores few of 256 levels. So the quantizer joins them in float32, or ``--detections`` recognises
the head and lists the objects; `make demo-detector` does that with the model that is here.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from train_digits import (  # type: ignore[import-not-found]
    SEED,
    Conv3x3,
    Digits,
    Floats,
    Layer,
    MaxPool2x2,
    Parameter,
    load_digits,
)

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.quantization.options import Border, Mixed, QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.formats.tflite import write_model

SIDE, CELLS, DIGIT, CLASSES = 32, 8, 8, 10
_STRIDE = SIDE // CELLS
WIDTH = 48


@dataclass(frozen=True)
class Scenes:
    """Canvases with digits.

    Attributes:
        images: [N,32,32,1], 0 to 1.
        boxes: [N,8,8,4], centre and extent of the digit of each cell, in pixels.
        kinds: [N,8,8,10], 1 for the digit whose centre is in the cell.
    """

    images: Floats
    boxes: Floats
    kinds: Floats

    @property
    def present(self) -> Floats:
        """[N,8,8,1], 1 where a digit's centre is in the cell."""
        found: Floats = self.kinds.max(axis=-1, keepdims=True)
        return found


def scenes(digits: Digits, count: int, seed: int) -> Scenes:
    """Canvases with one or two digits of different sizes and brightness."""
    rng = np.random.default_rng(seed)
    images = rng.random((count, SIDE, SIDE, 1), np.float32) * np.float32(0.1)
    boxes = np.zeros((count, CELLS, CELLS, 4), np.float32)
    kinds = np.zeros((count, CELLS, CELLS, CLASSES), np.float32)
    real = digits.real()
    for number in range(count):
        for half in range(int(rng.integers(1, 3))):
            size = DIGIT * int(rng.integers(1, 3))
            which = int(rng.integers(len(real)))
            picture = real[which].repeat(size // DIGIT, 0).repeat(size // DIGIT, 1)
            top = int(rng.integers(0, SIDE - size + 1))
            low = half * SIDE // 2
            left = low + int(rng.integers(0, max(SIDE // 2 - size, 0) + 1))
            spot = images[number, top : top + size, left : left + size]
            np.maximum(spot, picture * np.float32(rng.uniform(0.5, 1)), out=spot)
            x, y = left + size / 2, top + size / 2
            cell = int(y) // _STRIDE, min(int(x) // _STRIDE, CELLS - 1)
            boxes[(number, *cell)] = x, y, size, size
            kinds[(number, *cell)] = np.eye(CLASSES)[digits.labels[which]]
    return Scenes(images, boxes, kinds)


class Head:
    """Product of the last dimension with weights [C,O], and a bias, without rectifier."""

    def __init__(self, channels: int, outputs: int, rng: np.random.Generator) -> None:
        self.weights = Parameter(rng.normal(0, math.sqrt(1 / channels), (channels, outputs)))
        self.bias = Parameter(np.zeros(outputs))
        self.parameters = [self.weights, self.bias]

    def forward(self, x: Floats) -> Floats:
        self.x = x
        y: Floats = x @ self.weights.value + self.bias.value
        return y

    def backward(self, gradient: Floats) -> Floats:
        flat = gradient.reshape(-1, gradient.shape[-1])
        self.weights.gradient = self.x.reshape(-1, self.x.shape[-1]).T @ flat
        self.bias.gradient = flat.sum(axis=0)
        result: Floats = gradient @ self.weights.value.T
        return result

    def emit(self, graph: Graph, x: str) -> str:
        kernel = np.ascontiguousarray(self.weights.average.T)[:, None, None, :]
        name = graph.fresh("head")
        weights = graph.add_constant(f"{name}/weights", kernel)
        inputs = (x, weights, graph.add_constant(f"{name}/bias", self.bias.average))
        type = TensorType((*graph.type(x).shape[:3], len(kernel)), DType.FLOAT32)
        return graph.emit("conv_2d", inputs, type, ConvAttributes(), stem=name)


@dataclass(frozen=True)
class Detector:
    """A backbone, and heads for distances of edges from the cell's middle and for scores."""

    backbone: list[Layer]
    edges: Head
    scores: Head

    @property
    def layers(self) -> list[Layer]:
        """All layers."""
        return [*self.backbone, self.edges, self.scores]


def detector(rng: np.random.Generator) -> Detector:
    """A detector with random weights."""
    backbone: list[Layer] = [
        Conv3x3(1, 16, rng), MaxPool2x2(), Conv3x3(16, 32, rng), MaxPool2x2(),
        Conv3x3(32, WIDTH, rng), Conv3x3(WIDTH, WIDTH, rng),
    ]  # fmt: skip
    return Detector(backbone, Head(WIDTH, 4, rng), Head(WIDTH, CLASSES, rng))


def middles() -> Floats:
    """The middles of cells, [64,2], x before y, in cells."""
    line = np.arange(CELLS, dtype=np.float32) + np.float32(0.5)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def distances(boxes: Floats) -> Floats:
    """Distances [N,8,8,4] from middles to the left, top, right and bottom edges, in cells."""
    middle = middles().reshape(CELLS, CELLS, 2)
    centre, half = boxes[..., :2] / _STRIDE, boxes[..., 2:] / (2 * _STRIDE)
    found: Floats = np.concatenate([middle - centre + half, centre + half - middle], axis=-1)
    return found


def train(
    data: Scenes, epochs: int, report: Callable[[str], None], seed: int = SEED, size: int = 32
) -> Detector:
    """A detector trained with Adam on squared places and the entropy of scores."""
    rng = np.random.default_rng(seed)
    found = detector(rng)
    number = 0
    total = epochs * (len(data.images) // size)
    for epoch in range(epochs):
        order, losses = rng.permutation(len(data.images)), []
        for start in range(0, len(order) - size + 1, size):
            chosen, number = order[start : start + size], number + 1
            x = data.images[chosen]
            for layer in found.backbone:
                x = layer.forward(x)
            here = data.present[chosen]
            off = (found.edges.forward(x) - distances(data.boxes[chosen])) * here * _STRIDE
            sure = 1 / (1 + np.exp(-found.scores.forward(x)))
            kinds = data.kinds[chosen]
            weight = np.where(kinds > 0, np.float32(8), np.float32(1))
            losses.append(float((off**2).sum() / here.sum()))
            gradient = found.edges.backward(off * np.float32(0.5 / size))
            gradient = gradient + found.scores.backward((sure - kinds) * weight / np.float32(size))
            for layer in reversed(found.backbone):
                gradient = layer.backward(gradient)
            rate = 3e-3 * 0.5 * (1 + math.cos(math.pi * number / total))
            for layer in found.layers:
                for parameter in layer.parameters:
                    parameter.step(rate, number)
        report(f"epoch {epoch + 1:3d}: squared pixels {np.mean(losses):.3f}")
    return found


def build(found: Detector) -> Graph:
    """The float32 graph: ``image`` [1,32,32,1] to ``boxes`` [1,64,14], places and scores.

    Distances of edges become centres and extents in pixels, as exporters of YOLO models write it.
    """
    graph = Graph("detector")
    x = graph.add_input("image", TensorType((1, SIDE, SIDE, 1), DType.FLOAT32))
    for layer in found.backbone:
        x = layer.emit(graph, x)
    count = CELLS * CELLS

    def emit(op: str, names: list[str], width: int, a: Attributes | None = None) -> str:
        type = TensorType((1, count, width), DType.FLOAT32)
        return graph.emit(op, names, type, a or ActivationAttributes())

    def rows(name: str) -> str:
        width = graph.type(name).shape[3]
        return emit("reshape", [name], width, ReshapeAttributes((1, count, width)))

    edges, join = rows(found.edges.emit(graph, x)), ConcatenationAttributes(2)
    first, second = (emit("strided_slice", [edges], 2, _columns(at)) for at in (0, 2))
    middle = graph.add_constant("middles", middles())
    half = graph.add_constant("half", np.array(0.5, np.float32))
    stride = graph.add_constant("stride", np.array(_STRIDE, np.float32))
    low, high = emit("sub", [middle, first], 2), emit("add", [middle, second], 2)
    centre = emit("mul", [emit("add", [low, high], 2), half], 2)
    cells = emit("concatenation", [centre, emit("sub", [high, low], 2)], 4, join)
    places = emit("mul", [cells, stride], 4)
    scores = emit("sigmoid", [rows(found.scores.emit(graph, x))], CLASSES, NO_ATTRIBUTES)
    joined = TensorType((1, count, 4 + CLASSES), DType.FLOAT32)
    both = graph.emit("concatenation", [places, scores], joined, join, stem="boxes")
    graph.outputs = [both]
    verify(graph)
    return graph


def _columns(begin: int) -> StridedSliceAttributes:
    """Two columns of all rows."""
    return StridedSliceAttributes((0, 0, begin), (1, CELLS * CELLS, 2), (1, 1, 1))


def right(found: Array, data: Scenes, pixels: float = 2.0) -> float:
    """Part of the digits that are found: the score of the digit is above a half, and the box fits.

    Args:
        found: [N,64,14], places and scores.
        data: where digits are.
        pixels: how far centre and extent may be off.
    """
    boxes = data.boxes.reshape(len(found), -1, 4)
    kinds = data.kinds.reshape(len(found), -1, CLASSES)
    off = np.abs(found[..., :4] - boxes).max(axis=-1)
    sure = (found[..., 4:] * kinds).max(axis=-1)
    good = (off <= pixels) & (sure > 0.5)
    return float(good.sum() / kinds.sum())


def detect(graph: Graph, images: Floats) -> npt.NDArray[np.float32]:
    """What a graph with float32 borders finds, [N,64,14]."""
    (output,) = graph.outputs
    return np.concatenate([evaluate(graph, {"image": x[None]})[output] for x in images])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--scenes", type=int, default=1024, help="canvases to train on")
    parser.add_argument(
        "--output", type=Path, help="directory for the float32 model and pictures to calibrate on"
    )
    options = parser.parse_args(arguments)
    training, held_out = load_digits()
    data, unseen = scenes(training, options.scenes, SEED), scenes(held_out, 128, SEED + 1)
    graph = build(train(data, options.epochs, print))
    samples = [{"image": image[None]} for image in data.images[:64]]
    exact = detect(graph, unseen.images)
    print(f"float32: {100 * right(exact, unseen):.1f} % of the digits found")
    for mixed in (Mixed.FLOAT, Mixed.KEEP):
        chosen = QuantizeOptions(
            input_type=Border.FLOAT, output_type=Border.FLOAT, mixed_outputs=mixed
        )
        result = quantize_model(graph, samples, chosen)
        given = detect(result.graph, unseen.images)
        error = np.abs(given[..., 4:] - exact[..., 4:]).max()
        what = "boxes and scores apart" if mixed is Mixed.FLOAT else "one scale for both"
        print(f"int8, {what}: {100 * right(given, unseen):.1f} %, scores off by up to {error:.3f}")
    if options.output is not None:
        write(options.output, graph, data, unseen)
    return 0


def write(folder: Path, graph: Graph, data: Scenes, unseen: Scenes) -> None:
    """Write the model, 32 canvases to calibrate on, 4 others, and the names of classes."""
    from PIL import Image

    for name, images in (("calibration", data.images[:32]), ("scenes", unseen.images[:4])):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(images):
            pixels = np.rint(image[..., 0] * 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:02d}.png", optimize=True)
    (folder / "detector.tflite").write_bytes(write_model(export_model(graph)))
    (folder / "labels.txt").write_text("".join(f"{kind}\n" for kind in range(CLASSES)))


if __name__ == "__main__":
    raise SystemExit(main())
