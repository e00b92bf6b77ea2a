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
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    PadAttributes,
    StridedSliceAttributes,
)
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


@pytest.mark.parametrize(
    ("extent", "depths", "kernel"),
    [
        # The first chunk of a block waits for a slot, for the ring, and for scales and biases.
        ((7, 7), (160, 960), 3),
        ((14, 14), (96, 576), 3),
        # Tiles pass on columns that do not belong to their neighbours.
        ((6, 4), (512, 512), 5),
    ],
)
def test_weights_and_halos_are_estimated_as_they_come(
    extent: tuple[int, int], depths: tuple[int, int], kernel: int
) -> None:
    graph = chain(DType.INT8, (*extent, depths[0]))
    (x,) = graph.outputs
    graph.outputs = [graph.emit("abs", [x], graph.type(x), NO_ATTRIBUTES)]
    grow(graph, "conv_2d", depths[1], (1, 1), seed=1)
    grow(graph, "depthwise_conv_2d", depths[1], (kernel, kernel), stride=(2, 2), seed=2)
    (part,) = compile_edgetpu(Source.of(graph), costs=None).segments
    found = steps(form(part, Emitted).marks, estimate(part.package, "network"))
    (layer,) = [item for item in found if item.mark.kind == "convolution"]
    assert layer.mark.cycles == pytest.approx(layer.cycles, rel=0.06)


def test_bytes_that_join_a_word_last_take_no_phase_after_that() -> None:
    graph = chain(DType.INT8, (40, 40, 8))
    (x,) = graph.outputs
    x = graph.emit("abs", [x], graph.type(x), NO_ATTRIBUTES)
    parts = [
        graph.emit(
            "strided_slice",
            [x],
            replace(graph.type(x), shape=(1, 40, 40, channels)),
            StridedSliceAttributes((0, 0, 0, 0), (1, 40, 40, channels), (1, 1, 1, 1)),
        )
        for channels in (5, 3)
    ]
    graph.outputs = [
        graph.emit("concatenation", parts, graph.type(x), ConcatenationAttributes(axis=3))
    ]
    (part,) = compile_edgetpu(Source.of(graph), costs=None).segments
    found = steps(form(part, Emitted).marks, estimate(part.package, "network"))
    *_, layer = [item for item in found if item.mark.kind == "assembly"]
    assert layer.mark.cycles == pytest.approx(layer.cycles, rel=0.02)


def test_matrices_of_layers_for_single_elements_are_estimated() -> None:
    graph = chain(DType.INT8, (24, 24, 8))
    (x,) = graph.outputs
    type = graph.type(x)
    x = graph.emit("abs", [x], type, NO_ATTRIBUTES)
    box = StridedSliceAttributes((0, 0, 0, 0), (1, 24, 24, 1), (1, 1, 1, 1))
    one = graph.emit("strided_slice", [x], replace(type, shape=box.size), box)
    spread = graph.emit("add", [x, one], type, ActivationAttributes())
    double = graph.emit("add", [spread, spread], type, ActivationAttributes())
    graph.outputs = [graph.emit("abs", [double], type, NO_ATTRIBUTES)]
    (part,) = compile_edgetpu(Source.of(graph), costs=None).segments
    found = steps(form(part, Emitted).marks, estimate(part.package, "network"))
    judged = [item for item in found if item.mark.kind in ("channels", "pointwise")]
    assert [item.mark.kind for item in judged] == [
        "pointwise",
        "channels",
        "pointwise",
        "pointwise",
    ]
    for item in judged:
        assert item.mark.cycles == pytest.approx(item.cycles, rel=0.05), item.mark.name


@pytest.mark.long
def test_estimates_count_every_step_and_phase() -> None:
    graph = chain(DType.INT8, (40, 40, 16))
    (x,) = graph.outputs
    graph.outputs = [graph.emit("abs", [x], graph.type(x), NO_ATTRIBUTES)]
    # The last of two blocks has fewer words to write than steps.
    grow(graph, "conv_2d", 72, (1, 1), seed=1)
    (x,) = graph.outputs
    other = graph.emit("abs", [x], graph.type(x), NO_ATTRIBUTES)
    product = graph.emit("mul", [x, other], graph.type(x), ActivationAttributes())
    # The matrices of a sum of few words take about as long as its steps.
    box = StridedSliceAttributes((0, 0, 0, 0), (1, 4, 4, 8), (1, 1, 1, 1))
    small = replace(graph.type(x), shape=box.size)
    parts = [graph.emit("strided_slice", [item], small, box) for item in (other, product)]
    total = graph.emit("add", parts, small, ActivationAttributes())
    type = replace(graph.type(x), shape=(1, 44, 42, 72))
    padded = graph.emit("pad", [product], type, PadAttributes((0, 2, 1, 0), (0, 2, 1, 0)))
    graph.outputs = [padded, total]
    (part,) = compile_edgetpu(Source.of(graph), costs=None).segments
    found = steps(form(part, Emitted).marks, estimate(part.package, "network"))
    kinds = {"convolution", "product", "sum", "assembly"}
    judged = [item for item in found if item.mark.kind in kinds]
    assert {item.mark.kind for item in judged} == kinds
    for item in judged:
        assert item.mark.cycles == pytest.approx(item.cycles, rel=0.1), item.mark.name


@pytest.mark.long
def test_options_change_what_is_chosen() -> None:
    tight = figures(Options(parameter_rows=0))["depthwise"]
    assert tight.mark.variant.startswith("patch of 1 x 1, 1 word of channels, packed weights")
    assert tight.mark.cycles > figures()["depthwise"].mark.cycles
