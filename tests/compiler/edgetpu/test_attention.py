"""Products of computed matrices, and attention, which has its matrices from images."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from tests.compiler.edgetpu_models import Model, assert_exact, random_inputs

from fitzroy.base.types import Quantization, TensorType
from fitzroy.compiler.ir import Attributes, Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.shape import (
    ReshapeAttributes,
    SplitAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.fitting.narrow import arranged
from fitzroy.compiler.targets.edgetpu.lowerings import attention as attention_module
from fitzroy.compiler.targets.edgetpu.lowerings.attention import taken_apart
from fitzroy.compiler.targets.edgetpu.lowerings.pixel_softmax import PixelSoftmax
from fitzroy.compiler.targets.edgetpu.partition.divide import refusals
from fitzroy.compiler.targets.edgetpu.program.lower import legalized
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import ToImage, ToVector


def _product(
    batch: tuple[int, ...], sizes: tuple[int, int, int], adjoint: tuple[bool, bool], seed: int = 1
) -> Graph:
    model, (rows, summands, columns) = Model(seed), sizes
    left = (summands, rows) if adjoint[0] else (rows, summands)
    right = (columns, summands) if adjoint[1] else (summands, columns)
    x = model.graph.add_input("x", model.type((*batch, *left), 0.05))
    y = model.graph.add_input("y", model.type((*batch, *right), 0.04))
    unit = model.unit(x) * model.unit(y) * 74 * math.sqrt(summands)
    type = model.type((*batch, rows, columns), unit)
    product = model.emit("batch_matmul", [x, y], type, BatchMatMulAttributes(*adjoint))
    model.graph.outputs.append(product)
    return model.graph


@pytest.mark.parametrize(
    ("batch", "sizes", "adjoint"),
    [
        ((1, 1), (20, 12, 70), (False, True)),
        ((1, 1), (20, 12, 70), (False, False)),
        # Neither summands nor results are whole words, or blocks.
        ((1,), (7, 5, 9), (False, True)),
        ((), (7, 67, 9), (False, False)),
        ((), (9, 66, 133), (False, True)),
        # Several matrices, one of them transposed.
        ((3,), (6, 8, 12), (False, True)),
        ((1, 2), (6, 8, 12), (False, False)),
        ((2,), (6, 8, 12), (True, True)),
    ],
)
def test_products_of_computed_matrices_are_exact(
    batch: tuple[int, ...], sizes: tuple[int, int, int], adjoint: tuple[bool, bool]
) -> None:
    assert_exact(_product(batch, sizes, adjoint))


@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize(("heads", "pixels"), [((2,), 70), ((), 9), ((1, 3), 5)])
def test_columns_of_the_same_matrices_are_multiplied_together(
    heads: tuple[int, ...], pixels: int, *, adj_x: bool
) -> None:
    """Converters write attention as one product for each pixel, which are too many."""
    model, (rows, summands) = Model(7), (pixels, 8)
    left = (summands, rows) if adj_x else (rows, summands)
    x = model.graph.add_input("x", model.type((1, *heads, *left), 0.05))
    y = model.graph.add_input("y", model.type((pixels, *heads, summands, 1), 0.04))
    type = model.type((pixels, *heads, rows, 1), 0.8)
    attributes = BatchMatMulAttributes(adj_x, False)
    model.graph.outputs.append(model.emit("batch_matmul", [x, y], type, attributes))
    graph = model.graph
    assert not refusals(graph)
    assert_exact(graph)


@pytest.mark.parametrize("adj_y", [False, True])
@pytest.mark.parametrize(
    ("batches", "rows"),
    [
        (((2, 70), (2, 1)), 1),
        (((3, 2), (1,)), 5),
        (((3,), ()), 4),
        (((1, 2, 3, 4), (2, 1, 1)), 2),
    ],
)
def test_rows_of_the_same_matrices_are_multiplied_together(
    batches: tuple[tuple[int, ...], tuple[int, ...]], rows: int, *, adj_y: bool
) -> None:
    """Converters write queries as a matrix for each pixel, next to keys that all of them share."""
    model, (summands, columns) = Model(8), (8, 11)
    right = (columns, summands) if adj_y else (summands, columns)
    x = model.graph.add_input("x", model.type((*batches[0], rows, summands), 0.05))
    y = model.graph.add_input("y", model.type((*batches[1], *right), 0.04))
    type = model.type((*batches[0], rows, columns), 0.8)
    attributes = BatchMatMulAttributes(False, adj_y)
    model.graph.outputs.append(model.emit("batch_matmul", [x, y], type, attributes))
    assert not refusals(model.graph)
    assert_exact(model.graph)


@pytest.mark.parametrize("adjoint", [(False, False), (True, True)])
@pytest.mark.parametrize(
    ("known", "computed"),
    [((), ()), ((2, 2), (2, 2)), ((), (1, 3)), ((1, 3), (2, 3)), ((1, 2), (2,))],
)
def test_products_with_a_constant_first_matrix_are_exact(
    known: tuple[int, ...], computed: tuple[int, ...], adjoint: tuple[bool, bool]
) -> None:
    model, (rows, summands, columns) = Model(3), (5, 7, 9)
    left = (summands, rows) if adjoint[0] else (rows, summands)
    right = (columns, summands) if adjoint[1] else (summands, columns)
    x = model.constant((*known, *left), 0.05)
    y = model.graph.add_input("y", model.type((*computed, *right), 0.04))
    batch = np.broadcast_shapes(known, computed)
    type = model.type((*batch, rows, columns), 0.8)
    product = model.emit("batch_matmul", [x, y], type, BatchMatMulAttributes(*adjoint))
    model.graph.outputs.append(product)
    assert_exact(model.graph)


@pytest.mark.parametrize("adjoint", [(False, False), (True, True)])
@pytest.mark.parametrize(
    ("computed", "known"),
    [((4,), (4,)), ((1,), (3,)), ((1, 2), (2,)), ((2, 2), (1, 2)), ((1, 1), (2, 2))],
)
def test_products_with_several_constant_matrices_are_exact(
    computed: tuple[int, ...], known: tuple[int, ...], adjoint: tuple[bool, bool]
) -> None:
    """Each is the filter of a convolution of its own."""
    model, (rows, summands, columns) = Model(3), (5, 8, 9)
    left = (summands, rows) if adjoint[0] else (rows, summands)
    right = (columns, summands) if adjoint[1] else (summands, columns)
    x = model.graph.add_input("x", model.type((*computed, *left), 0.05))
    y = model.constant((*known, *right), 0.04)
    type = model.type((*np.broadcast_shapes(computed, known), rows, columns), 0.8)
    product = model.emit("batch_matmul", [x, y], type, BatchMatMulAttributes(*adjoint))
    model.graph.outputs.append(product)
    assert_exact(model.graph)


@pytest.mark.parametrize(
    ("computed", "known", "text"),
    [((2, 1), (1, 3), "2 and 3 matrices"), ((65,), (65,), "65 matrices, 64 are possible")],
)
def test_constant_matrices_that_are_refused(
    computed: tuple[int, ...], known: tuple[int, ...], text: str
) -> None:
    model = Model(3)
    x = model.graph.add_input("x", model.type((*computed, 5, 8), 0.05))
    type = model.type((*np.broadcast_shapes(computed, known), 5, 9), 0.8)
    names = [x, model.constant((*known, 8, 9), 0.04)]
    model.graph.outputs.append(model.emit("batch_matmul", names, type, BatchMatMulAttributes()))
    ((refused, *_),) = refusals(model.graph).values()
    assert text in refused.reason


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("shape", [(6, 12), (1, 12), (2, 3, 12)])
@pytest.mark.parametrize("known", [False, True])
def test_fully_connected_layers_with_computed_weights_are_exact(
    shape: tuple[int, ...], activation: Activation, *, known: bool
) -> None:
    model = Model(4)
    w = model.graph.add_input("w", model.type((7, shape[-1]), 0.04))
    if known:
        x = model.constant(shape, 0.05)
    else:
        x = model.graph.add_input("x", model.type(shape, 0.05))
    type = model.type((*shape[:-1], 7), 0.8)
    attributes = FullyConnectedAttributes(activation, keep_num_dims=True)
    model.graph.outputs.append(model.emit("fully_connected", [x, w], type, attributes))
    assert_exact(model.graph)


@pytest.mark.slow
def test_large_matrices_are_multiplied_block_by_block() -> None:
    assert_exact(_product((), (6, 256, 380), (False, True)))
    assert_exact(_product((), (6, 700, 130), (False, False)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_products_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist())
    rows, summands, columns = (int(n) for n in rng.integers(1, 150, 3))
    adjoint = bool(rng.integers(2)), bool(rng.integers(2))
    assert_exact(_product(batch, (rows, summands, columns), adjoint, seed), seed)


def attention(
    size: tuple[int, int], heads: int, key: int, value: int, areas: int = 1, seed: int = 1
) -> Graph:
    """Attention as exporters write it, of an image that an input is, back to an image."""
    model, (height, width), depth = Model(seed), size, 2 * key + value
    count = height * width // areas
    graph, image = model.graph, (1, height, width, heads * depth)
    x = graph.add_input("x", model.type(image, 0.05))
    own = graph.type(x)

    def shaped(*shape: int) -> TensorType:
        return own.with_shape(shape)

    def emit(op: str, name: str, type: TensorType, attributes: Attributes) -> str:
        return graph.emit(op, [name], type, attributes)

    shape = (areas, count, heads, depth)
    rows = emit("reshape", x, shaped(*shape), ReshapeAttributes(shape))
    sizes = (key, key, value)
    names = ("q", "k", "v")
    graph.add_node(
        Node("split", "split", (rows,), names, SplitAttributes(3, sizes)),
        [shaped(areas, count, heads, n) for n in sizes],
    )
    factor = model.constant((), 0.01)
    scaled = graph.emit(
        "mul", ["q", factor], model.type((areas, count, heads, key), 0.02), ActivationAttributes()
    )
    queries = emit(
        "transpose", scaled, graph.type(scaled).with_shape((areas, heads, count, key)),
        TransposeAttributes((0, 2, 1, 3)),
    )  # fmt: skip
    swap = TransposeAttributes((0, 2, 3, 1))
    keys = emit("transpose", "k", shaped(areas, heads, key, count), swap)
    values = emit("transpose", "v", shaped(areas, heads, value, count), swap)
    unit = model.unit(queries) * model.unit(keys) * 74 * math.sqrt(key)
    logits = graph.emit(
        "batch_matmul", [queries, keys], model.type((areas, heads, count, count), unit),
        BatchMatMulAttributes(),
    )  # fmt: skip
    shares = emit(
        "softmax", logits, model.type((areas, heads, count, count), 1 / 256), SoftmaxAttributes()
    )
    mixed = graph.emit(
        "batch_matmul", [values, shares], model.type((areas, heads, value, count), 0.03),
        BatchMatMulAttributes(False, True),
    )  # fmt: skip
    flat = graph.type(mixed)
    joined = emit("reshape", mixed, flat.with_shape((1, areas, heads * value, count)),
                  ReshapeAttributes((1, areas, heads * value, count)))  # fmt: skip
    turned = emit("transpose", joined, flat.with_shape((1, areas, count, heads * value)),
                  TransposeAttributes((0, 1, 3, 2)))  # fmt: skip
    result = (1, height, width, heads * value)
    back = emit("reshape", turned, flat.with_shape(result), ReshapeAttributes(result))
    again = emit("reshape", "v", shaped(*result), ReshapeAttributes(result))
    last = model.type(result, 0.06)
    graph.outputs.append(graph.emit("add", [back, again], last, ActivationAttributes()))
    return graph


@pytest.mark.parametrize(
    ("size", "heads", "key", "value", "areas"),
    [((5, 6), 2, 8, 16, 1), ((8, 6), 2, 8, 8, 4), ((3, 5), 1, 4, 8, 1), ((6, 4), 3, 12, 4, 2)],
)
def test_attention_has_its_matrices_from_the_image(
    size: tuple[int, int], heads: int, key: int, value: int, areas: int
) -> None:
    graph = attention(size, heads, key, value, areas)
    verify(graph)
    apart = taken_apart(graph)
    verify(apart.graph)
    inputs = random_inputs(graph, 3)
    wanted, found = evaluate(graph, inputs), evaluate(apart.graph, inputs)
    for name in graph.outputs:
        assert np.array_equal(found[name], wanted[name])
    ops = [node.op for node in apart.graph.nodes()]
    assert "transpose" not in ops
    assert ops.count("batch_matmul") == 2 * heads * areas
    names = {node.name for node in graph.nodes()}
    assert all(apart.origins.get(node.name, node.name) in names for node in apart.graph.nodes())
    assert not refusals(graph)
    assert_exact(graph)


def test_functions_of_small_matrices_are_of_all_at_once() -> None:
    graph = attention((5, 6), 3, 8, 16)
    ops = Counter(node.op for node in taken_apart(graph).graph.nodes())
    assert (ops["batch_matmul"], ops["softmax"]) == (6, 1)
    layers = Counter(type(layer) for layer in legalized(graph).layers)
    assert layers[PixelSoftmax] == 1
    # Rows of pixels are joined and taken as they lie.
    assert not layers[ToVector]
    assert not layers[ToImage]


def test_graphs_without_products_stay_as_they_are() -> None:
    model = Model(2)
    x = model.graph.add_input("x", model.type((1, 4, 4, 8), 0.05))
    type = model.graph.type(x).with_shape((1, 16, 8))
    model.graph.outputs.append(model.emit("reshape", [x], type, ReshapeAttributes((1, 16, 8))))
    assert taken_apart(model.graph).graph is model.graph


def test_results_that_others_read_are_made_too() -> None:
    """A softmax of several products goes out; so does the transposed product that follows."""
    graph = attention((4, 4), 2, 8, 8)
    (softmax,) = (node.outputs[0] for node in graph.nodes() if node.op == "softmax")
    product = [node.outputs[0] for node in graph.nodes() if node.op == "batch_matmul"][-1]
    graph.outputs += [softmax, product]
    inputs = random_inputs(graph, 4)
    wanted, found = evaluate(graph, inputs), evaluate(taken_apart(graph).graph, inputs)
    for name in graph.outputs:
        assert np.array_equal(found[name], wanted[name])
    assert_exact(graph)


def test_operators_beside_attention_may_leave_out_operands() -> None:
    model = Model(2)
    graph = attention((4, 4), 2, 8, 8)
    x = graph.add_input("other", model.type((1, 4, 4, 8), 0.05))
    data = np.ones((4, 1, 1, 8), np.int8)
    weights = graph.add_constant("weights", data, Quantization.per_tensor(0.02, 0))
    after = model.type((1, 4, 4, 4), 0.03)
    graph.outputs.append(graph.emit("conv_2d", [x, weights, None], after, ConvAttributes()))
    assert_exact(graph)


def test_rows_beside_attention_may_become_images() -> None:
    model = Model(2)
    graph = attention((4, 4), 2, 8, 8)
    x = graph.add_input("other", model.type((1, 1, 8), 0.05))
    shape = (1, 1, 1, 8)
    image = graph.emit("reshape", [x], graph.type(x).with_shape(shape), ReshapeAttributes(shape))
    turned = graph.type(x).with_shape((1, 1, 8, 1))
    graph.outputs.append(
        graph.emit("transpose", [image], turned, TransposeAttributes((0, 1, 3, 2)))
    )
    assert_exact(graph)


def stacked(count: int, rows: int, depth: int) -> Graph:
    """Attention of matrices that are inputs, and no parts of an image."""
    model = Model(3)
    shape, square = (count, rows, depth), (count, rows, rows)
    x, y, z = (model.graph.add_input(name, model.type(shape, 0.05)) for name in "xyz")
    unit = model.unit(x) * model.unit(y) * 74 * math.sqrt(depth)
    transposed, plain = BatchMatMulAttributes(False, True), BatchMatMulAttributes()
    logits = model.emit("batch_matmul", [x, y], model.type(square, unit), transposed)
    shares = model.emit("softmax", [logits], model.type(square, 1 / 256), SoftmaxAttributes())
    mixed = model.emit("batch_matmul", [shares, z], model.type(shape, 0.03), plain)
    model.graph.outputs.append(mixed)
    return model.graph


def test_large_matrices_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = stacked(3, 20, 12)
    assert taken_apart(graph).graph.nodes() == graph.nodes()
    for most in ("MOST_TOGETHER", "_MOST_AT_ONCE"):
        monkeypatch.setattr(attention_module, most, 3 * 20 * 20 - 1)
    apart = taken_apart(graph).graph
    ops = Counter(node.op for node in apart.nodes())
    assert (ops["batch_matmul"], ops["softmax"]) == (6, 3)
    inputs = random_inputs(graph, 5)
    (name,) = graph.outputs
    wanted, found = evaluate(graph, inputs), evaluate(apart, inputs)
    assert np.array_equal(found[name], wanted[name])
    assert_exact(graph)


def test_matrices_that_together_take_too_much_memory_are_on_the_chip() -> None:
    """Sixteen of 256 x 256: scores and their exponentials alone would take 256 KiB of a tile."""
    assert arranged(legalized(stacked(16, 256, 16))).schedule.steps
