"""Convolutions of the phases of an image become dilated ones, and outputs stay the same."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.compiler.edgetpu_models import random_inputs

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.arrangement import BatchBlockAttributes
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.ops.windows import Padding, PaddingScheme, output_extent
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.passes.dilations import DilatedConvolutions, has_phases
from fitzroy.compiler.reference import evaluate, verify

Q = Quantization.per_tensor(0.05, 3)
SAME, VALID = PaddingScheme.SAME, PaddingScheme.VALID
Pair = tuple[int, int]


@dataclass
class Phases:
    """A graph of int8 images whose phases are computed on."""

    shape: tuple[int, ...]
    graph: Graph = field(init=False)
    value: str = field(init=False)

    def __post_init__(self) -> None:
        self.graph, self.rng = Graph("phases"), np.random.default_rng(0)
        self.value = self.graph.add_input("x", TensorType(self.shape, DType.INT8, Q))

    @property
    def type(self) -> TensorType:
        return self.graph.type(self.value)

    def divide(self, block: Pair, before: Pair, after: Pair) -> None:
        batch, *extents, channels = self.type.shape
        size = [
            (extent + more + less) // step
            for extent, more, less, step in zip(extents, before, after, block, strict=True)
        ]
        shape = (batch * block[0] * block[1], *size, channels)
        self._emit("space_to_batch", shape, BatchBlockAttributes(block, before, after))

    def join(self, block: Pair, before: Pair, after: Pair) -> None:
        batch, *extents, channels = self.type.shape
        size = [
            extent * step - more - less
            for extent, more, less, step in zip(extents, before, after, block, strict=True)
        ]
        shape = (batch // (block[0] * block[1]), *size, channels)
        self._emit("batch_to_space", shape, BatchBlockAttributes(block, before, after))

    def convolve(
        self,
        kernel: Pair,
        padding: Padding = VALID,
        dilation: Pair = (1, 1),
        stride: Pair = (1, 1),
        *,
        depthwise: bool = False,
    ) -> None:
        batch, height, width, channels = self.type.shape
        shape = (1, *kernel, channels) if depthwise else (channels, *kernel, channels)
        data = self.rng.integers(-127, 128, shape, np.int8)
        weights = self.graph.add_constant("w", data, Quantization.per_tensor(0.002, 0))
        a = ConvAttributes(stride, dilation, padding)
        extent = output_extent(padding, (height, width), kernel, stride, dilation)
        type = self.type.with_shape((batch, *extent, channels))
        op = "depthwise_conv_2d" if depthwise else "conv_2d"
        self.value = self.graph.emit(op, [self.value, weights, None], type, a)

    def multiply(self, *shape: int) -> None:
        data = self.rng.integers(-127, 128, shape, np.int8)
        factor = self.graph.add_constant("f", data, Quantization.per_tensor(0.01, 0))
        names = [self.value, factor]
        self.value = self.graph.emit("mul", names, self.type, ActivationAttributes())

    def reshape(self, *shape: int) -> None:
        self._emit("reshape", shape, ReshapeAttributes(shape))

    def finished(self) -> Graph:
        self.graph.outputs = [self.value]
        verify(self.graph)
        return self.graph

    def _emit(self, op: str, shape: tuple[int, ...], a: object) -> None:
        self.value = self.graph.emit(op, [self.value], self.type.with_shape(shape), a)  # type: ignore[arg-type]


def demand_equal(graph: Graph) -> list[str]:
    """Operators of a graph after the pass, which has the same outputs."""
    found = run_passes(graph, [DilatedConvolutions()])
    inputs = random_inputs(graph, 1)
    before, after = evaluate(graph, inputs), evaluate(found, inputs)
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert len(np.unique(array)) > 1
        np.testing.assert_array_equal(after[name], array)
    # A file has names of padding alone.
    assert Source.of(found).graph.nodes()
    return [node.op for node in found.nodes()]


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(
    ("extents", "block", "before", "after", "cut"),
    [
        ((9, 8), (2, 2), (2, 2), (3, 2), ((0, 0), (1, 0))),
        ((9, 10), (3, 3), (3, 3), (3, 5), ((0, 0), (0, 2))),
        ((9, 10), (1, 2), (1, 2), (1, 2), ((0, 0), (0, 0))),
        ((10, 12), (2, 3), (0, 0), (0, 0), ((0, 0), (0, 0))),
    ],
)
def test_padding_of_names_stays_one(
    extents: Pair, block: Pair, before: Pair, after: Pair, cut: tuple[Pair, Pair], depthwise: bool
) -> None:
    net = Phases((1, *extents, 4))
    net.divide(block, before, after)
    net.convolve((3, 3), depthwise=depthwise)
    net.join(block, *cut)
    graph = net.finished()
    assert has_phases(graph)
    ops = demand_equal(graph)
    assert ops == [graph.nodes()[1].op]
    (node,) = run_passes(graph, [DilatedConvolutions()]).nodes()
    assert isinstance(node.attributes, ConvAttributes)
    assert node.attributes.dilation == block
    assert isinstance(node.attributes.padding, PaddingScheme)


def test_other_padding_is_a_border_of_its_own() -> None:
    net = Phases((2, 8, 8, 4))
    net.divide((2, 2), (4, 0), (0, 2))
    net.convolve((3, 3), (1, 0, 0, 1), (2, 1))
    net.join((2, 2), (0, 0), (0, 1))
    assert demand_equal(net.finished()) == ["pad", "conv_2d"]


def test_what_is_cut_off_is_not_computed() -> None:
    net = Phases((1, 12, 12, 4))
    net.divide((2, 2), (0, 0), (0, 0))
    net.convolve((1, 1))
    net.multiply(4)
    net.join((2, 2), (3, 0), (1, 5))
    graph = run_passes(net.finished(), [DilatedConvolutions()])
    assert demand_equal(net.graph) == ["strided_slice", "conv_2d", "mul"]
    assert graph.type(graph.nodes()[1].outputs[0]).shape == (1, 8, 7, 4)


def test_several_windows_are_cut_at_the_end() -> None:
    net = Phases((1, 12, 12, 4))
    net.divide((2, 2), (2, 2), (2, 2))
    net.convolve((3, 3), SAME)
    net.convolve((3, 3))
    net.join((2, 2), (1, 1), (1, 0))
    assert demand_equal(net.finished()) == ["pad", "conv_2d", "conv_2d", "strided_slice"]


@pytest.mark.parametrize("axis", [1, 2])
def test_rows_of_pixels_are_images_of_one_row(axis: int) -> None:
    net = Phases((1, 22, 4))
    batched = BatchBlockAttributes((4,), (8,), (2,))
    net._emit("space_to_batch", (4, 8, 4), batched)
    net.reshape(*((4, 1, 8, 4) if axis == 1 else (4, 8, 1, 4)))
    net.convolve((1, 3) if axis == 1 else (3, 1))
    net.reshape(4, 6, 4)
    net._emit("batch_to_space", (1, 22, 4), BatchBlockAttributes((4,), (0,), (2,)))
    ops = demand_equal(net.finished())
    assert ops == ["reshape", "pad", "conv_2d", "reshape"]


def test_what_differs_from_phase_to_phase_stays() -> None:
    def strided(net: Phases) -> None:
        net.convolve((2, 2), stride=(2, 2))

    def by_pixel(net: Phases) -> None:
        net.convolve((1, 1))
        net.multiply(1, 4, 4, 1)

    def by_phase(net: Phases) -> None:
        net.convolve((1, 1))
        net.multiply(4, 1, 1, 4)

    def read_elsewhere(net: Phases) -> None:
        net.convolve((1, 1))
        net.graph.outputs = [net.value]

    def no_convolution(net: Phases) -> None:
        net.multiply(4)

    for compute in (strided, by_pixel, by_phase, read_elsewhere, no_convolution):
        net = Phases((1, 8, 8, 4))
        net.divide((2, 2), (0, 0), (0, 0))
        compute(net)
        also = list(net.graph.outputs)
        net.join((2, 2), (0, 0), (0, 0))
        graph = net.finished()
        graph.outputs += also
        assert not has_phases(graph), compute.__name__


def test_blocks_that_differ_stay() -> None:
    net = Phases((1, 8, 8, 4))
    net.divide((2, 1), (0, 0), (0, 0))
    net.convolve((1, 1))
    net.join((1, 2), (0, 0), (0, 0))
    assert not has_phases(net.finished())


def test_such_a_model_is_one_part_on_the_chip() -> None:
    net = Phases((1, 17, 16, 8))
    for kernel in ((3, 3), (3, 3)):
        net.divide((2, 2), (2, 2), (3, 2))
        net.convolve(kernel)
        net.join((2, 2), (0, 0), (1, 0))
    found = compile_edgetpu(Source.of(net.finished()))
    assert len(found.segments) == 1
    assert not found.unmapped
