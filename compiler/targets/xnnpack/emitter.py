"""Builds one XNNPACK subgraph from IR nodes.

Weights that XNNPACK packs are stored in the blob. Every other constant becomes an argument of the
delegate, kept in the program's constant segment: the backend frees the blob after loading while
XNNPACK still points into it, which crashes when the program is mapped from a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import InternalError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.definition import Call
from fitzroy.formats import xnnpack as xnn
from fitzroy.formats.xnnpack import DataType

_PLAIN = {DType.FLOAT32: DataType.FP32, DType.INT32: DataType.INT32}
_PER_TENSOR = {
    DType.INT8: DataType.QINT8,
    DType.UINT8: DataType.QUINT8,
    DType.INT32: DataType.QINT32,
}
_PER_CHANNEL = {DType.INT8: DataType.QCINT8, DType.INT32: DataType.QCINT32}


@dataclass(frozen=True, slots=True)
class Subgraph:
    """An emitted subgraph.

    Attributes:
        blob: the delegate's data.
        arguments: names of IR values in order of external id, inputs and constants first.
        nodes: number of XNNPACK nodes.
    """

    blob: bytes
    arguments: tuple[str, ...]
    nodes: int


class SubgraphEmitter:
    """Collects values and nodes of one subgraph.

    Args:
        graph: the IR graph that holds the values.
        inputs: names of variables that come from outside.
        outputs: names of values that others need.
    """

    def __init__(self, graph: Graph, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        self._graph = graph
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._constants: list[str] = []
        self._ids: dict[str, int] = {}
        self._packed: dict[tuple[str, TensorType], int] = {}
        self._values: list[xnn.XValue] = []
        self._nodes: list[xnn.XNode] = []
        self._data = bytearray()
        self._places = [xnn.ConstantDataOffset(offset=0, size=0)]

    def value(self, name: str) -> int:
        """Id of a value, defined on first use; constants become external."""
        if name not in self._ids:
            value = self._graph.value(name)
            if value.is_constant:
                self._constants.append(name)
            self._ids[name] = self._define(value.type, f"value {name!r}")
        return self._ids[name]

    def packed(self, value: Value) -> int:
        """Id of a constant that XNNPACK packs: filters and biases, stored in the blob."""
        key = (value.name, value.type)
        if key not in self._packed:
            if value.data is None:
                raise InternalError(f"{value.name!r} is not a constant", where=self._graph.name)
            self._packed[key] = self._define(
                value.type, f"constant {value.name!r}", self._store(value.data.tobytes())
            )
        return self._packed[key]

    def weighted(self, call: Call) -> dict[str, int]:
        """Operand ids of a convolution or fully connected node."""
        bias = call.optional(2)
        return {
            "input1_id": self.value(call.operand(0).name),
            "filter_id": self.packed(call.operand(1)),
            "bias_id": xnn.INVALID_ID if bias is None else self.packed(self._bias(call, bias)),
            "output_id": self.value(call.result.name),
        }

    def _bias(self, call: Call, bias: Value) -> Value:
        """The bias with the type that XNNPACK derives from input and filter."""
        image, kernel = call.type(0).quantization, call.type(1).quantization
        if bias.data is None:
            raise InternalError(f"bias {bias.name!r} is not a constant", where=self._graph.name)
        data = bias.data.reshape(-1)
        if bias.type.dtype is DType.FLOAT32 or image is None or kernel is None:
            return Value(bias.name, TensorType(data.shape, bias.type.dtype), data)
        factor = np.float32(image.scale[0])
        # The runtime demands normal scales here, but computes with those of input and filter.
        normal = np.finfo(np.float32)
        with np.errstate(over="ignore"):
            products = factor * np.array(kernel.scale, np.float32)
        scale = tuple(np.clip(products, normal.tiny, normal.max).tolist())
        axis = None if kernel.axis is None else 0
        quantization = Quantization(scale, (0,) * len(scale), axis)
        return Value(bias.name, TensorType(data.shape, DType.INT32, quantization), data)

    def add(self, node: xnn.NodeTable, bounds: tuple[float, float] = (-math.inf, math.inf)) -> None:
        """Append a node, with the clamp of its output in real numbers."""
        clamp = None
        if bounds != (-math.inf, math.inf):
            clamp = xnn.OutputMinMax(output_min=bounds[0], output_max=bounds[1])
        self._nodes.append(
            xnn.XNode(node=node, debug_handle=len(self._nodes), output_min_max=clamp)
        )

    def unary(self, cls: type[xnn.Unary], call: Call, **fields: int) -> None:
        """Append a node with one input and one output."""
        self.add(
            cls(
                input_id=self.value(call.operand(0).name),
                output_id=self.value(call.result.name),
                **fields,
            )
        )

    def binary(
        self,
        cls: type[xnn.Binary],
        call: Call,
        bounds: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        """Append a node with two inputs and one output."""
        self.add(
            cls(
                input1_id=self.value(call.operand(0).name),
                input2_id=self.value(call.operand(1).name),
                output_id=self.value(call.result.name),
            ),
            bounds,
        )

    def finish(self) -> Subgraph:
        """The subgraph with its external ids assigned: inputs, constants, outputs."""
        arguments = (*self._inputs, *self._constants, *self._outputs)
        for position, name in enumerate(arguments):
            tensor = xnn.tensor_of(self._values[self.value(name)])
            assert tensor is not None
            is_output = position >= len(self._inputs) + len(self._constants)
            tensor.external_id = position
            tensor.flags = (
                xnn.ValueFlag.EXTERNAL_OUTPUT if is_output else xnn.ValueFlag.EXTERNAL_INPUT
            )
        count = len(self._inputs) + len(self._constants)
        graph = xnn.XNNGraph(
            version="0.0.1",
            xnodes=self._nodes,
            xvalues=self._values,
            num_externs=len(arguments),
            input_ids=np.arange(count, dtype=np.uint32),
            output_ids=np.arange(count, len(arguments), dtype=np.uint32),
            constant_data=self._places,
        )
        return Subgraph(xnn.write_blob(graph, self._data), arguments, len(self._nodes))

    def _store(self, data: bytes) -> int:
        self._data += b"\0" * (-len(self._data) % xnn.CONSTANT_ALIGNMENT)
        self._places.append(xnn.ConstantDataOffset(offset=len(self._data), size=len(data)))
        self._data += data
        return len(self._places) - 1

    def _define(self, type: TensorType, what: str, constant: int = 0) -> int:
        ident = len(self._values)
        tensor = xnn.TensorValue(
            num_dims=type.rank,
            dims=np.array(type.shape, np.uint32),
            constant_buffer_idx=constant,
            external_id=xnn.INVALID_ID,
            id_out=ident,
        )
        quantization = type.quantization
        if quantization is None and type.dtype in _PLAIN:
            tensor.datatype = _PLAIN[type.dtype]
            self._values.append(xnn.XValue(value=tensor))
            return ident
        table = _PER_TENSOR if quantization is None or quantization.axis is None else _PER_CHANNEL
        if quantization is None or type.dtype not in table:
            raise InternalError(f"{what} has no XNNPACK type", reason=str(type))
        tensor.datatype = table[type.dtype]
        params: xnn.QuantParams
        if quantization.axis is None:
            params = xnn.PerTensorQuant(
                scale=quantization.scale[0], zero_point=quantization.zero_point[0]
            )
        else:
            params = xnn.PerChannelQuant(
                scale=np.array(quantization.scale, np.float32), channel_dim=quantization.axis
            )
        self._values.append(
            xnn.XValue(value=xnn.QuantizedTensorValue(tensor_value=tensor, quant_params=params))
        )
        return ident
