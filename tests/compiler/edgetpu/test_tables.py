"""Functions of one element that several operators make up: the chip looks their results up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.compiler.edgetpu.test_integers import REAL, SHAPE, Reals, compared, on_host

from fitzroy.base.types import DType, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Attributes, Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.canonicalize import FoldConstants
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.lowerings.tables import as_tables

PLAIN = ActivationAttributes()


class Functions(Reals):
    """A model with functions that it spells out."""

    def known(self, value: float) -> str:
        """A constant of one real number."""
        return self.graph.add_constant("c", np.array(value, np.float32))

    def unary(self, op: str, x: str, attributes: Attributes | None = None) -> str:
        """Append a function of real numbers."""
        return self.emit(op, [x], REAL, attributes or Attributes())

    def binary(self, op: str, x: str, y: str) -> str:
        """Append an operator on real numbers."""
        return self.emit(op, [x, y], REAL, PLAIN)


def hard_sigmoid(model: Functions, x: str) -> str:
    """A product, a sum and a clamp."""
    scaled = model.binary("mul", x, model.known(0.2))
    return model.unary(
        "clamp", model.binary("add", scaled, model.known(0.5)), ClampAttributes(0, 1)
    )


def silu(model: Functions, x: str) -> str:
    """A product of the element and its sigmoid."""
    return model.binary("mul", x, model.unary("sigmoid", x))


def softplus(model: Functions, x: str) -> str:
    """A logarithm of an exponential."""
    return model.unary("log", model.binary("add", model.unary("exp", x), model.known(1.0)))


def mish(model: Functions, x: str) -> str:
    """A product with another function."""
    return model.binary("mul", x, model.unary("tanh", softplus(model, x)))


def softsign(model: Functions, x: str) -> str:
    """A quotient of two functions."""
    return model.binary("div", x, model.binary("add", model.unary("abs", x), model.known(1.0)))


def elu(model: Functions, x: str) -> str:
    """A choice, as SELU is, too."""
    below = model.binary("sub", model.unary("exp", x), model.known(1.0))
    condition = TensorType(SHAPE, DType.BOOL)
    above = model.emit("greater", [x, model.known(0.0)], condition)
    return model.emit("select", [above, x, below], REAL)


def between_conversions(function: Callable[[Functions, str], str], *, shown: bool = False) -> Graph:
    """A function among operators on integers.

    Args:
        function: appends it to a model.
        shown: whether its result is also an output, in real numbers.
    """
    model = Functions(3)
    x = model.graph.add_input("x", model.type(SHAPE, 0.03))
    inner = model.emit("abs", [x], model.type(SHAPE, 0.03))
    result = function(model, model.emit("dequantize", [inner], REAL))
    stored = model.emit("quantize", [result], model.type(SHAPE, 0.02))
    model.graph.outputs.append(model.emit("abs", [stored], model.type(SHAPE, 0.02)))
    if shown:
        model.graph.outputs.append(result)
    verify(model.graph)
    return model.graph


@pytest.mark.parametrize("function", [hard_sigmoid, silu, softplus, mish, softsign, elu])
def test_functions_that_operators_make_up_are_looked_up(
    function: Callable[[Functions, str], str],
) -> None:
    source = Source.of(between_conversions(function))
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=1)
    assert [node.op for node in as_tables(source.graph).graph.nodes()] == ["abs", "lookup", "abs"]


def test_functions_may_share_a_conversion() -> None:
    model = Functions(3)
    x = model.graph.add_input("x", model.type(SHAPE, 0.03))
    real = model.emit("dequantize", [model.emit("abs", [x], model.type(SHAPE, 0.03))], REAL)
    for function in (silu, mish):
        stored = model.emit("quantize", [function(model, real)], model.type(SHAPE, 0.02))
        model.graph.outputs.append(model.emit("abs", [stored], model.type(SHAPE, 0.02)))
    verify(model.graph)
    found = [node.op for node in as_tables(model.graph).graph.nodes()]
    assert sorted(found) == ["abs", "abs", "abs", "lookup", "lookup"]
    source = Source.of(model.graph)
    compiled = compile_edgetpu(source, costs=None)
    assert not on_host(compiled)
    compared(source, compiled, steps=1)


def test_results_that_others_read_are_not_looked_up() -> None:
    graph = between_conversions(silu, shown=True)
    assert as_tables(graph).graph is graph
    compiled = compile_edgetpu(Source.of(graph), costs=None)
    assert {"mul", "sigmoid"} <= on_host(compiled)


def test_functions_of_two_values_are_not_looked_up() -> None:
    model = Functions(3)
    x, y = (model.graph.add_input(name, model.type(SHAPE, 0.03)) for name in "xy")
    reals = [model.emit("dequantize", [name], REAL) for name in (x, y)]
    power = model.binary("div", silu(model, reals[0]), reals[1])
    model.graph.outputs.append(model.emit("quantize", [power], model.type(SHAPE, 0.02)))
    verify(model.graph)
    assert as_tables(model.graph).graph is model.graph


def test_functions_that_differ_from_element_to_element_are_not_looked_up() -> None:
    def beyond(model: Functions, x: str) -> str:
        grid = model.graph.add_constant("grid", np.arange(np.prod(SHAPE), dtype=np.float32))
        grid = model.emit("reshape", [grid], REAL, ReshapeAttributes(SHAPE))
        return model.binary("mul", model.unary("exp", x), grid)

    graph = run_passes(between_conversions(beyond), [FoldConstants()])
    assert as_tables(graph).graph is graph


def test_functions_without_a_table_stay_on_the_host() -> None:
    def wave(model: Functions, x: str) -> str:
        return model.unary("sin", model.binary("mul", x, model.known(90.0)))

    source = Source.of(between_conversions(wave))
    assert as_tables(source.graph).graph is source.graph
    compiled = compile_edgetpu(source, costs=None)
    assert on_host(compiled) == {"dequantize", "mul", "sin", "quantize"}
    compared(source, compiled, steps=0)
