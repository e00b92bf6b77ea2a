"""What reports say of the choices of the code generator, and how well its estimates hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow

from fitzroy.base.types import DType
from fitzroy.compilation.edgetpu import compile_edgetpu, form
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import NO_ATTRIBUTES
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.execution.estimate import StepFigures, estimate, steps
from fitzroy.hw_models.numerics import Sampling


def figures(options: Options = DEFAULT) -> dict[str, StepFigures]:
    """What the layers of a small network cost, by their kinds."""
    graph = chain(DType.INT8, (24, 24, 8))
    grow(graph, "conv_2d", 96, (1, 1), seed=1)
    grow(graph, "depthwise_conv_2d", 96, (3, 3), seed=2)
    grow(graph, "conv_2d", 72, (1, 1), seed=3)
    (part,) = compile_edgetpu(Source.of(graph), generator=options).segments
    found = steps(form(part, Emitted).marks, estimate(part.package, "network"))
    return {item.mark.kind: item for item in found if item.mark.variant}


@pytest.mark.long
def test_choices_are_said_and_expected() -> None:
    made = figures()
    assert made.keys() == {"convolution", "depthwise"}
    assert "2 parts of output channels" in made["convolution"].mark.variant
    depthwise = made["depthwise"]
    assert depthwise.mark.variant.startswith("patch of ")
    assert abs(depthwise.mark.cycles / depthwise.cycles - 1) < 0.1
    for item in made.values():
        assert 0 < item.least < item.cycles


@pytest.mark.long
def test_estimates_of_layers_are_within_a_tenth() -> None:
    graph = chain(DType.INT8, (40, 40, 8))
    grow(graph, "conv_2d", 192, (1, 1), seed=1)
    grow(graph, "depthwise_conv_2d", 192, (3, 3), seed=2)
    grow(graph, "conv_2d", 64, (1, 1), seed=3)
    (x,) = graph.outputs
    sides = [graph.emit("abs", [x], graph.type(x), NO_ATTRIBUTES) for _ in range(2)]
    total = graph.emit("add", sides, graph.type(x), ActivationAttributes())
    type = replace(graph.type(x), shape=(1, 64, 44, 64))
    attributes = ResizeAttributes((64, 44), Sampling.HALF_PIXEL)
    graph.outputs = [graph.emit("resize_bilinear", [total], type, attributes)]
    (part,) = compile_edgetpu(Source.of(graph), costs=None).segments
    found = steps(form(part, Emitted).marks, estimate(part.package, "network"))
    kinds = {item.mark.kind for item in found if item.mark.cycles}
    assert kinds >= {"receive", "convolution", "depthwise", "pointwise", "sum", "send"}
    for item in found:
        if item.mark.cycles:
            assert item.mark.cycles == pytest.approx(item.cycles, rel=0.1), item.mark.name


@pytest.mark.long
def test_options_change_what_is_chosen() -> None:
    tight = figures(Options(parameter_rows=0))["depthwise"]
    assert tight.mark.variant.startswith("patch of 1 x 1, 1 word of channels, packed weights")
    assert tight.mark.cycles > figures()["depthwise"].mark.cycles
