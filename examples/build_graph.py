"""Build a graph by hand; verify, print, run and quantize it; write it as TFLite; read it back."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fitzroy
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.formats.tflite import write_model
from fitzroy.hw_models import numerics

SIDE = 6


def real(*shape: int) -> TensorType:
    """The type of a float32 tensor."""
    return TensorType(shape, DType.FLOAT32)


def build() -> Graph:
    """A classifier of images [1,6,6,1] into stripes along rows (0) and along columns (1)."""
    graph = Graph("stripes")
    image = graph.add_input("image", real(1, SIDE, SIDE, 1))
    edges = np.zeros((2, 2, 2, 1), np.float32)
    edges[0, :, :, 0] = [[1, 1], [-1, -1]]
    edges[1, :, :, 0] = [[1, -1], [1, -1]]
    x = graph.emit(
        "conv_2d",
        (image, graph.add_constant("edges/filter", edges)),
        real(1, SIDE - 1, SIDE - 1, 2),
        ConvAttributes(activation=Activation.RELU),
        stem="edges",
    )
    x = graph.emit("mean", (x,), real(1, 2), ReductionAttributes((1, 2)), stem="strength")
    gain = np.diag(np.array([4, 4], np.float32))
    x = graph.emit(
        "fully_connected",
        (x, graph.add_constant("scores/gain", gain)),
        real(1, 2),
        FullyConnectedAttributes(),
        stem="scores",
    )
    x = graph.emit("softmax", (x,), real(1, 2), SoftmaxAttributes(), stem="kind")
    graph.outputs = [x]
    return graph


def stripes(rng: np.random.Generator, along_columns: bool) -> npt.NDArray[np.float32]:
    """A noisy image of stripes one pixel wide, between 0 and 1."""
    image = np.zeros((SIDE, SIDE), np.float32)
    image[rng.integers(2) :: 2] = 1
    if along_columns:
        image = image.T
    noise = rng.uniform(-0.2, 0.2, image.shape).astype(np.float32)
    result: npt.NDArray[np.float32] = np.clip(image + noise, 0, 1)
    return result[None, :, :, None]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="where to keep the TFLite file")
    options = parser.parse_args(arguments)

    graph = build()
    fitzroy.verify(graph)
    print(print_graph(graph, data=False))

    rng = np.random.default_rng(0)
    images = [stripes(rng, along_columns=bool(n % 2)) for n in range(16)]
    quantized = fitzroy.quantize(graph, [{"image": image} for image in images])
    print(print_graph(quantized, data=False))

    with tempfile.TemporaryDirectory() as folder:
        path = options.output or Path(folder) / "stripes.tflite"
        path.write_bytes(write_model(export_model(quantized)))
        again = fitzroy.load(path)
        print(f"{path.name}: {path.stat().st_size:,} bytes, {len(again.nodes())} operators")

    print("\nprobability of stripes along columns")
    quantization = quantized.type("image").quantization
    probability = quantized.type("kind").quantization
    assert quantization is not None
    assert probability is not None
    for number, image in enumerate(images[:4]):
        exact = fitzroy.evaluate(graph, {"image": image})["kind"][0, 1]
        stored = numerics.quantize(image, quantization, DType.INT8)
        result = fitzroy.evaluate(again, {"image": stored})["kind"]
        rounded = numerics.dequantize(result, probability)[0, 1]
        print(f"  image {number}: float32 {exact:.3f}, int8 {rounded:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
