"""Models for the tests of TFLite's interface."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from tests.sharing import shared

import fitzroy
from fitzroy.base.types import Array
from fitzroy.formats import tflite
from fitzroy.formats.tflite import QuantizationParameters, TensorType

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "models" / "digits.tflite"


@cache
def compiled_digits() -> bytes:
    """The digits model, compiled for the Edge TPU."""
    source = DIGITS.read_bytes()
    return shared(("digits_edgetpu", source), lambda: fitzroy.compile_edgetpu(DIGITS).data)


def image(seed: int = 0) -> Array:
    """An image for the digits model."""
    return np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)


def tensors_of_every_kind() -> bytes:
    """A model with tensors of every element type and quantization, and two signatures."""
    extents = _integers(2, 3)
    tensors = [tflite.Tensor(shape=extents, type=int(kind), name=kind.name) for kind in TensorType]
    quantizations = {
        "one scale": _scales((0.1,), (3,)),
        "two scales": _scales((0.1, 0.2), (3, 4)),
        "scales of columns": _scales((0.1, 0.2, 0.3), (3, 4, 5), 1),
        "a range": QuantizationParameters(
            min=np.array([-1], np.float32), max=np.array([1], np.float32)
        ),
    }
    tensors += [
        tflite.Tensor(shape=extents, type=int(TensorType.INT8), name=name, quantization=found)
        for name, found in quantizations.items()
    ]
    real = int(TensorType.FLOAT32)
    row = _integers(1, 3)
    tensors += [
        tflite.Tensor(shape=_integers(), type=real, name="scalar", has_rank=True),
        tflite.Tensor(type=real, name="no shape"),
        tflite.Tensor(shape=row, shape_signature=_integers(-1, 3), type=real, name="open"),
        tflite.Tensor(shape=row, type=real),
        tflite.Tensor(shape=row, type=real, name="constant", buffer=1),
        tflite.Tensor(shape=row, type=real, name="state", is_variable=True),
        tflite.Tensor(shape=row, type=real, name="input"),
        tflite.Tensor(shape=row, type=real, name="output"),
    ]
    source, target = len(tensors) - 2, len(tensors) - 1
    given = [tflite.TensorMap(name="x", tensor_index=source)]
    made = [tflite.TensorMap(name="y", tensor_index=target)]
    both = [*made, tflite.TensorMap(name="a", tensor_index=source)]
    inputs, outputs = _integers(source), _integers(target)
    operator = tflite.Operator(opcode_index=0, inputs=inputs, outputs=outputs)
    graph = tflite.SubGraph(tensors=tensors, operators=[operator], inputs=inputs, outputs=outputs)
    model = tflite.Model(
        version=3,
        operator_codes=[tflite.operator_code(tflite.BuiltinOperator.ABS)],
        subgraphs=[graph],
        buffers=[
            tflite.Buffer(),
            tflite.Buffer(data=np.array([1, 2, 3], np.float32).view(np.uint8)),
        ],
        signature_defs=[
            tflite.SignatureDef(signature_key="two", inputs=given, outputs=both),
            tflite.SignatureDef(signature_key="one", inputs=given, outputs=made),
        ],
    )
    return tflite.write_model(model)


def _integers(*values: int) -> Array:
    return np.array(values, np.int32)


def _scales(
    scales: tuple[float, ...], points: tuple[int, ...], axis: int = 0
) -> QuantizationParameters:
    return QuantizationParameters(
        scale=np.array(scales, np.float32),
        zero_point=np.array(points, np.int64),
        quantized_dimension=axis,
    )
