"""What functions of a module say of their arguments and results.

The attribute ``f`` is IREE's raw signature of early 2020: a text of items, each a letter, the
length of its content plus one, ``!`` and the content. Names and quantization are not in it; they
are in the attribute ``fitzroy.tensors``, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fitzroy.base.errors import FormatError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.formats.bytecode_module import FunctionSignatureDef, ReflectionAttrDef

VERSION = "fv"
SIGNATURE = "f"
TENSORS = "fitzroy.tensors"

_CODES = {
    DType.FLOAT32: 0,
    DType.FLOAT16: 1,
    DType.FLOAT64: 2,
    DType.INT8: 4,
    DType.INT16: 5,
    DType.INT32: 6,
    DType.INT64: 7,
    DType.UINT8: 8,
    DType.UINT16: 9,
    DType.UINT32: 10,
    DType.UINT64: 11,
    DType.BOOL: 8,
}
"""Scalar types of signatures; truth values are bytes."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument or result.

    Attributes:
        name: its name in the model.
        type: its type.
    """

    name: str
    type: TensorType


def _item(letter: str, content: str) -> str:
    return f"{letter}{len(content) + 1}!{content}"


def signature(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """The raw signature of a function of buffers.

    Raises:
        FormatError: an element type that signatures do not have.
    """
    return _item("I", "".join(map(_buffer, inputs))) + _item("R", "".join(map(_buffer, outputs)))


def _buffer(tensor: Tensor) -> str:
    code = _CODES.get(tensor.type.dtype)
    if code is None:
        raise FormatError(f"signatures have no {tensor.type.dtype.value}", table=tensor.name)
    return _item("B", (f"t{code}" if code else "") + "".join(f"d{n}" for n in tensor.type.shape))


def attributes(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[ReflectionAttrDef]:
    """All attributes of a function of buffers."""
    tensors = {
        side: [_described(item) for item in items]
        for side, items in (("inputs", inputs), ("outputs", outputs))
    }
    found = {
        VERSION: "1",
        SIGNATURE: signature(inputs, outputs),
        TENSORS: json.dumps(tensors, separators=(",", ":")),
    }
    return [ReflectionAttrDef(key=key, value=value) for key, value in found.items()]


def _described(tensor: Tensor) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": tensor.name,
        "type": tensor.type.dtype.value,
        "shape": list(tensor.type.shape),
    }
    quantization = tensor.type.quantization
    if quantization is not None:
        found["scale"] = list(quantization.scale)
        found["zero_point"] = list(quantization.zero_point)
        if quantization.axis is not None:
            found["axis"] = quantization.axis
    return found


def tensors(function: FunctionSignatureDef) -> tuple[list[Tensor], list[Tensor]] | None:
    """Arguments and results of a function as it describes them; None if it does not.

    Raises:
        FormatError: a description that is none.
    """
    for item in function.reflection_attrs or ():
        if item.key == TENSORS:
            try:
                found = json.loads(item.value or "")
                return (
                    [_tensor(entry) for entry in found["inputs"]],
                    [_tensor(entry) for entry in found["outputs"]],
                )
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise FormatError(f"the attribute {TENSORS} cannot be read: {error}") from None
    return None


def _tensor(entry: dict[str, Any]) -> Tensor:
    quantization = None
    if "scale" in entry:
        axis = entry.get("axis")
        quantization = Quantization(
            tuple(map(float, entry["scale"])),
            tuple(map(int, entry["zero_point"])),
            None if axis is None else int(axis),
        )
    shape = tuple(map(int, entry["shape"]))
    if min(shape, default=1) < 0:
        raise ValueError(f"shape {list(shape)}")
    return Tensor(str(entry["name"]), TensorType(shape, DType(entry["type"]), quantization))
