"""Products with constant matrices, which become layers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, executed, helper, model, read

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.passes.constant_matrices import ConstantMatrices
from fitzroy.compiler.passes.fuse_quantized import FuseQuantized
from fitzroy.compiler.reference import evaluate, verify

ROWS, DEPTH, COLUMNS = 6, 5, 4


def product(
    outer: tuple[int, ...], constant: tuple[int, ...], *, left: bool, swapped: bool
) -> Graph:
    """Matrices and constant ones, of which the constant are on one side.

    Args:
        outer: dimensions before the rows of the matrices.
        constant: those of the constant ones.
        left: on which side these are.
        swapped: whether all have rows and columns swapped.
    """
    graph = Graph("product")
    shapes = ((*constant, COLUMNS, DEPTH), (*outer, DEPTH, ROWS)) if left else (
        (*outer, ROWS, DEPTH), (*constant, DEPTH, COLUMNS)
    )  # fmt: skip
    if swapped:
        shapes = tuple((*shape[:-2], shape[-1], shape[-2]) for shape in shapes)  # type: ignore[assignment]
    data = np.random.default_rng(2).normal(size=shapes[0 if left else 1]).astype(np.float32)
    x = graph.add_input("x", TensorType(shapes[1 if left else 0], DType.FLOAT32))
    operands = [graph.add_constant("words", data), x]
    made = (*outer, COLUMNS, ROWS) if left else (*outer, ROWS, COLUMNS)
    type = TensorType(made, DType.FLOAT32)
    attributes = BatchMatMulAttributes(swapped, swapped)
    graph.outputs = [
        graph.emit("batch_matmul", operands if left else operands[::-1], type, attributes)
    ]
    return graph


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("outer", "constant"),
    [((), ()), ((1,), (1,)), ((3,), ()), ((3,), (1,)), ((1, 4), (1, 4)), ((2, 4), (4,))],
)
def test_a_few_constant_matrices_are_filters(
    outer: tuple[int, ...], constant: tuple[int, ...], swapped: bool, left: bool
) -> None:
    """For all matrices, or each for one."""
    graph = product(outer, constant, left=left, swapped=swapped)
    x = np.random.default_rng(3).normal(size=graph.type("x").shape).astype(np.float32)
    wanted = evaluate(graph, {"x": x})[graph.outputs[0]]
    result = ConstantMatrices().run(graph.copy())
    verify(result)
    assert result.outputs == graph.outputs
    assert "batch_matmul" not in {node.op for node in result.nodes()}
    assert "fully_connected" in {node.op for node in result.nodes()}
    found = evaluate(result, {"x": x})[result.outputs[0]]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("outer", "constant"), [((17,), (17,)), ((2, 3), (2, 3)), ((4,), (1, 4))])
def test_others_stay(outer: tuple[int, ...], constant: tuple[int, ...]) -> None:
    """Many matrices, and those that have more dimensions than the others."""
    graph = product(outer, constant, left=False, swapped=False)
    if len(constant) > len(outer):
        type = TensorType((1, *graph.type(graph.outputs[0]).shape), DType.FLOAT32)
        (node,) = graph.nodes()
        inputs = list(node.inputs)
        graph.outputs = [graph.emit("batch_matmul", inputs, type, node.attributes)]
        graph.prune()
    result = ConstantMatrices().run(graph)
    assert [node.op for node in result.nodes()] == ["batch_matmul"]


@pytest.mark.parametrize("left", [False, True])
def test_embeddings_that_models_normalize_are_filters(left: bool) -> None:
    """YOLO-World divides the embeddings of its words by their lengths when it runs."""
    node = helper().make_node
    words = np.random.default_rng(5).normal(size=(1, COLUMNS, DEPTH)).astype(np.float32)
    nodes = [
        node("ReduceL2", ["words"], ["length"], axes=[2], keepdims=1),
        node("Div", ["words", "length"], ["unit"]),
        node("Transpose", ["unit"], ["columns"], perm=[0, 2, 1]),
        node("MatMul", ["unit", "x"] if left else ["x", "columns"], ["y"]),
    ]
    shape = (1, DEPTH, ROWS) if left else (1, ROWS, DEPTH)
    data = model(nodes, [("x", shape)], ["y"], {"words": words})
    compare(data, {"x": np.random.default_rng(1).normal(size=shape).astype(np.float32)})
    ops = {one.op for one in read(data, Reading(keep_layout=True)).nodes()}
    assert "fully_connected" in ops
    assert "batch_matmul" not in ops


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("outer", [(4,), (1, 4)])
def test_matrices_of_dequantized_integers_are_filters_of_integers(
    outer: tuple[int, ...], several: bool
) -> None:
    """Tools that quantize ONNX models give each column of a matrix a scale of its own."""
    node, rng = helper().make_node, np.random.default_rng(6)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xr"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=len(outer) + 1),
        node("MatMul", ["xr", "wr"], ["c"]),
        node("QuantizeLinear", ["c", "cs", "z"], ["cq"]),
        node("DequantizeLinear", ["cq", "cs", "z"], ["y"]),
    ]
    scales = np.linspace(0.01, 0.02, COLUMNS) if several else np.full(COLUMNS, 0.01)
    weights: dict[str, Array] = {
        "s": np.array(0.02, np.float32),
        "z": np.array(0, np.int8),
        "w": rng.integers(-127, 128, (*outer, DEPTH, COLUMNS)).astype(np.int8),
        "ws": scales.astype(np.float32),
        "wz": np.zeros(COLUMNS, np.int8),
        "cs": np.array(0.1, np.float32),
    }
    data = model(nodes, [("x", (*outer, ROWS, DEPTH))], ["y"], weights)
    x = rng.normal(size=(*outer, ROWS, DEPTH)).astype(np.float32)
    graph = FuseQuantized().run(read(data, Reading(keep_layout=True)))
    layers = [one for one in graph.nodes() if one.op == "fully_connected"]
    assert len(layers) == 4
    assert all(graph.type(one.outputs[0]).is_eight_bit for one in layers)
    (found,) = evaluate(graph, {"x": x}).values()
    (wanted,) = executed(data, {"x": x})
    assert np.abs(found - wanted).max() <= 0.1 + 1e-5
    assert (found == wanted).mean() > 0.95
