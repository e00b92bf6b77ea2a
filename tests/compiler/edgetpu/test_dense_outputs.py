"""Outputs whose pixels fill no words leave the chip without padding."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.edgetpu_models import differing_bytes, findings, program

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, ReshapeAttributes
from fitzroy.compiler.targets.edgetpu.program.lower import legalized


def quantized(dtype: DType, *shape: int) -> TensorType:
    return TensorType(shape, dtype, Quantization.per_tensor(1 / 32, int(dtype is DType.UINT8) * 99))


def convolved(graph: Graph, x: str, channels: int) -> str:
    type, rng = graph.type(x), np.random.default_rng(channels)
    stored = rng.integers(1, 100, (channels, 1, 1, type.shape[-1])).astype(type.dtype.numpy)
    weights = graph.add_constant("weights", stored, Quantization.per_tensor(1 / 64))
    zeros = np.zeros(channels, np.int32)
    bias = graph.add_constant("bias", zeros, Quantization.per_tensor(1 / 32 / 64))
    result = type.with_shape((*type.shape[:-1], channels))
    return graph.emit("conv_2d", [x, weights, bias], result, ConvAttributes())


def model(height: int, width: int, channels: int, dtype: DType = DType.INT8) -> Graph:
    graph = Graph("dense")
    graph.add_input("x", quantized(dtype, 1, height, width, 4))
    graph.outputs = [convolved(graph, "x", channels)]
    return graph


def sent(graph: Graph) -> list[int]:
    """Bytes of each output that leave the chip."""
    return [port.size_bytes for port in program(graph).main.outputs.values()]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize(
    ("height", "width", "channels"), [(40, 24, 1), (33, 28, 3), (30, 22, 6), (17, 36, 17)]
)
def test_padding_stays_on_the_chip(height: int, width: int, channels: int, dtype: DType) -> None:
    """Every byte is that of the reference, and the host gets no more than it asked for."""
    graph = model(height, width, channels, dtype)
    assert sent(graph) == [-(-height * width * channels // 8) * 8]
    assert not differing_bytes(graph, program(graph))
    assert not findings(program(graph), envelope=True)


def test_parts_of_an_output_are_dense_one_by_one() -> None:
    """As of a detector of several scales, of which the last one is too narrow."""
    graph = Graph("heads")
    rows = []
    for side in (24, 18, 7):
        name = graph.add_input(f"level{side}", quantized(DType.INT8, 1, side, side, 8))
        made = convolved(graph, name, 6)
        flat = graph.type(made).with_shape((1, side * side, 6))
        rows.append(graph.emit("reshape", [made], flat, ReshapeAttributes(flat.shape)))
    total = sum(graph.type(name).shape[1] for name in rows)
    joined = graph.type(rows[0]).with_shape((1, total, 6))
    graph.outputs = [graph.emit("concatenation", rows, joined, ConcatenationAttributes(1))]
    dense, padded = 6 * (24**2 + 18**2), 8 * 7**2
    assert dense + padded <= sent(graph)[0] < dense + padded + 64
    assert not differing_bytes(graph, program(graph))


@pytest.mark.parametrize(
    ("height", "width", "channels", "why"),
    [
        (40, 24, 4, "pixels fill words"),
        (40, 23, 1, "rows do not divide"),
        (4, 4, 3, "the layer would take longer than what it saves"),
    ],
)
def test_what_stays_padded(height: int, width: int, channels: int, why: str) -> None:
    graph = model(height, width, channels)
    assert len(legalized(graph).layers) == 3, why


def test_what_the_chip_reads_too_stays_as_it_is() -> None:
    """Only what is sent is dense: a layer that reads the output has pixels of words."""
    graph = model(32, 32, 3)
    (first,) = graph.outputs
    graph.outputs = [first, convolved(graph, first, 8)]
    assert sorted(sent(graph)) == [32 * 32 * 3, 32 * 32 * 8]
    assert not differing_bytes(graph, program(graph))


def test_an_input_that_is_sent_back_stays_padded() -> None:
    graph = model(32, 32, 8)
    image = graph.add_input("y", quantized(DType.INT8, 1, 32, 32, 3))
    flat = graph.type(image).with_shape((1, 32 * 32 * 3))
    graph.outputs += [graph.emit("reshape", [image], flat, ReshapeAttributes(flat.shape))]
    assert sorted(sent(graph)) == [32 * 32 * 4, 32 * 32 * 8]
    assert not differing_bytes(graph, program(graph))
