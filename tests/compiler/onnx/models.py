"""Small ONNX models for tests, made with the package ``onnx``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from tests.support import need

from fitzroy.base.types import Array, DType
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.onnx.frontend import OnnxFrontend
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate, verify

Port = tuple[str, Sequence[int | str | None]]


def helper() -> Any:
    need("onnx", "onnx")
    import onnx.helper

    return onnx.helper


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Port],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    *,
    opset: int = 17,
    dtype: DType = DType.FLOAT32,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """A serialized model with inputs of an element type and float32 outputs of any shape."""
    h = helper()
    from onnx import TensorProto, numpy_helper

    code = h.np_dtype_to_tensor_dtype(dtype.numpy)
    graph = h.make_graph(
        nodes,
        "made",
        [h.make_tensor_value_info(name, code, shape) for name, shape in inputs],
        [h.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    sets = [h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)]
    made = h.make_model(graph, opset_imports=sets)
    h.set_model_props(made, dict(properties))
    return bytes(made.SerializeToString())


def read(data: bytes, how: Reading | None = None, path: str = "made.onnx") -> Graph:
    """The graph of a model."""
    graph = OnnxFrontend().read(data, path, how or Reading(keep_layout=True))
    verify(graph)
    return graph


def expected(data: bytes, feeds: Mapping[str, Array]) -> list[Array]:
    """What ONNX's own evaluator makes of a model."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx.ModelProto.FromString(data))
    return [np.asarray(x) for x in evaluator.run(None, dict(feeds))]


def executed(data: bytes, feeds: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime makes of a model, operator by operator."""
    need("onnxruntime", "dev")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options)
    return [np.asarray(x) for x in session.run(None, dict(feeds))]


def compare(data: bytes, feeds: Mapping[str, Array], *, tolerance: float = 1e-4) -> Graph:
    """Demand that a model gives what ONNX's evaluator gives; returns its graph."""
    graph = read(data)
    found = evaluate(graph, feeds)
    for name, wanted in zip(graph.outputs, expected(data, feeds), strict=True):
        assert found[name].dtype == wanted.dtype
        np.testing.assert_allclose(found[name], wanted, rtol=tolerance, atol=tolerance)
    return graph


def operators(graph: Graph) -> list[str]:
    """Names of the operators of a graph."""
    return [node.op for node in graph.nodes()]
