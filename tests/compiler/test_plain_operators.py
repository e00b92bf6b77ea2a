"""Operators on plain numbers, truth values and places, judged by LiteRT and by ExecuTorch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from tests.compiler.zoo_plain import merged, plain_inputs, zoo_plain
from tests.support import need_executorch, need_litert

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.elementwise import Unary
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.target import TARGETS
from fitzroy.driver.runtime import ExecuTorchRuntime, OracleRuntime
from fitzroy.driver.runtime.litert import LiteRtModel
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic

ZOO = zoo_plain()
FAMILIES = sorted({graph.name for graph in ZOO.values()})


def family(op: str) -> Iterator[tuple[str, Graph]]:
    return ((name, graph) for name, graph in ZOO.items() if graph.name == op)


def agree(name: str, found: list[Array], wanted: list[Array]) -> None:
    for got, want in zip(found, wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), name
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("op", FAMILIES)
def test_litert_computes_the_same(op: str) -> None:
    need_litert()
    for name, graph in family(op):
        verify(graph)
        model = LiteRtModel(tflite.write_model(export_model(graph)), xnnpack=False)
        for seed in range(3):
            inputs = plain_inputs(graph, np.random.default_rng(seed))
            wanted = evaluate(graph, inputs, Arithmetic.TFLITE)
            agree(name, model.run(list(inputs.values())), list(wanted.values()))


@pytest.mark.parametrize("op", FAMILIES)
def test_export_then_import_means_the_same(op: str) -> None:
    for name, graph in family(op):
        data = tflite.write_model(export_model(graph))
        again = import_model(tflite.read_model(data), path="m.tflite")
        verify(again)
        inputs = plain_inputs(graph, np.random.default_rng(0))
        named = dict(zip(again.inputs, inputs.values(), strict=True))
        agree(name, list(evaluate(again, named).values()), list(evaluate(graph, inputs).values()))


@cache
def compiled(name: str) -> bytes | None:
    """A graph's program for ExecuTorch, or None if it is refused, with a rule."""
    try:
        return fitzroy.compile(ZOO[name]).data
    except UnsupportedError as error:
        refused = error
    assert refused.rejects
    assert all(reject.what and reject.code for reject in refused.rejects)
    return None


def programs(op: str) -> Iterator[tuple[str, Graph, bytes]]:
    """Graphs of an operator that compile for ExecuTorch."""
    for name, graph in family(op):
        data = compiled(name)
        if data is not None:
            yield name, graph, data


def test_operators_without_a_kernel_are_refused() -> None:
    assert {op for op in FAMILIES if next(programs(op), None) is None} == {
        "bitcast", "bucketize", "dilate", "dynamic_update_slice", "fake_quant",
        "local_response_normalization", "matrix_diag", "matrix_set_diag",
        "non_max_suppression", "reverse_sequence", "right_shift", "scatter_nd",
        "segment_sum", "soft_non_max_suppression", "sparse_to_dense",
        "unsorted_segment_max", "unsorted_segment_min", "unsorted_segment_prod",
        "unsorted_segment_sum",
    }  # fmt: skip


@pytest.mark.runtime
def test_functions_of_one_number_have_portable_kernels() -> None:
    need_executorch()
    names = [
        op
        for op, operator in OPS.items()
        if isinstance(operator, Unary) and TARGETS.get("portable").supports(op)
    ]
    assert {"abs", "cos", "floor", "negate", "sigmoid"} <= set(names)
    graph = Graph("functions")
    type = TensorType((2, 5), DType.FLOAT32)
    graph.add_input("x", type)
    graph.outputs = [graph.emit(name, ["x"], type) for name in names]
    result = fitzroy.compile(graph, target="portable")
    assert result.placed == {"portable": len(names)}
    x = np.random.default_rng(3).uniform(0.1, 4, (2, 5)).astype(np.float32)
    wanted = list(evaluate(graph, {"x": x}).values())
    with ExecuTorchRuntime(threads=1) as runtime, runtime.load(result.data) as session:
        agree("runtime", session.run([x]), wanted)
    with OracleRuntime() as oracle, oracle.load(result.data) as session:
        agree("oracle", session.run([x]), wanted)


@pytest.mark.parametrize("op", FAMILIES)
def test_programs_compute_the_reference_on_the_oracle(op: str) -> None:
    for name, graph, data in programs(op):
        inputs = plain_inputs(graph, np.random.default_rng(1))
        wanted = list(evaluate(graph, inputs).values())
        with OracleRuntime() as oracle, oracle.load(data) as session:
            agree(name, session.run(list(inputs.values())), wanted)


@pytest.mark.runtime
def test_programs_compute_the_reference_on_the_runtime() -> None:
    need_executorch()
    graphs = {name: graph for op in FAMILIES for name, graph, _ in programs(op)}
    inputs = {name: plain_inputs(graph, np.random.default_rng(2)) for name, graph in graphs.items()}
    whole = merged(graphs)
    with (
        ExecuTorchRuntime(threads=1) as runtime,
        runtime.load(fitzroy.compile(whole).data) as session,
    ):
        found = session.run([array for given in inputs.values() for array in given.values()])
    results = dict(zip(whole.outputs, found, strict=True))
    for name, graph in graphs.items():
        wanted = list(evaluate(graph, inputs[name]).values())
        agree(name, [results[f"{name}/{output}"] for output in graph.outputs], wanted)
