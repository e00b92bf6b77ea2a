"""Borders of tensors that are no images: they become borders of images, and results are exact."""

from __future__ import annotations

import math

import pytest
from tests.compiler.edgetpu_models import Model, differences, findings, program

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.shape import PadAttributes, ReshapeAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.lowerings.borders import padded_images
from fitzroy.compiler.targets.edgetpu.partition.divide import refusals
from fitzroy.compiler.targets.edgetpu.program.lower import legalized
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Assembly


def bordered(
    shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...], seed: int = 1
) -> Graph:
    """A tensor, squared, with a border.

    Args:
        shape: of the tensor.
        before: elements added before each of its axes.
        after: elements added after them.
        seed: of scales.
    """
    model = Model(seed)
    x = model.graph.add_input("x", model.type(shape, 0.05))
    squares = model.emit("square", [x], model.type(shape, 0.1))
    added = zip(shape, before, after, strict=True)
    type = model.of(squares).with_shape(tuple(map(sum, added)))
    model.graph.outputs.append(model.emit("pad", [squares], type, PadAttributes(before, after)))
    return model.graph


def causal(dilation: int, *, steps: int = 24, width: int = 8, seed: int = 1) -> Graph:
    """A causal convolution over time, of three steps, as frameworks export it.

    Args:
        dilation: steps between those that a window reads.
        steps: of the sequence.
        width: numbers of a step.
        seed: of weights and scales.
    """
    model = Model(seed)
    x = model.graph.add_input("x", model.type((1, steps, width), 0.05))
    unit = model.unit(x)
    front = PadAttributes((0, 2 * dilation, 0), (0, 0, 0))
    longer = model.of(x).with_shape((1, steps + 2 * dilation, width))
    padded = model.emit("pad", [x], longer, front)
    image = longer.with_shape((1, 1, steps + 2 * dilation, width))
    padded = model.emit("reshape", [padded], image, ReshapeAttributes(image.shape))
    filters, about = model.weights((12, 1, 3, width), 0, 3 * width)
    bias = model.bias(12, 3 * width)
    after = model.type((1, 1, steps, 12), unit * about * math.sqrt(3 * width))
    a = ConvAttributes(dilation=(1, dilation), padding=PaddingScheme.VALID)
    made = model.emit("conv_2d", [padded, filters, bias], after, a)
    flat = ReshapeAttributes((1, steps, 12))
    model.graph.outputs.append(
        model.emit("reshape", [made], model.of(made).with_shape(flat.shape), flat)
    )
    return model.graph


@pytest.mark.parametrize("dilation", [1, 2, 8])
def test_windows_of_causal_convolutions_reach_over_the_border(dilation: int) -> None:
    graph = causal(dilation)
    verify(graph)
    assert not refusals(graph)
    package = program(graph)
    assert not differences(graph, package, seed=1)
    assert not findings(package)
    if dilation == 1:
        assert not any(isinstance(layer, Assembly) for layer in legalized(graph).layers)


@pytest.mark.parametrize(
    ("shape", "before", "after"),
    [
        ((7,), (2,), (3,)),
        ((1, 9), (0, 4), (0, 1)),
        ((3, 8), (0, 0), (2, 0)),
        ((1, 6, 8), (0, 3, 0), (0, 0, 0)),
        ((2, 6, 8), (0, 1, 4), (0, 2, 0)),
        ((2, 5, 3), (1, 0, 0), (0, 0, 2)),
        ((1, 4, 5, 2, 8), (0, 1, 2, 0, 0), (0, 1, 0, 0, 0)),
        ((2, 3, 4, 5, 6), (0, 0, 1, 0, 0), (0, 0, 1, 0, 0)),
    ],
)
def test_borders_are_exact(
    shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    graph = bordered(shape, before, after)
    verify(graph)
    assert not refusals(graph)
    package = program(graph)
    assert not differences(graph, package, seed=2)
    assert not findings(package)


def test_borders_that_no_image_has_are_refused() -> None:
    graph = bordered((1, 4, 5, 6, 7), (0, 1, 1, 1, 1), (0, 0, 0, 0, 0))
    ((node, reasons),) = refusals(graph).items()
    assert node == "pad"
    assert "adds a border" in reasons[0].reason


def test_nodes_that_are_added_stand_for_the_border() -> None:
    graph = causal(1)
    (pad,) = (node.name for node in graph.nodes() if node.op == "pad")
    images = padded_images(graph)
    assert set(images.origins.values()) == {pad}
    kept = {node.name for node in graph.nodes()}
    assert {node.name for node in images.graph.nodes()} - kept <= images.origins.keys()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32])
def test_images_and_real_numbers_stay_as_they_are(dtype: DType) -> None:
    graph = bordered((1, 4, 4, 8), (0, 1, 1, 0), (0, 1, 1, 0))
    if dtype is DType.FLOAT32:
        graph = Graph("real")
        x = graph.add_input("x", TensorType((1, 6, 8), dtype))
        a = PadAttributes((0, 2, 0), (0, 0, 0))
        graph.outputs.append(graph.emit("pad", [x], TensorType((1, 8, 8), dtype), a))
    assert padded_images(graph).graph is graph
