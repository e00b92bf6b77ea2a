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
from tests.compiler.edgetpu_reference import evaluate_on_device

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, print_graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
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
from fitzroy.compiler.targets.edgetpu.codegen.segments import NAME, divide

Step = tuple[str, tuple[int, ...], Attributes, tuple[tuple[int, ...], ...]]
"""Operator, shape of its result, attributes, and shapes of its constants."""

SHARD = 5
QUICK, FULL = 12, 400
"""Shards of `SHARD` seeds each that run by default, and with ``--full``."""

MOST_REFUSED = 0.05
"""Share of operators that may stay on the host."""


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


def tensor(shape: tuple[int, ...], scale: float = 0.1, zero: int = 139) -> TensorType:
    return TensorType(shape, DType.UINT8, Quantization.per_tensor(scale, zero))


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


def copied(shape: tuple[int, ...]) -> Graph:
    return chain(shape, ("quantize", shape, NO_ATTRIBUTES, ()))


def pooled(shape: tuple[int, ...], *steps: Step) -> Graph:
    """Operators behind a mean, which lies in blocks of channels."""
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
}


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
