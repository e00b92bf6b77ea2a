"""Attention within windows of an image, of which every tile owns whole ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.compiler.edgetpu_models import Model, assert_exact, random_inputs

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Attributes, Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.lowerings import window_product
from fitzroy.compiler.targets.edgetpu.lowerings.attention import taken_apart
from fitzroy.compiler.targets.edgetpu.lowerings.window_attention import by_heads
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES
from fitzroy.compiler.targets.edgetpu.partition.divide import refusals
from fitzroy.compiler.targets.edgetpu.program.lower import legalized
from fitzroy.compiler.targets.edgetpu.reshaping.windows import grid_of, has_whole_windows

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Windows:
    """Attention within windows, as exporters write it.

    Attributes:
        grid: windows down and across.
        size: rows and columns of a window.
        heads: how many.
        depth: channels of a head's queries, keys and values.
        shifted: whether the image is rolled by a row and a column before, and back, and scores are
            masked window by window.
        later: whether queries follow keys and values among the channels of a pixel.
        within: whether queries, keys and values of a head follow each other.
    """

    grid: tuple[int, int]
    size: tuple[int, int]
    heads: int
    depth: int
    shifted: bool = False
    later: bool = False
    within: bool = False

    @property
    def count(self) -> int:
        """Number of windows."""
        return math.prod(self.grid)

    @property
    def pixels(self) -> int:
        """Pixels of a window."""
        return math.prod(self.size)

    @property
    def image(self) -> Shape:
        """Shape of the image."""
        (down, across), (height, width) = self.grid, self.size
        return 1, down * height, across * width, self.heads * self.depth

    def graph(self, seed: int = 1) -> Graph:
        """A graph of it, from an image to an image."""
        writer = _Writer(Model(seed))
        model, graph = writer.model, writer.model.graph
        x = graph.add_input("x", model.type(self.image, 0.05))
        channels = self.image[-1]
        image = writer.rolled(x, 1) if self.shifted else x
        apart = self._apart(writer, image)
        both = writer.connected(apart, 3 * channels)
        order = ("k", "v", "q") if self.later else ("q", "k", "v")
        shape = (self.count, self.pixels, *self._channels(3))
        parts = writer.moved(both, "reshape", ReshapeAttributes(shape), shape)
        q, k, v = (self._part(writer, parts, order.index(name)) for name in "qkv")
        factor = model.constant((), 0.01)
        q = graph.emit(
            "mul", [q, factor], model.type(graph.type(q).shape, 0.02), ActivationAttributes()
        )
        q, k, v = (
            writer.transposed(name, perm)
            for name, perm in ((q, (0, 2, 1, 3)), (k, (0, 2, 3, 1)), (v, (0, 2, 1, 3)))
        )
        mixed = writer.attention(q, k, v, self)
        joined = writer.transposed(mixed, (0, 2, 1, 3))
        rows = (self.count, self.pixels, channels)
        joined = writer.moved(joined, "reshape", ReshapeAttributes(rows), rows)
        back = self._back(writer, writer.connected(joined, channels))
        if self.shifted:
            back = writer.rolled(back, -1)
        last = model.type(self.image, 0.06)
        graph.outputs.append(graph.emit("add", [x, back], last, ActivationAttributes()))
        return graph

    def _channels(self, parts: int) -> Shape:
        """Channels of a pixel, as they are divided: of so many of queries, keys and values."""
        if self.within:
            return self.heads, parts, self.depth
        return parts, self.heads, self.depth

    def _apart(self, writer: _Writer, name: str) -> str:
        """An image as windows [windows,pixels,channels]."""
        (down, across), (height, width) = self.grid, self.size
        channels = self.image[-1]
        divided = (down, height, across, width, channels)
        name = writer.moved(name, "reshape", ReshapeAttributes(divided), divided)
        name = writer.transposed(name, (0, 2, 1, 3, 4))
        rows = (self.count, self.pixels, channels)
        return writer.moved(name, "reshape", ReshapeAttributes(rows), rows)

    def _back(self, writer: _Writer, name: str) -> str:
        """Windows as the image again."""
        (down, across), (height, width) = self.grid, self.size
        divided = (down, across, height, width, self.image[-1])
        name = writer.moved(name, "reshape", ReshapeAttributes(divided), divided)
        name = writer.transposed(name, (0, 2, 1, 3, 4))
        return writer.moved(name, "reshape", ReshapeAttributes(self.image), self.image)

    def _part(self, writer: _Writer, name: str, number: int) -> str:
        """Queries, keys or values [windows,pixels,heads,channels]."""
        shape = (self.count, self.pixels, *self._channels(1))
        begin = (0, 0, 0, number, 0) if self.within else (0, 0, number, 0, 0)
        taken = StridedSliceAttributes(begin, shape, (1,) * 5)
        part = writer.moved(name, "strided_slice", taken, shape)
        own = (self.count, self.pixels, self.heads, self.depth)
        return writer.moved(part, "reshape", ReshapeAttributes(own), own)


@dataclass
class _Writer:
    """Appends operators to a model's graph."""

    model: Model

    def moved(self, name: str, op: str, attributes: Attributes, shape: Shape) -> str:
        """An operator that moves elements."""
        graph = self.model.graph
        return graph.emit(op, [name], graph.type(name).with_shape(shape), attributes)

    def transposed(self, name: str, perm: Shape) -> str:
        """A transposition."""
        before = self.model.graph.type(name).shape
        shape = tuple(before[axis] for axis in perm)
        return self.moved(name, "transpose", TransposeAttributes(perm), shape)

    def connected(self, name: str, channels: int) -> str:
        """A fully connected layer."""
        model = self.model
        shape = model.graph.type(name).shape
        weights = model.constant((channels, shape[-1]), 0.01)
        after = model.type((*shape[:-1], channels), 0.05)
        attributes = FullyConnectedAttributes(Activation.NONE, keep_num_dims=True)
        return model.graph.emit("fully_connected", [name, weights], after, attributes)

    def rolled(self, name: str, by: int) -> str:
        """An image of which rows and columns go around."""
        graph = self.model.graph
        for axis in (1, 2):
            shape = graph.type(name).shape
            cut = by % shape[axis]
            parts = []
            for begin, end in ((cut, shape[axis]), (0, cut)):
                own = tuple(end - begin if k == axis else n for k, n in enumerate(shape))
                first = tuple(begin if k == axis else 0 for k in range(4))
                taken = StridedSliceAttributes(first, own, (1,) * 4)
                parts.append(self.moved(name, "strided_slice", taken, own))
            name = graph.emit(
                "concatenation", parts, graph.type(name), ConcatenationAttributes(axis)
            )
        return name

    def attention(self, q: str, k: str, v: str, of: Windows) -> str:
        """Both products, and what is between them."""
        model, graph = self.model, self.model.graph
        shape = (of.count, of.heads, of.pixels, of.pixels)
        unit = model.unit(q) * model.unit(k) * 74 * math.sqrt(of.depth)
        scores = graph.emit(
            "batch_matmul", [q, k], model.type(shape, unit), BatchMatMulAttributes()
        )
        places = model.constant(shape[1:], unit)
        scores = graph.emit(
            "add", [scores, places], model.type(shape, 2 * unit), ActivationAttributes()
        )
        if of.shifted:
            apart = (1, *shape)
            scores = self.moved(scores, "reshape", ReshapeAttributes(apart), apart)
            mask = model.constant((of.count, 1, *shape[2:]), unit)
            scores = graph.emit(
                "add", [scores, mask], model.type(apart, 2 * unit), ActivationAttributes()
            )
            scores = self.moved(scores, "reshape", ReshapeAttributes(shape), shape)
        shares = graph.emit("softmax", [scores], model.type(shape, 1 / 256), SoftmaxAttributes())
        mixed = model.type((of.count, of.heads, of.pixels, of.depth), 0.03)
        return graph.emit("batch_matmul", [shares, v], mixed, BatchMatMulAttributes())


@pytest.mark.parametrize(
    "windows",
    [
        Windows((4, 4), (3, 3), 2, 8),
        # Pixels that are whole words; several windows on a tile, in rows and columns.
        Windows((8, 8), (2, 2), 3, 4),
        # Channels that are none.
        Windows((4, 4), (3, 2), 2, 6),
        Windows((4, 4), (3, 3), 2, 8, shifted=True),
        Windows((4, 8), (1, 5), 2, 4, later=True),
        # Blocks of lanes.
        Windows((4, 4), (7, 10), 2, 4),
        # Heads that are windows themselves.
        Windows((2, 2), (3, 3), 4, 8),
        Windows((2, 2), (2, 3), 12, 4, shifted=True),
        Windows((2, 4), (3, 3), 8, 4, later=True),
        Windows((2, 2), (3, 3), 4, 8, within=True),
    ],
)
def test_windows_are_multiplied_on_their_tiles(windows: Windows) -> None:
    graph = windows.graph()
    verify(graph)
    apart = taken_apart(graph)
    verify(apart.graph)
    inputs = random_inputs(graph, 3)
    (name,) = graph.outputs
    wanted, found = evaluate(graph, inputs), evaluate(apart.graph, inputs)
    assert np.array_equal(found[name], wanted[name])
    names = {node.name for node in graph.nodes()}
    assert all(apart.origins.get(node.name, node.name) in names for node in apart.graph.nodes())
    assert not refusals(graph)
    layers = Counter(layer.kind for layer in legalized(graph).layers)
    together = windows.count % TILES > 0
    assert layers["window product"] == (2 if together else 2 * windows.heads)
    # Pixels move as boxes, and nothing becomes a vector on the way.
    assert not layers["to vector"]
    assert not layers["elements"]
    assert_exact(graph)


@pytest.mark.parametrize("copied", [1, 32, 64])
def test_windows_are_multiplied_in_passes(monkeypatch: pytest.MonkeyPatch, copied: int) -> None:
    """A window, a row of them, or two of three rows at a time, where more do not fit."""
    windows = Windows((12, 8), (2, 2), 2, 4)
    monkeypatch.setattr(window_product, "_MOST_COPIED", copied)
    graph = windows.graph()
    assert_exact(graph)


def test_results_of_windows_that_others_read_are_made_too() -> None:
    graph = Windows((4, 4), (2, 2), 2, 4).graph()
    product = [node.outputs[0] for node in graph.nodes() if node.op == "batch_matmul"][-1]
    graph.outputs.append(product)
    found = by_heads(graph).graph
    inputs = random_inputs(graph, 4)
    wanted, got = evaluate(graph, inputs), evaluate(found, inputs)
    for name in graph.outputs:
        assert np.array_equal(got[name], wanted[name])
    assert_exact(graph)


def test_windows_whose_scores_go_out_stay_as_they_are() -> None:
    graph = Windows((4, 4), (2, 2), 2, 4).graph()
    graph.outputs += [node.outputs[0] for node in graph.nodes() if node.op == "softmax"]
    assert by_heads(graph).graph is graph


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((16, 221, 2, 4), True),
        ((16, 222, 2, 4), False),
        # So many matrices could not be multiplied one by one.
        ((80, 100, 2, 4), True),
        # Channels take room, too.
        ((16, 196, 4, 16), True),
        ((16, 196, 4, 32), False),
    ],
)
def test_windows_that_tiles_have_no_room_for_stay_as_they_are(shape: Shape, fits: bool) -> None:
    assert bool(by_heads(_of_inputs([shape] * 3)).origins) is fits


def _of_inputs(shapes: Sequence[Shape], rank: int = 4) -> Graph:
    """Attention of inputs.

    Args:
        shapes: those of queries, keys and values [windows,pixels,heads,channels].
        rank: axes of the probabilities; further ones come first.
    """
    writer = _Writer(Model(5))
    model, graph = writer.model, writer.model.graph

    def operand(name: str, shape: Shape) -> str:
        windows, pixels, heads, depth = shape
        x = graph.add_input(name, model.type((windows, pixels, heads * depth), 0.05))
        apart = writer.moved(x, "reshape", ReshapeAttributes(shape), shape)
        return writer.transposed(apart, (0, 2, 1, 3))

    q, k, v = (operand(name, shape) for name, shape in zip("qkv", shapes, strict=True))
    windows, pixels, heads, depth = np.max(shapes, 0).tolist()
    own: Shape = (windows, heads, pixels, pixels)
    product = BatchMatMulAttributes(False, True)
    scores = graph.emit("batch_matmul", [q, k], model.type(own, 0.1), product)
    own = (1,) * (rank - len(own)) + own
    scores = writer.moved(scores, "reshape", ReshapeAttributes(own), own)
    shares = graph.emit("softmax", [scores], model.type(own, 1 / 256), SoftmaxAttributes())
    after = model.type((*own[:-1], depth), 0.1)
    graph.outputs.append(graph.emit("batch_matmul", [shares, v], after, BatchMatMulAttributes()))
    verify(graph)
    return graph


def test_rows_of_inputs_are_multiplied_by_heads() -> None:
    graph = _of_inputs([(16, 4, 2, 4)] * 3)
    assert by_heads(graph).graph is not graph


BY_WINDOWS, BY_HEADS = (1, 4, 2, 4), (16, 4, 1, 4)


@pytest.mark.parametrize(
    ("index", "repeated"),
    [(0, BY_WINDOWS), (0, BY_HEADS), (1, BY_WINDOWS), (2, BY_WINDOWS)],
)
def test_matrices_that_windows_or_heads_share_stay_as_they_are(repeated: Shape, index: int) -> None:
    shapes: list[Shape] = [(16, 4, 2, 4)] * 3
    shapes[index] = repeated
    graph = _of_inputs(shapes)
    assert by_heads(graph).graph is graph
    assert any("matrices" in reject.reason for (reject,) in refusals(graph).values())


@pytest.mark.parametrize("index", [1, 2])
def test_rows_of_heads_that_share_keys_or_values_are_multiplied_together(index: int) -> None:
    """As in multi-query attention."""
    shapes: list[Shape] = [(16, 4, 2, 4)] * 3
    shapes[index] = BY_HEADS
    graph = _of_inputs(shapes)
    assert by_heads(graph).graph is graph
    assert not refusals(graph)
    assert_exact(graph)


def test_results_of_more_axes_than_their_operands_stay_as_they_are() -> None:
    graph = _of_inputs([(16, 4, 2, 4)] * 3, rank=5)
    assert by_heads(graph).graph is graph
    assert not refusals(graph)


@pytest.mark.parametrize("windows", [Windows((4, 4), (2, 2), 2, 4), Windows((2, 2), (2, 2), 4, 4)])
def test_constants_of_one_element_may_have_more_axes_than_heads(windows: Windows) -> None:
    graph = windows.graph()
    (places, factor) = (
        next(node for node in graph.nodes() if node.op == op).inputs[1] for op in ("add", "mul")
    )
    for name in (str(places), str(factor)):
        value = graph.value(name)
        assert value.data is not None
        data = value.data.reshape(-1)[:1].reshape(1, 1, 1, 1)
        graph.set_value(replace(value, type=value.type.with_shape(data.shape), data=data))
    apart = by_heads(graph).graph
    assert apart is not graph
    verify(apart)
    assert_exact(graph)


@pytest.mark.parametrize("grid", [(1, 3), (2, 2)])
def test_windows_that_tiles_cannot_share_evenly_stay_as_they_are(grid: tuple[int, int]) -> None:
    graph = Windows(grid, (2, 2), 2, 4).graph()
    assert by_heads(graph).graph is graph
    assert_exact(graph)


def test_functions_on_the_way_to_a_matrix_may_add_axes() -> None:
    model = Model(3)
    graph = model.graph
    x, y = (graph.add_input(n, model.type(s, 0.05)) for n, s in (("x", (4, 8)), ("y", (1, 4, 8))))
    factor = model.constant((1, 1, 1), 0.01)
    x = graph.emit("mul", [x, factor], model.type((1, 4, 8), 0.05), ActivationAttributes())
    x = _Writer(model).transposed(x, (0, 2, 1))
    after = model.type((1, 4, 4), 0.1)
    graph.outputs.append(graph.emit("batch_matmul", [y, x], after, BatchMatMulAttributes()))
    assert_exact(graph)


def stacked(shape: Shape) -> Graph:
    """A product of stacked matrices with others."""
    model = Model(3)
    x, y = (model.graph.add_input(name, model.type(shape, 0.05)) for name in "xy")
    after = model.type((*shape[:-1], shape[-2]), 0.2)
    product = model.emit("batch_matmul", [x, y], after, BatchMatMulAttributes(False, True))
    model.graph.outputs.append(product)
    return model.graph


def test_many_matrices_become_windows() -> None:
    graph = stacked((80, 3, 8))
    layers = Counter(layer.kind for layer in legalized(graph).layers)
    assert layers["window product"] == 1
    assert not layers["matrix product"]
    assert_exact(graph)


def test_many_matrices_of_heads_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="192 matrices that are not windows") as caught:
        legalized(stacked((64, 3, 4, 8)))
    assert "divide it" in str(caught.value.hint)


def test_matrices_that_tiles_cannot_share_evenly_are_refused() -> None:
    ((reject,),) = refusals(stacked((72, 3, 8))).values()
    assert "72 matrices, 64 are possible" in reject.reason


def test_grids_of_windows_divide_over_the_tiles() -> None:
    assert grid_of(64, 49) == (8, 8 * 49)
    assert grid_of(80, 3) == (4, 20 * 3)
    assert has_whole_windows((1, 8, 8 * 49, 3), 64, 49)
    assert not has_whole_windows((1, 7 * 16, 28, 3), 64, 49)
