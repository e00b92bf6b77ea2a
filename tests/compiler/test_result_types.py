"""Element types of results: what our rules admit is what LiteRT gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.compiler.zoo import random_inputs, zoo
from tests.compiler.zoo_plain import plain_inputs, zoo_plain
from tests.support import need_litert

from fitzroy.base.errors import DeviceError, FormatError, UnsupportedError, UsageError
from fitzroy.base.types import Array, DType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate
from fitzroy.driver.runtime.litert import LiteRtModel
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic

PLAIN = zoo_plain()
EVERY = {**zoo(), **PLAIN}
TYPES = (
    DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32,
    DType.COMPLEX64,
)  # fmt: skip


def kinds() -> dict[str, list[str]]:
    """For every operator, one graph for each choice of element types of its operands."""
    found: dict[str, dict[tuple[object, ...], str]] = {}
    for name, graph in EVERY.items():
        node = graph.nodes()[0]
        types = (graph.type(operand) for operand in node.inputs if operand is not None)
        key = tuple((type.dtype, type.is_quantized) for type in types)
        found.setdefault(node.op, {}).setdefault(key, name)
    return {op: list(names.values()) for op, names in found.items()}


KINDS = kinds()


def variants(graph: Graph) -> Iterator[tuple[str, tflite.Model]]:
    """The model of a graph with every element type for its first result."""
    for dtype in TYPES:
        try:
            model = export_model(graph)
        except UnsupportedError:
            return
        assert model.subgraphs is not None
        (subgraph,) = model.subgraphs
        assert subgraph.tensors is not None
        assert subgraph.outputs is not None
        tensor = subgraph.tensors[int(subgraph.outputs[0])]
        parameters = tensor.quantization
        tensor.type = int(tflite.TENSOR_TYPES[dtype])
        if parameters is not None and dtype.is_integer:
            assert parameters.zero_point is not None
            parameters.zero_point = np.clip(parameters.zero_point, *dtype.limits).astype(np.int64)
        elif parameters is not None:
            tensor.quantization = None
        yield dtype.value, model


def given(graph: Graph) -> dict[str, Array]:
    plain = graph.name in {item.name for item in PLAIN.values()}
    return (plain_inputs if plain else random_inputs)(graph, np.random.default_rng(0))


@pytest.mark.parametrize("op", KINDS)
def test_results_have_the_types_that_litert_gives(op: str) -> None:
    need_litert()
    for name in KINDS[op]:
        inputs = given(EVERY[name])
        for kind, model in variants(EVERY[name]):
            try:
                graph = import_model(model)
                named = dict(zip(graph.inputs, inputs.values(), strict=True))
                ours = evaluate(graph, named, Arithmetic.TFLITE)
            except (UnsupportedError, FormatError, UsageError):
                continue
            try:
                theirs = LiteRtModel(tflite.write_model(model), xnnpack=False)
                results = theirs.run(list(inputs.values()))
            except DeviceError:
                continue
            found = [array.dtype for array in ours.values()]
            assert found == [array.dtype for array in results], f"{name} as {kind}"


def test_most_operators_are_compared() -> None:
    """The type that a graph has is one that both admit, but for what TFLite has no operator for."""
    need_litert()
    compared = {
        op
        for op, names in KINDS.items()
        if any(next(variants(EVERY[name]), None) is not None for name in names)
    }
    assert len(compared) >= 0.9 * len(KINDS)
