"""From graphs to TFLite models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import (
    Call,
    Exported,
    TypeRuleError,
)
from fitzroy.formats import tflite
from fitzroy.formats.annotations import annotated

_INT8_VERSIONS = {
    "ADD": 2, "AVERAGE_POOL_2D": 2, "CONCATENATION": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3,
    "DEQUANTIZE": 2, "FULLY_CONNECTED": 4, "LOGISTIC": 2, "MAX_POOL_2D": 2, "MEAN": 2, "MUL": 2,
    "PAD": 2, "RESIZE_BILINEAR": 2, "RESIZE_NEAREST_NEIGHBOR": 2, "SOFTMAX": 2, "SUB": 2,
    "TANH": 2, "TRANSPOSE": 2, "TRANSPOSE_CONV": 2,
}  # fmt: skip
"""First operator versions with int8 kernels; the others have them from version 1."""


def export_model(
    graph: Graph, *, description: str = "", like: tflite.Model | None = None
) -> tflite.Model:
    """A TFLite model that computes a graph, with its labels and other files.

    Args:
        graph: the graph.
        description: what the model says of itself.
        like: a model whose description, metadata, packed files and signatures it gets.

    Raises:
        UnsupportedError: with one diagnostic per node that TFLite cannot express.
        UsageError: there are too many labels.
    """
    model = _Exporter(graph, description).model()
    if like is not None:
        model = annotated(model, like)
    if graph.labels or graph.files:
        # Few models have any.
        from fitzroy.formats.archive import Archive
        from fitzroy.formats.labels import labelled

        model.archive = model.archive or Archive(graph.files)
        model = labelled(model, graph.labels)
    return model


class _Exporter:
    def __init__(self, graph: Graph, description: str) -> None:
        self.graph, self.description = graph, description
        self.tensors: list[tflite.Tensor] = []
        self.buffers = [tflite.Buffer()]
        self.codes: dict[tuple[str, int], int] = {}
        self.code_tables: list[tflite.OperatorCode] = []
        self.indices: dict[str, int] = {}

    def model(self) -> tflite.Model:
        graph = self.graph
        for name in graph.inputs:
            self.tensor(graph.value(name))
        operators, rejects = [], []
        for node in graph.nodes():
            try:
                operators.append(self.operator(node))
            except TypeRuleError as error:
                where = f"{node.op} {node.name!r}"
                rejects.append(Diagnostic(Severity.ERROR, "tflite-export", where, str(error)))
        if rejects:
            raise UnsupportedError(
                "TFLite cannot express the graph", rejects=rejects, where=graph.name
            )
        subgraph = tflite.SubGraph(
            tensors=self.tensors,
            inputs=np.array([self.indices[name] for name in graph.inputs], np.int32),
            outputs=np.array([self.tensor(graph.value(n)) for n in graph.outputs], np.int32),
            operators=operators,
            name=graph.name,
        )
        return tflite.Model(
            version=tflite.VERSION,
            operator_codes=self.code_tables,
            subgraphs=[subgraph],
            description=self.description,
            buffers=self.buffers,
        )

    def operator(self, node: Node) -> tflite.Operator:
        call = Call.of(self.graph, node)
        outputs = np.array([self.tensor(value) for value in call.outputs], np.int32)
        exported = OPS[node.op].to_tflite(call)
        order = range(len(call.inputs)) if exported.operands is None else exported.operands
        inputs = [
            self.state(call.inputs[item])
            if isinstance(item, int) and position in exported.states
            else self.operand(call.inputs[item])
            if isinstance(item, int)
            else self.parameter(node, position, item)
            for position, item in enumerate(order)
        ]
        if isinstance(exported.options, tflite.Operator):
            return replace(
                exported.options,
                opcode_index=self.code(exported.builtin, exported.version or 1),
                inputs=np.array(inputs, np.int32),
                outputs=outputs,
            )
        if isinstance(exported.options, bytes):
            raw = exported.options
            return tflite.Operator(
                opcode_index=self.code("CUSTOM", exported.version or 1, exported.builtin),
                inputs=np.array(inputs, np.int32),
                outputs=outputs,
                custom_options=np.frombuffer(raw, np.uint8) if raw else None,
            )
        second = type(exported.options) in tflite.BUILTIN_OPTIONS_2
        is_int8 = any(v is not None and v.type.dtype is DType.INT8 for v in call.inputs)
        version = exported.version or (_INT8_VERSIONS.get(exported.builtin, 1) if is_int8 else 1)
        return tflite.Operator(
            opcode_index=self.code(exported.builtin, version),
            inputs=np.array(inputs, np.int32),
            outputs=outputs,
            builtin_options=None if second else exported.options,
            builtin_options2=exported.options if second else None,
            intermediates=self.intermediates(node, exported),
        )

    def operand(self, value: Value | None) -> int:
        return -1 if value is None else self.tensor(value)

    def state(self, value: Value | None) -> int:
        """A tensor that begins as zero and lasts from run to run; files have no data of it."""
        if value is None:
            return -1
        index = self.append(value.name, value.type, None)
        self.tensors[index].is_variable = True
        return index

    def intermediates(self, node: Node, exported: Exported) -> Array | None:
        if not exported.intermediates:
            return None
        found = [
            self.append(f"{node.name}/intermediate{number}", type, None)
            for number, type in enumerate(exported.intermediates)
        ]
        return np.array(found, np.int32)

    def code(self, builtin: str, version: int, custom: str | None = None) -> int:
        key = (custom or builtin, version)
        if key not in self.codes:
            code = tflite.operator_code(tflite.BuiltinOperator[builtin], version=version)
            code.custom_code = custom
            self.codes[key] = len(self.code_tables)
            self.code_tables.append(code)
        return self.codes[key]

    def parameter(self, node: Node, position: int, given: Array | Value) -> int:
        name = f"{node.name}/parameter{position}"
        if isinstance(given, Value):
            return self.append(name, given.type, given.data)
        return self.append(name, TensorType(given.shape, DType.of(given)), given)

    def tensor(self, value: Value) -> int:
        if value.name not in self.indices:
            self.indices[value.name] = self.append(value.name, value.type, value.data)
        return self.indices[value.name]

    def append(self, name: str, type: TensorType, data: Array | None) -> int:
        buffer = 0
        if data is not None:
            raw = np.ascontiguousarray(data, data.dtype.newbyteorder("<"))
            self.buffers.append(tflite.Buffer(data=raw.reshape(-1).view(np.uint8)))
            buffer = len(self.buffers) - 1
        self.tensors.append(
            tflite.Tensor(
                shape=np.array(type.shape, np.int32),
                type=int(tflite.TENSOR_TYPES[type.dtype]),
                buffer=buffer,
                name=name,
                quantization=next(_quantization(type), None),
                has_rank=True,
            )
        )
        return len(self.tensors) - 1


def _quantization(type: TensorType) -> Iterator[tflite.QuantizationParameters]:
    q = type.quantization
    if q is not None:
        yield tflite.QuantizationParameters(
            scale=np.array(q.scale, np.float32),
            zero_point=np.array(q.zero_point, np.int64),
            quantized_dimension=q.axis or 0,
        )
