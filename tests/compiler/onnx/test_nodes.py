"""ONNX's own node cases: each passes or is refused by a rule that has a name."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.onnx_nodes import cases, judge
from benchmarks.support import read_results, results_path
from tests.support import need

from fitzroy.compiler.frontends.onnx.values import RULES

PARTS = 24
_QUICK = 6


def chosen() -> list[object]:
    """Parts of the cases; a few run always."""
    return [
        pytest.param(part, marks=[] if part < _QUICK else [pytest.mark.slow])
        for part in range(PARTS)
    ]


@pytest.mark.long
@pytest.mark.parametrize("part", chosen())
def test_cases_are_as_recorded(part: int) -> None:
    need("onnx", "onnx")
    if not results_path("onnx_nodes").is_file():
        pytest.fail("no results: run python -m benchmarks.onnx_nodes")
    refused = {
        name: rule
        for row in read_results("onnx_nodes")["operators"].values()
        for rule, names in row["refused"].items()
        for name in names
    }
    assert set(refused.values()) <= set(RULES)
    names = sorted(cases())
    for index in np.random.default_rng(0).permutation(len(names))[part::PARTS]:
        outcome = judge(cases()[names[index]])
        assert outcome.passed or outcome.rule, (outcome.case, outcome.reason)
        assert outcome.rule == refused.get(outcome.case, ""), (outcome.case, outcome.reason)
