"""Products of one-hot vectors and tables, which become lookups of the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.compiler.onnx.models import executed, helper, model, read
from tests.support import need_litert

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compilation.quantizing import quantize
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.indexing import OneHotAttributes
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.passes.lookups import Lookups, looks_up
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.formats.tflite import write_model

ROWS, PLACES, WIDTH = 24, 7, 5
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(PLACES, WIDTH)).astype(np.float32)
EDGES = [-(2**31), -9, -8, -7, -2, -1, 0, 1, 5, 6, 7, 8, 9, 2**31 - 1, 3, 4, 2, 6, 0, 1, 5, 4, 3, 2]
"""Indices, some of which name no place."""


def real(*shape: int) -> TensorType:
    return TensorType(shape, DType.FLOAT32)


def one_hots(dtype: DType, first: int, *, operator: bool) -> tuple[Graph, str]:
    """One-hot vectors [1,ROWS,PLACES] of an input [1,ROWS], as one operator or spelled out."""
    graph = Graph("lookup")
    x = graph.add_input("x", TensorType((1, ROWS), dtype))
    if operator:
        on, off = (graph.add_constant("number", np.array(n, np.float32)) for n in (1, 0))
        along = OneHotAttributes(2, PLACES)
        return graph, graph.emit("one_hot", [x, on, off], real(1, ROWS, PLACES), along)
    attributes = ReshapeAttributes((1, ROWS, 1))
    column = graph.emit("reshape", [x], TensorType((1, ROWS, 1), dtype), attributes)
    places = np.arange(first, first + PLACES).astype(dtype.numpy).reshape(1, 1, PLACES)
    equal = TensorType((1, ROWS, PLACES), DType.BOOL)
    found = graph.emit("equal", [graph.add_constant("places", places), column], equal)
    return graph, graph.emit("cast", [found], real(1, ROWS, PLACES))


def connected(graph: Graph, vectors: str, table: Array = TABLE, *, bias: bool = True) -> None:
    """Let a layer be the output."""
    operands = [vectors, graph.add_constant("table", np.ascontiguousarray(table.T))]
    operands += [graph.add_constant("bias", table[0] / 3)] if bias else []
    attributes = FullyConnectedAttributes(Activation.RELU if bias else Activation.NONE, True)
    shape = (*graph.type(vectors).shape[:-1], table.shape[1])
    graph.outputs = [graph.emit("fully_connected", operands, real(*shape), attributes)]


def indices(dtype: DType) -> Array:
    low, high = dtype.limits
    return np.clip(np.array([EDGES], np.int64), low, high).astype(dtype.numpy)


def same(graph: Graph, x: Array) -> Graph:
    """The graph with lookups, which has to give equal numbers."""
    assert looks_up(graph)
    found = Lookups().run(graph.copy())
    verify(found)
    for wanted, given in zip(
        evaluate(graph, {"x": x}).values(), evaluate(found, {"x": x}).values(), strict=True
    ):
        np.testing.assert_array_equal(given, wanted)
    operators = {node.op for node in found.nodes()}
    assert "gather" in operators
    assert not operators & {"fully_connected", "batch_matmul", "one_hot", "equal"}
    return found


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.UINT8, DType.INT8])
@pytest.mark.parametrize("first", [0, 1, 100])
@pytest.mark.parametrize("bias", [False, True])
def test_compared_indices(dtype: DType, first: int, bias: bool) -> None:
    graph, vectors = one_hots(dtype, first, operator=False)
    connected(graph, vectors, bias=bias)
    x = indices(dtype) + np.array(first, dtype.numpy)
    same(graph, x)


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64])
def test_one_hot_operators(dtype: DType) -> None:
    graph, vectors = one_hots(dtype, 0, operator=True)
    connected(graph, vectors)
    same(graph, indices(dtype))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("leading", [(), (1,)])
def test_batched_products(swapped: bool, leading: tuple[int, ...]) -> None:
    graph, vectors = one_hots(DType.INT32, 0, operator=False)
    data = np.ascontiguousarray(TABLE.T if swapped else TABLE)
    table = graph.add_constant("table", data.reshape(*leading, *data.shape))
    attributes = BatchMatMulAttributes(adj_y=swapped)
    made = graph.emit("batch_matmul", [vectors, table], real(1, ROWS, WIDTH), attributes)
    graph.outputs = [made]
    same(graph, indices(DType.INT32))


def test_functions_of_rows_are_looked_up() -> None:
    """As GELU after an embedding; not with what is no row."""
    graph, vectors = one_hots(DType.INT32, 0, operator=False)
    connected(graph, vectors)
    type, rows = real(1, ROWS, WIDTH), graph.outputs[0]
    factors = graph.add_constant("factors", TABLE[1].reshape(1, 1, WIDTH))
    half = graph.add_constant("half", np.array(0.5, np.float32))
    scaled = graph.emit("mul", [factors, rows], type, ActivationAttributes())
    bent = graph.emit("tanh", [scaled], type)
    joined = graph.emit("mul", [rows, bent], type, ActivationAttributes())
    halved = graph.emit("mul", [half, joined], type, ActivationAttributes())
    places = graph.add_constant("places", RNG.normal(size=(1, ROWS, WIDTH)).astype(np.float32))
    placed = graph.emit("add", [halved, places], type, ActivationAttributes())
    graph.outputs = [placed, rows]
    found = same(graph, indices(DType.INT32))
    counts = [node.op for node in found.nodes()]
    assert (counts.count("gather"), counts.count("mul"), counts.count("tanh")) == (2, 0, 0)
    assert counts.count("add") == 1


def test_functions_of_more_rows_than_are_looked_up_stay() -> None:
    table = RNG.normal(size=(ROWS + 1, WIDTH)).astype(np.float32)
    graph = Graph("large")
    x = graph.add_input("x", TensorType((ROWS,), DType.INT32))
    on, off = (graph.add_constant("number", np.array(n, np.float32)) for n in (1, 0))
    depth = len(table)
    vectors = graph.emit("one_hot", [x, on, off], real(ROWS, depth), OneHotAttributes(1, depth))
    connected(graph, vectors, table)
    graph.outputs = [graph.emit("tanh", [graph.outputs[0]], real(ROWS, WIDTH))]
    found = same(graph, indices(DType.INT32)[0])
    assert [node.op for node in found.nodes()][-2:] == ["gather", "tanh"]


def unlike(what: str) -> Graph:
    """Products that are no lookups."""
    table = TABLE.copy()
    if what == "an infinite row":
        table[2, 2] = np.inf
    graph, vectors = one_hots(DType.INT32, 0, operator=what in ("values", "another axis"))
    node = graph.producer(vectors)
    assert node is not None
    if what == "values":
        two = graph.add_constant("two", np.array(2, np.float32))
        graph.remove(node.name)
        vectors = graph.emit(
            "one_hot", [node.inputs[0], two, node.inputs[2]], real(1, ROWS, PLACES), node.attributes
        )
    if what == "another axis":
        graph.remove(node.name)
        attributes = OneHotAttributes(1, PLACES)
        vectors = graph.emit("one_hot", node.inputs, real(1, PLACES, ROWS), attributes)
        table = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
    if what == "places":
        (places,) = (v.name for v in graph.values.values() if v.name.startswith("places"))
        turned = np.arange(PLACES, dtype=np.int32)[::-1].reshape(1, 1, PLACES)
        other = graph.add_constant("turned", np.ascontiguousarray(turned))
        compared = graph.producer(str(node.inputs[0]))
        assert compared is not None
        assert places in compared.inputs
        graph.remove(node.name)
        bools = graph.type(str(node.inputs[0]))
        found = graph.emit("equal", [other, compared.inputs[1]], bools)
        vectors = graph.emit("cast", [found], real(1, ROWS, PLACES))
    connected(graph, vectors, table)
    graph.prune()
    return graph


@pytest.mark.parametrize("what", ["an infinite row", "values", "another axis", "places"])
def test_other_products_stay(what: str) -> None:
    graph = unlike(what)
    verify(graph)
    assert not looks_up(graph)
    before = [node.op for node in graph.nodes()]
    assert [node.op for node in Lookups().run(graph).nodes()] == before


def onnx_model(operator: bool) -> bytes:
    node = helper().make_node
    constants: dict[str, Array] = {"table": TABLE, "bias": TABLE[0]}
    nodes: list[Any]
    if operator:
        constants |= {"depth": np.array(PLACES, np.int32), "values": np.array([0, 1], np.float32)}
        nodes = [node("OneHot", ["x", "depth", "values"], ["v"], axis=-1)]
    else:
        constants |= {
            "axes": np.array([2], np.int64),
            "places": np.arange(PLACES, dtype=np.int32).reshape(1, 1, PLACES),
        }
        nodes = [
            node("Unsqueeze", ["x", "axes"], ["column"]),
            node("Equal", ["column", "places"], ["found"]),
            node("Cast", ["found"], ["v"], to=1),
        ]
    nodes += [node("MatMul", ["v", "table"], ["rows"]), node("Add", ["rows", "bias"], ["y"])]
    return model(nodes, [("x", [1, ROWS])], ["y"], constants, dtype=DType.INT32)


@pytest.mark.parametrize("operator", [False, True])
def test_onnx_models_give_what_onnx_runtime_gives(operator: bool) -> None:
    """Negative indices count from the end in ONNX's operator, and name no place in the other."""
    data = onnx_model(operator)
    x = np.clip(indices(DType.INT32), -100, 100)
    found = same(read(data), x)
    (wanted,) = executed(data, {"x": x})
    np.testing.assert_array_equal(evaluate(found, {"x": x})["y"], wanted)


def run_by_litert(graph: Graph, x: Array) -> Sequence[Array]:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=write_model(export_model(graph)))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]


def test_quantized_models_look_up_integers() -> None:
    """LiteRT gives the rounded rows, and the sums of no place for indices of none."""
    graph = read(onnx_model(False))
    x = indices(DType.INT32)
    quantized = quantize(graph, [{"x": x}])
    operators = [node.op for node in quantized.nodes()]
    assert "gather" in operators
    assert not {*operators} & {"equal", "fully_connected", "cast", "quantize"}
    (found,) = run_by_litert(quantized, x)
    (computed,) = evaluate(quantized, {"x": x}).values()
    np.testing.assert_array_equal(found, computed)
    scale = quantized.type(quantized.outputs[0]).quantization
    assert scale is not None
    (wanted,) = evaluate(graph, {"x": x}).values()
    numbers = (found - scale.zero_point_array(3)) * scale.scale_array(3)
    np.testing.assert_allclose(numbers, wanted, atol=0.51 * float(scale.scale_array(3).max()))
