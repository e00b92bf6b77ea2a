"""Convolutions on the simulated Edge TPU, against the reference semantics of the graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from tests.compiler.edgetpu_models import ORDERS, program, random_inputs, random_model
from tests.support import corpus

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.shape import PadAttributes
from fitzroy.compiler.ops.windows import Activation, Padding, PaddingScheme, Pair, output_extent
from fitzroy.compiler.reference import evaluate
from fitzroy.compiler.targets.edgetpu.fitting import patch_choice
from fitzroy.compiler.targets.edgetpu.layers.halo import relayed
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.lowerings import convolution as codegen_convolution
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Blocking, Convolution, Staging
from fitzroy.compiler.targets.edgetpu.lowerings.depthwise import Dense, Depthwise
from fitzroy.compiler.targets.edgetpu.lowerings.patches import Option, Patch, Strip
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image, TiledAxis, Window, split
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.hw_models.edgetpu.recording import Dispatched
from fitzroy.hw_models.edgetpu.verifier import verify
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.partial_sums import (
    PUBLISHED_REVISIT,
    PUBLISHED_RUN,
    contribution_run,
    revisit_distance,
)
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.linker.packages.darwinn import link
from fitzroy.report.forms import instructions

I8, U8 = DType.INT8, DType.UINT8


def compare(graph: Graph, seeds: Sequence[int | None] = ORDERS, options: Options = DEFAULT) -> None:
    """Demand that the chip gives what the reference gives, and that its program keeps the rules."""
    package = program(graph, options)
    inputs = random_inputs(graph, 5)
    wanted = evaluate(graph, inputs, Arithmetic.EDGETPU)
    raw = {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}
    for seed in seeds:
        found = SimulatedDevice(seed=seed).start(package, raw, record=seed is None).finish()
        recording = found.stages[-1].recording
        if recording is not None:
            findings = verify(recording, found.stages[-1].chunks)
            assert not [one for one in findings if one.rule != "envelope"]
        for name in graph.outputs:
            np.testing.assert_array_equal(
                found.tensors[name],
                wanted[name].reshape(-1).view(np.uint8),
                err_msg=f"{name}, seed {seed}",
            )


def image(shape: tuple[int, ...], dtype: DType = I8) -> TensorType:
    return TensorType(shape, dtype, Quantization.per_tensor(0.04, 5 if dtype is I8 else 131))


def chain(dtype: DType, shape: tuple[int, int, int]) -> Graph:
    graph = Graph("chain")
    graph.outputs = [graph.add_input("x", image((1, *shape), dtype))]
    return graph


def grow(
    graph: Graph,
    op: str,
    channels: int,
    kernel: Pair,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = PaddingScheme.SAME,
    activation: Activation = Activation.NONE,
    seed: int = 0,
) -> None:
    """Append a convolution with random weights."""
    rng = np.random.default_rng(seed + 100 * len(graph.nodes()))
    (x,) = graph.outputs
    type = graph.type(x)
    depth = type.shape[3]
    plain = op == "conv_2d"
    shape = (channels, *kernel, depth) if plain else (1, *kernel, channels)
    low, high = type.dtype.limits
    data = rng.integers(max(low, -127), high, shape, type.dtype.numpy, endpoint=True)
    unit = 0.01 / np.sqrt(kernel[0] * kernel[1] * (depth if plain else 1))
    if type.dtype is U8:
        quantization = Quantization.per_tensor(float(np.float32(unit)), 117)
    else:
        scales = tuple(float(np.float32(s)) for s in rng.uniform(unit / 2, unit, channels))
        quantization = Quantization(scales, (0,) * channels, 0 if plain else 3)
    biases = rng.integers(-3000, 3000, channels, np.int32)
    extent = output_extent(padding, (type.shape[1], type.shape[2]), kernel, stride, dilation)
    graph.outputs = [
        graph.emit(
            op,
            [
                x,
                graph.add_constant("w", data, quantization),
                graph.add_constant("b", biases, Quantization((1.0,), (0,))),
            ],
            image((1, *extent, channels), type.dtype),
            ConvAttributes(stride, dilation, padding, activation),
        )
    ]


# --- convolutions --------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "channels", "kernel", "stride", "dilation", "padding"),
    [
        ((9, 9, 4), 8, (3, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((17, 13, 12), 70, (1, 1), (1, 1), (1, 1), PaddingScheme.SAME),
        ((13, 18, 8), 130, (3, 5), (2, 1), (1, 1), PaddingScheme.VALID),
        ((12, 12, 64), 40, (2, 7), (1, 3), (2, 1), PaddingScheme.SAME),
        ((20, 9, 16), 7, (7, 7), (3, 2), (1, 1), PaddingScheme.SAME),
        ((9, 2, 16), 8, (3, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((2, 3, 8), 24, (5, 5), (1, 1), (1, 1), PaddingScheme.SAME),
    ],
)
@pytest.mark.parametrize("dtype", [I8, U8])
def test_convolution(
    shape: tuple[int, int, int],
    channels: int,
    kernel: Pair,
    stride: Pair,
    dilation: Pair,
    padding: PaddingScheme,
    dtype: DType,
) -> None:
    graph = chain(dtype, shape)
    grow(graph, "conv_2d", channels, kernel, stride, dilation, padding, Activation.RELU6)
    compare(graph)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "channels", "kernel", "stride", "dilation", "padding"),
    [
        ((40, 40, 4), 4, (7, 7), (2, 2), (1, 1), PaddingScheme.SAME),
        ((32, 48, 32), 32, (3, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((45, 37, 12), 13, (3, 5), (1, 2), (1, 1), PaddingScheme.VALID),
        ((41, 38, 8), 7, (3, 3), (1, 1), (2, 3), PaddingScheme.SAME),
    ],
)
@pytest.mark.parametrize("dtype", [I8, U8])
def test_few_channels_of_several_positions(
    shape: tuple[int, int, int],
    channels: int,
    kernel: Pair,
    stride: Pair,
    dilation: Pair,
    padding: PaddingScheme,
    dtype: DType,
) -> None:
    graph = chain(dtype, shape)
    grow(graph, "conv_2d", channels, kernel, stride, dilation, padding, Activation.RELU)
    legalizer = Legalizer(graph)
    legalizer.run()
    assert isinstance(legalizer.layers[0], Dense)
    grow(graph, "conv_2d", 24, (3, 3))
    compare(graph)


def test_windows_are_filled_while_blocks_are_computed() -> None:
    graph = chain(I8, (18, 15, 16))
    grow(graph, "conv_2d", 150, (1, 1))
    grow(graph, "conv_2d", 8, (3, 3))
    compare(graph)


def test_what_happens_once_is_waited_for_inside_of_eight_loops() -> None:
    """The convolution takes all loops of an instruction, so that no level is outside of them."""
    graph = chain(I8, (32, 32, 8))
    grow(graph, "conv_2d", 16, (3, 3), dilation=(2, 2))
    compare(graph)


def test_rows_go_through_tiles_that_need_none() -> None:
    graph = chain(U8, (8, 8, 8))
    grow(graph, "conv_2d", 72, (3, 3))
    grow(graph, "conv_2d", 8, (7, 7), (4, 4), (1, 1), PaddingScheme.VALID)
    compare(graph)


def test_empty_parts_relay_nothing() -> None:
    axis = TiledAxis.of(1, 4, [((0, 0),) * 4])
    assert relayed(axis).window == axis.window


@pytest.mark.long
def test_padding_that_nobody_reads_is_not_filled() -> None:
    before = ((-30, -28), (2, 6), (0, 0), (0, 0))
    axis = TiledAxis.of(6, 4, [before])
    assert axis.window[0] == (-30, 2)
    assert axis.gaps == ((-28, 0), None, None, None)
    graph = chain(I8, (3, 5, 8))
    (x,) = graph.outputs
    padding = PadAttributes((0, 40, 44, 0), (0, 44, 40, 0), 0.0)
    graph.outputs = [graph.emit("pad", [x], image((1, 87, 89, 8)), padding)]
    grow(graph, "conv_2d", 12, (2, 2), (43, 44), (1, 1), PaddingScheme.VALID)
    compare(graph)
    filled = [
        item.receive.steps
        for _, item in instructions([program(graph)])
        if isinstance(item, Mesh) and item.fill and item.receive is not None
    ]
    assert filled
    assert sum(filled) < 500


@pytest.mark.parametrize("depth", [64, 512, 1024])
def test_plan_takes_few_rows_and_covers_all_weights(depth: int) -> None:
    graph = chain(U8, (14, 14, depth))
    grow(graph, "conv_2d", 128, (1, 1))
    legalizer = Legalizer(graph)
    legalizer.run()
    (layer,) = legalizer.layers
    assert isinstance(layer, Convolution)
    layer = replace(layer, staging=Staging.MANY)
    axis = TiledAxis.of(14, 4, [])
    blocking = Blocking.of(layer, Image("y", axis, axis, 128, 0))
    assert blocking.chunk * blocking.chunks * 4 == depth
    assert blocking.slots == 2 or blocking.chunks % blocking.slots == 0
    assert blocking.slots * blocking.staged <= 128
    single = Blocking(depth // 4, 1, depth // 4, 2, blocking.blocks, blocking.prefix, 16, 64, 64)
    assert blocking.cycles <= single.cycles


# --- partial sums --------------------------------------------------------------------------------


def partial_sums(graph: Graph, options: Options = DEFAULT) -> list[TensorOp]:
    """Tensor operations that keep partial sums in wide memory."""
    packages = link([lower(graph, options)])
    found = (item for _, item in instructions(packages))
    return [item for item in found if isinstance(item, TensorOp) and contribution_run(item)]


def sums_within_bounds(operations: Sequence[TensorOp]) -> list[bool]:
    """Whether each operation has runs, and distances of runs, as published programs have."""
    return [
        (contribution_run(op) or 0) >= PUBLISHED_RUN.start
        and (revisit_distance(op) or 0) >= PUBLISHED_REVISIT
        for op in operations
    ]


PARTIAL_SUMS = [
    # Height and width, channels before and after, kernel.
    ((14, 14), 256, 96, (1, 1)),
    ((7, 7), 320, 1280, (1, 1)),
    ((5, 9), 52, 130, (3, 3)),
    ((20, 20), 184, 64, (3, 1)),
    ((6, 6), 188, 70, (1, 1)),
    ((2, 8), 640, 256, (1, 1)),
    ((28, 28), 128, 32, (5, 5)),
]


@pytest.mark.parametrize(("area", "depth", "channels", "kernel"), PARTIAL_SUMS)
@pytest.mark.parametrize("options", [DEFAULT, Options(conservative=True)])
def test_contributions_to_partial_sums_are_long(
    area: Pair, depth: int, channels: int, kernel: Pair, options: Options
) -> None:
    graph = chain(I8, (*area, depth))
    grow(graph, "conv_2d", channels, kernel)
    assert all(sums_within_bounds(partial_sums(graph, options)))


@contextmanager
def anew() -> Iterator[None]:
    """Blockings that were found before do not count inside, and those found inside not after it."""
    Blocking._fastest.cache_clear()
    try:
        yield
    finally:
        Blocking._fastest.cache_clear()


def test_short_contributions_would_be_seen() -> None:
    """With all divisors to choose from, the cheapest chunk is a single group."""

    def divisors(groups: int, taps: int, positions: int) -> list[int]:
        return [chunk for chunk in range(1, groups + 1) if groups % chunk == 0]

    graph = chain(I8, (14, 14, 256))
    grow(graph, "conv_2d", 96, (1, 1))
    assert partial_sums(graph)
    with patch.object(codegen_convolution, "_chunks", divisors), anew():
        assert not all(sums_within_bounds(partial_sums(graph)))


@pytest.mark.parametrize("groups", [1, 2, 7, 10, 16, 34, 47, 64, 320])
@pytest.mark.parametrize("taps", [1, 3, 9, 49])
def test_chunks_have_as_few_steps_as_may_be(groups: int, taps: int) -> None:
    found = codegen_convolution._chunks(groups, taps, 9)
    assert found[-1] == groups
    assert all(groups % chunk == 0 for chunk in found)
    steps = [chunk * taps for chunk in found[:-1]]
    assert all(count >= PUBLISHED_RUN.start for count in steps)
    assert len(steps) <= 1 or all(count in PUBLISHED_RUN for count in steps)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(900, 912))
def test_partial_sums_of_random_models(seed: int) -> None:
    for segment in divide(random_model(seed))[0]:
        assert all(sums_within_bounds(partial_sums(segment.graph)))


# --- depthwise -----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "multiplier", "kernel", "stride", "dilation", "padding"),
    [
        ((28, 28, 8), 1, (3, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((14, 14, 72), 1, (3, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((15, 19, 12), 1, (3, 3), (2, 2), (1, 1), PaddingScheme.SAME),
        ((30, 22, 5), 1, (5, 2), (1, 3), (1, 1), PaddingScheme.VALID),
        ((33, 27, 8), 1, (3, 3), (1, 1), (2, 3), PaddingScheme.SAME),
        ((33, 27, 8), 1, (3, 3), (2, 2), (3, 2), PaddingScheme.SAME),
        ((9, 9, 4), 2, (3, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((9, 11, 6), 3, (2, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((13, 9, 1), 8, (3, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((64, 40, 1), 8, (3, 5), (1, 1), (1, 1), PaddingScheme.SAME),
        ((1, 1, 24), 1, (3, 3), (1, 1), (1, 1), PaddingScheme.SAME),
        ((7, 2, 16), 1, (7, 7), (1, 1), (1, 1), PaddingScheme.SAME),
    ],
)
@pytest.mark.parametrize("dtype", [I8, U8])
def test_depthwise(
    shape: tuple[int, int, int],
    multiplier: int,
    kernel: Pair,
    stride: Pair,
    dilation: Pair,
    padding: PaddingScheme,
    dtype: DType,
) -> None:
    if shape[2] % 4:
        # Depth in front of a convolution, so that the input needs no filling up.
        graph = chain(dtype, (*shape[:2], 4))
        grow(graph, "conv_2d", shape[2], (1, 1))
    else:
        graph = chain(dtype, shape)
    channels = multiplier * shape[2]
    grow(graph, "depthwise_conv_2d", channels, kernel, stride, dilation, padding, Activation.RELU6)
    compare(graph)


OPTIONS = Depthwise.patches


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_any_patch_gives_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)

    def one(layer: Depthwise, areas: list[tuple[int, int]], *, both: bool) -> Sequence[Option]:
        found = OPTIONS(layer, areas, both=both)
        return [found[int(rng.integers(len(found)))]]

    monkeypatch.setattr(Depthwise, "patches", one)
    graph = chain(I8, (int(rng.integers(9, 30)), int(rng.integers(9, 30)), 24))
    grow(graph, "depthwise_conv_2d", 24, (3, 3), (1, 1))
    grow(graph, "conv_2d", 80, (1, 1))
    grow(graph, "depthwise_conv_2d", 80, (3, 3), (2, 2))
    compare(graph, [seed % 3 or None])


def test_weights_through_the_fifo_of_the_scalar_core(monkeypatch: pytest.MonkeyPatch) -> None:
    def packed(layer: Depthwise, areas: list[tuple[int, int]], *, both: bool) -> Sequence[Option]:
        return [option for option in OPTIONS(layer, areas) if option.patch.packed]

    monkeypatch.setattr(Depthwise, "patches", packed)
    graph = chain(I8, (12, 11, 40))
    grow(graph, "depthwise_conv_2d", 40, (3, 3))
    grow(graph, "depthwise_conv_2d", 40, (5, 3), (2, 2))
    grow(graph, "conv_2d", 64, (1, 1))
    grow(graph, "depthwise_conv_2d", 64, (3, 3))
    compare(graph)


def test_patches_shrink_where_wide_memory_is_full() -> None:
    graph = chain(U8, (28, 28, 64))
    grow(graph, "depthwise_conv_2d", 64, (3, 3))
    legalizer = Legalizer(graph)
    legalizer.run()
    (layer,) = legalizer.layers
    assert isinstance(layer, Depthwise)
    options = OPTIONS(layer, [(7, 7)])
    rooms = [40, 200, 2_000]
    chosen = [patch_choice._knapsack([options], room)[0] for room in rooms]
    assert all(option.rows <= room for option, room in zip(chosen, rooms, strict=True))
    assert all(more.cycles < less.cycles for less, more in pairwise(chosen))


@pytest.mark.parametrize("window", [Window(3), Window(3, 2), Window(3, 1, 2), Window(2, 2, 3)])
@pytest.mark.parametrize("positions", [1, 2, 3, 4])
def test_patches_cover_what_a_tile_owns(window: Window, positions: int) -> None:
    strip = Strip(window, positions)
    for extent in range(1, 20):
        outputs = {
            offset + patch * strip.stride(extent) + position * strip.spread
            for offset in range(strip.offsets(extent))
            for patch in range(strip.count(extent))
            for position in range(positions)
        }
        assert set(range(extent)) <= outputs
        assert max(outputs) + 1 == strip.covered(extent)
        # Taps of a patch are the elements that its windows read.
        read = {
            position * strip.spread * window.stride + tap * window.dilation
            for position in range(positions)
            for tap in range(window.kernel)
        }
        assert read <= {tap * window.dilation for tap in range(strip.taps)}


def test_lanes_hold_patches() -> None:
    graph = chain(I8, (56, 56, 32))
    grow(graph, "depthwise_conv_2d", 32, (3, 3))
    package = program(graph)
    run = SimulatedDevice().start(package, {"x": np.zeros(56 * 56 * 32, np.uint8)}, record=True)
    stage = run.finish().stages[-1]
    assert stage.recording is not None
    steps = [
        int(np.prod(entry.issue.instruction.loops))
        for _, entry in stage.recording.entries
        if isinstance(entry, Dispatched)
        and isinstance(entry.issue.instruction, TensorOp)
        and entry.issue.instruction.op is Opcode.MAC
        and entry.issue.instruction.trained
    ]
    # One position and four channels at a time would take 9 steps for each.
    assert max(steps) < 14 * 14 * 8 * 9 / 2


def test_too_large_a_multiplier_is_refused() -> None:
    graph = chain(I8, (4, 4, 2))
    grow(graph, "depthwise_conv_2d", 40, (3, 3))
    with pytest.raises(UnsupportedError, match="20 channels"):
        lower(graph)


def test_multiplier_needs_as_many_groups() -> None:
    strip = Strip(Window(3), 2)
    patch = Patch(strip, strip, 1, 2)
    assert patch.lanes == 32
    assert patch.staged == 16
    assert split(7, 4) == ((0, 2), (2, 4), (4, 6), (6, 7))


# --- corpus --------------------------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "coral/mobilenet_v1_0.25_128_quant.tflite",
        "conv3x3/conv2d_12x128x32_to_32_k3_s1_same_quant.tflite",
        "layers/model_stride_64x64x3.tflite",
        "templates/gabor_64x64_7k_4o_2s.tflite",
    ],
)
def test_models_of_the_corpus(name: str) -> None:
    compare(_convolutions(load(corpus() / name)), [None])


def _convolutions(graph: Graph) -> Graph:
    """The convolutions at the start of a graph."""
    found = Graph(graph.name)
    (last,) = (found.add_input(name, graph.type(name)) for name in graph.inputs)
    source = graph.inputs[0]
    while len(readers := graph.consumers(source)) == 1:
        (node,) = readers
        if node.op not in ("conv_2d", "depthwise_conv_2d"):
            break
        names: list[str | None] = [last]
        for name in node.inputs[1:]:
            value = None if name is None else graph.value(name)
            if value is not None and value.data is not None:
                names.append(found.add_constant("c", value.data, value.type.quantization))
        source = node.outputs[0]
        last = found.emit(node.op, names, graph.type(source), node.attributes)
    found.outputs = [last]
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "kernel", "dilation", "padding"),
    [
        # Rows with one row of the kernel, two and three; columns likewise.
        ((10, 9, 64), (3, 3), (4, 4), PaddingScheme.SAME),
        # The middle of the kernel alone reaches the image.
        ((6, 5, 64), (3, 3), (7, 7), PaddingScheme.SAME),
        ((12, 14, 64), (3, 2), (5, 6), PaddingScheme.VALID),
        # Padding that is not the same on both sides.
        ((9, 10, 64), (3, 3), (6, 6), (4, 8, 3, 9)),
    ],
)
@pytest.mark.parametrize("dtype", [I8, U8])
def test_kernels_that_reach_far(
    shape: tuple[int, int, int], kernel: Pair, dilation: Pair, padding: Padding, dtype: DType
) -> None:
    """What a tile would hold to no purpose is more than what it reads."""
    graph = chain(dtype, shape)
    grow(graph, "conv_2d", 12, kernel, (1, 1), dilation, padding, Activation.RELU6)
    options = Options(narrow_bytes=5600)
    assert _kernels(graph, options) == {1}
    compare(graph, options=options)


def test_a_kernel_of_which_one_element_reaches_the_image_is_that_of_pixels() -> None:
    graph = chain(I8, (6, 5, 64))
    grow(graph, "conv_2d", 12, (3, 3), (1, 1), (7, 7))
    assert _kernels(graph, DEFAULT) == {1}
    compare(graph, (1,))


def _kernels(graph: Graph, options: Options) -> set[int]:
    """Heights of the kernels that the layers of a graph have."""
    legalizer = Legalizer(graph, options)
    legalizer.run()
    return {layer.rows.kernel for layer in legalizer.layers if isinstance(layer, Convolution)}
