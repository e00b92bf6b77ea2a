from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tests.compiler.zoo import random_inputs, zoo

from fitzroy.base import budget
from fitzroy.base.errors import CapacityError, FitzroyError, UsageError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, TypeRuleError
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.reference import check, demand_memory, evaluate
from fitzroy.hw_models.numerics import Arithmetic

_JUDGED, _FIXED = 40_000, 20_000
"""Bytes from which an evaluation is judged, and of these what does not grow with tensors."""

HALVES = Quantization.per_tensor(0.5)


@contextmanager
def little_memory(most: int = 1 << 20) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 1), ("4GiB", 4 << 30), ("1.5 k", 1500), ("512 MiB", 512 << 20), ("2tb", 2 * 10**12)],
)
def test_amounts(text: str, count: int) -> None:
    assert budget.parse(text, "--memory") == count


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "4 GiB more", "1e9", "9" * 5000, "٤GiB"])
def test_texts_that_are_no_amounts(text: str) -> None:
    with pytest.raises(UsageError, match="--memory takes an amount"):
        budget.parse(text, "--memory")


def test_what_sets_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(budget.VARIABLE, raising=False)
    assert budget.limit() == budget.DEFAULT
    monkeypatch.setenv(budget.VARIABLE, "1MiB")
    assert budget.limit() == 1 << 20
    with budget.limited(1000):
        assert budget.limit() == 1000
        budget.demand(600, "one", held=400)
        with pytest.raises(CapacityError) as caught:
            budget.demand(601, "the other", held=400, where="here")
    text = str(caught.value)
    assert "here: the other wants 601 B" in text
    assert "beside 400 B in use, and the budget is 1000 B" in text
    assert "--memory 1KiB" in text
    assert budget.limit() == 1 << 20
    monkeypatch.setenv(budget.VARIABLE, "much")
    with pytest.raises(UsageError, match=budget.VARIABLE):
        budget.limit()


def resizing(extent: int) -> Graph:
    graph = Graph("vast")
    graph.add_input("x", TensorType((1, 8, 8, 1), DType.INT8, HALVES))
    result = TensorType((1, extent, extent, 1), DType.INT8, HALVES)
    attributes = ResizeAttributes((extent, extent))
    graph.outputs = [graph.emit("resize_bilinear", ["x"], result, attributes, stem="y")]
    return graph


def test_a_few_bytes_ask_for_many() -> None:
    x = np.zeros((1, 8, 8, 1), np.int8)
    with (
        little_memory(),
        pytest.raises(CapacityError, match=r"resize_bilinear 'y', which gives int8\[1,60000"),
    ):
        evaluate(resizing(60_000), {"x": x})
    with budget.limited(100_000), pytest.raises(CapacityError, match="budget is 97"):
        evaluate(resizing(100), {"x": x})
    assert evaluate(resizing(100), {"x": x})["y"].shape == (1, 100, 100, 1)


def test_values_that_are_kept_count() -> None:
    """Each node fits alone; after many, what they gave is in the way."""
    graph = Graph("long")
    type = TensorType((1000,), DType.FLOAT32)
    graph.add_input("x", type)
    last = "x"
    for _ in range(100):
        last = graph.emit("abs", [last], type, stem="y")
    graph.outputs = [last]
    inputs = {"x": np.zeros(1000, np.float32)}
    with budget.limited(200_000):
        evaluate(graph, inputs)
        with pytest.raises(CapacityError, match="in use"):
            evaluate(graph, inputs, keep=True)


def scaled(graph: Graph, axis: int, factor: int) -> Graph | None:
    """A graph of one node with longer inputs, None if its operator does not take them."""
    (node,) = graph.nodes()
    result = Graph(graph.name)
    for name in graph.inputs:
        type = graph.type(name)
        shape = list(type.shape)
        if len(shape) <= axis:
            return None
        shape[axis] *= factor
        result.add_input(name, type.with_shape(tuple(shape)))
    for value in graph.values.values():
        if value.is_constant or value.name in node.outputs:
            result.add_value(value)
    result.add_node(node)
    result.outputs = list(node.outputs)
    try:
        expected = OPS[node.op].infer(Call.of(result, node))
        for name, want in zip(node.outputs, expected, strict=True):
            result.set_value(Value(name, graph.type(name).with_shape(want.shape)))
        check(result, node)
    except (TypeRuleError, FitzroyError, ValueError, IndexError):
        return None
    return result


def test_estimates_hold() -> None:
    """No kernel of the sample takes more than was asked for, but for what does not grow."""
    rng = np.random.default_rng(0)
    judged = set()
    for graph in zoo().values():
        if len(graph.nodes()) != 1:
            continue
        for larger in filter(None, (scaled(graph, axis, 200) for axis in (0, 1))):
            (node,) = larger.nodes()
            inputs = random_inputs(larger, rng)
            for arithmetic in Arithmetic:
                tracemalloc.start()
                evaluate(larger, inputs, arithmetic)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                if peak < _JUDGED:
                    continue
                judged.add(node.op)
                with budget.limited(peak - _FIXED), pytest.raises(CapacityError, match=node.op):
                    demand_memory(larger, node)
    assert len(judged) > 30, judged
