"""Tiles that repeat pixels become resizes to the nearest neighbour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu_models import random_inputs

from fitzroy.base.types import DType, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.arrangement import TileAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.nearest_resizes import NearestResizes, repeats_pixels
from fitzroy.compiler.reference import evaluate
from fitzroy.execution.interpreter import Interpreter

Step = tuple[str, tuple[int, ...]]
"""An operator, and the shape that a reshape gives, or how often a tile repeats."""


def repeated(graph: Graph, name: str, steps: Sequence[Step]) -> str:
    """What reshapes and tiles make of a value."""
    for op, numbers in steps:
        type = graph.type(name)
        if op == "reshape":
            name = graph.emit(op, [name], type.with_shape(numbers), ReshapeAttributes(numbers))
            continue
        shape = tuple(a * b for a, b in zip(type.shape, numbers, strict=True))
        name = graph.emit(op, [name], type.with_shape(shape), TileAttributes(numbers))
    return name


def upsampled(shape: tuple[int, ...], rows: int, columns: int) -> list[Step]:
    """How Keras repeats rows, then columns."""
    batch, height, width, channels = shape
    steps: list[Step] = []
    if rows > 1:
        steps.append(("reshape", (batch, height, 1, width, channels)))
        steps.append(("tile", (1, 1, rows, 1, 1)))
        height *= rows
    steps.append(("reshape", (batch, height, width, 1, channels)))
    if columns > 1:
        steps.append(("tile", (1, 1, 1, columns, 1)))
    return [*steps, ("reshape", (batch, height, width * columns, channels))]


def network(shape: tuple[int, ...], steps: Sequence[Step], dtype: DType) -> Graph:
    """Steps from an input to an output."""
    graph = Graph("repeated")
    name = graph.add_input("x", TensorType(shape, dtype))
    graph.outputs = [repeated(graph, name, steps)]
    return graph


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
@pytest.mark.parametrize(
    ("shape", "factors"),
    [
        ((1, 4, 5, 3), (2, 2)),
        ((2, 3, 4, 1), (3, 5)),
        ((1, 1, 7, 6), (1, 3)),
        ((1, 7, 1, 6), (4, 1)),
    ],
)
def test_repeated_pixels_are_a_resize(
    shape: tuple[int, ...], factors: tuple[int, int], dtype: DType
) -> None:
    graph = network(shape, upsampled(shape, *factors), dtype)
    given = {"x": np.random.default_rng(1).integers(0, 256, shape).astype(dtype.numpy)}
    wanted = evaluate(graph, given)[graph.outputs[0]]
    result = run_passes(graph.copy(), [NearestResizes()])
    assert [node.op for node in result.nodes()] == ["resize_nearest_neighbor"]
    np.testing.assert_array_equal(evaluate(result, given)[result.outputs[0]], wanted)
    rows, columns = factors
    expected = given["x"].repeat(rows, axis=1).repeat(columns, axis=2)
    np.testing.assert_array_equal(wanted, expected)


def test_upsampling_twice_is_one_resize() -> None:
    shape = (1, 3, 5, 2)
    graph = network(
        shape, [*upsampled(shape, 2, 3), *upsampled((1, 6, 15, 2), 2, 2)], DType.FLOAT32
    )
    result = run_passes(graph, [NearestResizes()])
    (node,) = result.nodes()
    assert node.op == "resize_nearest_neighbor"
    assert result.type(node.outputs[0]).shape == (1, 12, 30, 2)


@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        # All rows, one after the other.
        ((1, 4, 5, 3), [("tile", (1, 2, 1, 1))]),
        # Copies of rows, before the rows.
        (
            (1, 4, 5, 3),
            [
                ("reshape", (1, 1, 4, 5, 3)),
                ("tile", (1, 2, 1, 1, 1)),
                ("reshape", (1, 8, 5, 3)),
            ],
        ),
        # Channels.
        (
            (1, 4, 5, 3),
            [
                ("reshape", (1, 4, 5, 3, 1)),
                ("tile", (1, 1, 1, 1, 2)),
                ("reshape", (1, 4, 5, 6)),
            ],
        ),
        # Rows and columns change places.
        (
            (1, 4, 4, 3),
            [
                ("reshape", (1, 4, 1, 4, 3)),
                ("tile", (1, 1, 2, 1, 1)),
                ("reshape", (1, 4, 8, 3)),
            ],
        ),
        # A single pixel fills an image.
        ((1, 1, 1, 3), [("tile", (1, 4, 4, 1))]),
        # Rows are divided.
        (
            (1, 4, 6, 3),
            [
                ("reshape", (1, 2, 1, 2, 18)),
                ("tile", (1, 1, 2, 1, 1)),
                ("reshape", (1, 8, 6, 3)),
            ],
        ),
        # Nothing is repeated.
        ((1, 4, 6, 3), [("reshape", (1, 4, 1, 6, 3)), ("reshape", (1, 4, 6, 3))]),
    ],
)
def test_other_repetitions_stay(shape: tuple[int, ...], steps: list[Step]) -> None:
    graph = network(shape, steps, DType.FLOAT32)
    assert not repeats_pixels(graph)


def test_what_is_read_in_between_stays() -> None:
    shape = (1, 4, 5, 3)
    graph = network(shape, upsampled(shape, 2, 2), DType.FLOAT32)
    (tile, *_) = [node for node in graph.nodes() if node.op == "tile"]
    graph.outputs.append(tile.outputs[0])
    assert not repeats_pixels(graph)


def test_upsampling_runs_on_the_chip_as_a_resize() -> None:
    graph = chain(DType.INT8, (12, 10, 8))
    grow(graph, "conv_2d", 16, (1, 1), seed=1)
    (x,) = graph.outputs
    large = repeated(graph, x, upsampled(graph.type(x).shape, 2, 2))
    graph.outputs = [graph.emit("add", [large, large], graph.type(large), ActivationAttributes())]
    source = Source.of(graph)
    compiled = compile_edgetpu(source, costs=None)
    (part,) = compiled.segments
    assert "resize_nearest_neighbor" in {node.op for node in part.segment.nodes}
    assert not compiled.unmapped
    given = random_inputs(graph, 3)
    with Interpreter(compiled.data, device="sim") as chip:
        found = chip.run(given)
    for name, wanted in evaluate(graph, given).items():
        np.testing.assert_array_equal(found[name], wanted)
