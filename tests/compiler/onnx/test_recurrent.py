"""Recurrent layers of ONNX models: one value for the filter of all steps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, helper, model

_STEPS, _SIZE, _HIDDEN = 5, 3, 4


@pytest.mark.parametrize(
    ("kind", "gates", "filters"), [("RNN", 1, 1), ("GRU", 3, 3), ("LSTM", 4, 1)]
)
def test_steps_share_the_filter_of_their_state(kind: str, gates: int, filters: int) -> None:
    random = np.random.default_rng(1)
    shapes = {"w": (2, gates * _HIDDEN, _SIZE), "r": (2, gates * _HIDDEN, _HIDDEN)}
    weights = {name: random.normal(0, 0.5, of).astype(np.float32) for name, of in shapes.items()}
    node = helper().make_node(
        kind, ["x", "w", "r"], ["y"], hidden_size=_HIDDEN, direction="bidirectional"
    )
    data = model([node], [("x", (_STEPS, 1, _SIZE))], ["y"], weights)
    graph = compare(data, {"x": random.normal(0, 1, (_STEPS, 1, _SIZE)).astype(np.float32)})
    uses = Counter(
        node.inputs[1]
        for node in graph.nodes()
        if node.op == "fully_connected" and graph.type(str(node.inputs[1])).shape[1] == _HIDDEN
    )
    # The first step starts at zero, whose products are known.
    assert len(uses) == 2 * filters
    assert min(uses.values()) >= _STEPS - 1
