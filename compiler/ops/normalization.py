"""Operators that normalize along the last dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import real, reals, stored
from fitzroy.compiler.ops.tflite_options import activation_of
from fitzroy.compiler.ops.windows import Activation
from fitzroy.formats import tflite
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics import tflite as tflite_kernels


class Normalization(Operator):
    """Base: computes on real numbers, whatever the representation."""

    def on_reals(self, call: Call, x: Array) -> Array:
        """The function on float32."""
        raise NotImplementedError

    def infer(self, call: Call) -> Sequence[Expected]:
        real(call.type())
        real(call.result.type)
        demand(call.type().rank > 0, "a scalar")
        demand(call.type().shape[-1] > 0, "empty rows")
        return [Expected(call.type().shape, call.type().dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        return [stored(self.on_reals(call, reals(x, call.type())), call.result.type)]


@dataclass(frozen=True)
class SoftmaxAttributes(Attributes):
    """Attributes of softmax: the factor of the exponents."""

    beta: float = 1.0


@define
class Softmax(Normalization):
    """Exponentials divided by their sum."""

    name = "softmax"
    attributes = SoftmaxAttributes
    tflite = ("SOFTMAX",)

    def _beta(self, call: Call) -> float:
        return call.attributes(SoftmaxAttributes).beta

    def on_reals(self, call: Call, x: Array) -> Array:
        return numerics.softmax(x, self._beta(call))

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        if arithmetic is Arithmetic.TFLITE and x is not None and call.type().is_quantized:
            return [tflite_kernels.softmax(x, call.type(), call.result.type, self._beta(call))]
        return super().evaluate(call, arrays, arithmetic)

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(SoftmaxAttributes(1.0 if options is None else options.beta))

    def to_tflite(self, call: Call) -> Exported:
        return Exported("SOFTMAX", tflite.SoftmaxOptions(beta=self._beta(call)))


@define
class LogSoftmax(Normalization):
    """Logarithm of softmax."""

    name = "log_softmax"
    tflite = ("LOG_SOFTMAX",)
    table = "LogSoftmaxOptions"

    def on_reals(self, call: Call, x: Array) -> Array:
        shifted = x - x.max(axis=-1, keepdims=True)
        total = np.exp(shifted).sum(axis=-1, keepdims=True, dtype=np.float32)
        result: Array = shifted - np.log(total)
        return result


@dataclass(frozen=True)
class ResponseAttributes(Attributes):
    """Attributes of local response normalization.

    Attributes:
        radius: channels to either side that count.
        bias: added to the weighted sum of squares.
        alpha: weight of the squares.
        beta: exponent of the divisor.
    """

    radius: int = 5
    bias: float = 1.0
    alpha: float = 1.0
    beta: float = 0.5


@define
class LocalResponseNormalization(Operator):
    """Each element divided by a power of the sum of squares over the channels around it."""

    name = "local_response_normalization"
    attributes = ResponseAttributes
    tflite = ("LOCAL_RESPONSE_NORMALIZATION",)

    def infer(self, call: Call) -> Sequence[Expected]:
        type = call.type()
        demand(type.dtype is DType.FLOAT32 and type.rank >= 1, f"the operand is {type}")
        demand(call.attributes(ResponseAttributes).radius >= 0, "a negative radius")
        return [Expected(type.shape, type.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = call.attributes(ResponseAttributes)
        channels = x.shape[-1]
        ends = np.cumsum(np.square(x, dtype=np.float64), axis=-1)
        sums = np.concatenate([np.zeros((*x.shape[:-1], 1)), ends], axis=-1)
        places = np.arange(channels)
        first = np.maximum(places - a.radius, 0)
        last = np.minimum(places + a.radius + 1, channels)
        total = (sums[..., last] - sums[..., first]).astype(np.float32)
        divisor = np.float32(a.bias) + np.float32(a.alpha) * total
        return [np.asarray(x * np.power(divisor, -np.float32(a.beta)), np.float32)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        o = options
        return Imported(ResponseAttributes(o.radius, o.bias, o.alpha, o.beta))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(ResponseAttributes)
        table = tflite.LocalResponseNormalizationOptions(
            radius=a.radius, bias=a.bias, alpha=a.alpha, beta=a.beta
        )
        return Exported("LOCAL_RESPONSE_NORMALIZATION", table)


@define
class L2Normalization(Normalization):
    """Each row divided by its Euclidean length."""

    name = "l2_normalization"
    tflite = ("L2_NORMALIZATION",)
    table = "L2NormOptions"

    def on_reals(self, call: Call, x: Array) -> Array:
        squares = np.square(x).sum(axis=-1, keepdims=True, dtype=np.float32)
        result: Array = x / np.sqrt(np.maximum(squares, np.float32(1e-12)))
        return result

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        code = 0 if options is None else options.fused_activation_function
        if activation_of(code) is not Activation.NONE:
            raise TypeRuleError("L2 normalization with a fused activation")
        return Imported(Attributes())
