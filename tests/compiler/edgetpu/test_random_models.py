"""Random models on the simulated Edge TPU, byte by byte against the arithmetic of the chip."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.edgetpu_models import (
    Tally,
    check,
    examined,
    minimized,
    part_of,
    random_inputs,
    random_model,
)

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, print_graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.partition.rules import NAME
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device

Step = tuple[str, tuple[int, ...], Attributes, tuple[tuple[int, ...], ...]]
"""Operator, shape of its result, attributes, and shapes of its constants."""

SHARD = 5
QUICK, FULL = 12, 400
"""Shards of `SHARD` seeds each that run by default, and with ``--full``."""

MOST_REFUSED = 0.05
"""Share of operators that may stay on the host."""


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
        tally.add(check(seed))
    operators = sum(tally.mapped.values())
    print(f"{tally.segments} parts, {operators} operators, {tally.bytes} bytes compared")
    for reason, count in tally.refused.most_common():
        print(f"{count} x {reason}")
    report = "\n".join(f"seed {seed}: {fault}\n{text}" for seed, fault, text in tally.failures)
    assert not tally.failures, report
    assert not tally.unordered, "\n".join(f"seed {seed}: {text}" for seed, text in tally.unordered)
    assert sum(tally.refused.values()) <= MOST_REFUSED * operators + 2
    assert tally.segments >= SHARD // 2


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [Options(parameter_rows=0), Options(narrow_bytes=16 << 10)],
    ids=["streamed", "in strips"],
)
@pytest.mark.parametrize(
    "shard",
    [pytest.param(number, marks=[] if number < 1 else [pytest.mark.slow]) for number in range(20)],
)
def test_random_models_with_little_memory(shard: int, options: Options) -> None:
    tally = Tally()
    for seed in range(SHARD * shard, SHARD * (shard + 1)):
        tally.add(check(seed, options))
    assert not tally.failures, "\n".join(
        f"seed {s}: {fault}\n{g}" for s, fault, g in tally.failures
    )
    assert not tally.unordered, "\n".join(f"seed {seed}: {text}" for seed, text in tally.unordered)
    assert tally.segments >= SHARD // 2


def test_models_are_those_of_their_seeds() -> None:
    for seed in range(5):
        assert print_graph(random_model(seed)) == print_graph(random_model(seed))
    assert len({print_graph(random_model(seed)) for seed in range(20)}) == 20


def test_models_are_varied() -> None:
    graphs = [random_model(seed) for seed in range(200)]
    nodes = [node for graph in graphs for node in graph.nodes()]
    assert len({node.op for node in nodes}) >= 25
    dtypes = Counter(graph.type(graph.inputs[0]).dtype for graph in graphs)
    assert min(dtypes[DType.INT8], dtypes[DType.UINT8]) >= 50
    assert sum(len(graph.inputs) > 1 for graph in graphs) >= 20
    assert sum(len(graph.outputs) > 1 for graph in graphs) >= 50
    assert {min(len(graph.nodes()), 8) for graph in graphs} == set(range(1, 9))
    images = [shape for node in nodes for shape in [_shape(graphs, node)] if len(shape) == 4]
    assert sum(shape[3] % 4 != 0 for shape in images) >= len(images) // 5


def _shape(graphs: list, node) -> tuple[int, ...]:  # type: ignore[no-untyped-def, type-arg]
    for graph in graphs:
        if node in graph.nodes():
            return tuple(graph.type(node.outputs[0]).shape)
    raise AssertionError(node.name)


def test_outputs_are_spread() -> None:
    """Values that all saturate would hide errors."""
    distinct = []
    for seed in range(40):
        graph = random_model(seed)
        for array in evaluate_on_device(graph, random_inputs(graph, seed)).values():
            if array.size >= 256:
                distinct.append(len(np.unique(array)))
    assert np.median(distinct) > 60


def test_arithmetic_of_the_chip_is_close_to_the_reference() -> None:
    """Values are the same but next to ties, operator by operator."""
    values = differing = 0
    for seed in range(60):
        graph = random_model(seed)
        inputs = random_inputs(graph, seed)
        known = evaluate_on_device(graph, inputs, keep=True)
        for node in graph.nodes():
            part = part_of(graph, [node])
            part.outputs = list(node.outputs)
            fed = {name: known[name] if name in known else inputs[name] for name in part.inputs}
            for name, array in evaluate(part, fed).items():
                gap = np.abs(array.astype(np.int64) - known[name])
                assert gap.max(initial=0) <= 1, (seed, node.op)
                values += gap.size
                differing += int(np.count_nonzero(gap))
    assert differing < values / 100


@pytest.mark.long
def test_a_wrong_program_is_found_and_minimized(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(
        seed
        for seed in itertools.count()
        if "conv_2d" in {node.op for node in random_model(seed).nodes()}
        and len(random_model(seed).nodes()) >= 4
        and not check(seed).failures
    )
    graph = random_model(seed)

    def wrong(graph, inputs, *, keep=False):  # type: ignore[no-untyped-def]
        found = evaluate_on_device(graph, inputs, keep=True)
        if any(node.op == "conv_2d" for node in graph.nodes()):
            found = {name: array ^ 1 for name, array in found.items()}
        return {name: found[name] for name in graph.outputs}

    monkeypatch.setattr("tests.compiler.edgetpu_models.evaluate_on_device", wrong)
    assert "differ" in examined(graph, seed)[0]
    text = minimized(graph, seed)
    assert "differ" in text
    assert text.count("conv_2d(") >= 1
    assert sum(" = " in line and "(" in line.split(" = ")[1] for line in text.splitlines()) <= 2


# --- what random models found, as small as it gets ------------------------------------------------


def tensor(
    shape: tuple[int, ...], scale: float = 0.1, zero: int = 139, dtype: DType = DType.UINT8
) -> TensorType:
    """A type with a zero point as the chip holds it."""
    low = dtype.limits[0]
    return TensorType(shape, dtype, Quantization.per_tensor(scale, zero + low))


def chain(shape: tuple[int, ...], *steps: Step) -> Graph:
    """An input and operators one after another, which read what the one before gives."""
    graph = Graph("found")
    name = graph.add_input("x", tensor(shape))
    for op, result, attributes, constants in steps:
        rng = np.random.default_rng(len(graph.nodes()))
        made = [
            graph.add_constant("c", rng.integers(0, 256, c, np.uint8), tensor(c, 0.02).quantization)
            for c in constants
        ]
        type = tensor(result, 0.15, 120)
        if op == "reshape":
            type = replace(graph.type(name), shape=result)
        name = graph.emit(op, [name, *made], type, attributes)
    graph.outputs = [name]
    return graph


def sum_of(first: float, second: float) -> Graph:
    graph = Graph("found")
    names = [graph.add_input("x", tensor((1, 5, 6, 7), first))]
    names.append(graph.add_input("y", tensor((1, 5, 6, 7), second, 13)))
    result = tensor((1, 5, 6, 7), first + second, 132)
    graph.outputs = [graph.emit("add", names, result, ActivationAttributes())]
    return graph


def copied(shape: tuple[int, ...], dtype: DType = DType.UINT8) -> Graph:
    graph = Graph("found")
    x = graph.add_input("x", tensor(shape, dtype=dtype))
    graph.outputs = [graph.emit("quantize", [x], tensor(shape, 0.15, 120, dtype))]
    return graph


def squared() -> Graph:
    """A product of a value with itself, and a square, which is never negative."""
    graph = Graph("found")
    x = graph.add_input("x", tensor((1, 5, 7, 6)))
    graph.outputs = [graph.emit("square", [x], tensor((1, 5, 7, 6), 0.7, 0))]
    product = graph.emit("mul", [x, x], tensor((1, 5, 7, 6), 0.7, 30), ActivationAttributes())
    graph.outputs.append(product)
    return graph


def vector_and_image() -> Graph:
    """A sum of vectors, and an image that is too large for a small memory."""
    graph = Graph("found")
    vectors = [graph.add_input(name, tensor((1, 280))) for name in "uv"]
    image = graph.add_input("x", tensor((1, 37, 10, 115)))
    total = graph.emit("add", vectors, tensor((1, 280), 0.2), ActivationAttributes())
    attributes = ConcatenationAttributes(3)
    joined = graph.emit("concatenation", [image] * 3, tensor((1, 37, 10, 345)), attributes)
    graph.outputs = [total, joined]
    return graph


def pooled(shape: tuple[int, ...], *steps: Step) -> Graph:
    """Operators after a mean, which lies in blocks of channels."""
    mean = (1, 1, 1, shape[-1])
    return chain(shape, ("mean", mean, ReductionAttributes((1, 2), True), ()), *steps)


def stacked(axis: int) -> Graph:
    """Three times a mean, one after another along an axis."""
    graph = pooled((1, 2, 7, 11))
    (mean,) = graph.outputs
    shape = [1, 1, 1, 11]
    shape[axis] *= 3
    type = replace(graph.type(mean), shape=tuple(shape))
    attributes = ConcatenationAttributes(axis)
    graph.outputs = [graph.emit("concatenation", [mean] * 3, type, attributes)]
    return graph


def test_reshapes_keep_the_quantization() -> None:
    graph = Graph("reshape")
    x = graph.add_input("x", tensor((1, 2, 3, 4)))
    flat = graph.emit("reshape", [x], tensor((1, 24), 0.2), ReshapeAttributes((1, 24)))
    graph.outputs = [flat]
    segments, (placement,) = divide(graph)
    assert not segments
    assert "changes the quantization" in placement.rejects[0].what


CONVOLUTION = ConvAttributes((2, 2), (1, 1), PaddingScheme.SAME)
PLAIN = ConvAttributes((1, 1), (1, 1), PaddingScheme.SAME)
INSIDE = ConvAttributes((1, 1), (1, 1), PaddingScheme.VALID)


def windows_of(extent: int, size: int, op: str) -> Graph:
    """A pool of windows within a square image."""
    count = extent - size + 1
    attributes = PoolAttributes((size, size), (1, 1), PaddingScheme.VALID)
    return chain((1, extent, extent, 4), (op, (1, count, count, 4), attributes, ()))


def kernel_of(op: str, kernel: tuple[int, int]) -> Graph:
    """A convolution of 3 x 2 positions."""
    height, width = kernel
    weights = (1, height, width, 4) if op == "depthwise_conv_2d" else (4, height, width, 4)
    return chain((1, height + 2, width + 1, 4), (op, (1, 3, 2, 4), INSIDE, (weights,)))


def softmax_of(channels: int) -> Graph:
    """Probabilities, and the opposites of them."""
    graph = Graph("found")
    x, shape = graph.add_input("x", tensor((1, channels))), (1, channels)
    softmax = graph.emit("softmax", [x], tensor(shape, 1 / 256, 0), SoftmaxAttributes())
    graph.outputs = [graph.emit("negate", [softmax], tensor(shape, 1 / 256, 255))]
    return graph


FOUND = {
    # Rows of an image that fill no word, so that tiles begin within words of others.
    "narrow-1x2": copied((1, 19, 1, 2)),
    "narrow-1x1": copied((1, 9, 1, 1)),
    "narrow-1x3": copied((1, 30, 1, 3)),
    "narrow-1x5": copied((1, 30, 1, 5)),
    "narrow-2x1": copied((1, 29, 2, 1)),
    "narrow-3x1": copied((1, 30, 3, 1)),
    "narrow-9x7": copied((1, 23, 9, 7)),
    "narrow-to-matrix": chain(
        (1, 26, 1, 2),
        ("fully_connected", (1, 137), FullyConnectedAttributes(), ((137, 52),)),
    ),
    "narrow-reshaped": chain(
        (1, 24, 9, 7),
        ("reshape", (1, 6, 7, 36), ReshapeAttributes((1, 6, 7, 36)), ()),
    ),
    "narrow-resized": chain(
        (1, 34, 1, 5),
        ("resize_nearest_neighbor", (1, 68, 3, 5), ResizeAttributes((68, 3)), ()),
    ),
    # More steps than a loop counts.
    "long-row": chain(
        (1, 20832),
        ("fully_connected", (1, 48), FullyConnectedAttributes(), ((48, 20832),)),
    ),
    # A vector by the shape of the input, an image by that of the operator.
    "vector-convolved": chain(
        (1, 37),
        ("reshape", (1, 1, 1, 37), ReshapeAttributes((1, 1, 1, 37)), ()),
        ("conv_2d", (1, 1, 1, 2), CONVOLUTION, ((2, 3, 3, 37),)),
    ),
    "vector-sliced": chain(
        (1, 37),
        ("reshape", (1, 1, 1, 37), ReshapeAttributes((1, 1, 1, 37)), ()),
        (
            "strided_slice",
            (1, 1, 1, 9),
            StridedSliceAttributes((0, 0, 0, 5), (1, 1, 1, 9), (1, 1, 1, 1)),
            (),
        ),
    ),
    # One factor of a sum fits a byte, the other does not.
    "sum-of-small-and-large": sum_of(0.1138998493552208, 1.0378286838531494),
    "sum-of-large-and-small": sum_of(0.674760103225708, 0.0078125),
    # Rows of several tiles whose pixels are no whole fours.
    "maximum-across": chain(
        (1, 3, 8, 8),
        ("max_pool_2d", (1, 2, 3, 8), PoolAttributes((2, 1), (2, 3), PaddingScheme.SAME), ()),
    ),
    "mean-repeated": pooled(
        (1, 4, 6, 16),
        ("resize_nearest_neighbor", (1, 2, 1, 16), ResizeAttributes((2, 1)), ()),
    ),
    "mean-sliced": pooled(
        (1, 9, 5, 10),
        (
            "strided_slice",
            (1, 1, 1, 7),
            StridedSliceAttributes((0, 0, 0, 3), (1, 1, 1, 7), (1, 1, 1, 1)),
            (),
        ),
    ),
    "mean-convolved": pooled(
        (1, 4, 8, 16), ("conv_2d", (1, 1, 1, 5), CONVOLUTION, ((5, 3, 3, 16),))
    ),
    "mean-convolved-by-channel": pooled(
        (1, 4, 8, 16), ("depthwise_conv_2d", (1, 1, 1, 16), CONVOLUTION, ((1, 7, 5, 16),))
    ),
    "mean-stretched": pooled(
        (1, 13, 5, 1),
        ("quantize", (1, 1, 1, 1), NO_ATTRIBUTES, ()),
        ("resize_nearest_neighbor", (1, 1, 3, 1), ResizeAttributes((1, 3)), ()),
    ),
    "mean-stacked-1": stacked(1),
    "mean-stacked-2": stacked(2),
    "mean-stacked-3": stacked(3),
    # Words after a block of channels are those of another image, whose windows are being filled.
    "read-behind": chain(
        (1, 15, 6, 44),
        ("depthwise_conv_2d", (1, 13, 4, 44), INSIDE, ((1, 3, 3, 44),)),
        ("conv_2d", (1, 13, 4, 8), PLAIN, ((8, 3, 3, 44),)),
    ),
    # Weights of which wide memory has room for a single slot.
    "kernel-37x31-by-channel": kernel_of("depthwise_conv_2d", (37, 31)),
    "kernel-37x31": kernel_of("conv_2d", (37, 31)),
    # Windows of more pixels than are compared at a time otherwise.
    "maximum-50x50": windows_of(60, 50, "max_pool_2d"),
    # Inputs and vectors of a few bytes beside whole blocks.
    "narrow-4x1-signed": copied((1, 2, 4, 1), DType.INT8),
    "narrow-3x4x1-signed": copied((1, 3, 4, 1), DType.INT8),
    "softmax-65-negated": softmax_of(65),
    "squared": squared(),
    "five-axes": copied((1, 2, 3, 4, 5)),
    # Several images in a tensor.
    "several-images": chain(
        (1, 4, 6, 8),
        ("reshape", (2, 2, 6, 8), ReshapeAttributes((2, 2, 6, 8)), ()),
        ("conv_2d", (2, 2, 6, 5), PLAIN, ((5, 1, 1, 8),)),
    ),
    "several-images-reshaped": chain(
        (2, 4, 4, 8), ("reshape", (1, 256), ReshapeAttributes((1, 256)), ())
    ),
    "several-images-multiplied": chain(
        (2, 4, 4, 8), ("fully_connected", (2, 5), FullyConnectedAttributes(), ((5, 128),))
    ),
}


REFUSED = {
    "kernel": (kernel_of("conv_2d", (50, 50)), "2500 taps"),
    "kernel-by-channel": (kernel_of("depthwise_conv_2d", (50, 50)), "2500 taps"),
    "windows-of-means": (windows_of(132, 130, "average_pool_2d"), "16900 elements"),
    "windows-of-maxima": (windows_of(132, 130, "max_pool_2d"), "17160 pixels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_too_large_is_refused_with_a_reason(name: str) -> None:
    graph, reason = REFUSED[name]
    verify(graph)
    _, placements = divide(graph)
    found = [reject.what for placement in placements for reject in placement.rejects]
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.long
def test_vectors_go_to_the_host_between_strips() -> None:
    graph = vector_and_image()
    assert examined(graph, 1, Options(narrow_bytes=8192)) == ("", [])


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND)
def test_what_random_models_found(name: str) -> None:
    """Operators that another one keeps from the chip stay on the host, with a reason."""
    graph = FOUND[name]
    verify(graph)
    segments, placements = divide(graph)
    assert sum(len(placement.nodes) for placement in placements) == len(graph.nodes())
    assert segments
    for segment in segments:
        for seed in (1, 2):
            assert examined(segment.graph, seed) == ("", [])
    for placement in placements:
        assert placement.target == NAME or placement.rejects


@pytest.mark.parametrize("seed", [469, 926])
def test_weights_of_the_fifo_are_complete_before_others_come_on_their_channel(seed: int) -> None:
    """A depthwise convolution whose weights the fifo sends, and then one of both channels."""
    tally = check(seed)
    assert tally.failures == []
    assert tally.unordered == []
