"""Transposed convolutions, resizing by any factor, normalization, transposition, repetition, rows.

Programs give the bytes of device arithmetic whatever the order of engines and the first contents
of memories, and the verifier of programs finds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from tests.compiler.edgetpu_models import (
    Model,
    differences,
    examined,
    findings,
    program,
    random_inputs,
)

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph
from fitzroy.compiler.ops.convolution import (
    ConvAttributes,
    TransposeConvAttributes,
    transpose_conv_padding,
)
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    LOWEST,
    PadAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.host.host_layers import Receive
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.lowerings.normalization import ONE, RECIPROCAL_ROOT
from fitzroy.compiler.targets.edgetpu.lowerings.resize import Scaling
from fitzroy.compiler.targets.edgetpu.lowerings.transposed_convolution import (
    Together,
    TransposedConvolution,
    _phases,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Window, grid
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.hw_models.numerics import Arithmetic, Sampling
from fitzroy.linker.packages.darwinn import link

SEEDS = (1, 2)
SAME, VALID = PaddingScheme.SAME, PaddingScheme.VALID
I8, U8 = DType.INT8, DType.UINT8


def assert_right(graph: Graph, seeds: Sequence[int] = SEEDS) -> None:
    """The program of a graph gives the bytes of device arithmetic."""
    verify(graph)
    for seed in seeds:
        assert examined(graph, seed) == ("", [])


def finished(model: Model, result: str) -> Graph:
    """The graph of a model with a result."""
    model.graph.outputs = [result]
    return model.graph


def mostly_slow(cases: Iterable[Sequence[object]], every: int) -> list[object]:
    """Cases of which only some run by default."""
    return [
        pytest.param(*case, marks=[pytest.mark.slow] if number % every else [])
        for number, case in enumerate(cases)
    ]


def of_one(
    op: str, shape: tuple[int, ...], result: tuple[int, ...], attributes: Attributes, seed: int = 0
) -> Graph:
    """An operator that keeps the quantization of its only operand."""
    model = Model(seed)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    type = TensorType(result, model.dtype, model.of(x).quantization)
    return finished(model, model.emit(op, [x], type, attributes))


# --- transposed convolutions ---------------------------------------------------------------------


def transposed(
    image: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: PaddingScheme,
    channels: int,
    seed: int = 0,
) -> Graph:
    """A transposed convolution; even seeds are int8 per channel, odd ones uint8."""
    model = Model(seed)
    model.dtype = (I8, U8)[seed % 2]
    x = model.graph.add_input("x", model.type((1, *image), 0.05))
    size = [extent * step for extent, step in zip(image[:2], stride, strict=True)]
    if padding is VALID:
        size = [
            (extent - 1) * step + max(window, step)
            for extent, step, window in zip(image[:2], stride, kernel, strict=True)
        ]
    output = size[0], size[1]
    edges = transpose_conv_padding(padding, (image[0], image[1]), kernel, stride, output)
    taps = max(1, math.prod(kernel) * image[2] // math.prod(stride))
    w, about = model.weights((channels, *kernel, image[2]), 0, taps)
    type = model.type((1, *output, channels), model.unit(x) * about * 74 * math.sqrt(taps))
    attributes = TransposeConvAttributes(stride, edges, output, Activation.RELU)
    operands = [x, w, model.bias(channels, taps)]
    return finished(model, model.emit("transpose_conv", operands, type, attributes))


@pytest.mark.long
@pytest.mark.parametrize(
    ("image", "kernel", "stride", "padding", "channels"),
    [
        ((7, 9, 8), (3, 3), (2, 2), SAME, 16),
        ((7, 9, 8), (2, 2), (2, 2), SAME, 3),
        ((5, 4, 70), (4, 4), (2, 2), SAME, 70),
        ((5, 4, 3), (5, 3), (3, 2), VALID, 5),
        ((6, 5, 4), (3, 3), (1, 1), SAME, 9),
        ((4, 4, 4), (1, 2), (3, 4), SAME, 6),
        ((1, 1, 12), (4, 4), (4, 4), SAME, 8),
        ((3, 2, 5), (8, 8), (4, 4), VALID, 130),
    ],
)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_transposed_convolutions(
    image: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: PaddingScheme,
    channels: int,
    seed: int,
) -> None:
    assert_right(transposed(image, kernel, stride, padding, channels, seed))


@pytest.mark.parametrize(
    ("kernel", "stride", "cut"), list(product(range(1, 8), range(1, 5), range(3)))
)
def test_phases_have_the_taps_that_meet_elements(kernel: int, stride: int, cut: int) -> None:
    extent, before = 23, 40
    wanted = {
        (element * stride + tap - cut, tap, element)
        for tap in range(kernel)
        for element in range(-before, before)
        if 0 <= element * stride + tap - cut < extent
    }
    found = set()
    for phase in _phases(extent, kernel, stride, cut):
        begin, end = phase.window.numbers((0, extent))
        for number in range(begin, end):
            first = number * phase.window.stride - phase.window.before
            place = number * phase.window.phases + phase.window.phase
            found |= {(place, tap, first + index) for index, tap in enumerate(phase.taps)}
    assert found == wanted


def test_a_reach_of_phases_needs_what_its_windows_read() -> None:
    window = Window(3, before=2, phases=4, phase=3)
    assert window.numbers((0, 3)) == (0, 0)
    assert window.needs((0, 3)) == (0, 0)
    assert window.needs((3, 4)) == (-2, 1)
    assert window.needs((4, 12)) == (-1, 3)
    both = Together(parts=(window, Window(phases=4)))
    assert both.needs((4, 5)) == (1, 2)
    assert both.needs((4, 8)) == (-1, 2)


@pytest.mark.parametrize("rows", [0, 40])
@pytest.mark.parametrize("conservative", [False, True])
def test_weights_of_transposed_convolutions_may_come_from_the_host(
    rows: int, conservative: bool
) -> None:
    graph = transposed((5, 4, 40), (3, 3), (2, 2), SAME, 140)
    (package,) = link([lower(graph, Options(parameter_rows=rows, conservative=conservative))])
    assert differences(graph, package, 1) == ""


def test_transposed_convolutions_run_in_strips() -> None:
    model = Model(4)
    x = model.graph.add_input("x", model.type((1, 16, 16, 16), 0.05))
    w, about = model.weights((32, 4, 4, 16), 0, 64)
    type = model.type((1, 32, 32, 32), model.unit(x) * about * 74 * 8)
    edges = transpose_conv_padding(SAME, (16, 16), (4, 4), (2, 2), (32, 32))
    attributes = TransposeConvAttributes((2, 2), edges, (32, 32))
    wide = model.emit("transpose_conv", [x, w], type, attributes)
    w, about = model.weights((8, 3, 3, 32), 0, 288)
    type = model.type((1, 32, 32, 8), model.unit(wide) * about * 74 * 17)
    graph = finished(model, model.emit("conv_2d", [wide, w], type, ConvAttributes(padding=SAME)))
    verify(graph)
    # The image between both takes 2,048 bytes of every tile and more for its borders.
    package = program(graph, Options(narrow_bytes=5000))
    assert differences(graph, package, 1) == ""


# --- resizing ------------------------------------------------------------------------------------

RESIZES = [
    (30, 45), (7, 10), (10, 7), (6, 6), (1, 5), (5, 1), (4, 64), (5, 65), (9, 33), (16, 2), (3, 48),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("size", "sampling"), mostly_slow(product(RESIZES, Sampling), 4))
def test_bilinear_resizes(size: tuple[int, int], sampling: Sampling) -> None:
    before, after = size
    attributes = ResizeAttributes((after, 10), sampling)
    assert_right(of_one("resize_bilinear", (1, before, 6, 5), (1, after, 10, 5), attributes), (1,))


@pytest.mark.long
def test_bilinear_resizes_by_many_phases_take_strips_of_sums() -> None:
    size = 129, 145
    attributes = ResizeAttributes(size, Sampling.ALIGN_CORNERS)
    graph = of_one("resize_bilinear", (1, 9, 10, 40), (1, *size, 40), attributes)
    assert_right(graph, (1,))


@pytest.mark.long
@pytest.mark.parametrize("sampling", list(Sampling))
@pytest.mark.parametrize(("before", "after"), [*RESIZES, (33, 513), (2, 3)])
def test_pieces_give_every_result_its_neighbours(
    before: int, after: int, sampling: Sampling
) -> None:
    scaling = Scaling.of(before, after, sampling)
    inset = int(sampling is Sampling.ALIGN_CORNERS and after > 1)
    step = Fraction(before - inset, max(1, after - inset))
    start = (step - 1) / 2 if sampling is Sampling.HALF_PIXEL else Fraction(0)
    for begin, end in ((0, after), (after // 3, after), (after // 2, after // 2 + 1)):
        found = {}
        for piece in scaling.pieces((begin, end)):
            for period, inner in product(range(piece.periods), range(piece.phases)):
                place = piece.first + piece.stride * period + inner
                first, second = scaling.weights[piece.phase + inner]
                lower_ = piece.lower + piece.step * period
                share = Fraction(second, first + second) if piece.reach else Fraction(0)
                assert place not in found
                found[place] = lower_ + share
                low, high = scaling.needs((place, place + 1))
                assert low <= lower_ <= lower_ + piece.reach < max(high, lower_ + 1)
        assert sorted(found) == list(range(begin, end))
        most = Fraction(1, 2 * 255) if scaling.rounded else 0
        for place, have in found.items():
            want = min(max(start + place * step, Fraction(0)), Fraction(before - 1))
            assert abs(have - want) <= most


def test_interpolation_is_exact_and_ties_go_up() -> None:
    for before, after, sampling in (
        (9, 33, Sampling.ALIGN_CORNERS),
        (30, 45, Sampling.LEGACY),
        (7, 28, Sampling.HALF_PIXEL),
    ):
        graph = of_one(
            "resize_bilinear", (1, before, before, 8), (1, after, after, 8),
            ResizeAttributes((after, after), sampling), seed=2,
        )  # fmt: skip
        inputs = random_inputs(graph, 0)
        (found,) = evaluate_on_device(graph, inputs).values()
        offset = 128 if found.dtype == np.int8 else 0
        found, x = (array.astype(np.int64) + offset for array in (found, inputs["x"]))
        scaling = Scaling.of(before, after, sampling)
        matrix = np.zeros((after, before), np.int64)
        for piece in scaling.pieces((0, after)):
            for period, inner in product(range(piece.periods), range(piece.phases)):
                place = piece.first + piece.stride * period + inner
                for share, at in zip(
                    scaling.weights[piece.phase + inner], (0, piece.reach), strict=True
                ):
                    matrix[place, piece.lower + piece.step * period + at] += share
        sums = np.einsum("yh,nhwc,xw->nyxc", matrix, x, matrix)
        unit = scaling.unit**2
        np.testing.assert_array_equal(found, (2 * sums + unit) // (2 * unit))


@pytest.mark.long
def test_rounded_weights_differ_by_one_at_most() -> None:
    before, after = 9, 140
    sampling = Sampling.HALF_PIXEL
    assert Scaling.of(before, after, sampling).rounded
    graph = of_one(
        "resize_bilinear", (1, before, 7, 12), (1, after, 140, 12),
        ResizeAttributes((after, 140), sampling), seed=2,
    )  # fmt: skip
    assert_right(graph, (1,))
    inputs = random_inputs(graph, 0)
    (have,) = evaluate_on_device(graph, inputs).values()
    (want,) = evaluate(graph, inputs).values()
    gap = np.abs(have.astype(np.int64) - want)
    assert gap.max() <= 1
    assert np.count_nonzero(gap) < 0.1 * gap.size


@pytest.mark.long
@pytest.mark.parametrize("size", [(15, 9), (47, 31), (5, 64)])
def test_nearest_resizes(size: tuple[int, int]) -> None:
    for sampling in Sampling:
        graph = of_one(
            "resize_nearest_neighbor",
            (1, 13, 12, 6),
            (1, *size, 6),
            ResizeAttributes(size, sampling),
        )
        assert_right(graph, (1,))


# --- normalization -------------------------------------------------------------------------------


def normalized(shape: tuple[int, ...], dtype: DType, zero: int = 0) -> Graph:
    """A normalization of rows."""
    graph = Graph("l2")
    low = dtype.limits[0]
    x = graph.add_input("x", TensorType(shape, dtype, Quantization.per_tensor(0.03, low + zero)))
    middle = Quantization.per_tensor(1 / 128, low + 128)
    graph.outputs = [graph.emit("l2_normalization", [x], TensorType(shape, dtype, middle))]
    return graph


@pytest.mark.long
@pytest.mark.parametrize("dtype", [I8, U8])
@pytest.mark.parametrize(
    ("shape", "zero"),
    [
        ((1, 7, 6, 5), 128),
        ((1, 3, 4, 70), 0),
        ((1, 256), 120),
        ((1, 1), 3),
        ((9, 33), 140),
        ((1, 40, 70, 8), 128),
    ],
)
def test_normalization(shape: tuple[int, ...], zero: int, dtype: DType) -> None:
    assert_right(normalized(shape, dtype, zero))


@pytest.mark.parametrize("spread", [1, 6, 40, 127])
def test_normalization_differs_from_tflite_rarely_and_by_one(spread: int) -> None:
    rng = np.random.default_rng(spread)
    off = count = 0
    for channels in (2, 3, 8, 64, 300):
        graph = normalized((400, channels), I8, 128)
        x = rng.integers(-spread, spread + 1, (400, channels)).astype(np.int8)
        (have,) = evaluate_on_device(graph, {"x": x}).values()
        (want,) = evaluate(graph, {"x": x}, Arithmetic.TFLITE).values()
        gap = np.abs(have.astype(np.int64) - want)
        assert gap.max() <= 1
        off, count = off + int(gap.sum()), count + gap.size
    assert off <= 0.015 * count


def test_zeros_stay_zeros() -> None:
    graph = normalized((2, 9), U8, 7)
    x = np.full((2, 9), 7, np.uint8)
    (have,) = evaluate_on_device(graph, {"x": x}).values()
    assert (have == 128).all()


def test_the_table_holds_reciprocal_square_roots() -> None:
    x = np.linspace(1, 4, 20_001).astype(np.float32)[:-1]
    segment = np.searchsorted(np.array(RECIPROCAL_ROOT.breakpoints, np.float32), x, side="right")
    factors = np.array(RECIPROCAL_ROOT.coefficients, np.float32)[segment]
    value: Array = factors[:, -1]
    for degree in range(3, -1, -1):
        value = value * x + factors[:, degree]
    assert np.abs(value - ONE / np.sqrt(x.astype(np.float64))).max() < 0.3


def bordered_maximum(kernel: int, edges: tuple[int, int], *, read_twice: bool = False) -> Graph:
    """A maximum of an image of 17x14 pixels with a border that loses every comparison."""
    model = Model(kernel)
    x = model.graph.add_input("x", model.type((1, 17, 14, 12), 0.05))
    before, after = edges
    rows, columns = (extent + before + after for extent in (17, 14))
    type = TensorType((1, rows, columns, 12), model.dtype, model.of(x).quantization)
    pad = PadAttributes((0, before, before, 0), (0, after, after, 0), LOWEST)
    padded = model.emit("pad", [x], type, pad)
    shape = (1, (rows - kernel) // 2 + 1, (columns - kernel) // 2 + 1, 12)
    pool = PoolAttributes((kernel, kernel), (2, 2), VALID)
    pooled = model.emit("max_pool_2d", [padded], replace(type, shape=shape), pool)
    graph = finished(model, pooled)
    if read_twice:
        graph.outputs.append(padded)
    return graph


@pytest.mark.parametrize(
    ("kernel", "edges", "read_twice", "layers"),
    [
        (3, (1, 1), False, ["max_pool_2d"]),
        (5, (2, 4), False, ["max_pool_2d"]),
        (2, (2, 2), False, ["pad", "max_pool_2d"]),
        (3, (1, 1), True, ["pad", "max_pool_2d"]),
    ],
)
def test_maxima_reach_over_borders_that_lose(
    kernel: int, edges: tuple[int, int], read_twice: bool, layers: list[str]
) -> None:
    graph = bordered_maximum(kernel, edges, read_twice=read_twice)
    legalizer = Legalizer(graph)
    legalizer.run()
    assert list(dict.fromkeys(layer.origin for layer in legalizer.layers)) == layers
    assert_right(graph, (1,))


def test_normalization_runs_in_strips() -> None:
    model = Model(8)
    x = model.graph.add_input("x", model.type((1, 24, 24, 8), 0.05))
    middle = sum(model.dtype.limits) + 1 >> 1
    type = TensorType((1, 48, 48, 8), model.dtype, model.of(x).quantization)
    wide = model.emit("resize_bilinear", [x], type, ResizeAttributes((48, 48)))
    type = TensorType(type.shape, model.dtype, Quantization.per_tensor(1 / 128, middle))
    rows = model.emit("l2_normalization", [wide], type)
    small = TensorType((1, 12, 12, 8), model.dtype, type.quantization)
    pool = PoolAttributes((4, 4), (4, 4), VALID)
    graph = finished(model, model.emit("max_pool_2d", [rows], small, pool))
    verify(graph)
    # Both images between take 1,152 bytes of every tile.
    package = program(graph, Options(narrow_bytes=5000))
    assert differences(graph, package, 1) == ""


# --- elements at other places --------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((1, 7, 9, 5), (0, 3, 1, 2)),
        ((1, 7, 9, 5), (0, 2, 1, 3)),
        ((1, 20, 6, 17), (0, 3, 2, 1)),
        ((1, 7, 30), (0, 2, 1)),
        ((13, 70), (1, 0)),
        ((6, 5, 4), (2, 0, 1)),
        ((1, 1, 30, 8), (0, 2, 1, 3)),
        ((1, 1, 1, 90), (0, 3, 1, 2)),
        ((1, 5, 1, 6), (1, 0, 3, 2)),
    ],
)
def test_transposition(shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    result = tuple(shape[axis] for axis in perm)
    graph = of_one("transpose", shape, result, TransposeAttributes(perm), 3)
    assert_right(graph)


PLANES = [(1, 3, 9, 12), (1, 2, 5, 4), (1, 16, 4, 8), (1, 3, 30, 1000), (1, 3, 7, 10)]
"""Shapes of inputs with channels first; the last one has rows that are no whole words."""


def of_planes(shape: tuple[int, ...]) -> Graph:
    perm = (0, 2, 3, 1)
    result = tuple(shape[axis] for axis in perm)
    return of_one("transpose", shape, result, TransposeAttributes(perm), 3)


@pytest.mark.parametrize("shape", PLANES)
def test_planes_become_an_image(shape: tuple[int, ...]) -> None:
    assert_right(of_planes(shape))


@pytest.mark.parametrize("shape", PLANES[:-1])
def test_planes_arrive_one_by_one(shape: tuple[int, ...]) -> None:
    layers = legalized(of_planes(shape)).layers
    found = [layer for layer in layers if isinstance(layer, Receive)]
    assert {layer.input for layer in found} == {"x"}
    assert [layer.top for layer in found] == [plane * shape[2] for plane in range(shape[1])]
    # Words are joined by one layer, which moves nothing between tiles; then they are taken apart.
    joined, apart = [layer for layer in layers if layer.name.startswith("transpose/")]
    assert set(joined.reads) == {layer.writes for layer in found}
    assert isinstance(apart, TransposedConvolution)


def test_planes_of_an_input_that_others_read_stay_one() -> None:
    graph = of_planes(PLANES[0])
    type = graph.type("x")
    graph.outputs.append(graph.emit("quantize", ["x"], type))
    layers = legalized(graph).layers
    assert len([layer for layer in layers if isinstance(layer, Receive)]) == 1
    assert_right(graph)


def test_planes_are_put_together_in_strips() -> None:
    model = Model(4)
    x = model.graph.add_input("x", model.type((1, 3, 64, 64), 0.05))
    quantization = model.of(x).quantization
    image = TensorType((1, 64, 64, 3), model.dtype, quantization)
    image_of = model.emit("transpose", [x], image, TransposeAttributes((0, 2, 3, 1)))
    small = TensorType((1, 16, 16, 3), model.dtype, quantization)
    pool = PoolAttributes((4, 4), (4, 4), VALID)
    graph = finished(model, model.emit("max_pool_2d", [image_of], small, pool))
    verify(graph)
    # The image takes 1,024 bytes of every tile, and its planes 768; a strip of both fits.
    package = program(graph, Options(narrow_bytes=2500))
    assert differences(graph, package, 1) == ""
    assert findings(package) == ()


@pytest.mark.parametrize(
    ("shape", "begin", "size", "stride"),
    [
        ((1, 300), (0, 3), (1, 60), (1, 4)),
        ((4, 70), (1, 5), (3, 20), (1, 1)),
        ((1, 50), (0, 49), (1, 50), (1, -1)),
        ((6, 5, 9), (0, 4, 2), (3, 3, 2), (2, -1, 3)),
        ((1, 5, 6, 20), (0, 1, 0, 1), (1, 4, 6, 7), (1, 1, 1, 2)),
    ],
)
def test_single_elements(
    shape: tuple[int, ...], begin: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    graph = of_one("strided_slice", shape, size, StridedSliceAttributes(begin, size, stride))
    assert_right(graph)


# --- repetition ----------------------------------------------------------------------------------

IMAGES = ((1, 5, 6, 7), (1, 5, 6, 1), (1, 1, 6, 7), (5, 1, 7), (6, 1), (7,), (1, 1, 1, 1), ())
VECTORS = ((3, 70), (1, 70), (70,), (3, 1), (1,), (1, 3, 70))


@pytest.mark.long
@pytest.mark.parametrize(
    ("one", "other", "constant"),
    mostly_slow(
        (
            (one, other, constant)
            for group in (IMAGES, VECTORS)
            for one, other, constant in product(group, group[:4], (False, True))
        ),
        5,
    ),
)
def test_operands_are_repeated(
    one: tuple[int, ...], other: tuple[int, ...], constant: bool
) -> None:
    seed = sum(one) * 31 + sum(other)
    op = ("add", "mul", "maximum", "sub")[seed % 4]
    model = Model(seed)
    x = model.graph.add_input("x", model.type(one, 0.05))
    if constant:
        y = model.constant(other, 0.05)
    else:
        y = model.graph.add_input("y", model.type(other, 0.05))
    about = 0.05 * 0.05 * 148 if op == "mul" else 0.1
    attributes = NO_ATTRIBUTES if op == "maximum" else ActivationAttributes()
    order = [x, y] if seed % 3 else [y, x]
    type = model.type(np.broadcast_shapes(one, other), about)
    assert_right(finished(model, model.emit(op, order, type, attributes)), (1,))


@pytest.mark.long
@pytest.mark.parametrize("shape", [(1, 4, 2541), (1, 1, 4, 2541), (2, 3000)])
@pytest.mark.parametrize("constant", [True, False])
def test_products_of_many_channels_are_those_of_vectors(
    shape: tuple[int, ...], constant: bool
) -> None:
    model = Model(3)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    other = shape[1:] if constant else shape
    y = (
        model.constant(other, 0.05)
        if constant
        else model.graph.add_input("y", model.type(other, 0.05))
    )
    type = model.type(shape, 0.05 * 0.05 * 148)
    assert_right(finished(model, model.emit("mul", [x, y], type, ActivationAttributes())), (1,))


@pytest.mark.long
@pytest.mark.parametrize("shape", [(1, 1, 1, 2100), (1, 1, 3, 2100), (1, 3, 3, 1), (2100,)])
@pytest.mark.parametrize("constant", [True, False])
def test_products_of_many_channels_with_a_pixel_are_taken_in_slices(
    shape: tuple[int, ...], constant: bool
) -> None:
    model = Model(3)
    x = model.graph.add_input("x", model.type((1, 3, 3, 2100), 0.05))
    y = (
        model.constant(shape, 0.05)
        if constant
        else model.graph.add_input("y", model.type(shape, 0.05))
    )
    type = model.type((1, 3, 3, 2100), 0.05 * 0.05 * 148)
    assert_right(finished(model, model.emit("mul", [x, y], type, ActivationAttributes())), (1,))


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "channels"), [((4, 8), 3), ((40, 30), 70), ((1, 9, 33), 8), ((1, 4, 5, 12), 20)]
)
def test_rows_are_multiplied(shape: tuple[int, ...], channels: int) -> None:
    depth = shape[-1]
    for seed in (0, 1):
        model = Model(seed)
        x = model.graph.add_input("x", model.type(shape, 0.05))
        w, about = model.weights((channels, depth), 0, depth)
        unit = model.unit(x) * 74 * math.sqrt(depth)
        type = model.type((*shape[:-1], channels), unit * about)
        attributes = FullyConnectedAttributes(Activation.RELU6, len(shape) > 2)
        operands = [x, w, model.bias(channels, depth)]
        assert_right(
            finished(model, model.emit("fully_connected", operands, type, attributes)), (1,)
        )
        model = Model(seed)
        x = model.graph.add_input("x", model.type(shape, 0.05))
        w = model.constant((channels, depth) if seed else (1, depth, channels), 1 / 900)
        type = model.type(
            (1,) * (seed == 0 and len(shape) < 3) + (*shape[:-1], channels), unit / 900
        )
        matmul = model.emit("batch_matmul", [x, w], type, BatchMatMulAttributes(False, bool(seed)))
        assert_right(finished(model, matmul), (1,))


@pytest.mark.parametrize(
    ("shape", "channels"), [((24, 5), 3), ((2, 9, 7), 8), ((1, 4, 1), 6), ((1, 2, 3, 10, 12), 20)]
)
@pytest.mark.parametrize("adj_y", [False, True])
def test_columns_are_multiplied(shape: tuple[int, ...], channels: int, adj_y: bool) -> None:
    """The transposed matrices of an operand times one that is known."""
    *counts, depth, rows = shape
    model = Model(3)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    w = model.constant((channels, depth) if adj_y else (depth, channels), 1 / 900)
    type = model.type((*counts, rows, channels), model.unit(x) * math.sqrt(depth) / 12)
    attributes = BatchMatMulAttributes(True, adj_y)
    assert_right(finished(model, model.emit("batch_matmul", [x, w], type, attributes)), (1,))


def test_a_filter_of_a_whole_image_has_one_row() -> None:
    model = Model(6)
    x = model.graph.add_input("x", model.type((1, 9, 4, 1), 0.05))
    w, about = model.weights((1, 9, 4, 5), 3, 36)
    type = model.type((1, 1, 1, 5), model.unit(x) * about * 74 * 6)
    conv = model.emit("depthwise_conv_2d", [x, w, None], type, ConvAttributes())
    assert_right(finished(model, conv))


def test_positions_are_spread_over_the_tiles() -> None:
    for count in range(1, 200):
        rows, columns = grid(count)
        assert rows * columns == count
    assert grid(16) == (4, 4)
    assert grid(7) == (1, 7)
    assert grid(32) == (4, 8)


# --- refusals ------------------------------------------------------------------------------------


def _of_two_variables(rows: int) -> Graph:
    model = Model(1)
    x = model.graph.add_input("x", model.type((4, rows), 0.05))
    y = model.graph.add_input("y", model.type((rows, 4), 0.05))
    type = model.type((4, 4), 0.5)
    return finished(model, model.emit("batch_matmul", [x, y], type, BatchMatMulAttributes()))


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (
            of_one(
                "transpose", (1, 230, 230, 8), (1, 8, 230, 230), TransposeAttributes((0, 3, 1, 2))
            ),
            "room for",
        ),
        (_of_two_variables(2049), "adds 2049 products, 2048 are possible"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped_is_refused_with_a_reason(graph: Graph, reason: str) -> None:
    verify(graph)
    with pytest.raises(UnsupportedError, match=reason):
        lower(graph)


def test_shuffled_channels_are_a_convolution() -> None:
    model = Model(12)
    x = model.graph.add_input("x", model.type((1, 9, 10, 24), 0.05))
    quantization = model.of(x).quantization

    def reshaped(name: str, shape: tuple[int, ...]) -> str:
        return model.emit(
            "reshape",
            [name],
            TensorType(shape, model.dtype, quantization),
            ReshapeAttributes(shape),
        )

    parts = reshaped(x, (1, 9, 10, 2, 12))
    swapped = TensorType((1, 9, 10, 12, 2), model.dtype, quantization)
    turned = model.emit("transpose", [parts], swapped, TransposeAttributes((0, 1, 2, 4, 3)))
    graph = finished(model, reshaped(turned, (1, 9, 10, 24)))
    legalizer = Legalizer(graph)
    legalizer.run()
    assert [layer.origin for layer in legalizer.layers] == [turned]
    assert_right(graph)
