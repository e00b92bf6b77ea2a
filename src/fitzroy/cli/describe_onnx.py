"""What is in an ONNX model, without importing it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fitzroy.compiler.frontends.onnx.reader import decode, labels, library

Document = dict[str, Any]


def describe_onnx(data: bytes, path: str) -> Document:
    """Inputs, outputs, operators and constants of a model as its file has them.

    Extents that the model leaves open are given by their names.

    Raises:
        UsageError: the package ``onnx`` is missing.
        FormatError: the bytes are no ONNX model.
    """
    model = decode(data, path)
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    sets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    operators = [
        {
            "index": index,
            "op": node.op_type,
            "inputs": [],
            "outputs": [],
            "names": {"inputs": list(node.input), "outputs": list(node.output)},
        }
        for index, node in enumerate(graph.node)
    ]
    values = {name for node in graph.node for name in node.output if name}
    subgraph = {
        "name": graph.name,
        "inputs": [_port(info) for info in graph.input if info.name not in constants],
        "outputs": [_port(info) for info in graph.output],
        "operators": operators,
        "histogram": dict(Counter(node.op_type for node in graph.node).most_common()),
        "tensors": len(values) + len(constants) + len(graph.input),
        "constants": {
            "count": len(constants),
            "bytes": sum(tensor.ByteSize() for tensor in graph.initializer),
        },
    }
    producer = " ".join(filter(None, (model.producer_name, model.producer_version)))
    text = f"operator sets {sets}" + (f", made by {producer}" if producer else "")
    return {
        "description": text,
        "subgraphs": [subgraph],
        **labels(model).document,
    }


def _port(info: Any) -> Document:
    """An input or output."""
    type = info.type.tensor_type
    names = library().TensorProto.DataType
    known = type.elem_type in names.values()
    shape = [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in type.shape.dim
    ]
    dtype = names.Name(type.elem_type).lower() if known else "unknown"
    return {"name": info.name, "dtype": dtype, "shape": shape}
