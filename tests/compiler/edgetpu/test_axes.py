"""Operators along any axis, and on several images, on the simulated Edge TPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.compiler.edgetpu.test_integers import compared, on_host
from tests.compiler.edgetpu.test_operators import assert_right, finished, mostly_slow, of_one
from tests.compiler.edgetpu_models import (
    Model,
    Tally,
    assert_exact,
    check,
    differences,
    program,
    random_inputs,
    random_model,
)
from tests.support import need_litert

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node, Value, print_graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    AxisAttributes,
    ConcatenationAttributes,
    PadAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.lowerings import pixel_softmax
from fitzroy.compiler.targets.edgetpu.lowerings.reductions import as_image
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device, interpolated
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.linker.packages.darwinn import link

Shape = tuple[int, ...]

SHARD = 4
QUICK, FULL = 4, 100
"""Shards of `SHARD` seeds each that run by default, and with ``--full``."""


@pytest.mark.long
@pytest.mark.parametrize(
    "shard",
    [
        pytest.param(number, marks=[] if number < QUICK else [pytest.mark.slow])
        for number in range(FULL)
    ],
)
def test_random_models(shard: int) -> None:
    tally = Tally()
    for seed in range(SHARD * shard, SHARD * (shard + 1)):
        tally.add(check(seed, axes=True))
    report = "\n".join(f"seed {seed}: {fault}\n{text}" for seed, fault, text in tally.failures)
    assert not tally.failures, report
    assert not tally.unordered
    assert tally.segments >= SHARD // 2


def test_random_models_have_these_operators() -> None:
    graphs = [random_model(seed, axes=True) for seed in range(40)]
    found = {node.op for graph in graphs for node in graph.nodes()}
    assert found >= {"pack", "unpack", "sum", "mean", "reduce_max", "reduce_min", "transpose"}
    assert any(len(graph.type(name).shape) == 5 for graph in graphs for name in graph.values)
    assert any(_several(graph.type(name).shape) for graph in graphs for name in graph.values)
    assert print_graph(random_model(3, axes=True)) == print_graph(random_model(3, axes=True))


def _several(shape: Shape) -> bool:
    return len(shape) == 4 and shape[0] > 1


# --- reductions ----------------------------------------------------------------------------------


def reduced(op: str, shape: Shape, axes: Shape, seed: int, *, keep: bool) -> Graph:
    model = Model(seed)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    after = tuple(
        1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes
    )
    count = math.prod(shape[axis] for axis in axes)
    type = model.type(after, 0.05 * (math.sqrt(count) if op == "sum" else 1))
    return finished(model, model.emit(op, [x], type, ReductionAttributes(axes, keep)))


REDUCED: list[tuple[Shape, Shape]] = [
    ((1, 9, 7, 12), (1,)),
    ((1, 9, 7, 12), (2,)),
    ((1, 9, 7, 13), (3,)),
    ((1, 9, 7, 13), (1, 2)),
    ((1, 6, 7, 10), (1, 3)),
    ((1, 6, 7, 70), (2, 3)),
    ((1, 6, 7, 10), (1, 2, 3)),
    ((1, 6, 7, 10), (0,)),
    ((5, 12), (1,)),
    ((70, 12), (0,)),
    ((300,), (0,)),
    ((3, 8, 5), (0,)),
    ((3, 8, 5), (1,)),
    ((3, 8, 5), (2,)),
    ((3, 8, 5), (0, 2)),
    ((2, 3, 4, 5, 6), (2,)),
    ((2, 3, 4, 5, 6), (3, 4)),
    ((3, 5, 6, 7), (0,)),
    ((3, 5, 6, 7), (1, 2)),
    ((3, 5, 6, 7), (3,)),
    ((3, 5, 6, 7), (1, 3)),
    ((3, 1, 1, 7), (1, 2)),
    ((1, 1, 1, 7), (1, 2)),
    ((3, 1, 4, 7), (1,)),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "shape", "axes"),
    mostly_slow(
        ((op, *case) for case in REDUCED for op in ("mean", "sum", "reduce_max", "reduce_min")),
        3,
    ),
)
def test_reductions(op: str, shape: Shape, axes: Shape) -> None:
    seed = sum(shape) + len(op)
    assert_right(reduced(op, shape, axes, seed, keep=bool(seed % 2)), (1,))


def test_axes_become_those_of_an_image() -> None:
    for shape, axes in REDUCED:
        found, along = as_image(shape, axes)
        several = _several(shape) and 0 not in axes
        assert math.prod(found) == math.prod(shape[1:] if several else shape)
        if several:
            continue
        kept = math.prod(size for axis, size in enumerate(shape) if axis not in axes)
        assert math.prod(size for axis, size in enumerate(found) if axis not in along) == kept
        # What is reduced is the same elements.
        numbers = np.arange(math.prod(shape))
        wanted = numbers.reshape(shape).sum(axis=axes).reshape(-1)
        assert np.array_equal(numbers.reshape(found).sum(axis=tuple(along)).reshape(-1), wanted)
    with pytest.raises(UnsupportedError, match="4 groups of axes"):
        as_image((2, 3, 4, 5), (0, 2))


# --- packing -------------------------------------------------------------------------------------


def packed(shape: Shape, axis: int, count: int, seed: int) -> Graph:
    model = Model(seed)
    names = [model.graph.add_input(f"x{k}", model.type(shape, 0.05)) for k in range(count)]
    type = model.type((*shape[:axis], count, *shape[axis:]), 0.05)
    return finished(model, model.emit("pack", names, type, AxisAttributes(axis)))


def unpacked(shape: Shape, axis: int, seed: int) -> Graph:
    model = Model(seed)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    names = tuple(f"y{number}" for number in range(shape[axis]))
    part = model.of(x).with_shape((*shape[:axis], *shape[axis + 1 :]))
    node = Node("unpack", "unpack", (x,), names, AxisAttributes(axis))
    model.graph.add_node(node, [part] * len(names))
    model.graph.outputs = list(names)
    return model.graph


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((1, 5, 6, 7), 3),
        ((1, 5, 6, 8), 2),
        ((6, 8), 4),
        ((40,), 3),
        ((3, 4, 5), 2),
        ((2, 3, 4, 5), 2),
    ],
)
def test_packing(shape: Shape, count: int) -> None:
    for axis in range(len(shape) + 1):
        assert_right(packed(shape, axis, count, axis), (1,))


@pytest.mark.long
@pytest.mark.parametrize(
    "shape", [(1, 3, 6, 7), (1, 5, 4, 3), (4, 6), (6,), (3, 4, 5), (1, 2, 3, 4, 5), (2, 4, 4, 5)]
)
def test_unpacking(shape: Shape) -> None:
    for axis in range(len(shape)):
        assert_right(unpacked(shape, axis, axis), (1,))


def test_what_was_packed_is_unpacked_without_a_copy() -> None:
    model = Model(2)
    names = [model.graph.add_input(f"x{k}", model.type((1, 5, 6, 8), 0.05)) for k in range(3)]
    type = TensorType((3, 1, 5, 6, 8), model.dtype, model.of(names[0]).quantization)
    for name in names[1:]:
        model.graph.set_value(Value(name, model.of(names[0])))
    whole = model.emit("pack", names, type, AxisAttributes(0))
    parts = ("a", "b", "c")
    node = Node("apart", "unpack", (whole,), parts, AxisAttributes(0))
    model.graph.add_node(node, [model.of(names[0])] * 3)
    model.graph.outputs = list(parts)
    assert {layer.name for layer in legalized(model.graph).layers} == {*names, *parts}
    assert_right(model.graph, (1,))


@pytest.mark.long
@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        (((4, 5), (4, 7)), 1),
        (((3, 4, 5), (3, 2, 5)), 1),
        (((3, 4, 5), (3, 4, 1)), 2),
        (((1, 14, 100), (1, 14, 40), (1, 14, 9)), 2),
        (((2, 3, 4, 5, 6), (2, 3, 1, 5, 6)), 2),
    ],
)
def test_rows_are_joined(shapes: tuple[Shape, ...], axis: int) -> None:
    model = Model(len(shapes[0]))
    names = [
        model.graph.add_input(f"x{number}", model.type(shape, 0.05))
        for number, shape in enumerate(shapes)
    ]
    first = shapes[0]
    joined = (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
    attributes = ConcatenationAttributes(axis)
    type = model.type(joined, 0.06)
    assert_right(finished(model, model.emit("concatenation", names, type, attributes)), (1,))


# --- transpositions ------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((1, 2, 3, 4, 5), (0, 1, 4, 2, 3)),
        ((1, 4, 2, 6, 2), (0, 1, 3, 2, 4)),
        ((2, 3, 4, 5, 6), (4, 3, 2, 1, 0)),
        ((2, 3, 4, 5, 2), (1, 0, 2, 4, 3)),
        ((2, 3, 1, 4, 5), (0, 1, 3, 2, 4)),
        ((2, 1, 3, 2, 2, 4), (5, 0, 1, 4, 2, 3)),
        ((2, 3, 4, 5), (1, 2, 3, 0)),
        ((2, 3, 4, 5), (0, 3, 1, 2)),
        ((1, 3, 4, 5), (3, 1, 2, 0)),
    ],
)
def test_transpositions(shape: Shape, perm: Shape) -> None:
    result = tuple(shape[axis] for axis in perm)
    assert_right(of_one("transpose", shape, result, TransposeAttributes(perm), 3), (1,))


@pytest.mark.long
def test_transpositions_of_many_axes_are_refused() -> None:
    shape, perm = (6, 2, 7, 2, 4), (4, 3, 2, 1, 0)
    graph = of_one("transpose", shape, shape[::-1], TransposeAttributes(perm))
    assert_right(graph, (1,))
    shape, perm = (2, 3, 2, 9, 8), (4, 3, 2, 1, 0)
    graph = of_one("transpose", shape, shape[::-1], TransposeAttributes(perm))
    with pytest.raises(UnsupportedError, match="is made of 72 images"):
        lower(graph)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "perm", "bands"),
    [
        ((1, 4, 160, 162), (0, 2, 3, 1), 2),
        ((1, 160, 4, 160), (0, 1, 3, 2), 2),
        ((1, 160, 160, 4), (0, 3, 1, 2), 2),
        ((1, 170, 170, 3), (0, 2, 3, 1), 2),
        ((1, 3, 200, 170), (0, 2, 3, 1), 2),
        ((1, 230, 5, 172), (0, 2, 3, 1), 3),
    ],
)
def test_large_images_are_transposed_in_bands(shape: Shape, perm: Shape, bands: int) -> None:
    """As heads of attention become channels that talk to each other."""
    result = tuple(shape[axis] for axis in perm)
    graph = of_one("transpose", shape, result, TransposeAttributes(perm), 3)
    kinds = [layer.kind for layer in legalized(graph).layers]
    assert kinds.count("elements") == bands
    assert_exact(graph)


@pytest.mark.long
def test_large_matrices_are_transposed_in_bands() -> None:
    """As results of attention whose channels come first; their rows are pixels of an image."""
    model = Model(3)
    image = model.type((1, 12, 16, 784), 0.05)
    x = model.emit(
        "max_pool_2d", [model.graph.add_input("x", image)], image, PoolAttributes((1, 1))
    )
    rows = image.with_shape((1, 192, 784))
    matrix = model.emit("reshape", [x], rows, ReshapeAttributes(rows.shape))
    turned = rows.with_shape((1, 784, 192))
    graph = finished(
        model, model.emit("transpose", [matrix], turned, TransposeAttributes((0, 2, 1)))
    )
    assert [layer.kind for layer in legalized(graph).layers].count("elements") == 2
    assert_exact(graph)


@pytest.mark.long
@pytest.mark.parametrize("channels", [6, 22])
def test_rows_of_several_images_are_transposed_image_by_image(channels: int) -> None:
    """As boxes and scores of all levels of a detector, if their numbers go in front of boxes."""
    model, levels = Model(3), []
    for size in (40, 36):
        image = model.type((1, size, size, channels), 0.05)
        x = model.graph.add_input(f"x{size}", image)
        pooled = model.emit("max_pool_2d", [x], image, PoolAttributes((1, 1)))
        rows = image.with_shape((1, size * size, channels))
        levels.append(model.emit("reshape", [pooled], rows, ReshapeAttributes(rows.shape)))
    count = sum(model.of(name).shape[1] for name in levels)
    every = model.of(levels[0]).with_shape((1, count, channels))
    joined = model.emit("concatenation", levels, every, ConcatenationAttributes(1))
    turned = every.with_shape((1, channels, count))
    graph = finished(
        model, model.emit("transpose", [joined], turned, TransposeAttributes((0, 2, 1)))
    )
    assert_exact(graph)


def test_images_of_too_many_bands_are_not_transposed() -> None:
    shape, perm = (1, 230, 230, 8), (0, 2, 3, 1)
    graph = of_one("transpose", shape, tuple(shape[k] for k in perm), TransposeAttributes(perm))
    with pytest.raises(UnsupportedError, match="moves single elements"):
        lower(graph)


# --- reshaped images -----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "after"),
    [
        ((1, 28, 28, 192), (1, 1, 784, 192)),
        ((1, 28, 28, 192), (1, 49, 16, 192)),
        ((1, 40, 56, 128), (1, 40, 112, 64)),
        ((1, 40, 112, 64), (1, 40, 56, 128)),
        ((1, 6, 10, 5), (1, 4, 15, 5)),
        ((1, 6, 10, 24), (1, 4, 30, 12)),
        ((1, 4, 30, 12), (1, 6, 10, 24)),
        ((1, 7, 7, 32), (1, 2, 49, 16)),
    ],
    ids=str,
)
def test_images_are_reshaped_as_boxes_of_pixels(shape: Shape, after: Shape) -> None:
    """As tokens are that are pooled in order; the largest ones have no room as vectors."""
    model, single = Model(4), PoolAttributes((1, 1))
    image = model.type(shape, 0.05)
    x = model.emit("max_pool_2d", [model.graph.add_input("x", image)], image, single)
    reshaped = model.emit("reshape", [x], image.with_shape(after), ReshapeAttributes(after))
    window = PoolAttributes((1, 2), (1, 2))
    pooled = image.with_shape((1, after[1], after[2] // 2, after[3]))
    graph = finished(model, model.emit("max_pool_2d", [reshaped], pooled, window))
    assert "to vector" not in [layer.kind for layer in legalized(graph).layers]
    assert_exact(graph)


@pytest.mark.long
@pytest.mark.parametrize("op", ["sum", "mean"])
@pytest.mark.parametrize(
    ("shape", "groups"),
    [((1, 56, 56, 128), 2), ((1, 9, 7, 24), 2), ((1, 9, 7, 36), 3), ((1, 9, 7, 15), 3)],
    ids=str,
)
def test_groups_of_channels_are_reduced(op: str, shape: Shape, groups: int) -> None:
    """As branches of a convolution are that were weighted: ResNeSt's split attention."""
    model = Model(5)
    _, height, width, depth = shape
    image, each = model.type(shape, 0.05), depth // groups
    x = model.graph.add_input("x", image)
    x = model.emit("max_pool_2d", [x], image, PoolAttributes((1, 1)))
    apart = (1, height, width, groups, each)
    x = model.emit("reshape", [x], image.with_shape(apart), ReshapeAttributes(apart))
    after = model.type((1, height, width, each), 0.08)
    graph = finished(model, model.emit(op, [x], after, ReductionAttributes((3,), False)))
    assert_exact(graph)


# --- several images ------------------------------------------------------------------------------

COUNT = 3
IMAGES = (COUNT, 9, 8, 6)


def convolved(model: Model, x: str, channels: int, stride: int = 1) -> str:
    count, height, width, depth = model.of(x).shape
    w, _ = model.weights((channels, 3, 3, depth), 0, 9 * depth)
    type = model.type((count, -(-height // stride), -(-width // stride), channels), 0.05)
    attributes = ConvAttributes((stride, stride), padding=PaddingScheme.SAME)
    return model.emit("conv_2d", [x, w, model.bias(channels, 9 * depth)], type, attributes)


def _of_images(number: int) -> Graph:
    model = Model(number)
    x = model.graph.add_input("x", model.type(IMAGES, 0.05))

    def moved(op: str, shape: Shape, attributes: Attributes) -> str:
        return model.emit(op, [x], model.of(x).with_shape(shape), attributes)

    def added(y: str, *, first: bool = True) -> str:
        order = [x, y] if first else [y, x]
        return model.emit("add", order, model.type(IMAGES, 0.1), ActivationAttributes())

    makers = [
        lambda: convolved(model, convolved(model, x, COUNT), 12, 2),
        lambda: added(convolved(model, x, 6)),
        lambda: added(model.constant((1, 1, 1, 6), 0.05)),
        lambda: added(model.constant(IMAGES, 0.05)),
        lambda: added(model.graph.add_input("y", model.type((1, 9, 8, 6), 0.05)), first=False),
        lambda: added(model.constant((1, 9, 1, 6), 0.05), first=False),
        lambda: moved("max_pool_2d", (COUNT, 4, 4, 6), PoolAttributes((2, 2), (2, 2))),
        lambda: moved("pad", (COUNT, 11, 9, 6), PadAttributes((0, 1, 0, 0), (0, 1, 1, 0))),
        lambda: moved("reshape", (1, 27, 8, 6), ReshapeAttributes((1, 27, 8, 6))),
        lambda: model.emit("sigmoid", [x], model.type(IMAGES, 1 / 256), NO_ATTRIBUTES),
        lambda: model.emit(
            "concatenation",
            [x, convolved(model, x, 4)],
            model.type((COUNT, 9, 8, 10), 0.06),
            ConcatenationAttributes(3),
        ),
        lambda: model.emit(
            "concatenation",
            [x, convolved(model, x, 6)],
            model.type((2 * COUNT, 9, 8, 6), 0.06),
            ConcatenationAttributes(0),
        ),
    ]
    return finished(model, makers[number]())


@pytest.mark.long
@pytest.mark.parametrize("number", range(12))
def test_several_images(number: int) -> None:
    assert_right(_of_images(number))


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(parameter_rows=0),
        Options(taken=(2000,) * 16),
    ],
    ids=["on the chip", "streamed", "in parts"],
)
def test_images_share_weights(options: Options) -> None:
    model = Model(3)
    x = model.graph.add_input("x", model.type((COUNT, 9, 8, 64), 0.05))
    graph = finished(model, convolved(model, convolved(model, x, 100), 150, 2))
    compiled = lower(graph, options)
    whole = {(operand.name or "").partition("[")[0] for operand in compiled.operands or ()}
    assert len(whole - {"matrices"}) == 2
    (package,) = link([compiled])
    assert differences(graph, package, 1) == ""


@pytest.mark.parametrize(
    ("begin", "size", "stride"),
    [
        ((1, 0, 0, 0), (2, 9, 8, 6), (1, 1, 1, 1)),
        ((2, 0, 0, 0), (2, 9, 8, 6), (-2, 1, 1, 1)),
        ((1, 0, 0, 0), (1, 9, 8, 6), (1, 1, 1, 1)),
        ((0, 2, 0, 1), (3, 4, 8, 3), (1, 1, 1, 1)),
        ((1, 0, 1, 0), (2, 5, 3, 6), (1, 2, 2, 1)),
    ],
)
def test_slices_of_several_images(begin: Shape, size: Shape, stride: Shape) -> None:
    attributes = StridedSliceAttributes(begin, size, stride)
    assert_right(of_one("strided_slice", IMAGES, size, attributes, 2), (1,))


@pytest.mark.parametrize(("axis", "sizes"), [(0, (1, 2)), (1, (4, 5)), (3, (2, 4))])
def test_several_images_are_split(axis: int, sizes: Shape) -> None:
    model = Model(4)
    x = model.graph.add_input("x", model.type(IMAGES, 0.05))
    shapes = [tuple(size if k == axis else n for k, n in enumerate(IMAGES)) for size in sizes]
    node = Node("split", "split", (x,), ("a", "b"), SplitAttributes(axis, sizes))
    model.graph.add_node(node, [model.of(x).with_shape(shape) for shape in shapes])
    model.graph.outputs = ["a", "b"]
    assert_right(model.graph, (1,))


def test_several_images_come_from_the_host() -> None:
    model = Model(2)
    x = model.graph.add_input("x", model.type(IMAGES, 0.05))
    type = TensorType(IMAGES, model.dtype, Quantization.per_tensor(1 / 16, model.dtype.limits[1]))
    logarithms = model.emit("log_softmax", [x], type)
    source = Source.of(finished(model, convolved(model, logarithms, 8)))
    compiled = compile_edgetpu(source, costs=None)
    assert on_host(compiled) == {"log_softmax"}
    compared(source, compiled, steps=1)


@pytest.mark.parametrize("shape", [(), (5,), (1, 8), (2, 3, 4), (3, 4, 4, 5), (2, 1, 3, 2, 5)])
def test_operators_on_constants_of_any_rank(shape: Shape) -> None:
    model = Model(6)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    type = TensorType(shape, model.dtype, Quantization.per_tensor(1 / 256, model.dtype.limits[0]))
    shares = model.emit("sigmoid", [model.constant(shape, 0.05)], type)
    largest = model.emit("maximum", [shares, model.constant(shape, 0.05)], type)
    graph = finished(model, model.emit("maximum", [x, largest], model.type(shape, 0.05)))
    source = Source.of(graph)
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=1)


# --- softmax -------------------------------------------------------------------------------------


def softmax(shape: Shape, about: float, seed: int = 0, beta: float = 1.0) -> Graph:
    model = Model(seed)
    x = model.graph.add_input("x", model.type(shape, about))
    probabilities = Quantization.per_tensor(1 / 256, model.dtype.limits[0])
    type = TensorType(shape, model.dtype, probabilities)
    return finished(model, model.emit("softmax", [x], type, SoftmaxAttributes(beta)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "about"),
    [
        ((1, 5, 6, 16), 0.05),
        ((1, 9, 7, 21), 0.1),
        ((4, 10), 0.2),
        ((3, 4, 5), 0.02),
        ((1, 4, 60, 16), 0.1),
        ((2, 5, 4, 12), 0.15),
        ((1, 3, 3, 150), 0.1),
        ((1, 2, 2, 600), 0.08),
        ((6, 2), 0.3),
    ],
)
def test_softmax_of_pixels(shape: Shape, about: float) -> None:
    assert_right(softmax(shape, about, sum(shape), 1.0 if shape[-1] % 4 else 0.7), (1,))


@pytest.mark.parametrize("channels", [5, 21, 1024])
@pytest.mark.parametrize("spread", [1, 8, 40])
def test_softmax_of_pixels_differs_rarely_and_by_one(channels: int, spread: int) -> None:
    for seed in range(3):
        graph = softmax((1, 40, 20, channels), 0.1, seed)
        (x,), (y,) = graph.inputs, graph.outputs
        type = graph.type(x)
        rng = np.random.default_rng(seed)
        middle = sum(type.dtype.limits) // 2
        values = middle + rng.normal(0, spread, type.shape)
        inputs = {x: values.clip(*type.dtype.limits).astype(type.dtype.numpy)}
        found = evaluate_on_device(graph, inputs)[y].astype(int)
        gap = np.abs(found - evaluate(graph, inputs)[y].astype(int))
        assert gap.max() <= 1
        assert np.count_nonzero(gap) <= 0.01 * gap.size


def test_tables_of_softmax() -> None:
    x = np.linspace(pixel_softmax.LEAST, 0, 10_001).astype(np.float32)
    exponentials = interpolated(pixel_softmax.EXPONENTIAL, x)
    assert np.abs(exponentials - pixel_softmax.ONE * np.exp(x)).max() < 1.5
    assert np.rint(exponentials[-1]) == pixel_softmax.ONE
    for channels, most in ((16, 2e-5), (64, 1e-4), (1024, 1e-3)):
        x = np.geomspace(1, channels, 10_001).astype(np.float32)
        error = interpolated(pixel_softmax.reciprocal(channels), x) * x / pixel_softmax.UNIT - 1
        assert np.abs(error).max() < most


def test_softmax_of_pixels_runs_in_strips() -> None:
    graph = softmax((1, 40, 24, 19), 0.1)
    package = program(graph, Options(narrow_bytes=6000))
    assert differences(graph, package, 1) == ""


@pytest.mark.parametrize(("channels", "first"), [(22, 13), (24, 16), (9, 4)])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_channels_of_joined_images_are_cut_image_by_image(
    channels: int, first: int, dtype: DType
) -> None:
    """As at the end of detectors, whose joined scales are too large for one tile."""
    graph, quantization, parts = Graph("scales"), Quantization.per_tensor(0.05, 3), []
    for number, (height, width) in enumerate([(12, 10), (6, 5), (3, 4)]):
        type = TensorType((1, height, width, channels), dtype, quantization)
        x = graph.add_input(f"x{number}", type)
        rows = type.with_shape((1, height * width, channels))
        parts.append(graph.emit("reshape", [x], rows, ReshapeAttributes(rows.shape)))
    count = sum(graph.type(part).shape[1] for part in parts)
    joined = TensorType((1, count, channels), dtype, quantization)
    whole = graph.emit("concatenation", parts, joined, ConcatenationAttributes(1))
    sizes = (first, channels - first)
    boxes, scores = (graph.fresh(name) for name in ("boxes", "scores"))
    results = [joined.with_shape((1, count, size)) for size in sizes]
    node = Node(boxes, "split", (whole,), (boxes, scores), SplitAttributes(2, sizes))
    graph.add_node(node, results)
    likely = TensorType(
        results[1].shape, dtype, Quantization.per_tensor(1 / 256, min(dtype.limits))
    )
    middle = StridedSliceAttributes((0, 0, 1), (1, count, first - 1), (1, 1, 1))
    cut = joined.with_shape(middle.size)
    graph.outputs = [
        boxes,
        graph.emit("sigmoid", [scores], likely),
        graph.emit("strided_slice", [whole], cut, middle),
    ]
    verify(graph)
    copies = count * (2 * channels if channels % 4 else channels)
    tight = Options(narrow_bytes=min(copies, 5000))
    kinds = [layer.kind for layer in legalized(graph, tight).layers]
    assert "to vector" not in kinds
    assert kinds.count("assembly") == 9
    assert differences(graph, program(graph, tight), 1) == ""


@pytest.mark.parametrize("first", [0, 1])
def test_rows_are_cut_from_tokens_behind_a_vector(first: int) -> None:
    """As the class token in front of an image of tokens, which are too many for one tile."""
    model, channels = Model(6), 96
    image = model.type((1, 14, 14, channels), 0.05)
    token = model.graph.add_input("token", image.with_shape((1, 1, channels)))
    x = model.emit(
        "max_pool_2d", [model.graph.add_input("x", image)], image, PoolAttributes((1, 1))
    )
    flat = image.with_shape((1, 196, channels))
    rows = model.emit("reshape", [x], flat, ReshapeAttributes(flat.shape))
    joined = image.with_shape((1, 197, channels))
    whole = model.emit("concatenation", [token, rows], joined, ConcatenationAttributes(1))
    size = (1, 196 if first else 1, channels)
    cut = StridedSliceAttributes((0, first, 0), size, (1, 1, 1))
    name = model.emit("strided_slice", [whole], image.with_shape(size), cut)
    after = model.type(size, 0.06)
    assert_exact(finished(model, model.emit("add", [name, name], after, ActivationAttributes())))


@pytest.mark.long
@pytest.mark.parametrize(
    "shape", [(1, 3136, 64), (1, 2000, 90), (453, 375), (1, 56, 56, 3, 32)], ids=str
)
def test_many_rows_from_the_host_are_pixels(shape: Shape) -> None:
    """As tokens come back from operators that are not on the chip: no tile has room for them."""
    model = Model(7)
    tokens = model.type(shape, 0.05)
    x, bias = model.graph.add_input("x", tokens), model.constant(shape[-1:], 0.05)
    x = model.emit("add", [x, bias], model.type(shape, 0.08), ActivationAttributes())
    last = (len(shape) - 1,)
    single = model.type((*shape[:-1], 1), 0.05)
    mean = model.emit("mean", [x], single, ReductionAttributes(last, True))
    after = model.type(shape, 0.08)
    assert_exact(finished(model, model.emit("sub", [x, mean], after, ActivationAttributes())))


@pytest.mark.parametrize("count", [3136, 3137])
def test_rows_from_the_host_are_pixels_where_these_divide(count: int) -> None:
    first, *_ = legalized(of_one("tanh", (1, count, 64), (1, count, 64), NO_ATTRIBUTES)).layers
    assert first.kind == ("receive" if count == 3136 else "receive vector")


@pytest.mark.parametrize("shape", [(453, 431), (1, 1056, 431), (1, 3136, 128)], ids=str)
def test_rows_from_the_host_come_through_small_slots(shape: Shape) -> None:
    """Their image is one whose rows, or so many of them as fill words, are short."""
    graph = of_one("tanh", shape, shape, NO_ATTRIBUTES)
    assert legalized(graph).layers[0].kind == "receive"
    lower(graph)


# --- meaning -------------------------------------------------------------------------------------


def _alike(dtype: DType) -> Iterator[Graph]:
    """Operators whose meaning other kernels know, which do not change the quantization."""
    model = Model(1)
    model.dtype = dtype if dtype is not DType.FLOAT32 else DType.INT8

    def typed(shape: Shape) -> TensorType:
        type = model.type(shape, 0.05)
        return TensorType(shape, dtype, None) if dtype is DType.FLOAT32 else type

    for op in ("mean", "sum", "reduce_max", "reduce_min"):
        for shape, axes in REDUCED[:12]:
            graph = Graph(op)
            x = graph.add_input("x", typed(shape))
            after = tuple(size for axis, size in enumerate(shape) if axis not in axes)
            type = graph.type(x).with_shape(after)
            if op == "sum" and type.quantization is not None:
                # So that few sums end at the limits.
                (scale,), (zero,) = type.quantization.scale, type.quantization.zero_point
                wide = Quantization.per_tensor(
                    scale * math.prod(shape[axis] for axis in axes), zero
                )
                type = replace(type, quantization=wide)
            graph.outputs = [graph.emit(op, [x], type, ReductionAttributes(axes, False))]
            yield graph
    for axis in range(3):
        graph = Graph("pack")
        type = typed((4, 5))
        names = [graph.add_input(f"x{k}", type) for k in range(3)]
        shape = (*type.shape[:axis], 3, *type.shape[axis:])
        packed = graph.emit("pack", names, type.with_shape(shape), AxisAttributes(axis))
        parts = tuple(f"part{k}" for k in range(shape[0]))
        node = Node("unpack", "unpack", (packed,), parts, AxisAttributes(0))
        graph.add_node(node, [type.with_shape(shape[1:])] * shape[0])
        graph.outputs = list(parts)
        yield graph


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.FLOAT32])
def test_meanings_are_those_of_tflite(dtype: DType, tmp_path: Path) -> None:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    for graph in _alike(dtype):
        verify(graph)
        data = tflite.write_model(export_model(graph))
        # The reference kernel of sums of bytes wraps.
        kernels = OpResolverType.BUILTIN if graph.name == "sum" else OpResolverType.BUILTIN_REF
        interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
        interpreter.allocate_tensors()
        inputs = _inputs(graph)
        details = interpreter.get_input_details()
        for name, detail in zip(graph.inputs, details, strict=True):
            interpreter.set_tensor(detail["index"], inputs[name])
        interpreter.invoke()
        wanted = fitzroy.evaluate(graph, inputs, Arithmetic.TFLITE)
        for name, detail in zip(graph.outputs, interpreter.get_output_details(), strict=True):
            found = interpreter.get_tensor(detail["index"])
            if dtype is DType.FLOAT32:
                np.testing.assert_allclose(found, wanted[name], rtol=1e-5, atol=1e-5)
            else:
                # Sums of real numbers are rounded in another order.
                gap = np.abs(found.astype(int) - wanted[name].astype(int))
                assert gap.max(initial=0) <= int(graph.name in ("sum", "mean")), graph.name
                assert np.count_nonzero(gap) <= 0.02 * gap.size + 1


def _inputs(graph: Graph) -> dict[str, Array]:
    if graph.type(graph.inputs[0]).dtype is not DType.FLOAT32:
        return random_inputs(graph, 3)
    rng = np.random.default_rng(3)
    return {
        name: rng.normal(size=graph.type(name).shape).astype(np.float32) for name in graph.inputs
    }
