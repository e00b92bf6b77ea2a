"""Odd but valid graphs, and odd invalid ones: right results, or a refusal that names the fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.zoo import random_inputs, single, tensor, zoo
from tests.support import need_executorch

import fitzroy
from fitzroy.base.errors import (
    FitzroyError,
    FormatError,
    InternalError,
    UnsupportedError,
    UsageError,
)
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops import elementwise, reduction, shape
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.pooling import ArgMaxPoolAttributes, PoolAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.driver.runtime import ExecuTorchRuntime, OracleRuntime
from fitzroy.formats import tflite

F32, I8, U8, I32 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32
PLAIN = elementwise.ActivationAttributes()


@pytest.fixture(scope="module")
def runtime() -> Iterator[ExecuTorchRuntime]:
    need_executorch()
    with ExecuTorchRuntime(threads=1) as opened:
        yield opened


def argmax_pool(outputs: list[str]) -> Graph:
    graph = Graph("pool")
    graph.add_input("x", tensor((1, 4, 4, 2), F32))
    result = tensor((1, 2, 2, 2), F32)
    graph.add_node(
        Node("n", "arg_max_pool_2d", ("x",), ("y", "i"), ArgMaxPoolAttributes((2, 2))),
        (result, TensorType(result.shape, I32)),
    )
    graph.outputs = outputs
    return graph


def repeated_output() -> Graph:
    graph = single("exp", [tensor((3,), F32)], tensor((3,), F32))
    graph.outputs = ["y", "y", "x0"]
    return graph


def constant_outputs() -> Graph:
    graph = single("exp", [tensor((3,), F32)], tensor((3,), F32))
    byte = graph.add_constant(
        "bytes", np.arange(4, dtype=np.uint8), Quantization.per_tensor(0.5, 3)
    )
    graph.outputs = ["y", byte]
    return graph


def nothing_to_do() -> Graph:
    graph = Graph("wire")
    graph.outputs = [graph.add_input("x", tensor((2, 2), U8))]
    return graph


def product_out_of_range() -> Graph:
    types = [tensor((64,), I8, 1.0, 0), tensor((64,), I8, 1.0, 0)]
    return single("mul", list(types), tensor((64,), I8, 2.0**-20, 0), PLAIN)


def lstm(**changes: Array | None) -> Graph:
    graph = zoo()["unidirectional_sequence_lstm-False"]
    node = graph.nodes()[0]
    inputs = list(node.inputs)
    for key, data in changes.items():
        index = int(key[1:])
        inputs[index] = None if data is None else graph.add_constant(key, data)
    graph.update(replace(node, inputs=tuple(inputs)))
    return graph


def scalar(op: str) -> Graph:
    attributes = {
        "strided_slice": shape.StridedSliceAttributes(),
        "transpose": shape.TransposeAttributes(),
        "pad": shape.PadAttributes(),
    }[op]
    return single(op, [tensor((), F32)], tensor((), F32), attributes)


def no_axes() -> Graph:
    return single(
        "mean", [tensor((2, 3), F32)], tensor((2, 3), F32), reduction.ReductionAttributes()
    )


def flat_bias(extents: tuple[int, ...]) -> Graph:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((5, 3, 3, 2)).astype(np.float32)
    bias = rng.standard_normal(5).astype(np.float32).reshape(extents)
    return single(
        "conv_2d",
        [tensor((1, 4, 4, 2), F32), weights, bias],
        tensor((1, 2, 2, 5), F32),
        ConvAttributes(),
    )


def requantizing_pool() -> Graph:
    a = PoolAttributes((2, 2), (2, 2))
    return single(
        "max_pool_2d", [tensor((1, 4, 4, 3), I8, 0.05)], tensor((1, 2, 2, 3), I8, 0.02, -7), a
    )


def padding_tie() -> Graph:
    type = tensor((3,), U8, 1.0, 175)
    return single("pad", [type], type.with_shape((5,)), shape.PadAttributes((1,), (1,), 1.5))


def shared_filter() -> Graph:
    rng = np.random.default_rng(0)
    graph = Graph("shared")
    graph.add_input("x", tensor((1, 2, 2, 3), U8))
    graph.add_input("x/int8", tensor((3, 1, 1, 3), U8))
    w = graph.add_constant(
        "w", rng.integers(0, 256, (3, 1, 1, 3), np.uint8), Quantization.per_tensor(0.05, 9)
    )
    y = graph.emit("conv_2d", ["x", w], tensor((1, 2, 2, 3), U8, 0.3), ConvAttributes(), stem="y")
    z = graph.emit("add", ["x/int8", w], tensor((3, 1, 1, 3), U8, 0.2), PLAIN, stem="y/int8")
    graph.outputs = [y, z, w]
    return graph


VALID = {
    "unread result": argmax_pool(["y"]),
    "unread first result": argmax_pool(["i"]),
    "repeated output": repeated_output(),
    "constant output": constant_outputs(),
    "input as output": nothing_to_do(),
    "product out of range": product_out_of_range(),
    "lstm with one bias": lstm(_12=None, _13=None, _15=None),
    "lstm without biases": lstm(_12=None, _13=None, _14=None, _15=None),
    "scalar slice": scalar("strided_slice"),
    "scalar transpose": scalar("transpose"),
    "scalar pad": scalar("pad"),
    "reduction over nothing": no_axes(),
    "column bias": flat_bias((5, 1)),
    "row bias": flat_bias((1, 1, 1, 5)),
    "requantizing max pool": requantizing_pool(),
    "padding on a tie": padding_tie(),
    "shared filter and clashing names": shared_filter(),
    "seven dimensions": single("exp", [tensor((1,) * 7, F32)], tensor((1,) * 7, F32)),
}


def check(graph: Graph, runtime: ExecuTorchRuntime | OracleRuntime, policy: str) -> None:
    program = fitzroy.compile(graph, uint8=policy)
    inputs = random_inputs(graph, np.random.default_rng(4))
    wanted = fitzroy.evaluate(graph, inputs)
    with runtime.load(program.data) as session:
        found = session.run([inputs[name] for name in graph.inputs])
    for got, name in zip(found, graph.outputs, strict=True):
        want = wanted[name]
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        elif policy == "fast":
            assert np.abs(got.astype(int) - want).max(initial=0) <= 1
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("policy", ["exact", "fast"])
@pytest.mark.parametrize("name", VALID)
def test_valid_on_the_oracle(name: str, policy: str) -> None:
    check(VALID[name], OracleRuntime(), policy)


@pytest.mark.runtime
@pytest.mark.parametrize("name", VALID)
def test_valid_on_the_runtime(name: str, runtime: ExecuTorchRuntime) -> None:
    check(VALID[name], runtime, "exact")


def mixed(op: str) -> Graph:
    """8-bit without quantization where numbers are expected."""
    plain = TensorType((2, 4), I8)
    return single(op, [plain] if op != "squared_difference" else [plain, plain], tensor((2, 4), I8))


def per_channel_activation() -> Graph:
    scales = Quantization((0.1, 0.2), (100, 0), 0)
    kernel = np.zeros((2, 1, 1, 3), np.uint8)
    return single(
        "conv_2d",
        [tensor((1, 2, 2, 3), U8), kernel],
        tensor((1, 2, 2, 2), U8),
        ConvAttributes(),
        {1: scales},
    )


REFUSED = {
    "integer squared difference": single(
        "squared_difference", [tensor((2,), I32), tensor((2,), I32)], tensor((2,), I32)
    ),
    "softmax of plain bytes": mixed("softmax"),
    "abs of plain bytes": mixed("abs"),
    "filter per channel in uint8": per_channel_activation(),
    "index out of range": single(
        "gather",
        [tensor((3,), F32), np.array([3], np.int32)],
        tensor((1,), F32),
        shape.GatherAttributes(0),
    ),
    "lstm with a state": lstm(_18=np.ones((3, 5), np.float32)),
    "lstm with a short bias": lstm(_14=np.ones(2, np.float32)),
    "zero scale": single("abs", [tensor((2,), I8, 0.0)], tensor((2,), I8)),
    "scale that is no number": single("abs", [tensor((2,), I8, float("nan"))], tensor((2,), I8)),
    "seven dimensions": single("hard_swish", [tensor((1,) * 7, F32)], tensor((1,) * 7, F32)),
    "empty tensor": single("exp", [tensor((0, 3), F32)], tensor((0, 3), F32)),
    "booleans": single(
        "add", [TensorType((2,), DType.BOOL)] * 2, TensorType((2,), DType.BOOL), PLAIN
    ),
}


@pytest.mark.parametrize("policy", ["exact", "fast"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_our_errors(name: str, policy: str) -> None:
    with pytest.raises(FitzroyError) as caught:
        fitzroy.compile(REFUSED[name], uint8=policy)
    # A hand-built graph that breaks a type rule is the builder's fault, and said to be one.
    assert not isinstance(caught.value, InternalError) or "ill-typed" in str(caught.value)


def test_huge_constants_are_not_folded() -> None:
    graph = Graph("big")
    graph.add_input("x", tensor((1,), F32))
    graph.add_value(Value("c", tensor((1, 1), F32), np.ones((1, 1), np.float32)))
    pad = shape.PadAttributes((1 << 18, 1 << 18), (0, 0))
    extent = (1 << 18) + 1
    graph.outputs = [graph.emit("pad", ["c"], tensor((extent, extent), F32), pad)]
    program = fitzroy.compile(graph)
    assert len(program.data) < 1 << 16


def operator_model(
    inputs: list[int], outputs: list[int], builtin: tflite.BuiltinOperator
) -> tflite.Model:
    tensors = [tflite.Tensor(shape=np.array([4], np.int32), type=0, name=n) for n in "abc"]
    operator = tflite.Operator(
        inputs=np.array(inputs, np.int32), outputs=np.array(outputs, np.int32)
    )
    subgraph = tflite.SubGraph(
        tensors=tensors,
        inputs=np.array([0], np.int32),
        outputs=np.array([1], np.int32),
        operators=[operator],
    )
    codes = [tflite.operator_code(builtin)]
    return tflite.Model(
        version=3, operator_codes=codes, subgraphs=[subgraph], buffers=[tflite.Buffer()]
    )


def test_operators_that_read_what_nothing_makes_are_refused() -> None:
    with pytest.raises(FitzroyError, match=r"cycle|nothing produces") as caught:
        import_model(operator_model([1], [1], tflite.BuiltinOperator.RESHAPE))
    assert not isinstance(caught.value, InternalError)


def test_operators_without_operands_run_nowhere() -> None:
    graph = import_model(operator_model([], [1], tflite.BuiltinOperator.RESHAPE))
    with pytest.raises(FitzroyError) as caught:
        fitzroy.compile(graph)
    assert not isinstance(caught.value, InternalError)
    assert "absent" in str(caught.value) or "too few" in str(caught.value)


def test_wrong_requests_are_usage_errors() -> None:
    graph = zoo()["exp-float32"]
    with pytest.raises(UsageError, match="uint8 cannot be 'bogus'"):
        fitzroy.compile(graph, uint8="bogus")
    with pytest.raises(UsageError, match="no target 'gpu'"):
        fitzroy.compile(graph, target="gpu")
    with pytest.raises(UsageError, match="no method 'nope'"):
        fitzroy.bundle(fitzroy.compile(graph), {"nope": []})


def test_an_ill_typed_text_is_the_files_fault(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "bad.ir"
    path.write_text('graph "g" { input %x : float32[2] %y : float32[3] = abs(%x) output %y }')
    with pytest.raises(FormatError, match=r"shape \[3\], not \[2\]"):
        fitzroy.load(path)


@pytest.mark.long
def test_windows_beyond_the_tables_are_refused() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((1, 2, 2, 1)).astype(np.float32)
    a = ConvAttributes((1, 1), (2**31 - 1, 3 * 2**31), PaddingScheme.SAME)
    image = tensor((1, 4, 4, 1), F32)
    graph = single("conv_2d", [image, weights], image, a)
    with pytest.raises(UnsupportedError, match="xnnpack-window"):
        fitzroy.compile(graph)
