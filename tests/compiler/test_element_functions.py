"""Functions that several operators make up, quantized as a whole for hardware with tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.edgetpu.test_integers import compared, on_host
from tests.compiler.test_unread import cycles

from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import MOST_OPERATORS, ClampAttributes
from fitzroy.compiler.quantization.calibrated import Quantized
from fitzroy.compiler.quantization.comparison import compare
from fitzroy.compiler.quantization.functions import FunctionUnit, element_functions
from fitzroy.compiler.quantization.options import Border, QuantizeOptions, RangeMethod
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.targets.edgetpu.lowerings.functions import has_table

Floats = npt.NDArray[np.float32]
Function = Callable[[detectors.Maker, str], str]

TABLES = QuantizeOptions(tables=True)


def unary(m: detectors.Maker, op: str, x: str) -> str:
    return m.emit(op, [x], m.shape(x))


def silu(m: detectors.Maker, x: str) -> str:
    return m.binary("mul", x, m.sigmoid(x))


def mish(m: detectors.Maker, x: str) -> str:
    above = m.binary("add", unary(m, "exp", x), 1.0)
    return m.binary("mul", x, unary(m, "tanh", unary(m, "log", above)))


def scaled_silu(m: detectors.Maker, x: str) -> str:
    """A sigmoid with a factor, as QuickGELU has it."""
    return m.binary("mul", x, m.sigmoid(m.binary("mul", x, 1.702)))


FUNCTIONS = {"silu": (silu, 2), "mish": (mish, 5), "scaled_silu": (scaled_silu, 3)}


def network(function: Function) -> Graph:
    """A function between two layers."""
    m = detectors.Maker()
    return m.done(m.layer(function(m, m.layer(m.image, 8)), 4))


def samples() -> list[dict[str, Floats]]:
    random = np.random.default_rng(3)
    shape = (1, detectors.SIDE, detectors.SIDE, 3)
    return [{"image": random.normal(size=shape).astype(np.float32)} for _ in range(4)]


def quantized(graph: Graph, options: QuantizeOptions) -> Quantized:
    return quantize_model(graph, samples(), options)


def decibels(result: Quantized) -> float:
    (found,) = compare(result.source, result.graph, samples()).outputs.values()
    return found.decibels


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_rounded_once(name: str) -> None:
    function, count = FUNCTIONS[name]
    graph = network(function)
    options = QuantizeOptions(ranges=RangeMethod.MINMAX)
    whole, each = quantized(graph, replace(options, tables=True)), quantized(graph, options)
    assert len(whole.looked_up) == count
    assert not each.looked_up
    assert decibels(whole) > decibels(each)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_chip_looks_it_up(name: str) -> None:
    """Everything is on the chip, and fewer cycles are spent than on the operators."""
    graph = network(FUNCTIONS[name][0])
    results = [quantized(graph, options) for options in (TABLES, QuantizeOptions())]
    sources = [Source.of(result.graph) for result in results]
    whole, each = (compile_edgetpu(source) for source in sources)
    assert not on_host(whole)
    assert len(whole.segments) == 1
    first, other = (cycles(compiled.segments[0].package) for compiled in (whole, each))
    assert first < other
    compared(sources[0], whole, 0)


def test_what_else_is_read_stays_quantized() -> None:
    """A result in between that a layer reads needs its own 8 bits."""
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    gate = m.sigmoid(x)
    both = m.binary("add", m.layer(m.binary("mul", x, gate), 4), m.layer(gate, 4))
    assert not element_functions(m.done(both), ())


def in_turn(m: detectors.Maker, x: str) -> list[str]:
    """A function of what another one gives, which a layer reads, too."""
    first = silu(m, x)
    return [m.layer(first, 4), m.layer(silu(m, first), 4)]


def side_by_side(m: detectors.Maker, x: str) -> list[str]:
    """Two functions of one value, which a layer reads, too."""
    return [m.layer(m.join([silu(m, x), mish(m, x)], 3), 4), m.layer(x, 4)]


def forked(m: detectors.Maker, x: str) -> list[str]:
    """Two functions of what another one gives."""
    first = silu(m, x)
    return [m.layer(silu(m, first), 4), m.layer(mish(m, first), 4)]


@pytest.mark.parametrize(("made", "count"), [(in_turn, 2), (side_by_side, 2), (forked, 3)])
def test_functions_that_share_values_are_tables_each(
    made: Callable[[detectors.Maker, str], list[str]], count: int
) -> None:
    m = detectors.Maker()
    graph = m.done(m.binary("add", *made(m, m.layer(m.image, 8))))
    result = quantized(graph, TABLES)
    assert len(result.scheme.functions) == count
    source = Source.of(result.graph)
    compiled = compile_edgetpu(source)
    assert not on_host(compiled)
    compared(source, compiled, 0)


def test_a_function_of_a_real_number_is_a_table() -> None:
    """Only what is kept stays on the host."""
    m = detectors.Maker()
    read = m.layer(m.image, 8)
    x = m.emit("maximum", [read, m.constant(np.array(0.1))], m.shape(read))
    graph = m.done(m.layer(silu(m, x), 4))
    result = quantized(graph, replace(TABLES, keep_float=["maximum"]))
    assert len(result.looked_up) == 2
    compiled = compile_edgetpu(Source.of(result.graph))
    assert on_host(compiled).isdisjoint(["sigmoid", "mul"])


def steps(m: detectors.Maker, x: str) -> str:
    """A stair, for which eight polynomials are too few."""
    total = ""
    for number in range(12):
        step = unary(m, "tanh", m.binary("mul", m.binary("sub", x, number * 0.4 - 2.53), 20.0))
        total = step if not total else m.binary("add", total, step)
    return total


def entropy(m: detectors.Maker, x: str) -> str:
    """A product that is no number at zero."""
    positive = m.reshape(unary(m, "abs", x), *m.shape(x))
    return m.binary("mul", positive, unary(m, "log", positive))


def test_operators_without_a_table_are_quantized_one_by_one() -> None:
    graph = network(steps)
    assert element_functions(graph, ())
    result = quantize_model(graph, samples(), TABLES, unit=FunctionUnit(has_table))
    assert not result.looked_up
    assert not on_host(compile_edgetpu(Source.of(result.graph)))


def test_what_is_not_finite_for_some_argument_is_not_looked_up() -> None:
    graph = network(entropy)
    assert element_functions(graph, ())
    result = quantized(graph, TABLES)
    assert not result.looked_up
    assert decibels(result) == decibels(quantized(graph, QuantizeOptions()))


def test_two_arguments_make_no_function() -> None:
    m = detectors.Maker()
    gated = m.binary("mul", m.layer(m.image, 8), m.sigmoid(m.layer(m.image, 8)))
    assert not element_functions(m.done(m.layer(gated, 4)), ())


def test_a_function_begins_behind_a_clamp() -> None:
    """What the clamp reads has its range, and not a larger one."""
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    clamped = m.emit("clamp", [x], m.shape(x), ClampAttributes(-1, 1))
    (found,) = element_functions(m.done(m.layer(silu(m, clamped), 4)), ())
    assert found.source == clamped
    assert found.is_alone


def test_what_gives_outputs_or_fixed_scales_makes_no_function() -> None:
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    assert not element_functions(m.done(silu(m, x)), ())
    m = detectors.Maker()
    probability = m.sigmoid(m.binary("mul", m.layer(m.image, 8), 2.0))
    assert not element_functions(m.done(m.layer(probability, 4)), ())


def test_operators_and_values_that_are_kept_belong_to_none() -> None:
    graph = network(silu)
    nodes = {node.op: node for node in graph.nodes()}
    assert element_functions(graph, ())
    assert not element_functions(graph, {nodes["sigmoid"].name})
    assert not element_functions(graph, (), {nodes["sigmoid"].outputs[0]})
    kept = quantized(graph, replace(TABLES, keep_float=["LOGISTIC"]))
    assert not kept.looked_up


@pytest.mark.parametrize("border", Border)
def test_a_function_of_an_input_is_not_looked_up(border: Border) -> None:
    """An input that only operators on real numbers read would be float32."""
    m = detectors.Maker()
    graph = m.done(m.layer(silu(m, m.image), 4))
    result = quantized(graph, replace(TABLES, input_type=border))
    assert not result.looked_up


def test_a_long_chain_is_several_functions() -> None:
    """Each has as many operators as a table takes, at most."""
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    for _ in range(40):
        x = m.emit("tanh", [m.binary("mul", x, 0.9)], m.shape(x))
    graph = m.done(m.layer(m.binary("add", x, 0.5), 4))
    found = sorted(len(function.nodes) for function in element_functions(graph, ()))
    assert sum(found) > 78
    assert MOST_OPERATORS - 2 < found[-1] <= MOST_OPERATORS
    compiled = compile_edgetpu(Source.of(quantized(graph, TABLES).graph))
    assert not on_host(compiled)


def test_it_computes_what_its_operators_do() -> None:
    (function,) = element_functions(network(mish), ())
    x = np.linspace(-8, 8, 200)
    assert function(x) == pytest.approx(x * np.tanh(np.log1p(np.exp(x))), abs=1e-5)


def test_only_what_levels_off_needs_a_wider_range() -> None:
    (function,) = element_functions(network(silu), ())
    assert function.levels_off(-6.0, 6.0)
    assert not function.levels_off(1.0, 6.0)


@pytest.mark.filterwarnings("error")
def test_an_argument_may_be_the_same_everywhere() -> None:
    m = detectors.Maker()
    graph = m.done(m.layer(silu(m, m.layer(m.image, 1)), 4))
    black = [{"image": np.zeros_like(sample["image"])} for sample in samples()]
    assert len(quantize_model(graph, black, TABLES).looked_up) == 2


def test_ranges_end_where_a_function_is_almost_constant() -> None:
    """Far below zero, a step more or less of a table costs less than what is cut off."""
    graph = network(silu)
    (function,) = element_functions(graph, ())
    found = {}
    for options in (TABLES, QuantizeOptions()):
        result = quantized(graph, options)
        scheme = result.scheme.quantizations[function.source]
        found[options.tables] = scheme.scale[0] * (-128 - scheme.zero_point[0])
    assert -12 < found[True] < -5
    assert found[True] < found[None]
