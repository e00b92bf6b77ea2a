"""Elements by known indices, mirrored borders, repetitions and reversals: results are exact."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.edgetpu_models import Model, differences, findings, program

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Attributes, Graph
from fitzroy.compiler.ops.arrangement import (
    MirrorPadAttributes,
    ReverseAttributes,
    TileAttributes,
)
from fitzroy.compiler.ops.shape import GatherAttributes, PadAttributes, ReshapeAttributes
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.partition.divide import refusals
from fitzroy.compiler.targets.edgetpu.program.lower import legalized
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Assembly

Shape = tuple[int, ...]


def squares(shape: Shape) -> tuple[Model, str]:
    """A model that squares its input so far, and the name of the result."""
    model = Model(1)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    return model, model.emit("square", [x], model.type(shape, 0.1))


def gathered(shape: Shape, axis: int, indices: object) -> Graph:
    """Elements along an axis of squares, by known indices."""
    model, x = squares(shape)
    chosen = np.array(indices, np.int32)
    after = model.of(x).with_shape((*shape[:axis], *chosen.shape, *shape[axis + 1 :]))
    known = model.graph.add_constant("indices", chosen)
    model.graph.outputs.append(model.emit("gather", [x, known], after, GatherAttributes(axis)))
    return model.graph


def mirrored(shape: Shape, before: Shape, after: Shape, *, symmetric: bool = False) -> Graph:
    """Squares with their mirror image around them."""
    model, x = squares(shape)
    type = model.of(x).with_shape(tuple(map(sum, zip(before, shape, after, strict=True))))
    a = MirrorPadAttributes(before, after, symmetric)
    model.graph.outputs.append(model.emit("mirror_pad", [x], type, a))
    return model.graph


def check(graph: Graph) -> None:
    """All of a graph runs on the chip, and its results are those of the reference."""
    verify(graph)
    assert not refusals(graph)
    package = program(graph)
    assert not differences(graph, package, seed=1)
    assert not findings(package)


@pytest.mark.parametrize(
    ("shape", "axis", "indices"),
    [
        ((1, 9, 7, 6), 1, [3, 3, 8, 0]),
        ((1, 9, 7, 6), 2, [6, 5, 4, 1, 1]),
        ((1, 9, 7, 6), 3, [5, 0, 2, 2, 4, 1, 3]),
        ((1, 9, 7, 6), 2, 4),
        ((1, 5, 6, 8), 3, [[0, 7], [3, 3]]),
        ((1, 12, 8), 1, [0, 2, 3, 11]),
        ((1, 12, 8), 2, [7, 1, 2]),
        ((1, 20), 1, [19, 0, 3, 4]),
        ((20,), 0, [1, 1, 5]),
        ((3, 4, 8), 0, [2, 0]),
        ((2, 3, 4, 8), 2, [3, 1]),
        ((2, 2, 3, 4, 5), 3, [0, 3, 1]),
    ],
)
def test_elements_by_known_indices_are_exact(shape: Shape, axis: int, indices: object) -> None:
    check(gathered(shape, axis, indices))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    ("shape", "before", "after"),
    [
        ((1, 8, 9, 4), (0, 3, 2, 0), (0, 1, 4, 0)),
        ((1, 8, 9, 3), (0, 4, 4, 0), (0, 4, 4, 0)),
        ((1, 5, 6, 8), (0, 1, 0, 2), (0, 0, 0, 3)),
        ((1, 16, 8), (0, 4, 0), (0, 2, 0)),
        ((1, 24), (0, 3), (0, 5)),
        ((2, 5, 6, 8), (0, 1, 1, 0), (0, 1, 1, 0)),
        ((1, 3, 4, 5, 8), (0, 0, 1, 2, 0), (0, 1, 0, 0, 0)),
    ],
)
def test_mirrored_borders_are_exact(
    shape: Shape, before: Shape, after: Shape, symmetric: bool
) -> None:
    check(mirrored(shape, before, after, symmetric=symmetric))


def test_rows_and_columns_of_a_border_are_made_by_one_layer() -> None:
    layered = legalized(mirrored((1, 8, 9, 4), (0, 3, 2, 0), (0, 1, 4, 0)))
    assert sum(isinstance(layer, Assembly) for layer in layered.layers) == 1


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize(
    ("op", "shape", "attributes", "after"),
    [
        ("tile", (1, 6, 5, 8), TileAttributes((1, 2, 3, 1)), (1, 12, 15, 8)),
        ("tile", (1, 6, 5, 3), TileAttributes((1, 1, 1, 2)), (1, 6, 5, 6)),
        ("tile", (1, 10, 8), TileAttributes((1, 2, 1)), (1, 20, 8)),
        ("tile", (1, 10, 1, 8), TileAttributes((1, 1, 2, 1)), (1, 10, 2, 8)),
        ("tile", (24,), TileAttributes((2,)), (48,)),
        ("reverse", (1, 6, 5, 8), ReverseAttributes((2,)), (1, 6, 5, 8)),
        ("reverse", (1, 6, 5, 3), ReverseAttributes((1, 3)), (1, 6, 5, 3)),
        ("reverse", (1, 10, 8), ReverseAttributes((1,)), (1, 10, 8)),
        ("reverse", (2, 3, 4, 5, 8), ReverseAttributes((1, 3)), (2, 3, 4, 5, 8)),
        ("broadcast_to", (1, 1, 5, 8), ReshapeAttributes((1, 6, 5, 8)), (1, 6, 5, 8)),
        ("broadcast_to", (1, 6, 1, 3), ReshapeAttributes((1, 6, 4, 3)), (1, 6, 4, 3)),
        ("broadcast_to", (1, 6, 5, 1), ReshapeAttributes((1, 6, 5, 7)), (1, 6, 5, 7)),
        ("broadcast_to", (8,), ReshapeAttributes((1, 3, 8)), (1, 3, 8)),
    ],
)
def test_repetitions_and_reversals_are_exact(
    op: str, shape: Shape, attributes: Attributes, after: Shape, changes: bool
) -> None:
    model, x = squares(shape)
    type = model.type(after, 0.07) if changes else model.of(x).with_shape(after)
    model.graph.outputs.append(model.emit(op, [x], type, attributes))
    check(model.graph)


def test_orders_of_too_many_channels_are_refused_before_weights_are_made() -> None:
    graph = gathered((1, 70_000), 1, np.arange(70_000)[::-1])
    (reasons,) = refusals(graph).values()
    assert "put channels in order" in reasons[0].reason


def test_borders_of_too_many_channels_are_refused_before_weights_are_made() -> None:
    model, x = squares((1, 1, 1, 70_000))
    after = model.of(x).with_shape((1, 1, 1, 70_002))
    border = PadAttributes((0, 0, 0, 1), (0, 0, 0, 1))
    model.graph.outputs.append(model.emit("pad", [x], after, border))
    (reasons,) = refusals(model.graph).values()
    assert "put channels in order" in reasons[0].reason


def test_computed_indices_are_refused() -> None:
    model, x = squares((1, 4, 4, 8))
    model.graph.add_input("places", TensorType((2,), DType.INT32))
    after = model.of(x).with_shape((1, 2, 4, 8))
    a = GatherAttributes(1)
    model.graph.outputs.append(model.emit("gather", [x, "places"], after, a))
    (computed,) = refusals(model.graph).values()
    assert "indices that are computed" in " ".join(one.reason for one in computed)
