"""Places in a tensor, which quantization leaves float32."""

from __future__ import annotations

import numpy as np
from tests.compiler.onnx.models import helper, model, read

import fitzroy
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.quantization.places import of_places

SIDE = 32


def sampled(mode: str = "linear", padding: str = "zeros") -> Graph:
    """Features of an image, at places that a layer moves, and a function of the places."""
    node, random = helper().make_node, np.random.default_rng(1)
    line = (np.arange(SIDE, dtype=np.float32) + 0.5) * 2 / SIDE - 1
    cells = np.stack(np.meshgrid(line, line), axis=-1)[None]
    nodes = [
        node("Conv", ["x", "features"], ["f"]),
        node("Conv", ["x", "offsets"], ["o"]),
        node("Transpose", ["o"], ["t"], perm=[0, 2, 3, 1]),
        node("Add", ["t", "cells"], ["places"]),
        node("GridSample", ["f", "places"], ["y"], mode=mode, padding_mode=padding),
    ]
    constants: dict[str, Array] = {
        "features": random.normal(0, 1, (8, 3, 1, 1)).astype(np.float32),
        "offsets": random.normal(0, 0.05, (2, 3, 1, 1)).astype(np.float32),
        "cells": cells.astype(np.float32),
    }
    return read(model(nodes, [("x", (1, 3, SIDE, SIDE))], ["y"], constants, opset=20))


def image(seed: int) -> Array:
    """A smooth picture, in which a place that is a little off is hardly another color."""
    line = np.linspace(0, 3, SIDE) + seed
    waves = [np.sin(np.add.outer(line * k, line * (3 - k))) for k in range(3)]
    return np.stack(waves)[None].astype(np.float32)


def test_places_stay_float() -> None:
    """An index and the weights of neighbours have more than 256 steps."""
    graph = sampled()
    result = fitzroy.quantize(graph, [{"x": image(seed)} for seed in range(4)], io="float")
    made = {node.op: result.type(node.outputs[0]) for node in result.nodes()}
    assert made["conv_2d"].is_quantized
    for op in ("floor", "add", "select", "minimum"):
        assert not made[op].is_quantized
    (wanted,), (found,) = (
        fitzroy.evaluate(one, {"x": image(9)}).values() for one in (graph, result)
    )
    noise = float(np.square(wanted - found).mean() / np.square(wanted).mean())
    assert noise < 1e-3


def test_what_reads_something_else_is_quantized() -> None:
    """What is sampled, and layers, have 8 bits; what only looks like a place does."""
    graph = sampled()
    names = {node.name for node in of_places(graph)}
    others = {node.op for node in graph.nodes() if node.name not in names}
    assert {"conv_2d", "gather", "batch_matmul"} <= others
    graph.outputs = ["places"]
    graph.prune()
    assert of_places(graph) == []


def test_a_sample_takes_few_operators() -> None:
    """What is the same for all dimensions of an image and all neighbours takes one operator."""
    for mode, most in (("linear", 40), ("cubic", 60)):
        graph = sampled(mode)
        assert len(graph.nodes()) <= most
        assert sum(node.op == "gather" for node in graph.nodes()) == 1
