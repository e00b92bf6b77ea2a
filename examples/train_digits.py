# ruff: noqa: D102 - methods of layers are documented by Layer
"""Train, quantize and write the model that ships with the examples: handwritten digits.

A small convolutional network is trained on scikit-learn's bundled 8x8 digits with numpy
alone, becomes a graph, is quantized to int8, and is written as a TFLite file next to held-out
images and the list of labels. Equal seeds give equal files on one machine.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compilation.quantizing import quantize
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Attributes, Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.formats.tflite import write_model

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

SEED = 0
CLASSES = 10
HELD_OUT = 0.3
"""Part of every class that training does not see."""


# --- data ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Digits:
    """Images as bytes [N,8,8,1], 0 to 255, and their classes [N]."""

    images: Bytes
    labels: npt.NDArray[np.int64]

    def real(self) -> Floats:
        """The images as the network sees them: float32, 0 to 1."""
        return self.images.astype(np.float32) / np.float32(255)


def load_digits(seed: int = SEED) -> tuple[Digits, Digits]:
    """The bundled digits of scikit-learn, split by class into a training and a held-out part."""
    from sklearn import datasets, model_selection

    data = datasets.load_digits()
    # The data set counts the dark ones of 16 pixels each.
    images = np.rint(data.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = data.target.astype(np.int64)
    train, held_out = model_selection.train_test_split(
        np.arange(len(labels)), test_size=HELD_OUT, stratify=labels, random_state=seed
    )
    return Digits(images[train], labels[train]), Digits(images[held_out], labels[held_out])


def shifted(images: Floats, rng: np.random.Generator) -> Floats:
    """Each image moved by up to one pixel in both directions."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows, columns = rng.integers(0, 3, (2, len(images)))
    side = np.arange(images.shape[1])
    picture = np.arange(len(images))[:, None, None]
    rows, columns = rows[:, None] + side, columns[:, None] + side
    result: Floats = padded[picture, rows[:, :, None], columns[:, None, :]]
    return result


# --- layers --------------------------------------------------------------------------------------


class Parameter:
    """Weights with their gradient and the running moments of Adam."""

    def __init__(self, value: Array) -> None:
        self.value: Floats = value.astype(np.float32)
        self.gradient = np.zeros_like(self.value)
        self.mean = np.zeros_like(self.value)
        self.square = np.zeros_like(self.value)
        self.average = self.value.copy()

    def step(self, rate: float, number: int) -> None:
        """One step of Adam; the average trails the weights."""
        self.mean += np.float32(0.1) * (self.gradient - self.mean)
        self.square += np.float32(0.001) * (self.gradient**2 - self.square)
        mean = self.mean / np.float32(1 - 0.9**number)
        square = self.square / np.float32(1 - 0.999**number)
        self.value -= np.float32(rate) * mean / (np.sqrt(square) + np.float32(1e-8))
        self.average += np.float32(max(0.01, 1 / number)) * (self.value - self.average)


class Layer(Protocol):
    """A differentiable function that can write itself as a node of a graph."""

    parameters: list[Parameter]

    def forward(self, x: Floats) -> Floats:
        """The result [N,...]; remembers what `backward` needs."""

    def backward(self, gradient: Floats) -> Floats:
        """The loss's gradient by the input, from that by the result; sets the parameters' own."""

    def emit(self, graph: Graph, x: str) -> str:
        """Add the layer to a graph; returns the name of the result."""


def windows(x: Floats) -> Floats:
    """The 3x3 surroundings of every pixel, zero outside: [N,H,W,C] to [N,H,W,C,3,3]."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))


class Conv3x3:
    """Convolution 3x3 with SAME padding, bias and rectifier; weights [3,3,C,O]."""

    def __init__(self, channels: int, outputs: int, rng: np.random.Generator) -> None:
        scale = math.sqrt(2 / (9 * channels))
        self.weights = Parameter(rng.normal(0, scale, (3, 3, channels, outputs)))
        self.bias = Parameter(np.zeros(outputs))
        self.parameters = [self.weights, self.bias]

    def forward(self, x: Floats) -> Floats:
        n, h, w, c = self.shape = x.shape
        self.rows = windows(x).transpose(0, 1, 2, 4, 5, 3).reshape(n * h * w, 9 * c)
        y = self.rows @ self.weights.value.reshape(9 * c, -1) + self.bias.value
        result: Floats = np.maximum(y, 0).reshape(n, h, w, -1)
        self.y = result
        return result

    def backward(self, gradient: Floats) -> Floats:
        gradient = gradient * (self.y > 0)
        flat = gradient.reshape(-1, gradient.shape[3])
        self.weights.gradient = (self.rows.T @ flat).reshape(self.weights.value.shape)
        self.bias.gradient = flat.sum(axis=0)
        # The gradient is a convolution with the filter turned round and its channels swapped.
        turned = self.weights.value[::-1, ::-1].transpose(0, 1, 3, 2)
        rows = windows(gradient).transpose(0, 1, 2, 4, 5, 3).reshape(len(flat), -1)
        return (rows @ turned.reshape(rows.shape[1], -1)).reshape(self.shape)

    def emit(self, graph: Graph, x: str) -> str:
        kernel = np.ascontiguousarray(self.weights.average.transpose(3, 0, 1, 2))
        return emit_conv(graph, "conv_2d", x, kernel, self.bias.average)


class Depthwise3x3:
    """Depthwise convolution 3x3 with SAME padding, bias and rectifier; weights [3,3,C]."""

    def __init__(self, channels: int, rng: np.random.Generator) -> None:
        self.weights = Parameter(rng.normal(0, math.sqrt(2 / 9), (3, 3, channels)))
        self.bias = Parameter(np.zeros(channels))
        self.parameters = [self.weights, self.bias]

    @staticmethod
    def slide(x: Floats, weights: Floats) -> Floats:
        """Sum over the window of the surroundings times the weights."""
        n, h, w, c = x.shape
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        y: Floats = np.zeros((n, h, w, c), x.dtype)
        for i in range(3):
            for j in range(3):
                y += padded[:, i : i + h, j : j + w] * weights[i, j]
        return y

    def forward(self, x: Floats) -> Floats:
        self.x = x
        result: Floats = np.maximum(self.slide(x, self.weights.value) + self.bias.value, 0)
        self.y = result
        return result

    def backward(self, gradient: Floats) -> Floats:
        gradient = gradient * (self.y > 0)
        h, w = gradient.shape[1:3]
        padded = np.pad(self.x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        for i in range(3):
            for j in range(3):
                product = padded[:, i : i + h, j : j + w] * gradient
                self.weights.gradient[i, j] = product.sum(axis=(0, 1, 2))
        self.bias.gradient = gradient.sum(axis=(0, 1, 2))
        return self.slide(gradient, self.weights.value[::-1, ::-1])

    def emit(self, graph: Graph, x: str) -> str:
        kernel = self.weights.average[None]
        return emit_conv(graph, "depthwise_conv_2d", x, kernel, self.bias.average)


class Dense:
    """Product of the last dimension with weights [C,O], and a bias: 1x1 convolution or layer.

    Args:
        channels: C.
        outputs: O.
        rng: source of the initial weights.
        activation: RELU makes it a 1x1 convolution, NONE a fully connected layer.
    """

    def __init__(
        self, channels: int, outputs: int, rng: np.random.Generator, activation: Activation
    ) -> None:
        self.weights = Parameter(rng.normal(0, math.sqrt(2 / channels), (channels, outputs)))
        self.bias = Parameter(np.zeros(outputs))
        self.parameters = [self.weights, self.bias]
        self.rectifies = activation is Activation.RELU

    def forward(self, x: Floats) -> Floats:
        self.x = x
        self.y: Floats = x @ self.weights.value + self.bias.value
        if self.rectifies:
            self.y = np.maximum(self.y, 0)
        return self.y

    def backward(self, gradient: Floats) -> Floats:
        if self.rectifies:
            gradient = gradient * (self.y > 0)
        flat = gradient.reshape(-1, gradient.shape[-1])
        self.weights.gradient = self.x.reshape(-1, self.x.shape[-1]).T @ flat
        self.bias.gradient = flat.sum(axis=0)
        result: Floats = gradient @ self.weights.value.T
        return result

    def emit(self, graph: Graph, x: str) -> str:
        kernel = np.ascontiguousarray(self.weights.average.T)
        if self.rectifies:
            return emit_conv(graph, "conv_2d", x, kernel[:, None, None, :], self.bias.average)
        filters = graph.add_constant("logits/weights", kernel)
        bias = graph.add_constant("logits/bias", self.bias.average)
        type = TensorType((graph.type(x).shape[0], len(kernel)), DType.FLOAT32)
        inputs = (x, filters, bias)
        return graph.emit(
            "fully_connected", inputs, type, FullyConnectedAttributes(), stem="logits"
        )


class MaxPool2x2:
    """Largest of each 2x2 square."""

    parameters: list[Parameter] = []  # noqa: RUF012 - never written

    def forward(self, x: Floats) -> Floats:
        n, h, w, c = x.shape
        self.squares: Floats = x.reshape(n, h // 2, 2, w // 2, 2, c)
        self.y: Floats = self.squares.max(axis=(2, 4), keepdims=True)
        pooled: Floats = self.y.reshape(n, h // 2, w // 2, c)
        return pooled

    def backward(self, gradient: Floats) -> Floats:
        n, h, w, c = gradient.shape
        chosen = (self.squares == self.y).astype(np.float32)
        chosen /= chosen.sum(axis=(2, 4), keepdims=True)
        spread: Floats = chosen * gradient.reshape(n, h, 1, w, 1, c)
        return spread.reshape(n, 2 * h, 2 * w, c)

    def emit(self, graph: Graph, x: str) -> str:
        n, h, w, c = graph.type(x).shape
        type = TensorType((n, h // 2, w // 2, c), DType.FLOAT32)
        return graph.emit("max_pool_2d", (x,), type, PoolAttributes((2, 2), (2, 2)), stem="pool")


class Mean:
    """Mean over height and width: [N,H,W,C] to [N,C]."""

    parameters: list[Parameter] = []  # noqa: RUF012 - never written

    def forward(self, x: Floats) -> Floats:
        self.shape = x.shape
        y: Floats = x.mean(axis=(1, 2))
        return y

    def backward(self, gradient: Floats) -> Floats:
        share = gradient[:, None, None, :] / np.float32(self.shape[1] * self.shape[2])
        return np.broadcast_to(share, self.shape)

    def emit(self, graph: Graph, x: str) -> str:
        n, _, _, c = graph.type(x).shape
        return graph.emit(
            "mean",
            (x,),
            TensorType((n, c), DType.FLOAT32),
            ReductionAttributes((1, 2)),
            stem="mean",
        )


def emit_conv(graph: Graph, op: str, x: str, kernel: Floats, bias: Floats) -> str:
    """Add a convolution with SAME padding and a fused rectifier."""
    attributes: Attributes = ConvAttributes(padding=PaddingScheme.SAME, activation=Activation.RELU)
    name = graph.fresh({"conv_2d": "conv", "depthwise_conv_2d": "depthwise"}[op])
    inputs = (
        x, graph.add_constant(f"{name}/weights", kernel), graph.add_constant(f"{name}/bias", bias)
    )  # fmt: skip
    type = TensorType((*graph.type(x).shape[:3], len(bias)), DType.FLOAT32)
    return graph.emit(op, inputs, type, attributes, stem=name)


# --- training ------------------------------------------------------------------------------------


def network(rng: np.random.Generator) -> list[Layer]:
    """The layers, with random weights."""
    relu = Activation.RELU
    return [
        Conv3x3(1, 16, rng),
        Conv3x3(16, 32, rng),
        MaxPool2x2(),
        Depthwise3x3(32, rng),
        Dense(32, 64, rng, relu),
        Conv3x3(64, 64, rng),
        Mean(),
        Dense(64, CLASSES, rng, Activation.NONE),
    ]


def loss_gradient(logits: Floats, labels: npt.NDArray[np.int64]) -> tuple[float, Floats]:
    """Mean cross-entropy of the softmax of logits [N,10], and its gradient by the logits."""
    power = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability = power / power.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -float(np.log(probability[rows, labels] + 1e-12).mean())
    probability[rows, labels] -= 1
    return loss, probability / np.float32(len(labels))


def batches(
    data: Digits, size: int, rng: np.random.Generator
) -> Iterator[tuple[Floats, npt.NDArray[np.int64]]]:
    """One epoch of augmented images in random order."""
    images, order = data.real(), rng.permutation(len(data.labels))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        yield shifted(images[chosen], rng), data.labels[chosen]


def train(
    data: Digits, epochs: int, report: Callable[[str], None], seed: int = SEED, size: int = 64
) -> list[Layer]:
    """A network trained with Adam and a rate that falls along a cosine."""
    rng = np.random.default_rng(seed)
    layers = network(rng)
    total = max(1, epochs * (len(data.labels) // size))
    number = 0
    for epoch in range(epochs):
        losses = []
        for images, labels in batches(data, size, rng):
            number += 1
            x = images
            for layer in layers:
                x = layer.forward(x)
            loss, gradient = loss_gradient(x, labels)
            losses.append(loss)
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            rate = 4e-3 * 0.5 * (1 + math.cos(math.pi * number / total))
            for layer in layers:
                for parameter in layer.parameters:
                    parameter.step(rate, number)
        if epoch % 10 == 9 or epoch == epochs - 1:
            report(f"epoch {epoch + 1:3d}: loss {np.mean(losses):.4f}")
    return layers


# --- model ---------------------------------------------------------------------------------------


def build(layers: Sequence[Layer], batch: int = 1) -> Graph:
    """The float32 graph of a network: ``image`` [batch,8,8,1] to ``probabilities`` [batch,10]."""
    graph = Graph("digits")
    x = graph.add_input("image", TensorType((batch, 8, 8, 1), DType.FLOAT32))
    for layer in layers:
        x = layer.emit(graph, x)
    result = graph.emit("softmax", (x,), graph.type(x), SoftmaxAttributes(), stem="probabilities")
    graph.outputs = [result]
    verify(graph)
    return graph


def compress(layers: Sequence[Layer], training: Digits, count: int = 256) -> tuple[Graph, bytes]:
    """The int8 graph of a network, calibrated on the first images, and its TFLite file."""
    samples = [{"image": image[None]} for image in training.real()[:count]]
    graph = quantize(build(layers), samples)
    return graph, write_model(export_model(graph, description="8x8 handwritten digits"))


def stored(images: Bytes) -> npt.NDArray[np.int8]:
    """Bytes as the quantized model takes them: minus 128, at scale 1/255."""
    return (images.astype(np.int16) - 128).astype(np.int8)


def accuracy(scores: Array, data: Digits) -> float:
    """Part of the images whose largest score is that of their class."""
    return float((scores.argmax(axis=1) == data.labels).mean())


def reference_scores(graph: Graph, images: Array) -> Array:
    """Results of a graph, by its reference semantics, for images one at a time."""
    (name,), (output,) = graph.inputs, graph.outputs
    return np.concatenate([evaluate(graph, {name: image[None]})[output] for image in images])


def litert_scores(model: bytes, images: Array) -> Array | None:
    """Results of LiteRT for images one at a time; None if LiteRT is not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        return None
    interpreter = Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    source = interpreter.get_input_details()[0]["index"]
    target = interpreter.get_output_details()[0]["index"]
    scores = []
    for image in images:
        interpreter.set_tensor(source, image[None])
        interpreter.invoke()
        scores.append(interpreter.get_tensor(target))
    return np.concatenate(scores)


def write_images(folder: Path, data: Digits, count: int = 10) -> None:
    """The first image of each class as ``digit_<label>_<index>.png``, 8x8 in grey."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("digit_*.png"):
        old.unlink()
    for label in range(count):
        index = int(np.flatnonzero(data.labels == label)[0])
        Image.fromarray(data.images[index, :, :, 0]).save(folder / f"digit_{label}_{index}.png")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent, help="folder for models/ and images/"
    )
    parser.add_argument(
        "--quick", action="store_true", help="2 epochs, written to a temporary folder"
    )
    options = parser.parse_args(arguments)
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            return produce(2, Path(folder))
    return produce(options.epochs, options.output)


def produce(epochs: int, output: Path) -> int:
    """Train, quantize, write the files into `output`, and print the accuracies."""
    training, held_out = load_digits()
    print(f"{len(training.labels)} images to train on, {len(held_out.labels)} held out")
    start = time.perf_counter()
    layers = train(training, epochs, print)
    print(f"trained in {time.perf_counter() - start:.1f} s")

    quantized, model = compress(layers, training)
    models = output / "models"
    models.mkdir(parents=True, exist_ok=True)
    (models / "digits.tflite").write_bytes(model)
    (models / "digits_labels.txt").write_text("".join(f"{n}\n" for n in range(CLASSES)))
    write_images(output / "images", held_out)
    print(f"{models / 'digits.tflite'}: {len(model):,} bytes")

    images = stored(held_out.images)
    batched = build(layers, len(held_out.labels))
    real = evaluate(batched, {"image": held_out.real()})["probabilities"]
    print(f"float32 accuracy:          {accuracy(real, held_out):.2%}")
    print(
        f"int8 accuracy (reference): {accuracy(reference_scores(quantized, images), held_out):.2%}"
    )
    scores = litert_scores(model, images)
    if scores is None:
        print("int8 accuracy (LiteRT):    ai_edge_litert is not installed")
    else:
        print(f"int8 accuracy (LiteRT):    {accuracy(scores, held_out):.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
