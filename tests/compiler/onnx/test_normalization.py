"""Normalizations whose statistics are those of their own operand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, executed, helper, model, operators, read

from fitzroy.base.types import Array
from fitzroy.compiler.reference import evaluate

RNG = np.random.default_rng(6)


def given(*shape: int) -> Array:
    return RNG.normal(0.5, 2, shape).astype(np.float32)


def test_weights_standardized_by_their_own_statistics_are_constants() -> None:
    """As weights are in front of convolutions of networks without other normalization."""
    node = helper().make_node
    nodes = [
        node("Reshape", ["w", "rows"], ["flat"]),
        node(
            "BatchNormalization",
            ["flat", "gain", "offset", "before", "ones"],
            ["standard", "mean", "variance"],
            training_mode=1,
            epsilon=1e-3,
        ),
        node("Reshape", ["standard", "filter"], ["w0"]),
        node("Conv", ["x", "w0"], ["y"]),
    ]
    constants = {
        "w": given(8, 4, 3, 3), "gain": given(8),
        "offset": np.zeros(8, np.float32), "before": np.zeros(8, np.float32),
        "ones": np.ones(8, np.float32),
        "rows": np.array([1, 8, -1]), "filter": np.array([8, 4, 3, 3]),
    }  # fmt: skip
    data = model(nodes, [("x", [1, 4, 6, 6])], ["y"], constants)
    feeds = {"x": given(1, 4, 6, 6)}
    graph = compare(data, feeds)
    assert operators(graph).count("conv_2d") == 1
    assert {"mean", "sub", "rsqrt"}.isdisjoint(operators(graph))
    (found,) = evaluate(graph, feeds).values()
    np.testing.assert_allclose(found, executed(data, feeds)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 5), (2, 5, 4, 3)], ids=str)
def test_statistics_of_an_operand_that_varies(shape: tuple[int, ...]) -> None:
    node = helper().make_node(
        "BatchNormalization", ["x", "s", "o", "m", "v"], ["y", "mean", "variance"],
        training_mode=1, momentum=0.75,
    )  # fmt: skip
    constants = {name: given(5) for name in "som"} | {"v": np.abs(given(5))}
    compare(
        model([node], [("x", shape)], ["y", "mean", "variance"], constants), {"x": given(*shape)}
    )


def test_statistics_that_nothing_reads_are_not_computed() -> None:
    node = helper().make_node
    nodes = [
        node("BatchNormalization", ["x", "s", "o", "m", "v"], ["y", "a", "b"], training_mode=1)
    ]
    constants = {name: given(5) for name in "somv"}
    graph = read(model(nodes, [("x", [2, 5, 4])], ["y"], constants))
    assert operators(graph).count("mean") == 2
    assert operators(graph).count("add") == 2
