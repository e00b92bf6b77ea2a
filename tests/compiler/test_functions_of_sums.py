"""Functions of sums that are not rounded before them: they end convolutions and products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.edgetpu.test_integers import on_host
from tests.compiler.edgetpu_models import assert_exact
from tests.compiler.test_element_functions import FUNCTIONS as SPELLED
from tests.compiler.test_element_functions import TABLES, decibels, samples, silu
from tests.compiler.test_unread import cycles
from tests.support import need_litert

from fitzroy.base.types import DType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.segments import compile_segments
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.quantization.calibrated import Quantized
from fitzroy.compiler.quantization.functions import FunctionUnit
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.lowerings.functions import has_table
from fitzroy.compiler.targets.edgetpu.parameters.polynomials import approximated
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.formats import tflite
from fitzroy.hw_models import numerics

Doubles = npt.NDArray[np.float64]
Layer = Callable[[detectors.Maker, str], str]


def depthwise(m: detectors.Maker, x: str) -> str:
    """A depthwise convolution with random filters."""
    shape = m.shape(x)
    kernel = m.constant(m.random.normal(0, 0.6, (1, 3, 3, shape[3])))
    a = ConvAttributes(padding=PaddingScheme.SAME)
    return m.emit("depthwise_conv_2d", [x, kernel], shape, a)


def dense(m: detectors.Maker, x: str) -> str:
    """A product of a matrix and all elements of a small image."""
    x = m.layer(x, 8, 8)
    rows = m.reshape(x, 1, int(np.prod(m.shape(x))))
    kernel = m.constant(m.random.normal(0, 0.1, (24, m.shape(rows)[1])))
    a = FullyConnectedAttributes()
    found = m.emit("fully_connected", [rows, kernel, m.constant(np.ones(24))], (1, 24), a)
    return m.reshape(silu(m, found), 1, 1, 1, 24)


def network(*layers: Layer) -> Graph:
    """Layers with a SiLU after each, between two more."""
    m = detectors.Maker()
    x = silu(m, m.layer(m.image, 8))
    for layer in layers:
        x = silu(m, layer(m, x))
    return m.done(m.layer(x, 4))


def quantized(graph: Graph, unit: FunctionUnit = FUNCTIONS) -> Quantized:
    return quantize_model(graph, samples(), TABLES, unit=unit)


@pytest.mark.parametrize("name", SPELLED)
def test_sums_are_not_rounded_before_a_function(name: str) -> None:
    """So that less noise is left, and fewer cycles are spent."""
    m = detectors.Maker()
    graph = m.done(m.layer(SPELLED[name][0](m, m.layer(m.image, 8)), 4))
    whole, each = quantized(graph), quantized(graph, FunctionUnit(has_table))
    assert len(whole.scheme.sums) == 1
    assert not each.scheme.sums
    assert decibels(whole) > decibels(each) + 0.5
    compiled = [compile_edgetpu(Source.of(result.graph)) for result in (whole, each)]
    assert [len(one.segments) for one in compiled] == [1, 1]
    assert not on_host(compiled[0])
    first, other = (cycles(one.segments[0].package) for one in compiled)
    assert first < other


@pytest.mark.parametrize("layer", [depthwise, dense, lambda m, x: m.layer(x, 70)])
def test_the_chip_gives_what_the_twin_gives(layer: Layer) -> None:
    result = quantized(network(layer))
    assert len(result.scheme.sums) >= 2
    assert_exact(result.graph)


def test_the_chip_is_close_to_its_operators() -> None:
    """LiteRT runs these. Polynomials change few results, and those by one unit."""
    need_litert()
    from ai_edge_litert.interpreter import Interpreter

    graph = quantized(network()).graph
    (name,) = graph.inputs
    q = graph.type(name).quantization
    assert q is not None
    picture = numerics.quantize(samples()[0][name], q, DType.INT8)
    (found,) = evaluate_on_device(graph, {name: picture}).values()
    interpreter = Interpreter(model_content=tflite.write_model(export_model(graph)))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], picture)
    interpreter.invoke()
    wanted = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    gap = np.abs(found.astype(int) - wanted)
    assert gap.max() <= 1
    assert np.count_nonzero(gap) < 0.02 * gap.size


def test_other_hardware_gets_the_same_file() -> None:
    """A file says it in operators that every runtime has, and becomes the same program."""
    graph = quantized(network(depthwise)).graph
    model = tflite.read_model(tflite.write_model(export_model(graph)))
    first, again = Source.of(graph), Source.of(import_model(model))
    assert compile_edgetpu(first).data == compile_edgetpu(again).data


def test_functions_that_hardware_does_not_compute_read_integers() -> None:
    graph = network()
    unit = FunctionUnit(has_table, lambda function, scale, zero_point: False)
    found = quantized(graph, unit)
    assert not found.scheme.sums
    assert print_graph(found.graph) == print_graph(quantized(graph, FunctionUnit(has_table)).graph)


def test_sums_that_others_read_are_rounded() -> None:
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    result = quantized(m.done(m.binary("add", m.layer(silu(m, x), 4), m.layer(x, 4))))
    assert not result.scheme.sums
    assert result.looked_up


def test_a_clamp_of_sums_belongs_to_the_function() -> None:
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    clamped = m.emit("clamp", [x], m.shape(x), ClampAttributes(-np.inf, 1.5))
    result = quantized(m.done(m.layer(silu(m, clamped), 4)))
    assert result.scheme.sums == {x}
    assert "minimum" in {node.op for node in result.graph.nodes()}
    assert_exact(result.graph)


@pytest.mark.parametrize("op", ["hardswish", "sigmoid"])
def test_a_single_function_of_sums_is_one_too(op: str) -> None:
    """TFLite has a kernel of 8 bits for it, before which sums are rounded."""
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    graph = m.done(m.layer(m.emit(op, [x], m.shape(x)), 4))
    result = quantized(graph)
    assert result.scheme.sums == {x}
    assert decibels(result) > decibels(quantized(graph, FunctionUnit(has_table)))
    assert_exact(result.graph)


def test_what_is_asked_to_stay_float_is_no_function_of_sums() -> None:
    m = detectors.Maker()
    x = m.layer(m.image, 8)
    graph = m.done(m.layer(m.emit("hardswish", [x], m.shape(x)), 4))
    kept = replace(TABLES, keep_float=["HARD_SWISH"])
    result = quantize_model(graph, samples(), kept, unit=FUNCTIONS)
    assert not result.scheme.sums


@pytest.mark.parametrize("options", [Options(), Options(conservative=True)])
def test_programs_that_may_have_its_form_compute_it(options: Options) -> None:
    compiled = compile_edgetpu(Source.of(quantized(network()).graph), generator=options)
    assert not on_host(compiled)


def test_models_are_not_cut_between_sums_and_functions() -> None:
    """Real numbers cannot leave a chip."""
    source = Source.of(quantized(network(depthwise)).graph)
    segments = compile_segments(source, 3)
    assert len(segments) == 3
    assert not any(map(on_host, segments))


def test_the_host_computes_what_is_not_confirmed() -> None:
    """Its operators have kernels on real numbers."""
    options = Options(confirmed=frozenset())
    source = Source.of(quantized(network()).graph)
    compiled = compile_edgetpu(source, generator=options)
    assert {"conv_2d", "sigmoid"} <= on_host(compiled)
    assert len(compiled.segments) == 1


# --- polynomials ---------------------------------------------------------------------------------


def sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x.clip(-500, 500))))


@pytest.mark.parametrize("reach", [1.0, 6.0, 50.0])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * sigmoid(x),
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x: x / 2 * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3))),
        lambda x: np.where(x > 0, x, np.expm1(x.clip(-50, 0))),
    ],
)
def test_polynomials_are_close_to_functions(
    function: Callable[[Doubles], Doubles], reach: float
) -> None:
    scale, zero = (reach + 1) / 255, 40
    found = approximated(function, scale, zero)
    assert found is not None
    x = np.linspace(-40, 2 * reach, 100_001)
    wanted = (function(x) / scale).clip(-zero, 255 - zero)
    given = found(x.astype(np.float32)).clip(-zero, 255 - zero)
    assert np.abs(given - wanted).max() < 0.06


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sin(9 * x),
        lambda x: np.full_like(x, np.nan),
        lambda x: np.zeros_like(x),
        lambda x: np.where(x > 0, 1e300, -1.0),
    ],
)
def test_some_functions_have_no_polynomials(function: Callable[[Doubles], Doubles]) -> None:
    assert approximated(function, 1 / 255, 128) is None
