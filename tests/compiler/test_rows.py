"""Rows that are computed as images of one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, executed, helper, model, operators, read

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.ir import Graph, parse_graph
from fitzroy.compiler.ops.catalog import attributes_of
from fitzroy.compiler.passes.rows import RowsAsImages
from fitzroy.compiler.quantization.pipeline import prepared
from fitzroy.compiler.reference import evaluate, verify

RNG = np.random.default_rng(2)
LENGTH, WIDTH = 12, 6


def real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper().make_node(kind, inputs, outputs, **attributes)


CONSTANTS: dict[str, Array] = {
    "v": real(WIDTH, 4, 3), "w": real(3, WIDTH, 3), "u": real(3, 2 * WIDTH, 3),
    "half": real(3, WIDTH // 2, 3), "factors": real(1, WIDTH, 1), "table": real(1, WIDTH, LENGTH),
    "two": np.array(2, np.float32), "amounts": np.array([0, 0, 2, 0, 0, 1], np.int64),
    "first": np.array([1], np.int64), "last": np.array([9], np.int64),
    "axis": np.array([2], np.int64), "s": real(WIDTH), "b": real(WIDTH),
    "squeezed": real(WIDTH, WIDTH, 1),
}  # fmt: skip

BETWEEN: dict[str, list[Any]] = {
    "functions": [("Sigmoid", ["c"], ["f"]), ("Mul", ["c", "f"], ["d"])],
    "numbers": [("Mul", ["c", "two"], ["d"])],
    "factors of channels": [("Mul", ["factors", "c"], ["d"])],
    "a table": [("Add", ["c", "table"], ["d"])],
    "a border": [("Tanh", ["c"], ["f"]), ("Pad", ["f", "amounts"], ["d"])],
    "mirrored": [("Tanh", ["c"], ["f"]), ("Pad", ["f", "amounts"], ["d"], {"mode": "reflect"})],
    "part of a row": [("Tanh", ["c"], ["f"]), ("Slice", ["f", "first", "last", "axis"], ["d"])],
    "a residual": [("Tanh", ["c"], ["f"]), ("Add", ["c", "f"], ["d"])],
    "squeeze and excitation": [
        ("ReduceMean", ["c"], ["m"], {"axes": [2], "keepdims": 1}),
        ("Conv", ["m", "squeezed"], ["e"]),
        ("Sigmoid", ["e"], ["f"]),
        ("Mul", ["c", "f"], ["d"]),
    ],
    "normalized": [("InstanceNormalization", ["c", "s", "b"], ["d"])],
}
"""What comes between two convolutions of rows: of `c`, it makes `d`."""


def chain(between: list[Any], filters: str = "w") -> bytes:
    nodes = [node("Conv", ["x", "v"], ["c"], pads=[1, 1])]
    nodes += [
        node(kind, inputs, outputs, **(more[0] if more else {}))
        for kind, inputs, outputs, *more in between
    ]
    nodes.append(node("Conv", ["d", filters], ["y"]))
    return model(nodes, [("x", [1, 4, LENGTH])], ["y"], CONSTANTS)


def check(data: bytes) -> Graph:
    """A model that gives what others give, and in which rows are only at the borders."""
    x = real(1, 4, LENGTH)
    compare(data, {"x": x})
    graph = read(data)
    (found,), (wanted,) = evaluate(graph, {"x": x}).values(), executed(data, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    kept = read(data, Reading())
    (last,) = (n for n in kept.nodes() if n.outputs == ("y",))
    inner = [n for n in kept.nodes() if n is not last]
    assert [n.op for n in inner].count("reshape") <= 2
    assert not any(len(kept.type(n.outputs[0]).shape) == 3 for n in inner[1:-1])
    return kept


@pytest.mark.parametrize("name", BETWEEN)
def test_what_is_between_convolutions_of_rows(name: str) -> None:
    check(chain(BETWEEN[name]))


def test_rows_that_are_split_and_joined() -> None:
    split = [
        ("Split", ["c"], ["a", "z"], {"axis": 1}),
        ("Tanh", ["a"], ["t"]),
        ("Sigmoid", ["z"], ["g"]),
        ("Mul", ["t", "g"], ["d"]),
    ]
    check(chain(split, "half"))
    joined = [("Tanh", ["c"], ["t"]), ("Concat", ["c", "t"], ["d"], {"axis": 1})]
    check(chain(joined, "u"))


def test_means_of_rows() -> None:
    """Whose results have no rows any more."""
    nodes = [
        node("Conv", ["x", "v"], ["c"]),
        node("ReduceMean", ["c"], ["y"], axes=[2], keepdims=0),
    ]
    data = model(nodes, [("x", [1, 4, LENGTH])], ["y"], CONSTANTS)
    graph = compare(data, {"x": real(1, 4, LENGTH)})
    (mean,) = (n for n in graph.nodes() if n.op == "mean")
    assert graph.type(str(mean.inputs[0])).shape == (1, 1, LENGTH - 2, WIDTH)


def test_functions_of_sums_follow_the_convolution() -> None:
    data = chain(BETWEEN["functions"])
    assert operators(read(data, Reading()))[1:4] == ["conv_2d", "sigmoid", "mul"]


def test_integers_stay_what_they_are() -> None:
    text = """graph "g" {
  input %x : int8[1,1,5,4] quant(0.5 : 3)
  %p : int8[1,1,5,4] quant(0.5 : 3) = max_pool_2d(%x) {
    kernel = [1, 1], stride = [1, 1], padding = valid, activation = none}
  %r : int8[1,5,4] quant(0.5 : 3) = reshape(%p) {shape = [1, 5, 4]}
  %s : int8[1,5,4] quant(0.0078125 : 0) = tanh(%r)
  %y : int8[1,7,4] quant(0.0078125 : 0) = pad(%s) {
    before = [0, 1, 0], after = [0, 1, 0], value = 0.0}
  output %y
}"""
    graph = parse_graph(text, attributes_of)
    found = RowsAsImages().run(graph.copy())
    verify(found)
    assert [n.op for n in found.nodes()] == ["max_pool_2d", "tanh", "pad", "reshape"]
    assert found.type(found.nodes()[2].outputs[0]) == TensorType(
        (1, 1, 7, 4), DType.INT8, Quantization.per_tensor(0.0078125, 0)
    )
    x = RNG.integers(-128, 128, (1, 1, 5, 4)).astype(np.int8)
    np.testing.assert_array_equal(evaluate(found, {"x": x})["y"], evaluate(graph, {"x": x})["y"])


def test_models_of_other_formats_are_prepared_so_to_be_quantized() -> None:
    text = """graph "g" {
  input %x : float32[1,1,6,4]
  input %w : float32[4,1,1,4]
  input %b : float32[4]
  %c : float32[1,1,6,4] = conv_2d(%x, %w, %b) {
    stride = [1, 1], dilation = [1, 1], padding = valid, activation = none}
  %r : float32[1,6,4] = reshape(%c) {shape = [1, 6, 4]}
  %f : float32[1,6,4] = tanh(%r)
  %i : float32[1,1,6,4] = reshape(%f) {shape = [1, 1, 6, 4]}
  %d : float32[1,1,6,4] = conv_2d(%i, %w, %b) {
    stride = [1, 1], dilation = [1, 1], padding = valid, activation = none}
  output %d
}"""
    graph = prepared(parse_graph(text, attributes_of))
    assert operators(graph) == ["conv_2d", "tanh", "conv_2d"]


def test_other_reshapes_stay() -> None:
    """Of tokens, of images of several rows, and where another operand has rows of its own."""
    text = """graph "g" {
  input %x : float32[1,1,6,4]
  input %z : float32[1,6,4]
  input %w : float32[4,1,1,4]
  input %b : float32[4]
  %t : float32[1,6,4] = reshape(%x) {shape = [1, 6, 4]}
  %f : float32[1,6,4] = tanh(%t)
  %c : float32[1,1,6,4] = conv_2d(%x, %w, %b) {
    stride = [1, 1], dilation = [1, 1], padding = valid, activation = none}
  %r : float32[1,6,4] = reshape(%c) {shape = [1, 6, 4]}
  %g : float32[1,6,4] = add(%r, %z) {activation = none}
  %m : float32[1,3,8] = reshape(%c) {shape = [1, 3, 8]}
  %h : float32[1,3,8] = tanh(%m)
  output %f
  output %g
  output %h
}"""
    graph = parse_graph(text, attributes_of)
    before = [str(n) for n in graph.nodes()]
    assert [str(n) for n in RowsAsImages().run(graph).nodes()] == before
