"""Values of a serialized XNNPACK graph: checked types, and constants as arrays.

Facts: ``tensor.c`` and ``validation.c`` of XNNPACK, and ExecuTorch's ``XNNCompiler``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.formats.flat import ints
from fitzroy.formats.xnnpack import (
    INVALID_ID,
    MAX_EXTERNS,
    Blob,
    DataType,
    PerChannelQuant,
    PerTensorQuant,
    PerTokenDynamicQuant,
    QuantizedTensorValue,
    TensorValue,
    ValueFlag,
    XValue,
    constant_bytes,
)

MAX_RANK = 6
"""Most dimensions of a value."""

MAX_BYTES = 1 << 31
"""Most bytes of a value that this model allocates."""

Named = Callable[[str], memoryview | None]

_STORAGE: dict[int, DType] = {
    DataType.FP32: DType.FLOAT32,
    DataType.QINT8: DType.INT8,
    DataType.QUINT8: DType.UINT8,
    DataType.QINT32: DType.INT32,
    DataType.QCINT8: DType.INT8,
    DataType.QCINT32: DType.INT32,
    DataType.QDINT8: DType.INT8,
    DataType.INT32: DType.INT32,
}

_NAMES = {int(kind): kind.name for kind in DataType}
_PER_TENSOR = (DataType.QINT8, DataType.QUINT8, DataType.QINT32)
_PER_CHANNEL = (DataType.QCINT8, DataType.QCINT32)


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A value whose type was checked.

    Attributes:
        id: the id that nodes use.
        datatype: code of the element type, a `DataType`.
        type: shape, stored element type and quantization.
        data: contents of a constant, or None.
        external_id: position among the arguments, or `INVALID_ID`.
        is_input: whether the caller provides it.
        is_output: whether the caller gets it.
        row_dims: number of trailing dimensions that share one dynamic scale; else 0.
    """

    id: int
    datatype: int
    type: TensorType
    data: Array | None
    external_id: int
    is_input: bool
    is_output: bool
    row_dims: int = 0

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"value {self.id}"


def read_values(blob: Blob, named: Named, path: str = "") -> dict[int, Value]:
    """Check and index all values of a graph.

    Args:
        blob: the graph with its constants.
        named: looks up constants outside of the blob.
        path: name of the file, for errors.

    Raises:
        FormatError: a malformed value.
        UnsupportedError: an element type that the runtime or this model does not execute.
    """
    graph = blob.graph
    if graph.num_externs > MAX_EXTERNS:
        raise FormatError(
            f"{graph.num_externs} external values, {MAX_EXTERNS} are permitted",
            path=path, table="XNNGraph",
        )  # fmt: skip
    values: dict[int, Value] = {}
    externals: dict[int, int] = {}
    for position, entry in enumerate(graph.xvalues or []):
        value = _read_value(blob, entry, position, named, path)
        if value.id in values or value.id == INVALID_ID:
            raise _fault(f"id {value.id} stands for two values or none", path)
        if value.external_id != INVALID_ID:
            if value.external_id >= graph.num_externs:
                raise _fault(
                    f"{value.name} has external id {value.external_id} of {graph.num_externs}", path
                )
            other = externals.setdefault(value.external_id, value.id)
            if other != value.id:
                raise _fault(
                    f"values {other} and {value.id} share external id {value.external_id}", path
                )
        values[value.id] = value
    return values


def _read_value(blob: Blob, entry: XValue, position: int, named: Named, path: str) -> Value:
    inner = entry.value
    quantized = isinstance(inner, QuantizedTensorValue)
    tensor = inner.tensor_value if isinstance(inner, QuantizedTensorValue) else inner
    if not isinstance(tensor, TensorValue):
        raise _fault(f"xvalue {position} holds no tensor", path)
    what = f"value {tensor.id_out}"
    storage = _STORAGE.get(tensor.datatype)
    if storage is None:
        raise UnsupportedError(
            f"{what} has element type {datatype_name(tensor.datatype)}", where=path
        )
    if tensor.dq_datatype != DataType.INVALID:
        raise UnsupportedError(
            f"{what} asks for dynamic quantization at the border of the graph",
            where=path, hint="convert a float value to a dynamically quantized one",
        )  # fmt: skip
    shape = ints(tensor.dims)
    if len(shape) != tensor.num_dims:
        raise _fault(f"{what} has {len(shape)} extents for {tensor.num_dims} dimensions", path)
    if len(shape) > MAX_RANK:
        raise _fault(f"{what} has {len(shape)} dimensions, at most {MAX_RANK} are permitted", path)
    if tensor.flags & ~int(ValueFlag.EXTERNAL_INPUT | ValueFlag.EXTERNAL_OUTPUT):
        raise _fault(f"{what} has flags {tensor.flags:#x}", path)
    is_input = bool(tensor.flags & ValueFlag.EXTERNAL_INPUT)
    is_output = bool(tensor.flags & ValueFlag.EXTERNAL_OUTPUT)
    if (is_input or is_output) and tensor.external_id == INVALID_ID:
        raise _fault(f"{what} crosses the border of the graph without an external id", path)
    quantization, row_dims = _quantization(
        blob, named, tensor, inner if quantized else None, shape, path
    )
    type_ = TensorType(shape, storage, quantization)
    if type_.nbytes > MAX_BYTES:
        raise UnsupportedError(f"{what} takes {type_.nbytes} bytes", where=path)
    data = None
    if tensor.constant_buffer_idx:
        if is_input or is_output or tensor.datatype == DataType.QDINT8:
            raise _fault(f"{what} is a constant and comes from elsewhere", path)
        raw = constant_bytes(blob, tensor.constant_buffer_idx, named, path=path)
        if len(raw) != type_.nbytes:
            raise _fault(f"{what} needs {type_.nbytes} bytes, its constant has {len(raw)}", path)
        data = np.frombuffer(raw, storage.numpy).reshape(shape)
    elif tensor.datatype == DataType.QDINT8 and (is_input or is_output):
        raise UnsupportedError(f"{what} is dynamically quantized and external", where=path)
    return Value(
        tensor.id_out, tensor.datatype, type_, data, tensor.external_id, is_input, is_output,
        row_dims,
    )  # fmt: skip


def _scales(blob: Blob, params: PerChannelQuant, named: Named, path: str) -> tuple[float, ...]:
    """Scales of a value with several, from the flatbuffer or from a constant."""
    if not params.scale_buffer_idx:
        return () if params.scale is None else tuple(params.scale.tolist())
    raw = constant_bytes(blob, params.scale_buffer_idx, named, path=path)
    if len(raw) < 4 * params.num_scales:
        raise _fault(f"{params.num_scales} scales in a constant of {len(raw)} bytes", path)
    return tuple(np.frombuffer(raw, "<f4", params.num_scales).tolist())


def _quantization(
    blob: Blob,
    named: Named,
    tensor: TensorValue,
    inner: object,
    shape: tuple[int, ...],
    path: str,
) -> tuple[Quantization | None, int]:
    """Parameters of a value, and the number of dimensions of a dynamic row."""
    what = f"value {tensor.id_out}"
    params = inner.quant_params if isinstance(inner, QuantizedTensorValue) else None
    datatype = tensor.datatype
    if isinstance(params, PerTensorQuant) and datatype in _PER_TENSOR:
        low, high = _STORAGE[datatype].limits if datatype != DataType.QINT32 else (0, 0)
        if not low <= params.zero_point <= high:
            raise _fault(
                f"{what} has zero point {params.zero_point}, [{low}, {high}] is permitted", path
            )
        quantization = Quantization.per_tensor(params.scale, params.zero_point)
    elif isinstance(params, PerChannelQuant) and datatype in _PER_CHANNEL:
        axis = params.channel_dim
        scales = _scales(blob, params, named, path)
        if not 0 <= axis < len(shape) or len(scales) != shape[axis]:
            raise _fault(
                f"{what} of shape {list(shape)} has {len(scales)} scales along dimension {axis}",
                path,
            )
        quantization = Quantization(scales, (0,) * len(scales), axis)
    elif isinstance(params, PerTokenDynamicQuant) and datatype == DataType.QDINT8:
        if not 0 < params.num_nonbatch_dims <= len(shape):
            raise _fault(
                f"{what} of rank {len(shape)} has rows of {params.num_nonbatch_dims} dimensions",
                path,
            )
        return None, params.num_nonbatch_dims
    elif inner is None and datatype in (DataType.FP32, DataType.INT32):
        return None, 0
    else:
        kind = "no parameters" if params is None else type(params).__name__
        raise _fault(f"{what} of type {datatype_name(datatype)} has {kind}", path)
    if not quantization.is_usable() and not all(map(math.isfinite, quantization.scale)):
        raise _fault(f"{what} has a scale that is not finite", path)
    if not quantization.is_usable():
        raise UnsupportedError(
            f"{what} has scale {min(quantization.scale):.7g}",
            where=path, hint="scales must be positive, normal float32 numbers",
        )  # fmt: skip
    return quantization, 0


def datatype_name(code: int) -> str:
    """Name of an element type, or its number if it has none."""
    return _NAMES.get(code, str(code))


def _fault(what: str, path: str) -> FormatError:
    return FormatError(what, path=path, table="XNNGraph")
