"""Small models of the kinds that programs expect, with colours for things to be seen.

Every model comes as its source and compiled for the Edge TPU, so that a program can run on LiteRT,
too, and has to find the same there.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.sharing import shared

import fitzroy
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes, TransposeAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.quantization.options import Border, QuantizeOptions
from fitzroy.formats.tflite import write_model

SIDE, CELLS, CELL = 32, 4, 8
"""Pixels of an image, cells in a row of it, and pixels of a cell."""

RED, GREEN, BLUE = range(3)
"""Classes, which are channels."""


@dataclass(frozen=True)
class Pair:
    """Bytes of a model: its source, and compiled."""

    source: bytes
    compiled: bytes

    def written(self, folder: Path, name: str = "model") -> tuple[Path, Path]:
        """Files with both, named as those of the Edge TPU are."""
        paths = (folder / f"{name}.tflite", folder / f"{name}_edgetpu.tflite")
        for path, data in zip(paths, (self.source, self.compiled), strict=True):
            path.write_bytes(data)
        return paths


def scene(*things: tuple[int, int, int], noise: int = 8) -> Array:
    """A dark image [SIDE, SIDE, 3] of uint8.

    Args:
        things: row and column of a cell, and the channel in which it is bright.
        noise: how bright the rest is at most.
    """
    image = np.random.default_rng(0).integers(0, noise, (SIDE, SIDE, 3)).astype(np.uint8)
    for row, column, channel in things:
        image[CELL * row : CELL * (row + 1), CELL * column : CELL * (column + 1), channel] = 250
    return image


def _pair(name: str, make: Callable[[], Graph], metadata: str = "") -> Pair:
    def made() -> Pair:
        data = _with_metadata(write_model(export_model(make())), metadata)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.tflite"
            path.write_bytes(data)
            return Pair(data, fitzroy.compile_edgetpu(path).data)

    return shared(("models of programs", name), made)


def _with_metadata(data: bytes, text: str) -> bytes:
    if not text:
        return data
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("metadata.json", text)
    return buffer.getvalue()


# --- graphs --------------------------------------------------------------------------------------


def real(*shape: int) -> TensorType:
    return TensorType(shape, DType.FLOAT32)


def _features(graph: Graph, bias: float, channels: int = 3) -> str:
    """How bright each channel is in every cell, times 8, and less `bias` [1,CELLS,CELLS,3]."""
    image = graph.add_input("image", real(1, SIDE, SIDE, 3))
    filters = np.zeros((channels, CELL, CELL, 3), np.float32)
    for channel in range(channels):
        filters[channel, :, :, channel % 3] = 8 / CELL**2
    constants = (
        graph.add_constant("filters", filters),
        graph.add_constant("biases", np.full(channels, -bias, np.float32)),
    )
    attributes = ConvAttributes(stride=(CELL, CELL), padding=PaddingScheme.VALID)
    return graph.emit(
        "conv_2d", (image, *constants), real(1, CELLS, CELLS, channels), attributes, stem="cells"
    )


def _samples() -> list[dict[str, Array]]:
    rng = np.random.default_rng(1)
    things = [[tuple(rng.integers(0, (CELLS, CELLS, 3))) for _ in range(4)] for _ in range(8)]
    return [{"image": scene(*item)[None].astype(np.float32) / 255} for item in things]


def _quantized(graph: Graph, given: Border, taken: Border = Border.INT8) -> Graph:
    options = QuantizeOptions(input_type=given, output_type=taken)
    return fitzroy.quantize(graph, _samples(), options=options)


def _reshaped(graph: Graph, value: str, shape: Sequence[int]) -> str:
    return graph.emit("reshape", (value,), real(*shape), ReshapeAttributes(tuple(shape)))


def classifier() -> Pair:
    """The colour of an image: uint8 pixels to probabilities [1,3]."""

    def make() -> Graph:
        graph = Graph("classifier")
        cells = _features(graph, 0.0)
        mean = graph.emit("mean", (cells,), real(1, 3), ReductionAttributes((1, 2)))
        graph.outputs = [graph.emit("softmax", (mean,), real(1, 3), SoftmaxAttributes(4.0))]
        return _quantized(graph, Border.UINT8, Border.UINT8)

    return _pair("classifier", make)


def detector() -> Pair:
    """An SSD with the usual post-processing: a box of every cell, for classes 0 to 2."""

    def make() -> Graph:
        graph = Graph("detector")
        cells, count = _features(graph, 4.0), CELLS**2
        places = graph.add_constant("moved", np.full((4, 1, 1, 3), 1e-3, np.float32))
        boxes = graph.emit(
            "conv_2d", (cells, places), real(1, CELLS, CELLS, 4), ConvAttributes(), stem="places"
        )
        scores = graph.emit("sigmoid", (_reshaped(graph, cells, (1, count, 3)),), real(1, count, 3))
        graph.outputs = [_reshaped(graph, boxes, (1, count, 4)), scores]
        return _post_processed(_quantized(graph, Border.UINT8, Border.FLOAT))

    return _pair("detector", make)


def _post_processed(graph: Graph) -> Graph:
    middles = (np.arange(CELLS) + 0.5) / CELLS
    rows, columns = (grid.reshape(-1) for grid in np.meshgrid(middles, middles, indexing="ij"))
    extent = np.full(CELLS**2, 1 / CELLS)
    anchors = np.stack([rows, columns, extent, extent], axis=1).astype(np.float32)
    most = 10
    attributes = DetectionAttributes(
        max_detections=most, max_classes_per_detection=1, num_classes=3,
        nms_score_threshold=0.3, nms_iou_threshold=0.5,
        y_scale=10.0, x_scale=10.0, h_scale=5.0, w_scale=5.0,
    )  # fmt: skip
    shapes = {"boxes": (1, most, 4), "classes": (1, most), "scores": (1, most), "number": (1,)}
    names = (*graph.outputs, graph.add_constant("anchors", anchors))
    node = Node("objects", "detection_post_process", names, tuple(shapes), attributes)
    graph.add_node(node, [real(*shape) for shape in shapes.values()])
    graph.outputs = list(shapes)
    return graph


def heads() -> Pair:
    """Cells as candidates of a YOLO: int8 pixels to logits [1,16,3] and distances [1,16,64]."""

    def make() -> Graph:
        graph = Graph("heads")
        cells, count = _features(graph, 4.0), CELLS**2
        # Of 16 bins for each side of a box, the first is the likeliest.
        filters = np.full((64, 1, 1, 3), 1e-3, np.float32)
        filters[::16] = 1
        wide = graph.emit(
            "conv_2d",
            (cells, graph.add_constant("bins", filters)),
            real(1, CELLS, CELLS, 64),
            ConvAttributes(),
            stem="distances",
        )
        graph.outputs = [
            _reshaped(graph, cells, (1, count, 3)),
            _reshaped(graph, wide, (1, count, 64)),
        ]
        return _quantized(graph, Border.INT8)

    return _pair("heads", make)


def yolo() -> Pair:
    """One output as Ultralytics has it: int8 pixels to boxes and scores [1,4+3,16]."""

    def make() -> Graph:
        graph = Graph("yolo")
        cells, count = _features(graph, 4.0, 7), CELLS**2
        joined = graph.emit("sigmoid", (_reshaped(graph, cells, (1, count, 7)),), real(1, count, 7))
        turned = real(1, 7, count)
        graph.outputs = [graph.emit("transpose", (joined,), turned, TransposeAttributes((0, 2, 1)))]
        return _quantized(graph, Border.INT8)

    return _pair("yolo", make, "{'task': 'detect', 'names': {0: 'red', 1: 'green', 2: 'blue'}}")


def segmenter() -> Pair:
    """Scores of every cell: uint8 pixels to [1,CELLS,CELLS,3]."""

    def make() -> Graph:
        graph = Graph("segmenter")
        graph.outputs = [_features(graph, 0.0)]
        return _quantized(graph, Border.UINT8, Border.UINT8)

    return _pair("segmenter", make)


def pose() -> Pair:
    """A point for each of 17 joints: uint8 pixels to float32 [1,1,17,3]."""

    def make() -> Graph:
        graph = Graph("pose")
        cells = _features(graph, 0.0)
        flat = _reshaped(graph, cells, (1, 1, 1, CELLS**2 * 3))
        rng = np.random.default_rng(2)
        filters = rng.uniform(0, 0.02, (51, 1, 1, CELLS**2 * 3)).astype(np.float32)
        points = graph.emit(
            "conv_2d", (flat, graph.add_constant("joints", filters)), real(1, 1, 1, 51),
            ConvAttributes(),
        )  # fmt: skip
        graph.outputs = [_reshaped(graph, points, (1, 1, 17, 3))]
        return _quantized(graph, Border.UINT8, Border.FLOAT)

    return _pair("pose", make)
