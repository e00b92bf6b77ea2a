"""Bundled programs and programs of several methods, from model to the real runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.support import random_inputs
from tests.support import need_executorch

import fitzroy
from fitzroy.base.errors import DeviceError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate
from fitzroy.driver.runtime import ExecuTorchRuntime, OracleRuntime
from fitzroy.formats import bundled

DIGITS = Path(__file__).parents[2] / "examples" / "models" / "digits.tflite"

pytestmark = pytest.mark.runtime


@pytest.fixture(scope="module")
def runtime() -> Iterator[ExecuTorchRuntime]:
    need_executorch()
    with ExecuTorchRuntime(threads=1, timeout=60) as opened:
        yield opened


def logits() -> Graph:
    """The shipped model without its last operator."""
    graph = fitzroy.load(DIGITS)
    return graph.cut([name for name in graph.nodes()[-1].inputs if name is not None][:1])


def test_bundle_of_the_shipped_model(runtime: ExecuTorchRuntime) -> None:
    compilation = fitzroy.compile(DIGITS)
    cases = list(random_inputs(compilation.graphs["forward"], 3))
    data = fitzroy.bundle(compilation, {"forward": cases})
    assert data[4:8] == b"BP08"
    for case in range(len(cases)):
        runtime.verify_bundle(data, case=case, rtol=0, atol=0)


@pytest.mark.parametrize("corrupted", range(2))
def test_corrupted_expectation_fails(runtime: ExecuTorchRuntime, corrupted: int) -> None:
    compilation = fitzroy.compile(DIGITS)
    cases = list(random_inputs(compilation.graphs["forward"], 2))
    bundle = bundled.read_bundle(fitzroy.bundle(compilation, {"forward": cases}))
    (suite,) = bundle.suites
    changed = list(suite.cases)
    (expected,) = changed[corrupted].outputs
    assert isinstance(expected, np.ndarray)
    wrong = expected.copy()
    wrong.flat[0] += 1
    changed[corrupted] = replace(changed[corrupted], outputs=(wrong,))
    data = bundled.write_bundle(compilation.data, [replace(suite, cases=tuple(changed))])
    runtime.verify_bundle(data, case=1 - corrupted, rtol=0, atol=0)
    with pytest.raises(DeviceError, match="the outputs differ from the expected ones"):
        runtime.verify_bundle(data, case=corrupted, rtol=0, atol=0)


@pytest.mark.long
def test_program_of_two_methods(runtime: ExecuTorchRuntime) -> None:
    graphs = {"classify": fitzroy.load(DIGITS), "score": logits()}
    compilation = fitzroy.compile(graphs)
    names = [node.op for node in graphs["classify"].nodes()]
    assert [node.op for node in graphs["score"].nodes()] == names[:-1]
    cases = {name: list(random_inputs(graph, 2, seed=3)) for name, graph in graphs.items()}
    with runtime.load(compilation.data) as real, OracleRuntime().load(compilation.data) as model:
        assert [info.name for info in real.methods] == ["classify", "score"]
        # Turns, because methods must not share memory.
        for number in range(2):
            for name, graph in graphs.items():
                inputs = cases[name][number]
                expected = evaluate(graph, dict(zip(graph.inputs, inputs, strict=True)))
                for session in (real, model):
                    found = session.run(inputs, name)
                    assert len(found) == len(graph.outputs)
                    for output, array in zip(graph.outputs, found, strict=True):
                        np.testing.assert_array_equal(array, expected[output])
    data = fitzroy.bundle(compilation, cases)
    for name in graphs:
        runtime.verify_bundle(data, name, case=1, rtol=0, atol=0)
