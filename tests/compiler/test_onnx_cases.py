"""Our operators against ONNX's own test cases: inputs and outputs that somebody else chose."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.support import need

import fitzroy
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph
from fitzroy.compiler.ops import elementwise, matmul, reduction, shape
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.driver.runtime import OracleRuntime

Given = dict[str, Any]
Row = tuple[str, Callable[[Given, list[Array]], Attributes | None]]
INFINITY = float("inf")


def plain(given: Given, inputs: list[Array]) -> Attributes:
    return NO_ATTRIBUTES


def binary(given: Given, inputs: list[Array]) -> Attributes:
    return elementwise.ActivationAttributes()


def last_axis(make: Callable[[], Attributes]) -> Callable[[Given, list[Array]], Attributes | None]:
    """Attributes if the case works on the last axis, as ours do."""

    def build(given: Given, inputs: list[Array]) -> Attributes | None:
        return make() if given.get("axis", -1) in (-1, inputs[0].ndim - 1) else None

    return build


def reduced(given: Given, inputs: list[Array]) -> Attributes | None:
    if len(inputs) < 2 or not inputs[1].size:
        return None
    rank = inputs[0].ndim
    axes = tuple(sorted(int(axis) % rank for axis in inputs[1]))
    return reduction.ReductionAttributes(axes, bool(given.get("keepdims", 1)))


def position(given: Given, inputs: list[Array]) -> Attributes | None:
    if given.get("keepdims", 1) or given.get("select_last_index", 0):
        return None
    return reduction.ArgAttributes(given.get("axis", 0) % inputs[0].ndim)


def matrices(given: Given, inputs: list[Array]) -> Attributes | None:
    return matmul.BatchMatMulAttributes() if min(x.ndim for x in inputs) >= 2 else None


ROWS: dict[str, Row] = {
    "Abs": ("abs", plain), "Ceil": ("ceil", plain), "Floor": ("floor", plain),
    "Neg": ("negate", plain), "Exp": ("exp", plain), "Log": ("log", plain),
    "Sqrt": ("sqrt", plain), "Sin": ("sin", plain), "Cos": ("cos", plain),
    "Tanh": ("tanh", plain), "Sigmoid": ("sigmoid", plain), "HardSwish": ("hardswish", plain),
    "PRelu": ("prelu", plain), "Max": ("maximum", plain), "Min": ("minimum", plain),
    "Add": ("add", binary), "Sub": ("sub", binary), "Mul": ("mul", binary), "Div": ("div", binary),
    "Relu": ("clamp", lambda given, x: elementwise.ClampAttributes(0.0, INFINITY)),
    "Elu": ("elu", lambda given, x: elementwise.EluAttributes(given.get("alpha", 1.0))),
    "LeakyRelu": (
        "leaky_relu", lambda given, x: elementwise.LeakyReluAttributes(given.get("alpha", 0.01)),
    ),
    "Gelu": (
        "gelu",
        lambda given, x: (
            elementwise.GeluAttributes() if given.get("approximate", b"none") == b"none" else None
        ),
    ),
    "Softmax": ("softmax", last_axis(SoftmaxAttributes)),
    "LogSoftmax": ("log_softmax", last_axis(Attributes)),
    "Transpose": (
        "transpose",
        lambda given, x: shape.TransposeAttributes(
            tuple(given.get("perm", reversed(range(x[0].ndim))))
        ),
    ),
    "Concat": (
        "concatenation",
        lambda given, x: shape.ConcatenationAttributes(given["axis"] % x[0].ndim),
    ),
    "ReduceMean": ("mean", reduced), "ReduceSum": ("sum", reduced),
    "ReduceMax": ("reduce_max", reduced), "ReduceMin": ("reduce_min", reduced),
    "ArgMax": ("arg_max", position), "ArgMin": ("arg_min", position),
    "MatMul": ("batch_matmul", matrices),
}  # fmt: skip
"""ONNX operators: ours, and the attributes of a case, or None where ours does not cover it."""


Case = tuple[str, Given, list[Array], Array]


@cache
def cases() -> dict[str, list[Case]]:
    """Per operator: name, attributes, inputs, output of cases with a float32 result or position."""
    need("onnx", "onnx")
    import onnx
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    found: dict[str, list[Case]] = {}
    for case in collected:
        if case.model is None:
            continue
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in ROWS or not case.data_sets:
            continue
        inputs, outputs = ([np.asarray(x) for x in part] for part in case.data_sets[0])
        if len(outputs) != 1 or inputs[0].dtype != np.float32:
            continue
        if outputs[0].dtype in (np.float32, np.int64):
            given = {a.name: onnx.helper.get_attribute_value(a) for a in nodes[0].attribute}
            row = (case.name, given, inputs, outputs[0])
            found.setdefault(nodes[0].op_type, []).append(row)
    return found


@pytest.mark.long
@pytest.mark.parametrize("op", ROWS)
def test_cases(op: str) -> None:
    ours, attributes = ROWS[op]
    covered = 0
    for name, given, inputs, wanted in cases()[op]:
        built = attributes(given, inputs)
        operands = [x for x in inputs if x.dtype == np.float32]
        too_many = ours not in ("concatenation",) and len(operands) > 2
        empty = any(x.size == 0 for x in (*operands, wanted))
        if built is None or too_many or empty or (op in ("Max", "Min") and len(operands) != 2):
            continue
        covered += 1
        graph = Graph(name)
        names = [
            graph.add_input(f"x{i}", TensorType(x.shape, DType.FLOAT32))
            for i, x in enumerate(operands)
        ]
        result = TensorType(wanted.shape, DType.of(wanted))
        graph.outputs = [graph.emit(ours, names, result, built)]
        (found,) = fitzroy.evaluate(graph, dict(zip(names, operands, strict=True))).values()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6, err_msg=name)
        with OracleRuntime() as oracle, oracle.load(fitzroy.compile(graph).data) as session:
            (executed,) = session.run(operands)
        np.testing.assert_allclose(executed, wanted, rtol=1e-4, atol=1e-5, err_msg=name)
    assert covered > 0
