"""Convolutions in groups: which groups are computed together, and that results are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.compiler.edgetpu_models import Model, differences, findings, program

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.shape import PadAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.lowerings.groups import ungrouped
from fitzroy.compiler.targets.edgetpu.partition.divide import refusals


def grouped(
    groups: int,
    depth: int,
    outputs: int,
    *,
    padded: bool = False,
    stride: int = 1,
    kernel: int = 3,
    seed: int = 1,
    dtype: DType = DType.INT8,
) -> Graph:
    """A convolution of an image of 9 x 10 pixels.

    Args:
        groups: how many groups it has.
        depth: channels that a group reads.
        outputs: channels that it makes.
        padded: whether a node in front of it adds a border.
        stride: rows and columns between windows.
        kernel: extent of the filter.
        seed: of weights and scales.
        dtype: of the image.
    """
    model = Model(seed)
    model.dtype = dtype
    image = model.graph.add_input("x", model.type((1, 9, 10, groups * depth), 0.05))
    unit = model.unit(image)
    if padded:
        type = model.of(image).with_shape((1, 11, 12, groups * depth))
        border = PadAttributes((0, 1, 1, 0), (0, 1, 1, 0))
        image = model.emit("pad", [image], type, border)
    taps = kernel * kernel * depth
    filters, about = model.weights((groups * outputs, kernel, kernel, depth), 0, taps)
    scheme = PaddingScheme.VALID if padded else PaddingScheme.SAME
    a = ConvAttributes((stride, stride), padding=scheme, activation=Activation.RELU)
    type = model.type(
        (1, -(-9 // stride), -(-10 // stride), groups * outputs), unit * about * math.sqrt(taps)
    )
    bias = model.bias(groups * outputs, taps)
    model.graph.outputs.append(model.emit("conv_2d", [image, filters, bias], type, a))
    return model.graph


@pytest.mark.parametrize(
    ("groups", "depth", "outputs"),
    [(3, 8, 8), (2, 32, 64), (19, 8, 8), (12, 4, 12), (40, 2, 2), (50, 3, 1), (2, 7, 130)],
)
@pytest.mark.parametrize("padded", [False, True])
def test_convolutions_in_groups_are_exact(
    groups: int, depth: int, outputs: int, padded: bool
) -> None:
    graph = grouped(groups, depth, outputs, padded=padded, seed=groups)
    verify(graph)
    package = program(graph)
    assert not differences(graph, package, seed=1)
    assert not findings(package)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_strides_and_types_are_kept(kernel: int, dtype: DType) -> None:
    graph = grouped(20, 8, 4, stride=2, kernel=kernel, dtype=dtype)
    assert not differences(graph, program(graph), seed=2)


@pytest.mark.parametrize(("groups", "depth", "count"), [(8, 8, 1), (19, 8, 3), (9, 64, 9)])
@pytest.mark.parametrize("padded", [False, True])
def test_as_many_groups_as_fill_lanes_are_computed_together(
    groups: int, depth: int, count: int, padded: bool
) -> None:
    graph = grouped(groups, depth, depth, padded=padded)
    plain = ungrouped(graph)
    made = [node for node in plain.graph.nodes() if node.op == "conv_2d"]
    assert len(made) == count
    for node in made:
        image, filters = (plain.graph.type(str(name)).shape for name in node.inputs[:2])
        assert image[3] == filters[3] <= max(64, depth)
    inputs = {"x": np.random.default_rng(1).integers(-128, 128, (1, 9, 10, groups * depth), "i1")}
    (name,) = graph.outputs
    wanted, found = evaluate(graph, inputs), evaluate(plain.graph, inputs)
    assert np.array_equal(wanted[name], found[name])


def test_nodes_that_are_added_stand_for_the_convolution() -> None:
    graph = grouped(19, 8, 8)
    (node,) = graph.nodes()
    plain = ungrouped(graph)
    assert set(plain.origins.values()) == {node.name}
    assert {one.name for one in plain.graph.nodes()} <= plain.origins.keys()
    assert not refusals(graph)


def test_graphs_without_groups_stay_as_they_are() -> None:
    graph = grouped(1, 8, 8)
    assert ungrouped(graph).graph is graph


def test_convolutions_of_real_numbers_keep_their_groups() -> None:
    graph = Graph("real")
    image = graph.add_input("x", TensorType((1, 5, 5, 8), DType.FLOAT32))
    filters = graph.add_constant("w", np.ones((8, 3, 3, 4), np.float32))
    after = TensorType((1, 3, 3, 8), DType.FLOAT32)
    graph.outputs.append(graph.emit("conv_2d", [image, filters, None], after, ConvAttributes()))
    assert ungrouped(graph).graph is graph
