"""Functions that exporters spell out become one operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, helper, model, operators

CONSTANTS = {
    "half": np.array(0.5, np.float32), "one": np.array(1, np.float32),
    "root": np.array(np.sqrt(2), np.float32), "three": np.array(3, np.float32),
    "zero": np.array(0, np.float32), "six": np.array(6, np.float32),
    "twenty": np.array(20, np.float32),
    "cubic": np.array(0.044715, np.float32), "pi": np.array(np.sqrt(2 / np.pi), np.float32),
}  # fmt: skip


def spelled(*steps: tuple[str, list[str]]) -> list[Any]:
    """Nodes in a row; the last gives y, and step n gives the value n."""
    made = []
    for number, (kind, inputs) in enumerate(steps, 1):
        output = "y" if number == len(steps) else str(number)
        made.append(helper().make_node(kind, inputs, [output]))
    return made


@pytest.mark.parametrize(
    ("operator", "steps"),
    [
        (
            "gelu",
            [("Div", ["x", "root"]), ("Erf", ["1"]), ("Add", ["one", "2"]), ("Mul", ["x", "3"]),
             ("Mul", ["4", "half"])],
        ),
        (
            "gelu",
            [("Pow", ["x", "three"]), ("Mul", ["cubic", "1"]), ("Add", ["x", "2"]),
             ("Mul", ["3", "pi"]), ("Tanh", ["4"]), ("Add", ["5", "one"]), ("Mul", ["half", "x"]),
             ("Mul", ["7", "6"])],
        ),
        (
            "hardswish",
            [("Add", ["x", "three"]), ("Clip", ["1", "zero", "six"]), ("Mul", ["x", "2"]),
             ("Div", ["3", "six"])],
        ),
    ],
)  # fmt: skip
def test_is_one_operator(operator: str, steps: list[tuple[str, list[str]]]) -> None:
    helper()
    data = model(spelled(*steps), [("x", [4, 9])], ["y"], CONSTANTS)
    x = np.random.default_rng(4).normal(0, 3, (4, 9)).astype(np.float32)
    assert operators(compare(data, {"x": x})) == [operator]


@pytest.mark.parametrize(("threshold", "chooses"), [("twenty", False), ("three", True)])
def test_a_softplus_that_ends_where_it_is_its_operand(threshold: str, chooses: bool) -> None:
    steps = [("Softplus", ["x"]), ("Greater", ["x", threshold]), ("Where", ["2", "x", "1"])]
    helper()
    data = model(spelled(*steps), [("x", [60])], ["y"], CONSTANTS)
    graph = compare(data, {"x": np.linspace(-30, 30, 60, dtype=np.float32)}, tolerance=1e-6)
    assert ("select" in operators(graph)) is chooses


@pytest.mark.parametrize("operator", ["Asinh", "Acosh", "Atanh"])
def test_inverse_hyperbolic_functions(operator: str) -> None:
    data = model([helper().make_node(operator, ["x"], ["y"])], [("x", [50])], ["y"])
    ends = {"Asinh": (-40, 40), "Acosh": (1, 30), "Atanh": (-0.99, 0.99)}[operator]
    compare(data, {"x": np.linspace(*ends, 50, dtype=np.float32)}, tolerance=1e-6)


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("negative", [0, 1])
def test_infinite_numbers_are_told(positive: int, negative: int) -> None:
    node = helper().make_node
    nodes = [
        node("IsInf", ["x"], ["found"], detect_positive=positive, detect_negative=negative),
        node("Cast", ["found"], ["y"], to=1),
    ]
    x = np.array([0, 1, np.inf, -np.inf, np.nan, -3e38], np.float32)
    compare(model(nodes, [("x", [6])], ["y"], opset=20), {"x": x})


def test_another_operand_is_another_function() -> None:
    steps = [("Add", ["x", "three"]), ("Clip", ["1", "zero", "six"]), ("Mul", ["z", "2"]),
             ("Div", ["3", "six"])]  # fmt: skip
    helper()
    data = model(spelled(*steps), [("x", [4]), ("z", [4])], ["y"], CONSTANTS)
    rng = np.random.default_rng(4)
    feeds = {name: rng.normal(0, 3, 4).astype(np.float32) for name in "xz"}
    assert "hardswish" not in operators(compare(data, feeds))


@pytest.mark.parametrize("weights", [(1, 2, 8, 1, 1), (1, 1, 8, 1, 1), (2, 8, 5, 6), (1,)], ids=str)
def test_sums_of_a_weighted_stack_are_sums_of_products(weights: tuple[int, ...]) -> None:
    """As branches are added in selective kernels: nothing has an axis for the branches."""
    node = helper().make_node
    nodes = [
        node("Unsqueeze", ["a", "axis"], ["ua"]),
        node("Unsqueeze", ["b", "axis"], ["ub"]),
        node("Concat", ["ua", "ub"], ["stack"], axis=1),
        node("Mul", ["stack", "w"], ["weighted"]),
        node("ReduceSum", ["weighted", "axis"], ["y"], keepdims=0),
    ]
    image = (1, 8, 5, 6)
    inputs = [("a", image), ("b", image), ("w", weights)]
    data, rng = model(nodes, inputs, ["y"], {"axis": np.array([1])}), np.random.default_rng(4)
    feeds = {name: rng.normal(0, 3, shape).astype(np.float32) for name, shape in inputs}
    found = operators(compare(data, feeds))
    assert found.count("mul") == 2
    assert {"sum", "concatenation"}.isdisjoint(found)
