from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.compiler.zoo import random_inputs, zoo
from tests.compiler.zoo_plain import zoo_plain
from tests.support import need_executorch

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import CUSTOM, OPS
from fitzroy.compiler.reference import verify
from fitzroy.driver.runtime import ExecuTorchRuntime, OracleRuntime

ZOO = zoo()

FLOAT_STEPS = {
    "softmax",
    "l2_normalization",
    "log_softmax",
    "batch_matmul",
    "average_pool_2d",
    "sum",
}
"""Operators whose quantized form is computed in float32 in between: off by one step at most."""


@pytest.fixture(scope="module")
def runtime() -> Iterator[ExecuTorchRuntime]:
    need_executorch()
    with ExecuTorchRuntime(threads=1) as opened:
        yield opened


def test_the_zoo_has_every_operator() -> None:
    # Custom operators are refused, see test_post_processing; the Edge TPU alone looks results up.
    plain = {node.op for graph in zoo_plain().values() for node in graph.nodes()}
    assert {name.partition("-")[0] for name in ZOO} | plain == OPS.keys() - {
        "lookup",
        "opaque",
        *(operator.name for operator in CUSTOM.values()),
    }


@pytest.mark.parametrize("name", ZOO)
def test_zoo_graphs_are_well_typed(name: str) -> None:
    verify(ZOO[name])


def agree(name: str, graph: Graph, found: list[Array], wanted: dict[str, Array]) -> None:
    for got, output in zip(found, graph.outputs, strict=True):
        want = wanted[output]
        assert got.shape == want.shape
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
        elif graph.name in FLOAT_STEPS:
            assert np.abs(got.astype(int) - want).max() <= 1
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("policy", ["exact", "fast"])
@pytest.mark.parametrize("name", ZOO)
def test_programs_compute_the_reference_on_the_oracle(name: str, policy: str) -> None:
    graph = ZOO[name]
    program = fitzroy.compile(graph, uint8=policy)
    inputs = random_inputs(graph, np.random.default_rng(1))
    wanted = fitzroy.evaluate(program.legalized["forward"], inputs)
    with OracleRuntime() as oracle, oracle.load(program.data) as session:
        agree(name, graph, session.run([inputs[n] for n in graph.inputs]), wanted)


@pytest.mark.runtime
@pytest.mark.parametrize("name", ZOO)
def test_programs_compute_the_reference_on_the_runtime(
    name: str, runtime: ExecuTorchRuntime
) -> None:
    graph = ZOO[name]
    program = fitzroy.compile(graph)
    inputs = random_inputs(graph, np.random.default_rng(2))
    wanted = fitzroy.evaluate(graph, inputs)
    with runtime.load(program.data) as session:
        agree(name, graph, session.run([inputs[n] for n in graph.inputs]), wanted)


def test_refusals_name_operator_reason_and_remedy() -> None:
    from fitzroy.base.types import DType, TensorType
    from fitzroy.compiler.ops.opaque import OpaqueAttributes

    graph = Graph("model")
    type = TensorType((1, 4), DType.FLOAT32)
    graph.add_input("x", type)
    middle = graph.emit("exp", ["x"], type, stem="scores")
    graph.outputs = [graph.emit("opaque", [middle], type, OpaqueAttributes("Decode"))]
    with pytest.raises(UnsupportedError) as caught:
        fitzroy.compile(graph)
    (reject,) = caught.value.rejects
    assert reject.what == "Decode is opaque: there is no class for Decode"
    assert "--outputs 'scores'" in reject.hint
    assert fitzroy.compile(graph, outputs=["scores"]).data


@pytest.mark.long
def test_equal_models_give_equal_programs() -> None:
    for name in ("conv_2d-uint8", "unidirectional_sequence_lstm-True", "arg_max-int8"):
        first, second = fitzroy.compile(zoo()[name]), fitzroy.compile(zoo()[name])
        assert first.data == second.data
