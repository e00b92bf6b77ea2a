"""Operators on corresponding elements, with broadcasting of binary operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
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
from fitzroy.compiler.ops.tflite_options import activation_code, activation_of, tensor_code
from fitzroy.compiler.ops.windows import Activation
from fitzroy.formats import tflite
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics import tflite as tflite_kernels


def reals(x: Array, type: TensorType) -> Array:
    """The real numbers that elements of a type stand for; others are what they are."""
    return x if type.quantization is None else numerics.dequantize(x, type.quantization)


def stored(x: Array, type: TensorType) -> Array:
    """Real numbers as a type stores them."""
    quantization = type.quantization
    return x if quantization is None else numerics.quantize(x, quantization, type.dtype)


def requantized(x: Array, before: TensorType, after: TensorType) -> Array:
    """Elements as another type stores them: XNNPACK's fixed point, or float32 beyond its range."""
    first, second = before.quantization, after.quantization
    if first is None or second is None or (first == second and before.dtype is after.dtype):
        return x
    if before.dtype is after.dtype and not numerics.conversion_fits(first, second):
        return stored(reals(x, before), after)
    return numerics.convert(x, before, after)


# --- one operand ---------------------------------------------------------------------------------


def real(type: TensorType) -> None:
    """Demand that elements are, or stand for, real numbers.

    Raises:
        TypeRuleError: they are plain integers or booleans.
    """
    demand(
        type.is_quantized or type.dtype is DType.FLOAT32,
        f"an operand is {type.dtype.value} without quantization; float32 or quantized is expected",
    )


class Unary(Operator):
    """Base of functions of one real number.

    Class attributes:
        smooth: whether small changes of the number make small ones of the result.
        keeps_type: whether TFLite's kernel gives the operand's type, whatever the file says.
    """

    elementwise = True
    smooth: ClassVar[bool] = True
    keeps_type: ClassVar[bool] = False

    def parameters(self, call: Call) -> dict[str, float]:
        """Parameters of the function, by the names of `numerics.unary`."""
        return {}

    def infer(self, call: Call) -> Sequence[Expected]:
        real(call.type())
        real(call.result.type)
        both = call.type().is_quantized and call.result.type.is_quantized
        return [Expected(call.type().shape, None if both else call.type().dtype)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        before, after = call.type().dtype, call.result.type.dtype
        demand(
            before is after or not self.keeps_type,
            f"the operand is {before.value} and the result {after.value}",
        )
        return Imported(self.attributes())

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        return [
            numerics.unary(self.name, x, call.type(), call.result.type, **self.parameters(call))
        ]


@define
class Abs(Unary):
    """Absolute value."""

    name = "abs"
    tflite = ("ABS",)


@define
class Ceil(Unary):
    """Rounding up to an integer."""

    name = "ceil"
    tflite = ("CEIL",)
    smooth = False


@define
class Floor(Unary):
    """Rounding down to an integer."""

    name = "floor"
    tflite = ("FLOOR",)
    smooth = False


@define
class Negate(Unary):
    """Negation."""

    name = "negate"
    keeps_type = True
    tflite = ("NEG",)


@define
class Square(Unary):
    """Square."""

    name = "square"
    tflite = ("SQUARE",)


@define
class Sqrt(Unary):
    """Square root."""

    name = "sqrt"
    tflite = ("SQRT",)


@define
class Rsqrt(Unary):
    """Reciprocal of the square root."""

    name = "rsqrt"
    tflite = ("RSQRT",)


@define
class Exp(Unary):
    """Exponential function."""

    name = "exp"
    keeps_type = True
    tflite = ("EXP",)


@define
class Log(Unary):
    """Natural logarithm."""

    name = "log"
    tflite = ("LOG",)


@define
class Sin(Unary):
    """Sine."""

    name = "sin"
    tflite = ("SIN",)


@define
class Cos(Unary):
    """Cosine."""

    name = "cos"
    tflite = ("COS",)


@define
class Tanh(Unary):
    """Hyperbolic tangent."""

    name = "tanh"
    tflite = ("TANH",)


@define
class Logistic(Unary):
    """Logistic function 1 / (1 + exp(-x))."""

    name = "sigmoid"
    tflite = ("LOGISTIC",)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        if arithmetic is Arithmetic.TFLITE and x is not None and call.type().is_quantized:
            return [tflite_kernels.logistic(x, call.type(), call.result.type)]
        return super().evaluate(call, arrays, arithmetic)


@define
class HardSwish(Unary):
    """Hard swish x * relu6(x + 3) / 6."""

    name = "hardswish"
    tflite = ("HARD_SWISH",)


@dataclass(frozen=True)
class GeluAttributes(Attributes):
    """Attributes of the Gaussian error linear unit."""

    approximate: bool = False


@define
class Gelu(Unary):
    """Gaussian error linear unit, exact or with the tanh approximation."""

    name = "gelu"
    attributes = GeluAttributes
    tflite = ("GELU",)

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(GeluAttributes(bool(options and options.approximate)))

    def to_tflite(self, call: Call) -> Exported:
        return Exported(
            "GELU", tflite.GeluOptions(approximate=call.attributes(GeluAttributes).approximate)
        )

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        if not call.attributes(GeluAttributes).approximate:
            return super().evaluate(call, arrays, arithmetic)
        (x,) = arrays
        assert x is not None
        real = reals(x, call.type())
        inner = np.float32(np.sqrt(2 / np.pi)) * (real + np.float32(0.044715) * real**3)
        result = stored(np.float32(0.5) * real * (1 + np.tanh(inner)), call.result.type)
        return [result.astype(call.result.type.dtype.numpy, copy=False)]


@dataclass(frozen=True)
class EluAttributes(Attributes):
    """Attributes of the exponential linear unit."""

    alpha: float = 1.0


@define
class Elu(Unary):
    """Exponential linear unit: x where positive, else alpha * (exp(x) - 1)."""

    name = "elu"
    attributes = EluAttributes
    tflite = ("ELU",)

    def parameters(self, call: Call) -> dict[str, float]:
        return {"alpha": call.attributes(EluAttributes).alpha}

    def to_tflite(self, call: Call) -> Exported:
        alpha = self.parameters(call)["alpha"]
        demand(alpha == 1, f"TFLite's ELU has alpha 1, not {alpha}")
        return Exported("ELU")


@dataclass(frozen=True)
class LeakyReluAttributes(Attributes):
    """Attributes of the leaky rectifier."""

    alpha: float = 0.2


@define
class LeakyRelu(Unary):
    """Leaky rectifier: x where positive, else alpha * x."""

    name = "leaky_relu"
    attributes = LeakyReluAttributes
    tflite = ("LEAKY_RELU",)

    def parameters(self, call: Call) -> dict[str, float]:
        return {"slope": call.attributes(LeakyReluAttributes).alpha}

    def scales_fit(self, call: Call) -> bool:
        before, after = call.type().quantization, call.result.type.quantization
        if before is None or after is None:
            return True
        slope = self.parameters(call)["slope"]
        return numerics.conversion_fits(before, after) and (
            slope == 0 or numerics.conversion_fits(before, after, slope)
        )

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        if x is None or self.scales_fit(call):
            return super().evaluate(call, arrays, arithmetic)
        slope = self.parameters(call)["slope"]
        real = reals(x, call.type())
        return [stored(np.where(real < 0, real * np.float32(slope), real), call.result.type)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(LeakyReluAttributes(0.0 if options is None else options.alpha))

    def to_tflite(self, call: Call) -> Exported:
        return Exported("LEAKY_RELU", tflite.LeakyReluOptions(alpha=self.parameters(call)["slope"]))


@dataclass(frozen=True)
class ClampAttributes(Attributes):
    """Attributes of a clamp: bounds in real numbers."""

    min: float = -float("inf")
    max: float = float("inf")


_CLAMPS = {
    "RELU": (0.0, float("inf")),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


@define
class Clamp(Unary):
    """Clamp to a range of real numbers; rectifiers are clamps."""

    name = "clamp"
    attributes = ClampAttributes
    tflite = tuple(_CLAMPS)

    def parameters(self, call: Call) -> dict[str, float]:
        a = call.attributes(ClampAttributes)
        return {"min": a.min, "max": a.max}

    def infer(self, call: Call) -> Sequence[Expected]:
        p = self.parameters(call)
        demand(p["min"] < p["max"], f"an empty range {p['min']} to {p['max']}")
        return super().infer(call)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        # Rounding is monotonic, so that clamping after a conversion loses nothing.
        type = call.result.type
        converted = requantized(x, call.type(), type)
        return [numerics.unary(self.name, converted, type, type, **self.parameters(call))]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(ClampAttributes(*_CLAMPS[builtin]))

    def to_tflite(self, call: Call) -> Exported:
        p = self.parameters(call)
        for builtin, bounds in _CLAMPS.items():
            if bounds == (p["min"], p["max"]):
                return Exported(builtin)
        raise TypeRuleError(f"TFLite has no clamp to {p['min']} to {p['max']}")


MOST_OPERATORS = 62
"""Most operators that a look-up takes the place of; few functions have ten."""


@dataclass(frozen=True)
class LookupAttributes(Attributes):
    """Attributes of a table: the stored result for each stored element, from the least on."""

    codes: tuple[int, ...] = ()


@define
class Lookup(Unary):
    """Any function of stored integers of 8 bits, as a table."""

    name = "lookup"
    attributes = LookupAttributes

    def infer(self, call: Call) -> Sequence[Expected]:
        codes, types = call.attributes(LookupAttributes).codes, (call.type(), call.result.type)
        for type in types:
            stored = type.is_quantized and type.dtype in (DType.INT8, DType.UINT8)
            demand(stored, f"{type} is no integer of 8 bits")
        low, high = types[1].dtype.limits
        demand(len(codes) == _CODES, f"{len(codes)} codes, {_CODES} are expected")
        demand(low <= min(codes) and max(codes) <= high, f"codes beyond {low} to {high}")
        return super().infer(call)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        codes = np.array(call.attributes(LookupAttributes).codes, call.result.type.dtype.numpy)
        return [codes[x.astype(np.intp) - int(call.type().dtype.limits[0])]]


_CODES = 256
"""Elements of 8 bits."""


# --- conversions ---------------------------------------------------------------------------------


class Conversion(Operator):
    """Base of conversions between representations of the same real number."""

    elementwise = True

    def scales_fit(self, call: Call) -> bool:
        before, after = call.type(), call.result.type
        if before.quantization is None or after.quantization is None:
            return True
        return before.dtype is not after.dtype or numerics.conversion_fits(
            before.quantization, after.quantization
        )

    def infer(self, call: Call) -> Sequence[Expected]:
        for value in (call.operand(0), call.result):
            type = value.type
            demand(
                type.quantization is not None or type.dtype.is_float,
                f"{value.name!r} is {type}, neither quantized nor floating-point",
            )
        return [Expected(call.type().shape)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        before, after = call.type(), call.result.type
        if before == after:
            return [x]
        if before.quantization is not None and after.quantization is None:
            return [numerics.dequantize(x, before.quantization).astype(after.dtype.numpy)]
        if before.quantization is None and after.quantization is None:
            return [x.astype(after.dtype.numpy)]
        if before.quantization is None and after.quantization is not None:
            return [numerics.quantize(x.astype(np.float32), after.quantization, after.dtype)]
        if arithmetic is Arithmetic.TFLITE:
            return [tflite_kernels.requantize(x, before, after)]
        return [requantized(x, before, after)]


@define
class Quantize(Conversion):
    """Conversion of real numbers, or of other quantized integers, to quantized integers."""

    name = "quantize"
    tflite = ("QUANTIZE",)

    def infer(self, call: Call) -> Sequence[Expected]:
        demand(call.result.type.is_quantized, "the result is not quantized")
        return super().infer(call)


@define
class Dequantize(Conversion):
    """Conversion of quantized integers, or of float16, to float32."""

    name = "dequantize"
    tflite = ("DEQUANTIZE",)

    def infer(self, call: Call) -> Sequence[Expected]:
        super().infer(call)
        return [Expected(call.type().shape, DType.FLOAT32)]


@define
class Cast(Operator):
    """Conversion of numbers between element types, without quantization."""

    name = "cast"
    tflite = ("CAST",)
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        return [Expected(call.type().shape)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        # The imaginary part is left out where the result has none.
        if x.dtype.kind == "c" and call.result.type.dtype is not DType.COMPLEX64:
            x = x.real
        return [x.astype(call.result.type.dtype.numpy)]

    def to_tflite(self, call: Call) -> Exported:
        table = tflite.CastOptions(
            in_data_type=tensor_code(call.type().dtype),
            out_data_type=tensor_code(call.result.type.dtype),
        )
        return Exported("CAST", table)


# --- two operands --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActivationAttributes(Attributes):
    """Attributes of operators whose only attribute is a fused clamp."""

    activation: Activation = Activation.NONE


def broadcast(call: Call) -> tuple[int, ...]:
    """Shape of a binary result.

    Raises:
        TypeRuleError: the operands do not broadcast.
    """
    a, b = call.type(0).shape, call.type(1).shape
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise TypeRuleError(f"shapes {list(a)} and {list(b)} do not broadcast") from None


class Binary(Operator):
    """Base of functions of two real numbers.

    Class attributes:
        kernel: name of the numpy kernel.
    """

    operands = ("a", "b")
    elementwise = True
    kernel: ClassVar[str]

    def infer(self, call: Call) -> Sequence[Expected]:
        for none in (DType.BOOL, DType.COMPLEX64):
            demand(call.type(0).dtype is not none, f"operands are {none.value}")
        if self.kernel not in _PLAIN:
            real(call.type(0))
        demand(
            call.type(0).dtype is call.type(1).dtype,
            f"operands are {call.type(0).dtype.value} and {call.type(1).dtype.value}",
        )
        kinds = {type.is_quantized for type in (call.type(0), call.type(1), call.result.type)}
        demand(len(kinds) == 1, "quantized and plain tensors are mixed")
        return [Expected(broadcast(call), call.type(0).dtype)]

    def scales_fit(self, call: Call) -> bool:
        scales = [call.type(0).quantization, call.type(1).quantization]
        a, b, out = (*scales, call.result.type.quantization)
        if a is None or b is None or out is None:
            return True
        if self.kernel == "multiply":
            return numerics.product_fits(a, b, out)
        return self.kernel not in ("add", "subtract") or numerics.sum_fits(a, b, out)

    def bounds(self, call: Call) -> tuple[float, float]:
        """Clamp of the result, in real numbers."""
        attributes = call.node.attributes
        if isinstance(attributes, ActivationAttributes):
            return attributes.activation.bounds
        return Activation.NONE.bounds

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a, b = arrays
        assert a is not None
        assert b is not None
        result = call.result.type
        if result.quantization is None and not result.dtype.is_float:
            return [
                np.clip(
                    _PLAIN[self.kernel](a, b), *_integer_bounds(self.bounds(call), result.dtype)
                )
            ]
        types = (call.type(0), call.type(1), result)
        if self.kernel == "prelu" and arithmetic is Arithmetic.TFLITE and result.is_quantized:
            return [tflite_kernels.prelu(a, b, *types)]
        if self.attributes is Attributes:
            return [getattr(numerics, self.kernel)(a, b, *types)]
        low, high = self.bounds(call)
        if not self.scales_fit(call):
            exact = _PLAIN[self.kernel](reals(a, types[0]), reals(b, types[1]))
            clamped = np.clip(exact, np.float32(low), np.float32(high), dtype=np.float32)
            return [stored(clamped, result)]
        if arithmetic is Arithmetic.TFLITE and result.is_quantized and self.kernel in _TFLITE:
            return [_TFLITE[self.kernel](a, b, *types, low=low, high=high)]
        return [getattr(numerics, self.kernel)(a, b, *types, low=low, high=high)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        if self.attributes is Attributes:
            return Imported(Attributes())
        code = 0 if options is None else options.fused_activation_function
        return Imported(ActivationAttributes(activation_of(code)))

    def to_tflite(self, call: Call) -> Exported:
        attributes = call.node.attributes
        fields = {}
        if isinstance(attributes, ActivationAttributes):
            fields["fused_activation_function"] = activation_code(attributes.activation)
        return Exported(self.tflite[0], self.options(**fields))


_TFLITE: dict[str, Callable[..., Array]] = {
    "add": tflite_kernels.add,
    "subtract": partial(tflite_kernels.add, subtract=True),
    "multiply": tflite_kernels.multiply,
}
"""Kernels of TFLite's reference that differ from XNNPACK's."""


def _integer_bounds(bounds: tuple[float, float], dtype: DType) -> tuple[int, int]:
    low, high = dtype.limits
    return int(max(low, bounds[0])), int(min(high, bounds[1]))


def _truncated_quotient(a: Array, b: Array) -> Array:
    return np.trunc(a / b).astype(a.dtype)


_PLAIN: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": _truncated_quotient,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


@define
class Add(Binary):
    """Sum."""

    name = "add"
    attributes = ActivationAttributes
    tflite = ("ADD",)
    kernel, table = "add", "AddOptions"


@define
class Sub(Binary):
    """Difference."""

    name = "sub"
    attributes = ActivationAttributes
    tflite = ("SUB",)
    kernel, table = "subtract", "SubOptions"


@define
class Mul(Binary):
    """Product."""

    name = "mul"
    attributes = ActivationAttributes
    tflite = ("MUL",)
    kernel, table = "multiply", "MulOptions"


@define
class Div(Binary):
    """Quotient."""

    name = "div"
    attributes = ActivationAttributes
    tflite = ("DIV",)
    kernel, table = "divide", "DivOptions"


@define
class Minimum(Binary):
    """Smaller of two."""

    name = "minimum"
    tflite = ("MINIMUM",)
    kernel, table = "minimum", "MaximumMinimumOptions"


@define
class Maximum(Binary):
    """Larger of two."""

    name = "maximum"
    tflite = ("MAXIMUM",)
    kernel, table = "maximum", "MaximumMinimumOptions"


@define
class Prelu(Binary):
    """Parametric leaky rectifier: x where positive, else x times the slope of its channel."""

    name = "prelu"
    operands = ("input", "slope")
    tflite = ("PRELU",)
    kernel = "prelu"


@define
class SquaredDifference(Operator):
    """Square of the difference."""

    name = "squared_difference"
    operands = ("a", "b")
    tflite = ("SQUARED_DIFFERENCE",)
    elementwise = True

    def infer(self, call: Call) -> Sequence[Expected]:
        a, b = call.type(0).dtype, call.type(1).dtype
        demand(a is b and a is not DType.BOOL, f"operands are {a.value} and {b.value}")
        return [Expected(broadcast(call), a)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a, b = (reals(x, call.type(i)) for i, x in enumerate(arrays) if x is not None)
        return [stored(np.square(a - b), call.result.type)]
