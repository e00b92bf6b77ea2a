"""Groups of channels that are normalized: from ONNX to the simulated chip, in one part."""

from __future__ import annotations

import numpy as np
from tests.compiler.edgetpu_models import random_inputs
from tests.compiler.onnx.models import helper, model, read

from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.quantization.comparison import compare
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice

SIDE, CHANNELS, GROUPS = 16, 24, 6


def network() -> Graph:
    """Two convolutions with normalized groups between them, as PyTorch exports them."""
    node, rng = helper().make_node, np.random.default_rng(3)
    nodes = [
        node("Conv", ["x", "v"], ["c"], pads=[1, 1, 1, 1]),
        node("Reshape", ["c", "flat"], ["r"]),
        node("InstanceNormalization", ["r", "ones", "zeros"], ["n"]),
        node("Reshape", ["n", "whole"], ["i"]),
        node("Mul", ["i", "scale"], ["m"]),
        node("Add", ["m", "offset"], ["a"]),
        node("Relu", ["a"], ["e"]),
        node("Conv", ["e", "w"], ["p"]),
        node("GlobalAveragePool", ["p"], ["y"]),
    ]
    constants = {
        "v": rng.normal(size=(CHANNELS, 3, 3, 3)),
        "w": rng.normal(size=(8, CHANNELS, 1, 1)),
        "ones": np.ones(GROUPS),
        "zeros": np.zeros(GROUPS),
        "scale": rng.uniform(0.5, 1.5, (CHANNELS, 1, 1)),
        "offset": rng.normal(size=(CHANNELS, 1, 1)),
    }
    shapes = {"flat": np.array((1, GROUPS, -1)), "whole": np.array((1, CHANNELS, SIDE, SIDE))}
    floats = {name: array.astype(np.float32) for name, array in constants.items()}
    return read(model(nodes, [("x", [1, 3, SIDE, SIDE])], ["y"], floats | shapes), Reading())


def test_groups_are_normalized_on_the_chip() -> None:
    rng = np.random.default_rng(4)
    # Pictures of different contrast, which normalization takes away.
    samples = [
        {"x": (rng.normal(size=(1, SIDE, SIDE, 3)) * spread).astype(np.float32)}
        for spread in (0.5, 1, 2, 3)
    ]
    result = quantize_model(network(), samples, QuantizeOptions(tables=True), unit=FUNCTIONS)
    (off,) = compare(result.source, result.counterpart, samples).outputs.values()
    assert off.decibels > 25
    source = Source.of(result.graph)
    compiled = compile_edgetpu(source, costs=None)
    assert len(compiled.segments) == 1
    assert not compiled.unmapped
    given = random_inputs(result.graph, 5)
    with (
        Interpreter(compiled.data, device=TwinDevice(source.graph)) as twin,
        Interpreter(compiled.data, device="sim") as chip,
    ):
        wanted, found = twin.run(given), chip.run(given)
    for name in result.graph.outputs:
        np.testing.assert_array_equal(found[name], wanted[name])
