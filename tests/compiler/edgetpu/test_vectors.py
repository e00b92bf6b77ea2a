"""Vectors on the simulated Edge TPU, against the reference semantics of the graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from tests.compiler.edgetpu_models import (
    ORDERS,
    Model,
    differing_bytes,
    findings,
    program,
    random_inputs,
)
from tests.support import corpus

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, Vector
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import ToImage, ToVector
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice
from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.linker.packages.darwinn import link

I8, U8 = DType.INT8, DType.UINT8


def differences(graph: Graph, seeds: Sequence[int | None] = ORDERS) -> int:
    """Bytes of all outputs that the chip gives otherwise than the reference."""
    verify(graph)
    package = program(graph)
    return differing_bytes(graph, package, seeds, evaluate)


def tensor(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType = I8) -> TensorType:
    low, high = dtype.limits
    scale = float(np.float32(rng.uniform(0.02, 0.1)))
    return TensorType(
        shape, dtype, Quantization.per_tensor(scale, int(rng.integers(low, high + 1)))
    )


def weights(
    graph: Graph, rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, per_channel: bool
) -> list[str]:
    """A filter with its first axis for channels, and biases."""
    low, high = dtype.limits
    channels = shape[0]
    data = rng.integers(max(low, -127), high, shape, dtype.numpy, endpoint=True)
    scales = [float(np.float32(x)) for x in rng.uniform(0.002, 0.01, channels)]
    quantization = Quantization.per_tensor(scales[0], 0 if dtype is I8 else 121)
    if per_channel:
        quantization = Quantization(tuple(scales), (0,) * channels, 0)
    biases = rng.integers(-4000, 4000, channels, np.int32)
    return [
        graph.add_constant("w", data, quantization),
        graph.add_constant("b", biases, Quantization((1.0,), (0,))),
    ]


def fully_connected(
    graph: Graph,
    rng: np.random.Generator,
    x: str,
    channels: int,
    dtype: DType = I8,
    per_channel: bool = False,
    activation: Activation = Activation.NONE,
) -> str:
    depth = graph.type(x).size
    operands = [x, *weights(graph, rng, (channels, depth), dtype, per_channel)]
    result = TensorType((1, channels), dtype, Quantization.per_tensor(0.02 * depth**0.5, 3))
    return graph.emit("fully_connected", operands, result, FullyConnectedAttributes(activation))


def of_input(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> tuple[Graph, str]:
    graph = Graph("vectors")
    return graph, graph.add_input("x", tensor(rng, shape, dtype))


SIZES = [
    (1, 1),
    (3, 5),
    (7, 17),
    (64, 64),
    (65, 63),
    (255, 257),
    (1000, 10),
    (9, 1025),
    (130, 2048),
]


@pytest.mark.long
@pytest.mark.parametrize(("depth", "channels"), SIZES)
@pytest.mark.parametrize("dtype", [I8, U8])
def test_fully_connected_of_any_size(depth: int, channels: int, dtype: DType) -> None:
    rng = np.random.default_rng(depth)
    graph, x = of_input(rng, (1, depth), dtype)
    activation = (Activation.NONE, Activation.RELU, Activation.RELU6)[depth % 3]
    per_channel = dtype is I8 and channels % 2 == 1
    graph.outputs = [fully_connected(graph, rng, x, channels, dtype, per_channel, activation)]
    assert differences(graph) == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_chains_of_random_sizes_with_several_inputs_and_outputs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = Graph("chains")
    for number in range(int(rng.integers(1, 3))):
        dtype = (I8, U8)[int(rng.integers(2))]
        last = graph.add_input(f"x{number}", tensor(rng, (1, int(rng.integers(1, 700))), dtype))
        for _ in range(int(rng.integers(1, 4))):
            channels = int(rng.integers(1, 700))
            last = fully_connected(graph, rng, last, channels, dtype, dtype is I8)
            graph.outputs.append(last)
    assert differences(graph, (seed,)) == 0


@pytest.mark.parametrize(
    ("shape", "channels"), [((1, 2, 2, 3), 100), ((1, 7, 5, 6), 33), ((1, 9, 9, 1), 70)]
)
def test_fully_connected_reads_images(shape: tuple[int, ...], channels: int) -> None:
    rng = np.random.default_rng(1)
    graph, x = of_input(rng, shape, I8)
    graph.outputs = [fully_connected(graph, rng, x, channels, per_channel=True)]
    assert differences(graph) == 0


@pytest.mark.parametrize(("depth", "channels"), [(8000, 1), (9000, 70)])
def test_blocks_that_are_too_long_for_a_tile_come_over_the_ring(depth: int, channels: int) -> None:
    rng = np.random.default_rng(depth)
    graph, x = of_input(rng, (1, depth), I8)
    graph.outputs = [fully_connected(graph, rng, x, channels, per_channel=True)]
    kinds = {operand.kind for operand in lower(graph).operands or ()}
    assert kinds == {OperandKind.CONVOLUTION}
    assert differences(graph, (None, 1)) == 0


def test_weights_beyond_the_chip_come_from_the_host() -> None:
    rng = np.random.default_rng(1)
    graph, x = of_input(rng, (1, 9000), I8)
    graph.outputs = [fully_connected(graph, rng, x, 1100)]
    resident = [bool(operand.runs) for operand in lower(graph).operands or ()]
    assert resident == [True, False]


def test_narrow_layers_are_spread_over_the_tiles() -> None:
    rng = np.random.default_rng(2)
    graph, last = of_input(rng, (1, 64), I8)
    for _ in range(20):
        last = fully_connected(graph, rng, last, 64)
    graph.outputs = [last]
    tiles = [run.tile for operand in lower(graph).operands or () for run in operand.runs or ()]
    assert len(tiles) == 20
    assert set(tiles) == set(range(TILES))


def instructions_of(package: PackageFile) -> Counter[str]:
    """How many instructions of each kind a package's main program has."""
    streams = package.main.instruction_bitstreams or ()
    chunks = [disassemble(np.asarray(item.bitstream).tobytes()) for item in streams]
    return Counter(type(item).__name__ for chunk in chunks for item in chunk)


@pytest.mark.long
@pytest.mark.parametrize("depth", [100, 600, 1000, 1600, 4096])
def test_messages_of_a_gather_share_instructions(depth: int) -> None:
    rng = np.random.default_rng(depth)
    graph, x = of_input(rng, (1, 70), I8)
    graph.outputs = [fully_connected(graph, rng, fully_connected(graph, rng, x, depth), 150)]
    tiles = min(-(-depth // 64), TILES)
    alone = instructions_of(program(graph, Options(conservative=True)))
    shared = instructions_of(program(graph))
    # Messages with a shorter run inside are alone, and so are those with fewer runs.
    most = 1 if depth % (64 * TILES) == 0 or depth <= 64 * TILES else 3
    assert alone["RingConsume"] - shared["RingConsume"] >= tiles - most
    assert alone["WideToNarrow"] - shared["WideToNarrow"] == (
        alone["RingConsume"] - shared["RingConsume"]
    )
    assert differences(graph) == 0
    assert findings(program(graph)) == ()


def test_blocks_of_a_fully_connected_layer_share_an_operation() -> None:
    rng = np.random.default_rng(3)
    graph, x = of_input(rng, (1, 30), I8)
    graph.outputs = [fully_connected(graph, rng, x, 100)]
    assert instructions_of(program(graph))["TensorOp"] == 1
    assert differences(graph) == 0


@pytest.mark.parametrize(
    ("shape", "channels", "kernel"),
    [((1, 1, 1, 30), 70, (1, 1)), ((1, 4, 3, 6), 100, (4, 3)), ((1, 3, 3, 2), 3, (3, 3))],
)
def test_convolutions_on_one_position(
    shape: tuple[int, ...], channels: int, kernel: tuple[int, int]
) -> None:
    rng = np.random.default_rng(3)
    graph, x = of_input(rng, shape, I8)
    operands = [x, *weights(graph, rng, (channels, *kernel, shape[3]), I8, True)]
    result = TensorType((1, 1, 1, channels), I8, Quantization.per_tensor(0.3, 3))
    attributes = ConvAttributes(padding=PaddingScheme.VALID)
    graph.outputs = [graph.emit("conv_2d", operands, result, attributes)]
    kinds = {operand.kind for operand in lower(graph).operands or ()}
    assert kinds - {OperandKind.MATRICES} == {OperandKind.FULLY_CONNECTED}
    assert differences(graph) == 0


AVERAGED = [(7, 7, 64), (4, 4, 3), (1, 1, 100), (6, 6, 1500), (33, 33, 160), (5, 9, 70)]


@pytest.mark.long
@pytest.mark.parametrize(("height", "width", "channels"), AVERAGED)
@pytest.mark.parametrize("op", ["mean", "average_pool_2d"])
def test_global_averages(op: str, height: int, width: int, channels: int) -> None:
    rng = np.random.default_rng(channels)
    dtype = (I8, U8)[channels % 2]
    graph, x = of_input(rng, (1, height, width, channels), dtype)
    if op == "mean":
        result = tensor(rng, (1, channels), dtype)
        graph.outputs = [graph.emit(op, [x], result, ReductionAttributes((1, 2), False))]
    else:
        result = tensor(rng, (1, 1, 1, channels), dtype)
        graph.outputs = [graph.emit(op, [x], result, PoolAttributes((height, width)))]
    assert differences(graph) == 0


IMAGES = [(14, 2, 1), (17, 1, 10), (10, 1, 14), (12, 10, 6), (13, 2, 6), (8, 18, 10), (5, 3, 1)]


@pytest.mark.parametrize(("height", "width", "channels"), IMAGES)
def test_images_whose_pixels_or_rows_are_no_whole_words(
    height: int, width: int, channels: int
) -> None:
    rng = np.random.default_rng(height)
    graph, x = of_input(rng, (1, height, width, channels), U8)
    result = TensorType((1, channels), U8, Quantization.per_tensor(0.02, 7))
    graph.outputs = [graph.emit("mean", [x], result, ReductionAttributes((1, 2), False))]
    assert differences(graph) == 0


def test_means_over_axes_with_others_between_are_refused() -> None:
    rng = np.random.default_rng(1)
    graph, x = of_input(rng, (2, 4, 5, 8), I8)
    graph.outputs = [graph.emit("mean", [x], tensor(rng, (4, 8)), ReductionAttributes((0, 2)))]
    with pytest.raises(UnsupportedError, match="4 groups of axes"):
        lower(graph)


SHAPES = [
    ((1, 4, 4, 8), (1, 128)),
    ((1, 5, 7, 3), (1, 105)),
    ((1, 7, 7, 1), (1, 49)),
    ((1, 3, 3, 2), (1, 18)),
    ((1, 9, 9, 5), (1, 405)),
    ((1, 1, 1, 700), (1, 700)),
    ((1, 105), (1, 5, 7, 3)),
    ((1, 96, 64), (1, 96, 64, 1)),
    ((1, 700), (1, 1, 1, 700)),
    ((1, 8, 6, 4), (1, 4, 6, 8)),
    ((1, 6, 6, 3), (1, 4, 27, 1)),
    ((1, 14, 9, 6), (1, 756)),
    ((2, 2, 3), (1, 12)),
]


@pytest.mark.parametrize(("before", "after"), SHAPES)
def test_reshapes(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    graph, x = of_input(rng, before, U8)
    result = graph.type(x).with_shape(after)
    graph.outputs = [graph.emit("reshape", [x], result, ReshapeAttributes(after))]
    assert differences(graph) == 0


def test_images_that_end_within_words_are_joined_to_one_vector() -> None:
    """A view of two images, whose elements change places."""
    model = Model(4)
    x = model.graph.add_input("x", model.type((1, 5, 6, 3), 0.05))
    type = model.graph.type(x)
    both = [x, model.emit("hardswish", [x], type)]
    joined = model.emit(
        "concatenation", both, type.with_shape((2, 5, 6, 3)), ConcatenationAttributes(0)
    )
    turned = TransposeAttributes((0, 3, 1, 2))
    result = model.emit("transpose", [joined], type.with_shape((2, 3, 5, 6)), turned)
    model.graph.outputs.append(result)
    assert differing_bytes(model.graph, program(model.graph), (1,)) == 0


def test_what_only_fully_connected_layers_read_is_not_moved() -> None:
    rng = np.random.default_rng(1)
    graph, x = of_input(rng, (1, 5, 7, 3), U8)
    flat = graph.emit(
        "reshape", [x], graph.type(x).with_shape((1, 105)), ReshapeAttributes((1, 105))
    )
    graph.outputs = [fully_connected(graph, rng, flat, 10, U8)]
    plain, y = of_input(np.random.default_rng(1), (1, 5, 7, 3), U8)
    plain.outputs = [fully_connected(plain, np.random.default_rng(1), y, 10, U8)]
    (flattened,), (direct,) = link([lower(graph)]), link([lower(plain)])
    programs = [item.main.instruction_bitstreams or [] for item in (flattened, direct)]
    assert [len(item) for item in programs] == [1, 1]
    first, second = (item[0].bitstream for item in programs)
    assert first is not None
    assert second is not None
    assert len(first) == len(second)
    assert differences(graph) == 0


SOFTMAX = [
    (1, 0.1, 1.0),
    (3, 0.05, 1.0),
    (10, 0.2, 1.0),
    (100, 0.1, 0.5),
    (257, 0.3, 1.0),
    (385, 0.3, 1.0),
    (1001, 0.1, 1.0),
    (1100, 0.1, 1.0),
    (4096, 1.0, 1.0),
]


@pytest.mark.long
@pytest.mark.parametrize(("count", "scale", "beta"), SOFTMAX)
@pytest.mark.parametrize("dtype", [I8, U8])
@pytest.mark.parametrize("inner", [False, True])
def test_softmax(count: int, scale: float, beta: float, dtype: DType, inner: bool) -> None:
    rng = np.random.default_rng(count)
    graph = Graph("softmax")
    low, _ = dtype.limits
    x = graph.add_input("x", TensorType((1, count), dtype, Quantization.per_tensor(scale, 11)))
    result = TensorType((1, count), dtype, Quantization.per_tensor(1 / 256, low))
    y = graph.emit("softmax", [x], result, SoftmaxAttributes(beta))
    graph.outputs = [fully_connected(graph, rng, y, 70, dtype), y] if inner else [y]
    assert differences(graph, (None, 1)) == 0


def test_softmax_of_another_output_quantization() -> None:
    graph = Graph("softmax")
    x = graph.add_input("x", TensorType((1, 9), U8, Quantization.per_tensor(0.05, 0)))
    result = TensorType((1, 9), U8, Quantization.per_tensor(0.005, 10))
    graph.outputs = [graph.emit("softmax", [x], result, SoftmaxAttributes())]
    assert differences(graph) == 0


def test_hosts_can_follow_softmax() -> None:
    rng = np.random.default_rng(1)
    graph, x = of_input(rng, (1, 300), U8)
    result = TensorType((1, 300), U8, Quantization.per_tensor(1 / 256, 0))
    graph.outputs = [graph.emit("softmax", [x], result, SoftmaxAttributes())]
    package = program(graph)
    hints = package.main.dma_hints
    assert hints is not None
    assert hints.fully_deterministic


def test_softmax_of_several_long_rows_is_refused() -> None:
    rng = np.random.default_rng(1)
    graph, x = of_input(rng, (2, 1025), I8)
    result = TensorType((2, 1025), I8, Quantization.per_tensor(1 / 256, -128))
    graph.outputs = [graph.emit("softmax", [x], result, SoftmaxAttributes())]
    with pytest.raises(UnsupportedError, match="2 rows of 1025 elements: 2 to 1024"):
        lower(graph)


@pytest.mark.long
@pytest.mark.parametrize("inner", [False, True])
def test_softmax_of_more_than_the_scalar_core_holds(inner: bool) -> None:
    rng = np.random.default_rng(1)
    shape = (1, 15003)
    graph = Graph("softmax")
    x = graph.add_input("x", TensorType(shape, U8, Quantization.per_tensor(0.001, 0)))
    result = TensorType(shape, U8, Quantization.per_tensor(1 / 65536, 0))
    y = graph.emit("softmax", [x], result, SoftmaxAttributes())
    graph.outputs = [fully_connected(graph, rng, y, 3, U8), y] if inner else [y]
    assert differences(graph, (None,)) == 0


@pytest.mark.parametrize("first", range(TILES))
@pytest.mark.parametrize("channels", [1, 64, 700, 1024, 2100])
def test_every_block_has_one_owner(first: int, channels: int) -> None:
    vector = Vector("v", channels, 0, first=first)
    held = [block for tile in range(TILES) for block in vector.held(tile)]
    assert sorted(held) == list(range(vector.blocks))
    assert all(block in vector.held(vector.owner(block)) for block in held)
    assert sum(vector.lanes(block) for block in held) == -(-channels // 4) * 4


MODELS = ["templates/dense_256", "templates/dense_1024", "layers/model_dense_2x2x3x100x100"]


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    assert differences(load(corpus() / f"{name}.tflite"), (None, 1)) == 0


def test_the_same_elements_are_moved_to_an_image_once() -> None:
    """Rows that several operators read, and a result that is added to what was a vector before."""
    model = Model(6)
    shape = (1, 12, 16)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    made = []
    for _ in range(2):
        filters, about = model.weights((16, 16), 0, 16)
        unit = model.unit(x) * about * 4
        inputs = [x, filters, model.bias(16, 16)]
        a = FullyConnectedAttributes(keep_num_dims=True)
        made.append(model.emit("fully_connected", inputs, model.type(shape, unit), a))
    joined = model.emit("mul", made, model.type(shape, 0.1), ActivationAttributes())
    added = model.emit("add", [x, joined], model.type(shape, 0.1), ActivationAttributes())
    model.graph.outputs.append(added)
    layers = Counter(type(layer) for layer in legalized(model.graph).layers)
    assert layers[ToImage] == 1
    assert not layers[ToVector]
    assert not differences(model.graph)
    assert not findings(program(model.graph))


def test_vectors_whose_instructions_take_several_chunks_leave_the_chip() -> None:
    """The host takes all that a descriptor is about before it sends another chunk."""
    graph, scale = Graph("long"), Quantization.per_tensor(0.05, 3)
    type = TensorType((1, 160_003), DType.INT8, scale)
    graph.outputs = [graph.emit("abs", [graph.add_input("x", type)], type)]
    compiled = compile_edgetpu(Source.of(graph), costs=None)
    inputs = random_inputs(graph, 1)
    with (
        Interpreter(compiled.data, device="sim") as chip,
        Interpreter(compiled.data, device=TwinDevice(graph)) as twin,
    ):
        found, expected = chip.run(inputs), twin.run(inputs)
    assert np.array_equal(found["abs"], expected["abs"])
