"""Choices by known conditions become products when a model is quantized."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.test_quantize import apply, normal, real

from fitzroy.base.types import Array, DType
from fitzroy.compilation.quantizing import quantize
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.quantization.comparison import compare
from fitzroy.compiler.quantization.pipeline import prepared
from fitzroy.compiler.reference import evaluate

RNG = np.random.default_rng(8)


def choice(condition: Array, x: Array | None, y: Array | None, *shape: int) -> Graph:
    """A choice between constants or, where one is None, twice the input and its square."""
    graph = Graph("choice")
    graph.add_input("in", real(*shape))
    two = graph.add_constant("two", np.array(2, np.float32))
    (twice,) = apply(graph, "mul", ("in", two), ActivationAttributes())
    (square,) = apply(graph, "mul", ("in", "in"), ActivationAttributes())
    names = [graph.add_constant("condition", condition)]
    for name, given in ((twice, x), (square, y)):
        names.append(name if given is None else graph.add_constant("given", given))
    graph.outputs = apply(graph, "select", names)
    graph.prune()
    return graph


TRIANGLE = np.tri(6, dtype=np.bool_)
ZERO, ROW = np.zeros((), np.float32), np.linspace(-3, 5, 6, dtype=np.float32)


@pytest.mark.parametrize(
    ("x", "y", "operators"),
    [
        (None, ZERO, ["mul", "mul"]),
        (ZERO, None, ["mul", "mul"]),
        (None, ROW, ["mul", "mul", "add"]),
        (None, None, ["mul", "mul", "mul", "mul", "add"]),
    ],
    ids=["zeros", "zeros first", "numbers", "both vary"],
)  # fmt: skip
def test_is_a_product(x: Array | None, y: Array | None, operators: list[str]) -> None:
    graph = choice(TRIANGLE, x, y, 2, 6, 6)
    sample = {"in": normal(RNG, 2, 6, 6)}
    found = prepared(graph)
    assert [node.op for node in found.nodes()] == operators
    (name,) = graph.outputs
    np.testing.assert_array_equal(evaluate(found, sample)[name], evaluate(graph, sample)[name])
    quantized = quantize(graph, [sample])
    assert "select" not in [node.op for node in quantized.nodes()]
    assert compare(graph, quantized, [sample]).outputs[name].decibels > 30


def test_a_smaller_operand_fills_the_result() -> None:
    graph = choice(np.ones((3, 6), np.bool_), None, ROW, 1, 6)
    (node,) = (node for node in prepared(graph).nodes() if node.outputs == tuple(graph.outputs))
    assert node.op == "mul"
    sample = {"in": normal(RNG, 1, 6)}
    (name,) = graph.outputs
    wanted = evaluate(graph, sample)[name]
    np.testing.assert_array_equal(evaluate(prepared(graph), sample)[name], wanted)


@pytest.mark.parametrize("given", [-np.inf, np.nan])
def test_numbers_that_are_not_finite_are_chosen(given: float) -> None:
    graph = choice(TRIANGLE, None, np.array(given, np.float32), 2, 6, 6)
    assert "select" in [node.op for node in prepared(graph).nodes()]


def test_conditions_that_vary_choose() -> None:
    graph = Graph("varies")
    graph.add_input("in", real(2, 6))
    zero = graph.add_constant("zero", ZERO)
    (condition,) = apply(graph, "greater", ("in", zero), dtype=DType.BOOL)
    graph.outputs = apply(graph, "select", (condition, "in", zero))
    assert "select" in [node.op for node in prepared(graph).nodes()]
