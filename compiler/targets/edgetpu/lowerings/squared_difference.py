"""Squares of differences, as in variances: a difference of 8 bits, and a table of its squares."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting

_STEPS = 127
"""Steps from zero to the largest difference."""


def _largest(call: Call) -> float:
    """The largest difference whose square is in the range of the result."""
    type = call.result.type
    assert type.quantization is not None, "a condition of all operators"
    top = type.quantization.scale[0] * (type.dtype.limits[1] - type.quantization.zero_point[0])
    return math.sqrt(max(top, 0.0))


def difference_type(call: Call) -> TensorType:
    """The type of the differences: no step is lost on those whose squares are out of range."""
    type = call.result.type
    scale = float(np.float32(_largest(call) / _STEPS))
    zero = 0 if type.dtype is DType.INT8 else _STEPS + 1
    return TensorType(type.shape, type.dtype, Quantization.per_tensor(scale, zero))


@requires("squared_difference")
def _has_squares(call: Call) -> Iterator[Reject]:
    """A result without positive numbers has no scale to square at."""
    if call.result.type.quantization is not None and not _largest(call):
        yield refused(call, "has no positive numbers as results")


@legalizes("squared_difference")
def _squared_difference(legalizer: Legalizer, call: Call) -> None:
    rewriting = Rewriting.of(legalizer, call)
    inputs, type = call.node.inputs, difference_type(call)
    difference = rewriting.emit("sub", inputs, type, ActivationAttributes())
    result = call.result
    rewriting.emit("square", [difference], result.type, result=result.name)
    rewriting.run(legalizer)
