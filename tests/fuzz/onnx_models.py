"""ONNX models as seeds, and mutants that are protocol buffers still."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.compiler.onnx.models import helper, model
from tests.compiler.onnx.test_control import LOOP, body, loop
from tests.compiler.onnx.test_layout import network
from tests.compiler.onnx.test_quantized import converted_network

from fitzroy.base.types import Array
from fitzroy.compiler.frontends.onnx.frontend import OnnxFrontend
from fitzroy.compiler.reference import verify


def onnx_files() -> list[bytes]:
    """Small models of every kind of operator."""
    whole = [network(), converted_network(np.uint8, np.int8), _shapes(), _recurrent(), _branches()]
    return [*whole, _loops(), _places()]


def _shapes() -> bytes:
    node = helper().make_node
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["n"], axis=0),
        node("Unsqueeze", ["n", "zero"], ["u"]),
        node("Concat", ["u", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[1, 0]),
        node("Slice", ["t", "zero", "two", "zero", "one2"], ["l"]),
        node("ConstantOfShape", ["shape2"], ["c"]),
        node("Range", ["z0", "z4", "z1"], ["g"]),
        node("Expand", ["l", "wide"], ["e"]),
        node("Tile", ["e", "times"], ["k"]),
        node("Pad", ["k", "pads"], ["p"]),
        node("Resize", ["p", "", "factors"], ["q"], mode="linear"),
        node("MatMul", ["q", "m"], ["y0"]),
        node("Cast", ["g"], ["gf"], to=1),
        node("ReduceSum", ["gf", "zero"], ["gs"], keepdims=0),
        node("Add", ["y0", "gs"], ["y1"]),
        node("Mul", ["y1", "c"], ["y2"]),
        node("Softmax", ["y2"], ["y"], axis=0),
    ]
    constants: dict[str, Array] = {
        "one": np.array(1), "zero": np.array([0]), "rest": np.array([-1]), "two": np.array([2]),
        "one2": np.array([1]), "shape2": np.array([1]), "wide": np.array([2, 3]),
        "times": np.array([2, 1]), "pads": np.array([0, 1, 0, 1]),
        "factors": np.array([2, 1], np.float32), "m": np.ones((5, 3), np.float32),
        "z0": np.array(0), "z4": np.array(4), "z1": np.array(1),
    }  # fmt: skip
    return model(nodes, [("x", ["b", 3])], ["y"], constants)


def _recurrent() -> bytes:
    node = helper().make_node
    nodes = [
        node("LSTM", ["x", "w", "r", "b"], ["h", "last", ""], hidden_size=2),
        node("GRU", ["x", "w3", "r3"], ["", "g"], hidden_size=2, linear_before_reset=1),
        node("Add", ["last", "g"], ["s"]),
        node("LayerNormalization", ["s", "one"], ["n"]),
        node("Einsum", ["n", "one"], ["y"], equation="abc,c->ab"),
        node("Gelu", ["h"], ["z"]),
    ]
    rng = np.random.default_rng(0)
    constants: dict[str, Array] = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in {
            "w": (1, 8, 3), "r": (1, 8, 2), "b": (1, 16), "w3": (1, 6, 3), "r3": (1, 6, 2),
            "one": (2,),
        }.items()
    }  # fmt: skip
    return model(nodes, [("x", [2, 1, 3])], ["z", "n"], constants, opset=20)


def _branches() -> bytes:
    h = helper()
    from onnx import TensorProto

    branch = h.make_graph(
        [h.make_node("Relu", ["x"], ["inner"])],
        "branch",
        [],
        [h.make_tensor_value_info("inner", TensorProto.FLOAT, None)],
    )
    nodes = [
        h.make_node("If", ["c"], ["a"], then_branch=branch, else_branch=branch),
        h.make_node("AveragePool", ["a"], ["p"], kernel_shape=[2, 2], pads=[1, 0, 0, 1]),
        h.make_node("ConvTranspose", ["p", "w"], ["t"], strides=[2, 2]),
        h.make_node("Split", ["t"], ["l", "r"], axis=1),
        h.make_node("Where", ["c", "l", "r"], ["y"]),
        h.make_node("MaxPool", ["y"], ["z"], kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2]),
    ]
    constants: dict[str, Array] = {
        "c": np.array(True), "w": np.ones((2, 2, 2, 2), np.float32)
    }  # fmt: skip
    return model(nodes, [("x", [1, 2, 4, 5])], ["z"], constants)


def _loops() -> bytes:
    floats = {name: np.ones((3,), np.float32) for name in ("start", "two")}
    scanned = body(
        [helper().make_node("Add", ["state", "part"], ["after"])],
        [("state", [3]), ("part", [3])],
        [("after", [3]), ("part", [3])],
    )
    node = helper().make_node
    nodes = [
        *loop("yes", stop=True),
        node("Unsqueeze", ["y", "zero"], ["u"]),
        node("Concat", ["u", "u"], ["rows"], axis=0),
        node("Scan", ["start", "rows"], ["last", "all"], body=scanned, num_scan_inputs=1),
        node("ReduceLogSumExp", ["all"], ["z"], axes=[1]),
    ]
    constants = {**LOOP, **floats, "zero": np.array([0])}
    return model(nodes, [("x", [3])], ["last", "z"], constants)


def _places() -> bytes:
    node, rng = helper().make_node, np.random.default_rng(2)
    nodes = [
        node("GridSample", ["x", "grid"], ["g"], padding_mode="reflection"),
        node("ScatterND", ["g", "where", "patch"], ["s"]),
        node("ScatterElements", ["s", "columns", "line"], ["e"], axis=3),
        node("Einsum", ["e", "e", "m"], ["i"], equation="bchw,bchv,wk->bkv"),
        node("Reshape", ["i", "signal"], ["j"]),
        node("STFT", ["j", "step", "window"], ["f"]),
        node("Unsqueeze", ["e", "zero"], ["v"]),
        node("Conv", ["v", "w"], ["c"], pads=[1, 0, 0, 0, 1, 1]),
        node("MaxPool", ["c"], ["p"], kernel_shape=[1, 2, 2]),
        node("NonMaxSuppression", ["boxes", "i", "most", "overlap"], ["n"]),
        node("Cast", ["n"], ["o"], to=1),
    ]
    constants: dict[str, Array] = {
        "grid": rng.uniform(-1, 1, (1, 4, 5, 2)).astype(np.float32),
        "where": np.array([[0, 1, 2]]), "patch": np.ones((1, 5), np.float32),
        "columns": np.array([[[[1]]]]), "line": np.ones((1, 1, 1, 1), np.float32),
        "m": np.ones((5, 5), np.float32), "step": np.array(2), "window": np.ones(4, np.float32),
        "zero": np.array([0]), "signal": np.array([1, 25]),
        "w": np.ones((2, 1, 1, 2, 2), np.float32),
        "boxes": rng.random((1, 5, 4)).astype(np.float32), "most": np.array([2]),
        "overlap": np.array([0.5], np.float32),
    }  # fmt: skip
    return model(nodes, [("x", [1, 2, 4, 5])], ["f", "p", "o"], constants)


def onnx_target(data: bytes) -> None:
    """Read a model and check its graph."""
    verify(OnnxFrontend().read(data, "fuzz.onnx"))


# --- mutants -----------------------------------------------------------------------------------

_NUMBERS = (0, 1, 2, -1, -2, 3, 7, 255, 1 << 16, 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 40)
_OPERATORS = (
    "Add", "Cast", "Concat", "Conv", "ConvTranspose", "CumSum", "DFT", "DequantizeLinear",
    "Einsum", "Expand", "Flatten", "GRU", "Gather", "GatherND", "Gemm", "GridSample", "If", "LSTM",
    "Loop", "MatMul", "MaxPool", "NonMaxSuppression", "OneHot", "Pad", "QuantizeLinear", "Range",
    "ReduceSum", "Reshape", "Resize", "STFT", "Scan", "ScatterElements", "ScatterND", "Shape",
    "Slice", "Softmax", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze", "Where",
)  # fmt: skip


def onnx_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A model with a few of its fields changed."""
    import onnx

    made = onnx.ModelProto.FromString(seed)
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice(_CHANGES)(rng, made.graph, made)
    return bytes(made.SerializeToString())


def _operator(rng: random.Random, graph: Any, _: Any) -> None:
    rng.choice(graph.node).op_type = rng.choice(_OPERATORS)


def _operand(rng: random.Random, graph: Any, _: Any) -> None:
    node = rng.choice(graph.node)
    names = [name for other in graph.node for name in (*other.input, *other.output)]
    names += [tensor.name for tensor in graph.initializer]
    if node.input and rng.random() < 0.8:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    else:
        node.input.append(rng.choice(names))


def _attribute(rng: random.Random, graph: Any, _: Any) -> None:
    nodes = [node for node in graph.node if node.attribute]
    attribute = rng.choice(rng.choice(nodes).attribute) if nodes else None
    if attribute is None:
        return
    if attribute.ints and rng.random() < 0.7:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(_NUMBERS)
    elif attribute.type == attribute.INT:
        attribute.i = rng.choice(_NUMBERS)
    elif rng.random() < 0.3:
        attribute.name = rng.choice(("axis", "axes", "pads", "perm", "to", "group", "mode"))
    else:
        attribute.type = rng.randrange(0, 15)


def _constant(rng: random.Random, graph: Any, _: Any) -> None:
    tensor = rng.choice(graph.initializer)
    if rng.random() < 0.4 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(_NUMBERS)
    elif rng.random() < 0.3:
        tensor.data_type = rng.randrange(0, 27)
    elif tensor.data_type == 7 and tensor.raw_data and not len(tensor.raw_data) % 8:
        values = np.frombuffer(tensor.raw_data, np.int64).copy()
        values[rng.randrange(len(values))] = rng.choice(_NUMBERS)
        tensor.raw_data = values.tobytes()
    else:
        tensor.dims.append(rng.choice(_NUMBERS))


def _extent(rng: random.Random, graph: Any, _: Any) -> None:
    dims = rng.choice(graph.input).type.tensor_type.shape.dim
    if dims:
        rng.choice(dims).dim_value = rng.choice(_NUMBERS)


def _arrangement(rng: random.Random, graph: Any, made: Any) -> None:
    kind = rng.randrange(4)
    if kind == 0 and len(graph.node) > 1:
        del graph.node[rng.randrange(len(graph.node))]
    elif kind == 1:
        graph.node.add().CopyFrom(rng.choice(graph.node))
    elif kind == 2:
        made.opset_import[0].version = rng.choice((7, 9, 11, 12, 13, 18, 21, 24, 99))
    else:
        a, b = rng.choice(graph.node), rng.choice(graph.node)
        if a.output and b.output:
            a.output[0], b.output[0] = b.output[0], a.output[0]


_CHANGES: Sequence[Callable[[random.Random, Any, Any], None]] = (
    _operator, _operand, _attribute, _constant, _extent, _arrangement,
)  # fmt: skip
