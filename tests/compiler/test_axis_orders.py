"""Movements of elements against numpy, and graphs whose axes are stored in another order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from tests.compiler.edgetpu_models import Model, random_inputs

from fitzroy.base.types import Array
from fitzroy.compiler.ir import Attributes, Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.passes.axes.movement import Movement, Step
from fitzroy.compiler.passes.axes.orders import AxisOrders
from fitzroy.compiler.passes.axes.plan import Axis, Plan
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.reference import evaluate, verify


def _shape(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    """Any shape of so many elements, sometimes with an axis of extent 1."""
    found = []
    while size > 1:
        found.append(int(rng.choice([n for n in range(2, size + 1) if size % n == 0])))
        size //= found[-1]
    if rng.random() < 0.4:
        found.insert(int(rng.integers(len(found) + 1)), 1)
    return tuple(found) or (1,)


def _applied(array: Array, steps: Sequence[Step]) -> Array:
    for _, attributes, shape in steps:
        if isinstance(attributes, TransposeAttributes):
            array = array.transpose(attributes.perm)
        else:
            array = array.reshape(shape)
        assert array.shape == shape
    return array


@pytest.mark.parametrize("seed", range(20))
def test_chains_become_one_movement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        shape = _shape(rng, int(rng.choice([16, 24, 36, 60, 64, 210])))
        array = expected = np.arange(math.prod(shape)).reshape(shape)
        movement = Movement.of(shape)
        for _ in range(int(rng.integers(1, 6))):
            attributes: Attributes
            if rng.random() < 0.5:
                perm = tuple(rng.permutation(expected.ndim).tolist())
                attributes, after = TransposeAttributes(perm), expected.transpose(perm)
            else:
                wanted = _shape(rng, expected.size)
                attributes, after = ReshapeAttributes(wanted), expected.reshape(wanted)
            moved = movement.then(attributes)
            if moved is None:
                break
            movement, expected = moved, after
        steps = movement.steps()
        assert sum(op == "transpose" for op, _, _ in steps) <= 1
        assert len(steps) <= 3
        np.testing.assert_array_equal(_applied(array, steps), expected)
        assert (movement.cost == (0, 0)) == bool((np.diff(expected.reshape(-1)) == 1).all())
        for before, after_axis in movement.same_axes():
            lines = np.moveaxis(expected, after_axis, 0).reshape(expected.shape[after_axis], -1)
            np.testing.assert_array_equal(
                lines[:, 0] - lines[0, 0],
                math.prod(shape[before + 1 :]) * np.arange(shape[before]),
            )


def _counted(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes())


def _assert_same(graph: Graph, *, transpositions: int | None = None, settled: bool = True) -> Graph:
    """Check that the pass changes nothing but where elements lie; returns what it makes."""
    verify(graph)
    before = _printed(graph)
    after = run_passes(graph, [AxisOrders()])
    assert _printed(graph) == before, "a graph stays as it is"
    given = random_inputs(graph, 1)
    expected, found = evaluate(graph, given), evaluate(after, given)
    for name in graph.outputs:
        assert graph.type(name) == after.type(name)
        np.testing.assert_array_equal(found[name], expected[name])
    if transpositions is not None:
        assert _counted(after)["transpose"] == transpositions
    again = run_passes(after, [AxisOrders()]) if settled else after
    assert _printed(again) == _printed(after), "what is best stays as it is"
    return after


def _printed(graph: Graph) -> list[str]:
    """All nodes with the shapes of their results, without the names of values."""
    return [
        f"{node.op} {node.attributes} {[graph.type(name).shape for name in node.outputs]}"
        for node in graph.nodes()
    ]


class Tokens(Model):
    """Operators on rows of channels, and what moves them."""

    def start(self, shape: tuple[int, ...]) -> str:
        """An input."""
        return self.graph.add_input("x", self.type(shape, 0.05))

    def reshape(self, name: str, *shape: int) -> str:
        """The same elements in another shape."""
        type = self.of(name).with_shape(shape)
        return self.emit("reshape", [name], type, ReshapeAttributes(shape))

    def transpose(self, name: str, *perm: int) -> str:
        """Axes in another order."""
        type = self.of(name)
        type = type.with_shape(tuple(type.shape[axis] for axis in perm))
        return self.emit("transpose", [name], type, TransposeAttributes(perm))

    def binary(self, op: str, one: str, other: str) -> str:
        """An operator of two operands."""
        shape = np.broadcast_shapes(self.of(one).shape, self.of(other).shape)
        unit = max(self.unit(one), self.unit(other))
        return self.emit(op, [one, other], self.type(shape, unit), ActivationAttributes())

    def connected(self, name: str, columns: int) -> str:
        """A fully connected layer."""
        type = self.of(name)
        weights, unit = self.weights((columns, type.shape[-1]), 0, type.shape[-1])
        after = self.type((*type.shape[:-1], columns), self.unit(name) * unit * 74 * 8)
        attributes = FullyConnectedAttributes(keep_num_dims=True)
        return self.emit("fully_connected", [name, weights, None], after, attributes)

    def pixels(self, name: str, channels: int) -> str:
        """A convolution of single pixels."""
        type = self.of(name)
        filters, unit = self.weights((channels, 1, 1, type.shape[-1]), 0, type.shape[-1])
        after = self.type((*type.shape[:-1], channels), self.unit(name) * unit * 74 * 8)
        return self.emit("conv_2d", [name, filters, None], after, ConvAttributes())

    def mean(self, name: str, axis: int, *, keep_dims: bool = True) -> str:
        """The mean over an axis."""
        type = self.of(name)
        kept = (1,) if keep_dims else ()
        after = self.type((*type.shape[:axis], *kept, *type.shape[axis + 1 :]), self.unit(name))
        return self.emit("mean", [name], after, ReductionAttributes((axis,), keep_dims))

    def normalized(self, name: str, axis: int) -> str:
        """Roughly what a layer normalization does."""
        centred = self.binary("sub", name, self.mean(name, axis))
        shape = [1] * self.of(name).rank
        shape[axis] = self.of(name).shape[axis]
        scaled = self.binary("mul", centred, self.constant(tuple(shape), 0.02))
        return self.binary("add", scaled, self.constant(tuple(shape), 0.02))

    def ended(self, *names: str) -> Graph:
        """The graph."""
        self.graph.outputs += names
        return self.graph


def _unfolded(model: Tokens, image: str, size: int, channels: int) -> str:
    """An image [1,size,size,C] as [C,patches,4], by way of channels first, as MobileViT has it."""
    half = size // 2
    x = model.transpose(image, 0, 3, 1, 2)
    x = model.reshape(x, channels * half, 2, half, 2)
    x = model.transpose(x, 0, 2, 1, 3)
    return model.reshape(x, channels, half * half, 4)


def _folded(model: Tokens, x: str, size: int, channels: int) -> str:
    """The image of what `_unfolded` gives."""
    half = size // 2
    x = model.reshape(x, channels * half, half, 2, 2)
    x = model.transpose(x, 0, 2, 1, 3)
    x = model.reshape(x, 1, channels, size, size)
    return model.transpose(x, 0, 2, 3, 1)


def test_patches_normalized_over_their_first_axis() -> None:
    model = Tokens(3)
    x = _unfolded(model, model.start((1, 8, 8, 12)), 8, 12)
    rows = model.transpose(model.normalized(x, 0), 1, 2, 0)
    y = model.connected(rows, 12)
    y = model.binary("add", model.transpose(y, 2, 0, 1), x)
    after = _assert_same(model.ended(_folded(model, y, 8, 12)), transpositions=2)
    means = [node for node in after.nodes() if node.op == "mean"]
    assert [node.attributes for node in means] == [ReductionAttributes((2,), keep_dims=True)]


def test_means_that_lose_their_axis_leave_the_others_apart() -> None:
    model = Tokens(3)
    x = model.transpose(model.start((1, 6, 5, 12)), 0, 3, 1, 2)
    means = model.mean(model.normalized(x, 1), 2, keep_dims=False)
    _assert_same(model.ended(model.connected(model.transpose(means, 0, 2, 1), 8)), transpositions=0)


def attention_of_patches() -> Graph:
    """Attention among the pixels of patches that have the same place, as MobileViT has it."""
    model = Tokens(4)
    x = _unfolded(model, model.start((1, 8, 8, 12)), 8, 12)
    rows = model.transpose(model.normalized(x, 0), 1, 2, 0)
    parts = model.reshape(model.connected(rows, 36), 16, 4, 3, 2, 6)
    type = model.of(parts).with_shape((16, 4, 1, 2, 6))
    names = [model.graph.fresh(f"part{number}") for number in range(3)]
    model.graph.add_node(
        Node("split", "split", (parts,), tuple(names), SplitAttributes(2, (1, 1, 1))), [type] * 3
    )
    q, k, v = (model.reshape(name, 16, 4, 2, 6) for name in names)
    q, k, v = (
        model.transpose(q, 1, 2, 0, 3),
        model.transpose(k, 1, 2, 3, 0),
        model.transpose(v, 1, 2, 0, 3),
    )
    plain = BatchMatMulAttributes()
    scores = model.emit("batch_matmul", [q, k], model.type((4, 2, 16, 16), 0.1), plain)
    weights = model.emit(
        "softmax", [scores], model.type((4, 2, 16, 16), 1 / 256), SoftmaxAttributes()
    )
    made = model.emit("batch_matmul", [weights, v], model.type((4, 2, 16, 6), 0.05), plain)
    joined = model.reshape(model.transpose(made, 0, 2, 1, 3), 4, 16, 12)
    y = model.transpose(model.connected(joined, 12), 2, 1, 0)
    y = model.binary("add", y, x)
    return model.ended(_folded(model, y, 8, 12))


def test_attention_keeps_patches_in_front_of_rows() -> None:
    after = _assert_same(attention_of_patches())
    shapes = {
        after.type(node.inputs[0] or "").shape
        for node in after.nodes()
        if node.op == "fully_connected"
    }
    assert shapes == {(4, 16, 12)}
    assert _counted(after)["transpose"] == 6


def test_windows_move_at_once() -> None:
    model = Tokens(5)
    x = model.reshape(model.start((1, 64, 8)), 1, 2, 4, 2, 4, 8)
    x = model.transpose(x, 0, 2, 1, 3, 4, 5)
    x = model.transpose(x, 0, 2, 3, 1, 4, 5)
    _assert_same(model.ended(model.connected(model.reshape(x, 4, 16, 8), 8)), transpositions=1)


@pytest.mark.parametrize("channels", [1, 3])
def test_pixel_shuffle_by_way_of_channels_first(channels: int) -> None:
    model = Tokens(6)
    x = model.transpose(model.start((1, 5, 6, 4 * channels)), 0, 3, 1, 2)
    x = model.reshape(x, channels, 2, 2, 5, 6)
    x = model.transpose(x, 0, 3, 1, 4, 2)
    x = model.transpose(model.reshape(x, 1, channels, 10, 12), 0, 2, 3, 1)
    _assert_same(model.ended(model.connected(x, 4)), transpositions=1)


def test_moves_that_undo_each_other_go_away() -> None:
    model = Tokens(7)
    x = model.transpose(model.start((1, 4, 6, 8)), 0, 3, 1, 2)
    y = model.binary("add", x, model.constant((8, 1, 1), 0.05))
    y = model.transpose(model.reshape(y, 8, 24), 1, 0)
    _assert_same(model.ended(model.connected(y, 8)), transpositions=0)


def test_outputs_keep_their_order() -> None:
    model = Tokens(8)
    x = model.transpose(model.start((1, 40, 8)), 0, 2, 1)
    y = model.normalized(x, 1)
    z = model.connected(model.transpose(y, 0, 2, 1), 8)
    back = model.transpose(z, 0, 2, 1)
    _assert_same(model.ended(y, back, model.binary("add", back, y)))


def test_an_output_of_the_same_shape_in_another_order_has_a_source() -> None:
    model = Tokens(9)
    x = model.transpose(model.start((7, 5)), 1, 0)
    after = model.of(x).with_shape((1, 1))
    largest = model.emit("reduce_max", [x], after, ReductionAttributes((0, 1), keep_dims=True))
    _assert_same(model.ended(largest), transpositions=0)


def test_a_reshape_that_begins_anew_has_a_source() -> None:
    model = Tokens(10)
    x = model.reshape(
        model.transpose(model.start((2, 5, 6, 3, 1)), 2, 1, 4, 0, 3), 6, 5, 1, 2, 1, 3
    )
    other = model.graph.add_input("other", model.of(x).with_shape((1, 5, 1, 2, 1, 1)))
    y = model.transpose(model.binary("sub", x, other), 2, 0, 4, 5, 1, 3)
    _assert_same(model.ended(model.reshape(y, 15, 3, 2, 2)), settled=False)


def test_what_others_read_in_between_is_not_moved_twice() -> None:
    model = Tokens(11)
    x = model.transpose(model.start((6, 5, 4)), 2, 0, 1)
    y = model.reshape(model.transpose(x, 0, 2, 1), 4, 30)
    after = _assert_same(model.ended(model.connected(x, 3), model.connected(y, 3)))
    assert _counted(after)["transpose"] == 2
    (first, second) = (node for node in after.nodes() if node.op == "transpose")
    assert second.inputs == first.outputs


def test_the_same_movement_is_made_once() -> None:
    model = Tokens(12)
    x = model.start((1, 6, 5, 4))
    one = model.transpose(x, 0, 3, 1, 2)
    other = model.transpose(model.transpose(x, 0, 3, 2, 1), 0, 1, 3, 2)
    _assert_same(model.ended(model.connected(one, 3), model.connected(other, 3)), transpositions=1)


@pytest.mark.parametrize("levels", [1, 2])
def test_expectations_move_instead_of_distributions(levels: int) -> None:
    """Convolutions of single pixels find them in any order, and give less than they read."""
    model = Tokens(15)
    image = model.start((1, 6, 5, 32))
    level = model.reshape(model.transpose(image, 0, 3, 1, 2), 1, 32, 30)
    count = 30 * levels
    if levels > 1:
        type = model.of(level).with_shape((1, 32, count))
        level = model.emit("concatenation", [level] * levels, type, ConcatenationAttributes(2))
    bins = model.transpose(model.reshape(level, 1, 4, 8, count), 0, 1, 3, 2)
    sure = model.emit("softmax", [bins], model.type((1, 4, count, 8), 1 / 256), SoftmaxAttributes())
    means = model.pixels(sure, 1)
    places = model.constant((4, count), 0.05)
    result = _assert_same(
        model.ended(model.binary("add", model.reshape(means, 1, 4, count), places))
    )
    (moved,) = (node for node in result.nodes() if node.op == "transpose")
    assert result.type(moved.outputs[0]).size == 4 * count


def test_each_region_tries_a_bounded_number_of_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers divide their channels into heads of their own, all in one region."""
    tried = list[int]()
    wanted = Plan._wanted

    def counted(plan: Plan, names: Sequence[str]) -> list[tuple[Axis, ...]]:
        found = wanted(plan, names)
        tried.append(len(found))
        return found

    monkeypatch.setattr(Plan, "_wanted", counted)
    model = Tokens(13)
    x = model.start((1, 4, 6, 8))
    for _ in range(40):
        y = model.transpose(x, 0, 3, 1, 2)
        heads = model.reshape(
            model.binary("add", y, model.constant((8, 1, 1), 0.05)), 1, 2, 4, 4, 6
        )
        heads = model.binary("mul", heads, model.constant((2, 1, 1, 1), 0.05))
        y = model.transpose(model.reshape(heads, 1, 8, 4, 6), 0, 2, 3, 1)
        x = model.connected(model.binary("add", x, y), 8)
    _assert_same(model.ended(x))
    assert tried
    assert max(tried) <= 16


_STEPS = ["transpose", "reshape", "add", "constant", "mean", "connected", "softmax", "cut", "join"]
_WITH_PIXELS = [*_STEPS, "pixels", "pixels"]


def _step(model: Tokens, kind: str, live: list[str]) -> str:
    """One more operator on one of the live values."""
    name = live[model.number(0, len(live) - 1)]
    shape = model.of(name).shape
    axis = model.number(0, len(shape) - 1)
    same = [other for other in live if model.of(other).shape == shape]
    match kind:
        case "transpose":
            return model.transpose(name, *model.rng.permutation(len(shape)).tolist())
        case "reshape":
            return model.reshape(name, *_shape(model.rng, math.prod(shape)))
        case "add":
            return model.binary("add", name, same[model.number(0, len(same) - 1)])
        case "constant":
            own = tuple(n if model.chance(0.5) else 1 for n in shape)[model.number(0, len(shape)) :]
            return model.binary("mul", name, model.constant(own, 0.05))
        case "mean":
            keep = model.chance(0.5)
            kept = tuple(1 if k == axis else n for k, n in enumerate(shape) if keep or k != axis)
            after = model.type(kept, model.unit(name))
            small = model.emit("mean", [name], after, ReductionAttributes((axis,), keep))
            return model.binary("sub", name, small) if keep else small
        case "connected":
            return model.connected(name, model.number(2, 6))
        case "pixels":
            image = model.reshape(name, *(1,) * (4 - len(shape)), *shape)
            return model.pixels(image, model.number(1, 6)) if len(shape) < 5 else name
        case "softmax":
            return model.emit("softmax", [name], model.type(shape, 1 / 256), SoftmaxAttributes())
        case "cut":
            size = tuple(max(1, n // 2) if k == axis else n for k, n in enumerate(shape))
            zeros, ones = (0,) * len(shape), (1,) * len(shape)
            taken = StridedSliceAttributes(zeros, size, ones)
            return model.emit("strided_slice", [name], model.of(name).with_shape(size), taken)
    twice = tuple(2 * n if k == axis else n for k, n in enumerate(shape))
    after = model.of(name).with_shape(twice)
    return model.emit("concatenation", [name, name], after, ConcatenationAttributes(axis))


@pytest.mark.parametrize("seed", range(220))
def test_random_graphs_stay_the_same(seed: int) -> None:
    steps = _STEPS if seed < 150 else _WITH_PIXELS
    model = Tokens(seed)
    live = [model.start(tuple(model.number(1, 5) for _ in range(model.number(1, 4))))]
    for _ in range(model.number(4, 25)):
        kind = "transpose" if model.chance(0.4) else steps[model.number(0, len(steps) - 1)]
        name = _step(model, kind, live)
        if model.of(name).shape and math.prod(model.of(name).shape) < 4000:
            live.append(name)
    _assert_same(model.ended(*dict.fromkeys([live[-1], *live[1::4]])), settled=False)
