"""Means of more elements than the Edge TPU sums at a time."""

from __future__ import annotations

import numpy as np
import pytest

from fitzroy.base.types import DType, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.quantization.comparison import compare, stored_input
from fitzroy.compiler.quantization.means import MOST_ELEMENTS, divide_means
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.reference import evaluate
from fitzroy.compiler.targets.edgetpu.lowerings.pools import MOST_SUMMED
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice


def mean(shape: tuple[int, ...], axes: tuple[int, ...], *, keep: bool = True) -> Graph:
    """A mean of an input."""
    graph = Graph("mean")
    image = graph.add_input("image", TensorType(shape, DType.FLOAT32))
    left = tuple(1 if n in axes else x for n, x in enumerate(shape) if keep or n not in axes)
    kind = TensorType(left, DType.FLOAT32)
    graph.outputs = [graph.emit("mean", [image], kind, ReductionAttributes(axes, keep))]
    return graph


def picture(shape: tuple[int, ...], seed: int) -> dict[str, np.ndarray]:
    """An image whose channels differ."""
    random = np.random.default_rng(seed)
    levels = random.uniform(-1, 1, shape[-1])
    return {"image": (random.normal(size=shape) + levels).astype(np.float32)}


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes()]


def test_as_many_elements_are_summed_at_once_as_the_chip_sums() -> None:
    assert MOST_ELEMENTS == MOST_SUMMED


@pytest.mark.parametrize(
    ("shape", "axes", "keep", "found"),
    [
        ((1, 128, 128, 3), (1, 2), True, ["mean"]),
        ((1, 160, 160, 3), (1, 2), True, ["average_pool_2d", "mean"]),
        ((2, 129, 201, 3), (1, 2), False, ["average_pool_2d", "mean"]),
        # Only all of its rows divide it evenly.
        ((1, 257, 67, 3), (1, 2), True, ["average_pool_2d", "mean"]),
        ((1, 32, 32, 16), (1, 2, 3), True, ["mean"]),
        ((1, 32, 32, 17), (1, 2, 3), True, ["mean", "mean"]),
        ((1, 160, 160, 3), (1, 2, 3), False, ["average_pool_2d", "mean", "mean"]),
        # Channels in groups, as Keras normalizes them.
        ((1, 32, 32, 4, 8), (1, 2, 4), True, ["reshape", "mean", "reshape", "mean"]),
        (
            (2, 160, 160, 3, 2),
            (1, 2, 4),
            False,
            ["reshape", "average_pool_2d", "mean", "reshape", "mean"],
        ),
        ((1, 32, 32, 4, 8), (1, 2), True, ["mean"]),
        # Others are not over images.
        ((1, 160, 160, 3), (1,), True, ["mean"]),
        ((160, 160, 3), (0, 1), True, ["mean"]),
    ],
)
def test_means_of_many_elements_are_taken_in_two_steps(
    shape: tuple[int, ...], axes: tuple[int, ...], keep: bool, found: list[str]
) -> None:
    graph = mean(shape, axes, keep=keep)
    divided = graph.copy()
    divide_means(divided)
    assert operators(divided) == found
    inputs = picture(shape, 1)
    (before,), (after,) = (evaluate(each, inputs).values() for each in (graph, divided))
    assert after.shape == before.shape
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def test_steps_are_of_no_more_elements_than_can_be_summed() -> None:
    graph = mean((1, 640, 480, 2), (1, 2))
    divide_means(graph)
    pool, whole = graph.nodes()
    _, height, width, _ = graph.type(str(whole.inputs[0])).shape
    assert height * width <= MOST_ELEMENTS
    assert (640 // height) * (480 // width) == 20
    assert operators(graph) == [pool.op, whole.op]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 132, 136, 4), (1, 2)),
        ((1, 132, 136, 4), (1, 2, 3)),
        ((1, 48, 48, 4, 8), (1, 2, 4)),
    ],
)
def test_quantized_means_of_many_elements_run_on_the_chip(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    """The image is scaled by them, as in squeeze and excitation."""
    graph = mean(shape, axes)
    product = graph.emit(
        "mul", ["image", graph.outputs[0]], graph.type("image"), ActivationAttributes()
    )
    graph.outputs.append(product)
    given = [picture(shape, seed) for seed in range(9)]
    result = quantize_model(graph, given[:8], QuantizeOptions())
    for off in compare(result.source, result.counterpart, given[8:]).outputs.values():
        assert off.decibels > 30
    compiled = compile_edgetpu(Source.of(result.graph))
    assert not compiled.unmapped
    assert len(compiled.segments) == 1
    with (
        Interpreter(compiled.data, device="sim:direct") as chip,
        Interpreter(compiled.data, device=TwinDevice(result.graph)) as twin,
    ):
        stored = {"image": stored_input(given[8]["image"], result.graph.type("image"))}
        for ours, theirs in zip(chip.run(stored).values(), twin.run(stored).values(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
