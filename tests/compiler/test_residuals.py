"""Residual sums that layers compute, so that they are rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.edgetpu_models import assert_exact

import fitzroy
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.shape import PadAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.quantization import parts, residuals
from fitzroy.compiler.quantization.comparison import compare
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.quantization.residuals import with_joined_residuals

Floats = npt.NDArray[np.float32]

_CHANNELS = 8


class Blocks(detectors.Maker):
    """Blocks of a residual network: windows of each channel, a matrix, a sum and a rectifier."""

    def rectified(self, x: str) -> str:
        return self.emit("clamp", [x], self.shape(x), ClampAttributes(0, math.inf))

    def windows(self, x: str) -> str:
        depth = self.shape(x)[3]
        kernel = self.random.normal(0, 0.4, (1, 3, 3, depth))
        names = [x, self.constant(kernel), self.constant(self.random.normal(0, 0.2, depth))]
        a = ConvAttributes(padding=PaddingScheme.SAME)
        return self.emit("depthwise_conv_2d", names, self.shape(x), a)

    def add(self, x: str, y: str, fused: Activation = Activation.NONE) -> str:
        return self.emit("add", [x, y], self.shape(x), ActivationAttributes(fused))

    def block(self, x: str, wider: int = 0) -> str:
        *shape, depth = self.shape(x)
        layer = self.layer(self.windows(x), depth + wider)
        if wider:
            a = PadAttributes((0, 0, 0, 0), (0, 0, 0, wider))
            x = self.emit("pad", [x], (*shape, depth + wider), a)
        return self.rectified(self.add(x, layer))


def network(blocks: int = 3, wider: int = 0) -> Graph:
    m = Blocks()
    x = m.rectified(m.layer(m.image, _CHANNELS, 2))
    for _ in range(blocks):
        x = m.block(x, wider)
    return m.done(m.layer(x, 4))


def image(seed: int) -> Floats:
    return np.random.default_rng(seed).random((1, detectors.SIDE, detectors.SIDE, 3), np.float32)


def samples(count: int) -> list[dict[str, Floats]]:
    return [{"image": image(seed)} for seed in range(count)]


def assert_alike(graph: Graph, changed: Graph) -> None:
    """Assert that both compute the same, up to the order of sums."""
    given = {"image": image(0)}
    (one,), (other,) = (fitzroy.evaluate(x, given).values() for x in (graph, changed))
    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4 * np.abs(one).max())


def count(graph: Graph, op: str) -> int:
    return sum(node.op == op for node in graph.nodes())


@pytest.mark.parametrize("wider", [0, 3])
def test_layers_compute_residual_sums(wider: int) -> None:
    """Channels that a block adds have no ones, and need no padding."""
    graph = network(wider=wider)
    joined = with_joined_residuals(graph, ())
    assert count(graph, "add") == 3
    assert not count(joined, "add") + count(joined, "pad")
    assert_alike(graph, joined)


@pytest.mark.parametrize("first", [False, True])
def test_fused_rectifiers_and_either_order_of_operands(first: bool) -> None:
    m = Blocks()
    x = m.layer(m.image, _CHANNELS, 2)
    layer = m.layer(m.windows(x), _CHANNELS)
    one, other = (layer, x) if first else (x, layer)
    graph = m.done(m.add(one, other, Activation.RELU6))
    joined = with_joined_residuals(graph, ())
    assert not count(joined, "add")
    assert joined.outputs == graph.outputs
    assert_alike(graph, joined)


def test_sums_of_detectors_are_rounded_once() -> None:
    """With less noise; other models keep their additions, which other hardware computes faster."""
    graph = network(6)
    decibels = []
    for rare in ((), ("conv_2d",)):
        result = quantize_model(graph, samples(8), QuantizeOptions(), rare=rare)
        assert bool(count(result.graph, "add")) != bool(rare)
        (found,) = compare(graph, result.graph, samples(12)[8:]).outputs.values()
        decibels.append(found.decibels)
    assert decibels[1] > decibels[0] + 1


def test_sums_stay_where_channels_are_not_scaled() -> None:
    """Images side by side share a scale, which only equalization makes fit both."""
    options = QuantizeOptions(equalize=False)
    result = quantize_model(network(), samples(4), options, rare=("conv_2d",))
    assert count(result.graph, "add") == 3


def test_patterns_keep_sums() -> None:
    options = QuantizeOptions(keep_float=["ADD"])
    result = quantize_model(network(), samples(4), options, rare=("conv_2d",))
    assert count(result.graph, "add") == 3


def test_the_chip_computes_joined_sums() -> None:
    """In every byte as the reference does, also of wider blocks."""
    for wider in (0, 3):
        graph = network(wider=wider)
        assert_exact(quantize_model(graph, samples(4), QuantizeOptions(), rare=("conv_2d",)).graph)


def _of(m: Blocks, x: str, layer: str) -> Graph:
    return m.done(m.add(x, layer))


def _window(m: Blocks, x: str) -> Graph:
    """The layer reads windows."""
    return _of(m, x, m.windows(m.windows(x)))


def _rectified(m: Blocks, x: str) -> Graph:
    """The scale of what the layer reads is not free."""
    return _of(m, x, m.layer(m.rectified(m.windows(x)), _CHANNELS))


def _read_twice(m: Blocks, x: str) -> Graph:
    """Something else reads what the layer reads."""
    y = m.windows(x)
    return m.done(m.add(x, m.layer(y, _CHANNELS)), m.layer(y, 4))


def _given(m: Blocks, x: str) -> Graph:
    """The result of the layer is an output, too."""
    layer = m.layer(m.windows(x), _CHANNELS)
    return m.done(m.add(x, layer), layer)


def _doubled(m: Blocks, x: str) -> Graph:
    """The layer is added to itself."""
    layer = m.layer(m.windows(x), _CHANNELS)
    return _of(m, layer, layer)


def _constant(m: Blocks, x: str) -> Graph:
    """The other operand is a constant."""
    shape = m.shape(x)
    return m.done(m.add(m.layer(m.windows(x), _CHANNELS), m.constant(np.ones(shape))))


def _broadcast(m: Blocks, x: str) -> Graph:
    """The other operand has one pixel for all."""
    _, height, width, depth = m.shape(x)
    kernel = m.constant(m.random.normal(0, 0.1, (depth, height, width, depth)))
    bias = m.constant(np.zeros(depth))
    pixel = m.emit("conv_2d", [x, kernel, bias], (1, 1, 1, depth), ConvAttributes())
    return m.done(m.add(m.layer(m.windows(x), _CHANNELS), pixel))


@pytest.mark.parametrize(
    "make", [_window, _rectified, _read_twice, _given, _doubled, _constant, _broadcast]
)
def test_other_sums_stay(make: Callable[[Blocks, str], Graph]) -> None:
    m = Blocks()
    graph = make(m, m.rectified(m.layer(m.image, _CHANNELS, 4)))
    assert with_joined_residuals(graph, ()) is graph


def test_sums_keep_to_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where weights, or images side by side, find no room, sums stay."""
    graph = network(2)
    held = sum(graph.type(str(node.inputs[1])).size for node in graph.nodes() if "conv" in node.op)
    for room, left in ((2 * _CHANNELS**2, 0), (2 * _CHANNELS**2 - 1, 1), (0, 2)):
        monkeypatch.setattr(parts, "_MEMORY", held + room)
        assert count(with_joined_residuals(graph, ()), "add") == left
    monkeypatch.undo()
    elements = 2 * _CHANNELS * (detectors.SIDE // 2) ** 2
    for most, left in ((elements, 0), (elements - 1, 2)):
        monkeypatch.setattr(residuals, "MOST_ELEMENTS", most)
        assert count(with_joined_residuals(graph, ()), "add") == left
