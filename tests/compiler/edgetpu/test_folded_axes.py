"""Operators on tensors with many axes, or several images: exact as those of images."""

from __future__ import annotations

import pytest
from tests.compiler.edgetpu_models import Model, differences, findings, program

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.lowerings.sums import Sum
from fitzroy.compiler.targets.edgetpu.partition.divide import refusals
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower

Shape = tuple[int, ...]


def of_two(
    op: str, first: Shape, second: Shape, *, known: bool = False, image: Shape = ()
) -> Graph:
    """An operator of two operands.

    Args:
        op: the operator.
        first: shape of the first operand, which has all elements of the result.
        second: shape of the second.
        known: whether the second is constant.
        image: shape in which the first was computed, if it is another.
    """
    model = Model(2)
    x = model.graph.add_input("x", model.type(image or first, 0.05))
    x = model.emit("abs", [x], model.type(image or first, 0.05))
    if image:
        x = model.emit("reshape", [x], model.of(x).with_shape(first), ReshapeAttributes(first))
    if known:
        y = model.constant(second, 0.05)
    else:
        y = model.graph.add_input("y", model.type(second, 0.04))
        y = model.emit("abs", [y], model.type(second, 0.04))
    made = model.emit(op, [x, y], model.type(first, 0.1), ActivationAttributes())
    model.graph.outputs.append(made)
    verify(model.graph)
    return model.graph


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1, 6, 5, 4, 3), (1, 1, 1, 4, 1)),
        ((1, 6, 5, 4, 3), (1, 1, 1, 4, 3)),
        ((1, 6, 5, 4, 3), (1, 6, 5, 1, 1)),
        ((1, 6, 5, 2, 4), (1, 6, 5, 2, 4)),
        ((1, 6, 5, 2, 4), (1, 1, 1, 1, 1)),
        ((2, 3, 4, 5, 8), (8,)),
        ((1, 7, 1, 3, 4), (1, 7, 1, 1, 4)),
        ((3, 4, 5, 8), (3, 4, 5, 8)),
        ((3, 4, 5, 8), (8,)),
    ],
)
def test_operators_of_many_axes_are_exact(
    op: str, first: Shape, second: Shape, known: bool
) -> None:
    graph = of_two(op, first, second, known=known)
    assert not refusals(graph)
    package = program(graph)
    assert not differences(graph, package, seed=3)
    assert not findings(package)


def test_images_stay_where_they_are() -> None:
    graph = of_two("sub", (1, 6, 5, 4, 2), (1, 1, 1, 4, 1), image=(1, 6, 5, 8))
    (made,) = (one for one in legalized(graph).layers if isinstance(one, Sum))
    assert made.reads[0] == "abs"
    assert not differences(graph, program(graph), seed=4)


def test_axes_that_are_no_image_are_refused() -> None:
    graph = of_two("add", (3, 40, 3, 40, 3), (1, 40, 1, 40, 1))
    with pytest.raises(UnsupportedError, match="not of one image"):
        lower(graph)


@pytest.mark.parametrize("image", [(1, 6, 5, 24), (1, 30, 24), ()])
@pytest.mark.parametrize("shape", [(1, 30, 3, 2, 4), (1, 30, 3, 8), (30, 3, 8), (2, 15, 3, 2, 4)])
def test_parts_of_rows_with_axes_of_their_own_are_exact(image: Shape, shape: Shape) -> None:
    """As queries, keys and values of several heads are split from one product."""
    model = Model(5)
    given = image or shape
    x = model.graph.add_input("x", model.type(given, 0.05))
    x = model.emit("abs", [x], model.type(given, 0.05))
    if image:
        x = model.emit("reshape", [x], model.of(x).with_shape(shape), ReshapeAttributes(shape))
    axis = shape.index(3)
    part = model.of(x).with_shape((*shape[:axis], 1, *shape[axis + 1 :]))
    names = ("q", "k", "v")
    node = Node("parts", "split", (x,), names, SplitAttributes(axis, (1, 1, 1)))
    model.graph.add_node(node, [part] * 3)
    begin = tuple(int(number == axis) for number in range(len(shape)))
    cut = StridedSliceAttributes(begin, part.shape, (1,) * len(shape))
    # Single elements of a vector keep their scale.
    type = part if len(shape) == 3 else model.type(part.shape, 0.07)
    model.graph.outputs += ["q", "v", model.emit("strided_slice", [x], type, cut)]
    verify(model.graph)
    assert not refusals(model.graph)
    package = program(model.graph)
    assert not differences(model.graph, package, seed=5)
    assert not findings(package)


def test_products_of_long_rows_that_lie_as_an_image_are_exact() -> None:
    """A normalization over all elements of an image, as exporters write it: as one row of them."""
    model, row = Model(3), (1, 1, 4096)
    x = model.graph.add_input("x", model.type((1, 8, 8, 64), 0.05))
    x = model.emit("abs", [x], model.type((1, 8, 8, 64), 0.05))
    moved = model.of(x).with_shape((1, 64, 8, 8))
    x = model.emit("transpose", [x], moved, TransposeAttributes((0, 3, 1, 2)))
    x = model.emit("reshape", [x], moved.with_shape(row), ReshapeAttributes(row))
    mean = model.type((1, 1, 1), 0.05)
    mean_of = model.emit("mean", [x], mean, ReductionAttributes((2,), keep_dims=True))
    centred = model.emit("sub", [x, mean_of], model.type(row, 0.1), ActivationAttributes())
    squares = model.emit("mul", [centred, centred], model.type(row, 0.1), ActivationAttributes())
    model.graph.outputs.append(squares)
    verify(model.graph)
    package = program(model.graph)
    assert not differences(model.graph, package, 1)
    assert not findings(package)
