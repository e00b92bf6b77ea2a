"""Models that are cut, and operators that are appended to them."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from fitzroy.base.errors import FitzroyError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array, is_usable_scale
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints
from fitzroy.tflite_runtime.errors import ArgumentError, raising

Byte = type[np.uint8] | type[np.int8]
"""A type of quantized 8-bit elements."""

QUANTIZED: dict[int, Byte] = {
    int(tflite.TensorType.UINT8): np.uint8,
    int(tflite.TensorType.INT8): np.int8,
}
"""Types of quantized 8-bit elements by TFLite's."""


def read_prototype(path: str | os.PathLike[str]) -> tflite.Model:
    """The model of a file, without signatures and labels, of tensors and classes that will change.

    Raises:
        ArgumentError: the file cannot be read; a ValueError.
        FormatError: it is malformed; a ValueError, too.
    """
    name = os.fspath(path)
    try:
        data = read_file(name)
    except FitzroyError as error:
        raise ArgumentError(
            f"Failed to open file: {name}", reason=error.what, hint=error.hint
        ) from error
    with raising(ValueError):
        return replace(tflite.read_model(data, name), signature_defs=None, archive=None)


def main_graph(model: tflite.Model) -> tflite.SubGraph:
    """The first subgraph."""
    return (model.subgraphs or [])[0]


def with_graph(model: tflite.Model, **changes: object) -> tflite.Model:
    """A model with changes to its first subgraph."""
    graph = replace(main_graph(model), **changes)  # type: ignore[arg-type]
    return replace(model, subgraphs=[graph, *(model.subgraphs or [])[1:]])


def quantization_of(tensor: tflite.Tensor) -> tuple[float, int]:
    """Scale and zero point of a tensor with one of each.

    Raises:
        ArgumentError: it has none, or several, or such as no element can have.
    """
    found = tensor.quantization
    scales = [] if found is None or found.scale is None else found.scale.tolist()
    points = [] if found is None or found.zero_point is None else found.zero_point.tolist()
    if len(scales) != 1 or len(points) != 1 or tensor.type not in QUANTIZED:
        raise ArgumentError(
            f"tensor {tensor.name!r} is not quantized to 8 bits with one scale",
            reason=f"it has {len(scales)} scales",
        )
    limits = np.iinfo(QUANTIZED[tensor.type])
    if not is_usable_scale(scales[0]) or not limits.min <= points[0] <= limits.max:
        raise ArgumentError(
            f"tensor {tensor.name!r} has no usable quantization",
            reason=f"scale {scales[0]:.7g}, zero point {points[0]}",
        )
    return scales[0], points[0]


def quantized(real: Array, scale: float, zero_point: int, dtype: Byte | type[np.int32]) -> Array:
    """Elements that stand for real numbers, rounded half away from zero."""
    limits = np.iinfo(dtype)
    steps = np.asarray(real, np.float64) / scale + zero_point
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return np.clip(rounded, limits.min, limits.max).astype(dtype)


def parameters(scale: float, zero_point: int) -> tflite.QuantizationParameters:
    """Quantization with one scale."""
    return tflite.QuantizationParameters(
        scale=np.array([scale], np.float32), zero_point=np.array([zero_point], np.int64)
    )


class Appender:
    """Appends operators to the output of a model with one output.

    Args:
        model: the model; it is not changed.

    Raises:
        ArgumentError: it has several subgraphs or outputs.
    """

    def __init__(self, model: tflite.Model) -> None:
        graphs = model.subgraphs or []
        if len(graphs) != 1 or len(ints(graphs[0].outputs)) != 1:
            raise ArgumentError(
                "Model must have one and only one subgraph and output",
                reason=f"it has {len(graphs)} subgraphs; the first has "
                f"{len(ints(graphs[0].outputs))} outputs",
            )
        self._model = model
        self._tensors = list(graphs[0].tensors or ())
        self._operators = list(graphs[0].operators or ())
        self._codes = list(model.operator_codes or ())
        self._buffers = list(model.buffers or ()) or [tflite.Buffer()]
        self._last = ints(graphs[0].outputs)[0]

    @property
    def output(self) -> tflite.Tensor:
        """The tensor that the operators so far compute."""
        return self._tensors[self._last]

    def constant(self, name: str, data: Array, quantization: tflite.QuantizationParameters) -> int:
        """Add a constant; returns its number."""
        self._buffers.append(tflite.Buffer(data=np.frombuffer(data.tobytes(), np.uint8)))
        types = {np.uint8: "UINT8", np.int8: "INT8", np.int32: "INT32"}
        type = tflite.TensorType[types[data.dtype.type]]
        return self._tensor(name, type, data.shape, quantization, len(self._buffers) - 1)

    def append(
        self,
        code: tflite.OperatorCode,
        options: tflite.Options,
        operands: tuple[int, ...],
        output: tuple[str, tuple[int, ...], tflite.QuantizationParameters],
    ) -> None:
        """Add an operator on the last output and on constants.

        Args:
            code: the operator and its version.
            options: its options.
            operands: numbers of its further inputs.
            output: name, shape and quantization of its output, of the last one's element type.
        """
        name, shape, quantization = output
        given = self._last
        self._last = self._tensor(name, self.output.type, shape, quantization, 0)
        self._operators.append(
            tflite.Operator(
                opcode_index=self._code(code),
                inputs=np.array([given, *operands], np.int32),
                outputs=np.array([self._last], np.int32),
                builtin_options=options,
            )
        )

    def finished(self) -> bytes:
        """The model with what was appended."""
        model = with_graph(
            replace(self._model, operator_codes=self._codes, buffers=self._buffers),
            tensors=self._tensors,
            operators=self._operators,
            outputs=np.array([self._last], np.int32),
        )
        return tflite.write_model(model)

    def _tensor(
        self,
        name: str,
        type: int,
        shape: tuple[int, ...],
        quantization: tflite.QuantizationParameters,
        buffer: int,
    ) -> int:
        self._tensors.append(
            tflite.Tensor(
                shape=np.array(shape, np.int32),
                type=int(type),
                buffer=buffer,
                name=name,
                quantization=quantization,
            )
        )
        return len(self._tensors) - 1

    def _code(self, code: tflite.OperatorCode) -> int:
        key = (code.builtin_code, code.version)
        for number, item in enumerate(self._codes):
            if not tflite.is_custom(item) and (tflite.builtin_number(item), item.version) == key:
                return number
        self._codes.append(code)
        return len(self._codes) - 1
