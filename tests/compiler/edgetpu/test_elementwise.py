"""Elementwise and spatial operators on the simulated Edge TPU: bytes equal to device arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from tests.compiler.edgetpu_models import ORDERS, differing_bytes, program
from tests.support import corpus

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node
from fitzroy.compiler.ops import elementwise as e
from fitzroy.compiler.ops import shape as s
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme, output_extent
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.lowerings.functions import codes, computed, fitted
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Run, runs
from fitzroy.hw_models.edgetpu.verifier import record
from fitzroy.hw_models.edgetpu.verifier import verify as check_order
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.numerics import Sampling
from fitzroy.linker.packages.darwinn import link

I8, U8 = DType.INT8, DType.UINT8
SAME, VALID = PaddingScheme.SAME, PaddingScheme.VALID


def differences(graph: Graph, seeds: Sequence[int | None] = ORDERS) -> int:
    """Bytes of all outputs that the chip gives otherwise than the reference."""
    verify(graph)
    package = program(graph)
    return differing_bytes(graph, package, seeds)


def tensor(
    shape: Sequence[int], scale: float = 0.05, zero: int = 135, dtype: DType = U8
) -> TensorType:
    """A quantized type; the zero point is that of uint8."""
    quantization = Quantization.per_tensor(float(np.float32(scale)), zero - 128 * (dtype is I8))
    return TensorType(tuple(shape), dtype, quantization)


Operand = TensorType | tuple[Array, Quantization]
"""An input, or a constant."""


def single(
    op: str,
    operands: Sequence[Operand],
    result: TensorType,
    attributes: Attributes = NO_ATTRIBUTES,
) -> Graph:
    """A graph of one node."""
    graph = Graph(op)
    names = [
        graph.add_input(f"x{index}", item)
        if isinstance(item, TensorType)
        else graph.add_constant(f"c{index}", *item)
        for index, item in enumerate(operands)
    ]
    graph.outputs = [graph.emit(op, names, result, attributes, stem="y")]
    return graph


def pool(
    op: str,
    x: TensorType,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: PaddingScheme | tuple[int, int, int, int],
    activation: Activation = Activation.NONE,
    after: Quantization | None = None,
) -> Graph:
    extent = output_extent(padding, (x.shape[1], x.shape[2]), kernel, stride)
    result = TensorType((1, *extent, x.shape[3]), x.dtype, after or x.quantization)
    return single(op, [x], result, PoolAttributes(kernel, stride, padding, activation))


# --- operators -----------------------------------------------------------------------------------

IMAGE = (1, 9, 7, 8)
NONE = e.ActivationAttributes()


def _binary() -> Iterator[tuple[str, Graph]]:
    rng = np.random.default_rng(0)
    for op, scale in (("add", 0.1), ("sub", 0.1), ("mul", 0.02)):
        for dtype in (U8, I8):
            x, y = tensor(IMAGE, 0.05, 130, dtype), tensor(IMAGE, 0.031, 120, dtype)
            out = tensor(IMAGE, scale, 125, dtype)
            yield f"{op}-{dtype.value}", single(op, [x, y], out, NONE)
        same = [tensor((1, 5, 6, 3))] * 2
        relu = e.ActivationAttributes(Activation.RELU)
        yield f"{op}-equal-scales", single(op, same, tensor((1, 5, 6, 3), scale, 125), relu)
        for size in (3, 300, 1100):
            vectors = [tensor((1, size)), tensor((1, size), 0.03)]
            yield f"{op}-vector-{size}", single(op, vectors, tensor((1, size), scale, 9), NONE)
        x, y, out = tensor(IMAGE), tensor((1, 1, 1, 8), 0.03), tensor(IMAGE, scale, 125)
        yield f"{op}-one-pixel", single(op, [x, y], out, NONE)
        yield f"{op}-one-pixel-first", single(op, [y, x], out, NONE)
        column = tensor((1, 9, 1, 8), 0.03)
        yield f"{op}-one-column", single(op, [x, column], out, NONE)
        graph = Graph(op)
        name = graph.add_input("x", tensor(IMAGE))
        graph.outputs = [graph.emit(op, [name, name], out, NONE, stem="y")]
        yield f"{op}-itself", graph
        for dtype in (U8, I8):
            for shape in ((), (8,), IMAGE):
                data = rng.integers(*dtype.limits, shape).astype(dtype.numpy)
                item = (np.asarray(data), Quantization.per_tensor(0.03, dtype.limits[0] + 100))
                out = tensor(IMAGE, scale, 125, dtype)
                pair: list[Operand] = [tensor(IMAGE, dtype=dtype), item]
                name = f"{op}-constant{list(shape)}-{dtype.value}"
                yield name, single(op, pair, out, NONE)
                yield name + "-first", single(op, pair[::-1], out, NONE)
    for op in ("maximum", "minimum"):
        for dtype in (U8, I8):
            x, y = tensor(IMAGE, 0.05, 130, dtype), tensor(IMAGE, 0.031, 120, dtype)
            yield f"{op}-{dtype.value}", single(op, [x, x], x)
            yield f"{op}-requantizing-{dtype.value}", single(op, [x, y], x)
    for dtype in (U8, I8):
        slopes = rng.integers(0, 100, (1, 1, 8)).astype(dtype.numpy)
        item = (slopes, Quantization.per_tensor(0.01, 3))
        x, out = tensor(IMAGE, dtype=dtype), tensor(IMAGE, 0.053, 100, dtype)
        yield f"prelu-{dtype.value}", single("prelu", [x, item], out)
    far = [tensor(IMAGE, 0.5), tensor(IMAGE, 0.001, 40)]
    yield "add-one-weight-in-a-byte", single("add", far, tensor(IMAGE, 0.4), NONE)
    yield "sub-one-weight-in-a-byte", single("sub", far[::-1], tensor(IMAGE, 0.4), NONE)
    tiny = [tensor(IMAGE, 0.0235, 0), tensor(IMAGE, 1 / 256, 0)]
    yield "mul-saturating", single("mul", tiny, tensor(IMAGE, 2.97e-35, 0), NONE)
    wide = [tensor((1, 70, 66, 32)), tensor((1, 70, 66, 32), 0.03)]
    yield "mul-strips", single("mul", wide, tensor((1, 70, 66, 32), 0.02), NONE)
    yield (
        "mul-large-pixels",
        single("mul", [tensor((1, 3, 4, 800))] * 2, tensor((1, 3, 4, 800), 0.02), NONE),
    )


def _unary() -> Iterator[tuple[str, Graph]]:
    for dtype in (U8, I8):
        for shape in (IMAGE, (1, 521), (1, 2100)):
            x = tensor(shape, 0.06, 140, dtype)
            label = f"{dtype.value}-{shape[-1]}"
            yield f"quantize-{label}", single("quantize", [x], tensor(shape, 0.031, 120, dtype))
            clamp = e.ClampAttributes(0.0, 6.0)
            yield f"clamp-{label}", single("clamp", [x], x, clamp)
            yield f"sigmoid-{label}", single("sigmoid", [x], tensor(shape, 1 / 256, 0, dtype))
            yield f"tanh-{label}", single("tanh", [x], tensor(shape, 1 / 128, 128, dtype))
            yield f"hardswish-{label}", single("hardswish", [x], tensor(shape, 0.03, 50, dtype))
            leaky = e.LeakyReluAttributes(0.1)
            out = tensor(shape, 0.03, 50, dtype)
            yield f"leaky_relu-{label}", single("leaky_relu", [x], out, leaky)
    other = single("quantize", [tensor(IMAGE, dtype=U8)], tensor(IMAGE, dtype=I8))
    yield "quantize-to-int8", other


def _shapes() -> Iterator[tuple[str, Graph]]:
    for counts in ((4, 8), (3, 1, 2), (1, 1), (2, 2, 4), (3, 3, 3, 3), (4, 1, 1, 1, 1, 4)):
        out = tensor((1, 6, 5, sum(counts)))
        last = s.ConcatenationAttributes(3)
        parts = [tensor((1, 6, 5, n)) for n in counts]
        yield f"concatenation-{counts}", single("concatenation", parts, out, last)
        parts = [tensor((1, 6, 5, n), 0.05 + 0.01 * n) for n in counts]
        yield f"concatenation-requantizing-{counts}", single("concatenation", parts, out, last)
    parts = [tensor((1, n, 5, 3)) for n in (6, 2, 9)]
    rows = s.ConcatenationAttributes(1)
    yield "concatenation-rows", single("concatenation", parts, tensor((1, 17, 5, 3)), rows)
    parts = [tensor((1, n)) for n in (3, 70, 1, 64)]
    yield "concatenation-vectors", single("concatenation", parts, tensor((1, 138)), rows)
    for channels, value, before, after in (
        (4, 0.0, (0, 2, 1, 0), (0, 4, 1, 0)),
        (4, 1.0, (0, 2, 1, 4), (0, 4, 1, 4)),
        (4, -2.0, (0, 0, 0, 0), (0, 1, 30, 0)),
        (6, 0.0, (0, 0, 0, 0), (0, 0, 0, 6)),
        (6, 1.5, (0, 0, 0, 1), (0, 0, 0, 1)),
        (6, -2.0, (0, 1, 0, 3), (0, 0, 2, 0)),
    ):
        image = (1, 5, 7, channels)
        shape = [sum(axis) for axis in zip(before, image, after, strict=True)]
        pad = s.PadAttributes(before, after, value)
        yield f"pad-{channels}-{before}", single("pad", [tensor(image)], tensor(shape), pad)
    for begin, size, stride in (
        ((0, 1, 2, 0), (1, 3, 3, 5), (1, 1, 1, 1)),
        ((0, 1, 0, 3), (1, 4, 3, 5), (1, 2, 2, 1)),
        ((0, 8, 6, 2), (1, 5, 7, 6), (1, -2, -1, 1)),
        ((0, 0, 0, 7), (1, 9, 7, 2), (1, 1, 1, 1)),
    ):
        a = s.StridedSliceAttributes(begin, size, stride)
        yield f"slice-{begin}", single("strided_slice", [tensor((1, 9, 7, 12))], tensor(size), a)
    a = s.StridedSliceAttributes((0, 5), (1, 123), (1, 1))
    yield "slice-vector", single("strided_slice", [tensor((1, 300))], tensor((1, 123)), a)
    for channels in (1, 3, 4):
        block = s.BlockAttributes(2)
        near, deep = tensor((1, 8, 6, channels)), tensor((1, 4, 3, 4 * channels))
        yield f"space_to_depth-{channels}", single("space_to_depth", [near], deep, block)
        yield f"depth_to_space-{channels}", single("depth_to_space", [deep], near, block)


def _resizes() -> Iterator[tuple[str, Graph]]:
    for sampling in Sampling:
        for size in ((10, 18), (7, 4)):
            out, a2 = tensor((1, *size, 3)), ResizeAttributes(size, sampling)
            name = f"nearest-{sampling.value}-{size}"
            yield name, single("resize_nearest_neighbor", [tensor((1, 5, 6, 3))], out, a2)
        inset = int(sampling is Sampling.ALIGN_CORNERS)
        for height, width, down, across in ((5, 6, 2, 2), (4, 7, 4, 2), (3, 3, 8, 1), (1, 1, 9, 7)):
            size = (
                height if down == 1 else (height - inset) * down + inset,
                width if across == 1 else (width - inset) * across + inset,
            )
            if (height, width) == (1, 1):
                size = (down, across)
            out, a2 = tensor((1, *size, 4)), ResizeAttributes(size, sampling)
            name = f"bilinear-{sampling.value}-{height}-{size}"
            yield name, single("resize_bilinear", [tensor((1, height, width, 4))], out, a2)


def _pools() -> Iterator[tuple[str, Graph]]:
    for op in ("average_pool_2d", "max_pool_2d"):
        for dtype in (U8, I8):
            for (height, width, channels), kernel, stride, padding in (
                ((9, 7, 4), (3, 3), (1, 1), SAME),
                ((9, 7, 3), (2, 2), (2, 2), VALID),
                ((20, 23, 8), (3, 5), (2, 2), SAME),
                ((12, 12, 68), (3, 3), (1, 2), VALID),
                ((13, 13, 132), (3, 3), (2, 2), SAME),
                ((64, 64, 1), (21, 21), (21, 21), VALID),
                ((6, 6, 4), (1, 1), (2, 2), VALID),
                ((9, 9, 4), (3, 3), (2, 2), (1, 1, 0, 2)),
            ):
                x = tensor((1, height, width, channels), 0.05, 130, dtype)
                name = f"{op}-{height}x{width}x{channels}-{kernel}-{dtype.value}"
                yield name, pool(op, x, kernel, stride, padding)
        x = tensor((1, 9, 9, 8), 0.05, 130)
        yield f"{op}-relu6", pool(op, x, (3, 3), (2, 2), SAME, Activation.RELU6)
        after = Quantization.per_tensor(0.04, 120)
        yield f"{op}-requantizing", pool(op, x, (3, 3), (2, 2), SAME, after=after)
    large = tensor((1, 96, 200, 8), 0.05, 130)
    yield "max_pool_2d-strips", pool("max_pool_2d", large, (3, 3), (1, 1), SAME)


GRAPHS = dict([*_binary(), *_unary(), *_shapes(), *_resizes(), *_pools()])


@pytest.mark.long
@pytest.mark.parametrize("name", GRAPHS)
def test_operators_give_the_bytes_of_device_arithmetic(name: str) -> None:
    assert differences(GRAPHS[name]) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "add-uint8", "mul-uint8", "mul-strips", "mul-constant[8]-int8", "prelu-int8",
        "concatenation-(1, 1)", "max_pool_2d-strips", "average_pool_2d-9x7x4-(3, 3)-int8",
        "bilinear-half_pixel-5-(10, 12)", "pad-4-(0, 2, 1, 4)", "tanh-int8-521", "minimum-int8",
    ],
)  # fmt: skip
def test_programs_order_all_accesses(name: str) -> None:
    (package,) = link([lower(GRAPHS[name])])
    streams = [stream.bitstream for stream in package.main.instruction_bitstreams or []]
    chunks = [disassemble(stream.tobytes()) for stream in streams if stream is not None]
    assert chunks
    assert check_order(record(chunks), chunks) == ()


@pytest.mark.parametrize(
    ("shape", "axis", "sizes"),
    [
        ((1, 8, 8, 6), 3, (1, 1, 1, 1, 1, 1)),
        ((1, 8, 7, 12), 3, (5, 3, 4)),
        ((1, 9, 8, 4), 1, (2, 7)),
        ((1, 300), 1, (100, 137, 63)),
        ((1, 8, 8, 8), 0, (1,)),
    ],
)
def test_splits(shape: tuple[int, ...], axis: int, sizes: tuple[int, ...]) -> None:
    graph = Graph("split")
    # Images come in with whole words.
    x = graph.add_input("x", tensor(shape if shape[-1] != 6 else (1, 8, 8, 8)))
    if shape[-1] == 6:
        a = s.StridedSliceAttributes((0, 0, 0, 1), shape, (1, 1, 1, 1))
        x = graph.emit("strided_slice", [x], tensor(shape), a)
    types = [tensor([*shape[:axis], size, *shape[axis + 1 :]]) for size in sizes]
    outputs = tuple(f"y{index}" for index in range(len(sizes)))
    graph.add_node(Node("split", "split", (x,), outputs, s.SplitAttributes(axis, sizes)), types)
    graph.outputs = list(outputs)
    assert differences(graph) == 0


def test_squares_and_doubles_take_one_step_per_word() -> None:
    for op in ("add", "mul"):
        (layer,) = _layers(GRAPHS[f"{op}-itself"])
        assert layer == "Pointwise"


def test_conversions_that_keep_bytes_make_no_layer() -> None:
    assert _layers(GRAPHS["quantize-to-int8"]) == []


def _layers(graph: Graph) -> list[str]:
    from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer

    legalizer = Legalizer(graph)
    legalizer.run()
    return [type(layer).__name__ for layer in legalizer.layers]


# --- paddings ------------------------------------------------------------------------------------


def _padded(op: str, value: float) -> Graph:
    rng = np.random.default_rng(3)
    graph = Graph("padded")
    x = graph.add_input("x", tensor((1, 7, 9, 4)))
    a = s.PadAttributes((0, 1, 2, 0), (0, 2, 1, 0), value)
    padded = graph.emit("pad", [x], tensor((1, 10, 12, 4)), a)
    quantization = Quantization.per_tensor(0.01, 120)
    shape = (8, 3, 3, 4) if op == "conv_2d" else (1, 3, 3, 4)
    w = graph.add_constant("w", rng.integers(0, 256, shape).astype(np.uint8), quantization)
    result = tensor((1, 4, 5, 8 if op == "conv_2d" else 4), 0.1)
    graph.outputs = [
        graph.emit(op, [padded, w, None], result, ConvAttributes((2, 2), (1, 1), VALID))
    ]
    return graph


@pytest.mark.parametrize("op", ["conv_2d", "depthwise_conv_2d"])
def test_paddings_with_zero_fold_into_windows(op: str) -> None:
    graph = _padded(op, 0.0)
    assert "Assembly" not in _layers(graph)
    assert differences(graph) == 0


@pytest.mark.parametrize("op", ["conv_2d", "depthwise_conv_2d"])
def test_other_paddings_are_copies(op: str) -> None:
    graph = _padded(op, 1.0)
    assert _layers(graph)[0] == "Assembly"
    assert differences(graph) == 0


def test_a_padding_that_is_also_an_output_is_a_copy() -> None:
    graph = _padded("conv_2d", 0.0)
    graph.outputs = [*graph.outputs, graph.nodes()[0].outputs[0]]
    assert _layers(graph)[0] == "Assembly"
    assert differences(graph) == 0


# --- tables --------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Attributes] = {
    "sigmoid": NO_ATTRIBUTES,
    "tanh": NO_ATTRIBUTES,
    "hardswish": NO_ATTRIBUTES,
    "leaky_relu": e.LeakyReluAttributes(0.2),
    "elu": e.EluAttributes(1.0),
    "gelu": e.GeluAttributes(False),
    "exp": NO_ATTRIBUTES,
    "square": NO_ATTRIBUTES,
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_tables_give_every_code(op: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(4):
        zero, after = int(rng.integers(90, 160)), int(rng.integers(0, 160))
        x = tensor((256,), rng.uniform(0.01, 0.1), zero)
        out = tensor((256,), rng.uniform(0.004, 0.05), after)
        graph = single(op, [x], out, FUNCTIONS[op])
        wanted = codes(Call.of(graph, graph.nodes()[0]))
        fit = fitted(wanted, zero, after)
        assert fit is not None
        assert (computed(fit) == wanted).all()


@pytest.mark.parametrize("op", ["rsqrt", "sqrt", "exp", "log"])
def test_steep_functions_have_tables(op: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(24):
        scale = float(np.exp(rng.uniform(-6, 0)))
        # Results of rsqrt reach the largest code at an argument of a few steps.
        largest = scale * rng.uniform(1, 40)
        after = 1 / np.sqrt(largest) / 255 if op == "rsqrt" else np.exp(rng.uniform(-6, -2))
        graph = single(op, [tensor((256,), scale, 0)], tensor((256,), float(after), 0))
        wanted = codes(Call.of(graph, graph.nodes()[0]))
        fit = fitted(wanted, 0, 0)
        assert fit is not None
        assert (computed(fit) == wanted).all()


def test_codes_without_order_have_no_table() -> None:
    assert fitted(np.random.default_rng(0).integers(0, 256, 256), 128, 128) is None


def test_functions_without_a_table_are_refused() -> None:
    waves = single("sin", [tensor((1, 64), 1.0, 128)], tensor((1, 64), 1 / 128, 128))
    with pytest.raises(UnsupportedError, match="has no table"):
        lower(waves)


# --- positions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_runs_cover_every_position_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sources = [int(i * rng.uniform(0.2, 3)) for i in range(int(rng.integers(1, 40)))]
    found: dict[int, int] = {}
    for run in runs(sources):
        for index in range(run.count):
            target = run.target + run.step * index
            assert target not in found
            found[target] = run.source + run.stride * index
    assert found == dict(enumerate(sources))


def test_runs_say_which_of_their_positions_lie_in_an_interval() -> None:
    run = Run(5, target=3, step=2)
    for begin in range(15):
        for end in range(begin, 15):
            inside = [k for k in range(5) if begin <= 3 + 2 * k < end]
            assert list(range(*run.inside((begin, end)))) == inside


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (
            single(
                "pad",
                [tensor((1, 3, 3, 4))],
                tensor((2, 3, 3, 4)),
                s.PadAttributes((0, 0, 0, 0), (1, 0, 0, 0)),
            ),
            "adds images",
        ),
    ],
)
def test_what_cannot_be_mapped_is_refused_with_a_reason(graph: Graph, reason: str) -> None:
    verify(graph)
    with pytest.raises(UnsupportedError, match=reason):
        lower(graph)


# --- random graphs -------------------------------------------------------------------------------


def random_graph(seed: int, nodes: int = 5) -> Graph:
    """A graph of one image with branches; every value is read or returned."""
    rng = np.random.default_rng(seed)
    dtype = (U8, I8)[int(rng.integers(2))]
    graph = Graph(f"random-{seed}")
    shape = (1, int(rng.integers(3, 13)), int(rng.integers(3, 13)), int(rng.choice([1, 3, 4, 8])))
    values = [graph.add_input("x", _drawn(rng, shape, dtype))]
    for _ in range(nodes):
        name = values[int(rng.integers(max(0, len(values) - 2), len(values)))]
        grow = _GROW[int(rng.integers(len(_GROW)))]
        values.append(grow(graph, rng, name))
    graph.outputs = [name for name in values[1:] if not graph.consumers(name)]
    return graph


def _drawn(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> TensorType:
    return tensor(shape, rng.uniform(0.02, 0.1), int(rng.integers(0, 256)), dtype)


def _requantized(graph: Graph, rng: np.random.Generator, x: str) -> str:
    type = graph.type(x)
    return graph.emit("quantize", [x], _drawn(rng, type.shape, type.dtype))


def _clamped(graph: Graph, rng: np.random.Generator, x: str) -> str:
    return graph.emit("clamp", [x], graph.type(x), e.ClampAttributes(-1.0, rng.uniform(0, 3)))


def _function(graph: Graph, rng: np.random.Generator, x: str) -> str:
    type = graph.type(x)
    op = ("sigmoid", "tanh", "hardswish")[int(rng.integers(3))]
    out = tensor(type.shape, rng.uniform(0.007, 0.04), int(rng.integers(0, 200)), type.dtype)
    return graph.emit(op, [x], out)


def _combined(graph: Graph, rng: np.random.Generator, x: str) -> str:
    op = ("add", "sub", "mul", "maximum", "minimum")[int(rng.integers(5))]
    other = _requantized(graph, rng, x)
    type = graph.type(x)
    attributes: Attributes = NO_ATTRIBUTES if op.endswith("mum") else NONE
    return graph.emit(op, [x, other], _drawn(rng, type.shape, type.dtype), attributes)


def _pooled(graph: Graph, rng: np.random.Generator, x: str) -> str:
    type = graph.type(x)
    op = ("average_pool_2d", "max_pool_2d")[int(rng.integers(2))]
    kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    stride = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    extent = output_extent(SAME, (type.shape[1], type.shape[2]), kernel, stride)
    out = TensorType((1, *extent, type.shape[3]), type.dtype, type.quantization)
    return graph.emit(op, [x], out, PoolAttributes(kernel, stride, SAME))


def _joined(graph: Graph, rng: np.random.Generator, x: str) -> str:
    other = _requantized(graph, rng, x)
    type = graph.type(x)
    axis = int(rng.integers(1, 4))
    shape = list(type.shape)
    shape[axis] *= 2
    out = _drawn(rng, shape, type.dtype)
    return graph.emit("concatenation", [x, other], out, s.ConcatenationAttributes(axis))


def _enlarged(graph: Graph, rng: np.random.Generator, x: str) -> str:
    type = graph.type(x)
    before = (0, int(rng.integers(3)), int(rng.integers(3)), 0)
    after = (0, int(rng.integers(3)), int(rng.integers(3)), 0)
    shape = [sum(axis) for axis in zip(before, type.shape, after, strict=True)]
    out = TensorType(tuple(shape), type.dtype, type.quantization)
    return graph.emit("pad", [x], out, s.PadAttributes(before, after))


def _cut(graph: Graph, rng: np.random.Generator, x: str) -> str:
    type = graph.type(x)
    begin = [int(rng.integers(extent)) for extent in type.shape]
    size = [int(rng.integers(1, n - b + 1)) for n, b in zip(type.shape, begin, strict=True)]
    out = TensorType(tuple(size), type.dtype, type.quantization)
    a = s.StridedSliceAttributes(tuple(begin), tuple(size), (1,) * 4)
    return graph.emit("strided_slice", [x], out, a)


def _resized(graph: Graph, rng: np.random.Generator, x: str) -> str:
    type = graph.type(x)
    size = (2 * type.shape[1], 2 * type.shape[2])
    op = ("resize_nearest_neighbor", "resize_bilinear")[int(rng.integers(2))]
    sampling = (Sampling.HALF_PIXEL, Sampling.LEGACY)[int(rng.integers(2))]
    out = TensorType((1, *size, type.shape[3]), type.dtype, type.quantization)
    return graph.emit(op, [x], out, ResizeAttributes(size, sampling))


_GROW: tuple[Callable[[Graph, np.random.Generator, str], str], ...] = (
    _requantized, _clamped, _function, _combined, _combined, _pooled, _pooled, _joined, _enlarged,
    _cut, _resized,
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_give_the_bytes_of_device_arithmetic(seed: int) -> None:
    assert differences(random_graph(seed), (seed,)) == 0


# --- the corpus ----------------------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "layers/model_padding_2x2x3",
        "layers/model_padding_256x512x3",
        "layers/model_padding_512x256x3",
        "layers/model_padding_stride_2x2x3",
        "layers/model_padding_stride_256x256x3",
        "templates/gabor_64x64_p4",
        "templates/looming_64x64_3x3",
        "templates/looming_128x128_3x3",
        "coral/split_concat",
        pytest.param("layers/model_mat_Add", marks=pytest.mark.slow),
        pytest.param("layers/model_mat_Mul", marks=pytest.mark.slow),
    ],
)
def test_models_of_the_corpus_give_the_bytes_of_device_arithmetic(name: str) -> None:
    assert differences(load(str(corpus() / f"{name}.tflite")), (1,)) == 0
