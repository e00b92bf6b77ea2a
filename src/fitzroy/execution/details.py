"""What TFLite says of a tensor: the dictionaries of ``get_input_details`` and their like.

Facts: what the LiteRT interpreter gives for tensors of every element type and quantization.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats import sparse, tflite
from fitzroy.formats.flat import UnknownMember, ints
from fitzroy.formats.tflite import TensorType

_NUMPY: dict[int, type[np.generic]] = {
    **{int(code): dtype.numpy.type for code, dtype in tflite.DTYPES.items()},
    TensorType.STRING: np.bytes_,
    TensorType.COMPLEX128: np.complex128,
    TensorType.RESOURCE: np.object_,
    TensorType.VARIANT: np.object_,
    TensorType.INT4: np.int8,
    TensorType.INT2: np.int8,
    TensorType.UINT4: np.uint8,
    TensorType.FLOAT8_E4M3FN: np.int8,
    TensorType.FLOAT8_E5M2: np.int8,
}
"""Types of numpy by element type; narrow elements are those of a byte. BFLOAT16 has none."""


def tensor_details(tensor: tflite.Tensor, index: int) -> dict[str, Any] | None:
    """What TFLite says of a tensor, as arrays that nobody else has.

    Args:
        tensor: the tensor.
        index: its number in its subgraph.

    Returns:
        Its name, index, shape, signature of its shape (-1 for extents that are open), element type
        and quantization; None for element types that TFLite gives no details of.

    Raises:
        FormatError: it has other zero points than scales.
    """
    dtype = _NUMPY.get(tensor.type)
    if dtype is None:
        return None
    quantization = tensor.quantization or tflite.QuantizationParameters()
    scales = _copied(quantization.scale, np.float32)
    points = _copied(quantization.zero_point if len(scales) else None, np.int32)
    if len(scales) != len(points):
        raise FormatError(
            f"{len(points)} zero points for {len(scales)} scales", table=f"Tensor {index}"
        )
    signature = ints(tensor.shape_signature) or ints(tensor.shape)
    single = len(scales) == 1
    return {
        "name": tensor.name or "",
        "index": index,
        "shape": _copied(tensor.shape, np.int32),
        "shape_signature": np.array(signature, np.int32),
        "dtype": dtype,
        "quantization": (float(scales[0]), int(points[0])) if single else (0.0, 0),
        "quantization_parameters": {
            "scales": scales,
            "zero_points": points,
            "quantized_dimension": quantization.quantized_dimension if len(scales) else 0,
            "block_size": 0,
        },
        "sparsity_parameters": {} if tensor.sparsity is None else _sparsity(tensor.sparsity),
    }


def _sparsity(parameters: sparse.SparsityParameters) -> dict[str, Any]:
    """How a sparse tensor is stored, as TFLite says it."""
    said: dict[str, Any] = {}
    if parameters.traversal_order is not None:
        said["traversal_order"] = _copied(parameters.traversal_order, np.int32)
    if parameters.block_map is not None:
        said["block_map"] = _copied(parameters.block_map, np.int32)
    said["dim_metadata"] = [_dimension(item) for item in parameters.dim_metadata or ()]
    return said


def _dimension(level: sparse.DimensionMetadata) -> dict[str, Any]:
    if level.format == sparse.DimensionType.DENSE:
        return {"format": 0, "dense_size": level.dense_size}
    return {
        "format": level.format,
        "array_segments": _indices(level.array_segments),
        "array_indices": _indices(level.array_indices),
    }


def _indices(member: sparse.SparseIndices | UnknownMember | None) -> Array:
    known = None if isinstance(member, UnknownMember) or member is None else member.values
    return _copied(known, np.int32)


def _copied(values: Array | None, dtype: type[np.generic]) -> Array:
    return np.array([] if values is None else values, dtype)
