"""Operators of rows on images that a head joins: each is computed image by image."""

from __future__ import annotations

import pytest
from tests.compiler.edgetpu_models import Model, assert_exact, differences, findings, program

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.lowerings.softmax import Softmax
from fitzroy.compiler.targets.edgetpu.program.lower import legalized

_GRIDS = ((6, 5), (3, 4), (2, 2))


def head(seed: int) -> Graph:
    """Rows of several images, joined, with some operators of rows after them."""
    model = Model(seed)
    graph, each, width = model.graph, model.number(1, 4), 4 * model.number(1, 3)
    grids = _GRIDS[: model.number(2, 3)]
    joined = model.type((1, each * sum(h * w for h, w in grids), width), 0.05)
    parts = []
    for number, (height, columns) in enumerate(grids):
        x = graph.add_input(f"x{number}", model.type((1, height, columns, 8), 0.05))
        w, _ = model.weights((each * width, 1, 1, 8), 0, 8)
        image = TensorType((1, height, columns, each * width), joined.dtype, joined.quantization)
        found = model.emit("conv_2d", [x, w, None], image, ConvAttributes())
        shape = (1, height * columns * each, width)
        flat = TensorType(shape, joined.dtype, joined.quantization)
        parts.append(model.emit("reshape", [found], flat, ReshapeAttributes(shape)))
    model.live = [model.emit("concatenation", parts, joined, ConcatenationAttributes(1))]
    for _ in range(model.number(1, 4)):
        model.live += _grown(model, model.live[-1])
    graph.outputs = [name for name in model.live if not graph.consumers(name)]
    verify(graph)
    return graph


def _grown(model: Model, x: str) -> list[str]:
    """An operator of rows on a value."""
    before = model.of(x)
    count, width = before.shape[1:]
    half = max(1, width // 2)
    kind = model.choose("softmax", "split", "slice", "constant", "sum", "join")
    if kind == "softmax":
        return [model.emit("softmax", [x], model.type(before.shape, 1 / 256), SoftmaxAttributes())]
    if kind == "split" and width > half:
        types = [
            TensorType((1, count, size), before.dtype, before.quantization)
            for size in (half, width - half)
        ]
        names = tuple(model.graph.fresh(f"split{index}") for index in range(2))
        attributes = SplitAttributes(2, (half, width - half))
        model.graph.add_node(Node(names[0], "split", (x,), names, attributes), types)
        return [*names]
    if kind == "slice":
        cut = StridedSliceAttributes((0, 0, width - half), (1, count, half), (1, 1, 1))
        return [model.emit("strided_slice", [x], model.type((1, count, half), 0.05), cut)]
    if kind == "constant":
        other = model.constant((1, count, 1) if model.chance(0.5) else (1, count, width), 0.05)
        op = str(model.choose("mul", "add", "sub"))
        return [model.emit(op, [x, other], model.type(before.shape, 0.1), ActivationAttributes())]
    if kind == "sum":
        return [model.emit("add", [x, x], model.type(before.shape, 0.1), ActivationAttributes())]
    type = model.type((1, count, 2 * width), 0.05)
    return [model.emit("concatenation", [x, x], type, ConcatenationAttributes(2))]


@pytest.mark.parametrize("seed", range(24))
def test_heads(seed: int) -> None:
    graph = head(seed)
    package = program(graph)
    assert not differences(graph, package, seed)
    assert not findings(package)


@pytest.mark.parametrize(
    ("shape", "extra", "axis"),
    [
        ((1, 196, 12), 1, 1),
        ((1, 10, 12), 3, 2),
        ((10, 12), 2, 0),
        ((1, 5, 6, 8), 2, 3),
        ((1, 5, 6, 8), 2, 1),
        ((40,), 9, 0),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_constants_are_joined(
    shape: tuple[int, ...], extra: int, axis: int, *, first: bool
) -> None:
    model = Model(5)
    graph = model.graph
    size = [extra if k == axis else count for k, count in enumerate(shape)]
    x, held = graph.add_input("x", model.type(shape, 0.05)), model.constant(tuple(size), 0.05)
    size[axis] += shape[axis]
    names = [held, x] if first else [x, held]
    type = model.type(tuple(size), 0.05)
    joined = model.emit("concatenation", names, type, ConcatenationAttributes(axis))
    graph.outputs = [joined]
    verify(graph)
    made = program(graph)
    assert not findings(made)
    assert not differences(graph, made, 3)


@pytest.mark.parametrize(
    ("shape", "begin", "count"),
    [((1, 197, 192), 0, 1), ((1, 196, 192), 14, 28), ((1, 150, 128), 100, 50)],
)
def test_rows_of_large_vectors_are_cut(shape: tuple[int, int, int], begin: int, count: int) -> None:
    model = Model(6)
    graph, type = model.graph, model.type(shape, 0.05)
    x = graph.add_input("x", type)
    squared = model.emit("mul", [x, x], model.type(shape, 0.05), ActivationAttributes())
    size = (1, count, shape[2])
    cut = TensorType(size, type.dtype, model.of(squared).quantization)
    graph.outputs = [
        model.emit(
            "strided_slice", [squared], cut, StridedSliceAttributes((0, begin, 0), size, (1, 1, 1))
        )
    ]
    verify(graph)
    made = program(graph)
    assert not findings(made)
    assert not differences(graph, made, 3)


def test_an_element_of_a_row_is_not_one_of_all_rows_of_a_pixel() -> None:
    """Pixels of the transposed image have several rows, each with a mean of its own."""
    model = Model(7)
    graph = model.graph
    x = graph.add_input("x", model.type((2, 2, 2, 2, 2), 0.05))
    perm = (2, 1, 0, 3, 4)
    turned = model.emit("transpose", [x], model.of(x), TransposeAttributes(perm))
    rows = model.of(x).with_shape((16, 2))
    y = model.emit("reshape", [turned], rows, ReshapeAttributes(rows.shape))
    attributes = ReductionAttributes((1,), keep_dims=True)
    mean = model.emit("mean", [y], rows.with_shape((16, 1)), attributes)
    graph.outputs = [model.emit("sub", [y, mean], rows, ActivationAttributes())]
    verify(graph)
    made = program(graph)
    assert not findings(made)
    assert not differences(graph, made, 1)


def test_a_row_of_its_own_image_is_rounded_as_the_others_are() -> None:
    """The softmax of a single row has another arithmetic than that of several."""
    model, channels = Model(5), 6
    image = model.type((1, 1, 1, channels), 0.05)
    parts = []
    for number, grid in enumerate([(3, 4), (1, 1)]):
        own = image.with_shape((1, *grid, channels))
        x = model.graph.add_input(f"x{number}", own)
        x = model.emit("max_pool_2d", [x], own, PoolAttributes((1, 1)))
        rows = image.with_shape((1, grid[0] * grid[1], channels))
        parts.append(model.emit("reshape", [x], rows, ReshapeAttributes(rows.shape)))
    joined = image.with_shape((1, 13, channels))
    x = model.emit("concatenation", parts, joined, ConcatenationAttributes(1))
    after = model.type(joined.shape, 1 / 256)
    model.graph.outputs = [model.emit("softmax", [x], after, SoftmaxAttributes())]
    assert not any(isinstance(layer, Softmax) for layer in legalized(model.graph).layers)
    assert_exact(model.graph)
