"""Conditions and loops of ONNX models, known before they run or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, executed, expected, helper, model, operators, read

from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.reference import evaluate

RNG = np.random.default_rng(11)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def body(
    nodes: Sequence[Any], inputs: Sequence[tuple[str, Any]], outputs: Sequence[tuple[str, Any]]
) -> Any:
    """A graph inside an operator: ports are (name, shape), float32 unless a name says more."""
    h = helper()
    from onnx import TensorProto

    kinds = {"turn": TensorProto.INT64, "on": TensorProto.BOOL, "go": TensorProto.BOOL}

    def ports(pairs: Sequence[tuple[str, Any]]) -> list[Any]:
        return [
            h.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in pairs
        ]

    return h.make_graph(nodes, "body", ports(inputs), ports(outputs))


def branches(shape: Sequence[int]) -> list[Any]:
    """A condition on the sum of x, with a branch that leaves a shape and one that has `shape`."""
    node = helper().make_node
    then = body([node("Mul", ["x", "two"], ["a"])], [], [("a", None)])
    other = body([node("Expand", ["half", "shape"], ["b"])], [], [("b", None)])
    return [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]


def constants(shape: Sequence[int]) -> dict[str, Any]:
    return {
        "two": np.float32(2), "half": np.float32(0.5), "zero": np.float32(0),
        "shape": np.array(shape, np.int64),
    }  # fmt: skip


def test_both_branches_of_a_condition_at_run_time() -> None:
    data = model(branches([2, 3]), [("x", [2, 3])], ["y"], constants([2, 3]))
    for sign in (1, -1):
        graph = compare(data, {"x": sign * np.abs(floats(2, 3))})
    assert operators(graph).count("select") == 1


def test_branches_of_different_shapes_ask_for_a_value() -> None:
    data = model(branches([3]), [("x", [2, 3])], ["y"], constants([3]))
    with pytest.raises(UnsupportedError) as refused:
        read(data)
    (reject,) = refused.value.rejects
    assert reject.code == "onnx-control-flow"
    assert "float32[2, 3] and float32[3]" in reject.what
    assert "--input x=VALUE" in reject.hint
    fixed = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    graph = read(data, Reading(values={"x": fixed}, keep_layout=True))
    assert graph.inputs == []
    (wanted,) = expected(data, {"x": np.array(fixed, np.float32)})
    np.testing.assert_array_equal(evaluate(graph, {})["y"], wanted)


def test_values_have_to_fit_the_input() -> None:
    data = model([helper().make_node("Relu", ["x"], ["y"])], [("x", [2])], ["y"])
    with pytest.raises(UsageError, match="has shape 2, not 3"):
        read(data, Reading(values={"x": [1.0, 2.0, 3.0]}))
    with pytest.raises(UsageError, match="no input 'z'"):
        read(data, Reading(values={"z": 1}))
    with pytest.raises(UsageError, match="is none"):
        read(data, Reading(values={"x": [[1.0], [2.0, 3.0]]}))


def loop(test: str = "", *, stop: bool = False, collects: bool = False) -> list[Any]:
    """x times 1.5 in every turn, as long as its sum is below 20 if it may stop."""
    node = helper().make_node
    nodes = [node("Mul", ["state", "factor"], ["after"])]
    if stop:
        nodes += [
            node("ReduceSum", ["after"], ["sum"], keepdims=0),
            node("Less", ["sum", "limit"], ["go"]),
        ]
    else:
        nodes += [node("Identity", ["on"], ["go"])]
    nodes += [node("Identity", ["after"], ["row"])] if collects else []
    inputs = [("turn", []), ("on", []), ("state", [3])]
    outputs = [("go", []), ("after", [3]), *([("row", [3])] if collects else [])]
    made = body(nodes, inputs, outputs)
    results = ["y", "rows"] if collects else ["y"]
    return [node("Loop", ["turns", test, "x"], results, body=made)]


LOOP: dict[str, Any] = {
    "turns": np.array(6), "factor": np.float32(1.5), "limit": np.float32(20), "yes": np.array(True)
}  # fmt: skip


def test_loop_of_a_known_number_of_turns() -> None:
    data = model(loop("yes", collects=True), [("x", [3])], ["y", "rows"], LOOP)
    graph = compare(data, {"x": floats(3)})
    assert operators(graph).count("mul") == 6
    assert graph.type("rows").shape == (6, 3)


def test_loop_that_a_condition_may_end() -> None:
    data = model(loop("yes", stop=True), [("x", [3])], ["y"], LOOP)
    for scale in (0.1, 2.0, 30.0):
        compare(data, {"x": np.full(3, scale, np.float32)})


def test_loops_without_known_end_are_refused() -> None:
    node = helper().make_node
    endless = loop("yes", stop=True)
    endless[0].input[0] = ""
    data = model(endless, [("x", [3])], ["y"], LOOP)
    with pytest.raises(UnsupportedError, match="how often the loop runs is computed"):
        read(data)
    # Bodies without an operator inside one another, which would never end to be written out.
    inside = body([], [("turn", []), ("on", []), ("state", [3])], [("on", []), ("state", [3])])
    for _ in range(3):
        nodes = [node("Loop", ["many", "", "state"], ["after"], body=inside)]
        inside = body(
            nodes, [("turn", []), ("on", []), ("state", [3])], [("on", []), ("after", [3])]
        )
    outer = [node("Loop", ["many", "", "x"], ["y"], body=inside)]
    data = model(outer, [("x", [3])], ["y"], {"many": np.array(1000)})
    with pytest.raises(UnsupportedError, match="more than 200000 operators"):
        read(data)


@pytest.mark.parametrize("backwards", [0, 1])
def test_scan_along_any_axis(backwards: int) -> None:
    node = helper().make_node
    nodes = [node("Add", ["state", "part"], ["after"]), node("Relu", ["after"], ["row"])]
    made = body(nodes, [("state", [2]), ("part", [2])], [("after", [2]), ("row", [2])])
    scan = node(
        "Scan", ["start", "x"], ["y", "rows"], body=made, num_scan_inputs=1,
        scan_input_axes=[1], scan_output_axes=[1],
        scan_input_directions=[backwards], scan_output_directions=[backwards],
    )  # fmt: skip
    data = model([scan], [("x", [2, 5])], ["y", "rows"], {"start": floats(2)})
    x = floats(2, 5)
    found = evaluate(read(data), {"x": x})
    for name, array in zip(("y", "rows"), executed(data, {"x": x}), strict=True):
        np.testing.assert_allclose(found[name], array, rtol=1e-6)


def test_rows_of_suppressed_boxes_are_minus_one() -> None:
    node = helper().make_node
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32)
    nodes = [
        node("NonMaxSuppression", ["boxes", "x", "most", "overlap"], ["rows"]),
        node("Cast", ["rows"], ["y"], to=1),
    ]
    given = {"boxes": boxes, "most": np.array([3]), "overlap": np.array([0.5], np.float32)}
    data = model(nodes, [("x", [1, 2, 3])], ["y"], given)
    scores = np.array([[[0.9, 0.8, 0.7], [0.1, 0.2, 0.3]]], np.float32)
    (wanted,) = expected(data, {"x": scores})
    graph = read(data)
    found = evaluate(graph, {"x": scores})["y"]
    assert found.shape == (6, 3)
    np.testing.assert_array_equal(found[(found != -1).any(axis=1)], wanted)
    assert [remark.code for remark in graph.remarks] == ["onnx-rows"]
