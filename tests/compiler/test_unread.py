"""Pixels that nothing reads are not computed, and what is left has the same values."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.edgetpu_models import differing_bytes, program, random_inputs, random_model

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.shape import PadAttributes, StridedSliceAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme, output_extent
from fitzroy.compiler.passes.rewritten import Rewritten
from fitzroy.compiler.passes.unread import read_pixels
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.program import lower
from fitzroy.execution.estimate import estimate
from fitzroy.formats.darwinn import PackageFile

Q = Quantization.per_tensor(0.05, 3)
SAME, VALID = PaddingScheme.SAME, PaddingScheme.VALID
RELU = ActivationAttributes(Activation.RELU)


class Network:
    """A graph of int8 images that grows."""

    def __init__(self, *shape: int) -> None:
        self.graph, self.rng = Graph("network"), np.random.default_rng(0)
        self.input = self.graph.add_input("x", TensorType(shape, DType.INT8, Q))

    def conv(
        self, x: str, out: int, kernel: int, stride: int = 1, padding: PaddingScheme = SAME
    ) -> str:
        _, height, width, depth = self.graph.type(x).shape
        data = self.rng.integers(-127, 128, (out, kernel, kernel, depth), np.int8)
        scale = 1 / (74 * kernel * depth**0.5)
        weights = self.graph.add_constant("w", data, Quantization.per_tensor(scale, 0))
        a = ConvAttributes((stride, stride), padding=padding, activation=Activation.RELU)
        extent = output_extent(padding, (height, width), (kernel, kernel), a.stride)
        type = TensorType((1, *extent, out), DType.INT8, Q)
        return self.graph.emit("conv_2d", [x, weights, None], type, a)

    def add(self, x: str, y: str) -> str:
        return self.graph.emit("add", [x, y], self.graph.type(x), RELU)

    def finished(self, *outputs: str) -> Graph:
        self.graph.outputs = list(outputs)
        verify(self.graph)
        return self.graph


def computed(graph: Graph) -> int:
    """Elements of all results."""
    return sum(graph.type(name).size for node in graph.nodes() for name in node.outputs)


def demand_equal(graph: Graph) -> Graph:
    """The graph without unread pixels, which has the same outputs, and fewer elements."""
    found = read_pixels(graph).graph
    verify(found)
    assert found is graph or computed(found) < computed(graph)
    inputs = random_inputs(graph, 1)
    before, after = evaluate(graph, inputs), evaluate(found, inputs)
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    return found


def cycles(package: PackageFile) -> float:
    return estimate(package, "network").timeline.cycles


def residual_network(extent: int, depth: int) -> Graph:
    """A block of three convolutions, and the next one, which begins with a stride."""
    net = Network(1, extent, extent, 8)
    start = net.conv(net.input, 4 * depth, 1)
    block = net.conv(net.conv(net.conv(start, depth, 1), depth, 3), 4 * depth, 1)
    total = net.add(block, start)
    return net.finished(net.conv(total, 16, 1, 2), net.conv(total, 16, 1, 2))


def test_strides_of_single_pixels_move_up_a_residual_block() -> None:
    graph = demand_equal(residual_network(16, 8))
    shapes = {node.outputs[0]: graph.type(node.outputs[0]).shape for node in graph.nodes()}
    # The sum, the convolution before it, and the middle one, which takes over the stride.
    assert [shapes[x][1:3] for x in ("add", "conv_2d.3", "conv_2d.2")] == [(8, 8)] * 3
    assert shapes["conv_2d"][1:3] == shapes["conv_2d.1"][1:3] == (16, 16)
    moved = graph.node("conv_2d.2").attributes
    assert isinstance(moved, ConvAttributes)
    assert moved.stride == (2, 2)


def test_the_chip_has_less_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = residual_network(28, 32)
    package = program(graph)
    assert not differing_bytes(graph, package)
    monkeypatch.setattr(lower, "read_pixels", Rewritten)
    whole = program(graph)
    assert cycles(package) < 0.9 * cycles(whole)


def test_what_is_read_elsewhere_is_computed() -> None:
    net = Network(1, 12, 12, 4)
    first = net.conv(net.input, 8, 3)
    graph = net.finished(net.conv(first, 4, 1, 2), net.conv(first, 4, 3))
    assert read_pixels(graph).graph is graph


def test_a_window_needs_only_what_it_can_see() -> None:
    net = Network(1, 64, 64, 3)
    last = net.input
    for _ in range(3):
        last = net.conv(last, 4, 5)
    graph = net.finished(net.conv(last, 2, 1, 64, VALID))
    found = demand_equal(graph)
    sizes = [found.type(node.outputs[0]).shape[1] for node in found.nodes() if node.op == "conv_2d"]
    assert sizes == [5, 3, 1, 1]
    assert not differing_bytes(graph, program(graph))


@pytest.mark.parametrize("shape", [(1, 10, 1, 4), (1, 1, 10, 1), (10, 10, 4), (10, 4), (4,)])
def test_constants_lose_the_same_pixels(shape: tuple[int, ...]) -> None:
    net = Network(1, 10, 10, 4)
    x = net.conv(net.input, 4, 3)
    data = net.rng.integers(-128, 128, shape, np.int8)
    y = net.add(x, net.graph.add_constant("c", data, Q))
    pool = PoolAttributes((1, 1), (3, 2))
    type = TensorType((1, 4, 5, 4), DType.INT8, Q)
    graph = net.finished(net.graph.emit("max_pool_2d", [y], type, pool))
    assert demand_equal(graph) is not graph


def test_slices_and_padding_shrink() -> None:
    net = Network(1, 9, 9, 4)
    x = net.conv(net.input, 4, 1)
    padded = PadAttributes((0, 3, 2, 0), (0, 1, 4, 0))
    y = net.graph.emit("pad", [x], TensorType((1, 13, 15, 4), DType.INT8, Q), padded)
    y = net.add(y, y)
    taken = StridedSliceAttributes((0, 1, 2, 0), (1, 4, 5, 4), (1, 3, 2, 1))
    type = TensorType((1, 4, 5, 4), DType.INT8, Q)
    graph = net.finished(net.graph.emit("strided_slice", [y], type, taken))
    assert demand_equal(graph) is not graph


def test_padding_alone_becomes_a_constant() -> None:
    net = Network(1, 3, 3, 4)
    padded = PadAttributes((0, 8, 8, 0), (0, 8, 8, 0))
    y = net.graph.emit("pad", [net.input], TensorType((1, 19, 19, 4), DType.INT8, Q), padded)
    graph = net.finished(net.conv(net.add(y, y), 2, 1, 19, VALID))
    found = demand_equal(graph)
    assert [node.op for node in found.nodes()] == ["add", "strided_slice", "conv_2d"]
    # Tiles have two rows and columns each, which takes no form that published programs lack.
    assert found.type("add").shape == (1, 8, 8, 4)
    assert not differing_bytes(graph, program(graph))


def test_padding_that_stays_whole_needs_all_that_it_pads() -> None:
    net = Network(1, 12, 12, 4)
    x = net.conv(net.conv(net.input, 4, 3), 4, 1)
    padded = PadAttributes((0, 0, 0, 0), (0, 0, 3, 0))
    y = net.graph.emit("pad", [x], TensorType((1, 12, 15, 4), DType.INT8, Q), padded)
    graph = net.finished(net.conv(y, 4, 1, 3))
    assert demand_equal(graph) is graph


def test_computed_weights_stay_whole() -> None:
    net = Network(1, 8, 8, 4)
    weights = net.graph.add_input("weights", TensorType((4, 3, 3, 4), DType.INT8, Q))
    weights = net.add(weights, weights)
    type = TensorType((1, 8, 8, 4), DType.INT8, Q)
    attributes = ConvAttributes(padding=SAME)
    x = net.graph.emit("conv_2d", [net.input, weights, None], type, attributes)
    graph = net.finished(net.conv(x, 4, 1, 3))
    assert demand_equal(graph).type(weights).shape == (4, 3, 3, 4)


@pytest.mark.parametrize("axes", [False, True])
def test_random_models_keep_their_outputs(axes: bool) -> None:
    shrunk = 0
    for seed in range(250):
        graph = random_model(seed, axes=axes)
        shrunk += demand_equal(graph) is not graph
    assert shrunk > 2
